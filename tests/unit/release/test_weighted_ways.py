"""Weights of classes in mechanisms that draw for the queries of a grid (release/iterated.py, singly.py, fitted.py).

numeric-release.md §0.0, §6, §10: w(class, y) = f(class) y with f from 0 to 1.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

import fix_chance
from pg_epsilon.errors import DPError
from pg_epsilon.mechanisms.mwem import LATTICE
from pg_epsilon.noise import Noise
from pg_epsilon.query.bounds import Lattice
from pg_epsilon.release import algorithm2, baselines, fitted, iterated, singly
from pg_epsilon.release.algorithm2 import Algorithm2
from pg_epsilon.release.automatic import Grid, too_many
from pg_epsilon.release.iterated import histogram, predicates_of, weights_of
from pg_epsilon.release.masses import Values
from pg_epsilon.release.predicates import Weighted
from pg_epsilon.release.sets import Masks, Sets
from pg_epsilon.release.weights import Weights
from unit.release.test_fitted import AXES, OWN, asked_of, released, source, text_of
from unit.release.test_iterated import family

F = Fraction
ROWS = 1000
THIRD, TENTH = 1 / 3, 0.1  # no multiples of any 2^-k that is rounded to
FIRST = Weights((0,), ((0.5, 1.0, TENTH), (THIRD, 0.0, 1.0)), (0, 1, 0, 1))
BOTH = Weights((0, 1), ((0.5, 0.25, 1.0, 0.0, TENTH, 1.0), (0.0, 0.0, THIRD, 1.0, 0.0, 0.75)), (1, 0, 0, 1))
SIGNED = Values.of(Lattice("v", -3, 20, F(1), True), ROWS)
QUARTERS = Values.of(Lattice("v", 0, 79, F(1, 4), True), ROWS)
WEIGHTS = pytest.mark.parametrize("weights", [FIRST, BOTH])
MISS = F(1, 10**9)
# Four bars, and four numbers that are off by 25 scales of noise.
CHANCE = pytest.mark.chance(fix_chance.union(4e-9, fix_chance.beyond(25, 4)))
VALUES = pytest.mark.parametrize("values", [None, SIGNED, QUARTERS])


def weighted(asked: Any, weights: Weights) -> Any:
    return replace(asked, weights=weights)


def factor(weights: Weights, query: int, place: int) -> Fraction:
    """What a row of a class, of 3 times 2, counts in a query of AXES."""
    at = divmod(place, 2)
    if any(axis[query][own] == "0" for axis, own in zip(AXES, at, strict=True)):
        return F(0)
    number = 0
    for axis in weights.places:
        number = number * (3, 2)[axis] + at[axis]
    return F(weights.different[weights.of[query]][number])


def truth(weights: Weights, query: int, own: Sequence[tuple[int, int | None]], values: Values | None) -> Fraction:
    ends = None if values is None else (values.low * values.step, values.high * values.step)
    whole = F(0)
    for place, v in own:
        y = F(1) if ends is None else int(max(ends[0], min(ends[1], F(v)))) if v is not None else F(0)
        whole += factor(weights, query, place) * y
    return whole


def test_queries_are_different_by_masks_and_by_the_weights_of_what_they_read() -> None:
    masks = [Masks(("110", "001"), (0, 0, 1, 0, 1))]
    weights = Weights((0,), ((0.5, 1.0, 0.0), (0.5, 1.0, 0.25), (1.0, 0.5, 0.25)), (0, 1, 1, 2, 2))
    found = Sets.of_masks(masks, weights)
    assert found.different == (("001",), ("110",), ("110",))
    assert found.weights == ((0.25,), (0.5, 1.0), (1.0, 0.5)) and found.places == (0,)
    assert found.of == (1, 1, 0, 2, 0)  # the first two differ where neither reads, as do the third and the last
    assert found.widest == 1.25
    other = Sets.of_masks([Masks(("001", "110"), (0, 1, 1))], Weights((0,), weights.different, (1, 2, 0)))
    assert other.digest() == found.digest() and other.of == (0, 2, 1)
    assert found.digest() != Sets.of_masks(masks).digest()
    third = Weights((0,), ((0.5, 1.0, 0.0), (0.5, 0.75, 0.25), (1.0, 0.5, 0.25)), (0, 1, 1, 2, 2))
    assert Sets.of_masks(masks, third).digest() != found.digest()


def test_a_query_whose_weights_are_0_is_empty() -> None:
    masks = [Masks(("11", "00"), (0, 0, 1)), Masks(("1",), (0, 0, 0))]
    found = Sets.of_masks(masks, Weights((0,), ((0.0, 0.0), (0.0, 1.0)), (0, 1, 1)))
    assert [found.is_empty(number) for number in found.of] == [True, False, True]


def test_axes_without_a_weight_count_in_the_width() -> None:
    masks = [Masks(("110", "111"), (0, 1)), Masks(("11", "10"), (0, 1))]
    found = Sets.of_masks(masks, Weights((0,), ((0.5, 0.5, 1.0),), (0, 0)))
    assert found.widest == max(2 * (0.25 + 0.25), 1 * (0.25 + 0.25 + 1))


@WEIGHTS
def test_predicates_are_the_weights_exactly(weights: Weights) -> None:
    asked = weighted(family(*AXES), weights)
    found = predicates_of(asked)
    assert isinstance(found, Weighted)
    for query, number in enumerate(asked.sets.of):
        exact = {place: factor(weights, query, place) for place in range(6)}
        assert found.rows[number] == {place: f for place, f in exact.items() if f}


@WEIGHTS
def test_a_row_moves_each_candidate_by_its_mass_at_most(weights: Weights) -> None:
    """Of Algorithm 2, normalisation and global truncation at each bound; every class, values of all parts."""
    asked = weighted(family(*AXES), weights)
    how = iterated.of_family(asked, SIGNED, F(1), 1, ROWS)
    plain = how.algorithm.family
    families = [plain, baselines.normalised(plain).family]
    families += [
        replace(baselines.truncated(plain, radius).family, cap=radius) for radius in plain.measure.ladders[0].steps
    ]
    base = cells_of(OWN, how)
    for place, value in product(range(6), (-3, -2, 0, 1, 3, 11, 20, None)):
        more = cells_of([*OWN, (place, value)], how)
        for one in families:
            moved = one.evaluate(more) - one.evaluate(base)
            assert moved.min() >= 0 and moved.max() <= 1 << how.algorithm.places


def cells_of(own: Sequence[tuple[int, int | None]], how: iterated.Iterated) -> Any:
    records = [tuple(map(int, one.split(" "))) for one in text_of(how.values, own).split(";")]
    return histogram(records, how)  # type: ignore[arg-type]


@CHANCE
@WEIGHTS
@VALUES
def test_bars_of_algorithm_2_hold_without_noise(weights: Weights, values: Values | None) -> None:
    asked = weighted(family(*AXES, options=iterated.ask.Options(rounds=6)), weights)
    how = iterated.of_family(asked, values, F(600), 1, ROWS)
    ((*raw,),) = how.release([[text_of(values)]], Noise(), "x")
    for query, row in enumerate(iterated.rows(raw, how, asked, MISS)):
        assert row[2] <= truth(weights, query, OWN, values) <= row[3]


@WEIGHTS
@VALUES
@pytest.mark.parametrize(("name", "bound"), [("normalisation", None), ("global", 1), ("global", None)])
def test_fitted_answers_are_sums_of_the_weighted_table(
    weights: Weights, values: Values | None, name: str, bound: int | None
) -> None:
    """Of the same draws as the baseline's; the cut is of values, before they are weighed."""
    asked = weighted(asked_of(name), weights)
    how = fitted.of_family(asked, values, F(4), 1, ROWS)
    raw = released(how, text_of(values), source(bound))
    base, places = iterated.universe(asked, values, ROWS)
    scaled = baselines.normalised(base)
    if name == "global":
        radius = F(1) if how.steps is None else how.steps.steps[-1 if bound is None else bound]
        scaled = baselines.truncated(base, radius)
        scaled = replace(scaled, family=replace(scaled.family, cap=radius))
    algorithm = Algorithm2(scaled.family, how.own.algorithm.plan)
    masses = cells_of(OWN, how.own) if values is not None else histogram([(p, 0, 1, 0) for p, _ in OWN], how.own)
    _, _, made = algorithm.draw_rounds(masses, algorithm.truth(masses), source(), "x")
    expected = scaled.answers(made.masses(places), places)
    found = fitted.rows(raw, how, asked, F(1, 20))
    assert [row[0] for row in found] == pytest.approx([expected[n] for n in asked.sets.of], abs=1e-3)


