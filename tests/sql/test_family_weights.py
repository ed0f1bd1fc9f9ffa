"""Plain sums with a weight in them, as installed: they are answered from a family by cells, and cost nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import fix_chance
from fix_cluster import Cluster, standard_cluster
from fix_ledger import charges, no_charge, one
from fix_release import ADULT

Connection = psycopg.Connection[Any]
SURE = "0.999999999"
LOSS = "SELECT sum(loss) FROM adult WHERE age BETWEEN $1 AND $2 AND edu = $3"
NEAR = "SELECT sum((1 - abs(age - $1) / 100.0) * price) FROM adult WHERE age >= $2"
FAMILIES = {
    "loss_by_age": (LOSS, "{{17,90,hs}}"),
    "near": (NEAR, "{{40,20},{50,20}}"),
    "both": ("SELECT sum(price * loss) FROM adult WHERE age > $1 AND loss > 0", "{20}"),
    "rows": ("SELECT count(*) FROM adult WHERE stage = $1", "{red}"),
}
# Of all tests together, at most sixty answers whose bars hold at SURE.
pytestmark = pytest.mark.chance(fix_chance.union(60 * 1e-9))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with standard_cluster() as running:
        running.psql(ADULT, user="boss")
        with running.connect("alice", tcp=True) as conn:
            conn.execute(f"SET dp.confidence = {SURE}")
            ranges = (
                "SELECT * FROM dp.dp_release_numeric('ranges', %s, '{20,50,90}', epsilon => 25, mechanism => 'range')"
            )
            conn.execute(ranges, ("SELECT sum(price) FROM adult WHERE age < $1 AND price > 1",))
            for name, (query, grid) in reversed(FAMILIES.items()):
                release(conn, name, query, grid)
            release(conn, "cost", "SELECT sum(cost) FROM visit WHERE ward = $1", "{n}")
        yield running


@pytest.fixture
def alice(cluster: Cluster) -> Iterator[Connection]:
    with cluster.connect("alice", tcp=True) as conn:
        conn.execute(f"SET dp.confidence = {SURE}")
        yield conn


def release(conn: Connection, name: str, query: str, grid: str) -> list[Any]:
    call = "SELECT * FROM dp.dp_release_numeric(%s, %s, %s, epsilon => 25)"
    return conn.execute(call, (name, query, grid)).fetchall()


def asked(
    conn: Connection,
    relation: str,
    where: str | None,
    *aggregates: str,
    keys: tuple[str, ...] = (),
    call: str = "dp_query",
) -> dict[str, Any]:
    """The answer document of a block."""
    document = {
        "keys": keys,
        "version": 1,
        "from": {"schema": "public", "name": relation},
        "where": where,
        "aggregates": aggregates,
        "bars": True,
        "budget": {"epsilon": "0.5"},
        "settings": one(conn, "SELECT dp.session_settings()"),
    }
    found: dict[str, Any] = one(conn, f"SELECT dp.{call}(%s)", json.dumps(document))
    return found


def exact(cluster: Cluster, sql: str) -> float:
    with cluster.connect("boss") as conn:
        return float(one(conn, sql.replace("%", "%%")) or 0)


AGES = "age BETWEEN 17 AND 90"
# Relation, condition, aggregate, and where the rows of declared classes are.
QUESTIONS = {
    "a kernel": ("adult", "age < 60", "sum((1 - abs(age - 40) / 100.0) * loss)", AGES),
    "a kernel over all": ("adult", None, "sum(greatest(1 - abs(age - 40) / 20.0, 0) * loss)", AGES),
    "of two columns": (
        "adult",
        "edu = 'hs'",
        "sum(loss * (CASE edu WHEN 'hs' THEN 0.5 ELSE 1 END) * (age / 90.0))",
        AGES,
    ),
    "a constant": ("adult", "age > 30", "sum(0.25 * loss)", AGES),
    "a step": ("adult", "age > 30", "sum(CASE WHEN age < 50 OR edu = 'ba' THEN 1 ELSE 0 END * loss)", AGES),
    "NULL for some": ("adult", None, "sum(CASE WHEN age < 50 THEN 0.5 END * loss)", AGES),
    "FILTER": ("adult", "age < 60", "sum(loss * (age / 100.0)) FILTER (WHERE edu <> 'hs')", AGES),
    "two signs": ("adult", "age < 60", "sum((age / 100.0) * price)", AGES),
    "a product that is summed up": ("adult", "loss > 0 AND age > 30", "sum(price * (age / 90.0) * loss)", AGES),
    "rows of a family of counts": ("adult", None, "sum(CASE WHEN stage = 'red' THEN 0.5 ELSE 1 END)", "true"),
    "rows of a family of sums": ("adult", "edu = 'hs'", "sum(age / 100.0)", AGES),
    "users": ("visit", None, "sum(CASE ward WHEN 'n' THEN 0.5 ELSE 1 END * cost)", "id <= 4 * 300"),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_weighted_sum_is_free_and_its_bar_holds(cluster: Cluster, alice: Connection, name: str) -> None:
    relation, where, aggregate, declared = QUESTIONS[name]
    with no_charge(cluster):
        found = asked(alice, relation, where, aggregate)
    assert found["notice"]["path"] == "family", found["notice"]
    value, ((low, high, _),) = float(found["rows"][0][0]), found["bars"][0]
    if relation == "adult":  # of users it is not known which of their rows count
        true = exact(cluster, f"SELECT {aggregate} FROM {relation} WHERE ({where or 'true'}) AND {declared}")
        assert float(low) - 0.01 <= true <= float(high) + 0.01, (value, low, true, high)
        assert abs(value - true) <= max(float(high) - float(low), 1)
    assert float(low) <= value <= float(high)


def test_groups_and_aggregates_are_answered_together(cluster: Cluster, alice: Connection) -> None:
    weighted, plain = "sum((age / 100.0) * loss)", "sum(loss)"
    with no_charge(cluster):
        found = asked(alice, "adult", "age < 60", weighted, plain, "count(*)", keys=("edu",))
    assert found["notice"]["path"] == "family"
    with cluster.connect("boss") as boss:
        sql = f"SELECT edu, {weighted}, {plain}, count(*) FROM adult WHERE {AGES} AND age < 60 GROUP BY 1"
        true = {row[0]: row[1:] for row in boss.execute(sql)}
    assert {row[0] for row in found["rows"]} == true.keys()
    for row, bars in zip(found["rows"], found["bars"], strict=True):
        for value, (low, high, _) in zip(true[row[0]], bars, strict=True):
            assert float(low) - 0.01 <= value <= float(high) + 0.01


def test_a_weighted_query_of_the_grid_has_the_bar_of_its_row(cluster: Cluster, alice: Connection) -> None:
    _, answer, _, row_low, row_high, _ = release(alice, "near", NEAR, FAMILIES["near"][1])[0]
    with no_charge(cluster):
        own = asked(alice, "adult", "age >= 20", "sum((1 - abs(age - 40) / 100.0) * price)")
        other = asked(alice, "adult", "age >= 20", "sum((1 - abs(age - 41) / 100.0) * price)")
    ((low, high, _),) = own["bars"][0]
    assert float(own["rows"][0][0]) == pytest.approx(answer, abs=0.01)
    assert (float(low), float(high)) == (pytest.approx(row_low, abs=0.01), pytest.approx(row_high, abs=0.01))
    assert "bars hold at once for the 2 queries of its grid" in own["notice"]["text"]
    ((wide_low, wide_high, _),) = other["bars"][0]
    assert float(wide_high) - float(wide_low) > float(high) - float(low)
    assert "for every set of its classes, whatever the weights" in other["notice"]["text"]


def test_another_analyst_is_answered_too(cluster: Cluster) -> None:
    with cluster.connect("bob", tcp=True) as bob, no_charge(cluster):
        bob.execute(f"SET dp.confidence = {SURE}")
        found = asked(bob, "adult", "age >= 20", "sum((1 - abs(age - 40) / 100.0) * price)")
    assert found["notice"]["path"] == "family"
    assert "whatever the weights" in found["notice"]["text"]  # the grid is not bob's


def test_what_cannot_be_told_from_noise_says_so(cluster: Cluster, alice: Connection) -> None:
    with no_charge(cluster):
        found = asked(alice, "adult", "age = 17 AND edu IS NULL", "sum((age / 100.0) * loss)")
    assert found["notice"]["family"]["below_resolution"] == ["sum((age / 100.0) * loss)"]
    assert found["rows"] == [["0.00"]]
    assert exact(cluster, "SELECT sum(loss) FROM adult WHERE age = 17 AND edu IS NULL") == 0


# The aggregate, a condition, and why the newest family does not answer.
UNANSWERED = {
    "above 1": ("sum(2 * loss)", "true", "its weight is 2"),
    "above 1 at a class that is read": ("sum((age / 50.0) * loss)", "true", "and not between 0 and 1"),
    "below 0": ("sum(((age - 40) / 100.0) * loss)", "true", "its weight is -0.2"),
    "another column": ("sum((price / 100.0) * loss)", "true", "is no attribute of it"),
    "an average": ("avg((age / 100.0) * loss)", "true", "is not what it sums up"),
    "the asker's own steps": ("sum(round((age / 100.0) * loss, 1))", "true", "is no attribute of it"),
    "a release of ranges": ("sum((age / 100.0) * price)", "price > 1", "is no attribute of it"),
}


@pytest.mark.parametrize("name", UNANSWERED)
def test_other_weights_are_paid_for(cluster: Cluster, alice: Connection, name: str) -> None:
    aggregate, where, reason = UNANSWERED[name]
    before = charges(cluster)
    plan = asked(alice, "adult", f"age >= 20 AND {where}", aggregate, call="dp_plan")
    assert reason in json.dumps(plan), plan
    found = asked(alice, "adult", f"age >= 20 AND {where}", aggregate)
    assert charges(cluster) == before + 1 and found["notice"]["path"] != "family"


def test_no_row_is_read(cluster: Cluster, alice: Connection) -> None:
    """Nobody changes the table meanwhile, nor could: another session holds it."""
    with cluster.connect("boss") as boss:
        boss.execute("BEGIN")
        boss.execute("LOCK TABLE adult IN ACCESS EXCLUSIVE MODE")
        alice.execute("SET statement_timeout = '60s'")
        found = asked(alice, "adult", "age < 61", "sum((1 - abs(age - 40) / 100.0) * loss)")
        boss.execute("ROLLBACK")
    assert found["notice"]["path"] == "family"


@pytest.mark.parametrize("number", range(4))
def test_families_of_their_grid_alone_answer_its_weights(cluster: Cluster, alice: Connection, number: int) -> None:
    """The row of the grid, free; of another weight nothing is known, and it is paid for."""
    mechanism = ("alg2", "composition", "normalisation", "global")[number]
    query = f"SELECT sum(CASE stage WHEN $1 THEN 1 ELSE 0.25 END * loss) FROM adult WHERE price > {number + 6}"
    call = f"SELECT * FROM dp.dp_release_numeric(%s, %s, '{{red,green}}', epsilon => 5, mechanism => '{mechanism}')"
    rows = alice.execute(call, (f"{mechanism}_grid", query)).fetchall()
    for (stage,), answer, _, low, high, _ in rows:
        with no_charge(cluster):
            weight = f"CASE stage WHEN '{stage}' THEN 1 ELSE 0.25 END"
            found = asked(alice, "adult", f"price > {number + 6}", f"sum({weight} * loss)")
        assert found["notice"]["path"] == "family"
        assert float(found["rows"][0][0]) == pytest.approx(answer, abs=0.51)
        if low is not None:
            ((own_low, own_high, _),) = found["bars"][0]
            assert (float(own_low), float(own_high)) == (pytest.approx(low, abs=1), pytest.approx(high, abs=1))
    before = charges(cluster)
    other = asked(alice, "adult", f"price > {number + 6}", "sum(CASE stage WHEN 'red' THEN 1 ELSE 0.5 END * loss)")
    assert charges(cluster) == before + 1 and other["notice"]["path"] != "family"


def test_a_matrix_strategy_answers_no_weights(cluster: Cluster, alice: Connection) -> None:
    grid = "{" + ",".join(map(str, range(17, 91))) + "}"
    more = """epsilon => 5, mechanism => 'range', options => '{"strategy": "matrix"}'"""
    alice.execute(
        f"SELECT count(*) FROM dp.dp_release_numeric('prefixes', %s, '{grid}', {more})",
        ("SELECT sum(price) FROM adult WHERE age <= $1 AND price > 3",),
    )
    with no_charge(cluster):
        assert asked(alice, "adult", "age < 61 AND price > 3", "sum(price)")["notice"]["path"] == "family"
    before = charges(cluster)
    found = asked(alice, "adult", "age < 61 AND price > 3", "sum((age / 100.0) * price)")
    assert charges(cluster) == before + 1 and found["notice"]["path"] != "family"
