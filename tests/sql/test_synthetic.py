"""Synthetic tables from outside: who may register what, what it costs, what is said for ever (composition.md §11)."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from fix_cluster import Cluster, standard_cluster
from fix_ledger import count, refused
from fix_stack import Stack
from fix_waiting import PATIENCE, soon
from pg_epsilon.accounting.charges import Charge
from pg_epsilon.accounting.curves import DEFAULT_ORDERS

WORLD = """
CREATE TABLE people_syn AS SELECT * FROM people WHERE id <= 500;
CREATE TABLE orders_syn AS SELECT id, placed, status, 2.5 AS weight FROM orders;
CREATE TABLE curved (age int, town text); CREATE TABLE curved_syn AS SELECT * FROM curved;
CREATE TABLE visits (visitor int, day date); CREATE TABLE visits_syn AS SELECT day FROM visits;
CALL dp.create_dataset('curved', epsilon => 2, delta => 1e-6, accountant => 'renyi');
CALL dp.create_dataset('visits', unit => 'user', epsilon => 2, delta => 1e-6, accountant => 'renyi');
CALL dp.protect('curved', 'curved'); CALL dp.protect('visits', 'visits', unit_column => 'visitor');
CALL dp.describe_column('curved', 'age', bounds => '{0,99}'); CALL dp.describe_column('visits', 'visitor');
CALL dp.describe_column('visits', 'day', bounds => '{2024-01-01,2024-12-31}');
CALL dp.publish('curved'); CALL dp.publish('visits'); CALL dp.allot('alice', 'curved', epsilon => 1);
CREATE TABLE shape (id int, day date, name varchar(9), price numeric(8,2), note text COLLATE "C", secret int);
CALL dp.protect('shape', 'people'); CALL dp.publish('shape', columns => '{id,day,name,price,note}');
CALL dp.describe_column('shape', 'day'); CALL dp.describe_column('shape', 'name');
CALL dp.describe_column('shape', 'price'); CALL dp.describe_column('shape', 'note');
CALL dp.describe_column('shape', 'secret');
CREATE TABLE hushed (a int); CALL dp.protect('hushed', 'people'); CALL dp.describe_column('hushed', 'a');
CREATE TABLE plain (a int); CREATE TABLE bare (z int); CALL dp.protect('bare', 'people'); CALL dp.publish('bare');
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with standard_cluster() as running:
        running.psql(WORLD, user="boss")
        running.psql("CREATE TABLE theirs AS SELECT * FROM people")
        running.psql("CREATE ROLE keeper LOGIN; GRANT dp_admin TO keeper; GRANT CONNECT ON DATABASE private TO keeper")
        yield running


class World:
    """One transaction, rolled back at the end: every test finds the world as it was made."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        self.heard: list[str] = []
        connection.add_notice_handler(lambda diagnostic: self.heard.append(diagnostic.message_primary or ""))

    @contextmanager
    def session_of(self, role: str) -> Iterator[None]:
        with self.connection.transaction():
            self.connection.execute(f"SET LOCAL SESSION AUTHORIZATION {role}")
            yield
            self.connection.execute("RESET SESSION AUTHORIZATION")

    def boss(self, *statements: str) -> None:
        with self.session_of("boss"):
            for statement in statements:
                self.connection.execute(statement)

    def register(self, relation: str, provenance: str, arguments: str = "", copy: str = "") -> None:
        more = f", {arguments}" if arguments else ""
        self.boss(f"CALL dp.register_synthetic('{relation}', '{copy or relation + '_syn'}', '{provenance}'{more})")

    def rows(self, sql: str, *args: Any, role: str = "postgres") -> list[Any]:
        with self.session_of(role):
            return self.connection.execute(sql, args).fetchall()

    def copies(self, relation: str) -> list[dict[str, Any]]:
        return [dict(c) for c in self.rows("SELECT dp._synthetics_of(%s::regclass)", relation)[0][0]]

    def valid(self, relation: str) -> list[bool]:
        return [c["valid"] for c in self.copies(relation)]

    def checked(self, words: str) -> list[tuple[str, str]]:
        """(severity, problem) of dp.check() whose problem has the words; each has a hint."""
        found = self.rows("SELECT severity, problem, hint FROM dp.check()", role="boss")
        assert all(hint for _, _, hint in found)
        return [(severity, problem) for severity, problem, _ in found if words in problem]

    def version(self) -> int:
        return int(self.rows("SELECT version FROM dp.policy_state")[0][0])

    def accounts(self, dataset: str) -> list[tuple[Any, ...]]:
        """(role, node, relation, epsilon, delta, curve) of every account that spent something."""
        return self.rows(
            "SELECT role, node, relation_key, spent_epsilon, spent_delta, spent_rdp FROM dp.account"
            " WHERE dataset = %s AND (spent_epsilon > 0 OR spent_delta > 0 OR spent_rdp IS NOT NULL) ORDER BY 1, 2, 3",
            dataset,
        )

    def balanced(self) -> None:
        assert self.rows("SELECT * FROM dp._ledger_mismatch()") == []


@pytest.fixture
def world(cluster: Cluster) -> Iterator[World]:
    with cluster.connect(autocommit=False) as connection:
        connection.execute("SELECT 1")  # a transaction is open: the blocks of the tests are its savepoints
        yield World(connection)
        connection.rollback()


# what a registration records, shows and costs -------------------------------------------------------------------


def test_a_release_with_a_proof_is_charged_to_its_relation(world: World) -> None:
    """Row units, pure: the relation's node of the dataset's own tree, in native form, and nobody's allotment."""
    world.register("people", "dp", "epsilon => 1.5, proof => 'paper 12, theorem 3'")
    assert world.accounts("people") == [("", "relation", "public.people", Decimal("1.5"), 0, None)]
    ledger = "SELECT who, dataset, kind, mechanism, charge, epsilon, delta, rdp, scope FROM dp.ledger"
    charge = {"kind": "import", "epsilon": "1.5", "delta": "0", "relation": "public.people"}
    assert world.rows(ledger) == [
        (
            "boss",
            "people",
            "import",
            "import",
            [{**charge, "synthetic": "public.people_syn"}],
            Decimal("1.5"),
            0,
            None,
            {"node": "relation", "relation": "public.people"},
        )
    ]
    assert world.heard == ["public.people_syn: epsilon 1.5 and delta 0 were charged to dataset 'people'"]
    world.balanced()


