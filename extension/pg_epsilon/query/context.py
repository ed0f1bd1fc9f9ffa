"""One compilation: scope, fold, refusals with positions, and the allow-list of fields of each node (rule R1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pg_epsilon.errors import SHAPE, DPError
from pg_epsilon.query import parse
from pg_epsilon.query.parse import ast, enums
from pg_epsilon.query.types import Fold, FoldError, Scope, Term

# Every handler copies its operands a bounded number of times; this bounds what nesting can make of that.
MAX_SQL = 1_048_576

_POSITIONS = frozenset({"location", "rexpr_list_start", "rexpr_list_end", "list_start", "list_end"})
# The slots that handlers read. Every other slot of a node must hold its default: a field that we do not know,
# also one that a later pglast brings, is refused and never dropped.
READ: dict[type, frozenset[str]] = {
    ast.A_Const: frozenset({"isnull", "val"}),
    ast.A_Expr: frozenset({"kind", "name", "lexpr", "rexpr"}),
    ast.A_ArrayExpr: frozenset({"elements"}),
    ast.BoolExpr: frozenset({"boolop", "args"}),
    ast.BooleanTest: frozenset({"arg", "booltesttype"}),
    ast.CaseExpr: frozenset({"arg", "args", "defresult"}),
    ast.CaseWhen: frozenset({"expr", "result"}),
    ast.CoalesceExpr: frozenset({"args"}),
    ast.ColumnRef: frozenset({"fields"}),
    ast.FuncCall: frozenset({"funcname", "args"}),
    ast.MinMaxExpr: frozenset({"op", "args"}),
    ast.NullTest: frozenset({"arg", "nulltesttype"}),
    ast.SQLValueFunction: frozenset({"op", "typmod"}),
    ast.RangeVar: frozenset({"schemaname", "relname", "inh", "relpersistence", "alias"}),
    ast.Alias: frozenset({"aliasname"}),
    ast.ResTarget: frozenset({"val", "name"}),
    ast.SelectStmt: frozenset({"targetList", "fromClause", "whereClause"}),
    ast.SubLink: frozenset({"subLinkType", "testexpr", "operName", "subselect"}),
    ast.TypeCast: frozenset({"arg", "typeName"}),
    ast.TypeName: frozenset({"names", "typmods", "arrayBounds"}),
}
_DEFAULTS: dict[tuple[type, str], tuple[Any, ...]] = {
    (ast.FuncCall, "funcformat"): (
        enums.CoercionForm.COERCE_EXPLICIT_CALL,
        enums.CoercionForm.COERCE_SQL_SYNTAX,
    ),
    # One row more or less of a value changes no EXISTS, IN, min or max; count(*) is of the rows before DISTINCT.
    (ast.SelectStmt, "distinctClause"): (None, (None,)),
    (ast.SelectStmt, "limitOption"): (enums.LimitOption.LIMIT_OPTION_DEFAULT,),
    (ast.SelectStmt, "op"): (enums.SetOperation.SETOP_NONE,),
    (ast.TypeName, "typemod"): (-1,),
}
_FIELD_WORDS = {
    "agg_order": "ORDER BY inside a call",
    "agg_filter": "FILTER",
    "over": "OVER",
    "agg_within_group": "WITHIN GROUP",
    "agg_star": "a call with *",
    "agg_distinct": "DISTINCT inside a call",
    "func_variadic": "VARIADIC",
    "setof": "SETOF",
    "pct_type": "%TYPE",
}


@dataclass
class Context:
    """One expression text being compiled. refused: calls on constants that are none, by node and scope, which it
    keeps, so that no other scope has its id."""

    scope: Scope
    fold: Fold
    text: str
    root: Any
    compiler: Callable[[Context, Any], Term]
    memo: dict[str, str | None] = field(default_factory=dict)
    refused: dict[tuple[int, int], tuple[Scope, DPError]] = field(default_factory=dict)

    def compile(self, node: Any) -> Term:
        """Compile a child node."""
        return self.compiler(self, node)

    def refuse(self, node: Any, message: str, hint: str, sqlstate: str = SHAPE) -> DPError:
        """Return the refusal of `node`, with its position in the analyst's text."""
        return DPError(sqlstate, message, hint, position=parse.position_of(self.text, self.root, node))

    def check_fields(self, node: Any) -> None:
        """Refuse a node with a field set that no handler reads."""
        read = READ[type(node)]
        for slot in node:
            if slot in read or slot in _POSITIONS:
                continue
            value = getattr(node, slot)
            if value not in _DEFAULTS.get((type(node), slot), (None, False)):
                what = _FIELD_WORDS.get(slot, f"{type(node).__name__}.{slot}")
                raise self.refuse(node, f"{what} is not supported in an expression", "Leave it out.")

    def folded(self, sql: str, node: Any, what: str) -> str | None:
        """Have PostgreSQL evaluate a constant (no columns) to text, once; its refusal is DP003 at `node`."""
        if sql not in self.memo:
            try:
                self.memo[sql] = self.fold([sql])[0]
            except FoldError:
                raise self.refuse(node, f"{what} cannot be evaluated", "Check the constant.") from None
        return self.memo[sql]
