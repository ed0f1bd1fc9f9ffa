"""The compiler: an analyst's expression text → canonical SQL that cannot raise on any row (rule R1, design.md §2).

Allow-lists all the way down: node classes here, fields in context.py, operators and functions in their tables. What is
not listed is DP003 with its position and the nearest thing that works; nothing is ever dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pg_epsilon.errors import SHAPE, UNDECLARED, DPError
from pg_epsilon.query import compare, parse
from pg_epsilon.query.arithmetic import OPERATORS, arithmetic, negative
from pg_epsilon.query.arrays import array_elements
from pg_epsilon.query.casts import compile_cast
from pg_epsilon.query.compare import COMPARISONS, boolean, is_zero, settle
from pg_epsilon.query.constants import computed
from pg_epsilon.query.context import MAX_SQL, READ, Context
from pg_epsilon.query.functions import FUNCTIONS, text_argument
from pg_epsilon.query.literals import coerce, fold_term, literal, number_from_source, quote, untyped
from pg_epsilon.query.logic import columns_of, combine, negate, opposed
from pg_epsilon.query.names import column_sql, resolve
from pg_epsilon.query.parse import ast, enums
from pg_epsilon.query.patterns import LIKES, compile_like
from pg_epsilon.query.semijoin import compile_sublink
from pg_epsilon.query.temporal import value_function
from pg_epsilon.query.types import BOOL, BPCHAR, TEXT, Expression, Fold, FoldError, Kind, Scope, Term, size_of, type_of

__all__ = ["Expression", "Fold", "FoldError", "Kind", "Scope", "compile_expression", "compile_predicate"]

_E = enums.A_Expr_Kind


def compile_expression(text: str, scope: Scope, fold: Fold) -> Expression:
    """Compile one scalar expression over the relations of `scope`.

    Total: the SQL raises on no row; where PostgreSQL would raise, the documented extension of docs (functions of this
    package) holds. Privacy: the SQL is row-local and a function of the row, constants and public settings only, so one
    unit's rows change no other row's value. Errors: DP003 shape, DP004 undeclared column, 42703 and 42P01 for names.
    """
    ctx, term = _compile(text, scope, fold)
    if term.kind is Kind.UNKNOWN:
        term = coerce(ctx, ctx.root, term, TEXT)
    return _finish(term)


def compile_predicate(text: str, scope: Scope, fold: Fold) -> Expression:
    """`compile_expression` for a boolean expression; `conjuncts` holds the operands of its top-level AND."""
    ctx, term = _compile(text, scope, fold)
    return _finish(boolean(ctx, ctx.root, term))


def _compile(text: str, scope: Scope, fold: Fold) -> tuple[Context, Term]:
    try:
        root = parse.parse_expression(text)
        ctx = Context(scope, fold, text, root, compile_node)
        return ctx, compile_node(ctx, root)
    except RecursionError:
        raise DPError(SHAPE, "the expression is nested too deeply", "Simplify it.", position=0) from None


def _finish(term: Term) -> Expression:
    conjuncts = term.parts[1] if term.parts and term.parts[0] == "AND" else (term,)
    return Expression(
        term.sql,
        term.kind,
        term.type.name,
        term.columns,
        term.constant,
        term.size,
        term.column,
        conjuncts,
        term.type,
        term.results,
    )


def compile_node(ctx: Context, node: Any) -> Term:
    """Compile one node: allowed class, allowed fields, bounded size; constants are folded to literals."""
    handler = HANDLERS.get(type(node))
    if handler is None or type(node) not in READ:
        raise _unsupported(ctx, node)
    ctx.check_fields(node)
    try:
        term = handler(ctx, node)
    except DPError as refused:
        term = computed(ctx, node, refused)
    if term.constant and not term.literal:
        term = fold_term(ctx, node, term)
    if len(term.sql) > MAX_SQL:
        raise ctx.refuse(node, "the expression becomes too long", "Shorten it.")
    return term.but(origin=node) if term.literal and term.origin is None else term


def _unsupported(ctx: Context, node: Any) -> DPError:
    what, hint = _REFUSED.get(
        type(node), (type(node).__name__, "Use comparisons, AND, OR, NOT, IN, BETWEEN, LIKE, CASE.")
    )
    return ctx.refuse(node, f"{what} is not supported in an expression", hint)


_REFUSED = {
    ast.ParamRef: ("a parameter", "Send the value as a constant."),
    ast.CollateClause: ("COLLATE", "Compare without it: the column's own collation applies."),
    ast.A_Indirection: ("a subscript or field selection", "Use declared columns of simple types."),
    ast.RowExpr: ("a row value", "Compare the columns one by one, joined by AND."),
    ast.NamedArgExpr: ("a named argument", "Write the arguments by position."),
    ast.GroupingFunc: ("GROUPING", "Use it outside the private part of the statement."),
    ast.SetToDefault: ("DEFAULT", "Write the value."),
    ast.A_ArrayExpr: ("an array", "Use it only as x = ANY (ARRAY[...]) or x <> ALL (ARRAY[...])."),
}


def _constant(ctx: Context, node: Any) -> Term:
    value = node.val
    if node.isnull or value is None:
        return untyped(None)
    if isinstance(value, ast.Integer):
        return literal(compare.WIDE, str(value.ival or 0))
    if isinstance(value, ast.Float):
        return number_from_source(ctx, node, value.fval or "0")
    if isinstance(value, ast.Boolean):
        return literal(BOOL, "true" if value.boolval else "false")
    if isinstance(value, ast.String):
        return untyped(value.sval or "")
    raise ctx.refuse(node, "bit strings are not supported", "Write a number or text.")


def _column(ctx: Context, node: Any) -> Term:
    item, column = resolve(ctx, node)
    if column.policy is None:
        raise ctx.refuse(
            node,
            f"column {column.name} is not declared",
            f"Ask the owner: CALL dp.describe_column({quote(item.relation.qualified)}, {quote(column.name)}, ...).",
            UNDECLARED,
        )
    sql = column_sql(item, column.name)
    return Term(sql, type_of(column), frozenset({sql}), size=size_of(column), column=sql)


def _logic(ctx: Context, node: Any) -> Term:
    terms = [boolean(ctx, arg, ctx.compile(arg)) for arg in node.args]
    if node.boolop == enums.BoolExprType.NOT_EXPR and len(terms) == 1:
        return negate(terms[0])
    operator = {enums.BoolExprType.AND_EXPR: "AND", enums.BoolExprType.OR_EXPR: "OR"}.get(node.boolop)
    if operator is None:
        raise _unsupported(ctx, node)
    return combine(operator, terms)


def _null_test(ctx: Context, node: Any) -> Term:
    words = _NULL_TESTS.get(node.nulltesttype)
    if words is None:
        raise _unsupported(ctx, node)
    term = coerce(ctx, node, ctx.compile(node.arg), TEXT)
    one, other = (Term(f"({term.sql} {word})", BOOL, term.columns) for word in words)
    return opposed(one, other)[0]


_NULL_TESTS = {
    enums.NullTestType.IS_NULL: ("IS NULL", "IS NOT NULL"),
    enums.NullTestType.IS_NOT_NULL: ("IS NOT NULL", "IS NULL"),
}
_BOOLEAN_TESTS = {
    enums.BoolTestType.IS_TRUE: "IS TRUE",
    enums.BoolTestType.IS_NOT_TRUE: "IS NOT TRUE",
    enums.BoolTestType.IS_FALSE: "IS FALSE",
    enums.BoolTestType.IS_NOT_FALSE: "IS NOT FALSE",
    enums.BoolTestType.IS_UNKNOWN: "IS UNKNOWN",
    enums.BoolTestType.IS_NOT_UNKNOWN: "IS NOT UNKNOWN",
}


def _boolean_test(ctx: Context, node: Any) -> Term:
    word = _BOOLEAN_TESTS.get(node.booltesttype)
    if word is None:
        raise _unsupported(ctx, node)
    term = boolean(ctx, node.arg, ctx.compile(node.arg))
    return Term(f"({term.sql} {word})", BOOL, term.columns)


def _widest(terms: tuple[Term, ...]) -> tuple[int, int] | None:
    if any(term.size is None for term in terms):
        return None
    sizes = [term.size for term in terms if term.size is not None]
    return max(size[0] for size in sizes), max(size[1] for size in sizes)


def _case(ctx: Context, node: Any) -> Term:
    subject = ctx.compile(node.arg) if node.arg is not None else None
    conditions, results = [], []
    for when in node.args:
        if type(when) is not ast.CaseWhen:
            raise _unsupported(ctx, when)
        ctx.check_fields(when)
        test = ctx.compile(when.expr)
        if subject is not None:
            test = compare.compare(ctx, when, "=", subject, test)
        conditions.append(boolean(ctx, when, test))
        results.append(ctx.compile(when.result))
    results.append(ctx.compile(node.defresult) if node.defresult is not None else untyped(None))
    (last, *rest), type_ = settle(ctx, node, (results[-1], *results[:-1]))  # ELSE is the first to say the type
    settled = (*rest, last)
    arms = "".join(f" WHEN {c.sql} THEN {r.sql}" for c, r in zip(conditions, settled, strict=False))
    columns = columns_of(conditions) | columns_of(settled)
    known = settled if all(term.literal for term in settled) else None
    return Term(f"(CASE{arms} ELSE {settled[-1].sql} END)", type_, columns, size=_widest(settled), results=known)


def _coalesce(ctx: Context, node: Any) -> Term:
    settled, type_ = settle(ctx, node, [ctx.compile(arg) for arg in node.args])
    sql = f"COALESCE({', '.join(term.sql for term in settled)})"
    return Term(sql, type_, columns_of(settled), size=_widest(settled))


# Operands may be equal and yet differ ('30 days' and '1 mon', 1.0 and 1.00, 0 and -0): the order shows.
_VARIED = frozenset({Kind.INTERVAL, Kind.NUMERIC, Kind.FLOAT})


def _extreme(ctx: Context, node: Any) -> Term:
    word = {enums.MinMaxOp.IS_GREATEST: "GREATEST", enums.MinMaxOp.IS_LEAST: "LEAST"}.get(node.op)
    if word is None:
        raise _unsupported(ctx, node)
    settled, type_ = settle(ctx, node, [ctx.compile(arg) for arg in node.args])
    texts = [term.sql for term in settled]
    if type_.deterministic and type_.kind not in _VARIED and type_.name != BPCHAR.name:
        texts = sorted(set(texts))
    sql = f"{word}({', '.join(texts)})"
    return Term(sql, type_, columns_of(settled), size=_widest(settled))


def operator_name(ctx: Context, node: Any) -> str:
    """Return the operator of an A_Expr; only pg_catalog's."""
    names = [part.sval if isinstance(part, ast.String) else None for part in node.name or ()]
    if len(names) == 2 and names[0] == "pg_catalog":
        names = names[1:]
    if len(names) != 1 or names[0] is None:
        raise ctx.refuse(node, "operators of other schemas are not supported", "Use PostgreSQL's own operators.")
    return {"!=": "<>"}.get(str(names[0]), str(names[0]))


