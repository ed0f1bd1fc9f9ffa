"""Which nodes of the tree over partitions answer a window (turbo.md §6.10, §6.12). Public numbers only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Node(NamedTuple):
    """A tree node: the partitions first … last (0-based, inclusive) in tree `tree` of the forest; 0 if there is one.

    Its accounts are those partitions' leaves; two nodes of different trees over the same partitions share them.
    """

    tree: int
    first: int
    last: int

    @property
    def size(self) -> int:
        """How many partitions."""
        return self.last - self.first + 1

    def key(self) -> str:
        """Text by which it is stored: "tree:first-last"."""
        return f"{self.tree}:{self.first}-{self.last}"

    @staticmethod
    def from_key(key: str) -> Node:
        """The inverse of `key`."""
        tree, _, span = key.partition(":")
        first, _, last = span.partition("-")
        return Node(int(tree), int(first), int(last))

    def children(self, origin: int = 0) -> tuple[Node, Node] | None:
        """The two halves of a dyadic node; None for a leaf. `origin`: where its tree begins."""
        half = self.size // 2
        if half == 0:
            return None
        middle = self.first + half
        return Node(self.tree, self.first, middle - 1), Node(self.tree, middle, self.last)


WHOLE = Node(0, 0, 0)
"""The one node of a view that is not partitioned."""


def run_key(nodes: tuple[Node, ...]) -> str:
    """Text by which the sparse vector of a run J of nodes is stored: the exact ordered list (E-1)."""
    return ",".join(node.key() for node in nodes)


def dyadic(first: int, last: int, *, tree: int = 0, origin: int = 0) -> tuple[Node, ...]:
    """The fewest dyadic nodes that cover first … last, left to right: at most 2 ceil(log2 T).

    Dyadic: 2^k partitions, the first one at a multiple of 2^k from `origin`. Both ends are 0-based and inclusive.
    """
    nodes, start, stop = [], first - origin, last - origin
    while start <= stop:
        size = start & -start if start else 1 << (stop + 1).bit_length()
        while start + size - 1 > stop:
            size >>= 1
        nodes.append(Node(tree, origin + start, origin + start + size - 1))
        start += size
    return tuple(nodes)


def flat(first: int, last: int) -> tuple[Node, ...]:
    """One leaf per partition (Question 6's alternative: better for short windows)."""
    return tuple(Node(0, p, p) for p in range(first, last + 1))


def forest(first: int, last: int, longest: int) -> tuple[Node, ...] | None:
    """The cover by a forest of overlapping trees for unbounded streams (Thm A.8); None: the window is too long.

    longest = 2^m partitions, the longest window allowed. Tree t holds partitions t longest … (t + 2) longest - 1, and
    a window goes to the rightmost tree that contains it.
    """
    if last - first + 1 > longest:
        return None
    tree = first // longest
    return dyadic(first, last, tree=tree, origin=tree * longest)


def stretches(parts: Sequence[int]) -> list[Node]:
    """Runs of neighbouring partitions as nodes, which need not be dyadic. parts: ascending."""
    found: list[Node] = []
    for part in parts:
        if found and found[-1].last == part - 1:
            found[-1] = found[-1]._replace(last=part)
        else:
            found.append(Node(0, part, part))
    return found
