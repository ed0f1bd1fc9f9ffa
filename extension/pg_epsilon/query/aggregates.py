"""A request's aggregates: what may be asked, in which words, and what it is of (docs/internals.md §1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import cache, cached_property, lru_cache, partial
from typing import Any, NamedTuple

from pg_epsilon.errors import OUT_OF_RANGE, SHAPE, DPError
from pg_epsilon.query.bounds import Lattice, lattice
from pg_epsilon.query.expression import Expression, Fold, Kind, Scope, compile_expression
from pg_epsilon.query.members import mapping, predicate, text
from pg_epsilon.query.names import column_sql, named
from pg_epsilon.query.owners import ROW
from pg_epsilon.query.parse import ast, deparse, enums, parse_expression
from pg_epsilon.query.schema import Column
from pg_epsilon.query.source import Source

ROWS, UNITS, COLUMN, VALUE, DISTINCT = "rows", "units", "column", "value", "distinct"
MEMBERS = frozenset({"function", "argument", "distinct", "filter", "name", "parameters"})
HINT = (
    "Supported: count(*), count(x), count(distinct unit), sum, avg, stddev, variance, median, percentile_disc and"
    " percentile_cont, each with FILTER."
)


class Function(NamedTuple):
    """What a name means: the canonical function, and for quantiles whether the fraction is given."""

    name: str
    quantile: bool = False
    fraction: Decimal | None = None


FUNCTIONS: Mapping[str, Function] = {
    "count": Function("count"),
    "sum": Function("sum"),
    "avg": Function("avg"),
    "variance": Function("var_samp"),
    "var_samp": Function("var_samp"),
    "var_pop": Function("var_pop"),
    "stddev": Function("stddev_samp"),
    "stddev_samp": Function("stddev_samp"),
    "stddev_pop": Function("stddev_pop"),
    "median": Function("quantile", True, Decimal("0.5")),
    "percentile_disc": Function("quantile", True),
    "percentile_cont": Function("quantile", True),
    "bound": Function("bound"),
}


@dataclass(frozen=True)
class Parameters:
    """What the asker gives beside an aggregate's argument; None: the default. Public, and part of the question.

    fraction: of a quantile, in [0, 1]. lower, upper, resolution: his clamp and lattice, in the argument's unit.
    max_contribution: how much one unit may contribute, in absolute value and the argument's unit (rows, for a count).
    base: of R2T's ladder, 2 or 5.5. beta: R2T's chance to overshoot. truncation: of R2T. theta: the
    share of rows that a bound should cover.
    """

    fraction: Decimal | None = None
    lower: Decimal | None = None
    upper: Decimal | None = None
    resolution: Decimal | None = None
    max_contribution: Decimal | None = None
    base: Decimal | None = None
    beta: Decimal | None = None
    truncation: str | None = None
    theta: Decimal | None = None

    def canonical(self) -> dict[str, str]:
        """The given ones as texts."""
        return {name: str(value) for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True)
class Aggregate:
    """One aggregate: a canonical function of rows, of units, of the rows with a non-null argument, or of its values.

    DISTINCT counts the different values of an argument that is not the unit, or the different rows of several.

    argument and filter are validated SQL; lattice: the integers that stand for the argument's values (of VALUE).
    """

    of: str
    argument: str | None
    filter: str | None
    name: str
    function: str = "count"
    lattice: Lattice | None = None
    parameters: Parameters = Parameters()

    @property
    def present(self) -> str | None:
        """SQL that is NULL where a row has no value: the argument, but for NaN where the lattice leaves it out."""
        if self.lattice is None or self.lattice.nan is None:
            return self.argument
        return f"NULLIF({self.argument}, 'NaN'::{self.lattice.nan})"

    @cached_property
    def meaning(self) -> str:
        """`canonical` as one text."""
        return repr(self.canonical())

    def canonical(self) -> dict[str, Any]:
        """What is computed: equal ones are computed once."""
        found: dict[str, Any] = {self.function: self.of}
        if self.argument:
            found["argument"] = self.argument
        if self.filter:
            found["filter"] = self.filter
        if self.lattice is not None:
            ends = [self.lattice.low, self.lattice.high, str(self.lattice.step), self.lattice.ladder]
            found["lattice"] = [self.lattice.sql, *ends]
        given = {k: v for k, v in self.parameters.canonical().items() if k not in ("lower", "upper", "resolution")}
        return {**found, **({"parameters": given} if given else {})}


# What a function is of, and the lattice of its values: function, argument, parameters.
Values = Callable[[str, str, Parameters], tuple[Expression, Lattice]]


def compile_aggregates(items: Iterable[Any], source: Source, scope: Scope, fold: Fold) -> tuple[Aggregate, ...]:
    """`compile_aggregate` of each of a block's; what several of them are of is compiled once."""
    values = cache(partial(_values, scope, fold))
    return tuple(compile_aggregate(item, source, scope, fold, values) for item in items)


