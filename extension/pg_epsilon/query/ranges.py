"""The range of an expression, by interval arithmetic over declared bounds and constants (rule R4).

Public facts only. A range is where all declared values lie; what a row holds beyond it is clamped
(query/bounds.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

from pg_epsilon.query.expression import Kind
from pg_epsilon.query.intervals import (
    ARITHMETIC,
    BIT,
    NOTHING,
    UNKNOWN,
    Range,
    common,
    hull,
    magnitude,
    minus,
    over,
    rounded,
    signs,
)
from pg_epsilon.query.lengths import length_range, place_range
from pg_epsilon.query.moments import days_between, field_range, word
from pg_epsilon.query.parse import ast, enums
from pg_epsilon.query.schema import Column
from pg_epsilon.query.types import size_of, type_of

ColumnOf = Callable[[Any], Column]


def range_of(node: Any, column_of: ColumnOf) -> Range:
    """The range of an expression that the compiler accepts; UNKNOWN for what is not understood."""
    handler = _HANDLERS.get(type(node))
    return handler(node, column_of) if handler else UNKNOWN


def number(text: Any) -> Fraction | None:
    """A finite decimal text as a fraction; None otherwise."""
    try:
        value = Decimal(str(text))
    except InvalidOperation:
        return None
    return Fraction(value) if value.is_finite() and abs(value.adjusted()) < 400 else None


def column_range(column: Column) -> Range:
    """What is declared of a column; the step is the type's own where it has one, else the declared resolution."""
    kind, policy, size = type_of(column).kind, column.policy, size_of(column)
    if kind is Kind.BOOL:
        return BIT
    if kind not in (Kind.INT, Kind.NUMERIC, Kind.FLOAT) or policy is None:
        return UNKNOWN
    declared = number(policy.resolution) if policy.resolution is not None else None
    natural = Fraction(1) if kind is Kind.INT else Fraction(1, 10 ** size[1]) if size is not None else None
    ends = [number(policy.lower), number(policy.upper)] if policy.lower is not None else []
    if not ends:
        ends = [number(value) for value in policy.domain or policy.edges or ()]
        if natural is None and policy.domain is not None and None not in ends:
            natural = common(end for end in ends if end is not None)
    if not (known := [end for end in ends if end is not None]) or len(known) < len(ends):
        return Range(None, None, natural or declared, kind is Kind.INT, declared)
    return Range(min(known), max(known), natural or declared, kind is Kind.INT, declared)


def _constant(node: Any, column_of: ColumnOf) -> Range:
    if node.isnull or node.val is None:
        return NOTHING
    value = None
    if isinstance(node.val, ast.Integer):
        value = Fraction(node.val.ival or 0)
    elif isinstance(node.val, ast.Float):
        value = number(node.val.fval)
    elif isinstance(node.val, ast.String):
        value = number(node.val.sval)
    if value is None:
        return UNKNOWN
    return Range(value, value, abs(value), isinstance(node.val, ast.Integer))


def _column(node: Any, column_of: ColumnOf) -> Range:
    return column_range(column_of(node))


def _operator(node: Any, column_of: ColumnOf) -> Range:
    if node.kind == enums.A_Expr_Kind.AEXPR_NULLIF:
        return range_of(node.lexpr, column_of)
    if node.kind != enums.A_Expr_Kind.AEXPR_OP:
        return BIT
    name = node.name[-1].sval
    right = range_of(node.rexpr, column_of)
    if node.lexpr is None:
        return minus(right) if name == "-" else right
    if name not in ARITHMETIC:
        return BIT
    if name == "-" and (days := days_between(node.lexpr, node.rexpr, column_of)) is not None:
        return days
    left = range_of(node.lexpr, column_of)
    if NOTHING in (left, right):
        return NOTHING
    return ARITHMETIC[name](left, right)


def _extreme(node: Any, column_of: ColumnOf) -> Range:
    """GREATEST and LEAST ignore NULLs: only a constant, which never is NULL, bounds on its own side."""
    ranges = [one for one in (range_of(arg, column_of) for arg in node.args) if one is not NOTHING]
    all_of = hull(ranges)
    constants = [one.low for one in ranges if one.low is not None and one.low == one.high]
    low, high = all_of.low, all_of.high
    if constants and node.op == enums.MinMaxOp.IS_GREATEST:
        low = max([*constants, *([] if low is None else [low])])
    elif constants:
        high = min([*constants, *([] if high is None else [high])])
    return Range(low, high, all_of.step, all_of.whole)


