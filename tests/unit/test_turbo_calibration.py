"""The prices of Turbo: the vectors of turbo.md §13, and that they hold for the integers that are drawn."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from pg_epsilon.accounting.margins import gaussian_scale, gaussian_tail
from pg_epsilon.errors import DPError
from pg_epsilon.turbo.calibration import (
    Calibration,
    epoch_charge,
    guaranteed,
    log_inverse,
    printed_updates,
    sum_quantile,
    sum_tail,
    tight_x,
)
from pg_epsilon.turbo.synopsis import price

ALPHA, BETA = Fraction(5, 100), Fraction(1, 1000)
SPLIT = Calibration(ALPHA, BETA)
QUANTILES = {
    Fraction(1, 1000): "6.9078 8.5729 9.8703 10.9809 11.9717 12.8766 13.7155 14.5019 15.2447 15.9509 16.6254 17.2724",
    Fraction(1, 2000): "7.6009 9.3357 10.6905 11.8518 12.8888 13.8366 14.7159 15.5405 16.3199 17.0611 17.7694 18.4490",
}


@pytest.mark.parametrize("beta", list(QUANTILES))
def test_quantiles_of_sums_of_laplace_variables(beta: Fraction) -> None:
    found = [float(sum_quantile(k, beta)) for k in range(1, 13)]
    assert found == pytest.approx([float(x) for x in QUANTILES[beta].split()], abs=6e-5)


def test_prices_of_one_node() -> None:
    assert float(SPLIT.direct(1_008_532).amount) == pytest.approx(1.369863e-4, rel=3e-6)
    assert float(Calibration(ALPHA, BETA, printed=True).direct(1_008_532).amount) == pytest.approx(
        5.479454e-4, rel=3e-6
    )
    assert float(SPLIT.direct(10_000).amount) == pytest.approx(0.0138155, abs=6e-8)
    assert float(SPLIT.epoch(10_000)) == pytest.approx(0.0552620, abs=6e-8)
    assert float(epoch_charge(SPLIT.epoch(10_000)).pure()[0]) == pytest.approx(0.1657861, abs=6e-8)
    assert float(SPLIT.hard(10_000).amount) == pytest.approx(0.0152018, abs=6e-8)
    assert float(tight_x(BETA)) == pytest.approx(15.60856, abs=6e-6)


def test_prices_of_a_tree() -> None:
    """8 partitions of 10,000 rows, query [1, 6]."""
    assert float(SPLIT.node(4, 60_000).amount) == pytest.approx(3.950600e-3, rel=1e-6)
    assert 3 * float(SPLIT.run_epoch(60_000)) == pytest.approx(3.0403610e-2, rel=1e-7)
    assert float(SPLIT.run_hard(60_000).amount) == pytest.approx(2.7646833e-3, rel=1e-7)


@pytest.mark.long
def test_the_price_of_a_synopsis() -> None:
    assert float(sum_quantile(128, BETA)) == pytest.approx(53.045, abs=6e-4)
    assert float(price(SPLIT, 128, 10_000).amount) == pytest.approx(53.045 / 500, rel=2e-5)
    assert float(sum_quantile(604_800, BETA)) == pytest.approx(7238 / 2, rel=1e-3)
    assert price(SPLIT, 128, 10_000, queries=1000).amount > price(SPLIT, 128, 10_000).amount


def test_the_two_formulas_of_the_tail_agree() -> None:
    """k = 65 is computed in logarithms, k = 64 by sums: the tails of neighbours are nearly the same."""
    below, above = (sum_tail(k, 30.0) for k in (64, 65))
    assert below < above < below * 1.1
    assert sum_tail(2, 3.0) == pytest.approx((1 + 1.5) * math.exp(-3), rel=1e-12)


def discrete_tail(epsilon: float, k: int, m: int) -> float:
    """Pr[|sum of k DLap(epsilon)| > m], by convolution."""
    reach = math.ceil(60 / epsilon) + 2
    one = np.exp(-epsilon * np.abs(np.arange(-reach, reach + 1)))
    return summed_tail(one / one.sum(), k, m)


def summed_tail(one: np.ndarray, k: int, m: int) -> float:
    """Pr[|sum of k| > m]."""
    law = one
    for _ in range(k - 1):
        law = np.convolve(law, one)
    values = np.arange(len(law)) - len(law) // 2
    return float(law[np.abs(values) > m].sum())


@pytest.mark.parametrize(("scale", "k"), list(itertools.product([25, 90, 333, 1000, 4712, 9999], [1, 2, 3, 7])))
def test_integer_noise_is_as_accurate_as_promised(scale: int, k: int) -> None:
    """On tables so small that alpha n~ is not an integer, or is 1, exactly: no approximation is hidden in beta."""
    draw = SPLIT.node(k, scale)
    assert discrete_tail(float(draw.amount), k, math.floor(ALPHA * scale)) <= float(BETA) / 2 * (1 + 1e-9)


def test_integer_noise_costs_no_more_than_it_must() -> None:
    """One per cent less epsilon is too little."""
    for k in (1, 4):
        draw = SPLIT.node(k, 9999)
        assert discrete_tail(float(draw.amount) * 0.99, k, math.floor(ALPHA * 9999)) > float(BETA) / 2


def test_an_epoch_is_dear_enough_for_a_false_pass_to_be_rare() -> None:
    """(1/2 + x/8) e^(-x/2) <= beta/2 at x = 4 ln(1/beta), the tight x being too small for it."""
    for beta in (Fraction(1, 10), BETA, Fraction(1, 10**6)):
        x = float(4 * log_inverse(beta))
        assert (0.5 + x / 8) * math.exp(-x / 2) <= float(beta) / 2
        assert float(tight_x(beta)) < x


def test_gaussian_answers_are_as_accurate_as_promised() -> None:
    gaussian = Calibration(ALPHA, BETA, gaussian=True)
    for draw, beta in ((gaussian.direct(10_000), BETA), (gaussian.hard(10_000), BETA / 2)):
        assert draw.mechanism == "gaussian"
        assert gaussian_tail(gaussian_scale(1, draw.amount), 501) <= float(beta)
    four, one = gaussian.node(4, 10_000), gaussian.node(1, 10_000)
    assert float(four.amount) == pytest.approx(4 * float(one.amount) * (498 / 495) ** 2, rel=1e-9), "500 less k + 1"
    assert one.refines
    assert not gaussian.direct(10_000).refines
    assert not Calibration(ALPHA, BETA).node(1, 10_000).refines, "laplace"
    assert not gaussian.node(1, 1_279).refines, "room of 2 rows is more than a 32nd of 63.95"
    assert gaussian.node(1, 1_280).refines


def test_sums_of_gaussian_answers_are_as_accurate_as_promised() -> None:
    """Exactly, by convolution, also where sigma is below 1."""
    for scale, k in ((25, 3), (90, 2), (333, 3), (1000, 5)):
        sigma = gaussian_scale(1, Calibration(ALPHA, BETA, gaussian=True).node(k, scale).amount)
        reach = math.ceil(12 * sigma) + 2
        one = np.exp(-((np.arange(-reach, reach + 1) / sigma) ** 2) / 2)
        assert summed_tail(one / one.sum(), k, math.floor(ALPHA * scale)) <= float(BETA) / 2


def test_gaussian_answers_that_keep_the_updates_right() -> None:
    """sigma = n~ tau alpha / sqrt(72 ln 2 + 12 tau x), in counts; charged as drawn (E-2)."""
    tau = Fraction(1, 2)
    draw = Calibration(ALPHA, BETA, gaussian=True, preserving=tau).direct(10_000)
    sigma = 10_000 * 0.5 * 0.05 / math.sqrt(72 * math.log(2) + 12 * 0.5 * math.log(1000))
    assert float(draw.amount) == pytest.approx(1 / (2 * sigma**2), rel=1e-9)


def test_updates_in_the_worst_case() -> None:
    assert printed_updates(128, ALPHA, 0.00625, 0.25) == 248_424
    assert printed_updates(128, ALPHA, 0.00625, 0.5) == 82_808


def test_guaranteed_convergence_meets_its_conditions() -> None:
    promise = guaranteed(ALPHA, BETA, 128, 10_000, Fraction(1, 10))
    x, g = float(4 * log_inverse(promise.calibration.beta)), math.log(3 * 10_000 / 0.1)
    assert promise.calibration.beta <= Fraction(5, 10**9)  # E-10
    assert promise.calibration.direct(10_000).amount == promise.calibration.hard(10_000).amount
    assert promise.rate <= 0.05 / 8
    assert promise.tau == 0.5
    assert 3 * g * 0.05 / x < 0.05 / 2
    kappa = 2 * g * 0.05 / x
    assert promise.updates == math.ceil(math.log(128) / (promise.rate * (0.025 - kappa - promise.rate / 2)))
    with pytest.raises(DPError):
        guaranteed(ALPHA, BETA, 128, 0, Fraction(1, 10))


@pytest.mark.parametrize(("alpha", "beta"), [(0, BETA), (1, BETA), (ALPHA, Fraction(1, 2)), (ALPHA, Fraction(0))])
def test_accuracies_out_of_range_are_refused(alpha: Fraction, beta: Fraction) -> None:
    with pytest.raises(DPError) as refused:
        Calibration(Fraction(alpha), beta)
    assert refused.value.sqlstate == "DP005"
