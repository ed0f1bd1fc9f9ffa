"""Forms of time_bucket over moments and numbers at the edges of buckets, and what TimescaleDB 2.19.3 gives for each.

tests/fixtures/time_bucket.tsv holds the values: `python tests/fix_buckets.py` in a database with TimescaleDB prints it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psycopg

from pg_epsilon_proxy.rewrite.buckets import spelled_out
from pg_epsilon_proxy.session.rewriting import Described, Field, Probe

RECORDED = Path(__file__).parent / "fixtures" / "time_bucket.tsv"
ZONES = ("Europe/Berlin", "UTC", "America/New_York")
_STAMPS = (
    *("1969-07-20 20:17:40", "1999-12-26 23:59:59.999999", "1999-12-27 00:00", "1999-12-31 23:45", "2000-01-01 00:00"),
    *(
        "2000-01-02 23:59:59.999999",
        "2000-01-03 00:00",
        "2000-01-31 06:00",
        "2000-02-29 12:34:56.789",
        "2000-06-30 22:30",
    ),
    *("2023-12-31 23:00", "2024-02-29 00:07", "2024-03-31 00:59:59.999999", "2024-03-31 01:00", "2024-03-31 03:15"),
    *("2024-10-27 00:30", "2024-10-27 01:30", "2024-10-27 02:30", "2024-11-03 05:45", "2024-12-30 00:00"),
    *("infinity", "-infinity"),
)
_NUMBERS = (-32001, -25, -11, -10, -9, -1, 0, 1, 3, 7, 9, 10, 11, 13, 19, 20, 25, 99, 100, 101, 32001, 5)
MOMENTS = "edges"
TABLE = (
    f"CREATE TEMP TABLE {MOMENTS} AS SELECT n, ts, tz, d, i, i::int2 AS s, i * 100000000000::int8 AS b FROM (VALUES "
    + ", ".join(
        f"({n}, timestamp '{text}', timestamptz '{text}{'+00' if ':' in text else ''}', date '{text}', {number})"
        for n, (text, number) in enumerate(zip(_STAMPS, _NUMBERS, strict=True))
    )
    + ", (99, NULL, NULL, NULL, NULL)) AS v(n, ts, tz, d, i)"
)
FORMS = (
    "time_bucket('15 minutes', ts)",
    "time_bucket('7 days', ts)",
    "time_bucket('1 week', ts)",
    "time_bucket(interval '1 day 12 hours', ts)",
    "time_bucket('1:30', ts)",
    "time_bucket('1 month', ts)",
    "time_bucket('2 months', ts)",
    "time_bucket('3 months', ts)",
    "time_bucket('4 months', ts)",
    "time_bucket('6 mons', ts)",
    "time_bucket('1 year', ts)",
    "time_bucket('10 years', ts)",
    "time_bucket('1 day', ts, interval '6 hours')",
    "time_bucket('1 week', ts, \"offset\" => '-1 day')",
    "time_bucket('1 month', ts, \"offset\" => '10 days')",
    "time_bucket('7 days', ts, timestamp '2024-01-01 12:00')",
    "time_bucket('1 year', ts, origin => '2000-04-15')",
    "time_bucket('3 months', ts, origin => date '2000-02-15')",
    "time_bucket('6 months', ts, origin => '1999-11-01')",
    "time_bucket(bucket_width => '1 hour', ts => ts)",
    "time_bucket('15 minutes', tz)",
    "time_bucket('1 day', tz)",
    "time_bucket('1 week', tz)",
    "time_bucket('1 month', tz)",
    "time_bucket('1 year', tz, origin => '2000-07-01 00:00+02')",
    "time_bucket('1 day', tz, timestamptz '2000-01-01 00:00+01')",
    "time_bucket('1 day', tz, \"offset\" => '5 hours')",
    "time_bucket('1 day', tz, interval '1 day 5 hours')",
    "time_bucket('1 month', tz, interval '3 days')",
    "time_bucket('1 hour', tz, 'Europe/Berlin')",
    "time_bucket('1 day', tz, 'Europe/Berlin')",
    "time_bucket('1 week', tz, 'America/New_York')",
    "time_bucket('1 month', tz, timezone => 'Asia/Kathmandu')",
    "time_bucket('3 months', tz, 'Europe/Berlin', '2000-01-31 23:30+00'::timestamptz)",
    "time_bucket('1 week', tz, 'Europe/Berlin', origin => '2000-01-01 00:00+01')",
    "time_bucket('1 week', tz, 'Europe/Berlin', \"offset\" => '6 hours')",
    "time_bucket('1 week', tz, 'Europe/Berlin', '2000-01-01 00:00+01'::timestamptz, '6 hours')",
    "time_bucket('1 day', ts, timezone => 'Europe/Berlin')",
    "time_bucket('1 day', d)",
    "time_bucket('7 days', d)",
    "time_bucket('48 hours', d)",
    "time_bucket('1 month', d)",
    "time_bucket('5 years'::interval - '4 years'::interval, d)",
    "time_bucket('7 days', d, date '2024-01-01')",
    "time_bucket('7 days', d, interval '2 days')",
    "time_bucket('1 day', d, interval '6 hours')",
    "time_bucket('3 months', d, origin => '2000-02-15')",
    "time_bucket(10, i)",
    "time_bucket(10, i, 3)",
    'time_bucket(10, i, "offset" => -13)',
    "time_bucket(10::int2, s)",
    "time_bucket(7, s)",
    "time_bucket('7', s)",
    "time_bucket(250000000000, b)",
    "time_bucket(10, b, 3)",
    "time_bucket('1 day', time_bucket('6 hours', ts))",
)


class PlainIO:
    """SessionIO of a psycopg connection: what the proxy's facade session would say."""

    def __init__(self, conn: psycopg.Connection[Any]) -> None:
        self._conn = conn

    async def in_parser(self, function: Callable[..., Any], *args: Any) -> Any:
        return function(*args)

    async def together(self, probes: Sequence[Probe]) -> list[Described]:
        cursors = [self._conn.execute(f"SELECT * FROM ({probe.sql}) AS q LIMIT 0") for probe in probes]
        codes = [cursor.description[0].type_code for cursor in cursors if cursor.description]
        return [Described((), (Field("t", 0, 0, code, -1, -1, 0),)) for code in codes]

    async def fetch(self, sql: str, params: Sequence[str] = ()) -> list[list[str | None]]:
        return [list(row) for row in self._conn.execute(sql.replace("$1", "%s"), params or None).fetchall()]


