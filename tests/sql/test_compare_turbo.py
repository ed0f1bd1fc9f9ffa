"""Grouped answers of Turbo views: kept as they were told, compared by their bars, shown again, and redacted."""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import psycopg
import pytest

import fix_chance
from fix_cluster import Cluster, standard_cluster
from fix_ledger import balanced, no_charge, one, refused

Connection = psycopg.Connection[Any]
# Answers that stand 7,000 rows apart, at bars of 1,000: every one is within three bars.
pytestmark = pytest.mark.chance(fix_chance.accuracy(3, 40))

ROWS = 20_000
OFF = 1_000  # alpha ñ
SETUP = f"""
CREATE TABLE ballots (state int, party text, score int);
INSERT INTO ballots SELECT CASE WHEN i % 20 < 12 THEN 0 WHEN i % 20 < 16 THEN 1 ELSE 2 END,
  CASE WHEN i % 10 < 7 THEN 'red' ELSE 'blue' END, CASE WHEN i % 10 < 7 THEN 4 ELSE 1 END
  FROM generate_series(1, {ROWS}) i;
CALL dp.create_dataset('ballots', epsilon => 100);
CALL dp.protect('ballots', 'ballots', scale => {ROWS});
CALL dp.describe_column('ballots', 'state', bounds => '{{0,2}}', nullable => false);
CALL dp.describe_column('ballots', 'party', domain => '{{red,blue,none}}', nullable => false);
CALL dp.describe_column('ballots', 'score', bounds => '{{0,4}}', resolution => '1', nullable => false);
CALL dp.publish('ballots');
CALL dp.allot('alice', 'ballots', epsilon => 50);
CALL dp.allot('bob', 'ballots', epsilon => 50);
CALL dp.enable_turbo('ballots', '{{state,party,score}}', 0.05, 0.001);
"""
BY_PARTY = "'ballots', '{party}', '{count(*)}'"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with standard_cluster() as running:
        running.psql(SETUP, user="boss")
        yield running


@pytest.fixture
def alice(cluster: Cluster) -> Iterator[Connection]:
    with cluster.connect("alice") as connection:
        yield connection


@pytest.fixture(autouse=True)
def _books(cluster: Cluster) -> Iterator[None]:
    yield
    balanced(cluster)


def answered(conn: Connection, arguments: str, *args: Any) -> dict[str, Any]:
    request = f"dp.dp_group_by_request({arguments}, alpha => 0.05, beta => 0.001)"
    bars = """ || '{"bars": true}'"""
    found = one(conn, f"SELECT dp.dp_query({request}{bars})", *args)
    assert isinstance(found, dict)
    assert found["notice"]["mechanism"] == "turbo"
    return found


def compared(conn: Connection, call: str, *args: Any) -> tuple[str, float, float, float]:
    found = conn.execute(f"SELECT verdict, difference, low, high FROM dp.dp_compare({call})", args).fetchone()
    assert found is not None
    return found


def shown(conn: Connection, request_id: str) -> dict[str, Any]:
    found = one(conn, "SELECT dp.dp_shown(%s)", request_id)
    assert isinstance(found, dict)
    return found


def count(cluster: Cluster, sql: str) -> int:
    with cluster.connect() as root:
        return int(one(root, sql))


def kept(cluster: Cluster) -> int:
    return count(cluster, "SELECT count(*) FROM dp.told")


def test_what_is_compared_is_what_was_told(cluster: Cluster, alice: Connection) -> None:
    """By the view's bars, which hold each with 1 - beta: of three groups together with 1 - 3 beta."""
    answer = answered(alice, BY_PARTY)
    value = {row[0]: float(row[1]) for row in answer["rows"]}
    with no_charge(cluster):
        verdict, difference, low, high = compared(alice, "'red', 'blue'")
        facts = one(alice, "SELECT facts FROM dp.last_answer")["compare"]
        assert compared(alice, "'blue', 'red'") == ("the other way round", -difference, -high, -low)
    assert (verdict, difference) == ("yes", value["red"] - value["blue"])
    assert (low, high) == (difference - 2 * OFF, difference + 2 * OFF)
    assert (facts["method"], facts["simultaneous"], facts["release"]) == ("bars", 3, answer["request_id"])
    assert compared(alice, "'{red}', weights => '{1}', constant => 5000")[0] == "yes"
    assert compared(alice, "'{red,blue}', expression => 'o1 / o2'")[0] == "yes"
    assert compared(alice, "'red', 'blue', release => %s", answer["request_id"])[0] == "yes"
    with refused("DP005", "no group 'green'"):
        compared(alice, "'green', 'blue'")


