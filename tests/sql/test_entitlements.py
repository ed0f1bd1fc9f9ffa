"""What was paid and not drawn is owed: once, for nothing, to whoever may ask (composition.md §10.3 c; findings A4, A5).

Each clause of §10.3 c is a test. Two controls are broken engines that these tests must catch: one draws an entitlement
twice, one draws it on a copy of the ledger.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from fix_cluster import Cluster, standard_cluster
from fix_ledger import balanced, charges, forgive, one, refused, spent
from fix_waiting import PATIENCE, backends, cancelling, soon

EPSILON = Decimal("0.01")
READING = "usename ~ '^dp_channel_' AND wait_event_type = 'Lock'"
# A second draw, and a draw in a copy: what the engine must not do, as it would look.
BROKEN = """
CREATE FUNCTION public.broken_answer(id uuid, how text) RETURNS jsonb LANGUAGE plpython3u SECURITY DEFINER
SET row_security = off AS $$
import json
from pg_epsilon import entry
from pg_epsilon.engine.entitlements import Entitlements, Owed
kept = {name: getattr(Entitlements, name) for name in ("state", "end")}
recorded, frozen = entry.Catalog.recorded, entry.check_not_frozen
try:
    if how == "twice":
        Entitlements.state = lambda self, id: Owed(1, 0, "00000000-0000-0000-0000-000000000000")
        Entitlements.end = lambda self, id: True
        entry.Catalog.recorded = lambda self, id: None
        entry.catalog.record = lambda plan, id, raw: None
        entry._draws._count_start = lambda id: None
    if how == "on a copy":
        entry.check_not_frozen = lambda execute, dataset: None
    return entry.answer(id)
finally:
    entry.Catalog.recorded, entry.check_not_frozen = recorded, frozen
    entry.catalog.__dict__.pop("record", None)
    entry._draws.__dict__.pop("_count_start", None)
    for name, one in kept.items():
        setattr(Entitlements, name, one)
$$;
ALTER FUNCTION public.broken_answer(uuid, text) OWNER TO dp_owner;
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with standard_cluster(max_connections="200") as running:
        running.execute("UPDATE dp.role_allotment SET epsilon = 10", "GRANT CREATE ON SCHEMA public TO dp_owner")
        running.psql(BROKEN)
        yield running


@pytest.fixture(autouse=True)
def _books(cluster: Cluster) -> Iterator[None]:
    forgive(cluster)
    yield
    balanced(cluster)


def question(number: int, *, fresh: bool = False, epsilon: str = "0.01") -> str:
    """A count that no other test asks."""
    return f"SELECT dp.dp_count('people', 'id <> {number}', epsilon => {epsilon}, fresh => {fresh})"


def request(alice: psycopg.Connection[Any], number: int, **more: Any) -> str:
    asked = f"dp.dp_count_request('people', 'id <> {number}', epsilon => 0.01)"
    return json.dumps({**one(alice, f"SELECT {asked}"), **more})


def pay(cluster: Cluster, number: int, who: str = "alice", **more: Any) -> str:
    """The charge step alone, in a backend that ends: what a killed channel leaves."""
    id_ = str(uuid.uuid4())
    with cluster.connect() as root, cluster.connect(who) as asker:
        reply = one(root, "SELECT dp._charge(%s, %s, %s)", id_, who, request(asker, number, **more))
        assert reply.get("charged"), reply
    return id_


def owed(cluster: Cluster) -> int:
    with cluster.connect() as root:
        return int(one(root, "SELECT count(*) FROM dp.entitlement"))


@contextlib.contextmanager
def locked_table(cluster: Cluster) -> Iterator[None]:
    """DDL that nobody commits: `people` is locked for everybody."""
    with cluster.connect() as locker:
        locker.autocommit = False
        locker.execute("LOCK TABLE people IN ACCESS EXCLUSIVE MODE")
        yield
        locker.rollback()


@contextlib.contextmanager
def nothing_paid(cluster: Cluster) -> Iterator[None]:
    before = spent(cluster)
    yield
    assert spent(cluster) == before


def test_a_lock_of_eight_seconds_costs_three_questions_three_charges(cluster: Cluster) -> None:
    """Finding A5: any DDL held its lock, three questions were asked, and asked again: six charges."""
    before = spent(cluster)
    with contextlib.ExitStack() as stack:
        asking = [stack.enter_context(cluster.connect("alice")) for _ in range(3)]
        for number, alice in enumerate(asking):  # planned beforehand, so that the read is what waits
            one(alice, question(number, epsilon="0.02"))
        with locked_table(cluster), ThreadPoolExecutor(3) as pool:

            def ask(number: int) -> None:
                with refused("DP006", "the same question is answered for nothing"):
                    one(asking[number], question(number))

            list(pool.map(ask, range(3)))
        assert owed(cluster) == 3
        answers = [one(alice, question(number)) for number, alice in enumerate(asking)]
        assert answers == [one(alice, question(number)) for number, alice in enumerate(asking)]
    assert spent(cluster) - before == 3 * Decimal("0.02") + 3 * EPSILON
    assert owed(cluster) == 0


