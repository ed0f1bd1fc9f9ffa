"""Planning before paying: what is remembered, what is a refusal, what is an unforeseen failure."""

from __future__ import annotations

import pytest

from pg_epsilon.engine.planning import MAX_COLUMNS, REMEMBERED, Planning, PlanningFailed
from pg_epsilon.errors import DPError
from pg_epsilon.query.statistics import SUM, Statistic, columns


def gate(state: str | None = None) -> tuple[Planning, list[str], list[str]]:
    """A gate whose planner says `state`; the statements that it was given, and what was logged."""
    explained: list[str] = []
    logged: list[str] = []

    def explain(statement: str) -> str | None:
        explained.append(statement)
        return state

    return Planning(explain, logged.append), explained, logged


def test_a_statement_is_planned_once_under_a_version_of_the_policy() -> None:
    planning, explained, _ = gate()
    for version in (1, 1, 2, 2):
        planning.check("SELECT 1", 1, version)
    assert len(explained) == 2


def test_what_is_remembered_is_bounded() -> None:
    planning, explained, _ = gate()
    planning.check("SELECT 1", 1, 1)
    for i in range(REMEMBERED):
        planning.check(f"SELECT {i} + 1", 1, 1)
    planning.check(f"SELECT {REMEMBERED - 1} + 1", 1, 1)
    assert len(explained) == REMEMBERED + 1, "the newest is remembered"
    planning.check("SELECT 1", 1, 1)
    assert len(explained) == REMEMBERED + 2, "the oldest is not"


@pytest.mark.parametrize("state", ["0A000", "54011", "42P01", "42501", "42703"])
def test_an_error_of_the_shape_is_a_refusal(state: str) -> None:
    planning, explained, logged = gate(state)
    for _ in range(2):
        with pytest.raises(DPError) as refusal:
            planning.check("SELECT secret", 1, 1)
        assert refusal.value.sqlstate == "DP003"
        assert state not in refusal.value.message
    assert len(explained) == 2, "only success is remembered"
    assert state in logged[0]
    assert "secret" not in logged[0]


@pytest.mark.parametrize("state", ["22025", "22012", "53200", "54001", "XX000", "P0001", "58030"])
def test_anything_else_is_an_unforeseen_failure(state: str) -> None:
    planning, _, logged = gate(state)
    with pytest.raises(PlanningFailed) as failure:
        planning.check("SELECT 1", 1, 1)
    assert failure.value.sqlstate == state
    assert not logged


def test_too_many_columns_are_refused_without_planning() -> None:
    """A plan by several processes has more than the text: the number of rows would decide."""
    planning, explained, logged = gate()
    with pytest.raises(DPError):
        planning.check("SELECT 1", MAX_COLUMNS + 1, 1)
    planning.check("SELECT 1", MAX_COLUMNS, 1)
    assert len(explained) == 1
    assert "54011" in logged[0]


def test_columns_of_ladders() -> None:
    ladder = Statistic(SUM, "v", levels=(tuple(range(1, 27)),))
    assert columns(0, [ladder] * 50) == 3 + 50 * 28 <= MAX_COLUMNS < columns(0, [ladder] * 64)
    assert columns(2, [Statistic(SUM, "v")]) == 8
