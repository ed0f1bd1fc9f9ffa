"""What releases are compared with (numeric-release.md §10): normalisation, global truncation,
composition, zero.

None of them is offered as the better choice; each is as private as it says.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate

import numpy as np

from pg_epsilon.mechanisms.mwem import LATTICE, Array
from pg_epsilon.noise import NoiseSource
from pg_epsilon.release.algorithm2 import Algorithm2, Plan
from pg_epsilon.release.candidates import Column, Family
from pg_epsilon.release.predicates import Boxes, Weighted
from pg_epsilon.release.rounds import Shares, eps0_of

SHARE_RADIUS = Fraction(1, 10)


@dataclass(frozen=True)
class Scaled:
    """Each query divided by one number, so that its values lie in [0, 1]; sums of w come from the
    weights' answers.

    factors: [query, side], what an answer is multiplied by.
    """

    family: Family
    factors: Array

    def answers(self, masses: Array, places: int) -> Array:
        """[query]: of released masses in units of 2^-places."""
        found = self.family.evaluate(masses).reshape(self.factors.shape) * 2.0**-places
        signs = np.array([1.0, -1.0])[: self.factors.shape[1]]
        return np.asarray((found * self.factors) @ signs)


def _tops(family: Family) -> list[Fraction]:
    """Of each side: the largest value that has a cell."""
    cells = family.measure.cells
    return [-cells[0] if side else cells[-1] for side in range(len(family.measure.ladders))]


def whole(family: Family) -> tuple[Column, ...]:
    """Of each side: values divided by the largest that has a cell."""
    return tuple(Column(side, "l", top) for side, top in enumerate(_tops(family)))


def normalised(family: Family) -> Scaled:
    """w / Delta_w, Delta_w the largest f_w times the largest value (§10.1)."""
    tops = _tops(family)
    scaled: Boxes | Weighted = family.predicates
    largest = [Fraction(1)] * scaled.queries
    if isinstance(scaled, Weighted):
        largest = [max(row.values(), default=Fraction(1)) for row in scaled.rows]
        pairs = zip(scaled.rows, largest, strict=True)
        scaled = Weighted(scaled.sizes, [{c: f / most for c, f in row.items()} for row, most in pairs])
    factors = np.array([[float(most * top) for top in tops] for most in largest])
    made = replace(family, predicates=scaled, only=whole(family))
    return Scaled(made, factors.reshape(len(largest), len(tops)))


def truncated(family: Family, radius: Fraction) -> Scaled:
    """min(w, radius) / radius (§10.3)."""
    columns = tuple(Column(side, "l", radius) for side in range(len(family.measure.ladders)))
    factors = np.full((family.predicates.queries, len(columns)), float(radius))
    return Scaled(replace(family, only=columns), factors)


def without_alpha(epsilon: Fraction, share_scale: Fraction, share_radius: Fraction = Fraction(0)) -> Shares:
    """Shares of a mechanism that measures no alpha~; the radius is paid beside them."""
    scale = share_scale * epsilon
    return Shares(scale, Fraction(0), epsilon - scale - share_radius * epsilon)


def answer_scaled(scaled: Scaled, plan: Plan, histogram: Array, noise: NoiseSource, label: str) -> Array:
    """Normalisation, or global truncation once its radius is paid: multiplicative weights over
    scaled queries.

    Guarantee: plan.shares.scale + plan.shares.rounds, as Algorithm 2 without alpha~.
    """
    algorithm = Algorithm2(scaled.family, plan)
    _, _, weights = algorithm.draw_rounds(histogram, algorithm.truth(histogram), noise, label)
    return scaled.answers(weights.masses(algorithm.places), algorithm.places)


def most_of_class(family: Family) -> list[Fraction]:
    """[class]: the largest f_w of any query: a row's largest value over the family is this times
    |g| (§9).
    """
    if isinstance(family.predicates, Boxes):
        none, one = Fraction(0), Fraction(1)
        return [one if seen else none for seen in family.predicates.seen.ravel().tolist()]
    out = [Fraction(0)] * family.classes
    for row in family.predicates.rows:
        for place, f in row.items():
            out[place] = max(out[place], f)
    return out


@dataclass(frozen=True)
class Runs:
    """Thresholds 0 … bound with one score, in a row."""

    sizes: tuple[int, ...]
    scores: tuple[int, ...]


def few_above(bound: int, epsilon: Fraction, beta: Fraction) -> int:
    """k: a threshold is aimed at above which k rows lie (§10.2)."""
    return math.ceil(2 / float(epsilon) * math.log((bound + 1) / float(beta)))


def quantile_scores(values: Sequence[tuple[Fraction, int]], bound: int, k: int) -> Runs:
    """Of each threshold y in 0 … bound: minus the distance of k + 1 from [rows above y, rows not
    below y].

    values: (value, rows), in [0, bound]; private. A row more moves every score by at most 1: both
    ends of the interval move by 0 or 1.
    """
    places = {math.floor(value) for value, _ in values} | {math.ceil(value) for value, _ in values}
    starts = sorted({0, *(y for y in places if y <= bound), *(y + 1 for y in places if y < bound)})
    ends = [*starts[1:], bound + 1]
    order = sorted(values)
    ascending = [value for value, _ in order]
    below = list(accumulate((rows for _, rows in order), initial=0))
    scores = []
    for y in starts:
        above = below[-1] - below[bisect_right(ascending, y)]
        at_least = below[-1] - below[bisect_left(ascending, y)]
        scores.append(-max(above - (k + 1), k + 1 - at_least, 0))
    return Runs(tuple(end - start for start, end in zip(starts, ends, strict=True)), tuple(scores))


def quantile(
    values: Sequence[tuple[Fraction, int]],
    bound: int,
    epsilon: Fraction,
    beta: Fraction,
    noise: NoiseSource,
    label: str,
    kappa: int = 1,
) -> int:
    """A threshold in 0 … bound above which O(k) rows lie, and at most the largest value but with
    probability beta.

    Guarantee: epsilon-DP: the exponential mechanism with scores of sensitivity 1 (kappa for users).
    """
    runs = quantile_scores(values, bound, few_above(bound, epsilon, beta))
    return noise.select_in_runs(runs.sizes, runs.scores, sensitivity=kappa, epsilon=epsilon, label=label)


@dataclass(frozen=True)
class Cut:
    """One query's answer by composition: its threshold, the scale of its noise, and the answer."""

    thr: int
    scale: float
    answer: float