def test_whoever_may_ask_draws_it_once_and_it_is_shown_until_then(cluster: Cluster) -> None:
    id_ = pay(cluster, 10)
    shown = "SELECT owed FROM dp.spending WHERE request_id = %s"
    count_ = "SELECT owed FROM dp.budget WHERE dataset = 'people'"
    with cluster.connect("alice") as alice, cluster.connect("bob") as bob, nothing_paid(cluster):
        assert (one(alice, shown, id_), one(bob, shown, id_), one(alice, count_)) == (True, True, 1)
        answer = one(bob, "SELECT dp.dp_query(%s)", request(bob, 10))
        assert answer["notice"]["path"] == "paid before"
        assert answer["notice"]["charge"] == {}
        assert answer["request_id"] == id_
        assert (one(alice, shown, id_), one(alice, count_)) == (False, 0)
        assert one(alice, question(10)) == int(answer["rows"][0][0])


def test_nobody_else_draws_it(cluster: Cluster) -> None:
    """Asked by who has no allotment: 42501, and it stays owed."""
    pay(cluster, 11)
    cluster.psql("CREATE ROLE carol LOGIN; GRANT dp_analyst TO carol; GRANT CONNECT ON DATABASE private TO carol")
    with cluster.connect("carol") as carol, refused("42501", "allotment"):
        one(carol, question(11))
    assert owed(cluster) == 1


def test_fifty_first_askers_pay_once(cluster: Cluster) -> None:
    gate = threading.Barrier(50, timeout=PATIENCE)

    def ask(i: int) -> int:
        with cluster.connect("bob" if i % 2 else "alice") as conn:
            gate.wait()
            return int(one(conn, question(12)))

    before, rows = spent(cluster), charges(cluster)
    with ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(ask, range(50)))
    assert len(set(answers)) == 1
    assert (spent(cluster) - before, charges(cluster) - rows, owed(cluster)) == (EPSILON, 1, 0)


def test_a_stored_answer_is_looked_for_first(cluster: Cluster) -> None:
    """What is owed of an older state of the data is not drawn while a stored answer serves the question."""
    with cluster.connect("alice") as alice:
        stored = one(alice, question(13))
        cluster.execute(
            "INSERT INTO dp.entitlement (request_id, dataset, question, fresh, life)"
            " SELECT l.request_id, 'people', 'nobody asks', false, dp._life() FROM dp.ledger l"
            " WHERE l.kind = 'charge' ORDER BY l.seq DESC LIMIT 1"
        )
        assert one(alice, question(13)) == stored
    assert owed(cluster) == 1


def test_a_fresh_question_is_owed_to_the_same_fresh_question_only(cluster: Cluster) -> None:
    pay(cluster, 14, fresh=True)
    with cluster.connect("alice") as alice:
        before = spent(cluster)
        one(alice, question(14))
        assert (spent(cluster) - before, owed(cluster)) == (EPSILON, 1), "a plain question pays for itself"
        one(alice, question(14, fresh=True))
        assert (spent(cluster) - before, owed(cluster)) == (EPSILON, 0), "the fresh one was paid"
        pay(cluster, 15)
        one(alice, question(15, fresh=True))
        assert (spent(cluster) - before, owed(cluster)) == (3 * EPSILON, 1), "and a fresh one draws no plain one's"


def test_a_fresh_question_that_is_being_answered_is_nobody_elses(cluster: Cluster) -> None:
    with cluster.connect("alice") as alice, cluster.connect("bob") as bob, cluster.connect() as root:
        before = spent(cluster)
        one(alice, question(16, fresh=True))
        one(bob, question(16, fresh=True))
        with ThreadPoolExecutor(2) as pool:
            with locked_table(cluster):
                asked = [pool.submit(one, conn, question(16, fresh=True)) for conn in (alice, bob)]
                assert soon(lambda: backends(root, READING) == 2)
            for answer in asked:
                answer.result()
    assert spent(cluster) - before == 4 * EPSILON


def test_it_survives_a_refresh(cluster: Cluster) -> None:
    """Any one state may be read; the answer is stored for the state that was read."""
    pay(cluster, 17)
    cluster.psql("CALL dp.refresh('people')", user="boss")
    with cluster.connect("alice") as alice, nothing_paid(cluster):
        assert one(alice, question(17)) == one(alice, question(17))


