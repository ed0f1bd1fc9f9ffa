"""What `make bench-landing` reads of earlier runs (tests/benchmarks/landing_facts.py): only whole, green ones count."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/benchmarks")]

import landing_facts  # noqa: E402
from landing_facts import Fact  # noqa: E402


def keep(folder: Path, name: str, seconds: int, status: int) -> None:
    """By the shell's own function, in a checkout that is no clone of git."""
    (folder / "scripts").mkdir(parents=True, exist_ok=True)
    (folder / "scripts/lib.sh").write_text((ROOT / "scripts/lib.sh").read_text())
    words = ["bash", "-c", 'source scripts/lib.sh && keep_time "$@"', "bash", name, str(seconds), str(status)]
    subprocess.run(words, cwd=folder, check=True)


def test_the_latest_green_run_counts(tmp_path: Path) -> None:
    for name, seconds, status in (
        ("make test", 300, 0),
        ("make test", 320, 0),
        ("make test", 10, 1),
        ("make test of some", 5, 0),
    ):
        keep(tmp_path, name, seconds, status)
    kept = landing_facts.times([tmp_path / "build/times.jsonl", tmp_path / "missing"])
    assert [one["seconds"] for one in kept] == [300, 320, 10, 5]
    fact = landing_facts.seconds(kept, "make test", "make test")
    assert fact.value == 320 and fact.source.startswith("make test at an unknown commit, load ")
    assert landing_facts.seconds(kept, "CI", ".ci/run") == Fact(None, "no green run is kept: .ci/run")


WHOLE: dict[str, Any] = {
    "commit": "0123456789abcdef",
    "tests": "",
    "load": True,
    "seed": 5,
    "red": 1,
    "runs": [{"minutes": 11.2}, {"minutes": 12.9}, {"minutes": 10.0}],
}


def test_red_runs_of_a_whole_steady(tmp_path: Path) -> None:
    (tmp_path / "steady.json").write_text(json.dumps(WHOLE))
    fact = landing_facts.red_runs(tmp_path / "steady.json", 3)
    assert fact == Fact(1, "of 3 runs at 0123456789ab, 11, 13, 10 minutes, seed 5")


@pytest.mark.parametrize(
    "change", [{"tests": "tests/sql"}, {"load": False}, {"commit": ""}, {"runs": [{"minutes": 1}]}]
)
def test_less_than_a_whole_steady_tells_nothing(change: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "steady.json").write_text(json.dumps(WHOLE | change))
    assert landing_facts.red_runs(tmp_path / "steady.json", 3).value is None
    assert landing_facts.red_runs(tmp_path / "none.json", 3) == Fact(None, "not measured: make steady N=3")


def test_what_collecting_tells() -> None:
    output = (
        'a.py::t[1]\na.py::u\nchance: ["a.py::t[1]", 1e-7, "b::c"]\nchance: ["a.py::u", null, ""]\n2 tests collected\n'
    )
    assert landing_facts.collected(output) == 2
    assert landing_facts.false_alarms(output) == Fact(1e-7, "summed over 1 tests that tell theirs, of all marks")
    assert landing_facts.false_alarms("a.py::t\n").value is None
