"""Algorithm 2 on the histogram of a family, as a release (numeric-release.md §0.0, §5, §6.2).

Guarantee: epsilon-DP for adding or removing one unit with all it owns: of epsilon a fiftieth buys
the number of rows, a tenth the largest error, the rest the rounds (algorithm2.py); with delta the
rounds, and so all of it, are (epsilon, delta)-DP where that lets each of them cost more (§2). A row is one
unit of mass in its class, split between two steps or at its value, so k = 1; under bits it has as
many units as values have bits, and k is how many of them may be set (decompose.py). What one row
moves, one user moves by as many times as the cap on rows says. Rows of no declared class are left
out by the statement: they move nothing.

What is released: [mass, rounds, worst, weights …], the weights class by class in units of
2^-places. Answers, bars and the weighted table are computed from these integers alone, so that no
double has to come out the same again. Of a release that was stopped after t rounds the second is
~t, the third 0: its largest error was not bought, hence it has no bars (§0.0).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from pg_epsilon.accounting.charges import Charge
from pg_epsilon.errors import OUT_OF_RANGE, DPError
from pg_epsilon.mechanisms.mwem import LATTICE, SWEEPS, Measured, Weights
from pg_epsilon.noise import NoiseSource
from pg_epsilon.release import ask
from pg_epsilon.release.algorithm2 import MOST_WEIGHTS, Algorithm2, Plan, checked_size, places_of
from pg_epsilon.release.candidates import MASS_BITS, Family
from pg_epsilon.release.decompose import Measure, on_lattice
from pg_epsilon.release.ladder import base_of
from pg_epsilon.release.masses import Values
from pg_epsilon.release.predicates import Boxes, Weighted
from pg_epsilon.release.rounds import MOST_ROUNDS, shares
from pg_epsilon.release.sets import Sets, many_of
from pg_epsilon.release.statement import parse
from pg_epsilon.release.truncation import Rounding, alpha_of, answer_all

HEAD = 3  # integers before the weights: mass, rounds, worst
COUNTING_BITS = 40  # of the mass of a row that is counted
MOST_RELEASED = 4_000_000  # integers
MOST_STEPS = 2**34  # updates of single cells, over all rounds and sweeps: some minutes


@dataclass(frozen=True)
class Iterated:
    """The measure of a release by Algorithm 2.

    values: how a row's mass is split; None: rows are counted, each at the value 1.
    """

    algorithm: Algorithm2
    values: Values | None

    @property
    def mechanism(self) -> str:
        return "Algorithm 2 (multiplicative weights)"

    @property
    def width(self) -> int:
        """How many integers are read: one, which is the statement's text."""
        return 1

    def bits_of(self, part: int) -> dict[Fraction, int]:
        """A row's masses by the value that its part stands for; of one without a value as of 0."""
        value = None if self.values is None or part < 0 else (part + self.values.low) * self.values.step
        return on_lattice(self.algorithm.family.measure.masses(value), self.algorithm.places)

    @property
    def dropped(self) -> Fraction:
        """What decomposition may take from a row's value: under bits, of values off their grid."""
        measure = self.algorithm.family.measure
        off = self.values is not None and (self.values.step / measure.base).denominator != 1
        return measure.base if measure.decomposition == ask.BITS and off else Fraction(0)

    @property
    def of_class(self) -> int:
        """Cells of one class."""
        return len(self.algorithm.family.measure.cells)

    @property
    def cells(self) -> int:
        return self.algorithm.family.classes * self.of_class

    @property
    def released(self) -> int:
        return HEAD + self.cells

    def charges(self) -> tuple[Charge, ...]:
        """The rounds are one charge, because their number follows from the bought number of rows."""
        own = self.algorithm.plan.shares
        return (
            Charge.of("laplace", epsilon=own.scale),
            self.algorithm.plan.price(self.algorithm.most_rounds),
            Charge.of("laplace", epsilon=own.alpha),
        )

    def release(self, exact: Sequence[Sequence[Any]], noise: NoiseSource, label: str) -> list[list[int]]:
        """[[mass, rounds, worst, weights …]]; exact: the statement's text."""
        ((text,),) = exact
        algorithm = self.algorithm
        masses = histogram(parse(text or None), self)
        found = algorithm.release(masses, noise, label)
        return [self.weighed(found.mass, found.measured, found.worst, algorithm.weights(found.mass, found.measured))]

    def weighed(self, mass: int, measured: Sequence[Measured], worst: int | None, weights: Weights) -> list[int]:
        """[mass, rounds, worst, weights …]; worst: None of a release that was stopped."""
        rounds = len(measured)
        head = [mass, rounds, worst] if worst is not None else [mass, ~rounds, 0]
        return [*head, *map(int, weights.masses(self.algorithm.places)[:-1])]


