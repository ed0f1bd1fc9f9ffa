"""Everything that an analyst may try with decisions: nothing about a row comes back, and what is charged is announced.

Each line of attacks_decide.sql runs on three states of the protected tables, which differ by a hostile row, and by all
of them; each state has a data version of its own, so that nothing is a repeat. False alarm: what is decided here is
right but with probability below 1e-9 in any state.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
import pytest
from attack_lines import Attack, Mallory, Seen, attacks

import fix_chance
from fix_cluster import Cluster
from fix_decide import decide_stack, one
from fix_stack import Stack

EVERY = attacks("attacks_decide.sql")
# Scales of room, which the file's lines have by far; not derived line by line.
pytestmark = [pytest.mark.timeout(600), pytest.mark.chance(fix_chance.beyond(23))]

WORLD = """
CREATE TABLE notes (id int PRIMARY KEY, age int, body text);
CREATE TABLE cities (id int, name text PRIMARY KEY); INSERT INTO cities VALUES (1, 'north');
CALL dp.publish('cities', kind => 'public');
"""
COMPARED, EMPTY = ("present", "absent"), "empty"
EMPTY_TEST = "test_a_decision_tells_nothing_of_empty_tables"  # the third state is entered for it alone
CONTROL = "what may differ"
TOLD = {"present": [(2002,), (True,)], "absent": [(2000,), (True,)], "empty": [(0,), (False,)]}
DECISION = "SELECT dp_decide('SELECT count(*) FROM adult', 'adult_syn', 30, epsilon => 60)"
SPENDING = "SELECT * FROM dp.spending WHERE dataset = 'census'"
CHEAP = "UPDATE dp.dataset SET default_epsilon = 1 WHERE name = 'census'; SELECT dp._bump_policy()"
STATES = {
    "present": """INSERT INTO adult VALUES (-1, -2147483648, '', '\\', 'NaN', 'infinity'),
        (-2, 37, 'it''s', '%', 0.01, '-infinity'); INSERT INTO notes VALUES (-1, 37, 'secret');
        INSERT INTO visits VALUES (-1, 2147483647);""",
    "absent": "DELETE FROM adult WHERE id < 0; DELETE FROM notes; DELETE FROM visits WHERE id < 0;",
    "empty": "TRUNCATE adult, notes, visits;",
}
ACCOUNTS = """SELECT count(*) FILTER (WHERE kind <> 'return'), (SELECT md5(string_agg(a::text, ',' ORDER BY a::text))
  FROM dp.account a) FROM dp.ledger"""


def _observe(mallory: Mallory, attack: Attack, owner: psycopg.Connection[Any]) -> Seen:
    before = one(owner, ACCOUNTS)
    seen = mallory.launch(attack)
    after = one(owner, ACCOUNTS)
    seen.charged = after[0] - before[0]
    assert (seen.charged == 0) == (before == after), f"ledger and accounts disagree after {attack.key}"
    return seen


def _prepare(cluster: Cluster) -> None:
    cluster.psql(WORLD, user="boss")
    cluster.psql(CHEAP)


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with decide_stack(_prepare, autovacuum="off") as running:
        yield running


@pytest.fixture(scope="module")
def observed(request: pytest.FixtureRequest, stack: Stack) -> dict[str, dict[str, Seen]]:
    """By attack, by state: what came back."""
    third = any(getattr(item, "originalname", "") == EMPTY_TEST for item in request.session.items)
    states = [*COMPARED, *([EMPTY] if third else [])]
    found: dict[str, dict[str, Seen]] = {CONTROL: {}, **{attack.key: {} for attack in EVERY}}
    mallory = Mallory(stack)
    with stack.cluster.connect() as owner:
        for state in states:
            stack.cluster.psql(STATES[state])
            stack.cluster.psql("CALL dp.refresh('adult'); CALL dp.refresh('visits');", user="boss")
            with stack.connect("bob") as bob:
                told = [one(owner, "SELECT count(*) FROM adult"), one(bob, DECISION)]
            found[CONTROL][state] = Seen(told, "ok", None, None)
            for attack in EVERY:
                found[attack.key][state] = _observe(mallory, attack, owner)
    mallory.close()
    return found


def _comparable(seen: Seen) -> str:
    """What came back; what is left of the budget is public, and less in every state."""
    return re.sub(r"epsilon [0-9.]+ is left", "epsilon is left", repr(seen.transcript))


def _compare(attack: Attack, seen: dict[str, Seen], states: Sequence[str]) -> None:
    first = seen["present"]
    assert first.stopped is None, f"set-up failed with {first.outcome}: {first.stopped}"
    assert first.outcome in attack.expected, first.transcript
    if attack.value is not None:
        assert first.value == attack.value
    for state in states:
        other = seen[state]
        assert _comparable(other) == _comparable(first), f"'present' and {state!r} can be told apart"
        assert attack.allows(other.charged), f"charged {other.charged} in state {state!r}"


@pytest.mark.parametrize("attack", EVERY, ids=[attack.key for attack in EVERY])
def test_a_decision_tells_nothing_else(attack: Attack, observed: dict[str, dict[str, Seen]]) -> None:
    _compare(attack, observed[attack.key], COMPARED)


@pytest.mark.parametrize("attack", EVERY, ids=[attack.key for attack in EVERY])
def test_a_decision_tells_nothing_of_empty_tables(attack: Attack, observed: dict[str, dict[str, Seen]]) -> None:
    _compare(attack, observed[attack.key], [EMPTY])


def test_errors_about_decisions_hold_no_value_and_no_python(observed: dict[str, dict[str, Seen]]) -> None:
    """Every error says what to do; none speaks of the engine, or of what only a row holds."""
    errors = [
        content[0]
        for states in observed.values()
        for state in states.values()
        for kind, *content in state.transcript
        if kind == "error"
    ]
    assert len(errors) > 300 * len(observed[CONTROL])
    for error in errors:
        said = " ".join(text for text in error.values() if text)
        assert not re.search(r"Traceback|plpy|\.py\b|PL/Python|-2147483648", said), error
        if (error["sqlstate"] or "").startswith("DP"):
            assert error["message_hint"], error


def test_the_states_can_be_told_apart_by_who_may_look(observed: dict[str, dict[str, Seen]]) -> None:
    """The control: the superuser sees every row; a decision at a huge epsilon tells an empty table from a full one."""
    told = {state: seen.transcript for state, seen in observed[CONTROL].items()}
    assert {*COMPARED} <= {*told}
    assert told == {state: TOLD[state] for state in told}


def test_there_are_enough() -> None:
    assert len({attack.name for attack in EVERY}) >= 150


def test_others_see_of_a_decision_what_they_see_of_any_question(stack: Stack) -> None:
    """Its mechanism and price, not its query."""
    with stack.connect("bob") as bob, stack.connect() as alice:
        bob.execute("SELECT dp_decide('SELECT count(*) FROM adult WHERE city = ''zebra''', 'adult_syn', 10)")
        shown = [str(row) for row in alice.execute(SPENDING).fetchall()]
        own = [str(row) for row in bob.execute(SPENDING).fetchall()]
        assert any("zebra" in row for row in own)
        assert len(shown) == len(own) and not any("zebra" in row for row in shown)
        assert not any("zebra" in str(row) for row in alice.execute("SELECT * FROM dp.cache_status").fetchall())
