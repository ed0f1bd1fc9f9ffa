"""The server dies while Turbo answers: what a client saw was committed, no epoch outlives its FAIL (turbo.md §11)."""

from __future__ import annotations

import threading
from typing import Any

import psycopg

from fix_cluster import standard_cluster
from fix_ledger import balanced, one
from fix_waiting import soon

ROWS = 20_000
SETUP = f"""
CREATE TABLE falling (a int, b int);
INSERT INTO falling SELECT i % 8, CASE WHEN i % 10 = 0 THEN 1 ELSE 0 END FROM generate_series(1, {ROWS}) i;
CALL dp.create_dataset('falling', epsilon => 100);
CALL dp.protect('falling', 'falling', scale => {ROWS});
CALL dp.describe_column('falling', 'a', bounds => '{{0,7}}', nullable => false);
CALL dp.describe_column('falling', 'b', bounds => '{{0,1}}', nullable => false);
CALL dp.publish('falling');
CALL dp.allot('alice', 'falling', epsilon => 100);
CALL dp.enable_turbo('falling', '{{a,b}}', 0.05, 0.001, planner => 'turbo',
  settings => '{{"c0": 0, "s0": 1, "learning_rates": [0.1]}}');
"""
QUESTIONS = [f"a {op} {n}{rest}" for op in ("=", "<", ">") for n in range(1, 7) for rest in ("", " AND b = 1")]
ASK = "SELECT dp.dp_query(dp.dp_count_request('falling', %s, alpha => 0.05, beta => 0.001))"
EPOCH = "SELECT epoch, threshold IS NOT NULL FROM dp.turbo_sv"


def test_the_server_dies_while_clients_ask() -> None:
    with standard_cluster() as cluster:
        cluster.psql(SETUP, user="boss")
        seen: dict[str, Any] = {}
        answers: list[str] = []

        def client(number: int) -> None:
            try:
                with cluster.connect("alice") as alice:
                    for i in range(1000):
                        question = QUESTIONS[(number * 11 + i * 5) % len(QUESTIONS)]
                        try:
                            answer = one(alice, ASK, question)
                        except psycopg.Error as error:
                            if error.sqlstate != "DP006" or alice.closed:
                                raise
                            continue  # a stall of the machine that the channel does not wait for
                        if answer["notice"]["path"] != "histogram (PASS)":
                            seen[question] = answer["rows"]
                        answers.append(answer["notice"]["path"])
            except psycopg.Error:
                return  # the server is gone

        for _ in range(3):
            threads = [threading.Thread(target=client, args=(n,)) for n in range(4)]
            for thread in threads:
                thread.start()
            begun = len(answers)
            assert soon(lambda begun=begun: len(answers) >= begun + 150 and seen)
            cluster.stop("immediate")
            for thread in threads:
                thread.join()
            cluster.start()
            balanced(cluster)
            with cluster.connect() as root:
                epoch, active = root.execute(EPOCH).fetchall()[0]
                paid = dict(root.execute("SELECT mechanism, count(*) FROM dp.ledger GROUP BY 1").fetchall())
            assert paid.get("turbo epoch", 0) == epoch
            assert paid.get("turbo hard", 0) == epoch - active
        assert seen
        with cluster.connect("alice") as alice:
            for question, rows in seen.items():
                again = one(alice, ASK, question)
                assert (again["notice"]["path"], again["rows"]) == ("exact", rows)
