"""Record and replay of dp_explain_difference on neighbouring databases, as test_replay.py does it for other questions.

Deterministic: the outputs on D are frozen on each neighbour, so the false-alarm probability is 0 whatever the noise. A
large constant is added to every difference, so that none of them "may be noise".
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import psycopg
import pytest

from fix_cluster import Cluster
from fix_privacy import HERE, audit_cluster, tapped
from privacy.neighbours import additions, removals
from privacy.replay import ATTEMPTS, Question, Session, compare, requests, run, tightness

A, B = "alice", "bob"


def why(first: int, call: str, more: str) -> str:
    """An explanation of the release of the session's question of that number."""
    return f"dp_explain_difference({call}, {more}, release => '{uuid.uuid5(uuid.NAMESPACE_URL, str(first))}')"


STAGES = "'{red,green}', '{1,-1}', -1e6"
FEW = "attributes => '{ward,insured}'"
OWN = "predicates => ARRAY['age > 40 OR insured', 'age < 60', 'ward = ''north''']"
RATIO = "groups => '{red,green}', expression => 'o1 / o2'"
ABOVE = "groups => '{amber,red,green}', expression => 'o2 - o3 / 2 + 1000000'"
SKUS = "'{s1,s2}', '{1,-1}', -1e6"
SALES = "groups => '{s1,s2}', expression => 'o1 / (o1 + o2)'"
CELLS = "method => 'cells', rho => 0.05"
SESSIONS: dict[str, list[Question]] = {
    "pay": [
        (A, "direct", "dp_group_by('audit.pay', '{stage}', '{count(*),avg(age),sum(age)}', epsilon => 1)"),
        (A, "direct", why(0, STAGES, "k => 3, epsilon => 1")),
        (A, "cache", why(0, STAGES, "k => 3, epsilon => 1")),
        (A, "direct", why(0, STAGES, "aggregate => 2, k => 2, epsilon => 1")),
        (A, "direct", why(0, STAGES, "aggregate => 3, k => 3, l => 2, epsilon => 0.5")),
        (A, "direct", why(0, STAGES, f"k => 2, l => 2, up_to => true, epsilon => 1, {FEW}")),
        (A, "direct", why(0, "'{red,green,amber}', '{2,-1,0}', -1e6", f"aggregate => 2, epsilon => 1, {FEW}")),
        (A, "direct", why(0, STAGES, f"aggregate => 2, k => 2, epsilon => 1, {OWN}")),
        (A, "DP005", why(0, STAGES, f"k => 40, epsilon => 1, {FEW}")),
        (A, "DP005", why(0, "'{red,green}', '{1,-1}', 1e6", "epsilon => 1")),
        (A, "DP001", why(0, STAGES, "epsilon => 50")),
        (B, "42501", why(0, STAGES, "epsilon => 1")),
        (A, "direct", "dp_group_by('audit.pay', '{stage,insured}', '{count(*)}', 'age < 70', epsilon => 0.5)"),
        (A, "direct", why(12, "'{{red,t},{green,NULL}}', '{1,-1}', -1e6", "k => 4, epsilon => 1")),
    ],
    "far": [
        (A, "direct", "dp_group_by('audit.far', '{stage}', '{count(*),avg(age),sum(age)}', epsilon => 10)"),
        (A, "direct", why(0, RATIO, f"k => 1, epsilon => 6, anyway => true, {FEW}")),
        (A, "cache", why(0, RATIO, f"k => 1, epsilon => 6, anyway => true, {FEW}")),
        (A, "direct", why(0, RATIO, f"aggregate => 2, k => 1, epsilon => 8, anyway => true, {FEW}")),
        (A, "direct", why(0, ABOVE, f"aggregate => 3, k => 2, epsilon => 6, {FEW}")),
        (A, "direct", why(0, ABOVE, f"aggregate => 2, k => 2, l => 2, epsilon => 20, {FEW}")),
        (A, "direct", why(0, RATIO, f"aggregate => 3, k => 2, epsilon => 0.5, anyway => true, {OWN}")),
        (A, "DP003", why(0, "groups => '{red,green}', expression => 'ln(o1)'", "anyway => true, epsilon => 1")),
    ],
    "crowd": [
        (A, "direct", "dp_group_by('audit.crowd', '{stage}', '{count(*),sum(age)}', epsilon => 40)"),
        (A, "direct", why(0, RATIO, f"k => 1, epsilon => 4.5, anyway => true, {FEW}")),
        (A, "direct", why(0, RATIO, f"aggregate => 2, k => 2, epsilon => 9, anyway => true, {FEW}")),
    ],
    "trade": [
        (
            A,
            "direct",
            "dp_group_by('audit.line', '{sku}', '{count(*),sum(price)}', epsilon => 2, mechanism => 'laplace')",
        ),
        (A, "direct", why(0, SKUS, "k => 3, epsilon => 2")),
        (A, "direct", why(0, SKUS, "aggregate => 2, k => 2, epsilon => 2, attributes => '{qty}'")),
        (A, "direct", why(0, SKUS, "k => 1, epsilon => 2, predicates => ARRAY['qty > 1', 'price >= 2 OR qty = 0']")),
        (A, "direct", why(0, SALES, "aggregate => 2, k => 2, epsilon => 2, anyway => true, attributes => '{qty}'")),
    ],
    "lab": [
        (A, "direct", "dp_group_by('audit.sample', '{lab}', '{count(*),avg(batch)}', rho => 0.02)"),
        (A, "direct", why(0, "'{a,b}', '{1,-1}', -1e6", "k => 2, rho => 0.05, attributes => '{batch}'")),
        (A, "direct", why(0, "'{a,b}', '{1,-1}', -1e6", "k => 2, epsilon => 0.3, attributes => '{batch}'")),
        (A, "direct", why(0, "'{a,b}', '{1,-1}', -1e6", f"k => 2, {CELLS}, attributes => '{{batch}}'")),
        (A, "cache", why(0, "'{b,a}', '{1,-2}', -1e6", f"k => 3, {CELLS}, attributes => '{{batch}}'")),
        (A, "direct", why(0, "'{a,b}', '{1,-1}', -1e6", f"aggregate => 2, k => 2, {CELLS}, attributes => '{{batch}}'")),
        (A, "cache", why(0, "'{b,a}', '{3,-1}', -1e6", f"aggregate => 2, k => 4, {CELLS}, attributes => '{{batch}}'")),
    ],
    "web": [
        (
            A,
            "direct",
            "dp_group_by('audit.event', '{kind}', '{count(*),sum(size),avg(size)}', rho => 0.02,"
            " mechanism => 'gaussian')",
        ),
        (
            A,
            "direct",
            why(0, "'{k1,k2}', '{1,-1}', -1e9", "aggregate => 2, k => 2, rho => 0.05, attributes => '{size}'"),
        ),
        (A, "direct", why(0, "'{k1,k2}', '{1,-1}', -1e9", f"aggregate => 2, {CELLS}, attributes => '{{size}}'")),
        (A, "cache", why(0, "'{k2,k1}', '{1,-1}', -1e9", f"aggregate => 2, k => 2, {CELLS}, attributes => '{{size}}'")),
        (A, "direct", why(0, "'{k1,k2}', '{1,-1}', -1e9", f"aggregate => 3, {CELLS}, attributes => '{{size}}'")),
        (A, "cache", why(0, "'{k2,k1}', '{1,-1}', -1e9", f"aggregate => 3, k => 2, {CELLS}, attributes => '{{size}}'")),
    ],
}
# Rows so many that distances are told apart, and a budget of which they are short.
FAR = """
SET search_path = audit, public;
CREATE TABLE far (id int PRIMARY KEY, stage text, ward text, insured boolean, age int);
INSERT INTO far SELECT i, CASE WHEN i <= 161 THEN 'red' WHEN i <= 231 THEN 'green' ELSE 'amber' END,
  CASE WHEN i % 4 < CASE WHEN i <= 161 THEN 3 ELSE 1 END THEN 'north' WHEN i % 4 = 3 THEN 'south' END,
  i * i % 5 < 2, CASE WHEN i <= 161 AND i % 4 < 3 THEN 90 ELSE 20 + i * 7 % 60 END FROM generate_series(1, 240) i;
INSERT INTO far VALUES (241, 'amber', 'elsewhere', NULL, 2147483647), (242, 'green', 'north', true, NULL),
  (243, NULL, '', false, -5);
CALL dp.create_dataset('far', unit => 'row', epsilon => 100);
CALL dp.protect('far', 'far', max_rows => 1000);
CALL dp.describe_column('far', 'stage', domain => '{red,green,amber}', nullable => false);
CALL dp.describe_column('far', 'ward', domain => '{north,south}');
CALL dp.describe_column('far', 'insured');
CALL dp.describe_column('far', 'age', bounds => '{0,120}');
CALL dp.publish('far'); CALL dp.allot('alice', 'far', epsilon => 100);
"""
# Users of thirty rows that are alike, because a distance counts several rows of a quotient as one; the first has more.
CROWD = """
CREATE TABLE crowd (id int PRIMARY KEY, who int, stage text, ward text, insured boolean, age int);
INSERT INTO crowd SELECT 30 * u + i, u, CASE WHEN u <= 6 THEN 'red' WHEN u <= 11 THEN 'green' ELSE 'amber' END,
  CASE WHEN u % 4 < CASE WHEN u <= 6 THEN 3 ELSE 1 END THEN 'north' WHEN u % 4 = 3 THEN 'south' END,
  u * u % 5 < 2, 20 + u * 7 % 60 FROM generate_series(1, 12) u, generate_series(1, 30) i;
INSERT INTO crowd SELECT 600 + i, 1, 'red', 'north', true, 50 FROM generate_series(1, 9) i;
INSERT INTO crowd VALUES (700, NULL, 'red', 'south', NULL, NULL), (701, 61, NULL, '', NULL, 2147483647);
CALL dp.create_dataset('crowd', unit => 'user', epsilon => 100);
CALL dp.protect('crowd', 'crowd', unit_column => 'who', max_rows_per_unit => 30, max_rows => 1000);
CALL dp.describe_column('crowd', 'stage', domain => '{red,green,amber}', nullable => false);
CALL dp.describe_column('crowd', 'ward', domain => '{north,south}');
CALL dp.describe_column('crowd', 'insured');
CALL dp.describe_column('crowd', 'age', bounds => '{0,120}');
CALL dp.publish('crowd'); CALL dp.allot('alice', 'crowd', epsilon => 100);
"""
# What each control is seen by: the places of those questions in the session, after the first.
CAUGHT = [
    ("pay", "unclamped_values", "sensitivity", 3),
    ("pay", "predicates_with_rows", "draws", 1),
    ("pay", "every_comparison_spends_all", "price", 1),
    ("pay", "printed_loop", "price", 1),
    ("pay", "picks_with_little_noise", "sensitivity", 1),
    ("pay", "draws_twice", "price", 1),
    ("pay", "true_order", "answers", 1),
    ("trade", "one_row_a_user", "sensitivity", 1),
    ("trade", "every_row_counts", "sensitivity", 1),
    ("lab", "every_comparison_spends_all", "price", 1),
    ("lab", "one_set_of_several", "sensitivity", 3),
    ("web", "one_row_a_user", "sensitivity", 2),
    ("web", "cells_twice", "price", 2),
    ("lab", "one_number_of_a_pair", "sensitivity", 5),
    ("web", "one_row_a_user", "sensitivity", 4),
    ("far", "limits_that_are_not_nested", "sensitivity", 1),
    ("far", "printed_loop", "price", 1),
    ("crowd", "one_row_a_user", "sensitivity", 1),
    ("lab", "groups_from_data", "sensitivity", 1),
    ("pay", "rates_for_scales", "price", 1),
]


