"""Releases served again: free, for everybody, while question and policy stay the same (composition.md §7.1, §14.4)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from fix_cluster import Cluster, standard_cluster
from fix_ledger import Connection, balanced, count, make, no_charge, one, refused


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with standard_cluster() as running:
        running.psql(
            "CREATE TABLE moments (id int PRIMARY KEY, at timestamptz, day date, kind text);"
            "INSERT INTO moments SELECT i, timestamptz '2024-01-01 00:00+00' + i * interval '1 hour', '2024-01-01', 'a'"
            " FROM generate_series(1, 100) i;"
            "CALL dp.create_dataset('moments', epsilon => 100, default_epsilon => 0.1);"
            "CALL dp.protect('moments', 'moments', scale => 100); CALL dp.describe_column('moments', 'at');"
            "CALL dp.describe_column('moments', 'day'); CALL dp.describe_column('moments', 'id');"
            "CALL dp.describe_column('moments', 'kind', domain => '{a,b}'); CALL dp.publish('moments');"
            "CALL dp.allot('alice', 'moments', epsilon => 100); CALL dp.allot('bob', 'moments', epsilon => 100)",
            user="boss",
        )
        yield running


def ask(conn: Connection, arguments: str, table: str = "moments") -> dict[str, Any]:
    answer = one(conn, f"SELECT dp.dp_query(dp.dp_count_request('{table}', {arguments}))")
    assert isinstance(answer, dict)
    return answer


def ledger(cluster: Cluster) -> int:
    with cluster.connect() as conn:
        return int(one(conn, "SELECT count(*) FROM dp.ledger"))


def test_a_repeat_is_free_for_everybody(cluster: Cluster) -> None:
    with cluster.connect("alice") as alice, cluster.connect("bob") as bob:
        first = ask(alice, "'id > 5'")
        assert first["notice"]["path"] == "direct"
        with no_charge(cluster):
            for conn in (alice, bob):
                again = ask(conn, "'id > 5'")
                assert again["rows"] == first["rows"]
                assert again["request_id"] == first["request_id"]
                assert again["notice"]["path"] == "cache"
                assert again["notice"]["charge"] == {}
                told, kept = (datetime.fromisoformat(reply["notice"]["as_of"]) for reply in (first, again))
                assert abs(told - kept) < timedelta(minutes=1), "told after it was kept: the second may be the next"


def test_a_repeat_is_free_at_an_exhausted_budget(cluster: Cluster) -> None:
    make(cluster, "spent_up")
    with cluster.connect("alice") as alice:
        first = ask(alice, "epsilon => 1", "spent_up")
        with no_charge(cluster):
            assert ask(alice, "epsilon => 1", "spent_up")["rows"] == first["rows"]
            with refused("DP001"):
                ask(alice, "epsilon => 1, fresh => true", "spent_up")
            with refused("DP001"):
                ask(alice, "'id > 3', epsilon => 0.1", "spent_up")


def test_an_analyst_without_allotment_gets_no_cached_answer(cluster: Cluster) -> None:
    make(cluster, "mine")
    with cluster.connect("alice") as alice, cluster.connect("bob") as bob:
        ask(alice, "epsilon => 0.1", "mine")
        with refused("42501", "allotment"):
            ask(bob, "epsilon => 0.1", "mine")


def test_fresh_pays_and_is_what_is_served_next(cluster: Cluster) -> None:
    with cluster.connect("alice") as alice:
        first = ask(alice, "'id > 6', epsilon => 0.01")
        before = ledger(cluster)
        second = ask(alice, "'id > 6', epsilon => 0.01, fresh => true")
        assert ledger(cluster) == before + 1
        assert second["request_id"] != first["request_id"]
        assert ask(alice, "'id > 6', epsilon => 0.01")["request_id"] == second["request_id"]


SAME = [
    ("'id > 7'", "'id>7'"),
    ("'id > 7'", "' ( id )  >  3 + 4 '"),
    ("'id > 7'", "'moments.id > 7'"),
    ("'id > 7', epsilon => 0.1", "'id > 7', epsilon => 0.10"),
    ("'id IN (1, 2)'", "'id in (1,2)'"),
]
DIFFERENT = [
    ("'id > 8'", "'id >= 8'"),
    ("'id > 8'", "'id > 8', epsilon => 0.2"),
    ("'id > 8'", "'id > 8', alpha => 0.9, beta => 0.1"),
    ("NULL", "'id > -1'"),
]


@pytest.mark.parametrize("one_, other", SAME)
def test_the_same_question_in_other_words(cluster: Cluster, one_: str, other: str) -> None:
    with cluster.connect("alice") as alice:
        first = ask(alice, one_)
        with no_charge(cluster):
            assert ask(alice, other)["request_id"] == first["request_id"]


@pytest.mark.parametrize("one_, other", DIFFERENT)
def test_another_question(cluster: Cluster, one_: str, other: str) -> None:
    with cluster.connect("alice") as alice:
        assert ask(alice, one_)["request_id"] != ask(alice, other)["request_id"]


def test_constants_are_resolved_by_the_askers_settings(cluster: Cluster) -> None:
    """10:00 in UTC is 19:00 in Tokyo; 02/01 is January 2nd or February 1st: the canonical form holds the moment."""
    with cluster.connect("alice") as alice, cluster.connect("bob") as bob:
        first = ask(alice, "'at > ''2024-01-02 10:00'''")
        bob.execute("SET timezone = 'Asia/Tokyo'")
        with no_charge(cluster):
            assert ask(bob, "'at > ''2024-01-02 19:00'''")["request_id"] == first["request_id"]
        assert ask(bob, "'at > ''2024-01-02 10:00'''")["request_id"] != first["request_id"]
        by_iso = ask(alice, "'day > ''2024-02-01'''")
        alice.execute("SET datestyle = 'ISO, DMY'")
        with no_charge(cluster):
            assert ask(alice, "'day > ''01/02/2024'''")["request_id"] == by_iso["request_id"]
        alice.execute("SET datestyle = 'ISO, MDY'")
        assert ask(alice, "'day > ''01/02/2024'''")["request_id"] != by_iso["request_id"]


def test_refresh_ends_the_validity(cluster: Cluster) -> None:
    """The owner's CALL moves the data version; a write does not (composition.md §6.2)."""
    with cluster.connect("alice") as alice, cluster.connect("boss") as boss:
        first = ask(alice, "'id > 9'")
        boss.execute("INSERT INTO moments VALUES (1000, now(), '2024-01-01', 'b'); DELETE FROM moments WHERE id = 1000")
        with no_charge(cluster):
            assert ask(alice, "'id > 9'")["request_id"] == first["request_id"]
        served = "SELECT served FROM dp.cache_status WHERE request_id = %s"
        assert one(alice, served, first["request_id"])
        boss.execute("CALL dp.refresh('moments')")
        assert not one(alice, served, first["request_id"])
        assert ask(alice, "'id > 9'")["request_id"] != first["request_id"]


