"""Group keys come from declarations alone; restrictions follow from the predicate alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fix_query import fold
from pg_epsilon.errors import DPError
from pg_epsilon.query.domain import MAX_KEYS, key_domain, key_sql
from pg_epsilon.query.expression import Kind, Scope, compile_predicate
from pg_epsilon.query.restriction import Restriction, order_key, restriction
from pg_epsilon.query.schema import Column, ColumnPolicy

_OIDS = {"integer": 23, "numeric": 1700, "text": 25, "character": 1042, "boolean": 16, "date": 1082}


def column(type_: str, kind: str, **policy: object) -> Column:
    return Column("x", _OIDS[type_], type_, policy=ColumnPolicy(kind, **policy))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("declared", "keys"),
    [
        (column("text", "domain", domain=("b", "a", "b"), nullable=False), ("b", "a")),
        (column("text", "domain", domain=("a",)), ("a", None)),
        (column("character", "domain", domain=("a  ",), nullable=False), ("a",)),
        (column("integer", "domain", domain=("01", " 2"), nullable=False), ("1", "2")),
        (column("numeric", "domain", domain=("1.50", "1e2"), nullable=False), ("1.5", "100")),
        (column("boolean", "opaque"), ("f", "t", None)),
        (column("boolean", "domain", domain=("true",), nullable=False), ("t",)),
        (column("integer", "bounds", lower="-1", upper="2", nullable=False), ("-1", "0", "1", "2")),
        (column("integer", "bounds", lower="0", upper="10", resolution="4", nullable=False), ("0", "4", "8")),
        (column("numeric", "bounds", lower="0", upper="1", resolution="0.5", nullable=False), ("0", "0.5", "1")),
        (column("date", "bounds", lower="2024-02-28", upper="2024-03-01", nullable=False),
         ("2024-02-28", "2024-02-29", "2024-03-01")),
        (column("date", "bounds", lower="2024-01-01", upper="2024-01-20", resolution="1 week", nullable=False),
         ("2024-01-01", "2024-01-08", "2024-01-15")),
        (column("integer", "edges", edges=("0", "18", "65"), nullable=False), ("0", "18")),
        (Column("x", 701, "double precision", policy=ColumnPolicy("edges", edges=("-1.5", "0", "2"), nullable=False)),
         ("-1.5", "0")),
        (Column("x", 7, "public.mood", enum_labels=("sad", "ok"), policy=ColumnPolicy("opaque")), ("sad", "ok", None)),
    ],
)  # fmt: skip
def test_key_domain(declared: Column, keys: tuple[str | None, ...]) -> None:
    assert key_domain(declared) == keys


@pytest.mark.parametrize(
    ("declared", "sqlstate"),
    [
        (Column("x", 23, "integer"), "DP004"),
        (column("integer", "opaque"), "DP004"),
        (column("text", "opaque"), "DP004"),
        (column("numeric", "bounds", lower="0", upper="1"), "DP004"),
        (column("integer", "domain", domain=("one",)), "DP004"),
        (column("boolean", "domain", domain=("maybe",)), "DP004"),
        (column("integer", "domain", domain=(), nullable=False), "DP004"),
        (column("date", "bounds", lower="soon", upper="later"), "DP004"),
        (column("date", "bounds", lower="2024-01-01", upper="2024-01-20", resolution="1 month"), "DP004"),
        (column("integer", "bounds", lower="0", upper=str(MAX_KEYS)), "DP005"),
        (Column("x", 701, "double precision", policy=ColumnPolicy("opaque")), "DP003"),
        (Column("x", 1186, "interval", policy=ColumnPolicy("opaque")), "DP003"),
        (Column("x", 114, "json", policy=ColumnPolicy("opaque")), "DP003"),
        (Column("x", 25, "text", collation_deterministic=False, policy=ColumnPolicy("domain", domain=("a",))), "DP003"),
    ],
)
def test_no_finite_domain_is_an_error_with_a_hint(declared: Column, sqlstate: str) -> None:
    with pytest.raises(DPError) as caught:
        key_domain(declared)
    assert caught.value.sqlstate == sqlstate and caught.value.hint


def test_a_value_outside_the_edges_of_a_floating_point_column_has_no_edges_text() -> None:
    """By extra_float_digits = 0 the text of -1.5000000000000002 is '-1.5'."""
    sql = key_sql(Column("x", 701, "double precision", policy=ColumnPolicy("edges", edges=("-1.5", "0"))))
    assert 'r."x"::pg_catalog.text' not in sql and sql.endswith("(CASE WHEN r.\"x\" IS NOT NULL THEN '' END) END)")


def test_key_sql_refuses_what_cannot_be_a_key() -> None:
    with pytest.raises(DPError, match="floating point"):
        key_sql(Column("x", 701, "double precision", policy=ColumnPolicy("opaque")))
    assert key_sql(column("integer", "bounds", lower="0", upper="9"), "q") == 'q."x"::pg_catalog.text'


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("age > 3 AND age <= 9", "age", Restriction("3", "9", False, True)),
        ("age BETWEEN 1 AND 5 AND age > 1", "age", Restriction("1", "5", False, True)),
        ("ok AND age >= 3 AND age > 2", "age", Restriction("3", None)),
        ("age IN (1, 2, 9) AND age < 5", "age", Restriction(points=("1", "2"))),
        ("age = 1 AND age IN (1, 2)", "age", Restriction(points=("1",))),
        ("age = 1 OR age = 2", "age", Restriction(points=("1", "2"))),
            ("age = 1 OR name = 'x'", "age", None),
            ("NOT (age < 1 OR age > 2)", "age", Restriction("1", "2")),
        ("NOT age = 1", "age", None),
        ("age <> 1", "age", None),
        ("age = 1 AND age = 2", "age", None),
        ("age + 1 > 3", "age", None),
        ("big > age", "age", None),
        ("age > 1.5", "age", None),
        ("ok", "age", None),
        ("name = 'x'", "name", Restriction(points=("x",))),
        ("name > 'x'", "name", None),
        ("loose = 'x'", "loose", None),
        ("code = 'x'", "code", None),
        ("born >= '2024-01-01' AND born < '2024-02-01'", "born", Restriction("2024-01-01", "2024-02-01", True, False)),
        ("born > timestamp '2024-01-01 12:00:00'", "born", Restriction("2024-01-01", None, True)),
        ("born < timestamp '2024-01-01 12:00:00'", "born", Restriction(None, "2024-01-01", True, True)),
        ("at >= '2024-01-01 00:00:00' AND at < '2024-02-01 00:00:00'", "at",
         Restriction("2024-01-01 00:00:00+00", "2024-02-01 00:00:00+00", True, False)),
        ("price > 1.50", "price", Restriction("1.5", None, False)),
    ],
)  # fmt: skip
def test_restriction(scope: Scope, text: str, name: str, expected: Restriction | None) -> None:
    assert said(text, name, scope) == expected


def said(text: str, name: str, scope: Scope) -> Restriction | None:
    return restriction(compile_predicate(text, scope, fold).conjuncts, scope.items[0], name)


def test_canonical_moments_are_ordered_as_postgresql_orders_them() -> None:
    ordered = [
        "-infinity",
        "4714-11-24 BC",
        "0044-03-15 BC",
        "0043-01-01 BC",
        "0001-01-01",
        "2024-02-29",
        "10000-01-01",
        "infinity",
    ]
    keys = [order_key(Kind.DATE, text) for text in ordered]
    assert keys == sorted(keys) and len(set(keys)) == len(keys)
    stamps = ["2024-01-01 00:00:00+00", "2024-01-01 00:00:00.5+00", "2024-01-01 00:00:01+00"]
    keys = [order_key(Kind.TIMESTAMPTZ, text) for text in stamps]
    assert keys == sorted(keys)
    assert order_key(Kind.TEXT, "x") is None and order_key(Kind.NUMERIC, "NaN") is None


def test_a_qualified_or_aliased_column_restricts_too(scope: Scope) -> None:
    assert said("v.age = 1", "age", replace(scope, alias="v")) == Restriction(points=("1",))