def test_with_user_units_the_root_is_charged(world: World) -> None:
    world.register("orders", "dp", "epsilon => 2, weight => 'weight'")
    assert world.accounts("shop") == [("", "root", "", 2, 0, None)]
    world.balanced()


@pytest.mark.parametrize("relation, node, key", [("curved", "relation", "public.curved"), ("visits", "root", "")])
def test_a_renyi_dataset_pays_the_curve_of_a_pure_release_and_its_delta(
    world: World, relation: str, node: str, key: str
) -> None:
    """P(epsilon, a) at every order of the grid, delta from delta_A; an (epsilon, delta) figure is never converted."""
    charge = Charge.of("import", epsilon=Decimal("0.3"), delta=Decimal("1e-7"))
    world.register(relation, "dp", "epsilon => 0.3, delta => 1e-7")
    curve = list(charge.rdp(DEFAULT_ORDERS))
    assert world.accounts(relation) == [("", node, key, 0, Decimal("1e-7"), curve)]
    world.balanced()
    world.register(relation, "dp", "epsilon => 0.3, delta => 1e-7")
    assert world.accounts(relation) == [("", node, key, 0, Decimal("2e-7"), [2 * r for r in curve])]
    world.balanced()


def test_registering_again_charges_again_and_says_so(world: World) -> None:
    world.register("people", "dp", "epsilon => 1")
    world.register("people", "dp", "epsilon => 0.5, proof => 'b'")
    assert [row[3] for row in world.accounts("people")] == [Decimal("1.5")]
    assert "again" not in world.heard[0]
    assert "again: a new release of this table, on top of what the last one cost" in world.heard[1]
    assert world.rows("SELECT epsilon, proof FROM dp.synthetic") == [(Decimal("0.5"), "b")]
    world.balanced()


def test_a_public_table_costs_nothing(world: World) -> None:
    world.register("people", "public")
    assert world.rows("SELECT count(*) FROM dp.ledger") == [(0,)]
    assert world.accounts("people") == []
    assert world.copies("people")[0]["epsilon"] is None
    assert world.checked("proof") == []


def test_what_the_engine_is_told(world: World) -> None:
    world.register("orders", "dp", "epsilon => 2.50, delta => 0, weight => 'weight'")
    (copy,) = world.copies("orders")
    assert copy.pop("oid") == world.rows("SELECT 'orders_syn'::regclass::oid")[0][0]
    assert copy == {
        "schema": "public",
        "name": "orders_syn",
        "columns": [
            {"name": "id", "type": "integer"},
            {"name": "placed", "type": "date"},
            {"name": "status", "type": "text"},
        ],
        "weight": "weight",
        "provenance": "dp",
        "epsilon": "2.5",
        "delta": "0",
        "valid": True,
        "release": None,
    }
    assert world.copies("items") == []


