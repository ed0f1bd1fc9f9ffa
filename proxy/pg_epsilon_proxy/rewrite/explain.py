"""EXPLAIN of a statement with blocks: public facts from dp.dp_plan, no plan, nothing run (composition.md §9)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

from pg_epsilon.query.parse import ast, written

from . import refusals
from .notices import amount_text, margin_text

COLUMN = "QUERY PLAN"
# The type of the column, by format.
FORMATS = {"text": "text", "json": "json", "yaml": "text", "xml": "xml"}
# What dp_plan says, in the order in which people read it. Anything else that it says follows under its own name.
_ORDER = ("answer", "mechanism", "path", "charge", "margin", "left", "cap", "accounts", "groups", "as_of")
_LABELS = {"margin": "expected error", "left": "budget left", "accounts": "paid by", "as_of": "as of"}
# Said elsewhere: the confidence beside the margin, what is asked in the call, the notice's text in its parts, decisions
# and their alternatives beside the aggregates.
_SILENT = frozenset(
    {"confidence", "request", "version", "call", "keys", "where", "relation", "text", "decide", "decisions"}
)

# Members that every request may have.
_SHARED = frozenset(
    {"version", "call", "from", "joins", "where", "keys", "budget", "mechanism", "fresh", "bars", "settings", "of"}
)


def explain_format(node: Any) -> str:
    """The format that an EXPLAIN asks for: a key of FORMATS. Error: DP003 for another."""
    for option in node.options or ():
        if option.defname == "format":
            name = (option.arg.sval or "").lower() if isinstance(option.arg, ast.String) else ""
            if name not in FORMATS:
                message = f"EXPLAIN (FORMAT {name}) is not supported over protected data"
                raise refusals.shape(message, "use FORMAT TEXT, JSON, YAML or XML", option)
            return name
    return "text"


def lines(
    blocks: Sequence[tuple[str, Mapping[str, Any]]], outer: str, first: int = 1, undefined: str | None = None
) -> list[str]:
    """The text format: per block its call and public facts, then the statement that PostgreSQL would run.

    first: the number of the first block's parameter in `outer`, behind the client's own. undefined: what happens where
    a computation from released values has no result, if the statement holds one.
    """
    text: list[str] = []
    for number, (call, facts) in enumerate(blocks, first):
        text.append(f"DP block ${number}: {call}")
        text += [f"  {line}" for line in _facts(facts)]
    text += [f"Undefined: {undefined}"] if undefined else []
    return [*text, f"Then, on released values only: {outer}"]


def json_text(blocks: Sequence[tuple[str, Mapping[str, Any]]], outer: str, undefined: str | None = None) -> str:
    """The same as one JSON value."""
    found = [{"Call": call, "Facts": dict(facts)} for call, facts in blocks]
    more = {"Undefined": undefined} if undefined else {}
    return json.dumps([{"DP Blocks": found, **more, "Statement": outer}], indent=2)


def xml_text(blocks: Sequence[tuple[str, Mapping[str, Any]]], outer: str, undefined: str | None = None) -> str:
    """The same as one XML document, with PostgreSQL's root element; a fact with members is written as JSON."""
    items = []
    for call, facts in blocks:
        shown = "".join(
            f'    <Fact Name="{escape(key)}">{_text(value)}</Fact>\n'
            for key, value in facts.items()
            if value is not None
        )
        items.append(f"  <DP-Block>\n    <Call>{_text(call)}</Call>\n{shown}  </DP-Block>\n")
    items += [f"  <Undefined>{_text(undefined)}</Undefined>\n"] if undefined else []
    blocks_text, statement = "".join(items), f"  <Statement>{_text(outer)}</Statement>\n"
    return f'<explain xmlns="http://www.postgresql.org/2009/explain">\n{blocks_text}{statement}</explain>'


def _text(value: Any) -> str:
    return escape(value if isinstance(value, str) else json.dumps(value), quote=False)


# JSON is YAML.
DOCUMENTS = {"json": json_text, "yaml": json_text, "xml": xml_text}


def call_text(request: Mapping[str, Any]) -> str:
    """A request as the dp_* call that people would write; as SQL if it is over several relations, or to be decided."""
    source = request.get("from") or {}
    if request.get("query") is not None:
        return _decide_call(request)
    if request.get("workload") is not None:
        return _workload_call(request)
    if request.get("release") is not None:
        return _release_call(request["release"])
    if request.get("call") and "aggregates" not in request:
        return _own_call(request)
    if request.get("joins") or answered_from(request):
        return _sql(request)
    keys = request.get("keys") or []
    aggregates = [_aggregate(item) for item in request.get("aggregates") or []]
    grouped = bool(keys) or aggregates != ["count(*)"]
    parts = [_quoted(_named(source))]
    if grouped:
        parts.append(f"keys => {keys}")
    if aggregates != ["count(*)"]:
        parts.append(f"aggregates => {aggregates}")
    if request.get("where") is not None:
        parts.append(f"predicate => {_quoted(str(request['where']))}")
    return f"{'dp_group_by' if grouped else 'dp_count'}({', '.join(parts)})"


