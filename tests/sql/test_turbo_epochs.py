"""Histogram + sparse vector inside `auto` on a real cluster: a large grid whose questions pass (turbo/trust.py)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from fix_cluster import Cluster, private_cluster, standard
from fix_ledger import account, balanced, no_charge, one

ROWS = 32_768
SURE = 2.5 * 0.05 * ROWS
DIRECT = Decimal("0.0042163")  # ln(1000) / (0.05 * 32768)
SETUP = f"""
CREATE TABLE wide (a int, b int, c int, d int);
INSERT INTO wide SELECT i % 8, i / 8 % 8, i / 64 % 8, i / 512 % 8 FROM generate_series(1, {ROWS}) i;
CALL dp.create_dataset('wide', epsilon => 10);
CALL dp.protect('wide', 'wide', scale => {ROWS});
CALL dp.describe_column('wide', 'a', bounds => '{{0,7}}', nullable => false);
CALL dp.describe_column('wide', 'b', bounds => '{{0,7}}', nullable => false);
CALL dp.describe_column('wide', 'c', bounds => '{{0,7}}', nullable => false);
CALL dp.describe_column('wide', 'd', bounds => '{{0,7}}', nullable => false);
CALL dp.publish('wide');
CALL dp.allot('alice', 'wide', epsilon => 10);
CALL dp.allot('dp_planner', 'wide', epsilon => 5);
CALL dp.enable_turbo('wide', '{{a,b,c,d}}', 0.05, 0.001);
"""
QUESTIONS = [
    f"a <= {a} AND b <= {b} AND c <= {c} AND d <= {d}"
    for a in range(2, 7)
    for b in range(3, 7)
    for c in range(4, 7)
    for d in (5, 6)
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with private_cluster() as running:
        standard(running)
        running.psql(SETUP, user="boss")
        yield running


@pytest.fixture(scope="module")
def alice(cluster: Cluster) -> Iterator[psycopg.Connection[Any]]:
    with cluster.connect("alice") as conn:
        yield conn


@pytest.fixture(autouse=True)
def _books(cluster: Cluster) -> Iterator[None]:
    yield
    balanced(cluster)


def ask(conn: psycopg.Connection[Any], predicate: str, call: str = "query") -> dict[str, Any]:
    sql = f"SELECT dp.dp_{call}(dp.dp_count_request('wide', %s, alpha => 0.05, beta => 0.001))"
    answer = one(conn, sql, predicate)
    assert isinstance(answer, dict)
    return answer


def true(cluster: Cluster, predicate: str) -> int:
    with cluster.connect() as root:
        return int(one(root, f"SELECT count(*) FROM wide WHERE {predicate}"))


def state(cluster: Cluster, what: str) -> int:
    with cluster.connect() as root:
        return int(one(root, f"SELECT count(*) FROM dp.{what} WHERE view = (SELECT max(view) FROM dp.turbo_view)"))


def test_questions_pass_once_an_epoch_is_earned(cluster: Cluster, alice: psycopg.Connection[Any]) -> None:
    """All have one bin in common: each costs an answer, until 29 or so have agreed with an even table."""
    rest, seen = list(QUESTIONS), []
    assert state(cluster, "turbo_node") == 0
    while "epoch" not in (seen[-1] if seen else ""):
        with no_charge(cluster):
            plan = ask(alice, rest[0], "plan")
        before = account(cluster, "wide").get("relation/public.wide", Decimal(0))
        answer = ask(alice, rest.pop(0))
        paid = account(cluster, "wide")["relation/public.wide"] - before
        assert paid <= Decimal(plan["charge"]["worst"]["epsilon"])
        assert paid >= Decimal(plan["charge"]["best"].get("epsilon", 0))
        seen.append(plan["path"])
    assert seen[0] == "bypass" and "histogram" in seen[-1] and 26 <= len(seen) <= 60
    assert Decimal("11.9") * DIRECT < Decimal(plan["charge"]["best"]["epsilon"]) < 13 * DIRECT
    passed = []
    while rest and len(passed) < 8:  # a test fails with probability 1e-3 or so, and evidence opens a new epoch
        question = rest.pop(0)
        with no_charge(cluster):
            plan = ask(alice, question, "plan")
        before = account(cluster, "wide")
        answer = ask(alice, question)
        assert abs(int(answer["rows"][0][0]) - true(cluster, question)) <= SURE
        assert answer["notice"]["grade"] == plan["grade"] == "oblivious"
        if answer["notice"]["path"] == "histogram (PASS)":
            assert plan["charge"]["best"] == {} and "histogram" in plan["path"]
            assert answer["notice"]["charge"] == {} and account(cluster, "wide") == before
            passed.append((question, answer["rows"]))
    assert passed
    with no_charge(cluster):
        again = ask(alice, passed[0][0])
    assert again["rows"] == passed[0][1] and again["notice"]["path"] == "exact"
    assert state(cluster, "turbo_node") == 1 and state(cluster, "turbo_sv") == 1
    with cluster.connect() as root:
        assert int(one(root, "SELECT octet_length(snapshot) FROM dp.turbo_node")) == 28 + 16 * 8**4


def test_a_refresh_closes_the_epoch_and_evidence_starts_anew(cluster: Cluster, alice: psycopg.Connection[Any]) -> None:
    with cluster.connect("boss") as boss:
        boss.execute("CALL dp.refresh('wide')")
    for question in QUESTIONS[-10:]:
        answer = ask(alice, question)
        assert answer["notice"]["path"] == "bypass"
    assert state(cluster, "turbo_node") == 1


def test_no_epoch_that_the_plan_did_not_name(cluster: Cluster, alice: psycopg.Connection[Any]) -> None:
    """Of two aggregates the first may earn the epoch: it is opened by the next question, whose plan says so."""
    for _ in range(4):  # in every second attempt, or so, evidence is complete after a first aggregate
        with cluster.connect("boss") as boss:
            boss.execute("CALL dp.refresh('wide')")
        paid, rest = Decimal(0), list(QUESTIONS[-40:])
        while paid < 11 * DIRECT:
            request = {
                "version": 1,
                "from": {"schema": "public", "name": "wide"},
                "aggregates": ["count(*)", "sum(a + 1)"],
                "budget": {"alpha": "0.05", "beta": "0.001"},
                "settings": {},
                "where": rest.pop(),
            }
            plan = one(alice, "SELECT dp.dp_plan(%s::jsonb)", json.dumps(request))
            before = account(cluster, "wide")["relation/public.wide"]
            one(alice, "SELECT dp.dp_query(%s::jsonb)", json.dumps(request))
            paid = account(cluster, "wide")["relation/public.wide"] - before
        assert "a new epoch" in plan["path"]
        assert paid <= Decimal(plan["charge"]["worst"]["epsilon"])
