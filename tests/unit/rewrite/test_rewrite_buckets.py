"""time_bucket in PostgreSQL's own functions: the text that the facade is sent, refusals, and places in the original."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pg_epsilon_proxy.rewrite.buckets import mentioned, spelled_out
from pg_epsilon_proxy.session.rewriting import Described, FacadeError, Field, Probe, Refusal
from pg_epsilon_proxy.session.written import AS_IT_IS, Edit, Written
from pg_epsilon_proxy.wire import messages

# The facade says so of a column with one of these names.
TYPES = {"ts": 1114, "tz": 1184, "d": 1082, "i": 23, "s": 21, "x": 25, "o": 1184, "w": 1186}


class Facade:
    """SessionIO: types by the name of what is asked for; width: (months, seconds) of what it must read."""

    def __init__(
        self, width: tuple[str, str] = ("0", "5400"), month: str = "23999", present: Sequence[tuple[str, ...]] = ()
    ) -> None:
        """present: functions by name, schema, whether they are on the path, and whether they are an extension's."""
        self.answers: dict[str, list[Any]] = {"AS i)": [width], "AS o)": [(month,)], "proname": list(present)}
        self.probed: list[str] = []
        self.fetched: list[str] = []

    async def in_parser(self, function: Callable[..., Any], *args: Any) -> Any:
        return function(*args)

    async def together(self, probes: Sequence[Probe]) -> list[Described]:
        self.probed += [probe.sql for probe in probes]
        written = [re.findall(r"SELECT (?:[a-z]+\.)?([a-z]+)\b", probe.sql) for probe in probes]
        types = [next(TYPES[name] for name in names if name in TYPES) for names in written]
        return [Described((), (Field("t", 0, 0, type_, -1, -1, 0),)) for type_ in types]

    async def fetch(self, sql: str, params: Sequence[str] = ()) -> list[list[str]]:
        self.fetched.append(sql)
        return [list(row) for mark, rows in self.answers.items() if mark in sql for row in rows]


def spelled(sql: str, facade: Facade | None = None) -> Written:
    return asyncio.run(spelled_out(sql, facade or Facade(), frozenset({"t"})))  # type: ignore[arg-type]


FORMS = [
    ("time_bucket('7 days', ts)", "date_bin('7 days', ts, '2000-01-03')"),
    ("time_bucket('7 days', tz)", "date_bin('7 days', tz, '2000-01-03 00:00:00+00')"),
    ("time_bucket('7 days', d)", "(date_bin('7 days', d::timestamp, '2000-01-03'))::date"),
    ("time_bucket($1, ts)", "date_bin($1, ts, '2000-01-03')"),
    (
        "time_bucket('1 hour', $1::timestamptz)",
        "date_bin('1 hour', (CAST($1 AS timestamptz)), '2000-01-03 00:00:00+00')",
    ),
    ("time_bucket('1 month', ts)", "date_trunc('month', ts)"),
    ("time_bucket('1 month', tz)", "timezone('UTC', date_trunc('month', timezone('UTC', tz)))"),
    ("time_bucket('1 year', d)", "(date_trunc('year', d::timestamp))::date"),
    (
        "time_bucket('1 day', tz, 'Asia/Tokyo')",
        "timezone('Asia/Tokyo', date_bin('1 day', timezone('Asia/Tokyo', tz), '2000-01-03'))",
    ),
    (
        "time_bucket('1 day', tz, timezone => 'UTC', origin => o)",
        "timezone('UTC', date_bin('1 day', timezone('UTC', tz), timezone('UTC', (o)::timestamptz)))",
    ),
    ("time_bucket('1 day', ts, origin => '2020-01-01')", "date_bin('1 day', ts, ('2020-01-01')::timestamp)"),
    (
        "time_bucket('1 day', ts, \"offset\" => '6 hours')",
        "(date_bin('1 day', (ts - ('6 hours')::interval), '2000-01-03') + ('6 hours')::interval)",
    ),
    (
        "time_bucket('3 months', ts, origin => '1999-12-01')",
        "(date_trunc('quarter', (ts - interval '2 months')) + interval '2 months')",
    ),
    ("time_bucket(10, i)", "(i - (i % 10 + 10) % 10)"),
    ("time_bucket(10, i, 3)", "(i - ((i - 3) % 10 + 10) % 10)"),
    (
        "time_bucket(2000000000, i)",
        "(i - i % 2000000000 - CASE WHEN i % 2000000000 < 0 THEN 2000000000 ELSE 2000000000 - 2000000000 END)",
    ),
    ("time_bucket(10, i + 1)", "((i + 1) - ((i + 1) % 10 + 10) % 10)"),
    ("public.time_bucket('7 days', ts)", "date_bin('7 days', ts, '2000-01-03')"),
]


