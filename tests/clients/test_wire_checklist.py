"""The wire checklist (anchors A1 to A3), item by item, over a real socket.

TLS is in test_tls.py, limits are in test_wire_limits.py.
"""

from __future__ import annotations

import socket
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from fix_proxy import PASSWORD, BareFacade, Directory, FakePrivate, FakeSource, NoUpstream, ThreadedProxy, facade_config
from fix_raw import RawClient, Refused, error_code, keys_of, packet, sasl_first, shape, talk
from fix_waiting import PATIENCE, SLEEPING, backends, soon
from pg_epsilon_proxy.wire import messages, scram, startup
from pg_epsilon_proxy.wire.messages import SYNC, bind, close, describe, execute, message, parse, query

ALICE = {"user": "alice", "database": "facade"}
SSL, GSS = startup.SSL_REQUEST, (8).to_bytes(4, "big") + startup.GSS_CODE.to_bytes(4, "big")

# -- startup -----------------------------------------------------------------------------------------------------------


def header(length: int, code: int = 3 << 16) -> bytes:
    return length.to_bytes(4, "big") + code.to_bytes(4, "big")


REFUSED = {
    "length 0": (header(0), "08P01"),
    "length 7": (header(7), "08P01"),
    "length 10,001, before its body is sent": (header(10_001), "08P01"),
    "length 2 GB": (header(0x7FFFFFFF), "08P01"),
    "length -1": (header(0xFFFFFFFF), "08P01"),
    "a second SSLRequest": (SSL * 2, "08P01"),
    "a second GSSENCRequest": (GSS * 2, "08P01"),
    "an SSLRequest with a body": (header(12, startup.SSL_CODE) + b"more", "08P01"),
    "protocol 2": (header(9, 2 << 16) + b"\0", "0A000"),
    "protocol 4": (header(9, 4 << 16) + b"\0", "0A000"),
    "a second StartupMessage in place of the proof": (packet(ALICE) * 2, "08P01"),
    "a Query in place of the proof": (packet(ALICE) + query(b"select 1"), "08P01"),
    "an authentication message of 4 kB, before its body is sent": (packet(ALICE) + b"p\0\0\x10\x05", "08P01"),
    "a negative authentication message": (packet(ALICE) + b"p\xff\xff\xff\xff", "08P01"),
    "replication": (packet({**ALICE, "replication": "database"}), "0A000"),
    "an unknown setting": (packet({**ALICE, "session_preload_libraries": "x"}), "0A000"),
    "the identity that the gateway names": (packet({**ALICE, "dp.analyst": "bob"}), "0A000"),
    "no user": (packet({"database": "facade"}), "28000"),
    "another protocol": (b"GET / HTTP/1.1\r\n\r\n", "08P01"),
}


@pytest.mark.parametrize(("data", "code"), REFUSED.values(), ids=REFUSED)
def test_refused_beginnings(relay: ThreadedProxy, data: bytes, code: str) -> None:
    answer = talk(relay.port, data)
    assert error_code(answer[answer.index(b"E") :]) == code


def test_the_longest_startup_packet(raw_with: Callable[..., RawClient]) -> None:
    """10,000 bytes are PostgreSQL's limit, and ours."""
    room = 10_000 - len(packet({**ALICE, "application_name": ""}))
    client = raw_with(application_name="x" * room)
    assert client.greeting[-1] == messages.ready(b"I")


def test_one_of_each_encryption_request_then_the_login(relay: ThreadedProxy) -> None:
    with socket.create_connection(("127.0.0.1", relay.port), timeout=PATIENCE) as s:
        for request in (GSS, SSL):
            s.sendall(request)
            assert s.recv(10) == b"N"
        s.sendall(packet(ALICE))
        assert s.recv(9)[:1] == b"R"


@pytest.mark.parametrize(
    ("minor", "options", "agreed", "key"),
    [
        (0, {}, None, 4),
        (0, {"_pq_.x": "1"}, 0, 4),
        (1, {}, 0, 4),
        (2, {}, None, 32),
        (2, {"_pq_.x": "1", "_pq_.y": ""}, 2, 32),
        (9999, {}, 2, 32),
        (9999, {"_pq_.x": "1"}, 2, 32),
    ],
)
def test_protocol_versions(
    raw_with: Callable[..., RawClient], minor: int, options: dict[str, str], agreed: int | None, key: int
) -> None:
    """NegotiateProtocolVersion names our newest version that the client has, and the options we do not know."""
    client = raw_with(minor=minor, **options)
    if agreed is None:
        assert client.negotiated[:1] == b"R"
    else:
        names = b"".join(name.encode() + b"\0" for name in options)
        said = (3 << 16 | agreed).to_bytes(4, "big") + len(options).to_bytes(4, "big") + names
        assert client.negotiated == message(b"v", said)
    assert len(client.key[1]) == key
    client.send(query(b"select 1"))
    assert shape(client.until(b"Z")) == ["T", "D", "C", "ZI"]


