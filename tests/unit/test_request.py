"""The request form: what is accepted, what is refused with which SQLSTATE, and that equal questions look equal."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from pg_epsilon.errors import DPError
from pg_epsilon.query.request import canonical_text
from unit.policies import asked, row_policy, user_policy

REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("DP003", {"unknown": 1}),
    ("DP003", {"version": 2}),
    ("DP003", {"from": 5}),
    ("DP003", {"where": 5}),
    ("DP003", {"keys": "sex"}),
    ("DP003", {"keys": ["sex || 'x'"]}),
    ("DP003", {"keys": [None]}),
    ("DP003", {"aggregates": ["max(age)"]}),
    ("DP003", {"aggregates": ["sum(DISTINCT age)"]}),
    ("DP003", {"aggregates": ["sum(*)"]}),
    ("DP003", {"aggregates": ["sum(1)"]}),
    ("DP003", {"aggregates": ["avg(sex)"]}),
    ("DP003", {"aggregates": ["percentile_disc(0.5, age)"]}),
    ("DP003", {"aggregates": ["percentile_disc(0.5) WITHIN GROUP (ORDER BY age DESC)"]}),
    ("DP004", {"aggregates": ["sum(owner)"]}),
    ("DP005", {"aggregates": [{"function": "percentile_cont", "argument": "age"}]}),
    ("DP005", {"aggregates": [{"function": "sum", "argument": "age", "parameters": {"fraction": "0.5"}}]}),
    ("DP005", {"aggregates": [{"function": "sum", "argument": "age", "parameters": {"base": "3"}}]}),
    ("DP005", {"aggregates": [{"function": "sum", "argument": "age", "parameters": {"lower": "2", "upper": "1"}}]}),
    ("DP003", {"aggregates": [{"function": "sum", "argument": "age", "parameters": {"lowest": "2"}}]}),
    ("DP003", {"aggregates": ["count(*) OVER ()"]}),
    ("DP003", {"aggregates": ["count(age, age)"]}),
    ("DP003", {"aggregates": ["count(DISTINCT age)"]}),
    ("DP003", {"aggregates": ["count(age ORDER BY age)"]}),
    ("DP003", {"aggregates": ["pg_temp.count(*)"]}),
    ("DP003", {"aggregates": [{"function": "count", "argument": "*", "extra": 1}]}),
    ("DP005", {"aggregates": [{"function": "count", "argument": None}]}),
    ("DP005", {"aggregates": ["count(*)"] * 65}),
    ("DP004", {"keys": ["note"]}),
    ("DP004", {"keys": ["id"]}),
    ("DP004", {"where": "note = 'x'"}),
    ("42703", {"where": "nothing = 1"}),
    ("DP005", {"budget": {"epsilon": "0.1", "rho": "0.1"}}),
    ("DP005", {"budget": {"epsilon": "0"}}),
    ("DP005", {"budget": {"epsilon": "-1"}}),
    ("DP005", {"budget": {"epsilon": "NaN"}}),
    ("DP005", {"budget": {"epsilon": "Infinity"}}),
    ("DP005", {"budget": {"epsilon": "1e-19"}}),
    ("DP005", {"budget": {"epsilon": "1001"}}),
    ("DP005", {"budget": {"epsilon": "x"}}),
    ("DP005", {"budget": {"alpha": "0.05"}}),
    ("DP005", {"budget": {"alpha": "1", "beta": "0.05"}}),
    ("DP003", {"budget": "0.1"}),
    ("DP005", {"settings": {"dp.alpha": "0.1"}}),
    ("DP005", {"settings": {"dp.epsilon": "0.1", "dp.rho": "0.1"}}),
    ("DP005", {"settings": {"dp.confidence": "1"}}),
    ("DP005", {"settings": {"dp.confidence": "x"}}),
    ("DP005", {"mechanism": "magic"}),
    ("DP003", {"settings": {"transform_null_equals": "on"}}),
    ("DP003", {"settings": {"array_nulls": "off"}}),
]


@pytest.mark.parametrize(("sqlstate", "members"), REFUSED, ids=[str(m)[:60] for _, m in REFUSED])
def test_refusals_have_a_state_and_a_hint(sqlstate: str, members: dict[str, Any]) -> None:
    with pytest.raises(DPError) as refused:
        asked(row_policy(), **members)
    assert refused.value.sqlstate == sqlstate
    assert refused.value.hint


def test_equal_questions_are_equal() -> None:
    one = asked(row_policy(), where="age > 1 AND sex = 'f'", budget={"epsilon": "0.1"})
    other = asked(row_policy(), where="(sex='f') and AGE>1", budget={"epsilon": "0.10"})
    assert canonical_text(one).replace("0.10", "0.1") == canonical_text(other).replace("0.10", "0.1")


@pytest.mark.parametrize(
    "members",
    [
        {"where": "age > 2"},
        {"keys": ["sex"]},
        {"aggregates": ["count(sex)"]},
        {"aggregates": ["count(*) FILTER (WHERE age > 1)"]},
        {"budget": {"epsilon": "0.2"}},
        {"mechanism": "laplace"},
    ],
)
def test_other_questions_are_other(members: dict[str, Any]) -> None:
    plain = asked(row_policy(), where="age > 1")
    assert canonical_text(plain) != canonical_text(asked(row_policy(), **{"where": "age > 1", **members}))


def test_another_data_version_or_policy_is_another_question() -> None:
    texts = {
        canonical_text(asked(policy))
        for policy in (row_policy(), row_policy(data_version=2), row_policy(scale="2000"), user_policy())
    }
    assert len(texts) == 4


def test_a_declared_period_moves_by_the_clock() -> None:
    daily = row_policy(refresh_every=86400)
    texts = [canonical_text(asked(daily, clock)) for clock in (0, 86399, 86400)]
    assert texts[0] == texts[1] != texts[2]
    assert canonical_text(asked(row_policy(), 0)) == canonical_text(asked(row_policy(), 86400))


def test_version_and_oids_do_not_matter() -> None:
    assert canonical_text(asked(row_policy())) == canonical_text(asked(row_policy(oid=99, version=7)))


def test_budget_comes_from_the_call_then_the_session_then_the_dataset() -> None:
    settings = {"dp.epsilon": "0.3"}
    assert asked(row_policy(), budget={"epsilon": "0.2"}, settings=settings).budget.epsilon == Decimal("0.2")
    assert asked(row_policy(), settings=settings).budget.epsilon == Decimal("0.3")
    assert asked(row_policy()).budget.epsilon == Decimal("0.1")


def test_distinct_counts_are_of_the_unit_or_of_values() -> None:
    for argument in ("owner", "people.owner", "public.people.owner"):
        request = asked(user_policy(), aggregates=[f"count(DISTINCT {argument})"])
        assert [a.of for a in request.aggregates] == ["units"]
    for argument in ("age", "owner + 0"):
        request = asked(user_policy(), aggregates=[f"count(DISTINCT {argument})"])
        assert [a.of for a in request.aggregates] == ["distinct"]
    for argument in ("other.owner", "nothing"):
        with pytest.raises(DPError):
            asked(user_policy(), aggregates=[f"count(DISTINCT {argument})"])


def test_groups_are_the_product_of_the_declared_domains() -> None:
    request = asked(row_policy(), keys=["sex", "age"])
    assert request.cells == 3 * 4
    assert [request.keys[place].domain for place in request.places] == [("f", "m", None), ("0", "1", "2", "3")]


def test_a_key_named_twice_is_one_key_shown_twice() -> None:
    once, twice = asked(row_policy(), keys=["sex"]), asked(row_policy(), keys=["sex", "people.sex"])
    assert twice.cells == once.cells and twice.places == (0, 0)
    assert canonical_text(twice) == canonical_text(once)
