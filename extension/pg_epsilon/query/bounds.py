"""Clamp range and lattice of an argument, by interval arithmetic over declared bounds (rule R4; dp-pqd.md §2.2).

Every value that is summed is first clamped to public bounds and rounded to a public lattice, in SQL and without an
error on any row: NULL stays NULL and contributes nothing, NaN becomes NULL before any clamp (composition.md §14.14:
PostgreSQL orders it above everything, so that a clamp alone would make the upper bound of it), and infinities are
clamped like any value beyond a bound. Privacy rests on that clamp alone; the interval arithmetic here only
finds the range that changes no declared value. Sums of the lattice integers are exact (bigint added into numeric), so
no float is ever added, and the noise lattice clamps at 64 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Context, Decimal, InvalidOperation
from fractions import Fraction
from itertools import product
from math import ceil, floor, gcd, trunc
from typing import Any

from pg_epsilon.errors import OUT_OF_RANGE, SHAPE, UNDECLARED, DPError
from pg_epsilon.query.expression import Expression, Kind
from pg_epsilon.query.parse import ast, children, deparse, enums
from pg_epsilon.query.schema import Column
from pg_epsilon.query.types import size_of, type_of

GS_MAX = 2**53
"""Largest |value| in lattice units: 512 rows at the bound still fit into the 64-bit noise lattice."""
SMALL = 2**22
"""Lattice values up to here are summed as int4, which PostgreSQL does fastest; 2^41 rows cannot overflow a bigint."""

ColumnOf = Callable[[Any], Column]


@dataclass(frozen=True)
class Range:
    """What is publicly known of an expression's values: ends (None: unknown), lattice step (0: only 0), integer type.

    unit: the step that the owner declared, where it is coarser than the type's own (a column by itself).
    """

    low: Fraction | None
    high: Fraction | None
    step: Fraction | None
    whole: bool = False
    unit: Fraction | None = None


UNKNOWN = Range(None, None, None)
NOTHING = Range(None, None, Fraction(0))  # the literal NULL: no value at all
BIT = Range(Fraction(0), Fraction(1), Fraction(1), whole=True)
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
    nan: the type of the argument's NaN, which is left out; None: it has none.
    """

    sql: str
    low: int
    high: int
    step: Fraction
    whole: bool
    ladder: int = 1
    exact: bool = field(default=False, compare=False)
    nan: str | None = field(default=None, compare=False)

    @property
    def rounds(self) -> bool:
        """Whether a row's value may lie between two lattice points: floating point has no steps of its own."""
        return "::pg_catalog.float8" in self.sql

    @property
    def largest(self) -> int:
        """The largest |value| of one row, at least 1: a sensitivity is never 0."""
        return max(abs(self.low), abs(self.high), 1)


def range_of(node: Any, column_of: ColumnOf) -> Range:
    """The range of an expression that the compiler accepts; UNKNOWN for what is not understood."""
    handler = _HANDLERS.get(type(node))
    return handler(node, column_of) if handler else UNKNOWN


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
    return Lattice(lattice_sql(expression, low, high, step), *ends, step, whole, ladder, exact, nan)


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


def number(text: Any) -> Fraction | None:
    """A finite decimal text as a fraction; None otherwise."""
    try:
        value = Decimal(str(text))
    except InvalidOperation:
        return None
    return Fraction(value) if value.is_finite() and abs(value.adjusted()) < 400 else None


def column_range(column: Column) -> Range:
    """What is declared of a column; the step is the type's own where it has one, else the declared resolution."""
    kind, policy, size = type_of(column).kind, column.policy, size_of(column)
    if kind is Kind.BOOL:
        return BIT
    if kind not in (Kind.INT, Kind.NUMERIC, Kind.FLOAT) or policy is None:
        return UNKNOWN
    declared = number(policy.resolution) if policy.resolution is not None else None
    natural = Fraction(1) if kind is Kind.INT else Fraction(1, 10 ** size[1]) if size is not None else None
    ends = [number(policy.lower), number(policy.upper)] if policy.lower is not None else []
    if not ends:
        ends = [number(value) for value in policy.domain or policy.edges or ()]
        if natural is None and policy.domain is not None and None not in ends:
            natural = _common(end for end in ends if end is not None)
    if not (known := [end for end in ends if end is not None]) or len(known) < len(ends):
        return Range(None, None, natural or declared, kind is Kind.INT, declared)
    return Range(min(known), max(known), natural or declared, kind is Kind.INT, declared)


