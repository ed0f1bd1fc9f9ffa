"""Error bars, EXPLAIN, views and prepared statements around blocks, through the whole product."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import psycopg
import pytest

from fix_stack import Stack

Connection = psycopg.Connection[Any]


@pytest.fixture(scope="module")
def stack(reports_stack: Stack) -> Stack:
    return reports_stack


@pytest.fixture
def alice(stack: Stack) -> Iterator[Connection]:
    with stack.connect() as connection:
        yield connection


def charges(stack: Stack) -> int:
    with stack.cluster.connect() as root:
        row = root.execute("SELECT count(*) FROM dp.ledger").fetchone()
    assert row is not None
    return int(row[0])


def refused(connection: Connection, sql: str) -> psycopg.Error:
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(sql.encode())
    return caught.value


@pytest.mark.parametrize("prepare", [False, True])
def test_error_bars_are_columns_of_their_aggregates_types(alice: Connection, prepare: bool) -> None:
    """At epsilon 0.1 the interval around a count is 2 * ceil(ln(20) / 0.1) = 60 wide at 95%, and 0.1 wider a scale."""
    sql = "SELECT count(*) AS n, dp_low(count(*)), dp_high(count(*)), dp_stderr(count(*)) FROM people"
    cursor = alice.execute(sql, prepare=prepare)
    names = [(column.name, column.type_display) for column in cursor.description or ()]
    assert names == [("n", "int8"), ("dp_low", "int8"), ("dp_high", "int8"), ("dp_stderr", "float8")]
    ((n, low, high, stderr),) = cursor.fetchall()
    assert low < n < high and n - low == high - n and 50 < high - low < 70 and 13 < stderr < 16


def test_error_bars_cost_nothing_and_follow_the_confidence(stack: Stack, alice: Connection) -> None:
    sql = "SELECT dp_high(count(*)) - count(*) FROM people WHERE sex = 'f'"
    alice.execute("SELECT count(*) FROM people WHERE sex = 'f'")
    before = charges(stack)
    widths = []
    for confidence in ("0.5", "0.99"):
        alice.execute(f"SET dp.confidence = '{confidence}'")
        row = alice.execute(sql.encode()).fetchone()
        assert row is not None
        widths.append(row[0])
    assert widths[0] < widths[1] and charges(stack) == before


@pytest.mark.parametrize(
    "sql", ["SELECT dp_low(5)", "SELECT dp_low(count(*) * 2) FROM people", "SELECT dp_stderr(n) FROM (VALUES (1)) v(n)"]
)
def test_bars_of_anything_else_are_refused_with_what_to_write(alice: Connection, sql: str) -> None:
    error = refused(alice, sql)
    assert error.sqlstate == "DP003" and "dp_low(count(*))" in str(error.diag.message_hint)


def test_bars_in_a_direct_session_say_where_they_belong(stack: Stack) -> None:
    with stack.cluster.connect(user="alice") as direct:
        error = refused(direct, "SELECT dp.dp_low(5)")
    assert error.sqlstate == "DP003" and "proxy" in str(error.diag.message_hint)


def test_median_of_released_values(alice: Connection) -> None:
    row = alice.execute("SELECT median(v), median(w) FROM (VALUES (3, 'c'), (1, 'a'), (NULL, 'b')) t(v, w)").fetchone()
    assert row == (1, "b")


def test_a_view_is_answered_as_what_it_stands_for(stack: Stack, alice: Connection) -> None:
    """One question under two names is one question: the second is free."""
    first = alice.execute("SELECT sex, count(*) FROM people WHERE age >= 21 GROUP BY sex ORDER BY sex").fetchall()
    before = charges(stack)
    assert alice.execute("SELECT * FROM by_sex ORDER BY sex").fetchall() == first
    assert alice.execute("SELECT sex, count(*) FROM grown_ups GROUP BY 1 ORDER BY 1").fetchall() == first
    assert charges(stack) == before


@pytest.mark.parametrize("sql", ["SELECT * FROM grown_ups", "TABLE grown_ups", "SELECT id FROM grown_ups LIMIT 1"])
def test_a_views_rows_are_private(alice: Connection, sql: str) -> None:
    assert refused(alice, sql).sqlstate == "DP002"


def test_a_view_over_what_is_not_published_is_not_published(stack: Stack) -> None:
    with stack.cluster.connect(user="boss") as boss:
        error = refused(boss, "CALL dp.publish('telling')")
    assert error.sqlstate == "DP005" and error.diag.message_hint


def test_an_analysts_own_view_is_not_expanded(alice: Connection) -> None:
    assert refused(alice, "CREATE TEMP VIEW grown_ups AS SELECT * FROM people").sqlstate == "DP003"
    alice.execute("CREATE TEMP VIEW grown_ups AS SELECT 1 AS years")
    assert alice.execute("SELECT count(*) FROM grown_ups").fetchone() == (1,)


@pytest.mark.parametrize("form", ["TEXT", "JSON", "YAML", "XML"])
def test_explain_charges_nothing_in_any_format(stack: Stack, alice: Connection, form: str) -> None:
    before = charges(stack)
    asked = "SELECT years, sum(years), dp_low(sum(years)) FROM grown_ups WHERE sex = '<' GROUP BY years"
    rows = alice.execute(f"EXPLAIN (FORMAT {form}) {asked}".encode()).fetchall()
    if form == "TEXT":
        assert rows[0][0].startswith("DP block $1: dp_group_by('public.people', keys => ['age']")
    elif form == "XML":
        assert ElementTree.fromstring(rows[0][0])[0].tag.endswith("DP-Block")  # noqa: S314  (our own text)
    else:
        value = rows[0][0] if form == "JSON" else json.loads(rows[0][0])
        assert value[0]["DP Blocks"][0]["Facts"]["charge"]["worst"] == {"epsilon": "0.1"}
    assert charges(stack) == before


def test_a_prepared_statement_keeps_its_meaning_or_is_refused(alice: Connection) -> None:
    alice.execute("PREPARE p AS SELECT count(*) FROM people WHERE joined > '02/03/2024'")
    first = alice.execute("EXECUTE p").fetchone()
    alice.execute("SET DateStyle = 'ISO, DMY'")
    error = refused(alice, "EXECUTE p")
    assert error.sqlstate == "DP003" and "DateStyle" in str(error.diag.message_primary)
    alice.execute("RESET DateStyle")
    alice.execute("SET search_path = public, pg_temp")
    assert alice.execute("EXECUTE p").fetchone() == first
    alice.execute("CREATE TEMP TABLE people (joined date)")
    alice.execute("SET search_path = pg_temp, public")
    assert "search_path" in str(refused(alice, "EXECUTE p").diag.message_primary)


def test_several_columns_are_set_by_one_block(stack: Stack, alice: Connection) -> None:
    alice.execute("CREATE TEMP TABLE mine (a bigint, b bigint); INSERT INTO mine VALUES (0, 0)")
    before = charges(stack)
    alice.execute("UPDATE mine SET (a, b) = (SELECT count(*), 1 - count(*) FROM people WHERE age < 33)")
    row = alice.execute("SELECT a, b FROM mine").fetchone()
    assert row is not None and row[0] + row[1] == 1 and charges(stack) == before + 1


def test_calls_stand_wherever_an_expression_or_a_table_function_may(alice: Connection) -> None:
    rows = alice.execute(
        "SELECT g, n, s.m - n FROM generate_series(1, 2) g, dp_count('people', 'age > 20') AS c(n), "
        "LATERAL (SELECT dp_count('people', 'age > 20') + g AS m) s WHERE g <= c.n ORDER BY g"
    ).fetchall()
    assert [(g, shift) for g, _, shift in rows] == [(1, 1), (2, 2)]


def test_a_setting_that_is_no_boolean_is_refused(stack: Stack, alice: Connection) -> None:
    before = charges(stack)
    alice.execute("SET dp.notices = maybe")
    assert refused(alice, "SELECT count(*) FROM people WHERE age < 34").sqlstate == "DP005"
    assert charges(stack) == before


def test_a_long_statement_over_protected_data_says_so(alice: Connection) -> None:
    values = ",".join(map(str, range(100_000)))
    error = refused(alice, f"SELECT count(*) FROM people WHERE age IN ({values})")
    assert error.sqlstate == "DP003" and "524288" in str(error.diag.message_primary)
    row = alice.execute(f"SELECT count(*) FROM unnest('{{{values}}}'::int[]) AS people".encode()).fetchone()
    assert row == (100_000,)
