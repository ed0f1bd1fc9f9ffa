"""Merged result rows, and exact bounds of their linear program from whatever a solver said.

Q(D, t) = max sum of u_k over the result rows k, subject to 0 <= u_k <= value of row k and, for every unit j, the sum
of u_k over the rows that belong to j being at most t. With DISTINCT, rows of one label count once: max sum of v_l
subject to v_l <= sum of u_k over the rows of label l, 0 <= u_k, v_l <= 1, and the same limits of the units.

Any non-negative numbers y_j (and z_l in [0, 1]) give an upper bound by weak duality, any numbers u_k give a lower one
once they are cut down to a feasible solution. Both are computed in integers, so they hold whatever the numbers were:
a bad solver's bounds are wide, never wrong, and no input raises an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

# Values are cut here (query/owners.py does it in SQL): sums of a row's value fit.
VALUE_MAX = 2**42
# Duals are rounded up to multiples of 2^-b. A solver's "1/3" below 1/3 by less than 2^-b is then at least 1/3, and
# three of them at least 1. The finer grid costs less, the coarser one forgives more: the better bound counts.
DUAL_BITS = (40, 28)
_HALF, _CHUNK = 20, 1 << 18


@dataclass(frozen=True, eq=False)
class Problem:
    """Merged result rows. owners: shape (rows, width), dense unit numbers ascending, `units` for nobody, who comes
    last; values: shape (rows,), integers in [0, VALUE_MAX]; labels: shape (rows,), dense numbers of what DISTINCT
    counts, or None."""

    owners: Ints
    values: Ints
    units: int
    labels: Ints | None = None

    @property
    def labels_count(self) -> int:
        return int(self.labels.max()) + 1 if self.labels is not None and len(self.labels) else 0


def merged(owners: Ints, values: Ints, labels: Ints | None = None) -> Problem:
    """Result rows → a problem in which rows of the same owners (and label) are one: it changes no Q(D, t).

    owners: shape (rows, width), unit keys, any integers; a key named twice owns the row once. values >= 0; ignored
    with labels. Variables whose columns are equal can be added up, so merging is exact.
    """
    keys, dense = np.unique(owners, return_inverse=True)
    sets = _as_sets(dense.reshape(owners.shape).astype(np.int64), len(keys))
    if labels is not None:
        numbers = np.unique(labels, return_inverse=True)[1].reshape(-1, 1)
        rows = np.unique(np.hstack([sets, numbers]), axis=0)
        return Problem(
            np.ascontiguousarray(rows[:, :-1]),
            np.ones(len(rows), np.int64),
            len(keys),
            np.ascontiguousarray(rows[:, -1]),
        )
    rows, place = np.unique(sets, axis=0, return_inverse=True)
    return Problem(rows, _merged_values(place.reshape(-1), values, len(rows)), len(keys))


def _merged_values(place: Ints, values: Ints, size: int) -> Ints:
    """Sums by place, saturating at VALUE_MAX: in two halves, so that nothing overflows.

    A set of owners has rows of its own, so no other row's value moves with them.
    """
    half = VALUE_MAX.bit_length() // 2
    high, low = np.zeros(size, np.int64), np.zeros(size, np.int64)
    clamped = np.clip(values, 0, VALUE_MAX)
    np.add.at(high, place, clamped >> half)
    np.add.at(low, place, clamped & ((1 << half) - 1))
    top = VALUE_MAX >> half
    sums: Ints = np.minimum((np.minimum(high, top) << half) + np.minimum(low, VALUE_MAX), VALUE_MAX)
    return sums


def _as_sets(owners: Ints, nobody: int) -> Ints:
    """Each row's owners ascending, without repetitions, filled up with `nobody`."""
    rows = np.sort(owners, axis=1)
    for column in range(1, rows.shape[1]):
        rows[rows[:, column] == rows[:, column - 1], column - 1] = -1
    rows[rows < 0] = nobody
    sets: Ints = np.sort(rows, axis=1)
    return sets


def total(problem: Problem) -> int:
    """The value without truncation: Q(D, t) for t from the largest unit's contribution on."""
    return problem.labels_count if problem.labels is not None else _sum(problem.values)


def largest(problem: Problem) -> int:
    """The largest unit's contribution (for labels: its rows)."""
    low = _loads(problem, problem.values & ((1 << _HALF) - 1))
    high = _loads(problem, problem.values >> _HALF)
    return max(((int(h) << _HALF) + int(k) for h, k in zip(high, low, strict=True)), default=0)


def upper_bound(problem: Problem, t: int, duals: Any, grids: Sequence[int] = DUAL_BITS) -> Fraction:
    """A bound >= Q(D, t) from any numbers: duals of the units' limits, then of the labels' links; float64.

    grids: the best of roundings to these numbers of binary digits.
    """
    clean = np.clip(np.nan_to_num(np.asarray(duals, np.float64), nan=0.0), 0.0, 1.0)
    found = [Fraction(total(problem))]
    for bits in grids:
        limits = np.ceil(clean[: problem.units] * 2.0**bits).astype(np.int64)
        links = np.floor(clean[problem.units :] * 2.0**bits).astype(np.int64)
        found.append(_dual_value(problem, t, limits, links, bits))
    return min(found)


