"""dp.check(): make each kind of problem, see it named, repair it as the hint says, see it gone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fix_cluster import Cluster, standard_cluster
from fix_ledger import refused


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with standard_cluster() as running:
        running.execute("REVOKE CONNECT ON DATABASE postgres, template1 FROM PUBLIC", dbname="postgres")
        yield running


def problems(cluster: Cluster) -> set[tuple[str, str, str]]:
    with cluster.connect("boss") as boss:
        rows = boss.execute("SELECT severity, object, problem, hint FROM dp.check()").fetchall()
    assert all(hint for *_, hint in rows), "every problem has a hint"
    return {(severity, object_, problem) for severity, object_, problem, _ in rows}


# name: (make it, object, words of the problem, severity, repair)
CASES = {
    "superuser": ("ALTER ROLE alice SUPERUSER", "alice", "attribute", "error", "ALTER ROLE alice NOSUPERUSER"),
    "bypassrls": ("ALTER ROLE alice BYPASSRLS", "alice", "attribute", "error", "ALTER ROLE alice NOBYPASSRLS"),
    "createrole": ("ALTER ROLE alice CREATEROLE", "alice", "attribute", "error", "ALTER ROLE alice NOCREATEROLE"),
    "createdb": ("ALTER ROLE alice CREATEDB", "alice", "attribute", "error", "ALTER ROLE alice NOCREATEDB"),
    "replication": ("ALTER ROLE alice REPLICATION", "alice", "attribute", "error", "ALTER ROLE alice NOREPLICATION"),
    **{
        group: (f"GRANT {group} TO alice", "alice", f"member of {group}", "error", f"REVOKE {group} FROM alice")
        for group in ("dp_owner", "dp_admin", "dp_gateway", "dp_channel", "dp_auth", "dp_facade", "dp_reader")
    },
    "pg_ role": ("GRANT pg_monitor TO alice", "alice", "pg_monitor", "error", "REVOKE pg_monitor FROM alice"),
    **{
        privilege: (
            f"GRANT {privilege} ON people TO alice",
            "public.people",
            f"alice holds {privilege}",
            "error",
            f"REVOKE {privilege} ON people FROM alice",
        )
        for privilege in ("SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER")
    },
    "a column's privilege": (
        "GRANT REFERENCES (id) ON people TO alice",
        "public.people",
        "alice holds REFERENCES",
        "error",
        "REVOKE REFERENCES (id) ON people FROM alice",
    ),
    "an index that calls an owner's function": (
        "CREATE FUNCTION public.sly(int) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT true';"
        " ALTER FUNCTION public.sly(int) OWNER TO boss; CREATE INDEX sly ON people (id) WHERE public.sly(1)",
        "public.people",
        "public.sly(integer)",
        "error",
        "DROP INDEX public.sly; DROP FUNCTION public.sly(int)",
    ),
    "a grant to PUBLIC": (
        "GRANT SELECT ON people TO PUBLIC",
        "public.people",
        "bob holds SELECT",
        "error",
        "REVOKE SELECT ON people FROM PUBLIC",
    ),
    "a grant to the group, whose members are none": (
        "REVOKE dp_analyst FROM alice, bob; GRANT SELECT ON people TO dp_analyst",
        "public.people",
        "the role dp_analyst holds SELECT",
        "error",
        "GRANT dp_analyst TO alice, bob; REVOKE SELECT ON people FROM dp_analyst",
    ),
    "an allotment of who may not ask": (
        "REVOKE dp_analyst FROM alice",
        "alice",
        "has an allotment in people",
        "warning",
        "GRANT dp_analyst TO alice",
    ),
    "the reader": (
        "GRANT SELECT ON people TO dp_reader",
        "public.people",
        "dp_reader holds SELECT",
        "error",
        "REVOKE SELECT ON people FROM dp_reader",
    ),
    "a partition": (
        "GRANT SELECT ON years_2024 TO alice",
        "public.years_2024",
        "alice holds SELECT",
        "error",
        "REVOKE SELECT ON years_2024 FROM alice",
    ),
    "a view": (
        "CREATE VIEW v AS SELECT * FROM people; GRANT SELECT ON v TO alice",
        "public.v",
        "a view over public.people",
        "error",
        "DROP VIEW v",
    ),
    "a view over a view": (
        "CREATE VIEW v AS SELECT * FROM people; CREATE VIEW w AS SELECT 1 FROM v; GRANT SELECT ON w TO alice",
        "public.w",
        "a view over public.people",
        "error",
        "DROP VIEW v CASCADE",
    ),
    "a materialised view's column": (
        "CREATE MATERIALIZED VIEW m AS SELECT age FROM people; GRANT SELECT (age) ON m TO alice",
        "public.m",
        "a view over public.people",
        "error",
        "DROP MATERIALIZED VIEW m",
    ),
    "counters open": (
        "GRANT EXECUTE ON FUNCTION pg_stat_get_live_tuples(oid) TO PUBLIC",
        "pg_stat_get_live_tuples(oid)",
        "PUBLIC may execute",
        "error",
        "CALL dp.harden_catalog()",
    ),
    "sizes open": (
        "GRANT EXECUTE ON FUNCTION pg_relation_size(regclass, text) TO PUBLIC",
        "pg_relation_size(regclass,text)",
        "PUBLIC may execute",
        "error",
        "CALL dp.harden_catalog()",
    ),
    "pg_class open": (
        "GRANT SELECT ON pg_class TO PUBLIC",
        "pg_catalog.pg_class",
        "reltuples",
        "error",
        "CALL dp.harden_catalog()",
    ),
    "a column of pg_class open": (
        "GRANT SELECT (relpages) ON pg_class TO PUBLIC",
        "pg_catalog.pg_class",
        "relpages",
        "error",
        "REVOKE SELECT (relpages) ON pg_class FROM PUBLIC",
    ),
    "settings of others open": (
        "GRANT SELECT ON pg_db_role_setting TO PUBLIC",
        "pg_db_role_setting",
        "PUBLIC may read it",
        "error",
        "CALL dp.harden_catalog()",
    ),
    "the engine cannot read": (
        "REVOKE SELECT ON people FROM dp_owner",
        "public.people",
        "dp_owner cannot read",
        "error",
        "GRANT SELECT ON people TO dp_owner",
    ),
    "row-level security": (
        "ALTER TABLE people ENABLE ROW LEVEL SECURITY",
        "public.people",
        "row-level security",
        "error",
        "ALTER TABLE people DISABLE ROW LEVEL SECURITY",
    ),
    "row units joined": (
        "ALTER TABLE years ADD CONSTRAINT j FOREIGN KEY (person) REFERENCES people",
        "public.years",
        "foreign key joins it",
        "error",
        "ALTER TABLE years DROP CONSTRAINT j",
    ),
    "a broken path": (
        "ALTER TABLE items DROP CONSTRAINT items_order_id_fkey",
        "public.items",
        "the way to its privacy unit is broken",
        "error",
        "ALTER TABLE items ADD FOREIGN KEY (order_id) REFERENCES orders",
    ),
    "frozen": (
        "UPDATE dp.dataset SET incarnation = gen_random_uuid() WHERE name = 'shop'",
        "shop",
        "frozen",
        "error",
        "CALL dp.confirm_ledger('shop', add_epsilon => 0)",
    ),
    "books that disagree": (
        "INSERT INTO dp.account (dataset, period, node, spent_epsilon) VALUES ('years', '-infinity', 'root', 0.125)",
        "years",
        "accounts and the ledger disagree",
        "error",
        """INSERT INTO dp.ledger
             (request_id, who, dataset, kind, call, mechanism, charge, epsilon, delta, scope, policy_version)
           VALUES (gen_random_uuid(), 'x', 'years', 'confirm', '', '', '[]', 0.125, 0, '{"node": "root"}', 1);
           SELECT dp._chain(ARRAY(SELECT request_id FROM dp.ledger WHERE who = 'x'))""",
    ),
    "a closed question": (
        "SELECT dp._chain(dp._record_failure('people', 'alice', 'key', 'dp_count', NULL, '22012', 'here:1', NULL))",
        "people",
        "a question of alice is closed",
        "error",
        "DELETE FROM dp.closed_question",
    ),
    "a closed allotment": (
        "INSERT INTO dp.closed_allotment VALUES ('people', 'alice')",
        "alice",
        "closed its allotment in dataset people",
        "error",
        "CALL dp.reopen('people')",
    ),
    "a dataset frozen by its owner": (
        "CALL dp.freeze('people')",
        "people",
        "its owner stopped it",
        "error",
        "CALL dp.reopen('people')",
    ),
    "no channel": (
        "DROP SERVER dp_ledger CASCADE",
        "dp_ledger",
        "no ledger channel",
        "error",
        "CALL dp.repair_channel()",
    ),
    "an undeclared column": (
        "ALTER TABLE people ADD COLUMN extra int",
        "public.people",
        "column extra is not declared",
        "warning",
        "ALTER TABLE people DROP COLUMN extra",
    ),
    "not published": (
        "DELETE FROM dp.publication WHERE relation = 'people'::regclass",
        "public.people",
        "not published",
        "warning",
        "CALL dp.publish('people')",
    ),
    "no cap on rows": (
        "UPDATE dp.relation_policy SET max_rows_per_unit = NULL WHERE relation = 'orders'::regclass",
        "public.orders",
        "max_rows_per_unit",
        "warning",
        "UPDATE dp.relation_policy SET max_rows_per_unit = 5 WHERE relation = 'orders'::regclass",
    ),
    "no allotment": (
        "DELETE FROM dp.role_allotment WHERE dataset = 'years'",
        "years",
        "nobody has an allotment",
        "warning",
        "CALL dp.allot('alice', 'years', epsilon => 1)",
    ),
    "another database": (
        "GRANT CONNECT ON DATABASE template1 TO PUBLIC",
        "template1",
        "alice may connect",
        "error",
        "REVOKE CONNECT ON DATABASE template1 FROM PUBLIC",
    ),
}


@pytest.fixture(scope="module", autouse=True)
def _years(cluster: Cluster) -> None:
    """A partitioned table in the dataset of people."""
    cluster.psql(
        "CREATE TABLE years (id int, person int, day date) PARTITION BY RANGE (day);"
        "CREATE TABLE years_2024 PARTITION OF years FOR VALUES FROM ('2024-01-01') TO ('2025-01-01');"
        "CALL dp.protect('years', 'people'); CALL dp.publish('years');"
        "CALL dp.create_dataset('years', epsilon => 1); CALL dp.allot('alice', 'years', epsilon => 1)",
        user="boss",
    )


def test_ready(cluster: Cluster) -> None:
    """No row with severity error: ready (a person may be in two datasets: a notice for ever)."""
    found = problems(cluster)
    assert {severity for severity, *_ in found} == {"warning", "notice"}
    assert ("notice", "people, shop, years") in {row[:2] for row in found}


@pytest.fixture(scope="module")
def before(cluster: Cluster) -> set[tuple[str, str, str]]:
    """What is found before anything is broken; dp.check() tries the engine anew each time, which takes a while."""
    return problems(cluster)


@pytest.mark.parametrize("name", CASES)
def test_each_problem_is_named_and_repaired(cluster: Cluster, before: set[tuple[str, str, str]], name: str) -> None:
    make, object_, words, severity, repair = CASES[name]
    with cluster.connect() as root:
        root.execute(make)
        try:
            new = problems(cluster) - before
            hits = [row for row in new if row[0] == severity and row[1] == object_ and words in row[2]]
            assert hits, new
        finally:
            root.execute(repair)
    assert problems(cluster) == before


def test_only_admins_check(cluster: Cluster) -> None:
    for role in ("alice", "dp_gateway"):
        with cluster.connect(role) as conn, refused("42501", hint=False):
            conn.execute("SELECT * FROM dp.check()")
