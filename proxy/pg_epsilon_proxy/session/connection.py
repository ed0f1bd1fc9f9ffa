"""One client session: two pumps between the client and its own facade session."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from pg_epsilon_proxy.session.context import SessionContext
from pg_epsilon_proxy.session.operations import Operations
from pg_epsilon_proxy.session.pending import (
    expect_close,
    expect_describe,
    expect_error,
    expect_execute,
)
from pg_epsilon_proxy.session.portals import NO_PORTAL, missing
from pg_epsilon_proxy.session.refusals import raise_statement
from pg_epsilon_proxy.session.rewriting import Refusal
from pg_epsilon_proxy.wire import messages
from pg_epsilon_proxy.wire.framing import MAX_LENGTH, Framer, Piece, WireError

READ = 1 << 18
SMALL = 10_000  # messages that hold a name or nothing
DEFAULT_MAX_MESSAGE = 16 << 20
LAST_WORDS = 2.0  # seconds given to the facade to finish what was sent before the client left
TURN = 64  # messages of one session before the others have their turn
BEGINNING = {ord("B"): True, ord("E"): True, ord("S"): False, ord("Q"): False}
LOST = "the facade has ended this session without a word"
IDLE = "terminating connection due to idle-session timeout"
DISCARDED = b"DISCARD ALL"
FORGETTING = (b"DEALLOCATE", DISCARDED)


def client_limits(max_message: int = DEFAULT_MAX_MESSAGE) -> dict[int, int]:
    """Greatest message per kind after login, in bytes; any other kind is a protocol error."""
    return dict.fromkeys(b"QPBF", max_message) | dict.fromkeys(b"DCEfHSXc", SMALL) | {ord("d"): MAX_LENGTH}


class Session:
    """run() returns when either side has closed. Neither socket is closed here: the server does that.

    idle_timeout: seconds that a client may say nothing while it is owed nothing; 0: for ever.
    """

    def __init__(
        self,
        context: SessionContext,
        client: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        max_message: int,
        idle_timeout: float = 0.0,
    ) -> None:
        self._client = client
        self._writer = writer
        self._link = context.link
        self._leaving = False
        self._idle_timeout = idle_timeout
        self._active = asyncio.get_running_loop().time()
        self._framer = Framer(client_limits(max_message), stream=b"dH")
        self.operations = Operations(context)
        self._handlers: dict[int, Callable[[bytes], Awaitable[None]]] = {
            ord("Q"): self.operations.query,
            ord("P"): self.operations.parse,
            ord("B"): self.operations.bind,
            ord("D"): self._describe,
            ord("C"): self._close,
            ord("E"): self._execute,
            ord("S"): self._sync,
            ord("H"): self._flush,
            ord("F"): self._function_call,
            ord("c"): self._copy_end,
            ord("f"): self._copy_end,
        }

    async def run(self) -> None:
        """Raises WireError if either side broke the protocol."""
        from_client = asyncio.ensure_future(self._pump_client())
        from_facade = asyncio.ensure_future(self._pump_facade())
        tasks = {from_client, from_facade}
        if self._idle_timeout:
            tasks.add(asyncio.ensure_future(self._end_when_idle()))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            owed = len(self._link.pending) or not self._leaving
            if from_client.done() and not from_client.exception() and owed:
                await asyncio.wait({from_facade}, timeout=LAST_WORDS)
            for task in tasks:
                if task.done():
                    await task
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _pump_client(self) -> None:
        loop, link, broken = asyncio.get_running_loop(), self._link, False
        try:
            while data := await self._client.read(READ):
                self._active = loop.time()
                for number, piece in enumerate(self._framer.feed(data), 1):
                    if piece.kind == ord("X"):
                        return
                    handler = self._handlers.get(piece.kind)
                    if handler is None:  # CopyData
                        link.send(piece.data)
                    else:
                        await handler(piece.data)
                        if piece.kind in BEGINNING:
                            self.operations.begun = BEGINNING[piece.kind]
                    if number % TURN == 0:
                        await link.room()
                        await asyncio.sleep(0)
                await link.room()
        except ConnectionError:
            # Of a facade that broke off while it was written to, _pump_facade hears too, perhaps after us: it says so.
            broken = self._client.exception() is None and not self._writer.is_closing()
        finally:
            self._leaving = not broken
            link.send(messages.TERMINATE)
            link.flush()

    async def _pump_facade(self) -> None:
        loop, link, operations = asyncio.get_running_loop(), self._link, self.operations
        out: list[bytes] = []
        try:
            while data := await link.reader.read(READ):
                self._active = loop.time()
                for piece in link.framer.feed(data):
                    out.append(link.take_in(piece, operating=operations.busy))
                    if piece.kind == ord("C") and (operations.statements.by_name or operations.io.last.holds):
                        self._forget(piece)
                    if link.late is not None:
                        operations.cancel()
                    if len(out) == TURN:
                        await self._deliver(out)
                        await asyncio.sleep(0)
                await self._deliver(out)
        except ConnectionError:
            pass
        if not (self._leaving or link.said_goodbye):
            self._writer.write(messages.report(b"E", "FATAL", "08006", LOST, None, "Connect again."))

    async def _deliver(self, out: list[bytes]) -> None:
        """To the client before anybody who waited for these answers goes on: he may have something to say after them.

        A client that does not read is waited for, and so is the facade then: neither's answers fill our memory.
        """
        self._writer.write(b"".join(out))
        out.clear()
        self._link.progressed()
        await self._writer.drain()

    async def _end_when_idle(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            if len(self._link.pending) or self.operations.busy:
                self._active = loop.time()
            left = self._active + self._idle_timeout - loop.time()
            if left <= 0:
                self._writer.write(messages.report(b"E", "FATAL", "57P05", IDLE))
                return
            await asyncio.sleep(left)

    def _forget(self, piece: Piece) -> None:
        if piece.data.startswith(FORGETTING, 5):
            self.operations.statements.doubt()
        if piece.data.startswith(DISCARDED, 5):
            self.operations.io.last.forget()

    async def _describe(self, raw: bytes) -> None:
        try:
            kind, name = messages.read_target(raw)
        except WireError:
            return self._link.send(raw, expect_describe())
        if kind == ord("P") and await self.operations.no_portal(name):
            return self._link.send(messages.describe(b"P", NO_PORTAL), expect_describe(missing))
        return self._link.send(raw, expect_describe(self.operations.describe_sink(kind, name)))

    async def _close(self, raw: bytes) -> None:
        try:
            kind, name = messages.read_target(raw)
        except WireError:
            return self._link.send(raw, expect_close())

        def settled(ok: bool) -> None:
            if ok:
                self.operations.closed(kind, name)

        return self._link.send(raw, expect_close(None, settled))

    async def _execute(self, raw: bytes) -> None:
        self.operations.turn += 1
        if raw[5:6] == b"\0" and await self.operations.no_portal(b""):
            return self._link.send(messages.message(b"E", NO_PORTAL + raw[5:]), expect_execute(missing))
        return self._link.send(raw, expect_execute())

    async def _sync(self, raw: bytes) -> None:
        self.operations.sync(raw)

    async def _flush(self, raw: bytes) -> None:
        """Many in a row ask for no more than one. A malformed one is PostgreSQL's to refuse."""
        if len(raw) % len(messages.FLUSH) == 0 and raw == messages.FLUSH * (len(raw) // len(messages.FLUSH)):
            return self._link.send(messages.FLUSH)
        return self._link.send(raw, expect_error())

    async def _copy_end(self, raw: bytes) -> None:
        self._link.send_copy_end(raw)

    async def _function_call(self, raw: bytes) -> None:
        """Calls a function by OID, without SQL: refused. Answered like a Query: an error, ReadyForQuery."""
        refusal = Refusal("0A000", "function calls by OID are not supported", None, "Use SELECT.")
        statement, sink = raise_statement(refusal, lambda: self._link.encoding)
        self.operations._send_query(messages.query(statement), sink)
