"""dp.* settings: heeded by every surface, refused uncharged where they say nothing (findings C1, C11)."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from fix_ledger import no_charge, one, refused
from fix_stack import Stack

# What each surface asks about numbers: laplace and r2t answer them, exponential does not.
PLAIN = "SELECT count(*) FROM people WHERE age > 30"
CALLS = {
    "plain SQL": PLAIN,
    "groups": "SELECT sex, sum(age) FROM people GROUP BY sex",
    "dp_count": "SELECT dp.dp_count('people')",
    "dp_sum": "SELECT dp.dp_sum('people', 'age')",
    "dp_avg": "SELECT dp.dp_avg('people', 'age')",
    "dp_stddev": "SELECT dp.dp_stddev('people', 'age')",
    "dp_variance": "SELECT dp.dp_variance('people', 'age')",
    "dp_estimate": "SELECT * FROM dp.dp_estimate('people', 'sum(age)')",
    "dp_group_by": "SELECT * FROM dp.dp_group_by('people', '{sex}')",
    "dp_median": "SELECT dp.dp_median('people', 'age')",
    "dp_quantile": "SELECT dp.dp_quantile('people', 'age', 0.25)",
}


@pytest.fixture(scope="module")
def stack(reports_stack: Stack) -> Stack:
    return reports_stack


def connected(stack: Stack, way: str) -> psycopg.Connection[Any]:
    return stack.connect() if way == "proxy" else stack.cluster.connect("alice")


@pytest.mark.parametrize("name", CALLS)
def test_nonsense_is_refused_and_costs_nothing(stack: Stack, name: str) -> None:
    for way in ("proxy",) if "FROM people" in CALLS[name] else ("proxy", "direct"):
        with connected(stack, way) as alice:
            alice.execute("SET dp.mechanism = 'nonsense'")
            with no_charge(stack.cluster), refused("DP005", "mechanism"):
                alice.execute(CALLS[name])


@pytest.mark.parametrize("way", ["proxy", "direct"])
def test_the_setting_chooses_the_mechanism(stack: Stack, way: str) -> None:
    """The control: what another mechanism answers, and an argument of the call's own."""
    drawn = "SELECT mechanism FROM dp.ledger WHERE who = 'alice' ORDER BY seq DESC LIMIT 1"
    with connected(stack, way) as alice, stack.cluster.connect() as root:
        alice.execute("SET dp.mechanism = 'r2t'")
        for sql, expected in (
            ("SELECT dp.dp_sum('people', 'income', fresh => true)", "R2T"),
            ("SELECT dp.dp_sum('people', 'income', mechanism => 'laplace', fresh => true)", "Laplace"),
            ("SELECT dp.dp_sum('people', 'age', mechanism => 'auto', fresh => true)", "Laplace"),
        ):
            alice.execute(sql)
            assert expected in one(root, drawn), sql
        with no_charge(stack.cluster), refused("DP003", "does not answer"):
            alice.execute("SELECT dp.dp_median('people', 'age', fresh => true)")
        alice.execute("RESET dp.mechanism")
        alice.execute("SELECT dp.dp_median('people', 'age', fresh => true)")


def test_explain_says_what_the_setting_asks_for(stack: Stack) -> None:
    with stack.connect() as alice, no_charge(stack.cluster):
        sql = "EXPLAIN SELECT sum(income) FROM people"
        alice.execute("SET dp.mechanism = 'r2t'")
        assert "R2T" in str(alice.execute(sql).fetchall())
        alice.execute("SET dp.mechanism = 'laplace'")
        assert "discrete Laplace" in str(alice.execute(sql).fetchall())


@pytest.mark.parametrize(
    ("sql", "hint"),
    [
        ("SET dp.epsilonn = 1", "Did you mean dp.epsilon?"),
        ("SET LOCAL dp.sinthetic = 'x'", "Did you mean dp.synthetic?"),
        ('set session "dp.Epsilonn" to 1', "Did you mean dp.epsilon?"),
        ("SET dp.mechanisms TO DEFAULT", "Did you mean dp.mechanism?"),
        ("SET dp.something_else_entirely = 1", "The settings are dp.alpha, dp.beta,"),
        ("BEGIN; SET dp.epsilonn = 1; COMMIT", "Did you mean dp.epsilon?"),
    ],
)
def test_a_misspelt_setting_is_refused_with_the_nearest(stack: Stack, sql: str, hint: str) -> None:
    with stack.connect() as alice:
        with pytest.raises(psycopg.Error) as error:
            alice.execute(sql.encode())
        assert error.value.sqlstate == "22023"
        assert hint in (error.value.diag.message_hint or "")
        alice.rollback()
        alice.execute(PLAIN)


def test_settings_of_others_and_ours_pass(stack: Stack) -> None:
    """The control."""
    with stack.connect() as alice:
        for sql in (
            "SET dp.epsilon = 0.01",
            'SET "dp.Confidence" = 0.9',
            "SET LOCAL dp.tau = '5%'",
            "SET myapp.epsilonn = 1",
            "SELECT 'SET dp.epsilonn = 1'",
            "RESET dp.epsilon",
            "RESET dp.confidence",
            "SHOW dp.notices",
        ):
            alice.execute(sql.encode())