def test_a_relation_has_several_copies_and_a_copy_one_relation(world: World) -> None:
    world.boss("CREATE TABLE more AS SELECT * FROM people", "CREATE TABLE curved_too (age int, town text)")
    world.register("people", "public")
    world.register("people", "declassified", copy="more")
    assert [(c["name"], c["provenance"]) for c in world.copies("people")] == [
        ("more", "declassified"),
        ("people_syn", "public"),
    ]
    world.register("curved", "public", copy="curved_too")
    world.boss("CREATE TABLE both_ways (id int, age int, town text)")
    world.register("curved", "public", copy="both_ways")
    world.register("curved", "declassified", copy="both_ways")
    assert [c["name"] for c in world.copies("curved")] == ["both_ways", "curved_too"]


def test_every_step_moves_the_policy_version(world: World) -> None:
    seen = [world.version()]
    for step in (
        "CALL dp.register_synthetic('people', 'people_syn', 'public')",
        "ALTER TABLE people_syn RENAME age TO years",
        "ALTER TABLE people_syn DROP COLUMN years",
        "ALTER TABLE people_syn ENABLE ROW LEVEL SECURITY",
        "CALL dp.unregister_synthetic('people_syn')",
    ):
        world.boss(step)
        seen.append(world.version())
    assert sorted(set(seen)) == seen


def test_analysts_find_it_and_read_it_through_the_facades_role(world: World) -> None:
    world.register("people", "dp", "epsilon => 1")
    published = world.rows(
        "SELECT DISTINCT kind, copy_of, provenance, dataset FROM dp.published WHERE relation = 'public.people_syn'",
        role="alice",
    )
    assert published == [("synthetic", "public.people", "dp", None)]
    ask = "SELECT DISTINCT relation FROM dp.published WHERE copy_of = 'public.people'"
    assert world.rows(ask, role="alice") == [("public.people_syn",)]
    kinds = world.rows("SELECT kind, copy_of FROM dp.published WHERE relation = 'public.people'", role="alice")
    assert set(kinds) == {("protected", None)}
    for reader in ("dp_reader", "dp_owner"):
        assert world.rows("SELECT has_table_privilege(%s, 'people_syn', 'SELECT')", reader) == [(True,)]
    shape = (
        "SELECT r ->> 'kind' FROM jsonb_array_elements(dp.facade_definition() -> 'relations') r WHERE r ->> 'name' = %s"
    )
    assert world.rows(shape, "people_syn") == [("public",)]


def test_a_schema_of_its_own_is_opened_to_the_readers(world: World) -> None:
    world.connection.execute("CREATE SCHEMA made AUTHORIZATION boss")
    world.boss("CREATE TABLE made.up AS SELECT * FROM people")
    world.register("people", "public", copy="made.up")
    assert world.valid("people") == [True]
    assert world.rows("SELECT has_schema_privilege('dp_reader', 'made', 'USAGE')") == [(True,)]


# the budget -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "relation, amount, more",
    [
        ("people", "10", "0.001"),
        ("orders", "10", "0.001"),
        ("curved", "1.5", "1"),
        ("visits", "1.5", "1"),
    ],
)
def test_beyond_the_cap_nothing_is_registered(world: World, relation: str, amount: str, more: str) -> None:
    weight = ", weight => 'weight'" if relation == "orders" else ""
    world.register(relation, "dp", f"epsilon => {amount}{weight}")
    before = world.rows("SELECT a::text FROM dp.account a ORDER BY 1"), world.rows("SELECT * FROM dp.synthetic")
    for arguments in (f"epsilon => {more}", "epsilon => 0.0001, delta => 1e-5"):
        with refused("DP001", "declassify"):
            world.register(relation, "dp", arguments + weight)
    assert before == (
        world.rows("SELECT a::text FROM dp.account a ORDER BY 1"),
        world.rows("SELECT * FROM dp.synthetic"),
    )
    world.balanced()


def test_relations_of_one_dataset_pay_apart_with_row_units(world: World) -> None:
    """composition.md 3.1: each relation's node has the whole cap below the root."""
    world.boss("CREATE TABLE shape_syn AS SELECT * FROM shape")
    world.register("people", "dp", "epsilon => 10")
    world.register("shape", "dp", "epsilon => 10")
    assert {row[2] for row in world.accounts("people")} == {"public.people", "public.shape"}


