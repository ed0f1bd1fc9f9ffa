"""Dates and times of a row moved by a constant: date + 1, timestamp - interval '4 hours'.

Total on every row: PostgreSQL raises where the sum is not in its calendar. Total extension,
documented: moments that are nearer to the calendar's end than the shift (by whole years, and a
year) become that end's infinity.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from math import ceil
from typing import Any

from pg_epsilon.query.compare import quote_zone
from pg_epsilon.query.context import Context
from pg_epsilon.query.literals import coerce, literal, quote
from pg_epsilon.query.temporal import to_timestamp
from pg_epsilon.query.types import DATE, INTERVAL, TIME, TIMESTAMP, TIMESTAMPTZ, Kind, Term, Type

_DAY = 86_400
_MAX_DAYS = 31 * 12 * 10_000  # far less than the calendar is long: its ends stay two sides
_FIRST, _LAST = -4712, 294_276  # the calendar's whole years; 0 is 1 BC
VALUE = re.compile(r"([+-]\d+) mons ([+-]\d+) days ([+-]\d+(?:\.\d+)?) secs", re.ASCII)
_IN_SQL = re.compile(rf"'{VALUE.pattern}'::{re.escape(INTERVAL.name)}", re.ASCII)


@dataclass(frozen=True)
class Span:
    """A finite interval as PostgreSQL keeps it: months are added first, then days, then seconds."""

    months: int = 0
    days: int = 0
    seconds: Decimal = Decimal(0)

    def __neg__(self) -> Span:
        return Span(-self.months, -self.days, -self.seconds)

    @property
    def sql(self) -> str:
        """The constant, in the canonical text of intervals (literals.from_text)."""
        seconds = format(self.seconds, "+f") if self.seconds else "+0"
        return f"'{self.months:+d} mons {self.days:+d} days {seconds} secs'::{INTERVAL.name}"

    @property
    def reach(self) -> tuple[int, int]:
        """How many days it moves back and forth at most, with what lies between."""
        parts = (self.months * 31, self.days, self.seconds / _DAY)
        back, forth = (ceil(sum(max(sign * part, Decimal(0)) for part in parts)) for sign in (-1, 1))
        return back, forth


def spans(sql: str) -> tuple[Span, ...]:
    """The intervals by which compiled SQL shifts anything."""
    return tuple(_span(match) for match in _IN_SQL.finditer(sql))


def _span(match: re.Match[str]) -> Span:
    return Span(int(match[1]), int(match[2]), Decimal(match[3]))


def shift(ctx: Context, node: Any, operator: str, left: Term, right: Term) -> Term | None:
    """`left operator right`, if that is a moment of a row moved by a constant; else None.

    Errors: DP003 for a shift of more than 10,000 years.
    """
    if operator == "+" and left.constant:
        left, right = right, left
    if operator == "+" and right.kind is Kind.UNKNOWN and left.kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
        right = coerce(ctx, node, right, INTERVAL)
    rule = _RULES.get((left.kind, right.kind))
    if rule is None or operator not in "+-" or left.constant or not right.literal:
        return None
    type_, move = rule
    if right.value is None:
        return literal(type_, None)
    match = VALUE.fullmatch(right.value)
    by = Span(days=int(right.value)) if match is None else _span(match)
    by = -by if operator == "-" else by
    if max(by.reach) > _MAX_DAYS:
        raise ctx.refuse(node, "a date or time is moved by more than 10,000 years", "Move it by less.")
    return Term(move(ctx, node, left, by), type_, left.columns)


def _year(number: int, type_: Type) -> str:
    """The first moment of a year."""
    shown = f"{number:04d}-01-01" if number > 0 else f"{1 - number:04d}-01-01"
    clock = {TIMESTAMP: " 00:00:00", TIMESTAMPTZ: " 00:00:00+00"}.get(type_, "")
    return f"{quote(shown + clock + ('' if number > 0 else ' BC'))}::{type_.name}"


def _guarded(x: str, type_: Type, reach: tuple[int, int], inside: str, last: int = _LAST) -> str:
    """`inside`, which is NULL for NULL and infinite for infinities, where the calendar holds it; else an infinity."""
    back, forth = reach
    high = f" WHEN {x} >= {_year(last - forth // 365, type_)} THEN 'infinity'::{type_.name}" if forth else ""
    low = f" WHEN {x} < {_year(_FIRST + 1 + back // 365, type_)} THEN '-infinity'::{type_.name}" if back else ""
    return f"(CASE{high}{low} ELSE {inside} END)" if high or low else inside


def _day(ctx: Context, node: Any, term: Term, by: Span) -> str:
    """A date and a whole number of days; dates reach further than timestamps."""
    return _guarded(term.sql, DATE, by.reach, f"{term.sql} + ({by.days})" if by.days else term.sql, 5_874_897)


def _date(ctx: Context, node: Any, term: Term, by: Span) -> str:
    return _stamp(ctx, node, to_timestamp(ctx, node, term), by)


def _stamp(ctx: Context, node: Any, term: Term, by: Span) -> str:
    return _guarded(term.sql, TIMESTAMP, by.reach, f"({term.sql} + {by.sql})")


def _zoned(ctx: Context, node: Any, term: Term, by: Span) -> str:
    """Months and days are those of the session's TimeZone, and each ends in a moment that exists there."""
    inside, (back, forth) = term.sql, by.reach
    for part in (Span(months=by.months), Span(days=by.days)):
        if part != Span():
            zone = quote_zone(ctx, node)
            inside = f"(({inside} AT TIME ZONE {zone} + {part.sql}) AT TIME ZONE {zone})"
            back, forth = max(back, 1), max(forth, 1)  # the way through a time zone has ends of its own
    if by.seconds:
        inside = f"({inside} + {Span(seconds=by.seconds).sql})"
    return _guarded(term.sql, TIMESTAMPTZ, (back, forth), inside)


def _clock(ctx: Context, node: Any, term: Term, by: Span) -> str:
    """A time of day goes round; months and days do not move it."""
    return f"({term.sql} + {by.sql})"


_RULES: dict[tuple[Kind, Kind], tuple[Type, Callable[[Context, Any, Term, Span], str]]] = {
    (Kind.DATE, Kind.INT): (DATE, _day),
    (Kind.DATE, Kind.INTERVAL): (TIMESTAMP, _date),
    (Kind.TIMESTAMP, Kind.INTERVAL): (TIMESTAMP, _stamp),
    (Kind.TIMESTAMPTZ, Kind.INTERVAL): (TIMESTAMPTZ, _zoned),
    (Kind.TIME, Kind.INTERVAL): (TIME, _clock),
}
