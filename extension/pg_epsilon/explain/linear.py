"""Margins of weighted sums of counts and sums, each rule a function of what it may miss.

A term is a coefficient (weight times step) and a cell; margins are in units of the value. The noise
of the cells is independent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from pg_epsilon.explain import laplace
from pg_epsilon.explain.forms import Cell
from pg_epsilon.explain.quantiles import all_weights, sidak, studentised_range, two_sided

Term = tuple[Fraction, Cell]

PAIRS_SHARE, CELLS_SHARE, WEIGHTS_SHARE = 0.5, 0.25, 0.25
"""Of 1 - confidence: what pairs, single cells and all weights of Gaussian cells may miss."""

LAPLACE_SHARE = 0.5
"""Of Laplace cells: what pairs may miss, and what single cells may."""

INTEGER = 10**12
"""Integers that a convolution has at most for coefficients."""

BOUND = "convolution (bound)"
"""The rule's name where the convolution was not added up."""


def deviation(terms: Sequence[Term]) -> float:
    """sqrt(sum (a sigma)^2) of Gaussian cells."""
    return math.hypot(*(float(a) * cell.noise.scale for a, cell in terms))


def steps(terms: Sequence[Term]) -> float:
    """sum |a| times half a step: discrete noise on coarse grids under-covers without it."""
    return float(sum(abs(a) * cell.noise.half_step for a, cell in terms))


def normal(terms: Sequence[Term], miss: float) -> float:
    """z sqrt(sum (a sigma)^2) and half steps: one question, fixed beforehand (dpxplain.md §5.1)."""
    return two_sided(miss) * deviation(terms) + steps(terms)


def studentised(terms: Sequence[Term], miss: float, groups: int) -> float:
    """All differences of two of so many Gaussian cells hold at once (dpxplain.md §5.5)."""
    return studentised_range(miss, groups) / math.sqrt(2) * deviation(terms) + steps(terms)


def any_weights(terms: Sequence[Term], miss: float, groups: int) -> float:
    """All weighted sums of so many Gaussian cells hold at once: the root of their chi-square."""
    return all_weights(miss, groups) * deviation(terms) + steps(terms)


def cell_by_cell(terms: Sequence[Term], miss: float) -> float:
    """sum |a| times each cell's own margin, of cells that may miss with `miss` each."""
    return math.fsum(abs(float(a)) * cell.noise.margin(miss) for a, cell in terms)


def convolution(terms: Sequence[Term], miss: float) -> tuple[float, bool]:
    """By the law of the sum of all draws of Laplace cells, and whether it is exact.

    Coefficients whose common denominator, or whose integers, are above INTEGER have a bound.
    """
    scales = tuple(cell.noise.scale for _, cell in terms)
    common = math.lcm(*(a.denominator for a, _ in terms))
    if common > INTEGER or max(abs(a) for a, _ in terms) * common > INTEGER:
        return laplace.bound(scales, [float(a) for a, _ in terms], miss), False
    t, exact = laplace.combination(scales, tuple(int(a * common) for a, _ in terms), miss)
    return t / common, exact


def is_pair(terms: Sequence[Term]) -> bool:
    """A multiple of the difference of two cells."""
    return len(terms) == 2 and terms[0][0] == -terms[1][0]


def cell_miss(is_gaussian: bool, miss: float, groups: int) -> float:
    """What one of so many cells of one aggregate may miss, within the promise of that aggregate."""
    if groups == 1:
        return miss
    return sidak(miss * CELLS_SHARE, groups) if is_gaussian else miss * LAPLACE_SHARE / groups


def margin(terms: Sequence[Term], miss: float, groups: int | None) -> tuple[float, str]:
    """The margin of one question about counts or sums, and the name of its rule.

    miss: in (0, 1), 1 - confidence. groups: None if the question was fixed before the release: then
    it holds for this one question. Otherwise the number of released keys of that aggregate, >=
    len(terms): then everything that may be asked about the aggregate holds at once, whatever is
    asked after looking. That one promise is divided: Gaussian cells ½ : ¼ : ¼ over pairs
    (studentised range), single cells (independent, so Šidák's) and all weights; Laplace cells ½ : ½
    over pairs (each at its share, exact convolution) and single cells, from which all else follows.
    """
    families = {cell.noise.family for _, cell in terms}
    gaussian = families == {"gaussian"}
    if groups is None or groups == 1:
        if len(families) > 1:
            return cell_by_cell(terms, miss / len(terms)), "cell by cell"
        if gaussian:
            return normal(terms, miss), "normal"
        return _named(*convolution(terms, miss))
    if len(families) > 1:
        return cell_by_cell(terms, miss / groups), "cell by cell"
    if is_pair(terms):
        if gaussian:
            return studentised(terms, miss * PAIRS_SHARE, groups), "studentised range"
        return _named(*convolution(terms, miss * LAPLACE_SHARE / (groups * (groups - 1) / 2)))
    if gaussian and len(terms) > 1:
        return any_weights(terms, miss * WEIGHTS_SHARE, groups), "all weights"
    name = "single cells" if len(terms) == 1 else "cell by cell"
    return cell_by_cell(terms, cell_miss(gaussian, miss, groups)), name


def _named(value: float, exact: bool) -> tuple[float, str]:
    return value, "convolution" if exact else BOUND
