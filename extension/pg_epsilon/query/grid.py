"""The complete list of an expression's values over the declared domains of its columns: evaluated once, on no row.

Columns with finitely many declared values are enumerated. A moment or a number with bounds alone is sampled at points
of every cell on which the functions directly above it are constant: date_trunc, date_bin, extract, floor, round and
their kin, and arithmetic on seconds (epochs.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from math import ceil, floor, gcd
from typing import Any

from pg_epsilon.errors import OUT_OF_RANGE, SHAPE, UNDECLARED, DPError
from pg_epsilon.query import bins, cells, clock, epochs
from pg_epsilon.query.domain import MAX_KEYS
from pg_epsilon.query.literals import identifier, quote
from pg_epsilon.query.moments import read_moment
from pg_epsilon.query.names import column_sql, last_name, named, word
from pg_epsilon.query.narrowed import Within, narrowed
from pg_epsilon.query.parse import ast, children
from pg_epsilon.query.schema import Column
from pg_epsilon.query.shifts import spans
from pg_epsilon.query.types import FoldError, Item, Kind, Scope, Texts, size_of, type_of

_HOUR, _DAY = 3600, 86_400
# Seconds between samples: no cell of the unit is shorter, in any time zone's local time.
_SECONDS = {
    "minute": 30,
    "hour": 900,
    **dict.fromkeys(("day", "dow", "isodow", "doy", "week", "julian"), 6 * _HOUR),
    **dict.fromkeys(("month", "quarter", "year", "isoyear", "decade", "century", "millennium"), _DAY),
}
_YEAR = re.compile(r"\d{4}-(?!.*BC)", re.ASCII)
_MOMENT_STEPS = frozenset({"date_trunc", "extract", "date_part"})
_NUMBER_STEPS = frozenset({"floor", "ceil", "ceiling", "round", "trunc"})
_CALENDAR_CASTS = frozenset({"interval", "date", "timestamp", "timestamptz"})


# What a query over constants alone gave: the same for ever.
_known: dict[str, tuple[str | None, ...]] = {}
_KEPT, _KEPT_KEYS = 256, 500_000


@dataclass(frozen=True)
class Values:
    """Values of one column as SQL with columns v and o (their order), and how many there are."""

    sql: str
    size: int


def declared_values(column: Column) -> Values | None:
    """Every declared value of a column, NULL last if it may be NULL; None if they are not a finite list."""
    return _values(column, None)


def evaluate(
    key_sql: str, node: Any, scope: Scope, texts: Texts, within: Within = lambda item, column: None
) -> tuple[str | None, ...]:
    """The distinct values of `key_sql`, compiled from `node`, over the declared domains; None last, if it occurs.

    within: what a WHERE says of a column whose declared values are too many, which it narrows.
    Public: a function of declarations and public tables. Errors: DP004 for a column without declared values, DP005 for
    more than MAX_KEYS combinations.
    """
    columns = _columns_of(node, scope)
    grain = {name: _of_shifted(one, key_sql) for name, one in _grains(node, scope).items()}
    size, sources, ordinals = 1, [], []
    for alias in sorted({item.sql_alias for item, _ in columns.values()}):
        own = [(item, column) for item, column in columns.values() if item.sql_alias == alias]
        names = [column.name for _, column in own]
        if own[0][0].relation.public:
            source, count = _public(own[0][0], names, texts)
        else:
            source, count = _product(own, grain, within)
        size *= count
        if size > MAX_KEYS:
            raise DPError(
                OUT_OF_RANGE,
                f"the columns of a group key have more than {MAX_KEYS} combinations of declared values",
                "Group by fewer columns, or ask the owner for narrower bounds.",
            )
        sources.append(f"({source}) AS {alias}")
        ordinals.append(f"{alias}.{_ordinal(names)}")
    inner = f"SELECT {key_sql} AS k, ARRAY[{', '.join(ordinals)}] AS o FROM {', '.join(sources)}"
    query = f"SELECT k AS v FROM ({inner}) AS g GROUP BY k ORDER BY k IS NULL, min(o) LIMIT {MAX_KEYS + 1}"
    return (run if any(item.relation.public for item, _ in columns.values()) else remembered)(query, texts)


def grain_of(node: Any, scope: Scope, key_sql: str) -> Decimal | int | None:
    """The finest cell on which a key of one column is constant, as `evaluate` samples it; None: of one value each, or
    of no such key."""
    try:
        columns = _columns_of(node, scope)
    except DPError:  # a condition on a public table has names of its own
        return None
    return _of_shifted(_grains(node, scope).get(next(iter(columns))), key_sql) if len(columns) == 1 else None


def remembered(query: str, texts: Texts) -> tuple[str | None, ...]:
    """As `run`, of a query over constants alone: asked once."""
    if query not in _known:
        found = run(query, texts)
        if sum(map(len, _known.values())) + len(found) > _KEPT_KEYS or len(_known) >= _KEPT:
            _known.clear()
        _known[query] = found
    return _known[query]


def run(query: str, texts: Texts) -> tuple[str | None, ...]:
    """The keys that a query over public facts gives, bounded. Errors: DP003 if it fails, DP005 if they are too many."""
    try:
        found = tuple(texts(query))
    except FoldError:
        raise DPError(SHAPE, "this group key cannot be evaluated", "Group by a declared column.") from None
    if len(found) > MAX_KEYS:
        raise DPError(OUT_OF_RANGE, f"more than {MAX_KEYS} groups", "Group by a coarser expression.")
    return found


def _columns_of(node: Any, scope: Scope) -> dict[str, tuple[Item, Column]]:
    """Every column that an expression reads, by its SQL, in the order of first use; none inside a sub-query."""
    found: dict[str, tuple[Item, Column]] = {}
    stack = [node]
    while stack:
        one = stack.pop()
        if isinstance(one, ast.SubLink):
            raise DPError(
                SHAPE, "a group key cannot hold a sub-query", "Use CASE WHEN ... IN (SELECT ...) THEN 'a' ..."
            )
        if isinstance(one, ast.ColumnRef):
            item, column = named(one, scope)
            found.setdefault(column_sql(item, column.name), (item, column))
        stack.extend(reversed(list(children(one))))
    return found


def _ordinal(names: Sequence[str]) -> str:
    name = "o"
    while name in names:
        name += "o"
    return identifier(name)


def _public(item: Item, names: list[str], texts: Texts) -> tuple[str, int]:
    columns = ", ".join(identifier(name) for name in names)
    table = f"{identifier(item.relation.schema)}.{identifier(item.relation.name)}"
    rows = f"SELECT DISTINCT {columns} FROM {table}"
    (count,) = run(f"SELECT count(*)::text AS v FROM ({rows} LIMIT {MAX_KEYS + 1}) AS c", texts)
    ordered = f"SELECT {columns}, pg_catalog.row_number() OVER (ORDER BY {columns}) AS {_ordinal(names)}"
    return f"{ordered} FROM ({rows}) AS d", int(count or 0)


def _product(
    own: Sequence[tuple[Item, Column]], grain: dict[str, Decimal | int | None], within: Within
) -> tuple[str, int]:
    """The values of one relation's columns, crossed; the columns keep their names."""
    size, parts, columns, order = 1, [], [], []
    for i, (item, column) in enumerate(own):
        step = grain.get(column_sql(item, column.name))
        values = _values(column, step)
        if values is None and (fewer := narrowed(column, within(item, column.name))) is not None:
            values = _values(fewer, step)
        if values is None:
            raise DPError(
                UNDECLARED,
                f"column {column.name} of {item.relation.qualified} has no declared values to group by here",
                f"Ask the owner: CALL dp.describe_column({quote(item.relation.qualified)}, {quote(column.name)},"
                " domain => ARRAY[...]) or bounds with a resolution; or group by CASE with constant results, a"
                " condition, or date_trunc or date_bin of a column with bounds. Where these are wide, a WHERE narrows"
                " them: x >= '2024-01-01' AND x < '2024-02-01'.",
            )
        size *= values.size
        parts.append(f"({values.sql}) AS v{i}(v, o)")
        columns.append(f"v{i}.v AS {identifier(column.name)}")
        order.append(f"v{i}.o")
    names = [column.name for _, column in own]
    ordinal = f"pg_catalog.row_number() OVER (ORDER BY {', '.join(order)}) AS {_ordinal(names)}"
    return f"SELECT {', '.join(columns)}, {ordinal} FROM {', '.join(parts)}", size