def _operator(ctx: Context, node: Any) -> Term:
    name = operator_name(ctx, node)
    if node.rexpr is None or isinstance(node.rexpr, tuple) or isinstance(node.lexpr, tuple):
        raise ctx.refuse(node, f"operator {name} is not supported in this form", "Use comparisons and + - * / %.")
    if node.lexpr is None:
        if name not in ("-", "+"):
            raise ctx.refuse(node, f"operator {name} is not supported", "Use comparisons and + - * / %.")
        return negative(ctx, node, ctx.compile(node.rexpr), name)
    if name in COMPARISONS:
        return compare.compare(ctx, node, name, ctx.compile(node.lexpr), ctx.compile(node.rexpr))
    if name in OPERATORS:
        return arithmetic(ctx, node, name, ctx.compile(node.lexpr), ctx.compile(node.rexpr))
    if name == "||":
        return _joined(ctx, node)
    if name in LIKES:  # what PostgreSQL's deparser makes of LIKE in a view
        return compile_like(ctx, node, name)
    raise ctx.refuse(node, f"operator {name} is not supported", "Use comparisons, LIKE and + - * / %.")


def _joined(ctx: Context, node: Any) -> Term:
    """`'a' || 'b'`: texts of constants only (ORMs write LIKE $1 || '%'); PostgreSQL folds it."""
    left, right = (text_argument(ctx, side, ctx.compile(side)) for side in (node.lexpr, node.rexpr))
    if not (left.literal and right.literal):
        raise ctx.refuse(node, "|| joins constants only", "Join the released values outside, or compare the columns.")
    return Term(f"({left.sql} || {right.sql})", TEXT)


