"""The pure parts: the text test, names, documents, notices, and that the grammar has no field that we do not know."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rewrite_pairs import ADULT, NAMES

from pg_epsilon.query.parse import ast, parse_statements
from pg_epsilon_proxy.rewrite import aggregates, refusals, select
from pg_epsilon_proxy.rewrite.blocks import parameters_in
from pg_epsilon_proxy.rewrite.colnames import column_name
from pg_epsilon_proxy.rewrite.explain import call_text
from pg_epsilon_proxy.rewrite.names import Mentions, Names
from pg_epsilon_proxy.rewrite.notices import notice_text, warnings_of
from pg_epsilon_proxy.rewrite.scope import candidates
from pg_epsilon_proxy.rewrite.splice import document, splice, values_sql
from pg_epsilon_proxy.rewrite.tree import quote_literal, statement
from pg_epsilon_proxy.session.rewriting import Refusal


@pytest.mark.parametrize(
    "sql",
    ["select * from ADULT", 'select * from "Odd ""Name"""', "select * from U&\"!0061dult\" uescape '!'"],
)
def test_mentions_every_spelling(sql: str) -> None:
    assert Mentions(NAMES)(sql)


@pytest.mark.parametrize("sql", ["select 1", "BEGIN", "select * from labels", "fetch 3 from c", "execute p"])
def test_mentions_nothing_of_ours(sql: str) -> None:
    assert not Mentions(NAMES)(sql)


def test_a_name_in_another_case_is_mentioned_but_another_relation() -> None:
    names = Names(frozenset({("public", "Adult")}))
    assert Mentions(names)('select * from "Adult"')
    assert candidates(statement('select * from "Adult"'), names).relations == {(None, None, "Adult")}
    assert not candidates(statement("select * from Adult"), names)


def test_candidates_after_scoping() -> None:
    sql = (
        "WITH adult AS (SELECT * FROM public.adult), y AS (SELECT * FROM adult) "
        'SELECT dp_count(\'adult\'), sum(n) FROM y, budget WHERE EXISTS (TABLE "Odd ""Name""")'
    )
    found = candidates(statement(sql), NAMES)
    assert found.relations == {(None, "public", "adult"), (None, None, "budget"), (None, None, 'Odd "Name"')}
    assert found.calls == {"dp_count"}
    assert found.functions == {"dp_count", "sum"}


def test_every_field_of_a_block_select_has_a_role() -> None:
    """A newer grammar's clause must be looked at before it is let through: until then it is refused once set."""
    assert set(select._FIELDS) == set(ast.SelectStmt.__slots__)


def test_every_field_of_an_aggregate_call_is_read_or_refused() -> None:
    assert set(aggregates._READ) | set(aggregates._FIELDS) == set(ast.FuncCall.__slots__)


@pytest.mark.parametrize("slot", sorted(set(ast.FuncCall.__slots__) - aggregates._READ))
def test_a_set_field_of_an_aggregate_call_is_refused(slot: str) -> None:
    call = statement("SELECT count(age)").targetList[0].val
    donor = statement("SELECT f(VARIADIC a ORDER BY b) OVER (), g() WITHIN GROUP (ORDER BY c)").targetList
    values = [getattr(target.val, slot) for target in donor]
    setattr(call, slot, next(value for value in values if value))
    with pytest.raises(Refusal) as caught:
        aggregates.compile_aggregate(call, ADULT.name)
    assert caught.value.sqlstate == "DP003"


def test_from_items_have_the_fields_that_the_compiler_knows() -> None:
    assert set(ast.RangeVar.__slots__) == {
        "catalogname",
        "schemaname",
        "relname",
        "inh",
        "relpersistence",
        "alias",
        "location",
    }
    assert set(ast.Alias.__slots__) == {"aliasname", "colnames"}


