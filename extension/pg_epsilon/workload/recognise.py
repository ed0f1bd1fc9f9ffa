"""Sums of one block that differ in a range of their own argument: the same question as a workload (issue's main door).

`sum(x) FILTER (WHERE x <= 30000), sum(x) FILTER (WHERE x <= 40000), …` of numbers whose type has steps. Anything else
that stands in a filter leaves the block as it is: nothing is dropped, so what is recognised means what it says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache, partial
from typing import Any

from pg_epsilon.query.aggregates import Aggregate, parts_of
from pg_epsilon.query.bounds import GS_MAX, Lattice
from pg_epsilon.query.expression import Fold, FoldError
from pg_epsilon.query.parse import ast, deparse, enums, parse_expression
from pg_epsilon.workload.ask import MAX_PAIR_CELLS, Options, Workload
from pg_epsilon.workload.shapes import cuts_of, end_of

LEAST = 2  # different queries
_MEMBERS = {"function", "argument", "filter", "name", "distinct", "parameters"}
_WHOLE = {"int2", "int4", "int8", "numeric"}  # types of constants whose order is that of numbers
Number = Callable[[Any], Fraction | None]  # a constant in lattice units; None for anything else
_MIRROR = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


@dataclass(frozen=True)
class Span:
    """The lattice integers x with low < x <= high; None: without end."""

    low: int | None = None
    high: int | None = None

    def within(self, other: Span) -> Span:
        """What lies in both."""
        lows = [one for one in (self.low, other.low) if one is not None]
        highs = [one for one in (self.high, other.high) if one is not None]
        return Span(max(lows, default=None), min(highs, default=None))


@dataclass(frozen=True)
class _Argument:
    """What is summed: its tree, and that as SQL text."""

    node: Any
    text: str

    def stands(self, node: Any) -> bool:
        """Whether a tree is written alike; of names and constants, which most are, told without writing them."""
        if isinstance(node, ast.ColumnRef) and isinstance(self.node, ast.ColumnRef):
            return bool(node.fields == self.node.fields)
        return not isinstance(node, ast.A_Const) and deparse(node) == self.text


def _argument(text: str) -> _Argument:
    node = parse_expression(text)
    return _Argument(node, deparse(node))


@dataclass(frozen=True)
class Together:
    """Sums of a block that are one workload. members: their numbers among the block's aggregates, query by query."""

    workload: Workload
    members: tuple[int, ...]


def recognise(items: Sequence[Any], aggregates: Sequence[Aggregate], fold: Fold) -> Together | None:
    """The largest workload that sums of a block are, or None; other aggregates may stand beside it.

    items: as the request gives them; aggregates: the same, validated.
    """
    found: dict[str, list[tuple[int, Span]]] = {}
    argument_of = cache(_argument)
    for number, (item, aggregate) in enumerate(zip(items, aggregates, strict=True)):
        lattice = aggregate.lattice
        if aggregate.function != "sum" or lattice is None or not lattice.exact:
            continue
        parts = parts_of(item)
        span = None if parts.get("parameters") else _span(parts, argument_of, partial(_steps, lattice.step, fold))
        if span is not None:
            found.setdefault(lattice.sql, []).append((number, span))
    for _, sums in sorted(found.items(), key=lambda one: (-len(one[1]), one[0])):
        sums.sort(key=lambda one: _place(one[1]))  # in whatever order they are asked for, they are one question
        lattice = aggregates[sums[0][0]].lattice
        spans = [span for _, span in sums]
        if lattice is not None and len(set(spans)) >= LEAST and (workload := _workload(spans, lattice)) is not None:
            return Together(workload, tuple(number for number, _ in sums))
    return None


def _place(span: Span) -> tuple[bool, int, bool, int]:
    """Orders spans by their ends, an open one first."""
    return span.low is not None, span.low or 0, span.high is not None, span.high or 0


