"""Blocks of values -> the columns whose integer sums are drawn, and the queries over them (sum-workloads.md §0, §2)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Literal

import numpy as np

from pg_epsilon.mechanisms.matrix.queries import Array, Intervals, Queries, Weighted, Written
from pg_epsilon.workload.ask import Workload
from pg_epsilon.workload.runs import Rows, Runs

Data = Literal["sums", "pairs"]


@dataclass(frozen=True)
class Column:
    """An integer of one block: of_sum times the sum of its truncated values plus of_count times their number.

    weight: the most that one row changes it by. total, rows: how much of the block's sum and number of rows this
    integer stands for; rows is None where it tells nothing of it.
    """

    block: int
    of_sum: int
    of_count: int
    weight: int
    total: Fraction
    rows: Fraction | None


@dataclass(frozen=True)
class Columns:
    """The columns of a workload at one threshold, and its queries over them, divided by their weights.

    One row is in one block and there moves `sums` by its truncated value, at most the weight; or a pair, the value's
    distances v - low and high - v, whose L1 norm is the block's height: a convex combination of the two columns alone,
    so that norms of a strategy's columns bound it for either data.
    """

    data: Data
    columns: tuple[Column, ...]
    queries: Rows

    @property
    def weights(self) -> tuple[int, ...]:
        return tuple(column.weight for column in self.columns)

    @cached_property
    def totals(self) -> Queries:
        """Sums, p x columns: as intervals where they are, which is many times faster for many columns."""
        if self.data == "sums" and (intervals := self._intervals()) is not None:
            return Weighted(intervals, tuple(float(weight) for weight in self.weights))
        return self._over([column.total * column.weight for column in self.columns])

    def _intervals(self) -> Intervals | None:
        """The queries as runs of columns of weight 1; None where one is anything else."""
        if isinstance(self.queries, Runs):  # a column for each block, but for those that can have no sum
            blocks = [column.block for column in self.columns]
            places = [bisect_left(blocks, block) for block in range(self.queries.blocks + 1)]
            firsts, lasts = self.queries.starts, self.queries.ends
            return Intervals(tuple(places[k] for k in firsts), tuple(places[k] for k in lasts), len(blocks))
        starts, ends = [], []
        for row in self.queries:
            inside = [place for place, column in enumerate(self.columns) if row[column.block]]
            first, last = (inside[0], inside[-1] + 1) if inside else (0, 0)
            if last - first != len(inside) or any(row[self.columns[place].block] != 1 for place in inside):
                return None
            starts.append(first)
            ends.append(last)
        return Intervals(tuple(starts), tuple(ends), len(self.columns))

    @cached_property
    def counts(self) -> Written | None:
        """Numbers of rows, p x columns; None where the data do not tell."""
        if any(column.rows is None for column in self.columns):
            return None
        return self._over([(column.rows or Fraction(0)) * column.weight for column in self.columns])

    def exact(self, blocks: Sequence[tuple[int, int]]) -> list[int]:
        """Each column's integer, from (count, sum) of every block."""
        return [c.of_sum * blocks[c.block][1] + c.of_count * blocks[c.block][0] for c in self.columns]

    def _over(self, values: Sequence[Fraction]) -> Written:
        matrix = weights_of(self.queries)[:, [column.block for column in self.columns]]
        return Written.of(matrix * np.array([float(value) for value in values]))


def weights_of(queries: Rows) -> Array:
    """Each query's weight of each block."""
    if isinstance(queries, Runs):
        return Intervals(queries.starts, queries.ends, queries.blocks).dense()
    return np.array([[float(weight) for weight in row] for row in queries])


def sums_of(workload: Workload, theta: int, *, every: bool = False) -> Columns:
    """The sum of every block that can have one and that some query reads. every: also of those that none reads.

    Of parts of one unit's total (nested.py), each may be all of it.
    """
    out = frozenset() if every else workload.unread
    whole = workload.per == "total"
    ends = [
        0 if block in out else theta if whole else _size(workload, block, theta) for block in range(workload.blocks)
    ]
    found = [Column(block, 1, 0, end, Fraction(1), None) for block, end in enumerate(ends) if end > 0]
    return Columns("sums", tuple(found), workload.rows)


def _size(workload: Workload, block: int, theta: int) -> int:
    """The largest size of what a row of a block is summed as (§0)."""
    below, high = workload.cuts[block : block + 2]
    return max(abs(workload.cut(below + 1, theta)), abs(workload.cut(high, theta)))


def pairs_of(workload: Workload, theta: int) -> Columns:
    """Every block's two distances; of a block of one truncated value, its number of rows."""
    found: list[Column] = []
    for block, (below, high) in enumerate(pairwise(workload.cuts)):
        low, high = workload.cut(below + 1, theta), workload.cut(high, theta)
        height = high - low
        if not height:
            found.append(Column(block, 0, 1, 1, Fraction(high), Fraction(1)))
            continue
        found.append(Column(block, 1, -low, height, Fraction(high, height), Fraction(1, height)))
        found.append(Column(block, -1, high, height, Fraction(low, height), Fraction(1, height)))
    return Columns("pairs", tuple(found), workload.rows)


def read_from(columns: Columns, values: Array | None) -> Queries:
    """What answers are computed from: the sums, and the counts in units of `values`, a value for each query."""
    if values is None or columns.counts is None:
        return columns.totals
    return Written.of(np.concatenate([columns.totals.dense(), columns.counts.dense() * values[:, None]]))


def objective(columns: Columns, values: Array | None, middles: Array, asked: Sequence[str], roots: Array) -> Queries:
    """What a strategy is chosen for: of the asked sum, count and avg, their rows of `read_from`, each query's times its
    root of a weight.

    An average's error is that of sum - average * count, over the count; middles: what stands for it, for each query.
    """
    if values is None or columns.counts is None:
        return columns.totals
    totals, counts = columns.totals.dense(), columns.counts.dense()
    parts = {
        "sum": totals,
        "count": counts * values[:, None],
        "avg": totals - counts * middles[:, None],
    }
    rows = np.concatenate([parts[name] * roots[:, None] for name in asked])
    # of a bucket of one value the average is known; without a row there is nothing to be chosen for
    some = np.abs(rows).max(axis=1) > 1e-9 * np.abs(totals).max()
    return Written.of(rows[some]) if some.any() else read_from(columns, values)
