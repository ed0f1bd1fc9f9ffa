"""Groups by expressions: the list of keys follows from declarations alone, and each row is where PostgreSQL puts it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

import fix_chance
from fix_cluster import Cluster, private_cluster
from fix_joins import Connection, ask, build, document, exact, fill
from fix_ledger import no_charge, refused

FACTS = """
CREATE TYPE mood AS ENUM ('sad', 'ok', 'new "mood"');
CREATE TABLE facts (id int PRIMARY KEY, i int, s smallint, n numeric(6,2), u numeric, f float8, t text, c char(4),
  b boolean, d date, ts timestamp, tz timestamptz, m mood, o int, x numeric, big bigint, e int, at time);
CALL dp.create_dataset('facts', epsilon => 1000); CALL dp.protect('facts', 'facts');
CALL dp.describe_column('facts', 'id');
CALL dp.describe_column('facts', 'i', bounds => '{0,30}', nullable => false);
CALL dp.describe_column('facts', 's', bounds => '{-3,3}');
CALL dp.describe_column('facts', 'n', bounds => '{0,5}');
CALL dp.describe_column('facts', 'u', bounds => '{0,4}', resolution => '0.5');
CALL dp.describe_column('facts', 'f', bounds => '{0.2,10}', nullable => false);
CALL dp.describe_column('facts', 't', domain => '{Ab,aB,c}');
CALL dp.describe_column('facts', 'c', domain => '{p,q}', nullable => false);
CALL dp.describe_column('facts', 'b');
CALL dp.describe_column('facts', 'd', bounds => '{2023-12-30,2024-03-02}', nullable => false);
CALL dp.describe_column('facts', 'ts', bounds => '{2023-12-30 10:30,2024-03-02 05:00}');
CALL dp.describe_column('facts', 'tz', bounds => '{2024-01-01 00:00+00,2024-02-01 00:00+00}', nullable => false);
CALL dp.describe_column('facts', 'm'); CALL dp.describe_column('facts', 'o');
CALL dp.describe_column('facts', 'x', nullable => false);
CALL dp.describe_column('facts', 'big', bounds => '{0,5000000}');
CALL dp.describe_column('facts', 'e', edges => '{0,10,20}');
CALL dp.describe_column('facts', 'at', bounds => '{06:30,24:00}', resolution => '75 minutes');
CALL dp.publish('facts'); CALL dp.allot('alice', 'facts', epsilon => 1000);
"""
ROWS = """
INSERT INTO facts SELECT k, (k * 7) % 33, CASE WHEN k % 5 > 0 THEN k % 9 - 4 END, (k * 37 % 550) / 100.0,
  (k % 10) / 2.0, (k % 23) / 2.0 + 0.2, (ARRAY['Ab','aB','c','zz',NULL])[1 + k % 5], (ARRAY['p','q','r'])[1 + k % 3],
  (ARRAY[true,false,NULL])[1 + k % 3], DATE '2023-12-25' + k % 80,
  timestamp '2023-12-30 10:00' + k * interval '7 hours 13 min',
  timestamptz '2024-01-01Z' + k * interval '3 hours 29 min',
  (ARRAY['sad','ok','new "mood"',NULL])[1 + k % 4]::mood,
  k % 7, k / 3.0 - 20, k * 10000, k % 25,
  CASE WHEN k % 50 = 0 THEN time '24:00' WHEN k % 11 > 0 THEN time '05:10' + k * interval '17 min 0.5 sec' END
