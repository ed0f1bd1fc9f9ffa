"""The joins and aliases arguments of the dp_* functions: questions over several relations without the proxy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import fix_chance
from fix_cluster import Cluster
from fix_ledger import refused

SEEN = {  # call: (true value, tolerance: 25 scales of the noise)
    "dp_count('items', 'orders.id = items.order_id AND status = ''paid''', joins => '{orders}', epsilon => 0.5)": (
        "SELECT count(*) FROM items JOIN orders ON orders.id = order_id"
        " WHERE status = 'paid' AND customer_id IS NOT NULL",
        25 * 20 / 0.5,
    ),
    "dp_count('orders', 'customers.id = o.customer_id AND segment = ''home''', what => 'units', joins => '{customers}',"
    " aliases => '{o,customers}', epsilon => 0.5)": (
        "SELECT count(DISTINCT customer_id) FROM orders JOIN customers c ON c.id = customer_id WHERE segment = 'home'",
        25 / 0.5,
    ),
    "dp_sum('items', 'i.price', 'o.id = i.order_id', joins => '{orders}', aliases => '{i,o}', lower => 0, upper => 90,"
    " mechanism => 'laplace', epsilon => 0.5)": (
        "SELECT sum(price) FROM items JOIN orders ON orders.id = order_id WHERE customer_id IS NOT NULL",
        25 * 20 * 90 / 0.5,
    ),
}


@pytest.fixture(scope="module", autouse=True)
def declared(cluster: Cluster) -> None:
    cluster.psql(
        "CALL dp.describe_column('items', 'order_id'); CALL dp.describe_column('items', 'price');"
        "CALL dp.describe_column('customers', 'id');",
        user="boss",
    )


@pytest.fixture
def alice(cluster: Cluster) -> Iterator[psycopg.Connection[Any]]:
    with cluster.connect("alice") as connection:
        yield connection


@pytest.mark.chance(fix_chance.beyond(25))
@pytest.mark.parametrize("call", SEEN, ids=["rows", "units", "sum"])
def test_the_answer_is_about_the_joined_rows(cluster: Cluster, alice: psycopg.Connection[Any], call: str) -> None:
    plain, tolerance = SEEN[call]
    found = alice.execute(f"SELECT dp.{call}".encode()).fetchone()
    with cluster.connect() as root:
        true = root.execute(plain.encode()).fetchone()
    assert found is not None and true is not None
    assert abs(found[0] - true[0]) <= tolerance


def test_keys_of_a_joined_relation(alice: psycopg.Connection[Any]) -> None:
    rows = alice.execute(
        "SELECT key ->> 'segment' FROM dp.dp_group_by('orders', '{segment}', predicate => 'customers.id = customer_id',"
        " joins => '{customers}', epsilon => 0.1)"
    ).fetchall()
    assert rows == [("home",), ("office",), (None,)]


@pytest.mark.parametrize(
    ("arguments", "sqlstate", "words"),
    [
        ("joins => '{NULL}'", "DP005", "joins names relations"),
        ("joins => '{customers}', aliases => '{o}'", "DP005", "joins names relations"),
        ("aliases => '{o,p}'", "DP005", "joins names relations"),
        ("joins => '{nothing}'", "42P01", "does not exist"),
        ("joins => '{people}'", "DP003", "different datasets"),
        ("predicate => 'customers.id = customer_id', joins => '{customers}', aliases => '{o,c}'", "42P01", "customers"),
        ("joins => '{customers}', aliases => '{o,o}'", "42712", "o"),
    ],
)
def test_refused(alice: psycopg.Connection[Any], arguments: str, sqlstate: str, words: str) -> None:
    with pytest.raises(psycopg.Error) as error:
        alice.execute(f"SELECT dp.dp_count('orders', {arguments})".encode())
    assert error.value.sqlstate == sqlstate
    assert words in str(error.value)


def test_a_relation_with_itself(alice: psycopg.Connection[Any]) -> None:
    """Pairs of a customer's own orders: one unit, not bounded by max_rows_per_unit of orders."""
    with refused("DP004", "how many"):
        alice.execute(
            "SELECT dp.dp_count('orders', 'a.customer_id = b.customer_id AND a.id < b.id', joins => '{orders}',"
            " aliases => '{a,b}')"
        )
