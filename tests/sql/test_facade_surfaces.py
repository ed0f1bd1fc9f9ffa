"""Cluster-wide surfaces are closed on the facade (facade-and-channel.md §5), and ordinary work goes on.

Each is tried by an analyst in a database that nobody prepared, where it speaks, and on the facade, where it is refused.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

if TYPE_CHECKING:
    from fix_facade import FacadeCluster

pytest_plugins = ["fix_facade"]

SURFACES = """
SELECT pg_database_size('postgres')
SELECT pg_tablespace_size('pg_default')
SELECT * FROM pg_stat_database
SELECT * FROM pg_stat_database_conflicts
SELECT pg_stat_get_db_tuples_returned((SELECT oid FROM pg_database WHERE datname = 'private'))
SELECT * FROM pg_stat_activity
SELECT * FROM pg_stat_replication
SELECT * FROM pg_stat_ssl
SELECT * FROM pg_stat_wal
SELECT * FROM pg_stat_bgwriter
SELECT * FROM pg_stat_slru
SELECT * FROM pg_stat_archiver
SELECT * FROM pg_stat_subscription
SELECT * FROM pg_stat_get_replication_slot('x')
SELECT * FROM pg_stat_wal_receiver
SELECT * FROM pg_stat_recovery_prefetch
SELECT * FROM pg_stat_progress_vacuum
SELECT * FROM pg_stat_progress_create_index
SELECT pg_stat_get_backend_idset()
SELECT pg_stat_get_backend_activity(1)
SELECT pg_stat_have_stats('database', (SELECT oid FROM pg_database WHERE datname = 'private'), 0)
SELECT * FROM pg_locks
SELECT pg_blocking_pids(1)
SELECT pg_safe_snapshot_blocking_pids(1)
SELECT * FROM pg_prepared_xacts
SELECT pg_export_snapshot()
SELECT * FROM pg_get_replication_slots()
SELECT pg_current_wal_lsn()
SELECT pg_current_wal_insert_lsn()
SELECT pg_current_wal_flush_lsn()
SELECT pg_last_wal_receive_lsn()
SELECT pg_last_wal_replay_lsn()
SELECT pg_relation_filepath('pg_class')
SELECT * FROM pg_control_system()
SELECT * FROM pg_control_checkpoint()
SELECT * FROM pg_control_recovery()
SELECT * FROM pg_control_init()
SELECT pg_xact_commit_timestamp('3')
SELECT pg_last_committed_xact()
SELECT pg_notification_queue_usage()
SELECT pg_terminate_backend(0)
SELECT pg_cancel_backend(0)
SELECT pg_logical_emit_message(false, 'a', 'b')
SELECT lo_create(0)
SELECT lo_from_bytea(0, 'x')
SELECT lo_open(1, 1)
SELECT loread(0, 1)
SELECT lowrite(0, 'x')
SELECT lo_unlink(1)
SELECT * FROM pg_shdepend
SELECT * FROM pg_db_role_setting
SELECT setconfig FROM pg_db_role_setting
SELECT * FROM pg_largeobject_metadata
""".strip().splitlines()

FACADE_ONLY = """
CREATE TABLE public.t (n int)
CREATE TABLE clinic.t (n int)
CREATE SCHEMA s
CREATE EXTENSION pg_trgm
CREATE FUNCTION dp.f() RETURNS int LANGUAGE sql AS 'SELECT 1'
CREATE FUNCTION pg_temp.f() RETURNS int LANGUAGE c AS 'f'
ALTER DATABASE facade SET dp.epsilon = '9'
SELECT pg_read_file('PG_VERSION')
SELECT pg_ls_waldir()
SELECT * FROM pg_authid
SELECT * FROM pg_config
SELECT * FROM dp_link.postgres_fdw_get_connections()
COPY (SELECT 1) TO PROGRAM 'true'
""".strip().splitlines()

ORDINARY = """
CREATE TEMP TABLE t (n int) ON COMMIT DROP
SELECT txid_current()
LISTEN a
NOTIFY a
SET work_mem = '8MB'
SELECT pg_backend_pid()
SELECT * FROM pg_settings
SELECT * FROM pg_stat_user_tables
SELECT pg_advisory_lock(1)
DO 'BEGIN PERFORM 1; END'
SELECT version(), current_database(), current_schemas(true), inet_server_port()
SELECT rolname FROM pg_roles
SELECT datname FROM pg_database
PREPARE s AS SELECT 1
EXPLAIN ANALYZE SELECT 1
""".strip().splitlines()


def sqlstate(connection: psycopg.Connection[Any], sql: str) -> str | None:
    try:
        connection.execute(sql)
    except psycopg.Error as error:
        return error.sqlstate
    return None


@pytest.fixture(scope="module")
def open_cluster(facade_cluster: FacadeCluster) -> Iterator[FacadeCluster]:
    """With a database `plain` made as the facade is, but not prepared."""
    with facade_cluster.psycopg("postgres") as root:
        root.execute("CREATE DATABASE plain TEMPLATE template0")
        yield facade_cluster
        root.execute("DROP DATABASE plain WITH (FORCE)")


@pytest.mark.parametrize("sql", SURFACES)
def test_surface_speaks_elsewhere_and_is_refused_here(open_cluster: FacadeCluster, sql: str) -> None:
    with open_cluster.psycopg("plain", "alice") as before, open_cluster.psycopg("facade", "alice") as after:
        state = sqlstate(before, sql)
        # A stock server closes this one itself.
        assert state != "42501" or "pg_stat_have_stats" in sql
        assert sqlstate(after, sql) == "42501"


@pytest.mark.parametrize("sql", FACADE_ONLY)
def test_refused_on_the_facade(facade_cluster: FacadeCluster, sql: str) -> None:
    with facade_cluster.psycopg("facade", "alice") as after:
        assert sqlstate(after, sql) == "42501"


@pytest.mark.parametrize("sql", ORDINARY)
def test_ordinary_work_goes_on(facade_cluster: FacadeCluster, sql: str) -> None:
    with facade_cluster.psycopg("facade", "alice") as after:
        assert sqlstate(after, sql) is None


def test_copy_into_a_temp_table(analyst: psycopg.Connection[Any]) -> None:
    analyst.execute("CREATE TEMP TABLE t (n int)")
    with analyst.cursor() as cursor, cursor.copy("COPY t FROM STDIN") as copy:
        copy.write_row((7,))
    assert analyst.execute("SELECT sum(n) FROM t").fetchone() == (7,)


def test_every_function_on_the_list_is_closed(facade_cluster: FacadeCluster) -> None:
    """The statements above name some; the list goes by patterns, which another major version may match differently."""
    with facade_cluster.psycopg("facade") as root:
        assert root.execute("SELECT * FROM dp.open_surfaces()").fetchall() == []
        closed = root.execute(
            "SELECT count(*) FROM pg_proc "
            "WHERE pronamespace = 11 AND NOT has_function_privilege('public', oid, 'EXECUTE')"
        ).fetchone()
    with facade_cluster.psycopg("postgres") as root:
        stock = root.execute(
            "SELECT count(*) FROM pg_proc "
            "WHERE pronamespace = 11 AND NOT has_function_privilege('public', oid, 'EXECUTE')"
        ).fetchone()
    assert closed is not None and stock is not None
    assert closed[0] - stock[0] > 60


def test_who_may_connect(facade_cluster: FacadeCluster) -> None:
    with facade_cluster.psycopg("postgres") as root:
        root.execute("CREATE ROLE nobody_special LOGIN")
        for role, private, shown in (
            ("alice", False, True),
            ("nobody_special", False, False),
            ("dp_gateway", True, True),
            ("dp_reader", True, False),
            ("dp_channel", False, False),
        ):
            row = root.execute(
                "SELECT has_database_privilege(%s, 'private', 'CONNECT'), "
                "has_database_privilege(%s, 'facade', 'CONNECT')",
                (role, role),
            ).fetchone()
            assert row == (private, shown), role
        root.execute("DROP ROLE nobody_special")
    with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
        facade_cluster.psycopg("private", "alice")


def test_connection_limit(facade_cluster: FacadeCluster) -> None:
    with facade_cluster.psycopg("facade") as root:
        row = root.execute("SELECT datconnlimit FROM pg_database WHERE datname = current_database()").fetchone()
    assert row == (100,)


def test_the_reader_reads_public_tables_and_nothing_else(facade_cluster: FacadeCluster) -> None:
    with facade_cluster.psycopg("private", "dp_reader") as reader:
        assert sqlstate(reader, "SELECT * FROM clinic.region") is None
        for table in ("clinic.visit", "clinic.hidden", "dp.publication"):
            assert sqlstate(reader, f"SELECT * FROM {table}") == "42501"


def psql(cluster: FacadeCluster, command: str) -> subprocess.CompletedProcess[str]:
    arguments = [
        str(cluster.server.paths.bindir / "psql"),
        "-X",
        "-v",
        "ON_ERROR_STOP=1",
        "-d",
        cluster.dsn("facade", "alice"),
        "-c",
        command,
    ]
    return subprocess.run(arguments, capture_output=True, text=True, timeout=240)


def test_psql_describes_a_protected_table_as_a_plain_one(facade_cluster: FacadeCluster) -> None:
    said = psql(facade_cluster, r"\d clinic.visit")
    assert said.returncode == 0, said.stderr
    for line in (
        'Table "clinic.visit"',
        "charge  | double precision",
        '"visit_pkey" PRIMARY KEY, btree (id)',
        "FOREIGN KEY (patient) REFERENCES clinic.patient(id)",
        "Policies (forced row security enabled):",
        'POLICY "pg_epsilon" FOR SELECT',
    ):
        assert line in said.stdout


@pytest.mark.parametrize(
    "command",
    [
        r"\d",
        r"\d+ clinic.visit",
        r"\dt clinic.*",
        r"\dt+ clinic.*",
        r"\dv+ clinic.*",
        r"\di clinic.*",
        r"\df dp.*",
        r"\df+ dp.*",
        r"\l",
        r"\du",
        r"\dn+",
        r"\dT+ clinic.*",
        r"\dD clinic.*",
        r"\dO clinic.*",
        r"\det clinic.*",
        r"\dp clinic.*",
        r"\dx",
        r"\des",
        r"\dew",
        r"\db",
        r"\dd",
        r"\sf dp.dp_count",
        r"\sv clinic.recent",
        r"\dL",
        r"\dy",
        r"\conninfo",
        r"\encoding",
    ],
)
def test_psql_commands_work(facade_cluster: FacadeCluster, command: str) -> None:
    said = psql(facade_cluster, command)
    assert said.returncode == 0, said.stderr


@pytest.mark.parametrize("command", [r"\l+", r"\db+", r"\drds", r"\lo_list"])
def test_psql_commands_that_are_the_price(facade_cluster: FacadeCluster, command: str) -> None:
    assert "permission denied" in psql(facade_cluster, command).stderr


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT CASE WHEN count(*) > 0 THEN 'log' END FROM pg_catalog.pg_replication_slots",
        "SELECT gss_authenticated, encrypted FROM pg_catalog.pg_stat_gssapi WHERE pid = pg_backend_pid()",
    ],
)
def test_what_pgadmin_reads_to_connect_shows_nothing(facade_cluster: FacadeCluster, sql: str) -> None:
    """Empty views: pgAdmin 4 gives up on an error. The same columns and types as elsewhere."""
    with facade_cluster.psycopg("facade", "alice") as after, facade_cluster.psycopg("postgres") as root:
        here, there = after.execute(sql), root.execute(sql)
        assert here.description is not None and there.description is not None
        assert [(c.name, c.type_code) for c in here.description] == [(c.name, c.type_code) for c in there.description]
        assert here.fetchall() in ([(None,)], [])
