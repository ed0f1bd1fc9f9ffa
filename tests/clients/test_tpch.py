"""TPC-H's shapes in plain SQL through the proxy: the unit is a customer, reached along foreign keys."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import fix_chance
from fix_stack import Stack, stack_at_work
from fix_tpch import load_shop

pytestmark = pytest.mark.chance(fix_chance.beyond(35, 60))

REVENUE = "l_extendedprice * (1 - l_discount)"
# Queries 3, 5, 10, 12 and 18 of TPC-H without their top-n and with declared groups; the answer's columns that are sums
# of values up to `largest`, of customers with at most 256 lines each, take that much noise.
QUERIES: dict[str, tuple[str, float]] = {
    "Q3": (
        f"SELECT sum({REVENUE}) AS revenue FROM customer, orders, lineitem WHERE c_mktsegment = 'BUILDING'"
        " AND c_custkey = o_custkey AND l_orderkey = o_orderkey AND o_orderdate < DATE '1995-03-15'"
        " AND l_shipdate > DATE '1995-03-15'",
        105_000,
    ),
    "Q3 count": (
        "SELECT count(*) FROM customer, orders, lineitem WHERE o_custkey = c_custkey AND l_orderkey = o_orderkey"
        " AND o_orderdate < DATE '1997-01-01' AND l_shipdate > DATE '1994-01-01'",
        1,
    ),
    "Q5": (
        f"SELECT n_name, sum({REVENUE}) AS revenue FROM customer JOIN orders ON c_custkey = o_custkey"
        " JOIN lineitem ON l_orderkey = o_orderkey JOIN nation ON c_nationkey = n_nationkey"
        " JOIN region ON n_regionkey = r_regionkey WHERE r_name = 'ASIA' AND o_orderdate >= DATE '1994-01-01'"
        " AND o_orderdate < DATE '1994-01-01' + interval '1 year' GROUP BY n_name ORDER BY n_name",
        105_000,
    ),
    "Q10": (
        f"SELECT c_mktsegment, sum({REVENUE}) AS revenue FROM customer, orders, lineitem, nation"
        " WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND o_orderdate >= DATE '1993-10-01'"
        " AND o_orderdate < DATE '1994-01-01' AND l_returnflag = 'R' AND c_nationkey = n_nationkey"
        " GROUP BY c_mktsegment ORDER BY c_mktsegment",
        105_000,
    ),
    "Q12": (
        "SELECT l_shipmode, count(*) FILTER (WHERE o_orderpriority IN ('1-URGENT', '2-HIGH')) AS high_line_count,"
        " count(*) FILTER (WHERE o_orderpriority NOT IN ('1-URGENT', '2-HIGH')) AS low_line_count"
        " FROM orders JOIN lineitem ON o_orderkey = l_orderkey WHERE l_commitdate < l_receiptdate"
        " AND l_shipdate < l_commitdate AND l_receiptdate >= DATE '1994-01-01' AND l_receiptdate < DATE '1995-01-01'"
        " GROUP BY l_shipmode ORDER BY l_shipmode",
        1,
    ),
    "Q18": (
        "SELECT sum(l_quantity) AS sum FROM customer, orders, lineitem WHERE o_custkey = c_custkey"
        " AND l_orderkey = o_orderkey",
        50,
    ),
}
EPSILON = 25


@pytest.fixture(scope="module")
def shop() -> Iterator[Stack]:
    with stack_at_work(load_shop) as stack:
        yield stack


@pytest.fixture
def alice(shop: Stack) -> Iterator[psycopg.Connection[Any]]:
    with shop.connect() as connection:
        connection.execute(f"SET search_path = tpch, public, dp; SET dp.epsilon = {EPSILON}")
        yield connection


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_of_tpch(shop: Stack, alice: psycopg.Connection[Any], name: str) -> None:
    """Names, types, groups and order are PostgreSQL's; values are near. 35 scales of the noise at half the budget (the
    most that two aggregates take), 256 lines a customer; R2T, if it is chosen, is at most that far below. False alarm
    below 60 e^-35 < 1e-13."""
    query, largest = QUERIES[name]
    found = alice.execute(query.encode())
    with shop.cluster.connect() as root:
        root.execute("SET search_path = tpch")
        true = root.execute(query.encode())
        exact = {tuple(v for v in row if isinstance(v, str)): row for row in true.fetchall()}
    assert found.description is not None and true.description is not None
    assert [(c.name, c.type_code) for c in found.description] == [(c.name, c.type_code) for c in true.description]
    rows = found.fetchall()
    assert len(rows) >= len(exact)
    for row in rows:
        key = tuple(v for v in row if isinstance(v, str))
        for value, expected in zip(row, exact.get(key, [*key, 0, 0]), strict=False):
            if not isinstance(value, str):
                assert abs(float(value) - float(expected)) <= 35 * 2 * 256 * largest / EPSILON
    assert [row[0] for row in rows if isinstance(row[0], str)] == sorted(
        row[0] for row in rows if isinstance(row[0], str)
    )


def test_error_bars_of_a_joined_sum(alice: psycopg.Connection[Any]) -> None:
    row = alice.execute(
        "SELECT sum(l_quantity), dp_low(sum(l_quantity)), dp_high(sum(l_quantity)), dp_stderr(sum(l_quantity))"
        " FROM lineitem JOIN orders ON l_orderkey = o_orderkey WHERE l_shipmode = 'AIR'"
    ).fetchone()
    assert row is not None
    value, low, high, stderr = row
    assert low <= value
    assert (high is None and stderr is None) or (value <= high and math.isfinite(stderr))
