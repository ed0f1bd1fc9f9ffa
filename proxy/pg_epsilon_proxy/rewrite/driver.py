"""The Rewriter of session/rewriting.py: the client's facade session says what names mean (facade-and-channel.md §6)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from pg_epsilon.query.parse import ast

from ..session.rewriting import Described, FacadeError, Refusal, SessionIO
from . import probes, refusals, units
from .bars import bar_types
from .blocks import Compiled, QueryBlock, ViewBlock
from .compile import DIRECT, compile_statement
from .explain import explain_format
from .long_texts import named
from .names import Facts, Mentions, Names
from .plans import BlockPlan
from .positions import aligned, location
from .runner import styles
from .scope import references, relation_name
from .statements import Statement, body, split
from .tree import function_name, sql_text, statement, statement_text, walk
from .units import Meaning, Note, Unit

# Longer texts are not cut up: over protected data they are refused, others go to the facade as they are.
MAX_STATEMENT = 131_072
# The printer knows the MERGE of PostgreSQL 17 only: 15 does not read WHEN NOT MATCHED BY TARGET.
_MERGE_INSTEAD = "keep the answer in a temporary table first, and merge that"
# text, varchar, char: whose values have a collation.
COLLATED = frozenset({25, 1043, 1042})
_NOT_KEPT = "run the query itself; CREATE TEMP TABLE ... AS SELECT ... keeps its answer"


STRINGS, ENCODING = "standard_conforming_strings", "client_encoding"


class SqlRewriter:
    """One object serves all sessions; a policy change replaces it. names: the facade's, of one policy version."""

    def __init__(self, names: Names) -> None:
        self._names = replace(names, functions=names.functions | DIRECT, called=_called(names.expansions.values()))
        self._mentions = Mentions(self._names)

    def mentions(self, sql: str) -> bool:
        return self._mentions(sql)

    async def plan(self, sql: str, param_oids: Sequence[int], io: SessionIO, *, extended: bool) -> BlockPlan | None:
        """None: forward unchanged. Charges nothing. Errors: Refusal, FacadeError."""
        if len(sql) > MAX_STATEMENT:
            await self._refuse_long(sql, io)
            return None
        try:
            return await self._plan(sql, param_oids, io, extended)
        except Refusal as refusal:
            if not sql.isascii() and io.parameter_status("client_encoding") not in (None, "UTF8"):
                refusal.position = None  # what we took for characters may be bytes
            raise

    async def _refuse_long(self, sql: str, io: SessionIO) -> None:
        found = await io.in_parser(named, sql, self._names)
        if found and (await probes.resolve(io, found, self._names)).concerned:
            raise refusals.too_long(MAX_STATEMENT)

    async def _plan(self, sql: str, param_oids: Sequence[int], io: SessionIO, extended: bool) -> BlockPlan | None:
        statements = await io.in_parser(split, sql, self._names)
        if statements is None or not any(_relevant(item, io) for item in statements):
            return None
        if len(statements) == 1:
            unit = await self._unit(statements[0], param_oids, io, extended)
            return None if unit is None else BlockPlan([unit])
        # PostgreSQL refuses several statements in one Parse by itself.
        return None if extended else await self._message(statements, io)

    async def _message(self, statements: list[Statement], io: SessionIO) -> BlockPlan | None:
        """Several statements of one simple Query: plan until the first that fails, which then fails where it stands."""
        ours = await self._before_control(statements, io) if io.in_block() else len(statements)
        found: list[Unit] = []
        blocks = False
        for index, item in enumerate(statements):
            try:
                unit = await self._unit(item, (), io, False) if index < ours and _relevant(item, io) else None
            except Refusal as refusal:
                if index == 0:
                    raise
                found.append(_plain(units.raised(refusal)))
                found[-1].refusal = refusal
                blocks = True
                break
            except FacadeError:
                if not any(earlier.transaction for earlier in statements[:index]):
                    raise
                # The message opens or ends a transaction first: PostgreSQL must meet the error in its own place.
                found += [_plain(rest.text) for rest in statements[index:]]
                break
            if unit is not None and not all(earlier.may_precede for earlier in statements[:index]):
                raise refusals.alone(_place(item))
            blocks = blocks or unit is not None
            found.append(unit if unit is not None else _plain(item.text))
        return BlockPlan(found) if blocks else None

    async def _before_control(self, statements: list[Statement], io: SessionIO) -> int:
        """Refuse transaction control before a block while the client's transaction is open.

        Returns how many statements precede the first transaction control: those behind it are none of ours.

        Such a block would be planned, and its names resolved, in the transaction that the message is about to end; a
        probe that fails there aborts it, and the COMMIT before it would never be reached. The message is refused as a
        whole, as PostgreSQL refuses one with a syntax error anywhere in it: the transaction fails, nothing has run.
        """
        control = next((index for index, item in enumerate(statements) if item.transaction), len(statements))
        for item in statements[control + 1 :]:
            if item.executes in io.sql_prepared:
                raise refusals.alone(_place(item))
            if item.candidates:
                facts = await probes.resolve(io, item.candidates, self._names)
                if facts.concerned:
                    raise refusals.alone(_place(item))
        return control

    # -- one statement ------------------------------------------------------------------------------------------

    async def _unit(self, item: Statement, param_oids: Sequence[int], io: SessionIO, extended: bool) -> Unit | None:
        note = await _noted(item, io)
        if note is not None:
            return await _execute(item, note, io)
        if item.treatment in ("other", "execute") or not item.candidates:
            return None
        if item.treatment == "refuse":
            await self._refuse(item, io)
            return None
        if item.treatment == "prepare":
            return await self._prepare(item, io)
        if item.treatment == "copy":
            return await self._copy(item, io)
        if isinstance(item.node, ast.CreateTableAsStmt) and item.node.into and item.node.into.skipData:
            return None  # WITH NO DATA reads nothing
        described = await _described(item, param_oids, io)
        if described.param_oids and not extended:
            # "there is no parameter $1": PostgreSQL's own answer to a simple Query.
            return None
        target = item.node.query if item.treatment == "explain" else item.node
        unit = await self._spliced(target, item, described.param_oids, io)
        if unit is not None and isinstance(target, ast.MergeStmt):
            raise refusals.shape("MERGE cannot use a query over protected data", _MERGE_INSTEAD, target)
        if unit is not None and item.treatment == "explain":
            unit = units.explained(unit, explain_format(item.node), len(described.param_oids) + 1)
        if unit is not None:
            unit.fields = described.fields
        return unit

    async def _spliced(self, node: Any, item: Statement, oids: Sequence[int], io: SessionIO) -> Unit | None:
        """Resolve, compile, type and splice; None if nothing in the statement is ours after all."""
        facts = await probes.resolve(io, item.candidates, self._names)
        if not facts.concerned:
            return None
        compiled = await _in_parser(io, compile_statement, node, facts, item.text)
        if not compiled.blocks:
            return None
        _check_encoding(
            item.text, facts.strings or io.parameter_status(STRINGS), facts.encoding or io.parameter_status(ENCODING)
        )
        for block in compiled.blocks:
            if isinstance(block, QueryBlock):
                block.source = item.source
        types, names = await _types(compiled, oids, io)
        unit: Unit = await _in_parser(io, units.spliced, compiled, types, names, oids)
        unit.types = await probes.type_names(io, oids)
        unit.meaning = Meaning(styles(io), facts.path, item.candidates, facts.relations, self._names)
        return unit

    async def _refuse(self, item: Statement, io: SessionIO) -> None:
        """A view, rule, function or materialised view that would hold a block."""
        facts = await probes.resolve(io, item.candidates, self._names)
        if facts.concerned:
            raise refusals.shape(
                "a view, rule, function or materialized view cannot hold a query over protected data",
                _NOT_KEPT,
                _reference(item, facts),
            )

    async def _copy(self, item: Statement, io: SessionIO) -> Unit | None:
        """COPY is analysed when it runs, so its query is described by itself; no parameter reaches it.

        To a file or a program of the server is PostgreSQL's to refuse, before anything is charged.
        """
        if item.node.filename is not None or item.node.is_program:
            return None
        described = Described((), None)
        if item.node.query is not None:
            described = await _described(item, (), io, item.node.query)
        if described.param_oids:
            return None
        unit = await self._spliced(item.node, item, (), io)
        if unit is not None:
            unit.text, unit.literal = item.text, True
        return unit

    async def _prepare(self, item: Statement, io: SessionIO) -> Unit | None:
        node = item.node
        declared: list[int] = []
        if node.argtypes:
            casts = await _in_parser(io, _null_casts, node.argtypes)
            declared = [field.type_oid for field in (await _generated(io, casts)).fields or ()]
        described = await _described(item, declared, io, node.query)
        body = await self._spliced(node.query, item, described.param_oids, io)
        return None if body is None else units.prepared(node, body, body.types)


