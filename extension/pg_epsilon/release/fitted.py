"""Weights fitted to a family's own queries: normalisation, global truncation (numeric-release.md §10).

Both are multiplicative weights over the split histogram, as Algorithm 2, but they ask each query as
one number in [0, 1] alone: no threshold, no alpha~. Normalisation divides a value by the largest
that has a cell (§10.1). Global truncation first buys one bound of all values, and cuts at it
(§10.3): where few values are large its noise is that of the others, and what is cut is missing. A
query's weights of classes, from 0 to 1, count after the cut, so that the published table shows it.

Guarantee: epsilon-DP for adding or removing one unit with all it owns, kappa rows at most: a
fiftieth of epsilon buys the number of rows, of global truncation a tenth the bound (radius.py), the
rest the rounds, with delta by advanced composition (§2) as (epsilon, delta)-DP. A row is one unit of
mass, so it moves each query by 1; it moves the number of rows above each step by 1, all of them up.

What is released: [mass, rounds, place of the bound, weights …]. Weights beyond the bound are moved
to it, so that an answer is the sum of value times weight, here as in the published table. How far
it is off is not measured: there are no bars.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from pg_epsilon.accounting.charges import Charge
from pg_epsilon.mechanisms.mwem import LATTICE
from pg_epsilon.noise import NoiseSource
from pg_epsilon.release import ask, baselines, iterated
from pg_epsilon.release.algorithm2 import Algorithm2, Plan
from pg_epsilon.release.answers import sums_of, weighing
from pg_epsilon.release.iterated import HEAD, Iterated
from pg_epsilon.release.ladder import Ladder
from pg_epsilon.release.masses import Values
from pg_epsilon.release.radius import private_radius
from pg_epsilon.release.rounds import SHARE_SCALE
from pg_epsilon.release.singly import sets_of
from pg_epsilon.release.statement import parse

_MECHANISMS = {
    ask.NORMALISATION: "normalisation (multiplicative weights)",
    ask.GLOBAL: "global truncation (multiplicative weights)",
}


@dataclass(frozen=True)
class Fitted:
    """The measure of a release by normalisation or by global truncation.

    own: cells, plan, and the queries as normalisation asks them. radius: the epsilon of a bound for
    all values; 0: the declared one is it. name: the mechanism's.
    """

    own: Iterated
    radius: Fraction
    name: str

    @property
    def mechanism(self) -> str:
        return _MECHANISMS[self.name]

    @property
    def width(self) -> int:
        """One text: the cube."""
        return 1

    @property
    def released(self) -> int:
        return self.own.released

    @property
    def steps(self) -> Ladder | None:
        """What a bound is chosen from; None: rows are counted."""
        values = self.own.values
        return None if values is None else steps_of(values)

    def charges(self) -> tuple[Charge, ...]:
        """The rounds are one charge, because their number follows from the bought number of rows."""
        shares, half = self.own.algorithm.plan.shares, self.radius / 2
        found = [Charge.of("laplace", epsilon=shares.scale)]
        if self.radius:
            found.append(Charge.of("above_threshold", threshold_epsilon=half, query_epsilon=half))
        return (*found, self.own.algorithm.plan.price(self.own.algorithm.most_rounds))

    def release(self, exact: Sequence[Sequence[Any]], noise: NoiseSource, label: str) -> list[list[int]]:
        """[[mass, rounds, place of the bound, weights …]]; exact: the statement's text."""
        ((text,),) = exact
        cube = list(parse(text or None))
        family, plan, radius = self.own.algorithm.family, self.own.algorithm.plan, None
        if self.radius and (steps := self.steps) is not None:
            counts = above(cube, self)
            word = f"{label} bound"
            radius = private_radius(counts, steps, self.radius, noise, word, kappa=plan.kappa)
            family = replace(baselines.truncated(family, radius).family, cap=radius)
        algorithm = Algorithm2(family, plan)
        masses = iterated.histogram(cube, self.own)
        mass, done, weights = algorithm.draw_rounds(masses, algorithm.truth(masses), noise, label)
        cells = weights.masses(algorithm.places)[:-1].reshape(-1, self.own.of_class)
        found = cells if radius is None else folded(cells, family.measure.cells, radius)
        place = self.steps.place(radius) if self.steps and radius is not None else None
        return [[mass, len(done), -1 if place is None else place, *map(int, found.ravel())]]


