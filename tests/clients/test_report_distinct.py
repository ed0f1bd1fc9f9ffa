"""A count over SELECT DISTINCT is a distinct count of rows, or refused: never the size of a declared domain."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import fix_chance
from fix_ledger import no_charge, one, refused
from fix_stack import Stack

Connection = psycopg.Connection[Any]
MEANT = [
    "SELECT count(*) FROM (SELECT DISTINCT city FROM trips) AS t",
    "SELECT count(*) FROM (SELECT DISTINCT day FROM trips WHERE day < '2024-01-04') AS t",
    "SELECT count(*) FROM (SELECT DISTINCT day FROM trips WHERE id < 0) AS t",
    # Django: .values("city", "paid").distinct().count()
    'SELECT COUNT(*) FROM (SELECT DISTINCT "trips"."city" AS "col1", "trips"."paid" AS "col2" FROM "trips") subquery',
    # SQLAlchemy: select(func.count()).select_from(select(t.c.city).distinct().subquery())
    "SELECT count(*) AS count_1 FROM (SELECT DISTINCT trips.city AS city FROM trips) AS anon_1",
    "SELECT count(1) FROM (SELECT DISTINCT city, day FROM trips WHERE paid ORDER BY city) AS t",
    "SELECT count(t.city) FROM (SELECT DISTINCT city FROM trips) AS t",
    "SELECT count(c) AS n FROM (SELECT DISTINCT city FROM trips) AS t(c) ORDER BY n",
    "SELECT count(DISTINCT city) FROM (SELECT DISTINCT city FROM trips) AS t",
    "SELECT 10 * count(*) + 1 FROM (SELECT DISTINCT paid, city IS NULL FROM trips) AS t",
    "SELECT count(*) FROM (SELECT DISTINCT uid FROM trips WHERE id < 9) AS t",
    "SELECT count(DISTINCT (city, paid)) FROM trips",
    'SELECT count(DISTINCT ROW(city, "Zone")) FILTER (WHERE paid) FROM trips',
    "SELECT (SELECT count(*) FROM (SELECT DISTINCT city FROM trips WHERE paid) AS t) + 1",
]
REFUSED = [
    "SELECT count(*) FROM (SELECT city FROM trips GROUP BY city) AS t",
    "SELECT count(*), max(city) FROM (SELECT DISTINCT city FROM trips) AS t",
    "SELECT count(*) FROM (SELECT DISTINCT city FROM trips) AS t WHERE city > 'M'",
    "SELECT count(*) FILTER (WHERE city > 'M') FROM (SELECT DISTINCT city FROM trips) AS t",
    "SELECT count(paid) FROM (SELECT DISTINCT city, paid FROM trips) AS t",
    "SELECT city, count(*) FROM (SELECT DISTINCT city, paid FROM trips) AS t GROUP BY city",
    "SELECT count(*) FROM (SELECT DISTINCT city FROM trips LIMIT 3) AS t",
    "SELECT count(*) FROM (SELECT DISTINCT city FROM trips) AS t JOIN (VALUES ('Lyon')) AS v(c) ON c = city",
    "WITH t AS (SELECT DISTINCT city FROM trips) SELECT count(*) FROM t",
    "WITH t AS MATERIALIZED (SELECT DISTINCT city FROM trips), u AS (SELECT 1) SELECT count(city) FROM u, t",
    "SELECT count(*) FROM cities",
]
# No count of them: these are the declared values, as before.
DECLARED = [
    (
        "SELECT city FROM (SELECT DISTINCT city FROM trips) AS t WHERE city > 'M' ORDER BY 1",
        ["Metz", "Nice", "Pau", "Sète"],
    ),
    ("WITH t AS (SELECT DISTINCT city FROM trips) SELECT max(city) FROM t", ["Sète"]),
    ("SELECT count(*) FROM (SELECT 1 AS city) AS t", [1]),
    ("WITH t AS (SELECT DISTINCT city FROM trips), u AS (SELECT 7) SELECT count(*) FROM u", [1]),
]


@pytest.fixture(scope="module")
def stack(reports_stack: Stack) -> Stack:
    return reports_stack


@pytest.fixture(scope="module")
def alice(stack: Stack) -> Iterator[Connection]:
    with stack.connect("alice") as conn:
        yield conn


# one level of 2 for 70, penalty .09: further than .41 off
@pytest.mark.chance(fix_chance.laplace(2 / 70, 0.41))
@pytest.mark.parametrize("sql", MEANT)
def test_it_is_what_postgresql_counts(stack: Stack, alice: Connection, sql: str) -> None:
    with stack.cluster.connect("boss") as boss:
        assert one(alice, sql) == one(boss, sql)


@pytest.mark.parametrize("sql", REFUSED)
def test_other_counts_of_declared_values_are_refused(stack: Stack, alice: Connection, sql: str) -> None:
    with no_charge(stack.cluster), refused("DP003", "declared values"):
        alice.execute(sql.encode())


@pytest.mark.parametrize(("sql", "values"), DECLARED)
def test_what_counts_no_declared_values_is_as_before(alice: Connection, sql: str, values: list[Any]) -> None:
    assert [row[0] for row in alice.execute(sql.encode())] == values