def _values(column: Column, grain: Decimal | int | None) -> Values | None:
    """Every declared value of a column, or a sample of every cell of `grain`; NULL last if it may be NULL."""
    policy = column.policy
    if policy is None:
        return None
    found = _listed(column) or _bounded(column, grain)
    if found is None or not policy.nullable:
        return found
    null = f"SELECT NULL::{type_of(column).name}, {found.size + 1}::pg_catalog.int8"
    return Values(f"{found.sql} UNION ALL {null}", found.size + 1)


def _listed(column: Column) -> Values | None:
    policy, type_ = column.policy, type_of(column)
    if policy is not None and policy.domain is not None:
        values: Sequence[str] = policy.domain
    elif type_.kind is Kind.BOOL:
        values = ("f", "t")
    elif type_.kind is Kind.ENUM:
        values = column.enum_labels or ()
    else:
        return None
    rows = ", ".join(f"({quote(value)}::{type_.name}, {i}::pg_catalog.int8)" for i, value in enumerate(values, 1))
    return Values(f"SELECT * FROM (VALUES {rows}) AS t", len(values)) if values else None


def _bounded(column: Column, grain: Decimal | int | None) -> Values | None:
    policy, type_ = column.policy, type_of(column)
    if policy is None or policy.lower is None or policy.upper is None:
        return None
    try:
        if type_.kind is Kind.DATE:
            days = (date.fromisoformat(policy.upper) - date.fromisoformat(policy.lower)).days
            return _series(f"{quote(policy.lower)}::{type_.name} + g::pg_catalog.int4", days + 1)
        if type_.kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ) and isinstance(grain, int):
            return _sampled_moments(policy.lower, policy.upper, type_.name, grain)
        if type_.kind is Kind.TIME and isinstance(grain, int):
            return _sampled_times(policy.lower, policy.upper, grain)
        if type_.kind in (Kind.INT, Kind.NUMERIC, Kind.FLOAT):
            return _numbers(column, Decimal(policy.lower), Decimal(policy.upper), grain)
    except (ValueError, InvalidOperation):
        return None
    return None


