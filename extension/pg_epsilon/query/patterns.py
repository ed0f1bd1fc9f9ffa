"""LIKE and ILIKE with a constant pattern."""

from __future__ import annotations

from typing import Any

from pg_epsilon.query.context import Context
from pg_epsilon.query.functions import case_folded, text_argument
from pg_epsilon.query.literals import coerce, literal
from pg_epsilon.query.logic import opposed
from pg_epsilon.query.parse import ast
from pg_epsilon.query.types import BOOL, TEXT, Kind, Term

LIKES = {"~~": "LIKE", "!~~": "NOT LIKE", "~~*": "ILIKE", "!~~*": "NOT ILIKE"}
# Matching recurses once per %, and PostgreSQL's stack check would then depend on the row.
MAX_WILDCARDS = 64


def compile_like(ctx: Context, node: Any, operator: str) -> Term:
    """Compile `x [NOT] LIKE|ILIKE 'pattern' [ESCAPE 'c']`; the escape becomes PostgreSQL's default."""
    word = LIKES.get(operator)
    if word is None:
        raise ctx.refuse(node, f"operator {operator} is not supported", "Use LIKE or ILIKE.")
    subject = text_argument(ctx, node.lexpr, ctx.compile(node.lexpr))
    pattern = _pattern(ctx, node.rexpr)
    if pattern is None:
        right = literal(TEXT, None).sql
    else:
        _check(ctx, node.rexpr, pattern)
        right = coerce(ctx, node, literal(TEXT, pattern), TEXT).sql
    other = word.removeprefix("NOT ") if word.startswith("NOT ") else f"NOT {word}"
    return opposed(*(_matched(ctx, node, subject, one, right) for one in (word, other)))[0]


def _matched(ctx: Context, node: Any, subject: Term, word: str, right: str) -> Term:
    sql = f"({subject.sql} {word} {right})"
    if word.endswith("ILIKE"):
        sql = case_folded(ctx, node, subject.sql, sql, f"({subject.sql} {word.replace('ILIKE', 'LIKE')} {right})")
    return Term(sql, BOOL, subject.columns)


def _text(ctx: Context, node: Any) -> str | None:
    term = coerce(ctx, node, ctx.compile(node), TEXT)
    if not term.literal or term.kind is not Kind.TEXT:
        raise ctx.refuse(node, "the pattern must be a constant", "Write the pattern in quotes.")
    return term.value


def _pattern(ctx: Context, node: Any) -> str | None:
    """Return the pattern in the form with backslash escapes."""
    if type(node) is not ast.FuncCall:
        return _text(ctx, node)
    names = [getattr(part, "sval", None) for part in node.funcname or ()]
    args = tuple(node.args or ())
    if names not in (["pg_catalog", "like_escape"], ["like_escape"]) or len(args) != 2:
        return _text(ctx, node)
    ctx.check_fields(node)
    pattern, escape = (_text(ctx, arg) for arg in args)
    if pattern is None or escape is None:
        return None
    if len(escape) > 1:
        raise ctx.refuse(args[1], "the escape must be empty or one character", "Write ESCAPE '!'.")
    return _escaped(pattern, escape)


def _escaped(pattern: str, escape: str) -> str:
    """Do what like_escape does, on characters."""
    if escape == "\\":
        return pattern
    if escape == "":
        return pattern.replace("\\", "\\\\")
    result = []
    after = False
    for character in pattern:
        if character == escape and not after:
            result.append("\\")
            after = True
        else:
            result.append("\\\\" if character == "\\" and not after else character)
            after = False
    return "".join(result)


def _check(ctx: Context, node: Any, pattern: str) -> None:
    wildcards = 0
    position = 0
    while position < len(pattern):
        if pattern[position] == "\\":
            if position + 1 == len(pattern):
                raise ctx.refuse(node, "the pattern must not end with an escape character", "Double it.")
            position += 1
        elif pattern[position] == "%":
            wildcards += 1
        position += 1
    if wildcards > MAX_WILDCARDS:
        raise ctx.refuse(node, f"the pattern has more than {MAX_WILDCARDS} %", "Use a simpler pattern.")
