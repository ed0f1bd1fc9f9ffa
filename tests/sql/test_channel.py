"""Rule R2 on the installed extension: a charge is committed before its answer leaves, whatever the caller does.

Specification: facade-and-channel.md §2 (channel), composition.md §10.1.
"""

from __future__ import annotations

import contextlib
import json
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from fix_cluster import PRIVATE, Cluster, standard_cluster
from fix_ledger import balanced, charges, count, no_charge, one, refused, spent
from fix_waiting import LOCKED, PATIENCE, cancelling

EPSILON = Decimal("0.01")
ASK = "dp.dp_count('people', epsilon => 0.01, fresh => true)"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with standard_cluster(max_prepared_transactions="5") as running:
        running.execute("UPDATE dp.role_allotment SET epsilon = 10")
        yield running


@pytest.fixture(autouse=True)
def _books(cluster: Cluster) -> Iterator[None]:
    yield
    balanced(cluster)


CALLERS = {
    "rollback": ["BEGIN", f"SELECT {ASK}", "ROLLBACK"],
    "savepoint": ["BEGIN", "SAVEPOINT s", f"SELECT {ASK}", "ROLLBACK TO s", "COMMIT"],
    "exception block": [
        f"DO $$ BEGIN PERFORM {ASK}; RAISE division_by_zero; EXCEPTION WHEN division_by_zero THEN NULL; END $$"
    ],
    "read only": ["BEGIN READ ONLY", f"SELECT {ASK}", "ROLLBACK"],
    "serializable": ["BEGIN ISOLATION LEVEL SERIALIZABLE", f"SELECT {ASK}", "ROLLBACK"],
    "prepared transaction": ["BEGIN", f"SELECT {ASK}", "PREPARE TRANSACTION 'x'", "ROLLBACK PREPARED 'x'"],
    "aborted by a later statement": ["BEGIN", f"SELECT {ASK}", "SELECT 1/0", "ROLLBACK"],
    "error later in the statement": [f"SELECT 1 / ({ASK} * 0)"],
}


@pytest.mark.parametrize("name", CALLERS)
def test_charge_survives_the_callers_transaction(cluster: Cluster, name: str) -> None:
    before, rows = spent(cluster), charges(cluster)
    with cluster.connect("alice") as alice:
        for statement in CALLERS[name]:
            try:
                alice.execute(statement)
            except psycopg.errors.DivisionByZero:
                continue
    assert spent(cluster) - before == EPSILON
    assert charges(cluster) - rows == 1


def test_do_loop_pays_each_time(cluster: Cluster) -> None:
    before = spent(cluster)
    with cluster.connect("alice") as alice:
        alice.execute(f"DO $$ BEGIN FOR i IN 1..7 LOOP PERFORM {ASK}; END LOOP; END $$")
    assert spent(cluster) - before == 7 * EPSILON


EVERY_CHANNEL = (
    "DO $$ BEGIN EXECUTE (SELECT string_agg(format('ALTER ROLE %I {}', rolname), ';') FROM pg_roles"
    " WHERE rolname ~ '^dp_channel_'); END $$"
)


def _wait_until(condition: Any, seconds: float = PATIENCE) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "timed out"
        time.sleep(0.02)


def _channels(cluster: Cluster, where: str = "true") -> int:
    with cluster.connect() as conn:
        return int(one(conn, f"SELECT count(*) FROM pg_stat_activity WHERE usename ~ '^dp_channel_' AND {where}"))


