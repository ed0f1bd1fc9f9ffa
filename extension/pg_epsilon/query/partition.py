"""Declared public partitions: the grid, and which leaf accounts a predicate touches (composition.md §3.2, §5.1)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from pg_epsilon.errors import OUT_OF_RANGE, DPError
from pg_epsilon.query.literals import identifier
from pg_epsilon.query.names import column_sql
from pg_epsilon.query.policy import Policy
from pg_epsilon.query.restriction import restriction
from pg_epsilon.query.types import Item, Term

MAX_LEAVES = 10_000
REST = "rest"
_HINT = """grid => '{"origin": "2024-01-01", "width": "7 days"}', or '{"list": ["north", "south"]}'"""
_LIMITS = {"smallint": 2**15, "integer": 2**31, "bigint": 2**63}
# 0 and -0, '1 day' and '24:00:00': a row equal to two texts would be read at the cost of two leaves, and be in one.
_SEVERAL_TEXTS = frozenset({"real", "double precision", "interval"})
_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}
_EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True)
class Partitions:
    """The leaves that a request reads, and the restriction to them that its statement must contain literally."""

    leaves: frozenset[str]
    sql: str


@dataclass(frozen=True)
class Axis:
    """A type's values as integers, so that cells of a grid are found by floor division."""

    number: Callable[[str], int]
    text: Callable[[int], str]
    width: Callable[[Any], int]


def _seconds(width: Any) -> int:
    match = re.fullmatch(r"\s*(\d{1,9})\s+(second|minute|hour|day|week)s?\s*", str(width))
    if not match:
        raise DPError(
            OUT_OF_RANGE,
            "the width of a grid over time is a whole number of weeks, days, hours, minutes or seconds",
            _HINT,
        )
    return int(match[1]) * _SECONDS[match[2]]


def _days(width: Any) -> int:
    days, rest = divmod(_seconds(width), 86400)
    if rest:
        raise DPError(OUT_OF_RANGE, "the width of a grid over dates is a whole number of days", _HINT)
    return days


def _timestamp_number(text: str) -> int:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is not None:
        moment = moment.astimezone(UTC).replace(tzinfo=None)
    return (moment - _EPOCH) // timedelta(microseconds=1)


_INTEGER = Axis(int, str, int)
_DATE = Axis(lambda t: date.fromisoformat(t).toordinal(), lambda n: date.fromordinal(n).isoformat(), _days)
_TIMESTAMP = Axis(
    _timestamp_number, lambda n: (_EPOCH + timedelta(microseconds=n)).isoformat(" "), lambda w: _seconds(w) * 1_000_000
)
_TIMESTAMPTZ = Axis(_TIMESTAMP.number, lambda n: _TIMESTAMP.text(n) + "+00", _TIMESTAMP.width)
AXES: Mapping[str, Axis] = {
    "smallint": _INTEGER,
    "integer": _INTEGER,
    "bigint": _INTEGER,
    "date": _DATE,
    "timestamp without time zone": _TIMESTAMP,
    "timestamp with time zone": _TIMESTAMPTZ,
}


def check_grid(grid: Any, type_name: str) -> None:
    """DP005 for a grid that is neither {"origin", "width"} over integers, dates or timestamps nor {"list": texts}."""
    if isinstance(grid, dict) and set(grid) == {"list"}:
        values = grid["list"]
        if (
            isinstance(values, list)
            and values
            and all(isinstance(v, str) for v in values)
            and len(set(values)) == len(values)
        ):
            return
    elif isinstance(grid, dict) and set(grid) == {"origin", "width"} and type_name in AXES:
        axis = AXES[type_name]
        try:
            if axis.width(grid["width"]) > 0 and axis.number(str(grid["origin"])) is not None:
                return
        except ValueError:
            pass
    raise DPError(OUT_OF_RANGE, f"not a partition grid over a column of type {type_name}", _HINT)


