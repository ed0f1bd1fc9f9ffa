"""How long a text can be by what is declared: of a domain, of char(n) and varchar(n), of what is cut."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from pg_epsilon.query.intervals import UNKNOWN, Range
from pg_epsilon.query.parse import ast
from pg_epsilon.query.schema import Column
from pg_epsilon.query.types import BPCHAR, Kind, type_of

ColumnOf = Callable[[Any], Column]
Ends = tuple[int, int]
_TRIMS = frozenset({"btrim", "ltrim", "rtrim"})
_CUTS = {"left": 2, "right": 2, "substr": 3, "substring": 3}  # and how many arguments say how much is left


def length_range(node: Any, column_of: ColumnOf, *, octets: bool = False) -> Range:
    """The range of a text's length, an integer, in characters or octets of UTF-8; or UNKNOWN."""
    ends = _octets(node, column_of) if octets else _characters(node, column_of)
    return UNKNOWN if ends is None else _whole(*ends)


def place_range(node: Any, column_of: ColumnOf) -> Range:
    """The range of a place in a text, or 0."""
    ends = _characters(node, column_of)
    return UNKNOWN if ends is None else _whole(0, ends[1])


def _whole(low: int, high: int) -> Range:
    return Range(Fraction(low), Fraction(high), Fraction(1), whole=True)


def _octets(node: Any, column_of: ColumnOf) -> Ends | None:
    if isinstance(node, ast.ColumnRef):
        column = column_of(node)
        values = column.policy.domain if column.policy is not None else None
        if values is not None and type_of(column).kind is Kind.TEXT:
            found = [len(_stored(column, value).encode()) for value in values]
            return (min(found), max(found)) if found else None
    if isinstance(node, ast.A_Const) and isinstance(node.val, ast.String):
        return (len((node.val.sval or "").encode()),) * 2
    ends = _characters(node, column_of)
    if ends is None or not isinstance(node, ast.ColumnRef):
        return None if ends is None else (ends[0], 4 * ends[1])
    column = column_of(node)
    least = column.typmod - 4 if _padded(column) else 0  # char(n) is stored with its blanks
    return least, 4 * ends[1]


def _stored(column: Column, value: str) -> str:
    return value.ljust(column.typmod - 4) if _padded(column) else value


def _padded(column: Column) -> bool:
    return type_of(column).name == BPCHAR.name and column.typmod > 4


def _characters(node: Any, column_of: ColumnOf) -> Ends | None:
    if isinstance(node, ast.ColumnRef):
        return _of_column(column_of(node))
    if isinstance(node, ast.A_Const):
        return (len(node.val.sval or ""),) * 2 if isinstance(node.val, ast.String) else None
    if not isinstance(node, ast.FuncCall):
        return None
    names: Any = node.funcname
    name, args = names[-1].sval, tuple(node.args or ())
    inner = _characters(args[0], column_of) if args else None
    if name in _TRIMS:
        return None if inner is None else (0, inner[1])
    if (
        _CUTS.get(name) != len(args)
        or not isinstance(args[-1], ast.A_Const)
        or not isinstance(args[-1].val, ast.Integer)
    ):
        return None
    most = args[-1].val.ival or 0
    if inner is None:
        return 0, most
    return min(inner[0], most) if len(args) == 2 else 0, min(inner[1], most)


def _of_column(column: Column) -> Ends | None:
    type_ = type_of(column)
    if type_.kind is not Kind.TEXT:
        return None
    values = column.policy.domain if column.policy is not None else None
    if values is not None:
        found = [len(value.rstrip(" ") if type_.name == BPCHAR.name else value) for value in values]
        return (min(found), max(found)) if found else None
    return (0, column.typmod - 4) if column.typmod > 4 and (type_.varying or _padded(column)) else None
