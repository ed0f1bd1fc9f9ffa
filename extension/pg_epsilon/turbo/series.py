"""Groups that are partitions: each is a window of its own, paid by its own leaves (turbo.md §2.3, composition.md §3.2).

A row is in one partition, and partitions are public: windows that share none cost one epsilon together. The keys that
are left are about the view's attributes, the same ones in every window.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby, product

from pg_epsilon.query import series
from pg_epsilon.query.attributes import NotBins
from pg_epsilon.query.keys import Key
from pg_epsilon.query.request import Request
from pg_epsilon.query.types import Texts


@dataclass(frozen=True)
class Spans:
    """spans: the windows, by their first and last partition. cells: of each group of the request, the number of its
    window and of its group there; None for a group in which no row of the request can be: its value is 0."""

    spans: tuple[tuple[int, int], ...]
    cells: tuple[tuple[int | None, int], ...]


def split(request: Request) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The places of the keys that read the partition key alone, and of all others."""
    column = series.partition_key(request.policy)
    own = tuple(i for i, key in enumerate(request.keys) if _reads(key, column))
    return own, tuple(i for i in range(len(request.keys)) if i not in own)


def _reads(key: Key, column: str | None) -> bool:
    return key.columns == {column} and "SELECT" not in key.sql  # of a public table, which can change


def whole(request: Request, first: int, last: int) -> Spans:
    """Of a request whose keys are attributes: one window."""
    return Spans(((first, last),), tuple((0, cell) for cell in range(request.cells)))


def spans(request: Request, first: int, last: int, texts: Texts) -> Spans:
    """The windows of a request about the partitions first … last. NotBins for a key that cuts through a partition."""
    own, rest = split(request)
    if not own:
        return whole(request, first, last)
    found = series.values_of([request.keys[i] for i in own], request.policy, first, last, texts)
    if found is None:
        raise NotBins("its groups cannot be told from partitions")
    if None in found:
        raise NotBins("a group of it is a part of a partition")
    runs = [
        (value, [number for number, _ in run]) for value, run in groupby(enumerate(found, first), lambda one: one[1])
    ]
    if len({value for value, _ in runs}) < len(runs):
        raise NotBins("a group of it is of partitions that are no neighbours")
    declared = set(product(*(request.keys[i].domain for i in own)))
    named = [(value, (parts[0], parts[-1])) for value, parts in runs if value in declared]
    numbers = {value: number for number, (value, _) in enumerate(named)}
    cells = []
    for group in product(*(range(len(key.domain)) for key in request.keys)):
        value = tuple(request.keys[i].domain[group[i]] for i in own)
        number = 0
        for i in rest:
            number = number * len(request.keys[i].domain) + group[i]
        cells.append((numbers.get(value), number))
    return Spans(tuple(span for _, span in named), tuple(cells))
