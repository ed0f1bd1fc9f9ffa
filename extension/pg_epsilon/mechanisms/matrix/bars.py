"""How far a linear combination of Laplace noises goes: its exact quantile (sum-workloads.md §0)."""

from __future__ import annotations

import math

import numpy as np

from pg_epsilon.mechanisms.matrix.queries import Array

POINTS = 256  # of the integral; its error falls exponentially with them
EXACT = 5_000  # terms of all queries together up to which quantiles are exact, in a tenth of a second
_NEGLIGIBLE, _SMALL = 1e-12, 1e-15  # of the largest weight; of the integrand
_OFTEN = 0.5  # missed more often, the quantile is so small that the integral converges slowly


def two_sided_quantile(weights: Array, miss: float, times: Array | None = None) -> float:
    """t with Pr[|sum of weights times X| > t] = miss, X independent Laplace noise of scale 1; to nine digits.

    weights: any signs; 0 if all are. times: how many draws have each weight; None: one. miss: in (0, 1); above a half
    Chernoff's bound is given. Pr[sum > t] is (1 / 2 pi i) times the integral of e^(-st) M(s) / s, M(s) = prod 1 / (1 -
    w² s²), along a parabola around the positive poles, on which e^(-st) falls as a normal density does; the trapezoid
    rule converges exponentially there.
    """
    sizes = np.abs(weights)
    largest = float(sizes.max(initial=0.0))
    if not largest:
        return 0.0
    kept = sizes > _NEGLIGIBLE * largest
    sizes, often = sizes[kept] / largest, (np.ones(len(sizes)) if times is None else times)[kept]
    if often.sum() == 1:
        return -largest * math.log(miss)
    high, place = _chernoff(sizes, often, miss)
    if miss > _OFTEN:
        return largest * high
    points, values = _on_parabola(sizes, often, place, high)

    def tail(t: float) -> float:
        return 2 * float((values * np.exp(-points * t)).sum().real)

    low = 0.0
    while high - low > 1e-11 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if tail(middle) > miss else (low, middle)
    return largest * high


def chernoff(weights: Array, miss: float) -> float:
    """t with Pr[|sum of weights times X| > t] <= miss: 2 e^(-s t) M(s), least over s."""
    sizes = np.abs(weights)
    largest = float(sizes.max(initial=0.0))
    return largest * _chernoff(sizes / largest, np.ones(len(sizes)), miss)[0] if largest else 0.0


def _chernoff(sizes: Array, times: Array, miss: float) -> tuple[float, float]:
    """(The bound, its s) for sizes of which the largest is 1."""
    s = np.concatenate([np.geomspace(1e-5, 0.0048, 60), np.linspace(0.005, 0.995, 199)])
    bounds = (math.log(2 / miss) - np.log1p(-np.square(s[:, None] * sizes)) @ times) / s
    best = int(np.argmin(bounds))
    return float(bounds[best]), float(s[best])


def _on_parabola(sizes: Array, times: Array, place: float, t: float) -> tuple[Array, Array]:
    """(Points s, weights) of the integral of M(s) / s on s = 1 - (1 - place) (1 + iu)², u of either sign.

    The parabola meets the real axis between 0 and the first pole, 1, at `place`.
    """
    width = 1 - place

    def integrand(u: Array) -> tuple[Array, Array]:
        s = 1 - width * np.square(1 + 1j * u)
        logs = -np.log(1 - np.square(s[:, None] * sizes)) @ times - np.log(s)
        return s, logs

    far = np.concatenate([np.zeros(1), np.geomspace(1e-4, 50, 120)])
    s, logs = integrand(far)
    heights = (logs - s * t).real + np.log1p(far)
    fallen = heights - heights[0] < math.log(_SMALL)
    end = float(far[int(np.argmax(fallen))]) if fallen.any() else float(far[-1])
    u = np.arange(POINTS + 1) / POINTS * end  # the other half is the conjugate
    s, logs = integrand(u)
    slope = -2j * width * (1 + 1j * u)
    steps = np.where(u > 0, 2.0, 1.0) * (end / POINTS)
    return s, -np.exp(logs) * slope * steps / (2j * math.pi)
