"""Times of day and the group keys that their bounds and resolution give."""

from __future__ import annotations

import pytest

from pg_epsilon.errors import DPError
from pg_epsilon.query import clock
from pg_epsilon.query.domain import key_domain, key_sql
from pg_epsilon.query.schema import Column, ColumnPolicy


def at(lower: str, upper: str, resolution: str | None) -> Column:
    policy = ColumnPolicy("bounds", lower, upper, resolution, nullable=False)
    return Column("at", 1083, "time without time zone", policy=policy)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("00:00:00", 0),
        ("08:30:00.5", 30_600_500_000),
        ("23:59:59.999999", 86_399_999_999),
        ("24:00:00", 86_400_000_000),
    ],
)
def test_a_time_is_read_and_written(text: str, number: int) -> None:
    assert clock.microseconds(text) == number
    assert clock.text(number) == text


@pytest.mark.parametrize("text", ["", "8:00", "24:00:00.000001", "25:00:00", "1 day", "-01:00:00", "08:60:00", "1"])
def test_what_is_no_time_is_not_read(text: str) -> None:
    assert clock.microseconds(text) is None


def test_keys_are_the_cells_from_the_lower_bound() -> None:
    assert key_domain(at("08:00:00", "10:00:00", "00:45:00")) == ("08:00:00", "08:45:00", "09:30:00")
    assert key_domain(at("23:00:00", "24:00:00", "00:30:00")) == ("23:00:00", "23:30:00", "24:00:00")
    assert key_domain(at("23:59:59.5", "23:59:59.999999", "00:00:00.25")) == ("23:59:59.5", "23:59:59.75")


def test_a_rows_key_is_where_its_cell_begins() -> None:
    inside = "r.\"at\" >= '08:00:00'::pg_catalog.time AND r.\"at\" <= '09:00:00'::pg_catalog.time"
    place = "pg_catalog.div(pg_catalog.extract('epoch', r.\"at\" - '08:00:00'::pg_catalog.time) * 1000000, 900000000)"
    assert key_sql(at("08:00:00", "09:00:00", "00:15:00")) == (
        f"(CASE WHEN {inside} THEN ('08:00:00'::pg_catalog.time + {place}::pg_catalog.float8 *"
        " '900000000 microseconds'::pg_catalog.interval)::pg_catalog.text"
        ' ELSE r."at"::pg_catalog.text END)'
    )
    assert "'24:00:00'::pg_catalog.time THEN '24:00:00'" in key_sql(at("23:00:00", "24:00:00", "00:30:00"))


@pytest.mark.parametrize("resolution", [None, "1 day", "1", "00:00:00"])
def test_without_a_resolution_of_the_clock_there_are_no_keys(resolution: str | None) -> None:
    with pytest.raises(DPError) as caught:
        key_domain(at("08:00:00", "09:00:00", resolution))
    assert caught.value.sqlstate == "DP004" and "resolution" in caught.value.hint
