"""Why a difference is there, from what was paid before: no row is read, nothing is charged (dpxplain.md §0).

Releases of the same rows by the keys of the compared groups and by others tell, with noise, what the rows of each value
of the other keys make of the difference.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations, product
from math import comb, fsum, prod
from typing import Any, NamedTuple

from pg_epsilon.explain.comparison import Comparison
from pg_epsilon.explain.forms import Barred, Cell, Form, Linear
from pg_epsilon.explain.linear import Term, cell_by_cell, margin, normal
from pg_epsilon.explain.table import Row

LEAST_MISS = 1e-9
"""Of one predicate: the tails of the noise are computed as far out as that."""

Known = tuple[float, float]
"""A number and its margin."""


class Misses(NamedTuple):
    """With what probability one interval may miss: of a weighted sum, of rows by predicate and group, by group."""

    sums: float
    rows: float
    groups: float


@dataclass(frozen=True)
class Split:
    """What a predicate may test: one more key of a release.

    name: the key as it was asked for; sql: tells it from others; conditions: of each of its values, as can be pasted
    into a WHERE clause.
    """

    name: str
    sql: str
    conditions: tuple[str, ...]


@dataclass(frozen=True)
class Source:
    """The compared groups of one release, split by its other keys.

    tests: those keys; values, rows: of each compared group, what was released of the aggregate, and of the number of
    its rows, for every combination of the tests' values, the last one's fastest: all `Linear` with one noise, or all
    `Barred`. Of counts both are the same.
    """

    request_id: str
    as_of: str
    tests: tuple[Split, ...]
    values: tuple[tuple[Form, ...], ...]
    rows: tuple[tuple[Form, ...], ...]

    def missed(self, groups: int) -> Fraction:
        """What its bars may miss, those of all groups together; of noisy cells 0."""
        kinds = (self.values,) if self.rows == self.values else (self.values, self.rows)
        return sum((missed(one[0], groups) for one in kinds), Fraction(0))

    def covers(self, tests: Sequence[str]) -> bool:
        return set(tests) <= {test.sql for test in self.tests}

    def added(self, forms: Sequence[Form], kept: Sequence[int]) -> list[Known]:
        """What is known of one group's rows of each combination of values of the kept tests, the last one's fastest.

        forms: of all combinations of all tests' values. A margin of 0 stands for that of the cells (`terms`).
        """
        sizes = [len(test.conditions) for test in self.tests]
        values: list[list[float]] = [[] for _ in range(prod(sizes[place] for place in kept))]
        bars: list[list[float]] = [[] for _ in values]
        for places, form in zip(product(*map(range, sizes)), forms, strict=True):
            at = 0
            for place in kept:
                at = at * sizes[place] + places[place]
            value, bar = known(form)
            values[at].append(value)
            bars[at].append(bar)
        return list(zip(map(fsum, values), map(fsum, bars), strict=True))

    def terms(self, forms: Sequence[Form], kept: Sequence[int], weight: Fraction = Fraction(1)) -> list[Term]:
        """The cells that one of `added` adds up; their values do not matter for the margin."""
        first = forms[0]
        if not isinstance(first, Linear):
            return []
        many = prod(len(test.conditions) for place, test in enumerate(self.tests) if place not in kept)
        return [(weight * first.step, Cell(0, first.cell.noise))] * many


@dataclass(frozen=True)
class Paid:
    """An explanation from what was paid: public.

    totals: how many rows each compared group has, as it was released. tests: what predicates test, each in at least one
    of the sources; most, up_to: of how many of them (`Space`). missing: columns that no source has. pairs: for how many
    pairs of groups all intervals hold at once; None: for all weights.
    """

    comparison: Comparison
    weights: tuple[Fraction, ...]
    totals: tuple[Form, ...]
    sources: tuple[Source, ...]
    tests: tuple[Split, ...]
    most: int
    up_to: bool
    k: int
    missing: tuple[str, ...]
    pairs: int | None

    def canonical(self) -> dict[str, Any]:
        """What tells this question from another one about releases."""
        return {
            "comparison": self.comparison.canonical(),
            "paid": [one.request_id for one in self.sources],
            "attributes": [test.sql for test in self.tests],
            "size": [self.most, self.up_to],
            "k": self.k,
        }

    @cached_property
    def subsets(self) -> tuple[tuple[int, ...], ...]:
        """Places of tests that one source has together, in the order of `Space`."""
        sizes = range(1 if self.up_to else self.most, self.most + 1)
        every = (one for size in sizes for one in combinations(range(len(self.tests)), size))
        return tuple(one for one in every if any(source.covers(self._sql(one)) for source in self.sources))

    @cached_property
    def predicates(self) -> int:
        return sum(prod(len(self.tests[place].conditions) for place in one) for one in self.subsets)

    @property
    def work(self) -> int:
        """How many cells are added up at most."""
        largest = max(len(one.values[0]) for one in self.sources)
        return 2 * len(self.weights) * largest * len(self.subsets)

    @cached_property
    def miss(self) -> Misses:
        """All intervals hold at once, for every pair that could be asked about (composition.md §7.3): what bars may
        miss is theirs; of the rest a quarter each is that of the pairs' sums, of single cells, from which follow sums
        of any other weights, of rows by predicate and of rows by group: who asks both after looking is promised all."""
        groups = self.groups
        bars = sum((one.missed(groups) for one in self.sources), missed(self.totals[:1], groups))
        left = 1 - self.comparison.question.confidence - bars
        if self.pairs is None:
            cells = sum(len(one.values[0]) for one in self.sources)
            sums = left / 4 / (groups * cells)
        else:
            sums = left / 4 / (self.predicates * self.pairs)
        return Misses(*map(float, (sums, left / 4 / (self.predicates * groups), left / 4 / groups)))

    @property
    def groups(self) -> int:
        """Of how many groups all numbers hold at once."""
        return self.comparison.released or len(self.weights)

    def _sql(self, subset: Sequence[int]) -> list[str]:
        return [self.tests[place].sql for place in subset]

    def _margin(self, source: Source, kept: Sequence[int]) -> float:
        """Half of the interval of the weighted sum of each predicate on these tests: by the source's design alone."""
        weighted = zip(source.values, self.weights, strict=True)
        terms = [term for forms, weight in weighted for term in source.terms(forms, kept, weight)]
        if self.pairs is None:
            return cell_by_cell(terms, self.miss.sums) if terms else 0.0
        return _margin(terms, self.miss.sums)

    @cached_property
    def found(self) -> tuple[Row, ...]:
        """Of every predicate its influence and its rank, with intervals that hold all at once."""
        texts: list[str] = []
        shares: list[tuple[float, float, float]] = []
        for subset in self.subsets:
            shares += self._influences(subset)
            tests = [self.tests[place] for place in subset]
            for places in product(*(range(len(test.conditions)) for test in tests)):
                texts.append(" AND ".join(test.conditions[at] for test, at in zip(tests, places, strict=True)))
        return ranked(texts, shares)

    def _influences(self, subset: Sequence[int]) -> list[tuple[float, float, float]]:
        """(influence, low, high) of each predicate on these tests, from the source that is nearest by its design."""
        wanted = self._sql(subset)
        choices = [
            (self._margin(source, kept), number, kept)
            for number, source in enumerate(self.sources)
            if source.covers(wanted)
            for kept in [[[test.sql for test in source.tests].index(sql) for sql in wanted]]
        ]
        half, number, kept = min(choices)
        source, ordered = self.sources[number], sorted(kept)
        sums = [source.added(forms, ordered) for forms in source.values]
        rows = [source.added(forms, ordered) for forms in source.rows]
        row_half = _margin(source.terms(source.rows[0], ordered), self.miss.rows)
        found = []
        for places in product(*(range(len(self.tests[place].conditions)) for place in subset)):
            by_place, at = dict(zip(kept, places, strict=True)), 0
            for place in ordered:
                at = at * len(source.tests[place].conditions) + by_place[place]
            weighted = list(zip(map(float, self.weights), (group[at] for group in sums), strict=True))
            moved = fsum(weight * value for weight, (value, _) in weighted)
            wide = half + fsum(abs(weight) * bar for weight, (_, bar) in weighted)
            inside = [(value, bar + row_half) for value, bar in (group[at] for group in rows)]
            found.append(_product(moved, wide, *self._left(inside)))
        return found

    @cached_property
    def _rows(self) -> list[Known]:
        """How many rows each compared group has, and the margin."""
        found = []
        for form in self.totals:
            value, bar = known(form)
            own = [(form.step, form.cell)] if isinstance(form, Linear) else []
            found.append((value, bar + _margin(own, self.miss.groups)))
        return found

    def _left(self, inside: Sequence[Known]) -> tuple[float, float, float]:
        """(value, low, high) of the share of rows left of the smallest group: influence.py's normaliser."""
        left = [(n - a, m + bar) for (n, m), (a, bar) in zip(self._rows, inside, strict=True)]
        least = min(value for value, _ in left), min(v - m for v, m in left), min(v + m for v, m in left)
        most = [max(max(0.0, n + sign * m) for n, m in self._rows) + 1 for sign in (0, 1, -1)]
        shares = [min(1.0, max(0.0, part) / whole) for part, whole in zip(least, most, strict=True)]
        return shares[0], shares[1], shares[2]

    @cached_property
    def top(self) -> tuple[Row, ...]:
        """The k of the largest influences; equal ones in the order of the predicates."""
        return tuple(sorted(self.found, key=lambda row: -row.influence)[: self.k])


