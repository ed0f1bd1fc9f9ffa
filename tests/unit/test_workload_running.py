"""Running sums over groups without a database: sensitivity, decoding, predicted errors, bars, weights."""

from __future__ import annotations

import random
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import fix_chance
from fix_seeded import Seeded
from pg_epsilon.errors import DPError
from pg_epsilon.mechanisms.matrix.lattice import on_lattice
from pg_epsilon.noise import current
from pg_epsilon.plan import Plan
from pg_epsilon.query.bounds import Lattice
from pg_epsilon.query.parse import parse_expression
from pg_epsilon.workload.running import Grouped, RunningSums, _designs, _queries, core
from pg_epsilon.workload.running_ask import Running, compile_running, group_weights
from unit.policies import column, document, planned, row_policy, user_policy

LATTICE = Lattice("x", 0, 1000, Fraction(1), whole=True)


class NoNoise:
    """Adds nothing."""

    def laplace(self, exact: Any, **how: Any) -> list[int]:
        return list(exact)

    gaussian = laplace


PAY = column("pay", "integer", 23, kind="bounds", lower="0", upper="1000")


def asked(*, users: bool, shown: bool = True) -> Plan:
    """A sum over ten buckets, two outside of them, and NULL; with running sums, or not."""
    policy = user_policy if users else row_policy
    running = [{"aggregate": 0, "key": 0, "descending": False, "alone": False}]
    return planned(
        policy(columns=[*document()["columns"], PAY], max_rows=10_000),
        keys=["width_bucket(pay, 0, 1000, 10)"],
        aggregates=["sum(pay)"],
        budget={"epsilon": "1"},
        running=running if shown else None,
    )


def test_a_users_rows_are_so_many_times_the_noise_of_one() -> None:
    """Five rows of a user count, in any groups: the same strategy, five times the error, and still no further off than
    every group with noise of its own."""
    of_rows, of_users = asked(users=False).choices[0], asked(users=True).choices[0]
    (rows,), (users,) = of_rows.estimator.measures, of_users.estimator.measures
    assert isinstance(rows, RunningSums) and isinstance(users, RunningSums)
    assert (rows.units, users.units, users.drawn) == (1, 5, rows.drawn)
    errors = dict(of_users.candidates)
    assert (of_users.estimator.expected_error() or 0) < (errors["each by itself"] or 0)
    assert of_users.estimator.expected_error() == pytest.approx(5 * (of_rows.estimator.expected_error() or 0), rel=1e-4)
    (alone,) = asked(users=True, shown=False).choices[0].estimator.measures
    assert errors["each by itself"] == pytest.approx(
        alone.l1 * 2**0.5 * (sum(range(1, 14)) / 13) ** 0.5,  # type: ignore[attr-defined]
        rel=1e-3,
    )
    statement = asked(users=True).statement or ""
    assert "rn <= 5" in statement and "LEAST(" in statement


def measure(
    weights: tuple[int, ...],
    *,
    descending: bool = False,
    alone: bool = False,
    rho: str | None = None,
    place: int = 0,
    outer: int = 1,
    inner: int = 1,
    units: int = 1,
) -> RunningSums:
    run = Running(0, 0, descending, alone, weights)
    inside = tuple(weight for weight in weights if weight)
    name, strategy, _ = _designs(_queries(weights, run), inside, rho is not None)[place]
    drawn = on_lattice(strategy, inside, 10_000)
    epsilon = None if rho else Decimal("0.5")
    return RunningSums(outer, inner, weights, name, drawn, descending, epsilon, Decimal(rho) if rho else None, units)


WEIGHTS = [(0, 100, 200, 300, 1000), (5, 5, 5, 5, 5, 5, 5), (1, 1000), (0, 7, 7, 0, 9)]


