"""Whether a difference between released groups is real, as a kind of question (mechanisms/task.py): dp_compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pg_epsilon.choice_parts import Choice
from pg_epsilon.explain.comparison import Comparison, compile_comparison, number, told
from pg_epsilon.mechanisms.task import Alone, Groups, Prepared, Raws, Task, Told
from pg_epsilon.query import members
from pg_epsilon.query.copies import Copies
from pg_epsilon.query.kinds import Head
from pg_epsilon.query.released import Free, Releases, named
from pg_epsilon.query.request import Request, checked_confidence


class CompareTask(Task[Comparison]):
    """{"compare": {"groups": [["Sales"], ["IT"]]}, "of": id} → one row (verdict, difference, low, high).

    Post-processing of a stored release: free, no row is read (dpxplain.md §5).
    """

    def spelled_out(self, document: Mapping[str, Any], copies: Copies, releases: Releases) -> Mapping[str, Any]:
        about = releases.stored(named(document).request_id).asked("from", "joins")
        return {**document, **about, "keys": [], "aggregates": []}

    def ask(self, head: Head) -> Comparison | None:
        if head.document.get("compare") is None:
            return None
        asked = members.mapping(head.document["compare"], "compare")
        confidence = checked_confidence(head.settings.get("dp.confidence"))
        return compile_comparison(asked, named(head.document), head.releases, confidence)

    def free(self, asked: Comparison) -> Free:
        return Free("stored release", asked.stored.as_of, f"interval by {asked.interval.method}")

    def prepare(self, request: Request, asked: Comparison, alone: Alone) -> tuple[Choice, ...]:
        return ()

    def present(self, prepared: Prepared, asked: Comparison, raws: Raws, groups: Groups) -> Mapping[str, Any]:
        found = asked.interval
        return {"compare": {"rows": [[found.verdict, *map(number, (found.difference, found.low, found.high))]]}}

    def describe(self, prepared: Prepared, raw: Sequence[int] | None) -> Told:
        asked = prepared.request.kinds["compare"]
        if not isinstance(asked, Comparison):
            return Told()
        facts, sentences = told(asked)
        return Told({"compare": facts}, sentences)
