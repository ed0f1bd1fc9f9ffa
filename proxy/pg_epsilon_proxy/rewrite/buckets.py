"""A client's text with time_bucket written in PostgreSQL's own functions, before anything else is made of it.

So the same question is asked of protected relations, public tables and released values, whether
or not the facade's database has TimescaleDB. What an argument's type is, the facade says.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pg_epsilon.query.parse import ast, parse_statements

from ..session.rewriting import FacadeError, Probe, Refusal, SessionIO
from ..session.written import AS_IT_IS, UNFILLED, Edit, Written
from . import refusals
from .bucket_calls import FILLED, NAMES, PLAIN, Call, Own, Places, calls, is_bucket, read_names, type_probe
from .bucket_forms import DATE, STAMP, ZONED, Known, Parts, is_constant, origins, parts, simple_width, written
from .positions import location
from .tree import function_name, sql_text, walk

_MENTIONED = re.compile(r"\btime_bucket|\b(?:locf|interpolate|histogram|first|last)\s*\(", re.IGNORECASE)
MOST_CALLS = 64  # rounds: calls that stand in one another's arguments or FROM
LONGEST = 524_288  # characters: forms repeat arguments, so that calls in one another grow by powers
# Calls times characters in one round: each call's FROM is printed for its probe.
MOST_WORK = 4_000_000
_NUMBERS = {20: "int8", 21: "int2", 23: "int4", 25: "text", 1043: "varchar"}
_TYPES = _NUMBERS | {1082: DATE, 1114: STAMP, 1184: ZONED, 1186: "interval"}
_WIDTH = (
    "SELECT (12 * extract(year FROM w.i) + extract(month FROM w.i))::pg_catalog.int8::pg_catalog.text,"
    " (86400 * extract(day FROM w.i) + 3600 * extract(hour FROM w.i) + 60 * extract(minute FROM w.i)"
    " + extract(second FROM w.i))::pg_catalog.text FROM (SELECT ({})::pg_catalog.interval AS i) AS w"
)
_MONTH = (
    "SELECT (12 * extract(year FROM w.o) + extract(month FROM w.o) - 1)::pg_catalog.int8::pg_catalog.text"
    " FROM (SELECT {} AS o) AS w"
)
# Functions of these names: whether one is found without its schema, and whether it is an extension's.
_PRESENT = (
    "SELECT p.proname::pg_catalog.text, n.nspname::pg_catalog.text,"
    " pg_catalog.pg_function_is_visible(p.oid)::pg_catalog.text,"
    " EXISTS (SELECT FROM pg_catalog.pg_depend AS d WHERE d.objid = p.oid AND d.deptype = 'e'"
    " AND d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass)::pg_catalog.text"
    " FROM pg_catalog.pg_proc AS p JOIN pg_catalog.pg_namespace AS n ON n.oid = p.pronamespace WHERE p.proname = ANY"
    " (ARRAY(SELECT pg_catalog.jsonb_array_elements_text($1::pg_catalog.jsonb))::pg_catalog.name[])"
)
_COMPLETE = "leave it out: every declared group comes back, so that no gap is to be filled"
_ONE_ROW = (
    "one row's value is never released: ask for avg(value), or percentile_disc(0.5) WITHIN GROUP (ORDER BY value)"
)
# Functions of TimescaleDB that have no answer: (how many arguments, what to type instead).
INSTEAD: dict[str, tuple[tuple[int, ...], str]] = {
    "locf": ((1, 2, 3), f"{_COMPLETE}: write time_bucket('1 hour', ts), count(*)"),
    "interpolate": ((1, 2, 3), f"{_COMPLETE}: write time_bucket('1 hour', ts), count(*)"),
    "first": ((2,), _ONE_ROW),
    "last": ((2,), _ONE_ROW),
    "histogram": ((4,), "write SELECT width_bucket(value, 0, 100, 10), count(*) ... GROUP BY 1"),
}


@dataclass(frozen=True)
class Asked:
    """A call, its arguments, and the queries that tell their types, by the text of the argument."""

    call: Call
    parts: Parts
    probes: dict[str, str]


def mentioned(sql: str) -> bool:
    """Cheap text test: False means that nothing of TimescaleDB's is called."""
    return _MENTIONED.search(sql) is not None


