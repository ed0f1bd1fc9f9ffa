"""The text of a family's query → `from`, `where` and `aggregates` of a request, and its conditions with parameters.

One SELECT of one aggregate of one relation. A condition of WHERE that names a parameter compares one column with
parameters and constants: these columns are the classes of the release (numeric-release.md §6), and so are those of a
weight, which is the factors of sum(weight * x) that name parameters. Every other condition is the same for the whole
family. Nodes and fields that are not understood are refused, never dropped (rule R1).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pg_epsilon.errors import SHAPE, DPError
from pg_epsilon.query.aggregates import aggregate_from_text
from pg_epsilon.query.parse import ast, children, deparse, enums, parse_query

SPREADS = {
    "variance": "var_samp",
    "var_samp": "var_samp",
    "var_pop": "var_pop",
    "stddev": "stddev_samp",
    "stddev_samp": "stddev_samp",
    "stddev_pop": "stddev_pop",
}
FUNCTIONS = ("count", "sum", "avg", *SPREADS)
MOST_PARAMETERS = 32
EXAMPLE = "For example SELECT sum(loss) FROM adult WHERE age BETWEEN $1 AND $2."
WEIGHED = "A parameter stands in WHERE, or in a factor of a sum: sum((1 - abs(age - $1) / 100.0) * loss)."
_KINDS = enums.A_Expr_Kind
_MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_BETWEEN = {_KINDS.AEXPR_BETWEEN: "BETWEEN", _KINDS.AEXPR_NOT_BETWEEN: "NOT BETWEEN"}
_FORMS = "column = $1, <>, <, <=, >, >=, BETWEEN $1 AND $2, IN ($1, $2)"
# The fields of a SELECT that a family's query may use.
_PLAIN = frozenset({"targetList", "fromClause", "whereClause", "limitOption", "op", "all", "groupDistinct"})
_WORDS = {
    "withClause": "WITH",
    "distinctClause": "DISTINCT",
    "intoClause": "INTO",
    "groupClause": "GROUP BY",
    "havingClause": "HAVING",
    "windowClause": "WINDOW",
    "valuesLists": "VALUES",
    "sortClause": "ORDER BY",
    "limitOffset": "OFFSET",
    "limitCount": "LIMIT",
    "lockingClause": "FOR UPDATE",
}

Value = int | str  # the number of a parameter, from 1; or a constant as it was written


@dataclass(frozen=True)
class Condition:
    """`column operator values`: of one column, with at least one parameter.

    column: as it was written; operator: =, <>, <, <=, >, >=, BETWEEN, NOT BETWEEN, IN, NOT IN.
    """

    column: str
    operator: str
    values: tuple[Value, ...]

    @property
    def text(self) -> str:
        """As SQL has it, with $n."""
        shown = [f"${one}" if isinstance(one, int) else one for one in self.values]
        if self.operator.endswith("BETWEEN"):
            return f"{self.column} {self.operator} {shown[0]} AND {shown[1]}"
        if self.operator.endswith("IN"):
            return f"{self.column} {self.operator} ({', '.join(shown)})"
        return f"{self.column} {self.operator} {shown[0]}"


@dataclass(frozen=True)
class Weight:
    """What each row counts in a sum: an expression, as SQL with $n. columns: those that it reads, as written."""

    text: str
    columns: tuple[str, ...]
    parameters: frozenset[int]


@dataclass(frozen=True)
class Template:
    """A family's query. schema: None where FROM leaves it out. where: the conditions without a parameter.

    average: whether averages are asked for; spread: which variance or standard deviation is. The aggregate is the sum
    then. weight: by which the aggregate's value is multiplied; of a sum of weights alone the aggregate counts rows.
    """

    schema: str | None
    name: str
    alias: str | None
    where: str | None
    aggregate: dict[str, Any]
    average: bool
    spread: str | None
    conditions: tuple[Condition, ...]
    parameters: int
    weight: Weight | None = None


def read(query: str) -> Template:
    """A query's text, parsed. Errors: 42601 what is no SQL, DP003 what no family can be made of."""
    select = _select(parse_query(query, "table"))
    source = _source(select)
    fixed, conditions = [], []
    for one in _conjuncts(select.whereClause):
        if _parameters(one):
            conditions.append(_condition(one))
        else:
            fixed.append(one)
    aggregate, called, weight = _aggregate(select)
    used = {value for one in conditions for value in one.values if isinstance(value, int)}
    if weight is not None:
        used |= weight.parameters
    if not used or used != set(range(1, len(used) + 1)):
        raise DPError(SHAPE, "the query's parameters are $1, $2, … without a gap, in WHERE", EXAMPLE)
    if len(used) > MOST_PARAMETERS:
        raise DPError(SHAPE, f"more than {MOST_PARAMETERS} parameters in a query", EXAMPLE)
    return Template(
        schema=source.schemaname,
        name=source.relname,
        alias=None if source.alias is None else source.alias.aliasname,
        where=" AND ".join(f"({deparse(one)})" for one in fixed) or None,
        aggregate=aggregate,
        average=called == "avg",
        spread=SPREADS.get(called),
        conditions=tuple(conditions),
        parameters=len(used),
        weight=weight,
    )


