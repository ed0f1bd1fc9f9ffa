"""A fact of a relation that keeps it from being read is said before anything is paid (report R8).

Row-level security, a right that was taken away, a foreign part that cannot be connected to: each
with what the administrator types, and answered again as soon as it is undone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from fix_cluster import ROOT
from fix_ledger import one
from fix_stack import Stack, stack_at_work

Connection = psycopg.Connection[Any]
PARTS = """
CREATE TABLE parts (d date, v int) PARTITION BY RANGE (d);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM ('2024-01-01') TO ('2024-02-01');
INSERT INTO parts SELECT date '2024-01-01' + i % 31, i % 10 FROM generate_series(1, 300) i;
CALL dp.protect('parts', 'rep', max_rows => 1000);
CALL dp.describe_column('parts', 'd');
CALL dp.describe_column('parts', 'v', bounds => '{0,9}', resolution => '1', nullable => false);
CALL dp.publish('parts');
"""
FAR = """
CREATE EXTENSION postgres_fdw;
CREATE SERVER "far off" FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '1');
CREATE FOREIGN TABLE parts_2 (d date, v int) SERVER "far off";
"""
ATTACHED = "ALTER TABLE parts ATTACH PARTITION parts_2 FOR VALUES FROM ('2024-02-01') TO ('2024-03-01')"
DETACHED = "ALTER TABLE parts DETACH PARTITION parts_2"
# What is done, what is said of it, what is to be typed (a piece of it), and what undoes it.
FACTS = {
    "row-level security": (
        "acc",
        "ALTER TABLE acc ENABLE ROW LEVEL SECURITY",
        "row-level security of public.acc would filter",
        "ALTER TABLE public.acc DISABLE ROW LEVEL SECURITY",
        "ALTER TABLE acc DISABLE ROW LEVEL SECURITY",
    ),
    "a right": (
        "acc",
        "REVOKE SELECT ON acc FROM dp_owner",
        "dp_owner may not read public.acc",
        "GRANT SELECT ON public.acc TO dp_owner",
        "GRANT SELECT ON acc TO dp_owner",
    ),
    "a foreign part": (
        "parts",
        ATTACHED,
        'public.parts_2 on server "far off", cannot be read by dp_owner (SQLSTATE 42704)',
        "ALTER TABLE public.parts DETACH PARTITION public.parts_2",
        DETACHED,
    ),
}


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with stack_at_work() as running:
        script = (ROOT / "tests/fixtures/reports.sql").read_text() + PARTS
        running.cluster.psql(script, user="boss")
        running.cluster.psql(FAR)
        synced = running.cli("facade", "sync")
        assert synced.returncode == 0, synced.stderr
        yield running


@pytest.fixture(scope="module")
def alice(stack: Stack) -> Iterator[Connection]:
    with stack.connect("alice") as session:
        yield session


@pytest.fixture(scope="module")
def owner(stack: Stack) -> Iterator[Connection]:
    with stack.cluster.connect() as session:
        yield session


@pytest.mark.parametrize("fact", FACTS)
def test_a_fact_is_said_before_anything_is_paid(alice: Connection, owner: Connection, fact: str) -> None:
    number = list(FACTS).index(fact)
    table, done, said, typed, undone = FACTS[fact]
    stored, new = (f"SELECT count(*) FROM {table} WHERE v > {n}" for n in (number, 8 - number))
    answer = alice.execute(stored).fetchone()
    before = one(owner, "SELECT count(*) FROM dp.ledger")
    owner.execute(done)
    explained = [] if "foreign" in fact else [f"EXPLAIN {new}"]  # it connects to nothing
    for sql in (new, *explained):
        with pytest.raises(psycopg.Error) as refused:
            alice.execute(sql)
        assert refused.value.sqlstate == "DP006"
        assert said in str(refused.value.diag.message_primary)
        assert typed in str(refused.value.diag.message_hint)
    assert alice.execute(stored).fetchone() == answer
    owner.execute(undone)
    assert one(owner, "SELECT count(*) FROM dp.ledger") == before
    assert one(owner, "SELECT count(*) FROM dp.closed_question") == 0
    assert alice.execute(new).fetchone() is not None


def test_what_does_not_keep_a_relation_from_being_read_is_answered(alice: Connection, owner: Connection) -> None:
    """Row-level security of a part only: PostgreSQL reads it through its parent."""
    owner.execute("ALTER TABLE parts_1 ENABLE ROW LEVEL SECURITY")
    assert alice.execute("SELECT count(*) FROM parts WHERE v <> 7").fetchone() is not None
    owner.execute("ALTER TABLE parts_1 DISABLE ROW LEVEL SECURITY")


def test_a_question_about_other_parts_is_answered(alice: Connection, owner: Connection) -> None:
    """What its condition leaves out is not connected to."""
    owner.execute(ATTACHED)
    near = alice.execute("SELECT count(*) FROM parts WHERE d < '2024-02-01'").fetchone()
    assert near is not None
    with pytest.raises(psycopg.Error, match="far off"):
        alice.execute("SELECT count(*) FROM parts WHERE d < '2024-03-01'")
    owner.execute(DETACHED)
