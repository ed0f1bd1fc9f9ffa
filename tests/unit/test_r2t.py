"""R2T: its ladder, the spec's vectors, exact output probabilities, and the sensitivity of every truncation."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest

import fix_chance
from pg_epsilon.accounting.curves import pure_to_rdp
from pg_epsilon.accounting.margins import laplace_tail
from pg_epsilon.mechanisms.r2t import Ladder, core, thresholds
from pg_epsilon.noise import current

LEVELS = [(1, 1), (2, 1), (3, 2), (16, 4), (377, 9), (512, 9), (500_000, 19), (2_000_000, 21), (2**20 + 1, 21)]


@pytest.mark.parametrize(("gs", "levels"), LEVELS)
def test_levels_of_base_two_are_those_of_the_paper(gs: int, levels: int) -> None:
    """L = max(1, ceil(log2 GS)) by integers; the last threshold is GS itself (dp-pqd.md §2.6, §5.2)."""
    found = thresholds(gs, Fraction(2))
    assert len(found) == levels
    assert found == (*(2**j for j in range(1, levels)), gs)


@pytest.mark.parametrize("gs", [1, 5, 6, 30, 31, 10**6, 2**53])
def test_levels_of_base_five_and_a_half(gs: int) -> None:
    found = thresholds(gs, Fraction(11, 2))
    assert found[-1] == gs
    assert list(found) == sorted(set(found))
    assert all(b * 2 <= a * 11 + 11 for a, b in pairwise(found))
    assert len(found) == max(1, math.ceil(math.log(gs) / math.log(5.5) - 1e-12))


def test_a_ladder_starts_at_the_declared_resolution() -> None:
    assert thresholds(10_000, Fraction(2), 100) == (200, 400, 800, 1600, 3200, 6400, 10_000)


def truncated(values: Sequence[int], ladder: Ladder) -> list[int]:
    """The exact statistics of a ladder, from contributions: both sides, both truncations."""
    found = []
    for sign, count in zip((1, -1), ladder.counts, strict=False):
        for level in ladder.levels[:count]:
            part = [sign * v for v in values if sign * v > 0]
            kept = [min(v, level) for v in part] if ladder.truncation == "min" else [v for v in part if v <= level]
            found.append(sum(kept))
    return found


@pytest.mark.parametrize("truncation", ["min", "filter", "geo"])
@pytest.mark.parametrize("base", [Fraction(2), Fraction(11, 2)])
@pytest.mark.parametrize("seed", range(20))
def test_a_level_moves_by_its_threshold_at_most(truncation: str, base: Fraction, seed: int) -> None:
    """(i) sensitivity t, (ii) never above the sum, (iii) the sum at the last level; the largest unit included."""
    rng = random.Random(seed)
    sides = tuple(rng.choice([1, 3, 40, 1000]) for _ in range(rng.choice([1, 2])))
    ladder = Ladder(thresholds(max(sides), base), sides, 1, Decimal(1), truncation=truncation)
    low = -sides[1] if len(sides) == 2 else 0
    values = [rng.randint(low, sides[0]) for _ in range(rng.randrange(30))]
    for extra in (sides[0], low, rng.randint(low, sides[0])):
        one, two = truncated(values, ladder), truncated([*values, extra], ladder)
        limits = [level for count in ladder.counts for level in ladder.levels[:count]]
        changes = [abs(b - a) for a, b in zip(one, two, strict=True)]
        assert all(change <= limit for change, limit in zip(changes, limits, strict=True))
        loss = sum(Fraction(c, t) for c, t in zip(changes, limits, strict=True)) * ladder.share
        assert loss <= Fraction(ladder.epsilon)
    total = [sum(v for v in values if v > 0), -sum(v for v in values if v < 0)]
    exact, start = truncated(values, ladder), 0
    for side, count in enumerate(ladder.counts):
        part = exact[start : start + count]
        assert part[-1] == total[side]
        assert max(part) == total[side]
        start += count


class Script:
    """A noise source that adds nothing and notes what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, Fraction, list[int]]] = []

    def laplace(self, exact: Sequence[int], *, l1_sensitivity: Any, epsilon: Any, label: str) -> list[int]:
        self.asked.append((l1_sensitivity, epsilon, list(exact)))
        return list(exact)

    def ladder(
        self, exact: Sequence[Sequence[int]], thresholds: Sequence[int], *, weight: Any, epsilon: Any, label: str
    ) -> list[list[int]]:
        self.asked = [(t, weight, list(cells)) for t, cells in zip(thresholds, exact, strict=True)]
        return [list(cells) for cells in exact]


def test_every_level_takes_an_equal_share_at_its_own_threshold() -> None:
    ladder = Ladder((2, 4, 7), (7, 3), 2, Decimal("0.9"))
    source: Any = Script()
    exact = [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]]
    assert core(exact, ladder, source, "x") == [tuple(cell) for cell in exact]
    assert source.asked == [
        (4, Fraction(3, 10), [1, 4, 6, 9]),
        (8, Fraction(3, 10), [2, 5, 7, 10]),
        (14, Fraction(3, 10), [3, 8]),
    ]


