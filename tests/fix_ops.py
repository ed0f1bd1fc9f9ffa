"""The proxy as an operator runs it: a process of its own with any settings, in front of a stack's databases."""

from __future__ import annotations

import contextlib
import http.client
import json
import signal
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from fix_cluster import PASSWORD, PRIVATE, private_cluster, standard
from fix_ports import free_port
from fix_stack import FACADE, Stack
from fix_waiting import PATIENCE, soon


def code_of(action: Callable[[], Any]) -> str | None:
    """The SQLSTATE of the error that `action` ends with; "lost" for a connection without a last word."""
    try:
        action()
        return None
    except psycopg.Error as error:
        return error.sqlstate or "lost"


@dataclass
class Proxy:
    """A proxy process. settings: section → key → value, over those that reach the stack's databases."""

    stack: Stack
    settings: dict[str, dict[str, Any]]
    port: int
    folder: Path
    process: subprocess.Popen[bytes]
    opened: list[psycopg.Connection[Any]] = field(default_factory=list)

    def connect(self, user: str = "alice", *, autocommit: bool = True, **extra: Any) -> psycopg.Connection[Any]:
        facts = {"host": "127.0.0.1", "port": self.port, "user": user, "dbname": PRIVATE, "password": PASSWORD}
        self.opened.append(psycopg.connect(**{**facts, **extra}, autocommit=autocommit))
        return self.opened[-1]

    def hang_up(self) -> None:
        for connection in self.opened:
            connection.close()
        self.opened.clear()

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def events(self, name: str) -> list[dict[str, Any]]:
        """Lines of the log (format json) with this event."""
        written, _, _ = self.log.rpartition("\n")
        lines = [json.loads(line) for line in written.splitlines()]
        return [line for line in lines if line["event"] == name]

    def wait_for(self, name: str, times: int = 1) -> list[dict[str, Any]]:
        assert soon(lambda: len(self.events(name)) >= times), self.log
        return self.events(name)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def ended(self, seconds: float = PATIENCE) -> int:
        return self.process.wait(seconds)

    def write(self, **settings: dict[str, Any]) -> None:
        merged = {name: {**self.settings.get(name, {}), **values} for name, values in settings.items()}
        write_settings(self.folder, {**self.settings, **merged})

    def metrics(self) -> dict[str, float]:
        """Sample → number."""
        texts: list[str] = []
        assert soon(lambda: self._scraped(texts)), "nobody answers on the port of the metrics"
        samples = [line.rpartition(" ") for line in texts[0].splitlines() if not line.startswith("#")]
        return {name: float(number) for name, _, number in samples}

    def _scraped(self, texts: list[str]) -> bool:
        """The port opens after the proxy serves; a scrape that takes too long is closed, for a scraper asks again."""
        port = self.settings["metrics"]["port"]
        with (
            contextlib.suppress(OSError, http.client.HTTPException),
            urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as answer,
        ):
            texts.append(answer.read().decode())
        return bool(texts)

    def counts(self, expected: dict[str, float]) -> bool:
        """Whether it counts so; a number is on its way while its event is already seen."""
        return soon(lambda: expected.items() <= self.metrics().items())


def write_settings(folder: Path, settings: dict[str, dict[str, Any]]) -> None:
    lines = []
    for section, values in settings.items():
        lines += [f"[{section}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items())]
    (folder / "proxy.toml").write_text("\n".join(lines) + "\n")


def reaching(stack: Stack) -> dict[str, dict[str, Any]]:
    port = stack.cluster.port
    return {
        "private": {"port": port, "dbname": PRIVATE, "password": PASSWORD},
        "facade": {"port": port, "dbname": FACADE},
    }


@contextmanager
def proxy_at_work(
    stack: Stack, folder: Path, environment: dict[str, str] | None = None, **settings: dict[str, Any]
) -> Iterator[Proxy]:
    """Started, and serving; ended at the end. The log is JSON unless said otherwise."""
    port = free_port()
    chosen: dict[str, dict[str, Any]] = {**reaching(stack), "listen": {}, "log": {"format": "json"}}
    for name, values in settings.items():
        chosen[name] = {**chosen.get(name, {}), **values}
    chosen["listen"].setdefault("port", port)
    if chosen.get("metrics", {}).get("port") == "free":
        chosen["metrics"]["port"] = free_port()
    write_settings(folder, chosen)
    command = [str(stack.cluster.paths.python), "-m", "pg_epsilon_proxy.cli", "proxy", "--config"]
    with (folder / "log").open("ab") as out:
        process = subprocess.Popen(
            [*command, str(folder / "proxy.toml")],
            env={**stack.environment(), **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )
    proxy = Proxy(stack, chosen, chosen["listen"]["port"], folder, process)
    try:
        ready = "workers serve" if chosen.get("process", {}).get("workers", 1) > 1 else "listening"
        assert soon(lambda: ready in proxy.log or process.poll() is not None, 2 * PATIENCE) and ready in proxy.log, (
            proxy.log
        )
        yield proxy
    finally:
        proxy.hang_up()
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def databases_at_work(**settings: str) -> Iterator[Stack]:
    """Private database and facade with the standard tables; no proxy yet."""
    with private_cluster(**settings) as cluster:
        standard(cluster)
        stack = Stack(cluster, free_port())
        stack.configure()
        stack.build_facade()
        yield stack
