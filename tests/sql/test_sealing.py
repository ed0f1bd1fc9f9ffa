"""A seal is a barrier to writers, and one comparison to rows of other partitions (turbo.md §6.12)."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from fix_cluster import Cluster, standard_cluster
from fix_ledger import count, one, refused
from fix_sealing import counted, race
from fix_turbo import ask

GRID = '{"origin": "2024-01-01", "width": "1 day"}'
LATE = "SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgrelid = %s::regclass AND tgname = '~dp_sealed'"
PROBLEMS = "SELECT problem FROM dp.check() WHERE object ~ %s AND problem ~ 'trigger'"


def made(name: str, key: str = "date", grid: str = GRID, tail: str = "") -> str:
    return f"""
    CREATE TABLE {name} (day {key}, a int) {tail};
    CALL dp.create_dataset('{name}', epsilon => 2);
    CALL dp.protect('{name}', '{name}', partition_by => 'day', grid => '{grid}');
    CALL dp.describe_column('{name}', 'day');
    CALL dp.describe_column('{name}', 'a', bounds => '{{0,3}}', nullable => false);
    CALL dp.publish('{name}');
    CALL dp.allot('alice', '{name}', epsilon => 2);
    CALL dp.enable_turbo('{name}', '{{a}}', 0.05, 0.001, 'day', true, scale => 1000);
    """


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with standard_cluster() as running:
        yield running


@pytest.fixture(scope="module")
def boss(cluster: Cluster) -> Iterator[psycopg.Connection[Any]]:
    with cluster.connect("boss") as conn:
        yield conn


@pytest.fixture(scope="module")
def days(cluster: Cluster) -> str:
    """Ten days of ten rows; the first eight are sealed, the sixth reopened."""
    cluster.psql(
        made("days") + "INSERT INTO days SELECT DATE '2024-01-01' + i % 10, i % 4 FROM generate_series(1, 100) i;"
        "CALL dp.seal_partitions('days', until => '2024-01-09'); CALL dp.reopen_partition('days', '2024-01-06')",
        user="boss",
    )
    return "days"


def test_seals_that_wait_for_writers_keep_no_asker_waiting(cluster: Cluster) -> None:
    """A view is locked behind the barrier: else questions wait, and two calls of an owner wait for each other."""
    cluster.psql(made("lively") + "CALL dp.seal_partition('lively', '2024-01-01')", user="boss")

    def seal() -> None:
        with cluster.connect("boss") as boss, refused("55P03", "still being written"):
            boss.execute("SET lock_timeout = '6s'")
            boss.execute("CALL dp.seal_partitions('lively', until => '2024-01-04')")

    with cluster.connect("boss") as late, late.transaction(), cluster.connect("alice") as alice:
        ask(alice, "lively", "a = 0 AND day = '2024-01-01'")  # a backend's first question loads numpy
        late.execute("INSERT INTO lively VALUES ('2024-01-03', 1)")
        sealing = threading.Thread(target=seal)
        sealing.start()
        until_waiting(cluster, late.info.backend_pid)
        ask(alice, "lively", "a = 1 AND day = '2024-01-01'")
        assert sealing.is_alive()
        sealing.join(60)


def until_waiting(cluster: Cluster, holder: int) -> None:
    """Until a session waits for a lock that the holder has."""
    sql = "SELECT count(*) FROM pg_stat_activity WHERE %s = ANY (pg_blocking_pids(pid))"
    end = time.monotonic() + 30
    with cluster.connect() as root:
        while not one(root, sql, holder):
            assert time.monotonic() < end
            time.sleep(0.02)


@pytest.mark.parametrize("tail", ["", "PARTITION BY RANGE (day)"])
def test_twenty_writers_lose_no_row(cluster: Cluster, tail: str) -> None:
    name = "raced" if tail else "plain"
    cluster.psql(made(name, tail=tail), user="boss")
    if tail:
        cluster.psql(f"CREATE TABLE {name}_1 PARTITION OF {name} DEFAULT", user="boss")
    found, committed = race(cluster, name, "DATE '2024-01-03'", 2)
    assert found == committed >= 20 * 50


@pytest.mark.parametrize("into", ["direct", "direct_1"])
def test_a_seal_waits_for_open_writers_and_says_for_whom(cluster: Cluster, into: str) -> None:
    """Also for rows that go into a partition by its own name, of which the parent is not locked."""
    if into == "direct":
        cluster.psql(
            made("direct", tail="PARTITION BY RANGE (day)") + "CREATE TABLE direct_1 PARTITION OF direct DEFAULT",
            user="boss",
        )
    day, part = ("2024-01-02", 1) if into == "direct" else ("2024-01-03", 2)
    with cluster.connect("boss") as boss, cluster.connect("boss") as late:
        with late.transaction():
            late.execute(f"INSERT INTO {into} SELECT %s, i %% 4 FROM generate_series(1, 30) i", [day])
            boss.execute("SET lock_timeout = '300ms'")
            with refused("55P03", f"still being written by pid {late.info.backend_pid} (boss"):
                boss.execute("CALL dp.seal_partition('direct', %s)", [day])
            assert one(boss, "SHOW lock_timeout") == "300ms"
        boss.execute("CALL dp.seal_partition('direct', %s)", [day])
        with refused("42501", "is sealed"):
            late.execute(f"INSERT INTO {into} VALUES (%s, 0)", [day])
    assert counted(cluster, "direct", part) == 30


def test_a_scheduler_that_finds_nothing_to_seal_waits_for_nobody(cluster: Cluster, days: str) -> None:
    with cluster.connect("boss") as boss, cluster.connect("boss") as writer, writer.transaction():
        writer.execute("INSERT INTO days VALUES ('2024-01-10', 0)")
        boss.execute("SET lock_timeout = '1ms'")
        boss.execute("CALL dp.seal_partitions('days', until => '2024-01-09')")
        with refused("55P03", "still being written"):
            boss.execute("CALL dp.seal_partitions('days', until => '2024-01-10')")


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_an_old_snapshot_seals_nothing(boss: psycopg.Connection[Any], days: str, level: str) -> None:
    for call in ("seal_partition('days', '2024-01-09')", "seal_partitions('days', until => '2024-01-10')"):
        with refused("25001", level.lower()), boss.transaction():
            boss.execute(f"SET TRANSACTION ISOLATION LEVEL {level}")
            boss.execute(f"CALL dp.{call}")


def test_no_partition_is_counted_without_the_barrier(boss: psycopg.Connection[Any], days: str) -> None:
    """dp._behind_barrier is open to owners, because what locks must run as them."""
    for call, state in (("seal", "55000"), ("refresh", "DP005"), ("reopen", "55000")):
        with refused(state):
            boss.execute(
                "SELECT dp._behind_barrier('days', 'dp.seal_partition', %s, '{\"partition\": \"2024-01-09\"}')", [call]
            )


def test_reopened_and_new_partitions_take_rows_without_a_call(boss: psycopg.Connection[Any], days: str) -> None:
    """The condition of the trigger is constants: what is neither sealed nor near a seal is not asked about."""
    written = one(boss, LATE, "days")
    assert "'2024-01-09'::date" in written and "'2024-01-06'::date" in written and "'2024-01-07'::date" in written
    with boss.transaction(force_rollback=True):
        for day in ("2024-01-06", "2024-01-09", "2023-12-31", "2030-01-01"):
            boss.execute("INSERT INTO days VALUES (%s, 1)", [day])
        boss.execute("INSERT INTO days VALUES (NULL, 1)")
    for day in ("2024-01-01", "2024-01-05", "2024-01-07", "2024-01-08"):
        with refused("42501", f"'{day}' is sealed"):
            boss.execute("INSERT INTO days VALUES (%s, 1)", [day])


def test_many_gaps_are_told_by_the_function(cluster: Cluster, boss: psycopg.Connection[Any]) -> None:
    """Twenty runs: the condition names their ends only, and a row between them is looked up."""
    cluster.psql(made("gaps"), user="boss")
    for number in range(20):
        boss.execute("CALL dp.seal_partition('gaps', (DATE '2024-01-01' + 2 * %s)::text)", [number])
    assert one(boss, LATE, "gaps").count("::date") == 2
    boss.execute("INSERT INTO gaps SELECT DATE '2024-01-02' + 2 * i, 1 FROM generate_series(0, 19) i")
    for day in ("2024-01-01", "2024-01-21", "2024-02-08"):
        with refused("42501", f"'{day}' is sealed"):
            boss.execute("INSERT INTO gaps VALUES (%s, 1)", [day])


HOUR = GRID.replace("1 day", "1 hour")
KEYS = {
    "integer": ('{"origin": 0, "width": 10}', ("5", "15"), "25", "3"),
    "bigint": ('{"origin": -100, "width": 50}', ("-60", "-10"), "7000000000", "-99"),
    "timestamp": (HOUR, ("2024-01-01 00:30", "2024-01-01 01:59:59"), "2024-01-01 02:00", "2024-01-01 00:00"),
    "timestamptz": (GRID, ("2024-01-01 12:00+00", "2024-01-02 00:00+00"), "2024-01-03 00:00+00", "2024-01-02 01:00+02"),
    "text": ('{"list": ["a\'b", "c,d", "e\\\\f", "g"]}', ("a'b", "e\\f"), "g", "a'b"),
    "boolean": ('{"list": ["true", "false"]}', ("true",), "false", "true"),
}


@pytest.mark.parametrize("key", KEYS)
def test_seals_of_every_kind_of_key(cluster: Cluster, boss: psycopg.Connection[Any], key: str) -> None:
    grid, sealed, free, late = KEYS[key]
    cluster.psql(made(f"k_{key}", key, grid.replace("'", "''")), user="boss")
    for value in sealed:
        boss.execute(f"CALL dp.seal_partition('k_{key}', %s)", [value])
    boss.execute(f"INSERT INTO k_{key} SELECT %s, 1 FROM generate_series(1, 5)", [free])
    boss.execute(f"INSERT INTO k_{key} VALUES (NULL, 1)")
    for value in (*sealed, late):
        with refused("42501", "is sealed"):
            boss.execute(f"INSERT INTO k_{key} VALUES (%s, 1)", [value])
        with refused("42501", "is sealed"), cluster.connect() as root:
            root.execute("SET session_replication_role = replica")
            root.execute(f"INSERT INTO k_{key} VALUES (%s, 1)", [value])


UPSERTS = [
    "ON CONFLICT DO NOTHING",
    "ON CONFLICT (day) DO UPDATE SET a = 3",
]


@pytest.mark.parametrize("action", UPSERTS)
def test_an_upsert_that_adds_no_row_is_not_late(cluster: Cluster, boss: psycopg.Connection[Any], action: str) -> None:
    name = "upserted" if "NOTHING" in action else "updated"
    more = f"ALTER TABLE {name} ADD UNIQUE (day); INSERT INTO {name} VALUES ('2024-01-01', 1);"
    cluster.psql(f"{made(name)} {more} CALL dp.seal_partition('{name}', '2024-01-01')", user="boss")
    boss.execute(f"INSERT INTO {name} VALUES ('2024-01-01', 2) {action}")
    boss.execute(f"DELETE FROM {name}")
    with refused("42501", "is sealed"):
        boss.execute(f"INSERT INTO {name} VALUES ('2024-01-01', 2) {action}")


ACTS = {
    "drop": 'DROP TRIGGER "{0}" ON days',
    "disable": 'ALTER TABLE days DISABLE TRIGGER "{0}"',
    "disable all": "ALTER TABLE days DISABLE TRIGGER USER",
    "rename": 'ALTER TRIGGER "{0}" ON days RENAME TO mine',
    "replace": 'CREATE OR REPLACE TRIGGER "{0}" AFTER INSERT ON days FOR EACH ROW EXECUTE FUNCTION public.idle()',
    "another event": 'CREATE OR REPLACE TRIGGER "{0}" AFTER DELETE ON days FOR EACH ROW'
    " EXECUTE FUNCTION dp._sealed_partition('1', 'day', 'date')",
    "a name of ours": 'CREATE TRIGGER "~dp_other" AFTER INSERT ON days FOR EACH ROW EXECUTE FUNCTION public.idle()',
}


@pytest.mark.parametrize("trigger", ["~dp_sealed", "~dp_sealed_replica"])
@pytest.mark.parametrize("act", ACTS)
def test_a_trigger_of_a_seal_stays(cluster: Cluster, days: str, act: str, trigger: str) -> None:
    idle = "CREATE OR REPLACE FUNCTION public.idle() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'"
    cluster.psql(idle, user="boss")
    for user in ("boss", None):
        with cluster.connect(*[user] if user else []) as conn, refused("42501"):
            conn.execute(ACTS[act].format(trigger))
    with cluster.connect() as root:
        assert root.execute(PROBLEMS, ["days"]).fetchall() == []


def test_a_partition_key_s_trigger_that_was_replaced_keeps_no_leaf(cluster: Cluster, days: str) -> None:
    """Refused; and where event triggers were off, the whole relation pays (composition.md 5.2)."""
    act = (
        'CREATE OR REPLACE TRIGGER "~dp_partition_key" BEFORE UPDATE ON days FOR EACH ROW WHEN (false)'
        " EXECUTE FUNCTION dp._partition_key_immutable('day')"
    )
    cluster.psql(made("swapped"), user="boss")
    with cluster.connect("boss") as boss:
        with refused("42501", "stays as it is"):
            boss.execute(act)
        with refused("42501", "stays as it is"):
            boss.execute('ALTER TRIGGER "~dp_partition_key" ON days RENAME TO mine')
    with cluster.connect() as root:
        root.execute("SET session_replication_role = replica")
        root.execute("ALTER EVENT TRIGGER dp_keep_triggers DISABLE")
        root.execute(act.replace("ON days", "ON swapped"))
        root.execute('ALTER TABLE swapped ENABLE ALWAYS TRIGGER "~dp_partition_key"')
        root.execute("ALTER EVENT TRIGGER dp_keep_triggers ENABLE ALWAYS")
        assert not one(root, "SELECT dp._partition_key_held('swapped')")
        assert one(root, "SELECT dp._partition_key_held('days')")
    with cluster.connect("alice") as alice:
        count(alice, table="swapped", predicate="day = '2024-01-01'", epsilon=0.25)
    with cluster.connect() as root:
        spent = "SELECT string_agg(node, ' ') FROM dp.account WHERE dataset = 'swapped' AND spent_epsilon > 0"
        assert "leaf" not in str(one(root, spent))


def test_a_seal_that_was_broken_is_told(cluster: Cluster) -> None:
    """By a superuser whose event triggers were off: dp.check() says so, and the next seal mends it."""
    cluster.psql(made("broken") + "CALL dp.seal_partition('broken', '2024-01-01')", user="boss")
    with cluster.connect() as root:
        for name in ("dp_keep_triggers", "dp_policy_drops_with_object"):
            root.execute(f"ALTER EVENT TRIGGER {name} DISABLE")
        root.execute('DROP TRIGGER "~dp_sealed" ON broken')
        for name in ("dp_keep_triggers", "dp_policy_drops_with_object"):
            root.execute(f"ALTER EVENT TRIGGER {name} ENABLE ALWAYS")
        (told,) = root.execute(PROBLEMS, ["^(public.)?broken$"]).fetchall()
        assert "is gone, disabled or replaced" in told[0]
        cluster.psql("CALL dp.seal_partition('broken', '2024-01-02')", user="boss")
        assert root.execute(PROBLEMS, ["^(public.)?broken$"]).fetchall() == []
    with refused("42501", "is sealed"), cluster.connect("boss") as boss:
        boss.execute("INSERT INTO broken VALUES ('2024-01-01', 1)")


def test_disabled_turbo_leaves_no_trigger(cluster: Cluster) -> None:
    cluster.psql(made("ended") + "CALL dp.seal_partition('ended', '2024-01-01')", user="boss")
    with cluster.connect("boss") as boss:
        boss.execute("CALL dp.disable_turbo('ended')")
        boss.execute("INSERT INTO ended VALUES ('2024-01-01', 1)")
        assert one(boss, "SELECT count(*) FROM pg_trigger WHERE tgrelid = 'ended'::regclass AND tgname ~ 'sealed'") == 0
        boss.execute("CALL dp.enable_turbo('ended', '{a}', 0.05, 0.001, 'day', true, scale => 1000)")
        boss.execute("CALL dp.seal_partition('ended', '2024-01-01')")
    assert counted(cluster, "ended", 0) == 1


def test_a_detached_partition_goes_and_a_new_one_is_sealed(cluster: Cluster) -> None:
    cluster.psql(
        made("whole", tail="PARTITION BY RANGE (day)")
        + "CREATE TABLE part_1 PARTITION OF whole FOR VALUES FROM ('2024-01-01') TO ('2024-01-02');"
        "CREATE TABLE part_2 (day date, a int); CALL dp.seal_partitions('whole', until => '2024-01-03');"
        "ALTER TABLE whole ATTACH PARTITION part_2 FOR VALUES FROM ('2024-01-02') TO ('2024-01-03')",
        user="boss",
    )
    with cluster.connect("boss") as boss, cluster.connect() as root:
        assert root.execute(PROBLEMS, ["part_|whole"]).fetchall() == []
        for table in ("whole", "part_2"):
            with refused("42501", "is sealed"):
                boss.execute(f"INSERT INTO {table} VALUES ('2024-01-02', 1)")
        with refused("42501", "sealed partitions would take rows"):
            boss.execute('ALTER TABLE part_2 DISABLE TRIGGER "~dp_sealed"')
        boss.execute("ALTER TABLE whole DETACH PARTITION part_1")
        boss.execute("DROP TABLE part_1")


def test_what_was_sealed_is_answered_by_turbo(cluster: Cluster) -> None:
    """A late commit is in the answer: 1,789 ± 180 for 21,800 before (findings G4)."""
    cluster.psql(made("late"), user="boss")
    with cluster.connect("boss") as boss, cluster.connect("boss") as writer:
        with writer.transaction():
            writer.execute("INSERT INTO late SELECT '2024-01-01', 1 FROM generate_series(1, 4000)")
            boss.execute("SET lock_timeout = '50ms'")
            with refused("55P03"):
                boss.execute("CALL dp.seal_partition('late', '2024-01-01')")
        boss.execute("CALL dp.seal_partition('late', '2024-01-01')")
    assert counted(cluster, "late", 0) == 4000
    with cluster.connect("alice") as alice:
        assert ask(alice, "late", "a = 1 AND day = '2024-01-01'")["notice"]["mechanism"].startswith("turbo")
