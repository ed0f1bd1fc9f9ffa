"""A private database that publishes a small world, and its facade, in a throw-away cluster: for the tests of the facade.

The private side is made by hand: the policy tables, the public functions that the facade copies or stubs, and
`dp.facade_definition()` itself are the files of sql/, so that these tests need no channel, no engine and no PL/Python.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import asyncpg
import psycopg
import pytest
from pg_epsilon_proxy import facade as facade_package

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import paths  # noqa: E402

T = TypeVar("T")
PASSWORD = "correct horse"

ROLES = """
CREATE ROLE dp_owner NOLOGIN; CREATE ROLE dp_channel LOGIN NOINHERIT; CREATE ROLE dp_auth NOLOGIN; CREATE ROLE dp_admin NOLOGIN;
CREATE ROLE dp_planner NOLOGIN; CREATE ROLE dp_reader LOGIN; CREATE ROLE dp_facade NOLOGIN; CREATE ROLE dp_analyst NOLOGIN;
CREATE ROLE dp_gateway LOGIN; GRANT dp_facade TO dp_gateway;
CREATE ROLE alice LOGIN PASSWORD 'correct horse' IN ROLE dp_analyst;
"""

ENGINE_FILES = (
    "10_tables/05_policy_state.sql",
    "10_tables/40_publication.sql",
    "20_internal/30_bump_policy.sql",
    "60_public/10_session_settings.sql",
    "60_public/20_dp_query.sql",
    "60_public/25_relation_ref.sql",
    "60_public/30_dp_count.sql",
    "60_public/40_dp_group_by.sql",
    "80_facade/facade_definition.sql",
)

# Names, types and literals chosen to be awkward; the literals (471108, 'secret…') must never reach the facade.
WORLD = """
CREATE SCHEMA clinic; CREATE SCHEMA "Odd ""Schema"; GRANT USAGE ON SCHEMA clinic, "Odd ""Schema" TO dp_owner, dp_reader;
CREATE EXTENSION citext SCHEMA clinic;
CREATE COLLATION clinic.ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TYPE clinic.mood AS ENUM ('zest', 'calm', 'o''clock');
CREATE DOMAIN clinic.code AS varchar(10) DEFAULT 'secret d' CHECK (VALUE <> 'secret check') NOT NULL;
CREATE TYPE clinic.place AS (street text COLLATE clinic.ci, moods clinic.mood[]);
CREATE TYPE clinic.span AS RANGE (subtype = float8, multirange_type_name = clinic.spans);
CREATE TABLE clinic.patient (
  id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, taxpayerid text UNIQUE, born date NOT NULL, gone text,
  code clinic.code, nick clinic.citext, label varchar(10) COLLATE clinic.ci, home clinic.place, alive clinic.span, times clinic.spans,
  price numeric(8, 2) DEFAULT 471108, twice numeric GENERATED ALWAYS AS (price * 2) STORED, moods clinic.mood[], at timestamptz(3),
  UNIQUE NULLS NOT DISTINCT (born, label), CHECK (price <> 471108.5));
