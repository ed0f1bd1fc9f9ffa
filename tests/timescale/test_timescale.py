"""Hypertables of a real TimescaleDB: leaf accounts, reads, sealed chunks (turbo.md 11.7). make test-timescale."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import psycopg
import pytest

import fix_chance
from fix_cluster import Cluster, standard_cluster
from fix_ledger import account, balanced, count, no_charge, one, refused
from fix_sealing import counted

pytestmark = pytest.mark.chance(fix_chance.accuracy(2.5, 6))

ROWS = 3_000  # of a day
DAYS = 4
SURE = 2.5 * 0.05  # of the rows: noise passes alpha n~ once in 1000, this at most once in 1e7
HYPER = f"""
CREATE TABLE metrics (at timestamptz NOT NULL, a int, b int, PRIMARY KEY (at, a, b));
SELECT create_hypertable('metrics', 'at', chunk_time_interval => INTERVAL '1 day');
CALL dp.create_dataset('metrics', epsilon => 2);
CALL dp.protect('metrics', 'metrics', partition_by => 'at', grid => '{{"origin": "2024-01-01", "width": "1 day"}}');
CALL dp.describe_column('metrics', 'at');
CALL dp.describe_column('metrics', 'a', bounds => '{{0,3}}', nullable => false);
CALL dp.describe_column('metrics', 'b', bounds => '{{0,1}}', nullable => false);
CALL dp.publish('metrics');
CALL dp.allot('alice', 'metrics', epsilon => 2);
CALL dp.enable_turbo('metrics', '{{a,b}}', 0.05, 0.001, 'at', true, 'turbo', scale => {ROWS});
INSERT INTO metrics SELECT TIMESTAMPTZ '2024-01-01 00:00+00' + d * INTERVAL '1 day' + i * INTERVAL '1 second', i % 4,
  CASE WHEN i % 10 = 0 THEN 1 ELSE 0 END FROM generate_series(0, {DAYS - 1}) d, generate_series(1, {ROWS}) i;
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    preload = {"shared_preload_libraries": "timescaledb", "timescaledb.max_background_workers": "0"}
    with standard_cluster(**preload, **{"timescaledb.telemetry_level": "off"}) as running:
        running.execute("CREATE EXTENSION timescaledb", "GRANT USAGE ON SCHEMA public TO boss")
        running.psql(HYPER, user="boss")
        yield running


@pytest.fixture(autouse=True)
def _books(cluster: Cluster) -> Iterator[None]:
    yield
    balanced(cluster)


def day(first: int, last: int) -> str:
    """Days first … last, 0-based."""
    return f"at >= '2024-01-{first + 1:02d} 00:00+00' AND at < '2024-01-{last + 2:02d} 00:00+00'"


def leaf(number: int) -> str:
    return f"leaf/public.metrics/[2024-01-{number + 1:02d} 00:00:00+00,2024-01-{number + 2:02d} 00:00:00+00)"


def ask(conn: psycopg.Connection[Any], predicate: str, table: str = "metrics") -> dict[str, Any]:
    call = f"dp.dp_count_request('{table}', %s, alpha => 0.05, beta => 0.001)"
    answer = one(conn, f"SELECT dp.dp_query({call})", predicate)
    assert isinstance(answer, dict)
    return answer


def test_rows_are_in_chunks(cluster: Cluster) -> None:
    with cluster.connect() as root:
        assert one(root, "SELECT count(*) FROM show_chunks('metrics')") == DAYS
        assert one(root, "SELECT count(*) FROM ONLY metrics") == 0


def test_leaf_accounts_and_reads_of_a_hypertable(cluster: Cluster) -> None:
    """A direct count reads the chunks, and pays on its leaves alone: chunks carry the trigger on the partition key."""
    with cluster.connect("alice") as alice:
        found = count(alice, table="metrics", predicate=day(1, 2), epsilon=0.25)
    assert abs(found - 2 * ROWS) < 100  # e^-25
    assert account(cluster, "metrics") == {leaf(1): Decimal("0.25"), leaf(2): Decimal("0.25")}
    with cluster.connect("boss") as boss, refused("42501", "cannot be updated"):
        boss.execute("UPDATE metrics SET at = at + INTERVAL '2 days' WHERE at < '2024-01-01 00:01+00'")


def test_no_write_is_visible(cluster: Cluster) -> None:
    """A row that makes TimescaleDB create a chunk moves no policy version (composition.md 6.2)."""
    with cluster.connect("boss") as boss, cluster.connect() as root:
        before = one(root, "SELECT version FROM dp.policy_state")
        boss.execute("INSERT INTO metrics VALUES ('2024-03-01 00:00+00', 0, 0)")
        assert one(root, "SELECT count(*) FROM show_chunks('metrics')") == DAYS + 1
        assert one(root, "SELECT version FROM dp.policy_state") == before
        boss.execute("SELECT drop_chunks('metrics', newer_than => TIMESTAMPTZ '2024-02-20')")
        assert one(root, "SELECT version FROM dp.policy_state") == before


