"""One prepared statement, two ways: Parse and Bind, PREPARE and EXECUTE, find the same (reports R9, R10)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import asyncpg
import psycopg
import pytest

import fix_chance
from fix_ledger import charges, one, refused
from fix_stack import Stack
from fix_waiting import soon

Connection = psycopg.Connection[Any]
EPSILON = 20
ALL, SOME = "SELECT count(*) FROM shop", "SELECT count(*) FROM shop WHERE qty > $1"
BY_STAGE = "SELECT st, count(*) FROM parcels GROUP BY st ORDER BY st"
AT_STAGE = "SELECT count(*) FROM parcels WHERE st = $1"
# Every count is the true one; the same question is asked many times and drawn once.
pytestmark = pytest.mark.chance(fix_chance.laplace(1 / EPSILON, 0, 24))


@pytest.fixture(scope="module")
def stack(reports_stack: Stack) -> Stack:
    return reports_stack


@pytest.fixture
def alice(stack: Stack) -> Iterator[Connection]:
    with stack.connect("alice") as session:
        session.execute(f"SET dp.epsilon = {EPSILON}")
        yield session


def _synced(stack: Stack) -> None:
    synced = stack.cli("facade", "sync")
    assert synced.returncode == 0, synced.stderr


def bound(session: Connection, name: str, *values: str) -> list[tuple[str | None, ...]]:
    """What a Bind and Execute of a prepared statement returns; its error as PostgreSQL's."""
    result = session.pgconn.exec_prepared(name.encode(), [value.encode() for value in values])
    if result.status != psycopg.pq.ExecStatus.TUPLES_OK:
        code = result.error_field(psycopg.pq.DiagnosticField.SQLSTATE) or b""
        raise AssertionError(f"{code.decode()} {result.error_message.decode()}")
    shown = (result.get_value(row, column) for row in range(result.ntuples) for column in range(result.nfields))
    texts = [None if value is None else value.decode() for value in shown]
    return list(zip(*[iter(texts)] * result.nfields, strict=True))


def parsed(session: Connection, name: str, sql: str) -> None:
    result = session.pgconn.prepare(name.encode(), sql.encode())
    assert result.status == psycopg.pq.ExecStatus.COMMAND_OK, result.error_message


def test_a_statement_by_parse_is_executed_and_explained_by_sql(stack: Stack, alice: Connection) -> None:
    parsed(alice, "p", ALL)
    parsed(alice, "q", SOME)
    assert one(alice, "EXECUTE p") == 400
    assert bound(alice, "q", "30") == [("128",)]
    before = charges(stack.cluster)
    assert one(alice, "EXECUTE q(30)") == one(alice, "EXECUTE q(15 * 2)") == 128
    assert "qty > CAST(''30'' AS integer)" in alice.execute("EXPLAIN EXECUTE q(30)").fetchall()[0][0]
    assert charges(stack.cluster) == before
    with pytest.raises(psycopg.errors.SyntaxError, match='wrong number of parameters for prepared statement "q"'):
        alice.execute("EXECUTE q")


def test_a_statement_by_sql_is_bound_by_message(alice: Connection) -> None:
    alice.execute(f"PREPARE q AS {SOME}")
    described = alice.pgconn.describe_prepared(b"q")
    assert [described.param_type(i) for i in range(described.nparams)] == [23]
    assert bound(alice, "q", "30") == bound(alice, "q", "30") == [("128",)] and one(alice, "EXECUTE q(30)") == 128


def test_an_execute_by_the_extended_protocol_and_among_other_statements(alice: Connection) -> None:
    alice.execute(f"PREPARE q AS {SOME}")
    result = alice.pgconn.exec_params(b"EXECUTE q(30)", [])
    assert result.get_value(0, 0) == b"128"
    parsed(alice, "x", "EXECUTE q(30)")
    assert bound(alice, "x") == [("128",)]
    cursor = alice.execute("BEGIN; EXECUTE q(30); COMMIT")
    assert cursor.nextset() and cursor.fetchall() == [(128,)]
    assert cursor.nextset() and cursor.statusmessage == "COMMIT"


