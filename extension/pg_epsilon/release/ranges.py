"""Which nodes a family's ranges are read from, their exact masses, and sums of noisy ones
(numeric-release.md §8, §8.1, and §0.0's sentence about §8).

Every node has the cells of a class (masses.py): a row puts its one unit of mass into one node of
each level, on every column, so that it moves all of them together by the product of the columns'
levels in L1, and by its root in L2. A sum over K nodes has the noise of K cells: what answers.py
says of K classes holds of it with noise so many times wider.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pg_epsilon.release.answers import Sums
from pg_epsilon.release.trees import Tree

Ints = npt.NDArray[np.int64]
Array = npt.NDArray[np.float64]
Bits = npt.NDArray[np.bool_]
MOST_MASS = 2**62
_HALF = 31  # bits: masses are added up in two parts, so that no sum leaves 63 bits
MOST_LINES = 64  # different sets of the last column's classes, in a set that is no product
_SWEEPS = 3  # over the columns, whose levels are chosen one by one


def trees_for(bare: Sequence[Tree], masks: Sequence[Sequence[str]], of: Ints, *, gaussian: bool) -> tuple[Tree, ...]:
    """Trees by which the mean deviation over a family's sets is least; of equals the fewest levels.

    bare: of each column, of one level. masks: of each column its different ranges; of: [column,
    query], the number of each query's. The deviation of a sum over K nodes grows with levels times
    the root of K, for Gaussian noise with the root of both. Columns are chosen one after another.
    """
    sets = np.unique(of, axis=1)
    ends = [np.array([_ends(mask) for mask in own], np.int64).reshape(-1, 2) for own in masks]
    found = list(bare)
    roots = [np.sqrt(_counts(tree, own)[at]) for tree, own, at in zip(found, ends, sets, strict=True)]
    for _ in range(_SWEEPS if len(found) > 1 else 1):
        for place, tree in enumerate(bare):
            rest = np.prod([one for other, one in enumerate(roots) if other != place], axis=0)
            each = [np.sqrt(_counts(one, ends[place])[sets[place]]) for one in options(tree)]
            costs = [
                (math.sqrt(one.levels) if gaussian else one.levels) * math.fsum(rest * root)
                for one, root in zip(options(tree), each, strict=True)
            ]
            best = costs.index(min(costs))
            found[place], roots[place] = options(tree)[best], each[best]
    return tuple(found)


@lru_cache(maxsize=16)
def options(bare: Tree) -> tuple[Tree, ...]:
    """All trees over a column's classes, up to one node of all; those of fewer levels first."""
    found = [bare]
    for shift in range(1, max(1, (bare.ordered - 1).bit_length()) + 1):
        levels = 2
        while 1 << (shift * (levels - 2)) < bare.ordered:
            found.append(Tree(bare.classes, bare.null, levels, shift))
            levels += 1
    return tuple(sorted(found, key=lambda one: (one.levels, one.shift)))


def _ends(mask: str) -> tuple[int, int]:
    return (mask.index("1"), mask.rindex("1") + 1) if "1" in mask else (0, 0)


def _counts(tree: Tree, ends: Ints) -> Ints:
    """How many nodes `Tree.run` takes of each range."""
    low, high = ends[:, 0], ends[:, 1]
    many, fewest = np.zeros(len(ends), np.int64), high - low
    size = 1 << tree.shift
    for level in range(tree.levels - 1):
        width = tree.width(level)
        down, up = low & -size, np.minimum((low | (size - 1)) + 1, width)
        back = (low == down) | (low - down < up - low)
        many = many + np.where(back, low - down, up - low)
        low = np.where(back, down, up + size - 1) >> tree.shift
        down, up = high & -size, np.minimum((high | (size - 1)) + 1, width)
        last, less = high == width, high - down <= up - high
        many = many + np.where(last, 0, np.where(less, high - down, up - high))
        above = np.where(up == width, tree.width(level + 1), up >> tree.shift)
        high = np.where(last, tree.width(level + 1), np.where(less, down >> tree.shift, above))
        fewest = np.minimum(fewest, many + high - low)
    return np.where(ends[:, 0] < ends[:, 1], fewest, 0)


