"""psycopg 3 through the proxy as programs use it: TLS, every scalar parameter, cursors of every kind, pools, cancel."""

from __future__ import annotations

import asyncio
import datetime as dt
import threading
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from psycopg import ClientCursor, IsolationLevel, RawCursor, sql
from psycopg.rows import class_row, dict_row, namedtuple_row, scalar_row
from psycopg.types import TypeInfo
from psycopg.types.composite import CompositeInfo, register_composite
from psycopg.types.enum import EnumInfo
from psycopg.types.json import Jsonb
from psycopg.types.numeric import Float4, Float8, Int2, Int4, Int8
from psycopg_pool import AsyncConnectionPool, ConnectionPool

import fix_drivers
from fix_drivers import NEAR, DriversStack
from fix_waiting import PATIENCE, SLEEPING, backends, cancelling, soon

pytestmark = pytest.mark.chance(fix_drivers.CHANCE)

Connection = psycopg.Connection[Any]
COUNT = "SELECT count(*) FROM samples WHERE whole > 250"
BY_CODE = "SELECT code, count(*) AS n FROM samples GROUP BY code ORDER BY code"


@pytest.fixture
def alice(drivers_stack: DriversStack) -> Iterator[Connection]:
    """A session that the recorder hears."""
    with drivers_stack.connect(port=drivers_stack.recorded("psycopg")) as connection:
        yield connection


@pytest.mark.parametrize(
    "how",
    [
        {"sslmode": "require"},
        {"sslmode": "verify-full", "host": "localhost"},
        {"sslmode": "require", "channel_binding": "require"},
        {"sslmode": "disable", "channel_binding": "disable"},
        {"require_auth": "scram-sha-256"},
    ],
)
def test_tls_and_scram(drivers_stack: DriversStack, how: dict[str, Any]) -> None:
    with drivers_stack.connect(sslrootcert=str(drivers_stack.certificate), **how) as session:
        assert session.pgconn.ssl_in_use == (how.get("sslmode") != "disable")
        assert session.execute("SELECT session_user, 1 + %s", [1], prepare=True).fetchone() == ("alice", 2)


def test_what_the_connection_tells_of_itself(alice: Connection, drivers_stack: DriversStack) -> None:
    info = alice.info
    assert (info.user, info.encoding, info.vendor) == ("alice", "utf-8", "PostgreSQL")
    assert info.server_version // 10000 == drivers_stack.cluster.paths.pg_version
    assert info.parameter_status("standard_conforming_strings") == "on"
    assert info.parameter_status("is_superuser") == "off" and info.timezone.utcoffset(None) == dt.timedelta(0)
    assert info.backend_pid > 0 and info.transaction_status == psycopg.pq.TransactionStatus.IDLE


# Of each type a value, and the column that it is compared with. Truth and answer are asked with the same parameter.
VALUES: dict[str, tuple[str, Any]] = {
    "bool": ("yes = {}", True),
    "int2": ("small > {}", Int2(40)),
    "int4": ("whole > {}", Int4(251)),
    "int8": ("big > {}", Int8(2520000000000)),
    "numeric": ("exact > {}", Decimal("284.625")),
    "float4": ("single > {}", Float4(63.5)),
    "float8": ('"double" > {}', Float8(85.5)),
    "text": ("word = {}", "word 7"),
    "varchar": ("code = {}::varchar", "c7"),
    "bpchar": ("flag = {}::char(3)", "abc"),
    "date": ("day > {}", dt.date(2024, 5, 17)),
    "timestamp": ("at > {}", dt.datetime(2024, 1, 17, 12, 30)),
    "timestamptz": ("moment > {}", dt.datetime(2024, 1, 18, 12, tzinfo=dt.UTC)),
    "timestamptz of a zone": ("moment > {}", dt.datetime(2024, 1, 19, tzinfo=dt.timezone(dt.timedelta(hours=-5)))),
    "time": ("clock > {}", dt.time(4, 30)),
    "interval": ("span > {}", dt.timedelta(days=253)),
    "uuid": ("uid > {}", uuid.UUID(int=0x254)),
    "null": ("word IS NOT DISTINCT FROM {}::text", None),
}


