"""Sizes of joins are bounded by what is declared, before a charge; nothing is looked at after a read (finding A2)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from fix_cluster import Cluster, standard_cluster
from fix_ledger import forgive, no_charge, one, refused, spent

# What a table of users at one place says of itself; each user has a row.
VISITS = """
CREATE TABLE {name} (uid int PRIMARY KEY, place text);
INSERT INTO {name} SELECT i, 'here' FROM generate_series(1, {users}) i;
CALL dp.protect('{name}', 'crowd', unit_column => 'uid', max_rows_per_unit => 1, max_rows => {rows});
CALL dp.describe_column('{name}', 'uid'); CALL dp.describe_column('{name}', 'place', domain => '{{here}}');
CALL dp.publish('{name}');
"""
THREE = "a.place = b.place AND b.place = c.place AND a.uid < b.uid AND b.uid < c.uid"
# One user may have all of the notes: more than work_mem to sort.
NOTES = """
CREATE TABLE notes (uid int, kind text, what text);
INSERT INTO notes SELECT 2 + i, 'x', 'short' FROM generate_series(1, 20) i;
CALL dp.protect('notes', 'crowd', unit_column => 'uid', max_rows_per_unit => 1);
CALL dp.describe_column('notes', 'kind', domain => '{x,y,z}'); CALL dp.publish('notes');
"""
CHANNELS = " WHERE rolname ~ '^dp_channel' AND rolcanlogin"
MANY = "INSERT INTO notes SELECT 1, 'x', repeat('long ', 60) || i FROM generate_series(1, 60000) i"
# A question's answer where the core, as it once did, refuses what is larger than it likes: the control.
CHECKED_AFTER = """;
CREATE FUNCTION public.checked_after(request jsonb, most int) RETURNS jsonb LANGUAGE plpython3u
SET row_security = off AS $$
import json, uuid
from pg_epsilon import entry
from pg_epsilon.mechanisms import r2t_join
core = r2t_join.core
def checked(rows, ladder, noise, label):
    if len(rows or b"") > most * 8 * (ladder.owners + 1):
        raise RuntimeError
    return core(rows, ladder, noise, label)
try:
    r2t_join.core = checked
    id = str(uuid.uuid4())
    reply = json.loads(entry.charge(id, "alice", request))
    return entry.answer(id) if reply.get("charged") else json.dumps(reply)
finally:
    r2t_join.core = core
