"""Where a removal of rows ends, what it needs to keep counts, and what is said of it afterwards."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from pg_epsilon.errors import OUT_OF_RANGE, DPError
from pg_epsilon.query.policy import Policy
from pg_epsilon.turbo.catalog import Part, View
from pg_epsilon.turbo.retention import Boundary, boundary, check_kept, told

DAYS = {"origin": "2026-01-01", "width": "1 day"}
FIRST, SECOND = "2026-03-01 02:00:00+00", "2026-03-02 02:00:00+00"


def policy(grid: dict[str, Any] | None = None, type_name: str = "date") -> Policy:
    column = SimpleNamespace(name="day", type_name=type_name)
    relation = SimpleNamespace(qualified="public.t", columns={"day": column})
    return cast(Policy, SimpleNamespace(relation=relation, partition_by="day", grid=grid or DAYS))


def part(
    number: int, *, sealed: bool = True, counted: bool = True, removed: str | None = None, kept: bool | None = None
) -> Part:
    lower, upper = f"2026-01-{number + 1:02}", f"2026-01-{number + 2:02}"
    return Part(number, f"[{lower},{upper})", lower, upper, 1, sealed, 1, "", counted, removed, kept)


def view(*parts: Part) -> View:
    return cast(View, SimpleNamespace(parts={one.part: one for one in parts}))


@pytest.mark.parametrize(
    ("grid", "type_name", "before", "found"),
    [
        (DAYS, "date", "2026-01-03", Boundary(2, "2026-01-03", True)),
        ({**DAYS, "width": "7 days"}, "date", "2026-01-14", Boundary(1, "2026-01-08", False)),
        (DAYS, "timestamp with time zone", "2026-01-03 01:00:00+01", Boundary(2, "2026-01-03 00:00:00+00", True)),
        (DAYS, "timestamp without time zone", "2026-01-03 00:00:01", Boundary(2, "2026-01-03 00:00:00", False)),
        ({"origin": -10, "width": 5}, "bigint", "0", Boundary(2, "0", True)),
        ({"origin": -10, "width": 5}, "bigint", "-1", Boundary(1, "-5", False)),
    ],
)
def test_it_ends_where_a_partition_ends(grid: dict[str, Any], type_name: str, before: str, found: Boundary) -> None:
    assert boundary(policy(grid, type_name), before) == found


@pytest.mark.parametrize(
    ("grid", "before"), [(DAYS, "2025-12-31"), (DAYS, "2026-01-01"), (DAYS, "infinity"), ({"list": ["1", "2"]}, "2")]
)
def test_where_none_ends_nothing_is_removed(grid: dict[str, Any], before: str) -> None:
    with pytest.raises(DPError) as caught:
        boundary(policy(grid), before)
    assert caught.value.sqlstate == OUT_OF_RANGE and caught.value.hint


@pytest.mark.parametrize(
    ("second", "words", "hint"),
    [
        (None, "is not sealed", "CALL dp.seal_partitions('public.t', until => '2026-01-03')"),
        (part(1, sealed=False), "is not sealed", "CALL dp.seal_partition('public.t', '2026-01-02')"),
        (part(1, counted=False), "has no counts", "CALL dp.refresh('public.t')"),
    ],
)
def test_counts_that_are_not_there_cannot_be_kept(second: Part | None, words: str, hint: str) -> None:
    found = view(part(0), *([second] if second is not None else []))
    end = Boundary(2, "2026-01-03", True)
    with pytest.raises(DPError) as caught:
        check_kept(policy(), found, end)
    assert caught.value.sqlstate == OUT_OF_RANGE
    assert f"partition [2026-01-02,2026-01-03) {words}" in caught.value.message
    assert hint in caught.value.hint and "keep_counts => false" in caught.value.hint
    check_kept(policy(), found, Boundary(1, "2026-01-02", True))


def test_what_was_removed_before_needs_no_counts() -> None:
    parts = part(0, counted=False, removed=FIRST, kept=True), part(1, removed=FIRST, kept=False)
    check_kept(policy(), view(*parts), Boundary(2, "2026-01-03", True))


def test_every_stretch_is_told_once() -> None:
    parts = [
        *(part(number, removed=FIRST, kept=False) for number in range(2)),
        part(2, removed=FIRST, kept=True),
        part(3, removed=SECOND, kept=True),
        part(4),
    ]
    assert told(policy(), view(*parts), 0, 4) == [
        f"rows with day from 2026-01-01 to before 2026-01-03 were removed on {FIRST}: none of them is counted",
        f"rows with day from 2026-01-03 to before 2026-01-05 were removed by and by, the last on {SECOND}:"
        " counts there are those of the seal",
    ]
    assert told(policy(), view(*parts), 4, 4) == []


def test_a_view_without_partitions_says_nothing() -> None:
    whole = Part(0, None, None, None, 1, True, 1, "")
    assert told(cast(Policy, SimpleNamespace(partition_by=None)), view(whole), 0, 0) == []
