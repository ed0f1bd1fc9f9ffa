"""One SELECT over a protected relation: its aggregate core becomes a block, everything else stays as post-processing.

Every field of the node is listed in _FIELDS: used, left outside, or refused. An unlisted one (a newer grammar) is
refused as soon as it is set (rule R1). Names resolve as PostgreSQL resolves them: GROUP BY prefers columns to output
names, ORDER BY the reverse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pg_epsilon.query.parse import ast, enums

from ..session.rewriting import Refusal
from . import refusals
from .aggregates import Aggregate, compile_aggregate, request_of
from .blocks import QueryBlock
from .colnames import column_name
from .names import Facts, Relation
from .positions import location
from .scope import Scope, dp_function, relation_name
from .tree import column, function_name, kind, replace, replace_children, sql_text, strings, substitute, walk

# Which part of a block SELECT each field is: its core, post-processing that stays outside, or the words of a refusal.
_FIELDS: dict[str, str] = {
    "fromClause": "core",
    "whereClause": "core",
    "groupClause": "core",
    "targetList": "outside",
    "havingClause": "outside",
    "windowClause": "outside",
    "sortClause": "outside",
    "limitOffset": "outside",
    "limitCount": "outside",
    "limitOption": "outside",
    "distinctClause": "outside",
    "withClause": "outside",
    "intoClause": "outside",
    "op": "outside",
    "groupDistinct": "GROUP BY DISTINCT",
    "valuesLists": "VALUES",
    "lockingClause": "FOR UPDATE or FOR SHARE",
    "all": "ALL",
    "larg": "a set operation",
    "rarg": "a set operation",
}
_JOINS = (
    "ask about one protected relation at a time, and join the released result: FROM (SELECT key, count(*) ...) r JOIN t"
)
_KEYS = "group by plain columns with a declared domain; several groupings: UNION ALL of queries"
_COLUMNS = "add the column to GROUP BY, or use it inside an aggregate or in WHERE"
_OWN = "use published columns of {} only; a query over protected data cannot refer to the query around it"
_VALUES = "write its values as constants, for example IN (1, 2); run the sub-query by itself first"
_RELEASED = "run the dp_* call by itself first, and write the value that it released as a constant"
_CORRELATED = (
    "write the sub-query's own columns with its table's name before them, as in t.x; a query over protected data "
    "cannot be correlated"
)
_INSTEAD = "use the plain aggregates, one query for each grouping"


# Aggregates, and a function of grouping sets, that the grammar does not write as function calls.
_NOT_OUTSIDE = {"GroupingFunc": "GROUPING()", "JsonObjectAgg": "JSON_OBJECTAGG()", "JsonArrayAgg": "JSON_ARRAYAGG()"}


def leaves(items: Any) -> Iterator[Any]:
    """The items of a FROM clause, joins opened, TABLESAMPLE kept."""
    for item in items or ():
        if isinstance(item, ast.JoinExpr):
            yield from leaves((item.larg, item.rarg))
        else:
            yield item


class SelectCompiler:
    """Cuts one block out of one SELECT. `visit` compiles what stands outside the block (sub-queries, dp_* calls)."""

    def __init__(self, facts: Facts, relation: Relation, source: Any, visit: Callable[[Any, Scope], Any]) -> None:
        self._facts = facts
        self._relation = relation
        self._shown = relation.name
        self._source = source
        self._visit = visit
        self._columns = frozenset(relation.columns)
        self._keys: dict[str, int] = {}
        self._aggregates: dict[str, tuple[int, Aggregate]] = {}

    # -- reading ------------------------------------------------------------------------------------------------

    def compile(self, select: Any, scope: Scope, number: int, alias: str) -> QueryBlock:
        """Change `select` in place so that it reads the block's released values, and return the block.

        Errors: DP002 if it would return rows; DP003 naming the first part that is not supported.
        """
        calls = list(self._aggregate_calls(select))
        if not (calls or select.groupClause or select.distinctClause):
            raise refusals.raw_access(self._shown, self._source)
        self._check_fields(select)
        self._check_source(select)
        grouped = self._find_keys(select, bool(calls))
        if not calls and not self._keys:
            raise refusals.raw_access(self._shown, self._source)
        self._check_core(select.whereClause, "WHERE")
        for call in calls:
            self._add_aggregate(call)
        aggregates = tuple(item for _, item in self._aggregates.values())
        block = QueryBlock(
            number=number,
            slot=None,
            relation=self._relation,
            alias=self._source.alias.aliasname if self._source.alias is not None else None,
            where=select.whereClause,
            keys=tuple(self._keys),
            aggregates=aggregates,
            core=self._core(select),
            grouped=grouped,
        )
        self._rewrite(select, scope, block, alias)
        return block

    def _find_keys(self, select: Any, aggregated: bool) -> bool:
        """Fill the keys; true if grouped. SELECT DISTINCT without aggregates groups by its columns (14.12)."""
        for item in select.groupClause or ():
            for expression in _unpack(item):
                self._add_key(self._group_expression(expression, select))
        if select.groupClause:
            return True
        if aggregated or not select.distinctClause:
            return False
        targets = tuple(target.val for target in select.targetList or ())
        for node in walk(targets, stop=lambda item: isinstance(item, ast.SubLink)):
            if isinstance(node, ast.ColumnRef):
                if strings(node.fields)[-1] == "*":
                    raise refusals.raw_access(self._shown, node)
                self._add_key(node)
        return True

    def _group_expression(self, expression: Any, select: Any) -> Any:
        """GROUP BY n is the nth target; a bare name is a column if there is one, else an output name."""
        targets = select.targetList or ()
        if isinstance(expression, ast.A_Const) and isinstance(expression.val, ast.Integer):
            ordinal = expression.val.ival or 0
            if not 1 <= ordinal <= len(targets):
                raise self._part(f"GROUP BY {ordinal}", _KEYS, select.groupClause)
            return targets[ordinal - 1].val
        name = _bare(expression)
        if name is not None and name not in self._columns:
            for target in targets:
                if target.name == name:
                    return target.val
        return expression

    def _add_key(self, expression: Any) -> None:
        name = self._own_column(expression)
        if name is None:
            raise self._part(f"GROUP BY {_short(expression)}", _KEYS, expression)
        self._keys.setdefault(name, len(self._keys) + 1)

    def _aggregate_calls(self, select: Any) -> Iterator[Any]:
        """Aggregate calls of this query level. In sub-queries they belong to those (correlated ones are refused)."""
        places = (select.targetList, select.havingClause, select.windowClause, select.sortClause)
        for node in walk(places, stop=lambda item: isinstance(item, ast.SubLink) or self._is_aggregate(item)):
            if self._is_aggregate(node):
                yield node

    def _is_aggregate(self, node: Any) -> bool:
        return (
            isinstance(node, ast.FuncCall) and node.over is None and function_name(node)[-1] in self._facts.aggregates
        )

    def _add_aggregate(self, call: Any) -> None:
        """Identical aggregates (by text) share a column."""
        aggregate = compile_aggregate(call, self._shown)
        for node in (aggregate.argument, aggregate.filter):
            if not isinstance(node, str):
                self._check_core(node, "an aggregate")
        self._aggregates.setdefault(self._identity(call), (len(self._aggregates) + 1, aggregate))

    def _identity(self, call: Any) -> str:
        """The text by which aggregates are the same: the request's form, columns without qualifiers."""
        return str(request_of(compile_aggregate(call, self._shown), _bare_text))

    # -- checking -----------------------------------------------------------------------------------------------

    def _check_fields(self, select: Any) -> None:
        for slot in select:
            role = _FIELDS.get(slot, f"this clause ({slot})")
            if role not in ("core", "outside") and getattr(select, slot):
                raise self._part(role, "leave it out", getattr(select, slot))
        if any(item is not None for item in select.distinctClause or ()):
            raise self._part("DISTINCT ON", "use GROUP BY, or DISTINCT without ON", select.distinctClause)

    def _check_source(self, select: Any) -> None:
        source = self._source
        for item in leaves(select.fromClause):
            if isinstance(item, ast.RangeTableSample) and item.relation is source:
                raise self._part("TABLESAMPLE", "leave it out: the answer is about all rows", item)
            if item is not source:
                raise self._part("a join or a second FROM item", _JOINS, item)
        if not source.inh:
            raise self._part("ONLY", "leave it out", source)
        if source.catalogname is not None:
            raise self._part("a database name before the schema", "leave it out", source)
        if source.alias is not None and source.alias.colnames:
            raise self._part("a column alias list", "use the columns' own names", source)

    def _part(self, what: str, hint: str, at: Any) -> Refusal:
        """The refusal of a part of this block; where the part has no place of its own, at the relation's name."""
        return refusals.part(what, self._shown, hint, at if location(at) is not None else self._source)

    def _check_core(self, node: Any, where: str) -> None:
        """The core may use the relation's own columns, constants and parameters; the engine judges the operators."""
        for item in walk(node):
            if isinstance(item, ast.ColumnRef) and self._own_column(item) is None:
                shown = ".".join(strings(item.fields))
                raise self._part(f"{shown} in {where}", _OWN.format(self._shown), item)
            if isinstance(item, ast.SubLink | ast.SelectStmt):
                raise self._part(f"a sub-query in {where}", _VALUES, item)
            if isinstance(item, ast.FuncCall) and dp_function(item, self._facts.functions) is not None:
                raise self._part(f"a dp_* call in {where}", _RELEASED, item)

    def _own_column(self, node: Any) -> str | None:
        """The column's name if `node` is a plain reference to a published column of the block's relation, else None."""
        if not isinstance(node, ast.ColumnRef):
            return None
        *qualifier, name = strings(node.fields)
        if name not in self._columns or tuple(qualifier) not in self._qualifiers():
            return None
        return name

    def _qualifiers(self) -> tuple[tuple[str, ...], ...]:
        if self._source.alias is not None:
            return (), (self._source.alias.aliasname,)
        return (), (self._source.relname,), (self._relation.schema, self._relation.name)

    # -- writing ------------------------------------------------------------------------------------------------

    def _core(self, select: Any) -> str:
        """The block alone, for types: only ever parsed and described on the facade, never run."""
        keys = [column(name) for name in self._keys]
        calls: dict[str, Any] = {}
        for call in self._aggregate_calls(select):
            calls.setdefault(self._identity(call), call)
        core = ast.SelectStmt(
            targetList=tuple(ast.ResTarget(val=value) for value in (*keys, *calls.values())),
            fromClause=(self._source,),
            whereClause=select.whereClause,
            groupClause=tuple(column(name) for name in self._keys) or None,
            limitOption=enums.LimitOption.LIMIT_OPTION_DEFAULT,
            op=enums.SetOperation.SETOP_NONE,
        )
        return sql_text(core)

    def _rewrite(self, select: Any, scope: Scope, block: QueryBlock, alias: str) -> None:
        outside = _Outside(self, scope, alias)
        outputs = frozenset(target.name or column_name(target.val) for target in select.targetList or ())
        for target in select.targetList or ():
            name_before = target.name or column_name(target.val)
            target.val = outside(target.val)
            if target.name is None and column_name(target.val) != name_before:
                target.name = name_before
        for item in select.sortClause or ():
            name = _bare(item.node)
            if not isinstance(item.node, ast.A_Const) and (name is None or name not in outputs):
                item.node = outside(item.node)
        select.windowClause = replace(select.windowClause, outside)
        select.limitCount = replace(select.limitCount, outside)
        select.limitOffset = replace(select.limitOffset, outside)
        select.whereClause = replace(select.havingClause, outside)
        select.havingClause = None
        select.groupClause = None
        block.slot = ast.RangeSubselect(lateral=False, alias=ast.Alias(aliasname=alias))
        select.fromClause = (block.slot,)

    # -- used by _Outside ---------------------------------------------------------------------------------------

    def position(self, node: Any) -> int | None:
        """The block's column that holds the value of `node`, a key or an aggregate; None if it is neither."""
        if self._is_aggregate(node):
            return len(self._keys) + self._aggregates[self._identity(node)][0]
        name = self._own_column(node)
        return self._keys.get(name) if name is not None else None

    def refuse_column(self, node: Any) -> None:
        """A column outside aggregates that is not a key: an outer reference, or one that depends on a key."""
        raise self._part(f"column {'.'.join(strings(node.fields))} outside an aggregate", _COLUMNS, node)

    def check_uncorrelated(self, sublink: Any) -> None:
        """No name in a sub-query beside the block may be the block's: PostgreSQL would have taken it from here."""
        for node in self._foreign_columns(sublink.subselect):
            names = strings(node.fields)
            mine = len(names) == 1 and (names[0] in self._columns or _looks_ours(names[0]))
            if mine or names[:-1] in self._qualifiers()[1:]:
                shown = ".".join(names)
                raise self._part(f"{shown} in a sub-query beside the aggregates", _CORRELATED, node)

    def _foreign_columns(self, value: Any) -> Iterator[Any]:
        """Column references below `value` but not at the level of another block, where each is proved to be its own."""
        if isinstance(value, tuple):
            for item in value:
                yield from self._foreign_columns(item)
        elif isinstance(value, ast.ColumnRef):
            yield value
        elif isinstance(value, ast.Node):
            own = isinstance(value, ast.SelectStmt) and self._reads_protected(value)
            nodes = walk(value, stop=lambda n: n is not value and isinstance(n, ast.SubLink)) if own else ()
            if own:
                for link in nodes:
                    if isinstance(link, ast.SubLink):
                        yield from self._foreign_columns(link.subselect)
            else:
                for slot in value:
                    yield from self._foreign_columns(getattr(value, slot))

    def _reads_protected(self, select: Any) -> bool:
        found = (
            self._facts.relations.get(relation_name(i))
            for i in leaves(select.fromClause)
            if isinstance(i, ast.RangeVar)
        )
        return any(relation is not None and relation.role == "protected" for relation in found)

    def compile_outside(self, node: Any, scope: Scope) -> Any:
        """Hand a sub-query or dp_* call that stands beside the block to the statement's compiler."""
        return self._visit(node, scope)

    def is_call(self, node: Any) -> bool:
        return isinstance(node, ast.FuncCall) and dp_function(node, self._facts.functions) is not None


