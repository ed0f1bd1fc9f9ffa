"""All of the proxy that one process holds: the pool, the listening server, their numbers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import Awaitable, Callable, Sequence

from pg_epsilon._version import VERSION
from pg_epsilon_proxy import logs
from pg_epsilon_proxy.config import Config
from pg_epsilon_proxy.health import Health, asked_by
from pg_epsilon_proxy.logs import event
from pg_epsilon_proxy.metrics import Metrics, Snapshot
from pg_epsilon_proxy.policy import FacadeSource, gateway
from pg_epsilon_proxy.server import Directory, ProxyServer
from pg_epsilon_proxy.session.rewriting import Refusal
from pg_epsilon_proxy.upstream import UpstreamPool

log = logging.getLogger("pg_epsilon_proxy.service")

BUDGET_WAIT = 2.0
BUDGET_SECONDS = 5.0  # a scrape asks for the budgets at most so often


class Service:
    """Serves clients in this process. worker: its number, if there are several."""

    def __init__(
        self,
        config: Config,
        *,
        worker: int | None = None,
        listeners: Sequence[socket.socket] | None = None,
        elsewhere: Callable[[int, bytes], Awaitable[bool]] | None = None,
    ) -> None:
        self._config = config
        self._worker = worker
        self.metrics = Metrics()
        self.pool = UpstreamPool(config, self.metrics)
        self.server = ProxyServer(
            config,
            Directory.of(self.pool),
            FacadeSource(config),
            metrics=self.metrics,
            listeners=listeners,
            elsewhere=elsewhere,
        )
        self._budgets_at: float | None = None
        self._health = Health(asked_by(lambda: gateway(self._config)))

    async def start(self) -> None:
        """Raises what asyncpg raises, and OSError, if a database cannot be reached or an address not be bound."""
        asyncio.get_running_loop().set_exception_handler(logs.loop_failure)
        await self.pool.open()
        await self.server.start()
        if self._config.metrics.port and self._worker in (None, 1):
            self._health.begin()
        self.metrics.set("pg_epsilon_workers", 1)
        self.metrics.set("pg_epsilon_build_info", 1, VERSION)
        listen = self._config.listen
        event(log, logging.INFO, "listening", host=listen.host, port=self.server.port, version=VERSION)

    async def reload(self, config: Config) -> None:
        """The settings of `config` that may change while serving. Raises OSError, ssl.SSLError: then none is new."""
        self.server.reload(config)
        self.pool.reload(config)
        self._config = config
        logs.configure(config.log, self._worker)

    async def drain(self, seconds: float) -> None:
        await self.server.drain(seconds)

    async def close(self) -> None:
        await self._health.close()
        await self.server.close()
        await self.pool.close()

    async def cancel(self, pid: int, key: bytes) -> bool:
        return await self.server.cancel(pid, key)

    async def snapshot(self, *, budgets: bool = True) -> Snapshot:
        """This process's numbers; budgets: with what is the same in every process, the datasets and the engine."""
        self.pool.count()
        admission = self.server.admission
        self.metrics.set("pg_epsilon_logins_pending", admission.half_open)
        for limit, times in admission.turned_away.items():
            self.metrics.set("pg_epsilon_turned_away_total", times, limit)
        healthy = True
        if budgets:
            healthy, _ = await asyncio.gather(self._health.healthy(), self._budgets())
        found = self.metrics.snapshot()
        if not healthy:
            found["pg_epsilon_serving"] = [[[], 0]]
        return found

    async def _budgets(self) -> None:
        """Read them at most so often: a private database in trouble must not take the other numbers with it."""
        if self._budgets_at is None or time.monotonic() - self._budgets_at > BUDGET_SECONDS:
            self._budgets_at = time.monotonic()
            with contextlib.suppress(Refusal, TimeoutError):
                async with asyncio.timeout(BUDGET_WAIT):
                    await self.pool.budgets()
