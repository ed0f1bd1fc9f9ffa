"""scripts/pins: every Python package that is asked for has one version, on both supported Debians."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import pins  # noqa: E402

PYTHONS = ("3.11", "3.13")  # Debian 12, Debian 13
HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
BUILD = {"setuptools", "wheel"}  # of pip's own builds; python3 -m venv puts another setuptools into an environment


def pinned(name: str, python: str) -> dict[str, str]:
    return pins.read((ROOT / "scripts/pins" / f"{name}.txt").read_text().splitlines(), python)


def asked_of_us() -> list[str]:
    """What pyproject.toml asks for, of all extras, and to build."""
    document = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project = document["project"]
    asked = [*document["build-system"]["requires"], *project["dependencies"]]
    for extra in project["optional-dependencies"].values():
        asked += [line for line in extra if Requirement(line).name != project["name"]]
    return asked


def asked_by_programs() -> list[tuple[str, str]]:
    """Environment and requirement, of PROGRAMS in scripts/lib.sh."""
    script = 'source scripts/lib.sh; for name in "${!PROGRAMS[@]}"; do echo "$name ${PROGRAMS[$name]}"; done'
    told = subprocess.run(["bash", "-c", script], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [(name, word) for name, *words in map(str.split, told.splitlines()) for word in words]


ASKED = [*(("dev", line) for line in asked_of_us()), *sorted(asked_by_programs())]


def is_met(requirement: str, versions: dict[str, str]) -> bool:
    wanted = Requirement(requirement)
    version = versions.get(pins.canonical(wanted.name))
    return version is not None and version in wanted.specifier


def contradictions(versions: dict[str, str], installed: dict[str, str]) -> list[str]:
    return [
        f"{name} {version}, not {versions[name]}"
        for name, version in sorted(installed.items())
        if name not in BUILD and versions.get(name, version) != version
    ]


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize(("name", "requirement"), ASKED)
def test_a_requirement_has_a_version(name: str, requirement: str, python: str) -> None:
    assert is_met(requirement, pinned(name, python))


def test_a_version_out_of_range_is_found() -> None:
    assert is_met("pytest>=9,<10", {"pytest": "9.2.0"})
    assert not is_met("pytest>=9,<10", {"pytest": "10.0"})
    assert not is_met("SQLAlchemy[asyncio]==2.*", {})


def test_what_is_installed_is_what_is_pinned() -> None:
    """Of the environment that runs this: `make dev` brings it up to date."""
    installed = {pins.canonical(found.name): found.version for found in distributions()}
    assert "pytest" in installed
    assert contradictions(pinned("dev", HERE), installed) == []


def test_nothing_that_our_packages_want_is_left_to_chance() -> None:
    """Whatever is installed beside pip and us has a pin: also what a requirement of ours requires."""
    ours = {"pip", "pg-epsilon", *BUILD}
    installed = {pins.canonical(found.name) for found in distributions()} - ours
    assert installed - pinned("dev", HERE).keys() == set()


def test_another_version_is_found() -> None:
    assert contradictions({"numpy": "2.4.6"}, {"numpy": "2.5.0", "wheel": "1"}) == ["numpy 2.5.0, not 2.4.6"]


@pytest.mark.parametrize("name", ["dev", "pgspot", "pgcli", "pgadmin"])
def test_what_builds_is_pinned_too(name: str) -> None:
    assert all(pinned(name, python).keys() >= BUILD for python in PYTHONS)


def test_pythons_are_merged() -> None:
    frozen = {"3.11": pins.frozen(["A_b==1", "c==2", "d==4"]), "3.13": pins.frozen(["a-b==1", "c==3", ""])}
    lines = pins.merged(frozen)
    assert lines == [
        "a-b==1",
        'c==2 ; python_version == "3.11"',
        'c==3 ; python_version == "3.13"',
        'd==4 ; python_version == "3.11"',
    ]
    assert [pins.read(lines, python) for python in PYTHONS] == [frozen["3.11"], frozen["3.13"]]


@pytest.mark.parametrize("line", ["a @ file:///tmp/a.whl", "-e /tmp/a", "a", "a==1 --hash=x"])
def test_what_is_no_release_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="not a release"):
        pins.frozen([line])
    with pytest.raises(ValueError, match="not a pin"):
        pins.read([line], "3.11")


def test_both_pythons_must_have_been_asked(tmp_path: Path) -> None:
    (tmp_path / "dev-3.11.txt").write_text("a==1\n")
    with pytest.raises(SystemExit, match=r"3\.11 alone"):
        pins.main(tmp_path, tmp_path)