@pytest.mark.parametrize(("versions", "length"), [("3.2", 32), ("3.0", 4)])
def test_libpq_agrees(relay: ThreadedProxy, versions: str, length: int) -> None:
    with psycopg.connect(**relay.conninfo(max_protocol_version=versions, min_protocol_version=versions)) as connection:
        assert connection.pgconn.get_cancel() is not None
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_startup_message_after_the_login_ends_the_session(raw: RawClient) -> None:
    raw.send(packet(ALICE))
    assert messages.read_fields(raw.until(b"E")[-1])["C"] == b"08P01"
    assert raw.receive() == b""


OVERSIZE = {
    "query": (b"Q", 1 << 20, b"54000"),
    "parse": (b"P", 1 << 20, b"54000"),
    "bind": (b"B", 1 << 20, b"54000"),
    "execute": (b"E", 10_000, b"54000"),
    "sync": (b"S", 10_000, b"54000"),
    "flush": (b"H", 10_000, b"54000"),
    "close": (b"C", 10_000, b"54000"),
    "function call": (b"F", 1 << 20, b"54000"),
    "copy failed": (b"f", 10_000, b"54000"),
    "password": (b"p", 0, b"08P01"),
    "unknown": (b"\x7f", 0, b"08P01"),
}


@pytest.mark.parametrize(("kind", "limit", "code"), OVERSIZE.values(), ids=OVERSIZE)
def test_a_size_is_refused_before_the_body_is_sent(raw: RawClient, kind: bytes, limit: int, code: bytes) -> None:
    """FATAL: what follows cannot be told from a message."""
    raw.send(kind + (limit + 4).to_bytes(4, "big"))
    fields = messages.read_fields(raw.until(b"E")[-1])
    assert (fields["C"], fields["S"]) == (code, b"FATAL")
    assert raw.receive() == b""


# -- cancel ------------------------------------------------------------------------------------------------------------


def cancelled(facade: BareFacade, client: RawClient, port: int, *requests: bytes) -> list[bool]:
    """Which of several cancel requests a statement outlives, one after the other; the last one ends it."""
    client.send(query(b"select pg_sleep(600)"))
    sleeps = f"{SLEEPING} AND pid = {client.key[0]}"
    lived = []
    with facade.superuser() as root:
        assert soon(lambda: backends(root, sleeps))
        for request in requests:
            assert talk(port, request) == b"", "a cancel request is never answered"
            lived.append(bool(backends(root, sleeps)))
    assert "E" in shape(client.until(b"Z"))
    return lived[:-1]


@pytest.mark.parametrize("size", [0, 3, 257, 9000])
def test_a_malformed_cancel_request_is_not_answered_either(relay: ThreadedProxy, size: int) -> None:
    assert talk(relay.port, startup.cancel_packet(1, b"k" * size)) == b""


@pytest.mark.parametrize("minor", [0, 2])
def test_cancel_needs_the_whole_key(
    relay: ThreadedProxy, bare_facade: BareFacade, raw_with: Callable[..., RawClient], minor: int
) -> None:
    client = raw_with(minor=minor)
    pid, key = client.key
    wrong = bytes([key[0] ^ 1]) + key[1:]
    others = (wrong, key[:4] + b"\0", key + b"\0") if minor == 0 else (wrong, key[:4], key + b"\0")
    requests = [startup.cancel_packet(pid, one) for one in (*others, key)]
    assert cancelled(bare_facade, client, relay.port, *requests) == [True] * 3
    client.send(query(b"select 1"))
    assert shape(client.until(b"Z")) == ["T", "D", "C", "ZI"]


# -- extended and simple protocol, as a direct connection answers ------------------------------------------------------

SERIES = b"select generate_series(1, 5)"


def run(text: bytes, name: bytes = b"", portal: bytes = b"", rows: int = 0) -> bytes:
    return parse(name, text) + bind(portal, name) + execute(portal, rows)


