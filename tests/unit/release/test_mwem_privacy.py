"""What a release may tell of one row, exactly (numeric-release.md §0.0, §2, §13): log-likelihoods of the same outcome.

Two tables that differ in one row are released with the same outcomes, forced upon the source of noise;
how likely each was follows from what the source was asked for and from the exact values. The total may
differ by epsilon. Controls: what the paper prints, and scores rounded to ¾ of the sensitivity.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from pg_epsilon.mechanisms import mwem
from pg_epsilon.mechanisms.mwem import LATTICE, Array
from pg_epsilon.release.algorithm2 import Algorithm2, Plan
from pg_epsilon.release.candidates import Family, Row, histogram
from pg_epsilon.release.decompose import Measure
from pg_epsilon.release.predicates import predicates
from pg_epsilon.release.rounds import shares

F = Fraction
UNIT = 1 << LATTICE
PLACES = 40
EPSILON = F(2)
ROUNDS = 2


@dataclass
class Forced:
    """A source whose outcomes are given: candidates to pick, and integers to measure. Adds up how likely they were.

    seen: the scores of the candidates that are left, as `mwem.floored` made them last.
    """

    picks: Sequence[int]
    numbers: list[int]
    seen: list[Array] = field(default_factory=list)
    likelihood: float = 0.0
    turn: int = 0

    def laplace(self, exact: Sequence[int], **asked: Any) -> list[int]:
        """Up to a constant that both tables share."""
        found = self.numbers.pop(0)
        self.likelihood -= abs(found - exact[0]) * float(asked["epsilon"] / asked["l1_sensitivity"])
        return [found]

    def select_in_runs(self, sizes: Sequence[int], scores: Sequence[int], **asked: Any) -> int:
        picked = self.picks[self.turn]
        before = sorted(self.picks[: self.turn])
        place = picked - sum(other < picked for other in before)
        units, self.turn = self.seen[-1], self.turn + 1
        rate = float(asked["epsilon"] / (2 * asked["sensitivity"]))
        most = max(scores)
        total = math.fsum(size * math.exp(rate * (score - most)) for size, score in zip(sizes, scores, strict=True))
        self.likelihood += rate * (float(units[place]) - most) - math.log(total)
        run = list(scores).index(int(units[place]))
        return sum(sizes[:run]) + int((units[:place] == units[place]).sum())


@dataclass(frozen=True)
class Audit:
    """A release, and how scores are rounded (in a control not as they must be)."""

    algorithm: Algorithm2
    floored: Callable[[Array, int], Array] = mwem.floored

    def likelihood(self, rows: Sequence[Row], picks: Sequence[int], numbers: Sequence[int]) -> float:
        source = Forced(picks, list(numbers))

        def spied(errors: Array, sensitivity: int) -> Array:
            source.seen.append(self.floored(errors, sensitivity))
            return source.seen[-1]

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(mwem, "floored", spied)
            found = self.algorithm.release(self.masses(rows), source, "x")  # type: ignore[arg-type]
        assert [each.query for each in found.measured] == list(picks)
        return source.likelihood

    def masses(self, rows: Sequence[Row]) -> Array:
        return histogram(self.algorithm.family, rows, PLACES)

    def loss(self, one: Sequence[Row], two: Sequence[Row], seed: int, outcomes: int = 16) -> float:
        """The largest difference over outcomes: any picks or those that move most, numbers at a truth or far off."""
        rng = np.random.default_rng(seed)
        truths = [self.algorithm.truth(self.masses(rows)) for rows in (one, two)]
        sizes = [len(rows) * UNIT for rows in (one, two)]
        movers = np.argsort(-abs(truths[0] - truths[1]), kind="stable")[:4]
        most = 0.0
        for turn in range(outcomes):
            picks = rng.choice(movers if turn % 2 else len(truths[0]), ROUNDS, replace=False).tolist()
            side = int(rng.integers(2))
            far = [-(10**9) * UNIT, 10**9 * UNIT]
            numbers = [[sizes[side], *far][max(0, int(rng.integers(-3, 3)))]]
            for pick in picks:
                numbers.append([int(truths[side][pick]), *far][max(0, int(rng.integers(-3, 3)))])
            numbers.append([0, 10**9 * UNIT][int(rng.integers(2))])
            found = [self.likelihood(rows, picks, numbers) for rows in (one, two)]
            most = max(most, abs(found[0] - found[1]))
        return most


def algorithm(measure: Measure, rounds: int = ROUNDS) -> Algorithm2:
    plan = Plan(shares(EPSILON), max_rows=1000, rounds=rounds, sweeps=2, places=PLACES)
    return Algorithm2(Family(measure, predicates((2,), [[1, 0], [1, 1]])), plan)


BITS = Measure("bits", F(7))
MEASURES = {
    "none": Measure("none", F(3), values=tuple(map(F, range(4)))),
    "split": Measure("split", F(6)),
    "split, signed": Measure("split", F(4), F(2)),
    "bits": BITS,
}
TABLES: list[list[Row]] = [[], [(0, F(3))] * 4, [(0, F(1)), (1, F(2)), (1, F(3)), (0, F(0))]]


@pytest.mark.long
@pytest.mark.parametrize("name", MEASURES)
def test_a_row_more_tells_no_more_than_epsilon(name: str) -> None:
    measure = MEASURES[name]
    audit, most = Audit(algorithm(measure)), 0.0
    values = (F(0), F(1), measure.bound, -measure.bound_negative)
    for seed, (table, value) in enumerate(itertools.product(TABLES, values)):
        most = max(most, audit.loss(table, [*table, (1, value)], seed))
    assert most <= float(EPSILON) + 1e-9
    assert most > 0.5 * float(EPSILON)  # the outcomes are ones that tell much


class Printed(Algorithm2):
    """Sensitivity 1 of bits, in rounds and in alpha~: what the paper's Theorem 4.3 and §4.1 come to (§13)."""

    @property
    def sensitivity(self) -> int:
        return 1


