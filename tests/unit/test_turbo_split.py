"""Covers of windows: the vectors of turbo.md §13, and what holds for every window."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from pg_epsilon.turbo.split import Node, dyadic, flat, forest, run_key

SOME = settings(database=None, deadline=None, max_examples=200)
VECTORS = {
    (1, 3): "1-1 2-3",
    (0, 49): "0-31 32-47 48-49",
    (5, 22): "5-5 6-7 8-15 16-19 20-21 22-22",
    (1, 62): "1-1 2-3 4-7 8-15 16-31 32-47 48-55 56-59 60-61 62-62",
}


def test_vectors() -> None:
    for (first, last), expected in VECTORS.items():
        assert " ".join(f"{n.first}-{n.last}" for n in dyadic(first, last)) == expected


@given(st.integers(0, 5000), st.integers(0, 5000))
@SOME
def test_a_cover_is_dyadic_complete_and_small(a: int, b: int) -> None:
    first, last = min(a, b), max(a, b)
    nodes = dyadic(first, last)
    assert [p for n in nodes for p in range(n.first, n.last + 1)] == list(range(first, last + 1))
    for n in nodes:
        assert n.size & (n.size - 1) == 0
        assert n.first % n.size == 0
    assert len(nodes) <= max(1, 2 * math.ceil(math.log2(last + 2)))


@given(st.integers(0, 10_000), st.integers(1, 64))
@SOME
def test_a_forest_covers_every_window_up_to_its_longest(first: int, length: int) -> None:
    """Thm A.8: in the rightmost tree that contains it, on the nodes of that tree."""
    nodes = forest(first, first + length - 1, 64)
    assert nodes is not None
    tree = first // 64
    assert [p for n in nodes for p in range(n.first, n.last + 1)] == list(range(first, first + length))
    for n in nodes:
        assert n.tree == tree
        assert (n.first - 64 * tree) % n.size == 0
        assert 64 * tree <= n.first <= n.last < 64 * (tree + 2)
    assert forest(first, first + 64, 64) is None


def test_the_flat_planner_takes_leaves() -> None:
    assert flat(3, 5) == (Node(0, 3, 3), Node(0, 4, 4), Node(0, 5, 5))


def test_keys_tell_nodes_and_runs_apart() -> None:
    nodes = dyadic(5, 22)
    assert [Node.from_key(n.key()) for n in nodes] == list(nodes)
    assert run_key(nodes[:2]) != run_key(nodes[:3])
    assert Node(1, 64, 64).key() != Node(0, 64, 64).key()


def test_children_are_halves() -> None:
    assert Node(0, 8, 15).children() == (Node(0, 8, 11), Node(0, 12, 15))
    assert Node(0, 8, 8).children() is None
