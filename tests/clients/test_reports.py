"""What public reports of analysts, DBAs and tools ask means what it means in PostgreSQL, through the proxy.

Every statement is asked of PostgreSQL too, by the owner: the numbers are equal, because at epsilon 20 the noise of a
count is 0 with probability 1 - 4e-9.
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
EPSILON = 20
# Of numerics, div cuts towards zero, and is a numeric whatever its operands are.
DIVIDED = [
    "div(price, 7) = 3",
    "div(qty::numeric, 7) = 3",
    "div(price, 100) = 0",
    "div(qty, 7) / 2 > 1.4",
    "div(price, nullif(qty, 0)) = 1",
    "div(-price, 7) = -3",
]
# Between char(n) and varchar blanks at the end mean nothing, as between char(n) and char(n); text keeps them.
PADDED = [
    "code = vcode",
    "code < vcode",
    "code = 'ab   '::varchar",
    "code = 'ab   '::text",
    "code IN ('x    '::varchar, 'zz'::varchar)",
    "code IN ('x    '::text, 'zz'::text)",
    "code IN ('x    '::text)",
    "nullif(code, vcode) IS NULL",
    "code IS NOT DISTINCT FROM vcode",
    "greatest(code, vcode) = vcode",
    "coalesce(code, vcode) = vcode",
    "coalesce(vcode, code) = 'abc'",
    "CASE WHEN qty > 9 THEN vcode ELSE code END = 'x '",
    "vcode::text = code",
    "code = ANY (ARRAY['x  '::varchar, 'ab'])",
    "code = ANY (ARRAY['x  ', 'ab'])",
]
# 320 readings of 10 and 80 NaN within 0..100: expression, which PostgreSQL is asked of the readings, and how near.
READINGS = [
    ("count(temp)", None, 0),
    ("avg(temp)", "temp", 1),
    ("sum(temp)", "temp", 200),
    ("sum(temp) + 0 * count(*)", "temp", 200),
    ("stddev(temp)", "temp", 12),
    ("percentile_disc(0.9) WITHIN GROUP (ORDER BY temp)", "temp", 0),
]
# Counts without noise; sums of numbers up to 100 by half of the budget; squares up to 2500 by a third, of which 144 of
# 320 rows are 123 scales; ranks of which 32 lie beyond the value that is right.
pytestmark = pytest.mark.chance(
    fix_chance.union(
        fix_chance.laplace(1 / EPSILON, 0, len(DIVIDED) + len(PADDED) + 1 + 4 + 1),
        fix_chance.laplace(2 * 100 / EPSILON, 200, 4),
        fix_chance.beyond(29, 6),
    )
)


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


@pytest.mark.parametrize("predicate", [*DIVIDED, *PADDED])
def test_a_predicate_means_what_it_means_in_postgresql(alice: Connection, owner: Connection, predicate: str) -> None:
    sql = f"SELECT count(*) FROM shop WHERE {predicate}"
    assert one(alice, sql) == one(owner, sql)


def test_a_direct_call_means_it_too(stack: Stack, owner: Connection) -> None:
    with stack.cluster.connect("alice") as alice:
        found = one(alice, f"SELECT dp.dp_count('shop', 'div(price, 100) = 0', epsilon => {EPSILON})")
    assert found == one(owner, "SELECT count(*) FROM shop WHERE div(price, 100) = 0") == 400


@pytest.mark.parametrize("type_", [0, 25, 1042, 1043])
def test_a_padded_parameter_of_every_string_type(alice: Connection, owner: Connection, type_: int) -> None:
    """JDBC sends strings as varchar (1043)."""
    sql, value = b"SELECT count(*) FROM shop WHERE code = $1", [b"ab   "]
    ours, theirs = (side.pgconn.exec_params(sql, value, [type_]) for side in (alice, owner))
    assert ours.get_value(0, 0) == theirs.get_value(0, 0), ours.error_message


@pytest.mark.parametrize(("expression", "column", "near"), READINGS)
def test_nan_is_left_out_as_null_is(
    alice: Connection, owner: Connection, expression: str, column: str | None, near: int
) -> None:
    """But for count(x), which PostgreSQL's NaN is a value of."""
    where = f" WHERE {column} <> 'NaN'" if column else ""
    expected = one(owner, f"SELECT {expression} FROM shop{where}")
    assert abs(float(one(alice, f"SELECT {expression} FROM shop")) - float(expected)) <= near


def test_nan_is_in_no_range_of_a_workload(stack: Stack) -> None:
    with stack.cluster.connect("alice") as alice:
        asked = f"dp.dp_sum_workload('shop', 'temp', '{{5,10,50}}', epsilon => {EPSILON}, aggregates => '{{count}}')"
        counts = [row[0] for row in alice.execute(f"SELECT count FROM {asked} ORDER BY query").fetchall()]
    assert [abs(found - expected) <= 30 for found, expected in zip(counts, (0, 320, 320), strict=True)] == [True] * 3


def test_notice_and_plan_say_that_nan_is_left_out(alice: Connection) -> None:
    plan = "\n".join(row[0] for row in alice.execute("EXPLAIN SELECT sum(temp) FROM shop").fetchall())
    assert "NaN is left out" in plan
    plan = "\n".join(row[0] for row in alice.execute("EXPLAIN SELECT sum(qty) FROM shop").fetchall())
    assert "NaN" not in plan
