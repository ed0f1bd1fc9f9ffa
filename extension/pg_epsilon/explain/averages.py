"""Intervals of one average, each a function of what it may miss; in units of the value.

All of them lie in the declared range, but for `box`. A group without rows has no true average:
nothing is promised about it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from pg_epsilon.explain.forms import Halves, Pair
from pg_epsilon.explain.laplace import mixed_tail
from pg_epsilon.explain.quantiles import two_sided
from pg_epsilon.explain.roots import crossing

Ends = tuple[float, float]
Average = Halves | Pair
EVERYTHING: Ends = (-math.inf, math.inf)


def noise_is_gaussian(form: Average) -> bool:
    return (form.noise if isinstance(form, Pair) else form.total.noise).is_gaussian


def whole(form: Average) -> Ends:
    """The declared range."""
    return float(form.low * form.step), float(form.high * form.step)


def box(form: Halves, miss: float) -> Ends:
    """The image of total and count within their margins (dpxplain.md §5.2).

    Both ends are infinite if the count's interval holds 0, or lies below it. miss: of each of the
    two. Not cut to the declared range: as in the paper.
    """
    total, (low, high) = form.total.interval(miss), form.count.interval(miss)
    return _valued(form, *_quotient(total, low, high)) if low > 0 else EVERYTHING


def box_tight(form: Halves, miss: float) -> Ends:
    """`box` within the declared range (dpxplain.md §5.2).

    The count is taken to be 1 at least where its interval holds 0. The whole range if the count's
    interval is below 1, or if the image misses the range.
    """
    total, (low, high) = form.total.interval(miss), form.count.interval(miss)
    if high < 1:
        return whole(form)
    return _inside(form, _valued(form, *_quotient(total, low if low > 0 else 1.0, high)))


def _quotient(total: Ends, low: float, high: float) -> Ends:
    """The image of total / count, 0 < low <= count <= high."""
    return total[0] / (high if total[0] >= 0 else low), total[1] / (low if total[1] >= 0 else high)


def _valued(form: Halves, low: float, high: float) -> Ends:
    """From quotients to values."""
    centre, step = float(form.centre), float(form.step)
    return (centre + low) * step, (centre + high) * step


def _inside(form: Average, ends: Ends) -> Ends:
    """The part within the declared range; all of that if nothing is left."""
    low, high = whole(form)
    if ends[1] < low or ends[0] > high:
        return low, high
    return max(ends[0], low), min(ends[1], high)


def fieller(form: Average, miss: float) -> Ends:
    """Fieller's interval: every average that is not contradicted (dpxplain.md §5.2).

    miss: of the interval. Halves: {theta: |S - (theta - centre) C| <= t + half a step of S +
    |theta - centre| half a step of C}; t is z sqrt(sigma_S^2 + (theta - centre)^2 sigma_C^2), or
    the quantile of the mixture of two Laplace laws of scales b_S and |theta - centre| b_C. A pair:
    the same of |(1 - theta) A - theta B|, theta in [0, 1] (better-answers.md §2.2). Gaussian:
    the whole range where the count is too small for the set to be an interval; Laplace: the hull
    of the set. The whole range too where S / C, moved into it, is contradicted or C is not above 0.
    """
    if noise_is_gaussian(form):
        z = two_sided(miss)
        low, high = lower(form)(z), upper(form)(z)
        return whole(form) if low is None or high is None else _inside(form, (low, high))
    return _laplace_pair(form, miss) if isinstance(form, Pair) else _laplace_halves(form, miss)


Excess = Callable[[float], float]
End = Callable[[float], float | None]
"""z to an end of all averages within z deviations and the half steps; None: there is no end."""


def clamped(limits: Ends, end: float | None, otherwise: float) -> float:
    """An end moved into the declared range; `otherwise` where there is none."""
    return otherwise if end is None else min(max(end, limits[0]), limits[1])


def upper(form: Average) -> End:
    """The largest average, not cut, of one with Gaussian noise."""
    step = float(form.step)
    if isinstance(form, Pair):
        share, low = _share(float(form.a), float(form.b), form), float(form.low) * step
        width = float(form.high) * step - low
        return lambda z: None if (most := share(z)) is None else low + width * most
    largest, centre = _largest(form.total.number, form), float(form.centre)
    return lambda z: None if (most := largest(z)) is None else (centre + most) * step


def lower(form: Average) -> End:
    """The smallest, by exchanging the signs of the values."""
    step = float(form.step)
    if isinstance(form, Pair):
        share, high = _share(float(form.b), float(form.a), form), float(form.high) * step
        width = high - float(form.low) * step
        return lambda z: None if (most := share(z)) is None else high - width * most
    largest, centre = _largest(-form.total.number, form), float(form.centre)
    return lambda z: None if (most := largest(z)) is None else (centre - most) * step


def _largest(total: float, form: Halves) -> End:
    """The larger root x of x C - S - h_S - |x| h_C = z sqrt(s_S^2 + x^2 s_C^2), h the half steps.

    Left less right grows with x beyond S / C, if C - h_C > z s_C: then there is one root. It is
    positive if and only if the left is below the right at x = 0.
    """
    count, half = form.count.number, form.count.noise.half
    s, s_scale = total + form.total.noise.half, form.total.noise.scale
    c_scale = form.count.noise.scale

    def end(z: float) -> float | None:
        spread, wide = z * s_scale, z * c_scale
        if count - half <= wide:
            return None
        c = count - half if s + spread > 0 else count + half
        lead = (c - wide) * (c + wide)
        return (s * c + math.sqrt((s * wide) ** 2 + lead * spread * spread)) / lead

    return end


def _share(a: float, b: float, form: Pair) -> End:
    """The larger root t of t (A + B) - A - h = z s sqrt((1-t)^2 + t^2)."""
    n, s, scale = a + b, a + form.noise.half, form.noise.scale

    def end(z: float) -> float | None:
        k = (z * scale) ** 2
        lead = n * n - 2 * k
        if n <= 0 or lead <= 0:
            return None
        return (n * s - k + math.sqrt(max(k * ((n - s) ** 2 + s * s - k), 0.0))) / lead

    return end


def _from_share(form: Pair, share: float) -> float:
    return (float(form.low) + float(form.high - form.low) * share) * float(form.step)


def _laplace_halves(form: Halves, miss: float) -> Ends:
    """With Laplace noise: the hull of the set, if C > 0.

    On either side of S / C what is contradicted lies together, because t(a, b) is convex: linear
    less convex is above 0 on an interval. So one crossing on a side is the only one, or the end of
    the range is not contradicted and belongs to the hull.
    """
    s, c, centre = form.total.number, form.count.number, float(form.centre)
    half_s, half_c = form.total.noise.half, form.count.noise.half
    b_s, b_c = form.total.noise.scale, form.count.noise.scale
    if c <= 0:
        return whole(form)

    def excess(x: float) -> float:
        rest = abs(s - x * c) - half_s - abs(x) * half_c
        return _log_of(mixed_tail(rest, b_s, abs(x) * b_c), miss)

    found = _around(excess, s / c, float(form.low) - centre, float(form.high) - centre)
    return whole(form) if found is None else _inside(form, _valued(form, *found))


def _laplace_pair(form: Pair, miss: float) -> Ends:
    a, b, scale, half = float(form.a), float(form.b), form.noise.scale, form.noise.half
    n = a + b
    if n <= 0:
        return whole(form)

    def excess(x: float) -> float:
        rest = abs((1 - x) * a - x * b) - half
        return _log_of(mixed_tail(rest, scale * (1 - x), scale * x), miss)

    found = _around(excess, a / n, 0.0, 1.0)
    if found is None:
        return whole(form)
    return _inside(form, (_from_share(form, found[0]), _from_share(form, found[1])))


def _around(excess: Excess, middle: float, low: float, high: float) -> Ends | None:
    """Where `excess` > 0 within [low, high]; it falls away from `middle`. None: nowhere."""
    inner = min(max(middle, low), high)
    if excess(inner) <= 0:
        return None
    first = -crossing(lambda x: excess(-x), -inner, -low)
    return first, crossing(excess, inner, high)


def _log_of(tail: float, miss: float) -> float:
    return math.log(tail / miss) if tail > 0 else -math.inf
