"""GROUP BY, and SELECT DISTINCT over declared domains: the block's keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pg_epsilon.query.parse import ast, enums

from ..session.rewriting import Refusal
from . import refusals
from .frames import Frame
from .positions import location
from .resolve import Resolver
from .tree import function_name, kind, sql_text, strings, walk

_KEYS = "group by columns with a declared domain, or by expressions over them, for example date_trunc('month', day)"
_SETS = "write one query for each grouping, joined by UNION ALL"
_CONSTANT = "leave it out: it is the same in every group"
# Calls whose declared domain the engine derives: SELECT DISTINCT of one is a key, of others an expression over keys.
_DECLARED = frozenset({"date_bin", "date_trunc", "date_part", "extract", "timezone", "width_bucket"})
_EXPRESSIONS = ("CaseExpr", "CoalesceExpr", "BoolExpr", "NullTest", "BooleanTest")


class Keys:
    """The keys of one block, by their resolved text, in order."""

    def __init__(self, resolver: Resolver, frame: Frame, shown: str, at: Any) -> None:
        self._resolver = resolver
        self._frame = frame
        self._shown = shown
        self._at = at
        self._found: dict[str, tuple[int, Any]] = {}
        self._kinds: set[str] = set()

    def __len__(self) -> int:
        return len(self._found)

    @property
    def expressions(self) -> tuple[Any, ...]:
        """The keys, resolved, in order."""
        return tuple(node for _, node in self._found.values())

    def find(self, select: Any, aggregated: bool, raw: Callable[[Any], Refusal]) -> bool:
        """Fill the keys; true if grouped, as SELECT DISTINCT without aggregates is (14.12). raw: its refusal."""
        grouped = False
        for item in select.groupClause or ():
            for expression in self._unpack(item):
                grouped = True
                self._add(self._group_expression(expression, select), expression)
        if select.groupClause or aggregated or not select.distinctClause:
            return grouped
        for target in select.targetList or ():
            for node in self._distinct(target.val):
                if isinstance(node, ast.ColumnRef) and strings(node.fields)[-1] == "*":
                    raise raw(node)
                self._add(node, node)
        return True

    def position(self, node: Any) -> int | None:
        """The number of the key that `node`, as the client wrote it, is; None if it is none."""
        if isinstance(node, ast.ColumnRef):
            meaning = self._resolver.meaning(node)
        elif kind(node) in self._kinds:
            try:
                meaning = self._resolver.resolve(node, "GROUP BY")
            except Refusal:
                return None
        else:
            return None
        found = None if meaning is None else self._found.get(sql_text(meaning))
        return None if found is None else found[0]

    def _unpack(self, item: Any) -> Iterator[Any]:
        """GROUP BY (a, b) is GROUP BY a, b; ROW(a, b) is not; () is no key."""
        if isinstance(item, ast.GroupingSet):
            if item.kind == enums.GroupingSetKind.GROUPING_SET_EMPTY:
                return
            raise self._part(f"GROUP BY {short(item)}", _SETS, item)
        if isinstance(item, ast.RowExpr) and item.row_format == enums.CoercionForm.COERCE_IMPLICIT_CAST:
            yield from item.args or ()
        else:
            yield item

    def _group_expression(self, expression: Any, select: Any) -> Any:
        """GROUP BY n is the nth target; a bare name is a column if there is one, else an output name."""
        targets = select.targetList or ()
        if isinstance(expression, ast.A_Const) and isinstance(expression.val, ast.Integer):
            ordinal = expression.val.ival or 0
            if not 1 <= ordinal <= len(targets):
                raise self._part(f"GROUP BY {ordinal}", _KEYS, select.groupClause)
            return targets[ordinal - 1].val
        name = bare(expression)
        if name is not None and not self._frame.visible(name):
            for target in targets:
                if target.name == name:
                    return target.val
        return expression

    def _distinct(self, value: Any) -> Iterator[Any]:
        """What of a target of SELECT DISTINCT is a key: all of it if that has a domain of its own, else its columns."""
        stop = lambda item: isinstance(item, ast.SubLink)  # noqa: E731
        nodes = list(walk(value, stop=stop))
        calls = [function_name(node)[-1] for node in nodes if isinstance(node, ast.FuncCall)]
        own = kind(value) in _EXPRESSIONS or (isinstance(value, ast.FuncCall) and calls[0] in _DECLARED)
        columns = [node for node in nodes if isinstance(node, ast.ColumnRef)]
        if own and columns and all(name in _DECLARED for name in calls):
            yield value
        else:
            yield from columns

    def _add(self, expression: Any, at: Any) -> None:
        meaning = self._resolver.meaning(expression)
        if meaning is None:
            if isinstance(expression, ast.ColumnRef | ast.RowExpr):
                raise self._part(f"GROUP BY {short(expression)}", _KEYS, at)
            meaning = self._resolver.resolve(expression, "GROUP BY")
            self._kinds.add(kind(expression))
        if not any(isinstance(node, ast.ColumnRef) for node in walk(meaning)):
            raise self._part(f"GROUP BY {short(expression)}", _CONSTANT, at)
        self._found.setdefault(sql_text(meaning), (len(self._found) + 1, meaning))

    def _part(self, what: str, hint: str, at: Any) -> Refusal:
        return refusals.part(what, self._shown, hint, at if location(at) is not None else self._at)


def bare(node: Any) -> str | None:
    """The name of an unqualified column reference."""
    names = strings(node.fields) if isinstance(node, ast.ColumnRef) else ()
    return names[0] if len(names) == 1 and names[0] != "*" else None


def short(node: Any) -> str:
    """The start of a node's text."""
    text = sql_text(node)
    return text if len(text) <= 60 else text[:57] + "..."
