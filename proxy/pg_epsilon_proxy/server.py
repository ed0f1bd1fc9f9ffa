"""Listens, logs clients in, runs their sessions (facade-and-channel.md §3, §6)."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import os
import secrets
import socket
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

from pg_epsilon_proxy.config import Config
from pg_epsilon_proxy.policy import FacadeSource, Policy, Source
from pg_epsilon_proxy.session.cancel import CancelRegistry, Ticket
from pg_epsilon_proxy.session.connection import Session
from pg_epsilon_proxy.session.login import LoggedIn, LoginRefused, cancel_on_facade, fatal, log_in
from pg_epsilon_proxy.session.operations import SessionContext
from pg_epsilon_proxy.session.parser_thread import ParserThreads
from pg_epsilon_proxy.session.rewriting import AnalystUpstream
from pg_epsilon_proxy.tls import ClientStream, open_client, server_context
from pg_epsilon_proxy.upstream import UpstreamPool
from pg_epsilon_proxy.wire import messages
from pg_epsilon_proxy.wire.framing import WireError
from pg_epsilon_proxy.wire.startup import CANCEL_CODE, packet_code, read_cancel

log = logging.getLogger("pg_epsilon_proxy.server")

BACKLOG = 128
GOODBYE_SECONDS = 2.0


class Directory:
    """Who may log in, and the private database on his behalf. UpstreamPool, or a test's own."""

    def __init__(
        self, verifier: Callable[[str], Awaitable[str | None]], as_analyst: Callable[[str], AnalystUpstream]
    ) -> None:
        self.verifier = verifier
        self.as_analyst = as_analyst

    @classmethod
    def of(cls, pool: UpstreamPool) -> Directory:
        return cls(pool.verifier, pool.as_analyst)