@pytest.mark.parametrize("how", ["cancel", "timeout"])
def test_cancel_stays_57014_and_the_charge_stands(cluster: Cluster, how: str) -> None:
    """The read waits for a lock, 5 s at most; the caller gives up before, with his own SQLSTATE; nothing is closed."""
    before = spent(cluster)
    with cluster.connect() as admin, cluster.connect("alice") as alice:
        count(alice)
        admin.autocommit = False
        admin.execute("LOCK TABLE people IN ACCESS EXCLUSIVE MODE")
        giving_up: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
        if how == "timeout":
            alice.execute("SET statement_timeout = '3s'")  # the charge comes before the wait for the lock
        else:
            giving_up = cancelling(alice.cancel, cluster.connect, LOCKED)
        with giving_up, refused("57014", hint=False):  # the lock's own limit would be DP006
            count(alice)
        admin.rollback()
        _wait_until(lambda: _channels(cluster, "state = 'active'") == 0)
        alice.execute("SET statement_timeout = 0")
        count(alice)  # for nothing: what was paid and not drawn is owed
        assert one(admin, "SELECT count(*) FROM dp.closed_question") == 0
    assert spent(cluster) - before == 2 * EPSILON
    _wait_until(lambda: _channels(cluster, "state = 'active'") == 0)


def test_from_17_on_the_caller_waits_without_polling(cluster: Cluster) -> None:
    """dblink's own wait hears a cancel there (PostgreSQL 17, release notes); before, the reply is polled for."""
    with cluster.connect() as admin, cluster.connect() as locker, cluster.connect("alice") as alice:
        locker.autocommit = False
        locker.execute("LOCK TABLE people IN ACCESS EXCLUSIVE MODE")
        waits = "Extension DblinkGetResult" if admin.info.server_version >= 170000 else "Timeout PgSleep"
        sql = "SELECT wait_event_type || ' ' || wait_event FROM pg_stat_activity WHERE usename = 'alice'"
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(count, alice)
            _wait_until(lambda: _channels(cluster, "wait_event_type = 'Lock'") == 1)
            _wait_until(lambda: admin.execute(sql).fetchone() == (waits,))
            locker.rollback()
            asked.result()


def test_a_caller_who_is_terminated_leaves_nothing_behind(cluster: Cluster) -> None:
    """While the channel reads: the caller's end is heard at once, the channel's backend goes too, the charge stands."""
    before = spent(cluster)
    with cluster.connect() as admin, cluster.connect() as locker, cluster.connect("alice") as alice:
        count(alice)  # its plan is known from now on: what waits is the read
        locker.autocommit = False
        locker.execute("LOCK TABLE people IN ACCESS EXCLUSIVE MODE")
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(count, alice)
            _wait_until(lambda: _channels(cluster, "wait_event_type = 'Lock'") == 1)
            ended = one(admin, "SELECT pg_terminate_backend(pid, 4000) FROM pg_stat_activity WHERE usename = 'alice'")
            assert ended, "the caller's backend heard of it before the channel's wait for the lock was over"
            with pytest.raises(psycopg.OperationalError):
                asked.result()
        _wait_until(lambda: _channels(cluster) == 0)
        locker.rollback()
    assert spent(cluster) - before == 2 * EPSILON


