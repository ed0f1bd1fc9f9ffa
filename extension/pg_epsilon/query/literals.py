"""Constants: what an analyst's literal means as a value of a type, and how it is written in generated SQL."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import Any

from pg_epsilon.query.context import Context
from pg_epsilon.query.types import (
    BOOL,
    BPCHAR,
    FLOAT8,
    INT4,
    INT8,
    NUMERIC,
    UNKNOWN,
    Kind,
    Term,
    Textual,
    Type,
)

MAX_NUMBER = 1_000  # characters of a number written out; 1e131071 is a number too
_INTEGER = re.compile(r"\s*([+-]?)(\d+)\s*", re.ASCII)
_NUMBER = re.compile(r"\s*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,5})?\s*", re.ASCII)
_SPECIAL = {
    "nan": "NaN",
    "infinity": "Infinity",
    "inf": "Infinity",
    "+infinity": "Infinity",
    "+inf": "Infinity",
    "-infinity": "-Infinity",
    "-inf": "-Infinity",
}
# These mean the engine's clock where the literal is evaluated, not the asker's now().
_RELATIVE = re.compile(r"now|today|tomorrow|yesterday", re.IGNORECASE)
# bool_in accepts unique prefixes.
_BOOLEANS = {word[:n]: "true" for word in ("true", "yes") for n in range(1, len(word) + 1)} | {
    word[:n]: "false" for word in ("false", "no") for n in range(1, len(word) + 1)
}
_BOOLEANS |= {"on": "true", "1": "true", "off": "false", "of": "false", "0": "false"}
_INT_RANGE = {
    "pg_catalog.int2": 2**15,
    "pg_catalog.int4": 2**31,
    "pg_catalog.int8": 2**63,
}
_ENCODINGS = {
    "UTF8": "utf-8",
    "SQL_ASCII": "ascii",
    **{
        f"LATIN{n}": f"iso8859-{part}"
        for n, part in zip(range(1, 11), (1, 2, 3, 4, 9, 10, 13, 14, 15, 16), strict=True)
    },
    **{f"ISO_8859_{n}": f"iso8859-{n}" for n in range(5, 9)},
    **{f"WIN{n}": f"cp{n}" for n in (866, 874, 1250, 1251, 1252, 1253, 1254, 1255, 1256, 1257, 1258)},
    "KOI8R": "koi8-r",
    "KOI8U": "koi8-u",
}


def quote(text: str) -> str:
    """Return `text` as a string literal that means the same under any standard_conforming_strings."""
    escaped = text.replace("'", "''")
    if "\\" in escaped:
        return "E'" + escaped.replace("\\", "\\\\") + "'"
    return f"'{escaped}'"


def identifier(name: str) -> str:
    """Return `name` as a quoted identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(type_: Type, value: str | None) -> Term:
    """Return the term of a constant given by its canonical text."""
    if value is None:
        return Term(f"NULL::{type_.name}", type_, literal=True, size=(0, 0))
    if type_.kind is Kind.BOOL:
        return Term(value, type_, literal=True, value=value)
    if type_.kind is Kind.INT:
        return _integer(int(value))
    if type_.kind is Kind.NUMERIC:
        return _numeric(value)
    return Term(f"{quote(value)}::{type_.name}", type_, literal=True, value=value)


def _integer(number: int) -> Term:
    text = str(number)
    if not -(2**63) <= number < 2**63:
        return _numeric(text)
    type_ = INT4 if -(2**31) <= number < 2**31 else INT8
    # A leading minus makes PostgreSQL read the number first, so the lowest int8 needs the quoted form.
    sql = text if number >= 0 else (f"({text})" if number > -(2**31) else f"'{text}'::{type_.name}")
    return Term(sql, type_, literal=True, value=text, size=(len(str(abs(number))), 0), nonzero=number != 0)


def _numeric(text: str) -> Term:
    finite = text not in _SPECIAL.values()
    size = None
    if finite:
        whole, _, fraction = text.lstrip("-").partition(".")
        size = (len(whole), len(fraction))
    plain = finite and "." in text and not text.startswith("-")
    sql = text if plain else f"{quote(text)}::{NUMERIC.name}"
    nonzero = finite and Decimal(text) != 0
    return Term(sql, NUMERIC, literal=True, value=text, size=size, nonzero=nonzero)


def untyped(value: str | None) -> Term:
    """Return the term of a string literal or NULL whose type its neighbours decide."""
    sql = "NULL" if value is None else quote(value)
    return Term(sql, UNKNOWN, literal=True, value=value, size=(0, 0) if value is None else None)


