"""A decision as a kind of question (mechanisms/task.py): the request member "decide", or dp.synthetic of a session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pg_epsilon.choice_parts import Choice
from pg_epsilon.decide import synthetic
from pg_epsilon.decide.choice import choose
from pg_epsilon.decide.estimator import Decision
from pg_epsilon.decide.question import Question, compile_question, original
from pg_epsilon.decide.statement import members as members_of
from pg_epsilon.errors import SHAPE, DPError
from pg_epsilon.mechanisms.task import Alone, Groups, Prepared, Raws, ReadPublic, Task, Told
from pg_epsilon.query import members
from pg_epsilon.query.copies import Copies
from pg_epsilon.query.kinds import Head
from pg_epsilon.query.released import Releases
from pg_epsilon.query.request import Request

UNDEFINED_COLUMN = "42703"


class DecideTask(Task[Question]):
    """Whether the synthetic table's answer is near enough to the private one (dp-pqd.md §1)."""

    def spelled_out(self, document: Mapping[str, Any], copies: Copies, releases: Releases) -> Mapping[str, Any]:
        """A document with a query's text → with its from, where and aggregates."""
        if document.get("query") is None:
            return document
        relation, copy = original(document, copies)
        path = [members.text(name, "path") or "" for name in members.items(document.get("path"), "path")]
        return {**document, **members_of(members.text(document["query"], "query") or "", path, relation, copy)}

    def ask(self, head: Head) -> Question | None:
        return compile_question(head.document, head.settings, head.policy, head.copies)

    def mechanism(self, head: Head, asked: Question) -> str:
        """A decider's name, which the aggregate has to know.

        A function that decides takes its own argument only: the setting is about plain SQL there.
        """
        name, default = head.document.get("mechanism"), head.settings.get("dp.mechanism")
        if head.document.get("call") not in (None, "block"):
            default = None
        elif name == "auto":
            name = None
        return str(name or default or "auto")

    def completed(self, request: Request, asked: Question, read: ReadPublic) -> Question:
        """The question with the synthetic table's answers, which are public (dp-pqd.md §2.1).

        DP003 if the table lacks a column that the question names.
        """
        if not request.aggregates or request.keys:
            return asked
        statement = synthetic.statement(request, asked)
        try:
            row = read(statement)[0]
        except Exception as error:
            if isinstance(error, DPError) or getattr(error, "sqlstate", None) != UNDEFINED_COLUMN:
                raise
            raise DPError(
                SHAPE,
                f"{asked.synthetic.qualified} does not have a column that the question names",
                "Ask about columns that the synthetic table has, or ask without it: RESET dp.synthetic.",
            ) from None
        return asked.answered(synthetic.answers(row, request))

    def prepare(self, request: Request, asked: Question, alone: Alone) -> tuple[Choice, ...]:
        return choose(request, asked, request.distinct, alone) if request.aggregates else ()

    def present(self, prepared: Prepared, asked: Question, raws: Raws, groups: Groups) -> Mapping[str, Any]:
        found = [one.outcome(part) for one, part in _decided(prepared, raws[0])]
        return {"decisions": [found[place] for place in prepared.places]} if found else {}

    def describe(self, prepared: Prepared, raw: Sequence[int] | None) -> Told:
        decisions = _decisions(prepared)
        if not decisions:
            return Told()
        facts = {"decisions": [decisions[place].public() for place in prepared.places]}
        return Told(facts, [one.sentence(part) for one, part in _decided(prepared, raw)] if raw is not None else [])

    def alternatives(self, prepared: Prepared) -> Mapping[str, Any]:
        """Every decider of each aggregate, with the least tau that it tells apart."""
        decisions = _decisions(prepared)
        return {"decide": [row for one in decisions for row in one.alternatives()]} if decisions else {}


def _decisions(prepared: Prepared) -> list[Decision]:
    return [one for one in (choice.estimator for choice in prepared.choices) if isinstance(one, Decision)]


def _decided(prepared: Prepared, raw: Sequence[int]) -> list[tuple[Decision, Sequence[int]]]:
    return [(one, part) for one, part in prepared.parts(raw) if isinstance(one, Decision)]
