"""dp_compare through the proxy: sixteen statements by psql and psycopg (text and binary), and what its errors say."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from fix_compare import ASKED, CHANCE, EPSILON, STATEMENTS
from fix_ledger import no_charge, one, refused
from fix_stack import Stack, stack_at_work

pytestmark = pytest.mark.chance(CHANCE)
Connection = psycopg.Connection[Any]


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with stack_at_work() as running:
        yield running


@pytest.fixture
def alice(stack: Stack) -> Iterator[Connection]:
    with stack.connect() as session:
        session.execute(f"SET dp.epsilon = {EPSILON}")
        session.execute(ASKED)
        yield session


def text_of(value: Any) -> str | None:
    return None if value is None else str(value)


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
def test_psycopg(stack: Stack, alice: Connection, binary: bool) -> None:
    assert len(STATEMENTS) == 16
    with no_charge(stack.cluster):
        wrong = {
            name: rows
            for name, (sql, holds) in STATEMENTS.items()
            if not holds(rows := [tuple(map(text_of, row)) for row in alice.execute(sql, binary=binary)])
        }
    assert wrong == {}


def test_psql(stack: Stack, alice: Connection) -> None:
    """One session; every statement's rows stand between two marks."""
    script = f"SET dp.epsilon = {EPSILON};\n{ASKED};\n"
    script += "".join(f"\\echo @@{name}\n{sql};\n" for name, (sql, _) in STATEMENTS.items())
    with no_charge(stack.cluster):
        words = [str(stack.cluster.paths.bindir / "psql"), "-AtqX", "-F", "\t", "-d", stack.dsn("alice")]
        done = subprocess.run(words, input=script, capture_output=True, text=True, timeout=60)
    assert all(line.startswith("NOTICE:  dp: ") for line in done.stderr.splitlines()), done.stderr
    parts = dict(part.split("\n", 1) for part in done.stdout.split("@@")[1:])
    rows = {name: [tuple(line.split("\t")) for line in part.splitlines()] for name, part in parts.items()}
    assert [name for name, (_, holds) in STATEMENTS.items() if not holds(rows[name])] == []


def test_parameters_and_prepared_statements(stack: Stack, alice: Connection) -> None:
    """By number, as arrays, with NULL, prepared by SQL and by message."""
    plain = alice.execute("SELECT * FROM dp_compare('f', 'x')").fetchall()
    release = one(alice, "SELECT facts -> 'compare' ->> 'release' FROM dp.last_answer")
    with no_charge(stack.cluster):
        for _ in range(7):
            assert alice.execute("SELECT * FROM dp_compare(%s, %s)", ["f", "x"]).fetchall() == plain
        assert alice.execute("SELECT * FROM dp_compare(%s::text[], %s::text[])", [["f"], ["x"]]).fetchall() == plain
        named = "SELECT * FROM dp_compare('f', 'x', release => %s)"
        assert alice.execute(named, [release]).fetchall() == plain
        weighted = "SELECT * FROM dp_compare(%s::text[], weights => %s)"
        assert alice.execute(weighted, [["f", "x"], [1, -1]]).fetchall() == plain
        alice.execute("PREPARE p (text) AS SELECT * FROM dp_compare($1, 'x')")
        assert alice.execute("EXECUTE p ('f')").fetchall() == plain


def test_several_keys_of_plain_sql(stack: Stack, alice: Connection) -> None:
    """In the order of GROUP BY, NULL among them; what HAVING, ORDER BY and LIMIT leave out is released all the same."""
    alice.execute("SET dp.epsilon = 0.5")
    shown = "SELECT city, sex, count(*) FROM people GROUP BY city, sex HAVING count(*) > 100000 ORDER BY 3 DESC LIMIT 1"
    assert alice.execute(shown).fetchall() == []
    with no_charge(stack.cluster):
        found = alice.execute("SELECT low, high FROM dp_compare(ARRAY['north','m'], ARRAY[NULL,'f'])").fetchone()
    assert found is not None
    assert found[0] < found[1]
    with no_charge(stack.cluster), refused("DP003", "city, sex"):
        alice.execute("SELECT * FROM dp_compare('north', 'south')")