def number_from_source(ctx: Context, node: Any, text: str) -> Term:
    """Return the term of a number written in the expression (the parser's Float: anything beyond int4)."""
    plain = text.replace("_", "")
    if re.fullmatch(r"-?0[xXoObB][0-9a-fA-F]+", plain):
        return _integer(int(plain, 0))
    if re.fullmatch(r"-?\d+", plain, re.ASCII) and len(plain) <= MAX_NUMBER:
        return _integer(int(plain))
    return _numeric(_written_out(ctx, node, plain))


def coerce(ctx: Context, node: Any, term: Term, type_: Type) -> Term:
    """Give an untyped literal the type that its neighbours have."""
    if term.kind is not Kind.UNKNOWN:
        return term
    if term.value is None:
        return literal(type_, None)
    origin = term.origin if term.origin is not None else node
    return _READERS.get(type_.kind, _refuse_type)(ctx, origin, term.value, type_).but(origin=origin)


def fold_term(ctx: Context, node: Any, term: Term) -> Term:
    """Replace a constant expression by the constant that PostgreSQL computes."""
    padded = term.type.name == BPCHAR.name  # a cast would cut the padding off, which octet_length and LIKE see
    text = f"pg_catalog.textin(pg_catalog.bpcharout({term.sql}))" if padded else as_text(term.sql, term.kind)
    value = ctx.folded(Textual(text), node, "the constant")
    return literal(term.type, from_text(ctx, node, value, term.kind))


def enum_text(sql: str) -> str:
    """Return SQL for an enum's label. Not a cast: the owner of a type can say what function that is, and it would run
    as the engine, next to rows."""
    return f"pg_catalog.textin(pg_catalog.enum_out({sql}))"


def as_text(sql: str, kind: Kind) -> str:
    """Return SQL for the canonical text of a constant, the same under any session settings with ISO dates."""
    if kind is Kind.TIMESTAMPTZ:
        return f"(({sql}) AT TIME ZONE 'UTC')::pg_catalog.text"
    if kind is Kind.INTERVAL:
        # Signs of an interval's text mean different things under different IntervalStyles, so take it apart.
        part = "pg_catalog.extract({0!r}, i)"
        months = f"{part.format('year')} * 12 + {part.format('month')}"
        seconds = f"{part.format('hour')} * 3600 + {part.format('minute')} * 60 + {part.format('second')}"
        return (
            f"(SELECT pg_catalog.concat_ws('|', {months}, {part.format('day')}, {seconds})"
            f" FROM (SELECT ({sql}) AS i) AS c)"
        )
    return f"({sql})::pg_catalog.text"


def from_text(ctx: Context, node: Any, value: str | None, kind: Kind) -> str | None:
    """Return the canonical text of a value that `as_text` produced."""
    if value is None or (kind is Kind.INTERVAL and not value):  # concat_ws of nothing but NULL is empty
        return None
    if kind is Kind.TIMESTAMPTZ and "infinity" not in value:
        return f"{value[:-3]}+00 BC" if value.endswith(" BC") else f"{value}+00"
    if kind is Kind.INTERVAL:
        parts = value.split("|")
        if len(parts) != 3:
            raise ctx.refuse(node, "infinite intervals are not supported", "Write a finite interval.")
        months, days, seconds = (Decimal(part) for part in parts)
        return f"{months:+f} mons {days:+f} days {seconds:+f} secs"
    if kind is Kind.NUMERIC and len(value) > MAX_NUMBER:
        raise ctx.refuse(node, "the number is too long", f"Use at most {MAX_NUMBER} digits.")
    return value


def to_float(ctx: Context, node: Any, term: Term) -> Term:
    """Turn an exact constant into float8, as PostgreSQL does when it meets a float8 column."""
    return literal(FLOAT8, None) if term.value is None else _read_float(ctx, node, term.value, FLOAT8)


def trimmed(term: Term) -> Term:
    """Return a numeric constant without trailing zeros: 1.50 and 1.5 compare alike, and so do 40.0 and 40."""
    if not (term.literal and term.kind is Kind.NUMERIC and term.value) or term.value in _SPECIAL.values():
        return term
    plain = term.value.rstrip("0").rstrip(".") if "." in term.value else term.value
    return _numeric(plain) if "." in plain else _integer(int(plain))


def check_encoding(ctx: Context, node: Any, text: str) -> None:
    """Refuse a constant that the database's encoding cannot hold: sending it would fail in the channel."""
    codec = codecs.lookup(_ENCODINGS.get(ctx.scope.encoding.upper(), "ascii"))
    try:
        codec.encode(text)
    except UnicodeEncodeError:
        raise ctx.refuse(
            node,
            f"the constant has a character that the database's encoding {ctx.scope.encoding} lacks",
            "No row can hold it; leave it out.",
        ) from None


def _bad(ctx: Context, node: Any, value: str, type_: Type) -> Exception:
    shown = value if len(value) <= 60 else value[:57] + "..."
    what = type_.name.removeprefix("pg_catalog.")
    return ctx.refuse(node, f'"{shown}" is not a valid {what}', f"Write a constant of type {what}.")


