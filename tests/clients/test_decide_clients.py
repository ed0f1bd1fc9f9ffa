"""A session that a synthetic table answers, as people and programs meet it: psql, psycopg, asyncpg over real sockets.

At epsilon 20 a decision is the truth but with probability below 5e-9, and 3e-7 for all of this file together.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator
from decimal import Decimal
from typing import Any

import asyncpg
import psycopg
import pytest
from test_psql import psql

import fix_chance
from fix_cluster import PASSWORD, PRIVATE
from fix_decide import EPSILON, Connection, Heard, decide_stack, one, spent
from fix_stack import Stack

pytestmark = pytest.mark.chance(fix_chance.laplace(1 / 20, 0, 10))

SETTINGS = "SET dp.synthetic = 'adult_syn'; SET dp.tau = '5%'"
COPY, FAR, PRIVATELY = 1980, 500, 2000
COUNT = "SELECT count(*) FROM adult"


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with decide_stack() as running:
        yield running


@pytest.fixture
def alice(stack: Stack) -> Iterator[Connection]:
    with stack.connect() as connection:
        connection.execute(SETTINGS)
        yield connection


def script(*lines: str) -> str:
    return "".join(f"{line};\n" for line in ("SET dp.synthetic = 'adult_syn'", "SET dp.tau = '5%'", *lines))


# -- psql --------------------------------------------------------------------------------------------------------------


def test_psql_shows_the_decision_without_being_asked(stack: Stack) -> None:
    done = psql(stack, script(COUNT), "-qAt")
    assert done.stdout == f"{COPY}\n"
    assert re.fullmatch(
        r"NOTICE:  dp: (direct|cache), LM_count, .*; distance bound satisfied: public\.adult_syn gives 1980, "
        r"which is within 99 of the private answer, by LM_count; the answer is the synthetic one\n",
        done.stderr,
    )


def test_psql_tells_the_two_answers_of_a_fallback_apart(stack: Stack) -> None:
    fallback = script("SET dp.synthetic_policy = 'fallback'", COUNT, "SET dp.synthetic = 'adult_far'", COUNT)
    done = psql(stack, fallback, "-qAt")
    assert done.stdout.splitlines() == [str(COPY), str(PRIVATELY)]
    first, second = done.stderr.splitlines()
    assert "satisfied" in first and "the synthetic one" in first
    assert "unmet" in second and "public.adult_far gives 500" in second and "the private one" in second


def test_psql_shows_what_to_do_about_a_refusal(stack: Stack) -> None:
    done = psql(stack, script("SELECT sex, count(*) FROM adult GROUP BY sex", "SELECT dp_decide('x', 'adult_syn', 1)"))
    assert "ERROR:  a decision is about one number" in done.stderr and "RESET dp.synthetic" in done.stderr
    assert 'ERROR:  syntax error at or near "x"' in done.stderr and "At character 1 of the query." in done.stderr


def test_psql_prepares_and_describes(stack: Stack) -> None:
    text = script(f"PREPARE p(int) AS {COUNT} WHERE id > $1", "EXECUTE p(0)") + f"{COUNT} \\gdesc\n{COUNT} \\gset\n"
    done = psql(stack, text + "\\echo :count\n", "-qAt")
    assert done.stdout.splitlines() == [str(COPY), "count|bigint", str(COPY)]


def test_psql_sees_the_copies_and_the_functions(stack: Stack) -> None:
    done = psql(stack, "\\d adult_syn\n\\df dp.dp_decide*\n\\df+ dp.dp_bound\nSELECT count(*) FROM adult_w;\n")
    for word in ("hours", "numeric(6,2)", "dp_decide_detail", "dp_decide_plan", "tau_percent", "240"):
        assert word in done.stdout, word
    assert done.stderr == ""


def test_psql_explains_before_it_pays(stack: Stack) -> None:
    before = spent(stack)
    done = psql(stack, script("SET dp.epsilon = 0.01", "EXPLAIN SELECT count(*) FROM adult"), "-qAt")
    assert "decider: em (recommended)" not in done.stdout.splitlines()[0]
    assert "answer: from adult_syn" in done.stdout and "warning: tau 99 is below" in done.stdout
    assert spent(stack) == before


# -- statements around a block -----------------------------------------------------------------------------------------


def test_an_answer_is_kept_copied_and_fetched(stack: Stack, alice: Connection) -> None:
    """One question in every wrapper: it is paid for once."""
    one(alice, COUNT)
    before = spent(stack)
    alice.execute(f"CREATE TEMP TABLE kept AS {COUNT}")
    alice.execute(f"INSERT INTO kept {COUNT}")
    assert one(alice, "SELECT sum(count), count(*) FROM kept") == (2 * COPY, 2)
    with alice.cursor().copy(f"COPY ({COUNT}) TO STDOUT".encode()) as copy:
        assert b"".join(bytes(block) for block in copy) == f"{COPY}\n".encode()
    with alice.transaction():
        alice.execute(f"DECLARE c CURSOR FOR {COUNT}")
        assert alice.execute("FETCH ALL FROM c").fetchall() == [(COPY,)]
        with alice.cursor("named") as cursor:
            assert cursor.execute(COUNT.encode()).fetchall() == [(COPY,)]
    assert spent(stack) == before


def test_a_cursor_shows_what_was_decided_when_it_was_opened(alice: Connection) -> None:
    with alice.transaction():
        alice.execute(f"DECLARE c CURSOR FOR {COUNT}")
        alice.execute("SET LOCAL dp.synthetic = 'adult_far'")
        assert alice.execute("FETCH c").fetchall() == [(COPY,)]
        assert one(alice, COUNT) == (FAR,)


def test_a_binary_answer_and_a_kept_statement(alice: Connection) -> None:
    sql = "SELECT count(*), sum(age), avg(age) FROM adult WHERE sex = %s"
    expected = one(alice, sql.replace("adult", "adult_syn"), "f")
    for _ in range(7):  # psycopg prepares the sixth
        row = one(alice, sql, "f", binary=True)
        assert row[:2] == expected[:2] and abs(row[2] - expected[2]) < Decimal("1e-5")


def test_several_statements_of_a_pipeline(alice: Connection) -> None:
    """A setting in the middle of a pipeline holds for what follows it, and not for what precedes."""
    with alice.pipeline():
        first = alice.execute(COUNT)
        alice.execute("SET dp.synthetic = 'adult_far'")
        second = alice.execute(COUNT)
        alice.execute("SET dp.synthetic = 'adult_syn'")
        third = alice.execute(COUNT)
    assert [cursor.fetchone() for cursor in (first, second, third)] == [(COPY,), (FAR,), (COPY,)]


def test_an_error_leaves_the_transaction_as_postgresql_would(stack: Stack, alice: Connection) -> None:
    before = spent(stack)
    with pytest.raises(psycopg.errors.InFailedSqlTransaction), alice.transaction():
        with pytest.raises(psycopg.DatabaseError, match="GROUP BY"):
            alice.execute("SELECT sex, count(*) FROM adult GROUP BY sex")
        alice.execute(COUNT)
    with alice.transaction():
        with pytest.raises(psycopg.DatabaseError, match=r"dp\.tau"), alice.transaction():
            alice.execute("SET LOCAL dp.tau = ''")
            alice.execute(COUNT)
        assert one(alice, COUNT) == (COPY,)
    assert spent(stack) - before in (0, EPSILON)


def test_a_statement_that_fails_later_has_paid_for_its_decision(stack: Stack, alice: Connection) -> None:
    """The charge is not undone by what PostgreSQL finds afterwards: the decision was released."""
    before, heard = spent(stack), Heard(alice)
    alice.execute("SET dp.notices = on")
    alice.execute("SET dp.division = 'error'")
    sql = "SELECT 1 / (count(*) - 990) FROM adult WHERE sex = 'm'"
    with pytest.raises(psycopg.errors.DivisionByZero):
        alice.execute(sql.encode())
    assert spent(stack) - before == EPSILON and "epsilon 20 charged" in heard[0]
    assert one(alice, "SELECT count(*) FROM adult WHERE sex = 'm'") == (990,)
    assert spent(stack) - before == EPSILON


# -- asyncpg -----------------------------------------------------------------------------------------------------------


@pytest.fixture
async def program(stack: Stack) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(
        host="127.0.0.1",
        port=stack.port,
        user="alice",
        password=PASSWORD,
        database=PRIVATE,
        server_settings={"dp.synthetic": "adult_syn", "dp.tau": "5%"},
    )
    yield connection
    await connection.close()


async def test_asyncpg_from_its_start_up_packet(program: Any) -> None:
    assert await program.fetchval(COUNT) == COPY
    assert await program.fetchval(f"{COUNT} WHERE age > $1", 30) == await program.fetchval(
        "SELECT count(*) FROM adult_syn WHERE age > 30"
    )


async def test_asyncpg_keeps_its_statements_and_changes_its_mind(program: Any) -> None:
    """asyncpg prepares every statement once and keeps it: the settings of now decide."""
    statement = await program.prepare(COUNT)
    assert [attribute.type.name for attribute in statement.get_attributes()] == ["int8"]
    assert await statement.fetchval() == COPY
    await program.execute("SET dp.synthetic = 'adult_far'")
    assert await statement.fetchval() == FAR
    async with program.transaction():
        await program.execute("SET LOCAL dp.synthetic_policy = 'fallback'")
        assert await statement.fetchval() == PRIVATELY
    assert await statement.fetchval() == FAR
    await program.execute("RESET dp.synthetic")
    assert await statement.fetchval() == COPY  # that of the start-up packet


async def test_asyncpg_hears_decisions_when_it_asks_for_notices(program: Any) -> None:
    heard: list[str] = []
    program.add_log_listener(lambda _, message: heard.append(message.message))
    await program.fetchval(COUNT)
    await program.execute("SET dp.notices = on")
    await program.fetchval(COUNT)
    assert len(heard) == 1 and "distance bound satisfied" in heard[0]


async def test_asyncpg_calls_the_functions(stack: Stack, program: Any) -> None:
    before = spent(stack)
    call = "SELECT dp.dp_decide($1, $2::text::regclass, tau_percent => $3, epsilon => $4)"
    arguments = ("SELECT sum(age) FROM {table} WHERE sex = 'f'", "adult_syn", Decimal(5), 20.0)
    assert await program.fetchval(call, *arguments) is True
    assert await program.fetchval(call, *arguments) is True
    row = await program.fetchrow("SELECT * FROM dp_decide_detail($1, 'adult_syn', tau_percent => 5)", arguments[0])
    assert row["decision"] is True and row["mechanism"] == "LM_sum" and row["low"] < row["answer"] < row["high"]
    assert spent(stack) - before == EPSILON
    rows = await program.fetch(
        "SELECT * FROM dp_decide_plan($1, 'adult_syn', tau => 10, largest => $2)", arguments[0], 90
    )
    assert {row["mechanism"] for row in rows} >= {"lm", "r2t", "svt_basic", "svt"}
    assert sum(row["recommended"] for row in rows) == 1
    assert spent(stack) - before == EPSILON


async def test_asyncpg_explains(program: Any) -> None:
    (document,) = await program.fetch(f"EXPLAIN (FORMAT JSON) {COUNT}")
    facts = json.loads(document[0])[0]["DP Blocks"][0]["Facts"]
    assert facts["answer"] == "from adult_syn" and facts["decisions"][0]["low"] == "1881"


async def test_asyncpg_cursor_and_copy(program: Any) -> None:
    async with program.transaction():
        assert [row[0] async for row in program.cursor(COUNT)] == [COPY]
    found = bytearray()

    async def keep(block: bytes) -> None:
        found.extend(block)

    await program.copy_from_query(COUNT, output=keep)
    assert bytes(found) == f"{COPY}\n".encode()
