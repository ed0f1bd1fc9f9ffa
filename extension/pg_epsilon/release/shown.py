"""A release as a weighted table, from what is stored of it: whoever was served it may see it (numeric-release.md §4).

Nothing here knows a grid: it is the question of whoever asked, and no part of what was released.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from pg_epsilon.release.ask import Family
from pg_epsilon.release.cells import Cells

LEAST = 2.0  # standard deviations of noise; cells with less weight are left out
MOST_ROWS = 1_000_000  # of a table that is published: an analyst may have a hundred of them


def description(measure: Cells, family: Family) -> dict[str, Any]:
    """What is stored beside the integers: the classes, the value of each of their cells, and the noise, in rows."""
    values, noise = measure.values, measure.noise
    whole = values.whole if values is not None else 1
    shown = [str(one) for one in values.steps] if values is not None else ["1"]
    if values is not None:
        shown += ["NULL", "NaN"][: values.cells - len(values.steps)]
    return {
        "classes": [[axis.name, list(axis.key.domain)] for axis in family.axes],
        "values": shown,
        "whole": whole,
        "deviation": noise.deviation() / whole,
    }


def table(stored: Mapping[str, Any], raw: Sequence[int]) -> dict[str, Any]:
    """Columns and rows of the weighted table: a class, a value of its, and how many rows it stands for.

    stored: of `description`, or of iterated.py's, whose integers have some before the cells.

    value: 1 in a release of counts; None of the rows without one. The weights of a class count its rows, times their
    values they add up to its sum; cells of at most LEAST deviations are left out, so that sums over the table have no
    bar.
    """
    domains = [domain for _, domain in stored["classes"]]
    cells = product(product(*domains), stored["values"])
    least, whole = LEAST * float(stored["deviation"]), int(stored["whole"])
    rows = []
    for (keys, value), mass in zip(cells, raw[stored.get("head", 0) :], strict=True):
        weight = round(mass / whole, _digits(least))
        if weight > least:
            rows.append([*keys, _value(value), weight])
    return {"columns": [*(name for name, _ in stored["classes"]), "value", "weight"], "rows": rows}


def texts(stored: str, raw: str) -> list[list[str | None]]:
    """The rows of `table` as PostgreSQL reads them (dp._release_rows); of more than MOST_ROWS the heaviest.

    stored, raw: JSON.
    """
    rows = table(json.loads(stored), json.loads(raw))["rows"]
    if len(rows) > MOST_ROWS:
        rows = sorted(rows, key=lambda row: -row[-1])[:MOST_ROWS]
    return [[None if one is None else str(one) for one in row] for row in rows]


def _value(text: str) -> float | str | None:
    """A cell's value: fractions are powers of two, which a float holds."""
    if text in ("NULL", "NaN"):
        return None if text == "NULL" else text
    above, _, below = text.partition("/")
    return int(above) / int(below or 1)


def _digits(least: float) -> int:
    """Decimals of weights that are worth showing."""
    return max(0, 4 - math.floor(math.log10(least))) if least > 0 else 6
