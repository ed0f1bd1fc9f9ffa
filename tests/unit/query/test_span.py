"""Between which values the rows lie, by public facts: for the number of chunks that a question may read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fix_query import fold
from pg_epsilon.query.expression import Scope, compile_predicate
from pg_epsilon.query.schema import Column, ColumnPolicy, Relation
from pg_epsilon.query.span import Span, span_of
from pg_epsilon.query.types import Item

DAY = 86_400_000_000
NOW = 1_704_067_200.0  # 2024-01-01
BOUNDS = {
    "integer": ("0", "99"),
    "date": ("2023-01-01", "2030-01-01"),
    "timestamp with time zone": ("2023-01-01 00:00:00+00", "2030-01-01 00:00:00+00"),
    "timestamp without time zone": ("2023-01-01 00:00:00", "2023-12-30 12:00:00"),
}
OIDS = {"integer": 23, "date": 1082, "timestamp with time zone": 1184, "timestamp without time zone": 1114}


def of(type_name: str, predicate: str = "", kind: str = "bounds") -> Span | None:
    lower, upper = BOUNDS[type_name] if kind == "bounds" else (None, None)
    policy = ColumnPolicy(kind, lower=lower, upper=upper)
    relation = Relation("public", "m", 1, {"at": Column("at", OIDS[type_name], type_name, policy=policy)})
    scope = Scope(relation=relation, sql_alias="r")
    conjuncts = compile_predicate(predicate, scope, fold).conjuncts if predicate else ()
    return span_of(Item(relation, None, "r"), conjuncts, "at", NOW)


def days(first: int, last: float) -> Span:
    """Of the first and the last day after 2023-01-01."""
    begin = int(NOW) * 1_000_000 - 365 * DAY
    return Span(begin + first * DAY, begin + int(last * DAY))


@pytest.mark.parametrize(
    ("type_name", "predicate", "found"),
    [
        ("integer", "", Span(0, 99)),
        ("integer", "at >= 90", Span(90, 99)),
        ("integer", "at >= 90 AND at < 1000", Span(90, 99)),
        ("integer", "at IN (7, 12, 9)", Span(7, 12)),
        ("integer", "at > 200", Span(200, 99)),
        ("integer", "at >= 5 OR at <= 3", Span(0, 99)),
        ("date", "", days(0, 366)),
        ("date", "at >= DATE '2023-01-11' AND at < DATE '2023-01-21'", days(10, 20)),
        ("timestamp with time zone", "", days(0, 366)),
        ("timestamp with time zone", "at >= TIMESTAMPTZ '2023-01-11 00:00:00+00'", days(10, 366)),
        ("timestamp with time zone", "at < TIMESTAMPTZ '2023-01-11 12:00:00+00'", days(0, 10.5)),
        ("timestamp without time zone", "", days(0, 363.5)),
    ],
)
def test_predicate_bounds_and_the_clock(type_name: str, predicate: str, found: Span) -> None:
    """No row is of the future: what is declared up to 2030 ends a day after now."""
    assert of(type_name, predicate) == found


def test_what_is_not_declared_has_no_span() -> None:
    """A long window says nothing of how many chunks there are."""
    assert of("integer", "at BETWEEN 0 AND 1000000", kind="opaque") is None
    assert span_of(Item(Relation("public", "m", 1, {}), None, "r"), (), "at", NOW) is None


def test_beyond_the_years_of_python_there_is_none() -> None:
    relation = Relation("public", "m", 1, {})
    policy = ColumnPolicy("bounds", lower="2023-01-01", upper="12023-01-01")
    relation = replace(relation, columns={"at": Column("at", 1082, "date", policy=policy)})
    assert span_of(Item(relation, None, "r"), (), "at", NOW) is None


@pytest.mark.parametrize(
    ("span", "width", "pieces"),
    [(Span(0, 99), 10, 11), (Span(5, 5), 10, 2), (Span(0, 100), 10, 12), (Span(9, 3), 10, 0)],
)
def test_pieces_wherever_they_begin(span: Span, width: int, pieces: int) -> None:
    met = [len({(value - begin) // width for value in range(span.low, span.high + 1)}) for begin in range(width)]
    assert max(met) <= pieces == span.pieces(width)
