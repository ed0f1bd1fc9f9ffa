"""What PostgreSQL cannot plan is known before anything is paid (composition.md §10.3 a): findings A3 and A8.

The cluster's lock table is small, so that 1,100 partitions do not fit into it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from fix_cluster import Cluster, private_cluster, standard
from fix_ledger import charges, forgive, no_charge, one, refused, spent

LADDER = {"base": "2", "lower": "0", "upper": "33554431", "resolution": "1"}
PARTITIONS = 1100
CROWD = f"""
CREATE TABLE crowd (id int PRIMARY KEY) PARTITION BY RANGE (id);
DO $$ BEGIN FOR i IN 0 .. {PARTITIONS - 1} LOOP
  EXECUTE format('CREATE TABLE crowd_%s PARTITION OF crowd FOR VALUES FROM (%s) TO (%s)', i, 10 * i, 10 * i + 10);
  IF i % 40 = 0 THEN COMMIT; END IF;
END LOOP; END $$;
"""
DECLARED = """
CALL dp.protect('crowd', 'people'); CALL dp.describe_column('crowd', 'id'); CALL dp.publish('crowd');
"""
# Charges in a backend of its own a request whose statistics statement is another one; `broken` replaces the gate.
ENGINE = """;
CREATE FUNCTION public.charge_for(request jsonb, statement text, broken text) RETURNS jsonb LANGUAGE plpython3u
SET row_security = off AS $$
import dataclasses, json, uuid
from pg_epsilon import entry
from pg_epsilon.engine import planning
planned, gate, refused = entry._planned, entry._check_readable, planning.is_refused
def other(request):
    return dataclasses.replace(planned(request), statement=statement)
try:
    entry._planned = other if statement else planned
    if broken == "no gate":
        entry._check_readable = lambda plan: None
    if broken == "refuses whatever planning raises":
        planning.is_refused = lambda state: True
    entry.planning.forget()
    id = str(uuid.uuid4())
    reply = json.loads(entry.charge(id, "alice", request))
    return json.dumps({**reply, **(json.loads(entry.answer(id)) if reply.get("charged") else {})})
finally:
    entry._planned, entry._check_readable, planning.is_refused = planned, gate, refused
    entry._pending.clear()
    entry.planning.forget()
