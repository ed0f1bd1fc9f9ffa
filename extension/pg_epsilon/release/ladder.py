"""The ladder of a value: b, 2b, 4b, … up to its public bound (numeric-release.md §0.0, §4, §6.1, §9).

Thresholds, cells and truncations of a release are steps of it. Everything here is public, and exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

Number = Fraction | int


@dataclass(frozen=True)
class Ladder:
    """The steps base * 2^i, 0 <= i < length. base: a power of two > 0; length >= 1."""

    base: Fraction
    length: int

    @cached_property
    def steps(self) -> tuple[Fraction, ...]:
        """b, 2b, 4b, …, top."""
        return tuple(self.base * 2**i for i in range(self.length))

    @property
    def top(self) -> Fraction:
        return self.steps[-1]

    @property
    def thresholds(self) -> tuple[Fraction, ...]:
        """What values are compared with: 0, b, 2b, …, top / 2. As many as there are steps."""
        return (Fraction(0), *self.steps[:-1])

    def up(self, value: Number) -> Fraction:
        """The least step >= value; 0 of what is not positive, the top of what is above it."""
        place = self.place(value)
        return Fraction(0) if place is None else self.steps[place]

    def place(self, value: Number) -> int | None:
        """The number of the least step >= value, the last one's of what is above all; None of what is not positive."""
        if value <= 0:
            return None
        return next((i for i, step in enumerate(self.steps) if step >= value), self.length - 1)


def ladder(bound: Number, base: Number = 1) -> Ladder:
    """The steps up to the first that is >= bound: every value in [0, bound] lies below the top, or at it."""
    length = 1
    while base * 2 ** (length - 1) < bound:
        length += 1
    return Ladder(Fraction(base), length)


def bits(bound: Number, base: Number = 1) -> Ladder:
    """The steps up to the last that is <= bound: the bits of floor(g / base) for g in [0, bound]. At least one."""
    return Ladder(Fraction(base), max(1, math.floor(Fraction(bound) / Fraction(base)).bit_length()))


def set_bits(bound: Number, base: Number = 1) -> int:
    """The most bits that are set in any floor(g / base), 0 <= g <= bound: what one row of `bits` moves a count by."""
    return (math.floor(Fraction(bound) / Fraction(base)) + 1).bit_length() - 1


def base_of(resolution: Number) -> Fraction:
    """b of a value that is declared in steps of `resolution` > 0: the largest power of two <= min(1, resolution)."""
    base = Fraction(1)
    while base > resolution:
        base /= 2
    return base
