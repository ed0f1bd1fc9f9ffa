"""Waiting for what another process does: for a condition, with a deadline that a busy machine meets.

PATIENCE is no expectation: what is waited for takes milliseconds. It is how long a process may be kept from running
before a test calls it lost, so nothing is asserted about the time that passed.
"""

from __future__ import annotations

import contextlib
import gc
import socket
import ssl
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg

PATIENCE = 60.0  # seconds

SLEEPING = "wait_event = 'PgSleep' AND query LIKE '%pg!_sleep%' ESCAPE '!'"  # the engine too sleeps, to look again
LOCKED = "wait_event_type = 'Lock'"


def soon(done: Callable[[], Any], seconds: float = PATIENCE) -> bool:
    end = time.monotonic() + seconds
    while not (found := done()) and time.monotonic() < end:
        time.sleep(0.02)
    return bool(found)


def has_ended(pid: int) -> bool:
    """Whether a process is over: gone, or a zombie. In a container the first process may reap no orphans."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def backends(root: psycopg.Connection[Any], where: str) -> int:
    """How many of the cluster's backends are in this state. Outside a transaction, which would see one moment only."""
    assert root.autocommit and root.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
    row = root.execute(f"SELECT count(*) FROM pg_stat_activity WHERE {where}".encode()).fetchone()
    assert row is not None
    return int(row[0])


@contextlib.contextmanager
def left_behind() -> Iterator[None]:
    """What asyncpg leaves to the garbage collector after a login over TLS that failed, its socket or transport, is
    collected here: anywhere else it would be the warning of whichever test runs then."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield
        gc.collect()


@contextlib.contextmanager
def once(happens: Callable[[], Any], action: Callable[[], Any]) -> Iterator[None]:
    """`action` in another thread as soon as `happens`, while the block runs; over when the block ends."""
    failures: list[BaseException] = []

    def watch() -> None:
        try:
            assert soon(happens), "what was waited for did not happen"
            action()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        thread.join()
    if failures:
        raise failures[0]


@contextlib.contextmanager
def cancelling(
    cancel: Callable[[], Any], connect: Callable[[], psycopg.Connection[Any]], where: str = SLEEPING
) -> Iterator[None]:
    """`cancel` as soon as the block's statement runs: a cancel that comes before it means nothing.

    connect: a superuser's connection to the cluster. where: what pg_stat_activity says of a running statement; a
    statement before it may be in that state still, so it must have begun after the block.
    """
    with connect() as root:
        row = root.execute("SELECT clock_timestamp()::text").fetchone()
        assert row is not None
        with once(lambda: backends(root, f"{where} AND query_start >= '{row[0]}'"), cancel):
            yield


def until_closed(s: socket.socket) -> bytes:
    """Everything that the other side says. If it closes with bytes of ours unread, the end is a reset."""
    heard = b""
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while part := s.recv(65536):
            heard += part
    return heard


def is_closed(s: socket.socket) -> bool:
    """Without a word, by the other side."""
    s.setblocking(False)
    try:
        return s.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