def of_family(asked: ask.Family, values: Values | None, epsilon: Fraction, units: int, rows: int) -> Fitted:
    """The measure of a family. units: rows that one unit has at most; rows: of the whole table.

    Where the ladder has one step, as that of counts, no bound is bought, and the rounds have its
    share. DP005 where there is nothing to ask, and for more cells, queries or classes than can be
    worked with.
    """
    _ = sets_of(asked, values)
    plain, places = iterated.universe(asked, values, rows)
    cut = asked.mechanism == ask.GLOBAL  # whose queries are divided by the bound, once it is bought
    family = replace(plain, only=baselines.whole(plain)) if cut else baselines.normalised(plain).family
    most = iterated.checked(asked, family)
    cuts = cut and values is not None and steps_of(values).length > 1
    part = baselines.SHARE_RADIUS if cuts else Fraction(0)
    shares = baselines.without_alpha(epsilon, SHARE_SCALE, part)
    rounds = asked.options.rounds
    plan = Plan(shares, rows, asked.delta, rounds, kappa=units, places=places, most=most)
    return Fitted(Iterated(Algorithm2(family, plan), values), part * epsilon, asked.mechanism)


def steps_of(values: Values) -> Ladder:
    """The longer ladder of the two signs, which have one base."""
    ladders = [one for one in (values.positive, values.negative) if one is not None]
    return max(ladders, key=lambda one: one.length)


def above(cube: Iterable[tuple[int, int, int, int]], how: Fitted) -> list[int]:
    """Of each step but the last, the rows with a value beyond it, of either sign. Private.

    A row's part is the least step that is not below its value. Rows of classes that no query reads
    do not count, nor do more than the table may have: cutting there moves neighbours no further
    apart.
    """
    values, steps = how.own.values, how.steps
    if values is None or steps is None:
        return []
    seen = baselines.most_of_class(how.own.algorithm.family)
    at = [0] * steps.length
    for place, part, rows, _ in cube:
        if part >= 0 and part != values.zero and seen[place]:
            at[abs(part - values.zero) - 1] += rows
    most = how.own.algorithm.plan.max_rows
    return [min(sum(at[number + 1 :]), most) for number in range(steps.length - 1)]


def folded(cells: npt.NDArray[np.int64], values: Sequence[Fraction], radius: Fraction) -> npt.NDArray[np.int64]:
    """[class, value]: what lies beyond the radius is at it. Post-processing."""
    found = np.zeros_like(cells)
    places = {y: place for place, y in enumerate(values)}
    for place, y in enumerate(values):
        found[:, places[max(-radius, min(radius, y))]] += cells[:, place]
    return found


def rows(raw: Sequence[int], how: Fitted, asked: ask.Family, miss: Fraction) -> list[list[Any]]:
    """Of each query of the grid: answer, and no more: nothing is unbiased, and nothing has a bar."""
    algorithm = how.own.algorithm
    sizes = [axis.size for axis in asked.axes]
    cells = np.array([int(one) for one in raw[HEAD:]], np.float64).reshape(*sizes, how.own.of_class)
    bits = [np.array([[float(bit) for bit in mask] for mask in one.different]) for one in asked.masks]
    own = None if asked.weights is None else weighing(asked.weights, sizes)
    sums = sums_of(cells, bits, [np.array(one.of, np.int64) for one in asked.masks], own)
    found = sums.cells @ np.array([float(y) for y in algorithm.family.measure.cells])
    return [[one, None, None, None, False] for one in (found * 2.0**-algorithm.places).tolist()]


def description(how: Fitted, asked: ask.Family) -> dict[str, Any]:
    """What is stored beside the integers, for the weighted table (shown.py)."""
    return iterated.description(how.own, asked)


def told(how: Fitted, asked: ask.Family, raw: Sequence[int] | None) -> tuple[dict[str, Any], str]:
    """(Facts, a sentence for the NOTICE); raw: what was released, None beforehand."""
    family, plan, steps = how.own.algorithm.family, how.own.algorithm.plan, how.steps
    facts: dict[str, Any] = {
        "classes": family.classes,
        "cells": how.own.cells,
        "candidates": family.count,
    }
    words = [f"{asked.name}: {len(asked.grid)} queries from {how.own.cells} weights of {family.classes} classes"]
    if raw is None:
        facts["rounds"] = plan.rounds or f"at most {min(plan.most, family.count)}"
        words.append(f"{family.count} candidates, {facts['rounds']} rounds")
    else:
        many = int(raw[0]) / (1 << LATTICE)
        facts |= {"rounds": int(raw[1]), "rows": float(f"{many:.6g}")}
        words.append(f"{raw[1]} rounds over about {many:.0f} rows")
        if how.radius and steps is not None:
            bound = steps.steps[int(raw[2])]
            facts["bound"] = float(bound)
            words.append(f"values are cut at {Decimal(bound.numerator) / bound.denominator:f}")
    words += ["no error bars: nothing is measured of how far an answer is off"]
    return facts, "; ".join([*words, "rows of no declared class are in none"])


def answer(cells: npt.NDArray[np.int64], values: Sequence[Fraction], whole: int) -> float:
    """One query's, from the released weights of its classes ([class, value]); whole: of a row."""
    sums = cells.sum(axis=0, dtype=np.float64)
    return math.fsum(sums * np.array([float(y) for y in values])) / whole
