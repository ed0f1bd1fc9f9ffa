"""Declared attributes as bins of a finite grid: which bin a row is in, and what a condition says of each bin.

A bin is what a group key of the column is (query/domain.py). Both maps are SQL: a row's bin, total, and the truth of a
condition on each bin, found by evaluating the condition itself over every declared value. Public facts only; no row is
read here (turbo.md §2.2, §2.3).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from math import prod

from pg_epsilon.errors import OUT_OF_RANGE, UNDECLARED, DPError
from pg_epsilon.query import grid
from pg_epsilon.query.cuts import Edges, constants, edges_of
from pg_epsilon.query.domain import cells, key_domain, key_sql
from pg_epsilon.query.literals import identifier, quote
from pg_epsilon.query.schema import Column
from pg_epsilon.query.types import EXACT, FoldError, Kind, Texts, size_of, type_of

MAX_BINS = 2**24
MAX_POINTS = 1_000_000  # declared values, or combinations of them, at which one condition is evaluated
MAX_TEXTS = 10_000  # bins of a column whose values have no arithmetic: each is an arm of a CASE

_WHOLE = "it is not about whole bins of its attributes"
_COLUMN = re.compile(r'\br\.("(?:[^"]|"")+")')


@dataclass(frozen=True)
class Attribute:
    """A column of a view. keys: its bins, as group keys, NULL last; bin_sql: a value's bin as int8, NULL outside all.

    points: SQL of every declared value, and its order, by which bins are told from each other; size: how many there
    are. edges: instead, where they cannot be listed.
    """

    name: str
    keys: tuple[str | None, ...]
    bin_sql: str
    points: str
    size: int
    edges: Edges | None = None

    @property
    def single(self) -> bool:
        """Whether each bin is one value, which then represents it exactly."""
        return self.edges is None and self.size == len(self.keys)

    def seen_by(self, sql: str) -> Attribute:
        """With values that stand for all others in this SQL. NotBins if it does more than comparing with constants."""
        if self.edges is None:
            return self
        found = constants(sql, self.edges)
        if found is None:
            raise NotBins(f"{self.name} is declared as ranges: conditions may compare it with constants, no more")
        points, size = self.edges.points(found)
        return replace(self, points=points, size=size)


class NotBins(Exception):
    """A condition, key or argument that is no function of the bins: another mechanism answers. Its text says why."""

    def __init__(self, why: str = _WHOLE) -> None:
        super().__init__(why)


@lru_cache(maxsize=1024)
def attribute(column: Column, relation: str = "<table>") -> Attribute:
    """The bins of a column, from its declaration alone.

    Errors: DP003 for a type that cannot be a key, DP004 without a finite domain, DP005 for too many values.
    """
    keys = key_domain(column, relation)
    policy = column.policy
    declared = column
    if policy is not None and policy.edges is not None and policy.domain is None:
        ends = replace(policy, kind="bounds", lower=policy.edges[0], upper=policy.edges[-1], edges=None)
        declared = replace(column, policy=ends)
    values = grid.declared_values(declared)
    if values is None or values.size > MAX_POINTS:
        edges = edges_of(column)
        if edges is not None:
            return Attribute(column.name, keys, _bin_sql(column, keys), "", 0, edges)
    if values is None and _in_steps(declared):
        raise _too_many(column.name, f"more than {MAX_POINTS}")
    if values is None:
        raise DPError(
            UNDECLARED,
            f"column {column.name} has no list of values from which its bins could be told",
            "Declare a domain, edges, or bounds of an integer, a date or a numeric(p,s).",
        )
    if values.size > MAX_POINTS:
        raise _too_many(column.name, f"{values.size}")
    return Attribute(column.name, keys, _bin_sql(column, keys), values.sql, values.size)


def _in_steps(column: Column) -> bool:
    """Whether its values are finitely many, between bounds, however many."""
    policy = column.policy
    stepped = size_of(column) is not None or (policy is not None and policy.resolution is not None)
    return policy is not None and policy.lower is not None and stepped and type_of(column).kind in EXACT


def _too_many(name: str, size: str) -> DPError:
    return DPError(
        OUT_OF_RANGE,
        f"column {name} has {size} values in its declared bounds; bins are told apart by at most {MAX_POINTS}",
        "Declare edges, or narrower bounds.",
    )


def _bin_sql(column: Column, keys: Sequence[str | None]) -> str:
    """The index of a row's bin among the keys, NULL for a value outside the declaration; total."""
    policy, x = column.policy, f"r.{identifier(column.name)}"
    null = f" WHEN {x} IS NULL THEN {len(keys) - 1}" if keys[-1] is None else ""
    if policy is not None and policy.domain is None and type_of(column).kind not in (Kind.BOOL, Kind.ENUM):
        if policy.edges is not None:
            type_name = type_of(column).name
            arms = "".join(
                f" WHEN {x} >= {quote(low)}::{type_name} AND {x} < {quote(high)}::{type_name} THEN {i}"
                for i, (low, high) in enumerate(pairwise(policy.edges))
            )
            return f"(CASE{null}{arms} END)::pg_catalog.int8"
        cell = cells(column, x)
        if cell is not None:
            return f"(CASE{null} WHEN {cell[0]} THEN {cell[1]} END)::pg_catalog.int8"
    if len(keys) > MAX_TEXTS:
        raise DPError(OUT_OF_RANGE, f"column {column.name} has more than {MAX_TEXTS} values", "Declare fewer.")
    arms = "".join(f" WHEN {quote(key)} THEN {i}" for i, key in enumerate(keys) if key is not None)
    text = f"(CASE {key_sql(column)}{arms} END)"
    return f"(CASE{null} ELSE {text} END)::pg_catalog.int8" if null else f"{text}::pg_catalog.int8"


