"""The text of a decision's query → the members `from`, `where` and `aggregates` of a request (docs/internals.md §1).

One SELECT of one aggregate over one relation, with an optional WHERE. Every node and field that is not understood is
refused, never dropped (rule R1): both answers come from the same compiled request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pg_epsilon.errors import SHAPE, DPError
from pg_epsilon.query.aggregates import aggregate_from_text
from pg_epsilon.query.parse import ast, children, deparse, enums, parse_query, written

RelationName = tuple[str, str]  # schema and name
FUNCTIONS = ("count", "sum", "avg", "median", "percentile_disc")
# In a query, the relation that is meant: the original and its copy are asked the same.
STAND_IN = "table"
_PLACEHOLDER = "{" + STAND_IN + "}"
_EXAMPLE = f"For example SELECT count(*) FROM {_PLACEHOLDER} WHERE age > 30."
_DECIDED = "count(*), count(x), count(DISTINCT unit), sum, avg, median and percentile_disc"

_CLAUSES: Mapping[str, tuple[str, str]] = {
    "withClause": ("WITH", "Write the conditions into WHERE."),
    "distinctClause": ("DISTINCT", "Leave DISTINCT out, or ask for count(DISTINCT unit)."),
    "intoClause": ("INTO", "Leave INTO out: a decision is a value."),
    "groupClause": ("GROUP BY", "Ask for one group at a time: WHERE education = 'Masters'."),
    "havingClause": ("HAVING", "A decision compares one aggregate: leave HAVING out."),
    "windowClause": ("WINDOW", "A decision compares one aggregate: leave WINDOW out."),
    "valuesLists": ("VALUES", _EXAMPLE),
    "sortClause": ("ORDER BY", "One aggregate is one row: leave ORDER BY out."),
    "limitOffset": ("OFFSET", "One aggregate is one row: leave OFFSET out."),
    "limitCount": ("LIMIT", "One aggregate is one row: leave LIMIT out."),
    "lockingClause": ("FOR UPDATE", "Leave the locking clause out."),
}
_PLAIN = frozenset({"targetList", "fromClause", "whereClause", "limitOption", "op", "all", "groupDistinct"})
_FUNCTION_HINTS: Mapping[str, str] = {
    "percentile_cont": "percentile_cont interpolates between rows: use percentile_disc(0.5) WITHIN GROUP (ORDER BY x).",
}
_SOURCES: Mapping[str, str] = {
    "JoinExpr": "a join: ask about one relation",
    "RangeSubselect": "a sub-query: write its conditions into WHERE",
    "RangeFunction": "a function: ask about a relation",
    "RangeTableSample": "TABLESAMPLE: all rows are asked",
}


def members(query: str, path: Sequence[str], relation: RelationName, synthetic: RelationName) -> dict[str, Any]:
    """`from`, `where` and `aggregates` of a request for the query's text.

    FROM names the relation, its synthetic copy or {table}; each means the relation. path: the schemas in which an
    unqualified name is looked up. Errors: 42601 what is no SQL, DP003 everything but one aggregate of one relation.
    """
    select = _only_select(parse_query(query, STAND_IN))
    target, source = _only_target(select), _only_source(select)
    names = _check_source(source, path, relation, synthetic)
    _check_stand_ins(select, source)
    return {
        "from": {"schema": relation[0], "name": relation[1], "alias": _alias(select, source, names)},
        "where": deparse(select.whereClause) if select.whereClause is not None else None,
        "aggregates": [_aggregate(target)],
    }


def _only_select(statements: Sequence[Any]) -> Any:
    """The one plain SELECT."""
    if len(statements) != 1:
        what = "several statements" if statements else "no statement"
        raise DPError(SHAPE, f"the query is {what}", f"Write one SELECT of one aggregate. {_EXAMPLE}")
    select = statements[0].stmt
    if not isinstance(select, ast.SelectStmt):
        raise DPError(SHAPE, "the query is not a SELECT", f"Write one SELECT of one aggregate. {_EXAMPLE}")
    if select.op != enums.SetOperation.SETOP_NONE:
        raise DPError(SHAPE, "set operations are not supported in a decision's query", "Ask for each SELECT by itself.")
    for slot in sorted(_used(select) - _PLAIN):
        words, hint = _CLAUSES.get(slot, (slot, _EXAMPLE))
        raise DPError(SHAPE, f"{words} is not supported in a decision's query", hint)
    if select.limitOption != enums.LimitOption.LIMIT_OPTION_DEFAULT or select.all or select.groupDistinct:
        raise DPError(SHAPE, "this form of SELECT is not supported in a decision's query", _EXAMPLE)
    return select


def _only_target(select: Any) -> Any:
    targets: tuple[Any, ...] = select.targetList or ()
    if len(targets) != 1 or _used(targets[0]) - {"name", "val", "location"}:
        raise DPError(
            SHAPE, "a decision's query has one result column", f"Ask for each aggregate by itself. {_EXAMPLE}"
        )
    return targets[0].val


def _only_source(select: Any) -> Any:
    sources: tuple[Any, ...] = select.fromClause or ()
    if len(sources) != 1:
        raise DPError(SHAPE, "a decision's query reads one relation", f"{_EXAMPLE} Joins are not supported.")
    if not isinstance(sources[0], ast.RangeVar):
        kind = _SOURCES.get(type(sources[0]).__name__, "no relation")
        raise DPError(SHAPE, f"FROM holds {kind}", _EXAMPLE)
    return sources[0]


def _check_source(source: Any, path: Sequence[str], relation: RelationName, synthetic: RelationName) -> bool:
    """DP003 unless FROM means the relation; whether it does by the relation's own name."""
    if _used(source) - {"schemaname", "relname", "inh", "relpersistence", "alias", "location"} or not source.inh:
        raise DPError(SHAPE, "FROM holds more than the name of a relation", f"Leave ONLY out. {_EXAMPLE}")
    if source.alias is not None and _used(source.alias) - {"aliasname"}:
        raise DPError(SHAPE, "an alias with column names is not supported", "Give the relation's alias alone.")
    schemas = [source.schemaname] if source.schemaname is not None else list(path)
    meant = [pair for pair in (relation, synthetic) if pair[0] in schemas and pair[1] == source.relname]
    if not meant and (source.schemaname is not None or source.relname != _PLACEHOLDER):
        raise DPError(
            SHAPE,
            f"the query reads {source.relname:.63}, which is neither the relation nor its synthetic copy",
            f"Read from {written(*relation)}, {written(*synthetic)} or {_PLACEHOLDER}.",
        )
    return relation in meant


