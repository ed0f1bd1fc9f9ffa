"""A release by Algorithm 2 is drawn step by step, each committed: seen, stopped, gone on with (seam.md S8)."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from fix_cluster import Cluster, standard_cluster
from fix_ledger import balanced, forgive, no_charge, one, refused, spent
from fix_release import ADULT
from fix_steps import HELD, HOLDING, held, let_go
from fix_waiting import backends, once, soon

Connection = psycopg.Connection[Any]
ROUNDS = 12
QUERY = "SELECT sum(loss) FROM adult WHERE age BETWEEN $1 AND $2"
GRID = "{{17,30},{31,50},{20,90}}"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with standard_cluster(max_connections="100") as running:
        running.psql(ADULT, user="boss")
        running.psql(HOLDING)
        running.execute("UPDATE dp.role_allotment SET epsilon = 900 WHERE dataset = 'adult'")
        yield running


@pytest.fixture(autouse=True)
def _books(cluster: Cluster) -> Iterator[None]:
    yield
    let_go(cluster)
    forgive(cluster)
    balanced(cluster)


def question(name: str, *, rounds: int = ROUNDS, epsilon: str = "2", more: str = "") -> str:
    """Its number of rounds makes it another question than those of the other tests."""
    return (
        f"SELECT * FROM dp.dp_release_numeric('{name}', $q${QUERY}$q$, '{GRID}', epsilon => {epsilon},"
        f" mechanism => 'alg2', options => '{{\"rounds\": {rounds}}}'{more})"
    )


def drafts(cluster: Cluster, name: str) -> list[list[int]]:
    """The steps of the only charge for a family of that name."""
    with cluster.connect() as root:
        ids = "SELECT request_id FROM dp.ledger WHERE kind = 'charge' AND request -> 'release' ->> 'name' = %s"
        assert len(root.execute(ids, [name]).fetchall()) <= 1
        found = root.execute(f"SELECT step, released FROM dp.draft WHERE request_id = ({ids}) ORDER BY step", [name])
        rows = found.fetchall()
        assert [step for step, _ in rows] == list(range(1, len(rows) + 1))
        return [released for _, released in rows]


def raw(cluster: Cluster, name: str) -> list[int]:
    with cluster.connect() as root:
        of = "SELECT request_id FROM dp.ledger WHERE kind = 'charge' AND request -> 'release' ->> 'name' = %s"
        text = one(root, f"SELECT (answer -> 'raw' -> 0)::text FROM dp.release WHERE request_id = ({of})", name)
        return [int(value) for value in json.loads(text)]


@contextmanager
def when_held(cluster: Cluster, action: Any) -> Iterator[None]:
    with cluster.connect() as root, once(lambda: backends(root, HELD), action):
        yield


def asking(cluster: Cluster, who: str, sql: str) -> list[Any]:
    with cluster.connect(who) as conn:
        return conn.execute(sql.encode()).fetchall()


def test_every_step_is_committed(cluster: Cluster) -> None:
    """The number of rows, the rounds, the largest error: and the release is what they say."""
    asking(cluster, "alice", question("whole"))
    steps = drafts(cluster, "whole")
    assert [len(one) for one in steps] == [1, *[2] * ROUNDS, 1]
    assert raw(cluster, "whole")[:3] == [steps[0][0], ROUNDS, steps[-1][0]]


def test_a_cancel_releases_what_is_drawn(cluster: Cluster) -> None:
    """And gives the other rounds back; whoever asks again gets that release, without bars, for nothing."""
    before = spent(cluster, "adult")
    with cluster.connect("alice") as alice:
        with held(cluster, 6), when_held(cluster, alice.cancel), refused("57014", hint=False):
            alice.execute(question("stopped", rounds=10).encode())
        steps = drafts(cluster, "stopped")
        assert [len(one) for one in steps] == [1, 2, 2, 2, 2]
        assert raw(cluster, "stopped")[:3] == [steps[0][0], ~4, 0]
        back = Decimal(2) * Decimal("0.88") * 6 / 10
        assert abs(spent(cluster, "adult") - before - (2 - back)) < Decimal("1e-12")
        said: list[str] = []
        alice.add_notice_handler(lambda words: said.append(str(words.message_primary)))
        alice.execute("SET dp.notices = on")
        with no_charge(cluster):
            rows = alice.execute(question("stopped", rounds=10).encode()).fetchall()
        assert [row[2:] for row in rows] == [(None, None, None, True)] * 3
        assert rows[0][1] + rows[1][1] > 0
        assert "stopped after 4 of 10 rounds" in said[-1] and "no answer has a bar" in said[-1]


def test_a_cancel_that_is_heard_twice_releases_what_is_drawn(cluster: Cluster) -> None:
    """One cancel is two signals: the second one may end what the first one has begun."""
    waiting = "wait_event_type = 'Lock' AND usename ~ '^dp_channel_'"
    charge = "SELECT FROM dp.ledger WHERE kind = 'charge' AND request -> 'release' ->> 'name' = 'heard' FOR UPDATE"
    with cluster.connect("alice", tcp=True) as alice, cluster.connect(autocommit=False) as other:
        pid = alice.info.backend_pid

        def cancel() -> None:
            with ThreadPoolExecutor(1) as pool, cluster.connect() as root:
                taken = pool.submit(other.execute, charge)  # after the step that is cancelled, before its end is kept
                assert soon(lambda: backends(root, "wait_event_type = 'Lock' AND usename = 'postgres'"))
                root.execute("SELECT pg_cancel_backend(%s)", [pid])
                taken.result()
                assert soon(lambda: backends(root, waiting))
                stopping = one(root, f"SELECT pid FROM pg_stat_activity WHERE {waiting}")
                root.execute("SELECT pg_cancel_backend(%s)", [pid])
                assert soon(lambda: backends(root, f"{waiting} AND pid <> {stopping}"))
                other.rollback()

        with held(cluster, 4), when_held(cluster, cancel), refused("57014", "user request", hint=False):
            alice.execute(question("heard", rounds=11))
        assert len(drafts(cluster, "heard")) == 3
        with no_charge(cluster):
            rows = alice.execute(question("heard", rounds=11)).fetchall()
    assert [row[2:] for row in rows] == [(None, None, None, True)] * 3


def test_a_stopped_family_answers_plain_questions_without_bars(cluster: Cluster) -> None:
    with cluster.connect("alice") as alice:
        with held(cluster, 5), when_held(cluster, alice.cancel), refused("57014", hint=False):
            alice.execute(question("answers", rounds=9).encode())
        rows = alice.execute(question("answers", rounds=9).encode()).fetchall()
        with no_charge(cluster):
            found = one(alice, "SELECT dp.dp_query(dp.dp_sum_request('adult', 'loss', 'age BETWEEN 17 AND 30'))")
        assert found["notice"]["path"] == "family"
        assert float(found["rows"][0][0]) == round(rows[0][1])
        words = found["notice"]["text"]
        assert "no error bar" in words and "may be below resolution: the release was stopped" in words


def test_a_cancel_before_the_first_step_owes_everything(cluster: Cluster) -> None:
    """Nothing is drawn, nothing comes back, and the next one who asks draws it for nothing (composition.md §10.3 c)."""
    before = spent(cluster, "adult")
    with cluster.connect("alice") as alice:
        with held(cluster, 1), when_held(cluster, alice.cancel), refused("57014", hint=False):
            alice.execute(question("begun", rounds=8).encode())
        assert drafts(cluster, "begun") == []
        rows = alice.execute(question("begun", rounds=8).encode()).fetchall()
    assert all(row[3] is not None for row in rows)
    assert spent(cluster, "adult") - before == 2


@pytest.mark.parametrize("whose", ["usename = 'alice'", "usename ~ '^dp_channel_'"])
def test_the_next_one_goes_on_where_it_stopped(cluster: Cluster, whose: str) -> None:
    """After a caller, or a channel, that was ended: the steps that are drawn stay, and nobody pays again."""
    before, rounds = spent(cluster, "adult"), 7 if "alice" in whose else 6
    name = f"ended_{rounds}"

    def end() -> None:
        with cluster.connect() as root:
            root.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {whose}".encode())
            assert soon(lambda: not backends(root, HELD))
            let_go(cluster)

    with held(cluster, 4), when_held(cluster, end), cluster.connect("alice") as alice:
        try:
            rows = alice.execute(question(name, rounds=rounds).encode()).fetchall()
            assert "alice" not in whose and all(row[3] is not None for row in rows)  # the step was taken once more
        except psycopg.OperationalError:
            assert "alice" in whose
    if "alice" in whose:
        first = drafts(cluster, name)
        assert len(first) == 3
        rows = asking(cluster, "bob", question(name, rounds=rounds))
        assert drafts(cluster, name)[:3] == first and all(row[3] is not None for row in rows)
        assert spent(cluster, "adult", "bob") == 0
    assert len(drafts(cluster, name)) == 2 + rounds
    assert spent(cluster, "adult") - before == 2


def test_a_cancel_of_others_stops_nothing(cluster: Cluster) -> None:
    """Who did not pay for it ends his own wait alone: the steps stay, and the release is whole in the end."""
    with cluster.connect("alice") as alice, cluster.connect("bob") as bob:
        ended = pytest.raises(psycopg.OperationalError)
        with held(cluster, 3), when_held(cluster, lambda: end_all(cluster)), ended:
            alice.execute(question("others", rounds=14).encode())
        with held(cluster, 5), when_held(cluster, bob.cancel), refused("57014", hint=False):
            bob.execute(question("others", rounds=14).encode())
        with cluster.connect() as root:
            assert soon(lambda: not backends(root, "usename ~ '^dp_channel_' AND state = 'active'"))
    assert len(drafts(cluster, "others")) == 4
    assert all(row[3] is not None for row in asking(cluster, "alice", question("others", rounds=14)))


def test_a_redacted_release_leaves_no_digest(cluster: Cluster) -> None:
    """The form of its steps could tell a question that somebody guesses."""
    asking(cluster, "alice", question("secret", rounds=15))
    with cluster.connect() as root, cluster.connect("boss") as boss:
        of = "SELECT request_id FROM dp.ledger WHERE kind = 'charge' AND request -> 'release' ->> 'name' = 'secret'"
        id_ = one(root, of)
        boss.execute("CALL dp.redact(%s)", [id_])
        assert root.execute("SELECT DISTINCT form FROM dp.draft WHERE request_id = %s", [id_]).fetchall() == [
            ("redacted",)
        ]


def test_two_callers_get_one_release(cluster: Cluster) -> None:
    before = spent(cluster, "adult")
    with ThreadPoolExecutor(2) as pool:
        with held(cluster, 3), when_held(cluster, lambda: None):
            first = pool.submit(asking, cluster, "alice", question("both", rounds=5))
        second = pool.submit(asking, cluster, "alice", question("both", rounds=5))
        assert first.result() == second.result()
    assert len(drafts(cluster, "both")) == 7
    assert spent(cluster, "adult") - before == 2


def test_other_declarations_end_what_is_owed(cluster: Cluster) -> None:
    """The integers of the steps would mean something else: the question is paid anew, and nothing is gone on with."""
    with cluster.connect("alice") as alice:
        before = spent(cluster, "adult")
        ended = pytest.raises(psycopg.OperationalError)
        with held(cluster, 4), when_held(cluster, lambda: end_all(cluster)), ended:
            alice.execute(question("other", rounds=4).encode())
    declare(cluster, 2**30)
    try:
        assert len(asking(cluster, "alice", question("other", rounds=4))) == 3
        assert spent(cluster, "adult") - before == 4
        with cluster.connect() as root:
            assert (
                one(
                    root,
                    "SELECT count(DISTINCT form) FROM dp.draft JOIN dp.ledger USING (request_id)"
                    " WHERE request -> 'release' ->> 'name' = 'other'",
                )
                == 2
            )
            assert one(root, "SELECT count(*) FROM dp.entitlement") == 0
    finally:
        declare(cluster, 100000)


def declare(cluster: Cluster, rows: int) -> None:
    """Another size of the table, which decides what fraction of a row an integer stands for."""
    cluster.execute(
        f"UPDATE dp.relation_policy SET max_rows = {rows} WHERE relation = 'adult'::regclass",
        "UPDATE dp.policy_state SET version = version + 1",
    )


def end_all(cluster: Cluster) -> None:
    with cluster.connect() as root:
        ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename ~ '^(alice|dp_channel_.*)$'"
        root.execute(ended.encode())
        assert soon(lambda: not backends(root, HELD))
        let_go(cluster)


def test_a_long_release_says_how_far_it_is(cluster: Cluster) -> None:
    """A NOTICE says how far it is, at most one a second, to who wants notices."""
    said: list[str] = []
    with cluster.connect("alice") as alice:
        alice.execute("SET dp.notices = on")
        alice.add_notice_handler(lambda words: said.append(str(words.message_primary)))
        free = threading.Timer(1.5, let_go, [cluster])
        with held(cluster, 2), when_held(cluster, free.start):
            alice.execute(question("seen", rounds=3).encode())
        free.join()
    assert said[0] == "dp: step 2 of 5 is drawn; a cancel now releases what is drawn"
    assert "3 rounds over about" in said[-1]


def test_steps_stay(cluster: Cluster) -> None:
    asking(cluster, "alice", question("kept", rounds=2))
    with cluster.connect() as root:
        for change in ("DELETE FROM dp.draft", "UPDATE dp.draft SET step = step", "TRUNCATE dp.draft"):
            with refused("42501"):
                root.execute(change.encode())


BROKEN = """
CREATE FUNCTION public.forgetful(id uuid) RETURNS jsonb LANGUAGE plpython3u SECURITY DEFINER
SET row_security = off AS $$
from pg_epsilon import entry
from pg_epsilon.engine.steps import Steps
kept = Steps.drawn
Steps.drawn = lambda self, id: kept(self, id)[:-1]
try:
    return entry.answer(id)
finally:
    Steps.drawn = kept
$$;
ALTER FUNCTION public.forgetful(uuid) OWNER TO dp_owner;
"""


def test_a_step_that_is_drawn_twice_is_caught(cluster: Cluster) -> None:
    """Control: an engine that forgets its last step draws it again. The second draw is released to nobody."""
    cluster.execute("GRANT CREATE ON SCHEMA public TO dp_owner")
    cluster.psql(BROKEN)
    ended = pytest.raises(psycopg.OperationalError)
    with cluster.connect("alice") as alice, held(cluster, 4), when_held(cluster, lambda: end_all(cluster)), ended:
        alice.execute(question("twice", rounds=4, epsilon="1").encode())
    before = drafts(cluster, "twice")
    with cluster.connect() as root:
        id_ = one(root, "SELECT request_id FROM dp.draft ORDER BY at DESC LIMIT 1")
        reply = one(root, "SELECT public.forgetful(%s)", id_)
        assert reply["refusal"]["sqlstate"] == "DP006"
        assert one(root, "SELECT count(*) FROM dp.release WHERE request_id = %s", id_) == 0
    assert drafts(cluster, "twice") == before
