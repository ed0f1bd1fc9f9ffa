"""pg_dump and pg_restore: policy and ledger survive, accounts are frozen until confirmed (composition.md §12).

The recipe, for another server or another database:

1. `psql -v roles_only=1 -f pg_epsilon_install.sql`: the roles that the dump's grants name (or restore pg_dumpall -g);
2. `pg_restore -d new dump` into an empty database made from template0;
3. `psql -d new -f pg_epsilon_install.sql`: a channel of its own, and the catalog revokes;
4. `CALL dp.confirm_ledger(dataset, add_epsilon => …)` for each dataset: what may have been spent since the dump.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from fix_cluster import PEOPLE, PRIVATE, ROLES, SHOP, Cluster, cluster_at_work, private_cluster
from fix_ledger import balanced, count, no_charge, one, refused, spent

KEPT = ["dataset", "relation_policy", "protection", "column_policy", "publication", "role_allotment", "account"]
KEPT += ["synthetic", "ledger", "returned", "release", "ledger_export", "closed_question", "closed_allotment", "freeze"]
KEPT += ["engine_limits", "served", "family", "family_publication", "family_answer"]
OVER_30 = "SELECT dp.dp_query(dp.dp_count_request('people', 'age > 30'))"
ANSWERED: dict[str, Any] = {}


def install_script(cluster: Cluster) -> str:
    folder: Path = cluster.paths.destdir / f"usr/share/postgresql/{cluster.paths.pg_version}/extension"
    return (folder / "pg_epsilon_install.sql").read_text()


def dump(cluster: Cluster, dbname: str = PRIVATE) -> Path:
    file = cluster.folder / f"{dbname}.dump"
    cluster.run(str(cluster.paths.bindir / "pg_dump"), "-Fc", "-f", str(file), "-d", cluster.dsn(dbname=dbname))
    return file


def restore(cluster: Cluster, file: Path, dbname: str) -> None:
    """Steps 1 to 3 of the recipe; pg_restore must not report a single error."""
    cluster.psql("\\set roles_only 1\n" + install_script(cluster), dbname="postgres")
    cluster.execute(f"CREATE DATABASE {dbname} TEMPLATE template0", dbname="postgres")
    program = str(cluster.paths.bindir / "pg_restore")
    cluster.run(program, "--exit-on-error", "-d", cluster.dsn(dbname=dbname), str(file))
    cluster.psql(install_script(cluster), dbname=dbname)


def content(cluster: Cluster, dbname: str) -> dict[str, Any]:
    """All rows of the tables that are kept; column numbers apart, which a restore closes up."""
    with cluster.connect(dbname=dbname) as conn:
        found = {}
        for table in KEPT:
            rows = conn.execute(f"SELECT (to_jsonb(t) - 'attnum')::text FROM dp.{table} t ORDER BY 1").fetchall()
            found[table] = [row[0] for row in rows]
        return found


@pytest.fixture(scope="module")
def source() -> Iterator[Cluster]:
    """People with gaps in the column numbers, a partition grid, Rényi and user units, answers and a closed shape."""
    with private_cluster() as running:
        running.psql(ROLES)
        running.execute("CREATE TABLE public.people_before (gone int)", "DROP TABLE public.people_before")
        standard_with_gap(running)
        with running.connect("alice") as alice:
            for _ in range(3):
                count(alice, epsilon=0.5)
            count(alice, table="days", predicate="day = '2024-01-03'", epsilon=0.25)
            count(alice, table="bent", epsilon=0.1)
            count(alice, table="items", epsilon=1)
            ANSWERED.update(one(alice, OVER_30))
            query = "SELECT count(*) FROM people WHERE sex = $1"
            call = "SELECT * FROM dp.dp_release_numeric('by_sex', %s, '{f}', epsilon => 0.1, publish => true)"
            alice.execute(call, [query]).fetchall()
        running.execute(
            "SELECT dp._chain(dp._record_failure('shop', 'alice', 'key', 'dp_count', NULL, '22012', 'here:1', NULL))"
        )
        running.psql("CALL dp.set_limits(rows => 2000000000)", user="boss")
        with running.connect("boss") as boss:
            boss.execute("SELECT * FROM dp.export_ledger()").fetchall()
        yield running


def standard_with_gap(cluster: Cluster) -> None:
    """The standard tables; people loses two columns, so that a restore numbers its columns anew."""
    people = PEOPLE.replace("(id int PRIMARY KEY,", "(nick text, id int PRIMARY KEY, note text,").replace(
        "INSERT INTO people SELECT", "INSERT INTO people SELECT 'x', "
    )
    people = people.replace("SELECT 'x',  i,", "SELECT 'x', i, 'y',")
    cluster.psql(people, user="boss")
    cluster.psql("ALTER TABLE people DROP nick, DROP note", user="boss")
    cluster.psql(SHOP, user="boss")
    cluster.psql(
        "CREATE TABLE days (id int PRIMARY KEY, day date); CALL dp.create_dataset('days', epsilon => 1);"
        "CALL dp.protect('days', 'days', partition_by => 'day',"
        """grid => '{"origin": "2024-01-01", "width": "7 days"}');"""
        "CALL dp.describe_column('days', 'day'); CALL dp.publish('days'); CALL dp.allot('alice', 'days', epsilon => 1);"
        "CREATE TABLE bent (id int PRIMARY KEY);"
        "CALL dp.create_dataset('bent', epsilon => 1, delta => 1e-6, accountant => 'renyi');"
        "CALL dp.protect('bent', 'bent'); CALL dp.publish('bent'); CALL dp.allot('alice', 'bent', epsilon => 1);"
        "CREATE TABLE people_syn (gap int, LIKE people, w int); ALTER TABLE people_syn DROP gap;"
        "CALL dp.register_synthetic('people', 'people_syn', 'declassified', weight => 'w');"
        "CREATE TABLE bent_syn (LIKE bent); CALL dp.register_synthetic('bent', 'bent_syn', 'dp', 0.1, proof => 'p');"
        "CREATE TABLE lost (LIKE people); CALL dp.register_synthetic('people', 'lost', 'declassified');"
        "DROP TABLE lost;",
        user="boss",
    )


def check_restored(source: Cluster, target: Cluster, dbname: str) -> None:
    """The copy holds what the original holds, answers what was answered, and nothing else until it is confirmed."""
    assert content(target, dbname) == content(source, PRIVATE)
    with target.connect("alice", dbname) as alice, source.connect("alice") as before:
        for table in ("people", "days", "bent", "items"):
            with refused("DP006", "frozen"):
                count(alice, table=table)
        assert one(alice, OVER_30)["rows"] == ANSWERED["rows"], "what was released stays readable"
        assert one(alice, "SELECT count(*) FROM dp.cache_status") == one(before, "SELECT count(*) FROM dp.cache_status")
        assert one(alice, "SELECT bool_and(frozen) FROM dp.budget")
        relative = one(alice, "SELECT relative_to FROM dp.budget WHERE dataset = 'people'")
        assert relative == ["public.lost", "public.people_syn"], "a declassified table is named for ever"
        copies = "SELECT relation, copy_of, provenance FROM dp.published WHERE kind = 'synthetic' GROUP BY 1, 2, 3"
        assert sorted(alice.execute(copies).fetchall()) == [
            ("dp_release.by_sex", "public.people", "generated"),
            ("public.bent_syn", "public.bent", "dp"),
            ("public.people_syn", "public.people", "declassified"),
        ]
        for sql in ("TABLE dp_release.by_sex", "TABLE dp.release_answers"):
            assert sorted(alice.execute(sql).fetchall()) == sorted(before.execute(sql).fetchall()) != []
    with target.connect(dbname=dbname) as root:
        valid = "SELECT bool_and((s ->> 'valid')::boolean) FROM jsonb_array_elements(dp._synthetics_of(%s::regclass)) s"
        assert [one(root, valid, table) for table in ("people", "bent")] == [True, True]
    with target.connect("boss", dbname) as boss:
        frozen = boss.execute("SELECT object FROM dp.check() WHERE problem LIKE 'its accounts are frozen%'").fetchall()
        assert [row[0] for row in frozen] == ["bent", "days", "people", "shop"]
        with refused("DP005", "say how much"):
            boss.execute("CALL dp.confirm_ledger('people')")
        for amount in ("-1", "'NaN'", "'Infinity'", "1e-30"):
            with refused("DP005"):
                boss.execute(f"CALL dp.confirm_ledger('people', add_epsilon => {amount})")
        boss.execute("CALL dp.confirm_ledger('people', add_epsilon => 0.25)")
        boss.execute("CALL dp.confirm_ledger('days', add_epsilon => 0)")
        boss.execute("CALL dp.confirm_ledger('bent', add_epsilon => 0.05)")
        with refused("DP005", "not frozen"):
            boss.execute("CALL dp.confirm_ledger('people', add_epsilon => 0)")
        errors = "SELECT object FROM dp.check() WHERE severity = 'error' AND problem NOT LIKE '%may connect to%'"
        assert boss.execute(errors).fetchall() == [("shop",), ("shop",)]


def check_confirmed(target: Cluster, dbname: str) -> None:
    with target.connect("alice", dbname) as alice, target.connect(dbname=dbname) as root:
        people = "SELECT sum(spent_epsilon) FROM dp.account WHERE dataset = 'people' AND role = ''"
        was = one(root, people)
        assert was == Decimal("1.7") + Decimal("0.25")
        last = one(root, "SELECT max(seq) FROM dp.ledger")
        count(alice, epsilon=0.5, predicate="age > 30 AND sex = 'f' AND income < 500")
        assert one(root, people) == was + Decimal("0.5")
        assert one(root, "SELECT max(seq) FROM dp.ledger") == last + 1, "the ledger's numbering goes on"
        with refused("DP001", "0.75 is left"):
            count(alice, table="days", predicate="day = '2024-01-03'", epsilon=0.8)
        count(alice, table="days", predicate="day = '2024-01-10'", epsilon=0.8)
        count(alice, table="bent", epsilon=0.1)
        with refused("DP006", "frozen"):
            count(alice, table="items")
        wrong = (
            "SELECT count(*) FROM dp.column_policy c"
            " JOIN pg_attribute a ON a.attrelid = c.relation AND a.attnum = c.attnum"
            " WHERE a.attname <> c.attname OR a.attisdropped"
        )
        assert one(root, wrong) == 0
        assert one(root, "SELECT count(*) FROM dp._ledger_mismatch()") == 0
        row = "SELECT lower, upper FROM dp.column_policy WHERE relation = 'people'::regclass AND attname = 'age'"
        assert root.execute(row).fetchall() == [("18", "80")]


def test_restore_on_another_server(source: Cluster) -> None:
    with cluster_at_work() as target:
        target.psql("CREATE ROLE boss LOGIN; CREATE ROLE alice LOGIN; CREATE ROLE bob LOGIN", dbname="postgres")
        file = dump(source)
        restore(target, file, "copy")
        target.psql(
            "GRANT dp_admin TO boss; GRANT dp_analyst TO alice, bob;GRANT CONNECT ON DATABASE copy TO boss, dp_analyst",
            dbname="copy",
        )
        check_restored(source, target, "copy")
        check_confirmed(target, "copy")
        with target.connect(dbname="copy") as root, source.connect() as origin:
            sql = "SELECT id::text FROM dp.incarnation"
            assert one(root, sql) != one(origin, sql), "the incarnation is never dumped"
            version = "SELECT version FROM dp.policy_state"
            assert one(root, version) > one(origin, version), "ahead of any facade of the original"
        again = dump(target, "copy")
        restore(target, again, "copy2")
        with target.connect("boss", "copy") as boss, refused("42501", hint=False):
            boss.execute("SELECT * FROM dp.incarnation")


def test_restore_into_another_database_of_the_same_server(source: Cluster) -> None:
    before = spent(source)
    restore(source, dump(source), "twin")
    try:
        source.execute("GRANT CONNECT ON DATABASE twin TO boss, dp_analyst", dbname="twin")
        with no_charge(source):
            check_restored(source, source, "twin")
            check_confirmed(source, "twin")
    finally:
        source.execute("DROP DATABASE twin WITH (FORCE)", dbname="postgres")
        source.psql("CALL dp.repair_channel()")
    with source.connect("alice") as alice:
        count(alice, epsilon=0.25)
    assert spent(source) == before + Decimal("0.25")
    balanced(source)


def test_a_clone_starts_with_nothing_unless_the_owner_splits_the_cap(source: Cluster) -> None:
    """CREATE DATABASE … TEMPLATE beside a living original: add the original's share of the cap."""
    source.execute(f"CREATE DATABASE clone TEMPLATE {PRIVATE}", dbname="postgres")
    try:
        source.execute("GRANT CONNECT ON DATABASE clone TO boss, dp_analyst", dbname="clone")
        source.psql("CALL dp.repair_channel()", dbname="clone")
        with source.connect("boss", "clone") as boss, source.connect("alice", "clone") as alice:
            with refused("DP006", "frozen"):
                count(alice)
            used = one(boss, "SELECT epsilon - epsilon_left FROM dp.budget WHERE dataset = 'people'")
            boss.execute("CALL dp.confirm_ledger('people', add_epsilon => 10)")
            with refused("DP001", "0 is left"):
                count(alice, epsilon=0.001)
            assert used > 0
    finally:
        source.execute("DROP DATABASE clone WITH (FORCE)", dbname="postgres")
        source.psql("CALL dp.repair_channel()")
