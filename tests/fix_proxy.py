"""A bare PostgreSQL that plays the facade, and a proxy in front of it in its own thread.

The rewriting brain is a fake with one private table, `secret`: it shows what the wire layer does with a plan, a
refusal, a slow call.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import re
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from fix_cluster import find_postgres
from fix_ports import free_port
from fix_raw import RawClient, keys_of
from fix_waiting import PATIENCE
from pg_epsilon_proxy.config import Config, Facade, Limits, Listen
from pg_epsilon_proxy.rewrite.prepared import noted
from pg_epsilon_proxy.server import Directory, ProxyServer
from pg_epsilon_proxy.session.rewriting import BoundParams, FacadeError, Field, Made, Plan, Refusal, Rewriter, SessionIO
from pg_epsilon_proxy.session.written import AS_IT_IS, Written

PASSWORD = "correct horse"
REGIONS = ("north", "south")
GROUPED_SQL = "SELECT region, count(*) FROM secret WHERE n > {} GROUP BY region"
ROWS = [("north", 7), ("south", 8)]  # its answer where n > 7
_, BIN = find_postgres()  # never PATH: another PostgreSQL may be there

HBA = """\
local all postgres trust
host all all 127.0.0.1/32 scram-sha-256
"""

SCHEMA = """
CREATE ROLE dp_analyst;
CREATE ROLE alice LOGIN PASSWORD 'correct horse' IN ROLE dp_analyst;
CREATE ROLE late LOGIN PASSWORD 'correct horse' IN ROLE dp_analyst VALID UNTIL '2020-01-01';
CREATE ROLE crowd LOGIN PASSWORD 'correct horse' IN ROLE dp_analyst CONNECTION LIMIT 0;
CREATE SCHEMA dp; GRANT USAGE ON SCHEMA dp TO PUBLIC;
CREATE FUNCTION dp.raise(sqlstate text, message text, detail text DEFAULT NULL, hint text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$ BEGIN
  RAISE EXCEPTION USING ERRCODE = $1, MESSAGE = $2, DETAIL = coalesce($3, ''), HINT = coalesce($4, ''); END $$;
CREATE FUNCTION dp.refuse(relation text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN
  RAISE EXCEPTION USING ERRCODE = 'DP002', MESSAGE = format('rows of %s are private', relation); END $$;
CREATE TABLE secret (region character varying(10), n integer);
ALTER TABLE secret ENABLE ROW LEVEL SECURITY; ALTER TABLE secret FORCE ROW LEVEL SECURITY;
CREATE POLICY pg_epsilon ON secret FOR SELECT USING (dp.refuse('public.secret')); GRANT SELECT ON secret TO alice;
"""


@dataclass(frozen=True)
class BareFacade:
    folder: Path
    port: int

    def superuser(self) -> psycopg.Connection[Any]:
        return psycopg.connect(host=str(self.folder), port=self.port, dbname="facade", user="postgres", autocommit=True)

    def verifier(self, role: str) -> str | None:
        with self.superuser() as connection:
            row = connection.execute("SELECT rolpassword FROM pg_authid WHERE rolname = %s", (role,)).fetchone()
        return row[0] if row else None


def _as_server(*words: str) -> None:
    """A postmaster must not hold our pipes, and does not run as root."""
    user = {} if os.geteuid() else {"user": "postgres", "group": pwd.getpwnam("postgres").pw_gid, "extra_groups": []}
    subprocess.run(
        words, check=True, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=240, **user
    )


@pytest.fixture(scope="session")
def bare_facade() -> Iterator[BareFacade]:
    with bare_cluster() as cluster:
        yield cluster


@contextmanager
def bare_cluster() -> Iterator[BareFacade]:
    folder = Path(tempfile.mkdtemp(prefix="pge-wire-", dir="/tmp"))
    if not os.geteuid():
        shutil.chown(folder, "postgres")
    folder.chmod(0o755)
    data, port = folder / "data", free_port()
    _as_server(str(BIN / "initdb"), "-D", str(data), "-U", "postgres", "--no-sync", "--locale=C.UTF-8", "-A", "trust")
    (data / "pg_hba.conf").write_text(HBA)
    with (data / "postgresql.conf").open("a") as out:
        out.write(f"port = {port}\nunix_socket_directories = '{folder}'\nlisten_addresses = '127.0.0.1'\nfsync = off\n")
    try:
        _as_server(str(BIN / "pg_ctl"), "-D", str(data), "-w", "-t", "200", "-l", str(folder / "log"), "start")
        cluster = BareFacade(folder, port)
        with psycopg.connect(host=str(folder), port=port, dbname="postgres", user="postgres", autocommit=True) as c:
            c.execute("CREATE DATABASE facade")
        with cluster.superuser() as c:
            c.execute(SCHEMA)
        yield cluster
    finally:
        with suppress(subprocess.CalledProcessError):  # it never started
            _as_server(str(BIN / "pg_ctl"), "-D", str(data), "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)


@dataclass
class FakePrivate:
    """What reached the private side. A call whose text says `slowly` ends by a cancel only."""

    calls: list[tuple[str, int]] = field(default_factory=list)
    cancelled: int = 0
    problems: list[str] = field(default_factory=list)


GROUPED = re.compile(
    r"SELECT region, count\(\*\)(?P<into>.*?) FROM secret(?: WHERE n > (?P<n>\$1|\d+))? GROUP BY region", re.I
)
SCALAR = re.compile(r"\(SELECT count\(\*\) FROM secret(?: WHERE n > (?P<n>\$1|\d+))?\)", re.I)


class FakePlan:
    refusal = None
    executes = False
    arguments: Sequence[str | None] = ()
    meaning = None

    def __init__(self, sql: str, oids: tuple[int, ...], fields: tuple[Field, ...] | None, private: FakePrivate) -> None:
        self._sql, self._oids, self._private = sql, oids, private
        self.fields = fields
        self.literal = sql.upper().startswith("COPY")
        self.hidden = 0 if self.literal else 1
        self.param_oids = [*oids, *([3802] * self.hidden)]
        self.text = sql if self.literal else self._splice(f"${len(oids) + 1}")

    def _splice(self, document: str) -> str:
        source = f"pg_catalog.jsonb_to_recordset({document}) AS t(c1 character varying(10), c2 bigint)"
        text = GROUPED.sub(f"SELECT c1 AS region, c2 AS count FROM {source}", self._sql)
        return SCALAR.sub(f"(SELECT c2 FROM {source} LIMIT 1)", text)

    async def run(self, bind: BoundParams | None, io: SessionIO) -> list[str]:
        match = GROUPED.search(self._sql) or SCALAR.search(self._sql)
        assert match is not None
        n = match["n"] or "0"
        if n == "$1":
            n = str((await io.fetch("SELECT $1::int4::text", bind or (), self._oids))[0][0])
        if "refuse_at_run" in self._sql:
            raise Refusal("DP001", "the budget of “visits” is exhausted", None, "Ask the owner.")
        self._private.calls.append((io.analyst, int(n)))
        if "slowly" in self._sql:
            try:
                await asyncio.sleep(600)
            except asyncio.CancelledError:
                self._private.cancelled += 1
                raise
        if "noticed" in self._sql:
            io.notice("NOTICE", "dp: charged 0.1")
        rows = ", ".join(f'{{"c1": "{r}", "c2": "{int(n) + i}"}}' for i, r in enumerate(REGIONS))
        return [f"[{rows}]"]

    def splice_simple(self, documents: Sequence[str]) -> str:
        return self._splice(f"$pge${documents[0]}$pge$::pg_catalog.jsonb")


class FakeRewriter:
    """Knows two shapes over `secret`; refuses `refuse_at_plan`; leaves everything else to the net."""

    def __init__(self, private: FakePrivate) -> None:
        self._private = private

    def mentions(self, sql: str) -> bool:
        return "secret" in sql or "dp_" in sql

    async def spelled_out(self, sql: str, io: SessionIO) -> Written:
        return AS_IT_IS

    async def plan(self, sql: str, param_oids: Sequence[int], io: SessionIO, *, extended: bool) -> Plan | None:
        copied = re.fullmatch(r"COPY \((.*)\) TO STDOUT.*", sql, re.I | re.S)
        try:
            described = await io.describe(copied[1] if copied else sql, param_oids)
        except FacadeError:
            if "swallowed" in sql:
                return None
            raise
        if "refuse_at_plan" in sql:
            raise Refusal(
                "DP003", "this shape is not supported", None, "Write “count(*)”.", position=sql.index("refuse_at_plan")
            )
        if "brain_fails" in sql:
            raise KeyError("a literal that nobody may see")
        if not (await io.in_parser(GROUPED.search, sql) or SCALAR.search(sql)):
            return None
        assert await io.fetch("SELECT $1, pg_catalog.to_regclass($2) IS NOT NULL", ["x", "secret"]) == [["x", "t"]]
        return FakePlan(sql, described.param_oids, None if copied else described.fields, self._private)

    async def again(self, made: Made, io: SessionIO) -> Plan | None:
        return await self.plan(made.text, made.oids, io, extended=True)

    async def noted(self, name: str, io: SessionIO) -> Made | None:
        return await noted(name, io)


class FakeSource:
    def __init__(self, private: FakePrivate) -> None:
        self._private = private
        self._changed: Callable[[], None] = lambda: None

    async def refresh(self) -> tuple[list[str], Rewriter | None]:
        return list(self._private.problems), None if self._private.problems else FakeRewriter(self._private)

    async def listen(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        await asyncio.Event().wait()

    def notify(self) -> None:
        self._changed()


class ThreadedProxy:
    """A ProxyServer with a loop of its own, so that blocking clients can be tested in process."""

    def __init__(
        self, config: Config, directory: Directory, source: Any, before: Callable[[], Any] | None = None
    ) -> None:
        self.config = config
        self.source = source
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        if before is not None:
            self.call(before())
        self.server: ProxyServer = self.call(self._start(directory))

    async def _start(self, directory: Directory) -> ProxyServer:
        server = ProxyServer(self.config, directory, self.source)
        await server.start()
        return server

    def call(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(PATIENCE)

    @property
    def port(self) -> int:
        return self.server.port

    def cpu(self) -> float:
        """Seconds that the loop has computed: on a busy machine it waits for its turn, and that is not its doing."""
        assert self._thread.ident is not None
        return time.clock_gettime(time.pthread_getcpuclockid(self._thread.ident))

    def conninfo(self, **more: Any) -> dict[str, Any]:
        return {
            "host": "127.0.0.1",
            "port": self.port,
            "dbname": "facade",
            "user": "alice",
            "password": PASSWORD,
            **more,
        }

    def close(self) -> None:
        self.call(self.server.close())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(PATIENCE)
        self.loop.close()


class NoUpstream:
    """The fake brain asks its own FakePrivate."""

    async def query(self, request: dict[str, Any], *, timeout: Any = None, heard: Any = None) -> Any:  # noqa: ASYNC109
        raise AssertionError

    async def plan(self, request: dict[str, Any]) -> dict[str, Any]:
        raise AssertionError

    async def rows(self, sql: str, args: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        raise AssertionError


def facade_config(cluster: BareFacade, limits: Mapping[str, Any] | None = None, **listen: Any) -> Config:
    return Config(
        listen=replace(Listen(port=0), **listen),
        facade=Facade(port=cluster.port, dbname="facade", names=("shop",)),
        limits=replace(Limits(login_timeout=PATIENCE, max_message=1 << 20, max_sessions=40), **(limits or {})),
    )


def start_proxy(
    cluster: BareFacade, private: FakePrivate, limits: Mapping[str, Any] | None = None, **listen: Any
) -> ThreadedProxy:
    async def verifier(role: str) -> str | None:
        return await asyncio.to_thread(cluster.verifier, role)

    directory = Directory(verifier, lambda analyst: NoUpstream())
    return ThreadedProxy(facade_config(cluster, limits, **listen), directory, FakeSource(private))


@pytest.fixture(scope="session")
def private_side() -> FakePrivate:
    return FakePrivate()


@pytest.fixture(scope="session")
def relay(bare_facade: BareFacade, private_side: FakePrivate) -> Iterator[ThreadedProxy]:
    """One proxy for all tests of the relay."""
    proxy = start_proxy(bare_facade, private_side)
    yield proxy
    proxy.close()


def psql(relay: ThreadedProxy, *arguments: str, user: str = "alice", password: str = PASSWORD, **kwargs: Any) -> Any:
    environment = {**os.environ, "PGPASSWORD": password, "PGGSSENCMODE": "prefer"}
    words = [str(BIN / "psql"), "-X", "-h", "127.0.0.1", "-p", str(relay.port), "-U", user, "-d", "facade", "-A", "-t"]
    return subprocess.run(
        [*words, *arguments], capture_output=True, text=True, env=environment, timeout=PATIENCE, check=False, **kwargs
    )


@pytest.fixture
def db(relay: ThreadedProxy) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(**relay.conninfo(autocommit=True)) as connection:
        yield connection


@pytest.fixture
def calls(private_side: FakePrivate) -> list[tuple[str, int]]:
    private_side.calls.clear()
    return private_side.calls


@pytest.fixture
def raw(relay: ThreadedProxy, bare_facade: BareFacade) -> Iterator[RawClient]:
    client = RawClient(relay.port, keys_of(PASSWORD, bare_facade.verifier("alice") or ""))
    yield client
    client.close()


@pytest.fixture
def direct(bare_facade: BareFacade) -> Iterator[RawClient]:
    client = RawClient(bare_facade.port, keys_of(PASSWORD, bare_facade.verifier("alice") or ""))
    yield client
    client.close()
