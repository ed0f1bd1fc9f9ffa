"""Quantiles of the normal law that comparisons need, each a function of what it may miss.

All are pure functions of public parameters, computed in plain Python (importing scipy takes a
second and a half, and every session imports anew) and kept for the session. A miss is 1 minus a
level: it is what is small, so that it is what has to be exact.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

from pg_epsilon.explain.roots import crossing, panels

_NORMAL = NormalDist()
_ROOT_2 = math.sqrt(2)


def above(z: float) -> float:
    """Pr[N(0, 1) > z]."""
    return math.erfc(z / _ROOT_2) / 2


def density(z: float) -> float:
    return math.exp(-z * z / 2) / math.sqrt(2 * math.pi)


@lru_cache(maxsize=1024)
def two_sided(miss: float) -> float:
    """z with Pr[|N(0, 1)| > z] = miss, 0 < miss < 1 (dpxplain.md §5.1)."""
    return -_NORMAL.inv_cdf(miss / 2)


def sidak(miss: float, groups: int) -> float:
    """What each of so many independent events may miss if all together may miss with `miss`."""
    return -math.expm1(math.log1p(-miss) / groups)


@lru_cache(maxsize=256)
def studentised_range(miss: float, groups: int) -> float:
    """q with Pr[max - min > q] = miss, of so many independent N(0, 1) (dpxplain.md §5.5).

    groups: 2 to 100,000. Every difference of two cells with deviation sigma is within q sigma at
    once; of cells with unlike deviations within q sqrt((s_i^2 + s_j^2)/2) (Hayter 1984).
    """
    wide = 2 * two_sided(miss / groups)  # all within that: so is every difference
    return crossing(lambda q: _log_ratio(_range_tail(q, groups), miss), 0.0, wide)


def _range_tail(q: float, groups: int) -> float:
    """Pr[max - min > q]: G int phi(z) (Phi(z)^n - (Phi(z) - Phi(z - q))^n) dz, n = G - 1.

    z is the largest. Every term is positive, so that a small tail is as exact as a large one. The
    rule of trapezoids converges faster than any power for what is analytic and falls at both ends
    like this.
    """
    n, total, step = groups - 1, 0.0, 1 / 16
    start = q / 2 - 9
    for k in range(1, 18 * 16):
        z = start + k * step
        below, far = 1 - above(z) if z > -5 else above(-z), above(q - z)
        if below <= 0:
            continue
        share = min(far / below, 1.0)
        none = 1.0 if share == 1 else -math.expm1(n * math.log1p(-share))
        total += density(z) * math.exp(n * math.log(below)) * none
    return min(1.0, groups * total * step)


@lru_cache(maxsize=256)
def joint_square(miss: float, groups: int) -> float:
    """c with Pr[(max X_i)+^2 + (min X_i)-^2 > c] = miss, of so many independent N(0, 1).

    groups: 2 to 100,000; 5.5302 for two at .05. With it all differences of two averages hold at
    once (`joint.pair`): one average too low by more than sqrt(c s) of its deviations and another
    too high by more than sqrt(c (1 - s)) happen for some pair and some s with probability `miss`
    only.
    """
    wide = 2 * two_sided(miss / groups) ** 2  # all squares within half of that
    return crossing(lambda c: _log_ratio(_joint_tail(c, groups), miss), 0.0, wide)


def _joint_tail(c: float, groups: int) -> float:
    """The same tail in three positive parts: max > r; 0 < max <= r; max <= 0, with r^2 = c.

    In the second the largest is x = r sin t, and some other is below -r cos t.
    """
    if c <= 0:
        return 1.0
    n, r = groups - 1, math.sqrt(c)
    total = -math.expm1(groups * math.log1p(-above(r)))
    total -= math.exp(-groups * math.log(2)) * math.expm1(groups * math.log1p(-2 * above(r)))
    for t, weight in panels(0.0, math.pi / 2, 12):
        x, v = r * math.sin(t), r * math.cos(t)
        below = 1 - above(x)
        none = -math.expm1(n * math.log1p(-min(above(v) / below, 1 - 1e-16)))
        total += weight * v * groups * density(x) * math.exp(n * math.log(below)) * none
    return min(1.0, total)


@lru_cache(maxsize=256)
def all_weights(miss: float, groups: int) -> float:
    """r with Pr[chi-square of so many degrees > r^2] = miss.

    All weighted sums of the cells hold at once: |sum w_t Z_t| <= r |w| for every w, because the
    noise vector is no longer than r (Cauchy-Schwarz).
    """
    size = -math.log(miss)
    wide = groups + 2 * math.sqrt(groups * size) + 2 * size  # Laurent and Massart 2000

    def excess(x: float) -> float:
        return _log_ratio(_gamma_tail(groups / 2, x / 2), miss)

    return math.sqrt(crossing(excess, 0.0, wide * (1 + 1e-12)))


def _gamma_tail(a: float, x: float) -> float:
    """Q(a, x), the upper regularised incomplete gamma function; a >= 1/2, x >= 0."""
    if x <= 0:
        return 1.0
    front = math.exp(a * math.log(x) - x - math.lgamma(a))
    if x < a + 1:
        term = total = 1 / a
        k = a
        while term > total * 1e-17:
            k += 1
            term *= x / k
            total += term
        return max(0.0, 1 - front * total)
    b, c, d = x + 1 - a, math.inf, 1 / (x + 1 - a)
    ratio, i = d, 0
    while True:  # Lentz's continued fraction
        i += 1
        step = -i * (i - a)
        b += 2
        d = 1 / (step * d + b)
        c = b + (step / c if math.isfinite(c) else 0.0)
        ratio *= c * d
        if abs(c * d - 1) < 1e-16 or i > 100_000:
            return front * ratio


def _log_ratio(tail: float, miss: float) -> float:
    return math.log(tail / miss) if tail > 0 else -math.inf
