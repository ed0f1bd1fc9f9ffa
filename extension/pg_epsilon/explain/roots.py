"""Roots of monotone functions, and a rule of quadrature: what quantiles are computed with."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

_STEPS = 200
_POINTS = 16


def crossing(f: Callable[[float], float], low: float, high: float) -> float:
    """Where a decreasing f changes its sign: a point of [low, high] with f <= 0.

    Within 4 ulp there is one with f > 0. `low` if f(low) <= 0, `high` if f(high) > 0. Method:
    Chandrupatla's, inverse quadratic interpolation that falls back to halving.
    """
    a, fa, b, fb = high, f(high), low, f(low)
    if fb <= 0 or fa > 0:
        return low if fb <= 0 else high
    c, fc, share = a, fa, 0.5
    for _ in range(_STEPS):
        x = a + share * (b - a)
        fx = f(x)
        if (fx > 0) == (fa > 0):
            c, fc = a, fa
        else:
            c, b, fc, fb = b, a, fb, fa
        a, fa = x, fx
        best = a if abs(fa) < abs(fb) else b
        least = 2 * math.ulp(best) / abs(b - a) if b != a else 1.0
        if least >= 0.5 or (fa == 0 and a == best):
            break
        share = min(1 - least, max(least, _next_share(a, fa, b, fb, c, fc)))
    return a if fa <= 0 else b


def _next_share(a: float, fa: float, b: float, fb: float, c: float, fc: float) -> float:
    """How far the next point lies from a on the way to b."""
    if c == b or fc in (fb, fa) or not math.isfinite(fc):
        return 0.5
    xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
    if not phi * phi < xi or not (1 - phi) ** 2 < 1 - xi:
        return 0.5
    first = fa / (fb - fa) * fc / (fb - fc)
    return first + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)


@lru_cache(maxsize=1)
def _legendre() -> tuple[tuple[float, float], ...]:
    """Points and weights of Gauss and Legendre's rule on [-1, 1]."""
    found = []
    for i in range(_POINTS):
        x = math.cos(math.pi * (i + 0.75) / (_POINTS + 0.5))
        slope = 1.0
        for _ in range(20):
            before, here = 1.0, x
            for k in range(2, _POINTS + 1):
                before, here = here, ((2 * k - 1) * x * here - (k - 1) * before) / k
            slope = _POINTS * (x * here - before) / (x * x - 1)
            x -= here / slope
        found.append((x, 2 / ((1 - x * x) * slope * slope)))
    return tuple(found)


def panels(low: float, high: float, count: int) -> list[tuple[float, float]]:
    """Points and weights that integrate over [low, high]: equal panels of 16 points each."""
    half = (high - low) / count / 2
    middles = [low + half * (2 * i + 1) for i in range(count)]
    return [(at + half * x, half * weight) for at in middles for x, weight in _legendre()]