def test_the_printed_sensitivity_of_bits_is_caught() -> None:
    """A row of 7 sets three bits, of which each moves every count."""
    own = algorithm(BITS)
    audit = Audit(Printed(own.family, own.plan))
    assert audit.loss(TABLES[1], [*TABLES[1], (0, F(7))], 1) > 1.5 * float(EPSILON)


def test_alpha_with_the_sensitivity_of_one_row_is_caught() -> None:
    """Rounds as they must be, alpha~ of bits as printed: with alpha's share raised, its own loss is above it."""

    class Half(Algorithm2):
        def draw_worst(self, *given: Any) -> int:
            return Printed(self.family, self.plan).draw_worst(*given)

    own = algorithm(BITS)
    plan = replace(own.plan, shares=shares(EPSILON, share_alpha=F(9, 10)))
    losses = [Audit(kind(own.family, plan)).loss(TABLES[1], [*TABLES[1], (0, F(7))], 2) for kind in (Half, Algorithm2)]
    assert losses[0] > float(EPSILON) >= losses[1]


def three_quarters(errors: Array, sensitivity: int) -> Array:
    """Scores rounded down to ¾ k, in units of k / 64: a row more moves some by 1.5 k."""
    unit = 3 * (sensitivity << LATTICE) // 4
    return np.asarray(errors // unit * (3 << mwem.SCORE_BITS) // 4)


def test_scores_rounded_to_three_quarters_are_caught() -> None:
    """A score alone that moves by 1.5 k, among many that stand still, tells 1.5 times what it may: eps0 / 4."""
    errors = np.zeros(4000, dtype=np.int64)
    moved = errors.copy()
    errors[0], moved[0] = UNIT // 2, UNIT // 2 + UNIT
    losses = []
    for rounding in (three_quarters, mwem.floored):
        made = []
        for scores in (errors, moved):
            source = Forced([0], [])

            def spied(given: Array, k: int, source: Forced = source, rounding: Any = rounding) -> Array:
                source.seen.append(rounding(given, k))
                return source.seen[-1]

            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(mwem, "floored", spied)
                setting = mwem.Setting(F(1), 1, PLACES)
                assert mwem.select(scores, [], setting, source, "x") == 0  # type: ignore[arg-type]
            made.append(source.likelihood)
        losses.append(abs(made[0] - made[1]))
    assert losses[1] <= 0.25 < 1.4 * 0.25 < losses[0]
