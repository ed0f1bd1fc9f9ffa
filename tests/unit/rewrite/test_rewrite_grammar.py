"""Rule R1 for the proxy: every node of the grammar, and every field that we read around one, is supported or refused.

What a block's core lets through is judged again by the engine; here it must be certain that nothing is dropped: a node
either stays in the request, stays in the statement that the facade runs, or the statement is refused.
"""

from __future__ import annotations

import inspect
import json
from typing import Any

import pytest
from rewrite_pairs import NAMES, rewrite

from pg_epsilon.query.parse import ast
from pg_epsilon_proxy.rewrite import resolve, source

# How an expression of each class is written in SQL, over adult. None: the class is no expression of a SELECT.
EXPRESSIONS: dict[str, str] = {
    "A_ArrayExpr": "ARRAY[age, 1] = ARRAY[2]",
    "A_Const": "TRUE",
    "A_Expr": "age > 3",
    "A_Indirection": "(ARRAY[age])[1] = 1",
    "BoolExpr": "age > 3 AND age < 5",
    "BooleanTest": "(age > 3) IS NOT TRUE",
    "CaseExpr": "CASE WHEN age > 3 THEN TRUE END",
    "CoalesceExpr": "COALESCE(age, 1) = 1",
    "CollateClause": "education COLLATE \"C\" = 'x'",
    "ColumnRef": "age",
    "FuncCall": "lower(education) = 'x'",
    "GroupingFunc": "GROUPING(age) = 1",
    "JsonArrayAgg": "JSON_ARRAYAGG(age) IS NULL",
    "JsonArrayConstructor": "JSON_ARRAY(age) IS NULL",
    "JsonArrayQueryConstructor": "JSON_ARRAY(SELECT 1) IS NULL",
    "JsonFuncExpr": "JSON_EXISTS(info, '$.a')",
    "JsonIsPredicate": "education IS JSON",
    "JsonObjectAgg": "JSON_OBJECTAGG(education : age) IS NULL",
    "JsonObjectConstructor": "JSON_OBJECT('a' : age) IS NULL",
    "JsonParseExpr": "JSON(education) IS NULL",
    "JsonScalarExpr": "JSON_SCALAR(age) IS NULL",
    "JsonSerializeExpr": "JSON_SERIALIZE(education) = 'x'",
    "MinMaxExpr": "greatest(age, 1) = 1",
    "NamedArgExpr": "f(a => age) = 1",
    "NullTest": "age IS NULL",
    "ParamRef": "age = $1",
    "RowExpr": "(age, education) = (1, 'x')",
    "SQLValueFunction": "education = current_user",
    "SubLink": "age = (SELECT 1)",
    "TypeCast": "age::text = 'x'",
    "XmlExpr": "xmlconcat(NULL) IS NULL",
    "XmlSerialize": "xmlserialize(content NULL AS text) = 'x'",
}
# Classes that the raw grammar makes in expressions, found by their part in the tree rather than by being listed.
RAW = {name for name, item in inspect.getmembers(ast, inspect.isclass) if name in EXPRESSIONS}


@pytest.mark.parametrize("name", sorted(EXPRESSIONS))
@pytest.mark.parametrize(
    "place",
    [
        "SELECT count(*) FROM adult WHERE {}",
        "SELECT count(*) FILTER (WHERE {}) FROM adult",
        "SELECT count(*) FROM (SELECT age, education, info FROM adult WHERE {}) adult",
        "SELECT count(*) FROM adult JOIN clinic.visits v ON v.region = 'x' AND {}",
        "SELECT count(*) FROM (SELECT {} AS x FROM adult) s WHERE s.x",
    ],
)
def test_an_expression_is_in_the_request_or_refused(name: str, place: str) -> None:
    assert name in RAW
    (first, *_) = rewrite(place.format(EXPRESSIONS[name]), 1)
    if first.startswith("-- refused"):
        return
    request = json.loads(first.removeprefix("-- block "))
    kept = [request.get("where"), *(aggregate.get("filter") for aggregate in request["aggregates"])]
    assert any(kept), "nothing was dropped"


