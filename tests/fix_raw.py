"""A client that sees every byte, and readers of what it sees."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import socket
from collections.abc import Sequence

from pg_epsilon_proxy.wire import messages, scram, startup


def keys_of(password: str, verifier: str) -> scram.Keys:
    known = scram.read_verifier(verifier)
    assert known is not None
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), known.salt, known.iterations)
    client = hmac.digest(salted, b"Client Key", "sha256")
    return scram.Keys(client, hashlib.sha256(client).digest(), hmac.digest(salted, b"Server Key", "sha256"))


class RawClient:
    """Sends and receives whole messages, over the proxy or directly, so that the two can be compared."""

    def __init__(self, port: int, keys: scram.Keys, **parameters: str) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        self.buffer = b""
        self.socket.sendall(startup.startup_packet({"user": "alice", "database": "facade", **parameters}))
        client = scram.ScramClient(keys)
        assert self.receive()[:9] == b"R" + self.last[1:5] + (10).to_bytes(4, "big")
        first = client.first()
        body = b"SCRAM-SHA-256\0" + len(first).to_bytes(4, "big") + first
        self.socket.sendall(messages.message(b"p", body))
        self.socket.sendall(messages.message(b"p", client.final(self.receive()[9:])))
        client.check(self.receive()[9:])
        self.until(b"Z")

    last = b""

    def receive(self) -> bytes:
        """One message; empty at the end of the stream."""
        while len(self.buffer) < 5 or len(self.buffer) < 1 + int.from_bytes(self.buffer[1:5], "big"):
            data = self.socket.recv(65536)
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
    with socket.create_connection(("127.0.0.1", port), timeout=10) as s:
        s.sendall(data)
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            while part := s.recv(65536):
                answer += part
        return answer


def error_code(answer: bytes) -> str:
    start = answer.index(b"ESFATAL\0"[:1], 0) if answer[:1] == b"E" else answer.index(b"SFATAL\0") - 5
    fields = messages.read_fields(answer[start:])
    assert fields["S"] == b"FATAL"
    return fields["C"].decode()
