"""Ranks of influences that one row may move without bound: how many rows a rank is away (dpxplain.md §7.2).

Of an influence such as (1 - rows of p / rows) * (q1 / q2 - the same without p) no noise of a finite scale hides a row.
What one row moves by 1 at most is a distance: how many rows have to come or go before a predicate could have a rank.
All of it is private.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np
import numpy.typing as npt

from pg_epsilon.explain.arithmetic import Node
from pg_epsilon.explain.image import Ends, image, outward

# Of every predicate, the least and the largest influence that it has in any table so many rows away. Nested: the limits
# of a neighbour at one row less lie within them.
Limits = Callable[[int], Sequence[Ends]]


@dataclass(frozen=True)
class Statistic:
    """A count or a sum that an influence is computed from.

    change: by how much one row moves it at most. low, high: where it lies whatever the rows are.
    """

    value: Fraction
    change: Fraction
    low: Fraction | None = None
    high: Fraction | None = None

    def within(self, rows: int) -> Ends:
        """Where it lies in every table so many rows away."""
        low, high = self.value - rows * self.change, self.value + rows * self.change
        low = low if self.low is None else max(low, self.low)
        high = high if self.high is None else min(high, self.high)
        return outward(low, high)


def limits_of(influence: Node, predicates: Sequence[Sequence[Statistic]]) -> Limits:
    """Limits by interval arithmetic of the influence over each predicate's statistics, by index; infinite where it may
    be undefined. Intervals grow with the box, so that these are nested."""
    return lambda rows: [image(influence, [one.within(rows) for one in own]) for own in predicates]


class Distances:
    """Numbers of rows for the indicator of a rank search, each moved by one row by 1 at most.

    cap: the largest number that is told, a public one; so a predicate that can never have a rank has a distance too.
    """

    def __init__(self, limits: Limits, cap: int) -> None:
        self._cap = cap
        self._ends = cache(lambda rows: np.array(limits(rows), dtype=np.float64))

    def to_be_as_low(self, place: int, rank: int) -> int:
        """ω(p, t): the fewest rows away from which p may have the rank t or a worse one; 0 up to its own rank."""
        return self._least(lambda rows: self._worst(place, rows) >= rank)

    def to_be_as_high(self, place: int, rank: int) -> int:
        """ω⁻(p, t): the fewest rows away from which p may have the rank t or a better one; 0 from its own rank on."""
        return self._least(lambda rows: self._best(place, rows) <= rank)

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
        ends = self._of(rows)
        return len(ends) - int((ends[:, 1] < ends[place, 0]).sum())

    def _best(self, place: int, rows: int) -> int:
        ends = self._of(rows)
        return 1 + int((ends[:, 0] > ends[place, 1]).sum())

    def _of(self, rows: int) -> npt.NDArray[np.float64]:
        found: npt.NDArray[np.float64] = self._ends(rows)
        return found


def cap(margin: float, deviation: float) -> int:
    """Beyond the margin of a search by eight deviations of its noise: further distances decide nothing."""
    return math.ceil(abs(margin) + 8 * deviation)
