"""Picks and ranks by distances (dpxplain.md §7.2), and the ways in which they would be wrong (§10, E12)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from explain_rows import PREDICATES, Row, formula, influences, neighbours, some_rows

from pg_epsilon.explain.distance import Distances
from pg_epsilon.explain.formula import Formula
from pg_epsilon.explain.measure import Price
from pg_epsilon.explain.ranked import Ranked, drawn, rows
from pg_epsilon.explain.ranking import LOWER, UPPER, rank_bound
from pg_epsilon.explain.space import Listed
from pg_epsilon.noise import current

AVERAGES = formula("avg", "o1 / o2", 2, (0, 20))
SHARE = formula("count", "o1 / (o1 + o2)", 2, (0, 0))
# Of 400 rows, and in the order of the predicates: what makes the first group's share large comes first.
TABLE: list[Row] = [
    (group, predicate, 0)
    for predicate, numbers in enumerate([(150, 10), (60, 40), (40, 40), (10, 50)])
    for group, number in enumerate(numbers)
    for _ in range(number)
]
TEXTS = ("p0", "p1", "p2", "p3")


class Silent:
    """No noise; of equal scores the first one."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Any]] = []

    def select_in_runs(self, sizes: Sequence[int], scores: Sequence[int], **rest: Any) -> int:
        self.asked.append(("select", rest["sensitivity"]))
        best = max(range(len(scores)), key=lambda run: (scores[run], -run))
        return sum(sizes[:best])

    def laplace(self, exact: Sequence[int], **rest: Any) -> list[int]:
        self.asked.append(("laplace", rest["l1_sensitivity"]))
        return list(exact)

    def gaussian(self, exact: Sequence[int], **rest: Any) -> list[int]:
        self.asked.append(("gaussian", rest["l2_squared"]))
        return list(exact)


def measure(k: int, *, amount: str = "60", units: int = 1, rho: bool = False) -> Ranked:
    price = Price(Decimal(amount), Decimal(0), Decimal(amount), rho)
    return Ranked(Listed(TEXTS, TEXTS), SHARE, k, units, price, Fraction(19, 20))


@pytest.mark.parametrize("rho", [False, True])
def test_the_nearest_are_picked_and_their_ranks_are_held(rho: bool) -> None:
    noise: Any = Silent()
    raw = drawn(influences(TABLE, SHARE).limits, measure(2, rho=rho), noise, "x")
    assert raw[:2] == [0, 1]
    for place, low, high in zip(raw[:2], raw[2:4], raw[4:], strict=True):
        assert low <= place + 1 <= high
    assert (raw[2], raw[4]) == (1, 1)
    assert [row[0] for row in rows([3, 0, 2, 1, 4, 1], measure(2))] == ["p0", "p3"]


@pytest.mark.chance(160 * 1e-9)
@pytest.mark.parametrize("rho", [False, True])
def test_ranks_are_held_with_noise(rho: bool) -> None:
    """80 intervals of two laws, at budgets of which some search finds its rank and some does not."""
    limits, true, widths = influences(TABLE, SHARE).limits, [1, 2, 3, 4], set()
    for turn in range(20):
        how = replace(measure(4, amount=str(1 + 10 * turn), rho=rho), confidence=1 - Fraction(1, 10**9))
        raw = drawn(limits, how, current(), "x")
        assert sorted(raw[:4]) == [0, 1, 2, 3]
        for place, low, high in zip(raw[:4], raw[4:8], raw[8:], strict=True):
            assert low <= true[place] <= high
            widths.add(high - low)
    assert 3 in widths and len(widths) > 1


def test_noise_and_distances_are_of_all_rows_of_a_unit() -> None:
    """Three rows a unit: a selection of scores that come six apart, searches of indicators that move by three."""
    one, three = measure(2), measure(2, units=3)
    noise: Any = Silent()
    drawn(influences(TABLE, SHARE).limits, three, noise, "x")
    assert set(noise.asked) == {("select", 3), ("laplace", 3)}
    assert three.farthest == pytest.approx(3 * one.farthest, abs=3)
    assert all(three.caps[side] == pytest.approx(3 * one.caps[side], abs=30) for side in (LOWER, UPPER))
    assert [charge.kind for charge in three.charges()] == ["exponential", "exponential", "pure"]


