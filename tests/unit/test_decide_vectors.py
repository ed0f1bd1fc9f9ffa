"""The developer vectors of dp-pqd.md §8: against the exact laws, against the measures as drawn, and law by law.

Three legs: the oracles (tests/fix_decide_oracles.py) give the printed values; the measures, with their noise replaced
by its distribution, have the oracles' law to the sixth decimal; and drawn with the real source they fit it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

import fix_decide_oracles as law
from fix_decide_tape import ladder, ranks
from pg_epsilon.accounting.margins import laplace_scale
from pg_epsilon.decide.averages import Direct
from pg_epsilon.decide.bits import Bit
from pg_epsilon.decide.ranks import Hist, HistOne
from pg_epsilon.decide.sums import Sparse
from pg_epsilon.mechanisms.additive import Additive
from pg_epsilon.mechanisms.covering import Bound
from pg_epsilon.mechanisms.grain import Grained, grain_of
from pg_epsilon.mechanisms.group_by import Measure
from pg_epsilon.mechanisms.r2t import Ladder
from pg_epsilon.mechanisms.ranks import Ranks
from pg_epsilon.noise import Noise

SOME = settings(database=None, deadline=None, max_examples=25)
HALF, TENTH, ONE, THETA = Fraction(1, 2), Decimal("0.1"), Decimal(1), Decimal("0.95")
FIVES = ladder([5] * 100, 4)
COUNTS, SUMS = FIVES[:4], FIVES[4:]
LEVELS = (2, 4, 8, 16)
MEDIAN = [1, 2, 2, 3, 3, 3, 4, 4, 5]
RUNS = 3_000


# --- the printed values -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tau", "count", "lm", "em"),
    [
        (10, 749, ".6321", ".7311"),
        (10, 759, ".4323", ".5000"),
        (10, 769, ".1590", ".2689"),
        (30, 749, ".9502", ".9526"),
        (30, 769, ".8127", ".7311"),
        (30, 779, ".4988", ".5000"),
        (30, 809, ".0248", ".0474"),
    ],
)
def test_count(tau: int, count: int, lm: str, em: str) -> None:
    assert printed(law.additive(count, 749 - tau, 749 + tau, 1 / TENTH)) == lm
    assert printed(law.bit(count, 749, tau, TENTH)) == em


SUM_VECTORS = [
    (500, (".9981", ".1662", ".9396", ".910", ".9335")),
    (700, (".0010", ".0015", ".0564", ".066", ".0003")),
    (400, (".5000", ".9213", ".3333", ".433", ".9875")),
]


@pytest.mark.parametrize(("answer", "wanted"), SUM_VECTORS)
def test_sum(answer: int, wanted: Sequence[str]) -> None:
    low, high = answer - 100, answer + 100
    found = [
        printed(law.additive(500, low, high, 16)),
        printed(law.r2t(SUMS, low, high, 1, 0.05)),
        printed(law.svt(SUMS, low, high, HALF, HALF)),
        printed(law.svt_improved(COUNTS, SUMS, low, high, 1, THETA), 3),
        printed(law.r2t(SUMS, low, high, 1, 0.05, weight=2)),
    ]
    assert found == list(wanted)


def test_private_bound() -> None:
    found = law.bound_law(COUNTS, THETA, Fraction(1, 3))
    assert [printed(p) for p in found[:2]] + [printed(p, 3) for p in found[2:]] == [".0002", ".0002", ".604", ".396"]


@pytest.mark.parametrize(("tau", "wanted"), [(1, (".2937", ".3995", ".6264")), (2, (".6954", ".7769", ".8390"))])
def test_median(tau: int, wanted: Sequence[str]) -> None:
    found = []
    for form in ("printed", "ties"):
        pmf = law.em_pmf(MEDIAN, range(7), HALF, 1, form)
        found.append(printed(sum(p for e, p in enumerate(pmf) if abs(e - 3) < tau)))
    found.append(printed(law.hist(*ranks(MEDIAN, 3 - tau, 3 + tau), HALF, 1)))
    assert found == list(wanted)


@pytest.mark.parametrize(
    ("form", "wanted"),
    [
        ("printed", ".0655 .0655 .1080 .2937 .2937 .1080 .0655"),
        ("ties", ".0421 .0694 .1887 .3995 .1887 .0694 .0421"),
    ],
)
def test_median_by_em_point_by_point(form: str, wanted: str) -> None:
    assert [printed(p) for p in law.em_pmf(MEDIAN, range(7), HALF, 1, form)] == wanted.split()


def test_hist_one_of_the_specification() -> None:
    """dp-pqd.md §6.2: 100 values, epsilon 0.25, tau 5 about 50: right with probability 0.94 instead of 0.51."""
    cell = ranks(range(1, 101), 45, 55)
    assert printed(law.hist_one(*cell, HALF, Fraction(1, 4)), 2) == ".94"
    assert printed(law.hist(*cell, HALF, Fraction(1, 4)), 2) == ".51"


@pytest.mark.parametrize(("total", "count"), [(200, 30), (40, 4), (0, 0), (480, 30)])
@pytest.mark.parametrize(("low", "high"), [(4, 8), (-3, 2), (14, 20), (-1, 17), (16, 20)])
def test_the_law_of_an_average(total: int, count: int, low: int, high: int) -> None:
    """dp-pqd.md §6.4 by 200,000 trials in numpy, fixed seed; values in 0 … 16, a clamped estimate is its end."""
    rng = np.random.default_rng(7)
    for sums, draw in (
        (lambda x: law.cdf(x - total, 32), total + rng.laplace(0, 32, 200_000)),
        (law.r2t_cdf([total] * 2, 0.5, 0.05), r2t_trials(rng, [total] * 2, 0.5)),
    ):
        noisy = np.maximum(count + rng.laplace(0, 2, 200_000), 1)
        shown = np.clip(draw / noisy, 0, 16)
        wanted = law.average(sums, count, low, high, (0, 16), 0.5)
        assert abs(wanted - float(np.mean((low < shown) & (shown < high)))) < 0.006


def r2t_trials(rng: Any, sums: Sequence[int], epsilon: float) -> Any:
    levels = len(sums)
    scales = [levels * 2**j / epsilon for j in range(1, levels + 1)]
    noisy = [s + rng.laplace(0, b, 200_000) - b * math.log(levels / 0.05) for s, b in zip(sums, scales, strict=True)]
    return np.maximum(0, np.max(noisy, axis=0))


def printed(probability: float, digits: int = 4) -> str:
    return f"{probability:.{digits}f}".removeprefix("0")


# --- the measures, with noise replaced by its law -----------------------------------------------------------------


class Law:
    """A noise source for cores that make one draw and answer by its sign, or by its index: notes it, answers `reply`.

    Laplace draws before the last are answered from `noise`: quantiles of their noise, in units of the scale.
    """

    def __init__(self, reply: Any = None, noise: Sequence[float] = ()) -> None:
        self.reply, self.noise = reply, iter(noise)
        self.asked: dict[str, Any] = {}

    def laplace(self, exact: Sequence[int], *, l1_sensitivity: Any, epsilon: Any, label: str) -> list[int]:
        scale = laplace_scale(l1_sensitivity, epsilon)
        self.asked = {"exact": list(exact), "scale": scale}
        if self.reply is not None:
            return [self.reply] * len(exact)
        return [value + round(next(self.noise) * scale) for value in exact]

    def select(self, scores: Sequence[Any], *, sensitivity: Any, epsilon: Any, label: str) -> int:
        self.asked = {"logit": float((scores[1] - scores[0]) * Fraction(epsilon) / (2 * Fraction(sensitivity)))}
        return 0

    def first_above(
        self, gaps: Sequence[int], *, sensitivity: Any, threshold_epsilon: Any, query_epsilon: Any, label: str
    ) -> int | None:
        scales = [float(Fraction(sensitivity) / Fraction(e)) for e in (threshold_epsilon, query_epsilon)]
        self.asked = {"gaps": list(gaps), "scales": scales}
        return None

    def run(self, index: int | None) -> float:
        return math.exp(law.run_law(self.asked["gaps"], index, *self.asked["scales"], lattice=True))


def bit_of(measure: Measure, cell: Sequence[int], source: Any) -> int:
    return measure.release([cell], source, "x")[0][0]


def one_draw(measure: Measure, cell: Sequence[int], below: int) -> float:
    """Pr[1] of a measure that adds noise once and answers 1 on one side of `below`."""
    sides = [bit_of(measure, cell, Law(reply)) for reply in (below - 1, below)]
    source = Law(below)
    measure.release([cell], source, "x")
    tail = float(law.lattice_tail(below - source.asked["exact"][0], source.asked["scale"]))
    assert sorted(sides) == [0, 1]
    return tail if sides == [0, 1] else 1 - tail


@SOME
@given(
    count=st.integers(0, 60),
    target=st.fractions(0, 60, max_denominator=10),
    tau=st.fractions(Fraction(1, 10), 20, max_denominator=10),
    rows=st.integers(1, 3),
    epsilon=st.decimals(Decimal("0.01"), 5, places=2),
)
def test_bits_have_their_law(count: int, target: Fraction, tau: Fraction, rows: int, epsilon: Decimal) -> None:
    for form in ("em", "unclamped", "naive"):
        source = Law()
        bit_of(Bit(target, tau, rows, epsilon, form), [count], source)  # type: ignore[arg-type]
        assert math.isclose(source.asked["logit"], law.logit(count, target, tau, epsilon, form, rows), abs_tol=1e-12)
    drawn = one_draw(Bit(target, tau, rows, epsilon, "randomised"), [count], 1)
    assert math.isclose(drawn, law.bit(count, target, tau, epsilon, "randomised"), abs_tol=1e-12)


VALUES = st.lists(st.integers(0, 16), max_size=25)
ENDS = st.tuples(st.fractions(-5, 20, max_denominator=4), st.fractions(Fraction(1, 4), 20, max_denominator=4))
EPSILONS = st.decimals(Decimal("0.05"), 3, places=2)
FRACTIONS = st.sampled_from([Fraction(1, 2), Fraction(1, 4), Fraction(9, 10), Fraction(1, 3)])


@SOME
@given(values=VALUES, ends=ENDS, epsilon=EPSILONS, fraction=FRACTIONS)
def test_hist_one_and_avg_direct_have_their_law(
    values: list[int], ends: tuple[Fraction, Fraction], epsilon: Decimal, fraction: Fraction
) -> None:
    low, high = ends[0], ends[0] + ends[1]
    cell = ranks(values, low, high)
    assert abs(one_draw(HistOne(fraction, epsilon), cell, 0) - law.hist_one(*cell, fraction, epsilon)) < 2e-6
    drawn = one_draw(Direct(low, high, (0, 16), epsilon), [sum(values), len(values)], 0)
    assert abs(drawn - law.avg_direct(sum(values), len(values), low, high, (0, 16), epsilon)) < 2e-6


@SOME
@given(values=VALUES, ends=ENDS, epsilon=EPSILONS)
def test_svt_has_its_law(values: list[int], ends: tuple[Fraction, Fraction], epsilon: Decimal) -> None:
    low, high = ends[0] * 10, (ends[0] + ends[1]) * 10
    cell, source = ladder(values, 4), Law()
    assert bit_of(Sparse(LEVELS, low, high, epsilon), cell, source) == 0
    drawn = sum(source.run(index) for index in range(4, 8))
    half = Fraction(epsilon) / 2
    assert abs(drawn - law.svt(cell[4:], low, high, half, half)) < 2e-6


@SOME
@given(values=VALUES, epsilon=EPSILONS, noise=st.floats(-3, 3), theta=st.sampled_from([THETA, Decimal("0.5")]))
def test_the_bound_compares_exactly(values: list[int], epsilon: Decimal, noise: float, theta: Decimal) -> None:
    """Given n~ (here with a chosen noise), the run over c_j is §5.3's, in fine units."""
    cell, source = ladder(values, 4), Law(noise=[noise])
    assert bit_of(Bound(LEVELS, theta, epsilon), cell, source) == 4
    scale = 3 / float(epsilon)
    gaps = [c - float(theta) * (len(values) + noise * scale) for c in cell[:4]]
    for index in (0, 1, 2, 3, None):
        assert abs(source.run(index) - math.exp(law.run_law(gaps, index, scale, scale))) < 1e-5


