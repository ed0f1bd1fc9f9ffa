"""Families of dp_release_numeric as installed: questions about sets of their classes cost nothing (dp.family)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import fix_chance
from fix_cluster import Cluster, standard_cluster
from fix_ledger import balanced, charges, no_charge, one, refused
from fix_release import ADULT

Connection = psycopg.Connection[Any]
SURE = "0.999999999"
LOSS = "SELECT sum(loss) FROM adult WHERE age BETWEEN $1 AND $2"
# Of all tests together, at most five hundred answers whose bars hold at SURE.
pytestmark = pytest.mark.chance(fix_chance.union(500 * 1e-9))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with standard_cluster() as running:
        running.psql(ADULT, user="boss")
        with running.connect("alice", tcp=True) as conn:
            conn.execute("SET dp.confidence = 0.999999999")
            release(conn, "loss_by_age", LOSS, "{{17,20},{17,90},{30,60}}", 25)
            release(conn, "temp_of_stage", "SELECT sum(temp) FROM adult WHERE stage = $1 AND age > 30", "{red}", 25)
            release(conn, "by_edu", "SELECT count(*) FROM adult WHERE edu = $1 AND rate >= $2", "{{hs,5}}", 25)
            release(conn, "prices", "SELECT sum(price) FROM adult WHERE edu = $1", "{hs}", 25)
            release(conn, "cost", "SELECT sum(cost) FROM visit WHERE ward = $1", "{n}", 25)
        yield running


@pytest.fixture
def alice(cluster: Cluster) -> Iterator[Connection]:
    with cluster.connect("alice", tcp=True) as conn:
        conn.execute(f"SET dp.confidence = {SURE}")
        conn.execute("SET dp.epsilon = 0.5")
        yield conn


@pytest.fixture
def bob(cluster: Cluster) -> Iterator[Connection]:
    with cluster.connect("bob", tcp=True) as conn:
        conn.execute(f"SET dp.confidence = {SURE}")
        yield conn


def release(conn: Connection, name: str, query: str, grid: str, epsilon: float) -> list[Any]:
    call = "SELECT * FROM dp.dp_release_numeric(%s, %s, %s, epsilon => %s)"
    return conn.execute(call, (name, query, grid, epsilon)).fetchall()


def asked(conn: Connection, relation: str, where: str | None, *aggregates: str) -> list[tuple[float, float, float]]:
    """(value, low, high) of each aggregate of one block."""
    return grouped(conn, relation, where, [], *aggregates)[()]


def grouped(
    conn: Connection, relation: str, where: str | None, keys: list[str], *aggregates: str
) -> dict[tuple[str | None, ...], list[tuple[float, float, float]]]:
    """The same of each group."""
    document = {
        "keys": keys,
        "version": 1,
        "from": {"schema": "public", "name": relation},
        "where": where,
        "aggregates": list(aggregates),
        "bars": True,
        "budget": {"epsilon": "0.5"},
    }
    settings = one(conn, "SELECT dp.session_settings()")
    answer = one(conn, "SELECT dp.dp_query(%s)", json.dumps({**document, "settings": settings}))
    n = len(keys)
    return {
        tuple(row[:n]): [(float(v), float(bar[0]), float(bar[1])) for v, bar in zip(row[n:], bars, strict=True)]
        for row, bars in zip(answer["rows"], answer["bars"], strict=True)
    }


def exact(cluster: Cluster, sql: str) -> float:
    with cluster.connect("boss") as conn:
        return float(one(conn, sql.replace("%", "%%")) or 0)


QUESTIONS = {
    "a query of the grid": ("adult", "age BETWEEN 17 AND 20", "sum(loss)"),
    "another range": ("adult", "age BETWEEN 21 AND 29", "sum(loss)"),
    "OR": ("adult", "age = 40 OR age IN (50, 51) OR age > 80", "sum(loss)"),
    "arithmetic": ("adult", "age % 2 = 0", "sum(loss)"),
    "no class at all": ("adult", "age > 90", "sum(loss)"),
    "all classes": ("adult", None, "sum(loss)"),
    "rows": ("adult", "age < 33", "count(*)"),
    "rows with a value": ("adult", "stage <> 'red' AND age > 30", "count(temp)"),
    "NULL and NaN left out": ("adult", "stage <> 'red' AND age > 30", "sum(least(temp, 100))"),
    "FILTER": ("adult", "age < 60", "sum(loss) FILTER (WHERE age > 40)"),
    "a declared edge": ("adult", "edu IN ('hs', 'ba') AND rate < 2.5", "count(*)"),
    "average": ("adult", "age < 60", "avg(loss)"),
    "average without NULL and NaN": ("adult", "stage <> 'red' AND age > 30", "avg(least(temp, 100))"),
    "two signs": ("adult", "edu = 'ba' OR edu IS NULL", "sum(price)"),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_about_classes_is_free_and_its_bar_holds(cluster: Cluster, alice: Connection, name: str) -> None:
    relation, where, aggregate = QUESTIONS[name]
    if "least" in aggregate:
        aggregate = aggregate.replace("least(temp, 100)", "temp")
    before = charges(cluster)
    ((value, low, high),) = asked(alice, relation, where, aggregate)
    assert charges(cluster) == before
    assert one(alice, "SELECT path FROM dp.last_answer") == "family"
    plain = QUESTIONS[name][2]
    more = " AND age BETWEEN 17 AND 90" if "loss" in plain or where == "age < 33" else ""
    more += " AND temp <> 'NaN'" if "least(temp" in plain else ""
    true = exact(cluster, f"SELECT {plain} FROM {relation} WHERE ({where or 'true'}){more}")
    assert low <= true <= high, (value, low, true, high)
    assert abs(value - true) <= max(high - low, 1)


GROUPED = {
    "a column": ("age < 40", ["age"], "SELECT age::text, sum(loss), count(*) FROM adult WHERE age BETWEEN 17 AND 39"),
    "an expression": (
        "age <> 50",
        ["age / 10"],
        "SELECT (age / 10)::text, sum(loss), count(*) FROM adult WHERE age BETWEEN 17 AND 90 AND age <> 50",
    ),
}


@pytest.mark.parametrize("name", GROUPED)
def test_groups_are_free_and_can_be_compared(cluster: Cluster, alice: Connection, name: str) -> None:
    where, keys, sql = GROUPED[name]
    with no_charge(cluster):
        found = grouped(alice, "adult", where, keys, "sum(loss)", "count(*)")
        assert one(alice, "SELECT path FROM dp.last_answer") == "family"
        with cluster.connect("boss") as boss:
            true = {row[0]: row[1:] for row in boss.execute(f"{sql} GROUP BY 1")}
        assert true.keys() <= {key for (key,) in found}
        for (key,), row in found.items():
            for (_, low, high), exact in zip(row, true.get(key or "", (0, 0)), strict=True):
                assert low <= exact <= high, (key, row, exact)
        first, second = sorted(true)[:2]
        reply = alice.execute("SELECT * FROM dp.dp_compare(%s, %s, aggregate => 2)", (first, second)).fetchall()
        assert len(reply) == 1


def test_groups_of_two_columns_with_null(cluster: Cluster, alice: Connection) -> None:
    with no_charge(cluster):
        found = grouped(alice, "adult", "rate >= 2.5", ["edu", "edu = 'hs'"], "count(*)")
    with cluster.connect("boss") as boss:
        true = dict(boss.execute("SELECT edu, count(*) FROM adult WHERE rate >= 2.5 GROUP BY 1").fetchall())
    own = {key[0]: row[0] for key, row in found.items() if row[0] != (0, 0, 0)}
    assert set(own) == {"hs", "ba", 'm"a', None}
    assert all(low <= true[key] <= high for key, (_, low, high) in own.items())


def test_an_average_of_no_class_is_null(cluster: Cluster, alice: Connection) -> None:
    with no_charge(cluster):
        assert one(alice, "SELECT dp.dp_avg('adult', 'loss', 'age > 90')") is None


def test_aggregates_of_one_statement_are_answered_together(cluster: Cluster, alice: Connection) -> None:
    before = charges(cluster)
    found = asked(
        alice, "adult", "age < 40", "sum(loss)", "count(*)", "count(loss)", "count(*) FILTER (WHERE age > 90)"
    )
    assert charges(cluster) == before
    assert found[3] == (0, 0, 0)
    rows = exact(cluster, "SELECT count(*) FROM adult WHERE age BETWEEN 17 AND 39")
    assert all(low <= rows <= high for _, low, high in found[1:3])
    # one aggregate that the family cannot answer, and all are paid for
    asked(alice, "adult", "age < 40", "sum(loss)", "count(temp)")
    assert charges(cluster) == before + 1


def test_a_query_of_the_grid_has_the_bar_of_its_row(alice: Connection) -> None:
    rows = release(alice, "loss_by_age", LOSS, "{{17,20},{17,90},{30,60}}", 25)
    ((value, low, high),) = asked(alice, "adult", "age >= 17 AND age <= 20", "sum(loss)")
    _, answer, _, row_low, row_high, _ = rows[0]
    assert value == round(answer)
    assert (low, high) == (pytest.approx(row_low, abs=1), pytest.approx(row_high, abs=1))
    ((_, low, high),) = asked(alice, "adult", "edu = 'hs' AND rate >= 5", "count(*)")
    ((_, other_low, other_high),) = asked(alice, "adult", "edu = 'ba' AND rate >= 5", "count(*)")
    assert other_high - other_low > high - low  # of every set of 12 classes, not of the one query of the grid


UNANSWERED = {
    "another condition": ("adult", "age < 30 AND price > 0", "sum(loss)"),
    "less than its condition": ("adult", "stage = 'red'", "sum(temp)"),
    "another value": ("adult", "age < 30", "sum(loss + 1)"),
    "a class that is cut": ("adult", "edu = 'hs' AND rate < 3", "count(*)"),
}


@pytest.mark.parametrize("name", UNANSWERED)
def test_other_questions_are_paid_for(cluster: Cluster, alice: Connection, name: str) -> None:
    before = charges(cluster)
    asked(alice, *UNANSWERED[name])
    assert charges(cluster) == before + 1
    assert one(alice, "SELECT path FROM dp.last_answer") == "direct"


def test_whoever_wants_an_answer_of_its_own_gets_one(cluster: Cluster, alice: Connection) -> None:
    before = charges(cluster)
    one(alice, "SELECT dp.dp_sum('adult', 'loss', 'age < 31', fresh => true)")
    alice.execute("SET dp.mechanism = 'laplace'")
    one(alice, "SELECT dp.dp_sum('adult', 'loss', 'age < 32')")
    assert charges(cluster) == before + 2


def test_a_plan_says_so_before(alice: Connection) -> None:
    request = "dp.dp_sum_request('adult', 'loss', 'age < 44')"
    plan = one(alice, f"SELECT dp.dp_plan({request})")
    assert plan["path"] == "family" and plan["charge"] == {"worst": {}, "best": {}}
    assert plan["family"]["name"] == "loss_by_age" and plan["family"]["classes"] == [27]
    plan = one(alice, "SELECT dp.dp_plan(dp.dp_sum_request('adult', 'loss', 'price > 1'))")
    assert plan["path"] == "direct"
    assert plan["family"].startswith("not used: ")


def test_anothers_family_answers_where_it_is_nearer(cluster: Cluster, bob: Connection) -> None:
    before = charges(cluster)
    bob.execute("SET dp.epsilon = 0.01")
    ((_, low, high),) = asked(bob, "adult", "age BETWEEN 17 AND 20", "sum(loss)")
    with cluster.connect("alice", tcp=True) as conn:
        conn.execute(f"SET dp.confidence = {SURE}")
        ((_, own_low, own_high),) = asked(conn, "adult", "age BETWEEN 17 AND 20", "sum(loss)")
    assert high - low > own_high - own_low  # whether it is of her grid is not told to others
    assert charges(cluster) == before
    # alice's noise on 74 classes is more than what epsilon 5 buys for one sum
    assert one(bob, "SELECT dp.dp_plan(dp.dp_sum_request('adult', 'loss', epsilon => 5)) ->> 'path'") == "direct"


def test_names(cluster: Cluster, alice: Connection, bob: Connection) -> None:
    with no_charge(cluster), refused("DP005", "already the name of another family"):
        release(bob, "loss_by_age", LOSS, "{{1,2}}", 0.1)
    with no_charge(cluster), refused("DP005", "already the name of another family"):
        release(alice, "loss_by_age", "SELECT count(*) FROM adult WHERE age = $1", "{20}", 0.1)
    with cluster.connect() as root:
        root.execute(
            "INSERT INTO dp.family SELECT dataset, 'more_' || i, request_id, relation_key, 'bob', query, facts,"
            " queries, members FROM dp.family, generate_series(1, 100) i WHERE name = 'prices'"
        )
        with no_charge(cluster), refused("DP005", "you have 100 families"):
            release(bob, "bobs", LOSS, "{{1,2}}", 0.1)
        root.execute("DELETE FROM dp.family WHERE who = 'bob'")
    # a release that is there already answers under a second name, for nothing
    with no_charge(cluster):
        release(bob, "bobs", LOSS, "{{18,19}}", 25)
    shown = bob.execute(
        "SELECT name, yours, queries, classes, cells FROM dp.families WHERE dataset = 'adult'"
    ).fetchall()
    assert ("bobs", True, 1, ["age"], 74 * 9) in shown and ("loss_by_age", False, None, ["age"], 74 * 9) in shown
    with cluster.connect("boss") as boss:
        boss.execute("CALL dp.drop_family('adult', 'bobs')")
        with refused("DP005", "there is no family"):
            boss.execute("CALL dp.drop_family('adult', 'bobs')")
    with refused("42501", hint=False):
        alice.execute("CALL dp.drop_family('adult', 'prices')")
    balanced(cluster)


def test_users(cluster: Cluster, alice: Connection) -> None:
    before = charges(cluster)
    ((_, low, high),) = asked(alice, "visit", "ward <> 'n'", "sum(cost)")
    assert charges(cluster) == before
    assert low <= exact(cluster, "SELECT sum(cost) FROM visit WHERE ward = 's'") * 4 / 10
    assert high > 0


def test_what_cannot_be_told_from_noise_is_said(cluster: Cluster, alice: Connection) -> None:
    release(alice, "faint", "SELECT sum(loss) FROM adult WHERE age = $1 AND price > 6.9", "{20}", 0.001)
    ((value, _, high),) = asked(alice, "adult", "age = 21 AND price > 6.9", "sum(loss)")
    facts = one(alice, "SELECT facts FROM dp.last_answer")
    if facts["family"]["below_resolution"]:
        assert value == 0 and high > 0
    assert facts["family"]["name"] == "faint"


def test_new_data_and_a_redacted_question_end_it(cluster: Cluster) -> None:
    with cluster.connect("alice", tcp=True) as conn:
        plan = "SELECT dp.dp_plan(dp.dp_sum_request('visit', 'cost', 'ward = ''n''', epsilon => 0.1))"
        assert one(conn, plan)["path"] == "family"
        with cluster.connect("boss") as boss:
            boss.execute("CALL dp.refresh('visit')")
        assert one(conn, plan)["family"] == "not used: cost: its policy or its data have changed since"
        release(conn, "cost", "SELECT sum(cost) FROM visit WHERE ward = $1", "{n}", 5)
        request = one(conn, "SELECT request_id FROM dp.last_answer")
        assert one(conn, plan)["path"] == "family"
        with cluster.connect("boss") as boss:
            (request,) = boss.execute(
                "SELECT request_id FROM dp.spending WHERE dataset = 'clinic' ORDER BY at DESC"
            ).fetchone() or (None,)
            boss.execute("CALL dp.redact(%s)", (request,))
        assert one(conn, plan)["path"] == "direct"
        assert one(conn, "SELECT count(*) FROM dp.families WHERE name = 'cost'") == 0
