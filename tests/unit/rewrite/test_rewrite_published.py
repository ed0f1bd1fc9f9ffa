"""Reads of published releases: told once a session, and asked of the facade no more than that takes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rewrite_fake import NAMES, FakeIO

from pg_epsilon_proxy.rewrite import probes
from pg_epsilon_proxy.rewrite.driver import SqlRewriter
from pg_epsilon_proxy.rewrite.notices import published_text

ANSWERS = ("parameters", "answer", "unbiased", "low", "high", "below_resolution")
LOSS, ODD = ("dp_release", "loss"), ("dp_release", "Odd")
GRID = ("dp_release", "loss_answers")
OTHER = ("other", "loss")
BRAIN = SqlRewriter(
    replace(
        NAMES,
        public=NAMES.public | {LOSS, ODD, GRID, OTHER},
        columns={**NAMES.columns, LOSS: ("age", "value", "weight"), GRID: ANSWERS},
    )
)


async def told(io: FakeIO, sql: str, *, extended: bool = False) -> list[str]:
    """What is said of a statement that goes to the facade as it is."""
    before = len(io.notices)
    if BRAIN.mentions(sql):
        assert await BRAIN.plan(sql, (), io, extended=extended) is None
    return [message for _, message in io.notices[before:]]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT sum(value * weight) FROM dp_release.loss",
        "select * from DP_RELEASE . LOSS t join other.loss using (age)",
        "WITH x AS (SELECT age FROM dp_release.loss) SELECT count(*) FROM x",
        "SELECT 1; SELECT (SELECT max(weight) FROM dp_release.loss)",
        "COPY dp_release.loss TO STDOUT",
        "CREATE TEMP TABLE mine AS SELECT * FROM dp_release.loss",
        "PREPARE p AS SELECT * FROM dp_release.loss",
        "DECLARE c CURSOR FOR SELECT * FROM dp_release.loss",
        "EXPLAIN SELECT * FROM dp_release.loss",
    ],
)
@pytest.mark.parametrize("extended", [False, True])
async def test_a_read_is_told_once(sql: str, extended: bool) -> None:
    io = FakeIO()
    assert await told(io, sql, extended=extended) == [published_text(*LOSS)]
    assert io.fetched == [probes._SETTINGS]
    assert await told(io, sql, extended=extended) == []
    assert io.fetched == [probes._SETTINGS]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1",
        "SELECT * FROM dp_release.loss_answers",
        "SELECT * FROM other.loss",
        "SELECT 'FROM dp_release.loss'",
        "SELECT * FROM mine -- once dp_release.loss",
        "WITH loss AS (SELECT 1) SELECT * FROM loss, pg_namespace WHERE nspname = 'dp_release'",
        "SELECT * FROM dp_release.loss WHERE",
    ],
)
async def test_what_reads_none_asks_nothing(sql: str) -> None:
    io = FakeIO()
    assert await told(io, sql) == []
    assert (io.fetched, io.described) == ([], [])


async def test_each_table_is_told_of_and_all_again_after_discard() -> None:
    io = FakeIO()
    both = 'SELECT * FROM dp_release."Odd", dp_release.loss, dp_release."Odd" o'
    assert await told(io, both) == [published_text(*ODD), published_text(*LOSS)]
    assert await told(io, both) == []
    io.last.forget()
    assert len(await told(io, both)) == 2


async def test_who_wants_no_notices_is_asked_again_after_a_set() -> None:
    """And who was told is not told again by setting something."""
    io = FakeIO()
    io.settings["application_name"] = "dashboard"
    sql = "SELECT * FROM dp_release.loss"
    for _ in range(2):
        assert await told(io, sql) == []
    assert io.fetched == [probes._SETTINGS]
    io.settings["dp.notices"] = "on"
    assert await told(io, "SET dp.notices = on") == []
    assert await told(io, sql) == [published_text(*LOSS)]
    await told(io, "SET dp.epsilon = 1")
    assert await told(io, sql) == []


async def test_beside_a_question_it_is_told_too() -> None:
    io = FakeIO()
    sql = "SELECT (SELECT count(*) FROM adult), sum(weight) FROM dp_release.loss"
    plan = await BRAIN.plan(sql, (), io, extended=False)
    assert plan is not None
    assert [message for _, message in io.notices] == [published_text(*LOSS)]


async def test_a_name_without_its_schema_is_asked_of_the_facade() -> None:
    io = FakeIO()
    sql = "SELECT sum(weight) FROM loss"
    io.meant["loss"] = LOSS
    assert await told(io, sql) == [published_text(*LOSS)]
    assert io.fetched == [probes._RESOLVE, probes._SETTINGS]
    assert await told(io, sql) == await told(io, "SELECT * FROM dp_release.loss") == []
    assert io.fetched == [probes._RESOLVE, probes._SETTINGS]


async def test_a_name_that_means_another_relation_is_asked_once_until_the_path_is_set() -> None:
    io = FakeIO()
    sql = "SELECT sum(weight) FROM loss"
    io.meant["loss"] = OTHER
    assert await told(io, sql) == await told(io, sql) == []
    assert io.fetched == [probes._RESOLVE]
    io.meant["loss"] = LOSS
    assert await told(io, "SET search_path = dp_release; " + sql) == [published_text(*LOSS)]
    del io.meant["loss"]  # where it leads now does not matter to who was told
    assert await told(io, sql) == []


async def test_a_statement_that_sets_the_path_decides_nothing() -> None:
    """It is not in force yet when the facade is asked."""
    io = FakeIO()
    sql = "SELECT sum(weight) FROM loss"
    assert await told(io, "SELECT set_config('search_path', 'dp_release', false); " + sql) == []
    io.meant["loss"] = LOSS
    assert await told(io, sql) == [published_text(*LOSS)]