def compile_aggregate(item: Any, source: Source, scope: Scope, fold: Fold, values: Values | None = None) -> Aggregate:
    """An aggregate of a request, a text or an object → validated. DP003 for what is not supported, DP004, DP005."""
    parts = parts_of(item)
    function = FUNCTIONS.get(str(parts.get("function")))
    if set(parts) - MEMBERS or function is None:
        raise DPError(SHAPE, f"aggregate {parts.get('function')!s:.60} is not supported", HINT)
    if not isinstance(parts.get("distinct"), bool | None):
        raise DPError(SHAPE, "request member distinct is not a boolean", "Use count(distinct unit).")
    name = str(parts.get("name") or parts["function"])
    condition = predicate(text(parts.get("filter"), "filter"), scope, fold)
    given = parts.get("argument")
    if isinstance(given, list):
        return _combinations(given, function, condition, name, parts, source, scope, fold)
    argument = text(given, "argument")
    parameters = _parameters(parts.get("parameters"), function)
    if function.name != "count":
        values = values or partial(_values, scope, fold)
        return _of_values(function, argument, condition, name, parameters, parts.get("distinct"), values)
    if parts.get("distinct") is True:
        if _is_unit(argument, source, scope):
            return Aggregate(UNITS, None, condition, name)
        sql = compile_expression(argument or "", scope, fold).sql
        return Aggregate(DISTINCT, sql, condition, name, parameters=parameters)
    if argument is None:
        raise DPError(OUT_OF_RANGE, "what must be 'rows' or 'units'", "dp_count(relation, predicate, what => 'units')")
    if argument == "*":
        return Aggregate(ROWS, None, condition, name, parameters=parameters)
    return Aggregate(COLUMN, compile_expression(argument, scope, fold).sql, condition, name, parameters=parameters)


def _combinations(
    given: list[Any],
    function: Function,
    condition: str | None,
    name: str,
    parts: Mapping[str, Any],
    source: Source,
    scope: Scope,
    fold: Fold,
) -> Aggregate:
    """count(DISTINCT (a, b)): how many different rows of these values there are. A row is never NULL, as in SQL."""
    texts = [str(text(item, "argument")) for item in given]
    if function.name != "count" or parts.get("distinct") is not True or not texts:
        raise DPError(SHAPE, f"{function.name} of a row value is not supported", "Use count(DISTINCT (a, b)).")
    parameters = _parameters(parts.get("parameters"), function)
    if _is_unit(texts[0], source, scope) and len(texts) == 1:  # rows without a unit are no rows of the question
        return Aggregate(UNITS, None, condition, name)
    row = ", ".join(compile_expression(item, scope, fold).sql for item in texts)
    return Aggregate(DISTINCT, f"{ROW}{row})", condition, name, parameters=parameters)


def _of_values(
    function: Function,
    argument: str | None,
    condition: str | None,
    name: str,
    parameters: Parameters,
    distinct: Any,
    values: Values,
) -> Aggregate:
    if argument is None or argument == "*":
        raise DPError(SHAPE, f"{function.name} needs an argument", "Name the column or expression.")
    if distinct is True:
        raise DPError(SHAPE, f"{function.name}(DISTINCT ...) is not supported", "Leave DISTINCT out.")
    expression, numbers = values(function.name, argument, parameters)
    return Aggregate(VALUE, expression.sql, condition, name, function.name, numbers, parameters)


def _values(
    scope: Scope, fold: Fold, function: str, argument: str, parameters: Parameters
) -> tuple[Expression, Lattice]:
    expression = compile_expression(argument, scope, fold)
    if expression.kind is Kind.UNKNOWN or expression.constant:
        raise DPError(SHAPE, f"{function} of a constant says nothing about rows", "Use count(*).")
    numbers = lattice(
        parse_expression(argument),
        expression,
        lambda node: column_of(node, scope),
        lower=parameters.lower,
        upper=parameters.upper,
        resolution=parameters.resolution,
    )
    return expression, numbers


def column_of(node: Any, scope: Scope) -> Column:
    """The column that a reference names."""
    return named(node, scope)[1]


_NUMBERS: Mapping[str, tuple[str, Decimal | None, Decimal | None]] = {
    "fraction": ("between 0 and 1", Decimal(0), Decimal(1)),
    "lower": ("finite", None, None),
    "upper": ("finite", None, None),
    "resolution": ("above 0", Decimal("1e-18"), None),
    "max_contribution": ("above 0", Decimal("1e-18"), None),
    "base": ("2 or 5.5", None, None),
    "beta": ("above 0 and below 1", Decimal("1e-12"), Decimal("0.999")),
    "theta": ("above 0 and below 1", Decimal("1e-9"), 1 - Decimal("1e-9")),
}


