"""Released integers of a workload -> its rows: sums, counts, averages and their errors, and facts; free."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import numpy as np

from pg_epsilon.errors import DPError
from pg_epsilon.mechanisms.matrix import bars, strategies
from pg_epsilon.mechanisms.matrix.queries import Array
from pg_epsilon.workload.ask import Workload
from pg_epsilon.workload.batch import Batch, Drawn, read
from pg_epsilon.workload.columns import weights_of
from pg_epsilon.workload.designs import designs, mean_variance, separate, variance
from pg_epsilon.workload.found import find

FLOOR = 1e-9  # of the largest deviation: a query without noise weighs no more than this allows
ALONE = "each by itself"  # no candidate: what every sum is held against
MOST_SHOWN = 400  # queries whose errors by each method are told


@dataclass(frozen=True)
class Answers:
    """Per query, lattice units: the sum, its noise's standard deviation and margin, the count where it is known."""

    totals: Array
    deviations: Array
    margins: Array
    counts: Array | None


@dataclass(frozen=True)
class Decoder:
    """What follows from a strategy alone: each query's weight of each draw, its noise's deviation and margin."""

    totals: Array
    counts: Array | None
    deviations: Array
    margins: Array


def answers(groups: Sequence[Drawn], how: Batch, confidence: Decimal) -> list[Answers]:
    """Least squares on what was drawn, then every query, in each group. Unbiased for the truncated sums.

    Margins hold for each query by itself at this confidence; where answers are put in order, for all of a group's at
    once, each different query with its share of what may miss: bars of other queries then count for each of them.
    """
    miss = float((1 - confidence) / (len(how.workload.distinct.rows) if smooths(how) else 1))
    key = (_scale(groups[0], how), miss, how.gaussian)
    if key not in groups[0].decoders:
        groups[0].decoders[key] = _decoder(groups[0], how, miss)
    decoder: Decoder = groups[0].decoders[key]
    found = []
    for drawn in groups:
        values = np.array([float(value) for value in drawn.answers]) / drawn.lattice.factor
        counts = None if decoder.counts is None else decoder.counts @ values
        found.append(Answers(decoder.totals @ values, decoder.deviations, decoder.margins, counts))
    return found


def _decoder(drawn: Drawn, how: Batch, miss: float) -> Decoder:
    inverse = strategies.inverse(drawn.lattice.strategy(drawn.strategy))
    totals, counts = drawn.columns.totals.times(inverse.T).T, drawn.columns.counts
    scale = _scale(drawn, how)
    margins = _margins(totals, drawn, how, miss)
    deviations = np.sqrt(np.square(totals).sum(axis=1)) * (scale if how.gaussian else scale * math.sqrt(2))
    return Decoder(totals, None if counts is None else counts.times(inverse.T).T, deviations, margins)


def _scale(drawn: Drawn, how: Batch) -> float:
    """b of the Laplace noise, sigma of the Gaussian, of one draw, in units of the strategy's rows."""
    if how.gaussian:
        return math.sqrt(drawn.lattice.l2_squared / (2 * float(how.amount))) * how.spread / drawn.lattice.factor
    return drawn.lattice.l1 * how.units / float(how.amount) / drawn.lattice.factor


def _margins(weights: Array, drawn: Drawn, how: Batch, miss: float) -> Array:
    """Per query m with Pr[|its weights times the draws' noise| > m] <= miss; weights: queries x draws.

    Gaussian: by the normal law. Laplace: exact for the continuous law, and half a step of the lattice for each draw,
    because a discrete one exceeds k as often as a continuous one exceeds k - 1/2 at most (sum-workloads.md §0); for
    many cells by Chernoff's bound, which is up to twice as wide.
    """
    scale = _scale(drawn, how)
    if how.gaussian:
        return np.asarray(-NormalDist().inv_cdf(miss / 2) * scale * np.sqrt(np.square(weights).sum(axis=1)))
    quantile = bars.two_sided_quantile if weights.size <= bars.EXACT else bars.chernoff
    steps = np.abs(weights).sum(axis=1) / (2 * drawn.lattice.factor)
    return np.asarray(np.array([quantile(row, miss) for row in weights]) * scale + steps)


