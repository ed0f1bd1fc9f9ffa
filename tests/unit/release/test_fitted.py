"""Normalisation and global truncation as releases (release/fitted.py; numeric-release.md §10.1, §10.3).

Their numbers are held against the vectors in test_mwem_baselines.py; here a release gives those.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from pg_epsilon.errors import DPError
from pg_epsilon.mechanisms.mwem import LATTICE
from pg_epsilon.query.bounds import Lattice
from pg_epsilon.release import baselines, fitted
from pg_epsilon.release.algorithm2 import Algorithm2
from pg_epsilon.release.ask import Options
from pg_epsilon.release.fitted import Fitted, above, folded, told
from pg_epsilon.release.iterated import HEAD, histogram
from pg_epsilon.release.masses import Values
from pg_epsilon.release.predicates import Boxes
from pg_epsilon.release.recalled import recalled
from unit.release.test_iterated import cube, family

F = Fraction
ROWS = 1000
FOUR = F(4)
SIGNED = Values.of(Lattice("v", -3, 20, F(1), True), ROWS)
QUARTERS = Values.of(Lattice("v", 0, 79, F(1, 4), True), ROWS)
BELOW = Values.of(Lattice("v", -40, 0, F(1), True), ROWS)
AXES = (["110", "011", "101", "000"], ["11", "10", "01", "11"])
NAMES = ("normalisation", "global")
OWN: list[tuple[int, int | None]] = [
    *[(0, 5)] * 40,
    *[(1, -3)] * 30,
    (2, 20),
    (2, 0),
    (3, None),
    *[(4, 1)] * 25,
    (5, -1),
]


@dataclass
class Given:
    """Draws that are given: shifts of Laplace noise, the queries that are picked, where the bound stops."""

    shifts: list[int]
    picks: list[int]
    bound: int | None = None
    asked: list[tuple[str, Fraction, Fraction]] = field(default_factory=list)
    gaps: list[int] = field(default_factory=list)

    def laplace(self, exact: Sequence[int], *, l1_sensitivity: int, epsilon: Fraction, label: str) -> list[int]:
        self.asked.append((label, F(l1_sensitivity), F(epsilon)))
        return [one + self.shifts.pop(0) for one in exact]

    def select_in_runs(
        self, sizes: Sequence[int], scores: Sequence[int], *, sensitivity: int, epsilon: Fraction, label: str, name: Any
    ) -> int:
        self.asked.append((label, F(sensitivity), F(epsilon)))
        pick = self.picks.pop(0)
        return next(place for place in range(sum(sizes)) if name(place) == pick)

    def first_above(self, gaps: Sequence[int], **how: Any) -> int | None:
        self.gaps = list(gaps)
        self.asked.append((how["label"], F(how["sensitivity"]), how["threshold_epsilon"] + how["query_epsilon"]))
        return self.bound


def asked_of(name: str, *axes: Sequence[str], rounds: int | None = 3) -> Any:
    return replace(family(*(axes or AXES), options=Options(rounds)), mechanism=name)


def made(name: str, values: Values | None, epsilon: Fraction = FOUR, kappa: int = 1, rounds: int | None = 3) -> Fitted:
    return fitted.of_family(asked_of(name, rounds=rounds), values, epsilon, kappa, ROWS)


def text_of(values: Values | None, own: Sequence[tuple[int, int | None]] = OWN) -> str:
    records = [(place, 0, 1, 0) for place, _ in own] if values is None else cube(in_steps(values, own), values)
    return ";".join(" ".join(map(str, one)) for one in records)


def in_steps(values: Values, own: Sequence[tuple[int, int | None]]) -> list[tuple[int, int | None]]:
    """The rows as values inside the bounds, whole numbers."""
    ends = values.low * values.step, values.high * values.step
    return [(place, None if v is None else int(max(ends[0], min(ends[1], F(v))))) for place, v in own]


SHIFTS = [700_000, -1_500_000, 2_000_000, 900_000]


def source(bound: int | None = None) -> Any:
    """Some of the queries, in an order, each with a shift of its own."""
    return Given(list(SHIFTS), [2, 0, 3], bound)


@pytest.mark.parametrize("values", [None, SIGNED, BELOW])
@pytest.mark.parametrize(("name", "bound"), [("normalisation", None), ("global", 1), ("global", None)])
def test_answers_are_those_of_the_baselines(values: Values | None, name: str, bound: int | None) -> None:
    """Of the same draws; a release is its weights, and the answers are their sums."""
    how, asked = made(name, values), asked_of(name)
    raw = released(how, text_of(values), source(bound))
    base = how.own.algorithm.family
    scaled = baselines.normalised(base)
    if how.radius and how.steps is not None:
        scaled = baselines.truncated(base, how.steps.top if bound is None else how.steps.steps[bound])
    records = [tuple(map(int, one.split(" "))) for one in text_of(values).split(";")]
    masses = histogram(records, how.own)  # type: ignore[arg-type]
    algorithm = Algorithm2(scaled.family, how.own.algorithm.plan)
    mass, done, weights = algorithm.draw_rounds(masses, algorithm.truth(masses), source(), "x")
    expected = scaled.answers(weights.masses(algorithm.places), algorithm.places)
    found = fitted.rows(raw, how, asked, F(1, 20))
    assert [row[0] for row in found] == pytest.approx([expected[n] for n in asked.sets.of], abs=1e-3)
    assert {tuple(row[1:]) for row in found} == {(None, None, None, False)}
    assert (raw[0], raw[1]) == (mass, len(done)) == (len(OWN) * (1 << LATTICE) + SHIFTS[0], 3)
    assert found[3][0] == 0


def released(how: Fitted, text: str, noise: Any) -> list[int]:
    ((*raw,),) = how.release([[text]], noise, "x")
    assert len(raw) == how.released == HEAD + how.own.cells
    return raw


@pytest.mark.parametrize("values", [None, SIGNED, QUARTERS, BELOW])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kappa", [1, 4])
def test_what_is_drawn_is_what_is_charged(values: Values | None, name: str, kappa: int) -> None:
    how = made(name, values, kappa=kappa)
    noise = source()
    released(how, text_of(values), noise)
    assert sum(epsilon for _, _, epsilon in noise.asked) == 4 == sum(one.pure()[0] for one in how.charges())
    kinds = [one.kind for one in how.charges()]
    cuts = name == "global" and values is not None
    assert kinds == ["laplace", *(["above_threshold"] if cuts else []), "rounds"]
    assert ("x bound" in [label for label, _, _ in noise.asked]) == cuts
    moved = {label: one for label, one, _ in noise.asked if "pick" not in label}
    assert set(moved.values()) == {F(kappa << LATTICE)}


def test_a_count_has_nothing_to_cut() -> None:
    """The whole share of the bound goes into the rounds; so it does where a value is 0 or one step."""
    ones = Values.of(Lattice("v", -1, 1, F(1), True), ROWS)
    for values in (None, ones):
        plain, cut = (made(name, values).own.algorithm.plan for name in NAMES)
        assert plain == cut and made("global", values).radius == 0
    assert made("global", SIGNED).radius == F(4, 10)


def test_counts_of_the_bound_are_those_of_the_rows() -> None:
    """Of either sign, in classes that a query reads."""
    how = made("global", SIGNED)
    (first, *_), base = above(cube(OWN, SIGNED), how), how.own.algorithm.family
    seen = baselines.most_of_class(base)
    assert how.steps is not None
    exact = [sum(bool(v) and abs(v or 0) > step and bool(seen[c]) for c, v in OWN) for step in how.steps.steps[:-1]]
    assert above(cube(OWN, SIGNED), how) == exact and first == exact[0] > 0
    alone = fitted.of_family(asked_of("global", ["100"], ["11"], rounds=1), SIGNED, F(1), 1, ROWS)
    assert above(cube(OWN, SIGNED), alone)[-1] == 0 and exact[-1] == 1
    many = [(0, SIGNED.zero + 6, 10 * ROWS, 0)]
    assert above(many, how) == [ROWS] * 5


def test_which_classes_some_box_holds() -> None:
    rng = np.random.default_rng(3)
    for sizes in ((7,), (4, 5), (3, 2, 4)):
        for many in (0, 1, 3):
            low, high = (rng.integers(0, np.array(sizes) + 1, (many, len(sizes))) for _ in range(2))
            boxes, expected = Boxes(sizes, low, high), np.zeros(sizes, bool)
            for query in range(many):
                expected[boxes.where(query).classes] = True
            assert (boxes.seen == expected).all()


@pytest.mark.parametrize("more", [(0, 20), (0, 1), (1, -3), (2, 0), (3, None), (5, 7)])
def test_a_row_moves_the_counts_of_the_bound_one_way(more: tuple[int, int | None]) -> None:
    how = made("global", SIGNED)
    before, after = (above(cube(own, SIGNED), how) for own in (OWN, [*OWN, more]))
    assert {new - old for new, old in zip(after, before, strict=True)} <= {0, 1}


def test_what_lies_beyond_the_bound_is_moved_to_it() -> None:
    cells = np.array([[1, 2, 4, 8, 16, 32], [0, 0, 0, 0, 0, 7]], np.int64)
    values = [F(-4), F(-2), F(0), F(2), F(4), F(8)]
    found = folded(cells, values, F(2))
    assert found.tolist() == [[0, 3, 4, 56, 0, 0], [0, 0, 0, 7, 0, 0]]
    assert folded(cells, values, F(8)).tolist() == cells.tolist()


@pytest.mark.parametrize("name", NAMES)
def test_a_query_is_answered_again_from_what_is_stored(name: str) -> None:
    how, asked = made(name, SIGNED), asked_of(name)
    raw = np.array(released(how, text_of(SIGNED), source(1)), np.int64)
    facts = {**fitted.description(how, asked), "fitted": name}
    first = fitted.rows(raw.tolist(), how, asked, F(1, 20))[0]
    bits = np.outer([True, True, False], [True, True])
    found = recalled(facts, raw, bits, 0.05)
    assert found.answer == pytest.approx(first[0]) and not found.below_resolution
    assert np.isnan([found.low, found.high]).all()


def test_what_is_told() -> None:
    how, asked = made("global", SIGNED, rounds=None), asked_of("global")
    facts, words = told(how, asked, None)
    assert facts == {"classes": 6, "cells": 60, "candidates": 8, "rounds": "at most 8"}
    assert "4 queries from 60 weights of 6 classes; 8 candidates, at most 8 rounds; no error bars" in words
    facts, words = told(how, asked, [100 << LATTICE, 5, 2, *[0] * 60])
    assert (facts["rounds"], facts["rows"], facts["bound"]) == (5, 100, 4)
    assert "5 rounds over about 100 rows; values are cut at 4; no error bars" in words
    plain, words = told(made("normalisation", SIGNED), asked, [100 << LATTICE, 5, -1, *[0] * 60])
    assert "bound" not in plain and "cut" not in words


@pytest.mark.parametrize(
    ("axes", "values", "rounds", "words"),
    [
        (["000"], None, None, "no query of the grid"),
        (["110"], Values.of(Lattice("v", 0, 0, F(1), True), ROWS), None, "all values are 0"),
        (["110"], QUARTERS, 2, "at most 1 rounds"),
        (["1" * 500_000], QUARTERS, None, "weights"),
    ],
)
@pytest.mark.parametrize("name", NAMES)
def test_families_that_are_refused(
    name: str, axes: list[str], values: Values | None, rounds: int | None, words: str
) -> None:
    with pytest.raises(DPError) as refused:
        fitted.of_family(asked_of(name, axes, rounds=rounds), values, F(1), 1, ROWS)
    assert refused.value.sqlstate == "DP005" and words in refused.value.message and refused.value.hint


def test_a_small_bound_has_less_noise() -> None:
    """Without a shift of the number of rows and with all of one query measured: that of a sum is its bound's."""
    asked = replace(family(["1"], options=Options(1)), mechanism="global")
    own: list[tuple[int, int | None]] = [(0, 1)] * 200
    off = []
    for name in NAMES:
        how = fitted.of_family(replace(asked, mechanism=name), SIGNED, F(4), 1, ROWS)
        raw = released(how, text_of(SIGNED, own), Given([0, 40 << LATTICE], [0], 0))
        off.append(abs(fitted.rows(raw, how, asked, F(1, 20))[0][0] - 200))
    assert off[1] < off[0] / 4
