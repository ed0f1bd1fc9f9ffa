"""The SAVEPOINTs and RELEASEs that a several-statement Query begins with: psqlODBC sends them before each statement."""

from __future__ import annotations

import re

from pg_epsilon.query.parse import parse_statements

_LEADING = re.compile(
    r'(?:\s*(?:SAVEPOINT|RELEASE(?:\s+SAVEPOINT)?)\s+(?:[a-z_]\w*|"\w+")\s*;)+', re.IGNORECASE | re.ASCII
)


def leading(sql: str) -> int:
    """How many characters of the message they are; 0 if nothing follows them, or if the message does not parse:
    a syntax error anywhere refuses it before any of it runs."""
    found = _LEADING.match(sql)
    if found is None or not sql[found.end() :].strip():
        return 0
    try:
        return found.end() if parse_statements(sql) else 0
    except Exception:
        return 0
