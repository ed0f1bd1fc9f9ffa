"""One crash campaign: clients ask, harm strikes, everything settles, the books are read."""

from __future__ import annotations

import re
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

from faults_books import Account, Books, Entry, Verdict, honoured, judge
from faults_clients import Clients
from faults_disk import full_disk, may_mount
from faults_harm import Harm

from fix_ledger import charges
from fix_stack import Stack
from fix_waiting import backends, soon

CLIENTS = 8  # five through the proxy
_NUMBER = re.compile(r"\b1\d{6}\b")
_LEDGER = """
SELECT request_id::text, request::text, dataset, who::text, kind, epsilon, at, mechanism FROM dp.ledger
 WHERE kind IN ('charge', 'return') ORDER BY seq"""
_ACCOUNTS = """
SELECT a.dataset, a.role::text, COALESCE(r.epsilon, d.epsilon), sum(a.spent_epsilon),
       sum(a.spent_epsilon) FILTER (WHERE a.node = 'root')
       + COALESCE(max(a.spent_epsilon) FILTER (WHERE a.node = 'relation'), 0)
  FROM dp.account a JOIN dp.dataset d ON d.name = a.dataset
  LEFT JOIN dp.role_allotment r ON r.dataset = a.dataset AND r.role::text = a.role::text
 GROUP BY a.dataset, a.role, r.epsilon, d.epsilon"""


@dataclass
class Outcome:
    """What a campaign counted. struck: faults by kind; mismatches: of the engine's own comparison of its books."""

    books: Books
    verdict: Verdict
    struck: dict[str, int]
    hangs: list[str]
    given_up: list[int]
    mismatches: list[Any]
    honoured: int

    @property
    def faults(self) -> int:
        return sum(self.struck.values())

    def summary(self) -> str:
        books = self.books
        charged = sum(entry.kind == "charge" for entry in books.ledger)
        lines = [
            f"{len(books.asked)} questions, {len(books.heard)} answers, {len(books.failed)} failed attempts",
            f"{charged} charges, {len(books.released)} releases, {len(books.owed)} still owed",
            f"{self.honoured} entitlements honoured, {len(self.given_up)} questions given up, {len(self.hangs)} hangs",
            f"{self.faults} faults: " + ", ".join(f"{name} {n}" for name, n in sorted(self.struck.items())),
        ]
        states = Counter(each.sqlstate or "lost" for each in books.failed)
        lines.append("failed attempts by SQLSTATE: " + ", ".join(f"{name} {n}" for name, n in states.most_common()))
        lines += [f"{name}: {len(found)}" for name, found in vars(self.verdict).items() if found]
        return "\n".join([*lines, *self.verdict.all()[:20]])


def campaign(stack: Stack, seconds: float, *, pause: float, seed: int) -> Outcome:
    """Harm `stack` for so many seconds, `pause` seconds between faults at the mean, each kind at least once.

    Afterwards, where this process may mount a file system, its disk is full once.
    """
    clients = Clients(stack, CLIENTS, seed)
    harm = Harm(stack, clients, seed)
    end = time.monotonic() + seconds
    assert soon(lambda: len(clients.heard) >= 2 * CLIENTS), "nobody is answered"
    harm.once_each()
    harm.until(end, pause)
    harm.settle()
    clients.finish()
    if may_mount():
        harm.struck["full disk"] += full_disk(stack, clients)
    books = _read(stack, clients)
    with stack.cluster.connect() as root:
        mismatches = root.execute("SELECT * FROM dp._ledger_mismatch()").fetchall()
    return Outcome(books, judge(books), dict(harm.struck), clients.hangs, clients.given_up, mismatches, honoured(books))


def _read(stack: Stack, clients: Clients) -> Books:
    with stack.cluster.connect() as root:
        # A request that nobody waits for any more is charged all the same.
        busy = "usename ~ '^(alice|dp_gateway|dp_channel_[0-9]+)$' AND state = 'active'"
        assert soon(lambda: not backends(root, busy)), "the engine does not come to rest"
        before = charges(stack.cluster)
        repeated = clients.repeat()
        ledger = [_entry(row) for row in root.execute(_LEDGER).fetchall()]
        return Books(
            clients.asked,
            clients.heard,
            clients.failed,
            ledger,
            {row[0] for row in root.execute("SELECT request_id::text FROM dp.release").fetchall()},
            {row[0] for row in root.execute("SELECT request_id::text FROM dp.entitlement").fetchall()},
            [Account(*row) for row in root.execute(_ACCOUNTS).fetchall()],
            repeated,
            before,
            charges(stack.cluster),
        )


def _entry(row: tuple[Any, ...]) -> Entry:
    request_id, request, dataset, who, kind, epsilon, at, mechanism = row
    found = _NUMBER.search(request or "") if kind == "charge" and not mechanism.startswith("turbo") else None
    return Entry(request_id, None if found is None else int(found[0]), dataset, who, kind, epsilon, at)
