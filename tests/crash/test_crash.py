"""Killed clients and backends, restarts, and many clients on one budget: answers ⊆ committed charges, books in balance.

Specification: design.md R2, facade-and-channel.md §2. Every answer that reached a client is kept by the client itself;
afterwards each must be a release of a committed charge, and Σ ledger = Σ accounts.
"""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from fix_cluster import Cluster, standard_cluster
from fix_ledger import balanced, charges, count, one, spent
from fix_waiting import PATIENCE, backends, soon

REQUESTS = 200
MOST = 2500  # answers of clients that ask until they are stopped: the budget has room for them
QUERY = "SELECT dp.dp_query(dp.dp_count_request('people', epsilon => 0.001, fresh => true))"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with standard_cluster(max_connections="250") as running:
        running.execute("UPDATE dp.role_allotment SET epsilon = 10")
        running.psql("CALL dp.create_dataset('few', epsilon => 1)", user="boss")
        yield running


class Askers:
    """Clients in threads that keep every answer. They try `requests` times, or (None) until they are stopped."""

    def __init__(self, cluster: Cluster, requests: int | None = REQUESTS, threads: int = 4) -> None:
        self.cluster = cluster
        self.answers: dict[str, Any] = {}
        self.failures: list[str | None] = []
        self._lock = threading.Lock()
        self._left = requests
        self._pool = ThreadPoolExecutor(threads)
        self._jobs = [self._pool.submit(self._work) for _ in range(threads)]

    def _take(self) -> bool:
        with self._lock:
            if self._left is None:
                return len(self.answers) < MOST
            self._left -= 1
            return self._left >= 0

    def _work(self) -> None:
        alice: psycopg.Connection[Any] | None = None
        while self._take():
            try:
                alice = alice or self.cluster.connect("alice")
                answer = one(alice, QUERY)
                with self._lock:
                    self.answers[answer["request_id"]] = answer["rows"]
            except psycopg.Error as error:
                with self._lock:
                    self.failures.append(error.sqlstate)
                if alice is not None and error.sqlstate != "DP006":
                    alice.close()
                    alice = None
                time.sleep(0.02)
        if alice is not None:
            alice.close()

    def answered(self, more: int) -> bool:
        before = len(self.answers)
        return soon(lambda: len(self.answers) >= before + more)

    def stop(self) -> None:
        with self._lock:
            self._left = 0
        self.join()

    def join(self) -> None:
        for job in self._jobs:
            job.result()  # the runner's limit ends what never ends; how long 200 requests take says nothing
        self._pool.shutdown()


def _holds(cluster: Cluster, askers: Askers) -> None:
    """What the ledger must say of what the clients saw."""
    balanced(cluster)
    with cluster.connect() as conn:
        released = dict(conn.execute("SELECT request_id::text, answer -> 'raw' FROM dp.release").fetchall())
        paid = {row[0] for row in conn.execute("SELECT request_id::text FROM dp.ledger").fetchall()}
        assert one(conn, "SELECT count(*) FROM dp.closed_question") == 0
    assert askers.answers, "nobody was answered"
    assert set(askers.answers) <= paid
    for request_id, rows in askers.answers.items():
        assert [[str(value) for value in cell] for cell in released[request_id]] == rows
    with cluster.connect("alice") as alice:
        count(alice)


def _quiet(cluster: Cluster) -> None:
    """A request that nobody waits for any more is charged all the same: not to be counted with the next ones."""
    with cluster.connect() as root:
        assert soon(lambda: not backends(root, "usename ~ '^(alice|dp_channel_[0-9]+)$' AND state = 'active'"))


def _backends(cluster: Cluster, who: str) -> list[int]:
    with cluster.connect() as conn:
        rows = conn.execute("SELECT pid FROM pg_stat_activity WHERE usename ~ %s", [f"^{who}(_[0-9]+)?$"]).fetchall()
    return [row[0] for row in rows]


@pytest.mark.parametrize("whose", ["alice", "dp_channel"])
def test_backends_are_terminated(cluster: Cluster, whose: str) -> None:
    """pg_terminate_backend (SIGTERM) on the callers', then on the channel's backends, during 200 requests."""
    _quiet(cluster)
    before, dice = charges(cluster), random.Random(1)
    askers = Askers(cluster)
    with cluster.connect() as root:
        for _ in range(25):
            time.sleep(0.05)
            if pids := _backends(cluster, whose):
                root.execute("SELECT pg_terminate_backend(%s)", [dice.choice(pids)])
    askers.join()
    _holds(cluster, askers)
    assert charges(cluster) - before <= REQUESTS + 1


def test_clients_are_killed(cluster: Cluster) -> None:
    """The client's process gets SIGKILL: the socket drops in the middle of a request."""
    code = (
        "import psycopg, sys\n"
        "c = psycopg.connect(sys.argv[1], autocommit=True)\n"
        f'while True:\n    print(c.execute("{QUERY}").fetchone()[0]["request_id"], flush=True)\n'
    )
    seen: set[str] = set()
    for round_ in range(4):
        words = [sys.executable, "-c", code, cluster.dsn("alice")]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as client:
            assert client.stdout is not None
            seen |= {client.stdout.readline().strip() for _ in range(2)}
            time.sleep(0.1 + 0.013 * round_)
            client.send_signal(signal.SIGKILL)
            seen |= {line.strip() for line in client.stdout if line.endswith("\n")}
    assert soon(lambda: not _backends(cluster, "alice")), "a backend outlives its client"
    balanced(cluster)
    with cluster.connect() as conn:
        paid = {row[0] for row in conn.execute("SELECT request_id::text FROM dp.ledger").fetchall()}
    assert len(seen) >= 8
    assert seen <= paid