def check_size(attributes: Sequence[Attribute]) -> int:
    """The number of bins of the whole grid, at most MAX_BINS: DP005 otherwise."""
    size = prod(len(one.keys) for one in attributes)
    if size > MAX_BINS:
        raise DPError(
            OUT_OF_RANGE,
            f"the attributes have {size} combinations of bins, more than {MAX_BINS}",
            "Enable fewer attributes, or declare coarser ones.",
        )
    return size


def index_sql(attributes: Sequence[Attribute]) -> str:
    """A row's bin in the whole grid, row-major, last attribute fastest; NULL for a row outside the declarations."""
    stride, terms = check_size(attributes), []
    for one in attributes:
        stride //= len(one.keys)
        terms.append(f"{one.bin_sql} * {stride}" if stride != 1 else one.bin_sql)
    return " + ".join(terms)


def read_by(sql: str, attributes: Sequence[Attribute]) -> tuple[int, ...]:
    """The attributes that generated SQL reads, by place. NotBins if it reads anything else."""
    if "SELECT" in sql:  # what a public table says can change with its rows
        raise NotBins("it has a condition on a public table")
    places = {identifier(one.name): place for place, one in enumerate(attributes)}
    names = set(_COLUMN.findall(sql))
    if not names <= places.keys():
        raise NotBins(f"{', '.join(sorted(names - places.keys()))} is no attribute of it")
    return tuple(sorted(places[name] for name in names))


def _names(attributes: Sequence[Attribute], places: Sequence[int]) -> str:
    return ", ".join(attributes[place].name for place in places)


def _points(sql: str, attributes: Sequence[Attribute], places: Sequence[int]) -> str:
    """The combinations of the attributes' declared values as relation r, with their bin in the grid of these alone, for
    SQL that reads no others."""
    own = [attributes[place].seen_by(sql) for place in places]
    if prod(one.size for one in own) > MAX_POINTS:
        raise NotBins
    parts, index, stride = [], [], prod(len(one.keys) for one in own)
    for i, one in enumerate(own):
        stride //= len(one.keys)
        name = identifier(one.name)
        parts.append(
            f"(SELECT r.{name} AS v, {one.bin_sql} AS b FROM ({one.points}) AS r({name}, dp_order) OFFSET 0) AS p{i}"
        )
        index.append(f"p{i}.b * {stride}")
    columns = ", ".join(f"p{i}.v AS {identifier(one.name)}" for i, one in enumerate(own))
    return f"(SELECT {columns}, {' + '.join(index)} AS dp_bin FROM {', '.join(parts)} OFFSET 0) AS r"


