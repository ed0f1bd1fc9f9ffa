"""What a statement is cut into: blocks, each with the place in the tree where its released values go."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from pg_epsilon.query.parse import ast, enums

from . import refusals
from .aggregates import Aggregate, request_of
from .bars import Bar
from .frames import Leaf, bare_columns
from .names import Relation
from .positions import aligned, clause, location
from .tree import expression_text, quote_identifier, strings, substitute, walk

# The engine's words for a place in a predicate (query/request.py).
_PLACE = re.compile(r'At character (\d+) of the predicate, near "(.*)"\.', re.DOTALL)


_INTEGERS = frozenset({"int2", "int4", "int8"})


@dataclass(frozen=True)
class Running:
    """A sum over groups of which running totals are shown (running.py). aggregate, key: numbers from 0.

    descending: from the last group of the key on; alone: the groups' own sums are shown too.
    """

    aggregate: int
    key: int
    descending: bool
    alone: bool


class Arms(Protocol):
    """Blocks that one call may answer (workloads.py)."""

    @property
    def arms(self) -> tuple[QueryBlock, ...]: ...

    @property
    def width(self) -> int:
        """How many columns the call answers."""
        ...

    def request(self, constants: Mapping[int, Any], settings: Mapping[str, Any], budget: Mapping[str, str]) -> Any:
        """The request of all of them. Error: DP003."""
        ...

    def parts(self, answer: Mapping[str, Any]) -> Iterator[tuple[QueryBlock, dict[str, Any]]]:
        """Each of them, and what it would have been answered alone."""
        ...


@dataclass
class QueryBlock:
    """The aggregate core of a SELECT over protected relations: FROM, WHERE, GROUP BY, every distinct aggregate.

    slot: the derived table that now stands in FROM. leaves: the relations, joined by ons (one each; the first's is
    None). keys, where: resolved expressions. core: the block's own SQL, for types that are not fixed; inputs: for each
    key that is an expression, by its number, SQL for the types of the columns in it. bars: columns of bounds behind the
    aggregates; types: of the aggregates, once the facade was asked. source: the client's whole text, while it is the
    text that an error's position is shown in. workload: of an arm of a UNION ALL, the arms that it may be asked with.
    """

    number: int
    slot: Any
    leaves: tuple[Leaf, ...]
    ons: tuple[Any, ...]
    where: Any
    keys: tuple[Any, ...]
    aggregates: tuple[Aggregate, ...]
    core: str
    grouped: bool
    inputs: Mapping[int, str] = field(default_factory=dict)
    bars: list[Bar] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    source: str | None = None
    running: tuple[Running, ...] = ()
    workload: Arms | None = field(default=None, repr=False, compare=False)
    _numbers: frozenset[int] | None = None
    _request: dict[str, Any] | None = None

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
        if self._numbers is None:
            self._numbers = parameters_in(self._nodes())
        return self._numbers

    def known(self, settings: Mapping[str, Any]) -> dict[str, Any] | None:
        """The request of a block without parameters that was printed before."""
        return None if self._request is None else {**self._request, "settings": dict(settings)}

    def print(self) -> None:
        """Make the request that `known` gives, if the block has no parameters. Error: DP003."""
        if not self.parameters():
            self._request = self.request({}, {})

    def literal(self) -> bool:
        """Whether a text constant of the client's stands in the core: session settings may change what it means."""
        texts = (n for n in walk(self._nodes()) if isinstance(n, ast.A_Const) and isinstance(n.val, ast.String))
        return next(texts, None) is not None

    def _nodes(self) -> tuple[Any, ...]:
        inner = (node for aggregate in self.aggregates for node in aggregate.nodes)
        return tuple(node for node in (self.where, *self.ons, *self.keys, *inner) if node is not None)

    def request(self, constants: Mapping[int, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
        """The canonical request (internals.md §1); constants: typed constant nodes by parameter number."""
        several = len(self.leaves) > 1

        def text(node: Any) -> str:
            typed = substitute(node, lambda item: _constant(item, constants))
            return expression_text(typed if several else bare_columns(typed))

        first, *others = self.leaves
        alias = first.node.alias.aliasname if first.node.alias is not None else None
        request: dict[str, Any] = {
            "version": 1,
            "from": _named(first.relation, first.name if several else alias),
            "where": None if self.where is None else text(self.where),
            "keys": [text(key) for key in self.keys],
            "aggregates": [
                request_of(aggregate, text, lambda node: constants[node.number or 0]) for aggregate in self.aggregates
            ],
            "budget": None,
            "mechanism": None,
            "fresh": False,
            "settings": dict(settings),
        }
        if others:
            request["joins"] = [
                {**_named(leaf.relation, leaf.name), "on": None if on is None else text(on)}
                for leaf, on in zip(others, self.ons[1:], strict=True)
            ]
        if self.bars:
            request["bars"] = True
        if self.running:
            request["running"] = [asdict(one) for one in self.running]
        return request

    def beyond_one(self) -> int | None:
        """Where in `source` more than a number of one relation is asked for: the first key, or the second relation."""
        more = self.keys or tuple(leaf.node for leaf in self.leaves[1:])
        return location(more) if self.source is not None else None

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

    free: a dry run, which asks for the public facts of its request and charges nothing. asked: our own query
    for the value of a call that has no request; `evaluate` then gives its argument. queries: some arguments are
    sub-queries.
    """

    number: int
    slot: Any
    function: str
    evaluate: Any
    sql: str
    free: bool = False
    asked: str | None = None
    queries: bool = False

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


class EmptyBlock(ViewBlock):
    """A protected relation in a part of the statement that reads no row (unread.py): its columns, and nothing else."""


Block = QueryBlock | CallBlock | ViewBlock


@dataclass
class Compiled:
    """A statement whose blocks have been cut out. node: the changed tree, complete once every slot is filled.

    guarded: operations on released values give NULL where they have no value (undefined.py).
    """

    node: Any
    blocks: list[Block] = field(default_factory=list)
    guarded: bool = False


def view_block(number: int, slot: Any, relation: Relation) -> ViewBlock:
    """The block of a view of schema dp."""
    columns = [quote_identifier(name) for name in relation.columns]
    texts = ", ".join(f"{name}::pg_catalog.text" for name in columns)
    return ViewBlock(number, slot, relation, f"SELECT {texts} FROM {_quoted(relation)}", _shape(relation))


def empty_block(number: int, slot: Any, relation: Relation) -> EmptyBlock:
    """The block of a relation that is not read."""
    return EmptyBlock(number, slot, relation, "", _shape(relation))


def _shape(relation: Relation) -> str:
    """A query that is described for the types of the relation's columns, and never run."""
    return f"SELECT {', '.join(quote_identifier(name) for name in relation.columns)} FROM {_quoted(relation)}"


def _quoted(relation: Relation) -> str:
    return f"{quote_identifier(relation.schema)}.{quote_identifier(relation.name)}"


def parameters_in(value: Any) -> frozenset[int]:
    """Numbers of all $n under `value`."""
    return frozenset(node.number or 0 for node in walk(value) if isinstance(node, ast.ParamRef))


def _constant(node: Any, constants: Mapping[int, Any]) -> Any:
    """Parameters become constants."""
    if isinstance(node, ast.ParamRef):
        return constants[node.number or 0]
    if isinstance(node, ast.A_Expr) and node.kind == enums.A_Expr_Kind.AEXPR_IN:
        return _integers(node, constants)
    if isinstance(node, ast.TypeCast) and isinstance(node.arg, ast.ParamRef):
        typed = constants[node.arg.number or 0]
        return typed if _same_type(node.typeName, typed.typeName) else None
    return None


def _integers(node: Any, constants: Mapping[int, Any]) -> Any:
    """A list of integer parameters as plain numbers, which mean the same in it and are read in a fifth of the time."""
    items = [constants[item.number or 0] for item in node.rexpr if isinstance(item, ast.ParamRef)]
    if len(items) < len(node.rexpr) or not all(strings(one.typeName.names)[-1] in _INTEGERS for one in items):
        return None
    values = [one.arg.val.sval if one.arg.val is not None else "" for one in items]
    if not all(-(2**31) < int(value or 2**31) < 2**31 for value in values):
        return None
    numbers = tuple(ast.A_Const(isnull=False, val=ast.Integer(ival=int(value))) for value in values)
    left = substitute(node.lexpr, lambda item: _constant(item, constants))
    return ast.A_Expr(kind=node.kind, name=node.name, lexpr=left, rexpr=numbers)


def _named(relation: Relation, alias: str | None) -> dict[str, Any]:
    return {"schema": relation.schema, "name": relation.name, "alias": alias}


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
