"""A kind of question that the product does not have (tests/echo): one folder, a line, a row of a table, and it works.

In a cluster that runs a copy of the product with that kind: its price, its cache, its refusals, what is owed, the
proxy, and record and replay on neighbours.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import psycopg
import pytest

import fix_chance
import fix_echo
from fix_cluster import ROLES, Cluster, locations, standard
from fix_ledger import balanced, charges, no_charge, one, refused, spent
from fix_ports import free_port
from fix_privacy import HERE, tapped
from fix_stack import Stack
from privacy.neighbours import additions, removals
from privacy.replay import compare, requests, run

ROOT = Path(__file__).parents[2]
# Counts of 500 and none at epsilon 0.5 and 1, or of a user with five rows at epsilon 2.
pytestmark = pytest.mark.chance(fix_chance.union(fix_chance.laplace(2, 60, 12), fix_chance.laplace(2.5, 60, 4)))

Connection = psycopg.Connection[Any]
ASKED = "SELECT * FROM dp.dp_echo('people', 'sex', epsilon => 0.5)"


@pytest.fixture(scope="module")
def tree() -> Iterator[locations.Paths]:
    with fix_echo.echo_tree() as paths:
        yield paths


@pytest.fixture(scope="module")
def cluster(tree: locations.Paths) -> Iterator[Cluster]:
    with fix_echo.echo_cluster(tree) as running:
        standard(running)
        yield running


@pytest.fixture
def alice(cluster: Cluster) -> Iterator[Connection]:
    with cluster.connect("alice") as connection:
        yield connection
    balanced(cluster)


def near(rows: list[tuple[Any, ...]], expected: dict[str, int]) -> bool:
    return [row[0] for row in rows] == list(expected) and all(abs(n - expected[v]) <= 60 for v, n in rows)


SEX = {"f": 500, "m": 500, "x": 0}


def test_it_costs_two_lines_outside_its_folder(tree: locations.Paths) -> None:
    assert fix_echo.foreign_files(tree.root) == [fix_echo.TASKS, fix_echo.TABLE]


def test_the_product_knows_nothing_of_it() -> None:
    sources = [*(ROOT / "extension").rglob("*.py"), *(ROOT / "proxy").rglob("*.py")]
    assert [str(file) for file in sources if re.search(r"\becho\b", file.read_text(), re.I)] == []


def test_its_function_comes_with_an_upgrade(cluster: Cluster, tree: locations.Paths) -> None:
    scripts = list((tree.build / "sql").glob("pg_epsilon--*--*.sql"))
    assert scripts and all("CREATE FUNCTION dp.dp_echo(" in file.read_text() for file in scripts)
    with cluster.connect() as root:
        said = "SELECT obj_description('dp.dp_echo(regclass, text, text, float8, float8, boolean)'::regprocedure)"
        assert one(root, said).startswith("How often")


def test_the_plan_says_what_the_question_costs(cluster: Cluster, alice: Connection) -> None:
    request = "dp.dp_echo_request('people', 'sex', 'age > 20', epsilon => 0.25)"
    with no_charge(cluster):
        plan = one(alice, f"SELECT dp.dp_plan({request})")
    assert plan["charge"] == {"worst": {"epsilon": "0.25"}, "best": {"epsilon": "0.25"}}
    assert plan["echo"] == {"values": 3}
    assert "an echo of 3 values" in plan["text"]
    before = spent(cluster)
    reply = one(alice, f"SELECT dp.dp_query({request})")
    assert spent(cluster) - before == Decimal("0.25")
    assert reply["notice"]["charge"] == {"epsilon": "0.25"}
    assert reply["notice"]["echo"] == {"values": 3}


def test_a_repeat_is_free_and_a_fresh_one_is_paid(cluster: Cluster, alice: Connection) -> None:
    before = spent(cluster)
    rows = alice.execute(ASKED).fetchall()
    assert near(rows, SEX)
    assert spent(cluster) - before == Decimal("0.5")
    with no_charge(cluster):
        assert alice.execute(ASKED).fetchall() == rows
        with cluster.connect("bob") as bob:
            assert bob.execute(ASKED).fetchall() == rows
    answer = one(alice, "SELECT dp.dp_query(dp.dp_echo_request('people', 'sex', epsilon => 0.5))")
    shown = one(alice, "SELECT dp.dp_shown(%s)", answer["request_id"])
    assert (shown["echo"], shown["rows"]) == (answer["echo"], answer["rows"])
    fresh = alice.execute(ASKED.replace(")", ", fresh => true)")).fetchall()
    assert near(fresh, SEX)
    assert spent(cluster) - before == 1


def test_another_column_or_predicate_is_another_question(cluster: Cluster, alice: Connection) -> None:
    city = alice.execute("SELECT * FROM dp.dp_echo('people', 'city', epsilon => 0.5)").fetchall()
    assert [value for value, _ in city] == ["north", "south", "east", None]
    few = alice.execute("SELECT * FROM dp.dp_echo('people', 'sex', 'id <= 40', epsilon => 0.5)").fetchall()
    assert near(few, {"f": 20, "m": 20, "x": 0})


def test_the_ledger_says_what_was_asked(cluster: Cluster, alice: Connection) -> None:
    alice.execute("SELECT * FROM dp.dp_echo('people', 'sex', 'id > 7', epsilon => 0.125)")
    said = alice.execute("SELECT call, question, charge FROM dp.spending ORDER BY at DESC LIMIT 1").fetchone()
    assert said is not None
    assert said[:2] == ("dp_echo", 'dp_echo(people, echo => {"by": "sex"}) WHERE id > 7')


def test_rows_of_users_are_capped_and_need_a_cap(cluster: Cluster, alice: Connection) -> None:
    found = one(alice, "SELECT dp.dp_query(dp.dp_echo_request('orders', 'status', epsilon => 2))")
    # 294 orders of known customers; customer 7 owns 102 of them, of whom five count
    assert sum(int(n) for _, n in found["echo"]["rows"]) < 300 - 102 + 5 + 180
    assert "at most 5 rows of each unit are looked at" in " ".join(found["notice"]["warnings"])
    assert found["notice"]["margin"] == "7"  # of scale 5 / 2


@pytest.mark.parametrize(
    ("arguments", "sqlstate", "words"),
    [
        ("'people', ''", "DP003", "an echo is by one column"),
        ("'people', 'score', epsilon => 0.1", "DP004", "score"),
        ("'people', 'nobody', epsilon => 0.1", "42703", "nobody"),
        ("'people', 'sex', epsilon => 0", "DP005", "epsilon must be"),
        ("'people', 'sex', epsilon => 0.1, rho => 0.1", "DP005", "two kinds of budget"),
        ("'people', 'sex', epsilon => 60", "DP001", ""),
    ],
)
def test_what_is_refused_is_free(
    cluster: Cluster, alice: Connection, arguments: str, sqlstate: str, words: str
) -> None:
    with no_charge(cluster), refused(sqlstate, words):
        alice.execute(f"SELECT * FROM dp.dp_echo({arguments})".encode())


@pytest.mark.parametrize(
    "change",
    [
        {"echo": {"by": "sex", "of": "people"}},
        {"echo": "sex"},
        {"echo": {"by": 1}},
        {"resound": {"by": "sex"}},
        {"workload": {"thresholds": ["20", "40"], "per": "row"}},
        {"synthesize": {"method": "marginals", "bins": "16"}},
        {"decide": [{"tau": "1"}], "query": "SELECT count(*) FROM {table}", "path": ["public"]},
    ],
    ids=lambda change: " ".join(change),
)
def test_a_member_that_it_does_not_have_is_refused(cluster: Cluster, alice: Connection, change: dict[str, Any]) -> None:
    """Also another kind's: a question is of one kind."""
    request = {**one(alice, "SELECT dp.dp_echo_request('people', 'sex', epsilon => 0.1)"), **change}
    with no_charge(cluster), refused("DP003"):
        one(alice, "SELECT dp.dp_query(%s)", json.dumps(request))


