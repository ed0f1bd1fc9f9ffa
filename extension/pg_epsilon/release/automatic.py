"""mechanism => 'auto': which mechanism releases a family, by public facts alone (numeric-release.md §0.0, "auto").

Cells answer any other grid over the same columns too, so that they are taken where they tell
enough: where the rows of the widest query that may be noise alone are no more than those that
Algorithm 2 cannot tell, or are few of all rows. One query is better asked as an ordinary sum, which
what is told of the release says: a family has a name, and may have another grid, or a table, later.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from pg_epsilon.query.bounds import Lattice
from pg_epsilon.query.kinds import Head
from pg_epsilon.query.source import Source
from pg_epsilon.release.decompose import Decomposition
from pg_epsilon.release.ladder import base_of, ladder
from pg_epsilon.release.sets import Masks, Sets, many_of
from pg_epsilon.release.trees import is_range
from pg_epsilon.release.weights import Weights

FEW = 100  # times kappa / epsilon: rows that Algorithm 2 cannot tell from none
PART = 20  # of all rows, one in so many
MOST_WHOLE = 1_000_000  # cells of Algorithm 2 where each value has its own, unless that is asked for
MOST_VALUES = 1 << 17  # the same of values of candidates, which take some microseconds each


@dataclass(frozen=True)
class Grid:
    """Of a grid: how many different queries it has, how many classes the widest of them reads, and how many they list
    in all; where each is a range, none are listed. Classes with weights count as the squares of these; weights: how
    many are different."""

    sets: int
    widest: float
    listed: int = 0
    weights: int = 1

    @classmethod
    def of(cls, masks: Sequence[Masks], weights: Weights | None = None) -> Grid:
        if weights is not None:
            sets = Sets.of_masks(masks, weights)
            values = {one for own in sets.weights or () for one in own if one}
            return cls(len(sets.different), sets.widest, sum(map(many_of, sets.different)), max(1, len(values)))
        many = [[mask.count("1") for mask in one.different] for one in masks]
        different = set(zip(*(one.of for one in masks), strict=True))
        sizes = [math.prod(own[place] for own, place in zip(many, one, strict=True)) for one in different]
        ranges = all(is_range(mask) for one in masks for mask in one.different)
        return cls(len(different), max(sizes, default=0), 0 if ranges else sum(sizes))


def resolution_of_cells(epsilon: float, kappa: int, widest: float, steps: int) -> float:
    """So many rows of the widest query, spread over the steps of its values, may be the noise of cells alone.

    Two standard deviations of the sum of Laplace noise of scale kappa / epsilon in each of its cells.
    """
    return 2 * kappa / epsilon * math.sqrt(2 * widest * steps)


def resolution_of_weights(epsilon: float, kappa: int, rows: int) -> float:
    """So many rows Algorithm 2 is predicted not to tell from none. rows: of the relation, 0 where nobody said."""
    return max(FEW * kappa / epsilon, rows / PART)


def automatic(head: Head, name: str, grid: Grid, *, sums: bool, rows: int | None) -> str:
    """The mechanism of a family: cells or alg2.

    sums: no averages or variances are asked for. rows: how many the asker expects; None: as many as
    the owner declares at most, or 0. What its name was released by before stays, or another grid
    would be another family and not a free one. Averages, a budget in rho and users without a cap are
    for cells alone, or are refused there.
    """
    epsilon, kappa = head.budget.epsilon, kappa_of(head.source)
    if not sums or epsilon is None or kappa is None or not grid.widest:
        return "cells"
    before = head.releases.family(name, head.policy.dataset.name)
    if before in ("cells", "alg2"):
        return before
    size = declared_rows(head.source) if rows is None else rows
    steps, signs = ladders_of(head.aggregates[0].lattice)
    own = resolution_of_cells(float(epsilon), kappa, grid.widest, steps)
    near = own <= resolution_of_weights(float(epsilon), kappa, size)
    return "cells" if near or too_many(grid, steps * signs) else "alg2"


def too_many(grid: Grid, steps: int) -> bool:
    """Whether Algorithm 2 would refuse the family."""
    from pg_epsilon.release.algorithm2 import MOST_CANDIDATES, MOST_LISTED, MOST_TABLE, MOST_WEIGHTS

    listed = MOST_WEIGHTS if grid.weights == 1 else MOST_LISTED // (2 * steps)
    table = grid.weights * (steps + 2) * 2 * steps if grid.weights > 1 else 0
    return 2 * grid.sets * steps > MOST_CANDIDATES or grid.listed > listed or table > MOST_TABLE


def universe_of(lattice: Lattice | None, classes: int, weights: int) -> Decomposition:
    """How Algorithm 2 makes cells of values, where nobody says (numeric-release.md §0, "Universe by size").

    Few values have a cell each; many are split between two steps. weights: how many different ones classes have.
    """
    if lattice is None:
        return "split"
    values = lattice.high - lattice.low + 3  # NULL's and NaN's
    steps, signs = ladders_of(lattice)
    small = classes * values <= MOST_WHOLE and weights * values * 2 * steps * signs <= MOST_VALUES
    return "none" if small else "split"


def kappa_of(source: Source) -> int | None:
    """How many rows one unit has at most; None where that is not declared."""
    return source.kappa if source.has_user_units else 1


def declared_rows(source: Source) -> int:
    """The most rows that the owner declares; 0 of none."""
    return max((one.max_rows or 0 for one in source.relations), default=0)


def ladders_of(lattice: Lattice | None) -> tuple[int, int]:
    """(Steps of the longer ladder, ladders): of a value one or two, by its signs; of rows that are counted one step."""
    if lattice is None:
        return 1, 1
    largest = Fraction(max(-lattice.low, lattice.high, 0)) * lattice.step
    return ladder(largest, base_of(lattice.step)).length, 2 if lattice.low < 0 < lattice.high else 1


def words(chosen: bool, mechanism: str, sets: int) -> list[str]:
    """Sentences for the NOTICE. chosen: whether auto was asked for; sets: different queries."""
    found = []
    if chosen and mechanism == "alg2":
        found.append("chosen because by cells more rows of the widest query could be noise alone")
    if chosen and sets == 1:
        found.append("one query by itself has less noise in plain SQL, or by mechanism => 'composition'")
    return found
