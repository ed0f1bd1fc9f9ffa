"""Candidates as a dense matrix, made from their labels alone: the slow form that structured sums
are compared with.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from pg_epsilon.mechanisms.mwem import LATTICE, Array, Support
from pg_epsilon.release.candidates import Family

Weight = Callable[[int, int], Fraction]
"""f of (query, class)."""


def value(family: Family, f: Weight, candidate: int, place: int, y: Fraction) -> Fraction:
    """What a candidate is worth on a cell, exactly (numeric-release.md §5)."""
    query, sign, kind, tau = family.label(candidate)
    w = max(Fraction(0), sign * f(query, place) * y)
    return Fraction(w > tau) if kind == "c" else min(w / tau, Fraction(1))


def matrix(family: Family, f: Weight) -> list[list[Fraction]]:
    """[candidate][cell], the cell that no query sees included."""
    places = [(place, y) for place in range(family.classes) for y in family.measure.cells]
    return [[*(value(family, f, c, *cell) for cell in places), Fraction(0)] for c in range(family.count)]


def on_lattice(exact: Sequence[Sequence[Fraction]]) -> Array:
    """Rounded down to 2^-LATTICE; objects, so that sums are exact."""
    return np.array([[math.floor(v * (1 << LATTICE)) for v in row] for row in exact], dtype=object)


class Dense:
    """Queries as a matrix; implements mwem.Queries."""

    def __init__(self, rows: Sequence[Sequence[float]]) -> None:
        self.rows = np.array(rows, dtype=float)

    @property
    def count(self) -> int:
        return len(self.rows)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.rows.shape[1],)

    def evaluate(self, masses: Array) -> Array:
        return np.floor(self.rows @ masses).astype(np.int64)

    def support(self, query: int) -> Support:
        return Support((slice(None),), self.rows[query])