def test_charged_and_not_answered_it_is_owed_once(cluster: Cluster, alice: Connection) -> None:
    """The backend that paid is killed before it answers: whoever asks again is answered for nothing."""
    call = "dp.dp_echo_request('people', 'sex', 'id > 1', epsilon => 0.5)"
    request = json.dumps(one(alice, f"SELECT {call}"))
    with cluster.connect() as root:
        assert one(root, "SELECT dp._charge(%s, 'alice', %s)", str(uuid.uuid4()), request)["charged"]
    before, rows = spent(cluster), charges(cluster)
    first = one(alice, f"SELECT dp.dp_query({call})")
    again = one(alice, f"SELECT dp.dp_query({call})")
    assert (spent(cluster), charges(cluster)) == (before, rows)
    assert [first["notice"]["path"], again["notice"]["path"]] == ["paid before", "cache"]
    assert first["echo"] == again["echo"]


def test_another_backend_than_the_one_that_paid_can_answer(cluster: Cluster, alice: Connection) -> None:
    """It compiles the question anew: its plan was in the other one's memory."""
    request = json.dumps(one(alice, "SELECT dp.dp_echo_request('people', 'sex', 'id > 2', epsilon => 0.5)"))
    id_ = str(uuid.uuid4())
    with cluster.connect() as root:
        assert one(root, "SELECT dp._charge(%s, 'alice', %s)", id_, request)["charged"]
    with cluster.connect() as root:
        reply = one(root, "SELECT dp._answer(%s)", id_)
        assert one(root, "SELECT dp._answer(%s)", id_)["answer"]["echo"] == reply["answer"]["echo"]
    assert near([(value, int(n)) for value, n in reply["answer"]["echo"]["rows"]], SEX)


