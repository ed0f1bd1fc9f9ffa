"""Arithmetic that cannot raise: exact numbers of bounded size, computed in numeric; dates, times and intervals."""

from __future__ import annotations

from typing import Any

from pg_epsilon.query.compare import settle
from pg_epsilon.query.context import Context
from pg_epsilon.query.shifts import shift
from pg_epsilon.query.types import (
    DATE,
    EXACT,
    INT4,
    INTERVAL,
    MAX_DIGITS,
    NUMERIC,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    WIDE,
    Kind,
    Term,
    Type,
)

OPERATORS = frozenset({"+", "-", "*", "/", "%"})
_DATE, _STAMP, _ZONED, _SPAN, _TIME = Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.INTERVAL, Kind.TIME
# Between constants only: the server folds them, and a failure is the analyst's own.
_CONSTANT: dict[tuple[str, Kind, Kind], Type] = {
    ("+", _DATE, Kind.INT): DATE,
    ("+", Kind.INT, _DATE): DATE,
    ("-", _DATE, Kind.INT): DATE,
    ("-", _DATE, _DATE): INT4,
    ("+", _DATE, _TIME): TIMESTAMP,
    ("-", _STAMP, _STAMP): INTERVAL,
    ("-", _ZONED, _ZONED): INTERVAL,
    ("+", _SPAN, _SPAN): INTERVAL,
    ("-", _SPAN, _SPAN): INTERVAL,
    **{("+", _SPAN, kind): type_ for kind, type_ in ((_DATE, TIMESTAMP), (_STAMP, TIMESTAMP), (_ZONED, TIMESTAMPTZ))},
    **{
        (operator, kind, _SPAN): type_
        for operator in "+-"
        for kind, type_ in ((_DATE, TIMESTAMP), (_STAMP, TIMESTAMP), (_ZONED, TIMESTAMPTZ), (_TIME, TIME))
    },
    **{(operator, _SPAN, kind): INTERVAL for operator in "*/" for kind in (Kind.INT, Kind.NUMERIC, Kind.FLOAT)},
    **{("*", kind, _SPAN): INTERVAL for kind in (Kind.INT, Kind.NUMERIC, Kind.FLOAT)},
}


def numeric_sql(term: Term) -> str:
    """Return SQL of an exact number as numeric."""
    return term.sql if term.type.name == NUMERIC.name else f"{term.sql}::{NUMERIC.name}"


def require_bounded(ctx: Context, node: Any, term: Term) -> tuple[int, int]:
    """Return the bound on the digits of an exact number; refuse one without a bound."""
    if term.kind is Kind.FLOAT:
        raise ctx.refuse(
            node, "arithmetic on floating point values can overflow", "use numeric(p,s) or integer columns, or compare"
        )
    if term.kind not in EXACT:
        raise ctx.refuse(node, f"arithmetic on {term.kind.value} is not supported", "Use numeric or integer columns.")
    if term.size is None:
        raise ctx.refuse(
            node, "arithmetic on an unbounded numeric can overflow", "ask the owner for a numeric(p,s) column"
        )
    return term.size


def bounded(ctx: Context, node: Any, size: tuple[int, int]) -> tuple[int, int]:
    """Return `size`, or refuse a result that could come near the limits of numeric and float8."""
    if max(size) > MAX_DIGITS:
        raise ctx.refuse(node, "the result could have too many digits", "Use fewer multiplications.")
    return size


def arithmetic(ctx: Context, node: Any, operator: str, left: Term, right: Term) -> Term:
    """Return `left operator right` for + - * / %."""
    special = _moments(ctx, node, operator, left, right)
    if special is not None:
        return special
    if left.constant and right.constant and Kind.FLOAT in (left.kind, right.kind):
        (left, right), type_ = settle(ctx, node, (left, right))
        return Term(f"({left.sql} {operator} {right.sql})", type_)
    if Kind.UNKNOWN in (left.kind, right.kind):
        (left, right), _ = settle(ctx, node, (left, right))
    first, second = require_bounded(ctx, node, left), require_bounded(ctx, node, right)
    whole = left.kind is Kind.INT and right.kind is Kind.INT
    columns = left.columns | right.columns
    a, b = numeric_sql(left), numeric_sql(right)
    if operator in "/%":
        _require_divisor(ctx, node, right)
    if operator in "+*" and a > b:
        a, b = b, a
    size = bounded(ctx, node, _size(operator, first, second, whole))
    sql = f"pg_catalog.div({a}, {b})" if operator == "/" and whole else f"({a} {operator} {b})"
    return Term(sql, WIDE if whole else NUMERIC, columns, size=size)


