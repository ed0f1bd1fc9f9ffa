"""Multiplicative weights with the exponential mechanism (numeric-release.md §0.0, §3).

A histogram of masses is private; linear queries over its cells, with values in [0, 1], are public.
A round selects the query on which the present weights are worst, measures it, and moves the weights
towards every measurement so far. What is released is integers: the scale, and a query's number and
its noisy answer for each round. The weights are computed from those alone (`replay`):
post-processing.

Private is what is on the lattice: answers to queries are int64 in units of 2^-LATTICE, and the
weights' own answers are quantised before the two are compared. No float depends on a row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple, Protocol

import numpy as np

from pg_epsilon.mechanisms.waiting import check_for_cancel
from pg_epsilon.noise import NoiseSource

Array = np.ndarray[Any, np.dtype[Any]]

LATTICE = 20
"""Query values, answers and measurements are multiples of 2^-20."""

SCORE_BITS = 6
"""Scores are rounded down to multiples of k / 64."""

SWEEPS = 50
_COUNTED = 1 << 24  # scores up to here are counted in an array; beyond it they are sorted
_SPAN = 600.0  # exponents of all steps, up to which no weight leaves the range of doubles
_LEAST = 1e-300


class Support(NamedTuple):
    """Where a query may be not 0: an index into the grid of cells, and its values there.

    values: floats in [0, 1], along the last axis of what is indexed, or of its whole shape.
    """

    where: tuple[Any, ...]
    values: Array


class Queries(Protocol):
    """Linear queries with values in [0, 1] over a grid of cells, and perhaps cells that none sees.

    shape: of the grid; an array of cells is flat, the grid in C order first. evaluate: of masses,
    int64 >= 0 in units of 2^-places whose sum is at most 2^62, the answers to all queries in that
    unit, int64. A mass of 2^places that is added to one cell must move each by at most 2^places.
    """

    @property
    def count(self) -> int: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    def evaluate(self, masses: Array) -> Array: ...
    def support(self, query: int) -> Support: ...


class Measured(NamedTuple):
    """What a round releases: the query's number, and its noisy answer in units of 2^-LATTICE."""

    query: int
    value: int


@dataclass(frozen=True)
class Setting:
    """How a round is made; all public.

    eps0: what a round costs, half for the selection, half for the measurement. sensitivity: k, how
    far one unit moves any query (of users: kappa times as far as a row). places: masses are in
    units of 2^-places, at least 2^-LATTICE. sweeps: over all measurements, after each of them.
    """

    eps0: Fraction
    sensitivity: int
    places: int
    sweeps: int = SWEEPS


class Weights:
    """A weight for each cell, in all `mass`; moved by released measurements alone. Not private.

    The same measurements in the same order give the same weights (of one machine's numpy).
    """

    def __init__(self, queries: Queries, prior: Array, mass: float, sweeps: int = SWEEPS) -> None:
        """prior: of each cell, >= 0, public; a cell of 0 stays empty."""
        self.queries, self.mass, self.sweeps = queries, mass, sweeps
        self.flat = np.array(prior, dtype=np.float64)
        self.grid = self.flat[: math.prod(queries.shape)].reshape(queries.shape)
        self.total = float(self.flat.sum())
        self.span = self._spread()
        self.learned: list[tuple[Support, float]] = []

    def learn(self, measured: Measured) -> None:
        """One step to the new measurement, then `sweeps` sweeps over all, the newest first (§0.0)."""
        self.learned.append((self.queries.support(measured.query), measured.value / (1 << LATTICE)))
        self._step(*self.learned[-1])
        for _ in range(self.sweeps):
            for support, target in reversed(self.learned):
                self._step(support, target)
            self.total = float(self.flat.sum())

    def _step(self, support: Support, target: float) -> None:
        """A(x) becomes A(x) exp(l(x) (target - l A) / 2 mass), rescaled to the mass (§3, line 7)."""
        index, values = support
        part = self.grid[index]
        sums = part if values.ndim > 1 else part.sum(axis=tuple(range(part.ndim - 1)))
        answer = float((sums * values).sum()) * self.mass / self.total
        exponent = (target - answer) / (2 * self.mass)
        self.span += abs(exponent)
        if self.span > _SPAN:
            self._careful(index, values * exponent)
            return
        factors = np.exp(values * exponent)
        self.grid[index] = part * factors
        before, self.total = self.total, self.total + float((sums * (factors - 1)).sum())
        if self.total < before / 2:  # the difference of two large sums
            self.total = float(self.flat.sum())

    def _careful(self, index: tuple[Any, ...], exponents: Array) -> None:
        """The same by logarithms, for weights that may leave the range of doubles.

        None overflows, and what would fall below _LEAST starts from there: it can come back.
        """
        there = self.flat > 0
        logs = np.log(np.maximum(self.cells(), _LEAST))
        grid = logs[: self.grid.size].reshape(self.grid.shape)
        grid[index] += exponents
        logs[~there] = -np.inf
        np.exp(logs - logs.max(), out=self.flat)
        self.total = float(self.flat.sum())
        self.span = self._spread()

    def _spread(self) -> float:
        """How far the logarithm of a weight that is not 0 is from that of all, at most."""
        return math.log(self.total) - math.log(self.flat[self.flat > 0].min())

    def cells(self) -> Array:
        """The weights, floats; their sum is the mass."""
        return self.flat * (self.mass / float(self.flat.sum()))

    def masses(self, places: int) -> Array:
        """The weights in units of 2^-places, int64: the data that are released, and the only ones
        compared.
        """
        return np.rint(self.cells() * float(1 << places)).astype(np.int64)


