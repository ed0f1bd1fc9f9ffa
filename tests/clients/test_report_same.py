"""Equal questions in another order or spelling are one question, which is paid once (report R16)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from fix_cluster import ROOT
from fix_ledger import one
from fix_stack import Stack, stack_at_work

Connection = psycopg.Connection[Any]
CONDITIONS = [
    ("qty > 40", "qty > 40.0", "NOT (qty <= 40)", "40 < qty", "NOT qty <= 40.00"),
    ("price > 6", "price > 6.00", "NOT (price <= 6.0)"),
    ("qty IN (7, 8)", "qty = 8 OR qty = 7", "qty = ANY ('{7,8}')", "qty = ANY (ARRAY[8, 7])"),
    ("city NOT IN ('Lyon', 'Metz')", "city <> 'Metz' AND city <> 'Lyon'"),
    ("temp > 1", "NOT (temp <= 1)"),
    ("st = 'open'", "NOT (st <> 'open')"),
]


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with stack_at_work() as running:
        running.cluster.psql((ROOT / "tests/fixtures/reports.sql").read_text(), user="boss")
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


def charges(owner: Connection) -> int:
    return int(one(owner, "SELECT count(*) FROM dp.ledger WHERE kind = 'charge'"))


@pytest.mark.parametrize("spellings", CONDITIONS)
def test_spellings_of_a_condition(alice: Connection, owner: Connection, spellings: tuple[str, ...]) -> None:
    """At epsilon 1 two draws of a count are equal with a chance of a half: charges are what counts."""
    before = charges(owner)
    answers = [alice.execute(f"SELECT count(*) FROM shop WHERE {one}").fetchall() for one in spellings]
    assert charges(owner) == before + 1
    assert len(set(map(str, answers))) == 1


def test_keys_in_another_order(alice: Connection, owner: Connection) -> None:
    before = charges(owner)
    first = alice.execute("SELECT city, st, count(*) FROM shop GROUP BY city, st").fetchall()
    second = alice.execute("SELECT st, city, count(*) FROM shop GROUP BY st, city").fetchall()
    third = alice.execute("SELECT count(*), city, st FROM shop GROUP BY st, city").fetchall()
    assert charges(owner) == before + 1
    assert len(first) == 6
    assert sorted(first) == sorted((city, st, n) for st, city, n in second)
    assert sorted(first) == sorted((city, st, n) for n, city, st in third)
    assert [row[:2] for row in first[:2]] == [("Lyon", "open"), ("Lyon", "paid")]
    assert [row[:2] for row in second[:2]] == [("open", "Lyon"), ("open", "Metz")]


def test_aggregates_in_another_order(alice: Connection, owner: Connection) -> None:
    before = charges(owner)
    sql = "SELECT {} FROM shop WHERE city = 'Nice'"
    answers = [
        alice.execute(sql.format(selected)).fetchone()
        for selected in ("count(*), sum(qty)", "sum(qty), count(*)", "sum(qty) AS s, count(*), sum(qty)")
    ]
    assert charges(owner) == before + 1
    assert answers[0] is not None
    count, total = answers[0]
    assert answers[1:] == [(total, count), (total, count, total)]


def test_what_is_shown_of_another_order(alice: Connection) -> None:
    """dp_shown gives back what its own asker saw."""
    alice.execute("SELECT st, city, avg(price) FROM shop GROUP BY st, city")
    (request,) = alice.execute("SELECT request_id FROM dp.last_answer").fetchone() or (None,)
    rows = alice.execute("SELECT dp_shown(%s) -> 'rows'", [request]).fetchone()
    assert rows is not None
    assert [row[:2] for row in rows[0][:2]] == [["open", "Lyon"], ["open", "Metz"]]
