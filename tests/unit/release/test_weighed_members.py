"""Plain sums with a weight in them (release/products.py, members.py, everywhere.py, served.py)."""

from __future__ import annotations

import math
from itertools import product
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from pg_epsilon.query.aggregates import ROWS, VALUE, Aggregate
from pg_epsilon.query.attributes import Attribute, NotBins
from pg_epsilon.release.answers import Noise
from pg_epsilon.release.ask import Family
from pg_epsilon.release.everywhere import LEVELS, Everywhere, Levels
from pg_epsilon.release.members import EVERY, ITSELF, Member, digest, digest_of, digests
from pg_epsilon.release.products import MOST_FACTORS, factors_of, rest_of, weights_at
from pg_epsilon.release.served import deviation, is_candidate, served
from pg_epsilon.release.sets import Masks, Sets
from pg_epsilon.release.weights import Weights

CAST = "::pg_catalog.numeric"


@pytest.mark.parametrize(
    ("sql", "factors"),
    [
        ('r."loss"', ['r."loss"']),
        (f'r."loss"{CAST}', ['r."loss"']),
        (f'((1{CAST} - r."age"{CAST}) * r."loss"{CAST})', [f'(1{CAST} - r."age"{CAST})', 'r."loss"']),
        ("((a * (b * c))::pg_catalog.numeric * d)", ["a", "b", "c", "d"]),
        ("(CASE WHEN (a * b) > 1 THEN (a * b) END)", ["(CASE WHEN (a * b) > 1 THEN (a * b) END)"]),
        ("(a + b) * (c + d)", ["(a + b) * (c + d)"]),
        ("""(r."a * b" * '(x * y)')""", ['r."a * b"', "'(x * y)'"]),
        ("((a * b) + c)", ["((a * b) + c)"]),
        ("(a * b)::pg_catalog.int4", ["(a * b)::pg_catalog.int4"]),
    ],
)
def test_products_are_taken_apart(sql: str, factors: list[str]) -> None:
    assert factors_of(sql) == factors


def test_of_the_factors_those_of_the_family_are_no_weight() -> None:
    assert rest_of("(w * (a * b))", "(b * a)") == ["w"]
    assert rest_of("(a * (a * b))", "a") == ["a", "b"]
    assert rest_of("(w * a)", "(a * b)") is None
    assert rest_of("(w * a)", None) == ["w", "a"]


def test_a_product_has_a_most_of_factors() -> None:
    sql = "a"
    for _ in range(MOST_FACTORS):
        sql = f"({sql} * a)"
    with pytest.raises(NotBins, match="factors"):
        factors_of(sql)
    assert len(factors_of(sql[1:].rsplit(" * ", 1)[0])) == MOST_FACTORS


def column(name: str, keys: int) -> Attribute:
    return Attribute(name, tuple(map(str, range(keys))), "0", f"SELECT of {name}", keys)


def at(values: list[str | None], bits: Any, sql: str) -> Any:
    return weights_at([sql], bits, [column("a", 2), column("b", 3)], lambda _: cast(Any, tuple(values)))


def test_weights_stand_at_their_classes_and_are_0_where_no_class_is_read() -> None:
    bits = np.array([[True, False, True], [True, False, False]])
    found = at(["0.25", "7", None], bits, 'r."b" /* 1 */')
    assert found.tolist() == [[0.25, 0, 0], [0.25, 0, 0]]


@pytest.mark.parametrize(("worst", "words"), [("1.5", "1.5"), ("-0.1", "-0.1"), ("NaN", "not a number")])
def test_a_weight_outside_0_to_1_is_a_reason(worst: str, words: str) -> None:
    with pytest.raises(NotBins, match=f"its weight is {words} at one of its classes"):
        at(["0.5", worst], np.ones((2, 3), bool), f'r."a" /* {worst} */')


def test_a_weight_of_another_column_or_of_ranges_is_a_reason() -> None:
    with pytest.raises(NotBins, match="no attribute"):
        at([], np.ones((2, 3), bool), 'r."c"')
    ranges = Attribute("a", ("1", "2"), "0", "SELECT", 10)
    with pytest.raises(NotBins, match="ranges"):
        weights_at(['r."a"'], np.ones(2, bool), [ranges], lambda _: ())