async def _noted(item: Statement, io: SessionIO) -> Note | None:
    """The note of the SQL-prepared statement that `item` executes, if it is still the one that we prepared."""
    name = item.executes
    note = io.sql_prepared.get(name) if name is not None else None
    if note is None:
        return None
    text = await probes.prepared_text(io, note.name)
    if text is None or note.text not in text:
        io.sql_prepared.pop(note.name, None)
        return None
    return note if isinstance(note, Note) else None


async def _execute(item: Statement, note: Note, io: SessionIO) -> Unit | None:
    node = item.node.query if item.treatment == "explain" else item.node
    if not isinstance(node, ast.ExecuteStmt):
        message = "EXECUTE of a query over protected data must stand by itself, or behind EXPLAIN"
        raise refusals.shape(message, _NOT_KEPT, item.start)
    if len(node.params or ()) != len(note.types):
        return None
    _check_encoding(item.text, io.parameter_status(STRINGS), io.parameter_status(ENCODING))
    unit: Unit = await _in_parser(io, units.execution, node, note)
    if item.treatment == "explain":
        unit = units.explained(unit, explain_format(item.node), 1)
    unit.text = item.text
    return unit


async def _described(item: Statement, oids: Sequence[int], io: SessionIO, inner: Any = None) -> Described:
    """Describe the statement, or the query inside it; an error's position is moved to the client's whole text."""
    text = item.text if inner is None else await _in_parser(io, statement_text, inner)
    try:
        return await io.describe(text, oids)
    except FacadeError as error:
        place = error.position
        if place is not None and inner is None:
            place += item.start
        elif place is not None:
            span = (item.start, item.start + len(item.text))
            place = await io.in_parser(aligned, text, place, item.source, span)
        raise error.placed(place) from None


