"""Prepared statements, portals and messages in the wrong order, over the bare protocol, with questions that cost.

Each conversation says what may be charged for it, and which error codes come back. False alarms: an answer of epsilon
1e-10 is within 1 of the truth with probability 1.5e-10; over all numbers of a run below 1e-7.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import psycopg
import pytest

import fix_chance
from fix_cluster import PASSWORD
from fix_raw import RawClient, keys_of
from fix_stack import Stack
from pg_epsilon_proxy.wire import messages, scram
from pg_epsilon_proxy.wire.messages import SYNC, bind, close, describe, execute, message, parse, query

pytestmark = pytest.mark.chance(fix_chance.near(1e10, 1, 100))

EPSILON = b"0.0000000001"
ROWS = 1000  # of people: none of them has an id of ours
NUMBER = itertools.count(1_000_001)
FLUSH = message(b"H")


def ask(text: bytes = b"SELECT count(*) FROM people WHERE id <> %d") -> bytes:
    """A question that nobody asked before."""
    return text.replace(b"%d", str(next(NUMBER)).encode())


GROUPED = b"SELECT sex, count(*) FROM people WHERE id <> %d GROUP BY sex"
ROWS_ASKED = b"SELECT * FROM people"
ONE = b"SELECT 1"
BROKEN = b"SELECT 1 / 0"

Conversation = Callable[[], Sequence[bytes]]
# name: (what is sent, each part answered up to its last ReadyForQuery before the next is sent; error codes in order,
# "?" after one that may be missing; charges: the fewest and the most)
CONVERSATIONS: dict[str, tuple[Conversation, list[str], tuple[int, int]]] = {
    "executed once": (lambda: [parse(b"", ask()) + bind(b"", b"") + execute(b"") + SYNC], [], (1, 1)),
    "bound and never executed": (lambda: [parse(b"", ask()) + bind(b"", b"") + SYNC], [], (1, 1)),
    "executed twice": (lambda: [parse(b"", ask()) + bind(b"", b"") + execute(b"") + execute(b"") + SYNC], [], (1, 1)),
    "bound twice: the same question": (
        lambda: [parse(b"", ask()) + bind(b"", b"") + execute(b"") + bind(b"", b"") + execute(b"") + SYNC],
        [],
        (1, 1),
    ),
    "described only": (
        lambda: [parse(b"s", ask()) + describe(b"S", b"s") + SYNC, close(b"S", b"s") + SYNC],
        [],
        (0, 0),
    ),
    "behind an error in the same pipeline": (
        lambda: [parse(b"", BROKEN) + bind(b"", b"") + execute(b"") + parse(b"", ask()) + bind(b"", b"") + SYNC],
        ["22012"],
        (0, 0),
    ),
    "behind an error at Parse in the same pipeline": (
        lambda: [parse(b"", b"nonsense") + parse(b"q", ask()) + bind(b"", b"q") + execute(b"") + SYNC],
        ["42601"],
        (0, 0),
    ),
    "behind a refusal in the same pipeline": (
        lambda: [
            b"".join((parse(b"", ROWS_ASKED), bind(b"", b""), parse(b"q", ask()), bind(b"", b"q"), execute(b""), SYNC))
        ],
        ["DP002"],
        (0, 0),
    ),
    "behind raw access that is described only": (
        lambda: [
            parse(b"p", ROWS_ASKED) + describe(b"S", b"p") + parse(b"", ask()) + bind(b"", b"") + execute(b"") + SYNC
        ],
        [],
        (1, 1),
    ),
    "before an error in the same pipeline": (
        lambda: [parse(b"", ask()) + bind(b"", b"") + execute(b"") + parse(b"", b"nonsense") + SYNC],
        ["42601"],
        (1, 1),
    ),
    "closed before it is bound": (
        lambda: [parse(b"s", ask()) + close(b"S", b"s") + bind(b"", b"s") + execute(b"") + SYNC],
        ["26000"],
        (0, 0),
    ),
    "parsed again under the same name": (
        lambda: [parse(b"s", ask()) + parse(b"s", ask()) + SYNC, bind(b"", b"s") + execute(b"") + SYNC],
        ["42P05"],
        (1, 1),
    ),
    "name taken by another statement": (
        lambda: [parse(b"s", ONE) + SYNC, parse(b"s", ask()) + SYNC, bind(b"", b"s") + execute(b"") + SYNC],
        ["42P05"],
        (0, 0),
    ),
    "unnamed, replaced by another": (
        lambda: [parse(b"", ask()) + parse(b"", ONE) + bind(b"", b"") + execute(b"") + SYNC],
        [],
        (0, 0),
    ),
    "unnamed, replaced by a broken one": (
        lambda: [parse(b"", ask()) + SYNC, parse(b"", b"nonsense") + SYNC, bind(b"", b"") + execute(b"") + SYNC],
        ["42601", "26000"],
        (0, 0),
    ),
    "unnamed, replaced by a refused one": (
        lambda: [parse(b"", ask()) + SYNC, parse(b"", b"TABLE people") + SYNC, bind(b"", b"") + execute(b"") + SYNC],
        ["DP002"],
        (0, 0),
    ),
    "unnamed, dropped by a simple query": (
        lambda: [parse(b"", ask()) + SYNC, query(ONE), bind(b"", b"") + execute(b"") + SYNC],
        ["26000"],
        (0, 0),
    ),
    "unnamed, dropped by a simple question": (
        lambda: [parse(b"", ask()) + SYNC, query(ask()), bind(b"", b"") + execute(b"") + SYNC],
        ["26000"],
        (1, 1),
    ),
    "deallocated by SQL": (
        lambda: [parse(b"s", ask()) + SYNC, query(b"DEALLOCATE s"), bind(b"", b"s") + execute(b"") + SYNC],
        ["26000"],
        (0, 0),
    ),
    "deallocated by SQL with all others": (
        lambda: [parse(b"s", ask()) + SYNC, query(b"DEALLOCATE ALL"), bind(b"", b"s") + execute(b"") + SYNC],
        ["26000"],
        (0, 0),
    ),
    "deallocated in a DO block": (
        lambda: [
            parse(b"s", ask()) + SYNC,
            query(b"DO $$ BEGIN EXECUTE 'DEALLOCATE s'; END $$"),
            bind(b"", b"s") + execute(b"") + SYNC,
        ],
        ["26000"],
        (0, 1),
    ),
    "deallocated in the same pipeline": (
        lambda: [
            parse(b"s", ask()) + SYNC,
            parse(b"", b"DEALLOCATE s") + bind(b"", b"") + execute(b"") + bind(b"", b"s") + execute(b"") + SYNC,
        ],
        ["26000"],
        (0, 0),
    ),
    "discarded": (
        lambda: [parse(b"s", ask()) + SYNC, query(b"DISCARD ALL"), bind(b"", b"s") + execute(b"") + SYNC],
        ["26000"],
        (0, 0),
    ),
    "another statement put in its place by a DO block": (
        lambda: [
            parse(b"s", ask()) + SYNC,
            query(b"DO $$ BEGIN EXECUTE 'DEALLOCATE s'; EXECUTE 'PREPARE s AS SELECT 7'; END $$"),
            bind(b"", b"s") + execute(b"") + SYNC,
        ],
        ["08P01?"],
        (0, 1),
    ),
    "another statement with a document put in its place": (
        lambda: [
            parse(b"s", ask()) + SYNC,
            query(b"DO $$ BEGIN EXECUTE 'DEALLOCATE s'; EXECUTE 'PREPARE s (jsonb) AS SELECT $1'; END $$"),
            bind(b"", b"s") + execute(b"") + SYNC,
        ],
        ["08P01"],
        (0, 0),
    ),
    "executed by SQL": (lambda: [parse(b"s", ask()) + SYNC, query(b"EXECUTE s")], [], (1, 1)),
    "prepared by SQL, bound by the protocol": (
        lambda: [query(b"PREPARE s AS " + ask()), bind(b"", b"s") + execute(b"") + SYNC],
        [],
        (1, 1),
    ),
    "deallocated and made anew in a DO block": (
        lambda: [
            parse(b"s", ask()) + SYNC,
            query(b"DO $$ BEGIN EXECUTE 'DEALLOCATE s'; EXECUTE 'PREPARE s AS SELECT 7'; END $$"),
            bind(b"", b"s") + execute(b"") + SYNC,
            query(b"EXECUTE s"),
        ],
        [],
        (0, 0),
    ),
    "made anew by a DO block in the same pipeline": (
        lambda: [
            parse(b"s", ask())
            + parse(b"", b"DO $$ BEGIN EXECUTE 'DEALLOCATE s'; EXECUTE 'PREPARE s AS SELECT 7'; END $$")
            + bind(b"", b"")
            + execute(b"")
            + bind(b"", b"s")
            + execute(b"")
            + SYNC
        ],
        [],
        (0, 0),
    ),
    "prepared by SQL and by the protocol": (
        lambda: [query(b"PREPARE s AS " + ask()), parse(b"s", ask()) + SYNC, query(b"EXECUTE s")],
        ["42P05"],
        (1, 1),
    ),
    "parsed in a transaction that is rolled back": (
        lambda: [query(b"BEGIN"), parse(b"s", ask()) + SYNC, query(b"ROLLBACK"), bind(b"", b"s") + execute(b"") + SYNC],
        [],
        (1, 1),
    ),
    "bound in a transaction that is rolled back": (
        lambda: [
            query(b"BEGIN"),
            parse(b"s", ask()) + bind(b"p", b"s") + SYNC,
            query(b"ROLLBACK"),
            execute(b"p") + SYNC,
        ],
        ["34000"],
        (1, 1),
    ),
    "bound in one transaction, executed in the next": (
        lambda: [parse(b"s", ask()) + bind(b"p", b"s") + SYNC, execute(b"p") + SYNC],
        ["34000"],
        (1, 1),
    ),
    "bound in a savepoint that is rolled back": (
        lambda: [
            query(b"BEGIN; SAVEPOINT a"),
            parse(b"s", ask()) + bind(b"p", b"s") + SYNC,
            query(b"ROLLBACK TO a"),
            execute(b"p") + SYNC,
            query(b"ROLLBACK"),
        ],
        ["34000"],
        (1, 1),
    ),
    "portal name taken": (
        lambda: [
            query(b"BEGIN"),
            parse(b"o", ONE) + bind(b"p", b"o") + SYNC,
            parse(b"s", ask()) + bind(b"p", b"s") + SYNC,
            query(b"ROLLBACK"),
        ],
        ["42P03"],
        (0, 0),
    ),
    "portal name taken by a cursor": (
        lambda: [
            query(b"BEGIN"),
            query(b"DECLARE p CURSOR FOR SELECT 1"),
            parse(b"s", ask()) + bind(b"p", b"s") + SYNC,
            query(b"ROLLBACK"),
        ],
        ["42P03"],
        (0, 0),
    ),
    "portal closed, then executed": (
        lambda: [parse(b"", ask()) + bind(b"p", b"") + close(b"P", b"p") + execute(b"p") + SYNC],
        ["34000"],
        (1, 1),
    ),
    "portal fetched by SQL": (
        lambda: [query(b"BEGIN"), parse(b"", ask()) + bind(b"p", b"") + SYNC, query(b"FETCH ALL FROM p; COMMIT")],
        [],
        (1, 1),
    ),
    "row by row, with a Sync between": (
        lambda: [parse(b"", ask(GROUPED)) + bind(b"p", b"") + execute(b"p", 1) + SYNC, execute(b"p", 1) + SYNC],
        ["34000"],
        (1, 1),
    ),
    "row by row in a transaction": (
        lambda: [
            query(b"BEGIN"),
            parse(b"", ask(GROUPED)) + bind(b"p", b"") + execute(b"p", 1) + SYNC,
            execute(b"p", 1) + SYNC,
            execute(b"p", 1) + SYNC,
            execute(b"p", 9) + SYNC,
            query(b"COMMIT"),
        ],
        [],
        (1, 1),
    ),
    "too many values": (lambda: [parse(b"", ask()) + bind(b"", b"", (), (b"1",)) + SYNC], ["08P01"], (0, 0)),
    "the hidden parameter given": (
        lambda: [parse(b"", ask()) + bind(b"", b"", (), (b'[{"c1": "1"}]',)) + execute(b"") + SYNC],
        ["08P01"],
        (0, 0),
    ),
    "the hidden parameter declared": (
        lambda: [parse(b"", ask(), (3802,)) + bind(b"", b"", (), (b'[{"c1": "1"}]',)) + execute(b"") + SYNC],
        [],
        (1, 1),
    ),
    "too many formats": (lambda: [parse(b"", ask()) + bind(b"", b"", (0, 1, 0), ()) + SYNC], ["08P01"], (0, 0)),
    "result formats of another number of columns": (
        lambda: [parse(b"", ask()) + bind(b"", b"", (), (), (0, 1, 0)) + SYNC],
        ["08P01"],
        (0, 1),
    ),
    "result format that does not exist": (
        lambda: [parse(b"", ask()) + bind(b"", b"", (), (), (7,)) + execute(b"") + SYNC],
        ["22023"],
        (0, 1),
    ),
    "a type that does not exist": (
        lambda: [parse(b"", ask() + b" AND $1", (999_999,)) + SYNC],
        ["DP003/42704/XX000"],
        (0, 0),
    ),
    "copy data without a copy": (lambda: [message(b"d", b"x") + message(b"c") + query(ask())], [], (1, 1)),
    "client_encoding changed in the same pipeline": (
        lambda: [
            parse(b"", b"SET client_encoding = 'SJIS'") + bind(b"", b"") + execute(b"")
            + parse(b"q", ask(b"SELECT count(*) FROM people WHERE id <> %d AND sex = '\x83\x5c'")) + SYNC,
            query(b"RESET client_encoding"),
        ],
        ["DP003/DP002?"],
        (0, 0),
    ),
    "standard_conforming_strings changed in the same pipeline": (
        lambda: [
            parse(b"", b"SET standard_conforming_strings = off") + bind(b"", b"") + execute(b"")
            + parse(b"q", ask(b"SELECT count(*) FROM people WHERE id <> %d AND sex = '\\' OR true --'")) + SYNC,
            query(b"RESET standard_conforming_strings"),
        ],
        ["DP003/42601?"],
        (0, 0),
    ),
    "shadowed in the same pipeline": (
        lambda: [
            parse(b"", b"CREATE TEMP TABLE people (id int)") + bind(b"", b"") + execute(b"")
            + parse(b"q", ask()) + bind(b"", b"q") + execute(b"") + SYNC,
            query(b"DROP TABLE pg_temp.people"),
        ],
        [],
        (0, 0),
    ),
    "shadow dropped between Parse and Bind": (
        lambda: [
            query(b"CREATE TEMP TABLE people (id int)"),
            parse(b"q", ask()) + SYNC,
            query(b"DROP TABLE pg_temp.people"),
            bind(b"", b"q") + execute(b"") + SYNC,
        ],
        ["DP002"],
        (0, 0),
    ),
    "search_path changed between Parse and Bind": (
        lambda: [
            parse(b"q", ask()) + SYNC,
            query(b"SET search_path = nowhere"),
            bind(b"", b"q") + execute(b"") + SYNC,
            query(b"RESET search_path"),
        ],
        ["DP003/42P01?"],
        (0, 1),
    ),
    "role changed between Parse and Bind": (
        lambda: [
            parse(b"q", ask()) + SYNC,
            query(b"SET ROLE dp_analyst"),
            bind(b"", b"q") + execute(b"") + SYNC,
            query(b"RESET ROLE"),
        ],
        [],
        (1, 1),
    ),
    "two simple questions in one write": (lambda: [query(ask()) + query(ask())], [], (2, 2)),
    "a simple question in the middle of a pipeline": (
        lambda: [parse(b"s", ask()) + query(ask()) + bind(b"", b"s") + execute(b"") + SYNC],
        [],
        (2, 2),
    ),
    "flushes everywhere": (
        lambda: [FLUSH + parse(b"", ask()) + FLUSH + FLUSH + bind(b"", b"") + FLUSH + execute(b"") + FLUSH + SYNC],
        [],
        (1, 1),
    ),
    "syncs everywhere": (lambda: [SYNC * 3 + parse(b"s", ask()) + SYNC * 2 + bind(b"", b"s") + SYNC * 2], [], (1, 1)),
    "function call": (lambda: [message(b"F", (1598).to_bytes(4, "big") + b"\0" * 6)], ["0A000/42501/08P01"], (0, 0)),
}  # fmt: skip


@pytest.fixture(scope="module")
def keys(stack: Stack) -> scram.Keys:
    with stack.cluster.connect() as owner:
        found = owner.execute("SELECT rolpassword FROM pg_authid WHERE rolname = 'alice'").fetchone()
    assert found is not None
    return keys_of(PASSWORD, found[0])


@pytest.fixture
def client(stack: Stack, keys: scram.Keys) -> Iterator[RawClient]:
    raw = RawClient(stack.port, keys, options=f"-c dp.epsilon={EPSILON.decode()}")
    yield raw
    raw.close()


@pytest.fixture(scope="module")
def owner(stack: Stack) -> Iterator[psycopg.Connection[Any]]:
    with stack.cluster.connect() as connection:
        yield connection


def charges(owner: psycopg.Connection[Any]) -> int:
    found = owner.execute("SELECT count(*) FROM dp.ledger").fetchone()
    assert found is not None
    return int(found[0])


def readies(part: bytes) -> int:
    """How many ReadyForQuery a part is owed."""
    kinds = b""
    while part:
        kinds, part = kinds + part[:1], part[1 + int.from_bytes(part[1:5], "big") :]
    copying = b"f" in kinds
    return kinds.count(b"S") + kinds.count(b"F") + (1 if copying else kinds.count(b"Q"))


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_a_conversation_is_charged_for_what_it_asks(
    client: RawClient, owner: psycopg.Connection[Any], name: str
) -> None:
    sent, codes, (fewest, most) = CONVERSATIONS[name]
    before = charges(owner)
    found: list[bytes] = []
    for part in sent():
        client.send(part)
        found += client.until(b"Z", readies(part))
    errors = [messages.read_fields(raw)["C"].decode() for raw in found if raw[:1] == b"E"]
    assert len(errors) == len(codes) or (not errors and codes[0].endswith("?")), errors
    assert all(error in code.rstrip("?").split("/") for error, code in zip(errors, codes, strict=False)), errors
    assert fewest <= charges(owner) - before <= most
    values = {value for raw in found if raw[:1] == b"D" for value in messages.read_data_row(raw[5:])}
    assert not values & {str(ROWS + step).encode() for step in (-1, 0, 1)}
    # The session is in step, and has no leftovers.
    client.send(query(b"ROLLBACK; SELECT 'in step'"))
    rest = client.until(b"Z")
    assert [messages.read_data_row(raw[5:]) for raw in rest if raw[:1] == b"D"] == [[b"in step"]]


def test_there_are_enough_conversations() -> None:
    assert len(CONVERSATIONS) >= 50
