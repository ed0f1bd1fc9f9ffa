"""The weights f_w of a family's queries over classes: boxes, or any (numeric-release.md §6, §7).

Both sum over classes without a matrix of queries by cells: boxes by summed areas, others by a
sparse matrix. All sums are of int64, exact.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from pg_epsilon.mechanisms.mwem import Array

Products = Callable[[Array, Array], Array]


class Where(NamedTuple):
    """The classes of a query as an index into the grid's class axes, and how its table is indexed."""

    classes: tuple[Any, ...]
    weights: Any


@dataclass(frozen=True)
class Boxes:
    """f_w = 1 on a box of class attributes, else 0.

    sizes: how many values each attribute has. low, high: [query, attribute], the box is low <= x <
    high in each; an empty one is a query that nothing matches.
    """

    sizes: tuple[int, ...]
    low: Array
    high: Array

    @property
    def queries(self) -> int:
        return len(self.low)

    @property
    def size(self) -> int:
        """How many weights are listed: none."""
        return 0

    @property
    def sums(self) -> int:
        """How many sums over a class's values are made (by_class), if classes have different weights: none."""
        return 0

    @property
    def weights(self) -> tuple[Fraction, ...]:
        """The values other than 0 of any f_w."""
        return (Fraction(1),)

    def by_class(self, grid: Array, tables: Array, products: Products) -> Array:
        """[class, column]: a class's sums over its values."""
        return products(grid, tables[0])

    def by_query(self, sums: Array) -> Array:
        """[query, column], by a summed-area table and 2^d look-ups. Partial sums may wrap around,
        results do not.
        """
        padded = np.zeros((*(size + 1 for size in self.sizes), sums.shape[1]), dtype=np.int64)
        padded[(slice(1, None),) * len(self.sizes)] = sums.reshape(*self.sizes, -1)
        for axis in range(len(self.sizes)):
            np.cumsum(padded, axis=axis, out=padded)
        strides = np.cumprod([1, *(size + 1 for size in reversed(self.sizes[1:]))])[::-1]
        flat = padded.reshape(-1, sums.shape[1])
        high = np.maximum(self.low, self.high)
        out = np.zeros((self.queries, sums.shape[1]), dtype=np.int64)
        for corner in itertools.product((False, True), repeat=len(self.sizes)):
            rows = np.where(corner, self.low, high) @ strides
            (np.subtract if sum(corner) % 2 else np.add)(out, flat[rows], out=out)
        return out

    @property
    def seen(self) -> Array:
        """[attribute, …]: whether any box has the class: of each box its corners are added up along
        all axes.
        """
        there = (self.low < self.high).all(axis=1)
        counts = np.zeros([size + 1 for size in self.sizes], dtype=np.int64)
        for corner in itertools.product((False, True), repeat=len(self.sizes)):
            places = np.where(corner, self.high, self.low)[there]
            np.add.at(counts, tuple(places.T), -1 if sum(corner) % 2 else 1)
        for axis in range(len(self.sizes)):
            np.cumsum(counts, axis=axis, out=counts)
        return np.asarray(counts[(slice(-1),) * len(self.sizes)] > 0)

    def where(self, query: int) -> Where:
        box = zip(self.low[query].tolist(), self.high[query].tolist(), strict=True)
        return Where(tuple(slice(low, max(low, high)) for low, high in box), 0)

    def most(self, places: Array) -> Array:
        """[query]: the largest of [class, 0] over its classes; -1 of none."""
        grid = places[:, 0].reshape(self.sizes)
        if grid.min() == grid.max():
            return np.where((self.low < self.high).all(axis=1), int(grid.max()), -1)
        return np.array([grid[self.where(q).classes].max(initial=-1) for q in range(self.queries)])


@dataclass(frozen=True)
class Weighted:
    """Any f_w in [0, 1]: for each query its classes with their weights (0: left out).

    sizes: (classes,). Pairs (class, weight) that several queries share are summed once.
    """

    sizes: tuple[int]
    rows: Sequence[Mapping[int, Fraction]]

    @property
    def queries(self) -> int:
        return len(self.rows)

    @property
    def size(self) -> int:
        """How many weights are listed."""
        return sum(map(len, self.rows))

    @property
    def sums(self) -> int:
        return len(self.pairs) if len(self.weights) > 1 else 0

    @cached_property
    def weights(self) -> tuple[Fraction, ...]:
        return tuple(sorted({f for row in self.rows for f in row.values()}))

    @cached_property
    def pairs(self) -> dict[tuple[int, int], int]:
        """(weight, class) → number, by weight."""
        place = {f: i for i, f in enumerate(self.weights)}
        found = {(place[f], c) for row in self.rows for c, f in row.items()}
        return {pair: i for i, pair in enumerate(sorted(found))}

    @cached_property
    def members(self) -> Any:
        """[query, pair]: 1 where the query has that class with that weight."""
        from scipy.sparse import csr_array

        place = {f: i for i, f in enumerate(self.weights)}
        found = [self.pairs[place[f], c] for row in self.rows for c, f in row.items()]
        ends = np.cumsum([0, *(len(row) for row in self.rows)])
        ones = np.ones(len(found), dtype=np.int64)
        return csr_array((ones, found, ends), shape=(self.queries, len(self.pairs)))

    def by_class(self, grid: Array, tables: Array, products: Products) -> Array:
        """[pair, column]."""
        pairs = np.array(list(self.pairs), dtype=np.int64).reshape(-1, 2)
        out = np.empty((len(pairs), tables.shape[2]), dtype=np.int64)
        for weight in range(len(self.weights)):
            own = pairs[:, 0] == weight
            out[own] = products(grid[pairs[own, 1]], tables[weight])
        return out

    def by_query(self, sums: Array) -> Array:
        """[query, column]."""
        return np.asarray(self.members @ sums)

    def where(self, query: int) -> Where:
        row = self.rows[query]
        place = {f: i for i, f in enumerate(self.weights)}
        return Where((list(row),), [place[f] for f in row.values()])

    def most(self, places: Array) -> Array:
        """[query]: the largest of [class, weight] over its classes; -1 of none."""
        place = {f: i for i, f in enumerate(self.weights)}
        found = [max((int(places[c, place[f]]) for c, f in row.items()), default=-1) for row in self.rows]
        return np.array(found, dtype=np.int64)


def predicates(sizes: tuple[int, ...], rows: Sequence[Sequence[Fraction | int | float]]) -> Weighted:
    """From a dense matrix [query][class] of weights in [0, 1]; for tests and small families."""
    made = [{c: Fraction(f) for c, f in enumerate(row) if f} for row in rows]
    if any(not 0 < f <= 1 for row in made for f in row.values()):
        raise ValueError("a weight lies between 0 and 1")
    return Weighted((math.prod(sizes),), made)
