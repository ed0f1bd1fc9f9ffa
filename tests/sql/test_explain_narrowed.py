"""Groups that a WHERE made few enough to list are compared and explained like others (spec/dpxplain.md §0)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import fix_chance
from fix_cluster import Cluster, standard_cluster
from fix_ledger import no_charge, one

Connection = psycopg.Connection[Any]

# Thirty years by minutes cannot be listed; ten minutes are asked for. In the second one are 400 calls of kind
# x and 100 of kind y, in each other one 100 of y.
CALLS = """
CREATE TABLE call (id int PRIMARY KEY, at timestamp, kind text);
INSERT INTO call SELECT i, timestamp '2024-05-05 10:00' + i % 10 * interval '1 min', 'y'
  FROM generate_series(1, 1000) i;
INSERT INTO call SELECT i, timestamp '2024-05-05 10:01', 'x' FROM generate_series(1001, 1400) i;
CALL dp.create_dataset('call', unit => 'row', epsilon => 1000);
CALL dp.protect('call', 'call', max_rows => 10000);
CALL dp.describe_column('call', 'at', bounds => '{2000-01-01,2030-01-01}', nullable => false);
CALL dp.describe_column('call', 'kind', domain => '{x,y}', nullable => false);
CALL dp.publish('call'); CALL dp.allot('alice', 'call', epsilon => 900);
"""
MINUTE = "date_bin('1 minute', at, '2000-01-01')"
HOUR = "at >= '2024-05-05 10:00' AND at < '2024-05-05 10:10'"
PAIR = "'2024-05-05 10:01:00', '2024-05-05 10:02:00'"
SURE = "confidence => 0.99999999"
pytestmark = pytest.mark.chance(fix_chance.union(1e-8, fix_chance.beyond(30, 60)))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with standard_cluster() as running:
        running.psql(CALLS, user="boss")
        yield running


@pytest.fixture(scope="module")
def alice(cluster: Cluster) -> Iterator[Connection]:
    """A session whose last release is by minutes; one by minutes and kinds was paid before."""
    with cluster.connect("alice") as connection:
        for keys in ([MINUTE, "kind"], [MINUTE]):
            call = "SELECT * FROM dp.dp_group_by('call', %s, '{count(*)}', %s, epsilon => 30)"
            connection.execute(call, (keys, HOUR))
        yield connection


def test_two_minutes_are_compared(cluster: Cluster, alice: Connection) -> None:
    with no_charge(cluster):
        call = f"SELECT verdict, low, high FROM dp.dp_compare({PAIR}, {SURE})"
        ((verdict, low, high),) = alice.execute(call).fetchall()
    assert verdict == "yes"
    assert low <= 400 <= high < low + 20


def test_what_makes_the_difference(cluster: Cluster, alice: Connection) -> None:
    rows = alice.execute(f"SELECT * FROM dp.dp_explain_difference({PAIR}, epsilon => 30, k => 2)").fetchall()
    assert rows[0][0] == "kind = 'x'"


def test_from_what_was_paid(cluster: Cluster, alice: Connection) -> None:
    with no_charge(cluster):
        rows = alice.execute(
            f"SELECT * FROM dp.dp_explain_difference({PAIR}, source => 'paid', k => 2, confidence => 0.999999)"
        ).fetchall()
    assert rows[0][0] == "kind = 'x'"
    assert one(alice, "SELECT path FROM dp.last_answer") == "stored release"
