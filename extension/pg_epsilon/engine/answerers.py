"""Other ways to answer a block than its own draw, listed: the only file of the engine that names their folders.

A stored answer, a declared domain and the draw itself are not among them: they hold for every kind of question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from pg_epsilon.catalog import Catalog
from pg_epsilon.engine.ready import check_unreplaced
from pg_epsilon.errors import DPError
from pg_epsilon.ledger import Execute
from pg_epsilon.mechanisms.task import Answerer
from pg_epsilon.noise import NoiseSource
from pg_epsilon.plan import Plan
from pg_epsilon.query.request import Request
from pg_epsilon.query.types import Texts

if TYPE_CHECKING:
    from pg_epsilon.release.engine import FamilyEngine
    from pg_epsilon.turbo.engine import TurboEngine
    from pg_epsilon.turbo.owner import Owner

P = TypeVar("P")
Left = tuple[str, Mapping[str, str]]  # accounts in words, and what is left there
_HAS_FAMILY = "SELECT EXISTS (SELECT FROM dp.family WHERE dataset = $1 AND relation_key = $2) AS found"


class Turbo(Answerer):
    """Views that answer questions with alpha and beta (turbo.md), and what their owners do to them.

    The folder is imported at the first of these: every session has a backend of its own, which imports anew, and most
    questions state epsilon.
    """

    name = "turbo"

    def __init__(
        self,
        catalog: Catalog,
        execute: Execute,
        noise: Callable[[], NoiseSource],
        compiled: Callable[[Mapping[str, Any]], Request],
        texts: Texts,
        plan: Callable[[str], None],
    ) -> None:
        self._needs = (catalog, execute, noise, compiled, texts, plan)

    @cached_property
    def engine(self) -> TurboEngine:
        """One per backend. DP006 where another version of it would be imported."""
        check_unreplaced()
        from pg_epsilon.turbo.engine import TurboEngine

        return TurboEngine(*self._needs)

    @cached_property
    def owner(self) -> Owner:
        """The calls behind dp.enable_turbo and its kin."""
        from pg_epsilon.turbo.owner import Owner

        catalog, execute, noise, *_ = self._needs
        return Owner(catalog, self.engine.views, execute, noise, self.engine.outlook)

    def reply(self, request: Request, request_id: str, who: str, sent: Mapping[str, Any]) -> dict[str, Any] | None:
        return self.engine.reply(request, request_id, who, sent) if _states_accuracy(request) else None

    def plan(self, request: Request, who: str) -> dict[str, Any] | None:
        return self.engine.plan(request, who) if _states_accuracy(request) else None

    def why_not(self, request: Request) -> str | None:
        return self.engine.why_not(request) if _states_accuracy(request) else None


class Families(Answerer):
    """Published families of dp_release_numeric: what a question about sets of their classes sums up, for nothing.

    The folder is imported where a relation has a family, or one is released.
    """

    name = "family"
    advises = False  # a question that is refused is no nearer to one of a family than to any other

    def __init__(self, execute: Execute, texts: Texts, left: Callable[[Request, str], Left]) -> None:
        self._execute, self._texts, self._left = execute, texts, left

    @cached_property
    def engine(self) -> FamilyEngine:
        """One per backend. DP006 where another version of it would be imported."""
        check_unreplaced()
        from pg_epsilon.release.engine import FamilyEngine

        return FamilyEngine(self._execute, self._texts, self._left)

    def reply(self, request: Request, request_id: str, who: str, sent: Mapping[str, Any]) -> dict[str, Any] | None:
        return self.engine.reply(request, request_id, who, sent) if self._concerns(request) else None

    def plan(self, request: Request, who: str) -> dict[str, Any] | None:
        return self.engine.plan(request, who) if self._concerns(request) else None

    def why_not(self, request: Request) -> str | None:
        return self.engine.why_not(request) if self._concerns(request) else None

    def entered(self, plan: Plan, request_id: str, who: str) -> None:
        """A release was given: where it is a family's, its name stands for it."""
        if "release" in plan.request.kinds:
            self.engine.enter(plan.request, plan.choices[0].estimator.measures[0], plan.charges, request_id, who)

    def _concerns(self, request: Request) -> bool:
        """Whether there may be anything to do: one query, which most questions do not pass."""
        if "release" in request.kinds:
            return True
        if request.kinds or request.fresh or request.mechanism != "auto":
            return False
        if "engine" in vars(self):  # which looks itself
            return True
        of = [request.policy.dataset.name, request.policy.relation_key]
        return bool(self._execute(_HAS_FAMILY, ["text", "text"], of)[0]["found"])


def _states_accuracy(request: Request) -> bool:
    return request.budget.kind == "accuracy"


def planned(request: Request, answerers: Iterable[Answerer], who: str) -> dict[str, Any] | None:
    """What dp_plan says where one of them would answer."""
    return next((found for one in answerers if (found := one.plan(request, who)) is not None), None)


def unused(request: Request, answerers: Iterable[Answerer]) -> dict[str, str]:
    """What dp_plan says of those that might have answered, and will not: reasons by name."""
    return {one.name: reason for one in answerers if (reason := one.why_not(request)) is not None}


def instead(request: Request, answerers: Iterable[Answerer], plan: Callable[[Request], P]) -> P:
    """`plan(request)`: how the block's own planner answers. If it cannot either, the HINT says why none of them did."""
    try:
        return plan(request)
    except DPError as error:
        advisers = [one for one in answerers if one.advises]
        said = [f"{name.capitalize()} does not answer it: {why}." for name, why in unused(request, advisers).items()]
        if not said:
            raise
        hint = " ".join([error.hint or "", *said]).strip()
        raise DPError(error.sqlstate, error.message, hint, detail=error.detail, position=error.position) from None
