"""Policy procedures: who may call them, what they record, and every argument that they refuse, changing nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fix_cluster import Cluster, standard_cluster
from fix_ledger import count, one, refused
from fix_waiting import PATIENCE

TABLES = ["dataset", "relation_policy", "protection", "column_policy", "publication", "role_allotment", "policy_state"]
TABLES += ["account", "ledger", "closed_question", "closed_allotment", "freeze", "incarnation", "engine_limits"]

WORLD = """
CREATE TABLE plain (id int PRIMARY KEY, a int);
CREATE TABLE typed (id int PRIMARY KEY, s smallint, i int, b bigint, n numeric(10,2), r real, f float8, t text,
  v varchar(9), c char(3), ok boolean, d date, ts timestamp, tz timestamptz, iv interval, tm time, u uuid, j jsonb,
  by bytea, a int[], p point, mood mood, pos positive, ip inet);
CREATE TABLE unkeyed (id int PRIMARY KEY, plain_id int);
CREATE TABLE later (id int PRIMARY KEY, plain_id int);
ALTER TABLE later ADD FOREIGN KEY (plain_id) REFERENCES plain NOT VALID;
CREATE TABLE far (id int PRIMARY KEY, order_id int REFERENCES orders);
CREATE TABLE hidden (id int PRIMARY KEY); ALTER TABLE hidden ENABLE ROW LEVEL SECURITY;
CREATE VIEW seen AS SELECT * FROM plain;
CREATE MATERIALIZED VIEW kept AS SELECT * FROM plain;
CREATE TABLE whole (id int, day date) PARTITION BY RANGE (day);
CREATE TABLE part PARTITION OF whole FOR VALUES FROM ('2024-01-01') TO ('2025-01-01');
CREATE TABLE area (name text PRIMARY KEY);
CALL dp.create_dataset('rows', epsilon => 1, delta => 1e-9);
CALL dp.create_dataset('curves', epsilon => 1, delta => 1e-6, accountant => 'renyi');
CALL dp.create_dataset('users', unit => 'user', epsilon => 1);
CALL dp.protect('typed', 'rows');
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with standard_cluster() as running:
        running.psql("CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy'); CREATE DOMAIN positive AS int CHECK (VALUE > 0)")
        running.psql(WORLD, user="boss")
        running.psql("CREATE TABLE foreign_owned (id int PRIMARY KEY, a int)")
        running.psql("CREATE ROLE keeper LOGIN; GRANT dp_admin TO keeper; GRANT CONNECT ON DATABASE private TO keeper")
        yield running


@contextmanager
def unchanged(cluster: Cluster) -> Iterator[None]:
    def state() -> list[Any]:
        with cluster.connect() as conn:
            return [conn.execute(f"SELECT t::text FROM dp.{table} t ORDER BY 1").fetchall() for table in TABLES]

    before = state()
    yield
    assert state() == before


REFUSALS = Path(__file__).parent.parent / "fixtures" / "policy_refusals.txt"
REFUSED = [line.split(" ", 1) for line in REFUSALS.read_text().splitlines() if not line.startswith("#")]


@pytest.mark.parametrize("state, call", REFUSED)
def test_refused_with_a_hint_and_nothing_changed(cluster: Cluster, state: str, call: str) -> None:
    with cluster.connect("boss") as boss, unchanged(cluster), refused(state):
        boss.execute(f"CALL dp.{call}")


OWNERS_CALLS = [
    "protect('{t}', 'rows')",
    "unprotect('{t}')",
    "describe_column('{t}', 'id')",
    "publish('{t}')",
    "unpublish('{t}')",
    "refresh('{t}')",
    "retain('{t}', '2024-01-02', keep_counts => false)",
]
ADMINS_CALLS = [
    "create_dataset('new', epsilon => 1)",
    "allot('alice', 'rows', epsilon => 1)",
    "freeze('rows')",
    "reopen('rows')",
    "reopen_question('00000000-0000-0000-0000-000000000001')",
    "set_limits(rows => 5000)",
    "confirm_ledger('rows', add_epsilon => 0)",
]
SUPERUSERS_CALLS = ["repair_channel()", "harden_catalog()", "before_pg_upgrade()", "unharden_catalog()"]