def _common(steps: Iterable[Fraction | None]) -> Fraction | None:
    """The coarsest step whose lattice holds all of them; 0 fits any."""
    total = Fraction(0)
    for step in steps:
        if step is None:
            return None
        denominator = total.denominator * step.denominator
        a, b = total.numerator * step.denominator, abs(step.numerator) * total.denominator
        total = Fraction(gcd(a, b), denominator)
    return total


def _hull(ranges: list[Range]) -> Range:
    ranges = [one for one in ranges if one is not NOTHING]
    if not ranges:
        return NOTHING
    lows, highs = [one.low for one in ranges], [one.high for one in ranges]
    return Range(
        None if None in lows else min(low for low in lows if low is not None),
        None if None in highs else max(high for high in highs if high is not None),
        _common(one.step for one in ranges),
        all(one.whole for one in ranges),
    )


def _constant(node: Any, column_of: ColumnOf) -> Range:
    if node.isnull or node.val is None:
        return NOTHING
    value = None
    if isinstance(node.val, ast.Integer):
        value = Fraction(node.val.ival or 0)
    elif isinstance(node.val, ast.Float):
        value = number(node.val.fval)
    elif isinstance(node.val, ast.String):
        value = number(node.val.sval)
    if value is None:
        return UNKNOWN
    return Range(value, value, abs(value), isinstance(node.val, ast.Integer))


def _column(node: Any, column_of: ColumnOf) -> Range:
    return column_range(column_of(node))


def _operator(node: Any, column_of: ColumnOf) -> Range:
    if node.kind == enums.A_Expr_Kind.AEXPR_NULLIF:
        return range_of(node.lexpr, column_of)
    if node.kind != enums.A_Expr_Kind.AEXPR_OP:
        return BIT
    name = node.name[-1].sval
    right = range_of(node.rexpr, column_of)
    if node.lexpr is None:
        return _minus(right) if name == "-" else right
    if name not in _ARITHMETIC:
        return BIT
    left = range_of(node.lexpr, column_of)
    if NOTHING in (left, right):
        return NOTHING
    return _ARITHMETIC[name](left, right)


def _minus(one: Range) -> Range:
    low, high = (None if end is None else -end for end in (one.high, one.low))
    return Range(low, high, one.step, one.whole)


def _plus(a: Range, b: Range) -> Range:
    low = None if a.low is None or b.low is None else a.low + b.low
    high = None if a.high is None or b.high is None else a.high + b.high
    return Range(low, high, _common((a.step, b.step)), a.whole and b.whole)


def _times(a: Range, b: Range) -> Range:
    step = None if a.step is None or b.step is None else a.step * b.step
    if a.low is None or a.high is None or b.low is None or b.high is None:
        return Range(None, None, step, a.whole and b.whole)
    corners = [x * y for x, y in product((a.low, a.high), (b.low, b.high))]
    return Range(min(corners), max(corners), step, a.whole and b.whole)


def _over(a: Range, b: Range) -> Range:
    """Division by a constant; of integers it cuts towards zero."""
    if b.low is None or b.low != b.high or b.low == 0:
        return Range(None, None, Fraction(1) if a.whole and b.whole else None, a.whole and b.whole)
    divided = _times(a, Range(1 / b.low, 1 / b.low, 1 / abs(b.low)))
    if not (a.whole and b.whole):
        return divided
    low, high = (None if end is None else Fraction(trunc(end)) for end in (divided.low, divided.high))
    return Range(low, high, Fraction(1), True)


def _modulo(a: Range, b: Range) -> Range:
    """The remainder has the dividend's sign and is smaller than the divisor."""
    step = _common((a.step, b.step))
    if b.low is None or b.high is None:
        return Range(None, None, step, a.whole and b.whole)
    most = max(abs(b.low), abs(b.high))
    low = Fraction(0) if a.low is not None and a.low >= 0 else -most
    high = Fraction(0) if a.high is not None and a.high <= 0 else most
    return Range(low, high, step, a.whole and b.whole)


