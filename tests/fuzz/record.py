"""Records conversations of psql, psycopg and asyncpg with the proxy.

`PYTHONPATH=tests python -m fuzz.record` writes the files of fixtures/conversations anew.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import threading
from typing import Any

import asyncpg
import psycopg

from fix_proxy import BIN, GROUPED_SQL, PASSWORD, FakePrivate, ThreadedProxy, bare_cluster, start_proxy
from fuzz.conversations import Said, cut, write

COUNTED = GROUPED_SQL.format(7)
BY_PARAMETER = GROUPED_SQL.format("$1")


class Tap:
    """Stands between one client and the proxy, passes everything on, and keeps it."""

    def __init__(self, port: int) -> None:
        self._server = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._pieces: list[tuple[bool, bytes]] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        client, _ = self._listener.accept()
        server = socket.create_connection(("127.0.0.1", self._server))
        back = threading.Thread(target=self._pump, args=(server, client, False), daemon=True)
        back.start()
        self._pump(client, server, True)
        back.join()
        for end in (client, server, self._listener):
            end.close()

    def _pump(self, source: socket.socket, target: socket.socket, from_client: bool) -> None:
        while data := source.recv(1 << 16):
            self._pieces.append((from_client, data))
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)

    def said(self) -> list[Said]:
        """Without the login, the messages of both sides; each stands where its first byte was."""
        self._thread.join(10)
        found: list[tuple[int, Said]] = []
        for side in (True, False):
            stream, starts = b"", []
            for place, (from_client, data) in enumerate(self._pieces):
                if from_client is side:
                    starts.append((len(stream), place))
                    stream += data
            offset = int.from_bytes(stream[:4], "big") if side else 0
            for raw in cut(stream[offset:]):
                place = [place for start, place in starts if start <= offset][-1]
                found.append((place, Said(side, raw)))
                offset += len(raw)
        found.sort(key=lambda item: item[0])
        return [item for _, item in found if item.raw[:1] not in b"pRK"]


def psql(port: int) -> None:
    script = f"""
\\set FETCH_COUNT 2
SELECT 1 AS one, 'é' AS text, NULL AS nothing;
SELECT g FROM generate_series(1, 5) g;
\\unset FETCH_COUNT
{COUNTED};
\\d secret
\\dt
SELECT region, n FROM secret \\gdesc
SELECT 1; SELECT 1/0; SELECT 2;
SELECT count(*) \\; SELECT 3;
SELECT nosuch FROM secret;
{COUNTED} -- refuse_at_run
;
CREATE TEMP TABLE mine (a int, b text);
\\copy mine FROM stdin
1\tx
2\ty
\\.
\\copy mine TO stdout
COPY ({COUNTED}) TO STDOUT;
BEGIN;
SAVEPOINT a;
SELECT * FROM secret;
ROLLBACK TO a;
COMMIT;
SET client_encoding = 'LATIN1';
SHOW client_encoding;
LISTEN bell;
NOTIFY bell, 'rings';
"""
    words = [str(BIN / "psql"), "-X", "-h", "127.0.0.1", "-p", str(port), "-U", "alice", "-d", "facade"]
    environment = {**os.environ, "PGPASSWORD": PASSWORD, "PGSSLMODE": "disable", "PGGSSENCMODE": "disable"}
    subprocess.run(words, input=script, text=True, env=environment, check=False, capture_output=True, timeout=60)


def psycopg_(port: int) -> None:
    where: dict[str, Any] = {"host": "127.0.0.1", "port": port, "user": "alice", "password": PASSWORD}
    where |= {"dbname": "facade", "sslmode": "disable", "gssencmode": "disable", "autocommit": True}
    with psycopg.connect(**where) as c:
        c.execute("SELECT 1")
        by_parameter = BY_PARAMETER.replace("$1", "%s")
        for n in (1, 7):
            c.execute(by_parameter, (n,), prepare=True)
            c.execute("SELECT %s::text, %b::int, %s::numeric", ("é", n, None), binary=True)
        for bad in ("SELECT refuse_at_plan FROM secret", "SELECT * FROM secret", f"{COUNTED} -- brain_fails", "selct"):
            for parameters in (None, ()):
                try:
                    c.execute(bad, parameters)
                except psycopg.Error:
                    continue
        with c.transaction(), c.cursor("named") as cursor:
            cursor.execute("SELECT g, g::text FROM generate_series(1, 7) g")
            cursor.fetchmany(3)
            cursor.fetchall()
        with c.transaction(), c.transaction():
            c.execute(COUNTED + " -- noticed")
        c.execute("CREATE TEMP TABLE mine (a int, b text)")
        with c.cursor() as cursor:
            with cursor.copy("COPY mine FROM STDIN") as copy:
                for i in range(4):
                    copy.write_row((i, "y" * i))
            with cursor.copy(f"COPY ({COUNTED}) TO STDOUT") as copy:
                list(copy)
            with cursor.copy("COPY mine TO STDOUT (FORMAT binary)") as copy:
                list(copy)
            cursor.executemany("INSERT INTO mine VALUES (%s, %s)", [(i, "z") for i in range(5)])
        with c.pipeline():
            for n in (3, 7):
                c.execute(by_parameter, (n,))
                c.execute("SELECT %s::int", (n,))


async def asyncpg_(port: int) -> None:
    c = await asyncpg.connect(
        host="127.0.0.1", port=port, user="alice", password=PASSWORD, database="facade", ssl=False
    )
    await c.fetch("SELECT 1")
    await c.fetch(BY_PARAMETER, 7)
    await c.execute("SELECT 1; SELECT 2")
    statement = await c.prepare("SELECT $1::int + $2::int")
    for n in range(3):
        await statement.fetchval(n, n)
    async with c.transaction():
        cursor = await c.cursor("SELECT g FROM generate_series(1, 9) g")
        await cursor.fetch(4)
        await cursor.fetch(9)
    for bad in ("SELECT 1/0", "SELECT refuse_at_plan FROM secret", "SELECT region FROM secret"):
        try:
            await c.fetch(bad)
        except asyncpg.PostgresError:
            continue
    await c.execute("CREATE TEMP TABLE mine (a int, b text)")
    await c.copy_records_to_table("mine", records=[(i, "w") for i in range(5)])
    await c.executemany("INSERT INTO mine VALUES ($1, $2)", [(i, "v") for i in range(4)])
    await c.copy_from_query(COUNTED, output=os.devnull)
    await c.copy_from_table("mine", output=os.devnull)
    await c.add_listener("bell", lambda *event: None)
    await c.execute("NOTIFY bell")
    await c.reset()
    await c.close()


CLIENTS = {"psql": psql, "psycopg": psycopg_, "asyncpg": lambda port: asyncio.run(asyncpg_(port))}


def record(proxy: ThreadedProxy, name: str) -> list[Said]:
    tap = Tap(proxy.port)
    CLIENTS[name](tap.port)
    return tap.said()


def main() -> None:
    with bare_cluster() as cluster:
        proxy = start_proxy(cluster, FakePrivate())
        try:
            for name in CLIENTS:
                write(name, record(proxy, name))
        finally:
            proxy.close()


if __name__ == "__main__":
    main()