def test_a_changed_declaration_ends_the_validity(cluster: Cluster) -> None:
    """The policy's digest is part of the key; changing it back serves the old release again."""
    with cluster.connect("alice") as alice, cluster.connect("boss") as boss:
        first = ask(alice, "'kind = ''a'''")
        boss.execute("CALL dp.describe_column('moments', 'kind', domain => '{a,b,c}')")
        assert ask(alice, "'kind = ''a'''")["request_id"] != first["request_id"]
        boss.execute("CALL dp.describe_column('moments', 'kind', domain => '{a,b}')")
        assert ask(alice, "'kind = ''a'''")["request_id"] == first["request_id"]


def test_a_declared_domain_is_free(cluster: Cluster) -> None:
    """SELECT DISTINCT of declared columns: a block of cost 0 (composition.md §14.12)."""
    with cluster.connect("bob") as bob, no_charge(cluster):
        sql = "SELECT dp.dp_query(dp.dp_group_by_request('people', '{sex,city}', '{}'))"
        answer = one(bob, sql)
        assert answer["rows"] == [[s, c] for s in "fmx" for c in ("north", "south", "east", None)]
        assert answer["notice"]["path"] == "declared domain"


def test_dp_plan_says_it_before(cluster: Cluster) -> None:
    with cluster.connect("alice") as alice, no_charge(cluster):
        plan = "SELECT dp.dp_plan(dp.dp_count_request('moments', %s))"
        asked = one(alice, plan, "id > 77")
        assert (asked["path"], asked["charge"]["worst"]) == ("direct", {"epsilon": "0.1"})
    with cluster.connect("alice") as alice:
        ask(alice, "'id > 77'")
        again = one(alice, plan, "id > 77")
        assert (again["path"], again["charge"]["worst"]) == ("cache", {})


