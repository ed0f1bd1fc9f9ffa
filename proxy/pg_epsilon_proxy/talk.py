"""Requests and replies between the supervisor and a worker: JSON lines over a socket pair that only they hold."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from pg_epsilon_proxy.logs import event, failure

log = logging.getLogger("pg_epsilon_proxy.talk")

LINE = 1 << 24  # bytes of one line: a snapshot of all numbers
Handler = Callable[..., Awaitable[Any]]


class Gone(Exception):
    """The other side has ended."""


class Failed(Exception):
    """The other side could not do it; the text is the type of its error, or what a Told says."""


class Told(Exception):
    """Raised by a handler whose error may be told with its text: it has nothing of an analyst."""


class Talk:
    """Both sides may ask; `ended` is set once the other one is gone."""

    def __init__(self, handlers: Mapping[str, Handler]) -> None:
        self._handlers = handlers
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._writer: asyncio.StreamWriter | None = None
        self.ended = asyncio.Event()

    async def open(self, sock: socket.socket) -> None:
        reader, self._writer = await asyncio.open_connection(sock=sock, limit=LINE)
        self._begin(self._listen(reader))

    async def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def ask(self, what: str, *, within: float, **arguments: Any) -> Any:
        """The other side's answer, within so many seconds. Raises Gone, Failed, TimeoutError."""
        if self._writer is None or self.ended.is_set():
            raise Gone
        number = next(self._numbers)
        reply = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            self._send({"ask": what, "number": number, "arguments": arguments})
            async with asyncio.timeout(within):
                return await reply
        finally:
            del self._waiting[number]

    def _send(self, message: dict[str, Any]) -> None:
        if self._writer is not None:
            self._writer.write(json.dumps(message).encode() + b"\n")

    def _begin(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        try:
            while line := await reader.readline():
                message = json.loads(line)
                if "ask" in message:
                    self._begin(self._handle(message))
                elif (reply := self._waiting.get(message["number"])) is not None and not reply.done():
                    if "error" in message:
                        reply.set_exception(Failed(message["error"]))
                    else:
                        reply.set_result(message["value"])
        except (OSError, ValueError):
            pass
        finally:
            self.ended.set()
            for reply in self._waiting.values():
                if not reply.done():
                    reply.set_exception(Gone())

    async def _handle(self, message: dict[str, Any]) -> None:
        answer: dict[str, Any] = {"number": message["number"]}
        try:
            answer["value"] = await self._handlers[message["ask"]](**message["arguments"])
        except Exception as error:  # told to the other side, which decides
            event(log, logging.ERROR, "could not", what=message["ask"], **failure(error))
            answer["error"] = str(error) if isinstance(error, Told) else type(error).__name__
        self._send(answer)
