"""Ranges by interval arithmetic, and lattices: never narrower than the values, in public numbers only."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import pytest

from pg_epsilon.errors import DPError
from pg_epsilon.query.bounds import Lattice
from pg_epsilon.query.intervals import Range
from pg_epsilon.query.parse import parse_expression
from pg_epsilon.query.ranges import range_of
from pg_epsilon.query.schema import Column, ColumnPolicy
from unit.policies import asked, column, document, row_policy

INT, NUMERIC, FLOAT = 23, 1700, 701
COLUMNS = {
    "i": Column("i", INT, "integer", policy=ColumnPolicy("bounds", "-3", "5")),
    "j": Column("j", INT, "integer", policy=ColumnPolicy("bounds", "1", "4", "2")),
    "n": Column("n", NUMERIC, "numeric", (10 << 16 | 2) + 4, policy=ColumnPolicy("bounds", "-1.5", "2.25")),
    "f": Column("f", FLOAT, "double precision", policy=ColumnPolicy("bounds", "0", "1", "0.125")),
    "g": Column("g", FLOAT, "double precision", policy=ColumnPolicy("bounds", "0", "1")),
    "o": Column("o", INT, "integer", policy=ColumnPolicy("opaque")),
    "d": Column("d", INT, "integer", policy=ColumnPolicy("domain", domain=("10", "2", "4"))),
}


def ranged(text: str) -> Range:
    return range_of(parse_expression(text), lambda node: COLUMNS[node.fields[0].sval])


RANGES: list[tuple[str, str | None, str | None, str | None]] = [
    ("i", "-3", "5", "1"),
    ("j", "1", "4", "1"),
    ("n", "-1.5", "2.25", "0.01"),
    ("f", "0", "1", "0.125"),
    ("g", "0", "1", None),
    ("o", None, None, "1"),
    ("d", "2", "10", "1"),
    ("7", "7", "7", "7"),
    ("i + j", "-2", "9", "1"),
    ("i - j", "-7", "4", "1"),
    ("-i", "-5", "3", "1"),
    ("i * j", "-12", "20", "1"),
    ("i * i", "-15", "25", "1"),
    ("n * 10", "-15", "22.5", "0.1"),
    ("n * n", "-3.375", "5.0625", "0.0001"),
    ("n / 4", "-0.375", "0.5625", "0.0025"),
    ("i / 2", "-1", "2", "1"),
    ("i / j", None, None, "1"),
    ("i % 4", "-4", "4", "1"),
    ("j % 3", "0", "3", "1"),
    ("abs(i)", "0", "5", "1"),
    ("abs(j)", "1", "4", "1"),
    ("round(n)", "-2", "3", "1"),
    ("floor(n) / 2", "-1", "1.5", "0.5"),
    ("round(i) / 4", "-0.75", "1.25", "0.25"),
    ("n::numeric(3) / 2", "-1", "1.5", "0.5"),
    ("n::int / 2", "-1", "1", "1"),
    ("round(n, 1)", "-1.5", "2.3", "0.1"),
    ("round(g::numeric, 2)", "0", "1", "0.01"),
    ("floor(n)", "-2", "3", "1"),
    ("n::int", "-2", "3", "1"),
    ("g::numeric(6,3)", "0", "1", "0.001"),
    ("coalesce(i, 9)", "-3", "9", "1"),
    ("coalesce(i, NULL)", "-3", "5", "1"),
    ("least(greatest(o, 0), 100)", "0", "100", "1"),
    ("greatest(i, j)", "-3", "5", "1"),
    ("greatest(j, 3)", "3", "4", "1"),
    ("least(o, 5)", None, "5", "1"),
    ("CASE WHEN i > 0 THEN n END", "-1.5", "2.25", "0.01"),
    ("CASE WHEN i > 0 THEN 1 ELSE 0 END", "0", "1", "1"),
    ("CASE WHEN i > 0 THEN 4 ELSE 6 END", "4", "6", "2"),
    ("(i > 3)::int", "0", "1", "1"),
    ("nullif(i, 0)", "-3", "5", "1"),
    ("length('x')", None, None, None),
    ("o * 0.5", None, None, "0.5"),
    ("NULL", None, None, "0"),
]


@pytest.mark.parametrize(("text", "low", "high", "step"), RANGES, ids=[row[0] for row in RANGES])
def test_ranges(text: str, low: str | None, high: str | None, step: str | None) -> None:
    found = ranged(text)
    expected = [None if end is None else Fraction(end) for end in (low, high, step)]
    assert [found.low, found.high, found.step] == expected


OPERATIONS = ["+", "-", "*"]


@pytest.mark.parametrize("seed", range(40))
def test_every_value_of_a_random_expression_is_in_range_and_on_the_lattice(seed: int) -> None:
    """Random trees over integer columns, evaluated at random declared values."""
    rng = random.Random(seed)

    def tree(depth: int) -> str:
        if depth == 0:
            return rng.choice(["i", "j", "d", str(rng.randint(0, 6))])
        kind = rng.randrange(5)
        a, b = tree(depth - 1), tree(depth - 1)
        if kind == 0:
            return f"greatest({a}, {b})"
        if kind == 1:
            return f"least({a}, {b})"
        if kind == 2:
            return f"abs({a})"
        return f"({a} {rng.choice(OPERATIONS)} {b})"

    text = tree(4)
    found = ranged(text)
    assert found.low is not None
    assert found.high is not None
    for _ in range(50):
        values = {"i": rng.randint(-3, 5), "j": rng.randint(1, 4), "d": rng.choice([2, 4, 10])}
        value = eval(text, {"greatest": max, "least": min, "abs": abs, **values})  # noqa: S307 -- our own text
        assert found.low <= value <= found.high
        assert value == 0 if not found.step else Fraction(value) % found.step == 0


def latticed(argument: str, **parameters: str) -> Lattice:
    columns = [
        *document()["columns"],
        column("income", "numeric", NUMERIC, kind="bounds", lower="0", upper="1000", resolution="0.5"),
    ]
    columns.append(
        {
            **column("cents", "numeric", NUMERIC, kind="bounds", lower="0", upper="9.99", resolution="0.05"),
            "typmod": (6 << 16 | 2) + 4,
        }
    )
    item: dict[str, Any] = {"function": "sum", "argument": argument, "parameters": parameters}
    found = asked(row_policy(columns=columns), aggregates=[item]).aggregates[0].lattice
    assert found is not None
    return found


def test_a_lattice_is_the_types_own_where_it_has_one() -> None:
    """The declared resolution of cents, 0.05, is where a ladder starts, not what values are rounded to (§14.9)."""
    found = latticed("cents")
    assert (found.low, found.high, found.step, found.ladder) == (0, 999, Fraction(1, 100), 5)
    found = latticed("income")
    assert (found.low, found.high, found.step, found.ladder) == (0, 2000, Fraction(1, 2), 1)


def test_the_asker_may_clamp_and_round() -> None:
    found = latticed("income", lower="-10", upper="100.3", resolution="0.1")
    assert (found.low, found.high, found.step) == (-100, 1003, Fraction(1, 10))
    assert latticed("owner", lower="0", upper="5").high == 5


REFUSED = [
    ("DP004", "owner", {}),
    ("DP004", "owner", {"lower": "0"}),
    ("DP005", "age", {"lower": "5", "upper": "4"}),
    ("DP005", "income", {"resolution": "0.000000000001", "upper": "1000000"}),
    ("DP005", "age", {"resolution": "0"}),
    ("DP005", "age", {"lower": "NaN"}),
    ("DP003", "sex", {}),
    ("DP003", "day", {}),
]


@pytest.mark.parametrize(("sqlstate", "argument", "parameters"), REFUSED)
def test_what_is_not_declared_is_refused(sqlstate: str, argument: str, parameters: dict[str, str]) -> None:
    with pytest.raises(DPError) as refused:
        latticed(argument, **parameters)
    assert refused.value.sqlstate == sqlstate
    assert refused.value.hint
