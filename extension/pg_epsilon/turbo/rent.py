"""Rent or buy (composition.md §7.5): when a synopsis is worth its price. Public facts, prices and counters only."""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache

from pg_epsilon.turbo.bins import Domain
from pg_epsilon.turbo.designs import Outlook

_SAMPLE = 20  # a rate of rent is believed once rent has reached this part of the price


def worth_buying(
    price: Decimal,
    rent: Decimal,
    rise: Decimal,
    declared: Decimal | None,
    outlook: Outlook,
    seen: int,
    still: int,
    packed: Decimal,
) -> bool:
    """Whether to buy before this request. rent: paid since the last synopsis; rise: what this request would add.

    declared: what all declared queries would be rented for, if this one is among them; over windows it says nothing of
    how many of them will be asked of this partition, so a forecast goes first there. seen: how many queries the view
    was paid for since this partition was first asked about; still: how many of the forecast ones are to come. packed:
    what this request would cost the partition if others filled up the bins that it leaves, and as often as windows like
    this one have it; the least that more like it can. By that the first one decides, if twice the price is safely
    exceeded. Later ones go by the rate so far.
    """
    if rent + rise > price:
        return True
    forecast = outlook.forecast
    if declared is not None and (forecast is None or not outlook.partitioned):
        share = 1 if forecast is None else min(Decimal(1), Decimal(forecast) / len(outlook.workload))
        return declared * share > price
    if forecast is None:
        return False
    if seen == 0:
        return packed * still > 2 * price
    return rent * _SAMPLE >= price and rent * still > price * seen


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
        if not query.trivial:
            weights = query.weights
            query.put(busy, query.of(busy) + (1 if weights is None else weights / query.unit))
    return Decimal(float(busy.max(initial=0.0)))
