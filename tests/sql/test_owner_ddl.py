"""What an owner's own tools do to protected tables: replication, detached partitions, new views, swaps by rename.

Specification: composition.md §5.2, §1.6; findings B3 and B6. The replication is real: a publisher database and the
private one, in one cluster.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from fix_cluster import Cluster, standard_cluster
from fix_ledger import count, one, refused
from fix_waiting import soon

GRID = """partition_by => 'day', grid => '{"origin": "2024-01-01", "width": "7 days"}'"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with standard_cluster(wal_level="logical", max_slot_wal_keep_size="1GB") as running:
        running.psql("CALL dp.create_dataset('logs', epsilon => 5); CALL dp.allot('alice', 'logs', 5)", user="boss")
        running.execute("CREATE DATABASE source", dbname="postgres")
        yield running


def protect(cluster: Cluster, table: str, columns: str, more: str = GRID) -> None:
    cluster.psql(f"CREATE TABLE {table} (id int PRIMARY KEY, {columns})", user="boss")
    cluster.psql(
        f"CALL dp.protect('{table}', 'logs', {more})" if more else f"CALL dp.protect('{table}', 'logs')", user="boss"
    )


def warnings(cluster: Cluster, object_: str) -> list[tuple[Any, ...]]:
    with cluster.connect("boss") as boss:
        sql = "SELECT problem, hint FROM dp.check() WHERE object = %s AND severity = 'warning'"
        return [
            row for row in boss.execute(sql, [object_]).fetchall() if not re.search("not (published|declared)", row[0])
        ]


def subscribe(cluster: Cluster, table: str) -> None:
    """A subscription of the private database to the same table of database source; within a cluster, the slot first."""
    cluster.execute(
        f"CREATE TABLE {table} (id int PRIMARY KEY, day date)",
        f"CREATE PUBLICATION {table} FOR TABLE {table}",
        f"SELECT pg_create_logical_replication_slot('{table}', 'pgoutput')",
        dbname="source",
    )
    way = cluster.dsn("postgres", "source")
    cluster.execute(
        f"CREATE SUBSCRIPTION {table} CONNECTION '{way}' PUBLICATION {table} WITH (create_slot = false,"
        " copy_data = false)"
    )


def unsubscribe(cluster: Cluster, table: str) -> None:
    cluster.execute(
        f"ALTER SUBSCRIPTION {table} DISABLE",
        f"ALTER SUBSCRIPTION {table} SET (slot_name = NONE)",
        f"DROP SUBSCRIPTION {table}",
    )


def days(cluster: Cluster, table: str) -> list[str]:
    with cluster.connect() as root:
        return [row[0] for row in root.execute(f"SELECT day::text FROM {table} ORDER BY id").fetchall()]


def test_what_a_subscription_writes_has_no_partition_accounts(cluster: Cluster) -> None:
    cluster.psql("CREATE TABLE fed (id int PRIMARY KEY, day date)", user="boss")
    subscribe(cluster, "fed")
    try:
        with cluster.connect("boss") as boss:
            with refused("DP005", "subscription fed writes public.fed"):
                boss.execute(f"CALL dp.protect('fed', 'logs', {GRID})")
            boss.execute("CALL dp.protect('fed', 'logs')")
        cluster.execute(
            "INSERT INTO fed VALUES (1, '2024-01-02')", "UPDATE fed SET day = '2024-03-01'", dbname="source"
        )
        assert soon(lambda: days(cluster, "fed") == ["2024-03-01"]), "without partition accounts it goes on"
    finally:
        unsubscribe(cluster, "fed")


