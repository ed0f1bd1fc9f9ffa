"""More chunks than the server's lock table has room for (composition.md 10.3 a): findings G8.

The tables are filled while it is large; then it is made small, so that 960 chunks do not fit into it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from fix_cluster import Cluster, standard_cluster
from fix_ledger import charges, forgive, no_charge, one, refused

CHUNKS = 960
HOURLY = """
CREATE TABLE {0} (at timestamptz NOT NULL, device int);
SELECT create_hypertable('{0}', 'at', chunk_time_interval => INTERVAL '1 hour');
CALL dp.protect('{0}', 'people', partition_by => 'at', grid => '{{"origin": "2024-01-01", "width": "1 day"}}');
CALL dp.describe_column('{0}', 'at'{1});
CALL dp.describe_column('{0}', 'device', bounds => '{{0,9}}', nullable => false);
CALL dp.publish('{0}');
"""
BOUNDS = ", bounds => '{2024-01-01 00:00+00,2024-02-10 00:00+00}', nullable => false"
ROWS = (
    "INSERT INTO {0} SELECT TIMESTAMPTZ '2024-01-01 00:00+00' + i * INTERVAL '1 hour', i % 10"
    " FROM generate_series({1}, {2}) i"
)
COUNT = "SELECT dp.dp_count('{0}', '{1}', epsilon => 0.01, fresh => true)"
WEEK = "at >= ''2024-01-08 00:00+00'' AND at < ''2024-01-15 00:00+00''"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    settings = {"shared_preload_libraries": "timescaledb", "timescaledb.max_background_workers": "0"}
    settings |= {"timescaledb.telemetry_level": "off", "max_locks_per_transaction": "200", "max_connections": "30"}
    with standard_cluster(**settings) as running:
        running.execute("CREATE EXTENSION timescaledb", "GRANT USAGE ON SCHEMA public TO boss")
        with running.connect("boss") as boss:
            for table, bounds in (("declared", BOUNDS), ("undeclared", ""), ("empty", BOUNDS)):
                boss.execute(HOURLY.format(table, bounds).encode())
                for first in range(0, 0 if table == "empty" else CHUNKS, 120):
                    boss.execute(ROWS.format(table, first, first + 119).encode())
        _locks(running, 10)
        yield running


def _locks(cluster: Cluster, number: int) -> None:
    cluster.execute(f"ALTER SYSTEM SET max_locks_per_transaction = {number}")
    cluster.stop("fast")
    cluster.start()


def warned(cluster: Cluster) -> dict[str, tuple[str, str]]:
    """What dp.check() says of locks, by relation: the problem and its hint."""
    with cluster.connect("boss") as boss:
        found = boss.execute("SELECT object, problem, hint FROM dp.check() WHERE problem ~ 'locks'").fetchall()
    return {row[0]: (row[1], row[2]) for row in found}


def hint_of(asking: psycopg.Connection[Any], question: str) -> str:
    with pytest.raises(psycopg.Error) as raised:
        asking.execute(question.encode())
    assert raised.value.sqlstate == "DP003"
    return raised.value.diag.message_hint or ""


def test_declared_chunks_without_room_are_refused_by_number(cluster: Cluster) -> None:
    """Before the charge, with what fits; alike whether the chunks are there or not, and no event however often."""
    with cluster.connect("alice") as alice:
        for table in ("declared", "empty"):
            with no_charge(cluster), refused("DP003", f"may read 962 chunks of public.{table}, and locks 1,924"):
                alice.execute(COUNT.format(table, "device < 5").encode())
        hints = {
            hint_of(alice, COUNT.format(table, f"device < {i}")) for table in ("declared", "empty") for i in range(1, 4)
        }
        assert len(hints) == 1 and "Narrow it by a condition on at, to at most" in hints.pop()
        with refused("DP003", "may read 962 chunks"):  # EXPLAIN says so too
            alice.execute("SELECT dp.dp_plan(dp.dp_count_request('declared', 'device < 5', epsilon => 0.01))")
        assert one(alice, COUNT.format("declared", WEEK)) is not None
    with cluster.connect() as root:
        assert one(root, "SELECT count(*) FROM dp.closed_question") == 0


def test_undeclared_ones_fail_before_the_charge(cluster: Cluster) -> None:
    """How many there are, a row decides: that it does not fit is an event, which costs nothing (10.3 d)."""
    before = charges(cluster)
    with cluster.connect("alice") as alice:
        with refused("DP006", "this question is closed"):
            alice.execute(COUNT.format("undeclared", "device < 5").encode())
        assert charges(cluster) == before
        assert one(alice, COUNT.format("undeclared", WEEK)) is not None
    forgive(cluster)


def test_the_owner_is_told_before_anybody_asks(cluster: Cluster) -> None:
    told = warned(cluster)
    assert set(told) == {"public.declared", "public.undeclared"}
    assert re.fullmatch(
        r"a question that reads all of its chunks locks 192\d relations; the server has room for \d+",
        told["public.undeclared"][0],
    )
    assert "With bounds of at declared" in told["public.undeclared"][1]


def test_what_the_hint_says_is_enough(cluster: Cluster) -> None:
    """Last in this file: the cluster is started with more room."""
    with cluster.connect("alice") as alice:
        hint = hint_of(alice, COUNT.format("declared", "device < 5"))
    number = re.search(r"max_locks_per_transaction = (\d+)", hint)
    assert number is not None
    _locks(cluster, int(number[1]))
    with cluster.connect("alice") as alice:
        assert one(alice, COUNT.format("declared", "device < 5")) is not None
        assert one(alice, COUNT.format("undeclared", "device < 6")) is not None
    assert warned(cluster) == {}
