"""What CALL dp.make_synthetic asks for: the request member "synthesize", validated by public facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

from pg_epsilon.errors import OUT_OF_RANGE, SHAPE, UNDECLARED, DPError
from pg_epsilon.query import members
from pg_epsilon.query.policy import Policy
from pg_epsilon.query.schema import Column
from pg_epsilon.synthesis.variables import Variable, variable

METHODS = ("marginals",)
MAX_COLUMNS = 48
MAX_TABLE = 65_536  # cells of one joint table: a larger one is not counted
MAX_STATISTICS = 4_000_000  # cells of all tables that are counted
BINS = (4, 1000)
_MEMBERS = frozenset({"columns", "bins", "method"})
_QUESTION = ("joins", "where", "keys", "aggregates", "query", "decide", "bars")  # members of a question


@dataclass(frozen=True)
class Layout:
    """Where the counts stand in one vector: all rows, then each variable's cells, then each pair's table by rows.

    pairs: those of variables whose joint table is small enough to be counted; by public sizes.
    """

    sizes: tuple[int, ...]

    @cached_property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        numbers = range(len(self.sizes))
        return tuple((i, j) for i in numbers for j in numbers[i + 1 :] if self.sizes[i] * self.sizes[j] <= MAX_TABLE)

    @cached_property
    def ones(self) -> tuple[int, ...]:
        """Where each variable's cells start."""
        return tuple(accumulate(self.sizes[:-1], initial=1))

    @cached_property
    def twos(self) -> tuple[int, ...]:
        """Where each pair's table starts."""
        areas = [self.sizes[i] * self.sizes[j] for i, j in self.pairs]
        return tuple(accumulate(areas, initial=1 + sum(self.sizes)))[:-1]

    @cached_property
    def total(self) -> int:
        return 1 + sum(self.sizes) + sum(self.sizes[i] * self.sizes[j] for i, j in self.pairs)


@dataclass(frozen=True)
class Synthesis:
    """The columns of a synthetic table, in order."""

    variables: tuple[Variable, ...]
    bins: int
    method: str

    @cached_property
    def layout(self) -> Layout:
        return Layout(tuple(one.size for one in self.variables))

    def canonical(self) -> dict[str, Any]:
        """What tells this request from another; the policy says the rest."""
        return {"columns": [one.name for one in self.variables], "bins": self.bins, "method": self.method}


def compile_synthesis(document: Mapping[str, Any], policy: Policy) -> Synthesis | None:
    """The request's member "synthesize" → `Synthesis`, if there is one: of a relation, and of nothing else.

    Errors: DP003, DP004 where nothing (or a named column) has declared values, DP005 above the limits, which are on
    public sizes; 42703 for a column that is not published.
    """
    if document.get("synthesize") is None:
        return None
    given = members.mapping(document["synthesize"], "synthesize")
    if set(given) - _MEMBERS or any(document.get(name) for name in _QUESTION):
        raise DPError(SHAPE, "a request of an unknown form", "CALL dp.make_synthetic(relation, epsilon => 1).")
    method = given.get("method") or METHODS[0]
    if method not in METHODS:
        raise DPError(OUT_OF_RANGE, "unknown method", f"method is one of {', '.join(METHODS)}.")
    bins = _bins(given.get("bins"))
    variables = tuple(_variables(given.get("columns"), policy, bins))
    if len(variables) > MAX_COLUMNS:
        raise DPError(
            OUT_OF_RANGE,
            f"{len(variables)} columns with declared values, more than {MAX_COLUMNS}",
            "Name the ones that matter: columns => '{age,sex,...}'.",
        )
    found = Synthesis(variables, bins, str(method))
    if found.layout.total > MAX_STATISTICS:
        raise DPError(
            OUT_OF_RANGE,
            f"these columns and their pairs have {found.layout.total} cells, more than {MAX_STATISTICS}",
            "Name fewer columns, or give a smaller bins => ...",
        )
    return found


def _bins(value: Any) -> int:
    text = members.text(value, "bins") or "128"
    if not (text.isascii() and text.isdigit() and BINS[0] <= int(text[:9]) <= BINS[1] and len(text) < 10):
        raise DPError(OUT_OF_RANGE, f"bins must be an integer from {BINS[0]} to {BINS[1]}", "bins => 128")
    return int(text)


def _variables(names: Any, policy: Policy, bins: int) -> list[Variable]:
    published = {name: column for name, column in policy.relation.columns.items() if column.published}
    if names is None:
        found = [one for one in (_if_declared(c, bins) for c in published.values() if _no_key(c, policy)) if one]
        if not found:
            raise DPError(
                UNDECLARED,
                f"no published column of {policy.relation.qualified} has declared values",
                "CALL dp.describe_column(relation, column, domain => ARRAY[...]) or bounds => '{lower,upper}' first.",
            )
        return found
    asked = [members.text(name, "columns") or "" for name in members.items(names, "columns")]
    unknown = [name for name in asked if name not in published]
    if unknown or not asked or len(set(asked)) != len(asked):
        missing = f"{policy.relation.qualified} has no published column {unknown[0][:63]}" if unknown else None
        raise DPError(
            "42703",
            missing or "columns is empty, or names one twice",
            "columns names published columns, each once; leave it out for all that have declared values.",
        )
    return [variable(published[name], bins, policy.relation.qualified) for name in asked]


def _no_key(column: Column, policy: Policy) -> bool:
    """Keys of people are not made up, unless they are asked for."""
    first = policy.unit_path[0].column if policy.unit_path else policy.unit_column
    return column.name not in {first, *policy.other_units}


def _if_declared(column: Column, bins: int) -> Variable | None:
    try:
        return variable(column, bins)
    except DPError as error:
        if error.sqlstate in (SHAPE, UNDECLARED):
            return None
        raise
