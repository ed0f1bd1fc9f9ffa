"""A ledger that lacks what a witness saw is frozen before the charge, then confirmed (composition.md §12).

The copy is made by taking links away, as a snapshot put back in place does; tests/clients/test_witness_proxy.py puts a
real one back.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from fix_cluster import Cluster, private_cluster, standard
from fix_ledger import no_charge, one, refused
from fix_waiting import soon
from pg_epsilon.engine.chain import parse
from pg_epsilon.engine.verify import Verifier

Connection = psycopg.Connection[Any]
Head = dict[str, Any]
TABLES = ("release", "ledger", "chain", "chain_head", "account", "entitlement", "returned")
GATEWAY: dict[int, Connection] = {}  # by port: a connection loads the engine once


@pytest.fixture(scope="module")
def running() -> Iterator[Cluster]:
    with private_cluster() as made:
        standard(made)
        with made.connect("dp_gateway") as GATEWAY[made.port]:
            yield made


@pytest.fixture
def cluster(running: Cluster) -> Iterator[Cluster]:
    """The same empty ledger for every test."""
    with put_back(running, "empty", (*TABLES, "freeze")):
        yield running


def ask(cluster: Cluster, witness: list[Head] | None = None, *, epsilon: float = 0.1, table: str = "people") -> Head:
    """A fresh count as a proxy asks it: the head that the reply carries."""
    conn = GATEWAY[cluster.port]
    with conn.transaction():
        conn.execute("SELECT set_config('dp.analyst', 'alice', true)")
        if witness is not None:
            conn.execute("SELECT set_config('dp.witness', %s, true)", [json.dumps(witness)])
        sql = "SELECT dp.dp_query(dp.dp_count_request(%s, epsilon => %s, fresh => true))"
        reply = one(conn, sql, table, epsilon)
    assert set(reply["chain"]) == {"id", "epoch", "number", "hash", "totals"}
    return dict(reply["chain"])


@contextmanager
def put_back(cluster: Cluster, kept: str = "kept", tables: tuple[str, ...] = TABLES) -> Iterator[None]:
    """Whatever the body writes to the ledger is gone afterwards, and nothing else tells that it was there."""
    with cluster.connect() as root:
        for table in tables:
            root.execute(f"CREATE TABLE public.{kept}_{table} AS TABLE dp.{table}")
        yield
        with root.transaction():
            root.execute("SET LOCAL session_replication_role = replica")
            for table in tables:
                root.execute(f"ALTER TABLE dp.{table} DISABLE TRIGGER ALL")
                root.execute(f"DELETE FROM dp.{table}")
                root.execute(f"INSERT INTO dp.{table} TABLE public.{kept}_{table}")
                root.execute(f"ALTER TABLE dp.{table} ENABLE TRIGGER ALL")
                root.execute(f"DROP TABLE public.{kept}_{table}")


def frozen(cluster: Cluster) -> dict[str, Any]:
    with cluster.connect() as root:
        return dict(root.execute("SELECT reason, detail FROM dp.freeze WHERE dataset = 'people'").fetchall())


def verified(cluster: Cluster) -> None:
    verifier = Verifier()
    with cluster.connect() as root:
        for kind, content in root.execute("SELECT kind, content::text FROM dp._ledger_records()"):
            verifier.feed(kind, parse(content))
    verifier.finish()


def test_a_copy_is_refused_before_the_charge_and_confirmed(cluster: Cluster) -> None:
    first = ask(cluster, [])
    with put_back(cluster):
        early = ask(cluster, [first], epsilon=0.2)
        seen = ask(cluster, [early], epsilon=0.3)
        assert (seen["number"], seen["totals"]["epsilon"]) == (first["number"] + 4, "0.6")
    with no_charge(cluster), refused("DP006", "epsilon 0.6 charged in all were seen"):
        ask(cluster, [seen])
    assert set(frozen(cluster)) == {"witness"}
    assert frozen(cluster)["witness"]["totals"]["epsilon"] == "0.6"
    with no_charge(cluster), refused("DP006", "frozen"):
        ask(cluster)  # whoever asks, with a witness or without
    with cluster.connect("boss") as boss:
        with refused("DP005", "say how much"):
            boss.execute("CALL dp.confirm_ledger('people')")
        boss.execute("CALL dp.confirm_ledger('people', add_epsilon => 0.5)")
    assert frozen(cluster) == {}
    after = ask(cluster, [seen])
    assert (after["epoch"], Decimal(after["totals"]["epsilon"])) == (2, Decimal("0.7"))
    assert ask(cluster, [early])["epoch"] == 2, "a head below the highest one named is settled"
    assert ask(cluster, [first])["epoch"] == 2
    higher = {**seen, "number": seen["number"] + 1, "totals": {"epsilon": "9", "delta": "0", "rdp": []}}
    with no_charge(cluster), refused("DP006", "epsilon 9 charged"):
        ask(cluster, [higher])
    verified(cluster)


def test_the_hint_names_what_is_missing(cluster: Cluster) -> None:
    first = ask(cluster, [])
    with put_back(cluster):
        seen = ask(cluster, [first], epsilon=0.25)
    hint = ""
    try:
        ask(cluster, [seen])
    except psycopg.Error as error:
        hint = str(error.diag.message_hint)
    assert "CALL dp.confirm_ledger('people', add_epsilon => 0.25)" in hint
    with cluster.connect("boss") as boss:
        try:
            boss.execute("CALL dp.confirm_ledger('people')")
        except psycopg.Error as error:
            assert "add_epsilon => 0.25" in str(error.diag.message_hint)


def test_another_history_with_as_many_links_is_refused(cluster: Cluster) -> None:
    first = ask(cluster, [])
    with put_back(cluster):
        seen = ask(cluster, [first])
    other = ask(cluster, [first])  # a proxy that saw less
    assert other["number"] == seen["number"] and other["hash"] != seen["hash"]
    with no_charge(cluster), refused("DP006", "frozen"):
        ask(cluster, [seen])


def test_a_copy_from_before_the_first_link_is_refused(cluster: Cluster) -> None:
    with put_back(cluster):
        seen = ask(cluster, [])
    with no_charge(cluster), refused("DP006", "here are 0 links"):
        ask(cluster, [seen])
    with cluster.connect("boss") as boss:
        boss.execute("CALL dp.confirm_ledger('people', add_epsilon => 0.1)")
    assert ask(cluster, [seen])["epoch"] == 2
    verified(cluster)


def test_a_copy_from_before_a_confirmation_is_refused(cluster: Cluster) -> None:
    first = ask(cluster, [])
    with put_back(cluster):
        with put_back(cluster, "inner"):
            seen = ask(cluster, [first])
        with refused("DP006"):
            ask(cluster, [seen])
        with cluster.connect("boss") as boss:
            boss.execute("CALL dp.confirm_ledger('people', add_epsilon => 1)")
        later = ask(cluster, [seen])
        assert later["epoch"] == 2
    with no_charge(cluster), refused("DP006", "frozen"):
        ask(cluster, [later])
    with cluster.connect("boss") as boss:
        boss.execute("CALL dp.confirm_ledger('people', add_epsilon => 1)")
    assert ask(cluster, [later])["epoch"] == 3
    verified(cluster)


def test_two_proxies_and_replies_that_overtake_do_no_harm(cluster: Cluster) -> None:
    one_, two = ask(cluster, []), ask(cluster, [])
    for _ in range(3):
        one_, two = ask(cluster, [one_]), ask(cluster, [two])
    assert ask(cluster, [one_])["epoch"] == 1
    assert frozen(cluster) == {}


def test_a_stored_answer_carries_the_head_too(cluster: Cluster) -> None:
    """The reply that first carried it may have got lost with its proxy: a copy that lacks it would go unnoticed."""
    first, conn = ask(cluster, []), GATEWAY[cluster.port]

    def stored() -> Head:
        with conn.transaction():
            conn.execute("SELECT set_config('dp.analyst', 'alice', true), set_config('dp.witness', '[]', true)")
            reply = one(conn, "SELECT dp.dp_query(dp.dp_count_request('people', 'age > 44', epsilon => 0.1))")
        return dict(reply)

    with put_back(cluster):
        lost, again = stored(), stored()
        assert again["notice"]["path"] == "cache"
        assert again["chain"] == lost["chain"]
        assert again["chain"]["number"] == first["number"] + 2
    with no_charge(cluster), refused("DP006", "epsilon 0.2 charged in all were seen"):
        ask(cluster, [again["chain"]])


def test_a_witness_locks_no_head_before_an_account(cluster: Cluster) -> None:
    """Whoever pays locks the head last: the other way round two who ask at once would stop each other."""
    first = ask(cluster, [])
    waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND backend_type = 'client backend'"
    with cluster.connect() as root, ThreadPoolExecutor(1) as pool:
        with root.transaction():
            root.execute("SELECT FROM dp.account WHERE dataset = 'people' AND role = '' AND node = 'root' FOR UPDATE")
            asking = pool.submit(ask, cluster, [first])
            with cluster.connect() as other:
                assert soon(lambda: one(other, waits) == 1)
            root.execute("SELECT FROM dp.chain_head WHERE dataset = 'people' FOR UPDATE NOWAIT")
        assert asking.result()["number"] == first["number"] + 2
        assert one(root, "SELECT witnessed IS NOT NULL FROM dp.chain_head WHERE dataset = 'people'")


def test_of_two_witnesses_the_greatest_totals_are_named(cluster: Cluster) -> None:
    """The one with the lower number may have seen more charged: another copy's history."""
    head = ask(cluster, [])
    far = {**head, "number": 50, "totals": {"epsilon": "1", "delta": "0", "rdp": []}}
    dear = {**head, "number": 40, "totals": {"epsilon": "3", "delta": "0", "rdp": []}}
    for seen in (far, dear, far):
        with refused("DP006", "charged in all were seen"):
            ask(cluster, [seen])
    assert frozen(cluster)["witness"]["heads"] == {"1": 50}
    assert frozen(cluster)["witness"]["totals"]["epsilon"] == "3"


