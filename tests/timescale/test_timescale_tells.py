"""What TimescaleDB owns tells analysts nothing: dp.harden_catalog (findings.md G1). make test-timescale."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from fix_cluster import Cluster, standard_cluster
from fix_ledger import one

# Of every relation and routine that the extension owns, from its catalogue: what a later version brings is in it.
OWNED = """
SELECT CASE WHEN c.oid IS NULL THEN 'routine' WHEN c.relkind = 'S' THEN 'sequence' ELSE 'relation' END AS kind,
       COALESCE(c.oid::regclass::text, p.oid::regprocedure::text) AS signature, COALESCE(c.oid, p.oid) AS oid,
       p.proname, p.provolatile, COALESCE(c.relacl, p.proacl) AS acl,
       EXISTS (SELECT FROM aclexplode(COALESCE(i.initprivs, CASE WHEN c.oid IS NULL THEN acldefault('f', 10) END)) a
               WHERE a.grantee = 0) AS was_open
FROM pg_extension e
JOIN pg_depend d ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND d.deptype = 'e'
LEFT JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid AND c.relkind IN ('r', 'v', 'm', 'S')
LEFT JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
LEFT JOIN pg_init_privs i ON i.classoid = d.classid AND i.objoid = d.objid AND i.objsubid = 0
WHERE e.extname = 'timescaledb' AND (c.oid IS NOT NULL OR p.oid IS NOT NULL)
"""
MAY = f"""
SELECT o.kind, o.signature, o.proname, o.provolatile FROM ({OWNED}) o
WHERE CASE o.kind WHEN 'routine' THEN has_function_privilege(%(who)s, o.oid, 'EXECUTE')
  WHEN 'sequence' THEN has_sequence_privilege(%(who)s, o.oid, 'SELECT, USAGE, UPDATE')
  ELSE has_any_column_privilege(%(who)s, o.oid, 'SELECT, INSERT, UPDATE, REFERENCES')
    OR has_table_privilege(%(who)s, o.oid, 'DELETE, TRUNCATE, TRIGGER') END
"""
PUBLIC = f"""
SELECT array_agg(o.signature ORDER BY o.signature) FROM ({OWNED}) o
WHERE EXISTS (SELECT FROM aclexplode(COALESCE(o.acl, CASE WHEN o.kind = 'routine' THEN acldefault('f', 10) END)) a
              WHERE a.grantee = 0)
"""
INITIALLY = f"SELECT array_agg(o.signature ORDER BY o.signature) FROM ({OWNED}) o WHERE o.was_open"
# Volatile by declaration: outside of gap filling they raise an error. The last one's time zone is the session's.
NOT_IMMUTABLE = {"time_bucket_gapfill", "locf", "interpolate", "time_bucket_ng"}
EVENTS = """
CREATE TABLE events (at timestamptz NOT NULL, who int NOT NULL, heart int);
SELECT create_hypertable('events', 'at', chunk_time_interval => INTERVAL '1 day');
CALL dp.create_dataset('events', epsilon => 2);
CALL dp.protect('events', 'events');
CALL dp.publish('events');
CALL dp.allot('alice', 'events', epsilon => 2);
INSERT INTO events SELECT TIMESTAMPTZ '2024-01-01 00:00+00' + i * INTERVAL '1 minute', i % 50, 60 + i % 40
  FROM generate_series(1, 1000) i;