def counts(trees: Sequence[Tree], masks: Sequence[Sequence[str]], of: Ints) -> Ints:
    """Of each query how many nodes it is read from; queries are ranges of every column."""
    found = np.ones(of.shape[1], np.int64)
    for tree, own, at in zip(trees, masks, of, strict=True):
        found *= _counts(tree, np.array([_ends(mask) for mask in own], np.int64).reshape(-1, 2))[at]
    return found


def of_nodes(classes: Sequence[int], trees: Sequence[Tree]) -> list[int]:
    """The cells of all classes → of all nodes, node by node. Private."""
    cells = np.array([min(mass, MOST_MASS) for mass in classes], np.int64)
    found: list[int] = added_up(cells.reshape(*(tree.classes for tree in trees), -1), trees).ravel().tolist()
    return found


def added_up(cells: Ints, trees: Sequence[Tree]) -> Ints:
    """Masses of classes → of nodes. Private, and exact; cut at MOST_MASS, so that a row moves no
    node further.

    cells: [class of each column..., cell], each 0 to MOST_MASS.
    """
    high, low = cells >> _HALF, cells & ((1 << _HALF) - 1)
    for place, tree in enumerate(trees):
        high, low = _along(high, place, tree), _along(low, place, tree)
    high, low = high + (low >> _HALF), low & ((1 << _HALF) - 1)
    over = high >= MOST_MASS >> _HALF
    return np.where(over, MOST_MASS, (np.where(over, 0, high) << _HALF) + low)


def _along(table: Ints, place: int, tree: Tree) -> Ints:
    if tree.levels == 1:
        return table
    moved = np.moveaxis(table, place, 0)
    own, null = moved[: tree.ordered], moved[tree.ordered :]
    parts = []
    for level in range(tree.levels):
        starts = np.arange(0, tree.ordered, tree.size(level))
        parts += [np.add.reduceat(own, starts, axis=0), null]
    return np.moveaxis(np.concatenate(parts), 0, place)


class Read(NamedTuple):
    """The nodes of a set of classes, each with 1 or -1. box: a range of every column."""

    nodes: Ints
    signs: Array
    box: bool

    def of(self, cells: Array) -> Array:
        """Of each cell of a class the sum over the set. cells: [node of all columns, cell]."""
        found: Array = self.signs @ cells[self.nodes]
        return found


def cover(tree: Tree, bits: Bits, *, signed: bool = True) -> tuple[Ints, Array]:
    """The nodes of a set of classes, and 1 or -1 of each: of several ranges none is taken away."""
    own, null = bits[: tree.ordered], np.flatnonzero(bits[tree.ordered :])
    ends = _edges(own).tolist()
    if signed and len(ends) <= 2:
        run = tree.run(*ends) if ends else []
        nodes = np.array([node for node, _ in run] + [tree.ordered] * len(null), np.int64)
        return nodes, np.array([float(sign) for _, sign in run] + [1.0] * len(null))
    left, found = own.copy(), [tree.ordered + null]
    for level in reversed(range(tree.levels)):
        full = np.logical_and.reduceat(left, np.arange(0, tree.ordered, tree.size(level)))
        found.append(tree.first(level) + np.flatnonzero(full))
        left &= ~np.repeat(full, tree.size(level))[: tree.ordered]
    nodes = np.concatenate(found)
    return nodes, np.ones(len(nodes))


def _edges(bits: Bits) -> Ints:
    """Where runs of classes begin, and where they have ended."""
    return np.flatnonzero(np.diff(np.concatenate([[0], bits.astype(np.int8), [0]])))


