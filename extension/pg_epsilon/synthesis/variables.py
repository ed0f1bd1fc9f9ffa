"""Declared columns → variables: finitely many cells, their SQL, and the values of a cell (rule R4: no row is read).

A column with a declared domain has a cell for each value, and so has one whose bounds and resolution leave at most
`bins` values. Finer ones are cut into `bins` intervals of equal length; their ends and zero are cells of their own, as
clamped and missing amounts heap there. Declared edges are the intervals of their column.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date, datetime, timedelta
from decimal import Context, Decimal, InvalidOperation
from fractions import Fraction
from math import ceil
from typing import Any

from pg_epsilon.errors import OUT_OF_RANGE, UNDECLARED, DPError
from pg_epsilon.query.domain import key_domain, key_sql
from pg_epsilon.query.literals import identifier, quote
from pg_epsilon.query.schema import Column
from pg_epsilon.query.types import MOMENTS, NUMBERS, Kind, size_of, type_of

MAX_CELLS = 65_536  # of one column
_EPOCH = datetime(2000, 1, 1)
_MICRO = timedelta(microseconds=1)
_ZERO = "'2000-01-01 00:00:00'::pg_catalog.timestamp"
_DAY, _SECOND = 86_400_000_000, 1_000_000
_RESOLUTION = re.compile(r"(?:(\d{1,6}) days?)? ?(?:(\d\d):(\d\d):(\d\d))?", re.ASCII)


@dataclass(frozen=True)
class Points:
    """Equally spaced values: low + k step, k = 0, 1, …; kind: number, date, timestamp or timestamptz.

    Dates are days and moments are microseconds since 2000. digits: of a number, after the point.
    """

    kind: str
    low: str
    step: str
    digits: int = 0

    def value(self, k: int) -> Fraction:
        return Fraction(self.low) + k * Fraction(self.step)

    def text(self, k: int) -> str:
        """The k-th value as PostgreSQL reads it."""
        value = self.value(k)
        if self.kind == "number":
            return _plain(value, self.digits)[1:-1]
        if self.kind == "date":
            return (_EPOCH + timedelta(days=round(value))).date().isoformat()
        moment = (_EPOCH + round(value) * _MICRO).isoformat(sep=" ")
        return f"{moment}+00" if self.kind == "timestamptz" else moment

    def sql(self, x: str) -> str:
        """The value of the x-th point, as SQL."""
        low, step = Fraction(self.low), Fraction(self.step)
        if self.kind == "number":
            if low.denominator == step.denominator == 1:
                return f"({_plain(low, 0)}::pg_catalog.numeric + {x} * {_plain(step, 0)}::pg_catalog.numeric)"
            return (
                f"pg_catalog.round({_plain(low, 18)}::pg_catalog.numeric"
                f" + {x} * {_plain(step, 18)}::pg_catalog.numeric, {self.digits})"
            )
        count = f"({low} + {x} * {step})"
        if self.kind == "date":
            return f"('2000-01-01'::pg_catalog.date + {count}::pg_catalog.int4)"
        zero = "'2000-01-01 00:00:00+00'::pg_catalog.timestamptz" if self.kind == "timestamptz" else _ZERO
        return f"({zero} + {count} * '1 microsecond'::pg_catalog.interval)"


def _plain(value: Fraction, digits: int) -> str:
    return f"'{Decimal(round(value * 10**digits)).scaleb(-digits, Context(prec=1000)):f}'"


def _array(texts: Sequence[str]) -> str:
    quoted = ",".join('"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"' for text in texts)
    return f"{quote('{' + quoted + '}')}::pg_catalog.text[]"


@dataclass(frozen=True)
class Variable:
    """A column of the synthetic table.

    sql: the cell of a row, alias r, NULL for none; total. Cells are `texts`, or where these are None the intervals
    `cells` of points: (first, how many); then, if the column may be NULL, the cell of NULLs and of what is outside a
    declared domain.
    """

    name: str
    sql: str
    nullable: bool
    texts: tuple[str, ...] | None = None
    points: Points | None = None
    cells: tuple[tuple[int, int], ...] = ()

    @property
    def size(self) -> int:
        return len(self.texts if self.texts is not None else self.cells) + self.nullable

    @property
    def ordered(self) -> bool:
        """Whether neighbouring cells may be merged."""
        return self.points is not None

    def value(self, x: str) -> str:
        """SQL of the value that a number drawn by sampling.py stands for: a cell's, or a point's; below 0 is NULL."""
        if self.texts is not None:
            return f"({_array(self.texts)})[{x} + 1]"
        assert self.points is not None  # noqa: S101 -- one of the two
        return f"CASE WHEN {x} >= 0 THEN {self.points.sql(x)} END"

    def to_json(self) -> dict[str, Any]:
        """What sampling needs of it; public."""
        return {name: value for name, value in asdict(self).items() if name != "sql"}

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Variable:
        points = document["points"]
        return Variable(
            document["name"],
            "",
            document["nullable"],
            None if document["texts"] is None else tuple(document["texts"]),
            None if points is None else Points(**points),
            tuple((first, count) for first, count in document["cells"]),
        )


def variable(column: Column, bins: int, relation: str = "<table>") -> Variable:
    """The variable of a column, alias r. DP004 without a finite domain that values can be made of, DP005 above
    MAX_CELLS, DP003 for a type that cannot be a group key."""
    policy = column.policy
    if policy is None:
        raise _undeclared(column, relation)
    points = None if policy.domain is not None else _points(column)
    if points is not None:
        return _in_points(column, points, bins)
    if policy.domain is None and type_of(column).kind not in (Kind.BOOL, Kind.ENUM):
        raise _undeclared(column, relation)
    keys = [key for key in key_domain(column, relation) if key is not None]
    if len(keys) >= MAX_CELLS:
        raise DPError(
            OUT_OF_RANGE,
            f"column {column.name} has {len(keys)} declared values, more than {MAX_CELLS - 1}",
            "Leave it out: columns => '{...}' names those of the synthetic table.",
        )
    codes = quote(json.dumps({key: code for code, key in enumerate(keys)}, ensure_ascii=False))
    found = f"({codes}::pg_catalog.jsonb OPERATOR(pg_catalog.->>) ({key_sql(column)}))::pg_catalog.int4"
    code = f"coalesce({found}, {len(keys)})" if policy.nullable else found
    return Variable(column.name, code, policy.nullable, tuple(keys))


def _undeclared(column: Column, relation: str) -> DPError:
    return DPError(
        UNDECLARED,
        f"column {column.name} has no declared values to make synthetic ones of",
        f"CALL dp.describe_column({quote(relation)}, {quote(column.name)}, ...) with a domain or bounds, or leave it"
        " out of columns.",
    )


def _in_points(column: Column, points: tuple[Points, int], bins: int) -> Variable:
    """A column of numbers or moments: its cells by the lower ends of all but the first, so that values are clamped."""
    assert column.policy is not None  # noqa: S101 -- variable() refused it
    lattice, size = points
    starts = _edge_starts(column, lattice, size) if column.policy.edges is not None else _starts(lattice, size, bins)
    ends = [*starts[1:], size]
    cells = tuple((start, end - start) for start, end in zip(starts, ends, strict=True))
    x, name = f"r.{identifier(column.name)}", type_of(column).name
    texts = ",".join(f'"{lattice.text(start)}"' for start in starts[1:])
    code = (
        f"pg_catalog.width_bucket({x}, '{{{texts}}}'::{name}[])"
        if len(starts) > 1
        else f"CASE WHEN {x} IS NOT NULL THEN 0 END"
    )
    code = f"coalesce({code}, {len(cells)})" if column.policy.nullable else code
    return Variable(column.name, code, column.policy.nullable, points=lattice, cells=cells)


def _starts(points: Points, size: int, bins: int) -> list[int]:
    if size <= bins:
        return list(range(size))
    zero = -Fraction(points.low) / Fraction(points.step)
    marks = {0, 1, size - 1}
    if points.kind == "number" and zero.denominator == 1 and 0 < zero < size:
        marks |= {int(zero), min(int(zero) + 1, size - 1)}
    inner = max(bins - len(marks), 1)
    return sorted(marks | {1 + (size - 2) * i // inner for i in range(1, inner)})


def _edge_starts(column: Column, points: Points, size: int) -> list[int]:
    """The first point at or above each edge but the last; edges without a point of their own are merged."""
    assert column.policy is not None and column.policy.edges is not None  # noqa: S101 -- the caller's condition
    low, step = Fraction(points.low), Fraction(points.step)
    starts = [ceil((_number(column, points.kind, edge) - low) / step) for edge in column.policy.edges[:-1]]
    return sorted({0, *(start for start in starts if start < size)})


def _points(column: Column) -> tuple[Points, int] | None:
    """The values between a column's bounds or outer edges, and how many they are; None without bounds."""
    policy, kind = column.policy, type_of(column).kind
    if policy is None or kind not in NUMBERS | MOMENTS:
        return None
    ends = (policy.edges[0], policy.edges[-1]) if policy.edges else (policy.lower, policy.upper)
    if ends[0] is None or ends[1] is None:
        return None
    name = "number" if kind in NUMBERS else kind.name.lower()
    low, high = _number(column, name, ends[0]), _number(column, name, ends[1])
    step = _step(column, high - low)
    inside = high - low if policy.edges is None else max(high - low - step, Fraction(0))
    digits = next((n for n in range(19) if all((end * 10**n).denominator == 1 for end in (low, step))), 18)
    return Points(name, str(low), str(step), digits), int(inside // step) + 1


def _step(column: Column, span: Fraction) -> Fraction:
    """The distance of two values: the declared resolution, else what the type can tell apart, else a ten-thousandth of
    the whole range or less, a power of ten."""
    kind, resolution = type_of(column).kind, column.policy.resolution if column.policy is not None else None
    if kind in MOMENTS:
        found = _RESOLUTION.fullmatch(resolution or "")
        days, *clock = (int(part or 0) for part in found.groups()) if found else (0, 0, 0, 0)
        micros = days * _DAY + (clock[0] * 3600 + clock[1] * 60 + clock[2]) * _SECOND
        return Fraction(max(micros // _DAY, 1) if kind is Kind.DATE else micros or _SECOND)
    if resolution is not None:
        step = Fraction(Decimal(resolution))
        return Fraction(max(round(step), 1)) if kind is Kind.INT else step
    if kind is Kind.INT:
        return Fraction(1)
    size = size_of(column)
    digits = size[1] if size is not None else 0
    while size is None and span * 10**digits < 10_000 and digits < 18:
        digits += 1
    return Fraction(1, 10**digits)


def _number(column: Column, kind: str, text: str) -> Fraction:
    """A declared value as a number; DP004 for one that cannot be counted from (years before 1 or beyond 9999)."""
    try:
        if kind == "number":
            return Fraction(Decimal(text))
        if kind == "date":
            return Fraction((date.fromisoformat(text) - _EPOCH.date()).days)
        moment = datetime.fromisoformat(text.removesuffix("+00"))
        return Fraction((moment - _EPOCH) // _MICRO)
    except (ValueError, InvalidOperation, OverflowError):
        raise DPError(
            UNDECLARED,
            f'no synthetic values can be made from the bound "{text[:60]}" of column {column.name}',
            "Use bounds between the years 1 and 9999, or leave the column out.",
        ) from None
