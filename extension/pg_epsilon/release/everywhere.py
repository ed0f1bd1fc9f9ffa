"""Bars that hold for every set of a release's classes at once (numeric-release.md §0.0, "Bars": outside the family).

Whoever asks after a release was shown may choose the question by it, so that a bar has to hold for all that could be
asked. Sets of m of n classes share one bar; it misses for some of them with at most miss / n: the union bound over
their number, or one bound over all sets at once, sum of w Z⁺ over all n classes, whichever is narrower.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from pg_epsilon.release.answers import Noise

Array = npt.NDArray[np.float64]
EXACT = 1e-12  # below such a miss Chernoff's bound is taken, which needs its logarithm alone
LEVELS = 8  # of the weights of one question; further ones are rounded up to as many
_ROUNDS = 80  # of the search for the best s
_GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class Everywhere(Noise):
    """The noise of a release of so many classes, whose `reach` holds for all sets of as many classes at once."""

    classes: int
    singly: ClassVar[bool] = False

    @classmethod
    def of(cls, noise: Noise, classes: int) -> Everywhere:
        return cls(noise.scale, noise.gaussian, noise.grain, classes)

    def reach(self, weights: Array, miss: float, times: int = 1) -> float:
        """t: for all sets of `times` classes at once, |sum of weights times noise| <= t but for a chance miss.

        weights: of the cells of each class of a set; miss: of all sets of all sizes together.
        """
        if not weights.size or not times:
            return 0.0
        each = math.log(miss / self.classes)
        sets = _log_choose(self.classes, times)
        one = self._bound(weights, each - sets, times, one=True)
        if each - sets >= math.log(EXACT):
            one = min(one, super().reach(weights, math.exp(each - sets), times))
        return min(one, self._bound(weights, each, self.classes, one=False))

    def each(self, weights: Array, miss: float, times: int) -> float:
        """The same where every set has weights of its own, these: the union bound alone. A norm of the weights."""
        if not weights.size or not times:
            return 0.0
        sets = math.log(miss / self.classes) - _log_choose(self.classes, times)
        return self._bound(weights, sets, times, one=True)

    def alone(self, weights: Array, miss: float, times: int) -> float:
        """The same of one set that was named before the noise. A norm of the weights, too."""
        return self._bound(weights, math.log(miss), times, one=True) if weights.size and times else 0.0

    def union(self, weights: Array, log_miss: float, times: Array) -> float:
        """The same of one set that was named before the noise. times: how many cells have each weight, above 0."""
        bound = self._bound(weights, log_miss, times, one=True)
        if log_miss < math.log(EXACT):
            return bound
        return min(bound, Noise.reach_of(self, weights, math.exp(log_miss), times))

    def _bound(self, weights: Array, log_miss: float, times: int | Array, *, one: bool) -> float:
        """Chernoff's bound at exp(log_miss), of both ends: of one set's sum; or of the sum of what is above 0."""
        sizes = np.abs(weights)
        largest = float(sizes.max())
        moments = (_log_moment_gaussian if self.gaussian else _log_moment_laplace)[0 if one else 1]
        need = math.log(2) - log_miss

        def bound(s: float) -> float:
            return (need + float((times * moments(s * sizes / largest)).sum())) / s

        end = math.sqrt(2 * need) + 1 if self.gaussian else 1 - 1e-9
        return self.scale * largest * _least(bound, end) + self.grain * float((times * sizes).sum())


class Shared(Everywhere):
    """The same with half of the miss: the other half is of other sets, `Boxes`."""

    def reach(self, weights: Array, miss: float, times: int = 1) -> float:
        return super().reach(weights, miss / 2, times)

    def each(self, weights: Array, miss: float, times: int) -> float:
        return super().each(weights, miss / 2, times)


@dataclass(frozen=True)
class Boxes(Everywhere):
    """The noise of a release of nodes, whose bars hold with half of the miss for all ranges at once, a union bound over
    their number, `boxes`; each of them is read from nodes that are fixed beforehand."""

    boxes: int

    def reach(self, weights: Array, miss: float, times: int = 1) -> float:
        if not weights.size or not times:
            return 0.0
        own = miss / (2 * self.boxes)
        return Noise.reach(self, weights, own, times) if own >= EXACT else self.alone(weights, own, times)

    def each(self, weights: Array, miss: float, times: int) -> float:
        return self.alone(weights, miss / (2 * self.boxes), times)


@dataclass(frozen=True)
class Levels(Everywhere):
    """The noise of a release of cells, whose bars hold at once for every set of classes and all weights from 0 to 1.

    levels: (by how much a level is above the one before, how many of the classes weigh at least as much). A weighted
    sum is one of sums over the sets of the levels, each times its step, and of each set the bars hold; rounding a
    weight up narrows no bar, because `reach` grows with the number of classes.
    """

    levels: tuple[tuple[float, int], ...] = ()

    @classmethod
    def by(cls, noise: Noise, classes: int, weights: Array) -> Levels:
        """weights: from 0 to 1, of the classes that are read."""
        different = np.unique(weights[weights > 0])
        if different.size > LEVELS:
            different = different[-1] * np.arange(1, LEVELS + 1) / LEVELS
        up = np.searchsorted(different, weights[weights > 0])  # the level that each is rounded up to
        many = np.bincount(up, minlength=different.size)[::-1].cumsum()[::-1]
        steps = np.diff(different, prepend=0.0)
        levels = tuple(zip(steps.tolist(), many.tolist(), strict=True))
        return cls(noise.scale, noise.gaussian, noise.grain, classes, levels)

    def reach(self, weights: Array, miss: float, times: int = 1) -> float:
        """t of this one question's weights. times: is not asked for, for the levels say it."""
        return float(sum(step * self._most(weights, miss, many) for step, many in self.levels))

    def _most(self, weights: Array, miss: float, times: int) -> float:
        """t for all sets of at most so many classes, each of its own size."""
        if not weights.size or not times:
            return 0.0
        each = math.log(miss / self.classes)
        sets = each - _log_choose(self.classes, min(times, self.classes // 2))
        one = self._bound(weights, sets, times, one=True)
        if sets >= math.log(EXACT):
            one = min(one, Noise.reach(self, weights, math.exp(sets), times))
        return min(one, self._bound(weights, each, self.classes, one=False))


def _log_choose(n: int, m: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(m + 1) - math.lgamma(n - m + 1)


def _least(bound: Callable[[float], float], end: float) -> float:
    """The least value on (0, end], which has one valley in log s; any value is a valid bound."""
    low, high = math.log(1e-6), math.log(end)
    for _ in range(_ROUNDS):
        width = _GOLDEN * (high - low)
        if bound(math.exp(high - width)) < bound(math.exp(low + width)):
            high = low + width
        else:
            low = high - width
    return bound(math.exp((low + high) / 2))


def _laplace(s: Array) -> Array:
    """Logarithm of E exp(s Z), Z of scale 1, s < 1."""
    return -np.log1p(-np.square(s))


def _laplace_above(s: Array) -> Array:
    """The same of max(Z, 0): 1/2 + 1/2 / (1 - s)."""
    return np.log(0.5 + 0.5 / (1 - s))


def _gaussian(s: Array) -> Array:
    return np.square(s) / 2


def _gaussian_above(s: Array) -> Array:
    """1/2 + exp(s² / 2) Phi(s)."""
    phi = np.array([0.5 * math.erfc(-one / math.sqrt(2)) for one in s])
    found: Array = np.logaddexp(math.log(0.5), np.square(s) / 2 + np.log(phi))
    return found


_log_moment_laplace = (_laplace, _laplace_above)
_log_moment_gaussian = (_gaussian, _gaussian_above)
