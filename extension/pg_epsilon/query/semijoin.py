"""Sub-queries over PUBLIC tables in a condition: IN, NOT IN, EXISTS, and min, max, count as a constant.

A public table is the same on neighbouring databases, so a condition that reads one is still a function of the row alone
(composition.md §2.6: no row is added, whatever the public table holds). A protected table in a sub-query would let one
unit's rows decide about another's: DP003. NULLs mean what they mean in PostgreSQL: NOT IN over a column with a NULL is
never true.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pg_epsilon.errors import DPError
from pg_epsilon.query.compare import boolean, pair
from pg_epsilon.query.context import Context
from pg_epsilon.query.literals import coerce, identifier
from pg_epsilon.query.logic import columns_of
from pg_epsilon.query.parse import ast, enums, written
from pg_epsilon.query.schema import Relation
from pg_epsilon.query.types import BOOL, EXACT, INT8, MOMENTS, TEXT, Kind, Scope, Term

_S = enums.SubLinkType
_HINT = (
    "Supported over public tables: x [NOT] IN (SELECT c FROM schema.t [WHERE ...]), [NOT] EXISTS (SELECT ... FROM ...),"
    " and (SELECT min(c), max(c) or count(*) FROM schema.t [WHERE ...])."
)
_ORDERED = EXACT | MOMENTS | {Kind.FLOAT, Kind.TEXT, Kind.TIME, Kind.ENUM}
_MAX_DEPTH = 3


@dataclass(frozen=True)
class _Inner:
    """A sub-query being compiled: where its names are looked up, its FROM and WHERE, the columns it reads."""

    ctx: Context
    tail: str
    targets: tuple[Any, ...]
    outside: frozenset[str]

    def correlated(self, *terms: Term) -> frozenset[str]:
        """The columns of the surrounding query that the sub-query reads."""
        return _outer(self.ctx, columns_of(terms)) | self.outside


def compile_sublink(ctx: Context, node: Any) -> Term:
    """Compile a sub-query over one public table. Errors: DP003 for any other, 42P01 if there is no such table."""
    handler = _FORMS.get(node.subLinkType)
    if handler is None:
        raise ctx.refuse(node, "a sub-query of this form is not supported", _HINT)
    return handler(ctx, node)


def _open(ctx: Context, node: Any) -> _Inner:
    """Read the SELECT of a sub-query: one public table and a condition, nothing else."""
    select = node.subselect
    if type(select) is not ast.SelectStmt or not select.targetList or not select.fromClause:
        raise ctx.refuse(node, "a sub-query of this form is not supported", _HINT)
    _check(ctx, node, select)
    table = select.fromClause[0]
    if len(select.fromClause) != 1 or type(table) is not ast.RangeVar:
        raise ctx.refuse(node, "a sub-query reads one public table", _HINT)
    _check(ctx, node, table)
    alias = None
    if table.alias is not None:
        _check(ctx, node, table.alias)
        alias = table.alias.aliasname
    depth = sum(1 for _ in ctx.scope.levels)
    if depth > _MAX_DEPTH:
        raise ctx.refuse(node, "sub-queries are nested too deeply", _HINT)
    relation = _public(ctx, node, table)
    scope = Scope(
        relation=relation,
        alias=alias,
        sql_alias=f"s{depth}",
        encoding=ctx.scope.encoding,
        timezone=ctx.scope.timezone,
        server_version=ctx.scope.server_version,
        now=ctx.scope.now,
        outer=ctx.scope,
        public=ctx.scope.public,
    )
    inner = replace(ctx, scope=scope)
    tail = f"FROM {identifier(relation.schema)}.{identifier(relation.name)} AS {scope.sql_alias}"
    outside: frozenset[str] = frozenset()
    if select.whereClause is not None:
        condition = boolean(inner, select.whereClause, inner.compile(select.whereClause))
        tail += f" WHERE {condition.sql}"
        outside = _outer(inner, condition.columns)
    for target in select.targetList:
        if type(target) is not ast.ResTarget:
            raise ctx.refuse(node, "a sub-query of this form is not supported", _HINT)
        _check(ctx, node, target)
    return _Inner(inner, tail, tuple(target.val for target in select.targetList), outside)


def _check(ctx: Context, node: Any, part: Any) -> None:
    """Refuse a clause that is not read, at the sub-query."""
    plain = type(part) is not ast.RangeVar or (part.inh is True and part.relpersistence == "p")
    try:
        ctx.check_fields(part)
    except DPError:
        plain = False
    if not plain:
        raise ctx.refuse(node, "the sub-query has a clause that is not supported", _HINT)


def _public(ctx: Context, node: Any, table: Any) -> Relation:
    if table.schemaname is None:
        raise ctx.refuse(
            node,
            f"the schema of {table.relname} is not given",
            f"Write schema.{written(table.relname)} in a sub-query.",
        )
    lookup = ctx.scope.public
    relation = lookup(table.schemaname, table.relname) if lookup is not None else None
    shown = written(table.schemaname, table.relname)
    if relation is None:
        raise ctx.refuse(
            node, f"relation {shown} does not exist", "dp.published lists what can be asked about.", "42P01"
        )
    if not relation.public:
        raise ctx.refuse(
            node,
            f"{shown} is protected: a sub-query reads public tables only",
            "Join it along a foreign key, or ask for the inner result first and use its value as a constant.",
        )
    return relation


def _outer(ctx: Context, columns: frozenset[str]) -> frozenset[str]:
    """The columns that are not of the sub-query's own table."""
    own = f"{ctx.scope.sql_alias}."
    return frozenset(column for column in columns if not column.startswith(own))


