"""The exact output law of every decider (dp-pqd.md §8): what a decision is worth, and what a row may change of it.

Written from the formulas of the specification, apart from the engine, in log space; noise is continuous, as there.
The engine draws integers on fine lattices (mechanisms/grain.py): the laws agree to the sixth decimal while epsilon is
below 1 for a sensitivity of 1. Where the lattice itself is at issue: `lattice_tail`, `run_law(…, lattice=True)`.

A probability here is of a released bit (1: "bound satisfied") unless it says otherwise. Never evaluated on anybody's
data: tests, audits and benchmarks only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

Real = Any  # int, Fraction, Decimal or float
Array = Any  # of numpy
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)
_FAR = 45.0  # scales, beyond which e^-x is lost in a double
_SUMMED = 4_000_000


# --- Laplace noise ------------------------------------------------------------------------------------------------


def cdf(x: Real, scale: Real) -> float:
    """Pr[Lap(scale) <= x]."""
    return math.exp(float(_log_cdf(np.float64(float(x) / float(scale)))))


def _log_cdf(x: Array) -> Array:
    """ln Pr[Lap(1) <= x]."""
    low, high = np.minimum(x, 0.0), np.maximum(x, 0.0)
    return np.where(x < 0, low - math.log(2), np.log1p(-0.5 * np.exp(-high)))


def lattice_tail(k: Array, scale: float) -> Array:
    """Pr[DLap(scale) >= k], k integer: p^k / (1 + p), or 1 less that of 1 - k; p = e^(-1/scale)."""
    k = np.asarray(k, dtype=float)
    one = 1 + math.exp(-1 / scale)
    return np.where(k > 0, np.exp(-np.maximum(k, 0) / scale) / one, 1 - np.exp(np.minimum(k - 1, 0) / scale) / one)


def _integral(log_f: Callable[[Array], Array], kinks: Sequence[float], scales: Sequence[float]) -> float:
    """ln of the integral of e^log_f, whose factors are of these scales and smooth but at the kinks.

    Gauss-Legendre by half a scale, up to 45 scales beside each kink; between these e^log_f is one exponential, for
    which the integral from its two ends is exact.
    """
    step, far = min(scales) / 2, _FAR * max(scales)
    ends = sorted(set(kinks))
    ends = [ends[0] - 2 * far, *ends, ends[-1] + 2 * far]
    logs: list[float] = []
    for low, high in pairwise(ends):
        near = [(low, high)]
        if high - low > 2 * far:
            near = [(low, low + far), (high - far, high)]
            at = log_f(np.array([low + far, high - far]))
            span, slope = high - low - 2 * far, float(at[0] - at[1])
            if span > 0 and math.isfinite(slope):
                mean = -np.expm1(-abs(slope)) / abs(slope) if abs(slope) > 1e-12 else 1.0
                logs.append(float(max(at)) + math.log(span * mean))
        for a, b in near:
            edges = np.linspace(a, b, max(1, math.ceil((b - a) / step)) + 1)
            half = np.diff(edges) / 2
            points = (edges[:-1] + half)[:, None] + half[:, None] * _NODES
            values = log_f(points)
            top = float(np.max(values))
            if math.isfinite(top):
                logs.append(top + math.log(float(np.sum(np.exp(values - top) * _WEIGHTS * half[:, None])) or 5e-324))
    top = max(logs)
    return top + math.log(math.fsum(math.exp(x - top) for x in logs))


def decided(cdf_of_estimate: Callable[[Real], float], low: Real, high: Real) -> float:
    """Pr[low < estimate < high] for an estimate without atoms but at its lowest value (dp-pqd.md §3)."""
    return max(0.0, cdf_of_estimate(high) - cdf_of_estimate(low))


def additive(value: Real, low: Real, high: Real, scale: Real) -> float:
    """LM_count (scale 1/epsilon), LM_sum (GS/epsilon)."""
    return decided(lambda x: cdf(x - value, scale), low, high)


# --- COUNT --------------------------------------------------------------------------------------------------------


def logit(count: Real, target: Real, tau: Real, epsilon: Real, form: str = "em", rows: int = 1) -> float:
    """ln Pr[1] / Pr[0] of EM_count (em), EM_count_naive (naive), em_unclamped and randomised response."""
    off = abs(Fraction(count) - Fraction(target))
    inside = Fraction(tau) - off
    per_row = {"em": max(inside, -Fraction(tau)) / rows, "unclamped": inside / rows}
    whole = {"naive": Fraction(1, 2) if inside > 0 else -Fraction(1, 2), "randomised": 1 if inside > 0 else -1}
    return float(Fraction(epsilon) * Fraction({**per_row, **whole}[form]))


def bit(count: Real, target: Real, tau: Real, epsilon: Real, form: str = "em", rows: int = 1) -> float:
    z = logit(count, target, tau, epsilon, form, rows)
    return 1 / (1 + math.exp(-z)) if z >= 0 else math.exp(z) / (1 + math.exp(z))


# --- SUM ----------------------------------------------------------------------------------------------------------


def r2t_cdf(sums: Sequence[Real], epsilon: Real, beta: Real, weight: Real | None = None) -> Callable[[Real], float]:
    """Pr[R2T <= x], levels 2^j; weight: what the noise is scaled by, L as printed, 2 in r2t_geo."""
    levels = len(sums)
    scales = [float(weight or levels) * 2**j / float(epsilon) for j in range(1, levels + 1)]
    log = math.log(levels / float(beta))

    def law(x: Real) -> float:
        each = (cdf(float(x) - float(s) + b * log, b) for s, b in zip(sums, scales, strict=True))
        return math.prod(each) if x >= 0 else 0.0

    return law


def r2t(sums: Sequence[Real], low: Real, high: Real, epsilon: Real, beta: Real, weight: Real | None = None) -> float:
    """R2T_sum. Its estimate has an atom at 0, which low < 0 < high counts."""
    return decided(r2t_cdf(sums, epsilon, beta, weight), low, high)


def bound_law(counts: Sequence[Real], theta: Real, epsilon: Real) -> list[float]:
    """Pr[j = 1 … L] of PrivateBoundDS at this epsilon; counts c_1 … c_L."""
    b, a = 3 / float(epsilon), 3 * float(theta) / float(epsilon)
    middle, exact = float(theta) * float(counts[-1]), [float(c) for c in counts]

    def log_density(x: Array) -> Array:
        """Of theta Lap(b) + Lap(b), the threshold's noise: (b e^(-|x|/b) - a e^(-|x|/a)) / 2 (b² - a²)."""
        y = np.abs(x - middle)
        return -y / b + np.log((b - a * np.exp(-y * (1 / a - 1 / b))) / (2 * (b * b - a * a)))

    def reaches(k: int) -> float:
        def log_f(x: Array) -> Array:
            return log_density(x) + sum(_log_cdf((x - c) / b) for c in exact[:k]) + _log_cdf((exact[k] - x) / b)

        return math.exp(_integral(log_f, [middle, *exact], [a, b]))

    law = [reaches(k) for k in range(len(exact) - 1)]
    return [*law, 1 - sum(law)]


