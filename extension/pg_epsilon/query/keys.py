"""Group keys: SQL that gives a row's key as text, and the complete list of texts (rule R4: declared, never read).

Values outside what is declared are in no group, unless their key is the key of a declared value.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from pg_epsilon.errors import SHAPE, DPError
from pg_epsilon.query import grid
from pg_epsilon.query.domain import MAX_KEYS, clock_text, key_domain, key_sql, text_sql
from pg_epsilon.query.expression import Expression, Fold, Kind, Scope, compile_expression
from pg_epsilon.query.literals import identifier
from pg_epsilon.query.names import column_sql, last_name, named
from pg_epsilon.query.parse import ast, deparse, enums, parse_expression
from pg_epsilon.query.restriction import restriction
from pg_epsilon.query.types import Item, Term, Texts, type_of

_E = enums.A_Expr_Kind
# Strict, and not NULL for any values: their result is NULL only where an argument is.
_STRICT = frozenset(
    {"date_bin", "date_trunc", "extract", "isfinite", "position", "starts_with", "strpos", "width_bucket"}
    | {"abs", "ceil", "ceiling", "floor", "round", "sign", "trunc"}
    | {"btrim", "left", "lower", "ltrim", "right", "rtrim", "substr", "substring", "upper"}
    | {"char_length", "character_length", "length", "octet_length"}
)


@dataclass(frozen=True)
class Key:
    """A group key: every possible key in order, and SQL that gives a row's key as one of these texts.

    public: the list was read from a public table, and can change with it. columns: those that it reads, by their SQL.
    grain: of a key of one column, the seconds or the step between samples of which each of its values has one.
    """

    name: str
    sql: str
    domain: tuple[str | None, ...]
    public: bool = False
    columns: frozenset[str] = field(default=frozenset(), compare=False)
    grain: Decimal | int | None = field(default=None, compare=False)

    def canonical(self) -> str | list[str]:
        """What tells this key from another; the policy says the rest."""
        if not self.public:
            return self.sql
        return [self.sql, hashlib.sha256(json.dumps(self.domain).encode()).hexdigest()]


def compile_key(text: str, scope: Scope, fold: Fold, texts: Texts, conjuncts: Sequence[Term] = ()) -> Key:
    """An expression of a GROUP BY → its key: of a column, its declared domain; of any other, what follows from the
    declarations. conjuncts: of the question's WHERE, by which what is too much to list is narrowed. Public facts only.
    Errors: DP003, DP004 without a finite domain, DP005 for too many keys."""
    node = parse_expression(text)
    expression = compile_expression(text, scope, fold)
    if isinstance(node, ast.ColumnRef):
        item, column = named(node, scope)
        if item.relation.public:
            return _public_column(item, column.name, texts)
        own = frozenset({column_sql(item, column.name)})
        return Key(
            column.name, key_sql(column, item.sql_alias), key_domain(column, item.relation.qualified), columns=own
        )
    sql = text_sql(expression.type, expression.sql)
    if expression.kind is Kind.INTERVAL and not expression.constant and _is_date_trunc(node):
        sql = clock_text(expression.sql)
    if sql is None:
        raise DPError(
            SHAPE,
            f"an expression of {expression.kind.value} cannot be a group key",
            "Its equal values can have several texts: group by a number, a date or a text.",
        )
    name = deparse(node)
    if expression.constant:
        return Key(name, sql, grid.run(f"SELECT {sql} AS v", texts))
    columns, grain = frozenset(expression.columns), grid.grain_of(node, scope, sql)
    domain = _by_form(node, expression, scope)
    if domain is not None:
        return Key(name, sql, domain, columns=columns, grain=grain)
    public = tuple(f"{item.sql_alias}." for item in scope.items if item.relation.public)
    read = any(column.startswith(public) for column in expression.columns)
    within = lambda item, column: restriction(conjuncts, item, column)  # noqa: E731
    return Key(name, sql, grid.evaluate(sql, node, scope, texts, within), read, columns, grain)


def _is_date_trunc(node: Any) -> bool:
    """Of an interval, which date_trunc gives of times alone."""
    return isinstance(node, ast.FuncCall) and last_name(node.funcname) == "date_trunc"


def _public_column(item: Item, name: str, texts: Texts) -> Key:
    """The values that a public table has: its rows are nobody's, so they may be read."""
    column = item.relation.columns[name]
    x = identifier(name)
    sql, inner = text_sql(type_of(column), column_sql(item, name)), text_sql(type_of(column), x)
    if sql is None or inner is None:
        raise DPError(SHAPE, f"column {name} of type {column.type_name} cannot be a group key", "Group by another.")
    table = f"{identifier(item.relation.schema)}.{identifier(item.relation.name)}"
    rows = f"SELECT {inner} AS k, min({x}) AS o FROM {table} GROUP BY 1" if _has_order(column) else None
    rows = rows or f"SELECT DISTINCT {inner} AS k, {inner} AS o FROM {table}"
    domain = grid.run(f"SELECT k AS v FROM ({rows}) AS d ORDER BY k IS NULL, o LIMIT {MAX_KEYS + 1}", texts)
    if not domain:
        raise DPError(SHAPE, f"{item.relation.qualified} is empty: there is no group", "Ask its owner to fill it.")
    return Key(name, sql, domain, public=True)


