"""The column name that PostgreSQL derives for a target without AS (its FigureColname): a splice never renames."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pg_epsilon.query.parse import ast, enums

from .tree import kind, strings

UNNAMED = "?column?"
# A sub-query's star: only the facade knows the name, and a splice below it cannot change it.
UNKNOWN = None

_Name = tuple[str | None, int]

_FIXED: dict[str, str] = {
    "CoalesceExpr": "coalesce",
    "A_ArrayExpr": "array",
    "RowExpr": "row",
    "GroupingFunc": "grouping",
    "XmlSerialize": "xmlserialize",
    "MergeSupportFunc": "merge_action",
    "JsonParseExpr": "json",
    "JsonScalarExpr": "json_scalar",
    "JsonSerializeExpr": "json_serialize",
    "JsonObjectConstructor": "json_object",
    "JsonArrayConstructor": "json_array",
    "JsonArrayQueryConstructor": "json_array",
    "JsonObjectAgg": "json_objectagg",
    "JsonArrayAgg": "json_arrayagg",
}
_XML = {
    "IS_XMLCONCAT": "xmlconcat",
    "IS_XMLELEMENT": "xmlelement",
    "IS_XMLFOREST": "xmlforest",
    "IS_XMLPARSE": "xmlparse",
    "IS_XMLPI": "xmlpi",
    "IS_XMLROOT": "xmlroot",
    "IS_XMLSERIALIZE": "xmlserialize",
}
_JSON = {"JSON_EXISTS_OP": "json_exists", "JSON_QUERY_OP": "json_query", "JSON_VALUE_OP": "json_value"}
_SUBLINKS = {"EXISTS_SUBLINK": "exists", "ARRAY_SUBLINK": "array"}


def column_name(expression: Any) -> str | None:
    """The derived name of a target's expression; None if only the facade can tell."""
    name, strength = _figure(expression)
    return UNNAMED if strength == 0 else name


def _figure(node: Any) -> _Name:
    fixed = _FIXED.get(kind(node))
    if fixed is not None:
        return fixed, 2
    rule = _RULES.get(kind(node))
    return rule(node) if rule is not None else (UNNAMED, 0)


def _column(node: Any) -> _Name:
    names = [name for name in strings(node.fields) if name != "*"]
    return (names[-1], 2) if names else (UNNAMED, 0)


def _indirection(node: Any) -> _Name:
    names = [item.sval for item in node.indirection if isinstance(item, ast.String)]
    return (names[-1], 2) if names else _figure(node.arg)


def _cast(node: Any) -> _Name:
    name, strength = _figure(node.arg)
    if strength <= 1 and node.typeName is not None:
        return strings(node.typeName.names)[-1], 1
    return name, strength


def _operator(node: Any) -> _Name:
    return ("nullif", 2) if node.kind == enums.A_Expr_Kind.AEXPR_NULLIF else (UNNAMED, 0)


def _case(node: Any) -> _Name:
    name, strength = _figure(node.defresult) if node.defresult is not None else (UNNAMED, 0)
    return ("case", 1) if strength <= 1 else (name, strength)


def _min_max(node: Any) -> _Name:
    return ("greatest" if node.op == enums.MinMaxOp.IS_GREATEST else "least"), 2


def _value_function(node: Any) -> _Name:
    return node.op.name.removeprefix("SVFOP_").removesuffix("_N").lower(), 2


def _sublink(node: Any) -> _Name:
    fixed = _SUBLINKS.get(node.subLinkType.name)
    if fixed is not None:
        return fixed, 2
    return _first_target(node.subselect) if node.subLinkType.name == "EXPR_SUBLINK" else (UNNAMED, 0)


def _first_target(select: Any) -> _Name:
    while select.larg is not None:
        select = select.larg
    if not select.targetList:
        return "column1", 2
    target = select.targetList[0]
    if target.name is not None:
        return target.name, 2
    if isinstance(target.val, ast.ColumnRef) and strings(target.val.fields)[-1] == "*":
        return UNKNOWN, 2
    return column_name(target.val), 2


_RULES: dict[str, Callable[[Any], _Name]] = {
    "ColumnRef": _column,
    "A_Indirection": _indirection,
    "FuncCall": lambda node: (strings(node.funcname)[-1], 2),
    "A_Expr": _operator,
    "TypeCast": _cast,
    "CollateClause": lambda node: _figure(node.arg),
    "CaseExpr": _case,
    "MinMaxExpr": _min_max,
    "SQLValueFunction": _value_function,
    "SubLink": _sublink,
    "XmlExpr": lambda node: (_XML.get(node.op.name, UNNAMED), 2),
    "JsonFuncExpr": lambda node: (_JSON.get(node.op.name, UNNAMED), 2),
}
