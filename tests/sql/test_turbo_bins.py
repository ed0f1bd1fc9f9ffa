"""Rows → bins and questions → bins against plain SQL on the rows, exactly: what noise would hide (§2.2, §2.3)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from fix_cluster import Cluster, standard_cluster
from fix_ledger import one

# The exact value of every query of a request, from the leaf counts: nobody but a superuser of a test ever sees it.
EXACT = """
CREATE FUNCTION public.exact(request jsonb) RETURNS jsonb LANGUAGE plpython3u AS $$
import json
from pg_epsilon import entry
from pg_epsilon.turbo.split import WHOLE
from pg_epsilon.turbo.sql_books import SqlBooks, Warm
asked = entry._request(json.loads(request))
view = entry.turbo.engine.view(asked, lock=False)
_, question = (None, None) if view is None else entry.turbo.engine.asked(asked, view) or (None, None)
if question is None:
    return None
books = SqlBooks(entry.rows, view, entry.turbo.engine._payer(asked, view, "alice", None, {}), None, Warm())
shown = []
for batch in question.batches:
    cells = [[(worth / q.unit, q) for worth, q in cell if not q.empty] for cell in batch.cells]
    shown.append([float(sum(step * books.truth(q, WHOLE) for step, q in cell)) for cell in cells])
return json.dumps(shown)
$$
"""
ATTRIBUTES = {
    "i": "i BETWEEN -5 AND 20",
    "ten": "ten >= 0 AND ten <= 95",
    "n": "n >= 0 AND n <= 9.5",
    "d": "d BETWEEN '2024-01-01' AND '2024-02-29'",
    "e": "e >= 0 AND e < 90",
    "t": "t IN ('x', 'y''z', 'back\\slash') OR t IS NULL",
    "c": "c IN ('ab', 'cd')",
    "f": "f IN ('red', 'green', 'blue') OR f IS NULL",
    "b": "true",
    "x": "x >= -1.5 AND x < 8",
    "s": "s >= '2024-01-01' AND s < '2024-03-01'",
    "z": "z >= '2024-01-01 00:00+00' AND z < '2024-03-01 00:00+00' OR z IS NULL",
    "w": "w >= -1000000000000 AND w < 1000000000000",
    "m": "m >= 0 AND m < 2000000",
    "q": "q >= 0 AND q < 1",
}
TABLE = r"""
CREATE TYPE colour AS ENUM ('red', 'green', 'blue');
CREATE TABLE rows_ (i int, ten smallint, n numeric(6,2), d date, e int, t text, c char(4), f colour, b bool,
  x float8, s timestamp, z timestamptz, w bigint, m numeric(12,2), q numeric);
INSERT INTO rows_ SELECT k * 7 % 31 - 8, k % 120, (k % 1300) / 100.0 - 1, DATE '2023-12-20' + k % 90, k % 100 - 5,
  (ARRAY['x', 'y''z', 'back\slash', 'other', NULL])[1 + k % 5], (ARRAY['ab', 'cd', 'zz'])[1 + k % 3],
  (ARRAY['red', 'green', 'blue', NULL]::colour[])[1 + k % 4], (ARRAY[true, false, NULL])[1 + k % 3],
  CASE WHEN k % 50 = 0 THEN 'NaN' ELSE k % 97 / 8.0 - 2 END, TIMESTAMP '2023-12-20' + k % 90 * INTERVAL '25 hours',
  CASE WHEN k % 9 > 0 THEN TIMESTAMPTZ '2023-12-20 00:00+00' + k % 90 * INTERVAL '25 hours' END,
  (k % 30 - 15) * 100000000000, k % 211 * 9999.99, k % 125 / 100.0
