"""Statements that the client has prepared, by Parse or by PREPARE: cut into blocks again each time they run.

The facade keeps the client's own text under the client's name, so that Describe, DEALLOCATE and pg_prepared_statements
are PostgreSQL's, and EXECUTE and Bind both find what the other has prepared. What runs is rewritten anew, under a name
of ours, from what names and types are then.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from pg_epsilon.query.parse import ast, parse_statements

from ..session.rewriting import FacadeError, Made, Refusal, SessionIO
from . import probes, refusals, units
from .blocks import Block, QueryBlock, parameters_in
from .cutting import ENCODING, STRINGS, check_encoding, in_parser
from .names import Facts
from .plans import BlockPlan
from .statements import Statement
from .tree import sql_text, statement, statement_text
from .units import Meaning, Unit

Planner = Callable[[str, Sequence[int], SessionIO], Awaitable[BlockPlan | None]]
_RUN = (ast.SelectStmt, ast.InsertStmt, ast.UpdateStmt, ast.DeleteStmt)


async def noted(name: str | None, io: SessionIO) -> Made | None:
    """What was prepared under `name`, if the facade still keeps that."""
    made = io.prepared.get(name) if name is not None else None
    if name is None or made is None:
        return None
    text = await probes.prepared_text(io, name)
    if text is None or not (text == made.text or (made.by_sql and await io.in_parser(_prepares, text, name, made))):
        io.prepared.pop(name, None)
        return None
    return made


async def declared(node: Any, io: SessionIO) -> list[int]:
    """OIDs of the types that a PREPARE gives its parameters."""
    if not node.argtypes:
        return []
    casts = await in_parser(io, _null_casts, node.argtypes)
    try:
        described = await io.describe(casts)
    except FacadeError as error:
        raise error.placed(None) from None  # a place in a text that the client has never seen
    return [field.type_oid for field in described.fields or ()]


async def again(made: Made, io: SessionIO, plan: Planner) -> BlockPlan | None:
    """A prepared statement as it is planned now. Errors: Refusal, FacadeError, without a place in a text by PREPARE."""
    if not made.by_sql:
        return await _meant(await plan(made.text, made.oids, io), made, io)
    node = await io.in_parser(statement, made.text)
    return await _unplaced(await io.in_parser(statement_text, node.query), await declared(node, io), made, io, plan)


async def execution(item: Statement, made: Made, io: SessionIO, plan: Planner) -> Unit | None:
    """An EXECUTE of `made`, by itself, behind EXPLAIN or in CREATE TABLE AS. None: PostgreSQL says what is wrong."""
    check_encoding(item.text, io.parameter_status(STRINGS), io.parameter_status(ENCODING))
    node = await io.in_parser(statement, made.text)
    call = _call(item.node)
    inner = node.query if made.by_sql else node
    arguments = call.params or ()
    if not isinstance(inner, _RUN) or parameters_in(arguments):
        return None
    text = await in_parser(io, _unfolded, item.node, call, inner)
    oids = await declared(node, io) if made.by_sql else made.oids
    found = await _unplaced(text, oids, made, io, plan)
    if found is None:
        return None
    if arguments and not found.only.oids:
        # PostgreSQL would not look at them: who sends them means another statement, and would pay for this one.
        detail = f"Expected 0 parameters but got {len(arguments)}."
        words = f'wrong number of parameters for prepared statement "{call.name}"'
        raise Refusal("42601", words, detail, "Leave the arguments out.")
    if len(arguments) != len(found.only.oids):
        return None
    unit: Unit = await in_parser(io, units.execution, found.only, arguments)
    return unit


async def _unplaced(text: str, oids: Sequence[int], made: Made, io: SessionIO, plan: Planner) -> BlockPlan | None:
    """The plan of a text that the client has not sent just now: errors have no place in it."""
    try:
        found = await _meant(await plan(text, oids, io), made, io)
        if found is not None:
            found.only.blocks = [_sourceless(block) for block in found.only.blocks]
        return found
    except Refusal as refusal:
        refusal.position = None
        raise
    except FacadeError as error:
        raise error.placed(None) from None


async def _meant(plan: BlockPlan | None, made: Made, io: SessionIO) -> BlockPlan | None:
    """It asks what it asked when it was prepared, or nothing."""
    before: Meaning | None = made.meaning
    now = None if plan is None else plan.only.meaning
    if before is None or (plan is not None and now is None):
        return plan
    found: Facts | Meaning = now or await probes.resolve(io, before.candidates, before.names)
    if found.path != before.path and _named(found) != _named(before):
        raise refusals.meaning_changed("search_path")
    if plan is not None and now is not None:
        plan.only.meaning = replace(now, styles=before.styles)
    return plan


def _sourceless(block: Block) -> Block:
    return replace(block, source=None) if isinstance(block, QueryBlock) else block


def _named(meaning: Facts | Meaning) -> dict[Any, tuple[str, str]]:
    return {name: (found.schema, found.name) for name, found in meaning.relations.items()}


def _prepares(text: str, name: str, made: Made) -> bool:
    """Whether a message of several statements has that PREPARE, and no other one of the name."""
    try:
        found = parse_statements(text)
    except Exception:
        return False
    named = [raw for raw in found if isinstance(raw.stmt, ast.PrepareStmt) and raw.stmt.name == name]
    starts = [raw.stmt_location or 0 for raw in named]
    ends = [start + raw.stmt_len if raw.stmt_len else len(text) for start, raw in zip(starts, named, strict=True)]
    return [text[start:end].strip() for start, end in zip(starts, ends, strict=True)] == [made.text.strip()]


def _call(node: Any) -> Any:
    """The EXECUTE in a statement that has one."""
    while not isinstance(node, ast.ExecuteStmt):
        node = node.query
    return node


def _unfolded(node: Any, call: Any, inner: Any) -> str:
    """The statement's text with what is executed in the place of the EXECUTE."""
    if node is call:
        return statement_text(inner)
    place = node
    while place.query is not call:
        place = place.query
    place.query = inner
    return statement_text(node)


def _null_casts(types: Sequence[Any]) -> str:
    """A query whose columns have the given types: describing it gives their OIDs."""
    null = ast.A_Const(isnull=True)
    return "SELECT " + ", ".join(sql_text(ast.TypeCast(arg=null, typeName=kind)) for kind in types)
