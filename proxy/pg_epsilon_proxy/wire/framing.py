"""Bytes to protocol messages, without I/O (anchors A1). One object per direction of one connection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

HEADER = 5
STREAM_ABOVE = (
    65536  # a longer row or COPY chunk is passed on in parts, so that one value cannot fill the proxy's memory
)
SHORTEN_ABOVE = 1 << 20  # an error or notice longer than this loses its end: it is held whole while it is read
MAX_LENGTH = 0x3FFFFFFF  # PostgreSQL's own limit of one message


class WireError(Exception):
    """The peer broke the protocol: the session ends. sqlstate 08P01 unless said otherwise."""

    def __init__(self, message: str, sqlstate: str = "08P01") -> None:
        super().__init__(message)
        self.message = message
        self.sqlstate = sqlstate


class Piece(NamedTuple):
    """One whole message, header included; of a streamed kind: several, or a part of one (then whole is false)."""

    kind: int
    data: bytes
    whole: bool = True


class Framer:
    """Cuts a byte stream into messages.

    limits: greatest size in bytes of a whole message by kind; default: of every other kind, 0 refuses it.
    stream: kinds whose messages may come merged, or in parts when longer than STREAM_ABOVE; shorten: kinds made of
    fields (ErrorResponse, NoticeResponse) that are cut when longer than SHORTEN_ABOVE.
    """

    def __init__(
        self, limits: Mapping[int, int], *, default: int = 0, stream: bytes = b"", shorten: bytes = b""
    ) -> None:
        self._limits = limits
        self._default = default
        self._stream = frozenset(stream)
        self._shorten = frozenset(shorten)
        self._dropping = 0
        self._buffer = bytearray()
        self._kind = 0
        self._left = 0

    @property
    def waiting(self) -> int:
        """Bytes held back because their message is not complete."""
        return len(self._buffer)

    def feed(self, data: bytes) -> Iterator[Piece]:
        """Messages completed by these bytes. Raises WireError after those that precede the broken one."""
        buffer = self._buffer
        buffer += data
        position = self._drop(0)
        try:
            while position < len(buffer):
                piece = self._next(buffer, position)
                if piece is None:
                    return
                position = self._drop(position + len(piece.data))
                yield piece
        finally:
            del buffer[:position]

    def _next(self, buffer: bytearray, position: int) -> Piece | None:
        available = len(buffer) - position
        if self._left:
            return self._part(buffer, position, min(self._left, available))
        if available < HEADER:
            return None
        kind = buffer[position]
        size = self._size(buffer, position)
        if kind in self._shorten and size > SHORTEN_ABOVE:
            if available < SHORTEN_ABOVE:
                return None
            self._dropping = size - SHORTEN_ABOVE
            return Piece(kind, _shortened(bytes(buffer[position : position + SHORTEN_ABOVE])))
        if kind not in self._stream:
            return Piece(kind, bytes(buffer[position : position + size])) if available >= size else None
        if available >= size:
            return Piece(kind, bytes(buffer[position : self._run_end(buffer, position + size, kind)]))
        if size <= STREAM_ABOVE:
            return None
        self._kind, self._left = kind, size
        return self._part(buffer, position, available)

    def _drop(self, position: int) -> int:
        """Where the next message begins, once what is cut off the last one is skipped."""
        skipped = min(self._dropping, len(self._buffer) - position)
        self._dropping -= skipped
        return position + skipped

    def _part(self, buffer: bytearray, position: int, size: int) -> Piece:
        self._left -= size
        return Piece(self._kind, bytes(buffer[position : position + size]), False)

    def _run_end(self, buffer: bytearray, position: int, kind: int) -> int:
        end = len(buffer)
        while end - position >= HEADER and buffer[position] == kind:
            size = self._size(buffer, position)
            if position + size > end:
                break
            position += size
        return position

    def _size(self, buffer: bytearray, position: int) -> int:
        kind = buffer[position]
        length = int.from_bytes(buffer[position + 1 : position + HEADER], "big")
        limit = self._limits.get(kind, self._default)
        if kind in self._shorten:
            limit = MAX_LENGTH
        if limit == 0:
            raise WireError(f"invalid frontend message type {kind}")
        if length < 4:
            raise WireError("invalid message length")
        if length + 1 > limit:
            raise WireError("message is too long", "54000")
        return length + 1


def _shortened(head: bytes) -> bytes:
    """A message of fields from its beginning, of the same length; the last text ends early."""
    body = head[HEADER:-2].rstrip(b"\0")
    for _ in range(3):  # what UTF-8 may have of a character whose end is lost
        if body[-1:] >= b"\x80":
            body = body[:-1]
    body += b" " * (len(head) - HEADER - 2 - len(body)) + b"\0\0"
    return head[:1] + (len(body) + 4).to_bytes(4, "big") + body


def split(data: bytes) -> Iterator[bytes]:
    """The bodies of merged whole messages."""
    position = 0
    while position < len(data):
        end = position + 1 + int.from_bytes(data[position + 1 : position + HEADER], "big")
        yield data[position + HEADER : end]
        position = end
