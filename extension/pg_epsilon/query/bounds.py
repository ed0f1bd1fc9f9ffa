"""Clamp range and lattice of an argument, by interval arithmetic over declared bounds (rule R4; dp-pqd.md §2.2).

Every value that is summed is first clamped to public bounds and rounded to a public lattice, in SQL and without an
error on any row: NULL stays NULL and contributes nothing, NaN becomes NULL before any clamp (composition.md §14.14:
PostgreSQL orders it above everything, so that a clamp alone would make the upper bound of it), and infinities are
clamped like any value beyond a bound. Privacy rests on that clamp alone; the interval arithmetic (query/ranges.py) only
finds the range that changes no declared value. Sums of the lattice integers are exact (bigint added into numeric), so
no float is ever added, and the noise lattice clamps at 64 bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Context, Decimal
from fractions import Fraction
from math import floor
from typing import Any

from pg_epsilon.errors import OUT_OF_RANGE, SHAPE, UNDECLARED, DPError
from pg_epsilon.query.expression import Expression, Kind
from pg_epsilon.query.parse import ast, children, deparse
from pg_epsilon.query.ranges import ColumnOf, range_of
from pg_epsilon.query.types import size_of, type_of

GS_MAX = 2**53
"""Largest |value| in lattice units: 512 rows at the bound still fit into the 64-bit noise lattice."""
SMALL = 2**22
"""Lattice values up to here are summed as int4, which PostgreSQL does fastest; 2^41 rows cannot overflow a bigint."""

_YEAR = "Make a number of it, within bounds: round(least(greatest(extract(year FROM x), 1900), 2100), 0)."
_NUMBER_OF: Mapping[Kind, str] = {
    Kind.BOOL: "Cast it: x::int.",
    Kind.TEXT: "Count it, or make a number of it: CASE WHEN x = 'a' THEN 1 ELSE 0 END.",
    Kind.DATE: _YEAR,
    Kind.TIMESTAMP: _YEAR,
    Kind.TIMESTAMPTZ: _YEAR,
}


@dataclass(frozen=True)
class Lattice:
    """The integers that stand for an argument's values: value = integer * step.

    sql: bigint (int4 up to SMALL) SQL of a row's integer in [low, high], NULL for NULL, total. ladder: how many
    lattice units the owner's declared resolution has, which is where a ladder of thresholds starts
    (composition.md §14.9). whole: of an integer type. exact: every value of the argument's type is a lattice point.
    nan: the type of the argument's NaN, which is left out; None: it has none. argument: what is clamped.
    """

    sql: str
    low: int
    high: int
    step: Fraction
    whole: bool
    ladder: int = 1
    exact: bool = field(default=False, compare=False)
    nan: str | None = field(default=None, compare=False)
    argument: Expression | None = field(default=None, compare=False, repr=False)

    @property
    def rounds(self) -> bool:
        """Whether a row's value may lie between two lattice points: floating point has no steps of its own."""
        return "::pg_catalog.float8" in self.sql

    def sql_up_to(self, top: int) -> str:
        """`sql` with another upper end, above `high`: the least of this integer and `high` is that of `sql`."""
        if self.argument is None:
            raise ValueError("a lattice without an argument")
        return lattice_sql(self.argument, self.low * self.step, top * self.step, self.step)

    @property
    def largest(self) -> int:
        """The largest |value| of one row, at least 1: a sensitivity is never 0."""
        return max(abs(self.low), abs(self.high), 1)