def test_more_than_the_bars_promise_is_refused(cluster: Cluster, alice: Connection) -> None:
    """The hint says what they do promise, and that is answered."""
    answered(alice, BY_PARTY)
    with no_charge(cluster), pytest.raises(psycopg.Error) as caught:
        compared(alice, "'red', 'blue', confidence => 0.9971")
    assert caught.value.sqlstate == "DP003"
    assert "confidence => 0.997 or less, or write simultaneous => false" in (caught.value.diag.message_hint or "")
    assert compared(alice, "'red', 'blue', confidence => 0.997")[0] == "yes"
    assert compared(alice, "'red', 'blue', confidence => 0.998, simultaneous => false")[0] == "yes"
    with refused("DP003", "do not hold together"):
        compared(alice, "'red', 'blue', confidence => 0.9981, simultaneous => false")


def test_averages_and_sums(alice: Connection) -> None:
    """Their bars are those that were shown; an average of a group that may be empty has none."""
    answer = answered(alice, "'ballots', '{party}', '{avg(score),sum(score)}'")
    bars = {row[0]: bar for row, bar in zip(answer["rows"], answer["bars"], strict=True)}
    for aggregate in (1, 2):
        _, _, low, high = compared(alice, f"'red', 'blue', aggregate => {aggregate}")
        ends = [(float(bars[name][aggregate - 1][0]), float(bars[name][aggregate - 1][1])) for name in ("red", "blue")]
        assert math.isclose(low, ends[0][0] - ends[1][1], abs_tol=1e-6)
        assert math.isclose(high, ends[0][1] - ends[1][0], abs_tol=1e-6)
    with refused("DP003", "nothing that may be told bounds"):
        compared(alice, "'red', 'none'")


def test_keys_and_aggregates_are_those_of_who_asks(alice: Connection) -> None:
    answer = answered(alice, "'ballots', '{party,state}', '{count(*),sum(score)}'")
    value = {tuple(row[:2]): float(row[2]) for row in answer["rows"]}
    assert len(value) == 9
    assert compared(alice, "ARRAY['red','0'], ARRAY['none','1']")[1] == value["red", "0"] - value["none", "1"]
    turned = answered(alice, "'ballots', '{state,party}', '{sum(score),count(*)}'")
    assert compared(alice, "ARRAY['0','red'], ARRAY['1','none'], aggregate => 2")[1] == (
        value["red", "0"] - value["none", "1"]
    )
    assert turned["request_id"] != answer["request_id"]


def test_what_was_told_before_is_the_same_answer(cluster: Cluster, alice: Connection) -> None:
    """A dashboard that asks every minute leaves one row, and its id is the one that is remembered."""
    first = answered(alice, BY_PARTY)
    before = kept(cluster)
    with no_charge(cluster):
        again = answered(alice, BY_PARTY)
    assert (again["rows"], again["request_id"]) == (first["rows"], first["request_id"])
    assert kept(cluster) == before
    assert one(alice, "SELECT request_id::text FROM dp.last_answer") == first["request_id"]
    with cluster.connect("bob") as bob:  # free, and his own: nobody is told who asked before
        his = answered(bob, BY_PARTY)
        assert his["rows"] == first["rows"]
        assert his["request_id"] != first["request_id"]
        assert kept(cluster) == before + 1
        for call in (shown, lambda conn, of: compared(conn, "'red', 'blue', release => %s", of)):
            with no_charge(cluster), refused("42501", "was given to you"):
                call(bob, first["request_id"])
            call(bob, his["request_id"])
    with cluster.connect("boss") as boss:
        assert shown(boss, first["request_id"])["rows"] == first["rows"]


def test_it_is_shown_again(cluster: Cluster, alice: Connection) -> None:
    answer = answered(alice, "'ballots', '{party}', '{count(*),avg(score)}', predicate => 'state < 2'")
    with no_charge(cluster):
        again = shown(alice, answer["request_id"])
    for name in ("call", "keys", "columns", "names", "rows"):
        assert again[name] == answer.get(name, "dp_group_by")
    assert again["bars"] == answer["bars"]  # at dp.confidence .95: the view's, which hold with .999
    assert (again["mechanism"], again["confidence"]) == ("turbo", "0.999")
    assert again["facts"] == {"margin": answer["notice"]["margin"], "warnings": answer["notice"]["warnings"]}
    with refused("42501", "was given to you"):
        shown(alice, str(uuid.uuid4()))


def test_a_single_number_is_not_kept(cluster: Cluster, alice: Connection) -> None:
    before = kept(cluster)
    request = "dp.dp_count_request('ballots', 'score > 2', alpha => 0.05, beta => 0.001)"
    answer = one(alice, f"SELECT dp.dp_query({request})")
    assert kept(cluster) == before
    assert "release" not in answer
    with refused("DP006", "with a single row"):
        shown(alice, answer["request_id"])


