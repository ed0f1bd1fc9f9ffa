"""TLS towards clients: by request and direct, channel binding, nothing in clear read as encrypted (anchors A2, A3)."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import socket
import ssl
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest

from fix_proxy import PASSWORD, BareFacade, FakePrivate, ThreadedProxy, psql, start_proxy
from fix_raw import error_code, packet, sasl_first, talk
from fix_waiting import PATIENCE, cancelling, until_closed
from pg_epsilon_proxy.wire import messages, scram, startup

ALICE = packet({"user": "alice", "database": "facade"})


@pytest.fixture(scope="module", params=["sha256", "sha512"])
def encrypted(
    request: pytest.FixtureRequest, bare_facade: BareFacade, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ThreadedProxy]:
    """A certificate whose own hash is the binding's, and one whose is stronger."""
    folder = tmp_path_factory.mktemp("tls")
    make(folder, request.param)
    files = {"tls_cert": str(folder / "server.crt"), "tls_key": str(folder / "server.key")}
    proxy = start_proxy(bare_facade, FakePrivate(), **files)
    yield proxy
    proxy.close()


def make(folder: Path, digest: str, key: str = "rsa:2048") -> None:
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", key, f"-{digest}", "-nodes", "-days", "2", "-subj", "/CN=proxy"),
            *("-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", str(folder / "server.key"), "-out", str(folder / "server.crt")),
        ],
        check=True,
        capture_output=True,
    )


CONNECTIONS: dict[str, dict[str, Any]] = {
    "by request": {"sslmode": "require"},
    "direct": {"sslmode": "require", "sslnegotiation": "direct"},
    "verified": {"sslmode": "verify-full"},
    "bound to the certificate": {"sslmode": "require", "channel_binding": "require"},
    "bound, direct": {"sslmode": "require", "channel_binding": "require", "sslnegotiation": "direct"},
    "not bound": {"sslmode": "require", "channel_binding": "disable"},
    "protocol 3.2": {"sslmode": "require", "min_protocol_version": "3.2", "max_protocol_version": "3.2"},
}


@pytest.mark.parametrize("how", CONNECTIONS.values(), ids=CONNECTIONS)
def test_libpq(encrypted: ThreadedProxy, how: dict[str, Any]) -> None:
    roots = {"sslrootcert": encrypted.config.listen.tls_cert} if how["sslmode"] == "verify-full" else {}
    with psycopg.connect(**encrypted.conninfo(**how, **roots)) as connection:
        assert connection.pgconn.ssl_in_use
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_an_older_libpq_and_asyncpg(encrypted: ThreadedProxy) -> None:
    assert psql(encrypted, "-c", "\\conninfo").stdout.count("TLSv1.3") == 1

    async def ask() -> int:
        context = ssl.create_default_context(cafile=encrypted.config.listen.tls_cert)
        connection = await asyncpg.connect(
            host="127.0.0.1", port=encrypted.port, user="alice", password=PASSWORD, database="facade", ssl=context
        )
        try:
            return int(await connection.fetchval("SELECT 1"))
        finally:
            await connection.close()

    assert asyncio.run(ask()) == 1


@pytest.mark.parametrize("how", CONNECTIONS.values(), ids=CONNECTIONS)
def test_cancel_over_tls(encrypted: ThreadedProxy, bare_facade: BareFacade, how: dict[str, Any]) -> None:
    roots = {"sslrootcert": encrypted.config.listen.tls_cert} if how["sslmode"] == "verify-full" else {}
    with psycopg.connect(**encrypted.conninfo(**how, **roots)) as connection:
        cancelled = pytest.raises(psycopg.errors.QueryCanceled)
        with cancelling(connection.cancel_safe, bare_facade.superuser), cancelled:
            connection.execute("SELECT pg_sleep(600)")


# -- what is not let in ------------------------------------------------------------------------------------------------


def client_context(*protocols: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if protocols:
        context.set_alpn_protocols(list(protocols))
    return context


@contextlib.contextmanager
def tls(proxy: ThreadedProxy, *protocols: str, direct: bool = False) -> Iterator[ssl.SSLSocket]:
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=PATIENCE) as plain:
        if not direct:
            plain.sendall(startup.SSL_REQUEST)
            assert plain.recv(1) == b"S"
        with client_context(*protocols).wrap_socket(plain) as wrapped:
            yield wrapped


def test_direct_tls_for_postgresql_only(encrypted: ThreadedProxy) -> None:
    with tls(encrypted, "postgresql", direct=True) as s:
        s.sendall(ALICE)
        assert s.recv(9)[:1] == b"R"


@pytest.mark.parametrize("protocols", [(), ("http/1.1",), ("h2", "http/1.1")])
def test_direct_tls_of_another_protocol_is_closed(encrypted: ThreadedProxy, protocols: tuple[str, ...]) -> None:
    """A browser that is led here must not be understood (ALPACA); asyncpg's direct_tls names no protocol either."""
    with contextlib.suppress(ssl.SSLError, ConnectionError), tls(encrypted, *protocols, direct=True) as s:
        s.sendall(ALICE)
        assert until_closed(s) == b""


