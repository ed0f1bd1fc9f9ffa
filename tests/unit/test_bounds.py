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
    "t": Column("t", 25, "text", policy=ColumnPolicy("domain", domain=("", "é€", "four"))),
    "c": Column("c", 1042, "character", 5 + 4, policy=ColumnPolicy("domain", domain=("a ", "ab"))),
    "v": Column("v", 1043, "character varying", 10 + 4, policy=ColumnPolicy("opaque")),
    "w": Column("w", 25, "text", policy=ColumnPolicy("opaque")),
    "at": Column("at", 1083, "time without time zone", policy=ColumnPolicy("opaque")),
    "opened": Column("opened", 1083, "time", policy=ColumnPolicy("bounds", "08:00:00", "18:00:00.5")),
    "day": Column("day", 1082, "date", policy=ColumnPolicy("bounds", "2023-01-01", "2024-12-31", "1 day")),
    "listed": Column("listed", 1082, "date", policy=ColumnPolicy("domain", domain=("2001-01-01", "1999-12-31"))),
    "early": Column("early", 1082, "date", policy=ColumnPolicy("bounds", "0044-03-15 BC", "2024-12-31", "1 day")),
    "ts": Column("ts", 1114, "timestamp", policy=ColumnPolicy("bounds", "2024-01-01", "2024-12-31 12:00:00")),
    "late": Column(
        "late",
        1114,
        "timestamp",
        policy=ColumnPolicy("domain", domain=("2023-12-31 23:59:59.5", "2024-01-01 00:00:00.5")),
    ),
    "ots": Column("ots", 1114, "timestamp", policy=ColumnPolicy("opaque")),
    "tz": Column(
        "tz", 1184, "timestamptz", policy=ColumnPolicy("bounds", "2024-01-01 00:00:00+00", "2024-12-31 00:00:00+00")
    ),
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
    ("i / j", "-3", "5", "1"),
    ("i / nullif(i, 0)", "-5", "5", "1"),
    ("j / -j", "-4", "0", "1"),
    ("o / j", None, None, "1"),
    ("i / o", "-5", "5", "1"),
    ("n / j", "-1.5", "2.25", None),
    ("n / nullif(n, 0)", "-225", "225", None),
    ("f / nullif(g, 0)", None, None, None),
    ("div(i, 2)", "-1", "2", "1"),
    ("div(n, 2)", "0", "1", "1"),
    ("div(n, j)", "-1", "2", "1"),
    ("div(i, 2) / 2", "-0.5", "1", "0.5"),
    ("mod(i, 4)", "-4", "4", "1"),
    ("sign(i)", "-1", "1", "1"),
    ("sign(j)", "1", "1", "1"),
    ("sign(o)", "-1", "1", "1"),
    ("sign(d - 2)", "0", "1", "1"),
    ("width_bucket(o, 0, 100, 10)", "0", "11", "1"),
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
    ("length('x')", "1", "1", "1"),
    ("length(t)", "0", "4", "1"),
    ("char_length(t)", "0", "4", "1"),
    ("octet_length(t)", "0", "5", "1"),
    ("octet_length('é')", "2", "2", "1"),
    ("length(c)", "1", "2", "1"),
    ("octet_length(c)", "5", "5", "1"),
    ("length(v)", "0", "10", "1"),
    ("octet_length(v)", "0", "40", "1"),
    ("length(w)", None, None, None),
    ("length(left(w, 3))", "0", "3", "1"),
    ("length(left(t, 3))", "0", "3", "1"),
    ("octet_length(right(t, 3))", "0", "12", "1"),
    ("length(substr(w, 2, 3))", "0", "3", "1"),
    ("length(substr(w, 2))", None, None, None),
    ("length(btrim(c))", "0", "2", "1"),
    ("strpos(v, 'x')", "0", "10", "1"),
    ("position('x' in t)", "0", "4", "1"),
    ("extract(hour from ts)", "0", "23", "1"),
    ("extract(hour from at)", "0", "24", "1"),
    ("extract(epoch from at)", "0", "86400", "0.000001"),
    ("extract(hour from ts) * 60 + extract(minute from ts)", "0", "1439", "1"),
    ("extract(hour from opened)", "8", "18", "1"),
    ("extract(epoch from opened)", "28800", "64800.5", "0.000001"),
    ("extract(minute from opened)", "0", "59", "1"),
    ("extract(hour from opened + interval '1 hour')", "0", "24", "1"),
    ("extract(hour from ots)", "0", "23", "1"),
    ("extract(year from ots)", None, None, None),
    ("extract(second from ts)", "0", "59.999999", "0.000001"),
    ("date_part('dow', day)", "0", "6", "1"),
    ("extract(isodow from day)", "1", "7", "1"),
    ("extract(doy from day)", "1", "366", "1"),
    ("extract(year from day)", "2023", "2024", "1"),
    ("extract(year from day) / 2", "1011.5", "1012", "0.5"),
    ("extract(isoyear from day)", "2022", "2025", "1"),
    ("extract(decade from day)", "202", "202", "1"),
    ("extract(century from day)", "21", "21", "1"),
    ("extract(millennium from day)", "3", "3", "1"),
    ("extract(julian from day)", None, None, None),
    ("extract(year from tz)", "2023", "2025", "1"),
    ("extract(year from ts + interval '6 months')", "2024", "2025", "1"),
    ("extract(year from interval '-13 months -1 day' + ts)", "2022", "2023", "1"),
    ("extract(year from ts + '1 day')", "2024", "2025", "1"),
    ("extract(year from ts + interval '12:00')", None, None, None),
    ("extract(year from date_trunc('quarter', ts - interval '1 month'))", "2023", "2024", "1"),
    ("extract(year from date_trunc('century', ts))", None, None, None),
    ("extract(year from day + 366)", "2024", "2026", "1"),
    ("extract(year from ts::date)", "2024", "2024", "1"),
    ("extract(year from tz at time zone 'Asia/Kolkata')", "2023", "2025", "1"),
    ("extract(epoch from day)", "1672531200", "1735603200", "86400"),
    ("extract(epoch from ts)", "1704067200", "1735646400", "1"),
    ("extract(epoch from late)", "1704067199", "1704067201", "1"),
    ("day - date '2023-01-01'", "0", "730", "1"),
    ("day - day", "-730", "730", "1"),
    ("ts::date - day", "-365", "730", "1"),
    ("day - 1", None, None, None),
    ("extract(year from early)", None, None, None),
    ("extract(year from listed)", "1999", "2001", "1"),
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
