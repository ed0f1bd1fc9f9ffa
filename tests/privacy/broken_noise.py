"""Wrong noise sources, each wrong in one way that was seen in the wild: what the audit of noise.py must reject.

They are seeded where it helps, so that a control fails the audit for its defect and not by chance.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

from pg_epsilon.noise import Noise

Number = int | Fraction | Decimal


class WrongScale(Noise):
    """Noise scaled by a factor: 1.1 gives the budget of 1.1 epsilon (a unit in rows per day, not per hour, say)."""

    def __init__(self, factor: str) -> None:
        self.factor = Fraction(factor)

    def laplace(self, exact: Sequence[int], *, l1_sensitivity: Number, epsilon: Number, label: str) -> list[int]:
        scaled = Fraction(epsilon) * self.factor
        return super().laplace(exact, l1_sensitivity=l1_sensitivity, epsilon=scaled, label=label)

    def gaussian(self, exact: Sequence[int], *, l2_squared: Number, rho: Number, label: str) -> list[int]:
        return super().gaussian(exact, l2_squared=l2_squared, rho=Fraction(rho) * self.factor, label=label)

    def select(self, scores: Sequence[Number], *, sensitivity: Number, epsilon: Number, label: str) -> int:
        scaled = Fraction(epsilon) * self.factor
        return super().select(scores, sensitivity=sensitivity, epsilon=scaled, label=label)


class IgnoredSensitivity(Noise):
    """A vector of joint sensitivity 2 gets the noise of one cell (composition.md §2.4: "disjoint, so parallel")."""

    def laplace(self, exact: Sequence[int], *, l1_sensitivity: Number, epsilon: Number, label: str) -> list[int]:
        return super().laplace(exact, l1_sensitivity=1, epsilon=epsilon, label=label)

    def gaussian(self, exact: Sequence[int], *, l2_squared: Number, rho: Number, label: str) -> list[int]:
        return super().gaussian(exact, l2_squared=1, rho=rho, label=label)


class SharedDraw(Noise):
    """One draw for all cells: differences of cells are exact."""

    def laplace(self, exact: Sequence[int], *, l1_sensitivity: Number, epsilon: Number, label: str) -> list[int]:
        shared = super().laplace([0], l1_sensitivity=l1_sensitivity, epsilon=epsilon, label=label)[0]
        return [value + shared for value in exact]

    def gaussian(self, exact: Sequence[int], *, l2_squared: Number, rho: Number, label: str) -> list[int]:
        shared = super().gaussian([0], l2_squared=l2_squared, rho=rho, label=label)[0]
        return [value + shared for value in exact]


class Antithetic(Noise):
    """Every second cell takes its neighbour's noise with the other sign: each cell is right, their sum is exact.

    Seeded: the counts of z and -z being the same, the law of one cell would be found wrong once in 1e5.
    """

    def __init__(self) -> None:
        self.random = random.Random(20261121)

    def laplace(self, exact: Sequence[int], *, l1_sensitivity: Number, epsilon: Number, label: str) -> list[int]:
        rate = float(Fraction(epsilon) / Fraction(l1_sensitivity))
        draw = self.random.expovariate
        return self._paired(exact, [math.floor(draw(rate)) - math.floor(draw(rate)) for _ in exact])

    def gaussian(self, exact: Sequence[int], *, l2_squared: Number, rho: Number, label: str) -> list[int]:
        sigma = math.sqrt(float(Fraction(l2_squared) / (2 * Fraction(rho))))
        support = range(-math.ceil(12 * sigma), math.ceil(12 * sigma) + 1)
        weights = [math.exp(-((k / sigma) ** 2) / 2) for k in support]
        return self._paired(exact, self.random.choices(support, weights, k=len(exact)))

    @staticmethod
    def _paired(exact: Sequence[int], half: Sequence[int]) -> list[int]:
        return [value + (half[i] if i % 2 == 0 else -half[i - 1]) for i, value in enumerate(exact)]


class FloatLaplace(Noise):
    """Textbook double-precision noise, rounded: another distribution near 0, and its bit patterns leak."""

    def __init__(self) -> None:
        self.random = random.Random(20261121)

    def laplace(self, exact: Sequence[int], *, l1_sensitivity: Number, epsilon: Number, label: str) -> list[int]:
        scale = float(Fraction(l1_sensitivity) / Fraction(epsilon))
        draw = self.random.expovariate
        return [value + round(scale * (draw(1.0) - draw(1.0))) for value in exact]

    def gaussian(self, exact: Sequence[int], *, l2_squared: Number, rho: Number, label: str) -> list[int]:
        sigma = math.sqrt(float(Fraction(l2_squared) / Fraction(rho)))  # 1/rho in place of 1/(2 rho)
        return [value + round(self.random.gauss(0.0, sigma)) for value in exact]

    def select(self, scores: Sequence[Number], *, sensitivity: Number, epsilon: Number, label: str) -> int:
        """exp() of raw scores: the paper's prototype, a fair coin once a weight is inf (dp-pqd.md §2.5)."""
        rate = float(Fraction(epsilon) / (2 * Fraction(sensitivity)))
        weights = [math.exp(min(700.0, rate * float(score))) for score in scores]
        return self.random.choices(range(len(weights)), weights)[0]


class DoubleZero(Noise):
    """A geometric magnitude and a random sign, without rejecting "minus zero": 0 comes out almost twice too often."""

    def __init__(self) -> None:
        self.random = random.Random(20261121)

    def laplace(self, exact: Sequence[int], *, l1_sensitivity: Number, epsilon: Number, label: str) -> list[int]:
        rate = float(Fraction(epsilon) / Fraction(l1_sensitivity))
        return [
            value + self.random.choice((-1, 1)) * math.floor(self.random.expovariate(1.0) / rate) for value in exact
        ]


class Repeating(Noise):
    """Seeded anew at every call: the right distribution, and the second answer to a query gives the first one away."""

    def laplace(self, exact: Sequence[int], *, l1_sensitivity: Number, epsilon: Number, label: str) -> list[int]:
        return self._draw(exact, float(Fraction(epsilon) / Fraction(l1_sensitivity)))

    @staticmethod
    def _draw(exact: Sequence[int], rate: float) -> list[int]:
        seeded = random.Random(42)

        def geometric() -> int:
            return math.floor(seeded.expovariate(1.0) / rate)

        return [value + geometric() - geometric() for value in exact]

    def gaussian(self, exact: Sequence[int], *, l2_squared: Number, rho: Number, label: str) -> list[int]:
        """Discrete Gaussian by inversion of its distribution function, seeded at every call."""
        seeded = random.Random(42)
        sigma = math.sqrt(float(Fraction(l2_squared) / (2 * Fraction(rho))))
        reach = math.ceil(12 * sigma)
        support = range(-reach, reach + 1)
        noise = seeded.choices(support, [math.exp(-((k / sigma) ** 2) / 2) for k in support], k=len(exact))
        return [value + z for value, z in zip(exact, noise, strict=True)]


class PermuteAndFlip(Noise):
    """Each candidate once, in random order: better than the exponential mechanism, but not epsilon-bounded-range."""

    def select(self, scores: Sequence[Number], *, sensitivity: Number, epsilon: Number, label: str) -> int:
        seeded = random.SystemRandom()
        rate, best = float(Fraction(epsilon) / (2 * Fraction(sensitivity))), max(Fraction(score) for score in scores)
        order = list(range(len(scores)))
        seeded.shuffle(order)
        for index in order:
            if seeded.random() < math.exp(-rate * float(best - Fraction(scores[index]))):
                return index
        raise AssertionError("the best score is always accepted")
