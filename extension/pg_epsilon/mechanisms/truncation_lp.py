"""Truncation by linear programming, for result rows that belong to several units: joins that meet, graphs (R2T).

Q(D, t) = max sum of u_k over the result rows k, subject to 0 <= u_k <= value of row k and, for every unit j, the sum
of u_k over the rows that belong to j being at most t. With DISTINCT, rows of one label count once: max sum of v_l
subject to v_l <= sum of u_k over the rows of label l, 0 <= u_k, v_l <= 1, and the same limits of the units.

Q(D, t) never exceeds the true value, equals it once t is the largest unit's contribution, and one unit more or less
changes it by at most t: a solution without the unit is one with it, and the unit's own rows add at most t.

What leaves this module is an integer within a stated distance of Q, proved by weak duality in exact arithmetic,
whatever the solver did: that, and not a solver's tolerance, is what the sensitivity rests on.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pg_epsilon.errors import ReadFailed
from pg_epsilon.mechanisms.r2t_join import GRAIN

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

# Duals are rounded to multiples of 2^-DUAL_BITS; values are integers up to VALUE_MAX: all sums below are exact.
DUAL_BITS = 30
VALUE_MAX = 2**42
_PIECE_BITS, _CHUNK = 14, 1 << 18


@dataclass(frozen=True)
class Problem:
    """Merged result rows. owners: shape (rows, width), dense unit numbers, `units` for nobody; values: shape (rows,),
    integers in [0, VALUE_MAX]; labels: shape (rows,), dense numbers of what DISTINCT counts, or None."""

    owners: Ints
    values: Ints
    units: int
    labels: Ints | None = None


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
        return Problem(rows[:, :-1], np.ones(len(rows), np.int64), len(keys), rows[:, -1])
    rows, place = np.unique(sets, axis=0, return_inverse=True)
    return Problem(rows, _sums(place.reshape(-1), values, len(rows)), len(keys))


def _sums(place: Ints, values: Ints, size: int) -> Ints:
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


class Truncation:
    """Q(D, t) of one problem for falling t: one HiGHS object, only the limits of the units change."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._total = int(problem.values.sum()) if problem.labels is None else _count(problem.labels)
        self._largest = _largest(problem)
        self._duals: list[tuple[Ints, Ints]] = []
        self._solver: Any = None

    def value(self, t: int, need: int | None = None) -> int | None:
        """An integer v, GRAIN Q(D, t) - 1 < v <= GRAIN Q(D, t) + t; None if v < need is proved before v is known.

        t: an integer of at least 1, in units of the values. Errors: ReadFailed.
        """
        if t >= self._largest:
            return self._total * GRAIN
        if need is not None and any(self._bound(dual, t) < need for dual in self._duals):
            return None
        solver = self._prepared(t)
        # The solver may stop once its own bound is clearly too low; what it had by then must prove it.
        solver.setOptionValue("objective_bound", _stop(need))
        solver.run()
        dual = self._rounded(solver.getSolution().row_dual)
        if need is not None and self._bound(dual, t) < need:
            self._duals.append(dual)
            return None
        if solver.getModelStatus() != _status("kOptimal"):
            solver.setOptionValue("objective_bound", float("inf"))
            solver.run()
            dual = self._rounded(solver.getSolution().row_dual)
        self._duals.append(dual)
        bound = self._bound(dual, t)
        reached = self._reached(np.asarray(solver.getSolution().col_value), t)
        if bound > GRAIN * reached + t:
            raise ReadFailed  # the solver's answer is not as near to the optimum as it must be
        return bound

    def _bound(self, dual: tuple[Ints, Ints], t: int) -> int:
        """floor(GRAIN b) for the bound b >= Q(D, t) of weak duality, which holds for any non-negative dual; exact."""
        limits, links = dual
        one = 1 << DUAL_BITS
        problem = self._problem
        padded = np.append(limits, np.int64(0))
        costs = one if problem.labels is None else links[problem.labels]
        reduced = np.maximum(costs - padded[problem.owners].sum(axis=1), 0)
        total = t * int(limits.sum()) + _dot(problem.values, reduced)
        if problem.labels is not None:
            total += int(np.maximum(one - links, 0).sum())
        return (total * GRAIN) >> DUAL_BITS

    def _rounded(self, row_dual: Any) -> tuple[Ints, Ints]:
        """HiGHS's duals of a minimum are at most 0 on upper limits: negated, cut to [0, 1], on the grid."""
        dual = np.clip(-np.asarray(row_dual, np.float64), 0.0, 1.0)
        dual = np.where(np.isfinite(dual), dual, 0.0)
        whole = np.rint(dual * (1 << DUAL_BITS)).astype(np.int64)
        return whole[: self._problem.units], whole[self._problem.units :]

    def _reached(self, values: Floats, t: int) -> Fraction:
        """A value that a feasible solution near the solver's has: at most Q(D, t), also counting rounding of floats."""
        problem = self._problem
        rows = len(problem.values)
        flow = np.clip(np.nan_to_num(values[:rows]), 0.0, problem.values)
        load = _loads(problem, flow)
        safe = 1 + (rows + 8) * 2.0**-52
        scale = min(1.0, t / (float(load.max(initial=0.0)) * safe)) if load.any() else 1.0
        if problem.labels is None:
            return Fraction(float(flow.sum()) * scale / safe)
        reached = np.bincount(problem.labels, weights=flow, minlength=len(values) - rows)
        return Fraction(float(np.minimum(reached * scale, 1.0).sum()) / safe)

    def _prepared(self, t: int) -> Any:
        units = self._problem.units
        if self._solver is None:
            self._solver = _model(self._problem, t)
        else:
            self._solver.changeRowsBounds(
                units, np.arange(units, dtype=np.int32), np.full(units, -np.inf), np.full(units, float(t))
            )
        return self._solver


