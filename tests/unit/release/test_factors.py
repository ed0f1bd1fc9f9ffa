"""Weighted queries over noisy cells (numeric-release.md §6): sums, how far their noise goes, what bars hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fix_chance
from pg_epsilon.mechanisms.matrix.bars import two_sided_quantile
from pg_epsilon.release.answers import Noise, counted, summed, sums_of, thresholds, weighed_sums_of
from pg_epsilon.release.factors import LEVELS, Factors, coarser

Array = np.ndarray[Any, Any]
MISS, DRAWS, MOST = 0.05, 300, 55
RNG = np.random.default_rng(20261128)
STEPS = np.array([-2.0, -1.0, 0.0, 1.0, 2.0, 4.0])
CELLS = np.array([
    [3, 40, 100, 60, 9, 1],
    [0, 0, 0, 0, 0, 0],
    [25, 12, 80, 0, 0, 30],
    [1, 0, 500, 2, 0, 1],
], float)  # fmt: skip
MASKS = np.array([[1, 1, 0, 0], [1, 1, 1, 1], [0, 1, 0, 1]], float)
WEIGHTS = np.array([[0.5, 1, 0, 0.25], [0.1, 0.2, 0.9, 1], [1, 0.75, 1, 0.75]])
THERE = np.array([[1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1], [1, 0, 1, 1, 0, 1]], bool)


def weighed(cells: Array, there: Array | None = None) -> Any:
    return weighed_sums_of(cells, [MASKS], [np.arange(3)], lambda some: WEIGHTS[some], there)


def test_classes_count_by_their_weights() -> None:
    """Over two axes, the weight of one of them, in more queries than fit at once."""
    cells = RNG.normal(size=(4, 3, 5))
    masks = [RNG.integers(0, 2, (6, 4)).astype(float), RNG.integers(0, 2, (2, 3)).astype(float)]
    of = [RNG.integers(0, 6, 700), RNG.integers(0, 2, 700)]
    weights = RNG.random((700, 4))
    found = sums_of(cells, masks, of, lambda some: np.repeat(weights[some], 3, axis=1))
    for number in range(700):
        one, other = masks[0][of[0][number]] * weights[number], masks[1][of[1][number]]
        assert np.allclose(found.cells[number], np.einsum("i,j,ijk->k", one, other, cells))


def test_weights_of_one_are_no_weights() -> None:
    """The same answers and bars as without, whichever cells exist."""
    noise = Noise(2.0, False, 2.0**-20)
    ones = weighed_sums_of(CELLS, [MASKS], [np.arange(3)], lambda some: np.ones((3, 4))[some])
    plain = sums_of(CELLS, [MASKS], [np.arange(3)])
    assert list(ones.classes) == list(plain.classes)
    for one, other in zip(summed(ones, list(STEPS), noise, MISS), summed(plain, list(STEPS), noise, MISS), strict=True):
        assert (one.answer, one.unbiased, one.below_resolution) == (
            other.answer,
            other.unbiased,
            other.below_resolution,
        )
        assert (one.low, one.high) == pytest.approx((other.low, other.high), rel=1e-8)
    for one, other in zip(counted(ones, noise, MISS), counted(plain, noise, MISS), strict=True):
        assert (one.low, one.high) == pytest.approx((other.low, other.high), rel=1e-8)


def test_squares_of_the_weights_of_cells_that_exist_are_the_noise() -> None:
    for there in (None, THERE):
        own = np.ones(CELLS.shape) if there is None else there
        assert np.allclose(weighed(CELLS, there).times, np.square(MASKS * WEIGHTS) @ own)


def test_half_the_weight_has_half_the_bar() -> None:
    noise = Noise(2.0, False, 0.0)
    halved = weighed_sums_of(CELLS, [MASKS], [np.arange(3)], lambda some: WEIGHTS[some] / 2)
    whole, half = (list(summed(one, list(STEPS), noise, MISS)) for one in (weighed(CELLS), halved))
    for one, other in zip(whole, half, strict=True):
        twice = 2 * np.array([other.answer, other.unbiased, other.low, other.high])
        assert np.allclose([one.answer, one.unbiased, one.low, one.high], twice)


@pytest.mark.chance(fix_chance.union(*(12 * [fix_chance.binomial(DRAWS, MISS, 0, MOST)])))
@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.parametrize("there", [None, THERE])
def test_bars_hold_the_true_sum(gaussian: bool, there: Array | None) -> None:
    """Of 300 draws of noise at most 55 bars may miss where each misses with .05 at most."""
    noise, own = Noise(2.0, gaussian, 0.0), THERE if there is not None else np.ones(CELLS.shape, bool)
    exact, truth = weighed(CELLS * own, there), (MASKS * WEIGHTS) @ (CELLS * own) @ STEPS
    rng, missed = np.random.default_rng(20261129), np.zeros(3, int)
    for _ in range(DRAWS):
        drawn = rng.normal(0, noise.scale, CELLS.shape) if gaussian else rng.laplace(0, noise.scale, CELLS.shape)
        exact.cells[:] = (MASKS * WEIGHTS) @ ((CELLS + drawn) * own)
        for number, one in enumerate(summed(exact, list(STEPS), noise, MISS)):
            missed[number] += not one.low <= truth[number] <= one.high
    assert missed.max() <= MOST, missed


@pytest.mark.control
def test_a_bar_of_small_weights_that_were_left_out_is_found() -> None:
    """A bar of the largest weight's class alone: one that forgot the others misses far more often than .05."""
    noise, missed, rng = Noise(2.0, False, 0.0), 0, np.random.default_rng(5)
    own = MASKS[1] * WEIGHTS[1]
    reach = noise.reach(np.abs(STEPS) * own.max(), MISS)
    for _ in range(DRAWS):
        missed += bool(abs(own @ rng.laplace(0, noise.scale, CELLS.shape) @ STEPS) > reach)
    assert missed > DRAWS // 10


def test_thresholds_count_noise_by_its_weights() -> None:
    sums = weighed(CELLS, THERE)
    noise = Noise(2.0, False, 0.0)
    _, _, limit = thresholds(sums, STEPS[STEPS > 0], noise)
    above = np.square(MASKS * WEIGHTS) @ THERE[:, 3:]
    expected = [[2 * noise.deviation * np.sqrt(one[place:].sum()) for place in range(4)] for one in above]
    assert np.allclose(limit, expected)


@pytest.mark.parametrize("many", [10, 3000])
def test_rounded_weights_reach_no_less_far_and_hardly_farther(many: int) -> None:
    weights = RNG.random(many) ** 3
    rounded, times = coarser(weights, np.ones(many))
    assert rounded.size <= LEVELS and times.sum() == many
    exact, wider = two_sided_quantile(weights, MISS), two_sided_quantile(rounded, MISS, times)
    assert exact * (1 - 1e-9) <= wider <= 1.05 * exact
    if many <= LEVELS:
        assert sorted(rounded) == list(rounded) == sorted(weights)


def test_a_query_of_no_class_has_no_noise() -> None:
    """Left out, of weight 0, or without any cell."""
    for own in (np.zeros(4), np.array([0.0, 0.5, 0, 0])):
        found = Factors.of(own, np.zeros((4, 6), bool), 6)
        weights, times = found.products(np.ones(6))
        assert Noise(1.0, False, 0.0).reach_of(weights, MISS, times) == 0
