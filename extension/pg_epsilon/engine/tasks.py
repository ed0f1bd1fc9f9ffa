"""The kinds of question, listed: the only file of the engine that names their folders (house.md §2, §3).

A kind of question is a folder with a `Task` (mechanisms/task.py) and a line of `TASKS`. Whatever the flow of a question
does for a kind (validate its member, price it, show what was released) goes through the functions below.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pg_epsilon.choice_parts import Choice
from pg_epsilon.decide.task import DecideTask
from pg_epsilon.errors import OUT_OF_RANGE, DPError
from pg_epsilon.mechanisms.task import Alone, Groups, Prepared, Raws, ReadPublic, Shared, Task, Told
from pg_epsilon.query import members
from pg_epsilon.query.copies import Copies
from pg_epsilon.query.kinds import Asked, Head, Jointly, Kinds
from pg_epsilon.query.request import Request
from pg_epsilon.synthesis.task import SynthesisTask
from pg_epsilon.workload import shelf
from pg_epsilon.workload.ask import Workload, compile_workload
from pg_epsilon.workload.recognise import LEAST, Together, recognise
from pg_epsilon.workload.running_ask import Runs, compile_running


class WorkloadTask(Task[Workload]):
    """Sums over many ranges of one value (dp_sum_workload), and a block whose sums are such a workload.

    What needs numpy is imported where it is called: it is not on the way of a count.
    """

    member = "workload"
    members = frozenset({"workload", "running"})

    def ask(self, head: Head) -> Workload | None:
        lattice = head.aggregates[0].lattice if len(head.aggregates) == 1 else None
        return compile_workload(head.document, lattice, head.source.kappa)

    def joint(self, head: Head) -> Together | Runs | None:
        """Which sums of a block are one workload: of rows of one relation, unless dp.workloads is off. DP005."""
        wanted = str(head.settings.get("dp.workloads") or "on").strip().lower()
        if wanted not in ("on", "off", "true", "false", "yes", "no", "1", "0"):
            raise DPError(OUT_OF_RANGE, "dp.workloads must be on or off", "SET dp.workloads = on")
        single = not head.source.has_user_units and len(head.source.relations) == 1
        if wanted not in ("on", "true", "yes", "1") or not single or head.document.get("workload") is not None:
            return None
        if head.keys:
            runs = compile_running(head.document, head.keys, head.aggregates, head.fold)
            return Runs(runs) if runs else None
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
        from pg_epsilon.workload.choice import told

        part = None if raw is None else prepared.parts(raw)[-1][1]
        facts, sentence = told(prepared.choices[-1].estimator.measures[-1], part)
        return Told({"workload": facts}, [sentence])


DECIDE, WORKLOAD, SYNTHESIS = DecideTask(), WorkloadTask(), SynthesisTask()
# In the order in which they validate their members and in which answers hold theirs.
TASKS: tuple[Task[Any], ...] = (DECIDE, WORKLOAD, SYNTHESIS)


class _Kinds:
    """All of them, for the compiler of requests."""

    @property
    def members(self) -> frozenset[str]:
        return frozenset().union(*(task.members for task in TASKS))

    def spelled_out(self, document: Mapping[str, Any], copies: Copies) -> Mapping[str, Any]:
        for task in TASKS:
            document = task.spelled_out(document, copies)
        return document

    def ask(self, head: Head) -> dict[str, Asked]:
        found = ((task.member, task.ask(head)) for task in TASKS)
        return {member: asked for member, asked in found if asked is not None}

    def joint(self, head: Head, asked: Mapping[str, Asked]) -> Jointly | None:
        if DECIDE.member in asked:  # each aggregate has its own decider
            return None
        return next((found for task in TASKS if (found := task.joint(head)) is not None), None)

    def mechanism(self, head: Head, asked: Mapping[str, Asked]) -> str | None:
        own = (task.mechanism(head, asked[task.member]) for task in TASKS if task.member in asked)
        return next((name for name in own if name is not None), None)


KINDS: Kinds = _Kinds()


def is_for_everybody(request: Request) -> bool:
    """Whether dp_planner pays, and not who asks."""
    return any(task.for_everybody for task, _ in _asked(request))


def completed(request: Request, read: ReadPublic) -> Request:
    """The request with what public tables say of it, read before anything is charged."""
    if not request.kinds:
        return request
    return replace(
        request, kinds={task.member: task.completed(request, asked, read) for task, asked in _asked(request)}
    )


def prepared(request: Request, alone: Alone) -> tuple[Choice, ...] | None:
    """The choices of a request that is of a kind; None: a block's planner makes them.

    Of two kinds at once, which only plain SQL in a session with dp.synthetic can be, the explicit member is answered.
    """
    for task, asked in reversed(list(_asked(request))):
        choices: tuple[Choice, ...] = task.prepare(request, asked, alone)
        return choices
    return None


def together(request: Request, separate: tuple[Choice, ...], share: Shared) -> tuple[Choice, ...]:
    """A block's choices, where some of its aggregates are answered by one release if that is nearer."""
    if request.batch is None:
        return separate
    found = (task.together(request, separate, share) for task in TASKS)
    return next((choices for choices in found if choices is not None), separate)


def presented(plan: Prepared, raws: Raws, groups: Groups, *, joint: bool) -> dict[str, Any]:
    """What kinds add to an answer document, from the released integers of every group. joint: as in `described`."""
    found: dict[str, Any] = {}
    for task, asked in _asked(plan.request):
        found.update(task.present(plan, asked, raws, groups))
    if joint:
        found.update(WORKLOAD.present(plan, None, raws, groups))
    return found


def described(plan: Prepared, raw: Sequence[int] | None, *, joint: bool) -> Told:
    """What kinds say of a plan. joint: the block's aggregates are answered by one release."""
    asked = [task for task, _ in _asked(plan.request)]
    told = [task.describe(plan, raw) for task in asked + ([WORKLOAD] if joint else [])]
    facts = {name: value for one in told for name, value in one.facts.items()}
    return Told(facts, [sentence for one in told for sentence in one.sentences])


def alternatives(plan: Prepared) -> dict[str, Any]:
    """What dp_plan says of other ways to answer."""
    return {name: value for task, _ in _asked(plan.request) for name, value in task.alternatives(plan).items()}


def _asked(request: Request) -> Iterator[tuple[Task[Any], Any]]:
    """The kinds that a request is of, each with what it asks."""
    return ((task, request.kinds[task.member]) for task in TASKS if task.member in request.kinds)


def remember_by(run: shelf.Run) -> None:
    """How kinds read and write what they keep between questions: functions of public facts, which only save time."""
    shelf.use(run)


def start() -> None:
    """A question begins."""
    shelf.start()


def keep(who: str) -> None:
    """Write what this question found and the next one need not find again; who: whose question it was."""
    shelf.keep(who)
