"""Whether a difference between released groups is real, and why: two kinds of question (mechanisms/task.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pg_epsilon.choice_parts import Choice
from pg_epsilon.errors import OUT_OF_RANGE, SHAPE, DPError
from pg_epsilon.explain.comparison import Comparison, compile_comparison, number, told
from pg_epsilon.explain.groups import RUN_FIRST
from pg_epsilon.explain.members import number_of
from pg_epsilon.explain.method import ByCells, choose_cells, decided
from pg_epsilon.explain.paid import Paid
from pg_epsilon.explain.why import METHODS, Why, compile_why
from pg_epsilon.mechanisms.task import Alone, Groups, Prepared, Raws, ReadPublic, Task, Told
from pg_epsilon.query import members
from pg_epsilon.query.copies import Copies
from pg_epsilon.query.kinds import Head
from pg_epsilon.query.released import Free, Releases, named
from pg_epsilon.query.request import Request, checked_confidence

SOURCES = ("data", "paid")


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


class ExplainTask(Task[Why | Paid | ByCells]):
    """{"explain": {"groups": [["Sales"], ["IT"]], "k": 5}, "of": id} → k rows (explanation, shares, ranks).

    The rows of the release's question are read once, and it is paid for (dpxplain.md §6), with method "cells" once for
    all pairs of its groups; or, with source "paid", other releases of the same rows tell it, free (§0 there).
    """

    def spelled_out(self, document: Mapping[str, Any], copies: Copies, releases: Releases) -> Mapping[str, Any]:
        of = named(document)
        stored = releases.stored(of.request_id)
        about = stored.asked("from", "joins", "where", "aggregates")
        place = number_of(stored, of, document["explain"])
        items = members.items(about.get("aggregates"), "aggregates")
        if place >= len(items):
            raise DPError(SHAPE, f"release {of.request_id} is not of a GROUP BY", RUN_FIRST)
        # None where the release had none: what else a document says there is not asked
        chosen = [items[place]] if _source_of(document["explain"]) == "data" else []  # else nothing is aggregated
        return {**document, "joins": None, "where": None, **about, "keys": [], "aggregates": chosen}

    def ask(self, head: Head) -> Why | Paid | ByCells | None:
        if head.document.get("explain") is None:
            return None
        if _source_of(head.document["explain"]) == "data":
            return compile_why(head)
        from pg_epsilon.explain.sources import compile_paid

        return compile_paid(head, members.mapping(head.document["explain"], "explain"))

    def free(self, asked: Why | Paid | ByCells) -> Free | None:
        if not isinstance(asked, Paid):
            return None
        oldest = min(one.as_of for one in asked.sources)
        return Free("stored release", oldest, "sums of released numbers")

    def completed(self, request: Request, asked: Why | Paid | ByCells, read: ReadPublic) -> Why | Paid | ByCells:
        return decided(request, asked) if isinstance(asked, Why) and asked.method != METHODS[0] else asked

    def prepare(self, request: Request, asked: Why | Paid | ByCells, alone: Alone) -> tuple[Choice, ...]:
        if isinstance(asked, Paid):
            return ()
        if isinstance(asked, ByCells):
            return (choose_cells(request, asked),)
        from pg_epsilon.explain.priced import choose

        return (choose(request, asked),)

    def present(self, prepared: Prepared, asked: Why | Paid | ByCells, raws: Raws, groups: Groups) -> Mapping[str, Any]:
        from pg_epsilon.explain.shown import cells_document, document, paid_document

        if isinstance(asked, ByCells):
            return {"explain": {**cells_document(asked, raws[0]), "method": "cells"}}
        if isinstance(asked, Paid):
            return {"explain": paid_document(asked)}
        return {"explain": document(prepared.choices[0].estimator.measures[0], asked, raws[0])}

    def kept(self, shown: Mapping[str, Any]) -> Mapping[str, Any]:
        """Of marginals nothing: others are served the same release, and the groups are a question of who asked."""
        return {"explain": None} if shown["explain"].get("method") == "cells" else shown

    def alternatives(self, prepared: Prepared) -> Mapping[str, Any]:
        from pg_epsilon.explain.shown import compared_methods

        asked = prepared.request.kinds["explain"]
        why = asked.why if isinstance(asked, ByCells) else asked
        found = compared_methods(why) if isinstance(why, Why) else None
        return {} if found is None else {"methods": found}

    def describe(self, prepared: Prepared, raw: Sequence[int] | None) -> Told:
        from pg_epsilon.explain.shown import cells_described, described, paid_described

        asked = prepared.request.kinds["explain"]
        if isinstance(asked, Paid):
            facts, sentences = paid_described(asked)
            return Told({"explain": facts}, sentences)
        if isinstance(asked, ByCells):
            facts, sentences = cells_described(asked)
            return Told({"explain": facts}, sentences)
        if not isinstance(asked, Why):
            return Told()
        facts, sentences = described(prepared.choices[0].estimator.measures[0], asked)
        return Told({"explain": facts}, sentences)


def _source_of(asked: Any) -> str:
    """Whether rows are looked at, "data", or what was paid before. DP005 for anything else."""
    source = members.mapping(asked, "explain").get("source") or "data"
    if source not in SOURCES:
        raise DPError(OUT_OF_RANGE, "source is 'data' or 'paid'", "source => 'paid' looks at no row and costs nothing.")
    return str(source)
