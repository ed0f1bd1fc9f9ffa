"""Connections that have an older library loaded than `ALTER EXTENSION timescaledb UPDATE` made the database's.

Debian has one version. The next one is made of it: its library by another number, and an update that points to it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from fix_cluster import Cluster
from fix_ledger import charges, one
from fix_stack import Stack, stack_at_work

HYPER = """
CREATE TABLE readings (at timestamptz NOT NULL, device int);
SELECT create_hypertable('readings', 'at', chunk_time_interval => INTERVAL '1 day');
CALL dp.protect('readings', 'people', partition_by => 'at', grid => '{"origin": "2024-01-01", "width": "1 day"}');
CALL dp.describe_column('readings', 'at');
CALL dp.describe_column('readings', 'device', bounds => '{0,9}', nullable => false);
CALL dp.publish('readings');
INSERT INTO readings SELECT TIMESTAMPTZ '2024-01-01 00:00+00' + i * INTERVAL '1 minute', i % 10
  FROM generate_series(0, 2879) i;
"""
COUNT = "SELECT count(*) FROM readings WHERE device < {}"


def _folder(kind: str, cluster: Cluster) -> Path:
    told = subprocess.run([cluster.paths.bindir / "pg_config", f"--{kind}"], capture_output=True, text=True, check=True)
    return Path(told.stdout.strip())


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    def prepare(cluster: Cluster) -> None:
        cluster.execute("CREATE EXTENSION timescaledb", "GRANT USAGE ON SCHEMA public TO boss")
        cluster.psql(HYPER, user="boss")

    preload = {"shared_preload_libraries": "timescaledb", "timescaledb.max_background_workers": "0"}
    with stack_at_work(prepare, **preload, **{"timescaledb.telemetry_level": "off"}) as running:
        yield running


@pytest.fixture
def newer(stack: Stack) -> Iterator[str]:
    """The version after the installed one, which alone an update by name finds."""
    with stack.cluster.connect() as root:
        old = one(root, "SELECT extversion FROM pg_extension WHERE extname = 'timescaledb'")
    new = old[:-1] + chr(ord(old[-1]) + 1)
    made = {
        _folder("pkglibdir", stack.cluster) / f"timescaledb-{new}.so": _renumbered(stack.cluster, old, new),
        _folder("sharedir", stack.cluster) / f"extension/timescaledb--{old}--{new}.sql": (
            f"UPDATE pg_catalog.pg_proc SET probin = replace(probin, 'timescaledb-{old}', 'timescaledb-{new}');"
        ).encode(),
    }
    try:
        for path, content in made.items():
            path.write_bytes(content)
            path.chmod(0o755)
        yield new
    finally:
        for path in made:
            with suppress(FileNotFoundError):
                path.unlink()


def _renumbered(cluster: Cluster, old: str, new: str) -> bytes:
    assert len(new) == len(old)
    library = (_folder("pkglibdir", cluster) / f"timescaledb-{old}.so").read_bytes()
    assert old.encode() in library
    return library.replace(old.encode(), new.encode())


def test_what_is_asked_over_a_warm_connection_is_answered_after_an_update(stack: Stack, newer: str) -> None:
    """The session goes on, nothing is paid twice; a session of one's own, without the proxy, is ended."""
    with stack.connect() as alice, stack.cluster.connect("alice") as direct:
        assert one(alice, COUNT.format(3)) > 0
        assert one(direct, "SELECT dp.dp_count('readings', 'device < 4', epsilon => 0.01)") is not None
        before = charges(stack.cluster)
        stack.cluster.psql(f"ALTER EXTENSION timescaledb UPDATE TO '{newer}'")  # in a session of its own
        assert one(alice, COUNT.format(5)) > 0
        assert charges(stack.cluster) == before + 1
        assert "what it was asked is asked again" in stack.log
        assert one(alice, COUNT.format(6)) > 0
        with pytest.raises(psycopg.errors.DuplicateObject, match="already loaded with a different version"):
            direct.execute("SELECT dp.dp_count('readings', 'device < 4', epsilon => 0.01)")  # the control
    with stack.connect("bob") as bob:
        assert one(bob, COUNT.format(7)) > 0
    assert stack.log.count("what it was asked is asked again") == 1
    with stack.cluster.connect() as root:
        problems = "SELECT count(*) FROM dp.check() WHERE object ~ 'timescaledb' AND severity = 'error'"
        assert one(root, problems) == 0
