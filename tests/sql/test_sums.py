"""Statistics of sums, averages and spreads against plain SQL on real rows, hostile ones too; what is answered."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import psycopg
import pytest

import fix_chance
from fix_cluster import Cluster
from fix_exact import EXACT

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


KEPT_UNITS = """CREATE TEMP VIEW kept_units AS
SELECT coalesce(sum(x) FILTER (WHERE x > 0), 0) p, coalesce(-sum(x) FILTER (WHERE x < 0), 0) m FROM (
  SELECT customer_id, least(greatest(id, 0), 100) - 50 AS x,
    row_number() OVER (PARTITION BY customer_id ORDER BY id) AS rn
  FROM orders WHERE customer_id IS NOT NULL) k WHERE rn <= 5 GROUP BY customer_id"""


@pytest.fixture(scope="module")
def root(cluster: Cluster) -> Iterator[psycopg.Connection[Any]]:
    cluster.psql(PAY, user="boss")
    with cluster.connect() as conn:
        conn.execute(EXACT)
        conn.execute(KEPT_UNITS)
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


AMOUNT = "round(CASE WHEN amount <> 'NaN' THEN least(greatest(amount, -50), 100) END / 0.25)"
RATE = "round((CASE WHEN rate <> 'NaN' THEN least(greatest(rate, -2), 10) END)::numeric / 0.125)"
CENTS = "round(CASE WHEN cents IS NOT NULL THEN least(greatest(cents, 0), 50) END * 100)"
WIDE = "CASE WHEN wide IS NOT NULL THEN least(greatest(wide, 0), 1000000000) END"
ROW_UNITS = [
    ({"aggregates": ["sum(amount)"]}, f"SELECT sum({AMOUNT}) FROM pay"),
    ({"aggregates": ["sum(rate)"]}, f"SELECT sum({RATE}) FROM pay"),
    ({"aggregates": ["avg(rate)"]}, f"SELECT sum({RATE} - 32), count({RATE}) FROM pay"),
    (
        {"aggregates": ["stddev(amount)", "count(amount)", "count(rate)"]},
        f"SELECT count({AMOUNT}), sum({AMOUNT} - 100), sum(({AMOUNT} - 100) ^ 2), count(amount), count(rate) FROM pay",
    ),
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
    """NULL and NaN contribute nothing, infinities and values beyond the bounds are clamped; nothing raises."""
    assert exact(root, "pay", **members) == plain(root, oracle)


# Of orders at most 5 rows a customer, of items 20; ordered as the cap orders them.
KEPT = """SELECT o.*, row_number() OVER (PARTITION BY customer_id ORDER BY id) AS rn FROM orders o
          WHERE customer_id IS NOT NULL"""
PRICE = "round(least(greatest(price, 0), 50) * 100)"
ID = "least(greatest(id, 0), 100)"
OWNED = "items i JOIN orders o ON o.id = i.order_id WHERE o.customer_id IS NOT NULL"
USER_UNITS = [
    (
        "items",
        {"aggregates": ["sum(price)"]},
        f"SELECT sum(least(s, 100000)) FROM (SELECT sum({PRICE}) s FROM {OWNED} GROUP BY o.customer_id) t",
    ),
    (
        "orders",
        {"aggregates": ["sum(id - 50)"]},
        f"""SELECT sum(least(greatest(s, -250), 250)) FROM
            (SELECT sum({ID} - 50) s FROM orders WHERE customer_id IS NOT NULL GROUP BY customer_id) t""",
    ),
    (
        "items",
        {"aggregates": [{"function": "sum", "argument": "price", "parameters": {"max_contribution": "12.5"}}]},
        f"SELECT sum(least(s, 1250)) FROM (SELECT sum({PRICE}) s FROM {OWNED} GROUP BY o.customer_id) t",
    ),
    (
        "items",
        {"aggregates": [{"function": "count", "argument": "*", "parameters": {"max_contribution": "3"}}]},
        f"SELECT sum(least(n, 3)) FROM (SELECT count(*) n FROM {OWNED} GROUP BY o.customer_id) t",
    ),
    (
        "orders",
        {"keys": ["status"], "aggregates": ["sum(id)", "count(*)", "avg(id)"]},
        f"SELECT status, sum({ID}), count(*), sum({ID} - 50), count(id) FROM ({KEPT}) k WHERE rn <= 5 GROUP BY 1",
    ),
    (
        "orders",
        {"aggregates": ["avg(id)"]},
        f"SELECT sum({ID} - 50), count(id) FROM ({KEPT}) k WHERE rn <= 5",
    ),
    (
        "orders",
        {"aggregates": ["median(id)"]},
        f"SELECT count(id), 0, NULL FROM ({KEPT}) k WHERE rn <= 5"
        f" UNION ALL SELECT count(id), 1, {ID} FROM ({KEPT}) k WHERE rn <= 5 GROUP BY {ID}",
    ),
    (
        "orders",
        {"keys": ["status"], "aggregates": ["count(DISTINCT customer_id)", "median(id) FILTER (WHERE id > 40)"]},
        f"""SELECT status, count(DISTINCT customer_id), count(*) FILTER (WHERE id > 40), 0, NULL
            FROM ({KEPT}) k WHERE rn <= 5 GROUP BY 1 UNION ALL
            SELECT status, count(DISTINCT customer_id), count(*) FILTER (WHERE id > 40), 2, {ID}
            FROM ({KEPT}) k WHERE rn <= 5 GROUP BY 1, {ID}""",
    ),
    (
        "orders",
        {"aggregates": ["sum(id - 50)", "avg(id)"], "mechanism": "r2t"},
        "SELECT "
        + ", ".join(f"(SELECT sum(least({side}, {t})) FROM kept_units)" for side in "pm" for t in (5, 30, 166, 250))
        + f", sum({ID} - 50), count(id) FROM ({KEPT}) k WHERE rn <= 5",
    ),
    (
        "items",
        {"aggregates": ["sum(price)"], "mechanism": "r2t"},
        "SELECT "
        + ", ".join(f"sum(least(s, {t}))" for t in (5, 30, 166, 915, 5032, 27680, 100000))
        + f" FROM (SELECT sum({PRICE}) s FROM {OWNED} GROUP BY o.customer_id) t",
    ),
    (
        "orders",
        {
            "aggregates": [
                {"function": "sum", "argument": "id - 50", "parameters": {"base": "2", "truncation": "filter"}}
            ],
            "mechanism": "r2t",
        },
        "SELECT "
        + ", ".join(
            f"coalesce(sum({side}) FILTER (WHERE {side} <= {t}), 0)"
            for side in ("p", "m")
            for t in (2, 4, 8, 16, 32, 64, 128, 250)
        )
        + f""" FROM (SELECT coalesce(sum({ID} - 50) FILTER (WHERE {ID} > 50), 0) p,
            coalesce(sum(50 - {ID}) FILTER (WHERE {ID} < 50), 0) m
            FROM orders WHERE customer_id IS NOT NULL GROUP BY customer_id) t""",
    ),
]


@pytest.mark.parametrize(("table", "members", "oracle"), USER_UNITS, ids=[str(m)[:70] for _, m, _ in USER_UNITS])
def test_user_sums_are_exact(root: psycopg.Connection[Any], table: str, members: dict[str, Any], oracle: str) -> None:
    """A unit's total is clamped, or its rows are capped: a function of its own rows."""
    assert exact(root, table, **members) == plain(root, oracle)