def _count(labels: Ints) -> int:
    return int(labels.max()) + 1 if len(labels) else 0


def _loads(problem: Problem, flow: Floats) -> Floats:
    """What each unit's rows carry together."""
    load = np.zeros(problem.units + 1)
    for column in problem.owners.T:
        load += np.bincount(column, weights=flow, minlength=problem.units + 1)
    return load[:-1]


def _largest(problem: Problem) -> int:
    """A t from which on nothing is truncated: the largest unit's contribution (for labels: its rows)."""
    return int(np.ceil(_loads(problem, problem.values.astype(np.float64)).max(initial=0.0) * (1 + 2.0**-20)))


def _dot(values: Ints, weights: Ints) -> int:
    """The exact sum of products of integers below 2^42 and 2^30: in pieces of 14 bits no partial sum overflows."""
    total = 0
    for start in range(0, len(values), _CHUNK):
        part, weight = values[start : start + _CHUNK], weights[start : start + _CHUNK]
        for shift in range(0, VALUE_MAX.bit_length(), _PIECE_BITS):
            piece = (part >> shift) & ((1 << _PIECE_BITS) - 1)
            total += int((piece * weight).sum()) << shift
    return total


def _stop(need: int | None) -> float:
    """The solver minimises -Q: it may stop when its lower bound passes -need/GRAIN, and a little more."""
    return float("inf") if need is None else -(need / GRAIN) + 1e-6 * (1.0 + abs(need) / GRAIN)


def _status(name: str) -> Any:
    import highspy

    return getattr(highspy.HighsModelStatus, name)


def _model(problem: Problem, t: int) -> Any:
    """The linear program of a problem in HiGHS: deterministic, quiet, dual simplex without presolve."""
    import highspy

    rows, width = problem.owners.shape
    real = problem.owners < problem.units
    entries = [real.sum(axis=1)]
    if problem.labels is None:
        index, coefficient = problem.owners[real], np.ones(int(real.sum()))
        cost, upper, limits = np.full(rows, -1.0), problem.values.astype(np.float64), np.full(problem.units, float(t))
    else:
        labels = _count(problem.labels)
        links = problem.units + problem.labels[:, None]
        everyone = np.hstack([problem.owners, links])
        taken = np.hstack([real, np.ones((rows, 1), bool)])
        signs = np.hstack([np.ones((rows, width)), np.full((rows, 1), -1.0)])
        index = np.concatenate([everyone[taken], problem.units + np.arange(labels)])
        coefficient = np.concatenate([signs[taken], np.ones(labels)])
        entries = [entries[0] + 1, np.ones(labels, np.int64)]
        cost = np.concatenate([np.zeros(rows), np.full(labels, -1.0)])
        upper = np.ones(rows + labels)
        limits = np.concatenate([np.full(problem.units, float(t)), np.zeros(labels)])
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(cost), len(limits)
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = cost, np.zeros(len(cost)), upper
    lp.row_lower_, lp.row_upper_ = np.full(len(limits), -np.inf), limits
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_ = np.concatenate([[0], np.cumsum(np.concatenate(entries))]).astype(np.int32)
    lp.a_matrix_.index_, lp.a_matrix_.value_ = index.astype(np.int32), coefficient
    solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    for option, value in _OPTIONS.items():
        solver.setOptionValue(option, value)
    solver.passModel(lp)
    return solver


_OPTIONS: dict[str, Any] = {
    "output_flag": False,
    "log_to_console": False,
    "presolve": "off",
    "solver": "simplex",
    "simplex_strategy": 1,
    "threads": 1,
    "parallel": "off",
    "random_seed": 0,
    "primal_feasibility_tolerance": 1e-9,
    "dual_feasibility_tolerance": 1e-9,
}