def touched_partitions(policy: Policy, item: Item, conjuncts: Sequence[Term]) -> Partitions | None:
    """The leaves a predicate confines the request to; None: it may read any row, so the relation's own account pays.

    item: the protected relation in FROM; conjuncts: the operands of the predicate's top-level AND.
    """
    if policy.partition_by is None or policy.grid is None or policy.has_user_units:
        return None
    found = restriction(conjuncts, item, policy.partition_by)
    column = policy.relation.columns[policy.partition_by]
    if found is None:
        return None
    name = column_sql(item, column.name)
    if "list" in policy.grid:
        return _listed(policy.grid["list"], found.points, name, column.type_name)
    try:
        return _cells(AXES[column.type_name], policy.grid, found, name, column.type_name)
    except (ValueError, OverflowError):  # beyond the years that Python knows: any row
        return None


def _listed(values: list[str], points: tuple[str, ...] | None, name: str, type_name: str) -> Partitions | None:
    if points is None or type_name in _SEVERAL_TEXTS:
        return None
    limit = _LIMITS.get(type_name)
    if limit is not None and not all(-limit <= int(p) < limit for p in points):
        return None  # the statement could not be written
    leaves = frozenset(f"={p}" if p in values else REST for p in points)
    return Partitions(leaves, f"{name} IN ({', '.join(_literal(p, type_name) for p in sorted(points))})")


