"""What the engine remembers between questions must not outlive what made it true.

An owner changes a table while analysts' backends are warm: the next question sees the change, or is refused. Every
answer is within 900 of the truth but with probability 1e-19 (epsilon 0.05): a bound that a changed table would break.
"""

from __future__ import annotations

import time
from typing import Any

import psycopg
import pytest

import fix_chance
from fix_cluster import Cluster

pytestmark = pytest.mark.chance(fix_chance.laplace(20, 900, 10))

WARM = 12  # more questions than the channel has backends for one session
ROWS = 1000

WORLD = """
CREATE TABLE towns{0} (name text PRIMARY KEY, size int);
INSERT INTO towns{0} VALUES ('north', 1), ('south', 2), ('east', 3); CALL dp.publish('towns{0}', kind => 'public');
"""
# name: what the owner does to a public table towns, after which one row of people would count many times
CHANGES = {
    "a child repeats the key": "CREATE TABLE more{0} () INHERITS (towns{0});"
    "INSERT INTO more{0} SELECT 'north', 1 FROM generate_series(1, 1000);",
    "a table becomes a child": "CREATE TABLE other{0} (name text NOT NULL, size int); INSERT INTO other{0}"
    " SELECT 'north', 1 FROM generate_series(1, 1000); ALTER TABLE other{0} INHERIT towns{0};",
    "the key is dropped": "ALTER TABLE towns{0} DROP CONSTRAINT towns{0}_pkey;"
    "INSERT INTO towns{0} SELECT 'north', 1 FROM generate_series(1, 1000);",
    "the key moves to another column": "ALTER TABLE towns{0} DROP CONSTRAINT towns{0}_pkey; ALTER TABLE towns{0}"
    " ADD id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY; INSERT INTO towns{0}"
    " SELECT 'north', 1 FROM generate_series(1, 1000);",
    "another table takes its name": "DROP TABLE towns{0}; CREATE TABLE towns{0} (name text, size int);"
    "INSERT INTO towns{0} SELECT 'north', 1 FROM generate_series(1, 1000);",
    "it is not public any more": "CALL dp.unpublish('towns{0}'); INSERT INTO towns{0}"
    " VALUES ('west', 9); ALTER TABLE towns{0} DROP CONSTRAINT towns{0}_pkey;"
    "INSERT INTO towns{0} SELECT 'north', 1 FROM generate_series(1, 1000);",
}


@pytest.fixture(scope="module")
def changing(cluster: Cluster) -> Cluster:
    tables = "".join(WORLD.format(number) for number in range(len(CHANGES)))
    cluster.psql("CALL dp.allot('alice', 'people', epsilon => 10);" + tables, user="boss")
    return cluster


def asked(session: psycopg.Connection[Any], question: str) -> int | str:
    """The answer, or the SQLSTATE of the refusal."""
    try:
        row = session.execute(question.encode()).fetchone()
    except psycopg.DatabaseError as refused:
        return refused.sqlstate or repr(refused)
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("number", range(len(CHANGES)), ids=CHANGES)
def test_a_key_that_is_gone_bounds_nothing(changing: Cluster, number: int) -> None:
    request = (
        "SELECT dp.dp_query(dp.dp_count_request('people', 'people.age <> {0}', epsilon => 0.05)"
        ' || \'{{"joins": [{{"schema": "public", "name": "towns{1}", "alias": "t", "on": "t.name = people.city"}}]}}\')'
        " #>> '{{rows,0,0}}'"
    )
    with changing.connect("alice", tcp=True) as session:
        before = [asked(session, request.format(100 + count, number)) for count in range(3)]
        assert all(isinstance(answer, int) and answer < 2 * ROWS for answer in before), before
        changing.psql(list(CHANGES.values())[number].format(number), user="boss")
        time.sleep(0.1)
        after = [asked(session, request.format(200 + count, number)) for count in range(WARM)]
    assert all(isinstance(answer, str) or answer < 2 * ROWS for answer in after), after
    assert any(isinstance(answer, str) for answer in after)
