"""Published families as another way to answer a block (mechanisms/task.py, Answerer): free, from what was released."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pg_epsilon.accounting.charges import Charge
from pg_epsilon.ledger import Execute
from pg_epsilon.mechanisms.group_by import Measure
from pg_epsilon.query.attributes import NotBins
from pg_epsilon.query.request import Request
from pg_epsilon.query.types import Texts
from pg_epsilon.release.cells import Cells
from pg_epsilon.release.members import ITSELF, Member, members
from pg_epsilon.release.registry import Published, Registry
from pg_epsilon.release.served import Origin, deviation, document, is_candidate, notice, served

Left = Callable[[Request, str], tuple[str, Mapping[str, str]]]


class FamilyEngine:
    """Answers questions about sets of a family's classes. One per backend.

    left: of a request and who asks, its accounts in words, and what is left of the budget there.
    """

    def __init__(self, execute: Execute, texts: Texts, left: Left) -> None:
        self._registry = Registry(execute)
        self._texts = texts
        self._left = left

    def reply(self, request: Request, request_id: str, who: str) -> dict[str, Any] | None:
        """The answer document; None where no family is about it. Of a release: DP005 for a name that is taken."""
        if "release" in request.kinds:
            self._registry.check(request, who)
            return None
        chosen = self._chosen(request, who)
        if chosen is None:
            return None
        family, found = chosen
        cells, miss = self._registry.cells(family.request_id), float(1 - request.confidence)
        answers = [served(family.facts, cells, one, self._together(request, family, one), miss) for one in found]
        return document(request, answers, self._origin(request, family, who), request_id)

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
        rmse = [float(f"{deviation(family.facts, one):.4g}") for one in found]
        return {**info, "unbiased_rmse": rmse, "charge": {"worst": {}, "best": {}}}

    def why_not(self, request: Request) -> str | None:
        """Of the newest family of the relation, why it does not answer."""
        if "release" in request.kinds or not _fits(request):
            return None
        for family in self._registry.near(request, ""):
            try:
                members(request, family.facts, self._texts)
            except NotBins as reason:
                return f"{family.name}: {reason}"
            return f"{family.name}, of another analyst, has more noise than this budget buys"
        return None

    def enter(self, request: Request, measure: Measure, charges: Sequence[Charge], request_id: str, who: str) -> None:
        """A release was given to who asked for it."""
        if isinstance(measure, Cells):
            self._registry.enter(request, measure, charges, request_id, who)

    def _chosen(self, request: Request, who: str) -> tuple[Published, tuple[Member, ...]] | None:
        """The family with the least noise that is about the question, and its aggregates.

        Another analyst's only where its noise is at most that of what would be paid: nobody's answers get worse because
        somebody else released little.
        """
        if not _fits(request):
            return None
        best: tuple[float, Published, tuple[Member, ...]] | None = None
        for family in self._registry.near(request, who):
            try:
                found = members(request, family.facts, self._texts)
            except NotBins:
                continue
            noise = [deviation(family.facts, one) for one in found]
            fit = zip(noise, found, strict=True)
            if not family.own and any(value > _own_deviation(request, one) for value, one in fit):
                continue
            if best is None or noise[0] < best[0]:
                best = noise[0], family, found
        return None if best is None else best[1:]

    def _origin(self, request: Request, family: Published, who: str) -> Origin:
        return Origin(family.name, family.as_of, *self._left(request, who))

    def _together(self, request: Request, family: Published, member: Member) -> int | None:
        """Of how many queries a member is one; None: of none, or of a grid that is not the asker's to know."""
        number = is_candidate(member) if family.own else None
        known = number is not None and self._registry.has_member(request, family.name, number)
        return family.queries if known else None


def _fits(request: Request) -> bool:
    """Whether a question has the form of those that families answer: no groups, no accuracy, nothing of its own."""
    return (
        request.budget.kind in ("epsilon", "rho")
        and len(request.source.relations) == 1
        and bool(request.aggregates)
        and not (request.kinds or request.keys or request.fresh)
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
