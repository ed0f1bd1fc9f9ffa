"""One unit of mass a row, split between the two steps around its value (numeric-release.md §0.0, §6.2).

A row of class x and value g puts lambda at the step above g and 1 - lambda at the one below, so that the masses times
their steps are g, and every cell of a class together counts its rows. In integers: lambda * 2^bits is rounded down at
the upper step and taken from 2^bits at the lower, so that a row adds up to 2^bits exactly. Added or removed, it moves
the vector of all cells by 2^bits in L1, and by at most 2^bits in L2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from pg_epsilon.errors import OUT_OF_RANGE, DPError
from pg_epsilon.query.bounds import Lattice
from pg_epsilon.release.ladder import Ladder, base_of, ladder

MOST_BITS, LEAST_BITS = 40, 20  # of one row's mass
ROOM = 62  # bits of a cell's sum, and of what is computed of one row in SQL
NULL, NAN = -1, -2  # the parts of rows without a value


@dataclass(frozen=True)
class Values:
    """Where the integers of a value's lattice lie: the ladders of both signs, and how finely a row's mass is divided.

    step: of the lattice, value = integer * step; low, high: its ends. bits: 2^bits is one row's mass. nan: whether rows
    may hold NaN. Parts of a row: the number of the upper step's cell (of zero: its own), or NULL, or NAN.
    """

    step: Fraction
    low: int
    high: int
    bits: int
    nan: bool = False

    @classmethod
    def of(cls, lattice: Lattice, most_rows: int) -> Values:
        """Of a lattice and the most rows that may be summed up. DP005 where 62 bits have no room for them."""
        step = lattice.step
        base = base_of(step)
        narrow = (step / base).denominator.bit_length()
        bits = min(MOST_BITS, ROOM - max(most_rows - 1, 1).bit_length(), ROOM - 1 - narrow)
        room = max(-lattice.low, lattice.high) * (step / base).numerator < 2**ROOM
        if bits < LEAST_BITS or not room:
            raise DPError(
                OUT_OF_RANGE,
                "the value's lattice is too fine to be released",
                "Give a coarser one: round(x::numeric, 2), or least(greatest(x, lower), upper) for narrower bounds.",
            )
        return cls(step, min(lattice.low, 0), max(lattice.high, 0), bits, lattice.nan is not None)

    @property
    def whole(self) -> int:
        """One row's mass."""
        return 1 << self.bits

    @cached_property
    def positive(self) -> Ladder | None:
        """The steps of values above 0; None: there are none."""
        return ladder(self.high * self.step, base_of(self.step)) if self.high > 0 else None

    @cached_property
    def negative(self) -> Ladder | None:
        """The steps of values below 0, in absolute value."""
        return ladder(-self.low * self.step, base_of(self.step)) if self.low < 0 else None

    @cached_property
    def steps(self) -> tuple[Fraction, ...]:
        """The cells of a class that have a value, ascending: -top, …, -b, 0, b, …, top."""
        below = self.negative.steps if self.negative else ()
        above = self.positive.steps if self.positive else ()
        return (*(-one for one in reversed(below)), Fraction(0), *above)

    @property
    def zero(self) -> int:
        """The number of the cell of value 0."""
        return self.negative.length if self.negative else 0

    @property
    def cells(self) -> int:
        """All cells of a class: those with a value, then that of NULL, then, where it may be, that of NaN."""
        return len(self.steps) + 1 + self.nan

    def masses(self, part: int, rows: int, upper: int) -> tuple[tuple[int, int], ...]:
        """(cell, mass) of rows of one class and part; upper: what their lambda * 2^bits, rounded down, add up to."""
        if part in (NULL, NAN):
            return ((len(self.steps) - 1 - part, rows * self.whole),)
        if part == self.zero:
            return ((part, rows * self.whole),)
        lower = part - 1 if part > self.zero else part + 1
        return ((part, upper), (lower, rows * self.whole - upper))

    def within(self, part: int, rows: int, upper: int, below: int, above: int) -> tuple[tuple[int, int], ...]:
        """`masses` of a class that has so many steps below 0 and above: values beyond count at the last one."""
        if part < 0 or -below <= part - self.zero <= above:
            return self.masses(part, rows, upper)
        return ((self.zero + (above if part > self.zero else -below), rows * self.whole),)

    @property
    def _per_base(self) -> Fraction:
        """Lattice steps are so many b: 1 <= it < 2 where the lattice is finer than 1."""
        return self.step / base_of(self.step)

    def part_sql(self, value: str, null: str, nan: str) -> str:
        """SQL of a row's part. value: of its integer, NULL without one; null, nan: which of the two it is then."""
        arms = [f"WHEN {value} = 0 THEN {self.zero}"]
        if self.positive:
            arms.append(f"WHEN {value} > 0 THEN {self.zero + 1} + {self._place(value, self.positive)}")
        if self.negative:
            arms.append(f"WHEN {value} < 0 THEN {self.zero - 1} - {self._place(f'(-{value})', self.negative)}")
        arms += [f"WHEN {null} THEN {NULL}"] + ([f"WHEN {nan} THEN {NAN}"] if self.nan else [])
        return f"CASE {' '.join(arms)} END"

    def upper_sql(self, value: str, part: str) -> str:
        """SQL of lambda * 2^bits, rounded down: 0 of a part that is not split. Total, in bigint.

        Of the step base * 2^i above it a value of n/d bases has the share n/d / 2^(i - 1) - 1 (i = 0: n/d), because
        the step below is half of it. n is shifted before it is divided by d; floor(floor(x / 2^k) / d) is
        floor(x / (2^k d)).
        """
        n, d = self._per_base.numerator, self._per_base.denominator
        i = f"(abs({part} - {self.zero}) - 1)"
        size = f"(abs({value})::pg_catalog.int8 * {n}::pg_catalog.int8)"
        whole = self.whole
        longest = max((one.length for one in (self.positive, self.negative) if one), default=1)
        shifted = f"{size} << GREATEST({self.bits + 1} - {i}, 0)"
        if longest - 1 > self.bits + 1:
            shifted = f"({shifted}) >> GREATEST({i} - {self.bits + 1}, 0)"
        split = f"CASE {i} WHEN 0 THEN ({size} << {self.bits}) / {d} ELSE ({shifted}) / {d} - {whole} END"
        return f"CASE WHEN {part} < 0 OR {part} = {self.zero} THEN 0 ELSE {split} END"

    def _place(self, value: str, steps: Ladder) -> str:
        """SQL of the number of the least step >= a value above 0."""
        starts = ", ".join(str(one + 1) for one in self._ends(steps)[:-1])
        return f"pg_catalog.width_bucket({value}::pg_catalog.int8, ARRAY[{starts}]::pg_catalog.int8[])"

    def _ends(self, steps: Ladder) -> Sequence[int]:
        """Of each step, the largest integer of the lattice that is not above it."""
        return [int(one // self.step) for one in steps.steps]


class Points(Values):
    """Each value of the lattice has a cell of its own, and a row its whole mass there: nothing is split.

    A part is the number of its value among all, from the least one on.
    """

    @cached_property
    def steps(self) -> tuple[Fraction, ...]:
        """All values, ascending, 0 among them."""
        return tuple(number * self.step for number in range(self.low, self.high + 1))

    @property
    def zero(self) -> int:
        return -self.low

    @property
    def cells(self) -> int:
        return self.high - self.low + 2 + self.nan

    def masses(self, part: int, rows: int, upper: int) -> tuple[tuple[int, int], ...]:
        """All at the value; upper: 0."""
        return ((part if part >= 0 else len(self.steps) - 1 - part, rows * self.whole),)

    def part_sql(self, value: str, null: str, nan: str) -> str:
        nothing = f"WHEN {null} THEN {NULL}" + (f" WHEN {nan} THEN {NAN}" if self.nan else "")
        return f"CASE WHEN {value} IS NOT NULL THEN {value} - ({self.low}) {nothing} END"

    def upper_sql(self, value: str, part: str) -> str:
        return "0::pg_catalog.int8"
