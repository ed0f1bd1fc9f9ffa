"""Sums over thresholds of every group by one release, without a database: plan, statement, what is shown, errors."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import fix_chance
from fix_seeded import Seeded
from pg_epsilon.errors import DPError
from pg_epsilon.mechanisms import group_by
from pg_epsilon.noise import NoiseSource, current
from pg_epsilon.plan import Plan
from pg_epsilon.query.statistics import beside
from pg_epsilon.workload.batch import Batch
from pg_epsilon.workload.choice import _check
from pg_epsilon.workload.designs import variance
from unit.policies import column, document, planned, row_policy
from unit.test_workload_core import NoNoise, text

PAY = column("pay", "integer", 23, kind="bounds", lower="0", upper="1000")
STEPS = (100, 250, 500, 750, 1000)
SUMS = [f"sum(pay) FILTER (WHERE pay <= {step})" for step in STEPS]
VALUES = {"f": [3, 100, 101, 800], "m": [250, 250, 1000]}
"""What the rows of two groups hold; of a third, NULL, there is none."""


def asked(aggregates: Sequence[Any] = SUMS, keys: Sequence[str] = ("sex",), **members: Any) -> Plan:
    return planned(
        row_policy(columns=[*document()["columns"], PAY]),
        aggregates=list(aggregates),
        keys=list(keys),
        **{"budget": {"epsilon": "1"}, **members},
    )


def batch(plan: Plan) -> Batch:
    found = plan.measures[-1]
    assert isinstance(found, Batch)
    return found


def true(group: str | None) -> list[str | None]:
    return [str(sum(v for v in VALUES.get(group or "", []) if v <= step)) for step in STEPS]


def drawn(plan: Plan, noise: Any, statistics: dict[Any, list[Any]]) -> list[list[int]]:
    return group_by.core(statistics, [key.domain for key in plan.request.keys], plan.measures, noise)


def test_every_group_shows_its_own_sums_and_empty_ones_zeros() -> None:
    plan = asked()
    assert plan.joint is not None
    how = batch(plan)
    assert how.groups == 3
    noise = NoNoise()
    raw = drawn(plan, noise, {(group,): [text(how, values)] for group, values in VALUES.items()})
    assert [plan.texts(one, raw[0]) for one in raw] == [true("f"), true("m"), true(None)]
    assert len(noise.asked) == 1, "one draw over all groups"
    assert noise.asked[0]["l1_sensitivity"] == how.best(1000).on_lattice(how.most_rows).l1
    bars = [plan.bars(one, raw[0]) for one in raw]
    assert [len(one) for one in bars] == [5, 5, 5]
    errors = [[float(error or 0) for *_, error in one] for one in bars]
    assert errors[0] == errors[1] == errors[2], "groups are equally near"


def test_the_price_is_the_blocks_and_no_sum_is_further_off() -> None:
    plan = asked()
    assert plan.charge_text() == {"epsilon": "1"}
    errors = dict(plan.choices[-1].candidates)
    assert 0 < (errors["together"] or 0) < (errors["each by itself"] or 0)


def test_groups_cost_nothing_more_where_the_unit_is_a_row() -> None:
    alone = asked(keys=())
    assert dict(asked().choices[-1].candidates) == dict(alone.choices[-1].candidates)


def test_others_beside_it_keep_their_share() -> None:
    plan = asked(["count(*)", *SUMS, "avg(age)"])
    assert plan.joint is not None
    assert [c.to_json()["epsilon"] for c in plan.charges[-1:]] == ["0.714285714285714285"], "five of seven shares"
    raw = drawn(
        plan,
        NoNoise(),
        {(group,): [7, 9, 4, text(batch(plan), values)] for group, values in VALUES.items()},
    )
    shown = [plan.texts(one, raw[0]) for one in raw]
    assert [one[1:6] for one in shown] == [true("f"), true("m"), true(None)]
    assert len({one[0] for one in shown[:2]}) == 1 and shown[2][0] == "0"
    assert plan.statement is not None
    assert plan.statement.startswith("SELECT k1, coalesce(max(a1), 0) AS a1,")


TWO: list[list[str]] = [
    ["sum(pay)", "sum(pay) FILTER (WHERE pay <= 1)"],
    ["sum(pay) FILTER (WHERE pay <= 500)", "sum(pay) FILTER (WHERE pay > 500)"],
    ["sum(pay) FILTER (WHERE pay <= 999)", "sum(pay) FILTER (WHERE pay <= 1000)"],
    ["sum(pay) FILTER (WHERE pay BETWEEN 900 AND 950)", "sum(pay) FILTER (WHERE pay <= 700)"],
]


@pytest.mark.parametrize("keys", [(), ("sex",)], ids=str)
@pytest.mark.parametrize("budget", [{"epsilon": "1"}, {"rho": "0.1"}], ids=str)
@pytest.mark.parametrize("sums", TWO, ids=lambda sums: sums[1][9:])
def test_two_sums_are_a_workload(sums: list[str], budget: dict[str, str], keys: tuple[str, ...]) -> None:
    """Of two ranges one release has at most twice a sum's squared sensitivity, two releases four times (rho: twice):
    nearer, or not further off."""
    plan = asked(sums, keys, budget=budget)
    assert plan.joint is not None
    errors = dict(plan.choices[-1].candidates)
    assert errors["together"] <= errors["each by itself"] * (1 if "rho" in budget else Fraction(3, 4))


APART: list[tuple[str, dict[str, Any]]] = [
    ("one sum", {"aggregates": [SUMS[0], SUMS[0], "count(*)"]}),
    ("a mechanism is asked for", {"mechanism": "laplace"}),
    ("a median shares the scan", {"aggregates": [*SUMS, "median(pay)"]}),
    ("the setting", {"settings": {"dp.workloads": "off"}}),
    ("a filter on another column", {"aggregates": [SUMS[0], "sum(pay) FILTER (WHERE age <= 1)"]}),
]


@pytest.mark.parametrize(("why", "members"), APART, ids=[why for why, _ in APART])
def test_what_is_no_workload_stays_apart(why: str, members: dict[str, Any]) -> None:
    aggregates = members.pop("aggregates", SUMS)
    plan = asked(aggregates, **members)
    assert plan.joint is None
    assert "FROM (" in (plan.statement or "")


@pytest.mark.parametrize(("codes", "together"), [(9_999, True), (10_000, False)])
def test_more_groups_than_are_soon_shown_stay_apart(codes: int, together: bool) -> None:
    """50,000 sums of all groups are the most: five of each code, and of NULL."""
    code = column("code", "integer", 23, kind="bounds", lower="1", upper=str(codes))
    columns = [*document()["columns"], PAY, code]
    plan = planned(row_policy(columns=columns), aggregates=SUMS, keys=["code"], budget={"epsilon": "1"})
    assert (plan.joint is not None) == together


def test_the_order_of_keys_and_sums_is_no_other_question() -> None:
    young = column("young", "boolean", 16, kind="domain", domain=["t", "f"])
    policy = row_policy(columns=[*document()["columns"], PAY, young])
    first = planned(policy, aggregates=SUMS, keys=["sex", "young"], budget={"epsilon": "1"})
    second = planned(policy, aggregates=SUMS[::-1], keys=["young", "sex"], budget={"epsilon": "1"})
    assert first.joint is not None
    assert (first.cache_key, first.statement) == (second.cache_key, second.statement)
    noise = NoNoise()
    raw = drawn(first, noise, {("f", "t"): [text(batch(first), VALUES["f"])]})
    shown = [[plan.texts(one, raw[0]) for one in raw] for plan in (first, second)]
    assert shown[0] == [one[::-1] for one in shown[1]]


def test_statements_beside_each_other_keep_every_group() -> None:
    assert beside(2, 1, "A", "B") == (
        "SELECT k1, k2, coalesce(max(a1), 0) AS a1, max(b) AS b FROM"
        " (SELECT k1, k2, a1, NULL::text AS b FROM (A) AS r UNION ALL SELECT k1, k2, NULL, b FROM (B) AS w) AS s"
        " GROUP BY k1, k2"
    )


def measured(plan: Plan, noise: NoiseSource, runs: int) -> np.ndarray[Any, Any]:
    """The mean square of every sum's error over runs of three groups, in the place of the sum."""
    how = batch(plan)
    statistics: dict[Any, list[Any]] = {(group,): [text(how, values)] for group, values in VALUES.items()}
    truth = np.array([[float(one or 0) for one in true(group)] for group in ("f", "m", None)])
    found = np.zeros(len(STEPS))
    for _ in range(runs):
        raw = drawn(plan, noise, statistics)
        shown = np.array([[float(one or 0) for one in plan.texts(one, raw[0])] for one in raw])
        found += np.square(shown - truth).mean(axis=0) / runs
    return found


