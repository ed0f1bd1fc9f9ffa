"""The end of every chain, for dp.check(): bounded work (composition.md §12). The whole: `pg-epsilon ledger verify`."""

from __future__ import annotations

from typing import Any

from pg_epsilon.engine.chain import Head, genesis, parse
from pg_epsilon.engine.verify import Difference, Trail
from pg_epsilon.ledger import Execute

TAIL = 1000  # links
_HINT = "pg-epsilon ledger verify finds the first one; stop answering and compare with the latest export."
_HEADS = (
    "SELECT d.name, d.id::text, coalesce(h.number, 0) AS number, encode(h.hash, 'hex') AS hash,"
    " (SELECT count(*) FROM dp.ledger l WHERE l.dataset = d.name)"
    " + (SELECT count(*) FROM dp.release r WHERE r.dataset = d.name) AS rows,"
    " (SELECT coalesce(sum((u.charge -> 0 ->> 'ledger')::bigint + (u.charge -> 0 ->> 'releases')::bigint), 0)"
    " FROM dp.ledger u WHERE u.dataset = d.name AND u.kind = 'upgrade') AS earlier"
    " FROM dp.dataset d LEFT JOIN dp.chain_head h ON h.dataset = d.name ORDER BY d.name"
)
_REDACTED = (
    "SELECT r.part::text AS part FROM dp.ledger l CROSS JOIN LATERAL jsonb_array_elements(l.request -> 'redacted')"
    " r(part) WHERE l.dataset = $1 AND l.kind = 'redact'"
)


def tail_problems(execute: Execute) -> list[dict[str, Any]]:
    """What is wrong with heads, counts and the last links: dataset, problem, hint."""
    found = []
    for head in execute(_HEADS, [], []):
        try:
            _check(execute, head)
        except Difference as difference:
            found.append({"dataset": head["name"], "problem": f"the chain: {difference}", "hint": _HINT})
    return found


def _check(execute: Execute, head: dict[str, Any]) -> None:
    name, number = str(head["name"]), int(head["number"])
    if head["rows"] != number + head["earlier"]:
        problem = f"{head['rows']} ledger rows and releases, {number + head['earlier']} of them linked"
        raise Difference(name, None, "count", problem)
    if not number:
        return
    trail = Trail(name, _start(execute, head, max(0, number - TAIL)))
    parts = [parse(row["part"]) for row in execute(_REDACTED, ["text"], [name])]
    redacted = {part["request_id"]: part for part in parts}
    row = None
    sql = "SELECT kind, content::text AS content FROM dp._link_records($1, $2)"
    for record in execute(sql, ["text", "bigint"], [name, trail.head.number]):
        content = parse(record["content"])
        if record["kind"] == "chain":
            trail.follow(content, row, redacted)
            row = None
        else:
            row = content
    if (trail.head.number, trail.head.hash) != (number, head["hash"]):
        raise Difference(name, trail.head.number + 1, "head", f"the head names link {number}: links are gone")


def _start(execute: Execute, head: dict[str, Any], number: int) -> Head:
    """The link where the tail begins is believed; the first one follows from the dataset's id."""
    sql = "SELECT epoch, encode(hash, 'hex') AS hash FROM dp.chain WHERE dataset = $1 AND number = $2"
    found = execute(sql, ["text", "bigint"], [head["name"], number])
    if found:
        return Head(found[0]["epoch"], number, found[0]["hash"])
    if number:
        raise Difference(head["name"], number, "link", "the link is missing")
    return Head(1, 0, genesis(head["id"]))
