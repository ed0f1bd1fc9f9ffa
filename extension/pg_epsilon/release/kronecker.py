"""Matrix strategies over the classes of a release: what is drawn instead of the classes' own cells
(numeric-release.md §8.1, "Any other M plugs in"; sum-workloads.md §8).

A strategy is an integer matrix A of each column; of several columns it is their Kronecker product.
At every value step A times the classes' masses is released. A row has one unit of mass in one
class, which moves all of it together by at most the largest L1 norm of a column of A, counted in
the integers that are used, and by the largest L2 norm in L2; of a product these are the products.
Guarantee, with noise for these norms times a row's mass: that of cells.py. The columns of A are
independent, so that any set of classes w is read as w A+ times what was released: least squares.
Everything here is public but what `of` is given.
"""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import sha256
from typing import Any

import numpy as np
import numpy.typing as npt

from pg_epsilon.mechanisms.matrix import strategies
from pg_epsilon.release.answers import Noise, Sums
from pg_epsilon.release.everywhere import Everywhere
from pg_epsilon.release.factors import Factors

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bits = npt.NDArray[np.bool_]
MOST_MASS = 2**62
LARGEST = 2**14  # of an entry, so that two bytes hold it
FEW_WEIGHTS = 64  # different ones of a sum of noise
_LEVELS = (32.0, 16.0, 8.0, 4.0)  # of weights, in the octaves below the largest; then one in each
_OCTAVES = 16.0  # down to the smallest level
_DIGITS = 40  # of weights beside the largest, so that rounding alone makes no two of one
_HALF = 31  # bits: masses are multiplied in two parts, so that no sum leaves 63 bits


@dataclass(frozen=True)
class Matrix:
    """The strategy of one column.

    name: how it was found. rows, classes: its size. packed: its integers as text.
    """

    name: str
    rows: int
    classes: int
    packed: str

    @classmethod
    def of(cls, name: str, entries: Ints) -> Matrix:
        """entries: [row, class], at most LARGEST, of independent columns."""
        if np.abs(entries).max(initial=0) > LARGEST:
            raise ValueError("an entry is too large")
        data = zlib.compress(entries.astype("<i2").tobytes(), 9)
        rows, classes = entries.shape
        return cls(name, rows, classes, base64.b64encode(data).decode())

    @cached_property
    def entries(self) -> Ints:
        data = zlib.decompress(base64.b64decode(self.packed))
        return np.frombuffer(data, "<i2").astype(np.int64).reshape(self.rows, self.classes)

    @cached_property
    def inverse(self) -> Array:
        """A+, [class, row]."""
        return strategies.inverse(strategies.Strategy(self.name, self.entries.astype(np.float64)))

    @property
    def l1(self) -> int:
        """The largest L1 norm of a column."""
        return int(np.abs(self.entries).sum(axis=0).max())

    @property
    def l2_squared(self) -> int:
        """The square of the largest L2 norm of a column."""
        return int(np.square(self.entries).sum(axis=0).max())

    @property
    def digest(self) -> str:
        return sha256(self.entries.astype("<i2").tobytes()).hexdigest()


