"""The core of a block: every declared group gets a cell, empty ones too, and every cell gets noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import Protocol

from pg_epsilon.accounting.charges import Charge
from pg_epsilon.noise import NoiseSource

Group = tuple[str | None, ...]


class Measure(Protocol):
    """A released vector: `width` exact integers a cell in, some released integers a cell out."""

    @property
    def width(self) -> int: ...

    @property
    def released(self) -> int: ...

    def charges(self) -> tuple[Charge, ...]: ...

    def release(self, exact: Sequence[Sequence[int]], noise: NoiseSource, label: str) -> Sequence[Sequence[int]]: ...


def groups(domains: Sequence[Sequence[str | None]]) -> list[Group]:
    """All combinations of the declared domains, in declared order: the complete, data-independent list of groups."""
    return list(product(*domains))


def reading_order(domains: Sequence[Sequence[str | None]], places: Sequence[int]) -> list[int]:
    """The numbers of all groups in the order of whoever asked for the keys in the order of `places`."""
    asked = list(dict.fromkeys(places))
    strides = [prod(len(domain) for domain in domains[place + 1 :]) for place in asked]
    walks = product(*(range(len(domains[place])) for place in asked))
    return [sum(step * stride for step, stride in zip(walk, strides, strict=True)) for walk in walks]


def core(
    statistics: Mapping[Group, Sequence[int]],
    domains: Sequence[Sequence[str | None]],
    measures: Sequence[Measure],
    noise: NoiseSource,
) -> list[list[int]]:
    """The released integers of every group, in the order of `groups`: those of each measure, side by side.

    statistics: group → exact integers, each measure's `width` of them; groups without rows may be absent. measures:
    their sensitivities over all groups and shares of the budget. An ungrouped block is the one group ().
    Guarantee: the sum of the measures' charges, for one unit with all it owns (composition.md §2.4 decides the
    sensitivities: groups are disjoint for row units only). Source: composition.md §2, §3.8.
    """
    wanted = groups(domains)
    empty = [0] * sum(measure.width for measure in measures)
    exact = [statistics.get(group, empty) for group in wanted]
    released: list[list[int]] = [[] for _ in wanted]
    start = 0
    for i, measure in enumerate(measures, 1):
        cells = [cell[start : start + measure.width] for cell in exact]
        for cell, values in zip(released, measure.release(cells, noise, f"a{i}"), strict=True):
            cell.extend(values)
        start += measure.width
    return released
