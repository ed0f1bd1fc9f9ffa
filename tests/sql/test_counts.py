"""Statistics statements against plain SQL oracles on real rows, and what analysts get from them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import fix_chance
from fix_cluster import Cluster
from fix_exact import EXACT

STATEMENT = """
CREATE FUNCTION public.statement(request jsonb) RETURNS text LANGUAGE plpython3u AS $$
import json
from pg_epsilon import entry
return entry._compile(json.loads(request)).statement
$$
"""
Row = list[Any]


@pytest.fixture(scope="module")
def root(cluster: Cluster) -> Iterator[psycopg.Connection[Any]]:
    """A superuser with a window onto the exact statistics, which nobody else ever has."""
    with cluster.connect() as conn:
        conn.execute(EXACT)
        conn.execute(STATEMENT)
        yield conn


def request(table: str, **members: Any) -> str:
    relation = {"schema": "public", "name": table}
    settings = {"dp.epsilon": "1"}
    return json.dumps({"version": 1, "from": relation, "aggregates": ["count(*)"], "settings": settings, **members})


def statement(root: psycopg.Connection[Any], **members: Any) -> str:
    found = root.execute("SELECT public.statement(%s)", (request("people", **members),)).fetchone()
    assert found is not None
    return str(found[0])


def exact(root: psycopg.Connection[Any], table: str, **members: Any) -> list[Row]:
    found = root.execute("SELECT public.exact(%s)", (request(table, **members),)).fetchone()
    assert found is not None
    return sorted(found[0], key=str)


def plain(root: psycopg.Connection[Any], sql: str) -> list[Row]:
    return sorted((list(row) for row in root.execute(sql)), key=str)  # type: ignore[arg-type]


ROW_UNITS = [
    ({}, "SELECT count(*) FROM people"),
    ({"where": "age > 40"}, "SELECT count(*) FROM people WHERE age > 40"),
    ({"where": "city IS NULL OR income < 500.5"}, "SELECT count(*) FROM people WHERE city IS NULL OR income < 500.5"),
    ({"where": "false"}, "SELECT 0"),
    (
        {"aggregates": ["count(city)", "count(*) FILTER (WHERE sex = 'f')"]},
        "SELECT count(city), count(*) FILTER (WHERE sex = 'f') FROM people",
    ),
    ({"keys": ["sex"]}, "SELECT sex, count(*) FROM people GROUP BY 1"),
    (
        {"keys": ["city", "age"], "where": "sex = 'm'"},
        "SELECT city, age::text, count(*) FROM people WHERE sex = 'm' GROUP BY 1, 2",
    ),
    ({"keys": ["joined"], "aggregates": ["count(city)"]}, "SELECT joined::text, count(city) FROM people GROUP BY 1"),
]
KEPT = """SELECT o.*, row_number() OVER (PARTITION BY customer_id ORDER BY id) AS rn FROM orders o
          WHERE customer_id IS NOT NULL"""
BY_PATH = "items i JOIN orders o ON o.id = i.order_id WHERE o.customer_id IS NOT NULL"
USER_UNITS = [
    ("orders", {"aggregates": ["count(DISTINCT customer_id)"]}, "SELECT count(DISTINCT customer_id) FROM orders"),
    (
        "orders",
        {"aggregates": ["count(DISTINCT customer_id)"], "where": "status = 'paid'"},
        "SELECT count(DISTINCT customer_id) FROM orders WHERE status = 'paid'",
    ),
    ("orders", {}, f"SELECT count(*) FROM ({KEPT}) k WHERE rn <= 5"),
    ("orders", {"keys": ["status"]}, f"SELECT status, count(*) FROM ({KEPT}) k WHERE rn <= 5 GROUP BY 1"),
    (
        "orders",
        {"keys": ["status"], "aggregates": ["count(DISTINCT customer_id)"]},
        "SELECT status, count(DISTINCT customer_id) FROM orders WHERE customer_id IS NOT NULL GROUP BY 1",
    ),
    (
        "orders",
        {"aggregates": ["count(*) FILTER (WHERE status = 'open')", "count(DISTINCT customer_id)"]},
        """SELECT (SELECT sum(least(n, 5)) FROM (SELECT count(*) n FROM orders WHERE customer_id IS NOT NULL
         AND status = 'open' GROUP BY customer_id) s)::bigint, (SELECT count(DISTINCT customer_id) FROM orders)""",
    ),
    (
        "items",
        {"aggregates": [{"function": "count", "argument": None, "distinct": True}]},
        f"SELECT count(DISTINCT o.customer_id) FROM {BY_PATH}",
    ),
    ("items", {}, f"SELECT sum(least(n, 20))::bigint FROM (SELECT count(*) n FROM {BY_PATH} GROUP BY o.customer_id) s"),
    (
        "items",
        {"keys": ["sku"], "aggregates": [{"function": "count", "argument": None, "distinct": True}]},
        f"SELECT sku, count(DISTINCT o.customer_id) FROM {BY_PATH} GROUP BY 1",
    ),
]


@pytest.mark.parametrize(("members", "oracle"), ROW_UNITS)
def test_row_statistics_are_exact(root: psycopg.Connection[Any], members: dict[str, Any], oracle: str) -> None:
    assert exact(root, "people", **members) == plain(root, oracle)


@pytest.mark.parametrize(("table", "members", "oracle"), USER_UNITS)
def test_user_statistics_are_exact(
    root: psycopg.Connection[Any], table: str, members: dict[str, Any], oracle: str
) -> None:
    assert exact(root, table, **members) == plain(root, oracle)


def test_every_declared_group_comes_back_once(cluster: Cluster) -> None:
    with cluster.connect("alice", tcp=True) as alice:
        rows = alice.execute(
            "SELECT key->>'sex', key->>'city', (value->>'count(*)')::bigint FROM dp_group_by('people', '{sex,city}')"
        ).fetchall()
    assert Counter((sex, city) for sex, city, _ in rows) == Counter(
        (sex, city) for sex in ("f", "m", "x") for city in ("north", "south", "east", None)
    )


@pytest.mark.chance(fix_chance.laplace(20, 600, 60))
def test_answers_are_near_and_noisy(cluster: Cluster) -> None:
    """60 fresh draws at epsilon 0.05 (scale 20)."""
    with cluster.connect("bob", tcp=True) as bob:
        draws = [
            bob.execute("SELECT dp_count('people', epsilon => 0.05, fresh => true)").fetchone()[0]  # type: ignore[index]
            for _ in range(60)
        ]
    assert all(abs(draw - 1000) <= 600 for draw in draws)
    assert len(set(draws)) > 1


def test_statistics_use_the_server_s_parallel_workers(root: psycopg.Connection[Any]) -> None:
    """Where PostgreSQL would use workers, the statement that we make lets it (design.md §7)."""
    root.execute("SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0")
    plan = root.execute("EXPLAIN " + statement(root, where="age > 30")).fetchall()
    assert any("Gather" in line[0] for line in plan)
