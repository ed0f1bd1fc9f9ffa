"""Which conditions of a statement are decided by its text alone: conservative, and never by a row.

Only what every PostgreSQL decides in the same way is decided here: boolean constants, comparisons of numbers, and AND,
OR and NOT of such. "Not decided" is always a correct answer.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from pg_epsilon.query.parse import ast, enums

from .tree import strings

_COMPARED: dict[str, Callable[[Decimal, Decimal], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_SPELLED = {"t": True, "true": True, "f": False, "false": False}
_BOOLEAN = (("bool",), ("pg_catalog", "bool"))
_INTEGERS = tuple((*schema, name) for schema in ((), ("pg_catalog",)) for name in ("int2", "int4", "int8"))


def never_true(node: Any) -> bool:
    """Whether the condition is FALSE or NULL whatever its columns hold."""
    if isinstance(node, ast.BoolExpr):
        args: tuple[Any, ...] = node.args or ()
        if node.boolop == enums.BoolExprType.AND_EXPR:
            return any(map(never_true, args))
        if node.boolop == enums.BoolExprType.OR_EXPR:
            return all(map(never_true, args))
        return always_true(args[0]) or _is_null(args[0])
    return _is_null(node) or _value(node) is False


def always_true(node: Any) -> bool:
    """Whether the condition is TRUE whatever its columns hold."""
    return _decided(node, True)


def always_false(node: Any) -> bool:
    """Whether the condition is FALSE, and not NULL, whatever its columns hold."""
    return _decided(node, False)


def _decided(node: Any, value: bool) -> bool:
    if not isinstance(node, ast.BoolExpr):
        return _value(node) is value
    args: tuple[Any, ...] = node.args or ()
    if node.boolop == enums.BoolExprType.NOT_EXPR:
        return _decided(args[0], not value)
    # One FALSE decides an AND, one TRUE an OR; the other value needs all of them.
    enough = any if value == (node.boolop == enums.BoolExprType.OR_EXPR) else all
    return enough(_decided(item, value) for item in args)


def is_zero(node: Any) -> bool:
    """Whether a LIMIT is the constant 0."""
    if isinstance(node, ast.TypeCast) and _is_type(node.typeName, _INTEGERS):
        return is_zero(node.arg)
    return isinstance(node, ast.A_Const) and isinstance(node.val, ast.Integer) and not node.val.ival


def _is_null(node: Any) -> bool:
    if isinstance(node, ast.TypeCast):
        return _is_type(node.typeName, _BOOLEAN) and _is_null(node.arg)
    return isinstance(node, ast.A_Const) and bool(node.isnull)


def _is_type(name: Any, types: tuple[tuple[str, ...], ...]) -> bool:
    return strings(name.names) in types and not name.arrayBounds


def _value(node: Any) -> bool | None:
    """The value of a boolean constant or of a comparison of two numbers; None: not decided."""
    if isinstance(node, ast.TypeCast) and _is_type(node.typeName, _BOOLEAN):
        constant = node.arg.val if isinstance(node.arg, ast.A_Const) else None
        if isinstance(constant, ast.String):
            return _SPELLED.get((constant.sval or "").lower())
        return _value(node.arg)
    if isinstance(node, ast.A_Const) and isinstance(node.val, ast.Boolean):
        return bool(node.val.boolval)
    if isinstance(node, ast.A_Expr) and node.kind == enums.A_Expr_Kind.AEXPR_OP:
        name = strings(node.name)
        compare = _COMPARED.get(name[-1]) if name[:-1] in ((), ("pg_catalog",)) else None
        left, right = _number(node.lexpr), _number(node.rexpr)
        if compare is not None and left is not None and right is not None:
            return compare(left, right)
    return None


def _number(node: Any) -> Decimal | None:
    """The value of an integer constant, or of one with a point. Spellings of other bases are left to PostgreSQL."""
    if not isinstance(node, ast.A_Const):
        return None
    if isinstance(node.val, ast.Integer):
        return Decimal(node.val.ival or 0)
    if isinstance(node.val, ast.Float):
        text = node.val.fval or ""
        return Decimal(text) if text.replace(".", "", 1).isascii() and text.replace(".", "", 1).isdigit() else None
    return None
