"""The one door for randomness (design.md R3): nothing else in pg_epsilon draws noise.

Every draw is one call that names its kind, its declared sensitivity, its scale (by epsilon or rho) and the exact
values. Integer noise comes from OpenDP's exact samplers (Canonne, Kamath, Steinke 2020, from the operating system's
entropy); selection and Bernoulli(e^-x) are ours, from `secrets`, each with its proof. There is no seed and no replay
in here. A mechanism takes a `NoiseSource` as an argument and `current()` is what production passes, so that a test
can pass an object that records or replays.

The lattice is that of 64-bit integers. Exact values beyond it are moved to its ends first (this shrinks distances, so
no sensitivity grows), and a noisy value beyond it is answered as its end: OpenDP adds in unbounded integers and
saturates, which is post-processing. Hence no value, however large, raises an error or wraps around (rule R5). Whether
a result can get that large is checked on public bounds, before the charge, elsewhere (composition.md §10.3).
"""

from __future__ import annotations

import operator
import secrets
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from math import lcm
from typing import Protocol, cast

from pg_epsilon.accounting.margins import (
    Number,
    checked_epsilon,
    checked_sensitivity,
    gaussian_scale,
    laplace_scale,
    rational,
)

LATTICE_MIN = -(2**63)
LATTICE_MAX = 2**63 - 1

Draw = Callable[[list[int]], list[int]]


class NoiseSource(Protocol):
    """What a mechanism's core may ask for. All sensitivities are to one unit of the dataset (add/remove).

    `label` names the draw in an audit ("count", "sum of a2"); it must be public and does not influence the draw.
    """

    def laplace(self, exact: Sequence[int], *, l1_sensitivity: Number, epsilon: Number, label: str) -> list[int]:
        """exact + DLap per cell; epsilon-DP when the cells' joint L1 sensitivity is l1_sensitivity."""
        ...

    def gaussian(self, exact: Sequence[int], *, l2_squared: Number, rho: Number, label: str) -> list[int]:
        """exact + discrete Gaussian per cell; rho-zCDP when the cells' joint squared L2 sensitivity is l2_squared."""
        ...

    def select(self, scores: Sequence[Number], *, sensitivity: Number, epsilon: Number, label: str) -> int:
        """The exponential mechanism: i with probability proportional to exp(epsilon * scores[i] / 2 sensitivity)."""
        ...


