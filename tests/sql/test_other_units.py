"""A relation whose rows belong to several units each: what may be declared, and that it stays declared."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from fix_cluster import Cluster, standard_cluster

SCHEMA = """
CREATE TABLE node (id int PRIMARY KEY, name text UNIQUE);
CREATE TABLE edge (a int REFERENCES node, b int REFERENCES node, c bigint, d text, e int);
CREATE TABLE visit (guest int, host int, day date);
CALL dp.create_dataset('graph', unit => 'user', epsilon => 10);
CALL dp.create_dataset('rows', epsilon => 10);
CALL dp.protect('node', 'graph', unit_column => 'id');
"""


@pytest.fixture(scope="module")
def graph() -> Iterator[Cluster]:
    with standard_cluster() as cluster:
        cluster.psql(SCHEMA, user="boss")
        yield cluster


@pytest.mark.parametrize(
    ("call", "sqlstate"),
    [
        ("dp.protect('edge', 'graph', unit_path => '{a,id}', other_units => '{}')", "DP005"),
        ("dp.protect('edge', 'graph', unit_path => '{a,id}', other_units => '{NULL}')", "DP005"),
        ("dp.protect('edge', 'graph', unit_path => '{a,id}', other_units => '{a}')", "DP005"),
        ("dp.protect('edge', 'graph', unit_path => '{a,id}', other_units => '{b,b}')", "DP005"),
        ("dp.protect('edge', 'graph', unit_path => '{a,id}', other_units => '{b,c,d,e}')", "DP005"),
        ("dp.protect('edge', 'graph', unit_path => '{a,id}', other_units => '{nothing}')", "42703"),
        ("dp.protect('edge', 'graph', unit_path => '{a,id}', other_units => '{e}')", "DP005"),  # no foreign key
        ("dp.protect('edge', 'graph', unit_column => 'a', other_units => '{c}')", "DP005"),  # another type
        ("dp.protect('edge', 'graph', unit_column => 'd', other_units => '{a}')", "DP005"),
        ("dp.protect('edge', 'rows', other_units => '{a}')", "DP005"),
    ],
)
def test_refused(graph: Cluster, call: str, sqlstate: str) -> None:
    with graph.connect("boss") as boss, pytest.raises(psycopg.Error) as refused:
        boss.execute(f"CALL {call}".encode())
    assert refused.value.sqlstate == sqlstate
    assert refused.value.diag.message_hint


@pytest.fixture(scope="module")
def protected(graph: Cluster) -> Cluster:
    graph.psql(
        "CALL dp.protect('edge', 'graph', unit_path => '{a,id}', other_units => '{b}');"
        "CALL dp.protect('visit', 'graph', unit_column => 'guest', other_units => '{host}');",
        user="boss",
    )
    return graph


def test_kept(protected: Cluster) -> None:
    with protected.connect() as root:
        found = root.execute(
            "SELECT relation::text, other_units FROM dp.relation_policy WHERE dataset = 'graph' ORDER BY 1"
        ).fetchall()
    assert found == [("edge", ["b"]), ("node", None), ("visit", ["host"])]


@pytest.mark.parametrize(
    "ddl",
    [
        "ALTER TABLE edge DROP COLUMN b",
        "ALTER TABLE edge RENAME COLUMN b TO z",
        "ALTER TABLE visit DROP COLUMN host",
        "ALTER TABLE visit RENAME host TO z",
    ],
)
def test_a_unit_column_cannot_go(protected: Cluster, ddl: str) -> None:
    with protected.connect("boss") as boss, pytest.raises(psycopg.Error) as refused:
        boss.execute(ddl.encode())
    assert refused.value.sqlstate == "42501"
