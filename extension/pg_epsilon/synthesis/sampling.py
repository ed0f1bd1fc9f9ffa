"""A distribution → rows: post-processing of released integers, so no privacy depends on how it is done.

Rows are not noise: nothing here is drawn by noise.py. The generator's seed is a function of the release and of how
many rows are asked for, so that the same release makes the same table, and the table says nothing but the release.
Counts are apportioned systematically (each is its expected value rounded up or down), which adds almost no error.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from pg_epsilon.synthesis.model import Model, Table
from pg_epsilon.synthesis.tables import Numbers, Reals, quotient
from pg_epsilon.synthesis.variables import Variable

Cells = NDArray[np.int32]

_POOL = (100_000, 500_000)  # least and most rows of the pool that is weighed
_RAKES = 15
CHUNK = 20_000


def rows(
    model: Model, variables: Sequence[Variable], count: int, seed: Sequence[int]
) -> Iterator[tuple[list[int], ...]]:
    """`count` rows in chunks, a list for each column: the number of a cell, or of a point, as `Variable.value` reads.

    Rows of the forest are a pool, whose weights are raked to the other tables; rows are taken from it in proportion.
    """
    draw = generator(seed, count)
    size = min(max(2 * count, _POOL[0]), _POOL[1]) if model.others else min(max(count, 1), _POOL[1])
    pool = forest(model, size, draw)
    weights = raked(model, pool)
    chosen = draw.permutation(np.repeat(np.arange(size), apportioned(weights, count, draw))) if count else None
    for start in range(0, count, CHUNK):
        cells = pool[chosen[start : start + CHUNK]] if chosen is not None else pool[:0]
        yield tuple(numbers(one, cells[:, i], draw).tolist() for i, one in enumerate(variables))


def generator(seed: Sequence[int], count: int) -> np.random.Generator:
    """Which rows are drawn: a function of released integers, hence no noise and nothing to hide (rule R3)."""
    digest = hashlib.sha256(json.dumps([list(seed), count]).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest, "big"))


def apportioned(weights: Reals, count: int, draw: np.random.Generator) -> Numbers:
    """Integers that sum up to `count`, each within 1 of its share: equal steps from one random start."""
    ends = np.cumsum(weights)
    if ends[-1] <= 0:
        ends = np.arange(1.0, len(weights) + 1)
    marks = np.floor(ends / ends[-1] * count + draw.random()).astype(np.int64)
    marks[-1] = count
    return np.asarray(np.diff(np.minimum(marks, count), prepend=0), np.int64)


def forest(model: Model, size: int, draw: np.random.Generator) -> Cells:
    """Cells of `size` rows, a column each: every tree from its first variable, children by systematic shares."""
    found = np.full((size, len(model.masses)), -1, np.int32)
    for root, masses in enumerate(model.masses):
        if found[0, root] >= 0:
            continue
        found[:, root] = draw.permutation(np.repeat(np.arange(len(masses)), apportioned(masses, size, draw)))
        open_ = [root]
        while open_:
            one = open_.pop()
            for edge in model.edges:
                if one in edge.pair and found[0, (other := edge.towards(one)[0])] < 0:
                    groups = edge.towards(one)[1][found[:, one]]
                    found[:, other] = _children(groups, model.step(edge, one), draw)
                    open_.append(other)
    return found


def _children(groups: Numbers, step: Reals, draw: np.random.Generator) -> Numbers:
    found = np.empty(len(groups), np.int64)
    order = np.argsort(groups, kind="stable")
    ends = np.searchsorted(groups[order], np.arange(len(step) + 1))
    for group, (start, end) in enumerate(pairwise(ends)):
        if end > start:
            shares = apportioned(step[group], int(end - start), draw)
            found[order[start:end]] = draw.permutation(np.repeat(np.arange(len(shares)), shares))
    return found


def raked(model: Model, pool: Cells) -> Reals:
    """Weights of the pool's rows under which all fitted tables come out, as nearly as its rows can."""
    weights = np.full(len(pool), model.total / len(pool))
    tables = [*model.edges, *model.others] if model.others else []
    places = [(_places(table, pool), table.values.ravel()) for table in tables]
    for _ in range(_RAKES):
        for place, wanted in places:
            now = np.asarray(np.bincount(place, weights, len(wanted)), np.float64)
            weights *= quotient(wanted, now)[place]
    return weights


def _places(table: Table, pool: Cells) -> Cells:
    """Where each row of the pool stands in a table."""
    i, j = table.pair
    return np.asarray(table.rows[pool[:, i]] * table.values.shape[1] + table.columns[pool[:, j]], np.int32)


def numbers(variable: Variable, cells: Cells | Numbers, draw: np.random.Generator) -> Numbers:
    """Cells → what `Variable.value` reads: a point of the cell's interval, all as likely; -1 is NULL."""
    known = len(variable.texts if variable.texts is not None else variable.cells)
    if variable.texts is not None:
        return np.where(cells < known, cells, -1)
    first = np.array([start for start, _ in variable.cells] + [-1], np.int64)
    size = np.array([count for _, count in variable.cells] + [1], np.int64)
    return first[cells] + np.minimum((draw.random(len(cells)) * size[cells]).astype(np.int64), size[cells] - 1)
