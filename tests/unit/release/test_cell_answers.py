"""Answers and bars from noisy cells (numeric-release.md §0.0): the vectors, grids, coverage by the law of the noise."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from release_vectors import cases, same

import fix_chance
from pg_epsilon.mechanisms.matrix.bars import two_sided_quantile
from pg_epsilon.release.answers import Noise, Sums, counted, summed, sums_of, thresholds
from pg_epsilon.release.ladder import ladder

VECTORS = cases("split_cells")
MISS, DRAWS = 0.05, 1500


@pytest.mark.parametrize("name", VECTORS)
def test_answers_of_a_case(name: str) -> None:
    asked: dict[str, Any] = VECTORS[name]["input"]
    expected = VECTORS[name]["expected"]
    steps = np.array([0.0, *map(float, ladder(Fraction(asked["bound"])).steps)])
    cells = np.array(expected["noisy"]).reshape(asked["classes"], len(steps))
    masks = np.array(asked["predicates"], float)
    noise = Noise(1 / asked["epsilon"], False, 0.0)
    sums = sums_of(cells, [masks], [np.arange(len(masks))])
    place, cut, limit = thresholds(sums, steps[1:], noise)
    found = []
    for number, answer in enumerate(summed(sums, list(steps), noise, MISS)):
        own = place[number]
        weights = np.minimum(steps[1:], steps[own])
        assert answer.answer == cut[number, own]
        assert answer.below_resolution == (own == 0)
        found.append({
            "thr": steps[own],
            "alpha": limit[number, own],
            "answer": answer.answer,
            "sd": noise.deviation * math.sqrt(sums.classes[number] * float(weights @ weights)),
            "count": sums.cells[number].sum(),
            "truth": expected["answers"][number]["truth"],
        })  # fmt: skip
    assert same(found, expected["answers"])


def test_queries_are_added_up_over_all_axes() -> None:
    rng = np.random.default_rng(1)
    cells = rng.normal(size=(4, 3, 5))
    masks = [rng.integers(0, 2, (6, 4)).astype(float), rng.integers(0, 2, (2, 3)).astype(float)]
    of = [rng.integers(0, 6, 700), rng.integers(0, 2, 700)]
    found = sums_of(cells, masks, of)
    for number in range(700):
        one, other = masks[0][of[0][number]], masks[1][of[1][number]]
        assert np.allclose(found.cells[number], np.einsum("i,j,ijk->k", one, other, cells))
        assert found.classes[number] == one.sum() * other.sum()


def exact(gaussian: bool) -> tuple[Sums, np.ndarray[Any, Any], Noise]:
    """Three queries over four classes of a table with both signs; the cells without noise."""
    steps = np.array([-4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0, 8.0])
    cells = np.array([
        [0, 3, 40, 100, 60, 9, 1, 0],
        [0, 0, 0, 0, 0, 0, 0, 0],
        [25, 0, 12, 80, 0, 0, 0, 30],
        [1, 0, 0, 500, 2, 0, 1, 0],
    ], float)  # fmt: skip
    masks = np.array([[1, 0, 0, 0], [1, 1, 1, 1], [0, 1, 0, 1]], float)
    return sums_of(cells, [masks], [np.arange(3)]), steps, Noise(2.0, gaussian, 0.0)


@pytest.mark.chance(fix_chance.union(*(6 * [fix_chance.binomial(DRAWS, MISS, 0, 124)])))
@pytest.mark.parametrize("gaussian", [False, True])
def test_bars_hold_the_true_sum(gaussian: bool) -> None:
    """Of 1,500 draws of noise at most 124 bars may miss where each misses with .05 at most."""
    sums, steps, noise = exact(gaussian)
    truth = sums.cells @ steps
    rng, missed = np.random.default_rng(20261128), np.zeros(3, int)
    masks = np.array([[1, 0, 0, 0], [1, 1, 1, 1], [0, 1, 0, 1]], float)
    for _ in range(DRAWS):
        shape = (4, len(steps))
        drawn = rng.normal(0, noise.scale, shape) if gaussian else rng.laplace(0, noise.scale, shape)
        noisy = Sums(sums.cells + masks @ drawn, sums.classes)
        for number, one in enumerate(summed(noisy, list(steps), noise, MISS)):
            missed[number] += not one.low <= truth[number] <= one.high
    assert missed.max() <= 124, missed


@pytest.mark.control
def test_bar_of_the_chosen_cut_alone_is_found() -> None:
    """A bar of the noise at tau, without what was cut off, misses the sum far more often than .05 (§0.0 forbids it)."""
    sums, steps, noise = exact(False)
    truth, positive = float((sums.cells @ steps)[2]), steps[steps > 0]
    rng, missed = np.random.default_rng(7), 0
    for _ in range(DRAWS):
        drawn = rng.laplace(0, noise.scale, (4, len(steps)))
        noisy = Sums(sums.cells[2:] + (drawn[1] + drawn[3])[None, :], sums.classes[2:])
        (place,), cut, _ = thresholds(noisy, positive, noise)
        reach = noise.reach(np.repeat(np.minimum(positive, positive[place - 1]), 2), MISS) if place else 0.0
        missed += abs(cut[0, place] - truth) > reach
    assert missed > DRAWS // 4


def test_counts_have_the_noise_of_their_cells() -> None:
    sums = Sums(np.array([[3.0, 4.0], [0.0, 0.0]]), np.array([1, 5]))
    one, other = counted(sums, Noise(1.0, False, 0.0), 0.05)
    assert (one.answer, one.unbiased) == (7.0, 7.0)
    assert one.high - one.answer == pytest.approx(Noise(1.0, False, 0.0).reach(np.ones(2), 0.05))
    assert other.high - other.low > one.high - one.low


def test_rounded_masses_widen_the_upper_end_alone() -> None:
    sums, steps, noise = exact(False)
    sharp = list(summed(sums, list(steps), noise, MISS))
    coarse = list(summed(sums, list(steps), Noise(2.0, False, 2.0**-10), MISS))
    assert all(wide.high > fine.high for wide, fine in zip(coarse, sharp, strict=True))


def test_quantile_of_equal_weights_is_that_of_each_by_itself() -> None:
    weights, times = np.array([1.0, 0.5, 4.0]), np.array([3.0, 7.0, 2.0])
    each = two_sided_quantile(np.repeat(weights, times.astype(int)), 0.05)
    assert two_sided_quantile(weights, 0.05, times) == pytest.approx(each, rel=1e-9)
    five = two_sided_quantile(np.ones(5), 0.05)
    assert two_sided_quantile(np.ones(1), 0.05, np.array([5.0])) == pytest.approx(five, rel=1e-9)


def test_many_classes_take_no_longer_than_few() -> None:
    """Four million cells of equal weight: the bar is that of their normal sum."""
    reach = Noise(1.0, False, 0.0).reach(np.ones(1), 0.05, 4_000_000)
    assert reach == pytest.approx(1.95996 * math.sqrt(2 * 4_000_000), rel=1e-4)
