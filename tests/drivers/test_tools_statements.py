"""What Superset, Metabase and Django write of times and texts, through each driver that they use.

The same rows are counted by the owner on PostgreSQL. Superset and Django ask by psycopg2 or psycopg 3, Metabase by
JDBC, and programs of today by asyncpg.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

import asyncpg
import psycopg2
import pytest
from test_jdbc import Java, java

from fix_drivers import CHANCE, NEAR, DriversStack

__all__ = ["java"]
pytestmark = pytest.mark.chance(CHANCE)

# Statement with %s for parameters, and their values: the drivers that have other marks get those.
STATEMENTS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "Superset's time range": (
        "SELECT COUNT(*) AS \"count\" FROM public.samples WHERE at >= TO_TIMESTAMP('2024-01-05 00:00:00.000000',"
        " 'YYYY-MM-DD HH24:MI:SS.US') AND at < TO_TIMESTAMP('2024-02-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')",
        (),
    ),
    "Superset's days": (
        "SELECT count(*) AS count FROM samples WHERE day >= TO_DATE('2024-02-01', 'YYYY-MM-DD')"
        " AND day < TO_DATE('2024-03-01', 'YYYY-MM-DD') LIMIT 1000",
        (),
    ),
    "Metabase's month": (
        'SELECT COUNT(*) AS "count" FROM "public"."samples" WHERE ("public"."samples"."at" >='
        ' DATE_TRUNC(\'month\', CAST(\'2024-02-10 00:00:00\' AS timestamp))) AND ("public"."samples"."at" <'
        " DATE_TRUNC('month', (CAST('2024-02-10 00:00:00' AS timestamp) + INTERVAL '1 month')))",
        (),
    ),
    "Metabase's text": (
        'SELECT COUNT(*) AS "count" FROM "public"."samples" WHERE (LOWER("public"."samples"."word") LIKE %s)',
        ("%ord 1%",),
    ),
    "Django's icontains": (
        'SELECT COUNT(*) AS "__count" FROM "samples" WHERE UPPER("samples"."word"::text) LIKE UPPER(%s)',
        ("%WORD 1%",),
    ),
    "Django's list": (
        'SELECT COUNT(*) AS "__count" FROM "samples" WHERE ("samples"."at" >= %s'
        ' AND "samples"."whole" IN (%s, %s, %s))',
        (datetime(2024, 1, 1), 7, 8, 9),
    ),
}


def by_psycopg2(stack: DriversStack, _: Java, sql: str, values: tuple[Any, ...]) -> int:
    with psycopg2.connect(
        host=stack.host, port=stack.port, user=stack.user, password=stack.password, dbname=stack.dbname
    ) as conn, conn.cursor() as cursor:  # fmt: skip
        cursor.execute(sql, values or None)
        return int(cursor.fetchone()[0])


def by_psycopg(stack: DriversStack, _: Java, sql: str, values: tuple[Any, ...]) -> int:
    with stack.connect("alice") as conn:
        return int(conn.execute(sql.encode(), values or None).fetchone()[0])  # type: ignore[index]


def by_asyncpg(stack: DriversStack, _: Java, sql: str, values: tuple[Any, ...]) -> int:
    async def ask() -> int:
        conn = await asyncpg.connect(
            host=stack.host, port=stack.port, user=stack.user, password=stack.password, database=stack.dbname
        )
        try:
            return int(await conn.fetchval(numbered(sql), *values))
        finally:
            await conn.close()

    return asyncio.run(ask())


def by_jdbc(stack: DriversStack, program: Java, sql: str, values: tuple[Any, ...]) -> int:
    assert not program.open(stack, stack.port, sslmode="require").errors
    kinds = {str: "string", int: "int", datetime: "timestamp"}
    words = [word for value in values for word in (kinds[type(value)], str(value))]
    return program.ask("prepared", sql.replace("%s", "?"), *words).one


def numbered(sql: str) -> str:
    numbers = iter(range(1, 100))
    return re.sub("%s", lambda _: f"${next(numbers)}", sql)


DRIVERS: dict[str, Callable[[DriversStack, Java, str, tuple[Any, ...]], int]] = {
    "psycopg2": by_psycopg2,
    "psycopg": by_psycopg,
    "asyncpg": by_asyncpg,
    "jdbc": by_jdbc,
}


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("name", STATEMENTS)
def test_a_tool_s_statement_counts_what_postgresql_counts(
    drivers_stack: DriversStack, java: Java, name: str, driver: str
) -> None:
    sql, values = STATEMENTS[name]
    with drivers_stack.cluster.connect("boss") as boss:
        ((truth,),) = boss.execute(sql.encode(), values or None).fetchall()
    assert abs(DRIVERS[driver](drivers_stack, java, sql, values) - truth) <= NEAR
    assert truth > 2 * NEAR or len(values) == 4
