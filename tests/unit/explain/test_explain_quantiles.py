"""Quantiles of the normal law (explain.quantiles): published numbers, identities, scipy's own."""

from __future__ import annotations

import math

import pytest
from scipy.special import chdtri

from pg_epsilon.explain.quantiles import (
    above,
    all_weights,
    joint_square,
    sidak,
    studentised_range,
    two_sided,
)
from pg_epsilon.explain.roots import crossing, panels

MISSES = (0.5, 0.05, 0.025, 1e-6, 1e-9)
SQUARES = {2: 5.53, 3: 6.70, 5: 8.33, 7: 9.46, 10: 10.66, 20: 13.08, 50: 16.36}
RANGES = [
    (0.05, 7, 4.169554155),
    (0.025, 7, 4.493623903),
    (0.05, 20, 5.012),
    (0.01, 3, 4.120),
    (0.05, 100, 6.085),
]


@pytest.mark.parametrize(("groups", "square"), SQUARES.items())
def test_joint_squares_are_the_simulated_ones(groups: int, square: float) -> None:
    """To the two digits that a simulation gave."""
    assert joint_square(0.05, groups) == pytest.approx(square, abs=0.016)


def test_the_joint_square_of_two_names() -> None:
    assert joint_square(0.05, 2) == pytest.approx(5.5302, abs=5e-5)


@pytest.mark.parametrize("miss", MISSES)
def test_the_joint_square_of_two_has_a_closed_form(miss: float) -> None:
    """Unlike signs: a chi-square of two degrees; like signs: the larger of two."""
    c = joint_square(miss, 2)
    q = 2 * above(math.sqrt(c))
    assert math.exp(-c / 2) / 2 + q - q * q / 2 == pytest.approx(miss, rel=1e-9)


@pytest.mark.parametrize("miss", MISSES)
@pytest.mark.parametrize("groups", [2, 7, 100, 100_000])
def test_quantiles_of_all_groups_lie_between_their_bounds(miss: float, groups: int) -> None:
    """One group, or one pair, is never further out than all, and Bonferroni's bound holds."""
    most = two_sided(miss / groups)
    least = two_sided(sidak(miss, groups))
    assert least <= math.sqrt(joint_square(miss, groups)) <= math.sqrt(2) * most
    one_pair = math.sqrt(2) * two_sided(miss) * (1 - 1e-12)
    assert one_pair <= studentised_range(miss, groups) <= 2 * most
    assert least <= all_weights(miss, groups)


@pytest.mark.parametrize(("miss", "groups", "quantile"), RANGES)
def test_studentised_ranges_are_published(miss: float, groups: int, quantile: float) -> None:
    digits = len(str(quantile).partition(".")[2])
    assert studentised_range(miss, groups) == pytest.approx(quantile, abs=0.6 * 10**-digits)


@pytest.mark.parametrize("miss", MISSES)
def test_the_range_of_two_is_a_difference(miss: float) -> None:
    assert studentised_range(miss, 2) == pytest.approx(math.sqrt(2) * two_sided(miss), rel=1e-11)


@pytest.mark.parametrize("miss", MISSES)
@pytest.mark.parametrize("groups", [1, 2, 9, 1000, 100_000])
def test_all_weights_are_chi_square(miss: float, groups: int) -> None:
    assert all_weights(miss, groups) ** 2 == pytest.approx(chdtri(groups, miss), rel=1e-9)


def test_one_of_many_misses_as_often_as_promised() -> None:
    assert 1 - (1 - sidak(0.05, 40)) ** 40 == pytest.approx(0.05, rel=1e-12)


def test_a_crossing_is_found_on_the_far_side() -> None:
    found = crossing(lambda x: 2 - x * x, 0.0, 9.0)
    assert found * found >= 2
    assert found == pytest.approx(math.sqrt(2), rel=1e-15)


def test_a_crossing_outside_is_an_end() -> None:
    assert crossing(lambda x: -1.0, 3.0, 4.0) == 3
    assert crossing(lambda x: 1.0, 3.0, 4.0) == 4


def test_panels_integrate() -> None:
    assert sum(w * math.sin(x) for x, w in panels(0, math.pi, 2)) == pytest.approx(2, rel=1e-14)
