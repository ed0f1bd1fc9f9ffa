"""Errors never exceed their bound, and bars hold the truth (numeric-release.md §0.0), over random
instances.

The released data of an instance is any data, not what multiplicative weights would find, and alpha
is as small as it may be: the largest error of any candidate on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import fix_chance as chance
from pg_epsilon.accounting.margins import laplace_tail
from pg_epsilon.mechanisms import mwem
from pg_epsilon.mechanisms.mwem import LATTICE, Array
from pg_epsilon.noise import current
from pg_epsilon.release.algorithm2 import Algorithm2, Plan
from pg_epsilon.release.candidates import Family, Row, histogram
from pg_epsilon.release.decompose import Measure
from pg_epsilon.release.predicates import Weighted
from pg_epsilon.release.rounds import shares
from pg_epsilon.release.truncation import Answers, Rounding, alpha_of, answer_all, error_bound

F = Fraction
UNIT = 1 << LATTICE
PLACES = 40
SHARES = (F(1), F(1), F(1, 2), F(1, 4), F(9, 10))


@dataclass
class Instance:
    """A family, its rows, released masses, and the share of alpha that counts are tested against."""

    family: Family
    rows: list[Row]
    masses: Array
    share: Fraction
    on_grid: bool

    @property
    def weights(self) -> list[dict[int, Fraction]]:
        assert isinstance(self.family.predicates, Weighted)
        return [dict(row) for row in self.family.predicates.rows]

    @property
    def alpha(self) -> Fraction:
        """The largest error, and what rounding may hide of it."""
        truth = mwem.answers(self.family, histogram(self.family, self.rows, PLACES), PLACES)
        worst = int(abs(mwem.answers(self.family, self.masses, PLACES) - truth).max())
        return F(worst + 2, UNIT)

    @property
    def rounding(self) -> Rounding:
        dropped = F(0) if self.on_grid or self.family.measure.decomposition != "bits" else self.family.measure.base
        return Rounding(PLACES, len(self.rows), dropped)

    def answers(self, alpha: Fraction) -> Answers:
        return answer_all(self.family, self.masses, alpha, self.rounding, share=self.share)


def value_of(rng: np.random.Generator, measure: Measure, on_grid: bool) -> Fraction:
    """Values at steps and just above them matter most."""
    sign = -1 if measure.bound_negative and rng.random() < 0.4 else 1
    top = measure.bound_negative if sign < 0 else measure.bound
    own = measure.ladders[-1 if sign < 0 else 0]
    step = own.steps[int(rng.integers(own.length))]
    value = [step, F(0), F(int(rng.integers(0, 1 + int(top / measure.base)))) * measure.base][int(rng.integers(3))]
    if not on_grid:
        value += F(int(rng.integers(0, 9)), 128) * measure.base
    return sign * min(value, top)


def masses_of(rng: np.random.Generator, truth: Array) -> Array:
    """Released data: the private data with some mass moved, or lost, or data that have nothing to
    do with them.
    """
    kind = rng.integers(4)
    if kind == 0:
        return rng.permutation(truth)
    out = truth.astype(float)
    for _ in range(int(rng.integers(1, 4))):
        place, other = rng.integers(0, len(out) - 1, 2)
        if kind == 1:
            other = min(place + 1, len(out) - 1)
        moved = min(out[place], float(1 << PLACES) * rng.integers(0, 9) / 4)
        out[place] -= moved
        out[other] += moved if kind < 3 else 0.0
    return out.astype(np.int64)


def instance(seed: int) -> Instance:
    rng = np.random.default_rng(seed)
    decomposition: Any = ("none", "split", "bits", "split")[seed % 4]
    on_grid = bool(rng.random() < 0.5) or decomposition == "none"
    base = F(1, int(2 ** rng.integers(0, 3)))
    bound = base * int(rng.integers(1, 20))
    negative = base * int(rng.integers(1, 9)) if rng.random() < 0.3 else F(0)
    values = tuple(base * i for i in range(-int(negative / base), int(bound / base) + 1))
    measure = Measure(decomposition, bound, negative, base, values)
    classes = int(rng.integers(1, 4))
    parts = 1 if rng.random() < 0.5 else int(rng.integers(2, 5))
    drawn = rng.integers(0, parts + 1, (int(rng.integers(1, 4)), classes))
    predicates = Weighted((classes,), [{c: F(int(x), parts) for c, x in enumerate(row) if x} for row in drawn])
    family = Family(measure, predicates)
    few = [value_of(rng, measure, on_grid) for _ in range(3)]
    n = int(rng.choice([0, 1, 5, 20, 100]))
    rows: list[Row] = [(int(rng.integers(classes)), few[int(rng.integers(3))]) for _ in range(n)]
    share = SHARES[int(rng.integers(len(SHARES)))]
    return Instance(family, rows, masses_of(rng, histogram(family, rows, PLACES)), share, on_grid)


def off(case: Instance, found: Answers, alpha: Fraction) -> list[tuple[float, float, bool]]:
    """Of each query: how far it is off, how far it may be, whether the bar holds the truth."""
    out = []
    measure, rounding = case.family.measure, case.rounding
    for q, f in enumerate(case.weights):
        truth = sum(f.get(c or 0, F(0)) * value for c, value in case.rows)
        bound = 0.0
        for side, own in enumerate(measure.ladders):
            largest = max([F(0)] + [f.get(c or 0, F(0)) * (-v if side else v) for c, v in case.rows])
            given = (float(alpha), float(largest), float(measure.base), float(case.share))
            thr = float(found.thresholds[q, side])
            bound += error_bound(measure.decomposition, set(f.values()) <= {1}, *given, thr)
            lost = float(own.top) * (2.0**-LATTICE + 2.0**-PLACES) * measure.tuples
            bound += (lost + float(rounding.dropped)) * len(case.rows)
        inside = found.low[q] <= truth <= found.high[q]
        out.append((abs(found.answer[q] - float(truth)), bound * (1 + 1e-12) + 1e-12, bool(inside)))
    return out


def check(seeds: range) -> float:
    """No bound and no bar is broken; the largest part of a bound that an error took."""
    most = 0.0
    for seed in seeds:
        case = instance(seed)
        alpha = case.alpha
        for error, bound, inside in off(case, case.answers(alpha), alpha):
            assert error <= bound, seed
            assert inside, seed
            most = max(most, error / bound)
    return most


@pytest.mark.long
def test_no_bound_and_no_bar_is_broken() -> None:
    assert check(range(400)) > 0.5  # the instances come near


@pytest.mark.parametrize("part", range(20))
def test_no_bound_and_no_bar_is_broken_in_twenty_thousand(part: int) -> None:
    assert check(range(1000 + 1000 * part, 2000 + 1000 * part)) > 0.8


def adversarial() -> Instance:
    """200 rows of 1.01: split mass 198 at 1 and 2 at 2; released 198 at 1 and 1 at 2 (§0)."""
    family = Family(Measure("split", F(2)), Weighted((1,), [{0: F(1)}]))
    masses = np.array([0, 198 << PLACES, 1 << PLACES, 0])
    return Instance(family, [(0, F(101, 100))] * 200, masses, F(1), False)


def test_the_bound_of_split_data_is_tight_where_the_printed_one_is_broken() -> None:
    """Truth 202, answer 199 at alpha 1: above 2 alpha Delta_w(D), and 0.99 of the bound."""
    case = adversarial()
    ((error, bound, inside),) = off(case, case.answers(case.alpha), case.alpha)
    assert case.alpha == 1 + F(2, UNIT)
    assert error == pytest.approx(3)
    assert 2 * 1.01 < error < bound == pytest.approx(3.03, abs=1e-3)
    assert inside


def test_the_printed_bound_is_broken_and_this_is_found() -> None:
    """The control: 2 alpha Delta_w(D), as printed, fails on some of the instances on which this one
    holds.
    """
    broken = 0
    for case in [adversarial(), *map(instance, range(1, 100, 4))]:
        alpha = case.alpha
        for f, (error, _, _) in zip(case.weights, off(case, case.answers(alpha), alpha), strict=True):
            largest = max([F(0)] + [f.get(c or 0, F(0)) * abs(v) for c, v in case.rows])
            broken += error > 2 * float(alpha * largest) + 1e-3
    assert broken > 0


RUNS = 100
EPSILON = F(1)
SHORT = F(1, 20)


def most_short() -> int:
    """So many runs may have alpha~ too small, but with probability 1e-7."""
    return next(k for k in range(RUNS) if chance.binomial(RUNS, float(SHORT), 0, k) <= 1e-7)


@pytest.mark.long
@pytest.mark.chance(1e-7)
def test_whole_releases_keep_their_bounds_and_bars() -> None:
    """With production noise: where alpha~ is as large as the largest error, nothing is broken; it
    nearly always is.
    """
    short = 0
    for seed in range(RUNS):
        made = instance(seed)
        plan = Plan(shares(EPSILON * 4), max_rows=200, rounds=2, sweeps=3, places=PLACES)
        algorithm = Algorithm2(made.family, plan)
        released = algorithm.release(histogram(made.family, made.rows, PLACES), current(), "x")
        case = Instance(made.family, made.rows, algorithm.masses(released), made.share, made.on_grid)
        alpha = alpha_of(released.worst, made.family, algorithm.sensitivity, plan.shares.alpha, PLACES)
        if alpha < case.alpha:
            short += 1
            continue
        for error, bound, inside in off(case, case.answers(alpha), alpha):
            assert error <= bound, seed
            assert inside, seed
    assert short <= most_short()


def test_alpha_is_as_large_as_its_beta_says() -> None:
    """The margin of the drawn noise: one side, so that twice beta is missed on both."""
    family = adversarial().family
    epsilon = F(1, 10)
    alpha = alpha_of(0, family, 1, epsilon, PLACES)
    margin = int(alpha * UNIT) - 2
    assert float(laplace_tail(UNIT / float(epsilon), margin + 1)) <= 0.1
    assert float(laplace_tail(UNIT / float(epsilon), margin)) > 0.1
