"""dp_release_numeric through the proxy: psql and psycopg (text, binary, prepared), EXPLAIN, NOTICE, errors."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import fix_chance
from fix_ledger import no_charge, refused
from fix_stack import Stack, stack_at_work

Connection = psycopg.Connection[Any]
# Two dozen counts of up to four draws each, whose bars hold at SURE.
SURE = "0.999999999"
pytestmark = pytest.mark.chance(fix_chance.union(24 * 1e-9))

QUERY = "SELECT count(*) FROM people WHERE sex = $1"
ASKED = f"dp_release_numeric('by_sex', $q${QUERY}$q$, '{{f,m,x}}', epsilon => 1)"


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with stack_at_work() as running:
        yield running


@pytest.fixture
def alice(stack: Stack) -> Iterator[Connection]:
    with stack.connect() as session:
        session.execute(f"SET dp.confidence = {SURE}")
        yield session


def test_every_way_gives_the_same_rows(stack: Stack, alice: Connection) -> None:
    """Paid once: as text, in binary, prepared, with parameters of its own; a part of its columns; by psql."""
    plain = alice.execute(f"SELECT * FROM {ASKED}").fetchall()
    assert [row[0] for row in plain] == [["f"], ["m"], ["x"]]
    assert all(row[3] <= row[1] <= row[4] and row[5] is False for row in plain)
    with stack.cluster.connect() as root:
        true = dict(root.execute("SELECT sex, count(*) FROM people GROUP BY sex").fetchall())
    assert all(row[3] <= true.get(row[0][0], 0) <= row[4] for row in plain)
    with no_charge(stack.cluster):
        assert alice.execute(f"SELECT * FROM {ASKED}", binary=True).fetchall() == plain
        sql = "SELECT * FROM dp_release_numeric(%s, %s, %s, epsilon => %s)"
        for _ in range(7):
            assert alice.execute(sql, ["by_sex", QUERY, ["f", "m", "x"], 1]).fetchall() == plain
        some = alice.execute(f"SELECT parameters[1], answer FROM {ASKED} ORDER BY 1 DESC LIMIT 1").fetchall()
        assert some == [("x", plain[2][1])]
        script = f"SET dp.confidence = {SURE};\nSELECT answer FROM {ASKED};\n"
        words = [str(stack.cluster.paths.bindir / "psql"), "-AtqX", "-d", stack.dsn("alice")]
        done = subprocess.run(words, input=script, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert [float(line) for line in done.stdout.splitlines()] == [row[1] for row in plain]


def test_the_price_is_said_before_and_after(stack: Stack, alice: Connection) -> None:
    call = f"dp_release_numeric('by_sex', $q${QUERY}$q$, '{{f,m}}', epsilon => 0.5)"
    with no_charge(stack.cluster):
        plan = "\n".join(row[0] for row in alice.execute(f"EXPLAIN SELECT * FROM {call}"))
    assert "0.5" in plan and "split cells" in plan
    assert f"dp_release_numeric('by_sex', '{QUERY}', grid => [2 rows])" in plan
    said: list[str] = []
    alice.execute("SET dp.notices = on")
    alice.add_notice_handler(lambda notice: said.append(str(notice.message_primary)))
    alice.execute(f"SELECT * FROM {call}")
    (notice,) = said
    assert "epsilon 0.5 charged" in notice
    assert "2 queries from" in notice
    assert "all bars hold at once" in notice


@pytest.mark.parametrize(
    ("query", "grid", "sqlstate"),
    [
        ("SELECT count(*) FROM people WHERE sex = $1 OR age = $1", "{f}", "DP003"),
        ("SELECT count(*) FROM people WHERE nothing = $1", "{f}", "42703"),
        ("SELECT count(*) FROM nowhere WHERE sex = $1", "{f}", "42501"),
        ("SELECT count(*) FROM people WHERE age = $1", "{old}", "DP003"),
    ],
)
def test_refusals(stack: Stack, alice: Connection, query: str, grid: str, sqlstate: str) -> None:
    with no_charge(stack.cluster), refused(sqlstate, hint=sqlstate != "42703"):
        alice.execute(f"SELECT * FROM dp_release_numeric('f', $q${query}$q$, '{grid}', epsilon => 1)")
