"""Grouped answers that follow from other releases, kept to be compared and shown again (dpxplain.md §0).

What was told is post-processing of what was paid for, so keeping it costs nothing. An answer that
nothing was paid for, and that is word for word one that the asker was told before, is that one: a
dashboard that asks every minute leaves one row.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from pg_epsilon.ledger import Execute

_KNOWN = "SELECT request_id::text FROM dp.told WHERE digest = $1 AND who = $2 AND dataset = $3 LIMIT 1"
# A step that is repeated because its reply was lost may find that a histogram moved: what it tells
# is what counts.
_KEEP = (
    "INSERT INTO dp.told (request_id, who, dataset, mechanism, digest, as_of, request, presentation)"
    " VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (request_id) DO UPDATE SET digest = EXCLUDED.digest,"
    " as_of = EXCLUDED.as_of, at = clock_timestamp(), presentation = EXCLUDED.presentation"
)


def keep(
    execute: Execute,
    request_id: str,
    presentation: Mapping[str, Any],
    *,
    mechanism: str,
    who: str,
    dataset: str,
    as_of: str,
    canonical: Mapping[str, Any],
    document: Mapping[str, Any],
    paid: bool,
) -> str:
    """The id under which a grouped answer can be found: of this request, or of an earlier one.

    canonical: what was asked, with all constants resolved. document: the request as it was sent, which
    holds the time, so that redaction finds it. paid: whether the ledger has a row of this request.
    """
    shown = json.dumps(presentation, sort_keys=True)
    digest = sha256(json.dumps([as_of, canonical, shown], sort_keys=True, default=str).encode()).digest()
    known = [] if paid else execute(_KNOWN, ["bytea", "name", "text"], [digest, who, dataset])
    if known:
        return str(known[0]["request_id"])
    execute(
        _KEEP,
        ["uuid", "name", "text", "text", "bytea", "timestamptz", "jsonb", "jsonb"],
        [request_id, who, dataset, mechanism, digest, as_of, json.dumps(document), shown],
    )
    return request_id
