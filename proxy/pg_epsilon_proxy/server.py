"""Listens, logs clients in, runs their sessions (facade-and-channel.md §3, §6)."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import logging
import os
import secrets
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import cast

from pg_epsilon_proxy.admission import Admission, Visit, address_of
from pg_epsilon_proxy.config import Config
from pg_epsilon_proxy.listeners import listen_all
from pg_epsilon_proxy.logs import event, failure
from pg_epsilon_proxy.metrics import Metrics
from pg_epsilon_proxy.observing import Watch, WatchedPending, WatchedUpstream
from pg_epsilon_proxy.policy import Policy, Source
from pg_epsilon_proxy.session.cancel import CancelRegistry, Ticket
from pg_epsilon_proxy.session.connection import Session
from pg_epsilon_proxy.session.context import SessionContext
from pg_epsilon_proxy.session.login import LoggedIn, LoginRefused, cancel_on_facade, fatal, log_in
from pg_epsilon_proxy.session.parser_thread import ParserThreads
from pg_epsilon_proxy.session.rewriting import AnalystUpstream
from pg_epsilon_proxy.tls import ClientStream, open_client, server_context
from pg_epsilon_proxy.upstream import UpstreamPool
from pg_epsilon_proxy.wire import messages
from pg_epsilon_proxy.wire.framing import WireError
from pg_epsilon_proxy.wire.startup import CANCEL_CODE, packet_code, read_cancel

log = logging.getLogger("pg_epsilon_proxy.server")

GOODBYE_SECONDS = 2.0
DRAIN_STEP = 0.05
SHUTTING_DOWN = ("57P01", "terminating connection due to administrator command")


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


@dataclass(frozen=True, slots=True, eq=False)
class Live:
    """A session that has begun."""

    client: ClientStream
    session: Session
    pending: WatchedPending

    @property
    def idle(self) -> bool:
        return self.pending.idle and not self.session.operations.busy


class ProxyServer:
    """start() reads the policy, binds (unless it is given listeners) and serves; close() ends everything.

    metrics: where to count. elsewhere: asks the other processes to cancel a session that is not this one's.
    """

    def __init__(
        self,
        config: Config,
        directory: Directory,
        source: Source,
        *,
        metrics: Metrics | None = None,
        listeners: Sequence[socket.socket] | None = None,
        elsewhere: Callable[[int, bytes], Awaitable[bool]] | None = None,
    ) -> None:
        self._config = config
        self._directory = directory
        self.metrics = metrics or Metrics()
        self.policy = Policy(source, self._end_sessions, self.metrics)
        self._given = listeners
        self._elsewhere = elsewhere
        self._accepting: list[asyncio.Task[None]] = []
        self._draining = False
        self.admission = Admission(config.limits)
        self._cancels = CancelRegistry()
        self._parsers = ParserThreads(config.limits.parser_threads)
        self._tls = _tls(config)
        self._mock_secret = _mock_secret(config)
        self._sockets: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._sessions: dict[asyncio.Task[None], Live] = {}

    @property
    def port(self) -> int:
        tcp = [listener for listener in self._sockets if listener.family != socket.AF_UNIX]
        return int(tcp[0].getsockname()[1]) if tcp else self._config.listen.port

    @property
    def sessions(self) -> int:
        return len(self._sessions)

    async def start(self) -> None:
        """Raises OSError if an address cannot be bound."""
        await self.policy.refresh()
        self._sockets = list(listen_all(self._config.listen) if self._given is None else self._given)
        self._spawn(self.policy.keep())
        for listener in self._sockets:
            listener.setblocking(False)
            self._accepting.append(self._spawn(self._accept(listener)))

    def reload(self, config: Config) -> None:
        """New limits, names and certificate for connections from now on. Raises OSError, ssl.SSLError: nothing new."""
        tls = _tls(config)
        self._config, self._tls = config, tls
        self.admission.configure(config.limits)

    async def cancel(self, pid: int, key: bytes) -> bool:
        """False: no session of this process, or not its key."""
        return await self._cancels.cancel(pid, key)

    async def drain(self, seconds: float) -> None:
        """Accept nobody any more; end each session once it is idle outside a transaction, all after so many seconds."""
        self._draining = True
        await self._stop_listening()
        end = time.monotonic() + seconds
        while self._sessions and time.monotonic() < end:
            for task, live in [item for item in self._sessions.items() if item[1].idle]:
                self._dismiss(task, live, *SHUTTING_DOWN)
            await asyncio.sleep(DRAIN_STEP)

    async def close(self) -> None:
        self._draining = True
        for task, live in list(self._sessions.items()):
            self._dismiss(task, live, *SHUTTING_DOWN)
        await self._stop_listening()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._parsers.close()

    async def _stop_listening(self) -> None:
        for task in self._accepting:
            task.cancel()
        if self._accepting:
            await asyncio.wait(self._accepting)
        for listener in self._sockets:
            if listener.family == socket.AF_UNIX and self._given is None:
                os.unlink(listener.getsockname())
            listener.close()
        self._accepting, self._sockets = [], []

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
            event(log, logging.ERROR, "session failed", **failure(error))

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, _ = await loop.sock_accept(listener)
            except OSError as error:  # out of descriptors: others will close
                event(log, logging.ERROR, "accept failed", error=type(error).__name__)
                await asyncio.sleep(0.1)
                continue
            sock.setblocking(False)
            if sock.family != socket.AF_UNIX:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            self._spawn(self._visit(sock))

    async def _visit(self, sock: socket.socket) -> None:
        task = cast("asyncio.Task[None]", asyncio.current_task())
        try:
            visit = self.admission.arrive(address_of(sock), task.cancel)
        except OSError:  # it has left already
            sock.close()
            return
        try:
            await self._serve(sock, visit)
        finally:
            visit.leave()

    async def _serve(self, sock: socket.socket, visit: Visit) -> None:
        unix = sock.family == socket.AF_UNIX
        watch = Watch(self.metrics, _address(sock))
        how = "shut down"
        deadline = asyncio.get_running_loop().time() + self._config.limits.login_timeout
        try:
            async with asyncio.timeout_at(deadline):
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
            await self._converse(client, packet, unix, visit, deadline, watch)
            how = "closed"
        except LoginRefused as refused:
            watch.refused(refused.raw)
            client.writer.write(refused.raw)
        except WireError as error:
            how = "protocol error"
            watch.refused(_fatal(error))
            client.writer.write(_fatal(error))
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            how = "lost"
        finally:
            watch.ended(how)
            await _hang_up(client.writer)

    async def _converse(
        self, client: ClientStream, packet: bytes, unix: bool, visit: Visit, deadline: float, watch: Watch
    ) -> None:
        if packet_code(packet) == CANCEL_CODE:
            with contextlib.suppress(WireError):  # whatever it is, a cancel request is never answered
                if visit.may_cancel() and not await self._cancel_anywhere(packet):
                    visit.missed_cancel()
            return
        if self._config.listen.tls_required and not client.tls and not unix:
            raise fatal("28000", "this server accepts connections over TLS only", "Use sslmode=require or stronger.")
        if not self.policy.serving:
            raise fatal("DP006", "the proxy is not ready", "Ask the administrator to run pg-epsilon facade check.")
        visit.check_room()
        async with asyncio.timeout_at(deadline):
            verifier = watch.look_up(self._directory.verifier)
            logged_in = await log_in(client, packet, self._config, verifier, self._mock_secret, visit)
        try:
            watch.began(logged_in.user, client, packet)
            await self._session(client, logged_in, watch)
        finally:
            logged_in.link.writer.close()

    async def _cancel_anywhere(self, packet: bytes) -> bool:
        request = read_cancel(packet)
        found = await self.cancel(request.pid, request.key)
        if not found and self._elsewhere is not None:
            found = await self._elsewhere(request.pid, request.key)
        self.metrics.add("pg_epsilon_cancels_total", "yes" if found else "no")
        return found

    async def _session(self, client: ClientStream, logged_in: LoggedIn, watch: Watch) -> None:
        pending = WatchedPending(watch)
        logged_in.link.pending = pending
        context = SessionContext(
            analyst=logged_in.user,
            link=logged_in.link,
            upstream=WatchedUpstream(self._directory.as_analyst(logged_in.user), watch),
            parsers=self._parsers,
            rewriter=self.policy.rewriter,
            write=watch.wrote(client.writer.write),
            client_gone=client.gone,
        )
        limits = self._config.limits
        session = Session(context, client.reader, client.writer, limits.max_message, limits.idle_timeout)

        async def cancel() -> None:
            if session.operations.cancel():
                await cancel_on_facade(self._config.facade, logged_in.pid, logged_in.facade_key)

        ticket = Ticket(logged_in.pid, logged_in.client_key, cancel)
        self._cancels.add(ticket)
        task = asyncio.current_task()
        if task is not None:
            self._sessions[task] = Live(client, session, pending)
        try:
            if self._draining:
                raise fatal(*SHUTTING_DOWN)
            if self.policy.serving:  # it may have stopped during the login
                await session.run()
        finally:
            self._cancels.remove(ticket)

    def _end_sessions(self) -> None:
        """A facade without its net would answer 0 where it must refuse: nobody goes on."""
        for task, live in list(self._sessions.items()):
            self._dismiss(task, live, "DP006", "the proxy is not ready", "Connect again later.")

    def _dismiss(self, task: asyncio.Task[None], live: Live, *words: str) -> None:
        """The last message that a session gets, then its end."""
        self._sessions.pop(task, None)
        live.client.writer.write(fatal(*words).raw)
        task.cancel()


def _tls(config: Config) -> ssl.SSLContext | None:
    return server_context(config.listen.tls_cert, config.listen.tls_key) if config.listen.tls_cert else None


def _mock_secret(config: Config) -> bytes:
    """Stable over restarts and the same on every proxy, so that an unknown role's salt never changes."""
    password = config.gateway_password()
    if password is None:
        return secrets.token_bytes(32)
    return hmac.digest(password.encode(), b"pg_epsilon mock authentication", hashlib.sha256)


def _address(sock: socket.socket) -> str:
    if sock.family == socket.AF_UNIX:
        return "unix"
    try:
        return str(sock.getpeername()[0])
    except OSError:
        return "gone"


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
