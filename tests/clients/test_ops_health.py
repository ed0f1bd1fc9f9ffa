"""/healthz, pg_epsilon_serving and `proxy --check` tell the truth that dp.check() tells (finding A7)."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fix_cluster import CHANGED_PASSWORD, PRIVATE
from fix_ops import Proxy, databases_at_work, proxy_at_work
from fix_stack import Stack
from fix_waiting import LOCKED, PATIENCE, soon


@pytest.fixture(scope="module")
def databases() -> Iterator[Stack]:
    with databases_at_work() as stack:
        yield stack


def status(proxy: Proxy) -> int:
    place = f"http://127.0.0.1:{proxy.settings['metrics']['port']}/healthz"
    try:
        with urllib.request.urlopen(place, timeout=PATIENCE) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code
    except (OSError, http.client.HTTPException):  # a scrape that takes too long is closed: asked again
        return 0


STATES = {
    "a changed password": (CHANGED_PASSWORD, "CALL dp.repair_channel()"),
    "no channel": ("DROP SERVER dp_ledger CASCADE", "CALL dp.repair_channel()"),
    "SQL_ASCII": (
        f"UPDATE pg_database SET encoding = 0 WHERE datname = '{PRIVATE}'",
        f"UPDATE pg_database SET encoding = 6 WHERE datname = '{PRIVATE}'",
    ),
}


def unhealthy_meanwhile(databases: Stack, proxy: Proxy, name: str) -> None:
    make, repair = STATES[name]
    assert soon(lambda: status(proxy) == 200), proxy.log
    told = len(proxy.events("nothing can be answered"))
    databases.cluster.execute(make)
    try:
        assert soon(lambda: status(proxy) == 503)
        assert proxy.metrics()["pg_epsilon_serving"] == 0
        assert len(proxy.events("nothing can be answered")) == told + 1, "told once"
        checked = databases.cli("proxy", "--check")
        assert checked.returncode == 1
        assert "nothing can be answered: " in checked.stderr
        assert "Traceback" not in checked.stderr
    finally:
        databases.cluster.execute(repair)
    assert proxy.counts({"pg_epsilon_serving": 1})
    assert status(proxy) == 200


def test_not_healthy_while_nothing_can_be_answered(databases: Stack, tmp_path: Path) -> None:
    with proxy_at_work(databases, tmp_path, metrics={"port": "free"}) as proxy:
        for name in STATES:
            unhealthy_meanwhile(databases, proxy, name)
    checked = databases.cli("proxy", "--check")
    assert checked.returncode == 0, checked.stderr


def test_several_workers_are_as_healthy_as_one(databases: Stack, tmp_path: Path) -> None:
    with proxy_at_work(databases, tmp_path, metrics={"port": "free"}, process={"workers": 2}) as proxy:
        unhealthy_meanwhile(databases, proxy, "a changed password")


def test_busy_is_not_broken(databases: Stack, tmp_path: Path) -> None:
    """The control: a question that waits holds the whole pool, and the proxy stays healthy."""
    few = {"pool_size": 1, "pool_warm": 1}
    with (
        proxy_at_work(databases, tmp_path, metrics={"port": "free"}, private=few) as proxy,
        databases.cluster.connect(autocommit=False) as locker,
        databases.cluster.connect() as root,
        proxy.connect() as alice,
        ThreadPoolExecutor(1) as pool,
    ):
        assert soon(lambda: status(proxy) == 200), proxy.log
        locker.execute("LOCK TABLE people IN ACCESS EXCLUSIVE MODE")
        asked = pool.submit(alice.execute, "SELECT count(*) FROM people WHERE age > 77")
        waiting = f"SELECT count(*) FROM pg_stat_activity WHERE usename ~ '^dp_channel_' AND {LOCKED}"
        assert soon(lambda: root.execute(waiting).fetchone() != (0,))
        assert status(proxy) == 200
        locker.rollback()
        asked.result()
