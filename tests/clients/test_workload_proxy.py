"""Workloads through the proxy: rows in any statement, EXPLAIN beforehand, prepared, with a notice that says how."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from fix_stack import Stack

CALL = "dp_sum_workload('people', 'income', '{10000,20000,100000}', epsilon => 1)"


@pytest.fixture
def alice(stack: Stack) -> Iterator[psycopg.Connection[Any]]:
    with stack.connect() as conn:
        yield conn


def test_its_rows_are_rows_of_any_statement(alice: psycopg.Connection[Any]) -> None:
    """Ordered, joined, aggregated by PostgreSQL; the second statement is answered from the first one's release."""
    rows = alice.execute(f"SELECT query, high_edge, sum FROM {CALL} ORDER BY query").fetchall()  # type: ignore[arg-type]
    assert [row[0] for row in rows] == [1, 2, 3]
    again = alice.execute(
        f"SELECT max(w.sum) - min(w.sum) FROM {CALL} w JOIN generate_series(1, 2) g ON g = w.query"  # type: ignore[arg-type]
    ).fetchone()
    assert again == (abs(rows[1][2] - rows[0][2]),)


def test_explain_says_what_it_would_do(alice: psycopg.Connection[Any]) -> None:
    """Before it is paid: the call, the strategy, theta, the price. Nothing is charged."""
    before = alice.execute("SELECT dp_budget_left('people')").fetchone()
    text = "\n".join(
        row[0]
        for row in alice.execute(
            "EXPLAIN SELECT * FROM dp_sum_workload('people', 'income', '{7000,100000}', epsilon => 0.5)"
        )
    )
    assert "dp_sum_workload('public.people', 'income'" in text
    assert "theta" in text
    assert "isotonic: answers do not decrease; low and high of all queries hold at once" in text
    assert "0.5" in text
    assert alice.execute("SELECT dp_budget_left('people')").fetchone() == before


def test_the_notice_names_theta_and_strategy(alice: psycopg.Connection[Any]) -> None:
    said: list[str] = []
    alice.add_notice_handler(lambda message: said.append(message.message_primary or ""))
    alice.execute("SET dp.notices = on")
    alice.execute(f"SELECT sum FROM {CALL}")  # type: ignore[arg-type]
    assert any("theta 100000 (none)" in one and "expected RMSE" in one for one in said)


def test_plain_sums_over_thresholds_are_one_release(alice: psycopg.Connection[Any]) -> None:
    said: list[str] = []
    alice.add_notice_handler(lambda message: said.append(message.message_primary or ""))
    alice.execute("SET dp.notices = on; SET dp.epsilon = 0.5")
    columns = ", ".join(f"sum(age) FILTER (WHERE age <= {age}) AS s{age}" for age in (30, 40, 50, 60, 70))
    row = alice.execute(f"SELECT {columns}, sum(age) FROM people").fetchone()  # type: ignore[arg-type]
    assert row is not None
    assert len(row) == 6
    assert any("matrix mechanism" in one for one in said)
    text = "\n".join(line[0] for line in alice.execute(f"EXPLAIN SELECT {columns} FROM people"))  # type: ignore[arg-type]
    assert "together" in text
    assert "each by itself" in text


def test_a_prepared_workload_takes_parameters(alice: psycopg.Connection[Any]) -> None:
    rows = alice.execute(
        "SELECT count(*) FROM dp_sum_workload('people', 'income', %s::numeric[], epsilon => %s)",
        ([10000, 20000, 100000], 1.0),
        prepare=True,
    ).fetchall()
    assert rows == [(3,)]


def test_rows_stay_private(alice: psycopg.Connection[Any]) -> None:
    for call in (
        "dp_sum_workload('people', '(SELECT 1)', '{5}', epsilon => 1)",
        "dp_sum_workload('people', 'income', '{5}', predicate => 'id IN (SELECT 1)', epsilon => 1)",
        "dp_sum_workload('people', 'income/(age-33)', '{5}', epsilon => 1)",
    ):
        with pytest.raises(psycopg.Error) as refused:
            alice.execute(f"SELECT * FROM {call}")  # type: ignore[arg-type]
        assert (refused.value.sqlstate or "").startswith("DP")