@pytest.mark.parametrize("seed", range(20))
def test_weighed_masses_are_exact_and_move_by_their_mass(seed: int) -> None:
    draw = random.Random(seed)
    many = draw.choice([1, 6, 300])
    own = np.array([[draw.randrange(2 ** draw.choice([3, 40, 61])) for _ in range(3)] for _ in range(many)])
    weights = np.array([draw.choice([0, 1, draw.randrange(1 << LATTICE), 1 << LATTICE]) for _ in range(many)])
    found = singly.weighed(own, weights, LATTICE)
    exact = [sum(int(f) * int(m) for f, m in zip(weights, column, strict=True)) for column in own.T]
    assert found == [min(one >> LATTICE, singly.MOST_MASS) for one in exact]
    more = own.copy()
    place, mass = draw.randrange(many), draw.choice([1, 2**20 - 1, 2**30])
    more[place, 1] += mass
    moved = [after - before for after, before in zip(singly.weighed(more, weights, LATTICE), found, strict=True)]
    assert moved[0] == moved[2] == 0 <= moved[1] <= mass


def test_the_most_classes_with_the_largest_masses_leave_no_63_bits() -> None:
    own = np.full((4_000_000, 1), singly.MOST_MASS, np.int64)
    weights = np.full(4_000_000, 1 << LATTICE, np.int64)
    assert singly.weighed(own, weights, LATTICE) == [singly.MOST_MASS]
    few = np.full((4_000_000, 1), (1 << 21) - 1, np.int64)
    assert singly.weighed(few, weights, LATTICE) == [4_000_000 * ((1 << 21) - 1)]


