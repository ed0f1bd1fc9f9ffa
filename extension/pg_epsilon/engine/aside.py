"""Statements that only save time: what a process remembers, it need not ask for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


class Aside:
    """Runs statements of ours, each prepared once per backend.

    prepare, execute: plpy's own, taken when the entry is loaded. Not by the name `plpy`, which audits replace to
    compare what is asked on neighbours: whether a process remembers something is a matter of time, as how long a core
    takes is.
    """

    def __init__(self, prepare: Callable[..., Any], execute: Callable[..., Any]) -> None:
        self._prepare = prepare
        self._execute = execute
        self._plans: dict[str, Any] = {}

    def rows(self, sql: str, types: Sequence[str], args: Sequence[Any]) -> list[dict[str, Any]]:
        """Rows of a statement on public facts."""
        if sql not in self._plans:
            self._plans[sql] = self._prepare(sql, list(types))
        return list(self._execute(self._plans[sql], list(args)))