def read(trees: Sequence[Tree], sets: Sequence[Bits]) -> Read:
    """Of the classes that are in the sets of all columns."""
    box = all(len(_edges(own[: tree.ordered])) <= 2 for tree, own in zip(trees, sets, strict=True))
    return _together(trees, [cover(tree, own, signed=box) for tree, own in zip(trees, sets, strict=True)], box)


def _together(trees: Sequence[Tree], covers: Sequence[tuple[Ints, Array]], box: bool) -> Read:
    """Of the nodes of each column those of all columns."""
    nodes, signs = np.zeros(1, np.int64), np.ones(1)
    for tree, (at, sign) in zip(trees, covers, strict=True):
        nodes = (nodes[:, None] * tree.nodes + at[None, :]).ravel()
        signs = (signs[:, None] * sign[None, :]).ravel()
    return Read(nodes, signs, box)


def read_bits(trees: Sequence[Tree], bits: Bits) -> Read:
    """Of any set of classes, an array over the columns: where it is no product of sets of the
    columns, by sets of the last one's for single classes of the others, or, of too many different
    ones, by single classes.
    """
    axes: list[Bits] = []
    for place in range(bits.ndim):
        axes.append(np.asarray(bits.any(axis=tuple(other for other in range(bits.ndim) if other != place))))
    whole = np.ones((), bool)
    for one in axes:
        whole = whole[..., None] & one
    if bool((whole == bits).all()):
        return read(trees, axes)
    numbers: dict[bytes, int] = {}
    rows = bits.reshape(-1, bits.shape[-1])
    which = np.array([numbers.setdefault(row.tobytes(), len(numbers)) for row in rows])
    lines = [np.frombuffer(one, np.bool_) for one in numbers]
    if len(lines) > MOST_LINES:
        at = _first_level(trees, np.argwhere(bits))
        return Read(at, np.ones(len(at)), False)
    parts = []
    for number, line in enumerate(lines):
        own = np.argwhere(which.reshape(bits.shape[:-1]) == number)
        nodes, _ = cover(trees[-1], line, signed=False)
        starts = _first_level(trees[:-1], own)
        parts.append((starts[:, None] * trees[-1].nodes + nodes[None, :]).ravel())
    found = np.concatenate(parts)
    return Read(found, np.ones(len(found)), False)


def _first_level(trees: Sequence[Tree], classes: Ints) -> Ints:
    """Node numbers of single classes, [number, column]: in a tree's first level they are the same."""
    found = np.zeros(len(classes), np.int64)
    for tree, at in zip(trees, classes.T, strict=True):
        found = found * tree.nodes + at
    return found


def _bits(mask: str) -> Bits:
    found: Bits = np.frombuffer(mask.encode(), np.uint8) == ord("1")
    return found


def sums_of(cells: Array, trees: Sequence[Tree], masks: Sequence[Sequence[str]], of: Ints) -> Sums:
    """Of each query, a range of every column, its nodes' cells added up; what Sums calls its
    classes is how many they are.

    cells: [node of all columns, cell].
    """
    covers = [[cover(tree, _bits(mask)) for mask in own] for tree, own in zip(trees, masks, strict=True)]
    sets, at = np.unique(of, axis=1, return_inverse=True)
    found, many = np.zeros((sets.shape[1], cells.shape[1])), np.zeros(sets.shape[1], np.int64)
    for number, places in enumerate(sets.T.tolist()):
        own = _together(trees, [covers[column][place] for column, place in enumerate(places)], True)
        found[number], many[number] = own.of(cells), len(own.nodes)
    at = np.asarray(at).reshape(-1)
    return Sums(found[at], many[at])


def trees_of(facts: Mapping[str, Any]) -> tuple[Tree, ...]:
    """Those that are stored of a release; of one by cells none."""
    if "trees" not in facts:
        return ()
    return tuple(
        Tree(len(domain), domain[-1] is None, int(levels), int(shift))
        for (_, domain), (levels, shift) in zip(facts["classes"], facts["trees"], strict=True)
    )
