"""Bounds, bars and alpha~ of releases, over many draws (numeric-release.md §0.0).

`bound_breaks`: the random instances of tests/unit/release/test_mwem_bounds.py and the adversarial
one, twice each: with alpha as small as it may be, and with alpha~ drawn where that is not short.
`coverage`: shares of draws whose bar holds the truth, of one release each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from test_mwem_bounds import PLACES, Instance, adversarial, instance, off

from pg_epsilon import noise
from pg_epsilon.mechanisms.mwem import LATTICE
from pg_epsilon.release.algorithm2 import Algorithm2, Plan
from pg_epsilon.release.answers import Answer, Noise, Sums, counted, summed, sums_of
from pg_epsilon.release.averages import average
from pg_epsilon.release.candidates import Family, histogram
from pg_epsilon.release.decompose import Measure
from pg_epsilon.release.everywhere import Everywhere
from pg_epsilon.release.predicates import Boxes
from pg_epsilon.release.rounds import shares
from pg_epsilon.release.truncation import Rounding, alpha_of, answer_all

Array = np.ndarray[Any, np.dtype[Any]]
ALPHA = Fraction(1, 10)  # epsilon of alpha~
MISS = 0.05
FIRST = 1000  # the first instance's number
STEPS = (-4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0, 8.0)
CELLS = (
    (0, 3, 40, 100, 60, 9, 1, 0),
    (0,) * 8,
    (25, 0, 12, 80, 0, 0, 0, 30),
    (1, 0, 0, 500, 2, 0, 1, 0),
)
SET = (0, 2, 3)  # the classes of the one query


@dataclass(frozen=True)
class Found:
    """Instances; those with something broken; those with alpha~ below the largest error."""

    instances: int
    broken: int
    short: int


def broken(case: Instance, alpha: Fraction) -> bool:
    """Whether an error is above its bound, or a bar does not hold the truth."""
    told = off(case, case.answers(alpha), alpha)
    return any(error > bound or not inside for error, bound, inside in told)


def drawn_alpha(case: Instance) -> Fraction:
    """alpha~ of the instance's data, as a release draws it."""
    sensitivity = case.family.measure.sensitivity
    (worst,) = noise.current().laplace(
        [int(case.alpha * (1 << LATTICE)) - 2],
        l1_sensitivity=sensitivity << LATTICE,
        epsilon=ALPHA,
        label="bench",
    )
    return alpha_of(worst, case.family, sensitivity, ALPHA, PLACES)


def bounds(many: int) -> Found:
    breaks = int(broken(adversarial(), adversarial().alpha))
    short = 0
    for seed in range(FIRST, FIRST + many):
        case = instance(seed)
        alpha, drawn = case.alpha, drawn_alpha(case)
        missed = drawn < alpha
        short += missed
        breaks += broken(case, alpha) or (not missed and broken(case, drawn))
    return Found(many, breaks, short)


def noisy(many: int, gaussian: bool) -> Array:
    """[draw, class, step]: CELLS with production noise of scale 2, resp. deviation 2."""
    unit = 1 << PLACES
    flat = [row * unit for _ in range(many) for cells in CELLS for row in cells]
    source = noise.current()
    if gaussian:
        drawn = source.gaussian(flat, l2_squared=unit**2, rho=Fraction(1, 8), label="bench")
    else:
        drawn = source.laplace(flat, l1_sensitivity=unit, epsilon=Fraction(1, 2), label="bench")
    return np.array(drawn, dtype=float).reshape(many, *np.shape(CELLS)) / unit


def held(many: int, gaussian: bool, column: str) -> float:
    """The share of draws whose bar holds the truth. column: sum, count, avg or every_sum.

    every_sum: all sets of classes at once, as for questions that are not of the grid.
    """
    steps, exact = np.array(STEPS), np.array(CELLS, float)[list(SET)].sum(axis=0)
    how = Noise(2.0, gaussian, 2.0**-PLACES)
    numbers = np.arange(1, 2 ** len(CELLS))
    masks = (numbers[:, None] >> np.arange(len(CELLS)) & 1).astype(float)
    truths = masks @ np.array(CELLS, float) @ steps
    found = 0
    for draw in noisy(many, gaussian):
        own = Sums(draw[list(SET)].sum(axis=0)[None, :], np.array([len(SET)]))
        told: list[Answer]
        if column == "sum":
            told, truth = list(summed(own, STEPS, how, MISS)), exact @ steps
        elif column == "count":
            told, truth = list(counted(own, how, MISS)), exact.sum()
        elif column == "avg":
            ends = (STEPS[0], STEPS[-1])
            told = [average(own.cells[0], steps, len(SET), how, len(CELLS), MISS, ends)]
            truth = exact @ steps / exact.sum()
        else:
            sets = sums_of(draw, [masks], [numbers - 1])
            told, truth = list(summed(sets, STEPS, Everywhere.of(how, len(CELLS)), MISS)), truths
        low, high = np.array([(one.low, one.high) for one in told]).T
        found += bool(((low <= truth) & (truth <= high)).all())
    return found / many


def of_algorithm(many: int, decomposition: Any) -> float:
    """The share of whole releases of Algorithm 2 that have all bars right: eight classes."""
    rng = np.random.default_rng(3)
    low = np.array([(a, b) for a in range(8) for b in range(a + 1, 9)])
    values = tuple(map(Fraction, range(21)))
    measure = Measure(decomposition, Fraction(20), values=values)
    family = Family(measure, Boxes((8,), low[:, :1], low[:, 1:]))
    drawn = zip(rng.integers(0, 8, 300), rng.geometric(0.4, 300), strict=True)
    rows = [(int(c), Fraction(int(g))) for c, g in drawn]
    truth = np.array([float(sum(g for c, g in rows if a <= c < b)) for a, b in low])
    plan = Plan(shares(Fraction(8)), max_rows=1000, rounds=2, sweeps=3, places=PLACES)
    algorithm = Algorithm2(family, plan)
    private, found = histogram(family, rows, PLACES), 0
    for _ in range(many):
        released = algorithm.release(private, noise.current(), "bench")
        alpha = alpha_of(released.worst, family, algorithm.sensitivity, plan.shares.alpha, PLACES)
        rounding = Rounding(PLACES, plan.max_rows)
        told = answer_all(family, algorithm.masses(released), alpha, rounding)
        found += bool(((told.low <= truth) & (truth <= told.high)).all())
    return found / many


def coverage(many: int) -> Iterator[tuple[str, float, int]]:
    """(mechanism:column, share, draws)."""
    shares_of: dict[str, tuple[Callable[[int], float], int]] = {
        "cells:sum": (lambda n: held(n, False, "sum"), 1),
        "cells:count": (lambda n: held(n, False, "count"), 1),
        "cells:avg": (lambda n: held(n, False, "avg"), 5),
        "cells:every_sum": (lambda n: held(n, False, "every_sum"), 1),
        "cells_gaussian:sum": (lambda n: held(n, True, "sum"), 1),
        "cells_gaussian:count": (lambda n: held(n, True, "count"), 1),
        "alg2:sum": (lambda n: of_algorithm(n, "none"), 1),
        "alg2_split:sum": (lambda n: of_algorithm(n, "split"), 1),
    }
    for name, (share, part) in shares_of.items():
        yield name, share(many // part), many // part
