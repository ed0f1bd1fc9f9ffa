"""What nobody foresaw: logged, closed, counted, limited (composition.md §10.3 d). Each clause is a test.

A failure is made by an engine whose read divides by zero where a row says so: `public.failing` asks in a backend of its
own, as the channel would.
"""

from __future__ import annotations

import json
import os
import signal
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from fix_cluster import Cluster, standard_cluster
from fix_ledger import balanced, count, forgive, no_charge, one, refused, spent
from fix_waiting import backends, soon

FAILING = """
CREATE FUNCTION public.failing(id uuid, who text, request jsonb, how text) RETURNS jsonb LANGUAGE plpython3u
SECURITY DEFINER SET row_security = off AS $$
import json
import plpy
from pg_epsilon import entry
kept = entry.read, entry.group_by.core, entry._explain, entry.turbo.reply, entry.planning._explain
def divided(statement):
    return plpy.execute("SELECT 1 / (count(*) - count(*)) FROM people")
def broken(*arguments):
    raise ZeroDivisionError("the zyzzyva")
def state(sqlstate):
    def raised(statement):
        plpy.execute(f"DO $x$ BEGIN RAISE EXCEPTION 'the zyzzyva' USING ERRCODE = '{sqlstate}'; END $x$")
    return raised
try:
    if how == "planning":
        entry.planning.forget()
        entry.planning._explain = lambda statement: "22012"
    if how == "turbo":
        entry.turbo.reply = broken
    reply = json.loads(entry.charge(id, who, request))
    if how == "read":
        entry.read = divided
    elif how == "core":
        entry.group_by.core = broken
    elif len(how) == 5:
        entry.read = state(how)
    return json.dumps({**reply, **(json.loads(entry.answer(id)) if reply.get("charged") else {})})
finally:
    entry.read, entry.group_by.core, entry._explain, entry.turbo.reply, entry.planning._explain = kept
    entry._pending.clear()
$$;
ALTER FUNCTION public.failing(uuid, text, jsonb, text) OWNER TO dp_owner;
"""
CLOSED = "this question is closed: it failed in a way that nobody foresaw"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with standard_cluster() as running:
        running.execute("UPDATE dp.role_allotment SET epsilon = 10", "GRANT CREATE ON SCHEMA public TO dp_owner")
        running.psql(FAILING)
        yield running


@pytest.fixture(autouse=True)
def _books(cluster: Cluster) -> Iterator[None]:
    forgive(cluster)
    yield
    balanced(cluster)


def request(number: int, cluster: Cluster, **more: Any) -> str:
    with cluster.connect("alice") as alice:
        asked = one(alice, f"SELECT dp.dp_count_request('people', 'id <> {number}', epsilon => 0.01)")
    return json.dumps({**asked, **more})


def fail(cluster: Cluster, number: int, how: str = "read", who: str = "alice") -> dict[str, Any]:
    """One question that fails; the reply is a refusal."""
    with cluster.connect() as root:
        asked = request(number, cluster)
        reply = one(root, "SELECT public.failing(gen_random_uuid(), %s, %s, %s)", who, asked, how)
    assert "refusal" in reply, reply
    return dict(reply["refusal"])


def closed(cluster: Cluster) -> list[tuple[Any, ...]]:
    with cluster.connect() as root:
        return root.execute("SELECT who, sqlstate FROM dp.closed_question ORDER BY at").fetchall()


@pytest.mark.parametrize(
    ("how", "sqlstate"),
    [
        ("read", "22012"),
        ("core", "XX000"),
        ("planning", "22012"),
        ("turbo", "XX000"),
        ("53100", "53100"),
        ("54001", "54001"),
        ("58030", "58030"),
        ("XX001", "XX001"),
    ],
)
def test_one_constant_error_a_line_in_the_log_and_the_question_is_closed(
    cluster: Cluster, how: str, sqlstate: str
) -> None:
    number = 1000 + sum(how.encode())
    paid_first = how not in ("planning", "turbo")
    before = spent(cluster)
    refusal = fail(cluster, number, how)
    assert (refusal["sqlstate"], refusal["message"]) == ("DP006", CLOSED)
    assert (spent(cluster) > before) is paid_first
    assert closed(cluster) == [("alice", sqlstate)]
    assert f"pg_epsilon: unforeseen failure, SQLSTATE {sqlstate}, " in cluster.log
    assert "zyzzyva" not in json.dumps(refusal)
    assert "WARNING:  pg_epsilon: unforeseen failure" in cluster.log
    assert not [line for line in cluster.log.splitlines() if "WARNING" in line and "zyzzyva" in line], "never its text"
    with cluster.connect("bob") as bob, no_charge(cluster), refused("DP006", CLOSED):
        one(bob, "SELECT dp.dp_query(%s)", request(number, cluster))
    with cluster.connect("bob") as bob:
        one(bob, "SELECT dp.dp_query(%s)", request(number + 5000, cluster))  # the next question of the form is answered


