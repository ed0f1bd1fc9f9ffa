"""Releases that were stored, shown again to who paid for them or was served them: free (composition.md §8)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pg_epsilon.answer import again, stored
from pg_epsilon.engine.entitlements import is_paid
from pg_epsilon.errors import CHANNEL, PRIVILEGE, DPError
from pg_epsilon.ledger import Execute
from pg_epsilon.mechanisms.stored import Unreadable
from pg_epsilon.plan import Plan

# The predicate stays in the ledger: it is compiled for a release of an older version alone, and shown to nobody.
_FOUND = (
    "SELECT l.who = w.who OR w.admin AS own, l.who::text, l.call, l.mechanism, l.charge::text, l.scope::text,"
    " r.cache_key, r.as_of::timestamptz(0)::text AS as_of, (r.answer -> 'raw')::text AS raw,"
    " (r.answer -> 'presentation')::text AS presentation,"
    " CASE WHEN NOT r.answer ? 'presentation' THEN l.request::text END AS request"
    " FROM (SELECT dp._who() AS who, pg_has_role(dp._who(), 'dp_admin', 'MEMBER') AS admin) w"
    " JOIN dp.ledger l ON l.request_id = $1 AND l.kind = 'charge' LEFT JOIN dp.release r USING (request_id)"
    " WHERE l.who = w.who OR w.admin OR EXISTS (SELECT FROM dp.served s WHERE s.request_id = $1 AND s.who = w.who)"
)


@dataclass(frozen=True)
class Stored:
    """A release and how it is shown. own: the asker paid for it, or is an administrator."""

    request_id: str
    own: bool
    mechanism: str
    as_of: str
    raw: list[list[int]]
    presentation: Mapping[str, Any]


class Shelf:
    """Releases by the id of their request, for whoever asks in this session.

    compiled: the plan of a request document against the policy of now.
    """

    def __init__(self, execute: Execute, compiled: Callable[[Any], Plan]) -> None:
        self._execute = execute
        self._compiled = compiled

    def stored(self, request_id: str) -> Stored:
        """One release. 42501 unless it is the asker's, or was served to them; DP006 if nothing can be shown of it."""
        found = self._execute(_FOUND, ["uuid"], [request_id])
        if not found:
            raise DPError(
                PRIVILEGE,
                f"no answer {request_id} was given to you",
                "SELECT request_id, question FROM dp.spending lists what you paid for; what you were served from"
                " another's payment, dp.last_answer names.",
            )
        row = found[0]
        if row["raw"] is None:
            raise _gone(request_id, "has no stored answer: it is owed, or a Turbo view answered it")
        raw = json.loads(row["raw"])
        return Stored(
            request_id, row["own"], row["mechanism"], row["as_of"], raw, self._presentation(row, raw, request_id)
        )

    def shown(self, request: str) -> dict[str, Any]:
        """What dp_shown returns. Errors: those of `stored`."""
        one = self.stored(request)
        try:
            told = again(one.presentation, one.raw, named=one.own)
        except Unreadable:
            raise _gone(request, "was stored by a later version of pg_epsilon") from None
        return {"request_id": request, "mechanism": one.mechanism, "as_of": one.as_of, **told}

    def _presentation(self, row: Mapping[str, Any], raw: list[list[int]], request_id: str) -> Mapping[str, Any]:
        """As it was stored; of 0.1.0, which stored integers alone, as its question is understood today."""
        if row["presentation"] is not None:
            found: Mapping[str, Any] = json.loads(row["presentation"])
            return found
        if row["request"] is None:
            raise _gone(request_id, "cannot be shown: its question was redacted")
        try:
            plan = self._compiled(json.loads(row["request"]))
        except DPError:
            raise _gone(request_id, "is of an older version, and its question is not understood any more") from None
        if plan.cache_key != row["cache_key"] or not is_paid(plan, dict(row)):
            raise _gone(request_id, "is of an older version, and policy, data or its meaning changed since")
        return stored(plan, raw)


def _gone(request_id: str, why: str) -> DPError:
    return DPError(CHANNEL, f"request {request_id} {why}", "Ask the question again: dp_plan says what it costs.")