def ranked(texts: Sequence[str], influences: Sequence[tuple[float, float, float]]) -> tuple[Row, ...]:
    """Predicates with their influences, (value, low, high) each, and the ranks that are possible where all intervals
    hold at once."""
    lows, highs, many = sorted(low for _, low, _ in influences), sorted(high for *_, high in influences), len(texts)
    return tuple(
        Row(text, value, low, high, 1 + many - bisect_right(lows, high), many - bisect_left(highs, low))
        for text, (value, low, high) in zip(texts, influences, strict=True)
    )


def known(form: Form) -> Known:
    """What was released, in the unit of the value, and the larger part of its bar; of noisy cells, 0."""
    if isinstance(form, Barred):
        return form.value, max(form.high - form.value, form.value - form.low)
    if not isinstance(form, Linear):
        raise ValueError("neither a cell nor a bar")
    return float(form.step * Fraction(form.cell.value)), 0.0


def missed(forms: Sequence[Form], groups: int) -> Fraction:
    """What the bars of so many groups may miss, of each group as many as these; of noisy cells 0."""
    first = forms[0]
    if not isinstance(first, Barred):
        return Fraction(0)
    return (1 - first.confidence) * (1 if first.uniform else groups * len(forms))


def pairs_of(comparison: Comparison, weights: Sequence[Fraction]) -> int | None:
    """For how many pairs of groups intervals hold at once; None: for all weights (composition.md §7.3)."""
    if comparison.released is None:
        return 1
    pair = len(weights) == 2 and weights[0] == -weights[1]
    return comb(comparison.released, 2) if pair else None


def _margin(terms: Sequence[Term], miss: float) -> float:
    """Of a sum of draws of one family, missed by `miss` at most; of no draws 0."""
    if not terms:
        return 0.0
    return normal(terms, miss) if terms[0][1].noise.is_gaussian else margin(terms, miss, None)[0]


def _product(moved: float, wide: float, share: float, low: float, high: float) -> tuple[float, float, float]:
    """(value, low, high) of a product of a number within `wide` of `moved` and a share of rows in [low, high]."""
    least, most = moved - wide, moved + wide
    return moved * share, least * (high if least < 0 else low), most * (high if most > 0 else low)
