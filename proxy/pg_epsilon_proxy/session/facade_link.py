"""The facade side of one session: its socket, what it owes, and probes in the client's own session (§6).

A probe uses reserved names `_pge_*`, never the unnamed statement or portal, and no Sync: it runs in the client's
transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from pg_epsilon_proxy.session.pending import (
    Expected,
    Pending,
    expect_bind,
    expect_close,
    expect_describe,
    expect_execute,
    expect_parse,
    expect_sync,
)
from pg_epsilon_proxy.session.rewriting import BoundParams, Described, FacadeError, Field, Probe, Refusal
from pg_epsilon_proxy.session.undefined import UndefinedValues
from pg_epsilon_proxy.wire import messages
from pg_epsilon_proxy.wire.framing import HEADER, MAX_LENGTH, STREAM_ABOVE, Framer, Piece, split

RESERVED = b"_pge_"
MAX_ANSWER = 1 << 20  # bytes of one message of the facade other than a row, a notice, an error
MAX_OWED = 5_000  # answers: beyond it nothing more is read from the client until the facade has caught up
WRITE_THROUGH = 1 << 16  # bytes: longer ones are not gathered
MAX_PROBE_ROWS = 16 << 20  # bytes of rows that a probe may return: settings, names, bound values
ERROR, NOTICE, ROW, COMMAND = b"ENDC"


def _too_long() -> Refusal:
    """A probe hands back what the client sent (parameters, names): the rest of its answer is let pass unread."""
    hint = "Values in a question about protected data are at most 64 kB long."
    return Refusal("DP003", "a parameter is too long for a query over protected data", hint=hint)


class Collector:
    """Gathers a probe's answers; the client sees none of them."""

    def __init__(self, link: FacadeLink) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.param_oids: tuple[int, ...] = ()
        self.fields: list[messages.FieldDescription] | None = None
        self.rows: list[list[bytes | None]] = []
        self._size = 0
        self._link = link

    def sink(self, piece: Piece) -> bytes:
        if piece.kind == ERROR:
            self._fail(piece.data)
        elif piece.kind == ord("t"):
            self.param_oids = messages.read_parameter_description(piece.data)
        elif piece.kind == ord("T"):
            self.fields = messages.read_row_description(piece.data)
        elif piece.kind == ROW:
            self._size += len(piece.data)
            found = list(split(piece.data)) if piece.whole and self._size <= MAX_PROBE_ROWS else []
            # A row that came whole although it is long might have come in parts: whoever asks twice is told the same.
            if found and max(map(len, found)) <= STREAM_ABOVE - HEADER:
                self.rows.extend(messages.read_data_row(body) for body in found)
            elif not self.done.done():
                self.done.set_exception(_too_long())
        return b""

    def finish(self, ok: bool) -> None:
        if ok and not self.done.done():
            self.done.set_result(None)

    def _fail(self, raw: bytes) -> None:
        self._link.last_error = raw
        if self.done.done():
            self._link.late = raw  # nobody waits for this probe any more, but the client must see the error
        else:
            self.done.set_exception(self._link.error(raw))