def _workload(spans: Sequence[Span], lattice: Lattice) -> Workload | None:
    """None where a filter is empty, ends far above the bounds, or tells apart what is clamped to the lower bound."""
    if any(span.low is not None and span.low < lattice.low for span in spans):
        return None
    first = lattice.low - 1
    asked = [(first if span.low is None else span.low, span.high) for span in spans]
    if any(low >= lattice.high or (high is not None and not low < high <= GS_MAX) for low, high in asked):
        return None
    cuts = cuts_of(asked, lattice)
    ends = [(low, end_of(high, cuts)) for low, high in asked]
    if len(spans) * (len(cuts) - 1) > MAX_PAIR_CELLS:
        return None
    rows = tuple(tuple(Fraction(int(low < cut <= high)) for cut in cuts[1:]) for low, high in ends)
    edges = tuple((_edge(span.low, lattice.step), _edge(span.high, lattice.step)) for span in spans)
    return Workload(lattice, cuts, rows, edges, False, "row", Options(aggregates=("sum",)))


def _edge(end: int | None, step: Fraction) -> Decimal | None:
    return None if end is None else Decimal(end * step.numerator) / Decimal(step.denominator)


def _span(parts: Mapping[str, Any], argument_of: Callable[[str], _Argument], number: Number) -> Span | None:
    if set(parts) - _MEMBERS or parts.get("distinct") or not parts.get("argument"):
        return None
    argument = argument_of(str(parts["argument"]))
    if parts.get("filter") is None:
        return Span()
    return _of(parse_expression(str(parts["filter"])), argument, number)


def _of(node: Any, argument: _Argument, number: Number) -> Span | None:
    """The span of a condition on the argument alone; None for any other."""
    if isinstance(node, ast.BoolExpr) and node.boolop == enums.BoolExprType.AND_EXPR:
        whole = Span()
        for one in node.args or ():
            span = _of(one, argument, number)
            if span is None:
                return None
            whole = whole.within(span)
        return whole
    return _of_operator(node, argument, number) if isinstance(node, ast.A_Expr) else None


def _of_operator(node: Any, argument: _Argument, number: Number) -> Span | None:
    if node.kind == enums.A_Expr_Kind.AEXPR_BETWEEN and argument.stands(node.lexpr):
        low, high = (number(one) for one in node.rexpr)
        return None if low is None or high is None else _ends(">=", low).within(_ends("<=", high))
    if node.kind != enums.A_Expr_Kind.AEXPR_OP or len(node.name) != 1 or node.name[0].sval not in _MIRROR:
        return None
    operator, left, right = node.name[0].sval, node.lexpr, node.rexpr
    if left is not None and argument.stands(right):
        operator, left, right = _MIRROR[operator], right, left
    value = number(right) if left is not None and argument.stands(left) else None
    return None if value is None else _ends(operator, value)


def _ends(operator: str, value: Fraction) -> Span:
    """The integers on one side of a number."""
    at_most, below = value.__floor__(), value.__ceil__() - 1
    return {
        "<=": Span(None, at_most),
        "<": Span(None, below),
        ">": Span(at_most, None),
        ">=": Span(below, None),
        "=": Span(below, at_most),
    }[operator]


def _steps(step: Fraction, fold: Fold, node: Any) -> Fraction | None:
    value = _constant(node, fold)
    return None if value is None else value / step


def _number(value: Any) -> Fraction | None:
    if isinstance(value, ast.Integer):
        return Fraction(value.ival or 0)
    return Fraction(value.fval or "") if isinstance(value, ast.Float) else None


def _constant(node: Any, fold: Fold) -> Fraction | None:
    """A whole or decimal constant, as PostgreSQL reads it."""
    inner = node
    while isinstance(inner, ast.TypeCast):  # a parameter's cast inside the client's own
        kind: Any = inner.typeName
        if str(kind.names[-1].sval) not in _WHOLE or kind.arrayBounds or kind.typmods:
            return None
        inner = inner.arg
    if not isinstance(inner, ast.A_Const) or inner.isnull:
        return None
    try:
        if inner is node:  # a number as it is written needs no server
            return _number(inner.val)
        (text,) = fold([deparse(node)])
        return Fraction(text) if text is not None else None
    except (FoldError, ValueError):
        return None
