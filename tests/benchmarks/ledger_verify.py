"""Seconds that `pg-epsilon ledger verify` takes for a million rows, for bench_ledger.py.

The rows are copies of one real charge with links of their own, written as fast as possible; verified is what the
command verifies, over a cursor of a live database.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import asyncpg
import psycopg

from pg_epsilon.engine.chain import Entry, Head, parse
from pg_epsilon_proxy.ledger import verify_live

ROWS = 100_000


def verify_seconds_per_million_rows(dsn: str, dataset: str, rows: int = ROWS) -> float:
    """Grow the ledger of a dataset that has one charge at least by `rows` charges, verify, and scale to a million.

    dsn: a superuser's; the database is a throw-away one, whose accounts are made to fit.
    """
    with psycopg.connect(dsn) as root:
        grow(root, dataset, rows)
    started = time.perf_counter()
    asyncio.run(_verify(dsn))
    return (time.perf_counter() - started) * 1_000_000 / rows


def grow(root: psycopg.Connection[Any], dataset: str, rows: int) -> None:
    """Charges of the newest kind, epsilon 0 each, so that every balance stays."""
    root.execute("SET session_replication_role = replica")
    root.execute(
        "INSERT INTO dp.ledger (request_id, who, dataset, kind, call, mechanism, charge, epsilon, delta, scope,"
        " request, policy_version, data_version) SELECT gen_random_uuid(), l.who, l.dataset, l.kind, l.call,"
        " l.mechanism, l.charge, 0, 0, l.scope, l.request, l.policy_version, l.data_version FROM"
        " (SELECT * FROM dp.ledger WHERE dataset = %s AND kind = 'charge' ORDER BY seq DESC LIMIT 1) l,"
        " generate_series(1, %s)",
        [dataset, rows],
    )
    sql = "SELECT epoch, number, encode(hash, 'hex') FROM dp.chain_head WHERE dataset = %s"
    found = root.execute(sql, [dataset]).fetchone()
    assert found is not None
    links = list(_links(root, dataset, Head(*found)))
    with root.cursor().copy("COPY dp.chain (dataset, number, epoch, kind, request_id, asked, hash) FROM STDIN") as copy:
        for head, entry in links:
            row = (dataset, head.number, head.epoch, entry.kind, entry.request_id, rf"\x{entry.asked}")
            copy.write_row((*row, rf"\x{head.hash}"))
    head = links[-1][0]
    values = [head.number, head.hash, dataset]
    root.execute("UPDATE dp.chain_head SET number = %s, hash = decode(%s, 'hex') WHERE dataset = %s", values)
    root.commit()
    root.autocommit = True
    root.execute("ANALYZE dp.ledger, dp.chain")


def _links(root: psycopg.Connection[Any], dataset: str, head: Head) -> Iterator[tuple[Head, Entry]]:
    sql = (
        "SELECT to_jsonb(l)::text FROM dp.ledger l WHERE dataset = %s"
        " AND NOT EXISTS (SELECT FROM dp.chain c WHERE c.request_id = l.request_id) ORDER BY seq"
    )
    for (content,) in root.execute(sql, [dataset]).fetchall():
        entry = Entry.of_ledger(parse(content))
        head = head.then(entry)
        yield head, entry


async def _verify(dsn: str) -> None:
    parts = {name: str(value) for name, value in psycopg.conninfo.conninfo_to_dict(dsn).items()}
    connection = await asyncpg.connect(
        host=parts["host"],
        port=int(parts["port"]),
        user=parts["user"],
        database=parts["dbname"],
        password=parts.get("password"),
    )
    try:
        await verify_live(connection)
    finally:
        await connection.close()
