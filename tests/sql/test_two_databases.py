"""Several private databases in one cluster: a channel each, and none breaks another's (findings B4)."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from fix_cluster import PRIVATE, Cluster, private_cluster, standard
from fix_ledger import balanced, count, one, refused

SECOND = "second"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with private_cluster() as running:
        standard(running)
        running.install(SECOND)
        running.execute(f"GRANT CONNECT, CREATE ON DATABASE {SECOND} TO boss, dp_analyst", dbname=SECOND)
        running.execute("GRANT CREATE ON SCHEMA public TO boss", dbname=SECOND)
        running.psql(
            "CREATE TABLE people (id int PRIMARY KEY); INSERT INTO people SELECT generate_series(1, 50);"
            "CALL dp.create_dataset('people', epsilon => 1); CALL dp.protect('people', 'people');"
            "CALL dp.publish('people'); CALL dp.allot('alice', 'people', epsilon => 1)",
            user="boss",
            dbname=SECOND,
        )
        yield running


def ask_both(cluster: Cluster) -> None:
    for dbname in (PRIVATE, SECOND):
        with cluster.connect("alice", dbname) as alice:
            count(alice)
        with cluster.connect("boss", dbname) as boss:
            about = "SELECT problem FROM dp.check() WHERE object ~ 'dp_ledger|dp_channel' AND severity = 'error'"
            assert boss.execute(about).fetchall() == []


def test_both_answer(cluster: Cluster) -> None:
    ask_both(cluster)
    balanced(cluster)
    assert cluster.channel(PRIVATE) != cluster.channel(SECOND)


@pytest.mark.parametrize("dbname", [PRIVATE, SECOND])
def test_repairing_one_leaves_the_other(cluster: Cluster, dbname: str) -> None:
    cluster.psql("CALL dp.repair_channel()", dbname=dbname)
    ask_both(cluster)


def test_a_channel_enters_its_own_database_only(cluster: Cluster) -> None:
    with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
        cluster.connect(cluster.channel(PRIVATE), SECOND)
    with pytest.raises(psycopg.OperationalError, match="not permitted to log in"):
        cluster.connect("dp_channel", SECOND)


def test_the_login_of_a_dropped_database_goes(cluster: Cluster) -> None:
    cluster.install("third")
    login = cluster.channel("third")
    cluster.execute("DROP DATABASE third WITH (FORCE)", dbname="postgres")
    cluster.psql("CALL dp.repair_channel()")
    with cluster.connect() as root:
        assert one(root, "SELECT count(*) FROM pg_roles WHERE rolname = %s", login) == 0
    ask_both(cluster)
    with cluster.connect("alice") as alice, refused("42501", hint=False):
        alice.execute(f"SET ROLE {cluster.channel()}")
