"""Statements too long to be cut up: which names of ours they use, by the parser's JSON form (a tenth of the time)."""

from __future__ import annotations

import json
import re

from pg_epsilon.query.parse import depth_bound, parse_json, scan

from .names import Names
from .scope import Candidates

_RELATION = re.compile(r'"RangeVar":(\{(?:[^{}"]|"(?:[^"\\]|\\.)*")*)')
_CTE = re.compile(r'"ctename":"((?:[^"\\]|\\.)*)"')
_FUNCTION = re.compile(r'"funcname":\[((?:\{"String":\{"sval":"(?:[^"\\]|\\.)*"\}\},?)+)\]')


def deep(sql: str, limit: int) -> bool:
    """Whether the tree of `sql` may have more than `limit` levels. A text that is no SQL has none."""
    try:
        return depth_bound(scan(sql)) > limit
    except Exception:
        return False


def named(sql: str, names: Names) -> Candidates:
    """What a statement names of ours; a name that a WITH clause defines anywhere in it is taken to be that.

    A text that does not parse names nothing: PostgreSQL says why.
    """
    try:
        text = parse_json(sql)
    except Exception:
        return Candidates(frozenset(), frozenset(), frozenset())
    defined = {json.loads(f'"{name}"') for name in _CTE.findall(text)}
    relations, calls = set(), set()
    wanted = names.last_parts()
    for found in set(_RELATION.findall(text)):
        parts = {key: _part(found, key) for key in ("catalogname", "schemaname", "relname")}
        if parts["relname"] in wanted and (parts["schemaname"] is not None or parts["relname"] not in defined):
            relations.add((parts["catalogname"], parts["schemaname"], parts["relname"] or ""))
    for found in set(_FUNCTION.findall(text)):
        function = [item["String"]["sval"] for item in json.loads(f"[{found}]")]
        if function[-1] in names.functions and function[:-1] in ([], ["dp"]):
            calls.add(function[-1])
    return Candidates(frozenset(relations), frozenset(calls), frozenset(calls))


def _part(found: str, key: str) -> str | None:
    match = re.search(rf'"{key}":("(?:[^"\\]|\\.)*")', found)
    return None if match is None else str(json.loads(match[1]))
