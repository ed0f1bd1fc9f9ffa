"""Quantiles of weighted sums of discrete Laplace noise, and of the continuous one's mixture of two.

Z has Pr[Z = k] proportional to p^|k|, p = e^(-1/scale). All functions are of public parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from functools import lru_cache

from pg_epsilon.explain.roots import crossing

WORK = 60_000
"""Additions that an exact convolution may take in each direction; above it a bound is given."""

SEPARATED = 24
"""Draws of which the continuous law is added up at most; above it Chernoff's bound is given."""

_GUARD = 1 + 1e-12  # tails are rounded up by more than their arithmetic may be wrong
_APART = 1e-6  # scales nearer than this are taken for the larger one
_LEAST = 0.02  # scales below it are taken for it: the noise is 0 but for e^-50
_LOST = 23.0  # e^-23 of what may be missed leaves an array and does not come back


def single(scale: float, miss: float) -> int:
    """The smallest t >= 0 with Pr[|Z| > t] = 2 p^(t+1)/(1+p) <= miss."""
    rest = 1 + math.exp(-1 / scale)
    t, step = max(0, math.ceil(scale * math.log(2 / (miss * rest)) - 1)), 1
    while 2 * math.exp(-(t + 1) / scale) / rest * _GUARD > miss:
        t, step = t + step, 2 * step  # more than once only where a step is below the guard
    return t


def pair(first: float, second: float, miss: float) -> int:
    """The smallest t >= 0 with Pr[|Z_1 + Z_2| > t] <= miss, of two scales."""
    s, r = max(first, second, _LEAST), max(min(first, second), _LEAST)
    tail = _equal_tail(s) if s - r <= _APART * s else _unequal_tail(s, r)
    low, high = -1, 1
    while tail(high) * _GUARD > miss:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if tail(middle) * _GUARD <= miss else (middle, high)
    return high


def _equal_tail(scale: float) -> Callable[[int], float]:
    """Pr[Z_1 + Z_2 = d] = ((1-p)/(1+p))^2 p^|d| (|d| + (1+p^2)/(1-p^2)), added up from t + 1."""
    p, gap = math.exp(-1 / scale), -math.expm1(-1 / scale)
    front = 2 * (gap / (1 + p)) ** 2

    def tail(t: int) -> float:
        n = t + 1
        return front * math.exp(-n / scale) * (n + p / gap + (1 + p * p) / (gap * (1 + p))) / gap

    return tail


def _unequal_tail(larger: float, smaller: float) -> Callable[[int], float]:
    """The same by partial fractions of two different p > q."""
    p, q = math.exp(-1 / larger), math.exp(-1 / smaller)
    gap_p, gap_q = -math.expm1(-1 / larger), -math.expm1(-1 / smaller)
    front = 2 * gap_p / (1 + p) * gap_q / (1 + q)
    apart = p * -math.expm1(1 / larger - 1 / smaller)
    ends = p * q / -math.expm1(-1 / larger - 1 / smaller)

    def tail(t: int) -> float:
        x, y = math.exp(-(t + 1) / larger) / gap_p, math.exp(-(t + 1) / smaller) / gap_q
        return front * ((x + y) * ends + (x * p - y * q) / apart)

    return tail