SAME: dict[str, list[bytes]] = {
    "an error skips to Sync": [run(b"select 1/0") + run(b"select 2") + query(b"select 3") + SYNC],
    "two errors, two Syncs": [run(b"selct") + SYNC + run(b"selct") + SYNC + run(b"select 1") + SYNC],
    "an unnamed statement is replaced": [parse(b"", b"select 1") + run(b"select 2") + SYNC],
    "an unnamed portal is replaced": [parse(b"", SERIES) + bind(b"", b"") + execute(b"", 2) + bind(b"", b"")
                                      + execute(b"", 2) + SYNC],
    "a named statement is not": [parse(b"n", b"select 1") + parse(b"n", b"select 2") + SYNC, close(b"S", b"n") + SYNC],
    "a named portal is not": [parse(b"", SERIES) + bind(b"n", b"") + bind(b"n", b"") + SYNC],
    "a portal suspends and resumes": [run(SERIES, portal=b"p", rows=2) + execute(b"p", 2) + execute(b"p", 2) + SYNC],
    "a portal ends with its transaction": [run(SERIES, portal=b"p", rows=2) + SYNC, execute(b"p") + SYNC],
    "a portal lives in a block": [query(b"begin"), run(SERIES, portal=b"p", rows=2) + SYNC, execute(b"p") + SYNC,
                                  query(b"commit")],
    "Describe of a statement": [parse(b"", b"select $1::int, 'x'") + describe(b"S", b"") + SYNC],
    "Describe of a statement without rows": [parse(b"", b"set work_mem = '8MB'") + describe(b"S", b"") + SYNC],
    "Describe of a portal in binary": [parse(b"", b"select $1::int, 'x'") + bind(b"", b"", (), (b"7",), (1,))
                                       + describe(b"P", b"") + execute(b"") + SYNC],
    "mixed formats": [parse(b"", b"select $1::int, $2::text") + bind(b"", b"", (1, 0), (b"\0\0\0\7", b"x"), (0, 1))
                      + describe(b"P", b"") + execute(b"") + SYNC],
    "Describe of nothing": [describe(b"S", b"no") + SYNC, describe(b"P", b"no") + SYNC, describe(b"X", b"") + SYNC],
    "Flush without Sync": [parse(b"", b"select 1") + messages.FLUSH + bind(b"", b"") + messages.FLUSH
                           + execute(b"") + SYNC],
    "Flush of nothing": [messages.FLUSH * 3 + query(b"select 1")],
    "a malformed Flush": [message(b"H", b"x") + query(b"select 1") + SYNC],
    "a malformed Flush behind a query": [query(b"select 1") + message(b"H", b"x") + query(b"select 2") + SYNC],
    "a malformed Sync": [message(b"S", b"x")],
    "malformed ones of every kind": [message(kind, b"\xff") + SYNC for kind in (b"P", b"B", b"D", b"C", b"E")],
    "several Syncs pipelined": [(run(b"select 1") + SYNC) * 5 + SYNC * 3],
    "Close of unknown names": [close(b"S", b"no") + close(b"P", b"no") + SYNC],
    "a Sync ends the implicit transaction": [run(b"create temp table t(a int)") + run(b"select 1/0") + SYNC,
                                             query(b"table t")],
    "an Execute with an empty text": [run(b"") + SYNC],
    "two commands in one Parse": [parse(b"", b"select 1; select 2") + SYNC],
    "wrong number of parameters": [parse(b"", b"select $1::int") + bind(b"", b"") + SYNC],
    "wrong number of formats": [parse(b"", b"select $1::int, $2::int") + bind(b"", b"", (0, 0, 0), (b"1", b"2"))
                                + SYNC],
    "a DISCARD ALL without Sync": [parse(b"s", b"select 1") + SYNC,
                                   run(b"discard all") + bind(b"", b"s") + execute(b"") + SYNC],
    "several statements": [query(b"select 1; set work_mem = '8MB'; select 2")],
    "several statements stop at the first error": [query(b"select 1; select 1/0; select 2")],
    "several statements are one transaction": [query(b"create temp table u(a int); select 1/0"), query(b"table u")],
    "an empty query": [query(b""), query(b" ; "), query(b"-- nothing")],
    "a query that is not ended": [message(b"Q", b"select 1")],
    "bytes behind the query": [message(b"Q", b"select 1\0select 2\0")],
    "copy out": [query(b"copy (select generate_series(1, 3)) to stdout")],
    "copy out by the extended protocol": [run(b"copy (select 1) to stdout") + SYNC],
    "copy out in binary": [query(b"copy (select 1) to stdout (format binary)")],
    "copy in": [query(b"create temp table t(a int)"),
                query(b"copy t from stdin") + message(b"d", b"1\n") + message(b"c"), query(b"select count(*) from t")],
    "copy in, Flush and Sync ignored": [query(b"create temp table t(a int)"), query(b"copy t from stdin")
                                        + messages.FLUSH + message(b"d", b"1\n") + SYNC + message(b"c")],
    "copy in refused by the client": [query(b"create temp table t(a int)"), query(b"copy t from stdin")
                                      + message(b"d", b"1\n") + message(b"f", b"no\0")],
    "copy in of what is no number": [query(b"create temp table t(a int)"),
                                     query(b"copy t from stdin") + message(b"d", b"x\n") + message(b"d", b"1\n")
                                     + message(b"c") + query(b"select 1")],
    "an unnamed portal that nobody bound": [execute(b"") + SYNC, describe(b"P", b"") + SYNC,
                                            query(b"select 1") + execute(b"") + SYNC],
    "an unnamed portal behind a failed Bind": [bind(b"", b"no") + SYNC + execute(b"") + SYNC],
    "an unnamed portal behind another Sync": [query(b"begin") + parse(b"", SERIES) + bind(b"", b"") + SYNC
                                              + execute(b"", 2) + SYNC + describe(b"P", b"") + execute(b"", 2) + SYNC
                                              + query(b"rollback")],
}  # fmt: skip


