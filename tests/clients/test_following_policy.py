"""The proxy follows a real private database's policy, and serves nobody while the net has a hole (§4, §5)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import psycopg
import pytest

import fix_chance
from fix_cluster import PASSWORD, PRIVATE, Cluster
from fix_proxy import ThreadedProxy
from fix_waiting import soon
from pg_epsilon_proxy.config import Config, Facade, Listen, Private
from pg_epsilon_proxy.policy import FacadeSource
from pg_epsilon_proxy.server import Directory
from pg_epsilon_proxy.upstream import UpstreamPool

pytestmark = pytest.mark.chance(fix_chance.laplace(10, 249, 4))


@pytest.fixture(scope="module")
def config(cluster: Cluster) -> Config:
    return Config(
        listen=Listen(port=0),
        facade=Facade(port=cluster.port),
        private=Private(port=cluster.port, dbname=PRIVATE, password=PASSWORD),
    )


def command(config: Config, cluster: Cluster, *words: str, host: str = "127.0.0.1") -> subprocess.CompletedProcess[str]:
    environment = {
        "PYTHONPATH": ":".join(sys.path),
        "PG_EPSILON_PRIVATE_HOST": host,
        "PG_EPSILON_FACADE_HOST": host,
        "PG_EPSILON_PRIVATE_PORT": str(cluster.port),
        "PG_EPSILON_FACADE_PORT": str(cluster.port),
        "PG_EPSILON_PRIVATE_PASSWORD": PASSWORD,
    }
    words = (sys.executable, "-m", "pg_epsilon_proxy.cli", *words)
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=240, check=False)


@pytest.fixture(scope="module")
def proxy(config: Config, cluster: Cluster) -> Iterator[ThreadedProxy]:
    assert command(config, cluster, "facade", "create", host=str(cluster.folder)).returncode == 0
    pool = UpstreamPool(replace(config))
    running = ThreadedProxy(config, Directory.of(pool), FacadeSource(config), before=pool.open)
    yield running
    running.call(pool.close())
    running.close()


@pytest.fixture
def alice(proxy: ThreadedProxy) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(**proxy.conninfo(dbname=PRIVATE, autocommit=True)) as connection:
        yield connection


@pytest.mark.parametrize("parameters", [None, (30,)])
def test_a_count_through_everything(alice: psycopg.Connection[Any], parameters: tuple[int] | None) -> None:
    """780 people are older than 30; at epsilon 0.1 the noise exceeds 250 with probability under 2e-11."""
    sql = "SELECT count(*) FROM people WHERE age > " + ("%s" if parameters else "30")
    row = alice.execute(sql, parameters).fetchone()
    assert row is not None and abs(row[0] - 780) < 250


def test_command_line_says_that_all_is_well(config: Config, cluster: Cluster, proxy: ThreadedProxy) -> None:
    for words in (("facade", "sync"), ("facade", "check"), ("proxy", "--check")):
        done = command(config, cluster, *words)
        assert (done.returncode, done.stderr) == (0, ""), words


def test_a_new_publication_arrives_while_serving(cluster: Cluster, alice: psycopg.Connection[Any]) -> None:
    cluster.psql(
        "CREATE TABLE fresh (n int); CALL dp.protect('fresh', 'people', max_rows => 10, scale => 10);"
        "CALL dp.describe_column('fresh', 'n', bounds => '{0,9}'); CALL dp.publish('fresh');",
        user="boss",
    )

    def answered() -> bool:
        try:
            return alice.execute("SELECT count(*) FROM fresh").fetchone() is not None
        except psycopg.DatabaseError as error:
            # Until the table is there, and then until the new rewriter is: an error, never a 0.
            assert error.sqlstate in ("42P01", "DP002")
            return False

    assert soon(answered)


def test_a_hole_in_the_net_ends_every_session(
    cluster: Cluster, proxy: ThreadedProxy, alice: psycopg.Connection[Any]
) -> None:
    cluster.execute("ALTER TABLE people NO FORCE ROW LEVEL SECURITY", dbname="facade")
    try:
        cluster.execute("NOTIFY pg_epsilon_policy")
        assert soon(lambda: not proxy.server.policy.serving)
        with pytest.raises(psycopg.DatabaseError, match="the proxy is not ready"):
            alice.execute("SELECT 1")
        with pytest.raises(psycopg.OperationalError, match="the proxy is not ready"):
            psycopg.connect(**proxy.conninfo(dbname=PRIVATE))
    finally:
        cluster.execute("ALTER TABLE people FORCE ROW LEVEL SECURITY", dbname="facade")
    assert soon(lambda: proxy.server.policy.serving)
