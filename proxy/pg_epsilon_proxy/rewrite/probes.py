"""Questions to the client's own facade session: what names mean there, what types blocks have, what parameters hold."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pg_epsilon.query.parse import ast

from ..session.rewriting import BoundParams, Described, Field, Probe, SessionIO
from . import refusals
from .names import Facts, Names, Relation, RelationName
from .scope import Candidates
from .tree import quote_identifier, statement

# One round trip: relations with their published columns, which function names are aggregates, and settings. These are
# read here, since a ParameterStatus comes with ReadyForQuery only: a SET earlier in a pipeline would not be seen.
_RESOLVE = """
SELECT q.n::pg_catalog.text, s.nspname, c.relname,
       (SELECT pg_catalog.json_agg(a.attname ORDER BY a.attnum)::pg_catalog.text FROM pg_catalog.pg_attribute a
         WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped)
  FROM pg_catalog.jsonb_array_elements_text($1::pg_catalog.jsonb) WITH ORDINALITY AS q(name, n)
  JOIN pg_catalog.pg_class c ON c.oid = pg_catalog.to_regclass(q.name)
  JOIN pg_catalog.pg_namespace s ON s.oid = c.relnamespace
UNION ALL
SELECT 'session', pg_catalog.current_setting('standard_conforming_strings')::pg_catalog.name,
       pg_catalog.current_setting('client_encoding')::pg_catalog.name, pg_catalog.current_setting('search_path')
UNION ALL
SELECT DISTINCT CASE p.prokind WHEN 'a' THEN 'aggregate' ELSE 'set' END, NULL::pg_catalog.name, p.proname,
       NULL::pg_catalog.text FROM pg_catalog.pg_proc p
 WHERE (p.prokind = 'a' OR p.proretset) AND p.proname = ANY
       (ARRAY(SELECT pg_catalog.jsonb_array_elements_text($2::pg_catalog.jsonb)::pg_catalog.name))"""

_TYPES = """
SELECT u.t FROM pg_catalog.unnest(dp.column_types($1::pg_catalog.oid[], $2::pg_catalog.int2[],
  $3::pg_catalog.oid[], $4::pg_catalog.int4[])) WITH ORDINALITY AS u(t, n) ORDER BY u.n"""

_TYPE_NAMES = """
SELECT pg_catalog.format_type(q.o::pg_catalog.oid, -1)
  FROM pg_catalog.jsonb_array_elements_text($1::pg_catalog.jsonb) WITH ORDINALITY AS q(o, n) ORDER BY q.n"""

# Not from pg_settings: reading one row of it makes all of them, half a millisecond.
_SETTINGS = """
SELECT dp.session_settings()::pg_catalog.text,
       (1000 * pg_catalog.date_part('epoch',
         pg_catalog.current_setting('statement_timeout')::pg_catalog.interval))::pg_catalog.int8,
       pg_catalog.current_setting('search_path'), pg_catalog.current_setting('dp.division', true)"""

_CONSTANT = re.compile(r"(?<!')'([^']+)'(?!')")
_IN_A_ROW = 16
_PREPARED = "SELECT p.statement FROM pg_catalog.pg_prepared_statements p WHERE p.name = $1::pg_catalog.text"


@dataclass(frozen=True)
class Settings:
    """What dp.session_settings() says now, statement_timeout in seconds (None: no limit), search_path, dp.division."""

    values: Mapping[str, Any]
    timeout: float | None
    path: str | None
    division: str | None = None


async def resolve(io: SessionIO, wanted: Candidates, names: Names) -> Facts:
    """What the candidates' names mean in this session: search_path and temporary tables decide, as in PostgreSQL."""
    probe = _resolve_probe(wanted, names)
    return _facts(await io.fetch(probe.sql, probe.params or ()), wanted, names)


