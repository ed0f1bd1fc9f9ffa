"""Direct log-ins on the private database: the engine's functions, tables and columns that are nobody's business."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

from fix_stack import Stack

Connection = psycopg.Connection[Any]
# What analysts call has dp_ in its name; besides, what views and request functions call on their behalf.
OTHERS = {
    "_last_answer",
    "relation_ref",
    "joins_ref",
    "budget_ref",
    "grid",
    "session_settings",
    "_budget",
    "_spending",
    "_published",
    "_cache_status",
    "_turbo_views",
    "_strategies",
    "_families",
    "_release_answers_of",
}


@pytest.fixture
def owner(stack: Stack) -> Iterator[Connection]:
    with stack.cluster.connect() as connection:
        yield connection


def spent(owner: Connection) -> Any:
    """Ledger rows and all accounts."""
    return owner.execute(
        "SELECT (SELECT count(*) FROM dp.ledger), array_agg(a::text ORDER BY a::text) FROM dp.account a"
    ).fetchone()


def functions(owner: Connection, schema: str) -> list[tuple[str, str, str, list[str]]]:
    """Name, kind, signature and argument types of every function of a schema."""
    return owner.execute(
        """SELECT p.proname, p.prokind::text, p.oid::regprocedure::text,
             ARRAY(SELECT format_type(t, NULL) FROM unnest(p.proargtypes) WITH ORDINALITY u(t, n) ORDER BY n)
           FROM pg_proc p WHERE p.pronamespace = %s::regnamespace ORDER BY 3""",
        [schema],
    ).fetchall()


def test_every_function_of_dblink_is_closed(stack: Stack, owner: Connection) -> None:
    """A named connection belongs to the backend: whoever could call one function could use the channel."""
    found = functions(owner, "dp_link")
    assert len(found) >= 30
    with stack.cluster.connect("alice", tcp=True) as alice:
        for _, _, signature, types in found:
            arguments = ", ".join(f"NULL::{t}" for t in types)
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                alice.execute(f"SELECT {signature.partition('(')[0]}({arguments})".encode())
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                alice.execute(f"SELECT has_function_privilege('{signature}', 'EXECUTE')".encode())


def test_every_inner_function_of_the_engine_is_closed(stack: Stack, owner: Connection) -> None:
    found = functions(owner, "dp")
    assert {name for name, *_ in found} >= OTHERS | {"dp_query", "dp_plan", "dp_count", "dp_count_request"}
    with stack.cluster.connect("alice", tcp=True) as alice:
        for name, kind, signature, types in found:
            if name in OTHERS or name.startswith("dp_"):
                continue
            assert alice.execute("SELECT has_function_privilege(%s, 'EXECUTE')", [signature]).fetchone() == (False,), (
                signature
            )
            arguments = ", ".join(f"NULL::{t}" for t in types)
            verb = "CALL" if kind == "p" else "SELECT"
            with pytest.raises(psycopg.DatabaseError) as refused:
                alice.execute(f"{verb} dp.{name}({arguments})".encode())
            # a trigger function cannot be called by anybody
            assert refused.value.sqlstate in ("42501", "0A000"), signature


def test_every_table_of_the_engine_is_closed(stack: Stack, owner: Connection) -> None:
    tables = [
        row[0]
        for row in owner.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'dp'::regnamespace AND relkind = 'r'"
        )
    ]
    assert {"ledger", "account", "release", "dataset"} <= set(tables)
    with stack.cluster.connect("alice", tcp=True) as alice:
        for table in tables:
            name = sql.Identifier("dp", table)
            for pattern in (
                "TABLE {}",
                "SELECT count(*) FROM {}",
                "DELETE FROM {}",
                "INSERT INTO {} DEFAULT VALUES",
                "LOCK TABLE {}",
                "TRUNCATE {}",
            ):
                with pytest.raises(psycopg.errors.InsufficientPrivilege), alice.transaction():
                    alice.execute(sql.SQL(pattern).format(name))


def test_nothing_of_the_engine_is_open_to_the_world(owner: Connection) -> None:
    """No EXECUTE for PUBLIC on any function of ours, and each has its search_path fixed."""
    open_ones = owner.execute(
        """SELECT p.oid::regprocedure::text
           FROM pg_proc p, aclexplode(COALESCE(p.proacl, acldefault('f', p.proowner))) a
           WHERE p.pronamespace IN ('dp'::regnamespace, 'dp_link'::regnamespace) AND a.grantee = 0"""
    ).fetchall()
    assert open_ones == []
    loose = owner.execute(
        """SELECT p.oid::regprocedure::text FROM pg_proc p WHERE p.pronamespace = 'dp'::regnamespace
           AND NOT COALESCE(p.proconfig, '{}') && '{"search_path=pg_catalog, pg_temp"}'"""
    ).fetchall()
    # it ends a transaction, which PostgreSQL lets no procedure with a SET do; only the channel's login may call it
    assert loose == [("_charge_and_answer(uuid,text,jsonb,jsonb,jsonb)",)]


def test_an_analyst_without_allotment_hears_so_and_nothing_else(stack: Stack, owner: Connection) -> None:
    """Not even what others bought, nor prices: authorisation comes before the cache."""
    with stack.connect() as alice:
        alice.execute("SELECT count(*) FROM orders")
    before = spent(owner)
    questions = [
        "SELECT count(*) FROM orders",
        "SELECT DISTINCT status FROM orders",
        "EXPLAIN SELECT count(*) FROM orders",
        "SELECT dp_count('orders')",
        "SELECT * FROM dp_group_by('orders', '{status}')",
        "SELECT dp.dp_plan(dp.dp_count_request('orders'))",
        "SELECT dp_budget_left('shop')",
    ]
    with stack.connect("bob") as proxied, stack.cluster.connect("bob", tcp=True) as direct:
        for session, asked in ((proxied, questions), (direct, questions[3:])):
            for question in asked:
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    session.execute(question.encode())
            assert session.execute("SELECT count(*) FROM dp.budget WHERE dataset = 'shop'").fetchone() == (0,)
            assert session.execute("SELECT count(*) FROM dp.spending WHERE dataset = 'shop'").fetchone() == (0,)
            assert session.execute("SELECT count(*) FROM dp.cache_status WHERE relation ~ 'orders'").fetchone() == (0,)
    assert spent(owner) == before


def test_columns_that_are_not_published_do_not_exist(stack: Stack, owner: Connection) -> None:
    """Neither in a block nor in a call's predicate, key or argument, although the owner declared them."""
    stack.cluster.psql(
        """CREATE TABLE ward (id int, age int, ward int, diagnosis text);
        CALL dp.create_dataset('ward', epsilon => 5, default_epsilon => 0.5); CALL dp.protect('ward', 'ward');
        CALL dp.describe_column('ward', 'age', bounds => '{0,90}', resolution => '1');
        CALL dp.describe_column('ward', 'diagnosis', domain => '{hiv,flu}');
        CALL dp.publish('ward', columns => '{age}'); CALL dp.allot('alice', 'ward', epsilon => 5);""",
        user="boss",
    )
    before = spent(owner)
    request = "dp.dp_query(dp.dp_count_request('ward') || jsonb_build_object('aggregates', ARRAY['count(diagnosis)']))"
    with stack.cluster.connect("alice", tcp=True) as direct:
        for question in (
            "SELECT dp_count('ward', $$diagnosis = 'hiv'$$)",
            "SELECT * FROM dp_group_by('ward', '{diagnosis}')",
            "SELECT * FROM dp_group_by('ward', '{age}', ARRAY[$$count(*) FILTER (WHERE diagnosis = 'hiv')$$])",
            f"SELECT {request}",
            "SELECT dp.dp_plan(dp.dp_count_request('ward', $$diagnosis = 'hiv'$$))",
        ):
            with pytest.raises(psycopg.DatabaseError) as refused:
                direct.execute(question.encode())
            assert refused.value.sqlstate in ("42703", "DP004"), question
    assert spent(owner) == before
