"""The planner `auto` on a real cluster: stored answers, rented noise, synopses that dp_planner buys (§7.5)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import psycopg
import pytest

import fix_chance
from fix_cluster import Cluster, standard_cluster
from fix_ledger import account, balanced, no_charge, one, refused
from fix_turbo import ask, true

pytestmark = pytest.mark.chance(fix_chance.accuracy(3, 50))

ROWS = 20_000
SURE = 3 * 0.05 * ROWS
DIRECT = Decimal("0.00690775527899")  # ln(1000) / (0.05 * 20000)
SETUP = f"""
CREATE TABLE small (a int, b int);
INSERT INTO small SELECT i % 8, CASE WHEN i % 10 = 0 THEN 1 ELSE 0 END FROM generate_series(1, {ROWS}) i;
CALL dp.create_dataset('small', epsilon => 10);
CALL dp.protect('small', 'small', scale => {ROWS});
CALL dp.describe_column('small', 'a', bounds => '{{0,7}}', nullable => false);
CALL dp.describe_column('small', 'b', bounds => '{{0,1}}', nullable => false);
CALL dp.publish('small');
CALL dp.allot('alice', 'small', epsilon => 10);
CALL dp.enable_turbo('small', '{{a,b}}', 0.05, 0.001);
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with standard_cluster() as running:
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


def test_disjoint_questions_share_a_payment(cluster: Cluster, alice: psycopg.Connection[Any]) -> None:
    """Noise is paid by the bins that used it: what shares no bin with earlier ones is free (parallel composition)."""
    with no_charge(cluster):
        plan = ask(alice, "small", "a = 1", "plan")
    first = ask(alice, "small", "a = 1")
    price = Decimal(first["notice"]["charge"]["epsilon"])
    assert DIRECT <= price < DIRECT * Decimal("1.0001")
    assert plan["charge"]["worst"] == first["notice"]["charge"]
    second = ask(alice, "small", "a = 2")
    assert second["notice"]["path"] == "bypass"
    assert second["notice"]["charge"] == {}
    with no_charge(cluster):
        assert ask(alice, "small", "a = 2")["rows"] == second["rows"]
        assert ask(alice, "small", "a = 2")["notice"]["path"] == "exact"
    assert account(cluster, "small") == {"relation/public.small": price}


def test_a_synopsis_is_bought_by_the_planner_when_rent_is_due(cluster: Cluster, alice: psycopg.Connection[Any]) -> None:
    """Overlapping questions are rented until the rent passes a synopsis' price; always, if dp_planner has nothing."""
    questions = [
        f"a >= {low} AND a <= {high} AND b = {b}" for low in range(4) for high in range(low + 1, 8) for b in (0, 1)
    ]
    for question in questions[:6]:
        assert ask(alice, "small", question)["notice"]["path"] in ("bypass", "exact")
    with cluster.connect("boss") as boss:
        boss.execute("CALL dp.allot('dp_planner', 'small', epsilon => 5)")
    paths = []
    for question in questions:
        answer = ask(alice, "small", question)
        paths.append(answer["notice"]["path"])
        grade = "uniform" if paths[-1] == "synopsis" else "oblivious"
        assert answer["notice"]["grade"] == grade
        assert f"at 0.999 ({grade})" in answer["notice"]["text"]
        assert abs(int(answer["rows"][0][0]) - true(cluster, "small", question)) <= SURE
    assert "synopsis" in paths
    bought = account(cluster, "small", "dp_planner")
    assert set(bought) == {"relation/public.small"}
    with no_charge(cluster):
        assert ask(alice, "small", "a IN (0, 5, 6)")["notice"]["path"] in ("synopsis", "exact")
    with cluster.connect() as root:
        made = "SELECT who, mechanism FROM dp.ledger WHERE dataset = 'small' AND mechanism = 'turbo synopsis'"
        assert set(root.execute(made).fetchall()) == {("dp_planner", "turbo synopsis")}
        spent = sum(account(cluster, "small").values())
        assert spent == bought["relation/public.small"] + account(cluster, "small", "alice")["relation/public.small"]


