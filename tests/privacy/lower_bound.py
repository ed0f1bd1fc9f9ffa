"""A lower bound of epsilon from runs alone: two samples, one event, exact binomial intervals.

epsilon-DP says Pr[M(D) in S] <= e^epsilon Pr[M(D′) in S] for every event S. For any S that was fixed before the runs,

    ln(lower bound of Pr[M(D) in S] / upper bound of Pr[M(D′) in S])

is below epsilon with probability 1 - (the sum of the two bounds' errors), whatever M is. S is chosen on a sample of its
own; the bounds are Clopper and Pearson's, exact for every number of runs. Nothing about the noise's law is used.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from scipy.stats import beta

ERROR = 1e-6  # of a bound: each of its two binomial bounds is wrong with probability ERROR / 2 at most
CANDIDATES = 60  # thresholds tried, among the scores that were seen


@dataclass(frozen=True)
class Event:
    """Scores at least, at most, equal to or other than a threshold; `first`: more likely on D (not on D′)."""

    kind: str
    threshold: int
    first: bool

    def holds(self, score: int) -> bool:
        if self.kind == "at least":
            return score >= self.threshold
        if self.kind == "at most":
            return score <= self.threshold
        return (score == self.threshold) == (self.kind == "equal")

    def hits(self, scores: Counter[int]) -> int:
        return sum(times for score, times in scores.items() if self.holds(score))


def bound(event: Event, one: Counter[int], two: Counter[int]) -> float:
    """The lower bound of epsilon that the event gives for samples of scores on D and on D′; may be below 0."""
    more, less = (one, two) if event.first else (two, one)
    k, n = event.hits(more), more.total()
    lower = float(beta.ppf(ERROR / 2, k, n - k + 1)) if k else 0.0
    k, n = event.hits(less), less.total()
    upper = float(beta.isf(ERROR / 2, k + 1, n - k)) if k < n else 1.0
    return math.log(lower / upper) if lower > 0 else -math.inf


def choose(one: Iterable[int], two: Iterable[int]) -> Event:
    """The event with the largest bound on samples that are used for nothing else."""
    first, second = Counter(one), Counter(two)
    both = first + second
    seen = sorted(both)
    step = max(1, len(seen) // CANDIDATES)
    thresholds = set(seen[::step]) | {score for score, _ in both.most_common(CANDIDATES)}
    events = [
        Event(kind, threshold, of_first)
        for kind in ("at least", "at most", "equal", "other")
        for threshold in sorted(thresholds)
        for of_first in (True, False)
    ]
    return max(events, key=lambda event: bound(event, first, second))


def epsilon_at_least(one: Callable[[], int], two: Callable[[], int], *, runs: int, choosing: int) -> float:
    """The bound from `runs` runs on D and as many on D′, for an event chosen on `choosing` runs of each."""
    event = choose((one() for _ in range(choosing)), (two() for _ in range(choosing)))
    return bound(event, Counter(one() for _ in range(runs)), Counter(two() for _ in range(runs)))
