"""Taking a question's text out of the ledger; its link stays and still verifies (composition.md §12)."""

from __future__ import annotations

import json
from typing import Any

from pg_epsilon.engine.chain import Entry, parse
from pg_epsilon.engine.links import Links
from pg_epsilon.errors import OUT_OF_RANGE, DPError
from pg_epsilon.ledger import Execute

# The same text in another row is the same literal: Turbo writes one row for each payment.
_ROWS = (
    "SELECT to_jsonb(l)::text AS content, ((to_jsonb(r) - 'answer') || jsonb_build_object('salt', l.salt,"
    " 'answer', r.answer - 'raw'))::text AS release FROM dp.ledger l LEFT JOIN dp.release r USING (request_id)"
    " JOIN dp.ledger asked ON asked.request_id = $1::uuid AND asked.kind = 'charge'"
    " WHERE l.kind = 'charge' AND l.dataset = asked.dataset AND l.request = asked.request ORDER BY l.seq"
)
_TAKE = (
    "WITH texts AS (UPDATE dp.ledger SET request = NULL, salt = NULL WHERE request_id = ANY ($1::uuid[])),"
    " keys AS (UPDATE dp.release SET cache_key = 'redacted ' || request_id, answer = answer - 'presentation'"
    " WHERE request_id = ANY ($1::uuid[]))"
    " DELETE FROM dp.entitlement WHERE request_id = ANY ($1::uuid[])"
)


def redact(execute: Execute, links: Links, request_id: str, who: str) -> int:
    """Remove a question's text from every ledger row that holds it, and the salt; how many rows. DP005 if none does.

    The caller appends the link, last. A ledger row of kind `redact` keeps who asked and the digests, so that the chain
    can still be verified. The stored integers are kept, but no question finds them again, because their cache key could
    be guessed; how they are shown goes too, because it holds names and labels that the question made up.
    """
    rows = execute(_ROWS, ["text"], [request_id])
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
