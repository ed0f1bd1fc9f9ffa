"""Functions of text and numbers that are total, or made total by a guard.

Total extension, documented: lower, upper, ILIKE and trim leave text of more than 64 MiB as it is (ILIKE: as LIKE),
where PostgreSQL would ask for more memory than a value may have; rounding of integers is exact where PostgreSQL goes to
float8.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pg_epsilon.query import bins, temporal
from pg_epsilon.query.arithmetic import arithmetic, bounded, numeric_sql, quotient, require_bounded
from pg_epsilon.query.compare import as_string, fits_float, settle
from pg_epsilon.query.context import Context
from pg_epsilon.query.literals import coerce, to_float
from pg_epsilon.query.types import (
    BOOL,
    EXACT,
    FLOAT8,
    INT4,
    NUMERIC,
    TEXT,
    WIDE,
    Kind,
    Term,
)

Arguments = tuple[Any, ...]
Handler = Callable[[Context, Any, Arguments], Term]

# lower() of a multi-byte text asks for 4 bytes a character and trim() for 12, and no allocation may pass 1 GiB.
_LARGE = 64 * 1024 * 1024
# Case folding in other multi-byte encodings can meet characters that the C library refuses.
_FOLDING = frozenset(
    {"UTF8", *(f"LATIN{n}" for n in range(1, 11)), *(f"ISO_8859_{n}" for n in range(5, 9)), "KOI8R", "KOI8U"}
    | {f"WIN{n}" for n in (866, 874, 1250, 1251, 1252, 1253, 1254, 1255, 1256, 1257, 1258)}
)


def _arity(ctx: Context, node: Any, args: Arguments, *counts: int) -> None:
    if len(args) not in counts:
        raise ctx.refuse(node, "wrong number of arguments", f"Give {' or '.join(str(n) for n in counts)}.")


def text_argument(ctx: Context, node: Any, term: Term) -> Term:
    """Return `term` as text of a deterministic collation, or refuse."""
    term = coerce(ctx, node, term, TEXT)
    if term.kind is not Kind.TEXT:
        raise ctx.refuse(node, f"text is expected, not {term.kind.value}", "Cast it: x::text.")
    if not term.type.deterministic:
        raise ctx.refuse(
            node, "text of a nondeterministic collation cannot be searched or cut", "compare it with =, <, IN"
        )
    return term


def case_folded(ctx: Context, node: Any, subject: str, folded: str, plain: str) -> str:
    """Return `folded` where the text is small enough, else `plain`; refuse encodings in which folding can fail."""
    if ctx.scope.encoding.upper() not in _FOLDING:
        raise ctx.refuse(
            node,
            f"upper and lower case cannot be told apart in the database's encoding {ctx.scope.encoding}",
            "Use LIKE or = with the exact case.",
        )
    return _guarded(subject, folded, plain)


def _guarded(subject: str, small: str, large: str) -> str:
    return f"(CASE WHEN pg_catalog.octet_length({subject}) <= {_LARGE} THEN {small} ELSE {large} END)"


def _text_type(term: Term) -> Any:
    return replace(TEXT, collation=term.type.collation, deterministic=term.type.deterministic)


def _plain(term: Term) -> str:
    return term.sql if term.type.name == TEXT.name else f"{term.sql}::{TEXT.name}"


def _folding(name: str) -> Handler:
    def compile_(ctx: Context, node: Any, args: Arguments) -> Term:
        _arity(ctx, node, args, 1)
        term = text_argument(ctx, args[0], ctx.compile(args[0]))
        sql = case_folded(ctx, node, term.sql, f"pg_catalog.{name}({_plain(term)})", _plain(term))
        return Term(sql, _text_type(term), term.columns)

    return compile_


def _length(name: str) -> Handler:
    def compile_(ctx: Context, node: Any, args: Arguments) -> Term:
        _arity(ctx, node, args, 1)
        term = coerce(ctx, node, ctx.compile(args[0]), TEXT)
        if term.kind is not Kind.TEXT:
            raise ctx.refuse(node, f"text is expected, not {term.kind.value}", "Cast it: x::text.")
        return Term(f"pg_catalog.{name}({term.sql})", INT4, term.columns, size=(10, 0))

    return compile_


def _trim(name: str) -> Handler:
    def compile_(ctx: Context, node: Any, args: Arguments) -> Term:
        _arity(ctx, node, args, 1, 2)
        term = text_argument(ctx, args[0], ctx.compile(args[0]))
        operands = [_plain(term)]
        if len(args) == 2:
            operands.append(_constant_text(ctx, args[1]).sql)
        sql = _guarded(term.sql, f"pg_catalog.{name}({', '.join(operands)})", _plain(term))
        return Term(sql, _text_type(term), term.columns)

    return compile_


def _constant_text(ctx: Context, node: Any) -> Term:
    term = text_argument(ctx, node, ctx.compile(node))
    if not term.literal:
        raise ctx.refuse(node, "this argument must be a constant", "Write it in quotes.")
    return term


def _constant_integer(ctx: Context, node: Any, low: int, high: int) -> int:
    term = coerce(ctx, node, ctx.compile(node), INT4)
    if not term.literal or term.kind is not Kind.INT or term.value is None or not low <= int(term.value) <= high:
        raise ctx.refuse(node, f"a constant integer from {low} to {high} is expected here", "Write the number.")
    return int(term.value)


def _cut(name: str, *counts: int) -> Handler:
    """left, right, substring: lengths must be constants that cannot be negative."""

    def compile_(ctx: Context, node: Any, args: Arguments) -> Term:
        _arity(ctx, node, args, *counts)
        term = text_argument(ctx, args[0], ctx.compile(args[0]))
        if node.funcname[-1].sval == "substring" and all(ctx.compile(arg).kind is Kind.UNKNOWN for arg in args[1:]):
            # a string of no type is text to PostgreSQL: the pattern of substring(text, text)
            raise ctx.refuse(args[1], "substring by a pattern is not supported", "Write numbers without quotes.")
        numbers = [str(_constant_integer(ctx, arg, 0, 2**31 - 1)) for arg in args[1:]]
        sql = f"pg_catalog.{name}({', '.join([_plain(term), *numbers])})"
        return Term(sql, _text_type(term), term.columns)

    return compile_


def _search(name: str) -> tuple[str, Handler]:
    def compile_(ctx: Context, node: Any, args: Arguments) -> Term:
        _arity(ctx, node, args, 2)
        terms = [text_argument(ctx, arg, ctx.compile(arg)) for arg in args]
        (subject, part), _ = settle(ctx, node, [as_string(term, _text_type(term)) for term in terms])
        result, size = (BOOL, None) if name == "starts_with" else (INT4, (10, 0))
        sql = f"pg_catalog.{name}({_plain(subject)}, {_plain(part)})"
        return Term(sql, result, subject.columns | part.columns, size=size)

    return name, compile_


def _number(ctx: Context, node: Any) -> Term:
    term = ctx.compile(node)
    if term.kind is Kind.FLOAT or term.kind in EXACT:
        return term
    raise ctx.refuse(node, f"a number is expected, not {term.kind.value}", "Give a number.")


def _sign_like(name: str) -> Handler:
    """abs and sign: total on every number once integers are numeric."""

    def compile_(ctx: Context, node: Any, args: Arguments) -> Term:
        _arity(ctx, node, args, 1)
        term = _number(ctx, args[0])
        if term.kind is Kind.FLOAT:
            type_ = term.type if name == "abs" else FLOAT8
            return Term(f"pg_catalog.{name}({term.sql})", type_, term.columns)
        size = term.size if name == "abs" else (1, 0)
        type_ = WIDE if name == "abs" and term.kind is Kind.INT else NUMERIC
        return Term(f"pg_catalog.{name}({numeric_sql(term)})", type_, term.columns, size=size)

    return compile_


def _rounding(name: str, digits: bool) -> Handler:
    """ceil, floor, round, trunc; the last two with a constant number of digits."""

    def compile_(ctx: Context, node: Any, args: Arguments) -> Term:
        _arity(ctx, node, args, *((1, 2) if digits else (1,)))
        term = _number(ctx, args[0])
        if term.kind is Kind.FLOAT and len(args) == 1:
            return Term(f"pg_catalog.{name}({term.sql})", FLOAT8, term.columns)
        whole, _ = require_bounded(ctx, args[0], term)
        if len(args) == 1:
            return Term(f"pg_catalog.{name}({numeric_sql(term)})", NUMERIC, term.columns, size=(whole + 1, 0))
        places = _constant_integer(ctx, args[1], -100, 100)
        size = bounded(ctx, node, (max(whole + 1, 1 - places), max(places, 0)))
        return Term(f"pg_catalog.{name}({numeric_sql(term)}, {places})", NUMERIC, term.columns, size=size)

    return compile_


def _div(ctx: Context, node: Any, args: Arguments) -> Term:
    """The quotient cut towards zero: of numerics alone, to which PostgreSQL converts integers."""
    _arity(ctx, node, args, 2)
    left, right = (_exact(ctx, arg) for arg in args)
    return quotient(ctx, node, left, right)


def _exact(ctx: Context, node: Any) -> Term:
    term = ctx.compile(node)
    return coerce(ctx, node, term, NUMERIC) if term.kind is Kind.UNKNOWN else term


def _operator(operator: str) -> Handler:
    def compile_(ctx: Context, node: Any, args: Arguments) -> Term:
        _arity(ctx, node, args, 2)
        return arithmetic(ctx, node, operator, ctx.compile(args[0]), ctx.compile(args[1]))

    return compile_


def _is_plain(term: Term) -> bool:
    """Whether a term is a finite constant of no great length."""
    if not term.literal or term.value is None:
        return False
    if term.kind is Kind.FLOAT:  # the deparser's form of a whole number in a view: (0)::double precision
        return abs(float(term.value)) < 1e100
    return term.size is not None and max(term.size) <= 100


def _float_sql(ctx: Context, node: Any, term: Term) -> str:
    return f"{term.sql}::{FLOAT8.name}" if term.kind is Kind.FLOAT else to_float(ctx, node, term).sql


def _width_bucket(ctx: Context, node: Any, args: Arguments) -> Term:
    """width_bucket(x, constant low, constant high, constant count); NULL for NaN, where PostgreSQL raises."""
    _arity(ctx, node, args, 4)
    term = _number(ctx, args[0])
    bounds = [_number(ctx, arg) for arg in args[1:3]]
    for bound, arg in zip(bounds, args[1:3], strict=True):
        if not _is_plain(bound):
            raise ctx.refuse(arg, "the bounds must be plain constants", "Write two numbers.")
    count = _constant_integer(ctx, args[3], 1, 1_000_000)
    if float(str(bounds[0].value)) == float(str(bounds[1].value)):
        raise ctx.refuse(args[2], "the bounds must differ", "Write two different numbers.")
    # PostgreSQL takes the float8 form for integers alone and beside a float8, else the numeric one beside a numeric.
    kinds = {term.kind, *(bound.kind for bound in bounds)}
    exact = Kind.FLOAT not in kinds and Kind.NUMERIC in kinds
    if not exact and term.kind is Kind.NUMERIC and not fits_float(term):
        raise ctx.refuse(args[1], "the column's numbers are too long for float8 bounds", "Write the bounds as numbers.")
    type_ = NUMERIC if exact else FLOAT8
    x = numeric_sql(term) if exact else f"{term.sql}::{FLOAT8.name}"
    low, high = (numeric_sql(b) if exact else _float_sql(ctx, node, b) for b in bounds)
    call = f"pg_catalog.width_bucket({x}, {low}, {high}, {count})"
    sql = f"(CASE WHEN {x} <> 'NaN'::{type_.name} THEN {call} END)"
    return Term(sql, INT4, term.columns, size=(10, 0))


FUNCTIONS: dict[str, Handler] = {
    **bins.FUNCTIONS,
    **temporal.FUNCTIONS,
    "abs": _sign_like("abs"),
    "btrim": _trim("btrim"),
    "ceil": _rounding("ceil", False),
    "ceiling": _rounding("ceil", False),
    "char_length": _length("length"),
    "character_length": _length("length"),
    "div": _div,
    "floor": _rounding("floor", False),
    "left": _cut("left", 2),
    "length": _length("length"),
    "lower": _folding("lower"),
    "ltrim": _trim("ltrim"),
    "mod": _operator("%"),
    "octet_length": _length("octet_length"),
    "position": _search("strpos")[1],
    "right": _cut("right", 2),
    "round": _rounding("round", True),
    "rtrim": _trim("rtrim"),
    "sign": _sign_like("sign"),
    "starts_with": _search("starts_with")[1],
    "strpos": _search("strpos")[1],
    "substr": _cut("substr", 2, 3),
    "substring": _cut("substr", 2, 3),
    "trunc": _rounding("trunc", True),
    "upper": _folding("upper"),
    "width_bucket": _width_bucket,
}