def _refuse_type(ctx: Context, node: Any, value: str, type_: Type) -> Term:
    raise ctx.refuse(
        node,
        f"values of type {type_.name} cannot be compared here",
        "Only IS NULL and IS NOT NULL work on columns of this type.",
    )


def _read_bool(ctx: Context, node: Any, value: str, type_: Type) -> Term:
    word = _BOOLEANS.get(value.strip(" \t\n\v\f\r").lower())
    if word is None:
        raise _bad(ctx, node, value, type_)
    return literal(BOOL, word)


def _read_integer(ctx: Context, node: Any, value: str, type_: Type) -> Term:
    match = _INTEGER.fullmatch(value)
    limit = _INT_RANGE.get(type_.name, 2**63)
    if match is None or len(value) > MAX_NUMBER or not -limit <= int(match[1] + match[2]) < limit:
        raise _bad(ctx, node, value, type_)
    return _integer(int(match[1] + match[2]))


def _written_out(ctx: Context, node: Any, value: str) -> str:
    """Return a decimal number without exponent, with the display scale that PostgreSQL gives it."""
    if _NUMBER.fullmatch(value) is None or len(value) > MAX_NUMBER:
        raise _bad(ctx, node, value, NUMERIC)
    number = Decimal(value.strip())
    if abs(number.adjusted()) > MAX_NUMBER:
        raise ctx.refuse(node, "the number is too large or too small", f"Stay within {MAX_NUMBER} digits.")
    text = format(number, "f")
    return text.removeprefix("-") if number == 0 else text


def _read_numeric(ctx: Context, node: Any, value: str, type_: Type) -> Term:
    special = _SPECIAL.get(value.strip(" \t\n\v\f\r").lower())
    return _numeric(special if special is not None else _written_out(ctx, node, value))


def _read_float(ctx: Context, node: Any, value: str, type_: Type) -> Term:
    special = _SPECIAL.get(value.strip(" \t\n\v\f\r").lower())
    if special is not None:
        return literal(type_, special)
    if _NUMBER.fullmatch(value) is None or len(value) > MAX_NUMBER:
        raise _bad(ctx, node, value, type_)
    if type_.name != FLOAT8.name:  # rounding through float8 would round twice
        return literal(type_, ctx.folded(f"({quote(value)}::{type_.name})::pg_catalog.text", node, "the constant"))
    number = float(value)
    try:
        zero = Decimal(value.strip()) == 0
    except InvalidOperation:
        raise _bad(ctx, node, value, type_) from None
    if abs(number) == float("inf") or (number == 0 and not zero):
        raise _bad(ctx, node, value, type_)
    minus = "-" if str(number).startswith("-") else ""  # -0 equals 0, and its text does not
    return literal(type_, f"{minus}0" if number == 0 else repr(number))


def _read_text(ctx: Context, node: Any, value: str, type_: Type) -> Term:
    check_encoding(ctx, node, value)
    return literal(replace(type_, collation=None, deterministic=True), value)


def _read_moment(ctx: Context, node: Any, value: str, type_: Type) -> Term:
    check_encoding(ctx, node, value)
    if _RELATIVE.search(value):
        raise ctx.refuse(
            node,
            f'"{value[:60]}" means another moment each time it is read',
            "Use now() or current_date, plus or minus an interval.",
        )
    return _read_by_server(ctx, node, value, type_)


def _read_by_server(ctx: Context, node: Any, value: str, type_: Type) -> Term:
    check_encoding(ctx, node, value)
    name = type_.name.removeprefix("pg_catalog.")
    shown = value if len(value) <= 60 else value[:57] + "..."
    text = ctx.folded(as_text(f"{quote(value)}::{type_.name}", type_.kind), node, f'"{shown}" as {name}')
    return literal(type_, from_text(ctx, node, text, type_.kind))


def _read_enum(ctx: Context, node: Any, value: str, type_: Type) -> Term:
    if value not in (type_.labels or ()):
        raise _bad(ctx, node, value, type_)
    return literal(type_, value)


_READERS: dict[Kind, Callable[[Context, Any, str, Type], Term]] = {
    Kind.BOOL: _read_bool,
    Kind.INT: _read_integer,
    Kind.NUMERIC: _read_numeric,
    Kind.FLOAT: _read_float,
    Kind.TEXT: _read_text,
    Kind.DATE: _read_moment,
    Kind.TIMESTAMP: _read_moment,
    Kind.TIMESTAMPTZ: _read_moment,
    Kind.TIME: _read_moment,
    Kind.UUID: _read_by_server,
    Kind.ENUM: _read_enum,
    Kind.INTERVAL: _read_by_server,
}
