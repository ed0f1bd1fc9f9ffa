"""Ranks of influences that one row may move without bound: how many rows a rank is away (dpxplain.md §7.2).

Of an influence such as (1 - rows of p / rows) * (q1 / q2 - the same without p) no noise of a finite scale hides a row.
What one row moves by 1 at most is a distance: how many rows have to come or go before a predicate could have a rank.
All of it is private.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from pg_epsilon.explain.images import Ends

# Of every predicate, the least and the largest influence that it has in any table so many rows away. Nested: the limits
# of a neighbour at one row less lie within them.
Limits = Callable[[int], Ends]
KEPT = 256  # numbers of rows whose limits are kept for the next rank


class Distances:
    """Numbers of rows for the indicator of a rank search, each moved by one row by 1 at most.

    cap: the largest number that is told, a public one; so a predicate that can never have a rank has a distance too.
    """

    def __init__(self, limits: Limits, cap: int) -> None:
        self._cap = cap
        self._ends = lru_cache(KEPT)(limits)

    def to_be_as_low(self, place: int, rank: int) -> int:
        """ω(p, t): the fewest rows away from which p may have the rank t or a worse one; 0 up to its own rank."""
        return self._least(lambda rows: self._worst(place, rows) >= rank)

    def to_be_as_high(self, place: int, rank: int) -> int:
        """ω⁻(p, t): the fewest rows away from which p may have the rank t or a better one; 0 from its own rank on."""
        return self._least(lambda rows: self._best(place, rows) <= rank)

    def all_to_be_as_high(self, rank: int) -> list[int]:
        """ω⁻(p, t) of every predicate, by place: the same by bisection of all of them at once.

        p may have the rank t where its upper limit is not below the t-th largest of the lower limits.
        """
        many = len(self._ends(0).low)
        low, high = np.zeros(many, np.int64), np.full(many, self._cap, np.int64)
        while (open_ := low < high).any():
            middle = (low + high) // 2
            for rows in np.unique(middle[open_]):
                ends, here = self._ends(int(rows)), open_ & (middle == rows)
                holds = ends.high >= np.partition(ends.low, many - rank)[many - rank]
                high[here & holds] = rows
                low[here & ~holds] = rows + 1
        return [int(one) for one in low]

    def _least(self, holds: Callable[[int], bool]) -> int:
        """Ranks that are possible stay possible further away."""
        low, high = 0, self._cap
        while low < high:
            middle = (low + high) // 2
            if holds(middle):
                high = middle
            else:
                low = middle + 1
        return low

    def _worst(self, place: int, rows: int) -> int:
        ends = self._ends(rows)
        return len(ends.low) - int((ends.high < ends.low[place]).sum())

    def _best(self, place: int, rows: int) -> int:
        ends = self._ends(rows)
        return 1 + int((ends.low > ends.high[place]).sum())
