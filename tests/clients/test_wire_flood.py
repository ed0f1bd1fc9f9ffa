"""A client that sends or fetches as much as it can: the others are served meanwhile, and memory stays bounded."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from fix_proxy import PASSWORD, BareFacade
from fix_raw import RawClient, keys_of, shape
from fix_waiting import PATIENCE, soon
from fuzz.process import ServedProxy
from pg_epsilon_proxy.session.facade_link import MAX_OWED
from pg_epsilon_proxy.wire import messages
from pg_epsilon_proxy.wire.messages import FLUSH, SYNC, bind, execute, message, parse, query

LONGEST = 1.0  # seconds that the proxy may compute while another session waits; a million Flushes once held it for 1.6
ROOM = 40_000_000  # bytes: two directions of sockets and streams


@pytest.fixture(scope="module")
def proxy(bare_facade: BareFacade) -> Iterator[ServedProxy]:
    """In a process of its own: what it holds, and how long it computes, is then nobody else's doing."""
    served = ServedProxy(bare_facade)
    yield served
    assert served.facts()["sessions failed"] == 0
    assert served.end() == 0


@contextlib.contextmanager
def others_are_served(proxy: ServedProxy) -> Iterator[Callable[[], bool]]:
    """Another session asks all the while; the proxy never works long on something else before it answers.

    Yields: whether it is answered some times more, now.
    """
    stop, waits = threading.Event(), list[float]()
    where: dict[str, Any] = {"host": "127.0.0.1", "port": proxy.port, "dbname": "facade", "autocommit": True}
    where |= {"user": "alice", "password": PASSWORD}

    def ask() -> None:
        with psycopg.connect(**where) as connection:
            while not stop.is_set():
                asked = proxy.cpu()
                connection.execute("SELECT 1")
                waits.append(proxy.cpu() - asked)
                time.sleep(0.005)

    def served() -> bool:
        before = len(waits)
        return soon(lambda: len(waits) > before + 2)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        assert served()
        yield served
        assert served()
    finally:
        stop.set()
        thread.join(PATIENCE)
    assert max(waits) < LONGEST, f"the proxy worked {max(waits):.2f} s on something else"


@pytest.fixture
def flooding(proxy: ServedProxy, bare_facade: BareFacade) -> Iterator[Callable[[], RawClient]]:
    with contextlib.ExitStack() as stack:

        def connect() -> RawClient:
            client = RawClient(proxy.port, keys_of(PASSWORD, bare_facade.verifier("alice") or ""))
            client.socket.settimeout(200)  # for all that one call sends
            stack.callback(client.close)
            return client

        yield connect


def test_a_million_flushes(proxy: ServedProxy, flooding: Callable[[], RawClient]) -> None:
    client = flooding()
    with others_are_served(proxy):
        client.send(FLUSH * 1_000_000, query(b"select 1"))
        assert shape(client.until(b"Z")) == ["T", "D", "C", "ZI"]


MANY = {
    "syncs": (SYNC, 40_000, b"Z"),
    "empty queries": (query(b""), 20_000, b"Z"),
    "pipelined statements": (parse(b"", b"select 1") + bind(b"", b"") + execute(b"") + SYNC, 5_000, b"Z"),
    "malformed flushes": (message(b"H", b"x") + SYNC, 10_000, b"Z"),
}


@pytest.mark.parametrize(("unit", "count", "kind"), MANY.values(), ids=MANY)
def test_a_pipeline_of_many(
    proxy: ServedProxy, flooding: Callable[[], RawClient], unit: bytes, count: int, kind: bytes
) -> None:
    """Read while it is sent, as libpq does: every one is answered."""
    client = flooding()
    with others_are_served(proxy):
        sender = threading.Thread(target=client.send, args=(unit * count,))
        sender.start()
        assert sum(raw[:1] == kind for raw in client.until(kind, count)) == count
        sender.join(PATIENCE)


