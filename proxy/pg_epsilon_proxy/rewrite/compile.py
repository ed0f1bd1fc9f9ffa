"""A whole statement: finds its blocks at any depth, refuses what may not be, and leaves the rest to PostgreSQL.

Pure: the tree and the facts of the session go in, a changed tree with numbered empty slots comes out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pg_epsilon.query.parse import ast, enums

from . import counted, refusals, running, undefined, workloads
from .bars import BARS, INSTEAD
from .blocks import Block, CallBlock, Compiled, view_block
from .colnames import column_name
from .env import Env, Reader, Rows
from .names import EXPANDED, PROTECTED, PUBLIC, VIEW, Facts, Relation
from .scope import dp_function, relation_name
from .select import SelectCompiler
from .tree import kind, replace, replace_children, statement, statement_text, strings, substitute, walk
from .unread import Unread

# Statements whose `relation` is written.
_WRITES = ("InsertStmt", "UpdateStmt", "DeleteStmt", "MergeStmt")
# Dry runs (composition.md §14.10), answered by upstream.plan: they charge nothing.
PLANS = frozenset({"dp_plan", "dp_decide_plan"})
# These take the request itself and give jsonb; every other call has functions that make its request and its result.
DIRECT = frozenset({"dp_plan", "dp_query"})
# These are asked for as they are, of the private side: the type of their one value. They charge nothing.
LOOKUPS = {"dp_budget_left": "numeric", "dp_request_of": "jsonb", "dp_shown": "jsonb"}
# Of what a look-up is asked for, which travels as text.
_LOOKED_UP = {"dp_request_of": "::text::uuid", "dp_shown": "::text::uuid"}
# Arguments of dp_sum_workload, from the third on, that may be sub-queries over public and temporary tables.
ARRAYS = ("thresholds", "ranges", "workload")
_VALUES = (enums.SubLinkType.ARRAY_SUBLINK, enums.SubLinkType.EXPR_SUBLINK)
_OWN_ROWS = "read public tables, or a temporary table that holds your numbers: ARRAY(SELECT ARRAY[a, b] FROM t)"
_CALL_FIELDS = frozenset({"funcname", "args", "funcformat", "location"})
_CALL_WORDS = {
    "agg_filter": "FILTER",
    "agg_distinct": "DISTINCT",
    "agg_order": "ORDER BY",
    "agg_star": "*",
    "agg_within_group": "WITHIN GROUP",
    "over": "OVER",
    "func_variadic": "VARIADIC",
}


def compile_statement(node: Any, facts: Facts, taken: str = "") -> Compiled:
    """Cut every block out of `node`, in place. taken: the client's text, whose names are avoided.

    No blocks: the statement is none of ours. Errors: DP002, DP003, 42501 as Refusal.
    """
    return _StatementCompiler(facts, taken).compile(node)


def block_alias(number: int, taken: str) -> str:
    """The derived table's alias: a name that the statement does not contain, so that nothing can be captured."""
    alias = f"b{number}"
    while alias in taken:
        alias += "_"
    return alias