$$;
"""


@pytest.fixture(scope="module")
def small() -> Iterator[Cluster]:
    with private_cluster(max_locks_per_transaction="200", max_connections="30") as cluster:
        cluster.psql(CROWD)  # before there is a policy, whose event triggers would run for each partition
        standard(cluster)
        cluster.psql("ALTER TABLE crowd OWNER TO boss" + ENGINE)
        cluster.psql(DECLARED, user="boss")
        cluster.execute("ALTER SYSTEM SET max_locks_per_transaction = 10")
        cluster.stop("fast")
        cluster.start()
        yield cluster


@pytest.fixture
def alice(small: Cluster) -> Iterator[psycopg.Connection[Any]]:
    with small.connect("alice") as connection:
        yield connection


def asked(alice: psycopg.Connection[Any], table: str = "people", **more: Any) -> str:
    request = one(alice, "SELECT dp.dp_count_request(%s, epsilon => 0.01, fresh => true)", table)
    return json.dumps({**request, **more})


def ladders(number: int) -> list[dict[str, Any]]:
    """Different sums by R2T, each of 26 levels."""
    return [{"function": "sum", "argument": "age", "filter": f"id > {i}", "parameters": LADDER} for i in range(number)]


def charged_for(small: Cluster, alice: psycopg.Connection[Any], statement: str, broken: str = "") -> dict[str, Any]:
    """The reply to a count whose statement is replaced."""
    with small.connect() as root:
        return dict(one(root, "SELECT public.charge_for(%s, %s, %s)", asked(alice), statement, broken))


def test_more_columns_than_postgresql_has_are_refused_uncharged(small: Cluster, alice: psycopg.Connection[Any]) -> None:
    """A3: 64 sums by R2T in one block; every other question of the relation is answered afterwards."""
    with no_charge(small), refused("DP003", "cannot plan this question"):
        alice.execute("SELECT dp.dp_query(%s)", [asked(alice, aggregates=ladders(64), mechanism="r2t")])
    assert one(alice, "SELECT dp.dp_sum('people', 'age', epsilon => 0.01, fresh => true)") is not None
    several = one(alice, "SELECT dp.dp_query(%s)", asked(alice, aggregates=ladders(50), mechanism="r2t"))
    assert len(several["rows"][0]) == 50
    assert "SQLSTATE 54011" in small.log
    assert "33554431" not in small.log.replace("STATEMENT", "")


@pytest.mark.parametrize(
    ("statement", "sqlstate"),
    [
        ("SELECT count(*) AS a1 FROM people a FULL JOIN people b ON a.id < b.id", "0A000"),
        (f"SELECT {', '.join(['count(*)'] * 1665)} FROM people", "54011"),
        ("SELECT count(*) AS a1 FROM people_elsewhere", "42P01"),
    ],
)
def test_what_cannot_be_planned_is_refused_uncharged(
    small: Cluster, alice: psycopg.Connection[Any], statement: str, sqlstate: str
) -> None:
    """A8: the engine beneath may refuse by 0A000 what PostgreSQL plans; one constant answer, SQLSTATE in the log."""
    with no_charge(small):
        reply = charged_for(small, alice, statement)
    assert reply["refusal"]["sqlstate"] == "DP003"
    assert reply["refusal"]["message"] == "PostgreSQL cannot plan this question: nothing was charged"
    assert f"SQLSTATE {sqlstate}" in small.log
    assert "people_elsewhere" not in json.dumps(reply)


def test_a_missing_right_is_refused_uncharged(small: Cluster, alice: psycopg.Connection[Any]) -> None:
    small.psql("REVOKE SELECT ON people FROM dp_owner")
    try:
        with no_charge(small), refused("DP006", "dp_owner may not read public.people"):
            alice.execute("SELECT dp.dp_count('people', epsilon => 0.01, fresh => true)")
    finally:
        small.psql("GRANT SELECT ON people TO dp_owner")
    assert one(alice, "SELECT dp.dp_count('people', epsilon => 0.01, fresh => true)") is not None


def test_without_the_gate_the_same_failure_is_paid(small: Cluster, alice: psycopg.Connection[Any]) -> None:
    """Control: the test above would see it."""
    before = charges(small)
    reply = charged_for(small, alice, "SELECT count(*) AS a1 FROM people_elsewhere", "no gate")
    assert reply["refusal"]["sqlstate"] == "DP006"
    assert charges(small) == before + 1
    forgive(small)


def test_a_lock_is_the_machines_and_uncharged(small: Cluster, alice: psycopg.Connection[Any]) -> None:
    """Planning waits for a lock before the charge: 55P03 is no refusal, and nothing is paid (A5)."""
    request = asked(alice)
    with small.connect() as locker, small.connect() as root:
        locker.autocommit = False
        locker.execute("LOCK TABLE people IN ACCESS EXCLUSIVE MODE")
        root.execute("SET lock_timeout = '50ms'")
        with no_charge(small):
            reply = one(root, "SELECT public.charge_for(%s, '', '')", request)
    assert reply["refusal"]["sqlstate"] == "DP006"
    assert "locked" in reply["refusal"]["message"]


SAMPLED = "SELECT count(*) AS a1 FROM people WHERE city LIKE '%nort\\'"
"""Raises 22025 on a row whose city has `nort` before its end; the compiler writes no such pattern."""


def _of_samples(small: Cluster, alice: psycopg.Connection[Any], broken: str) -> list[dict[str, Any]]:
    """What planning says with a sample of rows that the pattern meets, and without."""
    replies = []
    for sampled in (True, False):
        small.execute("ANALYZE people" if sampled else "DELETE FROM pg_statistic WHERE starelid = 'people'::regclass")
        replies.append(charged_for(small, alice, SAMPLED, broken))
    forgive(small)
    return replies


def test_what_a_sample_of_rows_decides_is_no_refusal(small: Cluster, alice: psycopg.Connection[Any]) -> None:
    """LIKE refused by statistics: an unforeseen failure (10.3 d), which is counted, not an uncharged DP003."""
    with_samples, without = _of_samples(small, alice, "")
    assert with_samples["refusal"]["sqlstate"] == "DP006"
    assert "PlanningFailed" in small.log
    assert without.get("charged") or without["refusal"]["sqlstate"] == "DP006"


def test_a_gate_that_refuses_whatever_planning_raises_is_caught(small: Cluster, alice: psycopg.Connection[Any]) -> None:
    """Control: rows that only the sample holds would decide between an uncharged refusal and a charge."""
    with_samples, without = _of_samples(small, alice, "refuses whatever planning raises")
    assert with_samples["refusal"]["sqlstate"] == "DP003"
    assert without.get("charged")


def test_patterns_over_inexact_collations_are_refused_whatever_the_rows(small: Cluster) -> None:
    """PostgreSQL raises 0A000 for LIKE there on the first row that it tries: the compiler refuses before."""
    small.psql(
        "CREATE COLLATION any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);"
        "CREATE TABLE names (id int PRIMARY KEY, name text COLLATE any_case);"
        "CALL dp.protect('names', 'people'); CALL dp.describe_column('names', 'name'); CALL dp.publish('names');",
        user="boss",
    )
    with small.connect("alice") as alice:
        for _ in range(2):
            with no_charge(small), refused("DP003"):
                alice.execute("SELECT dp.dp_count('names', $$name LIKE '%a%'$$, epsilon => 0.01)")
            small.psql(
                "INSERT INTO names SELECT i, 'Name' || i % 3 FROM generate_series(1, 300) i ON CONFLICT DO NOTHING;"
                "ANALYZE names"
            )


def test_1100_children_are_answered_or_refused_before_the_charge(
    small: Cluster, alice: psycopg.Connection[Any]
) -> None:
    """Those that a question touches decide, which are public: no event, however often. And the control."""
    before, rows = spent(small), charges(small)
    for age, words in enumerate(["public.crowd has 1,100 partitions", "max_locks_per_transaction = "] * 3):
        with refused("DP003", words):
            alice.execute("SELECT dp.dp_count('crowd', %s, epsilon => 0.01)", [f"id > {-age}"])
    with small.connect() as root:
        assert one(root, "SELECT count(*) FROM dp.closed_question") == 0
    assert spent(small) == before and charges(small) == rows
    assert one(alice, "SELECT dp.dp_count('crowd', 'id < 100', epsilon => 0.01)") is not None
    assert spent(small) > before
    rows = charges(small)
    with small.connect() as root:
        reply = one(root, "SELECT public.charge_for(%s, '', 'no gate')", asked(alice, "crowd"))
    forgive(small)
    assert reply["refusal"]["sqlstate"] == "DP006"
    assert charges(small) == rows + 1, "without the gate the failure comes after the charge"


def test_no_engine_beneath_asks_another_server_for_estimates(small: Cluster) -> None:
    """dp.check() names foreign partitions whose planning would; its hint is the cure."""
    small.psql("CREATE TABLE spread (id int) PARTITION BY RANGE (id); CALL dp.protect('spread', 'people')", user="boss")
    small.psql(
        "CREATE EXTENSION postgres_fdw; CREATE SERVER away FOREIGN DATA WRAPPER postgres_fdw"
        " OPTIONS (use_remote_estimate 'true');"
        "CREATE FOREIGN TABLE spread_away PARTITION OF spread FOR VALUES FROM (0) TO (10) SERVER away"
    )
    asks = "SELECT hint FROM dp.check() WHERE problem ~ 'asks another server for estimates'"
    try:
        with small.connect("boss") as boss:
            (hint,) = boss.execute(asks).fetchone() or ("",)
            small.execute(hint)
            assert boss.execute(asks).fetchall() == []
    finally:
        small.execute("DROP FOREIGN TABLE spread_away", "DROP SERVER away")