@lru_cache(maxsize=256)
def combination(
    scales: tuple[float, ...],
    weights: tuple[int, ...],
    miss: float,
) -> tuple[float, bool]:
    """(t, exact) with Pr[|sum w_i Z_i| > t] <= miss, Z_i independent; exact: the smallest such t.

    scales: > 0; weights: integers other than 0; 1e-9 <= miss < 1. Exact: one draw; two of equal
    |weight|; else if a convolution on the lattice takes at most WORK additions a direction.
    Otherwise `bound`. The signs do not matter, because the laws are symmetric.
    """
    k = tuple(abs(w) for w in weights)
    unit = math.gcd(*k)
    k = tuple(w // unit for w in k)
    if len(k) == 1:
        return float(unit * single(scales[0], miss)), True
    if k == (1, 1):
        return float(unit * pair(scales[0], scales[1], miss)), True
    reach = sum(w * (single(s, miss / len(k)) + 1) for s, w in zip(scales, k, strict=True))
    half = reach + math.ceil(_LOST * max(s * w for s, w in zip(scales, k, strict=True)))
    if (2 * half + 1) * len(k) <= WORK:
        return float(unit * _convolution(scales, k, miss, half)), True
    return unit * bound(scales, k, miss), False


def _convolution(scales: Sequence[float], weights: Sequence[int], miss: float, half: int) -> int:
    """By recursive filters on -half..half: sum p^|j| z^kj = (1 - p^2)/((1 - p z^k)(1 - p/z^k)).

    What leaves the array is lost, so the law inside is never overstated: the tail, 1 minus that, is
    never understated.
    """
    size = 2 * half + 1
    law = [0.0] * size
    law[half] = 1.0
    for scale, k in zip(scales, weights, strict=True):
        p = math.exp(-1 / scale)
        for i in range(k, size):
            law[i] += p * law[i - k]
        for i in range(size - 1 - k, -1, -1):
            law[i] += p * law[i + k]
        square = math.expm1(-1 / scale) ** 2
        law = [x * square for x in law]
    inside, t = law[half], 0
    while 1 - inside + 1e-13 > miss:
        t += 1
        inside += law[half - t] + law[half + t]
    return t


def bound(scales: Sequence[float], weights: Sequence[float], miss: float) -> float:
    """t with Pr[|sum w_i Z_i| > t] <= miss, a lattice step for each unit of weight too large.

    The weights need not be integers. Z is floor(E_1) - floor(E_2) of two exponentials, and E_1 -
    E_2 is continuous Laplace noise less than 1 away. The sum of those has Pr[|.| > t] = sum_j
    e^(-t/c_j) prod_{i != j} c_j^2/(c_j^2 - c_i^2), c_i = scale times |w_i|, where all c differ;
    equal ones are made larger by 1/10,000 each, which moves no mass inwards (all laws are symmetric
    with one peak: Birnbaum 1948). More than SEPARATED draws: Chernoff's bound, which is some 40 %
    too wide at 95 %.
    """
    c = sorted(s * abs(w) for s, w in zip(scales, weights, strict=True))
    steps = float(sum(abs(w) for w in weights))
    if len(c) > SEPARATED:
        return _chernoff(c, miss) + steps
    for i in range(1, len(c)):
        c[i] = max(c[i], c[i - 1] * 1.0001)
    with localcontext() as context:
        context.prec = 30 + 9 * len(c)
        exact = [Decimal(x) for x in c]
        shares = []
        for j, x in enumerate(exact):
            share = Decimal(1)
            for i, y in enumerate(exact):
                share *= x * x / (x * x - y * y) if i != j else 1
            shares.append(share)

        def excess(t: float) -> float:
            parts = [a * (Decimal(-t) / x).exp() for a, x in zip(shares, exact, strict=True)]
            return math.log(max(float(sum(parts)), 1e-300) * _GUARD / miss)

        return crossing(excess, 0.0, _chernoff(c, miss)) + steps


def _chernoff(c: Sequence[float], miss: float) -> float:
    """The least of (ln(2/miss) - sum ln(1 - c_i^2 u^2))/u, u < 1/max c: each is a bound."""
    largest = max(c)

    def value(u: float) -> float:
        moments = sum(math.log1p(-((x / largest * u) ** 2)) for x in c)
        return (math.log(2 / miss) - moments) / u * largest

    low, high, golden = 1e-6, 1 - 1e-9, (math.sqrt(5) - 1) / 2
    for _ in range(60):
        first, second = high - golden * (high - low), low + golden * (high - low)
        low, high = (low, second) if value(first) <= value(second) else (first, high)
    return value((low + high) / 2)


def mixed_tail(t: float, a: float, b: float) -> float:
    """Pr[|a X + b Y| > t] of two unit Laplace X, Y; a, b >= 0, a + b > 0 (better-answers.md §2.2).

    (a^2 e^(-t/a) - b^2 e^(-t/b))/(a^2 - b^2), written so that it keeps its digits for a near b.
    """
    if t <= 0:
        return 1.0
    a, b = max(a, b), min(a, b)
    if b == 0 or a / b > 1e15:
        return math.exp(-t / a)
    x = t / a * ((a - b) / b)
    mean = -math.expm1(-x) / x if x > 0 else 1.0
    return math.exp(-t / a) * (1 + t / a * (b / (a + b)) * mean)
