"""A family's answers and their bars from the noisy cells: post-processing (numeric-release.md §0.0, "Split cells").

Of a query with classes F, the sum of y times the noisy cells is `unbiased`. `answer` cuts values at tau, the least step
above which the noisy number of rows could be noise alone, and is nearer on sparse data, because cells of large values
have few rows and much noise. Signs are apart: the steps above 0 and those below have a tau each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import NormalDist
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from pg_epsilon.mechanisms.matrix.bars import two_sided_quantile
from pg_epsilon.release.factors import Factors
from pg_epsilon.release.weights import Weights

Array = npt.NDArray[np.float64]
Z = 2.0  # standard deviations of noise that a number of rows has to be above
SURE = 50.0  # scales of noise that none of a release's cells passes, but for e^-50
_CHUNK = 1_000_000  # classes of queries that are added up at once


@dataclass(frozen=True)
class Noise:
    """Of each cell, in rows. scale: of Laplace noise, or a Gaussian's deviation. grain: what rounding may leave out.

    singly: whether `reach_of` says what `reach` does; of bars for many sets at once only that is known.
    """

    scale: float
    gaussian: bool
    grain: float
    singly: ClassVar[bool] = True

    @property
    def deviation(self) -> float:
        return self.scale if self.gaussian else math.sqrt(2) * self.scale

    def reach(self, weights: Array, miss: float, times: int = 1) -> float:
        """t with Pr[|sum of weights times noise| > t] <= miss; the noise is on a lattice of `grain`.

        times: how many cells have each of the weights.
        """
        return self.reach_of(weights, miss, np.full(weights.shape, float(times)))

    def reach_of(self, weights: Array, miss: float, times: Array) -> float:
        """The same; times: of each weight."""
        weights, times = weights[times > 0], times[times > 0]
        if not weights.size:
            return 0.0
        steps = self.grain * float(times @ np.abs(weights))
        if self.gaussian:
            width = NormalDist().inv_cdf(1 - miss / 2) * math.sqrt(float(times @ np.square(weights)))
        else:
            width = two_sided_quantile(weights, miss, times)
        return self.scale * width + steps


@dataclass(frozen=True)
class Answer:
    """One query's: answer with low <= true value <= high at the confidence; unbiased; whether rows were told at all."""

    answer: float
    unbiased: float
    low: float
    high: float
    below_resolution: bool


@dataclass(frozen=True)
class Sums:
    """Of each query, its classes' cells added up: queries x steps. classes: how many each query has.

    times: of each query, how many classes have the step's cell, where not all classes have all cells (ends.py).
    factors: of each query, the weights of its classes; times are then the squares of these weights, added up.
    """

    cells: Array
    classes: npt.NDArray[np.int64]
    times: Array | None = None
    factors: Sequence[Factors] | None = None

    def part(self, cells: slice) -> Sums:
        """Of some of the steps alone."""
        times = None if self.times is None else self.times[:, cells]
        factors = None if self.factors is None else [one.part(cells) for one in self.factors]
        return Sums(self.cells[:, cells], self.classes, times, factors)

    def without(self, cell: int) -> Sums:
        """Of all cells but one."""
        kept = [place for place in range(self.cells.shape[1]) if place != cell]
        times = None if self.times is None else self.times[:, kept]
        factors = None if self.factors is None else [one.part(kept) for one in self.factors]
        return Sums(self.cells[:, kept], self.classes, times, factors)

    def reach(self, query: int, noise: Noise, steps: Array, miss: float) -> float:
        """How far the noise of a query's sum goes. steps: what the cells of the first steps count in it, in rows."""
        if self.factors is None:
            times = None if self.times is None else tuple(map(int, self.times[query]))
            return _reach(noise, tuple(steps.tolist()), int(self.classes[query]), miss, times)
        weights, many = self.factors[query].products(steps)
        return noise.reach_of(weights, miss, many)


Numbers = npt.NDArray[np.int64]
Weighing = Callable[[slice], Array]
"""Some of the queries -> [query, class]: the weight of each class, whether the query reads it or not."""


def weighing(weights: Weights | None, sizes: Sequence[int], power: int = 1) -> Weighing:
    """The weights of some of the queries at every class, to a power. sizes: of the axes."""
    if weights is None:
        return lambda some: np.ones((1, math.prod(sizes)))
    shape = [size if place in weights.places else 1 for place, size in enumerate(sizes)]
    different, of = np.array(weights.different) ** power, np.array(weights.of)

    def found(some: slice) -> Array:
        own = different[of[some]]
        whole = np.broadcast_to(own.reshape(len(own), *shape), (len(own), *sizes))
        return np.asarray(whole.reshape(len(own), -1))

    return found


def sums_of(cells: Array, masks: Sequence[Array], of: Sequence[Numbers], weights: Weighing | None = None) -> Sums:
    """Of each query the cells of the classes that its masks on all axes hold, each times its weight.

    cells: an array of axes..., steps. masks: of each axis, different masks x classes along it; of: of each axis, the
    number of each query's mask. weights: None: all are 1. Of weighted sums bars need `weighed_sums_of`.
    """
    flat, queries = _flat(cells, masks), len(of[0])
    found, classes = np.zeros((queries, flat.shape[1])), np.ones(queries, np.int64)
    for some, rows in _rows(masks, of):
        own = rows if weights is None else rows * weights(some)
        found[some] = own @ flat
        classes[some] = (own > 0).sum(axis=1)
    return Sums(found, classes)