ALTER TABLE clinic.patient DROP COLUMN gone;
CREATE INDEX ON clinic.patient (born) WHERE code = 'secret index';
COMMENT ON TABLE clinic.patient IS 'secret comment'; COMMENT ON COLUMN clinic.patient.born IS 'secret column comment';
CREATE TABLE clinic.visit (id bigint PRIMARY KEY, patient int NOT NULL REFERENCES clinic.patient, ward int, charge float8);
CREATE TABLE clinic.hidden (id int PRIMARY KEY, note text);
ALTER TABLE clinic.visit ADD FOREIGN KEY (ward) REFERENCES clinic.hidden;
CREATE TABLE "Odd ""Schema"."Odd 'Table" ("a ""b" int PRIMARY KEY, "$$" text);
CREATE TABLE clinic.event (at date NOT NULL, visit bigint REFERENCES clinic.visit, PRIMARY KEY (at, visit)) PARTITION BY RANGE (at);
CREATE TABLE clinic.event_471108 PARTITION OF clinic.event FOR VALUES FROM ('1999-01-01') TO ('2047-11-01');
CREATE TABLE clinic.region (code text PRIMARY KEY, title text); INSERT INTO clinic.region VALUES ('N', 'north'), ('S', 'south');
GRANT SELECT ON clinic.region TO dp_reader;
CREATE VIEW clinic.recent AS SELECT v.id, v.charge FROM clinic.visit v WHERE v.charge > 10;
CREATE VIEW clinic.recent2 AS SELECT id FROM clinic.recent;
CREATE VIEW clinic.mixed AS SELECT v.id, h.note FROM clinic.visit v JOIN clinic.hidden h ON h.id = v.ward WHERE h.note <> 'secret view';
CREATE MATERIALIZED VIEW clinic.frozen AS SELECT 471108 AS n;
INSERT INTO clinic.patient (taxpayerid, born) OVERRIDING USER VALUE SELECT i::text, '2000-01-01'::date + i FROM generate_series(1, 50) i;
INSERT INTO clinic.hidden SELECT 1, 'secret row'; INSERT INTO clinic.visit SELECT i, i, 1, i FROM generate_series(1, 50) i;
INSERT INTO dp.publication VALUES ('clinic.patient', 'protected',
  '{id,born,code,nick,label,home,alive,times,price,twice,moods,at}');
INSERT INTO dp.publication SELECT r::regclass, 'protected' FROM unnest(ARRAY['clinic.visit', 'clinic.event', 'clinic.recent',
  'clinic.recent2', 'clinic.mixed', 'clinic.frozen', '"Odd ""Schema"."Odd ''Table"']) r;
INSERT INTO dp.publication VALUES ('clinic.region', 'public');
CREATE VIEW dp.budget AS SELECT 'd'::text AS dataset, 1.5::numeric(10, 2) AS epsilon_left; GRANT SELECT ON dp.budget TO dp_analyst;
CREATE FUNCTION dp.dp_rows(request jsonb, OUT label text, OUT n bigint) RETURNS SETOF record LANGUAGE sql SECURITY DEFINER
  SET search_path = pg_catalog, pg_temp AS $$ SELECT 'secret body', 471108::bigint $$;
