"""How a family of ranges is laid out: the nodes that it is read from (numeric-release.md §8.1). Public facts only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pg_epsilon.errors import SHAPE, DPError
from pg_epsilon.release.classes import Axis
from pg_epsilon.release.trees import Tree, is_range, levels_of


class Masked(Protocol):
    """Which classes of an axis each query reads (ask.Masks)."""

    @property
    def different(self) -> tuple[str, ...]: ...
    @property
    def of(self) -> tuple[int, ...]: ...


def trees_for(axes: Sequence[Axis], masks: Sequence[Masked], *, gaussian: bool) -> tuple[Tree, ...]:
    """Of each axis the tree that its ranges are read from; none where single classes are nearest, which is a release
    by cells. DP003 for a query that is no range."""
    for axis, own in zip(axes, masks, strict=True):
        if not all(map(is_range, own.different)):
            raise DPError(
                SHAPE,
                f"a query of the grid reads declared values of {axis.name} that are not next to each other",
                f"Compare {axis.name} by =, <, <=, >, >= or BETWEEN; mechanism => 'cells' answers any set of values.",
            )
    import numpy as np

    from pg_epsilon.release import ranges

    of = np.array([own.of for own in masks], np.int64)
    found = ranges.trees_for(list(map(_bare, axes)), [own.different for own in masks], of, gaussian=gaussian)
    return found if levels_of(found) > 1 else ()


def _bare(axis: Axis) -> Tree:
    return Tree(axis.size, axis.starts[-1] is None)