def _nullif(ctx: Context, node: Any) -> Term:
    (left, right), type_ = settle(ctx, node, [ctx.compile(node.lexpr), ctx.compile(node.rexpr)], operator=True)
    sql = f"NULLIF({left.sql}, {right.sql})"
    return Term(sql, type_, left.columns | right.columns, size=left.size, nonzero=is_zero(right))


def _distinct(ctx: Context, node: Any) -> Term:
    left, right = ctx.compile(node.lexpr), ctx.compile(node.rexpr)
    return compare.distinct(ctx, node, left, right, node.kind == _E.AEXPR_NOT_DISTINCT)


def _in(ctx: Context, node: Any) -> Term:
    if not isinstance(node.rexpr, tuple):
        raise _unsupported(ctx, node)
    elements = [ctx.compile(element) for element in node.rexpr]
    return compare.member(ctx, node, ctx.compile(node.lexpr), elements, operator_name(ctx, node) == "<>")


def _any(ctx: Context, node: Any) -> Term:
    wanted = {_E.AEXPR_OP_ANY: ("=", False), _E.AEXPR_OP_ALL: ("<>", True)}[node.kind]
    if operator_name(ctx, node) != wanted[0]:
        raise ctx.refuse(node, "only = ANY (...) and <> ALL (...) are supported", "Write the comparisons with OR, AND.")
    left = ctx.compile(node.lexpr)
    elements = array_elements(ctx, node.rexpr)
    if not elements:
        return literal(BOOL, "true" if wanted[1] else "false")
    untyped_array = type(node.rexpr) is ast.A_ArrayExpr and all(one.kind is Kind.UNKNOWN for one in elements)
    if untyped_array and left.kind is Kind.TEXT:  # ARRAY['a', 'b'] is text[], where '{a,b}' is of the left side's type
        elements = [coerce(ctx, node, one, TEXT) for one in elements]
    return compare.member(ctx, node, left, elements, wanted[1], array=True)


