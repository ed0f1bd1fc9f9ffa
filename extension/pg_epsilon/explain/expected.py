"""How much an explanation is expected to tell by each method: widths of shares and of ranks, from
public facts alone (dpxplain.md §0.0, "As built, `auto`").
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from pg_epsilon.explain.measure import Explaining
from pg_epsilon.explain.ranking import comparisons


class Widths(NamedTuple):
    """Of one method, in lattice units of influence.

    shares: half of the interval of an influence. ranks: how far two influences are apart whose
    order is told in half of the cases, the mean of both bounds; 0 of a single predicate.
    """

    shares: float
    ranks: float


class Methods(NamedTuple):
    """What auto compares. shares_are_told: else ranks alone are asked for."""

    cells: Widths
    one_shot: Widths
    shares_are_told: bool = True

    @property
    def cells_are_nearer(self) -> bool:
        """Whether what `cells` gains at one of shares and ranks is no less than what it loses at
        the other, as factors: the products of the widths are compared, of what is told. Equal: it
        is, because its further questions are free.
        """
        cells, one_shot = 1.0, 1.0
        if self.shares_are_told:
            cells, one_shot = self.cells.shares, self.one_shot.shares
        if self.one_shot.ranks > 0:
            cells, one_shot = cells * self.cells.ranks, one_shot * self.one_shot.ranks
        return cells <= one_shot


def largest(change: Fraction, units: int, rows: int) -> float:
    """No influence is larger, of at most so many rows. change: `Explaining.change`, of so many rows
    of one unit.

    Proof: an influence is a weighted sum over a rows, each of which adds `change / units` at most,
    times the share b / M of rows that are left, a + b <= M - 1 and M <= rows + 1; of averages
    times b / n itself, a + b = n. a b is at most a quarter of the square of their sum. ∎
    """
    return float(change / units) * (rows + 1) / 4


def of_cells(half_width: float, predicates: int, most: float) -> Widths:
    """half_width: of one influence. Ranks are told apart where two intervals do not meet, two
    halves and two. most: `largest`, which bounds what can be unknown.
    """
    ranks = min(2 * half_width, 2 * most) if comparisons(predicates) else 0.0
    return Widths(min(half_width, most), ranks)


def of_one_shot(how: Explaining, most: float) -> Widths:
    """Ranks by the margins of their searches for the lower and for the upper bound."""
    shares = min(float(how.margin / how.steps), most)
    if not comparisons(len(how.space)):
        return Widths(shares, 0.0)
    margins = [float(how.search.margin(share) / how.steps) for share in (how.lower, 1 - how.lower)]
    return Widths(shares, sum(min(one, 2 * most) for one in margins) / 2)
