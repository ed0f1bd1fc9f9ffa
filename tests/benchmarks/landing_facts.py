"""Numbers that runs of the tests left (scripts/lib.sh keep_time, scripts/steady.py), each with its source."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple


class Fact(NamedTuple):
    """A number, or None, and whence it is, or how to get it."""

    value: float | None
    source: str


def times(files: Iterable[Path]) -> list[dict[str, Any]]:
    """The lines of all files that exist, in their order: the latest of a file is its last."""
    lines = (line for file in files if file.exists() for line in file.read_text(encoding="utf-8").splitlines())
    return [json.loads(line) for line in lines]


def seconds(kept: list[dict[str, Any]], name: str, how: str) -> Fact:
    """Of the latest green run of that name. A part of the tests has another name (scripts/test.sh)."""
    green = [one for one in kept if one["name"] == name and one["status"] == 0]
    if not green:
        return Fact(None, f"no green run is kept: {how}")
    last = green[-1]
    return Fact(float(last["seconds"]), f"{name} at {last['commit'] or 'an unknown commit'}, load {last['load']}")


def red_runs(summary: Path, wanted: int) -> Fact:
    """Of whole runs under load: `make steady` of some tests, or without load, or of fewer runs, tells nothing."""
    how = f"make steady N={wanted}"
    if not summary.exists():
        return Fact(None, f"not measured: {how}")
    found = json.loads(summary.read_text(encoding="utf-8"))
    runs = found["runs"]
    if found["tests"] or not found["load"] or not found["commit"] or len(runs) < wanted:
        return Fact(None, f"the last one was of some tests, of {len(runs)} runs or without load: {how}")
    minutes = ", ".join(f"{run['minutes']:.0f}" for run in runs)
    return Fact(found["red"], f"of {len(runs)} runs at {found['commit'][:12]}, {minutes} minutes, seed {found['seed']}")


CHANCE = "chance: "  # of tests/chance_report.py: before the node id of a test, its probability and its words


def collected(output: str) -> int:
    """How many tests `pytest --collect-only -q` named."""
    return sum("::" in line and not line.startswith(CHANCE) for line in output.splitlines())


def false_alarms(output: str) -> Fact:
    """By chance alone a run of all that was collected is red with at most this probability."""
    lines = [line.removeprefix(CHANCE) for line in output.splitlines() if line.startswith(CHANCE)]
    if not lines:
        return Fact(None, "tests/chance_report.py is not there yet")
    told = [float(found[1]) for found in map(json.loads, lines) if found[1] is not None]
    return Fact(math.fsum(told), f"summed over {len(told)} tests that tell theirs, of all marks")
