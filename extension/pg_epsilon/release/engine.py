"""Published families as another way to answer a block (mechanisms/task.py, Answerer): free, from what was released."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pg_epsilon.accounting.charges import Charge
from pg_epsilon.ledger import Execute
from pg_epsilon.mechanisms.group_by import Measure
from pg_epsilon.mechanisms.told import keep
from pg_epsilon.query.attributes import NotBins
from pg_epsilon.query.request import Request
from pg_epsilon.query.types import Texts
from pg_epsilon.release.measures import Measured
from pg_epsilon.release.members import ITSELF, Member, Table, members, of_grid
from pg_epsilon.release.registry import Published, Registry
from pg_epsilon.release.served import Origin, deviation, document, is_candidate, notice, presentation, served

Left = Callable[[Request, str], tuple[str, Mapping[str, str]]]


class FamilyEngine:
    """Answers questions about sets of a family's classes. One per backend.

    left: of a request and who asks, its accounts in words, and what is left of the budget there.
    """

    def __init__(self, execute: Execute, texts: Texts, left: Left) -> None:
        self._execute = execute
        self._registry = Registry(execute)
        self._texts = texts
        self._left = left

    def reply(self, request: Request, request_id: str, who: str, sent: Mapping[str, Any]) -> dict[str, Any] | None:
        """The answer document; None where no family is about it. Of a release: DP005 for a name that is taken."""
        if "release" in request.kinds:
            self._registry.check(request, who)
            return None
        chosen = self._chosen(request, who)
        if chosen is None:
            return None
        family, found = chosen
        cells, miss = self._registry.cells(family), float(1 - request.confidence)
        queries = self._together(request, family, found)
        answers = [[served(family.facts, cells, one, queries, miss) for one in row] for row in found]
        origin = self._origin(request, family, who)
        if request.keys:
            request_id = keep(
                self._execute,
                request_id,
                presentation(request, answers, origin),
                mechanism=f"family {family.name}",
                who=who,
                dataset=request.policy.dataset.name,
                as_of=family.as_of,
                canonical=request.canonical(),
                document=sent,
                paid=False,
            )
        return document(request, answers, origin, request_id)

    def plan(self, request: Request, who: str) -> dict[str, Any] | None:
        """What dp_plan says of `reply`: the same, without a value."""
        if "release" in request.kinds:
            self._registry.check(request, who)
            return None
        chosen = self._chosen(request, who)
        if chosen is None:
            return None
        family, found = chosen
        info = notice(request, found, [], self._origin(request, family, who))
        free = {**info, "charge": {"worst": {}, "best": {}}}
        if of_grid(family.facts):
            return free
        rmse = [float(f"{max(each):.4g}") for each in zip(*_deviations(family, found), strict=True)]
        return {**free, "unbiased_rmse": rmse}

    def why_not(self, request: Request) -> str | None:
        """Of the newest family of the relation, why it does not answer."""
        if "release" in request.kinds or not _fits(request):
            return None
        for family in self._registry.near(request, ""):
            try:
                members(request, family.facts, self._texts)
            except NotBins as reason:
                return f"{family.name}: {reason}"
            if of_grid(family.facts):
                return f"{family.name} answers its own grid alone, and whoever released it"
            return f"{family.name}, of another analyst, has more noise than this budget buys"
        return None

    def enter(self, request: Request, measure: Measure, charges: Sequence[Charge], request_id: str, who: str) -> None:
        """A release was given to who asked for it."""
        if isinstance(measure, Measured):
            self._registry.enter(request, measure, charges, request_id, who)

    def _chosen(self, request: Request, who: str) -> tuple[Published, Table] | None:
        """The family with the least noise that is about the question, and its aggregates; where there is none, the
        asker's own newest one that answers its grid alone, of which the question has to be.

        Another analyst's only where its noise is at most that of what would be paid: nobody's answers get worse because
        somebody else released little.
        """
        if not _fits(request):
            return None
        best: tuple[float, Published, Table] | None = None
        alone: tuple[Published, Table] | None = None
        for family in self._registry.near(request, who):
            try:
                found = members(request, family.facts, self._texts)
            except NotBins:
                continue
            if of_grid(family.facts):
                if alone is None and family.own and self._together(request, family, found) is not None:
                    alone = family, found
                continue
            worst = [max(each) for each in zip(*_deviations(family, found), strict=True)]
            fit = zip(worst, found[0], strict=True)
            if not family.own and any(value > _own_deviation(request, one) for value, one in fit):
                continue
            if best is None or worst[0] < best[0]:
                best = worst[0], family, found
        return alone if best is None else best[1:]

    def _origin(self, request: Request, family: Published, who: str) -> Origin:
        return Origin(family.name, family.as_of, *self._left(request, who))

    def _together(self, request: Request, family: Published, found: Table) -> int | None:
        """Of how many queries all members are some; None: they are not, or the grid is not the asker's to know."""
        if not family.own:
            return None
        if of_grid(family.facts) and any(one.way != ITSELF for row in found for one in row):
            return None
        digests = {is_candidate(one) for row in found for one in row if one.classes}
        numbers = [one for one in digests if one is not None]
        known = len(numbers) == len(digests) and self._registry.has_members(request, family.name, sorted(numbers))
        return family.queries if known else None


def _deviations(family: Published, found: Table) -> list[list[float]]:
    """Of each group, of each aggregate: the noise of its unbiased answer."""
    return [[deviation(family.facts, one) for one in row] for row in found]


def _fits(request: Request) -> bool:
    """Whether a question has the form of those that families answer: no accuracy, nothing of its own."""
    return (
        request.budget.kind in ("epsilon", "rho")
        and len(request.source.relations) == 1
        and bool(request.aggregates)
        and not (request.kinds or request.fresh)
        and request.mechanism == "auto"
    )


def _own_deviation(request: Request, member: Member) -> float:
    """The noise of a count or a sum that the whole budget would buy, at the declared bounds."""
    budget, lattice = request.budget, member.aggregate.lattice
    largest = 1.0
    if member.way == ITSELF and lattice is not None:
        largest = float(max(-lattice.low, lattice.high) * lattice.step)
    units = (request.source.kappa or 1) if request.source.has_user_units else 1
    if budget.rho is not None:
        return largest * units / math.sqrt(2 * float(budget.rho))
    return math.sqrt(2) * largest * units / float(budget.epsilon or 1)