async def spelled_out(sql: str, io: SessionIO, ours: frozenset[str] = frozenset()) -> Written:
    """The text without calls of time_bucket; a function of the client's own of that name is called as before.

    ours: unqualified names of protected relations, over which alone gaps are filled. Errors: Refusal for a form that
    cannot be said, with its place in `sql` (DP003, 22023), FacadeError.
    """
    named = await io.in_parser(_named, sql) if mentioned(sql) else ()
    if not named:
        return AS_IT_IS
    own = await _own(named, io)
    done = Written(sql)
    for _ in range(MOST_CALLS):
        try:
            asked = await io.in_parser(_asked, done.text, own)
            if not asked:
                return done if done.rounds else AS_IT_IS
            _check_filled(asked, ours)
            edits = await io.in_parser(_edits, done.text, asked, await _known(asked, io))
        except Refusal as refusal:
            raise done.refusal(refusal) from None
        except FacadeError as error:
            raise error.placed(done.place(location(asked[0].call.node))) from None
        done = done.edited(edits)
        if len(done.text) > LONGEST:
            break
    raise refusals.shape(f"too many calls of {PLAIN} in one another", "write fewer levels")


async def _own(named: Sequence[tuple[str, Any]], io: SessionIO) -> Own:
    """Functions that are no extension's: called by these names, with or without a schema, they are the client's own."""
    rows = await io.fetch(_PRESENT, [_json(sorted({name for name, _ in named}))])
    present = {row[0] for row in rows}
    for name, place in named:
        if name in INSTEAD and name not in present:
            raise refusals.shape(f"{name}() is not supported", INSTEAD[name][1], place)
    own = [tuple(map(str, row[:3])) for row in rows if row[0] in NAMES and row[3] == "false"]
    return frozenset(
        (*((schema, name) for name, schema, _ in own), *((name,) for name, _, seen in own if seen == "true"))
    )


def _check_filled(asked: Sequence[Asked], ours: frozenset[str]) -> None:
    """DP003 for gaps of what has no list of groups: nothing that the call's query reads is protected."""
    for one in asked:
        if function_name(one.call.node)[-1] == FILLED and not ours & read_names(one.call.levels):
            raise refusals.shape(*UNFILLED, one.call.node)


def _json(names: Sequence[str]) -> str:
    return f"[{', '.join(f'{chr(34)}{name}{chr(34)}' for name in names)}]"


def _named(sql: str) -> list[tuple[str, Any]]:
    """Calls that look like those of TimescaleDB's functions that are read here: name and place."""
    found = []
    try:
        parsed = parse_statements(sql)
    except Exception:  # PostgreSQL says why
        return []
    for node in (node for raw in parsed for node in walk(raw.stmt) if isinstance(node, ast.FuncCall)):
        name = function_name(node)[-1]
        if is_bucket(node) or (name in INSTEAD and len(node.args or ()) in INSTEAD[name][0] and node.over is None):
            found.append((name, location(node)))
    return found


def _asked(sql: str, own: Own) -> list[Asked]:
    found = calls(sql, own) or ()
    if len(found) > 1 and len(found) * len(sql) > MOST_WORK:
        raise refusals.shape(f"too many calls of {PLAIN} in a text of this length", "split the statement")
    asked = []
    for call in found:
        given = parts(call.node)
        probes = {sql_text(one): type_probe(one, call.levels) for one in given.typed}
        asked.append(Asked(call, given, probes))
    return asked


async def _known(asked: Sequence[Asked], io: SessionIO) -> dict[int, Known]:
    """What the facade says of each call, by its place in the list. An argument means something in its FROM only."""
    texts = list(dict.fromkeys(text for one in asked for text in one.probes.values()))
    found = await io.together([Probe(text) for text in texts]) if texts else []
    types = {text: _TYPES.get(one.fields[0].type_oid, "") for text, one in zip(texts, found, strict=True)}
    known: dict[int, Known] = {}
    for place, one in enumerate(asked):
        said = Known({argument: types[text] for argument, text in one.probes.items()}, {}, {})
        width = one.parts.width
        if said.type_of(one.parts.ts) in (DATE, STAMP, ZONED) and await io.in_parser(is_constant, width):
            said.widths[sql_text(width)] = simple_width(width) or await _width(sql_text(width), io)
            for origin in await io.in_parser(origins, one.parts, said):
                said.months[origin] = int((await io.fetch(_MONTH.format(origin)))[0][0] or 0)
        known[place] = said
    return known


async def _width(text: str, io: SessionIO) -> tuple[int, float]:
    months, seconds = (await io.fetch(_WIDTH.format(text)))[0]
    return int(months or 0), float(seconds or 0)


def _edits(sql: str, asked: Sequence[Asked], known: dict[int, Known]) -> list[Edit]:
    edits, places = [], Places(sql)
    for place, one in enumerate(asked):
        name = function_name(one.call.node)[-1]
        start, end = places.span(location(one.call.node) or 0)
        edits.append(Edit(start, end, written(one.parts, known[place]), fills=name == FILLED))
        if one.call.target is not None:
            after = places.target_end(location(one.call.target) or 0)
            edits.append(Edit(after, after, f" AS {name}"))
    return edits


__all__ = ["INSTEAD", "NAMES", "mentioned", "spelled_out"]