def _sockets_dropped(cluster: Cluster) -> None:
    """A client whose socket is closed without a Terminate message, right after it asked."""
    alice = cluster.connect("alice")
    alice.pgconn.send_query(QUERY.encode())
    alice.pgconn.flush()
    with socket.socket(fileno=os.dup(alice.pgconn.socket)) as raw:
        raw.shutdown(socket.SHUT_RDWR)
    alice.close()


def test_a_dropped_socket_gives_nothing_back(cluster: Cluster) -> None:
    _quiet(cluster)
    before = charges(cluster)
    for _ in range(5):
        _sockets_dropped(cluster)
    charged = soon(lambda: charges(cluster) - before >= 5)
    assert charged, "a request that was sent is charged, whoever is left to hear the answer"
    balanced(cluster)


def _restarted(cluster: Cluster, harm: Callable[[], None]) -> None:
    askers = Askers(cluster, None)
    assert askers.answered(20)
    harm()
    assert soon(lambda: askers.failures), "the server was not harmed while requests ran"
    assert askers.answered(20), "it serves again"
    askers.stop()
    _holds(cluster, askers)


@pytest.mark.parametrize("whose", ["alice", "dp_channel"])
def test_a_backend_gets_sigkill(cluster: Cluster, whose: str) -> None:
    """kill -9: the postmaster restarts everybody; WAL replay leaves every committed charge."""
    _restarted(cluster, lambda: os.kill(_backends(cluster, whose)[0], signal.SIGKILL))


def test_the_server_restarts_at_once(cluster: Cluster) -> None:
    def restart() -> None:
        cluster.stop("immediate")
        cluster.start()

    _restarted(cluster, restart)


def test_fifty_clients_never_overspend(cluster: Cluster) -> None:
    """A budget of exactly 60 charges, 50 clients that ask 4 times each: 60 answers, 140 times DP001.

    A busy machine may not complete a call (DP006), charged or not: then the same client asks again.
    """
    cluster.psql(
        "CREATE TABLE crowd (id int PRIMARY KEY); CALL dp.create_dataset('crowd', epsilon => 0.6);"
        "CALL dp.protect('crowd', 'crowd'); CALL dp.publish('crowd'); CALL dp.allot('alice', 'crowd', epsilon => 0.6);"
        "CALL dp.allot('bob', 'crowd', epsilon => 0.3)",
        user="boss",
    )
    gate = threading.Barrier(50, timeout=PATIENCE)

    def client(i: int) -> list[str]:
        with cluster.connect("bob" if i % 2 else "alice") as conn:
            gate.wait()
            heard: list[str] = []
            while len(heard) - heard.count("DP006") < 4:
                heard.append(_outcome(conn))
            return heard

    with ThreadPoolExecutor(50) as pool:
        outcomes = [outcome for each in pool.map(client, range(50)) for outcome in each]
    answers, lost = outcomes.count("answer"), outcomes.count("DP006")
    assert answers <= 60 <= answers + lost
    assert answers + outcomes.count("DP001") == 200
    with cluster.connect() as root:
        assert one(root, "SELECT count(*) FROM dp.ledger WHERE dataset = 'crowd'") == 60
    assert spent(cluster, "crowd") == Decimal("0.6")
    assert spent(cluster, "crowd", "bob") <= Decimal("0.3")
    balanced(cluster)


def _outcome(conn: psycopg.Connection[Any]) -> str:
    try:
        count(conn, table="crowd", epsilon=0.01)
    except psycopg.Error as error:
        return str(error.sqlstate)
    return "answer"


def test_a_full_ledger_refuses_a_thousand_crumbs(cluster: Cluster) -> None:
    """At its limit, 1,000 charges of 1e-14 are refused: sums are exact, nothing is rounded into the budget."""
    cluster.psql(
        "CREATE TABLE full_ (id int PRIMARY KEY); CALL dp.create_dataset('full', epsilon => 0.1);"
        "CALL dp.protect('full_', 'full'); CALL dp.publish('full_'); CALL dp.allot('alice', 'full', epsilon => 0.1)",
        user="boss",
    )
    cluster.psql(
        """CREATE FUNCTION outcome(i int) RETURNS text LANGUAGE plpgsql AS $$
           BEGIN PERFORM dp.dp_count('full_', epsilon => 1e-14, fresh => true); RETURN 'answered';
           EXCEPTION WHEN OTHERS THEN RETURN SQLSTATE; END $$"""
    )
    with cluster.connect("alice") as alice:
        count(alice, table="full_", epsilon=0.1)
        found = alice.execute("SELECT outcome(i), count(*) FROM generate_series(1, 1000) i GROUP BY 1").fetchall()
        assert found == [("DP001", 1000)]
    assert spent(cluster, "full") == Decimal("0.1")


def test_the_log_holds_no_place_of_ours(cluster: Cluster) -> None:
    """After all that: no Python error of the engine in the server's log."""
    assert not re.search(r"pg_epsilon: \w+ at ", cluster.log), "an unforeseen error was logged"
