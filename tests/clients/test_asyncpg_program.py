"""asyncpg through the proxy as programs use it: TLS, codecs of its own, types of the session's own, cursors, cancel."""

from __future__ import annotations

import asyncio
import datetime as dt
import ssl
import uuid
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import asyncpg
import pytest

import fix_drivers
from fix_drivers import NEAR, DriversStack
from fix_waiting import PATIENCE, left_behind

pytestmark = pytest.mark.chance(fix_drivers.CHANCE)

COUNT = "SELECT count(*) FROM samples WHERE whole > 250"
BY_CODE = "SELECT code, count(*) AS n FROM samples GROUP BY code ORDER BY code"


async def session(stack: DriversStack, **settings: Any) -> Any:
    facts = {"host": stack.host, "port": stack.port, "user": stack.user, "password": stack.password}
    return await asyncpg.connect(**{**facts, "database": stack.dbname, **settings})


@pytest.fixture
async def alice(drivers_stack: DriversStack) -> AsyncIterator[Any]:
    """A session that the recorder hears."""
    connection = await session(drivers_stack, port=drivers_stack.recorded("asyncpg"))
    yield connection
    await connection.close()


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
async def test_tls_and_scram(drivers_stack: DriversStack, host: str) -> None:
    trusted = ssl.create_default_context(cafile=str(drivers_stack.certificate))
    connection = await session(drivers_stack, ssl=trusted, host=host)
    try:
        assert connection._transport.get_extra_info("ssl_object").version() == "TLSv1.3"
        assert await connection.fetchval("SELECT session_user || $1", "!") == "alice!"
    finally:
        await connection.close()


async def test_tls_is_refused_to_another_certificate_and_login_to_another_password(drivers_stack: DriversStack) -> None:
    with left_behind(), pytest.raises(ssl.SSLCertVerificationError):
        await session(drivers_stack, ssl=ssl.create_default_context())
    with left_behind(), pytest.raises(asyncpg.InvalidPasswordError, check=lambda error: error.sqlstate == "28P01"):
        await session(drivers_stack, ssl="require", password="wrong")


async def test_server_settings(drivers_stack: DriversStack) -> None:
    settings = {"application_name": "program", "TimeZone": "Asia/Tokyo", "dp.epsilon": "3"}
    connection = await session(drivers_stack, server_settings=settings)
    try:
        assert connection.get_settings().TimeZone == "Asia/Tokyo"
        assert connection.get_server_version().major == drivers_stack.cluster.paths.pg_version
        plan = await connection.fetch(f"EXPLAIN {COUNT}")
        assert any("epsilon 3" in row["QUERY PLAN"] for row in plan)
    finally:
        await connection.close()


# asyncpg sends binary parameters of the types that the server infers.
VALUES: list[tuple[str, str, Any]] = [
    ("yes = $1", "bool", True),
    ("small > $1", "int2", 40),
    ("whole > $1", "int4", 251),
    ("big > $1", "int8", 2520000000000),
    ("exact > $1", "numeric", Decimal("284.625")),
    ("single > $1", "float4", 63.5),
    ('"double" > $1', "float8", 85.5),
    ("word = $1", "text", "word 7"),
    ("code = $1::varchar", "varchar", "c7"),
    ("flag = $1::char(3)", "bpchar", "abc"),
    ("day > $1", "date", dt.date(2024, 5, 17)),
    ("at > $1", "timestamp", dt.datetime(2024, 1, 17, 12, 30)),
    ("moment > $1", "timestamptz", dt.datetime(2024, 1, 18, 12, tzinfo=dt.UTC)),
    ("clock > $1", "time", dt.time(4, 30)),
    ("uid > $1", "uuid", uuid.UUID(int=0x254)),
    ("span > $1", "interval", dt.timedelta(days=253)),
    ("word IS NOT DISTINCT FROM $1", "text", None),
]


@pytest.mark.parametrize("condition, kind, value", VALUES)
async def test_parameters_of_scalar_types(
    drivers_stack: DriversStack, alice: Any, condition: str, kind: str, value: Any
) -> None:
    question = f"SELECT count(*) FROM samples WHERE {condition}"
    statement = await alice.prepare(question)
    assert [parameter.name for parameter in statement.get_parameters()] == [kind]
    with drivers_stack.cluster.connect() as owner:
        exact = owner.execute(question.replace("$1", "%s").encode(), [value]).fetchone()
    assert exact is not None and abs(await statement.fetchval(value) - exact[0]) <= NEAR