def test_a_temporary_table_of_an_execute(stack: Stack, alice: Connection) -> None:
    alice.execute(f"PREPARE q AS {SOME}")
    assert alice.execute("CREATE TEMP TABLE kept AS EXECUTE q(30)").statusmessage == "SELECT 1"
    assert one(alice, "SELECT count FROM kept") == 128
    before = charges(stack.cluster)
    with pytest.raises(psycopg.errors.DuplicateTable):
        alice.execute("CREATE TEMP TABLE kept AS EXECUTE q(31)")
    assert charges(stack.cluster) == before
    parsed(alice, "written", "INSERT INTO kept SELECT count(*) FROM shop WHERE qty > $1")
    assert alice.execute("EXECUTE written(30)").statusmessage == "INSERT 0 1"
    assert alice.execute("TABLE kept").fetchall() == [(128,), (128,)]


def test_what_is_prepared_is_shown_as_the_client_wrote_it(alice: Connection) -> None:
    with_types = f"PREPARE q (bigint) AS {SOME}"
    alice.execute(with_types)
    parsed(alice, "p", SOME)
    for run in ("EXECUTE q(1)", "EXECUTE p(1)", "EXPLAIN EXECUTE q(1)"):
        alice.execute(run)
    bound(alice, "q", "1")
    bound(alice, "p", "1")
    with pytest.raises(psycopg.Error):
        alice.execute("EXECUTE q('x')")
    shown = "SELECT name, statement, parameter_types::text[], from_sql FROM pg_prepared_statements ORDER BY name"
    expected = [("p", SOME, ["integer"], False), ("q", with_types, ["bigint"], True)]
    assert alice.execute(shown, prepare=False).fetchall() == expected
    parsed(alice, "unbounded", "SELECT sum(id) FROM shop")
    with pytest.raises(AssertionError, match="DP004"):
        bound(alice, "unbounded")
    assert [row[0] for row in alice.execute(shown, prepare=False).fetchall()] == ["p", "q", "unbounded"]


@pytest.mark.parametrize("how", ["DEALLOCATE {}", "DEALLOCATE ALL", "DISCARD ALL"])
def test_what_sql_has_dropped_is_gone_for_both(stack: Stack, how: str) -> None:
    with stack.connect("alice") as alice:
        parsed(alice, "p", SOME)
        alice.execute(f"PREPARE q AS {SOME}")
        for name in ("p", "q"):
            alice.execute(how.format(name))
            with pytest.raises(AssertionError, match=f'26000.*"{name}" does not exist'):
                bound(alice, name, "30")
            with pytest.raises(psycopg.errors.InvalidSqlStatementName):
                alice.execute(f"EXECUTE {name}(30)")
            alice.execute(f"PREPARE {name} AS SELECT $1::int + 1")
            assert bound(alice, name, "30") == [("31",)] and one(alice, f"EXECUTE {name}(30)") == 31


def test_what_a_message_has_closed_is_gone_for_both(alice: Connection) -> None:
    parsed(alice, "p", SOME)
    alice.execute(f"PREPARE q AS {SOME}")
    for name in ("p", "q"):
        assert alice.pgconn.close_prepared(name.encode()).status == psycopg.pq.ExecStatus.COMMAND_OK
        with pytest.raises(AssertionError, match="26000"):
            bound(alice, name, "30")
        with pytest.raises(psycopg.errors.InvalidSqlStatementName):
            alice.execute(f"EXECUTE {name}(30)")


@pytest.mark.parametrize("by_sql", [False, True])
def test_another_statement_under_the_name_is_what_is_run(stack: Stack, alice: Connection, by_sql: bool) -> None:
    """Also where its text has that of the first one in it."""
    first = f"PREPARE p AS {ALL}" if by_sql else ALL
    alice.execute(first) if by_sql else parsed(alice, "p", first)
    assert one(alice, "EXECUTE p") == 400
    before = charges(stack.cluster)
    alice.execute("DEALLOCATE p")
    alice.execute(f"PREPARE p AS SELECT '{first}'::text")
    assert bound(alice, "p") == [(first,)] and one(alice, "EXECUTE p") == first
    assert charges(stack.cluster) == before


