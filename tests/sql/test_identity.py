"""Who asks, and what his session can change: nothing (facade-and-channel.md §2.2, §2.6, §3; composition.md §10.1)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

import fix_chance
from fix_cluster import PASSWORD, Cluster, private_cluster, standard
from fix_ledger import balanced, count, make, no_charge, one, refused

ASK = "SELECT dp.dp_count('people', epsilon => 0.001, fresh => true)"
LAST = "SELECT who FROM dp.ledger ORDER BY seq DESC LIMIT 1"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with private_cluster() as running:
        standard(running)
        yield running
        balanced(running)


def payer(cluster: Cluster) -> str:
    with cluster.connect() as root:
        return str(one(root, LAST))


def test_set_role_changes_nothing(cluster: Cluster) -> None:
    """session_user, never current_user: a role taken on for a statement does not pay."""
    cluster.psql("CREATE ROLE team; GRANT team TO alice; CALL dp.allot('team', 'people', epsilon => 1)")
    with cluster.connect("alice") as alice:
        alice.execute("SET ROLE team")
        with refused("42501", hint=False):
            alice.execute(ASK)
    cluster.psql("GRANT dp_analyst TO team")
    with cluster.connect("alice") as alice:
        alice.execute("SET ROLE team")
        alice.execute(ASK)
    assert payer(cluster) == "alice"


SPOOFS = [
    "SET dp.analyst = 'bob'",
    "SELECT set_config('dp.analyst', 'bob', false)",
    "SET SESSION \"dp.analyst\" TO 'bob'",
    "SET LOCAL dp.analyst = 'bob'",
]


@pytest.mark.parametrize("spoof", SPOOFS)
def test_dp_analyst_is_believed_of_nobody_but_the_gateway(cluster: Cluster, spoof: str) -> None:
    with cluster.connect("alice", autocommit=False) as alice:
        alice.execute(spoof)
        alice.execute(ASK)
    assert payer(cluster) == "alice"


def test_dp_analyst_at_startup_is_not_believed_either(cluster: Cluster) -> None:
    with cluster.connect("alice", options="-c dp.analyst=bob") as alice:
        assert one(alice, "SHOW dp.analyst") == "bob"
        alice.execute(ASK)
    assert payer(cluster) == "alice"


@pytest.mark.parametrize(
    "statement",
    [
        "SET ROLE dp_gateway",
        "SET ROLE dp_owner",
        "SET ROLE bob",
        "SET SESSION AUTHORIZATION bob",
        "SET SESSION AUTHORIZATION dp_gateway",
        "SELECT set_config('role', 'dp_gateway', false)",
        "SELECT set_config('session_authorization', 'bob', false)",
        "DO $$ BEGIN PERFORM set_config('role', 'dp_owner', false); END $$",
        "ALTER ROLE dp_gateway SET dp.analyst = 'bob'",
    ],
)
def test_nobody_becomes_another(cluster: Cluster, statement: str) -> None:
    with cluster.connect("alice") as alice, no_charge(cluster), refused("42501", hint=False):
        alice.execute(statement)


def test_a_function_of_another_role_does_not_lend_its_name(cluster: Cluster) -> None:
    """SECURITY DEFINER changes current_user only: whoever calls pays."""
    cluster.psql(
        f"CREATE FUNCTION lend() RETURNS bigint LANGUAGE sql VOLATILE SECURITY DEFINER AS $f$ {ASK} $f$;"
        "ALTER FUNCTION lend() OWNER TO bob; GRANT EXECUTE ON FUNCTION lend() TO PUBLIC"
    )
    with cluster.connect("alice") as alice:
        alice.execute("SELECT lend()")
    assert payer(cluster) == "alice"


# the gateway -----------------------------------------------------------------------------------------------------


def test_the_gateway_asks_for_the_analyst_that_it_names(cluster: Cluster) -> None:
    with cluster.connect("dp_gateway", autocommit=False) as gateway:
        gateway.execute("SELECT set_config('dp.analyst', 'bob', true)")
        gateway.execute(ASK)
        gateway.commit()
        assert payer(cluster) == "bob"
        assert one(gateway, "SELECT count(*) FROM dp.budget") == 0
        gateway.rollback()
        gateway.execute("SELECT set_config('dp.analyst', 'alice', true)")
        assert one(gateway, "SELECT count(*) FROM dp.budget") == 2


def test_the_gateway_without_a_name_is_nobody(cluster: Cluster) -> None:
    with cluster.connect("dp_gateway") as gateway, no_charge(cluster):
        with refused("42501", "nobody"):
            gateway.execute(ASK)
        gateway.execute("SET dp.analyst = ''")
        with refused("42501", "nobody"):
            gateway.execute(ASK)
        for name in ("dp_gateway", "boss", "nobody such", "dp_owner"):
            gateway.execute("SELECT set_config('dp.analyst', %s, false)", [name])
            with refused("42501", "not an analyst"):
                gateway.execute(ASK)


def test_a_role_setting_of_the_gateway_would_be_believed(cluster: Cluster) -> None:
    """Why the proxy checks at pool start that dp.analyst is empty outside a transaction (facade-and-channel.md §3)."""
    cluster.psql("ALTER ROLE dp_gateway SET dp.analyst = 'bob'")
    try:
        with cluster.connect("dp_gateway") as gateway:
            assert one(gateway, "SELECT current_setting('dp.analyst', true)") == "bob"
            gateway.execute(ASK)
        assert payer(cluster) == "bob"
    finally:
        cluster.psql("ALTER ROLE dp_gateway RESET dp.analyst")


def test_an_analyst_who_lost_his_rights_is_refused_at_once(cluster: Cluster) -> None:
    """Authorised on the policy of now, whatever snapshot the caller's transaction holds."""
    with cluster.connect("bob", autocommit=False) as bob:
        bob.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        bob.execute(ASK)
        cluster.psql("REVOKE dp_analyst FROM bob")
        try:
            with no_charge(cluster), refused("42501", "not an analyst"):
                bob.execute(ASK)
        finally:
            cluster.psql("GRANT dp_analyst TO bob")


