"""A ladder bounds positive contributions only: negative ones always get a side of their own (dp-pqd.md §5.2)."""

from __future__ import annotations

import pytest

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
    """LEAST(v, threshold) of v in [-10, 0] is v: it moves by 10 at every threshold, for users by all they own."""
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
            assert "sum(LEAST(-v1" in str(plan.statement) or "sum(LEAST(m1" in str(plan.statement)
