"""The chain of a dataset: what a link is, as bytes (composition.md §12). Pure: no SQL, no clock, no randomness.

Every ledger row and every release of a dataset is one link, numbered from 1 without gaps. A link is the SHA-256 of the
canonical form of

    [format, previous hash, epoch, number, kind, amounts, scope, time, asked, answered]

where *amounts* is the row without text, time and scope, *time* is in microseconds since 1970 (UTC), *asked* is the
salted digest of what could hold a literal (who asked which request; of a release its cache key, and how it is shown)
and *answered* is the digest of a release's integers. The first link's previous hash is the digest of the dataset's
random id.

Canonical form: JSON in ASCII, keys sorted, no white space; a number that is not an integer is the string U+0000
followed by its digits as stored (jsonb has no U+0000, so no text reads like a number).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal
from itertools import zip_longest
from typing import Any

FORMAT = "pg_epsilon chain 1"
RELEASE = "release"

_LEDGER_AMOUNTS = (
    "request_id",
    "seq",
    "call",
    "mechanism",
    "charge",
    "epsilon",
    "delta",
    "rdp",
    "policy_version",
    "data_version",
)
_RELEASE_AMOUNTS = ("request_id", "relation_key", "data_version", "mechanism")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_EXACT = Context(prec=200)


def parse(text: str) -> Any:
    """A JSON text of PostgreSQL's, its numbers as they are stored."""
    return _decode(text)


def _digits(text: str) -> str:
    return "\0" + text


# Made once: json.loads and json.dumps make one a call where anything is not their default, several a charge.
_decode = json.JSONDecoder(parse_float=_digits).decode
_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


def number(value: Any) -> Decimal:
    """The number that `parse` made of a JSON number."""
    return Decimal(value.lstrip("\0") if isinstance(value, str) else value)


def canonical(value: Any) -> bytes:
    """The canonical form of what `parse` returned."""
    return _encode(value).encode("ascii")


def digest(*parts: Any) -> str:
    """SHA-256 of the canonical form of a list, in hexadecimal."""
    return hashlib.sha256(canonical(parts)).hexdigest()


def genesis(dataset_id: str) -> str:
    """What the first link of a dataset names as its previous hash."""
    return digest(FORMAT, dataset_id)


def microseconds(stamp: str) -> int:
    """A timestamp with its time zone, as to_jsonb writes it, in microseconds since 1970."""
    return (datetime.fromisoformat(stamp) - _EPOCH) // _MICROSECOND


@dataclass(frozen=True)
class Totals:
    """What the linked ledger rows of a dataset charged in all; what was given back is not deducted.

    The difference between the totals of two heads is therefore never less than what any account lost between them.
    """

    epsilon: Decimal = Decimal(0)
    delta: Decimal = Decimal(0)
    rdp: tuple[Decimal, ...] = ()

    def with_row(self, row: Mapping[str, Any]) -> Totals:
        """The totals after a ledger row; a return changes nothing."""
        if row["kind"] == "return":
            return self
        return self.plus(row["epsilon"], row["delta"], row["rdp"] or ())

    def plus(self, epsilon: Any, delta: Any, rdp: Sequence[Any]) -> Totals:
        """The sum with amounts that `parse` read."""
        add = _EXACT.add
        curve = tuple(add(a, number(b)) for a, b in zip_longest(self.rdp, rdp, fillvalue=Decimal(0)))
        return Totals(add(self.epsilon, number(epsilon)), add(self.delta, number(delta)), curve)


@dataclass(frozen=True)
class Entry:
    """One row of the ledger or one release, as a link sees it: texts are digests."""

    kind: str
    request_id: str
    amounts: Mapping[str, Any]
    scope: Any
    time: int
    asked: str | None
    answered: str | None

    @classmethod
    def of_ledger(cls, row: Mapping[str, Any], asked: str | None = None) -> Entry:
        """asked: the digest that the chain holds, where the salt is gone because the question was redacted."""
        if row["salt"] is not None:
            asked = digest("asked", row["salt"], row["who"], row["request"])
        amounts = {name: row[name] for name in _LEDGER_AMOUNTS}
        return cls(row["kind"], row["request_id"], amounts, row["scope"], microseconds(row["at"]), asked, None)

    @classmethod
    def of_release(cls, row: Mapping[str, Any], asked: str | None = None) -> Entry:
        """A release; its salt is that of its ledger row."""
        answer, presentation = row["answer"], []
        if isinstance(answer, Mapping) and "presentation" in answer:
            presentation = [answer["presentation"]]
            answer = {name: part for name, part in answer.items() if name != "presentation"}
        if row["salt"] is not None:
            asked = digest("cached", row["salt"], row["cache_key"], *presentation)
        amounts = {name: row[name] for name in _RELEASE_AMOUNTS}
        answered = digest("answered", answer)
        return cls(RELEASE, row["request_id"], amounts, None, microseconds(row["as_of"]), asked, answered)

    def fields(self) -> list[Any]:
        """What is hashed of it."""
        return [self.kind, self.amounts, self.scope, self.time, self.asked, self.answered]


class Earlier:
    """Everything of a dataset that is older than its chain, as one digest: ledger rows by seq, then releases by id."""

    def __init__(self) -> None:
        self.ledger = 0
        self.releases = 0
        self._hash = hashlib.sha256(canonical(FORMAT))

    def add(self, row: Mapping[str, Any], asked: str | None = None) -> None:
        """A ledger row or a release; asked: its digest, where the question was redacted since."""
        if "answer" in row:
            self.releases += 1
            entry = Entry.of_release(row, asked)
        else:
            self.ledger += 1
            entry = Entry.of_ledger(row, asked)
        self._hash.update(canonical(entry.fields()))

    def charge(self) -> dict[str, Any]:
        """What the ledger row of kind `upgrade` holds as its charge."""
        return {"kind": "upgrade", "ledger": self.ledger, "releases": self.releases, "digest": self._hash.hexdigest()}


@dataclass(frozen=True)
class Head:
    """The newest link of a dataset: epoch, number and hash; number 0: no link yet."""

    epoch: int
    number: int
    hash: str
    totals: Totals = Totals()

    def then(self, entry: Entry) -> Head:
        """The head after one more link; the totals are the caller's to carry on."""
        place = self.number + 1
        return Head(self.epoch, place, digest(FORMAT, self.hash, self.epoch, place, *entry.fields()), self.totals)
