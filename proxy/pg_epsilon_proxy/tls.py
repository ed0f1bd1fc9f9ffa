"""TLS on an accepted socket, by peeking, never by upgrading a stream: nothing in clear is read as encrypted.

(The class of CVE-2021-23214: a man in the middle puts bytes into the clear-text buffer before the handshake.)
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path

from pg_epsilon_proxy.wire import end_point
from pg_epsilon_proxy.wire.framing import WireError
from pg_epsilon_proxy.wire.startup import GSS_CODE, SSL_CODE, packet_code, packet_length

ALPN = "postgresql"
TLS_HANDSHAKE = b"\x16"
BUFFER = 1 << 18


class ClientProtocol(asyncio.StreamReaderProtocol):
    """Knows when the client has hung up, even while nobody reads."""

    def __init__(self, reader: asyncio.StreamReader, gone: asyncio.Event) -> None:
        super().__init__(reader)
        self._gone = gone

    def eof_received(self) -> bool | None:
        self._gone.set()
        return super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone.set()
        super().connection_lost(exc)


class ServerContext(ssl.SSLContext):
    """end_point: what SCRAM-SHA-256-PLUS binds to; it travels with the certificate that a session was opened with."""

    end_point: bytes | None = None


@dataclass(slots=True)
class ClientStream:
    """end_point: of the certificate that this client was shown; None: not over TLS, or the certificate has none."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    gone: asyncio.Event
    tls: bool
    end_point: bytes | None = None


def server_context(cert: str, key: str) -> ServerContext:
    context = ServerContext(ssl.PROTOCOL_TLS_SERVER)
    context.end_point = end_point.of_pem(Path(cert).read_bytes())
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.load_cert_chain(cert, key)
    context.set_alpn_protocols([ALPN])
    return context


async def open_client(sock: socket.socket, context: ssl.SSLContext | None) -> tuple[ClientStream, bytes] | None:
    """The client's stream, and its first packet but requests for encryption. None: nobody to talk to.

    The socket must not block. Raises WireError before a stream exists; ConnectionError, ssl.SSLError from the network.
    """
    first = await _peek(sock)
    if not first:
        return None
    if first == TLS_HANDSHAKE:
        return await _direct_tls(sock, context)
    asked: set[int] = set()
    loop = asyncio.get_running_loop()
    while True:
        head = await _exactly(sock, 8)
        length, code = packet_length(head), packet_code(head)
        if code not in (SSL_CODE, GSS_CODE):
            packet = head + await _exactly(sock, length - len(head))
            return await _stream(sock, None), packet
        if length != len(head) or code in asked:
            raise WireError("invalid startup packet: encryption was negotiated already")
        asked.add(code)
        if code == SSL_CODE and context is not None:
            await loop.sock_sendall(sock, b"S")
            stream = await _stream(sock, context)
            return stream, await read_packet(stream.reader)
        await loop.sock_sendall(sock, b"N")


async def _direct_tls(sock: socket.socket, context: ssl.SSLContext | None) -> tuple[ClientStream, bytes] | None:
    """Without a request first. ALPN must name PostgreSQL, else another protocol's client could be led to talk to us."""
    if context is None:
        return None
    stream = await _stream(sock, context)
    if stream.writer.get_extra_info("ssl_object").selected_alpn_protocol() != ALPN:
        stream.writer.transport.abort()
        return None
    return stream, await read_packet(stream.reader)


async def read_packet(reader: asyncio.StreamReader) -> bytes:
    """One start-up packet."""
    head = await reader.readexactly(8)
    return head + await reader.readexactly(packet_length(head) - len(head))


async def _stream(sock: socket.socket, context: ssl.SSLContext | None) -> ClientStream:
    loop = asyncio.get_running_loop()
    gone = asyncio.Event()
    reader = asyncio.StreamReader(limit=BUFFER)
    protocol = ClientProtocol(reader, gone)
    transport, _ = await loop.connect_accepted_socket(lambda: protocol, sock, ssl=context)
    writer = asyncio.StreamWriter(transport, protocol, reader, loop)
    return ClientStream(reader, writer, gone, context is not None, getattr(context, "end_point", None))


async def _peek(sock: socket.socket) -> bytes:
    loop = asyncio.get_running_loop()
    while True:
        try:
            return sock.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            readable: asyncio.Future[None] = loop.create_future()
            loop.add_reader(sock, lambda f=readable: f.done() or f.set_result(None))  # type: ignore[misc]
            try:
                await readable
            finally:
                loop.remove_reader(sock)


async def _exactly(sock: socket.socket, size: int) -> bytes:
    """Exactly so many bytes: what follows a request may belong to the TLS handshake."""
    loop = asyncio.get_running_loop()
    data = b""
    while len(data) < size:
        part = await loop.sock_recv(sock, size - len(data))
        if not part:
            raise ConnectionResetError
        data += part
    return data