def test_questions_and_releases_share_one_cap(cluster: Cluster) -> None:
    """A question's charge counts against an import, and the other way round: both see the other's committed total."""
    cluster.psql(
        "CREATE TABLE shared (id int PRIMARY KEY); CREATE TABLE shared_syn (id int);"
        "CALL dp.create_dataset('shared', epsilon => 1); CALL dp.protect('shared', 'shared');"
        "CALL dp.publish('shared'); CALL dp.allot('alice', 'shared', epsilon => 1);",
        user="boss",
    )
    call = "CALL dp.register_synthetic('shared', 'shared_syn', 'dp', epsilon => %s, proof => 'x')"
    with cluster.connect("alice") as alice, cluster.connect("boss") as boss:
        count(alice, table="shared", epsilon=0.25)
        with refused("DP001", "0.75"):
            boss.execute(call % 0.76)
        boss.execute(call % 0.5)
        with refused("DP001"):
            count(alice, table="shared", epsilon=0.26)
        count(alice, table="shared", epsilon=0.25)
        with refused("DP001"):
            boss.execute(call % 0.000001)
        with cluster.connect() as root:
            assert root.execute("SELECT * FROM dp._ledger_mismatch()").fetchall() == []
            kinds = root.execute("SELECT kind FROM dp.ledger WHERE dataset = 'shared' ORDER BY seq").fetchall()
            assert [kind for (kind,) in kinds] == ["charge", "import", "charge"]
        boss.execute("CALL dp.unregister_synthetic('shared_syn')")


def test_two_releases_at_once_share_one_cap(cluster: Cluster) -> None:
    """The second waits for the first to commit, and is checked against what that left."""
    cluster.psql(
        "CREATE TABLE raced (id int PRIMARY KEY); CREATE TABLE raced_a (id int); CREATE TABLE raced_b (id int);"
        "CALL dp.create_dataset('raced', epsilon => 1); CALL dp.protect('raced', 'raced'); CALL dp.publish('raced');",
        user="boss",
    )
    call = "CALL dp.register_synthetic('raced', %s, 'dp', epsilon => 0.6, proof => 'x')"
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND usename = 'boss'"
    with cluster.connect("boss", autocommit=False) as first, ThreadPoolExecutor(1) as pool, cluster.connect() as root:
        first.execute(call, ["raced_a"])

        def later() -> None:
            with cluster.connect("boss") as second, refused("DP001", "0.4 and delta 0 are left"):
                second.execute(call, ["raced_b"])

        second = pool.submit(later)
        assert soon(lambda: root.execute(waiting).fetchone() == (1,))
        first.commit()
        second.result(PATIENCE)
        first.execute("CALL dp.unregister_synthetic('raced_a')")
        first.commit()


def test_a_frozen_dataset_imports_nothing(world: World) -> None:
    world.connection.execute("UPDATE dp.incarnation SET id = gen_random_uuid()")
    with refused("DP006", "frozen"):
        world.register("people", "dp", "epsilon => 1")


# declassified: for ever -----------------------------------------------------------------------------------------

RELATIVE = "SELECT dataset, relative_to FROM dp.budget WHERE relative_to IS NOT NULL ORDER BY 1"


def test_a_declassified_table_is_named_for_ever(world: World) -> None:
    """After the registration, the table and even the relation are gone, dp.budget still says it, to analysts too."""
    assert world.rows(RELATIVE, role="alice") == []
    world.register("people", "declassified")
    said = [("people", ["public.people_syn"])]
    assert world.rows(RELATIVE, role="alice") == said
    assert world.checked("declassified") == [
        ("notice", "it is declassified: what it shows of rows of public.people is outside the guarantee")
    ]
    assert world.rows("SELECT kind, epsilon, delta, scope FROM dp.ledger WHERE dataset = 'people'") == [
        ("declassified", 0, 0, {"node": "root"})
    ]
    world.balanced()
    for step in (
        "CALL dp.register_synthetic('people', 'people_syn', 'public')",
        "CALL dp.unregister_synthetic('people_syn')",
        "DROP TABLE people_syn",
        "CALL dp.unprotect('people')",
        "DROP TABLE people",
    ):
        world.boss(step)
        assert world.rows(RELATIVE, role="alice") == said, step
    world.balanced()


def test_the_statement_moves_with_the_relation(world: World) -> None:
    """Another dataset that the relation moves to is relative to its declassified copy too; later copies join."""
    world.register("people", "declassified")
    world.boss("CALL dp.create_dataset('wider', epsilon => 20)", "CALL dp.unprotect('people')")
    world.boss("CALL dp.protect('people', 'wider')", "CALL dp.publish('people')")
    assert world.rows(RELATIVE, role="boss") == [("people", ["public.people_syn"]), ("wider", ["public.people_syn"])]
    world.boss("CREATE TABLE more AS SELECT * FROM people")
    world.register("people", "declassified", copy="more")
    assert world.rows(RELATIVE, role="boss") == [
        ("people", ["public.more", "public.people_syn"]),
        ("wider", ["public.more", "public.people_syn"]),
    ]


