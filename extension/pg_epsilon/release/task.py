"""A family of sums as a kind of question (mechanisms/task.py): the request member "release".

What needs numpy is imported where it is called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pg_epsilon.choice_parts import Choice
from pg_epsilon.errors import OUT_OF_RANGE, DPError
from pg_epsilon.mechanisms.task import Alone, Groups, Prepared, Raws, Task, Told
from pg_epsilon.query.copies import Copies
from pg_epsilon.query.kinds import Head
from pg_epsilon.query.released import Releases
from pg_epsilon.query.request import Request
from pg_epsilon.release import automatic
from pg_epsilon.release.ask import WITHOUT_TABLE, Family, compile_family, spelled_out
from pg_epsilon.release.shown import table


class ReleaseTask(Task[Family]):
    """Answers to every query of a declared family, from one private histogram (numeric-release.md)."""

    def spelled_out(self, document: Mapping[str, Any], copies: Copies, releases: Releases) -> Mapping[str, Any]:
        return document if document.get("release") is None else spelled_out(document, copies)

    def ask(self, head: Head) -> Family | None:
        return compile_family(head)

    def mechanism(self, head: Head, asked: Family) -> str:
        """The setting dp.mechanism is about plain SQL."""
        return "auto"

    def prepare(self, request: Request, asked: Family, alone: Alone) -> tuple[Choice, ...]:
        from pg_epsilon.release.choice import choose

        return (choose(request, asked),)

    def present(self, prepared: Prepared, asked: Family, raws: Raws, groups: Groups) -> Mapping[str, Any]:
        from pg_epsilon.release.choice import rows, stored

        measure = prepared.choices[0].estimator.measures[0]
        found = rows(raws[0], measure, asked, prepared.request.confidence)
        return {"release": {"rows": found, "stored": stored(measure, asked)}}

    def kept(self, shown: Mapping[str, Any]) -> Mapping[str, Any]:
        """What is everybody's: the grid is a question of who asked, and others are served the same release."""
        return {"release": shown["release"]["stored"]}

    def again(self, stored: Mapping[str, Any], raws: Raws) -> Mapping[str, Any]:
        """The weighted table. DP005 of a release without one."""
        mechanism = stored["release"].get("mechanism")
        if mechanism in WITHOUT_TABLE:
            hint = "SELECT name, query FROM dp.families; and ask one of its queries, which is free."
            raise DPError(OUT_OF_RANGE, f"a release by {mechanism} has no weighted table", hint)
        return {"release": table(stored["release"], raws[0])}

    def describe(self, prepared: Prepared, raw: Sequence[int] | None) -> Told:
        from pg_epsilon.release.choice import told
        from pg_epsilon.release.compared import compared, sentences

        asked = prepared.request.kinds["release"]
        if not isinstance(asked, Family):
            raise ValueError("not a release")
        facts, own = told(prepared.choices[0].estimator.measures[0], asked, raw)
        words = [own, *automatic.words(asked.chosen, asked.mechanism, len(asked.sets.different))]
        others = {} if raw is not None else compared(prepared.request, asked)
        if not others:
            return Told({"release": facts}, words)
        return Told({"release": facts, "mechanisms": others}, [*words, *sentences(others)])