def composition(
    values: Sequence[Sequence[tuple[Fraction, int]]],
    bound: int,
    epsilon: Fraction,
    noise: NoiseSource,
    label: str,
    *,
    delta: Fraction = Fraction(0),
    beta: Fraction = Fraction(1, 20),
    kappa: int = 1,
) -> list[Cut]:
    """Each query by itself: half of its share for a threshold, half for the sum of values cut there
    (§10.2).

    values: of each query (value, rows), private. Guarantee: (epsilon, delta)-DP over all of them. A
    value is rounded down to 2^-LATTICE, so that a row moves a sum by at most its threshold.
    """
    share = eps0_of(epsilon, delta, len(values))
    out = []
    for turn, own in enumerate(values):
        name = f"{label} query {turn + 1}"
        thr = quantile(own, bound, share / 2, beta, noise, name, kappa)
        if thr == 0:
            out.append(Cut(0, 0.0, 0.0))
            continue
        total = sum(rows * math.floor(min(value, Fraction(thr)) * (1 << LATTICE)) for value, rows in own)
        drawn = noise.laplace([total], l1_sensitivity=kappa * thr << LATTICE, epsilon=share / 2, label=name)
        out.append(Cut(thr, float(thr / (share / 2)), drawn[0] / (1 << LATTICE)))
    return out


def zero(family: Family) -> Array:
    """0 for every query: free, and on sparse data hard to beat (§10.4)."""
    return np.zeros(family.predicates.queries)