def test_many_messages_without_a_flush(flooding: Callable[[], RawClient]) -> None:
    """More than we let wait: the facade keeps its answers back until somebody asks for them."""
    client, count = flooding(), 3 * MAX_OWED
    client.send(parse(b"", b"") * count)
    time.sleep(0.3)
    client.send(SYNC)
    assert sum(raw[:1] == b"1" for raw in client.until(b"Z")) == count


def test_a_client_that_never_reads(proxy: ServedProxy, flooding: Callable[[], RawClient]) -> None:
    """Its rows stay in the facade, its messages in its own socket."""
    before = proxy.resident()
    reading, sending = flooding(), flooding()
    with others_are_served(proxy) as served:
        reading.send(query(b"select repeat('x', 1000) from generate_series(1, 60000)"))
        sending.socket.settimeout(0.5)
        with contextlib.suppress(TimeoutError):
            while True:
                sending.send(query(b"select repeat('x', 1000)") * 1000)
        assert served()
        time.sleep(1)
        assert proxy.resident() - before < ROOM
        found = reading.until(b"Z")
        assert shape(found[-2:]) == ["C", "ZI"] and len(found) == 60_003


def test_rows_for_somebody_who_has_left(proxy: ServedProxy, flooding: Callable[[], RawClient]) -> None:
    client = flooding()
    client.send(query(b"select repeat('x', 1000) from generate_series(1, 3000000)"))
    client.socket.recv(1000)
    sessions = proxy.facts()["sessions"]
    client.socket.shutdown(socket.SHUT_RDWR)
    assert soon(lambda: proxy.facts()["sessions"] < sessions)


def test_copy_in_while_the_facade_does_not_read(proxy: ServedProxy, flooding: Callable[[], RawClient]) -> None:
    """100 MB in small and in long messages; its backend is stopped, then goes on."""
    client = flooding()
    client.send(query(b"create temp table much (a text)"))
    client.until(b"Z")
    data = (message(b"d", b"x" * 99 + b"\n") * 10_000 + message(b"d", b"y" * 999_999 + b"\n")) * 50
    before, backend = proxy.resident(), client.key[0]
    client.send(query(b"copy much from stdin"))
    assert client.receive()[:1] == b"G"
    with others_are_served(proxy) as served:
        os.kill(backend, signal.SIGSTOP)
        try:
            sender = threading.Thread(target=client.send, args=(data,))
            sender.start()
            assert served()
            time.sleep(1)
            assert sender.is_alive() and proxy.resident() - before < ROOM
        finally:
            os.kill(backend, signal.SIGCONT)
        sender.join(200)
        client.send(message(b"c"), query(b"select count(*) from much"))
        found = client.until(b"Z", 2)
    assert messages.read_data_row(found[-3][5:]) == [b"500050"]


def test_an_answer_of_one_long_value(proxy: ServedProxy, flooding: Callable[[], RawClient]) -> None:
    before = proxy.resident()
    client = flooding()
    client.send(query(b"select repeat('x', 100000000)"))
    length, found = 0, b""
    while not found.endswith(messages.ready(b"I")):
        found = found[-6:] + client.socket.recv(1 << 20)
        length += len(found)
    assert length > 100_000_000
    assert proxy.resident() - before < ROOM


def test_notices_and_errors_as_long_as_values(proxy: ServedProxy, flooding: Callable[[], RawClient]) -> None:
    """They are held whole, so their ends are cut off; the session goes on."""
    before = proxy.resident()
    clients = [flooding() for _ in range(6)]
    text = "do $$ begin raise {} '%', repeat('é', 5000000); end $$"
    for client in clients:
        client.send(query(text.format("notice").encode()), query(text.format("exception").encode()))
    for client in clients:
        found = [raw for raw in client.until(b"Z", 2) if raw[:1] != b"S"]
        assert [raw[:1] for raw in found] == [b"N", b"C", b"Z", b"E", b"Z"]
        assert all(set(messages.read_fields(raw)["M"].decode()) == {"é", " "} for raw in (found[0], found[3]))
    assert proxy.resident() - before < ROOM
