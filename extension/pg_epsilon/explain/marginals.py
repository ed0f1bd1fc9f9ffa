"""All marginals of a release's groups, noised once: whatever is asked of them afterwards is free
(dpxplain.md §0).

A *set* is the numbers of rows by group and by the values of some attributes; the first one is by
group alone. Every row of a group is in one cell of each set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from math import hypot
from typing import Any

from pg_epsilon.accounting.charges import Charge
from pg_epsilon.accounting.margins import gaussian_scale
from pg_epsilon.explain.forms import Cell, Linear, Noise
from pg_epsilon.explain.space import Space
from pg_epsilon.noise import NoiseSource


@dataclass(frozen=True)
class Marginals:
    """The measure of a release of all sets.

    groups: of the release, all of them. low, high: of sums, the bounds of one value, lattice units,
    low < high; of counts 0 and 1. sums: whether sums are released, for averages too: both
    integers tell their numerator and their denominator. units: how many rows of one unit
    are looked at, at least 1. rho: the price, zCDP. by_predicate: the statement adds up cells
    itself (cells.py).

    What is noised, for each cell: of counts its number of rows n; of sums two integers, the sum of
    v - low and that of high - v over its rows, which tell the number of rows and the sum of v
    (`Numbers`).

    Guarantee: rho-zCDP for one unit with all it owns, added or removed, by discrete Gaussian noise
    of the squared L2 sensitivity `l2_squared` = sets * (units * reach)², reach 1 of counts, high -
    low of sums. Proof: one row changes one cell of each set; of counts by 1; of sums by (x, reach -
    x) with 0 <= x <= reach, and x² + (reach - x)² is convex, so at most reach², at its ends. Over
    the sets, which are different coordinates, the squares add up: one row's change is a vector of
    norm sqrt(sets) * reach at most. The rows of a unit are `units` such vectors, and the norm of a
    sum is at most the sum of the norms; it is reached where all are equal. The rows that are kept
    of a unit depend on that unit alone (composition.md §2.2, §2.3). ∎ Source: dpxplain.md §0,
    "method"; the set by group alone is ours.
    """

    space: Space
    groups: int
    low: int
    high: int
    sums: bool
    units: int
    rho: Decimal
    by_predicate: bool = False

    width = 1  # one binary value: all cells

    @property
    def sets(self) -> int:
        return len(self.space.subsets) + 1

    @property
    def reach(self) -> int:
        return self.high - self.low

    @property
    def l2_squared(self) -> int:
        return self.sets * (self.units * self.reach) ** 2

    @property
    def cells(self) -> int:
        """Of all sets together; the groups of one predicate side by side, those of all rows first."""
        return (1 + len(self.space)) * self.groups

    @property
    def released(self) -> int:
        return self.cells * (2 if self.sums else 1)

    def charges(self) -> tuple[Charge, ...]:
        return (Charge.of("gaussian", rho=self.rho),)

    @cached_property
    def scale(self) -> float:
        """Sigma of each released integer, rounded up to a double; DP005 where there is no such
        noise.
        """
        return gaussian_scale(self.l2_squared, Fraction(self.rho))

    @cached_property
    def pair_noise(self) -> Noise:
        """Of each of the two integers of a sum's cell."""
        return Noise("gaussian", self.scale)

    @cached_property
    def row_noise(self) -> Noise:
        """Of a number of rows: of sums, (a + b) / reach."""
        if not self.sums:
            return Noise("gaussian", self.scale)
        return Noise("gaussian", self.scale * hypot(1, 1) / self.reach, Fraction(1, self.reach))

    @cached_property
    def value_noise(self) -> Noise:
        """Of what is explained: of sums, (high * a + low * b) / reach; its noise is not above that
        of a sum and a number of rows at half the price each, and below it but where high = -low.
        """
        if not self.sums:
            return self.row_noise
        half = Fraction(abs(self.low) + abs(self.high), 2 * self.reach)
        return Noise("gaussian", self.scale * hypot(self.low, self.high) / self.reach, half)

    def release(self, exact: Sequence[Sequence[Any]], noise: NoiseSource, label: str) -> list[list[int]]:
        """`core` on the block's one cell."""
        return [core(cell[0] or b"", self, noise, label) for cell in exact]


def core(cells: bytes, how: Marginals, noise: NoiseSource, label: str) -> list[int]:
    """Noisy cells of all sets, as `exact` orders them. cells: records of cells.RECORD, private."""
    return noise.gaussian(
        exact(cells, how), l2_squared=Fraction(how.l2_squared), rho=Fraction(how.rho), label=f"{label} marginals"
    )


def exact(cells: bytes, how: Marginals) -> list[int]:
    """What is noised: by predicate (all rows first) and group, of sums first all a, then all b;
    private.

    cells: the statement's records; of sums their sums are of v - low, so that they are between 0
    and reach * rows.
    """
    from pg_epsilon.explain.cells import found_in  # numpy is not on the way of a count

    found = found_in(cells, how.space, how.groups, by_predicate=how.by_predicate)
    rows, sums = [0] * how.cells, [0] * how.cells
    lines = [*zip(found.places, found.cells.inside_rows.tolist(), found.cells.inside_sums.tolist(), strict=True)]
    for place, of_rows, of_sums in [(-1, found.cells.rows, found.cells.sums), *lines]:
        at = (place + 1) * how.groups
        rows[at : at + how.groups], sums[at : at + how.groups] = map(int, of_rows), map(int, of_sums)
    return [*sums, *(how.reach * n - s for n, s in zip(rows, sums, strict=True))] if how.sums else rows


@dataclass(frozen=True)
class Numbers:
    """What was released, as forms of comparisons: public. step: the value of a lattice unit; of
    counts 1.
    """

    how: Marginals
    raw: Sequence[int]
    step: Fraction = Fraction(1)

    def total(self, group: int) -> Linear:
        """How many rows a group has."""
        return self._rows(group)

    def rows(self, run: int, group: int) -> tuple[Linear, ...]:
        """Of a set (its place among the space's subsets), the number of rows of one group in each
        cell.
        """
        return tuple(self._rows(place * self.how.groups + group) for place in self._places(run))

    def values(self, run: int, group: int) -> tuple[Linear, ...]:
        """The same of what is explained: numbers of rows, or sums in units of the value."""
        if not self.how.sums:
            return self.rows(run, group)
        return tuple(self._value(place * self.how.groups + group) for place in self._places(run))

    def halves(self, run: int, group: int) -> tuple[list[int], list[int]]:
        """Of sums: both integers of each cell, as they were released. run: -1, of all rows of the
        group.
        """
        at = [place * self.how.groups + group for place in (self._places(run) if run >= 0 else (0,))]
        return [self.raw[one] for one in at], [self.raw[self.how.cells + one] for one in at]

    def _places(self, run: int) -> range:
        """Of a set's predicates, one behind: before all stands what all rows satisfy."""
        end = self.how.space.ends[run]
        return range(end - self.how.space.area(self.how.space.subsets[run]) + 1, end + 1)

    def _rows(self, at: int) -> Linear:
        how = self.how
        value = Fraction(self.raw[at] + self.raw[how.cells + at], how.reach) if how.sums else self.raw[at]
        return Linear(Cell(value, how.row_noise))

    def _value(self, at: int) -> Linear:
        how = self.how
        a, b = self.raw[at], self.raw[how.cells + at]
        return Linear(Cell(Fraction(how.high * a + how.low * b, how.reach), how.value_noise), self.step)