NEAR = [
    ("dp_sum('pay', 'cents', epsilon => 100)", "SELECT sum(least(greatest(cents, 0), 50)) FROM pay", 60),
    ("dp_sum_r2t('pay', 'cents', epsilon => 100)", "SELECT sum(least(greatest(cents, 0), 50)) FROM pay", 400),
    ("dp_avg('pay', 'cents', epsilon => 100)", "SELECT avg(least(greatest(cents, 0), 50)) FROM pay", 1),
    ("dp_median('pay', 'cents', epsilon => 100)", "SELECT median FROM m", 1),
    ("dp_quantile('pay', 'cents', 0.25, epsilon => 100)", "SELECT quarter FROM m", 1),
    ("dp_variance('pay', 'cents', epsilon => 100)", "SELECT variance(least(greatest(cents, 0), 50)) FROM pay", 40),
    ("dp_stddev('pay', 'cents', sample => false, epsilon => 100)", "SELECT deviation FROM m", 2),
]
TRUTH = """WITH v AS (SELECT least(greatest(cents, 0), 50) v FROM pay WHERE cents IS NOT NULL), m AS (
  SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY v) AS median, stddev_pop(v) AS deviation,
    percentile_disc(0.25) WITHIN GROUP (ORDER BY v) AS quarter FROM v) """