def _own_call(request: Mapping[str, Any]) -> str:
    """The call of a kind of question that asks for no aggregates: its members as they travel."""
    source, of = request.get("from"), request.get("of")
    parts = [] if source is None else [_quoted(_named(source))]
    parts += [f"{name} => {json.dumps(value)}" for name, value in request.items() if name not in _SHARED]
    if of is not None:  # behind the id stands the order of the session's own question
        parts.append(f"release => {_quoted(str(of).split(' ')[0])}")
    if request.get("where") is not None:
        parts.append(f"predicate => {_quoted(str(request['where']))}")
    return f"{request['call']}({', '.join(parts)})"


def _workload_call(request: Mapping[str, Any]) -> str:
    """dp_sum_workload, with its queries as they were asked."""
    source, asked = request.get("from") or {}, request["workload"]
    value = (request.get("aggregates") or [{}])[0].get("argument")
    parts = [_quoted(_named(source)), _quoted(str(value))]
    lists = (("thresholds", "thresholds"), ("ranges", "ranges"), ("workload", "matrix"), ("options", "options"))
    parts += [f"{name} => {asked[member]}" for name, member in lists if asked.get(member)]
    parts += [f"by => {_quoted(str(key))}" for key in request.get("keys") or ()]
    parts += ["per => 'user'"] if asked.get("per") == "user" else []
    if request.get("where") is not None:
        parts.append(f"predicate => {_quoted(str(request['where']))}")
    return f"dp_sum_workload({', '.join(parts)})"


def _release_call(asked: Mapping[str, Any]) -> str:
    """dp_release_numeric, with the size of its grid in place of it."""
    name, query, grid = str(asked.get("name")), str(asked.get("query")), asked.get("grid") or []
    mechanism = str(asked.get("mechanism") or "auto")
    more = f", mechanism => {_quoted(mechanism)}" if mechanism != "auto" else ""
    return f"dp_release_numeric({_quoted(name)}, {_quoted(query)}, grid => [{len(grid)} rows]{more})"


def answered_from(request: Mapping[str, Any]) -> dict[str, str]:
    """Whose answer is shown for plain SQL in a session that has set dp.synthetic, as a fact; no fact in others."""
    settings = request.get("settings") or {}
    table = settings.get("dp.synthetic")
    if not table or request.get("call") or not request.get("aggregates"):
        return {}
    fallback = str(settings.get("dp.synthetic_policy") or "").strip().lower() == "fallback"
    return {"answer": f"from {table}" + (", the private one where the bound is unmet" if fallback else "")}


def _decide_call(request: Mapping[str, Any]) -> str:
    """dp_decide, dp_decide_detail or dp_decide_plan."""
    asked = request.get("decide") or {}
    table = asked.get("synthetic") or {}
    given = {name: asked.get(name) for name in ("tau", "tau_percent")}
    given |= request.get("budget") or {}
    given |= asked.get("parameters") or {}
    copy = f"{table.get('schema')}.{table.get('name')}"
    parts = [_quoted(str(request["query"])), f"synthetic => {_quoted(copy)}"]
    parts += [f"{name} => {_given(name, value)}" for name, value in given.items() if value is not None]
    if request.get("mechanism") not in (None, "auto"):
        parts.append(f"mechanism => {_quoted(str(request['mechanism']))}")
    parts += ["fallback => true"] if asked.get("policy") == "fallback" else []
    return f"{request.get('call') or 'dp_decide'}({', '.join(parts)})"


def _given(name: str, value: Any) -> str:
    return _quoted(str(value)) if name == "score" else str(value)


def _facts(facts: Mapping[str, Any]) -> list[str]:
    shown: list[str] = []
    for key in [*(key for key in _ORDER if key in facts), *(key for key in facts if key not in _ORDER)]:
        value = facts[key]
        if key not in _SILENT and value not in (None, [], {}):
            shown += _SHOW.get(key, _plain)(key, value, facts)
    return shown


def _plain(key: str, value: Any, facts: Mapping[str, Any]) -> list[str]:
    text = json.dumps(value) if isinstance(value, Mapping | list) else str(value)
    return [f"{_LABELS.get(key, key)}: {text}"]


def _charge(key: str, value: Any, facts: Mapping[str, Any]) -> list[str]:
    """One charge, or the worst and the best where released bits decide."""
    if not isinstance(value, Mapping) or not {"worst", "best"} & set(value):
        return [f"{key}: {amount_text(value)}"]
    return [f"{key}, {case}: {amount_text(value[case])}" for case in ("worst", "best") if case in value]


