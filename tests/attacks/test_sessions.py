"""Attacks that need more than a statement: log-ins, start-up options, protocol messages, budgets at their end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import pq, sql
from psycopg.pq.abc import PGconn, PGresult

from fix_cluster import PASSWORD
from fix_stack import FACADE, Stack
from fix_waiting import PATIENCE

Connection = psycopg.Connection[Any]


@pytest.fixture
def owner(stack: Stack) -> Iterator[Connection]:
    with stack.cluster.connect() as connection:
        yield connection


def spent(owner: Connection) -> Any:
    """Ledger rows and all accounts."""
    return owner.execute(
        "SELECT (SELECT count(*) FROM dp.ledger), array_agg(a::text ORDER BY a::text) FROM dp.account a"
    ).fetchone()


# -- log-ins ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "user",
    [
        "postgres",
        "boss",
        "dp_owner",
        "dp_gateway",
        "dp_channel",
        "dp_reader",
        "dp_facade",
        "dp_auth",
        "dp_analyst",
        "nobody",
        "",
    ],
)
def test_only_analysts_come_through_the_proxy(stack: Stack, user: str) -> None:
    """Whoever else asks hears what a wrong password hears: nothing tells roles from each other."""
    with pytest.raises(psycopg.OperationalError) as refused:
        stack.connect(user or "''")
    with pytest.raises(psycopg.OperationalError) as wrong:
        stack.connect("alice", password="wrong")
    said = [
        str(e.value).replace(name, "USER").splitlines()[-1] for e, name in ((refused, user or "''"), (wrong, "alice"))
    ]
    assert said[0] == said[1]


@pytest.mark.parametrize("user", ["dp_owner", "dp_facade", "dp_auth", "dp_analyst", "dp_admin", "dp_channel"])
def test_no_role_of_the_engine_has_the_analysts_password(stack: Stack, user: str) -> None:
    with pytest.raises(psycopg.OperationalError):
        stack.cluster.connect(user, tcp=True)


OPTIONS = [
    "-c session_authorization=bob", "-c role=dp_owner", "-c role=dp_gateway", "-c role=bob", "-c dp.analyst=bob",
    "-c row_security=off", "-c session_preload_libraries=auto_explain", "-c is_superuser=on", "-c log_statement=all",
    "-c search_path=pg_temp,public -c plan_cache_mode=force_generic_plan", "--dp.analyst=bob", "-P", "-O",
    "-c debug_print_plan=on -c client_min_messages=log", "-c allow_system_table_mods=on",
    "-c client_encoding=SQL_ASCII", "-c standard_conforming_strings=off",
]  # fmt: skip


@pytest.mark.parametrize("way", ["proxy", "direct"])
@pytest.mark.parametrize("options", OPTIONS)
def test_start_up_options_change_nothing(stack: Stack, owner: Connection, options: str, way: str) -> None:
    """Refused at the door, or the session is alice's own and rows stay closed."""
    before = spent(owner)
    try:
        session = (
            stack.connect(options=options)
            if way == "proxy"
            else stack.cluster.connect("alice", tcp=True, options=options)
        )
    except psycopg.OperationalError:
        return
    with session:
        who = session.execute("SELECT session_user::name = 'alice' AND current_user = session_user").fetchone()
        assert who == (True,)
        session.execute("SET row_security = on")
        session.execute("SET standard_conforming_strings = on")
        budget = session.execute("SELECT your_epsilon FROM dp.budget WHERE dataset = 'people'").fetchone()
        assert budget == (5,)
        session.execute("RESET ALL")
        with pytest.raises(psycopg.DatabaseError) as refused:
            session.execute("SELECT age FROM people")
        assert refused.value.sqlstate in ("DP002", "42501")
        with pytest.raises(psycopg.DatabaseError):
            session.execute("SELECT dp_count('people', epsilon => 0)")
    assert spent(owner) == before


@pytest.mark.parametrize("way", ["proxy", "direct"])
@pytest.mark.parametrize("replication", ["database", "true"])
def test_no_replication(stack: Stack, way: str, replication: str) -> None:
    with pytest.raises(psycopg.OperationalError):
        if way == "proxy":
            stack.connect(replication=replication)
        else:
            stack.cluster.connect("alice", tcp=True, replication=replication)


@pytest.mark.parametrize("dbname", ["postgres", "template1", FACADE, "nowhere"])
def test_other_databases_through_the_proxy(stack: Stack, dbname: str) -> None:
    """The proxy serves one database; whatever name is asked, rows stay closed."""
    try:
        session = stack.connect(dbname=dbname)
    except psycopg.OperationalError:
        return
    with session, pytest.raises(psycopg.DatabaseError) as refused:
        session.execute("SELECT count(*) FROM people LIMIT (SELECT 1 FROM people)")
    assert refused.value.sqlstate in ("DP002", "DP003")


