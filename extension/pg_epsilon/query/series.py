"""Group keys that are the same for every row of a declared partition: a series by days over partitions of a day.

Such a key says nothing of a row that its partition does not say, and partitions are public. Public facts only.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pg_epsilon.query import grid
from pg_epsilon.query.keys import Key
from pg_epsilon.query.literals import identifier, quote
from pg_epsilon.query.partition import AXES, cell
from pg_epsilon.query.policy import Policy
from pg_epsilon.query.types import Kind, Texts, type_of

MAX_SAMPLES = 1_000_000
_MICROSECONDS = 1_000_000
_EXACT = 1 << 53  # an interval is multiplied by a float8


def partition_key(policy: Policy) -> str | None:
    """The key of the declared grid, as generated SQL names it over the alias r; None without partitions."""
    return None if policy.partition_by is None else f"r.{identifier(policy.partition_by)}"


def values_of(
    keys: Sequence[Key], policy: Policy, first: int, last: int, texts: Texts
) -> list[tuple[str, ...] | None] | None:
    """What `keys` are for every row of each partition first … last; None of one in which rows may differ.

    keys: such as read the partition key alone. None where there is too much to look at, or no telling. A moment's key
    is constant on cells that are no shorter than its grain (grid.py): a cell that is whole in a partition has a sample
    there, one that begins or ends outside has the partition's first or last moment.
    """
    part = "dp_part" if policy.partition_by != "dp_part" else "dp_parts"
    samples = _samples(keys, policy, first, last, part)
    if samples is None:
        return None
    names = [f"k{i}" for i in range(len(keys))]
    own = ", ".join(f"{key.sql} AS {name}" for key, name in zip(keys, names, strict=True))
    low, high = ([f'pg_catalog.{end}({name} COLLATE pg_catalog."C")' for name in names] for end in ("min", "max"))
    same = " AND ".join(
        f"pg_catalog.count({name}) = pg_catalog.count(*) AND {least} = {most}"
        for name, least, most in zip(names, low, high, strict=True)
    )
    found = f"CASE WHEN {same} THEN pg_catalog.json_build_array({', '.join(low)})::pg_catalog.text END"
    rows = f"SELECT r.{part} AS p, {own} FROM ({samples} OFFSET 0) AS r"
    texts_of = grid.remembered(f"SELECT {found} AS v FROM ({rows}) AS s GROUP BY p ORDER BY p", texts)
    return [None if text is None else tuple(json.loads(text)) for text in texts_of]


def _samples(keys: Sequence[Key], policy: Policy, first: int, last: int, part: str) -> str | None:
    """SQL of values of each partition, with its number as column `part`."""
    if policy.grid is None or policy.partition_by is None:
        return None
    column = policy.relation.columns[policy.partition_by]
    type_name, name = type_of(column).name, identifier(column.name)
    if "list" in policy.grid:
        rows = ", ".join(
            f"({number}, {quote(cell(policy, number).lower)}::{type_name})" for number in range(first, last + 1)
        )
        return f"SELECT * FROM (VALUES {rows}) AS t({part}, {name})"
    moments = type_of(column).kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ)
    width, step = AXES[column.type_name].width(policy.grid["width"]), _step(keys) if moments else 1
    if step is None:
        return None
    size = (last - first + 1) * width
    if size >= _EXACT or (last - first + 1) * (width // step + 2) > MAX_SAMPLES:
        return None
    base = f"{quote(cell(policy, first).lower)}::{type_name}"
    if moments:
        value = f"{base} + '1 microsecond'::pg_catalog.interval * (p * {width} + o)"
    else:
        value = f"({base} + (p * {width} + o)::pg_catalog.int4)::{type_name}"
        if type_of(column).kind is Kind.INT:
            value = f"({base}::pg_catalog.int8 + p * {width} + o)::{type_name}"
    offsets = f"SELECT o FROM pg_catalog.generate_series(0::pg_catalog.int8, {width - 1}, {step}) AS o"
    ends = f"(VALUES ({width - 1}::pg_catalog.int8)) AS e(o)"
    return (
        f"SELECT p + {first} AS {part}, {value} AS {name}"
        f" FROM pg_catalog.generate_series(0::pg_catalog.int8, {last - first}) AS p,"
        f" ({offsets} UNION SELECT o FROM {ends}) AS w"
    )


def _step(keys: Sequence[Key]) -> int | None:
    """Microseconds between samples of moments, of which every cell of every key has one."""
    grains: list[Any] = [key.grain for key in keys]
    return min(grains) * _MICROSECONDS if all(isinstance(grain, int) and grain > 0 for grain in grains) else None
