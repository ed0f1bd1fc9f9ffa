"""Edges, paths and triangles of a graph whose unit is a vertex: R2T by linear programs, in PostgreSQL, on real rows."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from fix_cluster import Cluster, private_cluster, standard
from fix_ledger import refused
from fix_tpch import load_graph, power_law_graph

EDGES = power_law_graph(400, 1200, 7)
TRIANGLE = {
    "from": ("edge", "e1"),
    "joins": [("edge", "e2"), ("edge", "e3")],
    "where": "e1.to_id = e2.from_id AND e2.to_id = e3.to_id AND e1.from_id = e3.from_id"
    " AND e1.from_id < e1.to_id AND e2.from_id < e2.to_id",
}
PATH = {
    "from": ("edge", "e1"),
    "joins": [("edge", "e2")],
    "where": "e1.to_id = e2.from_id AND e1.from_id < e2.to_id",
}
EDGE: dict[str, Any] = {"from": ("edge", None), "where": "from_id < to_id"}
GREAT = {"epsilon": "150"}
RARELY = 1e-9
SURE = {"max_contribution": "4096", "beta": "1e-9"}
"""R2T overshoots with probability beta / 2, by any of its levels, and by as much as the largest has noise: 550 rows at
epsilon 90. At its usual beta of 0.05 no tolerance near the truth would hold."""


@pytest.fixture(scope="module")
def graph() -> Iterator[Cluster]:
    with private_cluster() as cluster:
        standard(cluster)
        load_graph(cluster, EDGES)
        yield cluster


@pytest.fixture
def alice(graph: Cluster) -> Iterator[psycopg.Connection[Any]]:
    with graph.connect("alice") as connection:
        yield connection


def ask(
    alice: psycopg.Connection[Any], shape: dict[str, Any], aggregate: str = "count(*)", **more: Any
) -> dict[str, Any]:
    """Through dp_query, as every surface does."""
    parameters = more.pop("parameters", {"max_contribution": "4096"})
    name, alias = shape["from"]
    request = {
        "version": 1,
        "from": {"schema": "public", "name": name, "alias": alias},
        "joins": [{"schema": "public", "name": n, "alias": a, "on": None} for n, a in shape.get("joins", [])],
        "where": shape.get("where"),
        "aggregates": [{**_parts(aggregate), "parameters": parameters}],
        "budget": {"epsilon": "1"},
        "settings": {},
        **more,
    }
    row = alice.execute("SELECT dp.dp_query(%s::jsonb)", [json.dumps(request)]).fetchone()
    assert row is not None
    return dict(row[0])


def _parts(aggregate: str) -> dict[str, Any]:
    function, _, rest = aggregate.rstrip(")").partition("(")
    distinct = rest.startswith("DISTINCT ")
    return {"function": function, "argument": rest.removeprefix("DISTINCT "), "distinct": distinct}


def value(answer: dict[str, Any]) -> Decimal:
    return Decimal(answer["rows"][0][0])


def neighbours() -> dict[int, set[int]]:
    found: dict[int, set[int]] = {}
    for a, b in EDGES:
        found.setdefault(a, set()).add(b)
        found.setdefault(b, set()).add(a)
    return found


def shares(shape: dict[str, Any]) -> tuple[int, int]:
    """(All result rows, the most of them that one vertex has a part in)."""
    near = neighbours()
    if shape is EDGE:
        rows: list[tuple[int, ...]] = list(EDGES)
    elif shape is PATH:
        rows = [(a, b, c) for b in near for a in near[b] for c in near[b] if a < c]
    else:
        rows = [(a, b, c) for a, b in EDGES for c in near[a] & near[b] if c > b]
    each = Counter(vertex for row in rows for vertex in row)
    return len(rows), max(each.values())


def short(largest: int, epsilon: int = 150, levels: int = 12, beta: float = RARELY) -> float:
    """How far an answer may fall short: R2T's penalty and 25 scales of noise at the level where no unit is cut."""
    return 2 * largest * 129 / 128 * levels / epsilon * (math.log(levels / beta) + 25) + 1


def assert_near(found: Decimal, true: int, largest: int) -> None:
    """Of an answer with the parameters SURE at the budget GREAT. False alarm: e^-25 below, beta / 2 above: 6e-10."""
    assert true - short(largest) <= found <= true + 1


@pytest.mark.parametrize("shape", [EDGE, PATH, TRIANGLE], ids=["edges", "paths", "triangles"])
def test_the_answer_is_near_at_a_large_budget(alice: psycopg.Connection[Any], shape: dict[str, Any]) -> None:
    """False alarm below 1e-9 (`assert_near`); a quarter is more than 25 scales away at the best level."""
    true, largest = shares(shape)
    found = value(ask(alice, shape, budget=GREAT, parameters=SURE))
    assert_near(found, true, largest)
    assert found > true / 4