class ProxyServer:
    """start() binds and begins to serve once the policy is read; close() ends every session."""

    def __init__(self, config: Config, directory: Directory, source: Source) -> None:
        self._config = config
        self._directory = directory
        self.policy = Policy(source, self._end_sessions)
        self._cancels = CancelRegistry()
        self._parsers = ParserThreads(config.limits.parser_threads)
        self._tls = _tls(config)
        self._mock_secret = _mock_secret(config)
        self._sockets: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._sessions: dict[asyncio.Task[None], ClientStream] = {}

    @property
    def port(self) -> int:
        return int(self._sockets[0].getsockname()[1])

    @property
    def sessions(self) -> int:
        return len(self._sessions)

    async def start(self) -> None:
        """Raises OSError if an address cannot be bound."""
        await self.policy.refresh()
        self._bind()
        self._spawn(self.policy.keep())
        for listener in self._sockets:
            self._spawn(self._accept(listener))

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        for listener in self._sockets:
            if listener.family == socket.AF_UNIX:
                os.unlink(listener.getsockname())
            listener.close()
        self._parsers.close()

    def _bind(self) -> None:
        listen = self._config.listen
        if listen.host:
            family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
            self._sockets.append(socket.create_server((listen.host, listen.port), family=family, backlog=BACKLOG))
        if listen.unix_socket:
            path = Path(listen.unix_socket) / f".s.PGSQL.{self.port if listen.host else listen.port}"
            path.unlink(missing_ok=True)
            unix = socket.socket(socket.AF_UNIX)
            unix.bind(str(path))
            path.chmod(0o777)  # as PostgreSQL's: the login decides, not the file
            unix.listen(BACKLOG)
            self._sockets.append(unix)
        for listener in self._sockets:
            listener.setblocking(False)

    def _spawn(self, work: Awaitable[None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._sessions.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            # Never the text: it may hold an analyst's literals.
            log.error("a session failed: %s", type(error).__name__)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, _ = await loop.sock_accept(listener)
            except OSError as error:  # out of descriptors: others will close
                log.error("accept failed: %s", type(error).__name__)
                await asyncio.sleep(0.1)
                continue
            sock.setblocking(False)
            if sock.family != socket.AF_UNIX:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            self._spawn(self._serve(sock))

    async def _serve(self, sock: socket.socket) -> None:
        unix = sock.family == socket.AF_UNIX
        try:
            async with asyncio.timeout(self._config.limits.login_timeout):
                opened = await open_client(sock, None if unix else self._tls)
        except WireError as error:
            await _last_words(sock, _fatal(error))
            return
        except (OSError, ssl.SSLError, asyncio.IncompleteReadError, TimeoutError):
            sock.close()
            return
        except BaseException:
            sock.close()
            raise
        if opened is None:
            sock.close()
            return
        client, packet = opened
        try:
            await self._converse(client, packet, unix)
        except LoginRefused as refused:
            client.writer.write(refused.raw)
        except WireError as error:
            client.writer.write(_fatal(error))
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            pass
        finally:
            await _hang_up(client.writer)

    async def _converse(self, client: ClientStream, packet: bytes, unix: bool) -> None:
        if packet_code(packet) == CANCEL_CODE:
            request = read_cancel(packet)
            await self._cancels.cancel(request.pid, request.key)
            return
        if self._config.listen.tls_required and not client.tls and not unix:
            raise fatal("28000", "this server accepts connections over TLS only", "Use sslmode=require or stronger.")
        if not self.policy.serving:
            raise fatal("DP006", "the proxy is not ready", "Ask the administrator to run pg-epsilon facade check.")
        if self.sessions >= self._config.limits.max_sessions:
            raise fatal("53300", "sorry, too many clients already")
        async with asyncio.timeout(self._config.limits.login_timeout):
            logged_in = await log_in(client, packet, self._config, self._directory.verifier, self._mock_secret)
        try:
            await self._session(client, logged_in)
        finally:
            logged_in.link.writer.close()

    async def _session(self, client: ClientStream, logged_in: LoggedIn) -> None:
        context = SessionContext(
            analyst=logged_in.user,
            link=logged_in.link,
            upstream=self._directory.as_analyst(logged_in.user),
            parsers=self._parsers,
            rewriter=self.policy.rewriter,
            write=client.writer.write,
            client_gone=client.gone,
        )
        session = Session(context, client.reader, client.writer, self._config.limits.max_message)

        async def cancel() -> None:
            if session.operations.cancel():
                await cancel_on_facade(self._config.facade, logged_in.pid, logged_in.facade_key)

        ticket = Ticket(logged_in.pid, logged_in.client_key, cancel)
        self._cancels.add(ticket)
        task = asyncio.current_task()
        if task is not None:
            self._sessions[task] = client
        try:
            if self.policy.serving:  # it may have stopped during the login
                await session.run()
        finally:
            self._cancels.remove(ticket)

    def _end_sessions(self) -> None:
        """A facade without its net would answer 0 where it must refuse: nobody goes on."""
        for task, client in self._sessions.items():
            client.writer.write(fatal("DP006", "the proxy is not ready", "Connect again later.").raw)
            task.cancel()


def _tls(config: Config) -> ssl.SSLContext | None:
    return server_context(config.listen.tls_cert, config.listen.tls_key) if config.listen.tls_cert else None


def _mock_secret(config: Config) -> bytes:
    """Stable over restarts and the same on every proxy, so that an unknown role's salt never changes."""
    password = config.gateway_password()
    if password is None:
        return secrets.token_bytes(32)
    return hmac.digest(password.encode(), b"pg_epsilon mock authentication", hashlib.sha256)


def _fatal(error: WireError) -> bytes:
    return messages.report(b"E", "FATAL", error.sqlstate, error.message)


async def _last_words(sock: socket.socket, raw: bytes) -> None:
    try:
        async with asyncio.timeout(GOODBYE_SECONDS):
            await asyncio.get_running_loop().sock_sendall(sock, raw)
    except (OSError, TimeoutError):
        pass
    finally:
        sock.close()


async def _hang_up(writer: asyncio.StreamWriter) -> None:
    writer.close()
    try:
        async with asyncio.timeout(GOODBYE_SECONDS):
            await writer.wait_closed()
    except (OSError, ssl.SSLError, TimeoutError):
        writer.transport.abort()


async def serve(config: Config) -> None:
    """Serve until cancelled."""
    pool = UpstreamPool(config)
    await pool.open()
    server = ProxyServer(config, Directory.of(pool), FacadeSource(config))
    try:
        await server.start()
        log.info("listening on %s port %d, process %d", config.listen.host, server.port, os.getpid())
        await asyncio.Event().wait()
    finally:
        await server.close()
        await pool.close()
