"""Sub-queries over public tables: PostgreSQL's own answers, NULLs included; none over a protected table."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import fix_chance
from fix_cluster import Cluster, private_cluster
from fix_joins import Connection, ask, build, document, exact, fill, source_of
from fix_ledger import no_charge, refused

# Conditions on items i: what is asked, word for word what PostgreSQL is asked.
CONDITIONS = [
    "sku IN (SELECT code FROM public.skus)",
    "sku NOT IN (SELECT code FROM public.skus)",
    "sku NOT IN (SELECT code FROM public.skus WHERE code IS NOT NULL)",
    "NOT sku IN (SELECT sku FROM public.loose)",
    "(sku IN (SELECT sku FROM public.loose)) IS UNKNOWN",
    "(sku NOT IN (SELECT sku FROM public.loose WHERE false)) IS TRUE",
    "sku = ANY (SELECT code FROM public.skus AS s WHERE s.family = 'tool')",
    "sku <> ALL (SELECT code FROM public.skus WHERE family IS NULL AND code IS NOT NULL)",
    "qty IN (SELECT level * 3 FROM public.prices)",
    "price IN (SELECT level + 0.5 FROM public.prices)",
    "1 IN (SELECT level FROM public.prices)",
    "EXISTS (SELECT 1 FROM public.skus)",
    "EXISTS (SELECT * FROM public.prices p WHERE p.sku = i.sku AND p.level > 1)",
    "NOT EXISTS (SELECT p.day FROM public.prices p WHERE p.sku = i.sku)",
    "EXISTS (SELECT 1 FROM public.prices WHERE prices.sku = i.sku AND line < level)",
    "EXISTS (SELECT 1 FROM public.loose WHERE sku = i.sku)",
    "EXISTS (SELECT 1 FROM public.loose AS i WHERE i.who = 1)",
    "EXISTS (SELECT 1 FROM public.skus s WHERE s.code = i.sku"
    " AND EXISTS (SELECT 1 FROM public.prices p WHERE p.sku = s.code AND p.level = line))",
    "sku IN (SELECT code FROM public.skus WHERE code IN (SELECT sku FROM public.prices WHERE level < qty))",
    "CASE WHEN sku IN (SELECT sku FROM public.prices) THEN qty > 1 ELSE line > 2 END",
    "sku = (SELECT max(code) FROM public.skus)",
    "sku < (SELECT pg_catalog.min(code) FROM public.skus WHERE since < '2024-01-01')",
    "line <= (SELECT count(*) FROM public.loose)",
    "line <= (SELECT count(family) FROM public.skus)",
    "sku > (SELECT max(code) FROM public.skus WHERE false)",
    "sku IN (SELECT DISTINCT sku FROM public.prices) OR qty IS NULL",
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with private_cluster() as running:
        build(running)
        yield running


@pytest.fixture(scope="module")
def root(cluster: Cluster) -> Iterator[Connection]:
    with cluster.connect() as conn:
        fill(conn, 1)
        yield conn


@pytest.fixture(scope="module")
def alice(cluster: Cluster) -> Iterator[Connection]:
    with cluster.connect("alice") as conn:
        yield conn


def plain(root: Connection, condition: str) -> list[list[str]]:
    sql = "SELECT count(*)::text FROM items i JOIN orders o ON o.id = order_id WHERE customer_id IS NOT NULL"
    found = root.execute(f"{sql} AND ({condition.replace('line', 'i.line').replace('qty', 'i.qty')})")
    return [list(row) for row in found]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_conditions_over_public_tables_mean_what_postgresql_says(root: Connection, seed: int) -> None:
    fill(root, seed)
    for condition in CONDITIONS:
        assert exact(root, document("items i", condition)) == plain(root, condition), condition
        filtered = {"function": "count", "argument": "*", "filter": condition}
        assert exact(root, document("items i", aggregates=[filtered])) == plain(root, condition), condition


@pytest.mark.chance(fix_chance.laplace(1 / 30, 0))
def test_the_answer_itself(root: Connection, alice: Connection) -> None:
    """One draw of DLap(1/30), which is 0."""
    fill(root, 4)
    condition = "id IN (SELECT who FROM public.loose) OR region IN (SELECT name FROM public.regions)"
    expected = root.execute(f"SELECT count(*)::text FROM customers WHERE {condition}").fetchall()
    assert ask(alice, document("customers", condition)) == [list(row) for row in expected]


def test_a_sub_query_of_a_join_sees_all_its_tables(root: Connection) -> None:
    fill(root, 5)
    tables = "items i\n orders o ON o.id = i.order_id"
    condition = "EXISTS (SELECT 1 FROM public.prices p WHERE p.sku = i.sku AND p.day <= o.day AND level > 1)"
    assert exact(root, document(tables, condition)) == plain(root, condition)


def test_an_inner_name_hides_an_outer_one(root: Connection) -> None:
    """`sku` in the sub-query is the public table's own: compared with itself, it says nothing about the row."""
    same = source_of(root, document("items i", "EXISTS (SELECT 1 FROM public.loose l WHERE sku = l.sku)"))
    assert "EXISTS" not in same["where"], "no column of the row: it is folded to a constant"
    other = source_of(root, document("items i", "EXISTS (SELECT 1 FROM public.loose l WHERE i.sku = l.sku)"))
    assert 's1."sku" = r."sku"' in other["where"] or 'r."sku" = s1."sku"' in other["where"]


