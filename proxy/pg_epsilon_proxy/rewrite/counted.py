"""count(*) over SELECT DISTINCT is count(DISTINCT ...): the size of a declared domain is no count of rows.

A SELECT DISTINCT of protected rows, or a GROUP BY without aggregates, gives the declared values, whether rows have them
or not. Whoever counts its rows means those that occur. Django, SQLAlchemy and Superset write distinct counts so.
"""

from __future__ import annotations

from typing import Any

from pg_epsilon.query.parse import ast, enums

from . import refusals
from .colnames import column_name
from .env import Env, Reader
from .tree import function_name, strings, walk

_WHAT = "a count over the declared values of protected columns, which counts no rows,"
_HINT = (
    "write SELECT count(DISTINCT x) FROM ... WHERE ..., or SELECT count(*) FROM (SELECT DISTINCT x, y FROM ... WHERE"
    " ...) AS d and nothing else; the declared values themselves: SELECT DISTINCT x"
)
# Of a SELECT that counts, and of one that is counted: the fields that may be set.
_OUTER = frozenset({"targetList", "fromClause", "sortClause", "limitOption", "op"})
_INNER = frozenset({"targetList", "fromClause", "whereClause", "distinctClause", "sortClause", "limitOption", "op"})


def merge(select: Any, env: Env, reader: Reader) -> None:
    """Change a SELECT that counts the rows of a set of protected values into the block that is meant.

    Errors: DP003 where it counts them otherwise than as the whole of `SELECT count(...) FROM (SELECT DISTINCT ...)`.
    """
    calls = [call for call in reader.aggregate_calls(select) if function_name(call)[-1] == "count"]
    if not calls:
        return
    found = next(_sets(select.fromClause, env, reader), None)
    if found is None:
        return
    item = select.fromClause[0]
    values = _values(item) if len(select.fromClause) == 1 and _only(select, _OUTER) else None
    every = list(reader.aggregate_calls(select))
    if values is None or len(every) != len(calls) or not all(_counts(call, item, values) for call in calls):
        raise refusals.shape(f"{_WHAT} is not supported", _HINT, calls[0])
    inner = item.subquery
    for call in calls:
        # count(x) leaves NULL out, count(*) counts it: a row value is never NULL.
        value = inner.targetList[0].val if call.args and not isinstance(call.args[0], ast.A_Const) else None
        call.args = (value if value is not None else _row(inner),)
        call.agg_star, call.agg_distinct = False, True
    select.fromClause, select.whereClause = inner.fromClause, inner.whereClause


def _row(inner: Any) -> Any:
    values = tuple(target.val for target in inner.targetList)
    return ast.RowExpr(args=values, row_format=enums.CoercionForm.COERCE_EXPLICIT_CALL)


def _sets(items: Any, env: Env, reader: Reader) -> Any:
    """The FROM items that yield declared values of protected columns, and nothing that rows decide."""
    for item in items or ():
        if isinstance(item, ast.JoinExpr):
            yield from _sets((item.larg, item.rarg), env, reader)
        elif isinstance(item, ast.RangeSubselect) and reader.is_set(item.subquery, env):
            yield item
        elif isinstance(item, ast.RangeVar):
            rows = reader.rows(item, env)
            named = item.schemaname is None and item.relname in env.sets
            if named or (rows is not None and reader.is_set(rows.query, rows.env)):
                yield item


def _values(item: Any) -> tuple[str | None, ...] | None:
    """The names of the values of a SELECT DISTINCT that is a FROM item; None for any other form of a set."""
    if not isinstance(item, ast.RangeSubselect) or item.lateral or not _only(item.subquery, _INNER):
        return None
    inner: Any = item.subquery
    if not inner.distinctClause or any(one is not None for one in inner.distinctClause):
        return None
    targets = inner.targetList or ()
    if any(isinstance(node, ast.A_Star) for target in targets for node in walk(target.val)):
        return None
    names = [target.name or column_name(target.val) for target in targets]
    own = strings(item.alias.colnames) if item.alias is not None else ()
    return (*own, *names[len(own) :])


def _counts(call: Any, item: Any, values: tuple[str | None, ...]) -> bool:
    """Whether a call is count(*), count(1), or count of the only value."""
    slots = {slot for slot in call if getattr(call, slot)}
    if slots - {"funcname", "args", "agg_star", "agg_distinct", "funcformat", "location"}:
        return False
    if call.agg_star:
        return not call.agg_distinct
    (argument,) = call.args if len(call.args or ()) == 1 else (None,)
    if isinstance(argument, ast.A_Const):
        return not call.agg_distinct and not argument.isnull
    if not isinstance(argument, ast.ColumnRef) or len(values) != 1:
        return False
    *before, last = strings(argument.fields)
    alias = item.alias.aliasname if item.alias is not None else None
    return last == values[0] and before in ([], [alias])


def _only(select: Any, fields: frozenset[str]) -> bool:
    """Whether a SELECT has nothing but these fields, and no set operation or cut in them."""
    plain = select.op == enums.SetOperation.SETOP_NONE and not select.limitCount and not select.limitOffset
    return plain and not any(getattr(select, slot) for slot in select if slot not in fields)
