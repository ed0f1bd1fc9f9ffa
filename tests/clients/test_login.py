"""Start-up and login over a real socket, each check of the wire list (facade-and-channel.md §3)."""

from __future__ import annotations

import asyncio
import socket

import asyncpg
import psycopg
import pytest

from fix_proxy import PASSWORD, BareFacade, FakePrivate, ThreadedProxy, psql, start_proxy
from fix_raw import error_code, talk
from fix_waiting import PATIENCE, soon
from pg_epsilon_proxy.wire import messages, startup


def test_psql_logs_in_as_the_analyst(relay: ThreadedProxy) -> None:
    done = psql(relay, "-c", "SELECT current_user, session_user, current_database()")
    assert done.stdout == "alice|alice|facade\n", done.stderr


def test_database_name_is_mapped(relay: ThreadedProxy) -> None:
    with psycopg.connect(**relay.conninfo(dbname="shop")) as c:
        assert c.execute("SELECT current_database()").fetchone() == ("facade",)
    with pytest.raises(psycopg.OperationalError, match='database "other" does not exist'):
        psycopg.connect(**relay.conninfo(dbname="other"))


@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("nobody", PASSWORD), ("postgres", PASSWORD)])
def test_wrong_password_and_unknown_user_look_alike(relay: ThreadedProxy, user: str, password: str) -> None:
    done = psql(relay, "-c", "SELECT 1", user=user, password=password)
    assert done.returncode == 2
    assert f'FATAL:  password authentication failed for user "{user}"' in done.stderr


@pytest.mark.parametrize(("user", "error"), [("late", "password authentication failed"), ("crowd", "too many connec")])
def test_facade_own_login_rules_hold(relay: ThreadedProxy, user: str, error: str) -> None:
    """VALID UNTIL and CONNECTION LIMIT are PostgreSQL's: the facade session is the analyst's own."""
    assert error in psql(relay, "-c", "SELECT 1", user=user).stderr


def test_unknown_user_gets_a_stable_salt(relay: ThreadedProxy) -> None:
    def challenge(user: str, nonce: str) -> bytes:
        with socket.create_connection(("127.0.0.1", relay.port), timeout=PATIENCE) as s:
            s.sendall(startup.startup_packet({"user": user}))
            s.recv(1000)
            first = f"n,,n=,r={nonce}".encode()
            s.sendall(messages.message(b"p", b"SCRAM-SHA-256\0" + len(first).to_bytes(4, "big") + first))
            return s.recv(1000).split(b",", 1)[1]

    assert challenge("nobody", "abc") == challenge("nobody", "def") != challenge("nobody2", "abc")


STARTUPS = [
    ({"user": "alice", "replication": "database"}, "0A000"),
    ({"user": "alice", "replication": "true"}, "0A000"),
    ({"user": "alice", "session_preload_libraries": "x"}, "0A000"),
    ({"database": "facade"}, "28000"),
]


@pytest.mark.parametrize(("parameters", "code"), STARTUPS)
def test_startup_refused(relay: ThreadedProxy, parameters: dict[str, str], code: str) -> None:
    assert error_code(talk(relay.port, startup.startup_packet(parameters))) == code


PACKETS = {
    "too short": (4).to_bytes(4, "big") + bytes(4),
    "too long": (10_001).to_bytes(4, "big") + bytes(4),
    "huge": b"\x7f\xff\xff\xff" + bytes(4),
    "http": b"GET / HTTP/1.1\r\n\r\n",
    "protocol 2": (9).to_bytes(4, "big") + (2 << 16).to_bytes(4, "big") + b"\0",
    "two ssl requests": startup.SSL_REQUEST + startup.SSL_REQUEST,
    "not terminated": (13).to_bytes(4, "big") + (3 << 16).to_bytes(4, "big") + b"user\0",
    "second startup": startup.startup_packet({"user": "alice"}) * 2,
    "big auth message": startup.startup_packet({"user": "alice"}) + b"p\x00\x10\x00\x00" + b"x" * 100,
    "query before login": startup.startup_packet({"user": "alice"}) + messages.query(b"select 1"),
}


@pytest.mark.parametrize("packet", PACKETS.values(), ids=PACKETS)
def test_bad_beginnings_end_with_a_fatal_error(relay: ThreadedProxy, packet: bytes) -> None:
    assert error_code(talk(relay.port, packet)) in ("08P01", "0A000")


def test_gss_and_tls_requests_get_n(relay: ThreadedProxy) -> None:
    gss = (8).to_bytes(4, "big") + startup.GSS_CODE.to_bytes(4, "big")
    with socket.create_connection(("127.0.0.1", relay.port), timeout=PATIENCE) as s:
        for request in (gss, startup.SSL_REQUEST):
            s.sendall(request)
            assert s.recv(10) == b"N"


def test_a_broken_facade_serves_nobody(bare_facade: BareFacade) -> None:
    private = FakePrivate()
    proxy = start_proxy(bare_facade, private)
    try:
        with psycopg.connect(**proxy.conninfo(autocommit=True)) as connection:
            private.problems.append("public.secret has no net")
            proxy.loop.call_soon_threadsafe(proxy.source.notify)
            assert soon(lambda: not proxy.server.sessions)
            with pytest.raises(psycopg.DatabaseError, match="the proxy is not ready"):
                connection.execute("SELECT 1")
        with pytest.raises(psycopg.OperationalError, match="the proxy is not ready"):
            psycopg.connect(**proxy.conninfo())
        private.problems.clear()
        proxy.loop.call_soon_threadsafe(proxy.source.notify)
        assert soon(lambda: proxy.server.policy.serving)
        with psycopg.connect(**proxy.conninfo()) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
    finally:
        proxy.close()


def test_sessions_leave_nothing_behind(relay: ThreadedProxy, bare_facade: BareFacade) -> None:
    async def many() -> None:
        async def one() -> None:
            c = await asyncpg.connect(
                host="127.0.0.1", port=relay.port, user="alice", password=PASSWORD, database="facade", ssl=False
            )
            await c.fetchval("SELECT 1")
            await c.close()

        await asyncio.gather(*(one() for _ in range(20)))

    asyncio.run(many())
    assert soon(lambda: relay.server.sessions == 0)
