"""Releases that were stored, shown again to who paid for them or was served them: free (composition.md §8)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pg_epsilon.answer import again, stored
from pg_epsilon.engine.entitlements import is_paid
from pg_epsilon.errors import DPError
from pg_epsilon.ledger import Execute
from pg_epsilon.mechanisms.stored import Unreadable
from pg_epsilon.plan import Plan
from pg_epsilon.query.released import NONE_STORED, Releases, Stored, gone, not_yours

# The question stays in the ledger: it is compiled, for a release of an older version or for one about the same rows,
# and shown to nobody.
_FOUND = (
    "SELECT l.who = w.who OR w.admin AS own, l.who::text, l.call, l.mechanism, l.charge::text, l.scope::text,"
    " r.cache_key, r.as_of::timestamptz(0)::text AS as_of, (r.answer -> 'raw')::text AS raw,"
    " (r.answer -> 'presentation')::text AS presentation,"
    " l.request::text AS request"
    " FROM (SELECT $2::name AS who, pg_has_role($2::name, 'dp_admin', 'MEMBER') AS admin) w"
    " JOIN dp.ledger l ON l.request_id = $1 AND l.kind = 'charge' LEFT JOIN dp.release r USING (request_id)"
    " WHERE l.who = w.who OR w.admin OR EXISTS (SELECT FROM dp.served s WHERE s.request_id = $1 AND s.who = w.who)"
)
# What was told and is no release is its asker's alone: the ledger has a row of it only where something was paid.
_TOLD = (
    "SELECT t.mechanism, t.as_of::timestamptz(0)::text AS as_of, t.presentation::text AS presentation,"
    " t.request::text AS request FROM dp.told t"
    " WHERE t.request_id = $1 AND (t.who = $2::name OR pg_has_role($2::name, 'dp_admin', 'MEMBER'))"
)
# Of the asker, about the same rows by the words of who paid, among the last SEARCHED rows of the ledger.
_ABOUT = (
    "(SELECT c.request_id::text AS id FROM (SELECT * FROM dp.ledger l ORDER BY l.seq DESC LIMIT {most}) c"
    " WHERE c.dataset = $2 AND c.kind = 'charge' AND (c.who = $1::name OR EXISTS (SELECT FROM dp.served s"
    " WHERE s.request_id = c.request_id AND s.who = $1::name))"
    " AND EXISTS (SELECT FROM dp.release r WHERE r.request_id = c.request_id) AND {same}"
    " ORDER BY c.seq DESC LIMIT {few})"
    " UNION ALL (SELECT t.request_id::text FROM dp.told t WHERE t.who = $1::name AND t.dataset = $2 AND {told}"
    " ORDER BY t.at DESC LIMIT {few})"
)
_SAME = (
    "{c}.request -> 'from' = $3::jsonb AND COALESCE(NULLIF({c}.request -> 'joins', 'null'), '[]') = $4::jsonb"
    " AND {c}.request ->> 'where' IS NOT DISTINCT FROM $5 AND {c}.request -> 'keys' <> '[]'"
)
_FAMILY = (
    "SELECT COALESCE(facts -> 'question' ->> 'mechanism', 'cells') AS mechanism FROM dp.family"
    " WHERE dataset = $1 AND name = $2 AND who = $3::name"
)
SEARCHED, USED = 10_000, 50


class Shelf:
    """Releases by the id of their request.

    compiled: the plan of a request document against the policy of now.
    """

    def __init__(self, execute: Execute, compiled: Callable[[Any], Plan]) -> None:
        self._execute = execute
        self._compiled = compiled

    def of(self, who: str | None) -> Releases:
        """Those that were given to a role; None: nobody asks."""
        return NONE_STORED if who is None else _Given(self._execute, self._compiled, who)

    def shown(self, request: str) -> dict[str, Any]:
        """What dp_shown returns, to whoever asks in this session. Errors: those of `Releases.stored`."""
        one = self.of(self._execute("SELECT dp._who()::text AS who", [], [])[0]["who"]).stored(request)
        try:
            told = again(one.presentation, one.raw, named=one.own)
        except Unreadable:
            raise gone(request, "was stored by a later version of pg_epsilon") from None
        return {"request_id": request, "mechanism": one.mechanism, "as_of": one.as_of, **told}


class _Given:
    """The releases that were given to one role."""

    def __init__(self, execute: Execute, compiled: Callable[[Any], Plan], who: str) -> None:
        self._execute = execute
        self._compiled = compiled
        self._who = who
        self._seen: dict[str, Stored] = {}

    def stored(self, request_id: str) -> Stored:
        """One release. 42501 unless it is the asker's, or was served to them; DP006 if nothing can be shown of it."""
        if request_id not in self._seen:
            self._seen[request_id] = self._read(request_id)
        return self._seen[request_id]

    def about(self, document: Mapping[str, Any], dataset: str) -> Sequence[Stored]:
        """Those with groups of the same rows as the document; the newest first, at most USED of each sort."""
        same, told = _SAME.format(c="c"), _SAME.format(c="t")
        asked = [self._who, dataset, json.dumps(document.get("from")), json.dumps(document.get("joins") or [])]
        sql = _ABOUT.format(most=SEARCHED, few=USED, same=same, told=told)
        rows = self._execute(sql, ["text"] * 5, [*asked, document.get("where")])
        found = []
        for row in rows:
            try:
                found.append(self.stored(row["id"]))
            except DPError:  # owed, redacted, or of a version that is not understood: it tells nothing
                continue
        return found

    def family(self, name: str, dataset: str) -> str | None:
        """The mechanism by which the asker released a family of this name; None: they released none."""
        found = self._execute(_FAMILY, ["text"] * 3, [dataset, name, self._who])
        return str(found[0]["mechanism"]) if found else None

    def _read(self, request_id: str) -> Stored:
        found = self._execute(_FOUND, ["uuid", "text"], [request_id, self._who])
        if not found or found[0]["raw"] is None:
            return self._told(request_id, charged=bool(found))
        row = found[0]
        question = None if row["request"] is None else json.loads(row["request"])
        raw = json.loads(row["raw"])
        how = self._presentation(row, raw, question, request_id)
        return Stored(request_id, row["own"], row["mechanism"], row["as_of"], raw, how, question)

    def _told(self, request_id: str, *, charged: bool) -> Stored:
        """A grouped answer that follows from other releases."""
        found = self._execute(_TOLD, ["uuid", "text"], [request_id, self._who])
        if not found and not charged:
            raise not_yours(request_id)
        if not found:
            raise gone(request_id, "has no stored answer: it is owed, or a Turbo view answered it with a single row")
        row = found[0]
        how = json.loads(row["presentation"])
        raw: list[list[int]] = [[] for _ in how["values"]]
        return Stored(request_id, True, row["mechanism"], row["as_of"], raw, how, json.loads(row["request"]))

    def _presentation(
        self, row: Mapping[str, Any], raw: list[list[int]], question: Any, request_id: str
    ) -> Mapping[str, Any]:
        """As it was stored; of 0.1.0, which stored integers alone, as its question is understood today."""
        if row["presentation"] is not None:
            found: Mapping[str, Any] = json.loads(row["presentation"])
            return found
        if question is None:
            raise gone(request_id, "cannot be shown: its question was redacted")
        try:
            plan = self._compiled(question)
        except DPError:
            raise gone(request_id, "is of an older version, and its question is not understood any more") from None
        if plan.cache_key != row["cache_key"] or not is_paid(plan, dict(row)):
            raise gone(request_id, "is of an older version, and policy, data or its meaning changed since")
        return stored(plan, raw)
