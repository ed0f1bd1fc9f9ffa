"""How long the proxy believes what it was told of the engine's health."""

from __future__ import annotations

import asyncio

from pg_epsilon_proxy import health
from pg_epsilon_proxy.health import Health


class Engine:
    """Answers when it is let go."""

    def __init__(self) -> None:
        self.asked, self.now = 0, 100.0
        self.problems: list[str] = []
        self.free = asyncio.Event()
        self.free.set()
        self.failure: Exception | None = None

    async def ask(self) -> list[str]:
        self.asked += 1
        await self.free.wait()
        if self.failure is not None:
            raise self.failure
        return self.problems


def watched(engine: Engine) -> Health:
    return Health(engine.ask, lambda: engine.now)


async def test_asked_again_only_after_a_while() -> None:
    engine = Engine()
    found = watched(engine)
    assert [await found.healthy() for _ in range(3)] == [True] * 3
    assert engine.asked == 1
    engine.problems, engine.now = ["sampler: gone"], engine.now + health.AGAIN + 1
    assert not await found.healthy()
    assert (engine.asked, found.problems) == (2, ["sampler: gone"])


async def test_a_failure_to_ask_is_a_problem() -> None:
    engine = Engine()
    engine.failure = ConnectionRefusedError()
    found = watched(engine)
    assert not await found.healthy()
    assert found.problems == ["the private database cannot be asked: ConnectionRefusedError"]


async def test_a_slow_attempt_is_awaited_once_and_the_last_answer_counts_so_long() -> None:
    engine = Engine()
    found = watched(engine)
    assert await found.healthy()
    wait, health.WAIT = health.WAIT, 0.0
    try:
        engine.free.clear()
        engine.now += health.AGAIN + 1
        assert [await found.healthy() for _ in range(3)] == [True] * 3, "busy is not broken"
        assert engine.asked == 2
        engine.now += health.GONE
        assert not await found.healthy(), "but for ever is"
        engine.free.set()
        await found.begin()
        assert await found.healthy()
    finally:
        health.WAIT = wait
        await found.close()
