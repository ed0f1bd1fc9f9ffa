"""What influences are computed from, in one scan: rows and sums by group and by all attributes, and their marginals.

Packed cells take a third of the time that grouping sets take for pairs of attributes (dpxplain.md §0), because a row
is sorted into one cell only; how often a predicate holds is added up afterwards, of cells. Private.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from pg_epsilon.explain.influence import Cells
from pg_epsilon.explain.space import Space

RECORD = (("cell", ">i8"), ("rows", ">i8"), ("sum", ">i8"))  # of the statement's binary value
LIMB = 31  # bits: of sums as two numbers of which a float adds up all cells exactly
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Layout:
    """Where a row's cell is: group first, then the attributes in order, the last one fastest."""

    groups: int
    sizes: tuple[int, ...]

    @property
    def cells(self) -> int:
        """How many there are, most of them without a row."""
        return self.groups * prod(self.sizes)

    def number(self, group: str, values: list[str]) -> str:
        """SQL of a row's cell, from the places of its group and of its values."""
        strides = [prod(self.sizes[place:]) for place in range(len(self.sizes) + 1)]
        parts = zip([group, *values], strides, strict=True)
        return " + ".join(f"{one} * {stride}::pg_catalog.int8" for one, stride in parts)


def unpacked(found: bytes, space: Space, groups: int) -> Cells:
    """Records of the statement -> what each group has, and of it what satisfies each predicate of the space."""
    records = np.frombuffer(found, np.dtype(list(RECORD)))
    rest, rows = records["cell"].astype(np.int64), records["rows"].astype(np.int64)
    sums = records["sum"].astype(np.int64)
    places: list[Integers] = []
    for attribute in reversed(space.attributes):
        rest, value = np.divmod(rest, attribute.size)
        places.append(value)
    places.reverse()
    inside: list[tuple[Integers, Any]] = []
    for subset in space.subsets:
        number = np.zeros(len(records), np.int64)
        for place in subset:
            number = number * space.attributes[place].size + places[place]
        index, size = number * groups + rest, space.area(subset) * groups
        inside.append((_added(index, rows, size), _added_exactly(index, sums, size)))
    shape = (len(space), groups)
    return Cells(
        [int(one) for one in _added(rest, rows, groups)],
        [int(one) for one in _added_exactly(rest, sums, groups)],
        np.concatenate([one for one, _ in inside]).astype(object).reshape(shape),
        np.concatenate([one for _, one in inside]).reshape(shape),
    )


def _added(index: Integers, values: Integers, size: int) -> Integers:
    """Sums by index: exact up to 2^53, which no number of rows reaches."""
    return np.bincount(index, weights=values, minlength=size).astype(np.int64)


def _added_exactly(index: Integers, values: Integers, size: int) -> Any:
    """Sums by index as Python integers; exact for 2^22 cells, each up to 2^62 in absolute value."""
    low, high = values & ((1 << LIMB) - 1), values >> LIMB
    return _added(index, high, size).astype(object) * (1 << LIMB) + _added(index, low, size)
