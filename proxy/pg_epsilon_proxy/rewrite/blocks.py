"""What a statement is cut into: blocks, each with the place in the tree where its released values go."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pg_epsilon.query.parse import ast

from . import refusals
from .aggregates import Aggregate, request_of
from .names import Relation
from .positions import aligned, clause
from .tree import column, expression_text, sql_text, strings, substitute, walk

# The engine's words for a place in a predicate (query/request.py).
_PLACE = re.compile(r'At character (\d+) of the predicate, near "(.*)"\.', re.DOTALL)


@dataclass
class QueryBlock:
    """The aggregate core of a SELECT over one protected relation: FROM, WHERE, GROUP BY, every distinct aggregate.

    slot: the derived table that now stands in FROM. keys: column names. core: the block's own SQL, for types only.
    source: the client's whole text, while it is the text that an error's position is shown in.
    """

    number: int
    slot: Any
    relation: Relation
    alias: str | None
    where: Any
    keys: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]
    core: str
    grouped: bool
    source: str | None = None

    @property
    def width(self) -> int:
        """How many columns the block answers: keys first, then aggregates."""
        return len(self.keys) + len(self.aggregates)

    @property
    def fixed_types(self) -> list[str] | None:
        """The columns' types where they follow from the aggregates alone; None: the facade must be asked."""
        types = [aggregate.type for aggregate in self.aggregates if aggregate.type is not None]
        return types if len(types) == self.width else None

    def parameters(self) -> frozenset[int]:
        """Numbers of the client's parameters that the request needs as constants."""
        nodes = [self.where, *(x for a in self.aggregates for x in (a.argument, a.filter))]
        return parameters_in(tuple(node for node in nodes if not isinstance(node, str)))

    def request(self, constants: Mapping[int, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
        """The canonical request (internals.md §1); constants: typed constant nodes by parameter number."""

        def text(node: Any) -> str:
            return expression_text(substitute(node, lambda item: _constant_or_bare(item, constants)))

        return {
            "version": 1,
            "from": {"schema": self.relation.schema, "name": self.relation.name, "alias": self.alias},
            "where": None if self.where is None else text(self.where),
            "keys": [sql_text(column(key)) for key in self.keys],
            "aggregates": [request_of(aggregate, text) for aggregate in self.aggregates],
            "budget": None,
            "mechanism": "auto",
            "fresh": False,
            "settings": dict(settings),
        }

    def blamed(self, request: Mapping[str, Any], detail: str) -> int | None:
        """Where in `source` the place stands that the engine's DETAIL names in a predicate of `request`."""
        named = _PLACE.fullmatch(detail)
        if named is None or self.source is None:
            return None
        filters = [(a.filter, asked["filter"]) for a, asked in zip(self.aggregates, request["aggregates"], strict=True)]
        for node, text in [(self.where, request["where"]), *filters]:
            if text is None or not " ".join(text[int(named[1]) - 1 :].split()).startswith(named[2]):
                continue
            span = clause(self.source, node)
            return None if span is None else aligned(text, int(named[1]) - 1, self.source, span)
        return None


@dataclass
class CallBlock:
    """An explicit dp_* call; slot: its FuncCall. evaluate: `SELECT dp.dp_X_request(...)`, for the facade; sql: text.

    free: the call is dp_plan, which asks for the public facts of its request and charges nothing. asked: our own query
    for the value of a call that has no request; `evaluate` then gives its argument.
    """

    number: int
    slot: Any
    function: str
    evaluate: Any
    sql: str
    free: bool = False
    asked: str | None = None

    def parameters(self) -> frozenset[int]:
        return parameters_in(self.evaluate)


@dataclass
class ViewBlock:
    """A view of schema dp, answered as the gateway for the asker (composition.md §14.10).

    sql: our own query for its rows, every value text; shape: the same without casts, for types.
    """

    number: int
    slot: Any
    relation: Relation
    sql: str
    shape: str

    def parameters(self) -> frozenset[int]:
        return frozenset()


Block = QueryBlock | CallBlock | ViewBlock


@dataclass
class Compiled:
    """A statement whose blocks have been cut out. node: the changed tree, complete once every slot is filled."""

    node: Any
    blocks: list[Block] = field(default_factory=list)


def parameters_in(value: Any) -> frozenset[int]:
    """Numbers of all $n under `value`."""
    return frozenset(node.number or 0 for node in walk(value) if isinstance(node, ast.ParamRef))


def _constant_or_bare(node: Any, constants: Mapping[int, Any]) -> Any:
    """Parameters become constants; a block has one relation, so its columns need no qualifier (one cache key each)."""
    if isinstance(node, ast.ParamRef):
        return constants[node.number or 0]
    if isinstance(node, ast.TypeCast) and isinstance(node.arg, ast.ParamRef):
        typed = constants[node.arg.number or 0]
        return typed if _same_type(node.typeName, typed.typeName) else None
    if isinstance(node, ast.ColumnRef):
        return ast.ColumnRef(fields=(ast.String(sval=strings(node.fields)[-1]),))
    return None


def check_width(block: QueryBlock, rows: Sequence[Sequence[Any]]) -> None:
    """A row has as many values as the block has columns; an ungrouped block answers one row. Else DP006."""
    if any(len(row) != block.width for row in rows):
        raise refusals.broken("a row of the wrong width")
    if not block.grouped and len(rows) != 1:
        raise refusals.broken("an ungrouped aggregate answers exactly one row")


def _same_type(written: Any, known: Any) -> bool:
    """$1::float8 for a parameter of that type is one cast, not two."""
    plain = not (written.typmods or written.arrayBounds or known.arrayBounds)
    return plain and strings(written.names)[-1] == strings(known.names)[-1]