def histogram(cube: Iterable[tuple[int, int, int, int]], how: Iterated) -> npt.NDArray[np.int64]:
    """The exact masses, class by class, and 0 in the cell that no query sees. Private.

    A row without a value counts as 0. No cell holds more than 2^MASS_BITS: cutting there moves
    neighbours no further apart.
    """
    found = [0] * (how.cells + 1)
    places = {y: place for place, y in enumerate(how.algorithm.family.measure.cells)}
    bits = how.algorithm.family.measure.decomposition == ask.BITS
    steps = how.values.steps if how.values is not None and not bits else ()
    for place, part, rows, upper in cube:
        if how.values is None:
            own: Sequence[tuple[Fraction, int]] = [(Fraction(1), rows << how.algorithm.places)]
        elif bits:
            own = [(y, mass * rows) for y, mass in how.bits_of(part).items()]
        else:
            split = how.values.masses(part, rows, upper)
            own = [(steps[c] if c < len(steps) else Fraction(0), mass) for c, mass in split]
        for y, mass in own:
            found[place * how.of_class + places[y]] += mass
    return np.array([min(mass, 1 << MASS_BITS) for mass in found], dtype=np.int64)


def predicates_of(family: ask.Family) -> Boxes | Weighted:
    """The different sets of classes that the family's queries read: boxes where all are ranges.

    DP005 where sets that are no ranges have too many classes to be listed.
    """
    sizes, different = tuple(axis.size for axis in family.axes), family.sets.different
    if family.weights is not None:
        return _weighted(family)
    runs = [[_run(mask) for mask in one] for one in different]
    if all(run is not None for one in runs for run in one):
        boxes = np.array(runs, np.int64).reshape(len(different), len(sizes), 2)
        return Boxes(sizes, boxes[:, :, 0], boxes[:, :, 1])
    _check_listed(different, "Use conditions that are ranges (BETWEEN), a coarser grid, or mechanism => 'cells'.")
    rows = [dict.fromkeys(map(int, _classes(one)), Fraction(1)) for one in different]
    return Weighted((family.classes,), rows)


def _check_listed(different: Sequence[Sequence[str]], hint: str) -> None:
    listed = sum(map(many_of, different))
    if listed > MOST_WEIGHTS:
        words = f"the queries read {listed} classes in all, more than {MOST_WEIGHTS}"
        raise DPError(OUT_OF_RANGE, words, hint)


def _weighted(family: ask.Family) -> Weighted:
    """Of queries with weights; each is the fraction that the double is, so that nothing is rounded."""
    sets = family.sets
    _check_listed(sets.different, "Use a coarser grid, or mechanism => 'cells'.")
    fractions: dict[float, Fraction] = {}
    rows = []
    for number, masks in enumerate(sets.different):
        own = zip(_classes(masks).tolist(), weights_of(sets, number).tolist(), strict=True)
        rows.append({place: fractions.setdefault(f, Fraction(f)) for place, f in own if f})
    return Weighted((family.classes,), rows)


