"""Released counts → a distribution: columns' masses, a forest of pairs, and tables that it is raked to. No draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pg_epsilon.synthesis.tables import Numbers, Reals, groups, on_simplex, quotient, smoothed, sums, with_sums


@dataclass(frozen=True)
class Table:
    """A joint table of a pair over groups of cells; values: as released, or fitted. variance: of a released cell."""

    pair: tuple[int, int]
    rows: Numbers
    columns: Numbers
    values: Reals
    variance: float = 0.0

    def towards(self, i: int) -> tuple[int, Numbers, Numbers, Reals]:
        """(The other variable, groups of i, groups of the other, values with i's groups as rows)."""
        if i == self.pair[0]:
            return self.pair[1], self.rows, self.columns, self.values
        return self.pair[0], self.columns, self.rows, self.values.T


@dataclass(frozen=True)
class Findings:
    """Released integers, read: the total, each column's counts, the measured tables in order; variances of a cell."""

    total: int
    ones: tuple[Any, ...]
    variance: float
    tables: tuple[Table, ...]


@dataclass
class Model:
    """masses: of each variable's cells, with `total` as their sum. edges: a forest. others: further fitted tables."""

    total: float
    masses: list[Reals]
    ordered: Sequence[bool]
    edges: list[Table]
    others: list[Table]
    _predicted: dict[int, dict[int, Reals]] = field(default_factory=dict)

    def groups(self, least: float) -> list[Numbers]:
        return [groups(masses, order, least) for masses, order in zip(self.masses, self.ordered, strict=True)]

    def step(self, edge: Table, i: int) -> Reals:
        """Pr[cell of the other variable | group of i], by rows: inside a group, the column's own masses decide."""
        other, _, columns, values = edge.towards(i)
        masses, inside = self.masses[other], sums(self.masses[other], columns)
        within = quotient(masses, inside[columns])
        given = values[:, columns] * within
        lost = given.sum(axis=1) <= 0
        given[lost] = masses
        return np.asarray(given / given.sum(axis=1)[:, None], np.float64)

    def predicted(self, pair: tuple[int, int], by: Sequence[Numbers]) -> Reals:
        """The table of a pair over groups, as the forest has it; `by` is the same whenever one model is asked."""
        i, j = pair
        if i not in self._predicted:
            self._predicted[i] = self._from(i, by[i])
        cells = self._predicted[i].get(j)
        if cells is None:
            cells = np.outer(sums(self.masses[i], by[i]), self.masses[j]) / self.total
        width = int(by[j].max()) + 1
        onto = np.zeros((len(by[j]), width))
        onto[np.arange(len(by[j])), by[j]] = 1
        return np.asarray(cells @ onto, np.float64)

    def _from(self, i: int, by: Numbers) -> dict[int, Reals]:
        """Groups of i × cells of every variable connected with it."""
        start = np.zeros((int(by.max()) + 1, len(by)))
        start[by, np.arange(len(by))] = self.masses[i]
        found, open_ = {i: start}, [i]
        while open_:
            one = open_.pop()
            for edge in self.edges:
                if one in edge.pair and (other := edge.towards(one)[0]) not in found:
                    rows = edge.towards(one)[1]
                    onto = np.zeros((len(rows), int(rows.max()) + 1))
                    onto[np.arange(len(rows)), rows] = 1
                    found[other] = found[one] @ onto @ self.step(edge, one)
                    open_.append(other)
        return found


def fitted(found: Findings, ordered: Sequence[bool]) -> Model:
    """The distribution nearest to what was released: all sums agree, nothing is negative, the total is at least 1.

    A column's masses weigh its own counts and the sums of its tables by their variances. Tables are projected onto
    those masses. The first tables that connect what was not connected are the forest.
    """
    total = float(max(found.total, 1))
    smooth = [smoothed(counts, found.variance) if o else counts for counts, o in zip(found.ones, ordered, strict=True)]
    masses = [on_simplex(counts, total) for counts in smooth]
    for table in found.tables:
        for i in table.pair:
            masses[i] = _weighed(masses[i], found.ones[i], found.variance, table, i, total)
    edges: list[Table] = []
    others: list[Table] = []
    roots = list(range(len(masses)))
    for table in found.tables:
        i, j = table.pair
        values = with_sums(table.values, sums(masses[i], table.rows), sums(masses[j], table.columns))
        apart = roots[i] != roots[j]
        (edges if apart else others).append(Table(table.pair, table.rows, table.columns, values))
        roots = [roots[i] if root == roots[j] else root for root in roots]
    return Model(total, masses, ordered, edges, others)


def _weighed(masses: Reals, counts: Reals, variance: float, table: Table, i: int, total: float) -> Reals:
    """The masses, with each group's sum as the mean of its two noisy sums, weighed by 1 / variance."""
    _, group, _, values = table.towards(i)
    own, theirs = sums(counts, group), values.sum(axis=1)
    sure, other = 1 / (variance * np.bincount(group)), 1 / (table.variance * values.shape[1])
    agreed = on_simplex((own * sure + theirs * other) / (sure + other), total)
    now = sums(masses, group)
    spread = np.where(now > 0, quotient(agreed, now), 0.0)
    moved = masses * spread[group] + np.where(now > 0, 0.0, agreed / np.bincount(group))[group]
    return np.asarray(moved * (total / moved.sum()), np.float64)