def run_law(
    gaps: Sequence[Real], index: int | None, threshold_scale: Real, query_scale: Real, *, lattice: bool = False
) -> float:
    """ln Pr[index] of AboveThreshold: the first i with gaps[i] + Lap(query) >= Lap(threshold); None: there is none.

    lattice: integer gaps and discrete noise, summed where that is possible; where the scales are too large for it,
    integrated with the half unit that "at least" is worth, which is right to 1 / scale² (below 1e-9).
    """
    exact, b1, b2 = [float(g) for g in gaps], float(threshold_scale), float(query_scale)
    tried = exact if index is None else exact[:index]
    last = [] if index is None else [exact[index]]
    reach = 40 * max(b1, b2)
    window = max([0.0, *tried, *last]) - min([0.0, *tried, *last]) + 2 * reach
    if lattice and window < _SUMMED:
        z = np.arange(min([0.0, *tried, *last]) - reach, max([0.0, *tried, *last]) + reach).round()
        logs = -np.abs(z) / b1 + math.log(math.tanh(0.5 / b1))
        with np.errstate(divide="ignore"):
            for g in tried:
                logs = logs + np.log(lattice_tail(g + 1 - z, b2))
            for g in last:
                logs = logs + np.log(lattice_tail(z - g, b2))
        top = float(np.max(logs))
        return top + math.log(float(np.sum(np.exp(logs - top))))
    half = 0.5 if lattice else 0.0

    def log_f(z: Array) -> Array:
        found = -np.abs(z) / b1 - math.log(2 * b1)
        for g in tried:
            found = found + _log_cdf((z - half - g) / b2)
        for g in last:
            found = found + _log_cdf((g + half - z) / b2)
        return found

    return _integral(log_f, [0.0, *(g + half for g in (*tried, *last))], [b1, b2])


