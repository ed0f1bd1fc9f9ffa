"""Triggers of ours on somebody's table give him none of our rights: neither by their arguments nor by his types' casts.

A role in dp_admin may attach them to any table that it owns (dp.protect and dp.enable_turbo run as their caller).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

from fix_cluster import Cluster, standard_cluster
from fix_ledger import one, refused

SETUP = """
CREATE TABLE parts (k int, a int);
INSERT INTO parts SELECT i % 30, i % 4 FROM generate_series(1, 3000) i;
CALL dp.create_dataset('parts', epsilon => 10);
CALL dp.protect('parts', 'parts', partition_by => 'k', grid => '{"origin": "0", "width": "10"}');
CALL dp.describe_column('parts', 'k');
CALL dp.describe_column('parts', 'a', bounds => '{0,3}', nullable => false);
CALL dp.publish('parts');
CALL dp.enable_turbo('parts', '{a}', 0.05, 0.001, partition_by => 'k', partition_key_is_public => true, scale => 1000);
CALL dp.seal_partition('parts', '5');
"""
SECRET = "(SELECT string_agg(encode(counts, 'hex'), ',') FROM dp.turbo_leaf_counts)"
ENUM = """
CREATE TYPE mood AS ENUM ('x', 'y');
CREATE TABLE moody (k int, m mood);
CREATE FUNCTION as_json(mood) RETURNS json LANGUAGE sql AS $$
  SELECT to_json(set_config('leak.json', current_user, false)) $$;
CREATE FUNCTION as_text(mood) RETURNS text LANGUAGE sql AS $$ SELECT set_config('leak.text', current_user, false) $$;
CREATE CAST (mood AS json) WITH FUNCTION as_json(mood);
CREATE CAST (mood AS text) WITH FUNCTION as_text(mood);
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with standard_cluster() as running:
        running.psql(SETUP, user="boss")
        running.execute(
            "CREATE ROLE eve LOGIN",
            "GRANT dp_admin TO eve",
            "GRANT CONNECT ON DATABASE private TO eve",
            "GRANT CREATE ON SCHEMA public TO eve",
        )
        running.psql(ENUM, user="eve")
        yield running


@pytest.fixture(scope="module")
def eve(cluster: Cluster) -> Iterator[psycopg.Connection[Any]]:
    with cluster.connect("eve") as conn:
        yield conn


def attached(cluster: Cluster, eve: psycopg.Connection[Any], column: str, kind: str) -> None:
    with cluster.connect() as root:
        view = one(root, "SELECT view FROM dp.turbo_view")
    eve.execute("DROP TRIGGER IF EXISTS late ON moody")
    call = "CREATE TRIGGER late BEFORE INSERT ON moody FOR EACH ROW EXECUTE FUNCTION dp._sealed_partition({}, {}, {})"
    eve.execute(sql.SQL(call).format(str(view), column, kind))


def leaked(eve: psycopg.Connection[Any]) -> set[str | None]:
    names = ("leak.kind", "leak.json", "leak.text")
    return {one(eve, "SELECT nullif(current_setting(%s, true), '')", name) for name in names}


def test_a_type_named_in_an_argument_is_no_sql(cluster: Cluster, eve: psycopg.Connection[Any]) -> None:
    attached(cluster, eve, "k", f"text || (SELECT set_config('leak.kind', {SECRET}, false))")
    with refused("42501", "is sealed"):
        eve.execute("INSERT INTO moody VALUES (5, 'x')")
    eve.execute("INSERT INTO moody VALUES (15, 'x'), (NULL, 'x')")
    assert leaked(eve) == {None}


@pytest.mark.parametrize("column", ["k", "m"])
def test_casts_of_a_table_s_types_do_not_run_as_ours(
    cluster: Cluster, eve: psycopg.Connection[Any], column: str
) -> None:
    attached(cluster, eve, column, "text")
    with cluster.connect("eve") as again:
        with contextlib.suppress(psycopg.Error):  # whether the row is refused is nothing to this test
            again.execute("INSERT INTO moody VALUES (5, 'x')")
        assert leaked(again) == {None}
    eve.execute("DROP TRIGGER late ON moody")


def test_the_partition_key_is_compared_as_the_writer(eve: psycopg.Connection[Any]) -> None:
    eve.execute(
        "CREATE TRIGGER kept BEFORE UPDATE ON moody FOR EACH ROW EXECUTE FUNCTION dp._partition_key_immutable('k')"
    )
    eve.execute("INSERT INTO moody VALUES (15, 'x')")
    eve.execute("UPDATE moody SET m = 'y' WHERE k = 15")
    assert leaked(eve) <= {None, "eve"}
    with refused("42501", "cannot be updated"):
        eve.execute("UPDATE moody SET k = 16 WHERE k = 15")