@pytest.mark.parametrize("mark", ["%t", "%b", "%s"])
@pytest.mark.parametrize("name", VALUES)
def test_parameters_of_scalar_types(drivers_stack: DriversStack, alice: Connection, name: str, mark: str) -> None:
    condition, value = VALUES[name]
    if value is None and mark == "%b":
        mark = "%s"
    question = f"SELECT count(*) FROM samples WHERE {condition.format(mark)}"
    row = alice.execute(question.encode(), [value], prepare=mark == "%s", binary=mark == "%b").fetchone()
    with drivers_stack.cluster.connect() as owner:
        exact = owner.execute(question.encode(), [value]).fetchone()
    assert row is not None and exact is not None
    assert abs(row[0] - exact[0]) <= NEAR


UNANSWERED: list[tuple[str, Any]] = [
    ("raw = {}", b"\x00\x01"),
    ("doc = {}", Jsonb({"i": 1})),
]


@pytest.mark.parametrize("mark", ["%t", "%b", "%s"])
@pytest.mark.parametrize("condition, value", UNANSWERED)
def test_parameters_of_types_without_a_declaration(alice: Connection, condition: str, value: Any, mark: str) -> None:
    with pytest.raises(psycopg.DatabaseError) as refused:
        alice.execute(f"SELECT count(*) FROM samples WHERE {condition.format(mark)}".encode(), [value])
    assert refused.value.sqlstate in ("DP003", "DP004") and refused.value.diag.message_hint


RESULTS: list[tuple[str, Any]] = [
    ("count(*) > 0", bool),
    ("count(*)::int2", int),
    ("count(*)::int4", int),
    ("count(*)", int),
    ("count(*)::numeric(12,3)", Decimal),
    ("count(*)::float4", float),
    ("count(*)::float8", float),
    ("count(*)::text", str),
    ("count(*)::varchar(9)", str),
    ("count(*)::text::char(5)", str),
    ("date '2024-01-01' + count(*)::int", dt.date),
    ("timestamp '2024-01-01' + count(*) * interval '1 hour'", dt.datetime),
    ("timestamptz '2024-01-01 00:00+00' + count(*) * interval '1 hour'", dt.datetime),
    ("time '00:00' + count(*) * interval '1 minute'", dt.time),
    ("count(*) * interval '1 day'", dt.timedelta),
    ("lpad(count(*)::text, 32, '0')::uuid", uuid.UUID),
    ("int8send(count(*))", bytes),
    ("jsonb_build_object('n', count(*))", dict),
    ("ARRAY[count(*), 1]", list),
]


def columns(cursor: psycopg.Cursor[Any]) -> list[tuple[str, int, int]]:
    return [(c.name, c.type_code, c._fmod) for c in cursor.description or ()]


@pytest.mark.parametrize("expression, kind", RESULTS)
def test_results_of_scalar_types_in_text_and_binary(alice: Connection, expression: str, kind: type) -> None:
    question = f"SELECT {expression} AS x FROM samples WHERE whole > 250".encode()
    text, binary = alice.execute(question), alice.execute(question, binary=True, prepare=True)
    assert columns(text) == columns(binary)
    row = text.fetchone()
    assert row is not None and type(row[0]) is kind
    assert binary.fetchone() == row


