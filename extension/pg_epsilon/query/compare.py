"""Comparisons and logic: common types, canonical operand order, flattened AND/OR. Every operator here is total."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from pg_epsilon.query.context import Context
from pg_epsilon.query.literals import check_encoding, coerce, fold_term, literal, quote, to_float, trimmed, untyped
from pg_epsilon.query.logic import FLIPPED, combine, comparison, listed, opposed
from pg_epsilon.query.types import (
    BOOL,
    BPCHAR,
    DATE,
    EXACT,
    FLOAT4,
    FLOAT8,
    MAX_DIGITS,
    MOMENTS,
    NUMBERS,
    NUMERIC,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    VARCHAR,
    WIDE,
    Kind,
    Term,
    Type,
)

COMPARISONS = frozenset(FLIPPED)
_INT_ORDER = {"pg_catalog.int2": 0, "pg_catalog.int4": 1, "pg_catalog.int8": 2, "pg_catalog.numeric": 3}


def boolean(ctx: Context, node: Any, term: Term) -> Term:
    """Return `term` as a boolean, or refuse."""
    term = coerce(ctx, node, term, BOOL)
    if term.kind is not Kind.BOOL:
        raise ctx.refuse(node, f"a condition must be boolean, not {term.kind.value}", "Compare it with something.")
    return term


def compare(ctx: Context, node: Any, operator: str, left: Term, right: Term) -> Term:
    """Return `left operator right`, the constant on the right."""
    equates = _equates(left, right)
    left, right = pair(ctx, node, left, right)
    return comparison(operator, left, right, equates)


def _equates(left: Term, right: Term) -> tuple[str, str] | None:
    """Two columns between which = is the equality by which each of them is grouped and unique, so that it chains."""
    if left.column is None or right.column is None:
        return None
    same = left.type == right.type or {left.kind, right.kind} <= EXACT
    return (left.column, right.column) if same else None


def distinct(ctx: Context, node: Any, left: Term, right: Term, negated: bool) -> Term:
    """Return `left IS [NOT] DISTINCT FROM right`, the constant on the right."""
    left, right = (trimmed(term) for term in pair(ctx, node, left, right))
    if (left.constant, left.sql) > (right.constant, right.sql):
        left, right = right, left
    columns = left.columns | right.columns
    same, other = (Term(f"({left.sql} IS {word}DISTINCT FROM {right.sql})", BOOL, columns) for word in ("NOT ", ""))
    return opposed(same, other)[0 if negated else 1]


def member(ctx: Context, node: Any, left: Term, elements: Sequence[Term], negated: bool, array: bool = False) -> Term:
    """Return `left [NOT] IN (elements)`: one sorted list if all are constants of one type, else comparisons."""
    elements = _list_type(ctx, node, left, elements, array)
    pairs = [pair(ctx, node, left, element) for element in elements]
    same = len({(a.sql, b.type.name if b.kind not in EXACT else "exact") for a, b in pairs}) == 1
    if left.constant or not same or any(not term.constant for term in elements):
        operator, word = ("<>", "AND") if negated else ("=", "OR")
        return combine(word, [compare(ctx, node, operator, left, element) for element in elements])
    return listed("<>" if negated else "=", pairs[0][0], [value for _, value in pairs])


def _list_type(ctx: Context, node: Any, left: Term, elements: Sequence[Term], array: bool) -> Sequence[Term]:
    """Find the one type that PostgreSQL gives a list: IN converts it together with the left side, an array alone."""
    elements = _strings(ctx, node, left, elements, array)
    constants = all(term.literal for term in elements)
    if not constants or len(elements) < 2:
        return elements
    if left.type == FLOAT4 and not array and all(term.kind in EXACT | {Kind.UNKNOWN} for term in elements):
        return [coerce(ctx, node, untyped(term.value), FLOAT4) for term in elements]
    moments = [term.type for term in (elements if array else (left, *elements)) if term.kind in MOMENTS]
    if moments:  # a string of no type is read as the widest of them
        widest = max(moments, key=lambda one: (DATE, TIMESTAMP, TIMESTAMPTZ).index(one))
        return [coerce(ctx, node, term, widest) for term in elements]
    if any(term.kind is Kind.FLOAT for term in elements):
        return [to_float(ctx, node, term) if term.kind in EXACT else term for term in elements]
    return elements


def _strings(ctx: Context, node: Any, left: Term, elements: Sequence[Term], array: bool) -> Sequence[Term]:
    """Two constants or more of a list, and all elements of an array, have one type; others are compared alone."""
    alike = elements if array else [term for term in elements if term.constant]
    kinds = {term.kind for term in (left, *alike)}
    types = [term.type for term in (alike if array else (left, *alike)) if term.kind is Kind.TEXT]
    if not types or not kinds <= {Kind.TEXT, Kind.UNKNOWN} or (len(alike) < 2 and not array):
        return elements
    type_ = string_type(types, operator=False)
    return [as_string(coerce(ctx, node, term, type_), type_) if array or term.constant else term for term in elements]


def between(ctx: Context, node: Any, value: Term, bounds: tuple[Term, Term], symmetric: bool, negated: bool) -> Term:
    """Return `value [NOT] BETWEEN [SYMMETRIC] low AND high` as comparisons, PostgreSQL's own definition."""

    def inside(low: Term, high: Term) -> Term:
        if negated:
            return combine("OR", [compare(ctx, node, "<", value, low), compare(ctx, node, ">", value, high)])
        return combine("AND", [compare(ctx, node, ">=", value, low), compare(ctx, node, "<=", value, high)])

    low, high = bounds
    if not symmetric:
        return inside(low, high)
    return combine("AND" if negated else "OR", [inside(low, high), inside(high, low)])


