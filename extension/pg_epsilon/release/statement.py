"""The one statement of a release: rows and masses of every class and part (rule R6; numeric-release.md §11)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pg_epsilon.query.aggregates import Aggregate
from pg_epsilon.query.keys import Key
from pg_epsilon.query.literals import quote
from pg_epsilon.query.source import Source
from pg_epsilon.query.statistics import in_domain
from pg_epsilon.release.masses import ROOM, Values

Cube = Iterator[tuple[int, int, int, int]]  # class, part, rows, what their upper masses add up to


def statement(source: Source, keys: Sequence[Key], aggregate: Aggregate, values: Values | None) -> str:
    """One scan: each row's class and part, then how many and the sum of their upper masses, as one text.

    keys: of the classes, the last one's values fastest. values: how the aggregate's argument is split; None: rows are
    counted, those whose argument is not NULL. Total: rows of no declared class are in none. With user units at most
    kappa rows of a unit count, a function of that unit's rows (composition.md §2.3).
    """
    names = [f"k{i}" for i in range(1, len(keys) + 1)]
    columns = [f"{key.sql} AS {name}" for key, name in zip(keys, names, strict=True)]
    conditions = list(source.conditions)
    lattice = aggregate.lattice
    if values is not None and lattice is not None:
        null = f"({aggregate.argument}) IS NULL"
        columns += [f"({lattice.sql})::pg_catalog.int8 AS v", f"{null} AS e"]
    elif aggregate.argument is not None:
        conditions.append(f"({aggregate.argument}) IS NOT NULL")
    where = f" WHERE {' AND '.join(f'({one})' for one in conditions)}" if conditions else ""
    inner = _rows(columns, f"FROM {source.sql}{where}", source)
    kept = [*names, *(["v", "e"] if values is not None else [])]
    inner = f"SELECT {', '.join(kept)} FROM ({inner}) AS q WHERE {in_domain(keys, 'q')} OFFSET 0"
    if values is None:
        counted = (
            f"SELECT {', '.join(names)}, 0 AS p, count(*) AS n, 0 AS s FROM ({inner}) AS r GROUP BY {', '.join(names)}"
        )
    else:
        parts = f"SELECT {', '.join(names)}, v, {values.part_sql('v', 'e', 'NOT e')} AS p FROM ({inner}) AS r OFFSET 0"
        upper = f"SELECT {', '.join(names)}, p, {values.upper_sql('v', 'p')} AS u FROM ({parts}) AS t"
        total = f"LEAST(sum(u), {2**ROOM})::pg_catalog.int8"
        groups = ", ".join([*names, "p"])
        counted = f"SELECT {groups}, count(*) AS n, {total} AS s FROM ({upper}) AS w GROUP BY {groups}"
    record = f"({_place(keys, names)}) || ' ' || p || ' ' || n || ' ' || s"
    return f"SELECT pg_catalog.string_agg({record}, ';') AS b FROM ({counted}) AS g"


def _rows(columns: Sequence[str], rows: str, source: Source) -> str:
    if not source.has_user_units:
        return f"SELECT {', '.join(columns)} {rows} OFFSET 0"
    number = f"pg_catalog.row_number() OVER (PARTITION BY {source.unit} ORDER BY {source.order}) AS n"
    return f"SELECT * FROM (SELECT {', '.join([*columns, number])} {rows}) AS c WHERE n <= {source.kappa}"


def _place(keys: Sequence[Key], names: Sequence[str]) -> str:
    """SQL of a class's number, from the texts of its keys."""
    found = "0::pg_catalog.int8"
    for key, name in zip(keys, names, strict=True):
        texts = ", ".join("NULL" if one is None else quote(one) for one in key.domain)
        place = f"pg_catalog.array_position(ARRAY[{texts}]::pg_catalog.text[], {name})"
        found = f"({found}) * {len(key.domain)} + {place} - 1"
    return found


def parse(text: str | None) -> Cube:
    """What the statement's text says; the inverse of it."""
    for record in text.split(";") if text else ():
        place, part, rows, upper = (int(word) for word in record.split(" "))
        yield place, part, rows, upper
