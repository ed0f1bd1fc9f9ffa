"""What other extensions own, and what dp.unharden_catalog gives back. TimescaleDB's own: tests/timescale."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fix_cluster import Cluster, standard_cluster
from fix_ledger import one

OPEN = """
SELECT has_table_privilege('alice', 'pg_catalog.pg_class', 'SELECT'),
       has_column_privilege('alice', 'pg_catalog.pg_class', 'reltuples', 'SELECT'),
       has_table_privilege('alice', 'pg_catalog.pg_shdepend', 'SELECT'),
       has_function_privilege('alice', 'pg_relation_size(regclass, text)', 'EXECUTE'),
       has_function_privilege('alice', 'pg_stat_get_live_tuples(oid)', 'EXECUTE')
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with standard_cluster() as running:
        yield running


def problems(cluster: Cluster, extension: str) -> list[tuple[str, str]]:
    sql = "SELECT severity, problem FROM dp.check() WHERE object = 'extension ' || %s ORDER BY 2"
    with cluster.connect("boss") as boss:
        return boss.execute(sql, [extension]).fetchall()


def test_all_that_was_taken_is_given_back(cluster: Cluster) -> None:
    with cluster.connect() as root:
        assert root.execute(OPEN).fetchone() == (False,) * 5
        root.execute("CALL dp.unharden_catalog()")
        assert root.execute(OPEN).fetchone() == (True,) * 5
        public = "SELECT relacl FROM pg_class WHERE oid = 'pg_class'::regclass"
        assert "=r/" in str(one(root, public))
        assert (
            one(root, "SELECT count(*) FROM pg_attribute WHERE attrelid = 'pg_class'::regclass AND attacl <> '{}'") == 0
        )
        root.execute("CALL dp.harden_catalog()")
        assert root.execute(OPEN).fetchone() == (False,) * 5
    with cluster.connect("alice") as alice:
        assert one(alice, "SELECT relname FROM pg_class WHERE oid = 'pg_class'::regclass") == "pg_class"


def test_what_analysts_may_use_of_other_extensions_is_told(cluster: Cluster) -> None:
    """Whether it tells about rows somebody has to know: a warning, until the rights are taken."""
    assert problems(cluster, "pg_stat_statements") == []
    cluster.execute("CREATE EXTENSION pg_stat_statements")
    (function, relation) = problems(cluster, "pg_stat_statements")
    assert function[0] == relation[0] == "warning"
    assert "functions: public.pg_stat_statements(boolean), public.pg_stat_statements_info()" in function[1]
    assert "2 of its relations: public.pg_stat_statements, public.pg_stat_statements_info" in relation[1]
    cluster.execute(
        "REVOKE ALL ON pg_stat_statements, pg_stat_statements_info FROM PUBLIC",
        "REVOKE ALL ON FUNCTION pg_stat_statements(boolean), pg_stat_statements_info() FROM PUBLIC",
    )
    assert problems(cluster, "pg_stat_statements") == []
    cluster.execute("DROP EXTENSION pg_stat_statements")


def test_without_timescaledb_nothing_is_said_of_it(cluster: Cluster) -> None:
    """Who is no superuser may make a trusted extension."""
    cluster.execute("GRANT CREATE ON DATABASE private TO boss")
    with cluster.connect("boss") as boss:
        told: list[str | None] = []
        boss.add_notice_handler(lambda notice: told.append(notice.message_primary))
        boss.execute("CREATE EXTENSION pg_trgm")
        boss.execute("DROP EXTENSION pg_trgm")
    assert told == []


def test_of_functions_that_depend_on_their_arguments_alone_nothing_is_said(cluster: Cluster) -> None:
    cluster.execute("CREATE EXTENSION citext", "CREATE EXTENSION btree_gist")
    assert problems(cluster, "citext") == problems(cluster, "btree_gist") == []
    cluster.execute("DROP EXTENSION citext", "DROP EXTENSION btree_gist")