GRANT SELECT, INSERT ON events TO ingest;
"""
ATTACKS = [
    "SELECT range_start FROM timescaledb_information.chunks ORDER BY 1 DESC",
    "SELECT * FROM timescaledb_information.hypertables",
    "SELECT * FROM hypertable_detailed_size('events')",
    "SELECT * FROM chunks_detailed_size('events')",
    "SELECT hypertable_approximate_size('events')",
    "SELECT approximate_row_count('events')",
    "SELECT show_chunks('events')",
    "SELECT _timescaledb_functions.relation_size('events')",
    "SELECT numrows_pre_compression FROM _timescaledb_catalog.compression_chunk_size",
    "SELECT * FROM _timescaledb_catalog.chunk_column_stats",
    "SELECT * FROM _timescaledb_catalog.dimension_slice",
    "SELECT last_value FROM _timescaledb_catalog.chunk_id_seq",
    "SELECT * FROM timescaledb_information.job_stats",
    "SELECT add_job('pg_catalog.pg_sleep', '1h')",
    "SELECT enable_chunk_skipping('events', 'heart')",
    "SELECT _timescaledb_functions.stop_background_workers()",
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    preload = {"shared_preload_libraries": "timescaledb", "timescaledb.max_background_workers": "0"}
    with standard_cluster(**preload, **{"timescaledb.telemetry_level": "off"}) as running:
        running.execute("CREATE ROLE ingest LOGIN PASSWORD 'ingest'", "GRANT CONNECT ON DATABASE private TO ingest")
        running.execute("CREATE EXTENSION timescaledb", "GRANT USAGE ON SCHEMA public TO boss")
        running.psql(EVENTS, user="boss")
        yield running


def may(cluster: Cluster, who: str) -> list[tuple[str, str, str, str]]:
    with cluster.connect() as root:
        return root.execute(MAY, {"who": who}).fetchall()


def problems(cluster: Cluster) -> list[tuple[str, str]]:
    with cluster.connect("boss") as boss:
        return boss.execute(
            "SELECT severity, problem FROM dp.check() WHERE object = 'extension timescaledb'"
        ).fetchall()


def test_what_analysts_keep_depends_on_its_arguments_alone(cluster: Cluster) -> None:
    """No relation, no sequence; routines are immutable, or fill gaps. It was closed as the extension was made."""
    found = may(cluster, "alice")
    assert {kind for kind, *_ in found} == {"routine"}
    immutable = {
        name for _, _, name, volatility in found if volatility == "i"
    }  # old names in another schema are volatile
    assert [one for one in found if one[2] not in immutable | NOT_IMMUTABLE] == []
    assert {"time_bucket", "first", "last", "histogram"} <= {name for _, _, name, _ in found}
    assert may(cluster, "dp_analyst") == may(cluster, "dp_gateway") == found
    assert problems(cluster) == []
    with cluster.connect() as root:
        assert len(one(root, INITIALLY)) > 250  # what it would be


@pytest.mark.parametrize("sql", ATTACKS)
def test_a_direct_session_is_refused(cluster: Cluster, sql: str) -> None:
    with cluster.connect("alice") as alice, pytest.raises(psycopg.errors.InsufficientPrivilege):
        alice.execute(sql)


def test_a_row_of_one_user_shows_nowhere(cluster: Cluster) -> None:
    """The row makes a chunk; whoever writes it needs no right on what the extension owns."""

    def seen() -> list[Any]:
        with cluster.connect("alice") as alice:
            relations = (
                "SELECT oid, relname FROM pg_class WHERE relnamespace::regnamespace::text !~ '^(_timescale|pg_toast)'"
            )
            return [alice.execute(relations).fetchall(), may(cluster, "alice")]

    before = seen()
    with cluster.connect("ingest") as ingest, cluster.connect() as root:
        chunks = one(root, "SELECT count(*) FROM show_chunks('events')")
        ingest.execute("INSERT INTO events VALUES ('2031-05-01 00:00+00', 7, 99)")
        assert one(ingest, "SELECT heart FROM events WHERE at > '2030-01-01'") == 99
        assert one(root, "SELECT count(*) FROM show_chunks('events')") == chunks + 1
    assert seen() == before


def test_who_owns_hypertables_works_with_them(cluster: Cluster) -> None:
    """Compression, policies and jobs are the community edition's: of them the rights are looked at."""
    with cluster.connect("boss") as boss:
        chunks = "SELECT count(*) FROM timescaledb_information.chunks WHERE hypertable_name = 'events'"
        before = one(boss, chunks)
        boss.execute("INSERT INTO events VALUES ('1999-05-01 00:00+00', 7, 99)")
        assert one(boss, chunks) == before + 1
        assert one(boss, "SELECT count(*) FROM drop_chunks('events', older_than => TIMESTAMPTZ '2000-01-01')") == 1
        assert one(boss, "SELECT hypertable_size('events')") > 0
        assert one(boss, "SELECT count(*) FROM chunks_detailed_size('events')") == before
        boss.execute("SELECT set_chunk_time_interval('events', INTERVAL '1 day')")
    own = {name for _, _, name, _ in may(cluster, "boss")}
    assert {"compress_chunk", "add_retention_policy", "add_job", "run_job", "policy_compression", "show_chunks"} <= own