def test_the_export_carries_it(world: World) -> None:
    world.register("people", "declassified")
    exported = world.rows(
        "SELECT content FROM dp.export_ledger() WHERE content ->> 'call' = 'dp.register_synthetic'", role="boss"
    )
    assert "declassified" in [row[0]["kind"] for row in exported]


def test_nobody_deletes_the_statement(world: World) -> None:
    world.register("people", "declassified")
    with refused("42501", "append-only"), world.connection.transaction():
        world.connection.execute("DELETE FROM dp.ledger WHERE kind = 'declassified'")


# refusals -------------------------------------------------------------------------------------------------------

REFUSED = [
    ("DP005", "provenance must be", "'people', 'people_syn', 'generated', epsilon => 1"),
    ("DP005", "provenance must be", "'people', 'people_syn', 'trusted'"),
    ("DP005", "provenance must be", "'people', 'people_syn', NULL"),
    ("DP005", "needs an epsilon", "'people', 'people_syn', 'dp'"),
    ("DP005", "needs an epsilon", "'people', 'people_syn', 'dp', epsilon => 0"),
    ("DP005", "needs an epsilon", "'people', 'people_syn', 'dp', epsilon => -1"),
    ("DP005", "needs an epsilon", "'people', 'people_syn', 'dp', epsilon => 'NaN'"),
    ("DP005", "needs an epsilon", "'people', 'people_syn', 'dp', epsilon => 'Infinity'"),
    ("DP005", "needs an epsilon", "'people', 'people_syn', 'dp', epsilon => 1, delta => 1"),
    ("DP005", "needs an epsilon", "'people', 'people_syn', 'dp', epsilon => 1, delta => -1e-9"),
    ("DP005", "needs an epsilon", "'people', 'people_syn', 'dp', epsilon => 1, delta => 'NaN'"),
    ("DP005", "needs an epsilon", "'people', 'people_syn', 'dp', epsilon => 1, delta => NULL"),
    ("DP001", "does not allow", "'people', 'people_syn', 'dp', epsilon => 1, delta => 1e-9"),
    ("DP005", "has no epsilon", "'people', 'people_syn', 'public', epsilon => 1"),
    ("DP005", "has no epsilon", "'people', 'people_syn', 'declassified', delta => 1e-9"),
    ("DP005", "not a protected relation", "'plain', 'people_syn', 'public'"),
    ("DP005", "not a protected relation", "'hushed', 'plain', 'public'"),
    ("DP005", "no published column", "'bare', 'nothing_alike', 'public'"),
    ("DP005", "is missing", "'people', 'plain', 'public'"),
    ("DP005", "protected itself", "'people', 'people', 'public'"),
    ("DP005", "protected itself", "'curved', 'heir', 'public'"),
    ("DP005", "not an ordinary table", "'people', 'a_view', 'public'"),
    ("DP005", "not an ordinary table", "'people', 'a_kept_view', 'public'"),
    ("DP005", "not an ordinary table", "'people', 'passing', 'public'"),
    ("DP005", "not an ordinary table", "'people', 'cut', 'public'"),
    ("DP005", "row-level security", "'people', 'guarded', 'public'"),
    ("DP005", "foreign key", "'people', 'tied', 'public'"),
    ("DP005", "no column of numbers", "'people', 'weighed', 'public', weight => 'nowhere'"),
    ("DP005", "no column of numbers", "'people', 'weighed', 'public', weight => 'word'"),
    ("DP005", "is a column of public.people too", "'people', 'weighed', 'public', weight => 'age'"),
    ("DP005", "negative or not finite", "'people', 'weighed', 'public', weight => 'minus'"),
    ("DP005", "negative or not finite", "'people', 'weighed', 'public', weight => 'nan'"),
    ("DP005", "negative or not finite", "'people', 'weighed', 'declassified', weight => 'endless'"),
    ("42501", "not yours", "'people', 'theirs', 'public'"),
    ("42501", "not yours", "'theirs', 'people_syn', 'public'"),
    ("42501", "not yours", "NULL, 'people_syn', 'public'"),
    ("42501", "not yours", "'people', NULL, 'public'"),
    ("42P01", "does not exist", "'people', 'people_sin', 'public'"),
]
UNFIT = """
CREATE VIEW a_view AS SELECT * FROM people_syn; CREATE MATERIALIZED VIEW a_kept_view AS SELECT * FROM people_syn;
CREATE TEMP TABLE passing AS SELECT * FROM people_syn; CREATE TABLE cut (LIKE people) PARTITION BY RANGE (id);
CREATE TABLE guarded AS SELECT * FROM people_syn; ALTER TABLE guarded ENABLE ROW LEVEL SECURITY;
CREATE TABLE tied (LIKE people); ALTER TABLE tied ADD FOREIGN KEY (id) REFERENCES people ON DELETE CASCADE;
CREATE TABLE heir () INHERITS (curved); CREATE TABLE nothing_alike (other int);
CREATE TABLE weighed AS SELECT *, -1 AS minus, 'NaN'::float8 AS nan,
  'Infinity'::numeric AS endless, 'x' AS word FROM people_syn;
"""


