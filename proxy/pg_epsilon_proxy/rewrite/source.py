"""The FROM clause of a block: its relations, joined by inner joins, with derived tables, CTEs and views merged in.

Merging is what PostgreSQL's planner does with such sub-queries: their columns are replaced by what they stand for, and
their conditions join the block's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pg_epsilon.query.parse import ast, enums

from ..session.rewriting import Refusal
from . import refusals
from .colnames import column_name
from .env import Env, Reader, Rows
from .frames import Frame, Leaf, joined_frame, leaf_frame, renamed_frame
from .names import PROTECTED, PUBLIC
from .positions import location
from .resolve import Resolver
from .tree import kind, strings, walk

MAX_RELATIONS = 16
_JOINS = (
    "ask about the protected relations alone, and join the released result: FROM (SELECT key, count(*) ...) r JOIN t"
)
_INNER = "write JOIN (an inner join); for rows without a partner ask a second query, with NOT EXISTS or IS NULL"
_ONE_ROW = "project columns and filter rows only; aggregate, sort and cut outside"
# Which fields of a SELECT that is merged are read; any other is refused once it is set. Sorting rows changes no
# aggregate that a block has.
_MERGED: dict[str, str] = {
    "fromClause": "",
    "whereClause": "",
    "targetList": "",
    "withClause": "",
    "sortClause": "",
    "limitOption": "",
    "op": "",
    "intoClause": "INTO",
    "distinctClause": "DISTINCT",
    "groupClause": "GROUP BY",
    "groupDistinct": "GROUP BY DISTINCT",
    "havingClause": "HAVING",
    "windowClause": "WINDOW",
    "valuesLists": "VALUES",
    "limitOffset": "OFFSET",
    "limitCount": "LIMIT",
    "lockingClause": "FOR UPDATE or FOR SHARE",
    "all": "ALL",
    "larg": "a set operation",
    "rarg": "a set operation",
}
# Expressions of a derived table that make other rows of its rows.
_NOT_A_VALUE = {"GroupingFunc": "GROUPING()", "JsonObjectAgg": "JSON_OBJECTAGG()", "JsonArrayAgg": "JSON_ARRAYAGG()"}


@dataclass
class Source:
    """A block's FROM clause. conditions: of joins and merged queries, resolved; frame: what names mean."""

    leaves: list[Leaf] = field(default_factory=list)
    conditions: list[Any] = field(default_factory=list)
    frame: Frame = field(default_factory=Frame)

    @property
    def protected(self) -> Leaf:
        """The first protected relation: the block is named after it."""
        return next(leaf for leaf in self.leaves if not leaf.public)


