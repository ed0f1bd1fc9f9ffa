"""Between the compiler and the splice: what types blocks have in the client's session, and all that needs no answer."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ..session.rewriting import Refusal, SessionIO
from . import probes, refusals, units
from .bars import bar_types
from .blocks import Block, Compiled, QueryBlock, ViewBlock
from .compile import compile_statement
from .names import Facts
from .statements import Statement
from .units import Unit

# text, varchar, char: whose values have a collation.
COLLATED = frozenset({25, 1043, 1042})
STRINGS, ENCODING = "standard_conforming_strings", "client_encoding"
# The types of a block's columns and, for a view, their names, by the block's number.
Asked = dict[int, tuple[list[str], list[str]]]


@dataclass(frozen=True)
class Cut:
    """A compiled statement; unit: it is complete, because nothing about its types had to be asked."""

    compiled: Compiled
    unit: Unit | None = None


def attempt(
    node: Any, item: Statement, facts: Facts, oids: Sequence[int], strings: str | None, encoding: str | None
) -> Cut | Exception:
    """compile_statement, and all that can follow without the session, in one visit to the parser thread.

    strings, encoding: STRINGS and ENCODING of the session. An error is handed back: perhaps nobody wants it.
    """
    try:
        return _cut(node, item, facts, oids, strings, encoding)
    except RecursionError:
        return refusals.too_deep()
    except Exception as failure:
        return failure


def _cut(
    node: Any, item: Statement, facts: Facts, oids: Sequence[int], strings: str | None, encoding: str | None
) -> Cut:
    try:
        compiled = compile_statement(node, facts, item.text)
    except Refusal:
        check_encoding(item.text, None, encoding)  # what it refuses may be no name of the client's
        raise
    if not compiled.blocks:
        return Cut(compiled)
    check_encoding(item.text, strings, encoding)
    fixed: Asked = {}
    for block in compiled.blocks:
        # U&"gr\00f6\00dfe" is ASCII, and is not when it is printed.
        check_printed(_described(block), encoding)
        if isinstance(block, QueryBlock):
            block.source = item.source
            if (types := block.fixed_types) is not None:
                fixed[block.number] = types, []
    if any(_untyped(block) and block.number not in fixed for block in compiled.blocks):
        return Cut(compiled)
    return Cut(compiled, complete(compiled, fixed, oids))


def complete(compiled: Compiled, asked: Asked, oids: Sequence[int]) -> Unit:
    """units.spliced, with requests printed that depend on no parameter."""
    types: dict[int, list[str]] = {}
    for block in compiled.blocks:
        found = asked.get(block.number, ([], []))[0]
        if isinstance(block, QueryBlock):
            block.types = found[len(block.keys) :]
            found = [*found, *bar_types(block.bars, block.types)]
            with suppress(Refusal):  # it is raised where the request is asked
                block.print()
        types[block.number] = found
    return units.spliced(compiled, types, {number: names for number, (_, names) in asked.items() if names}, oids)


def _described(block: Block) -> str:
    """What the facade is asked in the block's place, as text."""
    if isinstance(block, QueryBlock):
        return " ".join([block.core, *block.inputs.values()])
    return block.shape if isinstance(block, ViewBlock) else block.sql


def _untyped(block: Block) -> bool:
    return isinstance(block, QueryBlock | ViewBlock)


async def asked_types(blocks: Sequence[Block], oids: Sequence[int], io: SessionIO) -> Asked:
    """Column types of every block, from describing its core (or the view) in the client's session; and view columns."""
    asked: Asked = {}
    for block in blocks:
        if isinstance(block, ViewBlock):
            fields = (await io.describe(block.shape)).fields or ()
            asked[block.number] = await probes.column_types(io, fields), [field.name for field in fields]
        elif isinstance(block, QueryBlock):
            asked[block.number] = block.fixed_types or await _core_types(block, oids, io), []
    return asked


async def _core_types(block: QueryBlock, oids: Sequence[int], io: SessionIO) -> list[str]:
    fields = (await io.describe(block.core, oids)).fields or ()
    types = await probes.column_types(io, fields)
    for number, columns in block.inputs.items():
        if fields[number].type_oid in COLLATED:
            # A description tells a column's collation, not an expression's: that is its columns'.
            found = await probes.column_types(io, (await io.describe(columns, oids)).fields or ())
            types[number] += one_collation(found, columns)
    return types


def one_collation(types: Sequence[str], columns: str) -> str:
    """The COLLATE that expressions over columns of these types have; "": the default. Error: DP003 if there are two."""
    named = {" COLLATE ".join(["", *kind.split(" COLLATE ")[1:]]) for kind in types} - {""}
    if len(named) > 1:
        raise refusals.shape(
            f"a group key mixes the collations of its columns ({columns})", "group by the columns themselves"
        )
    return next(iter(named), "")


def check_encoding(text: str, strings: str | None, encoding: str | None) -> None:
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


def check_printed(text: str, encoding: str | None) -> None:
    """The same of a text of ours: it may hold names that the client wrote in ASCII, by a star or an escape."""
    if encoding != "LATIN1" or max(text, default="") > "\xff":
        check_encoding(text, None, encoding)


async def in_parser(io: SessionIO, function: Any, *args: Any) -> Any:
    """Run on the parser thread; a statement too deep for our walks is refused, not crashed on."""
    try:
        return await io.in_parser(function, *args)
    except RecursionError:
        raise refusals.too_deep() from None
