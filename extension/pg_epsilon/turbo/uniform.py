"""Margins of a synopsis that hold for all queries of a class together, also for those chosen after looking at it.

composition.md §7.3, grade `uniform`. A synopsis is one noisy count for each of n cells; a query is a sum of cells. Two
classes, both by exact tails or proved bounds, never by Monte Carlo; t is in units of the noise's scale (Laplace: 1 /
epsilon; Gaussian: sigma).

*Every q in [0, 1]^n*: the largest error is max(sum of Z_v^+, sum of Z_v^-), and both have the same law, so t solves
Pr[sum Z_v^+ > t] <= beta / 2. For unit Laplace variables Z^+ is 0 or, with probability 1/2, exponential: the sum is
exactly a binomial mixture of Gamma variables. Beyond 4,096 cells, and for Gaussian noise, Chernoff's bound.

*A class of queries of known sizes*: t solves sum over its queries of Pr[|sum of its cells' noise| > t] <= beta; a
weight below 1 only makes a sum more peaked. Exact up to 512 cells, beyond by Chernoff.

*Boxes*, small domains: for each choice on the other attributes, the largest error over all sets of values of the
longest one is that of `every` again, now of sums Y of k cells each; |Y| is a mixture of Gamma variables of whole
shapes, so the sum of the Y^+ is one too, exactly. The union bound is over the choices on the other attributes only.

From continuous to drawn noise, rows instead of units: a class is calibrated to floor(alpha ñ), by the argument of
calibration.py (epsilon at most 2). For every q: Pr[DLap >= k] = p^k / (1 + p) <= p^(k - 1/2) / 2 = Pr[X >= k - 1/2], so
Z^+ is stochastically at most X^+ + 1/2, and the tolerance is lessened by n / 2 rows (n: of the terms Z^+, or Y^+, for
which calibration.py has the same inequality); for a discrete Gaussian, whose tail beyond k is at most the normal one
beyond k - 1, by n rows.

Windows: the sum over partitions i, each calibrated alike to its own D_i rows, is off by at most the sum of the D_i with
the same probability. A mean, with any weights, of independent symmetric log-concave variables of one law is more
peaked than one of them (Proschan 1965). That is the noise of one query; and of one cell, so that each (mean)^+ is
stochastically at most one Z^+, whose sums over cells are compared term by term.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pg_epsilon.turbo.calibration import sum_tail

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]

Sizes = tuple[tuple[int, float], ...]
"""How many queries of a class are sums of how many cells: (cells, queries), ascending."""

_EXACT_EVERY = 4096
_EXACT_SUM = 512
_GUARD = 1 + 1e-7  # covers the double-precision arithmetic of the tails, and the last step of the bisection
_GRID = 1.1
_SMALL_DOMAIN = 1024
_TOO_MANY = 400  # bits of a number of boxes


def positive_tail(cells: int, t: float) -> float:
    """Pr[sum of Z_v^+ > t] for so many unit Laplace variables: sum over b of C(n, b) 2^-n Pr[Poisson(t) < b]."""
    import numpy as np

    if t <= 0:
        return 1.0 - 0.5**cells
    j = np.arange(1, cells + 1, dtype=np.float64)
    chosen = np.exp(np.cumsum(np.log((cells - j + 1) / j)) - cells * math.log(2))
    poisson = np.cumsum(np.exp(np.concatenate(([0.0], np.cumsum(math.log(t) - np.log(j[:-1])))) - t))
    return float((chosen * poisson).sum())


def _solve(tail: Callable[[float], float], goal: float, high: float) -> Fraction:
    """The t at which a falling tail is at most `goal`, from above, to 1e-9."""
    low = 0.0
    while tail(high) * _GUARD > goal:
        low, high = high, 2 * high
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if tail(middle) * _GUARD > goal else (low, middle)
    return Fraction(high)


def _least(value: Callable[[float], float], low: float, high: float) -> float:
    """The smallest value of a unimodal function: every argument gives a valid bound, the best one the tightest."""
    ratio = (math.sqrt(5) - 1) / 2
    for _ in range(80):
        a, b = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, b) if value(a) < value(b) else (a, high)
    return value((low + high) / 2)


@lru_cache(maxsize=1024)
def every_quantile(cells: int, beta: Fraction, *, gaussian: bool = False) -> Fraction:
    """t with Pr[some q in [0, 1]^cells is off by more than t] <= beta."""
    wanted = math.log(2 / float(beta))
    if gaussian:
        # E e^(sZ^+) = 1/2 + e^(s^2/2) Phi(s)
        def moment(s: float) -> float:
            return math.log(0.5 + math.exp(s * s / 2) * (1 - math.erfc(s / math.sqrt(2)) / 2))

        return Fraction(_least(lambda s: (cells * moment(s) + wanted) / s, 1e-6, 20.0) * _GUARD)
    if cells > _EXACT_EVERY:
        # E e^(sZ^+) = 1/2 + 1/2 / (1 - s)
        bound = _least(lambda s: (cells * math.log(0.5 + 0.5 / (1 - s)) + wanted) / s, 1e-6, 1 - 1e-6)
        return Fraction(bound * _GUARD)
    return _solve(lambda t: positive_tail(cells, t), float(beta) / 2, cells / 2 + 4 * math.sqrt(cells) + 4)


def _log_tail(cells: int, t: float, gaussian: bool) -> float:
    """ln Pr[|sum of so many| > t], or a bound from above."""
    if gaussian:
        z = t / math.sqrt(2 * cells)
        return math.log(math.erfc(z)) if z < 25 else -z * z
    if cells > _EXACT_SUM:
        # E e^(sX) = 1 / (1 - s^2), smallest at this s
        s = (math.sqrt(cells * cells + t * t) - cells) / t
        return math.log(2) - cells * math.log1p(-s * s) - s * t
    found = sum_tail(cells, t)
    return math.log(found) if found > 0 else -math.inf


@lru_cache(maxsize=1024)
def class_quantile(sizes: Sizes, beta: Fraction, *, gaussian: bool = False) -> Fraction:
    """t with Pr[some query of the class is off by more than t] <= beta: the union bound over the queries."""

    def tail(t: float) -> float:
        return math.fsum(math.exp(min(0.0, _log_tail(k, t, gaussian)) + math.log(n)) for k, n in sizes)

    return _solve(tail, float(beta), 4 * math.sqrt(2 * sizes[-1][0]) + 8)


@lru_cache(maxsize=4096)
def rough_quantile(cells: int, queries: float, beta: Fraction) -> float:
    """About `class_quantile` of so many queries of one size: to compare designs, never to calibrate noise."""
    wanted = math.log(2 * queries / float(beta))
    return _least(lambda s: (wanted - cells * math.log1p(-s * s)) / s, 1e-6, 1 - 1e-6)


def grouped(sizes: Iterable[tuple[int, float]]) -> Sizes:
    """Sizes with near ones taken together at the larger, which is on the safe side: few tails to compute."""
    found: dict[int, float] = {}
    top = 0
    for cells, queries in sorted(sizes, reverse=True):
        if not found or cells < 8 or cells * _GRID < top:
            top = cells
        found[top] = found.get(top, 0.0) + queries
    return tuple(sorted(found.items()))


def _shapes(cells: int) -> Array:
    """Of the positive part of a sum of so many Laplace variables: with which probability it is Gamma of which shape."""
    import numpy as np

    found = np.zeros(cells + 1)
    for j in range(cells):  # |S_k|: shape k - j with probability C(k-1+j, j) 2^-(k-1+j)
        found[cells - j] = math.comb(cells - 1 + j, j) / 2.0 ** (cells - 1 + j) / 2
    found[0] = 0.5
    return found


def _gamma_tail(shapes: Array, t: float) -> float:
    """Pr[mixture > t]: shape m exceeds t as often as a Poisson variable of mean t is below m."""
    import numpy as np

    i = np.arange(1, len(shapes) - 1, dtype=np.float64)
    poisson = np.cumsum(np.exp(np.concatenate(([0.0], np.cumsum(math.log(t) - np.log(i)))) - t))
    return float((shapes[1:] * poisson).sum())


@lru_cache(maxsize=64)
def box_quantile(sizes: tuple[int, ...], beta: Fraction, *, gaussian: bool = False) -> tuple[Fraction, int] | None:
    """(t, n) with Pr[some box of the domain is off by more than t] <= beta; n: the terms whose drawn noise may be half
    a row (Gaussian: one) larger. None if there are too many boxes."""
    every = box_sizes(sizes)
    if every is None:
        return None
    union = class_quantile(every, beta, gaussian=gaussian), 0
    if gaussian or math.prod(sizes) > _SMALL_DOMAIN:
        return union
    longest = max(sizes)
    axis = sizes.index(longest)
    choices = box_sizes(sizes[:axis] + sizes[axis + 1 :]) or ()
    laws = [(_power(_shapes(k), longest), n) for k, n in grouped(choices)]
    found = _solve(lambda t: 2 * sum(n * _gamma_tail(law, t) for law, n in laws), float(beta), float(union[0]))
    return (found, longest) if found < union[0] else union


def _power(law: Array, times: int) -> Array:
    import numpy as np

    found = np.ones(1)
    for _ in range(times):
        found = np.convolve(found, law)
    return found


def box_sizes(sizes: tuple[int, ...]) -> Sizes | None:
    """Of all boxes of a domain, the whole of it too: how many have how many bins. None if there are too many boxes."""
    if sum(sizes) > _TOO_MANY:
        return None
    found: dict[int, float] = {1: 1.0}
    for n in sizes:
        wider: dict[int, float] = {}
        for cells, boxes in found.items():
            for k in range(1, n + 1):
                wider[cells * k] = wider.get(cells * k, 0.0) + boxes * math.comb(n, k)
        found = dict(grouped(wider.items()))
    return grouped(found.items())
