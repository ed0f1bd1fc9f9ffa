"""Triggers of ours hold on chunks, and a hypertable's day is sealed behind a barrier (findings G3 to G5)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from fix_cluster import Cluster, standard_cluster
from fix_ledger import account, balanced, count, one, refused
from fix_sealing import counted, race

GRID = '{{"origin": "2024-01-01", "width": "1 day"}}'  # for format
CHUNKS = "SELECT c::text FROM show_chunks('events') c ORDER BY 1"
EVENTS = f"""
CREATE TABLE {{0}} (at timestamptz NOT NULL, a int);
SELECT create_hypertable('{{0}}', 'at', chunk_time_interval => INTERVAL '1 day');
CALL dp.create_dataset('{{0}}', epsilon => 20);
CALL dp.protect('{{0}}', '{{0}}', partition_by => 'at', grid => '{GRID}');
CALL dp.describe_column('{{0}}', 'at');
CALL dp.describe_column('{{0}}', 'a', bounds => '{{{{0,3}}}}', nullable => false);
CALL dp.publish('{{0}}');
CALL dp.allot('alice', '{{0}}', epsilon => 20);
CALL dp.enable_turbo('{{0}}', '{{{{a}}}}', 0.05, 0.001, 'at', true, scale => 1000);
INSERT INTO {{0}} SELECT TIMESTAMPTZ '2024-01-01 00:00+00' + i * INTERVAL '1 hour', i % 4 FROM generate_series(0, 95) i;
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    preload = {"shared_preload_libraries": "timescaledb", "timescaledb.max_background_workers": "0"}
    with standard_cluster(**preload, **{"timescaledb.telemetry_level": "off"}) as running:
        running.execute("CREATE EXTENSION timescaledb", "GRANT USAGE ON SCHEMA public TO boss")
        running.psql(EVENTS.format("events"), user="boss")
        running.psql("CALL dp.seal_partition('events', '2024-01-01 00:00+00')", user="boss")
        idle = "CREATE FUNCTION public.idle() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'"
        running.psql(idle, user="boss")
        yield running


@pytest.fixture(autouse=True)
def _books(cluster: Cluster) -> Iterator[None]:
    yield
    balanced(cluster)


@pytest.fixture
def boss(cluster: Cluster) -> Iterator[psycopg.Connection[Any]]:
    with cluster.connect("boss") as conn:
        yield conn


ACTS = {
    "drop": 'DROP TRIGGER "{trigger}" ON {table}',
    "rename": 'ALTER TRIGGER "{trigger}" ON {table} RENAME TO mine',
    "replace": 'CREATE OR REPLACE TRIGGER "{trigger}" BEFORE UPDATE ON {table} FOR EACH ROW'
    " EXECUTE FUNCTION public.idle()",
    "never": 'CREATE OR REPLACE TRIGGER "{trigger}" AFTER INSERT ON {table} FOR EACH ROW WHEN (false)'
    " EXECUTE FUNCTION dp._sealed_partition('1', 'at', 'date')",
    "update never": 'CREATE OR REPLACE TRIGGER "{trigger}" BEFORE UPDATE ON {table} FOR EACH ROW WHEN (false)'
    " EXECUTE FUNCTION dp._partition_key_immutable('at')",
}


@pytest.mark.parametrize("trigger", ["~dp_partition_key", "~dp_sealed"])
@pytest.mark.parametrize("act", ACTS)
def test_a_chunk_keeps_our_triggers(cluster: Cluster, boss: psycopg.Connection[Any], act: str, trigger: str) -> None:
    """Each was accepted on a chunk, and unnoticed: the same rows paid on one leaf and again on another."""
    chunk = one(boss, CHUNKS + " LIMIT 1")
    with refused("42501"):
        boss.execute(ACTS[act].format(trigger=trigger, table=chunk))
    with cluster.connect() as root, refused("42501"):
        root.execute(ACTS[act].format(trigger=trigger, table=chunk))
    assert boss.execute("SELECT problem FROM dp.check() WHERE problem ~ 'trigger'").fetchall() == []
    with refused("42501", "cannot be updated"):
        boss.execute(f"UPDATE {chunk} SET at = at + INTERVAL '1 hour'")