class _StatementCompiler:
    def __init__(self, facts: Facts, taken: str) -> None:
        self._facts = facts
        self._reader = Reader(facts)
        self._taken = taken.lower()
        self._blocks: list[Block] = []
        self._renamed: set[tuple[str, str]] = set()
        self._assigned: Any = None
        self._spared: dict[int, Any] = {}

    def compile(self, node: Any) -> Compiled:
        self._check_target(node)
        if kind(node) == "CopyStmt" and node.relation is not None:
            return self._copy_table(node)
        unread = Unread(self._reader)
        node = unread.cut(node)
        self._blocks += unread.blocks
        self._renamed |= unread.renamed
        self._spared = unread.spared
        changed = self._visit(node, Env())
        self._unqualify(changed)
        self._blocks.sort(key=lambda block: block.number)
        workloads.find(changed, self._blocks)
        running.find(changed, self._blocks)
        return Compiled(changed, self._blocks, undefined.guard(changed, self._blocks, self._columns))

    def _columns(self, node: Any) -> Sequence[str]:
        """The columns of a relation, where they are known."""
        relation = self._facts.relations.get(relation_name(node))
        return relation.columns if relation is not None else ()

    # -- what names mean ----------------------------------------------------------------------------------------

    def _protected(self, node: Any, env: Env) -> Relation | None:
        relation = self._reader.relation(node, env)
        return relation if relation is not None and relation.role in (PROTECTED, EXPANDED) else None

    def _check_target(self, node: Any) -> None:
        """Refuse a write to a protected relation before anything else is looked at: nothing may be charged for it."""
        targets = [item.relation for item in walk(node) if kind(item) in _WRITES]
        targets += list(node.relations or ()) if kind(node) == "TruncateStmt" else []
        targets += [node.relation] if kind(node) == "CopyStmt" and node.relation is not None and node.is_from else []
        for target in targets:
            relation = self._protected(target, Env())
            if relation is not None:
                raise refusals.write(relation.name, target)

    def _unqualify(self, node: Any) -> None:
        """dp.budget.left (SQLAlchemy writes all columns so) is budget.left once the view has become a derived table."""
        for item in walk(node) if self._renamed else ():
            if (
                isinstance(item, ast.ColumnRef)
                and len(item.fields or ()) > 2
                and strings(item.fields)[:2] in self._renamed
            ):
                item.fields = (item.fields or ())[1:]

    def _copy_table(self, node: Any) -> Compiled:
        """COPY relation TO: rows. (A view cannot be copied from: PostgreSQL says so.)"""
        relation = self._protected(node.relation, Env())
        if relation is not None:
            raise refusals.raw_access(relation.name, node.relation)
        return Compiled(node)

    def _next(self) -> int:
        return 1 + len(self._blocks)

    # -- the walk -----------------------------------------------------------------------------------------------

    def _visit(self, node: Any, env: Env) -> Any:
        if isinstance(node, ast.SelectStmt):
            return self._select(node, env)
        if isinstance(node, ast.FuncCall) and dp_function(node, self._facts.functions) is not None:
            return node if id(node) in self._spared else self._call(node)
        if isinstance(node, ast.RangeFunction):
            return self._range_function(node, env)
        if isinstance(node, ast.RangeVar):
            return self._range_var(node, env)
        if isinstance(node, ast.RangeTableSample):
            return self._sample(node, env)
        if isinstance(node, ast.ResTarget) and node.name is None and node.val is not None:
            return self._target(node, env)
        if isinstance(node, ast.IntoClause):
            return node
        if isinstance(node, ast.MultiAssignRef):
            return self._assignment(node, env)
        self._enter(node, env)
        return node

    def _assignment(self, node: Any, env: Env) -> Any:
        """SET (a, b) = source: the tree has the source once a column, the text and PostgreSQL have it once."""
        if node.colno == 1:
            self._assigned = self._visit(node.source, env)
        node.source = self._assigned
        return node

    def _enter(self, node: Any, env: Env) -> None:
        """Visit a node's children under its own WITH clause; the target of a write is not a FROM item."""
        inside = self._with(node, env)
        skip = {"withClause"} | ({"relation"} if kind(node) in _WRITES else set())
        replace_children(node, lambda child: self._visit(child, inside), frozenset(skip))

    def _with(self, node: Any, env: Env) -> Env:
        """Visit a WITH clause; CTEs that yield protected rows leave it, and are merged where they are named."""
        clause = getattr(node, "withClause", None)
        if clause is None:
            return env
        kept = []
        inside = env
        # All are looked at before one is changed.
        for cte, inner, rows in list(self._reader.ctes(clause, env)):
            values = self._reader.is_set(cte.ctequery, inner)
            if rows is None:
                cte.ctequery = self._visit(cte.ctequery, inner)
                kept.append(cte)
            inside = inside.plus(cte.ctename, rows, values=values)
        clause.ctes = tuple(kept)
        if not kept:
            node.withClause = None
        return inside

    def _select(self, node: Any, env: Env) -> Any:
        counted.merge(node, self._reader.inside(node.withClause, env), self._reader)
        if self._reader.source_reads(node, env):
            return self._block(node, env)
        self._enter(node, env)
        return node

    def _block(self, node: Any, env: Env) -> Any:
        relation, at = self._first(node.fromClause, self._reader.inside(node.withClause, env)) or (None, None)
        if relation is None:
            raise refusals.shape("the statement cannot be rewritten", "write it in a simpler form", node)
        inside = self._with(node, env)
        number = self._next()
        # Hold the number: sub-queries beside the block take the following ones.
        self._blocks.append(view_block(number, None, relation))
        compiler = SelectCompiler(self._reader, relation.name, at, self._visit, self._taken)
        block = compiler.compile(node, inside, number, block_alias(number, self._taken))
        self._blocks[number - 1] = block
        return node

    def _first(self, items: Any, env: Env, at: Any = None) -> tuple[Relation, Any] | None:
        """The first protected relation that FROM items yield rows of, and where the client named it or its view."""
        for item in items or ():
            found: tuple[Relation, Any] | None = None
            if isinstance(item, ast.JoinExpr):
                found = self._first((item.larg, item.rarg), env, at)
            elif isinstance(item, ast.RangeTableSample):
                found = self._first((item.relation,), env, at)
            elif isinstance(item, ast.RangeSubselect) and self._reader.reads(item, env):
                found = self._rows_of(Rows(item.subquery, env), at)
            elif isinstance(item, ast.RangeVar) and self._reader.reads(item, env):
                rows = self._reader.rows(item, env)
                relation = self._reader.relation(item, env)
                if rows is not None:
                    # A view's own text is none of the client's.
                    found = self._rows_of(rows, item if relation is not None else at)
                elif relation is not None:
                    found = relation, at if at is not None else item
            if found is not None:
                return found
        return None

    def _rows_of(self, rows: Rows, at: Any) -> tuple[Relation, Any] | None:
        return self._first(rows.query.fromClause, self._reader.inside(rows.query.withClause, rows.env), at)

    def _target(self, node: Any, env: Env) -> Any:
        before = column_name(node.val)
        node.val = self._visit(node.val, env)
        if column_name(node.val) != before:
            node.name = before
        return node

    def _range_var(self, node: Any, env: Env) -> Any:
        rows = self._reader.rows(node, env)
        relation = self._reader.relation(node, env)
        if rows is not None and self._reader.is_rows(rows.query, rows.env):
            raise refusals.raw_access(node.relname, node)
        if rows is not None and relation is not None:
            return self._expanded(node, rows)
        if relation is None or relation.role not in (PROTECTED, VIEW):
            return node
        if relation.role == PROTECTED:
            raise refusals.raw_access(relation.name, node)
        slot = ast.RangeSubselect(lateral=False, alias=self._alias(node))
        self._blocks.append(view_block(self._next(), slot, relation))
        return slot

    def _alias(self, node: Any) -> Any:
        """The alias under which a derived table stands for a named relation."""
        if node.alias is None and node.schemaname is not None:
            self._renamed.add((node.schemaname, str(node.relname)))
        return node.alias if node.alias is not None else ast.Alias(aliasname=node.relname)

    def _expanded(self, node: Any, rows: Rows) -> Any:
        """A published view that aggregates: its query takes its place."""
        given = self._alias(node)
        own = strings(given.colnames)
        names = (*own, *rows.columns[len(own) :])
        alias = ast.Alias(aliasname=given.aliasname, colnames=tuple(ast.String(sval=name) for name in names))
        query = self._visit(substitute(rows.query, lambda item: None), rows.env)
        return ast.RangeSubselect(lateral=False, alias=alias, subquery=query)

    def _sample(self, node: Any, env: Env) -> Any:
        relation = self._reader.relation(node.relation, env) if isinstance(node.relation, ast.RangeVar) else None
        if relation is not None and relation.role != PUBLIC:
            raise refusals.part("TABLESAMPLE", str(node.relation.relname), "leave it out", node)
        self._enter(node, env)
        return node

    def _range_function(self, node: Any, env: Env) -> Any:
        names = [
            name
            for item in node.functions
            if isinstance(item[0], ast.FuncCall) and (name := dp_function(item[0], self._facts.functions)) is not None
        ]
        first = node.functions[0][0]
        if names and node.alias is None and isinstance(first, ast.FuncCall):
            # PostgreSQL names the FROM item after its first function.
            node.alias = ast.Alias(aliasname=strings(first.funcname)[-1])
        node.functions = replace(node.functions, lambda child: self._visit(child, env))
        node.coldeflist = replace(node.coldeflist, lambda child: self._visit(child, env))
        return node

    def _call(self, node: Any) -> Any:
        """An explicit dp_* call becomes dp.dp_X_result(answer); its request is evaluated on the facade."""
        name = dp_function(node, self._facts.functions) or ""
        if name in BARS:
            raise refusals.shape(f"{name}() stands beside no aggregate of a query over protected data", INSTEAD, node)
        for slot in node:
            if slot not in _CALL_FIELDS and getattr(node, slot):
                words = _CALL_WORDS.get(slot, f"this form ({slot})")
                raise refusals.shape(f"{words} is not supported in a call of {name}()", _call(name), node)
        queries = {id(item) for item in self._array_queries(node, name)}
        for item in walk(node.args, stop=lambda item: id(item) in queries):
            if id(item) not in queries:
                self._check_argument(item, name)
        if name in LOOKUPS:
            return self._lookup(node, name)
        request, result = (("dp", f"{name}_request"), ("dp", f"{name}_result"))
        if name in DIRECT:
            request = result = ("pg_catalog", "to_jsonb")
            node.args = tuple(_as_jsonb(item) for item in node.args or ())
        evaluate = statement("SELECT f()::pg_catalog.text")
        evaluate.targetList[0].val.arg.funcname = _name(request)
        evaluate.targetList[0].val.arg.args = node.args
        node.funcname = _name(result)
        node.args = None
        block = CallBlock(self._next(), node, name, evaluate, statement_text(evaluate), name in PLANS)
        block.queries = bool(queries)
        self._blocks.append(block)
        return node

    def _array_queries(self, node: Any, name: str) -> Iterator[Any]:
        """Sub-queries whose values an array argument of a workload is: the facade runs them, constants travel.

        They read public tables and what the session has itself. DP003 for any other.
        """
        for place, argument in enumerate(node.args or () if name == "dp_sum_workload" else ()):
            named = isinstance(argument, ast.NamedArgExpr)
            value = argument.arg if named else argument
            wanted = argument.name in ARRAYS if named else place in range(2, 2 + len(ARRAYS))
            if wanted and isinstance(value, ast.SubLink) and value.subLinkType in _VALUES and value.testexpr is None:
                for item in walk(value.subselect):
                    relation = self._reader.relation(item, Env()) if isinstance(item, ast.RangeVar) else None
                    called = isinstance(item, ast.FuncCall) and dp_function(item, self._facts.functions) is not None
                    if called or (relation is not None and relation.role != PUBLIC):
                        raise refusals.shape(f"this sub-query cannot be an argument of {name}()", _OWN_ROWS, item)
                yield value

    def _lookup(self, node: Any, name: str) -> Any:
        """dp_budget_left(x) becomes its value's text, cast; x is evaluated on the facade."""
        (argument,) = node.args
        evaluate = statement("SELECT NULL::pg_catalog.text")
        evaluate.targetList[0].val.arg = argument.arg if isinstance(argument, ast.NamedArgExpr) else argument
        cast = statement(f"SELECT pg_catalog.jsonb_array_element_text(0)::pg_catalog.{LOOKUPS[name]}").targetList[0].val
        block = CallBlock(self._next(), cast.arg, name, evaluate, statement_text(evaluate), free=True)
        block.asked = f"SELECT dp.{name}($1{_LOOKED_UP.get(name, '')})::text"
        self._blocks.append(block)
        return cast

    def _check_argument(self, item: Any, name: str) -> None:
        if isinstance(item, ast.ColumnRef):
            shown = ".".join(strings(item.fields))
            raise refusals.shape(f"column {shown} cannot be an argument of {name}()", _call(name), item)
        if isinstance(item, ast.SubLink):
            raise refusals.shape(f"a sub-query cannot be an argument of {name}()", _call(name), item)
        if isinstance(item, ast.FuncCall):
            last = strings(item.funcname)[-1]
            if last in self._facts.aggregates or dp_function(item, self._facts.functions) is not None:
                raise refusals.shape(f"{last}() cannot be an argument of {name}()", _call(name), item)


def _call(name: str) -> str:
    first = "request" if name in DIRECT else "'query'" if name.startswith("dp_decide") else "'relation'"
    return f"write {name}({first}, ...) with constants and parameters only; compare and join its answer outside"


def _as_jsonb(argument: Any) -> Any:
    """The request of a call that takes it as it is. to_jsonb() has no parameter names, and takes no untyped literal."""
    value = argument.arg if isinstance(argument, ast.NamedArgExpr) else argument
    if not isinstance(value, ast.A_Const):
        return value
    cast = statement("SELECT NULL::pg_catalog.jsonb").targetList[0].val
    cast.arg = value
    return cast


def _name(parts: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(ast.String(sval=part) for part in parts)
