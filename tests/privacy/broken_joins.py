"""Engines that break one rule of questions over several units: what test_replay_joins.py must catch. In the server."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

Replace = Callable[[Any, str, Any], None]


def second_owner_forgotten(replace: Replace) -> None:
    """An edge belongs to its first end only: the row of the other unit is truncated by nobody."""
    from pg_epsilon.mechanisms import lp_bounds

    sound = lp_bounds.merged

    def merged(owners: Any, values: Any, labels: Any = None) -> Any:
        return sound(owners[:, :1], values, labels)

    replace(lp_bounds, "merged", merged)


def half_the_sensitivity(replace: Replace) -> None:
    """Noise for half of what one unit can change."""
    from pg_epsilon.mechanisms import r2t_join

    sound = r2t_join.JoinLadder.ladder

    def ladder(self: Any) -> Any:
        return [level._replace(sensitivity=level.sensitivity // 2) for level in sound(self)]

    replace(r2t_join.JoinLadder, "ladder", ladder)


def not_truncated(replace: Replace) -> None:
    """Every level answers the whole value."""
    from pg_epsilon.mechanisms import truncation_lp

    replace(truncation_lp.Truncation, "value", lambda self, t, need=None: self._total * 128)


def levels_unpaid(replace: Replace) -> None:
    """The budget is spent on every level, and charged once."""
    from pg_epsilon import noise

    recorder = noise.current()
    sound = type(recorder).highest

    def highest(self: Any, levels: Any, exact: Any, *, epsilon: Any, label: str) -> int:
        return sound(self, levels, exact, epsilon=epsilon * len(levels), label=label)

    replace(type(recorder), "highest", highest)


def undeclared_rows(replace: Replace) -> None:
    """The threshold ladder ends at the number of rows there are, not at what was declared."""
    from pg_epsilon.mechanisms import r2t_join

    sound = r2t_join.core

    def core(rows: Any, ladder: Any, noise: Any, label: str) -> int:
        there = max(1, len(rows or b"") // 24)
        levels = tuple(t for t in ladder.levels if t <= there) or ladder.levels[:1]
        return sound(rows, dataclasses.replace(ladder, levels=levels), noise, label)

    replace(r2t_join, "core", core)


CONTROLS: dict[str, Callable[[Replace], None]] = {
    "second_owner_forgotten": second_owner_forgotten,
    "half_the_sensitivity": half_the_sensitivity,
    "not_truncated": not_truncated,
    "levels_unpaid": levels_unpaid,
    "undeclared_rows": undeclared_rows,
}
RULES = {
    "second_owner_forgotten": "sensitivity",
    "half_the_sensitivity": "sensitivity",
    "not_truncated": "sensitivity",
    "levels_unpaid": "price",
    "undeclared_rows": "draws",
}
