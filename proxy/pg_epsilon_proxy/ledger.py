"""`pg-epsilon ledger verify`: every row, link and balance of a live database or of an export (composition.md §12)."""

from __future__ import annotations

from typing import Any

from pg_epsilon.engine.chain import parse
from pg_epsilon.engine.verify import Difference, Verifier

RECORDS = "SELECT kind, content::text FROM dp._ledger_records()"
PREFETCH = 1000
BROKEN = "is not a line of an export: psql -At -c 'SELECT to_json(e) FROM dp.export_ledger() e' writes one"


async def verify_live(connection: Any) -> str:
    """What was verified, in words. Raises Difference. One snapshot, one cursor: memory does not grow with the rows."""
    verifier = Verifier()
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        async for kind, content in connection.cursor(RECORDS, prefetch=PREFETCH):
            verifier.feed(kind, parse(content))
    verifier.finish()
    return _verified(verifier)


def verify_export(path: str) -> str:
    """What was verified, in words. Raises Difference, and OSError where the file cannot be read."""
    verifier = Verifier()
    with open(path, encoding="utf-8") as lines:
        for place, line in enumerate(lines, 1):
            try:
                record = parse(line)
                kind, content = record["kind"], record["content"]
            except (ValueError, TypeError, KeyError):
                raise Difference("?", None, f"line {place}", BROKEN) from None
            try:
                verifier.feed(kind, content)
            except (KeyError, TypeError, ValueError, ArithmeticError):
                raise Difference("?", None, f"line {place}", "is not a record of dp.export_ledger()") from None
    verifier.finish()
    return _verified(verifier)


def _verified(verifier: Verifier) -> str:
    return f"verified: {verifier.links} links, every ledger row, release and account"
