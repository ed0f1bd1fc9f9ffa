"""dp.retain on hypertables: chunks are dropped, counts stay or go, and answers say which (finding G8)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import fix_chance
from fix_cluster import Cluster, standard_cluster
from fix_ledger import account, balanced, one, refused
from fix_sealing import counted
from fix_turbo import ask

pytestmark = pytest.mark.chance(fix_chance.accuracy(4, 12))

ROWS, DAYS = 1440, 8  # of a day
SURE = 4 * 0.05 * ROWS
GRID = '{"origin": "2024-01-01", "width": "1 day"}'


def made(name: str, chunk: str = "1 day", key: str = "timestamptz", dimension: str = "at", more: str = "") -> str:
    return f"""
    CREATE TABLE {name} (at {key} NOT NULL, other timestamptz NOT NULL DEFAULT '2024-01-01', a int {more});
    SELECT create_hypertable('{name}', '{dimension}', chunk_time_interval => INTERVAL '{chunk}');
    INSERT INTO {name} SELECT TIMESTAMPTZ '2024-01-01 00:00+00' + i * INTERVAL '1 minute', '2024-01-01', i % 4
    FROM generate_series(0, {DAYS * ROWS - 1}) i;
    CALL dp.create_dataset('{name}', epsilon => 20);
    CALL dp.protect('{name}', '{name}', partition_by => 'at', grid => '{GRID}');
    CALL dp.describe_column('{name}', 'at');
    CALL dp.describe_column('{name}', 'a', bounds => '{{0,3}}', nullable => false);
    CALL dp.publish('{name}');
    CALL dp.allot('alice', '{name}', epsilon => 20);
    CALL dp.enable_turbo('{name}', '{{a}}', 0.05, 0.001, 'at', true, scale => {ROWS});
    CALL dp.seal_partitions('{name}', until => '2024-01-09');
    """


def window(first: int, last: int) -> str:
    return f"a = 1 AND at >= '2024-01-{first + 1:02} 00:00+00' AND at < '2024-01-{last + 2:02} 00:00+00'"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    preload = {"shared_preload_libraries": "timescaledb", "timescaledb.max_background_workers": "0"}
    with standard_cluster(**preload, **{"timescaledb.telemetry_level": "off"}, timezone="UTC") as running:
        running.execute("CREATE EXTENSION timescaledb", "GRANT USAGE ON SCHEMA public TO boss")
        yield running


@pytest.fixture(autouse=True)
def _books(cluster: Cluster) -> Iterator[None]:
    yield
    balanced(cluster)


@pytest.fixture
def boss(cluster: Cluster) -> Iterator[psycopg.Connection[Any]]:
    with cluster.connect("boss") as conn:
        yield conn


@pytest.fixture
def alice(cluster: Cluster) -> Iterator[psycopg.Connection[Any]]:
    with cluster.connect("alice") as conn:
        yield conn


def steps(boss: psycopg.Connection[Any], name: str, until: str = "2024-01-04 00:00:00+00") -> list[str]:
    return [row[0] for row in boss.execute("SELECT step FROM dp._removal(%s, %s)", [name, until])]


@pytest.mark.parametrize(
    ("name", "chunk", "left"), [("daily", "1 day", 5), ("weekly", "7 days", 2), ("h", "5 hours", 25)]
)
def test_chunks_before_are_dropped(
    cluster: Cluster, boss: psycopg.Connection[Any], alice: psycopg.Connection[Any], name: str, chunk: str, left: int
) -> None:
    """What a chunk that goes on has of those days is deleted; chunks need not be as wide as partitions."""
    cluster.psql(made(name, chunk), user="boss")
    assert steps(boss, name) == ["drop", "delete", "look"]
    before = account(cluster, name)
    with cluster.connect() as root:
        version = one(root, "SELECT version FROM dp.policy_state")
    boss.execute(f"CALL dp.retain('{name}', '2024-01-04 00:00+00', keep_counts => true)")
    with cluster.connect() as root:
        assert one(root, "SELECT version FROM dp.policy_state") == version
        assert one(root, f"SELECT count(*) FROM {name}") == (DAYS - 3) * ROWS
        assert one(root, f"SELECT min(at) >= '2024-01-04 00:00+00' FROM {name}")
        assert int(one(root, f"SELECT count(*) FROM show_chunks('{name}')")) <= left
    assert account(cluster, name) == before
    answer = ask(alice, name, window(0, 2))
    assert abs(int(answer["rows"][0][0]) - 3 * ROWS // 4) <= 3 * SURE
    assert "counts there are those of the seal" in answer["notice"]["text"]
    boss.execute(f"CALL dp.retain('{name}', '2024-01-03 00:00+00', keep_counts => false)")
    assert [counted(cluster, name, part) for part in range(4)] == [0, 0, ROWS, ROWS]
    answer = ask(alice, name, window(0, 1))
    assert abs(int(answer["rows"][0][0])) <= 2 * SURE and answer["notice"]["charge"]
    assert "none of them is counted" in answer["notice"]["text"]
    with refused("42501", "is sealed"):
        boss.execute(f"INSERT INTO {name} VALUES ('2024-01-02 12:00+00', '2024-01-01', 0)")


def test_a_dropped_chunk_waits_for_readers(cluster: Cluster, boss: psycopg.Connection[Any]) -> None:
    cluster.psql(made("busy"), user="boss")
    with cluster.connect("boss") as reader, reader.transaction():
        reader.execute("SELECT FROM busy LIMIT 1")
        boss.execute("SET lock_timeout = '300ms'")
        with refused("55P03", "still being read"):
            boss.execute("CALL dp.retain('busy', '2024-01-04', keep_counts => true)")
    assert one(boss, "SELECT count(*) FROM busy") == DAYS * ROWS


def test_chunks_of_another_column_are_not_dropped(cluster: Cluster, boss: psycopg.Connection[Any]) -> None:
    """drop_chunks goes by the hypertable's own time, which need not be the key of the partitions."""
    cluster.psql(made("aside", dimension="other"), user="boss")
    assert steps(boss, "aside") == ["delete", "look"]
    boss.execute("CALL dp.retain('aside', '2024-01-04', keep_counts => false)")
    assert one(boss, "SELECT count(*) FROM aside") == (DAYS - 3) * ROWS


