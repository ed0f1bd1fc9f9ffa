"""dp_shown: a stored answer again, from what is stored beside its integers (seam.md S5, composition.md §8)."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from fix_cluster import Cluster, standard_cluster
from fix_ledger import Connection, no_charge, one, refused
from fix_privacy import HERE, audit_cluster
from fix_tpch import load_graph, power_law_graph
from privacy.decide_questions import SESSIONS as DECIDED
from privacy.questions import SESSIONS
from privacy.replay import ask, requests
from privacy.test_replay_joins import ASKED as JOINS
from privacy.test_replay_joins import VERTICES
from privacy.test_replay_synthesis import PLANNER
from privacy.test_replay_synthesis import SESSIONS as SYNTHESES
from privacy.test_replay_synthesis import asked as syntheses
from privacy.test_replay_workload import SESSIONS as WORKLOADS

BY_SEX = "dp.dp_group_by_request('people', '{sex}', '{count(*),sum(age)}', epsilon => %s)"
AGE = "CALL dp.describe_column('people', 'age', bounds => '{18,80}', resolution => '1', nullable => false);"
OTHERS = {"request_id", "release", "keys", "columns", "names", "rows", "bars", "notice"}
# Sessions of the audits, by who audits them.
ASKED: dict[str, list[str]] = {
    "blocks": list(SESSIONS),
    "workloads": list(WORKLOADS),
    "syntheses": list(SYNTHESES),
    "decisions": list(DECIDED),
    "joins": ["graph"],
}


def shown(conn: Connection, request_id: str) -> dict[str, Any]:
    found = one(conn, "SELECT dp.dp_shown(%s)", request_id)
    assert isinstance(found, dict)
    return found


def differences(given: dict[str, Any], again: dict[str, Any]) -> list[str]:
    """Names of what is shown otherwise than it was given."""
    found = [name for name in ("request_id", "keys", "columns", "rows") if again[name] != given[name]]
    found += [name for name in set(given) - OTHERS if again[name] != given[name]]
    if "bars" in given and again["bars"] != given["bars"]:
        found.append("bars")
    notice = given["notice"]
    if notice["path"] == "cache":  # whoever asked again may have asked by another function
        return found
    facts = {name: notice.get(name) for name in again["facts"]}
    told = {name: notice[name] for name in ("call", "confidence")}
    if facts != again["facts"] or told != {name: again[name] for name in told}:
        found.append("facts")
    return found


def given(cluster: Cluster, kind: str, session: str) -> list[dict[str, Any]]:
    """What a session of the audits was answered, as installed."""
    answers = []
    with cluster.connect(autocommit=False) as root:
        asked = syntheses(session) if kind == "syntheses" else requests(root, _questions(kind, session))
        root.commit()
        for (who, *_), request in asked:
            reply = ask(root, str(uuid.uuid4()), who, request)
            root.commit()
            if "answer" in reply:
                answers.append(reply["answer"])
    return answers


def _questions(kind: str, session: str) -> Any:
    if kind == "joins":
        return JOINS
    return DECIDED[session][2] if kind == "decisions" else {"blocks": SESSIONS, "workloads": WORKLOADS}[kind][session]


def move_the_policy(cluster: Cluster, column: str) -> None:
    """A new column on every protected table, described: nothing that was asked is about it."""
    with cluster.connect() as root:
        tables = root.execute(
            "SELECT p.relation::regclass::text FROM dp.relation_policy p JOIN pg_class c ON c.oid = p.relation"
            " WHERE NOT c.relispartition ORDER BY 1"
        ).fetchall()
    assert tables
    for (table,) in tables:
        described = f"CALL dp.describe_column('{table}', '{column}', bounds => '{{0,9}}')"
        cluster.psql(f"ALTER TABLE {table} ADD COLUMN {column} int; {described}", user="boss")


@pytest.fixture(scope="module")
def audits() -> Iterator[Cluster]:
    with audit_cluster() as running:
        running.psql((HERE / "decide_tables.sql").read_text(), user="boss")
        load_graph(running, power_law_graph(VERTICES, 60, 5))
        running.execute("UPDATE dp.relation_policy SET max_rows_per_unit = 16 WHERE relation = 'edge'::regclass")
        running.psql("".join(f"CALL dp.allot('{PLANNER}', '{dataset}', epsilon => 8);" for dataset in SYNTHESES))
        yield running


@pytest.mark.parametrize("kind", ASKED)
def test_every_answer_of_the_audits_is_shown_as_it_was_given(audits: Cluster, kind: str) -> None:
    """Also after a column that nobody asked about was added to every table, and described."""
    answers = [one for name in ASKED[kind] for one in given(audits, kind, name)]
    stored = [answer for answer in answers if answer["notice"]["path"] != "declared domain"]
    assert {answer["notice"]["path"] for answer in stored} >= {"direct", "cache"}
    for moved in (False, True):
        if moved:
            move_the_policy(audits, f"moved_by_{kind}")
        with audits.connect() as root, no_charge(audits):
            wrong = [
                f"{answer['request_id']} {answer['notice']['text'].splitlines()[0]}: {', '.join(found)}"
                for answer in stored
                if (found := differences(answer, shown(root, answer["request_id"])))
            ]
        assert wrong == []


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster of this file's own: its tests alter policies and stored rows."""
    with standard_cluster() as running:
        yield running