@pytest.mark.parametrize(
    "name", ["O'Neill", 'say "hi"', "Ünïcødé 人", "back\\slash", "semi;colon --", "UPPER", "$$ %s {}"]
)
def test_role_names_may_hold_any_character(cluster: Cluster, name: str) -> None:
    with cluster.connect() as root:
        role = sql.Identifier(name)
        root.execute(sql.SQL("CREATE ROLE {} LOGIN").format(role))
        root.execute(sql.SQL("GRANT dp_analyst TO {}").format(role))
        root.execute("CALL dp.allot(%s, 'people', epsilon => 1)", [name])
    with cluster.connect(name) as conn:
        conn.execute(ASK)
        assert one(conn, "SELECT who FROM dp.spending WHERE who IS NOT NULL") == name
    assert payer(cluster) == name
    with cluster.connect("dp_gateway") as gateway:
        gateway.execute("SELECT set_config('dp.analyst', %s, false)", [name])
        gateway.execute(ASK)
    assert payer(cluster) == name


# settings of the caller ------------------------------------------------------------------------------------------

SETTINGS = [
    "SET timezone = 'Asia/Tokyo'; SET datestyle = 'German'; SET intervalstyle = 'sql_standard'",
    "SET extra_float_digits = -15; SET bytea_output = 'escape'; SET xmloption = 'document'",
    "SET enable_seqscan = off; SET enable_indexscan = off; SET work_mem = '64kB'; SET jit = on; SET jit_above_cost = 0",
    "SET search_path = pg_temp, public; SET client_encoding = 'LATIN1'; SET standard_conforming_strings = off",
    "SET row_security = off; SET lock_timeout = '1ms'; SET idle_in_transaction_session_timeout = '1h'",
    "SET lc_numeric = 'C'; SET force_parallel_mode = regress",
    "SET plan_cache_mode = force_generic_plan; SET default_transaction_isolation = 'serializable'",
    "SET client_min_messages = debug5; SET debug_print_plan = on; SET debug_print_parse = on; SET log_duration = on",
]


@pytest.fixture(scope="module")
def _sure(cluster: Cluster) -> None:
    """A dataset where noise is nil: DLap(1/40)."""
    make(cluster, "sure", ", f float8, d date", epsilon="1000", allot="1000")
    cluster.psql("CALL dp.describe_column('sure', 'f'); CALL dp.describe_column('sure', 'd')", user="boss")
    cluster.psql("UPDATE sure SET f = id / 10.0, d = date '2024-01-01' + id")


@pytest.mark.chance(fix_chance.laplace(1 / 40, 0))
@pytest.mark.usefixtures("_sure")
@pytest.mark.parametrize("settings", SETTINGS)
def test_settings_of_the_caller_change_no_answer_and_no_charge(cluster: Cluster, settings: str) -> None:
    with cluster.connect("alice", options="-c client_min_messages=warning") as alice, cluster.connect() as root:
        skip = ("log_duration", "force_parallel_mode") if alice.info.server_version >= 160000 else ("log_duration",)
        for setting in settings.split("; "):
            if not any(name in setting for name in skip):
                alice.execute(setting)
        predicate = "f > 0.3 AND d < date '2024-01-31'"
        assert count(alice, table="public.sure", epsilon=40, predicate=predicate) == 26
        charge = root.execute("SELECT charge, mechanism, epsilon FROM dp.ledger ORDER BY seq DESC LIMIT 1").fetchone()
        assert charge == ([{"kind": "laplace", "epsilon": "40"}], "discrete Laplace", 40)


