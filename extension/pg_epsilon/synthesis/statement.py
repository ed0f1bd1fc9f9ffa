"""The one statement of a synthesis: each row's cells once, then the counts of all tables of one and two columns."""

from __future__ import annotations

from pg_epsilon.query.source import Source
from pg_epsilon.synthesis.ask import Synthesis

RECORD = (("cell", ">i4"), ("rows", ">i8"))  # of the statement's binary value: a number of `Layout`, and its count


def statement(ask: Synthesis, source: Source) -> str:
    """Counts of rows in total, by each column, and by each pair; with user units at most kappa rows of a unit count.

    Total: cells are those of variables.py, and a row without a cell of a column is in none of its tables. The rows
    kept of a unit are a function of that unit's rows (composition.md §2.3). One scan: every row stands for the numbers
    of its cells, which are counted; grouping sets would sort the rows for every pair.
    """
    layout, names = ask.layout, [f"v{i}" for i in range(len(ask.variables))]
    columns = [f"{one.sql} AS {name}" for one, name in zip(ask.variables, names, strict=True)]
    rows = f"FROM {source.sql}{source.where}"
    if source.has_user_units:
        number = f"pg_catalog.row_number() OVER (PARTITION BY {source.unit} ORDER BY {source.order}) AS n"
        inner = f"SELECT {', '.join(names)} FROM (SELECT {', '.join([*columns, number])} {rows}) AS q"
        inner = f"{inner} WHERE n <= {source.kappa} OFFSET 0"
    else:
        inner = f"SELECT {', '.join(columns)} {rows} OFFSET 0"  # each cell is computed once a row
    numbers = [
        "0",
        *(f"{start} + {name}" for start, name in zip(layout.ones, names, strict=True)),
        *(
            f"{start} + {names[i]} * {layout.sizes[j]} + {names[j]}"
            for start, (i, j) in zip(layout.twos, layout.pairs, strict=True)
        ),
    ]
    cells = f"SELECT pg_catalog.unnest(ARRAY[{', '.join(numbers)}]) AS c FROM ({inner}) AS q"
    counted = f"SELECT c, count(*) AS n FROM ({cells}) AS u WHERE c IS NOT NULL GROUP BY c"
    record = "pg_catalog.int4send(c) || pg_catalog.int8send(n)"
    return f"SELECT pg_catalog.string_agg({record}, ''::pg_catalog.bytea) AS b FROM ({counted}) AS g"
