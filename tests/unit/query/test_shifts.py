"""Moments of rows moved by constants: the exact SQL, one text for what means the same, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

import pytest

import fix_query
from pg_epsilon.errors import DPError
from pg_epsilon.query.expression import FoldError, Kind, Scope, compile_expression, compile_predicate
from pg_epsilon.query.shifts import Span, spans

_INTERVAL = re.compile(r".*\('([^']*)'::pg_catalog\.interval\).*", re.DOTALL)
_FOLDED = {
    "1 day": "0|1|0",
    "-1 day": "0|-1|0",
    "4 hours": "0|0|14400.000000",
    "1 month 2 days 3 seconds": "1|2|3.000000",
    "10001 years": "120012|0|0",
}
DAY, HOURS = (f"'+0 mons {rest} secs'::pg_catalog.interval" for rest in ("+1 days +0", "+0 days +14400.000000"))
LATE = " >= '294276-01-01 00:00:00'::pg_catalog.timestamp THEN 'infinity'::pg_catalog.timestamp"
EARLY = " < '4712-01-01 00:00:00 BC'::pg_catalog.timestamp THEN '-infinity'::pg_catalog.timestamp"
LATE_ZONED = " >= '294276-01-01 00:00:00+00'::pg_catalog.timestamptz THEN 'infinity'::pg_catalog.timestamptz"
EARLY_ZONED = " < '4712-01-01 00:00:00+00 BC'::pg_catalog.timestamptz THEN '-infinity'::pg_catalog.timestamptz"


def fold(texts: Sequence[str]) -> list[str | None]:
    """Intervals as PostgreSQL takes them apart; all else as fix_query has it."""
    found: list[str | None] = []
    for text in texts:
        match = _INTERVAL.fullmatch(text)
        if match is None:
            found += fix_query.fold([text])
        elif match[1] in _FOLDED:
            found.append(_FOLDED[match[1]])
        else:
            raise FoldError(text)
    return found


@pytest.mark.parametrize(
    ("text", "kind", "sql"),
    [
        ("seen + interval '1 day'", Kind.TIMESTAMP, f'(CASE WHEN r."seen"{LATE} ELSE (r."seen" + {DAY}) END)'),
        (
            "seen - interval '1 day'",
            Kind.TIMESTAMP,
            f'(CASE WHEN r."seen"{EARLY} ELSE (r."seen" + {DAY.replace("+1", "-1")}) END)',
        ),
        (
            "born - 1",
            Kind.DATE,
            "(CASE WHEN r.\"born\" < '4712-01-01 BC'::pg_catalog.date THEN '-infinity'::pg_catalog.date"
            ' ELSE r."born" + (-1) END)',
        ),
        (
            "3 + born",
            Kind.DATE,
            "(CASE WHEN r.\"born\" >= '5874897-01-01'::pg_catalog.date THEN 'infinity'::pg_catalog.date"
            ' ELSE r."born" + (3) END)',
        ),
        ("born + 0", Kind.DATE, 'r."born"'),
        (
            "at + interval '4 hours'",
            Kind.TIMESTAMPTZ,
            f'(CASE WHEN r."at"{LATE_ZONED} ELSE (r."at" + {HOURS}) END)',
        ),
        (
            "at + interval '1 month 2 days 3 seconds'",
            Kind.TIMESTAMPTZ,
            f'(CASE WHEN r."at"{LATE_ZONED} WHEN r."at"{EARLY_ZONED} ELSE '
            "(((((r.\"at\" AT TIME ZONE 'Asia/Kolkata' + '+1 mons +0 days +0 secs'::pg_catalog.interval)"
            " AT TIME ZONE 'Asia/Kolkata')"
            " AT TIME ZONE 'Asia/Kolkata' + '+0 mons +2 days +0 secs'::pg_catalog.interval)"
            " AT TIME ZONE 'Asia/Kolkata') + '+0 mons +0 days +3.000000 secs'::pg_catalog.interval) END)",
        ),
        ("seen + NULL::interval", Kind.TIMESTAMP, "NULL::pg_catalog.timestamp"),
    ],
)
def test_canonical_sql(scope: Scope, text: str, kind: Kind, sql: str) -> None:
    found = compile_expression(text, replace(scope, timezone="Asia/Kolkata"), fold)
    assert (found.kind, found.sql) == (kind, sql)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("seen + interval '1 day'", "interval '1 day' + seen"),
        ("seen + interval '1 day'", "seen + '1 day'"),
        ("seen + interval '1 day'", "seen - interval '-1 day'"),
        ("born + 1", "born - (-1)"),
        ("born + 1", "1 + born"),
    ],
)
def test_one_text_for_what_means_the_same(scope: Scope, one: str, other: str) -> None:
    assert compile_expression(one, scope, fold).sql == compile_expression(other, scope, fold).sql


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("born + 4000000 > '2024-01-01'", "10,000 years"),
        ("seen - interval '10001 years' > '2024-01-01'", "10,000 years"),
        ("born + age > '2024-01-01'", "date \\+ integer is not supported on columns"),
        ("1 - born > '2024-01-01'", "not supported on columns"),
        ("interval '1 day' - seen > '2024-01-01'", "not supported on columns"),
        ("seen * interval '1 day' > '2024-01-01'", "not supported on columns"),
        ("born + 1.5 > '2024-01-01'", "not supported on columns"),
        ("seen + 1 > '2024-01-01'", "not supported on columns"),
        ("now() - at > interval '1 day'", "not supported on columns"),
        ("seen + 'soon' > '2024-01-01'", "cannot be evaluated"),
    ],
)
def test_what_is_no_shift_by_a_constant_is_refused(scope: Scope, text: str, message: str) -> None:
    with pytest.raises(DPError, match=message) as caught:
        compile_predicate(text, scope, fold)
    assert caught.value.sqlstate == "DP003" and caught.value.hint


def test_the_calendars_ends_are_kept_away_by_the_shift(scope: Scope) -> None:
    """The nearer end alone, by a year more than what is added."""
    sql = compile_expression("born - 730", scope, fold).sql
    assert "'4710-01-01 BC'" in sql and "5874897" not in sql
    assert "'0009-01-01'" in compile_expression("born - 1722800", scope, fold).sql
    assert "'0001-01-01 BC'" in compile_expression("born - 1719515", scope, fold).sql


def test_reach_holds_all_that_lies_between() -> None:
    assert Span(1, -1, Decimal("0.5")).reach == (1, 32)
    assert (-Span(1, -1, Decimal("0.5"))).reach == (32, 1)
    assert Span().reach == (0, 0)


def test_the_shifts_of_compiled_sql_are_found_in_it(scope: Scope) -> None:
    sql = compile_expression("seen + interval '1 month 2 days 3 seconds' - interval '4 hours'", scope, fold).sql
    assert {*spans(sql)} == {Span(1, 2, Decimal(3)), Span(seconds=Decimal(-14400))}
    assert spans(compile_expression("name = '''+1 mons +0 days +0 secs''::pg_catalog.interval'", scope, fold).sql) == ()
