"""Joins of protected relations: answers against plain SQL, whose rows they are, and what is refused."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from fix_cluster import Cluster, private_cluster
from fix_joins import Connection, ask, build, document, exact, fill, source_of
from fix_ledger import refused

# (FROM, WHERE, FROM and WHERE in plain SQL without rows that have no unit)
ONE_UNIT: dict[str, tuple[str, str | None, str]] = {
    "parent": (
        "orders o\n customers c ON o.customer_id = c.id",
        "amount > 3",
        "orders o JOIN customers c ON c.id = o.customer_id WHERE amount > 3",
    ),
    "parent first": (
        "customers\n orders ON customer_id = customers.id",
        None,
        "customers c JOIN orders o ON c.id = o.customer_id",
    ),
    "path through the joined": (
        "items i\n orders o ON o.id = i.order_id",
        "qty IS NOT NULL OR day > '2024-02-01'",
        "items i JOIN orders o ON o.id = i.order_id"
        " WHERE (qty IS NOT NULL OR day > '2024-02-01') AND customer_id IS NOT NULL",
    ),
    "three along the path": (
        "items i\n orders o ON o.id = i.order_id\n customers c ON c.id = o.customer_id AND vip",
        None,
        "items i JOIN orders o ON o.id = i.order_id JOIN customers c ON c.id = o.customer_id WHERE vip",
    ),
    "two of one parent": (
        'items i\n calls k ON k."order" = i.order_id',
        None,
        'items i JOIN calls k ON k."order" = i.order_id JOIN orders o ON o.id = i.order_id'
        " WHERE customer_id IS NOT NULL",
    ),
    "unit columns": (
        "logins l\n orders o ON o.customer_id = l.who",
        "device = 'web'",
        "logins l JOIN orders o ON o.customer_id = l.who WHERE device = 'web'",
    ),
    "unit columns through a third": (
        "logins l\n orders o\n customers c ON c.id = l.who",
        "c.id = o.customer_id",
        "logins l, orders o, customers c WHERE c.id = l.who AND c.id = o.customer_id",
    ),
    "self-join on the key": (
        "orders a\n orders b ON a.id = b.id AND a.amount > 1",
        None,
        "orders a WHERE amount > 1 AND customer_id IS NOT NULL",
    ),
    "self-join of one unit's rows": (
        "orders a\n orders b ON a.customer_id = b.customer_id AND a.day < b.day",
        None,
        "orders a JOIN orders b ON a.customer_id = b.customer_id AND a.day < b.day",
    ),
    "self-join on another unique key": (
        'calls a\n calls b ON a."order" = b."order" AND a."select" = b."select"',
        None,
        'calls a JOIN orders o ON o.id = a."order" WHERE "select" IS NOT NULL AND customer_id IS NOT NULL',
    ),
    "an alias that is another table's name": (
        "orders customers\n customers orders ON customers.customer_id = orders.id",
        "customers.amount = 5",
        "orders o JOIN customers c ON c.id = o.customer_id WHERE amount = 5",
    ),
    "a public table by its key": (
        "customers c\n regions r ON r.name = c.region",
        "zone = 'cold' OR rank > 1",
        "customers c JOIN regions r ON r.name = c.region WHERE zone = 'cold' OR rank > 1",
    ),
    "a public table by two columns": (
        "items i\n orders o ON o.id = i.order_id\n prices p ON p.sku = i.sku AND p.day = o.day",
        "level > 1",
        "items i JOIN orders o ON o.id = i.order_id JOIN prices p ON p.sku = i.sku AND p.day = o.day"
        " WHERE level > 1 AND customer_id IS NOT NULL",
    ),
    "a public table by a constant": (
        "items i\n prices p ON p.sku = i.sku AND p.day = '2024-02-02'\n skus s ON s.code = p.sku",
        None,
        "items i JOIN prices p ON p.sku = i.sku AND p.day = '2024-02-02' JOIN skus s ON s.code = p.sku"
        " JOIN orders o ON o.id = order_id WHERE customer_id IS NOT NULL",
    ),
    "a public table first": (
        "skus\n items ON sku = code",
        None,
        "skus JOIN items ON sku = code JOIN orders o ON o.id = order_id WHERE customer_id IS NOT NULL",
    ),
}
SEVERAL_UNITS: dict[str, tuple[str, str | None, int]] = {
    "no condition": ("orders a\n logins b", None, 2),
    "an OR": ("orders a\n logins b ON a.customer_id = b.who OR a.amount = 5", None, 2),
    "same day": ("orders a\n orders b ON a.day = b.day", "a.id < b.id", 2),
    "same item": ("items a\n items b ON a.sku = b.sku\n logins l ON a.qty = l.who", None, 3),
    "a chain with one class twice": (
        "items a\n orders b ON a.qty = b.amount\n customers c ON c.id = b.customer_id",
        None,
        2,
    ),
    "an inequality of units": ("orders a\n orders b ON a.customer_id < b.customer_id", None, 2),
    "equal but for NULL": ("orders a\n orders b ON a.customer_id IS NOT DISTINCT FROM b.customer_id", None, 2),
    "a sum of keys": ("orders a\n orders b ON a.customer_id + 0 = b.customer_id", None, 2),
}
OWNED = {
    "customers": "id = {u}",
    "orders": "customer_id = {u}",
    "items": "order_id IN (SELECT id FROM orders WHERE customer_id = {u})",
    "calls": '"order" IN (SELECT id FROM orders WHERE customer_id = {u})',
    "logins": "who = {u}",
}


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


def plain(root: Connection, sql: str) -> list[tuple[Any, ...]]:
    return root.execute(sql).fetchall()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_counts_of_units_equal_plain_sql(root: Connection, seed: int) -> None:
    fill(root, seed)
    for name, (tables, where, sql) in ONE_UNIT.items():
        units = {"aggregates": [{"function": "count", "argument": None, "distinct": True}]}
        unit = "who" if "logins" in sql else "c.id" if "customers c" in sql else "customer_id"
        unit = "a.customer_id" if "orders b" in sql else unit
        expected = plain(root, f"SELECT count(DISTINCT {unit})::text FROM {sql}")
        assert exact(root, document(tables, where, **units)) == [list(row) for row in expected], name


@pytest.mark.parametrize("name", [n for n in ONE_UNIT if n not in ("unit columns", "self-join of one unit's rows")])
def test_counts_of_rows_equal_plain_sql(root: Connection, name: str) -> None:
    tables, where, sql = ONE_UNIT[name]
    request = document(tables, where)
    expected = plain(root, f"SELECT count(*)::text FROM {sql}")
    if source_of(root, request)["kappa"] is None:
        assert name in ("two of one parent", "unit columns through a third", "self-join on another unique key")
        return
    assert exact(root, request) == [list(row) for row in expected]


def result_rows(root: Connection, source: dict[str, Any]) -> Counter[tuple[Any, ...]]:
    """The result rows of a question, each whole, with its units last."""
    units = [source["unit"]] if source["unit"] else source["units"]
    aliases = [part.split(" AS ")[1] for part in source["sql"].split(", ")]
    columns = [f"{alias}.*::text" for alias in aliases] + [f"ARRAY[{', '.join(f'{u}::int' for u in units)}]::text"]
    return Counter(plain(root, f"SELECT {', '.join(columns)} FROM {source['sql']}{source['where']}"))


ALL = [*((tables, where, 1) for tables, where, _ in ONE_UNIT.values()), *SEVERAL_UNITS.values()]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_unit_takes_exactly_its_own_result_rows_with_it(root: Connection, seed: int) -> None:
    """Remove a unit with everything it owns: the result loses the rows that name it as a unit, and no other."""
    fill(root, seed)
    for tables, where, count in ALL:
        source = source_of(root, document(tables, where))
        assert "refused" not in source, source
        assert len(source["units"] or [source["unit"]]) == count, tables
        before = result_rows(root, source)
        for unit in (1, 5, 9):
            with root.transaction(force_rollback=True):
                for table in ("items", "calls", "logins", "orders", "customers"):
                    root.execute(f"DELETE FROM {table} WHERE {OWNED[table].format(u=unit)}")
                after = result_rows(root, source)
            kept = Counter({row: n for row, n in before.items() if str(unit) not in row[-1].strip("{}").split(",")})
            assert after == kept, (tables, unit)


def test_the_cap_bounds_result_rows_by_the_rows_of_one_relation(root: Connection) -> None:
    """Where an enforced cap may be used, each result row has a row of its own in the relation that declares it."""
    kappas = {}
    for name, (tables, where, _) in ONE_UNIT.items():
        source = source_of(root, document(tables, where))
        kappas[name] = source["kappa"]
        if source["kappa"] is not None:
            rows = f"SELECT count(*), count(DISTINCT {source['order']}) FROM {source['sql']}{source['where']}"
            ((every, different),) = plain(root, rows)
            assert name.startswith(("path", "three", "a public table")) or every == different, name
            units = f"SELECT {source['unit']} FROM {source['sql']}{source['where']}"
            assert max(Counter(plain(root, units)).values(), default=0) <= source["kappa"], name
    assert kappas["parent"] == kappas["parent first"] == 15 and kappas["path through the joined"] == 20
    assert kappas["self-join on the key"] == 15 and kappas["a public table by its key"] == 1
    assert kappas["unit columns"] is kappas["self-join of one unit's rows"] is kappas["two of one parent"] is None


def test_the_order_in_which_relations_are_written_changes_no_question(root: Connection) -> None:
    a = source_of(root, document("orders o\n customers c ON c.id = o.customer_id", "o.amount > 3 AND c.vip"))
    b = source_of(root, document("customers x\n orders ON vip AND amount > 3", "customer_id = x.id"))
    c = source_of(root, document("customers x\n orders ON vip AND amount > 4", "customer_id = x.id"))
    assert a["canonical"] == b["canonical"] != c["canonical"]


def test_a_question_about_one_relation_is_the_same_with_and_without_alias(root: Connection) -> None:
    assert source_of(root, document("orders", "amount > 3")) == source_of(root, document("orders o", "3 < o.amount"))


REFUSED: list[tuple[str, str, str | None, dict[str, Any], str]] = [
    ("42702", "orders a\n orders b ON a.id = b.id", "amount > 3", {}, "ambiguous"),
    ("42702", "orders a\n orders b ON id = id", None, {}, "ambiguous"),
    ("42702", "orders\n logins ON who = customer_id", "at > '2024-01-01'", {}, "ambiguous"),
    ("42702", "orders\n logins ON who = customer_id", None, {"keys": ["at"]}, "ambiguous"),
    ("42702", "orders\n logins ON who = customer_id", None, {"aggregates": ["count(at)"]}, "ambiguous"),
    ("42712", "orders\n orders ON true", None, {}, "more than once"),
    ("42712", "orders a\n customers a ON true", None, {}, "more than once"),
    ("42712", "orders customers\n customers ON true", None, {}, "more than once"),
    ("42P01", "orders o\n customers c ON o.customer_id = c.id", "orders.amount > 3", {}, "FROM-clause"),
    ("42P01", "orders o\n customers c ON o.customer_id = c.id", "public.orders.amount > 3", {}, "FROM-clause"),
    ("42703", "orders o\n customers c ON o.customer_id = c.id", "c.amount > 3", {}, "does not exist"),
    ("42703", "orders o\n customers c ON o.customer_id = c.id", "ctid IS NULL", {}, "does not exist"),
    ("DP003", "orders o\n customers c ON o.customer_id = c.id", "c IS NULL", {}, "whole-row"),
    ("DP003", "orders o\n customers c ON o.customer_id = c.id", "c.* IS NULL", {}, "whole-row"),
    ("DP003", "orders o\n people p ON o.id = p.id", None, {}, "different datasets"),
    ("DP003", "people p\n pets q ON p.id = q.owner", None, {}, "unit is a row"),
    ("DP003", "people p\n people q ON p.id = q.id", None, {}, "unit is a row"),
    ("DP003", "regions", None, {}, "no protected relation"),
    ("DP003", "regions\n skus ON true", None, {}, "no protected relation"),
    ("DP003", "customers\n regions ON true", None, {}, "may multiply rows"),
    ("DP003", "customers\n regions ON name < region", None, {}, "may multiply rows"),
    ("DP003", "customers\n regions ON name = region OR rank = 1", None, {}, "may multiply rows"),
    ("DP003", "customers\n regions ON lower(name) = region", None, {}, "may multiply rows"),
    ("DP003", "items i\n prices p ON p.sku = i.sku", None, {}, "may multiply rows"),
    ("DP003", "items i\n loose l ON l.sku = i.sku", None, {}, "may multiply rows"),
    ("DP003", "people p\n loose l ON l.who = p.age", None, {}, "may multiply rows"),
    ("42501", "orders\n nowhere ON true", None, {}, "not a published relation"),
    ("42501", "orders\n dp.ledger ON true", None, {}, "not a published relation"),
    ("42501", "orders\n pg_catalog.pg_class ON true", None, {}, "not a published relation"),
    ("DP004", "orders\n secrets ON orders.id = secrets.id", "word = 'x'", {}, "not declared"),
    (
        "DP003",
        "orders o\n customers c ON o.customer_id = c.id AND EXISTS (SELECT 1 FROM public.orders)",
        None,
        {},
        "protected",
    ),
    (
        "DP003",
        "orders",
        None,
        {"joins": [{"schema": "public", "name": "customers", "on": None, "how": "left"}]},
        "unknown form",
    ),
    ("DP003", "orders", None, {"joins": [{"schema": "public", "name": "customers", "lateral": "x"}]}, "unknown form"),
    ("DP003", "orders", None, {"joins": [{"name": "customers", "on": "true"}]}, "unknown form"),
    ("DP003", "orders", None, {"joins": {"schema": "public", "name": "customers"}}, "not a list"),
    ("DP003", "orders", None, {"joins": ["customers"]}, "not an object"),
    ("DP003", "orders", None, {"joins": [{"schema": "public", "name": "customers", "on": True}]}, "not a text"),
    ("DP003", "orders", None, {"joins": [{"schema": "public", "name": "customers", "on": "1"}]}, "boolean"),
    ("DP005", "orders o0\n" + "\n".join(f"orders o{i} ON true" for i in range(1, 17)), None, {}, "more than 16"),
]


@pytest.mark.parametrize(
    ("sqlstate", "tables", "where", "members", "words"), REFUSED, ids=[f"{r[0]} {r[1]} {r[2]}"[:70] for r in REFUSED]
)
def test_refused(
    cluster: Cluster, alice: Connection, sqlstate: str, tables: str, where: str | None, members: Any, words: str
) -> None:
    if "secrets" in tables:
        cluster.psql(
            "CREATE TABLE secrets (id int PRIMARY KEY, word text);"
            "CALL dp.protect('secrets', 'shop', unit_column => 'id'); CALL dp.describe_column('secrets', 'id');"
            "CALL dp.publish('secrets', columns => '{id}')",
            user="boss",
        )
    with refused(sqlstate, words):
        ask(alice, document(tables, where, **members))


def random_join(rng: random.Random) -> str:
    """Two or three relations and random equalities between them: of keys, of units, of anything, under OR, or none."""
    names = rng.choices([*OWNED], k=rng.choice([2, 2, 3]))
    lines, columns = [], {}
    for i, name in enumerate(names):
        alias = "abc"[i]
        columns[alias] = JOINABLE[name]
        conditions = []
        for earlier in "abc"[:i]:
            for _ in range(rng.choice([1, 1, 2]) if earlier == "abc"[i - 1] else rng.choice([0, 1])):
                left, right = rng.choice(columns[earlier]), rng.choice(columns[alias])
                equal = f"{earlier}.{left} = {alias}.{right}"
                conditions.append(
                    rng.choice([equal] * 6 + [f"({equal} OR {alias}.{right} = 3)", f"{alias}.{right} = 3"])
                )
        lines.append(f"{name} {alias}" + (f" ON {' AND '.join(conditions)}" if conditions else ""))
    return "\n".join(lines)


JOINABLE = {
    "customers": ["id"],
    "orders": ["id", "customer_id", "customer_id", "amount"],
    "items": ["order_id", "order_id", "line", "qty"],
    "calls": ['"order"'],
    "logins": ["who"],
}


def test_random_joins_lose_exactly_the_rows_of_a_removed_unit(root: Connection) -> None:
    fill(root, 7, customers=5)
    rng, several = random.Random(11), 0
    for _ in range(120):
        tables = random_join(rng)
        source = source_of(root, document(tables))
        assert "refused" not in source, (tables, source)
        several += bool(source["units"])
        before = result_rows(root, source)
        for unit in rng.sample(range(1, 6), 2):
            with root.transaction(force_rollback=True):
                for table in ("items", "calls", "logins", "orders", "customers"):
                    root.execute(f"DELETE FROM {table} WHERE {OWNED[table].format(u=unit)}")
                after = result_rows(root, source)
            kept = Counter({row: n for row, n in before.items() if str(unit) not in row[-1].strip("{}").split(",")})
            assert after == kept, (tables, unit)
    assert 20 < several < 110, "both sorts occur"


def test_a_row_unit_relation_joins_public_tables_and_keeps_its_partitions(root: Connection, alice: Connection) -> None:
    fill(root, 3)
    tables = "regions r\n people p ON p.city = r.name"
    week = "p.day BETWEEN '2024-01-08' AND '2024-01-14' AND rank > 0"
    source = source_of(root, document(tables, week))
    assert source["leaves"] == ["[2024-01-08,2024-01-15)"] and source["unit"] is None and source["units"] == []
    assert """r."day" >= '2024-01-08'""" in source["where"]
    expected = plain(root, f"SELECT count(*)::text FROM people p JOIN regions r ON p.city = r.name WHERE {week}")
    assert ask(alice, document(tables, week)) == [list(row) for row in expected]
    charged = "SELECT scope::text FROM dp.ledger ORDER BY at DESC LIMIT 1"
    assert "2024-01-08" in str(plain(root, charged)[0][0])
    both = "people p\n regions r ON p.city = r.name AND p.day = '2024-01-09'"
    assert source_of(root, document(both))["leaves"] == ["[2024-01-08,2024-01-15)"]


def test_inheritance_children_make_no_two_rows_one(cluster: Cluster, root: Connection) -> None:
    """A key is unique in the parent's own rows only: a child may repeat it, for another unit."""
    with cluster.connect("boss") as boss:
        boss.execute("CREATE TABLE folders (id int PRIMARY KEY, owner int); CREATE TABLE more () INHERITS (folders)")
        boss.execute("CREATE TABLE files (id int PRIMARY KEY, folder int REFERENCES folders)")
        boss.execute("CALL dp.protect('folders', 'shop', unit_column => 'owner', max_rows_per_unit => 1)")
        boss.execute("CALL dp.protect('files', 'shop', unit_path => '{folder,owner}')")
        for table, column in (("folders", "id"), ("folders", "owner"), ("files", "folder"), ("files", "id")):
            boss.execute(f"CALL dp.describe_column('{table}', '{column}')")
        boss.execute("CALL dp.publish('folders'); CALL dp.publish('files')")
        boss.execute(
            "INSERT INTO folders VALUES (1, 10); INSERT INTO more VALUES (1, 20); INSERT INTO files VALUES (5, 1)"
        )
    tables = "files f\n folders d ON d.id = f.folder"
    source = source_of(root, document(tables))
    assert len(source["units"]) == 2 and source["kappa"] is None and "ONLY" in source["sql"]
    assert sorted(row[-1] for row in result_rows(root, source)) == ["{10,10}", "{10,20}"]
    same = source_of(root, document("folders a\n folders b ON a.id = b.id"))
    assert len(same["units"]) == 2, "equal keys, two rows"
    with cluster.connect("boss") as boss:
        boss.execute("ALTER TABLE more NO INHERIT folders; ALTER TABLE folders ADD note text")
    one = source_of(root, document(tables))
    assert one["units"] == [] and one["unit"] and "ONLY" not in one["sql"]


