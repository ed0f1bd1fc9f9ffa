"""Small tables of rows in groups, their marginals, and what is true of them (dpxplain.md §0)."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import product

import numpy as np

from pg_epsilon.explain.averaged import Averaged
from pg_epsilon.explain.cells import RECORD, Layout
from pg_epsilon.explain.comparison import Comparison
from pg_epsilon.explain.derived import Derived
from pg_epsilon.explain.influence import Cells, Kind, influences
from pg_epsilon.explain.marginals import Marginals
from pg_epsilon.explain.question import Question
from pg_epsilon.explain.space import Attribute, Space
from pg_epsilon.query.released import Stored

Row = tuple[int, tuple[int, ...], int]  # group, place of each attribute's value, value of the sum (counts: 0)
SIZES = (3, 2, 2)
PAIR = (Fraction(1), Fraction(-1))
NAMES = "abc"


def space(most: int, *, up_to: bool = False, sizes: Sequence[int] = SIZES) -> Space:
    names = zip(NAMES, sizes, strict=False)
    attributes = [Attribute(name, tuple(f"{name} = {value}" for value in range(size)), "0") for name, size in names]
    return Space(tuple(attributes), most, up_to)


def how(of: Space, groups: int = 2, bounds: tuple[int, int] | None = None, units: int = 1) -> Marginals:
    low, high = bounds or (0, 1)
    return Marginals(of, groups, low, high, bounds is not None, units, Decimal("0.04"))


def packed(rows: Sequence[Row], of: Marginals) -> bytes:
    """What the statement by cells returns of rows; of sums those of v - low."""
    layout = Layout(of.groups, tuple(one.size for one in of.space.attributes))
    found: Counter[int] = Counter()
    sums: Counter[int] = Counter()
    for group, values, value in rows:
        cell = group
        for size, place in zip(layout.sizes, values, strict=True):
            cell = cell * size + place
        found[cell] += 1
        sums[cell] += value - of.low if of.sums else 0
    return np.array([(cell, n, sums[cell]) for cell, n in found.items()], np.dtype(list(RECORD))).tobytes()


def every_row(of: Marginals) -> list[Row]:
    values = (of.low, (of.low + of.high) // 2, of.high) if of.sums else (0,)
    domains = product(*(range(one.size) for one in of.space.attributes))
    return list(product(range(of.groups), domains, values))


def some_rows(of: Marginals, many: int, seed: int) -> list[Row]:
    rng = random.Random(seed)
    return rng.choices(every_row(of), k=many)


def compared(groups: int | None, confidence: Fraction = Fraction(19, 20)) -> Comparison:
    """A comparison that was answered, of whatever groups."""
    question = Question((), None, None, Fraction(0), "auto", confidence, groups)
    stored = Stored("r", True, "discrete Gaussian", "2026-01-01", [[0]] * 3, {}, {})
    return Comparison(stored, (("x",), ("y",)), "count", groups, question)


def true_influences(
    rows: Sequence[Row],
    of: Marginals,
    groups: Sequence[int],
    weights: Sequence[Fraction],
    kind: Kind | None = None,
) -> list[float]:
    """By the definition, from rows."""
    inside: list[list[tuple[int, int]]] = []
    for place in range(len(of.space)):
        tests = [(int(NAMES.index(one.name)), value) for one, value in of.space.values(place)]
        held = [row for row in rows if all(row[1][at] == value for at, value in tests)]
        inside.append([counted(held, group) for group in groups])
    whole = [counted(rows, group) for group in groups]
    cells = Cells.of([n for n, _ in whole], [s for _, s in whole], inside)
    return [float(one) for one in influences(kind or ("sum" if of.sums else "count"), weights, cells)]


def counted(rows: Sequence[Row], group: int) -> tuple[int, int]:
    own = [value for place, _, value in rows if place == group]
    return len(own), sum(own)


def holds(found: Derived | Averaged, truth: Sequence[float]) -> bool:
    for row, value in zip(found.found, truth, strict=True):
        first, last = 1 + sum(one > value for one in truth), sum(one >= value for one in truth)
        if not (row.low <= value <= row.high and row.rank_low <= first and last <= row.rank_high):
            return False
    return True
