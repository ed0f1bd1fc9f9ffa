"""What a witness outside this server has seen of the chains (composition.md §12).

A copy of the whole disk, put back in place, is equal to its original in everything that the server can look at. But a
proxy that sent answers remembers the head of each dataset's chain, and the copy lacks that link.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from pg_epsilon.decimals import plain
from pg_epsilon.ledger import Execute

# A head that the chain does not hold: neither the same link, nor one that a confirmation settled.
_SEEN = (
    "SELECT d.name, d.accountant, w.epoch, w.number, w.totals::text AS totals, coalesce(h.number, 0) AS here,"
    " coalesce(h.epsilon, 0)::text AS epsilon, coalesce(h.delta, 0)::text AS delta, h.rdp::text[] AS rdp,"
    " h.witnessed IS NULL AS first, coalesce(encode(c.hash, 'hex') = w.hash, false)"
    " OR coalesce(w.number <= (h.settled ->> w.epoch::text)::bigint, false) AS held, f.detail::text AS known"
    " FROM jsonb_to_recordset($1) AS w(id uuid, epoch integer, number bigint, hash text, totals jsonb)"
    " JOIN dp.dataset d ON d.id = w.id LEFT JOIN dp.chain_head h ON h.dataset = d.name"
    " LEFT JOIN dp.chain c ON c.dataset = d.name AND c.number = w.number AND c.epoch = w.epoch"
    " LEFT JOIN dp.freeze f ON f.dataset = d.name AND f.reason = 'witness' ORDER BY d.name"
)
_FREEZE = (
    "INSERT INTO dp.freeze AS f (dataset, reason, detail) VALUES ($1, 'witness', $2)"
    " ON CONFLICT (dataset, reason) DO UPDATE SET detail = EXCLUDED.detail"
)


def check_witness(execute: Execute, heads: str | None) -> list[str]:
    """Freeze every dataset whose chain lacks a link that the witness names; its entitlements end.

    heads: a JSON list of {id, epoch, number, hash, totals}, as replies to the gateway carry them; None: no witness.
    What is not known here is of another database and says nothing. The datasets of which none ever spoke before.
    """
    first = []
    for seen in execute(_SEEN, ["jsonb"], [heads]) if heads is not None else []:
        if not seen["held"]:
            _freeze(execute, seen)
        elif seen["first"]:
            first.append(str(seen["name"]))
    return first


def note_witnessed(execute: Execute, datasets: list[str]) -> None:
    """Remember that a witness spoke of these datasets: the last statement of a transaction, since it locks heads."""
    if datasets:
        sql = "UPDATE dp.chain_head SET witnessed = clock_timestamp() WHERE dataset = ANY ($1) AND witnessed IS NULL"
        execute(sql, ["text[]"], [datasets])


def _freeze(execute: Execute, seen: Mapping[str, Any]) -> None:
    """Two witnesses may name two heads: the highest number of each epoch counts, and the greatest of each total."""
    known = json.loads(seen["known"]) if seen["known"] else {}
    heads = dict(known.get("heads", {}))
    epoch = str(seen["epoch"])
    heads[epoch] = max(int(heads.get(epoch, 0)), seen["number"])
    totals = _greatest(json.loads(seen["totals"]), known.get("totals", {}))
    if (heads, totals) == (known.get("heads"), known.get("totals")):
        return
    here = {"epsilon": seen["epsilon"], "delta": seen["delta"], "rdp": seen["rdp"] or []}
    missing = _missing(totals, here)
    told = f"epsilon {totals['epsilon']}" if seen["accountant"] == "pure" else f"the curve {totals['rdp']}"
    detail = {
        "heads": heads,
        "totals": totals,
        "missing": missing,
        "add": _arguments(missing, seen["accountant"]),
        "elsewhere": f"link {max(heads.values())} and {told} charged in all were seen; here are {seen['here']} links"
        f" and {here['epsilon'] if seen['accountant'] == 'pure' else here['rdp']}",
    }
    execute(_FREEZE, ["text", "jsonb"], [seen["name"], json.dumps(detail)])
    execute("SELECT dp._void_entitlements($1)", ["text"], [seen["name"]])


def _pairs(one: list[str], other: list[str]) -> list[tuple[Decimal, Decimal]]:
    size = max(len(one), len(other))
    first, second = ([Decimal(v) for v in curve] + [Decimal(0)] * (size - len(curve)) for curve in (one, other))
    return list(zip(first, second, strict=True))


def _greatest(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **{name: plain(max(Decimal(one[name]), Decimal(other.get(name, 0)))) for name in ("epsilon", "delta")},
        "rdp": [plain(max(pair)) for pair in _pairs(one["rdp"], other.get("rdp", []))],
    }


def _missing(totals: Mapping[str, Any], here: Mapping[str, Any]) -> dict[str, Any]:
    """What the witness saw charged and this ledger does not hold; never below zero."""
    zero = Decimal(0)
    return {
        **{name: plain(max(zero, Decimal(totals[name]) - Decimal(here[name]))) for name in ("epsilon", "delta")},
        "rdp": [plain(max(zero, a - b)) for a, b in _pairs(totals["rdp"], here["rdp"])],
    }


def _arguments(missing: Mapping[str, Any], accountant: str) -> str:
    """The arguments of dp.confirm_ledger that add what is missing."""
    spent = f"add_epsilon => {missing['epsilon']}"
    if accountant != "pure":
        spent = f"add_curve => '{{{','.join(missing['rdp'])}}}'"
    return spent + (f", add_delta => {missing['delta']}" if missing["delta"] != "0" else "")
