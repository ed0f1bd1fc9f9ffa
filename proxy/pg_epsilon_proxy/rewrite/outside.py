"""What stands beside a block: expressions over its released values, and sub-queries that must not reach into it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from pg_epsilon.query.parse import ast

from ..session.rewriting import Refusal
from . import refusals
from .bars import BARS, INSTEAD, Bar
from .env import Env, Reader
from .scope import dp_function
from .tree import column, kind, replace, replace_children, strings, walk

_COLUMNS = "add the column to GROUP BY, or use it inside an aggregate or in WHERE"
_CORRELATED = (
    "write the sub-query's own columns with its table's name before them, as in t.x; a query over protected data "
    "cannot be correlated"
)
_AGGREGATES = "use the plain aggregates, one query for each grouping"
# Aggregates, and a function of grouping sets, that the grammar does not write as function calls.
_NOT_OUTSIDE = {"GroupingFunc": "GROUPING()", "JsonObjectAgg": "JSON_OBJECTAGG()", "JsonArrayAgg": "JSON_ARRAYAGG()"}


class Core(Protocol):
    """The block, as its surroundings see it (select.py)."""

    @property
    def reader(self) -> Reader: ...

    def position(self, node: Any) -> int | None: ...

    def aggregate(self, call: Any) -> int: ...

    def width(self) -> int: ...

    def hides(self, names: tuple[str, ...]) -> bool: ...

    def compile_outside(self, node: Any, env: Env) -> Any: ...

    def part(self, what: str, hint: str, at: Any) -> Refusal: ...


class Outside:
    """Rewrites an expression that stays outside: keys, aggregates and their bars become columns of the released values.

    bars: the error bars met so far, in the order of their columns.
    """

    def __init__(self, block: Core, env: Env, alias: str) -> None:
        self._block = block
        self._env = env
        self._alias = alias
        self.bars: list[Bar] = []

    def __call__(self, node: Any) -> Any:
        position = self._block.position(node)
        if position is not None:
            # Qualified, so that ORDER BY never takes it for an output name.
            return column(self._alias, f"c{position}")
        if isinstance(node, ast.ColumnRef):
            # An outer reference, or a column that depends on a key.
            raise self._block.part(f"column {'.'.join(strings(node.fields))} outside an aggregate", _COLUMNS, node)
        if kind(node) in _NOT_OUTSIDE:
            raise refusals.shape(f"{_NOT_OUTSIDE[kind(node)]} is not supported over protected data", _AGGREGATES, node)
        name = dp_function(node, self._block.reader.facts.functions) if isinstance(node, ast.FuncCall) else None
        if name in BARS:
            return self._bar(node, name or "")
        if name is not None:
            return self._block.compile_outside(node, self._env)
        if isinstance(node, ast.SubLink):
            self._check_uncorrelated(node)
            node.testexpr = replace(node.testexpr, self)
            node.subselect = self._block.compile_outside(node.subselect, self._env)
            return node
        replace_children(node, self)
        return node

    def _bar(self, node: Any, name: str) -> Any:
        arguments: tuple[Any, ...] = node.args or ()
        plain = len(arguments) == 1 and not (node.agg_filter or node.agg_distinct or node.agg_order or node.over)
        if not plain or not self._block.reader.is_aggregate(arguments[0]):
            raise refusals.shape(f"{name}() takes one aggregate", INSTEAD, node)
        bar = Bar(self._block.aggregate(arguments[0]) - 1, BARS[name])
        if bar not in self.bars:
            self.bars.append(bar)
        return column(self._alias, f"c{self._block.width() + 1 + self.bars.index(bar)}")

    def _check_uncorrelated(self, sublink: Any) -> None:
        """No name in a sub-query beside the block may be the block's: PostgreSQL would have taken it from here."""
        for node in self._foreign_columns(sublink.subselect):
            names = strings(node.fields)
            if self._block.hides(names) or (len(names) == 1 and _looks_ours(names[0])):
                shown = ".".join(names)
                raise self._block.part(f"{shown} in a sub-query beside the aggregates", _CORRELATED, node)

    def _foreign_columns(self, value: Any) -> Iterator[Any]:
        """Column references below `value` but not at the level of another block, where each is proved to be its own."""
        if isinstance(value, tuple):
            for item in value:
                yield from self._foreign_columns(item)
        elif isinstance(value, ast.ColumnRef):
            yield value
        elif isinstance(value, ast.Node):
            if isinstance(value, ast.SelectStmt) and self._block.reader.source_reads(value, self._env):
                for link in walk(value, stop=lambda n: n is not value and isinstance(n, ast.SubLink)):
                    if isinstance(link, ast.SubLink):
                        yield from self._foreign_columns(link.subselect)
            else:
                for slot in value:
                    yield from self._foreign_columns(getattr(value, slot))


def _looks_ours(name: str) -> bool:
    return name[:1] == "c" and name[1:].isdigit()