def test_a_trigger_that_went_all_the_same_is_noticed_before_the_charge(
    cluster: Cluster, boss: psycopg.Connection[Any]
) -> None:
    """By a superuser without event triggers: the relation pays, and dp.check() names it and the chunk."""
    cluster.psql(EVENTS.format("lost"), user="boss")
    chunk = one(boss, CHUNKS.replace("events", "lost") + " LIMIT 1")
    with cluster.connect() as root, cluster.connect("alice") as alice:
        root.execute("ALTER EVENT TRIGGER dp_policy_drops_with_object DISABLE")
        root.execute(f'DROP TRIGGER "~dp_partition_key" ON {chunk}')
        root.execute(f'DROP TRIGGER "~dp_sealed" ON {chunk}')
        root.execute("ALTER EVENT TRIGGER dp_policy_drops_with_object ENABLE ALWAYS")
        count(alice, table="lost", predicate="at >= '2024-01-02' AND at < '2024-01-03'", epsilon=0.25)
        assert set(account(cluster, "lost")) == {"relation/public.lost"}
        told = root.execute("SELECT object, problem FROM dp.check() WHERE problem ~ 'trigger|partitions'").fetchall()
    assert any(chunk.endswith(name) and "~dp_sealed" in problem for name, problem in told), told
    assert any(name.endswith("lost") and "could be moved" in problem for name, problem in told), told


def test_twenty_writers_lose_no_row(cluster: Cluster) -> None:
    found, committed = race(cluster, "events", "TIMESTAMPTZ '2024-01-03 12:00+00'", 2)
    assert found == committed >= 20 * 50


def test_an_open_writer_of_a_chunk_is_waited_for(cluster: Cluster, boss: psycopg.Connection[Any]) -> None:
    """Also one whose rows make the chunk, and one who writes into the chunk by its own name."""
    with cluster.connect("boss") as late:
        with late.transaction():
            late.execute("INSERT INTO events VALUES ('2024-01-09 01:00+00', 1)")
            boss.execute("SET lock_timeout = '300ms'")
            with refused("55P03", f"by pid {late.info.backend_pid} (boss"):
                boss.execute("CALL dp.seal_partition('events', '2024-01-09')")
        chunk = one(boss, "SELECT c::text FROM show_chunks('events', newer_than => TIMESTAMPTZ '2024-01-08') c")
        with late.transaction():
            late.execute(f"INSERT INTO {chunk} VALUES ('2024-01-09 02:00+00', 1)")
            with refused("55P03", f"by pid {late.info.backend_pid} (boss"):
                boss.execute("CALL dp.seal_partition('events', '2024-01-09')")
        boss.execute("CALL dp.seal_partition('events', '2024-01-09')")
        with refused("42501", "is sealed"):
            late.execute(f"INSERT INTO {chunk} VALUES ('2024-01-09 03:00+00', 1)")
    assert counted(cluster, "events", 8) == 2


def test_a_sealed_day_that_has_no_chunk_yet_takes_no_rows(boss: psycopg.Connection[Any]) -> None:
    """TimescaleDB gives a new chunk the triggers of its hypertable, with their conditions."""
    boss.execute("CALL dp.seal_partition('events', '2024-01-20')")
    with refused("42501", "is sealed"):
        boss.execute("INSERT INTO events VALUES ('2024-01-20 01:00+00', 1)")
    boss.execute("INSERT INTO events VALUES ('2024-01-21 01:00+00', 1)")
    boss.execute("CALL dp.reopen_partition('events', '2024-01-20')")
    boss.execute("INSERT INTO events VALUES ('2024-01-20 01:00+00', 1)")
    boss.execute("SELECT drop_chunks('events', newer_than => TIMESTAMPTZ '2024-01-19')")


def test_turbo_comes_and_goes(cluster: Cluster, boss: psycopg.Connection[Any]) -> None:
    cluster.psql(EVENTS.format("again"), user="boss")
    boss.execute("CALL dp.seal_partition('again', '2024-01-02')")
    boss.execute("CALL dp.disable_turbo('again')")
    boss.execute("INSERT INTO again VALUES ('2024-01-02 01:00+00', 1)")
    boss.execute("CALL dp.enable_turbo('again', '{a}', 0.05, 0.001, 'at', true, scale => 1000)")
    boss.execute("CALL dp.seal_partition('again', '2024-01-02')")
    with refused("42501", "is sealed"):
        boss.execute("INSERT INTO again VALUES ('2024-01-02 01:00+00', 1)")
    assert counted(cluster, "again", 1) == 25
    boss.execute("CALL dp.unprotect('again')")
    boss.execute("DROP TABLE again")