# Measured on PostgreSQL 15.
NAMES_OF = {
    "1": "?column?",
    "a": "a",
    "t.a": "a",
    "(t).a": "a",
    "(t.b).c[1]": "c",
    "a[1]": "a",
    "count(*)": "count",
    "pg_catalog.count(*)": "count",
    "a + 1": "?column?",
    "1::text": "text",
    "a::text": "a",
    "'1'::pg_catalog.int8": "int8",
    "int8 '1'": "int8",
    "(a + 1)::numeric(5,2)": "numeric",
    'a COLLATE "C"': "a",
    "CASE WHEN true THEN 1 END": "case",
    "CASE WHEN true THEN 1 ELSE b END": "b",
    "CASE WHEN true THEN 1 ELSE b::int END": "b",
    "CASE WHEN true THEN 1 ELSE 2::int END": "case",
    "coalesce(a, 1)": "coalesce",
    "nullif(a, 1)": "nullif",
    "greatest(a, 1)": "greatest",
    "least(a, 1)": "least",
    "ARRAY[1]": "array",
    "ROW(1, 2)": "row",
    "(1, 2)": "row",
    "EXISTS (SELECT 1)": "exists",
    "ARRAY(SELECT 1)": "array",
    "(SELECT 1)": "?column?",
    "(SELECT a FROM t UNION SELECT b)": "a",
    "(SELECT 1 AS x)": "x",
    "(VALUES (1))": "column1",
    "1 IN (SELECT 1)": "?column?",
    "current_date": "current_date",
    "current_timestamp(2)": "current_timestamp",
    "current_user": "current_user",
    "extract(year FROM d)": "extract",
    "substring(a FROM 1)": "substring",
    "a IS NULL": "?column?",
    "NOT a": "?column?",
    "xmlelement(name a)": "xmlelement",
    "grouping(a)": "grouping",
}


@pytest.mark.parametrize(("expression", "name"), NAMES_OF.items())
def test_derived_column_names(expression: str, name: str) -> None:
    assert column_name(statement(f"SELECT {expression}").targetList[0].val) == name


@settings(database=None, deadline=None, max_examples=100)
@given(st.lists(st.lists(st.one_of(st.none(), st.text()), min_size=1, max_size=3)))
def test_documents_are_ascii_and_closed(rows: list[list[str | None]]) -> None:
    """Nothing in a document can end a dollar quote, or depends on client_encoding."""
    text = document(rows)
    assert text.isascii() and "$" not in text
    assert [list(row.values()) for row in json.loads(text)] == rows
    spliced = splice("SELECT 'mark'::jsonb", {"mark": text})
    assert spliced == f"SELECT $pge${text}$pge$::jsonb"


