"""A fact of a relation that keeps it from being read is said before anything is paid (report R8).

Row-level security, a right that was taken away, a foreign part that cannot be connected to: each
with what the administrator types, and answered again as soon as it is undone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from fix_ledger import one
from fix_stack import Stack

Connection = psycopg.Connection[Any]
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
def stack(reports_stack: Stack) -> Stack:
    return reports_stack


@pytest.fixture(scope="module")
def alice(stack: Stack) -> Iterator[Connection]:
    with stack.connect("alice") as session:
        yield session


@pytest.fixture(scope="module")
def owner(stack: Stack) -> Iterator[Connection]:
    with stack.cluster.connect() as session:
        yield session


@contextmanager
def while_done(owner: Connection, done: str, undone: str) -> Iterator[None]:
    """Others ask of the same tables: what is done is undone, whatever was found."""
    owner.execute(done)
    try:
        yield
    finally:
        owner.execute(undone)


@pytest.mark.parametrize("fact", FACTS)
def test_a_fact_is_said_before_anything_is_paid(alice: Connection, owner: Connection, fact: str) -> None:
    number = list(FACTS).index(fact)
    table, done, said, typed, undone = FACTS[fact]
    stored, new = (f"SELECT count(*) FROM {table} WHERE v > {n}" for n in (number, 8 - number))
    answer = alice.execute(stored).fetchone()
    before = one(owner, "SELECT count(*) FROM dp.ledger")
    with while_done(owner, done, undone):
        explained = [] if "foreign" in fact else [f"EXPLAIN {new}"]  # it connects to nothing
        for sql in (new, *explained):
            with pytest.raises(psycopg.Error) as refused:
                alice.execute(sql)
            assert refused.value.sqlstate == "DP006"
            assert said in str(refused.value.diag.message_primary)
            assert typed in str(refused.value.diag.message_hint)
        assert alice.execute(stored).fetchone() == answer
    assert one(owner, "SELECT count(*) FROM dp.ledger") == before
    assert one(owner, "SELECT count(*) FROM dp.closed_question") == 0
    assert alice.execute(new).fetchone() is not None


def test_what_does_not_keep_a_relation_from_being_read_is_answered(alice: Connection, owner: Connection) -> None:
    """Row-level security of a part only: PostgreSQL reads it through its parent."""
    security = "ALTER TABLE parts_1 {} ROW LEVEL SECURITY"
    with while_done(owner, security.format("ENABLE"), security.format("DISABLE")):
        assert alice.execute("SELECT count(*) FROM parts WHERE v <> 7").fetchone() is not None


def test_a_question_about_other_parts_is_answered(alice: Connection, owner: Connection) -> None:
    """What its condition leaves out is not connected to."""
    with while_done(owner, ATTACHED, DETACHED):
        near = alice.execute("SELECT count(*) FROM parts WHERE d < '2024-02-01'").fetchone()
        assert near is not None
        with pytest.raises(psycopg.Error, match="far off"):
            alice.execute("SELECT count(*) FROM parts WHERE d < '2024-03-01'")
