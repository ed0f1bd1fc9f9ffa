"""Making a facade and keeping it in step with the policy (facade-and-channel.md §5)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, cast

import asyncpg

from pg_epsilon_proxy.facade.definition import EMPTY, Definition, without
from pg_epsilon_proxy.facade.pieces import build
from pg_epsilon_proxy.facade.statements import database_statement, ident

# An analyst's open transaction holds its relations: a rebuild gives up after this and is tried again by the caller.
LOCK_TIMEOUT = "5s"


class FacadeBusy(Exception):
    """A relation that changed is held by an open transaction on the facade; nothing was changed, try again later."""


@dataclass(frozen=True, slots=True)
class ReaderSource:
    """Where the facade reads public tables as dp_reader.

    host, port, database: of the private database as the facade's server sees it; pg_hba.conf there must ask dp_reader
    for a password. password: None when both are in one cluster: a random one is then set for dp_reader.
    """

    host: str
    port: int
    database: str
    password: str | None = None


def _script(name: str) -> str:
    return files("pg_epsilon_proxy.facade").joinpath(name).read_text(encoding="utf-8")


async def create(superuser_private: asyncpg.Connection[Any], facade_dbname: str) -> None:
    """CREATE DATABASE with the private database's encoding and locale (ORDER BY of text agrees), if it is not there.

    `superuser_private` is connected to the private database, outside a transaction. Errors: PostgreSQL's own.
    """
    if await superuser_private.fetchval("SELECT true FROM pg_catalog.pg_database WHERE datname = $1", facade_dbname):
        return
    facts = await superuser_private.fetchval(
        "SELECT pg_catalog.to_jsonb(d) || "
        "pg_catalog.jsonb_build_object('encoding', pg_catalog.pg_encoding_to_char(d.encoding)) "
        "FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database()"
    )
    await superuser_private.execute(database_statement(facade_dbname, json.loads(facts)))
    # Until prepare has closed it, only superusers enter.
    await superuser_private.execute(f"REVOKE ALL ON DATABASE {ident(facade_dbname)} FROM PUBLIC")


async def prepare(
    superuser_facade: asyncpg.Connection[Any],
    private_dbname: str | None = None,
    source: ReaderSource | None = None,
    *,
    connection_limit: int = 100,
) -> None:
    """Net, helper functions, closed cluster-wide surfaces and settings; repeatable, one transaction.

    private_dbname: the private database's name when it is in the same cluster (its CONNECT is closed, its settings are
    copied). source: where public tables are; without it none can be shown. connection_limit: sessions accepted.
    """
    async with superuser_facade.transaction():
        await superuser_facade.execute("SET LOCAL search_path = pg_catalog, pg_temp")
        await _setting(superuser_facade, "private_database", private_dbname or "")
        await superuser_facade.execute(_script("prepare.sql"))
        await superuser_facade.execute("SET LOCAL ROLE dp_facade")
        await superuser_facade.execute(_script("released.sql"))
        await superuser_facade.execute("RESET ROLE")
        name = await superuser_facade.fetchval("SELECT pg_catalog.current_database()")
        await superuser_facade.execute(f"ALTER DATABASE {ident(name)} CONNECTION LIMIT {int(connection_limit)}")
        if source is not None:
            # The password passes as a parameter: keep it out of the server's log.
            await superuser_facade.execute(
                "SET LOCAL log_statement = 'none'; SET LOCAL log_min_duration_statement = -1; "
                "SET LOCAL log_min_duration_sample = -1; SET LOCAL log_transaction_sample_rate = 0; "
                "SET LOCAL log_min_error_statement = 'panic'"
            )
            for part, value in (
                ("host", source.host),
                ("port", str(source.port)),
                ("database", source.database),
                ("password", source.password or ""),
            ):
                await _setting(superuser_facade, f"reader_{part}", value)
            await superuser_facade.execute(_script("reader.sql"))


async def _setting(connection: asyncpg.Connection[Any], name: str, value: str) -> None:
    await connection.execute("SELECT pg_catalog.set_config($1, $2, true)", f"pg_epsilon.{name}", value)


async def sync(
    private: asyncpg.Connection[Any], facade: asyncpg.Connection[Any], *, rebuild: bool = False, again: bool = False
) -> int:
    """Bring the facade to the shape that the policy publishes now, in one transaction; returns its policy version.

    Both connections are dp_gateway's. Relations that did not change are not touched. What cannot be made is left out
    (`left_out`). rebuild: drop and make everything. again: try anew what was left out under this same policy.
    Errors: FacadeBusy; PostgreSQL's own where schema dp cannot be made, or nothing can.
    """
    try:
        async with facade.transaction():
            await facade.execute(
                "SET LOCAL ROLE dp_facade; SET LOCAL search_path = pg_catalog, pg_temp; "
                "SET LOCAL check_function_bodies = off; SET LOCAL client_min_messages = warning; "
                f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'"
            )
            if await facade.fetchval("SELECT pg_catalog.to_regnamespace('dp_null') IS NULL"):
                await facade.execute(_script("released.sql"))  # a facade of 0.1.0
            # The lock comes before the reading: of two proxies that sync at once the later one sees the newer policy.
            held_text = await facade.fetchval("SELECT definition FROM dp_state.facade_state FOR UPDATE")
            held = cast(Definition, json.loads(held_text)) if held_text else EMPTY
            wanted = cast(Definition, json.loads(await private.fetchval("SELECT dp.facade_definition()")))
            left_out, shape = held.get("left_out", []), without(held, [])
            if rebuild or again or not left_out or shape != without(wanted, left_out):
                made = await build(facade, shape, wanted, rebuild=rebuild)
                if made != held:
                    await facade.execute(
                        "UPDATE dp_state.facade_state SET version = $1, definition = $2",
                        made["version"],
                        json.dumps(made),
                    )
    except asyncpg.LockNotAvailableError as error:
        raise FacadeBusy("a relation that changed is in use on the facade") from error
    return wanted["version"]