def test_it_ends_when_the_question_costs_something_else(cluster: Cluster) -> None:
    """The policy is declared anew: an accuracy relative to another scale has another price."""
    cluster.psql(
        "CREATE TABLE again (id int PRIMARY KEY); CALL dp.create_dataset('again', epsilon => 9);"
        "CALL dp.protect('again', 'again', scale => 1000); CALL dp.publish('again');"
        "CALL dp.allot('alice', 'again', epsilon => 9)",
        user="boss",
    )
    with cluster.connect("alice") as alice, cluster.connect() as root:
        asked = json.dumps(one(alice, "SELECT dp.dp_count_request('again', alpha => 0.1, beta => 0.05)"))
        assert one(root, "SELECT dp._charge(gen_random_uuid(), 'alice', %s)", asked)["charged"]
        first = spent(cluster, "again")
        cluster.execute("UPDATE dp.relation_policy SET scale = 500 WHERE relation = 'again'::regclass")
        cluster.execute("SELECT dp._bump_policy()")
        one(alice, "SELECT dp.dp_query(%s)", asked)
    assert spent(cluster, "again") > 2 * first > 0, "half the scale costs more, and is paid anew"
    assert owed(cluster) == 0


@pytest.mark.parametrize("how", ["CALL dp.freeze('people')", "SELECT dp._void_entitlements('people')"])
def test_a_freeze_ends_it(cluster: Cluster, how: str) -> None:
    number = 100 + len(how)
    id_ = pay(cluster, number)
    cluster.psql(how, user="boss" if "CALL" in how else "postgres")
    assert owed(cluster) == 0
    with cluster.connect() as root, nothing_paid(cluster):
        assert one(root, "SELECT dp._answer(%s)", id_)["refusal"]["sqlstate"] == "DP006"
    forgive(cluster)
    before = spent(cluster)
    with cluster.connect("alice") as alice:
        one(alice, question(number))
    assert spent(cluster) - before == EPSILON


def test_a_freeze_while_it_is_read_ends_it(cluster: Cluster) -> None:
    """The read goes on; what it found is not released, because a copy could release it a second time."""
    with cluster.connect("alice") as alice, cluster.connect() as root, ThreadPoolExecutor(1) as pool:
        one(alice, question(19, epsilon="0.02"))
        with locked_table(cluster):
            asked = pool.submit(one, alice, question(19))
            assert soon(lambda: backends(root, READING) == 1)
            cluster.psql("CALL dp.freeze('people')", user="boss")
        with refused("DP006", "no longer owed"):
            asked.result()


def test_it_ends_after_eight_starts(cluster: Cluster) -> None:
    """Seven repeats of a read that a lock keeps from its rows; the ninth asker pays anew."""
    pay(cluster, 20)
    cluster.execute("UPDATE dp.entitlement SET starts = 7")
    with cluster.connect("alice") as alice:
        one(alice, question(20, epsilon="0.02"))
        before = spent(cluster)
        with locked_table(cluster), refused("DP006", "locked"):
            one(alice, question(20))
        with cluster.connect() as root:
            assert one(root, "SELECT starts FROM dp.entitlement") == 8
        assert spent(cluster) == before
        one(alice, question(20))
        assert spent(cluster) - before == EPSILON
    assert owed(cluster) == 0


def test_each_start_is_committed_before_the_read_begins(cluster: Cluster) -> None:
    pay(cluster, 21)
    with cluster.connect("alice") as alice, cluster.connect() as root, ThreadPoolExecutor(1) as pool:
        one(alice, question(21, epsilon="0.02"))
        with locked_table(cluster):
            asked = pool.submit(one, alice, question(21))
            assert soon(lambda: backends(root, READING) == 1)
            assert one(root, "SELECT starts FROM dp.entitlement") == 2
        asked.result()


def test_a_charge_older_than_the_rule_owes_nothing(cluster: Cluster) -> None:
    """0.1.0 wrote no entitlement: its unanswered charges are lost, as it said."""
    id_ = pay(cluster, 22)
    cluster.execute("DELETE FROM dp.entitlement")
    with cluster.connect() as root, cluster.connect("alice") as alice:
        assert "no longer owed" in one(root, "SELECT dp._answer(%s)", id_)["refusal"]["message"]
        before = spent(cluster)
        one(alice, question(22))
    assert spent(cluster) - before == EPSILON