def test_geo_is_one_draw_whose_weight_is_what_any_contribution_adds_up_to() -> None:
    """dp-pqd.md §5.2, r2t_geo: a unit with contribution a moves only the levels above a, each by a."""
    ladder = Ladder((2, 4, 7), (7, 3), 2, Decimal("0.9"), truncation="geo")
    worst = max(sum(Fraction(a, t) for t in ladder.levels if t >= a) for a in range(1, 8))
    assert ladder.weight == worst == 1 + Fraction(1, 2) + Fraction(2, 7)
    source: Any = Script()
    exact = [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]]
    assert ladder.release(exact, source, "x") == [tuple(cell) for cell in exact]
    assert source.asked == [
        (2, 2 * worst, [1, 4, 6, 9]),
        (4, 2 * worst, [2, 5, 7, 10]),
        (7, 2 * worst, [3, 8]),
    ]
    assert ladder.charges()[0].to_json() == {"kind": "laplace", "epsilon": "0.9"}
    assert ladder.scale(1) == pytest.approx(4 * 2 * float(worst) / 0.9)


def test_the_estimate_is_the_best_level_less_its_penalty() -> None:
    ladder = Ladder((2, 4, 8, 16), (16,), 1, Decimal(1))
    penalties = ladder.penalties(Fraction(1, 20))
    assert penalties == tuple(math.ceil(4 * t * math.log(80)) for t in (2, 4, 8, 16))
    assert ladder.estimate([500, 500, 500, 500]) == 500 - penalties[0]
    assert ladder.estimate([0, 200, 500, 500]) == 500 - penalties[2]
    assert ladder.estimate([1, 1, 1, 1]) == 0


def spec_probability(sums: Sequence[int], gs: int, low: float, high: float) -> float:
    """Pr[low < estimate < high] by dp-pqd.md §8, Laplace noise."""
    levels = thresholds(gs, Fraction(2))
    count = len(levels)

    def below(x: float) -> float:
        result = 1.0
        for s, t in zip(sums, levels, strict=True):
            b = count * t
            z = (x - s + b * math.log(count / 0.05)) / b
            result *= 1 - math.exp(-z) / 2 if z > 0 else math.exp(z) / 2
        return result if x >= 0 else 0.0

    return below(high) - below(low)


VECTORS = [((400, 600), 0.1662), ((600, 800), 0.0015), ((300, 500), 0.9213)]


@pytest.mark.chance(fix_chance.hoeffding(4_000, 0.045))
@pytest.mark.parametrize(("interval", "probability"), VECTORS)
def test_the_specs_vectors(interval: tuple[int, int], probability: float) -> None:
    """100 rows of 5, GS = 16, epsilon 1, beta .05 (dp-pqd.md §8), by formula and by what is drawn.

    4,000 runs; the discrete noise differs from the spec's by less than 0.02 there, which leaves 0.045 to chance.
    """
    ladder = Ladder(thresholds(16, Fraction(2)), (16,), 1, Decimal(1))
    sums = truncated([5] * 100, Ladder(ladder.levels, (16,), 1, Decimal(1), truncation="filter"))
    assert sums == [0, 0, 500, 500]
    assert spec_probability(sums, 16, *interval) == pytest.approx(probability, abs=5e-5)
    cells = core([sums] * 4_000, ladder, current(), "vector")
    hits = sum(interval[0] < ladder.estimate(cell) < interval[1] for cell in cells)
    assert hits / 4_000 == pytest.approx(probability, abs=0.065)


def test_no_level_overshoots_beyond_beta() -> None:
    """The union over levels of Pr[noise > penalty] is at most beta / 2, by the exact tails."""
    ladder = Ladder(thresholds(10**6, Fraction(2)), (10**6,), 1, Decimal("0.3"))
    for beta in (Fraction(1, 20), Fraction(1, 2), Fraction(1)):
        tails = [laplace_tail(ladder.scale(j), p + 1) / 2 for j, p in enumerate(ladder.penalties(beta))]
        assert sum(tails) <= Decimal(beta.numerator) / Decimal(beta.denominator) / 2


def test_the_charge_is_that_of_its_levels() -> None:
    """min(L P(epsilon / L, a), P(epsilon, a)) (composition.md §4)."""
    charge = Ladder((2, 4, 8), (8,), 1, Decimal("0.3")).charges()[0]
    assert charge.to_json() == {"kind": "r2t", "epsilon": "0.3", "levels": "3"}
    assert charge.pure() == (Decimal("0.3"), Decimal(0))
    (curve,) = charge.rdp([Decimal(4)])
    assert curve == 3 * pure_to_rdp(Decimal("0.1"), Decimal(4)) < pure_to_rdp(Decimal("0.3"), Decimal(4))
