"""EXPLAIN of a statement with blocks: public facts from dp.dp_plan, no plan, nothing run (composition.md §9)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from .notices import charge_text, margin_text

COLUMN = "QUERY PLAN"
FORMATS = {"text": "text", "json": "json"}
# What dp_plan says, in the order in which people read it. Anything else that it says follows under its own name.
_ORDER = ("call", "mechanism", "path", "paths", "worst", "best", "margin", "confidence", "left", "cap", "as_of")
_LABELS = {"worst": "charge, worst", "best": "charge, best", "margin": "expected error", "as_of": "as of"}
# Said elsewhere: the confidence beside the margin, the request as the call.
_SILENT = frozenset({"confidence", "request", "version"})
_CHARGES = frozenset({"worst", "best"})


def lines(blocks: Sequence[tuple[str, Mapping[str, Any]]], outer: str) -> list[str]:
    """The text format: per block its call and public facts, then the statement that PostgreSQL would run."""
    text: list[str] = []
    for number, (call, facts) in enumerate(blocks, 1):
        text.append(f"DP block ${number}: {call}")
        text += [f"  {line}" for line in _facts(facts)]
    return [*text, f"Then, on released values only: {outer}"]


def json_text(blocks: Sequence[tuple[str, Mapping[str, Any]]], outer: str) -> str:
    """The same as one JSON value."""
    found = [{"Call": call, "Facts": dict(facts)} for call, facts in blocks]
    return json.dumps([{"DP Blocks": found, "Statement": outer}], indent=2)


def call_text(request: Mapping[str, Any]) -> str:
    """A request as the dp_* call that people would write."""
    source = request.get("from") or {}
    keys = request.get("keys") or []
    parts = [_quoted(f"{source.get('schema')}.{source.get('name')}")]
    if keys:
        parts.append(f"keys => {keys}")
    aggregates = [_aggregate(item) for item in request.get("aggregates") or []]
    if aggregates != ["count(*)"]:
        parts.append(f"aggregates => {aggregates}")
    if request.get("where") is not None:
        parts.append(f"predicate => {_quoted(str(request['where']))}")
    return f"{'dp_group_by' if keys else 'dp_count'}({', '.join(parts)})"


def _facts(facts: Mapping[str, Any]) -> list[str]:
    named = [key for key in _ORDER if key in facts] + [key for key in facts if key not in _ORDER]
    shown = []
    for key in named:
        value = facts[key]
        if value is None or key in _SILENT:
            continue
        if key in _CHARGES and isinstance(value, Mapping):
            value = charge_text(value)
        elif key == "margin":
            value = margin_text(facts)
        elif isinstance(value, Mapping | list):
            value = json.dumps(value)
        shown.append(f"{_LABELS.get(key, key)}: {value}")
    return shown


def _aggregate(item: Mapping[str, Any]) -> str:
    argument = item.get("argument")
    inside = ("distinct " if item.get("distinct") else "") + ("" if argument is None else str(argument))
    tail = f" filter (where {item['filter']})" if item.get("filter") else ""
    return f"{item.get('function')}({inside}){tail}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