def _amount(key: str, value: Any, facts: Mapping[str, Any]) -> list[str]:
    return [f"{_LABELS.get(key, key)}: {amount_text(value)}"]


def _margin(key: str, value: Any, facts: Mapping[str, Any]) -> list[str]:
    # A decision is right with some probability; it has no margin.
    return [] if facts.get("decisions") else [f"{_LABELS[key]}: {margin_text(facts)}"]


def _warnings(key: str, value: Any, facts: Mapping[str, Any]) -> list[str]:
    return [f"warning: {item}" for item in value]


def _aggregates(key: str, value: Any, facts: Mapping[str, Any]) -> list[str]:
    """How each aggregate is answered, or decided, why, and what else was considered."""
    shown = []
    decisions: Sequence[Mapping[str, Any]] = facts.get("decisions") or ()
    for number, item in enumerate(value):
        shown.append(
            f"{item.get('aggregate')}: {item.get('mechanism')}" + (f", {item['why']}" if item.get("why") else "")
        )
        for other in item.get("candidates") or ():
            shown.append(f"  considered: {other.get('mechanism')}, expected error {other.get('expected_error')}")
        shown += _decision(decisions[number]) if number < len(decisions) else []
    if len(decisions) == 1:
        shown += [_decider(item) for item in facts.get("decide") or ()]
    return shown


def _workload(key: str, value: Any, facts: Mapping[str, Any]) -> list[str]:
    """The strategy of a workload and its expected error, and that of every other one."""
    cut = f"theta {value['theta']:g} ({value['theta_by']})"
    first = f"{value['queries']} queries over {value['blocks']} buckets, {cut}, drawn for {value['data']}"
    chosen = f"{value['strategy']}, expected RMSE {value['expected_rmse']:g}"
    shown = [f"workload: {first}", f"strategy: {chosen}"]
    if value.get("isotonic"):
        shown.append("isotonic: answers do not decrease; low and high of all queries hold at once")
    for other in value.get("candidates") or ():
        if other["strategy"] != value["strategy"]:
            shown.append(f"  considered: {other['strategy']}, expected RMSE {other['expected_rmse']:g}")
    return shown


def _decision(public: Mapping[str, Any]) -> list[str]:
    """What is compared with what."""
    ends = f"{public.get('low')} and {public.get('high')}"
    return [
        f"  synthetic answer: {public.get('synthetic')}, by {public.get('table')} ({public.get('provenance')})",
        f"  satisfied: strictly between {ends}, tau {public.get('tau')}, at epsilon {public.get('epsilon')}",
    ]


def _decider(row: Mapping[str, Any]) -> str:
    """One row of dp_decide_plan."""
    marked = ", ".join(word for word in ("recommended", "extension") if row.get(word))
    parts = [f"  decider: {row.get('mechanism')}" + (f" ({marked})" if marked else "")]
    parts += [f"least tau {row['tau_min']}"] if row.get("tau_min") is not None else []
    parts += [f"epsilon needed {row['epsilon_needed']}"] if row.get("epsilon_needed") is not None else []
    return ", ".join([*parts, str(row.get("note") or "")])


_SHOW: dict[str, Callable[[str, Any, Mapping[str, Any]], list[str]]] = {
    "charge": _charge,
    "left": _amount,
    "cap": _amount,
    "margin": _margin,
    "warnings": _warnings,
    "aggregates": _aggregates,
    "workload": _workload,
}


def _sql(request: Mapping[str, Any]) -> str:
    """A request as a SELECT."""
    keys, aggregates = request.get("keys") or [], [_aggregate(item) for item in request.get("aggregates") or []]
    parts = [f"SELECT {', '.join([*keys, *aggregates])} FROM {_relation(request['from'])}"]
    parts += [f"JOIN {_relation(item)} ON {item.get('on') or 'true'}" for item in request.get("joins") or ()]
    parts += [f"WHERE {request['where']}"] if request.get("where") else []
    return " ".join([*parts, *([f"GROUP BY {', '.join(keys)}"] if keys else [])])


def _relation(source: Mapping[str, Any]) -> str:
    return _named(source) + (f" {written(str(source['alias']))}" if source.get("alias") else "")


def _named(source: Mapping[str, Any]) -> str:
    """A relation with its schema, quoted where SQL needs it."""
    return written(str(source.get("schema")), str(source.get("name")))


def _aggregate(item: Mapping[str, Any]) -> str:
    argument = item.get("argument")
    inside = ("distinct " if item.get("distinct") else "") + ("" if argument is None else str(argument))
    parameters = item.get("parameters") or {}
    if "fraction" in parameters:
        inside = f"{parameters['fraction']}) within group (order by {inside}"
    tail = f" filter (where {item['filter']})" if item.get("filter") else ""
    return f"{item.get('function')}({inside}){tail}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