def grid(masks: tuple[Masks, ...], weights: Weights | None) -> Family:
    return cast(Family, SimpleNamespace(masks=masks, sets=Sets.of_masks(masks, weights), weights=weights))


MASKS = (Masks(("110", "011"), (0, 0, 1, 0, 1)), Masks(("01", "11"), (0, 0, 0, 1, 1)))


def function(query: int, weights: Weights) -> tuple[Any, Any]:
    """(The classes of a query of MASKS, their weights) as a plain question has them."""
    one, other = (np.array([bit == "1" for bit in axis.different[axis.of[query]]]) for axis in MASKS)
    shape = [size if place in weights.places else 1 for place, size in enumerate((3, 2))]
    own = np.array(weights.different[weights.of[query]], float).reshape(shape)
    return one[:, None] & other[None, :], np.broadcast_to(own, (3, 2))


@pytest.mark.parametrize(
    "weights",
    [
        Weights((0,), ((0.5, 0.25, 1), (0.125, 1, 0)), (0, 1, 0, 1, 1)),
        Weights((1,), ((0.5, 0.25), (1, 0.25)), (0, 1, 0, 1, 1)),
        Weights((0, 1), ((0.5, 0.25, 1, 0, 0.75, 0.5), (1, 1, 1, 1, 0, 1)), (0, 1, 0, 1, 1)),
        Weights((), ((0.5,), (1,)), (0, 1, 0, 1, 1)),
    ],
)
def test_a_plain_question_with_the_weight_of_a_query_is_that_query(weights: Weights) -> None:
    """Of the same set, other weights are another query, and so is no weight."""
    found = digests(grid(MASKS, weights))
    assert found == sorted(set(found))
    each = [function(query, weights) for query in range(5)]
    functions = {(bits * own).tobytes() for bits, own in each}
    assert len(found) == len(functions)
    for bits, own in each:
        assert digest(bits, own) in found
        assert digest(bits, own * 0.999) not in found
        assert (digest(bits) in found) == ((bits * 1.0).tobytes() in functions)


def test_classes_of_weight_0_are_left_out() -> None:
    whole, half = np.ones((3, 2), bool), np.array([[True, True], [True, True], [False, False]])
    weights = np.broadcast_to(np.array([[0.5], [0.25], [0]]), (3, 2))
    assert digest(whole, weights) == digest(half, weights) == digest_of(["111", "11"], [0], [0.5, 0.25, 0])
    ones = (weights > 0).astype(float)
    assert digest(whole, ones) == digest(half) == digest_of(["111", "11"], [0], [1, 1, 0])
    assert digest(whole, np.zeros((3, 2))) is None and digest_of(["111", "11"], [0], [0, 0, 0]) is None


def test_sets_without_weights_have_the_digests_that_are_stored() -> None:
    assert digest_of(["110", "01"]) == STORED == digest(np.outer([1, 1, 0], [0, 1]).astype(bool))
    assert digests(grid((Masks(("110",), (0,)), Masks(("01",), (0,))), None)) == [STORED]


STORED = -5223905171499015177

NOISE = Noise(0.25, False, 0.0)
STEPS = np.array([0.5, 1.0, 2.0])


@pytest.mark.parametrize("gaussian", [False, True])
def test_bars_of_weights_follow_from_those_of_sets(gaussian: bool) -> None:
    """Noise that keeps the bar of each set of classes keeps those of all weights, however many levels they have."""
    noise, n, rng = Noise(0.25, gaussian, 0.0), 7, np.random.default_rng(5)
    of = Everywhere.of(noise, n)
    sets = np.array(list(product((0, 1), repeat=n)))[1:]
    t = np.array([of.reach(STEPS, 0.05, int(one.sum())) for one in sets])
    tightest = 0.0
    for _ in range(200):
        z = rng.laplace(size=n) + rng.choice([0, 1]) * np.sign(rng.normal())
        z /= np.abs(sets @ z / t).max()  # some set is at its bar
        for own in (rng.uniform(size=n), rng.choice([0, 0.25, 1], n), np.ones(n), (z > 0) * 1.0):
            reach = Levels.by(noise, n, own).reach(STEPS, 0.05)
            assert abs(own @ z) <= reach * (1 + 1e-9)
            tightest = max(tightest, abs(own @ z) / max(reach, 1e-9))
    assert tightest > 0.9


