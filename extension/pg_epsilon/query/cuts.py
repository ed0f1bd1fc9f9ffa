"""Columns with declared edges whose values cannot be listed: timestamps, floating point numbers, wide integers.

A condition that looks at such a column only by comparing it with constants is the same between two neighbours of these
constants and the edges. So the constants, the edges and one value of every gap between them stand for all values of the
bins (turbo.md §2.3): the condition is evaluated at each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pg_epsilon.errors import DPError
from pg_epsilon.query import parse
from pg_epsilon.query.compare import COMPARISONS
from pg_epsilon.query.literals import quote
from pg_epsilon.query.parse import ast, enums
from pg_epsilon.query.schema import Column
from pg_epsilon.query.types import Kind, size_of, type_of

_E = enums.A_Expr_Kind
_COMPARED = {_E.AEXPR_OP, _E.AEXPR_DISTINCT, _E.AEXPR_NOT_DISTINCT, _E.AEXPR_IN}
_EXACT_TYPES = frozenset({"numeric", "int2", "int4", "int8"})


@dataclass(frozen=True)
class _Line:
    """How values are ordered: the type to compute in, which constants' types are compared so, and SQL for a value
    between a and b, strictly if there is room (days of moments with a time zone have 24 hours in UTC alone)."""

    wide: str
    constants: frozenset[str]
    middle: str


_MOMENT = "a + (b - a) / 2"
_LINES = {
    Kind.INT: _Line("pg_catalog.numeric", _EXACT_TYPES, "(a + b) * 0.5"),
    Kind.NUMERIC: _Line("pg_catalog.numeric", _EXACT_TYPES, "(a + b) * 0.5"),
    Kind.FLOAT: _Line("pg_catalog.float8", frozenset({"float8"}), _MOMENT),
    Kind.DATE: _Line("pg_catalog.date", frozenset({"date"}), _MOMENT),
    Kind.TIMESTAMP: _Line("pg_catalog.timestamp", frozenset({"timestamp"}), _MOMENT),
    Kind.TIMESTAMPTZ: _Line(
        "pg_catalog.timestamptz",
        frozenset({"timestamptz"}),
        "((a AT TIME ZONE 'UTC') + ((b AT TIME ZONE 'UTC') - (a AT TIME ZONE 'UTC')) / 2) AT TIME ZONE 'UTC'",
    ),
}


@dataclass(frozen=True)
class Edges:
    """A column's declared edges, and what its values are. scale: digits after the point that they can have."""

    name: str
    type_name: str
    kind: Kind
    edges: tuple[str, ...]
    nullable: bool
    scale: int | None

    def points(self, constants: tuple[str, ...]) -> tuple[str, int]:
        """(SQL of the values v that stand for all, in an order o; at most how many there are).

        A value between two cuts is rounded to what the column can hold: if there is any such value between them, the
        one next to the middle is.
        """
        line = _LINES[self.kind]
        texts = ", ".join(quote(text) for text in (*self.edges, *constants))
        low, high = (f"{quote(edge)}::{line.wide}" for edge in (self.edges[0], self.edges[-1]))
        cuts = f"SELECT DISTINCT c FROM pg_catalog.unnest(ARRAY[{texts}]::{line.wide}[]) AS c"
        middle, itself = line.middle, ""
        if self.scale is not None:
            middle = f"pg_catalog.round({line.middle}, {self.scale})"
            itself = f" WHERE pg_catalog.round(c, {self.scale}) = c"
        gaps = "SELECT c AS a, pg_catalog.lead(c) OVER (ORDER BY c) AS b FROM cuts"
        between = f"SELECT m FROM (SELECT a, b, {middle} AS m FROM ({gaps}) AS g WHERE b IS NOT NULL) AS g"
        null = " UNION ALL SELECT NULL" if self.nullable else ""
        every = f"SELECT c FROM cuts{itself} UNION ALL {between} WHERE a < m AND m < b{null}"
        ordered = f"SELECT c::{self.type_name}, pg_catalog.row_number() OVER (ORDER BY c) FROM ({every}) AS v"
        sql = f"WITH cuts AS ({cuts} WHERE c >= {low} AND c <= {high}) {ordered}"
        return sql, 2 * (len(self.edges) + len(constants)) + 1


def edges_of(column: Column) -> Edges | None:
    """A column's edges, if conditions on it can be told by cuts: finite ones, of an ordered type."""
    policy, type_ = column.policy, type_of(column)
    if policy is None or policy.edges is None or policy.domain is not None or type_.kind not in _LINES:
        return None
    if type_.name == "pg_catalog.float4" or any(
        text.lstrip("+-").lower().startswith(("inf", "nan")) for text in policy.edges
    ):
        return None
    size = size_of(column)
    return Edges(column.name, type_.name, type_.kind, policy.edges, policy.nullable, None if size is None else size[1])


def constants(sql: str, column: Edges) -> tuple[str, ...] | None:
    """The constants that compiled SQL compares a column r.name with; None if it does anything else with it."""
    found: list[str] = []
    try:
        right = _collect(parse.parse_expression(sql), column, found)
    except DPError:  # longer or deeper than what an analyst may write
        return None
    return tuple(dict.fromkeys(found)) if right else None


def _collect(node: Any, column: Edges, found: list[str]) -> bool:
    if _is(node, column):
        return False
    if isinstance(node, ast.NullTest) and _is(node.arg, column):
        return True
    if isinstance(node, ast.A_Expr) and node.kind in _COMPARED and _is(node.lexpr, column):
        name: Any = node.name
        if name[-1].sval not in COMPARISONS:
            return False
        several = node.rexpr if isinstance(node.rexpr, tuple) else (node.rexpr,)
        texts = [_text(one, _LINES[column.kind].constants) for one in several]
        found += [text for text in texts if text is not None]
        return None not in texts
    return all(_collect(child, column, found) for child in parse.children(node))


def _is(node: Any, column: Edges) -> bool:
    fields: Any = node.fields if isinstance(node, ast.ColumnRef) else ()
    return [getattr(field, "sval", None) for field in fields] == ["r", column.name]


def _text(node: Any, types: frozenset[str]) -> str | None:
    """A constant's text, if it is of one of these types: '…'::pg_catalog.type, or a bare number."""
    if isinstance(node, ast.TypeCast) and isinstance(node.arg, ast.A_Const):
        type_: Any = node.typeName
        right = type_.names[-1].sval in types and not type_.typmods and not type_.arrayBounds
        return getattr(node.arg.val, "sval", None) if right else None
    if isinstance(node, ast.A_Const) and "numeric" in types:
        if isinstance(node.val, ast.Integer):
            return str(node.val.ival or 0)
        return node.val.fval if isinstance(node.val, ast.Float) else None
    return None