def test_a_partitioned_parent_is_read_whole(cluster: Cluster, root: Connection) -> None:
    with cluster.connect("boss") as boss:
        boss.execute("CREATE TABLE wide (id int PRIMARY KEY, owner int) PARTITION BY RANGE (id)")
        boss.execute("CREATE TABLE wide_1 PARTITION OF wide FOR VALUES FROM (0) TO (10)")
        boss.execute("CREATE TABLE parts (wide int REFERENCES wide, kind text)")
        boss.execute("CALL dp.protect('wide', 'shop', unit_column => 'owner')")
        boss.execute("CALL dp.protect('parts', 'shop', unit_path => '{wide,owner}', max_rows_per_unit => 3)")
        for table, column in (("wide", "id"), ("parts", "wide")):
            boss.execute(f"CALL dp.describe_column('{table}', '{column}'); CALL dp.publish('{table}')")
        boss.execute(
            "INSERT INTO wide VALUES (1, 10), (2, NULL); INSERT INTO parts VALUES (1, 'x'), (2, 'y'), (NULL, 'z')"
        )
    for tables in ("parts", "parts p\n wide w ON w.id = p.wide"):
        source = source_of(root, document(tables))
        assert source["kappa"] == 3 and "ONLY" not in source["sql"]
        assert [row[-1] for row in result_rows(root, source)] == ["{10}"]