@dataclass(frozen=True)
class Kronecker:
    """The strategy of all columns."""

    parts: tuple[Matrix, ...]

    @property
    def rows(self) -> int:
        """How many sums of classes are released at each value step."""
        return math.prod(one.rows for one in self.parts)

    @property
    def classes(self) -> int:
        return math.prod(one.classes for one in self.parts)

    @property
    def name(self) -> str:
        return " by ".join(one.name for one in self.parts)

    @cached_property
    def l1(self) -> int:
        """How far one unit of mass moves all sums of a step together, in L1."""
        return math.prod(one.l1 for one in self.parts)

    @cached_property
    def l2_squared(self) -> int:
        """The same in L2, squared."""
        return math.prod(one.l2_squared for one in self.parts)

    @cached_property
    def room(self) -> int:
        """Bits that a sum may have beside those of the mass of all rows."""
        return (math.prod(int(np.abs(one.entries).max()) for one in self.parts) - 1).bit_length()

    def norm(self, *, gaussian: bool) -> float:
        """How much wider the noise of a sum is than that of a class in a release by cells."""
        return math.sqrt(self.l2_squared) if gaussian else float(self.l1)

    def canonical(self) -> list[str]:
        """The same of the same integers alone."""
        return [one.digest for one in self.parts]

    def stored(self) -> list[list[Any]]:
        return [[one.name, one.rows, one.classes, one.packed] for one in self.parts]

    def of(self, classes: Sequence[int]) -> list[int]:
        """The cells of all classes → of all sums, sum by sum. Private, and exact; cut at
        MOST_MASS after each column, so that a row moves no sum further.
        """
        cells = np.array([min(mass, MOST_MASS) for mass in classes], np.int64)
        table = cells.reshape(*(one.classes for one in self.parts), -1)
        for place, one in enumerate(self.parts):
            table = _along(table, place, one.entries)
        found: list[int] = table.ravel().tolist()
        return found

    def weights(self, bits: Bits) -> Array:
        """[sum]: w A+ of any set of classes, an array over the columns."""
        found = bits.astype(np.float64)
        for place, one in enumerate(self.parts):
            found = np.moveaxis(np.tensordot(found, one.inverse, (place, 0)), -1, place)
        return found.ravel()

    def sums_of(self, cells: Array, masks: Sequence[Sequence[str]], of: Ints) -> Sums:
        """Of each query its least-squares answer at every step, and what its bars need.

        cells: [sum, step], noisy. masks: of each column its different ones; of: [column, query],
        the number of each query's.
        """
        # one by one, so that a set's answer is the same whatever the others are
        each = [[bits @ one.inverse for bits in _bits(own)] for one, own in zip(self.parts, masks, strict=True)]
        sets, at = np.unique(of, axis=1, return_inverse=True)
        found, factors = np.zeros((sets.shape[1], cells.shape[1])), []
        for number, places in enumerate(sets.T.tolist()):
            weights = np.ones(1)
            for own, place in zip(each, places, strict=True):
                weights = np.outer(weights, own[place]).ravel()
            found[number] = weights @ cells
            factors.append(factors_of(weights, cells.shape[1]))
        at = np.asarray(at).reshape(-1)
        return _sums(found[at], [factors[place] for place in at])

    def squares(self, masks: Sequence[Sequence[str]], of: Ints) -> Array:
        """[query]: the variance of its answer where the noise of each sum has variance 1."""
        found = np.ones(of.shape[1])
        for one, own, at in zip(self.parts, masks, of, strict=True):
            found *= np.square(_bits(own) @ one.inverse).sum(axis=1)[at]
        return found

    def read(self, cells: Array, bits: Bits) -> Sums:
        """Of any set of classes. cells: [sum, step]."""
        weights = self.weights(bits)
        return _sums((weights @ cells)[None, :], [factors_of(weights, cells.shape[1])])


def _along(table: Ints, place: int, entries: Ints) -> Ints:
    """entries times the table along one axis, exactly; cut at MOST_MASS.

    Of 1,024 classes no sum leaves 63 bits.
    """
    moved = np.moveaxis(table, place, 0)
    flat = moved.reshape(len(moved), -1)
    high, low = entries @ (flat >> _HALF), entries @ (flat & ((1 << _HALF) - 1))
    high, low = high + (low >> _HALF), low & ((1 << _HALF) - 1)
    most = MOST_MASS >> _HALF
    over, under = high >= most, high < -most
    inside = (np.where(over | under, 0, high) << _HALF) + low
    cut = np.where(over, MOST_MASS, np.where(under, -MOST_MASS, inside))
    return np.moveaxis(cut.reshape(len(entries), *moved.shape[1:]), 0, place)


def _bits(masks: Sequence[str]) -> Array:
    return np.array([np.frombuffer(one.encode(), np.uint8) == ord("1") for one in masks], np.float64)


@dataclass(frozen=True)
class Coarse(Factors):
    """The weights of the noise of one set, so few that a bar takes some milliseconds."""

    def part(self, cells: slice | list[int]) -> Coarse:
        return Coarse(self.weights, self.times[:, cells])

    def products(self, steps: Array) -> tuple[Array, Array]:
        return blurred(*super().products(steps))