@pytest.mark.parametrize(
    "expression, kind, value",
    [
        ("count(*) > 0", "bool", bool),
        ("count(*)::int2", "int2", int),
        ("count(*)::numeric(12,3)", "numeric", Decimal),
        ("count(*)::float4", "float4", float),
        ("count(*)::text::char(5)", "bpchar", str),
        ("date '2024-01-01' + count(*)::int", "date", dt.date),
        ("timestamptz '2024-01-01 00:00+00' + count(*) * interval '1 hour'", "timestamptz", dt.datetime),
        ("count(*) * interval '1 day'", "interval", dt.timedelta),
        ("lpad(count(*)::text, 32, '0')::uuid", "uuid", uuid.UUID),
        ("int8send(count(*))", "bytea", bytes),
        ("jsonb_build_object('n', count(*))", "jsonb", str),
        ("ARRAY[count(*), NULL]", "int8[]", list),
        ("int8range(0, abs(count(*)))", "int8range", asyncpg.Range),
        ("'127.0.0.1'::inet + count(*)", "inet", object),
    ],
)
async def test_results_of_many_types(alice: Any, expression: str, kind: str, value: type) -> None:
    statement = await alice.prepare(f"SELECT {expression} AS x FROM samples WHERE whole > 250")
    (attribute,) = statement.get_attributes()
    assert (attribute.name, attribute.type.name) == ("x", kind)
    assert isinstance(await statement.fetchval(), value)


async def test_types_of_the_sessions_own(alice: Any) -> None:
    """Types of a temporary schema are asked for and understood; those of parameters too."""
    await alice.execute(
        "CREATE TYPE pg_temp.mood AS ENUM ('bad', 'good'); CREATE TYPE pg_temp.pair AS (n bigint, word text);"
        "CREATE DOMAIN pg_temp.natural AS bigint"
    )
    row = await alice.fetchrow(
        "SELECT (CASE WHEN count(*) > 0 THEN 'good' ELSE 'bad' END)::pg_temp.mood AS m,"
        " (count(*), 'x')::pg_temp.pair AS p, count(*)::pg_temp.natural AS d,"
        " ARRAY[(count(*), 'y')::pg_temp.pair] AS a FROM samples WHERE whole > 250"
    )
    assert row["m"] == "good" and row["p"]["word"] == "x" and row["p"]["n"] == row["d"] == row["a"][0]["n"]
    asked = "SELECT count(*) FROM samples WHERE whole > 250 AND yes = ($1::pg_temp.mood = 'good')"
    with pytest.raises(asyncpg.PostgresError) as refused:
        await alice.fetchval(asked, "good")
    assert refused.value.sqlstate in ("DP003", "DP004") and refused.value.hint
    assert await alice.fetchval("SELECT $1::pg_temp.mood::text || (SELECT count(*) FROM samples)", "bad")


async def test_codecs_of_the_programs_own(alice: Any) -> None:
    await alice.set_type_codec("jsonb", encoder=str, decoder=lambda text: ("decoded", text), schema="pg_catalog")
    await alice.set_type_codec(
        "int8", encoder=str, decoder=lambda text: f"<{text}>", schema="pg_catalog", format="text"
    )
    row = await alice.fetchrow("SELECT jsonb_build_object('n', 1) AS j, count(*) AS n FROM samples WHERE whole > 250")
    assert row["j"] == ("decoded", '{"n": 1}') and row["n"].startswith("<")
    await alice.reset_type_codec("int8", schema="pg_catalog")
    assert row["n"] == f"<{await alice.fetchval(COUNT)}>"


@pytest.mark.parametrize("size", [0, 1, 100])
async def test_statement_cache(drivers_stack: DriversStack, size: int) -> None:
    connection = await session(drivers_stack, statement_cache_size=size)
    try:
        question = "SELECT count(*) FROM samples WHERE whole > $1::int"
        answers = [await connection.fetchval(question, 250 + i % 2) for i in range(6)]
        assert len(set(answers[::2])) == len(set(answers[1::2])) == 1
        assert await connection.fetchval(COUNT) == answers[0]
        kept = await connection.fetchval("SELECT count(*) FROM pg_prepared_statements WHERE name ~ '^__asyncpg'")
        assert kept <= size
        await connection.execute("CREATE TEMP TABLE kept (a int)")
        assert await connection.fetch("SELECT * FROM kept") == []
        await connection.execute("ALTER TABLE kept ADD b int; DISCARD PLANS")
        await connection.reload_schema_state()
        assert await connection.fetch("SELECT * FROM kept") == []
    finally:
        await connection.close()


async def test_cursors_and_portals(alice: Any) -> None:
    rows = await alice.fetch(BY_CODE)
    statement = await alice.prepare(BY_CODE)
    async with alice.transaction():
        assert [row async for row in statement.cursor(prefetch=3)] == rows
        one, two = await statement.cursor(), await alice.cursor("SELECT code FROM samples GROUP BY code ORDER BY code")
        assert await one.fetch(2) == rows[:2] and (await two.fetchrow())["code"] == "c0"
        assert await one.forward(2) == 2 and await one.fetch(1) == rows[4:5]
        assert await two.fetch(50) and await one.fetch(50) == rows[5:] and await one.fetchrow() is None
    with pytest.raises(asyncpg.NoActiveSQLTransactionError):
        await alice.cursor(BY_CODE)


