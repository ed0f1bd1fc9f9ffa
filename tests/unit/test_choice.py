"""Which mechanism, at what sensitivity, for which part of the budget: public facts decide (composition.md §2, §7.5)."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from pg_epsilon import choice
from pg_epsilon.choice_parts import Facts
from pg_epsilon.errors import DPError
from pg_epsilon.mechanisms.additive import Additive
from pg_epsilon.mechanisms.r2t import Ladder
from pg_epsilon.mechanisms.ranks import Ranks
from pg_epsilon.plan import Plan
from pg_epsilon.query import aggregates as aggregates_of
from pg_epsilon.query.policy import Policy
from unit.policies import asked, column, document, planned, row_policy, user_policy


def aggregate(function: str, argument: str = "age", **parameters: str) -> dict[str, Any]:
    return {"function": function, "argument": argument, "parameters": parameters}


def wide() -> list[dict[str, Any]]:
    """A key with 400,000 values."""
    return [*document()["columns"], column("code", "integer", 23, kind="bounds", lower="1", upper="400000")]


def additive(plan: Plan) -> list[tuple[int, int]]:
    return [(m.l1, m.l2_squared) for m in plan.measures if isinstance(m, Additive)]


# age is in [0, 3]; five rows a user
SENSITIVITIES: list[tuple[str, Policy, list[Any], list[str], list[tuple[int, int]]]] = [
    ("one value", row_policy(), ["sum(age)"], [], [(3, 9)]),
    ("one value in one group", row_policy(), ["sum(age)"], ["sex"], [(3, 9)]),
    ("the larger end", row_policy(), ["sum(age - 2)"], [], [(2, 4)]),
    ("kappa values", user_policy(), ["sum(age)"], [], [(15, 225)]),
    ("kappa values, all in one group", user_policy(), ["sum(age)"], ["sex"], [(15, 225)]),
    (
        "the declared total",
        user_policy(max_rows_per_unit=None),
        [aggregate("sum", max_contribution="7")],
        [],
        [(7, 49)],
    ),
    ("a declared number of rows", user_policy(), [aggregate("count", "*", max_contribution="2")], [], [(2, 4)]),
    ("the asker's clamp", row_policy(), [aggregate("sum", lower="-9", upper="1")], [], [(9, 81)]),
    ("distance from the middle, and rows", row_policy(), ["avg(age)"], [], [(2, 4), (1, 1)]),
    ("the same, kappa times", user_policy(), ["avg(age)"], ["sex"], [(10, 100), (5, 25)]),
    ("rows, distance, its square", row_policy(), ["variance(age)"], [], [(1, 1), (2, 4), (4, 16)]),
    ("never nothing", row_policy(), [aggregate("sum", lower="0", upper="0")], [], [(1, 1)]),
]


@pytest.mark.parametrize(("why", "policy", "aggregates", "keys", "expected"), SENSITIVITIES)
def test_sensitivities(
    why: str, policy: Policy, aggregates: list[Any], keys: list[str], expected: list[tuple[int, int]]
) -> None:
    assert additive(planned(policy, aggregates=aggregates, keys=keys, mechanism="laplace")) == expected, why


def test_shares_are_of_distinct_aggregates_and_then_of_their_measures() -> None:
    plan = planned(
        row_policy(), aggregates=["avg(age)", "sum(age)", "avg(age)", "median(age)"], budget={"epsilon": "3"}
    )
    assert [c.to_json().get("epsilon") for c in plan.charges] == ["0.5", "0.5", "1", "1"]
    assert plan.places == (0, 2, 0, 1)
    assert plan.texts([0, 10, 1, 5]) == ["1.000000", "5", "1.000000", "1"]


def test_a_repeated_aggregate_is_released_once() -> None:
    assert len(planned(row_policy(), aggregates=["count(*)", "count(*)"]).charges) == 1
    assert len(planned(row_policy(), aggregates=["sum(age)", "sum(age) FILTER (WHERE sex = 'f')"]).charges) == 2


def test_the_noise_of_a_rho_is_gaussian_and_a_median_fits_it() -> None:
    """A selection of epsilon²/8 = rho (composition.md §4, row 3)."""
    plan = planned(row_policy(), aggregates=["sum(age)", "median(age)"], budget={"rho": "0.04"})
    ranks, noise = plan.measures  # in the order of their names
    assert isinstance(noise, Additive)
    assert isinstance(ranks, Ranks)
    assert noise.rho == Decimal("0.02")
    assert (
        Fraction(ranks.epsilon) ** 2 / 8 <= Fraction("0.02") < (Fraction(ranks.epsilon) + Fraction(1, 10**17)) ** 2 / 8
    )


def test_auto_takes_what_is_expected_to_be_nearer() -> None:
    """A row's bound is taken to be attained; R2T for users, where the bound on all their rows is loose."""
    for policy in (row_policy(), user_policy()):
        assert planned(policy, aggregates=["sum(age)"]).mechanism == "discrete Laplace"
    loose = planned(user_policy(max_rows_per_unit=10**6), aggregates=["sum(age)"])
    (ladder,) = loose.measures
    assert isinstance(ladder, Ladder)
    assert ladder.levels[-1] == 3 * 10**6
    assert planned(user_policy(max_rows_per_unit=10**6), aggregates=["sum(age)"], keys=["sex"]).mechanism == (
        "discrete Laplace"
    )