def _cells(axis: Axis, grid: Mapping[str, Any], found: Any, name: str, type_name: str) -> Partitions | None:
    origin, width = axis.number(str(grid["origin"])), axis.width(grid["width"])
    if found.points is not None:
        cells = {(axis.number(p) - origin) // width for p in found.points}
    elif found.lower is None or found.upper is None:
        return None
    else:
        low, high = axis.number(found.lower), axis.number(found.upper)
        first = (low - origin) // width
        last = (high - origin - (0 if found.upper_inclusive else 1)) // width
        cells = set(range(first, min(last, first + MAX_LEAVES) + 1))
    if not cells or len(cells) > MAX_LEAVES:
        return None
    limit = _LIMITS.get(type_name)
    if limit is not None and not -limit <= origin + min(cells) * width <= origin + (max(cells) + 1) * width < limit:
        return None  # a cell's end is no value of the type: the statement could not be written
    bounds = [(axis.text(origin + c * width), axis.text(origin + (c + 1) * width)) for c in sorted(cells)]
    runs: list[tuple[str, str]] = []
    for lower, upper in bounds:
        if runs and runs[-1][1] == lower:
            runs[-1] = (runs[-1][0], upper)
        else:
            runs.append((lower, upper))
    sql = " OR ".join(
        f"({name} >= {_literal(lo, type_name)} AND {name} < {_literal(hi, type_name)})" for lo, hi in runs
    )
    return Partitions(frozenset(f"[{lo},{hi})" for lo, hi in bounds), f"({sql})")


@dataclass(frozen=True)
class Cell:
    """One partition of a grid: its number (from the origin, or in the list), leaf account, bounds, and rows in SQL.

    upper None: a partition of a list, which is the one value `lower`. sql: over the alias r.
    """

    number: int
    leaf: str
    lower: str
    upper: str | None
    sql: str


def cell(policy: Policy, number: int) -> Cell:
    """The partition of this number. ValueError, OverflowError if its bounds are no values of the key's type."""
    grid, column = _grid_of(policy)
    name = f"r.{identifier(column.name)}"
    if "list" in grid:
        value = grid["list"][number]
        return Cell(number, f"={value}", value, None, f"{name} = {_literal(value, column.type_name)}")
    axis = AXES[column.type_name]
    origin, width = axis.number(str(grid["origin"])), axis.width(grid["width"])
    low, high = axis.text(origin + number * width), axis.text(origin + (number + 1) * width)
    sql = f"{name} >= {_literal(low, column.type_name)} AND {name} < {_literal(high, column.type_name)}"
    return Cell(number, f"[{low},{high})", low, high, sql)


def number_of(policy: Policy, value: str) -> int | None:
    """The number of the partition that a value of the key is in; None: in none, or before the origin."""
    grid, column = _grid_of(policy)
    if "list" in grid:
        return grid["list"].index(value) if value in grid["list"] else None
    axis = AXES[column.type_name]
    try:
        number = (axis.number(value) - axis.number(str(grid["origin"]))) // axis.width(grid["width"])
    except (ValueError, OverflowError):
        return None
    return number if number >= 0 else None


def window(policy: Policy, item: Item, conjuncts: Sequence[Term]) -> tuple[int, int, tuple[Term, ...]] | None:
    """The partitions first … last that a predicate is exactly about, and the rest of it.

    None if its tests on the key do not end where partitions end (turbo.md §2.3), or leave an end open.
    """
    grid, column = _grid_of(policy)
    name = column_sql(item, column.name)
    rest = tuple(term for term in conjuncts if term.test is None or term.test.column != name)
    found = restriction(conjuncts, item, column.name)
    if found is None or any(name in term.columns for term in rest):
        return None
    if "list" in grid:
        places = sorted(grid["list"].index(p) for p in found.points or () if p in grid["list"])
        whole = found.points is not None and len(places) == len(found.points)
        run = whole and places and places[-1] - places[0] + 1 == len(places)
        return (places[0], places[-1], rest) if run else None
    try:
        span = _span(AXES[column.type_name], found)
        origin, width = _measures(grid, column.type_name)
    except (ValueError, OverflowError):
        return None
    if (
        span is None
        or span[0] < origin
        or span[0] >= span[1]
        or (span[0] - origin) % width
        or (span[1] - origin) % width
    ):
        return None
    return (span[0] - origin) // width, (span[1] - origin) // width - 1, rest


def inside(policy: Policy, item: Item, conjuncts: Sequence[Term]) -> tuple[int, int | None] | None:
    """The partitions [first, end) of a grid that are whole in a window with a lower end; end None: it has no upper one.

    None for what is no such window. Empty where end <= first.
    """
    grid, column = _grid_of(policy)
    found = restriction(conjuncts, item, column.name)
    if "list" in grid or found is None or found.points is not None or found.lower is None:
        return None
    axis = AXES[column.type_name]
    try:
        origin, width = _measures(grid, column.type_name)
        low = axis.number(found.lower) + (0 if found.lower_inclusive else 1)
        high = None if found.upper is None else axis.number(found.upper) + (1 if found.upper_inclusive else 0)
    except (ValueError, OverflowError):
        return None
    return max(0, -((origin - low) // width)), None if high is None else (high - origin) // width


def _span(axis: Axis, found: Any) -> tuple[int, int] | None:
    """[first, after the last) value of a restriction; None for values apart, or an open end."""
    if found.points is not None:
        numbers = sorted({axis.number(point) for point in found.points})
        return (numbers[0], numbers[-1] + 1) if numbers[-1] - numbers[0] + 1 == len(numbers) else None
    if found.lower is None or found.upper is None:
        return None
    return (
        axis.number(found.lower) + (0 if found.lower_inclusive else 1),
        axis.number(found.upper) + (1 if found.upper_inclusive else 0),
    )


def _measures(grid: Mapping[str, Any], type_name: str) -> tuple[int, int]:
    axis = AXES[type_name]
    return axis.number(str(grid["origin"])), axis.width(grid["width"])


def _grid_of(policy: Policy) -> tuple[Mapping[str, Any], Any]:
    """The grid and the column that is its key; the caller knows that there is one."""
    if policy.grid is None or policy.partition_by is None:
        raise ValueError("a relation without partitions")
    return policy.grid, policy.relation.columns[policy.partition_by]


def _literal(text: str, type_name: str) -> str:
    quoted = text.replace("'", "''")
    return f"'{quoted}'::{type_name}"
