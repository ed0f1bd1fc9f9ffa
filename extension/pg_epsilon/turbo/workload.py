"""A declared workload → grids on which its queries are sums of few cells (a matrix mechanism of marginals).

Starts from one grid for each set of attributes that queries are about: a GROUP BY is one grid, whose keys share no row
and cost one epsilon together. Two sets of queries then share one finer grid if that looks cheaper: a sum of more cells
needs less noise a cell, but a row touches one draw instead of two. Greedy, by pairs. Public facts only.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

from pg_epsilon.turbo.bins import Domain, Query
from pg_epsilon.turbo.uniform import Sizes, grouped, rough_quantile

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]

_GRIDS_MAX = 64  # beyond so many sets of attributes, one grid for all
Groups = tuple[tuple[int, ...] | None, ...]
"""Per attribute the number of the group in which each of its values is; None: each is one of its own."""


class Found(NamedTuple):
    """A grid, how many queries it answers, and of how many cells they are sums."""

    groups: Groups
    queries: int
    sizes: Sizes


def grids(domain: Domain, queries: Sequence[Query], beta: Fraction, *, gaussian: bool) -> list[Found]:
    """Grids for queries that are not trivial, in a fixed order. beta: for all queries together."""
    boxes = [query for query in queries if query.box is not None and query.values is None]
    if len(boxes) < len(queries):
        return [_all_bins(domain, queries)]
    found = _merged(_Table(domain, boxes, beta / len(boxes), gaussian))
    return sorted(found, key=lambda one: (one.sizes, repr(one.groups)))


def _all_bins(domain: Domain, queries: Sequence[Query]) -> Found:
    import numpy as np

    ones = np.ones(domain.bins, np.int8)
    sizes: dict[int, float] = {}
    for query in queries:
        cells = int(query.of(ones).size)
        sizes[cells] = sizes.get(cells, 0.0) + 1
    return Found((None,) * len(domain.sizes), len(queries), grouped(sizes.items()))


class _Table:
    """Boxes as numbers: of each, which of an attribute's distinct sets of values it has."""

    def __init__(self, domain: Domain, boxes: Sequence[Query], beta: Fraction, gaussian: bool) -> None:
        import numpy as np

        self.domain, self.beta, self.gaussian = domain, beta, gaussian
        self.members: list[Array] = []  # per attribute: [set, value]
        columns = []
        for axis, size in enumerate(domain.sizes):
            numbers: dict[tuple[int, ...] | None, int] = {}
            own = [query.box[axis] if query.box else None for query in boxes]
            columns.append([numbers.setdefault(selected, len(numbers)) for selected in own])
            members = np.zeros((len(numbers), size), bool)
            for selected, number in numbers.items():
                members[number, range(size) if selected is None else list(selected)] = True
            self.members.append(members)
        self.rows = np.array(columns).T
        self.about = [tuple(selected is not None for selected in query.box or ()) for query in boxes]

    def found(self, rows: Array) -> Found:
        """The coarsest grid for these queries."""
        import numpy as np

        groups: list[tuple[int, ...] | None] = []
        cells = np.ones(len(rows), np.int64)
        for axis, members in enumerate(self.members):
            column = self.rows[rows, axis]
            used = members[np.unique(column)]
            _, first, group = np.unique(used, axis=1, return_index=True, return_inverse=True)
            group = group.reshape(-1)
            groups.append(None if len(first) == members.shape[1] else tuple(group.tolist()))
            cells *= members[:, first].sum(axis=1)[column]
        sizes, numbers = np.unique(cells, return_counts=True)
        pairs = zip(sizes.tolist(), map(float, numbers.tolist()), strict=True)
        return Found(tuple(groups), len(rows), grouped(pairs))

    def cost(self, found: Found) -> float:
        """About what a grid costs: its epsilon, or rho, in units that do not matter for the comparison."""
        reach = max(rough_quantile(cells, number, self.beta * found.queries) for cells, number in found.sizes)
        return reach * reach if self.gaussian else reach


def _merged(table: _Table) -> list[Found]:
    """The pair whose merger saves most is merged, until none saves anything."""
    import numpy as np

    about: dict[tuple[bool, ...], list[int]] = {}
    for row, attributes in enumerate(table.about):
        about.setdefault(attributes, []).append(row)
    parts = [np.array(rows) for rows in about.values()]
    if len(parts) > _GRIDS_MAX:
        return [table.found(np.arange(len(table.rows)))]
    grid = {i: table.found(rows) for i, rows in enumerate(parts)}
    rows_of = dict(enumerate(parts))
    saved: dict[tuple[int, int], tuple[float, Found]] = {}
    newest = len(parts)
    while len(grid) > 1:
        for pair in combinations(sorted(grid), 2):
            if pair not in saved:
                both = table.found(np.concatenate([rows_of[i] for i in pair]))
                saved[pair] = sum(table.cost(grid[i]) for i in pair) - table.cost(both), both
        most, (i, j) = max((saved[pair][0], pair) for pair in combinations(sorted(grid), 2))
        if most <= 0:
            break
        grid[newest], rows_of[newest] = saved[i, j][1], np.concatenate([rows_of.pop(i), rows_of.pop(j)])
        del grid[i], grid[j]
        newest += 1
    return list(grid.values())
