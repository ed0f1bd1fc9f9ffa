"""Which matrix strategy answers a family's sets of classes best (numeric-release.md §8.1;
sum-workloads.md §8).

Candidates are those of sum-workloads.md, of each column by itself, for the sets that queries read
along it: single classes, trees, weighted trees, p-identity, and for Gaussian noise the strategy of
least total error. Each is rounded to integers first and judged by these, by the mean deviation of
the family's different queries. Public facts only; the same family gets the same integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt

from pg_epsilon.mechanisms.matrix.greedyh import greedyh
from pg_epsilon.mechanisms.matrix.optimal import LARGEST as MOST_OPTIMAL
from pg_epsilon.mechanisms.matrix.optimal import optimal
from pg_epsilon.mechanisms.matrix.p_identity import STARTS, p_identities
from pg_epsilon.mechanisms.matrix.queries import Array, Queries, Written
from pg_epsilon.mechanisms.matrix.strategies import Strategy, tightened
from pg_epsilon.release import ranges
from pg_epsilon.release.kronecker import Kronecker, Matrix
from pg_epsilon.release.trees import Tree, is_range

Ints = npt.NDArray[np.int64]
BITS = 10  # of a strategy's entries, of all columns together
ROWS = (1, 4, 8)  # of p-identity beside the single classes; the last of at most FEW classes
FEW = 256  # classes of a column for which trees of all kinds are compared, too
RIDGE = 1e-3  # of the mean square: what each class by itself counts for, so that none is left out
EQUAL = 1e-9  # relative: differences by rounding alone
_SWEEPS = 3  # over the columns, whose strategies are chosen one by one


@dataclass(frozen=True)
class Side:
    """The different sets of one column's classes, and how many of the family's different queries
    read each.
    """

    masks: tuple[str, ...]
    often: Array
    bare: Tree

    @property
    def ordered(self) -> bool:
        return all(map(is_range, self.masks))

    @cached_property
    def _bits(self) -> Array:
        return np.array([np.frombuffer(one.encode(), np.uint8) == ord("1") for one in self.masks], np.float64)

    @cached_property
    def _ends(self) -> Ints:
        return np.array([(one.find("1") % (len(one) + 1), one.rfind("1") + 1) for one in self.masks], np.int64)

    @cached_property
    def gram(self) -> Array:
        """W'W, [class, class]."""
        n = self.bare.classes
        if not self.ordered:
            return np.asarray(self._bits.T @ (self._bits * self.often[:, None]))
        table = np.zeros((n + 1, n + 1))
        low, high = self._ends.T
        np.add.at(table, (np.minimum(low, high), high), self.often)
        table = np.cumsum(np.cumsum(table, axis=0)[:, ::-1], axis=1)[:, ::-1]
        upper = np.triu(table[:n, 1:])
        return upper + np.triu(upper, 1).T

    def nodes(self, tree: Tree) -> Array:
        """How many nodes each set is read from."""
        if tree.levels == 1:
            return np.array([one.count("1") for one in self.masks], np.float64)
        at = np.arange(len(self.masks))[None, :]
        return ranges.counts([tree], [self.masks], at).astype(np.float64)

    def squares(self, inner: Array) -> Array:
        """Of each set w the number w inner w'. inner: [class, class]."""
        if not self.ordered:
            return np.asarray(((self._bits @ inner) * self._bits).sum(axis=1))
        table = np.zeros(np.array(inner.shape) + 1)
        table[1:, 1:] = np.cumsum(np.cumsum(inner, axis=0), axis=1)
        low, high = np.minimum(self._ends[:, 0], self._ends[:, 1]), self._ends[:, 1]
        return np.asarray(table[high, high] - table[low, high] - table[high, low] + table[low, low])


@dataclass(frozen=True)
class _Gram:
    """Queries of which only W'W is known: what p-identity reads where it begins but once."""

    square: Array

    @property
    def shape(self) -> tuple[int, int]:
        return self.square.shape[0], self.square.shape[1]

    def times(self, x: Array) -> Array:
        return np.asarray(x @ self.square)

    def back(self, y: Array) -> Array:
        return y

    def dense(self) -> Array:
        return np.diag(np.sqrt(np.maximum(np.diag(self.square), 0)))


@dataclass(frozen=True)
class _Candidate:
    """A strategy and how far each of the column's sets is off, where the noise of a class by
    itself has deviation 1.
    """

    matrix: Matrix
    deviations: Array


def sides(bare: Sequence[Tree], masks: Sequence[Sequence[str]], sets: Ints) -> list[Side]:
    """Of each column its sets.

    sets: the family's different queries, [column, query], by the numbers of theirs.
    """
    return [
        Side(tuple(own), np.bincount(at, minlength=len(own)).astype(np.float64), tree)
        for own, at, tree in zip(masks, sets, bare, strict=True)
    ]


