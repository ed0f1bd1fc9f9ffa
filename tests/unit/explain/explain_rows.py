"""Small tables of groups, and what influences on expressions are computed from (dpxplain.md §7.2)."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from fractions import Fraction

from pg_epsilon.explain.arithmetic import parse
from pg_epsilon.explain.cells import Found
from pg_epsilon.explain.expressed import Influences
from pg_epsilon.explain.formula import Formula
from pg_epsilon.explain.influence import Cells, Kind

Row = tuple[int, int, int]  # group, which predicate it satisfies, value
PREDICATES = 4
STEP = Fraction(1, 4)


def formula(kind: Kind, text: str, groups: int, bounds: tuple[int, int]) -> Formula:
    return Formula(kind, parse(text, groups), groups, *bounds, step=Fraction(1) if kind == "count" else STEP)


def influences(rows: Sequence[Row], how: Formula) -> Influences:
    inside = [[(0, 0)] * how.groups for _ in range(PREDICATES)]
    for group, predicate, value in rows:
        n, total = inside[predicate][group]
        inside[predicate][group] = n + 1, total + value
    some = [place for place in range(PREDICATES) if any(n for n, _ in inside[place])]
    numbers = [[sum(line[group][at] for line in inside) for group in range(how.groups)] for at in (0, 1)]
    cells = Cells.of(numbers[0], numbers[1], [inside[place] for place in some])
    return Influences.of(how, Found(some, cells), PREDICATES)


def some_rows(rng: random.Random, how: Formula, most: int) -> list[Row]:
    low, high = how.low, how.high
    return [
        (rng.randrange(how.groups), rng.randrange(PREDICATES), rng.randint(low, high))
        for _ in range(rng.randrange(most))
    ]


def neighbours(rng: random.Random, rows: list[Row], how: Formula) -> Iterator[list[Row]]:
    if rows:
        yield rows[1:]
    for value in (how.low, how.high):
        yield [*rows, (rng.randrange(how.groups), rng.randrange(PREDICATES), value)]
