"""The paper's experiments on released families: rows, classes and queries (numeric-release.md §12).

| table | classes | value | queries |
|---|---|---|---|
| transfusion | donations 1 … 50 | months / donations, at most 200 / a | all 1,275 ranges |
| adult_loss, adult_gain | ages 1 … 100 x education 1 … 16 | 0 … 4,396; 0 … 99,999 | 32,395 boxes |
| adult_hours | as adult_loss | hours a week, 0 … 99 | 1,045 ranges of ages |
| bank | ages 1 … 100 x housing x loan | balance above 0, at most 2^17 | 4,180 |
| tpch | 84 months x discount 0 … 10 % x quantity 1 … 10 | price x discount <= 10,500 | 75,360 |

A range of ages has up to 11 of them; a box of Adult's one or two levels of education. Bounds and
domains are the paper's, some of which it took from the data (§13): they are what its figures need,
and nothing that a release may do. Balances below 0 count as 0, as in its figure 6. TPC-H is at
scale 0.01, a hundredth of the paper's rows; quantities above 10, which no query asks for, are in no
class.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import release_data
from pg_epsilon.release.predicates import Boxes

ROOT = Path(__file__).resolve().parents[2]
Array = np.ndarray[Any, np.dtype[Any]]
AGES, LEVELS = 100, 16
MONTHS, YEAR = 84, 1992
BALANCE = 2**17


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of a class and a value, and boxes of classes whose sums are asked for.

    places: [row], the class, flat over `sizes`; -1: of none. low, high: [query, axis], half open.
    bound: values are 0 … bound. whole: whether values are integers. most: max_rows. ranges: whether
    queries are ranges of the first axis, with one value, or all, of each other axis.
    """

    name: str
    sizes: tuple[int, ...]
    places: Array
    values: tuple[Fraction, ...]
    low: Array
    high: Array
    bound: Fraction
    whole: bool = True
    most: int = 100_000
    ranges: bool = False

    @property
    def queries(self) -> int:
        return len(self.low)

    @property
    def boxes(self) -> Boxes:
        return Boxes(self.sizes, self.low, self.high)

    @property
    def rows(self) -> list[tuple[int | None, Fraction]]:
        inside = ((int(place) if place >= 0 else None) for place in self.places)
        return list(zip(inside, self.values, strict=True))

    @cached_property
    def truth(self) -> Array:
        """The exact answers: sums of the values' numerators over one denominator."""
        whole = int(np.lcm.reduce([value.denominator for value in set(self.values)]))
        sums = np.zeros(int(np.prod(self.sizes)), dtype=np.int64)
        known = self.places >= 0
        counts = np.array([int(value * whole) for value in self.values])
        np.add.at(sums, self.places[known], counts[known])
        return np.asarray(self.boxes.by_query(sums[:, None])[:, 0] / whole)

    def some(self, queries: Array, name: str) -> Table:
        """The same with some of its queries."""
        return replace(self, name=name, low=self.low[queries], high=self.high[queries])


def lines(path: str) -> Iterator[dict[str, str]]:
    with gzip.open(ROOT / path, "rt") as file:
        yield from csv.DictReader(file)


def intervals(size: int, most: int) -> list[tuple[int, int]]:
    """Half open, of up to `most` values of 0 … size - 1."""
    spans = ((low, min(size, low + most)) for low in range(size))
    return [(low, high) for low, last in spans for high in range(low + 1, last + 1)]


def boxes(*axes: list[tuple[int, int]]) -> tuple[Array, Array]:
    """low and high of all combinations."""
    grids = np.meshgrid(*(np.arange(len(axis)) for axis in axes), indexing="ij")
    found = [np.array(axis)[grid.ravel()] for axis, grid in zip(axes, grids, strict=True)]
    return np.stack([one[:, 0] for one in found], 1), np.stack([one[:, 1] for one in found], 1)


def transfusion() -> Table:
    rows = release_data.donors()
    low, high = np.array(list(combinations_with_replacement(range(1, release_data.MOST + 1), 2))).T
    places = np.array([frequency - 1 for frequency, _ in rows])
    values = tuple(pace for _, pace in rows)
    asked = ((low - 1)[:, None], high[:, None])
    sizes = (release_data.MOST,)
    own = (places, values, *asked, Fraction(200), False, 1000)
    return Table("transfusion", sizes, *own, ranges=True)


@lru_cache
def people() -> tuple[dict[str, str], ...]:
    """Adult's rows; the demo carries them."""
    return tuple(lines("demo/data/adult.csv.gz"))


def adult(name: str) -> Table:
    """name: loss, gain or hours."""
    column, bound = {
        "loss": ("capital_loss", 4396),
        "gain": ("capital_gain", 99_999),
        "hours": ("hours_per_week", 99),
    }[name]
    own = people()
    ages = np.array([int(line["age"]) for line in own])
    levels = np.array([int(line["education_num"]) for line in own])
    values = tuple(Fraction(int(line[column])) for line in own)
    education = [(0, LEVELS)] if name == "hours" else intervals(LEVELS, 2)
    asked = boxes(intervals(AGES, 11), education)
    places = (ages - 1) * LEVELS + levels - 1
    sizes = (AGES, LEVELS)
    own_ranges = name == "hours"
    return Table(
        f"adult_{name}",
        sizes,
        places,
        values,
        *asked,
        Fraction(bound),
        ranges=own_ranges,
    )


@lru_cache
def clients() -> tuple[tuple[int, bool, bool, int], ...]:
    """Age, housing loan, personal loan, balance of the Bank's clients."""
    return tuple(
        (int(line["age"]), line["housing"] == "yes", line["loan"] == "yes", int(line["balance"]))
        for line in lines("tests/data/bank.csv.gz")
    )


def bank() -> Table:
    own = clients()
    places = np.array([(age - 1) * 4 + 2 * housing + loan for age, housing, loan, _ in own])
    values = tuple(Fraction(max(balance, 0)) for *_, balance in own)
    asked = boxes(intervals(AGES, 11), intervals(2, 1), intervals(2, 1))
    return Table("bank", (AGES, 2, 2), places, values, *asked, Fraction(BALANCE), ranges=True)


def tpch() -> Table:
    places, values = [], []
    for line in lines("tests/data/tpch/lineitem.csv.gz"):
        year, month, _ = map(int, line["l_shipdate"].split("-"))
        time, quantity = 12 * (year - YEAR) + month - 1, int(line["l_quantity"])
        discount = round(100 * Fraction(line["l_discount"]))
        known = quantity <= 10 and 0 <= time < MONTHS
        places.append((time * 11 + discount) * 10 + quantity - 1 if known else -1)
        values.append(Fraction(line["l_extendedprice"]) * discount / 100)
    asked = boxes(intervals(MONTHS, 12), [(c - 1, c + 2) for c in range(2, 10)], intervals(10, 1))
    sizes = (MONTHS, 11, 10)
    return Table("tpch", sizes, np.array(places), tuple(values), *asked, Fraction(10_500), False)