def test_the_base_with_the_smaller_penalty_is_taken_unless_one_is_asked_for() -> None:
    given = aggregate("sum", max_contribution="1000000")
    (chosen,) = planned(user_policy(), aggregates=[given], mechanism="r2t").measures
    (two,) = planned(
        user_policy(), aggregates=[aggregate("sum", max_contribution="1000000", base="2")], mechanism="r2t"
    ).measures
    assert isinstance(chosen, Ladder)
    assert isinstance(two, Ladder)
    assert (len(chosen.levels), len(two.levels)) == (9, 20)
    assert chosen.charges()[0].to_json()["levels"] == "9"


def test_two_signs_cost_a_user_twice_the_noise_and_a_row_none() -> None:
    """A row has one sign; a user has both (composition.md §2.4). Each side has its own bound."""
    (row,) = planned(row_policy(), aggregates=["sum(age * 10 - 1)"], mechanism="r2t").measures
    (user,) = planned(user_policy(), aggregates=["sum(age * 10 - 1)"], mechanism="r2t").measures
    assert isinstance(row, Ladder)
    assert isinstance(user, Ladder)
    assert (row.sides, row.joint) == ((29, 1), 1)
    assert (user.sides, user.joint) == ((145, 5), 2)


REFUSED: list[tuple[str, Policy, dict[str, Any]]] = [
    ("DP003", row_policy(), {"aggregates": ["avg(age)"], "mechanism": "r2t"}),
    ("DP003", row_policy(), {"aggregates": ["sum(age)"], "mechanism": "exponential"}),
    ("DP003", row_policy(), {"aggregates": ["median(age)"], "mechanism": "laplace"}),
    ("DP003", row_policy(), {"aggregates": [aggregate("sum", max_contribution="5")]}),
    ("DP003", user_policy(), {"aggregates": [aggregate("sum", max_contribution="5")], "keys": ["sex"]}),
    ("DP003", user_policy(), {"aggregates": ["sum(age)"], "keys": ["sex"], "mechanism": "r2t"}),
    ("DP003", row_policy(), {"aggregates": ["sum(age)", "median(age)"], "mechanism": "r2t"}),
    ("DP004", user_policy(max_rows_per_unit=None), {"aggregates": ["sum(age)"]}),
    ("DP004", user_policy(max_rows_per_unit=None), {"aggregates": ["avg(age)"]}),
    ("DP004", user_policy(max_rows_per_unit=None), {"aggregates": ["median(age)"]}),
    ("DP005", row_policy(), {"aggregates": ["sum(age)"], "mechanism": "r2t", "budget": {"rho": "1"}}),
    ("DP005", row_policy(), {"aggregates": ["avg(age)"], "budget": {"alpha": "0.1", "beta": "0.1"}}),
    ("DP005", row_policy(max_rows=2**62), {"aggregates": ["sum(age)"]}),
    (
        "DP005",
        row_policy(columns=wide()),
        {"aggregates": [aggregate("sum", upper="1000000000")], "keys": ["code"], "mechanism": "r2t"},
    ),
]


