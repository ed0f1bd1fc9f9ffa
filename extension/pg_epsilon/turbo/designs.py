"""What a synopsis may consist of, and what it would cost: all bins, or the atoms of a declared workload.

A *grid* takes together the values of an attribute that no query of a set tells apart: its cells are the products of
such groups, so every query of the set is a sum of cells. A table's cells share no row: one noisy count for each costs
one epsilon. A *design* is one or more grids, each with the class of queries that it answers within the tolerance, all
of them together except with probability beta (grade `uniform`, uniform.py). Public facts only.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from pg_epsilon.turbo.bins import Domain, Query, box_query
from pg_epsilon.turbo.calibration import Calibration, Draw
from pg_epsilon.turbo.uniform import box_quantile, class_quantile, every_quantile
from pg_epsilon.turbo.workload import Groups, grids

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]

EVERY, BOXES, WORKLOAD = "every", "all boxes", "workload"
_BOXES_BUT_ONE = "boxes"  # synopses of 0.1.0: their margin is not for the box of everything
_WORTH = Fraction(105, 100)  # what a class that answers more queries may cost more
_ROUND = Context(prec=12, rounding=ROUND_CEILING)


@dataclass(frozen=True, eq=False)
class Outlook:
    """What the owner expects (public). forecast: distinct queries, over all windows; None: unknown. workload: by list.
    partitions: how many there will be while so many are asked; None: one, or (then without a forecast) unknown.

    partitioned: whether windows of several partitions are asked, some of which noise answers in part; then that noise
    has beta/2, and of a synopsis any one query, fixed beforehand, has too (derive.py).
    """

    forecast: int | None = None
    workload: tuple[Query, ...] = ()
    partitioned: bool = False
    partitions: int | None = None

    @cached_property
    def ids(self) -> frozenset[bytes]:
        return frozenset(query.id for query in self.workload)

    @cached_property
    def digest(self) -> bytes:
        """What the workload is known by."""
        return hashlib.sha256(b"".join(sorted(self.ids))).digest()


@dataclass(frozen=True)
class Grid:
    """Per attribute the number of the group in which each of its values is; None: each value is one of its own."""

    domain: Domain
    groups: Groups

    @property
    def cells(self) -> Domain:
        """The grid's cells as a domain of their own."""
        own = zip(self.domain.sizes, self.groups, strict=True)
        return Domain(tuple(size if group is None else max(group) + 1 for size, group in own))

    def mapped(self, query: Query) -> Query | None:
        """The query on the grid's cells; None if it tells apart what a cell takes together."""
        if all(group is None for group in self.groups):
            return query
        if query.box is None or query.values is not None:
            return None
        box: list[set[int] | None] = []
        for group, selected in zip(self.groups, query.box, strict=True):
            if selected is None or group is None:
                box.append(None if selected is None else set(selected))
                continue
            chosen = {group[value] for value in selected}
            if sum(number in chosen for number in group) != len(selected):
                return None
            box.append(chosen)
        return box_query(self.cells, box)

    def counts(self, bins: Array) -> Array:
        """Counts per cell from counts per bin."""
        import numpy as np

        table = np.asarray(bins, np.int64).reshape(self.domain.sizes)
        for axis, (group, size) in enumerate(zip(self.groups, self.cells.sizes, strict=True)):
            if group is None:
                continue
            if size == 1:
                table = table.sum(axis=axis, keepdims=True)
                continue
            rows = np.moveaxis(table, axis, 0)
            summed = np.zeros((size, *rows.shape[1:]), np.int64)
            np.add.at(summed, np.array(group), rows)
            table = np.moveaxis(summed, 0, axis)
        return np.ascontiguousarray(table).reshape(-1)


def all_bins(domain: Domain) -> Grid:
    return Grid(domain, (None,) * len(domain.sizes))


def covers(kind: str, query: Query, outlook: Outlook) -> bool:
    """Whether the query is of the class for which the margin of a grid of this kind holds."""
    if kind == EVERY:
        return True
    if kind in (BOXES, _BOXES_BUT_ONE):
        return query.box is not None and query.values is None and (kind == BOXES or not query.full)
    return query.id in outlook.ids


@lru_cache(maxsize=65536)
def _draw(reach: Fraction, tolerance: Fraction, gaussian: bool) -> Draw | None:
    if tolerance <= reach / 2:
        return None
    ratio = reach / tolerance  # epsilon, or 1 / sigma
    amount = ratio * ratio / 2 if gaussian else ratio
    rounded = _ROUND.divide(Decimal(amount.numerator), Decimal(amount.denominator))
    return Draw("gaussian" if gaussian else "laplace", rounded)


