"""When a synopsis is worth its price: prices and counters only, in answers by noise."""

from __future__ import annotations

from decimal import Decimal

import pytest

from pg_epsilon.turbo.bins import Domain, Query, box_query
from pg_epsilon.turbo.designs import Outlook
from pg_epsilon.turbo.rent import Account, Tally, declared_rent, worth_buying

DOMAIN = Domain((4, 8))
C = Decimal(8)
NONE = Tally()
FIRST = NONE.plus(Decimal("0.1"), Decimal(1))


def account(rent: float = 0, rise: float = 1, since: int = 0) -> Account:
    return Account(Decimal(1), Decimal(rent), Decimal(rise), since)


def buys(outlook: Outlook, rent: float = 0, before: Tally = NONE, busiest: int | None = None) -> bool:
    now = before.plus(Decimal("0.1"), Decimal(1))
    return worth_buying(C, account(rent), outlook, before, now, None if busiest is None else Decimal(busiest))


def cells(count: int) -> tuple[Query, ...]:
    return tuple(box_query(DOMAIN, [[i % 4], [i // 4]]) for i in range(count))


def test_a_tally_is_kept() -> None:
    tally = Tally(7, Decimal("0.5"), Decimal("3.25"), 2)
    assert Tally.from_bytes(tally.to_bytes()) == tally
    assert Tally.from_bytes(None) == Tally()


def test_with_nothing_to_go_by_once_rent_has_reached_the_price() -> None:
    assert not buys(Outlook(), rent=7)
    assert buys(Outlook(), rent=7.5)
    assert not buys(Outlook(partitioned=True), rent=7)


def test_a_workload_decides_at_once() -> None:
    """By the fullest bin, and with a forecast by how much of the workload that is."""
    assert buys(Outlook(workload=cells(20)), busiest=9)
    assert not buys(Outlook(workload=cells(20)), busiest=8)
    assert not buys(Outlook(2, cells(20)), busiest=9)
    assert buys(Outlook(40, cells(20)), busiest=9)
    assert not buys(Outlook(40, cells(20)), busiest=8), "each is paid for once, however often it is asked"


def test_a_workload_on_partitions_needs_enough_questions_for_each() -> None:
    """A window costs each of its partitions a part only, and one question's windows cost at most two answers."""
    few, many = (Outlook(count, cells(20), True, 50) for count in (200, 5000))
    assert not buys(few, busiest=18)
    assert buys(many, busiest=18)
    assert not buys(Outlook(10**6, cells(20), True, 50), busiest=3)


def test_a_forecast_decides_by_how_full_bins_will_be() -> None:
    assert buys(Outlook(200))
    assert not buys(Outlook(20))
    assert buys(Outlook(10_000, (), True, 50))
    assert not buys(Outlook(1000, (), True, 50))


def test_a_single_large_question_is_not_yet_believed() -> None:
    large = NONE.plus(Decimal("0.9"), Decimal(1))
    assert not worth_buying(C, account(), Outlook(12), NONE, large, None)


def test_where_most_have_a_synopsis_the_others_carry_all_questions() -> None:
    outlook = Outlook(1000, (), True, 50)
    before = Tally(100, Decimal(10), Decimal(20))
    assert not buys(outlook, before=before)
    assert buys(outlook, before=before._replace(bought=40))
    assert not buys(Outlook(10, (), True, 50), before=NONE._replace(bought=60)), "more than were expected"


def test_the_rate_of_rent_counts_where_questions_crowd() -> None:
    """Tiny questions about the same bins: the average bin stays empty."""
    crowded = Tally(60, Decimal("0.1"), Decimal(60))
    tiny = crowded.plus(Decimal(0), Decimal(1))
    price = Decimal(800)
    assert worth_buying(price, account(60), Outlook(2000), crowded, tiny, None)
    spread = Tally(600, Decimal("0.1"), Decimal(60))
    assert not worth_buying(price, account(60), Outlook(2000), spread, spread.plus(Decimal(0), Decimal(0)), None)


def test_few_questions_of_a_dear_synopsis_are_not_yet_believed() -> None:
    assert not worth_buying(Decimal(800), account(), Outlook(100_000), NONE, FIRST, None)


@pytest.mark.parametrize(("rent", "buy"), [(10.9, False), (11.1, True)])
def test_where_little_is_to_come_rent_goes_on_for_a_while(rent: float, buy: bool) -> None:
    """990 of 1,000 were asked; one and a half times the price is the end of it."""
    assert buys(Outlook(1000), rent, Tally(990, Decimal(10), Decimal(10))) is buy


def test_a_forecast_that_is_used_up_says_nothing() -> None:
    after = Tally(1000, Decimal(100), Decimal(100))
    assert not buys(Outlook(1000), 6, after)
    assert buys(Outlook(1000), 8, after)


def test_a_late_partition_has_its_questions_before_it() -> None:
    """What was asked before a partition was is not of its share."""
    outlook, before = Outlook(10_000, (), True, 50), Tally(9000, Decimal(900), Decimal(900))
    now = before.plus(Decimal("0.1"), Decimal(1))
    assert worth_buying(C, account(since=9000), outlook, before, now, None)
    assert not worth_buying(C, account(since=0), outlook, before, now, None)


def test_the_fullest_bin_of_a_workload() -> None:
    every = (
        *cells(32),
        box_query(DOMAIN, [[0], None]),
        box_query(DOMAIN, [[0], [0, 1]]),
        box_query(DOMAIN, [None, None]),
    )
    assert declared_rent(DOMAIN, Outlook(workload=every)) == 4
