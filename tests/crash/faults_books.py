"""What a crash campaign must find in the ledger: a pure check of records, so that falsified ones can be tried.

Specification: design.md R2, composition.md §10.3 c. Answers ⊆ releases ⊆ charges; a question is charged once, however
often it had to be asked; accounts hold what the ledger says, and never more than their caps.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any


@dataclass(frozen=True)
class Ask:
    """A question of the campaign. fresh: each of its charges buys a draw of its own; dataset: who pays."""

    number: int
    kind: str
    way: str
    sql: str
    dataset: str
    fresh: bool = False


@dataclass(frozen=True)
class Heard:
    """An answer that a client received. request_id: None through the proxy, which does not show it."""

    number: int
    request_id: str | None
    rows: Any


@dataclass(frozen=True)
class Failed:
    """An attempt that brought no answer."""

    number: int
    sqlstate: str | None
    at: datetime


@dataclass(frozen=True)
class Entry:
    """A row of the ledger. number: of the question in its request, None for what has none (Turbo)."""

    request_id: str
    number: int | None
    dataset: str
    who: str
    kind: str
    epsilon: Decimal
    at: datetime


@dataclass(frozen=True)
class Account:
    """The accounts of a dataset (role '') or of a role's allotment in it.

    spent: by all of them together; most: by the root and the dearest relation, which is what one unit can lose.
    """

    dataset: str
    role: str
    cap: Decimal
    spent: Decimal
    most: Decimal


@dataclass
class Books:
    """Everything that a campaign left behind.

    released: request ids with a recorded answer; owed: those with an entitlement; repeated: what each answered question
    says when it is asked once more, at rest; charges_before, charges_after: ledger rows around those repeats.
    """

    asked: Mapping[int, Ask]
    heard: list[Heard]
    failed: list[Failed]
    ledger: list[Entry]
    released: set[str]
    owed: set[str]
    accounts: list[Account]
    repeated: Mapping[int, Any] = field(default_factory=dict)
    charges_before: int = 0
    charges_after: int = 0


@dataclass
class Verdict:
    """Violations by kind, each a line that names what is wrong; empty lists are the proof."""

    free_answers: list[str] = field(default_factory=list)
    over_budget: list[str] = field(default_factory=list)
    double_charged: list[str] = field(default_factory=list)
    out_of_balance: list[str] = field(default_factory=list)
    differing: list[str] = field(default_factory=list)

    def all(self) -> list[str]:
        return [line for lines in vars(self).values() for line in lines]


def judge(books: Books) -> Verdict:
    """Every invariant of the campaign, on its records alone."""
    verdict = Verdict()
    charges = [entry for entry in books.ledger if entry.kind == "charge"]
    by_id = {entry.request_id: entry for entry in charges}
    by_number: dict[int, list[Entry]] = defaultdict(list)
    for entry in charges:
        if entry.number is not None:
            by_number[entry.number].append(entry)
    verdict.free_answers += _free(books, by_id, by_number)
    verdict.double_charged += _double(books, by_number)
    verdict.over_budget += [
        f"{account.dataset}/{account.role}: {account.most} spent of {account.cap}"
        for account in books.accounts
        if account.most > account.cap
    ]
    verdict.out_of_balance += _unbalanced(books)
    verdict.differing += _differing(books)
    return verdict


def honoured(books: Books) -> int:
    """How many questions were charged, then failed for somebody, and were answered all the same for that charge."""
    charged = {entry.number: entry.at for entry in books.ledger if entry.kind == "charge"}
    answered = {heard.number for heard in books.heard}
    late = {each.number for each in books.failed if each.number in charged and each.at > charged[each.number]}
    return len(late & answered)


def _free(books: Books, by_id: Mapping[str, Entry], by_number: Mapping[int, list[Entry]]) -> Iterable[str]:
    for request_id in books.released - by_id.keys():
        yield f"release {request_id} has no charge"
    draws: dict[int, set[str]] = defaultdict(set)
    for heard in books.heard:
        ask = books.asked[heard.number]
        if ask.kind == "turbo":
            continue  # a histogram answers many questions for one charge: the accounts say whether it was paid
        if heard.request_id is not None:
            draws[heard.number].add(heard.request_id)
            if heard.request_id not in by_id:
                yield f"question {heard.number} was answered by {heard.request_id}, which nobody paid"
            if heard.request_id not in books.released:
                yield f"question {heard.number} was answered by {heard.request_id}, which was not recorded"
        elif not any(entry.request_id in books.released for entry in by_number.get(heard.number, ())):
            yield f"question {heard.number} was answered through the proxy, and no charge of it has a release"
    for number, found in draws.items():
        if not books.asked[number].fresh and len(found) > 1:
            yield f"question {number} was answered by {len(found)} draws"
    for request_id in books.owed & books.released:
        yield f"{request_id} is owed though it was drawn: it could be drawn twice"


def _double(books: Books, by_number: Mapping[int, list[Entry]]) -> Iterable[str]:
    answers = Counter(heard.number for heard in books.heard)
    failed = Counter(each.number for each in books.failed)
    for number, entries in by_number.items():
        if len(entries) == 1:
            continue
        if not books.asked[number].fresh:
            yield f"question {number} was charged {len(entries)} times"
            continue
        drawn = sum(entry.request_id in books.released for entry in entries)
        # Of each asker one draw may be owed still; a fresh question of the campaign has one asker. What was drawn and
        # did not reach him, because his connection died, is not repeated: fresh asks for another draw.
        if len(entries) - drawn > 1 or drawn > answers[number] + failed[number]:
            yield f"fresh question {number} was charged {len(entries)} times for {answers[number]} answers"


def _unbalanced(books: Books) -> Iterable[str]:
    sums: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    for entry in books.ledger:
        sums[entry.dataset, ""] += entry.epsilon
        sums[entry.dataset, entry.who] += entry.epsilon
    spent = {(account.dataset, account.role): account.spent for account in books.accounts}
    for key in sorted(sums.keys() | spent.keys()):
        if sums.get(key, Decimal()) != spent.get(key, Decimal()):
            yield f"{'/'.join(key)}: the ledger has {sums.get(key)}, the account {spent.get(key)}"


def _differing(books: Books) -> Iterable[str]:
    """All who asked a question heard the same, and so does who asks again; asking again charges nothing."""
    first: dict[int, Any] = {}
    for heard in books.heard:
        ask = books.asked[heard.number]
        if ask.fresh or ask.kind == "turbo":
            continue
        if first.setdefault(heard.number, heard.rows) != heard.rows:
            yield f"question {heard.number} has two answers: {first[heard.number]} and {heard.rows}"
    for number, rows in books.repeated.items():
        if first.get(number, rows) != rows:
            yield f"question {number}: {first[number]} was heard, its repeat says {rows}"
    if books.charges_after != books.charges_before:
        yield f"repeats made {books.charges_after - books.charges_before} charges"
