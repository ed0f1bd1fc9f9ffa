"""Constant arrays, for `x = ANY (...)` and `x <> ALL (...)` only: drivers send lists this way."""

from __future__ import annotations

import re
from typing import Any

from pg_epsilon.query.casts import cast_constant, named_type
from pg_epsilon.query.context import Context
from pg_epsilon.query.literals import untyped
from pg_epsilon.query.parse import ast
from pg_epsilon.query.types import Term

_ITEM = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([^,{}"\\]+?))\s*(,|\Z)', re.DOTALL)
_HINT = "write = ANY (ARRAY[1, 2]) or = ANY ('{1,2}')"


def array_elements(ctx: Context, node: Any) -> list[Term]:
    """Return the elements of a constant array; NULL for the array counts as one NULL element."""
    if type(node) is ast.A_ArrayExpr:
        ctx.check_fields(node)
        return [ctx.compile(element) for element in node.elements or ()]
    if type(node) is ast.A_Const:
        ctx.check_fields(node)
        if node.isnull:
            return [untyped(None)]
        if isinstance(node.val, ast.String):
            return [untyped(item) for item in _parse(ctx, node, node.val.sval or "")]
    if type(node) is ast.TypeCast:
        ctx.check_fields(node)
        bounds = node.typeName.arrayBounds if type(node.typeName) is ast.TypeName else None
        if bounds is not None and len(bounds) == 1:
            type_, name = named_type(ctx, node.typeName)
            return [cast_constant(ctx, node, element, type_, name) for element in array_elements(ctx, node.arg)]
    raise ctx.refuse(node, "only constant arrays are supported", _HINT)


def _parse(ctx: Context, node: Any, text: str) -> list[str | None]:
    items = items_of(text)
    if items is None:
        raise ctx.refuse(node, "malformed array constant", _HINT)
    return items


def items_of(text: str) -> list[str | None] | None:
    """The elements of a one-dimensional array's text, NULL as None; None: it is no such text."""
    body = text.strip()
    if len(body) < 2 or not (body.startswith("{") and body.endswith("}")):
        return None
    body = body[1:-1]
    items: list[str | None] = []
    position = 0
    while body.strip():
        match = _ITEM.match(body, position)
        if match is None:
            return None
        if match[1] is not None:
            items.append(re.sub(r"\\(.)", r"\1", match[1], flags=re.DOTALL))
        else:
            items.append(None if match[2].upper() == "NULL" else match[2])
        position = match.end()
        if match[3] != ",":
            return items
    return items