@pytest.mark.parametrize("name", sorted(EXPRESSIONS))
def test_an_expression_beside_the_aggregates_stays_or_is_refused(name: str) -> None:
    expression = EXPRESSIONS[name].replace("age", "sex").replace("education", "sex")
    sql = f"SELECT count(*), {expression} FROM adult GROUP BY sex"
    if name == "ColumnRef":
        sql = "SELECT count(*), sex FROM adult GROUP BY sex"
    lines = rewrite(sql, 1)
    if not lines[0].startswith("-- refused"):
        assert lines[-1].startswith("SELECT b1.c2 AS count, "), "the expression is still there"


def test_every_clause_of_a_merged_query_has_a_role() -> None:
    """A newer grammar's clause is refused once it is set: until somebody has looked at it."""
    assert set(source._MERGED) == set(ast.SelectStmt.__slots__)


def test_a_semi_join_has_no_other_clause() -> None:
    assert set(ast.SelectStmt.__slots__) >= resolve._SEMI_JOIN


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ("RangeVar", "adult"),
        ("RangeSubselect", "(SELECT age FROM adult) s"),
        ("JoinExpr", "adult JOIN clinic.visits USING (age)"),
        ("RangeFunction", "adult, generate_series(1, 2)"),
        ("RangeTableSample", "adult TABLESAMPLE SYSTEM (1)"),
        ("RangeTableFunc", "adult, xmltable('/a' PASSING NULL COLUMNS b text)"),
        ("JsonTable", "adult, JSON_TABLE('{}', '$' COLUMNS (a int))"),
    ],
)
def test_every_from_item_is_read_or_refused(item: str, expected: str) -> None:
    assert hasattr(ast, item)
    (first, *_) = rewrite(f"SELECT count(*) FROM {expected}")
    supported = item in ("RangeVar", "RangeSubselect", "JoinExpr")
    assert first.startswith("-- block" if supported else "-- refused DP003")


@pytest.mark.parametrize("kind", ["LEFT", "RIGHT", "FULL"])
def test_outer_joins_are_refused_with_what_to_write(kind: str) -> None:
    (first,) = rewrite(f"SELECT count(*) FROM adult {kind} JOIN clinic.visits USING (age)")
    assert first.startswith("-- refused DP003") and "an outer join" in first


def test_fields_of_joins_and_sublinks_that_we_know() -> None:
    """Each is read by source.py and resolve.py; a new one must be looked at first."""
    joins = {"jointype", "isNatural", "larg", "rarg", "usingClause", "join_using_alias", "quals", "alias", "rtindex"}
    assert set(ast.JoinExpr.__slots__) == joins
    links = {"subLinkType", "subLinkId", "testexpr", "operName", "subselect", "location"}
    assert set(ast.SubLink.__slots__) == links
    assert set(ast.RangeSubselect.__slots__) == {"lateral", "subquery", "alias"}
    assert set(ast.SortBy.__slots__) == {"node", "sortby_dir", "sortby_nulls", "useOp", "location"}


def test_names_of_the_fixture_are_complete() -> None:
    known: Any = NAMES
    assert known.expansions.keys() <= known.columns.keys()


def test_merging_sub_queries_cannot_multiply_a_statement() -> None:
    """Each level doubles the expression: 40 of them would be 10^12 nodes."""
    sql = "SELECT age AS a FROM adult"
    for level in range(40):
        sql = f"SELECT a + a AS a FROM ({sql}) s{level}"
    (first,) = rewrite(f"SELECT sum(a) FROM ({sql}) s")
    assert first.startswith("-- refused DP003") and "too large" in first


def test_merging_joins_cannot_multiply_relations() -> None:
    """Each CTE joins the one before with itself: 2^12 relations."""
    ctes = ["x0 AS (SELECT age FROM adult)"]
    ctes += [f"x{n} AS (SELECT a.age FROM x{n - 1} a JOIN x{n - 1} b USING (age))" for n in range(1, 13)]
    (first,) = rewrite(f"WITH {', '.join(ctes)} SELECT count(*) FROM x12")
    assert first.startswith("-- refused DP003") and "more than 16 relations" in first


def test_deep_sub_queries_are_merged_or_refused() -> None:
    sql = "SELECT age FROM adult"
    for level in range(30):
        sql = f"SELECT age FROM ({sql}) s{level}"
    assert rewrite(f"SELECT sum(age) FROM ({sql}) s")[0].startswith("-- block")