@pytest.mark.parametrize("weights", WEIGHTS, ids=str)
@pytest.mark.parametrize("place", range(4))
def test_a_row_changes_the_answers_by_the_sensitivity_at_most(weights: tuple[int, ...], place: int) -> None:
    """Of every strategy: at the weight of some group the bound is reached."""
    how = measure(weights, place=place)
    inside = [weight for weight in weights if weight]
    before = [random.Random(place).randrange(10_000) for _ in inside]
    changes = []
    for group, weight in enumerate(inside):
        after = [value + weight * (number == group) for number, value in enumerate(before)]
        pairs = zip(how.drawn.answers(before), how.drawn.answers(after), strict=True)
        changes.append(sum(abs(a - b) for a, b in pairs))
    assert max(changes) == how.drawn.l1


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("weights", WEIGHTS, ids=str)
def test_without_noise_every_group_has_its_sum(weights: tuple[int, ...], descending: bool) -> None:
    """In every combination of other keys before and behind; a group of weight 0 is 0."""
    how = measure(weights, descending=descending, outer=3, inner=2)
    numbers = random.Random(7)
    exact = [numbers.randrange(100) * weights[cell // 2 % len(weights)] for cell in range(6 * len(weights))]
    assert [one[0] for one in core([*exact], how, NoNoise(), "a1")] == exact  # type: ignore[arg-type]


@pytest.mark.parametrize("units", [1, 3])
@pytest.mark.parametrize("rho", [None, "0.1"])
def test_running_sums_are_as_near_as_predicted(rho: str | None, units: int) -> None:
    """2,000 draws of a fixed seed: a mean square of n draws is within 7 sqrt(kurtosis / n) of its mean; the kurtosis of
    sums of Laplace variables is at most 6, so 0.39. Released deviations are those of single groups. units: of so many
    rows of a user."""
    weights = (0, 100, 200, 300, 500, 1000)
    how = measure(weights, rho=rho, units=units)
    run = Running(0, 0, False, False, weights)
    factors = _designs(_queries(weights, run), weights[1:], rho is not None)[0][2]
    variance = (factors / (2 * float(rho)) if rho else factors * 2 / 0.25) * units**2
    source = Seeded(20261127)
    drawn = [core([0] * 6, how, source, "a1") for _ in range(2_000)]
    groups = np.array([[cell[0] for cell in one] for one in drawn], dtype=float)
    found = np.square(np.cumsum(groups, axis=1)).mean(axis=0)
    assert found[0] == 0
    assert np.abs(found[1:] / variance[1:] - 1).max() < 0.4
    deviations = np.array([cell[1] / 1024 for cell in drawn[0]])
    assert np.abs(np.square(groups).mean(axis=0)[1:] / np.square(deviations[1:]) - 1).max() < 0.4


@pytest.mark.chance(fix_chance.hoeffding(300, 0.16))
@pytest.mark.parametrize("rho", [None, "0.1"])
def test_bars_hold_as_often_as_they_say(rho: str | None) -> None:
    """300 draws of 6 groups at 90 %, the draws independent: 0.16 is left to chance."""
    how = Grouped(measure((100,) * 6, rho=rho), Fraction(1), True, Fraction(1))
    held = []
    for _ in range(300):
        for raw in core([5_000] * 6, how.measure, current(), "a1"):
            low, high, _ = how.bars(raw, Decimal("0.9"))
            assert int(low or 0) <= int(how.present(raw) or 0) <= int(high or 0)
            held.append(int(low or 0) <= 5_000 <= int(high or 0))
    assert np.mean(held) > 0.9 - 0.16


@pytest.mark.parametrize("rho", [None, "0.1"])
def test_bars_are_no_wider_than_they_must_be(rho: str | None) -> None:
    """3,000 draws of a fixed seed at 80 %: the share of each group within 0.8 +- 0.04, 5.4 standard deviations."""
    how = Grouped(measure((0, 40_000, 10_000, 30_000, 20_000, 20_000), rho=rho), Fraction(1), True, Fraction(1))
    source = Seeded(20261127)
    held = []
    for _ in range(3_000):
        shown = [how.bars(raw, Decimal("0.8")) for raw in core([5_000] * 6, how.measure, source, "a1")]
        held.append([int(low or 0) <= 5_000 <= int(high or 0) for low, high, _ in shown[1:]])
    assert np.abs(np.mean(held, axis=0) - 0.8).max() < 0.04


def test_bars_of_a_strategy_that_is_no_longer_found_are_wider() -> None:
    how = Grouped(measure((100,) * 6), Fraction(1), True, Fraction(1))
    value, deviation, largest = core([5_000] * 6, how.measure, NoNoise(), "a1")[0]  # type: ignore[arg-type]
    found = [how.bars((value, deviation + more, largest), Decimal("0.9")) for more in (0, 1)]
    assert int(found[1][0] or 0) < int(found[0][0] or 0) < value < int(found[0][1] or 0) < int(found[1][1] or 0)


def test_more_groups_hardly_cost_more() -> None:
    """Of forty running sums: noise of its own for every group has 20.5 times the variance of one on average."""
    weights = (1000,) * 40
    run = Running(0, 0, False, False, weights)
    factors = _designs(_queries(weights, run), weights, False)[0][2]
    assert factors.mean() < 20.5e6 / 1.5


BUCKETS = [
    ("width_bucket(x, 0, 1000, 4)", (0, 250, 500, 750, 1000, 1000)),
    ("width_bucket(x, 100, 300, 2)", (100, 200, 300, 1000)),
    ("width_bucket(x, 0, 10, 3)", (0, 4, 7, 10, 1000)),
    ("width_bucket(x, 1000, 0, 2)", (1000, 1000, 1000, 1000)),
    ("width_bucket(y, 0, 1000, 2)", (1000, 1000, 1000, 1000)),
]


@pytest.mark.parametrize(("key", "weights"), BUCKETS)
def test_weights_are_upper_edges(key: str, weights: tuple[int, ...]) -> None:
    arguments = parse_expression(key).args
    domain = [str(place) for place in range(len(weights))]
    found = group_weights(arguments, "x", LATTICE, domain, lambda texts: list(texts))
    assert found == weights


@pytest.mark.parametrize("item", [{}, {"aggregate": 0, "key": 0}, 5, {"aggregate": True, "key": 0}])
def test_other_forms_are_refused(item: Any) -> None:
    with pytest.raises(DPError, match="running"):
        compile_running({"running": [item], "keys": ["x"]}, [], [], lambda texts: list(texts))