class _Outside:
    """Rewrites an expression that stays outside: keys and aggregates become columns of the released values."""

    def __init__(self, block: SelectCompiler, scope: Scope, alias: str) -> None:
        self._block = block
        self._scope = scope
        self._alias = alias

    def __call__(self, node: Any) -> Any:
        position = self._block.position(node)
        if position is not None:
            # Qualified, so that ORDER BY never takes it for an output name.
            return column(self._alias, f"c{position}")
        if isinstance(node, ast.ColumnRef):
            self._block.refuse_column(node)
        if kind(node) in _NOT_OUTSIDE:
            raise refusals.shape(f"{_NOT_OUTSIDE[kind(node)]} is not supported over protected data", _INSTEAD, node)
        if self._block.is_call(node):
            return self._block.compile_outside(node, self._scope)
        if isinstance(node, ast.SubLink):
            self._block.check_uncorrelated(node)
            node.testexpr = replace(node.testexpr, self)
            node.subselect = self._block.compile_outside(node.subselect, self._scope)
            return node
        replace_children(node, self)
        return node


def _unpack(item: Any) -> tuple[Any, ...]:
    """GROUP BY (a, b) is GROUP BY a, b; ROW(a, b) is not."""
    if isinstance(item, ast.RowExpr) and item.row_format == enums.CoercionForm.COERCE_IMPLICIT_CAST:
        return tuple(item.args or ())
    return (item,)


def _bare(node: Any) -> str | None:
    """The name of an unqualified column reference."""
    names = strings(node.fields) if isinstance(node, ast.ColumnRef) else ()
    return names[0] if len(names) == 1 and names[0] != "*" else None


def _bare_text(node: Any) -> str:
    def bare(item: Any) -> Any:
        return column(strings(item.fields)[-1]) if isinstance(item, ast.ColumnRef) else None

    return sql_text(substitute(node, bare))


def _looks_ours(name: str) -> bool:
    return name[:1] == "c" and name[1:].isdigit()


def _short(node: Any) -> str:
    text = sql_text(node)
    return text if len(text) <= 60 else text[:57] + "..."
