"""Walks over PostgreSQL parse trees that know nothing of privacy. Nodes are changed in place; lists are tuples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from pg_epsilon.query.parse import ast, children, deparse, parse_statements

from . import refusals

Node = Any


def is_node(value: Any) -> bool:
    """True for a parse tree node (not a tuple, enum, string or number)."""
    return isinstance(value, ast.Node)


def kind(node: Node) -> str:
    """The node's struct name, e.g. "SelectStmt"."""
    return type(node).__name__


def walk(value: Any, stop: Callable[[Node], bool] | None = None) -> Iterator[Node]:
    """Yield every node under `value`, itself first, depth first; where `stop` holds, the node but nothing below."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, tuple):
            pending.extend(reversed(item))
        elif is_node(item):
            yield item
            if stop is None or not stop(item):
                pending.extend(reversed(list(children(item))))


def replace_children(node: Node, function: Callable[[Node], Node], skip: frozenset[str] = frozenset()) -> None:
    """Replace every direct child node c (through tuples) by function(c), in place."""
    for slot in node:
        if slot not in skip:
            before = getattr(node, slot)
            after = replace(before, function)
            if after is not before:
                setattr(node, slot, after)


def replace(value: Any, function: Callable[[Node], Node]) -> Any:
    """function(value) for a node, element by element for tuples, anything else unchanged."""
    if isinstance(value, tuple):
        items = tuple(replace(item, function) for item in value)
        return value if all(a is b for a, b in zip(items, value, strict=True)) else items
    return function(value) if is_node(value) else value


def substitute(node: Node, function: Callable[[Node], Node | None]) -> Node:
    """A copy of `node` in which every node for which function gives a node is replaced by it, top down."""
    new = function(node)
    if new is not None:
        return new
    # Not copy.deepcopy, and no pglast constructor: both take longer than all the rest of a rewrite.
    clone = object.__new__(type(node))
    for slot in node:
        object.__setattr__(clone, slot, _substituted(getattr(node, slot), function))
    return clone


def _substituted(value: Any, function: Callable[[Node], Node | None]) -> Any:
    if isinstance(value, tuple):
        return tuple(_substituted(item, function) for item in value)
    return substitute(value, function) if is_node(value) else value


def strings(names: Any) -> tuple[str, ...]:
    """The texts of a list of String nodes; a star is "*"."""
    return tuple((name.sval or "") if isinstance(name, ast.String) else "*" for name in names or ())


def function_name(call: Node) -> tuple[str, ...]:
    """A FuncCall's name as written, folded by PostgreSQL's own lexer: ("count",) or ("dp", "dp_count")."""
    return strings(call.funcname)


def column(*names: str) -> Node:
    """A ColumnRef, e.g. column("b1", "c1")."""
    return ast.ColumnRef(fields=tuple(ast.String(sval=name) for name in names))


def statement(sql: str) -> Node:
    """The tree of our own one-statement SQL text."""
    return parse_statements(sql)[0].stmt


def quote_literal(text: str) -> str:
    """`text` as a string constant, whatever standard_conforming_strings says."""
    quoted = text.replace("'", "''")
    return f"'{quoted}'" if "\\" not in text else " E'" + quoted.replace("\\", "\\\\") + "'"


def quote_identifier(name: str) -> str:
    """`name` always quoted."""
    return '"' + name.replace('"', '""') + '"'


def sql_text(node: Node) -> str:
    """SQL text of any node. Error: DP003 if the printer does not know it."""
    names = strings(node.fields) if isinstance(node, ast.ColumnRef) else ("*",)
    if "*" not in names:
        return _column_text(names)
    try:
        return deparse(node)
    except RecursionError:
        raise
    except Exception:
        raise refusals.shape("the statement cannot be rewritten", "write it in a simpler form") from None


def statement_text(node: Node) -> str:
    """SQL text that parses back to the same statement: a printer's bug must not change what is asked. DP003."""
    return _faithful(sql_text(node), node, lambda text: parse_statements(text)[0].stmt)


def expression_text(node: Node) -> str:
    """The same for an expression."""
    names = strings(node.fields) if isinstance(node, ast.ColumnRef) else ("*",)
    if "*" not in names:
        return _faithful_column(names)
    return _faithful(sql_text(node), node, lambda text: statement(f"SELECT {text}").targetList[0].val)


# Columns are most of what is printed, and a tenth of a millisecond each.
@lru_cache(maxsize=4096)
def _column_text(names: tuple[str, ...]) -> str:
    return deparse(column(*names))


@lru_cache(maxsize=4096)
def _faithful_column(names: tuple[str, ...]) -> str:
    text = _column_text(names)
    return _faithful(text, column(*names), lambda text: statement(f"SELECT {text}").targetList[0].val)


def _faithful(text: str, node: Node, parse: Callable[[str], Node]) -> str:
    if parse(text) != node:
        raise refusals.shape("the statement cannot be rewritten faithfully", "write it in a simpler form")
    return text