def test_levels_are_at_most_so_many_and_round_up() -> None:
    few = Levels.by(NOISE, 9, np.array([0.25, 1, 0, 0.25, 0.5]))
    assert few.levels == ((0.25, 4), (0.25, 2), (0.5, 1))
    own = np.linspace(0.01, 0.8, 300)
    many = Levels.by(NOISE, 500, own)
    assert len(many.levels) == LEVELS and sum(step for step, _ in many.levels) == pytest.approx(0.8)
    assert [count for _, count in many.levels] == [int((own > 0.1 * place).sum()) for place in range(LEVELS)]
    assert sum(step * count for step, count in many.levels) >= own.sum()


def test_a_bar_grows_with_classes_and_with_weights() -> None:
    reach = [Levels.by(NOISE, 40, np.ones(many)).reach(STEPS, 0.05) for many in range(1, 41)]
    assert reach == sorted(reach)
    assert reach[9] >= Everywhere.of(NOISE, 40).reach(STEPS, 0.05, 10) * (1 - 1e-9)
    assert Levels.by(NOISE, 40, np.full(10, 0.5)).reach(STEPS, 0.05) == pytest.approx(reach[9] / 2)


SUM = Aggregate(VALUE, "(w * r.x)", None, "sum", "sum")
FACTS = {
    "question": {"aggregate": {"sum": "value", "argument": "r.x"}},
    "values": ["0", "1/2", "1", "2", "NULL"],
    "whole": 8,
    "noise": [0.25, False, 0.125],
}
CELLS = np.array([[80, 8, 0, 16, 8], [40, 0, 8, 0, 0], [0, 0, 0, 0, 800]], np.float64).reshape(-1)
HALF = np.array([0.5, 0.25, 1])


@pytest.mark.parametrize(
    ("way", "exact", "steps"),
    [
        (ITSELF, 0.5 * (0.5 * 1 + 2 * 2) + 0.25 * 1, [0, 0.5, 1, 2]),
        (EVERY, (0.5 * 112 + 0.25 * 48) / 8, [1] * 5),
    ],
)
def test_weighted_sums_and_counts_come_from_the_cells(way: str, exact: float, steps: list[float]) -> None:
    member = Member(SUM, way, np.array([True, True, False]), HALF)
    outside, inside = (served(FACTS, CELLS, member, queries, 0.05).answer for queries in (None, 1))
    assert outside.unbiased == inside.unbiased == pytest.approx(exact)
    assert outside.low <= inside.low <= exact <= inside.high < outside.high
    squares = (0.5**2 + 0.25**2) * sum(one * one for one in steps)
    assert deviation(FACTS, member) == pytest.approx(math.sqrt(2) * 0.25 * math.sqrt(squares))


def test_weights_of_1_have_the_bar_of_their_set_in_the_grid() -> None:
    bits = np.array([True, True, False])
    plain = served(FACTS, CELLS, Member(SUM, ITSELF, bits), 3, 0.05).answer
    ones = served(FACTS, CELLS, Member(SUM, ITSELF, bits, np.ones(3)), 3, 0.05).answer
    assert (ones.low, ones.high) == (pytest.approx(plain.low), pytest.approx(plain.high))


def test_of_a_group_weights_of_0_and_1_are_a_set() -> None:
    member = Member(SUM, ITSELF, np.ones(3, bool), np.array([1, 0, 0.5]))
    whole, first = member.within(np.ones(3, bool)), member.within(np.array([True, True, False]))
    assert whole.weights is not None and whole.classes == 2
    assert first.weights is None and first.bits.tolist() == [True, False, False]
    assert is_candidate(first) == digest(first.bits) and is_candidate(whole) is not None
    counted = Member(Aggregate(ROWS, None, None, "count"), EVERY, np.ones(3, bool))
    assert is_candidate(counted) is None