@pytest.mark.parametrize(
    ("request_", "shown"),
    [
        ('{"from": {"name": "t"}, "keys": [], "aggregates": ["count(*)"]}', "SELECT count(*) FROM t"),
        (
            '{"from": {"name": "t"}, "joins": [{"name": "u", "on": "t.i = u.i"}, {"name": "v", "on": null}],'
            ' "where": "i > 1", "keys": ["k"], "aggregates": [{"function": "sum", "argument": "x", "filter": "y"},'
            ' {"function": "count", "argument": null, "distinct": true}]}',
            "SELECT k, sum(x) FILTER (WHERE y), count(DISTINCT unit) FROM t JOIN u ON t.i = u.i JOIN v WHERE i > 1"
            " GROUP BY k",
        ),
        (
            '{"from": {"name": "t"}, "aggregates": ["count(*)"], "settings": {"dp.synthetic": "s", "dp.tau": "5%"}}',
            "SELECT count(*) FROM t (within 5% of s?)",
        ),
        (
            '{"call": "dp_count", "from": {"name": "t"}, "aggregates": ["count(*)"],'
            ' "settings": {"dp.synthetic": "s", "dp.tau": "5"}}',
            "SELECT count(*) FROM t",
        ),
        (
            '{"from": {"name": "Odd Name", "alias": "o"}, "aggregates": ["sum(o.x)"], "workload": null,'
            ' "joins": [{"name": "do", "alias": "do", "on": "true"}, {"name": "b", "alias": "B", "on": "o.x = 1"}]}',
            'SELECT sum(o.x) FROM "Odd Name" o JOIN "do" ON true JOIN b "B" ON o.x = 1',
        ),
        ('{"from": {"name": "t"}, "synthesize": {}}', "a synthetic copy of t"),
        (None, None),
    ],
)
def test_a_question_is_shown_in_the_words_of_sql(cluster: Cluster, request_: str | None, shown: str | None) -> None:
    with cluster.connect() as conn:
        assert one(conn, "SELECT dp._question(%s::jsonb)", request_) == shown


def test_views_show_ones_own_calls_only(cluster: Cluster) -> None:
    """dp.spending: of others mechanism, charge, time and an opaque id; dp.budget: own datasets (composition.md §9)."""
    with cluster.connect("alice") as alice, cluster.connect("bob") as bob:
        # ten digits, because the rows hold random ids: one in 2,000 of them has any four
        mine = ask(alice, "'id > 1987654321'")["request_id"]
        sql = "SELECT who, call, accounts, question, mechanism, charge FROM dp.spending WHERE request_id = %s"
        row = alice.execute(sql, [mine]).fetchone()
        assert row is not None
        assert row[:2] == ("alice", "dp_count")
        assert row[3] == "SELECT count(*) FROM moments WHERE id > 1987654321"
        row = bob.execute(sql, [mine]).fetchone()
        assert row is not None
        assert row[:4] == (None, None, None, None)
        assert row[4:] == ("discrete Laplace", [{"kind": "laplace", "epsilon": "0.1"}])
        assert "1987654321" not in str(bob.execute("SELECT t::text FROM dp.spending t").fetchall())
        datasets = "SELECT array_agg(dataset ORDER BY dataset) FROM dp.budget"
        assert "shop" in one(alice, datasets)
        assert one(bob, datasets) == ["moments", "people"]
        of_shop = "SELECT count(*) FROM dp.spending WHERE dataset = 'shop'"
        count(alice, table="orders")
        assert one(bob, of_shop) == 0
        assert one(alice, of_shop) == 1
    with cluster.connect("boss") as boss:
        assert len(one(boss, datasets)) >= 4


def test_the_books_balance(cluster: Cluster) -> None:
    balanced(cluster)
