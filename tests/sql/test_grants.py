"""A walk over schema dp: owners, search_path, grants, comments, roles, the verifier (facade-and-channel.md §1, §3)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fix_cluster import PASSWORD, Cluster, standard_cluster
from fix_ledger import one, refused

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import sql_functions  # noqa: E402

# Only the relation's owner or a superuser can do what these do, so they run as the caller; each checks him itself.
INVOKERS = {
    "protect": "only the owner can GRANT SELECT to dp_owner and make the trigger on the partition key",
    "publish": "only the owner can GRANT SELECT to dp_reader",
    "unpublish": "only the owner can REVOKE it",
    "register_synthetic": "only the owner can GRANT SELECT to dp_reader and dp_owner",
    "unregister_synthetic": "only the owner can REVOKE it",
    "_charge_and_answer": "PostgreSQL lets no other procedure end a transaction; the channel's login alone may call it",
    "make_synthetic": "the table that it makes belongs to its caller",
    "enable_turbo": "only the owner can make the trigger on sealed partitions",
    "disable_turbo": "only the owner can drop it",
    "seal_partition": "only the owner can hold back writers, and make the trigger anew",
    "seal_partitions": "the same",
    "reopen_partition": "the same",
    "retain": "only the owner can remove rows, or drop chunks and partitions",
    "_hold_writers": "the same as for seals",
    "_partition_key_immutable": "compares two rows of a table whose types' casts are its owner's code",
    "repair_channel": "makes a server and a password: a superuser's",
    "harden_catalog": "revokes on pg_catalog: a superuser's",
    "before_pg_upgrade": "grants on pg_catalog: a superuser's",
    "unharden_catalog": "grants on pg_catalog: a superuser's",
    "_close_extensions": "grants what another extension owns: a superuser's",
    "_harden_extensions": "does the same for who makes or updates an extension, if he is a superuser",
}
CALLS = {
    "dp_count",
    "dp_group_by",
    "dp_sum",
    "dp_sum_r2t",
    "dp_avg",
    "dp_median",
    "dp_quantile",
    "dp_variance",
    "dp_stddev",
    "dp_estimate",
    "dp_decide",
    "dp_decide_detail",
    "dp_bound",
    *(one.name for one in sql_functions.read(ROOT / "sql")),
}
DRAWS = {"_charge", "_answer", "_turbo", "_turbo_reply", "dp_query", *CALLS}
ANALYSTS = {
    "dp_query",
    "grid",
    "session_settings",
    "relation_ref",
    "joins_ref",
    "budget_ref",
    "dp_plan",
    "dp_decide_plan",
    "dp_decide_plan_request",
    "dp_decide_plan_result",
    "dp_budget_left",
    "dp_request_of",
    "dp_shown",
    "dp_low",
    "dp_high",
    "dp_stderr",
    "dp_decision",
    "_budget",
    "_spending",
    "_last_answer",
    "_published",
    "_cache_status",
    "_strategies",
    "_families",
    "_release_answers_of",
    "_turbo_views",
    *(name + suffix for name in CALLS for suffix in ("", "_request", "_result")),
}
ROUTINES = "pg_proc p WHERE p.pronamespace = 'dp'::regnamespace"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with standard_cluster() as running:
        yield running


def column(cluster: Cluster, sql: str) -> list[str]:
    with cluster.connect() as conn:
        return [row[0] for row in conn.execute(sql).fetchall()]


def test_every_function_is_security_definer(cluster: Cluster) -> None:
    assert column(cluster, f"SELECT proname FROM {ROUTINES} AND NOT prosecdef ORDER BY 1") == sorted(INVOKERS)


def test_every_function_has_a_fixed_search_path(cluster: Cluster) -> None:
    sql = f"SELECT proname FROM {ROUTINES} AND NOT COALESCE('search_path=pg_catalog, pg_temp' = ANY (proconfig), false)"
    assert column(cluster, sql) == ["_charge_and_answer"], "which cannot: it ends a transaction"
    with cluster.connect() as root:
        mapped = root.execute(
            "SELECT array_to_string(srvoptions, ' ') FROM pg_foreign_server WHERE srvname = 'dp_ledger'"
        )
        assert "-c search_path=pg_catalog " in mapped.fetchone()[0], (
            "the only session that calls it has none of its own"
        )


def test_no_function_is_executable_by_public(cluster: Cluster) -> None:
    sql = f"""SELECT proname FROM {ROUTINES} AND EXISTS (
      SELECT FROM aclexplode(COALESCE(p.proacl, acldefault('f', p.proowner))) a WHERE a.grantee = 0)"""
    assert column(cluster, sql) == []


def test_every_object_has_a_comment(cluster: Cluster) -> None:
    assert column(cluster, f"SELECT proname FROM {ROUTINES} AND obj_description(p.oid, 'pg_proc') IS NULL") == []
    sql = """SELECT relname FROM pg_class c WHERE relnamespace = 'dp'::regnamespace AND relkind IN ('r', 'v')
             AND obj_description(c.oid, 'pg_class') IS NULL"""
    assert column(cluster, sql) == []
    assert column(cluster, "SELECT obj_description('dp'::regnamespace, 'pg_namespace')") != [None]


def test_owners(cluster: Cluster) -> None:
    assert column(cluster, f"SELECT proname FROM {ROUTINES} AND proowner <> 'dp_owner'::regrole") == ["verifier"]
    assert column(cluster, f"SELECT proowner::regrole::text FROM {ROUTINES} AND proname = 'verifier'") == ["dp_auth"]
    sql = """SELECT relname FROM pg_class c WHERE relnamespace = 'dp'::regnamespace AND relkind IN ('r', 'v')
             AND relowner <> 'dp_owner'::regrole"""
    assert column(cluster, sql) == []


def test_what_draws_noise_is_volatile(cluster: Cluster) -> None:
    found = column(cluster, f"SELECT proname FROM {ROUTINES} AND provolatile = 'v' AND proparallel = 'u'")
    assert set(found) >= DRAWS
    assert column(cluster, f"SELECT proname FROM {ROUTINES} AND proparallel <> 'u'") == []


def test_what_an_analyst_may_execute(cluster: Cluster) -> None:
    sql = f"SELECT proname FROM {ROUTINES} AND has_function_privilege('alice', p.oid, 'EXECUTE')"
    assert set(column(cluster, sql)) == ANALYSTS


BOUND = """
[[function]]
name = "dp_bound"
parameters = [
  "relation regclass", "argument text", "predicate text DEFAULT NULL", "epsilon double precision DEFAULT NULL",
  "theta numeric DEFAULT NULL", "upper double precision DEFAULT NULL", "resolution double precision DEFAULT NULL",
  "fresh boolean DEFAULT false", "aliases name[] DEFAULT NULL",
]
request = \"\"\"
'from', dp.relation_ref(relation, aliases[1]), 'joins', '[]'::jsonb, 'where', predicate, 'keys', '[]'::jsonb,
'aggregates', jsonb_build_array(jsonb_build_object('function', 'bound', 'argument', argument, 'name', 'bound',
  'parameters', jsonb_strip_nulls(jsonb_build_object('theta', theta::text, 'upper', upper::text, 'resolution', resolution::text)))),
