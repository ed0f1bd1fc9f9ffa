"""Several worker processes on one port: started, watched, started again, told of signals, their numbers added up.

Each worker listens on the port itself (SO_REUSEPORT: the kernel spreads connections); the unix socket is one socket
that all of them accept from. A cancel request may reach any worker: the one that does not know its key hands it on
through here, over socket pairs that nobody else can open, and the session's own worker compares the key.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
import socket
import sys
import time
from typing import Any

from pg_epsilon_proxy.config import Config, ConfigError
from pg_epsilon_proxy.listeners import listen_tcp, listen_unix, unix_path
from pg_epsilon_proxy.logs import event
from pg_epsilon_proxy.metrics import Metrics, Snapshot, merged
from pg_epsilon_proxy.talk import Failed, Gone, Talk
from pg_epsilon_proxy.tls import server_context

log = logging.getLogger("pg_epsilon_proxy.supervisor")

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 30.0  # seconds before a dead worker is started again, doubled each time
HEALTHY = 60.0  # a worker that lived so long begins anew with the first pause
START_SECONDS = 120.0
ASK_SECONDS = 5.0
END_SECONDS = 10.0


class StartFailed(OSError):
    """A worker did not come up; its own log says why."""


class Child:
    """One worker process and the way to talk to it."""

    def __init__(self, number: int, supervisor: Supervisor) -> None:
        self.number = number
        self._supervisor = supervisor
        self.talk = Talk({"cancel": self._cancel})
        self.process: asyncio.subprocess.Process | None = None
        self.ready = False
        self.since = time.monotonic()

    async def start(self, config: Config, port: int, unix: socket.socket | None) -> None:
        """Raises StartFailed."""
        ours, theirs = socket.socketpair()
        inherited = [theirs, *([unix] if unix is not None else [])]
        numbers = [item.fileno() for item in inherited]
        environment = {name: value for name, value in os.environ.items() if name != "NOTIFY_SOCKET"}
        try:
            # -P: no module is taken from the working directory. A session of its own: a terminal's Ctrl-C is ours.
            self.process = await asyncio.create_subprocess_exec(
                sys.executable, "-P", "-m", "pg_epsilon_proxy.worker", *map(str, numbers),
                pass_fds=numbers, env=environment, stdin=asyncio.subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        finally:
            theirs.close()
        await self.talk.open(ours)
        try:
            document = dataclasses.asdict(config)
            await self.talk.ask("start", within=START_SECONDS, document=document, number=self.number, port=port)
        except (Gone, Failed, TimeoutError) as error:
            await self.end()
            raise StartFailed(f"worker {self.number} did not start ({error or type(error).__name__})") from None
        self.ready = True
        self.since = time.monotonic()

    async def end(self) -> None:
        """Ask it to stop, and kill it if it does not."""
        self.ready = False
        if self.process is None:
            return
        try:
            await self.talk.ask("stop", within=END_SECONDS)
            async with asyncio.timeout(END_SECONDS):
                await self.process.wait()
        except (Gone, Failed, TimeoutError):
            if self.process.returncode is None:
                self.process.kill()
        await self.process.wait()
        await self.talk.close()

    async def _cancel(self, pid: int, key: str) -> bool:
        return await self._supervisor.cancel(self, pid, key)


class Supervisor:
    """Runner (lifecycle.py) over [process] workers processes."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._metrics = Metrics()
        self._children: dict[int, Child] = {}
        self._watching: list[asyncio.Task[None]] = []
        self._reserved: socket.socket | None = None
        self._unix: socket.socket | None = None
        self._port = config.listen.port

    async def start(self) -> None:
        """Raises OSError if an address cannot be bound or a worker does not come up."""
        listen = self._config.listen
        if listen.host:
            # Bound, never listened on: it finds the port that is free, and keeps it while workers come and go.
            self._reserved = listen_tcp(listen.host, listen.port, waiting=False)
            self._port = int(self._reserved.getsockname()[1])
        if listen.unix_socket:
            self._unix = listen_unix(unix_path(listen, self._port))
        numbers = range(1, self._config.process.workers + 1)
        await asyncio.gather(*(self._begin(number) for number in numbers))
        self._watching = [asyncio.ensure_future(self._watch(number)) for number in numbers]
        event(log, logging.INFO, "workers serve", workers=len(numbers), port=self._port)

    async def _begin(self, number: int) -> None:
        child = self._children[number] = Child(number, self)
        config = self._config
        await child.start(config, self._port, self._unix)
        if self._config is not config:  # reloaded meanwhile, when this worker did not serve yet
            try:
                await self._reload(child)
            except (Gone, Failed, TimeoutError):
                await child.end()
                raise StartFailed(f"worker {number} could not take the settings over") from None

    async def _watch(self, number: int) -> None:
        """Start the worker again whenever it ends, at once at first, then more and more slowly."""
        pause = FIRST_PAUSE
        while True:
            child = self._children[number]
            if child.process is not None:
                status = await child.process.wait()
                child.ready = False
                event(log, logging.ERROR, "worker ended", number=number, status=status)
                await child.talk.close()
            pause = FIRST_PAUSE if time.monotonic() - child.since > HEALTHY else min(LONGEST_PAUSE, pause * 2)
            await asyncio.sleep(pause)
            self._metrics.add("pg_epsilon_worker_restarts_total")
            try:
                await self._begin(number)
            except OSError as error:
                event(
                    log,
                    logging.ERROR,
                    "worker does not start",
                    number=number,
                    problem=str(error) if isinstance(error, StartFailed) else type(error).__name__,
                )
            else:
                event(log, logging.INFO, "worker serves again", number=number)

    def _serving(self) -> list[Child]:
        return [child for child in self._children.values() if child.ready]

    async def cancel(self, asker: Child, pid: int, key: str) -> bool:
        others = [child for child in self._serving() if child is not asker]
        return any(await asyncio.gather(*(_cancelled(child, pid, key) for child in others)))

    async def reload(self, config: Config) -> None:
        """Raises what a bad certificate raises, before any worker has heard of it."""
        if config.listen.tls_cert:
            server_context(config.listen.tls_cert, config.listen.tls_key)
        self._config = config
        try:
            await asyncio.gather(*(self._reload(child) for child in self._serving()))
        except (Gone, Failed, TimeoutError) as error:
            raise ConfigError(f"a worker could not take the settings over ({type(error).__name__})") from None

    async def _reload(self, child: Child) -> None:
        await child.talk.ask("reload", within=ASK_SECONDS, document=dataclasses.asdict(self._config))

    async def drain(self, seconds: float) -> None:
        await self._stop_watching()
        within = seconds + ASK_SECONDS
        asked = [child.talk.ask("drain", within=within, seconds=seconds) for child in self._serving()]
        await asyncio.gather(*asked, return_exceptions=True)

    async def close(self) -> None:
        await self._stop_watching()
        await asyncio.gather(*(child.end() for child in self._children.values()))
        if self._unix is not None:
            os.unlink(self._unix.getsockname())
            self._unix.close()
        if self._reserved is not None:
            self._reserved.close()

    async def _stop_watching(self) -> None:
        for task in self._watching:
            task.cancel()
        if self._watching:
            await asyncio.wait(self._watching)
        self._watching = []

    async def snapshot(self) -> Snapshot:
        """All workers' numbers as one. Counters of a worker that ended go down with it, as on any restart."""
        asked = [_numbers(child, index == 0) for index, child in enumerate(self._serving())]
        found = [snapshot for snapshot in await asyncio.gather(*asked) if snapshot]
        return merged([*found, self._metrics.snapshot()])


async def _cancelled(child: Child, pid: int, key: str) -> bool:
    try:
        return bool(await child.talk.ask("cancel", within=ASK_SECONDS, pid=pid, key=key))
    except (Gone, Failed, TimeoutError):
        return False


async def _numbers(child: Child, budgets: bool) -> Any:
    try:
        return await child.talk.ask("snapshot", within=ASK_SECONDS, budgets=budgets)
    except (Gone, Failed, TimeoutError):
        return None
