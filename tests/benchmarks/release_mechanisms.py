"""Errors of every mechanism on a table of release_tables.py, with production noise.

`cells` are split cells (`answer`), `alg2` Algorithm 2 on the paper's universe, `alg2_split` on
split data; the others are the paper's comparisons (numeric-release.md §8, §10) and 0 for
everything. The paper's universe is the values themselves where there are at most 10^6 cells, and
bits elsewhere. Comparisons get the universe that is best for them: values, or split data. No
number here comes from a query: these are the cores of the extension, which PostgreSQL calls
(bench_release.py measures what is installed).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from benchmarks import release_data
from benchmarks.release_tables import Table
from pg_epsilon import noise
from pg_epsilon.release import baselines, ranges
from pg_epsilon.release.algorithm2 import Algorithm2, Plan, places_of
from pg_epsilon.release.answers import Noise, Sums, thresholds
from pg_epsilon.release.baselines import Runs, answer_scaled, few_above
from pg_epsilon.release.candidates import Family, histogram
from pg_epsilon.release.decompose import Decomposition, Measure
from pg_epsilon.release.ladder import base_of, ladder
from pg_epsilon.release.predicates import Weighted
from pg_epsilon.release.radius import private_radius
from pg_epsilon.release.rounds import SHARE_SCALE, eps0_of, shares
from pg_epsilon.release.trees import Tree, levels_of
from pg_epsilon.release.truncation import Answers, Rounding, alpha_of, answer_all
from pg_epsilon.release.two_instances import two_instances

Array = np.ndarray[Any, np.dtype[Any]]
MOST_VALUES = 10**6
SAMPLE = 300  # queries of a large family that composition answers, at the price of all
BETA = Fraction(1, 20)
PURE = Fraction(0)
WITH_DELTA = ("alg2", "alg2_split", "normalisation", "composition", "global")


@dataclass(frozen=True, eq=False)
class Prepared:
    """A table as a family of one decomposition. base: the least step."""

    table: Table
    decomposition: Decomposition
    base: Fraction = Fraction(1)

    @cached_property
    def by_values(self) -> bool:
        """Whether this is Transfusion on its own universe: months, weighted by 1 / donations."""
        return self.decomposition == "none" and not self.table.whole

    @cached_property
    def family(self) -> Family:
        table, values = self.table, tuple(map(Fraction, range(int(self.table.bound) + 1)))
        measure = Measure(self.decomposition, table.bound, base=self.base, values=values)
        if not self.by_values:
            return Family(measure, table.boxes)
        asked = zip(table.low[:, 0].tolist(), table.high[:, 0].tolist(), strict=True)
        weights = [{c: Fraction(1, c + 1) for c in range(low, high)} for low, high in asked]
        return Family(measure, Weighted((table.sizes[0],), weights))

    @property
    def places(self) -> int:
        return places_of(self.table.most, self.family.measure.tuples)

    @cached_property
    def private(self) -> Array:
        rows = release_data.months() if self.by_values else self.table.rows
        return histogram(self.family, rows, self.places)

    def plan(self, parts: Any, rounds: int | None, delta: Fraction) -> Plan:
        return Plan(parts, max_rows=self.table.most, delta=delta, rounds=rounds)


@lru_cache
def prepared(table: Table, decomposition: Decomposition, base: Fraction = Fraction(1)) -> Prepared:
    return Prepared(table, decomposition, base)


def universe(table: Table) -> Decomposition:
    """The paper's: values where they are few, else bits."""
    few = math.prod(table.sizes) * int(table.bound) <= MOST_VALUES
    return "none" if few and (table.whole or table.name.startswith("transfusion")) else "bits"


def weights_of(table: Table) -> Prepared:
    """The universe of the comparisons that use multiplicative weights."""
    return prepared(table, "none" if universe(table) == "none" else "split")


