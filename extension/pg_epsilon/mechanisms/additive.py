"""Counts and sums of lattice integers: exact integers plus noise on the integer lattice."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

from pg_epsilon.accounting.charges import Charge
from pg_epsilon.accounting.margins import gaussian_margin, gaussian_scale, laplace_margin, laplace_scale
from pg_epsilon.noise import NoiseSource


@dataclass(frozen=True)
class Additive:
    """How one vector of counts or sums is noised: its sensitivity to one unit with all it owns, its share of budget.

    l1: L1 sensitivity of the vector over all groups, lattice units; l2_squared: squared L2 sensitivity; exactly one of
    epsilon (discrete Laplace, scale l1/epsilon: epsilon-DP) and rho (discrete Gaussian, sigma² = l2_squared/(2 rho):
    rho-zCDP) is set.
    """

    l1: int
    l2_squared: int
    epsilon: Decimal | None = None
    rho: Decimal | None = None

    @property
    def width(self) -> int:
        """Exact integers of one cell."""
        return 1

    @property
    def released(self) -> int:
        """Released integers of one cell."""
        return 1

    def charges(self) -> tuple[Charge, ...]:
        """The charge in native form (composition.md §3.5): the share as asked, whatever the sensitivity (§2.2)."""
        if self.epsilon is not None:
            return (Charge.of("laplace", epsilon=self.epsilon),)
        return (Charge.of("gaussian", rho=self._rho()),)

    def margin(self, confidence: Decimal | Fraction) -> int:
        """The smallest integer m such that one noisy value is within m of its exact one with this probability."""
        return _margin(self, Fraction(confidence))

    def deviation(self) -> float:
        """The standard deviation of the noise, lattice units."""
        if self.epsilon is None:
            return gaussian_scale(self.l2_squared, Fraction(self._rho()))
        scale = laplace_scale(self.l1, Fraction(self.epsilon))
        return 1 / (math.sqrt(2) * math.sinh(1 / (2 * scale))) if scale > 1e-3 else 0.0

    def expected_error(self) -> float:
        """The mean of the noise's absolute value, lattice units."""
        return self.deviation() * (math.sqrt(0.5) if self.epsilon is not None else math.sqrt(2 / math.pi))

    def _rho(self) -> Decimal:
        if self.rho is None:
            raise ValueError("neither epsilon nor rho")
        return self.rho

    def release(self, exact: Sequence[Sequence[int]], noise: NoiseSource, label: str) -> list[tuple[int, ...]]:
        """`core` on the one column of every cell."""
        return [(value,) for value in core([cell[0] for cell in exact], self, noise, label)]


@lru_cache(maxsize=1024)
def _margin(how: Additive, confidence: Fraction) -> int:
    beta = 1 - confidence
    if how.epsilon is not None:
        return laplace_margin(laplace_scale(how.l1, Fraction(how.epsilon)), beta)
    return gaussian_margin(gaussian_scale(how.l2_squared, Fraction(how._rho())), beta)


def core(exact: Sequence[int], how: Additive, noise: NoiseSource, label: str) -> list[int]:
    """Noisy values of one vector of cells, all drawn in one call; integers, not clamped at 0 (composition.md §14.9).

    exact: one exact integer per cell. Guarantee: epsilon-DP (discrete Laplace) or rho-zCDP (discrete Gaussian) for
    adding or removing one unit with all it owns, provided `how` bounds what that can change.
    """
    if how.epsilon is not None:
        return noise.laplace(exact, l1_sensitivity=how.l1, epsilon=Fraction(how.epsilon), label=label)
    return noise.gaussian(exact, l2_squared=Fraction(how.l2_squared), rho=Fraction(how._rho()), label=label)
