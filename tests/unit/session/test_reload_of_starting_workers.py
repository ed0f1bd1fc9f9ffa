"""Settings that are read again while a worker starts: it serves with the new ones, or not at all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pg_epsilon_proxy import supervisor
from pg_epsilon_proxy.config import Config, Process
from pg_epsilon_proxy.supervisor import StartFailed, Supervisor
from pg_epsilon_proxy.talk import Failed

OLD = Config()
NEW = replace(OLD, process=Process(workers=7))


class Worker:
    """A child whose start takes as long as a reload does."""

    takes_over = True

    def __init__(self, number: int, owner: Supervisor) -> None:
        self.owner, self.talk, self.ready, self.ended = owner, self, False, False
        self.asked: list[Any] = []

    async def start(self, config: Config, port: int, unix: None) -> None:
        self.asked.append(config.process.workers)
        await self.owner.reload(NEW)
        self.ready = True

    async def ask(self, what: str, *, within: float, document: dict[str, Any]) -> None:
        if not self.takes_over:
            raise Failed("no")
        self.asked.append((what, document["process"]["workers"]))

    async def end(self) -> None:
        self.ready, self.ended = False, True


@pytest.mark.parametrize("takes_over", [True, False])
async def test_a_worker_that_starts_while_settings_change(monkeypatch: pytest.MonkeyPatch, takes_over: bool) -> None:
    monkeypatch.setattr(supervisor, "Child", Worker)
    monkeypatch.setattr(Worker, "takes_over", takes_over)
    owner = Supervisor(OLD)
    if takes_over:
        await owner._begin(1)
    else:
        with pytest.raises(StartFailed, match="settings"):
            await owner._begin(1)
    worker: Any = owner._children[1]
    assert worker.asked == [OLD.process.workers, *([("reload", 7)] if takes_over else [])]
    assert worker.ended is not takes_over
