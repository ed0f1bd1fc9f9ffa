"""From start to end of the proxy's main process: signals, reload, drain, what systemd is told."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, Protocol

from pg_epsilon_proxy import logs
from pg_epsilon_proxy.config import Config, ConfigError
from pg_epsilon_proxy.exporter import Exporter
from pg_epsilon_proxy.logs import event
from pg_epsilon_proxy.metrics import Snapshot

log = logging.getLogger("pg_epsilon_proxy.lifecycle")

# What SIGHUP takes over; everything else waits for a restart. "*": all of the section.
RELOADED = {
    "listen": ("tls_cert", "tls_key", "tls_required"),
    "facade": ("names",),
    "limits": ("*",),
    "process": ("drain_timeout",),
    "log": ("*",),
}
RESTART_ONLY = (("limits", "parser_threads"),)
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Runner(Protocol):
    """Service, in one process; Supervisor, over several."""

    async def start(self) -> None: ...
    async def reload(self, config: Config) -> None: ...
    async def drain(self, seconds: float) -> None: ...
    async def close(self) -> None: ...
    async def snapshot(self) -> Snapshot: ...


def reloadable(section: str, key: str) -> bool:
    keys = RELOADED.get(section, ())
    return (section, key) not in RESTART_ONLY and ("*" in keys or key in keys)


def adopted(old: Config, new: Config) -> tuple[Config, list[str], list[str]]:
    """The settings after a reload, the names of those that changed, and of those that wait for a restart."""
    result, changed, waiting = old, [], []
    for item in fields(old):
        before, after = getattr(old, item.name), getattr(new, item.name)
        taken: dict[str, Any] = {}
        for key in (setting.name for setting in fields(before)):
            if getattr(before, key) == getattr(after, key):
                continue
            if reloadable(item.name, key):
                taken[key] = getattr(after, key)
                changed.append(f"{item.name}.{key}")
            else:
                waiting.append(f"{item.name}.{key}")
        result = replace(result, **{item.name: replace(before, **taken)})
    return result, changed, waiting


def notify(*facts: str) -> None:
    """Tell systemd (sd_notify(3)); nothing without NOTIFY_SOCKET, and nothing depends on it."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    if not path:
        return
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.connect("\0" + path[1:] if path.startswith("@") else path)
            sender.sendall("\n".join(facts).encode())
    except OSError as error:
        event(log, logging.WARNING, "systemd cannot be told", error=type(error).__name__)


class Lifecycle:
    """Runs until SIGTERM (drain, then end; twice: end now) or SIGINT (end now); SIGHUP rereads the settings."""

    def __init__(self, config: Config, reread: Callable[[], Config], runner: Runner) -> None:
        self._config = config
        self._reread = reread
        self._runner = runner
        self._signals: asyncio.Queue[signal.Signals] = asyncio.Queue()

    async def run(self) -> None:
        """Raises what Runner.start raises."""
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self._signals.put_nowait, number)
        exporter = Exporter(self._config.metrics, self._runner.snapshot) if self._config.metrics.port else None
        try:
            if not await self._unless_stopped():
                return
            if exporter is not None:
                await exporter.start()
            notify("READY=1", f"MAINPID={os.getpid()}", "STATUS=serving")
            await self._serve()
        finally:
            notify("STOPPING=1")
            await self._runner.close()
            if exporter is not None:
                await exporter.close()
            event(log, logging.INFO, "stopped")

    async def _unless_stopped(self) -> bool:
        """Start; False if a signal ended it before. SIGHUP, and what comes with the end of the start, is for later."""
        starting = asyncio.ensure_future(self._runner.start())
        later: list[signal.Signals] = []
        while not starting.done():
            waiting = asyncio.ensure_future(self._signals.get())
            await asyncio.wait({starting, waiting}, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                waiting.cancel()
            elif starting.done() or waiting.result() == signal.SIGHUP:
                later.append(waiting.result())
            else:
                starting.cancel()
                await asyncio.wait({starting})
                return False
        await starting
        for number in later:
            self._signals.put_nowait(number)
        return True

    async def _serve(self) -> None:
        while True:
            number = await self._signals.get()
            if number == signal.SIGHUP:
                await self._reload()
            elif number == signal.SIGINT:
                return
            else:
                await self._drain()
                return

    async def _drain(self) -> None:
        seconds = self._config.process.drain_timeout
        event(log, logging.INFO, "draining", seconds=seconds)
        notify("STOPPING=1", "STATUS=waiting for running statements and open transactions")
        draining = asyncio.ensure_future(self._runner.drain(seconds))
        while not draining.done():
            waiting = asyncio.ensure_future(self._signals.get())
            await asyncio.wait({draining, waiting}, return_when=asyncio.FIRST_COMPLETED)
            if waiting.done() and waiting.result() != signal.SIGHUP:
                draining.cancel()
                await asyncio.wait({draining})
                event(log, logging.INFO, "drain cut short")
                return
            waiting.cancel()
        await draining

    async def _reload(self) -> None:
        notify("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")
        try:
            config, changed, waiting = adopted(self._config, self._reread())
            await self._runner.reload(config)
        except (ConfigError, OSError, ssl.SSLError, ValueError) as error:
            # A ConfigError names a setting and never its value.
            text = str(error) if isinstance(error, ConfigError) else type(error).__name__
            event(log, logging.ERROR, "reload failed: the settings stay as they were", problem=text)
        else:
            self._config = config
            logs.configure(config.log)
            event(log, logging.INFO, "reloaded", changed=",".join(changed) or None)
            if waiting:
                event(log, logging.WARNING, "settings wait for a restart", settings=",".join(waiting))
        notify("READY=1")
