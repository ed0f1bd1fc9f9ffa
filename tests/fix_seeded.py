"""Noise of the right law from a seed: for tests whose probability nobody can compute."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pg_epsilon.accounting.margins import Number, gaussian_scale, laplace_scale
from pg_epsilon.noise import Noise


class Seeded(Noise):
    """Discrete Laplace, and rounded Gaussian, noise."""

    def __init__(self, seed: int) -> None:
        self.numbers = np.random.default_rng(seed)

    def laplace(self, exact: Sequence[int], *, l1_sensitivity: Number, epsilon: Number, label: str) -> list[int]:
        stop = -math.expm1(-1 / laplace_scale(l1_sensitivity, epsilon))
        one, two = self.numbers.geometric(stop, (2, len(exact)))
        return [value + int(z) for value, z in zip(exact, one - two, strict=True)]

    def gaussian(self, exact: Sequence[int], *, l2_squared: Number, rho: Number, label: str) -> list[int]:
        drawn = self.numbers.normal(0, gaussian_scale(l2_squared, rho), len(exact))
        return [value + round(z) for value, z in zip(exact, drawn, strict=True)]
