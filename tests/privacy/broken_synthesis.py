"""Syntheses that break one rule each, for test_replay_synthesis.py; runs inside the server as broken_mechanisms.py."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import Any

from pg_epsilon.mechanisms import additive
from pg_epsilon.synthesis import choice, marginals

Replace = Callable[[Any, str, Any], None]
parts: Any = choice


def tables_in_parallel(replace: Replace) -> None:
    """A row is in a cell of every table, and is priced as if in one of them (composition.md §2.4)."""
    sound = marginals.vector
    replace(marginals, "vector", lambda tables, rows, amount, rho: sound(1, rows, amount, rho))


def one_row_a_user(replace: Replace) -> None:
    """Users own several rows, and noise and selections are scaled for one (§2.2)."""
    sound = parts._measure
    replace(parts, "_measure", lambda *facts: dataclasses.replace(sound(*facts), rows=1))


def every_row_counts(replace: Replace) -> None:
    """The cap on a user's rows is declared and not enforced (§2.3)."""
    sound = parts.statement
    replace(parts, "statement", lambda *facts: re.sub(r" WHERE n <= \d+", "", sound(*facts)))


def columns_without_noise(replace: Replace) -> None:
    sound = additive.core

    def core(exact: Sequence[int], how: Any, source: Any, label: str) -> list[int]:
        return list(exact) if label.endswith("columns") else sound(exact, how, source, label)

    replace(additive, "core", core)


def selections_for_nothing(replace: Replace) -> None:
    """Only what is measured is charged, not the choice of it."""
    sound = marginals.Marginals.charges
    replace(
        marginals.Marginals,
        "charges",
        lambda measure: tuple(charge for charge in sound(measure) if charge.kind != "exponential"),
    )


CONTROLS: dict[str, Callable[[Replace], None]] = {
    breaks.__name__: breaks
    for breaks in (tables_in_parallel, one_row_a_user, every_row_counts, columns_without_noise, selections_for_nothing)
}
