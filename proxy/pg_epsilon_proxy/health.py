"""Whether the private database can answer anything: dp.probe() on a connection of its own, asked at most so often.

Its own connection, because questions that take long may hold the whole pool, and a busy proxy is not a broken one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg

from pg_epsilon_proxy.logs import event

log = logging.getLogger("pg_epsilon_proxy.health")

Ask = Callable[[], Awaitable[list[str]]]
AGAIN = 2.0  # seconds that an answer counts as the truth
WAIT = 3.0  # seconds that a scrape waits for a newer one
GONE = 30.0  # seconds after which an older one is worth nothing
LIMIT = 20.0  # seconds for one attempt
_TROUBLE = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError)


async def problems_of(connection: Any) -> list[str]:
    """What keeps every question from being answered, a line each, with what to type. Charges nothing."""
    try:
        rows = await connection.fetch("SELECT object, problem, hint FROM dp.probe()")
    except asyncpg.UndefinedFunctionError:  # an extension of an earlier version
        await connection.fetchval("SELECT dp.warm()")
        return []
    return [f"{row['object']}: {row['problem']}. {row['hint']}" for row in rows]


class Health:
    """The last answer to `ask`, renewed when somebody looks; unchanged news are logged once."""

    def __init__(self, ask: Ask, clock: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._clock = clock
        self._at: float | None = None
        self._asking: asyncio.Task[None] | None = None
        self.problems: list[str] = ["the engine has not been tried yet"]

    def begin(self) -> asyncio.Task[None]:
        """Ask now, unless an attempt is under way."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.ensure_future(self._look())
        return self._asking

    async def healthy(self) -> bool:
        """Whether questions can be answered; a slow attempt goes on by itself, and the last answer counts so long."""
        if self._at is None or self._clock() - self._at > AGAIN:
            await asyncio.wait({self.begin()}, timeout=WAIT)
        return self._at is not None and self._clock() - self._at <= GONE and not self.problems

    async def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait({self._asking})

    async def _look(self) -> None:
        problems: list[str]
        try:
            async with asyncio.timeout(LIMIT):
                problems = await self._ask()
        except _TROUBLE as error:
            problems = [f"the private database cannot be asked: {type(error).__name__}"]
        self._tell(problems)
        self.problems, self._at = problems, self._clock()

    def _tell(self, problems: list[str]) -> None:
        if problems == self.problems:
            return
        for problem in problems:
            event(log, logging.ERROR, "nothing can be answered", problem=problem)
        if not problems and self._at is not None:
            event(log, logging.INFO, "questions can be answered again")


def asked_by(connect: Callable[[], contextlib.AbstractAsyncContextManager[Any]]) -> Ask:
    """Over a connection that is opened for each attempt: a login that no longer works is part of the truth."""

    async def ask() -> list[str]:
        async with connect() as connection:
            return await problems_of(connection)

    return ask
