"""Rows are followed into what TimescaleDB makes of them: dp.check, dp.publish, dp.protect (findings.md G2).

Debian's edition neither compresses nor aggregates continuously, but its catalogue has the relations that say so.
Compressed chunks and hypertables, and materialisations, are simulated here: plain tables in _timescaledb_internal,
linked by rows of that catalogue as the community edition writes them; the view over a materialisation is not named
there, because a GRANT on a half-made aggregate ends the server. Chunks are real.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from fix_cluster import Cluster, standard_cluster
from fix_ledger import one, refused

INTERNAL = "_timescaledb_internal"
EVENTS = """
CREATE TABLE events (at timestamptz NOT NULL, who int NOT NULL, heart int);
SELECT create_hypertable('events', 'at', chunk_time_interval => INTERVAL '1 day');
CREATE TABLE free (at timestamptz NOT NULL, heat int);
SELECT create_hypertable('free', 'at', chunk_time_interval => INTERVAL '1 day');
CALL dp.create_dataset('events', epsilon => 2);
CALL dp.protect('events', 'events');
CALL dp.publish('events');
CALL dp.allot('alice', 'events', epsilon => 2);
INSERT INTO events SELECT TIMESTAMPTZ '2024-01-01 00:00+00' + i * INTERVAL '1 minute', i % 50, 60
  FROM generate_series(1, 2000) i;
INSERT INTO free SELECT TIMESTAMPTZ '2024-01-01 00:00+00' + i * INTERVAL '1 minute', i
  FROM generate_series(1, 100) i;
"""
# Of each hypertable: a compressed hypertable, a compressed chunk and a materialisation with a view that reads it.
SIMULATED = """
CREATE TABLE _timescaledb_internal.squeezed_{0} (who int, heart int);
CREATE TABLE _timescaledb_internal.squeezed_chunk_{0} (who int, heart int);
CREATE TABLE _timescaledb_internal.hourly_{0} (at timestamptz, who int, sum bigint);
ALTER TABLE _timescaledb_internal.squeezed_{0} OWNER TO boss;
ALTER TABLE _timescaledb_internal.squeezed_chunk_{0} OWNER TO boss;
ALTER TABLE _timescaledb_internal.hourly_{0} OWNER TO boss;
CREATE VIEW public.by_hour_{0} AS SELECT at, sum FROM _timescaledb_internal.hourly_{0};
INSERT INTO _timescaledb_catalog.hypertable (id, schema_name, table_name, associated_schema_name,
  associated_table_prefix, num_dimensions, chunk_sizing_func_schema, chunk_sizing_func_name, chunk_target_size,
  compression_state)
SELECT {1} + n, '_timescaledb_internal', name || '_{0}', '_timescaledb_internal', name || '_{0}_of', d,
  '_timescaledb_functions', 'calculate_chunk_interval', 0, s
FROM (VALUES (1, 'squeezed', 0, 2), (2, 'hourly', 1, 0)) v(n, name, d, s);
UPDATE _timescaledb_catalog.hypertable SET compressed_hypertable_id = {1} + 1 WHERE table_name = '{0}';
INSERT INTO _timescaledb_catalog.chunk (id, hypertable_id, schema_name, table_name, creation_time)
VALUES ({1} + 3, {1} + 1, '_timescaledb_internal', 'squeezed_chunk_{0}', now());
UPDATE _timescaledb_catalog.chunk SET compressed_chunk_id = {1} + 3 WHERE id = (
  SELECT min(c.id) FROM _timescaledb_catalog.chunk c JOIN _timescaledb_catalog.hypertable h ON h.id = c.hypertable_id
  WHERE h.table_name = '{0}');
INSERT INTO _timescaledb_catalog.continuous_agg (mat_hypertable_id, raw_hypertable_id, user_view_schema, user_view_name,
  partial_view_schema, partial_view_name, direct_view_schema, direct_view_name)
SELECT {1} + 2, h.id, 'public', 'u_{0}', 'a', 'p_{0}', 'a', 'd_{0}'
FROM _timescaledb_catalog.hypertable h WHERE h.table_name = '{0}';
"""
LINKED = [f"{INTERNAL}.{name}_{{}}" for name in ("squeezed", "squeezed_chunk", "hourly")]
GRANTED = """
SELECT problem, hint FROM dp.check() WHERE severity = 'error' AND object = %s
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    preload = {"shared_preload_libraries": "timescaledb", "timescaledb.max_background_workers": "0"}
    with standard_cluster(**preload, **{"timescaledb.telemetry_level": "off"}) as running:
        running.execute("CREATE EXTENSION timescaledb", "GRANT USAGE ON SCHEMA public TO boss")
        running.psql(EVENTS, user="boss")
        running.execute("SET session_replication_role = replica;" + SIMULATED.format("events", 1000))
        running.execute("SET session_replication_role = replica;" + SIMULATED.format("free", 2000))
        yield running


