"""GreedyH: a binary tree whose weights are chosen from the leaves up for a workload's Gram matrix (§8.2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pg_epsilon.mechanisms.matrix.queries import Array, Queries, gram_matrix
from pg_epsilon.mechanisms.matrix.strategies import Strategy, widths

BRANCHING, GRID = 2, 100


@dataclass(frozen=True)
class _Node:
    """A subtree: its error, the inverse of its Gram matrix, its weighted intervals."""

    error: float
    inverse: Array
    rows: tuple[tuple[int, int, float], ...]


def greedyh(queries: Queries) -> Strategy:
    """The weighted tree as a strategy: every column's weights add up to 1, so its sensitivity is 1.

    It may lose to identity, so a planner compares (sum-workloads.md §8.2, iii), and it is rank deficient where queries
    leave blocks of buckets together (iv). O(n² log n) time, O(n²) memory.
    """
    gram = gram_matrix(queries)
    n = len(gram)
    equal = np.all(gram[:, 1:] == gram[:, :-1], axis=0)  # equal neighbours: no query separates the two buckets
    runs = np.concatenate([[0], np.cumsum(~equal)])
    norms = np.square(gram).sum(axis=0)
    node = _build(gram, norms, runs, 0, n, 0)
    kept = [(low, high, weight) for low, high, weight in node.rows if weight > 0]
    matrix = np.zeros((len(kept), n))
    for place, (low, high, weight) in enumerate(kept):
        matrix[place, low : high + 1] = weight
    return Strategy("greedyh", matrix)


def _build(gram: Array, norms: Array, runs: Array, low: int, size: int, depth: int) -> _Node:
    if size == 1 or runs[low] == runs[low + size - 1]:
        return _Node(float(norms[low]), np.full((size, size), 1 / size**2), ((low, low + size - 1, 1.0),))
    children, start = [], low
    for width in widths(size, BRANCHING):
        children.append((start, _build(gram, norms, runs, start, width, depth + 1)))
        start += width
    return _joined(gram, children, low, size, depth)


def _joined(gram: Array, children: list[tuple[int, _Node]], low: int, size: int, depth: int) -> _Node:
    """Steps 4 to 8: the weight of the node itself that costs least, its children damped by the rest."""
    block = np.zeros((size, size))
    separate = 0.0
    ones = np.zeros(size)
    for start, child in children:
        width, place = len(child.inverse), start - low
        block[place : place + width, place : place + width] = child.inverse
        own = child.inverse.sum(axis=1)
        ones[place : place + width] = own
        separate += float(np.square(gram[:, start : start + width] @ own).sum())
    errors = sum(child.error for _, child in children)
    whole = float(np.square(gram[:, low : low + size] @ ones).sum())
    damping, total = BRANCHING ** (-depth / 2), float(ones.sum())
    lam = 1 - np.arange(GRID) / GRID
    rest = np.square(1 - lam) * damping
    gain = ((whole - separate) * damping + separate) * rest / (np.square(lam) + rest * total)
    objective = (errors - gain) / np.square(lam)
    best = int(np.argmin(objective))
    share = float(lam[best])
    drop = (1 - share) ** 2 / (share**2 + total * (1 - share) ** 2)
    inner = tuple((a, b, share * weight) for _, child in children for a, b, weight in child.rows)
    return _Node(
        float(objective[best]),
        (block - drop * np.outer(ones, ones)) / share**2,
        ((low, low + size - 1, 1 - share), *inner),
    )
