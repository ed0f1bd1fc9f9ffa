"""A synthetic table as a kind of question (mechanisms/task.py): the request member "synthesize"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pg_epsilon.choice_parts import Choice
from pg_epsilon.mechanisms.task import Alone, Groups, Prepared, Raws, Task
from pg_epsilon.query.kinds import Head
from pg_epsilon.query.request import Request
from pg_epsilon.synthesis.ask import Synthesis, compile_synthesis
from pg_epsilon.synthesis.choice import choose, document


class SynthesisTask(Task[Synthesis]):
    """The released marginals of a relation, of which dp.make_synthetic makes the rows."""

    def ask(self, head: Head) -> Synthesis | None:
        if head.document.get("synthesize") is None:
            return None
        _ = head.budget  # how much it may cost is refused before what it is about
        return compile_synthesis(head.document, head.policy)

    def prepare(self, request: Request, asked: Synthesis, alone: Alone) -> tuple[Choice, ...]:
        return (choose(request, asked),)

    def present(self, prepared: Prepared, asked: Synthesis, raws: Raws, groups: Groups) -> Mapping[str, Any]:
        return {"synthesis": document(asked, prepared.choices[0].estimator.measures[0], raws[0])}

    def kept(self, shown: Mapping[str, Any]) -> Mapping[str, Any]:
        """All but the integers, of which there are up to four million."""
        return {"synthesis": {name: part for name, part in shown["synthesis"].items() if name != "raw"}}

    def again(self, stored: Mapping[str, Any], raws: Raws) -> Mapping[str, Any]:
        return {"synthesis": {**stored["synthesis"], "raw": list(raws[0])}}
