"""One question has one key, whatever its spelling; what may be another one has another key (§7.1).

sqlite3, which shares PostgreSQL's three-valued logic of these operators, says of generated
conditions on which rows each is true, false or NULL.
"""

from __future__ import annotations

import random
import sqlite3
from typing import Any

import pytest

from pg_epsilon.mechanisms.group_by import groups, reading_order
from pg_epsilon.plan import make_plan
from pg_epsilon.query.policy import policy_from_json
from pg_epsilon.query.request import canonical_text
from unit.policies import asked, document, row_policy

Truth = tuple[int | None, ...]
SAME: list[tuple[dict[str, Any], ...]] = [
    ({"keys": ["sex", "age"]}, {"keys": ["age", "sex"]}, {"keys": ["age", "sex", "age"]}),
    (
        {"aggregates": ["count(*)", "sum(age)"]},
        {"aggregates": ["sum(age)", "count(*)", "sum(age)"]},
    ),
    (
        {"where": "age > 40"},
        {"where": "age > 40.0"},
        {"where": "NOT (age <= 40.00)"},
        {"where": "40 < age"},
    ),
    (
        {"where": "age IN (1, 2)"},
        {"where": "age = 2 OR age = 1.0"},
        {"where": "age = ANY ('{2,1}')"},
        {"where": "age = ANY (ARRAY[1, 2, 1])"},
        {"where": "NOT (age <> 1 AND age <> 2)"},
        {"where": "NOT age NOT IN (1, 2)"},
    ),
    ({"where": "age BETWEEN 1 AND 2"}, {"where": "NOT (age < 1 OR age > 2)"}),
    ({"where": "sex IS NOT NULL"}, {"where": "NOT sex IS NULL"}),
    ({"where": "sex LIKE 'f%'"}, {"where": "NOT (sex NOT LIKE 'f%')"}),
    ({"where": "sex IN ('f', 'm')"}, {"where": "sex = 'm' OR sex = 'f'"}),
    (
        {"aggregates": ["count(*) FILTER (WHERE NOT age <= 1)"]},
        {"aggregates": ["count(*) FILTER (WHERE age > 1.0)"]},
    ),
]
OTHER: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"keys": ["sex", "age"]}, {"keys": ["sex"]}),
    ({"aggregates": ["count(*)", "sum(age)"]}, {"aggregates": ["count(*)"]}),
    ({"where": "age > 40"}, {"where": "age > 40.5"}),
    ({"where": "NOT (age <= 40)"}, {"where": "age >= 40"}),
    ({"where": "age IN (1, 2)"}, {"where": "age NOT IN (1, 2)"}),
    ({"where": "age IN (1, 2)"}, {"where": "age IN (1, NULL)"}),
    ({"where": "age IN (1, NULL)"}, {"where": "age = 1"}),
    ({"where": "age = 1 AND age = 2"}, {"where": "age IN (1, 2)"}),
    ({"where": "age <> 1 OR age <> 2"}, {"where": "age NOT IN (1, 2)"}),
    ({"where": "age = 1 OR owner = 2"}, {"where": "owner = 1 OR age = 2"}),
    ({"where": "sex = 'f'"}, {"where": "sex = 'f '"}),
]


@pytest.mark.parametrize("spellings", SAME)
def test_spellings_of_one_question_have_one_key(spellings: tuple[dict[str, Any], ...]) -> None:
    plans = [make_plan(asked(row_policy(), **one)) for one in spellings]
    assert len({(plan.cache_key, plan.question, plan.statement, plan.scope) for plan in plans}) == 1


@pytest.mark.parametrize("pair", OTHER)
def test_another_question_is_seen(pair: tuple[dict[str, Any], dict[str, Any]]) -> None:
    one, other = (make_plan(asked(row_policy(), **question)) for question in pair)
    assert one.cache_key != other.cache_key
    assert one.question != other.question


