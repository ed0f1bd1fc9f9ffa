"""From definition to statements: pure (facade-and-channel.md §5)."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pglast import parse_sql

from pg_epsilon_proxy.facade.definition import EMPTY, Column, Definition, ForeignKey, Function, Relation, Type
from pg_epsilon_proxy.facade.statements import (
    create_collation,
    create_function,
    create_relation,
    create_type,
    database_statement,
    ident,
    literal,
    net,
    plan,
)


def column(name: str, type_: str = "integer", **more: Any) -> Column:
    result: Any = {"name": name, "type": type_, "collation": None, "not_null": False, "comment": None, **more}
    return result


def relation(name: str, **more: Any) -> Relation:
    result: Any = {
        "schema": "s",
        "name": name,
        "kind": "protected",
        "columns": [column("id", not_null=True)],
        "keys": [{"name": f"{name}_pkey", "kind": "primary", "columns": ["id"], "nulls_not_distinct": False}],
        "comment": None,
        "view": None,
        "depends": [],
        **more,
    }
    return result


def foreign_key(name: str, table: str, target: str) -> ForeignKey:
    return {
        "name": name,
        "schema": "s",
        "table": table,
        "columns": ["id"],
        "target_schema": "s",
        "target_table": target,
        "target_columns": ["id"],
    }


def definition(**more: Any) -> Definition:
    result: Any = {**deepcopy(EMPTY), "version": 1, "schemas": ["s"], **more}
    return result


MOOD: Type = {"schema": "s", "name": "mood", "kind": "enum", "labels": ["a", "b"]}
TWO = definition(relations=[relation("a"), relation("b")], foreign_keys=[foreign_key("fk", "b", "a")])


def position(statements: list[str], start: str) -> int:
    return next(i for i, s in enumerate(statements) if s.startswith(start))


@pytest.mark.parametrize(
    ("text", "expected"), [("a", '"a"'), ('a"b', '"a""b"'), ("SELECT", '"SELECT"'), ("", '""'), ("é", '"é"')]
)
def test_ident(text: str, expected: str) -> None:
    assert ident(text) == expected


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20))
@settings(database=None, deadline=None, max_examples=200)
def test_literal_means_the_text(text: str) -> None:
    (statement,) = parse_sql(f"SELECT {literal(text)}")
    (target,) = statement.stmt.targetList
    assert target.val.val.sval == text


def test_net_refuses_by_name_for_everybody() -> None:
    assert net("s", "Odd 'T\"") == [
        'ALTER TABLE "s"."Odd \'T""" ENABLE ROW LEVEL SECURITY',
        'ALTER TABLE "s"."Odd \'T""" FORCE ROW LEVEL SECURITY',
        'CREATE POLICY pg_epsilon ON "s"."Odd \'T""" FOR SELECT USING (dp.refuse(\'s."Odd \'\'T"""\'))',
        'GRANT SELECT ON "s"."Odd \'T""" TO dp_analyst',
    ]


def test_new_facade_creates_each_thing_after_what_it_needs() -> None:
    view = relation("v", keys=[], view=" SELECT 1;", depends=[["s", "w"]])
    below = relation("w", keys=[], view=" SELECT 2;", depends=[["s", "a"]])
    wanted = definition(types=[MOOD], relations=[*TWO["relations"], view, below], foreign_keys=TWO["foreign_keys"])
    statements = plan(EMPTY, wanted)
    order = [
        position(statements, start)
        for start in (
            'CREATE SCHEMA "s"',
            "CREATE TYPE",
            'CREATE TABLE "s"."a"',
            'CREATE TABLE "s"."b"',
            'ALTER TABLE "s"."b" ADD CONSTRAINT',
            'ALTER TABLE "s"."a" ENABLE',
            'CREATE VIEW "s"."w"',
            'CREATE VIEW "s"."v"',
        )
    ]
    assert order == sorted(order)
    assert not any("DISABLE" in s for s in statements)


def test_standing_schemas_are_neither_made_nor_dropped() -> None:
    wanted = definition(schemas=["public"], relations=[])
    assert plan(EMPTY, wanted) == []
    assert plan(wanted, EMPTY) == []


def test_every_protected_table_gets_the_net() -> None:
    statements = plan(EMPTY, TWO)
    for name in ("a", "b"):
        for statement in net("s", name):
            assert statement in statements


