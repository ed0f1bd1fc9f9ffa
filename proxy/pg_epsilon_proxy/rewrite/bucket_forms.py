"""time_bucket of TimescaleDB, written with PostgreSQL's own functions: the same value for every argument.

Bins of moments begin at 2000-01-03, a Monday (of timestamptz at midnight in UTC, with a time zone
at midnight there), or at `origin`; those of months at January 2000, or at the origin's month. An
offset is taken away before, and given back after. Integers are cut to multiples of the width.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pg_epsilon.query.parse import ast

from ..session.rewriting import Refusal
from . import refusals
from .bucket_calls import FILLED, arguments, cast_of, is_null, is_untyped
from .positions import location
from .tree import function_name, sql_text, walk

INTEGERS = frozenset({"int2", "int4", "int8"})
DATE, STAMP, ZONED = "date", "timestamp", "timestamptz"
_MOMENTS = frozenset({DATE, STAMP, ZONED})
_ORIGIN, _ORIGIN_ZONED = "'2000-01-03'", "'2000-01-03 00:00:00+00'"
Cut = Callable[[str], str]
_SIMPLE = re.compile(r"\s*(\d{1,6})\s*(second|sec|minute|min|hour|day|week|month|mon|year)s?\s*", re.IGNORECASE)
_DAY = 86_400
_SECONDS = {"second": 1, "sec": 1, "minute": 60, "min": 60, "hour": 3600, "day": _DAY, "week": 7 * _DAY}
_MONTHS = {"month": 1, "mon": 1, "year": 12}
_UNITS = {1: "month", 3: "quarter", 12: "year", 120: "decade"}
_HINT = "Write time_bucket('15 minutes', ts), with \"offset\" => '5 minutes'::interval, or origin => or timezone =>."


@dataclass(frozen=True)
class Parts:
    """The arguments of a call. third: what stands in the third place, of which its type says what it is."""

    node: Any
    width: Any
    ts: Any
    third: Any = None
    zone: Any = None
    origin: Any = None
    offset: Any = None

    @property
    def typed(self) -> tuple[Any, ...]:
        """The expressions whose types must be known."""
        found = (self.ts, self.third, self.origin)
        return tuple(one for one in found if one is not None and cast_of(one) is None and not is_untyped(one))


@dataclass(frozen=True)
class Known:
    """What the facade says. types: by the text of an expression; widths: (months, seconds); months: of origins."""

    types: dict[str, str]
    widths: dict[str, tuple[int, float]]
    months: dict[str, int]

    def type_of(self, node: Any) -> str | None:
        """The type of an argument; None of an untyped constant or parameter."""
        said = cast_of(node)
        if said is not None:
            return said
        return None if is_untyped(node) else self.types.get(sql_text(node), "")


def parts(node: Any) -> Parts:
    """A call's arguments in their places. DP003 for a form that TimescaleDB does not have."""
    given, named = arguments(node)
    names: tuple[str, ...] = ("bucket_width", "ts", "timezone", "origin", "offset")
    if function_name(node)[-1] == FILLED:
        given, named = _without_ends(node, given, named)
        names = names[:3]
    found: dict[str, Any] = {**dict(zip(names[:2], given, strict=False)), **named}
    rest = given[2:]
    if len(rest) > 1:
        found.update(zip(names[2:], rest, strict=False))
        rest = []
    if set(found) - set(names) or not {"bucket_width", "ts"} <= set(found) or len(given) > len(names):
        raise refusals.shape(f"this form of {function_name(node)[-1]} is not known", _HINT, node)
    width, ts, third = found["bucket_width"], found["ts"], rest[0] if rest else None
    return Parts(node, width, ts, third, found.get("timezone"), found.get("origin"), found.get("offset"))


