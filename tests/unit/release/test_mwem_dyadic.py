"""Sums over ranges from dyadic nodes (numeric-release.md §0.0, §8): covers, cases, how far a row
moves them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from mwem_cases import UNIT, fraction
from release_vectors import cases, same

from pg_epsilon.release import dyadic
from pg_epsilon.release.dyadic import Form, Parts
from pg_epsilon.release.ladder import Ladder, ladder

F = Fraction
DYADIC, SUMS = cases("dyadic"), cases("laplace_sum")


@dataclass
class Draws:
    """A source with given draws for each call, 0 where there are none; what it was asked for."""

    shifts: list[list[float]] = field(default_factory=list)
    asked: list[dict[str, Any]] = field(default_factory=list)
    exact: list[list[int]] = field(default_factory=list)

    def laplace(self, exact: Sequence[int], **asked: Any) -> list[int]:
        self.asked.append(asked)
        self.exact.append(list(exact))
        shifts = self.shifts.pop(0) if self.shifts else [0.0] * len(exact)
        return [value + round(z * UNIT) for value, z in zip(exact, shifts, strict=True)]


def draws_of(noise: Sequence[Sequence[Sequence[float]]]) -> list[float]:
    """A case's draws are [part][level][node]; ours come level by level, node by node, part by part."""
    levels = range(len(noise[0]))
    return [part[level][node] for level in levels for node in range(len(noise[0][level])) for part in noise]


@pytest.mark.parametrize("name", DYADIC)
def test_ranges_of_a_case(name: str) -> None:
    case, expected = DYADIC[name]["input"], DYADIC[name]["expected"]
    steps = ladder(fraction(case["bound"]), fraction(case.get("b", 1)))
    rows = [(c, fraction(g)) for c, g in case["rows"]]
    private = dyadic.parts(rows, case["classes"], steps, "paper")
    source = Draws([draws_of(case["noise"]["counts"]), draws_of(case["noise"]["sums"])])
    trees = dyadic.release(private, steps, case["levels"], fraction(case["epsilon"]), source, "x", form="paper")  # type: ignore[arg-type]
    found = [dyadic.answer(trees, (first, last), case["z"])._asdict() for first, last in case["ranges"]]
    assert same({"scale": trees.scale, "ranges": found}, expected)


@pytest.mark.parametrize("name", SUMS)
def test_margin_of_a_sum(name: str) -> None:
    case = SUMS[name]["input"]
    found = dyadic.laplace_sum_margin(case["scale"], case["terms"], case["beta"])
    assert same({"alpha": found}, SUMS[name]["expected"])


@pytest.mark.parametrize("levels", [1, 2, 4])
def test_a_cover_is_the_fewest_nodes(levels: int) -> None:
    """Each class of the range once, and no more nodes than any other way has (by dynamic
    programming).
    """
    for first, last in itertools.combinations_with_replacement(range(13), 2):
        nodes = dyadic.cover(first, last, levels)
        classes = [c for level, node in nodes for c in range(node << level, (node + 1) << level)]
        assert classes == list(range(first, last + 1))
        fewest = {first: 0}
        for end in range(first + 1, last + 2):
            sizes = [1 << h for h in range(levels) if end % (1 << h) == 0]
            fewest[end] = 1 + min(fewest.get(end - size, 99) for size in sizes)
        assert len(nodes) == fewest[last + 1]


def test_levels_are_those_with_the_least_mean_error() -> None:
    """Few classes: one level (§0.0); wide ranges of many: more."""
    every = list(itertools.combinations_with_replacement(range(64), 2))
    assert dyadic.best_levels(every, 64) == 1
    wide = [(0, 4095), (1, 4000)]
    mean = [levels * sum(math.sqrt(len(dyadic.cover(*each, levels))) for each in wide) for levels in range(1, 14)]
    assert dyadic.best_levels(wide, 4096) == 1 + mean.index(min(mean))


ROWS = [(0, F(1, 3)), (1, F(1)), (1, F(5, 2)), (2, F(7)), (2, F(0)), (4, F(-3)), (4, F(100)), (3, F(8))]


@pytest.mark.parametrize("form", ["pairs", "paper"])
def test_without_noise_ranges_are_the_sums(form: Form) -> None:
    """Values are clamped at the top, zero and negative ones count as none."""
    steps = Ladder(F(1), 4)
    trees = dyadic.release(dyadic.parts(ROWS, 5, steps, form), steps, 3, F(1), Draws(), "x", form=form)  # type: ignore[arg-type]
    for first, last in itertools.combinations_with_replacement(range(5), 2):
        truth = sum(max(F(0), min(F(8), g)) for c, g in ROWS if first <= c <= last)
        assert dyadic.answer(trees, (first, last), z=0.0).answer == pytest.approx(float(truth), abs=1e-4)


@pytest.mark.parametrize("form", ["pairs", "paper"])
def test_how_far_a_row_moves_the_nodes(form: Form) -> None:
    """No more than what the noise is made for, in each call; the calls' epsilons make the whole."""
    steps, levels = Ladder(F(1, 2), 5), 3
    for row in [(c, F(g, 7)) for c in range(5) for g in range(-3, 70)]:
        made = []
        for rows in (ROWS, [*ROWS, row]):
            source = Draws()
            private = dyadic.parts(rows, 5, steps, form)
            dyadic.release(private, steps, levels, F(1, 3), source, "x", form=form)  # type: ignore[arg-type]
            made.append(source)
        for before, after, asked in zip(made[0].exact, made[1].exact, made[0].asked, strict=True):
            assert sum(abs(x - y) for x, y in zip(before, after, strict=True)) <= asked["l1_sensitivity"]
        assert sum(asked["epsilon"] for asked in made[0].asked) == F(1, 3)


def test_pairs_have_less_noise_than_two_releases() -> None:
    """Of a count of one node and one part: 2 draws of scale l / epsilon, against one of 2 l /
    epsilon.
    """
    steps = Ladder(F(1), 1)
    private = Parts(np.array([[UNIT]]), np.array([[UNIT]]))
    alphas = []
    for form in ("pairs", "paper"):
        trees = dyadic.release(private, steps, 1, F(1), Draws(), "x", form=form)  # type: ignore[arg-type]
        alphas.append(dyadic.answer(trees, (0, 0)).alpha)
    assert alphas[0] == pytest.approx(alphas[1] / math.sqrt(2))
