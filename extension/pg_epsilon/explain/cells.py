"""What influences are computed from, in one scan: rows and sums by group and by all attributes, and their marginals.

Cells take a third of the time that grouping sets take for pairs of attributes (dpxplain.md §0), because a row is sorted
into one cell only; how often a predicate holds is added up afterwards, here of cells that are packed into one value,
or, where by public bounds there could be too many of them, by the statement itself. Private.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from pg_epsilon.explain.influence import Cells
from pg_epsilon.explain.space import Listed, Predicates, Space

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


@dataclass(frozen=True)
class Found:
    """places: of the predicates that a row of the groups satisfies; every other one has influence 0. cells: theirs."""

    places: list[int]
    cells: Cells

    @classmethod
    def of(cls, inside_rows: Integers, inside_sums: Any, groups: int, whole: slice) -> Found:
        """inside_rows, inside_sums: by predicate and group, flat; whole: lines of which every row is in one."""
        rows, sums = inside_rows.reshape(-1, groups), inside_sums.reshape(-1, groups)
        (places,) = np.nonzero(rows.any(axis=1))
        cells = Cells(
            [int(one) for one in rows[whole].sum(axis=0)],
            [int(one) for one in sums[whole].sum(axis=0)],
            rows[places].astype(object),
            sums[places],
        )
        return cls([int(place) for place in places], cells)


def found_in(cells: bytes, space: Predicates, groups: int, *, by_predicate: bool) -> Found:
    """The statement's binary value -> what each predicate holds. by_predicate: the statement added up cells itself."""
    if isinstance(space, Listed):
        return listed(cells, space, groups)
    return (added if by_predicate else unpacked)(cells, space, groups)


def unpacked(found: bytes, space: Space, groups: int) -> Found:
    """Records of the statement by cells -> what each group has, and of it what satisfies each predicate."""
    rest, rows, sums = _read(found)
    places: list[Integers] = []
    for attribute in reversed(space.attributes):
        rest, value = np.divmod(rest, attribute.size)
        places.append(value)
    places.reverse()
    inside: list[tuple[Integers, Any]] = []
    for subset in space.subsets:
        number = np.zeros(len(rows), np.int64)
        for place in subset:
            number = number * space.attributes[place].size + places[place]
        index, size = number * groups + rest, space.area(subset) * groups
        inside.append((_added(index, rows, size), _added_exactly(index, sums, size)))
    return Found.of(
        np.concatenate([one for one, _ in inside]),
        np.concatenate([one for _, one in inside]),
        groups,
        slice(space.ends[0]),  # every row has one value of the first attributes
    )


def added(found: bytes, space: Space, groups: int) -> Found:
    """The same of records by predicate: predicate first, then group."""
    index, rows, sums = _read(found)
    size = len(space) * groups
    return Found.of(_added(index, rows, size), _added_exactly(index, sums, size), groups, slice(space.ends[0]))


def listed(found: bytes, space: Listed, groups: int) -> Found:
    """The same of a list, behind which the statement puts what every row satisfies."""
    index, rows, sums = _read(found)
    size = (len(space) + 1) * groups
    whole = Found.of(_added(index, rows, size), _added_exactly(index, sums, size), groups, slice(len(space), None))
    inside = [one for one in whole.places if one < len(space)]
    cells = replace(
        whole.cells,
        inside_rows=whole.cells.inside_rows[: len(inside)],
        inside_sums=whole.cells.inside_sums[: len(inside)],
    )
    return Found(inside, cells)


def _read(found: bytes) -> tuple[Integers, Integers, Integers]:
    records = np.frombuffer(found, np.dtype(list(RECORD)))
    return tuple(records[name].astype(np.int64) for name, _ in RECORD)  # type: ignore[return-value]


def _added(index: Integers, values: Integers, size: int) -> Integers:
    """Sums by index: exact up to 2^53, which no number of rows reaches."""
    return np.bincount(index, weights=values, minlength=size).astype(np.int64)


def _added_exactly(index: Integers, values: Integers, size: int) -> Any:
    """Sums by index as Python integers; exact for 2^22 cells, each up to 2^62 in absolute value."""
    low, high = values & ((1 << LIMB) - 1), values >> LIMB
    return _added(index, high, size).astype(object) * (1 << LIMB) + _added(index, low, size)
