"""A question's FROM and WHERE → what query/sizes.py bounds: widths of rows, unique keys, declared rows per value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pg_epsilon.query.classes import Classes, Instance, Node
from pg_epsilon.query.policy import Policy
from pg_epsilon.query.schema import Column, Relation
from pg_epsilon.query.sizes import Join, Table

_WIDTHS = {"boolean": 1, "smallint": 2, "integer": 4, "real": 4, "date": 4, "numeric": 24, "uuid": 16, "interval": 16}
_WIDTHS |= {"bigint": 8, "double precision": 8, "timestamp without time zone": 8, "timestamp with time zone": 8}
_UNKNOWN = 64  # bytes that a value counts for where neither type nor declaration says how long it may be
_LENGTH = frozenset({"character varying", "character"})


@dataclass(frozen=True)
class Member:
    """An occurrence in FROM: what its owner declared of its size. caps: column → rows that share a value at most."""

    alias: str
    name: str
    rows: int | None
    width: int
    unique: tuple[tuple[str, ...], ...]
    caps: Mapping[str, int]


def member(alias: str, relation: Relation, policy: Policy | None) -> Member:
    """A protected relation, or a public one (policy None)."""
    caps: dict[str, int] = {}
    for name, column in relation.columns.items():
        if column.policy is not None and column.policy.max_rows_per_value is not None:
            caps[name] = column.policy.max_rows_per_value
    if policy is not None and policy.max_rows_per_unit is not None:
        # rows that share the first column of the way to a unit share the unit
        first = policy.unit_path[0].column if policy.unit_path else policy.unit_column
        for unit in (first, *policy.other_units):
            if unit is not None:
                caps[unit] = min(caps.get(unit, policy.max_rows_per_unit), policy.max_rows_per_unit)
    rows = policy.max_rows if policy is not None else None
    return Member(alias, relation.qualified, rows, width(relation), relation.unique, caps)


def step(alias: str, name: str, unique: str) -> Member:
    """A relation on the way to a unit: one row at most for each that leads to it."""
    return Member(alias, name, None, _UNKNOWN, ((unique,),), {})


def width(relation: Relation) -> int:
    """Bytes of a row's columns: by type, length or declared domain; an unbounded text counts for 64."""
    return sum(map(_width, relation.columns.values()))


def _width(column: Column) -> int:
    if (known := _WIDTHS.get(column.type_name)) is not None:
        return known
    if column.enum_labels is not None:
        return 4
    if column.type_name in _LENGTH and column.typmod > 4:
        return 4 * (column.typmod - 4) + 4
    if column.policy is not None and column.policy.domain:
        return 4 + max(len(value.encode()) for value in column.policy.domain)
    return _UNKNOWN


def join_of(
    members: Sequence[Member],
    equalities: Iterable[tuple[Node, Node]],
    constants: Iterable[Node],
    named: Iterable[frozenset[str]],
) -> Join:
    """The join of `members`: columns that equalities chain, columns that are constants, aliases that a condition names.

    Equalities count only as far as they chain by themselves: what unique keys make equal in the whole may not be equal
    yet where fewer relations are joined.
    """
    chained = Classes([Instance(one.alias, one.alias, ()) for one in members])
    nodes: dict[Node, None] = {}
    for left, right in equalities:
        chained.union(left, right)
        nodes.update({left: None, right: None})
    fixed_nodes = list(constants)
    nodes.update(dict.fromkeys(fixed_nodes))
    numbers: dict[Node, int] = {}
    classes = {node: numbers.setdefault(chained.find(node), len(numbers)) for node in nodes}
    places = {one.alias: place for place, one in enumerate(members)}
    return Join(
        tuple(_table(one, classes) for one in members),
        tuple(frozenset(places[alias] for alias in names) for names in named if len(names) > 1),
        frozenset(classes[node] for node in fixed_nodes),
    )


def _table(one: Member, classes: Mapping[Node, int]) -> Table:
    columns = {column: c for (alias, column), c in classes.items() if alias == one.alias}
    keys = tuple(
        frozenset(columns[column] for column in key) for key in one.unique if key and all(c in columns for c in key)
    )
    caps: dict[int, int] = {}
    for column, cap in one.caps.items():
        if column in columns:
            caps[columns[column]] = min(cap, caps.get(columns[column], cap))
    return Table(one.name, one.rows, one.width, columns, keys, caps)