def weights_of(sets: Sets, number: int) -> npt.NDArray[np.float64]:
    """Of the classes that a different query reads, ascending, what the rows of each count."""
    many = [mask.count("1") for mask in sets.different[number]]
    if sets.weights is None:
        return np.ones(prod(many))
    shape = [size if place in sets.places else 1 for place, size in enumerate(many)]
    return np.broadcast_to(np.array(sets.weights[number]).reshape(shape), many).ravel()


def _run(mask: str) -> tuple[int, int] | None:
    """(First, last + 1) of a mask whose classes are neighbours; None of another."""
    start, end = max(mask.find("1"), 0), mask.rfind("1") + 1
    return None if "0" in mask[start:end] else (start, end)


def _classes(masks: Sequence[str]) -> npt.NDArray[np.int64]:
    """The numbers of the classes that the masks of all axes hold."""
    found: npt.NDArray[np.bool_] = np.ones((), bool)
    for mask in masks:
        found = found[..., None] & (np.frombuffer(mask.encode(), np.uint8) == ord("1"))
    return np.flatnonzero(found)


def of_family(asked: ask.Family, values: Values | None, epsilon: Fraction, units: int, rows: int) -> Iterated:
    """The measure of a family. units: rows that one unit has at most; rows: of the whole table.

    DP005 for more cells, candidates or classes than can be worked with.
    """
    family, places = universe(asked, values, rows)
    most = checked(asked, family)
    plan = Plan(shares(epsilon), rows, asked.delta, asked.options.rounds, kappa=units, places=places, most=most)
    return Iterated(Algorithm2(family, plan), values)


def universe(asked: ask.Family, values: Values | None, rows: int) -> tuple[Family, int]:
    """The family over its cells, and the bits of a row's mass."""
    if values is None:
        one = Fraction(1)
        measure = Measure("none", one, values=(Fraction(0), one))
        places: int = min(COUNTING_BITS, MASS_BITS - (max(1, rows) - 1).bit_length())
    else:
        step, decomposition = values.step, asked.decomposition
        shown = values.steps if decomposition == "none" else ()
        measure = Measure(decomposition, values.high * step, -values.low * step, base_of(step), shown)
        places = values.bits if decomposition != ask.BITS else places_of(rows, measure.tuples)
    return Family(measure, predicates_of(asked)), places


def checked(asked: ask.Family, family: Family) -> int:
    """How many rounds it may have. DP005 for more cells, candidates, classes or rounds than that."""
    checked_size(family)
    if family.cells > MOST_RELEASED:
        raise DPError(
            OUT_OF_RANGE,
            f"a release of {family.cells} weights is more than {MOST_RELEASED}",
            "Compare fewer columns with parameters, or ask the owner for coarser domains.",
        )
    most = most_rounds(family.cells)
    rounds = asked.options.rounds
    if rounds is not None and rounds > min(most, family.count):
        raise DPError(
            OUT_OF_RANGE,
            f"a family of {family.cells} cells and {family.count} candidates has at most"
            f" {min(most, family.count)} rounds",
            "Leave out rounds: their number is chosen.",
        )
    return most


def most_rounds(cells: int) -> int:
    """How many rounds a family of so many cells may have, so that its updates end: public.

    After round t all t measurements are swept over SWEEPS times, each through all cells at most.
    """
    rounds = MOST_ROUNDS
    while rounds > 1 and rounds * (rounds + 1) // 2 * SWEEPS * cells > MOST_STEPS:
        rounds -= 1
    return rounds


