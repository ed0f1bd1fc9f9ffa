"""Numbers for Prometheus: counted in each process, added up over them, shown in the text exposition format.

Ours rather than prometheus_client's: over several processes that one keeps memory-mapped files in a shared folder and
takes no gauges computed at scrape time; here a worker hands its numbers to the supervisor as one document.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Merge = Literal["sum", "max", "min"]
Labels = tuple[str, ...]
# metric name → [[label values, number or histogram state], ...]
Snapshot = dict[str, list[list[Any]]]

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


@dataclass(frozen=True, slots=True)
class Kind:
    """One metric: how its samples of several processes become one."""

    type: Literal["counter", "gauge", "histogram"]
    help: str
    labels: Labels = ()
    merge: Merge = "sum"


KINDS: Mapping[str, Kind] = {
    "pg_epsilon_build_info": Kind("gauge", "1, with the version", ("version",), "max"),
    "pg_epsilon_workers": Kind("gauge", "Worker processes that serve"),
    "pg_epsilon_worker_restarts_total": Kind("counter", "Worker processes that ended and were started again"),
    "pg_epsilon_serving": Kind("gauge", "1 while every worker serves clients and the engine can answer", (), "min"),
    "pg_epsilon_policy_version": Kind("gauge", "Version of the privacy policy that is served", (), "max"),
    "pg_epsilon_policy_changes_total": Kind("counter", "Policy versions taken over while serving", (), "max"),
    "pg_epsilon_relations_left_out": Kind(
        "gauge", "Published relations that the facade could not be made with", (), "max"
    ),
    "pg_epsilon_connections_total": Kind("counter", "Connections accepted"),
    "pg_epsilon_sessions": Kind("gauge", "Sessions logged in now"),
    "pg_epsilon_sessions_total": Kind("counter", "Logins that succeeded", ("tls",)),
    "pg_epsilon_logins_failed_total": Kind("counter", "Logins refused, by SQLSTATE", ("sqlstate",)),
    "pg_epsilon_turned_away_total": Kind("counter", "Connections closed or refused by a limit", ("limit",)),
    "pg_epsilon_logins_pending": Kind("gauge", "Connections that have not logged in yet"),
    "pg_epsilon_cancels_total": Kind("counter", "Cancel requests by whether a session was found", ("found",)),
    "pg_epsilon_errors_total": Kind("counter", "Errors sent to clients in a session, by SQLSTATE", ("sqlstate",)),
    "pg_epsilon_statement_seconds": Kind(
        "histogram", "From a statement to its end; asked: whether it asked the private database", ("asked",)
    ),
    "pg_epsilon_dp_call_seconds": Kind("histogram", "Calls of the engine, by path", ("path",)),
    "pg_epsilon_pool_connections": Kind("gauge", "Connections to the private database, by state", ("state",)),
    "pg_epsilon_pool_connects_total": Kind("counter", "Attempts to connect to the private database", ("ok",)),
    "pg_epsilon_pool_retired_total": Kind("counter", "Connections dropped after a cancel, a timeout or a failure"),
    "pg_epsilon_budget_epsilon": Kind("gauge", "Cap of a dataset", ("dataset",), "max"),
    "pg_epsilon_budget_epsilon_left": Kind(
        "gauge", "Largest epsilon of one more question, at the most spent partition", ("dataset",), "min"
    ),
    "pg_epsilon_budget_used_ratio": Kind("gauge", "Used part of the budget, 0 to 1", ("dataset",), "max"),
    "pg_epsilon_budget_frozen": Kind("gauge", "1 if the dataset's accounts are frozen", ("dataset",), "max"),
}


class Metrics:
    """The numbers of one process."""

    def __init__(self) -> None:
        self._values: dict[str, dict[Labels, float]] = {}
        self._histograms: dict[str, dict[Labels, list[float]]] = {}

    def add(self, name: str, *labels: str, by: float = 1) -> None:
        found = self._values.setdefault(name, {})
        found[labels] = found.get(labels, 0) + by

    def set(self, name: str, value: float, *labels: str) -> None:
        self._values.setdefault(name, {})[labels] = value

    def forget(self, name: str) -> None:
        """Drop all samples of a gauge whose labels come and go."""
        self._values.pop(name, None)

    def observe(self, name: str, seconds: float, *labels: str) -> None:
        """State of a histogram: a count per bucket (the last one open), then the sum."""
        found = self._histograms.setdefault(name, {}).setdefault(labels, [0.0] * (len(SECONDS) + 2))
        found[bisect.bisect_left(SECONDS, seconds)] += 1
        found[-1] += seconds

    def get(self, name: str, *labels: str) -> float:
        """A counter's or gauge's number; a histogram's number of observations."""
        if name in self._histograms:
            return sum(self._histograms[name].get(labels, [0.0])[:-1])
        return self._values.get(name, {}).get(labels, 0)

    def snapshot(self) -> Snapshot:
        every: list[tuple[str, Mapping[Labels, Any]]] = [*self._values.items(), *self._histograms.items()]
        return {name: [[list(labels), value] for labels, value in samples.items()] for name, samples in every}


def merged(snapshots: Iterable[Snapshot]) -> Snapshot:
    """The numbers of several processes as one, each metric by its own rule."""
    result: dict[str, dict[Labels, Any]] = {}
    for snapshot in snapshots:
        for name, samples in snapshot.items():
            held = result.setdefault(name, {})
            for labels, value in samples:
                key = tuple(labels)
                held[key] = _combined(KINDS[name].merge, held[key], value) if key in held else value
    return {name: [[list(labels), value] for labels, value in held.items()] for name, held in result.items()}


def _combined(merge: Merge, one: Any, other: Any) -> Any:
    if isinstance(one, list):
        return [a + b for a, b in zip(one, other, strict=True)]
    return {"sum": one + other, "max": max(one, other), "min": min(one, other)}[merge]


def exposition(snapshot: Snapshot) -> str:
    """Prometheus text format 0.0.4."""
    lines = []
    for name, kind in KINDS.items():
        samples = sorted(snapshot.get(name, ()), key=lambda sample: list(sample[0]))
        if not samples:
            continue
        lines += [f"# HELP {name} {kind.help}", f"# TYPE {name} {kind.type}"]
        for labels, value in samples:
            if kind.type == "histogram":
                lines += _histogram(name, kind.labels, labels, value)
            else:
                lines.append(f"{name}{_labels(kind.labels, labels)} {_number(value)}")
    return "\n".join(lines) + "\n"


def _histogram(name: str, names: Labels, labels: Sequence[str], state: Sequence[float]) -> list[str]:
    lines, total = [], 0.0
    for bound, count in zip([*map(_number, SECONDS), "+Inf"], state[:-1], strict=True):
        total += count
        lines.append(f"{name}_bucket{_labels((*names, 'le'), [*labels, bound])} {_number(total)}")
    shown = _labels(names, labels)
    return [*lines, f"{name}_sum{shown} {_number(state[-1])}", f"{name}_count{shown} {_number(total)}"]


def _labels(names: Sequence[str], values: Sequence[str]) -> str:
    if not names:
        return ""
    return "{" + ",".join(f'{n}="{_escaped(v)}"' for n, v in zip(names, values, strict=True)) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))
