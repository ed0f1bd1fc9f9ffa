"""Candidates of a family (numeric-release.md §0.0, §5, §6, §7): order, sums, how far a row moves
them.
"""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from mwem_cases import family_of
from mwem_dense import Weight, matrix, on_lattice
from release_vectors import cases, same

from pg_epsilon.mechanisms import mwem
from pg_epsilon.mechanisms.mwem import LATTICE
from pg_epsilon.release.candidates import MASS_BITS, Family, histogram
from pg_epsilon.release.decompose import Measure
from pg_epsilon.release.predicates import Boxes, Weighted

F = Fraction
SENSITIVITIES = cases("sensitivity")
PLACES = 30


def boxes(sizes: tuple[int, ...], seed: int, queries: int = 6) -> tuple[Boxes, Weight]:
    rng = np.random.default_rng(seed)
    low = np.stack([rng.integers(0, size, queries) for size in sizes], axis=1)
    high = np.stack([rng.integers(0, size + 1, queries) for size in sizes], axis=1)  # some are empty
    high[0] = sizes
    low[0] = 0

    def f(query: int, place: int) -> Fraction:
        at = np.unravel_index(place, sizes)
        return F(all(lo <= x < hi for lo, x, hi in zip(low[query], at, high[query], strict=True)))

    return Boxes(sizes, low, high), f


def weighted(classes: int, seed: int, queries: int = 5) -> tuple[Weighted, Weight]:
    rng = np.random.default_rng(seed)
    dense = [[F(int(rng.integers(0, 4)), 3) for _ in range(classes)] for _ in range(queries)]
    dense[-1] = [F(0)] * classes
    rows = [{c: f for c, f in enumerate(row) if f} for row in dense]
    return Weighted((classes,), rows), lambda query, place: dense[query][place]


MEASURES = {
    "split": Measure("split", F(13), base=F(1, 2)),
    "split, signed": Measure("split", F(8), F(3)),
    "bits": Measure("bits", F(13)),
    "bits, signed": Measure("bits", F(13), F(9, 2)),
    "none": Measure("none", F(5), F(2), values=tuple(F(y) for y in range(-2, 6))),
}
PREDICATES: dict[str, Any] = {
    "one attribute": boxes((5,), 1),
    "two attributes": boxes((3, 4), 2),
    "three attributes": boxes((2, 3, 2), 3),
    "fractions": weighted(4, 4),
}


def masses_at_random(family: Family, seed: int) -> Any:
    """Up to 2^62 in all: what 62 bits can hold, less what rounding needs."""
    rng = np.random.default_rng(seed)
    most = (1 << 61) // family.prior.size
    return rng.integers(0, most, family.prior.size)


@pytest.mark.parametrize("predicates", PREDICATES)
@pytest.mark.parametrize("measure", MEASURES)
def test_structured_sums_are_those_of_the_matrix(measure: str, predicates: str) -> None:
    """To a unit below for each class, of masses that fill 62 bits, so that nothing overflows."""
    own, f = PREDICATES[predicates]
    family = Family(MEASURES[measure], own)
    masses = masses_at_random(family, 5)
    exact = on_lattice(matrix(family, f)) @ masses.astype(object)
    found = family.evaluate(masses)
    assert len(found) == family.count == family.predicates.queries * len(family.columns)
    for ours, theirs in zip(found.tolist(), exact.tolist(), strict=True):
        assert 0 <= F(theirs, 1 << LATTICE) - ours < family.classes


@pytest.mark.parametrize("predicates", PREDICATES)
@pytest.mark.parametrize("measure", MEASURES)
def test_sums_beyond_62_bits_are_their_end(measure: str, predicates: str) -> None:
    """More rows than anybody declared: no answer wraps around, so that a row more moves it as it
    always does.
    """
    own, f = PREDICATES[predicates]
    family = Family(MEASURES[measure], own)
    end = 1 << MASS_BITS
    rng = np.random.default_rng(7)
    masses = np.where(rng.random(family.prior.size) < 0.5, end, rng.integers(0, end, family.prior.size))
    exact = on_lattice(matrix(family, f)) @ masses.astype(object)
    above = 0
    for ours, theirs in zip(family.evaluate(masses).tolist(), exact.tolist(), strict=True):
        expected = F(theirs, 1 << LATTICE)
        above += expected > end
        assert ours == end or 0 <= expected - ours < family.classes
        assert ours < end or expected >= end - family.classes
    assert above


