"""Composition on split masses (release/singly.py; numeric-release.md §10.2)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

import fix_chance
from pg_epsilon.accounting.charges import Charge
from pg_epsilon.errors import DPError
from pg_epsilon.noise import Noise
from pg_epsilon.query.bounds import Lattice
from pg_epsilon.release.baselines import quantile_scores
from pg_epsilon.release.masses import Values
from pg_epsilon.release.sets import Masks, Sets
from pg_epsilon.release.singly import MOST_MASS, Draw, Singly, added_up, answers, cut, drawn, of_family, scores

F, THREE = Fraction, Fraction(3)
ROWS = 1000
SIGNED = Values.of(Lattice("v", -3, 20, F(1), True), ROWS)
QUARTERS = Values.of(Lattice("v", 0, 79, F(1, 4), True), ROWS)
SETS = (("110", "11"), ("011", "10"), ("000", "11"))
Row = tuple[int, int | None]  # class, integer of the value's lattice


def singly(values: Values | None, sets: Any = SETS, epsilon: Fraction = THREE, kappa: int = 1) -> Singly:
    share = epsilon / (len(sets) * (1 if values is None else 2))
    return Singly((3, 2), sets, epsilon, Draw(values, share, kappa, ROWS))


def cube(rows: Sequence[Row], values: Values | None) -> list[tuple[int, int, int, int]]:
    """What the statement would say of rows, each by itself."""
    if values is None:
        return [(place, 0, 1, 0) for place, _ in rows]
    found = []
    for place, number in rows:
        if number is None:
            found.append((place, -1, 1, 0))
            continue
        own = values.positive if number > 0 else values.negative
        size = abs(number) * values.step
        if not number or own is None:
            found.append((place, values.zero, 1, 0))
            continue
        step = own.place(size) or 0
        upper, lower = own.steps[step], own.steps[step - 1] if step else F(0)
        part = values.zero + (1 + step if number > 0 else -1 - step)
        found.append((place, part, 1, int((size - lower) / (upper - lower) * values.whole)))
    return found


def some_rows(seed: int, many: int, low: int, high: int) -> list[Row]:
    draw = random.Random(seed)
    return [(draw.randrange(6), draw.choice([None, *range(low, high + 1)])) for _ in range(many)]


def truth(rows: Sequence[Row], masks: Sequence[str], step: Fraction, most: Fraction | None = None) -> Fraction:
    """The sum of |value|s cut at `most`, of the rows above 0; or of all values as they are."""
    found = F(0)
    for place, number in rows:
        if number is not None and masks[0][place // 2] == masks[1][place % 2] == "1":
            value = number * step
            found += value if most is None else min(max(value, F(0)), most)
    return found


def test_sums_cut_at_a_step_are_those_of_the_rows() -> None:
    rows = some_rows(1, 60, 0, 79)
    how = singly(QUARTERS)
    for masks, (own,) in zip(SETS, added_up(cube(rows, QUARTERS), how), strict=True):
        for place, step in enumerate(how.draw.positive, 1):
            found = F(cut(own, place), how.draw.whole) * step
            exact = truth(rows, masks, F(1, 4), step)
            assert exact - (len(rows) + 1) * step / how.draw.whole <= found <= exact


def test_the_signs_are_apart() -> None:
    rows: list[Row] = [(0, 5), (0, -3), (1, -1), (2, 0), (2, None), (4, 7)]
    how = singly(SIGNED)
    first, second, third = added_up(cube(rows, SIGNED), how)
    one = how.draw.whole
    assert [list(map(int, one)) for one in how.draw.sides] == [[1, 2, 4, 8, 16, 32], [1, 2, 4]]
    assert first == [[0, 0, one * 3 // 4, one // 4, 0, 0], [one, one // 2, one // 2]]
    assert second == [[0, 0, one // 4, one * 3 // 4, 0, 0], [0, 0, 0]]
    assert third == [[0] * 6, [0] * 3]


def test_masses_beyond_the_bits_of_an_int64_are_added_up() -> None:
    how = singly(SIGNED, (("111", "11"),))
    ((above, _),) = added_up([(place, SIGNED.zero + 1, 2**18, 2**58) for place in range(6)], how)
    assert above[0] == 6 * 2**58
    ((above, _),) = added_up([(place, SIGNED.zero + 1, 2**62, 2**62) for place in range(6)], how)
    assert above[0] == MOST_MASS


def neighbours(masses: list[int], whole: int) -> list[list[int]]:
    """One row more: of a step, or split between two."""
    found = []
    for place in range(len(masses)):
        for split in (0, 1, whole // 3, whole):
            more = list(masses)
            more[place] += split
            if place:
                more[place - 1] += whole - split
            found.append(more)
    return found


@pytest.mark.parametrize("seed", range(20))
def test_a_row_moves_scores_and_sums_by_its_mass_at_most(seed: int) -> None:
    draw, whole = random.Random(seed), 8
    masses = [draw.choice([0, 1, 7, 8, 40, 200]) for _ in range(5)]
    few = draw.choice([8, 24, 80, 800])
    for more in neighbours(masses, whole):
        moved = [abs(a - b) for a, b in zip(scores(masses, few), scores(more, few), strict=True)]
        assert max(moved) <= whole
        assert all(0 <= cut(more, place) - cut(masses, place) <= whole for place in range(1, 6))


@pytest.mark.parametrize("seed", range(10))
def test_scores_are_the_papers_at_the_steps(seed: int) -> None:
    """Of every step but 0, of which nothing is asked (`scores`)."""
    draw = random.Random(seed)
    masses, k = [draw.randrange(30) for _ in range(5)], draw.randrange(1, 40)
    runs = quantile_scores([(F(2**i), mass) for i, mass in enumerate(masses)], 16, k)
    by_value = [score for size, score in zip(runs.sizes, runs.scores, strict=True) for _ in range(size)]
    assert scores(masses, k + 1)[1:] == [by_value[2**i] for i in range(5)]


def test_some_step_always_has_the_best_score() -> None:
    for masses in ([0] * 5, [1] * 5, [100, 0, 0, 0, 3], [0, 0, 0, 0, 900]):
        for few in (1, 5, 50, 500):
            assert max(scores(masses, few)) == 0


class Recorded:
    """Draws without noise: the best step."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Fraction, Fraction]] = []

    def select(self, own: Sequence[int], *, sensitivity: int, epsilon: Fraction, label: str) -> int:
        self.asked.append((label, F(sensitivity), F(epsilon)))
        return max(range(len(own)), key=lambda place: (own[place], -place))

    def laplace(self, exact: Sequence[int], *, l1_sensitivity: int, epsilon: Fraction, label: str) -> list[int]:
        self.asked.append((label, F(l1_sensitivity), F(epsilon)))
        return list(exact)