async def refuse_left_out(io: SessionIO, sql: str, wanted: Candidates, names: Names) -> None:
    """Refusal if a name means a relation that the facade lacks: describing the statement would say that there is none.

    In a call of ours a whole constant can be a name: dp_count('far.home').
    """
    if not names.left_out:
        return
    written = {name for name in wanted.relations if name[2] in {last for _, last in names.left_out}}
    if wanted.calls:
        constants = set(_CONSTANT.findall(sql))
        for schema, name in names.left_out:
            for found in ((None, schema, name), (None, None, name)):
                if constants & {".".join(filter(None, found)), _regclass(found)}:
                    written.add(found)
    if written:
        await resolve(io, replace(wanted, relations=frozenset(written)), names)


async def survey(
    io: SessionIO, sql: str, oids: Sequence[int], wanted: Candidates, names: Names, *, now: bool
) -> tuple[Described, Facts, Settings | None]:
    """Describe `sql`, then resolve, in one round trip; now: the settings too, where it runs before anything else does.

    Error of the description: with its place in `sql`.
    """
    asked = [Probe(sql, None, oids), _resolve_probe(wanted, names), *([Probe(_SETTINGS, ())] if now else [])]
    described, rows, *rest = await io.together(asked)
    return described, _facts(rows, wanted, names), _settings(rest[0]) if rest else None


def _written(wanted: Candidates) -> list[RelationName]:
    return sorted(wanted.relations | wanted.publics, key=lambda name: tuple(part or "" for part in name))


def _resolve_probe(wanted: Candidates, names: Names) -> Probe:
    asked = json.dumps([_regclass(name) for name in _written(wanted)])
    return Probe(_RESOLVE, [asked, json.dumps(sorted(wanted.functions | names.called))])


def _facts(rows: Sequence[Sequence[str | None]], wanted: Candidates, names: Names) -> Facts:
    written = _written(wanted)
    relations: dict[RelationName, Relation] = {}
    functions: dict[str, set[str]] = {"aggregate": set(), "set": set()}
    session: tuple[str | None, str | None, str | None] = (None, None, None)
    missing = dict.fromkeys(written)
    for mark, schema, name, columns in rows:
        if mark == "session":
            session = (schema, name, columns)
            continue
        if mark in functions:
            functions[mark].add(name or "")
            continue
        found, wrote = (schema or "", name or ""), written[int(mark or 0) - 1]
        missing.pop(wrote, None)
        if names.is_left_out(wrote, found):
            raise refusals.left_out(found[1])
        role = names.role(found)
        if role is not None and found in names.changed:
            raise refusals.changed(found[1])
        if role is not None:
            relations[wrote] = Relation(*found, role, tuple(json.loads(columns or "[]")))
    for wrote in missing:
        if names.is_left_out(wrote, None):
            raise refusals.left_out(wrote[2])
    strings, encoding, path = session
    kinds = frozenset(functions["aggregate"]), frozenset(functions["set"])
    return Facts(relations, wanted.calls, *kinds, names, path, strings, encoding)


def _regclass(name: RelationName) -> str:
    return ".".join(quote_identifier(part) for part in name[1:] if part is not None)


async def column_types(io: SessionIO, fields: Sequence[Field]) -> list[str]:
    """The fields' types as text, with typmod, and COLLATE where the column's collation is not the type's default."""
    if not fields:
        return []
    arrays = (
        [field.table_oid for field in fields],
        [field.attnum for field in fields],
        [field.type_oid for field in fields],
        [field.typmod for field in fields],
    )
    rows = await io.fetch(_TYPES, ["{" + ",".join(map(str, array)) + "}" for array in arrays])
    return [row[0] or "text" for row in rows]


async def type_names(io: SessionIO, oids: Sequence[int]) -> list[str]:
    """format_type of each OID. Modifier -1, not NULL: a bare "character" would cut a parameter to one."""
    if not oids:
        return []
    rows = await io.fetch(_TYPE_NAMES, [json.dumps([str(oid) for oid in oids])])
    return [row[0] or "text" for row in rows]