@pytest.mark.parametrize("call", OWNERS_CALLS + ADMINS_CALLS + SUPERUSERS_CALLS)
@pytest.mark.parametrize("role", ["alice", "dp_gateway", "dp_channel"])
def test_only_admins_keep_policy(cluster: Cluster, call: str, role: str) -> None:
    extra = {"password": "correct horse"} if role == "dp_gateway" else {}
    login = cluster.channel() if role == "dp_channel" else role
    with cluster.connect(login, **extra) as conn, unchanged(cluster), refused("42501", hint=False):
        conn.execute(f"CALL dp.{call.format(t='people')}")


@pytest.mark.parametrize("call", OWNERS_CALLS)
def test_only_the_owner_decides_about_a_relation(cluster: Cluster, call: str) -> None:
    """keeper is in dp_admin and owns nothing; boss is in dp_admin and does not own the superuser's table."""
    with unchanged(cluster):
        with cluster.connect("keeper") as keeper, refused("42501", "owner"):
            keeper.execute(f"CALL dp.{call.format(t='people')}")
        with cluster.connect("boss") as boss, refused("42501", "owner"):
            boss.execute(f"CALL dp.{call.format(t='foreign_owned')}")


@pytest.mark.parametrize("call", SUPERUSERS_CALLS)
def test_only_a_superuser_installs(cluster: Cluster, call: str) -> None:
    with cluster.connect("boss") as boss, unchanged(cluster), refused("42501", hint=False):
        boss.execute(f"CALL dp.{call}")


def test_set_role_to_an_admin_is_not_being_one(cluster: Cluster) -> None:
    """The login role counts (session_user): a role taken on for a moment leaves no trace of who decided."""
    with cluster.connect() as root:
        root.execute("SET SESSION AUTHORIZATION alice")
        with refused("42501", hint=False):
            root.execute("SET ROLE boss")
        with refused("42501", hint=False):
            root.execute("CALL dp.create_dataset('x', epsilon => 1)")


# what each call records -----------------------------------------------------------------------------------------

DESCRIBED: list[tuple[str, str, str, Any]] = [
    ("s", "bounds => '{0,9}', resolution => '1'", "bounds", ["0", "9", "1"]),
    ("i", "edges => '{0,18,65}'", "edges", ["0", "18", "65"]),
    ("b", "bounds => '{-9000000000,9000000000}'", "bounds", ["-9000000000", "9000000000", None]),
    ("n", "bounds => '{0,100.50}', resolution => '0.010'", "bounds", ["0", "100.5", "0.01"]),
    ("n", "domain => '{1.0,2.50}'", "domain", ["1", "2.5"]),
    ("r", "bounds => '{0,1e3}'", "bounds", ["0", "1000", None]),
    ("f", "edges => '{0,0.1,1}'", "edges", ["0", "0.1", "1"]),
    ("t", r"""domain => '{Nancy,it''s,a\"b}'""", "domain", ["Nancy", "it's", 'a"b']),
    ("t", "bounds => '{Adam,Nancy}'", "bounds", ["Adam", "Nancy", None]),
    ("v", "domain => '{x,y}'", "domain", ["x", "y"]),
    ("ok", "domain => '{t,no}'", "domain", ["true", "false"]),
    (
        "d",
        "bounds => '{20240101,2024-12-31}', resolution => '24 h'",
        "bounds",
        ["2024-01-01", "2024-12-31", "24:00:00"],
    ),
    ("d", "bounds => '{20240101,2024-12-31}', resolution => '1 d'", "bounds", ["2024-01-01", "2024-12-31", "1 day"]),
    ("tm", "bounds => '{8:00,18:00}', resolution => '90 minutes'", "bounds", ["08:00:00", "18:00:00", "01:30:00"]),
    ("ts", "edges => '{2024-01-01 10:00,2024-12-31}'", "edges", ["2024-01-01 10:00:00", "2024-12-31 00:00:00"]),
    (
        "tz",
        "edges => '{2024-01-01 10:00+02,2024-12-31}'",
        "edges",
        ["2024-01-01 08:00:00+00", "2024-12-31 00:00:00+00"],
    ),
    ("u", f"domain => '{{{'A0' * 16}}}'", "domain", ["a0a0a0a0-a0a0-a0a0-a0a0-a0a0a0a0a0a0"]),
    ("mood", "domain => '{happy,sad}'", "domain", ["happy", "sad"]),
    ("pos", "bounds => '{1,5}'", "bounds", ["1", "5", None]),
    ("j", "nullable => false", "opaque", None),
    ("p", "nullable => true", "opaque", None),
]