def weighed_sums_of(
    cells: Array,
    masks: Sequence[Array],
    of: Sequence[Numbers],
    weights: Weighing,
    there: npt.NDArray[np.bool_] | None = None,
) -> Sums:
    """The same with what bars of weighted sums need. there: [class, step], which cells exist; None: all."""
    found = sums_of(cells, masks, of, weights)
    steps = found.cells.shape[1]
    each = [Factors.of(one, there, steps) for some, rows in _rows(masks, of) for one in rows * weights(some)]
    return replace(found, times=np.array([one.squares for one in each]), factors=each)


def _flat(cells: Array, masks: Sequence[Array]) -> Array:
    return cells.reshape(math.prod(len(one[0]) for one in masks), -1)


def _rows(masks: Sequence[Array], of: Sequence[Numbers]) -> Iterator[tuple[slice, Array]]:
    """(Which queries, [query, class]: 1 where it reads the class), of as many queries at once as fit."""
    queries, many = len(of[0]), max(1, _CHUNK // math.prod(len(one[0]) for one in masks))
    for start in range(0, queries, many):
        some = slice(start, min(start + many, queries))
        rows = np.ones((some.stop - start, 1))
        for mask, number in zip(masks, of, strict=True):
            rows = (rows[:, :, None] * mask[number[some]][:, None, :]).reshape(len(rows), -1)
        yield some, rows


def counted(sums: Sums, noise: Noise, miss: float) -> Iterator[Answer]:
    """Of a family of counts: one cell a class."""
    for query, value in enumerate(sums.cells.sum(axis=1)):
        reach = sums.reach(query, noise, np.ones(sums.cells.shape[1]), miss)
        yield Answer(float(value), float(value), float(value) - reach, float(value) + reach, False)


def summed(sums: Sums, steps: Sequence[float], noise: Noise, miss: float) -> Iterator[Answer]:
    """Of a family of sums. steps: of the cells, ascending, 0 among them; miss: of one query's two ends together."""
    y = np.asarray(steps)
    signs = [sign for sign in (1, -1) if (sign * y).max() > 0]
    ways = [_sign(sums, y, sign, noise, miss / len(signs)) for sign in signs]
    whole = sums.cells @ y
    for number, unbiased in enumerate(whole):
        own = [way[number] for way in ways]
        low = sum(one.low if sign > 0 else -one.high for one, sign in zip(own, signs, strict=True))
        high = sum(one.high if sign > 0 else -one.low for one, sign in zip(own, signs, strict=True))
        answer = sum(sign * one.answer for one, sign in zip(own, signs, strict=True))
        yield Answer(answer, float(unbiased), low, high, all(one.below_resolution for one in own))


def thresholds(sums: Sums, steps: Array, noise: Noise) -> tuple[npt.NDArray[np.int64], Array, Array]:
    """Of each query tau's place in 0, b, …, top; sums cut at every place; and what numbers of rows are compared with.

    steps: those above 0, ascending, of the last cells of `sums`.
    """
    own = sums.part(slice(sums.cells.shape[1] - len(steps), None))
    cells, above = own.cells, _above(own.cells)
    many = sums.classes[:, None] * np.arange(len(steps), -1, -1) if own.times is None else _above(own.times)
    limit = Z * noise.deviation * np.sqrt(many)
    place = np.argmax(above <= limit, axis=1)
    cut = np.minimum(steps[None, :], np.hstack([[0.0], steps])[:, None])  # at each place, what a cell counts
    return place, cells @ cut.T, limit


def _above(cells: Array) -> Array:
    """Of steps above 0: added up above 0, above b, …, above the top."""
    return np.hstack([np.cumsum(cells[:, ::-1], axis=1)[:, ::-1], np.zeros((len(cells), 1))])


def _sign(sums: Sums, y: Array, sign: int, noise: Noise, miss: float) -> list[Answer]:
    """The answers of one sign's values, in absolute value.

    low: values cut at tau sum up to no more than the truth, whichever of the places tau is at (a union over all of
    them); high: the unbiased sum. Each has half of the miss, on one side.
    """
    mine = sums if sign > 0 else sums.part(slice(None, None, -1))
    steps = np.sort(sign * y[sign * y > 0])
    place, cut, _ = thresholds(mine, steps, noise)
    mine = mine.part(slice(mine.cells.shape[1] - len(steps), None))
    found = []
    for number, (own, classes) in enumerate(zip(place, mine.classes, strict=True)):
        weights = np.minimum(steps, steps[own - 1]) if own else np.zeros(0)
        top = float(cut[number, -1])
        rounding = rounding_of(mine.cells[number], steps, int(classes), noise)
        answer = float(cut[number, own])
        low = answer - mine.reach(number, noise, weights, miss / (len(steps) + 1))
        high = top + mine.reach(number, noise, steps, miss) + rounding
        found.append(Answer(answer, top, low, max(high, answer), not own))
    return found


def rounding_of(cells: Array, steps: Array, classes: int, noise: Noise) -> float:
    """What masses that were rounded down may lack: a grain of each row's step (§0.0, "Masses")."""
    rows = np.maximum(cells, 0) + SURE * noise.deviation * math.sqrt(max(classes, 1))
    return float(noise.grain * (steps @ rows))


@lru_cache(maxsize=4096)
def _reach(
    noise: Noise, weights: tuple[float, ...], classes: int, miss: float, times: tuple[int, ...] | None = None
) -> float:
    """Of weights that each of so many classes has; times: of each weight how many of them, where the noise takes it."""
    if times is None or not noise.singly:
        return noise.reach(np.asarray(weights), miss, classes)
    return noise.reach_of(np.asarray(weights), miss, np.asarray(times[: len(weights)], np.float64))