def test_nobody_elses_drop_chunks_is_called(cluster: Cluster, boss: psycopg.Connection[Any]) -> None:
    """A function of this name beside the extension's, which the same call would mean, would run as the owner."""
    cluster.psql(made("lured"), user="boss")
    cluster.execute(
        "CREATE FUNCTION public.drop_chunks(relation regclass, older_than timestamptz) RETURNS SETOF text LANGUAGE sql"
        " AS 'SELECT NULL::text WHERE 1 / 0 = 1'"
    )
    try:
        assert steps(boss, "lured") == ["delete", "look"]
        boss.execute("CALL dp.retain('lured', '2024-01-04', keep_counts => true)")
        assert one(boss, "SELECT count(*) FROM lured") == (DAYS - 3) * ROWS
    finally:
        cluster.execute("DROP FUNCTION public.drop_chunks(regclass, timestamptz)")


@pytest.mark.parametrize("key", ["date", "timestamp"])
def test_other_keys(cluster: Cluster, boss: psycopg.Connection[Any], key: str) -> None:
    cluster.psql(made(f"by_{key}", key=key), user="boss")
    boss.execute(f"CALL dp.retain('by_{key}', '2024-01-04', keep_counts => true)")
    assert one(boss, f"SELECT count(*) FROM by_{key}") == (DAYS - 3) * ROWS
    assert one(boss, f"SELECT count(*) FROM show_chunks('by_{key}')") == DAYS - 3
