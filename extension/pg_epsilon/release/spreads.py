"""Variances and standard deviations over sets of a release's classes: post-processing (numeric-release.md §0.0, §14).

Each value has a cell of its own (masses.Points), so that rows, values and squares of a set come from
the same cells. With u the distance from the middle of the bounds, the variance is E[u^2] - E[u]^2:
bars of both, of half the miss each, are sets of quotients as in averages.py, and what they leave
possible together is the bar. It is wider than one made for the variance alone, because errors of the
two cancel in part, and it holds whatever the noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import numpy.typing as npt

from pg_epsilon.release.answers import Answer, Noise, Sums, Z
from pg_epsilon.release.averages import quotients
from pg_epsilon.release.everywhere import Everywhere

Array = npt.NDArray[np.float64]
Bound = Callable[[Array], float]

MOST_VALUES = 2_000  # beyond them the answer of a plain sum would be cut at too many places
_MOST = 500  # variances, whose bars take at least some eighty milliseconds each
_MOST_WORK = 200_000  # values times variances, of some 150 microseconds
SPREADS = ("var_samp", "var_pop", "stddev_samp", "stddev_pop")


def too_many(values: int, asked: int) -> bool:
    """Whether bars of so many variances of a value with so many cells would take longer than half a minute."""
    return asked > _MOST or values * asked > _MOST_WORK


def spread(
    cells: Array,
    steps: Array,
    classes: int,
    noise: Noise,
    of: Everywhere,
    miss: float,
    ends: tuple[float, float],
    how: str,
) -> Answer:
    """One set's spread, its bar with those of all sets at once. how: one of SPREADS."""
    return _spread(cells, steps, classes, noise, lambda weights: of.each(weights, miss / 3, classes), ends, how)


def spreads(
    sums: Sums, steps: Array, noise: Noise, miss: float, ends: tuple[float, float], how: str
) -> Iterator[Answer | None]:
    """Of each query of a family its spread; None of one without a class. miss: of each one's bar.

    sums: of the cells that have a value. ends: between which all values are.
    """
    own = Everywhere.of(noise, 1)
    for cells, many in zip(sums.cells, map(int, sums.classes), strict=True):
        bound = partial(own.alone, miss=miss / 3, times=many)
        yield _spread(cells, steps, many, noise, bound, ends, how) if many else None


def _spread(
    cells: Array, steps: Array, classes: int, noise: Noise, bound: Bound, ends: tuple[float, float], how: str
) -> Answer:
    """bound: of a weighted sum of the cells' noise, of a third of what may miss: of E[u], of E[u^2], of the rows."""
    low, high = ends
    u, largest = steps - (low + high) / 2, (high - low) / 2
    first, *mean = quotients(cells, u, bound, (-largest, largest))
    second, *square = quotients(cells, u * u, bound, (0.0, largest * largest))
    rows = max(float(cells.sum()), 2.0)
    nearest = 0.0 if mean[0] <= 0 <= mean[1] else min(map(abs, mean))
    least = max(0.0, square[0] - max(map(abs, mean)) ** 2)
    most = min(max(square[1] - nearest**2, least), largest * largest)
    found = min(max(second - first**2, least), most)
    if how.endswith("samp"):
        fewest = max(2.0, math.ceil(float(cells.sum()) - bound(np.ones(len(cells)))))
        found, most = found * rows / (rows - 1), most * fewest / (fewest - 1)
        found = min(found, most)
    if how.startswith("stddev"):
        found, least, most = math.sqrt(found), math.sqrt(least), math.sqrt(most)
    below = float(cells.sum()) <= Z * noise.deviation * math.sqrt(classes * len(cells))
    return Answer(found, found, least, most, below)
