"""Record and replay of dp_sum_workload on neighbouring databases, as test_replay.py does it for single questions.

Deterministic: the outputs on D are frozen on each neighbour, so the false-alarm probability is 0 whatever the noise.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import psycopg
import pytest

from fix_privacy import HERE, audit_cluster, tapped
from privacy.neighbours import additions, removals
from privacy.replay import ATTEMPTS, Question, Session, compare, requests, run, tightness

A = "alice"


def asked_of(relation: str, value: str, queries: str, budget: str, options: dict[str, Any], more: str = "") -> str:
    text = json.dumps({"aggregates": ["sum", "count", "avg"], **options})
    return f"dp_sum_workload('audit.{relation}', '{value}', {queries}, {budget}, options => '{text}'{more})"


STEPS = "'{10,20,40,60,80,120}'"
SUMS = ["sum"]
BEYOND = 'ranges => \'{"(,40]","(20,)","[10,60)"}\''
ABOVE = 'ranges => \'{"[0,100]","(,)"}\''  # of which the second takes in what lies above every bound
ALONE = {"method": "workload", "aggregates": SUMS}
OWN = [[1] * 6, [1, 1, 1, -1, -1, -1], *([0] * k + [2] + [0] * (5 - k) for k in range(6))]
CHOSEN = {"theta": "svt", "rho_split": 0.5}
JOINED = ", predicate => 'deal.id = line.deal_id AND status = ''paid''', joins => '{audit.deal}'"
TOGETHER = ",".join(f'"sum(age) FILTER (WHERE age <= {step})"' for step in (20, 40, 60, 80))
ITEMS = "sum(qty)," + ",".join(f'"sum(qty) FILTER (WHERE qty <= {step})"' for step in (1, 2, 4))
SIZES = "sum(size)," + ",".join(f'"sum(size) FILTER (WHERE size <= {step})"' for step in (10, 50, 500))
OF_ALL = f"{TOGETHER},sum(age)"  # which the rows that are added are in
SIGNED = ",".join(f'"sum(age - 60) FILTER (WHERE age - 60 <= {step})"' for step in (-40, -20, 0, 20))
BATCHES = ",".join(f'"sum(batch) FILTER (WHERE batch <= {step})"' for step in (5, 10, 20, 39))


def running(relation: str, key: str, value: str, budget: str, alone: str) -> str:
    """The request of a grouped sum whose running sums are shown."""
    keys = json.dumps([key]).replace("[", "{").replace("]", "}")
    asked = f"dp.dp_group_by_request('audit.{relation}', '{keys}', '{{sum({value})}}', {budget})"
    shown = f'[{{"aggregate": 0, "key": 0, "descending": false, "alone": {alone}}}]'
    return f"jsonb_set({asked}, '{{running}}', '{shown}')"


SESSIONS: dict[str, list[Question]] = {
    "pay": [
        (A, "direct", asked_of("pay", "age", STEPS, "epsilon => 1", {})),
        (A, "cache", asked_of("pay", "age", STEPS, "epsilon => 1", {})),
        (A, "direct", asked_of("pay", "age", STEPS, "epsilon => 0.3", {"method": "sqm"})),
        (A, "direct", asked_of("pay", "age", STEPS, "epsilon => 0.3", {"strategy": "wavelet", "aggregates": SUMS})),
        (A, "direct", asked_of("pay", "age", STEPS, "epsilon => 0.5", {"method": "timm", "aggregates": SUMS})),
        (A, "direct", asked_of("pay", "age", STEPS, "epsilon => 0.5", {"theta": "svt", "rho_split": 0.5})),
        (A, "direct", asked_of("pay", "age", STEPS, "epsilon => 0.5", {"theta": "exponential", "rho_split": 0.5})),
        (A, "direct", asked_of("pay", "age", STEPS, "epsilon => 0.6", {"theta": "recursive", "rho_split": 0.5})),
        (A, "direct", asked_of("pay", "age", STEPS, "epsilon => 0.5", {"theta": 30})),
        (
            A,
            "direct",
            asked_of("pay", "age", 'ranges => \'{"[10,40)","(10,40]","[0,)"}\'', "epsilon => 0.5", {}),
        ),
        (A, "direct", asked_of("unpaid", "age", STEPS, "epsilon => 0.5", {}, ", predicate => 'insured'")),
        (A, "direct", asked_of("pay", "age", "'{40,120}', workload => '{{-30,1}}'", "epsilon => 0.5", ALONE)),
        (A, "direct", f"dp_group_by('audit.pay', '{{}}', '{{{TOGETHER}}}', epsilon => 0.5)"),
        (A, "direct", f"dp_group_by('audit.pay', '{{}}', '{{count(*),{TOGETHER},avg(age)}}', epsilon => 0.5)"),
        (A, "direct", running("pay", "width_bucket(age, 0, 100, 8)", "age", "epsilon => 0.5", "false")),
        (A, "direct", running("pay", "width_bucket(age, 10, 60, 5)", "age", "epsilon => 0.5", "true")),
        (A, "direct", asked_of("pay", "age", STEPS, "epsilon => 0.5", {}, ", by => 'stage'")),
        (A, "direct", asked_of("pay", "age", "'{20,60,120}'", "epsilon => 0.5", CHOSEN, ", by => 'insured'")),
        (A, "direct", asked_of("pay", "age", "'{60,10,60}'", "epsilon => 0.5", ALONE)),
        (A, "DP005", asked_of("pay", "age", "'{20,10}', workload => '{{1,0}}'", "epsilon => 0.5", {})),
        (A, "DP001", asked_of("pay", "age", STEPS, "epsilon => 50", {})),
        (A, "direct", asked_of("pay", "age", STEPS, "epsilon => 0.5", {"strategy": OWN, **ALONE, "method": "timm"})),
        (A, "direct", asked_of("pay", "age", BEYOND, "epsilon => 0.2", {}, ", upper => 40")),
        (A, "direct", asked_of("pay", "age", BEYOND, "epsilon => 0.2", {"aggregates": SUMS}, ", upper => 40")),
        (A, "direct", f"dp_group_by('audit.pay', '{{stage}}', '{{{OF_ALL}}}', epsilon => 0.5)"),
        (
            A,
            "direct",
            f"dp_group_by('audit.pay', '{{insured,stage}}', '{{count(*),{OF_ALL},avg(age)}}', epsilon => 0.5)",
        ),
        (A, "cache", f"dp_group_by('audit.pay', '{{stage}}', '{{{OF_ALL}}}', epsilon => 0.5)"),
        (A, "direct", asked_of("pay", "age - 60", "'{-40,0,20,60}'", "epsilon => 0.1", {})),
        (A, "direct", asked_of("pay", "age - 60", "'{-40,0,60}'", "epsilon => 0.1", {"aggregates": SUMS, "theta": 25})),
        (A, "direct", asked_of("pay", "age - 60", "'{0,60}'", "epsilon => 0.1", CHOSEN)),
        (A, "direct", f"dp_group_by('audit.pay', '{{}}', '{{{SIGNED}}}', epsilon => 0.1)"),
    ],
    "trade": [
        (A, "direct", asked_of("line", "price", "'{1,5,10,50}'", "epsilon => 1", {})),
        (A, "direct", asked_of("line", "price", "'{1,5,10,50}'", "epsilon => 1.7", {"theta": "svt", "rho_split": 0.5})),
        (A, "direct", asked_of("line", "price", "'{5,50}'", "epsilon => 1", {"theta": "recursive", "rho_split": 0.5})),
        (A, "direct", asked_of("line", "price", "'{10,100,250}'", "epsilon => 1", {}, ", per => 'user'")),
        (A, "direct", asked_of("line", "price", "'{1,5,50}'", "epsilon => 1", {}, ", by => 'sku'")),
        (A, "direct", asked_of("line", "price", "'{10,100,250}'", "epsilon => 1", {}, ", by => 'sku', per => 'user'")),
        (A, "direct", asked_of("line", "price", "'{1,5,50}'", "epsilon => 1", CHOSEN, JOINED)),
        (A, "direct", asked_of("line", "price", "'{50,250}'", "epsilon => 1", {}, f"{JOINED}, per => 'user'")),
        (A, "direct", asked_of("line", "qty - 3", "'{-2,0,3}'", "epsilon => 0.1", {}, ", per => 'user'")),
        (A, "DP004", asked_of("hit", "weight", "'{1,5}'", "epsilon => 1", {})),
        (A, "direct", f"dp_group_by('audit.line', '{{sku}}', '{{{ITEMS}}}', epsilon => 0.5)"),
        (A, "direct", f"dp_group_by('audit.line', '{{}}', '{{{ITEMS}}}', epsilon => 0.5)"),
        (A, "direct", f"dp_group_by('audit.line', '{{}}', '{{{ITEMS},avg(qty)}}', epsilon => 0.5)"),
        (A, "direct", running("line", "width_bucket(qty, 0, 6, 3)", "qty", "epsilon => 0.4", "false")),
        (A, "direct", asked_of("line", "price", ABOVE, "epsilon => 0.2", {"aggregates": SUMS}, ", per => 'user'")),
        (A, "direct", asked_of("line", "qty - 6", "'{-20,0}'", "epsilon => 0.1", {}, ", per => 'user'")),
    ],
    "lab": [
        (A, "direct", asked_of("sample", "batch", "'{5,10,20,39}'", "rho => 0.02", {})),
        (A, "direct", asked_of("sample", "batch", "'{5,20,39}'", "rho => 0.05", {"theta": "svt", "rho_split": 0.5})),
        (A, "direct", asked_of("sample", "batch", "'{5,39}'", "rho => 0.05", {"theta": "exponential"})),
        (A, "direct", running("sample", "width_bucket(batch, 0, 40, 8)", "batch", "rho => 0.02", "false")),
        (A, "direct", asked_of("sample", "batch", "'{5,39}'", "epsilon => 0.3", {"aggregates": SUMS})),
        (A, "direct", asked_of("sample", "batch", "'{5,20,39}'", "rho => 0.02", {}, ", by => 'lab'")),
        (A, "direct", f"dp_group_by('audit.sample', '{{lab}}', '{{{BATCHES},count(*)}}', rho => 0.02)"),
    ],
    "web": [
        (A, "direct", asked_of("event", "size", "'{10,50,1000}'", "rho => 0.05", {})),
        (A, "direct", asked_of("event", "size", "'{10,50,1000}'", "rho => 0.05", {}, ", by => 'kind'")),
        (A, "direct", asked_of("event", "size", "'{50,4000}'", "rho => 0.05", {}, ", by => 'kind', per => 'user'")),
        (A, "direct", asked_of("event", "size", "'{50,4000}'", "rho => 0.1", CHOSEN, ", per => 'user'")),
        (A, "direct", f"dp_group_by('audit.event', '{{kind}}', '{{{SIZES},count(*)}}', rho => 0.05)"),
        (A, "direct", f"dp_group_by('audit.event', '{{}}', '{{{SIZES},count(*)}}', rho => 0.05)"),
        (A, "direct", running("event", "width_bucket(size, 0, 100, 5)", "size", "rho => 0.05", "true")),
        (A, "direct", asked_of("event", "size", ABOVE, "rho => 0.05", {"aggregates": SUMS}, ", per => 'user'")),
    ],
}
# What each control is seen by: the places of those questions in the session.
CAUGHT = [
    ("pay", "every_query_spends_all", "sensitivity", (0,)),
    ("pay", "signed_column_sums", "sensitivity", (11,)),
    ("pay", "answers_twice", "price", (0,)),
    ("pay", "threshold_for_all", "price", (5,)),
    ("pay", "monotone_threshold", "sensitivity", (5,)),
    ("trade", "one_row_a_user", "sensitivity", (0,)),
    ("trade", "every_row_counts", "sensitivity", (0,)),
    ("trade", "one_group_a_user", "sensitivity", (4,)),
    ("web", "one_group_a_user", "sensitivity", (1,)),
    ("pay", "overlapping_buckets", "sensitivity", (0,)),
    ("pay", "strategy_from_data", "draws", (0, 3)),
    ("pay", "groups_of_small_values", "sensitivity", (14,)),
    ("pay", "a_row_in_every_group", "sensitivity", (25,)),
    ("trade", "one_group_a_user", "sensitivity", (10,)),
    ("trade", "totals_of_one_row", "sensitivity", (11,)),
    ("trade", "every_row_counts", "sensitivity", (12,)),
    ("web", "totals_of_one_row", "sensitivity", (5,)),
    ("trade", "running_of_one_row", "sensitivity", (13,)),
    ("trade", "totals_not_clamped", "sensitivity", (15,)),
    ("trade", "summands_not_clamped", "sensitivity", (14,)),
    ("trade", "neither_clamped", "sensitivity", (14,)),
    ("trade", "nested_totals_not_clamped", "sensitivity", (11,)),
    ("web", "summands_not_clamped", "sensitivity", (7,)),
    ("web", "nested_totals_not_clamped", "sensitivity", (5,)),
    ("trade", "answers_twice", "price", (2,)),
    ("trade", "threshold_for_all", "price", (6,)),
    ("trade", "monotone_threshold", "sensitivity", (1,)),
    ("trade", "strategy_from_data", "draws", (0, 3)),
    ("web", "rows_in_different_buckets", "sensitivity", (0,)),
    ("web", "every_row_counts", "sensitivity", (0,)),
    ("web", "answers_twice", "price", (2,)),
    ("web", "threshold_for_all", "price", (3,)),
    ("web", "running_of_one_row", "sensitivity", (6,)),
    ("lab", "every_query_spends_all_of_rho", "sensitivity", (0,)),
    ("lab", "threshold_for_all", "price", (1,)),
    ("lab", "a_row_in_every_group", "sensitivity", (6,)),
]


@pytest.fixture(scope="module")
def conn() -> Iterator[psycopg.Connection[Any]]:
    with audit_cluster() as cluster, tapped(cluster) as tapped_conn:
        source = (HERE / "broken_workload.py").read_text()
        tapped_conn.execute("CALL dp.describe_column('audit.line', 'deal_id')")  # to join along it
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
    conn: psycopg.Connection[Any],
    dataset: str,
    asked: Any,
    record: Session,
    *controls: str,
    planned: bool = True,
    some: slice = slice(None),
) -> Iterator[str]:
    row = conn.execute("SELECT orders::float8[], epsilon::text FROM dp.dataset WHERE name = %s", (dataset,)).fetchone()
    assert row is not None
    for neighbour in (removals(conn, dataset, 2, seed=20261124) + additions(conn, dataset)[::4])[some]:
        replay = run(
            conn, dataset, asked, neighbour=neighbour, frozen=record.outputs, controls=controls, planned=planned
        )
        for problem in compare(record, replay, neighbour.accounts, row[0] or [], Fraction(row[1])):
            yield f"{neighbour.name}: {problem}"


@pytest.mark.parametrize("dataset", SESSIONS)
def test_workloads_go_where_they_say(recorded: dict[str, Session], dataset: str) -> None:
    for step in recorded[dataset].steps:
        reply = json.loads(step.reply)
        outcome = reply["refusal"]["sqlstate"] if "refusal" in reply else reply["answer"]["notice"]["path"]
        assert (outcome, step.question[2]) == step.question[1:], reply


@pytest.mark.timeout(600)
@pytest.mark.parametrize("third", range(3))
@pytest.mark.parametrize("dataset", SESSIONS)
def test_a_unit_changes_exact_values_only(
    conn: psycopg.Connection[Any], asked: dict[str, Any], recorded: dict[str, Session], dataset: str, third: int
) -> None:
    """Same draws, statements, answers and accounts; losses within the charge, for units removed and added."""
    some = slice(third, None, 3)
    assert list(violations(conn, dataset, asked[dataset], recorded[dataset], some=some)) == []


def test_a_unit_reaches_the_charge(
    conn: psycopg.Connection[Any], asked: dict[str, Any], recorded: dict[str, Session]
) -> None:
    """The audit has teeth: a row that comes realises more than a quarter of what was charged for it."""
    shares: list[Fraction] = []
    for neighbour in additions(conn, "pay"):
        replay = run(conn, "pay", asked["pay"], neighbour=neighbour, frozen=recorded["pay"].outputs)
        shares += tightness(recorded["pay"], replay, neighbour.accounts).values()
    assert Fraction(1, 4) < max(shares) <= 1


@pytest.mark.parametrize(("dataset", "control", "rule", "places"), CAUGHT, ids=["-".join(one[:3]) for one in CAUGHT])
def test_a_broken_workload_is_caught(
    conn: psycopg.Connection[Any],
    asked: dict[str, Any],
    dataset: str,
    control: str,
    rule: str,
    places: tuple[int, ...],
) -> None:
    """Each control breaks one rule, on D and on its neighbours alike, and is caught by the rule that it breaks."""
    planned = rule == "plans"
    own = [asked[dataset][place] for place in places]

    def found() -> Iterator[str]:
        record = run(conn, dataset, own, controls=[control], planned=planned)
        yield from violations(conn, dataset, own, record, control, planned=planned)

    assert any(f": {rule}: " in problem for _ in range(ATTEMPTS) for problem in found())
