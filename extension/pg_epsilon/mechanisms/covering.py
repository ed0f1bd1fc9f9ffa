"""PrivateBoundDS: a power of two that covers about a share of the rows (dp-pqd.md §5.3); row units.

Its ladder: for t_j = 2^j, j = 1 … L, the number c_j of the values that are at most t_j. The values must be clamped to
[0, t_L]: a negative one would make the queries move in two directions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from pg_epsilon.accounting.charges import Charge, share
from pg_epsilon.mechanisms.grain import grain_for
from pg_epsilon.noise import NoiseSource


def doubling(largest: int, unit: int) -> tuple[int, ...]:
    """t_j = 2^j unit, j = 1 … L, L = max(1, ceil(log2(largest / unit))), by integers (dp-pqd.md §2.6)."""
    return tuple(unit * 2**j for j in range(1, max(1, (-(-largest // unit) - 1).bit_length()) + 1))


@dataclass(frozen=True)
class Bound:
    """PrivateBoundDS [P]: j in 1 … L such that about a fraction theta of the rows is at most 2^j.

    levels: `doubling`, lattice units, public; theta in (0, 1); epsilon: the budget. Not a bound on anything: the
    (1 - theta) n largest values may lie above. Reliable from about 180 / epsilon rows at theta = 0.95.

    Guarantee: epsilon-DP for adding or removing one row. n = c_L gets discrete Laplace noise at epsilon / 3. Given
    that, theta n~ is public, and c_1 … c_L change by 0 or 1 in one direction: AboveThreshold at epsilon / 3 for the
    threshold and epsilon / 3 for the queries (`NoiseSource.first_above`); adaptive composition. Source: dp-pqd.md §5.3.
    """

    levels: tuple[int, ...]
    theta: Decimal
    epsilon: Decimal

    def __post_init__(self) -> None:
        _ = self.grain

    @property
    def part(self) -> Decimal:
        """The share of n, of the threshold, of the queries."""
        return share(self.epsilon, 3)

    @property
    def grain(self) -> int:
        """Fine units in a row; DP005 for an epsilon out of range."""
        return grain_for(1, self.part)

    @property
    def width(self) -> int:
        """Exact integers of a cell: c_1 … c_L, then S_1 … S_L (not read here: the ladder is one statistic)."""
        return 2 * len(self.levels)

    @property
    def released(self) -> int:
        """One integer a cell: j."""
        return 1

    def charges(self) -> tuple[Charge, ...]:
        """epsilon, pure (composition.md §4)."""
        return (Charge.of("pure", epsilon=self.epsilon),)

    def release(self, exact: Sequence[Sequence[int]], noise: NoiseSource, label: str) -> list[tuple[int, ...]]:
        """j of every cell."""
        return [(bound(cell[: len(self.levels)], self, noise, f"{label} bound"),) for cell in exact]


def bound(counts: Sequence[int], how: Bound, noise: NoiseSource, label: str) -> int:
    """j for exact c_1 … c_L; guarantee as `Bound`.

    c_j + nu >= theta n~ + rho is compared exactly: n~ in units of 1/grain row, all in units of 1/(b grain), where
    theta = a/b.
    """
    part, grain = how.part, how.grain
    noisy = noise.laplace([grain * counts[-1]], l1_sensitivity=grain, epsilon=part, label=f"{label} n")[0]
    a, b = Fraction(how.theta).as_integer_ratio()
    index = noise.first_above(
        [b * grain * count - a * noisy for count in counts],
        sensitivity=b * grain,
        threshold_epsilon=part,
        query_epsilon=part,
        label=label,
    )
    return len(counts) if index is None else index + 1