def asked(conn: Connection, request: str, *args: Any) -> dict[str, Any]:
    answer = one(conn, f"SELECT dp.dp_query({request})", *args)
    assert isinstance(answer, dict)
    return answer


def test_a_difference_is_seen(cluster: Cluster) -> None:
    """The control: a row, a bar, a member or a fact that differs is named."""
    sums = "dp.dp_sum_workload_request('people', 'income', '{1000,5000,10000}', epsilon => 0.2)"
    with cluster.connect("alice") as alice:
        answer = asked(alice, sums)
        again = shown(alice, answer["request_id"])
    assert differences(answer, again) == []
    for name in ("rows", "workload", "facts"):
        assert differences(answer, {**again, name: {"theta": 1}}) == [name]
    assert differences({**answer, "bars": [1]}, {**again, "bars": [2]}) == ["bars"]


def test_what_is_shown(cluster: Cluster) -> None:
    with cluster.connect("alice") as alice:
        answer = asked(alice, BY_SEX, 0.025)
        with no_charge(cluster):
            again = shown(alice, answer["request_id"])
            kept = asked(alice, BY_SEX, 0.025)["notice"]["as_of"]  # first told a moment after it was kept
    assert list(map(len, (again["rows"], again["bars"]))) == [3, 3]
    assert {name: again[name] for name in ("call", "keys", "columns", "names", "confidence")} == {
        "call": "dp_group_by",
        "keys": 1,
        "columns": ["k1", "a1", "a2"],
        "names": ["sex", "count(*)", "sum(age)"],
        "confidence": "0.95",
    }
    assert (again["mechanism"], again["as_of"]) == (answer["notice"]["mechanism"], kept)
    assert again["facts"]["margin"] == answer["notice"]["margin"]


def test_nobody_sees_what_was_neither_theirs_nor_served_to_them(cluster: Cluster) -> None:
    predicate = "age > 61"
    request = "dp.dp_group_by_request('people', '{sex}', predicate => %s, epsilon => %s)"
    with cluster.connect("alice") as alice, cluster.connect("bob") as bob, cluster.connect("boss") as boss:
        answer = asked(alice, request, predicate, 0.0125)
        with refused("42501", "was given to you"):
            shown(bob, answer["request_id"])
        assert shown(boss, answer["request_id"])["rows"] == answer["rows"]
        served = asked(bob, request, predicate, 0.0125)
        assert (served["request_id"], served["notice"]["path"]) == (answer["request_id"], "cache")
        theirs = shown(bob, answer["request_id"])
        assert theirs["rows"] == answer["rows"]
        assert theirs["names"] == theirs["columns"], "names are the payer's own"
        assert shown(alice, answer["request_id"])["names"] == ["sex", "count(*)"]
        assert predicate not in json.dumps([theirs, shown(alice, answer["request_id"])])
        with refused("42501"):
            shown(bob, str(uuid.uuid4()))
        with pytest.raises(psycopg.Error, match="uuid"):
            shown(bob, "none")


def test_who_was_served_is_noted_once(cluster: Cluster) -> None:
    """A row the first time, none later; none for a single number."""
    with cluster.connect("alice") as alice, cluster.connect("bob") as bob, cluster.connect() as root:
        answer = asked(alice, BY_SEX, 0.0375)
        for _ in range(3):
            asked(bob, BY_SEX, 0.0375)
            asked(alice, BY_SEX, 0.0375)
        sql = "SELECT who FROM dp.served WHERE request_id = %s"
        assert root.execute(sql, [answer["request_id"]]).fetchall() == [("bob",)]
        number = asked(alice, "dp.dp_count_request('people', epsilon => 0.0375)")
        assert asked(bob, "dp.dp_count_request('people', epsilon => 0.0375)")["rows"] == number["rows"]
        assert root.execute(sql, [number["request_id"]]).fetchall() == []
        assert shown(alice, number["request_id"])["rows"] == number["rows"]


