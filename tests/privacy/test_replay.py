"""Record and replay on neighbouring databases, in the installed engine: real PostgreSQL, real rows (design.md R3).

One backend, one transaction per session, rolled back. The sessions (questions.py) are run on D with real noise, and on
each neighbour D′ (neighbours.py) with the outputs frozen; replay.py holds the two against each other. Deterministic: a
violation is a fact, and the false-alarm probability is 0 whatever the noise.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import psycopg
import pytest

from fix_cluster import Cluster
from fix_privacy import audit_cluster, tapped
from privacy.broken_mechanisms import CONTROLS
from privacy.neighbours import Neighbour, additions, emptied, removals
from privacy.questions import SESSIONS
from privacy.replay import ATTEMPTS, Question, Session, compare, loss_of, requests, run, tightness

TEETH = {
    "lab": (Fraction(1, 10), Fraction(999, 1000)),
    "pay": (Fraction(1, 5), Fraction(999, 1000)),
    "trade": (Fraction(1, 7), Fraction(7, 10)),
}
PER_RELATION = 12  # units removed a relation (row units) or dataset (user units); the slow test removes every one
ADDED = 8  # new units a dataset, of up to 71; make test-thorough adds every one


@dataclass
class Audit:
    """A tapped backend, and what the sound engine did in it: recordings on D, and violations on all its neighbours."""

    conn: psycopg.Connection[Any]
    recorded: dict[str, Session] = field(default_factory=dict)
    asked: dict[str, list[Any]] = field(default_factory=dict)
    checked: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    shares: dict[str, dict[str, Fraction]] = field(default_factory=dict)

    def record(self, dataset: str) -> Session:
        if dataset not in self.recorded:
            self.asked[dataset] = requests(self.conn, SESSIONS[dataset])
            self.recorded[dataset] = run(self.conn, dataset, self.asked[dataset])
        return self.recorded[dataset]

    def neighbours(self, dataset: str, how: str) -> list[Neighbour]:
        if how.startswith("added"):
            every = additions(self.conn, dataset)
            return every if how == "added, all" else every[:: -(-len(every) // ADDED)]
        return removals(self.conn, dataset, PER_RELATION if how == "removed" else None, seed=20261121)

    def sound(self, dataset: str, how: str) -> list[str]:
        """The violations of the sound engine; each neighbour is run once."""
        if (dataset, how) not in self.checked:
            record = self.record(dataset)
            found = [p for n in self.neighbours(dataset, how) for p in self.violations(dataset, record, n)]
            self.checked[dataset, how] = found
        return self.checked[dataset, how]

    def violations(
        self,
        dataset: str,
        record: Session,
        neighbour: Neighbour,
        *controls: str,
        planned: bool = True,
        asked: list[Any] | None = None,
    ) -> list[str]:
        replay = run(
            self.conn,
            dataset,
            asked or self.asked[dataset],
            neighbour=neighbour,
            frozen=record.outputs,
            controls=controls,
            planned=planned,
        )
        row = self.conn.execute(
            "SELECT orders::float8[], epsilon::text FROM dp.dataset WHERE name = %s", (dataset,)
        ).fetchone()
        assert row is not None
        if not controls:
            shares = self.shares.setdefault(dataset, {})
            for call, share in tightness(record, replay, neighbour.accounts).items():
                shares[call] = max(shares.get(call, Fraction(0)), share)
        found = compare(record, replay, neighbour.accounts, row[0] or [], Fraction(row[1]))
        return [f"{neighbour.name}: {problem}" for problem in found]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with audit_cluster() as running:
        yield running


@pytest.fixture(scope="module")
def audit(cluster: Cluster) -> Iterator[Audit]:
    with tapped(cluster) as conn:
        yield Audit(conn)


@pytest.mark.parametrize("dataset", SESSIONS)
def test_sessions_go_where_they_say(audit: Audit, dataset: str) -> None:
    """Every question is answered by the path, or refused with the SQLSTATE, that questions.py names."""
    for step in audit.record(dataset).steps:
        reply = json.loads(step.reply)
        outcome = reply["refusal"]["sqlstate"] if "refusal" in reply else reply["answer"]["notice"]["path"]
        assert (outcome, step.question[2]) == step.question[1:]


@pytest.mark.parametrize("how", ["removed", "added"])
@pytest.mark.parametrize("dataset", SESSIONS)
def test_a_unit_changes_exact_values_only(audit: Audit, dataset: str, how: str) -> None:
    """No violation of replay.py: without one unit and all it owns, with one more, without the rows of nobody."""
    assert audit.sound(dataset, how) == []


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("dataset", SESSIONS)
def test_every_removed_unit(audit: Audit, dataset: str) -> None:
    """As test_a_unit_changes_exact_values_only, for every unit of the database."""
    assert audit.sound(dataset, "removed, all") == []


@pytest.mark.parametrize("dataset", SESSIONS)
def test_every_added_unit(audit: Audit, dataset: str) -> None:
    """As test_a_unit_changes_exact_values_only, for every kind of new unit."""
    assert audit.sound(dataset, "added, all") == []


@pytest.mark.parametrize("dataset", SESSIONS)
def test_an_empty_database_gains_its_first_unit(audit: Audit, dataset: str) -> None:
    """The same where nothing was: empty tables, then one unit (every third of the kinds of test_a_unit...)."""
    audit.record(dataset)
    nothing = emptied(audit.conn, dataset)
    record = run(audit.conn, dataset, audit.asked[dataset], neighbour=nothing)
    for n in audit.neighbours(dataset, "added, all")[::3]:
        first = dataclasses.replace(n, name=f"first {n.name}", statements=nothing.statements + n.statements)
        assert "copy" in n.name or audit.violations(dataset, record, first) == []


@pytest.mark.parametrize("dataset", SESSIONS)
def test_neighbours_reach_the_charge(audit: Audit, dataset: str) -> None:
    """The audit has teeth: to some neighbour, nine calls in ten lose 3/4 of their charge, and half lose all of it.

    Less (TEETH) where a session asks for quantiles, or for sums whose largest unit no neighbour is.
    """
    assert audit.sound(dataset, "removed") + audit.sound(dataset, "added") == []
    shares = sorted(audit.shares[dataset].values())
    assert len(shares) >= 10
    tenth, half = TEETH.get(dataset, (Fraction(3, 4), Fraction(999, 1000)))
    assert shares[len(shares) // 10] >= tenth
    assert shares[len(shares) // 2] >= half


def in_turn(neighbours: list[Neighbour]) -> list[Neighbour]:
    """One of each relation, one more of each, …: a mechanism that is broken for one relation is seen soon."""
    seen: Counter[str] = Counter()
    places = {}
    for one in neighbours:
        kind = one.name.rstrip("0123456789),(#")
        places[one.name] = seen[kind]
        seen[kind] += 1
    return sorted(neighbours, key=lambda one: places[one.name])


@pytest.mark.parametrize("name", CONTROLS)
def test_broken_mechanisms_are_caught(audit: Audit, name: str) -> None:
    """Negative controls: the same checker finds, on some neighbour, a violation of the rule that the engine breaks.

    The session is the one question of the dataset's own that the control names.
    """
    audit.record(CONTROLS[name].dataset)
    asked = [one for one in audit.asked[CONTROLS[name].dataset] if one[0][2] == CONTROLS[name].call][:1]
    assert asked, "no question of the session"
    assert any(is_caught(audit, name, asked) for _ in range(ATTEMPTS))


def is_caught(audit: Audit, name: str, asked: list[tuple[Question, str]]) -> bool:
    dataset, rule = CONTROLS[name].dataset, CONTROLS[name].rule
    planned = rule == "plans"
    record = run(audit.conn, dataset, asked, controls=[name], planned=planned)
    for neighbour in in_turn(audit.neighbours(dataset, "removed") + audit.neighbours(dataset, "added, all")):
        found = audit.violations(dataset, record, neighbour, name, planned=planned, asked=asked)
        if any(problem.startswith(f"{neighbour.name}: {rule}") for problem in found):
            return True
    return False


def test_the_sum_over_all_draws_is_what_counts(audit: Audit) -> None:
    """A user in five groups, each a draw of its own, charged once: no draw is wrong, their sum is five charges."""
    call = "dp_group_by('audit.purchase', '{status,placed}', '{count(distinct customer_id)}', epsilon => 0.5)"
    asked = requests(audit.conn, [("alice", "direct", call)])
    control = ["cell_by_cell shop loss"]
    record = run(audit.conn, "shop", asked, controls=control)
    found: dict[str, list[str]] = {}
    losses = {}
    for n in audit.neighbours("shop", "removed, all"):
        replay = run(audit.conn, "shop", asked, neighbour=n, frozen=record.outputs, controls=control)
        found[n.name] = compare(record, replay, n.accounts, [], Fraction(20))
        pairs = zip(record.steps[0].draws, replay.steps[0].draws, strict=True)
        losses[n.name] = sum((loss_of(a, b).epsilon for a, b in pairs), Fraction(0))
    worst = max(losses, key=lambda name: losses[name])
    assert losses[worst] == 5 * Fraction(1, 2)
    assert "loss: the session" in found[worst]
    assert not any(p.startswith(("draws", "sensitivity", "answers")) for problems in found.values() for p in problems)


def test_the_tap_leaves_the_engine_as_it_was(audit: Audit) -> None:
    """After controls ran, a session without them still has no violation."""
    record = audit.record("shop")
    run(audit.conn, "shop", audit.asked["shop"], controls=["every_row_counts shop sensitivity"])
    neighbour = additions(audit.conn, "shop")[0]
    assert audit.violations("shop", record, neighbour) == []
