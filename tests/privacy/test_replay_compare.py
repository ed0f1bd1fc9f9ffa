"""Record and replay of dp_compare on neighbouring databases: it reads no row, draws nothing and charges nothing.

Deterministic: the outputs on D are frozen on each neighbour, so the false-alarm probability is 0 whatever the noise.
"""

from __future__ import annotations

import itertools
import json
import uuid
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import psycopg
import pytest

from fix_privacy import HERE, audit_cluster, tapped
from privacy.neighbours import additions, removals
from privacy.replay import Question, Session, compare, requests, run

A, B = "alice", "bob"
FREE = "stored release"
METHODS = ("box", "box_tight", "fieller")


def of(first: int, call: str) -> str:
    """A comparison about the release of the session's question of that number."""
    return f"dp_compare({call}, release => '{uuid.uuid5(uuid.NAMESPACE_URL, str(first))}')"


SESSIONS: dict[str, list[Question]] = {
    "pay": [
        (A, "direct", "dp_group_by('audit.pay', '{stage}', '{count(*),avg(age),sum(age),stddev(age)}', epsilon => 2)"),
        (A, FREE, of(0, "'red', 'green'")),
        (A, FREE, of(0, "'red', 'green', simultaneous => false")),
        *(
            (A, FREE, of(0, f"'red', 'green', aggregate => 2, method => '{m}'"))
            for m in ("box", "box_tight", "fieller")
        ),
        (A, FREE, of(0, "'red', 'green', aggregate => 3, confidence => 0.8")),
        (A, FREE, of(0, "'red', 'green', aggregate => 4")),
        (A, FREE, of(0, "'red', 'green', method => 'bootstrap'")),
        (A, FREE, of(0, "'{red,green}', weights => '{1,-2}', constant => 3")),
        (A, FREE, of(0, "'{red,green}', expression => 'o1 / (1 + o2) - 1'")),
        (A, "DP005", of(0, "'red', 'violet'")),
        (A, "DP003", of(0, "'red', 'green', method => 'joint'")),
        (B, "42501", of(0, "'red', 'green'")),
        (A, "direct", "dp_group_by('audit.pay', '{stage,insured}', '{count(*)}', epsilon => 1)"),
        (A, FREE, of(14, "ARRAY['red','t'], ARRAY['green',NULL]")),
        (A, "42501", of(99, "'red', 'green'")),
    ],
    "lab": [
        (A, "direct", "dp_group_by('audit.sample', '{lab}', '{count(*),avg(batch)}', rho => 0.05)"),
        *((A, FREE, of(0, f"'a', 'b', aggregate => {n}")) for n in (1, 2)),
        (A, FREE, of(0, "'a', 'b', aggregate => 2, simultaneous => false")),
        (A, FREE, of(0, "'a', 'b', aggregate => 2, method => 'fieller'")),
    ],
}
CAUGHT = [
    ("reads_a_row", "rows"),
    ("tells_the_truth", "answers"),
    ("takes_a_new_draw", "draws"),
]


@pytest.fixture(scope="module")
def conn() -> Iterator[psycopg.Connection[Any]]:
    with audit_cluster() as cluster, tapped(cluster) as tapped_conn:
        source = (HERE / "broken_compare.py").read_text()
        tapped_conn.execute("SELECT tap.load('privacy_controls', %s)", (source,))
        tapped_conn.commit()
        yield tapped_conn


def found(conn: psycopg.Connection[Any], dataset: str, *controls: str) -> tuple[Session, Iterator[str]]:
    """The session on D, and what differs on neighbours without a unit and with one more."""
    asked = requests(conn, SESSIONS[dataset])
    record = run(conn, dataset, asked, controls=controls)
    return record, differences(conn, dataset, asked, record, *controls)


def differences(
    conn: psycopg.Connection[Any], dataset: str, asked: list[Any], record: Session, *controls: str
) -> Iterator[str]:
    row = conn.execute("SELECT orders::float8[], epsilon::text FROM dp.dataset WHERE name = %s", (dataset,)).fetchone()
    assert row is not None
    for neighbour in removals(conn, dataset, 2, seed=20261127) + additions(conn, dataset)[::4]:
        replay = run(conn, dataset, asked, neighbour=neighbour, frozen=record.outputs, controls=controls)
        yield from compare(record, replay, neighbour.accounts, row[0] or [], Fraction(row[1]))


def looks(record: Session) -> Iterator[str]:
    """What a free step did that it may not do, whatever a neighbour shows."""
    for step in record.steps:
        if step.question[1] != "direct":
            if step.draws:
                yield f"draws: {step.question[2]}"
            if any("audit" in str(statement[1]) for statement in step.statements):
                yield f"rows: {step.question[2]}"


@pytest.mark.parametrize("dataset", SESSIONS)
def test_a_comparison_reads_no_row(conn: psycopg.Connection[Any], dataset: str) -> None:
    """Each goes where it says, draws nothing, and neighbours see the same."""
    record, problems = found(conn, dataset)
    assert list(problems) == []
    assert list(looks(record)) == []
    for step in record.steps:
        reply = json.loads(step.reply)
        outcome = reply["refusal"]["sqlstate"] if "refusal" in reply else reply["answer"]["notice"]["path"]
        assert (outcome, step.question[2]) == step.question[1:], reply


@pytest.mark.parametrize(("control", "rule"), CAUGHT)
def test_a_broken_comparison_is_caught(conn: psycopg.Connection[Any], control: str, rule: str) -> None:
    record, problems = found(conn, "pay", control)
    assert any(f"{rule}: " in problem for problem in itertools.chain(looks(record), problems))
