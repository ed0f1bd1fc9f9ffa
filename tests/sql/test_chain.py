"""The chain: every ledger row and every release is one link, numbered without gaps (composition.md §12)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from fix_cluster import Cluster, private_cluster, standard
from fix_ledger import count, one, refused

UNLINKED = (
    "SELECT (SELECT count(*) FROM dp.ledger l WHERE NOT EXISTS (SELECT FROM dp.chain c WHERE c.kind = l.kind"
    " AND c.dataset = l.dataset AND c.request_id = l.request_id)),"
    " (SELECT count(*) FROM dp.release r WHERE NOT EXISTS (SELECT FROM dp.chain c WHERE c.kind = 'release'"
    " AND c.dataset = r.dataset AND c.request_id = r.request_id))"
)
GAPS = (
    "SELECT h.dataset FROM dp.chain_head h JOIN dp.chain c USING (dataset) GROUP BY h.dataset, h.number"
    " HAVING count(*) <> h.number OR max(c.number) <> h.number"
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster of this file's own: its tests alter rows that nothing else may alter."""
    with private_cluster() as running:
        standard(running)
        yield running


def kinds(conn: psycopg.Connection[Any], dataset: str = "people") -> list[str]:
    sql = "SELECT kind FROM dp.chain WHERE dataset = %s ORDER BY number"
    return [row[0] for row in conn.execute(sql, [dataset])]


def test_a_charge_and_its_release_are_two_links(cluster: Cluster) -> None:
    with cluster.connect() as root, cluster.connect("alice") as alice:
        before = kinds(root)
        count(alice, epsilon=0.01)
        assert kinds(root) == [*before, "charge", "release"]
        one(alice, "SELECT dp.dp_count('people', 'age > 77', epsilon => 0.01)")
        was = kinds(root)
        one(alice, "SELECT dp.dp_count('people', 'age > 77', epsilon => 0.01)")
        assert kinds(root) == was, "a stored answer is no link"
        with refused("DP001"):
            count(alice, epsilon=900)
        assert kinds(root) == was, "a refusal is no link"
        assert root.execute(UNLINKED).fetchone() == (0, 0)
        assert root.execute(GAPS).fetchall() == []


def test_every_kind_of_row_is_linked(cluster: Cluster) -> None:
    """Returns, imports, declassified copies, transfers and Turbo's payments: nothing is left out, nothing is twice."""
    cluster.psql(
        "CREATE TABLE people_syn (LIKE people); CALL dp.register_synthetic('people', 'people_syn', 'declassified');"
        "CALL dp.register_synthetic('people', 'people_syn', 'dp', 0.1, proof => 'p');"
        "CREATE TABLE moved (id int PRIMARY KEY); CALL dp.create_dataset('one', epsilon => 1);"
        "CALL dp.create_dataset('two', epsilon => 2); CALL dp.protect('moved', 'one'); CALL dp.publish('moved');"
        "CALL dp.allot('alice', 'one', epsilon => 1);",
        user="boss",
    )
    with cluster.connect("alice") as alice:
        count(alice, table="moved", epsilon=0.5)
    cluster.psql("CALL dp.unprotect('moved'); CALL dp.protect('moved', 'two');", user="boss")
    with cluster.connect() as root:
        found = set(kinds(root)) | set(kinds(root, "two"))
        assert found >= {"charge", "release", "import", "declassified", "transfer"}
        assert root.execute(UNLINKED).fetchone() == (0, 0)
        assert root.execute(GAPS).fetchall() == []
        assert one(root, "SELECT count(*) FROM dp.chain") == one(
            root, "SELECT count(DISTINCT (request_id, kind)) FROM dp.chain"
        )


def test_whoever_rolls_back_leaves_no_gap(cluster: Cluster) -> None:
    with cluster.connect() as root:
        before = kinds(root)
        with cluster.connect("boss", autocommit=False) as boss:
            boss.execute("CALL dp.register_synthetic('people', 'people_syn', 'declassified')")
            boss.rollback()
        assert kinds(root) == before
        with cluster.connect("alice") as alice:
            count(alice)
        assert kinds(root) == [*before, "charge", "release"]
        assert root.execute(GAPS).fetchall() == []


@pytest.mark.parametrize("table", ["chain", "chain_head"])
def test_links_are_not_altered(cluster: Cluster, table: str) -> None:
    with cluster.connect() as root:
        with refused("42501", "append-only"):
            root.execute(f"DELETE FROM dp.{table}")
        with refused("42501", "append-only"):
            root.execute(f"TRUNCATE dp.{table} CASCADE")
    with cluster.connect() as root, refused("42501", "append-only"):
        root.execute("UPDATE dp.chain SET number = number + 1")
    for role in ("alice", "boss"):
        with cluster.connect(role) as other, refused("42501", hint=False):
            other.execute(f"SELECT * FROM dp.{table}")