def best(columns: Sequence[Side], sets: Ints, *, gaussian: bool) -> tuple[Kronecker, float]:
    """The strategy of the least mean deviation over the different queries, and that mean in units
    of the noise of one class by itself. Of equals the first candidate, single classes before all.
    """
    wide = sum(one.bare.classes > 1 for one in columns)
    found = [list(_candidates(one, BITS // max(wide, 1), gaussian=gaussian)) for one in columns]
    chosen = [0] * len(columns)
    for _ in range(_SWEEPS if len(columns) > 1 else 1):
        for place, own in enumerate(found):
            rest = np.ones(sets.shape[1])
            for other, at in enumerate(chosen):
                if other != place:
                    rest = rest * found[other][at].deviations[sets[other]]
            costs = [float((rest * one.deviations[sets[place]]).mean()) for one in own]
            chosen[place] = next(number for number, cost in enumerate(costs) if cost <= min(costs) * (1 + EQUAL))
    picked = [own[at] for own, at in zip(found, chosen, strict=True)]
    whole = np.prod([one.deviations[at] for one, at in zip(picked, sets, strict=True)], axis=0)
    return Kronecker(tuple(one.matrix for one in picked)), float(whole.mean())


def _candidates(side: Side, bits: int, *, gaussian: bool) -> Iterator[_Candidate]:
    for build in _strategies(side, gaussian=gaussian):
        with suppress(np.linalg.LinAlgError):  # an optimiser may diverge: then one less
            strategy = build()
            found = _judged(side, strategy, bits, gaussian=gaussian)
            if found is not None:
                yield found


def _strategies(side: Side, *, gaussian: bool) -> Iterator[Callable[[], Strategy]]:
    n = side.bare.classes
    yield lambda: Strategy("identity", np.eye(n))
    if n == 1:
        return
    for one in _trees(side, gaussian=gaussian):
        yield partial(_of_tree, one)
    if side.ordered and (gaussian or n > FEW):
        rows: tuple[int, ...] = ()  # trees are better, or `optimal` is
    else:
        rows = ROWS if n <= FEW else ROWS[:-1]
    gram = side.gram / max(float(np.trace(side.gram)), 1e-300) * n + RIDGE * np.eye(n)
    queries: Queries = _Gram(gram)
    if n <= STARTS[-1][0]:
        values, vectors = np.linalg.eigh(gram)
        queries = Written((vectors * np.sqrt(np.maximum(values, 0))).T)
    if rows:
        yield lambda: tightened(greedyh(queries), gaussian=gaussian)
    for build in p_identities(queries, rows):
        yield partial(_tightened, build, gaussian)
    if gaussian and n <= MOST_OPTIMAL:
        yield lambda: optimal(_Gram(gram))


def _trees(side: Side, *, gaussian: bool) -> list[Tree]:
    """Of few classes all; of many that which answers by sums of nodes best, and those which won
    in our trials.
    """
    tree = side.bare
    if tree.classes <= FEW:
        return [one for one in ranges.options(tree) if one.levels > 1]
    if not side.ordered:
        return []
    masks, of = [side.masks], np.arange(len(side.masks))[None, :]
    shapes = ((11, 1), (10, 1), (6, 2)) if gaussian else ((2, 4), (2, 5), (3, 3), (3, 4))
    most = {one.shift: one.levels for one in ranges.options(tree)}
    found = [Tree(tree.classes, tree.null, min(levels, most[shift]), shift) for levels, shift in shapes]
    found += ranges.trees_for([tree], masks, of, gaussian=gaussian)
    return [one for one in dict.fromkeys(found) if one.levels > 1]


def _of_tree(tree: Tree) -> Strategy:
    rows = ranges.added_up(np.eye(tree.classes, dtype=np.int64), [tree])
    return Strategy(f"tree {1 << tree.shift} of {tree.levels}", rows.astype(np.float64))


def _tightened(build: Callable[[], Strategy], gaussian: bool) -> Strategy:
    return tightened(build(), gaussian=gaussian)


def _judged(side: Side, strategy: Strategy, bits: int, *, gaussian: bool) -> _Candidate | None:
    """None of one that leaves classes together: any set shall be read from what is released."""
    entries = on_integers(strategy.matrix, bits, gaussian=gaussian)
    own = entries.astype(np.float64)  # whose products are exact, and many times faster
    square = own.T @ own
    inner: Array = np.linalg.inv(square).astype(np.float64)
    if not np.abs(inner @ square - np.eye(len(square))).max() < 1e-6:
        return None
    matrix = Matrix.of(strategy.name, entries)
    norm = math.sqrt(matrix.l2_squared) if gaussian else matrix.l1
    return _Candidate(matrix, np.sqrt(np.maximum(side.squares(inner), 0)) * norm)


def on_integers(matrix: Array, bits: int, *, gaussian: bool) -> Ints:
    """A strategy whose largest column has norm 2^bits, in integers; whole ones as they are. Rows
    of zeros are left out.

    The norm is L1, of Gaussian noise L2. For L1 entries are rounded so that no column grows.
    """
    if np.array_equal(matrix, np.rint(matrix)):
        found = matrix.astype(np.int64)
    elif gaussian:
        found = np.rint(matrix * (2**bits / math.sqrt(np.square(matrix).sum(axis=0).max()))).astype(np.int64)
    else:
        scaled = np.abs(matrix) * (2**bits / np.abs(matrix).sum(axis=0).max())
        down = np.floor(scaled)
        order = np.argsort(down - scaled, axis=0, kind="stable")
        missing = np.rint(scaled.sum(axis=0)) - down.sum(axis=0)
        up = np.zeros_like(down)
        np.put_along_axis(up, order, (np.arange(len(matrix))[:, None] < missing).astype(np.float64), axis=0)
        found = (np.sign(matrix) * (down + up)).astype(np.int64)
    return np.asarray(found[np.any(found != 0, axis=1)])


def mean_of(trees: Sequence[Tree], columns: Sequence[Side], sets: Ints, *, gaussian: bool) -> float:
    """The mean deviation of the family's different queries from nodes; of bare trees: of any sets
    from cells of classes.
    """
    levels = math.prod(one.levels for one in trees)
    many = np.ones(sets.shape[1])
    for tree, side, at in zip(trees, columns, sets, strict=True):
        many = many * side.nodes(tree)[at]
    return float(np.sqrt(many).mean()) * (math.sqrt(levels) if gaussian else levels)