@SOME
@given(values=VALUES, ends=ENDS, epsilon=EPSILONS, fraction=FRACTIONS, noise=st.tuples(*[st.floats(-4, 4)] * 3))
def test_hist_compares_as_printed(
    values: list[int], ends: tuple[Fraction, Fraction], epsilon: Decimal, fraction: Fraction, noise: tuple[float, ...]
) -> None:
    """Its bit for chosen noise is Algorithm 3's in continuous numbers, unless a comparison is closer than 1e-4."""
    n, q1, q2 = ranks(values, ends[0], ends[0] + ends[1])
    scale = 2 / float(epsilon)
    noisy = n + noise[0] * scale
    y1, y2 = q1 + noise[1] * scale, q2 + noise[2] * scale
    m1, m2 = float(fraction) * noisy, (1 - float(fraction)) * noisy
    drawn = bit_of(Hist(fraction, 1, epsilon), [n, q1, q2], Law(noise=noise))
    clear = [abs(m - round(m)) for m in (m1, m2)] + [abs(y1 - math.ceil(m1)), abs(y2 - math.ceil(m2))]
    assert drawn == int(y1 < math.ceil(m1) and y2 < math.ceil(m2)) or min(clear) < 1e-4


@SOME
@given(epsilon=EPSILONS, size=st.integers(1, 30), fraction=FRACTIONS, values=VALUES)
def test_ranks_have_their_law(epsilon: Decimal, size: int, fraction: Fraction, values: list[int]) -> None:
    """Scores and calibration of both forms, tight or as printed."""

    class Runs(Law):
        def select_in_runs(
            self, sizes: Sequence[int], scores: Sequence[Any], *, sensitivity: Any, epsilon: Any, label: str
        ) -> int:
            rate = Fraction(epsilon) / (2 * Fraction(sensitivity))
            each = [float(s * rate) for size, s in zip(sizes, scores, strict=True) for _ in range(size)]
            weights = np.exp(np.array(each) - max(each))
            self.asked = {"law": weights / weights.sum()}
            return 0

    held = [min(v, size - 1) for v in values]
    histogram = sorted(Counter(held).items())
    for form in ("ties", "printed"):
        for tight in (True, False):
            source = Runs()
            Ranks(size, fraction, 1, epsilon, form, tight).release([[histogram]], source, "x")  # type: ignore[arg-type]
            moved = max(fraction, 1 - fraction) if tight else 1
            wanted = law.em_pmf(held, range(size), fraction, epsilon, form, moved)
            assert np.allclose(source.asked["law"], wanted, atol=1e-12)


