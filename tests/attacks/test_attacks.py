"""Everything an analyst may try, over both ways in: nothing about a row comes back, and nothing is charged.

Each line of attacks*.sql runs on three states of the tables, which differ by a row or two, and by all of them. Whatever
comes back (rows, types, command tags, errors in full, notices) must be the same, and what is charged must be what the
line says.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest
from attack_lines import Attack, Mallory, Seen, attacks

from fix_stack import Stack, stack_at_work
from fix_waiting import soon

FILES = [
    f"attacks{part}.sql"
    for part in ("", "_catalog", "_forged", "_names", "_surfaces", "_questions", "_calls", "_explain", "_release")
]
EVERY = [attack for file in FILES for attack in attacks(file)]
# The first test waits for all of them, in two states (three in make test-thorough).
pytestmark = pytest.mark.timeout(900)

# In the private database, beside the standard tables: what an owner has and never published, and public things.
WORLD = """
CREATE TABLE notes (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body text);
CREATE VIEW grown AS SELECT * FROM people WHERE age > 37;
CREATE MATERIALIZED VIEW ages AS SELECT age, count(*) FROM people GROUP BY age;
CREATE SEQUENCE ticket;
CREATE INDEX people_age ON people (age);
CREATE VIEW adults AS SELECT id, age, sex, city FROM people WHERE age > 20; CALL dp.publish('adults');
CREATE TABLE visits_of (city text, k int); INSERT INTO visits_of SELECT 'north', i FROM generate_series(1, 100) i;
CREATE TABLE cities (name text PRIMARY KEY, region text, size int);
INSERT INTO cities VALUES ('north', 'n', 1), ('south', 's', 2), ('east', 'n', 3), ('west', 'w', 4);
CALL dp.publish('visits_of', kind => 'public'); CALL dp.publish('cities', kind => 'public');
"""
# The secret is a row of every relation; the engine's answers to it are in range and its values are hostile.
SECRET = """
INSERT INTO people VALUES (-1, 37, 'it''s', '%', 99999, '2024-12-31', 'NaN'),
  (-2, -2147483648, '', '\\', 'NaN', 'infinity', '-Infinity');