def _between(ctx: Context, node: Any) -> Term:
    if not isinstance(node.rexpr, tuple) or len(node.rexpr) != 2:
        raise _unsupported(ctx, node)
    low, high = (ctx.compile(bound) for bound in node.rexpr)
    symmetric = node.kind in (_E.AEXPR_BETWEEN_SYM, _E.AEXPR_NOT_BETWEEN_SYM)
    negated = node.kind in (_E.AEXPR_NOT_BETWEEN, _E.AEXPR_NOT_BETWEEN_SYM)
    return compare.between(ctx, node, ctx.compile(node.lexpr), (low, high), symmetric, negated)


def _like(ctx: Context, node: Any) -> Term:
    return compile_like(ctx, node, operator_name(ctx, node))


KINDS: dict[Any, Callable[[Context, Any], Term]] = {
    _E.AEXPR_OP: _operator,
    _E.AEXPR_OP_ANY: _any,
    _E.AEXPR_OP_ALL: _any,
    _E.AEXPR_DISTINCT: _distinct,
    _E.AEXPR_NOT_DISTINCT: _distinct,
    _E.AEXPR_NULLIF: _nullif,
    _E.AEXPR_IN: _in,
    _E.AEXPR_LIKE: _like,
    _E.AEXPR_ILIKE: _like,
    _E.AEXPR_BETWEEN: _between,
    _E.AEXPR_NOT_BETWEEN: _between,
    _E.AEXPR_BETWEEN_SYM: _between,
    _E.AEXPR_NOT_BETWEEN_SYM: _between,
}


def _a_expr(ctx: Context, node: Any) -> Term:
    handler = KINDS.get(node.kind)
    if handler is None:
        raise ctx.refuse(node, "SIMILAR TO is not supported", "Use LIKE, ILIKE or =.")
    return handler(ctx, node)


# Of TimescaleDB: the proxy writes the calls of a statement anew, and not what stands in a text.
_BUCKET = "Write date_bin('7 days', ts, '2000-01-03'), or date_trunc('month', ts); of integers x / 10 * 10."
_INSTEAD = {"time_bucket": _BUCKET, "time_bucket_gapfill": _BUCKET}


def _function(ctx: Context, node: Any) -> Term:
    names = [part.sval if isinstance(part, ast.String) else None for part in node.funcname]
    if len(names) == 2 and names[0] == "pg_catalog":
        names = names[1:]
    handler = FUNCTIONS.get(str(names[0])) if len(names) == 1 else None
    if handler is None:
        shown = ".".join(str(name) for name in names)
        hint = _INSTEAD.get(str(names[-1]), "Supported: " + ", ".join(sorted(FUNCTIONS)) + ".")
        raise ctx.refuse(node, f"function {shown} is not supported here", hint)
    return handler(ctx, node, tuple(node.args or ())).but(test=None, column=None)


HANDLERS: dict[type, Callable[[Context, Any], Term]] = {
    ast.A_Const: _constant,
    ast.A_Expr: _a_expr,
    ast.BoolExpr: _logic,
    ast.BooleanTest: _boolean_test,
    ast.CaseExpr: _case,
    ast.CoalesceExpr: _coalesce,
    ast.ColumnRef: _column,
    ast.FuncCall: _function,
    ast.MinMaxExpr: _extreme,
    ast.NullTest: _null_test,
    ast.SQLValueFunction: value_function,
    ast.SubLink: compile_sublink,
    ast.TypeCast: compile_cast,
}