def truth(condition: str, attributes: Sequence[Attribute], texts: Texts) -> tuple[tuple[int, ...], str]:
    """(The attributes that a condition reads, '1' or '0' for each of their bins, row-major).

    NotBins if it is true for some declared values of a bin and not for others: the bin is cut.
    """
    places = read_by(condition, attributes)
    if not places:
        (found,) = _run(f"SELECT CASE WHEN ({condition}) THEN '1' ELSE '0' END AS v", texts)
        return (), found or "0"
    inner = (
        f"SELECT r.dp_bin, bool_and(({condition}) IS TRUE) AS a, bool_or(({condition}) IS TRUE) AS o"
        f" FROM {_points(condition, attributes, places)} WHERE r.dp_bin IS NOT NULL GROUP BY r.dp_bin"
    )
    bits = "CASE WHEN a THEN '1' WHEN o THEN 'x' ELSE '0' END"
    (found,) = _run(f"SELECT string_agg({bits}, '' ORDER BY dp_bin) AS v FROM ({inner}) AS g", texts)
    if found is None or "x" in found or len(found) != prod(len(attributes[p].keys) for p in places):
        raise NotBins(f"a condition cuts through a declared range of {_names(attributes, places)}")
    return places, found


def key_of_bins(sql: str, attributes: Sequence[Attribute], texts: Texts) -> tuple[tuple[int, ...], list[str | None]]:
    """(The attributes that a group key reads, the key of each of their bins, row-major). NotBins if a bin is cut."""
    places = read_by(sql, attributes)
    if not places:
        raise NotBins
    inner = (
        f"SELECT r.dp_bin, min(k) AS k, min(k) IS NOT DISTINCT FROM max(k) AND count(k) IN (0, count(*)) AS one FROM"
        f' (SELECT r.dp_bin, ({sql}) COLLATE pg_catalog."C" AS k FROM {_points(sql, attributes, places)}) AS r'
        " WHERE r.dp_bin IS NOT NULL GROUP BY r.dp_bin"
    )
    found = _run(f"SELECT CASE WHEN NOT one THEN 'x' ELSE '=' || k END AS v FROM ({inner}) AS g ORDER BY dp_bin", texts)
    if "x" in found or len(found) != prod(len(attributes[p].keys) for p in places):
        raise NotBins(f"a group key cuts through a declared range of {_names(attributes, places)}")
    return places, [None if text is None else text[1:] for text in found]


def values_of_bins(sql: str, attributes: Sequence[Attribute], texts: Texts) -> tuple[tuple[int, ...], list[int | None]]:
    """(The attributes that an integer expression reads, its value on each of their bins, row-major; None for NULL).

    NotBins unless every one of these bins is a single value: a representative would be off (turbo.md §2.3).
    """
    places, found = texts_of_bins(sql, attributes, texts)
    if not places:
        raise NotBins
    return places, [None if text is None else int(text) for text in found]


def texts_of_bins(sql: str, attributes: Sequence[Attribute], texts: Texts) -> tuple[tuple[int, ...], list[str | None]]:
    """The same of any expression, whose values are shown as texts; of one that reads no attribute, its one value."""
    places = read_by(sql, attributes)
    if not places:
        return (), list(_run(f"SELECT ({sql})::pg_catalog.text AS v", texts))
    ranges = [place for place in places if not attributes[place].single]
    if ranges:
        raise NotBins(f"the values of {_names(attributes, ranges)} are declared as ranges")
    inner = f"SELECT r.dp_bin, ({sql})::pg_catalog.text AS v FROM {_points(sql, attributes, places)}"
    found = _run(f"SELECT v FROM ({inner}) AS g WHERE dp_bin IS NOT NULL ORDER BY dp_bin", texts)
    if len(found) != prod(len(attributes[p].keys) for p in places):
        raise NotBins
    return places, list(found)


# What a query over constants alone gave: the same for ever.
_known: dict[str, tuple[str | None, ...]] = {}
_KEPT = 512


def _run(query: str, texts: Texts) -> tuple[str | None, ...]:
    if query not in _known:
        try:
            found = tuple(texts(query))
        except FoldError:
            raise NotBins from None
        if len(found) > MAX_POINTS or sum(len(text or "") for text in found) > MAX_POINTS:
            return found
        while len(_known) >= _KEPT:
            _known.pop(next(iter(_known)))
        _known[query] = found
    return _known[query]
