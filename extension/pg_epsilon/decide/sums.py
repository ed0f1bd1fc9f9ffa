"""Direct decisions on a sum by the sparse vector technique (dp-pqd.md §5.4, §5.5); row units.

The ladder that they read is that of PrivateBoundDS (mechanisms/covering.py): for t_j = 2^j, j = 1 … L, the number c_j
and the sum S_j of the values that are at most t_j. The values must be clamped to [0, t_L]: a negative one would make
the queries move in two directions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from pg_epsilon.accounting.charges import Charge, share
from pg_epsilon.accounting.margins import checked_epsilon
from pg_epsilon.mechanisms import covering
from pg_epsilon.mechanisms.covering import Bound
from pg_epsilon.mechanisms.grain import FINEST
from pg_epsilon.noise import NoiseSource


@dataclass(frozen=True)
class Sparse:
    """SVT_sum [P]: 0 if some level's sum noisily reaches r, else 1 if some level's reaches l, else 0.

    levels: `doubling`, lattice units; low, high: l < r, the ends of the open interval, lattice units; epsilon: the
    budget; theta: None for the basic form (all levels), else the improved one, which first chooses K by `Bound`. All
    public; K stays within.

    Guarantee: epsilon-DP for adding or removing one row. A row of value a moves S_j / t_j by a / t_j in [0, 1] where
    a <= t_j and not at all elsewhere: all queries in one direction, by 0 … 1. Both loops are one run of AboveThreshold
    over 2K queries, with one threshold noise (§5.4 with its conditions: fresh noise for every comparison, halt at the
    first positive, which loop it was in is the bit; no positive: 0). Basic: epsilon / 2 for the threshold, epsilon / 2
    for the queries. Improved: epsilon / 3 each, and epsilon / 3 for K, on which the run depends adaptively.
    Source: dp-pqd.md §5.4, §5.5; composition.md §4. As values are integers l is replaced by floor(l) + 1 and r by
    ceil(r), so that both loops ask "at least" (erratum 8).
    """

    levels: tuple[int, ...]
    low: Fraction
    high: Fraction
    epsilon: Decimal
    theta: Decimal | None = None

    def __post_init__(self) -> None:
        checked_epsilon(self.part)
        _ = self.chooser

    @property
    def part(self) -> Decimal:
        """The share of the threshold, of the queries, of the bound; DP005 if nothing is left of it."""
        return share(self.epsilon, 2 if self.theta is None else 3)

    @property
    def chooser(self) -> Bound | None:
        """What chooses K."""
        return None if self.theta is None else Bound(self.levels, self.theta, self.part)

    @property
    def width(self) -> int:
        """Exact integers of a cell: c_1 … c_L, then S_1 … S_L."""
        return 2 * len(self.levels)

    @property
    def released(self) -> int:
        """One integer a cell: the bit."""
        return 1

    def charges(self) -> tuple[Charge, ...]:
        """The whole run, whatever it returns (composition.md §4; dp-pqd.md §2.4: no refund)."""
        if self.theta is not None:
            return (Charge.of("svt_sum", epsilon=self.epsilon),)
        return (Charge.of("above_threshold", threshold_epsilon=self.part, query_epsilon=self.part),)

    def release(self, exact: Sequence[Sequence[int]], noise: NoiseSource, label: str) -> list[tuple[int, ...]]:
        """The bit of every cell."""
        return [(sparse(cell, self, noise, f"{label} decision"),) for cell in exact]


def sparse(cell: Sequence[int], how: Sparse, noise: NoiseSource, label: str) -> int:
    """The bit for an exact ladder; guarantee as `Sparse`."""
    count, chooser = len(how.levels), how.chooser
    kept = count if chooser is None else covering.bound(cell[:count], chooser, noise, f"{label} bound")
    unit = how.levels[-1] * max(1, -(-FINEST // how.levels[-1]))
    steps = list(zip(cell[count : count + kept], how.levels, strict=False))
    index = noise.first_above(
        [(total - end) * (unit // t) for end in (math.ceil(how.high), math.floor(how.low) + 1) for total, t in steps],
        sensitivity=unit,
        threshold_epsilon=how.part,
        query_epsilon=how.part,
        label=label,
    )
    return int(index is not None and index >= kept)
