"""The metrics' own port: GET /metrics for Prometheus, GET /healthz for a probe. Nothing else is understood."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from pg_epsilon_proxy.config import Metrics as Settings
from pg_epsilon_proxy.logs import event
from pg_epsilon_proxy.metrics import Snapshot, exposition

log = logging.getLogger("pg_epsilon_proxy.metrics")

SECONDS = 10.0
MAX_HEAD = 8192
MAX_CLIENTS = 16
TEXT = "text/plain; version=0.0.4; charset=utf-8"


class Exporter:
    """collect: the numbers of all processes, merged."""

    def __init__(self, settings: Settings, collect: Callable[[], Awaitable[Snapshot]]) -> None:
        self._settings = settings
        self._collect = collect
        self._server: asyncio.Server | None = None
        self._clients = 0

    @property
    def port(self) -> int:
        return int(self._server.sockets[0].getsockname()[1]) if self._server else 0

    async def start(self) -> None:
        """Raises OSError if the address cannot be bound."""
        host, port = self._settings.host, self._settings.port
        self._server = await asyncio.start_server(self._client, host, port, limit=MAX_HEAD)
        event(log, logging.INFO, "metrics", host=host, port=self.port)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._clients += 1
        try:
            if self._clients <= MAX_CLIENTS:
                async with asyncio.timeout(SECONDS):
                    head = await reader.readuntil(b"\r\n\r\n")
                    status, body = await self._answer(head.partition(b"\r\n")[0])
                    writer.write(_response(status, body))
                    await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            self._clients -= 1
            writer.close()

    async def _answer(self, request: bytes) -> tuple[str, str]:
        method, _, rest = request.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if method != b"GET":
            return "405 Method Not Allowed", "GET only\n"
        if path not in (b"/metrics", b"/healthz"):
            return "404 Not Found", "/metrics\n"
        snapshot = await self._collect()
        if path == b"/metrics":
            return "200 OK", exposition(snapshot)
        serving = any(value for _, value in snapshot.get("pg_epsilon_serving", ()))
        return ("200 OK", "serving\n") if serving else ("503 Service Unavailable", "serving nobody\n")


def _response(status: str, body: str) -> bytes:
    data = body.encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: {TEXT}\r\nContent-Length: {len(data)}\r\nConnection: close\r\n\r\n"
    return head.encode() + data