@CHANCE
@WEIGHTS
@VALUES
def test_composition_at_a_large_epsilon_is_the_weighted_sum(weights: Weights, values: Values | None) -> None:
    asked = weighted(asked_of("composition"), weights)
    how = singly.of_family(asked, values, F(1000), 1, ROWS)
    ((*raw,),) = how.release([[text_of(values)]], Noise(), "x")
    assert len(raw) == how.released
    for query, row in enumerate(singly.rows(raw, how, asked, MISS)):
        true = float(truth(weights, query, OWN, values))
        assert row[2] - 1e-9 <= true <= row[3] + 1e-9
        assert row[0] == pytest.approx(true, abs=0.1 if values is None else 60)  # of values two rows are cut off


def test_a_count_by_composition_is_weighed_on_a_lattice() -> None:
    asked = weighted(asked_of("composition"), FIRST)
    how = singly.of_family(asked, None, F(3), 2, ROWS)
    assert how.draw.whole == 1 << LATTICE and how.draw.moved == 2 << LATTICE
    sums = singly.added_up([(place, 0, 1, 0) for place in range(6)], how)
    numbers = [n for n in range(len(asked.sets.different)) if not asked.sets.is_empty(n)]
    exact = [int(np.floor(weights_of(asked.sets, n) * 2.0**LATTICE).sum()) for n in numbers]
    assert [own for ((own,),) in sums] == exact


def test_weights_that_take_too_long_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = weighted(family(*AXES), BOTH)
    monkeypatch.setattr(algorithm2, "MOST_TABLE", 5)
    with pytest.raises(DPError, match="values of different weights, more than 5") as refused:
        iterated.of_family(asked, SIGNED, F(1), 1, ROWS)
    assert refused.value.sqlstate == "DP005" and "fewer different values" in (refused.value.hint or "")
    monkeypatch.undo()
    monkeypatch.setattr(algorithm2, "MOST_LISTED", 5)
    with pytest.raises(DPError, match="sums of classes with different weights, more than 5"):
        iterated.of_family(asked, SIGNED, F(1), 1, ROWS)
    monkeypatch.undo()
    monkeypatch.setattr(iterated, "MOST_WEIGHTS", 5)
    with pytest.raises(DPError, match="the queries read 8 classes in all, more than 5"):
        iterated.of_family(asked, SIGNED, F(1), 1, ROWS)


def test_auto_counts_the_squares_of_weights() -> None:
    masks = [Masks(("1100", "1111"), (0, 1, 1))]
    weights = Weights((0,), ((0.5, 0.5, 0.0, 1.0), (1.0, 1.0, 1.0, 1.0)), (0, 0, 1))
    assert Grid.of(masks, weights) == Grid(sets=3, widest=4.0, listed=10, weights=2)
    assert not too_many(Grid(3, 4.0, 10, 2), 20)
    assert too_many(Grid(1000, 4.0, 10**6, 2), 20)  # sums of classes
    assert too_many(Grid(1000, 4.0, 10**4, 1000), 40)  # values of weights