@pytest.mark.parametrize(("call", "expected"), FORMS, ids=[call for call, _ in FORMS])
def test_each_form_has_its_own_words(call: str, expected: str) -> None:
    assert spelled(f"SELECT count(*) FROM t WHERE {call} IS NOT NULL").text == (
        f"SELECT count(*) FROM t WHERE {expected} IS NOT NULL"
    )


STATEMENTS = [
    (
        "SELECT time_bucket('1 day', ts), time_bucket('1 day', ts)::date , 1 FROM t GROUP BY 1",
        "SELECT {} AS time_bucket, {}::date AS time_bucket , 1 FROM t GROUP BY 1",
    ),
    ("SELECT (time_bucket('1 day', ts)) FROM t", "SELECT ({}) AS time_bucket FROM t"),
    ("SELECT time_bucket('1 day', ts) AS b, -- a\n 2 FROM t", "SELECT {} AS b, -- a\n 2 FROM t"),
    ("SELECT 'ü', max(time_bucket('1 day', ts)) FROM t", "SELECT 'ü', max({}) FROM t"),
    (
        "CREATE TEMP TABLE u AS SELECT time_bucket('1 day', ts) FROM t",
        "CREATE TEMP TABLE u AS SELECT {} AS time_bucket FROM t",
    ),
    ("COPY (SELECT time_bucket('1 day', ts) FROM t) TO STDOUT", "COPY (SELECT {} AS time_bucket FROM t) TO STDOUT"),
    ("UPDATE t SET ts = time_bucket('1 day', ts)", "UPDATE t SET ts = {}"),
    ("SELECT 1; SELECT 2 FROM t WHERE time_bucket('1 day', ts) > $1", "SELECT 1; SELECT 2 FROM t WHERE {} > $1"),
]


@pytest.mark.parametrize(("sql", "expected"), STATEMENTS, ids=[sql for sql, _ in STATEMENTS])
def test_the_rest_of_the_text_stays_and_columns_keep_their_names(sql: str, expected: str) -> None:
    assert spelled(sql).text == expected.format(*["date_bin('1 day', ts, '2000-01-03')"] * 2)


PROBES = [
    ("SELECT time_bucket('1 day', ts) FROM t, u WHERE true", "SELECT (SELECT ts FROM t, u) AS t"),
    (
        "WITH c AS (SELECT 1) SELECT 1 FROM t WHERE EXISTS (SELECT FROM u WHERE time_bucket('1 day', t.ts) = u.k)",
        "SELECT (WITH c AS (SELECT 1) SELECT (SELECT t.ts FROM u) FROM t) AS t",
    ),
    (
        "SELECT 1 FROM t, LATERAL (SELECT time_bucket('1 day', t.ts) FROM u) AS l, v",
        "SELECT (SELECT (SELECT t.ts FROM u) FROM t) AS t",
    ),
    ("SELECT 1 FROM t, (SELECT time_bucket('1 day', ts) FROM u) AS l", "SELECT (SELECT (SELECT ts FROM u)) AS t"),
    ("SELECT 1 FROM t JOIN u ON time_bucket('1 day', t.ts) = u.k", "SELECT (SELECT t.ts FROM t, u) AS t"),
    (
        "SELECT 1 FROM v JOIN (t LEFT JOIN u ON time_bucket('1 day', t.ts) = u.k) ON true",
        "SELECT (SELECT t.ts FROM v, t, u) AS t",
    ),
    ("DELETE FROM t USING u WHERE time_bucket('1 day', t.ts) = u.k", "SELECT (SELECT t.ts FROM t, u) AS t"),
    (
        "SELECT time_bucket('1 day', ts) FROM (SELECT $1 AS k) AS t",
        "SELECT (SELECT ts FROM (SELECT NULL AS k) AS t) AS t",
    ),
]


