"""The core of counts: exact integers plus noise on the integer lattice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

from pg_epsilon.accounting.charges import Charge
from pg_epsilon.accounting.margins import gaussian_margin, gaussian_scale, laplace_margin, laplace_scale
from pg_epsilon.noise import NoiseSource


@dataclass(frozen=True)
class CountNoise:
    """How one vector of counts is noised: its sensitivity to one unit with all it owns, and its share of the budget.

    l1: L1 sensitivity of the vector; l2_squared: squared L2 sensitivity; exactly one of epsilon (discrete Laplace,
    scale l1/epsilon: epsilon-DP) and rho (discrete Gaussian, sigma² = l2_squared/(2 rho): rho-zCDP) is set.
    """

    l1: int
    l2_squared: int
    epsilon: Decimal | None = None
    rho: Decimal | None = None

    def charge(self) -> Charge:
        """The charge in native form (composition.md §3.5): the share as asked, whatever the sensitivity (§2.2)."""
        if self.epsilon is not None:
            return Charge.of("laplace", epsilon=self.epsilon)
        return Charge.of("gaussian", rho=self._rho())

    def margin(self, confidence: Decimal) -> int:
        """The smallest integer m such that one noisy count is within m of its exact one with this probability."""
        return _margin(self, confidence)

    def _rho(self) -> Decimal:
        if self.rho is None:
            raise ValueError("neither epsilon nor rho")
        return self.rho


@lru_cache(maxsize=256)
def _margin(how: CountNoise, confidence: Decimal) -> int:
    beta = 1 - Fraction(confidence)
    if how.epsilon is not None:
        return laplace_margin(laplace_scale(how.l1, Fraction(how.epsilon)), beta)
    return gaussian_margin(gaussian_scale(how.l2_squared, Fraction(how._rho())), beta)


def core(exact: Sequence[int], how: CountNoise, noise: NoiseSource, label: str) -> list[int]:
    """Noisy counts of one vector of cells, all drawn in one call; integers, not clamped at 0 (composition.md §14.9).

    exact: one exact count per cell. Guarantee: epsilon-DP (discrete Laplace) or rho-zCDP (discrete Gaussian) for adding
    or removing one unit with all it owns, provided `how` bounds what that can change.
    """
    if how.epsilon is not None:
        return noise.laplace(exact, l1_sensitivity=how.l1, epsilon=Fraction(how.epsilon), label=label)
    return noise.gaussian(exact, l2_squared=Fraction(how.l2_squared), rho=Fraction(how._rho()), label=label)