@pytest.fixture(scope="module")
def conn() -> Iterator[psycopg.Connection[Any]]:
    with audit_cluster() as cluster:
        cluster.psql(FAR + CROWD, user="boss")
        yield from _tapped(cluster)


def _tapped(cluster: Cluster) -> Iterator[psycopg.Connection[Any]]:
    with tapped(cluster) as tapped_conn:
        source = (HERE / "broken_explain.py").read_text()
        tapped_conn.execute("SELECT tap.load('privacy_controls', %s)", (source,))
        tapped_conn.commit()
        yield tapped_conn


@pytest.fixture(scope="module")
def asked(conn: psycopg.Connection[Any]) -> dict[str, list[tuple[Question, str]]]:
    return {dataset: requests(conn, questions) for dataset, questions in SESSIONS.items()}


@pytest.fixture(scope="module")
def recorded(conn: psycopg.Connection[Any], asked: dict[str, Any]) -> dict[str, Session]:
    return {dataset: run(conn, dataset, asked[dataset]) for dataset in SESSIONS}


def violations(
    conn: psycopg.Connection[Any], dataset: str, asked: Any, record: Session, *controls: str, planned: bool = True
) -> Iterator[str]:
    row = conn.execute("SELECT orders::float8[], epsilon::text FROM dp.dataset WHERE name = %s", (dataset,)).fetchone()
    assert row is not None
    some = additions(conn, dataset)[:: 4 if dataset in ("pay", "far") else 1]
    for neighbour in removals(conn, dataset, 2, seed=20261128) + some:
        replay = run(
            conn, dataset, asked, neighbour=neighbour, frozen=record.outputs, controls=controls, planned=planned
        )
        for problem in compare(record, replay, neighbour.accounts, row[0] or [], Fraction(row[1])):
            yield f"{neighbour.name}: {problem}"