@contextmanager
def stored_as(cluster: Cluster, change: str, *request_ids: str) -> Iterator[None]:
    """Releases with another stored answer, for a while: change is an expression of `answer`."""
    off, on = (f"ALTER TABLE dp.release {how} TRIGGER only_redacted" for how in ("DISABLE", "ENABLE ALWAYS"))
    with cluster.connect(autocommit=False) as root:
        root.execute(off)
        ids = [list(request_ids)]
        sql = "SELECT request_id, answer::text FROM dp.release WHERE request_id = ANY (%s::uuid[])"
        before = root.execute(sql, ids).fetchall()
        root.execute(f"UPDATE dp.release SET answer = {change} WHERE request_id = ANY (%s::uuid[])", ids)
        root.execute(on)
        root.commit()
        try:
            yield
        finally:
            root.execute(off)
            for request_id, answer in before:
                root.execute("UPDATE dp.release SET answer = %s WHERE request_id = %s", [answer, request_id])
            root.execute(on)
            root.commit()


def test_a_release_of_an_older_version_is_shown_or_refused(cluster: Cluster) -> None:
    """Shown while its question means what it meant; else DP006, which says what to do."""
    average = "dp.dp_group_by_request('people', '{sex}', '{avg(age)}', epsilon => %s)"
    with cluster.connect("alice") as alice:
        answers = [asked(alice, BY_SEX, 0.05), asked(alice, average, 0.05)]
        again = [shown(alice, answer["request_id"]) for answer in answers]
        with stored_as(cluster, "answer - 'presentation'", *(answer["request_id"] for answer in answers)):
            with no_charge(cluster):
                assert [shown(alice, answer["request_id"]) for answer in answers] == again
                assert asked(alice, BY_SEX, 0.05)["notice"]["path"] == "cache"
            cluster.psql(AGE.replace("80", "90"), user="boss")
            with refused("DP006", "policy, data or its meaning changed"):
                shown(alice, answers[0]["request_id"])
            cluster.psql(AGE, user="boss")


def test_what_was_stored_is_shown_whatever_became_of_the_policy(cluster: Cluster) -> None:
    """Even where today's declarations would read other values from the same integers."""
    with cluster.connect("alice") as alice:
        answer = asked(alice, BY_SEX, 0.0625)
        again = shown(alice, answer["request_id"])
        other = AGE.replace("{18,80}", "{-500,800}").replace("'1'", "'4'")
        cluster.psql(f"{other} CALL dp.unpublish('people')", user="boss")
        assert shown(alice, answer["request_id"]) == again
        cluster.psql(AGE + "CALL dp.publish('people')", user="boss")


def test_nothing_is_shown_of_what_is_owed_or_redacted(cluster: Cluster) -> None:
    owed = str(uuid.uuid4())
    with cluster.connect() as root, cluster.connect("alice") as alice, cluster.connect("boss") as boss:
        request = one(root, f"SELECT {BY_SEX}::text", 0.075)
        assert "charged" in one(root, "SELECT dp._charge(%s, 'alice', %s)", owed, request)
        with refused("DP006", "no stored answer"):
            shown(alice, owed)
        one(root, "SELECT dp._answer(%s)", owed)
        named = "dp.dp_group_by_request('people', '{sex}', '{count(*) FILTER (WHERE age > 71)}', epsilon => 0.075)"
        answer = asked(alice, named)
        assert "71" in json.dumps(shown(alice, answer["request_id"])["names"])
        boss.execute("CALL dp.redact(%s)", [answer["request_id"]])
        held = "SELECT count(*) FROM dp.release r WHERE request_id = %s AND r::text LIKE '%%71)%%'"
        assert one(root, held, answer["request_id"]) == 0
        with refused("DP006", "redacted"):
            shown(alice, answer["request_id"])
        assert root.execute("SELECT problem FROM dp._problems() WHERE problem LIKE 'the chain:%'").fetchall() == []


def test_what_a_later_version_stored_is_refused(cluster: Cluster) -> None:
    with cluster.connect("alice") as alice, cluster.connect() as root:
        answer = asked(alice, BY_SEX, 0.0875)
        later = """jsonb_set(answer, '{presentation,estimators}', '[{"class": "Better", "fields": {}}]')"""
        with stored_as(cluster, later, answer["request_id"]):
            with refused("DP006", "later version"):
                shown(alice, answer["request_id"])
            problems = root.execute("SELECT problem FROM dp._problems() WHERE problem LIKE 'the chain:%'").fetchall()
            assert "altered" in problems[0][0], "how a release is shown is part of the chain"