def test_the_canonical_form_knows_no_order_and_no_alias(root: Connection) -> None:
    a = "EXISTS (SELECT 1 FROM public.prices p WHERE p.sku = i.sku) AND sku IN (SELECT code FROM public.skus)"
    b = "sku IN (SELECT skus.code FROM public.skus) AND EXISTS (SELECT * FROM public.prices WHERE i.sku = prices.sku)"
    one, other = (source_of(root, document("items i", condition)) for condition in (a, b))
    assert one["canonical"] == other["canonical"]


REFUSED = [
    ("DP003", "sku IN (SELECT sku FROM public.items)", "protected"),
    ("DP003", "EXISTS (SELECT 1 FROM public.customers c WHERE c.id = i.order_id)", "protected"),
    ("DP003", "EXISTS (SELECT 1 FROM public.people)", "protected"),
    ("DP003", "line < (SELECT count(*) FROM public.orders)", "protected"),
    ("DP003", "EXISTS (SELECT 1 FROM public.skus, public.orders)", "one public table"),
    ("DP003", "sku IN (SELECT code FROM skus)", "schema of skus"),
    ("42501", "sku IN (SELECT code FROM public.nowhere)", "not a published"),
    ("42501", "sku IN (SELECT rolname FROM pg_catalog.pg_roles)", "not a published"),
    ("42501", "EXISTS (SELECT 1 FROM dp.release)", "not a published"),
    ("42703", "sku IN (SELECT hidden FROM public.half)", "does not exist"),
    ("42703", "sku IN (SELECT ctid FROM public.skus)", "does not exist"),
    ("42P01", "EXISTS (SELECT 1 FROM public.skus WHERE prices.sku = i.sku)", "FROM-clause"),
    ("42P01", "EXISTS (SELECT 1 FROM public.skus s WHERE skus.code = i.sku)", "FROM-clause"),
    ("DP003", "sku = (SELECT code FROM public.skus)", "several values"),
    ("DP003", "line = (SELECT max(level) FROM public.prices p WHERE p.sku = i.sku)", "depend on the row"),
    ("DP003", "sku IN (SELECT code FROM public.skus LIMIT 1)", "clause"),
    ("DP003", "sku IN (SELECT code FROM public.skus FOR SHARE)", "clause"),
    ("DP003", "EXISTS (SELECT random() FROM public.skus)", "random"),
    ("DP003", "sku IN (SELECT line FROM public.prices)", "do not go together"),
    ("DP003", "(sku, line) IN (SELECT sku, level FROM public.prices)", "row cannot be looked up"),
    ("DP003", "sku ~ 'x' = EXISTS (SELECT code FROM public.skus)", "operator ~"),
]


@pytest.mark.parametrize(("sqlstate", "condition", "words"), REFUSED, ids=[r[1][:60] for r in REFUSED])
def test_refused(cluster: Cluster, alice: Connection, sqlstate: str, condition: str, words: str) -> None:
    if "half" in condition:
        cluster.psql(
            "CREATE TABLE half (shown text, hidden text);"
            "CALL dp.publish('half', kind => 'public', columns => '{shown}')",
            user="boss",
        )
    with no_charge(cluster), refused(sqlstate, words):
        ask(alice, document("items i", condition))


def test_a_public_table_that_the_engine_may_not_read_is_said_to_be(cluster: Cluster, alice: Connection) -> None:
    with cluster.connect("boss") as boss:
        boss.execute("CREATE TABLE walled (sku text PRIMARY KEY)")
        boss.execute("CALL dp.publish('walled', kind => 'public')")
        assert ask(alice, document("items i", "sku IN (SELECT sku FROM public.walled)"))
        boss.execute("REVOKE SELECT ON walled FROM dp_owner; ALTER TABLE walled ADD note text")
        with no_charge(cluster), refused("DP006", "may not read"):
            ask(alice, document("items i", "sku IN (SELECT sku FROM public.walled) OR false", fresh=True))
        boss.execute("GRANT SELECT ON walled TO dp_owner; ALTER TABLE walled ENABLE ROW LEVEL SECURITY")
        with no_charge(cluster), refused("DP006", "may not read"):
            ask(alice, document("items i\n walled w ON w.sku = i.sku"))
        boss.execute("CALL dp.unpublish('walled')")
        with no_charge(cluster), refused("42501", "not a published"):
            ask(alice, document("items i\n walled w ON w.sku = i.sku"))


def test_a_public_table_whose_key_is_dropped_is_no_longer_joined(cluster: Cluster, alice: Connection) -> None:
    with cluster.connect("boss") as boss:
        boss.execute("CREATE TABLE keyed (sku text CONSTRAINT k PRIMARY KEY)")
        boss.execute("CALL dp.publish('keyed', kind => 'public')")
        assert ask(alice, document("items i\n keyed k ON k.sku = i.sku"))
        boss.execute("ALTER TABLE keyed DROP CONSTRAINT k; INSERT INTO keyed VALUES ('a'), ('a')")
        with no_charge(cluster), refused("DP003", "may multiply rows"):
            ask(alice, document("items i\n keyed k ON k.sku = i.sku"))
