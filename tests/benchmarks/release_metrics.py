"""Which numbers `make bench-release` reports of errors and guarantees, and their targets.

Source: numeric-release.md §0.0, "Targets with power".
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction

from benchmarks.release_figures import Measured, Sweep, rounds_of
from benchmarks.release_mechanisms import MECHANISMS, SAMPLE, WITH_DELTA
from benchmarks.release_tables import Table

DATASETS = ("transfusion", "adult_loss", "adult_gain", "adult_hours", "bank", "tpch")
RANGED = ("transfusion", "adult_hours", "bank")  # of which "range" is measured
COVERED = (
    "cells:bars",
    "cells:sum",
    "cells:count",
    "cells:avg",
    "cells:every_sum",
    "cells_gaussian:sum",
    "cells_gaussian:count",
    "alg2:sum",
    "alg2_split:sum",
)
AT_MOST, AT_LEAST = operator.le, operator.ge
Met = Callable[[float, float], bool]
TARGETS: dict[str, tuple[Met, float]] = {
    "median_error:transfusion:1:cells": (AT_MOST, 50),
    "median_error:transfusion:2:cells": (AT_MOST, 34),
    "median_error:transfusion:1:cells_unbiased_by_class": (AT_MOST, 75),
    "median_error:bank:1:cells": (AT_MOST, 20_500),
    "median_error:adult_hours:1:cells": (AT_MOST, 1_800),
    "mean_error:transfusion:1:alg2": (AT_MOST, 110),
    "mean_error:transfusion:1:alg2_split": (AT_MOST, 110),
    "bound_breaks": (AT_MOST, 0),
    "alpha_short_share": (AT_MOST, 0.0577),
    "adult_rounds_cpu_seconds": (AT_MOST, 2.0),
    "vectors": (AT_LEAST, 110),
    **{f"coverage:{name}": (AT_LEAST, 0.939) for name in COVERED},
}
FORM = re.compile(
    rf"median_error:({'|'.join(DATASETS)}):[0-9.]+:({'|'.join(MECHANISMS)}|cells_unbiased|cells(_unbiased)?_by_class)"
    rf"|median_error:({'|'.join(DATASETS)}):1:({'|'.join(WITH_DELTA)}):delta"
    rf"|(mean_error|runs_outside):transfusion:1:(alg2|alg2_split)"
    rf"|coverage:({'|'.join(COVERED)})|zero_wins:({'|'.join(DATASETS)}):[0-9.]+"
    r"|bound_breaks|alpha_short_share|adult_rounds_cpu_seconds|vectors|free_answer_ms(:plain_sql)?"
)


def side(met: Met) -> str:
    return "at most" if met is AT_MOST else "at least"


def required() -> list[str]:
    """Every metric that has to be there: targets, and every mechanism at epsilon 1."""
    errors = [
        f"median_error:{name}:1:{mechanism}"
        for name in DATASETS
        for mechanism in MECHANISMS
        if mechanism != "range" or name in RANGED
    ]
    deltas = [f"median_error:transfusion:1:{mechanism}:delta" for mechanism in WITH_DELTA]
    return list(dict.fromkeys([*TARGETS, *errors, *deltas]))


def missing(found: Iterable[str]) -> list[str]:
    there = set(found)
    return [name for name in required() if name not in there]


def strange(found: Iterable[str]) -> list[str]:
    """Names that no metric has."""
    return [name for name in found if not FORM.fullmatch(name)]


def missed(found: Mapping[str, float]) -> list[str]:
    """Targets that a number does not meet, in words."""
    return [
        f"{name} is {found[name]:g}, {side(met)} {limit:g} is aimed at"
        for name, (met, limit) in TARGETS.items()
        if name in found and not met(found[name], limit)
    ]


def target(metric: str) -> str:
    if metric not in TARGETS:
        return ""
    met, limit = TARGETS[metric]
    return f"; {side(met)} {limit:,g}"


def note_of(mechanism: str, table: Table, own: Measured, installed: bool = False) -> str:
    """Of a median over runs: how it was found."""
    runs = len(own.means)
    if mechanism == "zero":
        return f"mean {own.means[0]:,.4g}"
    by = f"{runs} releases in PostgreSQL" if installed else f"{runs} runs of the core"
    steps = ""
    if mechanism in ("alg2", "alg2_split", "two", "normalisation", "global"):
        steps = ", T auto" if rounds_of(table) is None else f", T = {rounds_of(table)}"
    few = f", {SAMPLE} queries" if mechanism == "composition" and table.queries > SAMPLE else ""
    return f"{by}{steps}{few}; mean {float(own.means.mean()):,.4g}; baseline: zero"


def zero_wins(sweep: Sweep, epsilon: Fraction) -> tuple[int, int, str]:
    """Of how many mechanisms the median error is not below that of 0 for everything, of how many,
    and which; the note has those whose mean is not below either.
    """
    group = f"{float(epsilon):g}"
    own = {name: found for (place, name), found in sweep.items() if place == group}
    zero = own.pop("zero")
    behind = [name for name, found in own.items() if found.box[1] >= zero.box[1]]
    mean = [name for name, found in own.items() if found.means.mean() >= zero.means.mean()]
    told = [", ".join(names) or "none" for names in (behind, mean)]
    said = f"median not below zero's: {told[0]}; mean: {told[1]}"
    return len(behind), len(own), said


def medians(sweep: Sweep) -> Iterator[tuple[str, str, float]]:
    """(epsilon, mechanism, median over the runs of the median error)."""
    for (group, name), found in sweep.items():
        yield group, name, float(found.box[1])
