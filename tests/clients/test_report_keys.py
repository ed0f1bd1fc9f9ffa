"""Group keys and ranges that follow from public facts mean what they mean in PostgreSQL, through the proxy.

Every statement is asked of PostgreSQL too, by the owner: the numbers are equal, because at epsilon 22 the noise of a
count is 0 with probability 1 - 6e-10. A group with no row is left out by both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import fix_chance
from fix_ledger import one
from fix_stack import Stack

Connection = psycopg.Connection[Any]
EPSILON = 22
# Weeks that start on Sunday, ends of months, days that start at four, fiscal years.
SHIFTED = [
    "CAST(date_trunc('week', ts + INTERVAL '1 day') AS timestamp) + INTERVAL '-1 day'",
    "date_trunc('month', ts) + interval '1 month' - interval '1 day'",
    "CAST(extract(week FROM ts + INTERVAL '1 day') AS integer)",
    "(date_trunc('month', ts - interval '3 months') + interval '3 months')::date",
    "extract(year FROM ts + interval '6 months')",
    "date_trunc('month', day + 3)",
    "date_trunc('month', day - interval '4 hours')",
]
ZONED = [
    "CAST(date_trunc('week', tz + INTERVAL '1 day') AS timestamp) + INTERVAL '-1 day'",
    "date_trunc('month', tz) + interval '1 month' - interval '1 day'",
    "CAST(extract(week FROM tz + INTERVAL '1 day') AS integer)",
    "(date_trunc('month', tz - interval '3 months 4 hours') + interval '3 months')::date",
    "date_trunc('month', tz AT TIME ZONE 'Asia/Kolkata' + interval '1 day')",
]
DAYS = ["day - 1", "day + 3", "date_trunc('day', ts - interval '4 hours')", "(tz - interval '4 hours')::date"]
BINS = [
    "date_bin('7 days', ts, '2000-01-03')",
    "date_bin('1 day', tz, '2000-01-03 04:00+00')",
    "date_bin('3 days', day, '2000-01-03')",
    "extract(hour FROM date_bin('6 hours', ts, '2000-01-03'))",
]
TIMES = [
    "at",
    "extract(hour FROM at)",
    "date_trunc('hour', at)",
    "date_trunc('hour'::text, (at)::interval)",  # in a view
    "(extract(hour FROM at) / 6)::int",
]
PREDICATES = [
    "ts + interval '1 day' > '2024-02-01'",
    "'2024-02-01' > ts - interval '1 month'",
    "day + 3 BETWEEN '2024-02-01' AND '2024-02-29'",
    "tz + interval '1 month' > '2024-04-10'",
    "(ts - interval '4 hours')::date = day",
    "at + interval '1 hour' > '12:00'",
    "date_trunc('hour', at) = interval '9 hours'",
]
# Averages whose ranges a function gives by itself, and how wide these are at most: 400 rows.
AVERAGES = [
    ("extract(hour FROM ts)", 23),
    ("extract(hour FROM tz)", 23),
    ("mod(qty, 10)", 10),
    ("length(city)", 4),
    ("extract(dow FROM day)", 6),
    ("extract(month FROM day)", 12),
    ("extract(year FROM day)", 2024),
    ("date_part('week', day)", 53),
    ("extract(minute FROM ts)", 59),
    ("extract(hour FROM ts) * 60 + extract(minute FROM ts)", 1439),
    ("div(qty, 7)", 7),
    ("qty / nullif(qty, 0)", 49),
    ("sign(price - 10)", 1),
    ("extract(hour FROM at)", 10),
    ("width_bucket(price, 0, 25, 5)", 6),
    ("day - date '2024-01-01'", 366),
    ("abs(floor(price) - 20)", 20),
]
PLENTY = 5
# Of one question: at most as many groups as a year has days, and nine.
pytestmark = pytest.mark.chance(fix_chance.laplace(1 / EPSILON, 0, 375))
# A sum by half of the budget, a count by the other.
average = pytest.mark.chance(fix_chance.beyond(25, 2))


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


def same(alice: Connection, owner: Connection, key: str, where: str = "") -> None:
    sql = f"SELECT {key} AS k, count(*) FROM shop {where} GROUP BY 1 HAVING count(*) > 0 ORDER BY 1"
    found, expected = alice.execute(sql).fetchall(), owner.execute(sql).fetchall()
    assert found == expected and len(expected) > (0 if where else 1)


@pytest.mark.parametrize("key", BINS)
def test_a_bin_is_a_key(alice: Connection, owner: Connection, key: str) -> None:
    same(alice, owner, key)
    distinct = f"SELECT DISTINCT {key} FROM shop"
    assert {row[0] for row in owner.execute(distinct)} <= {row[0] for row in alice.execute(distinct)}


def test_a_where_narrows_minutes_that_are_too_many_to_list(alice: Connection, owner: Connection) -> None:
    """Six hours: 360 groups. The minutes of the declared years are DP004 without the WHERE."""
    busy = owner.execute("SELECT date_trunc('day', ts) FROM shop GROUP BY 1 ORDER BY count(*) DESC LIMIT 1").fetchone()
    assert busy is not None
    where = f"WHERE ts >= '{busy[0]}' AND ts < timestamp '{busy[0]}' + interval '6 hours'"
    for key in ("date_trunc('minute', ts)", "date_bin('1 minute', ts, '2000-01-03')"):
        same(alice, owner, key, where)


@pytest.mark.parametrize("key", [*SHIFTED, *DAYS])
def test_a_shifted_moment_is_a_key(alice: Connection, owner: Connection, key: str) -> None:
    same(alice, owner, key)


@pytest.mark.parametrize("key", ZONED)
def test_a_shifted_moment_of_the_sessions_time_zone(alice: Connection, owner: Connection, key: str) -> None:
    for session in (alice, owner):
        session.execute("SET TimeZone = 'America/New_York'")
    try:
        same(alice, owner, key)
    finally:
        for session in (alice, owner):
            session.execute("RESET TimeZone")


@pytest.mark.parametrize("key", TIMES)
def test_a_time_of_day_is_a_key(alice: Connection, owner: Connection, key: str) -> None:
    same(alice, owner, key)


@pytest.mark.parametrize("predicate", PREDICATES)
def test_a_shifted_moment_in_a_predicate(alice: Connection, owner: Connection, predicate: str) -> None:
    sql = f"SELECT count(*) FROM shop WHERE {predicate}"
    assert one(alice, sql) == one(owner, sql) > 0


@average
@pytest.mark.parametrize(("expression", "width"), AVERAGES)
def test_the_range_of_an_average_is_known(alice: Connection, owner: Connection, expression: str, width: int) -> None:
    """Sums are off by 25 scales at most, and so are counts of 320 rows or more."""
    alice.execute(f"SET dp.epsilon = {PLENTY}")
    try:
        found = float(one(alice, f"SELECT avg({expression}) FROM shop"))
    finally:
        alice.execute(f"SET dp.epsilon = {EPSILON}")
    off = 25 * 2 * width / PLENTY / 320
    assert abs(found - float(one(owner, f"SELECT avg({expression}) FROM shop"))) <= 2 * off
