"""dp.last_answer: what the NOTICE says, for programs; through the proxy and in a direct session."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from fix_ledger import one, spent
from fix_stack import Stack

Connection = psycopg.Connection[Any]
Connect = Callable[..., Connection]
LAST = "SELECT * FROM dp.last_answer"


@pytest.fixture(params=["proxy", "direct"])
def connect(request: pytest.FixtureRequest, stack: Stack) -> Connect:
    """Sessions of analysts, by either way."""

    def session(user: str = "alice", **extra: Any) -> Connection:
        return stack.connect(user, **extra) if request.param == "proxy" else stack.cluster.connect(user, **extra)

    return session


@pytest.fixture
def alice(connect: Connect) -> Iterator[Connection]:
    with connect() as session:
        yield session


def last(session: Connection) -> dict[str, Any] | None:
    cursor = session.execute(LAST)
    row = cursor.fetchone()
    return None if row is None else dict(zip([c.name for c in cursor.description or ()], row, strict=True))


def asked(number: int, epsilon: str = "0.01") -> str:
    """A count that no other test asks; the same question by both ways."""
    return f"SELECT dp.dp_count('people', 'id <> {number}', epsilon => {epsilon})"


def test_before_the_first_answer_there_is_no_row(alice: Connection) -> None:
    assert last(alice) is None
    alice.execute("SELECT 1")
    assert alice.execute("SELECT count(*) FROM dp.last_answer").fetchone() == (0,)


def test_it_says_what_was_paid_and_what_is_left(alice: Connection, stack: Stack) -> None:
    before = spent(stack.cluster)
    alice.execute("SET dp.confidence = 0.9")
    alice.execute(asked(-1))
    found = last(alice)
    assert found is not None
    assert spent(stack.cluster) - before in (0, Decimal("0.01"))  # the second way is answered from the first one's
    paid = found["charge"] == {"epsilon": "0.01"}
    assert paid or found["charge"] == {}
    assert (found["call"], found["path"]) == ("dp_count", "direct" if paid else "cache")
    assert found["mechanism"] == "discrete Laplace"
    assert found["margin"] == "230"  # ln 10 / 0.01
    assert found["facts"]["confidence"] == "0.9"
    assert Decimal(found["left"]["epsilon"]) == one(alice, "SELECT dp.dp_budget_left('people')")
    assert found["as_of"].startswith("20")
    with stack.cluster.connect() as root:
        assert one(root, "SELECT mechanism FROM dp.release WHERE request_id = %s", found["request_id"])


def test_a_free_answer_says_so(alice: Connection) -> None:
    for _ in range(2):
        alice.execute(asked(-3))
    found = last(alice)
    assert found is not None
    assert (found["path"], found["charge"]) == ("cache", {})


def test_it_is_of_this_session_and_of_who_asked(alice: Connection, connect: Connect, stack: Stack) -> None:
    alice.execute(asked(-4))
    with connect() as other, connect("bob") as bob:
        assert last(other) is None
        assert last(bob) is None
    with stack.cluster.connect() as root:
        root.execute("SET SESSION AUTHORIZATION alice")
        root.execute(asked(-4))
        assert last(root) is not None
        root.execute("SET SESSION AUTHORIZATION bob")
        assert last(root) is None


def test_a_forged_setting_shows_nobody_else_s(stack: Stack) -> None:
    """In a direct session it is a setting, which everybody can set: to what he knows already."""
    with stack.cluster.connect("alice") as alice:
        alice.execute(asked(-14))
        alice.execute("""SELECT set_config('dp.last_answer', '{"who": "bob", "path": "direct"}', false)""")
        assert last(alice) is None
    with stack.connect("alice") as alice, pytest.raises(psycopg.Error, match="last_answer") as refused:
        alice.execute("SET dp.last_answer = 'x'")
    assert refused.value.sqlstate == "22023"


def test_what_is_refused_or_only_planned_leaves_it_as_it_was(alice: Connection) -> None:
    alice.execute(asked(-5))
    before = last(alice)
    for wrong in ("SELECT dp.dp_count('people', epsilon => 0)", "SELECT dp.dp_count('people', 'id = 1/0')"):
        with pytest.raises(psycopg.Error):
            alice.execute(wrong)
    alice.execute("SELECT dp.dp_plan(dp.dp_count_request('people', epsilon => 0.01))")
    assert last(alice) == before is not None


def test_discard_all_forgets_it(alice: Connection) -> None:
    alice.execute(asked(-6))
    alice.execute("DISCARD ALL")
    assert last(alice) is None
    alice.execute(asked(-6))
    assert last(alice) is not None


def test_two_statements_in_one_message(alice: Connection) -> None:
    """By the simple protocol; the second sees the first."""
    cursor = alice.execute(f"{asked(-7)}; SELECT call, facts ->> 'confidence' FROM dp.last_answer")
    assert cursor.nextset()
    assert cursor.fetchall() == [("dp_count", "0.95")]


@pytest.mark.parametrize("binary", [False, True])
def test_by_the_extended_protocol(alice: Connection, binary: bool) -> None:
    alice.execute(asked(-8))
    cursor = alice.cursor(binary=binary)
    told = "SELECT request_id, charge, path FROM dp.last_answer WHERE call = %s"
    for _ in range(2):
        row = cursor.execute(told, ["dp_count"], prepare=True).fetchone()
        assert row is not None
        assert row[2] in ("direct", "cache") and isinstance(row[1], dict)
    assert cursor.execute(told, ["dp_sum"], prepare=True).fetchone() is None


def test_a_rollback_takes_it_back_in_a_direct_session_alone(connect: Connect, stack: Stack) -> None:
    """There it is a setting. The charge stays by either way."""
    with connect(autocommit=False) as session:
        session.execute(asked(-9))
        assert last(session) is not None
        session.rollback()
        kept = last(session) is not None
        assert kept == (session.info.port == stack.port)


def test_facts_are_small_and_hold_no_predicate(alice: Connection) -> None:
    predicate = " OR ".join(f"id = {number}" for number in range(1000))
    alice.execute("SELECT dp.dp_count('people', %s, epsilon => 0.01)", [predicate])
    found = last(alice)
    assert found is not None
    assert "id = 7" not in str(found)
    sums = ",".join(f"sum(age) filter (where id <> {number})" for number in range(40))
    alice.execute(
        "SELECT dp.dp_group_by('people', '{sex}', %s::text[], epsilon => 0.1)", ['{"' + sums.replace(",", '","') + '"}']
    )
    found = last(alice)
    assert found is not None
    assert found["call"] == "dp_group_by"
    assert len(str(found["facts"])) < 8192


def test_the_last_grouped_release_is_remembered(alice: Connection, stack: Stack) -> None:
    """For a question about it; a count of no groups leaves it."""
    if alice.info.port == stack.port:
        return
    remembered = "SELECT current_setting('dp.last_release', true)"
    assert not one(alice, remembered)
    alice.execute("SELECT dp.dp_group_by('people', '{sex}', epsilon => 0.01)")
    group = last(alice)
    alice.execute(asked(-10))
    assert group is not None
    assert one(alice, remembered).split(" ") == [str(group["request_id"]), "0", "0"]


def test_plain_sql_through_the_proxy(stack: Stack) -> None:
    """A block of plain SQL, two in one statement, EXPLAIN, and the view beside a block."""
    with stack.connect() as alice:
        alice.execute("SET dp.epsilon = 0.01")
        alice.execute("SELECT count(*) FROM people WHERE id <> -11")
        first = last(alice)
        assert first is not None
        assert first["call"] == "block"
        alice.execute("EXPLAIN SELECT count(*) FROM people WHERE id <> -12")
        assert last(alice) == first
        alice.execute("SELECT (SELECT count(*) FROM people WHERE id <> -13), (SELECT sum(age) FROM people)")
        both = last(alice)
        assert both is not None
        assert both["request_id"] != first["request_id"]
        row = alice.execute(
            "SELECT l.path, (SELECT count(*) FROM people WHERE id <> -13) > 0 FROM dp.last_answer l"
        ).fetchone()
        assert row is not None
        assert row[1] is True


def test_its_request_id_shows_the_answer_again(connect: Connect, alice: Connection) -> None:
    """dp_shown, with a parameter and without; nobody else's."""
    rows = alice.execute("SELECT key ->> 'sex', value ->> 'count(*)' FROM dp.dp_group_by('people', '{sex}')").fetchall()
    found = last(alice)
    assert found is not None
    again = one(alice, "SELECT dp.dp_shown(%s)", found["request_id"])
    assert again == one(alice, f"SELECT dp.dp_shown('{found['request_id']}')")
    assert sorted(map(tuple, again["rows"])) == sorted((sex, str(value)) for sex, value in rows)
    assert again["request_id"] == str(found["request_id"])
    paid = "SELECT request_id FROM dp.spending WHERE call = 'dp_count' ORDER BY at DESC LIMIT 1"
    alice.execute(asked(-77))
    with connect("bob") as bob, pytest.raises(psycopg.Error, match="was given to you") as refused:
        bob.execute("SELECT dp.dp_shown(%s)", alice.execute(paid).fetchone())
    assert refused.value.sqlstate == "42501"