def test_it_is_drawn_without_a_limit_on_the_wait(cluster: Cluster) -> None:
    """A reader of more than 5 s, the engine's own limit for locks, holds the charge: others wait for his answer."""
    with cluster.connect("alice") as alice, cluster.connect("bob") as bob, cluster.connect() as root:
        id_ = pay(cluster, 23)
        with cluster.connect() as reader, ThreadPoolExecutor(2) as pool:
            reader.autocommit = False
            reader.execute("SELECT FROM dp._claim(%s)", [id_])
            with nothing_paid(cluster):
                asked = [pool.submit(one, conn, question(23)) for conn in (alice, bob)]
                assert soon(lambda: backends(root, READING) == 2)
                reader.execute("SELECT pg_sleep(6)")
                assert backends(root, READING) == 2
                reader.rollback()
                assert asked[0].result() == asked[1].result()


def test_what_a_decision_gives_back_is_the_payers(cluster: Cluster) -> None:
    """bob draws what alice paid: what the decision did not need returns to alice's account, not to bob's."""
    cluster.psql(
        "CREATE TABLE people_copy AS SELECT * FROM people;"
        "CALL dp.register_synthetic('people', 'people_copy', 'declassified')",
        user="boss",
    )
    decide = (
        "SELECT * FROM dp.dp_decide_detail('SELECT count(*) FROM people', 'people_copy', tau => 900, epsilon => 0.5"
    )
    with cluster.connect("alice") as alice, cluster.connect("bob") as bob, cluster.connect() as root:
        alice.execute(decide + ", mechanism => 'em', fallback => true)")
        asked = one(root, "SELECT request FROM dp.ledger WHERE kind = 'charge' ORDER BY seq DESC LIMIT 1")
        asked = json.dumps({**asked, "budget": {"epsilon": "0.6"}})
        before = {who: spent(cluster, role=who) for who in ("", "alice", "bob")}
        reply = one(root, "SELECT dp._charge(gen_random_uuid(), 'alice', %s)", asked)
        assert reply.get("charged"), reply
        paid = spent(cluster) - before[""]
        one(bob, "SELECT dp.dp_query(%s)", asked)
        assert one(root, "SELECT who FROM dp.ledger WHERE kind = 'return' ORDER BY seq DESC LIMIT 1") == "alice"
    assert spent(cluster) - before[""] < paid
    assert spent(cluster, role="bob") == before["bob"]
    assert spent(cluster, role="alice") - before["alice"] == spent(cluster) - before[""]


SIGNALS = {"terminated": signal.SIGTERM, "killed": signal.SIGKILL}


@pytest.mark.parametrize("how", SIGNALS)
@pytest.mark.parametrize("stage", ["charge", "read"])
def test_a_channel_that_is_ended_leaves_one_free_answer(cluster: Cluster, stage: str, how: str) -> None:
    """Between charge and answer, and in the read: SIGTERM, and SIGKILL, after which the whole server restarts."""
    number = 30 + 2 * (stage == "read") + (how == "killed")
    before, life = spent(cluster), _life(cluster)
    with contextlib.suppress(psycopg.OperationalError), cluster.connect() as root, cluster.connect("alice") as alice:
        if stage == "charge":
            asked = request(alice, number)
            assert one(root, "SELECT dp._charge(gen_random_uuid(), 'alice', %s)", asked)["charged"]
            os.kill(root.info.backend_pid, SIGNALS[how])
        else:
            one(alice, question(number, epsilon="0.02"))
            before += Decimal("0.02")
            with ThreadPoolExecutor(1) as pool, contextlib.suppress(psycopg.Error), locked_table(cluster):
                reading = pool.submit(one, alice, question(number))
                assert soon(lambda: backends(root, READING) == 1)
                pid = one(root, f"SELECT pid FROM pg_stat_activity WHERE {READING}")
                os.kill(pid, SIGNALS[how])
                if how == "terminated":  # the step is repeated, on another connection
                    assert soon(lambda: backends(root, f"{READING} AND pid <> {pid}") == 1)
                    alice.cancel()
                reading.result()
    assert how == "terminated" or soon(lambda: _life(cluster) not in (life, "away")), "the server restarts"
    with cluster.connect("alice") as alice:
        answer = one(alice, question(number))
        assert answer == one(alice, question(number))
    assert spent(cluster) - before == EPSILON
    assert owed(cluster) == 0


def _life(cluster: Cluster) -> str:
    """What dp.life holds: empty after a crash, until a question comes."""
    try:
        with cluster.connect() as root:
            return str(one(root, "SELECT COALESCE(max(id::text), '') FROM dp.life"))
    except psycopg.OperationalError:
        return "away"


