"""Limits over a real socket: who is turned away, who waits, and that the others notice nothing."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import psycopg
import pytest

from fix_proxy import PASSWORD, BareFacade, FakePrivate, ThreadedProxy, psql, start_proxy
from fix_raw import RawClient, Refused, error_code, keys_of, packet, shape, talk
from fix_waiting import PATIENCE, SLEEPING, backends, is_closed, soon
from pg_epsilon_proxy.wire import messages, scram, startup

NOBODY = scram.Keys(bytes(32), bytes(32), bytes(32))
ELSEWHERE = "127.0.0.2"  # all of 127/8 is this host


@contextlib.contextmanager
def limited(cluster: BareFacade, private: FakePrivate | None = None, **limits: Any) -> Iterator[ThreadedProxy]:
    proxy = start_proxy(cluster, private or FakePrivate(), limits)
    try:
        yield proxy
    finally:
        proxy.close()


@pytest.fixture
def keys(bare_facade: BareFacade) -> scram.Keys:
    return keys_of(PASSWORD, bare_facade.verifier("alice") or "")


def refused(action: Callable[[], Any]) -> str:
    with pytest.raises(Refused) as caught:
        action()
    return f"{caught.value.code} {caught.value.text}"


def log_in(proxy: ThreadedProxy, keys: scram.Keys, **more: Any) -> float:
    """Seconds of a login that succeeds."""
    started = time.monotonic()
    RawClient(proxy.port, keys, **more).close()
    return time.monotonic() - started


def left(proxy: ThreadedProxy) -> bool:
    guard = proxy.server.admission
    return soon(lambda: not guard.sessions + guard.half_open)


def stop_the_clock(proxy: ThreadedProxy) -> None:
    """What was counted is forgotten after a while, which passes between two attempts on a busy machine."""
    guard = proxy.server.admission
    now = guard.clock()
    guard.clock = lambda: now
    guard.configure(guard.limits)


@pytest.fixture
def root(bare_facade: BareFacade) -> Iterator[psycopg.Connection[Any]]:
    with bare_facade.superuser() as connection:
        yield connection


def test_sessions_in_all_and_of_one_analyst(
    bare_facade: BareFacade, keys: scram.Keys, root: psycopg.Connection[Any]
) -> None:
    with limited(bare_facade, max_sessions_per_analyst=1, max_sessions=1) as proxy:
        client = RawClient(proxy.port, keys)
        done = psql(proxy, "-c", "SELECT 1")
        assert "sorry, too many clients already" in done.stderr
        pid, key = client.key
        client.send(messages.query(b"select pg_sleep(600)"))
        assert soon(lambda: backends(root, SLEEPING))
        talk(proxy.port, startup.cancel_packet(pid, key))
        assert shape(client.until(b"Z")) == ["T", "E", "ZI"], "a full proxy still takes cancel requests"
        client.close()
        assert left(proxy)
        log_in(proxy, keys)
    with limited(bare_facade, max_sessions_per_analyst=1) as proxy:
        client = RawClient(proxy.port, keys)
        assert refused(lambda: RawClient(proxy.port, keys)) == '53300 too many connections for role "alice"'
        assert refused(lambda: RawClient(proxy.port, NOBODY)).startswith("28P01"), "only who is alice is told"
        client.close()


def test_sessions_of_one_address(bare_facade: BareFacade, keys: scram.Keys) -> None:
    with limited(bare_facade, max_sessions_per_address=1) as proxy:
        client = RawClient(proxy.port, keys)
        assert refused(lambda: RawClient(proxy.port, keys)) == "53300 too many connections from this address"
        log_in(proxy, keys, source=ELSEWHERE)
        client.close()


def test_many_half_open_logins_of_one_host_do_not_shut_out_another(bare_facade: BareFacade, keys: scram.Keys) -> None:
    with limited(bare_facade, max_logins=10) as proxy, contextlib.ExitStack() as stack:
        place = ("127.0.0.1", proxy.port)
        idle = [stack.enter_context(socket.create_connection(place, timeout=PATIENCE)) for _ in range(30)]
        for silent in idle[:15]:
            with contextlib.suppress(ConnectionError):  # it may be turned away already
                silent.sendall(packet({"user": "alice"})[:6])
        log_in(proxy, keys, source=ELSEWHERE)
        log_in(proxy, keys)
        assert soon(lambda: sum(map(is_closed, idle)) >= 20)
        assert proxy.server.admission.half_open <= 10
        assert proxy.server.admission.turned_away["max_logins"] >= 20


SLOW = {
    "nothing": b"",
    "half a length": b"\0\0",
    "half a packet": packet({"user": "alice", "database": "facade"})[:20],
    "no proof": packet({"user": "alice"}),
    "half a proof": packet({"user": "alice"}) + b"p\0\0\1\0abc",
}


@pytest.mark.parametrize("data", SLOW.values(), ids=SLOW)
def test_a_login_that_takes_too_long(bare_facade: BareFacade, data: bytes) -> None:
    """One limit from accept to the proof."""
    with limited(bare_facade, login_timeout=0.5) as proxy:
        started = time.monotonic()
        talk(proxy.port, data)
        assert time.monotonic() - started > 0.4
        assert left(proxy)


def test_an_idle_session_ends_and_a_busy_one_does_not(bare_facade: BareFacade, keys: scram.Keys) -> None:
    private = FakePrivate()
    with limited(bare_facade, private, idle_timeout=6) as proxy, contextlib.ExitStack() as opened:

        def begin(text: bytes) -> RawClient:
            client = RawClient(proxy.port, keys)
            client.send(messages.query(text))
            opened.callback(client.close)
            return client

        busy = begin(b"select pg_sleep(12)")
        slow = begin(b"SELECT region, count(*) FROM secret WHERE n > 7 GROUP BY region -- slowly")
        idle = begin(b"select 1")
        idle.until(b"Z")
        fields = messages.read_fields(idle.until(b"E")[-1])
        assert (fields["S"], fields["C"]) == (b"FATAL", b"57P05")
        assert idle.receive() == b""
        assert shape(busy.until(b"Z")) == ["T", "D", "C", "ZI"]
        busy.send(messages.query(b"select 1"))
        assert shape(busy.until(b"Z")) == ["T", "D", "C", "ZI"], "its time begins with the answer"
        assert soon(lambda: private.calls)
        talk(proxy.port, startup.cancel_packet(*slow.key))
        assert shape(slow.until(b"Z")) == ["E", "ZI"], "a call to the private database is not idle"
        busy.send(messages.query(b"begin"))
        assert shape(busy.until(b"Z")) == ["C", "ZT"]
        assert messages.read_fields(busy.until(b"E")[-1])["C"] == b"57P05", "nor is a transaction that waits busy"
        opened.close()
        assert left(proxy)


def test_wrong_passwords_are_slowed_and_nobody_else_is(bare_facade: BareFacade, keys: scram.Keys) -> None:
    """alice exists, nobody does not: told apart by nothing, also beyond the limit."""
    with limited(bare_facade, auth_failures=4) as proxy:
        stop_the_clock(proxy)
        heard: dict[str, list[str]] = {}
        for user in ("alice", "nobody"):
            said = [refused(partial(RawClient, proxy.port, NOBODY, user=user)) for _ in range(4)]
            heard[user] = [text.replace(user, "*") for text in said]
        assert heard["alice"] == heard["nobody"] == ['28P01 password authentication failed for user "*"'] * 4
        for user, held in (("alice", keys), ("nobody", NOBODY)):
            heard[user] = [refused(partial(RawClient, proxy.port, held, user=user))]
        assert heard["alice"] == heard["nobody"] == ["28000 too many failed logins: try again in a minute"]
        log_in(proxy, keys, source=ELSEWHERE)  # alice elsewhere
        assert "crowd" in psql(proxy, "-c", "SELECT 1", user="crowd").stderr, "another user of the same host"


def test_a_right_password_waits_its_turn(bare_facade: BareFacade, keys: scram.Keys) -> None:
    with limited(bare_facade, auth_failures=30) as proxy:
        stop_the_clock(proxy)
        for _ in range(30):
            assert refused(lambda: RawClient(proxy.port, NOBODY)).startswith("28P01")
        assert log_in(proxy, keys) > 1.9, "one of 30 a minute, on top of 30"


def test_parallel_logins_of_a_pool_do_not_wait(bare_facade: BareFacade, keys: scram.Keys) -> None:
    """Who has to wait for half a minute is refused."""
    with limited(bare_facade, auth_failures=2) as proxy:
        threads = [threading.Thread(target=log_in, args=(proxy, keys)) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        log_in(proxy, keys)
        assert not proxy.server.admission.turned_away


def test_cancel_requests_are_counted(bare_facade: BareFacade, keys: scram.Keys, root: psycopg.Connection[Any]) -> None:
    with limited(bare_facade, cancel_requests=20) as proxy:
        stop_the_clock(proxy)
        client = RawClient(proxy.port, keys)
        pid, key = client.key
        for guess in range(3):
            assert talk(proxy.port, startup.cancel_packet(pid, guess.to_bytes(4, "big"))) == b""
        client.send(messages.query(b"select pg_sleep(600)"))
        assert soon(lambda: backends(root, SLEEPING))
        talk(proxy.port, startup.cancel_packet(pid, key))
        assert backends(root, SLEEPING), "who has guessed is not heard, right or wrong"
        root.execute(f"SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE {SLEEPING}".encode())
        assert shape(client.until(b"Z")) == ["T", "E", "ZI"]
        assert proxy.server.admission.turned_away["cancel_requests"] >= 1
        client.close()


def test_more_bytes_than_a_message_may_have_before_the_login(bare_facade: BareFacade) -> None:
    """10 MB at once, for the price of a header."""
    with limited(bare_facade) as proxy:
        for data in (packet({"user": "alice"}) + b"p\x00\xa0\x00\x00", b"\x00\xa0\x00\x00\x00\x03\x00\x00"):
            answer = talk(proxy.port, data + b"x" * 10_000_000)
            if b"E\0" in answer:  # a reset may have overtaken it
                assert error_code(answer[answer.index(b"E\0") :]) == "08P01"
        assert left(proxy)


def test_psycopg_shows_the_refusal(bare_facade: BareFacade) -> None:
    with (
        limited(bare_facade, max_sessions=0) as proxy,
        pytest.raises(psycopg.OperationalError, match="too many clients already"),
    ):
        psycopg.connect(**proxy.conninfo())
