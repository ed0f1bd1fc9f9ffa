"""A published relation that the facade cannot be made with: it is not served, and everything else is (findings G2)."""

from __future__ import annotations

import logging
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

pytestmark = pytest.mark.chance(fix_chance.laplace(10, 249, 2))

# earthdistance is not trusted: the facade's owner may not make it, so far.home and far.town have no type there.
FAR = """
CREATE SCHEMA far; GRANT USAGE ON SCHEMA far TO dp_owner, dp_reader; GRANT CREATE, USAGE ON SCHEMA far TO boss;
CREATE EXTENSION cube SCHEMA far; CREATE EXTENSION earthdistance SCHEMA far;
CREATE TABLE far.home (id int, place far.earth); INSERT INTO far.home SELECT 4711 FROM generate_series(1, 9);
CREATE TABLE far.town (name text, place far.earth); INSERT INTO far.town VALUES ('zecret', NULL);
ALTER TABLE far.home OWNER TO boss; ALTER TABLE far.town OWNER TO boss;
"""
PUBLISH = """
CALL dp.protect('far.home', 'people', max_rows => 10, scale => 10); CALL dp.publish('far.home');
CALL dp.publish('far.town', kind => 'public');
"""
GAUGE = "pg_epsilon_relations_left_out"
ASKED = [
    "SELECT count(*) FROM far.home",
    "SELECT * FROM far.home",
    "SELECT count(*) FROM people WHERE EXISTS (SELECT FROM far.home)",
    "WITH h AS (SELECT id FROM far.home) SELECT count(*) FROM h",
    "SELECT * FROM far.town",
    "SELECT count(*) FROM people JOIN far.town ON true",
    "TABLE far.town",
    "COPY (SELECT * FROM far.town) TO STDOUT",
    "COPY far.home TO STDOUT",
    "EXPLAIN SELECT count(*) FROM far.home",
    "PREPARE p AS SELECT count(*) FROM far.home",
    "CREATE TEMP VIEW v AS SELECT * FROM far.town",
    "BEGIN; SELECT count(*) FROM far.home",
    "SELECT dp_count('far.home', epsilon => 0.1)",
    "SELECT * FROM dp_group_by('far.town', '{name}')",
    "SET search_path = far, dp; SELECT dp.dp_count('home')",
    "SELECT 1; SELECT name FROM far.town",
    "SET search_path = far, dp; SELECT name FROM town",
]


@pytest.fixture(scope="module")
def config(cluster: Cluster) -> Config:
    return Config(
        listen=Listen(port=0),
        facade=Facade(port=cluster.port),
        private=Private(port=cluster.port, dbname=PRIVATE, password=PASSWORD),
    )


def command(cluster: Cluster, *words: str, host: str = "127.0.0.1") -> subprocess.CompletedProcess[str]:
    environment = {
        "PYTHONPATH": ":".join(sys.path),
        "PG_EPSILON_PRIVATE_HOST": host,
        "PG_EPSILON_FACADE_HOST": host,
        "PG_EPSILON_PRIVATE_PORT": str(cluster.port),
        "PG_EPSILON_FACADE_PORT": str(cluster.port),
        "PG_EPSILON_PRIVATE_PASSWORD": PASSWORD,
        "PG_EPSILON_FACADE_SOURCE_HOST": "127.0.0.1",
    }
    words = (sys.executable, "-m", "pg_epsilon_proxy.cli", *words)
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=240, check=False)


def serving(config: Config) -> Iterator[ThreadedProxy]:
    pool = UpstreamPool(replace(config))
    running = ThreadedProxy(config, Directory.of(pool), FacadeSource(config), before=pool.open)
    yield running
    running.call(pool.close())
    running.close()


@pytest.fixture(scope="module")
def proxy(config: Config, cluster: Cluster) -> Iterator[ThreadedProxy]:
    """It served before; then an owner publishes what it cannot show."""
    assert command(cluster, "facade", "create", host=str(cluster.folder)).returncode == 0
    running = serving(config)
    yield (served := next(running))
    next(running, None)
    assert served is not None


@pytest.fixture(scope="module")
def told(proxy: ThreadedProxy, cluster: Cluster) -> list[dict[str, Any]]:
    """What the proxy writes to its log when the policy asks for too much."""
    seen: list[dict[str, Any]] = []

    class Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append({"event": record.getMessage(), **getattr(record, "fields", {})})

    log, keeper = logging.getLogger("pg_epsilon_proxy.policy"), Keeper()
    log.addHandler(keeper)
    try:
        cluster.execute(FAR)
        cluster.psql(PUBLISH, user="boss")
        assert soon(lambda: proxy.server.metrics.get(GAUGE) == 2)
    finally:
        log.removeHandler(keeper)
    return seen


@pytest.fixture
def alice(proxy: ThreadedProxy, told: list[dict[str, Any]]) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(**proxy.conninfo(dbname=PRIVATE, autocommit=True)) as connection:
        yield connection


