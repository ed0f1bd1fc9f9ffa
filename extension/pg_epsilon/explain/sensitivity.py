"""By how much one row moves an influence, and by how much influences of several predicates apart (dpxplain.md §6.4).

Units: adding or removing one row, of any value within the bounds, to any group. All bounds hold for every predicate
that does not depend on the data, empty groups included. Selections and ranks do not change when all influences move by
one constant, so that only the range of one row's changes counts for them (§0.0).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from pg_epsilon.explain.influence import Kind

Weights = Sequence[Fraction]


def change(kind: Kind, weights: Weights, low: Fraction, high: Fraction) -> Fraction:
    """The most that one row moves an influence (§6.4, tight): for intervals of influences.

    low, high: the clamped value's bounds, in its unit; of averages only their difference counts.
    """
    if kind == "count":
        return _larger_side(weights)
    if kind == "sum":
        return max(sum((max(Fraction(0), s * w * low, s * w * high) for w in weights), Fraction(0)) for s in (1, -1))
    return (high - low) * _total(weights)


def spread(kind: Kind, weights: Weights, low: Fraction, high: Fraction) -> Fraction:
    """The most by which one row's changes of two influences differ (§0.0, Γ): for selections and ranks.

    At most twice `change`.
    """
    twice = 2 * change(kind, weights, low, high)
    if kind == "sum":
        return twice
    if kind == "avg":
        total = _total(weights)
        return (high - low) * max(max(total - abs(w), abs(w)) + total for w in weights)
    if len(weights) == 2 and min(weights) < 0 < max(weights):
        return Fraction(5, 4) * max(abs(w) for w in weights)
    return min(twice, max(_of_counts(weights, w) for w in weights))


def of_the_paper(kind: Kind, weights: Weights, low: Fraction, high: Fraction) -> Fraction:
    """The printed bound of `change`, up to sixteen times larger (Theorem C.3); what is said about the paper uses it."""
    largest = max(abs(low), abs(high))
    return _total(weights) * {"count": Fraction(2), "sum": 2 * largest, "avg": 8 * largest}[kind]


def on_grid(bound: Fraction, steps: Fraction, *, apart: bool = False) -> int:
    """A bound of influences -> of their scores, integers on a grid of `steps` to a unit. apart: a bound by `spread`.

    Rounding moves each of two scores by half a step at most: a change by one step, a difference of changes by two.
    """
    return math.floor(bound * steps) + (2 if apart else 1)


def _total(weights: Weights) -> Fraction:
    return sum((abs(w) for w in weights), Fraction(0))


def _larger_side(weights: Weights) -> Fraction:
    return max(sum((max(s * w, Fraction(0)) for w in weights), Fraction(0)) for s in (1, -1))


def _of_counts(weights: Weights, own: Fraction) -> Fraction:
    """Γ of counts for a row of a group of this weight, oriented so that it is positive."""
    oriented = [w if own > 0 else -w for w in weights]
    c = abs(own)
    more = sum((w for w in oriented if w > 0), Fraction(0))
    less = sum((-w for w in oriented if w < 0), Fraction(0))
    curved = (c + less) ** 2 / (4 * less) if less and less >= c else Fraction(0)
    return max(more - c + max(less, c), max(more, less / 4, curved) + max(more / 4, less - c))
