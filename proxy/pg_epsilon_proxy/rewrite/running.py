"""Running sums over a block's groups: sum(sum(x)) OVER (ORDER BY width_bucket(...)), also outside a derived table.

PostgreSQL adds the groups up, on the facade; what is found here only tells the engine which sums of groups are going to
be shown, so that it may draw noise that grows less with the number of groups (docs/internals.md §1, "running").
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pg_epsilon.query.parse import ast, enums

from .blocks import Block, QueryBlock, Running
from .colnames import column_name
from .tree import function_name, strings, walk

# Of gram.y's frameOptions: from the first row of the partition to the current one, in rows, ranges or groups.
_START, _END = 0x20, 0x400  # UNBOUNDED PRECEDING, CURRENT ROW
_ALLOWED = _START | _END | 0x1 | 0x2 | 0x4 | 0x8 | 0x10
_DIRECTIONS = {
    enums.SortByDir.SORTBY_DEFAULT: False,
    enums.SortByDir.SORTBY_ASC: False,
    enums.SortByDir.SORTBY_DESC: True,
}
_CALL = frozenset({"funcname", "args", "over", "funcformat", "location"})


@dataclass(frozen=True)
class Columns:
    """What names mean to a window. key, total: the number, from 0, of the block's key or sum that a node is."""

    keys: int
    key: Callable[[Any], int | None]
    total: Callable[[Any], int | None]


def found(select: Any, columns: Columns) -> tuple[Running, ...]:
    """The running sums that a SELECT shows, at most one for each sum."""
    places = (select.targetList, select.sortClause)
    calls = [(node, one) for node in _windows(places) if (one := _running(node, select, columns)) is not None]
    if not calls or select.havingClause:
        return ()  # HAVING drops groups before they are added up
    known = {id(node) for node, _ in calls}
    beside = walk(places, stop=lambda item: id(item) in known or isinstance(item, ast.SubLink))
    shown = {columns.total(node) for node in beside if id(node) not in known}
    different = set(dict.fromkeys(one for _, one in calls))
    single = [one for one in different if sum(other.aggregate == one.aggregate for other in different) == 1]
    return tuple(sorted((replace(one, alone=one.aggregate in shown) for one in single), key=lambda one: one.aggregate))


def find(node: Any, blocks: Sequence[Block]) -> None:
    """Note the running sums that a SELECT shows of the groups of a derived table or CTE (`QueryBlock.running`)."""
    by_slot = {id(b.slot): b for b in blocks if isinstance(b, QueryBlock) and b.keys and not b.running}
    for select in walk(node) if by_slot else ():
        if isinstance(select, ast.SelectStmt) and any(True for _ in _windows((select.targetList, select.sortClause))):
            inner = _inner(select)
            block = None if inner is None else by_slot.get(id((inner[0].fromClause or (None,))[0]))
            if inner is not None and block is not None:
                block.running = found(select, _outer_columns(inner[0], inner[1], block))


def _windows(places: Any) -> Iterator[Any]:
    for node in walk(places, stop=lambda item: isinstance(item, ast.SubLink)):
        if isinstance(node, ast.FuncCall) and node.over is not None:
            yield node


def _running(call: Any, select: Any, columns: Columns) -> Running | None:
    if function_name(call)[-1] != "sum" or any(slot not in _CALL and getattr(call, slot) for slot in call):
        return None
    window = _window(call.over, select)
    if len(call.args or ()) != 1 or window is None or len(window.orderClause or ()) != 1:
        return None
    (order,) = window.orderClause
    frame = int(window.frameOptions or 0)
    whole = frame & _START and frame & _END and not frame & ~_ALLOWED
    total, key = columns.total(call.args[0]), columns.key(order.node)
    parts = {columns.key(node) for node in window.partitionClause or ()}
    plain = order.sortby_nulls == enums.SortByNulls.SORTBY_NULLS_DEFAULT and order.sortby_dir in _DIRECTIONS
    if not whole or not plain or total is None or key is None or parts != set(range(columns.keys)) - {key}:
        return None
    return Running(total, key, _DIRECTIONS[order.sortby_dir], False)


def _window(over: Any, select: Any) -> Any:
    """The window's definition, in its place or named in WINDOW; None for one that extends another."""
    if over.name is not None:
        over = next((one for one in select.windowClause or () if one.name == over.name), None)
    return None if over is None or over.refname is not None else over


def _inner(select: Any) -> tuple[Any, tuple[str, ...]] | None:
    """The query behind the one FROM item, whose rows are all kept, and the names that the item gives its columns."""
    (item,) = select.fromClause if len(select.fromClause or ()) == 1 else (None,)
    if select.groupClause or select.whereClause or item is None:
        return None
    names = strings(item.alias.colnames) if getattr(item, "alias", None) is not None else ()
    query = item.subquery if isinstance(item, ast.RangeSubselect) else None
    if isinstance(item, ast.RangeVar) and item.schemaname is None and select.withClause is not None:
        for cte in select.withClause.ctes or ():
            if cte.ctename == item.relname:
                query, names = cte.ctequery, names or strings(cte.aliascolnames)
    if not isinstance(query, ast.SelectStmt) or query.whereClause or query.limitCount or query.limitOffset:
        return None
    return None if query.distinctClause else (query, names)


def _outer_columns(inner: Any, names: tuple[str, ...], block: QueryBlock) -> Columns:
    places: dict[str, int] = {}
    for number, target in enumerate(inner.targetList or ()):
        name = names[number] if number < len(names) else target.name or column_name(target.val)
        own = strings(target.val.fields) if isinstance(target.val, ast.ColumnRef) else ()
        if len(own) == 2 and own[1][:1] == "c" and own[1][1:].isdigit():  # the block's column, as the compiler names it
            places[name or ""] = int(own[1][1:]) - 1
    return Columns(
        len(block.keys),
        lambda node: _at(node, places, range(len(block.keys))),
        lambda node: _sum_of(_at(node, places, range(len(block.keys), block.width)), block),
    )


def _at(node: Any, places: Mapping[str, int], wanted: range) -> int | None:
    place = places.get(strings(node.fields)[-1]) if isinstance(node, ast.ColumnRef) else None
    return place if place is not None and place in wanted else None


def _sum_of(place: int | None, block: QueryBlock) -> int | None:
    number = None if place is None else place - len(block.keys)
    return number if number is not None and block.aggregates[number].function == "sum" else None
