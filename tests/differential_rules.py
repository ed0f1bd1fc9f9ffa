"""Where the compiler differs from PostgreSQL on purpose: one list, with the reason of each entry."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Design:
    """What differs by design: expressions whose generated SQL (or text) matches, on the rows of `condition`.

    of_type: the result's type differs too, or alone. calendar: of conversions and date_trunc alone.
    """

    name: str
    reason: str
    sql: str = ""
    text: str = ""
    condition: str = ""
    of_type: bool = False
    calendar: bool = False

    def concerns(self, text: str, sql: str) -> bool:
        """Whether an expression is of this kind."""
        if self.calendar and not re.search("AT TIME ZONE|'infinity'|date_trunc|date_bin", sql):
            return False
        return bool(re.search(self.sql, sql)) and bool(re.search(self.text, text))


_STAMPS = ("ts", "tz")
_FAR = "isfinite({0}) AND ({0} < '3999-01-01 BC' OR {0} >= '294276-12-01')"
BY_DESIGN: tuple[Design, ...] = (
    *(
        Design(
            f"ends of the calendar: {column}",
            "PostgreSQL raises on some of these rows, depending on unit and zone: beyond 4000 BC and November 294276"
            " conversions give an infinity and date_trunc leaves the moment as it is (query/temporal.py)",
            sql=rf'\br\."{column}"',
            calendar=True,
            condition=_FAR.format(column),
        )
        for column in ("d", "ts", "tz")
    ),
    Design(
        "bins at the ends of the calendar",
        "PostgreSQL raises where a bin begins before 4714 BC, or is too far from its origin (query/bins.py)",
        sql="date_bin",
        condition=" OR ".join(
            f"isfinite({x}) AND ({x} < '3999-01-01 BC' OR {x} >= '280000-01-01')" for x in ("ts", "tz")
        ),
    ),
    Design(
        "rounding of integers",
        "PostgreSQL rounds an integer as double precision; here it is exact, and numeric (query/functions.py)",
        text=r"\b(round|trunc|ceil|ceiling|floor|sign)\(",
        condition="abs(i8::numeric) > 9007199254740992",
        of_type=True,
    ),
    Design(
        "constants beyond bigint",
        "PostgreSQL raises where it computes them, and here they are numeric (query/literals.py)",
        text="9223372036854775808|3000000000",
        of_type=True,
    ),
)