@pytest.mark.parametrize("dataset", SESSIONS)
def test_explanations_go_where_they_say(recorded: dict[str, Session], dataset: str) -> None:
    for step in recorded[dataset].steps:
        reply = json.loads(step.reply)
        outcome = reply["refusal"]["sqlstate"] if "refusal" in reply else reply["answer"]["notice"]["path"]
        assert (outcome, step.question[2]) == step.question[1:], reply


@pytest.mark.parametrize("dataset", SESSIONS)
def test_a_unit_changes_exact_values_only(
    conn: psycopg.Connection[Any], asked: dict[str, Any], recorded: dict[str, Session], dataset: str
) -> None:
    """Same draws, statements, answers and accounts; losses within the charge, for units removed and added."""
    assert list(violations(conn, dataset, asked[dataset], recorded[dataset])) == []


def test_a_unit_reaches_the_charge(
    conn: psycopg.Connection[Any], asked: dict[str, Any], recorded: dict[str, Session]
) -> None:
    """The audit has teeth: a row that comes realises more than an eighth of what was charged for it."""
    shares: list[Fraction] = []
    for neighbour in additions(conn, "pay"):
        replay = run(conn, "pay", asked["pay"], neighbour=neighbour, frozen=recorded["pay"].outputs)
        shares += tightness(recorded["pay"], replay, neighbour.accounts).values()
    assert Fraction(1, 8) < max(shares) <= 1


@pytest.mark.parametrize(("dataset", "control", "rule", "place"), CAUGHT, ids=["-".join(one[:3]) for one in CAUGHT])
def test_a_broken_explanation_is_caught(
    conn: psycopg.Connection[Any], asked: dict[str, Any], dataset: str, control: str, rule: str, place: int
) -> None:
    """Each control breaks one rule, on D and on its neighbours alike, and is caught by the rule that it breaks."""
    own = [asked[dataset][0], asked[dataset][place]]

    def found() -> Iterator[str]:
        record = run(conn, dataset, own, controls=[control], planned=False)
        yield from violations(conn, dataset, own, record, control, planned=False)

    assert any(f": {rule}: " in problem for _ in range(ATTEMPTS) for problem in found())