def rows(raw: Sequence[int], how: Batch, confidence: Decimal) -> list[list[str | int | None]]:
    """query, low_edge, high_edge, sum, count, avg, stderr, low, high of every query, as texts.

    low and high hold what noise may do at the asked confidence; an end that theta moved is NULL, because how much was
    cut is not known. Where answers are put in order (`smooths`), all of a group's hold at once: see `in_order`.
    """
    (found,) = rows_of([read(raw, how)], how, confidence)
    return found


def rows_of(groups: Sequence[Drawn], how: Batch, confidence: Decimal) -> list[list[list[str | int | None]]]:
    """The rows of every group."""
    return [_rows(drawn, found, how) for drawn, found in zip(groups, answers(groups, how, confidence), strict=True)]


def _rows(drawn: Drawn, found: Answers, how: Batch) -> list[list[str | int | None]]:
    workload, step = how.workload, how.workload.lattice.step
    shown, *ends = _shown(found, how)
    least, most = max(workload.lattice.low, -drawn.theta), min(workload.lattice.high, drawn.theta)
    knows_low, knows_high = _uncut(drawn, workload)
    asked = workload.options.aggregates
    result: list[list[str | int | None]] = []
    for place, (low_edge, high_edge) in enumerate(workload.edges):
        total, low, high = float(shown[place]), float(ends[0][place]), float(ends[1][place])
        count = None if found.counts is None else float(found.counts[place])
        average = total / count if count is not None and round(count) >= 1 else None
        result.append(
            [
                place + 1,
                None if low_edge is None else str(low_edge),
                None if high_edge is None else str(high_edge),
                _text(total, step),
                None if count is None or not {"count", "avg"} & set(asked) else str(round(count)),
                _text(_within(average, least, most), step, 6) if "avg" in asked else None,
                _text(float(found.deviations[place]), step),
                _text(low, step) if knows_low[place] else None,
                _text(high, step) if knows_high[place] else None,
            ]
        )
    return result


def _uncut(drawn: Drawn, workload: Workload) -> tuple[list[bool], list[bool]]:
    """Per query, whether theta left its lower and its upper end where they are: a sum is not too low for values that
    were cut, nor too high for negative ones; where a query's weight is negative, the other way round."""
    tops = np.array([min(high, workload.lattice.high) for high in workload.cuts[1:]]) > drawn.theta
    bottoms = np.array([below + 1 for below in workload.cuts[:-1]]) < -drawn.theta
    weights = weights_of(workload.rows) if tops.any() or bottoms.any() else np.zeros((len(workload.rows), 1))
    plus, minus = weights > 0, weights < 0
    too_low, too_high = (plus & tops) | (minus & bottoms), (plus & bottoms) | (minus & tops)
    return [not row.any() for row in too_high], [not row.any() for row in too_low]


def _within(value: float | None, low: int, high: int) -> float | None:
    return None if value is None else min(max(value, low), high)


def smooths(how: Batch) -> bool:
    """Whether answers are put in order (sum-workloads.md §10): of prefixes of values of at least 0, whose true sums do
    not decrease; `auto` where all queries share one draw."""
    wanted = how.workload.options.isotonic
    allowed = wanted == "on" or (wanted == "auto" and how.workload.options.method != "sqm")
    return allowed and how.workload.prefixes and len(how.workload.distinct.rows) > 1


def _shown(found: Answers, how: Batch) -> tuple[Array, Array, Array]:
    """(Answers, lows, highs) of the queries as they were asked; put in order by their thresholds where `smooths`."""
    if not smooths(how):
        return found.totals, found.totals - found.margins, found.totals + found.margins
    order = np.argsort([float(high or 0) for _, high in how.workload.edges], kind="stable")
    ascending = Answers(found.totals[order], found.deviations[order], found.margins[order], None)
    answers = _smoothed(ascending)
    lows, highs = in_order(ascending, answers)
    back = np.argsort(order)
    return answers[back], lows[back], highs[back]


def _smoothed(found: Answers) -> Array:
    """Isotonic regression, of queries by ascending thresholds."""
    return smoothed(found.totals, 1 / np.square(np.maximum(found.deviations, FLOOR * found.deviations.max() or 1)))