def test_turbo_over_sealed_chunks(cluster: Cluster) -> None:
    """Sealed by CALL; late rows are rejected, dropped chunks unseen until the owner reopens (composition.md 14.7)."""
    with cluster.connect("alice") as alice, cluster.connect("boss") as boss:
        boss.execute("CALL dp.seal_partitions('metrics', until => '2024-01-05 00:00+00')")
        before = account(cluster, "metrics")
        answer = ask(alice, f"b = 1 AND {day(0, 3)}")
        assert answer["notice"]["mechanism"] == "turbo"
        assert abs(int(answer["rows"][0][0]) - DAYS * ROWS // 10) <= SURE * DAYS * ROWS
        after = account(cluster, "metrics")
        assert set(after) == {leaf(d) for d in range(DAYS)}
        assert len({after[leaf(d)] - before.get(leaf(d), 0) for d in range(DAYS)}) == 1
        with refused("42501", "is sealed"):
            boss.execute("INSERT INTO metrics VALUES ('2024-01-03 12:00+00', 0, 0)")
        boss.execute("SELECT drop_chunks('metrics', older_than => TIMESTAMPTZ '2024-01-02 00:00+00')")
        with no_charge(cluster):
            assert ask(alice, f"b = 1 AND {day(0, 3)}")["rows"] == answer["rows"]
        boss.execute("CALL dp.reopen_partition('metrics', '2024-01-01 00:00+00')")
        boss.execute("CALL dp.seal_partition('metrics', '2024-01-01 00:00+00')")
        again = ask(alice, f"b = 0 AND {day(0, 0)}")
        assert abs(int(again["rows"][0][0])) <= SURE * ROWS
        assert account(cluster, "metrics")[leaf(0)] > after[leaf(0)]


@pytest.mark.parametrize(("table", "width"), [("weekly", "7 days"), ("narrow", "30 minutes")])
def test_chunks_may_be_wider_and_narrower_than_partitions(cluster: Cluster, table: str, width: str) -> None:
    """Seven days is TimescaleDB's default; a seal is about values of the key, wherever their rows lie."""
    script = HYPER.replace("metrics", table).replace("INTERVAL '1 day');", f"INTERVAL '{width}');", 1)
    cluster.psql(script, user="boss")
    with cluster.connect("alice") as alice, cluster.connect("boss") as boss:
        assert one(boss, "SELECT count(*) FROM show_chunks(%s)", table) != DAYS
        boss.execute(f"CALL dp.seal_partition('{table}', '2024-01-02 00:00+00')")
        for late in ("2024-01-02 00:00+00", "2024-01-02 23:59:59.999999+00"):
            with refused("42501", "is sealed"):
                boss.execute(f"INSERT INTO {table} VALUES (%s, 9, 0)", [late])
        boss.execute(f"INSERT INTO {table} VALUES ('2024-01-01 23:59:59+00', 0, 0), ('2024-01-03 00:00+00', 0, 0)")
        assert counted(cluster, table, 1) == ROWS
        answer = ask(alice, f"b = 1 AND {day(1, 1)}", table)
        assert answer["notice"]["mechanism"] == "turbo"
        assert abs(int(answer["rows"][0][0]) - ROWS // 10) <= SURE * ROWS


def test_nothing_is_wrong_with_it(cluster: Cluster) -> None:
    with cluster.connect("boss") as boss:
        found = boss.execute("SELECT severity, object, problem FROM dp.check() WHERE object ~ 'metrics|_hyper_'")
        assert [row for row in found.fetchall() if row[0] == "error"] == []


def test_chunks_keep_their_triggers(cluster: Cluster) -> None:
    """What dp._partition_key_held relies on: neither a hypertable nor its chunks can be without the trigger."""
    with cluster.connect("alice") as alice, cluster.connect("boss") as boss:
        chunk = one(boss, "SELECT c::text FROM show_chunks('metrics') c ORDER BY 1 LIMIT 1")
        for table in (chunk, "metrics"):
            with pytest.raises(psycopg.errors.FeatureNotSupported):
                boss.execute(f'ALTER TABLE {table} DISABLE TRIGGER "~dp_partition_key"')
        with refused("42501", "keeps rows in their partition accounts"):
            boss.execute('DROP TRIGGER "~dp_partition_key" ON metrics')
        count(alice, table="metrics", predicate=day(3, 3), epsilon=0.125)
        assert "relation/public.metrics" not in account(cluster, "metrics")