def pair(ctx: Context, node: Any, left: Term, right: Term) -> tuple[Term, Term]:
    """Bring two operands of a comparison to types between which PostgreSQL compares without a failing conversion."""
    if {left.kind, right.kind} <= MOMENTS and left.kind is not right.kind:
        return _align_moments(ctx, node, left, right)
    (left, right), _ = settle(ctx, node, (left, right), strict=False, operator=True)
    return left, right


def settle(
    ctx: Context, node: Any, terms: Sequence[Term], strict: bool = True, *, operator: bool = False
) -> tuple[tuple[Term, ...], Type]:
    """Give operands one common type; `strict` also rules out the conversions that only a comparison can do without.

    operator: the terms are the two sides of one, which PostgreSQL chooses by other rules than the type of a list.
    """
    kinds = {term.kind for term in terms} - {Kind.UNKNOWN}
    if not kinds:
        kinds = {Kind.TEXT}
    if kinds <= NUMBERS:
        return _settle_numbers(ctx, node, terms, strict)
    if kinds == {Kind.TEXT}:
        return _settle_text(ctx, node, terms, operator)
    typed = {term.type for term in terms if term.kind is not Kind.UNKNOWN}
    if len(kinds) > 1 or len({type_.name for type_ in typed}) > 1:
        names = " and ".join(sorted({type_.name.removeprefix("pg_catalog.") for type_ in typed}))
        raise ctx.refuse(node, f"{names} do not go together", "Write the constant in the type of the column.")
    type_ = next(iter(typed))
    if type_.kind is Kind.OTHER:
        raise ctx.refuse(
            node,
            f"values of type {type_.name} cannot be compared here",
            "Only IS NULL and IS NOT NULL work on columns of this type.",
        )
    return tuple(coerce(ctx, node, term, type_) for term in terms), type_


def _settle_numbers(ctx: Context, node: Any, terms: Sequence[Term], strict: bool) -> tuple[tuple[Term, ...], Type]:
    typed = [term.type for term in terms if term.kind is not Kind.UNKNOWN]
    floats = {type_.name for type_ in typed if type_.kind is Kind.FLOAT}
    if not floats:
        type_ = NUMERIC
        if all(one.kind is Kind.INT for one in typed):
            type_ = max(typed, key=lambda one: _INT_ORDER[one.name])
        return tuple(coerce(ctx, node, term, type_) for term in terms), type_
    if all(one.name == FLOAT4.name for one in typed):
        return tuple(coerce(ctx, node, term, FLOAT4) for term in terms), FLOAT4
    if strict and FLOAT4.name in floats:
        raise ctx.refuse(node, "real and other number types do not go together here", "Compare them instead.")
    return tuple(_as_float(ctx, node, term) for term in terms), FLOAT8


def _as_float(ctx: Context, node: Any, term: Term) -> Term:
    if term.kind is Kind.UNKNOWN:
        return coerce(ctx, node, term, FLOAT8)
    if term.kind is Kind.FLOAT:
        return term
    if term.literal:
        return to_float(ctx, node, term)
    if term.type.name != NUMERIC.name:
        return term  # int2, int4, int8 convert to float8 without fail
    if not fits_float(term):
        raise ctx.refuse(
            node,
            "an unbounded numeric cannot be compared with a floating point value: the conversion may fail",
            "Compare each with a constant, or ask the owner for numeric(p,s).",
        )
    return Term(f"{term.sql}::{FLOAT8.name}", FLOAT8, term.columns)


def fits_float(term: Term) -> bool:
    """Whether every finite value converts to float8 without overflow or underflow."""
    return term.size is not None and max(term.size) <= MAX_DIGITS


