"""The seam of house.md §3: a throw-away kind of question goes the whole way and touches no file but its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from pg_epsilon import _version
from pg_epsilon.answer import shown
from pg_epsilon.choice_parts import Choice
from pg_epsilon.engine import tasks
from pg_epsilon.errors import CHANNEL, SHAPE, DPError
from pg_epsilon.mechanisms.task import Alone, Groups, Prepared, Raws, Task, Told
from pg_epsilon.plan import describe, make_plan
from pg_epsilon.query import members
from pg_epsilon.query.kinds import Head
from pg_epsilon.query.request import Request, canonical_text
from unit.policies import asked, row_policy


@dataclass(frozen=True)
class Echo:
    """A column, whose declared values are the answer."""

    column: str
    values: tuple[str, ...]

    def canonical(self) -> dict[str, Any]:
        return {"column": self.column}


class EchoTask(Task[Echo]):
    """dp_echo: a declared domain in, a document out; nothing is read or drawn, so it costs nothing."""

    def ask(self, head: Head) -> Echo | None:
        if head.document.get("echo") is None:
            return None
        name = members.text(head.document["echo"], "echo") or ""
        policy = head.policy.relation.columns[name].policy
        if policy is None or policy.domain is None:
            raise DPError(SHAPE, f"column {name} has no declared domain", "CALL dp.describe_column(...)")
        return Echo(name, tuple(value for value in policy.domain if value is not None))

    def prepare(self, request: Request, asked: Echo, alone: Alone) -> tuple[Choice, ...]:
        return ()

    def present(self, prepared: Prepared, asked: Echo, raws: Raws, groups: Groups) -> Mapping[str, Any]:
        return {"echo": list(asked.values)}

    def describe(self, prepared: Prepared, raw: Sequence[int] | None) -> Told:
        return Told({"echo": len(prepared.choices)}, ["an echo"])


@pytest.fixture(autouse=True)
def _listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one line that a new kind adds."""
    line = tasks.Line("echo", frozenset({"echo"}), EchoTask)
    monkeypatch.setattr(tasks, "TASKS", (*tasks.TASKS, line))


def echo(**document: Any) -> Request:
    return asked(row_policy(), **{"aggregates": [], "echo": "sex", **document})


def test_a_new_kind_is_asked_planned_described_and_shown() -> None:
    plan = make_plan(echo())
    assert (plan.charges, plan.statement) == ((), None)
    info = describe(plan, path="declared domain", left={}, as_of="now")
    assert info["echo"] == 0 and "; an echo" in info["text"]
    answer = shown(plan, [[]], request_id="id", path="declared domain", as_of="now", left={})
    assert answer["echo"] == ["f", "m"] and answer["notice"]["echo"] == 0


def test_its_member_is_hashed() -> None:
    """Another column is another question, and none is a third one."""
    plain = asked(row_policy(), aggregates=[])
    policy = row_policy()
    other = replace(echo(), kinds={"echo": Echo("age", ())})
    assert len({canonical_text(one) for one in (plain, echo(), other)}) == 3
    assert asked(policy, aggregates=[], echo="sex").canonical() == echo().canonical()


def test_its_refusals_are_its_own() -> None:
    with pytest.raises(DPError, match="no declared domain"):
        echo(echo="age")


def test_unlisted_it_is_an_unknown_member(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "TASKS", tasks.TASKS[:-1])
    with pytest.raises(DPError) as refused:
        echo()
    assert refused.value.sqlstate == SHAPE


def test_it_is_loaded_when_it_is_first_asked_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []

    def load() -> Task[Any]:
        loaded.append("echo")
        return EchoTask()

    monkeypatch.setattr(tasks, "TASKS", (*tasks.TASKS[:-1], tasks.Line("echo", frozenset({"echo"}), load)))
    make_plan(asked(row_policy()))
    assert loaded == []
    make_plan(echo())
    make_plan(echo())
    assert loaded == ["echo"]


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ("VERSION = '99.0'", "the Python package became version 99.0 while this session runs version"),
        ("", "the files of the server's Python package pg_epsilon are gone"),
        (None, "the files of the server's Python package pg_epsilon are gone"),
    ],
)
def test_a_kind_of_another_version_is_not_mixed_into_this_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, found: str | None, said: str
) -> None:
    """Whoever replaces the package while sessions live: a late import would take the new file."""
    file = tmp_path / "_version.py"
    if found is not None:
        file.write_text(found)
    monkeypatch.setattr(_version, "__spec__", spec_from_file_location("pg_epsilon._version", file))
    with pytest.raises(DPError, match=said) as refused:
        make_plan(echo())
    assert refused.value.sqlstate == CHANNEL and refused.value.hint
    make_plan(asked(row_policy()))