@pytest.mark.parametrize("enabled", ["ENABLE ALWAYS", "ENABLE"])
def test_a_replicated_update_moves_no_row_between_accounts(cluster: Cluster, enabled: str) -> None:
    """A subscription made afterwards: its worker stops. Control: as 0.1.0 enabled the trigger, the row moves."""
    table = "late" if enabled == "ENABLE" else "kept"
    protect(cluster, table, "day date")
    cluster.psql(f'ALTER TABLE {table} {enabled} TRIGGER "~dp_partition_key"', user="boss")
    subscribe(cluster, table)
    try:
        assert any(f"subscription {table} writes it" in problem for problem, _ in warnings(cluster, f"public.{table}"))
        cluster.execute(f"INSERT INTO {table} VALUES (1, '2024-01-02')", dbname="source")
        assert soon(lambda: days(cluster, table) == ["2024-01-02"])
        stopped = cluster.log.count("column day is the partition key")
        cluster.execute(f"UPDATE {table} SET day = '2024-03-01'", dbname="source")
        if enabled == "ENABLE":
            assert soon(lambda: days(cluster, table) == ["2024-03-01"])
            assert any("ENABLE ALWAYS TRIGGER" in hint for _, hint in warnings(cluster, f"public.{table}"))
        else:
            assert soon(lambda: cluster.log.count("column day is the partition key") > stopped)
            assert days(cluster, table) == ["2024-01-02"]
    finally:
        unsubscribe(cluster, table)


REPLICA = {
    "partition key": "UPDATE guarded SET day = day + 30",
    "sealed partition": "INSERT INTO guarded VALUES (2, '2024-01-03', 1)",
    "ledger": "DELETE FROM dp.ledger",
    "accounts": "UPDATE dp.account SET spent_epsilon = 0",
    "cap": "UPDATE dp.dataset SET epsilon = 100",
    "unit or partition column": "ALTER TABLE guarded RENAME day TO other",
    "trigger": 'DROP TRIGGER "~dp_partition_key" ON guarded',
}


@pytest.fixture(scope="module")
def guarded(cluster: Cluster) -> str:
    protect(cluster, "guarded", "day date, a int")
    cluster.psql(
        "INSERT INTO guarded VALUES (1, '2024-01-02', 1); "
        "CALL dp.describe_column('guarded', 'a', bounds => '{0,3}', nullable => false);"
        "CALL dp.publish('guarded');"
        "CALL dp.enable_turbo('guarded', '{a}', 0.1, 0.01, partition_by => 'day',"
        "partition_key_is_public => true, scale => 1000);"
        "CALL dp.seal_partition('guarded', '2024-01-02')",
        user="boss",
    )
    with cluster.connect("alice") as alice:
        count(alice, table="guarded")
    return "guarded"


@pytest.mark.parametrize("name", REPLICA)
def test_triggers_fire_for_replication_too(cluster: Cluster, guarded: str, name: str) -> None:
    """session_replication_role = replica, which a superuser sets and every apply worker has."""
    with cluster.connect() as root, refused("42501", hint=False):
        root.execute("SET session_replication_role = replica")
        root.execute(REPLICA[name])


def test_a_new_partition_has_the_trigger_always(cluster: Cluster) -> None:
    cluster.psql(
        "CREATE TABLE split (id int, day date) PARTITION BY RANGE (day);"
        "CREATE TABLE split_1 PARTITION OF split FOR VALUES FROM ('2024-01-01') TO ('2024-01-08');"
        f"CALL dp.protect('split', 'logs', {GRID});"
        "CREATE TABLE split_2 PARTITION OF split FOR VALUES FROM ('2024-01-08') TO ('2024-01-15');"
        "CREATE TABLE split_3 (LIKE split);"
        "ALTER TABLE split ATTACH PARTITION split_3 FOR VALUES FROM ('2024-01-15') TO ('2024-01-22')",
        user="boss",
    )
    with cluster.connect() as root:
        sql = (
            "SELECT string_agg(tgrelid::regclass::text || tgenabled::text, ' ' ORDER BY tgrelid::regclass::text)"
            " FROM pg_trigger WHERE tgname = '~dp_partition_key' AND tgrelid::regclass::text ~ '^split'"
        )
        assert one(root, sql) == "splitA split_1A split_2A split_3A"
        assert one(root, "SELECT dp._partition_key_held('split')")