def test_nothing_changed() -> None:
    assert plan(TWO, deepcopy(TWO)) == []
    assert plan(TWO, definition(**{**deepcopy(TWO), "version": 9})) == []


def test_a_foreign_key_added_later_lifts_the_net_on_both_and_puts_it_back() -> None:
    held = definition(relations=TWO["relations"])
    assert plan(held, TWO) == [
        'ALTER TABLE "s"."a" DISABLE ROW LEVEL SECURITY',
        'ALTER TABLE "s"."b" DISABLE ROW LEVEL SECURITY',
        'ALTER TABLE "s"."b" ADD CONSTRAINT "fk" FOREIGN KEY ("id") REFERENCES "s"."a" ("id")',
        'ALTER TABLE "s"."a" ENABLE ROW LEVEL SECURITY',
        'ALTER TABLE "s"."b" ENABLE ROW LEVEL SECURITY',
    ]
    assert plan(TWO, held) == ['ALTER TABLE IF EXISTS "s"."b" DROP CONSTRAINT IF EXISTS "fk"']


def test_a_changed_target_gets_its_foreign_keys_again() -> None:
    wanted = definition(
        relations=[relation("a", columns=[column("id"), column("n")]), relation("b")], foreign_keys=TWO["foreign_keys"]
    )
    statements = plan(TWO, wanted)
    assert statements[0] == 'DROP TABLE IF EXISTS "s"."a" CASCADE'
    assert 'ALTER TABLE "s"."b" DISABLE ROW LEVEL SECURITY' in statements
    assert 'ALTER TABLE "s"."b" ENABLE ROW LEVEL SECURITY' in statements
    assert 'ALTER TABLE "s"."a" DISABLE ROW LEVEL SECURITY' not in statements
    assert not any('DROP TABLE IF EXISTS "s"."b"' in s for s in statements)


def test_a_changed_type_rebuilds_all_and_an_added_one_nothing() -> None:
    held = definition(**{**TWO, "types": [MOOD]})
    other: Type = {**MOOD, "labels": ["a", "b", "c"]}
    changed = plan(held, definition(**{**TWO, "types": [other]}))
    for start in ('DROP TABLE IF EXISTS "s"."a"', 'DROP TYPE IF EXISTS "s"."mood"', 'CREATE TABLE "s"."a"'):
        assert position(changed, start) >= 0
    added = plan(held, definition(**{**TWO, "types": [MOOD, {**MOOD, "name": "new"}]}))
    assert added == ["CREATE TYPE \"s\".\"new\" AS ENUM ('a', 'b')"]


def test_kinds_of_types() -> None:
    ci = "s.ci"
    assert create_type({"schema": "s", "name": "d", "kind": "domain", "base": "text", "collation": ci}) == [
        'CREATE DOMAIN "s"."d" AS text COLLATE s.ci'
    ]
    assert create_type(
        {"schema": "s", "name": "c", "kind": "composite", "columns": [column("x", "text", collation=ci)]}
    ) == ['CREATE TYPE "s"."c" AS ("x" text COLLATE s.ci)']
    assert create_type(
        {"schema": "s", "name": "r", "kind": "range", "subtype": "text", "opclass": "pg_catalog.text_ops",
         "collation": ci, "multirange": "s.rs"}
    ) == ['CREATE TYPE "s"."r" AS RANGE (SUBTYPE = text, SUBTYPE_OPCLASS = pg_catalog.text_ops, COLLATION = s.ci, '
          "MULTIRANGE_TYPE_NAME = s.rs)"]  # fmt: skip


def test_collations_of_each_provider() -> None:
    base: Any = {
        "schema": "s",
        "name": "c",
        "deterministic": True,
        "locale": None,
        "lc_collate": None,
        "lc_ctype": None,
        "rules": None,
    }
    libc = {**base, "provider": "c", "lc_collate": "C", "lc_ctype": "de_DE"}
    assert create_collation(libc) == [
        "CREATE COLLATION \"s\".\"c\" (PROVIDER = libc, DETERMINISTIC = true, LC_COLLATE = 'C', LC_CTYPE = 'de_DE')"
    ]
    icu = {**base, "provider": "i", "deterministic": False, "locale": "und", "rules": "&a < b"}
    assert create_collation(icu) == [
        "CREATE COLLATION \"s\".\"c\" (PROVIDER = icu, DETERMINISTIC = false, LOCALE = 'und', RULES = '&a < b')"
    ]
    assert "PROVIDER = builtin" in create_collation({**base, "provider": "b", "locale": "C.UTF-8"})[0]