def test_the_proxy_takes_it_as_it_is(cluster: Cluster) -> None:
    stack = Stack(cluster, free_port())
    stack.configure()
    stack.build_facade()
    try:
        stack.start()
        with stack.connect() as alice:
            asked = ASKED.replace("0.5", "1").replace("dp.dp_echo", "dp_echo")
            before = spent(cluster)
            plan = " ".join(row[0] for row in alice.execute("EXPLAIN " + asked).fetchall())
            assert spent(cluster) == before
            rows = alice.execute(asked).fetchall()
            assert near(rows, SEX)
            assert alice.execute(asked + " WHERE value = 'm'").fetchall() == rows[1:2]
            assert spent(cluster) - before == 1
            assert """DP block $1: dp_echo('public.people', echo => {"by": "sex"})""" in plan
            assert 'echo: {"values": 3}' in plan
            before = spent(cluster)
            with stack.connect() as other, pytest.raises(psycopg.Error, match="given no grouped answer"):
                other.execute("SELECT * FROM dp_echo_share()")
            counted = alice.execute("SELECT sex, count(*) FROM people WHERE id > 8 GROUP BY sex").fetchall()
            said = spent(cluster)
            shares = alice.execute("SELECT value, share FROM dp_echo_share()").fetchall()
            assert [float(share) for _, share in shares] == pytest.approx(
                [n / sum(n for _, n in counted) for _, n in counted], abs=0.0006
            )
            assert spent(cluster) == said > before
    finally:
        stack.stop()


GROUPED = "SELECT dp.dp_query(dp.dp_group_by_request('people', '{sex}', '{count(*)}', '%s', epsilon => 0.1))"


def test_a_question_about_a_release_is_free(cluster: Cluster, alice: Connection) -> None:
    """Of the release that a call names, else of the session's last one; its dry run says so, nothing is written."""
    release = one(alice, GROUPED % "id > 3")
    shares = [int(count) / sum(int(n) for _, n in release["rows"]) for _, count in release["rows"]]
    call = "dp.dp_echo_share_request(%s)"
    with no_charge(cluster):
        answer = one(alice, f"SELECT dp.dp_query({call})", release["request_id"])
        plan = one(alice, f"SELECT dp.dp_plan({call})", release["request_id"])
        last = alice.execute("SELECT value, share FROM dp.dp_echo_share()").fetchall()
        stored = one(alice, "SELECT dp.dp_shown(%s)", release["request_id"])  # its first answer was said a moment later
    rows = [(value, Decimal(share)) for value, share in answer["echo"]["rows"]]
    assert last == rows and [value for value, _ in rows] == list(SEX)
    assert [float(share) for _, share in rows] == pytest.approx(shares, abs=0.0006)
    for notice in (answer["notice"], plan):
        told = {name: notice[name] for name in ("path", "mechanism", "where", "keys", "as_of", "echo")}
        assert told == {
            "path": "stored release",
            "mechanism": "stored release",
            "where": None,
            "keys": [],
            "as_of": stored["as_of"],
            "echo": {"values": 3},
        }
    assert (answer["notice"]["charge"], plan["charge"]) == ({}, {"worst": {}, "best": {}})


def test_a_release_is_of_whom_it_was_given_to(cluster: Cluster, alice: Connection) -> None:
    release = one(alice, GROUPED % "id > 4")["request_id"]
    call = "SELECT dp.dp_query(dp.dp_echo_share_request(%s))"
    with cluster.connect("bob") as bob:
        with no_charge(cluster), refused("42501", "was given to you"):
            one(bob, call, release)
        with no_charge(cluster):
            assert one(bob, GROUPED % "id > 4")["request_id"] == release
            assert one(bob, call, release)["echo"] == one(alice, call, release)["echo"]


