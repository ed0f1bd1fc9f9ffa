"""What a proxy does while the policy cannot be read: a server that restarts is no hole in the net."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import asyncpg
import pytest

from fix_proxy import FakePrivate, FakeRewriter
from pg_epsilon_proxy.metrics import Metrics
from pg_epsilon_proxy.policy import Policy


class Failing:
    """A source that answers as told."""

    version = 7

    def __init__(self) -> None:
        self.failure: Exception | None = None

    async def refresh(self) -> Any:
        if self.failure is not None:
            raise self.failure
        return [], FakeRewriter(FakePrivate())

    async def listen(self, changed: Callable[[], None]) -> None:
        changed()


@pytest.mark.parametrize(
    ("failure", "serves"),
    [
        (ConnectionRefusedError(), True),
        (TimeoutError(), True),
        (asyncpg.AdminShutdownError("x"), True),
        (asyncpg.CannotConnectNowError("x"), True),
        (asyncpg.ConnectionDoesNotExistError("x"), True),
        (asyncpg.UndefinedTableError("x"), False),
        (asyncpg.InsufficientPrivilegeError("x"), False),
        (asyncpg.InterfaceError("x"), False),
        (KeyError("anything else"), False),
    ],
)
async def test_only_a_server_that_is_away_leaves_sessions_alone(failure: Exception, serves: bool) -> None:
    source, ended, metrics = Failing(), list[str](), Metrics()
    policy = Policy(source, lambda: ended.append("all"), metrics)
    await policy.refresh()
    assert policy.serving and metrics.get("pg_epsilon_policy_version") == 7
    source.failure = failure
    await policy.refresh()
    assert (policy.serving, bool(ended), bool(policy.problems)) == (serves, not serves, not serves)
    assert metrics.get("pg_epsilon_serving") == serves
    source.failure = None
    await policy.refresh()
    assert policy.serving and not policy.problems


async def test_nobody_is_served_before_the_first_reading() -> None:
    source = Failing()
    source.failure = ConnectionRefusedError()
    policy = Policy(source, lambda: None)
    await policy.refresh()
    assert not policy.serving and policy.problems