def test_a_detached_partition_is_not_published_with_its_rows(cluster: Cluster) -> None:
    cluster.psql(
        "CREATE TABLE parted (id int) PARTITION BY RANGE (id);"
        "CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (10);"
        "CALL dp.protect('parted', 'logs');"
        "CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM (10) TO (20);"
        "CREATE TABLE parted_3 (id int);"
        "ALTER TABLE parted ATTACH PARTITION parted_3 FOR VALUES FROM (20) TO (30);"
        "CREATE TABLE shown (id int); CALL dp.publish('shown', 'public')",
        user="boss",
    )
    with cluster.connect("boss") as boss:
        for part in ("parted_1", "parted_2", "parted_3"):
            boss.execute(f"ALTER TABLE parted DETACH PARTITION {part}")
            with refused("DP005", "it was a partition of public.parted"):
                boss.execute(f"CALL dp.publish('{part}', 'public')")
        with refused("42501", "published with its rows"):
            boss.execute("ALTER TABLE parted ATTACH PARTITION shown FOR VALUES FROM (30) TO (40)")
        boss.execute("ALTER TABLE parted ATTACH PARTITION parted_1 FOR VALUES FROM (0) TO (10)")


def test_a_generated_column_is_no_partition_key(cluster: Cluster) -> None:
    """It made every UPDATE 42501: the trigger runs before the value is generated."""
    cluster.psql(
        "CREATE TABLE made (id int, at timestamp, day date GENERATED ALWAYS AS (at::date) STORED)", user="boss"
    )
    with cluster.connect("boss") as boss:
        with refused("DP005", "is generated and cannot be a partition key"):
            boss.execute(f"CALL dp.protect('made', 'logs', {GRID})")
        boss.execute("CALL dp.protect('made', 'logs')")
        boss.execute("INSERT INTO made (id, at) VALUES (1, '2024-01-02')")
        boss.execute("UPDATE made SET at = '2024-02-02'")


def test_a_view_that_a_migration_makes_again_is_named(cluster: Cluster) -> None:
    cluster.psql("CREATE VIEW adults AS SELECT age, sex FROM people; CALL dp.publish('adults')", user="boss")
    cluster.psql("DROP VIEW adults", user="boss")
    assert warnings(cluster, "public.adults") == []
    cluster.psql("CREATE VIEW adults AS SELECT age FROM people", user="boss")
    [(problem, hint)] = warnings(cluster, "public.adults")
    assert "published until it was dropped" in problem
    assert hint.startswith("CALL dp.publish('public.adults', 'protected'")
    cluster.psql(hint, user="boss")
    assert warnings(cluster, "public.adults") == []
    cluster.psql(
        "DROP VIEW adults; CREATE VIEW adults AS SELECT sex FROM people; CALL dp.unpublish('adults')", user="boss"
    )
    assert warnings(cluster, "public.adults") == []


def test_a_swap_by_rename_is_said(cluster: Cluster) -> None:
    protect(cluster, "swapped", "day date", more="")
    said: list[str] = []
    with cluster.connect("boss") as boss:
        boss.add_notice_handler(lambda note: said.append(f"{note.severity} {note.message_primary}"))
        boss.execute("CREATE TABLE fresh (LIKE swapped)")
        boss.execute("ALTER TABLE swapped RENAME TO swapped_old")
        assert said == []
        boss.execute("ALTER TABLE fresh RENAME TO swapped")
    assert len(said) == 1 and said[0].startswith("WARNING public.swapped is not protected"), said
    [(problem, hint)] = warnings(cluster, "public.swapped")
    assert "now public.swapped_old" in problem and "CALL dp.unprotect('public.swapped_old')" in hint
    with cluster.connect("boss") as boss:
        boss.execute("CALL dp.unprotect('swapped_old')")
        boss.execute("CALL dp.protect('swapped', 'logs')")
    assert warnings(cluster, "public.swapped") == []