def _parameters(given: Any, function: Function) -> Parameters:
    document = mapping(given, "parameters") if given is not None else {}
    if set(document) - set(_NUMBERS) - {"truncation"}:
        raise DPError(SHAPE, "unknown parameter of an aggregate", f"Parameters: {', '.join(_NUMBERS)}, truncation.")
    found: dict[str, Any] = {k: _number(k, v) for k, v in document.items() if v is not None and k != "truncation"}
    truncation = text(document.get("truncation"), "truncation")
    if truncation not in (None, "min", "filter", "geo"):
        raise DPError(
            OUT_OF_RANGE,
            "truncation is min, filter or geo",
            "min cuts a contribution at the level, filter and geo leave it out.",
        )
    if function.quantile:
        found.setdefault("fraction", function.fraction)
        if found["fraction"] is None:
            raise DPError(OUT_OF_RANGE, "a quantile needs its fraction", "fraction => 0.9")
    elif "fraction" in found:
        raise DPError(OUT_OF_RANGE, "only quantiles take a fraction", "Leave fraction out.")
    if "theta" in found and function.name != "bound":
        raise DPError(OUT_OF_RANGE, "only a bound takes theta", "Leave theta out.")
    if found.get("base", 2) not in (2, Decimal("5.5")):
        raise DPError(OUT_OF_RANGE, "base is 2 or 5.5", "Leave base out: it is chosen by the expected error.")
    return Parameters(**found, truncation=truncation)


def _number(name: str, value: Any) -> Decimal:
    words, least, most = _NUMBERS[name]
    try:
        number = Decimal(text(value, name) or "")
    except InvalidOperation:
        number = Decimal("NaN")
    fits = number.is_finite() and abs(number.adjusted()) <= 100
    if not fits or (least is not None and number < least) or (most is not None and number > most):
        raise DPError(OUT_OF_RANGE, f"{name} must be {words}", f"Give {name} as a plain decimal number in that range.")
    return number.normalize()


_VALUES = (
    "count(*) counts the units: rows. For values of declared columns that have rows, as well as noise lets you:"
    " SELECT count(*) FROM (SELECT a, b FROM ... GROUP BY a, b HAVING count(*) > 3) AS g."
)


def _is_unit(argument: str | None, source: Source, scope: Scope) -> bool:
    """Whether a distinct count is one of units. DP003 where it is neither that nor a count of users' values."""
    if not source.has_user_units:
        raise DPError(SHAPE, "distinct counts need a dataset whose unit is a user", _VALUES)
    if argument is None:
        if source.units:
            raise DPError(SHAPE, "a result row belongs to several units", "Name the column: count(DISTINCT x).")
        return True
    node = parse_expression(argument)
    if isinstance(node, ast.ColumnRef):
        item, column = named(node, scope)
        return column_sql(item, column.name) in source.unit_columns
    return False


_SLOTS = frozenset({"funcname", "args", "agg_star", "agg_distinct", "agg_filter", "funcformat", "location"})
_ORDERED = frozenset({"agg_within_group", "agg_order"})


def parts_of(item: Any) -> Mapping[str, Any]:
    """The parts of an aggregate of a request, a text or an object. DP003 for what is neither."""
    if not isinstance(item, str):
        return mapping(item, "aggregates")
    return _parts_of_short(item) if len(item) <= SHORT else aggregate_from_text(item)


def aggregate_from_text(source: str) -> Mapping[str, Any]:
    """'count(distinct x) FILTER (WHERE p)', 'percentile_disc(0.5) WITHIN GROUP (ORDER BY x)' → the request's form."""
    node = parse_expression(source)
    names = [part.sval for part in node.funcname or ()] if isinstance(node, ast.FuncCall) else []
    name = names[-1] if len(names) == 1 or names[:-1] == ["pg_catalog"] else None
    if name not in FUNCTIONS:
        raise DPError(SHAPE, f"{source[:60]} is not a supported aggregate", HINT)
    used = {slot for slot in node if getattr(node, slot) not in (None, False, ())}
    ordered = name in ("percentile_disc", "percentile_cont")
    if used - (_SLOTS | _ORDERED if ordered else _SLOTS) or (not node.agg_star and len(node.args or ()) != 1):
        raise DPError(SHAPE, f"{source[:60]} has a part that is not supported", HINT)
    first: Any = "*" if node.agg_star else next(iter(node.args or ()))
    if isinstance(first, ast.RowExpr):
        first = [deparse(part) for part in first.args or ()]
    elif not node.agg_star:
        first = deparse(first)
    found = {
        "function": name,
        "argument": _sorted_by(node, source) if ordered else first,
        "distinct": bool(node.agg_distinct),
        "filter": deparse(node.agg_filter) if node.agg_filter is not None else None,
        "name": source,
    }
    return {**found, "parameters": {"fraction": first}} if ordered else found


# A block's aggregates are read by every kind of question that asks whether it is one of it.
SHORT = 1_000
_parts_of_short = lru_cache(maxsize=128)(aggregate_from_text)


def _sorted_by(node: Any, source: str) -> str:
    order: tuple[Any, ...] = tuple(node.agg_order or ())
    plain = (
        {slot for slot in order[0] if getattr(order[0], slot) not in (None, False, ())} if len(order) == 1 else set()
    )
    if not node.agg_within_group or len(order) != 1 or plain - {"node", "location", "sortby_dir", "sortby_nulls"}:
        raise DPError(SHAPE, f"{source[:60]} has a part that is not supported", HINT)
    if order[0].sortby_dir == enums.SortByDir.SORTBY_DESC:
        raise DPError(SHAPE, "a quantile in descending order is not supported", "Ask for 1 - fraction, ascending.")
    return deparse(order[0].node)
