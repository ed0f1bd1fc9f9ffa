"""The whole product at work: private database, facade and proxy, with the standard tables, over a real socket."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from fix_cluster import PASSWORD, PRIVATE, Cluster, standard_cluster
from fix_ports import free_port
from fix_waiting import PATIENCE
from pg_epsilon_proxy import cli
from pg_epsilon_proxy.config import Admin, load

FACADE = "facade"


@dataclass
class Stack:
    """A cluster with private database and facade, and a proxy in front."""

    cluster: Cluster
    port: int
    process: subprocess.Popen[bytes] | None = None

    def dsn(self, user: str = "alice", **extra: Any) -> str:
        """Through the proxy."""
        facts = {"host": "127.0.0.1", "port": self.port, "user": user, "dbname": PRIVATE, "password": PASSWORD}
        return psycopg.conninfo.make_conninfo(**{**facts, **extra})

    def dsn_url(self, user: str) -> str:
        """The same in the form that asyncpg takes."""
        return f"postgresql://{user}:{PASSWORD}@127.0.0.1:{self.port}/{PRIVATE}"

    def connect(self, user: str = "alice", *, autocommit: bool = True, **extra: Any) -> psycopg.Connection[Any]:
        return psycopg.connect(self.dsn(user, **extra), autocommit=autocommit)

    @property
    def config(self) -> Path:
        return self.cluster.folder / "proxy.toml"

    @property
    def log(self) -> str:
        return (self.cluster.folder / "proxy.log").read_text(errors="replace")

    def environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": self.cluster.paths.proxy_pythonpath}

    def cli(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [
            str(self.cluster.paths.python),
            "-m",
            "pg_epsilon_proxy.cli",
            *arguments,
            "--config",
            str(self.config),
        ]
        done = subprocess.run(command, env=self.environment(), capture_output=True, text=True, timeout=240)
        if arguments == ("facade", "sync") and done.returncode == 0 and self.process is not None:
            self._wait_for_policy()
        return done

    def _wait_for_policy(self) -> None:
        """Until the proxy serves by the facade's version: a busy machine takes seconds to follow a long script."""
        with self.cluster.connect(dbname=FACADE) as conn:
            row = conn.execute("SELECT version FROM dp_state.facade_state").fetchone()
        end = time.monotonic() + PATIENCE
        while row is not None and time.monotonic() < end and self.process is not None and self.process.poll() is None:
            if row[0] in map(int, re.findall(r"policy in force.*? version=(\d+)", self.log)):
                return
            time.sleep(0.05)

    def configure(self) -> None:
        place = f'host = "{{}}"\nport = {self.cluster.port}\n'
        self.config.write_text(
            f"[listen]\nport = {self.port}\n"
            f'[private]\n{place.format("127.0.0.1")}dbname = "{PRIVATE}"\npassword = "{PASSWORD}"\npool_warm = 1\n'
            f'[facade]\n{place.format("127.0.0.1")}dbname = "{FACADE}"\n'
        )

    def build_facade(self) -> None:
        """What `pg-epsilon facade create` and `sync` do, in this process: to start Python takes longer than they do."""
        self.cluster.execute(f"ALTER ROLE postgres PASSWORD '{PASSWORD}'")
        self._run("facade create")
        self._run("facade sync")

    def sync(self) -> None:
        """What `pg-epsilon facade sync` does, in this process, and a proxy that has heard of it."""
        self._run("facade sync")
        self._wait_for_policy()

    def _run(self, action: str) -> None:
        config = dataclasses.replace(load(str(self.config)), admin=Admin(password=PASSWORD))
        assert asyncio.run(cli._COMMANDS[action](config, argparse.Namespace())) == 0, action

    def start(self) -> None:
        with (self.cluster.folder / "proxy.log").open("ab") as out:
            self.process = subprocess.Popen(
                [str(self.cluster.paths.python), "-m", "pg_epsilon_proxy.cli", "proxy", "--config", str(self.config)],
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
        end = time.monotonic() + 2 * PATIENCE
        while True:
            try:
                self.connect().close()
                return
            except psycopg.OperationalError:
                if self.process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(f"the proxy did not start: {self.log}") from None
                time.sleep(0.05)

    def stop(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


@contextmanager
def stack_at_work(prepare: Callable[[Cluster], object] | None = None, **settings: str) -> Iterator[Stack]:
    """Everything, started; stopped and deleted at the end.

    prepare: makes what is there beside the standard tables, before there is a facade, which then shows it without
    another `pg-epsilon facade sync`.
    """
    with standard_cluster(**settings) as cluster:
        if prepare is not None:
            prepare(cluster)
        stack = Stack(cluster, free_port())
        stack.configure()
        stack.build_facade()
        try:
            stack.start()
            yield stack
        finally:
            stack.stop()


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """A stack of this module's own."""
    with stack_at_work() as running:
        yield running