def test_what_is_of_another_database_says_nothing(cluster: Cluster) -> None:
    other = {**ask(cluster, []), "id": "00000000-0000-0000-0000-000000000000", "number": 10**9}
    assert ask(cluster, [other])["epoch"] == 1


def test_only_the_gateway_is_believed_and_told(cluster: Cluster) -> None:
    seen = {**ask(cluster, []), "number": 10**9}
    with cluster.connect("alice") as alice:
        alice.execute("SELECT set_config('dp.witness', %s, false)", [json.dumps([seen])])
        for role in ("alice", "dp_gateway"):
            alice.execute("SELECT set_config('dp.analyst', %s, false)", [role])
            reply = one(alice, "SELECT dp.dp_query(dp.dp_count_request('people', epsilon => 0.1, fresh => true))")
            assert "chain" not in reply
        with refused("42501", hint=False):
            alice.execute("SELECT dp._charge(gen_random_uuid(), 'alice', '{}', %s)", [json.dumps([seen])])
    assert frozen(cluster) == {}


def test_check_says_whether_anybody_would_notice_a_copy(cluster: Cluster) -> None:
    sql = "SELECT count(*) FROM dp.check() WHERE object = 'dp_ledger' AND left(problem, 10) = 'no witness'"
    with cluster.connect("boss") as boss:
        ask(cluster)
        assert one(boss, sql) == 1
        ask(cluster, [ask(cluster, [])])
        assert one(boss, sql) == 0
