"""R2T: a sum whose largest contribution is unknown, from noisy truncated sums (dp-pqd.md §5.2, issue 4).

For thresholds t_1 < … < t_L = GS the truncated sum S_j of non-negative contributions has sensitivity t_j, never
exceeds the sum and equals it once t_j reaches the largest contribution. Each is released with Laplace noise at
epsilon / L, and the estimate is max(0, max_j (noisy_j - penalty_j)), penalty_j = scale_j ln(L / beta): with
probability 1 - beta/2 no level overshoots. The last threshold is GS itself, not the power above it: no truncation is
lost by that, and noise is saved.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache

from pg_epsilon.accounting.charges import Charge
from pg_epsilon.accounting.margins import laplace_scale
from pg_epsilon.noise import NoiseSource

BASES = (Fraction(2), Fraction(11, 2))
BETA = Decimal("0.05")
GEO = "geo"
_WORK = Context(prec=50)


@lru_cache(maxsize=64)
def thresholds(gs: int, base: Fraction, unit: int = 1) -> tuple[int, ...]:
    """floor(unit base^j), j = 1, 2, … below gs, then gs: max(1, ceil(log_base(gs / unit))) levels, by integers."""
    found: list[int] = []
    level = unit * base
    while level < gs:
        found.append(math.floor(level))
        level *= base
    return (*found, max(1, gs))


@dataclass(frozen=True)
class Ladder:
    """The levels of one sum, and its share of the budget.

    levels: the thresholds, lattice units. sides: the global sensitivity of the positive contributions, and of the
    negative ones if there are any (one or two sides, each a sum of non-negative contributions). joint: how many sides
    one unit can be on (1 for row units: a row has one sign; 2 for users, composition.md §2.4). beta: the probability
    that a level overshoots. truncation: how a contribution above a threshold is cut, min(contribution, threshold) or
    left out (filter); both have sensitivity threshold. geo is filter with less noise: a unit with contribution a moves
    level j by a where t_j >= a and not at all below, so the levels' losses fall off geometrically (`weight`).
    """

    levels: tuple[int, ...]
    sides: tuple[int, ...]
    joint: int
    epsilon: Decimal
    beta: Decimal = BETA
    truncation: str = "min"

    @property
    def counts(self) -> tuple[int, ...]:
        """Levels of each side: up to the first threshold that is not below the side's own sensitivity."""
        return tuple(1 + sum(level < side for level in self.levels) for side in self.sides)

    @property
    def width(self) -> int:
        """Exact integers of one cell: each side's levels, side by side."""
        return sum(self.counts)

    @property
    def released(self) -> int:
        """Released integers of one cell: every noisy level."""
        return self.width

    def charges(self) -> tuple[Charge, ...]:
        """epsilon, as L releases at epsilon / L (composition.md §4, R2T); of geo, as one vector."""
        if self.truncation == GEO:
            return (Charge.of("laplace", epsilon=self.epsilon),)
        return (Charge.of("r2t", epsilon=self.epsilon, levels=len(self.levels)),)

    def release(self, exact: Sequence[Sequence[int]], noise: NoiseSource, label: str) -> list[tuple[int, ...]]:
        """`core` on every cell's truncated sums."""
        if self.truncation == GEO:
            return _geometric(exact, self, noise, label)
        return core(exact, self, noise, label)

    def scale(self, level: int) -> float:
        """The Laplace scale of one level (0, 1, …), lattice units."""
        return laplace_scale(self.levels[level] * self.joint, self.share)

    @property
    def share(self) -> Fraction:
        """The epsilon by which the noise of a level is scaled."""
        return Fraction(self.epsilon) / (self.weight if self.truncation == GEO else len(self.levels))

    @property
    def weight(self) -> Fraction:
        """The largest sum over levels of a [a <= t_j] / t_j, for any contribution a: below 3 at base 2."""
        return max(
            sum((Fraction(t, above) for above in self.levels[j:]), Fraction(0)) for j, t in enumerate(self.levels)
        )

    def penalties(self, beta: Fraction) -> tuple[int, ...]:
        """What is taken off each noisy level: Pr[noise_j > penalty_j] <= beta / 2L, so beta / 2 for all of a side."""
        return _penalties(self, beta)

    def side_values(self, raw: Sequence[int], beta: Fraction) -> list[int]:
        """max(0, max_j(noisy_j - penalty_j)) of each side: with probability 1 - beta/2 at most the true one."""
        found, start = [], 0
        for count in self.counts:
            lowered = [y - p for y, p in zip(raw[start : start + count], self.penalties(beta), strict=False)]
            found.append(max(0, *lowered))
            start += count
        return found

    def estimate(self, raw: Sequence[int]) -> int:
        """The answer: the positive side less the negative one."""
        first, *rest = self.side_values(raw, Fraction(self.beta))
        return first - sum(rest)

    def expected_error(self, level: int) -> float:
        """Penalty and noise if the largest contribution is just at this level; lattice units."""
        return self.scale(level) * (1 + math.log(len(self.levels) / float(self.beta)))