FROM generate_series(1, 210) k
"""
_TS = "ts IS NULL OR ts BETWEEN '2023-12-30 10:30' AND '2024-03-02 05:00'"
_TZ = "tz BETWEEN '2024-01-01 00:00+00' AND '2024-02-01 00:00+00'"
# Keys, and which rows are within the declarations: each of their values must be listed.
EXPRESSIONS: dict[str, str] = {
    "i + 1": "i BETWEEN 0 AND 30",
    "i / 10": "i BETWEEN 0 AND 30",
    # more declared values than can be listed: once a cell
    "big / 100000": "big IS NULL OR big BETWEEN 0 AND 5000000",
    "big - (big % 100000 + 100000) % 100000": "big IS NULL OR big BETWEEN 0 AND 5000000",
    "big - ((big - 50000) % 150000 + 150000) % 150000": "big IS NULL OR big BETWEEN 0 AND 5000000",
    "big / 70000 - big / 50000": "big IS NULL OR big BETWEEN 0 AND 5000000",
    "i % 4": "i BETWEEN 0 AND 30",
    "i / 10 * 10 - s": "i BETWEEN 0 AND 30 AND (s IS NULL OR s BETWEEN -3 AND 3)",
    "abs(s)": "s IS NULL OR s BETWEEN -3 AND 3",
    "coalesce(s, 100)": "s IS NULL OR s BETWEEN -3 AND 3",
    "sign(s)": "s IS NULL OR s BETWEEN -3 AND 3",
    "floor(n)": "n BETWEEN 0 AND 5",
    "round(n, 1)": "n BETWEEN 0 AND 5",
    "n * 2": "n BETWEEN 0 AND 5",
    "coalesce(u, 9)": "u BETWEEN 0 AND 4",
    "CASE WHEN u > 1 THEN u END": "u BETWEEN 0 AND 4",
    "floor(f)": "f BETWEEN 0.2 AND 10",
    "round(f)": "f BETWEEN 0.2 AND 10",
    "CASE WHEN ceil(f) > 5 THEN trunc(f) ELSE -1 END": "f BETWEEN 0.2 AND 10",
    "lower(t)": "t IS NULL OR t IN ('Ab', 'aB', 'c')",
    "coalesce(upper(t), '?')": "t IS NULL OR t IN ('Ab', 'aB', 'c')",
    "left(c, 1)": "c IN ('p', 'q')",
    "length(t) + i": "i BETWEEN 0 AND 30 AND (t IS NULL OR t IN ('Ab', 'aB', 'c'))",
    "b IS TRUE": "true",
    "NOT b": "true",
    "coalesce(b, false)": "true",
    "m::text": "true",
    "coalesce(m, 'sad')": "true",
    "date_trunc('month', d)": "d BETWEEN '2023-12-30' AND '2024-03-02'",
    "date_trunc('week', d)::date": "d BETWEEN '2023-12-30' AND '2024-03-02'",
    "extract(year from d)": "d BETWEEN '2023-12-30' AND '2024-03-02'",
    "extract(dow from d)": "d BETWEEN '2023-12-30' AND '2024-03-02'",
    "date_part('month', d)": "d BETWEEN '2023-12-30' AND '2024-03-02'",
    "date_trunc('month', ts)": "ts IS NULL OR ts BETWEEN '2023-12-30 10:30' AND '2024-03-02 05:00'",
    "date_trunc('day', ts)": "ts IS NULL OR ts BETWEEN '2023-12-30 10:30' AND '2024-03-02 05:00'",
    "date_trunc('hour', ts)": "ts IS NULL OR ts BETWEEN '2023-12-30 10:30' AND '2024-03-02 05:00'",
    "extract(hour from ts)": "ts IS NULL OR ts BETWEEN '2023-12-30 10:30' AND '2024-03-02 05:00'",
    "ts::date": "ts IS NULL OR ts BETWEEN '2023-12-30 10:30' AND '2024-03-02 05:00'",
    "CASE WHEN extract(dow from ts) IN (0, 6) THEN extract(hour from ts) ELSE -1 END": "ts IS NULL OR"
    " ts BETWEEN '2023-12-30 10:30' AND '2024-03-02 05:00'",
    "date_trunc('day', tz)": "tz BETWEEN '2024-01-01 00:00+00' AND '2024-02-01 00:00+00'",
    "date_trunc('day', tz, 'Asia/Kathmandu')": "tz BETWEEN '2024-01-01 00:00+00' AND '2024-02-01 00:00+00'",
    "extract(hour from tz AT TIME ZONE 'America/St_Johns')": "tz BETWEEN '2024-01-01 00:00+00' AND"
    " '2024-02-01 00:00+00'",
    "date_bin('15 minutes', ts, '2000-01-03')": _TS,
    "date_bin('7 days', ts, '2000-01-03')": _TS,
    "date_bin('1 hour', ts, '2000-01-03 00:07')": _TS,
    "extract(hour from date_bin('90 minutes', ts, '2000-01-03'))": _TS,
    "date_bin('15 minutes', tz, '2000-01-03 00:00+00')": _TZ,
    "date_bin('6 hours', timezone('Australia/Lord_Howe', tz), '2000-01-03')": _TZ,
    "timezone('Asia/Kathmandu', date_bin('1 day', timezone('Asia/Kathmandu', tz), '2000-01-03'))": _TZ,
    "timezone('Asia/Kathmandu', date_bin('7 days', timezone('Asia/Kathmandu', tz), '2000-01-03 05:00'))": _TZ,
    "date_bin('2 hours', tz - interval '7 minutes', '2000-01-03 00:00+00') + interval '7 minutes'": _TZ,
    "date_bin('7 days', d::timestamp, '2000-01-03'::timestamp)::date": "d BETWEEN '2023-12-30' AND '2024-03-02'",
    "date_bin('3 days', d, '2000-01-03')": "d BETWEEN '2023-12-30' AND '2024-03-02'",
    # seconds, as dashboards cut them
    "floor(extract(epoch from ts)/86400)*86400": _TS,
    "floor(extract(epoch from ts) / 900.0)": _TS,
    "ceil((extract(epoch from ts::timestamptz))::numeric / (5400)::numeric)": _TS,
    "round(extract(epoch from ts) / 7050) + extract(day from ts)": _TS,
    "date_part('epoch', tz)::bigint / 3600 * 3600": _TZ,
    "(extract(epoch from tz) / 100000)::bigint": _TZ,
    "extract(epoch from tz)::bigint / 1800 * 1800": _TZ,
    "floor(extract(epoch from tz))::int / 10125": _TZ,
    "div(extract(epoch from tz), 43200)": _TZ,
    "floor(extract(epoch from tz) / '43200'::int4) * '43200'::int8": _TZ,
    "floor(extract(epoch from at) / 1500)": "at IS NULL OR at >= '06:30'",
    "floor(extract(epoch from d) / 604800)": "d BETWEEN '2023-12-30' AND '2024-03-02'",
    "d - 1": "d BETWEEN '2023-12-30' AND '2024-03-02'",
    "(date_trunc('month', d) + interval '1 month' - interval '1 day')::date": "d BETWEEN '2023-12-30' AND '2024-03-02'",
    "date_trunc('week', ts + interval '1 day') - interval '1 day'": "ts IS NULL OR"
    " ts BETWEEN '2023-12-30 10:30' AND '2024-03-02 05:00'",
    "date_trunc('day', ts - interval '4 hours')": "ts IS NULL OR ts BETWEEN '2023-12-30 10:30' AND '2024-03-02 05:00'",
    "date_trunc('month', tz + interval '1 month 4 hours')": "tz BETWEEN '2024-01-01 00:00+00' AND"
    " '2024-02-01 00:00+00'",
    "extract(hour from at)": "at IS NULL OR at >= '06:30'",
    "date_trunc('hour', at)": "at IS NULL OR at >= '06:30'",
    "date_trunc('minute', at - interval '20 minutes')": "at IS NULL OR at >= '06:30'",
    "CASE WHEN extract(hour from at) > 12 THEN 'pm' ELSE 'am' END": "true",
    # by their form alone: whatever the columns hold
    "o > 3": "true",
    "x > 3": "true",
    "o IN (1, 2) AND t = 'c'": "true",
    "o IS NULL": "true",
    "CASE WHEN o < 2 THEN 'low' WHEN o < 5 THEN 'mid' ELSE 'high' END": "true",
    "CASE o WHEN 1 THEN 1.50 WHEN 2 THEN 2 END": "true",
    "CASE WHEN x > 0 THEN date '2024-01-01' ELSE '2023-01-01' END": "true",
    "CASE WHEN b THEN true ELSE o = 1 END": "true",
    "width_bucket(x, 0, 40, 4)": "true",
    "width_bucket(o, 0, 4, 2)": "true",
    "width_bucket(f, 0, 8, 4)": "true",
    "1": "true",
    "'a'": "true",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with private_cluster() as running:
        build(running)
        running.psql(FACTS, user="boss")
        running.psql(ROWS)
        yield running


@pytest.fixture(scope="module")
def root(cluster: Cluster) -> Iterator[Connection]:
    with cluster.connect() as conn:
        fill(conn, 1)
        yield conn


@pytest.fixture(scope="module")
def alice(cluster: Cluster) -> Iterator[Connection]:
    with cluster.connect("alice") as conn:
        yield conn


def text_of(expression: str) -> str:
    """A key's text: without trailing zeros, t and f, moments in UTC."""
    if expression.startswith(("CASE WHEN b", "o > ", "x > ", "o IN", "o IS", "b IS", "NOT b", "coalesce(b")):
        return f"left(({expression})::text, 1)"
    text = f"({expression})::text"
    return f"CASE WHEN {text} ~ '^-?[0-9]+[.][0-9]+$' THEN trim_scale({text}::numeric)::text ELSE {text} END"


