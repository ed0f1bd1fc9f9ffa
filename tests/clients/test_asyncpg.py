"""asyncpg through the proxy, on real rows: always extended, always binary, with its own introspection and pool."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import asyncpg
import pytest
from shapes import DERIVED, PLAIN, SHAPES, check_near, margin, over, truth

from clients import shapes
from fix_cluster import PASSWORD, PRIVATE
from fix_stack import Stack

pytestmark = pytest.mark.chance(shapes.CHANCE)


async def session(stack: Stack, user: str = "alice", **settings: Any) -> Any:
    return await asyncpg.connect(
        host="127.0.0.1", port=stack.port, user=user, password=PASSWORD, database=PRIVATE, **settings
    )


@pytest.fixture
async def alice(stack: Stack) -> AsyncIterator[Any]:
    connection = await session(stack)
    for statement in PLAIN:
        await connection.execute(statement)
    yield connection
    await connection.close()


def shape_of(statement: Any) -> list[tuple[Any, ...]]:
    """Names and types of a prepared statement's columns."""
    return [(a.name, a.type.oid, a.type.name) for a in statement.get_attributes()]


@pytest.mark.parametrize("shape, parts", SHAPES)
async def test_an_answer_has_the_columns_of_postgresql_and_is_near_the_truth(
    stack: Stack, alice: Any, shape: str, parts: int
) -> None:
    statement = await alice.prepare(over(shape))
    assert shape_of(statement) == shape_of(await alice.prepare(over(shape, "plain")))
    rows = [tuple(row.values()) for row in await statement.fetch()]
    check_near(rows, truth(stack, over(shape)), margin(0.1 / parts))
    assert [tuple(row.values()) for row in await alice.fetch(over(shape))] == rows


@pytest.mark.parametrize("shape", DERIVED)
async def test_expressions_over_answers_keep_their_types(alice: Any, shape: str) -> None:
    statement = await alice.prepare(over(shape))
    assert shape_of(statement) == shape_of(await alice.prepare(over(shape, "plain")))
    assert await statement.fetch()


PARAMETERS: list[tuple[str, str, Any]] = [
    ("age > $1", "int4", 30),
    ("age > $1::int8", "int8", 31),
    ("age > $1::int2", "int2", 32),
    ("income > $1", "numeric", Decimal("12.50")),
    ("income::float8 > $1", "float8", 13.25),
    ("sex = $1", "text", "f"),
    ("joined >= $1", "date", datetime.date(2024, 1, 17)),
    ("joined >= $1::timestamp", "timestamp", datetime.datetime(2024, 1, 18, 12)),
    ("(age > 40) = $1", "bool", True),
    ("city IS NOT DISTINCT FROM $1", "text", None),
]


@pytest.mark.parametrize("condition, kind, value", PARAMETERS)
async def test_arguments_have_the_types_that_postgresql_infers(
    stack: Stack, alice: Any, condition: str, kind: str, value: Any
) -> None:
    question = f"SELECT count(*) FROM people WHERE {condition}"
    statement = await alice.prepare(question)
    assert [p.name for p in statement.get_parameters()] == [kind]
    answer = await statement.fetchval(value)
    assert await alice.fetchval(question, value) == answer
    exact = await asyncpg.connect(
        dsn=f"postgres:///{PRIVATE}?host={stack.cluster.folder}&port={stack.cluster.port}&user=postgres"
    )
    try:
        assert abs(answer - await exact.fetchval(question, value)) <= margin(0.1)
    finally:
        await exact.close()


async def test_a_statement_is_asked_anew_with_each_argument(stack: Stack, alice: Any) -> None:
    statement = await alice.prepare("SELECT sex, count(*) FROM people WHERE age > $1 AND city = $2 GROUP BY sex")
    for age, city in ((20, "north"), (70, "south")):
        rows = await statement.fetch(age, city)
        exact = truth(stack, f"SELECT sex, count(*) FROM people WHERE age > {age} AND city = '{city}' GROUP BY sex")
        check_near([tuple(row.values()) for row in rows], exact, margin(0.1))
    with pytest.raises(asyncpg.DataError):
        await statement.fetch("twenty", "north")
    with pytest.raises(asyncpg.InterfaceError):
        await statement.fetch(1)


async def test_cursors_fetch_ahead_from_one_answer(alice: Any) -> None:
    rows = await alice.fetch("SELECT age, count(*) FROM people GROUP BY age ORDER BY age")
    async with alice.transaction():
        found = [
            row async for row in alice.cursor("SELECT age, count(*) FROM people GROUP BY age ORDER BY age", prefetch=7)
        ]
        assert found == rows
        cursor = await alice.cursor("SELECT age, count(*) FROM people GROUP BY age ORDER BY age")
        assert await cursor.fetchrow() == rows[0]
        assert await cursor.forward(3) == 3
        assert await cursor.fetch(100) == rows[4:]


async def test_transactions(alice: Any) -> None:
    async with alice.transaction():
        first = await alice.fetchval("SELECT count(*) FROM people")
        with pytest.raises(asyncpg.PostgresError) as refused:
            async with alice.transaction():
                await alice.execute("CREATE TEMP TABLE inner_one (a int)")
                await alice.fetch("SELECT * FROM people")
        assert refused.value.sqlstate == "DP002"
        assert await alice.fetchval("SELECT to_regclass('inner_one')") is None
        assert await alice.fetchval("SELECT count(*) FROM people") == first
    async with alice.transaction(isolation="serializable", readonly=True):
        assert await alice.fetchval("SELECT count(*) FROM people") == first


