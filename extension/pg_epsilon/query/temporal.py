"""Dates and times: total forms of date_trunc, extract, date_part, AT TIME ZONE and the casts between them.

PostgreSQL raises near the ends of its calendar (4714 BC, 294276 AD). Total extension, documented: date_trunc to a week
or longer leaves moments before 4000 BC as they are; conversions through a time zone send moments outside
[4713 BC, December 294276) to ∓infinity, and extract reads those in UTC.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pg_epsilon.query.compare import quote_zone
from pg_epsilon.query.context import Context
from pg_epsilon.query.literals import coerce, quote
from pg_epsilon.query.parse import ast, enums
from pg_epsilon.query.types import (
    BOOL,
    DATE,
    FLOAT8,
    INTERVAL,
    NUMERIC,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    Kind,
    Term,
    Type,
)

Arguments = tuple[Any, ...]

_SHORT = ("microseconds", "milliseconds", "second", "minute", "hour", "day")
_UNITS = frozenset({*_SHORT, "week", "month", "quarter", "year", "decade", "century", "millennium"})
_CALENDAR = frozenset(
    {"year", "month", "day", "quarter", "week", "dow", "isodow", "doy", "isoyear"}
    | {"decade", "century", "millennium", "epoch", "julian"}
)
_CLOCK = frozenset({"hour", "minute", "second", "milliseconds", "microseconds"})
_FIELDS = {
    Kind.DATE: _CALENDAR,
    Kind.TIMESTAMP: _CALENDAR | _CLOCK,
    Kind.TIMESTAMPTZ: _CALENDAR | _CLOCK,
    Kind.TIME: _CLOCK | {"epoch"},
}
# epoch counts at most 20 digits of seconds, and microseconds.
_EXTRACTED = (20, 6)


def _low(type_: Type, early: str = "4713-01-01") -> str:
    moment = f"{early} BC" if type_ is DATE else f"{early} 00:00:00{'+00' if type_ is TIMESTAMPTZ else ''} BC"
    return f"{quote(moment)}::{type_.name}"


def _high(type_: Type) -> str:
    moment = "294276-12-01" if type_ is DATE else f"294276-12-01 00:00:00{'+00' if type_ is TIMESTAMPTZ else ''}"
    return f"{quote(moment)}::{type_.name}"


def _clamped(term: Term, inside: str, target: Type) -> str:
    """Return `inside` where the moment is far from the calendar's ends, else an infinity (NULL for NULL)."""
    x, type_ = term.sql, term.type
    return (
        f"(CASE WHEN {x} >= {_low(type_)} AND {x} < {_high(type_)} THEN {inside}"
        f" WHEN {x} >= {_high(type_)} THEN 'infinity'::{target.name}"
        f" WHEN {x} < {_low(type_)} THEN '-infinity'::{target.name} END)"
    )


def to_timestamp(ctx: Context, node: Any, term: Term, type_: Type = TIMESTAMP) -> Term:
    """date or timestamptz → timestamp; the latter in the session's TimeZone."""
    if term.kind is Kind.TIMESTAMPTZ:
        return at_zone(term, quote_zone(ctx, node))
    sql = (
        f"(CASE WHEN {term.sql} < '294277-01-01'::{DATE.name} THEN {term.sql}::{TIMESTAMP.name}"
        f" WHEN {term.sql} IS NOT NULL THEN 'infinity'::{TIMESTAMP.name} END)"
    )
    return Term(sql, TIMESTAMP, term.columns)


def to_date(ctx: Context, node: Any, term: Term, type_: Type = DATE) -> Term:
    """timestamp or timestamptz → date; the latter in the session's TimeZone."""
    if term.kind is Kind.TIMESTAMP:
        return Term(f"{term.sql}::{DATE.name}", DATE, term.columns)
    inside = f"({term.sql} AT TIME ZONE {quote_zone(ctx, node)})::{DATE.name}"
    return Term(_clamped(term, inside, DATE), DATE, term.columns)


def to_timestamptz(ctx: Context, node: Any, term: Term, type_: Type = TIMESTAMPTZ) -> Term:
    """date or timestamp → timestamptz, as local time of the session's TimeZone."""
    return at_zone(term, quote_zone(ctx, node))


def at_zone(term: Term, zone: str) -> Term:
    """`x AT TIME ZONE zone`: timestamptz → local timestamp, date or timestamp → timestamptz."""
    target = TIMESTAMP if term.kind is Kind.TIMESTAMPTZ else TIMESTAMPTZ
    x = f"{term.sql}::{TIMESTAMP.name}" if term.kind is Kind.DATE else term.sql
    return Term(_clamped(term, f"({x} AT TIME ZONE {zone})", target), target, term.columns)


def now(ctx: Context, node: Any) -> Term:
    """Return the session's now(), the same for every call in the statement (composition.md §5.1)."""
    if ctx.scope.now is None:
        raise ctx.refuse(node, "now() is not known here", "Write the moment as a constant.")
    return coerce(ctx, node, Term("", Type(Kind.UNKNOWN, ""), literal=True, value=ctx.scope.now), TIMESTAMPTZ)


