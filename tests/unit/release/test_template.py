"""The text of a family's query (numeric-release.md §6): what it is read as, and what is refused."""

from __future__ import annotations

import pytest

from pg_epsilon.errors import DPError
from pg_epsilon.release.template import read


def test_parts_of_a_query() -> None:
    found = read(
        "SELECT sum(loss) FROM public.adult a WHERE a.age >= $1 AND $2 > age AND sex = 'F' AND (x > 3 OR y = 1)"
    )
    assert (found.schema, found.name, found.alias, found.parameters) == ("public", "adult", "a", 2)
    assert found.where == "(sex = 'F') AND (x > 3 OR y = 1)"
    assert [one.text for one in found.conditions] == ["a.age >= $1", "age < $2"]
    assert (found.aggregate["function"], found.aggregate["argument"]) == ("sum", "loss")


@pytest.mark.parametrize(
    "condition",
    [
        "age = $1",
        "age <> $1",
        "age BETWEEN $1 AND $2",
        "age NOT BETWEEN $1 AND 30",
        "ward IN ($1, 'north')",
        "ward NOT IN ($1, $2, $3)",
    ],
)
def test_forms_of_a_condition(condition: str) -> None:
    (found,) = read(f"SELECT count(*) FROM adult WHERE ({condition})").conditions
    assert found.text == condition


@pytest.mark.parametrize(
    ("operator", "mirrored"), [("<", ">"), ("<=", ">="), (">", "<"), (">=", "<="), ("=", "="), ("<>", "<>")]
)
def test_parameter_on_the_left(operator: str, mirrored: str) -> None:
    (found,) = read(f"SELECT count(*) FROM adult WHERE $1 {operator} age").conditions
    assert found.text == f"age {mirrored} $1"


def test_factors_of_a_sum_that_name_parameters_are_its_weight() -> None:
    found = read("SELECT sum((1 - abs(a.age - $1) / 100.0) * loss * $2) FROM adult a WHERE a.edu = $3")
    assert found.weight is not None
    assert (found.weight.text, found.weight.columns) == ("(1 - abs(a.age - $1) / 100.0) * ($2)", ("a.age",))
    assert (found.weight.parameters, found.parameters) == (frozenset({1, 2}), 3)
    assert (found.aggregate["function"], found.aggregate["argument"]) == ("sum", "loss")
    assert [one.text for one in found.conditions] == ["a.edu = $3"]


def test_a_sum_of_weights_alone_counts_rows() -> None:
    found = read("SELECT pg_catalog.sum(CASE WHEN age < $1 THEN 1 ELSE 0.5 END) FROM adult")
    assert found.weight is not None and found.weight.columns == ("age",)
    assert (found.aggregate["function"], found.aggregate["argument"]) == ("count", "*")


def test_a_product_without_parameters_is_a_value() -> None:
    found = read("SELECT sum(age * loss) FROM adult WHERE age < $1")
    assert (found.weight, found.aggregate["argument"]) == (None, "age * loss")


REFUSED = [
    "SELECT sum(x) FROM t WHERE age + 1 < $1",
    "SELECT sum(x) FROM t WHERE a = $1::int",
    "SELECT sum(x) FROM t WHERE a = $2",
    "SELECT sum(x) FROM t WHERE a = $1 + 1",
    "SELECT sum(x) FROM t WHERE a = (SELECT $1)",
    "SELECT avg(x * $1) FROM t WHERE a = $1",
    "SELECT count(x * $1) FROM t WHERE a = $1",
    "SELECT sum(x * (SELECT $1)) FROM t WHERE a = $1",
    "SELECT public.sum(x * $1) FROM t WHERE a = $1",
    "SELECT sum(x * $1, 2) FROM t WHERE a = $1",
    "SELECT sum(VARIADIC x * $1) FROM t WHERE a = $1",
    "SELECT sum(x * $1 ORDER BY x) FROM t WHERE a = $1",
    "SELECT sum(x * $1) WITHIN GROUP (ORDER BY x) FROM t WHERE a = $1",
    "SELECT sum(DISTINCT x * $1) FROM t WHERE a = $1",
    "SELECT sum(x * $1) FILTER (WHERE y) FROM t WHERE a = $1",
    "SELECT sum(x * $2) FROM t WHERE a = 1",
    "SELECT sum(x) FROM t WHERE a = $1 OR b = $2",
    "SELECT sum(x) FROM t WHERE NOT a = $1",
    "SELECT sum(x) FROM t WHERE a = b AND $1 = $2",
    "SELECT sum(x) FROM t WHERE a IS NOT DISTINCT FROM $1",
    "SELECT sum(x) FROM t WHERE a BETWEEN SYMMETRIC $1 AND 3",
    "SELECT sum(x) FROM t WHERE a = ANY ($1)",
    "SELECT sum(x) FROM t WHERE a LIKE $1",
    "SELECT sum(x) FROM t WHERE a OPERATOR(pg_catalog.=) $1",
    "SELECT sum(x) FROM t",
    "SELECT sum(x) FROM t WHERE a = 1",
    "SELECT median(x) FROM t WHERE a = $1",
    "SELECT sum(x), count(*) FROM t WHERE a = $1",
    "SELECT sum(x) + 1 FROM t WHERE a = $1",
    "SELECT sum(x) FILTER (WHERE y) FROM t WHERE a = $1",
    "SELECT sum(DISTINCT x) FROM t WHERE a = $1",
    "SELECT sum(x) OVER () FROM t WHERE a = $1",
    "SELECT sum(x) FROM t, u WHERE a = $1",
    "SELECT sum(x) FROM t JOIN u USING (id) WHERE a = $1",
    "SELECT sum(x) FROM ONLY t WHERE a = $1",
    "SELECT sum(x) FROM t AS t(a) WHERE a = $1",
    "SELECT sum(x) FROM t TABLESAMPLE system (1) WHERE a = $1",
    "SELECT sum(x) FROM t WHERE a = $1 GROUP BY b",
    "SELECT sum(x) FROM t WHERE a = $1 LIMIT 1",
    "SELECT sum(x) FROM t WHERE a = $1 ORDER BY 1",
    "SELECT sum(x) FROM t WHERE a = $1 FOR UPDATE",
    "WITH u AS (SELECT 1) SELECT sum(x) FROM t WHERE a = $1",
    "SELECT sum(x) FROM t WHERE a = $1 UNION SELECT 1",
    "SELECT sum(x) INTO u FROM t WHERE a = $1",
    "SELECT sum(x) FROM t WHERE a = $1; SELECT 1",
    "DELETE FROM t WHERE a = $1",
    "",
    "SELECT sum(x) FROM t WHERE " + " AND ".join(f"a{i} = ${i}" for i in range(1, 34)),
]


@pytest.mark.parametrize("query", REFUSED)
def test_other_queries_are_refused_with_a_hint(query: str) -> None:
    with pytest.raises(DPError) as refused:
        read(query)
    assert refused.value.sqlstate == "DP003"
    assert refused.value.hint


def test_what_is_no_sql_says_where() -> None:
    with pytest.raises(DPError) as refused:
        read("SELECT sum(x FROM t")
    assert refused.value.sqlstate == "42601"
    assert "character" in str(refused.value.detail)