async def test_transactions_and_savepoints(alice: Any) -> None:
    answer = await alice.fetchval(COUNT)
    async with alice.transaction(isolation="repeatable_read"):
        await alice.execute("CREATE TEMP TABLE kept (n bigint)")
        with pytest.raises(asyncpg.PostgresError):
            async with alice.transaction():
                await alice.execute(f"INSERT INTO kept {COUNT}")
                await alice.fetch("SELECT word FROM samples")
        await alice.execute(f"INSERT INTO kept {COUNT}")
    assert await alice.fetch("SELECT n FROM kept") == [(answer,)]
    transaction = alice.transaction()
    await transaction.start()
    with pytest.raises(asyncpg.PostgresError):
        await alice.fetch("SELECT word FROM samples")
    with pytest.raises(asyncpg.InFailedSQLTransactionError):
        await alice.fetchval(COUNT)
    await transaction.rollback()
    assert await alice.fetchval(COUNT) == answer


async def test_what_an_error_says_and_what_not(alice: Any) -> None:
    with pytest.raises(asyncpg.PostgresError) as refused:
        await alice.fetch("SELECT word FROM samples WHERE id = $1", 1)
    told = refused.value.as_dict()
    assert told["sqlstate"] == "DP002" and told["severity"] == "ERROR" and told["position"] == "18"
    assert told["message"] == "rows of samples are private" and told["hint"].startswith("Ask for aggregates")
    assert not {"context", "schema_name", "table_name", "column_name", "internal_query"} & {
        k for k, v in told.items() if v
    }


async def test_copy_of_an_answer(alice: Any, tmp_path: Any) -> None:
    rows = await alice.fetch(BY_CODE)
    file = tmp_path / "out"
    assert await alice.copy_from_query(BY_CODE, output=str(file), format="csv", header=True) == "COPY 10"
    assert file.read_text().splitlines() == ["code,n", *(f"{code},{n}" for code, n in rows)]
    asked = "SELECT code, count(*) FROM samples WHERE whole > $1 GROUP BY code"
    assert await alice.copy_from_query(asked, -1, output=str(file), format="binary") == "COPY 10"
    with pytest.raises(asyncpg.PostgresError) as refused:
        await alice.copy_from_table("samples", output=str(file))
    assert refused.value.sqlstate == "DP002"
    with pytest.raises(asyncpg.PostgresError) as refused:
        await alice.copy_records_to_table("samples", records=[(1,)], columns=["id"])  # asks for a row's types first
    assert refused.value.sqlstate == "42501"


async def test_listeners(drivers_stack: DriversStack, alice: Any) -> None:
    heard: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
    await alice.add_listener("mine", lambda _c, _pid, channel, payload: heard.put_nowait((channel, payload)))
    other = await session(drivers_stack)
    await other.execute("NOTIFY mine, 'hello'")
    await other.close()
    assert await asyncio.wait_for(heard.get(), PATIENCE) == ("mine", "hello")
    said: list[Any] = []
    alice.add_log_listener(lambda _c, message: said.append((message.severity, message.message)))
    await alice.execute("SET dp.notices = on")
    await alice.fetchval(COUNT)
    await asyncio.sleep(0)
    assert [severity for severity, _ in said] == ["NOTICE"] and said[0][1].startswith("dp: ")


async def test_a_time_limit_cancels(alice: Any) -> None:
    """The statement runs when its time is over: a cancel that comes before it means nothing."""
    with pytest.raises(asyncio.TimeoutError):
        await alice.fetchval("SELECT pg_sleep(600)", timeout=2)
    assert isinstance(await alice.fetchval(COUNT), int)


async def test_a_pool_of_prepared_sessions(drivers_stack: DriversStack) -> None:
    async def prepared(connection: Any) -> None:
        await connection.execute("SET dp.epsilon = 2")

    facts = {"host": drivers_stack.host, "port": drivers_stack.port, "user": "alice", "ssl": "require"}
    facts |= {"password": drivers_stack.password, "database": drivers_stack.dbname}
    async with asyncpg.create_pool(**facts, min_size=2, max_size=3, max_queries=5, setup=prepared) as pool:

        async def ask(low: int) -> Any:
            async with pool.acquire() as connection, connection.transaction():
                return await connection.fetchval("SELECT count(*) FROM samples WHERE whole > $1", low)

        answers = await asyncio.gather(*(ask(250 + i % 2) for i in range(20)))
        assert len(set(answers[::2])) == len(set(answers[1::2])) == 1
        with pytest.raises(asyncpg.PostgresError):
            await pool.fetch("SELECT word FROM samples")
        assert await pool.fetchval(COUNT) == answers[0]
        assert await pool.fetchmany("SELECT count(*) FROM samples WHERE whole > $1", [(250,), (250,)])