def test_little_money_counts_rows_further_away() -> None:
    assert measure(1, amount="0.01").farthest > 1000 * measure(1).farthest
    assert measure(1, amount="0.01").work > measure(1).work


def bounds(table: Sequence[Row], place: int, lower: Callable[[Distances, int, int], int], most: int) -> tuple[int, int]:
    found = Distances(influences(table, SHARE).limits, most)
    low = rank_bound(lambda rank: lower(found, place, rank), PREDICATES, LOWER, 0)
    return low, rank_bound(lambda rank: found.to_be_as_low(place, rank), PREDICATES, UPPER, 0)


def test_lower_bounds_are_by_the_distance_upwards() -> None:
    sound = [bounds(TABLE, place, lambda d, p, t: -d.to_be_as_high(p, t), 20)[0] for place in range(PREDICATES)]
    assert sound[0] == 1 and sound[3] > 1


def test_a_lower_bound_of_the_other_sign_is_found() -> None:
    """The control: +ω⁻ is never negative, so that no lower bound is above 1."""
    assert {bounds(TABLE, place, lambda d, p, t: d.to_be_as_high(p, t), 20)[0] for place in range(PREDICATES)} == {1}


def test_picks_of_the_other_sign_are_seen() -> None:
    """The control: by +ω⁻ what is furthest from the first ranks is picked first."""
    scores = Distances(influences(TABLE, SHARE).limits, 60).all_to_be_as_high(1)
    assert scores.index(max(scores)) == 3


def test_the_printed_cap_is_caught() -> None:
    """The control: of "d >= C" (§10, E12) no indicator is 0 at the own rank, and upper bounds are below it."""

    class Printed(Distances):
        def _least(self, holds: Callable[[int], bool]) -> int:
            return next((rows for rows in range(20, 60) if holds(rows)), 60)

    found = Printed(influences(TABLE, SHARE).limits, 60)
    assert rank_bound(lambda rank: found.to_be_as_low(3, rank), PREDICATES, UPPER, 10) == 1


def pairs(how: Formula, tables: int) -> Iterator[tuple[Distances, Distances]]:
    """Some small tables and their neighbours."""
    rng = random.Random(77)
    for _ in range(tables):
        table = some_rows(rng, how, 60)
        mine = Distances(influences(table, how).limits, 30)
        for near in neighbours(rng, table, how):
            yield mine, Distances(influences(near, how).limits, 30)


def moved(indicator: Callable[[Distances, int, int], int], how: Formula = SHARE, tables: int = 60) -> int:
    """The most by which a row moves an indicator of some small tables."""
    every = [(place, rank) for place in range(PREDICATES) for rank in range(1, PREDICATES + 1)]
    return max(
        abs(indicator(mine, *one) - indicator(theirs, *one)) for mine, theirs in pairs(how, tables) for one in every
    )


def test_each_indicator_moves_by_one() -> None:
    assert moved(lambda found, place, rank: found.to_be_as_low(place, rank)) == 1
    assert moved(lambda found, place, rank: -found.to_be_as_high(place, rank)) == 1
    assert moved(lambda found, place, rank: found.to_be_as_high(place, rank), AVERAGES, 20) == 1


def test_both_indicators_in_one_are_caught() -> None:
    """The control: their sum moves by two (§7.2)."""
    assert moved(lambda d, place, rank: d.to_be_as_low(place, rank) - d.to_be_as_high(place, rank)) == 2


def test_sums_that_move_by_one_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: a row moves a sum by its value (§7.2, step 1)."""
    monkeypatch.setattr(Formula, "change", property(lambda how: 1))
    assert moved(lambda found, place, rank: found.to_be_as_high(place, rank), AVERAGES, 20) > 1


def test_scores_that_come_two_apart_are_seen() -> None:
    """The control: a row brings one predicate nearer and takes another one away, so that a selection as of scores that
    move together, with half of the sensitivity, would not hide it."""
    apart = 0
    for mine, theirs in pairs(SHARE, 60):
        both = zip(mine.all_to_be_as_high(1), theirs.all_to_be_as_high(1), strict=True)
        changes = [one - other for one, other in both]
        apart = max(apart, max(changes) - min(changes))
    assert apart == 2
