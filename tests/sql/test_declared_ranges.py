"""Ranges that follow from declarations hold every value that PostgreSQL computes from declared values."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest

from fix_hostile import Server, hostile_server
from pg_epsilon.query.intervals import Range
from pg_epsilon.query.parse import parse_expression
from pg_epsilon.query.ranges import range_of
from pg_epsilon.query.schema import Column, ColumnPolicy

__all__ = ["hostile_server"]
LOW, HIGH = "2023-11-03", "2024-12-31"
CITIES = ("", "Metz", "Zürich", "東京")
COLUMNS = {
    "day": Column("day", 1082, "date", policy=ColumnPolicy("bounds", LOW, HIGH)),
    "ts": Column("ts", 1114, "timestamp", policy=ColumnPolicy("bounds", LOW, HIGH)),
    "tz": Column("tz", 1184, "timestamptz", policy=ColumnPolicy("bounds", f"{LOW} 00:00:00+00", f"{HIGH} 00:00:00+00")),
    "n": Column("n", 23, "integer", policy=ColumnPolicy("bounds", "-7", "12")),
    "k": Column("k", 1700, "numeric", (4 << 16 | 2) + 4, policy=ColumnPolicy("bounds", "-1", "0.5")),
    "city": Column("city", 25, "text", policy=ColumnPolicy("domain", domain=CITIES)),
    "code": Column("code", 1042, "char", 5 + 4, policy=ColumnPolicy("domain", domain=("a", "ab "))),
    "at": Column("at", 1083, "time", policy=ColumnPolicy("opaque")),
}
ROWS = f"""
SELECT ts::date AS day, ts, ts AT TIME ZONE 'UTC' AS tz, (i % 20 - 7)::int AS n,
  ((i % 151) / 100.0 - 1)::numeric(4,2) AS k, (ARRAY['', 'Metz', 'Zürich', '東京'])[1 + i % 4] AS city,
  (ARRAY['a', 'ab'])[1 + i % 2]::char(5) AS code, CASE WHEN i % 9 = 0 THEN time '24:00' ELSE ts::time END AS at
FROM (SELECT i, LEAST(timestamp '{LOW}' + i * interval '3 hours 7 min 1.5 seconds', '{HIGH}') AS ts
  FROM generate_series(0, 3400) AS i) AS s
"""
EXPRESSIONS = [
    *(f"extract({field} from ts)" for field in ("hour", "minute", "second", "milliseconds", "microseconds")),
    *(f"extract({field} from day)" for field in ("dow", "isodow", "doy", "week", "month", "quarter", "day", "epoch")),
    *(f"extract({field} from tz)" for field in ("year", "isoyear", "decade", "century", "millennium")),
    *(f"extract({field} from at)" for field in ("hour", "minute", "second", "epoch")),
    "extract(year from ts + interval '6 months')",
    "extract(year from tz - interval '10 months 3 days 4 hours')",
    "extract(isoyear from day - 65)",
    "extract(year from date_trunc('week', tz + interval '1 month') - interval '1 day')",
    "extract(year from (tz at time zone 'Pacific/Kiritimati')::date)",
    "extract(epoch from date_trunc('quarter', day))",
    "round(extract(epoch from ts))",
    "round(extract(epoch from tz))",
    "round(extract(epoch from ts + interval '1 month' - interval '1 day'))",
    "extract(epoch from tz::date)",
    "extract(hour from ts) * 60 + extract(minute from ts)",
    "day - date '2024-02-29'",
    "day - tz::date",
    "n / nullif(n - 2, 0)",
    "n / 3",
    "div(n, 5)",
    "div(k, nullif(n, 0))",
    "k / nullif(k, 0)",
    "n / nullif(k, 0)",
    "mod(n, 5)",
    "sign(k)",
    "abs(n)",
    "floor(k) / 2",
    "round(k, 1)",
    "width_bucket(n, 0, 10, 5)",
    "length(city)",
    "octet_length(city)",
    "length(code)",
    "octet_length(code)",
    "char_length(left(city, 3))",
    "octet_length(left(city, 2))",
    "strpos(city, 'z')",
]


def range_in(text: str) -> Range:
    return range_of(parse_expression(text), lambda node: COLUMNS[node.fields[0].sval])


def outside(server: Server, text: str, known: Range) -> list[Decimal]:
    """Values of an expression beyond its range, or off its lattice."""
    with server.connect(zone="America/New_York") as connection:
        sql = f"SELECT DISTINCT ({text})::numeric FROM ({ROWS}) AS r WHERE ({text}) IS NOT NULL"
        values = [row[0] for row in connection.execute(sql).fetchall()]
    assert values and known.low is not None and known.high is not None
    low, high, step = known.low, known.high, known.step
    bad = lambda value: not low <= value <= high or (step is not None and value % step != 0)  # noqa: E731
    return [value for value in values if bad(Fraction(value))]


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_no_value_is_outside_the_range(hostile_server: Server, text: str) -> None:
    assert outside(hostile_server, text, range_in(text)) == []


def test_a_range_that_is_too_narrow_is_caught(hostile_server: Server) -> None:
    """Control: an hour less, and steps of two."""
    assert outside(hostile_server, "extract(hour from ts)", Range(Fraction(0), Fraction(22), Fraction(1)))
    assert outside(hostile_server, "extract(hour from ts)", Range(Fraction(0), Fraction(23), Fraction(2)))
