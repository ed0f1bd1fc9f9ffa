"""The least fractional cover of a join's attributes by its relations: the exponents of the AGM bound."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction


def cover(costs: Sequence[Fraction], attributes: Sequence[frozenset[int]]) -> list[Fraction]:
    """Weights x of relations: of the least total cost among those that give each attribute a weight of at least 1.

    costs: of each relation, at least 0; attributes: of each attribute the relations that have it, none empty. Exact:
    the simplex method on the dual program (maximize the sum of y where the y of each relation's attributes add up to
    at most its cost), whose origin is feasible, by Bland's rule, which ends. x are the dual's multipliers.
    """
    relations, size = len(costs), len(attributes)
    if not attributes:
        return [Fraction(0)] * relations
    # columns: y of every attribute, a slack of every relation, the right side
    rows = [
        [Fraction(int(i in attribute)) for attribute in attributes]
        + [Fraction(int(i == j)) for j in range(relations)]
        + [Fraction(costs[i])]
        for i in range(relations)
    ]
    goal = [Fraction(-1)] * size + [Fraction(0)] * (relations + 1)
    basis = list(range(size, size + relations))
    while (column := next((j for j in range(size + relations) if goal[j] < 0), None)) is not None:
        ratios = [(row[-1] / row[column], basis[i], i) for i, row in enumerate(rows) if row[column] > 0]
        _, _, pivot = min(ratios)  # one exists: every attribute is some relation's
        _eliminate(rows, goal, pivot, column)
        basis[pivot] = column
    return goal[size : size + relations]


def _eliminate(rows: list[list[Fraction]], goal: list[Fraction], pivot: int, column: int) -> None:
    """Make the column a unit vector whose 1 is in the pivot's row."""
    divisor = rows[pivot][column]
    rows[pivot] = [value / divisor for value in rows[pivot]]
    for row in (*(row for i, row in enumerate(rows) if i != pivot), goal):
        if factor := row[column]:
            row[:] = [value - factor * own for value, own in zip(row, rows[pivot], strict=True)]