def in_order(found: Answers, shown: Array) -> tuple[Array, Array]:
    """(Lows, highs) of answers that were put in order, from margins that hold for all queries at once.

    The true sums do not decrease. Where all bars hold, a sum is at least every low before it and at most every high
    behind it: so the lows' running maximum and the highs' running minimum hold too, with the same probability, and no
    end is further out than it was. Where the two cross some bar did not hold, and the ends are the outer ones of both.
    The answer that is shown is inside always; neither ends nor answers decrease. Source: sum-workloads.md §10.
    """
    lows = np.maximum.accumulate(found.totals - found.margins)
    highs = np.minimum.accumulate((found.totals + found.margins)[::-1])[::-1]
    return np.minimum(np.minimum(lows, highs), shown), np.maximum(np.maximum(lows, highs), shown)


def smoothed(totals: Array, weights: Array) -> Array:
    """The nearest values that do not decrease, by least squares of these weights above 0: of each value's noise, which
    is public, 1 / variance (§10)."""
    if not (np.diff(totals) < 0).any():
        return totals
    # Pool adjacent violators. Not scipy's: importing that takes a third of a second of a session's first workload.
    means: list[float] = []
    masses: list[float] = []
    lengths: list[int] = []
    for value, weight in zip(totals.tolist(), weights.tolist(), strict=True):
        mean, mass, length = value, weight, 1
        while means and means[-1] >= mean:
            before, more = means.pop(), masses.pop()
            mean, mass = (before * more + mean * mass) / (more + mass), more + mass
            length += lengths.pop()
        means.append(mean)
        masses.append(mass)
        lengths.append(length)
    return np.asarray(np.repeat(means, lengths))


def _text(value: float | None, step: Fraction, digits: int | None = None) -> str | None:
    """A value in lattice units as decimal text, rounded to the lattice (or to so many more digits)."""
    if value is None or not math.isfinite(value):
        return None
    number, parts = (round(value), 1) if digits is None else (round(Fraction(value) * 10**digits), 10**digits)
    return format((Decimal(number * step.numerator) / Decimal(parts * step.denominator)).normalize(), "f")


def errors(how: Batch, theta: int) -> dict[str, list[float]]:
    """Per candidate, the predicted standard deviation of every query's noise; none for very many queries."""
    if len(how.workload.rows) > MOST_SHOWN:
        return {}
    step, scale = float(how.workload.lattice.step), variance(how.amount, gaussian=how.gaussian)
    found: dict[str, list[float]] = {}
    for one in designs(how.workload, theta, gaussian=how.gaussian):
        deviations = np.sqrt(one.factors * scale) * how.spread * step
        found.setdefault(one.name, [float(f"{value:.4g}") for value in deviations])
    alone = np.sqrt(separate(how.workload, theta, gaussian=how.gaussian) * scale) * how.spread * step
    return {**found, ALONE: [float(f"{value:.4g}") for value in alone]}


def facts(how: Batch, theta: int, chosen: str | None) -> dict[str, Any]:
    """What is told of a workload: theta, strategy, budgets, predicted error of every candidate at that theta."""
    step = float(how.workload.lattice.step)
    found, best = find(how.workload, theta, gaussian=how.gaussian), how.best(theta)
    wide = variance(how.amount, gaussian=how.gaussian)
    alone = mean_variance(how.workload, separate(how.workload, theta, gaussian=how.gaussian))
    name = chosen or best.name
    means = {**found.variances, ALONE: alone}
    drawn = best if name == best.name else how.identity(theta)  # in the place of what did not survive the lattice
    means.setdefault(name, mean_variance(how.workload, drawn.factors))
    if name == drawn.name:
        with suppress(DPError):  # a method named by hand that does not survive: told as it is predicted
            rounded = how.drawn_factors(drawn)
            if rounded is not drawn.factors:
                means[name] = mean_variance(how.workload, rounded)
    errors = {name: float(f"{math.sqrt(mean * wide) * how.spread * step:.4g}") for name, mean in means.items()}
    return {
        "theta": float(theta * step),
        "theta_by": how.threshold.kind,
        "strategy": name,
        "data": best.columns.data,
        "queries": len(how.workload.rows),
        "isotonic": smooths(how),
        "blocks": how.workload.blocks,
        "groups": how.groups,
        "threshold_budget": str(how.threshold.epsilon or 0),
        "answers_budget": str(how.rho if how.rho is not None else how.epsilon),
        "expected_rmse": errors[name],
        "candidates": [
            {"strategy": name, "expected_rmse": errors[name]} for name in sorted(errors, key=errors.__getitem__)
        ],
    }
