"""What the proxy does with Query, Parse and Bind when they may hold a DP block (§6). The rest is connection.py."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from pg_epsilon_proxy.session.binding import Binding
from pg_epsilon_proxy.session.context import BrainIO, SessionContext
from pg_epsilon_proxy.session.facade_link import RESERVED
from pg_epsilon_proxy.session.pending import (
    Sink,
    expect_bind,
    expect_parse,
    expect_query,
    expect_sync,
)
from pg_epsilon_proxy.session.portals import UnnamedPortal
from pg_epsilon_proxy.session.refusals import nonce_statement, placed, raise_statement
from pg_epsilon_proxy.session.rewriting import (
    BoundParams,
    FacadeError,
    Made,
    Plan,
    Refusal,
)
from pg_epsilon_proxy.session.savepoints import leading
from pg_epsilon_proxy.session.statements import Statement, Statements, original_columns
from pg_epsilon_proxy.session.written import AS_IT_IS, Written
from pg_epsilon_proxy.wire import messages
from pg_epsilon_proxy.wire.framing import Piece, WireError

log = logging.getLogger("pg_epsilon_proxy.session")
T = TypeVar("T")

MAX_PARSED = 1_000_000  # bytes; longer statements are forwarded unparsed, the net answers for them
CANCELLED = "57014"
FAILED = "the call could not be completed"


class Operations:
    def __init__(self, context: SessionContext) -> None:
        self._context = context
        self._link = context.link
        self.io = BrainIO(context, lambda: self.begun)
        self.statements = Statements()
        self.unnamed = UnnamedPortal()
        self.binding = Binding(self, self._link, self.statements)
        self.turn = 0  # counts the messages that may change what a statement means: Execute, Query, Sync
        self.busy = False
        self.begun: bool = False  # a Bind or Execute of the client's was sent after its last Sync
        self._running: asyncio.Task[Any] | None = None

    def cancel(self) -> bool:
        """End the wait for a private call, if there is one; a charge stays. True: the facade is busy as well.

        A cancel sent to an idle facade may hit the next statement instead.
        """
        if self._running is None:
            return True
        self._running.cancel()
        return len(self._link.pending) > 0

    async def query(self, raw: bytes) -> None:
        try:
            text = messages.read_query(raw)
        except WireError:
            return self._forward_query(raw)  # PostgreSQL answers 08P01 to the same bytes
        sql = self._ours(text)
        if sql is None or not await self._link.drain() or self._link.pending.status == b"E":
            return self._forward_query(raw)
        self.busy = True
        try:
            head = await self._savepoints(sql) if self._link.pending.status == b"T" else 0
            if head is None:
                return None
            if head:
                sql = " " * head + sql[head:]  # positions stay those of the client's text
                text = sql.encode(self._link.encoding)
                raw = messages.query(text)
            written = await self._spelled_out(sql)
            if written.rounds:
                sql = written.text
                text = sql.encode(self._link.encoding)
                raw = messages.query(text)
            await self._planned_query(raw, text, sql, written)
        except FacadeError as error:
            self._context.write(error.raw)
            self.sync(messages.SYNC)
        except Refusal as refusal:
            statement, sink = raise_statement(refusal, lambda: self._link.encoding)
            self._send_query(messages.query(statement), sink)
        finally:
            self.busy = False

    async def _savepoints(self, sql: str) -> int | None:
        """Run what savepoints.leading finds; its length, or None if it failed: the client has been told.

        In an open transaction a message is the same as its statements one by one, and so the probes of what follows
        fail inside the savepoint, as the statement would, and not outside.
        """
        head = await self.io.in_parser(leading, sql)
        if not head:
            return 0
        ready: list[bytes] = []

        def sink(piece: Piece) -> bytes:
            if piece.kind != ord("Z"):
                return piece.data
            ready.append(piece.data)
            return b""

        self._send_query(messages.query(sql[:head].encode(self._link.encoding)), sink)
        await self._link.drain()
        if self._link.pending.status != b"E":
            return head
        self._context.write(b"".join(ready))
        return None

    async def _spelled_out(self, sql: str) -> Written:
        """The text as the facade can read it, whatever it has installed."""
        written: Written = await self._guarded(self._context.rewriter().spelled_out(sql, self.io))
        self._raise_kept_error()
        return written

    async def _planned_query(self, raw: bytes, text: bytes, sql: str, written: Written) -> None:
        link = self._link
        with written.placing():
            plan = await self._plan(text, sql, (), extended=False)
            if link.pending.skipping and link.pending.status != b"I":
                self._raise_kept_error()  # it has ended the client's transaction already
        if link.pending.skipping:
            # A probe failed and the brain goes on: PostgreSQL shall meet that error in its own place.
            await link.sync_unseen()
        if plan is None:
            if link.probed and link.pending.status == b"I":
                await link.sync_unseen()  # the original then runs in a transaction of its own, as it would without us
            else:
                await link.stop_timer()
            written.check_filled()
            return self._send_query(raw, written.sink)
        with written.placing():
            documents = await self.run(plan, None)
        rewritten = messages.query(plan.splice_simple(documents).encode(link.encoding))
        await link.stop_timer()

        def sink(piece: Piece) -> bytes:
            if piece.kind == ord("E") and plan.refusal is not None:
                return written.error(placed(piece.data, plan.refusal, link.encoding))
            if piece.kind == ord("E"):
                return written.error(piece.data)
            return original_columns(piece.data, plan) if piece.kind == ord("T") else piece.data

        return self._send_query(rewritten, sink)

    async def parse(self, raw: bytes) -> None:
        try:
            parse = messages.read_parse(raw)
        except WireError:
            return self._link.send(raw, expect_parse())
        sql = self._ours(parse.query)
        reserved = parse.name.startswith(RESERVED)
        if (sql is None and not reserved) or not await self._link.drain():
            return self._forward_parse(raw, parse.name)
        self.busy = True
        try:
            if reserved or sql is None:
                raise Refusal(
                    "42602", "prepared statement names that begin with _pge_ are reserved", None, "Rename it."
                )
            written, text = await self._spelled_out(sql), parse.query
            if written.rounds:
                sql = written.text
                text = sql.encode(self._link.encoding)
                raw = messages.parse(parse.name, text, parse.param_oids)
            with written.placing():
                plan = await self._plan(text, sql, parse.param_oids, extended=True)
            self.end_probes()
            if plan is None:
                written.check_filled()
                return self._forward_parse(raw, parse.name, written)
            self._send_planned(raw, parse, sql, plan, written)
        except FacadeError as error:
            self._context.write(error.raw)
            self.statements.parsed(parse.name, None, False)
        except Refusal as refusal:
            self.refuse_now(refusal, parse.name)
        finally:
            self.busy = False

    def _send_planned(self, raw: bytes, parse: messages.ParseMessage, sql: str, plan: Plan, written: Written) -> None:
        """The facade keeps the client's text, spelled out; what is rewritten is parsed at each Bind."""
        made = Made(sql, tuple(parse.param_oids), False, plan.meaning, written)
        statement = Statement(parse.name, plan, made, self.turn)
        self.statements.planning += 1

        def settled(ok: bool) -> None:
            self.statements.parsed(parse.name, statement, ok)
            if ok and parse.name:
                self.statements.keep(self.io.prepared, parse.name.decode(self._link.encoding, "replace"), made)

        self._link.send(raw, expect_parse(written.sink, settled))

    async def bind(self, raw: bytes) -> None:
        await self.binding.bind(raw)

    def describe_sink(self, kind: int, name: bytes) -> Sink | None:
        """What the client sees of a portal's description; a statement on the facade is the client's own."""
        return None if kind == ord("S") else self.statements.portal_sink(name)

    def end_probes(self) -> None:
        """At a Parse probes must not be seen: behind them a DISCARD ALL would be in a pipeline.

        A Sync is unseen too as long as the client has bound nothing: what it parsed stays. At a Bind the transaction
        goes on, so that now() is the same in the blocks and around them.
        """
        if self._link.probed and not self.begun and self._link.pending.status == b"I":
            self._link.end_transaction()

    async def _plan(self, text: bytes, sql: str, oids: Sequence[int], *, extended: bool) -> Plan | None:
        plan = await self._guarded(self._context.rewriter().plan(sql, oids, self.io, extended=extended))
        if extended:
            self._raise_kept_error()
        statuses = self._link.statuses
        if plan is not None and statuses.get("standard_conforming_strings", "on") != "on":
            hint = "SET standard_conforming_strings = on."
            raise Refusal("DP003", "private relations need standard_conforming_strings", None, hint)
        if plan is not None and statuses.get("client_encoding", "UTF8") != "UTF8" and not text.isascii():
            message = "a statement over private relations with characters outside ASCII must be UTF8"
            raise Refusal("DP003", message, None, "SET client_encoding = 'UTF8'.")
        return plan

    async def run(self, plan: Plan, bind: BoundParams | None) -> list[str]:
        await self._link.stop_timer()
        documents = await self._guarded(plan.run(bind, self.io))
        self._raise_kept_error()
        return documents

    async def again(self, made: Made) -> Plan | None:
        """Plan a prepared statement again."""
        plan = await self._guarded(self._context.rewriter().again(made, self.io))
        self._raise_kept_error()
        return plan

    async def noted(self, name: str) -> Made | None:
        found = await self._guarded(self._context.rewriter().noted(name, self.io))
        self._raise_kept_error()
        return found

    def show(self, error: FacadeError) -> None:
        """An error of the facade's to a probe, where the client waits for an answer."""
        self._context.write(error.raw)

    def _raise_kept_error(self) -> None:
        """A probe failed though the brain went on: the facade skips to Sync, so the client must get that error."""
        if self._link.pending.skipping:
            raise self._link.error(self._link.last_error)

    async def _guarded(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the brain so that a cancel, a hang-up or an error of the facade ends it; its failures tell nothing."""
        task = asyncio.ensure_future(work)
        gone = asyncio.ensure_future(self._context.client_gone.wait())
        self._running = task
        self._link.flush()
        try:
            await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                task.cancel()
            result = await task
            self._link.raise_late()
            return result
        except asyncio.CancelledError:
            if not task.done() or _being_cancelled():
                task.cancel()
                raise
            await self._link.drain()
            self._link.raise_late()
            raise Refusal(CANCELLED, "canceling statement due to user request") from None
        except (Refusal, FacadeError, WireError):
            raise
        except RecursionError:
            raise Refusal("DP003", "the statement is nested too deeply", None, "Write it flatter.") from None
        except Exception as error:
            log.error("rewriting failed: %s", type(error).__name__)
            raise Refusal("DP006", FAILED, None, "Ask the administrator to look at the proxy's log.") from None
        finally:
            self._running = None
            gone.cancel()

    def _ours(self, text: bytes) -> str | None:
        """The statement's text if the brain should see it."""
        if self._link.pending.skipping or len(text) > MAX_PARSED:
            return None
        try:
            sql = text.decode(self._link.encoding)
        except UnicodeDecodeError:
            return None  # PostgreSQL answers 22021
        if self.io.prepared and "execute" in sql.lower():
            return sql
        return sql if self._context.rewriter().mentions(sql) else None

    def _forward_query(self, raw: bytes) -> None:
        self._send_query(raw, None)

    def closed(self, kind: int, name: bytes) -> None:
        self.statements.closed(kind, name)
        if kind == ord("S"):
            self.io.prepared.pop(name.decode(self._link.encoding, "replace"), None)

    def sync(self, raw: bytes) -> None:
        self.turn += 1
        self.unnamed.sent(ord("S"))
        self._link.send(raw, expect_sync())
        self._link.release()

    def _send_query(self, data: bytes, sink: Sink | None) -> None:
        self.turn += 1
        self.unnamed.sent(ord("Q"))
        self._link.send(data, expect_query(sink, self._query_ended))

    def _query_ended(self, ok: bool) -> None:
        self.statements.by_name.pop(b"", None)
        self.unnamed.settled(False)
        self._link.release()

    async def no_portal(self, portal: bytes) -> bool:
        """True: the facade must not be asked for this portal (portals.py)."""
        if portal or self.unnamed.sure or (self.unnamed.bound and self._link.pending.settled):
            return False
        return await self._link.drain() and not self.unnamed.bound

    def _forward_parse(self, raw: bytes, name: bytes, written: Written = AS_IT_IS) -> None:
        self._link.send(raw, expect_parse(written.sink, lambda ok: self.statements.parsed(name, None, ok)))

    def forward_bind(self, data: bytes, portal: bytes, statement: Statement | None = None) -> None:
        def settled(ok: bool) -> None:
            self.statements.bound(portal, statement, ok)
            if ok and not portal:
                self.unnamed.settled(True)

        self.unnamed.sent(ord("B"), portal)
        self._link.send(data, expect_bind(None, settled))

    def refuse_now(self, refusal: Refusal, name: bytes) -> None:
        """An error in the place of a Parse or Bind: the facade then skips to the client's own Sync."""
        text, sink = nonce_statement(refusal, lambda: self._link.encoding)
        settled = None if name.startswith(RESERVED) else (lambda ok: self.statements.parsed(name, None, ok))
        self._link.send(messages.parse(name, text), expect_parse(sink, settled))


def _being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
