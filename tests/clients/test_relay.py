"""The relay in front of a bare PostgreSQL, with real clients: what is not ours arrives as PostgreSQL sent it, and what is
ours behaves as PostgreSQL would (facade-and-channel.md §3, §6)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from typing import Any

import asyncpg
import psycopg
import pytest
from fix_proxy import PASSWORD, BareFacade, FakePrivate, RawClient, ThreadedProxy, keys_of, shape, start_proxy
from pg_epsilon_proxy.wire import messages, startup


GROUPED = "SELECT region, count(*) FROM secret WHERE n > {} GROUP BY region"
ROWS = [("north", 7), ("south", 8)]


@pytest.fixture
def db(relay: ThreadedProxy) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(**relay.conninfo(autocommit=True)) as connection:
        yield connection


@pytest.fixture
def calls(private_side: FakePrivate) -> list[tuple[str, int]]:
    private_side.calls.clear()
    return private_side.calls


@pytest.fixture
def raw(relay: ThreadedProxy, bare_facade: BareFacade) -> Iterator[RawClient]:
    client = RawClient(relay.port, keys_of(PASSWORD, bare_facade.verifier("alice") or ""))
    yield client
    client.close()


@pytest.fixture
def direct(bare_facade: BareFacade) -> Iterator[RawClient]:
    client = RawClient(bare_facade.port, keys_of(PASSWORD, bare_facade.verifier("alice") or ""))
    yield client
    client.close()


def psql(relay: ThreadedProxy, *arguments: str, user: str = "alice", password: str = PASSWORD, **kwargs: Any) -> Any:
    environment = {**os.environ, "PGPASSWORD": password, "PGGSSENCMODE": "prefer"}
    words = ["psql", "-X", "-h", "127.0.0.1", "-p", str(relay.port), "-U", user, "-d", "facade", "-A", "-t"]
    return subprocess.run(
        [*words, *arguments], capture_output=True, text=True, env=environment, timeout=30, check=False, **kwargs
    )


# -- login -------------------------------------------------------------------------------------------------------


def test_psql_logs_in_as_the_analyst(relay: ThreadedProxy) -> None:
    done = psql(relay, "-c", "SELECT current_user, session_user, current_database()")
    assert done.stdout == "alice|alice|facade\n", done.stderr


def test_database_name_is_mapped(relay: ThreadedProxy) -> None:
    with psycopg.connect(**relay.conninfo(dbname="shop")) as c:
        assert c.execute("SELECT current_database()").fetchone() == ("facade",)
    with pytest.raises(psycopg.OperationalError, match='database "other" does not exist'):
        psycopg.connect(**relay.conninfo(dbname="other"))


@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("nobody", PASSWORD), ("postgres", PASSWORD)])
def test_wrong_password_and_unknown_user_look_alike(relay: ThreadedProxy, user: str, password: str) -> None:
    done = psql(relay, "-c", "SELECT 1", user=user, password=password)
    assert done.returncode == 2
    assert f'FATAL:  password authentication failed for user "{user}"' in done.stderr


@pytest.mark.parametrize(("user", "error"), [("late", "password authentication failed"), ("crowd", "too many connec")])
def test_facade_own_login_rules_hold(relay: ThreadedProxy, user: str, error: str) -> None:
    """VALID UNTIL and CONNECTION LIMIT are PostgreSQL's: the facade session is the analyst's own."""
    assert error in psql(relay, "-c", "SELECT 1", user=user).stderr


def test_unknown_user_gets_a_stable_salt(relay: ThreadedProxy) -> None:
    def challenge(user: str, nonce: str) -> bytes:
        with socket.create_connection(("127.0.0.1", relay.port), timeout=5) as s:
            s.sendall(startup.startup_packet({"user": user}))
            s.recv(1000)
            first = f"n,,n=,r={nonce}".encode()
            s.sendall(messages.message(b"p", b"SCRAM-SHA-256\0" + len(first).to_bytes(4, "big") + first))
            return s.recv(1000).split(b",", 1)[1]

    assert challenge("nobody", "abc") == challenge("nobody", "def") != challenge("nobody2", "abc")


STARTUPS = [
    ({"user": "alice", "replication": "database"}, "0A000"),
    ({"user": "alice", "replication": "true"}, "0A000"),
    ({"user": "alice", "session_preload_libraries": "x"}, "0A000"),
    ({"database": "facade"}, "28000"),
]


@pytest.mark.parametrize(("parameters", "code"), STARTUPS)
def test_startup_refused(relay: ThreadedProxy, parameters: dict[str, str], code: str) -> None:
    assert error_code(talk(relay, startup.startup_packet(parameters))) == code


PACKETS = {
    "too short": (4).to_bytes(4, "big") + bytes(4),
    "too long": (10_001).to_bytes(4, "big") + bytes(4),
    "huge": b"\x7f\xff\xff\xff" + bytes(4),
    "http": b"GET / HTTP/1.1\r\n\r\n",
    "protocol 2": (9).to_bytes(4, "big") + (2 << 16).to_bytes(4, "big") + b"\0",
    "two ssl requests": startup.SSL_REQUEST + startup.SSL_REQUEST,
    "not terminated": (13).to_bytes(4, "big") + (3 << 16).to_bytes(4, "big") + b"user\0",
    "second startup": startup.startup_packet({"user": "alice"}) * 2,
    "big auth message": startup.startup_packet({"user": "alice"}) + b"p\x00\x10\x00\x00" + b"x" * 100,
    "query before login": startup.startup_packet({"user": "alice"}) + messages.query(b"select 1"),
}


@pytest.mark.parametrize("packet", PACKETS.values(), ids=PACKETS)
def test_bad_beginnings_end_with_a_fatal_error(relay: ThreadedProxy, packet: bytes) -> None:
    assert error_code(talk(relay, packet)) in ("08P01", "0A000")


def talk(relay: ThreadedProxy, data: bytes) -> bytes:
    """Everything that the proxy says to these bytes until it closes."""
    with socket.create_connection(("127.0.0.1", relay.port), timeout=10) as s:
        s.sendall(data)
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            while part := s.recv(65536):
                answer += part
        return answer


def error_code(answer: bytes) -> str:
    start = answer.index(b"ESFATAL\0"[:1], 0) if answer[:1] == b"E" else answer.index(b"SFATAL\0") - 5
    fields = messages.read_fields(answer[start:])
    assert fields["S"] == b"FATAL"
    return fields["C"].decode()


def test_newer_minor_version_and_options_are_negotiated(relay: ThreadedProxy) -> None:
    body = (3 << 16 | 2).to_bytes(4, "big") + b"user\0alice\0_pq_.grease\x00yes\0\0"
    with socket.create_connection(("127.0.0.1", relay.port), timeout=5) as s:
        s.sendall((len(body) + 4).to_bytes(4, "big") + body)
        answer = s.recv(1000)
    assert answer[:1] == b"v" and answer[5:13] == (3 << 16).to_bytes(4, "big") + (1).to_bytes(4, "big")
    assert b"_pq_.grease\0" in answer


def test_gss_and_tls_requests_get_n(relay: ThreadedProxy) -> None:
    gss = (8).to_bytes(4, "big") + startup.GSS_CODE.to_bytes(4, "big")
    with socket.create_connection(("127.0.0.1", relay.port), timeout=5) as s:
        for request in (gss, startup.SSL_REQUEST):
            s.sendall(request)
            assert s.recv(10) == b"N"


# -- what is not ours ----------------------------------------------------------------------------------------------

SAME = {
    "select": [messages.query(b"select 1, 'x'::text")],
    "empty": [messages.query(b"")],
    "several": [messages.query(b"select 1; select 2; set work_mem = '8MB'")],
    "error": [messages.query(b"select 1/0")],
    "error among several": [messages.query(b"select 1; select 1/0; select 2")],
    "block": [messages.query(b"begin"), messages.query(b"select 1/0"), messages.query(b"select 1")],
    "text with nul": [messages.message(b"Q", b"select 1\0 garbage\0")],
    "extended": [messages.parse(b"", b"select $1::int") + messages.bind(b"", b"", (), (b"7",))
                 + messages.describe(b"P", b"") + messages.execute(b"") + messages.SYNC],
    "bad parse": [messages.parse(b"", b"selct") + messages.bind(b"", b"") + messages.execute(b"") + messages.SYNC],
    "bind to nothing": [messages.bind(b"", b"nosuch") + messages.query(b"select 1") + messages.SYNC],
    "pipeline": [(messages.parse(b"", b"select 1") + messages.bind(b"", b"") + messages.execute(b"") + messages.SYNC) * 3],
    "suspended": [messages.parse(b"", b"select generate_series(1, 5)") + messages.bind(b"p", b"")
                  + messages.execute(b"p", 2) * 3 + messages.close(b"P", b"p") + messages.SYNC],
    "duplicate name": [messages.parse(b"s", b"select 1") * 2 + messages.SYNC, messages.close(b"S", b"s") + messages.SYNC],
    "copy out": [messages.query(b"copy (select 1) to stdout")],
    "copy in": [messages.query(b"create temp table t(a int)"), messages.query(b"copy t from stdin")
                + messages.message(b"d", b"1\n") + messages.message(b"c"), messages.query(b"select a + 0 from t")],
    "copy in fails": [messages.query(b"create temp table t(a int); copy t from stdin") + messages.message(b"f", b"no\0")],
    "copy in extended": [messages.query(b"create temp table t(a int)"),
                         messages.parse(b"", b"copy t from stdin") + messages.bind(b"", b"") + messages.execute(b"")
                         + messages.SYNC + messages.message(b"d", b"1\n") + messages.message(b"c") + messages.SYNC],
    "copy in extended fails": [messages.query(b"create temp table t(a int)"),
                               messages.parse(b"", b"copy t from stdin") + messages.bind(b"", b"")
                               + messages.execute(b"") + messages.message(b"d", b"x\n") + messages.message(b"c")
                               + messages.SYNC],
    "commit in pipeline": [messages.query(b"begin"), messages.parse(b"", b"commit") + messages.bind(b"", b"")
                           + messages.execute(b"") + messages.SYNC],
    "stray copy messages": [messages.message(b"d", b"x") + messages.message(b"c") + messages.query(b"select 1")],
}  # fmt: skip


@pytest.mark.parametrize("rounds", SAME.values(), ids=SAME)
def test_the_proxy_is_transparent(raw: RawClient, direct: RawClient, rounds: list[bytes]) -> None:
    """Byte for byte what a direct connection answers, server line numbers and all."""
    for data in rounds:
        answers = []
        for client in (direct, raw):
            client.send(data)
            syncs = sum(part[:1] == b"S" for part in split_messages(data))
            answers.append(client.until(b"Z", 1 if b"copy t from stdin\0" in data else max(1, syncs)))
        assert answers[1] == answers[0]


def split_messages(data: bytes) -> list[bytes]:
    parts = []
    while data:
        size = 1 + int.from_bytes(data[1:5], "big")
        parts.append(data[:size])
        data = data[size:]
    return parts


def test_large_values_stream_through(db: psycopg.Connection[Any]) -> None:
    size = 5_000_000
    assert db.execute(f"SELECT repeat('x', {size})").fetchone() == ("x" * size,)
    assert len(db.execute("SELECT generate_series(1, 20000)").fetchall()) == 20000


def test_copy_both_ways(db: psycopg.Connection[Any]) -> None:
    db.execute("CREATE TEMP TABLE mine (a int, b text)")
    with db.cursor() as cursor:
        with cursor.copy("COPY mine FROM STDIN") as copy:
            for i in range(5000):
                copy.write_row((i, "y" * 50))
        with cursor.copy("COPY mine TO STDOUT") as copy:
            assert sum(1 for _ in copy.rows()) == 5000
        assert cursor.execute("SELECT count(*) FROM mine").fetchone() == (5000,)


def test_listen_and_notify(relay: ThreadedProxy, db: psycopg.Connection[Any]) -> None:
    db.execute("LISTEN bell")
    with psycopg.connect(**relay.conninfo(autocommit=True)) as other:
        other.execute("NOTIFY bell, 'rings'")
    assert [(n.channel, n.payload) for n in db.notifies(timeout=5, stop_after=1)] == [("bell", "rings")]


def test_function_call_refused_and_in_step(raw: RawClient) -> None:
    raw.send(messages.message(b"F", (1299).to_bytes(4, "big") + bytes(6)), messages.query(b"select 1"))
    found = raw.until(b"Z", 2)
    assert shape(found) == ["E", "ZI", "T", "D", "C", "ZI"]
    assert messages.read_fields(found[0])["C"] == b"0A000"


def test_unknown_message_and_oversize_end_the_session(raw: RawClient) -> None:
    raw.send(b"Q" + (2 << 20).to_bytes(4, "big"))
    found = raw.until(b"E")
    assert messages.read_fields(found[-1])["C"] == b"54000"
    assert raw.receive() == b""


def test_cancel_reaches_the_facade(db: psycopg.Connection[Any]) -> None:
    threading.Timer(0.3, db.cancel_safe).start()
    started = time.monotonic()
    with pytest.raises(psycopg.errors.QueryCanceled):
        db.execute("SELECT pg_sleep(20)")
    assert time.monotonic() - started < 5
    assert db.execute("SELECT 1").fetchone() == (1,)


def test_cancel_with_a_wrong_key_does_nothing(relay: ThreadedProxy, db: psycopg.Connection[Any]) -> None:
    pid = db.info.backend_pid
    threading.Timer(0.1, lambda: talk(relay, startup.cancel_packet(pid, b"\0\0\0\0"))).start()
    db.execute("SELECT pg_sleep(0.4)")


def test_statement_timeout_between_messages(raw: RawClient, direct: RawClient) -> None:
    """A client that pauses longer than its statement_timeout between Parse and Bind."""
    parse = messages.parse(b"", b"select 1") + messages.FLUSH
    rest = messages.bind(b"", b"") + messages.execute(b"") + messages.SYNC
    for client in (direct, raw):
        client.send(messages.query(b"set statement_timeout = '100ms'"))
        client.until(b"Z")
        client.send(parse)
    time.sleep(0.3)
    seen = []
    for client in (direct, raw):
        client.send(rest)
        seen.append(shape(client.until(b"Z")))
    assert seen[1] == seen[0]


# -- what is ours --------------------------------------------------------------------------------------------------


def test_psql_gets_the_answer_under_the_original_names(relay: ThreadedProxy, calls: list[tuple[str, int]]) -> None:
    done = subprocess.run(
        ["psql", "-X", "-A", "-c", GROUPED.format(7), "-c", "SELECT 1 + (SELECT count(*) FROM secret) AS total"],
        env={**os.environ, "PGHOST": "127.0.0.1", "PGPORT": str(relay.port), "PGUSER": "alice", "PGDATABASE": "facade",
             "PGPASSWORD": PASSWORD}, capture_output=True, text=True, check=True, timeout=30,
    )  # fmt: skip
    assert done.stdout == "region|count\nnorth|7\nsouth|8\n(2 rows)\ntotal\n1\n(1 row)\n"
    assert calls == [("alice", 7), ("alice", 0)]


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("prepare", [None, True])
def test_psycopg(db: psycopg.Connection[Any], calls: list[Any], binary: bool, prepare: bool | None) -> None:
    cursor = db.cursor(binary=binary)
    for _ in range(3):
        assert cursor.execute(GROUPED.format("%s"), (7,), prepare=prepare).fetchall() == ROWS
    column = cursor.description[0] if cursor.description else None
    assert column is not None and column.name == "region" and column.display_size == 10, "typmod of the original"
    assert calls == [("alice", 7)] * 3


def test_psycopg_pipeline(db: psycopg.Connection[Any], calls: list[Any]) -> None:
    with db.pipeline():
        cursors = [db.execute(GROUPED.format("%s"), (7,)), db.execute("SELECT 5"), db.execute(GROUPED.format("%s"), (7,))]
        assert [c.fetchall() for c in cursors] == [ROWS, [(5,)], ROWS]


def test_error_in_a_pipeline_comes_before_any_charge(db: psycopg.Connection[Any], calls: list[Any]) -> None:
    with pytest.raises(psycopg.errors.DivisionByZero), db.pipeline():
        db.execute("SELECT 1/0")
        db.execute(GROUPED.format("%s"), (7,))
    assert calls == []
    assert db.execute(GROUPED.format(7)).fetchall() == ROWS


def test_bad_parameter_is_an_error_before_any_charge(raw: RawClient, calls: list[Any]) -> None:
    parse = messages.parse(b"s", GROUPED.format("$1").encode())
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
        client.send(messages.parse(b"s", GROUPED.format("$1").encode()), messages.describe(b"S", b"s"), messages.SYNC)
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
        assert connection.execute("CREATE TEMP TABLE kept AS " + GROUPED.format(7)).statusmessage == "SELECT 2"
        connection.commit()
        assert connection.execute("TABLE kept").fetchall() == ROWS
    assert calls == [("alice", 7)] * 2


def test_copy_of_an_answer_in_both_protocols(db: psycopg.Connection[Any], raw: RawClient, calls: list[Any]) -> None:
    text = f"COPY ({GROUPED.format(7)}) TO STDOUT"
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
        statement = await connection.prepare(GROUPED.format("$1"))
        assert [t.name for t in statement.get_parameters()] == ["int4"]
        assert [tuple(row) for row in await statement.fetch(7)] == ROWS
        async with connection.transaction():
            cursor = await connection.cursor(GROUPED.format("$1"), 7)
            assert [tuple(row) for row in await cursor.fetch(1)] == ROWS[:1]
            assert [tuple(row) for row in await cursor.fetch(5)] == ROWS[1:]
        assert calls == [("alice", 7)] * 2
        with pytest.raises(asyncpg.PostgresError, match="this shape is not supported") as refused:
            await connection.fetch("SELECT region AS refuse_at_plan FROM secret")
        assert (refused.value.sqlstate, refused.value.hint) == ("DP003", "Write “count(*)”.")
        with pytest.raises(asyncpg.PostgresError, match="is exhausted") as refused:
            await connection.fetch(GROUPED.format("$1") + " -- refuse_at_run", 7)
        assert refused.value.sqlstate == "DP001"
        assert await connection.fetchval("SELECT $1::int[]", [1, 2]) == [1, 2]
    finally:
        await connection.close()


def test_notice_comes_with_the_answer(db: psycopg.Connection[Any], calls: list[Any]) -> None:
    seen: list[str | None] = []
    db.add_notice_handler(lambda notice: seen.append(notice.message_primary))
    assert db.execute(GROUPED.format(7) + " -- noticed").fetchall() == ROWS
    assert db.execute(GROUPED.format("%s") + " -- noticed", (7,)).fetchall() == ROWS
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
    threading.Timer(0.4, db.cancel_safe).start()
    with pytest.raises(psycopg.errors.QueryCanceled):
        db.execute(GROUPED.format("%s" if parameters else 7) + " -- slowly", parameters)
    assert private_side.cancelled == 1
    assert db.execute(GROUPED.format(7)).fetchall() == ROWS


def test_hanging_up_ends_the_private_call(
    relay: ThreadedProxy, raw: RawClient, private_side: FakePrivate
) -> None:
    private_side.cancelled = 0
    raw.send(messages.query(GROUPED.format(7).encode() + b" -- slowly"))
    time.sleep(0.3)
    raw.close()
    deadline = time.monotonic() + 5
    while not private_side.cancelled and time.monotonic() < deadline:
        time.sleep(0.05)
    assert private_side.cancelled == 1


SESSION_REFUSALS = [
    ("SET standard_conforming_strings = off", GROUPED.format(7), "DP003"),
    ("SET client_encoding = 'LATIN1'", GROUPED.format(7) + " -- é", "DP003"),
    ("SET client_encoding = 'LATIN1'", GROUPED.format(7), None),
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
    parse = messages.parse(b"s", GROUPED.format(7).encode())
    for forget, expected in ((b"deallocate s", ["E", "ZI"]), (b"discard all", ["E", "ZI"])):
        raw.send(parse, messages.SYNC, messages.query(forget))
        raw.until(b"Z", 2)
        raw.send(messages.bind(b"", b"s"), messages.execute(b""), messages.SYNC)
        found = raw.until(b"Z")
        assert shape(found) == expected and messages.read_fields(found[0])["C"] == b"26000"
    raw.send(parse, messages.SYNC, messages.query(b"deallocate nosuch; "), messages.query(b"deallocate s; prepare s as select 1"))
    raw.until(b"Z", 3)
    raw.send(messages.bind(b"", b"s"), messages.execute(b""), messages.SYNC)
    assert shape(raw.until(b"Z")) == ["2", "D", "C", "ZI"]
    assert calls == []


def test_unnamed_statement_is_replaced(raw: RawClient, calls: list[Any]) -> None:
    planned = messages.parse(b"", GROUPED.format(7).encode())
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


# -- a refusal is an error like any other ------------------------------------------------------------------------------

AT_PLAN = b"select region as refuse_at_plan from secret"
AT_RUN = GROUPED.format(7).encode() + b" -- refuse_at_run"
AT_PARSE_NATURAL, AT_RUN_NATURAL = b"select nosuch", b"select 1/0"


def extended(text: bytes, name: bytes = b"") -> bytes:
    return messages.parse(name, text) + messages.bind(b"", name) + messages.execute(b"")


def frames(text: bytes) -> dict[str, list[bytes]]:
    """Conversations around one failing statement, a list of what is sent before each wait for all ReadyForQuery."""
    query, sync = messages.query, messages.SYNC
    return {
        "simple": [query(text), query(b"select 1")],
        "in a block": [query(b"begin"), query(text), query(b"select 1"), query(b"commit")],
        "savepoint": [query(b"begin"), query(b"savepoint a"), query(text), query(b"rollback to a"), query(b"commit")],
        "extended": [extended(text) + sync, query(b"select 1")],
        "named": [extended(text, b"n") + sync, messages.bind(b"", b"n") + messages.close(b"S", b"n") + sync],
        "skips to sync": [extended(text) + extended(b"select 1") + query(b"select 2") + sync],
        "pipelined": [(extended(b"select 1") + sync) + (extended(text) + sync) + (extended(b"select 1") + sync)],
        "one transaction": [extended(b"create temp table gone()") + extended(text) + sync, query(b"table gone")],
        "block extended": [query(b"begin"), extended(text) + sync, extended(b"select 1") + sync, query(b"rollback")],
        "aborted already": [query(b"begin"), query(b"select 1/0"), query(text), extended(text) + sync, query(b"end")],
    }


CASES = [
    pytest.param(frame, refused, natural, id=f"{frame} {label}")
    for frame in frames(b"")
    for label, refused, natural in (("at plan", AT_PLAN, AT_PARSE_NATURAL), ("at run", AT_RUN, AT_RUN_NATURAL))
]


@pytest.mark.parametrize(("frame", "refused", "natural"), CASES)
def test_refusals_look_like_natural_errors(
    raw: RawClient, direct: RawClient, calls: list[Any], frame: str, refused: bytes, natural: bytes
) -> None:
    """The same kinds of messages and the same statuses as PostgreSQL's own error, sent directly.

    A division by constants fails at Bind, like a refusal at Bind.
    """
    seen = [observe(client, frames(text)[frame]) for client, text in ((direct, natural), (raw, refused))]
    assert seen[1] == seen[0]
    assert calls == []


def observe(client: RawClient, rounds: list[bytes]) -> list[str]:
    found: list[str] = []
    for data in rounds:
        client.send(data)
        parts = [part[:1] for part in split_messages(data)]
        count = parts.count(b"S") if b"S" in parts else parts.count(b"Q")
        found += [*shape(client.until(b"Z", count)), "|"]
    return found


def test_refusal_carries_our_fields(raw: RawClient) -> None:
    for data in (messages.query(AT_RUN), extended(AT_RUN) + messages.SYNC):
        raw.send(data)
        fields = messages.read_fields(next(m for m in raw.until(b"Z") if m[:1] == b"E"))
        assert fields == {
            "S": b"ERROR",
            "V": b"ERROR",
            "C": b"DP001",
            "M": "the budget of “visits” is exhausted".encode(),
            "H": b"Ask the owner.",
        }


# -- serving nobody ----------------------------------------------------------------------------------------------------


def test_a_broken_facade_serves_nobody(bare_facade: BareFacade) -> None:
    private = FakePrivate()
    proxy = start_proxy(bare_facade, private)
    try:
        with psycopg.connect(**proxy.conninfo(autocommit=True)) as connection:
            private.problems.append("public.secret has no net")
            proxy.loop.call_soon_threadsafe(proxy.source.notify)
            deadline = time.monotonic() + 5
            while proxy.server.sessions and time.monotonic() < deadline:
                time.sleep(0.02)
            with pytest.raises(psycopg.DatabaseError, match="the proxy is not ready"):
                connection.execute("SELECT 1")
        with pytest.raises(psycopg.OperationalError, match="the proxy is not ready"):
            psycopg.connect(**proxy.conninfo())
        private.problems.clear()
        proxy.loop.call_soon_threadsafe(proxy.source.notify)
        time.sleep(0.2)
        with psycopg.connect(**proxy.conninfo()) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
    finally:
        proxy.close()


def test_sessions_leave_nothing_behind(relay: ThreadedProxy, bare_facade: BareFacade) -> None:
    async def many() -> None:
        async def one() -> None:
            c = await asyncpg.connect(
                host="127.0.0.1", port=relay.port, user="alice", password=PASSWORD, database="facade", ssl=False
            )
            await c.fetchval("SELECT 1")
            await c.close()

        await asyncio.gather(*(one() for _ in range(20)))

    asyncio.run(many())
    deadline = time.monotonic() + 5
    while relay.server.sessions and time.monotonic() < deadline:
        time.sleep(0.05)
    assert relay.server.sessions == 0
