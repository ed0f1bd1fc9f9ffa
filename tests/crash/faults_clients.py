"""The clients of a crash campaign: they ask in every way, ask again until answered, and keep what they hear."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import psycopg
from faults_books import Ask, Failed, Heard
from faults_world import CROWD, CROWD_EPSILON

from fix_stack import Stack
from fix_waiting import PATIENCE, soon

FIRST = 1_000_001  # the least number of a question: no id in any table
# Through the channel by a direct call; n is the question's number, which makes it a new one.
DIRECT = {
    "count": ("people", "dp.dp_count_request('people', 'id <> {n}', epsilon => 0.0005)"),
    "fresh": ("people", "dp.dp_count_request('people', 'id <> {n}', epsilon => 0.0005, fresh => true)"),
    "sum": ("people", "dp.dp_sum_request('people', 'income', 'id <> {n}', epsilon => 0.0005)"),
    "average": ("people", "dp.dp_avg_request('people', 'age', 'id <> {n}', epsilon => 0.0005)"),
    "median": ("people", "dp.dp_median_request('people', 'age', 'id <> {n}', epsilon => 0.0005)"),
    "groups": (
        "people",
        "dp.dp_group_by_request('people', '{{sex,city}}', predicate => 'id <> {n}', epsilon => 0.0005)",
    ),
    "decide": (
        "people",
        "dp.dp_decide_request('SELECT count(*) FROM people WHERE id <> {n}', 'people_syn', tau => 50,"
        " epsilon => 0.0005)",
    ),
    "r2t": ("people", "dp.dp_sum_r2t_request('people', 'income', 'id <> {n}', epsilon => 0.0005)"),
    "crowd": (CROWD, f"dp.dp_count_request('{CROWD}', 'id <> {{n}}', epsilon => {CROWD_EPSILON})"),
    "turbo": ("falling", "dp.dp_count_request('falling', 'a = {m}', alpha => 0.05, beta => 0.001)"),
}
# Through the proxy, in plain SQL at the session's dp.epsilon.
PROXY = {
    "plain count": ("people", "SELECT count(*) FROM people WHERE id <> {n}"),
    "plain groups": (
        "people",
        "SELECT city, count(*), sum(age) FROM people WHERE id <> {n} GROUP BY city ORDER BY city",
    ),
    "plain quantile": ("people", "SELECT percentile_disc(0.9) WITHIN GROUP (ORDER BY age) FROM people WHERE id <> {n}"),
    "join": (
        "shop",
        "SELECT sum(i.price) FROM customers c JOIN orders o ON o.customer_id = c.id JOIN items i ON i.order_id = o.id"
        " WHERE o.id <> {n}",
    ),
    "paths": (
        "graph",
        "SELECT count(*) FROM edge a JOIN edge b ON a.to_id = b.from_id WHERE a.from_id < b.to_id AND a.from_id <> {n}",
    ),
    "plain decision": (
        "people",
        "SELECT dp_decide('SELECT count(*) FROM people WHERE id <> {n}', 'people_syn', tau => 5, epsilon => 0.0005)",
    ),
}
# Never answered by asking again: the budget is gone, or an unforeseen failure closed the question.
FINAL = ("DP001",)
REPEATS = 300
SETTINGS = "-c dp.epsilon=0.0005"


@dataclass
class Line:
    """What a client is doing: since when it waits, and on which connection, for the harm that strikes it.

    settled: how many questions it has brought to their end.
    """

    connection: psycopg.Connection[Any] | None = None
    since: float | None = None
    number: int | None = None
    settled: int = 0


@dataclass
class Clients:
    """Threads that ask questions until `finish`. Every second question is asked by two clients at once.

    asked, heard, failed: everything, by whoever; hangs: attempts that outlasted PATIENCE.
    """

    stack: Stack
    threads: int
    seed: int
    asked: dict[int, Ask] = field(default_factory=dict)
    heard: list[Heard] = field(default_factory=list)
    failed: list[Failed] = field(default_factory=list)
    hangs: list[str] = field(default_factory=list)
    given_up: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count(FIRST)
        self._shared: dict[str, list[Ask]] = {"direct": [], "proxy": []}
        self._over = threading.Event()
        self.lines = [Line() for _ in range(self.threads)]
        self._pool = ThreadPoolExecutor(self.threads)
        self._jobs: list[Future[None]] = [self._pool.submit(self._work, i) for i in range(self.threads)]

    # -- one client ---------------------------------------------------------------------------------------------

    def _work(self, i: int) -> None:
        dice, way, line = random.Random(self.seed * 1000 + i), "proxy" if i % 3 else "direct", self.lines[i]
        while not self._over.is_set():
            self._until_answered(self._next(way, dice), line, dice)
        self._hang_up(line)

    def _next(self, way: str, dice: random.Random) -> Ask:
        with self._lock:
            if self._shared[way] and dice.random() < 0.5:
                return self._shared[way].pop()
            number = next(self._numbers)
            forms = DIRECT if way == "direct" else PROXY
            kind = dice.choice(list(forms))
            dataset, form = forms[kind]
            text = form.format(n=number, m=number % 8)
            sql = f"SELECT dp.dp_query({text})" if way == "direct" else text
            ask = self.asked[number] = Ask(number, kind, way, sql, dataset, kind == "fresh")
            if not ask.fresh and dice.random() < 0.5:
                self._shared[way].append(ask)
            return ask

    def _until_answered(self, ask: Ask, line: Line, dice: random.Random) -> None:
        """An unforeseen failure closes a question: who asks on for a minute gives up, and says so."""
        end = time.monotonic() + PATIENCE
        while (outcome := self._attempt(ask, line)) is not None and outcome not in FINAL:
            if time.monotonic() > end:
                with self._lock:
                    self.given_up.append(ask.number)
                break
            time.sleep((0.01 if outcome.startswith("DP") else 0.2) * (1 + dice.random()))
        line.settled += 1

    def _attempt(self, ask: Ask, line: Line) -> str | None:
        """None: answered; else the SQLSTATE, "" where the connection was lost."""
        line.since, line.number = time.monotonic(), ask.number
        try:
            if line.connection is None or line.connection.closed:
                line.connection = self._connect(ask.way)
            rows = line.connection.execute(ask.sql.encode()).fetchall()
        except psycopg.Error as error:
            state = error.sqlstate or ""
            if state.startswith(("22", "42")):
                raise AssertionError(f"{ask.sql}: {error}") from error
            with self._lock:
                self.failed.append(Failed(ask.number, state, datetime.now(UTC)))
            if not state.startswith("DP"):
                self._hang_up(line)
            return state
        finally:
            line.since = None
        with self._lock:
            self.heard.append(_heard(ask, rows))
        return None

    def _connect(self, way: str) -> psycopg.Connection[Any]:
        if way == "direct":
            return self.stack.cluster.connect("alice", connect_timeout="20")
        connection = self.stack.connect(connect_timeout=20, options=SETTINGS)
        connection.prepare_threshold = None if self.seed % 2 else 0
        return connection

    def _hang_up(self, line: Line) -> None:
        if line.connection is not None:
            with contextlib.suppress(psycopg.Error, OSError):
                line.connection.close()
        line.connection = None

    def ask_once(self, kind: str) -> tuple[Ask, str | None]:
        """One question by a client of its own, and what came of it; asked again by `ask_again`."""
        number = next(self._numbers)
        dataset, form = DIRECT[kind]
        sql = f"SELECT dp.dp_query({form.format(n=number, m=0)})"
        ask = self.asked[number] = Ask(number, kind, "direct", sql, dataset)
        return ask, self.ask_again(ask)

    def ask_again(self, ask: Ask) -> str | None:
        line = Line()
        try:
            return self._attempt(ask, line)
        finally:
            self._hang_up(line)

    # -- from outside -------------------------------------------------------------------------------------------

    def drop_socket(self, line: Line) -> bool:
        """Cut a waiting client's connection; True if one waited."""
        connection = line.connection
        if connection is None or line.since is None:
            return False
        with contextlib.suppress(psycopg.Error, OSError), _duplicate(connection) as raw:
            raw.shutdown(socket.SHUT_RDWR)
            return True
        return False

    def look_for_hangs(self) -> None:
        for i, line in enumerate(self.lines):
            since = line.since
            if since is not None and time.monotonic() - since > PATIENCE:
                self.hangs.append(f"client {i} waits for question {line.number} since {PATIENCE:.0f} s")
                self.drop_socket(line)

    def all_settle(self) -> bool:
        """Wait until each client has brought another question to its end."""
        before = [line.settled for line in self.lines]
        return soon(lambda: all(line.settled > n for line, n in zip(self.lines, before, strict=True)))

    def finish(self) -> None:
        """No new questions; wait until each client has its answer, or gave up."""
        self._over.set()
        end = time.monotonic() + 3 * PATIENCE
        while not all(job.done() for job in self._jobs) and time.monotonic() < end:
            self.look_for_hangs()
            time.sleep(0.1)
        for job in self._jobs:
            job.result(timeout=PATIENCE)
        self._pool.shutdown()

    def repeat(self) -> dict[int, Any]:
        """Answered questions once more, at rest, REPEATS of them: by number, what each says."""
        found: dict[int, Any] = {}
        wanted = sorted({heard.number for heard in self.heard})
        wanted = wanted[:: 1 + len(wanted) // REPEATS]
        for way in ("direct", "proxy"):
            with self._connect(way) as connection:
                for ask in (self.asked[number] for number in wanted):
                    if ask.way == way and not ask.fresh and ask.kind != "turbo":
                        rows = connection.execute(ask.sql.encode()).fetchall()
                        found[ask.number] = _heard(ask, rows).rows
        return found


def _heard(ask: Ask, rows: list[tuple[Any, ...]]) -> Heard:
    if ask.way == "proxy":
        return Heard(ask.number, None, rows)
    (document,) = rows[0]
    shown = document["rows"] or [d.get("decision") for d in document.get("decisions") or ()]
    return Heard(ask.number, document["request_id"], shown)


@contextlib.contextmanager
def _duplicate(connection: psycopg.Connection[Any]) -> Iterator[socket.socket]:
    with socket.socket(fileno=os.dup(connection.fileno())) as raw:
        yield raw
