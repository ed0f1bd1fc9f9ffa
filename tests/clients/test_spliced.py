"""What is ours behaves as PostgreSQL would, for real clients (facade-and-channel.md §6)."""

from __future__ import annotations

import os
import subprocess
from typing import Any

import asyncpg
import psycopg
import pytest

from fix_proxy import BIN, GROUPED_SQL, PASSWORD, ROWS, FakePrivate, ThreadedProxy
from fix_raw import RawClient, shape
from fix_waiting import PATIENCE, once, soon
from pg_epsilon_proxy.wire import messages


def test_psql_gets_the_answer_under_the_original_names(relay: ThreadedProxy, calls: list[tuple[str, int]]) -> None:
    done = subprocess.run(
        [str(BIN / "psql"), "-X", "-A", "-c", GROUPED_SQL.format(7),
         "-c", "SELECT 1 + (SELECT count(*) FROM secret) AS total"],
        env={**os.environ, "PGHOST": "127.0.0.1", "PGPORT": str(relay.port), "PGUSER": "alice", "PGDATABASE": "facade",
             "PGPASSWORD": PASSWORD}, capture_output=True, text=True, check=True, timeout=PATIENCE,
    )  # fmt: skip
    assert done.stdout == "region|count\nnorth|7\nsouth|8\n(2 rows)\ntotal\n1\n(1 row)\n"
    assert calls == [("alice", 7), ("alice", 0)]


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("prepare", [None, True])
def test_psycopg(db: psycopg.Connection[Any], calls: list[Any], binary: bool, prepare: bool | None) -> None:
    cursor = db.cursor(binary=binary)
    for _ in range(3):
        assert cursor.execute(GROUPED_SQL.format("%s"), (7,), prepare=prepare).fetchall() == ROWS
    column = cursor.description[0] if cursor.description else None
    assert column is not None and column.name == "region" and column.display_size == 10, "typmod of the original"
    assert calls == [("alice", 7)] * 3


def test_psycopg_pipeline(db: psycopg.Connection[Any], calls: list[Any]) -> None:
    with db.pipeline():
        cursors = [
            db.execute(GROUPED_SQL.format("%s"), (7,)),
            db.execute("SELECT 5"),
            db.execute(GROUPED_SQL.format("%s"), (7,)),
        ]
        assert [c.fetchall() for c in cursors] == [ROWS, [(5,)], ROWS]


def test_error_in_a_pipeline_comes_before_any_charge(db: psycopg.Connection[Any], calls: list[Any]) -> None:
    with pytest.raises(psycopg.errors.DivisionByZero), db.pipeline():
        db.execute("SELECT 1/0")
        db.execute(GROUPED_SQL.format("%s"), (7,))
    assert calls == []
    assert db.execute(GROUPED_SQL.format(7)).fetchall() == ROWS


def test_bad_parameter_is_an_error_before_any_charge(raw: RawClient, calls: list[Any]) -> None:
    parse = messages.parse(b"s", GROUPED_SQL.format("$1").encode())
    raw.send(parse, messages.bind(b"", b"s", (), (b"x",)), messages.execute(b""), messages.SYNC)
    found = raw.until(b"Z")
    assert shape(found) == ["1", "E", "ZI"] and messages.read_fields(found[1])["C"] == b"22P02"
    raw.send(messages.bind(b"", b"s"), messages.SYNC)
    found = raw.until(b"Z")
    assert messages.read_fields(found[0])["M"] == (
        b'bind message supplies 0 parameters, but prepared statement "s" requires 1'
    )
    raw.send(messages.query(b"begin; declare c cursor for select 1"))
    raw.until(b"Z")
    raw.send(messages.bind(b"c", b"s", (), (b"1",)), messages.SYNC)
    found = raw.until(b"Z")
    assert shape(found) == ["E", "ZE"] and messages.read_fields(found[0])["C"] == b"42P03"
    raw.send(messages.bind(b"", b"s", (), (b"1",)), messages.SYNC)
    assert messages.read_fields(raw.until(b"Z")[0])["C"] == b"25P02"
    assert calls == []