def svt_gaps(sums: Sequence[Real], low: Real, high: Real) -> list[Fraction]:
    """(S_j - r*) / t_j, then (S_j - l*) / t_j; t_j = 2^j, integer values (erratum 8)."""
    ends = (math.ceil(high), math.floor(low) + 1)
    return [Fraction(s - end) / 2**j for end in ends for j, s in enumerate(sums, 1)]


def svt(
    sums: Sequence[Real], low: Real, high: Real, threshold_epsilon: Real, query_epsilon: Real, bit: int = 1
) -> float:
    """The core of SVT_sum over these levels: Pr[1], or Pr[0] if bit = 0. Basic: epsilon / 2 twice, all levels."""
    gaps = [float(g) for g in svt_gaps(sums, low, high)]
    b1, b2, levels = 1 / float(threshold_epsilon), 1 / float(query_epsilon), len(sums)

    def misses(z: Array, part: Sequence[float]) -> Array:
        return sum(_log_cdf((z - g) / b2) for g in part)

    def log_f(z: Array) -> Array:
        none_reaches_high, none_reaches_low = misses(z, gaps[:levels]), misses(z, gaps[levels:])
        density = -np.abs(z) / b1 - math.log(2 * b1)
        with np.errstate(divide="ignore"):
            if bit:
                return density + none_reaches_high + np.log(-np.expm1(none_reaches_low))
            return density + np.log(-np.expm1(none_reaches_high) + np.exp(none_reaches_high + none_reaches_low))

    return math.exp(_integral(log_f, [0.0, *gaps], [b1, b2]))


def svt_improved(
    counts: Sequence[Real], sums: Sequence[Real], low: Real, high: Real, epsilon: Real, theta: Real, bit: int = 1
) -> float:
    """SVT_sum: K by PrivateBoundDS at epsilon / 3, then the core over K levels at epsilon / 3 twice."""
    third = Fraction(epsilon) / 3
    law = bound_law(counts, theta, third)
    return sum(p * svt(sums[:k], low, high, third, third, bit) for k, p in enumerate(law, 1) if p > 1e-300)


# --- MEDIAN, quantiles --------------------------------------------------------------------------------------------


def em_pmf(
    values: Sequence[int], domain: Sequence[int], fraction: Real, epsilon: Real, form: str = "ties", moved: Real = 1
) -> list[float]:
    """EM_med's law over a domain: exp(epsilon u / 2 moved); moved = 1 as printed, max(p, 1 - p) for tight."""
    target = Fraction(fraction) * len(values)
    weights = []
    for e in domain:
        below, up_to = sum(v < e for v in values), sum(v <= e for v in values)
        off = abs(below - target) if form == "printed" else max(Fraction(0), below - target, target - up_to)
        weights.append(-float(Fraction(epsilon) * off / (2 * Fraction(moved))))
    top = max(weights)
    raw = [math.exp(w - top) for w in weights]
    return [w / math.fsum(raw) for w in raw]