@pytest.mark.parametrize("column, arguments, kind, values", DESCRIBED)
def test_declarations_are_stored_in_canonical_text(
    cluster: Cluster, column: str, arguments: str, kind: str, values: Any
) -> None:
    """Canonical text of the column's type, whatever DateStyle, TimeZone or other settings the owner's session has."""
    with cluster.connect("boss") as boss:
        boss.execute("SET timezone = 'Asia/Tokyo'; SET datestyle = 'SQL, DMY'; SET intervalstyle = 'sql_standard'")
        boss.execute("SET extra_float_digits = -15")
        boss.execute(f"CALL dp.describe_column('typed', '{column}', {arguments})")
    with cluster.connect() as root:
        row = root.execute(
            "SELECT kind, CASE kind WHEN 'bounds' THEN ARRAY[lower, upper, resolution] ELSE COALESCE(domain, edges) END"
            " FROM dp.column_policy WHERE relation = 'typed'::regclass AND attname = %s",
            [column],
        ).fetchone()
    assert row == (kind, values)


def test_each_change_moves_the_version_and_notifies(cluster: Cluster) -> None:
    with cluster.connect() as root, cluster.connect("boss") as boss:
        root.execute("LISTEN pg_epsilon_policy")
        before = one(root, "SELECT version FROM dp.policy_state")
        boss.execute("CALL dp.describe_column('typed', 'i')")
        after = one(root, "SELECT version FROM dp.policy_state")
        assert after == before + 1
        assert [n.payload for n in root.notifies(timeout=PATIENCE, stop_after=1)] == [str(after)]


def test_publish_and_unpublish(cluster: Cluster) -> None:
    """A public table's rows go to dp_reader and come back; a protected one shows its shape; unpublished is closed."""
    reads = "SELECT has_table_privilege('dp_reader', 'area', 'SELECT')"
    seen = "SELECT count(*) FROM dp.published WHERE relation = %s"
    with cluster.connect("boss") as boss, cluster.connect() as root, cluster.connect("alice") as alice:
        boss.execute("CALL dp.publish('area', kind => 'public')")
        assert one(root, reads)
        assert one(alice, seen, "public.area") == 1
        boss.execute("CALL dp.unpublish('area')")
        assert not one(root, reads)
        assert one(alice, seen, "public.area") == 0
        boss.execute("CALL dp.publish('people', columns => '{age,sex}')")
        assert one(alice, seen, "public.people") == 2
        boss.execute("CALL dp.unpublish('people')")
        with refused("42501", "published"):
            count(alice)
        boss.execute("CALL dp.publish('people')")
        count(alice)


def test_a_public_table_that_becomes_protected_is_taken_from_the_reader(cluster: Cluster) -> None:
    with cluster.connect("boss") as boss, cluster.connect() as root:
        boss.execute("CREATE TABLE turns (id int PRIMARY KEY); CALL dp.publish('turns', kind => 'public')")
        boss.execute("CALL dp.protect('turns', 'rows')")
        assert not one(root, "SELECT has_table_privilege('dp_reader', 'turns', 'SELECT')")