def _series(value: str, size: int) -> Values | None:
    """`value` of g = 0, 1, …, size - 1."""
    if size < 1:
        return None
    top = min(size, MAX_KEYS + 1) - 1
    return Values(f"SELECT {value}, g + 1 FROM pg_catalog.generate_series(0::pg_catalog.int8, {top}) AS g", size)


def _numbers(column: Column, low: Decimal, high: Decimal, grain: Decimal | int | None) -> Values | None:
    type_ = type_of(column)
    if not (low.is_finite() and high.is_finite()) or low > high:
        return None
    size, step = size_of(column), None
    if size is not None:
        step = Decimal(1).scaleb(-size[1])
    elif type_.kind is Kind.NUMERIC and column.policy is not None and column.policy.resolution is not None:
        step = Decimal(column.policy.resolution)
    exact = step is not None and step > 0 and (high - low) / step < MAX_KEYS
    if exact and step is not None:
        return _series(f"({low:f} + g * {step:f})::{type_.name}", int((high - low) // step) + 1)
    if not isinstance(grain, Decimal):
        return None
    # Half steps hold a point of every cell of floor, ceil, trunc and round; the ends may cut a cell.
    half = grain / 2
    first, last = ceil(Fraction(low) / Fraction(half)), floor(Fraction(high) / Fraction(half))
    if last - first >= MAX_KEYS:
        return None
    sampled = f"g * {half:f}::pg_catalog.numeric FROM pg_catalog.generate_series({first}, {last}) AS g"
    points = f"SELECT {low:f} UNION SELECT {sampled}"
    points = f"SELECT p FROM ({points} UNION SELECT {high:f}) AS s(p)"
    sql = f"SELECT p::{type_.name}, pg_catalog.row_number() OVER (ORDER BY p) FROM ({points}) AS s"
    return Values(sql, last - first + 3)


def _sampled_moments(lower: str, upper: str, type_name: str, seconds: int) -> Values | None:
    low, high = f"{quote(lower)}::{type_name}", f"{quote(upper)}::{type_name}"
    size = f"pg_catalog.ceil(pg_catalog.extract('epoch', {high} - {low}) / {seconds})::pg_catalog.int8"
    if _YEAR.match(lower) is None or _YEAR.match(upper) is None:
        return None
    count = ceil((read_moment(upper) - read_moment(lower)).total_seconds() / seconds) + 1
    if count > MAX_KEYS:
        return None
    series = f"pg_catalog.generate_series(0::pg_catalog.int8, {size}) AS g"
    moment = f"LEAST({low} + g * '{seconds} seconds'::pg_catalog.interval, {high})"
    return Values(f"SELECT {moment}, g + 1 FROM {series}", count)


def _sampled_times(lower: str, upper: str, seconds: int) -> Values | None:
    low, high = clock.microseconds(lower), clock.microseconds(upper)
    if low is None or high is None:
        return None
    # the end of the day is a time to which no addition comes
    last = (min(high, clock.DAY - 1) - low) // (seconds * 1_000_000)
    first, end = (f"{quote(text)}::pg_catalog.time" for text in (lower, upper))
    moved = f"{first} + g * '{seconds} seconds'::pg_catalog.interval"
    return _series(f"(CASE WHEN g <= {last} THEN {moved} ELSE {end} END)", last + 2)


def _grains(node: Any, scope: Scope) -> dict[str, Decimal | int | None]:
    """For each column, the finest cell on which the functions directly above it are constant; None: a single value.

    Seconds between samples for moments, the rounding step for numbers.
    """
    found: dict[str, Decimal | int | None] = {}

    def walk(one: Any, grain: Decimal | int | None) -> None:
        cell = cells.cell(one)
        if cell is not None and type_of(named(cell[0], scope)[1]).kind is Kind.INT:
            return walk(*cell)
        moments = epochs.cell(one)
        if moments is not None:
            return walk(*moments)
        if isinstance(one, ast.ColumnRef):
            item, column = named(one, scope)
            name = column_sql(item, column.name)
            known = found.get(name, grain)
            found[name] = _both(grain, known)
            return None
        below = _below(one, grain)
        for child in children(one):
            walk(child, below)
        return None

    walk(node, None)
    return found


def _both(one: Decimal | int | None, other: Decimal | int | None) -> Decimal | int | None:
    if isinstance(one, Decimal) and isinstance(other, Decimal):
        return cells.finest(one, other)
    return gcd(one, other) if isinstance(one, int) and isinstance(other, int) else None


def _below(node: Any, grain: Decimal | int | None) -> Decimal | int | None:
    """The grain that holds for the operands of `node`."""
    if isinstance(node, ast.TypeCast):
        name = last_name(node.typeName.names) if isinstance(node.typeName, ast.TypeName) else ""
        return _finest(grain, 6 * _HOUR) if name == "date" else grain if name in _CALENDAR_CASTS else None
    if isinstance(node, ast.A_Expr):  # of moments there are no sums but shifts (query/shifts.py)
        return grain if isinstance(grain, int) and last_name(node.name) in ("+", "-") else None
    if not isinstance(node, ast.FuncCall):
        return None
    name, args = last_name(node.funcname), node.args or ()
    if name == "date_bin":
        return _DAY  # as wide as they may be: `_of_shifted` sees the width
    if name in _MOMENT_STEPS and args:
        return _SECONDS.get(word(args[0]))
    if name == "date":
        return 6 * _HOUR
    if name == "timezone":
        return grain
    if name in _NUMBER_STEPS and args:
        digits = args[1].val.ival or 0 if len(args) == 2 and _is_integer(args[1]) else 0
        return Decimal(1).scaleb(-digits) if len(args) == 1 or _is_integer(args[1]) else None
    return None


def _of_shifted(grain: Decimal | int | None, key_sql: str) -> Decimal | int | None:
    """A grain that holds under the shifts of moments in `key_sql` too.

    A cell that is moved keeps its length, but for months: these move days as wholes, and the 29th to the 31st onto
    others, so that what is left of a cell may be one piece between midnight and a shift of hours.
    """
    found = spans(key_sql)
    if isinstance(grain, int):
        grain = bins.grain(key_sql, grain)
    if not isinstance(grain, int) or not any(one.months for one in found):
        return grain
    steps = [round(abs(one.seconds) * 1_000_000) for one in found]
    if any(steps):  # clocks are set forward by half an hour or more
        steps.append(_HOUR // 2 * 1_000_000)
    step = gcd(gcd(grain, 6 * _HOUR) * 1_000_000, *steps)
    return step // 1_000_000 if step % 1_000_000 == 0 else None


def _finest(one: Decimal | int | None, other: int) -> int:
    return min(one, other) if isinstance(one, int) else other


def _is_integer(node: Any) -> bool:
    return isinstance(node, ast.A_Const) and isinstance(node.val, ast.Integer)
