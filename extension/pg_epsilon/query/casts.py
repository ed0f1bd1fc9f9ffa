"""Casts: of constants to anything (the server folds them), of columns where every row converts or becomes NULL."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pg_epsilon.query.arithmetic import numeric_sql
from pg_epsilon.query.compare import as_string, fits_float
from pg_epsilon.query.context import Context
from pg_epsilon.query.literals import coerce, enum_text, fold_term, identifier, literal, untyped
from pg_epsilon.query.parse import ast
from pg_epsilon.query.temporal import to_date, to_timestamp, to_timestamptz
from pg_epsilon.query.types import (
    BOOL,
    BPCHAR,
    DATE,
    FLOAT4,
    FLOAT8,
    INT4,
    INT8,
    INTERVAL,
    NUMERIC,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    VARCHAR,
    Kind,
    Term,
    Type,
    type_of,
)

_INT2 = Type(Kind.INT, "pg_catalog.int2")
_NAMES = {
    "bool": BOOL,
    "int2": _INT2,
    "int4": INT4,
    "int8": INT8,
    "numeric": NUMERIC,
    "float4": FLOAT4,
    "float8": FLOAT8,
    "text": TEXT,
    "varchar": VARCHAR,
    "bpchar": BPCHAR,
    "date": DATE,
    "timestamp": TIMESTAMP,
    "timestamptz": TIMESTAMPTZ,
    "time": TIME,
    "uuid": UUID,
    "interval": INTERVAL,
}
_WITH_MODIFIER = frozenset({"numeric", "varchar", "bpchar", "timestamp", "timestamptz", "time"})
# INTERVAL_MASK of the fields, as the grammar gives them (utils/timestamp.h).
_INTERVAL_FIELDS = {
    4: "year",
    2: "month",
    8: "day",
    1024: "hour",
    2048: "minute",
    4096: "second",
    6: "year to month",
    1032: "day to hour",
    3080: "day to minute",
    7176: "day to second",
    3072: "hour to minute",
    7168: "hour to second",
    6144: "minute to second",
    32767: "",
}
_LIMITS = {"pg_catalog.int2": 2**15, "pg_catalog.int4": 2**31, "pg_catalog.int8": 2**63}
_DIGITS = {"pg_catalog.int2": 5, "pg_catalog.int4": 10, "pg_catalog.int8": 19}


def named_type(ctx: Context, node: Any) -> tuple[Type, str]:
    """Return the type that a TypeName means and its spelling with modifiers; refuse what we do not know."""
    ctx.check_fields(node)
    names = [part.sval if isinstance(part, ast.String) else None for part in node.names or ()]
    enum = _enum(ctx, names)
    if enum is not None and not node.typmods:
        return enum, enum.name
    if len(names) == 2 and names[0] == "pg_catalog":
        names = names[1:]
    type_ = _NAMES.get(str(names[0])) if len(names) == 1 else None
    if type_ is None:
        shown = ".".join(str(name) for name in names)
        raise ctx.refuse(
            node, f"type {shown} is not supported in a cast", "Supported: " + ", ".join(sorted(_NAMES)) + "."
        )
    modifiers = [_modifier(ctx, node, item) for item in node.typmods or ()]
    if not modifiers:
        return type_, f"pg_catalog.{names[0]}"
    if type_ is INTERVAL and modifiers[0] in _INTERVAL_FIELDS and len(modifiers) <= 2:
        precision = f"({modifiers[1]})" if len(modifiers) == 2 else ""
        return type_, f"interval {_INTERVAL_FIELDS[modifiers[0]]}{precision}"
    if names[0] not in _WITH_MODIFIER:
        raise ctx.refuse(node, f"type {names[0]} takes no modifier", "Leave it out.")
    return type_, f"pg_catalog.{names[0]}({', '.join(str(item) for item in modifiers)})"


def _modifier(ctx: Context, node: Any, item: Any) -> int:
    if type(item) is ast.A_Const and isinstance(item.val, ast.Integer):
        return int(item.val.ival or 0)
    raise ctx.refuse(node, "a type modifier must be an integer", "Leave it out.")


def _enum(ctx: Context, names: list[Any]) -> Type | None:
    """Return the enum type of a column in scope that `names` spells."""
    spelled = {".".join(forms) for forms in _spellings([str(name) for name in names])}
    items = [item for level in ctx.scope.levels for item in level.items]
    for column in (column for item in items for column in item.relation.columns.values()):
        if column.enum_labels is None:
            continue
        if column.type_name in spelled or (len(names) == 1 and column.type_name.rpartition(".")[2] in spelled):
            return type_of(column)
    return None


def _spellings(names: list[str]) -> list[list[str]]:
    forms: list[list[str]] = [[]]
    for name in names:
        forms = [[*form, spelling] for form in forms for spelling in (name, identifier(name))]
    return forms


def compile_cast(ctx: Context, node: Any) -> Term:
    """Compile `x::type`, `CAST(x AS type)` and `type 'text'`."""
    if type(node.typeName) is not ast.TypeName:
        raise ctx.refuse(node, "this cast is not supported", "Use ::type.")
    if node.typeName.arrayBounds is not None:
        raise ctx.refuse(node, "arrays are supported only in = ANY (...) and <> ALL (...)", "List the values with IN.")
    type_, name = named_type(ctx, node.typeName)
    term = ctx.compile(node.arg)
    if term.constant:
        return cast_constant(ctx, node, term, type_, name)
    return cast_column(ctx, node, term, type_, name)


def _modified(type_: Type, name: str) -> bool:
    return type_.kind is not Kind.ENUM and ("(" in name or " " in name)


def cast_constant(ctx: Context, node: Any, term: Term, type_: Type, name: str) -> Term:
    """Return a constant converted to `type_`, spelled `name`; text is read as the literal it stands for."""
    origin = term.origin or node
    if not term.constant:
        raise ctx.refuse(node, "the elements of an array must be constants", "Write OR.")
    modified = _modified(type_, name)
    fields = term.kind is Kind.TEXT and type_.kind is Kind.INTERVAL  # text is read before the fields cut it
    if term.kind is Kind.TEXT and type_.kind is not Kind.TEXT:
        term = untyped(term.value).but(origin=origin)
    if (
        term.kind is Kind.UNKNOWN
        and modified
        and not fields
        and type_.kind in (Kind.INTERVAL, Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.TIME)
    ):
        read = coerce(ctx, origin, term, replace(type_, name=name))
        return fold_term(ctx, origin, read.but(type=type_))
    if term.kind is Kind.UNKNOWN:
        term = coerce(ctx, origin, term, type_)
    if term.type == type_ and not modified:
        return term.but(type=type_)
    if type_.kind is Kind.ENUM:
        raise ctx.refuse(node, "only a string constant can be cast to an enum", "Write the label in quotes.")
    if term.kind is Kind.INT and term.literal and not modified and _holds(type_, term.value):
        return literal(type_, term.value)  # the digits under all settings: no need to ask the server
    return fold_term(ctx, origin, Term(f"{term.sql}::{name}", type_))


def _holds(type_: Type, digits: str | None) -> bool:
    """Whether this is a text, or an integer that is wide enough."""
    limit = _LIMITS.get(type_.name, 0)
    return type_.name == TEXT.name or -limit <= int(digits or 0) < limit


def cast_column(ctx: Context, node: Any, term: Term, type_: Type, name: str) -> Term:
    """Return a column's value converted to `type_`; what PostgreSQL could not convert becomes NULL or infinity."""
    if _modified(type_, name):
        raise ctx.refuse(node, f"a cast of a column to {name} is not supported", "Cast without a modifier.")
    converter = _COLUMN_CASTS.get((term.kind, type_.kind))
    converted = converter(ctx, node, term, type_) if converter else None
    if converted is None:
        source, target = term.type.name.removeprefix("pg_catalog."), name.removeprefix("pg_catalog.")
        raise ctx.refuse(
            node, f"a cast from {source} to {target} can fail on a row", "compare the column in its own type"
        )
    return converted


