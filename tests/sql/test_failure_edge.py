"""The failure edge between its steps: races of charge, freeze, price and lock (composition.md §10.3 c and d)."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from fix_cluster import Cluster, standard_cluster
from fix_ledger import balanced, forgive, one, refused, spent
from fix_waiting import backends, soon

WAITING = "usename ~ '^dp_channel_' AND wait_event_type = 'Lock'"
# An engine that breaks at one place of the answer's step, in a backend of its own. It draws for `id`.
BROKEN = """
CREATE FUNCTION public.broken(id uuid, how text, given jsonb) RETURNS jsonb LANGUAGE plpython3u SECURITY DEFINER
SET row_security = off AS $$
import json, plpy
from pg_epsilon import entry
kept = entry.read, entry._draws._explain, entry.shown, entry.group_by.core
core = entry.group_by.core
def divided(statement):
    return plpy.execute("SELECT 1 / (count(*) - count(*)) FROM people")
def locked(statement):
    plpy.execute("DO $x$ BEGIN RAISE EXCEPTION USING ERRCODE = '55P03'; END $x$")
def unshown(*args, **more):
    raise ZeroDivisionError("the zyzzyva")
def fixed(*args):
    return json.loads(given)
try:
    if how == "read":
        entry.read = divided
    if how == "read, then a lock":
        entry.read, entry._draws._explain = divided, locked
    if how == "presentation":
        entry.shown = unshown
    if how == "core":
        entry.group_by.core = fixed
    return entry.answer(id)
finally:
    entry.read, entry._draws._explain, entry.shown, entry.group_by.core = kept
    entry._pending.clear()
$$;
ALTER FUNCTION public.broken(uuid, text, jsonb) OWNER TO dp_owner;
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with standard_cluster() as running:
        running.execute("UPDATE dp.role_allotment SET epsilon = 10", "GRANT CREATE ON SCHEMA public TO dp_owner")
        running.psql(BROKEN)
        yield running


@pytest.fixture(autouse=True)
def _books(cluster: Cluster) -> Iterator[None]:
    forgive(cluster)
    yield
    balanced(cluster)


def request(alice: psycopg.Connection[Any], number: int, **more: Any) -> str:
    asked = f"dp.dp_count_request('people', 'id <> {number}', epsilon => 0.01)"
    return json.dumps({**one(alice, f"SELECT {asked}"), **more})


def pay(cluster: Cluster, asked: str, who: str = "alice") -> str:
    """The charge step alone, in a backend that ends."""
    id_ = str(uuid.uuid4())
    with cluster.connect() as root:
        reply = one(root, "SELECT dp._charge(%s, %s, %s)", id_, who, asked)
        assert reply.get("charged"), reply
    return id_


def broken(cluster: Cluster, id_: str, how: str, given: Any = None) -> dict[str, Any]:
    with cluster.connect() as root:
        return dict(one(root, "SELECT public.broken(%s, %s, %s)", id_, how, json.dumps(given)))


def test_a_charge_that_is_read_at_another_price_is_not_drawn_at_the_new_one(cluster: Cluster) -> None:
    """alice's read of a paid question is under way while its price rises; it ends without an answer, and bob, who
    waited for it, asks the dearer question: he gets no draw of twice the epsilon for the older charge."""
    cluster.psql(
        "CREATE TABLE again (id int PRIMARY KEY); CALL dp.create_dataset('again', epsilon => 9);"
        "CALL dp.protect('again', 'again', scale => 1000); CALL dp.publish('again');"
        "CALL dp.allot('alice', 'again', epsilon => 9); CALL dp.allot('bob', 'again', epsilon => 9)",
        user="boss",
    )
    with cluster.connect("alice") as alice, cluster.connect("bob") as bob, cluster.connect() as root:
        asked = json.dumps(one(alice, "SELECT dp.dp_count_request('again', alpha => 0.1, beta => 0.05)"))
        id_ = pay(cluster, asked)
        first = spent(cluster, "again")
        with cluster.connect() as reader, ThreadPoolExecutor(1) as pool:
            reader.autocommit = False
            reader.execute("SELECT FROM dp._claim(%s)", [id_])  # as alice's read does
            cluster.execute("UPDATE dp.relation_policy SET scale = 500 WHERE relation = 'again'::regclass")
            cluster.execute("SELECT dp._bump_policy()")
            asking = pool.submit(one, bob, "SELECT dp.dp_query(%s)", asked)
            assert soon(lambda: backends(root, WAITING) == 1)
            reader.rollback()
            with refused("DP006"):
                asking.result()
        assert one(root, "SELECT count(*) FROM dp.release WHERE request_id = %s", id_) == 0
        one(bob, "SELECT dp.dp_query(%s)", asked)
    assert spent(cluster, "again") > 2 * first > 0, "he pays the new price"


def test_a_failure_next_to_a_lock_is_counted_all_the_same(cluster: Cluster) -> None:
    """A read that a row made fail is an event, whatever planning the statement once more meets."""
    with cluster.connect("alice") as alice:
        id_ = pay(cluster, request(alice, 1))
    assert "closed" in broken(cluster, id_, "read, then a lock")["refusal"]["message"]
    with cluster.connect() as root:
        assert one(root, "SELECT sqlstate FROM dp.closed_question") == "22012"


def test_an_answer_that_cannot_be_shown_is_an_event(cluster: Cluster) -> None:
    """What cannot be shown depends on what was drawn: drawn again and again, it would tell more than was paid."""
    with cluster.connect("alice") as alice:
        id_ = pay(cluster, request(alice, 2))
    assert "closed" in broken(cluster, id_, "presentation")["refusal"]["message"]
    with cluster.connect() as root:
        assert one(root, "SELECT sqlstate FROM dp.closed_question") == "XX000"


