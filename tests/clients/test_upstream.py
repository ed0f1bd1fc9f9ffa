"""The pool to the private database, against functions that play the extension; TLS in front of the relay."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest

from fix_proxy import PASSWORD, BareFacade, FakePrivate, ThreadedProxy, start_proxy
from fix_waiting import PATIENCE, backends, soon
from pg_epsilon_proxy.backoff import MAX_BACKOFF, Backoff
from pg_epsilon_proxy.config import Config, Limits, Private
from pg_epsilon_proxy.metrics import Metrics
from pg_epsilon_proxy.session.rewriting import Refusal
from pg_epsilon_proxy.upstream import UpstreamPool
from pg_epsilon_proxy.wire import startup

FUNCTIONS = """
CREATE ROLE dp_gateway LOGIN PASSWORD 'correct horse';
CREATE SEQUENCE called; CREATE SEQUENCE ending;
CREATE FUNCTION dp.ends() RETURNS text LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
  IF nextval('public.called') <= (SELECT last_value FROM public.ending) THEN
    PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(600); END IF;
  RETURN 'answered'; END $$;
CREATE FUNCTION dp.budget_totals(OUT dataset text, OUT epsilon int, OUT epsilon_left int, OUT used int, OUT frozen int)
  LANGUAGE sql AS $$ SELECT dp.ends(), 1, 1, 1, 0 $$;
CREATE FUNCTION dp.verifier(role name) RETURNS text LANGUAGE sql AS $$
  SELECT CASE role WHEN 'alice' THEN 'v' WHEN 'ending' THEN dp.ends() END $$;