def test_the_answers_of_a_synopsis_hold_together(cluster: Cluster, alice: Connection) -> None:
    """Grade `uniform`: all of its groups at 1 - beta at once; the control: until it is bought, noise does not."""
    cluster.psql("CALL dp.allot('dp_planner', 'ballots', epsilon => 40)", user="boss")
    overlapping = [f"state <= {high} AND score >= {low}" for low in (1, 2, 3, 4) for high in (0, 1)] + [
        f"state >= {low} AND party <> '{party}'" for low in (1, 2) for party in ("red", "blue", "none")
    ]
    for number, where in enumerate(overlapping * 4):
        column = ("party", "score", "state")[number % 3]
        answer = answered(alice, f"'ballots', '{{{column}}}', '{{count(*)}}', predicate => %s", where)
        pair = answer["rows"][0][0], answer["rows"][1][0]
        if answer["notice"]["grade"] == "uniform":
            break
        with refused("DP003", "do not hold together"):
            compared(alice, "%s::text, %s::text, confidence => 0.999", *pair)
    else:
        pytest.fail("no synopsis was bought")
    compared(alice, "%s::text, %s::text, confidence => 0.999", *pair)


def test_a_redacted_question_leaves_no_answer(cluster: Cluster, alice: Connection) -> None:
    """By the id of a charge or of an answer that was free; its text is in no row of any table then."""
    cluster.psql("CALL dp.refresh('ballots')", user="boss")  # what was bought before answers no more
    named = "'ballots', '{party}', '{count(*) FILTER (WHERE state <> 1)}'"
    paid = answered(alice, named)
    other = "'ballots', '{party}', '{count(*) FILTER (WHERE state < 1 OR state > 1)}'"
    free = answered(alice, other)  # of the same bins
    assert (paid["notice"]["charge"] != {}, free["notice"]["charge"]) == (True, {})
    held = "SELECT count(*) FROM (SELECT request_id, request, presentation::text FROM dp.told"
    held += (
        " UNION ALL SELECT request_id, request, '' FROM dp.ledger) r WHERE request_id = '{}' AND request IS NOT NULL"
    )
    with cluster.connect("boss") as boss:
        for answer in (paid, free):
            assert count(cluster, held.format(answer["request_id"])) > 0
            boss.execute("CALL dp.redact(%s)", [answer["request_id"]])
            assert count(cluster, held.format(answer["request_id"])) == 0
        with refused("DP005", "holds a question's text"):
            boss.execute("CALL dp.redact(%s)", [free["request_id"]])
    with refused("DP006", "with a single row"):
        shown(alice, paid["request_id"])
    with refused("42501", "was given to you"):
        shown(alice, free["request_id"])
    with cluster.connect() as root:
        assert root.execute("SELECT problem FROM dp._problems() WHERE problem LIKE 'the chain:%'").fetchall() == []


def test_a_step_that_is_repeated_tells_what_it_told_last(cluster: Cluster) -> None:
    """The reply to _charge was lost: the proxy sends it again, with the id that is kept already."""
    step = str(uuid.uuid4())
    with cluster.connect() as root, cluster.connect("alice") as alice:
        request = one(
            root,
            "SELECT dp.dp_group_by_request('ballots', '{state}', '{count(*)}', alpha => 0.05, beta => 0.001)::text",
        )
        first = one(root, "SELECT dp._charge(%s, 'alice', %s)", step, request)
        before = kept(cluster)
        with no_charge(cluster):
            second = one(root, "SELECT dp._charge(%s, 'alice', %s)", step, request)
        assert second["answer"]["rows"] == first["answer"]["rows"]
        assert kept(cluster) == before
        assert shown(alice, step)["rows"] == first["answer"]["rows"]


def test_why_counts_of_a_view_differ(cluster: Cluster, alice: Connection) -> None:
    """14,000 against 6,000. The rows are read once, and paid for beside the view.

    Of state 1 are 4,000 and none: influence 4,000 * 6,000 / 14,001; of state 0 9,000 and 3,000, influence 1,285; a
    score has all of one party, and influence 0. State 1 is picked with a score 850 scales above the next one.
    """
    answered(alice, BY_PARTY)
    before = one(alice, "SELECT sum((charge -> 0 ->> 'epsilon')::numeric) FROM dp.spending")
    rows = alice.execute("SELECT * FROM dp.dp_explain_difference('red', 'blue', k => 1, epsilon => 10)").fetchall()
    assert [row[0] for row in rows] == ["state = 1"]
    assert rows[0][1] is not None and rows[0][2] <= rows[0][1] <= rows[0][3]
    assert one(alice, "SELECT sum((charge -> 0 ->> 'epsilon')::numeric) FROM dp.spending") == before + Decimal("2.5")