def _select(statements: Any) -> Any:
    """The one plain SELECT."""
    select = statements[0].stmt if len(statements) == 1 else None
    if not isinstance(select, ast.SelectStmt):
        raise DPError(SHAPE, "a family's query is one SELECT", EXAMPLE)
    if select.op != enums.SetOperation.SETOP_NONE:
        raise DPError(SHAPE, "set operations are not supported in a family's query", "Release each SELECT by itself.")
    for slot in sorted(_used(select) - _PLAIN):
        words = _WORDS.get(slot, slot)
        raise DPError(SHAPE, f"{words} is not supported in a family's query", f"Leave {words} out. {EXAMPLE}")
    if select.limitOption != enums.LimitOption.LIMIT_OPTION_DEFAULT or select.all or select.groupDistinct:
        raise DPError(SHAPE, "this form of SELECT is not supported in a family's query", EXAMPLE)
    return select


def _source(select: Any) -> Any:
    """The one relation of FROM."""
    sources: tuple[Any, ...] = select.fromClause or ()
    if len(sources) != 1 or not isinstance(sources[0], ast.RangeVar):
        raise DPError(SHAPE, "a family's query reads one relation", f"{EXAMPLE} Joins are not supported.")
    (source,) = sources
    if _used(source) - {"schemaname", "relname", "inh", "relpersistence", "alias", "location"} or not source.inh:
        raise DPError(SHAPE, "FROM holds more than the name of a relation", f"Leave ONLY out. {EXAMPLE}")
    if source.alias is not None and _used(source.alias) - {"aliasname"}:
        raise DPError(SHAPE, "an alias with column names is not supported", "Give the relation's alias alone.")
    return source


def _aggregate(select: Any) -> tuple[dict[str, Any], str, Weight | None]:
    """(The request's form of the one aggregate, its name, a weight): of an average or a variance it is the sum."""
    targets: tuple[Any, ...] = select.targetList or ()
    if len(targets) != 1 or _used(targets[0]) - {"name", "val", "location"}:
        raise DPError(SHAPE, "a family's query has one result column", EXAMPLE)
    target = targets[0].val
    called = target.funcname[-1].sval if isinstance(target, ast.FuncCall) and target.funcname else None
    if called not in FUNCTIONS:
        raise DPError(SHAPE, "a family is of count(*), count(x), sum(x), avg(x), variance(x) or stddev(x)", EXAMPLE)
    if target.over is not None or target.agg_filter is not None or target.agg_distinct:
        raise DPError(SHAPE, f"{called} with OVER, FILTER or DISTINCT has no family", f"Use WHERE. {EXAMPLE}")
    text, weight = _split(target) if _parameters(target) else (deparse(target), None)
    found = aggregate_from_text(text)
    return {**found, "function": "count" if found["function"] == "count" else "sum", "name": called}, called, weight


