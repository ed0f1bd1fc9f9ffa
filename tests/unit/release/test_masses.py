"""One unit of mass a row (numeric-release.md §6.2): steps of both signs, room, masses that add up to the value."""

from __future__ import annotations

from fractions import Fraction

import pytest
from release_vectors import cases, same

from fix_release import share, upper
from pg_epsilon.errors import DPError
from pg_epsilon.query.bounds import Lattice
from pg_epsilon.release.ladder import ladder
from pg_epsilon.release.masses import NAN, NULL, Points, Values

SPLIT = {name: one for name, one in cases("decompose").items() if one["input"]["decomposition"] == "split"}


def lattice(low: int, high: int, step: Fraction = Fraction(1), nan: str | None = None) -> Lattice:
    return Lattice("v", low, high, step, step == 1, nan=nan)


@pytest.mark.parametrize("name", SPLIT)
def test_shares_of_a_case(name: str) -> None:
    asked = SPLIT[name]["input"]
    g, own = Fraction(str(asked["g"])), ladder(Fraction(asked["bound"]), Fraction(asked.get("b", 1)))
    place, above = share(g, own)
    masses = {0.0: 1.0} if place is None else {own.thresholds[place]: 1 - above, own.steps[place]: above}
    found = {"masses": sorted([y, mass] for y, mass in masses.items() if mass), "total": 1, "value": g}
    assert same(found, SPLIT[name]["expected"])


@pytest.mark.parametrize(
    "values",
    [
        Values.of(lattice(0, 4356), 50_000),
        Values.of(lattice(-300, 700, Fraction(1, 100)), 10_000),
        Values.of(lattice(-5, -2, Fraction(5)), 10_000),
        Values.of(lattice(0, 2**40, Fraction(1, 3)), 2**30),
    ],
)
def test_masses_add_up_to_a_row_and_to_its_value(values: Values) -> None:
    some = (values.low, values.low // 3, -1, 0, 1, 2, 3, 5, values.high // 7, values.high)
    for v in (one for one in some if values.low <= one <= values.high):
        part, share = upper(values, v)
        masses = values.masses(part, 1, share)
        assert sum(mass for _, mass in masses) == values.whole
        assert all(mass >= 0 for _, mass in masses)
        value = sum(values.steps[cell] * mass for cell, mass in masses) / values.whole
        assert 0 <= abs(v * values.step) - abs(value) <= values.steps[-1] / values.whole + abs(values.steps[0])


def test_rows_without_a_value_have_cells_of_their_own() -> None:
    values = Values.of(lattice(-1, 1, nan="pg_catalog.float8"), 100)
    assert values.cells == len(values.steps) + 2
    assert values.masses(NULL, 3, 0) == ((len(values.steps), 3 * values.whole),)
    assert values.masses(NAN, 2, 0) == ((len(values.steps) + 1, 2 * values.whole),)


def test_mass_leaves_room_for_all_rows() -> None:
    assert Values.of(lattice(0, 10), 2**20).bits == 40
    assert Values.of(lattice(0, 10), 2**30).bits == 32
    assert Values.of(lattice(0, 10), 2**22 + 1).bits == 39


@pytest.mark.parametrize(("own", "rows"), [(lattice(0, 10), 2**43), (lattice(0, 2**60, Fraction(7, 3)), 100)])
def test_lattice_without_room_is_refused(own: Lattice, rows: int) -> None:
    with pytest.raises(DPError) as refused:
        Values.of(own, rows)
    assert refused.value.sqlstate == "DP005"


def test_points_have_a_cell_for_each_value() -> None:
    """NULL's and NaN's come last; a row is whole in one of them."""
    values = Points.of(Lattice("v", -2, 3, Fraction(1, 4), False, nan="pg_catalog.float8"), 1000)
    assert values.steps == tuple(Fraction(number, 4) for number in range(-2, 4))
    assert (values.zero, values.cells, values.steps[values.zero]) == (2, 8, 0)
    found = [values.masses(part, 3, 0) for part in (0, 5, NULL, NAN)]
    assert found == [((cell, 3 * values.whole),) for cell in (0, 5, 6, 7)]


def test_points_of_values_on_one_side_have_zero_too() -> None:
    assert Points.of(Lattice("v", 3, 4, Fraction(1), True), 10).steps == (0, 1, 2, 3, 4)
    assert Points.of(Lattice("v", -2, -1, Fraction(1), True), 10).steps == (-2, -1, 0)


def test_points_are_not_made_before_their_number_is_asked_for() -> None:
    assert Points.of(Lattice("v", 0, 2**40, Fraction(1), True), 10).cells == 2**40 + 2
