"""Moments cut to equal cells by arithmetic on their seconds: floor(extract(epoch FROM x) / 300), (…::bigint / 300).

It is how dashboards and programs write date_bin where they do not know it.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from math import isqrt
from typing import Any

from pg_epsilon.query.cells import operands
from pg_epsilon.query.names import last_name, word
from pg_epsilon.query.parse import ast

_STEPS = frozenset({"floor", "ceil", "ceiling", "round", "trunc"})
_WHOLE = frozenset({"int2", "int4", "int8"})
_NUMBERS = _WHOLE | {"numeric", "float4", "float8"}
_LONGEST = 10**9  # an interval of so many seconds is added to any bound and stays in the calendar
_SAME_CLOCK = frozenset({"timestamp", "timestamptz"})  # the time zone of every read is UTC


def cell(node: Any) -> tuple[Any, int] | None:
    """(column, seconds between samples) of a key that is constant between multiples of whole seconds; None of another.

    They divide the width, as cells of other functions of the column need it, and are half of it or less: rounding may
    take both ends from a cell, and a quotient of float8 is off by less than that.
    """
    quotient = _quotient(node)
    if quotient is None:
        return None
    moment, width = _moment(quotient[0]), _seconds(quotient[1])
    if width is None or not isinstance(moment, ast.ColumnRef):
        return None
    return moment, width // 2 if width % 2 == 0 else width // _odd_factor(width)


def _odd_factor(width: int) -> int:
    """The least factor of an odd number."""
    return next((factor for factor in range(3, isqrt(width) + 1, 2) if width % factor == 0), width)


def _quotient(node: Any) -> tuple[Any, Any] | None:
    """The two sides of a division whose result is made whole, by a function, a cast, or because both are integers."""
    own = operands(node, "/")
    if own is not None:
        return own if all(_is_whole(side) for side in own) else None
    if isinstance(node, ast.FuncCall) and last_name(node.funcname) == "div":
        sides = node.args or ()
        return (sides[0], sides[1]) if len(sides) == 2 else None
    inner = _made_whole(node)
    return operands(inner, "/") if inner is not None else None


def _made_whole(node: Any) -> Any | None:
    """What a function or a cast makes whole; None of anything else."""
    if isinstance(node, ast.FuncCall):
        args = node.args or ()
        return args[0] if last_name(node.funcname) in _STEPS and len(args) == 1 else None
    return node.arg if _cast(node) in _WHOLE else None


def _moment(node: Any) -> Any | None:
    """x of extract(epoch FROM x), under whatever makes its seconds whole or another type of number."""
    while True:
        inner = node.arg if _cast(node) in _NUMBERS else _made_whole(node)
        if inner is None:
            break
        node = inner
    if not isinstance(node, ast.FuncCall) or last_name(node.funcname) not in ("extract", "date_part"):
        return None
    args = node.args or ()
    if len(args) != 2 or word(args[0]) != "epoch":
        return None
    return args[1].arg if _cast(args[1]) in _SAME_CLOCK else args[1]


def _is_whole(node: Any) -> bool:
    return (isinstance(node, ast.A_Const) and isinstance(node.val, ast.Integer)) or _cast(node) in _WHOLE


def _seconds(node: Any) -> int | None:
    """A constant of two seconds or more, all whole: of shorter ones only days could be listed."""
    while _cast(node) in _NUMBERS:
        node = node.arg
    value = node.val if isinstance(node, ast.A_Const) else None
    if isinstance(value, ast.Integer):
        text = str(value.ival or 0)
    else:  # a fraction, or a driver's '300'::int2
        text = getattr(value, "fval", None) or getattr(value, "sval", None) or ""
    try:
        width = Decimal(text)
    except InvalidOperation:
        return None
    return int(width) if width.is_finite() and 2 <= width <= _LONGEST and width == int(width) else None


def _cast(node: Any) -> str:
    """The name of the type that a cast gives; "" of anything else."""
    if not isinstance(node, ast.TypeCast) or not isinstance(node.typeName, ast.TypeName):
        return ""
    return last_name(node.typeName.names)