$$;
"""


@pytest.fixture(scope="module")
def crowd() -> Iterator[Cluster]:
    with standard_cluster(temp_file_limit="64kB") as cluster:
        cluster.psql(CHECKED_AFTER)
        cluster.psql(
            "CALL dp.create_dataset('crowd', unit => 'user', epsilon => 1000);"
            "CALL dp.allot('alice', 'crowd', epsilon => 1000);"
            + VISITS.format(name="large", users=287, rows=300)
            + VISITS.format(name="small", users=20, rows=20)
            + NOTES,
            user="boss",
        )
        yield cluster


@pytest.fixture
def alice(crowd: Cluster) -> Iterator[psycopg.Connection[Any]]:
    with crowd.connect("alice") as connection:
        yield connection


def triples(table: str, function: str = "dp_count") -> str:
    return (
        f"SELECT dp.{function}('{table}', '{THREE}', joins => '{{{table},{table}}}', aliases => '{{a,b,c}}',"
        " epsilon => 0.5, fresh => true)"
    )


def asked_for(alice: psycopg.Connection[Any], table: str) -> dict[str, Any]:
    return dict(one(alice, triples(table, "dp_count_request").replace(", fresh => true", "")))


@pytest.mark.parametrize("users", [287, 288, 400])
def test_a_self_join_is_refused_uncharged_by_what_is_declared(
    crowd: Cluster, alice: psycopg.Connection[Any], users: int
) -> None:
    """287 users made 4.0 million triples and were answered; with 288 the charge was lost and the shape closed."""
    crowd.execute(f"INSERT INTO large SELECT i, 'here' FROM generate_series(1, {users}) i ON CONFLICT DO NOTHING")
    with no_charge(crowd), refused("DP004", "describe_column('public.large', 'place', max_rows_per_value => ...)"):
        alice.execute(triples("large"))
    with no_charge(crowd), refused("DP004", "864,000,000 bytes, twice of which"):
        alice.execute("SELECT dp.dp_plan(%s)", [json.dumps(asked_for(alice, "large"))])


def test_what_is_declared_is_answered_and_what_outgrew_it_too(crowd: Cluster, alice: psycopg.Connection[Any]) -> None:
    """20 users are declared; with 21, 22, 23 the same question is answered all the same."""
    for user in (21, 22, 23):
        before = spent(crowd, "crowd")
        assert one(alice, triples("small")) is not None
        assert spent(crowd, "crowd") > before
        crowd.execute(f"INSERT INTO small VALUES ({user}, 'here')")


def test_a_size_checked_after_the_read_is_caught(crowd: Cluster, alice: psycopg.Connection[Any]) -> None:
    """Control: one user more decides between an answer and an error, after the charge."""
    crowd.execute("DELETE FROM small WHERE uid > 20")
    request = json.dumps({**asked_for(alice, "small"), "fresh": True})
    ends = []
    with crowd.connect() as root:
        for user in (21, 22):
            ends.append("answer" in one(root, "SELECT public.checked_after(%s, 20 * 19 * 18 / 6)", request))
            crowd.execute(f"INSERT INTO small VALUES ({user}, 'here')")
            forgive(crowd)
    assert ends == [True, False]


def test_a_cap_alone_keeps_what_was_declared_and_voids_no_answer(
    crowd: Cluster, alice: psycopg.Connection[Any]
) -> None:
    asked = "SELECT dp.dp_query(dp.dp_group_by_request('large', '{place}', epsilon => 0.1))"
    first = one(alice, asked)
    crowd.psql("CALL dp.describe_column('large', 'place', max_rows_per_value => 30)", user="boss")
    with crowd.connect() as root:
        kept = root.execute("SELECT kind, domain, max_rows_per_value FROM dp.column_policy WHERE attname = 'place'")
        assert ("domain", ["here"], 30) in kept.fetchall()
    again = one(alice, asked)
    assert again["notice"]["path"] == "cache" and again["rows"] == first["rows"]
    crowd.execute("DELETE FROM large WHERE uid > 30")  # the cap is a promise: 300 * 30 * 30 triples now fit
    assert one(alice, triples("large")) is not None


def test_what_counts_cells_collects_no_rows(crowd: Cluster) -> None:
    """A synthesis reads one table however large it is declared: what it collects are its cells."""
    crowd.execute(
        "UPDATE dp.relation_policy SET max_rows = 100000000000 WHERE relation = 'people'::regclass",
        "SELECT dp._bump_policy()",
    )
    crowd.psql(
        "CALL dp.allot('dp_planner', 'people', epsilon => 1);"
        "CALL dp.make_synthetic('people', epsilon => 0.5, columns => '{sex,city}');",
        user="boss",
    )


def test_the_administrator_declares_the_limits(crowd: Cluster, alice: psycopg.Connection[Any]) -> None:
    printed = "SELECT problem FROM dp.check() WHERE object = 'dp.engine_limits'"
    with crowd.connect("boss") as boss:
        assert "1000000000 rows" in one(boss, printed)
        boss.execute("CALL dp.set_limits(rows => 2000, undeclared_rows => 50)")
        assert "2000 rows and 100000000000 bytes" in one(boss, printed)
        with no_charge(crowd), refused("DP004", "CALL dp.set_limits(rows => 16000)"):
            alice.execute(triples("small"))
        boss.execute("CALL dp.set_limits(rows => 16000)")
        assert one(alice, triples("small")) is not None
        boss.execute("CALL dp.set_limits(rows => 1000000000)")


def test_a_table_that_outgrows_its_max_rows_is_the_owners_to_see(crowd: Cluster) -> None:
    warned = "SELECT problem FROM dp.check() WHERE object = 'public.small' AND problem ~ 'max_rows says'"
    with crowd.connect("boss") as boss, crowd.connect() as root:
        root.execute("DELETE FROM small; INSERT INTO small SELECT i, 'here' FROM generate_series(1, 14) i")
        root.execute("ANALYZE small")
        assert boss.execute(warned).fetchall() == []
        root.execute("INSERT INTO small VALUES (15, 'here')")
        root.execute("ANALYZE small")
        assert one(boss, warned) == "it has about 15 rows, and max_rows says at most 20"


def test_no_users_rows_decide_about_temporary_files(crowd: Cluster, alice: psycopg.Connection[Any]) -> None:
    """The server allows 64 kB of them; the channel has no limit. The control: with the server's, one user decides."""
    asked = "SELECT * FROM dp.dp_group_by('notes', '{kind}', '{count(*)}', epsilon => 0.5, fresh => true)"
    alice.execute(asked)
    crowd.execute(MANY)
    alice.execute(asked)
    with crowd.connect() as root:
        (login, settings), *others = root.execute("SELECT rolname, rolconfig FROM pg_roles" + CHANNELS).fetchall()
    assert settings == ["temp_file_limit=-1"] and not others
    crowd.execute(f"ALTER ROLE {login} RESET temp_file_limit")
    try:
        with crowd.connect("alice") as other, refused("DP006"):
            other.execute(asked)
        forgive(crowd)
        crowd.execute("DELETE FROM notes WHERE uid = 1")
        with crowd.connect("alice") as other:
            other.execute(asked)
    finally:
        crowd.psql("CALL dp.repair_channel()")
    with crowd.connect() as root:
        assert one(root, "SELECT rolconfig FROM pg_roles" + CHANNELS) == settings
