"""A strategy on the integer lattice: integer rows over integer sums, and their exact sensitivity (§0, §13)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pg_epsilon.errors import OUT_OF_RANGE, DPError
from pg_epsilon.mechanisms.matrix import strategies
from pg_epsilon.mechanisms.matrix.queries import Queries
from pg_epsilon.mechanisms.matrix.strategies import Strategy

MOST_BITS, LEAST_BITS = 20, 3  # precision of a strategy's entries at the heaviest column
SURE_BITS = 10  # of every entry: what is rounded so finely needs no look (sum-workloads.md §13)
LOSS = 17 / 15  # of a deviation: identity, whose entries have LEAST_BITS, loses (1 + 1/16) / (1 - 1/16) at most
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

    most_rows: declared; the answers over so many rows keep within 62 bits, and a sixteenth that rounding may add, so
    that the noise lattice does not cut them.
    DP005 where fewer than three bits of precision would be left; before anything is charged. What is lost with few
    bits `survives` tells.
    """
    heaviest = max(weights)
    bits = bits_of(heaviest, most_rows)
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


def bits_of(heaviest: int, most_rows: int) -> int:
    """How many bits an entry at the heaviest column has: what is left beside the sums of all declared rows."""
    return min(MOST_BITS, ROOM - (most_rows * heaviest).bit_length())


def few_bits(drawn: LatticeStrategy) -> bool:
    """Whether rounding may have changed what is drawn by more than a millionth of its largest entry."""
    return drawn.factor < max(drawn.weights) << MOST_BITS


def survives(drawn: LatticeStrategy, strategy: Strategy, *targets: Queries) -> bool:
    """Whether what is drawn still answers what the strategy does: judged by the integers, public facts only.

    True where every entry has ten bits. Else each target that follows from the strategy must follow from the integers
    too (sum-workloads.md §7.5, §13), and no query's deviation may be more than LOSS times the predicted one, for
    Laplace and Gaussian noise: small entries vanish, or grow, where the declared rows and bounds leave few bits.
    """
    kept = [abs(entry) for row in drawn.rows for _, entry in row]
    if len(kept) == np.count_nonzero(strategy.matrix) and min(kept, default=0) >= 1 << (SURE_BITS - 1):
        return True
    if not kept:
        return False
    rounded = drawn.strategy(strategy.name)
    before, after = strategies.inverse(strategy), strategies.inverse(rounded)
    for target in targets:
        if not strategies.spans(strategy, target, before):
            continue
        if not strategies.spans(rounded, target, after):
            return False
        for gaussian in (False, True):
            expected = strategies.query_errors(strategy, target, gaussian=gaussian, inverted=before)
            found = strategies.query_errors(rounded, target, gaussian=gaussian, inverted=after)
            if (found > expected * (LOSS**2 + 1e-9)).any():
                return False
    return True
