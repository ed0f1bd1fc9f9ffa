"""A published release through the proxy: an ordinary public table for everybody, the grid for whom it is shown to."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import fix_chance
from fix_ledger import no_charge, refused
from fix_stack import Stack, stack_at_work
from fix_waiting import soon

Connection = psycopg.Connection[Any]
# Two tables of two cells, each of about 500 rows, which noise of scale 5 would have to hide or move by 400 rows; and a
# decision whose distance to tau is as large, at epsilon 0.5.
pytestmark = pytest.mark.chance(fix_chance.union(4 * math.exp(-400 / 5) + math.exp(-400 * 0.25)))
QUERY = "SELECT count(*) FROM people WHERE sex = $1"


def call(name: str, *more: str) -> str:
    extra = "".join(f", {one}" for one in ("publish => true", *more))
    return f"SELECT * FROM dp_release_numeric('{name}', $q${QUERY}$q$, '{{f,m}}', epsilon => 0.2{extra})"


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with stack_at_work() as running:
        yield running


def rows(stack: Stack, user: str, sql: str) -> list[Any] | None:
    """None: there is no such table (yet)."""
    with stack.connect(user) as session:
        try:
            return session.execute(sql).fetchall()
        except psycopg.errors.UndefinedTable:
            return None


def test_everybody_reads_the_table_and_the_publisher_the_grid(stack: Stack) -> None:
    said: list[str] = []
    with stack.connect() as alice:
        alice.execute("SET dp.notices = on")
        alice.add_notice_handler(lambda notice: said.append(str(notice.message_primary)))
        found = alice.execute(call("by_sex")).fetchall()
    assert "published as dp_release.by_sex, without the grid" in said[-1]
    with no_charge(stack.cluster):
        table = "SELECT sex, value, weight FROM dp_release.by_sex WHERE sex IN ('f', 'm') ORDER BY 1"
        assert soon(lambda: rows(stack, "bob", table))
        assert [row[:2] for row in rows(stack, "bob", table) or []] == [("f", 1), ("m", 1)]
        sums = "SELECT sum(weight * value) FROM dp_release.by_sex t JOIN dp_release.by_sex u USING (sex, value, weight)"
        assert rows(stack, "bob", sums.replace("weight * value", "t.weight"))
        assert rows(stack, "bob", "SELECT kind, copy_of FROM dp.published WHERE relation = 'dp_release.by_sex' LIMIT 1")
        ((comment,),) = rows(stack, "bob", "SELECT obj_description('dp_release.by_sex'::regclass)") or [("",)]
        assert "Sums over this table have no bar" in comment
        own = "SELECT parameters, answer, unbiased, low, high, below_resolution FROM dp.release_answers"
        assert rows(stack, "alice", own) == found
        assert rows(stack, "bob", own) == []
        assert rows(stack, "bob", "SELECT * FROM dp_release.by_sex_answers") is None
        with stack.connect() as alice:
            alice.execute(call("by_sex", "shows_grid => true"))
        grid = "SELECT * FROM dp_release.by_sex_answers"
        assert soon(lambda: rows(stack, "bob", grid)) and rows(stack, "bob", grid) == found
        assert rows(stack, "bob", own) == found


def test_a_decision_takes_it_and_a_dropped_one_is_gone(stack: Stack) -> None:
    with stack.connect() as alice:
        alice.execute(call("by_sex_too"))
    assert soon(lambda: rows(stack, "alice", "SELECT * FROM dp_release.by_sex_too"))
    with stack.connect() as alice:
        alice.execute("SET dp.synthetic = 'dp_release.by_sex_too'; SET dp.tau = 500; SET dp.epsilon = 0.5")
        question = "SELECT count(*) AS n, dp_decision(count(*)) AS near FROM people WHERE sex = 'f'"
        ((number, near),) = alice.execute(question).fetchall()
        assert near is True and number is not None
        with no_charge(stack.cluster), refused("42501", hint=False):
            alice.execute("DELETE FROM dp_release.by_sex_too")
    with stack.cluster.connect("boss") as boss:
        boss.execute("CALL dp.drop_family('people', 'by_sex_too')")
    assert soon(lambda: rows(stack, "bob", "SELECT * FROM dp_release.by_sex_too") is None)


@pytest.mark.parametrize("prepare", [False, True])
def test_who_reads_it_is_told_once_that_no_bound_applies(stack: Stack, prepare: bool) -> None:
    """In whichever protocol, and in a transaction; a session that wants no notices hears nothing."""
    with stack.connect() as alice:
        alice.execute(call("told_of"))
    read = "SELECT sum(weight) FROM dp_release.told_of"
    said: list[str] = []

    def heard() -> bool:
        """The proxy knows the table a moment after the facade shows it."""
        with stack.connect("bob") as session:
            session.add_notice_handler(lambda notice: said.append(str(notice.message_primary)))
            session.execute("SET dp.notices = on")
            with contextlib.suppress(psycopg.errors.UndefinedTable):
                session.execute(read)
        return bool(said)

    assert soon(heard)
    said.clear()
    with stack.connect("bob") as bob, no_charge(stack.cluster):
        bob.add_notice_handler(lambda notice: said.append(str(notice.message_primary)))
        quiet = bob.execute(read, prepare=prepare).fetchall()
        assert said == []
        bob.execute("SET dp.notices = on")
        with bob.transaction():
            assert bob.execute(read, prepare=prepare).fetchall() == quiet
            assert bob.execute(f"{read} WHERE weight > 0", prepare=prepare).fetchall() == quiet
        assert len(said) == 1 and "no bound applies" in said[0] and "dp_release.told_of" in said[0]
        assert bob.execute("SELECT %s::int", [7], prepare=prepare).fetchone() == (7,)
        bob.execute("DISCARD ALL")
        bob.execute("SET dp.notices = on")
        bob.execute(read, prepare=prepare)
    assert len(said) == 2
    with stack.connect("bob") as bob, no_charge(stack.cluster):
        bob.add_notice_handler(lambda notice: said.append(str(notice.message_primary)))
        bob.execute("SET dp.notices = on")
        bob.execute("SET search_path = dp_release, public")
        for _ in range(2):
            assert bob.execute("SELECT sum(weight) FROM told_of", prepare=prepare).fetchall() == quiet
        bob.execute(read, prepare=prepare)
    assert len(said) == 3 and "dp_release.told_of" in said[-1]