def plain(root: Connection, expression: str, condition: str) -> dict[str | None, int]:
    with root.transaction():
        root.execute("SET LOCAL TimeZone = 'UTC'")
        sql = f"SELECT {text_of(expression)}, count(*) FROM facts WHERE {condition} GROUP BY 1"
        return dict(root.execute(sql).fetchall())  # type: ignore[arg-type]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_row_is_in_the_group_that_postgresql_puts_it_in(root: Connection, expression: str) -> None:
    answer = exact(root, document("facts", keys=[expression]))
    listed = {key: int(str(count)) for key, count in answer}
    assert len(listed) == len(answer), "no key twice"
    within, everywhere = (plain(root, expression, where) for where in (EXPRESSIONS[expression], "true"))
    assert set(within) <= set(listed), "every value that the declarations allow has its group"
    assert listed == {key: everywhere.get(key, 0) for key in listed}


def keys_of(root: Connection, *keys: str, tables: str = "facts", **members: Any) -> list[str | None]:
    return [row[0] for row in exact(root, document(tables, keys=list(keys), **members))]


ORDERED: list[tuple[str, list[str | None]]] = [
    ("date_trunc('month', d)", [f"{m} 00:00:00+00" for m in ("2023-12-01", "2024-01-01", "2024-02-01", "2024-03-01")]),
    ("extract(year from d)", ["2023", "2024"]),
    ("date_trunc('quarter', ts)", ["2023-10-01 00:00:00", "2024-01-01 00:00:00", None]),
    ("date_trunc('hour', at)", [*(f"{hour:02d}:00:00" for hour in range(6, 25)), None]),
    ("extract(hour from at)", [*(str(hour) for hour in range(6, 25)), None]),
    (
        "at",
        [*(f"{minute // 60:02d}:{minute % 60:02d}:00" for minute in range(390, 1441, 75)), None],
    ),
    ("width_bucket(o, 0, 4, 2)", ["0", "1", "2", "3", None]),
    ("width_bucket(i, 0, 4, 2)", ["0", "1", "2", "3"]),
    ("CASE WHEN o < 2 THEN 'low' WHEN o < 5 THEN 'mid' ELSE 'high' END", ["low", "mid", "high"]),
    ("CASE WHEN o < 2 THEN 'low' WHEN o < 5 THEN 'low' END", ["low", None]),
    ("i > 3", ["f", "t"]),
    ("s > 3", ["f", "t", None]),
    ("s IS NOT NULL", ["f", "t"]),
    ("s > 3 AND i > 3", ["f", "t", None]),
    ("coalesce(s, 1) > 3", ["f", "t"]),
    ("i / 10", ["0", "1", "2", "3"]),
    ("- s", ["3", "2", "1", "0", "-1", "-2", "-3", None]),
    ("coalesce(s, 9)", ["-3", "-2", "-1", "0", "1", "2", "3", "9"]),
    ("nullif(c, 'p')", ["q", None]),
    ("lower(t)", ["ab", "c", None]),
    ("round(f)", [str(i) for i in range(11)]),
    ("floor(f)", [str(i) for i in range(11)]),
    ("ceil(f)", [str(i) for i in range(1, 11)]),
    ("1 + 1", ["2"]),
]