def test_a_foreign_key_that_is_not_valid_or_gone_closes_the_way(cluster: Cluster, alice: Connection) -> None:
    with cluster.connect("boss") as boss:
        boss.execute("CREATE TABLE notes (o bigint)")
        boss.execute("ALTER TABLE notes ADD CONSTRAINT fk FOREIGN KEY (o) REFERENCES orders NOT VALID")
        with refused("DP005", "validated foreign key"):
            boss.execute("CALL dp.protect('notes', 'shop', unit_path => '{o,customer_id}')")
        boss.execute("ALTER TABLE notes VALIDATE CONSTRAINT fk")
        boss.execute("CALL dp.protect('notes', 'shop', unit_path => '{o,customer_id}')")
        boss.execute("CALL dp.describe_column('notes', 'o'); CALL dp.publish('notes')")
        units = {"aggregates": [{"function": "count", "argument": None, "distinct": True}]}
        assert ask(alice, document("notes n\n orders o ON o.id = n.o", **units))
        boss.execute("ALTER TABLE notes DROP CONSTRAINT fk")
        with refused("DP006", "broken"):
            ask(alice, document("notes n\n orders o ON o.id = n.o", **units))


def test_a_step_of_a_path_has_the_unit_that_the_path_ends_with(cluster: Cluster, alice: Connection) -> None:
    """Else who owns the step decides about rows that are counted as another's (composition.md §1.1)."""
    with cluster.connect("boss") as boss:
        boss.execute("CREATE TABLE visits (id int PRIMARY KEY, guest int, host int)")
        boss.execute("CREATE TABLE meals (visit int REFERENCES visits)")
        boss.execute("CALL dp.protect('visits', 'shop', unit_column => 'guest')")
        with refused("DP005", "another unit"):
            boss.execute("CALL dp.protect('meals', 'shop', unit_path => '{visit,host}')")
        boss.execute("CALL dp.protect('meals', 'shop', unit_path => '{visit,guest}'); CALL dp.publish('meals')")
        units = {"aggregates": [{"function": "count", "argument": None, "distinct": True}]}
        assert ask(alice, document("meals", **units))
        boss.execute("CALL dp.unprotect('visits'); CALL dp.protect('visits', 'shop', unit_column => 'host')")
        with refused("DP006", "broken"):
            ask(alice, document("meals", **units))
        boss.execute("CALL dp.unprotect('visits')")
        boss.execute("CALL dp.protect('visits', 'shop', unit_column => 'guest', other_units => '{host}')")
        with refused("DP006", "broken"):
            ask(alice, document("meals", **units))