@pytest.mark.parametrize(
    "question, state",
    [
        ("SELECT * FROM people", "DP002"),
        ("SELECT count(*) FROM people WHERE 1 / (age - $1::int) > 0", "DP003"),
        ("SELECT count(*) FROM people WHERE score > $1::float8", "DP004"),
        ("SELECT dp_count('people', epsilon => $1::float8)", "DP005"),
        ("UPDATE people SET age = $1::int", "42501"),
        ("SELECT count(*) FROM people WHERE wage > $1", "42703"),
    ],
)
async def test_refusals_are_errors_with_a_state_and_a_hint(alice: Any, question: str, state: str) -> None:
    arguments = [-1] if "$1" in question else []
    with pytest.raises(asyncpg.PostgresError) as refused:
        await alice.fetch(question, *arguments)
    assert refused.value.sqlstate == state
    assert refused.value.hint or state == "42703"
    assert refused.value.message
    assert not alice.is_in_transaction()
    assert await alice.fetchval("SELECT 1") == 1


async def test_a_pool_with_its_reset(stack: Stack) -> None:
    """Its reset clears settings; once a question is answered, twelve tasks on four sessions get that answer."""
    pool = await asyncpg.create_pool(
        host="127.0.0.1", port=stack.port, user="alice", password=PASSWORD, database=PRIVATE, min_size=1, max_size=4
    )
    async with pool:
        async with pool.acquire() as connection:
            default = await connection.fetchval("SHOW dp.epsilon")
            await connection.execute("SET dp.epsilon = 0.2")
            assert await connection.fetchval("SHOW dp.epsilon") == "0.2"
        async with pool.acquire() as connection:
            assert await connection.fetchval("SHOW dp.epsilon") == default
        first = await pool.fetchval("SELECT count(*) FROM people WHERE age > 61")
        answers = await asyncio.gather(
            *(pool.fetchval("SELECT count(*) FROM people WHERE age > 61") for _ in range(12))
        )
        assert set(answers) == {first}


async def test_sessions_at_once_do_not_mix(stack: Stack, alice: Any) -> None:
    bob = await session(stack, "bob")
    try:
        await bob.execute("SET dp.epsilon = 0.05")
        names = await asyncio.gather(
            *(who.fetch("SELECT session_user::text, count(*) FROM people WHERE age > 62") for who in (alice, bob))
        )
        assert [rows[0]["session_user"] for rows in names] == ["alice", "bob"]
        own = await bob.fetch("SELECT question FROM dp.spending WHERE who = 'bob'")
        assert len(own) == 1
        assert await bob.fetchval("SELECT your_epsilon_left FROM dp.budget WHERE dataset = 'people'") < 10
    finally:
        await bob.close()


async def test_copy_out_and_in(alice: Any) -> None:
    got = bytearray()

    async def keep(block: bytes) -> None:
        got.extend(block)

    status = await alice.copy_from_query("SELECT city, count(*) FROM people GROUP BY city ORDER BY city", output=keep)
    assert status == "COPY 4" and got.startswith(b"east\t")
    await alice.execute("CREATE TEMP TABLE mine (a int, b text)")
    assert await alice.copy_records_to_table("mine", records=[(1, "x"), (2, "y")]) == "COPY 2"
    assert await alice.fetchval("SELECT count(*) FROM mine") == 2


async def test_executemany_and_temporary_tables(alice: Any) -> None:
    await alice.execute("CREATE TEMP TABLE kept (age int, n bigint)")
    await alice.executemany(
        "INSERT INTO kept SELECT $1::int, count(*) FROM people WHERE age > $1::int", [(50,), (55,), (60,)]
    )
    kept = await alice.fetch("SELECT age, n FROM kept ORDER BY age")
    assert [row["age"] for row in kept] == [50, 55, 60]
    assert kept[0]["n"] == await alice.fetchval("SELECT count(*) FROM people WHERE age > $1::int", 50)
    assert await alice.execute("CREATE TEMP TABLE copy AS SELECT sex, count(*) FROM people GROUP BY sex") == "SELECT 3"


async def test_notices_reach_the_log_listener(alice: Any) -> None:
    heard: list[str] = []
    alice.add_log_listener(lambda _connection, message: heard.append(message.message))
    await alice.execute("SET dp.notices = on")
    await alice.fetchval("SELECT count(*) FROM people WHERE age > 64")
    await asyncio.sleep(0)
    assert len(heard) == 1 and "epsilon 0.1" in heard[0]


async def test_records_of_explicit_calls(alice: Any) -> None:
    rows = await alice.fetch(
        "SELECT key ->> 'sex' AS sex, (value ->> 'count(*)')::int AS n FROM dp_group_by('people', $1)", ["sex"]
    )
    assert [row["sex"] for row in rows] == ["f", "m", "x"]
    count = await alice.fetchval("SELECT dp_count($1, $2, epsilon => $3)", "people", "age > 30", 0.1)
    assert isinstance(count, int)
