"""The kinds of question, listed: the only file of the engine that names their folders (house.md §2, §3).

A kind of question is a folder with a `Task` (mechanisms/task.py) and a line of `TASKS`. Whatever the flow of a question
does for a kind (validate its member, price it, show what was released) goes through the functions below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from pg_epsilon.choice_parts import Choice
from pg_epsilon.engine.ready import check_unreplaced
from pg_epsilon.errors import SHAPE, DPError
from pg_epsilon.mechanisms.task import Alone, Groups, Prepared, Raws, ReadPublic, Shared, Task, Told
from pg_epsilon.query.copies import Copies
from pg_epsilon.query.kinds import Asked, Head, Jointly, Kinds
from pg_epsilon.query.released import Free, Releases
from pg_epsilon.query.request import Request
from pg_epsilon.workload import shelf


@dataclass(frozen=True)
class Line:
    """A kind of question in the list: what says that a request is of it, and where its folder is.

    member: what it asks in the request document, and its answer; members: all that it adds to a request. settings: of a
    session, that make plain SQL such a question, or are checked by the kind. for_everybody: what it makes is
    everybody's, so that dp_planner pays for it, and for nothing else (composition.md §3.6). several: it may answer the
    aggregates of a block by one release. reads: it is about a stored release, which the member `of` names, of whatever
    kind. load: imports the folder, at the first question that may be of the kind:
    every session has a backend of its own, which imports anew, and most of them only count.
    """

    member: str
    members: frozenset[str]
    load: Callable[[], Task[Any]]
    settings: frozenset[str] = frozenset()
    for_everybody: bool = False
    several: bool = False
    reads: bool = False

    @cached_property
    def task(self) -> Task[Any]:
        """The kind itself. DP006 where another version of it would be imported."""
        check_unreplaced()
        return self.load()

    def is_named(self, document: Mapping[str, Any]) -> bool:
        """Whether a request document has a member of the kind."""
        return any(document.get(member) is not None for member in self.members)

    def concerns(self, head: Head) -> bool:
        """Whether the kind has to look at a request: its member or a setting of its is there."""
        return self.is_named(head.document) or any(head.settings.get(name) for name in self.settings)


def _compare() -> Task[Any]:
    from pg_epsilon.explain.task import CompareTask

    return CompareTask()


def _explain() -> Task[Any]:
    from pg_epsilon.explain.task import ExplainTask

    return ExplainTask()


def _decide() -> Task[Any]:
    from pg_epsilon.decide.task import DecideTask

    return DecideTask()


def _release() -> Task[Any]:
    from pg_epsilon.release.task import ReleaseTask

    return ReleaseTask()


def _workload() -> Task[Any]:
    from pg_epsilon.workload.task import WorkloadTask

    return WorkloadTask()


def _synthesis() -> Task[Any]:
    from pg_epsilon.synthesis.task import SynthesisTask

    return SynthesisTask()


DECIDE = Line("decide", frozenset({"decide", "query", "path"}), _decide, settings=frozenset({"dp.synthetic"}))
WORKLOAD = Line(
    "workload", frozenset({"workload", "running"}), _workload, settings=frozenset({"dp.workloads"}), several=True
)
SYNTHESIS = Line("synthesize", frozenset({"synthesize"}), _synthesis, for_everybody=True)
COMPARE = Line("compare", frozenset({"compare"}), _compare, reads=True)
EXPLAIN = Line("explain", frozenset({"explain"}), _explain, reads=True)
RELEASE = Line("release", frozenset({"release"}), _release)
# In the order in which they validate their members and in which answers hold theirs.
TASKS: tuple[Line, ...] = (DECIDE, WORKLOAD, COMPARE, EXPLAIN, RELEASE, SYNTHESIS)


class _Kinds:
    """All of them, for the compiler of requests."""

    @property
    def members(self) -> frozenset[str]:
        of = {"of"} if any(line.reads for line in TASKS) else set()
        return frozenset(of).union(*(line.members for line in TASKS))

    def spelled_out(self, document: Mapping[str, Any], copies: Copies, releases: Releases) -> Mapping[str, Any]:
        named = [line for line in TASKS if line.is_named(document)]
        if document.get("of") is not None and not any(line.reads for line in named):
            raise DPError(SHAPE, "a request of this form is about no release", "Leave `of` out.")
        for line in named:
            document = line.task.spelled_out(document, copies, releases)
        return document

    def ask(self, head: Head) -> dict[str, Asked]:
        found = ((line.member, line.task.ask(head)) for line in TASKS if line.concerns(head))
        return {member: asked for member, asked in found if asked is not None}

    def free(self, asked: Mapping[str, Asked]) -> Free | None:
        own = (line.task.free(asked[line.member]) for line in TASKS if line.member in asked)
        return next((found for found in own if found is not None), None)

    def joint(self, head: Head, asked: Mapping[str, Asked]) -> Jointly | None:
        if DECIDE.member in asked:  # each aggregate has its own decider
            return None
        lines = (line for line in TASKS if line.several and (len(head.aggregates) > 1 or line.concerns(head)))
        return next((found for line in lines if (found := line.task.joint(head)) is not None), None)

    def mechanism(self, head: Head, asked: Mapping[str, Asked]) -> str | None:
        own = (line.task.mechanism(head, asked[line.member]) for line in TASKS if line.member in asked)
        return next((name for name in own if name is not None), None)


KINDS: Kinds = _Kinds()


def is_for_everybody(request: Request) -> bool:
    """Whether dp_planner pays, and not who asks."""
    return any(line.for_everybody for line in TASKS if line.member in request.kinds)


def completed(request: Request, read: ReadPublic) -> Request:
    """The request with what public tables say of it, read before anything is charged."""
    if not request.kinds:
        return request
    asked = ((line, request.kinds[line.member]) for line in TASKS if line.member in request.kinds)
    return replace(request, kinds={line.member: line.task.completed(request, one, read) for line, one in asked})


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
    found = (line.task.together(request, separate, share) for line in TASKS if line.several)
    return next((choices for choices in found if choices is not None), separate)


def presented(plan: Prepared, raws: Raws, groups: Groups, *, joint: bool) -> dict[str, Any]:
    """What kinds add to an answer document, from the released integers of every group. joint: as in `described`."""
    found: dict[str, Any] = {}
    for task, asked in _asked(plan.request):
        found.update(task.present(plan, asked, raws, groups))
    if joint:
        found.update(WORKLOAD.task.present(plan, None, raws, groups))
    return found


def kind(request: Request) -> str:
    """The member of the kind that a request is of, of two the one that `prepared` takes; "block": it is of none."""
    return next((line.member for line in reversed(TASKS) if line.member in request.kinds), "block")


def kept(plan: Prepared, shown: Mapping[str, Any]) -> dict[str, Any]:
    """What is stored of the members that `presented` added."""
    found = dict(shown)
    for task, _ in _asked(plan.request):
        found.update(task.kept(shown))
    return found


def again(member: str, stored: Mapping[str, Any], raws: Raws) -> dict[str, Any]:
    """The members of an answer document, from what `kept` returned of a kind, or of a block. No policy is needed."""
    task = next((line.task for line in TASKS if line.member == member), None)
    return dict(stored if task is None else task.again(stored, raws))


def described(plan: Prepared, raw: Sequence[int] | None, *, joint: bool) -> Told:
    """What kinds say of a plan. joint: the block's aggregates are answered by one release."""
    asked = [task for task, _ in _asked(plan.request)]
    told = [task.describe(plan, raw) for task in asked + ([WORKLOAD.task] if joint else [])]
    facts = {name: value for one in told for name, value in one.facts.items()}
    return Told(facts, [sentence for one in told for sentence in one.sentences])


def alternatives(plan: Prepared) -> dict[str, Any]:
    """What dp_plan says of other ways to answer."""
    return {name: value for task, _ in _asked(plan.request) for name, value in task.alternatives(plan).items()}


def _asked(request: Request) -> Iterator[tuple[Task[Any], Any]]:
    """The kinds that a request is of, each with what it asks."""
    return ((line.task, request.kinds[line.member]) for line in TASKS if line.member in request.kinds)


def remember_by(run: shelf.Run) -> None:
    """How kinds read and write what they keep between questions: functions of public facts, which only save time."""
    shelf.use(run)


def start() -> None:
    """A question begins."""
    shelf.start()


def keep(who: str) -> None:
    """Write what this question found and the next one need not find again; who: whose question it was."""
    shelf.keep(who)