def test_a_refresh_starts_anew(cluster: Cluster, alice: psycopg.Connection[Any]) -> None:
    """Stored answers are served no more, and new ones are stored beside them."""
    with cluster.connect("boss") as boss:
        for _ in range(2):
            boss.execute("CALL dp.refresh('small')")
            answer = ask(alice, "small", "a = 1")
            assert answer["notice"]["path"] == "bypass"
            assert answer["notice"]["charge"] != {}
            with no_charge(cluster):
                again = ask(alice, "small", "a = 1")
            assert (again["notice"]["path"], again["rows"]) == ("exact", answer["rows"])
    assert ask(alice, "small", "a IN (0, 5, 6)")["notice"]["path"] in ("bypass", "synopsis")


def test_a_declared_workload_buys_at_once(cluster: Cluster, alice: psycopg.Connection[Any]) -> None:
    """The owner says which questions will come: if renting them all costs more than a synopsis, it is bought first."""
    workload = """{"workload": [{"keys": ["a", "b"]}, {"where": "a < 4"}, {"where": "a >= 2 AND a < 6 AND b = 1"}],
                   "forecast": 100}"""
    with cluster.connect("boss") as boss:
        boss.execute("CALL dp.disable_turbo('small')")
        with refused("DP003", "no set of bins"):
            settings = '{"workload": [{"where": "true", "aggregates": ["avg(a)", "stddev(a)"]}]}'
            boss.execute("CALL dp.enable_turbo('small', '{a,b}', 0.05, 0.001, settings => %s)", [settings])
        boss.execute("CALL dp.enable_turbo('small', '{a,b}', 0.05, 0.001, settings => %s)", [workload])
    plan = ask(alice, "small", "a < 4", "plan")
    answer = ask(alice, "small", "a < 4")
    assert answer["notice"]["charge"] == plan["charge"]["worst"]
    assert answer["notice"]["grade"] == plan["grade"]
    assert f"({plan['grade']})" in plan["text"]
    assert answer["notice"]["path"] in ("synopsis", "bypass")
    with no_charge(cluster):
        assert ask(alice, "small", "NOT a > 3")["rows"] == answer["rows"]


SEVERAL = [
    ["count(*) FILTER (WHERE a < 4)", "count(*) FILTER (WHERE a > 2)", "count(*) FILTER (WHERE a < 4)"],
    ["count(*)", "sum(a)", "avg(a)"],
    ["sum(a) FILTER (WHERE b = 1)", "sum(a * b)", "count(*) FILTER (WHERE b = 1 AND a > 1)"],
]


@pytest.mark.parametrize("planner", [None, 10])
def test_what_several_aggregates_cost_is_said_beforehand(
    cluster: Cluster, alice: psycopg.Connection[Any], planner: int | None
) -> None:
    """What the first one pays is known when the next one is planned. planner: synopses may be bought too."""
    with cluster.connect("boss") as boss:
        boss.execute("CALL dp.disable_turbo('small')")
        boss.execute("CALL dp.enable_turbo('small', '{a,b}', 0.05, 0.001, settings => '{\"forecast\": 500}')")
        boss.execute("CALL dp.allot('dp_planner', 'small', epsilon => %s)", [planner or 0])
    for aggregates in SEVERAL:
        for where in ("a <> 3", "a IN (1, 3, 6)"):
            request = {
                "version": 1,
                "from": {"schema": "public", "name": "small"},
                "aggregates": aggregates,
                "budget": {"alpha": "0.05", "beta": "0.001"},
                "settings": {},
                "where": where,
            }
            with no_charge(cluster):
                plan = one(alice, "SELECT dp.dp_plan(%s::jsonb)", json.dumps(request))
            before = account(cluster, "small").get("relation/public.small", Decimal(0))
            one(alice, "SELECT dp.dp_query(%s::jsonb)", json.dumps(request))
            paid = account(cluster, "small").get("relation/public.small", Decimal(0)) - before
            worst = Decimal(plan["charge"]["worst"].get("epsilon", "0"))
            assert paid <= worst, (aggregates, where)
            if planner is None:
                assert paid == worst, (aggregates, where)
