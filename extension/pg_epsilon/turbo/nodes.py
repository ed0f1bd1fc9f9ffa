"""Where a tree node's histogram comes from: uniform, or an older one (turbo.md §6.13). Post-processing: free."""

from __future__ import annotations

from pg_epsilon.turbo.books import Books
from pg_epsilon.turbo.histogram import Histogram
from pg_epsilon.turbo.split import Node
from pg_epsilon.turbo.steps import heuristic_of
from pg_epsilon.turbo.view import View


def histogram_of(node: Node, view: View, books: Books) -> Histogram:
    """The node's histogram; made now if it is asked for the first time."""
    found = books.node(node)
    if found is None:
        found = _started(node, view, books)
        books.make_node(node, found)
    return found


def sealed(partition: int, view: View, books: Books) -> None:
    """Make the nodes that the newly sealed partition completes, leaf first, so that they start from what is known now.

    Only for warm starts: without them a node is made when it is first asked for.
    """
    if not view.warm:
        return
    for tree, origin in _trees(partition, view):
        size = 1
        while (partition - origin + 1) % size == 0 and partition - origin + 1 >= size:
            histogram_of(Node(tree, partition - size + 1, partition), view, books)
            size *= 2
            if view.longest is not None and size > 2 * view.longest:
                break


def _trees(partition: int, view: View) -> list[tuple[int, int]]:
    """(tree, its first partition) of the trees that contain a partition: two in a forest."""
    if view.longest is None or view.planner == "flat":
        return [(0, 0)]
    newest = partition // view.longest
    return [(tree, tree * view.longest) for tree in (newest - 1, newest) if tree >= 0]


def _started(node: Node, view: View, books: Books) -> Histogram:
    made = _inherited(node, books) if view.warm else None
    if made is None:
        return Histogram.uniform(view.domain.bins, heuristic_of(view))
    return made.mixed(view.mix) if view.mix else made


def _inherited(node: Node, books: Books) -> Histogram | None:
    """A leaf copies the nearest earlier leaf of this tree or the one before; an inner node is its children's mean."""
    halves = node.children()
    if halves is None:
        for earlier in range(node.first, -1, -1):
            for tree in (node.tree, node.tree - 1):
                found = books.node(Node(tree, earlier, earlier))
                if found is not None:
                    return found.copy()
        return None
    children = [books.node(half) for half in halves]
    if children[0] is None or children[1] is None:
        return None
    return Histogram.average([children[0], children[1]], [books.scale(half.first, half.last) for half in halves])
