"""A crash campaign: kills of every kind while eight clients ask by every mechanism, directly and through the proxy.

No answer is free, no question is charged twice, no budget is exceeded, nobody waits for ever; the checker itself is
tried with falsified records.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal

import pytest
from faults_books import Books, Failed, Heard, judge
from faults_campaign import Outcome, campaign
from faults_world import CROWD, CROWD_ANSWERS, world

SECONDS = 40
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def outcome() -> Iterator[Outcome]:
    with world() as stack:
        yield campaign(stack, SECONDS, pause=0.3, seed=11)


def test_nothing_is_free_and_nothing_is_paid_twice(outcome: Outcome) -> None:
    print(outcome.summary())
    assert outcome.verdict.all() == []
    assert outcome.mismatches == []
    assert outcome.hangs == []
    assert outcome.given_up == []


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_five_minutes_of_it() -> None:
    with world() as stack:
        outcome = campaign(stack, 300, pause=0.25, seed=12)
    print(outcome.summary())
    assert outcome.faults >= 300
    assert [*outcome.verdict.all(), *outcome.mismatches, *outcome.hangs, *outcome.given_up] == []


def test_every_kind_of_harm_struck_while_clients_were_answered(outcome: Outcome) -> None:
    assert len(outcome.struck) >= 16 and min(outcome.struck.values()) >= 1, outcome.struck
    assert outcome.books.failed, "no client was ever harmed"
    kinds = {outcome.books.asked[heard.number].kind for heard in outcome.books.heard}
    assert {"count", "fresh", "r2t", "crowd", "turbo", "plain groups", "join", "paths"} <= kinds
    assert outcome.honoured > 0, "no entitlement was drawn by a repeat"


def test_the_crowd_gets_its_budget_and_no_more(outcome: Outcome) -> None:
    crowd = [account for account in outcome.books.accounts if account.dataset == CROWD]
    paid = [entry for entry in outcome.books.ledger if entry.dataset == CROWD and entry.kind == "charge"]
    assert len(paid) <= CROWD_ANSWERS
    assert all(account.spent == account.most <= account.cap for account in crowd) and len(crowd) == 2


# -- controls: falsified records must be caught ------------------------------------------------------------------------


def _some(books: Books) -> Heard:
    """An answer of a direct question that is charged once."""
    return next(h for h in books.heard if h.request_id is not None and books.asked[h.number].kind == "count")


def _charge(books: Books, heard: Heard) -> int:
    return next(i for i, entry in enumerate(books.ledger) if entry.request_id == heard.request_id)


def test_a_lost_charge_is_seen(outcome: Outcome) -> None:
    heard = _some(outcome.books)
    lost = [entry for entry in outcome.books.ledger if entry.request_id != heard.request_id]
    verdict = judge(replace(outcome.books, ledger=lost))
    assert verdict.free_answers and verdict.out_of_balance


def test_a_free_answer_is_seen(outcome: Outcome) -> None:
    heard = _some(outcome.books)
    invented = replace(heard, request_id="00000000-0000-0000-0000-000000000000")
    assert judge(replace(outcome.books, heard=[*outcome.books.heard, invented])).free_answers
    books = outcome.books
    unrecorded = replace(books, released=books.released - {heard.request_id or ""})
    assert judge(unrecorded).free_answers


def test_a_free_answer_through_the_proxy_is_seen(outcome: Outcome) -> None:
    books = outcome.books
    heard = next(h for h in books.heard if books.asked[h.number].kind == "plain count")
    ids = {entry.request_id for entry in books.ledger if entry.number == heard.number}
    assert ids and judge(replace(books, released=books.released - ids)).free_answers


def test_an_entitlement_drawn_twice_is_seen(outcome: Outcome) -> None:
    """Twice the same charge gives two answers; or what was drawn is owed still."""
    books, heard = outcome.books, _some(outcome.books)
    other = replace(heard, rows=[["-1"]])
    assert judge(replace(books, heard=[*books.heard, other])).differing
    assert judge(replace(books, owed=books.owed | {heard.request_id or ""})).free_answers


def test_a_double_charge_is_seen(outcome: Outcome) -> None:
    books, heard = outcome.books, _some(outcome.books)
    twice = replace(books.ledger[_charge(books, heard)], request_id="00000000-0000-0000-0000-000000000001")
    verdict = judge(replace(books, ledger=[*books.ledger, twice]))
    assert verdict.double_charged and verdict.out_of_balance


def test_a_fresh_answer_that_was_paid_thrice_is_seen(outcome: Outcome) -> None:
    """Three charges for one answer; and two draws, unless the client lost the first one, who asks for another."""
    books = outcome.books
    failures = {each.number for each in books.failed}
    heard = next(h for h in books.heard if books.asked[h.number].fresh and h.number not in failures)
    entry = books.ledger[_charge(books, heard)]
    more = [replace(entry, request_id=f"00000000-0000-0000-0000-00000000000{i}") for i in range(2)]
    assert judge(replace(books, ledger=[*books.ledger, *more])).double_charged
    twice = replace(books, ledger=[*books.ledger, more[0]], released=books.released | {more[0].request_id})
    assert judge(twice).double_charged
    lost = Failed(heard.number, None, entry.at)
    assert not judge(replace(twice, failed=[*books.failed, lost])).double_charged


def test_an_exceeded_budget_is_seen(outcome: Outcome) -> None:
    first, *others = outcome.books.accounts
    over = replace(first, most=first.cap + Decimal("1e-14"))
    assert judge(replace(outcome.books, accounts=[over, *others])).over_budget


def test_a_paid_repeat_is_seen(outcome: Outcome) -> None:
    books = outcome.books
    assert judge(replace(books, charges_after=books.charges_after + 1)).differing
