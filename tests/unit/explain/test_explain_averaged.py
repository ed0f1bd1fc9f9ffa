"""Explanations of averages from marginals: exact without noise, and intervals that hold all at once
(dpxplain.md §0.0).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import combinations
from statistics import NormalDist

import numpy as np
import pytest
from explain_cells import PAIR, Row, compared, holds, how, packed, some_rows, space, true_influences

from pg_epsilon.explain import averaged
from pg_epsilon.explain.averaged import Averaged
from pg_epsilon.explain.derived import average_half_width, misses
from pg_epsilon.explain.marginals import Marginals, Numbers, exact

BOUNDS = (-3, 5)
SINGLE = (Fraction(1),)
WEIGHTS = (Fraction(1), Fraction(-1, 3), Fraction(-2, 3))
ASKED = [((0, 1), PAIR), ((2, 1), PAIR), ((2, 0, 1), WEIGHTS), ((1,), SINGLE)]


def explained(of: Marginals, raw: Sequence[int], groups: Sequence[int], weights: tuple[Fraction, ...]) -> Averaged:
    return Averaged(compared(of.groups), weights, tuple(groups), 3, Numbers(of, raw))


def measured(rho: str, most: int = 1) -> Marginals:
    return replace(how(space(most), groups=3, bounds=BOUNDS), rho=Decimal(rho))


def skewed(of: Marginals, many: int, seed: int) -> list[Row]:
    """Rows of which those with a = 0 in the first group have the largest value: they make the difference."""
    rows = some_rows(of, many, seed)
    return [(group, values, of.high if group == 0 and not values[0] else value) for group, values, value in rows]


@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize(("groups", "weights"), ASKED, ids=str)
def test_without_noise_they_are_the_influences(
    most: int, groups: tuple[int, ...], weights: tuple[Fraction, ...]
) -> None:
    of = measured("1000", most)
    rows = skewed(of, 300, seed=5)
    found = explained(of, exact(packed(rows, of), of), groups, weights).found
    truth = true_influences(rows, of, groups, weights, "avg")
    assert [row.text for row in found] == [of.space.text(place) for place in range(len(of.space))]
    assert [row.influence for row in found] == pytest.approx(truth, abs=1e-9)
    assert all(row.low <= value <= row.high for row, value in zip(found, truth, strict=True))


def test_the_step_is_the_unit_of_the_value() -> None:
    of = measured("1")
    raw = exact(packed(skewed(of, 300, seed=5), of), of)
    lattice = explained(of, raw, (0, 1), PAIR).found
    tenths = Averaged(compared(3), PAIR, (0, 1), 3, Numbers(of, raw, Fraction(1, 10))).found
    for one, other in zip(lattice, tenths, strict=True):
        assert (other.influence, other.low, other.high) == pytest.approx(
            (one.influence / 10, one.low / 10, one.high / 10)
        )


@pytest.mark.parametrize(("groups", "weights"), ASKED, ids=str)
def test_a_group_without_rows_leaves_nothing(groups: tuple[int, ...], weights: tuple[Fraction, ...]) -> None:
    """The influence is 0 where a compared group, or what is left of it, has no row."""
    of = measured("0.5")
    gone = [row for row in skewed(of, 300, seed=8) if row[0] != groups[-1]]
    one_value = [row for row in skewed(of, 300, seed=8) if row[0] != groups[-1] or row[1][0] == 1]
    for rows in (gone, one_value, []):
        truth = true_influences(rows, of, groups, weights, "avg")
        assert 0.0 in truth
        assert holds(explained(of, exact(packed(rows, of), of), groups, weights), truth)


def missed(of: Marginals, rows: Sequence[Row], draws: int) -> int:
    """In how many of so many releases some interval or rank of some question does not hold; frozen draws."""
    raw, rng = exact(packed(rows, of), of), np.random.default_rng(20261128)
    asked = [(pair, PAIR) for pair in combinations(range(3), 2)] + ASKED[2:]
    truth = [true_influences(rows, of, groups, weights, "avg") for groups, weights in asked]
    found = 0
    for _ in range(draws):
        noisy = [value + round(z) for value, z in zip(raw, rng.normal(0, of.scale, len(raw)).tolist(), strict=True)]
        every = zip(asked, truth, strict=True)
        found += not all(holds(explained(of, noisy, *one), true) for one, true in every)
    return found


TABLES = [("0.04", 900), ("0.04", 60), ("1", 200)]


@pytest.mark.parametrize(("rho", "many"), TABLES)
def test_all_questions_hold_at_once(rho: str, many: int) -> None:
    """Small groups and large ones: at 0.95 for each release, of which 3 of 60 may be missed."""
    of = measured(rho)
    assert missed(of, skewed(of, many, seed=3), 60) <= 3


@pytest.mark.parametrize("broken", ["z", "factor"])
def test_intervals_that_forget_a_part_are_caught(monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    """The control: a quarter of the deviations, and all groups taken to be as small as the smallest."""
    of = measured("1")
    rows = [row for place, row in enumerate(skewed(of, 3000, seed=3)) if row[0] != 1 or place % 4 == 0]
    assert missed(of, rows, 30) <= 2
    if broken == "z":
        sound = averaged.two_sided
        monkeypatch.setattr(averaged, "two_sided", lambda miss: sound(miss) / 4)
    else:
        monkeypatch.setattr(averaged, "_factor", lambda inside, place: (np.ones(len(inside[0].a)),) * 2)
    assert missed(of, rows, 30) > 6


def test_ends_are_those_of_every_place_and_factor() -> None:
    """No inner point of the box of averages and factors is beyond the corners."""
    of = measured("0.04")
    one = explained(of, exact(packed(skewed(of, 400, seed=2), of), of), (0, 1), PAIR)
    inside = [one._inside(0, group) for group in (0, 1)]
    factors = [averaged._factor(inside, place) for place in (0, 1)]
    low, high = one._at_once(inside, factors)
    z = -NormalDist().inv_cdf(one.miss.sums / 2) * of.scale
    rng, beyond = np.random.default_rng(7), -np.inf
    for _ in range(500):
        middle, squared, half = 0.0, 0.0, 0.0
        for part, (_, least, most), (f_low, f_high), weight in zip(inside, one._places, factors, (1, -1), strict=True):
            x, f = rng.uniform(least, most), f_low + rng.uniform() ** 0.2 * (f_high - f_low)
            middle = middle + weight * f * ((1 - x) * part.a - x * part.b)
            squared, half = squared + f**2 * ((1 - x) ** 2 + x**2), half + f / 2
        wide = z * np.sqrt(squared) + half
        assert (low <= middle - wide).all() and (middle + wide <= high).all()
        beyond = max(beyond, float(((middle + wide - middle) / (high - low)).max()))
    assert beyond > 0.3  # of the interval's half: the corners are near


def test_what_may_be_missed_is_divided_in_five() -> None:
    """Pairs, weights, rows by cell, rows by group, averages by group."""
    one = misses(compared(4), PAIR, 7, 5)
    assert (one.sums, one.rows, one.groups) == pytest.approx((0.01 / 42, 0.01 / 28, 0.01 / 4))
    other = misses(compared(4), WEIGHTS, 7, 5)
    assert 42 * one.sums + 28 * other.sums + 28 * one.rows + 4 * 2 * one.groups == pytest.approx(0.05)


def test_the_predicted_width_is_that_of_a_predicate_of_few_rows() -> None:
    """z at 1/(7 * 3) of a fifth of .05, of sigma 8 sqrt(4 / .08), once the roots of x² + (1 - x)²."""
    of = measured("0.04")
    sigma, z = 8 * math.sqrt(4 / 0.08), -NormalDist().inv_cdf(0.01 / 21 / 2)
    placed = ((1000.0, 0.5), (500.0, 1.0))
    expected = z * sigma * math.sqrt(0.5 / 4 + 1) + 0.75
    assert average_half_width(of, compared(3), PAIR, placed) == pytest.approx(expected)
    rows = [(group, (0, 0, 0), value) for group in (0, 1) for value in (-3, 5) for _ in range(100_000)]
    few = explained(of, exact(packed(rows, of), of), (0, 1), PAIR).found[1]
    assert few.text == "a = 1" and few.influence == 0
    half = average_half_width(of, compared(3), PAIR, ((200_000.0, 0.5), (200_000.0, 0.5)))
    assert (few.high - few.low) / 2 == pytest.approx(half, rel=0.02)
    cells = average_half_width(of, compared(3), SINGLE, ((1000.0, 0.0),))
    assert cells == pytest.approx(-NormalDist().inv_cdf(0.01 / 21 / 2) * sigma + 0.5)


def test_the_first_k_are_of_the_largest_influences() -> None:
    of = measured("1")
    found = explained(of, exact(packed(skewed(of, 300, seed=5), of), of), (0, 1), PAIR)
    assert [row.influence for row in found.top] == sorted((row.influence for row in found.found), reverse=True)[:3]
