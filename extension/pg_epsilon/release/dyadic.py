"""Sums over ranges of one class attribute from noisy dyadic nodes (numeric-release.md §0.0, §8).

Rows are parted by the size of their value: part i holds those with step(i - 1) < g <= step(i), of
which zero and negative values are in none. Each part has a tree over the classes with nodes of 1,
2, 4, …, 2^(levels - 1) of them; a range is a union of few nodes. Parts are answered together: a row
is in one part, and noise holds for adding or removing it whatever part that is. (The paper's
parallel composition is wrong for replacing a row, which may leave one part and enter another: that
costs twice as much, §13.) All nodes have noise, empty ones included; one release answers every
range.

Two forms. paper: counts at epsilon / 2, and sums of g / step(i) at epsilon / 2. pairs: each row
puts lambda and 1 - lambda on the ends of its part, as in split data; one release at epsilon,
because they are 1 together, of which the count is the sum of both, and the sum of values step(i) A
+ step(i - 1) B.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, NamedTuple

import numpy as np

from pg_epsilon.mechanisms.mwem import LATTICE, Array
from pg_epsilon.noise import NoiseSource
from pg_epsilon.release.ladder import Ladder

Form = Literal["pairs", "paper"]
Range = tuple[int, int]
Z = 2.0
"""A count is few below so many standard deviations of its noise."""


def cover(first: int, last: int, levels: int) -> list[tuple[int, int]]:
    """The fewest nodes (level, number) of 1, 2, …, 2^(levels - 1) classes that make up first …
    last.
    """
    nodes = []
    while first <= last:
        fits = min(levels - 1, (last - first + 1).bit_length() - 1)
        aligned = (first & -first).bit_length() - 1 if first else fits
        level = min(fits, aligned)
        nodes.append((level, first >> level))
        first += 1 << level
    return nodes


def best_levels(ranges: Iterable[Range], classes: int) -> int:
    """l: the number of levels for which the mean of l sqrt(K) over the ranges is least; the fewest
    of such.

    K: the nodes of a range. Noise grows with l, and its deviation with the root of K.
    """
    asked = list(ranges)
    most = max(1, (classes - 1).bit_length() + 1)
    return min(
        range(1, most + 1),
        key=lambda levels: math.fsum(levels * math.sqrt(len(cover(*each, levels))) for each in asked),
    )


def laplace_sum_margin(scale: float, terms: int, beta: float) -> float:
    """t with Pr[|sum of so many Laplace draws of this scale| > t] <= beta (§8.1)."""
    log = math.log(2 / beta)
    return scale * math.sqrt(8) * max(math.sqrt(terms * log), log)


class Parts(NamedTuple):
    """Private sums by [class, part], integers in units of 2^-LATTICE.

    rows: how many, each 2^LATTICE. share: of each row at most 2^LATTICE, rounded down: pairs:
    lambda, the share of the part's upper step; paper: g / step.
    """

    rows: Array
    share: Array


def parts(rows: Iterable[tuple[int, Fraction]], classes: int, steps: Ladder, form: Form) -> Parts:
    """The sums of rows (class, value); values above the top count as it. A database sums them
    itself.
    """
    count, share = (np.zeros((classes, steps.length), dtype=np.int64) for _ in range(2))
    for place, value in rows:
        part = steps.place(value)
        if part is None:
            continue
        low, high = steps.thresholds[part] if form == "pairs" else Fraction(0), steps.steps[part]
        count[place, part] += 1 << LATTICE
        share[place, part] += math.floor((min(value, high) - low) / (high - low) * (1 << LATTICE))
    return Parts(count, share)


@dataclass(frozen=True)
class Trees:
    """Released: of each level, [node, part], two integers of 2^-LATTICE.

    pairs: the masses at the part's upper and at its lower step. paper: rows, and g / step.
    """

    form: Form
    steps: Ladder
    scale: float
    first: tuple[Array, ...]
    second: tuple[Array, ...]

    @property
    def levels(self) -> int:
        return len(self.first)


def release(
    private: Parts,
    steps: Ladder,
    levels: int,
    epsilon: Fraction,
    noise: NoiseSource,
    label: str,
    *,
    form: Form = "pairs",
    kappa: int = 1,
) -> Trees:
    """Noise on every node of every part.

    Guarantee: epsilon-DP, pure, for adding or removing one unit. A row is in one part, and in one
    node of each level. pairs: it puts lambda and 1 - lambda there, 1 in all: L1 sensitivity
    `levels` (kappa times as much for users). paper: 1 in the counts, at most 1 in the sums: levels
    each, at epsilon / 2.
    """
    moved = (kappa * levels) << LATTICE

    def drawn(tables: Sequence[Array], share: Fraction, name: str) -> list[Array]:
        flat = [int(x) for table in tables for x in table.ravel()]
        made = noise.laplace(flat, l1_sensitivity=moved, epsilon=share, label=f"{label} {name}")
        ends = np.cumsum([table.size for table in tables])[:-1]
        return [
            part.reshape(table.shape)
            for part, table in zip(np.split(np.array(made, dtype=np.int64), ends), tables, strict=True)
        ]

    if form == "pairs":
        both = [*_nodes(private.share, levels), *_nodes(private.rows - private.share, levels)]
        found = drawn(both, epsilon, "nodes")
        first, second, share = found[:levels], found[levels:], epsilon
    else:
        share = epsilon / 2
        first = drawn(_nodes(private.rows, levels), share, "counts")
        second = drawn(_nodes(private.share, levels), share, "sums")
    return Trees(form, steps, float(kappa * levels / share), tuple(first), tuple(second))


def _nodes(table: Array, levels: int) -> list[Array]:
    """Of each level: [node, part], the sums of 2^level classes each; the last node may have fewer."""
    classes, width = table.shape
    out = []
    for level in range(levels):
        size = 1 << level
        padded = np.zeros((-(-classes // size) * size, width), dtype=np.int64)
        padded[:classes] = table
        out.append(padded.reshape(-1, size, width).sum(axis=1))
    return out


class RangeAnswer(NamedTuple):
    """nodes: of the range. alpha: what the count above the threshold was compared with."""

    nodes: int
    thr: float
    alpha: float
    answer: float


def answer(trees: Trees, asked: Range, z: float = Z) -> RangeAnswer:
    """The sum of values of the classes first … last, cut at the least step above which few rows are
    (§8).

    Few: at most z standard deviations of that count's own noise. Post-processing.
    """
    nodes = cover(*asked, trees.levels)
    unit = 1.0 / (1 << LATTICE)
    one, two = (sum(table[level][number] for level, number in nodes) * unit for table in (trees.first, trees.second))
    steps = np.array([float(step) for step in trees.steps.steps])
    lower = np.array([float(step) for step in trees.steps.thresholds])
    pairs = trees.form == "pairs"
    counts = one + two if pairs else one
    sums = steps * one + lower * two if pairs else steps * two
    thresholds = (0.0, *steps.tolist())

    def few(place: int) -> float:
        terms = len(nodes) * (len(counts) - place) * (2 if pairs else 1)
        return z * trees.scale * math.sqrt(2 * terms)

    place = next(i for i in range(len(thresholds)) if counts[i:].sum() <= few(i))  # nothing is above the top
    tau = thresholds[place]
    total = float(sums[:place].sum() + tau * counts[place:].sum()) if tau else 0.0
    return RangeAnswer(len(nodes), tau, few(place), total)
