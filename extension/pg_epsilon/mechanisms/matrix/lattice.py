"""A strategy on the integer lattice: integer rows over integer sums, and their exact sensitivity (§0, §13)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pg_epsilon.errors import OUT_OF_RANGE, DPError
from pg_epsilon.mechanisms.matrix.strategies import Strategy

MOST_BITS, LEAST_BITS = 20, 3  # precision of a strategy's entries at the heaviest column
ROOM = 62  # bits of any answer of the strategy over the declared rows

Row = tuple[tuple[int, int], ...]  # (column, integer) of the entries that are not 0


@dataclass(frozen=True)
class LatticeStrategy:
    """Integer rows a' over n integer sums, of which one row moves column j alone, by at most weights[j].

    factor: a' is the strategy's entry, divided by its column's weight, in units of 1 / factor.
    l1: max over columns of weight times the sum of |a'|; l2_squared: max of weight² times the sum of a'². Both hold
    whatever was rounded, because they are computed from the integers that are used (sum-workloads.md §0).
    """

    rows: tuple[Row, ...]
    weights: tuple[int, ...]
    factor: int

    @cached_property
    def l1(self) -> int:
        sums = [0] * len(self.weights)
        for row in self.rows:
            for column, entry in row:
                sums[column] += abs(entry)
        return max((t * total for t, total in zip(self.weights, sums, strict=True)), default=0)

    @cached_property
    def l2_squared(self) -> int:
        sums = [0] * len(self.weights)
        for row in self.rows:
            for column, entry in row:
                sums[column] += entry * entry
        return max((t * t * total for t, total in zip(self.weights, sums, strict=True)), default=0)

    def answers(self, sums: Sequence[int]) -> list[int]:
        """a' s, exact integers."""
        return [sum(entry * sums[column] for column, entry in row) for row in self.rows]

    def strategy(self, name: str) -> Strategy:
        """What was drawn, as rows over sums divided by their weights, in units of `factor`: for least squares."""
        matrix = np.zeros((len(self.rows), len(self.weights)))
        for place, row in enumerate(self.rows):
            for column, entry in row:
                matrix[place, column] = entry * self.weights[column] / self.factor
        return Strategy(name, matrix)


def on_lattice(strategy: Strategy, weights: Sequence[int], most_rows: int) -> LatticeStrategy:
    """S diag(1/t) times a power of two, rounded: what is drawn of a strategy S over columns of weight t.

    S is divided by its sensitivity first, so that no answer over N rows is above N times the factor.

    most_rows: declared; the answers over so many rows keep within 62 bits, so that the noise lattice does not cut them.
    DP005 where fewer than three bits of precision would be left; before anything is charged.
    """
    heaviest = max(weights)
    bits = min(MOST_BITS, ROOM - (most_rows * heaviest).bit_length())
    if bits < LEAST_BITS:
        raise DPError(
            OUT_OF_RANGE,
            "the sums of this workload over the declared number of rows leave 64 bits",
            "Use a coarser resolution, tighter bounds, or a smaller max_rows.",
        )
    factor = heaviest << bits
    norm = strategy.sensitivity
    rows = []
    for line in strategy.matrix:
        entries = ((int(j), round(float(line[j]) / norm * (factor / weights[int(j)]))) for j in np.flatnonzero(line))
        row = tuple((j, entry) for j, entry in entries if entry)
        if row:
            rows.append(row)
    return LatticeStrategy(tuple(rows), tuple(weights), factor)