FROM generate_series(1, 3000) k;
INSERT INTO rows_ DEFAULT VALUES;
CALL dp.create_dataset('rows_', epsilon => 1);
CALL dp.protect('rows_', 'rows_', scale => 3000);
CALL dp.describe_column('rows_', 'i', bounds => '{-5,20}', nullable => false);
CALL dp.describe_column('rows_', 'ten', bounds => '{0,95}', resolution => '10', nullable => false);
CALL dp.describe_column('rows_', 'n', bounds => '{0,9.5}', resolution => '0.5', nullable => false);
CALL dp.describe_column('rows_', 'd', bounds => '{2024-01-01,2024-02-29}', resolution => '7 days', nullable => false);
CALL dp.describe_column('rows_', 'e', edges => '{0,18,50,90}', nullable => false);
CALL dp.describe_column('rows_', 't', domain => '{x,y''z,"back\\slash"}');
CALL dp.describe_column('rows_', 'c', domain => '{ab,cd}', nullable => false);
CALL dp.describe_column('rows_', 'f');
CALL dp.describe_column('rows_', 'b');
CALL dp.describe_column('rows_', 'x', edges => '{-1.5,0,2.25,8}', nullable => false);
CALL dp.describe_column('rows_', 's', edges => '{2024-01-01,2024-01-08 12:00,2024-02-01,2024-03-01}',
  nullable => false);
CALL dp.describe_column('rows_', 'z', edges => '{2024-01-01 00:00+00,2024-01-31 00:00+00,2024-03-01 00:00+00}');
CALL dp.describe_column('rows_', 'w', edges => '{-1000000000000,-5,0,300000000000,1000000000000}', nullable => false);
CALL dp.describe_column('rows_', 'm', edges => '{0,100000,500000.5,2000000}', nullable => false);
CALL dp.describe_column('rows_', 'q', edges => '{0,0.25,1}', nullable => false);
CALL dp.publish('rows_');
CALL dp.allot('alice', 'rows_', epsilon => 1);
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with standard_cluster() as running:
        running.psql(TABLE, user="boss")
        running.execute(EXACT)
        yield running


@pytest.fixture(scope="module")
def root(cluster: Cluster) -> Iterator[psycopg.Connection[Any]]:
    with cluster.connect() as conn:
        yield conn


def enable(cluster: Cluster, *attributes: str) -> None:
    with cluster.connect("boss") as boss:
        if one(boss, "SELECT count(*) FROM dp.turbo WHERE relation = 'public.rows_'"):
            boss.execute("CALL dp.disable_turbo('rows_')")
        boss.execute("CALL dp.enable_turbo('rows_', %s::name[], 0.05, 0.001)", [list(attributes)])


def exact(root: psycopg.Connection[Any], **members: Any) -> Any:
    request = {"version": 1, "from": {"schema": "public", "name": "rows_"}, "aggregates": ["count(*)"]}
    budget = {"budget": {"alpha": "0.05", "beta": "0.001"}, "settings": {}}
    return one(root, "SELECT public.exact(%s)", json.dumps({**request, **budget, **members}))


@pytest.mark.parametrize("attribute", ATTRIBUTES)
def test_every_row_is_in_its_bin(cluster: Cluster, root: psycopg.Connection[Any], attribute: str) -> None:
    """Each declared key counts its rows; those outside the declaration, NULL where it is not declared, are in none."""
    enable(cluster, attribute)
    found = exact(root, keys=[attribute])[0]
    inside = one(root, f"SELECT count(*) FROM rows_ WHERE {ATTRIBUTES[attribute]}".replace("%", "%%"))
    assert sum(found) == inside
    statement = "SELECT public.plain(%s)"
    root.execute(PLAIN)
    request = {"version": 1, "from": {"schema": "public", "name": "rows_"}, "keys": [attribute]}
    grouped = one(root, statement, json.dumps({**request, "aggregates": ["count(*)"], "settings": {"dp.epsilon": "1"}}))
    assert found == grouped


