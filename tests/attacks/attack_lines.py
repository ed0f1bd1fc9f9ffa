"""Attacks as lines of a file, and everything that comes back from one: for test_attacks.py."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from fix_stack import Stack

HERE = Path(__file__).parent
WAYS = {
    "simple": ("simple",),
    "extended": ("extended",),
    "proxy": ("simple", "extended"),
    "direct": ("direct",),
    "all": ("simple", "extended", "direct"),
}
_SECONDS = re.compile(r"\b(user|system|elapsed): \d+\.\d+ s")
_DIAGNOSTICS = [name for name in dir(psycopg.errors.Diagnostic) if not name.startswith("_")]


@dataclass(frozen=True)
class Step:
    """One statement; may_fail: the attack goes on after an error."""

    sql: str
    may_fail: bool


@dataclass(frozen=True)
class Attack:
    """One attack on one way in.

    expected: SQLSTATEs and "ok"; value: the first value, if it matters; pays: its question is answered, on some way;
    charged: ledger rows that it makes: in every state if it asks for fresh answers, else where it is asked first.
    exact: it must make them; else it may be refused, and make none.
    """

    name: str
    way: str
    steps: tuple[Step, ...]
    expected: frozenset[str]
    value: str | None
    pays: bool
    charged: int
    exact: bool
    fresh: bool

    def allows(self, charged: int) -> bool:
        """Whether so many ledger rows are as announced."""
        return charged == self.charged if self.exact else charged <= self.charged

    @property
    def key(self) -> str:
        return f"{self.name} [{self.way}]"


def attacks(file: str) -> list[Attack]:
    """Every attack of a file, once per way in."""
    found = []
    for part in ("\n" + (HERE / file).read_text()).split("\n== ")[1:]:
        head, _, body = part.partition("\n")
        name, expectations, *charges = (field.strip() for field in head.split(" | "))
        price, exact, fresh = _price(charges)
        ways: dict[str, tuple[frozenset[str], str | None]] = {}
        for item in expectations.split(", "):
            place, _, wanted = item.partition(" ")
            outcome, _, value = wanted.partition("=")
            ways |= {way: (frozenset(outcome.split("/")), value or None) for way in WAYS[place]}
        answered = [way for way, (outcomes, _) in ways.items() if outcomes != {"42501"}]
        # Where it is asked first; which way that is nobody knows if it may be refused.
        paying = list(ways) if fresh else answered[:1] if exact else answered
        found += [
            Attack(name, way, tuple(steps_of(body)), *wanted, price > 0, price if way in paying else 0, exact, fresh)
            for way, wanted in ways.items()
        ]
    return found


def _price(field: list[str]) -> tuple[int, bool, bool]:
    """`charged n [fresh]`: how many ledger rows; a repeat on another way or in another state is free, if not fresh."""
    words = field[0].split() if field else ["charged", "0"]
    return int(words[1].removeprefix("<=")), words[1].isdigit(), words[-1] == "fresh"


def steps_of(body: str) -> Iterator[Step]:
    """The statements of an attack, one a line."""
    lines = [line for line in body.splitlines() if line.strip() and not line.startswith("-- ")]
    for position, line in enumerate(lines):
        if not line.startswith("---"):
            following = lines[position + 1] if position + 1 < len(lines) else "---"
            if not following.startswith("---"):
                raise ValueError(f"one line a statement: {line}")
            yield Step(line, following == "---!")


@dataclass
class Seen:
    """Everything that came back. outcome: "ok" or the last SQLSTATE; stopped: a set-up step failed that may not."""

    transcript: list[Any]
    outcome: str
    value: str | None
    stopped: str | None
    charged: int = 0


class Mallory:
    """An analyst with a session on every way in, as good as new for each attack."""

    def __init__(self, stack: Stack) -> None:
        self._sessions = {
            "simple": stack.connect(),
            "extended": stack.connect(),
            "direct": stack.cluster.connect("alice", tcp=True),
        }
        self._transcript: list[Any] = []
        for session in self._sessions.values():
            session.prepare_threshold = None
            session.add_notice_handler(lambda notice: self._transcript.append(("notice", _diagnostics(notice))))

    def close(self) -> None:
        for session in self._sessions.values():
            session.close()

    def launch(self, attack: Attack) -> Seen:
        session = self._sessions[attack.way]
        self._transcript = transcript = []
        seen = run_steps(session, attack.steps, attack.way == "extended", transcript)
        self._transcript = []
        session.execute("ROLLBACK")
        session.execute("DISCARD ALL")
        return seen


def run_steps(session: psycopg.Connection[Any], steps: Iterable[Step], extended: bool, transcript: list[Any]) -> Seen:
    """Statements one after the other until one fails that may not; what comes back is added to `transcript`."""
    seen = Seen(transcript, "ok", None, None)
    waiting = list(steps)
    while waiting:
        step = waiting.pop(0)
        seen.outcome, seen.value = _run(session, step.sql, extended, transcript)
        transcript.append(("status", session.info.transaction_status.name))
        if seen.outcome != "ok" and not step.may_fail:
            seen.stopped = step.sql if waiting else None
            break
    return seen


def _run(
    connection: psycopg.Connection[Any], sql: str, extended: bool, transcript: list[Any]
) -> tuple[str, str | None]:
    cursor = connection.cursor()
    value = None
    try:
        if sql.upper().startswith("COPY "):
            with cursor.copy(sql) as copy:
                transcript.append(("copy", [bytes(block) for block in copy]))
            return "ok", None
        cursor.execute(sql, binary=extended)
        while True:
            shape = [(column.name, column.type_code, column._fmod) for column in cursor.description or ()]
            rows = cursor.fetchall() if cursor.description else None
            value = str(rows[0][0]) if rows else None
            transcript.append(("result", cursor.statusmessage, shape, rows))
            if not cursor.nextset():
                return "ok", value
    except psycopg.Error as error:
        transcript.append(("error", _diagnostics(error.diag), str(error)))
        return error.sqlstate or type(error).__name__, None


def _diagnostics(diagnostic: psycopg.errors.Diagnostic) -> dict[str, str | None]:
    """All fields; without the seconds that trace_sort tells of sorts in the catalog, which are never the same twice."""
    found = {name: getattr(diagnostic, name) for name in _DIAGNOSTICS}
    return {name: _SECONDS.sub(r"\1 s", value) if value else value for name, value in found.items()}
