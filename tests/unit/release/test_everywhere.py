"""Bars that hold for every set of classes at once (release/everywhere.py)."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pg_epsilon.release.answers import Noise
from pg_epsilon.release.everywhere import Everywhere

LAPLACE, GAUSSIAN = Noise(2.0, False, 0.0), Noise(2.0, True, 0.0)
ONE = np.ones(1)


def test_one_class_of_many_has_the_union_bound() -> None:
    """All of n classes by themselves: n exp(-t) = miss / n."""
    found = Everywhere.of(LAPLACE, 50).reach(ONE, 1e-3, 1)
    assert found == pytest.approx(2 * math.log(50 * 50 / 1e-3), rel=1e-9)


def test_nothing_has_no_bar() -> None:
    assert Everywhere.of(LAPLACE, 5).reach(ONE, 0.05, 0) == 0
    assert Everywhere.of(GAUSSIAN, 5).reach(np.zeros(0), 0.05, 3) == 0


@pytest.mark.parametrize("noise", [LAPLACE, GAUSSIAN])
@pytest.mark.parametrize("classes", [1, 3])
def test_all_classes_are_one_set(noise: Noise, classes: int) -> None:
    """No more than that set's own bar at its share of the miss."""
    weights = np.array([1.0, 2.0, 4.0])
    found = Everywhere.of(noise, classes).reach(weights, 0.05, classes)
    assert found == pytest.approx(noise.reach(weights, 0.05 / classes, classes), rel=1e-9)


@pytest.mark.parametrize("noise", [LAPLACE, GAUSSIAN])
@pytest.mark.parametrize(("miss", "most"), [(0.05, 2), (1e-6, 1.35)])
def test_chernoff_is_above_the_exact_bar_and_near_it(noise: Noise, miss: float, most: float) -> None:
    weights = np.array([0.5, 1.0, 8.0])
    for times in (1, 4, 60):
        own = Everywhere.of(noise, 100)
        bound = own._bound(weights, math.log(miss), times, one=True)
        exact = noise.reach(weights, miss, times)
        assert exact <= bound <= most * exact


@pytest.mark.parametrize("noise", [LAPLACE, GAUSSIAN])
def test_large_releases_have_finite_bars(noise: Noise) -> None:
    """Of a million classes the bound on what is above 0 is the narrower one: E Z⁺ a class, and not much more."""
    own = Everywhere.of(noise, 1_000_000)
    half = own.reach(ONE, 0.05, 500_000)
    above = noise.scale * (0.5 if noise is LAPLACE else 1 / math.sqrt(2 * math.pi)) * 1_000_000
    assert above < half < 1.05 * above
    assert own.reach(ONE, 0.05, 1) < 80 * noise.scale
    assert all(own.reach(ONE, 0.05, m) <= own.reach(ONE, 0.05, 2 * m) for m in (1, 10, 1000, 100_000))


@pytest.mark.parametrize("noise", [LAPLACE, GAUSSIAN])
def test_sets_chosen_by_the_noise_keep_their_bars(noise: Noise) -> None:
    """The worst set of every size, chosen after the noise is known: 4,000 releases, of which 5 % may miss."""
    rng = np.random.default_rng(20261128)
    draw = rng.normal if noise.gaussian else rng.laplace
    drawn = np.sort(draw(0, noise.scale, (4000, 12)), axis=1)[:, ::-1]
    own = Everywhere.of(noise, 12)
    bars = np.array([own.reach(ONE, 0.05, m) for m in range(1, 13)])
    high = (np.cumsum(drawn, axis=1) > bars).any(axis=1)
    low = (np.cumsum(-drawn[:, ::-1], axis=1) > bars).any(axis=1)
    assert float((high | low).mean()) <= 0.05


def test_weights_that_are_not_the_worst_sets_would_miss() -> None:
    """A bar of one set by itself is no bar of all: what `Everywhere` is for."""
    rng = np.random.default_rng(20261128)
    drawn = rng.laplace(0, 2.0, (4000, 12))
    alone = LAPLACE.reach(ONE, 0.05, 1)
    assert float((np.abs(drawn) > alone).any(axis=1).mean()) > 0.3
