"""Declared columns → what predicates may test: values, NULL, and what is not declared (dpxplain.md §6.1).

Public facts alone: the values are those of a GROUP BY of the column (query/domain.py), whether a row has them or not.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date, timedelta
from decimal import Decimal
from itertools import pairwise

from pg_epsilon.errors import OUT_OF_RANGE, DPError
from pg_epsilon.explain.space import Attribute
from pg_epsilon.query.domain import cells, grid_size, key_domain, key_sql
from pg_epsilon.query.literals import identifier, quote
from pg_epsilon.query.schema import Column
from pg_epsilon.query.types import MOMENTS, NUMBERS, Kind, type_of

MOST_VALUES = 65_536  # of one attribute: its values stand in the statement
FEW = 24  # values that are found faster one by one than in an object


def attribute(name: str, column: Column, alias: str, relation: str) -> Attribute:
    """What a predicate may test of a declared column of a protected relation.

    name: as the predicate names the column; alias: the relation's in generated SQL; relation: for hints. In order: the
    declared values, NULL unless the column has none, and what is not declared unless the type has no such value.
    Ranges are closed below and open above, as declared. Errors: DP003, DP004, DP005 of a column without such a domain.
    """
    keys = [key for key in key_domain(column, relation) if key is not None]
    policy = column.policy
    conditions, outside = _declared(name, column, keys)
    nullable = policy is None or policy.nullable
    found = [*conditions, *([f"{name} IS NULL"] if nullable else []), *([outside] if outside else [])]
    return _attribute(name, found, len(keys), _place(column, alias, keys), f"{alias}.{identifier(column.name)}")


def has_many_values(column: Column, most: int) -> bool:
    """Whether a column has more declared values than that, by bounds alone: without making a list of them."""
    policy = column.policy
    listed = policy is None or policy.domain is not None or policy.edges is not None
    return not listed and (grid_size(column) or 0) > most


def public_attribute(name: str, column: Column, sql: str, domain: Sequence[str | None]) -> Attribute:
    """The same of a column of a public table, from the values that the table has; sql: of a row's value as text."""
    keys = [key for key in domain if key is not None]
    nullable = None in domain
    found = [_equal(name, column, key) for key in keys] + ([f"{name} IS NULL"] if nullable else [])
    return _attribute(name, found, len(keys), _listed(keys, sql), sql)


def _attribute(name: str, conditions: Sequence[str], declared: int, place: str, x: str) -> Attribute:
    """declared: how many of the conditions are of declared values; place: SQL of a value's place, NULL of any other."""
    if len(conditions) > MOST_VALUES:
        raise DPError(
            OUT_OF_RANGE,
            f"column {name} has {len(conditions)} values, more than {MOST_VALUES}",
            f"Leave it out: leave_out => '{{{name}}}'.",
        )
    last = len(conditions) - 1
    rest = f"CASE WHEN ({x}) IS NULL THEN {declared} ELSE {last} END" if last > declared else str(last)
    return Attribute(name, tuple(conditions), f"coalesce({place}, {rest})")


def _place(column: Column, alias: str, keys: Sequence[str]) -> str:
    """SQL of the place of a row's value among the declared ones, NULL of every other value."""
    policy, kind, x = column.policy, type_of(column).kind, f"{alias}.{identifier(column.name)}"
    if policy is not None and policy.domain is None and kind in NUMBERS | MOMENTS:
        if policy.edges is not None:
            places = ",".join(["NULL", *map(str, range(len(policy.edges) - 1)), "NULL"])
            edges = ",".join(f'"{edge}"' for edge in policy.edges)
            bucket = f"pg_catalog.width_bucket({x}, '{{{edges}}}'::{type_of(column).name}[])"
            return f"('{{{places}}}'::pg_catalog.int4[])[{bucket} + 1]"
        if (grid := cells(column, x)) is not None:
            return f"(CASE WHEN {grid[0]} THEN {grid[1]} END)::pg_catalog.int4"
    return _listed(keys, key_sql(column, alias))


def _listed(keys: Sequence[str], sql: str) -> str:
    if len(keys) <= FEW:
        arms = " ".join(f"WHEN {quote(key)} THEN {place}" for place, key in enumerate(keys))
        return f"CASE {sql} {arms} END"
    codes = quote(json.dumps({key: place for place, key in enumerate(keys)}, ensure_ascii=False))
    return f"({codes}::pg_catalog.jsonb OPERATOR(pg_catalog.->>) ({sql}))::pg_catalog.int4"


def _declared(name: str, column: Column, keys: Sequence[str]) -> tuple[list[str], str | None]:
    """Conditions of the declared values, and of all others; None: there are none."""
    policy, kind = column.policy, type_of(column).kind
    edges = None if policy is None else policy.edges
    if policy is not None and policy.domain is None and edges is not None and kind not in (Kind.BOOL, Kind.ENUM):
        shown = [_shown(column, edge) for edge in edges]
        ranges = [f"{name} >= {low} AND {name} < {high}" for low, high in pairwise(shown)]
        return ranges, f"({name} < {shown[0]} OR {name} >= {shown[-1]})"
    listed = policy is None or policy.domain is not None or policy.lower is None or policy.upper is None
    if listed or kind in (Kind.BOOL, Kind.ENUM):
        return [_equal(name, column, key) for key in keys], _unlisted(name, column, keys)
    assert policy is not None and policy.lower is not None and policy.upper is not None  # noqa: S101 -- `listed`
    low, high = _shown(column, policy.lower), _shown(column, policy.upper)
    outside = f"({name} < {low} OR {name} > {high})"
    if _are_steps(kind, keys, policy.resolution):
        return [_equal(name, column, key) for key in keys], outside
    starts = [_shown(column, key) for key in keys]
    ranges = [f"{name} >= {start} AND {name} < {end}" for start, end in pairwise(starts)]
    return [*ranges, f"{name} >= {starts[-1]} AND {name} <= {high}"], outside


def _unlisted(name: str, column: Column, keys: Sequence[str]) -> str | None:
    """What is not NULL and not listed, unless the type has listed values alone."""
    type_ = type_of(column)
    all_of_them = {Kind.BOOL: {"t", "f"}, Kind.ENUM: set(type_.labels or ())}.get(type_.kind)
    if all_of_them is not None and all_of_them <= set(keys):
        return None
    listed = ", ".join(_shown(column, key) for key in keys)
    return f"{name} IS NOT NULL AND {name} NOT IN ({listed})"


def _are_steps(kind: Kind, keys: Sequence[str], resolution: str | None) -> bool:
    """Whether each cell of a grid has one value of the type."""
    if kind is Kind.INT:
        return resolution is None or Decimal(resolution) == 1
    if kind is not Kind.DATE or len(keys) < 2:
        return False
    return date.fromisoformat(keys[1]) - date.fromisoformat(keys[0]) == timedelta(1)


def _equal(name: str, column: Column, key: str) -> str:
    return f"{name} = {_shown(column, key)}"


def _shown(column: Column, text: str) -> str:
    """A value as SQL has it: numbers and truth values without quotes."""
    kind = type_of(column).kind
    if kind is Kind.BOOL:
        return "true" if text == "t" else "false"
    if kind in NUMBERS and Decimal(text).is_finite():
        return text
    return quote(text)