# --- the measures as drawn ----------------------------------------------------------------------------------------


def lm(scale: int, epsilon: Decimal, low: int, high: int) -> tuple[Measure, Callable[[Sequence[int]], bool]]:
    grain = grain_of(scale / float(epsilon))
    return Grained(Additive(scale * grain, 1, epsilon), grain), lambda raw: low * grain < raw[0] < high * grain


def r2t(low: int, high: int, truncation: str) -> tuple[Measure, Callable[[Sequence[int]], bool]]:
    grain = grain_of(8.0)
    fine = Ladder(tuple(t * grain for t in LEVELS), (16 * grain,), 1, ONE, truncation=truncation)
    return Grained(fine, grain), lambda raw: low * grain < fine.estimate(raw) < high * grain


def direct(measure: Measure) -> tuple[Measure, Callable[[Sequence[int]], bool]]:
    return measure, lambda raw: raw[0] == 1


def em(form: str, tau: int) -> tuple[Measure, Callable[[Sequence[int]], bool]]:
    return Ranks(7, HALF, 1, ONE, form, tight=False), lambda raw: abs(raw[0] - 3) < tau  # type: ignore[arg-type]


HISTOGRAM = [sorted(Counter(MEDIAN).items())]
WEIGHT = Ladder(LEVELS, (16,), 1, ONE, truncation="geo").weight
Decider = tuple[Measure, Callable[[Sequence[int]], bool]]
DRAWN: dict[str, tuple[Decider, Sequence[Any], float]] = {}
for tau, q in [(10, 749), (10, 759), (30, 779), (30, 809)]:
    DRAWN[f"LM_count {tau} {q}"] = (lm(1, TENTH, 749 - tau, 749 + tau), [q], law.additive(q, 749 - tau, 749 + tau, 10))
