"""A direct decision on an average, from sum and count (dp-pqd.md §6.4, avg_direct)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import lcm

from pg_epsilon.accounting.charges import Charge
from pg_epsilon.mechanisms.grain import grain_for
from pg_epsilon.noise import NoiseSource


@dataclass(frozen=True)
class Direct:
    """avg_direct [EXT]: 0 iff h + Lap(D / epsilon) >= 0, h = max(sum of x - r, sum of l - x); row units.

    low, high: l < r, the ends of the open interval; ends: what every value is clamped to; lattice units, all public.
    Exact integers of a cell: the sum of the clamped values and their number. h >= 0 iff the average is outside (l, r).
    Guarantee: epsilon-DP for adding or removing one row: a row x in [lo, hi] moves the two arguments of the maximum by
    |x - r| and |l - x|, which are convex in x and so at most D = max over x in {lo, hi} of max(|x - r|, |l - x|); the
    noise is discrete Laplace on a fine lattice; the bit is post-processing. Source: dp-pqd.md §6.4.
    """

    low: Fraction
    high: Fraction
    ends: tuple[int, int]
    epsilon: Decimal

    def __post_init__(self) -> None:
        _ = self.grain

    @property
    def unit(self) -> int:
        """Both ends of the interval are multiples of 1/unit."""
        return lcm(self.low.denominator, self.high.denominator)

    @property
    def moved(self) -> int:
        """D, in units of 1/unit."""
        return max(abs(int(self.unit * (x - end))) for x in self.ends for end in (self.low, self.high))

    @property
    def grain(self) -> int:
        """Fine units in 1/unit; DP005 for an epsilon out of range."""
        return grain_for(self.moved, self.epsilon)

    @property
    def width(self) -> int:
        """Two exact integers a cell: sum and count."""
        return 2

    @property
    def released(self) -> int:
        """One integer a cell: the bit."""
        return 1

    def charges(self) -> tuple[Charge, ...]:
        """One discrete Laplace draw."""
        return (Charge.of("laplace", epsilon=self.epsilon),)

    def release(self, exact: Sequence[Sequence[int]], noise: NoiseSource, label: str) -> list[tuple[int, ...]]:
        """The bit of every cell."""
        return [(core(cell, self, noise, f"{label} decision"),) for cell in exact]


def core(cell: Sequence[int], how: Direct, noise: NoiseSource, label: str) -> int:
    """The bit for an exact (sum, count); guarantee as `Direct`. In units of the ends' common denominator, and finer."""
    total, count = cell
    past = max(total - how.high * count, how.low * count - total) * how.unit * how.grain
    moved = how.grain * how.moved
    noisy = noise.laplace([int(past)], l1_sensitivity=moved, epsilon=how.epsilon, label=label)
    return int(noisy[0] < 0)
