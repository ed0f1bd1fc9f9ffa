"""A facade made piece by piece, where the policy's whole shape cannot be made: what fails is left out (§5).

A piece that fails takes along what needs it: a relation whose type is missing fails in its turn. Each piece with its
net is made in a savepoint of its own, so that what is left out leaves nothing behind that could be asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import asyncpg

from pg_epsilon_proxy.facade.definition import Definition, LeftOut, named, without
from pg_epsilon_proxy.facade.statements import (
    STANDING_SCHEMAS,
    change,
    create_catalog_view,
    create_collation,
    create_extension,
    create_function,
    create_relation,
    create_schema,
    create_type,
    foreign_keys,
    keyword,
    net,
    phases,
    sorted_views,
    whole,
)

# What is no piece's fault: a lost connection, locks, deadlocks, room, an operator, a damaged system.
_ELSEWHERE = ("08", "25", "40", "53", "57", "58")
_DAMAGED = ("55P03", "XX001", "XX002")


@dataclass(frozen=True, slots=True)
class Piece:
    """part, item: of a definition. ours: of schema dp, without which nobody can be served."""

    part: str
    item: Any
    statements: list[str]
    ours: bool = False


def pieces(held: Definition, wanted: Definition) -> Iterator[Piece]:
    """What must be made between two shapes of one phase, each after what it needs."""
    for schema in wanted["schemas"]:
        if schema not in held["schemas"] and schema not in STANDING_SCHEMAS:
            yield Piece("schemas", schema, create_schema(schema))
    for extension in wanted["extensions"]:
        if extension not in held["extensions"]:
            yield Piece("extensions", extension, create_extension(extension))
    for collation in wanted["collations"]:
        if collation not in held["collations"]:
            yield Piece("collations", collation, create_collation(collation))
    for item in wanted["types"]:
        if item not in held["types"]:
            yield Piece("types", item, create_type(item))
    _, relations, keys = change(held, wanted)
    for relation in relations:
        if keyword(relation) != "VIEW":
            closed = net(relation["schema"], relation["name"]) if keyword(relation) == "TABLE" else []
            yield Piece("relations", relation, [*create_relation(relation), *closed])
    for key in keys:
        yield Piece("foreign_keys", key, foreign_keys([key], set()))
    for view in sorted_views([relation for relation in relations if keyword(relation) == "VIEW"]):
        yield Piece("relations", view, create_relation(view))
    for function in wanted["functions"]:
        if function not in held["functions"]:
            yield Piece("functions", function, create_function(function), ours=True)
    for shown in wanted["views"]:
        if shown not in held["views"]:
            yield Piece("views", shown, create_catalog_view(shown), ours=True)


async def build(
    facade: asyncpg.Connection[Any], held: Definition, wanted: Definition, *, rebuild: bool = False
) -> Definition:
    """Turn a facade of shape `held` into `wanted`, whole if it can be; returns the shape that it has now.

    In the caller's transaction. Errors: those that no piece but schema dp has caused.
    """
    steps = phases(held, wanted, rebuild=rebuild)
    try:
        async with facade.transaction():
            for before, after in steps:
                for statement in whole(before, after):
                    await facade.execute(statement)
        return wanted
    except asyncpg.PostgresError as error:
        if not _of_a_piece(error):
            raise
    left_out: list[LeftOut] = []
    for before, after in steps:
        for statement in change(before, after).drops:
            await facade.execute(statement)
        for piece in pieces(before, after):
            failed = _in_a_failed_schema(piece, left_out) or await _made(facade, piece)
            if failed is not None:
                left_out.append(failed)
    made = without(wanted, left_out)
    return {**made, "left_out": left_out} if left_out else made


async def _made(facade: asyncpg.Connection[Any], piece: Piece) -> LeftOut | None:
    try:
        async with facade.transaction():
            for statement in piece.statements:
                await facade.execute(statement)
    except asyncpg.PostgresError as error:
        if piece.ours or not _of_a_piece(error):
            raise
        name = named(piece.part, piece.item)
        return {"part": piece.part, "name": name, "sqlstate": error.sqlstate or "?", "why": error.args[0]}
    return None


def _in_a_failed_schema(piece: Piece, left_out: list[LeftOut]) -> LeftOut | None:
    """Somebody else's schema of that name may stand there: nothing of ours is put into it."""
    if piece.ours or piece.part == "schemas":
        return None
    for failed in left_out:
        if failed["part"] == "schemas" and failed["name"] == [piece.item["schema"]]:
            return {**failed, "part": piece.part, "name": named(piece.part, piece.item)}
    return None


def _of_a_piece(error: asyncpg.PostgresError) -> bool:
    state = error.sqlstate or ""
    return not state.startswith(_ELSEWHERE) and state not in _DAMAGED
