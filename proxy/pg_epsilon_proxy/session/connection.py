"""One client session: two pumps between the client and its own facade session."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from pg_epsilon_proxy.session.operations import Operations, SessionContext
from pg_epsilon_proxy.session.pending import (
    expect_close,
    expect_describe,
    expect_execute,
    expect_sync,
)
from pg_epsilon_proxy.session.refusals import raise_statement
from pg_epsilon_proxy.session.rewriting import Refusal
from pg_epsilon_proxy.wire import messages
from pg_epsilon_proxy.wire.framing import MAX_LENGTH, Framer, Piece, WireError

READ = 1 << 18
SMALL = 10_000  # messages that hold a name or nothing
DEFAULT_MAX_MESSAGE = 16 << 20
LAST_WORDS = 2.0  # seconds given to the facade to finish what was sent before the client left
LOST = "the facade has ended this session without a word"
FORGETTING = (b"DEALLOCATE", b"DISCARD ALL")


def client_limits(max_message: int = DEFAULT_MAX_MESSAGE) -> dict[int, int]:
    """Greatest message per kind after login, in bytes; any other kind is a protocol error."""
    return dict.fromkeys(b"QPBF", max_message) | dict.fromkeys(b"DCEfHSXc", SMALL) | {ord("d"): MAX_LENGTH}


class Session:
    """run() returns when either side has closed. Neither socket is closed here: the server does that."""

    def __init__(
        self, context: SessionContext, client: asyncio.StreamReader, writer: asyncio.StreamWriter, max_message: int
    ) -> None:
        self._client = client
        self._writer = writer
        self._link = context.link
        self._leaving = False
        self._framer = Framer(client_limits(max_message), stream=b"d")
        self.operations = Operations(context)
        self._handlers: dict[int, Callable[[bytes], Awaitable[None]]] = {
            ord("Q"): self.operations.query,
            ord("P"): self.operations.parse,
            ord("B"): self.operations.bind,
            ord("D"): self._describe,
            ord("C"): self._close,
            ord("E"): self._execute,
            ord("S"): self._sync,
            ord("F"): self._function_call,
            ord("c"): self._copy_end,
            ord("f"): self._copy_end,
        }

    async def run(self) -> None:
        """Raises WireError if either side broke the protocol."""
        from_client = asyncio.ensure_future(self._pump_client())
        from_facade = asyncio.ensure_future(self._pump_facade())
        try:
            await asyncio.wait({from_client, from_facade}, return_when=asyncio.FIRST_COMPLETED)
            if from_client.done() and not from_client.exception() and len(self._link.pending):
                await asyncio.wait({from_facade}, timeout=LAST_WORDS)
            for task in (from_client, from_facade):
                if task.done():
                    await task
        finally:
            for task in (from_client, from_facade):
                task.cancel()
            await asyncio.gather(from_client, from_facade, return_exceptions=True)

    async def _pump_client(self) -> None:
        try:
            while data := await self._client.read(READ):
                for piece in self._framer.feed(data):
                    if piece.kind == ord("X"):
                        return
                    handler = self._handlers.get(piece.kind)
                    if handler is None:  # Flush, CopyData
                        self._link.send(piece.data)
                    else:
                        await handler(piece.data)
                await self._link.writer.drain()
        except ConnectionError:
            return
        finally:
            self._leaving = True
            self._link.writer.write(messages.TERMINATE)

    async def _pump_facade(self) -> None:
        link, operations = self._link, self.operations
        try:
            while data := await link.reader.read(READ):
                out = []
                for piece in link.framer.feed(data):
                    out.append(link.take_in(piece, operating=operations.busy))
                    if piece.kind == ord("C") and operations.statements.by_name:
                        self._forget(piece)
                    if link.late is not None:
                        operations.cancel()
                self._writer.write(b"".join(out))
                link.progressed()
                await self._writer.drain()
        except ConnectionError:
            pass
        if not (self._leaving or link.said_goodbye):
            self._writer.write(messages.report(b"E", "FATAL", "08006", LOST, None, "Connect again."))

    def _forget(self, piece: Piece) -> None:
        if piece.data.startswith(FORGETTING, 5):
            self.operations.statements.doubt()

    async def _describe(self, raw: bytes) -> None:
        try:
            kind, name = messages.read_target(raw)
        except WireError:
            return self._link.send(raw, expect_describe())
        statements = self.operations.statements
        sink = statements.statement_sink(name) if kind == ord("S") else statements.portal_sink(name)
        return self._link.send(raw, expect_describe(sink))

    async def _close(self, raw: bytes) -> None:
        try:
            kind, name = messages.read_target(raw)
        except WireError:
            return self._link.send(raw, expect_close())

        def settled(ok: bool) -> None:
            if ok:
                self.operations.statements.closed(kind, name)

        return self._link.send(raw, expect_close(None, settled))

    async def _execute(self, raw: bytes) -> None:
        self._link.send(raw, expect_execute())

    async def _sync(self, raw: bytes) -> None:
        self._link.send(raw, expect_sync())

    async def _copy_end(self, raw: bytes) -> None:
        self._link.send_copy_end(raw)

    async def _function_call(self, raw: bytes) -> None:
        """Calls a function by OID, without SQL: refused. Answered like a Query: an error, ReadyForQuery."""
        refusal = Refusal("0A000", "function calls by OID are not supported", None, "Use SELECT.")
        statement, sink = raise_statement(refusal, lambda: self._link.encoding)
        self.operations._send_query(messages.query(statement), sink)
