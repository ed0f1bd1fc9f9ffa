"""Between which moments a date or time lies by what is declared, and the range of each of its fields.

Public facts only. What is too early, too late or too involved for this has no known ends, and then
the fields that need none still have their range: an hour is from 0 to 23 of any moment.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

from pg_epsilon.query import clock
from pg_epsilon.query.intervals import UNKNOWN, Range
from pg_epsilon.query.parse import ast, children, enums
from pg_epsilon.query.schema import Column
from pg_epsilon.query.types import MOMENTS, Kind, type_of

ColumnOf = Callable[[Any], Column]
_DAY = timedelta(days=1)
_MICRO = Fraction(1, 1_000_000)
_TEXT = re.compile(r"\d{4}-\d\d-\d\d([ T].*)?", re.ASCII)
_PART = re.compile(r"([+-]?\d{1,7}) ?(year|month|mon|week|day|hour|minute|second)s?", re.ASCII)
_KINDS = {"date": Kind.DATE, "timestamp": Kind.TIMESTAMP, "timestamptz": Kind.TIMESTAMPTZ}
# Whatever the moment: least, greatest, step.
_ALWAYS: dict[str, tuple[int, Fraction, Fraction]] = {
    "hour": (0, Fraction(23), Fraction(1)),
    "minute": (0, Fraction(59), Fraction(1)),
    "second": (0, 60 - _MICRO, _MICRO),
    "milliseconds": (0, 60_000 - 1000 * _MICRO, 1000 * _MICRO),
    "microseconds": (0, Fraction(59_999_999), Fraction(1)),
    "dow": (0, Fraction(6), Fraction(1)),
    "isodow": (1, Fraction(7), Fraction(1)),
    "day": (1, Fraction(31), Fraction(1)),
    "doy": (1, Fraction(366), Fraction(1)),
    "week": (1, Fraction(53), Fraction(1)),
    "month": (1, Fraction(12), Fraction(1)),
    "quarter": (1, Fraction(4), Fraction(1)),
}
_OF_TIME = {**_ALWAYS, "hour": (0, Fraction(24), Fraction(1)), "epoch": (0, Fraction(86_400), _MICRO)}
# What grows with the moment.
_GROWING: dict[str, Callable[[datetime], int]] = {
    "year": lambda moment: moment.year,
    "isoyear": lambda moment: moment.isocalendar().year,
    "decade": lambda moment: moment.year // 10,
    "century": lambda moment: (moment.year + 99) // 100,
    "millennium": lambda moment: (moment.year + 999) // 1000,
}


def _midnight(moment: datetime) -> datetime:
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)


_CUT: dict[str, Callable[[datetime], datetime]] = {
    "week": lambda moment: _midnight(moment) - moment.weekday() * _DAY,
    "month": lambda moment: _midnight(moment).replace(day=1),
    "quarter": lambda moment: _midnight(moment).replace(day=1, month=(moment.month - 1) // 3 * 3 + 1),
    "year": lambda moment: _midnight(moment).replace(day=1, month=1),
}


@dataclass(frozen=True)
class Moments:
    """From one moment to another, both inclusive; of a timestamptz in UTC."""

    low: datetime
    high: datetime
    kind: Kind

    def wider(self, by: timedelta = _DAY) -> Moments:
        """By so much on both sides: a day is more than any time zone is off."""
        return replace(self, low=self.low - by, high=self.high + by)


def field_range(field: str, node: Any, column_of: ColumnOf) -> Range:
    """The range of extract(field from node), a numeric; UNKNOWN where it needs ends and has none."""
    within = _within_day(field, node, column_of)
    if within is not None:
        return within
    of_time = any(type_of(column_of(one)).kind is Kind.TIME for one in _columns(node))
    known = (_OF_TIME if of_time else _ALWAYS).get(field)
    if known is not None:
        return Range(Fraction(known[0]), known[1], known[2])
    span = moments_of(node, column_of)
    if span is None:
        return UNKNOWN
    if field == "epoch":
        # By the second, although there are microseconds: sums of these pass 2^63 with 5000 rows.
        start, second = datetime(1970, 1, 1), timedelta(seconds=1)
        first, last = (span.low - start) // second, -((start - span.high) // second)
        step = Fraction(86_400 if span.kind is Kind.DATE else 1)
        return Range(Fraction(first), Fraction(last), step)
    if field not in _GROWING:
        return UNKNOWN
    local = span.wider() if span.kind is Kind.TIMESTAMPTZ else span
    low, high = (Fraction(_GROWING[field](one)) for one in (local.low, local.high))
    return Range(low, high, Fraction(1))


def _within_day(field: str, node: Any, column_of: ColumnOf) -> Range | None:
    """The range of a field of a column of times with bounds; None for anything else."""
    column = column_of(node) if isinstance(node, ast.ColumnRef) else None
    if column is None or column.policy is None or type_of(column).kind is not Kind.TIME:
        return None
    ends = [clock.microseconds(text or "") for text in (column.policy.lower, column.policy.upper)]
    unit = {"hour": 3_600_000_000, "epoch": 1}.get(field)
    if unit is None or None in ends:
        return None
    low, high = (Fraction((end or 0) // unit) for end in ends)
    return Range(low, high, Fraction(1)) if field == "hour" else Range(low * _MICRO, high * _MICRO, _MICRO)


def days_between(left: Any, right: Any, column_of: ColumnOf) -> Range | None:
    """The range of a difference of two dates; None if it is not known to be one."""
    a, b = moments_of(left, column_of), moments_of(right, column_of)
    if a is None or b is None or not a.kind is b.kind is Kind.DATE:
        return None
    return Range(Fraction((a.low - b.high).days), Fraction((a.high - b.low).days), Fraction(1), whole=True)


def _columns(node: Any) -> list[Any]:
    if isinstance(node, ast.ColumnRef):
        return [node]
    return [one for child in children(node) for one in _columns(child)]


def moments_of(node: Any, column_of: ColumnOf) -> Moments | None:
    """Where the moments of an expression lie; None for what is none, or not known."""
    rule = _RULES.get(type(node))
    try:
        return rule(node, column_of) if rule is not None else None
    except (OverflowError, ValueError):  # beyond the years 1 to 9999
        return None


def read_moment(text: str) -> datetime:
    """A moment of the years 1 to 9999, in UTC if it has a time zone. ValueError for any other text."""
    if _TEXT.fullmatch(text) is None:
        raise ValueError
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)


def _column(node: Any, column_of: ColumnOf) -> Moments | None:
    column = column_of(node)
    policy, kind = column.policy, type_of(column).kind
    if policy is None or kind not in MOMENTS:
        return None
    if policy.lower is not None and policy.upper is not None:
        return Moments(read_moment(policy.lower), read_moment(policy.upper), kind)
    listed = [read_moment(text) for text in policy.domain or policy.edges or ()]
    return Moments(min(listed), max(listed), kind) if listed else None


def _cast(node: Any, column_of: ColumnOf) -> Moments | None:
    kind = _KINDS.get(node.typeName.names[-1].sval)
    if kind is None or node.typeName.typmods:
        return None
    if isinstance(node.arg, ast.A_Const):
        moment = read_moment(getattr(node.arg.val, "sval", None) or "")
        return _as(kind, Moments(moment, moment, kind if kind is not Kind.TIMESTAMPTZ else Kind.TIMESTAMP))
    inner = moments_of(node.arg, column_of)
    return None if inner is None else _as(kind, inner)


def _as(kind: Kind, span: Moments) -> Moments:
    if kind is not span.kind and Kind.TIMESTAMPTZ in (kind, span.kind):
        span = span.wider()
    if kind is Kind.DATE:
        span = Moments(_midnight(span.low), _midnight(span.high), kind)
    return replace(span, kind=kind)


def _function(node: Any, column_of: ColumnOf) -> Moments | None:
    name, args = node.funcname[-1].sval, tuple(node.args or ())
    if name == "date" and len(args) == 1:
        inner = moments_of(args[0], column_of)
        return None if inner is None else _as(Kind.DATE, inner)
    inner = moments_of(args[1], column_of) if name in ("date_trunc", "timezone") and len(args) > 1 else None
    if inner is None:
        return None
    if name == "timezone":
        local = inner.kind is Kind.TIMESTAMPTZ or inner.kind is Kind.DATE
        return replace(inner.wider(2 * _DAY), kind=Kind.TIMESTAMP if local else Kind.TIMESTAMPTZ)
    unit = word(args[0])
    cut = _CUT.get(unit)
    if cut is None and unit in ("decade", "century", "millennium", ""):
        return None
    zoned = inner.kind is not Kind.TIMESTAMP
    inner = inner.wider(2 * _DAY) if zoned else inner
    low = cut(inner.low) if cut is not None else _midnight(inner.low)
    low = low - _DAY if zoned else low
    return Moments(low, inner.high, Kind.TIMESTAMPTZ if zoned else Kind.TIMESTAMP)


def word(node: Any) -> str:
    """A string constant in lower case; empty for anything else."""
    return (node.val.sval or "").lower() if isinstance(node, ast.A_Const) and isinstance(node.val, ast.String) else ""


def _operator(node: Any, column_of: ColumnOf) -> Moments | None:
    """A moment moved by a constant."""
    sign = {"+": 1, "-": -1}.get(node.name[-1].sval)
    if sign is None or node.kind != enums.A_Expr_Kind.AEXPR_OP or node.lexpr is None:
        return None
    span, by = moments_of(node.lexpr, column_of), node.rexpr
    if span is None and sign == 1:
        span, by = moments_of(node.rexpr, column_of), node.lexpr
    if span is None:
        return None
    if isinstance(by, ast.A_Const) and isinstance(by.val, ast.Integer) and span.kind is Kind.DATE:
        days = sign * (by.val.ival or 0) * _DAY
        return replace(span, low=span.low + days, high=span.high + days)
    parts = _interval(by)
    if parts is None:
        return None
    months, rest = sign * parts[0], sign * parts[1]
    kind = Kind.TIMESTAMP if span.kind is Kind.DATE else span.kind
    if months:  # the last days of a month come together, each with its own clock
        low, high = (_midnight(_months_later(one, months)) for one in (span.low, span.high))
        span = replace(span, low=low, high=high + _DAY)
    span = span.wider() if kind is Kind.TIMESTAMPTZ else span
    return Moments(span.low + rest, span.high + rest, kind)


def _months_later(moment: datetime, months: int) -> datetime:
    year, month = divmod(moment.year * 12 + moment.month - 1 + months, 12)
    first = moment.replace(year=year, month=month + 1, day=1)
    last = (first.replace(day=28) + 4 * _DAY).replace(day=1) - _DAY
    return first.replace(day=min(moment.day, last.day))


def _interval(node: Any) -> tuple[int, timedelta] | None:
    """(months, the rest) of an interval constant in whole units, '1 month -1 day'; else None."""
    text = ""
    if isinstance(node, ast.TypeCast) and isinstance(node.arg, ast.A_Const):
        type_: Any = node.typeName
        text = word(node.arg) if type_.names[-1].sval == "interval" and not type_.typmods else ""
    elif isinstance(node, ast.A_Const):
        text = word(node)
    found = list(_PART.finditer(text))
    if not found or _PART.sub("", text).strip():
        return None
    months, rest = 0, timedelta()
    for part in found:
        number, unit = int(part[1]), part[2]
        if unit in ("year", "mon", "month"):
            months += number * (12 if unit == "year" else 1)
        else:
            rest += timedelta(**{f"{unit}s": number})
    return months, rest


_RULES: dict[type, Callable[[Any, ColumnOf], Moments | None]] = {
    ast.A_Expr: _operator,
    ast.ColumnRef: _column,
    ast.FuncCall: _function,
    ast.TypeCast: _cast,
}
