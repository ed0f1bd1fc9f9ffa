"""Whether the facade would let a statement keep its answer, asked before it is paid for (composition.md §10.3 a).

PostgreSQL is asked itself, in the client's own session: it plans a write, with no rows in the blocks' places (EXPLAIN
checks the rights on the target), or makes the new table without data and takes it back. Where it would refuse, or skip
the statement, nothing is asked and nothing charged: the statement goes to the facade with documents that raise where
they are read, and its error is the one that PostgreSQL has for it, in its own place.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pg_epsilon.query.parse import ast

from ..session.rewriting import Probe, SessionIO
from .probes import constant
from .splice import splice
from .tree import kind, quote_identifier, quote_literal, statement, statement_text, substitute, walk

NOTHING = "[]"
# A document that raises where it is read: of a statement that PostgreSQL will not run.
NEVER = "{}"
_WRITES = frozenset({"InsertStmt", "UpdateStmt", "DeleteStmt"})
_HOLD = 0x0020  # CURSOR_OPT_HOLD
_UNDONE, _TRIED = "PGE00", "pg_epsilon.rehearsed"
# Whatever happens is undone; only a cancel gets out.
_TRY = (
    f"BEGIN EXECUTE {{}}; RAISE EXCEPTION USING ERRCODE = '{_UNDONE}';"
    f" EXCEPTION WHEN SQLSTATE '{_UNDONE}' THEN PERFORM pg_catalog.set_config('{_TRIED}', 'true', true);"
    f" WHEN OTHERS THEN PERFORM pg_catalog.set_config('{_TRIED}', 'false', true); END"
)
_DONE = f"SELECT pg_catalog.current_setting('{_TRIED}')::pg_catalog.bool"
# A write to a temporary table is allowed in a read-only transaction; EXPLAIN looks at neither.
_WRITABLE = """
SELECT pg_catalog.current_setting('transaction_read_only') = 'off' OR NOT EXISTS (
  SELECT FROM pg_catalog.jsonb_array_elements_text($1::pg_catalog.jsonb) AS q(name)
    JOIN pg_catalog.pg_class c ON c.oid = pg_catalog.to_regclass(q.name) WHERE c.relpersistence <> 't')"""
_ABSENT = """
SELECT pg_catalog.to_regclass(COALESCE($1::pg_catalog.text, pg_catalog.quote_ident(pg_catalog.current_schema()))
                              || '.' || $2::pg_catalog.text) IS NULL"""
_NO_CURSOR = "SELECT NOT EXISTS (SELECT FROM pg_catalog.pg_cursors WHERE name = $1::pg_catalog.text)"
Question = tuple[str, Sequence[str | None]]


@dataclass(frozen=True)
class Rehearsal:
    """Queries whose one value must be true. opens: a cursor that lives as long as the transaction."""

    questions: tuple[Question, ...] = ()
    opens: bool = False


def keeps(node: Any) -> bool:
    """Whether the statement writes, makes a table or opens a cursor."""
    if isinstance(node, ast.DeclareCursorStmt | ast.CreateTableAsStmt):
        return True
    return any(kind(item) in _WRITES or isinstance(item, ast.IntoClause) for item in walk(node))


def rehearsal(template: str, marks: Sequence[str], types: Sequence[str]) -> Rehearsal:
    """What to ask of a statement, with no rows in the blocks' places. types: of the client's parameters."""
    node = substitute(statement(splice(template, dict.fromkeys(marks, NOTHING))), lambda item: _null(item, types))
    if isinstance(node, ast.DeclareCursorStmt):
        return Rehearsal(((_NO_CURSOR, [node.portalname]),), opens=not int(node.options or 0) & _HOLD)
    into = node.into if isinstance(node, ast.CreateTableAsStmt) else None
    if isinstance(node, ast.SelectStmt):
        into = _take_into(node)
        if into is not None:
            table = statement("CREATE TABLE t AS SELECT 1")
            table.query, table.into, node = node, into, table
    if into is not None:
        return Rehearsal(_table(node, into))
    writes = [_name(item.relation) for item in walk(node) if kind(item) in _WRITES]
    return Rehearsal((*_tried(f"EXPLAIN {statement_text(node)}"), (_WRITABLE, [json.dumps(writes)])))


async def rehearse(asked: Rehearsal, io: SessionIO, *, alone: bool) -> bool:
    """Whether PostgreSQL is going to run the statement. alone: in its message. Error: FacadeError."""
    if asked.opens and alone and io.outside_block():
        return False
    found = await io.together([Probe(text, values) for text, values in asked.questions])
    return all(not rows or rows[0][0] == "t" for rows in found)


def _tried(text: str) -> tuple[Question, ...]:
    """Try a statement, and take back what it did."""
    return (f"DO {quote_literal(_TRY.format(quote_literal(text)))}", ()), (_DONE, ())


def _table(node: Any, into: Any) -> tuple[Question, ...]:
    """Make the table without data; with IF NOT EXISTS it must be absent."""
    schema = "pg_temp" if into.rel.relpersistence == "t" else into.rel.schemaname
    place = None if schema is None else quote_identifier(schema)
    absent: Question = (_ABSENT, [place, quote_identifier(into.rel.relname)])
    skipped = (absent,) if node.if_not_exists else ()
    into.skipData, node.if_not_exists = True, False
    return *skipped, *_tried(statement_text(node))


def _take_into(select: Any) -> Any:
    """The INTO clause of a SELECT, which stands in its first arm, taken out of it."""
    while select.larg is not None:
        select = select.larg
    into = select.intoClause
    select.intoClause = None
    return into


def _name(relation: Any) -> str:
    parts = (relation.schemaname, relation.relname)
    return ".".join(quote_identifier(part) for part in parts if part is not None)


def _null(node: Any, types: Sequence[str]) -> Any:
    """A parameter as a NULL of its type: what is rehearsed takes none."""
    return constant(None, types[(node.number or 1) - 1]) if isinstance(node, ast.ParamRef) else None
