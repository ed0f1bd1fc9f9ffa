"""A whole statement: finds its blocks at any depth, refuses what may not be, and leaves the rest to PostgreSQL.

Pure: the tree and the facts of the session go in, a changed tree with numbered empty slots comes out.
"""

from __future__ import annotations

from typing import Any

from pg_epsilon.query.parse import ast

from . import refusals
from .blocks import Block, CallBlock, Compiled, ViewBlock
from .colnames import column_name
from .names import Facts, Relation
from .scope import NO_CTES, Scope, body_scope, dp_function, is_cte, relation_name, with_scopes
from .select import SelectCompiler, leaves
from .tree import kind, quote_identifier, replace, replace_children, statement, statement_text, strings, walk

# Statements whose `relation` is written.
_WRITES = ("InsertStmt", "UpdateStmt", "DeleteStmt", "MergeStmt")
# The dry run (composition.md §14.10), answered by upstream.plan.
PLAN = "dp_plan"
# These take the request itself and give jsonb; every other call has functions that make its request and its result.
DIRECT = frozenset({PLAN, "dp_query"})
# These are asked for as they are, of the private side: the type of their one value. They charge nothing.
LOOKUPS = {"dp_budget_left": "numeric"}
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
        self._taken = taken.lower()
        self._blocks: list[Block] = []
        self._renamed: set[tuple[str, str]] = set()

    def compile(self, node: Any) -> Compiled:
        self._check_target(node)
        if kind(node) == "CopyStmt" and node.relation is not None:
            return self._copy_table(node)
        changed = self._visit(node, NO_CTES)
        self._unqualify(changed)
        self._blocks.sort(key=lambda block: block.number)
        return Compiled(changed, self._blocks)

    # -- what names mean ----------------------------------------------------------------------------------------

    def _resolve(self, node: Any, scope: Scope) -> Relation | None:
        return None if is_cte(node, scope) else self._facts.relations.get(relation_name(node))

    def _protected(self, node: Any, scope: Scope) -> Relation | None:
        relation = self._resolve(node, scope)
        return relation if relation is not None and relation.role == "protected" else None

    def _check_target(self, node: Any) -> None:
        """Refuse a write to a protected relation before anything else is looked at: nothing may be charged for it."""
        targets = [item.relation for item in walk(node) if kind(item) in _WRITES]
        targets += list(node.relations or ()) if kind(node) == "TruncateStmt" else []
        targets += [node.relation] if kind(node) == "CopyStmt" and node.relation is not None and node.is_from else []
        for target in targets:
            relation = self._protected(target, NO_CTES)
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
        relation = self._protected(node.relation, NO_CTES)
        if relation is not None:
            raise refusals.raw_access(relation.name, node.relation)
        return Compiled(node)

    def _next(self) -> int:
        return 1 + len(self._blocks)

    # -- the walk -----------------------------------------------------------------------------------------------

    def _visit(self, node: Any, scope: Scope) -> Any:
        if isinstance(node, ast.SelectStmt):
            return self._select(node, scope)
        if isinstance(node, ast.FuncCall) and dp_function(node, self._facts.functions) is not None:
            return self._call(node)
        if isinstance(node, ast.RangeFunction):
            return self._range_function(node, scope)
        if isinstance(node, ast.RangeVar):
            return self._range_var(node, scope)
        if isinstance(node, ast.RangeTableSample):
            return self._sample(node, scope)
        if isinstance(node, ast.ResTarget) and node.name is None and node.val is not None:
            return self._target(node, scope)
        if isinstance(node, ast.IntoClause):
            return node
        self._enter(node, scope)
        return node

    def _enter(self, node: Any, scope: Scope) -> None:
        """Visit a node's children under its own WITH clause; the target of a write is not a FROM item."""
        clause = getattr(node, "withClause", None)
        if clause is not None:
            for cte, inner in with_scopes(clause, scope):
                cte.ctequery = self._visit(cte.ctequery, inner)
        inside = body_scope(clause, scope)
        skip = {"withClause"} | ({"relation"} if kind(node) in _WRITES else set())
        replace_children(node, lambda child: self._visit(child, inside), frozenset(skip))

    def _select(self, node: Any, scope: Scope) -> Any:
        inside = body_scope(node.withClause, scope)
        for item in leaves(node.fromClause):
            source = item.relation if isinstance(item, ast.RangeTableSample) else item
            relation = self._protected(source, inside) if isinstance(source, ast.RangeVar) else None
            if relation is not None:
                return self._block(node, scope, inside, relation, source)
        self._enter(node, scope)
        return node

    def _block(self, node: Any, scope: Scope, inside: Scope, relation: Relation, source: Any) -> Any:
        if node.withClause is not None:
            for cte, inner in with_scopes(node.withClause, scope):
                cte.ctequery = self._visit(cte.ctequery, inner)
        number = self._next()
        # Hold the number: sub-queries beside the block take the following ones.
        self._blocks.append(_view_block(number, None, relation))
        compiler = SelectCompiler(self._facts, relation, source, self._visit)
        block = compiler.compile(node, inside, number, block_alias(number, self._taken))
        self._blocks[number - 1] = block
        return node

    def _target(self, node: Any, scope: Scope) -> Any:
        before = column_name(node.val)
        node.val = self._visit(node.val, scope)
        if column_name(node.val) != before:
            node.name = before
        return node

    def _range_var(self, node: Any, scope: Scope) -> Any:
        relation = self._resolve(node, scope)
        if relation is None:
            return node
        if relation.role == "protected":
            raise refusals.raw_access(relation.name, node)
        alias = node.alias if node.alias is not None else ast.Alias(aliasname=node.relname)
        if node.alias is None and node.schemaname is not None:
            self._renamed.add((node.schemaname, str(node.relname)))
        slot = ast.RangeSubselect(lateral=False, alias=alias)
        self._blocks.append(_view_block(self._next(), slot, relation))
        return slot

    def _sample(self, node: Any, scope: Scope) -> Any:
        if isinstance(node.relation, ast.RangeVar) and self._resolve(node.relation, scope) is not None:
            raise refusals.part("TABLESAMPLE", str(node.relation.relname), "leave it out", node)
        self._enter(node, scope)
        return node

    def _range_function(self, node: Any, scope: Scope) -> Any:
        names = [
            name
            for item in node.functions
            if isinstance(item[0], ast.FuncCall) and (name := dp_function(item[0], self._facts.functions)) is not None
        ]
        first = node.functions[0][0]
        if names and node.alias is None and isinstance(first, ast.FuncCall):
            # PostgreSQL names the FROM item after its first function.
            node.alias = ast.Alias(aliasname=strings(first.funcname)[-1])
        node.functions = replace(node.functions, lambda child: self._visit(child, scope))
        node.coldeflist = replace(node.coldeflist, lambda child: self._visit(child, scope))
        return node

    def _call(self, node: Any) -> Any:
        """An explicit dp_* call becomes dp.dp_X_result(answer); its request is evaluated on the facade."""
        name = dp_function(node, self._facts.functions) or ""
        for slot in node:
            if slot not in _CALL_FIELDS and getattr(node, slot):
                words = _CALL_WORDS.get(slot, f"this form ({slot})")
                raise refusals.shape(f"{words} is not supported in a call of {name}()", _call(name), node)
        for item in walk(node.args):
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
        self._blocks.append(CallBlock(self._next(), node, name, evaluate, statement_text(evaluate), name == PLAN))
        return node

    def _lookup(self, node: Any, name: str) -> Any:
        """dp_budget_left(x) becomes its value's text, cast; x is evaluated on the facade."""
        (argument,) = node.args
        evaluate = statement("SELECT NULL::pg_catalog.text")
        evaluate.targetList[0].val.arg = argument.arg if isinstance(argument, ast.NamedArgExpr) else argument
        cast = statement(f"SELECT pg_catalog.jsonb_array_element_text(0)::pg_catalog.{LOOKUPS[name]}").targetList[0].val
        block = CallBlock(self._next(), cast.arg, name, evaluate, statement_text(evaluate), free=True)
        block.asked = f"SELECT dp.{name}($1)::text"
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
    first = "request" if name in DIRECT else "'relation'"
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


def _view_block(number: int, slot: Any, relation: Relation) -> ViewBlock:
    columns = [quote_identifier(name) for name in relation.columns]
    source = f"{quote_identifier(relation.schema)}.{quote_identifier(relation.name)}"
    texts = ", ".join(f"{name}::pg_catalog.text" for name in columns)
    return ViewBlock(
        number, slot, relation, f"SELECT {texts} FROM {source}", f"SELECT {', '.join(columns)} FROM {source}"
    )
