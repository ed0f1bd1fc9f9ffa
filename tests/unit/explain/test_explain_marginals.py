"""Marginals that are released once: layout, sensitivity, and what follows of any pair (dpxplain.md
§0).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product
from statistics import NormalDist

import numpy as np
import pytest
from explain_cells import (
    NAMES,
    PAIR,
    Row,
    compared,
    every_row,
    holds,
    how,
    packed,
    some_rows,
    space,
    true_influences,
)

import fix_chance
from pg_epsilon.accounting.margins import gaussian_scale
from pg_epsilon.explain.cells import RECORD
from pg_epsilon.explain.derived import Derived, derived, half_width, misses
from pg_epsilon.explain.marginals import Marginals, Numbers, exact


def test_cells_stand_by_predicate_and_group() -> None:
    """Two groups by two attributes of 2 values: all rows, a = 0, a = 1, b = 0, b = 1, each for both
    groups.
    """
    of = how(space(1, sizes=(2, 2)))
    rows = [(0, (0, 1), 0)] * 3 + [(0, (1, 1), 0)] * 4 + [(1, (1, 0), 0)] * 5
    assert exact(packed(rows, of), of) == [7, 5, 3, 0, 4, 5, 0, 5, 7, 0]
    assert (of.sets, of.released, of.l2_squared) == (3, 10, 3)
    both = how(space(2, up_to=True, sizes=(2, 2)))
    assert exact(packed(rows, both), both)[10:] == [0, 0, 3, 0, 0, 5, 4, 0]
    assert (both.sets, both.released) == (4, 18)
    assert exact(b"", of) == [0] * 10


def test_sums_are_two_integers() -> None:
    """Values from -2 to 5: those of v + 2 first, then those of 5 - v."""
    of = how(space(1, sizes=(2,)), bounds=(-2, 5))
    rows = [(0, (0,), -2), (0, (0,), 5), (0, (1,), 1), (1, (1,), 0)]
    assert exact(packed(rows, of), of) == [10, 2, 7, 0, 3, 2, 11, 5, 7, 0, 4, 5]
    assert (of.released, of.l2_squared) == (12, 2 * 49)
    numbers = Numbers(of, exact(packed(rows, of), of), Fraction(1, 10))
    assert [numbers.total(group).cell.value for group in (0, 1)] == [3, 1]
    assert [one.cell.value * one.step for one in numbers.values(0, 0)] == [Fraction(3, 10), Fraction(1, 10)]
    assert [one.cell.value for one in numbers.rows(0, 0)] == [2, 1]


@pytest.mark.parametrize("bounds", [None, (-3, 2)], ids=str)
def test_cells_that_the_statement_added_up_are_the_same(bounds: tuple[int, int] | None) -> None:
    """Where there could be too many cells, it has a record for each predicate and group."""
    of = how(space(2, up_to=True), bounds=bounds)
    rows = some_rows(of, 50, seed=9)
    records = []
    for place, group in product(range(len(of.space)), range(of.groups)):
        tests = [(NAMES.index(one.name), value) for one, value in of.space.values(place)]
        held = [row[2] - of.low for row in rows if row[0] == group and all(row[1][at] == v for at, v in tests)]
        records.append((place * of.groups + group, len(held), sum(held) if of.sums else 0))
    added = np.array([one for one in records if one[1]], np.dtype(list(RECORD))).tobytes()
    assert exact(added, replace(of, by_predicate=True)) == exact(packed(rows, of), of)


SHAPES = [
    (most, up_to, bounds)
    for most, up_to in ((1, False), (2, False), (2, True), (3, False))
    for bounds in (None, (0, 4), (-3, 2), (4, 6))
]


def moves(of: Marginals, unit: Sequence[Row], rows: Sequence[Row]) -> int:
    """The squared distance of what is noised with and without the rows of one unit."""
    with_it, without = exact(packed([*rows, *unit], of), of), exact(packed(rows, of), of)
    return sum((a - b) ** 2 for a, b in zip(with_it, without, strict=True))


@pytest.mark.parametrize(("most", "up_to", "bounds"), SHAPES)
def test_no_row_moves_more_than_is_declared_and_one_does(
    most: int, up_to: bool, bounds: tuple[int, int] | None
) -> None:
    of = how(space(most, up_to=up_to), bounds=bounds)
    rows = some_rows(of, 20, seed=most)
    found = {moves(of, [row], rows) for row in every_row(of)}
    assert max(found) == of.l2_squared
    assert len(found) == (1 if bounds is None else 2)  # of sums, values in the middle move less


@pytest.mark.parametrize("bounds", [None, (-3, 2)], ids=str)
def test_no_unit_of_several_rows_does(bounds: tuple[int, int] | None) -> None:
    of = how(space(2, sizes=(2, 2)), bounds=bounds, units=3)
    units: Iterator[tuple[Row, ...]] = combinations([row for row in every_row(of) for _ in range(3)], 3)
    every = {tuple(sorted(unit)) for unit in units}
    assert max(moves(of, unit, []) for unit in every) == of.l2_squared == of.sets * 9 * of.reach**2


def test_a_sensitivity_of_one_set_is_found() -> None:
    """The control: the norm of a histogram, which each row is in once, is not that of several."""
    of = how(space(1))
    assert min(moves(of, [row], []) for row in every_row(of)) > (of.units * of.reach) ** 2


def test_the_noise_of_sums_is_below_that_of_halves() -> None:
    """A sum and a number of rows at half the price each: sigma of max(|low|, |high|), and of 1, at
    rho / 2.
    """
    for bounds in ((0, 10), (-4, 7), (-5, 5), (90, 100), (-30, -20)):
        of = how(space(1), bounds=bounds)
        half = [gaussian_scale(of.sets * most**2, Fraction(of.rho) / 2) for most in (max(map(abs, bounds)), 1)]
        assert of.value_noise.scale <= half[0] * (1 + 1e-12)
        assert of.row_noise.scale == pytest.approx(half[1])


def explained(
    of: Marginals, raw: Sequence[int], groups: Sequence[int] = (0, 1), weights: tuple[Fraction, ...] = PAIR, k: int = 3
) -> Derived:
    return derived(compared(of.groups), weights, groups, k, Numbers(of, raw))


@pytest.mark.parametrize(("most", "up_to", "bounds"), SHAPES)
def test_without_noise_they_are_the_influences_of_any_groups(
    most: int, up_to: bool, bounds: tuple[int, int] | None
) -> None:
    of = how(space(most, up_to=up_to), groups=4, bounds=bounds)
    rows = some_rows(of, 200, seed=7)
    raw = exact(packed(rows, of), of)
    for groups, weights in (
        ((0, 1), PAIR),
        ((3, 1), PAIR),
        ((2, 0, 3), (Fraction(1), Fraction(-1, 2), Fraction(-1, 2))),
    ):
        found = explained(of, raw, groups, weights).found
        assert [row.text for row in found] == [of.space.text(place) for place in range(len(of.space))]
        assert [row.influence for row in found] == pytest.approx(true_influences(rows, of, groups, weights), abs=1e-9)


def test_what_may_be_missed_is_divided_once() -> None:
    """All pairs, all weights, rows by cell and by group: a quarter each, whatever is asked."""
    each = [misses(compared(4), weights, 7) for weights in (PAIR, (Fraction(1), Fraction(-1, 2)))]
    assert [one.sums for one in each] == pytest.approx([0.0125 / (7 * 6), 0.0125 / (7 * 4)])
    assert [(one.rows, one.groups) for one in each] == [pytest.approx((0.0125 / 28, 0.0125 / 4))] * 2
    assert 7 * 6 * each[0].sums + 7 * 4 * each[1].sums + 28 * each[0].rows + 4 * each[0].groups == pytest.approx(0.05)
    named = misses(compared(None), PAIR, 7)
    assert named == pytest.approx((0.0125 / 7, 0.0125 / 14, 0.0125 / 2))


def test_the_predicted_width_is_that_of_the_answer() -> None:
    """z at a 1/42 of a quarter of .05, of sigma sqrt(4 / .08), twice in a difference, and two half
    steps.
    """
    of = replace(how(space(1)), groups=4)
    sigma = math.sqrt(4 / 0.08)
    z = -NormalDist().inv_cdf(0.0125 / 42 / 2)
    assert half_width(of, compared(4), PAIR) == pytest.approx(z * sigma * math.sqrt(2) + 1)
    rows = some_rows(of, 100_000, seed=1)
    found = explained(of, exact(packed(rows, of), of))
    assert half_width(of, compared(4), PAIR) == pytest.approx(found._margin(found.sources[0], [0]))
    weights = (Fraction(1), Fraction(-1, 2), Fraction(-1, 2))
    z = -NormalDist().inv_cdf(0.0125 / 28 / 2)
    assert half_width(of, compared(4), weights) == pytest.approx(2 * (z * sigma + 0.5))


DRAWS = 300


@pytest.mark.parametrize("bounds", [None, (-3, 2)], ids=str)
@pytest.mark.chance(fix_chance.binomial(DRAWS, 0.05, 0, 37))
def test_all_pairs_hold_at_once(bounds: tuple[int, int] | None) -> None:
    """Of every pair and every predicate the influence and the rank, in 19 of 20 releases at least."""
    of = how(space(1), groups=3, bounds=bounds)
    rows = some_rows(of, 900, seed=3)
    raw, rng = exact(packed(rows, of), of), np.random.default_rng()
    pairs = list(combinations(range(3), 2))
    truth = {pair: true_influences(rows, of, pair, PAIR) for pair in pairs}
    missed = 0
    for _ in range(DRAWS):
        noisy = [value + round(z) for value, z in zip(raw, rng.normal(0, of.scale, len(raw)).tolist(), strict=True)]
        missed += not all(holds(explained(of, noisy, pair), truth[pair]) for pair in pairs)
    assert missed <= 37


def test_the_first_k_do_not_depend_on_how_many() -> None:
    of = how(space(1), groups=3)
    raw = exact(packed(some_rows(of, 500, seed=5), of), of)
    assert explained(of, raw, k=2).top == explained(of, raw, k=5).top[:2]