def test_around_the_proxy_to_the_facade(stack: Stack, owner: Connection) -> None:
    before = spent(owner)
    with stack.cluster.connect("alice", FACADE, tcp=True) as session:
        for statement, state in [
            ("SELECT count(*) FROM people", "DP002"),
            ("COPY people TO STDOUT", "DP002"),
            ("SELECT dp.dp_count('people')", "DP003"),
            ("SELECT * FROM dp.budget", "DP002"),
            ("INSERT INTO people (id) VALUES (1)", "42501"),
            ("ALTER TABLE people DISABLE ROW LEVEL SECURITY", "42501"),
            ("CREATE EXTENSION dblink", "42501"),
        ]:
            with pytest.raises(psycopg.DatabaseError) as refused:
                session.execute(statement)
            assert refused.value.sqlstate == state, statement
    assert spent(owner) == before


# -- protocol messages ------------------------------------------------------------------------------------------------


@pytest.fixture
def wire(stack: Stack) -> Iterator[PGconn]:
    with stack.connect() as connection:
        yield connection.pgconn


def state_of(result: PGresult) -> str:
    """The result's SQLSTATE, or "ok"."""
    field = result.error_field(pq.DiagnosticField.SQLSTATE)
    return field.decode() if field else "ok"


def test_reserved_names_are_refused(wire: PGconn) -> None:
    assert state_of(wire.prepare(b"_pge_1", b"SELECT 1")) == "42602"
    assert state_of(wire.exec_(b"SELECT 1")) == "ok"


def test_names_that_the_proxy_uses_taken_by_sql(wire: PGconn, owner: Connection) -> None:
    """Whoever takes the proxy's names spoils his own session: an answer or an error, never rows."""
    for number in range(40):
        wire.exec_(f'PREPARE "_pge_{number}" AS SELECT {number}'.encode())
    before = spent(owner)
    assert state_of(wire.exec_(b"SELECT * FROM people")) != "ok"
    assert spent(owner) == before
    assert state_of(wire.exec_(b"DEALLOCATE ALL")) == "ok"
    assert state_of(wire.exec_(b"SELECT * FROM people")) == "DP002"


def test_a_statement_planned_over_a_shadow_meets_the_net_without_it(wire: PGconn, owner: Connection) -> None:
    before = spent(owner)
    assert state_of(wire.exec_(b"CREATE TEMP TABLE people (age int)")) == "ok"
    assert state_of(wire.prepare(b"s", b"SELECT count(*) FROM people")) == "ok"
    assert wire.exec_prepared(b"s", []).get_value(0, 0) == b"0"
    assert state_of(wire.exec_(b"DROP TABLE people")) == "ok"
    assert state_of(wire.exec_prepared(b"s", [])) == "DP002"
    assert spent(owner) == before


def test_a_statement_planned_as_a_question_stays_one(wire: PGconn) -> None:
    assert state_of(wire.prepare(b"s", b"SELECT count(*) FROM people WHERE age > $1")) == "ok"
    first = wire.exec_prepared(b"s", [b"40"]).get_value(0, 0)
    assert state_of(wire.exec_(b"CREATE TEMP TABLE people AS SELECT 99 AS age")) == "ok"
    again = wire.exec_prepared(b"s", [b"40"])
    assert state_of(again) != "ok" or again.get_value(0, 0) in (first, b"1")
    fresh = wire.exec_params(b"SELECT count(*) FROM people WHERE age > $1", [b"40"])
    assert fresh.get_value(0, 0) == b"1"


@pytest.mark.parametrize(
    "values, formats, state",
    [
        ([], None, "08P01"),
        ([b"40", b"41"], None, "08P01"),
        ([b"forty"], None, "22P02"),
        ([b"\x00\x00"], [1], "08P01"),
        ([b"99999999999999999999"], None, "22003"),
        ([b"4" * 100_000], None, "22003"),
    ],
)
def test_broken_parameters_fail_before_any_charge(
    wire: PGconn, owner: Connection, values: list[bytes], formats: list[int] | None, state: str
) -> None:
    assert state_of(wire.prepare(b"s", b"SELECT count(*) FROM people WHERE age > $1")) == "ok"
    before = spent(owner)
    result = wire.exec_prepared(b"s", values, formats)
    assert state_of(result) == state
    assert spent(owner) == before


