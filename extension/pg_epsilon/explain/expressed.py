"""What a predicate's rows make of an expression of groups, in every table so many rows away (dpxplain.md §7.2).

The influence of p on f(o1, o2, ...) is the value less that without the rows of p, times the part of the groups' rows
that is left: (1 - |p| / n) * (f(o) - f(o without p)). One row may move it without bound. Private.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from pg_epsilon.explain.cells import Found
from pg_epsilon.explain.formula import Formula
from pg_epsilon.explain.images import Ends, constant, difference, integers, product, quotient, total

Integers = npt.NDArray[np.int64]
LARGEST = 2**62
"""Of a count or a sum in absolute value; larger ones are clamped, which moves none further."""


@dataclass(frozen=True)
class Part:
    """Rows of one group and the sum of their values, less the centre each; of all rows, or of each predicate's rest."""

    rows: Any
    sums: Any

    def answer(self, how: Formula, away: int) -> Ends:
        """Where its count, sum or average lies in every table so many rows away, in units of the value."""
        rows = integers(np.maximum(self.rows - away, 0), self.rows + away).clipped(0.0, np.inf)
        if how.kind == "count":
            return rows
        sums = integers(self.sums - away * how.change, self.sums + away * how.change)
        if how.kind == "avg":
            ends = constant(Fraction(how.low)).low, constant(Fraction(how.high)).high
            sums = total(quotient(sums, rows), constant(Fraction(how.centre))).clipped(*ends)
        if how.is_positive:
            sums = sums.clipped(0.0, np.inf)
        return product(sums, constant(how.step))


@dataclass(frozen=True)
class Influences:
    """The expression with the rows of all predicates. whole, rest: by group; inside, outside: rows by predicate."""

    how: Formula
    whole: Sequence[Part]
    rest: Sequence[Part]
    inside: Integers
    outside: Integers

    @classmethod
    def of(cls, how: Formula, found: Found, predicates: int) -> Influences:
        """found: of the predicates that a row satisfies; the others leave all rows."""
        cells, inside = found.cells, np.zeros((predicates, how.groups), np.int64)
        inside[found.places] = np.array(cells.inside_rows, dtype=np.int64).reshape(-1, how.groups)
        whole, rest = [], []
        for group in range(how.groups):
            rows = inside[:, group]
            own = [0] * predicates
            for place, one in zip(found.places, cells.inside_sums[:, group], strict=True):
                own[place] = int(one)
            n, sums = cells.rows[group], cells.sums[group]
            centred = [sums - one - how.centre * (n - int(a)) for one, a in zip(own, rows, strict=True)]
            whole.append(Part(np.int64(n), _clamped([sums - how.centre * n])[0]))
            rest.append(Part(n - rows, _clamped(centred)))
        return cls(how, whole, rest, inside.sum(axis=1), sum(cells.rows) - inside.sum(axis=1))

    def limits(self, away: int) -> Ends:
        """The least and the largest influence of each predicate in any table so many rows away: nested."""
        with np.errstate(all="ignore"):
            value, without = (
                self.how.image([one.answer(self.how, away) for one in p]) for p in (self.whole, self.rest)
            )
            found = product(self._left(away), difference(value, without))
        shape = self.inside.shape
        return Ends(np.broadcast_to(found.low, shape), np.broadcast_to(found.high, shape))

    def _left(self, away: int) -> Ends:
        """The part of the rows that is left; of no rows, any part."""
        fewest, most = np.maximum(self.outside - away, 0), self.outside + away
        least, largest = np.maximum(self.inside - away, 0), self.inside + away
        low, high = fewest / np.maximum(fewest + largest, 1), most / np.maximum(most + least, 1)
        high = np.where(most + least == 0, 1.0, high)
        return Ends(np.nextafter(low, -1.0), np.nextafter(high, 2.0)).clipped(0.0, 1.0)


def _clamped(sums: Sequence[int]) -> Integers:
    return np.array([max(-LARGEST, min(LARGEST, one)) for one in sums], dtype=np.int64)