PLAIN = """
CREATE OR REPLACE FUNCTION public.plain(request jsonb) RETURNS jsonb LANGUAGE plpython3u AS $$
import json, plpy
from pg_epsilon import entry
from pg_epsilon.mechanisms import group_by
from pg_epsilon.query.statistics import collect
plan = entry._compile(json.loads(request))
keys = plan.request.keys
read = [statistic for choice in plan.choices for statistic in choice.statistics]
exact = collect(list(plpy.execute(plan.statement)), len(keys), read)
return json.dumps([exact.get(group, [0])[0] for group in group_by.groups([key.domain for key in keys])])
$$
"""

PREDICATES = [
    "i > 3",
    "i % 3 = 1 AND NOT i IN (4, 7)",
    "i BETWEEN 2 AND 9 OR e >= 50",
    "e < 18",
    "e <= 17 AND i <> 0",
    "NOT e > 49",
    "t = 'x'",
    "t <> 'x'",
    "t IS NULL",
    "t IS DISTINCT FROM 'y''z'",
    r"t LIKE 'back%' OR t = 'x' AND i < 0",
    "upper(t) = 'X'",
    "length(t) = 3",
    "coalesce(t, 'none') = 'none' OR i = 5",
    "(t = 'x') IS NOT TRUE AND e >= 18",
    "CASE WHEN e >= 50 THEN t = 'x' ELSE i > 2 END",
    "i = 3 AND i = 4",
    "i + 2 * i > 20",
    "(i > 3) = (t IS NULL)",
]
CUT = ["e > 20", "e % 2 = 0", "i + e > 30", "b", "ten = 3", "e BETWEEN 18 AND 48"]


def test_questions_are_sets_of_bins(cluster: Cluster, root: psycopg.Connection[Any]) -> None:
    """Box or not, the exact count from the bins is that from the rows; what cuts through a bin is not answered."""
    enable(cluster, "i", "e", "t")
    inside = " AND ".join(f"({ATTRIBUTES[a]})" for a in ("i", "e", "t"))
    for predicate in PREDICATES:
        rows = one(root, f"SELECT count(*) FROM rows_ WHERE {inside} AND ({predicate})".replace("%", "%%"))
        assert exact(root, where=predicate) == [[rows]], predicate
    for predicate in CUT:
        assert exact(root, where=predicate) is None, predicate


# Columns whose values cannot be listed: conditions compare them with constants.
RANGES = {
    "x": (
        [
            "x < 0",
            "x >= 2.25 OR x < 0",
            "NOT x >= 0",
            "x BETWEEN 0 AND 100",
            "x < 'NaN'",
            "x IS NOT NULL",
            "x > 8",
            "x >= -1.5 AND x < 2.25",
        ],
        ["x <= 0", "x > 0", "x = 0", "x < 1", "x IN (0, 1)", "floor(x) = 0", "x > i"],
    ),
    "s": (
        [
            "s < '2024-01-08 12:00'",
            "s >= '2024-02-01' OR s < '2024-01-01'",
            "s BETWEEN '2024-02-01' AND 'infinity'",
            "CASE WHEN s < '2024-02-01' THEN i > 3 ELSE i < 9 END",
        ],
        [
            "s <= '2024-01-08 12:00'",
            "s < '2024-01-08'",
            "date_trunc('day', s) < '2024-02-01'",
            "s > '2024-02-28 23:59:59'",
        ],
    ),
    "z": (
        [
            "z >= '2024-01-31 00:00+00'",
            "z IS NULL",
            "z IS DISTINCT FROM '2020-01-01 00:00+00'",
            "z IS NULL OR z < '2024-01-31 02:00+02'",
        ],
        ["z >= '2024-01-31 01:00+00'", "z IS NOT DISTINCT FROM '2024-01-05 00:00+00'"],
    ),
    "w": (
        [
            "w < 0",
            "w <= -1",
            "w > -6",
            "w >= -5 AND w < 300000000000",
            "w > 299999999999",
            "w <> 1000000000000",
            "w < -0.5",
        ],
        ["w < 1", "w <= 0", "w % 2 = 0", "w IN (1, 2)", "w > 0.5"],
    ),
    "m": (
        ["m < 100000", "m <= 99999.99", "m <= 99999.995", "m > 500000.49 OR m < 0", "m >= 500000.5 AND i > 4"],
        ["m <= 99999.98", "m < 100000.01", "m <= 100000"],
    ),
    "q": (["q < 0.25", "q >= 0.250", "NOT q < 0.25 OR i = 2"], ["q <= 0.249999999999999999999999999999", "q > 0.25"]),
}