def now_function(ctx: Context, node: Any, args: Arguments) -> Term:
    """now() and its kin."""
    if args:
        raise ctx.refuse(node, "now() takes no argument", "Write now().")
    return now(ctx, node)


_OP = enums.SQLValueFunctionOp
_CLOCKS: dict[Any, tuple[str, Type]] = {
    _OP.SVFOP_CURRENT_DATE: ("({local})::pg_catalog.date", DATE),
    _OP.SVFOP_CURRENT_TIMESTAMP: ("{moment}", TIMESTAMPTZ),
    _OP.SVFOP_CURRENT_TIMESTAMP_N: ("({moment})::pg_catalog.timestamptz({n})", TIMESTAMPTZ),
    _OP.SVFOP_LOCALTIMESTAMP: ("{local}", TIMESTAMP),
    _OP.SVFOP_LOCALTIMESTAMP_N: ("({local})::pg_catalog.timestamp({n})", TIMESTAMP),
    _OP.SVFOP_LOCALTIME: ("({local})::pg_catalog.time", TIME),
    _OP.SVFOP_LOCALTIME_N: ("({local})::pg_catalog.time({n})", TIME),
}


def value_function(ctx: Context, node: Any) -> Term:
    """current_date, current_timestamp, localtimestamp, localtime."""
    form = _CLOCKS.get(node.op)
    if form is None:
        raise ctx.refuse(
            node,
            "this session value is not supported",
            "Supported: current_date, current_timestamp, now(). Of others, as current_user: SELECT it first, and write"
            " its value as a constant or a parameter.",
        )
    moment = now(ctx, node).sql
    local = f"({moment} AT TIME ZONE {quote_zone(ctx, node)})"
    return Term(form[0].format(moment=moment, local=local, n=max(0, min(6, node.typmod))), form[1])


def _word(ctx: Context, node: Any, what: str) -> str:
    term = coerce(ctx, node, ctx.compile(node), TEXT)
    if not term.literal or term.kind is not Kind.TEXT or term.value is None:
        raise ctx.refuse(node, f"the {what} must be a constant", "Write it in quotes, for example 'month'.")
    return term.value


def _zone(ctx: Context, node: Any) -> str:
    return quote_zone(ctx, node, _word(ctx, node, "time zone"))


def _arity(ctx: Context, node: Any, args: Arguments, *counts: int) -> None:
    if len(args) not in counts:
        raise ctx.refuse(node, "wrong number of arguments", f"Give {' or '.join(str(n) for n in counts)}.")


def _uncast(node: Any) -> Any:
    """A time, where a view has the interval that PostgreSQL makes of it; any other node itself."""
    name: Any = node.typeName if isinstance(node, ast.TypeCast) else None
    if name is None or name.typmods or name.arrayBounds or name.names[-1].sval != "interval":
        return node
    return node.arg


def date_trunc(ctx: Context, node: Any, args: Arguments) -> Term:
    """date_trunc(constant unit, moment [, constant zone])."""
    _arity(ctx, node, args, 2, 3)
    unit = _word(ctx, args[0], "unit").lower()
    if unit not in _UNITS:
        raise ctx.refuse(
            args[0], f'unit "{unit[:30]}" is not supported', "Supported: " + ", ".join(sorted(_UNITS)) + "."
        )
    term = ctx.compile(_uncast(args[1]))
    if term.kind is Kind.TIME:
        return _date_trunc_of_time(ctx, args, unit, term)
    if term.kind not in (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ) or (
        len(args) == 3 and term.kind is Kind.TIMESTAMP
    ):
        raise ctx.refuse(args[1], f"date_trunc of {term.kind.value} is not supported", "Give a date or a timestamp.")
    if term.kind is Kind.DATE and len(args) == 3:  # the session's midnight, cut in the other zone
        term = to_timestamptz(ctx, node, term)
    u, x = quote(unit), term.sql
    if term.kind is Kind.TIMESTAMP:
        cut = f"pg_catalog.date_trunc({u}, {x})"
        if unit not in _SHORT:
            cut = f"(CASE WHEN {x} >= {_low(TIMESTAMP, '4000-01-01')} THEN {cut} ELSE {x} END)"
        return Term(cut, TIMESTAMP, term.columns)
    zone = _zone(ctx, args[2]) if len(args) == 3 else quote_zone(ctx, node)
    if term.kind is Kind.DATE:
        local = f"pg_catalog.date_trunc({u}, {x}::{TIMESTAMP.name})"
        inner = f"CASE WHEN {x} >= {_low(DATE, '4000-01-01')} THEN {local} ELSE {x}::{TIMESTAMP.name} END"
        return Term(_clamped(term, f"(({inner}) AT TIME ZONE {zone})", TIMESTAMPTZ), TIMESTAMPTZ, term.columns)
    cut = f"pg_catalog.date_trunc({u}, {x}, {zone})"
    guard = f"{x} >= {_low(TIMESTAMPTZ, '4000-01-01')} AND {x} < {_high(TIMESTAMPTZ)}"
    return Term(f"(CASE WHEN {guard} THEN {cut} ELSE {x} END)", TIMESTAMPTZ, term.columns)


