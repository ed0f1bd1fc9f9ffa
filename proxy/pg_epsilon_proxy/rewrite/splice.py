"""Released values take the blocks' places (facade-and-channel.md §6, Splice), and the statement becomes text again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from . import refusals
from .blocks import CallBlock, Compiled
from .tree import quote_identifier, statement

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
    compiled: Compiled, types: Mapping[int, Sequence[str]], names: Mapping[int, Sequence[str]], marks: Mapping[int, str]
) -> None:
    """Put the values of block n behind a jsonb constant that holds marks[n]. names: the columns of view blocks."""
    for block in compiled.blocks:
        constant = f"'{marks[block.number]}'::pg_catalog.jsonb"
        if isinstance(block, CallBlock):
            block.slot.args = (statement(f"SELECT {constant}").targetList[0].val, *(block.slot.args or ()))
        else:
            block.slot.subquery = statement(values_sql(types[block.number], constant, names.get(block.number)))


def with_parameters(template: str, parameters: Mapping[str, int]) -> str:
    """The template with $n where the mark of n stands. Marks are words that no statement contains."""
    for mark, number in parameters.items():
        template = template.replace(f"CAST('{mark}' AS pg_catalog.jsonb)", f"${number}")
    return template


def splice(text: str, documents: Mapping[str, str]) -> str:
    """Replace each mark by its document as a dollar-quoted jsonb literal. Documents are ASCII and hold no `$`."""
    for mark, document in documents.items():
        text = text.replace(f"'{mark}'", f"$pge${document}$pge$")
    return text


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
