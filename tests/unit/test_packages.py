"""A wheel holds every package of the checkout: one that pyproject.toml forgets is missing on a server only."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_package_is_installed() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    found = {
        ".".join(folder.relative_to(source).parts)
        for source in (ROOT / "extension", ROOT / "proxy")
        for folder in {path.parent for path in source.glob("pg_epsilon*/**/*.py")}
    }
    assert sorted(listed) == sorted(found)
