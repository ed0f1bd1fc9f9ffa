"""What tools write of constants and in views means what it means in PostgreSQL, through the proxy (reports R4, R5).

Superset's time filters, Django's icontains, Metabase's and SQLAlchemy's units as parameters, and the same through
views, whose text PostgreSQL's deparser wrote. Each is asked of PostgreSQL too, by the owner.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import asyncpg
import psycopg
import pytest

import fix_chance
from fix_ledger import one
from fix_stack import Stack

Connection = psycopg.Connection[Any]
EPSILON = 20
PREDICATES = [
    # Superset
    "ts >= TO_TIMESTAMP('2024-02-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')"
    " AND ts < TO_TIMESTAMP('2024-06-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')",
    "day >= TO_DATE('2024-02-01', 'YYYY-MM-DD') AND day < TO_DATE('2024-03-01', 'YYYY-MM-DD')",
    # Django
    "UPPER(note::text) LIKE UPPER('%n1%')",
    "UPPER(note) LIKE UPPER('N1')",
    "note::text LIKE 'n' || '1%'",
    # Metabase, Grafana, hand
    "ts >= timestamp '2024-06-07' + (-6 || ' day')::interval",
    "ts BETWEEN make_timestamp(2024, 2, 1, 0, 0, 0) AND make_date(2024, 3, 1) + make_interval(hours => 12)",
    "ts >= date_bin('1 day', timestamp '2024-03-05 12:00', timestamp '2000-01-01')",
    "tz >= to_timestamp(1709251200)",
    "ts < statement_timestamp() - interval '1 day' AND ts < clock_timestamp()",
    "note = concat('n', 3)",
    "qty > sqrt(16)",
    "qty > (SELECT 3)",
    "qty = array_length(ARRAY[1, 2, 3], 1)",
]
GROUPED = [
    "SELECT city, count(*) FROM v_like GROUP BY city ORDER BY city",
    "SELECT kind, count(*) FROM v_case GROUP BY kind ORDER BY kind",
    "SELECT m, count(*) FROM v_month GROUP BY m HAVING count(*) > 0 ORDER BY m",
    "SELECT m, count(*) FROM v_part GROUP BY m HAVING count(*) > 0 ORDER BY m",
    "SELECT m, count(*) FROM v_local GROUP BY m HAVING count(*) > 0 ORDER BY m",
    "SELECT date_trunc('month'::varchar, ts), count(*) FROM shop GROUP BY 1 HAVING count(*) > 0 ORDER BY 1",
]
# Every count is the true one; Lyon's is 0, which v_like does not show to PostgreSQL.
pytestmark = pytest.mark.chance(fix_chance.laplace(1 / EPSILON, 0, len(PREDICATES) + 3 + 3 * 13 + 13 + 12 + 1))


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


@pytest.mark.parametrize("predicate", PREDICATES)
def test_a_predicate_of_computed_constants(alice: Connection, owner: Connection, predicate: str) -> None:
    sql = f"SELECT count(*) FROM shop WHERE {predicate}"
    assert alice.execute(sql).fetchone() == owner.execute(sql).fetchone()  # with % and no parameters


@pytest.mark.parametrize("sql", GROUPED)
def test_what_a_view_is_made_of_can_be_asked(alice: Connection, owner: Connection, sql: str) -> None:
    expected = owner.execute(sql).fetchall()
    assert [row for row in alice.execute(sql).fetchall() if row[1]] == expected


def test_a_unit_that_a_driver_sends_as_a_parameter(stack: Stack, owner: Connection) -> None:
    """SQLAlchemy writes date_trunc($1::VARCHAR, ...): asyncpg prepares it."""
    sql = "SELECT date_trunc($1::VARCHAR, ts) AS m, count(*) FROM shop GROUP BY 1 HAVING count(*) > 0 ORDER BY 1"

    async def asked() -> list[tuple[Any, ...]]:
        conn = await asyncpg.connect(stack.dsn_url("alice"))
        try:
            await conn.execute(f"SET dp.epsilon = {EPSILON}")
            return [tuple(row) for row in await conn.fetch(sql, "month")]
        finally:
            await conn.close()

    expected = owner.execute("SELECT date_trunc('month', ts), count(*) FROM shop GROUP BY 1 ORDER BY 1").fetchall()
    assert asyncio.run(asked()) == expected


def test_a_volatile_function_is_refused_before_anything_is_paid(alice: Connection, stack: Stack) -> None:
    with stack.cluster.connect() as root:
        before = one(root, "SELECT sum(epsilon) FROM dp.ledger")
        with pytest.raises(psycopg.Error, match="VOLATILE") as caught:
            alice.execute("SELECT count(*) FROM shop WHERE qty > random() * 10")
        assert caught.value.sqlstate == "DP003"
        assert one(root, "SELECT sum(epsilon) FROM dp.ledger") == before
