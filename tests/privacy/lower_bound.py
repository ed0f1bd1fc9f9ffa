"""A lower bound of epsilon from runs alone: two samples, one event, exact binomial intervals.

epsilon-DP says Pr[M(D) in S] <= e^epsilon Pr[M(D′) in S] for every event S. For any S that was fixed before the runs,

    ln(lower bound of Pr[M(D) in S] / upper bound of Pr[M(D′) in S])

is below epsilon with probability 1 - (the sum of the two bounds' errors), whatever M is. S is chosen on a sample of its
own; the bounds are Clopper and Pearson's, exact for every number of runs. Nothing about the noise's law is used, but by
`falls_short`: how rarely a bound is below what a test asks of it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import beta, binom

import fix_chance
from fix_decide_oracles import lattice_tail

ERROR = 1e-7  # of a bound: each of its two binomial bounds is wrong with probability ERROR / 2 at most
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
    return _bounded(event.hits(more), event.hits(less), more.total(), less.total())


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


Law = Mapping[int, float]
"""Of the score of one run."""


def falls_short(least: float, one: Law, two: Law, *, runs: int, choosing: int) -> float:
    """At most the probability that `epsilon_at_least` is below `least`, for runs of these laws.

    An event has to be chosen, and to fall short on the other sample. It is chosen only if on the first sample it
    beats a limit, or a good event does not: whatever the limit.
    """
    thresholds = sorted({*one, *two})
    often = {score: max(one.get(score, 0.0), two.get(score, 0.0)) for score in thresholds}
    # Of many scores, one that has more than one in CANDIDATES of the samples is of the CANDIDATES most common.
    few = len(thresholds) <= CANDIDATES
    tried = thresholds if few else sorted(thresholds, key=often.__getitem__)[-2:]
    good, threshold = max(
        ((event, t) for t in tried for event in _events([t], one, two)),
        key=lambda pair: _typical(*pair[0], 1e-6, choosing),
    )
    untried = float(binom.cdf(0 if few else 2 * choosing // CANDIDATES, choosing, often[threshold]))
    more, less = np.array(_events(thresholds, one, two)).T
    short = _below(least, more, less, runs)
    chosen = np.ones_like(short)
    for rarely in 10.0 ** -np.arange(1, 16):
        limit = _typical(*good, rarely, choosing)
        chosen = np.minimum(chosen, rarely + _above(limit, more, less, choosing))
    return max(fix_chance.NEVER, min(1.0, untried + float((short * chosen).sum())))


def named_falls_short(least: float, event: Event, one: Law, two: Law, *, runs: int) -> float:
    """The same of `bound`, of an event that was named beforehand."""
    first, second = (min(1.0, math.fsum(p for s, p in law.items() if event.holds(s))) for law in (one, two))
    more, less = (first, second) if event.first else (second, first)
    return max(fix_chance.NEVER, float(_below(least, np.array([more]), np.array([less]), runs)[0]))


def _events(thresholds: Sequence[int], one: Law, two: Law) -> list[tuple[float, float]]:
    """(probability where it is likelier, probability where it is less so) of each event that `choose` may try."""
    found = []
    for event in (Event(kind, t, True) for kind in ("at least", "at most", "equal", "other") for t in thresholds):
        first, second = (min(1.0, math.fsum(p for s, p in law.items() if event.holds(s))) for law in (one, two))
        found += [(first, second), (second, first)]
    return found


def _bounded(more: int, less: int, n: int, m: int) -> float:
    lower = float(beta.ppf(ERROR / 2, more, n - more + 1)) if more else 0.0
    upper = float(beta.isf(ERROR / 2, less + 1, m - less)) if less < m else 1.0
    return math.log(lower / upper) if lower > 0 else -math.inf


def _typical(more: float, less: float, rarely: float, n: int) -> float:
    """What an event's bound of n runs is below with probability `rarely` at most."""
    return _bounded(int(binom.ppf(rarely / 2, n, more)), int(binom.isf(rarely / 2, n, less)), n, n)


def _needed(limit: float, less: Any, n: int) -> Any:
    """The fewest hits with which the bound is `limit`, beside so many hits of the other sample; n + 1: none."""
    upper = np.where(less < n, beta.isf(ERROR / 2, less + 1, np.maximum(n - less, 1)), 1.0) * math.exp(limit)
    return np.where(upper < 1, binom.isf(ERROR / 2, n, np.minimum(upper, 1)) + 1, n + 1)


GRID = np.arange(-8, 8.5, 0.5)
"""Deviations from its mean by which the likelier sample's hits are cut into pieces, for the two bounds below."""


def _pieces(less: Any, n: int) -> Any:
    """Limits of the hits of the less likely sample, and the probability to be between one and the next."""
    ends = np.round(n * less + GRID[:, None] * np.sqrt(n * less * (1 - less))) - (GRID[:, None] < 0)
    ends = np.concatenate([np.full((1, len(less)), -1), np.clip(ends, -1, n), np.full((1, len(less)), n)])
    return ends, np.diff(binom.cdf(ends, n, less), axis=0)


def _below(limit: float, more: Any, less: Any, n: int) -> Any:
    """At most the probability of a bound below `limit`, of each event."""
    ends, mass = _pieces(less, n)
    return np.minimum(1, (mass * binom.cdf(_needed(limit, ends[1:], n) - 1, n, more)).sum(axis=0))


def _above(limit: float, more: Any, less: Any, n: int) -> Any:
    """At most the probability of a bound of `limit` or above, of each event."""
    ends, mass = _pieces(less, n)
    return np.minimum(1, (mass * binom.sf(_needed(limit, ends[:-1] + 1, n) - 1, n, more)).sum(axis=0))


def nearer(one: Sequence[int], two: Sequence[int], scales: tuple[float, float]) -> tuple[Law, Law]:
    """The laws, on D and on D′, of how much nearer (L1) noisy cells are to those of D than to those of D′.

    scales: of the discrete Laplace noise there and there; 0: none.
    """
    return _sums(one, one, two, scales[0]), _sums(two, one, two, scales[1])


def _sums(exact: Sequence[int], one: Sequence[int], two: Sequence[int], scale: float) -> Law:
    whole: Law = {0: 1.0}
    for x, a, b in zip(exact, one, two, strict=True):
        if a == b:
            continue
        low, high = min(a, b), max(a, b)
        tail = (lambda k, x=x: float(lattice_tail(k - x, scale))) if scale else (lambda k, x=x: float(x >= k))
        law = {y: tail(y) - tail(y + 1) for y in range(low + 1, high)} | {low: 1 - tail(low + 1), high: tail(high)}
        added: Counter[int] = Counter()
        for score, p in whole.items():
            for y, q in law.items():
                added[score + abs(y - b) - abs(y - a)] += p * q  # type: ignore[assignment]
        whole = dict(added)
    return whole


def epsilon_at_least(one: Callable[[], int], two: Callable[[], int], *, runs: int, choosing: int) -> float:
    """The bound from `runs` runs on D and as many on D′, for an event chosen on `choosing` runs of each."""
    event = choose((one() for _ in range(choosing)), (two() for _ in range(choosing)))
    return bound(event, Counter(one() for _ in range(runs)), Counter(two() for _ in range(runs)))