for form in ("em", "naive", "unclamped", "randomised"):
    for q in (749, 759, 769, 800):
        bit = Bit(Fraction(749), Fraction(10), 1, TENTH, form)  # type: ignore[arg-type]
        DRAWN[f"{form} {q}"] = (direct(bit), [q], law.bit(q, 749, 10, TENTH, form))
for q in (500, 700, 400):
    low, high = q - 100, q + 100
    ends = Fraction(low), Fraction(high)
    DRAWN[f"LM_sum {q}"] = (lm(16, ONE, low, high), [500], law.additive(500, low, high, 16))
    DRAWN[f"R2T {q}"] = (r2t(low, high, "filter"), SUMS, law.r2t(SUMS, low, high, 1, 0.05))
    DRAWN[f"r2t_geo {q}"] = (r2t(low, high, "geo"), SUMS, law.r2t(SUMS, low, high, 1, 0.05, weight=WEIGHT))
    DRAWN[f"SVT {q}"] = (direct(Sparse(LEVELS, *ends, ONE)), FIVES, law.svt(SUMS, low, high, HALF, HALF))
    improved = law.svt_improved(COUNTS, SUMS, low, high, 1, THETA)
    DRAWN[f"SVT improved {q}"] = (direct(Sparse(LEVELS, *ends, ONE, THETA)), FIVES, improved)