@pytest.mark.parametrize("rounds", SAME.values(), ids=SAME)
def test_the_same_as_direct(raw: RawClient, direct: RawClient, rounds: list[bytes]) -> None:
    for data in rounds:
        seen = []
        for client in (direct, raw):
            client.send(data + query(b"select 'the end'") if SYNC[:1] not in data[:1] else data)
            seen.append(until_the_end(client) if SYNC[:1] not in data[:1] else client.until(b"Z"))
        assert seen[1] == seen[0]


def test_a_portal_in_freed_memory_is_not_reached(raw: RawClient) -> None:
    """PostgreSQL keeps a failed simple Query's portal in a block, without its text: an Execute of it crashes 15.20."""
    for ask in (execute(b""), describe(b"P", b"")):
        raw.send(query(b"begin"), query(b"select 1/0"), ask + SYNC, query(b"rollback"), query(b"select 1"))
        found = raw.until(b"Z", 5)
        assert shape(found) == ["C", "ZT", "E", "ZE", "E", "ZE", "C", "ZI", "T", "D", "C", "ZI"]
        fields = messages.read_fields(found[4])
        assert (fields["C"], fields["M"]) == (b"34000", b'portal "" does not exist')


def until_the_end(client: RawClient) -> list[bytes]:
    found: list[bytes] = []
    while not any(b"the end" in raw for raw in found):
        found.append(client.receive())
        assert found[-1], shape(found)
    return found + client.until(b"Z")


# -- refused, and in step ----------------------------------------------------------------------------------------------

IN_STEP = {
    "a function call": (message(b"F", (1299).to_bytes(4, "big") + bytes(6)), "0A000"),
    "a malformed function call": (message(b"F"), "0A000"),
    "a long function call, as of a large object": (message(b"F", bytes(200_000)), "0A000"),
    "reserved statement names": (parse(b"_pge_1", b"select 1") + SYNC, "42602"),
}


@pytest.mark.parametrize(("data", "code"), IN_STEP.values(), ids=IN_STEP)
def test_refused_and_in_step(raw: RawClient, data: bytes, code: str) -> None:
    raw.send(data, query(b"select 1"))
    found = raw.until(b"Z", 2)
    assert shape(found) == ["E", "ZI", "T", "D", "C", "ZI"]
    assert messages.read_fields(found[0])["C"] == code.encode()


def test_our_errors_have_severity_code_and_message_and_nothing_of_the_server(raw: RawClient) -> None:
    for data in (query(b"select region as refuse_at_plan from secret"), message(b"F", bytes(10))):
        raw.send(data)
        fields = messages.read_fields(next(raw for raw in raw.until(b"Z") if raw[:1] == b"E"))
        assert {"S", "V", "C", "M"} <= set(fields) <= {"S", "V", "C", "M", "D", "H", "P"}


# -- SCRAM -------------------------------------------------------------------------------------------------------------


def test_without_tls_channel_binding_is_not_offered(raw: RawClient) -> None:
    assert raw.offered == b"SCRAM-SHA-256\0\0"