def answers_of(own: Prepared, epsilon: Fraction, rounds: int | None = None, delta: Fraction = PURE) -> Answers:
    """One release by Algorithm 2, with its bars. rounds: T; None: chosen."""
    algorithm = Algorithm2(own.family, own.plan(shares(epsilon), rounds, delta))
    released = algorithm.release(own.private, noise.current(), "bench")
    part = algorithm.plan.shares.alpha
    alpha = alpha_of(released.worst, own.family, algorithm.sensitivity, part, own.places)
    dropped = own.base if own.decomposition == "bits" and not own.table.whole else Fraction(0)
    rounding = Rounding(own.places, own.table.most, dropped)
    return answer_all(own.family, algorithm.masses(released), alpha, rounding)


def alg2(table: Table, epsilon: Fraction, rounds: int | None, delta: Fraction = PURE) -> Array:
    return answers_of(prepared(table, universe(table)), epsilon, rounds, delta).answer


def alg2_split(table: Table, epsilon: Fraction, rounds: int | None, delta: Fraction = PURE) -> Array:
    return answers_of(prepared(table, "split"), epsilon, rounds, delta).answer


def two_runs(table: Table, epsilon: Fraction, rounds: int | None) -> Array:
    own = prepared(table, universe(table))
    return two_instances(
        own.family, own.plan(shares(epsilon), rounds, PURE), own.private, noise.current(), "bench"
    ).answer


def normalisation(table: Table, epsilon: Fraction, rounds: int | None, delta: Fraction = PURE) -> Array:
    own = weights_of(table)
    scaled = baselines.normalised(own.family)
    plan = own.plan(baselines.without_alpha(epsilon, SHARE_SCALE), rounds, delta)
    return answer_scaled(scaled, plan, own.private, noise.current(), "bench")


def global_truncation(table: Table, epsilon: Fraction, rounds: int | None, delta: Fraction = PURE) -> Array:
    own = weights_of(table)
    steps = ladder(table.bound)
    most = np.array([float(f) for f in baselines.most_of_class(prepared(table, "split").family)])
    maxima = np.array([float(value) for value in table.values])
    maxima = np.where(table.places >= 0, maxima * most[table.places], 0.0)
    counts = [int((maxima > float(step)).sum()) for step in steps.steps[:-1]]
    share = baselines.SHARE_RADIUS
    radius = private_radius(counts, steps, share * epsilon, noise.current(), "bench")
    plan = own.plan(baselines.without_alpha(epsilon, SHARE_SCALE, share), rounds, delta)
    scaled = baselines.truncated(own.family, radius)
    return answer_scaled(scaled, plan, own.private, noise.current(), "bench")


def cells(table: Table, epsilon: Fraction, rounds: int | None = None) -> Array:
    """Split cells' `answer`, by the core that dp_release_numeric uses."""
    own = prepared(table, "split", Fraction(1) if table.whole else base_of(Fraction(1, 1000)))
    drawn = noise.current().laplace(
        own.private.tolist(), l1_sensitivity=1 << own.places, epsilon=epsilon, label="bench"
    )
    steps = np.array([float(y) for y in own.family.measure.cells])
    grid = np.array(drawn[:-1], dtype=np.int64).reshape(own.family.classes, len(steps))
    sums = table.boxes.by_query(grid) * 2.0**-own.places
    found = Sums(sums, np.prod(table.high - table.low, axis=1))
    place, cut, _ = thresholds(found, steps[1:], Noise(float(1 / epsilon), False, 2.0**-own.places))
    return np.asarray(np.take_along_axis(cut, place[:, None], axis=1)[:, 0])


def quantile_runs(up: Array, down: Array, bound: int, k: int) -> Runs:
    """baselines.quantile_scores of values whose sorted ceilings and floors these are: faster.

    For an integer y, a value is above y where its ceiling is, and not below y where its floor is
    not.
    """
    ends = np.unique(np.concatenate([up, down]))
    starts = np.unique(np.concatenate([[0], ends, ends + 1]))
    starts = starts[starts <= bound]
    above = len(up) - np.searchsorted(up, starts, "right")
    at_least = len(down) - np.searchsorted(down, starts, "left")
    scores = -np.maximum(np.maximum(above - (k + 1), k + 1 - at_least), 0)
    sizes = np.diff(np.append(starts, bound + 1))
    return Runs(tuple(sizes.tolist()), tuple(scores.tolist()))