def test_cursor_classes_and_row_factories(alice: Connection) -> None:
    rows = alice.execute(BY_CODE).fetchall()
    with ClientCursor(alice) as client:
        question = "SELECT count(*) FROM samples WHERE whole > %(low)s AND word <> %(word)s"
        assert "whole > 250 AND word <> 'it''s'" in client.mogrify(question, {"low": 250, "word": "it's"})
        plain = client.execute(question, {"low": 250, "word": "it's"}).fetchone()
    with RawCursor(alice) as raw:
        assert (
            raw.execute("SELECT count(*) FROM samples WHERE whole > $1 AND word <> $2", [250, "it's"]).fetchone()
            == plain
        )
    assert [row["n"] for row in alice.cursor(row_factory=dict_row).execute(BY_CODE)] == [n for _, n in rows]
    assert [row[0] for row in alice.cursor(row_factory=namedtuple_row).execute(BY_CODE)] == [c for c, _ in rows]
    assert alice.cursor(row_factory=scalar_row).execute(BY_CODE).fetchall() == [c for c, _ in rows]
    assert [vars(row)["n"] for row in alice.cursor(row_factory=class_row(Group)).execute(BY_CODE)] == [
        n for _, n in rows
    ]
    assert list(alice.cursor().stream(BY_CODE)) == rows


class Group:
    def __init__(self, code: str, n: int) -> None:
        self.code, self.n = code, n


@pytest.mark.parametrize("threshold, prepared", [(0, 1), (1, 1), (3, 1), (9, 0), (None, 0)])
def test_prepare_threshold(alice: Connection, threshold: int | None, prepared: int) -> None:
    alice.prepare_threshold = threshold
    answers = {alice.execute("SELECT count(*) FROM samples WHERE whole > %s", [250]).fetchone() for _ in range(6)}
    assert len(answers) == 1
    found = alice.execute("SELECT name FROM pg_prepared_statements WHERE name ~ '^_pg3_'", prepare=False)
    assert len(found.fetchall()) == prepared


def test_prepared_statements_are_dropped_when_there_are_too_many(alice: Connection) -> None:
    alice.prepare_threshold, alice.prepared_max = 0, 2
    for low in range(250, 255):
        question = sql.SQL("SELECT count(*) FROM samples WHERE whole > 250 AND {} < whole").format(low - 50)
        assert alice.execute(question).fetchone() is not None
    count = alice.execute("SELECT count(*) FROM pg_prepared_statements", prepare=False).fetchone()
    assert count is not None and count[0] <= 3


def test_a_server_cursor_of_each_kind(alice: Connection) -> None:
    rows = alice.execute(BY_CODE).fetchall()
    with alice.transaction():
        for binary in (False, True):
            with alice.cursor("forward", binary=binary) as cursor:
                cursor.itersize = 3
                assert list(cursor.execute(BY_CODE)) == rows
            with alice.cursor("scrolls", scrollable=True, binary=binary) as cursor:
                cursor.execute("SELECT code, count(*) FROM samples WHERE whole > %s GROUP BY code ORDER BY code", [-1])
                assert [code for code, _ in cursor.fetchmany(4)] == ["c0", "c1", "c2", "c3"]
                cursor.scroll(-2)
                assert cursor.fetchone()[0] == "c2"  # type: ignore[index]
                cursor.scroll(9, "absolute")
                assert cursor.fetchone()[0] == "c9" and cursor.fetchone() is None  # type: ignore[index]
    with alice.cursor("kept", withhold=True) as cursor:
        cursor.execute(BY_CODE)
        assert cursor.fetchmany(2) == rows[:2] and cursor.fetchall() == rows[2:]
    with pytest.raises(psycopg.DatabaseError) as refused, alice.cursor("rows", withhold=True) as cursor:
        cursor.execute("SELECT * FROM samples")
    assert refused.value.sqlstate == "DP002"


def test_pipelines(alice: Connection) -> None:
    with alice.pipeline() as pipeline, alice.cursor() as cursor:
        first = alice.execute(COUNT)
        cursor.executemany("SELECT count(*) FROM samples WHERE whole > %s", [[250], [251], [250]], returning=True)
        pipeline.sync()
        many = [cursor.fetchone(), cursor.nextset() and cursor.fetchone(), cursor.nextset() and cursor.fetchone()]
        late = alice.execute("SELECT n FROM (SELECT count(*) AS n FROM samples WHERE whole > 250) s", prepare=True)
    assert first.fetchone() == many[0] == many[2] == late.fetchone()
    with pytest.raises(psycopg.DatabaseError) as refused, alice.pipeline() as pipeline:
        alice.execute("SELECT word FROM samples")
        skipped = alice.execute(COUNT)
        with pytest.raises(psycopg.errors.PipelineAborted):
            skipped.fetchone()
    assert refused.value.sqlstate == "DP002"
    assert alice.execute(COUNT).fetchone() == many[0]


