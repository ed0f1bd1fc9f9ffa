"""Algorithm 2 with given draws (numeric-release.md §0.0, §4, §5): rounds, released data,
thresholds, answers, bars.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from mwem_cases import PLACES, UNIT, Given, algorithm_of, family_of, fraction, masses_of, rows_of, without_extra
from release_vectors import cases, same

from pg_epsilon.mechanisms import mwem
from pg_epsilon.mechanisms.mwem import LATTICE, Array, Measured, Setting
from pg_epsilon.release.candidates import Family
from pg_epsilon.release.truncation import Answers, Rounding, alpha_paper, answer_all, error_bound

F = Fraction
RELEASES, ANSWERS = cases("release"), cases("answers")
THRESHOLDS, ALPHAS, BOUNDS = cases("thresholds"), cases("alpha"), cases("bound")
NEAR = 2.0 ** (1 - LATTICE)  # what two answers on the lattice may be off, each rounded down
ROUNDING = Rounding(PLACES, 1000)


def paper(family: Family, masses: Array, alpha: float) -> Answers:
    return answer_all(family, masses, F(alpha), ROUNDING, profile="paper")


def largest(case: dict[str, Any], f: list[float], sign: int) -> float:
    """Delta_w(D) of one sign, of clamped rows."""
    limit = case["bound"] if sign > 0 else case.get("bound_negative", 0)
    return max((f[c] * min(sign * g, limit) for c, g in case["rows"]), default=0.0)


def judged(case: dict[str, Any], family: Family, found: Answers, alpha: float, alpha_raw: float) -> list[Any]:
    """The answers in the vectors' form, each with its truth and its bound."""
    out = []
    for q, f in enumerate(case["predicates"]):
        low, high = case.get("bound_negative", 0), case["bound"]
        truth = sum(f[c] * max(-low, min(high, g)) for c, g in case["rows"])
        binary = all(x in (0, 1) for x in f)
        bound = sum(
            error_bound(case["decomposition"], binary, alpha, max(0.0, largest(case, f, sign)), case.get("b", 1.0))
            for sign in (1, -1)[: len(family.measure.ladders)]
        )
        slack = case.get("slack", True)
        out.append(
            {
                "answer": found.answer[q],
                "thr": found.thresholds[q].tolist(),
                "low": found.low[q] if slack else None,
                "high": found.high[q] if slack else None,
                "below_resolution": bool(found.below_resolution[q]),
                "truth": truth,
                "bound": bound if alpha >= alpha_raw else None,
            }
        )
    return out


@pytest.mark.parametrize("name", RELEASES)
def test_a_release_with_given_draws(name: str) -> None:
    case, expected = RELEASES[name]["input"], RELEASES[name]["expected"]
    family = family_of(case)
    algorithm = algorithm_of(case, family)
    histogram = masses_of(case, family)
    assert same(histogram[:-1] / 2**PLACES, expected["histogram"])
    truth = mwem.answers(family, histogram, PLACES)

    source = Given([case["noise"]["n"]])
    mass = algorithm.draw_mass(len(case["rows"]), source, "x") if case.get("share_n", 1) else len(case["rows"]) * UNIT
    rounds = algorithm.rounds(mass)
    setting = algorithm.setting(rounds)
    found = {
        "mass": mass / UNIT,
        "candidates": family.count,
        "k": algorithm.sensitivity,
        "T": rounds,
        "eps0": setting.eps0,
        "measure_scale": 2 * algorithm.sensitivity / setting.eps0,
        "alpha_scale": algorithm.sensitivity / algorithm.plan.shares.alpha,
    }
    assert same(found, {key: expected[key] for key in found})

    prior = without_extra(case.get("prior") or np.ones(len(expected["universe"])))
    weights = mwem.Weights(family, prior, mass / UNIT, setting.sweeps)
    iterates = []
    measured: list[Measured] = []
    for turn, pick in enumerate(expected["picks"]):
        iterates.append(weights.cells())
        errors = mwem.scores(truth, weights, PLACES) / UNIT
        if turn == 0:
            assert abs(errors - expected["first_scores"]).max() <= NEAR
        picked = [each.query for each in measured]
        check_pick(case, expected, errors, picked, setting)
        measured.append(Measured(pick, int(truth[pick]) + round(case["noise"]["measure"][turn] * UNIT)))
        assert family.label(pick)[2:] == (expected["picked"][turn][1], fraction(expected["picked"][turn][2]))
        weights.learn(measured[-1])
    assert same([each.value / UNIT for each in measured], expected["measured"])
    cells = np.mean(iterates, axis=0) if case.get("average") else weights.cells()
    assert same(cells[:-1], expected["cells"])
    check_answers(case, expected, family, truth, np.rint(cells * 2.0**PLACES).astype(np.int64))


