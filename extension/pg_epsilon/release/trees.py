"""Nodes over the classes of a column, of which a range of classes is a sum of few
(numeric-release.md §8.1).

A level has nodes of 1, B, B^2, … classes, B a power of two: a row is in one node of each level. A
range is made of nodes that are added and of some that are taken away, whichever is fewer; a node
that ends behind the last class has only those that there are. NULL's class is no part of the
order: at each level it is a node by itself. Everything here is public.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

Node = tuple[int, int]  # its number, and 1 or -1


@dataclass(frozen=True)
class Tree:
    """The nodes over one column's classes, levels from the smallest on.

    classes: how many, NULL's included; null: whether the last one is NULL's. levels: of nodes.
    shift: a node has 2^shift of the level below.
    """

    classes: int
    null: bool = False
    levels: int = 1
    shift: int = 1

    @property
    def ordered(self) -> int:
        """Classes in the order, without NULL's."""
        return self.classes - self.null

    def size(self, level: int) -> int:
        """How many classes a node has."""
        return 1 << (self.shift * level)

    def width(self, level: int) -> int:
        """The nodes of a level, without NULL's."""
        return -(-self.ordered // self.size(level))

    def first(self, level: int) -> int:
        """The number of a level's first node; NULL's follows the last one."""
        return sum(self.width(one) + self.null for one in range(level))

    @property
    def nodes(self) -> int:
        return self.first(self.levels)

    @property
    def ranges(self) -> int:
        """How many sets of classes are one range, or one and NULL's, or NULL's."""
        own = self.ordered * (self.ordered + 1) // 2
        return 2 * own + 1 if self.null else own

    def run(self, low: int, high: int, *, signed: bool = True) -> list[Node]:
        """The nodes of the classes low <= x < high, none of them twice.

        signed: nodes may be taken away, so that there are fewer.
        """
        done: list[tuple[int, int, int, int]] = []  # level, first, last + 1, sign
        many, fewest = 0, (high - low, 0, 0, low, high)  # nodes, then where the walk ends
        for level in range(self.levels - 1):
            (low, high), steps = self._rounded(level, low, high, signed)
            if low > high:
                break
            done += steps
            many += sum(end - start for _, start, end, _ in steps)
            fewest = min(fewest, (many + high - low, level + 1, len(done), low, high))
        _, level, walked, low, high = fewest
        kept = [*done[:walked], (level, low, high, 1)]
        return [(self.first(at) + node, sign) for at, start, end, sign in kept for node in range(start, end)]

    def _rounded(
        self, level: int, low: int, high: int, signed: bool
    ) -> tuple[tuple[int, int], list[tuple[int, int, int, int]]]:
        """Ends in nodes of a level → in those of the next one, and the nodes that this takes."""
        width, many = self.width(level), 1 << self.shift
        down, up = low & -many, min((low | (many - 1)) + 1, width)
        steps = []
        if low == down or (signed and low - down < up - low):
            steps.append((level, down, low, -1))
            low = down >> self.shift
        else:
            steps.append((level, low, up, 1))
            low = -(-up >> self.shift)
        down, up = high & -many, min((high | (many - 1)) + 1, width)
        if high == width:
            high = self.width(level + 1)
        elif not signed or high - down <= up - high:
            steps.append((level, down, high, 1))
            high = down >> self.shift
        else:
            steps.append((level, high, up, -1))
            high = self.width(level + 1) if up == width else up >> self.shift
        return (low, high), steps


def is_range(mask: str) -> bool:
    """Whether the classes of a mask are next to each other, or none."""
    return "0" not in mask.strip("0")


def levels_of(trees: Sequence[Tree]) -> int:
    """In how many nodes a row is: one of each level of each column."""
    return math.prod(one.levels for one in trees)


def nodes_of(trees: Sequence[Tree]) -> int:
    """Of all columns together."""
    return math.prod(one.nodes for one in trees)
