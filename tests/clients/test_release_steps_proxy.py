"""A release in steps through the proxy: how far it is, and a cancel or a time limit that ends it (seam.md S8)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from fix_ledger import balanced, no_charge, refused
from fix_stack import Stack, stack_at_work
from fix_steps import HELD, HOLDING, held, let_go
from fix_waiting import backends, once, soon

Connection = psycopg.Connection[Any]
QUERY = "SELECT count(*) FROM people WHERE sex = $1"


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with stack_at_work() as running:
        running.cluster.psql(HOLDING)
        yield running
        balanced(running.cluster)


@pytest.fixture
def alice(stack: Stack) -> Iterator[Connection]:
    with stack.connect() as session:
        yield session
    let_go(stack.cluster)


def question(name: str, rounds: int) -> bytes:
    options = f'{{"rounds": {rounds}}}'
    return (
        f"SELECT * FROM dp_release_numeric('{name}', $q${QUERY}$q$, '{{f,m,x}}', epsilon => 0.2,"
        f" mechanism => 'alg2', options => '{options}')"
    ).encode()


@contextmanager
def when_held(stack: Stack, action: Any) -> Iterator[None]:
    with stack.cluster.connect() as root, once(lambda: backends(root, HELD), action):
        yield


def is_recorded(stack: Stack, name: str) -> bool:
    of = "SELECT FROM dp.release JOIN dp.ledger l USING (request_id) WHERE l.request -> 'release' ->> 'name' = %s"
    with stack.cluster.connect() as root:
        return root.execute(of.encode(), [name]).rowcount == 1


def test_long_work_says_how_far_it_is_while_it_lasts(stack: Stack, alice: Connection) -> None:
    said: list[str] = []
    alice.execute("SET dp.notices = on")
    alice.add_notice_handler(lambda words: said.append(str(words.message_primary)))

    def watch() -> None:
        time.sleep(1.1)  # a NOTICE comes once a second
        let_go(stack.cluster, 2)
        try:
            assert soon(lambda: said), "nothing was said before the end"
        finally:
            let_go(stack.cluster)

    with held(stack.cluster, 2), held(stack.cluster, 4), when_held(stack, watch):
        assert len(alice.execute(question("long", 3)).fetchall()) == 3
    assert said[0] == "dp: step 2 of 5 is drawn; a cancel now releases what is drawn"
    assert "3 rounds over about" in said[-1]


def test_who_wants_no_notices_hears_none(stack: Stack, alice: Connection) -> None:
    said: list[str] = []
    alice.add_notice_handler(lambda words: said.append(str(words.message_primary)))

    def watch() -> None:
        time.sleep(1.1)
        let_go(stack.cluster)

    with held(stack.cluster, 2), when_held(stack, watch):
        assert len(alice.execute(question("silent", 2)).fetchall()) == 3
    assert said == []


@pytest.mark.parametrize("how", ["cancel", "time limit"])
def test_what_is_drawn_is_released(stack: Stack, alice: Connection, how: str) -> None:
    """The client hears of the end at once; the release is there soon after it, for nothing."""
    name, rounds = how.replace(" ", "_"), 4 if how == "cancel" else 5
    with held(stack.cluster, 4):
        if how == "cancel":
            with when_held(stack, alice.cancel), refused("57014", hint=False):
                alice.execute(question(name, rounds))
        else:
            alice.execute("SET statement_timeout = '15s'")
            with refused("57014", hint=False):
                alice.execute(question(name, rounds))
            alice.execute("RESET statement_timeout")
        assert soon(lambda: is_recorded(stack, name))
    alice.execute("SET dp.notices = on")
    said: list[str] = []
    alice.add_notice_handler(lambda words: said.append(str(words.message_primary)))
    with no_charge(stack.cluster):
        rows = alice.execute(question(name, rounds)).fetchall()
    assert [row[2:] for row in rows] == [(None, None, None, True)] * 3
    assert f"stopped after 2 of {rounds} rounds" in said[0]
