"""Declared domains → group keys (rule R4): every key, empty ones too, comes from the declaration, none from data."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal, InvalidOperation
from itertools import pairwise

from pg_epsilon.errors import OUT_OF_RANGE, SHAPE, UNDECLARED, DPError
from pg_epsilon.query import clock
from pg_epsilon.query.literals import enum_text, identifier, quote
from pg_epsilon.query.schema import Column
from pg_epsilon.query.types import Kind, Type, type_of

MAX_KEYS = 1_000_000

_REFUSED = {
    Kind.FLOAT: "equal floating point values can have several texts",
    Kind.INTERVAL: "equal intervals can have several texts",
    Kind.OTHER: "only simple types have a declared domain",
}
_TRUE = frozenset({"t", "true", "yes", "on", "1"})
_FALSE = frozenset({"f", "false", "no", "off", "0"})
_DAYS = re.compile(r"\s*(\d{1,6})?\s*(day|week)s?\s*", re.ASCII)


@dataclass(frozen=True)
class _Grid:
    """Equal cells of `step` from `lower` to `upper`, all inclusive; a value's key is its cell's lower end.

    cell: of a value's SQL, (whether it is inside, the number of its cell if it is).
    """

    keys: Callable[[], tuple[str, ...]]
    size: int
    sql: Callable[[str], str]
    cell: Callable[[str], tuple[str, str]]


def key_domain(column: Column, relation: str = "<table>") -> tuple[str | None, ...]:
    """Return the ordered, complete list of group keys of a column, as text outputs; None last if it may be NULL.

    Public: a function of the declaration and the type only. Values outside it belong to no group. relation: the
    column's, as hints name it. Errors: DP004 if no finite domain is declared, DP005 if it has more than MAX_KEYS keys,
    DP003 if the type cannot be a key.
    """
    _check(column, relation)
    policy = column.policy
    assert policy is not None  # noqa: S101 -- _check refused it
    keys: tuple[str, ...]
    kind = type_of(column).kind
    grid = _grid(column)
    if policy.domain is not None:
        keys = tuple(dict.fromkeys(_canonical(column, value) for value in policy.domain))
    elif policy.edges is not None and kind not in (Kind.BOOL, Kind.ENUM):
        keys = tuple(_canonical(column, value) for value in policy.edges)[:-1]
    elif kind is Kind.BOOL:
        keys = ("f", "t")
    elif kind is Kind.ENUM:
        keys = column.enum_labels or ()
    elif grid is not None:
        if grid.size > MAX_KEYS:
            raise DPError(
                OUT_OF_RANGE,
                f"column {column.name} has {grid.size} declared keys, more than {MAX_KEYS}",
                "Ask the owner for a coarser resolution, or restrict the question with WHERE.",
            )
        keys = grid.keys()
    else:
        raise _no_domain(column, relation)
    if not keys:
        raise _no_domain(column, relation)
    return (*keys, None) if policy.nullable else keys


def key_sql(column: Column, sql_alias: str = "r") -> str:
    """Return SQL (text) for the key of a row; a value outside the declared domain gives a text that is not a key.

    Total. The engine pins DateStyle ISO and TimeZone UTC. Errors: DP003 if the type cannot be a key, DP004 undeclared.
    """
    _check(column)
    policy = column.policy
    x = f"{sql_alias}.{identifier(column.name)}"
    if policy is not None and policy.domain is None:
        if policy.edges is not None and type_of(column).kind not in (Kind.BOOL, Kind.ENUM):
            return _edges_sql(column, policy.edges, x)
        grid = _grid(column)
        if grid is not None:
            return grid.sql(x)
    return _text_sql(column, x)


def grid_size(column: Column) -> int | None:
    """How many cells bounds and resolution make of a column, which takes no time; None without such a grid."""
    grid = _grid(column)
    return None if grid is None else grid.size


def cells(column: Column, x: str) -> tuple[str, str] | None:
    """SQL of (whether a value is within the declared bounds, the number of its key then); None without such a grid."""
    grid = _grid(column)
    return None if grid is None else grid.cell(x)


def text_sql(type_: Type, x: str) -> str | None:
    """SQL of the one text that all equal values of a type have, total; None if the type has no such text."""
    if type_.kind in (Kind.INTERVAL, Kind.OTHER, Kind.UNKNOWN) or not type_.deterministic:
        return None
    if type_.name == "pg_catalog.numeric":
        return f"pg_catalog.trim_scale({x})::pg_catalog.text"
    if type_.kind is Kind.FLOAT:
        return f"({x} + 0::{type_.name})::pg_catalog.text"  # -0 becomes 0
    if type_.kind is Kind.BOOL:
        return f"(CASE WHEN {x} THEN 't'::pg_catalog.text WHEN NOT {x} THEN 'f'::pg_catalog.text END)"
    if type_.kind is Kind.ENUM:
        return enum_text(x)
    return f"{x}::pg_catalog.text"


def clock_text(x: str) -> str:
    """SQL of the text of an interval of whole seconds below two days, as date_trunc gives it of a time; total."""
    return f"pg_catalog.to_char({x}, 'HH24:MI:SS')"


def _text_sql(column: Column, x: str) -> str:
    return text_sql(type_of(column), x) or f"{x}::pg_catalog.text"


def _check(column: Column, relation: str = "<table>") -> None:
    type_ = type_of(column)
    ranges = type_.kind is Kind.FLOAT and column.policy is not None and column.policy.edges is not None
    why = None if ranges else _REFUSED.get(type_.kind)
    if type_.kind is Kind.TEXT and not type_.deterministic:
        why = "equal texts of a nondeterministic collation can differ"
    if why is not None:
        raise DPError(
            SHAPE, f"column {column.name} of type {column.type_name} cannot be a group key: {why}", "group by another"
        )
    if column.policy is None:
        raise _no_domain(column, relation)


def _no_domain(column: Column, relation: str) -> DPError:
    return DPError(
        UNDECLARED,
        f"column {column.name} has no declared domain",
        f"Ask the owner: CALL dp.describe_column({quote(relation)}, {quote(column.name)}, domain => ARRAY[...]),"
        " or bounds with a resolution.",
    )


def _bad(column: Column, value: str) -> DPError:
    return DPError(
        UNDECLARED,
        f'the declaration of column {column.name} holds "{value[:60]}", which is no value of {column.type_name}',
        "Ask the owner to declare it again with dp.describe_column.",
    )


def _canonical(column: Column, value: str) -> str:
    """Return a declared value in the text that key_sql gives."""
    kind = type_of(column).kind
    try:
        if kind is Kind.INT:
            return str(int(value))
        if kind is Kind.NUMERIC:
            text = format(Decimal(value), "f")
            return text.rstrip("0").rstrip(".") if "." in text else text
    except (ValueError, InvalidOperation):
        raise _bad(column, value) from None
    if kind is Kind.BOOL:
        word = value.strip().lower()
        if word not in _TRUE | _FALSE:
            raise _bad(column, value)
        return "t" if word in _TRUE else "f"
    if kind is Kind.ENUM and value not in (column.enum_labels or ()):
        raise _bad(column, value)
    return value.rstrip(" ") if type_of(column).name == "pg_catalog.bpchar" else value


def _grid(column: Column) -> _Grid | None:
    policy = column.policy
    if policy is None or policy.lower is None or policy.upper is None:
        return None
    kind = type_of(column).kind
    if kind in (Kind.INT, Kind.NUMERIC):
        return _number_grid(column, policy.lower, policy.upper, policy.resolution, kind)
    if kind is Kind.DATE:
        return _date_grid(column, policy.lower, policy.upper, policy.resolution)
    if kind is Kind.TIME and policy.resolution is not None:
        return _time_grid(column, policy.lower, policy.upper, policy.resolution)
    return None


def _number_grid(column: Column, lower: str, upper: str, resolution: str | None, kind: Kind) -> _Grid | None:
    if resolution is None and kind is Kind.NUMERIC:
        return None
    try:
        low, high, step = Decimal(lower), Decimal(upper), Decimal(resolution or "1")
    except InvalidOperation:
        raise _bad(column, resolution or lower) from None
    whole = all(number == number.to_integral_value() for number in (low, step))
    if not (low.is_finite() and high.is_finite() and step.is_finite()) or step <= 0 or (kind is Kind.INT and not whole):
        return None
    size = int((high - low) // step) + 1

    low_sql, high_sql, step_sql = (f"'{number:f}'::pg_catalog.numeric" for number in (low, high, step))

    def cell(x: str) -> tuple[str, str]:
        if kind is Kind.INT and max(abs(low), abs(high), step) < 2**62:  # within these ends nothing overflows
            value = f"{x}::pg_catalog.int8"
            return f"{value} >= {low:f} AND {value} <= {high:f}", f"(({value} - ({low:f})) / {step:f})"
        value = f"{x}::pg_catalog.numeric" if kind is Kind.INT else x
        return f"{value} >= {low_sql} AND {value} <= {high_sql}", f"pg_catalog.div({value} - {low_sql}, {step_sql})"

    def sql(x: str) -> str:
        if kind is Kind.INT and step == 1:
            return _text_sql(column, x)
        inside, place = cell(x)
        text = f"pg_catalog.trim_scale({low_sql} + {place} * {step_sql})::pg_catalog.text"
        return f"(CASE WHEN {inside} THEN {text} ELSE {_text_sql(column, x)} END)"

    def keys() -> tuple[str, ...]:
        return tuple(_canonical(column, format(low + step * n, "f")) for n in range(size))

    return _Grid(keys, max(size, 0), sql, cell)


def _date_grid(column: Column, lower: str, upper: str, resolution: str | None) -> _Grid | None:
    match = _DAYS.fullmatch(resolution or "1 day")
    if match is None:
        return None
    days = int(match[1] or 1) * (7 if match[2] == "week" else 1)
    try:
        low, high = date.fromisoformat(lower), date.fromisoformat(upper)
    except ValueError:
        raise _bad(column, lower) from None
    if days < 1:
        return None
    size = (high - low).days // days + 1

    low_sql, high_sql = (f"'{moment.isoformat()}'::pg_catalog.date" for moment in (low, high))

    def cell(x: str) -> tuple[str, str]:
        return f"{x} >= {low_sql} AND {x} <= {high_sql}", f"({x} - {low_sql}) / {days}"

    def sql(x: str) -> str:
        if days == 1:
            return _text_sql(column, x)
        inside, place = cell(x)
        text = f"({low_sql} + {place} * {days})::pg_catalog.text"
        return f"(CASE WHEN {inside} THEN {text} ELSE {_text_sql(column, x)} END)"

    def keys() -> tuple[str, ...]:
        return tuple((low + timedelta(days=days * n)).isoformat() for n in range(size))

    return _Grid(keys, max(size, 0), sql, cell)


def _time_grid(column: Column, lower: str, upper: str, resolution: str) -> _Grid | None:
    low, high, step = (clock.microseconds(text) for text in (lower, upper, resolution))
    if low is None or high is None:
        raise _bad(column, lower)
    if not step:
        return None
    size = (high - low) // step + 1

    low_sql, high_sql = (f"{quote(text)}::pg_catalog.time" for text in (lower, upper))

    def cell(x: str) -> tuple[str, str]:
        passed = f"pg_catalog.extract('epoch', {x} - {low_sql}) * 1000000"
        return f"{x} >= {low_sql} AND {x} <= {high_sql}", f"pg_catalog.div({passed}, {step})"

    def sql(x: str) -> str:
        inside, place = cell(x)
        moved = f"{low_sql} + {place}::pg_catalog.float8 * '{step} microseconds'::pg_catalog.interval"
        # the end of the day, which is a time, and which no addition gives
        last = f" WHEN {x} = {quote(clock.END)}::pg_catalog.time THEN {quote(clock.END)}"
        text = f"({moved})::pg_catalog.text ELSE {_text_sql(column, x)}"
        return f"(CASE{last if low + (size - 1) * step == clock.DAY else ''} WHEN {inside} THEN {text} END)"

    def keys() -> tuple[str, ...]:
        return tuple(clock.text(low + step * n) for n in range(size))

    return _Grid(keys, max(size, 0), sql, cell)


def _edges_sql(column: Column, edges: tuple[str, ...], x: str) -> str:
    """Return the lower edge of the bin [edge, next edge) that holds the value."""
    type_name = type_of(column).name
    texts = [_canonical(column, edge) for edge in edges]
    arms = "".join(
        f" WHEN {x} >= {quote(low)}::{type_name} AND {x} < {quote(high)}::{type_name}"
        f" THEN {quote(low)}::pg_catalog.text"
        for low, high in pairwise(texts)
    )
    # of a floating point value, the text could be an edge's, by extra_float_digits
    outside = f"(CASE WHEN {x} IS NOT NULL THEN '' END)" if type_of(column).kind is Kind.FLOAT else _text_sql(column, x)
    return f"(CASE{arms} ELSE {outside} END)" if arms else outside