SHADOWS = """
CREATE FUNCTION pg_temp.gen_random_uuid() RETURNS uuid LANGUAGE sql AS $$ SELECT NULL::uuid $$;
CREATE FUNCTION pg_temp._who() RETURNS name LANGUAGE sql AS $$ SELECT 'bob'::name $$;
CREATE FUNCTION pg_temp.current_setting(text, boolean) RETURNS text LANGUAGE sql AS $$ SELECT 'bob' $$;
CREATE FUNCTION pg_temp.format(text, VARIADIC "any") RETURNS text LANGUAGE internal AS 'text_format';
CREATE FUNCTION pg_temp.lt(integer, integer) RETURNS boolean LANGUAGE sql AS $$ SELECT true $$;
CREATE OPERATOR pg_temp.< (LEFTARG = integer, RIGHTARG = integer, FUNCTION = pg_temp.lt);
CREATE DOMAIN pg_temp.int4 AS text; CREATE DOMAIN pg_temp.uuid AS text; CREATE DOMAIN pg_temp.jsonb AS text;
CREATE TEMP TABLE people (id int, age int); CREATE TEMP TABLE ledger (seq int); CREATE TEMP TABLE pg_class (oid oid);
"""


@pytest.mark.usefixtures("_sure")
def test_shadowing_objects_in_pg_temp_change_nothing(cluster: Cluster) -> None:
    with cluster.connect("alice") as alice:
        for statement in SHADOWS.strip().split(";\n"):
            try:
                alice.execute(statement)
            except psycopg.errors.InsufficientPrivilege:  # LANGUAGE internal is not for everybody
                continue
        alice.execute("SET search_path = pg_temp, pg_catalog, public")
        assert count(alice, table="public.sure", epsilon=40, predicate="id < 11") == 10
        assert payer(cluster) == "alice"
        with no_charge(cluster), refused("42501", "not a published relation"):
            alice.execute("SELECT dp.dp_count('people', epsilon => 0.1)")


def test_no_plan_is_printed_to_a_caller_who_asks_for_it(cluster: Cluster) -> None:
    """debug_print_* with client_min_messages = log would print inner plan trees (facade-and-channel.md §2.2)."""
    with cluster.connect("alice") as alice:
        heard: list[str] = []
        alice.add_notice_handler(lambda diagnostic: heard.append(str(diagnostic.message_primary)))
        alice.execute("SET client_min_messages = log; SET debug_print_plan = on; SET debug_print_rewritten = on")
        heard.clear()
        alice.execute(ASK)
        shown = "\n".join(heard)
    assert "rewritten parse tree" in shown or "plan" in shown, "the caller's own statement is his to see"
    assert "DECLARE" not in shown
    assert "_charge" not in shown
    assert not re.search(r"\bledger\b", shown)


XACT = """
SELECT relname::text, pg_stat_get_xact_tuples_returned(c.oid), pg_stat_get_xact_numscans(c.oid) FROM pg_class c
WHERE relname IN ('people', 'people_pkey')
"""


def test_the_callers_own_counters_and_explain_know_no_row(cluster: Cluster) -> None:
    """The same on two data sets, even for a superuser: another backend reads the rows (composition.md §10.1)."""

    def seen() -> list[Any]:
        with cluster.connect(autocommit=False) as root:
            root.execute("SET LOCAL SESSION AUTHORIZATION alice")
            plan = root.execute(f"EXPLAIN (ANALYZE, BUFFERS, TIMING off, SUMMARY off) {ASK}").fetchall()
            root.execute("RESET SESSION AUTHORIZATION")
            counters = root.execute(XACT).fetchall()
            root.rollback()
        lines = [line for (line,) in plan if "Buffers" not in line and "Planning" not in line]
        return [lines, counters]

    seen()
    before = seen()
    cluster.psql("INSERT INTO people SELECT i, 30, 'f', 'north' FROM generate_series(2001, 42000) i; ANALYZE people")
    try:
        assert seen() == before
        assert all(returned == 0 and scans == 0 for _, returned, scans in before[1])
        with cluster.connect("alice") as alice:
            for function in ("pg_stat_get_xact_tuples_returned", "pg_stat_get_live_tuples", "pg_relation_size"):
                with refused("42501", hint=False):
                    alice.execute(f"SELECT {function}('people'::regclass)")
    finally:
        cluster.psql("DELETE FROM people WHERE id > 2000")


def test_passwords_are_wanted_over_tcp(cluster: Cluster) -> None:
    """The harness itself: a login over TCP really is SCRAM, as the channel's must be (2F003 otherwise)."""
    with cluster.connect("alice", tcp=True) as alice:
        assert alice.pgconn.used_password
        assert PASSWORD
        alice.execute(ASK)