async def settings(io: SessionIO) -> Settings:
    """The session's settings at execution: constants, now() and dp.* of a block mean what they say there."""
    return _settings(await io.fetch(_SETTINGS))


def _settings(rows: Sequence[Sequence[str | None]]) -> Settings:
    values, timeout, path, division = rows[0]
    milliseconds = int(timeout or 0)
    return Settings(json.loads(values or "{}"), milliseconds / 1000 if milliseconds else None, path, division)


async def prepared_text(io: SessionIO, name: str) -> str | None:
    """The text that the session's prepared statement `name` came from."""
    rows = await io.fetch(_PREPARED, [name])
    return rows[0][0] if rows else None


def as_json(expression: str, type_name: str) -> str:
    """SQL that turns a value into a JSON scalar: numbers exact, dates ISO; what JSON would nest goes as text."""
    nested = type_name.endswith("]") or type_name in ("json", "jsonb")
    return f"({expression})::pg_catalog.text" if nested else expression


async def parameter_values(
    io: SessionIO, numbers: Iterable[int], bind: BoundParams | None, oids: Sequence[int], types: Sequence[str]
) -> dict[int, str | None]:
    """The bound values as text, by number; the facade decodes the client's bytes, in whatever format they came."""
    # PostgreSQL leaves arguments of type void out of every call: JDBC's OUT parameters.
    wanted = sorted(number for number in numbers if types[number - 1] != "void")
    if not wanted:
        return {}
    query = as_arrays([as_json(f"${number}", types[number - 1]) for number in wanted])
    return dict(zip(wanted, scalars(await io.fetch(query, bind or (), oids)), strict=True))


def as_arrays(expressions: Sequence[str]) -> str:
    """A query for the values of all expressions, in order: rows of JSON arrays, each with a few of them.

    No function takes more than 100 arguments, and a row that is long is not read by the proxy at all.
    """
    parts = [expressions[start : start + _IN_A_ROW] for start in range(0, len(expressions), _IN_A_ROW)]
    arrays = [f"pg_catalog.jsonb_build_array({', '.join(part)})::pg_catalog.text" for part in parts]
    if len(arrays) == 1:
        return f"SELECT {arrays[0]}"
    rows = ", ".join(f"({number}, {array})" for number, array in enumerate(arrays))
    return f"SELECT v.t FROM (VALUES {rows}) AS v(n, t) ORDER BY v.n"


def scalars(rows: Sequence[Sequence[str | None]]) -> list[str | None]:
    """The elements of JSON arrays of scalars, numbers digit by digit. Error: DP003 for a nested value."""
    found = [json.loads(text or "[]", parse_float=str, parse_int=str) for (text,) in rows]
    values: list[str | None] = []
    for item in itertools.chain(*found):
        if isinstance(item, bool):
            values.append("true" if item else "false")
        elif item is None or isinstance(item, str):
            values.append(item)
        else:
            raise refusals.shape("a parameter of a composite type is not supported here", "send scalar parameters")
    return values


def constant(value: str | None, type_name: str) -> Any:
    """A typed constant as a tree: no text is ever pasted into SQL."""
    cast = statement(f"SELECT NULL::{type_name}").targetList[0].val
    if value is not None:
        cast.arg = ast.A_Const(isnull=False, val=ast.String(sval=value))
    return cast


def constants(values: Mapping[int, str | None], types: Sequence[str]) -> dict[int, Any]:
    """Typed constants by parameter number."""
    kinds = {types[number - 1] for number in values}
    empty = {kind: constant(None, kind) for kind in kinds}  # parsed once a type: there may be thousands of values

    def typed(value: str | None, kind: str) -> Any:
        node = None if value is None else ast.A_Const(isnull=False, val=ast.String(sval=value))
        return empty[kind] if node is None else ast.TypeCast(arg=node, typeName=empty[kind].typeName)

    return {number: typed(value, types[number - 1]) for number, value in values.items()}
