"""Variances over sets of classes (release/spreads.py)."""

from __future__ import annotations

import numpy as np
import pytest

import fix_chance
from pg_epsilon.release.answers import Noise, Sums
from pg_epsilon.release.everywhere import Everywhere
from pg_epsilon.release.spreads import SPREADS, spread, spreads, too_many

STEPS = np.arange(-3.0, 8.0)
ROWS = np.array([5, 0, 40, 100, 60, 9, 1, 0, 20, 0, 15.0])
ENDS = (-3.0, 7.0)
DRAWS = 60


def true(how: str) -> float:
    values = np.repeat(STEPS, ROWS.astype(int))
    found = values.var(ddof=1 if how.endswith("samp") else 0)
    return float(found**0.5 if how.startswith("stddev") else found)


@pytest.mark.parametrize("how", SPREADS)
def test_without_noise_worth_the_name_it_is_that_of_the_rows(how: str) -> None:
    noise = Noise(1e-9, False, 0.0)
    found = spread(ROWS, STEPS, 1, noise, Everywhere.of(noise, 4), 0.05, ENDS, how)
    assert found.answer == pytest.approx(true(how)) == found.unbiased
    assert found.low <= true(how) + 1e-9 and true(how) <= found.high + 1e-9 and not found.below_resolution


@pytest.mark.parametrize("how", SPREADS)
def test_bars_are_possible_and_narrower_for_more_rows(how: str) -> None:
    noise, widths = Noise(2.0, False, 0.0), []
    for times in (1, 10, 100, 1000):
        found = spread(ROWS * times, STEPS, 1, noise, Everywhere.of(noise, 4), 1e-6, ENDS, how)
        assert 0 <= found.low <= found.answer <= found.high <= 2 * 25
        widths.append(found.high - found.low)
    assert widths == sorted(widths, reverse=True) and widths[3] < widths[1] / 5


def test_few_rows_tell_nothing() -> None:
    """A variance is at most the square of half the width, that of two rows twice as much."""
    noise = Noise(5.0, True, 0.0)
    for cells in (ROWS / 100, -ROWS, 0 * ROWS):
        population, sample = (
            spread(cells, STEPS, 1, noise, Everywhere.of(noise, 4), 1e-6, ENDS, how) for how in ("var_pop", "var_samp")
        )
        assert (population.low, population.high) == (0, 25) and sample.high == 50
        assert population.below_resolution and population.low <= population.answer <= population.high


@pytest.mark.parametrize("how", ["var_pop", "stddev_samp"])
@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.chance(fix_chance.binomial(DRAWS, 0.2, 0, 32))
def test_the_true_spread_is_in_the_bar(gaussian: bool, how: str) -> None:
    """Of 60 draws at most 32 bars miss where each misses with .2 at most."""
    rng = np.random.default_rng(20261128)
    draw, noise = rng.normal if gaussian else rng.laplace, Noise(1.5, gaussian, 0.0)
    noisy = ROWS + draw(0, 1.5, (DRAWS, 3, len(ROWS))).sum(axis=1)
    found = spreads(Sums(noisy, np.full(DRAWS, 3)), STEPS, noise, 0.2, ENDS, how)
    missed = sum(not one.low <= true(how) <= one.high for one in found if one is not None)
    assert missed <= 32


def test_a_query_without_a_class_has_none() -> None:
    found = spreads(Sums(ROWS[None, :], np.array([0])), STEPS, Noise(1.0, False, 0.0), 0.1, ENDS, "var_pop")
    assert list(found) == [None]


def test_many_variances_of_many_values_take_too_long() -> None:
    assert not too_many(400, 500)
    assert too_many(401, 500) and too_many(2, 501)