def test_refused_with_a_hint_and_nothing_changed(world: World) -> None:
    world.boss(*UNFIT.strip().replace("\n", " ").rstrip(";").split("; "))

    def state() -> list[Any]:
        tables = ("synthetic", "publication", "account", "ledger", "policy_state")
        return [world.rows(f"SELECT t::text FROM dp.{table} t ORDER BY 1") for table in tables]

    before = state()
    for sqlstate, words, arguments in REFUSED:
        with refused(sqlstate, words, hint=sqlstate != "42P01"):
            world.boss(f"CALL dp.register_synthetic({arguments})")
        assert state() == before, arguments
    with refused("DP005", "not registered"):
        world.boss("CALL dp.unregister_synthetic('people_syn')")


@pytest.mark.parametrize("role", ["alice", "dp_gateway", "dp_channel", "keeper"])
def test_only_the_owner_who_is_an_admin_registers(world: World, role: str) -> None:
    """keeper is in dp_admin and owns nothing."""
    world.register("people", "public")
    for call in ("register_synthetic('people', 'people_syn', 'public')", "unregister_synthetic('people_syn')"):
        with refused("42501", hint=role == "keeper"):
            world.rows(f"CALL dp.{call}", role=role)


@pytest.mark.parametrize(
    "call",
    [
        "_record_synthetic('people', 'people_syn', 'generated', 1, 0, NULL, NULL)",
        "_import_release('people', 'people_syn', 1, 0)",
        "_synthetics_of('people'::regclass)",
        "_synthetics_follow()",
    ],
)
def test_what_charges_nobody_is_called_by_nobody(world: World, call: str) -> None:
    """An admin who could record a generated table would have a free release."""
    with refused("42501", "permission denied", hint=False):
        world.rows(f"SELECT dp.{call}", role="boss")


# columns --------------------------------------------------------------------------------------------------------

SHAPES: list[tuple[str, str | None]] = [
    ('id int, day date, name varchar(9), price numeric(8,2), note text COLLATE "C", secret int', None),
    ('day date, name varchar(9), price numeric(8,2), note text COLLATE "C"', None),
    ('note text COLLATE "C", extra jsonb, price numeric(8,2), name varchar(9), day date', None),
    ('day date, name varchar(9), price numeric(8,2), note text COLLATE "C", secret date', None),
    ("day date, name varchar(9), price numeric(8,2)", "column note of public.shape is missing"),
    ('day timestamp, name varchar(9), price numeric(8,2), note text COLLATE "C"', "column day has another type"),
    ('day date, name varchar(8), price numeric(8,2), note text COLLATE "C"', "column name has another type"),
    ('day date, name text, price numeric(8,2), note text COLLATE "C"', "column name has another type"),
    ('day date, name varchar(9), price numeric, note text COLLATE "C"', "column price has another type"),
    ("day date, name varchar(9), price numeric(8,2), note text", "column note has another type or collation"),
    ('id bigint, day date, name varchar(9), price numeric(8,2), note text COLLATE "C"', "column id has another type"),
]


@pytest.mark.parametrize("columns, flaw", SHAPES)
def test_the_columns_that_can_be_asked_about_agree(world: World, columns: str, flaw: str | None) -> None:
    """Published and declared ones are there (id is not declared, secret not published); a name has one type."""
    world.boss(f"CREATE TABLE shape_syn ({columns})")
    if flaw is not None:
        with refused("DP005", flaw):
            world.register("shape", "public")
        return
    world.register("shape", "public")
    (copy,) = world.copies("shape")
    assert copy["valid"]
    assert {c["name"] for c in copy["columns"]} - {"id"} == {"day", "name", "price", "note"}


def test_keys_of_units_may_be_missing(world: World) -> None:
    """visits_syn has no visitor, orders_syn no customer_id; if it is there, it has the same type."""
    world.register("visits", "public")
    world.boss("CREATE TABLE owned (visitor text, day date)")
    with refused("DP005", "column visitor has another type"):
        world.register("visits", "public", copy="owned")
    world.boss("ALTER TABLE owned ALTER visitor TYPE int USING visitor::int")
    world.register("visits", "public", copy="owned")
    assert [[c["name"] for c in copy["columns"]] for copy in world.copies("visits")] == [["visitor", "day"], ["day"]]


