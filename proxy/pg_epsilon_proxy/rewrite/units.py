"""One statement ready to be answered: its text, and what must be asked of the private database before it runs."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pg_epsilon.query.parse import ast

from ..session.refusals import literal
from ..session.rewriting import JSONB_OID, Described, Field, Made, Refusal
from . import refusals
from .blocks import Block, Compiled
from .explain import COLUMN, FORMATS
from .names import Names, Relation, RelationName
from .probes import Settings, as_arrays, as_json
from .scope import Candidates
from .splice import fill, with_parameters
from .tree import expression_text, quote_identifier, quote_literal, statement, statement_text

# PostgreSQL's limit on parameters of one statement.
MAX_PARAMETERS = 65_535


@dataclass
class Unit:
    """One statement of a message.

    text: with $n documents; template: with marks in their place; marks: in the order in which documents come.
    shown: what EXPLAIN prints as the outer statement; oids, types: of the client's parameters; explained: EXPLAIN's
    format, if it is one; note: the name that PREPARE takes, and for what; execute: of an EXECUTE, whose other fields
    are those of the statement that it runs; refusal: what it raises.
    meaning: what must still hold when it runs. settings: the session's, if it was planned to run at once, once.
    refused: what a run is answered, though it may be described. keeps: see rehearse.py; alone: in its message.
    guarded: see blocks.Compiled.
    """

    text: str
    template: str = ""
    shown: str = ""
    marks: list[str] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    oids: list[int] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    fields: Sequence[Field] | None = None
    literal: bool = False
    explained: str | None = None
    note: tuple[str, Made] | None = None
    execute: Execution | None = None
    refusal: Refusal | None = None
    meaning: Meaning | None = None
    settings: Settings | None = None
    refused: Refusal | None = None
    keeps: bool = False
    alone: bool = True
    guarded: bool = False

    @property
    def documents(self) -> int:
        """How many documents its run gives."""
        return len(self.marks)


@dataclass(frozen=True)
class Meaning:
    """What a statement was planned under: a change of these settings may change what it asks.

    styles: of constants; path: search_path; candidates, relations: the names that were resolved in it.
    """

    styles: tuple[str | None, ...]
    path: str | None
    candidates: Candidates
    relations: Mapping[RelationName, Relation]
    names: Names


@dataclass
class Execution:
    """How a prepared statement is executed by SQL. evaluate: one query for all arguments, which are then kept as text;
    held: the rewritten statement's name, of a simple Query."""

    evaluate: str | None = None
    arguments: list[str | None] = field(default_factory=list)
    held: str = ""


def mark() -> str:
    """A word that no statement contains."""
    return "pge_" + secrets.token_hex(16)


def spliced(
    compiled: Compiled,
    types: Mapping[int, Sequence[str]],
    names: Mapping[int, Sequence[str]],
    oids: Sequence[int],
) -> Unit:
    """A statement with its blocks cut out and documents put in: document n is parameter len(oids) + n."""
    offset = len(oids)
    if offset + len(compiled.blocks) > MAX_PARAMETERS:
        raise refusals.shape("too many parameters", "use fewer parameters or fewer queries in one statement")
    marks = {block.number: mark() for block in compiled.blocks}
    fill(compiled, types, names, marks)
    template = statement_text(compiled.node)
    return Unit(
        text=with_parameters(template, {word: offset + number for number, word in marks.items()}),
        template=template,
        marks=list(marks.values()),
        blocks=list(compiled.blocks),
        oids=list(oids),
        guarded=compiled.guarded,
    )


def again(unit: Unit) -> Unit:
    """A copy of what `spliced` made, for another run of the same statement: its marks are its own."""
    marks, template = [mark() for _ in unit.marks], unit.template
    for before, after in zip(unit.marks, marks, strict=True):
        template = template.replace(before, after)
    return replace(unit, template=template, marks=marks, blocks=list(unit.blocks), oids=list(unit.oids))


def explained(outer: Unit, form: str, number: int) -> Unit:
    """EXPLAIN: the statement is never run; one document holds the lines. number: of its parameter."""
    shown = quote_identifier(COLUMN)
    kind = FORMATS[form]
    word = mark()
    # One shape for all formats: the text is cast outside where the client expects json or xml.
    rows = "pg_catalog.jsonb_to_recordset({}) AS t(c1 pg_catalog.text)"
    query = f"SELECT t.c1::pg_catalog.{kind} AS {shown} FROM {rows}"
    return Unit(
        text=query.format(f"${number}"),
        template=query.format(f"'{word}'::pg_catalog.jsonb"),
        marks=[word],
        blocks=outer.blocks,
        oids=outer.oids,
        types=outer.types,
        explained=form,
        shown=outer.text,
        literal=outer.literal,
        meaning=outer.meaning,
        guarded=outer.guarded,
    )


def prepared(name: str, text: str, body: Unit) -> Unit:
    """PREPARE: the facade keeps the client's own text, whose blocks are found again at every EXECUTE or Bind."""
    return Unit(text=text, template=text, note=(name, Made(text, by_sql=True, meaning=body.meaning)))


def execution(body: Unit, arguments: Sequence[Any]) -> Unit:
    """An EXECUTE with these argument nodes: they are evaluated once, first, as PostgreSQL does it."""
    if not body.types:
        return replace(body, execute=Execution())
    casts = [
        ast.TypeCast(arg=argument, typeName=statement(f"SELECT NULL::{kind}").targetList[0].val.typeName)
        for argument, kind in zip(arguments, body.types, strict=True)
    ]
    pairs = zip(casts, body.types, strict=True)
    return replace(body, execute=Execution(as_arrays([as_json(expression_text(cast), kind) for cast, kind in pairs])))


def executed(execution: Execution, documents: Sequence[str]) -> str:
    """The EXECUTE of what is held, with arguments and documents as literals."""
    values = [*map(literal, execution.arguments), *(f"$pge${document}$pge$" for document in documents)]
    return f"EXECUTE {execution.held}({', '.join(values)})"


def refused(text: str, described: Described, refusal: Refusal) -> Unit:
    """A statement that the facade may describe, and nobody may run."""
    oids = list(described.param_oids)
    return Unit(text=text, template=text, oids=oids, fields=described.fields, refused=refusal)


def raised(refusal: Refusal) -> str:
    """`SELECT dp.raise(...)`: the refusal of a later statement of a message, after the earlier ones ran."""
    parts = (refusal.sqlstate, refusal.message, refusal.detail, refusal.hint)
    return f"SELECT dp.raise({', '.join('NULL' if part is None else quote_literal(part) for part in parts)})"


def parameter_oids(unit: Unit) -> list[int]:
    """OIDs of the rewritten text's parameters: the client's, then jsonb for each document."""
    return [*unit.oids, *(JSONB_OID for _ in unit.marks)]