def _alias(select: Any, source: Any, own_name: bool) -> str | None:
    """What columns may be qualified with: the alias, else the name as it was written."""
    if source.alias is not None:
        return str(source.alias.aliasname)
    if own_name or (source.relname == _PLACEHOLDER and _PLACEHOLDER not in _qualifiers(select)):
        return None
    return str(source.relname)


def _check_stand_ins(select: Any, source: Any) -> None:
    """{table} stands for the relation of FROM and qualifies its columns; elsewhere it means nothing."""
    for node in _descendants(select):
        if node is source or not isinstance(node, ast.RangeVar | ast.ColumnRef):
            continue
        bare = node.relname if isinstance(node, ast.RangeVar) else _names(node)[-1:] == [_PLACEHOLDER]
        if bare in (True, _PLACEHOLDER):
            raise DPError(SHAPE, f"{_PLACEHOLDER} stands for the relation in FROM alone", _EXAMPLE)


def _aggregate(target: Any) -> dict[str, Any]:
    """The request's form of the one aggregate."""
    called = target.funcname[-1].sval if isinstance(target, ast.FuncCall) and target.funcname else None
    if called not in FUNCTIONS:
        named = f"{called:.63} is no aggregate that can be decided" if called else "the result column is no aggregate"
        hint = _FUNCTION_HINTS.get(called or "", f"Deciders exist for {_DECIDED}.")
        raise DPError(SHAPE, named, hint)
    if target.over is not None:
        raise DPError(SHAPE, "a window function is not supported in a decision's query", "Leave OVER out.")
    return {**aggregate_from_text(deparse(target)), "name": called}


def _used(node: Any) -> set[str]:
    """The fields of a node that hold something."""
    return {slot for slot in node if getattr(node, slot) not in (None, False, ())}


def _names(node: Any) -> list[str]:
    return [str(part.sval) for part in node.fields if isinstance(part, ast.String)]


def _qualifiers(select: Any) -> set[str]:
    """What columns are qualified with."""
    columns: list[Any] = [node for node in _descendants(select) if isinstance(node, ast.ColumnRef)]
    return {_names(node)[0] for node in columns if len(node.fields) > 1}


def _descendants(root: Any) -> list[Any]:
    found, stack = [], [root]
    while stack:
        node = stack.pop()
        found.append(node)
        stack.extend(children(node))
    return found
