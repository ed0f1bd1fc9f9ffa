"""Small matrix steps of inference: merged cells, and the nearest tables that have given sums. Public numbers only."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]
Numbers = NDArray[np.int64]

_ROUNDS = 60


def groups(masses: Reals, ordered: bool, least: float) -> Numbers:
    """Cells → groups of at least `least`: neighbours of an ordered variable, all the rare ones of another."""
    found = np.zeros(len(masses), np.int64)
    if not ordered:
        rare = masses < least
        found[~rare] = np.arange(int((~rare).sum()))
        found[rare] = int((~rare).sum())
        return found
    group, held = 0, 0.0
    for cell, mass in enumerate(masses):
        if held >= least:
            group, held = group + 1, 0.0
        found[cell] = group
        held += float(mass)
    if held < least and group:
        found[found == group] = group - 1
    return found


def smoothed(counts: Reals, variance: float) -> Reals:
    """Noisy counts of neighbouring cells, with those that noise alone could tell apart replaced by their mean.

    The cheapest dyadic partition into level pieces, by squared distance plus 2 ln k variances a piece (k cells):
    penalised least squares as in CART. Spikes stand out and stay.
    """
    price = 2 * math.log(max(len(counts), 2)) * variance
    found = counts.copy()

    def best(start: int, end: int) -> float:
        part = counts[start:end]
        level = float(part.mean())
        whole = float(((part - level) ** 2).sum()) + price
        if end - start > 1:
            middle = (start + end) // 2
            if (halves := best(start, middle) + best(middle, end)) < whole:
                return halves
        found[start:end] = level
        return whole

    best(0, len(counts))
    return found


def merged(table: Any, rows: Numbers, columns: Numbers) -> Reals:
    """A table over groups of its rows and columns: the sums."""
    height, width = int(rows.max()) + 1, int(columns.max()) + 1
    cells = (rows[:, None] * width + columns[None, :]).ravel()
    found = np.bincount(cells, np.asarray(table, np.float64).ravel(), height * width)
    return np.asarray(found, np.float64).reshape(height, width)


def sums(masses: Reals, group: Numbers) -> Reals:
    return np.asarray(np.bincount(group, masses), np.float64)


def shifts(rows: Reals, totals: Reals) -> Reals:
    """What is to be taken off all of a row so that its positive parts sum up to the row's total (which is >= 0)."""
    falling = -np.sort(-rows, axis=1)
    rest = np.cumsum(falling, axis=1) - totals[:, None]
    count = np.arange(1, rows.shape[1] + 1)
    last = np.maximum(np.where(falling - rest / count > 0, count, 0).max(axis=1), 1)
    return np.asarray(rest[np.arange(len(rows)), last - 1] / last, np.float64)


def on_simplex(masses: Reals, total: float) -> Reals:
    """The nearest vector without negative parts of this sum, in the sum of squares."""
    return np.maximum(masses - shifts(masses[None, :], np.array([total])), 0.0)


def with_sums(table: Reals, rows: Reals, columns: Reals) -> Reals:
    """The nearest table without negative cells whose rows and columns have these sums (of one total).

    The dual of the projection, by blocks: each step is the exact best shift of all rows, then of all columns. What is
    left of the gap is closed by proportional fitting, from a table that is nowhere quite empty.
    """
    down = np.zeros(len(columns))
    for _ in range(_ROUNDS):
        across = shifts(table - down, rows)
        down = shifts((table - across[:, None]).T, columns)
    found = np.maximum(table - across[:, None] - down, 0.0)
    found += np.outer(rows, columns) * (1e-6 / max(float(columns.sum()), 1e-12))
    for _ in range(_ROUNDS):
        found *= quotient(rows, found.sum(axis=1))[:, None]
        found *= quotient(columns, found.sum(axis=0))
    return found


def quotient(over: Reals, under: Reals) -> Reals:
    """over / under, 0 where nothing is under."""
    return np.divide(over, under, out=np.zeros_like(over), where=under > 0)
