"""Taking a question's text out of the ledger; its link stays and still verifies (composition.md §12)."""

from __future__ import annotations

import json
from typing import Any

from pg_epsilon.engine.chain import Entry, parse
from pg_epsilon.engine.links import Links
from pg_epsilon.errors import OUT_OF_RANGE, DPError
from pg_epsilon.ledger import Execute

# The same text in another row is the same literal: Turbo writes one row for each payment, and keeps grouped answers
# for which nothing was paid.
_ASKED = (
    "WITH asked AS (SELECT dataset, request FROM dp.ledger WHERE request_id = $1::uuid AND kind = 'charge'"
    " UNION SELECT dataset, request FROM dp.told WHERE request_id = $1::uuid) "
)
_ROWS = (
    f"{_ASKED}SELECT to_jsonb(l)::text AS content, ((to_jsonb(r) - 'answer') || jsonb_build_object('salt', l.salt,"
    " 'answer', r.answer - 'raw'))::text AS release FROM dp.ledger l LEFT JOIN dp.release r USING (request_id)"
    " JOIN asked ON l.dataset = asked.dataset AND l.request = asked.request WHERE l.kind = 'charge' ORDER BY l.seq"
)
_TELL_NO_MORE = (
    f"{_ASKED}DELETE FROM dp.told t USING asked"
    " WHERE t.dataset = asked.dataset AND t.request = asked.request RETURNING t.request_id"
)
_TAKE = (
    "WITH texts AS (UPDATE dp.ledger SET request = NULL, salt = NULL WHERE request_id = ANY ($1::uuid[])),"
    " keys AS (UPDATE dp.release SET cache_key = 'redacted ' || request_id, answer = answer - 'presentation'"
    " WHERE request_id = ANY ($1::uuid[])),"
    " steps AS (UPDATE dp.draft SET form = 'redacted' WHERE request_id = ANY ($1::uuid[])),"
    " names AS (DELETE FROM dp.family WHERE request_id = ANY ($1::uuid[])),"
    " tables AS (DELETE FROM dp.family_publication WHERE request_id = ANY ($1::uuid[]))"
    " DELETE FROM dp.entitlement WHERE request_id = ANY ($1::uuid[])"
)


def redact(execute: Execute, links: Links, request_id: str, who: str) -> int:
    """Remove a question's text from every ledger row that holds it, and the salt; how many rows. DP005 if none does.

    The caller appends the link, last. A ledger row of kind `redact` keeps who asked and the digests, so that the chain
    can still be verified. The stored integers are kept, but no question finds them again, because their cache key could
    be guessed; how they are shown goes too, because it holds names and labels that the question made up. So do answers
    of Turbo views that were kept with it: those have no row of the ledger where nothing was paid.
    """
    rows = execute(_ROWS, ["text"], [request_id])
    told = execute(_TELL_NO_MORE, ["text"], [request_id])
    if not rows and told:
        return 0
    if not rows:
        raise DPError(
            OUT_OF_RANGE,
            f"no charge {request_id} holds a question's text",
            "SELECT request_id, question FROM dp.spending lists what can be redacted.",
        )
    parts: list[dict[str, Any]] = []
    for row in rows:
        content = parse(row["content"])
        release = parse(row["release"]) if row["release"] is not None else None
        cached = Entry.of_release(release).asked if release is not None else None
        asked = Entry.of_ledger(content).asked
        parts.append({"request_id": content["request_id"], "who": content["who"], "asked": asked, "cached": cached})
    ids = [part["request_id"] for part in parts]
    version = execute("SELECT version FROM dp.policy_state", [], [])[0]["version"]
    charge, scope = json.dumps([{"kind": "redact"}]), json.dumps({"node": "root"})
    values = [None, who, content["dataset"], "redact", "dp.redact", "redact", charge, 0, 0, None, scope]
    links.enter([*values, json.dumps({"redacted": parts}), version, None])  # others see a charge, never a request
    execute(_TAKE, ["text[]"], [ids])
    return len(ids)
