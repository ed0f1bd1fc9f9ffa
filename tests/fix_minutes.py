"""Minutes by folder: a run that takes a while ends with where its time went, and in which files the most.

Seconds are those of setup, call and teardown, summed over the workers: on two of them a run takes half.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import NamedTuple

import pytest
from _pytest.terminal import TerminalReporter

LEAST = 60.0  # seconds of tests: below, the table says nothing that the run's last line does not
FOLDERS = 9  # lines; what is in more folders is summed in one more
FILES = 3


class Phase(NamedTuple):
    """A setup, call or teardown of a test."""

    node: str
    seconds: float


class Share(NamedTuple):
    """What the tests of one folder, or of one file, took."""

    name: str
    tests: int
    seconds: float


def folder(node: str) -> str:
    """Of the path below tests/ the first folder; the file itself where there is none."""
    parts = PurePosixPath(node.partition("::")[0]).parts
    return parts[1] if parts[0] == "tests" and len(parts) > 1 else parts[0]


def file(node: str) -> str:
    return node.partition("::")[0].removeprefix("tests/")


def shares(named: Iterable[tuple[str, Phase]]) -> list[Share]:
    """By name, the dearest first."""
    tests: dict[str, set[str]] = defaultdict(set)
    seconds: dict[str, float] = defaultdict(float)
    for name, phase in named:
        tests[name].add(phase.node)
        seconds[name] += phase.seconds
    found = [Share(name, len(nodes), seconds[name]) for name, nodes in tests.items()]
    return sorted(found, key=lambda share: (-share.seconds, share.name))


def lines(phases: list[Phase], least: float = LEAST) -> list[str]:
    """The table; nothing for a short run."""
    total = sum(phase.seconds for phase in phases)
    if not phases or total < least:
        return []
    folders = shares((folder(phase.node), phase) for phase in phases)
    if rest := folders[FOLDERS:]:
        seconds = sum(share.seconds for share in rest)
        folders[FOLDERS:] = [Share("others", sum(share.tests for share in rest), seconds)]
    table = [f"{'folder':12} {'tests':>6} {'seconds':>8} {'share':>6}"]
    for name, tests, seconds in [*folders, Share("all", sum(s.tests for s in folders), total)]:
        table.append(f"{name:12} {tests:6} {seconds:8.1f} {seconds / total:6.0%}")
    dearest = shares((file(phase.node), phase) for phase in phases)[:FILES]
    table += [f"slowest: {s.name} ({s.tests} tests, {s.seconds:.1f} s)" for s in dearest]
    return table


def phases_of(stats: dict[str, list[object]]) -> list[Phase]:
    """Of what pytest's reporter keeps: reports of tests, beside warnings and what was deselected."""
    reports = (report for kept in stats.values() for report in kept)
    return [Phase(r.nodeid, r.duration) for r in reports if isinstance(r, pytest.TestReport)]


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    table = lines(phases_of(terminalreporter.stats))
    if table:
        terminalreporter.write_sep("=", "seconds of tests by folder, both workers together")
    for line in table:
        terminalreporter.write_line(line)