@pytest.mark.parametrize("predicates", PREDICATES)
@pytest.mark.parametrize("measure", MEASURES)
def test_where_a_candidate_is_not_zero(measure: str, predicates: str) -> None:
    own, f = PREDICATES[predicates]
    family = Family(MEASURES[measure], own)
    dense = on_lattice(matrix(family, f)).astype(float) / (1 << LATTICE)
    for candidate in range(family.count):
        grid = np.zeros(family.shape)
        index, values = family.support(candidate)
        grid[index] = values + np.zeros_like(grid[index])
        assert np.array_equal(np.append(grid.ravel(), 0), dense[candidate])


@pytest.mark.parametrize("predicates", PREDICATES)
@pytest.mark.parametrize("measure", MEASURES)
def test_the_largest_value_of_a_query_is_that_of_its_cells(measure: str, predicates: str) -> None:
    own, f = PREDICATES[predicates]
    tops = [F(2 + 3 * (place % 4)) for place in range(np.prod(own.sizes))]
    for family in (Family(MEASURES[measure], own), Family(MEASURES[measure], own, tops)):
        cells = family.measure.cells
        there = [(p, y) for p in range(family.classes) for i, y in enumerate(cells) if family.present[p, i]]
        for query, (side, ladder) in itertools.product(range(own.queries), enumerate(family.measure.ladders)):
            most = max(f(query, place) * (-y if side else y) for place, y in there)
            place = ladder.place(most)
            assert family.top_places[query, side] == (-1 if place is None else place)


def test_cells_end_at_the_step_that_reaches_a_class_s_own_bound() -> None:
    family = Family(MEASURES["split"], boxes((3,), 1)[0], tops=[F(13), F(0), F(5, 2)])
    cells = np.array([float(y) for y in family.measure.cells])
    assert [float(cells[there].max()) for there in family.present] == [16, 0, 4]
    assert family.cells == int(family.present.sum()) + 1


def test_order_of_candidates() -> None:
    """Query by query, sign by sign, counts before values."""
    family = Family(Measure("split", F(2), F(1)), weighted(2, 1, 2)[0])
    first = [(1, "c", 0), (1, "c", 1), (1, "l", 1), (1, "l", 2), (-1, "c", 0), (-1, "l", 1)]
    assert [tuple(family.label(i)) for i in range(family.count)] == [(q, *each) for q in (0, 1) for each in first]


def test_exact_says_whether_a_value_is_rounded() -> None:
    halves = Weighted((1,), [{0: F(1, 2)}])
    assert all(Family(measure, PREDICATES["one attribute"][0]).exact for measure in MEASURES.values())
    assert Family(MEASURES["split"], halves).exact
    assert not Family(MEASURES["split"], PREDICATES["fractions"][0]).exact
    assert not Family(Measure("split", F(2) ** 22), PREDICATES["one attribute"][0]).exact


@pytest.mark.parametrize("name", SENSITIVITIES)
def test_how_far_a_row_moves_candidates(name: str) -> None:
    """By all rows of the domain, one by one."""
    asked = SENSITIVITIES[name]["input"]
    family = family_of(asked)
    domain = [(c, F(str(g))) for c in range(asked["classes"]) for g in asked["values"]]
    moves = np.array([family.evaluate(histogram(family, [row], PLACES)) for row in domain]) / 2**PLACES
    found = {
        "add_remove": moves.max(),
        "replace_one": max(abs(x - y).max() for x, y in itertools.combinations(moves, 2)),
        "declared_k": family.measure.sensitivity,
        "l1_add_remove": moves.sum(axis=1).max(),
        "candidates": family.count,
    }
    assert same(found, SENSITIVITIES[name]["expected"])


@pytest.mark.parametrize("predicates", PREDICATES)
@pytest.mark.parametrize("measure", MEASURES)
def test_rounded_answers_and_scores_move_by_no_more_than_is_declared(measure: str, predicates: str) -> None:
    own, _ = PREDICATES[predicates]
    family = Family(MEASURES[measure], own)
    k = family.measure.sensitivity
    rng = np.random.default_rng(6)
    before = rng.integers(0, 1 << PLACES + 3, family.prior.size)
    other = rng.integers(0, (k + 1) * 50 << LATTICE, family.count)
    for place in range(family.classes):
        for value in family.measure.values or (F(1, 3), F(3), F(13, 3), F(7), F(-3), F(11)):
            row = histogram(family, [(place, value)], PLACES)
            one, two = (mwem.answers(family, masses, PLACES) for masses in (before, before + row))
            assert abs(two - one).max() <= k << LATTICE
            units = [mwem.floored(abs(truth - other), k) for truth in (one, two)]
            assert abs(units[1] - units[0]).max() <= 1 << mwem.SCORE_BITS