def upper_bound_of_integers(problem: Problem, t: int, duals: list[int], bits: int) -> Fraction:
    """The same from integers, multiples of 2^-bits, as many binary digits as they have."""
    one = 1 << bits
    clean = np.array([min(max(y, 0), one) for y in duals], dtype=object)
    # rounded up by a few units of the last place, so that sums which should be 1 are not below it
    limits = np.minimum(clean[: problem.units] + len(duals), one)
    exact = _dual_value(problem, t, limits, clean[problem.units :], bits)
    return min(Fraction(total(problem)), exact)


def _dual_value(problem: Problem, t: int, limits: Any, links: Any, bits: int) -> Fraction:
    """t sum y + sum min(value_k, t) max(0, 1 - sum of y); labels: z_l for that 1, and sum max(0, 1 - z_l) on top.

    Every row has an owner, so no u_k is above t. All in units of 2^-bits.
    """
    one = 1 << bits
    padded = np.append(limits, limits.dtype.type(0) if limits.dtype != object else 0)
    costs = one if problem.labels is None else links[problem.labels]
    reduced = np.maximum(costs - padded[problem.owners].sum(axis=1), 0)
    value = t * _sum(limits) + _dot(np.minimum(problem.values, t), reduced)
    if problem.labels is not None:
        value += _sum(np.maximum(one - links, 0))
    return Fraction(value, one)


def lower_bound(problem: Problem, t: int, values: Any) -> Fraction:
    """A bound <= Q(D, t) from any numbers: values of the rows' variables (others are ignored); float64."""
    rows = len(problem.values)
    bits = max(0, 62 - rows.bit_length() - t.bit_length())
    if rows.bit_length() + t.bit_length() > 62:
        flow = np.clip(np.nan_to_num(np.asarray(values[:rows], np.float64), nan=0.0), 0.0, float(t))
        return lower_bound_of_integers(problem, t, [int(u) for u in flow], 0)
    flow = np.clip(np.nan_to_num(np.asarray(values[:rows], np.float64), nan=0.0), 0.0, problem.values)
    flow = np.minimum(flow, float(t))
    load = np.zeros(problem.units + 1)
    for column in problem.owners.T:
        load += np.bincount(column, weights=flow, minlength=problem.units + 1)
    load[-1] = 0.0
    factor = np.minimum(1.0, float(t) / np.maximum(load, float(t)) * (1 - 2.0**-45))
    factor[load <= t * (1 - 2.0**-40)] = 1.0
    whole = np.floor(flow * factor[problem.owners].min(axis=1) * 2.0**bits).astype(np.int64)
    return _primal_value(problem, t, whole, bits)


def lower_bound_of_integers(problem: Problem, t: int, values: list[int], bits: int) -> Fraction:
    """The same from integers, multiples of 2^-bits, as many binary digits as they have."""
    tops = problem.values.tolist()
    whole = [min(max(u, 0), min(w, t) << bits) for u, w in zip(values, tops, strict=False)]
    return _primal_value(problem, t, np.array(whole, dtype=object), bits)


def _primal_value(problem: Problem, t: int, flow: Any, bits: int) -> Fraction:
    """The value of a feasible solution at most as large in every row as `flow`, which is in units of 2^-bits.

    Each row gives up what its worst owner is too much by, but not more than it has: then an owner either loses its
    whole excess by one row, or every row of it is 0, or its rows lose more than the excess together.
    """
    flow = np.minimum(flow, _shifted(problem.values, bits, flow.dtype))
    excess = np.maximum(_loads(problem, flow) - (t << bits), 0)
    padded = np.append(excess, excess.dtype.type(0) if excess.dtype != object else 0)
    flow = np.maximum(flow - padded[problem.owners].max(axis=1), 0) if len(flow) else flow
    if problem.labels is None:
        return Fraction(_sum(flow), 1 << bits)
    reached = np.zeros(problem.labels_count, dtype=flow.dtype)
    np.add.at(reached, problem.labels, flow)
    return Fraction(_sum(np.minimum(reached, 1 << bits)), 1 << bits)


def _shifted(values: Ints, bits: int, kind: Any) -> Any:
    """values * 2^bits where it fits, else what is more than any flow."""
    if kind.hasobject:
        return values.astype(object) * (1 << bits)
    return np.minimum(values, (1 << 62) >> bits) << bits


def _loads(problem: Problem, flow: Any) -> Any:
    """What each unit's rows carry together."""
    load = np.zeros(problem.units + 1, dtype=flow.dtype)
    for column in problem.owners.T:
        np.add.at(load, column, flow)
    return load[:-1]


def _sum(values: Any) -> int:
    """The exact sum, whatever its size."""
    if values.dtype == object:
        return int(sum(values.tolist()))
    half = (1 << 31) - 1
    return (int((values >> 31).sum()) << 31) + int((values & half).sum())


def _dot(values: Ints, weights: Any) -> int:
    """The exact sum of products of values up to 2^42 with weights of at most 40 bits, or any integers."""
    if weights.dtype == object:
        return int(sum(v * w for v, w in zip(values.tolist(), weights.tolist(), strict=True)))
    mask, found = (1 << _HALF) - 1, 0
    used = np.flatnonzero(weights)
    for start in range(0, len(used), _CHUNK):
        part, weight = values[used[start : start + _CHUNK]], weights[used[start : start + _CHUNK]]
        for i in range(3):  # 20 + 21 + 18 bits
            for j in range(3):
                product = ((part >> (i * _HALF)) & mask) * ((weight >> (j * _HALF)) & mask)
                found += int(product.sum()) << ((i + j) * _HALF)
    return found
