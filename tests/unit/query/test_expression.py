"""Canonical SQL: texts that mean the same compile to the same SQL (the cache key); names; what is declared."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fix_query import fold
from pg_epsilon.errors import DPError
from pg_epsilon.query.expression import Kind, Scope, compile_expression, compile_predicate


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ("age > 30", '(r."age" > 30)'),
        ("30 < age", '(r."age" > 30)'),
        ("age IN (3, 1, 2, 1)", '(r."age" IN (1, 2, 3))'),
        ("age = 1", '(r."age" = 1)'),
        ("age IN (1, 1)", '(r."age" = 1)'),
        ("age BETWEEN 1 AND 5", '((r."age" <= 5) AND (r."age" >= 1))'),
        ("ok AND ok", 'r."ok"'),
        ("NOT ok", '(NOT r."ok")'),
        ("name = 'it''s'", "(r.\"name\" = 'it''s'::pg_catalog.text)"),
        ("born >= '2020-01-01'", "(r.\"born\" >= '2020-01-01'::pg_catalog.date)"),
        ("score > 1", "(r.\"score\" > '1.0'::pg_catalog.float8)"),
        ("price = 1.50", '(r."price" = 1.5)'),
        ("-5 < age", '(r."age" > (-5))'),
        ("mood = 'sad'", "(r.\"mood\" = 'sad'::public.mood)"),
        ("mood = 'sad'::mood", "(r.\"mood\" = 'sad'::public.mood)"),
        ("mood = 'sad'::public.mood", "(r.\"mood\" = 'sad'::public.mood)"),
        ("age = ANY ('{2,1}')", '(r."age" IN (1, 2))'),
        ("age <> ALL (ARRAY[2, 1])", '(r."age" NOT IN (1, 2))'),
        ("age = ANY ('{}'::int[])", "false"),
        ("age + 1 > 2", '((1::pg_catalog.numeric + r."age"::pg_catalog.numeric) > 2)'),
        ("age / 2 = 1", '(pg_catalog.div(r."age"::pg_catalog.numeric, 2::pg_catalog.numeric) = 1)'),
        ("true", "true"),
        ("true AND ok", 'r."ok"'),
        ("false AND ok", "false"),
        ("false OR ok", 'r."ok"'),
        ("ok OR NOT false", "true"),
        ("tags IS NULL", '(r."tags" IS NULL)'),
        ('"o""dd" = 1', '(r."o""dd" = 1)'),
        ("name LIKE 'a!%' ESCAPE '!'", "(r.\"name\" LIKE E'a\\\\%'::pg_catalog.text)"),
        ("name LIKE 'a\\' ESCAPE ''", "(r.\"name\" LIKE E'a\\\\\\\\'::pg_catalog.text)"),
        ("born < now()", "(r.\"born\" < '2026-11-21 02:00:00'::pg_catalog.timestamp)"),
    ],
)
def test_canonical_sql(scope: Scope, text: str, sql: str) -> None:
    assert compile_predicate(text, scope, fold).sql == sql


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("age > 1 AND name = 'x' AND ok", "(ok AND 'x' = name) AND 1 < age AND ok"),
        ("age = 1 OR age = 2", "2 = age OR (1 = age OR age = 1)"),
        ("age IN (1, 2)", "age = ANY (ARRAY[2, 1, 2])"),
        ("age NOT IN (1, 2)", "age <> ALL ('{2,1}')"),
        ("age BETWEEN 1 AND 2", "age >= 1 AND age <= 2"),
        ("age NOT BETWEEN 1 AND 2", "age < 1 OR age > 2"),
        ("age != 1", "1 <> age"),
        ("price > 1.50", "price > 1.5"),
        ("age + big > 1", "big + age > 1"),
        ("visits.age = 1", "public.visits.age = 1"),
        ("AGE = 1 -- comment", '"age"/**/=1'),
        ("age = '1'", "age = 1"),
        ("ok = 'yes'", "ok = true"),
        ("coalesce(age, 1) = 1", "1 = COALESCE(age, 1)"),
        ("greatest(age, big) > 1", "greatest(big, age) > 1"),
        ("char_length(name) > 1", "length(name) > 1"),
        ("trim(name) = ''", "btrim(name) = ''"),
        ("date_part('year', seen) = 1", "pg_catalog.date_part('YEAR', seen) = 1"),
        ("age IS DISTINCT FROM 1", "1 IS DISTINCT FROM age"),
        ("name = 'é'", "name = U&'\\00e9'"),
    ],
)
def test_texts_that_mean_the_same_share_one_form(scope: Scope, one: str, other: str) -> None:
    assert compile_predicate(one, scope, fold).sql == compile_predicate(other, scope, fold).sql


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("age > 1", "age >= 1"),
        ("age IN (1, 2)", "age NOT IN (1, 2)"),
        ("age - big > 1", "big - age > 1"),
        ("name LIKE 'a%'", "name ILIKE 'a%'"),
        ("name = 'a'", "name = 'A'"),
        ("age IS DISTINCT FROM 1", "age <> 1"),
        ("ok IS TRUE", "ok"),
        ("age = 1 AND ok", "age = 1 OR ok"),
        ("price / 3.0 > 1", "price / 3 > 1.5"),
        ("age IN (1, NULL)", "age = 1"),
        ("seen > '2020-01-01'", "born > '2020-01-01'"),
    ],
)
def test_texts_that_differ_stay_apart(scope: Scope, one: str, other: str) -> None:
    assert compile_predicate(one, scope, fold).sql != compile_predicate(other, scope, fold).sql


def test_settings_that_change_the_meaning_change_the_form(scope: Scope) -> None:
    tokyo = replace(scope, timezone="Asia/Tokyo")
    text = "extract(hour from at) = 3"
    assert compile_predicate(text, scope, fold).sql != compile_predicate(text, tokyo, fold).sql


@pytest.mark.parametrize(
    ("text", "sqlstate", "message"),
    [
        ("secret = 1", "DP004", "column secret is not declared"),
        ("secret IS NULL", "DP004", "column secret is not declared"),
        ("nope = 1", "42703", 'column "nope" does not exist'),
        ("visits.nope = 1", "42703", "column visits.nope does not exist"),
        ("other.age = 1", "42P01", 'missing FROM-clause entry for table "other"'),
        ("other.visits.age = 1", "42P01", 'missing FROM-clause entry for table "visits"'),
        ("a.b.c.age = 1", "DP003", "whole-row"),
        ("visits = 1", "DP003", "whole-row"),
        ("visits.* IS NULL", "DP003", "whole-row"),
    ],
)
def test_names(scope: Scope, text: str, sqlstate: str, message: str) -> None:
    with pytest.raises(DPError, match=message.replace("*", r"\*")) as caught:
        compile_predicate(text, scope, fold)
    assert caught.value.sqlstate == sqlstate


def test_an_undeclared_column_names_the_call_to_ask_for(scope: Scope) -> None:
    with pytest.raises(DPError) as caught:
        compile_predicate("secret = 1", scope, fold)
    assert str(caught.value.hint) == "Ask the owner: CALL dp.describe_column('public.visits', 'secret', ...)."


def test_an_alias_hides_the_table_name(scope: Scope) -> None:
    aliased = replace(scope, alias="v", sql_alias="q")
    assert compile_predicate("v.age = 1", aliased, fold).sql == '(q."age" = 1)'
    for text in ("visits.age = 1", "public.visits.age = 1"):
        with pytest.raises(DPError, match="missing FROM-clause") as caught:
            compile_predicate(text, aliased, fold)
        assert caught.value.sqlstate == "42P01"


def test_what_the_caller_learns(scope: Scope) -> None:
    whole = compile_expression("age + 1", scope, fold)
    assert (whole.kind, whole.type_name, whole.columns) == (Kind.INT, "pg_catalog.numeric", {'r."age"'})
    assert not whole.constant and whole.size == (11, 0)
    bare = compile_expression("age", scope, fold)
    assert (bare.column, bare.type_name) == ('r."age"', "pg_catalog.int4")
    assert compile_expression("'x'", scope, fold).constant
    both = compile_predicate("age > 1 AND ok", scope, fold)
    assert [term.sql for term in both.conjuncts] == ['(r."age" > 1)', 'r."ok"']
    with pytest.raises(DPError, match="must be boolean"):
        compile_predicate("age", scope, fold)


def test_now_is_the_sessions_and_unknown_without_it(scope: Scope) -> None:
    assert "2026-11-21 02:00:00+00" in compile_predicate("at < now()", scope, fold).sql
    with pytest.raises(DPError, match=r"now\(\) is not known"):
        compile_predicate("at < now()", replace(scope, now=None), fold)
    for word in ("now", "today", " Tomorrow ", "YESTERDAY 12:00"):
        with pytest.raises(DPError, match="means another moment"):
            compile_predicate(f"at < '{word}'", scope, fold)


def test_a_zone_is_checked_before_any_row_meets_it(scope: Scope) -> None:
    with pytest.raises(DPError, match="time zone"):
        compile_predicate("at::date = born", replace(scope, timezone="it's bad"), fold_none)


def fold_none(texts):  # type: ignore[no-untyped-def]
    from pg_epsilon.query.expression import FoldError

    raise FoldError("no such zone")


def test_a_constant_outside_the_databases_encoding_is_refused(scope: Scope) -> None:
    for encoding, ok in (("UTF8", True), ("LATIN1", False), ("SQL_ASCII", False), ("EUC_JP", False)):
        local = replace(scope, encoding=encoding)
        assert compile_predicate("name = 'a'", local, fold).sql
        if ok:
            assert compile_predicate("name = '日'", local, fold).sql
            continue
        with pytest.raises(DPError, match="encoding"):
            compile_predicate("name = '日'", local, fold)


def test_a_pattern_with_too_many_wildcards_is_refused(scope: Scope) -> None:
    assert compile_predicate(f"name LIKE '{'a%' * 64}'", scope, fold).sql
    with pytest.raises(DPError, match="more than 64"):
        compile_predicate(f"name LIKE '{'a%' * 65}'", scope, fold)


@pytest.mark.parametrize("pattern", ["a\\", "\\", "a\\\\\\"])
def test_a_lone_escape_at_the_end_of_a_pattern_is_refused(scope: Scope, pattern: str) -> None:
    with pytest.raises(DPError, match="must not end"):
        compile_predicate(f"name LIKE '{pattern}'", scope, fold)
    with pytest.raises(DPError, match="must not end"):
        compile_predicate("name LIKE 'a!' ESCAPE '!'", scope, fold)


def test_digits_are_bounded_before_numeric_can_overflow(scope: Scope) -> None:
    text = "big"
    for _ in range(12):
        text = f"({text} * big)"
    assert compile_expression(text, scope, fold).size == (247, 0)
    with pytest.raises(DPError, match="too many digits"):
        compile_expression(f"{text} * big", scope, fold)