_ARITHMETIC: dict[str, Callable[[Range, Range], Range]] = {
    "+": _plus,
    "-": lambda a, b: _plus(a, _minus(b)),
    "*": _times,
    "/": _over,
    "%": _modulo,
}


def _extreme(node: Any, column_of: ColumnOf) -> Range:
    """GREATEST and LEAST ignore NULLs: only a constant, which never is NULL, bounds on its own side."""
    ranges = [one for one in (range_of(arg, column_of) for arg in node.args) if one is not NOTHING]
    all_of = _hull(ranges)
    constants = [one.low for one in ranges if one.low is not None and one.low == one.high]
    low, high = all_of.low, all_of.high
    if constants and node.op == enums.MinMaxOp.IS_GREATEST:
        low = max([*constants, *([] if low is None else [low])])
    elif constants:
        high = min([*constants, *([] if high is None else [high])])
    return Range(low, high, all_of.step, all_of.whole)


def _case(node: Any, column_of: ColumnOf) -> Range:
    results = [range_of(when.result, column_of) for when in node.args]
    return _hull([*results, range_of(node.defresult, column_of) if node.defresult is not None else NOTHING])


def _coalesce(node: Any, column_of: ColumnOf) -> Range:
    return _hull([range_of(arg, column_of) for arg in node.args])


_INTEGERS = frozenset({"int2", "int4", "int8"})


def _cast(node: Any, column_of: ColumnOf) -> Range:
    """A cast to an integer rounds; one to numeric(p,s) rounds to s digits; others keep the value."""
    inner = range_of(node.arg, column_of)
    name = node.typeName.names[-1].sval
    given = [mod for mod in node.typeName.typmods or () if isinstance(mod, ast.A_Const)]
    typmods = [getattr(mod.val, "ival", None) or 0 for mod in given]
    if name in _INTEGERS:
        return _rounded(inner, 0)
    if name == "numeric" and typmods:
        return _rounded(inner, typmods[1] if len(typmods) > 1 else 0)
    return Range(inner.low, inner.high, inner.step, False, inner.unit)


def _rounded(one: Range, digits: int) -> Range:
    """Rounding to a lattice moves the ends outwards to it at most."""
    step = Fraction(10) ** -digits
    low = None if one.low is None else floor(one.low / step) * step
    high = None if one.high is None else ceil(one.high / step) * step
    return Range(low, high, _common((one.step, step)) if one.step and one.step % step == 0 else step, digits <= 0)


def _function(node: Any, column_of: ColumnOf) -> Range:
    name = node.funcname[-1].sval
    args: tuple[Any, ...] = tuple(node.args or ())
    if name in ("round", "trunc") and len(args) == 2:
        places = range_of(args[1], column_of)
        if places.low is None or places.low != places.high or abs(places.low) > 100:
            return UNKNOWN
        return _rounded(range_of(args[0], column_of), int(places.low))
    if name in ("round", "trunc", "floor", "ceil", "ceiling") and len(args) == 1:
        return _rounded(range_of(args[0], column_of), 0)
    if name == "abs" and len(args) == 1:
        one = range_of(args[0], column_of)
        if one.low is None or one.high is None:
            return Range(None, None, one.step, one.whole)
        low = max(Fraction(0), one.low, -one.high)
        return Range(low, max(abs(one.low), abs(one.high)), one.step, one.whole)
    return UNKNOWN


_HANDLERS: dict[type, Callable[[Any, ColumnOf], Range]] = {
    ast.A_Const: _constant,
    ast.A_Expr: _operator,
    ast.BoolExpr: lambda node, column_of: BIT,
    ast.BooleanTest: lambda node, column_of: BIT,
    ast.CaseExpr: _case,
    ast.CoalesceExpr: _coalesce,
    ast.ColumnRef: _column,
    ast.FuncCall: _function,
    ast.MinMaxExpr: _extreme,
    ast.NullTest: lambda node, column_of: BIT,
    ast.TypeCast: _cast,
}