def _settle_text(ctx: Context, node: Any, terms: Sequence[Term], operator: bool) -> tuple[tuple[Term, ...], Type]:
    columns = [term.type for term in terms if not term.constant]
    if len({(type_.collation, type_.deterministic) for type_ in columns}) > 1:
        raise ctx.refuse(node, "the columns have different collations", "Compare each with a constant.")
    base = string_type([term.type for term in terms if term.kind is Kind.TEXT], operator)
    collation, deterministic = (columns[0].collation, columns[0].deterministic) if columns else (None, True)
    type_ = replace(base, collation=collation, deterministic=deterministic)
    return tuple(as_string(coerce(ctx, node, term, type_), type_) for term in terms), type_


def string_type(types: Sequence[Type], operator: bool) -> Type:
    """TEXT, VARCHAR or BPCHAR: what PostgreSQL takes for strings of several types.

    An operator between bpchar and text is text's, because text is the preferred type; one between bpchar and varchar is
    bpchar's, because that is exact on one side (func_select_candidate). A list has the type of its first string: each
    converts to each other one implicitly (select_common_type).
    """
    if not operator:
        first = types[0] if types else TEXT
        return BPCHAR if first.name == BPCHAR.name else VARCHAR if first.varying else TEXT
    padded = any(one.name == BPCHAR.name for one in types)
    plain = any(one.name == TEXT.name and not one.varying for one in types)
    return BPCHAR if padded and not plain else TEXT


def as_string(term: Term, type_: Type) -> Term:
    """A string as one of another type: what was bpchar loses its padding, what becomes it may keep blanks that mean
    nothing any more."""
    if term.type.name == type_.name:
        same = term.type.varying == type_.varying  # as nearly always, and a list may have thousands of terms
        return term if same else term.but(type=replace(term.type, varying=type_.varying))
    if term.literal:
        value = term.value if term.value is None or type_.name == BPCHAR.name else term.value.rstrip(" ")
        return literal(type_, value).but(origin=term.origin)
    sql = f"{term.sql}::{type_.name}"
    return term.but(sql=sql, type=type_, column=None, results=None)


def _align_moments(ctx: Context, node: Any, left: Term, right: Term) -> tuple[Term, Term]:
    """Dates and times of different types: convert the constant as the session's TimeZone says, never the column."""
    if left.constant and not right.constant:
        right, left = _align_moments(ctx, node, right, left)
        return left, right
    if not right.constant:
        if {left.kind, right.kind} == {Kind.DATE, Kind.TIMESTAMP}:
            return left, right  # date_cmp_timestamp is total
        raise ctx.refuse(
            node,
            f"columns of {left.kind.value} and {right.kind.value} cannot be compared: it depends on the time zone",
            "Cast the timestamp with time zone: (x AT TIME ZONE 'UTC').",
        )
    zone = quote_zone(ctx, node)
    converted = {
        (Kind.DATE, Kind.TIMESTAMPTZ): (f"({right.sql} AT TIME ZONE {zone})", TIMESTAMP),
        (Kind.TIMESTAMP, Kind.TIMESTAMPTZ): (f"({right.sql} AT TIME ZONE {zone})", TIMESTAMP),
        (Kind.TIMESTAMP, Kind.DATE): (f"{right.sql}::{TIMESTAMP.name}", TIMESTAMP),
        (Kind.TIMESTAMPTZ, Kind.DATE): (f"({right.sql}::{TIMESTAMP.name} AT TIME ZONE {zone})", TIMESTAMPTZ),
        (Kind.TIMESTAMPTZ, Kind.TIMESTAMP): (f"({right.sql} AT TIME ZONE {zone})", TIMESTAMPTZ),
    }.get((left.kind, right.kind))
    if converted is None:
        return left, right
    sql, type_ = converted
    right = fold_term(ctx, node, Term(sql, type_))
    if left.kind is Kind.DATE and right.value is not None and right.value.endswith(" 00:00:00"):
        right = literal(DATE, right.value.removesuffix(" 00:00:00"))
    return left, right


def quote_zone(ctx: Context, node: Any, zone: str | None = None) -> str:
    """Return the session's TimeZone, or `zone`, as a literal, once PostgreSQL has accepted it (public input)."""
    name = ctx.scope.timezone if zone is None else zone
    check_encoding(ctx, node, name)
    probe = f"('2000-01-01 00:00:00+00'::pg_catalog.timestamptz AT TIME ZONE {quote(name)})::pg_catalog.text"
    ctx.folded(probe, node, f'the time zone "{name[:60]}"')
    return quote(name)


def is_zero(term: Term) -> bool:
    """Whether a term is the exact constant zero."""
    return term.literal and term.kind in EXACT and term.value is not None and Decimal(term.value) == 0


__all__ = [
    "COMPARISONS",
    "WIDE",
    "between",
    "boolean",
    "compare",
    "distinct",
    "fits_float",
    "is_zero",
    "member",
    "pair",
    "quote_zone",
    "settle",
]