@pytest.mark.parametrize("attribute", RANGES)
def test_ranges_of_values_that_cannot_be_listed(
    cluster: Cluster, root: psycopg.Connection[Any], attribute: str
) -> None:
    """A condition is one of bins if no value says otherwise, of timestamps, floating point numbers, wide integers."""
    enable(cluster, "i", attribute)
    inside, (whole, cut) = f"({ATTRIBUTES['i']}) AND ({ATTRIBUTES[attribute]})", RANGES[attribute]
    for predicate in whole:
        rows = one(root, f"SELECT count(*) FROM rows_ WHERE {inside} AND ({predicate})".replace("%", "%%"))
        assert exact(root, where=predicate) == [[rows]], predicate
    for predicate in cut:
        assert exact(root, where=predicate) is None, predicate
    groups = exact(root, keys=[f"CASE WHEN {whole[0]} THEN 'a' ELSE 'b' END"])[0]
    sql = f"SELECT count(*) FILTER (WHERE {whole[0]}), count(*) FROM rows_ WHERE {inside}"
    true, total = root.execute(sql).fetchone() or (0, 0)
    assert sorted(groups) == sorted([true, total - true])


SUMS = [
    ("sum(i)", "sum(i)"),
    ("sum(i * i)", "sum(i * i)"),
    ("sum(least(greatest(i, 2), 5)) FILTER (WHERE t = 'x')", "sum(least(greatest(i, 2), 5)) FILTER (WHERE t = 'x')"),
    ("sum(CASE WHEN t IS NULL THEN 7 ELSE -1 END)", "sum(CASE WHEN t IS NULL THEN 7 ELSE -1 END)"),
    ("count(t)", "count(t)"),
]


@pytest.mark.parametrize(("asked", "plain"), SUMS)
def test_sums_are_of_the_bins_values(cluster: Cluster, root: psycopg.Connection[Any], asked: str, plain: str) -> None:
    """Within the lattice of 2^-20 of the largest value; both signs; NULL contributes nothing."""
    if one(root, "SELECT (SELECT attributes::text FROM dp.turbo_view)") != "{i,e,t}":
        enable(cluster, "i", "e", "t")
    inside = " AND ".join(f"({ATTRIBUTES[a]})" for a in ("i", "e", "t"))
    true = float(one(root, f"SELECT {plain} FROM rows_ WHERE {inside} AND e >= 18"))
    found = exact(root, aggregates=[asked], where="e >= 18")
    assert found is not None
    assert abs(sum(found[0]) - true) <= 0.5


def test_groups_by_expressions(cluster: Cluster, root: psycopg.Connection[Any]) -> None:
    enable(cluster, "i", "e", "t")
    inside = " AND ".join(f"({ATTRIBUTES[a]})" for a in ("i", "e", "t"))
    key = "CASE WHEN i < 0 THEN 'neg' WHEN e >= 50 THEN 'old' ELSE 'rest' END"
    found = exact(root, keys=["i % 4", "t IS NULL"])
    sql = f"SELECT count(*) FROM rows_ WHERE {inside} GROUP BY i % 4, t IS NULL"
    rows = [row[0] for row in root.execute(sql).fetchall()]
    assert sorted(x for x in found[0] if x) == sorted(rows)
    grouped = exact(root, keys=[key])
    assert sum(grouped[0]) == one(root, f"SELECT count(*) FROM rows_ WHERE {inside}")
    assert exact(root, keys=["CASE WHEN e > 20 THEN 1 ELSE 2 END"]) is None