def test_all_others_are_served(proxy: ThreadedProxy, alice: psycopg.Connection[Any]) -> None:
    """780 people are older than 30; at epsilon 0.1 the noise exceeds 250 with probability under 2e-11."""
    row = alice.execute("SELECT count(*) FROM people WHERE age > 30").fetchone()
    assert row is not None and abs(row[0] - 780) < 250
    assert proxy.server.policy.serving and proxy.server.metrics.get("pg_epsilon_serving") == 1


def test_the_log_says_what_and_why(told: list[dict[str, Any]]) -> None:
    """Names, SQLSTATE and what PostgreSQL said of the CREATE; once. No row."""
    lines = [fields for fields in told if fields["event"] == "left out of the facade"]
    last = {fields["item"]: (fields["part"], fields["sqlstate"]) for fields in lines}
    assert last == {
        "earthdistance": ("extensions", "42501"),
        "far.home": ("relations", "42704"),
        "far.town": ("relations", "42704"),
    }
    assert any("permission denied to create extension" in fields["why"] for fields in lines)
    assert "zecret" not in str(told) and "4711" not in str(told)


@pytest.mark.parametrize("sql", ASKED)
@pytest.mark.parametrize("extended", [False, True])
def test_who_asks_it_is_told(alice: psycopg.Connection[Any], sql: str, extended: bool) -> None:
    """In either protocol; nothing is charged, and no value is in what he reads."""
    before = alice.execute("SELECT b FROM dp.budget b WHERE dataset = 'people'").fetchone()
    *first, last = sql.split("; ") if extended else [sql]
    for statement in first:
        alice.execute(statement)
    with pytest.raises(psycopg.Error) as caught:
        if sql.startswith("COPY"):
            with alice.cursor().copy(sql) as copy:
                copy.read()
        else:
            alice.execute(last, (), prepare=extended) if extended else alice.execute(last)
    diag = caught.value.diag
    assert diag.sqlstate == "DP006" and "published but not served" in (diag.message_primary or "")
    assert "log" in (diag.message_hint or "")
    assert not {"4711", "zecret"} & set(str(caught.value).split())
    alice.execute("ROLLBACK")
    assert alice.execute("SELECT b FROM dp.budget b WHERE dataset = 'people'").fetchone() == before


@pytest.mark.parametrize(
    "sql",
    [
        "DO $$ BEGIN PERFORM * FROM far.town; END $$",
        "SELECT pg_catalog.query_to_xml('SELECT * FROM far.home', true, true, '')",
    ],
)
def test_what_the_proxy_does_not_read_finds_nothing(alice: psycopg.Connection[Any], sql: str) -> None:
    with pytest.raises((psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName)):
        alice.execute(sql)


def test_a_table_of_the_analysts_own_of_that_name_is_his(alice: psycopg.Connection[Any]) -> None:
    """And so is a CTE; a name in another schema means what it meant."""
    alice.execute("CREATE TEMP TABLE home AS SELECT 7 AS id")
    assert alice.execute("SELECT id FROM home").fetchone() == (7,)
    assert alice.execute("WITH town AS (SELECT 8 AS n) SELECT n FROM town").fetchone() == (8,)
    for statement in ("DROP TABLE home", "CREATE TEMP TABLE home (id int)", "INSERT INTO home VALUES (9)"):
        alice.execute(statement)
    assert alice.execute("SELECT id FROM home").fetchone() == (9,)
    for statement in ("DROP TABLE IF EXISTS town", "CREATE TEMP VIEW town AS SELECT 10 AS n"):
        alice.execute(statement)
    assert alice.execute("SELECT n FROM town").fetchone() == (10,)


def test_a_proxy_that_starts_meanwhile_serves_too(config: Config, told: list[dict[str, Any]]) -> None:
    running = serving(config)
    other = next(running)
    assert other.server.policy.serving and other.server.metrics.get(GAUGE) == 2
    refused = pytest.raises(psycopg.Error, match="published but not served")
    with psycopg.connect(**other.conninfo(dbname=PRIVATE, autocommit=True)) as conn, refused:
        conn.execute("SELECT count(*) FROM far.home")
    next(running, None)


def test_the_command_says_it_and_brings_it_back(
    cluster: Cluster, proxy: ThreadedProxy, alice: psycopg.Connection[Any]
) -> None:
    """The last of this file: with the extension there, one command serves both, in this running proxy too."""
    done = command(cluster, "facade", "check")
    assert (done.returncode, done.stderr) == (0, "")
    assert "left out of the facade (relations): far.home: type" in done.stdout
    cluster.execute("CREATE EXTENSION earthdistance SCHEMA far", dbname="facade")
    done = command(cluster, "facade", "sync")
    assert (done.returncode, done.stderr) == (0, "") and "left out" not in done.stdout
    assert soon(lambda: proxy.server.metrics.get(GAUGE) == 0)
    assert alice.execute("SELECT name FROM far.town").fetchone() == ("zecret",)
    row = alice.execute("SELECT count(*) FROM far.home").fetchone()
    assert row is not None and abs(row[0] - 9) < 250