def _same(ctx: Context, node: Any, term: Term, type_: Type) -> Term | None:
    return term if term.type.name == type_.name else None


def _to_integer(ctx: Context, node: Any, term: Term, type_: Type) -> Term | None:
    limit, digits = _LIMITS[type_.name], _DIGITS[type_.name]
    if term.kind is Kind.INT and term.type.name in _LIMITS and _LIMITS[term.type.name] <= limit:
        return term
    x = term.sql
    if term.kind is Kind.FLOAT:
        # rint() rounds half to even: the lowest half rounds up into the range, the highest out of it; 2^63 is exact.
        low, high = (f"-{limit}.5", f"{limit - 1}.5") if limit < 2**63 else (f"-{limit}", f"{limit}")
        inside = f"{x} >= '{low}'::{FLOAT8.name} AND {x} < '{high}'::{FLOAT8.name}"
    else:
        inside = f"{x} > '-{limit}.5'::{NUMERIC.name} AND {x} < {limit - 1}.5"
    return Term(f"(CASE WHEN {inside} THEN {x}::{type_.name} END)", type_, term.columns, size=(digits, 0))


def _to_numeric(ctx: Context, node: Any, term: Term, type_: Type) -> Term | None:
    return Term(numeric_sql(term), NUMERIC, term.columns, size=term.size, nonzero=term.nonzero)


