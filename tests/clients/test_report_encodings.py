"""A question in ASCII is answered under every client_encoding, whatever its table's other columns are called."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import fix_chance
from fix_ledger import one, refused
from fix_stack import Stack

Connection = psycopg.Connection[Any]
EPSILON = 20
ENCODINGS = ["KOI8R", "WIN1251", "LATIN1", "LATIN2", "SJIS", "EUC_JP", "BIG5", "GB18030", "SQL_ASCII"]
QUESTIONS = [
    "SELECT count(*) FROM intl",
    'SELECT count(*) FROM intl WHERE U&"gr\\00f6\\00dfe" >= 0',
    "SELECT dp_count('intl')",
]
# Two questions over 100 rows, and two over a table of words.
pytestmark = pytest.mark.chance(fix_chance.laplace(1 / EPSILON, 0, 5))


@pytest.fixture(scope="module")
def stack(reports_stack: Stack) -> Stack:
    return reports_stack


@pytest.fixture
def alice(stack: Stack) -> Iterator[Connection]:
    with stack.connect("alice") as session:
        session.execute(f"SET dp.epsilon = {EPSILON}")
        yield session


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_ascii_is_answered(alice: Connection, encoding: str) -> None:
    """Simple and extended, with EXPLAIN, whose plus-minus sign not every encoding has."""
    connection = alice.pgconn
    alice.execute(f"SET client_encoding = {encoding}")
    for question in map(str.encode, QUESTIONS):
        simple, extended = connection.exec_(question), connection.exec_params(question, [])
        assert simple.get_value(0, 0) == extended.get_value(0, 0) == b"100", simple.error_message
    plan = connection.exec_(b"EXPLAIN SELECT count(*) FROM intl")
    lines = [plan.get_value(row, 0) or b"" for row in range(plan.ntuples)]
    assert [line for line in lines if b"expected error: +/-" in line], plan.error_message
    assert all(line.isascii() for line in lines)


def test_a_parameter_is_the_text_that_postgresql_reads(alice: Connection) -> None:
    alice.execute("SET client_encoding = KOI8R")
    asked = b"SELECT count(*) FROM words WHERE word = $1"
    found = [alice.pgconn.exec_params(asked, [word.encode("koi8_r")]) for word in ("\u0436", "\u0437")]
    assert [answer.get_value(0, 0) for answer in found] == [b"25", b"0"], found[0].error_message


@pytest.mark.parametrize(
    "question",
    [
        "SELECT count(*) FROM words WHERE word = '\u0436'",
        "SELECT count(*) AS \u0436 FROM words",
        'SELECT word AS U&"\\0436", count(*) FROM words GROUP BY word',
    ],
)
def test_other_text_is_refused_and_nothing_charged(alice: Connection, question: str) -> None:
    """As text, and as an escape that would have to be written."""
    before = one(alice, "SELECT dp_budget_left('rep')")
    alice.execute("SET client_encoding = KOI8R")
    with refused("DP003", "UTF8"):
        alice.execute(question)
    alice.execute("SET client_encoding = UTF8")
    assert one(alice, "SELECT dp_budget_left('rep')") == before


def test_the_notice_is_ascii(alice: Connection) -> None:
    heard: list[str] = []
    alice.add_notice_handler(lambda diagnostic: heard.append(diagnostic.message_primary or ""))
    alice.execute("SET client_encoding = KOI8R")
    alice.execute("SET dp.notices = on")
    alice.execute("SET dp.epsilon = 0.1")
    alice.execute('SELECT count(*) FROM intl WHERE U&"gr\\00f6\\00dfe" > 3')
    assert len(heard) == 1 and "+/-" in heard[0] and heard[0].isascii()
