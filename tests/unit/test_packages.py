"""A wheel holds every package of the checkout: one that is not found is missing on a server only."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLACES = {"pg_epsilon": "extension", "pg_epsilon_proxy": "proxy"}


def test_every_folder_of_modules_is_a_package() -> None:
    """setuptools finds packages by their __init__.py."""
    folders = {file.parent for name, place in PLACES.items() for file in (ROOT / place / name).rglob("*.py")}
    assert len(folders) > 10
    assert [str(folder) for folder in folders if not (folder / "__init__.py").exists()] == []


def test_packages_are_found_and_not_listed() -> None:
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    assert told["packages"]["find"]["where"] == list(PLACES.values())
    assert told["package-dir"] == {name: f"{place}/{name}" for name, place in PLACES.items()}
    assert all(name.startswith(told["packages"]["find"]["include"][0].rstrip("*")) for name in PLACES)