def test_describe_hides_what_is_ours(raw: RawClient, direct: RawClient, calls: list[Any]) -> None:
    for client in (direct, raw):
        client.send(
            messages.parse(b"s", GROUPED_SQL.format("$1").encode()), messages.describe(b"S", b"s"), messages.SYNC
        )
    expected, seen = direct.until(b"Z"), raw.until(b"Z")
    assert seen == expected
    raw.send(messages.bind(b"p", b"s", (1,), ((7).to_bytes(4, "big"),), (1,)), messages.describe(b"P", b"p"))
    raw.send(messages.execute(b"p", 1), messages.execute(b"p", 5), messages.SYNC)
    found = raw.until(b"Z")
    assert shape(found) == ["2", "T", "D", "s", "D", "C", "ZI"]
    fields = messages.read_row_description(found[1])
    table = messages.read_row_description(expected[2])[0].table_oid
    assert [(f.name, f.table_oid, f.typmod, f.format) for f in fields] == [
        (b"region", table, 14, 1), (b"count", 0, -1, 1)
    ]  # fmt: skip
    assert calls == [("alice", 7)], "row limits charge nothing"


def test_server_cursor_and_transaction(relay: ThreadedProxy, calls: list[Any]) -> None:
    with psycopg.connect(**relay.conninfo()) as connection:
        with connection.cursor("srv") as cursor:
            cursor.itersize = 1
            assert list(cursor.execute("SELECT 1 + (SELECT count(*) FROM secret WHERE n > 7)")) == [(8,)]
        assert connection.execute("CREATE TEMP TABLE kept AS " + GROUPED_SQL.format(7)).statusmessage == "SELECT 2"
        connection.commit()
        assert connection.execute("TABLE kept").fetchall() == ROWS
    assert calls == [("alice", 7)] * 2


def test_copy_of_an_answer_in_both_protocols(db: psycopg.Connection[Any], raw: RawClient, calls: list[Any]) -> None:
    text = f"COPY ({GROUPED_SQL.format(7)}) TO STDOUT"
    with db.cursor().copy(text) as copy:
        assert b"".join(copy) == b"north\t7\nsouth\t8\n"
    raw.send(messages.parse(b"", text.encode()), messages.describe(b"S", b""), messages.bind(b"", b""))
    raw.send(messages.execute(b""), messages.SYNC, messages.query(b"select name from pg_prepared_statements"))
    assert shape(raw.until(b"Z", 2)) == ["1", "t", "n", "2", "H", "d", "d", "c", "C", "ZI", "T", "C", "ZI"]
    assert calls == [("alice", 7)] * 2


async def test_asyncpg(relay: ThreadedProxy, calls: list[Any]) -> None:
    connection = await asyncpg.connect(
        host="127.0.0.1", port=relay.port, user="alice", password=PASSWORD, database="facade", ssl=False
    )
    try:
        statement = await connection.prepare(GROUPED_SQL.format("$1"))
        assert [t.name for t in statement.get_parameters()] == ["int4"]
        assert [tuple(row) for row in await statement.fetch(7)] == ROWS
        async with connection.transaction():
            cursor = await connection.cursor(GROUPED_SQL.format("$1"), 7)
            assert [tuple(row) for row in await cursor.fetch(1)] == ROWS[:1]
            assert [tuple(row) for row in await cursor.fetch(5)] == ROWS[1:]
        assert calls == [("alice", 7)] * 2
        with pytest.raises(asyncpg.PostgresError, match="this shape is not supported") as refused:
            await connection.fetch("SELECT region AS refuse_at_plan FROM secret")
        assert (refused.value.sqlstate, refused.value.hint) == ("DP003", "Write “count(*)”.")
        with pytest.raises(asyncpg.PostgresError, match="is exhausted") as refused:
            await connection.fetch(GROUPED_SQL.format("$1") + " -- refuse_at_run", 7)
        assert refused.value.sqlstate == "DP001"
        assert await connection.fetchval("SELECT $1::int[]", [1, 2]) == [1, 2]
    finally:
        await connection.close()


def test_notice_comes_with_the_answer(db: psycopg.Connection[Any], calls: list[Any]) -> None:
    seen: list[str | None] = []
    db.add_notice_handler(lambda notice: seen.append(notice.message_primary))
    assert db.execute(GROUPED_SQL.format(7) + " -- noticed").fetchall() == ROWS
    assert db.execute(GROUPED_SQL.format("%s") + " -- noticed", (7,)).fetchall() == ROWS
    assert seen == ["dp: charged 0.1"] * 2


def test_misjudged_statement_meets_the_net(db: psycopg.Connection[Any], calls: list[Any]) -> None:
    for sql in ("SELECT * FROM secret", "SELECT sum(n) FROM secret", "TABLE secret"):
        with pytest.raises(psycopg.errors.DatabaseError) as error:
            db.execute(sql)
        assert error.value.sqlstate == "DP002"
    assert calls == []


