"""A workload as a kind of question (mechanisms/task.py): the request member "workload", or a block whose sums are one.

What needs numpy is imported where it is called: a block of several aggregates comes here to learn that it is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pg_epsilon.choice_parts import Choice
from pg_epsilon.errors import OUT_OF_RANGE, DPError
from pg_epsilon.mechanisms.task import Alone, Groups, Prepared, Raws, Shared, Task, Told
from pg_epsilon.query import members
from pg_epsilon.query.kinds import Head
from pg_epsilon.query.request import Request
from pg_epsilon.workload.ask import Workload, compile_workload
from pg_epsilon.workload.recognise import LEAST, Together, recognise
from pg_epsilon.workload.running_ask import Runs, compile_running


class WorkloadTask(Task[Workload]):
    """Sums over many ranges of one value (dp_sum_workload), and a block whose sums are such a workload."""

    def ask(self, head: Head) -> Workload | None:
        lattice = head.aggregates[0].lattice if len(head.aggregates) == 1 else None
        return compile_workload(head.document, lattice, head.source.kappa)

    def joint(self, head: Head) -> Together | Runs | None:
        """Which sums of a block are one workload, unless dp.workloads is off. DP005."""
        wanted = str(head.settings.get("dp.workloads") or "on").strip().lower()
        if wanted not in ("on", "off", "true", "false", "yes", "no", "1", "0"):
            raise DPError(OUT_OF_RANGE, "dp.workloads must be on or off", "SET dp.workloads = on")
        if wanted not in ("on", "true", "yes", "1") or head.document.get("workload") is not None:
            return None
        if head.keys:
            runs = compile_running(head.document, head.keys, head.aggregates, head.fold)
            if runs:
                return Runs(runs)
        if len(head.aggregates) < LEAST:
            return None
        return recognise(members.items(head.document.get("aggregates"), "aggregates"), head.aggregates, head.fold)

    def prepare(self, request: Request, asked: Workload, alone: Alone) -> tuple[Choice, ...]:
        from pg_epsilon.workload.choice import choose

        return (choose(request, asked),)

    def together(self, request: Request, separate: tuple[Choice, ...], share: Shared) -> tuple[Choice, ...] | None:
        if isinstance(request.batch, Runs):
            from pg_epsilon.workload.joint import running

            return running(request, request.batch.runs, separate) if request.mechanism == "auto" else separate
        if isinstance(request.batch, Together):
            from pg_epsilon.workload.joint import together

            return together(request, request.batch, separate, share)
        return None

    def present(self, prepared: Prepared, asked: Workload | None, raws: Raws, groups: Groups) -> Mapping[str, Any]:
        from pg_epsilon.workload.choice import document

        measure, parts = prepared.choices[-1].estimator.measures[-1], [prepared.parts(raw)[-1][1] for raw in raws]
        request = prepared.request
        errors = asked is not None and request.bars
        return {"workload": document(parts, measure, request.confidence, groups, errors=errors)}

    def describe(self, prepared: Prepared, raw: Sequence[int] | None) -> Told:
        from pg_epsilon.workload.choice import is_of_rows, told

        part = None if raw is None else prepared.parts(raw)[-1][1]
        source, measure = prepared.request.source, prepared.choices[-1].estimator.measures[-1]
        facts, sentence = told(measure, part)
        if source.has_user_units and source.kappa is not None and is_of_rows(measure):
            facts["rows_per_unit"] = source.kappa
        return Told({"workload": facts}, [sentence])
