"""The form that the paper builds first: thresholds from one run, sums from another
(numeric-release.md §5, "Two-instance form").

    1  n~ = n + Laplace noise                                      epsilon_n
    2  T rounds over all counts c; alpha~ = their largest error    epsilon_pmw / 2 + epsilon_a
    3  a threshold for each query and sign, from 2 alone           0
    4  T rounds over the values cut at these thresholds alone      epsilon_pmw / 2

For comparison with the one run of algorithm2.py, whose bound is the same: each half here has half of
the rounds' budget, and the second asks fewer candidates. No release is made by it.

Guarantee: (epsilon_n + epsilon_a + epsilon_pmw, delta)-DP for adding or removing one unit, by adaptive
composition: what step 4 asks is a function of released integers. Sensitivities are those of
algorithm2.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pg_epsilon.mechanisms import mwem
from pg_epsilon.mechanisms.mwem import LATTICE, Array, Setting, Support
from pg_epsilon.noise import NoiseSource
from pg_epsilon.release.algorithm2 import Algorithm2, Plan
from pg_epsilon.release.candidates import Family
from pg_epsilon.release.rounds import Shares, eps0_of, rounds_auto
from pg_epsilon.release.truncation import alpha_of, thresholds_of


@dataclass(frozen=True)
class Some:
    """Some of a family's candidates, by their numbers. Implements mwem.Queries."""

    family: Family
    kept: Array

    @property
    def count(self) -> int:
        return len(self.kept)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.family.shape

    def evaluate(self, masses: Array) -> Array:
        return np.asarray(self.family.evaluate(masses)[self.kept])

    def support(self, query: int) -> Support:
        return self.family.support(int(self.kept[query]))


@dataclass(frozen=True)
class Two:
    """answer: [query]. thresholds: [query, sign], 0 where a side is not told from none."""

    answer: Array
    thresholds: Array


def two_instances(family: Family, plan: Plan, histogram: Array, noise: NoiseSource, label: str) -> Two:
    """Answers of all queries of a family.

    plan.shares: of all of it; the rounds' is halved. histogram: private masses, int64 in units of
    2^-places, every row's whole mass.
    """
    own = plan.shares
    half = replace(plan, shares=Shares(own.scale, own.alpha, own.rounds / 2), delta=plan.delta / 2)
    first = Algorithm2(replace(family, only=tuple(c for c in family.columns if c.kind == "c")), half)
    truth = first.truth(histogram)
    mass, _, weights = first.draw_rounds(histogram, truth, noise, f"{label} counts")
    worst = first.draw_worst(truth, weights, noise, f"{label} counts")
    alpha = alpha_of(worst, first.family, first.sensitivity, own.alpha, first.places)
    counts = first.family.evaluate(weights.masses(first.places))
    places = thresholds_of(family, counts, int(alpha * (1 << first.places)))
    return _second(family, first, (places, mass), histogram, noise, f"{label} sums")


def _second(
    family: Family, first: Algorithm2, chosen: tuple[Array, int], histogram: Array, noise: NoiseSource, label: str
) -> Two:
    """Step 4. first: the counts' run, with its half of the plan. chosen: steps by number, and n~."""
    places, mass = chosen
    values = replace(family, only=tuple(c for c in family.columns if c.kind == "l"))
    ladders = family.measure.ladders
    starts = np.cumsum([0, *(one.length for one in ladders[:-1])])
    at, side = np.nonzero(places >= 0)
    asked = Some(values, at * len(values.columns) + starts[side] + places[at, side])
    sizes = [np.array([*map(float, one.steps), 0.0]) for one in ladders]
    thresholds = np.stack([own[column] for own, column in zip(sizes, places.T, strict=True)], axis=1)
    answer = np.zeros(len(places))
    if asked.count:
        plan, size = first.plan, mass / (1 << LATTICE)
        budget, delta = plan.shares.rounds, plan.delta
        chosen_rounds = rounds_auto(budget, delta, size, family.cells, asked.count, plan.most)
        rounds = min(plan.rounds or chosen_rounds, asked.count)
        weights = mwem.replay(asked, family.prior, mass, (), plan.sweeps)
        setting = Setting(eps0_of(budget, delta, rounds), first.sensitivity, first.places, plan.sweeps)
        mwem.run(weights, mwem.answers(asked, histogram, first.places), rounds, setting, noise, label)
        found = asked.evaluate(weights.masses(first.places)) * 2.0**-first.places
        np.add.at(answer, at, found * thresholds[at, side] * np.where(side, -1.0, 1.0))
    return Two(answer, thresholds)