def test_the_mechanism_and_its_price_are_said(alice: psycopg.Connection[Any]) -> None:
    answer = ask(alice, TRIANGLE, budget={"epsilon": "2"})
    notice = answer["notice"]
    assert notice["mechanism"] == "R2T by linear programs, 12 levels"
    assert notice["charge"] == {"epsilon": "2"}
    assert any("from below" in warning for warning in notice["warnings"])
    again = ask(alice, TRIANGLE, budget={"epsilon": "2"})
    assert again["rows"] == answer["rows"]
    assert again["notice"]["path"] == "cache"


def test_a_bar_is_one_sided(alice: psycopg.Connection[Any]) -> None:
    answer = ask(alice, EDGE, budget={"epsilon": "3"}, bars=True)
    assert answer["bars"] == [[[answer["rows"][0][0], None, None]]]
    sure = ask(alice, EDGE, budget={"epsilon": "3"}, bars=True, settings={"dp.confidence": "0.99"})
    assert sure["bars"] == [[[None, None, None]]]


def test_a_sum_over_edges(alice: psycopg.Connection[Any]) -> None:
    parameters = {**SURE, "lower": "0", "upper": "3", "resolution": "1"}
    found = value(ask(alice, EDGE, "sum(1 + from_id * 0 + to_id * 0)", budget=GREAT, parameters=parameters))
    assert_near(found, len(EDGES), shares(EDGE)[1])


def test_distinct_values(alice: psycopg.Connection[Any]) -> None:
    """How many vertices have an edge to a smaller one; by the projection program."""
    true = len({max(pair) for pair in EDGES})
    found = value(ask(alice, EDGE, "count(DISTINCT to_id)", budget=GREAT, parameters=SURE))
    assert_near(found, true, shares(EDGE)[1])


def test_distinct_values_of_one_unit_a_row(graph: Cluster, alice: psycopg.Connection[Any]) -> None:
    """Values of users' rows, each counted once, whoever has them; NULL is none of them.

    No user has more than 20 rows, so the largest of five levels has noise of scale 1.2: false alarm below 1e-9.
    """
    graph.psql(
        "CREATE TABLE likes (who int, what text);"
        "INSERT INTO likes SELECT i % 50, 'thing ' || i % 70 FROM generate_series(1, 900) i;"
        "INSERT INTO likes VALUES (7, NULL);"
        "CALL dp.protect('likes', 'graph', unit_column => 'who', max_rows_per_unit => 20, max_rows => 1000);"
        "CALL dp.describe_column('likes', 'what'); CALL dp.publish('likes');",
        user="boss",
    )
    row = alice.execute(
        "SELECT value ->> 'count(DISTINCT what)'"
        " FROM dp.dp_group_by('likes', '{}', '{count(DISTINCT what)}', epsilon => 90)"
    ).fetchone()
    assert row is not None
    assert abs(int(row[0]) - 70) <= short(20, epsilon=90, levels=5, beta=0.05)
    with refused("DP003", "one aggregate and no groups"):
        alice.execute("SELECT dp.dp_group_by('likes', '{}', '{count(DISTINCT what),count(*)}', epsilon => 1)")
    with refused("DP004", "max_rows"):
        alice.execute("SELECT dp.dp_group_by('items', '{}', '{count(DISTINCT sku)}', epsilon => 1)")


@pytest.mark.parametrize(
    ("more", "sqlstate", "words"),
    [
        ({"aggregate": "avg(from_id)"}, "DP004", "bounds"),
        ({"keys": ["e1.from_id"], "shape": PATH}, "DP004", "domain"),
        ({"parameters": {}}, "DP004", "how much one unit may contribute"),
        ({"budget": {"rho": "0.1"}}, "DP005", "takes epsilon"),
        ({"mechanism": "laplace"}, "DP005", "takes epsilon"),
        (
            {
                "parameters": {"max_contribution": "9", "lower": "-1", "upper": "1", "resolution": "1"},
                "aggregate": "sum(from_id)",
            },
            "DP003",
            "at least 0",
        ),
    ],
)
def test_refused(alice: psycopg.Connection[Any], more: dict[str, Any], sqlstate: str, words: str) -> None:
    shape = more.pop("shape", EDGE)
    aggregate = more.pop("aggregate", "count(*)")
    with refused(sqlstate, words):
        ask(alice, shape, aggregate, **more)