def test_generated_conditions_that_differ_on_a_row_are_seen() -> None:
    """Control: of 1,500 conditions no two of one key differ on a row, and many share one."""
    rng = random.Random(7)
    found: dict[str, set[Truth]] = {}
    number = 1_500
    for _ in range(number):
        condition = _condition(rng, 3)
        key = canonical_text(asked(row_policy(), where=condition))
        found.setdefault(key, set()).add(_truth(condition))
    assert {len(truths) for truths in found.values()} == {1}
    assert len(found) < number * 0.8


def test_an_asker_reads_the_groups_in_his_own_order() -> None:
    domains, places = [("a", "b"), ("x", "y", None)], (1, 0, 1)
    order = reading_order(domains, places)
    expected = [(one, other) for other in domains[1] for one in domains[0]]
    assert [groups(domains)[number] for number in order] == expected


def test_a_joint_release_knows_its_sums_in_any_order() -> None:
    """In whatever order its sums are asked for, each asker reads his own."""
    sums = [f"sum(age) FILTER (WHERE age <= {cut})" for cut in (1, 2, 0)]
    orders = (sums, sums[::-1])
    one, other = (make_plan(asked(row_policy(), aggregates=texts)) for texts in orders)
    assert one.joint is not None
    assert (one.cache_key, one.statement) == (other.cache_key, other.statement)
    places = (one.presentation.together or (), other.presentation.together or ())
    answered = [[order[place] for place in own] for order, own in zip(orders, places, strict=True)]
    assert answered[0] == answered[1] == [sums[2], sums[0], sums[1]]


def test_a_joint_release_of_fewer_sums_is_seen() -> None:
    """Control: a sum whose words are not recognised is released beside the others."""
    sums = [f"sum(age) FILTER (WHERE age <= {cut})" for cut in (0, 1)]
    last = ("sum(age) FILTER (WHERE age = 3)", "sum(age) FILTER (WHERE age IN (3))")
    third = ["sum(age) FILTER (WHERE age <= 2)"]
    one, other = (make_plan(asked(row_policy(), aggregates=[*sums, *third, end])) for end in last)
    assert one.statement != other.statement
    assert one.cache_key != other.cache_key


def test_running_sums_of_keys_in_another_order_are_one_question() -> None:
    facts = document()
    facts["columns"][1]["policy"]["upper"] = "1000"
    bucket = "width_bucket(age, 0, 1000, 40)"
    plans = []
    for keys in ([bucket, "sex"], ["sex", bucket]):
        run = {"aggregate": 0, "key": keys.index(bucket), "descending": False, "alone": False}
        question = {"keys": keys, "aggregates": ["sum(age)"], "running": [run]}
        plans.append(make_plan(asked(policy_from_json(facts), **question)))
    assert "running" in plans[0].choices[0].key
    assert plans[0].cache_key == plans[1].cache_key
    assert plans[0].statement == plans[1].statement


def _condition(rng: random.Random, depth: int) -> str:
    kind = rng.choice(["and", "or", "not", "leaf"]) if depth else "leaf"
    if kind in ("and", "or"):
        return f"({_condition(rng, depth - 1)} {kind} {_condition(rng, depth - 1)})"
    if kind == "not":
        return f"(NOT {_condition(rng, depth - 1)})"
    column, values = rng.choice([("age", ["0", "1", "1.0", "2"]), ("sex", ["'f'", "'m'"])])
    if rng.random() < 0.3:
        listed = ", ".join(rng.choices([*values, "NULL"], weights=[3] * len(values) + [1], k=2))
        return f"({column} {rng.choice(['IN', 'NOT IN'])} ({listed}))"
    if rng.random() < 0.2:
        return f"({column} {rng.choice(['IS NULL', 'IS NOT NULL'])})"
    operator = rng.choice(["=", "<>", "<", "<=", ">", ">="])
    return f"({column} {operator} {rng.choice(values)})"


def _truth(condition: str) -> Truth:
    sexes = ("NULL", "'f'", "'m'", "'x'")
    rows = ", ".join(f"({age}, {sex})" for age in ("NULL", 0, 1, 2, 3) for sex in sexes)
    people = f"WITH people (age, sex) AS (VALUES {rows})"
    return tuple(row[0] for row in _DATABASE.execute(f"{people} SELECT {condition} FROM people"))


_DATABASE = sqlite3.connect(":memory:")
