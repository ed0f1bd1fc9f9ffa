"""Probes of sessions whose client_encoding is not UTF8: what they answer travels in ASCII, and is what it is.

PostgreSQL converts every text that it sends, also in answers that only the proxy sees: a column's name that the
client's encoding does not have would fail a question that does not use it, and what it has would have to be decoded as
PostgreSQL does it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

PLAIN = ("UTF8", "UNICODE")
_ROWS = (
    "SELECT pg_catalog.encode(pg_catalog.convert_to(pg_catalog.to_json(pge_q)::pg_catalog.text, 'UTF8'), 'hex')"
    " FROM ({}\n) AS pge_q"
)


def is_plain(encoding: str | None) -> bool:
    """Whether texts of the session are UTF-8."""
    return encoding is None or encoding in PLAIN


def spelled(sql: str) -> str:
    """The same query, each row one ASCII text; other statements, which return no texts, as they are."""
    return _ROWS.format(sql) if sql.lstrip().lower().startswith("select ") else sql


def read(sql: str, rows: Sequence[Sequence[str | None]]) -> list[list[str | None]]:
    """The rows of `sql` from those of `spelled(sql)`."""
    if spelled(sql) == sql:
        return [list(row) for row in rows]
    return [_row(row[0] or "") for row in rows]


def _row(text: str) -> list[str | None]:
    # Pairs: two columns may have one name.
    pairs = json.loads(bytes.fromhex(text), parse_int=str, parse_float=str, object_pairs_hook=list)
    return [("t" if value else "f") if isinstance(value, bool) else value for _, value in pairs]


def in_ascii(text: str) -> str:
    """For a reader whose encoding is unknown: ± as +/-, any other character beyond ASCII as its escape."""
    return text.replace("±", "+/-").encode("ascii", "backslashreplace").decode("ascii")
