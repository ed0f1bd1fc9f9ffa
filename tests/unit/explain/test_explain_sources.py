"""Explanations from what was paid: sums of released numbers, with intervals that hold all at once (dpxplain.md §0)."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import comb

import pytest

from fix_chance import binomial
from pg_epsilon.explain.comparison import Comparison
from pg_epsilon.explain.forms import Barred, Cell, Form, Linear, Noise
from pg_epsilon.explain.influence import Cells, influences
from pg_epsilon.explain.linear import cell_by_cell, margin, normal
from pg_epsilon.explain.paid import Paid, Source, Split, pairs_of
from pg_epsilon.explain.question import Question
from pg_epsilon.query.released import Stored

PAIR = (Fraction(1), Fraction(-1))
NONE = Noise("laplace", 1e-3)  # so small that every margin is 0
DEGREE = Split("degree", "r.degree", ("degree = 'BSc'", "degree = 'MSc'", "degree IS NULL"))
AGE = Split("age", "r.age", ("age < 40", "age >= 40"))
# Rows of two groups by degree and age, degree first; of the first group many have an MSc.
ROWS = (((50, 60), (300, 200), (10, 5)), ((55, 62), (40, 30), (12, 8)))
BETA = Fraction(1, 20)


def form(value: float, noise: Noise = NONE, step: int = 1) -> Linear:
    return Linear(Cell(value, noise), Fraction(step))


def source(rows: Sequence[Sequence[int]], tests: Sequence[Split], name: str = "a", noise: Noise = NONE) -> Source:
    cells = tuple(tuple(form(value, noise) for value in group) for group in rows)
    return Source(name, "2026-01-01 00:00:00+00", tuple(tests), cells, cells)


def flat(group: Sequence[Sequence[int]]) -> list[int]:
    return [value for line in group for value in line]


def paid(
    sources: Sequence[Source],
    tests: Sequence[Split],
    *,
    most: int = 1,
    weights: tuple[Fraction, ...] = PAIR,
    released: int | None = 3,
    noise: Noise = NONE,
    totals: Sequence[Form] | None = None,
    up_to: bool = False,
) -> Paid:
    forms = tuple(form(sum(flat(group)), noise) for group in ROWS)
    question = Question(forms, None, None, Fraction(0), "auto", 1 - BETA, released)
    stored = Stored("r", True, "discrete Laplace", "2026-01-01", [[0]] * 3, {}, {})
    comparison = Comparison(stored, (("x",), ("y",)), "count", released, question)
    given = forms if totals is None else tuple(totals)
    pairs = pairs_of(comparison, weights)
    return Paid(comparison, weights, given, tuple(sources), tuple(tests), most, up_to, 2, (), pairs)


def exact(most: int) -> list[float]:
    """Influences of the predicates on degree and age, from the rows themselves."""
    groups = [flat(group) for group in ROWS]
    places = list(product(range(3), range(2)))
    if most == 2:
        inside = [[(group[at], 0) for group in groups] for at in range(6)]
    else:
        chosen: list[list[int]] = [[at for at, (d, _) in enumerate(places) if d == value] for value in range(3)]
        chosen += [[at for at, (_, a) in enumerate(places) if a == value] for value in range(2)]
        inside = [[(sum(group[at] for at in one), 0) for group in groups] for one in chosen]
    cells = Cells.of([sum(group) for group in groups], [0, 0], inside)
    return [float(one) for one in influences("count", PAIR, cells)]


BOTH = source([flat(group) for group in ROWS], (DEGREE, AGE))


@pytest.mark.parametrize("most", [1, 2])
def test_without_noise_they_are_the_influences(most: int) -> None:
    found = paid([BOTH], [DEGREE, AGE], most=most).found
    assert [row.influence for row in found] == pytest.approx(exact(most), rel=1e-12)
    assert all(row.low == row.influence == row.high for row in found)
    values = [row.influence for row in found]
    for row in found:
        assert row.rank_low == 1 + sum(one > row.influence for one in values)
        assert row.rank_high == sum(one >= row.influence for one in values)


def test_predicates_are_in_the_order_of_the_tests_whatever_the_order_of_the_keys() -> None:
    turned = [[group[d][a] for a in range(2) for d in range(3)] for group in ROWS]
    other = paid([source(turned, (AGE, DEGREE))], [DEGREE, AGE], most=2)
    first = paid([BOTH], [DEGREE, AGE], most=2)
    assert other.found == first.found
    assert first.found[3].text == "degree = 'MSc' AND age >= 40"
    assert [row.text for row in first.top] == ["degree = 'MSc' AND age < 40", "degree = 'MSc' AND age >= 40"]


def test_up_to_has_the_shorter_ones_first_and_one_miss_for_all() -> None:
    asked = paid([BOTH], [DEGREE, AGE], most=2, up_to=True)
    assert len(asked.found) == asked.predicates == 3 + 2 + 6
    assert [row.influence for row in asked.found] == pytest.approx([*exact(1), *exact(2)])


def test_conjunctions_are_of_keys_of_one_release() -> None:
    degrees = source([[sum(line) for line in group] for group in ROWS], (DEGREE,), "d")
    ages = source([[sum(line[a] for line in group) for a in range(2)] for group in ROWS], (AGE,), "a")
    apart = paid([degrees, ages], [DEGREE, AGE])
    assert [row.influence for row in apart.found] == pytest.approx(exact(1))
    assert paid([degrees, ages], [DEGREE, AGE], most=2).subsets == ()


def test_the_nearer_release_is_taken_by_its_design_alone() -> None:
    wide, fine = Noise("laplace", 8.0), Noise("laplace", 1.0)
    degrees = [[sum(line) for line in group] for group in ROWS]
    loud = source([[value + 1000 for value in group] for group in degrees], (DEGREE,), "loud", wide)
    asked = paid([loud, source(degrees, (DEGREE,), "fine", fine)], [DEGREE], noise=fine)
    assert [row.influence for row in asked.found] == pytest.approx(exact(1)[:3], rel=1e-9)


def test_margins_are_of_all_predicates_and_pairs_at_once() -> None:
    noise = Noise("laplace", 2.0)
    asked = paid([source([flat(group) for group in ROWS], (DEGREE, AGE), "a", noise)], [DEGREE, AGE], noise=noise)
    predicates, groups = 5, 3
    sums = float(BETA / 4 / (predicates * comb(groups, 2)))
    rows, total = float(BETA / 4 / (predicates * groups)), float(BETA / 4 / groups)
    assert tuple(asked.miss) == (sums, rows, total)
    terms = [(weight, Cell(0, noise)) for weight in PAIR for _ in range(2)]  # a degree has two ages
    wide = margin(terms, sums, None)[0]
    row = margin(terms[:2], rows, None)[0]
    whole = margin(terms[:1], total, None)[0]
    # the MSc's rows: 500 of 625 and 70 of 207
    smallest = 625 - 500, 207 - 70
    least = min(smallest) - row - whole, min(smallest) + row + whole
    low = (430 - wide) * least[0] / (625 + whole + 1)
    high = (430 + wide) * least[1] / (625 - whole + 1)
    assert (asked.found[1].low, asked.found[1].high) == pytest.approx((low, high))


def test_of_groups_named_before_one_pair_holds() -> None:
    asked = paid([BOTH], [DEGREE, AGE], released=None)
    assert asked.pairs == 1 and asked.miss.sums == float(BETA / 4 / 5) and asked.miss.groups == float(BETA / 4 / 2)


def test_of_weights_every_cell_holds() -> None:
    noise, weights = Noise("gaussian", 3.0), (Fraction(1), Fraction(-1, 2))
    one = source([flat(group) for group in ROWS], (DEGREE, AGE), "a", noise)
    asked = paid([one], [AGE], weights=weights, noise=noise)
    assert asked.pairs is None and asked.miss.sums == float(BETA / 4 / (3 * 6))
    terms = [(weight, Cell(0, noise)) for weight in weights for _ in range(3)]
    assert asked._margin(one, (1,)) == pytest.approx(cell_by_cell(terms, asked.miss.sums))


def test_of_gaussian_noise_the_sum_has_the_root_of_the_squares() -> None:
    noise = Noise("gaussian", 3.0)
    one = source([flat(group) for group in ROWS], (DEGREE, AGE), "a", noise)
    asked = paid([one], [AGE], noise=noise)
    terms = [(weight, Cell(0, noise)) for weight in PAIR for _ in range(3)]
    assert asked._margin(one, (1,)) == pytest.approx(normal(terms, asked.miss.sums))


def bar(value: float, at: str, *, uniform: bool) -> Barred:
    return Barred(value, value - 2, value + 2, Fraction(at), uniform=uniform)


@pytest.mark.parametrize(("at", "uniform"), [("0.97", True), ("0.998", False)])
def test_bars_add_up_and_what_they_miss_is_theirs(at: str, uniform: bool) -> None:
    """Bars that hold together miss once; those that hold each, in as many cells as all three groups have: 18."""
    cells = tuple(tuple(bar(value, at, uniform=uniform) for value in flat(group)) for group in ROWS)
    one = Source("turbo", "2026-01-01", (DEGREE, AGE), cells, cells)
    asked = paid([one], [DEGREE])
    missed = (1 - Fraction(at)) * (1 if uniform else 18)
    assert asked.miss.sums == pytest.approx(float((BETA - missed) / 4 / (3 * 3)))
    row = asked.found[1]
    assert row.high == pytest.approx((430 + 2 * 2 * 2) * (125 + 4) / 626)
    assert row.low == pytest.approx((430 - 2 * 2 * 2) * (125 - 4) / 626)


def test_a_smallest_group_without_a_row_left_leaves_nothing_to_explain() -> None:
    none = paid([source([[0, 500], [0, 70]], (AGE,))], [AGE], totals=[form(500), form(70)])
    assert [row.influence for row in none.found] == [0, 0]
    assert none.found[1].text == "age >= 40"


RUNS, MOST = 400, 50
# All intervals of a run hold with at least 1 - BETA: more than MOST that do not.
FALSE_ALARM = binomial(RUNS, float(BETA), 0, MOST)


@pytest.mark.chance(FALSE_ALARM)
def test_all_intervals_hold_at_once() -> None:
    """Noise of scale 6 on every cell and every total: the sums and ranks that are known stay inside, all of a run."""
    rng, noise = random.Random(), Noise("laplace", 6.0)

    def drawn(value: int) -> int:
        p = math.exp(-1 / noise.scale)  # a difference of two geometric draws
        return value + _geometric(rng, p) - _geometric(rng, p)

    truth = exact(1)
    outside = 0
    for _ in range(RUNS):
        cells = tuple(tuple(form(drawn(value), noise) for value in flat(group)) for group in ROWS)
        totals = [form(drawn(sum(flat(group))), noise) for group in ROWS]
        one = Source("a", "2026-01-01", (DEGREE, AGE), cells, cells)
        found = paid([one], [DEGREE, AGE], noise=noise, totals=totals).found
        ranks = [1 + sum(other > value for other in truth) for value in truth]
        held = all(
            row.low <= value <= row.high and row.rank_low <= rank <= row.rank_high
            for row, value, rank in zip(found, truth, ranks, strict=True)
        )
        outside += not held
    assert outside <= MOST


def _geometric(rng: random.Random, p: float) -> int:
    count = 0
    while rng.random() < p:
        count += 1
    return count


def test_the_margin_of_one_question_is_narrower() -> None:
    noise = Noise("laplace", 6.0)
    one = source([flat(group) for group in ROWS], (DEGREE, AGE), "a", noise)
    asked = paid([one], [DEGREE, AGE], noise=noise)
    alone = replace(asked, pairs=1)
    terms = [term for forms, weight in zip(one.values, PAIR, strict=True) for term in one.terms(forms, (0,), weight)]
    assert asked._margin(one, (0,)) > alone._margin(one, (0,)) > margin(terms, float(BETA), None)[0]
