"""Harm of every kind to a running product: killed processes and backends, locks, cancels, restarts, dropped sockets.

A fault counts when it struck: the process was there, the lock was taken, somebody waited.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psycopg
from faults_clients import Clients
from faults_world import WORKERS

from fix_stack import FACADE, Stack
from fix_waiting import PATIENCE, soon

LOCK = 5.6  # seconds: longer than the engine's lock_timeout of 5
LOCKED = ("people", "orders", "falling", "items")
# Whose backends are struck, by what pg_stat_activity calls them.
BACKENDS = {
    "caller": "usename = 'alice' AND datname = 'private'",
    "channel": "usename ~ '^dp_channel_[0-9]+$'",
    "gateway": "usename = 'dp_gateway'",
    "facade session": f"usename = 'alice' AND datname = '{FACADE}'",
}


class Harm:
    """Does one fault after the other until it is told to stop. struck: by kind."""

    def __init__(self, stack: Stack, clients: Clients, seed: int) -> None:
        self._stack, self._clients = stack, clients
        self._dice = random.Random(seed)
        self.struck: Counter[str] = Counter()
        self._locks: list[threading.Thread] = []
        self._eye: psycopg.Connection[Any] | None = None
        self._kinds = self._weighted()

    def _weighted(self) -> Mapping[Callable[[], bool], int]:
        """How often each kind is tried. A crash of the server stops everybody for a second or two."""
        kinds: dict[Callable[[], bool], int] = {}
        for name in BACKENDS:
            kinds[self._named(f"terminate {name}", self._signal_backend, name, "pg_terminate_backend")] = 8
            kinds[self._named(f"cancel {name}", self._signal_backend, name, "pg_cancel_backend")] = 5
            kinds[self._named(f"kill -9 {name}", self._kill_backend, name)] = 1
        kinds[self._named("socket dropped", self._drop_socket)] = 10
        kinds[self._named("proxy worker killed", self._kill_worker)] = 3
        kinds[self._named("restart at once", self._restart)] = 1
        kinds[self._named("lock", self._lock)] = 3
        return kinds

    def _named(self, name: str, strike: Callable[..., bool], *args: Any) -> Callable[[], bool]:
        def struck() -> bool:
            try:
                found = strike(*args)
            except psycopg.Error:
                return False  # the server is down already
            self.struck[name] += found
            return found

        return struck

    def once_each(self) -> None:
        """One fault of each kind, tried until it strikes."""
        for kind in self._kinds:
            soon(kind)
            self._clients.look_for_hangs()

    def until(self, end: float, pause: float) -> None:
        """Faults of random kinds, `pause` seconds apart at the mean, until the clock says `end`."""
        kinds, weights = list(self._kinds), list(self._kinds.values())
        while time.monotonic() < end:
            self._dice.choices(kinds, weights)[0]()
            self._clients.look_for_hangs()
            time.sleep(self._dice.expovariate(1 / pause))

    def settle(self) -> None:
        """Wait until no lock is held and everything serves again."""
        for thread in self._locks:
            thread.join(PATIENCE)
        if self._eye is not None:
            self._eye.close()
        assert soon(self._serves), "the product does not serve after the last fault"

    @property
    def faults(self) -> int:
        return sum(self.struck.values())

    # -- the kinds ----------------------------------------------------------------------------------------------

    def _signal_backend(self, name: str, function: str) -> bool:
        found = self._backends(name)
        return bool(found) and bool(self._asked(f"SELECT {function}(%s)", [self._dice.choice(found)])[0][0])

    def _kill_backend(self, name: str) -> bool:
        """The postmaster ends all others, and replays the WAL."""
        found = self._backends(name)
        if not found:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._dice.choice(found), signal.SIGKILL)
            return self._over_crash()
        return False

    def _over_crash(self) -> bool:
        """Wait until nothing that the crash cut off is still to be read: a read that two crashes cut off is an
        unforeseen failure, which closes its question (composition.md §10.3 d)."""
        return soon(self._answers) and self._clients.all_settle()

    def _restart(self) -> bool:
        self._stack.cluster.stop("immediate")
        self._stack.cluster.start()
        return self._over_crash()

    def _drop_socket(self) -> bool:
        waiting = [line for line in self._clients.lines if line.since is not None]
        return bool(waiting) and self._clients.drop_socket(self._dice.choice(waiting))

    def _kill_worker(self) -> bool:
        """Never the last one: the supervisor waits up to half a minute with workers that end again and again."""
        process = self._stack.process
        workers = _children(process.pid) if process is not None else []
        if len(workers) < WORKERS:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._dice.choice(workers), signal.SIGKILL)
            return True
        return False

    def _lock(self) -> bool:
        """A lock as ALTER TABLE takes it, for longer than the engine waits; harm goes on meanwhile."""
        if any(thread.is_alive() for thread in self._locks):
            return False
        taken = threading.Event()
        table = self._dice.choice(LOCKED) if self._locks else LOCKED[0]
        thread = threading.Thread(target=self._hold, args=(table, taken))
        self._locks.append(thread)
        thread.start()
        return taken.wait(LOCK)

    def _hold(self, table: str, taken: threading.Event) -> None:
        with contextlib.suppress(psycopg.Error), self._root() as root, root.transaction():
            root.execute("SET LOCAL lock_timeout = '2s'")
            root.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE".encode())
            taken.set()
            root.execute("SELECT pg_sleep(%s)", [LOCK])

    # -- looking ------------------------------------------------------------------------------------------------

    def _root(self) -> psycopg.Connection[Any]:
        return self._stack.cluster.connect(connect_timeout="20")

    def _asked(self, sql: str, arguments: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Rows, over one connection as long as it lives."""
        if self._eye is None or self._eye.closed:
            self._eye = self._root()
        try:
            return self._eye.execute(sql.encode(), arguments).fetchall()
        except psycopg.Error:
            self._eye.close()
            raise

    def _backends(self, name: str) -> list[int]:
        return [row[0] for row in self._asked(f"SELECT pid FROM pg_stat_activity WHERE {BACKENDS[name]}")]

    def _answers(self) -> bool:
        try:
            return bool(self._asked("SELECT 1"))
        except psycopg.Error:
            return False

    def _serves(self) -> bool:
        try:
            with self._stack.connect(connect_timeout=20) as alice:
                return alice.execute("SELECT * FROM dp.budget").fetchone() is not None
        except psycopg.Error:
            return False


def _children(pid: int) -> list[int]:
    """Processes that have `pid` as their parent."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name, in brackets, may hold anything.
            if status.read_text().rpartition(")")[2].split()[1] == str(pid):
                found.append(int(status.parent.name))
    return found
