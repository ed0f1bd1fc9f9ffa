"""Sums over nested ranges where the unit is a user and her total of each is clamped: one strategy for their steps.

Plain SQL without groups clamps a user's total of every sum by itself to [0, M], M = max_rows_per_unit times the upper
bound (composition.md §2.3). Of nested ranges, of values of at least 0, her totals c_1 <= c_2 <= ... <= c_p <= M do not
decrease; so their steps c_j - c_(j-1) are at least 0 and sum up to at most M. Over steps, each of weight M, a strategy
A is off by no more than M times its largest column's norm when she comes or goes (L1, and L2 by the triangle
inequality). The released sums are those of the steps: what is meant is what each sum by itself means. Of ranges that
are not nested that does not hold: two clamped totals need not sum up to that of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

from pg_epsilon.noise import NoiseSource
from pg_epsilon.query.statistics import Statistic
from pg_epsilon.workload.ask import Workload
from pg_epsilon.workload.batch import Batch, cores
from pg_epsilon.workload.runs import Rows


@dataclass(frozen=True)
class Totals(Batch):
    """The measure of nested sums: it reads every different one of them, the smallest range first.

    Guarantee: epsilon-DP (resp. rho-zCDP) for one user with all she owns, whose steps sum up to at most the lattice's
    upper bound, which is every block's weight.
    """

    @property
    def width(self) -> int:
        """A sum of clamped totals for each different range."""
        return self.workload.blocks

    def release(self, exact: Sequence[Sequence[Any]], noise: NoiseSource, label: str) -> list[list[int]]:
        """`cores` on the steps of every group's sums."""
        return cores([text(cell) for cell in exact], self, noise, label)


def text(sums: Sequence[int]) -> str:
    """The steps of sums that do not decrease, in the form of a workload's statement: "cell rows sum;…"."""
    return ";".join(f"{place} 0 {after - before}" for place, (before, after) in enumerate(pairwise([0, *sums])))


def levels(rows: Rows) -> tuple[int, ...] | None:
    """Per query its place among the different ranges, the smallest first; None where they are not nested."""
    sets = [frozenset(block for block, weight in enumerate(row) if weight) for row in rows]
    order = sorted(set(sets), key=len)
    if any(not inner < outer for inner, outer in pairwise(order)):
        return None
    places = {inside: place for place, inside in enumerate(order)}
    return tuple(places[inside] for inside in sets)


def nested(workload: Workload, reads: Sequence[Statistic]) -> tuple[Workload, tuple[Statistic, ...]] | None:
    """The same sums as a workload over steps, and what is read for it: of each different range its own statistic.

    reads: what each query by itself reads. None where ranges are not nested, or totals are not clamped alike at 0 and
    above.
    """
    places, clamps = levels(workload.rows), {read.clamp for read in reads if not read.levels}
    if places is None or any(read.levels for read in reads) or len(clamps) != 1:
        return None
    (clamp,), count = clamps, max(places) + 1
    if clamp is None or clamp[0] != 0 or clamp[1] < count:
        return None
    rows = tuple(tuple(Fraction(int(block <= place)) for block in range(count)) for place in places)
    whole = replace(
        workload,
        lattice=replace(workload.lattice, low=0, high=clamp[1]),
        cuts=tuple(range(count + 1)),
        rows=rows,
        per="total",
    )
    return whole, tuple(reads[places.index(place)] for place in range(count))