@dataclass(frozen=True)
class Part:
    """One grid of a design: t, in units of the noise's scale, and the rows by which its tolerance is lessened."""

    kind: str
    grid: Grid
    reach: Fraction
    less: Fraction

    def draw(self, prices: Calibration, scale: int) -> Draw | None:
        """The noise of each cell; None where a table is too small for it (calibration.py: epsilon at most 2)."""
        return _draw(self.reach, math.floor(prices.tolerance(scale)) - self.less, prices.gaussian)


@dataclass(frozen=True)
class Design:
    """Grids released together."""

    parts: tuple[Part, ...]

    def covers(self, query: Query, outlook: Outlook) -> bool:
        """Whether one of its grids answers the query."""
        return any(covers(p.kind, query, outlook) and p.grid.mapped(query) is not None for p in self.parts)

    def draws(self, prices: Calibration, scale: int) -> list[Draw] | None:
        found = [part.draw(prices, scale) for part in self.parts]
        return None if None in found else [draw for draw in found if draw is not None]

    def price(self, prices: Calibration, scale: int) -> Decimal | None:
        """The amounts of its draws together: epsilon, or rho; None if one is not to be had."""
        draws = self.draws(prices, scale)
        return None if draws is None else sum((draw.amount for draw in draws), Decimal(0))


def design_for(query: Query, prices: Calibration, beta: Fraction, outlook: Outlook, scale: int) -> Design | None:
    """The cheapest design that answers the query; one that answers more is taken for 5 % more. None: none is to be had.

    beta: how likely any answer of the synopsis may be outside its margin.
    """
    best: tuple[Fraction, Design] | None = None
    for design in _designs(query.domain, beta, prices.gaussian, outlook.digest, outlook):
        if not design.covers(query, outlook):
            continue
        price = design.price(prices, scale)
        if price is not None and (best is None or Fraction(price) * _WORTH < best[0]):
            best = Fraction(price), design
    return None if best is None else best[1]


_known: dict[tuple[tuple[int, ...], Fraction, bool, bytes, bool], tuple[Design, ...]] = {}


def _designs(domain: Domain, beta: Fraction, gaussian: bool, digest: bytes, outlook: Outlook) -> tuple[Design, ...]:
    """The designs for a view, the one that answers most queries first. None depends on ñ."""
    key = domain.sizes, beta, gaussian, digest, outlook.partitioned
    if key not in _known:
        while len(_known) >= 64:
            _known.pop(next(iter(_known)))
        whole, half = all_bins(domain), Fraction(domain.bins, 1 if gaussian else 2)
        alone = _Alone(outlook.partitioned, beta / 2, gaussian)
        reach = alone.at_least(domain.bins, every_quantile(domain.bins, beta, gaussian=gaussian))
        found = [Design((Part(EVERY, whole, reach, half),))]
        boxes = box_quantile(domain.sizes, beta, gaussian=gaussian)
        if boxes is not None:
            less = Fraction(boxes[1], 1 if gaussian else 2)
            found.append(Design((Part(BOXES, whole, alone.at_least(domain.bins, boxes[0]), less),)))
        asked = [query for query in outlook.workload if not query.empty]
        if asked:
            found.append(workload_design(domain, asked, beta, gaussian=gaussian, partitioned=outlook.partitioned))
        _known[key] = tuple(found)
    return _known[key]


@dataclass(frozen=True)
class _Alone:
    """What one query by itself needs, if synopses are `used` beside noise: t with Pr[it is off by more] <= beta."""

    used: bool
    beta: Fraction
    gaussian: bool

    def at_least(self, cells: int, reach: Fraction) -> Fraction:
        """A class's t, or more, if its query of the most cells needs it: it is the least peaked (uniform.py)."""
        if not self.used or cells < 1:
            return reach
        return max(reach, class_quantile(((cells, 1.0),), self.beta, gaussian=self.gaussian))


def workload_design(
    domain: Domain, queries: Sequence[Query], beta: Fraction, *, gaussian: bool = False, partitioned: bool = False
) -> Design:
    """Grids for a declared workload: each answers some of its queries, with a share of beta by their number."""
    alone = _Alone(partitioned, beta / 2, gaussian)
    parts = []
    for found in grids(domain, queries, beta, gaussian=gaussian):
        share = beta * Fraction(found.queries, len(queries))
        reach = class_quantile(found.sizes, share, gaussian=gaussian)
        reach = alone.at_least(found.sizes[-1][0], reach)
        parts.append(Part(WORKLOAD, Grid(domain, found.groups), reach, Fraction(0)))
    return Design(tuple(parts))