def quotient(ctx: Context, node: Any, left: Term, right: Term) -> Term:
    """Return div(left, right): the integer part of a quotient, a numeric whatever the operands are."""
    first, second = require_bounded(ctx, node, left), require_bounded(ctx, node, right)
    _require_divisor(ctx, node, right)
    sql = f"pg_catalog.div({numeric_sql(left)}, {numeric_sql(right)})"
    return Term(sql, NUMERIC, left.columns | right.columns, size=bounded(ctx, node, (first[0] + second[1] + 1, 0)))


def _require_divisor(ctx: Context, node: Any, right: Term) -> None:
    if not right.nonzero and not right.null:
        raise ctx.refuse(node, "the divisor may be zero", "Divide by a non-zero constant or by NULLIF(x, 0).")


def _size(operator: str, a: tuple[int, int], b: tuple[int, int], whole: bool) -> tuple[int, int]:
    if operator in "+-":
        return max(a[0], b[0]) + 1, max(a[1], b[1])
    if operator == "*":
        return a[0] + b[0], a[1] + b[1]
    if operator == "%":
        return max(a[0], b[0]), max(a[1], b[1])
    if whole:
        return a[0], 0
    # select_div_scale: 16 significant digits beyond the weights of both operands
    return a[0] + b[1] + 1, max(a[1], b[1], 24 + a[1] + b[0])


def _moments(ctx: Context, node: Any, operator: str, left: Term, right: Term) -> Term | None:
    """Return arithmetic of dates, times and intervals; None if neither operand is one."""
    temporal = {_DATE, _STAMP, _ZONED, _SPAN, _TIME}
    if left.kind not in temporal and right.kind not in temporal:
        return None
    if operator == "-" and left.kind is right.kind is _DATE and (left.columns or right.columns):
        # Only infinite dates cannot be subtracted; then NULL.
        finite = " AND ".join(f"pg_catalog.isfinite({term.sql})" for term in (left, right) if not term.constant)
        sql = f"(CASE WHEN {finite} THEN {left.sql} - {right.sql} END)"
        constants = [term for term in (left, right) if term.constant]
        if not any(term.value in ("infinity", "-infinity") for term in constants):
            return Term(sql, INT4, left.columns | right.columns, size=(10, 0))
    shifted = shift(ctx, node, operator, left, right)
    if shifted is not None:
        return shifted
    type_ = _CONSTANT.get((operator, left.kind, right.kind))
    if type_ is None or left.columns or right.columns:
        raise ctx.refuse(
            node,
            f"{left.kind.value} {operator} {right.kind.value} is not supported on columns",
            "Move the column by a constant: x + interval '1 day', or the constant: x > now() - interval '7 days'.",
        )
    return Term(f"({left.sql} {operator} {right.sql})", type_, size=(10, 0) if type_ is INT4 else None)


def negative(ctx: Context, node: Any, term: Term, operator: str) -> Term:
    """Return unary minus or plus."""
    if term.kind is Kind.INTERVAL and term.constant:
        return Term(f"({operator} {term.sql})", INTERVAL)
    if term.kind is Kind.FLOAT:
        return term if operator == "+" else Term(f"(- {term.sql})", term.type, term.columns)
    if term.kind not in EXACT:
        raise ctx.refuse(node, f"a sign before {term.kind.value} is not supported", "Use it with numbers.")
    if operator == "+":
        return term
    type_ = WIDE if term.kind is Kind.INT else NUMERIC
    return Term(f"(- {numeric_sql(term)})", type_, term.columns, size=term.size)
