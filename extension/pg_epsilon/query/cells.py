"""Integers cut to equal cells: x / w, and x - ((x - o) % w + w) % w, as the proxy writes time_bucket(w, x, o).

A column with more declared values than can be listed is sampled once a cell.
"""

from __future__ import annotations

from decimal import Decimal
from math import gcd
from typing import Any

from pg_epsilon.query.parse import ast


def cell(node: Any) -> tuple[Any, Decimal] | None:
    """(column, width) of an expression that is constant between multiples of the width; None for another.

    The caller makes sure that the column is of integers.
    """
    quotient = operands(node, "/")
    if quotient is not None:
        column, width = quotient[0], _positive(quotient[1])
        return (column, Decimal(width)) if isinstance(column, ast.ColumnRef) and width is not None else None
    return _bucket(node)


def _bucket(node: Any) -> tuple[Any, Decimal] | None:
    taken = operands(node, "-")
    whole = operands(taken[1], "%") if taken is not None else None
    sum_ = operands(whole[0], "+") if whole is not None else None
    rest = operands(sum_[0], "%") if sum_ is not None else None
    if taken is None or whole is None or sum_ is None or rest is None:
        return None
    column, widths = taken[0], {_positive(one) for one in (whole[1], sum_[1], rest[1])}
    width = widths.pop()
    if widths or width is None or not isinstance(column, ast.ColumnRef):
        return None
    if _same(rest[0], column):
        return column, Decimal(width)
    moved = operands(rest[0], "-")
    offset = _positive(moved[1]) if moved is not None else None
    if moved is None or offset is None or not _same(moved[0], column):
        return None
    return column, Decimal(gcd(width, offset))


def finest(one: Decimal, other: Decimal) -> Decimal:
    """The widest step at whose multiples both kinds of cells end."""
    whole = one == int(one) and other == int(other)
    return Decimal(gcd(int(one), int(other))) if whole else min(one, other)


def operands(node: Any, operator: str) -> tuple[Any, Any] | None:
    """The two sides of an operator's expression; None of another."""
    if not isinstance(node, ast.A_Expr) or [part.sval for part in node.name or ()] != [operator]:
        return None
    return node.lexpr, node.rexpr


def _positive(node: Any) -> int | None:
    if not isinstance(node, ast.A_Const):
        return None
    value = node.val
    text = str(value.ival or 0) if isinstance(value, ast.Integer) else getattr(value, "fval", None) or ""
    return int(text) or None if text.isascii() and text.isdigit() else None


def _same(one: Any, other: Any) -> bool:
    return isinstance(one, ast.ColumnRef) and _words(one) == _words(other)


def _words(column: Any) -> list[str | None]:
    return [getattr(part, "sval", None) for part in column.fields]
