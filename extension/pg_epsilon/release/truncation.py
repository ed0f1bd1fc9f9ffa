"""Thresholds, answers and bars of a family from released masses and alpha~ (numeric-release.md
§0.0, §4, §5).

Post-processing of released integers: nothing here is private, and nothing costs budget.

A query's threshold is the least step at which few rows lie above it by the released data; its
answer is the sum of values cut there. If every candidate's answer on the released data is within
alpha of its answer on the private data, a bar holds for any threshold: cut values are off by at
most alpha times the threshold, and at most c(D~) + alpha rows lie above, each by at most the top
minus the threshold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from pg_epsilon.accounting.margins import laplace_margin, laplace_scale
from pg_epsilon.mechanisms.mwem import LATTICE, Array
from pg_epsilon.release.candidates import Family
from pg_epsilon.release.decompose import Decomposition
from pg_epsilon.release.ladder import Ladder

Profile = Literal["product", "paper"]
BETA_ALPHA = Fraction(1, 20)
_UP = 1 + 2.0**-48  # more than the doubles of a bar can be off


def alpha_paper(measured: float, sensitivity: int, epsilon: float, beta: float | None) -> float:
    """max(0, measured [+ (k / epsilon) ln(1 / 2 beta)]): the paper's alpha~ (§4.1). None: without
    the slack.
    """
    slack = sensitivity / epsilon * math.log(1 / (2 * beta)) if beta else 0.0
    return max(0.0, measured + slack)


def alpha_of(
    measured: int, family: Family, sensitivity: int, epsilon: Fraction, places: int, beta: Fraction = BETA_ALPHA
) -> Fraction:
    """alpha~: no candidate is off by more, but with probability beta.

    measured: the released integer, the largest error + discrete Laplace noise, in units of
    2^-LATTICE. The margin is that of the noise as drawn; one side of it matters, hence 2 beta.
    Rounded answers are a unit below on each side, and a unit of 2^-places for each class more.
    """
    scale = laplace_scale(sensitivity << LATTICE, epsilon)
    rounded = 1 + (family.classes >> (places - LATTICE)) + 1
    return Fraction(max(0, measured + laplace_margin(scale, 2 * beta)) + rounded, 1 << LATTICE)


def error_bound(
    decomposition: Decomposition,
    binary: bool,
    alpha: float,
    largest: float,
    base: float = 1.0,
    share: float = 1.0,
    thr: float = 0.0,
) -> float:
    """How far the answer of one sign is off at most, if no candidate is off by more than alpha.

    binary: all f_w in {0, 1}. largest: Delta_w(D), the largest value of the query on a row; private,
    so this is for tests and proofs, and nobody is told. share: gamma, the part of alpha that a count
    is tested against. thr: the threshold that was chosen. Rounding comes on top (`Rounding`), and
    under bits b f_w(D) where values are no multiples of b. Source: §0.0; the paper's 2 alpha Delta_w(D)
    is exceeded by split data (§0).

    Proof. t: the threshold, d: Delta_w(D). The sum of values cut at t is off by at most alpha t. Of
    what is cut, at most (1 + gamma) alpha units of mass lie above t if the search stopped there by
    its test, and none if it stopped at the top. none, bits (cells at most d): off by alpha t + (1 +
    gamma) alpha (d - t) <= (1 + gamma) alpha d where t <= d, else by alpha t. At gamma = 1 the search
    goes on past t / 2 only if c > 0 there, so that t < 2 d or t = b. split: cells reach up to 2 M, M =
    max(d, b); t <= 2 M gives 2 (1 + gamma) alpha M in the same way, any f. With f in {0, 1} a row of
    t < g <= 2 t has g - t = t lambda, lambda its mass above t, and one of g > 2 t loses at most d - t
    a unit: off by alpha t + (1 + gamma) alpha max(t, d - t), and a t below the query's top step is at
    most M: (2 + gamma) alpha M; at the top, or above, alpha t.
    """
    if decomposition in ("none", "bits"):
        return alpha * max((1 + share) * largest, base, thr if share < 1 else 0.0)
    factor = 2 + share if binary else 2 * (1 + share)
    return alpha * max(factor * max(largest, base), thr)


@dataclass(frozen=True)
class Rounding:
    """What released answers may lose by rounding; public. rows: no more than these are in the
    table.

    places: masses are in units of 2^-places. dropped: what a row's value may lose before it is
    decomposed: the base under bits, if values are no multiples of it, else 0.
    """

    places: int
    rows: int
    dropped: Fraction = Fraction(0)


@dataclass(frozen=True)
class Answers:
    """Of each query: answer, threshold of each side ([query, side]), bar, and whether every side is
    cut at 0.

    below_resolution: the answer 0 then means "too few rows to see", not "none". Bars of all queries
    hold together, but for alpha~'s beta.
    """

    answer: Array
    thresholds: Array
    low: Array
    high: Array
    below_resolution: Array


@dataclass(frozen=True)
class _Side:
    """One sign of all queries: counts [query, step], above the thresholds 0 … top / 2; thr: step or
    -1 for 0.
    """

    counts: Array
    values: Array
    steps: Ladder
    tops: Array
    thr: Array

    @property
    def sizes(self) -> Array:
        """0 and the steps, as doubles; exact, because they are powers of two. The place -1 is the
        last: 0.
        """
        return np.array([float(step) for step in (*self.steps.steps, 0)])

    def at(self, table: Array, places: Array) -> Array:
        """[query]: its entry at a place; 0 at the places below and above the table."""
        inside = np.clip(places, 0, table.shape[1] - 1)
        found = np.take_along_axis(table, inside[:, None], axis=1)[:, 0]
        return np.where((places >= 0) & (places < table.shape[1]), found, 0)


def _sides(family: Family, answers: Array, limit: int) -> list[_Side]:
    """Thresholds of every side. limit: what counts are compared with, in their own unit; exact."""
    table = answers.reshape(family.predicates.queries, len(family.columns))
    out, start = [], 0
    for side, steps in enumerate(family.measure.ladders):
        m = steps.length
        counts = table[:, start : start + m]
        values = table[:, start + m : start + 2 * m]
        start += 2 * m
        tops = family.top_places[:, side]
        few = np.arange(m) >= tops[:, None]
        few[:, :-1] |= counts[:, 1:] <= limit
        few[:, -1] = True
        none = (tops < 0) | (counts[:, 0] <= limit)
        out.append(_Side(counts, values, steps, tops, np.where(none, -1, few.argmax(axis=1))))
    return out


def thresholds_of(family: Family, counts: Array, limit: int) -> Array:
    """[query, side]: the number of the step that each is cut at; -1 for 0.

    counts: of all queries' c, side by side. limit: so much is few, in their own unit.
    """
    table, out, start = counts.reshape(family.predicates.queries, -1), [], 0
    for own in family.measure.ladders:
        each = table[:, start : start + own.length]
        out += [each, np.zeros_like(each)]
        start += own.length
    return np.stack([one.thr for one in _sides(family, np.hstack(out), limit)], axis=1)


def answer_all(
    family: Family,
    masses: Array,
    alpha: Fraction,
    rounding: Rounding,
    *,
    share: Fraction = Fraction(1),
    sure: Fraction | None = None,
    profile: Profile = "product",
) -> Answers:
    """Answers and bars of all queries of a family from its released masses (units of 2^-places).

    share: gamma in (0, 1], a count is few if it is at most gamma alpha. sure: what bars are made of in
    place of alpha, for another confidence: a bar holds for any threshold. product: bars with
    c_thr(D~) + alpha, widened by what rounding may lose. paper: with 2 alpha, and no rounding
    (§0.0); the caller hides its bars where alpha has no slack.
    """
    unit = 2.0**-rounding.places
    limit = math.floor(share * alpha * (1 << rounding.places))
    wide = float(alpha if sure is None else sure)
    queries = family.predicates.queries
    answer, low, high = (np.zeros(queries) for _ in range(3))
    thresholds = []
    for side, own in enumerate(_sides(family, family.evaluate(masses), limit)):
        thr, top = own.sizes[own.thr], own.sizes[own.tops]
        found = thr * own.at(own.values, own.thr) * unit
        bottom, above = _bar(own, found, thr, top, wide, unit, profile)
        if profile == "product":
            bottom, above = _widened(family, own, (bottom, above), thr, wide, rounding)
        answer += -found if side else found
        low += -above if side else bottom
        high += -bottom if side else above
        thresholds.append(thr)
    stacked = np.stack(thresholds, axis=1)
    return Answers(answer, stacked, low, high, (stacked == 0).all(axis=1))


def _bar(
    own: _Side, found: Array, thr: Array, top: Array, alpha: float, unit: float, profile: Profile
) -> tuple[Array, Array]:
    """low and high of one side: +- thr alpha, and for what is cut (c + alpha) (top - thr); low is
    not clamped.
    """
    above = own.at(own.counts, own.thr + 1) * unit
    cut = ((alpha if profile == "paper" else above) + alpha) * np.maximum(top - thr, 0.0)
    return found - thr * alpha, found + thr * alpha + cut


def _widened(
    family: Family, own: _Side, bar: tuple[Array, Array], thr: Array, alpha: float, rounding: Rounding
) -> tuple[Array, Array]:
    """A bar with what rounding may lose.

    Values of candidates: below by up to 2^-LATTICE a unit of mass that is above 0, of which there
    is at most c_0(D~) + alpha. Masses: below by up to half a step times 2^-places a row. dropped: a
    row. Last, what doubles may be off.
    """
    low, high = bar
    most = own.counts[:, 0] * 2.0**-rounding.places + alpha
    lost = np.zeros(len(thr)) if family.exact else thr * most * 2.0**-LATTICE
    per_row = float(own.steps.top) * 2.0**-rounding.places + float(rounding.dropped)
    high = high + np.where(own.tops >= 0, lost + per_row * rounding.rows, 0.0)
    guard: Any = (np.abs(low) + np.abs(high) + thr * alpha) * (_UP - 1)
    return low - guard, high + guard
