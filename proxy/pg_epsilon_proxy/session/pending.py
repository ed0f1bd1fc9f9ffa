"""What the facade still owes for the messages sent to it, without I/O.

Each message that will be answered leaves an Expected. An error in the extended protocol cancels all of them up to the
next Sync; what is sent before that Sync is then skipped by the facade, and so is owed nothing (`skipping`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from pg_epsilon_proxy.wire.framing import Piece, WireError

ASYNCHRONOUS = frozenset(b"NSA")
ERROR, READY, COPY_IN, NOTICE = b"EZGN"
NOTHING = b"-"  # no message of the facade has this kind

Sink = Callable[[Piece], bytes]


@dataclass(slots=True, eq=False)
class Expected:
    """ends: kinds that complete it; allows: kinds that may come before.

    sink: sees each answer (asynchronous notices too) and returns what goes to the client; settled: told once whether
    the message succeeded, not told when the facade skipped it.
    """

    ends: bytes
    allows: bytes = b""
    sink: Sink | None = None
    settled: Callable[[bool], None] | None = None
    query: bool = False
    failed: bool = False

    @property
    def by_ready(self) -> bool:
        return self.ends == b"Z"

    @property
    def is_sync(self) -> bool:
        return self.by_ready and not self.query


def expect_query(sink: Sink | None = None, settled: Callable[[bool], None] | None = None) -> Expected:
    return Expected(b"Z", b"TDCIGHdc", sink, settled, query=True)


def expect_sync(sink: Sink | None = None) -> Expected:
    return Expected(b"Z", b"", sink)


def expect_parse(sink: Sink | None = None, settled: Callable[[bool], None] | None = None) -> Expected:
    return Expected(b"1", b"", sink, settled)


def expect_bind(sink: Sink | None = None, settled: Callable[[bool], None] | None = None) -> Expected:
    return Expected(b"2", b"", sink, settled)


def expect_describe(sink: Sink | None = None) -> Expected:
    return Expected(b"Tn", b"t", sink)


def expect_execute(sink: Sink | None = None) -> Expected:
    return Expected(b"CsI", b"DHdcG", sink)


def expect_close(sink: Sink | None = None, settled: Callable[[bool], None] | None = None) -> Expected:
    return Expected(b"3", b"", sink, settled)


def expect_error() -> Expected:
    """A message that is answered only because it is malformed."""
    return Expected(NOTHING)


class Pending:
    """The queue. `status` is the transaction status of the last ReadyForQuery (I, T or E)."""

    def __init__(self) -> None:
        self._queue: deque[Expected] = deque()
        self.skipping = False
        self.copying = False
        self.status = b"I"

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def settled(self) -> bool:
        """Nothing more will come until something is sent."""
        return not self._queue or self.skipping or self.copying

    def sent(self, expected: Expected) -> None:
        """A message that will be answered goes to the facade."""
        if self.copying:
            if expected.is_sync or expected.ends == NOTHING:
                return  # COPY FROM STDIN swallows a Sync or Flush: libpq sends a Sync right behind the Execute
            raise WireError("unexpected message during COPY from stdin")
        if self.skipping:
            if not expected.is_sync:
                return
            self.skipping = False
        self._queue.append(expected)

    def sent_copy_end(self) -> None:
        """CopyDone or CopyFail goes to the facade. Before the facade's CopyInResponse it leaves a mark in the queue."""
        if self.copying:
            self.copying = False
        elif self._queue:
            self._queue.append(Expected(b""))

    def received(self, piece: Piece) -> bytes:
        """Account for one piece from the facade; what the client gets of it."""
        kind = piece.kind
        head = self._queue[0] if self._queue else None
        if kind in ASYNCHRONOUS:
            return head.sink(piece) if kind == NOTICE and head and head.sink else piece.data
        if head is None:
            raise WireError("the facade answered out of turn")
        if kind == ERROR:
            return self._error(head, piece)
        if kind not in head.ends and kind not in head.allows:
            raise WireError("the facade answered out of turn")
        data = head.sink(piece) if head.sink else piece.data
        if kind in head.ends:
            if kind == READY:
                self.status = piece.data[5:6]
                self.copying = False
            self._pop()
            if head.settled:
                head.settled(not head.failed)
        elif kind == COPY_IN:
            self._copy_in()
        return data

    def error_out_of_turn(self) -> None:
        """An error while nothing is owed, as a timeout between messages makes it: the facade skips to the next Sync."""
        self.skipping = True

    def _error(self, head: Expected, piece: Piece) -> bytes:
        data = head.sink(piece) if head.sink else piece.data
        self.copying = False
        head.failed = True
        if head.by_ready:
            return data
        self._pop()
        while self._queue and not self._queue[0].is_sync:
            self._queue.popleft()
        self.skipping = not self._queue
        if head.settled:
            head.settled(False)
        return data

    def _copy_in(self) -> None:
        head = self._queue.popleft()
        while self._queue:
            following = self._queue[0]
            if following.ends == b"":
                self._pop()
                break
            if not following.is_sync:
                raise WireError("unexpected message during COPY from stdin")
            self._queue.popleft()
        else:
            self.copying = True
        self._queue.appendleft(head)

    def _pop(self) -> None:
        self._queue.popleft()
        while self._queue and not self._queue[0].ends:
            self._queue.popleft()