def test_errors_of_the_original_text_are_postgresqls(db: psycopg.Connection[Any], calls: list[Any]) -> None:
    for parameters in (None, ()):
        with pytest.raises(psycopg.errors.UndefinedColumn) as error:
            db.execute("SELECT nosuch FROM secret", parameters)
        assert error.value.diag.statement_position == "8"
        assert db.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def test_brain_failure_tells_nothing(db: psycopg.Connection[Any], caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(psycopg.errors.DatabaseError) as error:
        db.execute("SELECT region AS brain_fails FROM secret")
    assert error.value.sqlstate == "DP006" and "literal" not in str(error.value) + caplog.text


@pytest.mark.parametrize("parameters", [None, (7,)])
def test_cancel_reaches_the_private_call(
    db: psycopg.Connection[Any], private_side: FakePrivate, parameters: tuple[int] | None
) -> None:
    private_side.cancelled = 0
    private_side.calls.clear()
    with once(lambda: private_side.calls, db.cancel_safe), pytest.raises(psycopg.errors.QueryCanceled):
        db.execute(GROUPED_SQL.format("%s" if parameters else 7) + " -- slowly", parameters)
    assert private_side.cancelled == 1
    assert db.execute(GROUPED_SQL.format(7)).fetchall() == ROWS


def test_hanging_up_ends_the_private_call(relay: ThreadedProxy, raw: RawClient, private_side: FakePrivate) -> None:
    private_side.cancelled = 0
    private_side.calls.clear()
    raw.send(messages.query(GROUPED_SQL.format(7).encode() + b" -- slowly"))
    assert soon(lambda: private_side.calls)
    raw.close()
    assert soon(lambda: private_side.cancelled)
    assert private_side.cancelled == 1


SESSION_REFUSALS = [
    ("SET standard_conforming_strings = off", GROUPED_SQL.format(7), "DP003"),
    ("SET client_encoding = 'LATIN1'", GROUPED_SQL.format(7) + " -- é", "DP003"),
    ("SET client_encoding = 'LATIN1'", GROUPED_SQL.format(7), None),
]


@pytest.mark.parametrize(("setting", "sql", "state"), SESSION_REFUSALS)
def test_session_settings_that_would_change_the_meaning(
    db: psycopg.Connection[Any], calls: list[Any], setting: str, sql: str, state: str | None
) -> None:
    db.execute(setting)
    if state is None:
        assert db.execute(sql).fetchall() == ROWS
        return
    with pytest.raises(psycopg.errors.DatabaseError) as error:
        db.execute(sql)
    assert error.value.sqlstate == state and calls == []


def test_statements_forgotten_by_sql_are_not_charged_for(raw: RawClient, calls: list[Any]) -> None:
    parse = messages.parse(b"s", GROUPED_SQL.format(7).encode())
    for forget, expected in ((b"deallocate s", ["E", "ZI"]), (b"discard all", ["E", "ZI"])):
        raw.send(parse, messages.SYNC, messages.query(forget))
        raw.until(b"Z", 2)
        raw.send(messages.bind(b"", b"s"), messages.execute(b""), messages.SYNC)
        found = raw.until(b"Z")
        assert shape(found) == expected and messages.read_fields(found[0])["C"] == b"26000"
    raw.send(
        parse,
        messages.SYNC,
        messages.query(b"deallocate nosuch; "),
        messages.query(b"deallocate s; prepare s as select 1"),
    )
    raw.until(b"Z", 3)
    raw.send(messages.bind(b"", b"s"), messages.execute(b""), messages.SYNC)
    assert shape(raw.until(b"Z")) == ["2", "D", "C", "ZI"]
    assert calls == []


def test_unnamed_statement_is_replaced(raw: RawClient, calls: list[Any]) -> None:
    planned = messages.parse(b"", GROUPED_SQL.format(7).encode())
    go = messages.bind(b"", b"") + messages.execute(b"") + messages.SYNC
    raw.send(planned, messages.parse(b"", b"select 1"), go, planned, go)
    assert shape(raw.until(b"Z", 2)) == ["1", "1", "2", "D", "C", "ZI", "1", "2", "D", "D", "C", "ZI"]
    raw.send(planned, messages.SYNC, messages.query(b"select 1"), messages.bind(b"", b""), messages.SYNC)
    assert shape(raw.until(b"Z", 3)) == ["1", "ZI", "T", "D", "C", "ZI", "E", "ZI"]
    assert calls == [("alice", 7)]


def test_reserved_names_are_refused(raw: RawClient) -> None:
    raw.send(messages.parse(b"_pge_1", b"select 1"), messages.SYNC)
    found = raw.until(b"Z")
    assert shape(found) == ["E", "ZI"] and messages.read_fields(found[0])["C"] == b"42602"
