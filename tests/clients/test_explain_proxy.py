"""dp_explain_difference through the proxy: psql and psycopg (text, binary, prepared), EXPLAIN, and what errors say."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import fix_chance
from fix_ledger import no_charge, one, refused
from fix_stack import Stack, stack_at_work

# Counts of 500 and none, with noise of scale 1/3.
pytestmark = pytest.mark.chance(fix_chance.laplace(1 / 3, 100, 16))
Connection = psycopg.Connection[Any]

ASKED = "SELECT sex, count(*) FROM people GROUP BY sex"
WHY = "dp_explain_difference('f', 'x', k => 3, epsilon => 0.25)"


# A dataset on which Gaussian noise has a price. Where people are many, they are old.
CROWD = """
CREATE TABLE crowd (id int PRIMARY KEY, district text, old boolean, flat boolean);
INSERT INTO crowd SELECT i, CASE WHEN i <= 900 THEN 'a' WHEN i <= 1500 THEN 'b' ELSE 'c' END,
  CASE WHEN i <= 900 THEN i % 4 > 0 ELSE i % 4 = 0 END, i % 2 = 0 FROM generate_series(1, 1700) i;
CALL dp.create_dataset('crowd', unit => 'row', epsilon => 500, accountant => 'renyi', delta => 1e-6);
CALL dp.protect('crowd', 'crowd', max_rows => 10000);
CALL dp.describe_column('crowd', 'district', domain => '{a,b,c}', nullable => false);
CALL dp.describe_column('crowd', 'old', nullable => false); CALL dp.describe_column('crowd', 'flat', nullable => false);
CALL dp.publish('crowd'); CALL dp.allot('alice', 'crowd', epsilon => 500);
CREATE TABLE herd (id int PRIMARY KEY, district text, old boolean, age int);
INSERT INTO herd SELECT id, district, old, CASE WHEN old THEN 80 ELSE 30 END FROM crowd;
CALL dp.protect('herd', 'crowd', max_rows => 10000);
CALL dp.describe_column('herd', 'district', domain => '{a,b,c}', nullable => false);
CALL dp.describe_column('herd', 'old', nullable => false); CALL dp.describe_column('herd', 'age', bounds => '{0,100}');
CALL dp.publish('herd');
"""


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with stack_at_work(lambda cluster: cluster.psql(CROWD, user="boss")) as running:
        yield running


@pytest.fixture
def alice(stack: Stack) -> Iterator[Connection]:
    with stack.connect() as session:
        session.execute("SET dp.epsilon = 3")
        session.execute(ASKED)
        yield session


def test_every_way_gives_the_same_rows(stack: Stack, alice: Connection) -> None:
    """Paid once: by psycopg as text, in binary, prepared, with parameters; a part of its columns, sorted; by psql."""
    plain = alice.execute(f"SELECT * FROM {WHY}").fetchall()
    assert len(plain) == 3
    assert all(isinstance(row[0], str) and isinstance(row[4], int) and row[2] <= row[1] <= row[3] for row in plain)
    with no_charge(stack.cluster):
        assert alice.execute(f"SELECT * FROM {WHY}", binary=True).fetchall() == plain
        asked = "SELECT * FROM dp_explain_difference(%s, %s, k => %s, epsilon => %s)"
        for _ in range(7):
            assert alice.execute(asked, ["f", "x", 3, 0.25]).fetchall() == plain
        alice.execute("PREPARE p (text) AS SELECT * FROM dp_explain_difference($1, 'x', k => 3, epsilon => 0.25)")
        assert alice.execute("EXECUTE p ('f')").fetchall() == plain
        some = alice.execute(f"SELECT explanation, rank_high FROM {WHY} ORDER BY explanation LIMIT 2").fetchall()
        assert some == sorted((row[0], row[5]) for row in plain)[:2]
        script = f"SET dp.epsilon = 3;\n{ASKED};\nSELECT explanation FROM {WHY};\n"
        words = [str(stack.cluster.paths.bindir / "psql"), "-AtqX", "-d", stack.dsn("alice")]
        done = subprocess.run(words, input=script, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-3:] == [row[0] for row in plain]


def test_the_price_is_said_before_and_after(stack: Stack, alice: Connection) -> None:
    """EXPLAIN charges nothing; the NOTICE has what it cost, of how many predicates, and that it claims no cause."""
    call = "dp_explain_difference('f', 'x', k => 2, epsilon => 0.125)"
    with no_charge(stack.cluster):
        plan = "\n".join(row[0] for row in alice.execute(f"EXPLAIN SELECT * FROM {call}"))
    assert "0.125" in plan
    said: list[str] = []
    alice.execute("SET dp.notices = on")
    alice.add_notice_handler(lambda notice: said.append(str(notice.message_primary)))
    alice.execute(f"SELECT * FROM {call}")
    (notice,) = said
    many = one(alice, "SELECT facts -> 'explain' ->> 'predicates' FROM dp.last_answer")
    assert f"2 of {many} predicates" in notice
    assert "no cause" in notice and "0.125" in notice


def test_what_the_last_release_is(alice: Connection) -> None:
    """An explanation is no grouped answer: the next one is about the same release. Another GROUP BY is another."""
    alice.execute(f"SELECT * FROM {WHY}")
    assert len(alice.execute(f"SELECT * FROM {WHY}").fetchall()) == 3
    alice.execute("SET dp.epsilon = 0.25")
    alice.execute("SELECT city, count(*) FROM people GROUP BY city")
    with refused("DP005", "f"):
        alice.execute(f"SELECT * FROM {WHY}")


@pytest.mark.parametrize(
    ("sql", "sqlstate", "words"),
    [
        ("SELECT * FROM dp_explain_difference('x', 'f', epsilon => 0.25)", "DP005", "Exchange the names"),
        ("SELECT * FROM dp_explain_difference('f', 'm', epsilon => 0.25, confidence => 0.99999999)", "DP005", "anyway"),
        ("SELECT * FROM dp_explain_difference('f', 'xx', epsilon => 0.25)", "DP005", "Did you mean 'x'?"),
        (f"SELECT * FROM {WHY[:-1]}, attributes => '{{id}}')", "DP004", "describe_column"),
        ("SELECT * FROM dp_explain_difference((SELECT sex FROM people LIMIT 1), 'x')", "DP003", ""),
        ("SELECT * FROM people, dp_explain_difference(people.sex, 'x')", "DP002", ""),
    ],
)
def test_refusals(stack: Stack, alice: Connection, sql: str, sqlstate: str, words: str) -> None:
    with no_charge(stack.cluster), refused(sqlstate, words):
        alice.execute(sql)


def test_from_what_was_paid(stack: Stack) -> None:
    """Two grouped answers, and why they differ, free: by a parameter too; EXPLAIN and the NOTICE say where from."""
    call = "dp_explain_difference('f', 'x', k => 2, source => 'paid')"
    with stack.connect() as alice:
        alice.execute("SET dp.epsilon = 1")
        alice.execute("SELECT city, sex, count(*) FROM people GROUP BY 2, 1 HAVING count(*) > 5 ORDER BY 3")
        alice.execute("SET dp.epsilon = 3")
        alice.execute(ASKED)
        said: list[str] = []
        with no_charge(stack.cluster):
            plan = "\n".join(row[0] for row in alice.execute(f"EXPLAIN SELECT * FROM {call}"))
            alice.execute("SET dp.notices = on")
            alice.add_notice_handler(lambda notice: said.append(str(notice.message_primary)))
            rows = alice.execute(f"SELECT * FROM {call}").fetchall()
            same = "SELECT * FROM dp_explain_difference(%s, %s, k => 2, source => %s)"
            assert alice.execute(same, ["f", "x", "paid"]).fetchall() == rows
            with refused("DP005", "nothing that you were given tells about age"):
                alice.execute(f"SELECT * FROM {call[:-1]}, attributes => '{{age}}')")
    assert len(rows) == 2 and all(row[0].startswith("city ") and row[2] <= row[1] <= row[3] for row in rows)
    assert "stored release" in plan and "sources" in plan
    assert "from 1 of your answers" in said[0] and "no cause" in said[0]


def test_an_expression_of_groups(stack: Stack, alice: Connection) -> None:
    """Ranks and no shares; EXPLAIN says what it costs; with parameters and in binary the same rows, paid once."""
    call = "dp_explain_difference('{f,m,x}', expression => 'o1 / (o1 + o3) - 0.1', k => 2, epsilon => 0.25)"
    said: list[str] = []
    with no_charge(stack.cluster):
        plan = "\n".join(row[0] for row in alice.execute(f"EXPLAIN SELECT * FROM {call}"))
    assert "0.25" in plan and "o1 / (o1 + o3) - 0.1" in plan
    alice.execute("SET dp.notices = on")
    alice.add_notice_handler(lambda notice: said.append(str(notice.message_primary)))
    rows = alice.execute(f"SELECT * FROM {call}").fetchall()
    assert len(rows) == 2
    assert all(row[1:4] == (None, None, None) and 1 <= row[4] <= row[5] for row in rows)
    assert "no share of an expression is told" in said[0] and "no cause" in said[0]
    with no_charge(stack.cluster):
        asked = "SELECT * FROM dp_explain_difference(%s::text[], %s::text, k => %s, epsilon => %s)"
        assert alice.execute(asked, [["f", "m", "x"], "o1 / (o1 + o3) - 0.1", 2, 0.25], binary=True).fetchall() == rows
        with refused("DP003", "compared, not explained"):
            alice.execute(f"SELECT * FROM {call.replace('o1 / (o1 + o3) - 0.1', 'exp(o1)')}")


def test_one_release_for_every_pair(stack: Stack) -> None:
    """Marginals are paid once, through the proxy too; EXPLAIN says which method auto takes."""
    with stack.connect() as alice:
        alice.execute("SET dp.rho = 10")
        alice.execute("SELECT district, count(*) FROM crowd GROUP BY district")
        call = "dp_explain_difference('a', 'c', k => 3, rho => 2, method => '{}')"
        with no_charge(stack.cluster):
            plans = [
                "\n".join(row[0] for row in alice.execute(f"EXPLAIN SELECT * FROM {call.format(method)}"))
                for method in ("auto", "cells")
            ]
        assert '"taken": "one_shot"' in plans[0]  # of two columns with two values
        assert '"method": "cells"' in plans[1] and '"sets": 3' in plans[1]
        alice.execute("RESET dp.rho; SET dp.notices = on")
        said: list[str] = []
        alice.add_notice_handler(lambda notice: said.append(str(notice.message_primary)))
        rows = alice.execute(f"SELECT * FROM {call.format('cells')}").fetchall()
        assert len(rows) == 3 and all(row[2] <= row[1] <= row[3] for row in rows)
        assert "for all pairs of 3 groups at once" in said[0] and "are free" in said[0] and "no cause" in said[0]
        with no_charge(stack.cluster):
            asked = "SELECT * FROM dp_explain_difference(%s, %s, k => %s, rho => 2, method => %s)"
            assert len(alice.execute(asked, ["b", "c", 2, "cells"], binary=True).fetchall()) == 2
            alice.execute("SET dp.epsilon = 3")
            alice.execute(ASKED)
            with refused("DP005", "accountant is 'pure'"):
                alice.execute(f"SELECT * FROM {WHY[:-1]}, method => 'cells')")


# 24 released integers; 0.2 is 34 deviations of the largest share's noise
@pytest.mark.chance(fix_chance.beyond(26, 24))
def test_averages_of_every_pair(stack: Stack) -> None:
    """One release tells why averages differ; the next pair is free."""
    with stack.connect() as alice:
        alice.execute("SET dp.rho = 10")
        alice.execute("SELECT district, avg(age) FROM herd GROUP BY district")
        alice.execute("RESET dp.rho")
        call = "dp_explain_difference('a', '{}', k => 2, rho => 20, method => 'cells')"
        rows = alice.execute(f"SELECT * FROM {call.format('b')}").fetchall()
        with no_charge(stack.cluster):
            rows += alice.execute(f"SELECT * FROM {call.format('c')}", binary=True).fetchall()
        left_of_smaller = 150 / 600, 225 / 600, 50 / 200, 150 / 200  # averages are equal without either
        for row, left in zip(sorted(rows[:2]) + sorted(rows[2:]), left_of_smaller, strict=True):
            assert abs(row[1] - left) < 0.2
        assert all(row[2] <= row[1] <= row[3] and row[4] <= row[5] for row in rows)