CREATE TABLE outdated (pid int); GRANT SELECT ON outdated TO dp_gateway;
CREATE FUNCTION dp.dp_query(request jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$ BEGIN
  IF EXISTS (SELECT FROM public.outdated WHERE pid = pg_backend_pid()) THEN
    PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(600); END IF;
  IF request ? 'end' THEN RETURN jsonb_build_object('answer', dp.ends()); END IF;
  IF request ? 'sleep' THEN PERFORM pg_sleep((request->>'sleep')::float8); END IF;
  IF request ? 'raise' THEN
    RAISE EXCEPTION 'told' USING ERRCODE = request->>'raise', HINT = 'do', DETAIL = 'private'; END IF;
  RETURN jsonb_build_object('who', current_setting('dp.analyst'), 'pid', pg_backend_pid()); END $$;
CREATE FUNCTION dp.dp_plan(request jsonb) RETURNS jsonb LANGUAGE sql AS $$ SELECT dp.dp_query(request) $$;
"""


@pytest.fixture(scope="module")
def private(bare_facade: BareFacade) -> Config:
    with bare_facade.superuser() as connection:
        connection.execute(FUNCTIONS)
    return Config(
        private=Private(port=bare_facade.port, dbname="facade", user="dp_gateway", password=PASSWORD, pool_size=2),
        limits=Limits(acquire_timeout=PATIENCE),
    )


@pytest.fixture
async def pool(private: Config) -> AsyncIterator[UpstreamPool]:
    pool = UpstreamPool(private)
    await pool.open()
    yield pool
    await pool.close()


async def test_the_analyst_is_named_in_each_transaction_and_forgotten(pool: UpstreamPool) -> None:
    for name in ("alice", "o\"dd 'name"):
        assert (await pool.as_analyst(name).query({}))["who"] == name
    assert await pool.call(None, "SELECT current_setting('dp.analyst', true)") == [("",)]
    assert [await pool.verifier(role) for role in ("alice", "bob", "a" * 64)] == ["v", None, None]
    assert await pool.as_analyst("bob").rows("SELECT $1::int, current_setting('dp.analyst')", [7]) == [(7, "bob")]


@pytest.mark.parametrize(
    ("raised", "told"),
    [("DP001", "DP001"), ("42501", "42501"), ("57014", "57014"), ("22012", "DP006"), ("XX000", "DP006")],
)
async def test_errors_become_refusals(pool: UpstreamPool, raised: str, told: str) -> None:
    with pytest.raises(Refusal) as refused:
        await pool.as_analyst("alice").query({"raise": raised})
    assert refused.value.sqlstate == told
    assert (refused.value.message == "told") == (raised == told)
    assert refused.value.detail == ("private" if raised == "DP001" else None), "only the engine's own DETAIL leaves"
    assert (await pool.as_analyst("alice").query({}))["who"] == "alice"


OURS = "wait_event = 'PgSleep' AND application_name = 'pg-epsilon proxy'"  # the cluster is other tests' too


async def asleep(facade: BareFacade, count: int) -> bool:
    """Whether so many backends of the pool come to sleep."""

    def look() -> bool:
        with facade.superuser() as root:
            return soon(lambda: backends(root, OURS) == count)

    return await asyncio.to_thread(look)


async def test_timeout_and_cancel_retire_the_connection(pool: UpstreamPool, bare_facade: BareFacade) -> None:
    """Nobody waits for a backend that sleeps, and none sleeps on."""
    upstream = pool.as_analyst("alice")
    with pytest.raises(Refusal, match="statement timeout") as refused:
        await upstream.query({"sleep": 600}, timeout=1)
    assert refused.value.sqlstate == "57014"
    assert await asleep(bare_facade, 0)
    task = asyncio.ensure_future(upstream.query({"sleep": 600}))
    assert await asleep(bare_facade, 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [(await upstream.query({}))["who"] for _ in range(4)] == ["alice"] * 4
    assert await asleep(bare_facade, 0)


SETTINGS = "SELECT pg_backend_pid(), coalesce(current_setting('dp.analyst', true), '')"
STATES = "SELECT array_agg(DISTINCT state) FROM pg_stat_activity WHERE usename = 'dp_gateway'"


async def test_nothing_of_a_call_stays_on_its_connection(private: Config, bare_facade: BareFacade) -> None:
    """Whatever a call was, and however it ended: no analyst's name, no open transaction, and the same backend."""
    pool = UpstreamPool(replace(private, private=replace(private.private, pool_size=1)))
    await pool.open()
    alice = pool.as_analyst("alice")
    calls: list[Callable[[], Awaitable[Any]]] = [
        lambda: alice.query({}),
        lambda: alice.plan({}),
        lambda: alice.rows("SELECT current_setting('dp.analyst')"),
        lambda: alice.query({"raise": "DP001"}),
        lambda: alice.query({"raise": "22012"}),
        lambda: alice.rows("SELECT 1 / 0"),
        lambda: alice.rows("SELECT nosuch"),
        lambda: pool.call(None, "SELECT 1 / 0"),
    ]
    pids = set()
    for call in calls:
        with contextlib.suppress(Refusal):
            await call()
        with bare_facade.superuser() as root:  # backends of other tests' pools may be ending
            assert soon(lambda root=root: root.execute(STATES).fetchone() == (["idle"],))
        ((pid, analyst),) = await pool.call(None, SETTINGS)
        assert analyst == ""
        pids.add(pid)
    assert len(pids) == 1
    await pool.close()


@pytest.mark.parametrize("how", ["query", "rows"])
async def test_a_cancelled_calls_connection_is_never_used_again(
    private: Config, bare_facade: BareFacade, how: str
) -> None:
    pool = UpstreamPool(replace(private, private=replace(private.private, pool_size=1)))
    await pool.open()
    alice = pool.as_analyst("alice")
    before = (await pool.call(None, SETTINGS))[0][0]
    call = alice.query({"sleep": 600}) if how == "query" else alice.rows("SELECT pg_sleep(600)")
    task = asyncio.ensure_future(call)
    assert await asleep(bare_facade, 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    ((pid, analyst),) = await pool.call(None, SETTINGS)
    assert pid != before and analyst == ""
    await pool.close()


END_GATEWAYS = "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE usename = 'dp_gateway'"


async def test_dead_connections_are_replaced(private: Config, bare_facade: BareFacade) -> None:
    """A dead connection is one failed question at most, and does not keep its place in the pool."""
    pool = UpstreamPool(private)
    await pool.open()
    alice = pool.as_analyst("alice")
    for _ in range(3):
        await asyncio.gather(*(pool.call(None, "SELECT pg_sleep(0.05)") for _ in range(2)))
        with bare_facade.superuser() as connection:
            connection.execute(END_GATEWAYS)
        ended = [await _code(alice.query({})) for _ in range(6)]
        assert set(ended) <= {None, "DP006"} and ended[-1] is None
    await pool.close()


READING: dict[str, Callable[[UpstreamPool], Awaitable[Any]]] = {
    "login": lambda pool: pool.verifier("ending"),
    "plan": lambda pool: pool.as_analyst("alice").plan({"end": 1}),
    "view": lambda pool: pool.as_analyst("alice").rows("SELECT dp.ends()"),
    "metrics": lambda pool: pool.budgets(),
}


@pytest.fixture
def calls(bare_facade: BareFacade) -> Iterator[Callable[[], int]]:
    """How often the function was called that ends its backend; the first time alone, unless told."""
    with bare_facade.superuser() as connection:
        connection.execute("SELECT setval('called', 1, false), setval('ending', 1)")
        yield lambda: int(
            connection.execute("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM called").fetchone()[0]
        )  # type: ignore[index]


@pytest.mark.parametrize("asked", READING.values(), ids=READING)
async def test_what_only_reads_is_asked_once_more(
    pool: UpstreamPool,
    bare_facade: BareFacade,
    calls: Callable[[], int],
    asked: Callable[[UpstreamPool], Awaitable[Any]],
) -> None:
    """A connection that ends refuses no login; where every one ends, that is an error and no loop."""
    answer = await asked(pool)
    assert answer is None or "answered" in repr(answer)
    assert calls() == 2
    with bare_facade.superuser() as connection:
        connection.execute("SELECT setval('ending', 100)")
    with pytest.raises(Refusal) as refused:
        await asked(pool)
    assert refused.value.sqlstate == "DP006"
    assert calls() == 4


async def test_what_may_charge_is_asked_once(pool: UpstreamPool, calls: Callable[[], int]) -> None:
    with pytest.raises(Refusal) as refused:
        await pool.as_analyst("alice").query({"end": 1})
    assert refused.value.sqlstate == "DP006"
    assert calls() == 1


@pytest.fixture
def update(bare_facade: BareFacade) -> Iterator[Callable[[], None]]:
    """ALTER EXTENSION UPDATE of one whose library the gateway's backends have loaded: each ends in its next call."""

    def run() -> None:
        with bare_facade.superuser() as connection:
            connection.execute(
                "INSERT INTO outdated SELECT pid FROM pg_stat_activity WHERE usename = 'dp_gateway';"
                "UPDATE pg_extension SET extversion = '1.1' WHERE extname = 'plpgsql'"
            )

    yield run
    with bare_facade.superuser() as connection:
        connection.execute("DELETE FROM outdated; UPDATE pg_extension SET extversion = '1.0' WHERE extname = 'plpgsql'")


async def test_outdated_connections_are_replaced_and_a_call_repeated(
    pool: UpstreamPool, update: Callable[[], None]
) -> None:
    """Once, whichever connection of the pool it meets: after the first all others are replaced too."""
    alice = pool.as_analyst("alice")
    held = {reply["pid"] for reply in await asyncio.gather(*(alice.query({"sleep": 0.5}) for _ in range(2)))}
    assert len(held) == 2
    update()
    answers = await asyncio.gather(*(alice.query({}) for _ in range(4)))
    assert not {reply["pid"] for reply in answers} & held


async def test_a_fresh_question_is_repeated_by_who_asked_it(pool: UpstreamPool, update: Callable[[], None]) -> None:
    """It would be charged again; the next one finds no outdated connection any more."""
    alice = pool.as_analyst("alice")
    await asyncio.gather(*(alice.query({"sleep": 0.5}) for _ in range(2)))
    update()
    assert await _code(alice.query({"fresh": True})) == "DP006"
    assert [await _code(alice.query({"fresh": True})) for _ in range(4)] == [None] * 4


async def _code(call: Awaitable[Any]) -> str | None:
    try:
        await call
        return None
    except Refusal as refusal:
        return refusal.sqlstate


async def test_no_free_connection_is_an_error_in_time(
    pool: UpstreamPool, private: Config, bare_facade: BareFacade
) -> None:
    upstream = pool.as_analyst("alice")
    tasks = [asyncio.ensure_future(upstream.query({"sleep": 600})) for _ in range(2)]
    assert await asleep(bare_facade, 2)
    pool.reload(replace(private, limits=replace(private.limits, acquire_timeout=1)))
    with pytest.raises(Refusal) as refused:
        await upstream.query({})
    assert refused.value.sqlstate == "DP006"
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_standing_analyst_is_not_believed(private: Config, bare_facade: BareFacade) -> None:
    with bare_facade.superuser() as connection:
        connection.execute("ALTER ROLE dp_gateway SET dp.analyst = 'mallory'")
        try:
            with pytest.raises(asyncpg.InterfaceError, match=r"dp\.analyst is set"):
                await UpstreamPool(private).open()
        finally:
            connection.execute("ALTER ROLE dp_gateway RESET dp.analyst")


WARMED = """CREATE TABLE warmed (pid int);
CREATE FUNCTION dp.warm() RETURNS boolean LANGUAGE sql SECURITY DEFINER AS $$
  INSERT INTO public.warmed VALUES (pg_backend_pid()) RETURNING true $$"""


@pytest.fixture
def warmed(bare_facade: BareFacade) -> Iterator[Callable[[], list[int]]]:
    """The backends in which the engine was loaded, in order."""
    with bare_facade.superuser() as connection:
        connection.execute(WARMED)
        try:
            yield lambda: [row[0] for row in connection.execute("SELECT pid FROM warmed").fetchall()]
        finally:
            connection.execute("DROP FUNCTION dp.warm(); DROP TABLE warmed")


async def test_the_engine_is_loaded_before_anybody_asks(private: Config, warmed: Callable[[], list[int]]) -> None:
    """In as many connections as wanted, once each; the first calls run on those."""
    pool = UpstreamPool(private)
    await pool.open()
    loaded = warmed()
    assert len(set(loaded)) == len(loaded) == 2
    alice = pool.as_analyst("alice")
    answers = await asyncio.gather(*(alice.query({"sleep": 0.5}) for _ in range(2)))
    assert {answer["pid"] for answer in answers} == set(loaded)
    await pool.warm()
    assert warmed() == loaded
    await pool.close()


async def test_a_retired_connection_is_replaced_by_a_warm_one(private: Config, warmed: Callable[[], list[int]]) -> None:
    metrics = Metrics()
    pool = UpstreamPool(private, metrics)
    await pool.open()
    with pytest.raises(Refusal):
        await pool.as_analyst("alice").query({"sleep": 600}, timeout=1)
    assert metrics.get("pg_epsilon_pool_retired_total") == 1
    warm = {"idle": 2, "busy": 0, "retiring": 0}
    assert await asyncio.to_thread(soon, lambda: len(set(warmed())) == 3), "the keeper warms one without a call"
    assert await asyncio.to_thread(soon, lambda: states(pool, metrics) == warm)
    await pool.close()


def states(pool: UpstreamPool, metrics: Metrics) -> dict[str, float]:
    pool.count()
    return {state: metrics.get("pg_epsilon_pool_connections", state) for state in ("idle", "busy", "retiring")}


async def test_a_channel_in_trouble_is_no_reason_not_to_start(
    private: Config, bare_facade: BareFacade, warmed: Callable[[], list[int]]
) -> None:
    with bare_facade.superuser() as connection:
        connection.execute(
            "CREATE OR REPLACE FUNCTION dp.warm() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN"
            " RAISE EXCEPTION USING ERRCODE = 'DP006', MESSAGE = 'no channel'; END $$"
        )
    pool = UpstreamPool(private)
    await pool.open()
    assert (await pool.as_analyst("alice").query({}))["who"] == "alice"
    await pool.close()


def test_attempts_to_connect_become_rarer() -> None:
    now = 0.0
    backoff = Backoff(lambda: now)
    waits = []
    for _ in range(10):
        backoff.tried(False)
        waits.append(round(backoff.wait, 9))
        now += backoff.wait
    assert 0.1 <= waits[0] < 0.13 and waits[1] == pytest.approx(2 * waits[0])
    assert waits == sorted(waits) and MAX_BACKOFF <= waits[-1] == waits[-2] < MAX_BACKOFF * 1.25
    backoff.tried(True)
    assert backoff.wait == 0


async def test_a_database_that_is_away_is_not_hammered(private: Config, bare_facade: BareFacade) -> None:
    """200 calls while it refuses connections: a few attempts; once it is back, calls are answered without a restart."""
    metrics = Metrics()
    pool = UpstreamPool(replace(private, limits=replace(private.limits, acquire_timeout=1)), metrics)
    await pool.open()
    alice = pool.as_analyst("alice")
    with bare_facade.superuser() as connection:
        connection.execute("ALTER ROLE dp_gateway NOLOGIN")
        connection.execute(END_GATEWAYS)
        codes = await asyncio.gather(*(_code(alice.query({})) for _ in range(200)))
        assert codes == ["DP006"] * 200
        assert metrics.get("pg_epsilon_pool_connects_total", "no") <= 40
        connection.execute("ALTER ROLE dp_gateway LOGIN")
    pool.reload(private)
    async with asyncio.timeout(PATIENCE):
        while await _code(alice.query({})) is not None:
            continue
    assert await _code(alice.query({})) is None
    await pool.close()


@pytest.fixture(scope="module")
def tls_proxy(bare_facade: BareFacade, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadedProxy]:
    folder: Path = tmp_path_factory.mktemp("tls")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-keyout", str(folder / "key"), "-out", str(folder / "cert")], check=True, capture_output=True,
    )  # fmt: skip
    proxy = start_proxy(
        bare_facade,
        FakePrivate(),
        tls_cert=str(folder / "cert"),
        tls_key=str(folder / "key"),
        tls_required=True,
        unix_socket=str(folder),
    )
    yield proxy
    proxy.close()


def test_tls_by_libpq(tls_proxy: ThreadedProxy) -> None:
    certificate = tls_proxy.config.listen.tls_cert
    with psycopg.connect(**tls_proxy.conninfo(sslmode="verify-ca", sslrootcert=certificate)) as connection:
        assert connection.pgconn.ssl_in_use
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_tls_is_required_on_tcp_but_not_on_the_unix_socket(tls_proxy: ThreadedProxy) -> None:
    with pytest.raises(psycopg.OperationalError, match="over TLS only"):
        psycopg.connect(**tls_proxy.conninfo(sslmode="disable"))
    with psycopg.connect(**tls_proxy.conninfo(host=tls_proxy.config.listen.unix_socket)) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def wrapped(proxy: ThreadedProxy, alpn: list[str]) -> ssl.SSLSocket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(proxy.config.listen.tls_cert)
    context.check_hostname = False
    if alpn:
        context.set_alpn_protocols(alpn)
    return context.wrap_socket(socket.create_connection(("127.0.0.1", proxy.port), timeout=PATIENCE))


@pytest.mark.parametrize(("alpn", "answered"), [(["postgresql"], True), ([], False), (["http/1.1"], False)])
def test_direct_tls_needs_its_alpn(tls_proxy: ThreadedProxy, alpn: list[str], answered: bool) -> None:
    with wrapped(tls_proxy, alpn) as client:
        try:
            client.sendall(startup.startup_packet({"user": "alice"}))
            answer = client.recv(100)
        except (ConnectionError, ssl.SSLError):
            answer = b""
        assert answer.startswith(b"R") == answered


def test_bytes_in_clear_before_the_handshake_are_not_believed(tls_proxy: ThreadedProxy) -> None:
    """The class of CVE-2021-23214: what a man in the middle sends behind the SSLRequest never reaches the session."""
    with socket.create_connection(("127.0.0.1", tls_proxy.port), timeout=PATIENCE) as client:
        client.sendall(startup.SSL_REQUEST + startup.startup_packet({"user": "alice"}))
        assert client.recv(1) == b"S"
        try:
            assert b"SCRAM" not in client.recv(1000)
        except ConnectionError:
            return
