"""The one statement of an explanation: rows and sums by compared group and attributes (rule R6; dpxplain.md §6.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pg_epsilon.explain.cells import Layout
from pg_epsilon.explain.space import Attribute, Listed, Space
from pg_epsilon.query.keys import Key
from pg_epsilon.query.literals import quote
from pg_epsilon.query.source import Source

SUM_MAX = 2**62  # of a cell's sum; where it could be more by what is declared, the question is refused


@dataclass(frozen=True)
class Read:
    """Which rows count, and in which group and with which value.

    keys, groups: of each compared group the texts of its keys. value: SQL of a row's integer; None: rows are counted.
    present, condition: SQL that is not NULL, resp. true, of the rows that count; None: all do.
    """

    source: Source
    keys: tuple[Key, ...]
    groups: tuple[tuple[str | None, ...], ...]
    value: str | None
    present: str | None
    condition: str | None

    @property
    def group(self) -> str:
        """SQL of the place of a row's group among the compared ones; NULL of every other row."""
        arms = (
            f"WHEN {' AND '.join(_is(key, value) for key, value in zip(self.keys, group, strict=True))} THEN {place}"
            for place, group in enumerate(self.groups)
        )
        return f"CASE {' '.join(arms)} END"

    @property
    def conditions(self) -> str:
        """` WHERE …`: of the source, and that the row counts and is in one of the groups."""
        found = [*self.source.conditions, f"{self.group} IS NOT NULL"]
        found += [self.condition] if self.condition is not None else []
        found += [f"{self.present} IS NOT NULL"] if self.present is not None else []
        return f" WHERE {' AND '.join(f'({one})' for one in found)}"


def _is(key: Key, value: str | None) -> str:
    return f"({key.sql}) IS NULL" if value is None else f"({key.sql}) = {quote(value)}"


def by_cells(read: Read, space: Space, layout: Layout) -> str:
    """Cells that have a row, as one binary value of cells.RECORD; with user units at most kappa rows of a unit count.

    Total: every attribute's place is one of its values. The rows kept of a unit are a function of that unit's rows
    (composition.md §2.3). One scan.
    """
    names = _names(space)
    cell = f"SELECT {layout.number('g', names)} AS c, v FROM ({_rows(read, space.attributes, names)}) AS q"
    return _record(f"SELECT c, count(*) AS n, {_total(read)} AS s FROM ({cell}) AS u GROUP BY c")


def by_predicates(read: Read, space: Space, layout: Layout) -> str:
    """The same by predicate and group: cells first, then each cell once for every choice of attributes."""
    names, start = _names(space), 0
    places = []
    for subset, end in zip(space.subsets, space.ends, strict=True):
        inner = Layout(1, tuple(space.attributes[place].size for place in subset))
        number = inner.number("0", [names[place] for place in subset])
        places.append(f"({start}::pg_catalog.int8 + {number}) * {layout.groups} + g")
        start = end
    columns = ", ".join(["g", *names])
    rows = f"({_rows(read, space.attributes, names)}) AS q"
    counted = f"SELECT {columns}, count(*) AS n, sum(v) AS v FROM {rows} GROUP BY {columns}"
    each = f"SELECT pg_catalog.unnest(ARRAY[{', '.join(places)}]) AS c, n, v FROM ({counted}) AS p"
    return _record(f"SELECT c, sum(n)::pg_catalog.int8 AS n, {_total(read)} AS s FROM ({each}) AS u GROUP BY c")


def by_list(read: Read, space: Listed) -> str:
    """The same of named predicates: each row once for every one that it satisfies, and once more for all of them."""
    arms = ", ".join(f"CASE WHEN {one} THEN {place} END" for place, one in enumerate(space.conditions))
    held = Attribute("held", (), f"ARRAY[{arms}, {len(space)}]::pg_catalog.int4[]")
    places = f"SELECT g, v, pg_catalog.unnest(a1) AS p FROM ({_rows(read, [held], ['a1'])}) AS q"
    cell = f"SELECT p * {len(read.groups)}::pg_catalog.int8 + g AS c, v FROM ({places}) AS r WHERE p IS NOT NULL"
    return _record(f"SELECT c, count(*) AS n, {_total(read)} AS s FROM ({cell}) AS u GROUP BY c")


def _names(space: Space) -> list[str]:
    return [f"a{place}" for place in range(1, len(space.attributes) + 1)]


def _rows(read: Read, attributes: Sequence[Attribute], names: Sequence[str]) -> str:
    """g, the place of each attribute's value, and v, of each row that counts; every place is found once a row."""
    columns = [f"{read.group} AS g", *_named(attributes, names)]
    columns.append(f"({read.value or '0'})::pg_catalog.int8 AS v")
    rows, source = f"FROM {read.source.sql}{read.conditions}", read.source
    if not source.has_user_units:
        return f"SELECT {', '.join(columns)} {rows} OFFSET 0"
    number = f"pg_catalog.row_number() OVER (PARTITION BY {source.unit} ORDER BY {source.order}) AS n"
    inner = f"SELECT {', '.join([*columns, number])} {rows}"
    return f"SELECT {', '.join(['g', *names, 'v'])} FROM ({inner}) AS r WHERE n <= {source.kappa} OFFSET 0"


def _total(read: Read) -> str:
    total = "0" if read.value is None else f"LEAST(GREATEST(sum(v), -{SUM_MAX}), {SUM_MAX})"
    return f"{total}::pg_catalog.int8"


def _record(counted: str) -> str:
    record = " || ".join(f"pg_catalog.int8send({name})" for name in ("c", "n", "s"))
    return f"SELECT pg_catalog.string_agg({record}, ''::pg_catalog.bytea) AS b FROM ({counted}) AS p"


def _named(attributes: Sequence[Attribute], names: Sequence[str]) -> list[str]:
    return [f"{one.sql} AS {name}" for one, name in zip(attributes, names, strict=True)]
