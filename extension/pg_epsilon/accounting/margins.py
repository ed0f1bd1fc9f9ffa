"""What the drawn noise is: realised scales, exact tails, margins, and the budget that an accuracy asks for.

Pure functions of public parameters: nothing here draws noise or sees data. OpenDP takes its scale as a double, so
every scale is rounded *up* to a double (`laplace_scale`, `gaussian_scale`): the noise is never smaller than the
charge assumes. Margins are computed from those realised scales, so an error bar holds for the noise as it was drawn
(composition.md §8). In this module a double stands for the exact rational it denotes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache

from pg_epsilon.errors import OUT_OF_RANGE, DPError

Number = int | Fraction | Decimal
"""Exact numbers. Floats are refused: 0.1 as a double is not the 0.1 that was charged."""

EPSILON_MAX = 1000
"""Largest epsilon of one draw or one charge: far above any guarantee, and small enough that no formula overflows."""

SCALE_MAX = 10**18
"""Largest noise scale (lattice units). Beyond it the answer would saturate at the ends of a 64-bit integer."""

BETA_MIN = Fraction(1, 10**15)
"""Smallest failure probability of a margin: well inside the range where double-precision tails are accurate."""

_DIGITS = 12
_WIDE = Context(prec=50)
_TAIL_GUARD = 1 + 1e-9  # covers the rounding of exp, erfc and a few thousand additions in double precision
_EXACT_SIGMA = 64.0


def rational(value: Number, name: str) -> Fraction:
    """`value` as an exact fraction; DP005 if it is not a finite number. A float is a programming error (TypeError)."""
    if isinstance(value, bool) or not isinstance(value, (int, Fraction, Decimal)):
        raise TypeError(f"{name} must be int, Fraction or Decimal, not {type(value).__name__}")
    if isinstance(value, Decimal) and not value.is_finite():
        raise DPError(OUT_OF_RANGE, f"{name} must be a finite number", f"Give {name} as a plain decimal number.")
    return Fraction(value)


def checked_epsilon(value: Number, name: str = "epsilon") -> Fraction:
    """An epsilon in (0, EPSILON_MAX], exactly; DP005 otherwise."""
    epsilon = rational(value, name)
    if not 0 < epsilon <= EPSILON_MAX:
        raise DPError(
            OUT_OF_RANGE,
            f"{name} must be greater than 0 and at most {EPSILON_MAX}",
            f"Usual values of {name} lie between 0.01 and 10.",
        )
    return epsilon


def checked_sensitivity(value: Number, name: str = "sensitivity") -> Fraction:
    """A declared sensitivity greater than 0, exactly; DP005 otherwise."""
    sensitivity = rational(value, name)
    if sensitivity <= 0:
        raise DPError(
            OUT_OF_RANGE,
            f"{name} must be greater than 0",
            "Declare bounds whose width is greater than 0; a constant needs no budget.",
        )
    return sensitivity


def checked_beta(value: Number, name: str = "beta") -> Fraction:
    """A failure probability in [BETA_MIN, 1), exactly; DP005 otherwise."""
    beta = rational(value, name)
    if not BETA_MIN <= beta < 1:
        raise DPError(
            OUT_OF_RANGE, f"{name} must be at least 1e-15 and less than 1", f"Usual values of {name}: 0.05, 0.001."
        )
    return beta


def _double_up(target: Fraction, power: int) -> float:
    """The smallest double s > 0 with s**power >= target (power 1 or 2)."""
    guess = float(target) if power == 1 else math.sqrt(float(target))
    while Fraction(guess) ** power < target:
        guess = math.nextafter(guess, math.inf)
    while Fraction(lower := math.nextafter(guess, 0.0)) ** power >= target:
        guess = lower
    return guess


def _scale(target: Fraction, power: int) -> float:
    if target > Fraction(SCALE_MAX) ** power:
        raise DPError(
            OUT_OF_RANGE,
            "the noise asked for is larger than any number that can be answered",
            "Use a larger epsilon (or rho), tighter bounds, a coarser resolution, or constants of fewer digits.",
        )
    return _double_up(target, power)


@lru_cache(maxsize=1024, typed=True)
def laplace_scale(l1_sensitivity: Number, epsilon: Number) -> float:
    """The scale that noise.laplace draws with: the smallest double >= l1_sensitivity / epsilon (lattice units).

    Adding DLap of this scale to integers of joint L1 sensitivity `l1_sensitivity` loses
    l1_sensitivity / scale <= epsilon (pure, add/remove one unit). DP005 if out of range.
    """
    sensitivity = checked_sensitivity(l1_sensitivity, "l1_sensitivity")
    return _scale(sensitivity / checked_epsilon(epsilon), 1)


@lru_cache(maxsize=1024, typed=True)
def gaussian_scale(l2_squared: Number, rho: Number) -> float:
    """The sigma that noise.gaussian draws with: the smallest double with sigma^2 >= l2_squared / (2 rho).

    l2_squared is the square of the joint L2 sensitivity. Loses l2_squared / (2 sigma^2) <= rho (zCDP, add/remove one
    unit; composition.md §4). DP005 if out of range.
    """
    sensitivity = checked_sensitivity(l2_squared, "l2_squared")
    return _scale(sensitivity / (2 * checked_epsilon(rho, "rho")), 2)


def _exp_of_minus(x: Fraction) -> Decimal:
    """exp(-min(x, 10^6)): relative error below (1 + x) * 1e-49 <= 1e-42; never understated beyond 10^6."""
    x = min(x, Fraction(10**6))
    return _WIDE.exp(_WIDE.divide(Decimal(-x.numerator), Decimal(x.denominator)))


def laplace_tail(scale: float, m: int) -> Decimal:
    """Pr[|Z| >= m] = 2 p^m / (1 + p), p = e^(-1/scale), Z discrete Laplace (turbo.md §4.1): never understated.

    m an integer; 1 for m <= 0. Rounded up in the 40th significant digit.
    """
    if m <= 0:
        return Decimal(1)
    exact_scale = Fraction(scale)
    numerator = _WIDE.multiply(Decimal(2), _exp_of_minus(m / exact_scale))
    tail = _WIDE.divide(numerator, _WIDE.add(Decimal(1), _exp_of_minus(1 / exact_scale)))
    return Context(prec=40, rounding=ROUND_CEILING).multiply(
        tail, Decimal("1.0000000000000000000000000000000000000001")
    )


def laplace_margin(scale: float, beta: Number) -> int:
    """Smallest integer m >= 0 with Pr[|Z| > m] <= beta, Z discrete Laplace of this scale (lattice units)."""
    limit = _decimal_down(checked_beta(beta))
    # Solve 2 p^(m+1) / (1+p) = beta in doubles for a first guess, then correct it with the exact tail.
    one_plus_p = 1.0 + math.exp(-1.0 / scale)
    m = max(0, math.ceil(scale * math.log(2.0 / (float(limit) * one_plus_p)) - 1.0))
    step = 1
    while laplace_tail(scale, m + 1) > limit:
        m, step = m + step, step * 2
    low = max(-1, m - 2 * step)
    while low >= 0 and laplace_tail(scale, low + 1) <= limit:
        low, step = max(-1, low - step), step * 2
    return _first(low, m, lambda k: laplace_tail(scale, k + 1) <= limit)


def gaussian_tail(sigma: float, m: int) -> float:
    """An upper bound of Pr[|Z| >= m], Z discrete Gaussian N_Z(0, sigma^2); tight to 1e-9 up to sigma = 64.

    Up to sigma = 64 the sum itself. Above, with w(x) = e^(-x^2/2s^2): the normaliser sum is at least s sqrt(2 pi)
    (Poisson summation: all its terms are positive), and w is convex beyond s, so w(k) is at most its integral over
    [k-1/2, k+1/2] there; hence Pr[Z >= m] <= Pr[N(0, s^2) >= m - 1/2] when m - 1/2 >= s. Below that w still decreases,
    so w(k) is at most its integral over [k-1, k], which gives m - 1 in place of m - 1/2.
    """
    if m <= 0:
        return 1.0
    if sigma <= _EXACT_SIGMA:
        tails = _gaussian_tails(sigma)
        return min(1.0, tails[m] * _TAIL_GUARD) if m < len(tails) else 1e-160
    shift = 0.5 if m - 0.5 >= sigma else 1.0
    return min(1.0, math.erfc((m - shift) / (sigma * math.sqrt(2.0))) * _TAIL_GUARD + 1e-300)


@lru_cache(maxsize=64)
def _gaussian_tails(sigma: float) -> tuple[float, ...]:
    """Pr[|Z| >= m] for m = 0.. as far as a double can tell it from 0 (28 sigma: the rest is below 1e-160)."""
    weights = [math.exp(-((k / sigma) ** 2) / 2) for k in range(math.ceil(28 * sigma) + 2)]
    tails, running = [0.0] * len(weights), 0.0
    for k in range(len(weights) - 1, 0, -1):
        running += 2 * weights[k]
        tails[k] = running
    total = running + weights[0]
    return (1.0, *(tail / total for tail in tails[1:]))


def gaussian_margin(sigma: float, beta: Number) -> int:
    """An integer m >= 0 with Pr[|Z| > m] <= beta, Z discrete Gaussian of this sigma: the smallest by `gaussian_tail`.

    That is the smallest of all up to sigma = 64; above, at most one (two, if beta > 0.3) larger than the smallest.
    """
    limit = float(_decimal_down(checked_beta(beta)))
    high = 1
    while gaussian_tail(sigma, high + 1) > limit:
        high *= 2
    return _first(-1, high, lambda k: gaussian_tail(sigma, k + 1) <= limit)


def laplace_epsilon(tolerance: Number, beta: Number, l1_sensitivity: Number = 1) -> Decimal:
    """Smallest epsilon, to 12 significant digits rounded up, with Pr[|Z| > tolerance] <= beta for the drawn noise Z.

    Z = DLap(epsilon / l1_sensitivity) on the integer lattice; tolerance > 0 in lattice units (alpha times a public
    scale). This is how alpha and beta become a charge (composition.md §14.3). DP005 if no epsilon in range does it.
    """
    allowed = checked_sensitivity(tolerance, "the tolerated error")
    limit, sensitivity = _decimal_down(checked_beta(beta)), checked_sensitivity(l1_sensitivity, "l1_sensitivity")
    first_outside = math.floor(allowed) + 1

    def fits(epsilon: Decimal) -> bool:
        return laplace_tail(laplace_scale(sensitivity, epsilon), first_outside) <= limit

    # With p^m <= beta the tail 2p^m/(1+p) is at most 2 beta, at least beta: the root lies between these two.
    low, high = (_root(sensitivity, first_outside, b) for b in (limit, _WIDE.divide(limit, Decimal(2))))
    candidate = Context(prec=_DIGITS, rounding=ROUND_CEILING).plus(high)
    if candidate >= EPSILON_MAX:
        raise DPError(
            OUT_OF_RANGE, "the accuracy asked for needs more budget than any query may spend", "Ask for a larger alpha."
        )
    exponent = int(candidate.adjusted()) - _DIGITS + 1
    unit = Decimal(1).scaleb(min(exponent, int(low.adjusted()) - _DIGITS + 1))
    first = _first(int(low / unit) - 2, int(candidate / unit) + 1, lambda k: fits(k * unit))
    return Context(prec=_DIGITS, rounding=ROUND_CEILING).plus(first * unit).normalize()


def _root(sensitivity: Fraction, m: int, beta: Decimal) -> Decimal:
    """epsilon with p^m = beta, p = e^(-epsilon/sensitivity)."""
    factor = _WIDE.divide(Decimal(sensitivity.numerator), Decimal(sensitivity.denominator * m))
    return _WIDE.multiply(factor, -_WIDE.ln(beta))


def _decimal_down(value: Fraction) -> Decimal:
    context = Context(prec=40, rounding=ROUND_FLOOR)
    return context.divide(Decimal(value.numerator), Decimal(value.denominator))


def _first(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The smallest integer in (low, high] at which the monotone `holds` is true; `holds(high)` is."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
