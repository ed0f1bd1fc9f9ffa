"""The weights of a query's classes, and how far noise goes that is multiplied by them (numeric-release.md §6).

Of a query sum(f(class) * x) the answer is a sum of f times the noisy cells: post-processing, like any other sum of
them. Pure functions of public facts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
LEVELS = 256  # different weights whose sum of noise has its quantile in some milliseconds
PER_OCTAVE = 16  # further ones are rounded up to powers of 2^(1/16), the smallest to 2^-16 of the largest


@dataclass(frozen=True)
class Factors:
    """The classes of one query by their weights.

    weights: different ones, above 0. times: weights x steps, how many of these classes have the step's cell.
    """

    weights: Array
    times: Array

    @classmethod
    def of(cls, own: Array, there: npt.NDArray[np.bool_] | None, steps: int) -> Factors:
        """own: [class], a weight each, 0 of those left out. there: [class, step], which cells exist; None: all."""
        (read,) = own.nonzero()
        different, number = np.unique(own[read], return_inverse=True)
        if there is None:
            times = np.repeat(np.bincount(number, minlength=different.size)[:, None], steps, axis=1).astype(np.float64)
        else:
            order = np.argsort(number, kind="stable")
            starts = np.searchsorted(number[order], np.arange(different.size))
            cells = there[read[order]].astype(np.float64)
            times = np.add.reduceat(cells, starts, axis=0) if read.size else np.zeros((0, steps))
        return cls(*coarser(different, times))

    @property
    def squares(self) -> Array:
        """[step]: the squares of the weights of the classes that have its cell, added up."""
        return np.asarray(np.square(self.weights) @ self.times)

    def part(self, cells: slice | list[int]) -> Factors:
        """Of some of the steps alone."""
        return replace(self, times=self.times[:, cells])

    def products(self, steps: Array) -> tuple[Array, Array]:
        """(Weights of the noise of all cells, how many cells have each) where a step's cells count `steps` times more.

        steps: of the first columns of `times`, not below 0.
        """
        both = np.outer(self.weights, steps).ravel()
        return coarser(both, self.times[:, : steps.size].ravel())


def coarser(weights: Array, times: Array) -> tuple[Array, Array]:
    """The different weights above 0 with their times added up; more than LEVELS of them rounded up.

    weights: not below 0; times: of each, a number or a row of numbers. A sum of independent symmetric unimodal noises
    goes no less far when one is multiplied by more (Anderson), so that a bar of rounded weights holds too.
    """
    kept = weights > 0
    weights, times = weights[kept], times[kept]
    different, number = np.unique(weights, return_inverse=True)
    if different.size > LEVELS:
        largest = different[-1]
        down = np.floor(np.log2(largest / weights) * PER_OCTAVE).clip(0, LEVELS - 1)
        rounded = np.maximum(largest * np.exp2(-down / PER_OCTAVE), weights)
        levels, number = np.unique(down, return_inverse=True)
        different = np.zeros(levels.size)
        np.maximum.at(different, number, rounded)
    return different, np.apply_along_axis(lambda one: np.bincount(number, one, different.size), 0, times)
