"""Distances of ranks in rows (dpxplain.md §7.2): cases V80 and V81, by definition, and on neighbours."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from pg_epsilon.explain.arithmetic import Answer, Constant, Node, Operation
from pg_epsilon.explain.distance import Distances, Limits, Statistic, cap, limits_of
from pg_epsilon.explain.ranking import LOWER, UPPER, rank_bound

FILE = Path(__file__).resolve().parents[2] / "fixtures/explain/distances.json"
CASES: dict[str, dict[str, Any]] = {case["id"]: case for case in json.loads(FILE.read_text())["cases"]}


def tree(node: Any, names: Sequence[str]) -> Node:
    if isinstance(node, list):
        return Operation(node[0], tuple(tree(part, names) for part in node[1:]))
    return Answer(names.index(node)) if isinstance(node, str) else Constant(Fraction(node))


def read(case: dict[str, Any]) -> Limits:
    if "limits" in case:
        return lambda rows: [tuple(ends) for ends in case["limits"][rows]]
    names = list(case["statistics"][0])
    own = [[statistic(one[name]) for name in names] for one in case["statistics"]]
    return limits_of(tree(case["expression"], names), own)


def statistic(given: dict[str, Any]) -> Statistic:
    ends = [Fraction(given[name]) if name in given else None for name in ("min", "max")]
    return Statistic(Fraction(given["value"]), Fraction(given["c"]), *ends)


@pytest.mark.parametrize("name", CASES)
def test_distances_are_those_of_the_slow_programme(name: str) -> None:
    case, expected = CASES[name]["input"], CASES[name]["expected"]
    found, place = Distances(read(case), case["cap"]), case["index"]
    ranks = range(1, len(expected["omega"]) + 1)
    assert [found.to_be_as_low(place, rank) for rank in ranks] == expected["omega"]
    assert [found.to_be_as_high(place, rank) for rank in ranks] == expected["omega_minus"]


RATIO = tree(
    ["*", ["-", 1, ["/", "p", "n"]], ["-", ["/", "q1", "q2"], ["/", "r1", "r2"]]], ["p", "n", "q1", "q2", "r1", "r2"]
)
Row = tuple[int, int]  # which predicate it satisfies, and its value up to 20


def distances(rows: Sequence[Row], predicates: int, most: int) -> Distances:
    """Of (1 - p / n) * (sum / count - the same without p), of a value up to 20."""
    n, total = Fraction(len(rows)), Fraction(sum(value for _, value in rows))
    own = []
    for predicate in range(predicates):
        inside = [value for one, value in rows if one == predicate]
        p, s = Fraction(len(inside)), Fraction(sum(inside))
        counts = [(p, 1), (n, 1), (total, 20), (n, 1), (total - s, 20), (n - p, 1)]
        own.append([Statistic(value, Fraction(change), Fraction(0)) for value, change in counts])
    return Distances(limits_of(RATIO, own), most)


def influence(rows: Sequence[Row], predicate: int) -> Fraction:
    inside = [value for one, value in rows if one == predicate]
    n, total, p, s = len(rows), sum(value for _, value in rows), len(inside), sum(inside)
    return (1 - Fraction(p, n)) * (Fraction(total, n) - Fraction(total - s, n - p))


def some_rows(rng: random.Random, predicates: int) -> list[Row]:
    return [(rng.randrange(predicates), rng.randrange(21)) for _ in range(rng.randrange(30, 60))]


def test_a_row_moves_every_distance_by_one_at_most() -> None:
    """150 tables and their neighbours, with a row less and a row more; five predicates, all ranks, both directions."""
    rng = random.Random(20261127)
    for _ in range(150):
        rows = some_rows(rng, 5)
        mine = distances(rows, 5, 40)
        for near in (rows[:-1], [*rows, (rng.randrange(5), rng.randrange(21))]):
            theirs = distances(near, 5, 40)
            for place in range(5):
                for rank in range(1, 6):
                    assert abs(mine.to_be_as_low(place, rank) - theirs.to_be_as_low(place, rank)) <= 1
                    assert abs(mine.to_be_as_high(place, rank) - theirs.to_be_as_high(place, rank)) <= 1


def test_the_own_rank_has_no_distance_and_further_ones_have_more() -> None:
    rng = random.Random(7)
    for _ in range(60):
        rows = some_rows(rng, 6)
        found, values = distances(rows, 6, 40), [influence(rows, one) for one in range(6)]
        for place, value in enumerate(values):
            first = 1 + sum(one > value for one in values)
            last = sum(one >= value for one in values)
            low = [found.to_be_as_low(place, rank) for rank in range(1, 7)]
            high = [found.to_be_as_high(place, rank) for rank in range(1, 7)]
            assert low == sorted(low) and high == sorted(high, reverse=True)
            assert set(low[:last]) == {0} and set(high[first - 1 :]) == {0}


def test_a_search_without_noise_gives_bounds_that_hold() -> None:
    """By the definition of the indicators: the rank lies between what both searches return."""
    rng = random.Random(11)
    for _ in range(60):
        rows = some_rows(rng, 9)
        found, values = distances(rows, 9, 40), [influence(rows, one) for one in range(9)]
        for place, value in enumerate(values):
            first, last = 1 + sum(one > value for one in values), sum(one >= value for one in values)
            upper = rank_bound(lambda t, p=place, own=found: own.to_be_as_low(p, t), 9, UPPER, 0)
            lower = rank_bound(lambda t, p=place, own=found: -own.to_be_as_high(p, t), 9, LOWER, 0)
            assert lower <= first <= last <= upper


def test_what_can_never_be_is_as_far_as_the_cap() -> None:
    found = Distances(lambda rows: [(0.0, 0.0), (5.0, 5.0)], 12)
    assert (found.to_be_as_high(0, 1), found.to_be_as_low(1, 2)) == (12, 12)
    assert (cap(10.2, 1.5), cap(-10.2, 1.5)) == (23, 23)