@pytest.mark.parametrize("more", [ALICE, messages.query(b"select 1"), b"\x16", bytes(100)])
def test_clear_bytes_behind_the_request_are_no_part_of_the_session(encrypted: ThreadedProxy, more: bytes) -> None:
    """CVE-2021-23214: what a man in the middle sends early belongs to the handshake, which it breaks."""
    with socket.create_connection(("127.0.0.1", encrypted.port), timeout=PATIENCE) as plain:
        plain.sendall(startup.SSL_REQUEST + more)
        assert plain.recv(1) == b"S"
        with pytest.raises((ssl.SSLError, OSError)), client_context().wrap_socket(plain) as wrapped:
            wrapped.sendall(ALICE)
            wrapped.recv(100)


GSS = (8).to_bytes(4, "big") + startup.GSS_CODE.to_bytes(4, "big")


@pytest.mark.parametrize("request_", [startup.SSL_REQUEST, GSS], ids=["SSL", "GSS"])
@pytest.mark.parametrize("direct", [False, True])
def test_no_second_negotiation_inside_tls(encrypted: ThreadedProxy, direct: bool, request_: bytes) -> None:
    with tls(encrypted, "postgresql", direct=direct) as s:
        s.sendall(request_)
        assert error_code(until_closed(s)) == "0A000"


def test_gss_before_tls_is_answered_no(encrypted: ThreadedProxy) -> None:
    with socket.create_connection(("127.0.0.1", encrypted.port), timeout=PATIENCE) as plain:
        plain.sendall(GSS)
        assert plain.recv(1) == b"N"
        plain.sendall(startup.SSL_REQUEST)
        assert plain.recv(1) == b"S"
        with client_context().wrap_socket(plain) as wrapped:
            wrapped.sendall(ALICE)
            assert b"SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0" in wrapped.recv(100)


def test_handshakes_that_do_not_come_to_an_end(bare_facade: BareFacade, tmp_path: Path) -> None:
    """Each is closed in time; meanwhile others are served."""
    make(tmp_path, "sha256")
    files = {"tls_cert": str(tmp_path / "server.crt"), "tls_key": str(tmp_path / "server.key")}
    unfinished = (b"", b"\x16", b"\x16\x03\x01\x02\x00", b"\x16" + bytes(200), startup.SSL_REQUEST)
    proxy = start_proxy(bare_facade, FakePrivate(), {"login_timeout": 8}, **files)
    try:
        with ThreadPoolExecutor(len(unfinished)) as pool:
            talks = [pool.submit(talk, proxy.port, data) for data in unfinished]
            with psycopg.connect(**proxy.conninfo(sslmode="require")) as connection:
                assert connection.execute("SELECT 1").fetchone() == (1,)
            for one in talks:
                one.result(PATIENCE)
    finally:
        proxy.close()


# -- channel binding ---------------------------------------------------------------------------------------------------


def begin(s: ssl.SSLSocket, flag: bytes, mechanism: str) -> bytes:
    s.sendall(ALICE)
    assert b"SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0" in s.recv(100)
    s.sendall(sasl_first(flag + b"n=,r=abc", mechanism.encode()))
    return s.recv(4096)


def test_a_downgraded_client_is_told(encrypted: ThreadedProxy) -> None:
    """It can bind and says that it was not offered to: somebody has taken PLUS out of our offer."""
    with tls(encrypted) as s:
        answer = begin(s, b"y,,", scram.MECHANISM)
        assert error_code(answer) == "08P01" and b"bind to the TLS channel" in answer


@pytest.mark.parametrize(("flag", "mechanism"), [(b"n,,", scram.PLUS), (b"p=tls-unique,,", scram.PLUS)])
def test_malformed_bindings(encrypted: ThreadedProxy, flag: bytes, mechanism: str) -> None:
    with tls(encrypted) as s:
        assert error_code(begin(s, flag, mechanism)) == "08P01"


def test_a_proof_for_another_certificate(encrypted: ThreadedProxy) -> None:
    """As a man in the middle would pass it on."""
    with tls(encrypted) as s:
        answer = begin(s, scram.BINDING.encode() + b",,", scram.PLUS)
        nonce = answer[9:].split(b",")[0]
        bound = base64.b64encode(scram.BINDING.encode() + b",," + bytes(32))
        s.sendall(messages.message(b"p", b"c=" + bound + b"," + nonce + b",p=" + base64.b64encode(bytes(32))))
        answer = until_closed(s)
        assert error_code(answer) == "28000" and b"channel binding" in answer


def test_a_certificate_without_a_binding_offers_none(bare_facade: BareFacade, tmp_path: Path) -> None:
    """Ed25519 names no hash function: the binding is not defined, and y is no downgrade then."""
    make(tmp_path, "sha256", "ed25519")
    files = {"tls_cert": str(tmp_path / "server.crt"), "tls_key": str(tmp_path / "server.key")}
    proxy = start_proxy(bare_facade, FakePrivate(), **files)
    try:
        with psycopg.connect(**proxy.conninfo(sslmode="require", channel_binding="prefer")) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
        with tls(proxy) as s:
            s.sendall(ALICE)
            assert b"PLUS" not in s.recv(100)
            s.sendall(sasl_first(b"y,,n=,r=abc"))
            assert s.recv(9)[5:9] == (11).to_bytes(4, "big")
    finally:
        proxy.close()