def _has_order(column: Any) -> bool:
    return type_of(column).kind not in (Kind.BOOL, Kind.UUID)


def _by_form(node: Any, expression: Expression, scope: Scope) -> tuple[str | None, ...] | None:
    """The keys of an expression whose form alone makes them finite, whatever its columns hold; None for another."""
    null: tuple[None, ...] = (None,) if _can_be_null(node, scope) else ()
    if expression.results is not None and expression.kind is not Kind.FLOAT:
        texts = dict.fromkeys(_constant_text(term) for term in expression.results)
        return (*(text for text in texts if text is not None), *([None] if None in texts else []))
    if expression.kind is Kind.BOOL:
        return ("f", "t", *null)
    if isinstance(node, ast.FuncCall) and last_name(node.funcname) == "width_bucket":
        count = (node.args or ())[-1]
        if isinstance(count, ast.A_Const) and isinstance(count.val, ast.Integer):
            return (*(str(i) for i in range((count.val.ival or 0) + 2)), *null)
    return None


def _constant_text(term: Term) -> str | None:
    """The key's text of a constant, as text_sql gives it."""
    if term.value is None:
        return None
    if term.kind is Kind.BOOL:
        return term.value[0]
    if term.kind is Kind.NUMERIC and Decimal(term.value).is_finite():
        text = format(Decimal(term.value), "f")
        return text.rstrip("0").rstrip(".") if "." in text else text
    return term.value.rstrip(" ") if term.type.name == "pg_catalog.bpchar" else term.value


def _can_be_null(node: Any, scope: Scope) -> bool:
    """Whether an expression may be NULL, by its form and the declarations; when in doubt, yes."""
    rule = _NULL.get(type(node))
    return rule is None or rule(node, scope)


def _any_null(nodes: Any, scope: Scope) -> bool:
    return any(_can_be_null(node, scope) for node in nodes if node is not None)


def _column_null(node: Any, scope: Scope) -> bool:
    item, column = named(node, scope)
    return item.relation.public or column.policy is None or column.policy.nullable


def _operator_null(node: Any, scope: Scope) -> bool:
    if node.kind in (_E.AEXPR_DISTINCT, _E.AEXPR_NOT_DISTINCT):
        return False
    if node.kind == _E.AEXPR_NULLIF:
        return True
    operands = [node.lexpr, *(node.rexpr if isinstance(node.rexpr, tuple) else (node.rexpr,))]
    return _any_null(operands, scope) or node.kind in (_E.AEXPR_OP_ANY, _E.AEXPR_OP_ALL)


def _case_null(node: Any, scope: Scope) -> bool:
    return node.defresult is None or _any_null([node.defresult, *(when.result for when in node.args)], scope)


_NULL: dict[type, Callable[[Any, Scope], bool]] = {
    ast.A_Const: lambda node, scope: bool(node.isnull),
    ast.A_Expr: _operator_null,
    ast.BoolExpr: lambda node, scope: _any_null(node.args, scope),
    ast.BooleanTest: lambda node, scope: False,
    ast.CaseExpr: _case_null,
    ast.CoalesceExpr: lambda node, scope: all(_can_be_null(arg, scope) for arg in node.args),
    ast.ColumnRef: _column_null,
    ast.FuncCall: lambda node, scope: last_name(node.funcname) not in _STRICT or _any_null(node.args or (), scope),
    ast.MinMaxExpr: lambda node, scope: all(_can_be_null(arg, scope) for arg in node.args),
    ast.NullTest: lambda node, scope: False,
    ast.SQLValueFunction: lambda node, scope: False,
}
