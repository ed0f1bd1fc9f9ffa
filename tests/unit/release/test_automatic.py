"""mechanism => 'auto' of a release: the rule of numeric-release.md §0.0, by public facts."""

from __future__ import annotations

from fractions import Fraction
from math import isclose

import pytest

from pg_epsilon.query.bounds import Lattice
from pg_epsilon.release.automatic import (
    Grid,
    resolution_of_cells,
    resolution_of_weights,
    too_many,
    universe_of,
    words,
)
from pg_epsilon.release.sets import Masks


def test_a_grid_counts_its_different_sets_and_the_classes_of_the_widest() -> None:
    ages = Masks(("1100", "1111", "0000"), (0, 1, 0, 2))
    wards = Masks(("10", "11"), (0, 1, 0, 1))
    assert Grid.of([ages, wards]) == Grid(sets=3, widest=8)
    gaps = Masks(("1010", "1111"), (0, 1))
    assert Grid.of([gaps]) == Grid(sets=2, widest=4, listed=6)  # one of them is no range: all are listed


@pytest.mark.parametrize(("epsilon", "kappa"), [(0.5, 1), (1, 1), (2, 5)])
def test_without_a_declared_size_1250_steps_of_classes_decide(epsilon: float, kappa: int) -> None:
    # 2 kappa / eps sqrt(2 K m) <= 100 kappa / eps
    assert isclose(resolution_of_cells(epsilon, kappa, 250, 5), resolution_of_weights(epsilon, kappa, 0))
    assert resolution_of_cells(epsilon, kappa, 251, 5) > resolution_of_weights(epsilon, kappa, 0)


@pytest.mark.parametrize(
    ("rows", "widest", "steps"),
    [(748, 50, 8), (45_211, 320, 18), (48_842, 2_240, 12)],
    ids=["Transfusion", "Bank", "Adult's losses"],
)
def test_cells_are_taken_where_the_specification_measured_them_nearer(rows: int, widest: int, steps: int) -> None:
    assert resolution_of_cells(1, 1, widest, steps) <= resolution_of_weights(1, 1, rows)


def test_a_family_that_algorithm_2_would_refuse_is_not_its() -> None:
    assert not too_many(Grid(sets=100_000, widest=9), 20)
    assert too_many(Grid(sets=100_000, widest=9), 21)  # two candidates for each set and step
    assert too_many(Grid(sets=2, widest=9, listed=4_000_001), 1)


def whole(low: int, high: int) -> Lattice:
    return Lattice("v", low, high, Fraction(1), True)


@pytest.mark.parametrize(
    ("lattice", "classes", "weights", "expected"),
    [
        (None, 10, 1, "split"),  # rows that are counted have two cells either way
        (whole(0, 997), 1000, 1, "none"),  # 10^6 cells, with those of NULL and NaN
        (whole(0, 998), 1000, 1, "split"),
        (whole(0, 4396), 100, 1, "none"),
        (whole(0, 4397), 228, 1, "split"),
        (whole(0, 5000), 1, 1, "split"),  # 28 candidates of each
        (whole(0, 50), 74, 170, "none"),
        (whole(0, 50), 74, 190, "split"),  # weights have a table each
        (whole(-50, 50), 74, 40, "none"),
        (whole(-50, 50), 74, 100, "split"),  # a sign has a ladder each
    ],
)
def test_few_values_have_a_cell_each(lattice: Lattice | None, classes: int, weights: int, expected: str) -> None:
    """numeric-release.md §0, "Universe by size"."""
    assert universe_of(lattice, classes, weights) == expected


def test_what_is_said() -> None:
    assert words(chosen=False, mechanism="alg2", sets=1) == []
    assert words(chosen=True, mechanism="cells", sets=2) == []
    (own,) = words(chosen=True, mechanism="alg2", sets=2)
    assert "by cells" in own
    (one,) = words(chosen=True, mechanism="cells", sets=1)
    assert "plain SQL" in one
