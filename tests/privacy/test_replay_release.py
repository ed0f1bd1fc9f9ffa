"""Record and replay of dp_release_numeric on neighbouring databases, as test_replay.py does it for single questions.

Deterministic: the outputs on D are frozen on each neighbour, so the false-alarm probability is 0 whatever the noise.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from datetime import date, timedelta
from fractions import Fraction
from typing import Any

import psycopg
import pytest

from fix_privacy import HERE, audit_cluster, tapped
from privacy.neighbours import additions, removals
from privacy.replay import ATTEMPTS, Question, Session, compare, requests, run, tightness

A = "alice"
SIGNED = "CASE WHEN insured THEN age ELSE 0 - age END"


def asked_of(query: str, grid: str, budget: str) -> str:
    name = f"f{zlib.crc32(query.encode())}"  # one name, one query
    return f"dp_release_numeric('{name}', $q${query}$q$, $g${grid}$g$, {budget})"


ITERATED = "epsilon => 1, mechanism => 'alg2'"
IN_BITS = """epsilon => 0.05, mechanism => 'alg2', options => '{"decomposition": "bits", "rounds": 2}'"""
BY_BITS = "SELECT sum(age) FROM audit.pay WHERE ward IN ($1, 'zz')"
IN_ROUNDS = """epsilon => 0.25, mechanism => 'alg2', options => '{"rounds": 2}'"""
EXACT = """epsilon => 0.25, mechanism => 'alg2', options => '{"decomposition": "none"}'"""
SINGLY = "epsilon => 1, mechanism => 'composition'"
NORMALISED = "epsilon => 0.25, mechanism => 'normalisation'"
GLOBAL = "epsilon => 0.25, mechanism => 'global'"
RANGED = "epsilon => 1, mechanism => 'range'"
RANGED_BY_RHO = "rho => 0.05, mechanism => 'range'"
BY_MATRIX = """epsilon => 0.5, mechanism => 'range', options => '{"strategy": "matrix"}'"""
BY_MATRIX_AND_RHO = BY_MATRIX.replace("epsilon => 0.5", "rho => 0.02")
BY_DAY = "SELECT sum(age) FROM audit.pay WHERE day >= $1 AND day < $2 AND insured"
VISITS = BY_DAY.replace("audit.pay", "audit.visit").replace("insured", "NOT insured")
SIGNED_BY_WARD = f"SELECT sum({SIGNED}) FROM audit.pay WHERE ward = $1"
SIGNED_BY_STAGE = f"SELECT sum({SIGNED}) FROM audit.pay WHERE stage = $1"
SPREAD = "SELECT variance(age) FROM audit.pay WHERE insured = $1 AND stage <> 'amber'"
AGES = "SELECT sum(age) FROM audit.pay WHERE stage = $1 AND NOT insured"
ALL = "SELECT count(*) FROM audit.pay WHERE stage IN ($1, 'red', 'amber', 'green')"
BY_WARD = "SELECT sum(age) FROM audit.pay WHERE ward = $1 AND stage <> $2"
BY_CHARGE = "SELECT sum(charge::int - 100 + age) FROM audit.pay WHERE charge >= $1"  # each class has an end of its own
HALF = "CASE lab WHEN $1 THEN 1 ELSE 0.5 END"  # a weight
BY_STAGE = "SELECT sum(age) FROM audit.pay WHERE stage = $1 AND insured = $2"
# delta buys something from about 30 rounds or queries on
WEEKS = [date(2024, 1, 1) + timedelta(weeks=number) for number in range(9)]
GRID = "{" + ",".join(f"{{{one},{two}}}" for one in WEEKS for two in WEEKS if one < two) + "}"
BY_WEEK = "SELECT count(*) FROM audit.visit WHERE day >= $1 AND day < $2"
SINGLY_BY_DELTA = "epsilon => 1, delta => 2e-6, mechanism => 'composition'"
IN_ROUNDS_BY_DELTA = """epsilon => 1, delta => 2e-6, mechanism => 'alg2', options => '{"rounds": 32}'"""
FITTED_BY_DELTA = """epsilon => 1, delta => 2e-6, mechanism => 'global', options => '{"rounds": 32}'"""
FEW_BY_DELTA = """epsilon => 0.5, delta => 2e-6, mechanism => 'alg2', options => '{"rounds": 2}'"""
SESSIONS: dict[str, list[Question]] = {
    "pay": [
        (A, "direct", asked_of(BY_STAGE, "{{red,t},{green,f}}", "epsilon => 1")),
        (A, "cache", asked_of(BY_STAGE, "{{amber,t}}", "epsilon => 1")),
        (A, "direct", asked_of("SELECT count(*) FROM audit.pay WHERE day >= $1", "{2024-01-08}", "epsilon => 0.5")),
        (A, "direct", asked_of(f"SELECT sum({SIGNED}) FROM audit.pay WHERE ward <> $1", "{north}", "epsilon => 1")),
        (A, "cache", asked_of(BY_STAGE.replace("sum", "avg"), "{{red,t},{amber,f}}", "epsilon => 1")),
        (A, "direct", asked_of("SELECT count(age) FROM audit.pay WHERE stage IN ($1)", "{red}", "epsilon => 0.5")),
        (A, "direct", asked_of("SELECT sum(age) FROM audit.pay WHERE stage = $1 AND insured", "{red}", "epsilon => 1")),
        (A, "direct", asked_of("SELECT sum(age) FROM audit.unpaid WHERE stage = $1", "{red}", "epsilon => 1")),
        (A, "family", "dp_sum('audit.pay', 'age', $q$stage <> 'red' AND insured$q$, epsilon => 0.1)"),
        (A, "DP005", asked_of("SELECT sum(age) FROM audit.pay WHERE day >= $1", "{2024-01-09}", "epsilon => 1")),
        (A, "DP004", asked_of("SELECT sum(score) FROM audit.pay WHERE stage = $1", "{red}", "epsilon => 1")),
        (A, "DP001", asked_of("SELECT sum(age) FROM audit.pay WHERE ward = $1", "{north}", "epsilon => 50")),
        (A, "direct", asked_of(BY_WARD, "{{north,red},{south,red}}", ITERATED)),
        (A, "cache", asked_of(BY_WARD, "{{south,red},{north,red}}", ITERATED)),
        (A, "direct", asked_of("SELECT count(*) FROM audit.pay WHERE stage = $1", "{red,amber}", ITERATED)),
        (A, "direct", asked_of(ALL, "{red}", ITERATED)),
        (A, "family", "dp_sum('audit.pay', 'age', $q$ward = 'north' AND stage <> 'red'$q$, epsilon => 0.1)"),
        (A, "direct", asked_of(SIGNED_BY_WARD, "{north,south}", SINGLY)),
        (A, "cache", asked_of(SIGNED_BY_WARD, "{south,north}", SINGLY)),
        (A, "direct", asked_of("SELECT count(*) FROM audit.pay WHERE ward = $1 AND insured", "{north}", SINGLY)),
        (A, "family", "dp_count('audit.pay', $q$ward = 'north' AND insured$q$, epsilon => 0.1)"),
        (A, "direct", asked_of(SIGNED_BY_STAGE, "{red,green}", NORMALISED)),
        (A, "cache", asked_of(SIGNED_BY_STAGE, "{green,red}", NORMALISED)),
        (A, "direct", asked_of("SELECT count(*) FROM audit.pay WHERE stage <> $1", "{red,amber}", NORMALISED)),
        (A, "direct", asked_of(AGES, "{red,amber,green}", GLOBAL)),
        (A, "family", "dp_sum('audit.pay', 'age', $q$stage = 'red' AND NOT insured$q$, epsilon => 0.1)"),
        (A, "direct", asked_of(BY_DAY, "{{2024-01-01,2024-04-01},{2024-01-08,2024-03-25}}", RANGED)),
        (A, "cache", asked_of(BY_DAY, "{{2024-01-01,2024-03-25}}", RANGED)),
        (A, "family", "dp_count('audit.pay', $q$day < '2024-02-12' AND insured$q$, epsilon => 0.1)"),
        (A, "DP003", asked_of("SELECT count(*) FROM audit.pay WHERE ward <> $1", "{south}", RANGED)),
        (A, "direct", asked_of(BY_CHARGE, "{0,200}", "epsilon => 0.1")),
        (A, "family", "dp_sum('audit.pay', 'charge::int - 100 + age', 'charge < 200', epsilon => 0.1)"),
        (A, "direct", asked_of(SPREAD, "{t,f}", "epsilon => 0.1")),
        (A, "cache", asked_of(SPREAD.replace("variance", "stddev_pop"), "{f}", "epsilon => 0.1")),
        (A, "family", "dp_avg('audit.pay', 'age', $q$stage <> 'amber' AND insured$q$, epsilon => 0.1)"),
        (A, "direct", asked_of(BY_BITS, "{north,south}", IN_BITS)),
        (A, "cache", asked_of(BY_BITS, "{south,north}", IN_BITS)),
    ],
    "clinic": [
        (A, "direct", asked_of(BY_WEEK, GRID, SINGLY_BY_DELTA)),
        (A, "direct", asked_of(BY_WEEK + " AND stage IN ('red')", GRID, IN_ROUNDS_BY_DELTA)),
        (A, "cache", asked_of(BY_WEEK + " AND stage IN ('red')", GRID, IN_ROUNDS_BY_DELTA)),
        (A, "direct", asked_of(BY_WEEK + " AND insured", GRID, FITTED_BY_DELTA)),
        (A, "direct", asked_of(BY_WEEK + " AND NOT insured", GRID, FEW_BY_DELTA)),
        (A, "stopped", asked_of(BY_WEEK + " AND stage <> 'red'", GRID, IN_ROUNDS_BY_DELTA)),
        (A, "DP001", asked_of(BY_WEEK + " AND stage IN ('green')", GRID, IN_ROUNDS_BY_DELTA.replace("2e-6", "0.1"))),
        (A, "DP005", asked_of(BY_WEEK, GRID, "epsilon => 1, delta => 1e-6, mechanism => 'cells'")),
        (A, "direct", asked_of(VISITS, "{{2024-01-01,2024-04-01},{2024-01-08,2024-03-25}}", BY_MATRIX)),
        (A, "cache", asked_of(VISITS, "{{2024-01-08,2024-03-25},{2024-01-01,2024-04-01}}", BY_MATRIX)),
        (A, "family", "dp_count('audit.visit', $q$day < '2024-02-12' AND NOT insured$q$, epsilon => 0.1)"),
        (A, "DP005", asked_of("SELECT avg(age) FROM audit.visit WHERE day >= $1", "{2024-01-08}", BY_MATRIX)),
    ],
    "trade": [
        (A, "direct", asked_of("SELECT sum(price) FROM audit.line WHERE sku = $1", "{s1,s2}", "epsilon => 2")),
        (A, "direct", asked_of("SELECT count(*) FROM audit.line WHERE sku <> $1", "{s1}", "epsilon => 2")),
        (A, "direct", asked_of("SELECT sum(0 - qty) FROM audit.line WHERE sku = $1", "{s3}", "epsilon => 2")),
        (A, "DP004", asked_of("SELECT count(*) FROM audit.hit WHERE weight = $1", "{3}", "epsilon => 1")),
        (A, "direct", asked_of("SELECT sum(qty) FROM audit.line WHERE sku = $1", "{s1,s2,s3}", ITERATED)),
        (A, "direct", asked_of("SELECT sum(qty) FROM audit.line WHERE sku IN ($1)", "{s1,s2}", SINGLY)),
        (A, "direct", asked_of("SELECT count(*) FROM audit.line WHERE sku NOT IN ($1)", "{s9}", SINGLY)),
        (A, "direct", asked_of("SELECT sum(qty) FROM audit.line WHERE sku <> $1", "{s1,s2}", NORMALISED)),
        (A, "direct", asked_of("SELECT sum(0 - qty) FROM audit.line WHERE sku <> $1", "{s1,s2,s3}", GLOBAL)),
        (A, "direct", asked_of("SELECT count(*) FROM audit.deal WHERE id >= $1", "{0,40}", RANGED)),
        (A, "direct", asked_of("SELECT sum(qty) FROM audit.line WHERE sku NOT IN ($1)", "{s1,s2}", EXACT)),
        (A, "cache", asked_of("SELECT sum(qty) FROM audit.line WHERE sku NOT IN ($1)", "{s2,s1}", EXACT)),
        (
            A,
            "direct",
            asked_of("SELECT stddev(qty) FROM audit.line WHERE sku IN ($1, 's3')", "{s1,s2}", "epsilon => 0.25"),
        ),
    ],
    "lab": [
        (A, "direct", asked_of("SELECT sum(batch) FROM audit.sample WHERE lab = $1", "{a,b}", "rho => 0.02")),
        (A, "direct", asked_of("SELECT count(*) FROM audit.sample WHERE lab = $1", "{a}", "rho => 0.02")),
        (A, "direct", asked_of("SELECT sum(batch) FROM audit.sample WHERE lab IN ($1)", "{b}", ITERATED)),
        (A, "direct", asked_of("SELECT sum(batch) FROM audit.sample WHERE lab <> $1", "{a,b}", SINGLY)),
        (A, "direct", asked_of("SELECT sum(batch) FROM audit.sample WHERE lab NOT IN ($1)", "{a,b}", GLOBAL)),
        (A, "stopped", asked_of("SELECT count(*) FROM audit.sample WHERE lab NOT IN ($1)", "{a,b}", IN_ROUNDS)),
        (A, "cache", asked_of("SELECT count(*) FROM audit.sample WHERE lab NOT IN ($1)", "{b,a}", IN_ROUNDS)),
        (A, "cache", asked_of(f"SELECT sum({HALF} * batch) FROM audit.sample", "{a,b}", "rho => 0.02")),
        (A, "direct", asked_of(f"SELECT sum({HALF}) FROM audit.sample WHERE batch > 0", "{a,b}", "rho => 0.02")),
        (A, "DP005", asked_of("SELECT sum((1 + $1) * batch) FROM audit.sample WHERE lab = $2", "{{1,a}}", "rho => 1")),
        (A, "direct", asked_of(f"SELECT sum({HALF} * batch) FROM audit.sample WHERE batch > 1", "{a,b}", ITERATED)),
        (A, "direct", asked_of(f"SELECT sum({HALF} * batch) FROM audit.sample WHERE batch > 3", "{a,b}", SINGLY)),
        (A, "direct", asked_of(f"SELECT sum({HALF} * batch) FROM audit.sample WHERE batch > 4", "{a,b}", GLOBAL)),
        (A, "direct", asked_of(f"SELECT sum({HALF}) FROM audit.sample WHERE batch > 2", "{a,b}", SINGLY)),
        (A, "direct", asked_of("SELECT sum(batch) FROM audit.sample WHERE batch >= $1", "{0}", BY_MATRIX_AND_RHO)),
        (A, "cache", asked_of("SELECT sum(batch) FROM audit.sample WHERE batch >= $1", "{0}", BY_MATRIX_AND_RHO)),
    ],
    "web": [
        (A, "direct", asked_of("SELECT sum(size) FROM audit.event WHERE kind = $1", "{k1,k2}", "rho => 0.05")),
        (A, "direct", asked_of("SELECT count(*) FROM audit.event WHERE kind NOT IN ($1)", "{k3}", "rho => 0.05")),
        (A, "direct", asked_of("SELECT count(*) FROM audit.event WHERE size > $1", "{100,5}", RANGED_BY_RHO)),
    ],
}
# Of a dataset of many relations, the one that its session is about; rows of the others are test_replay.py's.
ASKED = {"clinic": "audit.visit"}
# More than a session has left: a threshold above 0 has to be likely where there are few rows.
DEAR = (A, "direct", asked_of(ALL.replace("count(*)", "sum(age)"), "{red}", SINGLY.replace("1,", "8,")))
# What each control is seen by: the place of that question in the session, or one by itself.
CAUGHT: list[tuple[str, str, str, int | Question]] = [
    ("pay", "whole_at_both_steps", "sensitivity", 0),
    ("pay", "cells_with_rows_alone", "draws", 0),
    ("trade", "one_row_a_user", "sensitivity", 0),
    ("trade", "every_row_counts", "sensitivity", 1),
    ("web", "one_row_a_user", "sensitivity", 0),
    ("trade", "one_row_a_user", "sensitivity", 4),
    ("pay", "exact_scale", "statements", 12),
    ("pay", "exact_error", "statements", 15),
    ("pay", "rows_twice_in_the_rounds", "sensitivity", 12),
    ("pay", "epsilon_for_each_query", "price", 17),
    ("pay", "a_row_without_its_mass", "sensitivity", 17),
    ("pay", "sums_that_are_not_cut", "sensitivity", DEAR),
    ("trade", "one_row_a_user", "sensitivity", 6),
    ("pay", "exact_scale", "statements", 21),
    ("pay", "rows_twice_in_the_rounds", "sensitivity", 21),
    ("pay", "values_that_are_not_divided", "sensitivity", 21),
    ("trade", "one_row_a_user", "sensitivity", 7),
    ("pay", "values_beyond_the_bound", "sensitivity", 24),
    ("pay", "exact_bound", "statements", 24),
    ("pay", "a_bound_for_nothing", "price", 24),
    ("trade", "one_row_a_user", "sensitivity", 8),
    ("pay", "one_level_of_noise", "sensitivity", 26),
    ("pay", "nodes_that_overlap", "sensitivity", 26),
    ("pay", "cells_with_rows_alone", "draws", 26),
    ("trade", "one_row_a_user", "sensitivity", 9),
    ("web", "one_level_of_noise", "sensitivity", 2),
    ("trade", "one_row_a_user", "sensitivity", 10),
    ("trade", "rows_twice_in_the_rounds", "sensitivity", 10),
    ("pay", "a_row_beyond_counts_twice", "sensitivity", 30),
    ("pay", "cells_with_rows_alone", "draws", 30),
    ("pay", "cells_with_rows_alone", "draws", 32),
    ("pay", "points_beside_each_other", "sensitivity", 32),
    ("pay", "one_bit_a_row", "sensitivity", 35),
    ("trade", "one_row_a_user", "sensitivity", 12),
    ("trade", "every_row_counts", "sensitivity", 12),
    ("lab", "a_round_too_much_comes_back", "price", 5),
    ("lab", "rows_twice_in_the_rounds", "sensitivity", 5),
    ("clinic", "delta_for_nothing", "price", 0),
    ("clinic", "delta_for_nothing", "price", 1),
    ("clinic", "delta_for_nothing", "price", 3),
    ("clinic", "ten_times_the_delta", "price", 1),
    ("lab", "more_rounds_than_there_are", "price", 2),
    ("lab", "more_rounds_than_there_are", "price", 3),
    ("lab", "more_rounds_than_there_are", "price", 5),
    ("lab", "weights_beyond_one", "sensitivity", 11),
    ("lab", "weights_beyond_one", "sensitivity", 13),
    ("lab", "rows_twice_in_the_rounds", "sensitivity", 10),
    ("clinic", "one_unit_of_a_matrix", "sensitivity", 8),
    ("clinic", "rows_of_a_matrix_twice", "sensitivity", 8),
    ("clinic", "cells_with_rows_alone", "draws", 8),
    ("lab", "one_unit_of_a_matrix", "sensitivity", 14),
]


@pytest.fixture(scope="module")
def conn() -> Iterator[psycopg.Connection[Any]]:
    with audit_cluster() as cluster, tapped(cluster) as tapped_conn:
        source = (HERE / "broken_release.py").read_text()
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
    conn: psycopg.Connection[Any], dataset: str, asked: Any, record: Session, *controls: str
) -> Iterator[str]:
    row = conn.execute("SELECT orders::float8[], epsilon::text FROM dp.dataset WHERE name = %s", (dataset,)).fetchone()
    assert row is not None
    for neighbour in removals(conn, dataset, 2, seed=20261128) + additions(conn, dataset)[::4]:
        if (ASKED.get(dataset, ""),) not in neighbour.accounts | {("",)}:
            continue
        replay = run(conn, dataset, asked, neighbour=neighbour, frozen=record.outputs, controls=controls)
        for problem in compare(record, replay, neighbour.accounts, row[0] or [], Fraction(row[1])):
            yield f"{neighbour.name}: {problem}"


@pytest.mark.parametrize("dataset", SESSIONS)
def test_releases_go_where_they_say(recorded: dict[str, Session], dataset: str) -> None:
    for step in recorded[dataset].steps:
        reply = json.loads(step.reply)
        outcome = reply["refusal"]["sqlstate"] if "refusal" in reply else reply["answer"]["notice"]["path"]
        if step.question[1] == "stopped":
            assert "stopped after 1 of " in reply["answer"]["notice"]["text"]
            outcome = "stopped" if outcome == "direct" else outcome
        assert (outcome, step.question[2]) == step.question[1:], reply


@pytest.mark.parametrize("dataset", SESSIONS)
def test_a_unit_changes_exact_cells_only(
    conn: psycopg.Connection[Any], asked: dict[str, Any], recorded: dict[str, Session], dataset: str
) -> None:
    """Same draws, statements, answers and accounts; losses within the charge, for units removed and added."""
    assert list(violations(conn, dataset, asked[dataset], recorded[dataset])) == []


def test_a_row_reaches_the_charge(
    conn: psycopg.Connection[Any], asked: dict[str, Any], recorded: dict[str, Session]
) -> None:
    """The audit has teeth: a row that comes realises all that was charged for a release that it is in."""
    shares: list[Fraction] = []
    for neighbour in additions(conn, "pay")[::3]:
        replay = run(conn, "pay", asked["pay"], neighbour=neighbour, frozen=recorded["pay"].outputs)
        shares += tightness(recorded["pay"], replay, neighbour.accounts).values()
    assert Fraction(1, 4) < max(shares) <= 1


@pytest.mark.parametrize(
    ("dataset", "control", "rule", "place"), CAUGHT, ids=["-".join([*one[:2], str(one[3])[:2]]) for one in CAUGHT]
)
def test_a_broken_release_is_caught(
    conn: psycopg.Connection[Any],
    asked: dict[str, Any],
    dataset: str,
    control: str,
    rule: str,
    place: int | Question,
) -> None:
    """Each control breaks one rule, on D and on its neighbours alike, and is caught by the rule that it breaks."""
    own = [asked[dataset][place]] if isinstance(place, int) else requests(conn, [place])

    def found() -> Iterator[str]:
        record = run(conn, dataset, own, controls=[control])
        yield from violations(conn, dataset, own, record, control)

    assert any(f": {rule}: " in problem for _ in range(ATTEMPTS) for problem in found())
