"""Thousands of parameters in one block, as drivers and SQL send them, mean what they mean in PostgreSQL (report R6)."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import psycopg
import pytest

import fix_chance
from fix_ledger import one
from fix_stack import Stack

Connection = psycopg.Connection[Any]
EPSILON = 20
DAY = datetime.date(2024, 1, 1)
# Lists of values of the column's own type and of others, with values that no row has, and some twice.
LISTS: dict[str, list[Any]] = {
    "qty": [*range(120), *range(10)],
    "price": [Decimal(n) / 4 for n in range(40, 300)],
    "note": [f"n{n}" for n in range(6, 206)],
    "day": [DAY + datetime.timedelta(days=n) for n in range(50, 250)],
    "code": ["ab", "x    ", *(f"z{n}" for n in range(120))],
    "qty::numeric": [2, Decimal("3.0"), *(Decimal(n) / 2 for n in range(200))],
    "temp": [10, *range(50, 200)],
    "ts": [datetime.datetime(2024, 1, 1) + n * datetime.timedelta(hours=20) for n in range(1, 151)],
}
# Every count is the true one, each asked once: what is asked again is free.
pytestmark = pytest.mark.chance(fix_chance.laplace(1 / EPSILON, 0, len(LISTS) + 4))


@pytest.fixture(scope="module")
def stack(reports_stack: Stack) -> Stack:
    return reports_stack


@pytest.fixture(scope="module")
def alice(stack: Stack) -> Iterator[Connection]:
    with stack.connect("alice") as session:
        session.execute(f"SET dp.epsilon = {EPSILON}")
        yield session


@pytest.fixture(scope="module")
def owner(stack: Stack) -> Iterator[Connection]:
    with stack.cluster.connect() as session:
        yield session


@pytest.mark.parametrize("expression", LISTS)
def test_a_list_of_parameters_in_both_formats(alice: Connection, owner: Connection, expression: str) -> None:
    values = LISTS[expression]
    for mark in ("%t", "%b"):
        sql = f"SELECT count(*) FROM shop WHERE {expression} IN ({', '.join([mark] * len(values))})"
        assert one(alice, sql, *values) == one(owner, sql, *values)


def test_parameters_of_a_prepared_statement_and_of_explain(alice: Connection, owner: Connection) -> None:
    types, items = ", ".join(["int"] * 120), ", ".join(f"${n}" for n in range(1, 121))
    for session in (alice, owner):
        session.execute(f"PREPARE many({types}) AS SELECT count(*) FROM shop WHERE qty IN ({items})")
    execute = f"EXECUTE many({', '.join(str(n) for n in range(3, 123))})"
    assert one(alice, execute) == one(owner, execute)
    plan = alice.execute(f"EXPLAIN {execute}").fetchall()
    assert "dp_count('public.shop'" in plan[0][0]
    plan = alice.execute(
        f"EXPLAIN SELECT count(*) FROM shop WHERE qty IN ({', '.join(['%s'] * 150)})", list(range(150))
    ).fetchall()
    assert "dp_count('public.shop'" in plan[0][0]


def test_two_thousand_parameters_in_several_blocks_and_beside_them(alice: Connection, owner: Connection) -> None:
    values = list(range(2000))
    items = ", ".join(["%s"] * 1000)
    sql = (
        f"SELECT (SELECT count(*) FROM shop WHERE qty IN ({items})), count(*) FILTER (WHERE id IN ({items})),"
        " %s FROM shop"
    )
    asked = alice.execute(sql, [*values, "beside"]).fetchall()
    assert asked == owner.execute(sql, [*values, "beside"]).fetchall()


def test_a_null_among_them_and_a_list_that_excludes(alice: Connection, owner: Connection) -> None:
    sql = f"SELECT count(*) FROM shop WHERE qty NOT IN ({', '.join(['%s'] * 130)})"
    values = list(range(1, 131))
    assert one(alice, sql, *values) == one(owner, sql, *values) == 0
    assert one(alice, sql, *values[:-1], None) == 0