def test_a_cancelled_question_is_owed(cluster: Cluster) -> None:
    """Cancelled more than twice: no read of it is an unforeseen failure."""
    with cluster.connect("alice") as alice:
        one(alice, question(40, epsilon="0.02"))
        before = spent(cluster)
        for _ in range(3):
            giving_up = cancelling(alice.cancel, cluster.connect, READING)
            with locked_table(cluster):
                with giving_up, refused("57014", hint=False):
                    one(alice, question(40))
                # else a read that the cancel has not reached yet would end well once the lock is gone
                with cluster.connect() as root:
                    assert soon(lambda root=root: not backends(root, READING))
        one(alice, question(40))
    assert spent(cluster) - before == EPSILON


@pytest.mark.parametrize("change", ["RENAME TO elsewhere", "SET SCHEMA dp_away", "REVOKE"])
def test_a_table_that_moves_while_it_is_asked_closes_nothing(cluster: Cluster, change: str) -> None:
    """Finding A4: RENAME, SET SCHEMA or a revoked right between charge and read; once it is back, it is owed."""
    number = 50 + len(change)
    cluster.psql("CREATE SCHEMA IF NOT EXISTS dp_away AUTHORIZATION boss")
    there, back = {
        "RENAME TO elsewhere": ("ALTER TABLE people RENAME TO elsewhere", "ALTER TABLE elsewhere RENAME TO people"),
        "SET SCHEMA dp_away": ("ALTER TABLE people SET SCHEMA dp_away", "ALTER TABLE dp_away.people SET SCHEMA public"),
        "REVOKE": ("REVOKE SELECT ON people FROM dp_owner", "GRANT SELECT ON people TO dp_owner"),
    }[change]
    with cluster.connect() as root, cluster.connect("alice") as alice:
        id_, before = uuid.uuid4(), spent(cluster)
        # in one backend, whose plan is the one before the change: policy_version moves after the read was begun
        assert one(root, "SELECT dp._charge(%s, 'alice', %s)", id_, request(alice, number))["charged"]
        cluster.psql(there)
        try:
            reply = one(root, "SELECT dp._answer(%s)", id_)
            assert reply["refusal"]["sqlstate"] in ("DP006", "42501")
            assert one(root, "SELECT count(*) FROM dp.closed_question") == 0
        finally:
            cluster.psql(back)
        one(alice, question(number))
    assert spent(cluster) - before == EPSILON


def _draws(cluster: Cluster, id_: str, how: str) -> bool:
    """Whether this engine draws for a charge."""
    with cluster.connect() as root:
        return "answer" in one(root, "SELECT public.broken_answer(%s, %s)", id_, how)


def test_one_entitlement_is_never_drawn_twice(cluster: Cluster) -> None:
    """What is recorded is given again, number for number. Control: an engine that draws again gives another one."""
    id_ = pay(cluster, 60)
    with cluster.connect() as root:
        first = one(root, "SELECT dp._answer(%s)", id_)["answer"]["rows"]
        assert all(one(root, "SELECT dp._answer(%s)", id_)["answer"]["rows"] == first for _ in range(5))
        broken = "SELECT public.broken_answer(%s, 'twice')"
        again = [one(root, broken, id_)["answer"]["rows"] for _ in range(40)]
    # 40 draws of a discrete Laplace number of scale 100 that are all equal to the first: below 200^-40
    assert any(rows != first for rows in again), "the control draws a second time, and is seen"


def test_nothing_is_drawn_on_a_copy_taken_between_charge_and_release(cluster: Cluster) -> None:
    """A physical copy has the entitlement too; its incarnation differs. Control: an engine that does not look draws."""
    id_ = pay(cluster, 61)
    with cluster.connect() as root:
        incarnation = one(root, "SELECT incarnation FROM dp.dataset WHERE name = 'people'")
        root.execute("UPDATE dp.dataset SET incarnation = gen_random_uuid() WHERE name = 'people'")
        try:
            assert "frozen" in one(root, "SELECT dp._answer(%s)", id_)["refusal"]["message"]
            assert _draws(cluster, id_, "on a copy"), "the control draws on the copy, and is seen"
        finally:
            root.execute("UPDATE dp.dataset SET incarnation = %s WHERE name = 'people'", [incarnation])


def test_a_dump_owes_nothing(cluster: Cluster) -> None:
    """A logical copy: dp.entitlement and dp.life are in no dump."""
    dumped = (
        "SELECT count(*) FROM pg_extension e, unnest(e.extconfig) c WHERE e.extname = 'pg_epsilon'"
        " AND c IN ('dp.entitlement'::regclass, 'dp.life'::regclass)"
    )
    with cluster.connect() as root:
        assert one(root, dumped) == 0
