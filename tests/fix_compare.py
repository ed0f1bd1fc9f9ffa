"""Statements with dp_compare for every client, and what each of them has to give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import fix_chance

EPSILON = "3"
# What is asked first, and pays: three aggregates, epsilon 1 each (the average's two halves .5).
ASKED = "SELECT sex, count(*), avg(age), sum(income) FROM people GROUP BY sex"
# Counts of 500, 500 and none with noise of scale 1 (averages: 2), in intervals some 20 wide.
CHANCE = fix_chance.union(fix_chance.laplace(2, 100, 36), 1e-8)

Row = tuple[str | None, ...]


class Statement(NamedTuple):
    """What is asked, and whether its rows, as text, are right."""

    sql: str
    holds: Callable[[Sequence[Row]], bool]


def _verdict(wanted: str) -> Callable[[Sequence[Row]], bool]:
    return lambda rows: len(rows) == 1 and rows[0][0] == wanted


def _ordered(rows: Sequence[Row]) -> bool:
    """difference, low, high."""
    (row,) = rows
    value, low, high = (float(cell or "nan") for cell in row)
    return low <= value <= high


def _holds(value: float) -> Callable[[Sequence[Row]], bool]:
    def inside(rows: Sequence[Row]) -> bool:
        (row,) = rows
        low, high = (float(cell or "nan") for cell in row)
        return low <= value <= high

    return inside


FOUND = "SELECT difference, low, high FROM dp_compare"
STATEMENTS: dict[str, Statement] = {
    "all columns": Statement("SELECT * FROM dp_compare('f', 'x')", _verdict("yes")),
    "the other way round": Statement("SELECT verdict FROM dp_compare('x', 'f')", _verdict("the other way round")),
    "equal groups": Statement("SELECT low, high FROM dp_compare('f', 'm', confidence => 0.99999999)", _holds(0)),
    "an average": Statement(f"{FOUND}('f', 'm', aggregate => 2)", _ordered),
    "its box": Statement(f"{FOUND}('f', 'm', aggregate => 2, method => 'box')", _ordered),
    "by Fieller": Statement(f"{FOUND}('f', 'm', aggregate => 2, method => 'fieller')", _ordered),
    "a sum": Statement("SELECT verdict FROM dp_compare('f', 'x', aggregate => 3)", _verdict("yes")),
    "named beforehand": Statement(f"{FOUND}('f', 'x', simultaneous => false)", _ordered),
    "a confidence": Statement(f"{FOUND}('f', 'x', confidence => 0.999)", _ordered),
    "weights": Statement("SELECT verdict FROM dp_compare('{f,m,x}', weights => '{1,-0.5,-0.5}')", _verdict("yes")),
    "a constant": Statement(
        "SELECT verdict FROM dp_compare('{f}', weights => '{1}', constant => 900)", _verdict("the other way round")
    ),
    "an expression": Statement(f"{FOUND}('{{f,m}}', expression => 'o1 / o2 - 0.2')", _ordered),
    "arrays": Statement("SELECT verdict FROM dp_compare(ARRAY['f'], ARRAY['x'])", _verdict("yes")),
    "beside other rows": Statement(
        "WITH c AS (SELECT * FROM dp_compare('f', 'x')) SELECT verdict FROM c, (VALUES (1)) AS v (n) WHERE low > n",
        _verdict("yes"),
    ),
    "what was said": Statement(
        "SELECT facts -> 'compare' ->> 'verdict', path, charge::text FROM dp.last_answer",
        lambda rows: list(rows) == [("yes", "stored release", "{}")],
    ),
    "beforehand": Statement(
        "EXPLAIN SELECT * FROM dp_compare('f', 'x')",
        lambda rows: all(
            any(words in (row[0] or "") for row in rows)
            for words in ("path: stored release", "charge, worst: nothing", "dp_compare(compare => ", "release => '")
        ),
    ),
}