@pytest.mark.parametrize(("expression", "expected"), ORDERED, ids=[e for e, _ in ORDERED])
def test_the_list_is_complete_ordered_and_no_longer_than_it_must_be(
    root: Connection, expression: str, expected: list[str | None]
) -> None:
    assert keys_of(root, expression) == expected


def test_a_time_is_in_the_cell_that_it_lies_in(root: Connection) -> None:
    """The last cell begins, and ends, with the end of the day."""
    found = {key: int(str(count)) for key, count in exact(root, document("facts", keys=["at"]))}
    for low, high in pairwise([key for key in found if key is not None]):
        sql = f"SELECT count(*) FROM facts WHERE at >= '{low}' AND at < '{high}'"
        assert root.execute(sql).fetchone() == (found[low],)
    assert root.execute("SELECT count(*) FROM facts WHERE at = '24:00'").fetchone() == (found["24:00:00"],)
    assert found["24:00:00"] > 0


DAY = "ts >= '2024-01-05' AND ts < '2024-01-06'"
NARROWED: list[tuple[str, str, list[str]]] = [
    (
        "date_bin('1 second', ts, '2000-01-03')",
        "ts >= '2024-01-05' AND '2024-01-05 00:00:03' > ts",
        ["00:00", "00:01", "00:02"],
    ),
    (
        "date_bin('2 seconds', ts, '2000-01-03')",
        "ts BETWEEN '2024-01-05 00:00:01' AND '2024-01-05 00:00:03'",
        ["00:00", "00:02"],
    ),
    ("date_bin('2 seconds', ts, '2000-01-03')", "ts = '2024-01-05 00:00:01' AND i > 3", ["00:00"]),
    (
        "date_bin('3 seconds', ts, '2000-01-03')",
        "ts > '2024-01-05 00:00:02.999999' AND ts <= '2024-01-05 00:00:05'",
        ["00:03"],
    ),
]