def chunk(cluster: Cluster, hypertable: str) -> str:
    with cluster.connect() as root:
        return str(one(root, "SELECT min(c::text) FROM show_chunks(%s) c", hypertable))


def found(cluster: Cluster, relation: str) -> list[tuple[str, str]]:
    with cluster.connect("boss") as boss:
        return boss.execute(GRANTED, (relation,)).fetchall()


def relations(cluster: Cluster, hypertable: str) -> list[str]:
    return [chunk(cluster, hypertable), *(name.format(hypertable) for name in LINKED)]


def test_a_grant_counts_as_one_on_the_hypertable(cluster: Cluster) -> None:
    """The hint is what to type, and then the row is gone."""
    for name in relations(cluster, "events"):
        assert found(cluster, name) == []
        with cluster.connect() as root:
            root.execute(f"GRANT SELECT ON {name} TO alice; GRANT USAGE ON SCHEMA {INTERNAL} TO alice")
            ((problem, hint),) = found(cluster, name)
            assert problem == "analyst alice holds SELECT on it"
            assert hint.startswith(f"REVOKE SELECT ON {name} FROM alice, PUBLIC")
            root.execute(hint.partition(":")[0])
        assert found(cluster, name) == []


def test_a_columns_grant_counts_too(cluster: Cluster) -> None:
    name = LINKED[1].format("events")
    with cluster.connect() as root:
        root.execute(f"GRANT REFERENCES (who) ON {name} TO dp_analyst")
        assert "analyst alice holds REFERENCES on it" in [problem for problem, _ in found(cluster, name)]
        root.execute(f"REVOKE REFERENCES (who) ON {name} FROM dp_analyst")
    assert found(cluster, name) == []


def test_a_view_over_a_materialisation_is_a_view_over_rows(cluster: Cluster) -> None:
    with cluster.connect() as root:
        root.execute("GRANT SELECT ON by_hour_events, by_hour_free TO alice")
        ((problem, _),) = found(cluster, "public.by_hour_events") or found(cluster, "by_hour_events")
        assert problem == f"analyst alice can read a view over {INTERNAL}.hourly_events"
        assert found(cluster, "public.by_hour_free") + found(cluster, "by_hour_free") == []
        root.execute("REVOKE SELECT ON by_hour_events, by_hour_free FROM alice")


def test_what_holds_rows_of_an_unprotected_hypertable_is_free(cluster: Cluster) -> None:
    """The other side: of a hypertable that nobody protects, all of them may be granted, published and hidden again."""
    for name in relations(cluster, "free"):
        with cluster.connect() as root, cluster.connect("boss") as boss:
            root.execute(f"GRANT SELECT ON {name} TO alice")
            assert found(cluster, name) == []
            root.execute(f"REVOKE SELECT ON {name} FROM alice; GRANT USAGE ON SCHEMA {INTERNAL} TO dp_reader, dp_owner")
            boss.execute(f"CALL dp.publish('{name}', kind => 'public')")
            boss.execute(f"CALL dp.unpublish('{name}')")
            boss.execute(f"REVOKE SELECT ON {name} FROM dp_owner")


def test_none_of_them_is_published_or_protected(cluster: Cluster) -> None:
    with cluster.connect("boss") as boss:
        for name in relations(cluster, "events"):
            with refused("DP005", "cannot be public"):
                boss.execute(f"CALL dp.publish('{name}', kind => 'public')")
            with refused("DP005", "is not protected"):
                boss.execute(f"CALL dp.publish('{name}')")
            with refused("DP005", "may share rows with public.events" if "_hyper" not in name else "inheritance child"):
                boss.execute(f"CALL dp.protect('{name}', 'events')")
    with cluster.connect() as root, refused("DP005", "cannot be public"):
        root.execute("CALL dp.publish('_timescaledb_catalog.chunk', kind => 'public')")


