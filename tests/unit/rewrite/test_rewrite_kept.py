"""Statements seen before (rewrite/kept.py): what is not done again, and what is asked again each time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from rewrite_fake import INT4, NAMES, FakeIO, fields

from pg_epsilon_proxy.rewrite import probes
from pg_epsilon_proxy.rewrite.driver import SqlRewriter
from pg_epsilon_proxy.rewrite.kept import MAX_ENTRIES, MAX_KEPT_TEXT, Bounded
from pg_epsilon_proxy.session.rewriting import BoundParams, Described, FacadeError, Refusal

COUNT = "SELECT count(*) FROM adult WHERE age > 40"
GROUPED = "SELECT education, count(*) FROM adult GROUP BY 1"
BOUND = "SELECT count(*) FROM adult WHERE age > $1"


class Watched(FakeIO):
    """Knows what was done on the parser thread."""

    def __init__(self, analyst: str = "alice") -> None:
        super().__init__()
        self.analyst = analyst
        self.parsed: list[str] = []

    async def in_parser(self, function: Callable[..., Any], *args: Any) -> Any:
        self.parsed.append(function.__name__)
        return await super().in_parser(function, *args)


async def answered(brain: SqlRewriter, io: FakeIO, sql: str = COUNT) -> str | None:
    """What the facade executes; None: the statement as it is."""
    plan = await brain.plan(sql, (), io, extended=False)
    return None if plan is None else plan.splice_simple(await plan.run(None, io))


@pytest.mark.parametrize("sql", [COUNT, GROUPED, f"INSERT INTO mine {COUNT}", "SELECT * FROM dp.budget"])
async def test_a_repeat_is_not_parsed_and_answered_the_same(sql: str) -> None:
    brain, io = SqlRewriter(NAMES), Watched()
    first = await answered(brain, io, sql)
    assert first is not None and "split" in io.parsed
    asked, described = list(io.fetched), list(io.described)
    for _ in range(2):
        io.parsed.clear(), io.fetched.clear(), io.described.clear()
        assert await answered(brain, io, sql) == first
        assert io.parsed == (["rehearsal"] if sql.startswith("INSERT") else [])
        # The session is asked everything that it was asked at first: the description comes before the names.
        assert (io.fetched, io.described) == (asked, described)
    assert all(request == io.upstream.requests[0] for request in io.upstream.requests)


async def test_runs_of_a_repeat_share_nothing_that_changes() -> None:
    brain, io = SqlRewriter(NAMES), Watched()
    plans = [await brain.plan(COUNT, (), io, extended=True) for _ in range(3)]
    marks = [unit.marks[0] for plan in plans if plan is not None for unit in plan._units]
    assert len(set(marks)) == 3
    for plan in plans:
        assert plan is not None and plan.text == plans[0].text  # type: ignore[union-attr]
        io.settings["dp.epsilon"] = f"0.{len(io.upstream.requests) + 1}"
        await plan.run(BoundParams((), ()), io)
    assert [request["settings"]["dp.epsilon"] for request in io.upstream.requests] == ["0.1", "0.2", "0.3"]
    io.upstream.requests[0]["settings"].clear()
    assert io.upstream.requests[1]["settings"]


async def test_parameters_are_read_at_each_run() -> None:
    brain, io = SqlRewriter(NAMES), Watched()
    io.parameters = (INT4,)
    for value in ("30", "50"):
        io.values = f'["{value}"]'
        plan = await brain.plan(BOUND, (), io, extended=True)
        assert plan is not None
        await plan.run(BoundParams((), (value.encode(),)), io)
        assert value in io.upstream.requests[-1]["where"]
    assert io.parsed.count("split") == 1
    # A simple Query has no parameters: PostgreSQL says so.
    assert await answered(brain, io, BOUND) is None


async def test_a_name_that_came_to_mean_something_else_is_not_ours_any_more() -> None:
    brain, io = SqlRewriter(NAMES), Watched()
    first = await answered(brain, io)
    io.shadowed.add("adult")
    assert await answered(brain, io) is None
    assert await answered(brain, io) is None
    assert len(io.upstream.requests) == 1
    io.shadowed.clear()
    assert await answered(brain, io) == first


async def test_a_guess_about_names_that_fails_is_thrown_away() -> None:
    """A new text is compiled before the session has said what its names mean: on what they meant last."""
    brain, io = SqlRewriter(NAMES), Watched()
    await answered(brain, io)
    io.shadowed.add("adult")
    assert await answered(brain, io, COUNT + " AND age < 60") is None
    io.shadowed.clear()
    assert await answered(brain, io, COUNT + " AND age < 61") is not None
    assert "61" in io.upstream.requests[-1]["where"] and len(io.upstream.requests) == 2


async def test_postgresqls_error_wins_over_that_of_a_guess() -> None:
    brain, io = SqlRewriter(NAMES), Watched()
    wrong = "SELECT nope, age FROM adult WHERE age > 40"
    await answered(brain, io, "SELECT count(*) FROM adult")
    with pytest.raises(Refusal):
        await answered(brain, io, wrong)
    io.failing["nope"] = "42703"
    for sql in (wrong, wrong):
        with pytest.raises(FacadeError):
            await answered(brain, io, sql)
    assert len(io.upstream.requests) == 1


async def test_an_error_of_the_description_wins_over_a_kept_plan() -> None:
    brain, io = SqlRewriter(NAMES), Watched()
    await answered(brain, io)
    io.failing["count"] = "42501"
    with pytest.raises(FacadeError):
        await answered(brain, io)
    assert len(io.upstream.requests) == 1


@pytest.mark.parametrize(
    ("setting", "value", "sql"),
    [
        ("standard_conforming_strings", "off", COUNT),
        ("client_encoding", "EUC_JP", "SELECT count(*) FROM adult WHERE education = 'höher'"),
    ],
)
async def test_a_setting_that_changes_constants_refuses_a_repeat(setting: str, value: str, sql: str) -> None:
    brain, io = SqlRewriter(NAMES), Watched()
    await answered(brain, io, sql)
    io.status[setting] = value
    with pytest.raises(Refusal):
        await answered(brain, io, sql)
    assert len(io.upstream.requests) == 1


async def test_a_plan_of_a_repeat_knows_the_settings_that_it_was_made_under() -> None:
    """Constants mean what the session says when it is planned now, not when the text was first seen."""
    brain, io = SqlRewriter(NAMES), Watched()
    sql = "SELECT count(*) FROM adult WHERE education > '1/2/2026'"
    io.status["DateStyle"] = "ISO, MDY"
    await answered(brain, io, sql)
    io.status["DateStyle"] = "ISO, DMY"
    plan = await brain.plan(sql, (), io, extended=True)
    assert plan is not None
    await plan.run(BoundParams((), ()), io)
    io.status["DateStyle"] = "ISO, MDY"
    with pytest.raises(Refusal, match="DateStyle"):
        await plan.run(BoundParams((), ()), io)


async def test_another_search_path_or_description_is_planned_anew() -> None:
    brain, io = SqlRewriter(NAMES), Watched()
    await answered(brain, io)
    io.path = "elsewhere, public"
    io.parsed.clear()
    assert await answered(brain, io) is not None
    assert "split" in io.parsed

    async def other(sql: str, oids: Any = ()) -> Described:
        return Described((), fields(("count", INT4)))

    io.describe = other  # type: ignore[method-assign]
    io.parsed.clear()
    assert await answered(brain, io) is not None
    assert "split" in io.parsed


async def test_types_of_a_kept_core_are_asked_each_time() -> None:
    brain, io = SqlRewriter(NAMES), Watched()
    first = await answered(brain, io, GROUPED)
    io._types = lambda params: [["character(3)"] for _ in params[2].split(",")]  # type: ignore[method-assign]
    second = await answered(brain, io, GROUPED)
    assert second is not None and second != first


async def test_a_policy_change_keeps_nothing() -> None:
    io = Watched()
    await answered(SqlRewriter(NAMES), io)
    changed = replace(NAMES, changed=frozenset({("public", "adult")}))
    with pytest.raises(Refusal):
        await answered(SqlRewriter(changed), io)
    assert len(io.upstream.requests) == 1


async def test_two_sessions_each_mean_their_own() -> None:
    """One analyst's sessions share what is kept, two analysts do not: how long an answer takes tells nothing."""
    brain, one, two, other = SqlRewriter(NAMES), Watched(), Watched(), Watched("bob")
    first = await answered(brain, one)
    two.settings["dp.epsilon"] = "0.7"
    assert await answered(brain, two) == first
    assert two.parsed == [] and two.upstream.requests[0]["settings"]["dp.epsilon"] == "0.7"
    two.shadowed.add("adult")
    assert await answered(brain, two) is None
    assert await answered(brain, one) == first
    assert await answered(brain, other) == first
    assert "split" in other.parsed


