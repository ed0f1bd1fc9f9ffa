"""The queries C u L of a release, and all their answers at once (numeric-release.md §0.0, §5, §7).

A query of the family is w(class, y) = f_w(class) y with 0 <= f_w <= 1 (§6); of values of both signs
it has two sides, w+ and w- (§9). Each side brings, for its own ladder, counts c = 1[w > tau] at 0,
b, 2b, …, top / 2 and values l = min(w / tau, 1) at b, 2b, …, top (§5). Their order is fixed: query
by query, side by side, all counts before all values. They are never made as a matrix: a class's
sums over its values come first, then a query's sum over its classes (§7).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from pg_epsilon.mechanisms.mwem import LATTICE, Array, Support
from pg_epsilon.release.decompose import Measure, on_lattice
from pg_epsilon.release.predicates import Boxes, Weighted

Kind = Literal["c", "l"]
Row = tuple[int | None, Fraction]
MASS_BITS = 62
_LOW = 31  # bits of the lower half of a mass
_MASK = (1 << _LOW) - 1
_SURE = 2.0**61  # a sum of doubles below it is one of integers below 2^MASS_BITS


class Column(NamedTuple):
    """One of the functions of a value that every query is asked with. side: 0 positive, 1 negative."""

    side: int
    kind: Kind
    tau: Fraction


class Label(NamedTuple):
    """Which candidate it is. sign: 1 or -1."""

    query: int
    sign: int
    kind: Kind
    tau: Fraction


@dataclass(frozen=True)
class Family:
    """A family of sums of one measure; all public. Implements mwem.Queries.

    predicates: f_w. tops: the bound of each class's own values (both signs), if they are smaller
    than the measure's; cells beyond do not exist. Arrays of cells are flat: class by class, in each
    the measure's cells ascending, and one cell at the end that no query sees (§0.0). only: other
    columns than those of C u L, for mechanisms that this one is compared with. cap: values beyond it,
    of either sign, count as it.
    """

    measure: Measure
    predicates: Boxes | Weighted
    tops: Sequence[Fraction] | None = None
    only: tuple[Column, ...] | None = None
    cap: Fraction | None = None

    @cached_property
    def classes(self) -> int:
        return math.prod(self.predicates.sizes)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        if self.only is not None:
            return self.only
        out: list[Column] = []
        for side, own in enumerate(self.measure.ladders):
            out += [Column(side, "c", tau) for tau in own.thresholds]
            out += [Column(side, "l", tau) for tau in own.steps]
        return tuple(out)

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self.predicates.sizes, len(self.measure.cells))

    @property
    def count(self) -> int:
        """How many candidates there are."""
        return self.predicates.queries * len(self.columns)

    @cached_property
    def present(self) -> Array:
        """Which (class, value) exist: those up to the first step that reaches the class's own
        bound.
        """
        there = np.ones((self.classes, len(self.measure.cells)), dtype=bool)
        for place, top in enumerate(self.tops or ()):
            there[place] = [self._below(y, top) for y in self.measure.cells]
        return there

    def _below(self, y: Fraction, top: Fraction) -> bool:
        if self.measure.decomposition == "none" or not y:
            return abs(y) <= top
        own = self.measure.ladders[-1 if y < 0 else 0]
        return abs(y) <= (own.up(top) if self.measure.decomposition == "split" else top)

    @cached_property
    def prior(self) -> Array:
        """The same weight for every cell that exists, the one that no query sees included."""
        return np.append(self.present.ravel(), True).astype(np.float64)

    @property
    def cells(self) -> int:
        """|X|: the cells that exist."""
        return int(self.prior.sum())

    def label(self, candidate: int) -> Label:
        query, place = divmod(candidate, len(self.columns))
        side, kind, tau = self.columns[place]
        return Label(query, -1 if side else 1, kind, tau)

    @cached_property
    def tables(self) -> Array:
        """[f, y, column]: the candidate's value where the query has its f-th weight, in units of
        2^-LATTICE.

        Rounded down from exact fractions; what it is not is `exact`. int64.
        """
        return np.array(
            [
                [[self._value(f, y, column) for column in self.columns] for y in self.measure.cells]
                for f in self.predicates.weights
            ],
            dtype=np.int64,
        ).reshape(len(self.predicates.weights), len(self.measure.cells), len(self.columns))

    def _value(self, f: Fraction, y: Fraction, column: Column) -> int:
        if self.cap is not None:
            y = max(-self.cap, min(self.cap, y))
        w = f * (-y if column.side else y)
        if column.kind == "c":
            return (w > column.tau) << LATTICE
        return math.floor(min(max(w, Fraction(0)) / column.tau, Fraction(1)) * (1 << LATTICE))

    @cached_property
    def exact(self) -> bool:
        """Whether no value of any candidate is rounded: w / tau is a multiple of 2^-LATTICE, or
        above 1.
        """
        unit = 1 << LATTICE
        return all(
            f * abs(y) >= own.base * 2**j or (f * y * unit / (own.base * 2**j)).denominator == 1
            for f in self.predicates.weights
            for y in self.measure.cells
            for own in self.measure.ladders
            for j in range(own.length)
        )

    def evaluate(self, masses: Array) -> Array:
        """All candidates on masses in units of 2^-places: int64 in that unit, within `classes`
        units below.

        A row is in one class, where its masses move the sum before rounding by at most k 2^places
        times 2^LATTICE, an integer multiple: rounded down to 2^-places, class by class, it still
        moves by at most k 2^places (k of the measure), and so does each query, which has a class
        once at most. No cell may hold more than 2^MASS_BITS (a caller cuts it there: a distance
        never grows by this), and what is larger in sum is answered as 2^MASS_BITS, so that nothing
        wraps around.
        """
        grid = masses[:-1].reshape(self.classes, len(self.measure.cells))
        sums = self.predicates.by_class(grid, self.tables, _products)
        if float(sums.sum(axis=0, dtype=np.float64).max(initial=0.0)) < _SURE:
            return self.predicates.by_query(sums).ravel()
        return _saturated(*map(self.predicates.by_query, (sums >> _LOW, sums & _MASK))).ravel()

    def support(self, candidate: int) -> Support:
        """Where a candidate is not 0, for the update of weights."""
        query, column = divmod(candidate, len(self.columns))
        seen = np.flatnonzero(self.tables[:, :, column].any(axis=0))
        values = slice(int(seen[0]), int(seen[-1]) + 1) if len(seen) else slice(0, 0)
        where, weights = self.predicates.where(query)
        table = self.tables[weights, values, column] / float(1 << LATTICE)
        return Support((*where, values), table)

    @cached_property
    def top_places(self) -> Array:
        """[query, side]: the number of the step that Delta_w is rounded up to; -1 where w is never
        positive.

        Delta_w is the largest w over the cells that exist, so over decomposed values (§0.0).
        """
        most = []
        for side, own in enumerate(self.measure.ladders):
            signed = [-y if side else y for y in self.measure.cells]
            places = np.array(
                [
                    [-1 if (found := own.place(f * y)) is None else found for y in signed]
                    for f in self.predicates.weights
                ]
            ).reshape(len(self.predicates.weights), len(signed))
            most.append(self.predicates.most(np.where(self.present[:, None], places[None], -1).max(axis=2)))
        return np.stack(most, axis=1)


def _products(masses: Array, table: Array) -> Array:
    """floor(masses @ table / 2^LATTICE), exactly; 2^MASS_BITS at most."""
    high, low = (masses >> _LOW) @ table, (masses & _MASK) @ table
    return _saturated(high >> LATTICE, ((high & ((1 << LATTICE) - 1)) << (_LOW - LATTICE)) + (low >> LATTICE))


def _saturated(high: Array, low: Array) -> Array:
    """high 2^_LOW + low >= 0, or 2^MASS_BITS where it is larger."""
    most = 1 << MASS_BITS
    high = high + (low >> _LOW)
    whole = (np.minimum(high, most >> _LOW) << _LOW) + (low & _MASK)
    return np.asarray(np.minimum(whole, most))


def histogram(family: Family, rows: Iterable[Row], places: int) -> Array:
    """The private masses of rows, in units of 2^-places: what a database sums by itself.

    A row is (class, value); class None is none of the family's: the cell that no query sees.
    """
    cells = {y: place for place, y in enumerate(family.measure.cells)}
    out = [0] * (family.classes * len(cells) + 1)
    for (place, value), times in Counter(rows).items():
        if place is None:
            out[-1] += times * (family.measure.tuples << places)
            continue
        for y, mass in on_lattice(family.measure.masses(value), places).items():
            out[place * len(cells) + cells[y]] += times * mass
    return np.array(out, dtype=np.int64)
