"""How often each decider is wrong, exactly: dp-pqd.md §8's laws (fix_decide_oracles) on values and their counts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np

import fix_decide_oracles as laws

BETA, THETA, HALF = 0.05, 0.95, Fraction(1, 2)
LIKELY = 1e-7  # levels that PrivateBoundDS is less likely to give are left out: the error moves by less


@dataclass(frozen=True)
class Truth:
    """The rows that satisfy a question: each value (ascending, within its bounds) and how many rows have it."""

    aggregate: str
    bounds: tuple[int, int]
    values: tuple[int, ...]
    counts: tuple[int, ...]

    @cached_property
    def rows(self) -> int:
        return sum(self.counts)

    @cached_property
    def answer(self) -> Fraction:
        """count(*), sum, or the lower median."""
        if self.aggregate == "count":
            return Fraction(self.rows)
        if self.aggregate == "sum":
            return Fraction(sum(v * n for v, n in zip(self.values, self.counts, strict=True)))
        below = np.cumsum(self.counts)
        return Fraction(self.values[int(np.searchsorted(below, -(-self.rows // 2)))])

    @cached_property
    def ladder(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """c_1 … c_L and S_1 … S_L at 2^j (dp-pqd.md §2.6)."""
        top = max(1, (self.bounds[1] - 1).bit_length())
        values, counts = np.array(self.values, dtype=np.int64), np.array(self.counts, dtype=np.int64)
        at_most = [values <= 2**j for j in range(1, top + 1)]
        return tuple(int(counts[m].sum()) for m in at_most), tuple(int((values * counts)[m].sum()) for m in at_most)

    def up_to(self, end: Fraction) -> int:
        return sum(n for v, n in zip(self.values, self.counts, strict=True) if v <= end)


@dataclass(frozen=True)
class Case:
    """One decision: the synthetic answer, tau, epsilon."""

    target: Fraction
    tau: Fraction
    epsilon: float

    @property
    def low(self) -> Fraction:
        return self.target - self.tau

    @property
    def high(self) -> Fraction:
        return self.target + self.tau


Law = Callable[[Truth, Case], float]


def _bit(form: str) -> Law:
    return lambda truth, case: laws.bit(truth.rows, case.target, case.tau, case.epsilon, form)


def _lm(truth: Truth, case: Case) -> float:
    scale = max(truth.bounds[1], 1) / case.epsilon
    return laws.additive(truth.answer, case.low, case.high, scale)


def _r2t(truth: Truth, case: Case) -> float:
    return laws.r2t(truth.ladder[1], case.low, case.high, case.epsilon, BETA)


def _r2t_geo(truth: Truth, case: Case) -> float:
    sums = truth.ladder[1]
    return laws.r2t(sums, case.low, case.high, case.epsilon, BETA, 2 - Fraction(2) / 2 ** len(sums))


def _svt_basic(truth: Truth, case: Case) -> float:
    half = case.epsilon / 2
    return laws.svt(truth.ladder[1], case.low, case.high, half, half)


@lru_cache(maxsize=256)
def _bound(counts: tuple[int, ...], epsilon: float) -> list[float]:
    return laws.bound_law(counts, THETA, epsilon)


def _svt(truth: Truth, case: Case) -> float:
    counts, sums = truth.ladder
    third = case.epsilon / 3
    return sum(
        p * laws.svt(sums[:k], case.low, case.high, third, third)
        for k, p in enumerate(_bound(counts, third), 1)
        if p > LIKELY
    )


def _em(truth: Truth, case: Case, moved: float = 1) -> float:
    """laws.em_pmf (ties) summed over the interval, by whole columns of the domain."""
    low, high = truth.bounds
    held = np.zeros(high - low + 1)
    held[np.array(truth.values, dtype=int) - low] = truth.counts
    up_to = np.cumsum(held)
    off = np.maximum(0, np.maximum(up_to - held - truth.rows / 2, truth.rows / 2 - up_to))
    weights = np.exp(-case.epsilon * (off - off.min()) / (2 * moved))
    domain = np.arange(low, high + 1)
    inside = (domain > float(case.low)) & (domain < float(case.high))
    return float(weights[inside].sum() / weights.sum())


def _cell(truth: Truth, case: Case) -> tuple[int, int, int]:
    above = truth.rows - truth.up_to(Fraction(math.ceil(case.high) - 1))
    return truth.rows, truth.up_to(case.low), above


def _hist(truth: Truth, case: Case) -> float:
    return laws.hist(*_cell(truth, case), HALF, case.epsilon)


def _hist_one(truth: Truth, case: Case) -> float:
    return laws.hist_one(*_cell(truth, case), HALF, case.epsilon)


LAWS: Mapping[str, Mapping[str, Law]] = {
    "count": {
        "lm": lambda truth, case: laws.additive(truth.rows, case.low, case.high, 1 / case.epsilon),
        "em": _bit("em"),
        "em_naive": _bit("naive"),
        "em_unclamped": _bit("unclamped"),
        "randomised_response": _bit("randomised"),
    },
    "sum": {"lm": _lm, "r2t": _r2t, "r2t_geo": _r2t_geo, "svt_basic": _svt_basic, "svt": _svt},
    "median": {
        "em": _em,
        "em_tight": lambda truth, case: _em(truth, case, 0.5),
        "hist": _hist,
        "hist_one": _hist_one,
    },
}
EXTENSIONS = frozenset({"em_unclamped", "randomised_response", "r2t_geo", "em_tight", "hist_one"})


def satisfied(truth: Truth, case: Case) -> bool:
    """The decision that would be right: whether the true answer is within tau of the synthetic one."""
    return abs(truth.answer - case.target) < case.tau


def error(truth: Truth, case: Case, mechanism: str) -> float:
    """The probability of the wrong decision (Def. 3.2)."""
    p = LAWS[truth.aggregate][mechanism](truth, case)
    return min(1.0, max(0.0, 1 - p if satisfied(truth, case) else p))
