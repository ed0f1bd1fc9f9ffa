"""What is shown of released integers: values and error bars, pure post-processing (composition.md §8).

An estimator holds the measures of one aggregate. Its `present` and `bars` see released integers, the plan and a
confidence, nothing else: a cached answer can show other bars for free. Values are texts; None is SQL's NULL, and in a
bar it says that this end is not known. Bars are about the clamped values (and capped rows) that were summed; the
notice says so.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from typing import Protocol

from pg_epsilon.mechanisms.additive import Additive
from pg_epsilon.mechanisms.covering import Bound
from pg_epsilon.mechanisms.grain import GRAIN
from pg_epsilon.mechanisms.group_by import Measure
from pg_epsilon.mechanisms.r2t import Ladder
from pg_epsilon.mechanisms.r2t_join import JoinLadder
from pg_epsilon.mechanisms.ranks import Ranks
from pg_epsilon.noise import LATTICE_MAX, LATTICE_MIN

Bar = tuple[str | None, str | None, str | None]
Interval = tuple[Fraction, Fraction]
UNKNOWN: Bar = (None, None, None)
_WORK = Context(prec=60, rounding=ROUND_HALF_EVEN)
EXTRA_DIGITS = 6  # of averages, beyond those of the values


class Estimator(Protocol):
    """One aggregate's measures, and how its value and its bar come from what they release."""

    @property
    def measures(self) -> tuple[Measure, ...]: ...

    @property
    def mechanism(self) -> str: ...

    def present(self, raw: Sequence[int]) -> str | None: ...

    def bars(self, raw: Sequence[int], confidence: Decimal) -> Bar: ...

    def margin(self, confidence: Decimal) -> Fraction | None: ...

    def expected_error(self) -> Fraction | None: ...


class Joint(ABC):
    """One release for several aggregates of a block, in their order.

    raw: the released integers of one group; first: those of the first group, which say what all groups share.
    """

    @abstractmethod
    def texts(self, raw: Sequence[int], first: Sequence[int]) -> list[str | None]:
        """Their values."""

    @abstractmethod
    def all_bars(self, raw: Sequence[int], first: Sequence[int], confidence: Decimal) -> list[Bar]:
        """Their error bars."""


def digits_of(step: Fraction) -> int:
    """Decimals that a multiple of the step needs; 12 for one that is no decimal fraction."""
    for digits in range(13):
        if (step * 10**digits).denominator == 1:
            return digits
    return 12


def text(value: Fraction, digits: int) -> str:
    """A decimal of so many digits after the point, rounded half to even."""
    scaled = round(value * 10**digits)
    return format(Decimal(scaled).scaleb(-digits, Context(prec=1000)), "f")


def _short(value: float) -> str:
    """Four significant digits, without exponent."""
    return format(Context(prec=4).create_decimal_from_float(value), "f")


@dataclass(frozen=True)
class Number:
    """A count or a sum: integer * step."""

    measure: Additive
    step: Fraction = Fraction(1)
    whole: bool = True

    @property
    def measures(self) -> tuple[Measure, ...]:
        return (self.measure,)

    @property
    def mechanism(self) -> str:
        return "discrete Gaussian" if self.measure.rho is not None else "discrete Laplace"

    def present(self, raw: Sequence[int]) -> str | None:
        return self._text(raw[0] * self.step)

    def bars(self, raw: Sequence[int], confidence: Decimal) -> Bar:
        margin = self.measure.margin(confidence)
        ends = [self._text((raw[0] + sign * margin) * self.step) for sign in (-1, 1)]
        return ends[0], ends[1], _short(self.measure.deviation() * float(self.step))

    def margin(self, confidence: Decimal) -> Fraction | None:
        return self.measure.margin(confidence) * self.step

    def expected_error(self) -> Fraction | None:
        return Fraction(self.measure.expected_error()) * self.step

    def _text(self, value: Fraction) -> str:
        if self.whole:  # an integer of 64 bits, whatever the step is
            return str(min(max(round(value), LATTICE_MIN), LATTICE_MAX))
        return text(value, digits_of(self.step))