@pytest.mark.parametrize(("sql", "probe"), PROBES, ids=[sql for sql, _ in PROBES])
def test_an_argument_means_what_it_means_in_its_place(sql: str, probe: str) -> None:
    facade = Facade()
    spelled(sql, facade)
    assert facade.probed[0].startswith(probe)


def test_calls_in_one_another_are_written_from_the_inside() -> None:
    sql = "WITH w AS (SELECT time_bucket('1 day', ts) AS ts FROM t) SELECT time_bucket('7 days', ts) FROM w"
    facade = Facade()
    inner = "date_bin('1 day', ts, '2000-01-03')"
    assert spelled(sql, facade).text == (
        f"WITH w AS (SELECT {inner} AS ts FROM t) SELECT date_bin('7 days', ts, '2000-01-03') AS time_bucket FROM w"
    )
    assert "time_bucket" not in " ".join(facade.probed)


REFUSED = [
    ("time_bucket('5 months', ts)", "DP003", "a bucket of 5 months", "'1 month' to '6 months'"),
    ("time_bucket('2 years', ts)", "DP003", "a bucket of 24 months", "'10 years'"),
    ("time_bucket('1 hour', d)", "DP003", "whole days", "day::timestamp"),
    ("time_bucket('0 days', ts)", "22023", "greater than 0", "15 minutes"),
    ("time_bucket(0, i)", "22023", "greater than 0", "15 minutes"),
    ("time_bucket('1 day', x)", "DP003", "time_bucket of this type", "Give a date"),
    ("time_bucket('1 day', '2024-01-01')", "DP003", "without a type", "::timestamptz"),
    ("time_bucket('1 day', ts, '2024-01-01')", "DP003", "could be several things", '"offset" =>'),
    ("time_bucket('1 day', ts, origin => o)", "DP003", "the origin of a bucket of timestamp", "::timestamp"),
    ("time_bucket(10, i, origin => 3)", "DP003", "no origin or time zone", '"offset" =>'),
    ("time_bucket('1 day')", "DP003", "this form of time_bucket", '"offset" =>'),
    ("time_bucket('1 month', ts, origin => $1::timestamp)", "DP003", "needs constants", "constants"),
    (
        "time_bucket_gapfill('1 day', ts, '2024-01-01', '2024-02-01')",
        "DP003",
        "ends of time_bucket_gapfill",
        "Leave start",
    ),
    ("time_bucket_gapfill('1 day', ts, start => '2024-01-01')", "DP003", "ends of time_bucket_gapfill", "Leave start"),
    ("locf(avg(x))", "DP003", "locf() is not supported", "every declared group comes back"),
    ("interpolate(avg(x))", "DP003", "interpolate() is not supported", "every declared group comes back"),
    ("first(x, ts)", "DP003", "first() is not supported", "percentile_disc(0.5)"),
    ("last(x, ts)", "DP003", "last() is not supported", "percentile_disc(0.5)"),
    ("histogram(x, 0, 100, 10)", "DP003", "histogram() is not supported", "width_bucket(value, 0, 100, 10)"),
]


