"""Released values take the blocks' places (facade-and-channel.md §6, Splice), and the statement becomes text again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pg_epsilon.query.parse import ast

from . import refusals
from .blocks import CallBlock, Compiled
from .tree import quote_identifier, statement, statement_text, walk

# Their text output is not their JSON form: declared text inside, cast outside.
_CAST_OUTSIDE = frozenset({"json", "jsonb"})


def values_sql(types: Sequence[str], parameter: str, names: Sequence[str] | None = None) -> str:
    """The derived table's query over one document. types: format_type texts, with COLLATE where not the default."""
    columns, definitions = [], []
    for index, kind in enumerate(types, 1):
        outside = kind in _CAST_OUTSIDE
        definitions.append(f"c{index} {'text' if outside else kind}")
        name = None if names is None else names[index - 1]
        shown = f"c{index}::pg_catalog.{kind}" if outside else f"c{index}"
        columns.append(f"{shown} AS {quote_identifier(name or f'c{index}')}" if name or outside else shown)
    return f"SELECT {', '.join(columns)} FROM pg_catalog.jsonb_to_recordset({parameter}) AS t({', '.join(definitions)})"


def fill(
    compiled: Compiled, types: Mapping[int, Sequence[str]], names: Mapping[int, Sequence[str]], offset: int
) -> None:
    """Put the values of block n behind parameter $(offset + n). names: the columns of view blocks."""
    for block in compiled.blocks:
        parameter = f"${offset + block.number}"
        if isinstance(block, CallBlock):
            block.slot.args = (statement(f"SELECT {parameter}::pg_catalog.jsonb").targetList[0].val,)
        else:
            block.slot.subquery = statement(values_sql(types[block.number], parameter, names.get(block.number)))


def with_literals(node: Any, numbers: Mapping[int, str]) -> str:
    """The statement's text with marks (unguessable words) where the documents' parameters stand: see `splice`."""
    undo: list[tuple[Any, Any]] = []
    _mark(node, numbers, undo)
    try:
        return statement_text(node)
    finally:
        for call, args in undo:
            call.args = args


def splice(text: str, documents: Mapping[str, str]) -> str:
    """Replace each mark by its document as a dollar-quoted jsonb literal. Documents are ASCII and hold no `$`."""
    for mark, document in documents.items():
        text = text.replace(f"'{mark}'", f"$pge${document}$pge$")
    return text


def _mark(node: Any, numbers: Mapping[int, str], undo: list[tuple[Any, Any]]) -> None:
    for call in list(walk(node)):
        if isinstance(call, ast.FuncCall) and call.args and len(call.args) == 1:
            argument = call.args[0]
            inner = argument.arg if isinstance(argument, ast.TypeCast) else argument
            if isinstance(inner, ast.ParamRef) and (inner.number or 0) in numbers:
                literal = statement(f"SELECT '{numbers[inner.number or 0]}'::pg_catalog.jsonb").targetList[0].val
                undo.append((call, call.args))
                call.args = (literal,)


def document(rows: Sequence[Sequence[str | None]]) -> str:
    """Rows as a JSON array of {"c1": ...} objects: every value a string or null, ASCII, no dollar sign."""
    for row in rows:
        if not all(value is None or isinstance(value, str) for value in row):
            raise refusals.broken("a value that is not text")
    objects = [{f"c{index}": value for index, value in enumerate(row, 1)} for row in rows]
    return encode(objects)


def encode(value: Any) -> str:
    """`value` as JSON that no client_encoding, standard_conforming_strings or dollar quote can touch."""
    return json.dumps(value, ensure_ascii=True, separators=(", ", ": ")).replace("$", "\\u0024")
