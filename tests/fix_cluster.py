"""Throw-away PostgreSQL clusters with the extension installed, for root (as the user postgres) and ordinary users."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import psycopg
import pytest

import fix_environment  # noqa: F401  (what it does is done when it is imported)
from fix_ports import free_port

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import build_sql  # noqa: E402
import paths as locations  # noqa: E402

PRIVATE = "private"
PASSWORD = "correct horse"

# what somebody does who does not know whose the login is
CHANGED_PASSWORD = (
    "DO $$ BEGIN EXECUTE (SELECT format('ALTER ROLE %I PASSWORD ' || quote_literal('another'), 'dp_channel_' || oid)"
    " FROM pg_database WHERE datname = current_database()); END $$"
)
HBA = """\
local all all trust
host all all 127.0.0.1/32 scram-sha-256
"""
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "120",
    "shared_buffers": "64MB",
    "log_min_messages": "warning",
    "timezone": "UTC",
}


find_postgres = locations.find_postgres


@lru_cache(maxsize=1)
def built() -> locations.Paths:
    """Paths of this machine, with the extension's script freshly built."""
    paths = locations.discover(refresh=True)
    build_sql.build(paths)
    return paths


@dataclass
class Cluster:
    """A running server. `socket` is its data folder's parent; local connections are trusted, TCP wants SCRAM."""

    folder: Path
    port: int
    paths: locations.Paths
    settings: dict[str, str] = field(default_factory=dict)
    copied: Path | None = None

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def run(self, *command: str, check: bool = True, **kwargs: Any) -> subprocess.CompletedProcess[str]:
        words = [*self.paths.as_server_user(), *command]
        env = {**os.environ, **self.paths.server_environment}
        return subprocess.run(
            words, check=check, capture_output=True, text=True, env=env, cwd="/", timeout=240, **kwargs
        )

    def pg_ctl(self, *arguments: str, check: bool = True) -> None:
        """pg_ctl, with output to files: a postmaster must not hold our pipes."""
        words = [*self.paths.as_server_user(), str(self.paths.bindir / "pg_ctl"), "-D", str(self.data), *arguments]
        env = {**os.environ, **self.paths.server_environment}
        subprocess.run(
            words,
            check=check,
            env=env,
            cwd="/",
            timeout=240,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def create(self) -> None:
        """A data folder, as initdb makes it: that runs once in a process, and its result is copied; or `copied`."""
        self.run("cp", "-a", str(self.copied or _initialised(self.paths)), str(self.data))
        conf = {
            **SETTINGS,
            "port": str(self.port),
            "unix_socket_directories": str(self.folder),
            "extension_destdir": str(self.paths.destdir),
            **self.settings,
        }
        lines = "".join(f"{name} = '{value}'\n" for name, value in conf.items())
        with (self.data / "postgresql.conf").open("a") as out:
            out.write(lines)
        (self.data / "pg_hba.conf").write_text(HBA)

    def start(self) -> None:
        """As `pg_ctl -w start`, which looks once in a tenth of a second: the suite starts a hundred servers."""
        before = self._status()
        self.pg_ctl("-l", str(self.folder / "log"), "-W", "start")
        end, missing = time.monotonic() + 200, time.monotonic() + 30
        while (status := self._status())[:1] == before[:1] or status[7:] not in (["ready"], ["standby"]):
            now = time.monotonic()
            missing = missing if status in ([], before) else now + 30
            if now > min(end, missing):
                raise RuntimeError(f"the server did not start: {self.log[-2000:]}")
            time.sleep(0.01)

    def stop(self, mode: str = "immediate") -> None:
        """As `pg_ctl -w stop`; one that does not run is stopped."""
        status = self._status()
        if not status:
            return
        number = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}[mode]
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(status[0]), number)
            end = time.monotonic() + 200
            while self._status()[:1] == status[:1] and time.monotonic() < end:
                os.kill(int(status[0]), 0)  # it may end without removing its file
                time.sleep(0.01)

    def _status(self) -> list[str]:
        """The lines of postmaster.pid: process, folder, time, port, …, and last what it is doing; none without one."""
        try:
            return [line.strip() for line in (self.data / "postmaster.pid").read_text().splitlines()]
        except FileNotFoundError:
            return []

    def dsn(self, user: str = "postgres", dbname: str = PRIVATE, *, tcp: bool = False, **extra: str) -> str:
        host = "127.0.0.1" if tcp else str(self.folder)
        if tcp:
            extra = {"password": PASSWORD, **extra}
        return psycopg.conninfo.make_conninfo(host=host, port=self.port, user=user, dbname=dbname, **extra)

    def connect(self, user: str = "postgres", dbname: str = PRIVATE, **kwargs: Any) -> psycopg.Connection[Any]:
        kwargs.setdefault("autocommit", True)
        autocommit = kwargs.pop("autocommit")
        return psycopg.connect(self.dsn(user, dbname, **kwargs), autocommit=autocommit)

    def psql(self, script: str, *, user: str = "postgres", dbname: str = PRIVATE) -> str:
        """Run a script by psql, stopping at the first error."""
        words = [str(self.paths.bindir / "psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", self.dsn(user, dbname)]
        done = subprocess.run(words, input=script, capture_output=True, text=True, timeout=300)
        if done.returncode:
            raise RuntimeError(done.stderr)
        return done.stdout

    def execute(self, *statements: str, dbname: str = PRIVATE) -> None:
        """Statements of the superuser."""
        with self.connect(dbname=dbname) as conn:
            for statement in statements:
                conn.execute(statement)

    def channel(self, dbname: str = PRIVATE) -> str:
        """The login of a database's ledger channel."""
        with self.connect(dbname=dbname) as conn:
            row = conn.execute("SELECT 'dp_channel_' || oid FROM pg_database WHERE datname = %s", [dbname]).fetchone()
        assert row is not None
        return str(row[0])

    def install(self, dbname: str = PRIVATE) -> None:
        """CREATE DATABASE and the install script, as a DBA runs it."""
        self.execute(f"CREATE DATABASE {dbname}", dbname="postgres")
        folder = self.paths.destdir / f"usr/share/postgresql/{self.paths.pg_version}/extension"
        self.psql((folder / "pg_epsilon_install.sql").read_text(), dbname=dbname)

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")


_made: dict[Path, Path] = {}


def _initialised(paths: locations.Paths) -> Path:
    """A data folder that was never started. The copies share its system identifier, as physical copies do; what tells a
    ledger from another's is made by the installation (dp.incarnation)."""
    if paths.bindir not in _made:
        data = _folder(paths) / "data"
        words = [str(paths.bindir / "initdb"), "-D", str(data), "-U", "postgres", "--no-sync", "--locale=C.UTF-8"]
        Cluster(data.parent, 0, paths).run(*words, "--encoding=UTF8", "--auth=trust")
        _made[paths.bindir] = data
    return _made[paths.bindir]


def _prepared(paths: locations.Paths, name: str, *prepare: Callable[[Cluster], object]) -> Path:
    """The data folder of a stopped server that was prepared: what a module of tests waits for longest, and so made once
    in a process."""
    key = paths.destdir / name
    if key not in _made:
        cluster = Cluster(_folder(paths), free_port(), paths)
        try:
            cluster.create()
            cluster.start()
            for step in prepare:
                step(cluster)
            cluster.stop("fast")
        except BaseException:
            cluster.stop()
            shutil.rmtree(cluster.folder, ignore_errors=True)
            raise
        _made[key] = cluster.data
    return _made[key]


# As if all had been made where the copy lies: else its ledger would be a copy, and frozen, and its channel would look
# for the server that was copied.
HERE = """
CALL dp.repair_channel();
UPDATE dp.incarnation i SET id = gen_random_uuid(), system_identifier = p.system_identifier, timeline = p.timeline,
  database_oid = p.database_oid, inode = p.inode, ctime = p.ctime FROM dp._place() p;
UPDATE dp.dataset SET incarnation = i.id FROM dp.incarnation i;
"""


@atexit.register
def pytest_sessionfinish() -> None:
    """Of benchmarks too, which have no session."""
    while _made:
        shutil.rmtree(_made.popitem()[1].parent, ignore_errors=True)


def _folder(paths: locations.Paths) -> Path:
    """Of the server's user. pytest's own temporary folders are 0700 and root's: he could not enter them."""
    folder = Path(tempfile.mkdtemp(prefix="pge-", dir="/tmp"))
    if paths.os_user:
        shutil.chown(folder, paths.os_user, paths.os_user)
    folder.chmod(0o755)
    return folder


@contextmanager
def cluster_at_work(
    *, paths: locations.Paths | None = None, copied: Path | None = None, **settings: str
) -> Iterator[Cluster]:
    """A new cluster, started; stopped and deleted at the end. paths: of another checkout, whose script is built.
    copied: the data folder that it begins with."""
    paths = paths or built()
    folder = _folder(paths)
    cluster = Cluster(folder, free_port(), paths, settings, copied)
    try:
        cluster.create()
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def private_cluster(*, paths: locations.Paths | None = None, **settings: str) -> Iterator[Cluster]:
    """A cluster with the extension installed in database `private`."""
    if paths is not None:
        with cluster_at_work(paths=paths, **settings) as cluster:
            cluster.install()
            yield cluster
        return
    with prepared_cluster("installed", **settings) as cluster:
        yield cluster


@contextmanager
def prepared_cluster(name: str, *prepare: Callable[[Cluster], object], **settings: str) -> Iterator[Cluster]:
    """A private cluster for which `prepare` ran, as it does once in a process for this name. Datasets of two of them
    share their ids: for a ledger beside another one, prepare a `private_cluster`."""
    paths = built()
    copied = _prepared(paths, name, Cluster.install, *prepare)
    with cluster_at_work(paths=paths, copied=copied, **settings) as cluster:
        cluster.execute(HERE)
        yield cluster


ROLES = f"""
CREATE ROLE boss LOGIN PASSWORD '{PASSWORD}'; GRANT dp_admin TO boss;
CREATE ROLE alice LOGIN PASSWORD '{PASSWORD}'; GRANT dp_analyst TO alice;
CREATE ROLE bob LOGIN PASSWORD '{PASSWORD}'; GRANT dp_analyst TO bob;
ALTER ROLE dp_gateway PASSWORD '{PASSWORD}';
ALTER ROLE dp_reader PASSWORD '{PASSWORD}';
REVOKE CONNECT ON DATABASE postgres, template1 FROM PUBLIC;
GRANT CONNECT, CREATE, TEMPORARY ON DATABASE {PRIVATE} TO boss;
GRANT CONNECT, TEMPORARY ON DATABASE {PRIVATE} TO dp_analyst;
GRANT CREATE ON SCHEMA public TO boss;
"""

PEOPLE = """
CREATE TABLE people (id int PRIMARY KEY, age int, sex text, city text, income numeric(10,2), joined date, score float8);
INSERT INTO people SELECT i, 18 + i % 60, (ARRAY['f','m'])[1 + i % 2], (ARRAY['north','south','east',NULL])[1 + i % 4],
  i * 10, DATE '2024-01-01' + i % 60, i / 7.0 FROM generate_series(1, 1000) i;
CALL dp.create_dataset('people', unit => 'row', epsilon => 10, default_epsilon => 0.1);
CALL dp.protect('people', 'people', max_rows => 100000, scale => 1000);
CALL dp.describe_column('people', 'id');
CALL dp.describe_column('people', 'age', bounds => '{18,80}', resolution => '1', nullable => false);
CALL dp.describe_column('people', 'sex', domain => '{f,m,x}', nullable => false);
CALL dp.describe_column('people', 'city', domain => '{north,south,east}');
CALL dp.describe_column('people', 'income', bounds => '{0,100000}', resolution => '0.01');
CALL dp.describe_column('people', 'joined', bounds => '{2024-01-01,2024-12-31}', resolution => '1 day');
CALL dp.publish('people');
CALL dp.allot('alice', 'people', epsilon => 5);
CALL dp.allot('bob', 'people', epsilon => 10);
"""

SHOP = """
CREATE TABLE customers (id int PRIMARY KEY, segment text);
CREATE TABLE orders (id int PRIMARY KEY, customer_id int REFERENCES customers, placed date, status text);
CREATE TABLE items (order_id int REFERENCES orders, sku text, price numeric(8,2));
INSERT INTO customers SELECT i, (ARRAY['home','office'])[1 + i % 2] FROM generate_series(1, 200) i;
INSERT INTO orders SELECT i, CASE WHEN i % 50 = 0 THEN NULL WHEN i < 300 THEN 1 + i % 200 ELSE 7 END,
  DATE '2024-01-01' + i % 100, (ARRAY['open','paid','sent'])[1 + i % 3] FROM generate_series(1, 400) i;
INSERT INTO items SELECT 1 + i % 400, 'sku' || i % 5, i % 90 FROM generate_series(1, 900) i;
CALL dp.create_dataset('shop', unit => 'user', epsilon => 10, default_epsilon => 0.5);
CALL dp.protect('customers', 'shop', unit_column => 'id', max_rows_per_unit => 1);
CALL dp.protect('orders', 'shop', unit_column => 'customer_id', max_rows_per_unit => 5);
CALL dp.protect('items', 'shop', unit_path => '{order_id,customer_id}', max_rows_per_unit => 20);
CALL dp.describe_column('customers', 'segment', domain => '{home,office}');
CALL dp.describe_column('orders', 'status', domain => '{open,paid,sent}', nullable => false);
CALL dp.describe_column('orders', 'placed', bounds => '{2024-01-01,2024-12-31}');
CALL dp.describe_column('orders', 'id'); CALL dp.describe_column('orders', 'customer_id');
CALL dp.describe_column('items', 'sku', domain => '{sku0,sku1,sku2,sku3,sku4}', nullable => false);
CALL dp.publish('customers'); CALL dp.publish('orders'); CALL dp.publish('items');
CALL dp.allot('alice', 'shop', epsilon => 10);
"""


def standard(cluster: Cluster) -> None:
    """An owner `boss`, analysts `alice` and `bob`, the tables people (row units) and shop (user units)."""
    cluster.psql(ROLES)
    cluster.psql(PEOPLE, user="boss")
    cluster.psql(SHOP, user="boss")


@contextmanager
def standard_cluster(**settings: str) -> Iterator[Cluster]:
    """A prepared cluster with the standard tables."""
    with prepared_cluster("standard", standard, **settings) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster of this module's own, with the standard tables."""
    with standard_cluster() as running:
        yield running