def replay(queries: Queries, prior: Array, mass: int, measured: Sequence[Measured], sweeps: int = SWEEPS) -> Weights:
    """The weights after these rounds, from released integers alone; mass in units of 2^-LATTICE."""
    weights = Weights(queries, prior, mass / (1 << LATTICE), sweeps)
    for each in measured:
        weights.learn(each)
    return weights


def answers(queries: Queries, masses: Array, places: int) -> Array:
    """The answers to all queries, in units of 2^-LATTICE, rounded down.

    One unit moves each by at most k 2^LATTICE: before rounding it moves by at most that, which is
    an integer, so rounding down does not let it move further.
    """
    return np.asarray(queries.evaluate(masses) >> (places - LATTICE))


def scores(truth: Array, weights: Weights, places: int) -> Array:
    """How far the weights' answers are off, in units of 2^-LATTICE. Private; moves as the truth
    does.
    """
    return np.asarray(np.abs(answers(weights.queries, weights.masses(places), places) - truth))


def floored(errors: Array, sensitivity: int) -> Array:
    """Scores in units of k / 64, rounded down: one unit moves each by at most 64.

    Proof. errors move by at most k 2^LATTICE, that is by 64 divisors; floor(x / d) moves by at most
    64 where x moves by at most 64 d. Coarser units that do not divide k would lose this (¾ k: 1.5
    k).
    """
    return np.asarray(errors // (sensitivity << (LATTICE - SCORE_BITS)))


def select(errors: Array, picked: Sequence[int], setting: Setting, noise: NoiseSource, label: str) -> int:
    """A query with a large error: the exponential mechanism over those that are not picked yet.

    errors: int64 >= 0 in units of 2^-LATTICE, of which one unit moves each by at most k 2^LATTICE.
    Guarantee: eps0 / 2, pure, for adding or removing one unit: `floored` scores are integers that
    move by at most 64, drawn by `noise.select_in_runs` with that sensitivity. picked: public,
    released.
    """
    left = np.ones(len(errors), dtype=bool)
    left[list(picked)] = False
    places = np.flatnonzero(left)
    units = floored(errors[places], setting.sensitivity)
    values, sizes = _runs(units)
    ends = np.cumsum(sizes)

    def name(place: int) -> int:
        """The query at a place of the row: those of one score stand together, in their own order."""
        run = int(np.searchsorted(ends, place, side="right"))
        inside = place - int(ends[run] - sizes[run])
        return int(places[np.flatnonzero(units == values[run])[inside]])

    return name(
        noise.select_in_runs(
            sizes.tolist(),
            values.tolist(),
            sensitivity=1 << SCORE_BITS,
            epsilon=setting.eps0 / 2,
            label=label,
            name=name,
        )
    )


def _runs(units: Array) -> tuple[Array, Array]:
    """The distinct values, ascending, and how many have each."""
    if units.max() < _COUNTED:
        counted = np.bincount(units)
        values = np.flatnonzero(counted)
        return values, counted[values]
    return np.unique(units, return_counts=True)


def one_round(
    weights: Weights,
    truth: Array,
    measured: Sequence[Measured],
    setting: Setting,
    noise: NoiseSource,
    label: str,
) -> Measured:
    """Select a query and measure it; the weights are not moved yet (`learn`).

    truth: `answers` of the private masses. measured: the rounds before, which made these weights.
    Guarantee: eps0-DP, pure, for adding or removing one unit: eps0 / 2 for the selection, and eps0
    / 2 for discrete Laplace noise on one integer that moves by at most k 2^LATTICE. Rounds compose
    adaptively, because the weights are a function of what was released. A measurement outside [0,
    mass] is kept: it is unbiased.
    """
    picked = [each.query for each in measured]
    errors = scores(truth, weights, setting.places)
    query = select(errors, picked, setting, noise, f"{label} pick")
    value = noise.laplace(
        [int(truth[query])],
        l1_sensitivity=setting.sensitivity << LATTICE,
        epsilon=setting.eps0 / 2,
        label=f"{label} measurement",
    )
    return Measured(query, value[0])


def run(
    weights: Weights, truth: Array, rounds: int, setting: Setting, noise: NoiseSource, label: str
) -> list[Measured]:
    """So many rounds, from weights that have learned nothing; they have learned all of them after
    it.

    Guarantee: `rounds` times eps0 (or the better formula that eps0 was made with). At most as many
    rounds as there are queries.
    """
    done: list[Measured] = []
    for turn in range(min(rounds, len(truth))):
        check_for_cancel()
        done.append(one_round(weights, truth, done, setting, noise, f"{label} round {turn + 1}"))
        weights.learn(done[-1])
    return done


def worst(truth: Array, weights: Weights, places: int) -> int:
    """The largest error of all queries, in units of 2^-LATTICE. Private: one unit moves it by at
    most k 2^LATTICE.
    """
    return int(scores(truth, weights, places).max())
