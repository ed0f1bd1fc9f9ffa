"""Signals while the proxy starts: none is lost, whenever it comes."""

from __future__ import annotations

import asyncio
import signal

import pytest

from pg_epsilon_proxy.config import Config
from pg_epsilon_proxy.lifecycle import Lifecycle
from pg_epsilon_proxy.metrics import Snapshot

TERM, INT, HUP = signal.SIGTERM, signal.SIGINT, signal.SIGHUP


class Starting:
    """A Runner whose start lasts until it is told."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.did: list[str] = []

    async def start(self) -> None:
        await self.started.wait()
        self.did.append("started")

    async def reload(self, config: Config) -> None:
        self.did.append("reloaded")

    async def drain(self, seconds: float) -> None:
        self.did.append("drained")

    async def close(self) -> None:
        self.did.append("closed")

    async def snapshot(self) -> Snapshot:
        return {}


@pytest.mark.parametrize(
    ("before", "at_its_end", "after", "did"),
    [
        ((), (TERM,), (), ["started", "drained", "closed"]),
        ((), (INT,), (), ["started", "closed"]),
        ((), (HUP,), (TERM,), ["started", "reloaded", "drained", "closed"]),
        ((HUP,), (), (TERM,), ["started", "reloaded", "drained", "closed"]),
        ((HUP,), (TERM,), (), ["started", "reloaded", "drained", "closed"]),
        ((TERM,), (), (), ["closed"]),
        ((INT,), (), (), ["closed"]),
    ],
)
async def test_no_signal_is_lost(
    before: tuple[signal.Signals, ...],
    at_its_end: tuple[signal.Signals, ...],
    after: tuple[signal.Signals, ...],
    did: list[str],
) -> None:
    runner = Starting()
    life = Lifecycle(Config(), Config, runner)
    running = asyncio.ensure_future(life.run())
    for numbers, starts in ((before, False), (at_its_end, True), (after, False)):
        if starts:
            runner.started.set()
        for number in numbers:
            life._signals.put_nowait(number)
        for _ in range(10):
            await asyncio.sleep(0)
    await running
    assert runner.did == did
