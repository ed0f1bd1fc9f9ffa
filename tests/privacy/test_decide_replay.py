"""Record and replay of decisions on neighbouring databases, in the installed engine (as test_replay.py).

Every decider, over rows, partitions, users and both accountants, with what is given back, beside the ordinary answers
of a fallback. The synthetic tables are the same on both sides: they are public. Deterministic: a violation is a fact,
and the false-alarm probability is 0 whatever the noise.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import psycopg
import pytest

from fix_cluster import ROLES, private_cluster
from fix_privacy import tapped
from privacy.broken_deciders import CONTROLS
from privacy.decide_questions import SESSIONS
from privacy.decide_questions import ask as ask_text
from privacy.neighbours import Neighbour, additions, emptied, removals
from privacy.replay import ATTEMPTS, Question, Session, accounts, compare, difference, loss_of, plan, requests, run

HERE = Path(__file__).parent
SEED = 20261121
SOME = 4  # neighbours of each kind; the slow test takes every one
TEETH = {"fare": 0.7, "curved": 0.6, "guild": 0.5}
COPIES = ("fare_syn", "fare_w", "fare_none", "week_syn", "nil_syn", "curved_syn", "trip_syn")


@dataclass
class Audit:
    """A tapped backend, and what the sound engine did in it."""

    conn: psycopg.Connection[Any]
    asked: dict[str, list[Any]] = field(default_factory=dict)
    recorded: dict[str, Session] = field(default_factory=dict)
    reached: dict[str, dict[str, float]] = field(default_factory=dict)
    checked: dict[tuple[str, str], list[str]] = field(default_factory=dict)

    def sound(self, session: str, how: str) -> list[str]:
        """The violations of the sound engine on SOME neighbours; each is run once."""
        if (session, how) not in self.checked:
            record, asked = self.record(session), self.questions(session)
            found = self.neighbours(session, how, SOME)[:SOME]
            self.checked[session, how] = [p for n in found for p in self.violations(session, asked, record, n)]
        return self.checked[session, how]

    def questions(self, session: str) -> list[Any]:
        if session not in self.asked:
            self.asked[session] = requests(self.conn, SESSIONS[session][2])
        return self.asked[session]

    def record(self, session: str) -> Session:
        if session not in self.recorded:
            self.recorded[session] = run(self.conn, SESSIONS[session][0], self.questions(session))
        return self.recorded[session]

    def neighbours(self, session: str, how: str, most: int | None = None) -> list[Neighbour]:
        """Those that differ by a unit of the session's relation: the extreme ones first, then at random."""
        dataset, relation, _ = SESSIONS[session]
        found = additions(self.conn, dataset) if how == "added" else removals(self.conn, dataset, most, seed=SEED)
        own = [n for n in found if n.name[1:].startswith((f"{relation}(", f"{relation}#", f"{relation} ", "guild:"))]
        assert own or relation == "decide.nil"
        return own

    def violations(
        self,
        session: str,
        asked: Sequence[Any],
        record: Session,
        neighbour: Neighbour,
        *controls: str,
        planned: bool = True,
    ) -> list[str]:
        dataset = SESSIONS[session][0]
        replay = run(
            self.conn,
            dataset,
            asked,
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
            _reach(self.reached.setdefault(session, {}), record, replay, neighbour)
        found = compare(record, replay, neighbour.accounts, row[0] or [], Fraction(row[1]))
        return [f"{neighbour.name}: {problem}" for problem in found]


def _reach(shares: dict[str, float], record: Session, replay: Session, neighbour: Neighbour) -> None:
    """Per call, the largest realised share of its draws' cost: over neighbours, and over both bits of a selection."""
    for one, two in zip(record.steps, replay.steps, strict=True):
        if one.draws and neighbour.accounts & set(one.paid):
            pairs = list(zip(one.draws, two.draws, strict=True))
            most = sum(max(_loss(a, b, i) for i in _outputs(a)) for a, b in pairs)
            cost = sum(float(Fraction(d["cost"])) for d in one.draws)
            shares[one.question[2]] = max(shares.get(one.question[2], 0.0), most / cost)


def _outputs(draw: Mapping[str, Any]) -> list[int | None]:
    return [0, 1] if draw["kind"] == "select" and draw["cells"] == 2 else [None]


def _loss(one: Mapping[str, Any], two: Mapping[str, Any], output: int | None) -> float:
    other = {} if output is None else {"output": [output]}
    found = loss_of({**one, **other}, {**two, **other})
    return float(found.epsilon + found.rho)


@pytest.fixture(scope="module")
def audit() -> Iterator[Audit]:
    with private_cluster() as cluster:
        cluster.psql(ROLES)
        cluster.psql((HERE / "decide_tables.sql").read_text(), user="boss")
        with tapped(cluster) as conn:
            conn.execute("SET search_path = public")
            conn.execute("SELECT tap.load('privacy_controls', %s)", ((HERE / "broken_deciders.py").read_text(),))
            conn.commit()
            yield Audit(conn)


@pytest.mark.parametrize("session", SESSIONS)
def test_sessions_go_where_they_say(audit: Audit, session: str) -> None:
    """Every question is answered by the path, or refused with the SQLSTATE, that decide_questions.py names."""
    steps = audit.record(session).steps
    assert len(steps) == sum(question[1] != "set" for question in SESSIONS[session][2])
    for step in steps:
        reply = json.loads(step.reply)
        outcome = reply["refusal"]["sqlstate"] if "refusal" in reply else reply["answer"]["notice"]["path"]
        assert (outcome, step.question[2]) == step.question[1:], reply


@pytest.mark.parametrize("how", ["removed", "added"])
@pytest.mark.parametrize("session", SESSIONS)
def test_a_unit_changes_exact_values_only(audit: Audit, session: str, how: str) -> None:
    """No violation of replay.py: without one unit and all it owns, with one more, without the rows of nobody."""
    assert audit.sound(session, how) == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("session", SESSIONS)
def test_every_unit(audit: Audit, session: str) -> None:
    """As test_a_unit_changes_exact_values_only, for every unit of the relation, and for all that are added."""
    record, asked = audit.record(session), audit.questions(session)
    found = [n for how in ("removed", "added") for n in audit.neighbours(session, how)]
    assert [p for n in found for p in audit.violations(session, asked, record, n)] == []


@pytest.mark.parametrize("session", SESSIONS)
def test_an_empty_database_gains_its_first_unit(audit: Audit, session: str) -> None:
    """The same where nothing was: empty tables, then one unit."""
    asked, nothing = audit.questions(session), emptied(audit.conn, SESSIONS[session][0])
    record = run(audit.conn, SESSIONS[session][0], asked, neighbour=nothing)
    found = [n for n in audit.neighbours(session, "added") if "copy" not in n.name]
    for n in found[:2]:
        first = Neighbour(f"first {n.name}", nothing.statements + n.statements, n.accounts)
        assert audit.violations(session, asked, record, first) == []


def test_neighbours_reach_the_charge(audit: Audit) -> None:
    """The audit has teeth: to some new unit half of the calls lose so much of their charge, and one loses all of it."""
    for session, half in TEETH.items():
        assert audit.sound(session, "added") == []
        shares = sorted(audit.reached[session].values())
        assert len(shares) >= 10
        assert shares[len(shares) // 2] >= half, session
        assert shares[-1] > 0.99


def test_the_copies_are_the_same_on_both_sides(audit: Audit) -> None:
    """No neighbour changes a synthetic table: what is public is public on both sides."""

    def copies() -> list[Any]:
        return [audit.conn.execute(f"SELECT t::text FROM decide.{name} t ORDER BY 1").fetchall() for name in COPIES]

    before, seen = copies(), 0
    for session in SESSIONS:
        for n in [*audit.neighbours(session, "removed", 2), *audit.neighbours(session, "added")]:
            for statement in n.statements:
                audit.conn.execute(statement.encode())
            assert copies() == before
            audit.conn.rollback()
            seen += 1
    assert seen > 20


@pytest.mark.parametrize("name", CONTROLS)
def test_broken_deciders_are_caught(audit: Audit, name: str) -> None:
    """Negative controls: the same checker finds, on some neighbour, a violation of the rule that the decider breaks."""
    control = CONTROLS[name]
    asked = [audit.questions(control.session)[control.place]]
    shown = next(filter(None, (shows(audit, name, asked) for _ in range(ATTEMPTS))), None)
    assert shown is not None
    sound = run(audit.conn, SESSIONS[control.session][0], asked)
    assert audit.violations(control.session, asked, sound, shown) == []


def shows(audit: Audit, name: str, asked: list[tuple[Question, str]]) -> Neighbour | None:
    """The first neighbour that a recording of the control breaks its rule on."""
    control = CONTROLS[name]
    planned = control.rule == "plans"
    record = run(audit.conn, SESSIONS[control.session][0], asked, controls=[name], planned=planned)
    for neighbour in [n for how in ("removed", "added") for n in audit.neighbours(control.session, how)]:
        found = audit.violations(control.session, asked, record, neighbour, name, planned=planned)
        if any(problem.startswith(f"{neighbour.name}: {control.rule}:") for problem in found):
            return neighbour
    return None


def test_a_plan_reads_no_private_row(audit: Audit) -> None:
    """dp_plan of every question: PostgreSQL counts no scan of the private table, as it does of a count of its rows."""
    asked = audit.questions("fare")
    scans = (
        "SELECT coalesce(sum(seq_scan + coalesce(idx_scan, 0)), 0) FROM pg_stat_xact_user_tables"
        " WHERE relid = 'decide.fare'::regclass"
    )
    start = audit.conn.execute(scans).fetchone()
    plans = [plan(audit.conn, question[0], request) for question, request in asked]
    assert audit.conn.execute(scans).fetchone() == start
    assert sum('"direct"' in text for text in plans) > 40
    audit.conn.execute("SELECT count(*) FROM decide.fare")
    assert audit.conn.execute(scans).fetchone() != start
    audit.conn.rollback()


def test_what_was_given_back_is_given_back_once(audit: Audit) -> None:
    """The second step repeated: the same answer, no draw, nothing returned again."""
    call = ask_text(
        "SELECT count(*) FROM {table}",
        "fare_syn",
        "tau => 1000, mechanism => 'em', epsilon => 1, fallback => true",
        detail=True,
    )
    ((_, request),) = requests(audit.conn, [("alice", "direct", call)])
    name = "00000000-0000-4000-8000-000000000001"
    audit.conn.execute("SELECT dp._charge(%s, 'alice', %s)", (name, request))
    reserved = accounts(audit.conn, "dec")
    replies = [audit.conn.execute("SELECT dp._answer(%s)", (name,)).fetchone() for _ in range(3)]
    paid = difference(accounts(audit.conn, "dec"), reserved)
    returns = audit.conn.execute("SELECT count(*) FROM dp.ledger WHERE kind = 'return'").fetchone()
    audit.conn.rollback()
    decisions = [reply[0]["answer"]["decisions"] for reply in replies if reply is not None]
    assert decisions[0][0]["decision"] is True
    assert decisions == [decisions[0]] * 3
    assert returns == (1,)
    assert [spent.epsilon for spent in paid.values()] == [-1]
