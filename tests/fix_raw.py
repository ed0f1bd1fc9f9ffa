"""A client that sees every byte, and readers of what it sees."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import socket
from collections.abc import Sequence

from fix_waiting import PATIENCE, until_closed
from pg_epsilon_proxy.wire import messages, scram, startup


def keys_of(password: str, verifier: str) -> scram.Keys:
    known = scram.read_verifier(verifier)
    assert known is not None
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), known.salt, known.iterations)
    client = hmac.digest(salted, b"Client Key", "sha256")
    return scram.Keys(client, hashlib.sha256(client).digest(), hmac.digest(salted, b"Server Key", "sha256"))


class Refused(Exception):
    """The login; fields of the error, none if the connection was just closed."""

    def __init__(self, fields: dict[str, bytes]) -> None:
        super().__init__(fields)
        self.code = fields.get("C", b"").decode()
        self.text = fields.get("M", b"").decode()


def packet(parameters: dict[str, str], minor: int = 0) -> bytes:
    raw = startup.startup_packet(parameters)
    return raw[:4] + (3 << 16 | minor).to_bytes(4, "big") + raw[8:]


def sasl_first(data: bytes, mechanism: bytes = b"SCRAM-SHA-256") -> bytes:
    return messages.message(b"p", mechanism + b"\0" + len(data).to_bytes(4, "big") + data)


class RawClient:
    """Sends and receives whole messages, over the proxy or directly, so that the two can be compared."""

    def __init__(
        self, port: int, keys: scram.Keys, *, minor: int = 0, source: str = "127.0.0.1", **parameters: str
    ) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE, source_address=(source, 0))
        self.buffer = b""
        try:
            self._log_in(keys, packet({"user": "alice", "database": "facade", **parameters}, minor))
        except BaseException:
            self.socket.close()
            raise

    def _log_in(self, keys: scram.Keys, first_packet: bytes) -> None:
        """greeting: what the server said from the proof on. Raises Refused."""
        self.socket.sendall(first_packet)
        client = scram.ScramClient(keys)
        self.negotiated = self._expect(b"v", b"R")
        if self.negotiated[:1] == b"v":
            self._expect(b"R")
        self.offered = self.last[9:]
        self.socket.sendall(sasl_first(client.first()))
        self.socket.sendall(messages.message(b"p", client.final(self._expect(b"R")[9:])))
        client.check(self._expect(b"R")[9:])
        self.greeting = self.until(b"ZE")
        if self.last[:1] == b"E":
            raise Refused(messages.read_fields(self.last))

    def _expect(self, *kinds: bytes) -> bytes:
        if self.receive()[:1] not in kinds:
            raise Refused(messages.read_fields(self.last) if self.last[:1] == b"E" else {})
        return self.last

    last = b""
    negotiated = b""
    offered = b""

    @property
    def key(self) -> tuple[int, bytes]:
        """pid and cancel key."""
        raw = next(raw for raw in self.greeting if raw[:1] == b"K")
        return int.from_bytes(raw[5:9], "big"), raw[9:]

    def receive(self) -> bytes:
        """One message; empty at the end of the stream, which is a reset if bytes of ours were not read."""
        while len(self.buffer) < 5 or len(self.buffer) < 1 + int.from_bytes(self.buffer[1:5], "big"):
            try:
                data = self.socket.recv(65536)
            except ConnectionError:
                data = b""
            if not data:
                return b""
            self.buffer += data
        size = 1 + int.from_bytes(self.buffer[1:5], "big")
        self.last, self.buffer = self.buffer[:size], self.buffer[size:]
        return self.last

    def send(self, *parts: bytes) -> None:
        self.socket.sendall(b"".join(parts))

    def until(self, kinds: bytes, count: int = 1) -> list[bytes]:
        found: list[bytes] = []
        while count:
            found.append(self.receive())
            if not found[-1]:
                return found
            count -= found[-1][:1] in (kinds[i : i + 1] for i in range(len(kinds)))
        return found

    def close(self) -> None:
        self.socket.close()


def shape(found: Sequence[bytes]) -> list[str]:
    """Kinds of messages, with the transaction status of each ReadyForQuery; asynchronous ones left out."""
    return [
        raw[:1].decode() + (raw[5:6].decode() if raw[:1] == b"Z" else "")
        for raw in found
        if raw[:1] not in (b"S", b"N")
    ]


def split_messages(data: bytes) -> list[bytes]:
    parts = []
    while data:
        size = 1 + int.from_bytes(data[1:5], "big")
        parts.append(data[:size])
        data = data[size:]
    return parts


def talk(port: int, data: bytes) -> bytes:
    """Everything that the proxy says to these bytes until it closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as s:
        with contextlib.suppress(ConnectionError):  # it may have heard enough before we have said all
            s.sendall(data)
        return until_closed(s)


def error_code(answer: bytes) -> str:
    start = answer.index(b"ESFATAL\0"[:1], 0) if answer[:1] == b"E" else answer.index(b"SFATAL\0") - 5
    fields = messages.read_fields(answer[start:])
    assert fields["S"] == b"FATAL"
    return fields["C"].decode()
