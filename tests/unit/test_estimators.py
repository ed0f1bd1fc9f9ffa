"""What is shown of released integers: texts, and bars that hold as often as they say (composition.md §8)."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction

import pytest

import fix_chance
from pg_epsilon.accounting.margins import laplace_margin
from pg_epsilon.mechanisms.additive import Additive
from pg_epsilon.mechanisms.estimators import Average, Estimator, Joined, Number, Quantile, Spread, Truncated, text
from pg_epsilon.mechanisms.grain import GRAIN
from pg_epsilon.mechanisms.r2t import Ladder, thresholds
from pg_epsilon.mechanisms.r2t_join import JoinLadder
from pg_epsilon.mechanisms.ranks import Ranks
from pg_epsilon.noise import current

HALF = Decimal("0.5")
CENTS = Fraction(1, 100)


def test_texts() -> None:
    assert text(Fraction(5, 2), 0) == "2"
    assert text(Fraction(-1, 100), 2) == "-0.01"
    assert text(Fraction(10**30, 3), 2) == "333333333333333333333333333333.33"
    assert Number(Additive(1, 1, HALF)).present([-7]) == "-7"
    assert Number(Additive(1, 1, HALF), CENTS, False).present([-7]) == "-0.07"
    assert Number(Additive(1, 1, HALF), Fraction(10)).present([2**63 - 1]) == str(2**63 - 1)
    assert Number(Additive(1, 1, HALF), Fraction(1, 3), False).present([1]) == "0.333333333333"


def average(low: int, high: int) -> Average:
    centre = (low + high) // 2
    return Average(Additive(high - centre, 0, HALF), Additive(1, 1, HALF), CENTS, low, high, centre)


def test_an_average_is_about_its_centre_and_inside_its_range() -> None:
    found = average(0, 1000)
    assert found.present([0, 10]) == "5.00000000"
    assert found.present([100, 10]) == "5.10000000"
    assert found.present([10**9, 1]) == "10.00000000"
    assert found.present([-(10**9), 0]) == "0.00000000"
    assert found.present([3, -50]) == "5.03000000"


def spread(sample: bool, root: bool, grain: int = 1) -> Spread:
    parts = Additive(1, 1, HALF), Additive(50, 2500, HALF), Additive(2500, 2500**2, HALF)
    return Spread(*parts, Fraction(grain), 50, Fraction(1), sample, root)


def test_spreads_are_those_of_postgresql() -> None:
    values = [-5, 3, 8, 8, 20]
    raw = [len(values), sum(values), sum(v * v for v in values)]
    kinds: list[tuple[bool, bool, Callable[[Sequence[int]], float]]] = [
        (True, False, statistics.variance),
        (False, False, statistics.pvariance),
        (True, True, statistics.stdev),
        (False, True, statistics.pstdev),
    ]
    for sample, root, oracle in kinds:
        shown = spread(sample, root).present(raw)
        assert shown is not None
        assert float(shown) == pytest.approx(oracle(values), abs=1e-5)


def test_a_spread_of_too_few_released_rows_is_null() -> None:
    assert spread(True, False).present([1, 0, 0]) is None
    assert spread(False, False).present([0, 0, 0]) is None
    assert spread(False, True).present([1, 5, 25]) == "0.000000"
    assert spread(True, False).present([2, 10**9, -(10**9)]) == "0.000000"
    assert spread(False, False).present([2, 0, 10**9]) == "2500.000000"


def test_a_quantile_is_a_point_of_the_lattice() -> None:
    ranks = Ranks(4, Fraction(1, 2), 1, HALF)
    assert Quantile(ranks, -100, 299, 100, CENTS, False).present([0]) == "-0.50"
    assert Quantile(ranks, -100, 249, 100, CENTS, False).present([3]) == "2.49"
    assert Quantile(ranks, 0, 3, 1, Fraction(1), True).present([3]) == "3"


@pytest.mark.parametrize(
    ("low", "stride", "point", "shown"),
    [(0, 100, 25, "25.00"), (50, 100, 0, "0.50"), (50, 100, 2, "2.00"), (0, 300, 2, "7.00"), (0, 300, 99, "99.50")],
)
def test_a_quantile_is_a_declared_value(low: int, stride: int, point: int, shown: str) -> None:
    """Declared are whole numbers, the type has cents; an end of the range that is none stays an end."""
    ranks = Ranks(100, Fraction(1, 2), 1, HALF)
    assert Quantile(ranks, low, 9950, stride, CENTS, False, 100).present([point]) == shown


def test_an_answer_of_r2t_is_cut_at_what_rows_allow() -> None:
    ladder = Ladder((2, 4, 8), (8,), 1, HALF)
    assert Truncated(ladder).present([0, 0, 73_374]) == str(73_374 - ladder.penalties(Fraction(ladder.beta))[2])
    cut = Truncated(ladder, most=(26, 0))
    assert cut.present([0, 0, 73_374]) == "26"
    assert cut.bars([0, 0, 73_374], Decimal("0.9")) == ("26", None, None)
    assert cut.present([0, 0, 0]) == "0"
    two = Truncated(Ladder((2, 4, 8), (8, 8), 2, HALF), most=(26, 4))
    assert two.present([0, 0, 9_999, 0, 0, 9_999]) == "22"
    joined = JoinLadder((2, 8), 2, False, HALF, Decimal("0.1"))
    assert Joined(joined, most=26).present([73_374 * GRAIN]) == "26"
    assert Joined(joined, Fraction(1, 4), False, 26).present([5 * GRAIN]) == "1.25"


def released(estimator: Estimator, exact: Sequence[int], runs: int) -> list[list[int]]:
    """What so many runs release, of the same exact integers."""
    columns: list[list[int]] = [[] for _ in range(runs)]
    start = 0
    for measure in estimator.measures:
        cells = [exact[start : start + measure.width]] * runs
        for found, values in zip(columns, measure.release(cells, current(), "x"), strict=True):
            found.extend(values)
        start += measure.width
    return columns


TIMES = 2_000


def coverage(estimator: Estimator, exact: Sequence[int], true: float, confidence: str) -> float:
    """How often the bar holds the true value; an end that is unknown holds."""
    runs, inside = released(estimator, exact, TIMES), 0
    for raw in runs:
        low, high, _ = estimator.bars(raw, Decimal(confidence))
        inside += (low is None or float(low) <= true + 1e-9) and (high is None or float(high) >= true - 1e-9)
    return inside / len(runs)


rng = random.Random(20261121)
SAMPLE = [min(max(round(rng.gauss(300, 150)), 0), 1000) for _ in range(400)]
CENTRED = [v - 500 for v in SAMPLE]
LADDER = Ladder(thresholds(10**4, Fraction(2)), (10**4,), 1, Decimal(1))
CASES: list[tuple[str, Estimator, list[int], float]] = [
    ("count", Number(Additive(1, 1, Decimal("0.1"))), [40], 40),
    ("sum", Number(Additive(1000, 10**6, HALF), CENTS, False), [sum(SAMPLE)], sum(SAMPLE) / 100),
    ("gaussian sum", Number(Additive(1000, 10**6, rho=Decimal("0.02")), CENTS, False), [5], 0.05),
    ("avg", average(0, 1000), [sum(CENTRED), len(SAMPLE)], sum(SAMPLE) / len(SAMPLE) / 100),
    ("avg of few", average(0, 1000), [-500, 3], (500 - 500 / 3) / 100),
    (
        "variance",
        Spread(
            *(Additive(n, n * n, HALF) for n in (1, 500, 250_000)), Fraction(1), 500, CENTS, sample=True, root=False
        ),
        [len(SAMPLE), sum(CENTRED), sum(v * v for v in CENTRED)],
        statistics.variance(SAMPLE) / 10_000,
    ),
    (
        "stddev",
        Spread(
            *(Additive(n, n * n, HALF) for n in (1, 500, 250_000)), Fraction(1), 500, CENTS, sample=False, root=True
        ),
        [len(SAMPLE), sum(CENTRED), sum(v * v for v in CENTRED)],
        statistics.pstdev(SAMPLE) / 100,
    ),
    ("R2T", Truncated(LADDER), [sum(min(v, t) for v in SAMPLE) for t in LADDER.levels], sum(SAMPLE)),
]


@pytest.mark.chance(fix_chance.hoeffding(TIMES, 0.07))
@pytest.mark.parametrize("confidence", ["0.5", "0.9", "0.99"])
@pytest.mark.parametrize(("name", "estimator", "exact", "true"), CASES, ids=[case[0] for case in CASES])
def test_bars_hold_as_often_as_they_say(
    name: str, estimator: Estimator, exact: list[int], true: float, confidence: str
) -> None:
    """Of 2,000 runs; 0.07 is left to chance."""
    assert coverage(estimator, exact, true, confidence) >= float(confidence) - 0.07, name


@pytest.mark.chance(
    fix_chance.binomial(TIMES, 1 - fix_chance.laplace(10, laplace_margin(10, Fraction(1, 10))), 0, 97 * TIMES // 100)
)
def test_the_noise_part_is_not_wider_than_it_must_be() -> None:
    """The bar of a count at 0.9 misses with probability 0.1, less the width of an integer: above 0.03 in 2,000 runs."""
    count = Number(Additive(1, 1, Decimal("0.1")))
    assert coverage(count, [40], 40, "0.9") <= 0.97


def test_what_is_unknown_is_said_to_be() -> None:
    assert Truncated(LADDER).bars([0] * LADDER.width, Decimal("0.9"))[1:] == (None, None)
    two = Ladder((2, 4), (4, 3), 1, HALF)
    assert Truncated(two).bars([9] * two.width, Decimal("0.9")) == (None, None, None)
    assert Quantile(Ranks(4, Fraction(1, 2), 1, HALF), 0, 3, 1, CENTS, False).bars([1], HALF) == (None, None, None)


def test_the_bar_of_an_average_of_nothing_is_its_range() -> None:
    low, high, error = average(0, 1000).bars([0, -40], Decimal("0.95"))
    assert (low, high, error) == ("0.00000000", "10.00000000", None)


def test_deviations_are_those_of_the_noise() -> None:
    """Against the sum over the distribution."""
    p = math.exp(-1 / 20)
    exact = math.sqrt(2 * p) / (1 - p)
    assert Additive(10, 100, HALF).deviation() == pytest.approx(exact, rel=1e-9)
    assert Additive(10, 100, rho=Decimal(2)).deviation() == pytest.approx(5)