FIRSTS = {
    "PLUS, not offered": (sasl_first(b"p=tls-server-end-point,,n=,r=abc", b"SCRAM-SHA-256-PLUS"), "08P01"),
    "a binding, not offered": (sasl_first(b"p=tls-server-end-point,,n=,r=abc"), "08P01"),
    "another mechanism": (sasl_first(b"n,,n=,r=abc", b"PLAIN"), "08P01"),
    "another identity": (sasl_first(b"n,a=bob,n=,r=abc"), "0A000"),
    "no nonce": (sasl_first(b"n,,n=,r="), "08P01"),
    "a length that lies": (message(b"p", b"SCRAM-SHA-256\0" + b"\0\0\0\x09" + b"n,,"), "08P01"),
    "a negative length": (message(b"p", b"SCRAM-SHA-256\0" + b"\xff\xff\xff\xff"), "08P01"),
    "a password in clear": (message(b"p", PASSWORD.encode() + b"\0"), "08P01"),
}


@pytest.mark.parametrize(("first", "code"), FIRSTS.values(), ids=FIRSTS)
def test_first_messages_refused(relay: ThreadedProxy, first: bytes, code: str) -> None:
    answer = talk(relay.port, packet(ALICE) + first)
    assert error_code(answer[answer.index(b"E\0") :]) == code


@pytest.mark.parametrize("flag", [b"n,,n=,", b"y,,n=,", b"n,,n=whoever,", "n,,n=é,".encode()])
def test_any_name_in_the_first_message(relay: ThreadedProxy, flag: bytes) -> None:
    """libpq sends none, others a dummy; without TLS a client that could bind may say so."""
    answer = talk_twice(relay.port, packet(ALICE), sasl_first(flag + b"r=abc"))
    assert answer[1][:9] == b"R" + answer[1][1:5] + (11).to_bytes(4, "big")


def talk_twice(port: int, *parts: bytes) -> list[bytes]:
    """One answer to each part."""
    answers = []
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as s:
        for part in parts:
            s.sendall(part)
            answers.append(s.recv(4096))
    return answers


def test_who_cannot_log_in_is_challenged_like_who_can(relay: ThreadedProxy) -> None:
    """Same messages, same lengths, same iterations; a salt of its own that stays; only the proof decides."""

    def challenge(user: str) -> tuple[bytes, list[bytes]]:
        answers = talk_twice(relay.port, packet({"user": user}), sasl_first(b"n,,n=,r=abc"))
        return answers[0], answers[1][9:].split(b",")[1:]

    shapes = {(first, len(salt), count) for first, (salt, count) in map(challenge, ("alice", "nobody", "postgres"))}
    assert len(shapes) == 1, shapes
    assert challenge("nobody") == challenge("nobody") != challenge("somebody")
    codes = {refused(relay, user).text.replace(user, "*") for user in ("alice", "nobody", "postgres")}
    assert codes == {'password authentication failed for user "*"'}


def test_who_cannot_log_in_is_challenged_as_fast(relay: ThreadedProxy) -> None:
    """Medians of interleaved logins: a name that was not looked up would save a round trip and more, every time."""

    def alike() -> bool:
        times: dict[str, list[float]] = {"alice": [], "nobody": []}
        for _ in range(40):
            for user, seen in times.items():
                started = time.perf_counter()
                talk_twice(relay.port, packet({"user": user}), sasl_first(b"n,,n=,r=abc"))
                seen.append(time.perf_counter() - started)
        known, unknown = (statistics.median(seen) for seen in times.values())
        return 0.5 < known / unknown < 2

    assert any(alike() for _ in range(5)), "on a busy machine, one comparison may go wrong"


def refused(relay: ThreadedProxy, user: str) -> Refused:
    nobody = scram.Keys(bytes(32), bytes(32), bytes(32))
    with pytest.raises(Refused) as caught:
        RawClient(relay.port, nobody, user=user)
    return caught.value


def test_a_name_is_looked_up_once_before_the_proof(bare_facade: BareFacade) -> None:
    """Whether it exists or not; the name of the start-up packet."""
    asked: list[str] = []

    async def verifier(role: str) -> str | None:
        asked.append(role)
        return None

    proxy = ThreadedProxy(
        replace(facade_config(bare_facade)), Directory(verifier, lambda who: NoUpstream()), FakeSource(FakePrivate())
    )
    try:
        talk(proxy.port, packet(ALICE) + sasl_first(b"n,,n=mallory,r=abc") + message(b"p", b"c=biws,r=abc,p=AA=="))
    finally:
        proxy.close()
    assert asked == ["alice"]


@pytest.fixture
def raw_with(relay: ThreadedProxy, bare_facade: BareFacade, request: pytest.FixtureRequest) -> Callable[..., RawClient]:
    def connect(**more: Any) -> RawClient:
        client = RawClient(relay.port, keys_of(PASSWORD, bare_facade.verifier("alice") or ""), **more)
        request.addfinalizer(client.close)
        return client

    return connect
