"""Sums over thresholds where the unit is a user: the same meaning by one release as by themselves (nested.py)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import fix_chance
from fix_seeded import Seeded
from pg_epsilon.errors import DPError
from pg_epsilon.mechanisms import group_by
from pg_epsilon.noise import current
from pg_epsilon.plan import Plan
from pg_epsilon.workload.batch import Batch
from pg_epsilon.workload.designs import variance
from pg_epsilon.workload.nested import Totals, levels, text
from unit.policies import column, document, planned, user_policy
from unit.test_workload_core import NoNoise

HIGH, KAPPA = 1000, 5
MOST = HIGH * KAPPA
"""What a user's total of any sum is clamped to, without groups."""
PAY = column("pay", "integer", 23, kind="bounds", lower="0", upper=str(HIGH))
STEPS = (100, 250, 500, 750)
SUMS = [*(f"sum(pay) FILTER (WHERE pay <= {step})" for step in STEPS), "sum(pay)"]
Users = list[list[int]]


def asked(aggregates: Sequence[Any] = SUMS, keys: Sequence[str] = (), **members: Any) -> Plan:
    policy = user_policy(columns=[*document()["columns"], PAY], max_rows=10_000)
    budget = {} if "budget" in members else {"budget": {"epsilon": "2"}}
    return planned(policy, aggregates=list(aggregates), keys=list(keys), **{**budget, **members})


def batch(plan: Plan) -> Batch:
    found = plan.measures[-1]
    assert isinstance(found, Batch)
    return found


def totals(users: Users) -> list[int]:
    """What each sum by itself reads: the users' totals, each clamped."""
    return [sum(min(sum(v for v in user if v <= step), MOST) for user in users) for step in (*STEPS, HIGH)]


def some_users(seed: int, count: int = 30) -> Users:
    """Of none to twelve rows: many own more than five."""
    draw = random.Random(seed)
    return [[draw.randint(0, HIGH) for _ in range(draw.randint(0, 12))] for _ in range(count)]


def drawn(plan: Plan, noise: Any, cell: Sequence[Any]) -> list[int]:
    (raw,) = group_by.core({(): list(cell)}, [], plan.measures, noise)
    return raw


@pytest.mark.parametrize("seed", range(5))
def test_nested_sums_are_those_of_clamped_totals(seed: int) -> None:
    """What the sums by themselves read is read; without noise the answers are the very integers."""
    plan, apart = asked(), asked(settings={"dp.workloads": "off"})
    assert isinstance(batch(plan), Totals)
    assert apart.joint is None
    assert plan.choices[-1].statistics[-1].condition is None, "the widest range is the last"
    assert {(read.value, read.condition, read.clamp) for read in plan.choices[-1].statistics} == {
        (read.value, read.condition, read.clamp) for choice in apart.choices for read in choice.statistics
    }
    assert {read.clamp for read in plan.choices[-1].statistics} == {(0, MOST)}
    exact = totals(some_users(seed))
    raw = drawn(plan, NoNoise(), exact)
    assert plan.texts(raw) == [str(one) for one in exact]


