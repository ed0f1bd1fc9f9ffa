"""What one row puts on the cells of a release (numeric-release.md §0.0, §6.1, §6.2, §9, §13).
Exact.

Three decompositions of a value g of a row of one class. none: one unit of mass at g. split: one
unit of mass, shared by the two steps around g. bits: as many units as a value has bits, each at its
bit. Signed values have cells of both signs; a row puts mass on one sign alone, and on 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

from pg_epsilon.release.ladder import Ladder, Number, bits, ladder, set_bits

Decomposition = Literal["none", "split", "bits"]
Masses = dict[Fraction, Fraction]


def split_masses(value: Number, steps: Ladder) -> Masses:
    """One unit of mass of a value in [0, top] on the steps around it: sum(y * mass) = value."""
    place = steps.place(value)
    if place is None:
        return {Fraction(0): Fraction(1)}
    high, low = steps.steps[place], steps.thresholds[place]
    share = (Fraction(value) - low) / (high - low)
    return {y: mass for y, mass in ((low, 1 - share), (high, share)) if mass}


def bit_masses(value: Number, steps: Ladder) -> Masses:
    """A unit of mass for each step: at it where that bit of floor(value / b) is set, else at 0."""
    number = math.floor(Fraction(value) / steps.base)
    masses: Masses = {}
    for i, step in enumerate(steps.steps):
        y = step if number >> i & 1 else Fraction(0)
        masses[y] = masses.get(y, Fraction(0)) + 1
    return masses


@dataclass(frozen=True)
class Measure:
    """A value g in [-bound_negative, bound], decomposed; all public.

    bound, bound_negative: >= 0, what values are clamped to (a bound below the base counts as one
    step). base: b, a power of two, the least step. values: of 'none' alone, the values that occur,
    ascending.
    """

    decomposition: Decomposition
    bound: Fraction
    bound_negative: Fraction = Fraction(0)
    base: Fraction = Fraction(1)
    values: tuple[Fraction, ...] = ()

    def _steps(self, bound: Number) -> Ladder:
        return (bits if self.decomposition == "bits" else ladder)(bound, self.base)

    @cached_property
    def ladders(self) -> tuple[Ladder, ...]:
        """Of positive values, and of negative ones if there are any: each its own bound (§0.0)."""
        bounds = (self.bound, self.bound_negative) if self.bound_negative else (self.bound,)
        return tuple(self._steps(bound) for bound in bounds)

    @cached_property
    def cells(self) -> tuple[Fraction, ...]:
        """The values that have cells, ascending, 0 included: -top, …, -b, 0, b, …, top."""
        if self.decomposition == "none":
            return self.values
        below = [-y for own in self.ladders[1:] for y in reversed(own.steps)]
        return (*below, Fraction(0), *self.ladders[0].steps)

    @cached_property
    def tuples(self) -> int:
        """The units of mass of every row: public, so that the whole mass tells the rows alone."""
        return max(own.length for own in self.ladders) if self.decomposition == "bits" else 1

    @cached_property
    def sensitivity(self) -> int:
        """k: how far one row, added or removed, moves any query with values in [0, 1] over the
        cells.

        A query's move is its sum over the row's masses. none, split: those are 1 in all. bits: of
        a query that is 0 at y = 0, as all candidates are, the bits that are set: at most
        floor(log2(floor(bound / b) + 1)). The paper says 1 for the latter (§13). A unit of at most
        kappa rows moves it by kappa times as much.
        """
        if self.decomposition != "bits":
            return 1
        return max(1, *(set_bits(bound, self.base) for bound in (self.bound, self.bound_negative)))

    def clamped(self, value: Number | None) -> Fraction:
        """The value as it is released: inside the bounds, NULL (None) as 0."""
        return Fraction(0) if value is None else max(-self.bound_negative, min(self.bound, Fraction(value)))

    def masses(self, value: Number | None) -> Masses:
        """What a row of this value puts on the cells of its class; `tuples` in all, none of it 0."""
        inside = self.clamped(value)
        if self.decomposition == "none":
            return {inside: Fraction(1)}
        own = self.ladders[-1] if inside < 0 else self.ladders[0]
        parts = (bit_masses if self.decomposition == "bits" else split_masses)(abs(inside), own)
        masses = {y if inside >= 0 else -y: mass for y, mass in parts.items()}
        if short := self.tuples - sum(masses.values()):
            masses[Fraction(0)] = masses.get(Fraction(0), Fraction(0)) + short
        return masses


def on_lattice(masses: Masses, places: int) -> dict[Fraction, int]:
    """The masses in units of 2^-places, their sum unchanged: rounded down away from 0, rest nearer.

    As SQL makes them (§0.0): lambda * 2^places rounded down at the outer step of a split row, and
    what is left of the whole at the inner one.
    """
    unit = 1 << places
    whole = math.floor(sum(masses.values(), Fraction(0)) * unit)
    order: Sequence[Fraction] = sorted(masses, key=abs, reverse=True)
    out = {y: math.floor(masses[y] * unit) for y in order[:-1]}
    return {**out, order[-1]: whole - sum(out.values())}
