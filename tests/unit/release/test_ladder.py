"""The ladder of a value (numeric-release.md §0.0, §6.1, §9): steps, thresholds, bits, the base of a resolution."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from release_vectors import cases, same

from pg_epsilon.release.ladder import Ladder, base_of, bits, ladder, set_bits

LADDERS = cases("ladder")


@pytest.mark.parametrize("name", LADDERS)
def test_ladder_of_a_case(name: str) -> None:
    asked: dict[str, Any] = LADDERS[name]["input"]
    bound, base = Fraction(asked["bound"]), Fraction(asked.get("b", 1))
    own = (bits if asked.get("decomposition") == "bits" else ladder)(bound, base)
    found = {
        "steps": own.steps,
        "count_thresholds": own.thresholds,
        "candidates": 2 * own.length * asked.get("queries", 1),
        "cells": (own.length + 1) * asked.get("classes", 1),
        "bits_k": set_bits(bound, base),
    }
    assert same(found, LADDERS[name]["expected"])


def test_every_value_lies_between_its_step_and_the_one_below() -> None:
    own = ladder(100, Fraction(1, 4))
    assert (own.top, own.length) == (128, 10)
    for value in map(Fraction, ("1/1000", "1/4", "251/1000", "1", "3/2", "2", "63", "64", "65", "100")):
        place = own.place(value)
        assert place is not None
        assert own.steps[place] == own.up(value) >= value > own.thresholds[place]


def test_values_off_the_ladder_go_to_its_ends() -> None:
    own = Ladder(Fraction(1), 4)
    assert [own.up(value) for value in (-1, 0, 8, 9)] == [0, 0, 8, 8]
    assert [own.place(value) for value in (-1, 0, 8, 9)] == [None, None, 3, 3]


def test_set_bits_are_the_most_of_any_value() -> None:
    for bound in range(1, 300):
        assert set_bits(bound) == max(value.bit_count() for value in range(bound + 1))


@pytest.mark.parametrize(
    ("resolution", "base"),
    [("1", "1"), ("2", "1"), ("0.01", "1/128"), ("0.25", "1/4"), ("1/3", "1/4"), ("0.5", "1/2")],
)
def test_base_is_the_largest_power_of_two_that_a_resolution_allows(resolution: str, base: str) -> None:
    assert base_of(Fraction(resolution)) == Fraction(base)
