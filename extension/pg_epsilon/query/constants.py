"""Calls on constants alone, which PostgreSQL computes under the asker's settings before a question is compiled.

What is not known here by name (functions.py, arithmetic.py) is a constant all the same where every operand is one. A
built-in function that is IMMUTABLE is a function of its operands; of STABLE ones, which may read settings, catalogs and
tables, only those in `_STABLE` are. Both are computed by the engine, on no row. What is VOLATILE is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from pg_epsilon.errors import SHAPE, DPError
from pg_epsilon.query.context import Context
from pg_epsilon.query.literals import as_text, fold_term, identifier, quote, untyped
from pg_epsilon.query.parse import ast, enums
from pg_epsilon.query.types import Fixed, Kind, Term, Textual, type_by_oid

# STABLE for the sake of TimeZone, DateStyle or a type's output: functions of operands and of the asker's settings. What
# is known of them is not asked again: tests/sql/test_constants.py compares it with pg_proc.
_STABLE = frozenset(
    {"age", "concat", "concat_ws", "date_part", "date_trunc", "extract", "format", "make_timestamptz"}
    | {"quote_literal", "quote_nullable", "timezone", "to_char", "to_date", "to_number", "to_timestamp"}
)
# Their result may be much longer than their operands: the integers among these say how much.
_PADDING = frozenset({"format", "lpad", "repeat", "rpad"})
MAX_VALUE = 131_072  # bytes of what they give
MAX_TEXT = 10_000  # characters of all operands together
_RELATIVE = re.compile(r"\b(now|today|tomorrow|yesterday)\b", re.IGNORECASE)
_WIDE = re.compile(r"\d{6}")
# What pg_proc says of all functions of a name, and pg_operator of all operators; objects from 16384 on are not
# PostgreSQL's own. v: VOLATILE, s: STABLE, i: IMMUTABLE, x: no function of one value.
_KNOWN = (
    "(SELECT CASE WHEN pg_catalog.count(*) = 0 OR pg_catalog.bool_or(p.prokind <> 'f' OR p.proretset"
    " OR p.oid >= 16384) THEN 'x' WHEN pg_catalog.bool_or(p.provolatile = 'v') THEN 'v'"
    " WHEN pg_catalog.bool_or(p.provolatile = 's') THEN 's' ELSE 'i' END FROM pg_catalog.pg_proc AS p{join}"
    " WHERE {name} = {quoted} AND p.pronamespace = 11)"
)
_OPERATOR = " JOIN pg_catalog.pg_operator AS o ON o.oprcode = p.oid AND o.oprnamespace = 11 AND o.oid < 16384"

# The oid of its type, the bytes of its text, which the type's own output alone makes (a cast to text would cut off
# what char(n) is padded with; NULL has none), and of a text that is not too long the text itself.
_TYPE_SIZE_TEXT = (
    "pg_catalog.concat(pg_catalog.pg_typeof(x)::pg_catalog.oid, ' ',"
    " CASE WHEN x IS NOT NULL THEN pg_catalog.octet_length(pg_catalog.concat(x)) END, ' ',"
    " CASE WHEN pg_catalog.pg_typeof(x) = 'pg_catalog.text'::pg_catalog.regtype"
    f" AND pg_catalog.octet_length(pg_catalog.concat(x)) <= {MAX_VALUE} THEN pg_catalog.concat(x) END)"
)
_COMPUTED_ONCE = "FROM (SELECT {sql} AS x OFFSET 0) AS c"


def computed(ctx: Context, node: Any, refused: DPError) -> Term:
    """The constant that a call or an operator on constants is. Raises `refused`, why it was not understood, otherwise.

    Errors: DP003 for a VOLATILE function, a value that cannot be computed, operands that are too long.
    """
    form = _FORMS.get(type(node))
    if form is None or refused.sqlstate != SHAPE:
        raise refused
    key = (id(node), id(ctx.scope))
    if key in ctx.refused:  # nested calls are tried twice a level, once by the function around them
        raise ctx.refused[key][1]
    try:
        term = form(ctx, node)
        if term is None:
            raise refused
        return fold_term(ctx, node, term)
    except DPError as error:
        ctx.refused[key] = (ctx.scope, error)
        raise


def _call(ctx: Context, node: Any) -> Term | None:
    names = [getattr(part, "sval", None) for part in node.funcname]
    if len(names) == 2 and names[0] == "pg_catalog":
        names = names[1:]
    args = tuple(node.args or ())
    if len(names) != 1 or names[0] is None or (names[0] == "age" and len(args) != 2):  # else since the engine's day
        return None
    name = str(names[0])
    letter = "s" if name in _STABLE else _letter(ctx, "p.proname", name)
    if letter == "v":
        hint = f"Run SELECT {name}(...) first, and write its value as a constant or a parameter."
        raise ctx.refuse(node, f"function {name} is VOLATILE: its value may differ from row to row", hint)
    if letter != "i" and not (letter == "s" and name in _STABLE):
        return None
    operands = _operands(ctx, node, args, pads=name in _PADDING)
    return None if operands is None else _typed(ctx, node, f"pg_catalog.{identifier(name)}({', '.join(operands)})")


def _applied(ctx: Context, node: Any) -> Term | None:
    name = node.name[-1].sval
    if node.kind != enums.A_Expr_Kind.AEXPR_OP or isinstance(node.rexpr, tuple) or node.rexpr is None:
        return None
    sides = tuple(side for side in (node.lexpr, node.rexpr) if side is not None)
    operands = _operands(ctx, node, sides, pads=False)
    if operands is None or _letter(ctx, "o.oprname", name) not in ("i", "s"):
        return None
    left = f"{operands[0]} " if len(operands) == 2 else ""
    return _typed(ctx, node, f"({left}OPERATOR(pg_catalog.{name}) {operands[-1]})")


_FORMS: dict[type, Callable[[Context, Any], Term | None]] = {ast.A_Expr: _applied, ast.FuncCall: _call}


def _letter(ctx: Context, column: str, name: str) -> str:
    """What PostgreSQL says of its functions, or operators, of this name: asked each time, so that a question's
    statements do not tell what was asked before it."""
    join = _OPERATOR if column == "o.oprname" else ""
    how = f"{_KNOWN}::pg_catalog.text"
    asked, prepared = (how.format(join=join, name=column, quoted=one) for one in (quote(name), "$1"))
    try:
        return ctx.folded(Fixed(asked, prepared, name), ctx.root, "the name") or "x"
    except DPError:
        return "x"


def _operands(ctx: Context, node: Any, args: tuple[Any, ...], *, pads: bool) -> list[str] | None:
    """SQL of operands that are all constants; None if one is not."""
    found: list[str] = []
    for given in args:
        named = type(given) is ast.NamedArgExpr
        arg, prefix = (given.arg, f"{identifier(given.name)} => ") if named else (given, "")
        several = arg.elements or () if type(arg) is ast.A_ArrayExpr else (arg,)
        terms = [ctx.compile(one) for one in several]
        if not all(term.literal for term in terms):
            return None
        if any(_RELATIVE.search(term.value or "") for term in terms if term.kind is Kind.UNKNOWN):
            hint = "Use now() or current_date, plus or minus an interval."
            raise ctx.refuse(arg, "a word for a moment means another one each time it is read", hint)
        if pads and any(_WIDE.search(term.value or "") for term in terms):
            raise ctx.refuse(arg, "the constant becomes too long", "Use widths of at most five digits.")
        texts = [term.sql for term in terms]
        found.append(prefix + (f"ARRAY[{', '.join(texts)}]" if type(arg) is ast.A_ArrayExpr else texts[0]))
    if sum(len(text) for text in found) > MAX_TEXT:
        raise ctx.refuse(node, "the constants of this call are too long", "Shorten them.")
    return found


def _typed(ctx: Context, node: Any, sql: str) -> Term | None:
    """The call, with the type that PostgreSQL gives it; None for a type whose values are not compared here."""
    found = ctx.folded(Textual(_TYPE_SIZE_TEXT, _COMPUTED_ONCE.format(sql=sql), sql), node, "the constant")
    oid, size, text = (found or "0  ").split(" ", 2)
    type_ = type_by_oid(int(oid))
    if type_ is None:
        return None
    if type_.kind is Kind.TEXT:
        if int(size or 0) > MAX_VALUE:
            raise ctx.refuse(node, "the constant becomes too long", "Shorten it.")
        if not size:
            return untyped(None)
        if type_.name == "pg_catalog.text":
            ctx.memo[as_text(sql, type_.kind)] = text
    return Term(sql, type_)
