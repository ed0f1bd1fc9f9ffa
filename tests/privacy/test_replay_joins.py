"""Record and replay for rows of several units, in the installed engine: edges, paths, triangles, distinct counts.

As test_replay.py, on a graph of 26 vertices whose unit is a vertex: without a vertex and all its edges, and with one
that has an edge to every other (the largest legal unit). Deterministic: the false-alarm probability is 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import psycopg
import pytest

from fix_cluster import ROLES, private_cluster
from fix_privacy import tapped
from fix_tpch import load_graph, power_law_graph
from privacy.broken_joins import CONTROLS, RULES
from privacy.neighbours import Neighbour
from privacy.replay import Session, compare, requests, run, tightness

VERTICES = 26
TRIANGLE = (
    "'e1.to_id = e2.from_id AND e2.to_id = e3.to_id AND e1.from_id = e3.from_id AND e1.from_id < e1.to_id"
    " AND e2.from_id < e2.to_id', joins => '{edge,edge}', aliases => '{e1,e2,e3}'"
)
PATH = "'e1.to_id = e2.from_id AND e1.from_id < e2.to_id', joins => '{edge}', aliases => '{e1,e2}'"
SMALL = "lower => 0, upper => 3, resolution => 1, max_contribution => 40"
ASKED = [
    ("alice", "direct", "dp_count('edge', 'from_id < to_id', epsilon => 0.5)"),
    ("alice", "cache", "dp_count('edge', 'from_id < to_id', epsilon => 0.5)"),
    ("alice", "direct", f"dp_count('edge', {PATH}, epsilon => 0.5)"),
    ("alice", "direct", f"dp_count('edge', {TRIANGLE}, epsilon => 1)"),
    ("alice", "direct", f"dp_sum('edge', 'from_id', 'from_id < to_id', {SMALL}, epsilon => 0.5)"),
    ("alice", "direct", f"dp_sum_r2t('edge', 'to_id', 'from_id > to_id', {SMALL}, base => 5.5, epsilon => 0.5)"),
    ("alice", "direct", "dp_estimate('edge', 'count(DISTINCT from_id)', 'from_id > 3', epsilon => 0.5)"),
    ("alice", "direct", "dp_estimate('edge', 'count(DISTINCT (from_id, to_id))', 'from_id > 2', epsilon => 0.5)"),
    (
        "alice",
        "direct",
        "dp_estimate('edge', 'count(*) FILTER (WHERE from_id > 9)', 'from_id < to_id', epsilon => 0.5)",
    ),
    ("alice", "DP003", "dp_group_by('edge', '{}', '{count(*),count(from_id)}', epsilon => 0.5)"),
    ("alice", "DP005", "dp_count('edge', mechanism => 'laplace', epsilon => 0.5)"),
]


@pytest.fixture(scope="module")
def conn() -> Iterator[psycopg.Connection[Any]]:
    with private_cluster() as cluster:
        cluster.psql(ROLES)
        load_graph(cluster, power_law_graph(VERTICES, 60, 5))
        cluster.execute("UPDATE dp.relation_policy SET max_rows_per_unit = 16 WHERE relation = 'edge'::regclass")
        with tapped(cluster) as connection:
            source = (Path(__file__).parent / "broken_joins.py").read_text()
            connection.execute("SELECT tap.load('privacy_controls', %s)", (source,))
            connection.commit()
            yield connection


def neighbours() -> Iterator[Neighbour]:
    for vertex in range(1, VERTICES + 1, 2):
        gone = f"DELETE FROM edge WHERE {vertex} IN (from_id, to_id)", f"DELETE FROM node WHERE id = {vertex}"
        yield Neighbour(f"without {vertex}", gone, frozenset({()}))
    new = "INSERT INTO node VALUES (99)", "INSERT INTO edge SELECT 99, id FROM node WHERE id < 99"
    both = "INSERT INTO edge SELECT id, 99 FROM node WHERE id < 99"
    yield Neighbour("with one that knows everybody", (*new, both), frozenset({()}))
    yield Neighbour("with one that nobody knows", (new[0],), frozenset({()}))


def violations(
    conn: psycopg.Connection[Any], record: Session, asked: list[Any], neighbour: Neighbour, *controls: str
) -> list[str]:
    replay = run(
        conn, "graph", asked, neighbour=neighbour, frozen=record.outputs, controls=controls, planned=not controls
    )
    return compare(record, replay, neighbour.accounts, [], Fraction(1000))


def test_a_vertex_changes_exact_values_only(conn: psycopg.Connection[Any]) -> None:
    """No violation of replay.py, and to some vertex the calls lose a good part of their charge: the audit has teeth."""
    asked = requests(conn, ASKED)
    record = run(conn, "graph", asked)
    outcomes = []
    for step in record.steps:
        assert f'"{step.question[1]}"' in step.reply, step.reply
        outcomes.append(step.question[1])
    assert outcomes.count("direct") == 8
    shares: dict[str, Fraction] = {}
    for neighbour in neighbours():
        replay = run(conn, "graph", asked, neighbour=neighbour, frozen=record.outputs)
        assert compare(record, replay, neighbour.accounts, [], Fraction(1000)) == [], neighbour.name
        for call, share in tightness(record, replay, neighbour.accounts).items():
            shares[call] = max(shares.get(call, Fraction(0)), share)
    assert min(shares.values()) > Fraction(1, 5)
    assert max(shares.values()) > Fraction(4, 5)


@pytest.mark.parametrize("name", CONTROLS)
def test_a_broken_engine_is_caught(conn: psycopg.Connection[Any], name: str) -> None:
    """Negative controls: on some neighbour, the rule that the engine breaks."""
    asked = requests(conn, ASKED)
    record = run(conn, "graph", asked, controls=[name], planned=False)
    found = (problem for n in list(neighbours())[::4] for problem in violations(conn, record, asked, n, name))
    assert any(problem.startswith(RULES[name]) for problem in found)
