"""How often intervals hold, over all draws or some; and the bootstrap's own parts."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from fractions import Fraction
from statistics import NormalDist

import pytest
from explain_forms import HALF, NONE, gaussian, halves, law

import fix_chance
from pg_epsilon.explain import bootstrap, linear
from pg_epsilon.explain.forms import Cell, Linear, Noise
from pg_epsilon.explain.question import Question, compare

RUNS, FEWEST, MOST = 4000, 3730, 3870
LEVEL = 0.95
SIGMAS = (0.3, 0.5, 0.7, 1.0, 1.6, 2.5)
Weights = tuple[int, ...]


def linear_law(noise: Noise, weights: Weights) -> dict[int, float]:
    """The law of a weighted sum of independent draws."""
    sums = {0: 1.0}
    for weight in weights:
        larger: dict[int, float] = {}
        for (at, mass), (k, share) in itertools.product(sums.items(), list(law(noise))):
            larger[at + weight * k] = larger.get(at + weight * k, 0.0) + mass * share
        sums = larger
    return sums


def terms_of(noise: Noise, weights: Weights) -> list[linear.Term]:
    return [(Fraction(w), Cell(0, noise)) for w in weights]


@pytest.mark.parametrize("sigma", SIGMAS)
@pytest.mark.parametrize("weights", [(1,), (1, -1), (2, -1), (2, -1, -1), (1, 1, 1)])
@pytest.mark.parametrize("miss", [0.2, 0.05, 0.01])
def test_a_gaussian_margin_covers(sigma: float, weights: Weights, miss: float) -> None:
    noise = Noise("gaussian", sigma)
    margin = linear.normal(terms_of(noise, weights), miss)
    inside = sum(mass for at, mass in linear_law(noise, weights).items() if abs(at) <= margin)
    assert inside >= 1 - miss


def range_covers(sigma: float, groups: int, half: Fraction) -> float:
    """Pr[max - min <= margin] of so many discrete Gaussian draws."""
    noise = Noise("gaussian", sigma, half)
    reach = math.floor(linear.studentised(terms_of(noise, (1, -1)), 1 - LEVEL, groups))
    draws = list(law(noise))
    below = [0.0, *itertools.accumulate(mass for _, mass in draws)]
    found = 0.0
    for i in range(len(draws)):  # the smallest is the i-th value
        end = min(len(draws), i + reach + 1)
        found += (below[end] - below[i]) ** groups - (below[end] - below[i + 1]) ** groups
    return found


@pytest.mark.parametrize("sigma", SIGMAS)
@pytest.mark.parametrize("groups", [2, 3, 7, 20, 50])
def test_a_studentised_range_covers(sigma: float, groups: int) -> None:
    assert range_covers(sigma, groups, HALF) >= LEVEL


def test_a_range_without_half_steps_is_caught() -> None:
    """Control, at rho = 1: sigma = sqrt(1/2)."""
    assert range_covers(math.sqrt(0.5), 7, NONE) < 0.92


@pytest.mark.parametrize("noise", [Noise("gaussian", 1.3), Noise("laplace", 1.5)])
def test_everything_asked_about_counts_holds_at_once(noise: Noise) -> None:
    """Of three keys: pairs, single cells and weights, each with the margin that a question has."""
    kinds: list[tuple[float, ...]] = [
        *((1.0, -1.0, 0.0), (1.0, 0.0, -1.0), (0.0, 1.0, -1.0)),
        *((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
        *((1.0, 1.0, 1.0), (1.0, -0.5, -0.5), (2.0, -1.0, 0.0), (1.0, 1.0, -1.0)),
    ]
    zero = tuple(Linear(Cell(0, noise)) for _ in range(3))
    margins = [compare(Question(zero, tuple(map(Fraction, w)), simultaneous=3)).high for w in kinds]
    rules = [(*w, margin) for w, margin in zip(kinds, margins, strict=True)]
    draws, inside = [draw for draw in law(noise) if draw[1] > 1e-6], 0.0
    for (x, p), (y, q), (z, r) in itertools.product(draws, repeat=3):
        if all(abs(a * x + b * y + c * z) <= margin for a, b, c, margin in rules):
            inside += p * q * r
    assert inside >= LEVEL


def test_two_promises_in_full_are_caught() -> None:
    """Control: of two keys with Laplace noise, pairs and single cells at the whole level each."""
    noise = Noise("laplace", 6.0)
    pair = linear.convolution(terms_of(noise, (1, -1)), 1 - LEVEL)[0]
    cell = noise.margin((1 - LEVEL) / 2)
    draws = list(law(noise))
    inside = sum(
        p * q
        for (x, p), (y, q) in itertools.product(draws, draws)
        if abs(x - y) <= pair and abs(x) <= cell and abs(y) <= cell
    )
    assert inside < 0.94


def drawn(shrunk: float) -> int:
    """How many of RUNS intervals of one average, their widths times `shrunk`, hold the true one."""
    source, noise, hits, true = random.SystemRandom(), Noise("gaussian", 30.0, NONE), 0, 0.3
    for _ in range(RUNS):
        form = halves(300 + source.gauss(0, 30), 1000 + source.gauss(0, 30), noise, low=-9, high=9)
        found = compare(Question((form,)))
        middle, half = (found.low + found.high) / 2, (found.high - found.low) / 2
        hits += abs(true - middle) <= half * shrunk
    return hits


@pytest.mark.chance(fix_chance.binomial(RUNS, LEVEL, FEWEST, MOST))
def test_fieller_covers_as_often_as_it_says() -> None:
    """On a fine grid it is exact: neither less nor more often."""
    assert FEWEST <= drawn(1.0) <= MOST


@pytest.mark.chance(fix_chance.binomial(RUNS, 0.75, 0, FEWEST - 1))
def test_an_interval_of_half_the_width_is_caught() -> None:
    """Control: it holds in two of three draws."""
    assert drawn(0.5) < FEWEST


@pytest.mark.chance(fix_chance.binomial(RUNS // 8, LEVEL, 448, RUNS // 8))
def test_the_joint_region_holds_for_the_most_striking_pair() -> None:
    """Six equal averages, of which the highest and the lowest are compared after looking."""
    source, noise, hits = random.SystemRandom(), Noise("gaussian", 30.0, NONE), 0
    for _ in range(RUNS // 8):
        draws = [(source.gauss(300, 30), source.gauss(1000, 30)) for _ in range(6)]
        forms = [halves(total, count, noise) for total, count in draws]
        forms.sort(key=lambda form: form.total.number / form.count.number)
        found = compare(Question((forms[-1], forms[0]), simultaneous=6))
        hits += found.verdict == "cannot tell"
    assert hits >= 448


def percentiles(draws: Sequence[float], statistic: bootstrap.Statistic) -> tuple[float, float]:
    cell = gaussian(0, 1.0, NONE).cell
    return bootstrap.interval([cell], statistic, 0.1, len(draws), lambda n: draws[:n])


def test_a_bootstrap_of_a_symmetric_law_takes_its_percentiles() -> None:
    """-5 to 5 about 0: half are below, and next to nothing is corrected."""
    low, high = percentiles([k / 10 for k in range(-50, 51)], lambda v: v[0])
    assert (low, high) == pytest.approx((-4.6, 4.5), abs=0.11)


def test_a_bootstrap_leaves_out_what_is_undefined() -> None:
    draws = [k / 10 for k in range(-50, 51)]
    low, _ = percentiles(draws, lambda v: v[0] if v[0] >= 0 else math.nan)
    assert low == 0
    assert percentiles(draws, lambda v: math.nan) == (-math.inf, math.inf)


def test_public_draws_are_normal_and_the_same_again() -> None:
    draws = bootstrap.public_draws("a seed")(20_000)
    assert list(draws) == list(bootstrap.public_draws("a seed")(20_000))
    assert list(draws[:9]) != list(bootstrap.public_draws("another")(9))
    order, law_of = sorted(draws), NormalDist()
    assert max(abs(law_of.cdf(x) - k / 20_000) for k, x in enumerate(order)) < 0.02


def test_redrawn_laplace_noise_has_its_law() -> None:
    """The normal's quantile of e^-t/2 is t scales away."""
    cell = Cell(0, Noise("laplace", 3.0))
    for t in (0.1, 1.0, 5.0):
        normal = -NormalDist().inv_cdf(math.exp(-t) / 2)
        low, high = bootstrap.interval([cell], lambda v: v[0], 0.1, 1, lambda n, x=normal: [x])
        assert (low, high) == pytest.approx((3 * t, 3 * t), rel=1e-9)


def test_given_draws_are_taken() -> None:
    groups = (gaussian(50, 1.0), gaussian(9, 1.0))
    found = compare(Question(groups, method="bootstrap", replicates=100), lambda n: [0.5] * n)
    assert (found.low, found.high) == (41, 41)