def test_a_role_that_works_with_hypertables_later_is_granted_the_group(cluster: Cluster) -> None:
    cluster.execute("CREATE ROLE later LOGIN PASSWORD 'later'", "GRANT CONNECT ON DATABASE private TO later")
    cluster.execute("CREATE SCHEMA later AUTHORIZATION later")
    with cluster.connect("later") as later:
        later.execute("CREATE TABLE later.t (at timestamptz NOT NULL)")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            later.execute("SELECT create_hypertable('later.t', 'at')")
        cluster.execute("GRANT dp_timescaledb TO later")
        later.execute("SELECT create_hypertable('later.t', 'at')")
        later.execute("INSERT INTO later.t VALUES ('2024-01-01')")
    cluster.execute("REVOKE dp_timescaledb FROM later", "CALL dp.harden_catalog()")
    with cluster.connect() as root:  # an owner needs it, who was there before too
        assert one(root, "SELECT pg_has_role('later', 'dp_timescaledb', 'MEMBER')") is True
        assert one(root, "SELECT pg_has_role('ingest', 'dp_timescaledb', 'MEMBER')") is True
        assert one(root, "SELECT pg_has_role('alice', 'dp_timescaledb', 'MEMBER')") is False


def test_an_update_of_the_extension_closes_what_it_opened(cluster: Cluster) -> None:
    cluster.execute(
        "GRANT SELECT ON timescaledb_information.chunks TO PUBLIC",
        "GRANT EXECUTE ON FUNCTION public.chunks_detailed_size(regclass) TO PUBLIC",
    )
    assert [severity for severity, _ in problems(cluster)] == ["error", "error"]
    told = " ".join(problem for _, problem in problems(cluster))
    assert "analysts may use 1 of its relations: timescaledb_information.chunks" in told
    assert "analysts may use 1 of its functions: public.chunks_detailed_size(regclass)" in told
    cluster.psql("ALTER EXTENSION timescaledb UPDATE")  # in a session of its own
    assert problems(cluster) == []
    with cluster.connect("alice") as alice, pytest.raises(psycopg.errors.InsufficientPrivilege):
        alice.execute("SELECT * FROM timescaledb_information.chunks")


def test_who_is_no_superuser_is_told_who_closes_it(cluster: Cluster) -> None:
    """An extension may be made by whoever owns the database; of another one nothing is said."""
    cluster.execute("GRANT CREATE ON DATABASE private TO boss")
    with cluster.connect("boss") as boss:
        told: list[tuple[str | None, str | None]] = []
        boss.add_notice_handler(lambda notice: told.append((notice.message_primary, notice.message_hint)))
        boss.execute("CREATE EXTENSION pg_trgm")
        boss.execute("DROP EXTENSION pg_trgm")
    assert told == [
        (
            "TimescaleDB's catalog and functions may tell analysts about rows until they are closed",
            "A superuser runs CALL dp.harden_catalog().",
        )
    ]
    cluster.execute("REVOKE CREATE ON DATABASE private FROM boss")


def test_an_analyst_in_the_group_is_an_error(cluster: Cluster) -> None:
    cluster.execute("GRANT dp_timescaledb TO alice")
    with cluster.connect("boss") as boss:
        hint = one(boss, "SELECT hint FROM dp.check() WHERE problem = 'an analyst is a member of dp_timescaledb'")
    assert hint == "REVOKE dp_timescaledb FROM alice"
    assert [severity for severity, _ in problems(cluster)] == ["error", "error"]
    cluster.execute(hint)
    assert problems(cluster) == []


def test_all_of_it_is_given_back(cluster: Cluster) -> None:
    with cluster.connect() as root:
        closed = one(root, PUBLIC)
        root.execute("CALL dp.unharden_catalog()")
        assert one(root, PUBLIC) == one(root, INITIALLY)
        assert len(one(root, INITIALLY)) > len(closed) + 200
        for relation in ("pg_class", "pg_shdepend", "pg_db_role_setting"):
            assert one(root, "SELECT has_table_privilege('alice', %s, 'SELECT')", relation) is True
        assert (
            one(root, "SELECT has_function_privilege('alice', 'pg_relation_size(regclass, text)', 'EXECUTE')") is True
        )
        root.execute("CALL dp.harden_catalog()")
        assert one(root, PUBLIC) == closed
    assert problems(cluster) == []
