"""Echoes that break one rule each, for sql/test_echo.py; runs inside the server as broken_mechanisms.py."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from pg_epsilon.engine import tasks
from pg_epsilon.mechanisms.estimators import Number
from pg_epsilon.query.statistics import SUM, Statistic

Replace = Callable[[Any, str, Any], None]
kind: Any = type(next(line.task for line in tasks.TASKS if line.member == "echo"))


def one_row_a_user(replace: Replace) -> None:
    """Users own several rows, and the noise is scaled for one (composition.md §2.2)."""
    sound = kind.prepare

    def prepare(*facts: Any) -> Any:
        (choice,) = sound(*facts)
        noise = dataclasses.replace(choice.estimator.measure, l1=1, l2_squared=1)
        return (dataclasses.replace(choice, estimator=Number(noise)),)

    replace(kind, "prepare", prepare)


def rows_count_twice(replace: Replace) -> None:
    """What is read moves by two where the noise is scaled for one."""
    sound = kind.prepare

    def prepare(*facts: Any) -> Any:
        return tuple(dataclasses.replace(one, statistics=(Statistic(SUM, "2"),)) for one in sound(*facts))

    replace(kind, "prepare", prepare)


CONTROLS: dict[str, Callable[[Replace], None]] = {
    breaks.__name__: breaks for breaks in (one_row_a_user, rows_count_twice)
}