def _to_float(ctx: Context, node: Any, term: Term, type_: Type) -> Term | None:
    if type_.name == FLOAT4.name:
        return term if term.type.name == FLOAT4.name else None
    if term.type.name == NUMERIC.name and not fits_float(term):
        return None
    return Term(f"{term.sql}::{FLOAT8.name}", FLOAT8, term.columns)


def _to_text(ctx: Context, node: Any, term: Term, type_: Type) -> Term | None:
    result = replace(type_, collation=term.type.collation, deterministic=term.type.deterministic)
    if term.kind is Kind.TEXT:
        return as_string(term, result)
    if type_.name == BPCHAR.name:
        return None
    text = enum_text(term.sql) if term.kind is Kind.ENUM else f"{term.sql}::{TEXT.name}"
    return Term(text, result, term.columns)


def _bool_to_integer(ctx: Context, node: Any, term: Term, type_: Type) -> Term | None:
    return Term(f"{term.sql}::{INT4.name}", INT4, term.columns, size=(1, 0)) if type_.name == INT4.name else None


def _integer_to_bool(ctx: Context, node: Any, term: Term, type_: Type) -> Term | None:
    return Term(f"({term.sql} <> 0)", BOOL, term.columns) if term.type.name == INT4.name else None


_Converter = Callable[[Context, Any, Term, Type], "Term | None"]
_COLUMN_CASTS: dict[tuple[Kind, Kind], _Converter] = {
    **{(kind, kind): _same for kind in (Kind.BOOL, Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.TIME)},
    **{(kind, kind): _same for kind in (Kind.UUID, Kind.ENUM, Kind.INTERVAL)},
    **{(kind, Kind.INT): _to_integer for kind in (Kind.INT, Kind.NUMERIC, Kind.FLOAT)},
    **{(kind, Kind.NUMERIC): _to_numeric for kind in (Kind.INT, Kind.NUMERIC)},
    **{(kind, Kind.FLOAT): _to_float for kind in (Kind.INT, Kind.NUMERIC, Kind.FLOAT)},
    **{(kind, Kind.TEXT): _to_text for kind in (Kind.TEXT, Kind.INT, Kind.BOOL, Kind.ENUM, Kind.UUID)},
    (Kind.BOOL, Kind.INT): _bool_to_integer,
    (Kind.INT, Kind.BOOL): _integer_to_bool,
    **{(kind, Kind.DATE): to_date for kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ)},
    **{(kind, Kind.TIMESTAMP): to_timestamp for kind in (Kind.DATE, Kind.TIMESTAMPTZ)},
    **{(kind, Kind.TIMESTAMPTZ): to_timestamptz for kind in (Kind.DATE, Kind.TIMESTAMP)},
}
