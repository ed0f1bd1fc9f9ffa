"""dp_release_numeric(mechanism => 'normalisation' | 'global') as installed (numeric-release.md §10.1, §10.3)."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import fix_chance
from fix_cluster import Cluster, standard_cluster
from fix_ledger import no_charge, one, refused
from fix_release import ADULT
from sql.test_release_alg2 import path, truth

Connection = psycopg.Connection[Any]
Row = tuple[list[str], float, None, None, None, bool]
NAMES = ("normalisation", "global")

# Of all tests together, eighty draws of noise (the number of rows, bounds, measurements) within 40 scales.
pytestmark = pytest.mark.chance(fix_chance.beyond(40, 80))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with standard_cluster() as running:
        running.psql(ADULT, user="boss")
        yield running


@pytest.fixture(scope="module")
def alice(cluster: Cluster) -> Iterator[Connection]:
    with cluster.connect("alice", tcp=True) as conn:
        yield conn


def family(
    conn: Connection, mechanism: str, query: str, grid: str, more: str = "epsilon => 20", name: str | None = None
) -> list[Row]:
    name = f"{mechanism}_{zlib.crc32(query.encode())}" if name is None else name  # one name, one query
    call = f"dp.dp_release_numeric('{name}', $q${query}$q$, $g${grid}$g$, mechanism => '{mechanism}', {more})"
    return conn.execute(f"SELECT * FROM {call}").fetchall()


@pytest.mark.parametrize("mechanism", NAMES)
def test_weights_are_moved_towards_a_sum(cluster: Cluster, alice: Connection, mechanism: str) -> None:
    """They start with as many rows at 64 as at 0, and one round brings them most of the way to the truth."""
    query = "SELECT sum(loss) FROM adult WHERE age BETWEEN $1 AND $2"
    (found,) = family(alice, mechanism, query, "{{17,90}}", "epsilon => 100")
    true = truth(cluster, query.replace("$1", "17").replace("$2", "90"))
    start = truth(cluster, "SELECT count(*) * 127 / 8.0 FROM adult WHERE age <= 90")
    assert abs(found[1] - true) < (start - true) / 2
    assert found[2:] == (None, None, None, False)


@pytest.mark.parametrize("mechanism", NAMES)
def test_counts_are_near(cluster: Cluster, alice: Connection, mechanism: str) -> None:
    query = "SELECT count(*) FROM adult WHERE age BETWEEN $1 AND $2"
    found = family(
        alice, mechanism, query, "{{20,39},{40,60},{91,95}}", """epsilon => 100, options => '{"rounds": 3}'"""
    )
    for row in found[:2]:
        true = truth(cluster, query.replace("$1", row[0][0]).replace("$2", row[0][1]))
        assert row[1] == pytest.approx(true, abs=0.02 * true + 40)
    assert found[2][1] == 0


@pytest.mark.parametrize("mechanism", NAMES)
def test_one_price_for_the_same_sets_of_classes(cluster: Cluster, alice: Connection, mechanism: str) -> None:
    """Another spelling, order or repetition is the same question; another set, or number of rounds, is not."""
    query = "SELECT sum(loss) FROM adult WHERE age BETWEEN $1 AND $2 AND price > 1"
    first = family(alice, mechanism, query, "{{17,20},{17,90}}", "epsilon => 2")
    assert one(alice, "SELECT charge FROM dp.last_answer") == {"epsilon": "2"}
    with no_charge(cluster):
        again = family(alice, mechanism, query, "{{017,90},{17,20},{3,20}}", "epsilon => 2")
    assert [row[1] for row in again] == [first[1][1], first[0][1], first[0][1]]
    before = one(alice, "SELECT count(*) FROM dp.spending")
    family(alice, mechanism, query, "{{18,20},{17,90}}", "epsilon => 2")
    family(alice, mechanism, query, "{{18,20},{17,90}}", """epsilon => 2, options => '{"rounds": 1}'""")
    assert one(alice, "SELECT count(*) FROM dp.spending") == before + 2
    assert one(alice, "SELECT facts FROM dp.last_answer")["release"]["rounds"] == 1


def test_what_is_said_of_them(cluster: Cluster, alice: Connection) -> None:
    call = "dp.dp_release_numeric{}('said_{}', 'SELECT sum(loss) FROM adult WHERE age = $1', '{{20,30}}', epsilon => 4,"
    for mechanism in NAMES:
        with no_charge(cluster):
            plan = one(alice, f"SELECT dp.dp_plan({call.format('_request', mechanism)} mechanism => '{mechanism}'))")
        assert plan["charge"]["worst"] == {"epsilon": "4"}
        # steps of 1 up to 64, and 0; one candidate of each query
        assert plan["release"] == {"classes": 74, "cells": 74 * 8, "candidates": 2, "rounds": "at most 2"}
        assert "2 queries from 592 weights of 74 classes; 2 candidates, at most 2 rounds; no error bars" in plan["text"]
        alice.execute(f"SELECT {call.format('', mechanism)} mechanism => '{mechanism}')")
        facts = one(alice, "SELECT facts FROM dp.last_answer")["release"]
        assert 1 <= facts["rounds"] <= 2 and ("bound" in facts) == (mechanism == "global")
        assert facts.get("bound", 1) in [2**step for step in range(7)]
    charged = one(alice, "SELECT charge FROM dp.spending ORDER BY at DESC LIMIT 1")
    kinds = [("laplace", "0.08"), ("above_threshold", None), ("rounds", "3.52")]
    assert [(one["kind"], one.get("epsilon")) for one in charged] == kinds
    assert one(alice, "SELECT mechanism FROM dp.last_answer") == "global truncation (multiplicative weights)"


def planned(cluster: Cluster, conn: Connection, query: str, grid: str, more: str) -> dict[str, Any]:
    call = f"dp.dp_release_numeric_request('planned', $q${query}$q$, '{grid}', {more})"
    with no_charge(cluster):
        found = one(conn, f"SELECT dp.dp_plan({call})")
    return dict(found)


def test_a_plan_compares_the_mechanisms(cluster: Cluster, alice: Connection) -> None:
    """Whichever is asked for; 21 classes of the widest query, 7 steps of loss up to 64, 2 different queries."""
    query, grid = "SELECT sum(loss) FROM adult WHERE age BETWEEN $1 AND $2", "{{20,40},{30,31},{20,40}}"
    plans = [planned(cluster, alice, query, grid, f"epsilon => 4{more}") for more in ("", ", mechanism => 'alg2'")]
    found = plans[0]["mechanisms"]
    assert plans[1]["mechanisms"] == found
    assert set(found) == {"cells", "alg2", "composition", "normalisation", "global", "range", "zero"}
    assert found["range"] == found["cells"]  # one level is nearest
    squares = sum(4**step for step in range(7))
    assert found["cells"]["rmse"] == pytest.approx((2 / 16 * 21 * squares) ** 0.5, rel=1e-3)
    assert found["cells"]["resolution"] == pytest.approx(2 * (2 / 16 * 21 * 7) ** 0.5, rel=1e-3)
    assert found["composition"] == {"integers": 4, "rmse": pytest.approx(64 * 2**0.5, rel=1e-3)}
    cells = 74 * 8
    whole = 3 + 74 * 51  # the values 0 … 50, which are few enough for a cell each
    assert found["alg2"] == {"integers": whole, "rmse": None, "rounds": 2 * 14, "resolution": 5_000}  # rows / 20
    assert found["zero"] == {"integers": 0, "rmse": None, "at_most": 100_000 * 50}
    assert found["global"] == found["normalisation"] == {"integers": 3 + cells, "rmse": None, "rounds": 2}
    words = f"where nothing is cut: cells {found['cells']['rmse']:g}, composition 90.51"
    assert words in plans[0]["text"] and words in plans[1]["text"]


def test_a_plan_says_which_mechanism_is_none(cluster: Cluster, alice: Connection) -> None:
    plan = planned(cluster, alice, "SELECT avg(loss) FROM adult WHERE age = $1", "{20,30}", "epsilon => 4")
    found = plan["mechanisms"]
    assert found["cells"]["rmse"] is None and found["composition"] == {"refused": "composition has no averages"}
    assert "where nothing is cut" not in plan["text"]
    plan = planned(cluster, alice, "SELECT count(*) FROM visit WHERE ward = $1", "{n}", "rho => 1")
    found = plan["mechanisms"]
    assert found["cells"]["rmse"] > 0 and found["global"] == {"refused": "global truncation takes epsilon"}
    plan = planned(cluster, alice, "SELECT count(*) FROM adult WHERE age < $1", "{20,30}", "epsilon => 4")
    found = plan["mechanisms"]
    assert found["cells"] == {"integers": 74, "rmse": pytest.approx((2 / 16 * 13) ** 0.5, rel=1e-3)}
    assert found["composition"]["rmse"] == pytest.approx(2**0.5 / 2, rel=1e-3)


QUERIES = {
    "a sum": ("SELECT sum(loss) FROM adult WHERE stage = $1", "{red,green}"),
    "both signs": ("SELECT sum(price) FROM adult WHERE edu = $1", "{hs,ba}"),
    "NULL and NaN are 0": ("SELECT sum(temp) FROM adult WHERE stage = $1 AND age > 30", "{red}"),
    "negative alone": ("SELECT sum(0 - loss) FROM adult WHERE stage = $1", "{amber,red}"),
}


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("mechanism", NAMES)
def test_the_weighted_table_adds_up_to_the_answers(alice: Connection, mechanism: str, name: str) -> None:
    """What is beyond the bound is at the bound there; nothing of the name or the grid is in it."""
    query, grid = QUERIES[name]
    secret = f"secretive_{mechanism}_{zlib.crc32(query.encode())}"
    found = family(alice, mechanism, query, grid, "epsilon => 7", name=secret)
    facts = one(alice, "SELECT facts FROM dp.last_answer")["release"]
    shown = one(alice, "SELECT dp.dp_shown((SELECT request_id FROM dp.last_answer))")["release"]
    assert "secretive" not in json.dumps(shown) and shown["columns"][1:] == ["value", "weight"]
    for row in found:
        own = [value * weight for key, value, weight in shown["rows"] if key == row[0][0]]
        assert sum(own) == pytest.approx(row[1], abs=0.01) and any(own)
    assert ("bound" in facts) == (mechanism == "global")
    assert max(abs(value) for _, value, _ in shown["rows"]) <= facts.get("bound", 128)


@pytest.mark.parametrize("mechanism", NAMES)
def test_users_are_capped(alice: Connection, mechanism: str) -> None:
    """Of each of 300 users 4 of 10 rows count, on a dataset whose accountant is another one too."""
    found = family(alice, mechanism, "SELECT count(*) FROM visit WHERE ward <> $1", "{x}", "epsilon => 100")
    assert found[0][1] == pytest.approx(1200, abs=60)
    assert "at most 4 rows of each unit are in it" in str(one(alice, "SELECT facts FROM dp.last_answer"))


@pytest.mark.parametrize("mechanism", NAMES)
def test_plain_questions_of_the_grid_are_free(cluster: Cluster, alice: Connection, mechanism: str) -> None:
    """What the call said, without a bar; a question that is not of the grid is paid for, and everybody else's too."""
    query = f"SELECT sum(loss) FROM adult WHERE age BETWEEN $1 AND $2 AND price > {2 + NAMES.index(mechanism)}"
    said: list[str] = []
    alice.add_notice_handler(lambda notice: said.append(str(notice.message_primary)))
    alice.execute("SET dp.notices = on")
    name, ask = f"plain_{mechanism}", "SELECT dp.dp_sum('adult', 'loss', $${} AND" + query.split("AND")[-1]
    found = family(alice, mechanism, query, "{{17,50},{30,60},{17,90}}", "epsilon => 20", name)
    ask += "$$, epsilon => 0.5)"
    with no_charge(cluster):
        assert one(alice, ask.format("age <= 50")) == round(found[0][1])
        assert path(alice) == "family"
        assert one(alice, ask.format("age >= 30 AND NOT age > 60")) == round(found[1][1])
        assert one(alice, "SELECT facts -> 'family' ->> 'name' FROM dp.last_answer") == name
        assert "no error bar: how far it is off was not measured" in said[-1]
        assert one(alice, ask.format("age > 95")) == 0
    for other in ("age = 17", "age BETWEEN 17 AND 51"):
        alice.execute(ask.format(other))
        assert path(alice) == "direct"
    with cluster.connect("bob", tcp=True) as bob:
        bob.execute(ask.format("age <= 50"))
        assert path(bob) == "direct"