@pytest.mark.parametrize("values", [None, QUARTERS, SIGNED])
@pytest.mark.parametrize("kappa", [1, 4])
def test_what_is_drawn_costs_epsilon(values: Values | None, kappa: int) -> None:
    """Both signs have their thresholds by one draw, and their sums by another one: no more than that is paid."""
    how, noise = singly(values, kappa=kappa), Recorded()
    rows = some_rows(3, 400, -3 if values is SIGNED else 0, 20)
    drawn(added_up(cube(rows, values), how), how.draw, noise, "f")  # type: ignore[arg-type]
    assert {moved for _, moved, _ in noise.asked} == {F(kappa * how.draw.whole)}
    assert sum(epsilon for _, _, epsilon in noise.asked) <= how.epsilon == F(3)
    kind = "parts" if values is None else "rounds"
    assert how.charges() == (Charge.of(kind, epsilon=3, **{kind: len(how.sets)}),)


def released(how: Singly, rows: Sequence[Row], noise: Any) -> list[int]:
    found = drawn(added_up(cube(rows, how.draw.values), how), how.draw, noise, "f")
    assert len(found) == how.released
    return found


def test_without_noise_answers_are_the_sums_that_are_cut() -> None:
    rows: list[Row] = [*[(0, 4)] * 300, (0, 79), (0, 79)]
    how = singly(QUARTERS, (("111", "11"), ("001", "11")), F(100))
    full, empty = answers(released(how, rows, Recorded()), how.draw, 1e-6)
    assert full.answer == pytest.approx(300 + 2 * 1) and not full.below_resolution
    assert full.low <= 300 + 2 * 79 / 4 <= full.high
    assert (empty.answer, empty.low, empty.below_resolution) == (0, 0, True) and empty.high > 0


