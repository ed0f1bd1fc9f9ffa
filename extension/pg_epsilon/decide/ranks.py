"""Direct decisions on a quantile from three counts: rows, rows up to l, rows from r on (dp-pqd.md §6.2, §6.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from pg_epsilon.accounting.charges import Charge
from pg_epsilon.mechanisms.grain import grain_for
from pg_epsilon.noise import NoiseSource


@dataclass(frozen=True)
class Hist:
    """Hist_med [P]: 0 if noisily p n or more rows are at most l, or (1 - p) n or more at least r; else 1.

    fraction: p in (0, 1); the quantile is the ceil(p n)-th smallest value. rows: the most rows of one unit (kappa).
    Exact integers of a cell: n, q1 = #{value <= l}, q2 = #{value >= r}, for public l < r.

    Guarantee: epsilon-DP for adding or removing one unit. As l < r a row is in q1, in q2 or in neither; so a row moves
    (n, q1, q2) by at most 2 in L1, a unit by 2 kappa, whichever rows it has (for users q1 and q2 are not parallel, and
    need not be). All three get discrete Laplace noise of scale 2 kappa / epsilon; the bit is post-processing. With
    l = r a row could be in both, and 2 would be 3: tau = 0 is refused (§2.1).
    Source: dp-pqd.md §6.2, §6.3; erratum 13: the second test is q2 >= floor((1 - p) n) + 1, which is what it means that
    the quantile is at least r; with continuous noise that is the printed ceiling almost surely.
    """

    fraction: Fraction
    rows: int
    epsilon: Decimal

    def __post_init__(self) -> None:
        _ = self.grain

    @property
    def grain(self) -> int:
        """Fine units in a row; DP005 for an epsilon out of range."""
        return grain_for(2 * self.rows, self.epsilon)

    @property
    def width(self) -> int:
        """Three exact integers a cell: n, q1, q2."""
        return 3

    @property
    def released(self) -> int:
        """One integer a cell: the bit."""
        return 1

    def charges(self) -> tuple[Charge, ...]:
        """One vector of discrete Laplace noise (composition.md §4, Hist_med)."""
        return (Charge.of("laplace", epsilon=self.epsilon),)

    def release(self, exact: Sequence[Sequence[int]], noise: NoiseSource, label: str) -> list[tuple[int, ...]]:
        """The bit of every cell."""
        return [(hist(cell, self, noise, f"{label} decision"),) for cell in exact]


def hist(cell: Sequence[int], how: Hist, noise: NoiseSource, label: str) -> int:
    """The bit for exact (n, q1, q2); guarantee as `Hist`. In units of 1/grain row, so fine that noise has no ties."""
    grain = how.grain
    fine = [grain * value for value in cell]
    n, q1, q2 = noise.laplace(fine, l1_sensitivity=2 * how.rows * grain, epsilon=how.epsilon, label=label)
    p, whole = how.fraction.as_integer_ratio()
    first = -(-p * n // (whole * grain))
    second = (whole - p) * n // (whole * grain) + 1
    return int(q1 < first * grain and q2 < second * grain)


@dataclass(frozen=True)
class HistOne:
    """hist_one [EXT]: 0 iff h + Lap(max(p, 1 - p) / epsilon) >= 0, h = how far past its test q1 or q2 is; row units.

    fraction: p = a/b in (0, 1), in lowest terms. h = max(q1 - p n + 1/2b, q2 - (1 - p) n - 1/2b), for the same cell as
    `Hist`. q1 - p n and q2 - (1 - p) n are multiples of 1/b; the quantile is at most l iff the first is >= 0, at least
    r iff the second is > 0; so h >= 0 iff the truth is 0, and h is never 0.
    Guarantee: epsilon-DP for adding or removing one row: n moves by 1, and q1, q2 each by 0 or 1, so both arguments
    of the maximum by p or 1 - p at most; the noise is discrete Laplace on a fine lattice; the bit is post-processing.
    Source: dp-pqd.md §6.2, §6.3 (for p = 1/2, 1/2b = 1/4).
    """

    fraction: Fraction
    epsilon: Decimal

    def __post_init__(self) -> None:
        _ = self.grain

    @property
    def moved(self) -> int:
        """2 b max(p, 1 - p): how far a row moves h, in units of 1/2b row."""
        a, b = self.fraction.as_integer_ratio()
        return 2 * max(a, b - a)

    @property
    def grain(self) -> int:
        """Fine units in 1/2b row; DP005 for an epsilon out of range."""
        return grain_for(self.moved, self.epsilon)

    @property
    def width(self) -> int:
        """Three exact integers a cell: n, q1, q2."""
        return 3

    @property
    def released(self) -> int:
        """One integer a cell: the bit."""
        return 1

    def charges(self) -> tuple[Charge, ...]:
        """One discrete Laplace draw."""
        return (Charge.of("laplace", epsilon=self.epsilon),)

    def release(self, exact: Sequence[Sequence[int]], noise: NoiseSource, label: str) -> list[tuple[int, ...]]:
        """The bit of every cell."""
        return [(hist_one(cell, self, noise, f"{label} decision"),) for cell in exact]


def hist_one(cell: Sequence[int], how: HistOne, noise: NoiseSource, label: str) -> int:
    """The bit for exact (n, q1, q2); guarantee as `HistOne`. In units of 1/2b row, and finer."""
    n, q1, q2 = cell
    a, b = how.fraction.as_integer_ratio()
    past = max(2 * (b * q1 - a * n) + 1, 2 * (b * q2 - (b - a) * n) - 1)
    moved = how.grain * how.moved
    noisy = noise.laplace([how.grain * past], l1_sensitivity=moved, epsilon=how.epsilon, label=label)
    return int(noisy[0] < 0)