@pytest.mark.parametrize(("key", "where", "seconds"), NARROWED)
def test_what_is_too_much_to_list_is_narrowed_by_the_where(
    root: Connection, key: str, where: str, seconds: list[str]
) -> None:
    expected = [*(f"2024-01-05 00:{second}" for second in seconds), None]
    assert keys_of(root, key, where=where) == expected


def test_quarter_hours_of_a_day_are_ninety_six(root: Connection) -> None:
    """Of bounds that can be listed, a WHERE takes none: every declared group comes back."""
    listed = keys_of(root, "date_bin('15 minutes', ts, '2000-01-03')", where=DAY)
    assert len(listed) == (13 * 4 + 2) + 62 * 96 + (5 * 4 + 1) + 1
    assert len(keys_of(root, "date_trunc('minute', ts)", where=DAY)) == 62 * 1440 + 13 * 60 + 30 + 5 * 60 + 1 + 1
    fine = keys_of(root, "date_bin('500 seconds', ts, '2024-01-05')", where=f"{DAY} AND ts > '2024-01-05 23:00'")
    assert len(fine) > 10_000


SHIFTED = [
    "date_trunc('day', ts + interval '1 month')",
    "date_trunc('day', ts + interval '1 month' + interval '23 hours 45 minutes')",
    "date_trunc('day', ts - interval '15 minutes' - interval '1 month')",
    "date_trunc('week', ts + interval '1 month -1 day')",
    "date_trunc('month', ts - interval '3 months') + interval '3 months'",
    "extract(doy from ts - interval '11 months 4 hours')",
    "(ts - interval '4 hours')::date + 1",
]


@pytest.mark.parametrize("expression", SHIFTED)
def test_the_list_of_a_shifted_moment_is_what_all_its_minutes_give(root: Connection, expression: str) -> None:
    """Months move the 29th to the 31st onto others: what is left of a day may be a quarter of an hour."""
    moments = "generate_series(timestamp '2023-12-30 10:30', '2024-03-02 05:00', '1 minute') AS ts"
    expected = root.execute(f"SELECT DISTINCT {text_of(expression)} FROM {moments}").fetchall()
    assert sorted(map(str, keys_of(root, expression))) == sorted(["None", *(row[0] for row in expected)])


SECONDS = [
    "floor(extract(epoch from ts) / 900) * 900",
    "round(extract(epoch from ts) / 900)",
    "date_part('epoch', ts)::int / 1020",
    "(extract(epoch from ts)::bigint / 75) * 75",
    "floor(extract(epoch from ts) / 7000) + extract(day from ts)",
    "floor(extract(epoch from ts) / 6900) - extract(hour from ts + interval '1 month')",
    "floor(extract(epoch from ts) / 100020) + extract(minute from date_bin('7 minutes', ts, '2000-01-01'))",
]


