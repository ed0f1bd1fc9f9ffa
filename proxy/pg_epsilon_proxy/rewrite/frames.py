"""What column names mean inside a block: every visible column, as an expression over the block's relations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pg_epsilon.query.parse import ast

from .names import PUBLIC, Relation
from .tree import column, strings, substitute, walk


@dataclass(frozen=True)
class Leaf:
    """A relation of a block. name: unique in the block; node: the RangeVar that the client, or a view, wrote."""

    relation: Relation
    name: str
    node: Any

    @property
    def public(self) -> bool:
        return self.relation.role == PUBLIC


@dataclass(frozen=True)
class Item:
    """A FROM item by name. qualifiers: what may stand before its columns; columns: in order, as expressions."""

    qualifiers: tuple[tuple[str, ...], ...]
    columns: tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Frame:
    """What a FROM clause shows. columns: those of `*`, in order; several of one name are ambiguous."""

    items: tuple[Item, ...] = ()
    columns: tuple[tuple[str, Any], ...] = ()
    _index: dict[str, list[Any]] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        for name, expression in self.columns:
            self._index.setdefault(name, []).append(expression)

    def plus(self, other: Frame) -> Frame:
        return Frame(self.items + other.items, self.columns + other.columns)

    def find(self, names: Sequence[str]) -> Any:
        """The expression that a column reference means; None: not one column of this frame."""
        *qualifier, name = names
        if not qualifier:
            found = self._index.get(name, [])
            return found[0] if len(found) == 1 else None
        for item in self.items:
            if tuple(qualifier) in item.qualifiers:
                matching = [expression for known, expression in item.columns if known == name]
                return matching[0] if len(matching) == 1 else None
        return None

    def star(self, qualifier: Sequence[str]) -> tuple[tuple[str, Any], ...] | None:
        """The columns of `*`, or of `qualifier.*`."""
        if not qualifier:
            return self.columns
        return next((item.columns for item in self.items if tuple(qualifier) in item.qualifiers), None)

    def visible(self, name: str) -> bool:
        """Whether the bare name is a column here (an ambiguous one is)."""
        return name in self._index

    def qualifies(self, names: Iterable[str]) -> bool:
        """Whether the names may stand before a column here."""
        return any(tuple(names) in item.qualifiers for item in self.items)


def leaf_frame(leaf: Leaf) -> Frame:
    """What one relation shows, under its alias and column aliases if it has any."""
    node, relation = leaf.node, leaf.relation
    renamed = strings(node.alias.colnames) if node.alias is not None else ()
    shown = (*renamed, *relation.columns[len(renamed) :])
    columns = tuple(
        (name, column(leaf.name, own))
        for name, own in zip(shown[: len(relation.columns)], relation.columns, strict=True)
    )
    if node.alias is not None:
        qualifiers: tuple[tuple[str, ...], ...] = ((node.alias.aliasname,),)
    else:
        qualifiers = ((node.relname,), (relation.schema, relation.name))
    return Frame((Item(qualifiers, columns),), columns)


def renamed_frame(frame: Frame, alias: str | None, names: Sequence[str]) -> Frame:
    """What a derived table shows of its query's columns, under its alias and column names."""
    shown = (*names, *(name for name, _ in frame.columns[len(names) :]))
    columns = tuple((name, expression) for name, (_, expression) in zip(shown, frame.columns, strict=True))
    return Frame((Item(((alias,),) if alias is not None else (), columns),), columns)


def joined_frame(left: Frame, right: Frame, shared: Sequence[str]) -> Frame:
    """What JOIN ... USING (shared) shows: the shared columns once, first."""
    first = tuple((name, left.find((name,))) for name in shared)
    rest = tuple(item for item in (*left.columns, *right.columns) if item[0] not in shared)
    return Frame(left.items + right.items, first + rest)


def leaves_of(expression: Any) -> frozenset[str]:
    """Names of the block's relations that a resolved expression reads."""
    return frozenset(strings(node.fields)[0] for node in walk(expression) if isinstance(node, ast.ColumnRef))


def bare_columns(node: Any) -> Any:
    """A block of one relation needs no qualifiers (one cache key each), except inside its sub-queries."""

    def bare_column(item: Any) -> Any:
        if isinstance(item, ast.ColumnRef):
            return column(strings(item.fields)[-1])
        if isinstance(item, ast.SubLink):
            tested = None if item.testexpr is None else substitute(item.testexpr, bare_column)
            return ast.SubLink(
                subLinkType=item.subLinkType, subLinkId=0, testexpr=tested, subselect=item.subselect, location=-1
            )
        return None

    return substitute(node, bare_column)
