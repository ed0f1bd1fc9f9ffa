"""Mutated conversations: the proxy neither crashes nor hangs nor grows, and serves the others all the while."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

import fix_cluster
from fix_proxy import GROUPED_SQL, BareFacade
from fix_raw import keys_of
from fix_stack import Stack
from fuzz.mutate import Mutator, Report, Run, run

GROWTH_KB = 10_000
FEW = 24  # descriptors, the pool to the private database among them


def judge(report: Report, messages: int) -> None:
    print(report)
    assert report.failures == []
    assert min(report.messages, report.mutated) >= messages
    before, after = report.resident_kb
    assert after - before < GROWTH_KB


@pytest.mark.timeout(900)
def test_mutated_messages(bare_facade: BareFacade) -> None:
    judge(run(20_000, 20261121, bare_facade), 20_000)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_a_million_mutated_messages(bare_facade: BareFacade) -> None:
    judge(run(1_000_000, 1, bare_facade), 1_000_000)


# The recorded questions, asked of the standard tables.
QUESTIONS = {
    GROUPED_SQL.format(7).encode(): b"SELECT sex, count(*) FROM people WHERE age > 50 GROUP BY sex",
    GROUPED_SQL.format("$1").encode(): b"SELECT sex, count(*) FROM people WHERE age > $1 GROUP BY sex",
    b"secret": b"people",
}


class WholeRun(Run):
    """The product's own process: its own brain, its private database."""

    def __init__(self, stack: Stack, seed: int) -> None:
        self.report = Report()
        self._stack = stack
        self._mutator = Mutator(seed, QUESTIONS)
        self._folder = stack.cluster.folder
        with stack.cluster.connect() as admin:
            row = admin.execute("SELECT rolpassword FROM pg_authid WHERE rolname = 'alice'").fetchone()
        assert row is not None
        self._keys = keys_of(fix_cluster.PASSWORD, row[0])
        self._port = stack.port

    def facts(self) -> dict[str, int]:
        """It has no door for tests: what its process holds, and what its log says."""
        assert self._stack.process is not None
        process = Path(f"/proc/{self._stack.process.pid}")
        pages = int((process / "statm").read_text().split()[1])
        return {
            "messages": self.report.sent,
            "sessions": 0,
            "half_open": 0,
            "admitted": 0,
            "tasks": 0,
            "descriptors": max(FEW, len(os.listdir(process / "fd"))),
            "resident_kb": pages * os.sysconf("SC_PAGE_SIZE") // 1024,
            "sessions failed": self._stack.log.count("session failed"),
        }

    def end(self) -> None:
        assert self._stack.process is not None
        if self._stack.process.poll() is not None:
            self.report.failures.append(f"the proxy has ended: {self._stack.process.returncode}")

    async def ask(self) -> None:
        with self._stack.connect() as alice:
            assert alice.execute("EXPLAIN SELECT count(*) FROM people").fetchone() is not None

    async def _mutated_login(self) -> None:
        """Failed logins are limited here, so these are left to the other run."""
        await self._mutated_session()

    def _crashes(self) -> list[str]:
        return []


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_mutated_messages_to_the_whole_product(stack: Stack) -> None:
    """Fewer, with its own rewriter and engine behind the proxy; a budget that runs out is refused like the rest."""
    judge(asyncio.run(WholeRun(stack, 3).go(20_000)), 20_000)
