"""date_bin: moments cut to equal bins from a fixed origin, as time_bucket of TimescaleDB cuts them.

PostgreSQL raises near the ends of its calendar (4714 BC, 294276 AD). Total extension, documented: moments outside
[4000 BC, 280000 AD) stay as they are, and so do infinities.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from math import gcd
from typing import Any

from pg_epsilon.query.context import Context
from pg_epsilon.query.literals import coerce, fold_term, quote
from pg_epsilon.query.shifts import VALUE, Span, spans
from pg_epsilon.query.temporal import to_timestamp, to_timestamptz
from pg_epsilon.query.types import INTERVAL, TIMESTAMP, TIMESTAMPTZ, Kind, Term, Type

Arguments = tuple[Any, ...]

_HOUR, _DAY = 3600, 86_400
_MOMENTS = (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ)
_LONGEST = 100 * 366 * _DAY  # seconds: what is cut from 4000 BC stays in the calendar
# As this module writes them; of no other constant is more known than that it makes the grain finer.
_ORIGIN = re.compile(r", '(\d{4}-\d\d-\d\d) (\d\d):(\d\d):(\d\d)(\.\d+)?(?:\+00)?'::pg_catalog\.timestamp(?:tz)?\)")
_FORM = "Write date_bin('15 minutes', x, '2000-01-03')."


def date_bin(ctx: Context, node: Any, args: Arguments) -> Term:
    """date_bin(constant width, moment, constant origin)."""
    if len(args) != 3:
        raise ctx.refuse(node, "wrong number of arguments", _FORM)
    width = _width(ctx, args[0])
    term, origin = ctx.compile(args[1]), ctx.compile(args[2])
    if term.kind not in (*_MOMENTS, Kind.UNKNOWN):
        raise ctx.refuse(args[1], f"date_bin of {term.kind.value} is not supported", "Give a date or a timestamp.")
    # Of two forms PostgreSQL takes the one that is met, then the one that it prefers.
    kinds = {term.kind, origin.kind}
    local = Kind.TIMESTAMP in kinds and Kind.TIMESTAMPTZ not in kinds
    target, low, high = (TIMESTAMP, "", "") if local else (TIMESTAMPTZ, "+00", "+00")
    x = _moment(ctx, args[1], term, target)
    start = _origin(ctx, args[2], origin, target)
    inside = (
        f"{x.sql} >= {quote(f'4000-01-01 00:00:00{low} BC')}::{target.name}"
        f" AND {x.sql} < {quote(f'280000-01-01 00:00:00{high}')}::{target.name}"
    )
    cut = f"pg_catalog.date_bin({width.sql}, {x.sql}, {start})"
    return Term(f"(CASE WHEN {inside} THEN {cut} ELSE {x.sql} END)", target, x.columns)


def grain(key_sql: str, known: int) -> int | None:
    """Seconds between samples of which every bin in `key_sql` has one; None below a second. known: of other functions.

    Bins begin at multiples of the greatest common divisor of widths, shifts and origins. A time zone's offset changes
    by multiples of a quarter of an hour: so do the pieces that are left of a bin of local time. Days keep six hours.
    """
    if "date_bin(" not in key_sql:
        return known
    origins = [match.groups() for match in _ORIGIN.finditer(key_sql)]
    steps = [_microseconds(Decimal(_DAY) * one.days + one.seconds) for one in spans(key_sql)]
    for _, hour, minute, second, fraction in origins:
        clock = Decimal(int(hour) * _HOUR + int(minute) * 60 + int(second)) + Decimal(f"0{fraction or ''}")
        steps.append(_microseconds(clock))
    if any(step % _microseconds(Decimal(_DAY)) for step in steps):
        steps.append(_microseconds(Decimal(_HOUR // 4)))
    step = gcd(_microseconds(Decimal(gcd(known, 6 * _HOUR))), *steps)
    seconds, rest = divmod(step, 1_000_000)
    return seconds if seconds and not rest else None


def _microseconds(seconds: Decimal) -> int:
    return abs(round(seconds * 1_000_000))


def _width(ctx: Context, node: Any) -> Span:
    term = coerce(ctx, node, ctx.compile(node), INTERVAL)
    match = VALUE.fullmatch(term.value or "") if term.literal and term.kind is Kind.INTERVAL else None
    if match is None:
        raise ctx.refuse(node, "the width of a bin must be a constant interval", _FORM)
    found = Span(int(match[1]), int(match[2]), Decimal(match[3]))
    if found.months:
        raise ctx.refuse(
            node, "a bin of months has no fixed width", "Write date_trunc('month', x), or 'quarter', 'year'."
        )
    if not 0 < found.days * _DAY + found.seconds <= _LONGEST:
        raise ctx.refuse(node, "the width of a bin is out of range", "Give more than 0, and at most 100 years of days.")
    return found


def _moment(ctx: Context, node: Any, term: Term, target: Type) -> Term:
    if term.kind is target.kind:
        return term
    if term.kind is Kind.UNKNOWN:
        return coerce(ctx, node, term, target)
    return (to_timestamp if target is TIMESTAMP else to_timestamptz)(ctx, node, term)


def _origin(ctx: Context, node: Any, term: Term, target: Type) -> str:
    """The origin as a constant of years with four digits."""
    if term.kind is not Kind.UNKNOWN and term.kind not in _MOMENTS:
        raise ctx.refuse(node, "the origin must be a date or a timestamp", _FORM)
    moment = coerce(ctx, node, term, target)
    if moment.kind is not target.kind:
        moment = fold_term(ctx, node, _moment(ctx, node, moment, target)) if moment.literal else moment
    text = moment.value or ""
    sql = f"{quote(text)}::{target.name}"
    if not moment.literal or _ORIGIN.fullmatch(f", {sql})") is None:
        raise ctx.refuse(node, "the origin must be a constant of the years 1 to 9999", _FORM)
    return sql


FUNCTIONS: dict[str, Callable[[Context, Any, Arguments], Term]] = {"date_bin": date_bin}