@pytest.mark.parametrize(("call", "sqlstate", "words", "hint"), REFUSED, ids=[row[0] for row in REFUSED])
def test_what_cannot_be_said_is_refused_with_what_to_type(call: str, sqlstate: str, words: str, hint: str) -> None:
    sql = f"SELECT time_bucket('1 day', ts), {call} FROM t"
    with pytest.raises(Refusal) as caught:
        spelled(sql)
    assert caught.value.sqlstate == sqlstate
    assert words in caught.value.message
    assert hint in (caught.value.hint or "")
    assert caught.value.position is not None and 33 <= caught.value.position < len(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT first(x, ts) FROM t",
        "SELECT first_value(x) OVER () FROM t",
        "SELECT last(a) FROM t",
        "SELECT 'time_bucket(' FROM t",
        "SELECT x FROM t ORDER BY x NULLS LAST",
        "SELECT time_bucket( FROM",
    ],
)
def test_what_is_the_facades_own_stays(sql: str) -> None:
    """Functions of these names that the facade has, and texts in which there is no call."""
    assert spelled(sql, Facade(present=[("first", "public", "true", "true")])) is AS_IT_IS


OWN = [
    ("time_bucket('1 day', ts)", ("time_bucket", "mine", "true", "false"), False),
    ("mine.time_bucket('1 day', ts)", ("time_bucket", "mine", "false", "false"), False),
    ("pg_temp.time_bucket('1 day', ts)", ("time_bucket", "pg_temp_3", "false", "false"), False),
    ("time_bucket('1 day', ts)", ("time_bucket", "mine", "false", "false"), True),
    ("theirs.time_bucket('1 day', ts)", ("time_bucket", "mine", "true", "false"), True),
    ("time_bucket('1 day', ts)", ("time_bucket", "public", "true", "true"), True),
    ("time_bucket_gapfill('1 day', ts)", ("time_bucket", "mine", "true", "false"), True),
]


@pytest.mark.parametrize(("call", "present", "ours"), OWN)
def test_a_function_of_the_clients_own_of_that_name_stays(call: str, present: tuple[str, ...], ours: bool) -> None:
    found = spelled(f"SELECT 1 FROM t WHERE {call} > $1", Facade(present=[present]))
    assert (found.rounds != ()) == ours


def test_calls_in_one_another_do_not_grow_without_bound() -> None:
    deep = "ts"
    for _ in range(10):
        deep = f"time_bucket('2 months', ({deep})::timestamp)"
    with pytest.raises(Refusal, match="too many calls of time_bucket in one another"):
        spelled(f"SELECT {deep} FROM t")


def test_a_text_of_many_calls_is_refused_before_they_are_asked_of() -> None:
    facade = Facade()
    with pytest.raises(Refusal, match="too many calls of time_bucket in a text"):
        spelled(f"SELECT {', '.join(['time_bucket(10, i)'] * 2000)} FROM t", facade)
    assert facade.probed == []


def test_an_interval_that_is_written_otherwise_is_read_by_the_facade() -> None:
    facade = Facade(width=("3", "0"))
    assert spelled("SELECT 1 FROM t WHERE time_bucket('P3M', ts) > $1", facade).text == (
        "SELECT 1 FROM t WHERE date_trunc('quarter', ts) > $1"
    )
    assert len(facade.fetched) == 2


def test_gaps_are_filled_where_groups_are_declared_and_nowhere_else() -> None:
    sql = "SELECT time_bucket('1 day', ts) AS a, time_bucket_gapfill('1 day', tz, 'UTC') AS b FROM t"
    found = spelled(sql)
    assert "timezone('UTC', date_bin(" in found.text
    with pytest.raises(Refusal, match="protected relations only") as caught:
        found.check_filled()
    assert "generate_series" in (caught.value.hint or "")
    assert caught.value.position == sql.index("time_bucket_gapfill")
    spelled("SELECT time_bucket('1 day', tz) FROM t").check_filled()


