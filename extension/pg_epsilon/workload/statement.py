"""The one statement of a workload: number and sum of the values in each cell between neighbouring edges (rule R6)."""

from __future__ import annotations

from collections.abc import Sequence

from pg_epsilon.query.keys import Key
from pg_epsilon.query.source import Source
from pg_epsilon.query.statistics import in_domain
from pg_epsilon.workload.ask import Workload


def edges_of(workload: Workload, grid: tuple[int, ...]) -> tuple[int, ...]:
    """Ascending: cell k holds the integers above edge k and up to edge k + 1. Every cut and every theta is an edge, and
    so is the upper bound: what lies above it is told apart before it is clamped. Below 0 the last integer beyond every
    theta is one."""
    first, last = workload.cuts[0], workload.top
    edges = {*workload.cuts, *grid, *(-theta - 1 for theta in grid), workload.lattice.high}
    return (first, *sorted(edge for edge in edges if first < edge < last), last)


def statement(
    workload: Workload,
    source: Source,
    edges: tuple[int, ...],
    only: str | None = None,
    keys: Sequence[Key] = (),
) -> str:
    """One scan: each value's cell, then per cell how many values and their sum, as one text "cell rows sum;…".

    Total: values are clamped to the lower bound and to the last edge, NULL is in no cell; the sums of cells above the
    upper bound, which are cut there, follow from their numbers of values. With user units and per 'row' at most kappa
    rows of a unit count, a function of that unit's rows (composition.md §2.3); per 'user' a value is the total of one
    unit's rows, each clamped to the bounds. only: a further condition on rows, validated SQL; with user
    units, where values are rows, on those that are kept. keys: one text for each group of the declared domains; with
    them per 'user' a value is one unit's total in one group, of at most kappa of the unit's rows, so that a unit is in
    at most kappa groups.
    """
    names = "".join(f"k{i}, " for i in range(1, len(keys) + 1))
    inside = in_domain(keys, "q") if keys else "true"
    columns = "".join(f"{key.sql} AS k{i}, " for i, key in enumerate(keys, 1))
    value = workload.lattice.sql if workload.per == "user" else workload.lattice.sql_up_to(workload.top)
    inner = f"SELECT {columns}({value})::pg_catalog.int8 AS v"
    rows = f"FROM {source.sql}{source.where}"
    beyond = "n <= {0}"
    if only is not None and source.has_user_units:  # of the rows that count, as a FILTER beside others would
        inner, beyond = f"{inner}, coalesce({only}, false) AS f", "n <= {0} AND f"
    elif only is not None:
        rows += f" {'AND' if source.conditions else 'WHERE'} ({only})"
    if source.has_user_units:
        inner = f"{inner}, {source.unit} AS u"
        if keys or workload.per == "row":
            number = "pg_catalog.row_number() OVER (PARTITION BY u ORDER BY o) AS n"
            capped = f"SELECT q.*, {number} FROM ({inner}, {source.order} AS o {rows}) AS q WHERE {inside}"
            inner, rows = f"SELECT {names}u, v", f"FROM ({capped}) AS p WHERE {beyond.format(source.kappa)}"
    inner = f"{inner} {rows}"
    if workload.per == "user":
        total = f"LEAST(GREATEST(sum(v), {workload.lattice.low}), {workload.top})::pg_catalog.int8"
        # of a unit without a value there is no total: LEAST and GREATEST would make the lower bound of it
        inner = f"SELECT {names}{total} AS v FROM ({inner}) AS t GROUP BY {names}u HAVING count(v) > 0"
    starts = ", ".join(str(edge + 1) for edge in edges[1:-1])
    cell = f"pg_catalog.width_bucket(v, ARRAY[{starts}]::pg_catalog.int8[])" if starts else "0"
    cells = f"SELECT {names}{cell} AS c, v FROM ({inner}) AS q WHERE v IS NOT NULL AND {inside}"
    counted = f"SELECT {names}c, count(*) AS n, sum(v) AS s FROM ({cells}) AS u GROUP BY {names}c"
    group_by = f" GROUP BY {names[:-2]}" if keys else ""
    return f"SELECT {names}pg_catalog.string_agg(c || ' ' || n || ' ' || s, ';') AS b FROM ({counted}) AS g{group_by}"


def parse(text: str | None, cells: int) -> list[tuple[int, int]]:
    """(rows, sum) of every cell; the inverse of the statement's text."""
    found = [(0, 0)] * cells
    for part in text.split(";") if text else ():
        cell, rows, total = (int(word) for word in part.split(" "))
        found[cell] = rows, total
    return found
