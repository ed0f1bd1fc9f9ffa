"""Algorithm 2 as a whole (numeric-release.md §0.0, §3): what it asks of the noise, what it releases, its limits."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from pg_epsilon.errors import OUT_OF_RANGE, DPError
from pg_epsilon.mechanisms.mwem import LATTICE
from pg_epsilon.noise import current
from pg_epsilon.release.algorithm2 import Algorithm2, Plan, checked_size, places_of
from pg_epsilon.release.candidates import Family, Row, histogram
from pg_epsilon.release.decompose import Measure
from pg_epsilon.release.predicates import Boxes, Weighted, predicates
from pg_epsilon.release.rounds import shares

F = Fraction
UNIT = 1 << LATTICE
PLACES = 40
MEASURE = Measure("split", F(8))
BITS = Measure("bits", F(7))
ROWS: list[Row] = [(0, F(3)), (1, F(5)), (1, F(0)), (None, F(8)), (None, F(0))]


class Asked:
    """A source without noise, that keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    def laplace(self, exact: Sequence[int], **asked: Any) -> list[int]:
        self.asked.append({**asked, "exact": list(exact)})
        return list(exact)

    def select_in_runs(self, sizes: Sequence[int], scores: Sequence[int], **asked: Any) -> int:
        self.asked.append(asked)
        return sum(sizes) - 1


def algorithm(measure: Measure = MEASURE, **given: Any) -> Algorithm2:
    plan = Plan(**{"shares": shares(F(1, 2)), "max_rows": 1000, "rounds": 3, "sweeps": 2, "places": PLACES, **given})
    return Algorithm2(Family(measure, predicates((2,), [[1, 0], [1, 1]])), plan)


@pytest.mark.parametrize(("measure", "kappa", "k"), [(MEASURE, 1, 1), (BITS, 1, 3), (BITS, 4, 12)])
def test_what_a_release_asks_for(measure: Measure, kappa: int, k: int) -> None:
    """The parts of epsilon add up to it; sensitivities are those of a unit's rows."""
    source = Asked()
    own = algorithm(measure, kappa=kappa)
    released = own.release(histogram(own.family, ROWS, PLACES), source, "x")  # type: ignore[arg-type]
    assert sum(asked["epsilon"] for asked in source.asked) == F(1, 2)
    assert [asked["label"] for asked in source.asked] == [
        "x scale",
        *(f"x round {turn} {draw}" for turn in (1, 2, 3) for draw in ("pick", "measurement")),
        "x error",
    ]
    moved = [asked["l1_sensitivity"] for asked in source.asked if "l1_sensitivity" in asked]
    assert moved == [kappa * UNIT, *[k * UNIT] * 4]
    assert released.mass == len(ROWS) * UNIT * measure.tuples
    assert len({each.query for each in released.measured}) == 3


def test_rows_outside_all_classes_count_and_no_query_sees_them() -> None:
    own = algorithm()
    masses = histogram(own.family, ROWS, PLACES)
    assert masses.sum() == len(ROWS) << PLACES
    assert masses[-1] == 2 << PLACES
    inside = histogram(own.family, [row for row in ROWS if row[0] is not None], PLACES)
    assert np.array_equal(own.family.evaluate(masses), own.family.evaluate(inside))


def test_a_declared_scale_is_not_bought() -> None:
    source = Asked()
    own = algorithm(scale=50, shares=shares(F(1, 2), F(0)))
    released = own.release(histogram(own.family, ROWS, PLACES), source, "x")  # type: ignore[arg-type]
    assert released.mass == 50 * UNIT
    assert source.asked[0]["label"] == "x round 1 pick"
    assert sum(asked["epsilon"] for asked in source.asked) == F(1, 2)


@pytest.mark.parametrize(("rows", "mass"), [(0, 1), (10**9, 1000)])
def test_a_scale_lies_between_one_row_and_the_most(rows: int, mass: int) -> None:
    assert algorithm().draw_mass(rows, Asked(), "x") == mass * UNIT  # type: ignore[arg-type]


@pytest.mark.parametrize("measure", [MEASURE, BITS])
def test_released_integers_give_the_released_data(measure: Measure) -> None:
    """Those on which alpha~ was asked, to the last unit; in all the mass, none below 0."""
    own = algorithm(measure, rounds=None)
    private = histogram(own.family, ROWS * 20, PLACES)
    mass, measured, weights = own.draw_rounds(private, own.truth(private), current(), "x")
    assert 1 <= len(measured) <= own.family.count
    again = own.weights(mass, measured).masses(PLACES)
    assert np.array_equal(again, weights.masses(PLACES))
    assert again.min() >= 0
    assert abs(int(again.sum()) - (mass << (PLACES - LATTICE))) <= len(again) + 2 ** (PLACES - 32)


def test_room_for_masses() -> None:
    """40 bits after the point up to 2^22 rows, as many as are left beyond, and at least the lattice's."""
    assert [places_of(rows) for rows in (0, 1, 2**22, 2**22 + 1, 2**42)] == [40, 40, 40, 39, 20]
    assert places_of(2**20, 5) == 39
    with pytest.raises(DPError, match="no room") as refused:
        places_of(2**42 + 1)
    assert refused.value.sqlstate == OUT_OF_RANGE


def boxes(*sizes: int, queries: int = 1) -> Boxes:
    ends = np.tile(np.array(sizes), (queries, 1))
    return Boxes(sizes, np.zeros_like(ends), ends)


@pytest.mark.parametrize(
    ("family", "what"),
    [
        (Family(MEASURE, boxes(2**11, 2**11)), "cells"),
        (Family(MEASURE, boxes(2, queries=500_001)), "candidates"),
        (Family(Measure("split", F(1)), Weighted((2001,), [dict.fromkeys(range(2001), F(1, 2))] * 2000)), "classes"),
    ],
)
def test_what_is_too_large_is_refused(family: Family, what: str) -> None:
    with pytest.raises(DPError, match=f"{what}.*more than") as refused:
        checked_size(family)
    assert refused.value.sqlstate == OUT_OF_RANGE
    assert refused.value.hint


def test_the_paper_s_own_sizes_are_not_refused() -> None:
    """Adult's gains: 32,395 boxes of 1,600 classes, values up to 99,999."""
    checked_size(Family(Measure("split", F(99_999)), boxes(100, 16, queries=32_395)))