def check_pick(
    case: dict[str, Any], expected: dict[str, Any], errors: Array, picked: list[int], setting: Setting
) -> None:
    """The key of the pick is the highest, with the draws of the case for all candidates; its
    probability.
    """
    turn, pick = len(picked), expected["picks"][len(picked)]
    keys = float(setting.eps0) * errors / (4 * setting.sensitivity)
    if "gumbel" in case["noise"]:
        drawn = keys + np.array(case["noise"]["gumbel"][turn])
        drawn[picked] = -np.inf
        assert drawn.argmax() == pick
    keys[picked] = -np.inf
    law = np.exp(keys - keys.max())
    assert law[pick] / law.sum() == pytest.approx(expected["probabilities"][turn], rel=1e-5)


def check_answers(case: dict[str, Any], expected: dict[str, Any], family: Family, truth: Array, masses: Array) -> None:
    alpha_raw = int(abs(mwem.answers(family, masses, PLACES) - truth).max()) / UNIT
    assert abs(alpha_raw - expected["alpha_raw"]) <= NEAR
    beta = 0.05 if case.get("slack", True) else None
    k = family.measure.sensitivity
    alpha = alpha_paper(alpha_raw + case["noise"]["alpha"], k, 0.1 * case["epsilon"], beta)
    assert abs(alpha - expected["alpha"]) <= NEAR
    alpha, alpha_raw = expected["alpha"], expected["alpha_raw"]
    assert same(judged(case, family, paper(family, masses, alpha), alpha, alpha_raw), expected["answers"])


@pytest.mark.parametrize("name", ANSWERS)
def test_answers_of_given_data(name: str) -> None:
    case, expected = ANSWERS[name]["input"], ANSWERS[name]["expected"]
    family = family_of(case)
    masses = np.rint(without_extra(case["released"]) * 2.0**PLACES).astype(np.int64)
    errors = family.evaluate(masses) - family.evaluate(masses_of(case, family))
    alpha_raw = float(abs(errors).max()) / 2**PLACES
    found = judged(case, family, paper(family, masses, case["alpha"]), case["alpha"], expected["alpha_raw"])
    assert same({"alpha_raw": alpha_raw, "answers": found}, expected)


@pytest.mark.parametrize("name", THRESHOLDS)
def test_threshold_of_one_query(name: str) -> None:
    case, expected = THRESHOLDS[name]["input"], THRESHOLDS[name]["expected"]
    rows = [[0, value] for value in case["values"]]
    values = {0, case["bound"], *case["values"]}
    made = {"decomposition": "none", "classes": 1, "predicates": [[1]], "bound": case["bound"], "rows": rows}
    family = family_of({**made, "cells": [[0, value] for value in values]})
    masses = masses_of(made, family)
    found = paper(family, masses, case["alpha"])
    columns = family.evaluate(masses) / 2**PLACES
    ours = {
        "counts": [value for value, column in zip(columns, family.columns, strict=True) if column.kind == "c"],
        "thr": found.thresholds[0, 0],
        "answer": found.answer[0],
        "low": found.low[0],
        "high": found.high[0],
        "truth": sum(value for _, value in rows_of(made)),
    }
    assert same(ours, expected)


@pytest.mark.parametrize("name", ALPHAS)
def test_alpha_of_the_paper(name: str) -> None:
    case = ALPHAS[name]["input"]
    beta = case.get("beta", 0.05) if case["slack"] else None
    found = alpha_paper(case["raw"] + case["noise"], case["k"], case["eps_a"], beta)
    assert same({"alpha": found}, ALPHAS[name]["expected"])


@pytest.mark.parametrize("name", BOUNDS)
def test_bound_of_an_error(name: str) -> None:
    case = BOUNDS[name]["input"]
    given = (case["decomposition"], case["predicates_01"], case["alpha"], case["delta_wd"], case["b"])
    assert same({"bound": error_bound(*given)}, BOUNDS[name]["expected"])


def test_a_threshold_is_exactly_where_few_are_left() -> None:
    """Counts are compared as integers: a count of alpha is few, one of 2^-PLACES more is not."""
    family = family_of(
        {"decomposition": "none", "classes": 1, "predicates": [[1]], "bound": 4, "cells": [[0, 0], [0, 4]]}
    )
    for more, thr in ((0, 0.0), (1, 4.0)):
        masses = np.array([0, (3 << PLACES) + more, 0])
        assert paper(family, masses, 3.0).thresholds.tolist() == [[thr]]
    assert math.isclose(answer_all(family, masses, F(3), ROUNDING, share=F(1, 2)).answer[0], 12)
