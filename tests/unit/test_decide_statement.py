"""The text of a decision's query: what it becomes, and that everything else is refused by name."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pg_epsilon.decide import statement
from pg_epsilon.errors import DPError
from pg_epsilon.query.parse import MAX_EXPRESSION, ast

ADULT, COPY = ("public", "adult"), ("syn", "adult_syn")
FOLDED = '"ñ" = \'ñ {table}\' AND "{table}"."é" > 1'
ROWS = {"function": "count", "argument": "*", "distinct": False, "filter": None, "name": "count"}


def members(query: str, path: list[str] | None = None) -> dict[str, Any]:
    return statement.members(query, ["public", "syn"] if path is None else path, ADULT, COPY)


def refusal(query: str, path: list[str] | None = None) -> DPError:
    with pytest.raises(DPError) as caught:
        members(query, path)
    assert caught.value.hint
    return caught.value


# what is understood -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "alias"),
    [
        ("SELECT count(*) FROM adult", None),
        ("SELECT count(*) FROM public.adult", None),
        ("SELECT count(*) FROM adult AS a", "a"),
        ("SELECT count(*) FROM {table}", None),
        ("SELECT count(*) FROM {table} t", "t"),
        ("select all count(*) from ADULT", None),
        ("SELECT count(*) FROM adult_syn", "adult_syn"),
        ("SELECT count(*) FROM syn.adult_syn s", "s"),
        ("(SELECT pg_catalog.count(*) AS how_many FROM adult);", None),
        ("-- how many?\nSELECT count(*) /* all */ FROM adult -- of {table}\n", None),
    ],
)
def test_the_relation_its_copy_and_the_placeholder_mean_the_relation(query: str, alias: str | None) -> None:
    found = members(query)
    assert found == {
        "from": {"schema": "public", "name": "adult", "alias": alias},
        "where": None,
        "aggregates": [ROWS],
    }


@pytest.mark.parametrize(
    ("query", "where", "alias"),
    [
        ("SELECT count(*) FROM adult WHERE age>30 AND kind='a'", "age > 30 AND kind = 'a'", None),
        ("SELECT count(*) FROM adult WHERE adult.age > 30", "adult.age > 30", None),
        ("SELECT count(*) FROM adult_syn WHERE adult_syn.age > 30", "adult_syn.age > 30", "adult_syn"),
        ("SELECT count(*) FROM {table} WHERE {table}.age > 30", '"{table}".age > 30', "{table}"),
        ("SELECT count(*) FROM {table} WHERE adult.age > 30", "adult.age > 30", None),
        ("SELECT count(*) FROM {table} WHERE x = '{table}'", "x = '{table}'", None),
        ("SELECT sum(x) FROM {table} WHERE ñ = $$ñ {table}$$ AND {table}.é > 1", FOLDED, "{table}"),
    ],
)
def test_a_condition_is_passed_on_in_its_own_words(query: str, where: str, alias: str | None) -> None:
    found = members(query)
    assert found["where"] == where
    assert found["from"]["alias"] == alias


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("count(age)", {"function": "count", "argument": "age"}),
        ("count(DISTINCT person)", {"function": "count", "argument": "person", "distinct": True}),
        ("sum(hours * 2)", {"function": "sum", "argument": "hours * 2"}),
        ("avg(hours)", {"function": "avg", "argument": "hours"}),
        ("median(hours)", {"function": "median", "argument": "hours"}),
        ("sum(hours) FILTER (WHERE age > 30)", {"function": "sum", "argument": "hours", "filter": "age > 30"}),
        (
            "percentile_disc(0.9) WITHIN GROUP (ORDER BY hours)",
            {"function": "percentile_disc", "argument": "hours", "parameters": {"fraction": "0.9"}},
        ),
    ],
)
def test_every_aggregate_that_a_decider_exists_for(text: str, expected: dict[str, Any]) -> None:
    (found,) = members(f"SELECT {text} AS x FROM {{table}}")["aggregates"]
    assert found == {"distinct": False, "filter": None, "name": expected["function"], **expected}


# names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "path"),
    [
        ("other", ["public", "syn"]),
        ("adult", ["syn"]),
        ("adult_syn", ["public"]),
        ("adult", []),
        ("secret.adult", ["public"]),
        ("public.adult_syn", ["public"]),
        ('"Adult"', ["public"]),
        ('"{table}".adult', ["public"]),
        ('public."{table}"', ["public"]),
    ],
)
def test_a_name_that_means_something_else_is_refused_with_the_names_that_do_not(source: str, path: list[str]) -> None:
    error = refusal(f"SELECT count(*) FROM {source}", path)
    assert error.sqlstate == "DP003"
    assert error.hint == "Read from public.adult, syn.adult_syn or {table}."


def test_the_path_is_for_unqualified_names_alone() -> None:
    assert members("SELECT count(*) FROM public.adult", [])["where"] is None
    assert members("SELECT count(*) FROM {table}", [])["where"] is None


@pytest.mark.parametrize(
    "condition", ["{table} > 3", "EXISTS (SELECT FROM {table})", "x IN (SELECT a.{table} FROM other a)"]
)
def test_the_placeholder_stands_in_from_alone(condition: str) -> None:
    assert "in FROM alone" in refusal(f"SELECT count(*) FROM {{table}} WHERE {condition}").message


# what is not ------------------------------------------------------------------------------------------------------

CLAUSES = {
    "withClause": ("WITH w AS (SELECT 1) SELECT count(*) FROM {table}", "WITH"),
    "distinctClause": ("SELECT DISTINCT count(*) FROM {table}", "DISTINCT"),
    "intoClause": ("SELECT count(*) INTO x FROM {table}", "INTO"),
    "groupClause": ("SELECT count(*) FROM {table} GROUP BY education", "GROUP BY"),
    "groupDistinct": ("SELECT count(*) FROM {table} GROUP BY DISTINCT education", "GROUP BY"),
    "havingClause": ("SELECT count(*) FROM {table} HAVING true", "HAVING"),
    "windowClause": ("SELECT count(*) FROM {table} WINDOW w AS (ORDER BY age)", "WINDOW"),
    "valuesLists": ("VALUES (1)", "VALUES"),
    "sortClause": ("SELECT count(*) FROM {table} ORDER BY 1", "ORDER BY"),
    "limitOffset": ("SELECT count(*) FROM {table} OFFSET 1", "OFFSET"),
    "limitCount": ("SELECT count(*) FROM {table} LIMIT 1", "LIMIT"),
    "limitOption": ("SELECT count(*) FROM {table} ORDER BY 1 FETCH FIRST 1 ROW WITH TIES", "LIMIT"),
    "lockingClause": ("SELECT count(*) FROM {table} FOR UPDATE", "FOR UPDATE"),
    "op": ("SELECT count(*) FROM {table} UNION SELECT 1", "set operations"),
    "all": ("SELECT count(*) FROM {table} UNION ALL SELECT 1", "set operations"),
    "larg": ("SELECT count(*) FROM {table} EXCEPT SELECT 1", "set operations"),
    "rarg": ("(SELECT 1) INTERSECT (SELECT count(*) FROM {table})", "set operations"),
}


@pytest.mark.parametrize("slot", CLAUSES)
def test_a_clause_is_refused_by_its_name(slot: str) -> None:
    query, words = CLAUSES[slot]
    error = refusal(query)
    assert error.sqlstate == "DP003"
    assert words in error.message


def test_no_clause_of_a_select_is_forgotten() -> None:
    """A field that libpg_query gains must be thought about."""
    assert set(ast.SelectStmt()) == {*CLAUSES, "targetList", "fromClause", "whereClause"}


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("", "no statement"),
        ("-- nothing", "no statement"),
        ("SELECT count(*) FROM {table}; SELECT 1", "several statements"),
        ("DELETE FROM adult", "not a SELECT"),
        ("EXPLAIN SELECT count(*) FROM {table}", "not a SELECT"),
        ("CALL dp.refresh('adult')", "not a SELECT"),
        ("SELECT", "one result column"),
        ("SELECT count(*), sum(age) FROM {table}", "one result column"),
        ("SELECT count(*)", "reads one relation"),
        ("SELECT count(*) FROM {table}, adult", "reads one relation"),
        ("SELECT count(*) FROM {table} JOIN other USING (id)", "join"),
        ("SELECT count(*) FROM (SELECT * FROM {table}) x", "sub-query"),
        ("SELECT count(*) FROM LATERAL (SELECT 1) x", "sub-query"),
        ("SELECT count(*) FROM generate_series(1, 3)", "function"),
        ("SELECT count(*) FROM {table} TABLESAMPLE SYSTEM (10)", "TABLESAMPLE"),
        ("SELECT count(*) FROM ONLY {table}", "more than the name"),
        ("SELECT count(*) FROM other.public.adult", "more than the name"),
        ("SELECT count(*) FROM adult AS a (x, y)", "alias with column names"),
        ("TABLE adult", "no aggregate"),
        ("SELECT * FROM {table}", "no aggregate"),
        ("SELECT age FROM {table}", "no aggregate"),
        ("SELECT 1 + count(*) FROM {table}", "no aggregate"),
        ("SELECT count(*)::int FROM {table}", "no aggregate"),
        ("SELECT (SELECT count(*) FROM {table})", "reads one relation"),
        ("SELECT stddev(age) FROM {table}", "stddev is no aggregate that can be decided"),
        ("SELECT variance(age) FROM {table}", "variance is no aggregate that can be decided"),
        ("SELECT lower(sex) FROM {table}", "lower is no aggregate that can be decided"),
        ("SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY age) FROM {table}", "percentile_cont is no aggregate"),
        ("SELECT dp.count(*) FROM {table}", "not a supported aggregate"),
        ("SELECT count(*) OVER () FROM {table}", "window function"),
        ("SELECT count(VARIADIC x) FROM {table}", "has a part that is not supported"),
        ("SELECT sum(age, 1) FROM {table}", "has a part that is not supported"),
        ("SELECT sum(age ORDER BY id) FROM {table}", "has a part that is not supported"),
        ("SELECT median(0.5) WITHIN GROUP (ORDER BY age) FROM {table}", "has a part that is not supported"),
        ("SELECT percentile_disc(0.5) FROM {table}", "has a part that is not supported"),
        ("SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY age DESC) FROM {table}", "descending order"),
        ("SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY age USING <) FROM {table}", "part that is not supported"),
        ("SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY age, id) FROM {table}", "part that is not supported"),
    ],
)
def test_everything_else_is_refused(query: str, words: str) -> None:
    error = refusal(query)
    assert error.sqlstate == "DP003"
    assert words in error.message


def test_percentile_cont_is_refused_with_what_to_write() -> None:
    assert "percentile_disc" in (
        refusal("SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY a) FROM {table}").hint or ""
    )


@pytest.mark.parametrize(
    ("query", "place"),
    [
        ("SELECT count(*) FRM adult", 21),
        ("SELECT count(*) FROM {table} WHERE x = )", 40),
        ("SELECT count(*) FROM {table} WHERE {table}.ñ = é AND )", 54),
        ("SELECT count(*) FROM {other}", 22),
        ("SELECT count(*) FROM {table", 22),
        ("SELECT 'abc", 8),
    ],
)
def test_a_syntax_error_says_where(query: str, place: int) -> None:
    error = refusal(query)
    assert error.sqlstate == "42601"
    assert error.detail == f"At character {place} of the query."


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT count(*) FROM {table} WHERE " + "age > 1 OR " * (MAX_EXPRESSION // 11), "longer than"),
        ("SELECT count(*) FROM {table} WHERE " + "age > 1 AND " * 1500 + "true", "more than"),
        ("SELECT count(*) FROM {table} WHERE " + "1" + "+1" * 3000 + " > 0", "more than"),
        ("SELECT count(*) FROM {table} WHERE " + "(" * 3000 + "true" + ")" * 3000, "more than"),
        ("SELECT count(*) FROM {table} WHERE " + "NOT (" * 300 + "true" + ")" * 300, "levels deep"),
        ("SELECT count(*) FROM {table}\0", "NUL"),
        ("SELECT count(*) FROM {table} WHERE x = '\ud800'", "Unicode"),
    ],
)
def test_what_the_parser_cannot_bear_does_not_reach_it(query: str, words: str) -> None:
    """The engine parses inside a backend, where running out of stack restarts the cluster."""
    assert words in refusal(query).message
    assert len(query) < 2 * MAX_EXPRESSION


WORDS = ["SELECT", "count(*)", "sum(age)", "FROM", "{table}", "adult", "adult_syn", "WHERE", "age > 3", "AS", "a", "é"]
QUOTES = ["--", "/*", "$$", "E'", "U&'"]
PIECES = st.sampled_from(WORDS) | st.sampled_from(",();'\"{}.\\\n") | st.sampled_from(QUOTES)


@pytest.mark.long
@settings(database=None, deadline=None, max_examples=400)
@given(st.lists(PIECES, max_size=14).map(" ".join) | st.text(max_size=60))
def test_any_text_is_understood_or_refused(query: str) -> None:
    try:
        found = members(query)
    except DPError as error:
        assert error.sqlstate in ("DP003", "42601")
        assert error.hint
        return
    assert (found["from"]["schema"], found["from"]["name"]) == ADULT
    assert len(found["aggregates"]) == 1