def family(*masks: Sequence[str]) -> Any:
    sets = Sets.of_masks([Masks(tuple(one), tuple(range(len(one)))) for one in masks])
    sizes = [SimpleNamespace(size=len(one[0])) for one in masks]
    return SimpleNamespace(sets=sets, axes=sizes, delta=Fraction(0))


def test_what_no_row_can_be_in_costs_nothing() -> None:
    """A query without a class has the answer 0: the shares are of the others."""
    how = of_family(family(["110", "000", "011"], ["11", "11", "11"]), QUARTERS, F(4), 2, ROWS)
    assert how.sets == (("011", "11"), ("110", "11")) and how.sizes == (3, 2)
    assert how.draw == Draw(QUARTERS, F(1), 2, ROWS) and how.released == 4
    assert of_family(family(["110"]), None, F(4), 1, ROWS).draw.share == 4


@pytest.mark.parametrize(
    ("given", "values", "words"),
    [
        (family(["000"]), None, "no query of the grid"),
        (family(["110"]), Values.of(Lattice("v", 0, 0, F(1), True), ROWS), "all values are 0"),
        (family([f"{n:010b}" for n in range(1, 1_002)]), None, "1001 queries by themselves"),
    ],
)
def test_families_that_are_refused(given: Any, values: Values | None, words: str) -> None:
    with pytest.raises(DPError) as refused:
        of_family(given, values, F(1), 1, ROWS)
    assert refused.value.sqlstate == "DP005" and words in refused.value.message and refused.value.hint


RUNS, MISS = 40, 1e-9


@pytest.mark.chance(fix_chance.union(*[3 * MISS] * (3 * RUNS)))
@pytest.mark.parametrize("values", [None, QUARTERS, SIGNED])
def test_bars_hold_the_truth(values: Values | None) -> None:
    """Of sets with many rows, with few, and of none; values cut or not."""
    low = -3 if values is SIGNED else 0
    for run in range(RUNS):
        rows = some_rows(run, 30 * run, low, 20 if values is SIGNED else 79)
        how = singly(values, epsilon=F(1 + run % 7 * 5))
        found = answers(released(how, rows, Noise()), how.draw, MISS)
        for masks, one in zip(SETS, found, strict=True):
            if values is None:
                exact = F(sum(masks[0][p // 2] == masks[1][p % 2] == "1" for p, _ in rows))
            else:
                exact = truth(rows, masks, values.step)
            assert one.low <= exact <= one.high
            assert one.low <= one.answer <= one.high


def test_bars_are_wider_for_less_epsilon_and_for_more_queries() -> None:
    def width(epsilon: int, sets: int, miss: float = 0.05) -> float:
        masks = tuple((f"{number:03b}", "11") for number in range(1, 1 + sets))
        how = singly(QUARTERS, masks, F(epsilon))
        one = answers([5, 100 * how.draw.whole, *[0] * (how.released - 2)], how.draw, miss)[0]
        return one.high - one.low

    assert all(a > b for a, b in pairwise([width(1, 1), width(2, 1), width(4, 1)]))
    assert width(1, 2) > width(1, 1) and width(1, 1, 0.01) > width(1, 1)