@pytest.mark.parametrize("expression", SECONDS)
def test_the_list_of_cut_seconds_is_what_all_moments_give(root: Connection, expression: str) -> None:
    """Beside other functions of the moment too, whose cells end elsewhere."""
    moments = "generate_series(timestamp '2023-12-30 10:30', '2024-03-02 05:00', '15 seconds') AS ts"
    expected = root.execute(f"SELECT DISTINCT {text_of(expression)} FROM {moments}").fetchall()
    assert sorted(map(str, keys_of(root, expression))) == sorted(["None", *(row[0] for row in expected)])


def test_the_list_says_nothing_about_rows(root: Connection) -> None:
    before = {expression: keys_of(root, expression) for expression in EXPRESSIONS}
    with root.transaction(force_rollback=True):
        root.execute("DELETE FROM facts")
        after = {expression: keys_of(root, expression) for expression in EXPRESSIONS}
    assert before == after


def test_keys_of_a_join_and_of_a_public_table(root: Connection) -> None:
    tables = "customers c\n regions r ON r.name = c.region"
    units: dict[str, Any] = {"aggregates": ["count(distinct c.id)"]}
    answer = exact(root, document(tables, keys=["zone", "vip IS TRUE"], **units))
    expected = root.execute(
        "SELECT z, v, (SELECT count(*)::text FROM customers c JOIN regions r ON r.name = c.region"
        " WHERE zone IS NOT DISTINCT FROM z AND left((vip IS TRUE)::text, 1) = v)"
        " FROM (VALUES (1, 'cold'), (2, 'warm'), (3, NULL)) AS a(i, z), (VALUES ('f'), ('t')) AS b(v) ORDER BY i, v"
    ).fetchall()
    assert answer == [list(row) for row in expected]
    assert keys_of(root, "rank * 10", tables=tables, **units) == ["10", "20", "30"]
    assert keys_of(root, "rank", tables=tables, **units) == ["1", "2", "3"]
    assert keys_of(root, "upper(zone)", tables=tables, **units) == ["COLD", "WARM", None]
    assert len(exact(root, document(tables, keys=["name", "region"], **units))) == 3 * 4
    mixed = "CASE WHEN rank > 1 THEN zone ELSE c.region END"
    assert set(keys_of(root, mixed, tables=tables, **units)) == {"n", "s", "e", "warm", None}


def test_keys_of_two_joined_relations(root: Connection) -> None:
    tables = "items i\n orders o ON o.id = i.order_id"
    keys = ["sku", "date_trunc('month', o.day)::date", "amount > 5"]
    answer = exact(root, document(tables, keys=keys, aggregates=["count(distinct o.customer_id)"]))
    assert len(answer) == 4 * 3 * 3
    expected = root.execute(
        "SELECT sku, date_trunc('month', day)::date::text, left((amount > 5)::text, 1),"
        " count(DISTINCT customer_id)::text FROM items i JOIN orders o ON o.id = i.order_id"
        " WHERE customer_id IS NOT NULL AND (sku IS NULL OR sku <> 'd')"
        " GROUP BY 1, 2, 3"
    ).fetchall()
    assert sorted(map(str, (row for row in answer if row[-1] != "0"))) == sorted(str(list(row)) for row in expected)


def test_a_public_tables_new_value_is_a_new_question(cluster: Cluster, root: Connection, alice: Connection) -> None:
    tables = "customers c\n regions r ON r.name = c.region"
    request = document(tables, keys=["zone"], aggregates=["count(distinct c.id)"])
    first = ask(alice, request)
    with no_charge(cluster):
        assert ask(alice, request) == first
    root.execute("INSERT INTO regions VALUES ('e', 'mild', 4)")
    assert [row[0] for row in ask(alice, request)] == ["cold", "mild", "warm", None]