@pytest.mark.chance(fix_chance.beyond(29, 3))
@pytest.mark.parametrize(("call", "truth", "error"), NEAR, ids=[row[0][:20] for row in NEAR])
def test_answers_are_near(cluster: Cluster, root: psycopg.Connection[Any], call: str, truth: str, error: float) -> None:
    """At epsilon 100 over 203 values in [0, 50]: the allowed errors are 30 or more scales of what is drawn (a rank
    within 1 of the median is off by less than 1)."""
    expected = root.execute(TRUTH + truth).fetchone()  # type: ignore[arg-type]
    with cluster.connect("alice", tcp=True) as alice:
        shown = alice.execute(f"SELECT dp.{call}").fetchone()  # type: ignore[arg-type]
    assert expected is not None
    assert shown is not None
    assert abs(float(shown[0]) - float(expected[0])) <= error


def test_an_estimate_carries_its_bar(cluster: Cluster, root: psycopg.Connection[Any]) -> None:
    """Asked again, under another confidence, it is the same release with other bars, for free."""
    call = "SELECT value, low, high, stderr FROM dp.dp_estimate('pay', 'sum(cents)', epsilon => 2)"
    with cluster.connect("alice", tcp=True) as alice:
        alice.execute("SET dp.confidence = 0.9")
        before = alice.execute("SELECT dp.dp_budget_left('pay')").fetchone()
        value, low, high, error = alice.execute(call).fetchone()  # type: ignore[misc]
        paid = alice.execute("SELECT dp.dp_budget_left('pay')").fetchone()
        alice.execute("SET dp.confidence = 0.99")
        again, lower, higher, same = alice.execute(call).fetchone()  # type: ignore[misc]
        assert alice.execute("SELECT dp.dp_budget_left('pay')").fetchone() == paid
        assert before is not None
        assert paid is not None
        assert before[0] - paid[0] == 2
    assert (again, same) == (value, error)
    assert value - low == high - value == Decimal("57.56")  # 2500 ln(10) = 5756.5 cents
    assert lower < low < high < higher


def test_the_plan_says_why(cluster: Cluster, root: psycopg.Connection[Any]) -> None:
    """Candidates with their expected errors, from public facts; the smaller one is taken."""
    with cluster.connect("alice", tcp=True) as alice:
        for call in (
            "dp_sum_request('pay', 'cents', epsilon => 1)",
            "dp_sum_request('items', 'price', max_contribution => 1e9)",
        ):
            row = alice.execute(f"SELECT dp.dp_plan(dp.{call})").fetchone()  # type: ignore[arg-type]
            assert row is not None
            (plan,) = row[0]["aggregates"]
            errors = {c["mechanism"]: float(c["expected_error"]) for c in plan["candidates"]}
            assert len(errors) == 2
            assert errors[plan["mechanism"]] == min(errors.values())
            assert plan["why"]
        assert plan["mechanism"].startswith("R2T")


def test_a_block_of_many_aggregates_is_one_scan(cluster: Cluster, root: psycopg.Connection[Any]) -> None:
    asked = "'{sum(cents),avg(cents),stddev(cents),count(*),median(cents),sum(cents)}'"
    with cluster.connect("alice", tcp=True) as alice:
        rows = alice.execute(
            f"SELECT key, value FROM dp.dp_group_by('pay', '{{dept}}', {asked}, epsilon => 50)"
        ).fetchall()  # type: ignore[arg-type]
    assert [row[0]["dept"] for row in rows] == ["a", "b", "c", "d", None]
    assert all(
        set(row[1]) == {"sum(cents)", "avg(cents)", "stddev(cents)", "count(*)", "median(cents)"} for row in rows
    )
    with cluster.connect() as conn:
        statement = conn.execute("SELECT charge FROM dp.ledger ORDER BY at DESC LIMIT 1").fetchone()
    assert statement is not None
    assert len(statement[0]) == 1 + 2 + 3 + 1 + 1