INSERT INTO customers VALUES (-1, 'secret'); INSERT INTO orders VALUES (-1, -1, '2024-06-06', 'paid');
INSERT INTO items VALUES (-1, 'sku0', 89); INSERT INTO notes (body) VALUES ('secret'); SELECT nextval('ticket');
"""
STATES = {
    "present": SECRET,
    "absent": "DELETE FROM items WHERE order_id = -1; DELETE FROM orders WHERE id = -1;"
    "DELETE FROM customers WHERE id = -1; DELETE FROM people WHERE id < 0; DELETE FROM notes;"
    "SELECT nextval('ticket');",
    "empty": "TRUNCATE items, orders, customers, people; SELECT setval('ticket', 1);",
}
COMPARED, EMPTY = ("present", "absent"), "empty"
EMPTY_TEST = "test_an_attack_learns_nothing_of_empty_tables"  # the third state is entered for it alone
SETTLE = ("REFRESH MATERIALIZED VIEW ages", "VACUUM ANALYZE people, customers, orders, items, notes, ages")
# What another analyst asked before: free for everybody, but its text is his.
BOB = (
    "SELECT dp_count('people', $$sex = 'f' AND age > 21$$, epsilon => 0.123)",
    "SELECT dp_count('people', $$sex = 'mallory'$$, epsilon => 0.001)",
)
# What must differ between the states, seen by the superuser: the attacks' own control.
CONTROL = "what the superuser sees"
SECRETS = (
    "SELECT count(*) FROM people",
    "SELECT reltuples FROM pg_class WHERE oid = 'people'::regclass",
    "SELECT last_value FROM ticket",
    "SELECT n_tup_ins, n_tup_del, n_live_tup FROM pg_stat_user_tables WHERE relname = 'people'",
)
ACCOUNTS = (
    "SELECT (SELECT count(*) FROM dp.ledger), (SELECT md5(string_agg(a::text, ',' ORDER BY a::text)) FROM dp.account a)"
)


def _wait_for(stack: Stack, table: str) -> None:
    """The facade follows the policy in its own time."""

    def there() -> bool:
        try:
            with stack.connect("bob") as bob:
                bob.execute(f"SELECT FROM {table}".encode())
        except psycopg.errors.UndefinedTable:
            return False
        return True

    assert soon(there)


def _enter(stack: Stack, script: str) -> None:
    stack.cluster.psql(script)
    stack.cluster.execute(*SETTLE)


def _observe(mallory: Mallory, attack: Attack, owner: psycopg.Connection[Any]) -> Seen:
    before = owner.execute(ACCOUNTS).fetchone()
    seen = mallory.launch(attack)
    after = owner.execute(ACCOUNTS).fetchone()
    assert before is not None and after is not None
    seen.charged = after[0] - before[0]
    assert (seen.charged == 0) == (before == after), f"ledger and accounts disagree after {attack.key}"
    return seen


def _selected(items: list[pytest.Item]) -> tuple[list[Attack], list[str]]:
    """The attacks whose tests run, and the states that they are tried in: all of them, unless somebody chose some."""
    ours = [item for item in items if item.path == Path(__file__) and hasattr(item, "callspec")]
    chosen = {item.callspec.params["attack"].key for item in ours}
    third = any(getattr(item, "originalname", "") == EMPTY_TEST for item in ours)
    return [attack for attack in EVERY if attack.key in chosen], [*COMPARED, *([EMPTY] if third else [])]


@pytest.fixture(scope="module")
def observed(request: pytest.FixtureRequest) -> dict[str, dict[str, Seen]]:
    """By attack, by state: what came back. Autovacuum would move transaction counters by itself."""
    launched, states = _selected(request.session.items)
    found: dict[str, dict[str, Seen]] = {CONTROL: {}, **{attack.key: {} for attack in launched}}
    with stack_at_work(autovacuum="off") as stack, stack.cluster.connect() as owner:
        stack.cluster.psql(WORLD, user="boss")
        _wait_for(stack, "cities")
        with stack.connect("bob") as bob:
            for question in BOB:
                bob.execute(question)
        mallory = Mallory(stack)
        # Charged ones last: what is left of a budget shall be the same in every state before.
        for some in (False, True):
            for state in states:
                _enter(stack, STATES[state])
                seen = [("result", owner.execute(secret.encode()).fetchall()) for secret in SECRETS]
                found[CONTROL][state] = Seen(seen, "ok", None, None)
                for attack in launched:
                    if attack.pays is some:
                        found[attack.key][state] = _observe(mallory, attack, owner)
        mallory.close()
    return found


def _compare(attack: Attack, seen: dict[str, Seen], states: Sequence[str]) -> None:
    first = seen["present"]
    assert first.stopped is None, f"set-up failed with {first.outcome}: {first.stopped}"
    assert first.outcome in attack.expected, first.transcript
    if attack.value is not None:
        assert first.value == attack.value
    for state in states:
        other = seen[state]
        assert other.transcript == first.transcript, f"'present' and {state!r} can be told apart"
        again = other is not first and not attack.fresh
        assert other.charged == 0 if again else attack.allows(other.charged), f"charged in state {state!r}"


@pytest.mark.parametrize("attack", EVERY, ids=[attack.key for attack in EVERY])
def test_an_attack_learns_nothing(attack: Attack, observed: dict[str, dict[str, Seen]]) -> None:
    _compare(attack, observed[attack.key], COMPARED)


@pytest.mark.parametrize("attack", EVERY, ids=[attack.key for attack in EVERY])
def test_an_attack_learns_nothing_of_empty_tables(attack: Attack, observed: dict[str, dict[str, Seen]]) -> None:
    _compare(attack, observed[attack.key], [EMPTY])


def test_the_states_can_be_told_apart_by_who_may_look(observed: dict[str, dict[str, Seen]]) -> None:
    """The control: each secret differs between some two states, and every two states in some secret."""
    assert {*COMPARED} <= {*observed[CONTROL]}
    seen = [state.transcript for state in observed[CONTROL].values()]
    for secret in zip(*seen, strict=True):
        assert any(one != secret[0] for one in secret)
    assert all(a != b for position, a in enumerate(seen) for b in seen[position + 1 :])


def test_errors_speak_no_python(observed: dict[str, dict[str, Seen]]) -> None:
    """Messages, details and contexts hold no exception names, tracebacks or source lines of the engine."""
    spoken = [
        (key, field, text)
        for key, states in observed.items()
        for kind, *content in states["present"].transcript
        if kind in ("error", "notice")
        for field, text in content[0].items()
        if text and re.search(r"Traceback|plpy\.|spiexceptions|\.py\b|PL/Python|Error: ", text)
    ]
    assert spoken == []


def test_the_table_is_as_large_as_promised() -> None:
    """At least 80 different attacks, each way in used by at least 60, no name twice on one way."""
    assert len({attack.name for attack in EVERY}) >= 80
    assert len({attack.key for attack in EVERY}) == len(EVERY)
    for way in ("simple", "extended", "direct"):
        assert sum(attack.way == way for attack in EVERY) >= 60
