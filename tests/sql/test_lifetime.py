"""What outlives tables, datasets and the extension: nothing that was spent is forgotten (composition.md §3.7, §12)."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from fix_cluster import Cluster, standard_cluster
from fix_ledger import account, balanced, charges, count, make, no_charge, one, refused
from pg_epsilon.accounting.curves import DEFAULT_ORDERS, pure_to_rdp

_CHARGE = Decimal("0.05")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with standard_cluster() as running:
        yield running


@pytest.fixture(autouse=True)
def _books(cluster: Cluster) -> Iterator[None]:
    yield
    balanced(cluster)


FORBIDDEN = [
    "UPDATE dp.dataset SET epsilon = 100",
    "UPDATE dp.dataset SET unit = 'user' WHERE name = 'people'",
    "UPDATE dp.dataset SET accountant = 'pure', orders = NULL WHERE name = 'frozen_set'",
    "UPDATE dp.dataset SET delta_rdp = delta, delta_add = 0 WHERE name = 'frozen_set'",
    "UPDATE dp.dataset SET orders = '{2,3}' WHERE name = 'frozen_set'",
    "UPDATE dp.dataset SET name = 'other' WHERE name = 'frozen_set'",
    "DELETE FROM dp.dataset",
    "TRUNCATE dp.dataset CASCADE",
    "UPDATE dp.account SET spent_epsilon = 0",
    "UPDATE dp.account SET spent_rdp = NULL WHERE dataset = 'frozen_set' AND node = 'relation'",
    "UPDATE dp.account SET spent_rdp = '{}' WHERE dataset = 'frozen_set' AND node = 'relation'",
    "UPDATE dp.account SET role = 'x' WHERE role = ''",
    "DELETE FROM dp.account",
    "TRUNCATE dp.account",
    "UPDATE dp.ledger SET epsilon = 0",
    "DELETE FROM dp.ledger",
    "TRUNCATE dp.ledger CASCADE",
    "UPDATE dp.release SET answer = '{}'",
    "DELETE FROM dp.release",
    "TRUNCATE dp.release CASCADE",
    "DELETE FROM dp.protection",
    "TRUNCATE dp.protection",
]


@pytest.fixture(scope="module")
def _frozen_set(cluster: Cluster) -> None:
    make(cluster, "frozen_set", epsilon="1", delta="1e-6", accountant="'renyi'")
    with cluster.connect("alice") as alice:
        count(alice, table="frozen_set")
        count(alice)


@pytest.mark.usefixtures("_frozen_set")
@pytest.mark.parametrize("role", ["dp_owner", "postgres"])
@pytest.mark.parametrize("statement", FORBIDDEN)
def test_immutable_for_everybody(cluster: Cluster, statement: str, role: str) -> None:
    with cluster.connect() as root, no_charge(cluster):
        root.execute(f"SET ROLE {role}")
        with refused("42501"):
            root.execute(statement)


# transfer, unprotect, drop ---------------------------------------------------------------------------------------


def _protect_again(cluster: Cluster, table: str, dataset: str) -> None:
    cluster.psql(f"CALL dp.protect('{table}', '{dataset}'); CALL dp.publish('{table}')", user="boss")


def test_unprotect_and_protect_keep_the_accounts(cluster: Cluster) -> None:
    make(cluster, "kept")
    with cluster.connect("alice") as alice:
        count(alice, table="kept", epsilon=0.7)
        cluster.psql("CALL dp.unprotect('kept')", user="boss")
        with no_charge(cluster), refused("42501"):
            count(alice, table="kept")
        _protect_again(cluster, "kept", "kept")
        with no_charge(cluster), refused("DP001", "0.3 is left"):
            count(alice, table="kept", epsilon=0.4)


def test_drop_and_create_again_keep_the_accounts(cluster: Cluster) -> None:
    make(cluster, "risen")
    with cluster.connect("alice") as alice:
        count(alice, table="risen", epsilon=0.7)
        cluster.psql("DROP TABLE risen; CREATE TABLE risen (id int PRIMARY KEY)", user="boss")
        with no_charge(cluster), refused("42501"):
            count(alice, table="risen")
        _protect_again(cluster, "risen", "risen")
        with no_charge(cluster), refused("DP001", "0.3 is left"):
            count(alice, table="risen", epsilon=0.4)


def test_a_move_carries_what_was_spent(cluster: Cluster) -> None:
    """root_new += old root + relation + the fullest leaf; a narrower dataset is refused (§3.7)."""
    make(cluster, "mover", columns=", day int", protect=""", partition_by => 'day', grid => '{"list": ["1", "2"]}'""")
    cluster.psql(
        "CALL dp.describe_column('mover', 'day'); CALL dp.create_dataset('narrow', epsilon => 0.9);"
        "CALL dp.create_dataset('wide', epsilon => 2);"
        "CALL dp.create_dataset('other_unit', unit => 'user', epsilon => 2);"
        "CALL dp.create_dataset('curved', epsilon => 2, delta => 1e-6, accountant => 'renyi');"
        "CALL dp.allot('alice', 'wide', epsilon => 2)",
        user="boss",
    )
    with cluster.connect("alice") as alice:
        count(alice, table="mover", epsilon=0.25)
        count(alice, table="mover", epsilon=0.25, predicate="day = 1")
        count(alice, table="mover", epsilon=0.125, predicate="day = 2")
    cluster.psql("CALL dp.unprotect('mover')", user="boss")
    with cluster.connect("boss") as boss, no_charge(cluster):
        for dataset, more in (("narrow", ""), ("curved", ""), ("other_unit", ", unit_column => 'id'")):
            with refused("DP005", "wider"):
                boss.execute(f"CALL dp.protect('mover', '{dataset}'{more})")
    with cluster.connect("boss") as boss, cluster.connect() as root:
        root.execute("INSERT INTO dp.freeze (dataset, reason) VALUES ('mover', 'witness')")
        with no_charge(cluster), refused("DP006", "'mover', which is frozen"):
            boss.execute("CALL dp.protect('mover', 'wide')")
        root.execute("DELETE FROM dp.freeze WHERE dataset = 'mover'")
    _protect_again(cluster, "mover", "wide")
    assert account(cluster, "wide") == {"root": Decimal("0.5")}
    with cluster.connect("alice") as alice, refused("DP001", "1.5 is left"):
        count(alice, table="mover", epsilon=1.75)
    cluster.psql("CALL dp.unprotect('mover')", user="boss")
    _protect_again(cluster, "mover", "wide")
    assert account(cluster, "wide") == {"root": Decimal("0.5")}, "carried once"


def test_a_move_between_renyi_datasets_adds_curves(cluster: Cluster) -> None:
    make(cluster, "bend", epsilon="1", delta="1e-6", accountant="'renyi'")
    cluster.psql(
        "CALL dp.create_dataset('bend2', epsilon => 2, delta => 1e-6, accountant => 'renyi');"
        "CREATE TABLE bend_b (id int PRIMARY KEY); CALL dp.protect('bend_b', 'bend2'); CALL dp.publish('bend_b');"
        "CALL dp.allot('alice', 'bend2', epsilon => 2)",
        user="boss",
    )
    with cluster.connect("alice") as alice:
        count(alice, table="bend", epsilon=0.05)
        count(alice, table="bend_b", epsilon=0.05)  # makes the new dataset's root row, without a curve
        cluster.psql("CALL dp.unprotect('bend')", user="boss")
        _protect_again(cluster, "bend", "bend2")
        with cluster.connect() as conn:
            sql = "SELECT spent_rdp::text[] FROM dp.account WHERE dataset = 'bend2' AND role = '' AND node = 'root'"
            assert [Decimal(v) for v in one(conn, sql)] == [pure_to_rdp(_CHARGE, a) for a in DEFAULT_ORDERS]
        count(alice, table="bend", epsilon=0.05)


def test_another_grid_is_refused(cluster: Cluster) -> None:
    make(cluster, "grids", columns=", day int", protect=""", partition_by => 'day', grid => '{"list": ["1", "2"]}'""")
    cluster.psql("CALL dp.unprotect('grids')", user="boss")
    with cluster.connect("boss") as boss:
        with no_charge(cluster), refused("DP005", "another grid"):
            boss.execute("""CALL dp.protect('grids', 'grids', partition_by => 'day', grid => '{"list": ["1"]}')""")
        boss.execute("CALL dp.protect('grids', 'grids')")
        boss.execute("CALL dp.unprotect('grids')")
        with no_charge(cluster), refused("DP005", "another grid"):
            boss.execute("""CALL dp.protect('grids', 'grids', partition_by => 'day', grid => '{"list": ["3"]}')""")
        boss.execute("""CALL dp.protect('grids', 'grids', partition_by => 'day', grid => '{"list": ["1", "2"]}')""")


def test_policy_follows_renamed_columns(cluster: Cluster) -> None:
    make(cluster, "renamed", columns=", a int, b text")
    cluster.psql(
        "CALL dp.describe_column('renamed', 'a', bounds => '{0,9}'); ALTER TABLE renamed RENAME a TO c;"
        "ALTER TABLE renamed RENAME b TO a",
        user="boss",
    )
    with cluster.connect("alice") as alice:
        count(alice, table="renamed", predicate="c > 3")
        with no_charge(cluster), refused("DP004"):
            count(alice, table="renamed", predicate="a = 'x'")
    cluster.psql("ALTER TABLE renamed DROP COLUMN c", user="boss")
    with cluster.connect() as root:
        left = "SELECT array_agg(attname::text) FROM dp.column_policy WHERE relation = 'renamed'::regclass"
        assert one(root, left) == ["id"]


def test_a_renamed_relation_keeps_its_accounts(cluster: Cluster) -> None:
    make(cluster, "before_")
    with cluster.connect("alice") as alice:
        count(alice, table="before_", epsilon=0.7)
        cluster.psql("ALTER TABLE before_ RENAME TO after_", user="boss")
        with refused("DP001", "0.3 is left"):
            count(alice, table="after_", epsilon=0.4)


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE orders DROP COLUMN customer_id CASCADE",
        "ALTER TABLE orders RENAME customer_id TO who",
        "ALTER TABLE items DROP COLUMN order_id",
        "ALTER TABLE items RENAME order_id TO o",
    ],
)
def test_a_units_column_stays(cluster: Cluster, statement: str) -> None:
    with cluster.connect("boss") as boss, refused("42501", "dp.unprotect"):
        boss.execute(statement)
    with cluster.connect("alice") as alice:
        count(alice, table="items")


def test_a_broken_unit_path_answers_nothing(cluster: Cluster) -> None:
    """Without its foreign key a path would end at another unit (orders instead of customers): DP006, and dp.check."""
    with cluster.connect("boss") as boss, cluster.connect("alice") as alice:
        boss.execute("ALTER TABLE items DROP CONSTRAINT items_order_id_fkey")
        with no_charge(cluster), refused("DP006", "privacy unit is broken"):
            count(alice, table="items")
        found = boss.execute(
            "SELECT object FROM dp.check() WHERE problem LIKE 'the way to its privacy unit%'"
        ).fetchall()
        assert found == [("public.items",)]
        boss.execute("ALTER TABLE items ADD FOREIGN KEY (order_id) REFERENCES orders")
        count(alice, table="items")
        boss.execute("CALL dp.unprotect('orders')")
        with no_charge(cluster), refused("DP006", "privacy unit is broken"):
            count(alice, table="items")
        boss.execute("CALL dp.protect('orders', 'shop', unit_column => 'customer_id', max_rows_per_unit => 5)")
        boss.execute("CALL dp.publish('orders')")
        count(alice, table="items")


def test_row_units_joined_later_answer_nothing(cluster: Cluster) -> None:
    """A foreign key between two protected relations of a row-unit dataset, made after protection (§1.2)."""
    make(cluster, "parent_")
    cluster.psql(
        "CREATE TABLE child_ (id int PRIMARY KEY, p int);"
        "CALL dp.protect('child_', 'parent_'); CALL dp.publish('child_')",
        user="boss",
    )
    with cluster.connect("alice") as alice, cluster.connect("boss") as boss:
        count(alice, table="child_")
        boss.execute("ALTER TABLE child_ ADD CONSTRAINT k FOREIGN KEY (p) REFERENCES parent_")
        for table in ("child_", "parent_"):
            with no_charge(cluster), refused("DP006", "foreign key"):
                count(alice, table=table)
        boss.execute("ALTER TABLE child_ DROP CONSTRAINT k")
        count(alice, table="child_")


# dropping the extension ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "DROP EXTENSION pg_epsilon CASCADE",
        "DROP EXTENSION plpython3u CASCADE",
        "DROP SCHEMA dp CASCADE",
        "DROP OWNED BY dp_owner CASCADE",
        "DO $$ BEGIN EXECUTE 'DROP EXT' || 'ENSION pg_eps' || 'ilon CASCADE'; END $$",
    ],
)
def test_the_extension_stays_until_the_ledger_is_exported(cluster: Cluster, statement: str) -> None:
    with cluster.connect("alice") as alice, cluster.connect() as root:
        count(alice)
        with no_charge(cluster), refused("42501", "export_ledger"):
            root.execute(statement)


def test_export_hands_out_everything_and_frees_the_drop(cluster: Cluster) -> None:
    with cluster.connect() as root, cluster.connect("alice") as alice:
        with refused("42501", hint=False):
            alice.execute("SELECT * FROM dp.export_ledger()")
        root.autocommit = False
        rows: list[Any] = root.execute("SELECT * FROM dp.export_ledger()").fetchall()
        kinds = {kind for kind, _ in rows}
        assert kinds == {"dataset", "head", "account", "ledger", "release", "chain"}
        assert sum(kind == "ledger" for kind, _ in rows) == charges(cluster)
        root.execute("DROP EXTENSION pg_epsilon CASCADE")
        assert one(root, "SELECT to_regclass('dp.ledger')") is None
        root.rollback()
    with cluster.connect("alice") as alice:
        count(alice)


def test_psycopg_sees_a_class_of_its_own(cluster: Cluster) -> None:
    """DP001 … DP006 are plain errors of an SQLSTATE class that no other software uses."""
    with cluster.connect("alice") as alice, pytest.raises(psycopg.Error) as caught:
        count(alice, epsilon=900)
    assert caught.value.sqlstate == "DP001"
    assert caught.value.diag.context is None or "dp_link" not in caught.value.diag.context
