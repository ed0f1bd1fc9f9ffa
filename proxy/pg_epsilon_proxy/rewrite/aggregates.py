"""Aggregates that a block may ask for: a data table from PostgreSQL's name to the canonical request (internals.md §1).

A new aggregate is a row of AGGREGATES; nothing else in rewrite/ knows one aggregate from another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from pg_epsilon.query.parse import ast, enums

from . import refusals
from .tree import function_name


@dataclass(frozen=True)
class Aggregate:
    """One aggregate of a block. argument: "*", a node, or None; filter: a node or None; type: if always the same.

    fraction: a quantile's direct argument; descending: it counts from the largest value.
    """

    function: str
    argument: Any
    distinct: bool
    filter: Any
    type: str | None = None
    fraction: Any = None
    descending: bool = False

    @property
    def nodes(self) -> tuple[Any, ...]:
        """The expressions in it."""
        found = (self.argument, self.filter, self.fraction)
        return tuple(node for node in found if node is not None and not isinstance(node, str))


@dataclass(frozen=True)
class Rule:
    """How one PostgreSQL aggregate is written in the request. star: f(*) is allowed; arity: argument counts.

    type: its result type, if that does not depend on the argument (else the facade is asked). ordered: its argument
    stands in WITHIN GROUP (ORDER BY ...); mirrored: DESC is the fraction's complement. schema: where it is found.
    """

    function: str
    arity: tuple[int, ...] = (1,)
    star: bool = False
    distinct: bool = False
    type: str | None = None
    ordered: bool = False
    mirrored: bool = False
    schema: str = "pg_catalog"


AGGREGATES: dict[str, Rule] = {
    "count": Rule("count", star=True, distinct=True, type="bigint"),
    "sum": Rule("sum"),
    "avg": Rule("avg"),
    "stddev": Rule("stddev_samp"),
    "stddev_samp": Rule("stddev_samp"),
    "stddev_pop": Rule("stddev_pop"),
    "variance": Rule("var_samp"),
    "var_samp": Rule("var_samp"),
    "var_pop": Rule("var_pop"),
    "percentile_disc": Rule("percentile_disc", ordered=True),
    "percentile_cont": Rule("percentile_cont", ordered=True, mirrored=True),
    "median": Rule("median", schema="dp"),
}

INSTEAD = (
    "use count, sum, avg, stddev, variance, percentile_cont, percentile_disc or median, each with FILTER (WHERE ...) "
    "if you like"
)
# What to write in the place of aggregates that show single rows.
_BY_NAME: Mapping[str, str] = {
    "min": "use percentile_disc(0.01) WITHIN GROUP (ORDER BY x): the smallest value belongs to somebody",
    "max": "use percentile_disc(0.99) WITHIN GROUP (ORDER BY x): the largest value belongs to somebody",
    "mode": "use count(*) with GROUP BY x ORDER BY count(*) DESC LIMIT 1",
    "bool_and": "use count(*) FILTER (WHERE NOT x)",
    "every": "use count(*) FILTER (WHERE NOT x)",
    "bool_or": "use count(*) FILTER (WHERE x)",
}
_DISTINCT = "leave DISTINCT out; over a declared domain, aggregate the answer of SELECT DISTINCT column"
_FRACTION = "write one number from 0 to 1, or a parameter; several: one aggregate each"
_ASCENDING = "order ascending, and write the fraction from the other end: 0.9 DESC is 0.1"

# Fields of a FuncCall that are understood, and words for the others; any field not in _READ is refused once it is set.
_FIELDS: dict[str, str] = {
    "agg_order": "ORDER BY",
    "over": "OVER",
    "agg_within_group": "WITHIN GROUP",
    "func_variadic": "VARIADIC",
}
_READ = frozenset({"funcname", "args", "agg_filter", "agg_star", "agg_distinct", "funcformat", "location"})
_ORDERED = frozenset({"agg_order", "agg_within_group"})


def compile_aggregate(call: Any, relation: str) -> Aggregate:
    """The request's form of an aggregate call. Errors: DP003 for an unknown aggregate, or any field not understood."""
    name = function_name(call)
    rule = AGGREGATES.get(name[-1])
    if rule is None or name[:-1] not in ((), (rule.schema,)):
        hint = _BY_NAME.get(name[-1], INSTEAD)
        raise refusals.part(f"aggregate {'.'.join(name)}()", relation, hint, call)
    for slot in call:
        if slot not in _READ and getattr(call, slot) and not (rule.ordered and slot in _ORDERED):
            what = _FIELDS.get(slot, f"this form ({slot})")
            raise refusals.part(f"{what} in {name[-1]}()", relation, INSTEAD, call)
    arguments: tuple[Any, ...] = call.args or ()
    if not (rule.star if call.agg_star else len(arguments) in rule.arity):
        raise refusals.part(f"{name[-1]}() with these arguments", relation, INSTEAD, call)
    if call.agg_distinct and not rule.distinct:
        raise refusals.part(f"DISTINCT in {name[-1]}()", relation, _DISTINCT, call)
    if any(isinstance(argument, ast.NamedArgExpr) for argument in arguments):
        raise refusals.part(f"a named argument in {name[-1]}()", relation, INSTEAD, call)
    if rule.ordered:
        return _quantile(call, rule, relation)
    # count(1) is count(*): many tools write it so.
    constant = bool(arguments) and isinstance(arguments[0], ast.A_Const) and not arguments[0].isnull
    argument: Any = "*" if call.agg_star or (constant and rule.star and not call.agg_distinct) else arguments[0]
    return Aggregate(rule.function, argument, bool(call.agg_distinct), call.agg_filter, rule.type)


