"""Rent or buy (composition.md §7.5): when a synopsis is worth its price. Public facts, prices and counters only."""

from __future__ import annotations

import struct
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

from pg_epsilon.turbo.bins import Domain
from pg_epsilon.turbo.designs import Outlook

_TALLY = struct.Struct("<QQQQ")
_FINE = 1 << 32
_USUAL = Decimal("0.125"), 2  # the part of the bins that a question has, as if so many had been asked already
_SAMPLE = 20  # questions are believed to be typical once their rent has reached this part of the price
_ABOVE = Decimal("1.5")  # by how many deviations the fullest of many bins is fuller than is to be expected of it
_LATE = Decimal("1.5")  # how much of the price is rented where less than the price is still to come


class Tally(NamedTuple):
    """What a view was paid for so far: questions; the parts of all bins that they had, and the rent that they paid.

    asked: questions that needed noise. shares: the sum of bins asked about / all bins. rent: of what each raised the
    accounts by, the sum over partitions, in answers on one partition alone. bought: partitions that have a synopsis. A
    question costs the others that it asks about one answer together, so a partition's rent is, on the average, that of
    all questions by the number of partitions without one, whatever the windows are.
    """

    asked: int = 0
    shares: Decimal = Decimal(0)
    rent: Decimal = Decimal(0)
    bought: int = 0

    def to_bytes(self) -> bytes:
        return _TALLY.pack(self.asked, int(self.shares * _FINE), int(self.rent * _FINE), self.bought)

    @staticmethod
    def from_bytes(data: bytes | None) -> Tally:
        if data is None:
            return Tally()
        asked, shares, rent, bought = _TALLY.unpack(data)
        return Tally(asked, Decimal(shares) / _FINE, Decimal(rent) / _FINE, bought)

    def plus(self, shares: Decimal, rent: Decimal, asked: int = 1) -> Tally:
        return self._replace(asked=self.asked + asked, shares=self.shares + shares, rent=self.rent + rent)


class Account(NamedTuple):
    """A partition's: answer: the price of one there; rent: paid since the last synopsis; rise: what this request adds;
    since: how many questions the view had been paid for when this partition was first asked about."""

    answer: Decimal
    rent: Decimal
    rise: Decimal
    since: int


def worth_buying(
    price: Decimal, account: Account, outlook: Outlook, before: Tally, now: Tally, busiest: Decimal | None
) -> bool:
    """Whether to buy a synopsis before this request.

    before, now: the view's questions without and with this one. busiest: `declared_rent`, if only declared questions
    are asked. With nothing to go by: once rent has reached the price. Otherwise once what is still to come, by the
    workload or the forecast, is more than the price; or once rent has gone beyond the price all the same.
    """
    rent = account.rent + account.rise
    if outlook.forecast is None:
        return rent > price or (busiest is not None and busiest * account.answer > price)
    parts = max((outlook.partitions or 1) - before.bought, 1)
    left = Decimal(outlook.forecast - before.asked + account.since) / parts
    if left <= 0:
        return rent > price
    if busiest is None:
        known = now.rent * account.answer * _SAMPLE >= price
        fullest = _fullest(_rate(before, now, parts) * left) if known else Decimal(0)
    else:
        fullest = _of_workload(busiest, left, outlook)
    return rent > _LATE * price or fullest * account.answer > price


def _fullest(mean: Decimal, drawn: Decimal = Decimal(1)) -> Decimal:
    """The answers that the fullest bin has, of a number that chance decides."""
    return mean + _ABOVE * (mean * drawn).sqrt()


def _of_workload(busiest: Decimal, left: Decimal, outlook: Outlook) -> Decimal:
    """So many questions, each one of the workload. If all of them are asked, nothing is left to chance. Of several
    windows' answers with one question a partition pays less than two alone (auto.py)."""
    times = min(left / len(outlook.workload), Decimal(2 if outlook.partitioned else 1))
    return _fullest(busiest * times, max(1 - times, Decimal(0)))


def _rate(before: Tally, now: Tally, parts: int) -> Decimal:
    """Answers of the fullest bin by questions. It is as full as the average bin at least, and rent tells how full the
    fullest was: by chance more than it will be, so that much is taken off."""
    share, weight = _USUAL
    mean = (now.shares + share * weight) / (now.asked + weight)
    rent = before.rent / parts
    return max(mean, (rent - _ABOVE * rent.sqrt()) * parts / max(before.asked, 1))


def declared_rent(domain: Domain, outlook: Outlook) -> Decimal:
    """In answers by noise: what the declared queries cost if each is asked once and rented (load.py): the largest
    number of them that have a bin in common."""
    return _busiest(domain, _Key(outlook))


class _Key:
    """An outlook, known by its workload's digest."""

    def __init__(self, outlook: Outlook) -> None:
        self.outlook = outlook

    def __hash__(self) -> int:
        return hash(self.outlook.digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self.outlook.digest == other.outlook.digest


@lru_cache(maxsize=16)
def _busiest(domain: Domain, key: _Key) -> Decimal:
    import numpy as np

    busy = np.zeros(domain.bins, np.float64)
    for query in key.outlook.workload:
        if not query.empty:
            weights = query.weights
            query.put(busy, query.of(busy) + (1 if weights is None else weights / query.unit))
    return Decimal(float(busy.max(initial=0.0)))
