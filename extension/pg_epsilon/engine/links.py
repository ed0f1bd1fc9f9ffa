"""Ledger rows and releases as they are written, each with its link in the chain (composition.md §12).

`enter` and `publish` write a row and note it; `append` writes the links of all that was noted. It is the last statement
of a transaction, because it locks the head of the dataset's chain: numbers have no gaps, so whoever comes next waits.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from pg_epsilon.decimals import plain
from pg_epsilon.engine.chain import RELEASE, Earlier, Entry, Head, Totals, genesis, parse
from pg_epsilon.errors import CHANNEL, DPError
from pg_epsilon.ledger import Execute

_LEDGER_ROW = (
    "INSERT INTO dp.ledger AS l (request_id, who, dataset, kind, call, mechanism, charge, epsilon, delta, rdp, scope,"
    " request, policy_version, data_version)"
    " VALUES (coalesce($1, gen_random_uuid()), $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)"
    " RETURNING to_jsonb(l)::text AS content"
)
_LEDGER_TYPES = [
    "uuid",
    "name",
    "text",
    "text",
    "text",
    "text",
    "jsonb",
    "numeric",
    "numeric",
    "numeric[]",
    "jsonb",
    "jsonb",
    "bigint",
    "bigint",
]
_RELEASE = (
    "INSERT INTO dp.release AS r (request_id, cache_key, dataset, relation_key, data_version, mechanism, answer)"
    " VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING json_build_object('request_id', request_id, 'cache_key', cache_key,"
    " 'dataset', dataset, 'relation_key', relation_key, 'data_version', data_version, 'mechanism', mechanism,"
    " 'as_of', as_of, 'salt', (SELECT l.salt FROM dp.ledger l WHERE l.request_id = r.request_id)) AS content,"
    " (answer -> 'presentation')::text AS presentation"
)
_RELEASE_TYPES = ["uuid", "text", "text", "text", "bigint", "text", "jsonb"]
_WRITTEN = "SELECT to_jsonb(l)::text AS content FROM dp.ledger l WHERE l.request_id = ANY ($1::uuid[]) ORDER BY l.seq"
_UNLINKED = (  # a page of what has no link, and where the next one begins
    (
        "SELECT to_jsonb(l)::text AS content, l.seq::text AS place FROM dp.ledger l WHERE l.dataset = $1"
        " AND l.seq > $2::bigint"
        " AND NOT EXISTS (SELECT FROM dp.chain c WHERE c.request_id = l.request_id AND c.kind <> 'release')"
        " ORDER BY l.seq LIMIT 10000",
        "-1",
    ),
    (
        "SELECT (to_jsonb(r) || jsonb_build_object('salt', l.salt))::text AS content, r.request_id::text AS place"
        " FROM dp.release r JOIN dp.ledger l USING (request_id) WHERE r.dataset = $1 AND r.request_id > $2::uuid"
        " AND NOT EXISTS (SELECT FROM dp.chain c WHERE c.request_id = r.request_id AND c.kind = 'release')"
        " ORDER BY r.request_id LIMIT 10000",
        "00000000-0000-0000-0000-000000000000",
    ),
)
_NOT_UPGRADED = (
    "SELECT d.name FROM dp.dataset d WHERE NOT EXISTS (SELECT FROM dp.ledger l WHERE l.dataset = d.name"
    " AND l.kind = 'upgrade') ORDER BY d.name"
)
_UPGRADE_ROW = (
    "INSERT INTO dp.ledger (request_id, who, dataset, kind, call, mechanism, charge, epsilon, delta, scope,"
    " policy_version) SELECT gen_random_uuid(), session_user, $1, 'upgrade', 'ALTER EXTENSION', 'upgrade', $2, 0, 0,"
    """ '{"node": "root"}', version FROM dp.policy_state RETURNING request_id::text"""
)
_HEAD = (
    "SELECT d.id::text, h.epoch, h.number, encode(h.hash, 'hex') AS hash, h.epsilon::text, h.delta::text,"
    " h.rdp::text[] AS rdp FROM dp.chain_head h JOIN dp.dataset d ON d.name = h.dataset WHERE h.dataset = $1"
)
_LOCKED = f"{_HEAD} FOR UPDATE OF h"
_APPEND = (
    "WITH head AS (UPDATE dp.chain_head SET number = $2, hash = decode($3, 'hex'), epsilon = $4, delta = $5, rdp = $6"
    " WHERE dataset = $1)"
    " INSERT INTO dp.chain (dataset, number, epoch, kind, request_id, asked, answered, hash)"
    " SELECT $1, u.number, $7, u.kind, u.request_id, decode(u.asked, 'hex'), decode(u.answered, 'hex'),"
    " decode(u.hash, 'hex')"
    " FROM unnest($8::bigint[], $9::text[], $10::uuid[], $11::text[], $12::text[], $13::text[])"
    " AS u(number, kind, request_id, asked, answered, hash)"
)
_APPEND_TYPES = ["text", "bigint", "text", "numeric", "numeric", "numeric[]", "integer"]
_APPEND_TYPES += ["bigint[]", "text[]", "uuid[]", "text[]", "text[]", "text[]"]


@dataclass(frozen=True)
class _Noted:
    dataset: str
    entry: Entry
    row: dict[str, Any]


class Links:
    """What this transaction wrote and has not linked yet. One per backend."""

    def __init__(self, execute: Execute) -> None:
        self._execute = execute
        self._noted: list[_Noted] = []
        self._concerned: str | None = None

    def clear(self) -> None:
        """Forget what a transaction noted that did not end well."""
        self._noted.clear()
        self._concerned = None

    def concern(self, dataset: str | None) -> None:
        """Name the dataset whose head the reply is to carry, even if this transaction writes no link."""
        self._concerned = dataset

    def enter(self, values: Sequence[Any]) -> None:
        """Write one ledger row; values: in the order of `_LEDGER_ROW`, the first one None for a new id."""
        self._note(self._execute(_LEDGER_ROW, _LEDGER_TYPES, values)[0]["content"])

    def publish(self, values: Sequence[Any]) -> None:
        """Write one release; values: in the order of `_RELEASE`, the last one is the answer."""
        written = self._execute(_RELEASE, _RELEASE_TYPES, values)[0]
        row = parse(written["content"])
        row["answer"] = parse(values[-1])
        if written["presentation"] is not None:  # its numbers as they are stored: 1E-5 is 0.00001 then
            row["answer"]["presentation"] = parse(written["presentation"])
        self._noted.append(_Noted(row["dataset"], Entry.of_release(row), row))

    def link(self, request_ids: Sequence[str]) -> None:
        """Link ledger rows that SQL of ours wrote in this transaction (dp._chain)."""
        self.clear()
        self.note(request_ids)
        self.append()

    def note(self, request_ids: Sequence[str]) -> None:
        """Note ledger rows that SQL of ours wrote in this transaction, for `append`."""
        for found in self._execute(_WRITTEN, ["text[]"], [list(request_ids)]):
            self._note(found["content"])

    def link_earlier(self) -> None:
        """One link per dataset over all that is older than the chain (dp._chain_upgrade)."""
        datasets = self._execute(_NOT_UPGRADED, [], [])
        for name in [str(row["name"]) for row in datasets]:
            earlier = Earlier()
            for sql, first in _UNLINKED:
                place = first
                while page := self._execute(sql, ["text", "text"], [name, place]):
                    for found in page:
                        earlier.add(parse(found["content"]))
                    place = page[-1]["place"]
            if earlier.ledger:
                made = self._execute(_UPGRADE_ROW, ["text", "jsonb"], [name, json.dumps([earlier.charge()])])
                self.link([made[0]["request_id"]])

    def _note(self, content: str) -> None:
        row = parse(content)
        self._noted.append(_Noted(row["dataset"], Entry.of_ledger(row), row))

    def append(self) -> dict[str, Any] | None:
        """Link everything noted: the last statement of its transaction. The new head (of one dataset) or None.

        Where nothing was noted, the head of the dataset that `concern` named, unlocked: a stored answer's reply carries
        it too, because the reply that first carried the answer may have got lost with its proxy.
        """
        noted, self._noted = self._noted, []
        if not noted and self._concerned is not None:
            found = self._execute(_HEAD, ["text"], [self._concerned])
            return {"id": str(found[0]["id"]), **head_to_json(_head(found[0]))} if found else None
        heads = [self._append(dataset, noted) for dataset in sorted({one.dataset for one in noted})]
        return heads[0] if heads else None

    def _append(self, dataset: str, noted: Sequence[_Noted]) -> dict[str, Any]:
        head, dataset_id = self._locked(dataset)
        totals, rows = head.totals, []
        for one in noted:
            if one.dataset == dataset:
                head = head.then(one.entry)
                totals = totals if one.entry.kind == RELEASE else totals.with_row(one.row)
                rows.append((head.number, one.entry, head.hash))
        self._execute(
            _APPEND,
            _APPEND_TYPES,
            [
                dataset,
                head.number,
                head.hash,
                totals.epsilon,
                totals.delta,
                list(totals.rdp) or None,
                head.epoch,
                [number for number, _, _ in rows],
                [entry.kind for _, entry, _ in rows],
                [entry.request_id for _, entry, _ in rows],
                [entry.asked for _, entry, _ in rows],
                [entry.answered for _, entry, _ in rows],
                [hashed for _, _, hashed in rows],
            ],
        )
        return {"id": dataset_id, **head_to_json(replace(head, totals=totals))}

    def _locked(self, dataset: str) -> tuple[Head, str]:
        """The head of a dataset's chain, locked, and the dataset's id; it is made with the dataset's first link."""
        found = self._execute(_LOCKED, ["text"], [dataset])
        if not found:
            known = self._execute("SELECT id::text FROM dp.dataset WHERE name = $1", ["text"], [dataset])
            self._execute(
                "INSERT INTO dp.chain_head (dataset, hash) VALUES ($1, decode($2, 'hex')) ON CONFLICT DO NOTHING",
                ["text", "text"],
                [dataset, genesis(known[0]["id"])],
            )
            found = self._execute(_LOCKED, ["text"], [dataset])
        if not found:
            raise DPError(
                CHANNEL,
                f"the chain of dataset {dataset} has no head",
                "The administrator runs dp.check() and pg-epsilon ledger verify.",
            )
        return _head(found[0]), str(found[0]["id"])


def _head(row: dict[str, Any]) -> Head:
    rdp = tuple(Decimal(value) for value in row["rdp"] or ())
    totals = Totals(Decimal(row["epsilon"]), Decimal(row["delta"]), rdp)
    return Head(row["epoch"], row["number"], row["hash"], totals)


def head_to_json(head: Head) -> dict[str, Any]:
    """A head as a reply to the gateway carries it."""
    totals = head.totals
    return {
        "epoch": head.epoch,
        "number": head.number,
        "hash": head.hash,
        "totals": {
            "epsilon": plain(totals.epsilon),
            "delta": plain(totals.delta),
            "rdp": [plain(value) for value in totals.rdp],
        },
    }
