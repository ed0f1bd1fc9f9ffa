"""Strategies that were found before: the catalog's table dp.strategy, as the room sees it (sum-workloads.md §8).

A strategy is a function of public facts: the workload, a theta that was released, the kind of noise. So the shelf says
nothing of rows. The room notes what it used, and writes what is not
there yet once the question is paid, or drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Key = tuple[str, int]  # digest of the workload and the kind of noise; theta, lattice units
Run = Callable[[str, Sequence[str], Sequence[Any]], Sequence[Mapping[str, Any]]]


@dataclass(frozen=True)
class Kept:
    """A row of dp.strategy. shown: JSON of the workload, theta and the predicted errors, for whoever asked it."""

    strategy: str
    queries: int
    columns: int
    shown: str
    definition: bytes


MOST_KEPT = 4_000_000  # bytes of one strategy; a larger one is found anew
MOST_IN_ALL = 256_000_000  # of all of them: who makes up workloads fills nobody's disk
_FIND = "SELECT definition FROM dp.strategy WHERE workload = $1 AND theta = $2"
_ROOM = "SELECT COALESCE(sum(octet_length(definition)), 0) < $1 AS room FROM dp.strategy"
_KEEP = (
    "INSERT INTO dp.strategy (workload, theta, owner, strategy, queries, columns, shown, definition)"
    " VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING"
)
_TYPES = ["text", "bigint", "name", "text", "integer", "integer", "jsonb", "bytea"]


def _nothing(sql: str, types: Sequence[str], args: Sequence[Any]) -> Sequence[Mapping[str, Any]]:
    """Outside a server nothing is kept."""
    return []


_run: Run = _nothing
_used: dict[Key, Callable[[], Kept]] = {}


def use(run: Run) -> None:
    """How the catalog is read and written; without it nothing is found there."""
    global _run
    _run = run


def start() -> None:
    """A question begins: what an earlier one used, and did not get to keep, is nobody's."""
    _used.clear()


def find(key: str, theta: int) -> bytes | None:
    """The definition of a kept strategy."""
    found = _run(_FIND, ["text", "bigint"], [key, theta])
    return bytes(found[0]["definition"]) if found else None


def note(key: str, theta: int, kept: Callable[[], Kept]) -> None:
    """A strategy that this question uses; `kept` writes it out, if it is not in the catalog."""
    _used[(key, theta)] = kept


def keep(who: str) -> None:
    """Write the strategies that were used and are not in the catalog, as long as there is room."""
    while _used:
        (key, theta), kept = _used.popitem()
        if _run(_FIND, ["text", "bigint"], [key, theta]) or not _has_room():
            continue
        one = kept()
        if len(one.definition) + len(one.shown) <= MOST_KEPT:
            row = [key, theta, who, one.strategy, one.queries, one.columns, one.shown, one.definition]
            _run(_KEEP, _TYPES, row)


def _has_room() -> bool:
    found = _run(_ROOM, ["bigint"], [MOST_IN_ALL])
    return bool(found and found[0]["room"])