def _quantile(call: Any, rule: Rule, relation: str) -> Aggregate:
    """f(fraction) WITHIN GROUP (ORDER BY x). NULLS FIRST and LAST change nothing: nulls are ignored."""
    (fraction,) = call.args
    order: tuple[Any, ...] = call.agg_order or ()
    if not call.agg_within_group or len(order) != 1:
        raise refusals.part(f"{rule.function}() with these arguments", relation, INSTEAD, call)
    if not isinstance(_uncast(fraction), ast.A_Const | ast.ParamRef):
        raise refusals.part(f"this fraction of {rule.function}()", relation, _FRACTION, fraction)
    if order[0].sortby_dir not in (enums.SortByDir.SORTBY_DEFAULT, enums.SortByDir.SORTBY_ASC):
        if not rule.mirrored or order[0].sortby_dir != enums.SortByDir.SORTBY_DESC:
            raise refusals.part(f"descending order in {rule.function}()", relation, _ASCENDING, order[0].node)
        return Aggregate(rule.function, order[0].node, False, call.agg_filter, None, fraction, True)
    return Aggregate(rule.function, order[0].node, False, call.agg_filter, None, fraction)


def request_of(
    aggregate: Aggregate, text: Callable[[Any], str], value: Callable[[Any], Any] | None = None
) -> dict[str, Any]:
    """The member of request["aggregates"]; `text` writes an expression with its parameters already constants.

    value: the constant that stands for a parameter; without it the fraction is told by its text.
    """
    member: dict[str, Any] = {
        "function": aggregate.function,
        "argument": _argument(aggregate.argument, text),
        "distinct": aggregate.distinct,
        "filter": None if aggregate.filter is None else text(aggregate.filter),
    }
    if aggregate.fraction is not None:
        shown = text(aggregate.fraction) if value is None else _fraction(aggregate, value)
        member["parameters"] = {"fraction": shown}
        if value is None:
            member["descending"] = aggregate.descending
    return member


def _argument(argument: Any, text: Callable[[Any], str]) -> str | list[str]:
    """A star, an expression's text, or those of a row value's parts: count(DISTINCT (a, b))."""
    if isinstance(argument, ast.RowExpr):
        return [text(part) for part in argument.args or ()]
    return argument if isinstance(argument, str) else text(argument)


def _fraction(aggregate: Aggregate, value: Callable[[Any], Any]) -> str:
    """The fraction as a decimal text, from the smallest value. Error: DP003 for anything but a number from 0 to 1."""
    constant = _uncast(aggregate.fraction)
    if isinstance(constant, ast.ParamRef):
        constant = _uncast(value(constant))
    number = None if constant.isnull else _digits(constant.val)
    try:
        found = Decimal(number) if number is not None else Decimal("NaN")
    except InvalidOperation:
        found = Decimal("NaN")
    if not found.is_finite() or not 0 <= found <= 1:
        raise refusals.shape(
            f"the fraction of {aggregate.function}() is no number from 0 to 1", _FRACTION, aggregate.fraction
        )
    return format(1 - found if aggregate.descending else found, "f")


def _digits(value: Any) -> str | None:
    """A constant's digits, as written."""
    if isinstance(value, ast.Integer):
        return str(value.ival or 0)
    if isinstance(value, ast.Float):
        return str(value.fval)
    return str(value.sval) if isinstance(value, ast.String) else None


def _uncast(node: Any) -> Any:
    while isinstance(node, ast.TypeCast):
        node = node.arg
    return node
