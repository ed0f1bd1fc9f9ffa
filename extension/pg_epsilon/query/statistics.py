"""`Request` → the one statement that reduces rows to a few exact integers (rule R6, composition.md §2).

Every statement scans the relation once. Columns of the result: the keys' texts k1.. (grouped requests), then the exact
integers a1.. of the statistics in order, and, where histograms are asked for, h (which of them the row belongs to: 0
for the integers) and x (the point). With user units, rows whose unit is NULL or dangling count nowhere (§1.3), and a
cap on rows per unit keeps, of each unit, a function of that unit's own rows (§2.3).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from pg_epsilon.query.aggregates import ROWS, UNITS
from pg_epsilon.query.keys import Key
from pg_epsilon.query.ladders import ONCE, Ladder, bucket, direct, over_buckets
from pg_epsilon.query.request import Request

SUM, HISTOGRAM, OWNERS, PREFIX = "sum", "histogram", "owners", "prefix"
# Above so many aggregates a row, a search in the thresholds and a hash table are faster (`make bench-sums`); where
# groups are hashed anyway, sooner.
DIRECT, DIRECT_GROUPED = 12, 6


@dataclass(frozen=True)
class Statistic:
    """What one measure reads: a number of units or rows, a sum of lattice integers, a histogram of points, or others.

    of: UNITS, ROWS, SUM, HISTOGRAM, OWNERS (merged rows with their units, query/owners.py: the statement's own), or
    PREFIX (row units, values of at least 0: for every level how many values, zeros too, are at most it; then, for
    every level, their sum).
    value: SQL of a row's integer, NULL contributes nothing. condition: boolean SQL, only such rows. clamp: with user
    units, the interval that one unit's total is clamped to, instead of a cap on its rows. levels: thresholds of the
    positive side, then of the negative one (a ladder); drop: a contribution above a threshold is left out instead of
    cut. collected: bytes that an aggregate of the statement collects of each result row.
    """

    of: str
    value: str | None = None
    condition: str | None = None
    clamp: tuple[int, int] | None = None
    levels: tuple[tuple[int, ...], ...] = ()
    drop: bool = False
    collected: int = 0

    @property
    def width(self) -> int:
        """How many integers of a cell it is."""
        return sum(map(len, self.levels)) * (2 if self.of == PREFIX else 1) or 1

    @property
    def by_rows(self) -> bool:
        """With user units: whether rows, not totals of units, must be capped."""
        return self.of not in (UNITS, OWNERS) and self.clamp is None and not self.levels


def needs_row_cap(request: Request, statistics: Sequence[Statistic]) -> bool:
    """Whether rows beyond max_rows_per_unit must be dropped: rows count, or a unit may stand in too many groups."""
    kappa = request.source.kappa
    if not request.source.has_user_units or kappa is None:
        return False
    return any(s.by_rows for s in statistics) or (any(s.of == UNITS for s in statistics) and kappa < request.cells)


def columns(keys: int, statistics: Sequence[Statistic]) -> int:
    """How many columns any intermediate result of the statement has at most.

    Where several processes share a scan, each sends the keys and one column for each different aggregate: of a ladder
    one for each threshold and two that all thresholds share. The number, sum and name of an interval are three more.
    """
    return keys + 3 + sum(s.width + 2 for s in statistics)


def statement(request: Request, statistics: Sequence[Statistic]) -> str:
    """The statistics statement of a request: total operators over declared columns only, one scan."""
    if any(s.of == PREFIX for s in statistics) and request.source.has_user_units:
        raise ValueError("prefix sums are of rows")
    if any(s.of == HISTOGRAM for s in statistics):
        return _with_histograms(request, statistics)
    if not request.source.has_user_units:
        return _row_statement(request, statistics)
    return _user_statement(request, statistics)


def _row_statement(request: Request, statistics: Sequence[Statistic]) -> str:
    source, names = request.source, _names(request)
    keys = [f"{key.sql} AS {name}" for key, name in zip(request.keys, names, strict=True)]
    if any(s.levels for s in statistics):
        columns = [*keys, *(f"{_contribution(s)} AS v{i}" for i, s in enumerate(statistics, 1))]
        rows = f"({ONCE} SELECT {', '.join(columns)} FROM {source.sql}{source.where}) AS q"
        return _ladders(request, statistics, rows)
    inner = (
        f"SELECT {', '.join([*keys, *_numbered([_of_rows(s)] for s in statistics)])} FROM {source.sql}{source.where}"
    )
    return _grouped(request, inner) if names else inner


def _grouped(request: Request, inner: str) -> str:
    """The groups of a SELECT whose first columns are the keys, those of the declared domains."""
    positions = ", ".join(str(i) for i in range(1, len(request.keys) + 1))
    return f"SELECT * FROM ({inner} GROUP BY {positions}) AS g WHERE {in_domain(request.keys, 'g')}"


def _ladders(request: Request, statistics: Sequence[Statistic], rows: str) -> str:
    """All statistics over contributions v1, …: of the longest ladder, if it is long, from its intervals."""
    names = _names(request)
    ladders = {i: Ladder(f"v{i}", s.levels, s.drop, s.of == PREFIX) for i, s in enumerate(statistics, 1) if s.levels}
    long = max(ladders, key=lambda i: ladders[i].aggregates)
    over_rows = {i: direct(ladders[i]) if i in ladders else [_sum(f"v{i}", s)] for i, s in enumerate(statistics, 1)}
    if ladders[long].aggregates <= (DIRECT_GROUPED if names else DIRECT):
        inner = f"SELECT {', '.join([*names, *_numbered(over_rows.values())])} FROM {rows}"
        return _grouped(request, inner) if names else inner
    parts = {(i, j): sql for i, columns in over_rows.items() if i != long for j, sql in enumerate(columns)}
    inner_columns = [*names, f"{bucket(ladders[long])} AS b", "count(*) AS c", f"sum(v{long}) AS s"]
    inner_columns += [f"{sql} AS p{i}_{j}" for (i, j), sql in parts.items()]
    positions = ", ".join(str(i) for i in range(1, len(names) + 2))
    intervals = f"(SELECT {', '.join(inner_columns)} FROM {rows} GROUP BY {positions}) AS g"
    columns = [
        over_buckets(ladders[i], "b", "c", "s")
        if i == long
        else [f"coalesce(sum(p{i}_{j}), 0)" for j in range(len(over_rows[i]))]
        for i in over_rows
    ]
    outer = f"SELECT {', '.join([*names, *_numbered(columns)])} FROM {intervals}"
    return f"{outer} WHERE {in_domain(request.keys, 'g')}{_group_by(names)}" if names else outer


def _contribution(statistic: Statistic) -> str:
    """A row's integer: NULL where it does not count."""
    value = "1" if statistic.of == ROWS and statistic.value is None else statistic.value or "1"
    if statistic.of == ROWS and statistic.value is not None:
        value = f"CASE WHEN {statistic.value} IS NOT NULL THEN 1 END"
    return f"CASE WHEN {statistic.condition} THEN {value} END" if statistic.condition else value


def _over_totals(column: str, statistic: Statistic) -> list[str]:
    """The integers of one statistic, from one total a unit, of at least 0."""
    if not statistic.levels:
        return [_sum(column, statistic)]
    (levels,) = statistic.levels
    if statistic.drop:
        return [f"coalesce(sum({column}) FILTER (WHERE {column} BETWEEN 0 AND {level}), 0)" for level in levels]
    return [f"coalesce(sum(LEAST({column}, {level})), 0)" for level in levels]


def _sum(column: str, statistic: Statistic) -> str:
    return f"coalesce(sum({column}), 0){'::bigint' if statistic.of == ROWS else ''}"


def _of_rows(statistic: Statistic) -> str:
    condition = f" FILTER (WHERE {statistic.condition})" if statistic.condition else ""
    if statistic.of == ROWS:
        return f"count({statistic.value or '*'}){condition}"
    return f"coalesce(sum({statistic.value}){condition}, 0)"


def _user_statement(request: Request, statistics: Sequence[Statistic]) -> str:
    """User units: rows (capped per unit, if they must be) → per key and unit → per key."""
    names = _names(request)
    if not names and not needs_row_cap(request, statistics):
        return _ungrouped(request, statistics)
    inner, outer = [*names, "u"], list(names)
    number = 1
    for i, s in enumerate(statistics, 1):
        if s.of == UNITS:
            inner.append(f"bool_or(f{i}) AS b{i}")
            outer.append(f"count(*) FILTER (WHERE b{i}) AS a{number}")
        else:
            total = f"count(*) FILTER (WHERE f{i})" if s.of == ROWS else f"sum(v{i}) FILTER (WHERE f{i})"
            own = replace(s, value=f"v{i}", condition=f"f{i}")
            inner += [f"{total} AS n{i}"] if s.by_rows else _unit_totals(i, own, total)
            columns = _over_units(i, s)
            outer += [f"{sql} AS a{number + j}" for j, sql in enumerate(columns)]
        number += s.width
    positions = ", ".join(str(i) for i in range(1, len(names) + 2))
    per_unit = f"SELECT {', '.join(inner)} FROM {_capped(request, statistics)} GROUP BY {positions}"
    return f"SELECT {', '.join(outer)} FROM ({per_unit}) AS s{_group_by(names)}"


def _ungrouped(request: Request, statistics: Sequence[Statistic]) -> str:
    """Ungrouped: per unit first, then over units; keeping κ of a unit's matching rows is least(n, κ)."""
    source = request.source
    simple = all(s.of == UNITS and s.condition is None for s in statistics)
    inner, outer, number = [f"{source.unit} AS u"], [], 1
    for i, s in enumerate(statistics, 1):
        if simple:
            columns = ["count(*)"]
        elif s.of == UNITS:
            inner.append(f"bool_or({s.condition or 'true'}) AS b{i}")
            columns = [f"count(*) FILTER (WHERE b{i})"]
        else:
            inner += _unit_totals(i, s, _of_rows(s))
            columns = _over_units(i, s)
        outer += [f"{sql} AS a{number + j}" for j, sql in enumerate(columns)]
        number += s.width
    per_unit = f"SELECT {', '.join(inner)} FROM {source.sql}{source.where} GROUP BY 1"
    return f"SELECT {', '.join(outer)} FROM ({per_unit}) AS s"


def _unit_totals(i: int, statistic: Statistic, total: str) -> list[str]:
    """One unit's total, clamped as declared; of a ladder with two sides, its positive and its negative part."""
    if len(statistic.levels) == 2:
        condition = f" AND ({statistic.condition})" if statistic.condition else ""
        value, found = statistic.value or "1", []
        for sign, letter, levels in zip(("", "-"), ("p", "m"), statistic.levels, strict=True):
            part = f"sum({sign}{value}) FILTER (WHERE {sign}{value} > 0{condition})"
            found.append(f"LEAST(coalesce({part}, 0), {levels[-1] + 1})::pg_catalog.int8 AS {letter}{i}")
        return found
    if statistic.levels:
        # a total beyond the last threshold is told from one at it by 1, which is all that either truncation needs
        return [f"LEAST(coalesce({total}, 0), {statistic.levels[0][-1] + 1})::pg_catalog.int8 AS n{i}"]
    low, high = statistic.clamp or (0, 0)
    if statistic.of == ROWS:
        return [f"LEAST({total}, {high}) AS n{i}"]
    return [f"LEAST(GREATEST(coalesce({total}, 0), {low}), {high})::pg_catalog.int8 AS n{i}"]


def _over_units(i: int, statistic: Statistic) -> list[str]:
    if len(statistic.levels) == 2:
        sides = zip(("p", "m"), statistic.levels, strict=True)
        return [
            sql
            for letter, levels in sides
            for sql in _over_totals(f"{letter}{i}", Statistic(SUM, levels=(levels,), drop=statistic.drop))
        ]
    return _over_totals(f"n{i}", statistic)


def _capped(request: Request, statistics: Sequence[Statistic]) -> str:
    """The rows of user units: keys, unit, flags f1.. and integers v1.., none beyond the cap where rows are capped."""
    source, names = request.source, _names(request)
    columns = [f"{key.sql} AS {name}" for key, name in zip(request.keys, names, strict=True)] + [f"{source.unit} AS u"]
    for i, s in enumerate(statistics, 1):
        columns.append(f"{_flag(s)} AS f{i}")
        if s.of in (SUM, HISTOGRAM):
            columns.append(f"{s.value} AS v{i}")
    capped = needs_row_cap(request, statistics)
    columns += [f"{source.order} AS o"] if capped else []
    inside = f" WHERE {in_domain(request.keys, 'q')}" if names else ""
    rows = f"(SELECT {', '.join(columns)} FROM {source.sql}{source.where}) AS q{inside}"
    if not capped:
        return rows
    ranked = f"SELECT q.*, row_number() OVER (PARTITION BY u ORDER BY o) AS rn FROM {rows}"
    return f"({ranked}) AS p WHERE rn <= {source.kappa}"


def _with_histograms(request: Request, statistics: Sequence[Statistic]) -> str:
    """One scan for integers and histograms: a grouping set of the keys, and one of keys and points for each."""
    names = _names(request)
    points = [i for i, s in enumerate(statistics, 1) if s.of == HISTOGRAM]
    columns = [f"{_over_flagged(i, s)} AS a{i}" for i, s in enumerate(statistics, 1)]
    rows = _capped(request, statistics) if request.source.has_user_units else _flagged(request, statistics)
    if request.source.has_user_units or len(points) > 1:
        # OFFSET 0: PostgreSQL before 18 takes equal expressions of a flattened sub-query for one grouping column
        source = f"(SELECT * FROM {rows} OFFSET 0) AS z"
    else:
        # no grouping set is computed by several processes: they reduce rows to keys and points before
        by = [*names, f"v{points[0]}"]
        source = f"(SELECT {', '.join([*by, *columns])} FROM {rows} GROUP BY {', '.join(by)}) AS z"
        columns = [f"coalesce(sum(a{i}), 0) AS a{i}" for i in range(1, len(statistics) + 1)]
    arms = " ".join(f"WHEN GROUPING(v{i}) = 0 THEN {i}" for i in points)
    values = " ".join(f"WHEN GROUPING(v{i}) = 0 THEN v{i}" for i in points)
    outer = [*names, *columns, f"CASE {arms} ELSE 0 END AS h", f"CASE {values} END AS x"]
    sets = ", ".join([f"({', '.join(names)})", *(f"({', '.join([*names, f'v{i}'])})" for i in points)])
    return f"SELECT {', '.join(outer)} FROM {source} GROUP BY GROUPING SETS ({sets})"


def _flagged(request: Request, statistics: Sequence[Statistic]) -> str:
    """The rows of row units: keys, flags f1.. and integers v1..; of the declared groups."""
    source, names = request.source, _names(request)
    columns = [f"{key.sql} AS {name}" for key, name in zip(request.keys, names, strict=True)]
    for i, s in enumerate(statistics, 1):
        columns.append(f"{_flag(s)} AS f{i}")
        columns += [f"{s.value} AS v{i}"] if s.of in (SUM, HISTOGRAM) else []
    inside = f" WHERE {in_domain(request.keys, 'q')}" if names else ""
    return f"({ONCE} SELECT {', '.join(columns)} FROM {source.sql}{source.where}) AS q{inside}"


def _over_flagged(i: int, statistic: Statistic) -> str:
    """The integer of one statistic, from flags and integers of rows."""
    if statistic.of == UNITS:
        return f"count(DISTINCT u) FILTER (WHERE f{i})"
    if statistic.of == SUM:
        return f"coalesce(sum(v{i}) FILTER (WHERE f{i}), 0)"
    return f"count(*) FILTER (WHERE f{i})"


def _flag(statistic: Statistic) -> str:
    parts = [f"({statistic.condition})"] if statistic.condition else []
    if statistic.of in (ROWS, HISTOGRAM) and statistic.value is not None:
        parts.append(f"({statistic.value}) IS NOT NULL")
    return f"coalesce({' AND '.join(parts)}, false)" if parts else "true"


def _numbered(columns: Iterable[Sequence[str]]) -> list[str]:
    """Every integer of every statistic, named a1, a2, …"""
    return [f"{sql} AS a{i}" for i, sql in enumerate(chain.from_iterable(columns), 1)]


def collect(
    rows: Iterable[Mapping[str, Any]], keys: int, statistics: Sequence[Statistic]
) -> dict[tuple[str | None, ...], list[Any]]:
    """The statement's rows → group → its integers in order; a histogram is one entry, a list of (point, rows)."""
    if any(s.of == OWNERS for s in statistics):
        beside = range(1, sum(s.width for s in statistics if s.of != OWNERS) + 1)
        return {
            tuple(row[f"k{i}"] for i in range(1, keys + 1)): [*(int(row[f"a{i}"]) for i in beside), row["b"]]
            for row in rows
        }
    starts = [sum(s.width for s in statistics[:i]) for i in range(len(statistics))]
    points = {i for i, s in enumerate(statistics, 1) if s.of == HISTOGRAM}
    width = sum(s.width for s in statistics)
    found: dict[tuple[str | None, ...], list[Any]] = {}
    for row in rows:
        group = tuple(row[f"k{i}"] for i in range(1, keys + 1))
        if group not in found:
            found[group] = [[] if i + 1 in points else 0 for i in range(width)] if points else []
        which = row["h"] if points else 0
        if which == 0:
            integers = [int(row[f"a{i}"]) for i in range(1, width + 1)]
            before = found[group] or integers
            found[group] = [before[i] if i + 1 in points else integers[i] for i in range(width)]
        elif row["x"] is not None and row[f"a{which}"]:
            found[group][starts[which - 1]].append((int(row["x"]), int(row[f"a{which}"])))
    return found


def beside(keys: int, integers: int, counted: str, own: str) -> str:
    """Two statements over the same groups as one: keys, integers a1.. of the first, the text b of the second.

    A group that only one of them has gets zeros, or no text. Keys may be NULL, by which no full join is possible.
    """
    names = [f"k{i}" for i in range(1, keys + 1)]
    columns = [f"a{i}" for i in range(1, integers + 1)]
    first = f"SELECT {', '.join([*names, *columns])}, NULL::text AS b FROM ({counted}) AS r"
    second = f"SELECT {', '.join([*names, *('NULL' for _ in columns)])}, b FROM ({own}) AS w"
    shown = [*names, *(f"coalesce(max({name}), 0) AS {name}" for name in columns), "max(b) AS b"]
    return f"SELECT {', '.join(shown)} FROM ({first} UNION ALL {second}) AS s{_group_by(names)}"


def _names(request: Request) -> list[str]:
    return [f"k{i}" for i in range(1, len(request.keys) + 1)]


def _group_by(names: Sequence[str]) -> str:
    return f" GROUP BY {', '.join(names)}" if names else ""


def in_domain(keys: Sequence[Key], alias: str) -> str:
    """Keeps only declared keys, so that what reaches the core is bounded by a public number."""
    parts = []
    for i, key in enumerate(keys, 1):
        texts = ", ".join(_literal(value) for value in key.domain if value is not None)
        known = f"{alias}.k{i} = ANY (ARRAY[{texts}]::text[])"
        parts.append(f"({known} OR {alias}.k{i} IS NULL)" if None in key.domain else known)
    return " AND ".join(parts)


def _literal(text: str) -> str:
    escaped = text.replace("'", "''")
    return f"E'{escaped.replace(chr(92), chr(92) * 2)}'" if "\\" in text else f"'{escaped}'"