def test_a_prepare_among_other_statements_of_a_message(alice: Connection) -> None:
    alice.execute(f"BEGIN;\n PREPARE q AS {SOME};\nCOMMIT")
    assert bound(alice, "q", "30") == [("128",)] and one(alice, "EXECUTE q(30)") == 128


def test_nobody_executes_what_another_session_has_prepared(stack: Stack, alice: Connection) -> None:
    parsed(alice, "p", SOME)
    with stack.connect("alice") as other:
        with pytest.raises(psycopg.errors.InvalidSqlStatementName):
            other.execute("EXECUTE p(30)")
        assert one(other, "SELECT count(*) FROM pg_prepared_statements WHERE name = 'p'") == 0


def test_rows_are_private_however_they_are_prepared(alice: Connection) -> None:
    parsed(alice, "p", "SELECT * FROM shop WHERE qty > $1")
    with refused("DP002"):
        alice.execute("EXECUTE p(1)")
    with pytest.raises(AssertionError, match="DP002"):
        bound(alice, "p", "1")
    alice.execute("DO $$ BEGIN EXECUTE 'PREPARE hidden AS SELECT qty FROM shop'; END $$")
    with refused("DP002", hint=True):
        alice.execute("EXECUTE hidden")
    with pytest.raises(AssertionError, match="DP002"):
        bound(alice, "hidden")


async def test_asyncpg_prepares_and_sql_executes(stack: Stack) -> None:
    connection = await asyncpg.connect(stack.dsn_url("alice"))
    try:
        await connection.execute(f"SET dp.epsilon = {EPSILON}")
        statement = await connection.prepare(SOME, name="by_asyncpg")
        assert await statement.fetchval(30) == await connection.fetchval("EXECUTE by_asyncpg(30)") == 128
        plan = await connection.fetch("EXPLAIN EXECUTE by_asyncpg(30)")
        assert plan[0][0].startswith("DP block $2: dp_count('public.shop'")
    finally:
        await connection.close()


# Last: they change a type. The clients' statements are of before it.
@pytest.mark.parametrize(
    "change",
    [
        "ALTER TYPE stage ADD VALUE 'late'",
        "ALTER TYPE stage RENAME VALUE 'late' TO 'later';"
        " CALL dp.describe_column('parcels', 'st', domain => ARRAY['open','paid','later'], nullable => false)",
    ],
)
def test_prepared_statements_follow_a_type_that_changes(stack: Stack, alice: Connection, change: str) -> None:
    parsed(alice, "grouped", BY_STAGE)
    parsed(alice, "asked", AT_STAGE)
    alice.execute(f"PREPARE grouped_by_sql AS {BY_STAGE}")
    alice.execute(f"PREPARE asked_by_sql AS {AT_STAGE}")
    first = bound(alice, "grouped")
    assert bound(alice, "grouped_by_sql") == first
    oid = "SELECT 'stage'::regtype::oid"
    before = one(alice, oid)
    for statement in change.split(";"):
        stack.cluster.psql(statement, user="boss")
    _synced(stack)
    assert soon(lambda: one(alice, oid) != before)
    now = bound(alice, "grouped")
    assert now[:2] == first[:2]
    assert bound(alice, "grouped_by_sql") == now
    labels = [(label, int(count or 0)) for label, count in now]
    assert alice.execute("EXECUTE grouped").fetchall() == alice.execute("EXECUTE grouped_by_sql").fetchall() == labels
    assert bound(alice, "asked", "open") == bound(alice, "asked_by_sql", "open") == [("200",)]
    assert one(alice, "EXECUTE asked('open')") == one(alice, "EXECUTE asked_by_sql('open')") == 200
    described = alice.pgconn.describe_prepared(b"grouped")
    assert described.status == psycopg.pq.ExecStatus.COMMAND_OK and described.ftype(0) == one(alice, oid)
