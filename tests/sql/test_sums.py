"""Statistics of sums, averages and spreads against plain SQL on real rows, hostile ones too; what is answered."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from fix_cluster import Cluster

# As the superuser: the exact statistics of a request, which nobody else ever has.
EXACT = """
CREATE FUNCTION public.exact(request jsonb) RETURNS jsonb LANGUAGE plpython3u AS $$
import json, plpy
from pg_epsilon import entry
plan = entry._compile(json.loads(request))
return json.dumps([[row[k] for k in row.keys()] for row in plpy.execute(plan.statement)], default=int)
$$
"""
PAY = """
CREATE TABLE pay (id int PRIMARY KEY, dept text, amount numeric, rate float8, wide bigint, cents numeric(8,2));
INSERT INTO pay SELECT i, (ARRAY['a','b','c'])[1 + i % 3], CASE WHEN i % 7 = 0 THEN NULL ELSE i * 1.25 - 40 END,
  i / 8.0 - 5, i::bigint * 1000003, i * 0.37 FROM generate_series(1, 200) i;
INSERT INTO pay VALUES (901, 'a', 'NaN', 'NaN', 9223372036854775807, 999999.99),
  (902, 'b', 1e30, 'Infinity', -9223372036854775808, -999999.99), (903, NULL, -1e30, '-Infinity', 0, NULL),
  (904, 'elsewhere', NULL, NULL, NULL, 0);
CALL dp.create_dataset('pay', unit => 'row', epsilon => 1000);
CALL dp.protect('pay', 'pay');
CALL dp.describe_column('pay', 'dept', domain => '{a,b,c,d}');
CALL dp.describe_column('pay', 'amount', bounds => '{-50,100}', resolution => '0.25');
CALL dp.describe_column('pay', 'rate', bounds => '{-2,10}', resolution => '0.125');
CALL dp.describe_column('pay', 'wide', bounds => '{0,1000000000}');
CALL dp.describe_column('pay', 'cents', bounds => '{0,50}');
CALL dp.publish('pay');
CALL dp.allot('alice', 'pay', epsilon => 1000);
CALL dp.describe_column('items', 'price', bounds => '{0,50}');
CALL dp.describe_column('orders', 'id', bounds => '{0,100}');
"""
Row = list[Any]


@pytest.fixture(scope="module")
def root(cluster: Cluster) -> Iterator[psycopg.Connection[Any]]:
    cluster.psql(PAY, user="boss")
    with cluster.connect() as conn:
        conn.execute(EXACT)
        yield conn


def exact(root: psycopg.Connection[Any], table: str, **members: Any) -> list[Row]:
    relation = {"schema": "public", "name": table}
    request = {"version": 1, "from": relation, "settings": {"dp.epsilon": "1"}, **members}
    found = root.execute("SELECT public.exact(%s)", (json.dumps(request),)).fetchone()
    assert found is not None
    return sorted(found[0], key=str)


def plain(root: psycopg.Connection[Any], sql: str) -> list[Row]:
    rows = root.execute(sql).fetchall()  # type: ignore[arg-type]
    return sorted(([int(v) if isinstance(v, Decimal) else v for v in row] for row in rows), key=str)


AMOUNT = "round(CASE WHEN amount IS NOT NULL THEN least(greatest(amount, -50), 100) END / 0.25)"
RATE = "round((CASE WHEN rate IS NOT NULL THEN least(greatest(rate, -2), 10) END)::numeric / 0.125)"
CENTS = "round(CASE WHEN cents IS NOT NULL THEN least(greatest(cents, 0), 50) END * 100)"
WIDE = "CASE WHEN wide IS NOT NULL THEN least(greatest(wide, 0), 1000000000) END"
ROW_UNITS = [
    ({"aggregates": ["sum(amount)"]}, f"SELECT sum({AMOUNT}) FROM pay"),
    ({"aggregates": ["sum(rate)"]}, f"SELECT sum({RATE}) FROM pay"),
    ({"aggregates": ["sum(cents)"]}, f"SELECT sum({CENTS}) FROM pay"),
    ({"aggregates": ["sum(wide)"]}, f"SELECT sum({WIDE}) FROM pay"),
    ({"aggregates": ["sum(wide)"], "where": "dept = 'zzz'"}, "SELECT 0"),
    (
        {"aggregates": ["sum(cents) FILTER (WHERE dept = 'a')", "count(*)"]},
        f"SELECT sum({CENTS}) FILTER (WHERE dept = 'a'), count(*) FROM pay",
    ),
    (
        {"keys": ["dept"], "aggregates": ["sum(cents)"]},
        f"SELECT dept, coalesce(sum({CENTS}), 0) FROM pay WHERE dept IS NULL OR dept <> 'elsewhere' GROUP BY 1",
    ),
    (
        {"aggregates": ["sum(CASE WHEN dept = 'a' THEN 2 ELSE -1 END)"]},
        "SELECT sum(CASE WHEN dept = 'a' THEN 2 ELSE -1 END) FROM pay",
    ),
    (
        {"aggregates": ["sum(least(greatest(cents * 2, -10), 10))"]},
        "SELECT sum(round(least(greatest(cents * 2, -10), 10) / 0.02)) FROM pay",
    ),
    ({"aggregates": ["avg(cents)"]}, f"SELECT sum({CENTS} - 2500), count(cents) FROM pay"),
    (
        {"aggregates": ["var_samp(cents)"]},
        f"SELECT count(cents), sum({CENTS} - 2500), sum(({CENTS} - 2500) ^ 2) FROM pay",
    ),
    (
        {"aggregates": ["sum(cents)"], "mechanism": "r2t"},
        "SELECT "
        + ", ".join(f"sum(least({CENTS}, {t})) FILTER (WHERE cents IS NOT NULL)" for t in (5, 30, 166, 915, 5000))
        + " FROM pay",
    ),
]


@pytest.mark.parametrize(("members", "oracle"), ROW_UNITS, ids=[str(m)[:60] for m, _ in ROW_UNITS])
def test_row_sums_are_exact(root: psycopg.Connection[Any], members: dict[str, Any], oracle: str) -> None:
    """NULL contributes nothing; NaN, infinities and values beyond the bounds are clamped; nothing raises."""
    assert exact(root, "pay", **members) == plain(root, oracle)