class SourceBuilder:
    """Reads one block's FROM clause. at: where a part without a place of its own is shown."""

    def __init__(self, reader: Reader, shown: str, at: Any, taken: Callable[[str], bool]) -> None:
        self._reader = reader
        self._shown = shown
        self._at = at
        self._taken = taken
        self._source = Source()

    def build(self, select: Any, env: Env) -> Source:
        """Errors: DP003 for anything but inner joins of protected and public relations and what merges into them."""
        self._source.frame = self._clause(select.fromClause, env)
        return self._source

    # -- FROM items ---------------------------------------------------------------------------------------------

    def _clause(self, items: Any, env: Env) -> Frame:
        frame = Frame()
        for item in items or ():
            frame = frame.plus(self._item(item, env))
        return frame

    def _item(self, item: Any, env: Env) -> Frame:
        if isinstance(item, ast.JoinExpr):
            return self._join(item, env)
        if isinstance(item, ast.RangeTableSample):
            raise self._part("TABLESAMPLE", "leave it out: the answer is about all rows", item)
        if isinstance(item, ast.RangeSubselect):
            if item.lateral:
                raise self._part("LATERAL", "join on conditions instead", item)
            rows = Rows(item.subquery, env)
            if item.alias is None:
                return self._merged(rows, None, (), item)
            return self._merged(rows, item.alias.aliasname, strings(item.alias.colnames), item)
        if isinstance(item, ast.RangeVar):
            return self._named(item, env)
        raise self._part("a join or a second FROM item", _JOINS, item)

    def _named(self, item: Any, env: Env) -> Frame:
        rows = self._reader.rows(item, env)
        relation = self._reader.relation(item, env)
        if rows is not None:
            self._check_name(item)
            alias = item.alias.aliasname if item.alias is not None else item.relname
            own = strings(item.alias.colnames) if item.alias is not None else ()
            return self._merged(rows, alias, (*own, *rows.columns[len(own) :]), item)
        if relation is None or relation.role not in (PROTECTED, PUBLIC):
            raise self._part("a join or a second FROM item", _JOINS, item)
        self._check_name(item)
        if len(self._source.leaves) == MAX_RELATIONS:
            raise self._part(f"a join of more than {MAX_RELATIONS} relations", "join fewer relations", item)
        leaf = Leaf(relation, self._unique(item.alias.aliasname if item.alias is not None else item.relname), item)
        self._source.leaves.append(leaf)
        return leaf_frame(leaf)

    def _check_name(self, item: Any) -> None:
        if not item.inh:
            raise self._part("ONLY", "leave it out", item)
        if item.catalogname is not None:
            raise self._part("a database name before the schema", "leave it out", item)

    def _unique(self, name: str) -> str:
        used = {leaf.name for leaf in self._source.leaves}
        unique, number = name, 1
        while unique in used or (unique != name and self._taken(unique)):
            number += 1
            unique = f"{name}_{number}"
        return unique

    def _join(self, item: Any, env: Env) -> Frame:
        if item.jointype != enums.JoinType.JOIN_INNER:
            raise self._part("an outer join", _INNER, item.rarg)
        if item.alias is not None or item.join_using_alias is not None:
            raise self._part("an alias of a whole join", "name the relations themselves", item)
        left, right = self._item(item.larg, env), self._item(item.rarg, env)
        shared = strings(item.usingClause)
        if item.isNatural:
            shared = tuple(name for name, _ in left.columns if right.visible(name))
        for name in shared:
            sides = (left.find((name,)), right.find((name,)))
            if None in sides:
                raise self._part(f"JOIN USING ({name})", "write JOIN ... ON a.x = b.y", item.rarg)
            equal = (ast.String(sval="="),)
            self._source.conditions.append(
                ast.A_Expr(kind=enums.A_Expr_Kind.AEXPR_OP, name=equal, lexpr=sides[0], rexpr=sides[1])
            )
        if item.quals is not None:
            condition = self._resolver(left.plus(right), env).resolve(item.quals, "ON")
            self._source.conditions += conjuncts(condition)
        return joined_frame(left, right, shared)

    # -- sub-queries that merge ---------------------------------------------------------------------------------

    def _merged(self, rows: Rows, alias: str | None, names: tuple[str, ...], item: Any) -> Frame:
        """A projecting and filtering query as part of the block: its columns, by what they stand for."""
        select = rows.query
        if not isinstance(select, ast.SelectStmt) or self._reader.aggregates(select) or not select.fromClause:
            raise self._part("a join with a query of another kind", _JOINS, item)
        for slot in select:
            words = _MERGED.get(slot, f"this clause ({slot})")
            if words and getattr(select, slot):
                raise self._part(f"{words} in a sub-query that yields rows", _ONE_ROW, getattr(select, slot))
        env = self._reader.inside(select.withClause, rows.env)
        inside = self._clause(select.fromClause, env)
        resolver = self._resolver(inside, env)
        if select.whereClause is not None:
            self._source.conditions += conjuncts(resolver.resolve(select.whereClause, "WHERE"))
        columns: list[tuple[str, Any]] = []
        for target in select.targetList or ():
            columns += self._target(target, inside, resolver)
        shown = Frame((), tuple(columns))
        if len(names) > len(columns):
            raise self._part("a column alias list", "use the columns' own names", item)
        return renamed_frame(shown, alias, names)

    def _target(self, target: Any, inside: Frame, resolver: Resolver) -> list[tuple[str, Any]]:
        for node in walk(target.val):
            if kind(node) in _NOT_A_VALUE or (
                isinstance(node, ast.FuncCall)
                and (node.over is not None or strings(node.funcname)[-1] in self._reader.facts.sets)
            ):
                raise self._part("a window or set-returning function in a sub-query that yields rows", _ONE_ROW, node)
        if isinstance(target.val, ast.ColumnRef):
            *qualifier, last = strings(target.val.fields)
            if last == "*":
                found = inside.star(qualifier)
                if found is None:
                    raise self._part(".".join((*qualifier, "*")), _ONE_ROW, target.val)
                return list(found)
        value = resolver.resolve(target.val, "a sub-query that yields rows")
        return [(target.name or column_name(target.val) or "?column?", typed(value))]

    def _resolver(self, frame: Frame, env: Env) -> Resolver:
        return Resolver(self._reader, env, frame, self._shown, self._at)

    def _part(self, what: str, hint: str, at: Any) -> Refusal:
        return refusals.part(what, self._shown, hint, at if location(at) is not None else self._at)


def typed(value: Any) -> Any:
    """A derived table's column has a type, where a bare constant merged elsewhere would take another."""
    if isinstance(value, ast.A_Const) and (value.isnull or isinstance(value.val, ast.String)):
        names = (ast.String(sval="pg_catalog"), ast.String(sval="text"))
        return ast.TypeCast(arg=value, typeName=ast.TypeName(names=names, setof=False, pct_type=False, typemod=-1))
    return value


def conjuncts(condition: Any) -> list[Any]:
    """The parts of a condition that all must hold."""
    if isinstance(condition, ast.BoolExpr) and condition.boolop == enums.BoolExprType.AND_EXPR:
        return [part for item in condition.args or () for part in conjuncts(item)]
    return [condition]


def conjunction(parts: list[Any]) -> Any:
    """One condition of several; None of none."""
    if len(parts) < 2:
        return parts[0] if parts else None
    return ast.BoolExpr(boolop=enums.BoolExprType.AND_EXPR, args=tuple(parts))
