"""The other Debian: tests/versions.txt, and what .ci/run and scripts/chroot.sh do where there is no base of it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tiers
import versions
from collected import everything

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import paths  # noqa: E402

CONTROLS = set((ROOT / "tests/fixtures/controls.txt").read_text(encoding="utf-8").split())
# What a server's version may change, and where it is seen.
KINDS = {
    "install": r"sql/test_check_tries",
    "upgrade": r"sql/test_upgrade",
    "dump and restore": r"sql/test_dump",
    "planner": r"sql/test_planning",
    "catalogs": r"sql/test_facade_statements",
    "DDL and triggers": r"sql/test_(owner_ddl|trigger_rights)",
    "roles": r"sql/test_grants",
    "partitions": r"sql/test_partitions",
    "ledger": r"sql/test_chain",
    "describe": r"clients/test_psql_commands",
    "a driver": r"clients/test_psycopg",
    "audit": r"privacy/test_replay_joins",
}


@pytest.fixture(scope="module")
def chosen(request: pytest.FixtureRequest) -> list[str]:
    """Node ids that `make test-versions` runs."""
    found = [item.nodeid for item in everything(request.config)]
    if found:
        return [node for node in found if node.startswith(tuple(f"{file}::" for file in versions.FILES))]
    words = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n", "0", *versions.FILES]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return [line for line in done.stdout.splitlines() if "::" in line]


@pytest.mark.long
def test_every_line_names_a_test(chosen: list[str]) -> None:
    assert [rule.pattern for rule in tiers.VERSIONS if not any(map(rule.is_chosen, chosen))] == []


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_there(kind: str, chosen: list[str]) -> None:
    assert any(re.match(f"tests/{KINDS[kind]}", node) for node in chosen if tiers.is_of_versions(node))


@pytest.mark.long
def test_the_audit_is_there_with_its_control(chosen: list[str]) -> None:
    audits = [node for node in chosen if tiers.is_of_versions(node) and node.startswith("tests/privacy/")]
    controls = [node for node in audits if node.partition("[")[0].removeprefix("tests/") in CONTROLS]
    assert controls
    assert len(audits) > len(controls)


def test_the_marks_are_those_of_the_list(request: pytest.FixtureRequest) -> None:
    """Of what was selected here, whatever it is."""
    for item in request.session.items:
        marked = item.get_closest_marker("versions") is not None
        assert marked == tiers.is_of_versions(item.nodeid), item.nodeid


def test_the_part_that_is_named_is_chosen() -> None:
    whole, part = tiers.read(["a.py::*", "1/3 b.py::*"])
    assert whole.is_chosen("a.py::test") and not whole.is_chosen("b.py::test")
    kept = [n for n in range(3000) if part.is_chosen(f"b.py::test[{n}]")]
    assert 900 < len(kept) < 1100


def ci_run(place: Path, bases: Path) -> subprocess.CompletedProcess[str]:
    """.ci/run of a tree where targets are only named, as root for what it can see."""
    for name in (".ci/run", "scripts/paths.py"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, place / name)
    stubs = {"scripts/targets.sh": 'echo "targets: $*"', "bin/make": 'echo "make $*"', "bin/id": "echo 0"}
    for name, text in stubs.items():
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text(f"#!/bin/sh\n{text}\n")
        (place / name).chmod(0o755)
    settings = {
        "PATH": f"{place}/bin:{os.environ['PATH']}",
        "PG_EPSILON_ALONE": "yes",
        "PG_EPSILON_BASES": str(bases),
        "PG_EPSILON_RUNTIME": str(place / "run"),
    }
    words = ["bash", str(place / ".ci/run")]
    return subprocess.run(words, env=os.environ | settings, capture_output=True, text=True, timeout=60)


def test_ci_runs_the_other_debian_where_its_base_stands(tmp_path: Path) -> None:
    (tmp_path / "bases" / paths.other_release()).mkdir(parents=True)
    done = ci_run(tmp_path / "tree", tmp_path / "bases")
    assert done.returncode == 0, done.stderr
    assert "targets: CI lint demo test-user test-versions test\n" in done.stdout
    assert done.stdout.index("make base-other") < done.stdout.index("targets:")
    assert "NOT run" not in done.stdout


def test_ci_says_that_it_does_not_run_it_and_is_content(tmp_path: Path) -> None:
    done = ci_run(tmp_path / "tree", tmp_path / "bases")
    assert done.returncode == 0, done.stderr
    assert "targets: CI lint demo test-user test\n" in done.stdout
    assert f"Debian {paths.other_release()} is NOT run" in done.stdout
    assert "make base-other" in done.stdout


def test_bases_stand_outside_every_checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PG_EPSILON_BASES", raising=False)
    assert paths.bases() == Path("/var/cache/pg_epsilon")
    monkeypatch.setenv("PG_EPSILON_BASES", str(tmp_path))
    assert paths.bases() == tmp_path


def test_a_place_where_others_write_holds_no_base(tmp_path: Path) -> None:
    """Whoever could write there would be root in every chroot."""
    bases = tmp_path / "bases"
    bases.mkdir()
    bases.chmod(0o777)
    words = [str(ROOT / "scripts/chroot.sh"), "--base", paths.other_release()]
    settings = {"PG_EPSILON_BASES": str(bases), "PG_EPSILON_RUNTIME": str(tmp_path / "run")}
    done = subprocess.run(words, env=os.environ | settings, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert ("not a directory of root's alone" in done.stderr) or ("needs root" in done.stderr)
    assert list(bases.iterdir()) == []
