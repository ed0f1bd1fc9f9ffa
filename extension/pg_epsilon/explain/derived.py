"""An explanation from marginals that were released once: post-processing, free, for any groups and
k (dpxplain.md §0).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import hypot

from pg_epsilon.explain.comparison import Comparison
from pg_epsilon.explain.forms import Cell, Noise
from pg_epsilon.explain.linear import cell_by_cell, normal
from pg_epsilon.explain.marginals import Marginals, Numbers
from pg_epsilon.explain.paid import Misses, Paid, Source, Split, pairs_of


@dataclass(frozen=True)
class Derived(Paid):
    """`Paid`, of the sets of `Marginals` as its sources.

    Promise: with the confidence that is asked for all intervals hold at once, of every predicate,
    every pair of groups, every weights and every k, because they are asked about after looking
    (composition.md §7.3).
    """

    @cached_property
    def miss(self) -> Misses:
        return misses(self.comparison, self.weights, sum(len(one.values[0]) for one in self.sources))


NUMBERS, AVERAGES = 4, 5
"""In how many equal parts what may be missed is divided: pairs, all weights, rows by cell, rows by
group, and of averages those of the groups."""


def misses(comparison: Comparison, weights: Sequence[Fraction], predicates: int, parts: int = NUMBERS) -> Misses:
    """What may be missed by one pair's sum (of other weights: by one cell), by a number of rows of
    a cell, by one of a group (by its average too): one part each of 1 - confidence is that of all
    pairs, of all weights, of rows by cell and of rows by group, and of averages of groups.

    Of groups that were named before anything was released, one pair is asked about. parts: NUMBERS
    or AVERAGES.
    """
    part, groups = (1 - comparison.question.confidence) / parts, comparison.released or len(weights)
    pairs = pairs_of(comparison, weights)
    sums = part / (predicates * (groups if pairs is None else pairs))
    return Misses(*map(float, (sums, part / (predicates * groups), part / groups)))


def half_width(how: Marginals, comparison: Comparison, weights: Sequence[Fraction]) -> float:
    """Half of the interval of the weighted sum of a predicate, in lattice units: a public fact,
    before anything is drawn.

    An influence is that sum times the share s of rows that are left of the smallest group. Of a
    pair of counts its half is about s * this + (1 - s) * (what a number of rows and that of a group
    are known to), because a sum is at most the largest group without the rows that are left of it:
    at most 1.4 times this, and this for predicates that take few rows.
    """
    miss = misses(comparison, weights, len(how.space)).sums
    terms = [(weight, Cell(0, how.value_noise)) for weight in weights]
    return cell_by_cell(terms, miss) if pairs_of(comparison, weights) is None else normal(terms, miss)


def average_half_width(
    how: Marginals, comparison: Comparison, weights: Sequence[Fraction], released: Sequence[tuple[float, float]]
) -> float:
    """`half_width` of averages: of the influence of a predicate that takes few rows. released: of
    each compared group its number of rows and where its average lies between the bounds, 0 to 1.

    What one cell's two integers make of it is the noise of (1 - x) A - x B (averaged.py).
    """
    miss = misses(comparison, weights, len(how.space), AVERAGES).sums
    least = min(rows for rows, _ in released)
    terms = []
    for weight, (rows, x) in zip(weights, released, strict=True):
        one = Noise("gaussian", how.scale * hypot(1 - x, x))
        terms.append((weight * Fraction(least / rows), Cell(0, one)))
    return cell_by_cell(terms, miss) if pairs_of(comparison, weights) is None else normal(terms, miss)


def derived(
    comparison: Comparison, weights: Sequence[Fraction], groups: Sequence[int], k: int, numbers: Numbers
) -> Derived:
    """The explanation of one question. groups: of each compared one, its place among those of the
    release.
    """
    space = numbers.how.space
    splits = tuple(Split(one.name, one.name, one.conditions) for one in space.attributes)
    sources = tuple(
        Source(
            "",
            "",
            tuple(splits[place] for place in subset),
            tuple(numbers.values(run, group) for group in groups),
            tuple(numbers.rows(run, group) for group in groups),
        )
        for run, subset in enumerate(space.subsets)
    )
    totals, pairs = tuple(numbers.total(group) for group in groups), pairs_of(comparison, weights)
    return Derived(comparison, tuple(weights), totals, sources, splits, space.most, space.up_to, k, (), pairs)
