"""The statistics of a question whose result rows belong to several units: merged in SQL, sent as one binary value."""

from __future__ import annotations

from collections.abc import Sequence

# Above it a merged value is cut: mechanisms/truncation_lp.py computes with integers up to here.
VALUE_TOP = 2**42


ROW = "ROW("  # how a label of several values begins: it is counted whatever of it is NULL


def owners_statement(
    rows: str, where: str, units: Sequence[str], value: str, label: str | None = None, *, integers: bool
) -> str:
    """One statement with one bytea, column `b` (NULL: no rows): per merged row the units' keys, the value, the label.

    Each is 8 bytes, big-endian. rows: what follows FROM; where: ` WHERE …` or nothing; units: SQL of the unit keys;
    value: SQL of a row's value, an integer of at least 0 or NULL; label: SQL of what DISTINCT counts (NULL is not
    counted; a row value, which begins with ROW, is none). integers: the keys are of an integer type; others are
    numbered first. Rows of the same units, in any order, are one row with the sum of the values, or one row per label:
    exact, see mechanisms/truncation_lp.py.
    """
    names = [f"o{i}" for i in range(1, len(units) + 1)]
    columns = [f"{unit} AS {name}" for unit, name in zip(units, names, strict=True)]
    tail = f"{value} AS v" if label is None else f"{label} AS l"
    source = f"SELECT {', '.join(columns)}, {tail} FROM {rows}{where}"
    if label is not None:
        # `row IS NOT NULL` asks for all its values
        known = "l IS DISTINCT FROM NULL" if ROW in label else "l IS NOT NULL"
        source = f"SELECT *, pg_catalog.dense_rank() OVER (ORDER BY l) AS n FROM ({source}) AS d WHERE {known}"
    keys = [f"{name}::pg_catalog.int8 AS {name}" for name in names]
    rest = "v" if label is None else "n"
    casted = f"SELECT {', '.join(keys)}, {rest} FROM ({source}) AS q"
    ordered = _sorted(casted if integers else _numbered(source, names, rest), names, rest)
    every = ", ".join(names)
    if label is None:
        total = f"least(sum(v), {VALUE_TOP})::pg_catalog.int8 AS v"
        merged = f"SELECT {every}, {total} FROM ({ordered}) AS s WHERE v > 0 GROUP BY {every}"
    else:
        merged = f"SELECT DISTINCT {every}, n FROM ({ordered}) AS s"
    bytes_ = " || ".join(f"pg_catalog.int8send({name})" for name in [*names, rest])
    return f"SELECT pg_catalog.string_agg({bytes_}, ''::pg_catalog.bytea) AS b FROM ({merged}) AS m"


def _numbered(source: str, names: Sequence[str], rest: str) -> str:
    """Unit keys of any type with equality → numbers, the same for equal keys."""
    every = " UNION ".join(f"SELECT {name} AS u FROM q" for name in names)
    joins = "".join(f" JOIN ids AS i{i} ON i{i}.u = q.{name}" for i, name in enumerate(names, 1))
    columns = ", ".join(f"i{i}.id AS {name}" for i, name in enumerate(names, 1))
    return (
        f"WITH q AS MATERIALIZED ({source}), ids AS MATERIALIZED"
        f" (SELECT u, pg_catalog.row_number() OVER () AS id FROM ({every}) AS e)"
        f" SELECT {columns}, {rest} FROM q{joins}"
    )


def _sorted(source: str, names: Sequence[str], rest: str) -> str:
    """Each row's keys in ascending order: a bubble network of least and greatest."""
    for end in range(len(names) - 1, 0, -1):
        for i in range(end):
            low, high = names[i], names[i + 1]
            swapped = {low: f"least({low}, {high}) AS {low}", high: f"greatest({low}, {high}) AS {high}"}
            columns = ", ".join(swapped.get(name, name) for name in names)
            source = f"SELECT {columns}, {rest} FROM ({source}) AS s{i}"
    return source
