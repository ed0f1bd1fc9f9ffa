"""The core of grouped counts: every declared key gets a cell, empty ones too, and every cell gets noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

from pg_epsilon.mechanisms import count
from pg_epsilon.mechanisms.count import CountNoise
from pg_epsilon.noise import NoiseSource

Group = tuple[str | None, ...]


def groups(domains: Sequence[Sequence[str | None]]) -> list[Group]:
    """All combinations of the declared domains, in declared order: the complete, data-independent list of groups."""
    return list(product(*domains))


def core(
    statistics: Mapping[Group, Sequence[int]],
    domains: Sequence[Sequence[str | None]],
    how: Sequence[CountNoise],
    noise: NoiseSource,
) -> list[tuple[Group, list[int]]]:
    """Noisy counts per group and aggregate.

    statistics: group → exact counts, one per aggregate; groups without rows may be absent. how: per aggregate, the
    sensitivity of its vector over all groups and its share of the budget. An ungrouped block is the one group ().
    Guarantee: the sum of the aggregates' charges, for one unit with all it owns (composition.md §2.4 decides the
    sensitivities: groups are disjoint for row units only). Source: composition.md §2, §3.8.
    """
    wanted = groups(domains)
    empty = [0] * len(how)
    exact = [statistics.get(group, empty) for group in wanted]
    columns = [count.core([row[i] for row in exact], each, noise, f"a{i + 1}") for i, each in enumerate(how)]
    return [(group, [column[j] for column in columns]) for j, group in enumerate(wanted)]
