"""A ladder bounds positive contributions only: negative ones always get a side of their own (dp-pqd.md §5.2)."""

from __future__ import annotations

from typing import Any

import pytest

from pg_epsilon.errors import DPError
from pg_epsilon.mechanisms.r2t import Ladder
from pg_epsilon.query.policy import Policy
from unit.policies import planned, row_policy, user_policy

CASES = [
    ("-10", "0", (1, 10), (1, 50)),
    ("-10", "-3", (1, 10), (1, 50)),
    ("-10", "2", (2, 10), (10, 50)),
    ("0", "10", (10,), (50,)),
    ("4", "10", (10,), (50,)),
    ("0", "0", (1,), (1,)),
]


@pytest.mark.parametrize(("lower", "upper", "row", "user"), CASES)
def test_no_negative_value_is_on_the_positive_side(
    lower: str, upper: str, row: tuple[int, ...], user: tuple[int, ...]
) -> None:
    """What a threshold leaves of v in [-10, 0] is v: it moves by 10 at every one, for users by all they own."""
    policies: list[tuple[Policy, tuple[int, ...]]] = [(row_policy(), row), (user_policy(), user)]
    for policy, sides in policies:
        sum_ = {"function": "sum", "argument": "age", "parameters": {"lower": lower, "upper": upper}}
        plan = planned(policy, aggregates=[sum_], mechanism="r2t")
        (ladder,) = plan.measures
        assert isinstance(ladder, Ladder)
        assert ladder.sides == sides
        assert ladder.joint == (2 if policy.has_user_units and float(lower) < 0 < float(upper) else 1)
        (statistic,) = plan.choices[0].statistics
        assert tuple(map(len, statistic.levels)) == ladder.counts
        if float(lower) < 0:
            assert "sum(-v1) FILTER (WHERE -v1 > 0)" in str(plan.statement) or "sum(LEAST(m1" in str(plan.statement)


UNBOUNDED: list[tuple[dict[str, str], int, dict[str, Any]]] = [
    ({}, 1000, {"mechanism": "laplace"}),
    ({}, 2**31 - 1, {"mechanism": "r2t"}),
    ({}, 1000, {"budget": {"rho": "1"}}),
    ({"max_contribution": "1e20"}, 5, {"mechanism": "laplace"}),
    ({"max_contribution": "1e99"}, 5, {"mechanism": "r2t", "budget": {"epsilon": "1000"}}),
    ({"upper": "9"}, 5, {"mechanism": "laplace", "budget": {"epsilon": "1e-18"}}),
    ({"upper": "9"}, 5, {"mechanism": "r2t", "budget": {"epsilon": "1e-18"}}),
]


@pytest.mark.parametrize(("parameters", "kappa", "members"), UNBOUNDED)
def test_what_cannot_be_read_or_drawn_is_refused_by_the_plan(
    parameters: dict[str, str], kappa: int, members: dict[str, Any]
) -> None:
    """A total of a unit beyond 64 bits raised next to its rows, and noise without a scale only after the charge."""
    sum_ = {"function": "sum", "argument": "age", "parameters": {"lower": "0", "upper": "9e15", **parameters}}
    with pytest.raises(DPError) as refused:
        planned(user_policy(max_rows_per_unit=kappa), aggregates=[sum_], **members)
    assert refused.value.sqlstate == "DP005"
    assert refused.value.hint