@dataclass(frozen=True)
class Truncated:
    """A sum or a count by R2T: never above the true one, but with probability beta / 2.

    most: what the sums of the positive and of the negative contributions are at most, by what is declared (lattice
    units); above it an answer is cut, because a level that overshoots may do so by far.
    """

    ladder: Ladder
    step: Fraction = Fraction(1)
    whole: bool = True
    most: tuple[int, int] | None = None

    @property
    def measures(self) -> tuple[Measure, ...]:
        return (self.ladder,)

    @property
    def mechanism(self) -> str:
        return f"R2T, {len(self.ladder.levels)} levels"

    def present(self, raw: Sequence[int]) -> str | None:
        first, *rest = self._sides(raw, Fraction(self.ladder.beta))
        return self._text(first - sum(rest))

    def bars(self, raw: Sequence[int], confidence: Decimal) -> Bar:
        """One-sided: the true value is at least the low end; the upper side is unknown. Two signs: unknown."""
        if len(self.ladder.sides) > 1:
            return UNKNOWN
        beta = 2 * (1 - Fraction(confidence))  # penalties at beta overshoot with probability beta / 2 at most
        return self._text(self._sides(raw, min(beta, Fraction(1)))[0]), None, None

    def margin(self, confidence: Decimal) -> Fraction | None:
        return None

    def expected_error(self) -> Fraction | None:
        """If the largest contribution is in the middle of the ladder; nobody may know where it is."""
        return Fraction(self.ladder.expected_error(len(self.ladder.levels) // 2)) * self.step

    def _sides(self, raw: Sequence[int], beta: Fraction) -> list[int]:
        found = self.ladder.side_values(raw, beta)
        return found if self.most is None else [min(pair) for pair in zip(found, self.most, strict=False)]

    def _text(self, value: int) -> str:
        return Number(Additive(1, 1), self.step, self.whole)._text(value * self.step)


@dataclass(frozen=True)
class Covering:
    """The level that PrivateBoundDS chose; top: the declared upper end, lattice units."""

    measure: Bound
    top: int
    step: Fraction = Fraction(1)
    whole: bool = True

    @property
    def measures(self) -> tuple[Measure, ...]:
        return (self.measure,)

    @property
    def mechanism(self) -> str:
        return "PrivateBoundDS"

    def present(self, raw: Sequence[int]) -> str | None:
        return Number(Additive(1, 1), self.step, self.whole)._text(
            min(self.measure.levels[raw[0] - 1], self.top) * self.step
        )

    def bars(self, raw: Sequence[int], confidence: Decimal) -> Bar:
        return UNKNOWN

    def margin(self, confidence: Decimal) -> Fraction | None:
        return None

    def expected_error(self) -> Fraction | None:
        return None


@dataclass(frozen=True)
class Joined:
    """A sum or a count by linear programs, released in 1/GRAIN of a value's unit.

    most: what it is at most by what is declared, in units of the values; above it an answer is cut.
    """

    ladder: JoinLadder
    step: Fraction = Fraction(1)
    whole: bool = True
    most: int | None = None

    @property
    def measures(self) -> tuple[Measure, ...]:
        return (self.ladder,)

    @property
    def mechanism(self) -> str:
        return f"R2T by linear programs, {len(self.ladder.levels)} levels"

    def present(self, raw: Sequence[int]) -> str | None:
        value = round(Fraction(raw[0], GRAIN))
        shown = value if self.most is None else min(value, self.most)
        return Number(Additive(1, 1), self.step, self.whole)._text(shown * self.step)

    def bars(self, raw: Sequence[int], confidence: Decimal) -> Bar:
        """The true value is at least the low end with probability 1 - beta/2; for more confidence it is unknown."""
        enough = Fraction(confidence) <= 1 - Fraction(self.ladder.beta) / 2
        return self.present(raw) if enough else None, None, None

    def margin(self, confidence: Decimal) -> Fraction | None:
        return None

    def expected_error(self) -> Fraction | None:
        """If the largest contribution is in the middle of the ladder; nobody may know where it is."""
        return Fraction(self.ladder.expected_error(self.ladder.levels[len(self.ladder.levels) // 2])) * self.step


@dataclass(frozen=True)
class Average:
    """centre + (sum of value - centre) / count, clamped to the values' range (dp-pqd.md §6.4, dpxplain.md §4).

    total: of the centred lattice integers; count: of the rows with a value. low, high, centre: lattice units.
    """

    total: Additive
    count: Additive
    step: Fraction
    low: int
    high: int
    centre: int

    @property
    def measures(self) -> tuple[Measure, ...]:
        return (self.total, self.count)

    @property
    def mechanism(self) -> str:
        return Number(self.total).mechanism

    def present(self, raw: Sequence[int]) -> str | None:
        """A released count below 1 stands for 1."""
        value = self.centre + Fraction(raw[0], max(raw[1], 1))
        return self._text(min(max(value, Fraction(self.low)), Fraction(self.high)))

    def bars(self, raw: Sequence[int], confidence: Decimal) -> Bar:
        """The image of a box: both parts inside their margins with probability `confidence` (union bound)."""
        each = (1 + Fraction(confidence)) / 2
        total, count = (_around(y, how.margin(each)) for y, how in zip(raw, (self.total, self.count), strict=True))
        low, high = _within(_shift(_quotient(total, count), self.centre), (Fraction(self.low), Fraction(self.high)))
        return self._text(low), self._text(high), self._deviation(raw)

    def _deviation(self, raw: Sequence[int]) -> str | None:
        """First order in the noise; unknown where the count is not well above its own noise."""
        if raw[1] < 5 * self.count.deviation() or raw[1] < 1:
            return None
        ratio = raw[0] / raw[1]
        return _short(math.hypot(self.total.deviation(), ratio * self.count.deviation()) / raw[1] * float(self.step))

    def margin(self, confidence: Decimal) -> Fraction | None:
        return None

    def expected_error(self) -> Fraction | None:
        return None

    def _text(self, value: Fraction) -> str:
        return text(value * self.step, digits_of(self.step) + EXTRA_DIGITS)


@dataclass(frozen=True)
class Spread:
    """Variance or standard deviation from count, sum and sum of squares about the centre.

    squares are of the centred integers in units of `grain` (public, so that they fit the lattice). reach: the largest
    distance from the centre, lattice units. sample: divide by n - 1. root: standard deviation.
    """

    count: Additive
    total: Additive
    squares: Additive
    grain: Fraction
    reach: int
    step: Fraction
    sample: bool
    root: bool

    @property
    def measures(self) -> tuple[Measure, ...]:
        return (self.count, self.total, self.squares)

    @property
    def mechanism(self) -> str:
        return Number(self.total).mechanism

    def present(self, raw: Sequence[int]) -> str | None:
        """NULL where the released count is below 2 (sample) or 1: what PostgreSQL says of so few rows."""
        n = raw[0]
        if n < (2 if self.sample else 1):
            return None
        spread = raw[2] * self.grain / n - Fraction(raw[1], n) ** 2
        value = min(max(spread, Fraction(0)), Fraction(self.reach) ** 2)
        return self._text(value * Fraction(n, n - 1) if self.sample else value)

    def bars(self, raw: Sequence[int], confidence: Decimal) -> Bar:
        """Interval arithmetic over a box in which all three parts are with probability `confidence`."""
        each = 1 - (1 - Fraction(confidence)) / 3
        count, total, squares = (_around(y, m.margin(each)) for y, m in zip(raw, self._parts, strict=True))
        limit = (Fraction(0), Fraction(self.reach) ** 2)
        mean = _quotient(total, count)
        second = _quotient((squares[0] * self.grain, squares[1] * self.grain), count)
        if mean is None or second is None:
            low, high = limit
        else:
            ends = sorted((abs(mean[0]), abs(mean[1])))
            least = Fraction(0) if mean[0] <= 0 <= mean[1] else ends[0] ** 2
            # a square is cut to a multiple of the grain: less than one grain is missing on average
            low, high = _within((second[0] - ends[1] ** 2, second[1] + self.grain - least), limit)
        if self.sample:
            high *= 2 if count[0] < 2 else count[0] / (count[0] - 1)
        return self._text(low), self._text(high), None

    @property
    def _parts(self) -> tuple[Additive, Additive, Additive]:
        return self.count, self.total, self.squares

    def margin(self, confidence: Decimal) -> Fraction | None:
        return None

    def expected_error(self) -> Fraction | None:
        return None

    def _text(self, value: Fraction) -> str:
        digits = digits_of(self.step) + EXTRA_DIGITS
        value *= self.step**2
        if not self.root:
            return text(value, digits)
        return text(Fraction(_WORK.sqrt(_WORK.divide(Decimal(value.numerator), Decimal(value.denominator)))), digits)


@dataclass(frozen=True)
class Quantile:
    """A declared value: the multiple of `grid` in the middle of the chosen stride, within the bounds.

    low, high, stride, grid: lattice units; a stride is a multiple of grid, the first one starts at the multiple at or
    below low.
    """

    ranks: Ranks
    low: int
    high: int
    stride: int
    step: Fraction
    whole: bool
    grid: int = 1

    @property
    def measures(self) -> tuple[Measure, ...]:
        return (self.ranks,)

    @property
    def mechanism(self) -> str:
        return "exponential"

    def present(self, raw: Sequence[int]) -> str | None:
        chosen = self.low // self.grid + self.stride // self.grid * raw[0] + self.stride // self.grid // 2
        value = max(self.low, min(chosen * self.grid, self.high)) * self.step
        return str(round(value)) if self.whole else text(value, digits_of(self.step))

    def bars(self, raw: Sequence[int], confidence: Decimal) -> Bar:
        """Its guarantee is about ranks: nothing public bounds the error of the value."""
        return UNKNOWN

    def margin(self, confidence: Decimal) -> Fraction | None:
        return None

    def expected_error(self) -> Fraction | None:
        return None


def _around(value: int, margin: int) -> Interval:
    return Fraction(value - margin), Fraction(value + margin)


def _quotient(total: Interval, count: Interval) -> Interval | None:
    """The range of total / count for a count of at least 1; None if the count's whole range is below 1."""
    low, high = max(count[0], Fraction(1)), count[1]
    if high < 1:
        return None
    first = total[0] / (high if total[0] >= 0 else low)
    second = total[1] / (low if total[1] >= 0 else high)
    return first, second


def _shift(interval: Interval | None, by: int) -> Interval | None:
    return None if interval is None else (interval[0] + by, interval[1] + by)


def _within(interval: Interval | None, limit: Interval) -> Interval:
    """The part of an interval inside the possible values; all of those if nothing is left."""
    if interval is None or interval[1] < limit[0] or interval[0] > limit[1]:
        return limit
    return max(interval[0], limit[0]), min(interval[1], limit[1])
