"""Which predicates have the largest influence, and which rank each may have (dpxplain.md §6.5, §6.7, §0.0).

Scores are influences on an integer grid (influence.scores), private. Their `apart` is the most by which one unit's
changes of two of them differ: a selection, and a comparison of two scores, do not change when all scores move by one
constant, and so have half of it, resp. all of it, as their sensitivity.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby

from pg_epsilon.accounting.margins import gaussian_margin, gaussian_scale, laplace_margin, laplace_scale
from pg_epsilon.noise import NoiseSource

UPPER, LOWER = 1, -1


def top(scores: Sequence[int], k: int, *, apart: int, epsilon: Fraction, noise: NoiseSource, label: str) -> list[int]:
    """The places of k predicates, each selected among those that are left, in the order of the selections.

    Guarantee: k exponential mechanisms of epsilon each (the paper's Algorithm 2 is the same law): k * epsilon-DP, and
    zCDP with rho = k * epsilon² / 8. Neighbours of one score are one run, so that predicates without rows take little
    time (§7.3; the same law). ValueError for a k that is not between 1 and the number of scores.
    """
    if not 1 <= k <= len(scores):
        raise ValueError("k must lie between 1 and the number of predicates")
    left, found = list(range(len(scores))), []
    for turn in range(k):
        runs = [(score, sum(1 for _ in run)) for score, run in groupby(scores[place] for place in left)]
        place = noise.select_in_runs(
            [size for _, size in runs],
            [score for score, _ in runs],
            sensitivity=Fraction(apart, 2),
            epsilon=epsilon,
            label=f"{label} pick {turn + 1}",
        )
        found.append(left.pop(place))
    return found


def comparisons(predicates: int) -> int:
    """At most so many noisy comparisons bound a rank among so many."""
    return (predicates - 1).bit_length()


def rank_bound(above: Callable[[int], float], predicates: int, direction: int, margin: float) -> int:
    """A bound of a rank by binary search, with at most `comparisons` calls of `above`; always between 1 and predicates.

    above(t): how far, with fresh noise, the predicate's score lies above the t-th largest. direction: UPPER, not below
    the rank unless some noise is above the margin; LOWER, not above it unless some is below -margin. Source: §6.7 with
    §0's step 5; the loop that the paper prints has no such guarantee and clamps (§10).
    """
    if predicates == 1:
        return 1
    low, high = (2, predicates) if direction == UPPER else (1, predicates - 1)
    while low <= high:
        middle = (low + high) // 2
        found = above(middle)
        if found > margin if direction == UPPER else found >= -margin:
            high = middle - 1
        else:
            low = middle + 1
    return high if direction == UPPER else low


@dataclass(frozen=True)
class Budget:
    """The price of one part of a table: epsilon (pure) or rho (zCDP), the other is None."""

    epsilon: Fraction | None
    rho: Fraction | None

    def part(self, share: Fraction) -> Budget:
        return Budget(*(None if whole is None else whole * share for whole in (self.epsilon, self.rho)))

    def noisy(self, exact: Sequence[int], moved: int, noise: NoiseSource, label: str) -> list[int]:
        """Integers of which one unit moves each by at most `moved`, all of them together for this price."""
        if self.rho is not None:
            squared = Fraction(len(exact) * moved**2)
            return noise.gaussian(exact, l2_squared=squared, rho=self.rho, label=label)
        l1 = len(exact) * moved
        return noise.laplace(exact, l1_sensitivity=l1, epsilon=self.epsilon or Fraction(1), label=label)

    def margin(self, integers: int, moved: int, miss: Fraction) -> int:
        """m with Pr[|noise of one of so many integers| > m] <= miss, by the drawn law."""
        if self.rho is not None:
            return gaussian_margin(gaussian_scale(integers * moved**2, self.rho), miss)
        return laplace_margin(laplace_scale(integers * moved, self.epsilon or Fraction(1)), miss)

    def deviation(self, moved: int) -> float:
        """Of the noise of one integer."""
        if self.rho is not None:
            return gaussian_scale(moved**2, self.rho)
        return math.sqrt(2) * laplace_scale(moved, self.epsilon or Fraction(1))


@dataclass(frozen=True)
class RankSearch:
    """Intervals for the ranks of some predicates among all, 1 the largest influence.

    predicates: how many there are; public. picks: for how many a rank is bounded. moved: by how much one unit moves a
    difference of two scores. Guarantee: `budget` for all of them, by composition of at most `comparisons` releases a
    bound, of which only the bound is shown. With probability at least `confidence` the rank, and of equal scores every
    rank that they share, lies in an interval: each bound misses with half of the rest at most, by a union bound over
    its comparisons. lower: the lower bound's share of the budget. Source: §6.7, §0.0.
    """

    predicates: int
    picks: int
    moved: int
    budget: Budget
    confidence: Fraction
    lower: Fraction = Fraction(1, 10)

    def interval(self, score: int, ordered: Sequence[int], noise: NoiseSource, label: str) -> tuple[int, int]:
        """(lowest, highest) rank. score: the predicate's; ordered: all scores, the largest first. Both private."""
        return self.bounds(lambda direction, rank: score - ordered[rank - 1], noise, label)

    def bounds(self, above: Callable[[int, int], int], noise: NoiseSource, label: str) -> tuple[int, int]:
        """(lowest, highest) rank by an indicator that takes the place of the difference of two scores (§7.2).

        above: of a direction and a rank t, private: for UPPER not above 0 up to the predicate's last rank, for LOWER
        not below 0 from its first one on; non-decreasing in t; one unit moves it by at most `moved`.
        """
        found = []
        for direction, share, name in ((LOWER, self.lower, "low"), (UPPER, 1 - self.lower, "high")):
            each = self.comparison(share)

            def noisy(rank: int, each: Budget | None = each, name: str = name, direction: int = direction) -> int:
                exact = above(direction, rank)
                return each.noisy([exact], self.moved, noise, f"{label} {name}")[0] if each else exact

            found.append(rank_bound(noisy, self.predicates, direction, self.margin(share)))
        return min(found), max(found)

    def comparison(self, share: Fraction) -> Budget | None:
        """The price of one comparison of the bound with this share; None where there is nothing to compare."""
        steps = comparisons(self.predicates)
        return self.budget.part(share / (self.picks * steps)) if steps else None

    def margin(self, share: Fraction) -> int:
        """m with Pr[noise > m] at most half of what confidence leaves, a comparison; the law is symmetric."""
        each = self.comparison(share)
        miss = (1 - self.confidence) / max(comparisons(self.predicates), 1)
        return each.margin(1, self.moved, miss) if each else 0

    def cap(self, share: Fraction) -> int:
        """Of an indicator that counts rows, the largest number that the search needs: a public one (§7.2)."""
        each = self.comparison(share)
        return math.ceil(self.margin(share) + 8 * each.deviation(self.moved)) if each else 0
