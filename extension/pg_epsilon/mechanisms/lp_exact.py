"""Q(D, t) exactly, by no solver: units that are within t anyway are left out, and what hangs together is solved alone.

Parts whose rows have at most two owners left (labels: one) are a maximum flow, in integers; the others go to the
simplex method in rational numbers. All of it ends, and nothing of it can fail but by memory.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from fractions import Fraction

from pg_epsilon.mechanisms.lp_bounds import Problem
from pg_epsilon.mechanisms.lp_flow import labels_of_units, twice_pairs
from pg_epsilon.mechanisms.lp_simplex import maximum

Row = tuple[tuple[int, ...], int]  # the owners that may be too much, and the value or the label


def reduced(problem: Problem, t: int) -> tuple[int, list[Row]]:
    """(what is certain, the other rows): a row without a binding unit counts in full, with its whole label.

    A unit binds if all its rows together are more than t. Rows of the same binding units (and label) are one.
    """
    labels = None if problem.labels is None else problem.labels.tolist()
    values, owners = problem.values.tolist(), problem.owners.tolist()
    load: dict[int, int] = defaultdict(int)
    for row, value in zip(owners, values, strict=True):
        for unit in row:
            load[unit] += value
    load[problem.units] = 0
    binding = {unit for unit, carried in load.items() if carried > t}
    left = [tuple(unit for unit in row if unit in binding) for row in owners]
    if labels is not None:
        free = {label for label, row in zip(labels, left, strict=True) if not row}
        pairs = {(row, label) for label, row in zip(labels, left, strict=True) if label not in free}
        return len(free), sorted(pairs)
    sums: dict[tuple[int, ...], int] = defaultdict(int)
    for row, value in zip(left, values, strict=True):
        sums[row] += value
    return sums.pop((), 0), sorted(sums.items())


def is_flow(problem: Problem, rows: Iterable[Row]) -> bool:
    """Whether all parts are flows."""
    return all(len(owners) <= (2 if problem.labels is None else 1) for owners, _ in rows)


def optimum(problem: Problem, t: int) -> Fraction:
    """Q(D, t)."""
    certain, rows = reduced(problem, t)
    distinct = problem.labels is not None
    return certain + sum((_part(part, t, distinct=distinct) for part in parts(rows, distinct=distinct)), Fraction(0))


def parts(rows: Sequence[Row], *, distinct: bool) -> list[list[Row]]:
    """The rows, apart where no unit (and no label) is common."""
    parent: dict[int, int] = {}

    def root(node: int) -> int:
        while parent.setdefault(node, node) != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for owners, label in rows:
        for other in (*owners[1:], *([-1 - label] if distinct else [])):
            parent[root(other)] = root(owners[0])
    found: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        found[root(row[0][0])].append(row)
    return list(found.values())


def _part(rows: list[Row], t: int, *, distinct: bool) -> Fraction:
    widest = max(len(owners) for owners, _ in rows)
    if distinct and widest == 1:
        return Fraction(labels_of_units([(owners[0], label) for owners, label in rows], t))
    if not distinct and widest <= 2:
        return Fraction(twice_pairs(rows, t), 2)
    numbers = {unit: i for i, unit in enumerate(sorted({unit for owners, _ in rows for unit in owners}))}
    columns = [{numbers[unit]: 1 for unit in owners} for owners, _ in rows]
    if not distinct:
        return maximum(columns, [t] * len(numbers), [min(value, t) for _, value in rows], [1] * len(rows))
    links = {label: len(numbers) + i for i, label in enumerate(sorted({label for _, label in rows}))}
    for column, (_, label) in zip(columns, rows, strict=True):
        column[links[label]] = -1
    columns += [{link: 1} for link in links.values()]
    limits = [t] * len(numbers) + [0] * len(links)
    return maximum(columns, limits, [1] * len(columns), [0] * len(rows) + [1] * len(links))
