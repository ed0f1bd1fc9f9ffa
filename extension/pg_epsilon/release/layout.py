"""How a family of ranges is laid out: the nodes, or the matrix strategy, that it is read from
(numeric-release.md §8.1). Public facts only.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pg_epsilon.errors import OUT_OF_RANGE, SHAPE, DPError
from pg_epsilon.release.classes import Axis
from pg_epsilon.release.trees import Tree, is_range, levels_of

if TYPE_CHECKING:
    from pg_epsilon.release.kronecker import Kronecker

TREES, MATRIX = "trees", "matrix"
STRATEGIES = (TREES, MATRIX)
MOST_CLASSES = 1_024  # of a column, in a matrix strategy: each candidate is a matrix of its classes
MOST_WORK = 2**31  # different sets that are no ranges, times classes squared
BETTER = 0.99  # of the mean deviation of cells, or trees: what a matrix strategy has to be below


class Masked(Protocol):
    """Which classes of an axis each query reads (ask.Masks)."""

    @property
    def different(self) -> tuple[str, ...]: ...
    @property
    def of(self) -> tuple[int, ...]: ...


class Layout(NamedTuple):
    """One of the two, or neither: then it is a release by cells."""

    trees: tuple[Tree, ...] = ()
    strategy: Kronecker | None = None

    @property
    def cells(self) -> bool:
        return not self.trees and self.strategy is None

    def canonical(self) -> dict[str, Any]:
        """What is drawn is the same of the same levels, or of the same integers."""
        if self.strategy is not None:
            return {"strategy": self.strategy.canonical()}
        return {"trees": [[one.levels, one.shift] for one in self.trees]}


def layout(axes: Sequence[Axis], masks: Sequence[Masked], strategy: str, *, gaussian: bool) -> Layout:
    """How a family of mechanism range is released. strategy: one of STRATEGIES.

    A matrix strategy is taken where its mean deviation over the family's different queries is a
    hundredth below that of trees and of cells; else the better of these. DP003 for a query of trees
    that is no range, DP005 for a column of more than MOST_CLASSES classes, or too many sets.
    """
    if strategy == MATRIX:
        for axis, own in zip(axes, masks, strict=True):
            _check(axis, own)
        each = zip(*([own.different[place] for place in own.of] for own in masks), strict=True)
        return _designed(tuple(map(_bare, axes)), tuple(sorted(set(each))), gaussian)
    return Layout(trees_for(axes, masks, gaussian=gaussian))


def trees_for(axes: Sequence[Axis], masks: Sequence[Masked], *, gaussian: bool) -> tuple[Tree, ...]:
    """Of each axis the tree that its ranges are read from; none where single classes are nearest,
    which is a release by cells. DP003 for a query that is no range.
    """
    for axis, own in zip(axes, masks, strict=True):
        if not all(map(is_range, own.different)):
            raise DPError(
                SHAPE,
                f"a query of the grid reads declared values of {axis.name} that are not next to each other",
                f"Compare {axis.name} by =, <, <=, >, >= or BETWEEN; mechanism => 'cells' answers any set of values,"
                """ and so does options => '{"strategy": "matrix"}'.""",
            )
    import numpy as np

    from pg_epsilon.release import ranges

    of = np.array([own.of for own in masks], np.int64)
    found = ranges.trees_for(list(map(_bare, axes)), [own.different for own in masks], of, gaussian=gaussian)
    return found if levels_of(found) > 1 else ()


def _bare(axis: Axis) -> Tree:
    return Tree(axis.size, axis.starts[-1] is None)


def _check(axis: Axis, own: Masked) -> None:
    if axis.size > MOST_CLASSES:
        raise DPError(
            OUT_OF_RANGE,
            f"{axis.name} has {axis.size} classes, and a matrix strategy at most {MOST_CLASSES} of a column",
            "Leave out strategy for ranges of trees, or take mechanism => 'cells', which answers any set of values.",
        )
    many = len(own.different)
    if many * axis.size**2 > MOST_WORK and not all(map(is_range, own.different)):
        raise DPError(
            OUT_OF_RANGE,
            f"a matrix strategy for {many} sets of {axis.size} classes takes too long to find",
            f"Ask for at most {MOST_WORK // axis.size**2} different sets of {axis.name}, or by mechanism => 'cells'.",
        )


@lru_cache(maxsize=8)
def _designed(bare: tuple[Tree, ...], sets: tuple[tuple[str, ...], ...], gaussian: bool) -> Layout:
    """sets: of the family's different queries, each by its masks; sorted, so that the same ones
    have the same strategy. Remembered: a request is read several times between plan and answer.
    """
    import numpy as np

    from pg_epsilon.release import designed, ranges

    different = [sorted(set(own)) for own in zip(*sets, strict=True)]
    places = [{mask: place for place, mask in enumerate(own)} for own in different]
    of = [[own[mask] for mask in each] for own, each in zip(places, zip(*sets, strict=True), strict=True)]
    numbers = np.array(of, np.int64)
    columns = designed.sides(bare, different, numbers)
    found, mean = designed.best(columns, numbers, gaussian=gaussian)
    trees: tuple[Tree, ...] = bare
    if all(one.ordered for one in columns):
        trees = ranges.trees_for(bare, different, numbers, gaussian=gaussian)
    by_trees, by_cells = (designed.mean_of(one, columns, numbers, gaussian=gaussian) for one in (trees, bare))
    if mean < BETTER * min(by_trees, by_cells):
        return Layout(strategy=found)
    return Layout(trees if by_trees < by_cells else ())
