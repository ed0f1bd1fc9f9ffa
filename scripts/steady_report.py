"""What several runs of the tests say together: which test failed in which of them.

Pure, but for reading pytest's own reports (junit XML).
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

WRONG = ("failure", "error")


@dataclass(frozen=True)
class Run:
    """One run. `tests` is None where it left no report; its exit status counts, not only its report."""

    number: int
    minutes: float
    status: int
    tests: int | None
    failed: tuple[str, ...]
    stopped: dict[str, int] = field(default_factory=dict)

    @property
    def red(self) -> bool:
        return self.status != 0 or self.tests is None or bool(self.failed)


def node(case: ElementTree.Element) -> str:
    """pytest's name of a test, from its report's: tests.sql.test_a and test_x give tests/sql/test_a.py::test_x."""
    place, name = case.get("classname", ""), case.get("name", "")
    return f"{place.replace('.', '/')}.py::{name}" if place else name


def read(report: str) -> tuple[int, tuple[str, ...]]:
    """How many tests a report has, and those that failed, each once (its call and its teardown may both)."""
    cases = list(ElementTree.fromstring(report).iter("testcase"))  # noqa: S314  pytest wrote it
    failed = {node(case) for case in cases if any(case.find(what) is not None for what in WRONG)}
    return len({node(case) for case in cases}), tuple(sorted(failed))


def run_of(number: int, minutes: float, status: int, report: Path, stopped: Counter[str]) -> Run:
    try:
        tests, failed = read(report.read_text(encoding="utf-8"))
    except (FileNotFoundError, ElementTree.ParseError):  # killed, or cut off while it was written
        return Run(number, minutes, status, None, (), dict(stopped))
    return Run(number, minutes, status, tests, failed, dict(stopped))


def failures(runs: Sequence[Run]) -> dict[str, list[int]]:
    """Test → the runs in which it failed, the most frequent first."""
    found: dict[str, list[int]] = {}
    for run in runs:
        for name in run.failed:
            found.setdefault(name, []).append(run.number)
    return dict(sorted(found.items(), key=lambda item: (-len(item[1]), item[0])))


def line(run: Run) -> str:
    stops = ", ".join(f"{name} {count}" for name, count in sorted(run.stopped.items()))
    tests = "no report" if run.tests is None else f"{run.tests} tests"
    verdict = f"RED ({len(run.failed)} failed, status {run.status})" if run.red else "green"
    return f"run {run.number}: {run.minutes:.1f} minutes, {tests}, {verdict}; stopped: {stops or 'none'}"


def table(runs: Sequence[Run]) -> list[str]:
    """Failures by test, and the verdict."""
    lines = [f"failures by test, of {len(runs)} runs"]
    for name, numbers in failures(runs).items():
        lines.append(f"{len(numbers):4}  {name}  (runs {', '.join(map(str, numbers))})")
    if len(lines) == 1:
        lines.append("   none")
    return [*lines, f"red runs: {sum(run.red for run in runs)} of {len(runs)}"]


def summary(runs: Sequence[Run], **more: object) -> dict[str, object]:
    """What build/steady.json holds."""
    return {
        **more,
        "red": sum(run.red for run in runs),
        "failures": failures(runs),
        "runs": [{**asdict(run), "red": run.red} for run in runs],
    }