@settings(database=None, deadline=None, max_examples=100)
@given(st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",))))
def test_quoted_literals_read_back(text: str) -> None:
    assert parse_statements(f"SELECT {quote_literal(text)}")[0].stmt.targetList[0].val.val.sval == text


def test_values_are_typed_and_json_is_cast_outside() -> None:
    assert values_sql(["jsonb", "bigint"], "$3") == (
        'SELECT c1::pg_catalog.jsonb AS "c1", c2 FROM pg_catalog.jsonb_to_recordset($3) AS t(c1 text, c2 bigint)'
    )


def test_parameters_are_found_at_any_depth() -> None:
    assert parameters_in(statement("SELECT $2, (SELECT f($7) WHERE $1)")) == {1, 2, 7}


def test_notice_text() -> None:
    notice = {
        "path": "direct",
        "mechanism": "laplace",
        "charge": {"epsilon": "0.1"},
        "margin": 30,
        "confidence": 0.95,
        "left": "0.9",
        "cap": "1",
        "as_of": "2026-11-21 02:00:00+00",
        "warnings": ["groups may be missing"],
    }
    assert notice_text(notice) == (
        "dp: direct laplace, epsilon 0.1 charged, ±30 at 95%, 0.9 of 1 left, as of 2026-11-21 02:00:00+00"
    )
    assert warnings_of(notice) == ["groups may be missing"]
    assert notice_text({"path": "cache", "charge": {"epsilon": "0"}, "margin": "unknown"}) == (
        "dp: cache, nothing charged, ±unknown"
    )
    spoken = {"text": "as the engine says", "margin": 3, "warnings": ["said in the text"]}
    assert notice_text(spoken) == "as the engine says" and warnings_of(spoken) == []
    assert notice_text(
        {"charge": {"rho": "0.02", "delta": "1e-6"}, "left": {"epsilon": "5"}, "cap": {"epsilon": "9"}}
    ) == ("dp: rho 0.02, delta 1e-6 charged, epsilon 5 of epsilon 9 left")


def test_a_request_over_several_relations_as_sql() -> None:
    quantile = {"function": "percentile_disc", "argument": "a.age", "parameters": {"fraction": "0.5"}}
    request = {
        "from": {"schema": "public", "name": "adult", "alias": "a"},
        "joins": [
            {"schema": "ref", "name": "levels", "alias": "l", "on": "l.education = a.education"},
            {"schema": "ref", "name": "days", "alias": None, "on": None},
        ],
        "where": "a.age > 3",
        "keys": ["l.rank"],
        "aggregates": [{**quantile, "filter": "a.age < 9"}],
    }
    assert call_text(request) == (
        "SELECT l.rank, percentile_disc(0.5) within group (order by a.age) filter (where a.age < 9) "
        "FROM public.adult a JOIN ref.levels l ON l.education = a.education JOIN ref.days ON true "
        "WHERE a.age > 3 GROUP BY l.rank"
    )


def test_a_request_as_a_call() -> None:
    request = {
        "from": {"schema": "public", "name": "adult"},
        "where": "sex = 'F'",
        "keys": ["education"],
        "aggregates": [{"function": "count", "argument": "age", "distinct": True, "filter": "age > 3"}],
    }
    assert call_text(request) == (
        "dp_group_by('public.adult', keys => ['education'], "
        "aggregates => ['count(distinct age) filter (where age > 3)'], predicate => 'sex = ''F''')"
    )
    total = {**request, "keys": [], "aggregates": [{"function": "sum", "argument": "age"}], "where": None}
    assert call_text(total) == "dp_group_by('public.adult', keys => [], aggregates => ['sum(age)'])"
    plain = {**total, "aggregates": [{"function": "count", "argument": "*"}]}
    assert call_text(plain) == "dp_count('public.adult')"


def test_a_call_can_be_typed_again() -> None:
    """Names are quoted where they must be; a batch of sums has all of its arguments, by their names."""
    odd = {"schema": "public", "name": "Odd Name"}
    count = {"function": "count", "argument": "*"}
    assert call_text({"from": odd, "aggregates": [count]}) == """dp_count('public."Odd Name"')"""
    joined = {"from": {**odd, "alias": "O"}, "joins": [{**odd, "alias": "b"}], "aggregates": [count]}
    assert call_text(joined) == 'SELECT count(*) FROM public."Odd Name" "O" JOIN public."Odd Name" b ON true'
    batch = {"from": odd, "aggregates": [{"function": "sum", "argument": '"The Pay"'}], "keys": ["region"]}
    asked = {"thresholds": [1, 9], "matrix": [[1, 0]], "per": "user", "options": {}}
    assert call_text({**batch, "workload": asked}) == (
        """dp_sum_workload('public."Odd Name"', '"The Pay"', thresholds => [1, 9], workload => [[1, 0]], """
        "by => 'region', per => 'user')"
    )


def test_a_request_of_another_kind_as_its_call() -> None:
    """It asks for no aggregates, and is no dp_count: its own members, as they travel."""
    request = {
        "version": 1,
        "call": "dp_echo",
        "from": {"schema": "public", "name": "adult"},
        "where": "sex = 'F'",
        "echo": {"by": "education"},
        "budget": {"epsilon": "1"},
        "fresh": False,
        "settings": {},
    }
    said = """dp_echo('public.adult', echo => {"by": "education"}"""
    assert call_text(request) == said + ", predicate => 'sex = ''F''')"
    assert call_text({**request, "where": None}) == said + ")"


def test_a_hint_names_a_relation_as_it_must_be_written() -> None:
    assert 'FROM "InvoiceLine",' in (refusals.raw_access("InvoiceLine").hint or "")
    assert "FROM adult," in (refusals.raw_access("adult").hint or "")
