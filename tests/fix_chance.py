"""False-alarm probabilities of statistical tests, from the noise's law; `of` reads the mark.

A test whose assertions can fail although the code is right is marked
`@pytest.mark.chance(probability)`: of all its assertions together, computed. A lambda of the test's
parameters will do; the nearest mark counts.

Bounds, never estimates: each function is at least the probability that it names, for every number
of draws. `sessions` alone rests on a measurement.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence

import pytest
from scipy.special import bdtr, bdtrc, betaincinv

from pg_epsilon.accounting.margins import gaussian_tail, laplace_tail
from pg_epsilon.turbo.calibration import sum_tail

LIMIT = 1e-6
"""Of one test, all its assertions together."""

SUITE = 1e-4
"""Of all tests together."""


NEVER = 1e-300
"""What is below the smallest double that arithmetic holds."""


def of(item: pytest.Item) -> float | None:
    """The probability that an item's mark carries; None without a mark."""
    mark = item.get_closest_marker("chance")
    if mark is None:
        return None
    (found,) = mark.args
    if callable(found):
        callspec = getattr(item, "callspec", None)
        given: Mapping[str, object] = callspec.params if callspec else {}
        found = found(**{name: given[name] for name in inspect.signature(found).parameters})
    return float(found)


def union(*probabilities: float) -> float:
    """Any of several, dependent or not."""
    return max(NEVER, min(1.0, math.fsum(probabilities)))


def laplace(scale: float, beyond: float, draws: int = 1) -> float:
    """Any of several draws of discrete Laplace noise is further than `beyond` from 0."""
    return union(*[float(laplace_tail(scale, math.floor(beyond) + 1))] * draws)


def near(scale: float, within: float, draws: int = 1) -> float:
    """Any of several draws of large discrete Laplace noise is no further than `within` from 0."""
    return union(*[-math.expm1(-(math.floor(within) + 1) / scale)] * draws)


def beyond(scales: float, draws: int = 1) -> float:
    """Any of several draws, of whatever scale, is further than so many scales from 0."""
    return union(*[2 * math.exp(-scales)] * draws)


def deviations(times: float, values: int = 1) -> float:
    """Any of several weighted sums of Laplace noise is off by so many standard deviations.

    E exp(c S / deviation) is at most 1 / (1 - c^2 / 2), whatever the weights: Chernoff's bound,
    with the best c.
    """
    c = (math.sqrt(1 + 2 * times * times) - 1) / times
    return union(*[2 * math.exp(-c * times) / (1 - c * c / 2)] * values)


def laplace_sum(terms: int, scales: float) -> float:
    """The sum of several Laplace draws is above so many of their scales."""
    return max(NEVER, sum_tail(terms, scales) / 2)


def accuracy(times: float, answers: int, beta: float = 1e-3) -> float:
    """Any of several answers by accuracy is off by so many times alpha n~.

    Noise passes alpha n~ with probability beta. Its tail is exponential at most: that of a sum of
    draws falls faster beyond its first beta.
    """
    return union(*[beta**times] * answers)


def gaussian(sigma: float, beyond: float, draws: int = 1) -> float:
    """The same of discrete Gaussian noise."""
    return union(*[gaussian_tail(sigma, math.floor(beyond) + 1)] * draws)


def binomial(runs: int, probability: float, low: int, high: int) -> float:
    """The hits of independent runs are fewer than `low` or more than `high`."""
    below = float(bdtr(low - 1, runs, probability)) if low > 0 else 0.0
    above = float(bdtrc(high, runs, probability)) if high < runs else 0.0
    return union(below, above)


def sessions(missed: int, tried: int, tries: int) -> float:
    """None of `tries` sessions has what `missed` of `tried` did not have: where no law is at hand.

    The rate is at most Clopper and Pearson's upper bound, but for one experiment in a thousand.
    """
    return max(NEVER, float(betaincinv(missed + 1, tried - missed, 0.999)) ** tries)


def hoeffding(runs: int, off: float) -> float:
    """The mean of independent values in [0, 1] is `off` or more from its expectation."""
    return min(1.0, 2 * math.exp(-2 * runs * off * off))


def fit(counts: Sequence[int], law: Sequence[float]) -> float:
    """At most the probability that `counts` of independent draws fit a law so badly, or worse.

    n KL(seen, law) >= x has probability e^-x (e x / d)^d at most, of d + 1 cells, x > d, for every
    n and law (Agrawal 2020, "Finite-sample concentration of the multinomial in relative entropy").
    A test that asks for more than p has a false alarm of p at most.
    """
    n, freedom = sum(counts), len(law) - 1
    distance = math.fsum(c * math.log(c / (n * p)) for c, p in zip(counts, law, strict=True) if c)
    return _beyond(distance, freedom)


def _beyond(distance: float, freedom: int) -> float:
    if distance <= freedom:
        return 1.0
    return math.exp(freedom - distance + freedom * math.log(distance / freedom))


def fits_although(true: Sequence[float], law: Sequence[float], draws: int, level: float) -> float:
    """`fit` of draws of another law is above `level`: a control that is missed.

    Merging cells makes no distance larger (data processing), so two cells are enough for a bound,
    and the number in one is binomial: of the best of those where the ratio of the laws is large.
    """
    freedom = len(law) - 1
    order = sorted(range(len(law)), key=lambda i: -true[i] / law[i])
    best = 1.0
    for size in range(1, len(order)):
        here, claimed = (math.fsum(each[i] for i in order[:size]) for each in (true, law))

        def passes(hits: int, p: float = claimed) -> bool:
            pairs = ((hits, p), (draws - hits, 1 - p))
            distance = math.fsum(c * math.log(c / (draws * q)) for c, q in pairs if c)
            return _beyond(distance, freedom) > level

        low, high = math.floor(draws * claimed), draws  # the distance grows above its zero
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if passes(middle) else (low, middle)
        best = min(best, float(bdtr(low, draws, min(1.0, here))))
    return max(best, NEVER)
