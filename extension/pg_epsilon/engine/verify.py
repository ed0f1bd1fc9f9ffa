"""Whether a ledger is what its chain says: order, links, balances (composition.md §12). Pure: it is fed with records.

The records are those of dp.export_ledger(), in its order, from a live database or a file. Nothing but sums is kept of
them, so a ledger of any length can be verified.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from pg_epsilon.engine.chain import RELEASE, Earlier, Entry, Head, Totals, genesis
from pg_epsilon.ledger import LIFE

Record = Mapping[str, Any]
Account = tuple[str, str, str, str, str, str]  # dataset, role, period, node, relation, leaf


class Difference(Exception):
    """The first record that differs from what the chain says; number: of the link, None where there is none."""

    def __init__(self, dataset: str, number: int | None, kind: str, problem: str) -> None:
        where = f"link {number} ({kind})" if number is not None else kind
        super().__init__(f"dataset {dataset}, {where}: {problem}")
        self.dataset = dataset
        self.number = number
        self.kind = kind
        self.problem = problem


class Trail:
    """Follows the links of one dataset from a head that is believed."""

    def __init__(self, dataset: str, head: Head) -> None:
        self.dataset = dataset
        self.head = head

    def follow(self, link: Record, row: Record | None, redacted: Mapping[str, Record]) -> Entry:
        """The next link and the row it belongs to. Raises Difference."""
        place, kind = self.head.number + 1, str(link["kind"])
        if link["number"] != place:
            raise Difference(self.dataset, place, kind, "the link is missing, or out of order")
        if row is None:
            raise Difference(self.dataset, place, kind, "its row is missing")
        if link["epoch"] < self.head.epoch:
            raise Difference(self.dataset, place, kind, "its epoch is older than the link's before")
        if row["salt"] is None:
            self._redacted(link, row, redacted)
        entry = (Entry.of_release if kind == RELEASE else Entry.of_ledger)(row, link["asked"])
        if entry.asked != link["asked"]:
            raise Difference(self.dataset, place, kind, "who asked, or what was asked, was altered")
        if entry.answered != link["answered"]:
            raise Difference(self.dataset, place, kind, "its answer was altered")
        head = replace(self.head, epoch=link["epoch"]).then(entry)
        if head.hash != link["hash"]:
            raise Difference(self.dataset, place, kind, "kind, amounts, scope, time or order was altered")
        totals = self.head.totals if kind == RELEASE else self.head.totals.with_row(row)
        self.head = replace(head, totals=totals)
        return entry

    def _redacted(self, link: Record, row: Record, redacted: Mapping[str, Record]) -> None:
        """The text of a row may be gone where, and as, dp.redact recorded it."""
        known = redacted.get(row["request_id"])
        name = "cached" if link["kind"] == RELEASE else "asked"
        if known is None or known[name] != link["asked"] or row.get("who", known["who"]) != known["who"]:
            problem = "what was asked is gone, and dp.redact did not take it; or who asked was altered"
            raise Difference(self.dataset, link["number"], link["kind"], problem)


class _Dataset:
    """What is gathered about one dataset while its records go by."""

    def __init__(self, name: str, record: Record) -> None:
        self.name = name
        self.pure = record["accountant"] == "pure"
        self.trail = Trail(name, Head(1, 0, genesis(record["id"])))
        self.earlier = Earlier()
        self.upgrade: Record | None = None
        self.stored: Record | None = None
        self.redacted: dict[str, Record] = {}
        self.recorded: dict[str, Record] = {}  # by verified rows of kind redact


class Verifier:
    """Feed it every record in order, then `finish`. Both raise Difference at the first one there is."""

    def __init__(self) -> None:
        self.links = 0
        self._datasets: dict[str, _Dataset] = {}
        self._row: tuple[str, Record] | None = None
        self._spent: dict[Account, Totals] = {}
        self._charged: dict[Account, Totals] = {}
        self._read: dict[str, Callable[[Record], None]] = {
            "dataset": self._dataset,
            "head": self._head,
            "account": self._account,
            "redacted": self._redacted,
            "ledger": lambda row: self._hold("ledger", row),
            "release": lambda row: self._hold(RELEASE, row),
            "chain": self._link,
        }

    def feed(self, kind: str, content: Record) -> None:
        """One record, parsed by `chain.parse`. Kinds that it does not know are of no importance to it."""
        if kind in self._read:
            self._read[kind](content)

    def finish(self) -> None:
        """After the last record: heads, what is older than the chain, and every account."""
        self._unlinked()
        for one in self._datasets.values():
            self._check_earlier(one)
            self._check_head(one)
            if one.redacted != one.recorded:
                raise Difference(one.name, None, "redacted", "no ledger row of kind redact says so")
        for account in sorted({*self._spent, *self._charged}):
            spent, charged = (sums.get(account, Totals()) for sums in (self._spent, self._charged))
            if _trimmed(spent) != _trimmed(charged):
                of = " ".join(part for part in account[1:] if part)
                problem = f"{of} has spent epsilon {spent.epsilon}, its ledger rows add up to {charged.epsilon}"
                raise Difference(account[0], None, "account", problem)

    def _of(self, record: Record) -> _Dataset:
        name = str(record["dataset"])
        if name not in self._datasets:
            raise Difference(name, None, "dataset", "the dataset is missing")
        return self._datasets[name]

    def _dataset(self, record: Record) -> None:
        self._datasets[record["name"]] = _Dataset(record["name"], record)

    def _head(self, record: Record) -> None:
        self._of(record).stored = record

    def _account(self, record: Record) -> None:
        place = (record["node"], record["relation_key"], record["leaf_key"])
        key = (record["dataset"], record["role"], _period(record.get("period")), *place)
        spent = {name: record[f"spent_{name}"] for name in ("epsilon", "delta", "rdp")}
        self._spent[key] = _plus(self._spent.get(key, Totals()), spent)

    def _redacted(self, record: Record) -> None:
        self._of(record).redacted[record["request_id"]] = _without_dataset(record)

    def _hold(self, kind: str, row: Record) -> None:
        """A row waits for its link, which is the next record."""
        self._unlinked()
        self._row = (kind, row)
        if kind == "ledger":
            for account in _accounts(row):
                self._charged[account] = _plus(self._charged.get(account, Totals()), row)

    def _unlinked(self) -> None:
        """A row that no link followed is older than the chain, or was put in."""
        if self._row is None:
            return
        (_, row), self._row = self._row, None
        one = self._of(row)
        if one.trail.head.number:
            raise Difference(one.name, None, str(row.get("kind", RELEASE)), f"row {row['request_id']} has no link")
        known = one.redacted.get(row["request_id"], {})
        one.earlier.add(row, known.get("cached" if "answer" in row else "asked"))

    def _link(self, link: Record) -> None:
        one, row = self._of(link), None
        kind = RELEASE if link["kind"] == RELEASE else "ledger"
        if self._row is not None and (self._row[0], self._row[1]["request_id"]) == (kind, link["request_id"]):
            row, self._row = self._row[1], None
        self._unlinked()
        one.trail.follow(link, row, one.redacted)
        self.links += 1
        if row is not None and link["kind"] == "upgrade":
            one.upgrade = row["charge"][0]
        if row is not None and link["kind"] == "redact":
            one.recorded.update({part["request_id"]: part for part in row["request"]["redacted"]})

    def _check_earlier(self, one: _Dataset) -> None:
        found = one.earlier.charge()
        if one.upgrade is None and one.earlier.ledger + one.earlier.releases:
            raise Difference(one.name, None, "earlier rows", f"{one.earlier.ledger} ledger rows have no link")
        if one.upgrade is not None and found != one.upgrade:
            problem = f"{found['ledger']} rows and {found['releases']} releases are not those that the upgrade linked"
            raise Difference(one.name, 1, "upgrade", problem)

    def _check_head(self, one: _Dataset) -> None:
        head, stored = one.trail.head, one.stored
        if stored is None:
            if head.number:
                raise Difference(one.name, head.number, "head", "the chain's head is missing")
            return
        said = _plus(Totals(), stored)
        if (stored["number"], stored["hash"]) != (head.number, head.hash):
            raise Difference(
                one.name, head.number + 1, "head", f"the head names link {stored['number']}: links are gone"
            )
        if _trimmed(said) != _trimmed(head.totals):
            raise Difference(one.name, head.number, "head", "its totals are not those of the ledger rows")


def _without_dataset(record: Record) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name != "dataset"}


def _accounts(row: Record) -> Iterator[Account]:
    """Every account that a ledger row was added to: of the dataset, and of the role that paid."""
    scope = row["scope"]
    leaves = scope.get("leaves", [""]) if scope["node"] == "leaf" else [""]
    roles = ("", row["who"]) if row["kind"] in ("charge", "return") else ("",)
    for role in roles:
        period = _period(scope.get("period")) if role else ""
        for leaf in leaves:
            yield row["dataset"], role, period, scope["node"], scope.get("relation", ""), leaf


def _period(begins: str | None) -> str:
    """When the period of a renewing allotment began, in one form; "": the dataset's own tree, an allotment for life."""
    return "" if begins is None or begins == LIFE else datetime.fromisoformat(begins).astimezone(UTC).isoformat()


def _plus(totals: Totals, row: Record) -> Totals:
    return totals.plus(row["epsilon"], row["delta"], row["rdp"] or ())


def _trimmed(totals: Totals) -> tuple[Decimal, Decimal, tuple[Decimal, ...]]:
    """Comparable: a curve that was never added to is a curve of zeros."""
    rdp = totals.rdp if any(totals.rdp) else ()
    return totals.epsilon, totals.delta, rdp