def test_a_freeze_that_overtakes_a_charge_ends_what_it_owes(cluster: Cluster) -> None:
    """A charge that began before dp.freeze and committed after it owes nothing once the dataset is reopened."""
    with cluster.connect("alice") as alice, cluster.connect() as root, cluster.connect() as charging:
        asked = request(alice, 3)
        charging.autocommit = False
        assert one(charging, "SELECT dp._charge(gen_random_uuid(), 'alice', %s)", asked)["charged"]
        root.execute("SET lock_timeout = '2s'")
        with ThreadPoolExecutor(1) as pool:
            freezing = pool.submit(cluster.psql, "CALL dp.freeze('people')", user="boss")
            assert soon(lambda: freezing.done() or backends(root, "query ~ 'dp.freeze' AND wait_event_type = 'Lock'"))
            charging.commit()
            freezing.result()
        cluster.psql("CALL dp.reopen('people')", user="boss")
        assert one(root, "SELECT count(*) FROM dp.entitlement") == 0


def test_whether_the_reserve_is_given_back_is_not_decided_by_a_lock(cluster: Cluster) -> None:
    """A decision gives back under the accounts' lock: if a wait for it could fail, only one of the two answers could,
    and would be drawn again."""
    cluster.psql(
        "CREATE TABLE people_copy AS SELECT * FROM people;"
        "CALL dp.register_synthetic('people', 'people_copy', 'declassified')",
        user="boss",
    )
    decide = (
        "SELECT * FROM dp.dp_decide_detail('SELECT count(*) FROM people', 'people_copy', tau => 900, epsilon => 0.5"
    )
    with cluster.connect("alice") as alice, cluster.connect() as root:
        alice.execute(decide + ", mechanism => 'em', fallback => true)")
        asked = one(root, "SELECT request FROM dp.ledger WHERE kind = 'charge' ORDER BY seq DESC LIMIT 1")
        id_ = pay(cluster, json.dumps({**asked, "budget": {"epsilon": "0.6"}}))
        before = spent(cluster)
        with cluster.connect() as other, ThreadPoolExecutor(1) as pool:
            other.autocommit = False
            other.execute("SELECT FROM dp.account WHERE dataset = 'people' FOR UPDATE")

            def draw() -> dict[str, Any]:
                with cluster.connect() as own:
                    own.execute("SET lock_timeout = '100ms'")
                    return dict(one(own, "SELECT dp._answer(%s)", id_))

            drawing = pool.submit(draw)
            where = "query ~ 'dp._answer' AND wait_event_type = 'Lock'"
            assert soon(lambda: drawing.done() or backends(root, where))
            other.execute("SELECT pg_sleep(0.5)")
            other.rollback()
            assert "answer" in drawing.result()
    assert spent(cluster) < before - Decimal(0)


def test_no_more_failures_are_told_than_are_allowed(cluster: Cluster) -> None:
    """Eight questions whose reads fail at once: four are told so, whose freeze ends the others, failed or not."""
    with cluster.connect("alice") as alice, cluster.connect("bob") as bob:
        ids = [pay(cluster, request(alice, 20 + i), "alice") for i in range(4)]
        ids += [pay(cluster, request(bob, 30 + i), "bob") for i in range(4)]
    with cluster.connect() as root, cluster.connect() as locker, ThreadPoolExecutor(len(ids)) as pool:
        locker.autocommit = False
        locker.execute("LOCK TABLE people IN ACCESS EXCLUSIVE MODE")
        asked = [pool.submit(broken, cluster, id_, "read") for id_ in ids]
        assert soon(lambda: backends(root, "query ~ 'public.broken' AND wait_event_type = 'Lock'") == len(ids))
        locker.rollback()
        said = [one_.result()["refusal"]["message"] for one_ in asked]
        assert sum("this question is closed" in message for message in said) == 4
        assert sum("no longer owed" in message for message in said) == len(ids) - 4
        assert one(root, "SELECT count(*) FROM dp._failures_since_reopen('people')") == 4


def test_no_time_limit_of_the_database_ends_a_read(cluster: Cluster) -> None:
    """How long a read takes is a matter of rows: ALTER DATABASE limits sessions of people, not the channel."""
    with cluster.connect() as root:
        limits = ["statement_timeout", "idle_in_transaction_session_timeout"]
        limits += ["transaction_timeout"] if root.info.server_version >= 170000 else []
        own = " ".join(f"-c {limit}=0" for limit in limits)
        with cluster.connect("alice", options=own) as alice, ThreadPoolExecutor(1) as pool:
            asked = request(alice, 40)
            for limit in limits:
                root.execute(f"ALTER DATABASE private SET {limit} = '100ms'".encode())
            try:
                with cluster.connect(options=own) as locker:
                    locker.autocommit = False
                    locker.execute("LOCK TABLE people IN ACCESS EXCLUSIVE MODE")
                    asking = pool.submit(one, alice, "SELECT dp.dp_query(%s)", asked)
                    with cluster.connect(options=own) as eye:
                        assert soon(lambda: backends(eye, WAITING) == 1)
                        eye.execute("SELECT pg_sleep(0.5)")
                    locker.rollback()
                assert asking.result()["rows"]
            finally:
                for limit in limits:
                    root.execute(f"ALTER DATABASE private RESET {limit}".encode())
