"""placeholder"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from fix_cluster import Cluster, private_cluster, standard
from fix_ledger import Connection, account, balanced, count, make, no_charge, one, refused
from pg_epsilon.query.expression import Fold
from pg_epsilon.query.policy import policy_from_json
from pg_epsilon.query.request import compile_request
from pg_epsilon.query.statistics import statement


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with private_cluster() as running:
        standard(running)
        yield running


@pytest.fixture(autouse=True)
def _books(cluster: Cluster) -> Iterator[None]:
    yield
    balanced(cluster)


def statistics(cluster: Cluster, name: str, **question: Any) -> list[tuple[Any, ...]]:
    """The exact statistics of a request, read by the statement that the engine makes of it."""
    document = {"aggregates": [{"function": "count", "argument": "*"}], "budget": {"epsilon": "1"}, **question}
    with cluster.connect() as conn:
        policy = one(conn, "SELECT dp._policy_of('public', %s)", name)
        for refusal in ("unit_path_broken", "part_protected"):
            assert policy.pop(refusal) is False
        request = compile_request(
            {"version": 1, "from": {"schema": "public", "name": name}, **document},
            policy_from_json(policy),
            fold_of(conn),
            encoding="UTF8",
            server_version=150000,
            clock=0.0,
        )
        return sorted(conn.execute(statement(request)).fetchall())


def fold_of(conn: Connection) -> Fold:
    def fold(sql: Sequence[str]) -> Sequence[str | None]:
        row = conn.execute("SELECT " + ", ".join(f"({text})::text" for text in sql)).fetchone()
        return list(row or ())

    return fold


def test_3_1_a_relation_renamed_while_unprotected_finds_its_accounts(cluster: Cluster) -> None:
    make(cluster, "was")
    with cluster.connect("alice") as alice:
        count(alice, table="was", epsilon=0.7)
        cluster.psql(
            "CALL dp.unprotect('was'); ALTER TABLE was RENAME TO renamed_later; CREATE SCHEMA elsewhere;"
            "GRANT USAGE ON SCHEMA elsewhere TO alice;"
            "ALTER TABLE renamed_later SET SCHEMA elsewhere; CALL dp.protect('elsewhere.renamed_later', 'was');"
            "CALL dp.describe_column('elsewhere.renamed_later', 'id'); CALL dp.publish('elsewhere.renamed_later')",
            user="boss",
        )
        with no_charge(cluster), refused("DP001", "0.3 is left"):
            count(alice, table="elsewhere.renamed_later", epsilon=0.4)
        count(alice, table="elsewhere.renamed_later", epsilon=0.3)
    assert account(cluster, "was") == {"relation/public.was": 1}


def test_3_1_a_new_table_under_an_old_name_takes_that_names_accounts(cluster: Cluster) -> None:
    """The other half of a swap by two renames: whichever of the two holds the old rows, their spending is there."""
    make(cluster, "swapped")
    with cluster.connect("alice") as alice:
        count(alice, table="swapped", epsilon=0.7)
        cluster.psql(
            "ALTER TABLE swapped RENAME TO swapped_old; CREATE TABLE swapped AS SELECT id FROM swapped_old;"
            "CALL dp.protect('swapped', 'swapped'); CALL dp.describe_column('swapped', 'id');"
            "CALL dp.publish('swapped')",
            user="boss",
        )
        for table in ("swapped", "swapped_old"):
            with no_charge(cluster), refused("DP001", "0.3 is left"):
                count(alice, table=table, epsilon=0.4)


def test_3_1_a_part_and_its_whole_are_not_two_relations(cluster: Cluster) -> None:
    make(cluster, "part")
    cluster.psql(
        "CREATE TABLE whole (id int) PARTITION BY RANGE (id);"
        "CALL dp.create_dataset('whole', epsilon => 1); CALL dp.protect('whole', 'whole'); CALL dp.publish('whole');"
        "CALL dp.allot('alice', 'whole', epsilon => 1)",
        user="boss",
    )
    with cluster.connect("alice") as alice, cluster.connect("boss") as boss:
        count(alice, table="whole")
        count(alice, table="part")
        boss.execute("ALTER TABLE part DROP CONSTRAINT part_pkey")
        boss.execute("ALTER TABLE part ALTER id DROP NOT NULL")
        boss.execute("ALTER TABLE whole ATTACH PARTITION part FOR VALUES FROM (0) TO (1000)")
        for table in ("part", "whole"):
            with no_charge(cluster), refused("DP006", "shares rows"):
                count(alice, table=table)
        found = boss.execute("SELECT object FROM dp.check() WHERE problem LIKE 'it shares rows%' ORDER BY 1").fetchall()
        assert found == [("public.part",), ("public.whole",)]
        boss.execute("CALL dp.unprotect('whole')")
        with refused("DP005", "protected by itself"):
            boss.execute("CALL dp.protect('whole', 'whole')")
        count(alice, table="part")
        boss.execute("ALTER TABLE whole DETACH PARTITION part; CALL dp.protect('whole', 'whole')")


def test_1_3_children_of_a_step_give_no_row_a_second_unit(cluster: Cluster) -> None:
    """A foreign key is unique on its table's own rows; inheritance children may repeat a key (and belong to others)."""
    units = [{"function": "count", "distinct": True}]
    before = statistics(cluster, "items"), statistics(cluster, "items", aggregates=units)
    cluster.psql(
        "CREATE TABLE more_orders () INHERITS (orders);"
        "INSERT INTO more_orders (id, customer_id) SELECT id, 100 + id % 50 FROM orders",
        user="boss",
    )
    try:
        assert (statistics(cluster, "items"), statistics(cluster, "items", aggregates=units)) == before
    finally:
        cluster.psql("DROP TABLE more_orders", user="boss")


def test_2_3_the_cap_orders_all_columns_where_the_primary_key_is_not_unique(cluster: Cluster) -> None:
    """A child of a table may repeat its primary key: by it alone, which rows are kept would depend on other units."""
    cluster.psql(
        "CREATE TABLE visits (id int PRIMARY KEY, who int, kind text); CREATE TABLE more_visits () INHERITS (visits);"
        "INSERT INTO visits VALUES (1, 7, 'b'); INSERT INTO more_visits VALUES (1, 7, 'a'), (1, 7, 'c');"
        "CALL dp.create_dataset('visits', unit => 'user', epsilon => 1);"
        "CALL dp.protect('visits', 'visits', unit_column => 'who', max_rows_per_unit => 1);"
        "CALL dp.describe_column('visits', 'kind', domain => '{a,b,c}', nullable => false)",
        user="boss",
    )
    assert statistics(cluster, "visits", keys=["kind"]) == [("a", 1)]
    with cluster.connect("boss") as boss, cluster.connect() as conn:
        boss.execute("ALTER TABLE more_visits NO INHERIT visits")
        version = one(conn, "SELECT version FROM dp.policy_state")
        assert one(conn, "SELECT dp._policy_of('public', 'visits')")["primary_key"] == ["id"]
        boss.execute("CREATE TABLE still_more () INHERITS (visits)")
        assert one(conn, "SELECT version FROM dp.policy_state") == version + 1, "a policy kept by a backend is too old"
        assert one(conn, "SELECT dp._policy_of('public', 'visits')")["primary_key"] is None
        boss.execute("CREATE TEMPORARY TABLE notes (id serial PRIMARY KEY)")
        assert one(conn, "SELECT version FROM dp.policy_state") == version + 1
