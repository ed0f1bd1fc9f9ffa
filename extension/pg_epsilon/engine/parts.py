"""Whether the locks of all chunks or partitions that a question may read fit into the server (composition.md §10.3 a).

A plan locks each of them, and each of its indexes. Of a hypertable a row decides how many chunks there
are: so only what is declared refuses, before planning. Partitions are made by DDL, which is public: where
planning finds no room for them it is a refusal, no failure that nobody foresaw.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pg_epsilon.engine.planning import PlanningFailed
from pg_epsilon.errors import SHAPE, DPError
from pg_epsilon.ledger import Execute
from pg_epsilon.plan import Plan
from pg_epsilon.query.schema import written
from pg_epsilon.query.span import span_of

_OUT_OF_MEMORY = "53200"  # what a full lock table raises
_UNITS = ((86_400_000_000, "day"), (3_600_000_000, "hour"), (1_000_000, "second"), (1, "microsecond"))
_CHUNKS = (
    "SELECT c.relation::bigint AS relation, c.key::text AS key, c.is_time, c.width, c.locks, r.room, r.setting"
    " FROM dp._chunks_of($1) c, dp._lock_room() r"
)
_PARTITIONS = (
    "SELECT p.relation::bigint AS relation, p.parts, p.locks, r.room, r.setting"
    " FROM dp._partitions_of($1) p, dp._lock_room() r"
)


@dataclass(frozen=True)
class Many:
    """Chunks of a hypertable that a question may read, by what is declared.

    key: its time, as analysts write it, who may not know its name. width: of a chunk, in words.
    """

    name: str
    key: str
    pieces: int
    width: str
    locks: int


def check(execute: Execute, plan: Plan) -> None:
    """DP003 if more chunks may have to be locked than there is room for; nothing is charged by then.

    Of the hypertables of whose time the owner declared bounds: other ones are planned, and the outcome
    is an event where that fails (§10.3 d).
    """
    source = plan.request.source
    found = execute(_CHUNKS, ["oid[]"], [sorted({item.relation.oid for item in source.items})])
    many: list[Many] = []
    for row in found:
        for item in source.items:
            if item.relation.oid == row["relation"]:
                span = span_of(item, source.conjuncts, row["key"], time.time())
                if span is not None:
                    pieces = span.pieces(row["width"])
                    width = width_text(row["width"], row["is_time"])
                    known = item.relation.columns[row["key"]].published
                    key = written(row["key"]) if known else "its time"
                    many.append(Many(item.relation.qualified, key, pieces, width, pieces * row["locks"]))
    if found and sum(one.locks for one in many) > found[0]["room"]:
        raise too_many_chunks(many, found[0]["room"], found[0]["setting"])


def too_many_chunks(many: Sequence[Many], room: int, setting: int) -> DPError:
    """The refusal, with what to type. setting: max_locks_per_transaction."""
    most = max(many, key=lambda one: one.locks)
    locks = sum(one.locks for one in many)
    fits = max(1, most.pieces * (room - (locks - most.locks)) // most.locks)
    return DPError(
        SHAPE,
        f"by what is declared, this question may read {most.pieces:,} chunks of {most.name}, and locks"
        f" {locks:,} relations; the server has room for {room:,}: nothing was charged",
        f"Narrow it by a condition on {most.key}, to at most {fits:,} chunks of {most.width}. The"
        f" administrator can also set max_locks_per_transaction = {_enough(locks, room, setting)} and restart"
        " PostgreSQL; the owner can make chunks wider, or declare bounds that are nearer to the rows.",
    )


def width_text(width: int, is_time: bool) -> str:
    """The width of a chunk in the largest unit that it is a whole number of."""
    if not is_time:
        return "1 value" if width == 1 else f"{width:,} values"
    size, unit = next((size, unit) for size, unit in _UNITS if width % size == 0)
    return f"{width // size:,} {unit}{'' if width == size else 's'}"


@contextmanager
def counted(execute: Execute, plan: Plan) -> Iterator[None]:
    """Planning in the block that finds no room for the locks of many partitions is a refusal, DP003.

    Only where every relation read has partitions, or none: where chunks or inheritance children are
    among what is read, it stays the failure that it is.
    """
    try:
        yield
    except PlanningFailed as failed:
        if failed.sqlstate == _OUT_OF_MEMORY:
            names = {policy.relation.oid: policy.relation.qualified for policy in plan.request.source.relations}
            _check_partitions(execute(_PARTITIONS, ["oid[]"], [sorted(names)]), names)
        raise


def _check_partitions(found: Sequence[dict[str, Any]], names: Mapping[int, str]) -> None:
    locks = sum(row["locks"] for row in found)
    if not found or any(row["parts"] is None for row in found) or 4 * locks < found[0]["room"]:
        return
    most = max(found, key=lambda row: int(row["locks"]))
    room, setting = found[0]["room"], found[0]["setting"]
    raise DPError(
        SHAPE,
        f"{names[most['relation']]} has {most['parts']:,} partitions, and a plan of this question found no room for the"
        " locks of those that it reads: nothing was charged",
        "Narrow it by a condition on the partition key. The administrator can also set"
        f" max_locks_per_transaction = {max(_enough(2 * locks, room, setting), 2 * setting)} and restart PostgreSQL.",
    )


def _enough(locks: int, room: int, setting: int) -> int:
    return -(-locks * setting // room)
