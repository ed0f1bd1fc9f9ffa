"""Aggregates that a block may ask for: a data table from PostgreSQL's name to the canonical request (internals.md §1).

A new aggregate is a row of AGGREGATES; nothing else in rewrite/ knows one aggregate from another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pg_epsilon.query.parse import ast

from . import refusals
from .tree import function_name


@dataclass(frozen=True)
class Aggregate:
    """One aggregate of a block. argument: "*", a node, or None; filter: a node or None; type: if always the same."""

    function: str
    argument: Any
    distinct: bool
    filter: Any
    type: str | None = None


@dataclass(frozen=True)
class Rule:
    """How one PostgreSQL aggregate is written in the request. star: f(*) is allowed; arity: argument counts.

    type: its result type, if that does not depend on the argument (else the facade is asked).
    """

    function: str
    arity: tuple[int, ...]
    star: bool = False
    distinct: bool = False
    type: str | None = None


AGGREGATES: dict[str, Rule] = {
    "count": Rule("count", arity=(1,), star=True, distinct=True, type="bigint"),
}

INSTEAD = "use count(*), count(column) or count(DISTINCT unit column), each with FILTER (WHERE ...) if you like"

# Fields of a FuncCall that are understood, and words for the others; any field not in _READ is refused once it is set.
_FIELDS: dict[str, str] = {
    "agg_order": "ORDER BY",
    "over": "OVER",
    "agg_within_group": "WITHIN GROUP",
    "func_variadic": "VARIADIC",
}
_READ = frozenset({"funcname", "args", "agg_filter", "agg_star", "agg_distinct", "funcformat", "location"})


def compile_aggregate(call: Any, relation: str) -> Aggregate:
    """The request's form of an aggregate call. Errors: DP003 for an unknown aggregate, or any field not understood."""
    name = function_name(call)
    rule = AGGREGATES.get(name[-1]) if len(name) == 1 or name[:-1] == ("pg_catalog",) else None
    if rule is None:
        raise refusals.part(f"aggregate {'.'.join(name)}()", relation, INSTEAD, call)
    for slot in call:
        if slot not in _READ and getattr(call, slot):
            what = _FIELDS.get(slot, f"this form ({slot})")
            raise refusals.part(f"{what} in {name[-1]}()", relation, INSTEAD, call)
    arguments: tuple[Any, ...] = call.args or ()
    if not (rule.star if call.agg_star else len(arguments) in rule.arity):
        raise refusals.part(f"{name[-1]}() with these arguments", relation, INSTEAD, call)
    if call.agg_distinct and not rule.distinct:
        raise refusals.part(f"DISTINCT in {name[-1]}()", relation, INSTEAD, call)
    # count(1) is count(*): many tools write it so.
    constant = bool(arguments) and isinstance(arguments[0], ast.A_Const) and not arguments[0].isnull
    argument: Any = "*" if call.agg_star or (constant and rule.star and not call.agg_distinct) else arguments[0]
    return Aggregate(rule.function, argument, bool(call.agg_distinct), call.agg_filter, rule.type)


def request_of(aggregate: Aggregate, text: Callable[[Any], str]) -> dict[str, Any]:
    """The member of request["aggregates"]; `text` writes an expression with its parameters already constants."""
    return {
        "function": aggregate.function,
        "argument": aggregate.argument if isinstance(aggregate.argument, str) else text(aggregate.argument),
        "distinct": aggregate.distinct,
        "filter": None if aggregate.filter is None else text(aggregate.filter),
    }