def composition_cut(own: list[Fraction], bound: int, share: Fraction) -> float:
    """One query at this share of epsilon, as baselines.composition does it."""
    source, k = noise.current(), few_above(bound, share / 2, BETA)
    up = np.sort(np.array([math.ceil(x) for x in own], dtype=np.int64))
    down = np.sort(np.array([math.floor(x) for x in own], dtype=np.int64))
    runs = quantile_runs(up, down, bound, k)
    asked = (runs.sizes, runs.scores)
    thr = source.select_in_runs(*asked, sensitivity=1, epsilon=share / 2, label="bench")
    if thr == 0:
        return 0.0
    total = sum(math.floor(min(value, Fraction(thr)) * (1 << 20)) for value in own)
    (drawn,) = source.laplace([total], l1_sensitivity=thr << 20, epsilon=share / 2, label="bench")
    return drawn / (1 << 20)


def composition(table: Table, epsilon: Fraction, rounds: int | None = None, delta: Fraction = PURE) -> Array:
    """Of some of the queries, drawn anew; NaN for the others. Each has the share of all."""
    share = eps0_of(epsilon, delta, table.queries)
    inside = np.flatnonzero(table.places >= 0)
    where = np.stack(np.unravel_index(table.places[inside], table.sizes), axis=1)
    few = min(SAMPLE, table.queries)
    asked = np.random.default_rng().choice(table.queries, few, replace=False)
    found = np.full(table.queries, np.nan)
    for query in asked:
        held = ((table.low[query] <= where) & (where < table.high[query])).all(axis=1)
        own = [table.values[row] for row in inside[held]]
        found[query] = composition_cut(own, math.ceil(table.bound), share)
    return found


def by_ranges(table: Table, epsilon: Fraction, rounds: int | None = None) -> Array:
    """`answer` from nodes over the classes, by the core that mechanism => 'range' uses (§8.1)."""
    if not table.ranges:
        raise ValueError(f"{table.name} has no ranges of one axis")
    masks, of = [], []
    for axis, size in enumerate(table.sizes):
        pairs, own = np.unique(np.column_stack([table.low[:, axis], table.high[:, axis]]), axis=0, return_inverse=True)
        masks.append(["0" * low + "1" * (high - low) + "0" * (size - high) for low, high in pairs.tolist()])
        of.append(own.ravel())
    trees = ranges.trees_for([Tree(size) for size in table.sizes], masks, np.array(of), gaussian=False)
    levels = levels_of(trees)
    if levels == 1:
        return cells(table, epsilon)
    own_cells = prepared(table, "split", Fraction(1) if table.whole else base_of(Fraction(1, 1000)))
    exact = ranges.of_nodes(own_cells.private[:-1].tolist(), trees)
    drawn = noise.current().laplace(exact, l1_sensitivity=levels << own_cells.places, epsilon=epsilon, label="bench")
    steps = np.array([float(y) for y in own_cells.family.measure.cells])
    grid = np.array(drawn, dtype=np.float64).reshape(-1, len(steps)) * 2.0**-own_cells.places
    found = ranges.sums_of(grid, trees, masks, np.array(of))
    place, cut, _ = thresholds(found, steps[1:], Noise(float(levels / epsilon), False, 2.0**-own_cells.places))
    return np.asarray(np.take_along_axis(cut, place[:, None], axis=1)[:, 0])


def zero(table: Table, epsilon: Fraction, rounds: int | None = None) -> Array:
    return baselines.zero(prepared(table, "split").family)


MECHANISMS: dict[str, Callable[..., Array]] = {
    "cells": cells,
    "alg2": alg2,
    "alg2_split": alg2_split,
    "two": two_runs,
    "normalisation": normalisation,
    "composition": composition,
    "global": global_truncation,
    "zero": zero,
    "range": by_ranges,
}


def errors(mechanism: str, table: Table, epsilon: Fraction, rounds: int | None = None, delta: Fraction = PURE) -> Array:
    """|answer - truth| of the queries that were answered. delta: of those WITH_DELTA."""
    more = (delta,) if delta else ()
    found = np.abs(MECHANISMS[mechanism](table, epsilon, rounds, *more) - table.truth)
    return np.asarray(found[~np.isnan(found)])