def test_types_between_which_equality_does_not_chain_join_no_units(cluster: Cluster, root: Connection) -> None:
    with cluster.connect("boss") as boss:
        boss.execute("CREATE TABLE a8 (u bigint, f float8, c char(3)); CREATE TABLE b8 (u numeric, f float8, c text)")
        for table in ("a8", "b8"):
            boss.execute(f"CALL dp.protect('{table}', 'shop', unit_column => 'u'); CALL dp.publish('{table}')")
            for column in "ufc":
                boss.execute(f"CALL dp.describe_column('{table}', '{column}')")
    for on, units in (
        ("a.u = b.u", 0),
        ("a.u = a.f AND a.f = b.u", 2),
        ("a.c = b.c", 2),
        ("a.f = b.f AND a.u = b.u", 0),
    ):
        if "a.f = b.u" in on:
            assert source_of(root, document(f"a8 a\n b8 b ON {on}"))["refused"] == "DP003", "float8 = numeric may raise"
        else:
            assert len(source_of(root, document(f"a8 a\n b8 b ON {on}"))["units"]) == units, on
    chained = "a8 a\n a8 m ON m.f = a.u\n a8 b ON m.f = b.u"
    assert len(source_of(root, document(chained))["units"]) == 3, "2^53 and 2^53 + 1 are one float8"