async def _generated(io: SessionIO, sql: str) -> Described:
    """Describe a text of our own: an error's position in it means nothing to the client."""
    try:
        return await io.describe(sql)
    except FacadeError as error:
        raise error.placed(None) from None


async def _types(
    compiled: Compiled, oids: Sequence[int], io: SessionIO
) -> tuple[dict[int, list[str]], dict[int, list[str]]]:
    """Column types of every block, from describing its core (or the view) in the client's session; and view columns."""
    types: dict[int, list[str]] = {}
    names: dict[int, list[str]] = {}
    for block in compiled.blocks:
        if isinstance(block, ViewBlock):
            fields = (await io.describe(block.shape)).fields or ()
            types[block.number] = await probes.column_types(io, fields)
            names[block.number] = [field.name for field in fields]
        elif isinstance(block, QueryBlock):
            found = block.fixed_types or await _core_types(block, oids, io)
            block.types = found[len(block.keys) :]
            types[block.number] = [*found, *bar_types(block.bars, block.types)]
    return types, names


async def _core_types(block: QueryBlock, oids: Sequence[int], io: SessionIO) -> list[str]:
    fields = (await io.describe(block.core, oids)).fields or ()
    types = await probes.column_types(io, fields)
    for number, columns in block.inputs.items():
        if fields[number].type_oid in COLLATED:
            # A description tells a column's collation, not an expression's: that is its columns'.
            found = await probes.column_types(io, (await io.describe(columns, oids)).fields or ())
            types[number] += one_collation(found, columns)
    return types


async def _in_parser(io: SessionIO, function: Any, *args: Any) -> Any:
    """Run on the parser thread; a statement too deep for our walks is refused, not crashed on."""
    try:
        return await io.in_parser(function, *args)
    except RecursionError:
        raise refusals.too_deep() from None


def one_collation(types: Sequence[str], columns: str) -> str:
    """The COLLATE that expressions over columns of these types have; "": the default. Error: DP003 if there are two."""
    named = {" COLLATE ".join(["", *kind.split(" COLLATE ")[1:]]) for kind in types} - {""}
    if len(named) > 1:
        raise refusals.shape(
            f"a group key mixes the collations of its columns ({columns})", "group by the columns themselves"
        )
    return next(iter(named), "")


def _relevant(item: Statement, io: SessionIO) -> bool:
    return bool(item.candidates) or item.executes in io.sql_prepared


def _place(item: Statement) -> int:
    place = location(item.node)
    return item.start if place is None else place


def _reference(item: Statement, facts: Facts) -> Any:
    """The first name in the statement that is ours, or all of the statement."""
    found = (node for node in references(body(item.node)) if relation_name(node) in facts.relations)
    return next(found, item.node)


def _called(texts: Iterable[str]) -> frozenset[str]:
    """The functions that the texts of published views call."""
    calls = (node for text in texts for node in walk(statement(text)) if isinstance(node, ast.FuncCall))
    return frozenset(function_name(call)[-1] for call in calls)


def _plain(text: str) -> Unit:
    return Unit(text=text, template=text)


def _check_encoding(text: str, strings: str | None, encoding: str | None) -> None:
    """Where a constant's bytes do not mean what the parser read, no block is answered."""
    if strings == "off":
        raise refusals.shape(
            "queries over protected data need standard_conforming_strings", "SET standard_conforming_strings = on"
        )
    if not text.isascii() and encoding not in (None, "UTF8"):
        raise refusals.shape(
            "queries over protected data with non-ASCII characters need client_encoding UTF8",
            "SET client_encoding = 'UTF8'",
        )


def _null_casts(types: Sequence[Any]) -> str:
    """A query whose columns have the given types: describing it gives their OIDs."""
    null = ast.A_Const(isnull=True)
    return "SELECT " + ", ".join(sql_text(ast.TypeCast(arg=null, typeName=kind)) for kind in types)


__all__ = ["Facts", "Names", "SqlRewriter"]