def test_a_public_table_is_foreign_and_has_no_net() -> None:
    statements = create_relation(relation("p", kind="public"))
    assert statements == [
        'CREATE FOREIGN TABLE "s"."p" ("id" integer NOT NULL) SERVER pg_epsilon_public '
        "OPTIONS (schema_name 's', table_name 'p')",
        'GRANT SELECT ON "s"."p" TO dp_analyst',
    ]
    assert not any("POLICY" in s for s in plan(EMPTY, definition(relations=[relation("p", kind="public")])))


def test_a_relation_that_becomes_public_is_dropped_as_what_it_was() -> None:
    protected, public = definition(relations=[relation("p")]), definition(relations=[relation("p", kind="public")])
    assert plan(protected, public)[0] == 'DROP TABLE IF EXISTS "s"."p" CASCADE'
    assert plan(public, protected)[0] == 'DROP FOREIGN TABLE IF EXISTS "s"."p" CASCADE'


def test_stub_and_copy() -> None:
    function: Function = {
        "name": "dp_f",
        "identity": "x integer",
        "arguments": "x integer DEFAULT 1",
        "result": "TABLE(a text)",
        "definition": None,
        "comment": "it's",
    }
    stub, revoke, grant, comment = create_function(function)
    assert stub.startswith(
        'CREATE FUNCTION "dp"."dp_f"(x integer DEFAULT 1) RETURNS TABLE(a text) LANGUAGE plpgsql VOLATILE'
    )
    assert "ERRCODE = 'DP003'" in stub and "HINT = 'Send it directly in a statement" in stub
    assert revoke == 'REVOKE ALL ON FUNCTION "dp"."dp_f"(x integer) FROM PUBLIC'
    assert grant == 'GRANT EXECUTE ON FUNCTION "dp"."dp_f"(x integer) TO dp_analyst'
    assert comment == "COMMENT ON FUNCTION \"dp\".\"dp_f\"(x integer) IS 'it''s'"
    assert (
        create_function({**function, "definition": "CREATE OR REPLACE FUNCTION x"})[0] == "CREATE OR REPLACE FUNCTION x"
    )


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"datlocprovider": "c"}, "LOCALE_PROVIDER libc"),
        ({"datlocprovider": "i", "daticulocale": "de"}, "LOCALE_PROVIDER icu ICU_LOCALE 'de'"),
        (
            {"datlocprovider": "i", "datlocale": "de", "daticurules": "&a"},
            "LOCALE_PROVIDER icu ICU_LOCALE 'de' ICU_RULES '&a'",
        ),
        ({"datlocprovider": "b", "datlocale": "C.UTF-8"}, "LOCALE_PROVIDER builtin BUILTIN_LOCALE 'C.UTF-8'"),
    ],
)
def test_database_of_each_provider(facts: dict[str, str], expected: str) -> None:
    statement = database_statement("f", {"encoding": "UTF8", "datcollate": "C", "datctype": "C", **facts})
    start = "CREATE DATABASE \"f\" TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C' "
    assert statement == start + expected


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8)


@given(NAMES, NAMES, NAMES, NAMES)
@settings(database=None, deadline=None, max_examples=100)
def test_any_name_stays_a_name(schema: str, name: str, column_name: str, comment: str) -> None:
    """Names and comments are data: whatever they hold, each statement stays one statement of the same kind."""
    wanted = definition(
        schemas=[schema],
        relations=[
            relation(
                name,
                schema=schema,
                columns=[column(column_name, comment=comment)],
                comment=comment,
                keys=[{"name": name, "kind": "unique", "columns": [column_name], "nulls_not_distinct": True}],
            )
        ],
    )
    plain = definition(
        schemas=["s"],
        relations=[
            relation("t", columns=[column("c", comment="x")], comment="x",
                     keys=[{"name": "t", "kind": "unique", "columns": ["c"], "nulls_not_distinct": True}])
        ],
    )  # fmt: skip
    for ours, theirs in zip(plan(EMPTY, wanted)[-8:], plan(EMPTY, plain)[-8:], strict=True):
        (statement,) = parse_sql(ours)
        (expected,) = parse_sql(theirs)
        assert type(statement.stmt) is type(expected.stmt)
