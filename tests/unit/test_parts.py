"""Chunks and partitions whose locks do not fit into the server: which of them refuse, and what is said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pg_epsilon.engine import parts
from pg_epsilon.engine.planning import PlanningFailed
from pg_epsilon.errors import DPError
from pg_epsilon.plan import Plan
from pg_epsilon.query.schema import Column, ColumnPolicy, Relation
from pg_epsilon.query.types import Item

HOUR = 3_600_000_000
ROOM, SETTING = 4950, 64


def plan(*uppers: str) -> Plan:
    """A question over hypertables m0, m1 … of whose integer time the owner declared 0 to uppers[i]."""
    relations = []
    for number, upper in enumerate(uppers):
        policy = ColumnPolicy("bounds", lower="0", upper=upper)
        relations.append(Relation("public", f"m{number}", number, {"t": Column("t", 23, "integer", policy=policy)}))
    source = SimpleNamespace(
        items=[Item(relation, None, f"r{relation.oid}") for relation in relations],
        conjuncts=(),
        relations=[SimpleNamespace(relation=relation) for relation in relations],
    )
    return cast(Plan, SimpleNamespace(request=SimpleNamespace(source=source)))


def chunks(*relations: int, width: int = 1, locks: int = 2) -> parts.Execute:
    def execute(sql: str, types: Sequence[str] = (), args: Sequence[Any] = ()) -> list[dict[str, Any]]:
        common = {"key": "t", "is_time": False, "width": width, "locks": locks, "room": ROOM, "setting": SETTING}
        return [{"relation": oid, **common} for oid in relations if oid in args[0]]

    return execute


def refusal(execute: parts.Execute, asked: Plan) -> DPError:
    with pytest.raises(DPError) as raised:
        parts.check(execute, asked)
    assert raised.value.sqlstate == "DP003"
    return raised.value


def test_more_chunks_than_there_is_room_for_are_refused_with_what_fits() -> None:
    told = refusal(chunks(0), plan("7999"))
    assert (
        "may read 8,001 chunks of public.m0, and locks 16,002 relations; the server has room for 4,950" in told.message
    )
    assert "Narrow it by a condition on t, to at most 2,475 chunks of 1 value." in (told.hint or "")
    assert "max_locks_per_transaction = 207 and" in (told.hint or "")


@pytest.mark.parametrize(("upper", "width"), [("2473", 1), ("247000", 100)])
def test_what_fits_is_let_through(upper: str, width: int) -> None:
    parts.check(chunks(0, width=width), plan(upper))


def test_locks_of_all_relations_of_a_question_count_together() -> None:
    parts.check(chunks(0), plan("1999", "1999"))
    told = refusal(chunks(0, 1), plan("1999", "1999"))
    assert "locks 8,004 relations" in told.message
    assert "to at most 474 chunks" in (told.hint or "")


def test_a_name_that_is_not_published_is_not_told() -> None:
    hidden = plan("7999")
    columns = cast(dict[str, Column], hidden.request.source.items[0].relation.columns)
    columns["t"] = replace(columns["t"], published=False)
    assert "Narrow it by a condition on its time, to" in (refusal(chunks(0), hidden).hint or "")


def test_of_what_is_not_declared_nothing_is_said() -> None:
    parts.check(chunks(), plan("7999"))
    undeclared = plan("7999")
    undeclared.request.source.items[0].relation.columns["t"] = Column("t", 23, "integer")  # type: ignore[index]
    parts.check(chunks(0), undeclared)


@pytest.mark.parametrize(
    ("width", "text"),
    [
        (HOUR, "1 hour"),
        (24 * HOUR, "1 day"),
        (7 * 24 * HOUR, "7 days"),
        (90 * 60_000_000, "5,400 seconds"),
        (1, "1 microsecond"),
    ],
)
def test_widths_in_words(width: int, text: str) -> None:
    assert parts.width_text(width, True) == text
    assert parts.width_text(width, False) == (f"{width:,} values" if width > 1 else "1 value")


def failing(sqlstate: str, *rows: dict[str, Any]) -> Exception:
    """What comes out of planning that ends in an error, where the relations have such parts."""
    with pytest.raises((DPError, PlanningFailed)) as raised:  # noqa: SIM117
        with parts.counted(lambda *_: [{**row, "room": ROOM, "setting": SETTING} for row in rows], plan("1", "1")):
            raise PlanningFailed(sqlstate)
    return raised.value


def test_partitions_without_room_are_a_refusal() -> None:
    many = {"relation": 0, "parts": 1100, "locks": 2201}
    few = {"relation": 1, "parts": 0, "locks": 2}
    told = failing("53200", few, many)
    assert isinstance(told, DPError)
    assert told.sqlstate == "DP003"
    assert "public.m0 has 1,100 partitions" in told.message
    assert "max_locks_per_transaction = 128 and" in (told.hint or "")


@pytest.mark.parametrize(
    ("sqlstate", "rows"),
    [
        ("53200", [{"relation": 0, "parts": None, "locks": 9000}]),
        ("53200", [{"relation": 0, "parts": 5000, "locks": 9000}, {"relation": 1, "parts": None, "locks": 3}]),
        ("53200", [{"relation": 0, "parts": 12, "locks": 36}]),
        ("53200", []),
        ("XX000", [{"relation": 0, "parts": 5000, "locks": 9000}]),
    ],
    ids=["chunks", "chunks beside partitions", "few", "nothing", "another failure"],
)
def test_where_a_row_may_have_decided_it_stays_a_failure(sqlstate: str, rows: list[dict[str, Any]]) -> None:
    assert isinstance(failing(sqlstate, *rows), PlanningFailed)