async def test_what_is_kept_is_bounded() -> None:
    brain, io = SqlRewriter(NAMES), Watched()
    for number in range(MAX_ENTRIES + 20):
        assert await answered(brain, io, f"SELECT count(*) FROM adult WHERE age > {number}") is not None
    assert len(brain._kept) == MAX_ENTRIES
    long = f"SELECT count(*) FROM adult WHERE education = '{'x' * MAX_KEPT_TEXT}'"
    for _ in range(2):
        io.parsed.clear()
        await answered(brain, io, long)
        assert "split" in io.parsed


def test_the_oldest_go_first_by_number_and_by_size() -> None:
    kept: Bounded[int] = Bounded(entries=3, characters=10)
    for number in range(4):
        kept.put(number, number, 1)
        kept.get(1)
    assert [kept.get(number) for number in range(4)] == [None, 1, 2, 3]
    kept.put("big", 5, 9)
    assert len(kept) == 2 and kept.get("big") == 5 and kept.get(3) == 3
    kept.put("huge", 6, 11)
    assert len(kept) == 0
    kept.put("big", 5, 9)
    kept.put("big", 7, 2)
    kept.put("more", 8, 8)
    kept.drop("nothing")
    assert (kept.get("big"), kept.get("more")) == (7, 8)


async def test_what_is_not_alone_or_cannot_repeat_is_not_kept() -> None:
    brain, io = SqlRewriter(NAMES), Watched()
    for sql in (f"SELECT 1; {COUNT}", f"EXPLAIN {COUNT}", f"PREPARE p AS {COUNT}", f"COPY ({COUNT}) TO STDOUT"):
        await answered(brain, io, sql)
    assert len(brain._kept) == 0


async def test_a_simple_query_reads_the_settings_with_its_names_and_a_prepared_one_when_it_runs() -> None:
    brain, io = SqlRewriter(NAMES), Watched()
    plan = await brain.plan(COUNT, (), io, extended=False)
    assert io.fetched == [probes._RESOLVE, probes._SETTINGS] and plan is not None
    await plan.run(None, io)
    assert io.fetched == [probes._RESOLVE, probes._SETTINGS]
    io.fetched.clear()
    assert await brain.plan(COUNT, (), io, extended=True) is not None
    assert io.fetched == [probes._RESOLVE]
