"""Distances of ranks in rows (dpxplain.md §7.2): cases V80 and V81, by definition, and on neighbours."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pg_epsilon.explain.arithmetic import Answer, Constant, Node, Operation
from pg_epsilon.explain.distance import Distances, Limits
from pg_epsilon.explain.images import Ends, image_of, integers
from pg_epsilon.explain.ranking import LOWER, UPPER, Budget, RankSearch, rank_bound

FILE = Path(__file__).resolve().parents[2] / "fixtures/explain/distances.json"
CASES: dict[str, dict[str, Any]] = {case["id"]: case for case in json.loads(FILE.read_text())["cases"]}


def tree(node: Any, names: Sequence[str]) -> Node:
    if isinstance(node, list):
        return Operation(node[0], tuple(tree(part, names) for part in node[1:]))
    return Answer(names.index(node)) if isinstance(node, str) else Constant(Fraction(node))


def read(case: dict[str, Any]) -> Limits:
    if "limits" in case:
        return lambda rows: Ends(*np.array(case["limits"][rows], dtype=float).T)
    names = list(case["statistics"][0])
    columns = [[one[name] for one in case["statistics"]] for name in names]
    return limits_of(
        tree(case["expression"], names),
        [([one["value"] for one in own], own[0]["c"], own[0].get("min"), own[0].get("max")) for own in columns],
    )


Statistic = tuple[Sequence[int], int, int | None, int | None]  # by predicate, change by a row, public range


def limits_of(influence: Node, statistics: Sequence[Statistic]) -> Limits:
    """The recipe of §7.2: interval arithmetic on what each statistic may be so many rows away."""
    image = image_of(influence, [False] * len(statistics))

    def limits(rows: int) -> Ends:
        box = []
        for values, change, low, high in statistics:
            own = np.array(values)
            ends = integers(own - rows * change, own + rows * change)
            box.append(ends.clipped(-np.inf if low is None else low, np.inf if high is None else high))
        with np.errstate(all="ignore"):
            return image(box)

    return limits


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
    n, total = len(rows), sum(value for _, value in rows)
    inside = [[value for one, value in rows if one == predicate] for predicate in range(predicates)]
    p, s = [len(own) for own in inside], [sum(own) for own in inside]
    many = [1] * predicates
    columns = [
        p,
        [n for _ in many],
        [total for _ in many],
        [n for _ in many],
        [total - x for x in s],
        [n - x for x in p],
    ]
    changes = [1, 1, 20, 1, 20, 1]
    own: list[Statistic] = [(column, change, 0, None) for column, change in zip(columns, changes, strict=True)]
    return Distances(limits_of(RATIO, own), most)


def influence(rows: Sequence[Row], predicate: int) -> Fraction:
    inside = [value for one, value in rows if one == predicate]
    n, total, p, s = len(rows), sum(value for _, value in rows), len(inside), sum(inside)
    return (1 - Fraction(p, n)) * (Fraction(total, n) - Fraction(total - s, n - p))


def some_rows(rng: random.Random, predicates: int) -> list[Row]:
    return [(rng.randrange(predicates), rng.randrange(21)) for _ in range(rng.randrange(30, 60))]


def test_a_row_moves_every_distance_by_one_at_most() -> None:
    """30 tables and their neighbours, with a row less and a row more; five predicates, all ranks, both directions."""
    rng = random.Random(20261127)
    for _ in range(30):
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
    for _ in range(25):
        rows = some_rows(rng, 6)
        found, values = distances(rows, 6, 40), [influence(rows, one) for one in range(6)]
        for place, value in enumerate(values):
            first = 1 + sum(one > value for one in values)
            last = sum(one >= value for one in values)
            low = [found.to_be_as_low(place, rank) for rank in range(1, 7)]
            high = [found.to_be_as_high(place, rank) for rank in range(1, 7)]
            assert low == sorted(low) and high == sorted(high, reverse=True)
            assert set(low[:last]) == {0} and set(high[first - 1 :]) == {0}
        for rank in range(1, 7):
            assert found.all_to_be_as_high(rank) == [found.to_be_as_high(place, rank) for place in range(6)]


def test_a_search_without_noise_gives_bounds_that_hold() -> None:
    """By the definition of the indicators: the rank lies between what both searches return."""
    rng = random.Random(11)
    for _ in range(25):
        rows = some_rows(rng, 9)
        found, values = distances(rows, 9, 40), [influence(rows, one) for one in range(9)]
        for place, value in enumerate(values):
            first, last = 1 + sum(one > value for one in values), sum(one >= value for one in values)
            upper = rank_bound(lambda t, p=place, own=found: own.to_be_as_low(p, t), 9, UPPER, 0)
            lower = rank_bound(lambda t, p=place, own=found: -own.to_be_as_high(p, t), 9, LOWER, 0)
            assert lower <= first <= last <= upper


def test_what_can_never_be_is_as_far_as_the_cap() -> None:
    found = Distances(lambda rows: Ends(np.array([0.0, 5.0]), np.array([0.0, 5.0])), 12)
    assert (found.to_be_as_high(0, 1), found.to_be_as_low(1, 2)) == (12, 12)
    assert found.all_to_be_as_high(1) == [12, 0]
    assert found.all_to_be_as_high(2) == [0, 0]


@pytest.mark.parametrize("budget", [Budget(None, Fraction(2)), Budget(Fraction(2), None)])
def test_a_cap_is_the_margin_and_eight_deviations(budget: Budget) -> None:
    """Of one of three picks among 200, with eight comparisons: nine tenths of a twenty-fourth of the budget."""
    search = RankSearch(200, 3, 1, budget, Fraction(19, 20))
    each, share = budget.part(Fraction(9, 10) / 24), Fraction(9, 10)
    assert search.cap(share) - 1 < search.margin(share) + 8 * each.deviation(1) <= search.cap(share)
    assert RankSearch(1, 3, 1, budget, Fraction(19, 20)).cap(share) == 0