def blurred(weights: Array, times: Array) -> tuple[Array, Array]:
    """The same with weights rounded up, which a bar holds for, too (factors.py): the finer, the
    larger they are.

    weights: different ones above 0; of few nothing is rounded.
    """
    if weights.size <= FEW_WEIGHTS:
        return weights, times
    largest = weights.max()
    octaves = np.log2(largest / weights)
    whole = np.floor(octaves)
    finer = np.array([*_LEVELS, 1.0])[np.minimum(whole, len(_LEVELS)).astype(np.int64)]
    down = np.minimum(whole + np.floor((octaves - whole) * finer) / finer, _OCTAVES)
    levels, number = np.unique(down, return_inverse=True)
    rounded = np.asarray(largest * np.exp2(-levels))
    np.maximum.at(rounded, number, weights)
    return rounded, np.bincount(number, times, levels.size).astype(np.float64)


def factors_of(weights: Array, steps: int) -> Coarse:
    """What a set's noise is multiplied by; every sum has a cell at every step."""
    largest = float(np.abs(weights).max(initial=0.0))
    digits = 2.0**_DIGITS
    sizes = (
        np.rint(np.abs(weights) * (digits / largest)) * (largest / digits) * (1 + 1 / digits) if largest else weights
    )
    own = Factors.of(sizes, None, 1)
    # as many at every step: written once, because a family has thousands of these
    return Coarse(own.weights, np.broadcast_to(own.times, (len(own.times), steps)))


def _sums(cells: Array, factors: Sequence[Factors]) -> Sums:
    squares = np.array([one.squares for one in factors]).reshape(len(factors), -1)
    return Sums(cells, np.ceil(squares[:, 0]).astype(np.int64).clip(1), squares, factors)


@dataclass(frozen=True)
class AnySet(Everywhere):
    """The noise of a strategy, whose `reach_of` holds for many sets of classes at once: a union
    bound over them.

    sets: the logarithm of how many there are.
    """

    sets: float

    def reach_of(self, weights: Array, miss: float, times: Array) -> float:
        kept = (weights > 0) & (times > 0)
        if not kept.any():
            return 0.0
        return self.union(weights[kept], math.log(miss) - self.sets, times[kept])


def everywhere(noise: Noise, bits: Bits, nulls: Sequence[bool]) -> AnySet:
    """Bars of a set that may have been chosen by what was shown: half of what they may miss is for
    all ranges at once, half for all sets, as much for those of each size.

    bits: the set, over the columns; nulls: whether a column's last class is NULL's.
    """
    classes, many = bits.size, int(bits.sum())
    sides = [
        np.asarray(bits.any(axis=tuple(other for other in range(bits.ndim) if other != one)))
        for one in range(bits.ndim)
    ]
    box = many == math.prod(int(side.sum()) for side in sides) and all(
        np.count_nonzero(np.diff(side[: side.size - null].astype(np.int8), prepend=0, append=0)) <= 2
        for side, null in zip(sides, nulls, strict=True)
    )
    if box:
        boxes = [(size - null) * (size - null + 1) // 2 for size, null in zip(bits.shape, nulls, strict=True)]
        number = math.prod(2 * one + 1 if null else one for one, null in zip(boxes, nulls, strict=True))
        sets = math.log(2 * number)
    else:
        choose = math.lgamma(classes + 1) - math.lgamma(many + 1) - math.lgamma(classes - many + 1)
        sets = math.log(2 * classes) + choose
    return AnySet(noise.scale, noise.gaussian, noise.grain, classes, sets)


def of_facts(facts: Mapping[str, Any]) -> Kronecker | None:
    """That which is stored of a release; of one by cells or trees none."""
    if "strategy" not in facts:
        return None
    return Kronecker(tuple(_remembered(*map(str, one)) for one in facts["strategy"]))


@lru_cache(maxsize=4)
def _remembered(name: str, rows: str, classes: str, packed: str) -> Matrix:
    """Unpacked, and inverted, once a backend."""
    return Matrix(name, int(rows), int(classes), packed)