def _without_ends(node: Any, given: list[Any], named: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """A gap filling call's arguments without start and finish. DP003 where these are more than NULL."""
    is_end = len(given) > 2 and cast_of(given[2]) not in (None, "text", "varchar")
    ends = [*given[2 if is_end else 3 :], *(named[name] for name in ("start", "finish") if name in named)]
    if any(not is_null(end) for end in ends):
        hint = "Leave start and finish out: every declared group comes back, and HAVING takes some of them."
        raise refusals.shape(f"the ends of {FILLED} are not supported", hint, node)
    return given[: 2 if is_end else 3], {name: value for name, value in named.items() if name == "timezone"}


def simple_width(node: Any) -> tuple[int, float] | None:
    """(months, seconds) of an interval as it is mostly written; None: PostgreSQL must read it."""
    value = node.arg if isinstance(node, ast.TypeCast) and cast_of(node) == "interval" else node
    name: Any = node.typeName if isinstance(node, ast.TypeCast) else None
    if name is not None and name.typmods:
        return None
    text = value.val.sval if isinstance(value, ast.A_Const) and isinstance(value.val, ast.String) else None
    found = _SIMPLE.fullmatch(text or "")
    if found is None:
        return None
    number, unit = int(found[1]), found[2].lower()
    return number * _MONTHS.get(unit, 0), float(number * _SECONDS.get(unit, 0))


def is_constant(node: Any) -> bool:
    """Whether a width can be computed beforehand: it reads no column, parameter or table."""
    return not any(isinstance(one, ast.ColumnRef | ast.ParamRef | ast.SubLink) for one in walk(node))


def written(given: Parts, known: Known) -> str:
    """The call in PostgreSQL's own functions. DP003 for what they cannot say."""
    type_ = known.type_of(given.ts)
    if type_ in INTEGERS:
        return _integers(given)
    if type_ is None:
        hint = "Write its type: time_bucket('1 day', $1::timestamptz)."
        raise refusals.shape("time_bucket of a constant without a type", hint, given.node)
    if type_ not in _MOMENTS:
        hint = "Give a date, a timestamp or an integer."
        raise refusals.shape("time_bucket of this type is not supported", hint, given.node)
    given = _placed(given, known, type_)
    if given.zone is not None and type_ != ZONED:  # PostgreSQL makes it one
        return _moment(given, known, ZONED, f"({sql_text(given.ts)})::timestamptz")
    return _moment(given, known, type_, _operand(given.ts))


def _placed(given: Parts, known: Known, type_: str) -> Parts:
    """The third argument as what its type says it is."""
    if given.third is None:
        return given
    third = known.type_of(given.third)
    if third == "interval":
        return Parts(given.node, given.width, given.ts, None, given.zone, given.origin, given.third)
    if third in _MOMENTS:
        return Parts(given.node, given.width, given.ts, None, given.zone, given.third, given.offset)
    if third in ("text", "varchar") or (third is None and type_ == ZONED):
        return Parts(given.node, given.width, given.ts, None, given.third, given.origin, given.offset)
    raise refusals.shape("the third argument of time_bucket could be several things", _HINT, given.node)


def _operand(node: Any) -> str:
    text = sql_text(node)
    return text if isinstance(node, ast.ColumnRef | ast.FuncCall | ast.A_Const | ast.ParamRef) else f"({text})"


def _integers(given: Parts) -> str:
    if given.zone is not None or given.origin is not None:
        raise refusals.shape("a bucket of integers has an offset, and no origin or time zone", _HINT, given.node)
    offset = given.offset if given.offset is not None else given.third
    x, w = _operand(given.ts), _operand(given.width)
    if isinstance(given.width, ast.A_Const) and isinstance(given.width.val, ast.Integer):
        _check_positive(given.width.val.ival or 0, given)
    moved = x if offset is None else f"({x} - {_operand(offset)})"
    if _may_overflow(given.width):
        return f"({x} - {moved} % {w} - CASE WHEN {moved} % {w} < 0 THEN {w} ELSE {w} - {w} END)"
    return f"({x} - ({moved} % {w} + {w}) % {w})"


def _may_overflow(width: Any) -> bool:
    """Whether twice a width that says its type may be beyond that type's range."""
    whole = width.val.ival or 0 if isinstance(width, ast.A_Const) and isinstance(width.val, ast.Integer) else 0
    return whole > 2**30 or cast_of(width) in ("int2", "int8") or (whole == 0 and cast_of(width) == "int4")


def _check_positive(number: float, given: Parts) -> None:
    if number <= 0:
        message = "the width of a bucket must be greater than 0"
        raise Refusal(refusals.PARAMETER, message, hint=_HINT, position=location(given.node))


def _moment(given: Parts, known: Known, type_: str, x: str) -> str:
    """A bucket of moments. x: SQL of the moment, of this type."""
    width = known.widths.get(sql_text(given.width))
    _check_width(given, width, type_)
    months = width[0] if width is not None else 0
    origin = _origin(given, known, type_)
    if type_ == ZONED and given.zone is None and not months:
        return _shifted(given, x, _bin(given, origin or _ORIGIN_ZONED))
    if type_ != ZONED:
        cut = _months(given, known, months, origin) if months else _bin(given, origin or _ORIGIN)
        return f"({_shifted(given, f'{x}::timestamp', cut)})::date" if type_ == DATE else _shifted(given, x, cut)
    zone = "'UTC'" if given.zone is None else sql_text(given.zone)
    start = None if origin is None else f"timezone({zone}, {origin})"
    cut = _months(given, known, months, start) if months else _bin(given, start or _ORIGIN)
    if given.zone is None:
        return _shifted(given, x, lambda y: f"timezone({zone}, {cut(f'timezone({zone}, {y})')})")
    return f"timezone({zone}, {_shifted(given, f'timezone({zone}, {x})', cut)})"


def _check_width(given: Parts, width: tuple[int, float] | None, type_: str) -> None:
    if width is None:
        return
    _check_positive(max(width), given)
    if width[0] and width[1]:
        raise refusals.shape("a bucket of months has no days or hours besides", "Write '1 month'.", given.node)
    if type_ == DATE and width[1] % _DAY:
        raise refusals.shape("a bucket of dates is whole days", "Cast the date: day::timestamp.", given.node)


def _origin(given: Parts, known: Known, type_: str) -> str | None:
    """SQL of the origin, with its type."""
    if given.origin is None:
        return None
    own = known.type_of(given.origin)
    if own not in (None, DATE, type_):
        hint = f"Write origin => '2000-01-01'::{type_}."
        raise refusals.shape(f"the origin of a bucket of {type_} is {own or 'of another type'}", hint, given.node)
    return f"({sql_text(given.origin)})::{STAMP if type_ == DATE else type_}"


def _bin(given: Parts, origin: str) -> Cut:
    return lambda x: f"date_bin({sql_text(given.width)}, {x}, {origin})"


def _shifted(given: Parts, x: str, cut: Cut) -> str:
    if given.offset is None:
        return cut(x)
    offset = f"({sql_text(given.offset)})::interval"
    return f"({cut(f'({x} - {offset})')} + {offset})"


def _months(given: Parts, known: Known, number: int, origin: str | None) -> Cut:
    """Months, quarters, years, decades, and what divides a year; from another month by a shift there and back."""
    phase = (known.months[origin] if origin is not None else 0) % number
    if number not in _UNITS and 12 % number:
        hint = "Use a width that divides a year ('1 month' to '6 months'), '1 year' or '10 years'."
        message = f"a bucket of {number} months cannot be written with PostgreSQL's functions"
        raise refusals.shape(message, hint, given.node)

    def cut(x: str) -> str:
        if phase:
            x = f"({x} - interval '{phase} months')"
        if number in _UNITS:
            found = f"date_trunc('{_UNITS[number]}', {x})"
        else:
            year, ends = f"date_trunc('year', {x})", range(number, 12, number)
            arms = (f"WHEN extract(month FROM {x}) <= {end} THEN {_later(year, end - number)}" for end in ends)
            found = f"(CASE {' '.join(arms)} ELSE {_later(year, 12 - number)} END)"
        return f"({found} + interval '{phase} months')" if phase else found

    return cut


def _later(year: str, months: int) -> str:
    return f"{year} + interval '{months} months'" if months else year


def origins(given: Parts, known: Known) -> Sequence[str]:
    """SQL of the local origins of month buckets, whose months must be known."""
    type_ = known.type_of(given.ts)
    width = known.widths.get(sql_text(given.width))
    if type_ not in _MOMENTS or width is None or not width[0]:
        return ()
    given = _placed(given, known, str(type_))
    kind = ZONED if given.zone is not None else str(type_)
    origin = _origin(given, known, kind)
    if origin is None:
        return ()
    if not is_constant(given.origin) or (given.zone is not None and not is_constant(given.zone)):
        message = "a bucket of months from another month needs constants"
        raise refusals.shape(message, "Write the origin and the time zone as constants.", given.node)
    if kind != ZONED:
        return (origin,)
    zone = "'UTC'" if given.zone is None else sql_text(given.zone)
    return (f"timezone({zone}, {origin})",)