@pytest.mark.parametrize("rho", [None, "0.05"])
@pytest.mark.parametrize("seed", range(20))
def test_a_user_moves_the_draw_by_no_more_than_is_declared(seed: int, rho: str | None) -> None:
    """Whoever comes or goes, with any rows; and whoever owns the most comes near to it."""
    budget = {"budget": {"rho": rho}} if rho else {}
    plan = asked(**budget)
    users = some_users(seed, 6)
    extremes: Users = [[step] * (1 + MOST // step) for step in (*STEPS, HIGH)]
    moved = []
    for gone in (*users, *extremes):
        noise = NoNoise()
        drawn(plan, noise, totals([*users, gone]))
        drawn(plan, noise, totals(users))
        first, second = (np.array(one["exact"], dtype=object) for one in noise.asked)
        change = first - second
        if rho:
            size, most = Fraction(int((change * change).sum())), noise.asked[0]["l2_squared"]
        else:
            size, most = Fraction(int(abs(change).sum())), noise.asked[0]["l1_sensitivity"]
        assert size <= most
        moved.append(size / most)
    assert max(moved) > Fraction(9, 10)


def test_a_strategy_scaled_for_one_row_is_caught() -> None:
    """The control of the test above: a user's total is several rows'."""
    plan = asked()
    one_row = batch(plan).best(MOST).on_lattice(10_000).l1 // KAPPA
    noise = NoNoise()
    drawn(plan, noise, totals([[HIGH] * 7]))
    drawn(plan, noise, totals([]))
    first, second = (np.array(one["exact"], dtype=object) for one in noise.asked)
    assert abs(first - second).sum() > one_row


def test_the_price_is_the_blocks_and_no_sum_is_further_off() -> None:
    plan = asked()
    assert plan.charge_text() == {"epsilon": "2"}
    errors = dict(plan.choices[-1].candidates)
    assert 0 < (errors["together"] or 0) < (errors["each by itself"] or 0)


NESTED = [
    (((1, 0, 0), (1, 1, 0), (1, 1, 1)), (0, 1, 2)),
    (((1, 1, 1), (0, 1, 1), (0, 1, 1), (0, 1, 0)), (2, 1, 1, 0)),
    (((1, 0, 0), (0, 1, 0), (1, 1, 1)), None),
    (((1, 1, 0), (0, 1, 1)), None),
]


@pytest.mark.parametrize(("rows", "expected"), NESTED)
def test_ranges_are_nested_or_not(rows: Any, expected: tuple[int, ...] | None) -> None:
    assert levels(tuple(tuple(map(Fraction, row)) for row in rows)) == expected


def test_steps_are_written_as_cells() -> None:
    assert text([3, 3, 10]) == "0 0 3;1 0 0;2 0 7"


OWN = {"function": "sum", "argument": "pay", "parameters": {"max_contribution": "7"}}
APART: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("not nested", [*SUMS[:3], "sum(pay) FILTER (WHERE pay > 100 AND pay <= 600)"], {}),
    ("disjoint", [f"sum(pay) FILTER (WHERE pay > {low} AND pay <= {low + 100})" for low in (0, 100, 200)], {}),
    ("R2T is asked for", SUMS, {"mechanism": "r2t"}),
    ("totals of one's own", [SUMS[0], OWN], {}),
    ("the setting", SUMS, {"settings": {"dp.workloads": "off"}}),
    ("too few values", [f"sum(yes) FILTER (WHERE yes <= {step})" for step in range(-2, 9)], {}),
]


@pytest.mark.parametrize(("why", "aggregates", "members"), APART, ids=[one[0] for one in APART])
def test_what_means_something_else_together_stays_apart(
    why: str, aggregates: list[Any], members: dict[str, Any]
) -> None:
    yes = column("yes", "integer", 23, kind="bounds", lower="0", upper="1")
    policy = user_policy(columns=[*document()["columns"], PAY, yes])
    assert planned(policy, aggregates=aggregates, budget={"epsilon": "2"}, **members).joint is None


@pytest.mark.parametrize("keys", [["sex"], []])
def test_rows_are_capped_where_they_are_by_themselves(keys: list[str]) -> None:
    """With groups, or beside an average: the first five rows of a user count, whatever the filters say, so that any
    ranges are one question; the noise is that of five rows."""
    aggregates = [*SUMS[:3], "sum(pay) FILTER (WHERE pay > 100 AND pay <= 600)", *([] if keys else ["avg(pay)"])]
    plan = asked(aggregates, keys)
    how = batch(plan)
    assert (type(how), how.units, how.workload.per) == (Batch, KAPPA, "row")
    noise = NoNoise()
    plan.measures[-1].release([["0 2 150"]] * plan.request.cells, noise, "a1")  # type: ignore[arg-type]
    assert noise.asked[0]["l1_sensitivity"] == how.best(HIGH).on_lattice(10_000).l1 * KAPPA
    statement = plan.statement or ""
    assert "n <= 5 AND f" in statement, "a filter takes rows out after the cap"
    errors = dict(plan.choices[-1].candidates)
    assert 0 < (errors["together"] or 0) < (errors["each by itself"] or 0)


def test_without_a_cap_the_sums_are_refused_as_ever() -> None:
    policy = user_policy(columns=[*document()["columns"], PAY], max_rows_per_unit=None)
    with pytest.raises(DPError) as refused:
        planned(policy, aggregates=SUMS, budget={"epsilon": "2"})
    assert refused.value.sqlstate == "DP004"


@pytest.mark.parametrize("rho", [None, "0.05"])
def test_nested_sums_are_as_near_as_predicted(rho: str | None) -> None:
    """2,000 draws of a fixed seed: a mean square of n draws is within 7 sqrt(kurtosis / n) of its mean; the kurtosis of
    sums of Laplace variables is at most 6, so 0.39."""
    plan = asked(**({"budget": {"rho": rho}} if rho else {}))
    how = batch(plan)
    predicted = how.best(MOST).factors * variance(how.amount, gaussian=rho is not None)
    exact, source = totals(some_users(1)), Seeded(20261127)
    found = np.zeros(len(SUMS))
    for _ in range(2_000):
        shown = [float(one or 0) for one in plan.texts(drawn(plan, source, exact))]
        found += np.square(np.array(shown) - exact) / 2_000
    assert plan.request.batch is not None
    for query, place in enumerate(plan.request.batch.members):
        assert abs(found[place] / predicted[query] - 1) < 0.4


@pytest.mark.chance(fix_chance.deviations(30, 5))
def test_no_sum_is_far_off_under_the_real_noise() -> None:
    plan = asked()
    how = batch(plan)
    worst = float((how.best(MOST).factors * variance(how.amount, gaussian=False)).max()) ** 0.5
    exact = totals(some_users(2))
    for value, expected in zip(plan.texts(drawn(plan, current(), exact)), exact, strict=True):
        assert abs(float(value or 0) - expected) <= 30 * worst + 1
