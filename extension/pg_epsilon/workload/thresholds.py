"""Truncation thresholds: none, public, or bought by sparse vector, recursion or selection (sum-workloads.md §5)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from pg_epsilon.accounting.charges import Charge
from pg_epsilon.accounting.curves import round_down
from pg_epsilon.errors import OUT_OF_RANGE, DPError
from pg_epsilon.noise import NoiseSource
from pg_epsilon.workload.ask import Options

GROWTH, START = 1.2, 16  # of the geometric grid: from U/16, as the paper's 5e4 of 8e5
MU = 0.5  # how far above the recursion's estimate theta is set, natural logarithm
MOST_LEVELS = 10_000


@dataclass(frozen=True)
class Threshold:
    """How theta is chosen, lattice units.

    grid: the values that theta may take, ascending, the last is the upper bound. epsilon: of the choice, None where it
    is public. units: how many rows of one unit count. Guarantee: epsilon-DP for one unit with all it owns; only theta
    is released.
    """

    kind: str
    grid: tuple[int, ...]
    units: int
    ratio: Fraction
    epsilon: Decimal | None = None
    step: float = 0.0

    def charges(self) -> tuple[Charge, ...]:
        if self.epsilon is None:
            return ()
        if self.kind == "svt":
            first, second = self.halves
            return (Charge.of("above_threshold", threshold_epsilon=first, query_epsilon=second),)
        return (Charge.of("exponential" if self.kind == "exponential" else "laplace", epsilon=self.epsilon),)

    @property
    def halves(self) -> tuple[Decimal, Decimal]:
        """The sparse vector's two budgets: that of the threshold, that of the queries, as m^(2/3) to 1.

        m is the threshold's sensitivity where the queries' is 1 (sum-workloads.md §0).
        """
        whole, moved = self.epsilon or Decimal(0), float(max(self.ratio, 1 - self.ratio)) ** (2 / 3)
        first = round_down(Fraction(whole) * Fraction(moved / (1 + moved)))
        return first, whole - first

    def choose(self, below: Sequence[int], rows: int, noise: NoiseSource, label: str) -> int:
        """Theta. below: for each grid value the number of rows at most it; rows: all of them. Exact, private."""
        return _CHOICES[self.kind](self, below, rows, noise, label)


def _fixed(how: Threshold, below: Sequence[int], rows: int, noise: NoiseSource, label: str) -> int:
    return how.grid[-1]


def _gaps(how: Threshold, below: Sequence[int], rows: int) -> list[int]:
    """f_k - r N in units of 1 / denominator of r: N is private, so r N is a part of the query (§5.1, §12, 7)."""
    return [how.ratio.denominator * count - how.ratio.numerator * rows for count in below]


def _svt(how: Threshold, below: Sequence[int], rows: int, noise: NoiseSource, label: str) -> int:
    """The first grid value with at least about r of all rows at or below it; the last where none fires.

    A row more moves every gap by denominator - numerator of r (its value is at most the grid's) or by -numerator.
    """
    first, second = how.halves
    found = noise.first_above(
        _gaps(how, below, rows)[:-1],
        sensitivity=max(how.ratio.denominator - how.ratio.numerator, 1) * how.units,
        fall=how.ratio.numerator * how.units,
        threshold_epsilon=Fraction(first),
        query_epsilon=Fraction(second),
        label=f"{label} theta",
    )
    return how.grid[-1] if found is None else how.grid[found]


def _exponential(how: Threshold, below: Sequence[int], rows: int, noise: NoiseSource, label: str) -> int:
    """The grid value whose share of rows is nearest to r, by selection: no bias to early values (§5.3)."""
    moved = max(how.ratio.numerator, how.ratio.denominator - how.ratio.numerator) * how.units
    scores = [-abs(gap) for gap in _gaps(how, below, rows)]
    return how.grid[noise.select(scores, sensitivity=moved, epsilon=Fraction(how.epsilon or 1), label=f"{label} theta")]


def _recursive(how: Threshold, below: Sequence[int], rows: int, noise: NoiseSource, label: str) -> int:
    """The first j with at most j rows above the j-th grid value, plus noise, plus mu: the recursive mechanism's Δ^.

    Sensitivity of j: a row more at most adds 1 to every count above, so the first j with count <= j moves by at most 1
    and never down (§5.2's bound on ln Δ, in units of its step). units rows: as many steps.
    """
    first = next((j for j, count in enumerate(below) if rows - count <= j), len(below) - 1)
    noisy = noise.laplace(
        [first], l1_sensitivity=how.units, epsilon=Fraction(how.epsilon or 1), label=f"{label} theta"
    )[0]
    place = noisy + math.ceil(MU / how.step)
    return how.grid[min(max(place, 0), len(how.grid) - 1)]


_CHOICES = {
    "none": _fixed,
    "public": _fixed,
    "svt": _svt,
    "exponential": _exponential,
    "recursive": _recursive,
}


def threshold(options: Options, high: int, step: Fraction, units: int, epsilon: Decimal | None) -> Threshold:
    """The choice of theta that the options ask for. high: the upper bound; step: of the lattice.

    DP005 where a public theta is no value within the bounds, or the budget gives the recursion too many levels.
    """
    ratio = Fraction(options.ratio)
    if options.public_theta is not None:
        level = math.floor(Fraction(options.public_theta) / step)
        if not 1 <= level <= high:
            raise DPError(
                OUT_OF_RANGE, "theta lies outside the declared bounds", f"At most {float(high * step):g}, above 0."
            )
        return Threshold("public", (level,), units, ratio)
    if not options.is_private:
        return Threshold("none", (high,), units, ratio)
    if epsilon is None or epsilon <= 0:
        raise DPError(OUT_OF_RANGE, "the budget is too small to be split", "Spend more, or theta => none.")
    if options.theta == "recursive":
        ratio_of_levels = float(epsilon) * 2 / 5
        levels = math.ceil(math.log(START) / ratio_of_levels) + 1
        if levels > MOST_LEVELS:
            raise DPError(
                OUT_OF_RANGE,
                f"the recursive choice of theta needs {levels} levels at this budget",
                "Spend more, or choose theta by svt or exponential.",
            )
        grid = _grid(high, math.exp(ratio_of_levels), levels)
        return Threshold("recursive", grid, units, ratio, epsilon, ratio_of_levels)
    return Threshold(options.theta, tuple(dict.fromkeys(_grid(high, GROWTH, MOST_LEVELS))), units, ratio, epsilon)


def _grid(high: int, growth: float, most: int) -> tuple[int, ...]:
    """high/16, times growth, and so on up to high, which is the last."""
    found: list[int] = []
    level = max(1.0, high / START)
    while level < high and len(found) < most - 1:
        found.append(max(1, math.floor(level)))
        level *= growth
    return (*found, high)