@pytest.mark.parametrize("weight", ["smallint", "int", "bigint", "numeric(9,3)", "real", "float8", "positive"])
def test_weights_are_numbers_and_may_be_null(world: World, weight: str) -> None:
    world.boss("CREATE DOMAIN positive AS numeric CHECK (VALUE > 0)")
    world.boss(f"CREATE TABLE visits_weighed (day date, w {weight})")
    world.boss("INSERT INTO visits_weighed VALUES ('2024-01-01', NULL), ('2024-01-02', 2)")
    world.register("visits", "public", "weight => 'w'", copy="visits_weighed")
    assert world.copies("visits")[0]["weight"] == "w"


def test_a_weight_of_no_rows_is_no_flaw(world: World) -> None:
    world.boss("CREATE TABLE weightless AS SELECT *, 0 AS w FROM people WHERE false")
    world.register("people", "public", "weight => 'w'", copy="weightless")
    assert world.valid("people") == [True]


# what DDL does to a registration --------------------------------------------------------------------------------

HARM = [
    ("ALTER TABLE people_syn DROP COLUMN age", "ALTER TABLE people_syn ADD COLUMN age int", "is missing"),
    ("ALTER TABLE people_syn RENAME age TO a", "ALTER TABLE people_syn RENAME a TO age", "is missing"),
    ("ALTER TABLE people_syn RENAME age TO a", "ALTER TABLE people RENAME age TO a", "is missing"),
    ("ALTER TABLE people RENAME age TO a", "ALTER TABLE people_syn RENAME age TO a", "no column age any more"),
    ("ALTER TABLE people DROP COLUMN age", "ALTER TABLE people_syn DROP COLUMN age", "no column age any more"),
    (
        "ALTER TABLE people_syn ALTER age TYPE bigint",
        "ALTER TABLE people_syn ALTER age TYPE int",
        "another type or collation",
    ),
    ("ALTER TABLE people ALTER age TYPE bigint", "ALTER TABLE people_syn ALTER age TYPE bigint", "another type"),
    ("ALTER TABLE people_syn DROP COLUMN w", "ALTER TABLE people_syn ADD COLUMN w int", "no column of numbers"),
    ("ALTER TABLE people ADD COLUMN w int", "ALTER TABLE people DROP COLUMN w", "is a column of public.people too"),
    (
        "ALTER TABLE people_syn ENABLE ROW LEVEL SECURITY",
        "ALTER TABLE people_syn DISABLE ROW LEVEL SECURITY",
        "row-level security",
    ),
    ("REVOKE SELECT ON people_syn FROM dp_owner", "GRANT SELECT ON people_syn TO dp_owner", "may not read"),
    (
        "CALL dp.publish('people_syn', 'public', '{id,age}')",
        "CALL dp.publish('people_syn', 'public')",
        "not published with all",
    ),
    (
        "ALTER TABLE people_syn ADD CONSTRAINT k FOREIGN KEY (id) REFERENCES people",
        "ALTER TABLE people_syn DROP CONSTRAINT k",
        "a foreign key ties",
    ),
]


@pytest.mark.parametrize("harm, cure, words", HARM)
def test_a_change_of_shape_makes_a_copy_invalid_until_it_is_undone(
    world: World, harm: str, cure: str, words: str
) -> None:
    """dp.check() says what is wrong; a cure needs no new registration, so no new charge."""
    world.boss("ALTER TABLE people_syn ADD COLUMN w int, ALTER id SET NOT NULL")
    world.register("people", "dp", "epsilon => 1, weight => 'w'")
    assert world.valid("people") == [True]
    world.boss(harm)
    assert world.valid("people") == [False]
    assert [severity for severity, _ in world.checked(words)] == ["error"]
    world.boss(cure)
    assert world.valid("people") == [True]
    assert world.checked(words) == []


def test_a_column_published_later_joins_when_the_copy_has_it(world: World) -> None:
    world.boss("CREATE TABLE shape_syn AS SELECT * FROM shape")
    world.register("shape", "public")
    assert "secret" not in {c["name"] for c in world.copies("shape")[0]["columns"]}
    world.boss("CALL dp.publish('shape')")
    assert "secret" in {c["name"] for c in world.copies("shape")[0]["columns"]}


def test_a_proof_is_asked_for(world: World) -> None:
    world.register("people", "dp", "epsilon => 1")
    assert world.checked("no proof on record") == [
        ("warning", "the (1, 0) guarantee of this synthetic table has no proof on record")
    ]
    world.register("people", "dp", "epsilon => 1, proof => 'theorem 3'")
    assert world.checked("no proof on record") == []