'budget', dp.budget_ref(epsilon, NULL, NULL, NULL), 'mechanism', 'auto', 'fresh', fresh
\"\"\"
returns = "numeric"
comment = "As said."
"""  # noqa: E501


def test_a_row_of_the_table_makes_what_was_written_by_hand(cluster: Cluster) -> None:
    """dp_bound as a row is the three functions of sql/60_public: definitions and grants."""
    sql = sql_functions.script(sql_functions.table(BOUND.replace("dp_bound", "dp_limit")))
    told = """SELECT regexp_replace(replace(pg_get_functiondef(p.oid), 'limit', 'bound'), '\\s+', ' ', 'g'),
                     ARRAY(SELECT grantee::regrole::text FROM aclexplode(proacl)
                            WHERE grantee <> proowner ORDER BY grantee::regrole::text),
                     regexp_replace(obj_description(p.oid), 'limit|bound', '')
                FROM pg_proc p WHERE pronamespace = 'dp'::regnamespace AND proname LIKE 'dp\\_{}%' ORDER BY proname"""
    with cluster.connect(autocommit=False) as root:
        root.execute(sql.encode())
        by_hand, generated = (root.execute(told.format(name).encode()).fetchall() for name in ("bound", "limit"))
        root.rollback()
    assert [row[:2] for row in generated] == [row[:2] for row in by_hand]
    assert [row[2] for row in generated[1:]] == [row[2] for row in by_hand[1:]]
    assert generated[0][2] == "As said."
    assert by_hand[0][1] == ["dp_analyst", "dp_gateway"]


def test_entry_functions_pin_what_would_speak(cluster: Cluster) -> None:
    """client_min_messages and debug_print_* of the caller would show inner plans (facade-and-channel.md §2.6)."""
    pinned = [
        "client_min_messages=notice",
        "debug_print_plan=off",
        "debug_print_parse=off",
        "debug_print_rewritten=off",
    ]
    config = column(cluster, f"SELECT unnest(proconfig) FROM {ROUTINES} AND proname = 'dp_query'")
    assert set(pinned) <= set(config)


VIEWS = ["budget", "cache_status", "families", "last_answer", "published"]
VIEWS += ["release_answers", "spending", "strategies", "turbo"]


@pytest.mark.parametrize(
    "role", ["alice", "dp_gateway", "dp_reader", "dp_facade", "dp_channel", "dp_planner", "dp_auth"]
)
def test_no_table_is_readable_but_the_views(cluster: Cluster, role: str) -> None:
    sql = f"""SELECT relname FROM pg_class c WHERE relnamespace = 'dp'::regnamespace AND relkind IN ('r', 'v', 'S')
      AND ((relkind <> 'S' AND (has_any_column_privilege('{role}', c.oid, 'SELECT, INSERT, UPDATE, REFERENCES')
            OR has_table_privilege('{role}', c.oid, 'DELETE, TRUNCATE, TRIGGER')))
        OR (relkind = 'S' AND has_sequence_privilege('{role}', c.oid, 'USAGE, SELECT, UPDATE'))) ORDER BY 1"""
    assert column(cluster, sql) == (VIEWS if role in ("alice", "dp_gateway") else [])


def test_nobody_may_create_in_our_schemas(cluster: Cluster) -> None:
    sql = """SELECT r.rolname || ' ' || s FROM pg_roles r, unnest(ARRAY['dp', 'dp_link', 'public']) s
      WHERE NOT r.rolsuper AND r.rolname NOT IN ('boss', 'pg_database_owner')
        AND has_schema_privilege(r.oid, s, 'CREATE')"""
    assert column(cluster, sql) == []
    sql = """SELECT rolname FROM pg_roles r WHERE NOT rolsuper AND has_schema_privilege(oid, 'dp_link', 'USAGE')
      AND rolname !~ '^pg_(read|write)_all_data'"""
    assert column(cluster, sql) == ["dp_owner"]


ATTRIBUTES = {  # login, inherit, groups
    "dp_owner": (False, True, ["dp_timescaledb"]),
    "dp_channel": (False, True, []),
    "dp_auth": (False, True, []),
    "dp_gateway": (True, True, ["dp_facade"]),
    "dp_admin": (False, True, ["dp_timescaledb"]),
    "dp_planner": (False, True, []),
    "dp_reader": (True, True, []),
    "dp_facade": (False, True, []),
    "dp_timescaledb": (False, True, []),
    "dp_analyst": (False, True, []),
}


@pytest.mark.parametrize("role", ATTRIBUTES)
def test_roles(cluster: Cluster, role: str) -> None:
    with cluster.connect() as conn:
        row = conn.execute(
            "SELECT rolcanlogin, rolinherit, ARRAY(SELECT g.rolname::text FROM pg_auth_members m JOIN pg_roles g"
            " ON g.oid = m.roleid WHERE m.member = r.oid ORDER BY 1),"
            " rolsuper OR rolbypassrls OR rolcreaterole OR rolcreatedb OR rolreplication, rolconnlimit,"
            " shobj_description(r.oid, 'pg_authid') FROM pg_roles r WHERE rolname = %s",
            [role],
        ).fetchone()
    assert row is not None
    assert tuple(row[:3]) == ATTRIBUTES[role]
    assert row[3] is False
    assert row[4] == -1
    assert row[5].startswith("pg_epsilon: ")


def test_the_install_script_can_run_again(cluster: Cluster) -> None:
    folder = cluster.paths.destdir / f"usr/share/postgresql/{cluster.paths.pg_version}/extension"
    cluster.psql((folder / "pg_epsilon_install.sql").read_text())
    with cluster.connect("alice") as alice:
        alice.execute("SELECT dp.dp_count('people')")


def test_other_databases_are_closed_to_the_channel(cluster: Cluster) -> None:
    cluster.execute("REVOKE CONNECT ON DATABASE postgres FROM PUBLIC", dbname="postgres")
    login = cluster.channel()
    sql = f"SELECT datname FROM pg_database WHERE datallowconn AND has_database_privilege('{login}', oid, 'CONNECT')"
    granted = f"SELECT datname FROM pg_database d, aclexplode(d.datacl) a WHERE a.grantee = '{login}'::regrole"
    groups = "SELECT datname FROM pg_database d, aclexplode(d.datacl) a WHERE a.grantee = 'dp_channel'::regrole"
    assert column(cluster, groups) == [], "a grant to the group would open it to every database's channel"
    assert "private" in column(cluster, sql)
    assert "postgres" not in column(cluster, sql)
    assert set(column(cluster, granted)) == {"private"}


# the verifier ----------------------------------------------------------------------------------------------------

SCRAM = "SELECT rolpassword FROM pg_authid WHERE rolname = 'v'"
NOT_SHOWN = {
    "not an analyst": "REVOKE dp_analyst FROM v",
    "NOLOGIN": "ALTER ROLE v NOLOGIN",
    "expired": "ALTER ROLE v VALID UNTIL '2020-01-01'",
    "superuser": "ALTER ROLE v SUPERUSER",
    "BYPASSRLS": "ALTER ROLE v BYPASSRLS",
    "CREATEROLE": "ALTER ROLE v CREATEROLE",
    "CREATEDB": "ALTER ROLE v CREATEDB",
    "REPLICATION": "ALTER ROLE v REPLICATION",
    "no password": "ALTER ROLE v PASSWORD NULL",
    "md5": "ALTER ROLE v PASSWORD 'md5d41d8cd98f00b204e9800998ecf8427e'",
    **{
        f"member of {g}": f"GRANT {g} TO v"
        for g in ("dp_owner", "dp_admin", "dp_gateway", "dp_channel", "dp_auth", "dp_facade", "dp_reader", "pg_monitor")
    },
    "member of a member": "CREATE ROLE between; GRANT pg_read_all_data TO between; GRANT between TO v",
}


@pytest.mark.parametrize("how", NOT_SHOWN)
def test_the_verifier_is_for_analysts_only(cluster: Cluster, how: str) -> None:
    with cluster.connect() as root, cluster.connect("dp_gateway") as gateway:
        root.execute(f"CREATE ROLE v LOGIN PASSWORD '{PASSWORD}' VALID UNTIL '2990-01-01'; GRANT dp_analyst TO v")
        try:
            shown = one(gateway, "SELECT dp.verifier('v')")
            assert shown == one(root, SCRAM)
            assert shown.startswith("SCRAM-SHA-256$")
            root.execute(NOT_SHOWN[how])
            assert one(gateway, "SELECT dp.verifier('v')") is None
        finally:
            root.execute("DROP ROLE v; DROP ROLE IF EXISTS between")


def test_the_verifier_is_for_the_gateway_only(cluster: Cluster) -> None:
    with cluster.connect("alice") as alice, refused("42501", hint=False):
        alice.execute("SELECT dp.verifier('bob')")
    with cluster.connect("dp_gateway") as gateway:
        assert one(gateway, "SELECT dp.verifier('nobody')") is None
        assert one(gateway, "SELECT dp.verifier(NULL)") is None
        with refused("42501", hint=False):
            gateway.execute("SELECT rolpassword FROM pg_authid")
    sql = f"SELECT grantee::regrole::text FROM {ROUTINES} AND proname = 'verifier'"
    sql = sql.replace("WHERE", "CROSS JOIN aclexplode(p.proacl) WHERE")
    assert sorted(column(cluster, sql)) == ["dp_auth", "dp_gateway"]
