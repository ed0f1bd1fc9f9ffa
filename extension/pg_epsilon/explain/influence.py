"""How much of a difference between groups a predicate's rows make: influences, exactly (dpxplain.md §6.3).

The influence of p is the gap between the groups less the gap without the rows of p, times a normaliser that keeps its
sensitivity small (sensitivity.py): min_t b_t / (max_t n_t + 1) for counts and sums, min_t b_t for averages, where group
t has n_t rows, of which b_t do not satisfy p. Positive: without these rows the gap is smaller.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Kind = Literal["count", "sum", "avg"]
Integers = npt.NDArray[np.object_]  # Python integers: a sum times a count leaves 64 bits (§0.0)


@dataclass(frozen=True)
class Cells:
    """What influences are computed from; private. G groups of weight other than 0, P predicates.

    rows, sums: G integers, of each group its rows that have a value and the sum of their lattice integers. inside_rows,
    inside_sums: P x G, the same of the rows that satisfy each predicate. Sums are not read for counts.
    """

    rows: Sequence[int]
    sums: Sequence[int]
    inside_rows: Integers
    inside_sums: Integers

    @classmethod
    def of(cls, rows: Sequence[int], sums: Sequence[int], inside: Sequence[Sequence[tuple[int, int]]]) -> Cells:
        """inside: per predicate and group (rows, sum of their integers)."""
        both = [np.array([[one[k] for one in line] for line in inside], dtype=object) for k in (0, 1)]
        shape = (len(inside), len(rows))
        return cls(tuple(rows), tuple(sums), both[0].reshape(shape), both[1].reshape(shape))


def influences(kind: Kind, weights: Sequence[Fraction], cells: Cells) -> list[Fraction]:
    """The exact influence of every predicate, in the unit of a row (counts) or of the lattice; private."""
    numerators, denominators = _ratios(kind, weights, cells)
    return [Fraction(int(a), int(b)) for a, b in zip(numerators, denominators, strict=True)]


def scores(kind: Kind, weights: Sequence[Fraction], cells: Cells, steps: Fraction) -> list[int]:
    """Influences as integers on a grid of `steps` to a unit, each rounded to the nearest step, halves up; private.

    An influence that moves by at most d moves its score by at most steps * d + 1 (sensitivity.on_grid).
    """
    numerators, denominators = _ratios(kind, weights, cells)
    found = (2 * steps.numerator * numerators + steps.denominator * denominators) // (
        2 * steps.denominator * denominators
    )
    return [int(one) for one in found]


def _ratios(kind: Kind, weights: Sequence[Fraction], cells: Cells) -> tuple[Integers, Integers]:
    """Numerators and positive denominators of all influences.

    ValueError where a weight is 0: its group would enter the normaliser, which is of the compared groups alone.
    """
    if not weights or not all(weights) or len(weights) != len(cells.rows):
        raise ValueError("as many weights as groups, and none of them 0")
    unit = math.lcm(*(weight.denominator for weight in weights))
    whole = [int(weight * unit) for weight in weights]
    outside = np.array(list(cells.rows), dtype=object) - cells.inside_rows
    smallest = outside.min(axis=1)
    if kind == "avg":
        return _of_averages(whole, cells, outside, smallest, unit)
    inside = cells.inside_rows if kind == "count" else cells.inside_sums
    moved: Any = inside @ np.array(whole, dtype=object)
    largest = max(cells.rows) + 1
    return moved * smallest, np.full(len(moved), largest * unit, dtype=object)


def _of_averages(
    whole: Sequence[int], cells: Cells, outside: Integers, smallest: Integers, unit: int
) -> tuple[Integers, Integers]:
    """min_t b_t * sum of w_t (S_t b_t - r_t n_t) / (n_t b_t); 0 where a group has no row left, or none at all."""
    some = smallest != 0
    left = [np.where(some, outside[:, place], 1) for place in range(len(whole))]
    numerators: Any = np.zeros(len(smallest), dtype=object)
    denominators: Any = np.ones(len(smallest), dtype=object)
    for place, weight in enumerate(whole):
        rows, total = max(cells.rows[place], 1), cells.sums[place]
        moved = total * left[place] - (total - cells.inside_sums[:, place]) * rows
        own = rows * left[place]
        numerators, denominators = numerators * own + weight * moved * denominators, denominators * own
    return np.where(some, numerators * smallest, 0), denominators * unit