def test_transactions(alice: Connection) -> None:
    with alice.transaction():
        alice.execute("CREATE TEMP TABLE kept (n bigint)")
        with alice.transaction(force_rollback=True):
            alice.execute(f"INSERT INTO kept {COUNT}")
        with pytest.raises(psycopg.DatabaseError), alice.transaction("named"):
            alice.execute("SELECT word FROM samples")
        with alice.transaction() as inner:
            alice.execute(f"INSERT INTO kept {COUNT}")
            raise psycopg.Rollback(inner)
        alice.execute(f"INSERT INTO kept {COUNT}")
    assert alice.execute("SELECT n FROM kept").fetchall() == alice.execute(COUNT).fetchall()
    alice.isolation_level, alice.read_only, alice.deferrable = IsolationLevel.SERIALIZABLE, True, True
    with alice.transaction():
        shown = alice.execute(
            "SELECT current_setting('transaction_isolation'), current_setting('transaction_read_only')"
        )
        assert shown.fetchone() == ("serializable", "on")
        assert alice.execute(COUNT).fetchone() is not None


def test_copy_out(alice: Connection) -> None:
    rows = alice.execute(BY_CODE).fetchall()
    for style, options in (("text", ""), ("binary", "(FORMAT binary)")):
        with alice.cursor().copy(f"COPY ({BY_CODE}) TO STDOUT {options}".encode()) as copy:
            copy.set_types(["varchar", "int8"])
            assert list(copy.rows()) == rows, style
    with pytest.raises(psycopg.DatabaseError) as refused, alice.cursor().copy("COPY samples TO STDOUT") as copy:
        copy.read()
    assert refused.value.sqlstate == "DP002" and refused.value.diag.message_hint
    assert alice.execute(COUNT).fetchone() is not None


def test_what_an_error_says_and_what_not(alice: Connection) -> None:
    with pytest.raises(psycopg.DatabaseError) as refused:
        alice.execute("SELECT word, 'é€😀' FROM samples WHERE id = %s", [1])
    diag = refused.value.diag
    assert (diag.severity, diag.severity_nonlocalized, diag.sqlstate) == ("ERROR", "ERROR", "DP002")
    assert diag.message_primary == "rows of samples are private" and (diag.message_hint or "").startswith("Ask for ag")
    place = int(diag.statement_position or 0)
    assert "SELECT word, 'é€😀' FROM samples WHERE id = $1"[place - 1 :].startswith("samples")
    silent = (
        diag.context,
        diag.schema_name,
        diag.table_name,
        diag.column_name,
        diag.constraint_name,
        diag.internal_query,
    )
    assert silent == (None,) * 6
    with pytest.raises(psycopg.errors.UndefinedColumn) as natural:
        alice.execute("SELECT count(*) FROM samples WHERE nothing > 1")
    assert natural.value.diag.statement_position == "36"


def test_notices(alice: Connection) -> None:
    heard: list[tuple[str | None, ...]] = []
    alice.add_notice_handler(lambda n: heard.append((n.severity, n.sqlstate, n.message_primary, n.message_hint)))
    alice.execute("SET dp.notices = on")
    alice.execute(COUNT)
    alice.execute("DO $$ BEGIN RAISE WARNING USING ERRCODE = '01234', MESSAGE = 'mine', HINT = 'own'; END $$")
    assert [notice[:2] for notice in heard] == [("NOTICE", "00000"), ("WARNING", "01234")]
    assert heard[1][2:] == ("mine", "own") and (heard[0][2] or "").startswith("dp: ")


def test_cancel(drivers_stack: DriversStack, alice: Connection) -> None:
    cancelled = pytest.raises(psycopg.errors.QueryCanceled)
    with cancelling(alice.cancel_safe, drivers_stack.cluster.connect), cancelled:
        alice.execute("SELECT pg_sleep(600)")
    assert alice.execute(COUNT).fetchone() is not None