def test_a_partition_keys_update_is_refused_to_the_writer(cluster: Cluster) -> None:
    cluster.psql(
        """CREATE TABLE keyed (id int PRIMARY KEY, day int); INSERT INTO keyed VALUES (1, 1);
           CALL dp.protect('keyed', 'rows', partition_by => 'day', grid => '{"origin": "0", "width": "10"}')""",
        user="boss",
    )
    with cluster.connect("boss") as boss:
        with refused("42501", "partition key"):
            boss.execute("UPDATE keyed SET day = 2")
        boss.execute("UPDATE keyed SET id = 2, day = 1")


def test_dropping_a_relation_takes_its_policy_along(cluster: Cluster) -> None:
    with cluster.connect("boss") as boss, cluster.connect() as root:
        boss.execute("CREATE TABLE gone (id int PRIMARY KEY); CALL dp.protect('gone', 'rows'); CALL dp.publish('gone')")
        boss.execute("CALL dp.describe_column('gone', 'id')")
        oid = one(root, "SELECT 'gone'::regclass::oid")
        boss.execute("DROP TABLE gone")
        for table in ("relation_policy", "column_policy", "publication"):
            assert one(root, f"SELECT count(*) FROM dp.{table} WHERE relation::oid = %s", oid) == 0
        assert one(root, "SELECT count(*) FROM dp.protection WHERE relation_key = 'public.gone'") == 1


def test_tables_without_policy_are_altered_freely(cluster: Cluster) -> None:
    """The event triggers cost a stranger nothing: no error, no new policy version."""
    with cluster.connect("alice") as alice, cluster.connect() as root:
        before = one(root, "SELECT version FROM dp.policy_state")
        alice.execute("CREATE TEMP TABLE mine (a int); ALTER TABLE mine RENAME a TO b; DROP TABLE mine")
        assert one(root, "SELECT version FROM dp.policy_state") == before


def test_a_unit_that_cannot_be_told_or_reached_is_refused(cluster: Cluster) -> None:
    """A key without equality, and a step whose foreign keys lead to two relations (composition.md 1.2)."""
    with cluster.connect("boss") as boss:
        boss.execute("CREATE TABLE documents (owner json)")
        boss.execute("CREATE TABLE others (id int PRIMARY KEY)")
        boss.execute("CREATE TABLE visits (order_id int REFERENCES orders REFERENCES others)")
        with refused("DP005", "type without equality"):
            boss.execute("CALL dp.protect('documents', 'shop', unit_column => 'owner')")
        with refused("DP005", "foreign keys to several relations"):
            boss.execute("CALL dp.protect('visits', 'shop', unit_path => '{order_id,customer_id}')")
        boss.execute("DROP TABLE documents, visits, others")


def test_no_trigger_of_the_table_comes_after_ours(cluster: Cluster) -> None:
    """A BEFORE trigger that moves the partition key is caught, whatever ordinary name it has (composition.md 5.2)."""
    with cluster.connect("boss") as boss:
        boss.execute("CREATE TABLE shifted (day int, n int)")
        boss.execute("INSERT INTO shifted VALUES (1, 1)")
        grid = '{"origin": 0, "width": 10}'
        boss.execute(f"CALL dp.protect('shifted', 'people', partition_by => 'day', grid => '{grid}')")
        boss.execute(
            "CREATE FUNCTION public.shift() RETURNS trigger LANGUAGE plpgsql AS"
            " 'BEGIN NEW.day := NEW.day + 100; RETURN NEW; END'"
        )
        boss.execute("CREATE TRIGGER zzz BEFORE UPDATE ON shifted FOR EACH ROW EXECUTE FUNCTION public.shift()")
        with refused("42501", "partition key"):
            boss.execute("UPDATE shifted SET n = 2")
        boss.execute("CALL dp.unprotect('shifted')")
        boss.execute("DROP TABLE shifted; DROP FUNCTION public.shift()")