def rows(raw: Sequence[int], how: Iterated, asked: ask.Family, miss: Fraction) -> list[list[Any]]:
    """Of each query of the grid: answer, None, low, high, below_resolution (nothing is unbiased).

    All bars hold at once but with probability `miss`. Of a release that was stopped no error is
    known: nothing is cut off, there are no bars, and nothing is known to be above the resolution.

    Thresholds are chosen by alpha~ at its own beta (§0.0), so that no answer depends on `miss`.
    """
    algorithm, plan = how.algorithm, how.algorithm.plan
    masses = np.array([*map(int, raw[HEAD:]), 0], dtype=np.int64)
    stopped = is_stopped(raw)
    found = answer_all(
        algorithm.family,
        masses,
        Fraction(0) if stopped else alpha(raw, how),
        Rounding(algorithm.places, plan.max_rows, how.dropped),
        share=asked.options.share,
        sure=Fraction(0) if stopped else alpha(raw, how, miss),
    )
    if stopped:
        answers = found.answer.tolist()
        return [[answers[number], None, None, None, True] for number in asked.sets.of]
    ends = zip(found.low.tolist(), found.high.tolist(), strict=True)
    each = zip(found.answer.tolist(), ends, found.below_resolution.tolist(), strict=True)
    shown = [[value, None, *end, below] for value, end, below in each]
    return [shown[number] for number in asked.sets.of]


def description(how: Iterated, asked: ask.Family) -> dict[str, Any]:
    """What is stored beside the integers, for the weighted table (shown.py).

    Weights have no noise of their own: all that show are in the table.
    """
    bits = how.algorithm.family.measure.decomposition == ask.BITS
    return {
        **({"mechanism": ask.BITS} if bits else {}),
        "classes": [[axis.name, list(axis.key.domain)] for axis in asked.axes],
        "values": [str(one) for one in how.algorithm.family.measure.cells],
        "whole": 1 << how.algorithm.places,
        "deviation": 0,
        "head": HEAD,
    }


def alpha(raw: Sequence[int], how: Iterated, miss: Fraction | None = None) -> Fraction:
    """alpha~, in rows: no candidate is off by more, but with probability `miss` (1/20)."""
    algorithm = how.algorithm
    given = {} if miss is None else {"beta": miss}
    own = algorithm.plan.shares.alpha
    return alpha_of(int(raw[2]), algorithm.family, algorithm.sensitivity, own, algorithm.places, **given)


def is_stopped(raw: Sequence[int] | npt.NDArray[np.int64]) -> bool:
    """Whether the release ended before all of its rounds."""
    return int(raw[1]) < 0


def told(how: Iterated, asked: ask.Family, raw: Sequence[int] | None) -> tuple[dict[str, Any], str]:
    """(Facts, a sentence for the NOTICE); raw: what was released, None beforehand."""
    family, plan = how.algorithm.family, how.algorithm.plan
    found: dict[str, Any] = {
        "classes": family.classes,
        "cells": how.cells,
        "candidates": family.count,
    }
    words = [
        f"{asked.name}: {len(asked.grid)} queries by Algorithm 2 from {how.cells} weights of {family.classes} classes"
    ]
    if raw is None:
        found["rounds"] = plan.rounds or f"at most {how.algorithm.most_rounds}"
        words.append(f"{family.count} candidates, {found['rounds']} rounds")
    else:
        words += _told_afterwards(how, raw, found)
    if raw is None or not is_stopped(raw):
        words.append("all bars hold at once")
    return found, "; ".join([*words, "rows of no declared class are in none"])


def _told_afterwards(how: Iterated, raw: Sequence[int], found: dict[str, Any]) -> list[str]:
    """What is said of released integers; adds the facts."""
    mass, done = map(int, raw[:2])
    rows = mass / (how.algorithm.family.measure.tuples << LATTICE)
    found["rows"] = float(f"{rows:.6g}")
    if is_stopped(raw):
        whole = how.algorithm.rounds(mass)
        found |= {"rounds": ~done, "stopped": whole}
        return [f"stopped after {~done} of {whole} rounds over about {rows:.0f} rows", "hence no answer has a bar"]
    off = float(alpha(raw, how))
    found |= {"rounds": done, "alpha": float(f"{off:.6g}")}
    return [
        f"{done} rounds over about {rows:.0f} rows",
        f"no number of rows is off by more than {off:.4g} (probability 0.95)",
    ]