def test_a_cancel_of_the_other_end_is_not_the_callers(cluster: Cluster) -> None:
    """57014 from the channel is DP006 (facade-and-channel.md §2.3): the caller did not ask for it."""
    with cluster.connect() as admin, cluster.connect("alice") as alice:
        count(alice)
        with cluster.connect() as locker:
            locker.autocommit = False
            locker.execute("LOCK TABLE people IN ACCESS EXCLUSIVE MODE")
            with ThreadPoolExecutor(1) as pool:
                asked = pool.submit(count, alice)
                _wait_until(lambda: _channels(cluster, "wait_event_type = 'Lock'") == 1)
                admin.execute("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
                with refused("DP006", "ledger channel"):
                    asked.result()
            locker.rollback()
        assert one(admin, "SELECT count(*) FROM dp.closed_question") == 0
        count(alice)


def test_a_locked_table_closes_nothing_and_the_answer_is_owed(cluster: Cluster) -> None:
    """55P03 after 5 s: DP006; our own lock wait says nothing about a row. Planned once, it is not planned again."""
    before = spent(cluster)
    with cluster.connect() as locker, cluster.connect("alice") as alice:
        count(alice)
        locker.autocommit = False
        locker.execute("LOCK TABLE people IN ACCESS EXCLUSIVE MODE")
        with refused("DP006", "Commit policy changes first"):
            count(alice)
        locker.rollback()
        count(alice)  # for nothing
    assert spent(cluster) - before == 2 * EPSILON


def test_an_admin_who_locks_accounts_waits_for_himself_5_seconds(cluster: Cluster) -> None:
    cluster.psql("GRANT dp_analyst TO boss; CALL dp.allot('boss', 'people', epsilon => 1)")
    try:
        with cluster.connect("boss") as boss, cluster.connect() as root, no_charge(cluster):
            root.autocommit = False
            root.execute("SELECT FROM dp.account FOR UPDATE")
            started = time.monotonic()
            with refused("DP006", "Commit policy changes first"):
                count(boss)
            assert time.monotonic() - started > 4
            root.rollback()
    finally:
        cluster.psql("REVOKE dp_analyst FROM boss")


def test_a_channel_that_was_terminated_is_reopened(cluster: Cluster) -> None:
    before = spent(cluster)
    with cluster.connect() as admin, cluster.connect("alice") as alice:
        for _ in range(3):
            count(alice)
            admin.execute("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename ~ '^dp_channel_'")
        count(alice)
    assert spent(cluster) - before == 4 * EPSILON


def test_a_channel_terminated_while_it_charges_charges_once(cluster: Cluster) -> None:
    """The step is repeated with the same request id (idempotent); never a second charge."""
    before, rows = spent(cluster), charges(cluster)
    with cluster.connect() as admin, cluster.connect() as locker, cluster.connect("alice") as alice:
        locker.autocommit = False
        locker.execute("SELECT FROM dp.account WHERE node = 'root' FOR UPDATE")
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(count, alice)
            _wait_until(lambda: _channels(cluster, "wait_event_type = 'Lock'") == 1)
            admin.execute("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
            _wait_until(lambda: _channels(cluster, "wait_event_type = 'Lock'") == 1)
            locker.rollback()
            asked.result()
    assert spent(cluster) - before == EPSILON
    assert charges(cluster) - rows == 1


def test_a_channel_terminated_while_it_reads_answers_once(cluster: Cluster) -> None:
    """After the charge: step 2 is repeated with the same id; never a second charge (facade-and-channel.md §2.3)."""
    before, rows = spent(cluster), charges(cluster)
    with cluster.connect() as admin, cluster.connect() as locker, cluster.connect("alice") as alice:
        locker.autocommit = False
        locker.execute("LOCK TABLE people IN ACCESS EXCLUSIVE MODE")
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(count, alice)
            _wait_until(lambda: _channels(cluster, "wait_event_type = 'Lock'") == 1)
            admin.execute("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
            _wait_until(lambda: _channels(cluster, "wait_event_type = 'Lock'") == 1)
            locker.rollback()
            asked.result()
        assert one(admin, "SELECT count(*) FROM dp.closed_question") == 0
    assert spent(cluster) - before == EPSILON
    assert charges(cluster) - rows == 1


def _request(conn: psycopg.Connection[Any], **more: Any) -> str:
    asked = one(conn, "SELECT dp.dp_count_request('people', epsilon => 0.01, fresh => true)")
    return json.dumps({**asked, **more})


def _timeless(reply: dict[str, Any]) -> str:
    """Without the second in which it was read, which the notice names, and the link that the first reply made."""
    reply.pop("chain", None)
    return json.dumps(reply, sort_keys=True).replace(reply["answer"]["notice"]["as_of"], "")


def test_steps_are_idempotent_by_request_id(cluster: Cluster) -> None:
    before, rows = spent(cluster), charges(cluster)
    with cluster.connect("alice") as alice, cluster.connect() as root:
        request, id_ = _request(alice), uuid.uuid4()
        for _ in range(2):
            reply = one(root, "SELECT dp._charge(%s, 'alice', %s)", id_, request)
            assert (reply["request_id"], reply["charged"]) == (str(id_), True)
        first = _timeless(one(root, "SELECT dp._answer(%s)", id_))
        assert _timeless(one(root, "SELECT dp._answer(%s)", id_)) == first
        with cluster.connect() as other:  # another backend of the channel: no plan in memory
            assert _timeless(one(other, "SELECT dp._answer(%s)", id_)) == first
    assert spent(cluster) - before == EPSILON
    assert charges(cluster) - rows == 1


def test_no_answer_without_a_charge(cluster: Cluster) -> None:
    with cluster.connect() as root, no_charge(cluster):
        reply = one(root, "SELECT dp._answer(gen_random_uuid())")
        assert reply["refusal"]["sqlstate"] == "DP006"
        assert "answer" not in reply


def test_concurrent_steps_with_one_id_pay_once(cluster: Cluster) -> None:
    before = spent(cluster)
    with cluster.connect("alice") as alice:
        request, id_ = _request(alice), uuid.uuid4()

    def step(_: int) -> Any:
        with cluster.connect() as root:
            charged = one(root, "SELECT dp._charge(%s, 'alice', %s)", id_, request)
            return charged, one(root, "SELECT dp._answer(%s)", id_)["answer"]["rows"]

    with ThreadPoolExecutor(6) as pool:
        seen = list(pool.map(step, range(12)))
    assert all(charged.get("charged") for charged, _ in seen)
    assert len({json.dumps(rows) for _, rows in seen}) == 1
    assert spent(cluster) - before == EPSILON


def test_a_stale_reply_is_dp006_and_never_an_answer(cluster: Cluster) -> None:
    """A reply that carries another request id: disconnect, DP006 (facade-and-channel.md §2.3)."""
    with cluster.connect() as root:
        root.execute("SET SESSION AUTHORIZATION dp_owner")
        other = "SELECT dp._answer('00000000-0000-0000-0000-000000000001')"
        with refused("DP006", "ledger channel"):
            root.execute("SELECT dp._channel_ask(%s, gen_random_uuid())", (other,))
        assert one(root, "SELECT dp_link.dblink_get_connections()") is None
        root.execute("RESET SESSION AUTHORIZATION")


def test_an_unread_reply_is_thrown_away(cluster: Cluster) -> None:
    """A connection left busy by an error of ours is dropped before it is used again."""
    with cluster.connect() as root:
        root.execute("SET SESSION AUTHORIZATION dp_owner")
        root.execute("SELECT dp._channel_open()")
        root.execute("SELECT dp_link.dblink_send_query('dp_ledger', 'SELECT pg_sleep(30), dp._hello()')")
        id_ = uuid.uuid4()
        reply = one(root, "SELECT dp._channel_ask(%s, %s)", f"SELECT dp._answer('{id_}')", id_)
        assert reply["request_id"] == str(id_)


def test_no_channel_no_answer_no_charge(cluster: Cluster) -> None:
    try:
        cluster.psql("DROP SERVER dp_ledger CASCADE")
        with cluster.connect("alice") as alice, no_charge(cluster), refused("DP006", "channel"):
            count(alice)
    finally:
        cluster.psql("CALL dp.repair_channel()")
    with cluster.connect("alice") as alice:
        count(alice)


@pytest.mark.parametrize(
    "damage, words",
    [
        ("OPTIONS (SET port '1')", "channel"),
        ("OPTIONS (SET dbname 'postgres')", "channel"),
    ],
)
def test_a_channel_that_leads_elsewhere_is_dp006(cluster: Cluster, damage: str, words: str) -> None:
    try:
        cluster.psql(f"ALTER SERVER dp_ledger {damage}")
        with cluster.connect("alice") as alice, no_charge(cluster), refused("DP006", words):
            count(alice)
    finally:
        cluster.psql("CALL dp.repair_channel()")


def test_a_database_wide_setting_does_not_reach_the_channel(cluster: Cluster) -> None:
    """Settings that change meaning or failure are pinned (composition.md §10.1, §10.3)."""
    cluster.psql(
        f"ALTER DATABASE {PRIVATE} SET default_transaction_read_only = on;"
        f"ALTER DATABASE {PRIVATE} SET default_transaction_isolation = 'serializable';"
        f"ALTER DATABASE {PRIVATE} SET statement_timeout = '60s';"
        + EVERY_CHANNEL.format("SET synchronous_commit = off")
    )
    try:
        with cluster.connect() as root, cluster.connect("alice") as alice:
            root.execute("SET SESSION AUTHORIZATION dp_owner")
            root.execute("SELECT dp._channel_open()")
            shown = one(
                root,
                """SELECT s FROM dp_link.dblink('dp_ledger', $$
                     SELECT string_agg(current_setting(n), ' ' ORDER BY i)
                     FROM unnest(ARRAY['statement_timeout', 'default_transaction_read_only',
                       'default_transaction_isolation', 'synchronous_commit', 'lock_timeout']) WITH ORDINALITY u(n, i)
                   $$) AS t(s text)""",
            )
            assert shown == "0 off read committed on 5s"
            count(alice)
    finally:
        cluster.execute(
            f"ALTER DATABASE {PRIVATE} RESET ALL",
            f'ALTER DATABASE {PRIVATE} SET search_path = "$user", public, dp',
            EVERY_CHANNEL.format("RESET ALL"),
            dbname="postgres",
        )


def test_a_clone_answers_nothing(cluster: Cluster) -> None:
    """CREATE DATABASE … TEMPLATE: the clone's channel leads to the original, and its accounts are frozen."""
    cluster.execute(f"CREATE DATABASE clone TEMPLATE {PRIVATE}", dbname="postgres")
    try:
        cluster.execute("GRANT CONNECT ON DATABASE clone TO dp_analyst, dp_channel", dbname="clone")
        with no_charge(cluster), cluster.connect("alice", "clone") as alice, refused("DP006", "repair_channel"):
            count(alice)
        with cluster.connect(dbname="clone") as root:
            root.execute("CALL dp.repair_channel()")
        with cluster.connect("alice", "clone") as alice, refused("DP006", "frozen"):
            count(alice)
    finally:
        cluster.execute("DROP DATABASE clone", dbname="postgres")
        cluster.psql("CALL dp.repair_channel()")


def test_no_account_is_locked_while_rows_are_read(cluster: Cluster) -> None:
    """A scan of many seconds beside 1,000 small paid questions of the same dataset: they finish meanwhile."""
    cluster.psql(
        "CREATE TABLE slow (id int PRIMARY KEY, t text);"
        "INSERT INTO slow SELECT i, repeat('a', 10000000) FROM generate_series(1, 60) i;"
        "CREATE TABLE quick (id int PRIMARY KEY);"
        "CALL dp.create_dataset('both', epsilon => 10);"
        "CALL dp.protect('slow', 'both'); CALL dp.protect('quick', 'both');"
        "CALL dp.describe_column('slow', 't'); CALL dp.publish('slow'); CALL dp.publish('quick');"
        "CALL dp.allot('alice', 'both', epsilon => 10)",
        user="boss",
    )
    predicate = " OR ".join(f"t LIKE '%b{i}%'" for i in range(40))

    def quick(_: int) -> None:
        with cluster.connect("alice") as alice:
            for _ in range(250):
                count(alice, table="quick", epsilon=0.001)

    with cluster.connect("alice") as alice, ThreadPoolExecutor(3) as pool:
        asked = pool.submit(count, alice, table="slow", predicate=predicate)
        _wait_until(lambda: spent(cluster, "both") > 0)
        started = time.monotonic()
        list(pool.map(quick, range(4)))
        small = time.monotonic() - started
        _wait_until(lambda: time.monotonic() - started > min(small + 2, 10), 12)
        assert not asked.done(), "the scan was too short to show anything"
        alice.cancel()
        with refused("57014", hint=False):
            asked.result()
    assert spent(cluster, "both") == Decimal("1.01")
    with cluster.connect() as root:
        assert one(root, "SELECT count(*) FROM dp.ledger WHERE dataset = 'both'") == 1001
