"""A DP block inside anything: no answer without its charge, no charge without its question, never the exact value.

Each shape of block_shapes.sql asks questions that nobody asked before, twice over each protocol. False alarms: an
answer of epsilon 1e-10 is within 1 of the truth with probability 1.5e-10; over all numbers of a run below 1e-6.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from attack_lines import run_steps, steps_of

import fix_chance
from fix_stack import Stack

pytestmark = pytest.mark.chance(fix_chance.near(1e10, 1, 20))

EPSILON = "0.0000000001"
ROWS = 1000  # of people: none of them has an id of ours
QUESTION = itertools.count(1_000_001)
# An answer is noise of about 1e10; every other number in a shape is small.
LARGE = 1_500_000
ROUNDS = 2


@dataclass(frozen=True)
class Shape:
    """charges: the most that one round may make; exact: and it must make them."""

    name: str
    charges: int
    exact: bool
    outcomes: frozenset[str]
    body: str


def load() -> list[Shape]:
    found = []
    text = Path(__file__).with_name("block_shapes.sql").read_text()
    for part in text.split("\n== ")[1:]:
        head, _, body = part.partition("\n")
        name, charges, *outcome = (field.strip() for field in head.split(" | "))
        outcomes = frozenset(outcome[0].split("/") if outcome else ["ok"])
        found.append(Shape(name, int(charges.removeprefix("<=")), charges.isdigit(), outcomes, body))
    return found


SHAPES = load()


@pytest.fixture(scope="module")
def sessions(stack: Stack) -> Iterator[dict[bool, psycopg.Connection[Any]]]:
    """Alice's, by protocol: True for the extended one."""
    with stack.connect() as simple, stack.connect() as extended:
        simple.prepare_threshold = extended.prepare_threshold = None
        yield {False: simple, True: extended}


@pytest.fixture(scope="module")
def owner(stack: Stack) -> Iterator[psycopg.Connection[Any]]:
    with stack.cluster.connect() as connection:
        yield connection


@pytest.fixture(scope="module")
def planned(sessions: dict[bool, psycopg.Connection[Any]]) -> set[int]:
    """Numbers that EXPLAIN says of any such question: public."""
    transcript: list[Any] = []
    sessions[False].execute(f"SET dp.epsilon = {EPSILON}".encode())
    both = "EXPLAIN {block}\n---\nEXPLAIN (FORMAT JSON) {block}"
    run_steps(sessions[False], steps_of(asked(both)), False, transcript)
    return numbers(transcript)


def spent(owner: psycopg.Connection[Any]) -> tuple[int, Any]:
    """Ledger rows, and what the root account has spent."""
    found = owner.execute(
        "SELECT (SELECT count(*) FROM dp.ledger), (SELECT array_agg(a::text ORDER BY a::text) FROM dp.account a)"
    ).fetchone()
    assert found is not None
    return found[0], found[1]


def asked(body: str) -> str:
    """The shape with its questions, each new."""

    def question(match: re.Match[str]) -> str:
        number = next(QUESTION)
        if match[0] == "{call}":
            return f"dp_count('people', 'id <> {number}')"
        return f"SELECT count(*) FROM people WHERE id <> {number}"

    return re.sub(r"\{block\}|\{call\}", question, body)


def numbers(transcript: list[Any]) -> set[int]:
    """Every whole number that came back, in rows, copied bytes, notices and errors."""
    found: set[int] = set()
    for kind, *content in transcript:
        if kind == "copy" and content[0][0].startswith(b"PGCOPY"):
            # header of 19 bytes, one field count of 2, one length of 4, then an int8
            found.add(int.from_bytes(b"".join(content[0])[25:33], "big", signed=True))
        else:
            found |= {int(digits) for digits in re.findall(r"(?<![\d.])-?\d+(?![\d.])", str(content))}
    return found


@pytest.mark.parametrize("extended", [False, True], ids=["simple", "extended"])
@pytest.mark.parametrize("shape", SHAPES, ids=[shape.name for shape in SHAPES])
def test_every_answer_is_charged_once(
    sessions: dict[bool, psycopg.Connection[Any]],
    owner: psycopg.Connection[Any],
    planned: set[int],
    shape: Shape,
    extended: bool,
) -> None:
    session = sessions[extended]
    session.execute(f"SET dp.epsilon = {EPSILON}".encode())
    first = next(QUESTION)
    before = spent(owner)
    transcript: list[Any] = []
    for _ in range(ROUNDS):
        seen = run_steps(session, steps_of(asked(shape.body)), extended, transcript)
        session.execute("ROLLBACK")
        session.execute("DISCARD ALL")
        session.execute(f"SET dp.epsilon = {EPSILON}".encode())
        assert seen.stopped is None and seen.outcome in shape.outcomes, transcript
    after = spent(owner)
    charged = after[0] - before[0]
    assert charged == ROUNDS * shape.charges if shape.exact else charged <= ROUNDS * shape.charges, transcript
    assert (after[1] == before[1]) == (charged == 0)
    heard = {number for number in numbers(transcript) if not first <= number < next(QUESTION)} - planned
    assert not heard & {ROWS - 1, ROWS, ROWS + 1}, transcript
    assert len({number for number in heard if abs(number) > LARGE}) <= charged, transcript


def test_what_was_paid_outlives_the_budget(stack: Stack, owner: psycopg.Connection[Any]) -> None:
    """A held cursor, a kept table and a repeat answer when nothing is left; whatever is new is DP001."""
    with stack.connect() as session:
        session.execute("DECLARE c SCROLL CURSOR WITH HOLD FOR SELECT count(*) FROM people WHERE id <> 71")
        session.execute("PREPARE p (int) AS SELECT count(*) FROM people WHERE id <> $1")
        paid = session.execute("EXECUTE p (72)").fetchone()
        (left,) = session.execute("SELECT your_epsilon_left FROM dp.budget WHERE dataset = 'people'").fetchone() or ()
        session.execute(f"SELECT dp_count('people', 'id <> 70', epsilon => {left})".encode())
        before = spent(owner)
        first = session.execute("FETCH ALL FROM c").fetchone()
        session.execute("MOVE ABSOLUTE 0 IN c")
        assert session.execute("FETCH ALL FROM c").fetchone() == first
        assert session.execute("EXECUTE p (72)").fetchone() == paid
        for statement in (
            "EXECUTE p (73)",
            "DECLARE d CURSOR WITH HOLD FOR SELECT count(*) FROM people WHERE id <> 74",
            "CREATE TEMP TABLE kept AS SELECT count(*) FROM people WHERE id <> 75",
            "SELECT g, (SELECT count(*) FROM people WHERE id <> 76) FROM generate_series(1, 3) g",
            "VALUES ((SELECT count(*) FROM people WHERE id <> 71)), ((SELECT count(*) FROM people WHERE id <> 77))",
            "COPY (SELECT count(*) FROM people WHERE id <> 78) TO STDOUT",
        ):
            with pytest.raises(psycopg.DatabaseError) as refused:
                session.execute(statement.encode())
            assert refused.value.sqlstate == "DP001", statement
        assert spent(owner) == before


def test_there_are_enough_shapes() -> None:
    assert len({shape.name for shape in SHAPES}) == len(SHAPES) >= 100
    assert sum(shape.charges > 0 for shape in SHAPES) >= 60