def test_notifications_reach_the_sessions_of_the_facade(drivers_stack: DriversStack, alice: Connection) -> None:
    alice.execute("LISTEN mine")
    with drivers_stack.connect() as other:
        other.execute("SELECT pg_notify('mine', 'hello')")
    assert [(n.channel, n.payload) for n in alice.notifies(timeout=PATIENCE, stop_after=1)] == [("mine", "hello")]


def test_types_are_found(alice: Connection) -> None:
    assert TypeInfo.fetch(alice, "hstore") is None
    found = TypeInfo.fetch(alice, "timestamptz")
    assert found is not None and found.oid == 1184
    alice.execute("CREATE TYPE pg_temp.mood AS ENUM ('bad', 'good'); CREATE TYPE pg_temp.pair AS (a int, b text)")
    enum, pair = EnumInfo.fetch(alice, "mood"), CompositeInfo.fetch(alice, "pair")
    assert enum is not None and list(enum.labels) == ["bad", "good"]
    assert pair is not None and tuple(pair.field_names) == ("a", "b")
    register_composite(pair, alice)
    row = alice.execute("SELECT (count(*), 'x')::pg_temp.pair FROM samples WHERE whole > 250", binary=True).fetchone()
    assert row is not None and isinstance(row[0].a, int) and row[0].b == "x"


def test_pool(drivers_stack: DriversStack) -> None:
    with ConnectionPool(
        drivers_stack.dsn(), min_size=1, max_size=3, check=ConnectionPool.check_connection, open=True
    ) as pool:
        answers: list[Any] = []

        def ask() -> None:
            with pool.connection() as connection:
                answers.append(connection.execute(COUNT).fetchone())

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        assert len(answers) == 8 and len(set(answers)) == 1
        with pytest.raises(psycopg.DatabaseError), pool.connection() as connection:
            connection.execute("SELECT word FROM samples")
        with pool.connection() as connection:
            assert connection.execute(COUNT).fetchone() == answers[0]
        assert pool.get_stats()["connections_num"] <= 4


async def test_async_program(drivers_stack: DriversStack) -> None:
    async with AsyncConnectionPool(drivers_stack.dsn(), min_size=2, max_size=2, open=False) as pool:

        async def ask(low: int) -> Any:
            async with pool.connection() as connection, connection.cursor(binary=True) as cursor:
                await cursor.execute("SELECT count(*) FROM samples WHERE whole > %s", [low])
                return await cursor.fetchone()

        answers = await asyncio.gather(*(ask(250 + i % 2) for i in range(8)))
        assert len(set(answers[::2])) == len(set(answers[1::2])) == 1
        async with pool.connection() as connection:
            async with connection.pipeline():
                cursors = [await connection.execute(COUNT) for _ in range(3)]
            assert [await cursor.fetchone() for cursor in cursors] == [answers[0]] * 3
            async with connection.transaction(), connection.cursor("named") as named:
                await named.execute(BY_CODE)
                assert len([row async for row in named]) == 10
            async with connection.cursor().copy(f"COPY ({BY_CODE}) TO STDOUT") as copy:
                assert len([row async for row in copy.rows()]) == 10


def asleep(stack: DriversStack, count: int) -> bool:
    with stack.cluster.connect() as root:
        return soon(lambda: backends(root, SLEEPING) == count)


async def test_a_cancelled_task_ends_its_statement(drivers_stack: DriversStack) -> None:
    async with await psycopg.AsyncConnection.connect(drivers_stack.dsn(), autocommit=True) as connection:
        task = asyncio.ensure_future(connection.execute("SELECT pg_sleep(600)"))
        assert await asyncio.to_thread(asleep, drivers_stack, 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert await asyncio.to_thread(asleep, drivers_stack, 0)
    async with await psycopg.AsyncConnection.connect(drivers_stack.dsn(), autocommit=True) as connection:
        assert await (await connection.execute(COUNT)).fetchone()
