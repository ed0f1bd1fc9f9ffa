"""What is drawn to explain an expression of groups: predicates, and bounds of their ranks (dpxplain.md §7.2).

One row may move an influence on an expression without bound, so that none is shown. What a row moves by 1 at most is
how many rows a predicate is away from a rank: predicates are chosen by how few rows may bring them among the k
largest, and their ranks are searched by such distances.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from pg_epsilon.accounting.charges import Charge
from pg_epsilon.explain.cells import found_in
from pg_epsilon.explain.distance import Distances, Limits
from pg_epsilon.explain.expressed import Influences
from pg_epsilon.explain.formula import Formula
from pg_epsilon.explain.measure import Price
from pg_epsilon.explain.ranking import UPPER, RankSearch, comparisons, top
from pg_epsilon.explain.space import Predicates
from pg_epsilon.noise import NoiseSource

IDLE = 20
"""e^-20 is the chance that a predicate is chosen whose distance is no longer told apart from others."""


@dataclass(frozen=True)
class Ranked:
    """The measure of an explanation of an expression.

    units: how many rows of one unit are looked at. price: without influences. lower: the lower bounds' share of what
    ranks cost. by_predicate: the statement adds up cells itself (cells.py).
    Guarantee: the sum of the charges, for one unit with all it owns.
    """

    space: Predicates
    formula: Formula
    k: int
    units: int
    price: Price
    confidence: Fraction
    lower: Fraction = Fraction(1, 10)
    by_predicate: bool = False

    width = 1  # one binary value: all cells

    @property
    def released(self) -> int:
        """Picks, lower and upper bounds of ranks."""
        return 3 * self.k

    def charges(self) -> tuple[Charge, ...]:
        return self.price.charges(self.k, len(self.space))

    @cached_property
    def search(self) -> RankSearch:
        budget = self.price.budget(self.price.ranks)
        return RankSearch(len(self.space), self.k, self.units, budget, self.confidence, self.lower)

    @property
    def farthest(self) -> int:
        """The largest distance that a selection tells: predicates as far are chosen with a chance of e^-20 together."""
        bits = len(self.space).bit_length()  # more than the natural logarithm
        return math.ceil(2 * self.units * (bits + IDLE) / Fraction(self.price.selection))

    @property
    def caps(self) -> dict[int, int]:
        """The largest distance that a search for each bound tells (`RankSearch.cap`)."""
        return {-UPPER: self.search.cap(self.lower), UPPER: self.search.cap(1 - self.lower)}

    @property
    def work(self) -> int:
        """How many intervals are computed at most, each of all predicates."""
        many = len(self.space)
        bits = sum(cap.bit_length() for cap in self.caps.values())
        chosen = min(self.farthest, many * self.farthest.bit_length())
        looked_at = chosen + self.k * comparisons(many) * bits
        return looked_at * self.formula.operations

    def release(self, exact: Sequence[Sequence[Any]], noise: NoiseSource, label: str) -> list[list[int]]:
        """`core` on the block's one cell."""
        return [core(cell[0] or b"", self, noise, label) for cell in exact]


def core(cells: bytes, how: Ranked, noise: NoiseSource, label: str) -> list[int]:
    """The places of k predicates, then lower, then upper bounds of their ranks.

    cells: records of cells.RECORD, private.
    """
    found = found_in(cells, how.space, how.formula.groups, by_predicate=how.by_predicate)
    return drawn(Influences.of(how.formula, found, len(how.space)).limits, how, noise, label)


def drawn(limits: Limits, how: Ranked, noise: NoiseSource, label: str) -> list[int]:
    """`core`, from the limits of every predicate's influence."""
    scores = [-one for one in Distances(limits, how.farthest).all_to_be_as_high(how.k)]
    # One row may bring one predicate nearer and take another one away.
    epsilon, apart = Fraction(how.price.selection), 2 * how.units
    picks = top(scores, how.k, apart=apart, epsilon=epsilon, noise=noise, label=f"{label} top")
    distances = {direction: Distances(limits, cap) for direction, cap in how.caps.items()}

    def interval(place: int, name: str) -> tuple[int, int]:
        def above(direction: int, rank: int) -> int:
            found = distances[direction]
            return found.to_be_as_low(place, rank) if direction == UPPER else -found.to_be_as_high(place, rank)

        return how.search.bounds(above, noise, name)

    ranks = [interval(place, f"{label} rank {n}") for n, place in enumerate(picks, 1)]
    return [*picks, *(low for low, _ in ranks), *(high for _, high in ranks)]


def rows(raw: Sequence[int], how: Ranked) -> list[tuple[str, int, int]]:
    """(predicate, lowest, highest rank) of what `core` released: by the highest rank, by the lowest, by the text."""
    k = how.k
    found = [(how.space.text(p), low, high) for p, low, high in zip(raw[:k], raw[k : 2 * k], raw[2 * k :], strict=True)]
    return sorted(found, key=lambda row: (row[2], row[1], row[0].encode()))