@lru_cache(maxsize=256)
def _penalties(ladder: Ladder, beta: Fraction) -> tuple[int, ...]:
    ratio = len(ladder.levels) / beta
    log = Fraction(_WORK.ln(_WORK.divide(Decimal(ratio.numerator), Decimal(ratio.denominator))))
    scales = [Fraction(ladder.scale(level)) for level in range(len(ladder.levels))]
    return tuple(math.ceil(scale * log) for scale in scales)


def core(exact: Sequence[Sequence[int]], ladder: Ladder, noise: NoiseSource, label: str) -> list[tuple[int, ...]]:
    """The noisy truncated sums of every cell: all cells and sides of one level in one draw.

    exact: per cell, each side's truncated sums, smallest threshold first. Guarantee: epsilon-DP for adding or removing
    one unit with all it owns, if one unit is in one cell and on `joint` sides: each level has joint L1 sensitivity
    joint * t_j and takes epsilon / L, and the levels add up. What is returned is released as it is: the estimate, and
    bars at any confidence, are post-processing.
    """
    starts = [sum(ladder.counts[:side]) for side in range(len(ladder.sides))]
    released = [[0] * ladder.width for _ in exact]
    for level, threshold in enumerate(ladder.levels):
        columns = [start + level for start, count in zip(starts, ladder.counts, strict=True) if level < count]
        vector = [cell[column] for cell in exact for column in columns]
        noisy = noise.laplace(
            vector, l1_sensitivity=threshold * ladder.joint, epsilon=ladder.share, label=f"{label} level {level + 1}"
        )
        for i, value in enumerate(noisy):
            released[i // len(columns)][columns[i % len(columns)]] = value
    return [tuple(cell) for cell in released]


def _geometric(exact: Sequence[Sequence[int]], ladder: Ladder, noise: NoiseSource, label: str) -> list[tuple[int, ...]]:
    """`core` for geo: all levels are one draw, whose joint sensitivity is what counts."""
    starts = [sum(ladder.counts[:side]) for side in range(len(ladder.sides))]
    columns = [
        [start + level for start, count in zip(starts, ladder.counts, strict=True) if level < count]
        for level in range(len(ladder.levels))
    ]
    noisy = noise.ladder(
        [[cell[column] for cell in exact for column in those] for those in columns],
        ladder.levels,
        weight=ladder.weight * ladder.joint,
        epsilon=Fraction(ladder.epsilon),
        label=f"{label} ladder",
    )
    released = [[0] * ladder.width for _ in exact]
    for those, values in zip(columns, noisy, strict=True):
        for i, value in enumerate(values):
            released[i // len(those)][those[i % len(those)]] = value
    return [tuple(cell) for cell in released]