REVOKE ALL ON FUNCTION dp.dp_rows FROM PUBLIC; GRANT EXECUTE ON FUNCTION dp.dp_rows TO dp_analyst;
CREATE FUNCTION dp._internal() RETURNS text LANGUAGE sql AS $$ SELECT 'secret function' $$; REVOKE ALL ON FUNCTION dp._internal FROM PUBLIC;
"""


@dataclass(frozen=True)
class FacadeCluster:
    """A running server with databases `private` and `facade`."""

    sockets: str
    port: int

    def dsn(self, database: str, user: str = "postgres") -> str:
        return f"host={self.sockets} port={self.port} dbname={database} user={user}"

    def psycopg(self, database: str, user: str = "postgres") -> psycopg.Connection[Any]:
        return psycopg.connect(self.dsn(database, user), autocommit=True)

    async def asyncpg(self, database: str, user: str = "postgres") -> asyncpg.Connection[Any]:
        return await asyncpg.connect(host=self.sockets, port=self.port, database=database, user=user)

    def policy(self, sql: str) -> None:
        """Runs `sql` in the private database and moves the policy version, as every policy procedure does."""
        with self.psycopg("private") as connection:
            connection.execute(f"{sql}; SELECT dp._bump_policy()")

    def gateway(self, job: Callable[[asyncpg.Connection[Any], asyncpg.Connection[Any]], Coroutine[Any, Any, T]]) -> T:
        """`job(private, facade)` with both connections logged in as dp_gateway."""

        async def run() -> T:
            private, facade = await self.asyncpg("private", "dp_gateway"), await self.asyncpg("facade", "dp_gateway")
            try:
                return await job(private, facade)
            finally:
                await private.close()
                await facade.close()

        return asyncio.run(run())

    def sync(self, *, rebuild: bool = False) -> int:
        return self.gateway(lambda private, facade: facade_package.sync(private, facade, rebuild=rebuild))

    def check(self) -> list[str]:
        return self.gateway(lambda private, facade: facade_package.check(facade, private))


def engine_sql() -> str:
    """The files of sql/ that the facade reads; what only an extension script may say is left out."""
    text = "\n".join((ROOT / "sql" / name).read_text(encoding="utf-8") for name in ENGINE_FILES)
    return "\n".join(line for line in text.splitlines() if "pg_extension_config_dump" not in line)


def _server_user() -> str | None:
    return pwd.getpwnam("postgres").pw_name if os.geteuid() == 0 else None


def _start(folder: Path, bindir: Path) -> FacadeCluster:
    user = _server_user()
    if user:
        shutil.chown(folder, user)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    data = folder / "data"

    def run(*command: str) -> None:
        subprocess.run(command, check=True, capture_output=True, user=user, cwd=folder, timeout=90)

    run(
        *(str(bindir / "initdb"), "-D", str(data), "-U", "postgres", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8"),
        *("--auth-local=trust", "--auth-host=scram-sha-256"),
    )
    options = (
        f"-k {folder} -p {port} -c listen_addresses=127.0.0.1 -c fsync=off -c max_connections=40 -c shared_buffers=32MB "
        "-c max_prepared_transactions=2 -c log_statement=all"
    )
    run(str(bindir / "pg_ctl"), "-D", str(data), "-w", "-l", str(folder / "log"), "-o", options, "start")
    return FacadeCluster(str(folder), port)


async def _populate(cluster: FacadeCluster) -> None:
    root = await cluster.asyncpg("postgres")
    await root.execute(ROLES)
    await root.execute("CREATE DATABASE private")
    await root.execute("ALTER DATABASE private SET TimeZone = 'Asia/Kolkata'")
    await root.execute("ALTER DATABASE private SET DateStyle = 'ISO, DMY'")
    await root.execute('ALTER DATABASE private SET search_path = "$user", public, dp')
    await root.close()
    private = await cluster.asyncpg("private")
    await private.execute("CREATE SCHEMA dp; GRANT USAGE ON SCHEMA dp TO dp_gateway, dp_analyst, dp_owner")
    await private.execute("SET check_function_bodies = off")
    await private.execute(engine_sql())
    await private.execute(
        "DO $$ DECLARE f regprocedure; BEGIN FOR f IN SELECT oid FROM pg_proc WHERE pronamespace = 'dp'::regnamespace LOOP "
        "EXECUTE format('ALTER FUNCTION %s OWNER TO dp_owner', f); END LOOP; END $$; "
        "ALTER TABLE dp.publication OWNER TO dp_owner; ALTER TABLE dp.policy_state OWNER TO dp_owner"
    )
    await private.execute(WORLD)
    await facade_package.create(private, "facade")
    await facade_package.create(private, "facade")
    await private.close()
    await prepare(cluster)
    await prepare(cluster)


async def prepare(cluster: FacadeCluster) -> None:
    """`facade.prepare` with the same cluster as the source of public tables."""
    root = await cluster.asyncpg("facade")
    source = facade_package.ReaderSource("127.0.0.1", cluster.port, "private")
    await facade_package.prepare(root, "private", source)
    await root.close()


@pytest.fixture(scope="session")
def facade_cluster() -> Iterator[FacadeCluster]:
    """The cluster with the facade in step; a test that changes the policy or the facade puts it back."""
    _, bindir = paths.find_postgres()
    folder = Path(tempfile.mkdtemp(prefix="pge-facade-"))
    folder.chmod(0o700)
    try:
        cluster = _start(folder, bindir)
        try:
            asyncio.run(_populate(cluster))
            cluster.sync()
            yield cluster
        finally:
            stop = [str(bindir / "pg_ctl"), "-D", str(folder / "data"), "-m", "immediate", "-w", "stop"]
            subprocess.run(stop, check=True, capture_output=True, user=_server_user(), cwd=folder, timeout=60)
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def analyst(facade_cluster: FacadeCluster) -> Iterator[psycopg.Connection[Any]]:
    """alice's own session on the facade."""
    with facade_cluster.psycopg("facade", "alice") as connection:
        yield connection
