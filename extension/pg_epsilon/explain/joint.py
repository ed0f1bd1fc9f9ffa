"""The difference of two averages with Gaussian noise: one region for both."""

from __future__ import annotations

import math

from pg_epsilon.explain.averages import Average, Ends, clamped, lower, upper, whole

GRID = 256
"""Angles of the quarter circle between which the region is rounded outwards."""


def difference(first: Average, second: Average, square: float) -> Ends:
    """An interval of (first - second), of averages with Gaussian noise, in units of the value.

    square: `quantiles.joint_square(miss, G)`: then all differences of two of G averages hold at
    once but for that probability; two averages fixed before the release are G = 2. The upper end is
    the maximum over s in [0, 1] of u_1(sqrt(square s)) - l_2(sqrt(square (1 - s))), with u and l
    the ends of `averages.upper` and `lower`, moved into the declared range, and that range where
    the count is too small: if the first is no more than sqrt(square s) deviations too low and the
    second no more than sqrt(square (1 - s)) too high, for one s, the difference is no larger. The
    lower end is that of the exchanged difference. Maxima are taken from grid point to grid point,
    both parts at their wider end, so that nothing is lost between.
    """
    return -_most(second, first, square), _most(first, second, square)


def _most(first: Average, second: Average, square: float) -> float:
    radius = math.sqrt(square)
    angles = [math.pi / 2 * k / GRID for k in range(GRID + 1)]
    range_1, range_2 = whole(first), whole(second)
    largest, smallest = upper(first), lower(second)
    highs = [clamped(range_1, largest(radius * math.sin(x)), range_1[1]) for x in angles]
    lows = [clamped(range_2, smallest(radius * math.cos(x)), range_2[0]) for x in angles]
    return max(high - low for high, low in zip(highs[1:], lows[:-1], strict=True))
