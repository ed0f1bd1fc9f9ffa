"""A small relation and a Fold that needs no server."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from pg_epsilon.query.expression import FoldError, Scope
from pg_epsilon.query.schema import Column, ColumnPolicy, Relation

OPAQUE = ColumnPolicy("opaque")
_TYPES = {
    "age": (23, "integer"),
    "big": (20, "bigint"),
    "free": (1700, "numeric"),
    "score": (701, "double precision"),
    "name": (25, "text"),
    "code": (1042, "character"),
    "born": (1082, "date"),
    "seen": (1114, "timestamp without time zone"),
    "at": (1184, "timestamp with time zone"),
    "ok": (16, "boolean"),
    "tags": (1009, "text[]"),
}
_CODES = {"k": (23, "integer"), "word": (25, "text"), "age": (23, "integer"), "since": (1082, "date")}
_LITERAL = re.compile(r"\({0,3}'((?:[^']|'')*)'::[^()]+?\)?(?: AT TIME ZONE '[^']*'\){0,2})?::pg_catalog\.text")


def fold(texts: Sequence[str]) -> list[str | None]:
    """Echo the literal that is being folded; anything that is not a plain literal cannot be evaluated."""
    values: list[str | None] = []
    for text in texts:
        match = _LITERAL.fullmatch(text)
        if match is None or "bad" in match[1]:
            raise FoldError(text)
        value = match[1].replace("''", "'")
        values.append(value.removesuffix("+00") if "AT TIME ZONE" in text else value)
    return values


@pytest.fixture
def scope() -> Scope:
    columns = {name: Column(name, oid, type_, policy=OPAQUE) for name, (oid, type_) in _TYPES.items()}
    columns["price"] = Column("price", 1700, "numeric", typmod=((10 << 16) | 2) + 4, policy=OPAQUE)
    columns["mood"] = Column("mood", 99_001, "public.mood", enum_labels=("sad", "ok"), policy=OPAQUE)
    columns["secret"] = Column("secret", 23, "integer")
    columns["loose"] = Column("loose", 25, "text", collation_deterministic=False, collation="public.ci", policy=OPAQUE)
    columns['o"dd'] = Column('o"dd', 23, "integer", policy=OPAQUE)
    codes = {name: Column(name, oid, type_, policy=OPAQUE) for name, (oid, type_) in _CODES.items()}
    known = {"ref.codes": Relation("ref", "codes", 2, codes, unique=(("k",),), public=True)}
    visits = known["public.visits"] = Relation("public", "visits", 1, columns)
    return Scope(visits, now="2026-11-21 02:00:00+00", public=lambda schema, name: known.get(f"{schema}.{name}"))
