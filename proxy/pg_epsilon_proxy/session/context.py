"""What one session is given, and what the brain may ask of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from pg_epsilon_proxy.session.facade_link import FacadeLink
from pg_epsilon_proxy.session.parser_thread import ParserThreads
from pg_epsilon_proxy.session.rewriting import (
    AnalystUpstream,
    BoundParams,
    Described,
    FacadeError,
    Last,
    Made,
    Probe,
    Rewriter,
)
from pg_epsilon_proxy.session.spelled import in_ascii, is_plain, read, spelled
from pg_epsilon_proxy.wire import messages

T = TypeVar("T")


@dataclass(slots=True)
class SessionContext:
    """What one session is given. write: sends bytes to the client; client_gone: set when it hung up."""

    analyst: str
    link: FacadeLink
    upstream: AnalystUpstream
    parsers: ParserThreads
    rewriter: Callable[[], Rewriter]
    write: Callable[[bytes], None]
    client_gone: asyncio.Event


class BrainIO:
    """SessionIO (rewriting.py) over one session."""

    def __init__(self, context: SessionContext, begun: Callable[[], bool]) -> None:
        """begun: whether the client has run anything since its last Sync."""
        self._context = context
        self._begun = begun
        self.analyst = context.analyst
        self.upstream = context.upstream
        self.prepared: dict[str, Made] = {}
        self.last = Last()

    async def describe(self, sql: str, param_oids: Sequence[int] = ()) -> Described:
        return await self._context.link.describe(sql, param_oids)

    async def fetch(
        self, sql: str, params: BoundParams | Sequence[str | None] = (), param_oids: Sequence[int] = ()
    ) -> list[list[str | None]]:
        plain = self._plain()
        try:
            rows = await self._context.link.fetch(sql if plain else spelled(sql), params, param_oids)
            return rows if plain else read(sql, rows)
        except FacadeError as error:
            raise error.placed(None) from None  # a place in a text that the client has never seen

    async def together(self, probes: Sequence[Probe]) -> list[Any]:
        if self._plain():
            return await self._context.link.together(probes)
        asked = [probe if probe.params is None else replace(probe, sql=spelled(probe.sql)) for probe in probes]
        answers = await self._context.link.together(asked)
        return [
            answer if probe.params is None else read(probe.sql, answer)
            for probe, answer in zip(probes, answers, strict=True)
        ]

    async def hold(self, sql: str, param_oids: Sequence[int]) -> str:
        try:
            return (await self._context.link.hold(sql, param_oids)).decode("ascii")
        except FacadeError as error:
            raise error.placed(None) from None

    def _plain(self) -> bool:
        """As the facade last said; an answer that is spelled is right in any encoding."""
        return is_plain(self.parameter_status("client_encoding"))

    async def in_parser(self, function: Callable[..., T], *args: Any) -> T:
        return await self._context.parsers.run(function, *args)

    def parameter_status(self, name: str) -> str | None:
        return self._context.link.statuses.get(name)

    def in_block(self) -> bool:
        return self._context.link.pending.status == b"T"

    def outside_block(self) -> bool:
        return self._context.link.pending.status == b"I" and not self._begun()

    def count_undefined(self, say: Callable[[int], str] | None) -> None:
        self._context.link.undefined.say = say

    def notice(
        self,
        severity: str,
        message: str,
        detail: str | None = None,
        hint: str | None = None,
        sqlstate: str = "00000",
    ) -> None:
        encoding = self._context.link.encoding
        if not self._plain():
            message = in_ascii(message)
        self._context.write(messages.report(b"N", severity, sqlstate, message, detail, hint, encoding=encoding))
