"""One of several processes that serve one port. The supervisor starts it, and it ends with the supervisor.

`python -m pg_epsilon_proxy.worker CONTROL [UNIX]`: numbers of inherited sockets. Settings come over the first one, so
that a worker that is started again serves by what its supervisor serves by, whatever the file says meanwhile.
"""

from __future__ import annotations

import asyncio
import base64
import signal
import socket
import sys
from typing import Any

import asyncpg

from pg_epsilon_proxy import logs
from pg_epsilon_proxy.config import Config, Log, from_document
from pg_epsilon_proxy.listeners import listen_tcp
from pg_epsilon_proxy.service import Service
from pg_epsilon_proxy.talk import Failed, Gone, Talk, Told

CANCEL_SECONDS = 5.0


class Worker:
    def __init__(self, control: socket.socket, unix: socket.socket | None) -> None:
        self._control = control
        self._unix = unix
        self._service: Service | None = None
        self._config = Config()
        self._stop = asyncio.Event()
        self.talk = Talk(
            {
                "start": self.start,
                "reload": self.reload,
                "drain": self.drain,
                "stop": self.stop,
                "cancel": self.cancel,
                "snapshot": self.snapshot,
            }
        )

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._told_to_end)
        for number in (signal.SIGHUP, signal.SIGINT):  # the supervisor's business
            signal.signal(number, signal.SIG_IGN)
        await self.talk.open(self._control)
        stopped = asyncio.ensure_future(self._stop.wait())
        orphaned = asyncio.ensure_future(self.talk.ended.wait())
        await asyncio.wait({stopped, orphaned}, return_when=asyncio.FIRST_COMPLETED)
        if self._service is not None:
            await self._service.close()
        for task in (stopped, orphaned):
            task.cancel()
        await self.talk.close()

    def _told_to_end(self) -> None:
        """A signal to this worker alone: its sessions move to the others, the supervisor starts another one."""
        self._leaving = asyncio.ensure_future(self._leave())

    async def _leave(self) -> None:
        await self.drain(self._config.process.drain_timeout)
        self._stop.set()

    async def start(self, document: dict[str, Any], number: int, port: int) -> None:
        config = from_document(document)
        logs.configure(config.log, number)
        self._config = config
        listeners = [listen_tcp(config.listen.host, port, shared=True)] if config.listen.host else []
        if self._unix is not None:
            listeners.append(self._unix)
        self._service = Service(config, worker=number, listeners=listeners, elsewhere=self._elsewhere)
        try:
            await self._service.start()
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:  # nobody has been served yet
            raise Told(f"{type(error).__name__}: {error}") from error

    async def reload(self, document: dict[str, Any]) -> None:
        if self._service is not None:
            self._config = from_document(document)
            await self._service.reload(self._config)

    async def drain(self, seconds: float) -> None:
        if self._service is not None:
            await self._service.drain(seconds)

    async def stop(self) -> None:
        self._stop.set()

    async def cancel(self, pid: int, key: str) -> bool:
        """A cancel request that another worker was sent; the key is compared here, by the session's owner."""
        return self._service is not None and await self._service.cancel(pid, base64.b64decode(key))

    async def snapshot(self, budgets: bool) -> Any:
        return None if self._service is None else await self._service.snapshot(budgets=budgets)

    async def _elsewhere(self, pid: int, key: bytes) -> bool:
        text = base64.b64encode(key).decode()
        try:
            return bool(await self.talk.ask("cancel", within=CANCEL_SECONDS, pid=pid, key=text))
        except (Gone, Failed, TimeoutError):
            return False


async def _main(numbers: list[int]) -> None:
    sockets = [socket.socket(fileno=number) for number in numbers]
    await Worker(sockets[0], sockets[1] if len(sockets) > 1 else None).run()


if __name__ == "__main__":
    logs.configure(Log())
    asyncio.run(_main([int(word) for word in sys.argv[1:]]))
