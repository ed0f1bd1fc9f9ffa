"""Parts of a statement that read no row, by its text alone: LIMIT 0, conditions never true, dead CASE branches.

Protected relations in such a part are replaced by derived tables with their columns and no row. No question is asked,
so nothing can be learned and nothing is paid, and PostgreSQL computes what follows from no rows: the columns that a
driver probes for, `count(*)` 0, `sum` NULL. This runs before blocks are looked for; they never see such a part.

The proof that a part cannot matter is conservative. Where it fails the statement is what it was: a block, or DP002.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pg_epsilon.query.parse import ast, enums

from .bars import BARS
from .blocks import EmptyBlock, empty_block
from .constant import always_false, always_true, is_zero, never_true
from .env import Env, Reader
from .names import PUBLIC, Relation
from .scope import body_scope, dp_function, is_cte, references, with_scopes
from .tree import function_name, kind, replace, replace_children, strings, walk

_WRITES = frozenset({"InsertStmt", "UpdateStmt", "DeleteStmt", "MergeStmt"})
_GRAMMAR_AGGREGATES = frozenset({"JsonObjectAgg", "JsonArrayAgg", "GroupingFunc"})
_SYSTEM = frozenset({"ctid", "tableoid", "xmin", "xmax", "cmin", "cmax"})
# The parts of a SELECT that are computed from what FROM and WHERE leave, which may be one row of an aggregate.
_AFTER = (
    *("targetList", "distinctClause", "groupClause", "havingClause", "windowClause"),
    *("sortClause", "limitCount", "limitOffset"),
)
# CTE names in scope: whether what they read is any of ours.
Scope = Mapping[str, bool]


class Unread:
    """Cuts the unread parts out of one statement. first: the number of the first block.

    blocks: the relations that were replaced; renamed: (schema, name) of those that were written with their schema;
    spared: dp_* calls in such parts, by id: nobody answers them, because PostgreSQL never calls them.
    """

    def __init__(self, reader: Reader, first: int = 1) -> None:
        self._reader = reader
        self._first = first
        self.blocks: list[EmptyBlock] = []
        self.renamed: set[tuple[str, str]] = set()
        self.spared: dict[int, Any] = {}

    def cut(self, node: Any) -> Any:
        """`node` with its unread parts replaced, in place."""
        return self._visit(node, {})

    # -- where a part begins ------------------------------------------------------------------------------------

    def _visit(self, node: Any, scope: Scope) -> Any:
        if isinstance(node, ast.SelectStmt):
            return self._select(node, scope)
        if isinstance(node, ast.UpdateStmt | ast.DeleteStmt) and node.whereClause is not None:
            if never_true(node.whereClause):
                slots = [slot for slot in node if slot not in ("relation", "withClause")]
                self._kill_fields(node, slots, _hidden(node.withClause, scope))
        elif isinstance(node, ast.CaseExpr) and node.arg is None:
            self._case(node, scope)
        elif isinstance(node, ast.BoolExpr) and (always_true(node) or always_false(node)):
            self._kill_fields(node, ["args"], scope)
        self._children(node, scope)
        return node

    def _children(self, node: Any, scope: Scope) -> None:
        inside = self._with(node, scope)
        replace_children(node, lambda child: self._visit(child, inside), frozenset({"withClause"}))

    def _with(self, node: Any, scope: Scope) -> Scope:
        clause = getattr(node, "withClause", None)
        if clause is None:
            return scope
        every = dict(scope)
        if clause.recursive:
            every |= dict.fromkeys((cte.ctename for cte in clause.ctes), False)
            for _ in clause.ctes:  # as often as one may learn of another
                every |= {cte.ctename: self._concerns(cte.ctequery, every) for cte in clause.ctes}
        for cte in clause.ctes:
            concerned = self._concerns(cte.ctequery, every)
            cte.ctequery = self._visit(cte.ctequery, every)
            every = {**every, cte.ctename: concerned}
        return every

    def _select(self, node: Any, scope: Scope) -> Any:
        empty = is_zero(node.limitCount) or (node.havingClause is not None and never_true(node.havingClause))
        if not node.fromClause and node.whereClause is not None and never_true(node.whereClause):
            empty = empty or not self._may_aggregate(node)
        if empty and self._may(node, scope):
            return self._kill(node, frozenset(scope))
        if self._source_is_empty(node):
            self._kill_source(node, scope)
        self._children(node, scope)
        return node

    def _case(self, node: Any, scope: Scope) -> None:
        """Branches behind a condition that is never true, and all behind one that is always true."""
        reached = True
        for when in node.args or ():
            if not reached or never_true(when.expr):
                self._kill_fields(when, ["result"] if reached else ["expr", "result"], scope)
            reached = reached and not always_true(when.expr)
        if not reached:
            self._kill_fields(node, ["defresult"], scope)

    # -- the proof ----------------------------------------------------------------------------------------------

    def _source_is_empty(self, select: Any) -> bool:
        """Whether FROM and WHERE leave no row."""
        if not select.fromClause or select.op != enums.SetOperation.SETOP_NONE:
            return False
        if select.whereClause is not None and never_true(select.whereClause):
            return True
        return any(self._yields_nothing(item) for item in select.fromClause)

    def _yields_nothing(self, item: Any) -> bool:
        if isinstance(item, ast.RangeSubselect):
            return self._is_nothing(item.subquery)
        if not isinstance(item, ast.JoinExpr):
            return False
        left, right = self._yields_nothing(item.larg), self._yields_nothing(item.rarg)
        if item.jointype == enums.JoinType.JOIN_INNER:
            return left or right or (item.quals is not None and never_true(item.quals))
        if item.jointype == enums.JoinType.JOIN_LEFT:
            return left
        return left and right if item.jointype == enums.JoinType.JOIN_FULL else right

    def _is_nothing(self, select: Any) -> bool:
        """Whether a sub-query returns no row."""
        if not isinstance(select, ast.SelectStmt):
            return False
        if is_zero(select.limitCount) or (select.havingClause is not None and never_true(select.havingClause)):
            return True
        return self._source_is_empty(select) and not self._may_aggregate(select)

    def _may_aggregate(self, select: Any) -> bool:
        """Whether the SELECT could make one row of none.

        An aggregate in a sub-query counts: over columns of this level alone it is this level's.
        """
        if select.groupClause:
            return any(isinstance(item, ast.GroupingSet) for item in select.groupClause)
        if select.havingClause is not None or select.valuesLists:
            return True
        nodes = walk((select.targetList, select.sortClause, select.windowClause))
        if select.fromClause:
            return any(self._is_aggregate(node) for node in nodes)
        # Without FROM there is no column of this level that a sub-query could aggregate.
        return next(self._reader.aggregate_calls(select), None) is not None or any(
            kind(node) in _GRAMMAR_AGGREGATES for node in nodes
        )

    def _is_aggregate(self, node: Any) -> bool:
        if isinstance(node, ast.FuncCall):
            return node.over is None and function_name(node)[-1] in self._reader.facts.aggregates
        return kind(node) in _GRAMMAR_AGGREGATES

    def _may(self, value: Any, scope: Scope) -> bool:
        """Whether the part names something of ours, and all in it may be replaced.

        A write in WITH runs whatever its reader wants. A CTE from outside that reads ours stands elsewhere.
        """
        found = False
        for node in walk(value):
            if kind(node) in _WRITES or isinstance(node, ast.LockingClause | ast.RangeTableSample):
                return False
            if _is_system(node):
                return False
            if isinstance(node, ast.FuncCall):
                found = found or dp_function(node, self._reader.facts.functions) is not None
        for node in references(value):
            if is_cte(node, scope):
                if scope[node.relname]:
                    return False
                continue
            relation = self._ours(node)
            if relation is not None:
                found = True
                if not relation.columns:
                    return False
        return found

    def _ours(self, node: Any) -> Relation | None:
        relation = self._reader.relation(node, Env())
        return relation if relation is not None and relation.role != PUBLIC else None

    def _concerns(self, value: Any, scope: Scope) -> bool:
        """Whether a query reads something of ours, itself or through a CTE in scope."""
        return any(
            scope[node.relname] if is_cte(node, scope) else self._ours(node) is not None for node in references(value)
        )

    # -- the replacement ----------------------------------------------------------------------------------------

    def _kill_source(self, node: Any, scope: Scope) -> None:
        """FROM and WHERE; the WITH clause too, if no sub-query of the other parts can name what it defines.

        Error bars stand beside a block only: with them the SELECT stays one.
        """
        rest = list(walk(tuple(getattr(node, slot) for slot in _AFTER)))
        calls = (item for item in rest if isinstance(item, ast.FuncCall))
        if any(dp_function(call, self._reader.facts.functions) in BARS for call in calls) or any(map(_is_system, rest)):
            return
        if not any(isinstance(item, ast.SubLink) for item in rest):
            part = ast.SelectStmt(withClause=node.withClause, fromClause=node.fromClause, whereClause=node.whereClause)
            if self._may(part, scope):
                self._kill(part, frozenset(scope))
                node.fromClause, node.whereClause = part.fromClause, part.whereClause
            return
        self._kill_fields(node, ["fromClause", "whereClause"], _hidden(node.withClause, scope))

    def _kill_fields(self, node: Any, slots: list[str], scope: Scope) -> None:
        for slot in slots:
            value = getattr(node, slot)
            if value and self._may(value, scope):
                setattr(node, slot, replace(value, lambda child: self._kill(child, frozenset(scope))))

    def _kill(self, node: Any, scope: frozenset[str]) -> Any:
        if isinstance(node, ast.IntoClause):
            return node
        if isinstance(node, ast.RangeVar):
            relation = None if is_cte(node, scope) else self._ours(node)
            return node if relation is None else self._empty(node, relation)
        if isinstance(node, ast.FuncCall) and dp_function(node, self._reader.facts.functions) is not None:
            self.spared[id(node)] = node
        clause = getattr(node, "withClause", None)
        if clause is not None:
            for cte, inner in with_scopes(clause, scope):
                cte.ctequery = self._kill(cte.ctequery, inner)
        inside = body_scope(clause, scope)
        replace_children(node, lambda child: self._kill(child, inside), frozenset({"withClause"}))
        return node

    def _empty(self, node: Any, relation: Relation) -> Any:
        """A derived table without rows, under the name that the relation has here."""
        if node.alias is None and node.schemaname is not None:
            self.renamed.add((node.schemaname, str(node.relname)))
        alias = node.alias if node.alias is not None else ast.Alias(aliasname=node.relname)
        slot = ast.RangeSubselect(lateral=False, alias=alias)
        self.blocks.append(empty_block(self._first + len(self.blocks), slot, relation))
        return slot


def _is_system(node: Any) -> bool:
    """Whether the node names a column that a derived table does not have."""
    return isinstance(node, ast.ColumnRef) and strings(node.fields)[-1] in _SYSTEM


def _hidden(clause: Any, scope: Scope) -> Scope:
    """The scope under a WITH clause that stays: what it defines may read anything."""
    return {**scope, **{cte.ctename: True for cte in (clause.ctes if clause is not None else ())}}