def _date_trunc_of_time(ctx: Context, args: Arguments, unit: str, term: Term) -> Term:
    """An interval, as in PostgreSQL: of whole seconds here, so that its text is one (query/keys.py)."""
    if len(args) == 3:
        raise ctx.refuse(args[2], "a time has no time zone to cut it in", "Leave the time zone out.")
    if unit in ("microseconds", "milliseconds"):
        raise ctx.refuse(args[0], f'unit "{unit}" is not supported of a time', "Cut it to a second, minute or hour.")
    cut = f"pg_catalog.date_trunc({quote(unit)}, {term.sql}::{INTERVAL.name})"
    return Term(cut, INTERVAL, term.columns)


def _field(ctx: Context, args: Arguments) -> tuple[str, Term]:
    name = _word(ctx, args[0], "field").lower()
    term = ctx.compile(args[1])
    fields = _FIELDS.get(term.kind)
    if fields is None:
        raise ctx.refuse(args[1], f"extract from {term.kind.value} is not supported", "Give a date, timestamp or time.")
    if name not in fields:
        hint = "Supported: " + ", ".join(sorted(fields)) + "."
        raise ctx.refuse(args[0], f'field "{name[:30]}" of {term.kind.value} is not supported', hint)
    return name, term


def _part(ctx: Context, node: Any, function: str, name: str, term: Term) -> str:
    x = term.sql
    call = f"pg_catalog.{function}({quote(name)}, {{}})"
    if term.kind is not Kind.TIMESTAMPTZ or name == "epoch":
        return call.format(x)
    local = call.format(f"({x} AT TIME ZONE {quote_zone(ctx, node)})")
    guard = f"{x} >= {_low(TIMESTAMPTZ)} AND {x} < {_high(TIMESTAMPTZ)}"
    universal = call.format(f"({x} AT TIME ZONE 'UTC')")
    return f"(CASE WHEN {guard} THEN {local} ELSE {universal} END)"


def extract(ctx: Context, node: Any, args: Arguments) -> Term:
    """extract(field from moment): numeric."""
    _arity(ctx, node, args, 2)
    name, term = _field(ctx, args)
    return Term(_part(ctx, node, "extract", name, term), NUMERIC, term.columns, size=_EXTRACTED)


def date_part(ctx: Context, node: Any, args: Arguments) -> Term:
    """date_part(field, moment): float8; from a date through extract, as PostgreSQL's own raises on late dates."""
    _arity(ctx, node, args, 2)
    name, term = _field(ctx, args)
    if term.kind is Kind.DATE:
        return Term(f"{_part(ctx, node, 'extract', name, term)}::{FLOAT8.name}", FLOAT8, term.columns)
    return Term(_part(ctx, node, "date_part", name, term), FLOAT8, term.columns)


def date(ctx: Context, node: Any, args: Arguments) -> Term:
    """date(moment), the cast."""
    _arity(ctx, node, args, 1)
    term = coerce(ctx, node, ctx.compile(args[0]), DATE)
    if term.kind is Kind.DATE:
        return term
    if term.kind not in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
        raise ctx.refuse(node, f"date of {term.kind.value} is not supported", "Give a timestamp.")
    return to_date(ctx, node, term)


def timezone(ctx: Context, node: Any, args: Arguments) -> Term:
    """moment AT TIME ZONE constant."""
    _arity(ctx, node, args, 2)
    zone = _zone(ctx, args[0])
    term = ctx.compile(args[1])
    if term.kind is Kind.DATE:  # PostgreSQL reads it as timestamptz first
        term = to_timestamptz(ctx, node, term)
    if term.kind not in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
        raise ctx.refuse(node, f"AT TIME ZONE on {term.kind.value} is not supported", "Use it on timestamps.")
    return at_zone(term, zone)


def isfinite(ctx: Context, node: Any, args: Arguments) -> Term:
    """isfinite(moment)."""
    _arity(ctx, node, args, 1)
    term = ctx.compile(args[0])
    if term.kind not in (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
        raise ctx.refuse(node, f"isfinite of {term.kind.value} is not supported", "Use it on dates and timestamps.")
    return Term(f"pg_catalog.isfinite({term.sql})", BOOL, term.columns)


FUNCTIONS: dict[str, Callable[[Context, Any, Arguments], Term]] = {
    "clock_timestamp": now_function,  # one moment for all rows, as of the others
    "date": date,
    "date_part": date_part,
    "date_trunc": date_trunc,
    "extract": extract,
    "isfinite": isfinite,
    "now": now_function,
    "statement_timestamp": now_function,
    "timezone": timezone,
    "transaction_timestamp": now_function,
}
