"""Averages over sets of classes (release/averages.py)."""

from __future__ import annotations

import numpy as np
import pytest

from pg_epsilon.release.answers import Noise, Sums
from pg_epsilon.release.averages import average, averages

STEPS = np.array([0.0, 1.0, 2.0, 4.0, 8.0])
ROWS = np.array([10.0, 40.0, 30.0, 10.0, 10.0])
TRUE = float(ROWS @ STEPS / ROWS.sum())
ENDS = (0.0, 8.0)


def test_without_noise_worth_the_name_it_is_the_average() -> None:
    found = average(ROWS, STEPS, 1, Noise(1e-9, False, 0.0), 4, 0.05, ENDS)
    assert found.answer == pytest.approx(TRUE) == pytest.approx(found.unbiased)
    assert found.low <= TRUE <= found.high
    assert found.high - found.low < 8 * 2 / 2**15


def test_bars_are_within_the_ends_and_narrower_for_more_rows() -> None:
    noise, widths = Noise(2.0, False, 0.0), []
    for times in (1, 10, 100, 1000):
        found = average(ROWS * times, STEPS, 1, noise, 10, 1e-6, ENDS)
        assert 0 <= found.low <= TRUE <= found.high <= 8
        widths.append(found.high - found.low)
    assert widths == sorted(widths, reverse=True) and widths[3] < widths[1] / 50


def test_few_rows_tell_nothing() -> None:
    found = average(ROWS / 100, STEPS, 1, Noise(5.0, True, 0.0), 10, 1e-6, ENDS)
    assert (found.low, found.high) == ENDS
    negative = average(-ROWS, STEPS, 1, Noise(5.0, True, 0.0), 10, 1e-6, ENDS)
    assert negative.low <= negative.answer <= negative.high


def test_rounding_of_masses_is_in_the_bar() -> None:
    narrow, wide = (average(ROWS, STEPS, 1, Noise(0.1, True, grain), 4, 0.05, ENDS) for grain in (0.0, 0.01))
    assert wide.high - wide.low > narrow.high - narrow.low


@pytest.mark.parametrize("gaussian", [False, True])
def test_the_true_average_is_in_the_bar(gaussian: bool) -> None:
    """The bar of all sets of six classes at 80 %, for one of them: far more than 80 % of 400 releases."""
    rng = np.random.default_rng(20261128)
    draw = rng.normal if gaussian else rng.laplace
    inside = 0
    for _ in range(400):
        found = average(ROWS + draw(0, 1.5, (3, 5)).sum(axis=0), STEPS, 3, Noise(1.5, gaussian, 0.0), 6, 0.2, ENDS)
        inside += found.low <= TRUE <= found.high
    assert inside >= 380


def test_the_bar_of_a_plain_quotient_would_be_wider() -> None:
    """S and C by a bar each: what the set form saves."""
    noise = Noise(1.0, True, 0.0)
    found = average(ROWS * 10, STEPS, 1, noise, 1, 0.05, ENDS)
    total, count = float(ROWS @ STEPS) * 10, float(ROWS.sum()) * 10
    s, c = (noise.reach(weights, 0.025) for weights in (STEPS, np.ones(5)))
    assert found.high - found.low < (total + s) / (count - c) - (total - s) / (count + c)


def test_averages_of_named_sets_have_bars_of_their_own() -> None:
    """Each holds by itself at its confidence, of 400 releases; a set without a class has none."""
    rng, noise, inside = np.random.default_rng(20261129), Noise(1.5, False, 0.0), 0
    for _ in range(400):
        noisy = np.stack([ROWS + rng.laplace(0, 1.5, (3, 5)).sum(axis=0), np.zeros(5)])
        found, nothing = averages(Sums(noisy, np.array([3, 0])), STEPS, noise, 0.1, ENDS)
        assert nothing is None and found is not None
        inside += found.low <= TRUE <= found.high
        everywhere = average(noisy[0], STEPS, 3, noise, 6, 0.1, ENDS)
        assert everywhere.low <= found.low <= found.high <= everywhere.high and found.answer == everywhere.answer
    assert inside >= 360