class FacadeLink:
    """Sends to the facade and reads from it. `late` is an error that arrived while nobody was waiting for an answer."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, statuses: dict[str, str]) -> None:
        self.reader = reader
        self.writer = writer
        self.pending = Pending()
        self.statuses = statuses
        self.framer = Framer(dict.fromkeys(b"Dd", MAX_LENGTH), default=MAX_ANSWER, stream=b"Dd", shorten=b"EN")
        self.late: bytes | None = None
        self.last_error: bytes = b""
        self.undefined = UndefinedValues()
        self.probed = False
        self.said_goodbye = False
        self._timer = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._caught_up = asyncio.Event()
        self._unsent: list[bytes] = []
        self._count = 0
        self._stale: set[bytes] = set()
        self._held: set[bytes] = set()

    @property
    def encoding(self) -> str:
        """Python's codec for the session's texts. Other encodings travel as Latin-1: byte for byte."""
        return "utf-8" if self.statuses.get("client_encoding", "UTF8") == "UTF8" else "latin-1"

    def error(self, raw: bytes) -> FacadeError:
        fields = messages.read_fields(raw)
        return FacadeError(raw, {letter: text.decode(self.encoding, "replace") for letter, text in fields.items()})

    def send(self, data: bytes, expected: Expected | None = None) -> None:
        if expected is not None:
            self.pending.sent(expected)
            if not self.pending.settled:
                self._idle.clear()
        self._unsent.append(data)
        if len(data) > WRITE_THROUGH:
            self.flush()

    def flush(self) -> None:
        """Hand what was sent to the network: one system call for many messages. Call before waiting for anything."""
        if self._unsent:
            self.writer.write(b"".join(self._unsent))
            self._unsent.clear()

    def send_copy_end(self, data: bytes) -> None:
        self.pending.sent_copy_end()
        self._unsent.append(data)
        self.progressed()

    def progressed(self) -> None:
        """Call after answers were taken in."""
        if self.pending.settled:
            self._idle.set()
        else:
            self._idle.clear()
        if not self._crowded():
            self._caught_up.set()

    def _crowded(self) -> bool:
        return len(self.pending) > MAX_OWED and not self.pending.settled

    async def room(self) -> None:
        """Wait until the facade has taken what was sent, and has answered most of it."""
        self.flush()
        await self.writer.drain()
        while self._crowded():
            # It may hold answers back until it is told to flush.
            self._caught_up.clear()
            self.writer.write(messages.FLUSH)
            await self._caught_up.wait()

    async def drain(self) -> bool:
        """Wait until every earlier message is answered. False: the facade skips to Sync, or copies: no probe now."""
        if not self.pending.settled:
            self._unsent.append(messages.FLUSH)
            self.flush()
            await self.writer.drain()
            await self._idle.wait()
        return not (self.pending.skipping or self.pending.copying)

    def reserved_name(self) -> bytes:
        self._count += 1
        return RESERVED + str(self._count).encode()

    async def describe(self, sql: str, param_oids: Sequence[int] = ()) -> Described:
        self._begin()
        collector = self._send_probe(Probe(sql, None, param_oids))
        await self._wait(collector)
        return self._described(collector)

    async def fetch(
        self, sql: str, params: BoundParams | Sequence[str | None] = (), param_oids: Sequence[int] = ()
    ) -> list[list[str | None]]:
        self._begin()
        collector = self._send_probe(Probe(sql, params, param_oids))
        await self._wait(collector)
        self._timer = False
        return self._rows(collector)

    async def together(self, probes: Sequence[Probe]) -> list[Any]:
        """SessionIO.together. An error in a text that the client has never seen has no place, as that of a fetch."""
        self._begin()
        collectors = [self._send_probe(probe) for probe in probes]
        answers: list[Any] = []
        try:
            await self._flushed()
            for probe, collector in zip(probes, collectors, strict=True):
                try:
                    await collector.done
                except FacadeError as error:
                    raise (error if probe.params is None else error.placed(None)) from None
                answers.append(self._described(collector) if probe.params is None else self._rows(collector))
        except BaseException as failure:
            told = isinstance(failure, FacadeError | Refusal)
            for collector in collectors[len(answers) + told :]:
                self._abandon(collector)
            raise
        self._timer = probes[-1].params is None
        return answers

    def _abandon(self, collector: Collector) -> None:
        """Nobody will wait for its answer; an error that it has met, or will meet, must still reach the client."""
        done = collector.done
        if done.done() and not done.cancelled() and isinstance(done.exception(), FacadeError):
            self.late = self.last_error
        done.cancel()

    def _send_probe(self, probe: Probe) -> Collector:
        collector, name = Collector(self), self.reserved_name()
        sink, params = collector.sink, probe.params
        self._probe_parse(name, probe.sql, probe.param_oids, collector)
        if params is None:
            self.send(messages.describe(b"S", name), expect_describe(sink))
            self._timer = True
        else:
            if not isinstance(params, BoundParams):
                params = BoundParams((), tuple(None if p is None else p.encode(self.encoding) for p in params))
            self.send(messages.bind(name, name, params.formats, params.values), expect_bind(sink))
            self.send(messages.execute(name), expect_execute(sink))
            self.send(messages.close(b"P", name), expect_close(sink))
        self._send_close(collector, name)
        return collector

    def _described(self, collector: Collector) -> Described:
        return Described(collector.param_oids, None if collector.fields is None else self._fields(collector.fields))

    def _rows(self, collector: Collector) -> list[list[str | None]]:
        return [[None if v is None else v.decode(self.encoding) for v in row] for row in collector.rows]

    async def check_portal_name(self, portal: bytes) -> None:
        """Raises PostgreSQL's own error if a cursor of that name is open: it must precede the charge."""
        self._begin()
        collector, name = Collector(self), self.reserved_name()
        self._probe_parse(name, "select", (), collector)
        self.send(messages.bind(portal, name), expect_bind(collector.sink))
        self.send(messages.close(b"P", portal), expect_close(collector.sink))
        self._timer = True
        self._send_close(collector, name)
        await self._wait(collector)

    async def hold(self, sql: str, param_oids: Sequence[int], beside: bytes | None = None) -> bytes:
        """Prepare `sql` under a reserved name until `release`. beside: a statement of the client's that is looked at
        too, which locks what it reads: its types stay what they are until the transaction ends. A fetch must follow
        (see stop_timer)."""
        self._begin()
        collector, name = Collector(self), self.reserved_name()
        self._held.add(name)
        parsed = expect_parse(collector.sink, None if beside is not None else collector.finish)
        self.send(messages.parse(name, sql.encode(self.encoding), param_oids), parsed)
        if beside is not None:
            described = expect_describe(collector.sink)
            described.settled = collector.finish
            self.send(messages.describe(b"S", beside), described)
        await self._wait(collector)
        return name

    def release(self, *, at_once: bool = True) -> None:
        """Close what is held, which no list of prepared statements shall show; what runs or is bound goes on."""
        if not self._held:
            return
        for name in self._held:
            self._stale.add(name)  # until it is answered: the facade may be skipping to Sync
            self._close_unseen(name)
        self._held.clear()
        if at_once:
            self._unsent.append(messages.FLUSH)
            self.flush()

    def _close_unseen(self, name: bytes) -> None:
        def settled(ok: bool) -> None:
            if ok:
                self._stale.discard(name)

        self.send(messages.close(b"S", name), expect_close(_errors_only, settled))

    async def check_statement(self, statement: bytes) -> tuple[int, ...]:
        """Parameter OIDs of the client's own prepared statement, or PostgreSQL's error that it does not exist."""
        self._begin()
        collector = Collector(self)
        described = expect_describe(collector.sink)
        described.settled = collector.finish
        self.send(messages.describe(b"S", statement), described)
        self._timer = True
        await self._wait(collector)
        return collector.param_oids

    async def stop_timer(self) -> None:
        """statement_timeout runs on from a Parse until the next Execute ends, also between messages: the wait for the
        private side must not use up the time of the statement that follows. So the last probe is an Execute."""
        if self._timer:
            await self.fetch("select")

    def end_transaction(self) -> None:
        """The one that probes opened; the client does not see this ReadyForQuery."""
        self.send(messages.SYNC, expect_sync(lambda piece: b""))
        self._timer = False

    async def sync_unseen(self) -> None:
        self.end_transaction()
        await self.drain()

    def raise_late(self) -> None:
        """The error that came while nobody waited, if there is one."""
        if self.late is not None:
            raw, self.late = self.late, None
            raise self.error(raw)

    def take_in(self, piece: Piece, *, operating: bool) -> bytes:
        """Account for one piece; what the client gets. operating: the session is in the middle of probes of its own."""
        kind = piece.kind
        if self.undefined.counts(piece):
            return b""
        if kind == ERROR and not len(self.pending):
            if self._goodbye(piece.data):
                return piece.data
            self.pending.error_out_of_turn()
            if operating:
                self.late = piece.data
                return b""
            return piece.data
        if kind == ord("S"):
            name, value = messages.read_parameter_status(piece.data)
            self.statuses[name.decode("latin-1")] = value.decode("latin-1")
        elif kind == ord("Z"):
            self.probed = False
        elif kind == ERROR and self._goodbye(piece.data):
            return piece.data
        said = self.undefined.told(piece)
        received = self.pending.received(piece)
        return received if said is None else messages.report(b"N", "NOTICE", "00000", said) + received

    def _goodbye(self, raw: bytes) -> bool:
        self.said_goodbye = self.said_goodbye or _is_fatal(raw)
        return self.said_goodbye

    def _begin(self) -> None:
        self.raise_late()
        self.probed = True
        for name in self._stale:
            self.send(messages.close(b"S", name), expect_close(lambda piece: b""))
        self._stale.clear()

    def _probe_parse(self, name: bytes, sql: str, param_oids: Sequence[int], collector: Collector) -> None:
        # Closed by the next probe if this one fails after its Parse; unknown names may be closed too.
        self._stale.add(name)
        text = sql.encode(self.encoding)
        self.send(messages.parse(name, text, param_oids), expect_parse(collector.sink))

    def _send_close(self, collector: Collector, name: bytes) -> None:
        def settled(ok: bool) -> None:
            if ok:
                self._stale.discard(name)
            collector.finish(ok)

        self.send(messages.close(b"S", name), expect_close(collector.sink, settled))

    async def _wait(self, collector: Collector) -> None:
        await self._flushed()
        await collector.done

    async def _flushed(self) -> None:
        self._unsent.append(messages.FLUSH)
        self.flush()
        await self.writer.drain()

    def _fields(self, fields: Sequence[messages.FieldDescription]) -> tuple[Field, ...]:
        return tuple(
            Field(f.name.decode(self.encoding), f.table_oid, f.attnum, f.type_oid, f.typlen, f.typmod, f.format)
            for f in fields
        )


def _is_fatal(raw: bytes) -> bool:
    return messages.read_fields(raw).get("V", b"") in (b"FATAL", b"PANIC")


def _errors_only(piece: Piece) -> bytes:
    return piece.data if piece.kind in b"EN" else b""