def test_another_order_than_that_of_who_paid(stack: Stack, alice: Connection) -> None:
    alice.execute("SET dp.epsilon = 0.25")
    alice.execute("SELECT sex, city, count(*), sum(age) FROM people GROUP BY sex, city")
    theirs = alice.execute("SELECT * FROM dp_compare('{f,north}'::text[], '{m,east}', aggregate => 2)").fetchall()
    with stack.connect("bob") as bob, no_charge(stack.cluster):
        bob.execute("SET dp.epsilon = 0.25")
        bob.execute("SELECT sum(age), city, count(*), sex FROM people GROUP BY city, sex")
        found = bob.execute("SELECT * FROM dp_compare(ARRAY['north','f'], ARRAY['east','m'])").fetchall()
    assert found == theirs


def test_an_answer_of_a_turbo_view(stack: Stack) -> None:
    """By accuracy: `bars`, of the answer that this session was told last; asked again, it is the same one, free."""
    stack.cluster.psql("CALL dp.enable_turbo('people', '{sex}', alpha => 0.3, beta => 0.001)", user="boss")
    by_sex = "SELECT sex, count(*) FROM people GROUP BY sex ORDER BY sex"
    with stack.connect("alice") as session:
        session.execute("SET dp.alpha = 0.3; SET dp.beta = 0.001")
        value = dict(session.execute(by_sex).fetchall())
        told = one(session, "SELECT request_id FROM dp.last_answer")
        with no_charge(stack.cluster):
            row = session.execute("SELECT difference, low, high FROM dp_compare('f', 'x')").fetchone()
            assert one(session, "SELECT facts -> 'compare' ->> 'method' FROM dp.last_answer") == "bars"
            assert one(session, "SELECT dp_shown(%s) ->> 'mechanism'", told) == "turbo"
            session.execute(by_sex)
            assert one(session, "SELECT request_id FROM dp.last_answer") == told
        assert row is not None
        difference, low, high = map(float, row)
        assert difference == value["f"] - value["x"]
        assert high - difference == difference - low > 0
    with stack.connect("bob") as bob, no_charge(stack.cluster), refused("42501", "was given to you"):
        bob.execute("SELECT * FROM dp_compare('f', 'x', release => %s)", [told])


def test_nothing_released_and_others_releases(stack: Stack, alice: Connection) -> None:
    """Before the first GROUP BY, after DISCARD ALL, and about somebody else's."""
    alice.execute("SELECT * FROM dp_compare('f', 'x')")
    release = one(alice, "SELECT facts -> 'compare' ->> 'release' FROM dp.last_answer")
    with stack.connect("bob") as bob, no_charge(stack.cluster):
        with refused("DP005", "Run a GROUP BY first"):
            bob.execute("SELECT * FROM dp_compare('f', 'x')")
        with refused("42501", "was given to you"):
            bob.execute("SELECT * FROM dp_compare('f', 'x', release => %s)", [release])
        with refused("42501", "was given to you"):
            bob.execute("EXPLAIN SELECT * FROM dp_compare('f', 'x', release => %s)", [release])
    alice.execute("DISCARD ALL")
    with refused("DP005", "Run a GROUP BY first"):
        alice.execute("SELECT * FROM dp_compare('f', 'x')")


@pytest.mark.parametrize(
    ("sql", "sqlstate", "words"),
    [
        ("SELECT * FROM dp_compare('f', 'mm')", "DP005", "Did you mean 'm'?"),
        ("SELECT * FROM dp_compare('f', 'x', method => 'joint')", "DP003", ""),
        ("SELECT * FROM dp_compare('{f,x}', expression => 'o1 ** o2')", "DP003", ""),
        ("SELECT * FROM dp_compare((SELECT sex FROM people LIMIT 1), 'x')", "DP003", ""),
        ("SELECT * FROM people, dp_compare(people.sex, 'x')", "DP002", ""),
    ],
)
def test_refusals(stack: Stack, alice: Connection, sql: str, sqlstate: str, words: str) -> None:
    with no_charge(stack.cluster), refused(sqlstate, words):
        alice.execute(sql)
