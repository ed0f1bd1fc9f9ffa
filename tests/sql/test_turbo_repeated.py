"""A step that is repeated after its reply was lost buys no second draw, whichever mechanism answers by now (rule R2).

The channel repeats a step with its request id when the connection broke; the first one may have been committed.
"""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import fix_chance
from fix_cluster import Cluster, standard_cluster
from fix_ledger import balanced, no_charge, one

SETUP = """
CREATE TABLE again (a int);
INSERT INTO again SELECT i % 8 FROM generate_series(1, 20000) i;
CALL dp.create_dataset('again', epsilon => 10);
CALL dp.protect('again', 'again', scale => 20000);
CALL dp.describe_column('again', 'a', bounds => '{0,7}', nullable => false);
CALL dp.publish('again');
CALL dp.allot('alice', 'again', epsilon => 10);
"""
ENABLE = "CALL dp.enable_turbo('again', '{a}', 0.05, 0.0001, planner => 'turbo', settings => '{\"c0\": 0}')"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with standard_cluster() as running:
        running.psql(SETUP + ENABLE, user="boss")
        yield running


@pytest.fixture
def channel(cluster: Cluster) -> Iterator[psycopg.Connection[Any]]:
    with cluster.connect() as conn:
        conn.execute("SET ROLE dp_channel")
        yield conn
    balanced(cluster)


def request(cluster: Cluster, predicate: str, budget: str = "alpha => 0.05, beta => 0.0001") -> str:
    with cluster.connect("alice") as alice:
        return json.dumps(one(alice, f"SELECT dp.dp_count_request('again', %s, {budget})", predicate))


def charge(channel: psycopg.Connection[Any], request_id: str, document: str) -> dict[str, Any]:
    reply = one(channel, "SELECT dp._charge(%s, 'alice', %s)", request_id, document)
    assert isinstance(reply, dict)
    return reply


def test_what_turbo_was_paid_for_buys_no_direct_draw(cluster: Cluster, channel: psycopg.Connection[Any]) -> None:
    """The view is gone when the step is repeated: the same price for the same accounts, but of another draw."""
    request_id, document = str(uuid.uuid4()), request(cluster, "a = 1")
    with cluster.connect("boss") as boss:
        boss.execute("CALL dp.disable_turbo('again')")
        boss.execute(ENABLE.replace('"c0": 0', '"c0": 9'))
        assert charge(channel, request_id, document)["answer"]["notice"]["path"] == "bypass"
        boss.execute("CALL dp.disable_turbo('again')")
        with no_charge(cluster):
            assert charge(channel, request_id, document)["refusal"]["sqlstate"] == "DP006"
            assert one(channel, "SELECT dp._answer(%s)", request_id)["refusal"]["sqlstate"] == "DP006"
        boss.execute(ENABLE)


def test_a_question_at_another_price_is_not_answered(cluster: Cluster, channel: psycopg.Connection[Any]) -> None:
    """Of direct answers too: what was charged under the id is looked at, not only that something was."""
    request_id = str(uuid.uuid4())
    assert charge(channel, request_id, request(cluster, "a = 2", "epsilon => 0.1"))["charged"]
    with no_charge(cluster):
        other = charge(channel, request_id, request(cluster, "a = 2", "epsilon => 0.2"))
    assert other["refusal"]["sqlstate"] == "DP006"
    assert charge(channel, request_id, request(cluster, "a = 2", "epsilon => 0.1"))["charged"]
    assert one(channel, "SELECT dp._answer(%s)", request_id)["answer"]["rows"]


@pytest.mark.chance(fix_chance.laplace_sum(2, 2 * math.log(1 / 0.0001)))
def test_a_repeated_step_that_fails_its_test_pays_in_the_ledger_too(
    cluster: Cluster, channel: psycopg.Connection[Any]
) -> None:
    """The first attempt opened an epoch under the request's id; the second one's payment has a row of its own.

    The uniform histogram is right about this question: its test has 2 ln(1 / beta) scales of noise to go.
    """
    request_id, document = str(uuid.uuid4()), request(cluster, "a < 4")
    assert charge(channel, request_id, document)["answer"]
    with cluster.connect() as root:
        root.execute("UPDATE dp.turbo_sv SET threshold = threshold - 1e15")
        active = one(root, "SELECT count(*) FROM dp.turbo_sv WHERE threshold IS NOT NULL")
    assert active == 1
    again = charge(channel, request_id, document)
    assert again["answer"]["notice"]["path"] == "noise after FAIL"
    with cluster.connect() as root:
        known = one(root, "SELECT count(*) FROM dp.ledger WHERE request_id = %s", request_id)
        assert (known, one(root, "SELECT count(*) FROM dp.ledger WHERE mechanism = 'turbo hard'")) == (1, 1)
