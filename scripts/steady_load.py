"""What makes a machine unkind: processes that want all of it, and one that stops others for a while.

A process that does not run for two seconds is what a busy machine, a pause of its host or a slow disk look like to all
that wait for it. Only descendants of one process are stopped, and each of them goes on again.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

LOOPS = 4  # busy ones, each as entitled to a core as a worker of the tests
EVERY = (2.0, 5.0)  # seconds between stops
FOR = (0.3, 2.5)  # seconds that a stop takes
# They wait for one child and do nothing else: that they stop, nobody notices.
IDLE = frozenset({"make", "bash", "sh", "timeout", "unshare", "setpriv", "runuser", "sudo"})
PR_SET_CHILD_SUBREAPER = 36
BUSY = "while True: pass"
# A megabyte and fsync, over and over, in a file that grows to 64 of them.
DISK = """
import os, sys
with open(sys.argv[1], "wb", buffering=0) as file:
    while True:
        file.seek(0)
        for _ in range(64):
            file.write(os.urandom(1 << 20))
            os.fsync(file.fileno())
"""


class Process(NamedTuple):
    """What /proc says of a process. started: with the pid its identity."""

    pid: int
    parent: int
    name: str
    state: str
    started: int
    command: str = ""


Table = Mapping[int, Process]


def process(stat: str, command: str) -> Process:
    """From /proc/PID/stat: the name, in brackets, may hold anything."""
    head, _, tail = stat.rpartition(")")
    pid, _, name = head.partition(" (")
    fields = tail.split()
    return Process(int(pid), int(fields[1]), name, fields[0], int(fields[19]), command)


def processes() -> Table:
    """All that we can see. One that ends meanwhile is left out."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            one = process((folder / "stat").read_text(errors="replace"), command.strip())
            found[one.pid] = one
    return found


def descendants(table: Table, root: int) -> list[Process]:
    """Of `root`, without it, by pid. Who lost his parent is the child of who took him: the first of his namespace."""
    found: set[int] = set()
    fresh = {root}
    while fresh:
        fresh = {one.pid for one in table.values() if one.parent in fresh} - found - {root}
        found |= fresh
    return [table[pid] for pid in sorted(found)]


def adopt_orphans() -> None:
    """Of our descendants, whoever loses his parent becomes our child. A namespace's first process comes before us."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def kind(one: Process, table: Table) -> str:
    if one.name.startswith("postgres"):
        parent = table.get(one.parent)
        return "backend" if parent and parent.name.startswith("postgres") else "postmaster"
    if "pg_epsilon_proxy" in one.command:
        return "proxy"
    return "python" if one.name.startswith(("python", "pytest")) else "other"


def victims(table: Table, root: int) -> dict[str, list[Process]]:
    """Who may be stopped, by kind. Not who is stopped already: a test of ours may mean it."""
    found: dict[str, list[Process]] = {}
    for one in descendants(table, root):
        if one.name not in IDLE and one.state in "RSD":
            found.setdefault(kind(one, table), []).append(one)
    return found


def choose(table: Table, root: int, dice: random.Random) -> tuple[str, Process] | None:
    """First a kind: a cluster's helpers are many, and the proxy is one."""
    by_kind = victims(table, root)
    if not by_kind:
        return None
    chosen = dice.choice(sorted(by_kind))
    return chosen, dice.choice(by_kind[chosen])


class Injector:
    """Stops one descendant of `root` after the other until it is told to end; `stopped` counts them by kind."""

    def __init__(self, root: int, seed: int, log: Path) -> None:
        self.stopped: Counter[str] = Counter()
        self._root = root
        self._dice = random.Random(seed)  # noqa: S311  not for secrets
        self._log = log
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._watchers: dict[int, int] = {}  # runuser → whom it watches

    def __enter__(self) -> Injector:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _work(self) -> None:
        with self._log.open("w", encoding="utf-8", buffering=1) as log:
            while not self._end.wait(self._dice.uniform(*EVERY)):
                table = processes()
                self._wake(table)
                if chosen := choose(table, self._root, self._dice):
                    self._stop(*chosen, table, log.write)
            self._wake(processes())

    def _stop(self, what: str, one: Process, table: Table, say: Callable[[str], object]) -> None:
        seconds = self._dice.uniform(*FOR)
        with contextlib.suppress(ProcessLookupError), handle(one) as descriptor:
            try:
                signal.pidfd_send_signal(descriptor, signal.SIGSTOP)
                say(f"{time.strftime('%H:%M:%S')} {what} {one.pid} {seconds:.1f} s: {one.command[:100]}\n")
                self.stopped[what] += 1
                self._end.wait(seconds)
            finally:
                signal.pidfd_send_signal(descriptor, signal.SIGCONT)
        if (parent := table.get(one.parent)) and parent.name == "runuser":
            self._watchers[parent.pid] = one.pid

    def _wake(self, table: Table) -> None:
        """runuser stops with its child, as a shell's job would, and does not go on with it."""
        for watcher, child in list(self._watchers.items()):
            one, watched = table.get(watcher), table.get(child)
            if one is None or one.name != "runuser":
                del self._watchers[watcher]
            elif one.state == "T" and (watched is None or watched.state != "T"):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(watcher, signal.SIGCONT)


@contextlib.contextmanager
def handle(one: Process) -> Iterator[int]:
    """A descriptor of this very process, not of a later one with its number: else ProcessLookupError."""
    descriptor = os.pidfd_open(one.pid)
    try:
        stat = Path(f"/proc/{one.pid}/stat")
        try:
            now = process(stat.read_text(errors="replace"), "")
        except FileNotFoundError:
            raise ProcessLookupError(one.pid) from None
        if now.started != one.started:
            raise ProcessLookupError(one.pid)
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def load(folder: Path) -> Iterator[None]:
    """Busy loops and writes to disk beside the block. They end with the thread that starts them, however it ends."""
    with_us = ["setpriv", "--pdeathsig", "KILL", sys.executable, "-c"]
    file = folder / "disk"
    words = [[*with_us, BUSY]] * LOOPS + [[*with_us, DISK, str(file)]]
    started: list[subprocess.Popen[bytes]] = []
    try:
        started += [subprocess.Popen(one) for one in words]  # noqa: S603
        yield
        if dead := [one for one in started if one.poll() is not None]:
            raise RuntimeError(f"{len(dead)} processes of the load ended: the run had less of it than it should")
    finally:
        for one in started:
            one.kill()
        for one in started:
            one.wait()
        file.unlink(missing_ok=True)