READ = [
    ("SELECT time_bucket_gapfill('1 day', ts) FROM u", False),
    ("SELECT time_bucket_gapfill('1 day', ts) FROM (SELECT * FROM s.t) AS x", True),
    ("WITH c AS (SELECT * FROM t), d AS (TABLE c) SELECT time_bucket_gapfill('1 day', ts) FROM d JOIN u ON true", True),
    ("WITH c AS (SELECT * FROM t) SELECT time_bucket_gapfill('1 day', ts) FROM u", False),
    ("SELECT 1 FROM t, (SELECT time_bucket_gapfill('1 day', ts) FROM u) AS x", False),
]


@pytest.mark.parametrize(("sql", "answered"), READ)
def test_gaps_are_filled_by_what_the_calls_own_query_reads(sql: str, answered: bool) -> None:
    if answered:
        assert spelled(sql).rounds
        return
    with pytest.raises(Refusal, match="protected relations only") as caught:
        spelled(sql)
    assert caught.value.position == sql.index("time_bucket_gapfill")


def test_places_are_those_of_the_clients_text() -> None:
    sql = "SELECT time_bucket('1 day', ts) AS b, nope FROM t"
    found = spelled(sql)
    assert found.place(found.text.index("nope")) == sql.index("nope")
    assert (
        found.place(found.text.index("2000")) == found.place(found.text.index("date_bin")) == sql.index("time_bucket")
    )
    assert found.place(0) == 0 and found.place(None) is None
    raw = messages.report(b"E", "ERROR", "42703", "column", None, None, found.text.index("nope") + 1, encoding="UTF8")
    assert messages.read_fields(found.error(raw))["P"] == str(sql.index("nope") + 1).encode()
    notice = messages.report(b"N", "NOTICE", "00000", "x", encoding="UTF8")
    assert found.error(notice) == notice


def test_what_is_raised_is_placed_in_the_clients_text() -> None:
    sql = "SELECT time_bucket('1 day', ts) AS b, nope FROM t"
    found = spelled(sql)
    here, there = found.text.index("nope"), sql.index("nope")
    refusal = Refusal("DP003", "x", position=here)
    with pytest.raises(Refusal) as caught, found.placing():
        raise refusal
    assert (caught.value.position, refusal.position) == (there, here)
    raw = messages.report(b"E", "ERROR", "42703", "column", None, None, here + 1, encoding="UTF8")
    with pytest.raises(FacadeError) as failed, found.placing():
        raise FacadeError(raw, {"C": "42703", "P": str(here + 1)})
    assert failed.value.position == there
    with pytest.raises(Refusal) as same, AS_IT_IS.placing():
        raise refusal
    assert same.value is refusal


def test_rounds_of_edits_add_up() -> None:
    found = Written("abcdef").edited([Edit(4, 5, "EEE"), Edit(1, 2, "BB")])
    assert found.text == "aBBcdEEEf"
    found = found.edited([Edit(3, 4, "")])
    assert found.text == "aBBdEEEf"
    assert [found.place(position) for position in range(9)] == [0, 1, 1, 3, 4, 4, 4, 5, 6]


def test_an_error_of_a_probe_is_placed_at_the_call() -> None:
    class Failing(Facade):
        async def together(self, probes: Sequence[Probe]) -> list[Described]:
            raw = messages.report(b"E", "ERROR", "42703", "column", None, None, 9, encoding="UTF8")
            raise FacadeError(raw, {"C": "42703", "P": "9"})

    sql = "SELECT 1, time_bucket('1 day', nope) FROM t"
    with pytest.raises(FacadeError) as caught:
        spelled(sql, Failing())
    assert caught.value.position == sql.index("time_bucket")


def test_other_texts_are_not_looked_at() -> None:
    assert not mentioned("SELECT count(*) FROM buckets ORDER BY first DESC NULLS LAST")
    assert mentioned("select TIME_BUCKET ('1 day', ts)")
