"""Quantiles of sums of Laplace noise (explain.laplace), against sums of their own."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest
from explain_forms import law

from pg_epsilon.accounting.margins import laplace_margin
from pg_epsilon.explain import laplace
from pg_epsilon.explain.forms import Noise
from pg_epsilon.explain.roots import crossing

Scales = tuple[float, ...]
Weights = tuple[int, ...]
MISSES = (0.05, 0.01, 0.3)


def brute(scales: Scales, weights: Weights, miss: float) -> int:
    """The smallest t from the law of the sum, added up value by value."""
    sums = {0: 1.0}
    for scale, weight in zip(scales, weights, strict=True):
        draws = list(law(Noise("laplace", scale)))
        larger: dict[int, float] = {}
        for (at, mass), (k, share) in itertools.product(sums.items(), draws):
            larger[at + weight * k] = larger.get(at + weight * k, 0.0) + mass * share
        sums = larger
    t = 0
    while sum(mass for at, mass in sums.items() if abs(at) > t) > miss:
        t += 1
    return t


@pytest.mark.parametrize("miss", MISSES)
@pytest.mark.parametrize(
    ("scales", "weights"),
    [
        ((3.0,), (4,)),
        ((4.0, 4.0), (1, -1)),
        ((4.0, 1.5), (1, -1)),
        ((2.0, 2.0), (3, 3)),
        ((2.0, 3.0), (1, -5)),
        ((2.0, 2.0), (2, 4)),
        ((1.0, 1.0, 1.0), (2, -1, -1)),
        ((0.3, 0.5), (1, -1)),
        ((0.01, 0.01), (1, -1)),
    ],
)
def test_a_convolution_is_the_brute_one(scales: Scales, weights: Weights, miss: float) -> None:
    assert laplace.combination(scales, weights, miss) == (brute(scales, weights, miss), True)


@pytest.mark.parametrize("scale", [0.001, 0.4, 3.0, 1e3, 1e9, 1e18])
def test_a_single_margin_is_that_of_error_bars(scale: float) -> None:
    for miss in (0.05, 1e-9):
        mine, theirs = laplace.single(scale, miss), laplace_margin(scale, Fraction(miss))
        assert abs(mine - theirs) <= 1e-11 * theirs


def test_unlike_scales_meet_equal_ones() -> None:
    """On both sides of the distance below which two scales are taken for one."""
    for scale in (5.0, 1e3, 1e8):
        near, far = (laplace.pair(scale, scale * (1 - gap), 0.01) for gap in (0.9e-6, 1.1e-6))
        assert abs(near - far) <= 1 + 2e-5 * near


@pytest.mark.parametrize("weights", [(1, -2), (2, -1, -1), (1, -1, 1, -1), (10, -1), (1,) * 12])
def test_a_bound_is_valid_and_near(weights: tuple[int, ...]) -> None:
    """Not below the convolution, and above it by lattice steps and two in a thousand at most."""
    scales = (20.0,) * len(weights)
    smallest, exact = laplace.combination(scales, weights, 0.05)
    assert exact
    bound, steps = laplace.bound(scales, weights, 0.05), sum(map(abs, weights))
    assert smallest <= bound <= smallest * 1.002 + steps + 1


def test_many_draws_are_bounded_by_chernoff() -> None:
    scales, weights = (3.0,) * 30, (1,) * 30
    smallest, exact = laplace.combination(scales, weights, 0.05)
    assert exact
    assert smallest + 30 <= laplace.bound(scales, weights, 0.05) <= 1.45 * smallest + 30


def test_too_long_a_convolution_says_that_it_is_a_bound() -> None:
    t, exact = laplace.combination((1e6, 1e6), (1, -2), 0.05)
    assert not exact
    assert laplace.single(1e6, 0.05) * 2 < t < laplace.single(1e6, 0.05) * 3


def test_the_mixture_has_its_closed_form() -> None:
    for a, b, t in ((1.0, 0.25, 3.0), (0.5, 2.0, 1.0), (3.0, 0.0, 2.0)):
        second = b * b * math.exp(-t / b) if b else 0.0
        expected = (a * a * math.exp(-t / a) - second) / (a * a - b * b)
        assert laplace.mixed_tail(t, a, b) == pytest.approx(expected, rel=1e-12)


def test_the_mixture_keeps_its_digits_where_scales_meet() -> None:
    for gap in (0.0, 1e-16, 1e-12, 1e-9):
        assert laplace.mixed_tail(2.0, 1.0, 1 - gap) == pytest.approx(2 * math.exp(-2), rel=1e-8)


def test_the_mixtures_quantile_is_convex() -> None:
    """And grows by ln(1/miss) a unit at most: why one crossing is looked for on each side."""
    for miss in (0.5, 0.05, 1e-6):

        def quantile(b: float, miss: float = miss) -> float:
            most = 99 * (1 + b)
            return crossing(lambda t: math.log(laplace.mixed_tail(t, 1.0, b) / miss), 0.0, most)

        grid = [k / 20 for k in range(101)]
        slopes = [(quantile(y) - quantile(x)) * 20 for x, y in itertools.pairwise(grid)]
        assert max(slopes) <= -math.log(miss) * (1 + 1e-9)
        assert all(second >= first - 1e-9 for first, second in itertools.pairwise(slopes))