@pytest.mark.long
def test_sums_are_as_near_as_predicted() -> None:
    """600 draws of three groups, of a fixed seed: a mean square of n draws is within 7 sqrt(kurtosis / n) of its mean;
    the kurtosis of sums of Laplace variables is at most 6, so 0.41."""
    plan = asked()
    how = batch(plan)
    predicted = how.best(1000).factors * variance(how.amount, gaussian=False)
    assert predicted.max() ** 0.5 < float(dict(plan.choices[-1].candidates)["together"] or 0) * 1.01
    found = measured(plan, Seeded(20261127), 600)
    assert np.abs(found / predicted - 1).max() < 0.41


def test_too_many_cells_of_groups_by_blocks_are_refused() -> None:
    """What is released is two integers a block and one a query, in each group: at most 10^6 (sum-workloads.md §0)."""
    how = batch(asked())
    size = len(how.workload.rows) + 2 * how.workload.blocks
    _check(dataclasses.replace(how, groups=10**6 // size))
    with pytest.raises(DPError, match="more than 1000000 cells of groups") as refused:
        _check(dataclasses.replace(how, groups=10**6 // size + 1))
    assert (refused.value.sqlstate, bool(refused.value.hint)) == ("DP005", True)


@pytest.mark.chance(fix_chance.deviations(30, 15))
def test_no_sum_is_far_off_under_the_real_noise() -> None:
    plan = asked()
    how = batch(plan)
    worst = float((how.best(1000).factors * variance(how.amount, gaussian=False)).max()) ** 0.5
    raw = drawn(plan, current(), {(group,): [text(how, values)] for group, values in VALUES.items()})
    for group, one in zip(("f", "m", None), raw, strict=True):
        for value, expected in zip(plan.texts(one, raw[0]), true(group), strict=True):
            assert abs(float(value or 0) - float(expected or 0)) <= 30 * worst + 1
