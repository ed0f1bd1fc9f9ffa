"""Averages over sets of a release's classes: post-processing (numeric-release.md §0.0, better-answers.md 2.2).

The average theta is S / C, and S - theta C = 0, so that what the noisy cells give for it is noise alone, the sum of
(y - theta) Z over the set's cells. The bar is every theta whose value that noise could be. Chernoff's bound on it is a
norm of the weights (it is the least of a perspective of a convex function), hence convex in theta: what is refused
above the bar is refused everywhere between, and two ends are found by halving.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import numpy.typing as npt

from pg_epsilon.release.answers import Answer, Noise, Sums, rounding_of, summed
from pg_epsilon.release.everywhere import Everywhere

Array = npt.NDArray[np.float64]
_HALVINGS = 16


def average(
    cells: Array,
    steps: Array,
    classes: int,
    noise: Noise,
    of: int | Everywhere,
    miss: float,
    ends: tuple[float, float],
) -> Answer:
    """One set's average, its bar with those of all sets at once.

    of: how many classes the release has, or the noise that says what holds at once.
    """
    own = of if isinstance(of, Everywhere) else Everywhere.of(noise, of)
    return _average(cells, steps, classes, noise, lambda weights: own.each(weights, miss, classes), ends)


def averages(sums: Sums, steps: Array, noise: Noise, miss: float, ends: tuple[float, float]) -> Iterator[Answer | None]:
    """Of each query of a family its average; None of one without a class. miss: of each one's bar.

    sums: of the cells that have a value. ends: between which all values are.
    """
    own = Everywhere.of(noise, 1)
    for cells, many in zip(sums.cells, map(int, sums.classes), strict=True):
        bound = partial(own.alone, miss=miss, times=many)
        yield _average(cells, steps, many, noise, bound, ends) if many else None


def _average(
    cells: Array, steps: Array, classes: int, noise: Noise, bound: Callable[[Array], float], ends: tuple[float, float]
) -> Answer:
    """cells: noisy rows at each step, of the set's classes together. bound: of a weighted sum of their noise, a norm.

    unbiased: the quotient of the unbiased sum and count, which is not unbiased itself.
    """
    low, high = ends
    total, count = float(cells @ steps), float(cells.sum())
    (cut,) = summed(Sums(cells[None, :], np.array([classes])), steps.tolist(), noise, 0.5)
    lost = sum(
        rounding_of(side[sign * steps > 0], np.abs(steps[sign * steps > 0]), classes, noise)
        for sign, side in ((1, cells), (-1, cells))
    )

    def reach(theta: float) -> float:
        return bound(steps - theta) + lost

    quotients = [min(max(one / max(count, 1.0), low), high) for one in (cut.answer, total)]
    start = quotients[1]
    above = _end(lambda theta: total - theta * count + reach(theta), start, high)
    below = _end(lambda theta: theta * count - total + reach(theta), start, low)
    return Answer(quotients[0], start, min(below, quotients[0]), max(above, quotients[0]), cut.below_resolution)


def quotients(cells: Array, weights: Array, bound: Callable[[Array], float], ends: tuple[float, float]) -> list[float]:
    """[Quotient, least, most] of a weighted sum of exact cells over their rows, both noisy: the set of those that the
    noise does not rule out. bound: of a weighted sum of the noise, a norm."""
    low, high = ends
    total, count = float(cells @ weights), float(cells.sum())
    start = min(max(total / max(count, 1.0), low), high)
    above = _end(lambda theta: total - theta * count + bound(weights - theta), start, high)
    below = _end(lambda theta: theta * count - total + bound(weights - theta), start, low)
    return [start, below, above]


def _end(room: Callable[[float], float], start: float, end: float) -> float:
    """The bar's end between its middle and the last possible value: the nearest theta found that is refused, room < 0.

    room: convex. The end itself where nothing is refused there, or not even the middle is accepted.
    """
    if room(end) >= 0 or room(start) < 0:
        return end
    for _ in range(_HALVINGS):
        middle = (start + end) / 2
        start, end = (start, middle) if room(middle) < 0 else (middle, end)
    return end