def test_a_statement_cannot_be_described_into_a_charge(wire: PGconn, owner: Connection) -> None:
    before = spent(owner)
    assert (
        state_of(wire.prepare(b"s", b"SELECT sex, count(*) FROM people WHERE age > $1 AND city = $2 GROUP BY sex"))
        == "ok"
    )
    described = wire.describe_prepared(b"s")
    assert (described.nfields, described.nparams) == (2, 2)
    assert [described.param_type(n) for n in range(2)] == [23, 25]
    assert spent(owner) == before


def test_in_an_aborted_transaction_nothing_is_asked(wire: PGconn, owner: Connection) -> None:
    assert state_of(wire.prepare(b"s", b"SELECT count(*) FROM people WHERE age > 42")) == "ok"
    before = spent(owner)
    wire.exec_(b"BEGIN")
    assert state_of(wire.exec_(b"SELECT 1 / 0")) == "22012"
    assert state_of(wire.exec_(b"SELECT count(*) FROM people WHERE age > 43")) == "25P02"
    assert state_of(wire.exec_prepared(b"s", [])) == "25P02"
    assert state_of(wire.prepare(b"t", b"SELECT count(*) FROM people WHERE age > 43")) == "25P02"
    wire.exec_(b"ROLLBACK")
    assert spent(owner) == before


def test_a_nul_ends_no_statement_early(wire: PGconn, owner: Connection) -> None:
    before = spent(owner)
    assert state_of(wire.exec_params(b"SELECT $1::text FROM people", [b"x"])) == "DP002"
    assert state_of(wire.exec_(b"SELECT count(*) FROM people WHERE sex = '\xff'")) == "22021"
    assert spent(owner) == before


def test_notifications_of_the_private_database_stay_there(stack: Stack, owner: Connection) -> None:
    """Applications notify with rows in the payload, and nobody can forbid LISTEN: the facade is another database."""
    with stack.connect() as session:
        session.execute("LISTEN admissions")
        owner.execute("NOTIFY admissions, 'a row'")
        session.execute("SELECT pg_notify('admissions', 'own')")
        heard = [notify.payload for notify in session.notifies(timeout=PATIENCE, stop_after=1)]
        heard += [notify.payload for notify in session.notifies(timeout=0.5)]
    assert heard == ["own"]


def test_the_proxys_log_holds_no_statement(stack: Stack) -> None:
    with stack.connect() as session:
        for statement in (
            "SELECT * FROM people",
            "SELECT dp_count('people', 'secret = 1')",
            "SELECT 1 / 0",
            "nonsense",
        ):
            with pytest.raises(psycopg.DatabaseError):
                session.execute(statement.encode())
        session.execute("SELECT count(*) FROM people WHERE city = 'secret'")
    with pytest.raises(psycopg.OperationalError):
        stack.connect("alice", password="open sesame")
    assert not [word for word in ("people", "secret", "nonsense", "SELECT", PASSWORD, "sesame") if word in stack.log]


# -- budgets at their end ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["proxy", "direct"])
def test_an_exhausted_budget_refuses_everything_but_repeats(stack: Stack, owner: Connection, way: str) -> None:
    """Run for the proxy with alice, directly with bob. DP001 says public numbers only, and nothing else is charged."""
    user = "alice" if way == "proxy" else "bob"
    session = stack.connect(user) if way == "proxy" else stack.cluster.connect(user, tcp=True)
    with session:
        (left,) = session.execute(
            "SELECT least(your_epsilon_left, epsilon_left) FROM dp.budget WHERE dataset = 'people'"
        ).fetchone() or (0,)
        last = sql.SQL("SELECT dp_count('people', 'age > 71', epsilon => {})").format(sql.Literal(left))
        answer = session.execute(last).fetchone()
        before = spent(owner)
        heard = set()
        for age in range(20, 60):
            with pytest.raises(psycopg.DatabaseError) as refused:
                session.execute(
                    sql.SQL("SELECT dp_count('people', {}, epsilon => 0.000001)").format(f"age > {age} AND sex = 'f'")
                )
            assert refused.value.sqlstate == "DP001"
            heard.add(
                (refused.value.diag.message_primary, refused.value.diag.message_hint, refused.value.diag.message_detail)
            )
        assert len(heard) == 1
        assert spent(owner) == before
        assert session.execute(last).fetchone() == answer
        assert session.execute("SELECT count(*) FROM dp.published").fetchone() != (0,)
        with pytest.raises(psycopg.DatabaseError) as refused:
            session.execute("SELECT dp_count('people', epsilon => 0.1, fresh => true)")
        assert refused.value.sqlstate == "DP001"
        assert spent(owner) == before
