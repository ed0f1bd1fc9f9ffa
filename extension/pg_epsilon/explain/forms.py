"""What a released answer is made of: noisy integers and the law of their noise, or a bar.

Everything here is public: released integers and the parameters of the noise. The four forms are
what one answer can be; each is in lattice units but for `Barred`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from pg_epsilon.accounting.margins import gaussian_scale, laplace_scale
from pg_epsilon.explain.laplace import single
from pg_epsilon.explain.quantiles import two_sided
from pg_epsilon.mechanisms.additive import Additive
from pg_epsilon.mechanisms.estimators import Average, Number

Exact = int | float | Fraction
"""A number that is taken for exactly what it is: a double for the rational that it denotes."""

HALF = Fraction(1, 2)


@dataclass(frozen=True)
class Noise:
    """Noise of one cell: discrete Laplace, or discrete Gaussian.

    scale: of Pr[Z = k] proportional to e^(-|k|/scale), or sigma; lattice units, > 0. half_step:
    half of the distance of the values that the noise can take, because quantiles of continuous laws
    cover too little without it: 1/2, or 0 for continuous noise.
    """

    family: Literal["laplace", "gaussian"]
    scale: float
    half_step: Fraction = HALF

    @classmethod
    def of(cls, how: Additive) -> Noise:
        """The noise as it was drawn, with its scale rounded up to a double (accounting.margins)."""
        if how.epsilon is not None:
            return cls("laplace", laplace_scale(how.l1, Fraction(how.epsilon)))
        if how.rho is None:
            raise ValueError("neither epsilon nor rho")
        return cls("gaussian", gaussian_scale(how.l2_squared, Fraction(how.rho)))

    @property
    def is_gaussian(self) -> bool:
        return self.family == "gaussian"

    @property
    def half(self) -> float:
        return float(self.half_step)

    def margin(self, miss: float) -> float:
        """The noise is further from 0 than this with probability `miss` at most, 0 < miss < 1.

        In lattice units. Laplace: the exact margin of the lattice. Gaussian: z sigma and half a
        step.
        """
        if self.is_gaussian:
            return two_sided(miss) * self.scale + self.half
        return float(single(self.scale, miss))


@dataclass(frozen=True)
class Cell:
    """One released number and its noise; the noises of different cells are independent."""

    value: Exact
    noise: Noise

    @property
    def number(self) -> float:
        return float(self.value)

    def interval(self, miss: float) -> tuple[float, float]:
        margin = self.noise.margin(miss)
        return self.number - margin, self.number + margin


@dataclass(frozen=True)
class Linear:
    """A count or a sum: value * step. step: > 0, the value of one lattice unit."""

    cell: Cell
    step: Fraction = Fraction(1)

    @classmethod
    def of(cls, number: Number, raw: Sequence[int]) -> Linear:
        """From an estimator and its one released integer."""
        return cls(Cell(raw[0], Noise.of(number.measure)), number.step)


@dataclass(frozen=True)
class Halves:
    """An average: (centre + total / count) * step (dpxplain.md §4).

    total: of the values less the centre. low, high: the range of the values, centre: in it; all
    three in lattice units. shown: the average that the analyst was shown, in lattice units; None:
    the plain quotient.
    """

    total: Cell
    count: Cell
    step: Fraction
    low: Exact
    high: Exact
    centre: Exact = 0
    shown: Fraction | None = None

    def __post_init__(self) -> None:
        if self.total.noise.family != self.count.noise.family:
            raise ValueError("total and count have noise of one family")

    @classmethod
    def of(cls, average: Average, raw: Sequence[int]) -> Halves:
        """From an estimator and its two released integers; `shown`: as presented, not rounded."""
        total, count = Cell(raw[0], Noise.of(average.total)), Cell(raw[1], Noise.of(average.count))
        quotient = average.centre + Fraction(raw[0], max(raw[1], 1))
        shown = min(max(quotient, Fraction(average.low)), Fraction(average.high))
        return cls(total, count, average.step, average.low, average.high, average.centre, shown)


@dataclass(frozen=True)
class Pair:
    """An average as two sums, a of (v - low) and b of (high - v) (better-answers.md §1.1).

    Both have the same noise. The average is (low + (high - low) a / (a + b)) * step; low, high:
    lattice units.
    """

    a: Exact
    b: Exact
    noise: Noise
    low: Exact
    high: Exact
    step: Fraction = Fraction(1)

    @property
    def shown(self) -> Fraction | None:
        whole = Fraction(self.a) + Fraction(self.b)
        if not whole:
            return None
        low, high = Fraction(self.low), Fraction(self.high)
        return low + (high - low) * Fraction(self.a) / whole


@dataclass(frozen=True)
class Barred:
    """An answer without cells of its own, with its error bar; in units of the value.

    low, high: ends of the bar, also infinite. confidence: that the true value lies in it, in
    (0, 1). uniform: the bars of all answers of this source hold together with that confidence, as
    those of a histogram do; otherwise each holds for itself.
    """

    value: float
    low: float
    high: float
    confidence: Fraction
    uniform: bool = False


Form = Linear | Halves | Pair | Barred