# withdrawing ----------------------------------------------------------------------------------------------------


def test_unregistering_hides_the_rows_and_keeps_what_was_spent(world: World) -> None:
    world.register("people", "dp", "epsilon => 1")
    before = world.accounts("people")
    world.boss("CALL dp.unregister_synthetic('people_syn')")
    assert world.copies("people") == []
    assert world.accounts("people") == before
    assert world.rows("SELECT count(*) FROM dp.published WHERE relation = 'public.people_syn'") == [(0,)]
    assert world.rows("SELECT has_table_privilege('dp_reader', 'people_syn', 'SELECT')") == [(False,)]
    world.balanced()


def test_dropping_the_copy_takes_its_registration_along(world: World) -> None:
    world.register("people", "dp", "epsilon => 1")
    before = world.version()
    world.boss("DROP TABLE people_syn")
    assert world.rows("SELECT count(*) FROM dp.synthetic WHERE provenance = 'dp'") == [(0,)]
    assert world.rows("SELECT count(*) FROM dp.publication WHERE relation::text LIKE %s", "%syn") == [(0,)]
    assert world.version() > before
    assert [row[3] for row in world.accounts("people")] == [1]


def test_dropping_the_relation_leaves_no_table_that_looks_public(world: World) -> None:
    world.register("people", "dp", "epsilon => 1")
    world.boss("DROP TABLE people")
    assert world.rows("SELECT count(*) FROM dp.synthetic WHERE provenance = 'dp'") == [(0,)]
    assert world.rows("SELECT count(*) FROM dp.published WHERE relation = 'public.people_syn'") == [(0,)]
    assert [row[3] for row in world.accounts("people")] == [1]


def test_dropping_both_at_once(world: World) -> None:
    world.register("people", "dp", "epsilon => 1")
    world.boss("DROP TABLE people, people_syn")
    assert world.rows("SELECT count(*) FROM dp.synthetic WHERE provenance = 'dp'") == [(0,)]


def test_a_relation_unprotected_and_protected_again_has_its_copy_again(world: World) -> None:
    """Nothing is charged twice; in between its name is not shown."""
    world.register("people", "dp", "epsilon => 1")
    world.boss("CALL dp.unprotect('people')")
    shown = world.rows("SELECT DISTINCT kind, copy_of FROM dp.published WHERE relation = 'public.people_syn'")
    assert shown == [("synthetic", None)]
    world.boss("CALL dp.protect('people', 'people')", "CALL dp.publish('people')")
    assert world.valid("people") == [True]
    assert [row[3] for row in world.accounts("people")] == [1]


def test_a_registered_copy_is_neither_protected_nor_unpublished(world: World) -> None:
    world.register("people", "public")
    with refused("DP005", "registered as a synthetic table"):
        world.boss("CALL dp.protect('people_syn', 'people')")
    with refused("DP005", "registered as a synthetic table"):
        world.boss("CALL dp.unpublish('people_syn')")
    world.boss("CALL dp.unregister_synthetic('people_syn')", "CALL dp.protect('people_syn', 'people')")


# through the proxy ----------------------------------------------------------------------------------------------


def test_analysts_read_it_through_the_proxy_while_it_is_registered(stack: Stack) -> None:
    """Rows, free and exact; dp.published says what it is a copy of, dp.budget what the guarantee is relative to."""
    stack.cluster.psql(
        "CREATE TABLE people_syn AS SELECT * FROM people WHERE id <= 500;"
        "CALL dp.register_synthetic('people', 'people_syn', 'declassified');",
        user="boss",
    )
    with stack.connect("alice") as alice:

        def rows() -> int | None:
            try:
                return int((alice.execute("SELECT count(*) FROM people_syn WHERE age >= 0").fetchone() or (-1,))[0])
            except psycopg.Error as error:
                assert error.sqlstate in ("42P01", "42501", "DP002", "DP006")  # until the facade has followed
                return None

        assert soon(lambda: rows() == 500)
        ask = "SELECT DISTINCT relation, provenance FROM dp.published WHERE copy_of = 'public.people'"
        assert alice.execute(ask).fetchall() == [("public.people_syn", "declassified")]
        relative = "SELECT relative_to FROM dp.budget WHERE dataset = 'people'"
        assert alice.execute(relative).fetchone() == (["public.people_syn"],)
        stack.cluster.psql("CALL dp.unregister_synthetic('people_syn')", user="boss")
        assert soon(lambda: rows() is None)
        assert alice.execute(relative).fetchone() == (["public.people_syn"],)