REFUSED: list[tuple[str, str, str]] = [
    ("DP004", "o + 1", "no declared values"),
    ("DP004", "lower(o::text)", "no declared values"),
    ("DP004", "e / 2", "no declared values"),
    ("DP004", "date_trunc('second', ts)", "no declared values"),
    ("DP004", "date_bin('1 second', ts, '2000-01-03')", "no declared values"),
    ("DP003", "date_bin('1 month', ts, '2000-01-03')", "no fixed width"),
    ("DP003", "date_bin('-1 day', ts, '2000-01-03')", "out of range"),
    ("DP003", "date_bin('1 day', ts, 'infinity')", "the origin"),
    ("DP003", "date_bin('1 day', i, '2000-01-03')", "date_bin of int"),
    ("DP004", "extract(epoch from ts)", "no declared values"),
    # no step in them, or one too short, or whose width no row's moment is cut by
    ("DP004", "extract(epoch from ts) / 900", "no declared values"),
    ("DP004", "floor(extract(epoch from ts)) / 900", "no declared values"),
    ("DP004", "extract(epoch from ts)::bigint / 900.0", "no declared values"),
    ("DP004", "floor(extract(epoch from ts) / 0.9)", "no declared values"),
    ("DP004", "floor(extract(epoch from ts) / 1)", "no declared values"),
    ("DP003", "floor(extract(epoch from ts) / 'NaN'::numeric)", "overflow"),
    ("DP004", "floor(extract(epoch from ts) / nullif(i, 0))", "no declared values"),
    ("DP004", "floor(extract(epoch from ts) / 900 + extract(epoch from ts))", "no declared values"),
    ("DP004", "round(extract(epoch from ts) / 900, 3)", "no declared values"),
    ("DP004", "floor(extract(second from ts) / 30)", "no declared values"),
    ("DP004", "floor(extract(epoch from ts - interval '1 month') / 7000)", "no declared values"),
    ("DP004", "date_trunc('day', ts + interval '1 month' - interval '1 second')", "no declared values"),
    ("DP004", "ts + interval '1 day'", "no declared values"),
    ("DP004", "extract(hour from ts) + extract(second from ts)", "no declared values"),
    ("DP004", "CASE WHEN ts > '2024-01-01' THEN date_trunc('day', ts) END", "no declared values"),
    ("DP004", "extract(second from at)", "no declared values"),
    ("DP003", "date_trunc('milliseconds', at)", "not supported of a time"),
    ("DP003", "date_trunc('hour', at, 'UTC')", "no time zone"),
    ("DP003", "coalesce(date_trunc('hour', at), interval '1 hour')", "cannot be a group key"),
    ("DP003", "f", "cannot be a group key"),
    ("DP004", "CASE WHEN floor(f) > 2 THEN f END", "no declared values"),
    ("DP004", "CASE WHEN o = 1 THEN 1 ELSE o END", "no declared values"),
    ("DP004", "big % 1000000", "no declared values"),
    ("DP005", "i + s * 100 + length(t) + n * 1000 + extract(doy from d)", "combinations"),
    ("DP003", "o = 1 OR count(i) > 1", "count"),
    ("DP003", "coalesce(t, (SELECT max(zone) FROM public.regions))", "sub-query"),
    ("DP003", "date '2024-01-01' + i", "not supported"),
    ("DP003", "CASE WHEN i > 1 THEN interval '1 day' END", "cannot be a group key"),
    ("DP003", "sum(i)", "sum"),
    ("DP003", "i, s", "one scalar expression"),
    ("DP003", "(SELECT i)", "one scalar expression"),
    ("42703", "nothing + 1", "does not exist"),
]


@pytest.mark.parametrize(("sqlstate", "expression", "words"), REFUSED, ids=[r[1][:60] for r in REFUSED])
def test_refused(cluster: Cluster, alice: Connection, sqlstate: str, expression: str, words: str) -> None:
    with no_charge(cluster), refused(sqlstate, words):
        ask(alice, document("facts", keys=[expression]))


def test_a_key_may_be_named_twice(root: Connection, alice: Connection) -> None:
    once = ask(alice, document("facts", keys=["c", "i > 3"]))
    assert len(once) == 4
    twice = ask(alice, document("facts", keys=["c", "i > 3", "facts.c", "3 < i"]))
    assert twice == [[c, i, c, i, n] for c, i, n in once], "the same question, from the cache"


@pytest.mark.chance(fix_chance.laplace(1 / 30, 0, 4))
def test_the_answer_itself(root: Connection, alice: Connection) -> None:
    """Four draws of DLap(1/30), which are 0."""
    request = document("facts", keys=["width_bucket(i, 0, 20, 2)"])
    assert ask(alice, request) == exact(root, request)