def hist(n: int, q1: int, q2: int, fraction: Real, epsilon: Real, rows: int = 1, *, bit: int = 1) -> float:
    """Hist_med and its quantiles: Pr[1], or Pr[0]; scale 2 rows / epsilon each."""
    b, total = 2 * rows / float(epsilon), 0.0
    for weight, m1, m2 in _hist_pieces(n, b, Fraction(fraction)):
        one, two = cdf(m1 - q1, b), cdf(m2 - q2, b)
        total += weight * (one * two if bit else cdf(q1 - m1, b) + one * cdf(q2 - m2, b))
    return total


@lru_cache(maxsize=64)
def _hist_pieces(n: int, b: float, p: Fraction) -> list[tuple[float, int, int]]:
    """(probability, m1, m2) where the noisy n leaves both thresholds as they are."""
    reach = math.ceil(_FAR * b)
    ends = {Fraction(k) / share for share in (p, 1 - p) for k in range(*_span(share, n, reach))}
    found = []
    for low, high in pairwise([Fraction(n - reach), *sorted(ends), Fraction(n + reach)]):
        middle, mass = (low + high) / 2, _mass(float(low - n), float(high - n), b)
        found.append((mass, math.ceil(p * middle), math.ceil((1 - p) * middle)))
    return found


def _span(share: Fraction, n: int, reach: int) -> tuple[int, int]:
    return math.ceil(share * (n - reach)), math.floor(share * (n + reach)) + 1


def _mass(low: float, high: float, b: float) -> float:
    """Pr[low < Lap(b) < high], without cancellation in either tail."""
    return cdf(-low, b) - cdf(-high, b) if low > 0 else cdf(high, b) - cdf(low, b)


def hist_one(n: int, q1: int, q2: int, fraction: Real, epsilon: Real, *, bit: int = 1) -> float:
    """hist_one: 0 iff h + Lap(max(p, 1 - p) / epsilon) >= 0."""
    p = Fraction(fraction)
    half = Fraction(1, 2 * p.denominator)
    h = max(q1 - p * n + half, q2 - (1 - p) * n - half)
    return cdf(-h if bit else h, max(p, 1 - p) / Fraction(epsilon))


# --- AVERAGE ------------------------------------------------------------------------------------------------------


def average(
    sum_cdf: Callable[[Real], float], count: int, low: Real, high: Real, ends: tuple[Real, Real], count_epsilon: Real
) -> float:
    """Pr[1] of min(max(sum~ / max(count~, 1), lo), hi) in (low, high); sum_cdf: Pr[sum~ <= x] of LM_sum or R2T."""
    lo, hi = map(float, ends)
    left = -math.inf if lo > float(low) else float(low) if hi > float(low) else math.inf
    right = math.inf if hi < float(high) else float(high) if lo < float(high) else -math.inf
    if left >= right:
        return 0.0

    def given(c: float) -> float:
        c = max(c, 1.0)
        upper = 1.0 if right == math.inf else sum_cdf(right * c)
        return max(0.0, upper - (0.0 if left == -math.inf else sum_cdf(left * c)))

    b = 1 / float(count_epsilon)
    edges = sorted({count - _FAR * b, *np.linspace(count - _FAR * b, count + _FAR * b, 721), 1.0, float(count)})
    total = 0.0
    for a, z in pairwise(edges):
        for node, weight in zip(_NODES, _WEIGHTS, strict=True):
            c = (a + z) / 2 + (z - a) / 2 * node
            total += weight * (z - a) / 2 * math.exp(-abs(c - count) / b) / (2 * b) * given(c)
    return total


def avg_direct(
    total: int, count: int, low: Real, high: Real, ends: tuple[int, int], epsilon: Real, *, bit: int = 1
) -> float:
    """avg_direct: 0 iff h + Lap(D / epsilon) >= 0."""
    l, r = Fraction(low), Fraction(high)  # noqa: E741 -- the specification's names
    h = max(total - r * count, l * count - total)
    moved = max(max(abs(x - r), abs(l - x)) for x in map(Fraction, ends))
    return cdf(-h if bit else h, moved / Fraction(epsilon))