@pytest.mark.parametrize("mechanism", NAMES)
def test_one_is_published_and_drawn_without_bars(alice: Connection, mechanism: str) -> None:
    query = "SELECT count(*) FROM adult WHERE stage = $1 AND price > 5"
    name = f"public_{mechanism}"
    found = family(alice, mechanism, query, "{red,green}", "epsilon => 3, publish => true, shows_grid => true", name)
    shown = alice.execute("SELECT parameters, answer, low, high FROM dp.release_answers WHERE name = %s", (name,))
    assert sorted(shown.fetchall()) == sorted((row[0], row[1], None, None) for row in found)


REFUSED = [
    ("SELECT count(*) FROM visit WHERE ward = $1", "{n}", "rho => 1", "DP005", "takes epsilon"),
    ("SELECT avg(loss) FROM adult WHERE age = $1", "{20}", "epsilon => 1", "DP005", "has no averages"),
    ("SELECT count(*) FROM adult WHERE age = $1", "{20}", """options => '{"rounds": 0}'""", "DP005", "whole number"),
    (
        "SELECT count(*) FROM adult WHERE age = $1",
        "{20}",
        """options => '{"rounds": 3}'""",
        "DP005",
        "at most 1 rounds",
    ),
    (
        "SELECT count(*) FROM adult WHERE age = $1",
        "{20}",
        """options => '{"threshold_share": 1}'""",
        "DP005",
        "options",
    ),
    ("SELECT count(*) FROM adult WHERE age = $1", "{2}", "epsilon => 1", "DP005", "no query of the grid"),
    ("SELECT count(*) FROM loose WHERE ward = $1", "{n}", "epsilon => 1", "DP004", "not declared"),
]


@pytest.mark.parametrize("mechanism", NAMES)
@pytest.mark.parametrize(("query", "grid", "more", "sqlstate", "words"), REFUSED)
def test_refusals_cost_nothing(
    cluster: Cluster, alice: Connection, mechanism: str, query: str, grid: str, more: str, sqlstate: str, words: str
) -> None:
    with no_charge(cluster), refused(sqlstate, words):
        family(alice, mechanism, query, grid, more)
