"""What committed charges owe: an answer that was paid and not drawn is drawn once, for nothing.

Specification: composition.md §10.3 c. An entitlement is written with its charge and goes when the answer is recorded.
Whoever may ask the question may draw it.

Order of locks, so that none waits in a circle: ledger row of the charge (by who draws), accounts, entitlement, head of
the chain. Under the accounts nobody waits for a ledger row.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pg_epsilon.errors import CHANNEL, DPError
from pg_epsilon.ledger import Execute, scope_to_json
from pg_epsilon.plan import Plan

MAX_STARTS = 8
CUT_OFF = 2  # so many reads that a crash of the server cut off are an unforeseen failure (§10.3 d)
# Advisory locks of this session: a `fresh` charge whose answer is being drawn is nobody else's.
_KEY = "hashtextextended('pg_epsilon owed ' || $1::text, 0)"
_FREE_CHARGE = (
    "SELECT l.who::text, l.request::text, l.mechanism, l.charge::text, l.scope::text FROM dp.ledger l"
    " WHERE l.request_id = $1 AND l.kind = 'charge' FOR UPDATE SKIP LOCKED"
)


@dataclass(frozen=True)
class Owed:
    """An entitlement as it stands: how many reads began for it, and how many of them a crash cut off."""

    starts: int
    cut: int
    life: str


class Entitlements:
    """What is owed, through a function that runs SQL."""

    def __init__(self, execute: Execute) -> None:
        self._execute = execute
        self._held: list[str] = []

    def owe(self, plan: Plan, request_id: str) -> None:
        """Write that a charge of this transaction owes its answer. Its first read counts as begun with the charge."""
        self._execute(
            "INSERT INTO dp.entitlement (request_id, dataset, question, fresh, life)"
            " VALUES ($1, $2, $3, $4, coalesce((SELECT l.id FROM dp.life l), dp._life()))",
            ["uuid", "text", "text", "boolean"],
            [request_id, plan.request.policy.dataset.name, plan.question, plan.request.fresh],
        )
        if plan.request.fresh:
            self._hold(request_id)

    def find(self, plan: Plan) -> str | None:
        """The oldest charge that owes the answer of this question; None if none does.

        One whose mechanism, charges, scope or form of steps would differ now, or that was begun eight times, ends here.
        A `fresh` question is owed to the same `fresh` question only, and not while someone draws it: he gets his own
        draw.
        """
        found = self._execute(
            "SELECT e.request_id::text AS id, e.starts, l.mechanism, l.charge::text, l.scope::text,"
            " (SELECT d.form FROM dp.draft d WHERE d.request_id = e.request_id AND d.step = 1) AS form"
            " FROM dp.entitlement e JOIN dp.ledger l USING (request_id)"
            " WHERE e.question = $1 AND e.fresh = $2 ORDER BY l.seq",
            ["text", "boolean"],
            [plan.question, plan.request.fresh],
        )
        for row in found:
            usable = row["starts"] < MAX_STARTS and is_paid(plan, row) and row["form"] in (None, plan.form)
            if not usable and self._end_idle(row["id"]):
                continue
            if not plan.request.fresh:
                return str(row["id"])
            if usable and self._hold(row["id"]) and self.state(row["id"]) is not None:
                return str(row["id"])
        return None

    def claim(self, request_id: str) -> dict[str, Any] | None:
        """The committed charge of a request, its row locked until the transaction ends. See dp._claim.

        That one may wait without a limit, which costs as much again: nearly always there is nobody to wait for.
        """
        found = self._execute(_FREE_CHARGE, ["uuid"], [request_id])
        found = found or self._execute("SELECT * FROM dp._claim($1)", ["uuid"], [request_id])
        return found[0] if found else None

    def state(self, request_id: str) -> Owed | None:
        """The entitlement of a charge, None once it ended. A crash since its latest start counts as cut off."""
        found = self._execute(
            "SELECT e.starts, e.cut + (e.life IS DISTINCT FROM (SELECT l.id FROM dp.life l))::integer AS cut,"
            " e.life::text FROM dp.entitlement e WHERE e.request_id = $1",
            ["uuid"],
            [request_id],
        )
        return Owed(found[0]["starts"], found[0]["cut"], found[0]["life"]) if found else None

    def count_start(self, request_id: str) -> None:
        """Commit that one more read begins, on a connection of its own. DP006 if the entitlement ended meanwhile."""
        found = self._execute(
            "SELECT n FROM dp_link.dblink('dp_ledger', format('SELECT dp._count_start(%L)', $1)) AS t(n integer)",
            ["uuid"],
            [request_id],
        )
        if found[0]["n"] is None:
            self.end(request_id)
            raise not_owed()

    def wait_for_locks(self) -> None:
        """No time limit on waits for our own locks, until the transaction ends: an answer has been drawn.

        Only some answers give something back, and lock the accounts for it. If that wait could fail, those alone would
        be drawn again.
        """
        self._execute("SELECT set_config('lock_timeout', '0', true)", [], [])

    def end(self, request_id: str) -> bool:
        """The answer is drawn, or will never be. False if the entitlement was ended before: by a freeze, for one."""
        gone = "DELETE FROM dp.entitlement WHERE request_id = $1 RETURNING 1 AS one"
        return bool(self._execute(gone, ["uuid"], [request_id]))

    def _end_idle(self, request_id: str) -> bool:
        """End it unless someone draws it now."""
        return bool(
            self._execute(
                "DELETE FROM dp.entitlement WHERE request_id IN"
                " (SELECT l.request_id FROM dp.ledger l WHERE l.request_id = $1 FOR UPDATE SKIP LOCKED)"
                " RETURNING 1 AS one",
                ["uuid"],
                [request_id],
            )
        )

    def _hold(self, request_id: str) -> bool:
        """Take a charge for this session until `let_go`; False where another session has it."""
        taken = self._execute(f"SELECT pg_try_advisory_lock({_KEY}) AS taken", ["uuid"], [request_id])[0]["taken"]
        if taken:
            self._held.append(request_id)
        return bool(taken)

    def let_go(self) -> None:
        """Release what this session holds: its request has ended, or another one begins."""
        while self._held:
            self._execute(f"SELECT pg_advisory_unlock({_KEY})", ["uuid"], [self._held.pop()])


def is_paid(plan: Plan, paid: dict[str, Any]) -> bool:
    """Whether a committed charge is what this plan costs: one of another mechanism bought another draw."""
    now = [plan.mechanism, [charge.to_json() for charge in plan.charges], scope_to_json(plan.scope)]
    scope = {name: value for name, value in json.loads(paid["scope"]).items() if name != "period"}
    return now == [paid["mechanism"], json.loads(paid["charge"]), scope]


def not_owed() -> DPError:
    """DP006: nothing is drawn for a charge that owes nothing any more."""
    return DPError(
        CHANNEL,
        "what was paid for this question is no longer owed",
        "A freeze, a confirmation of the ledger, or eight reads that did not end, ended it. Ask again.",
    )