@pytest.mark.parametrize("sqlstate", ["55P03", "40P01"])
def test_what_only_the_machine_decides_closes_nothing(cluster: Cluster, sqlstate: str) -> None:
    number = 3000 + sum(sqlstate.encode())
    refusal = fail(cluster, number, sqlstate)
    assert "locked" in refusal["message"]
    assert closed(cluster) == []
    with cluster.connect("alice") as alice, no_more(cluster):
        one(alice, "SELECT dp.dp_query(%s)", request(number, cluster))


class no_more:
    """Nothing is paid in the body."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def __enter__(self) -> None:
        self.before = spent(self.cluster)

    def __exit__(self, *failed: object) -> None:
        assert failed[0] is not None or spent(self.cluster) == self.before


def test_stored_answers_stay_served(cluster: Cluster) -> None:
    """Of the closed question, to a role whose allotment is closed, and of a frozen dataset."""
    with cluster.connect("alice") as alice:
        stored = request(3100, cluster)
        first = one(alice, "SELECT dp.dp_query(%s)", stored)["rows"]
        with cluster.connect() as root:
            again = json.dumps({**json.loads(stored), "fresh": True})
            one(root, "SELECT public.failing(gen_random_uuid(), 'alice', %s, 'read')", again)
        assert one(alice, "SELECT dp.dp_query(%s)", stored)["rows"] == first
        for number in (3101, 3102, 3103):
            fail(cluster, number, who="bob" if number > 3101 else "alice")
        with cluster.connect() as root:
            assert one(root, "SELECT reason FROM dp.freeze") == "failures"
        assert one(alice, "SELECT dp.dp_query(%s)", stored)["rows"] == first


def test_a_roles_second_closes_its_allotment_and_the_datasets_fourth_freezes_it(cluster: Cluster) -> None:
    with cluster.connect("boss") as boss, cluster.connect() as root:
        failures = "SELECT failures FROM dp.budget WHERE dataset = 'people'"
        before = one(boss, failures)
        for number, who, words in (
            (3201, "alice", ""),
            (3202, "alice", "your allotment in dataset people is closed"),
            (3203, "bob", ""),
            (3204, "bob", "dataset people is frozen"),
        ):
            fail(cluster, number, who=who)
            with cluster.connect(who) as asker:
                if words:
                    with no_charge(cluster), refused("DP006", words):
                        count(asker)
                else:
                    count(asker)
        assert one(boss, failures) == before + 4
        assert one(root, "SELECT count(*) FROM dp.entitlement") == 0, "a freeze ends what is owed"
        found = {row[0] for row in boss.execute("SELECT problem FROM dp.check()").fetchall()}
        assert "a question of alice is closed after an unforeseen failure (SQLSTATE 22012)" in found
        assert "two unforeseen failures closed its allotment in dataset people" in found
        assert "its accounts are frozen: questions failed in a way that nobody foresaw" in found
        boss.execute("CALL dp.reopen('people')")
        for who in ("alice", "bob"):
            with cluster.connect(who) as asker:
                count(asker)
        assert one(boss, failures) == before + 4, "for ever"
        rows = "SELECT string_agg(kind, ' ' ORDER BY seq) FROM dp.ledger WHERE kind IN ('failure', 'freeze', 'reopen')"
        assert one(root, rows).endswith("failure failure failure failure freeze reopen")
        fail(cluster, 3205)
        with cluster.connect("alice") as alice:
            count(alice)  # counted anew: the first one after a reopening closes no allotment


def test_one_question_is_opened_by_its_request(cluster: Cluster) -> None:
    fail(cluster, 3300)
    with cluster.connect("boss") as boss, cluster.connect("alice") as alice:
        hint = one(boss, "SELECT hint FROM dp.check() WHERE starts_with(problem, 'a question of alice')")
        boss.execute(hint[hint.index("CALL") :])
        with no_more(cluster):  # what was paid is owed still: nothing was drawn
            one(alice, "SELECT dp.dp_query(%s)", request(3300, cluster))


def test_the_owner_freezes_and_reopens(cluster: Cluster) -> None:
    with cluster.connect("boss") as boss, cluster.connect("alice") as alice:
        boss.execute("CALL dp.freeze('people')")
        for word in ("its owner stopped it", "CALL dp.reopen('people')"):
            with no_charge(cluster), refused("DP006", word):
                count(alice)
        with refused("DP005", "frozen already"):
            boss.execute("CALL dp.freeze('people')")
        boss.execute("CALL dp.reopen('people')")
        count(alice)
        with refused("DP005", "nothing of dataset"):
            boss.execute("CALL dp.reopen('people')")


@pytest.mark.parametrize("reason", ["incarnation", "witness"])
def test_a_ledger_that_may_lack_charges_is_not_reopened(cluster: Cluster, reason: str) -> None:
    cluster.execute(f"INSERT INTO dp.freeze (dataset, reason) VALUES ('people', '{reason}')")
    with cluster.connect("boss") as boss, refused("DP005", "CALL dp.confirm_ledger"):
        boss.execute("CALL dp.reopen('people')")
    with cluster.connect("alice") as alice, refused("DP006", "CALL dp.confirm_ledger"):
        count(alice)


def test_a_question_closed_twice_at_once_is_one_event(cluster: Cluster) -> None:
    """Two readers of one question, which fails for both."""
    fail(cluster, 3400)
    with cluster.connect() as root:
        key = one(root, "SELECT question FROM dp.closed_question")
        same = "SELECT dp._record_failure('people', 'bob', %s, 'dp_count', NULL, '22012', 'here:1', NULL)"
        assert one(root, same, key) == []
    assert len(closed(cluster)) == 1


def test_failures_before_planning_are_logged_and_not_counted(cluster: Cluster) -> None:
    with cluster.connect("alice") as alice, refused("DP003"):
        one(alice, "SELECT dp.dp_query(%s)", request(3500, cluster, nonsense=1))
    assert closed(cluster) == []


def test_a_crash_is_one_event_and_only_the_second_time(cluster: Cluster) -> None:
    """Two reads of each of two questions are cut off by the same two crashes of the server: one event, two closed."""
    ids = {number: str(uuid.uuid4()) for number in (3601, 3602)}
    with cluster.connect() as root:
        for number, id_ in ids.items():
            assert one(root, "SELECT dp._charge(%s, 'alice', %s)", id_, request(number, cluster))["charged"]
    _crash(cluster)
    with cluster.connect() as root:
        for id_ in ids.values():
            assert one(root, "SELECT dp._count_start(%s)", id_) == 2
        assert root.execute("SELECT DISTINCT cut FROM dp.entitlement").fetchall() == [(1,)]
    _crash(cluster)
    with cluster.connect("alice") as alice, cluster.connect("boss") as boss:
        before = one(boss, "SELECT failures FROM dp.budget WHERE dataset = 'people'")
        for number in ids:
            with refused("DP006", CLOSED):
                one(alice, "SELECT dp.dp_query(%s)", request(number, cluster))
        assert one(boss, "SELECT failures FROM dp.budget WHERE dataset = 'people'") == before + 1
        count(alice)  # one event closes no allotment
    assert closed(cluster) == [("alice", "57P02")] * 2


def _crash(cluster: Cluster) -> None:
    """SIGKILL for a backend: the postmaster ends all others and recovers."""
    with cluster.connect() as root:
        os.kill(root.info.backend_pid, signal.SIGKILL)

        def gone() -> bool:
            try:
                root.execute("SELECT 1")
            except psycopg.OperationalError:
                return True
            return False

        assert soon(gone)

    def empty() -> bool:
        try:
            with cluster.connect() as new:
                return bool(one(new, "SELECT NOT EXISTS (SELECT FROM dp.life)"))
        except psycopg.OperationalError:
            return False

    assert soon(empty), "the server is back, and its life is another"


def test_an_orderly_restart_cuts_nothing_off(cluster: Cluster) -> None:
    """Shutdown is the machine: what is owed stays owed, and no read counts as cut off."""
    id_ = str(uuid.uuid4())
    with cluster.connect() as root:
        assert one(root, "SELECT dp._charge(%s, 'alice', %s)", id_, request(3700, cluster))["charged"]
    for _ in range(2):
        cluster.stop("fast")
        cluster.start()
    with cluster.connect("alice") as alice, no_more(cluster):
        one(alice, "SELECT dp.dp_query(%s)", request(3700, cluster))
    assert closed(cluster) == []


def test_two_failures_at_once_are_two(cluster: Cluster) -> None:
    """Counted one after the other: else each would be a first."""
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda number: fail(cluster, number), (3801, 3802)))
    with cluster.connect() as root:
        assert one(root, "SELECT role FROM dp.closed_allotment") == "alice"
        assert soon(lambda: backends(root, "usename = 'alice' AND state = 'active'") == 0)
