"""Backends that an update of an extension made unfit: each that has the old library loaded ends itself.

TimescaleDB says so in a FATAL error, of which asyncpg tells only that the connection is gone. So the
versions of the extensions are compared: those when the backend began with those of now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg

_VERSIONS = (
    "SELECT pg_catalog.string_agg(extname || ' ' || extversion, ',' ORDER BY extname) FROM pg_catalog.pg_extension"
)
CLOSE_SECONDS = 5.0


class Versions:
    """Of all extensions of the database, by backend."""

    def __init__(self) -> None:
        self._by_pid: dict[int, str] = {}

    async def note(self, connection: Any) -> None:
        """Of a backend that has just begun."""
        self._by_pid[connection.get_server_pid()] = str(await connection.fetchval(_VERSIONS))

    def forget(self, pid: int) -> None:
        self._by_pid.pop(pid, None)

    async def differ(self, pid: int, connect: Callable[[], Awaitable[Any]], seconds: float) -> bool:
        """Whether an extension was updated, made or dropped since a backend that ended had begun.

        connect: opens a new connection, to look over, within so many seconds. A database that is away
        has nothing that differs.
        """
        before = self._by_pid.get(pid)
        if before is None:
            return False
        try:
            async with asyncio.timeout(seconds):
                connection = await connect()
            try:
                return str(await connection.fetchval(_VERSIONS)) != before
            finally:
                await connection.close(timeout=CLOSE_SECONDS)
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
            return False