def _exists(ctx: Context, node: Any) -> Term:
    inner = _open(ctx, node)
    for target in inner.targets:
        if not (type(target) is ast.ColumnRef and isinstance((target.fields or ())[-1], ast.A_Star)):
            inner.ctx.compile(target)  # refuses aggregates, which would make the sub-query always have a row
    return Term(f"(EXISTS (SELECT {inner.tail}))", BOOL, inner.correlated())


def _member(ctx: Context, node: Any) -> Term:
    negated = node.subLinkType == _S.ALL_SUBLINK
    operator = [part.sval for part in node.operName or ()] or ["="]
    if operator not in (["<>"], ["!="]) if negated else operator != ["="]:
        raise ctx.refuse(node, "only = ANY and <> ALL of a sub-query are supported", _HINT)
    if node.testexpr is None or type(node.testexpr) is ast.RowExpr:
        raise ctx.refuse(
            node, "a row cannot be looked up in a sub-query", "Write EXISTS with the columns joined by AND."
        )
    inner = _open(ctx, node)
    if len(inner.targets) != 1:
        raise ctx.refuse(node, "the sub-query must return one column", "Select one column.")
    left, right = ctx.compile(node.testexpr), inner.ctx.compile(inner.targets[0])
    if left.kind is Kind.UNKNOWN and right.kind is Kind.UNKNOWN:
        left = coerce(ctx, node, left, TEXT)
    left, right = pair(ctx, node, left, right)
    word = "NOT IN" if negated else "IN"
    sql = f"({left.sql} {word} (SELECT {right.sql} {inner.tail}))"
    return Term(sql, BOOL, left.columns | inner.correlated(right))


def _scalar(ctx: Context, node: Any) -> Term:
    """A value of a public table by itself: the same for every row, so the server computes it once, as a constant.

    `(SELECT expression)` reads no table: it is the expression.
    """
    select = node.subselect
    if type(select) is ast.SelectStmt and not select.fromClause and not select.whereClause:
        _check(ctx, node, select)
        targets: tuple[Any, ...] = select.targetList or ()
        if len(targets) == 1 and type(targets[0]) is ast.ResTarget:
            return ctx.compile(targets[0].val)
    inner = _open(ctx, node)
    call = inner.targets[0]
    names = [part.sval for part in call.funcname or ()] if type(call) is ast.FuncCall else []
    if len(names) == 2 and names[0] == "pg_catalog":
        names = names[1:]
    name = names[0] if len(names) == 1 else None
    used = {slot for slot in call if getattr(call, slot) not in (None, False, ())} if name else set()
    if len(inner.targets) != 1 or name not in ("min", "max", "count") or used - _CALL:
        raise ctx.refuse(node, "this sub-query may return several values", _HINT)
    if call.agg_star != (name == "count" and not call.args) or (not call.agg_star and len(call.args) != 1):
        raise ctx.refuse(node, "a sub-query of this form is not supported", _HINT)
    argument = Term("*", INT8) if call.agg_star else inner.ctx.compile(call.args[0])
    if argument.kind is Kind.UNKNOWN:
        argument = coerce(ctx, node, argument, TEXT)
    if inner.correlated(argument):
        raise ctx.refuse(node, "a sub-query for a value cannot depend on the row", "Join the public table instead.")
    if name != "count" and argument.kind not in _ORDERED:
        raise ctx.refuse(node, f"{name} of {argument.kind.value} is not supported", "Use a number, date or text.")
    type_ = INT8 if name == "count" else argument.type
    return Term(f"(SELECT pg_catalog.{name}({argument.sql}) {inner.tail})", type_)


_CALL = frozenset({"funcname", "args", "agg_star", "funcformat", "location"})
_FORMS: dict[Any, Callable[[Context, Any], Term]] = {
    _S.EXISTS_SUBLINK: _exists,
    _S.ANY_SUBLINK: _member,
    _S.ALL_SUBLINK: _member,
    _S.EXPR_SUBLINK: _scalar,
}
