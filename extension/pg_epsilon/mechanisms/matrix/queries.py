"""Workloads as linear maps: p queries over n buckets, applied without being formed where they are intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
MAX_CELLS = 1_000_000  # of a workload that is written out


class Queries(Protocol):
    """A p x n matrix W. Arguments are arrays whose last axis is the buckets (times) or the queries (back)."""

    @property
    def shape(self) -> tuple[int, int]: ...

    def times(self, x: Array) -> Array:
        """W x for every vector x along the last axis: (..., n) -> (..., p)."""

    def back(self, y: Array) -> Array:
        """y W for every vector y along the last axis: (..., p) -> (..., n)."""

    def dense(self) -> Array: ...


@dataclass(frozen=True)
class Intervals:
    """Query k is the sum over buckets starts[k] .. ends[k] - 1: prefixes, ranges, totals. O(n + p) a vector."""

    starts: tuple[int, ...]
    ends: tuple[int, ...]
    buckets: int

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.starts), self.buckets

    def times(self, x: Array) -> Array:
        total = np.concatenate([np.zeros((*x.shape[:-1], 1)), np.cumsum(x, axis=-1)], axis=-1)
        return np.asarray(total[..., self._ends] - total[..., self._starts])

    def back(self, y: Array) -> Array:
        steps = np.zeros((*y.shape[:-1], self.buckets + 1))
        if len(set(self.starts)) == 1:  # of prefixes, many times faster than additions one by one
            steps[..., self.starts[0]] += y.sum(axis=-1)
        else:
            np.add.at(steps.T, self._starts, y.T)
        if len(set(self.ends)) == len(self.ends):
            steps[..., self._ends] -= y
        else:
            np.subtract.at(steps.T, self._ends, y.T)
        return np.asarray(np.cumsum(steps, axis=-1)[..., :-1])

    def dense(self) -> Array:
        places = np.arange(self.buckets)
        inside = (places >= self._starts[:, None]) & (places < self._ends[:, None])
        return np.asarray(inside, dtype=float)

    @cached_property
    def _starts(self) -> Any:
        return np.asarray(self.starts, dtype=np.intp)

    @cached_property
    def _ends(self) -> Any:
        return np.asarray(self.ends, dtype=np.intp)


@dataclass(frozen=True, eq=False)
class Written:
    """Any real matrix, p x n."""

    matrix: Array

    @staticmethod
    def of(rows: Any) -> Written:
        """From rows of numbers."""
        return Written(np.asarray(rows, dtype=float))

    @property
    def shape(self) -> tuple[int, int]:
        return self.matrix.shape[0], self.matrix.shape[1]

    def times(self, x: Array) -> Array:
        return np.asarray(x @ self.matrix.T)

    def back(self, y: Array) -> Array:
        return np.asarray(y @ self.matrix)

    def dense(self) -> Array:
        return self.matrix


@dataclass(frozen=True)
class Weighted:
    """W diag(weights): queries over weighted buckets, as W T of a truncated workload (sum-workloads.md §2)."""

    queries: Queries
    weights: tuple[float, ...]

    @property
    def shape(self) -> tuple[int, int]:
        return self.queries.shape

    def times(self, x: Array) -> Array:
        return self.queries.times(x * self._weights)

    def back(self, y: Array) -> Array:
        return np.asarray(self.queries.back(y) * self._weights)

    def dense(self) -> Array:
        return np.asarray(self.queries.dense() * self._weights)

    @cached_property
    def _weights(self) -> Array:
        return np.asarray(self.weights, dtype=float)


def prefixes(counts: Sequence[int], buckets: int) -> Intervals:
    """Prefix queries: the sum over the first counts[k] buckets."""
    return Intervals((0,) * len(counts), tuple(counts), buckets)


def gram(queries: Queries, x: Array) -> Array:
    """x W'W for every vector along the last axis."""
    return queries.back(queries.times(x))


def gram_matrix(queries: Queries) -> Array:
    """W'W, n x n."""
    return gram(queries, np.eye(queries.shape[1]))


def gram_diagonal(queries: Queries) -> Array:
    """The squared L2 norm of each column of W."""
    return np.asarray(np.square(queries.dense()).sum(axis=0))


def distinct_columns(queries: Queries) -> tuple[int, ...]:
    """For each bucket the number of its block: neighbouring buckets that no query separates share one.

    Merging equal columns loses nothing where bucket sums are released (sum-workloads.md §8.5).
    """
    matrix = queries.dense()
    changes = np.any(matrix[:, 1:] != matrix[:, :-1], axis=0)
    return (0, *(int(block) for block in np.cumsum(changes)))