def _split(target: Any) -> tuple[str, Weight]:
    """sum(weight * x) -> what is summed up of the rows, and the weight; sum(weight) counts them."""
    names = [one.sval for one in target.funcname]
    plain = not _used(target) - {"funcname", "args", "funcformat", "location"}
    factors = list(_factors(target.args[0])) if plain and len(target.args) == 1 else []
    weights = [one for one in factors if _parameters(one)]
    if names not in (["sum"], ["pg_catalog", "sum"]) or not weights or any(_has_query(one) for one in weights):
        raise DPError(SHAPE, "a parameter stands in the aggregate", WEIGHED)
    rest = " * ".join(f"({deparse(one)})" for one in factors if not _parameters(one))
    nodes = [node for one in weights for node in _descendants(one)]
    own = Weight(
        " * ".join(f"({deparse(one)})" for one in weights),
        tuple(dict.fromkeys(deparse(node) for node in nodes if isinstance(node, ast.ColumnRef))),
        frozenset(int(node.number or 0) for node in nodes if isinstance(node, ast.ParamRef)),
    )
    return f"sum({rest})" if rest else "count(*)", own


def _factors(node: Any) -> Iterator[Any]:
    """The operands of a product."""
    if isinstance(node, ast.A_Expr) and node.kind == _KINDS.AEXPR_OP and [one.sval for one in node.name or ()] == ["*"]:
        yield from _factors(node.lexpr)
        yield from _factors(node.rexpr)
    elif node is not None:
        yield node


def _has_query(node: Any) -> bool:
    return any(isinstance(one, ast.SubLink) for one in _descendants(node))


def _conjuncts(node: Any) -> Iterator[Any]:
    """The operands of WHERE's AND."""
    if isinstance(node, ast.BoolExpr) and node.boolop == enums.BoolExprType.AND_EXPR:
        for one in node.args or ():
            yield from _conjuncts(one)
    elif node is not None:
        yield node


def _condition(node: Any) -> Condition:
    """A comparison of one column with parameters; DP003 for any other use of a parameter."""
    found = _compared(node) if isinstance(node, ast.A_Expr) and len(node.name or ()) == 1 else None
    if found is not None:
        return found
    raise DPError(SHAPE, f"a parameter stands in {deparse(node)[:60]}", f"Conditions with parameters: {_FORMS}.")


def _compared(node: Any) -> Condition | None:
    left: Any = node.lexpr
    right: Any = node.rexpr
    name = node.name[0].sval
    if node.kind in _BETWEEN and isinstance(left, ast.ColumnRef):
        return _of(left, _BETWEEN[node.kind], right)
    if node.kind == _KINDS.AEXPR_IN and isinstance(left, ast.ColumnRef):
        return _of(left, "IN" if name == "=" else "NOT IN", right)
    if node.kind != _KINDS.AEXPR_OP or name not in _MIRRORED:
        return None
    if isinstance(right, ast.ColumnRef):
        left, right, name = right, left, _MIRRORED[name]
    return _of(left, name, (right,)) if isinstance(left, ast.ColumnRef) else None


def _of(column: Any, operator: str, values: Any) -> Condition | None:
    found = [_value(one) for one in values]
    known = tuple(one for one in found if one is not None)
    return Condition(deparse(column), operator, known) if len(known) == len(found) else None


def _value(node: Any) -> Value | None:
    """A parameter, with or without a cast, or an expression of constants."""
    inner = node
    while isinstance(inner, ast.TypeCast):
        inner = inner.arg
    if isinstance(inner, ast.ParamRef):
        return int(inner.number) if inner is node else None
    names = (isinstance(one, ast.ColumnRef | ast.ParamRef | ast.SubLink) for one in _descendants(node))
    return None if any(names) else deparse(node)


def _parameters(node: Any) -> bool:
    return any(isinstance(one, ast.ParamRef) for one in _descendants(node))


def _used(node: Any) -> set[str]:
    """The fields of a node that hold something."""
    return {slot for slot in node if getattr(node, slot) not in (None, False, ())}


def _descendants(root: Any) -> Iterator[Any]:
    """The node and all below it."""
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(children(node))
