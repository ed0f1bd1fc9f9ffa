"""What PostgreSQL itself evaluates of a question: constants, and queries over constants and public tables. No row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from pg_epsilon.engine.failures import sqlstate_of
from pg_epsilon.ledger import Execute
from pg_epsilon.query.expression import FoldError
from pg_epsilon.query.types import Fixed, Textual

CANCEL = "57014"
_COLUMNS = 500  # constants of one statement, two columns each: PostgreSQL has room for 1,664

_SETTINGS = (
    "SELECT set_config('DateStyle', $1, true), set_config('IntervalStyle', $2, true), set_config('TimeZone', $3, true)"
)


class Folding:
    """Evaluates SQL that names no protected relation. An error of PostgreSQL's is a `FoldError`; a cancel stays one.

    execute: runs prepared SQL; run: SQL as it is; undone: a context that is undone when it ends by an error.
    """

    def __init__(
        self,
        execute: Execute,
        run: Callable[[str], Sequence[Any]],
        undone: Callable[[], AbstractContextManager[Any]],
    ) -> None:
        self._execute = execute
        self._run = run
        self._undone = undone

    def texts(self, query: str) -> list[str | None]:
        """The column v of a query over constants and public tables, under the engine's own settings."""
        try:
            with self._undone():
                return [row["v"] for row in self._run(query)]
        except Exception as error:
            raise _fold_error(error) from None

    def folder(self, settings: dict[str, Any]) -> Callable[[Sequence[str]], Sequence[str | None]]:
        """Evaluates constants as the analyst's session would: his TimeZone and DateStyle in, ISO and UTC out."""

        def fold(expressions: Sequence[str]) -> Sequence[str | None]:
            if len(expressions) == 1 and isinstance(expressions[0], Fixed):
                return self._fixed(expressions[0])
            if len(expressions) == 1 and isinstance(expressions[0], Textual) and expressions[0].plain:
                return self._plain(expressions[0])
            order = str(settings.get("DateStyle") or "ISO, MDY").rpartition(",")[2].strip()
            try:
                with self._undone():
                    style, zone = settings.get("IntervalStyle") or "postgres", settings.get("TimeZone") or "UTC"
                    self._set(f"ISO, {order}", str(style), str(zone))
                    parts = [expressions[start : start + _COLUMNS] for start in range(0, len(expressions), _COLUMNS)]
                    found = [(len(part), self._run(_query(part))[0]) for part in parts]
                    self._set("ISO, YMD", "iso_8601", "UTC")
                    return [self._in_utc(row[f"v{i}"], row[f"t{i}"]) for many, row in found for i in range(many)]
            except Exception as error:
                raise _fold_error(error) from None

        return fold

    def _fixed(self, one: Fixed) -> Sequence[str | None]:
        """Prepared once, because planning it takes longer than all else."""
        try:
            with self._undone():
                return [self._execute(f"SELECT {one.prepared} AS v", ["text"], [one.argument])[0]["v"]]
        except Exception as error:
            raise _fold_error(error) from None

    def _plain(self, one: Textual) -> Sequence[str | None]:
        """Under the engine's own settings, because the asker's make no difference."""
        try:
            with self._undone():
                return [self._run(one.statement)[0]["v0"]]
        except Exception as error:
            raise _fold_error(error) from None

    def _in_utc(self, value: str | None, type_name: str) -> str | None:
        if value is None or type_name != "timestamp with time zone":
            return value
        return str(self._execute("SELECT $1::timestamptz::text AS v", ["text"], [value])[0]["v"])

    def _set(self, dates: str, intervals: str, zone: str) -> None:
        """What the texts of moments and intervals depend on, by one statement."""
        self._execute(_SETTINGS, ["text"] * 3, [dates, intervals, zone])


def _query(expressions: Sequence[str]) -> str:
    """One row of the constants' texts, v0, v1, …, and of the names of their types, t0, t1, …"""
    if len(expressions) == 1 and isinstance(expressions[0], Textual):
        return expressions[0].statement
    # each is computed once: some look into catalogs
    asked = ", ".join(f"({e}) AS x{i}" for i, e in enumerate(expressions))
    columns = ", ".join(f"pg_typeof(x{i})::text AS t{i}, x{i}::text AS v{i}" for i in range(len(expressions)))
    return f"SELECT {columns} FROM (SELECT {asked} OFFSET 0) AS c"


def _fold_error(error: Exception) -> Exception:
    """What becomes of an error: PostgreSQL's own is about the constant, unless it is a cancel."""
    return error if sqlstate_of(error) in (None, CANCEL) else FoldError()
