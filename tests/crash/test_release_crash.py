"""A release in steps over crashes of the server: committed steps stay, nobody pays twice, nothing is drawn twice."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress

import psycopg
import pytest

from fix_cluster import Cluster, standard_cluster
from fix_ledger import balanced, spent
from fix_steps import HELD, HOLDING, held, let_go
from fix_waiting import backends, soon

DRAFTS = (
    "SELECT d.step, d.released FROM dp.draft d JOIN dp.ledger l USING (request_id)"
    " WHERE l.request -> 'release' ->> 'name' = %s ORDER BY d.step"
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with standard_cluster() as running:
        running.psql(HOLDING)
        running.execute("UPDATE dp.role_allotment SET epsilon = 5")
        yield running


def question(name: str, rounds: int) -> bytes:
    """Its number of rounds makes it another question than the others."""
    return (
        f"SELECT * FROM dp.dp_release_numeric('{name}', 'SELECT count(*) FROM people WHERE sex = $1', '{{f,m,x}}',"
        f" epsilon => 0.25, mechanism => 'alg2', options => '{{\"rounds\": {rounds}}}')"
    ).encode()


def drafts(cluster: Cluster, name: str) -> list[tuple[int, list[int]]]:
    with cluster.connect() as root:
        return root.execute(DRAFTS.encode(), [name]).fetchall()


@pytest.mark.parametrize(("step", "rounds"), [(1, 3), (3, 4), (7, 5)])
def test_a_crash_in_a_step_loses_that_step_alone(cluster: Cluster, step: int, rounds: int) -> None:
    """In the first, in a round, in the last."""
    name, before = f"of_{rounds}", spent(cluster)

    def ask() -> None:
        with suppress(psycopg.Error), cluster.connect("alice") as alice:
            alice.execute(question(name, rounds))

    with held(cluster, step):
        asking = threading.Thread(target=ask)
        asking.start()
        with cluster.connect() as root:
            assert soon(lambda: backends(root, HELD))
        cluster.stop("immediate")
        asking.join()
        cluster.start()
    let_go(cluster)
    first = drafts(cluster, name)
    assert [number for number, _ in first] == list(range(1, step))
    with cluster.connect("alice") as alice:
        rows = alice.execute(question(name, rounds)).fetchall()
    whole = drafts(cluster, name)
    assert [number for number, _ in whole] == list(range(1, rounds + 3)) and whole[: step - 1] == first
    assert all(low is not None and high is not None for _, _, _, low, high, _ in rows)
    assert float(spent(cluster) - before) == 0.25
    balanced(cluster)
