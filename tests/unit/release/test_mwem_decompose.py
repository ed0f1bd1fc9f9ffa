"""What a row puts on the cells (numeric-release.md §0.0, §6.1, §6.2): masses, values, sums."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from release_vectors import cases, same

from pg_epsilon.release.decompose import Measure, bit_masses, on_lattice, split_masses
from pg_epsilon.release.ladder import bits, ladder

DECOMPOSED = cases("decompose")
F = Fraction


@pytest.mark.parametrize("name", DECOMPOSED)
def test_masses_of_a_case(name: str) -> None:
    asked: dict[str, Any] = DECOMPOSED[name]["input"]
    by_bits = asked["decomposition"] == "bits"
    steps = (bits if by_bits else ladder)(F(asked["bound"]), F(asked["b"]))
    # A value of few decimals was meant as that decimal: 1.01 is no double.
    masses = (bit_masses if by_bits else split_masses)(F(str(asked["g"])), steps)
    found = {
        "masses": [[y, masses[y]] for y in sorted(masses)],
        "total": sum(masses.values()),
        "value": sum(y * mass for y, mass in masses.items()),
    }
    assert same(found, DECOMPOSED[name]["expected"])


@pytest.mark.parametrize("decomposition", ["split", "bits"])
def test_masses_make_the_value_and_as_many_tuples_as_every_row(decomposition: Any) -> None:
    measure = Measure(decomposition, F(13), F(5), F(1, 4))
    for quarters in range(-24, 60):
        value = F(quarters, 4)
        masses = measure.masses(value)
        assert sum(y * mass for y, mass in masses.items()) == measure.clamped(value)
        assert sum(masses.values()) == measure.tuples
        assert set(masses) <= set(measure.cells)
        assert min(masses.values()) > 0


def test_a_split_value_off_the_grid_loses_nothing_and_bits_less_than_the_base() -> None:
    for value in (F(1, 3), F(7, 5), F(99, 10)):
        made = {
            kind: sum(y * mass for y, mass in Measure(kind, F(10)).masses(value).items())  # type: ignore[arg-type]
            for kind in ("split", "bits")
        }
        assert made["split"] == value
        assert 0 < value - made["bits"] < 1


def test_null_counts_as_zero_and_values_are_clamped() -> None:
    measure = Measure("split", F(8), F(4))
    assert measure.masses(None) == {F(0): 1}
    assert measure.masses(F(100)) == {F(8): 1}
    assert measure.masses(F(-100)) == {F(-4): 1}


@pytest.mark.parametrize(("value", "outer"), [(F(1, 3), F(1)), (F(-7, 3), F(-4))])
def test_masses_on_the_lattice_round_down_at_the_outer_step(value: Fraction, outer: Fraction) -> None:
    exact = Measure("split", F(8), F(8)).masses(value)
    made = on_lattice(exact, 20)
    assert sum(made.values()) == 1 << 20
    assert 0 < exact[outer] - F(made[outer], 1 << 20) < F(1, 1 << 20)
