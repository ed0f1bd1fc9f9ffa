"""Fine lattices: integer noise so fine that a decision's probabilities are those of continuous noise (dp-pqd.md §2.5).

noise.py draws integers. A decider compares noisy values with thresholds, and with noise of a few units the integer
lattice would show in its error. So exact integers are multiplied by a public grain first, and sensitivities with
them: the same mechanism, in smaller units. The guarantee is that of integer noise; only the error formulas need this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pg_epsilon.accounting.charges import Charge
from pg_epsilon.accounting.margins import Number, laplace_scale
from pg_epsilon.mechanisms.group_by import Measure
from pg_epsilon.noise import NoiseSource

# Answers by linear programs are integers of 1/GRAIN of a value's unit, so that their rounding is small beside the least
# threshold, 1.
GRAIN = 128

FINEST = 2**20
"""The scale of the noise, in fine units, from which on integer and continuous noise are the same to six decimals."""


def grain_of(scale: float) -> int:
    """The smallest power of two, 1 … 2^20, that makes a noise scale (lattice units, > 0) at least 2^20 fine units."""
    grain = 1
    while scale * grain < FINEST and grain < FINEST:
        grain *= 2
    return grain


def grain_for(moved: Number, epsilon: Number) -> int:
    """The grain of discrete Laplace noise of scale moved / epsilon; DP005 if noise.py would refuse that scale.

    A measure asks when it is built: what its parameters make impossible is said before the charge.
    """
    return grain_of(laplace_scale(moved, epsilon))


@dataclass(frozen=True)
class Grained:
    """A measure of values in units of 1/grain: it is given the exact integers times `grain`, and releases as it does.

    The inner measure's sensitivity must be in fine units (`grain` times that of the statistic). Guarantee and charge:
    the inner measure's; multiplication by a public constant touches no privacy.
    """

    measure: Measure
    grain: int

    @property
    def width(self) -> int:
        """Exact integers of one cell."""
        return self.measure.width

    @property
    def released(self) -> int:
        """Released integers of one cell, in fine units."""
        return self.measure.released

    def charges(self) -> tuple[Charge, ...]:
        """The inner measure's."""
        return self.measure.charges()

    def release(self, exact: Sequence[Sequence[int]], noise: NoiseSource, label: str) -> Sequence[Sequence[int]]:
        """The inner measure on `grain` times the exact integers."""
        return self.measure.release([[value * self.grain for value in cell] for cell in exact], noise, label)