def _case(node: Any, column_of: ColumnOf) -> Range:
    results = [range_of(when.result, column_of) for when in node.args]
    return hull([*results, range_of(node.defresult, column_of) if node.defresult is not None else NOTHING])


def _coalesce(node: Any, column_of: ColumnOf) -> Range:
    return hull([range_of(arg, column_of) for arg in node.args])


_INTEGERS = frozenset({"int2", "int4", "int8"})


def _cast(node: Any, column_of: ColumnOf) -> Range:
    """A cast to an integer rounds; one to numeric(p,s) rounds to s digits; others keep the value."""
    inner = range_of(node.arg, column_of)
    name = node.typeName.names[-1].sval
    given = [mod for mod in node.typeName.typmods or () if isinstance(mod, ast.A_Const)]
    typmods = [getattr(mod.val, "ival", None) or 0 for mod in given]
    if name in _INTEGERS:
        return replace(rounded(inner, 0), whole=True)
    if name == "numeric" and typmods:
        return rounded(inner, typmods[1] if len(typmods) > 1 else 0)
    return Range(inner.low, inner.high, inner.step, False, inner.unit)


def _function(node: Any, column_of: ColumnOf) -> Range:
    rule = _FUNCTIONS.get(node.funcname[-1].sval)
    return UNKNOWN if rule is None else rule(tuple(node.args or ()), column_of)


_Rule = Callable[[tuple[Any, ...], ColumnOf], Range]


def _rounding(args: tuple[Any, ...], column_of: ColumnOf) -> Range:
    if len(args) == 1:
        return rounded(range_of(args[0], column_of), 0)
    places = range_of(args[1], column_of)
    if places.low is None or places.low != places.high or abs(places.low) > 100:
        return UNKNOWN
    return rounded(range_of(args[0], column_of), int(places.low))


def _field(args: tuple[Any, ...], column_of: ColumnOf) -> Range:
    return field_range(word(args[0]), args[1], column_of)


def _div(args: tuple[Any, ...], column_of: ColumnOf) -> Range:
    """As integers are divided, and yet a numeric."""
    a, b = (replace(range_of(arg, column_of), whole=True) for arg in args)
    return replace(over(a, b), whole=False)


def _bucket(args: tuple[Any, ...], column_of: ColumnOf) -> Range:
    count = range_of(args[-1], column_of)
    return Range(Fraction(0), count.high + 1, Fraction(1), whole=True) if count.high is not None else UNKNOWN


def _length(args: tuple[Any, ...], column_of: ColumnOf) -> Range:
    return length_range(args[0], column_of)


def _place(args: tuple[Any, ...], column_of: ColumnOf) -> Range:
    return place_range(args[0], column_of)


_FUNCTIONS: dict[str, _Rule] = {
    "abs": lambda args, column_of: magnitude(range_of(args[0], column_of)),
    "div": _div,
    "mod": lambda args, column_of: ARITHMETIC["%"](*(range_of(arg, column_of) for arg in args)),
    "sign": lambda args, column_of: signs(range_of(args[0], column_of)),
    "width_bucket": _bucket,
    **dict.fromkeys(("ceil", "ceiling", "floor", "round", "trunc"), _rounding),
    **dict.fromkeys(("date_part", "extract"), _field),
    **dict.fromkeys(("char_length", "character_length", "length"), _length),
    "octet_length": lambda args, column_of: length_range(args[0], column_of, octets=True),
    **dict.fromkeys(("position", "strpos"), _place),
}


_HANDLERS: dict[type, Callable[[Any, ColumnOf], Range]] = {
    ast.A_Const: _constant,
    ast.A_Expr: _operator,
    ast.BoolExpr: lambda node, column_of: BIT,
    ast.BooleanTest: lambda node, column_of: BIT,
    ast.CaseExpr: _case,
    ast.CoalesceExpr: _coalesce,
    ast.ColumnRef: _column,
    ast.FuncCall: _function,
    ast.MinMaxExpr: _extreme,
    ast.NullTest: lambda node, column_of: BIT,
    ast.TypeCast: _cast,
}
