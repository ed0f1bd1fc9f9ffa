"""Equal questions in another order or spelling are one question, which is paid once (report R16).

So are counts of whole rows and of row values, which are never NULL (report R18).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import fix_chance
from fix_ledger import one
from fix_stack import Stack

Connection = psycopg.Connection[Any]
CONDITIONS = [
    ("qty > 40", "qty > 40.0", "NOT (qty <= 40)", "40 < qty", "NOT qty <= 40.00"),
    ("price > 6", "price > 6.00", "NOT (price <= 6.0)"),
    ("qty IN (7, 8)", "qty = 8 OR qty = 7", "qty = ANY ('{7,8}')", "qty = ANY (ARRAY[8, 7])"),
    ("city NOT IN ('Lyon', 'Metz')", "city <> 'Metz' AND city <> 'Lyon'"),
    ("temp > 1", "NOT (temp <= 1)"),
    ("st = 'open'", "NOT (st <> 'open')"),
]
# Three counts, and twice six groups of 60 rows and more, of which more than 3 are asked for.
pytestmark = pytest.mark.chance(fix_chance.laplace(1 / 20, 0, 3 + 2 * 6))


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


def test_a_whole_row_is_counted_as_a_row(alice: Connection, owner: Connection) -> None:
    """Also one whose fields are all NULL: count(v) of a derived table's one column is another."""
    whole = [
        "SELECT count(*) FROM acc WHERE v < 9",
        "SELECT count(acc.*) FROM acc WHERE v < 9",
        "SELECT count(acc) FROM acc WHERE v < 9",
        "SELECT count(public.acc.*) FROM acc WHERE v < 9",
        "SELECT count(a) FROM acc a WHERE v < 9",
        "SELECT count(t.*) FROM (SELECT v FROM acc WHERE v < 9) t",
        "SELECT count((a.v, a.v + 1)) FROM acc a WHERE v < 9",
        "SELECT max(n) FROM (SELECT count(a.*) AS n FROM acc a WHERE v < 9) AS one",
    ]
    before = charges(owner)
    assert len({str(alice.execute(sql).fetchall()) for sql in whole}) == 1
    assert charges(owner) == before + 1
    alice.execute("SET dp.epsilon = 20")
    rows, column, named = (
        alice.execute(f"SELECT count({counted}) FROM shop {alias}").fetchone()
        for counted, alias in (("s", "s"), ("qty", "s"), ("qty", "qty"))
    )
    alice.execute("RESET dp.epsilon")
    assert (rows, column, named) == ((400,), (320,), (320,))


@pytest.mark.parametrize("values", ["shop", "shop.*"])
def test_different_whole_rows_are_refused(alice: Connection, owner: Connection, values: str) -> None:
    before = charges(owner)
    sql = f"SELECT city, count(DISTINCT {values}) FROM shop GROUP BY city"
    with pytest.raises(psycopg.Error, match="DISTINCT of whole rows in count") as refused:
        alice.execute(sql)
    diag = refused.value.diag
    assert (refused.value.sqlstate, diag.statement_position) == ("DP003", str(sql.index(values) + 1))
    assert charges(owner) == before


@pytest.mark.parametrize("values", ["(city, st)", "ROW(city, st)", "city"])
def test_different_values_of_rows_as_units_are_refused_with_what_is_answered(
    alice: Connection, owner: Connection, values: str
) -> None:
    """Where units are users, they are counted: test_report_distinct.py."""
    before = charges(owner)
    with pytest.raises(psycopg.Error, match="distinct counts need a dataset whose unit is a user") as refused:
        alice.execute(f"SELECT count(DISTINCT {values}) FROM shop")
    assert refused.value.sqlstate == "DP003"
    assert charges(owner) == before
    alice.execute("SET dp.epsilon = 20")
    typed = str(refused.value.diag.message_hint).split("lets you: ")[1].removesuffix(".")
    assert alice.execute(typed.replace("a, b", "city, st").replace("...", "shop")).fetchone() == (6,)
    alice.execute("RESET dp.epsilon")


def test_a_row_of_an_outer_join_is_refused(alice: Connection) -> None:
    """There it is NULL where it has no partner."""
    with pytest.raises(psycopg.Error, match="outer join"):
        alice.execute("SELECT count(b.*) FROM shop a LEFT JOIN acc b ON a.id = b.id")
