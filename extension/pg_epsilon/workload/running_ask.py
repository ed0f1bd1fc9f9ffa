"""The request's member "running": which running sums over groups a statement is going to show; validated, public."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pg_epsilon.errors import SHAPE, DPError
from pg_epsilon.query import members
from pg_epsilon.query.aggregates import Aggregate, parts_of
from pg_epsilon.query.bounds import Lattice
from pg_epsilon.query.expression import Fold, FoldError
from pg_epsilon.query.keys import Key
from pg_epsilon.query.parse import ast, deparse, parse_expression

MOST_GROUPS = 1_000  # of the key: above it finding a strategy takes more than a second
_MEMBERS = frozenset({"aggregate", "key", "descending", "alone"})


@dataclass(frozen=True)
class Running:
    """A sum of groups of which running sums are shown.

    aggregate, key: its number and that of the ordered key, from 0, as asked. descending: from the last group on. alone:
    the groups' own sums are shown too. weights: the most that one row adds to each group of the key, lattice units.
    """

    aggregate: int
    key: int
    descending: bool
    alone: bool
    weights: tuple[int, ...]


@dataclass(frozen=True)
class Runs:
    """All of a block; each of its aggregates is shown as ever, so that none is a member."""

    runs: tuple[Running, ...]
    members: tuple[int, ...] = ()


def compile_running(
    document: Mapping[str, Any], keys: Sequence[Key], aggregates: Sequence[Aggregate], fold: Fold
) -> tuple[Running, ...]:
    """The running sums that a strategy may be found for: of width_bucket, whose groups are in the order of their keys.

    Error: DP003 for a member of another form.
    """
    found = []
    for item in members.items(document.get("running"), "running"):
        aggregate, key = _places(item, len(aggregates), len(keys))
        one, domain = aggregates[aggregate], keys[key].domain
        if one.function != "sum" or one.lattice is None or one.lattice.low < 0 or len(domain) > MOST_GROUPS:
            continue
        arguments = bucket(str(members.items(document["keys"], "keys")[key]))
        if arguments and len({other.sql for other in keys}) == len(keys):
            asked = members.items(document["aggregates"], "aggregates")[aggregate]
            parts: Any = parts_of(asked)
            argument = deparse(parse_expression(str(parts["argument"])))
            weights = group_weights(arguments, argument, one.lattice, domain, fold)
            found.append(Running(aggregate, key, item["descending"] is True, item["alone"] is True, weights))
    return tuple(found)


def _places(item: Any, aggregates: int, keys: int) -> tuple[int, int]:
    """The numbers of the aggregate and the key that a running sum is about."""
    given = members.mapping(item, "running")
    aggregate, key = given.get("aggregate"), given.get("key")
    if (
        set(given) == _MEMBERS
        and (type(aggregate) is int and 0 <= aggregate < aggregates)
        and (type(key) is int and 0 <= key < keys)
    ):
        return aggregate, key
    raise DPError(SHAPE, "running sums of an unknown form", "Use plain SQL through the proxy.")


def bucket(key: str) -> tuple[Any, ...]:
    """The arguments of a key that is width_bucket(x, low, high, count); none of another."""
    node: Any = parse_expression(key)
    if not isinstance(node, ast.FuncCall) or not node.funcname:
        return ()
    arguments: tuple[Any, ...] = node.args or ()
    return arguments if str(node.funcname[-1].sval) == "width_bucket" and len(arguments) == 4 else ()


def group_weights(
    arguments: Sequence[Any], argument: str, lattice: Lattice, domain: Sequence[str | None], fold: Fold
) -> tuple[int, ...]:
    """The most that a row adds to each group: where the key is a bucket of what is summed, the bucket's upper edge.

    One lattice unit of room above the edge, for buckets that are found in floating point; never below the lower bound,
    to which values are clamped, and never above the upper one.
    """
    everywhere = (max(lattice.high, 0),) * len(domain)
    if argument != deparse(arguments[0]):
        return everywhere
    try:
        low, high, count = (Fraction(text or "") for text in fold([deparse(one) for one in arguments[1:]]))
    except (FoldError, ValueError):
        return everywhere
    if low >= high or tuple(domain[: int(count) + 2]) != tuple(str(place) for place in range(int(count) + 2)):
        return everywhere
    edges = [(low + (high - low) * place / count) / lattice.step for place in range(int(count) + 1)]
    tops = [min(max(math.ceil(edge), lattice.low), lattice.high) for edge in edges]
    return tuple(max(one, 0) for one in (*tops, *([lattice.high] * (len(domain) - len(tops)))))
