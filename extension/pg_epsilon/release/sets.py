"""Which classes the queries of a grid read, and which of the queries are different. Public facts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import product
from typing import Protocol


class Weighted(Protocol):
    """What the rows of each class count (weights.Weights)."""

    @property
    def places(self) -> tuple[int, ...]: ...
    @property
    def different(self) -> tuple[tuple[float, ...], ...]: ...
    @property
    def of(self) -> tuple[int, ...]: ...


@dataclass(frozen=True)
class Masks:
    """Which classes of an axis each query reads: the different masks, and the number of each query's."""

    different: tuple[str, ...]
    of: tuple[int, ...]


@dataclass(frozen=True)
class Sets:
    """The different queries, sorted, each by the masks of the classes that it reads; and the number of each query's.

    weights: of each different one, of the classes that it reads along `places`, the axes of the weight; row-major.
    None: all are 1.
    """

    different: tuple[tuple[str, ...], ...]
    of: tuple[int, ...]
    weights: tuple[tuple[float, ...], ...] | None = None
    places: tuple[int, ...] = ()

    @classmethod
    def of_masks(cls, masks: Sequence[Masks], weights: Weighted | None = None) -> Sets:
        each = list(zip(*([one.different[place] for place in one.of] for one in masks), strict=True))
        if weights is None:
            different = sorted(set(each))
            numbers = {one: number for number, one in enumerate(different)}
            return cls(tuple(different), tuple(numbers[one] for one in each))
        read: dict[tuple[tuple[str, ...], int], tuple[float, ...]] = {}
        for own in dict.fromkeys(zip(each, weights.of, strict=True)):
            kept = product(*(own[0][place] for place in weights.places))
            values = zip(weights.different[own[1]], kept, strict=True)
            read[own] = tuple(value for value, bits in values if "0" not in bits)
        asked = [(one, read[one, number]) for one, number in zip(each, weights.of, strict=True)]
        known = {one: number for number, one in enumerate(sorted(set(asked)))}
        sets, values_of = (tuple(column) for column in zip(*known, strict=True))
        return cls(sets, tuple(known[one] for one in asked), values_of, weights.places)

    def is_empty(self, number: int) -> bool:
        """Whether no row counts in a different query."""
        if self.weights is not None and not any(self.weights[number]):
            return True
        return not all("1" in mask for mask in self.different[number])

    @property
    def widest(self) -> float:
        """The squares of the weights of a query's classes, added up; of the query where they are most."""
        if self.weights is None:
            return max(float(many_of(one)) for one in self.different)
        squares = (sum(f * f for f in one) for one in self.weights)
        rest = ([mask for place, mask in enumerate(one) if place not in self.places] for one in self.different)
        return max(square * many_of(masks) for square, masks in zip(squares, rest, strict=True))

    def digest(self) -> str:
        """The same of grids with the same queries."""
        whole = sha256()
        for number, one in enumerate(self.different):
            whole.update((" ".join(one) + ";").encode())
            if self.weights is not None:
                whole.update((" ".join(f.hex() for f in self.weights[number]) + ";").encode())
        return whole.hexdigest()


def many_of(masks: Sequence[str]) -> int:
    """How many classes the masks of all axes hold."""
    found = 1
    for mask in masks:
        found *= mask.count("1")
    return found
