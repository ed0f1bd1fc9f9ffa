"""Protocol 3 messages: bodies to values and back, without I/O. Names and texts stay bytes, in the client's encoding."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pg_epsilon_proxy.wire.framing import WireError

FIELD = struct.Struct("!IhIhih")


def message(kind: bytes, body: bytes = b"") -> bytes:
    return kind + (len(body) + 4).to_bytes(4, "big") + body


class Cursor:
    """Reads a body front to back. Any overrun or rest is a WireError: PostgreSQL refuses such a message too."""

    def __init__(self, data: bytes, position: int = 0) -> None:
        self.data = data
        self.position = position

    def take(self, size: int) -> bytes:
        end = self.position + size
        if size < 0 or end > len(self.data):
            raise WireError("insufficient data left in message")
        part = self.data[self.position : end]
        self.position = end
        return part

    def string(self) -> bytes:
        end = self.data.find(b"\0", self.position)
        if end < 0:
            raise WireError("invalid string in message")
        part = self.data[self.position : end]
        self.position = end + 1
        return part

    def int16(self) -> int:
        return int.from_bytes(self.take(2), "big", signed=True)

    def uint16(self) -> int:
        return int.from_bytes(self.take(2), "big")

    def int32(self) -> int:
        return int.from_bytes(self.take(4), "big", signed=True)

    def uint32(self) -> int:
        return int.from_bytes(self.take(4), "big")

    def end(self) -> None:
        if self.position != len(self.data):
            raise WireError("invalid message format")


@dataclass(frozen=True, slots=True)
class ParseMessage:
    name: bytes
    query: bytes
    param_oids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BindMessage:
    portal: bytes
    statement: bytes
    formats: tuple[int, ...]
    values: tuple[bytes | None, ...]
    result_formats: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FieldDescription:
    name: bytes
    table_oid: int
    attnum: int
    type_oid: int
    typlen: int
    typmod: int
    format: int


def read_query(raw: bytes) -> bytes:
    cursor = Cursor(raw, 5)
    text = cursor.string()
    cursor.end()
    return text


def read_parse(raw: bytes) -> ParseMessage:
    cursor = Cursor(raw, 5)
    name, query = cursor.string(), cursor.string()
    oids = tuple(cursor.uint32() for _ in range(cursor.uint16()))
    cursor.end()
    return ParseMessage(name, query, oids)


def read_bind_names(raw: bytes) -> tuple[bytes, bytes]:
    """Portal and statement name of a Bind."""
    cursor = Cursor(raw, 5)
    return cursor.string(), cursor.string()


def read_bind(raw: bytes) -> BindMessage:
    cursor = Cursor(raw, 5)
    portal, statement = cursor.string(), cursor.string()
    formats = tuple(cursor.int16() for _ in range(cursor.uint16()))
    values = tuple(_value(cursor) for _ in range(cursor.uint16()))
    results = tuple(cursor.int16() for _ in range(cursor.uint16()))
    cursor.end()
    return BindMessage(portal, statement, formats, values, results)


def _value(cursor: Cursor) -> bytes | None:
    size = cursor.int32()
    return None if size == -1 else cursor.take(size)


def read_target(raw: bytes) -> tuple[int, bytes]:
    """Kind (S or P) and name of a Describe or Close."""
    cursor = Cursor(raw, 5)
    kind, name = cursor.take(1)[0], cursor.string()
    cursor.end()
    return kind, name


def read_data_row(body: bytes) -> list[bytes | None]:
    cursor = Cursor(body)
    return [_value(cursor) for _ in range(cursor.uint16())]


def read_parameter_description(raw: bytes) -> tuple[int, ...]:
    cursor = Cursor(raw, 5)
    oids = tuple(cursor.uint32() for _ in range(cursor.uint16()))
    cursor.end()
    return oids


def read_row_description(raw: bytes) -> list[FieldDescription]:
    cursor = Cursor(raw, 5)
    fields = []
    for _ in range(cursor.uint16()):
        name = cursor.string()
        fields.append(FieldDescription(name, *FIELD.unpack(cursor.take(FIELD.size))))
    cursor.end()
    return fields


def read_fields(raw: bytes) -> dict[str, bytes]:
    """Fields of an ErrorResponse or NoticeResponse by letter."""
    cursor = Cursor(raw, 5)
    fields: dict[str, bytes] = {}
    while (letter := cursor.take(1)) != b"\0":
        fields[letter.decode("latin-1")] = cursor.string()
    return fields


def read_parameter_status(raw: bytes) -> tuple[bytes, bytes]:
    cursor = Cursor(raw, 5)
    return cursor.string(), cursor.string()


def query(text: bytes) -> bytes:
    return message(b"Q", text + b"\0")


def parse(name: bytes, text: bytes, param_oids: Sequence[int] = ()) -> bytes:
    body = name + b"\0" + text + b"\0" + struct.pack(f"!H{len(param_oids)}I", len(param_oids), *param_oids)
    return message(b"P", body)


def bind(
    portal: bytes,
    statement: bytes,
    formats: Sequence[int] = (),
    values: Sequence[bytes | None] = (),
    result_formats: Sequence[int] = (),
) -> bytes:
    parts = [portal, b"\0", statement, b"\0", struct.pack(f"!H{len(formats)}h", len(formats), *formats)]
    parts.append(struct.pack("!H", len(values)))
    for value in values:
        parts.append(b"\xff\xff\xff\xff" if value is None else len(value).to_bytes(4, "big") + value)
    parts.append(struct.pack(f"!H{len(result_formats)}h", len(result_formats), *result_formats))
    return message(b"B", b"".join(parts))


def describe(kind: bytes, name: bytes) -> bytes:
    return message(b"D", kind + name + b"\0")


def close(kind: bytes, name: bytes) -> bytes:
    return message(b"C", kind + name + b"\0")


def execute(portal: bytes, max_rows: int = 0) -> bytes:
    return message(b"E", portal + b"\0" + max_rows.to_bytes(4, "big"))


FLUSH = message(b"H")
SYNC = message(b"S")
TERMINATE = message(b"X")


def parameter_description(oids: Sequence[int]) -> bytes:
    return message(b"t", struct.pack(f"!H{len(oids)}I", len(oids), *oids))


def row_description(fields: Iterable[FieldDescription]) -> bytes:
    parts = [
        f.name + b"\0" + FIELD.pack(f.table_oid, f.attnum, f.type_oid, f.typlen, f.typmod, f.format) for f in fields
    ]
    return message(b"T", len(parts).to_bytes(2, "big") + b"".join(parts))


def data_row(values: Sequence[bytes | None]) -> bytes:
    parts = [len(values).to_bytes(2, "big")]
    for value in values:
        parts.append(b"\xff\xff\xff\xff" if value is None else len(value).to_bytes(4, "big") + value)
    return message(b"D", b"".join(parts))


def fields_message(kind: bytes, fields: Mapping[str, bytes]) -> bytes:
    """ErrorResponse (E) or NoticeResponse (N). NUL bytes are dropped: they would end a field and start another."""
    body = b"".join(letter.encode() + text.replace(b"\0", b"") + b"\0" for letter, text in fields.items())
    return message(kind, body + b"\0")


def report(
    kind: bytes,
    severity: str,
    sqlstate: str,
    text: str,
    detail: str | None = None,
    hint: str | None = None,
    position: int | None = None,
    *,
    encoding: str = "utf-8",
) -> bytes:
    """An error or notice of ours, in the client's encoding. position: one-based, in characters of the statement."""
    fields = {"S": severity, "V": severity, "C": sqlstate, "M": text}
    place = None if position is None else str(position)
    fields |= {letter: value for letter, value in (("D", detail), ("H", hint), ("P", place)) if value}
    return fields_message(kind, {letter: value.encode(encoding, "replace") for letter, value in fields.items()})


def parameter_status(name: str, value: str) -> bytes:
    return message(b"S", name.encode() + b"\0" + value.encode() + b"\0")


def backend_key_data(pid: int, key: bytes) -> bytes:
    return message(b"K", pid.to_bytes(4, "big") + key)


def ready(status: bytes) -> bytes:
    return message(b"Z", status)


def authentication(code: int, data: bytes = b"") -> bytes:
    return message(b"R", code.to_bytes(4, "big") + data)
