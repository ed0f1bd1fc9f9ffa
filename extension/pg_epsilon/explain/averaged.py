"""An explanation of averages from marginals that were released once: post-processing, free, for any
groups and k (dpxplain.md §0.0, "As built, averages by 'cells'").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from pg_epsilon.explain.averages import fieller
from pg_epsilon.explain.comparison import Comparison
from pg_epsilon.explain.derived import AVERAGES, misses
from pg_epsilon.explain.forms import Pair
from pg_epsilon.explain.marginals import Numbers
from pg_epsilon.explain.paid import Misses, pairs_of, ranked
from pg_epsilon.explain.quantiles import two_sided
from pg_epsilon.explain.table import Row

Doubles = npt.NDArray[np.float64]
Ends = tuple[Doubles, Doubles]
"""Lower and upper limits, one of each predicate of a set."""


@dataclass(frozen=True)
class Inside:
    """Of one compared group and one set: what has each predicate, as it was released.

    a, b: the sums of v - low and of high - v over its rows, lattice units. left: limits of the
    number of rows of the group without them. rest: that number itself.
    """

    a: Doubles
    b: Doubles
    left: Ends
    rest: Doubles


@dataclass(frozen=True)
class Averaged:
    """The influences of all predicates on a weighted sum of averages, with intervals and ranks.

    weights: of the compared groups, none of them 0. groups: of each, its place among those of the
    release. numbers: of sums, which tell averages too.

    Promise: with the confidence that is asked for all intervals hold at once, of every predicate,
    every pair of groups, every weights and every k. Proof: group t has n rows, the predicate a of
    them, b = n - a are left; x is the true average's place between the bounds, from 0 to 1. Then
    the average less that without the predicate's rows is D / b with D = (1 - x) A - x B, A and B
    being the predicate's true sums of v - low and of high - v, and the influence is the sum of
    w * f * D with f = min_u b_u / b. x and f are numbers that no noise moves. So the noise of the
    sum of w f ((1 - x) A - x B) is Gaussian at them, its deviation is sigma times the root of the
    sum of (w f)² ((1 - x)² + x²), and it is within z deviations and w f half a step
    of each group, but for what `Misses.sums` allows. x lies within Fieller's interval of the group, b within the
    numbers of rows and their margins, both but for the rest of `Misses`. What is told are the ends
    over all such x and f; both the sum and its margin are convex in each of them, so that the ends
    are at corners. Weights other than a pair's: cell by cell. A group without rows, or without a
    row that is left, makes the influence 0 (dpxplain.md §6.3): then b may be 0 by its limits, f of
    the other groups too, and A = B = 0 or D = 0, whose intervals hold 0. ∎
    """

    comparison: Comparison
    weights: tuple[Fraction, ...]
    groups: tuple[int, ...]
    k: int
    numbers: Numbers

    @cached_property
    def found(self) -> tuple[Row, ...]:
        """Every predicate, in the order of the space."""
        space = self.numbers.how.space
        texts = [space.text(place) for place in range(len(space))]
        shares = [one for run in range(len(space.subsets)) for one in self._influences(run)]
        return ranked(texts, shares)

    @cached_property
    def top(self) -> tuple[Row, ...]:
        """The k of the largest influences; equal ones in the order of the predicates."""
        return tuple(sorted(self.found, key=lambda row: -row.influence)[: self.k])

    @cached_property
    def miss(self) -> Misses:
        return misses(self.comparison, self.weights, len(self.numbers.how.space), AVERAGES)

    @cached_property
    def _places(self) -> tuple[tuple[float, float, float], ...]:
        """(value, low, high) of x, of each compared group."""
        noise = self.numbers.how.pair_noise
        found = []
        for group in self.groups:
            a, b = self.numbers.halves(-1, group)
            form = Pair(a[0], b[0], noise, 0, 1)
            low, high = fieller(form, self.miss.groups)
            middle = 0.5 if form.shown is None else float(form.shown)
            found.append((min(max(middle, low), high), low, high))
        return tuple(found)

    def _influences(self, run: int) -> list[tuple[float, float, float]]:
        """(influence, low, high) of each predicate of a set, in units of the value."""
        inside = [self._inside(run, group) for group in self.groups]
        factors = [_factor(inside, place) for place in range(len(inside))]
        least = np.minimum.reduce([np.maximum(one.rest, 0.0) for one in inside])
        value: Any = 0.0
        for one, (x, _, _), weight in zip(inside, self._places, self.weights, strict=True):
            share = np.where(least > 0, least / np.maximum(one.rest, 1e-300), 0.0)
            value = value + float(weight) * share * ((1 - x) * one.a - x * one.b)
        pair = pairs_of(self.comparison, self.weights) is not None
        low, high = self._at_once(inside, factors) if pair else self._apart(inside, factors)
        step = float(self.numbers.step)
        lines = zip(np.clip(value, low, high), low, high, strict=True)
        return [(float(one) * step, float(two) * step, float(three) * step) for one, two, three in lines]

    def _inside(self, run: int, group: int) -> Inside:
        how, (a, b) = self.numbers.how, self.numbers.halves(run, group)
        (whole_a,), (whole_b,) = self.numbers.halves(-1, group)
        noise = how.row_noise
        margin = noise.margin(self.miss.rows) + noise.margin(self.miss.groups)
        one, other = np.array(a, np.float64), np.array(b, np.float64)
        rest = (float(whole_a + whole_b) - one - other) / how.reach
        return Inside(one, other, (rest - margin, rest + margin), rest)

    def _at_once(self, inside: Sequence[Inside], factors: Sequence[Ends]) -> Ends:
        """By the law of the whole sum: over the corners of all x and f."""
        z = two_sided(self.miss.sums) * self.numbers.how.scale
        low, high = np.full(len(inside[0].a), np.inf), np.full(len(inside[0].a), -np.inf)
        each = [
            [(x, f) for x in sorted({*place[1:]}) for f in factor]
            for place, factor in zip(self._places, factors, strict=True)
        ]
        for corner in product(*each):
            middle, squared, half = np.zeros_like(low), np.zeros_like(low), np.zeros_like(low)
            for one, (x, f), weight in zip(inside, corner, map(float, self.weights), strict=True):
                middle += weight * f * ((1 - x) * one.a - x * one.b)
                squared += (weight * f) ** 2 * ((1 - x) ** 2 + x**2)
                half += abs(weight) * f / 2
            wide = z * np.sqrt(squared) + half
            low, high = np.minimum(low, middle - wide), np.maximum(high, middle + wide)
        return low, high

    def _apart(self, inside: Sequence[Inside], factors: Sequence[Ends]) -> Ends:
        """Of any weights: each group by itself, at what one cell may miss."""
        z = two_sided(self.miss.sums) * self.numbers.how.scale
        low, high = np.zeros(len(inside[0].a)), np.zeros(len(inside[0].a))
        parts = zip(inside, factors, self._places, map(float, self.weights), strict=True)
        for one, factor, (_, *ends), weight in parts:
            found = []
            for x in ends:
                middle, wide = (1 - x) * one.a - x * one.b, z * float(np.hypot(1 - x, x)) + 0.5
                found += [weight * f * (middle + sign * wide) for f in factor for sign in (-1, 1)]
            low, high = low + np.minimum.reduce(found), high + np.maximum.reduce(found)
        return low, high


def _factor(inside: Sequence[Inside], place: int) -> Ends:
    """Limits of min_u b_u / b of a group: 0 is possible where some group may have no row left."""
    low, high = inside[place].left
    least_low = np.minimum.reduce([one.left[0] for one in inside])
    others = [np.maximum(one.left[1], 0.0) for at, one in enumerate(inside) if at != place]
    least = [np.maximum(one.left[0], 0.0) for at, one in enumerate(inside) if at != place]
    most = np.minimum.reduce([*others, np.full_like(high, np.inf)])
    fewest = np.minimum.reduce([*least, np.full_like(high, np.inf)])
    none = np.full_like(high, np.inf)
    lower = np.minimum(1.0, np.divide(fewest, high, out=none.copy(), where=high > 0))
    upper = np.minimum(1.0, np.divide(most, low, out=none, where=low > 0))
    return np.where(least_low > 0, lower, 0.0), upper
