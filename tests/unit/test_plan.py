"""Sensitivities, shares, accounts and prices: public facts decide them (composition.md §2, §3.1, §14.3)."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from pg_epsilon.accounting.filters import Leaves, Relation, Root
from pg_epsilon.accounting.margins import laplace_scale, laplace_tail
from pg_epsilon.errors import DPError
from pg_epsilon.mechanisms.additive import Additive
from pg_epsilon.query.policy import Policy, policy_from_json
from unit.policies import document, planned, row_policy, user_policy

ROWS, USERS = ["count(*)"], ["count(DISTINCT owner)"]

SENSITIVITIES: list[tuple[str, Policy, list[str], list[str], tuple[int, int]]] = [
    ("a row is in one count", row_policy(), ROWS, [], (1, 1)),
    ("a row is in one group", row_policy(), ROWS, ["sex"], (1, 1)),
    ("a user is counted once", user_policy(), USERS, [], (1, 1)),
    ("a user has at most kappa rows", user_policy(), ROWS, [], (5, 25)),
    ("all of them may be in one group", user_policy(), ROWS, ["sex"], (5, 25)),
    ("a user is in at most every group", user_policy(), USERS, ["sex"], (3, 3)),
    ("a user is in at most kappa groups", user_policy(), USERS, ["sex", "age"], (5, 5)),
    ("without kappa in every group", user_policy(max_rows_per_unit=None), USERS, ["sex", "age"], (12, 12)),
    ("count of a column is a count of rows", user_policy(), ["count(sex)"], [], (5, 25)),
]


@pytest.mark.parametrize(("why", "policy", "aggregates", "keys", "expected"), SENSITIVITIES)
def test_sensitivity(
    why: str, policy: Policy, aggregates: list[str], keys: list[str], expected: tuple[int, int]
) -> None:
    (how,) = planned(policy, aggregates=aggregates, keys=keys).measures
    assert isinstance(how, Additive)
    assert (how.l1, how.l2_squared) == expected, why


def test_rows_of_users_need_a_declared_kappa() -> None:
    with pytest.raises(DPError) as refused:
        planned(user_policy(max_rows_per_unit=None))
    assert refused.value.sqlstate == "DP004"


def test_the_budget_is_split_equally_and_never_exceeded() -> None:
    plan = planned(row_policy(), aggregates=["count(*)", "count(sex)", "count(*) FILTER (WHERE age > 1)"])
    shares = [how.epsilon for how in plan.measures if isinstance(how, Additive)]
    assert len(shares) == 3
    assert len(set(shares)) == 1
    total = sum(share for share in shares if share is not None)
    assert Decimal("0.1") - Decimal("1e-17") < total <= Decimal("0.1")


def test_accuracy_buys_just_enough() -> None:
    plan = planned(row_policy(), budget={"alpha": "0.05", "beta": "0.01"})
    (how,) = plan.measures
    assert isinstance(how, Additive)
    assert how.epsilon is not None
    scale = laplace_scale(1, Fraction(how.epsilon))
    assert laplace_tail(scale, 51) <= Decimal("0.01") < laplace_tail(scale, 50)


def test_accuracy_needs_a_scale() -> None:
    with pytest.raises(DPError) as refused:
        planned(row_policy(scale=None), budget={"alpha": "0.05", "beta": "0.01"})
    assert refused.value.sqlstate == "DP004"


def test_gaussian_has_no_price_on_a_pure_dataset() -> None:
    plan = planned(row_policy(), budget={"rho": "0.01"})
    with pytest.raises(DPError) as refused:
        plan.charges[0].pure()
    assert refused.value.sqlstate == "DP005"


@pytest.mark.parametrize(("mechanism", "budget"), [("gaussian", {"epsilon": "1"}), ("laplace", {"rho": "1"})])
def test_a_mechanism_takes_its_own_budget(mechanism: str, budget: dict[str, str]) -> None:
    with pytest.raises(DPError) as refused:
        planned(row_policy(), mechanism=mechanism, budget=budget)
    assert refused.value.sqlstate == "DP005"


DAYS: list[tuple[str | None, Any]] = [
    (None, None),
    ("age > 1", None),
    ("day >= date '2024-01-01'", None),
    ("day >= date '2024-01-01' OR age > 1", None),
    ("day = date '2024-01-03'", {"[2024-01-01,2024-01-08)"}),
    ("day = date '2023-12-31'", {"[2023-12-25,2024-01-01)"}),
    (
        "age > 1 AND day BETWEEN date '2024-01-07' AND date '2024-01-08'",
        {"[2024-01-01,2024-01-08)", "[2024-01-08,2024-01-15)"},
    ),
    ("day >= date '2024-01-01' AND day < date '2024-01-08'", {"[2024-01-01,2024-01-08)"}),
    ("day IN (date '2024-01-01', date '2024-02-01')", {"[2024-01-01,2024-01-08)", "[2024-01-29,2024-02-05)"}),
]


@pytest.mark.parametrize(("where", "leaves"), DAYS)
def test_accounts_follow_the_predicate(where: str | None, leaves: set[str] | None) -> None:
    plan = planned(row_policy(), where=where)
    if leaves is None:
        assert plan.scope == Relation("public.people")
    else:
        assert plan.scope == Leaves("public.people", frozenset(leaves))
        assert plan.request.partitions is not None
        assert plan.statement is not None
        assert plan.request.partitions.sql in plan.statement


def test_listed_partitions_have_a_rest() -> None:
    columns = document()["columns"]
    policy = row_policy(partition_by="sex", grid={"list": ["f"]}, columns=columns)
    assert planned(policy, where="sex = 'f'").scope == Leaves("public.people", frozenset({"=f"}))
    assert planned(policy, where="sex IN ('f', 'q')").scope == Leaves("public.people", frozenset({"=f", "rest"}))
    assert planned(policy, where="sex > 'f'").scope == Relation("public.people")


def test_user_units_pay_at_the_root() -> None:
    assert planned(user_policy()).scope == Root()
    facts = document()
    facts["dataset"]["unit"] = "user"
    assert (
        planned(
            policy_from_json({**facts, "unit_column": "owner", "max_rows_per_unit": 1}), where="day = date '2024-01-03'"
        ).scope
        == Root()
    )


def test_a_declared_domain_is_free() -> None:
    plan = planned(row_policy(), keys=["sex"], aggregates=[])
    assert plan.charges == ()
    assert plan.statement is None