third = law.bound_law(COUNTS, THETA, Fraction(1, 3))
for j in (3, 4):
    bound_measure = Bound(LEVELS, THETA, ONE / 3)
    DRAWN[f"PrivateBoundDS {j}"] = ((bound_measure, lambda raw, j=j: raw[0] == j), FIVES, third[j - 1])  # type: ignore[misc]
for tau in (1, 2):
    cell = ranks(MEDIAN, 3 - tau, 3 + tau)
    DRAWN[f"Hist {tau}"] = (direct(Hist(HALF, 1, ONE)), cell, law.hist(*cell, HALF, 1))
    DRAWN[f"Hist of users {tau}"] = (direct(Hist(HALF, 3, ONE)), cell, law.hist(*cell, HALF, 1, rows=3))
    DRAWN[f"hist_one {tau}"] = (direct(HistOne(HALF, ONE)), cell, law.hist_one(*cell, HALF, 1))
    for form in ("ties", "printed"):
        pmf = law.em_pmf(MEDIAN, range(7), HALF, 1, form)
        DRAWN[f"EM_med {form} {tau}"] = (em(form, tau), HISTOGRAM, sum(pmf[3 - tau + 1 : 3 + tau]))
quartile = ranks(range(1, 41), 6, 14)
DRAWN["Hist of a quartile"] = (
    direct(Hist(Fraction(1, 4), 1, Decimal("0.5"))),
    quartile,
    law.hist(*quartile, Fraction(1, 4), HALF),
)
DRAWN["avg_direct"] = (
    direct(Direct(Fraction(4), Fraction(6), (0, 16), Decimal("0.5"))),
    [58, 10],
    law.avg_direct(58, 10, 4, 6, (0, 16), 0.5),
)


LEVEL = 2e-9


@pytest.mark.chance(2 * LEVEL)
@pytest.mark.long
@pytest.mark.parametrize("name", DRAWN)
def test_decisions_as_drawn(name: str) -> None:
    """3,000 decisions with the real source: the number of ones is in neither tail of its binomial law."""
    (measure, satisfied), cell, wanted = DRAWN[name]
    seen = sum(satisfied(measure.release([cell], Noise(), "x")[0]) for _ in range(RUNS))
    assert binom.ppf(LEVEL, RUNS, wanted) <= seen <= binom.isf(LEVEL, RUNS, wanted), (seen / RUNS, wanted)