def rewritten(conn: psycopg.Connection[Any], sql: str) -> str:
    """A statement as the proxy writes it."""
    return asyncio.run(spelled_out(sql, PlainIO(conn))).text  # type: ignore[arg-type]


def query(form: str) -> str:
    """Values and type of a form over all edges."""
    return f"SELECT {form} AS b FROM {MOMENTS} ORDER BY n"


def values(conn: psycopg.Connection[Any], sql: str) -> list[str]:
    """The type of what a query gives, then its values; moments with time zone in UTC's."""
    shown = f"SELECT b::text, pg_typeof(b)::text FROM ({sql}) AS q"
    rows = conn.execute(shown).fetchall()
    return [rows[0][1], *(str(row[0]) for row in rows)]


def recorded() -> dict[str, list[str]]:
    """What TimescaleDB gave, by zone and form."""
    lines = (line.split("\t") for line in RECORDED.read_text().splitlines())
    return {f"{zone}\t{form}": given for zone, form, *given in lines}


def record(conn: psycopg.Connection[Any]) -> dict[str, list[str]]:
    """What the database's own time_bucket gives."""
    conn.execute(TABLE)
    found = {}
    for zone in ZONES:
        conn.execute(f"SET TimeZone = '{zone}'")
        found |= {f"{zone}\t{form}": values(conn, query(form)) for form in FORMS}
    return found