@pytest.mark.parametrize(
    ("of", "sqlstate", "words"),
    [
        (None, "DP005", "given no grouped answer"),
        ("people", "DP003", "by the id of its request"),
        (str(uuid.UUID(int=0)), "42501", "given to you"),
        ("counted", "DP003", "of a block by one key"),
        ("echoed", "DP003", "of a block by one key"),
        ("redacted", "DP006", "redacted"),
    ],
)
def test_a_release_that_cannot_be_asked_about_is_refused(
    cluster: Cluster, alice: Connection, of: str | None, sqlstate: str, words: str
) -> None:
    if of == "counted":
        of = one(alice, "SELECT dp.dp_query(dp.dp_count_request('people', 'id > 5', epsilon => 0.05))")["request_id"]
    elif of == "echoed":
        of = one(alice, "SELECT dp.dp_query(dp.dp_echo_request('people', 'sex', epsilon => 0.05))")["request_id"]
    elif of == "redacted":
        of = one(alice, GROUPED % "id > 6")["request_id"]
        with cluster.connect() as root:
            root.execute("CALL dp.redact(%s)", (of,))
    document = {"version": 1, "call": "dp_echo_share", "echo": {}, "of": of}
    with no_charge(cluster), refused(sqlstate, words):
        one(alice, "SELECT dp.dp_query(%s)", json.dumps(document))


def test_no_other_question_is_about_a_release(cluster: Cluster, alice: Connection) -> None:
    count = one(alice, "SELECT dp.dp_count_request('people', epsilon => 0.1)")
    with no_charge(cluster), refused("DP003", "about no release"):
        one(alice, "SELECT dp.dp_query(%s)", json.dumps({**count, "of": str(uuid.UUID(int=0))}))


SESSIONS = {
    "pay": [
        ("alice", "direct", "dp_echo('audit.pay', 'stage', epsilon => 0.5)"),
        ("alice", "cache", "dp_echo('audit.pay', 'stage', epsilon => 0.5)"),
        ("alice", "direct", "dp_echo('audit.pay', 'stage', 'insured', epsilon => 0.5)"),
        ("alice", "DP005", "dp_echo('audit.pay', 'stage', epsilon => 0)"),
    ],
    "trade": [("alice", "direct", "dp_echo('audit.line', 'sku', epsilon => 1)")],
}


@pytest.fixture(scope="module")
def audited(tree: locations.Paths) -> Iterator[Connection]:
    with fix_echo.echo_cluster(tree) as running:
        running.psql(ROLES)
        running.psql((HERE / "audit_tables.sql").read_text(), user="boss")
        with tapped(running) as conn:
            conn.execute("SELECT tap.load('privacy_controls', %s)", [(HERE / "broken_echo.py").read_text()])
            conn.commit()
            yield conn


def violations(conn: Connection, dataset: str, *controls: str) -> Iterator[str]:
    """What replay (R3) finds on neighbours without a unit, and with one more."""
    asked = requests(conn, SESSIONS[dataset])
    record = run(conn, dataset, asked, controls=controls)
    replies = [json.loads(step.reply) for step in record.steps]
    paths = [
        reply["answer"]["notice"]["path"] if "answer" in reply else reply["refusal"]["sqlstate"] for reply in replies
    ]
    assert paths == [outcome for _, outcome, _ in SESSIONS[dataset]]
    cap = Fraction(one(conn, "SELECT epsilon::text FROM dp.dataset WHERE name = %s", dataset))
    for neighbour in [*removals(conn, dataset, 2, seed=20261127), *additions(conn, dataset)[::4]]:
        replay = run(conn, dataset, asked, neighbour=neighbour, frozen=record.outputs, controls=controls)
        yield from compare(record, replay, neighbour.accounts, [], cap)


@pytest.mark.parametrize("dataset", SESSIONS)
def test_on_neighbours_only_exact_values_differ(audited: Connection, dataset: str) -> None:
    assert list(violations(audited, dataset)) == []


@pytest.mark.parametrize(("dataset", "control"), [("trade", "one_row_a_user"), ("pay", "rows_count_twice")])
def test_a_broken_echo_is_caught(audited: Connection, dataset: str, control: str) -> None:
    """Negative controls: one violation of sensitivity is enough."""
    assert any(problem.startswith("sensitivity") for problem in violations(audited, dataset, control))