def test_protecting_after_publishing_is_told(cluster: Cluster) -> None:
    name = LINKED[2].format("free")
    with cluster.connect("boss") as boss:
        boss.execute(f"CALL dp.publish('{name}', kind => 'public')")
        boss.execute("CALL dp.protect('free', 'events')")
        try:
            hints = [hint for problem, hint in found(cluster, name) if "published with its rows" in problem]
            assert [hint.partition(":")[0] for hint in hints] == [f"CALL dp.unpublish('{name}')"]
        finally:
            boss.execute(f"CALL dp.unpublish('{name}')")
            boss.execute("CALL dp.unprotect('free')")
            boss.execute(f"REVOKE SELECT ON {name} FROM dp_owner")


@pytest.mark.parametrize(
    "make",
    [
        f"CREATE TABLE {INTERNAL}.stray (who int)",
        f"CREATE TABLE {INTERNAL}.stray (who int) PARTITION BY LIST (who)",
        f"CREATE MATERIALIZED VIEW {INTERNAL}.stray AS SELECT 1 AS who",
        f"CREATE VIEW {INTERNAL}.stray AS SELECT 1 AS who",
        "CREATE TABLE timescaledb_experimental.stray (who int)",
    ],
)
def test_what_nobody_can_tell_counts_as_protected(cluster: Cluster, make: str) -> None:
    """A relation in a schema of the extension's that its catalogue does not name: of every protected relation."""
    name = make.split()[2 if "MATERIALIZED" not in make else 3]
    kind = make.partition(f" {name}")[0].removeprefix("CREATE ")
    with cluster.connect() as root:
        root.execute(f"{make}; GRANT SELECT ON {name} TO PUBLIC")
        try:
            assert "analyst alice holds SELECT on it" in [problem for problem, _ in found(cluster, name)]
            with refused("DP005", "cannot be public"):
                root.execute(f"CALL dp.publish('{name}', kind => 'public')")
            root.execute(f"REVOKE SELECT ON {name} FROM PUBLIC; ALTER TABLE {name} OWNER TO alice")
            assert len([problem for problem, _ in found(cluster, name) if "alice holds" in problem]) == 7
        finally:
            root.execute(f"DROP {kind} {name}")


def test_what_a_version_does_not_say_counts_as_protected(cluster: Cluster) -> None:
    """Columns of the catalogue have other names: nothing fails, and what hung on them is untold. Inheritance holds."""
    squeezed, hourly = LINKED[0].format("free"), LINKED[2].format("free")
    with cluster.connect() as root:
        root.execute(f"GRANT SELECT ON {squeezed}, {hourly}, {chunk(cluster, 'free')} TO alice")
        assert found(cluster, squeezed) == found(cluster, hourly) == []
        moved = [("hypertable", "compressed_hypertable_id"), ("continuous_agg", "raw_hypertable_id")]
        for table, column in moved:
            root.execute(f"ALTER TABLE _timescaledb_catalog.{table} RENAME {column} TO otherwise")
        try:
            assert [problem for problem, _ in found(cluster, squeezed)] == ["analyst alice holds SELECT on it"]
            assert [problem for problem, _ in found(cluster, hourly)] == ["analyst alice holds SELECT on it"]
            assert found(cluster, chunk(cluster, "free")) == []
        finally:
            for table, column in moved:
                root.execute(f"ALTER TABLE _timescaledb_catalog.{table} RENAME otherwise TO {column}")
            root.execute(f"REVOKE SELECT ON {squeezed}, {hourly}, {chunk(cluster, 'free')} FROM alice")


def test_many_chunks_are_looked_at_in_one_go(cluster: Cluster) -> None:
    """Twice the compressed chunks take twice the time, give or take: not four times (of 1,000: 0.1 s here)."""
    make = """CREATE PROCEDURE public.many(first int, last int) LANGUAGE plpgsql AS $$ BEGIN
      FOR i IN first .. last LOOP
        EXECUTE format('CREATE TABLE _timescaledb_internal.packed_%s (who int)', i);
        INSERT INTO _timescaledb_catalog.chunk (id, hypertable_id, schema_name, table_name, creation_time)
        VALUES (10000 + i, 1001, '_timescaledb_internal', 'packed_' || i, now());
      END LOOP; END $$"""
    with cluster.connect() as root:
        root.execute("BEGIN")
        root.execute(make)
        took = []
        for first, last in ((1, 500), (501, 2000)):
            root.execute("CALL public.many(%s, %s)", (first, last))
            root.execute("ANALYZE _timescaledb_catalog.chunk")
            start = time.perf_counter()
            assert one(root, "SELECT count(*) FROM dp._extension_parts() WHERE whole IS NOT NULL") > last
            took.append(time.perf_counter() - start)
        root.execute("ROLLBACK")
    assert took[1] < 1 + 8 * took[0]