def lattice(
    node: Any,
    expression: Expression,
    column_of: ColumnOf,
    *,
    lower: Decimal | None = None,
    upper: Decimal | None = None,
    resolution: Decimal | None = None,
) -> Lattice:
    """The lattice of an argument: the asker's bounds where he gives them, else what the declarations imply.

    Public facts only. DP003 if the argument is no number, DP004 if bounds or resolution are unknown, DP005 if the
    bounds are out of order or the lattice too fine.
    """
    if expression.kind not in (Kind.INT, Kind.NUMERIC, Kind.FLOAT):
        hint = _NUMBER_OF.get(expression.kind, "Make a number of it: CASE WHEN ... THEN 1 ELSE 0 END.")
        raise DPError(SHAPE, f"sums, averages and quantiles are of numbers, not of {expression.kind.value}", hint)
    known = range_of(node, column_of)
    low = Fraction(lower) if lower is not None else known.low
    high = Fraction(upper) if upper is not None else known.high
    step = Fraction(resolution) if resolution is not None else known.step
    text = deparse(node)[:60]
    if low is None or high is None:
        raise DPError(
            UNDECLARED,
            f"the range of {text} is not known",
            "Ask the owner for bounds (dp.describe_column(..., bounds => '{lower,upper}')), or clamp it yourself:"
            " lower => and upper => of dp_sum, or least(greatest(x, lower), upper) in SQL.",
        )
    if step is None:
        raise DPError(
            UNDECLARED,
            f"the resolution of {text} is not known",
            "Ask the owner for one (dp.describe_column(..., resolution => '0.01')), give resolution => 0.01, or write"
            " round(x::numeric, 2).",
        )
    step = step or Fraction(1)
    if low > high:
        raise DPError(OUT_OF_RANGE, "lower must not be above upper", "lower => 0, upper => 100")
    ends = _nearest(low / step), _nearest(high / step)
    if max(map(abs, ends)) > GS_MAX:
        raise DPError(
            OUT_OF_RANGE,
            f"the bounds of {text} have more than 2^53 steps of its resolution",
            "Use tighter bounds or a coarser resolution.",
        )
    ladder = max(1, floor(known.unit / step)) if known.unit is not None and resolution is None else 1
    exact = resolution is None and expression.kind is not Kind.FLOAT and _has_steps(node, column_of)
    whole = expression.kind is Kind.INT
    nan = None if whole else _type_of_ends(expression)
    return Lattice(lattice_sql(expression, low, high, step), *ends, step, whole, ladder, exact, nan, expression)


def _has_steps(node: Any, column_of: ColumnOf) -> bool:
    """Whether all columns in it have steps by their types, which no value lies between."""
    if isinstance(node, ast.ColumnRef):
        return type_of(column_of(node)).kind is Kind.INT or size_of(column_of(node)) is not None
    return all(_has_steps(child, column_of) for child in children(node))


def lattice_sql(expression: Expression, low: Fraction, high: Fraction, step: Fraction) -> str:
    """SQL of a row's lattice integer: clamp(x) / step, rounded half away from zero; NULL for NULL and NaN; total."""
    x, ends = expression.sql, (_nearest(low / step), _nearest(high / step))
    type_name = "pg_catalog.int4" if max(map(abs, ends)) <= SMALL else "pg_catalog.int8"
    if expression.kind is Kind.INT and step == 1:
        a, b = ends
        return f"(CASE WHEN {x} < {a} THEN {a} WHEN {x} > {b} THEN {b} ELSE {x} END)::{type_name}"
    type_of_ends = _type_of_ends(expression)
    a_sql, b_sql = (f"'{_decimal(end)}'::{type_of_ends}" for end in (low, high))
    scaled = x if expression.type_name == "pg_catalog.numeric" else f"{x}::pg_catalog.numeric"
    if step.denominator != 1:
        scaled = f"{scaled} * {step.denominator}"
    if step.numerator != 1:
        scaled = f"{scaled} / {step.numerator}"
    above = (
        str(ends[1]) if expression.kind is Kind.INT else f"(CASE WHEN {x} < 'NaN'::{type_of_ends} THEN {ends[1]} END)"
    )
    inner = f"LEAST(GREATEST(pg_catalog.round({scaled})::{type_name}, {ends[0]}), {ends[1]})"
    return (
        f"(CASE WHEN {x} < {a_sql} THEN {ends[0]} WHEN {x} > {b_sql} THEN {above}"
        f" WHEN {x} IS NOT NULL THEN {inner} END)::{type_name}"
    )


def _type_of_ends(expression: Expression) -> str:
    return "pg_catalog.float8" if expression.kind is Kind.FLOAT else "pg_catalog.numeric"


def _nearest(value: Fraction) -> int:
    """Rounded half away from zero, as PostgreSQL's numeric does."""
    return floor(value + Fraction(1, 2)) if value >= 0 else -floor(-value + Fraction(1, 2))


def _decimal(value: Fraction) -> str:
    context = Context(prec=60)
    return format(context.divide(Decimal(value.numerator), Decimal(value.denominator)), "f")
