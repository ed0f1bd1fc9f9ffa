"""Multiplicative weights (numeric-release.md §0.0, §3): updates, replay, the law of a selection."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from mwem_cases import UNIT, Given, fraction
from mwem_dense import Dense
from release_vectors import cases, same

import fix_chance as chance
from pg_epsilon.mechanisms import mwem
from pg_epsilon.mechanisms.mwem import LATTICE, SCORE_BITS, Measured, Setting, Weights
from pg_epsilon.noise import current

F = Fraction
UPDATES, SELECTIONS = cases("update"), cases("selection")
PLACES = 40


@pytest.mark.parametrize("name", UPDATES)
def test_one_update(name: str) -> None:
    asked = UPDATES[name]["input"]
    weights = Weights(Dense([asked["query"]]), np.array(asked["cells"], float), asked["mass"], sweeps=0)
    weights.learn(Measured(0, asked["target"] * UNIT))
    assert same({"cells": weights.cells().tolist()}, UPDATES[name]["expected"])


def law(asked: dict[str, Any], sensitivity: int | None = None) -> list[float]:
    """What `noise.select_in_runs` promises for what it was asked, a candidate of each run."""
    epsilon, scores = asked["epsilon"], asked["scores"]
    exponents = [float(epsilon * score / (2 * (sensitivity or asked["sensitivity"]))) for score in scores]
    weights = [math.exp(each - max(exponents)) for each in exponents]
    total = sum(size * weight for size, weight in zip(asked["sizes"], weights, strict=True))
    return [weight / total for weight in weights]


def asked_of(scores: Sequence[float], picked: Sequence[int], eps0: Fraction, k: int) -> dict[str, Any]:
    """What a selection asks of the source, with the candidate of the highest score picked."""
    given = Given([], [sum(1 for place in range(len(scores)) if place not in picked) - 1])
    errors = np.array([math.floor(F(str(score)) * UNIT) for score in scores])
    mwem.select(errors, picked, Setting(eps0, k, PLACES), given, "x")  # type: ignore[arg-type]
    return given.asked[0]


@pytest.mark.parametrize("name", SELECTIONS)
def test_the_law_of_a_selection(name: str) -> None:
    """The reference floors in the same way and declares 65/64 of the sensitivity, this one all of
    it (§0.0).
    """
    case = SELECTIONS[name]["input"]
    scores, picked, k = case["scores"], case.get("picked", []), case["k"]
    asked = asked_of(scores, picked, fraction(case["eps0"]), k)
    assert asked["sensitivity"] == 64
    assert asked["epsilon"] == fraction(case["eps0"]) / 2
    for sensitivity, expected, off in ((65, "floored", 1e-12), (64, "exact", float(asked["epsilon"]) / 128)):
        by_score = dict(zip(asked["scores"], law(asked, sensitivity), strict=True))
        units = [math.floor(F(str(score)) * 64 / k) for score in scores]
        found = [0.0 if place in picked else by_score[unit] for place, unit in enumerate(units)]
        for ours, theirs in zip(found, SELECTIONS[name]["expected"][expected], strict=True):
            assert abs(ours - theirs) <= off * (2 if expected == "exact" else 1)


def test_a_selection_finds_the_candidate_that_its_place_in_the_runs_means() -> None:
    """Lower scores first; of one score the lower number first; picked ones in none."""
    errors = np.array([5, 1, 5, 9, 1, 5]) * UNIT
    setting = Setting(F(1), 1, PLACES)
    found = [mwem.select(errors, [2], setting, Given([], [place]), "x") for place in range(5)]  # type: ignore[arg-type]
    assert found == [1, 4, 0, 5, 3]


def test_scores_beyond_what_is_counted_are_sorted() -> None:
    errors = np.array([3, 1 << 40, 3, 1 << 41]) * UNIT
    setting = Setting(F(1), 1, PLACES)
    given = [Given([], [place]) for place in range(4)]
    assert [mwem.select(errors, [], setting, each, "x") for each in given] == [0, 2, 1, 3]  # type: ignore[arg-type]
    assert given[0].asked[0]["scores"] == [3 * 64, 64 << 40, 64 << 41]


DRAWS = 2000


@pytest.mark.chance(chance.hoeffding(DRAWS, 0.07))
def test_drawn_selections_follow_the_law() -> None:
    errors = np.array([0, 10, 30]) * UNIT
    setting = Setting(F(1, 5), 1, PLACES)
    drawn = [mwem.select(errors, [], setting, current(), "x") for _ in range(DRAWS)]
    expected = math.exp(1.5) / (1 + math.exp(0.5) + math.exp(1.5))
    assert abs(drawn.count(2) / DRAWS - expected) < 0.07


def test_three_quarters_of_the_sensitivity_are_caught() -> None:
    """Scores floored to ¾ k, not to a part of k, move by 1.5 k (§0.0)."""
    k = 4
    coarse = 3 * k * UNIT // 4
    before = np.arange(0, 3 * coarse, UNIT // 8)
    moved = ((before + k * UNIT) // coarse - before // coarse) * coarse
    fine = mwem.floored(before + k * UNIT, k) - mwem.floored(before, k)
    assert moved.max() == 1.5 * k * UNIT
    assert fine.max() == 1 << SCORE_BITS


ROWS = [[1, 1, 0, 0, 0], [0, 1, 0.5, 0, 0], [0, 0, 1, 1, 0], [0.25, 0.25, 0, 1, 0], [1, 0, 0, 0, 0]]


def some_weights(measured: Sequence[Measured], sweeps: int) -> Weights:
    return mwem.replay(Dense(ROWS), np.ones(5), 100 * UNIT, measured, sweeps)


def test_the_same_integers_give_the_same_weights() -> None:
    """Step by step or at once: to the last bit."""
    measured = [Measured(1, 60 * UNIT), Measured(0, 5 * UNIT + 1), Measured(3, -7 * UNIT)]
    step_by_step = some_weights([], 50)
    for each in measured:
        step_by_step.learn(each)
    assert np.array_equal(step_by_step.flat, some_weights(measured, 50).flat)
    assert step_by_step.masses(PLACES).sum() == pytest.approx(100 << PLACES, abs=5)


def test_replay_fits_all_measurements_and_one_update_does_not() -> None:
    rng = np.random.default_rng(1)
    truth = np.array([10, 25, 40, 20, 5])
    measured = [Measured(q, int(np.array(ROWS[q]) @ truth * UNIT)) for q in rng.permutation(5).tolist()]
    found = [some_weights(measured, sweeps).cells() for sweeps in (0, 400)]
    errors = [abs(np.array(ROWS) @ (cells - truth)).max() for cells in found]
    assert errors[0] > 4 > 0.5 > errors[1]


def test_weights_come_back_from_beyond_the_range_of_doubles() -> None:
    """A measurement far outside [0, mass] moves weights by thousands of powers of e, the next one
    back.
    """
    measured = [Measured(0, -(10**5) * UNIT), Measured(4, 10**3 * UNIT), Measured(2, 10 * UNIT)]
    weights = some_weights(measured, 20)
    assert np.isfinite(weights.cells()).all()
    assert weights.cells().sum() == pytest.approx(100)


def test_a_picked_query_is_not_picked_again_and_rounds_end_with_the_queries() -> None:
    truth = np.array([40, 30, 20, 10, 5]) * UNIT
    weights = some_weights([], 5)
    done = mwem.run(weights, truth, 9, Setting(F(1), 1, LATTICE, 5), current(), "x")
    assert sorted(each.query for each in done) == list(range(5))
    assert np.array_equal(weights.flat, some_weights(done, 5).flat)


def test_what_a_round_asks_of_the_source() -> None:
    """Half of eps0 for each draw; a measurement of k on the lattice."""
    given = Given([2.5], [4])
    truth = np.array([40, 30, 20, 10, 5]) * UNIT
    found = mwem.one_round(some_weights([], 5), truth, [], Setting(F(1, 3), 12, LATTICE), given, "x")  # type: ignore[arg-type]
    pick, measurement = given.asked
    assert (pick["epsilon"], pick["sensitivity"]) == (F(1, 6), 64)
    assert (measurement["epsilon"], measurement["l1_sensitivity"]) == (F(1, 6), 12 * UNIT)
    assert found.value == int(truth[found.query]) + round(2.5 * UNIT)
