"""What releases are compared with (numeric-release.md §9, §10), with given draws; the private
radius.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from mwem_cases import PLACES, UNIT, family_of, fraction, masses_of, rows_of, without_extra
from release_vectors import cases, same

import fix_chance as chance
from pg_epsilon.mechanisms import mwem
from pg_epsilon.mechanisms.mwem import Measured
from pg_epsilon.noise import current
from pg_epsilon.release import baselines
from pg_epsilon.release.algorithm2 import Algorithm2, Plan
from pg_epsilon.release.baselines import Scaled
from pg_epsilon.release.decompose import Measure
from pg_epsilon.release.ladder import Ladder, ladder
from pg_epsilon.release.radius import FACTOR_PAPER, private_radius

F = Fraction
RADII, QUANTILES = cases("radius"), cases("quantile")
NORMALISED, GLOBAL = cases("normalisation"), cases("global_truncation")
COMPOSED, ZERO, MERGED = cases("composition"), cases("zero"), cases("merge")


@dataclass
class Comparisons:
    """A source of AboveThreshold with given draws, whose signs are those of a count compared with a
    threshold.
    """

    threshold: float
    counts: Sequence[float]

    def first_above(self, gaps: Sequence[int], **asked: Any) -> int | None:
        assert asked["threshold_epsilon"] == asked["query_epsilon"]
        assert asked["sensitivity"] == UNIT
        pairs = enumerate(zip(gaps, self.counts, strict=False))
        return next((i for i, (gap, z) in pairs if gap / UNIT - z >= -self.threshold), None)


def radius_of(maxima: Sequence[float], steps: Ladder, epsilon: Fraction, beta: float, source: Any) -> Fraction:
    counts = [sum(x > step for x in maxima) for step in steps.steps[:-1]]
    return private_radius(counts, steps, epsilon, source, "x", beta=fraction(beta), factor=FACTOR_PAPER)


@pytest.mark.parametrize("name", RADII)
def test_private_radius_of_a_case(name: str) -> None:
    case = RADII[name]["input"]
    steps = Ladder(fraction(case["b"]), case["cap"] + 1)
    source = Comparisons(case["threshold"], case["counts"])
    found = radius_of(case["maxima"], steps, fraction(case["eps_r"]), case["beta"], source)
    assert same({"radius": found}, RADII[name]["expected"])


RUNS, RARE = 6, F(1, 10**6)


@pytest.mark.chance(chance.union(*[chance.laplace_sum(2, 2 * math.log(2 / RARE))] * RUNS))
def test_a_radius_stops_where_no_row_is_above() -> None:
    """The margin is (4 / epsilon) ln(2 / beta), the scale of each draw 2 / epsilon."""
    counts = [10**6] * 5 + [0] * 5
    for _ in range(RUNS):
        assert private_radius(counts, ladder(1024), F(1), current(), "x", beta=RARE) == 32


def scaled_release(case: dict[str, Any], expected: dict[str, Any], scaled: Scaled, epsilon: Fraction) -> dict[str, Any]:
    """Multiplicative weights over scaled queries with the case's draws and the expected picks,
    which are checked.
    """
    share = fraction(case.get("share_n", 0.02)) * fraction(case["epsilon"])
    shares = baselines.Shares(share, F(0), epsilon)
    plan = Plan(shares, max_rows=1000, rounds=case["T"], sweeps=case["sweeps"], places=PLACES)
    algorithm = Algorithm2(scaled.family, plan)
    mass = max(1.0, len(case["rows"]) + case["noise"]["n"]) * scaled.family.measure.tuples
    setting = algorithm.setting(algorithm.rounds(round(mass * UNIT)))
    weights = mwem.Weights(scaled.family, without_extra(scaled.family.prior[:-1]), mass, case["sweeps"])
    truth = algorithm.truth(masses_of(case, scaled.family))
    measured: list[Measured] = []
    for turn, pick in enumerate(expected["picks"]):
        keys = float(setting.eps0) * mwem.scores(truth, weights, PLACES) / UNIT / (4 * setting.sensitivity)
        keys += np.array(case["noise"]["gumbel"][turn])
        keys[[each.query for each in measured]] = -np.inf
        assert keys.argmax() == pick
        measured.append(Measured(pick, int(truth[pick]) + round(case["noise"]["measure"][turn] * UNIT)))
        weights.learn(measured[-1])
    return {
        "answers": scaled.answers(weights.masses(PLACES), PLACES),
        "truth": truth_of(case),
        "picks": expected["picks"],
        "measured": [each.value / UNIT for each in measured],
        "cells": weights.cells()[:-1],
    }


def truth_of(case: dict[str, Any]) -> list[float]:
    return [sum(f[c] * min(case["bound"], g) for c, g in case["rows"]) for f in case["predicates"]]


@pytest.mark.parametrize("name", NORMALISED)
def test_normalisation_of_a_case(name: str) -> None:
    case, expected = NORMALISED[name]["input"], NORMALISED[name]["expected"]
    shares = baselines.without_alpha(fraction(case["epsilon"]), fraction(0.02))
    found = scaled_release(case, expected, baselines.normalised(family_of(case)), shares.rounds)
    assert same(found, expected)


@pytest.mark.parametrize("name", GLOBAL)
def test_global_truncation_of_a_case(name: str) -> None:
    case, expected = GLOBAL[name]["input"], GLOBAL[name]["expected"]
    family, epsilon = family_of(case), fraction(case["epsilon"])
    most = baselines.most_of_class(family)
    maxima = [float(most[c or 0] * abs(g)) for c, g in rows_of(case)]
    source = Comparisons(case["noise"]["threshold"], case["noise"]["counts"])
    radius = radius_of(maxima, ladder(case["bound"]), baselines.SHARE_RADIUS * epsilon, 0.05, source)
    shares = baselines.without_alpha(epsilon, fraction(0.02), baselines.SHARE_RADIUS)
    found = scaled_release(case, expected, baselines.truncated(family, radius), shares.rounds)
    assert same({"radius": radius, **found}, expected)


def test_scaled_queries_of_fractions_and_signs() -> None:
    """Each by its own largest weight and each sign by its own largest value: on the private data,
    the truth.
    """
    case = {
        "decomposition": "split",
        "classes": 2,
        "predicates": [[0.5, 0.25], [0, 1], [0, 0]],
        "bound": 8,
        "bound_negative": 3,
        "rows": [[0, 7], [1, -3], [1, 5], [0, -1]],
    }
    family = family_of(case)
    masses = masses_of(case, family, 40)
    for scaled in (baselines.normalised(family), baselines.truncated(family, F(8))):
        assert scaled.answers(masses, 40).tolist() == pytest.approx([3.5, 2.0, 0.0], abs=1e-4)
    assert baselines.normalised(family).factors.tolist() == [[4, 2], [8, 4], [8, 4]]


def test_a_whole_normalisation_spends_what_it_says() -> None:
    """With production noise, at an epsilon so large that the fit is what the sweeps leave."""
    case = {"decomposition": "split", "classes": 2, "predicates": [[1, 0], [0, 1]], "bound": 4}
    rows = [[0, 4]] * 30 + [[1, 1]] * 20
    family = family_of(case)
    plan = Plan(baselines.without_alpha(F(900), F(2, 100)), max_rows=100, rounds=2, sweeps=200, places=40)
    masses = masses_of({**case, "rows": rows}, family, 40)
    found = baselines.answer_scaled(baselines.normalised(family), plan, masses, current(), "x")
    assert found.tolist() == pytest.approx([120, 20], abs=3)


@pytest.mark.parametrize("name", QUANTILES)
def test_law_of_a_quantile(name: str) -> None:
    case = QUANTILES[name]["input"]
    epsilon = fraction(case["eps"])
    k = baselines.few_above(case["bound"], epsilon, fraction(case["beta"]))
    runs = baselines.quantile_scores([(F(v), 1) for v in case["values"]], case["bound"], k)
    scores = [score for size, score in zip(runs.sizes, runs.scores, strict=True) for _ in range(size)]
    weights = [math.exp(float(epsilon) * score / 2) for score in scores]
    found = {"k": k, "probabilities": [weight / sum(weights) for weight in weights]}
    assert same(found, QUANTILES[name]["expected"])


def test_runs_of_a_quantile_are_the_scores_of_all_thresholds() -> None:
    """Also of values between two thresholds; a row more moves no score by more than 1."""
    rng = np.random.default_rng(1)
    for k in (0, 1, 5):
        values = [(F(int(x), 4), int(n)) for x, n in zip(rng.integers(0, 80, 6), rng.integers(1, 4, 6), strict=True)]

        def all_scores(own: list[tuple[Fraction, int]], k: int = k) -> list[int]:
            runs = baselines.quantile_scores(own, 20, k)
            return [score for size, score in zip(runs.sizes, runs.scores, strict=True) for _ in range(size)]

        one_by_one = [
            -max(
                sum(n for v, n in values if v > y) - k - 1,
                k + 1 - sum(n for v, n in values if v >= y),
                0,
            )
            for y in range(21)
        ]
        assert all_scores(values) == one_by_one
        for more in (F(0), F(7, 4), F(20)):
            moved = zip(all_scores([*values, (more, 1)]), one_by_one, strict=True)
            assert max(abs(new - old) for new, old in moved) <= 1


@dataclass
class Chosen:
    """A source that picks given thresholds and adds given draws."""

    thresholds: list[int]
    shifts: list[float]
    scales: list[float]

    def select_in_runs(self, sizes: Sequence[int], scores: Sequence[int], **asked: Any) -> int:
        return self.thresholds.pop(0)

    def laplace(self, exact: Sequence[int], **asked: Any) -> list[int]:
        self.scales.append(float(asked["l1_sensitivity"] / asked["epsilon"]) / UNIT)
        return [value + round(self.shifts.pop(0) * UNIT) for value in exact]


@pytest.mark.parametrize("name", COMPOSED)
def test_composition_of_a_case(name: str) -> None:
    case, expected = COMPOSED[name]["input"], COMPOSED[name]["expected"]
    values = [[(fraction(f[c]) * fraction(g), 1) for c, g in case["rows"]] for f in case["predicates"]]
    drawn = zip(case["thresholds"], case["noise"]["sums"], strict=True)
    source = Chosen(list(case["thresholds"]), [z for thr, z in drawn if thr], [])
    found = baselines.composition(
        values,
        case["bound"],
        fraction(case["epsilon"]),
        source,
        "x",
        delta=fraction(case["delta"]),  # type: ignore[arg-type]
    )
    scales = [each.scale for each in found]
    assert scales == [0.0 if thr == 0 else source.scales.pop(0) for thr in case["thresholds"]]
    ours = {"eps_query": F(case["epsilon"]) / len(values), "scales": scales, "answers": [each.answer for each in found]}
    assert same(ours, expected)


@pytest.mark.parametrize("name", ZERO)
def test_zero_of_a_case(name: str) -> None:
    case = ZERO[name]["input"]
    found = {"answers": baselines.zero(family_of(case)), "truth": truth_of(case)}
    assert same(found, ZERO[name]["expected"])


def test_merging_is_not_served() -> None:
    """§0.0 leaves lossless merging (§6.3) out until somebody asks for it: one vector stays without
    a mechanism.
    """
    assert list(MERGED) == ["merge"]
    assert not hasattr(Measure, "merged")
