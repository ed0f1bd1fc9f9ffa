"""What is drawn to explain a difference: predicates, noisy influences, bounds of their ranks (dpxplain.md §6).

Three parts, each of which may look at what the one before released: adaptive composition of their prices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any

from pg_epsilon.accounting.charges import Charge
from pg_epsilon.explain import sensitivity
from pg_epsilon.explain.influence import Kind, scores
from pg_epsilon.explain.ranking import Budget, RankSearch, comparisons, top
from pg_epsilon.explain.space import Predicates
from pg_epsilon.explain.table import Row
from pg_epsilon.noise import NoiseSource

FINE = 2**20  # steps of the grid that one unit moves an influence at least: rounding costs a millionth
FINEST = 2**32
LATTICE = 2**61  # steps that no influence reaches


def fineness(rows: int) -> int:
    """So many steps for what one unit moves, where there are at most so many rows: an influence is no more than what
    one row moves it, times their number. Public."""
    return max(FINE, min(FINEST, LATTICE >> rows.bit_length()))


@dataclass(frozen=True)
class Price:
    """The three parts of a budget, each rho or all epsilon.

    selection: epsilon of one of the k selections, whatever the others are. influences, ranks: of all k together;
    influences: 0 where none is shown.
    """

    selection: Decimal
    influences: Decimal
    ranks: Decimal
    rho: bool

    def budget(self, amount: Decimal) -> Budget:
        return Budget(None, Fraction(amount)) if self.rho else Budget(Fraction(amount), None)

    def charges(self, k: int, predicates: int) -> tuple[Charge, ...]:
        """In native form; ranks among one predicate are known."""
        found = [Charge.of("exponential", epsilon=self.selection)] * k
        if self.influences:
            found.append(self._charge("laplace", self.influences))
        if comparisons(predicates):
            found.append(self._charge("pure", self.ranks))
        return tuple(found)

    def _charge(self, kind: str, amount: Decimal) -> Charge:
        return Charge.of("gaussian", rho=amount) if self.rho else Charge.of(kind, epsilon=amount)


@dataclass(frozen=True)
class Explaining:
    """The measure of an explanation.

    weights: of the compared groups, none of them 0. change, apart: the most by which one unit with all its rows moves
    an influence, resp. two influences apart (sensitivity.py), in lattice units. confidence: of each interval; joint:
    of those of the influences all together. lower: the lower bounds' share of what ranks cost. by_predicate: the
    statement adds up cells itself (cells.py). fine: `fineness`.
    Guarantee: the sum of the charges, for one unit with all it owns.
    """

    space: Predicates
    kind: Kind
    weights: tuple[Fraction, ...]
    k: int
    change: Fraction
    apart: Fraction
    price: Price
    confidence: Fraction
    joint: bool = False
    lower: Fraction = Fraction(1, 10)
    by_predicate: bool = False
    fine: int = FINE

    width = 1  # one binary value: all cells

    @property
    def released(self) -> int:
        """Picks, influences, lower and upper bounds of ranks."""
        return 4 * self.k

    def charges(self) -> tuple[Charge, ...]:
        return self.price.charges(self.k, len(self.space))

    @cached_property
    def steps(self) -> Fraction:
        """How many steps of the grid a lattice unit has: a power of 2, a public one."""
        found = Fraction(1)
        while self.change * found < self.fine:
            found *= 2
        while self.change * found >= 2 * self.fine:
            found /= 2
        return found

    @cached_property
    def moved(self) -> int:
        """By how many steps one unit moves a score at most."""
        return sensitivity.on_grid(self.change, self.steps)

    @cached_property
    def search(self) -> RankSearch:
        moved = sensitivity.on_grid(self.apart, self.steps, apart=True)
        budget = self.price.budget(self.price.ranks)
        return RankSearch(len(self.space), self.k, moved, budget, self.confidence, self.lower)

    @cached_property
    def margin(self) -> int:
        """Half of an influence's interval, steps."""
        miss = (1 - self.confidence) / (self.k if self.joint else 1)
        return self.price.budget(self.price.influences).margin(self.k, self.moved, miss)

    def release(self, exact: Sequence[Sequence[Any]], noise: NoiseSource, label: str) -> list[list[int]]:
        """`core` on the block's one cell."""
        return [core(cell[0] or b"", self, noise, label) for cell in exact]


def core(cells: bytes, how: Explaining, noise: NoiseSource, label: str) -> list[int]:
    """The places of k predicates, then of each its noisy score, then lower, then upper bounds of their ranks.

    cells: records of cells.RECORD, private; so are scores: influences on the grid.
    """
    from pg_epsilon.explain.cells import found_in  # numpy is not on the way of a count

    found = found_in(cells, how.space, len(how.weights), by_predicate=how.by_predicate)
    points = [0] * len(how.space)
    for place, score in zip(found.places, scores(how.kind, how.weights, found.cells, how.steps), strict=True):
        points[place] = score
    return drawn(points, how, noise, label)


def drawn(points: Sequence[int], how: Explaining, noise: NoiseSource, label: str) -> list[int]:
    """`core`, from the score of every predicate."""
    price, apart = how.price, how.search.moved
    picks = top(points, how.k, apart=apart, epsilon=Fraction(price.selection), noise=noise, label=f"{label} top")
    own = [points[place] for place in picks]
    shown = price.budget(price.influences).noisy(own, how.moved, noise, f"{label} influence")
    ordered = sorted(points, reverse=True)
    ranks = [how.search.interval(one, ordered, noise, f"{label} rank {n}") for n, one in enumerate(own, 1)]
    return [*picks, *shown, *(low for low, _ in ranks), *(high for _, high in ranks)]


def rows(raw: Sequence[int], how: Explaining) -> list[Row]:
    """What `core` released, in lattice units, in the order of the picks."""
    k, margin = how.k, how.margin
    parts = zip(raw[:k], raw[k : 2 * k], raw[2 * k : 3 * k], raw[3 * k :], strict=True)
    return [
        Row(
            how.space.text(place),
            float(noisy / how.steps),
            float((noisy - margin) / how.steps),
            float((noisy + margin) / how.steps),
            low,
            high,
        )
        for place, noisy, low, high in parts
    ]