class Noise:
    """The production source: operating system entropy, exact samplers."""

    def laplace(self, exact: Sequence[int], *, l1_sensitivity: Number, epsilon: Number, label: str) -> list[int]:
        """exact + independent discrete Laplace noise, Pr[Z = k] proportional to e^(-|k| / s), on the integer lattice.

        l1_sensitivity > 0: how far one unit can move all cells together (sum of |changes|), lattice units.
        epsilon in (0, 1000]: the privacy loss, pure; s = `laplace_scale(l1_sensitivity, epsilon)` >= l1/epsilon.
        Returns one integer per cell, saturated to 64 bits. DP005 for parameters out of range. composition.md §4, row 1.
        """
        draw = _laplace(laplace_scale(l1_sensitivity, epsilon))
        return draw(_on_lattice(exact)) if len(exact) else []

    def gaussian(self, exact: Sequence[int], *, l2_squared: Number, rho: Number, label: str) -> list[int]:
        """exact + independent discrete Gaussian noise, Pr[Z = k] proportional to e^(-k^2 / 2 s^2), k integer.

        l2_squared > 0: the largest sum of squared changes that one unit can cause, lattice units squared.
        rho in (0, 1000]: zCDP, that is RDP a*rho at every order a; s = `gaussian_scale(l2_squared, rho)`.
        Returns one integer per cell, saturated to 64 bits. DP005 for parameters out of range. composition.md §4, row 2.
        """
        draw = _gaussian(gaussian_scale(l2_squared, rho))
        return draw(_on_lattice(exact)) if len(exact) else []

    def select(self, scores: Sequence[Number], *, sensitivity: Number, epsilon: Number, label: str) -> int:
        """Exponential mechanism: i with probability exactly proportional to exp(epsilon * scores[i] / 2 sensitivity).

        sensitivity > 0: the largest change of any one score that one unit can cause, in units of the scores.
        epsilon in (0, 1000]: the log-odds of any two outcomes move by at most epsilon (so pure epsilon and, the
        mechanism being epsilon-bounded-range, a*epsilon^2/8 at order a; composition.md §4, row 3).
        The number of scores must be public and at least 1. DP005 for parameters out of range.

        Proof. Let g_i = epsilon (max - scores[i]) / (2 sensitivity) >= 0. A round proposes i uniformly and accepts it
        with probability e^(-g_i), so it returns i with probability e^(-g_i)/k, and, rounds being independent, the
        first accepted index is i with probability e^(-g_i) / sum_j e^(-g_j). Everything is rational and
        `bernoulli_exp` is exact: no weight over- or underflows (dp-pqd.md §2.5). The best score is accepted whenever
        it is proposed: k rounds are expected at most. OpenDP's noisy max is not used: for pure DP it is
        permute-and-flip, which is not bounded-range.
        """
        factor = checked_epsilon(epsilon) / (2 * checked_sensitivity(sensitivity))
        if not scores:
            raise ValueError("select needs at least one score")
        exact = [rational(score, "score") for score in scores]
        common = lcm(*(score.denominator for score in exact))
        lattice = [score.numerator * (common // score.denominator) for score in exact]
        best, factor = max(lattice), factor / common
        while True:
            proposal = secrets.randbelow(len(lattice))
            if _bernoulli_exp((best - lattice[proposal]) * factor.numerator, factor.denominator):
                return proposal


def bernoulli_exp(x: Fraction | int) -> bool:
    """True with probability exactly e^(-x), for rational x >= 0. A building block of primitives, not a mechanism.

    Proof (Canonne, Kamath, Steinke 2020, algorithm 1). For 0 <= g <= 1 toss coins with probabilities g/1, g/2, g/3,
    ... until the first failure, at toss K: Pr[K > k] = g^k / k!, hence Pr[K odd] = sum over even k of (Pr[K > k] -
    Pr[K > k+1]) = sum_k (-g)^k / k! = e^(-g). For x > 1: e^(-x) = (e^(-1))^floor(x) * e^(-(x - floor(x))), one coin
    per factor, stopping at the first failure (so fewer than two coins are expected however large x is). A coin n/d is
    `randbelow(d) < n`: exact.
    """
    if x < 0:
        raise ValueError("bernoulli_exp needs x >= 0")
    return _bernoulli_exp(x.numerator, x.denominator)


def _bernoulli_exp(numerator: int, denominator: int) -> bool:
    whole, rest = divmod(numerator, denominator)
    for _ in range(whole):
        if not _bernoulli_exp_unit(1, 1):
            return False
    return _bernoulli_exp_unit(rest, denominator)


def _bernoulli_exp_unit(numerator: int, denominator: int) -> bool:
    """Bernoulli(e^-g) for g = numerator/denominator in [0, 1]."""
    tosses = 1
    while secrets.randbelow(denominator * tosses) < numerator:
        tosses += 1
    return tosses % 2 == 1


def _on_lattice(exact: Sequence[int]) -> list[int]:
    """The values as integers of the 64-bit lattice; a distance never grows by this."""
    return [min(max(operator.index(value), LATTICE_MIN), LATTICE_MAX) for value in exact]


# OpenDP is imported at the first draw: 0.1 s, against 0.3 s for its prelude. "contrib" is the feature flag of every
# noise measurement (it says that its proof was written outside the core team); nothing else is enabled.


@lru_cache(maxsize=256)
def _laplace(scale: float) -> Draw:
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_laplace
    from opendp.metrics import l1_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    return cast(Draw, make_laplace(vector_domain(atom_domain(T="i64")), l1_distance(T="i64"), scale))


@lru_cache(maxsize=256)
def _gaussian(scale: float) -> Draw:
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_gaussian
    from opendp.metrics import l2_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    return cast(Draw, make_gaussian(vector_domain(atom_domain(T="i64")), l2_distance(T="f64"), scale))


_PRODUCTION = Noise()


def current() -> NoiseSource:
    """The source of all noise in production; the entry point passes it to a mechanism's core."""
    return _PRODUCTION