@pytest.mark.parametrize(("sqlstate", "policy", "members"), REFUSED)
def test_what_no_mechanism_answers_is_refused(sqlstate: str, policy: Policy, members: dict[str, Any]) -> None:
    with pytest.raises(DPError) as refused:
        planned(policy, **members)
    assert refused.value.sqlstate == sqlstate
    assert refused.value.hint


def test_accuracy_of_a_sum_is_a_fraction_of_scale_times_range() -> None:
    """alpha * scale * (upper - lower), at the sensitivity of a sum (composition.md §14.3)."""
    (noise,) = planned(row_policy(), aggregates=["sum(age)"], budget={"alpha": "0.1", "beta": "0.05"}).measures
    assert isinstance(noise, Additive)
    assert noise.margin(Decimal("0.95")) <= 300 < noise.margin(Decimal("0.96"))


def test_a_wide_lattice_is_coarsened_by_public_steps() -> None:
    (ranks,) = planned(row_policy(), aggregates=[aggregate("median", lower="0", upper="1000000")]).measures
    assert isinstance(ranks, Ranks)
    assert ranks.size == 62501
    plan = planned(row_policy(), aggregates=[aggregate("median", lower="0", upper="1000000")])
    assert plan.choices[0].warnings == ("values are told apart in steps of 16 only",)
    assert plan.texts([0]) == ["8"]


def test_bars_come_with_every_aggregate() -> None:
    plan = planned(row_policy(), aggregates=["count(*)", "sum(age)"], budget={"epsilon": "2"})
    assert plan.bars([10, 30]) == [("7", "13", "1.357"), ("21", "39", "4.223")]


@pytest.mark.parametrize("function", ["count(*)", "count(age)", "sum(age)", "avg(age)", "variance(age)", "median(age)"])
@pytest.mark.parametrize("policy", [row_policy(), user_policy()], ids=["rows", "users"])
def test_a_filter_decides_nothing_but_what_is_read(policy: Policy, function: str) -> None:
    """A block makes one choice for aggregates that differ in FILTER: that of each of them by itself."""
    filters = ("", " FILTER (WHERE age > 1)", " FILTER (WHERE sex = 'f')")
    request = asked(policy, aggregates=[f"{function}{one}" for one in filters])
    facts, together = Facts.of(request, request.distinct), choice.choose(request, request.distinct)
    assert len(together) == len(filters)
    for aggregate, found in zip(request.distinct, together, strict=True):
        part = choice.share(request, aggregate, len(filters))
        assert found == choice._BUILDERS[aggregate.function](facts, aggregate, part)
        assert {read.condition for read in found.statistics} == {aggregate.filter}


def test_an_argument_of_several_aggregates_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    real = aggregates_of.compile_expression

    def noted(text: str, *others: Any) -> Any:
        compiled.append(text)
        return real(text, *others)

    monkeypatch.setattr(aggregates_of, "compile_expression", noted)
    arms = [f"sum(age) FILTER (WHERE age <= {n})" for n in range(4)]
    request = asked(row_policy(), aggregates=[*arms, "sum(age + 1)", aggregate("sum", upper="2")])
    assert compiled == ["age", "age + 1", "age"]  # the last with bounds of its own
    assert [one.lattice is not None and one.lattice.high for one in request.aggregates] == [3, 3, 3, 3, 4, 2]
