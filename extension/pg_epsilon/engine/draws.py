"""The draw that a charge owes: counted, read, computed and recorded once (composition.md §10.3 c and d)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, NamedTuple

from pg_epsilon.catalog import Catalog
from pg_epsilon.engine import failures
from pg_epsilon.engine.entitlements import CUT_OFF, not_owed
from pg_epsilon.engine.failures import Unforeseen, failure_of, sqlstate_of
from pg_epsilon.engine.steps import More, Steps
from pg_epsilon.errors import CHANNEL, DPError
from pg_epsilon.plan import Plan

CANCEL = "57014"
MOST_PENDING = 16


class Pending(NamedTuple):
    """What the charge step knows of a request that is about to be answered.

    counted: the charge of this very request counted its first read.
    """

    plan: Plan
    counted: bool


def remember(pending: dict[str, Pending], request_id: str, plan: Pending) -> None:
    """Keep what the charge step knows for the answer step; the oldest goes, which is compiled again if it is asked."""
    while len(pending) >= MOST_PENDING:
        pending.pop(next(iter(pending)))
    pending[request_id] = plan


class Draws:
    """Draws answers in the channel's second transaction, where the charge's ledger row is locked.

    compute: reads and runs the pure core, all at once; steps: step by step. explain: the SQLSTATE of planning a
    statement, or None. undone: a context that is undone when it ends by an error.
    """

    def __init__(
        self,
        catalog: Catalog,
        compute: Callable[[Plan], list[list[int]]],
        steps: Steps,
        explain: Callable[[str], str | None],
        undone: Callable[[], AbstractContextManager[Any]],
    ) -> None:
        self._catalog = catalog
        self._compute = compute
        self._steps = steps
        self._explain = explain
        self._undone = undone

    def draw(
        self, plan: Plan, request_id: str, payer: str, asker: str, *, counted: bool, stop: bool = False
    ) -> list[list[int]] | More:
        """The released integers of a charge, recorded; what a decision, or a stop, gives back goes to the payer. Of a
        release in steps one step, `More` unless it is the last.

        counted: its charge, just committed, counted this read; any other read is counted, and committed, before it
        begins. stop: take the steps so far for all. Errors: DP006 if nothing is owed; `Unforeseen`; SQLSTATEs that no
        row decides, as they are.
        """
        owed = self._catalog.entitlements.state(request_id)
        if owed is None:
            raise not_owed()
        if owed.cut >= CUT_OFF:
            cut = failure_of(plan.request, asker, request_id, _CutOff(), plan.question)
            raise Unforeseen(replace(cut, sqlstate=failures.CRASHED, life=owed.life))
        how = plan.stepwise
        if how is not None and not self._steps.fits(plan, request_id):
            raise not_owed()
        if stop and payer != asker:
            raise DPError(
                CHANNEL, "who did not pay for a release stops it for nobody", "What is drawn stays: ask again."
            )
        drawn = self._steps.stop(how, request_id) if how is not None and stop else None
        reads = drawn is None and (how is None or self._steps.reads(plan, request_id))
        if reads and not counted:
            self._count_start(request_id)
        try:
            with self._undone():
                if how is not None and drawn is None:
                    found = self._steps.take(plan, how, request_id)
                    if isinstance(found, More):
                        return found
                    drawn = found
                raw = self._compute(plan) if drawn is None else [drawn]
                self._catalog.entitlements.wait_for_locks()
                self._catalog.record(plan, request_id, raw)
        except Exception as error:
            if failures.is_data_independent(error):
                raise
            if self._is_moved(plan, error):
                raise failures.moved() from None
            raise Unforeseen(failure_of(plan.request, asker, request_id, error, plan.question)) from None
        if unused := plan.unused(raw[0] if raw else []):
            self._catalog.give_back(plan, request_id, payer, unused)
        if not self._catalog.entitlements.end(request_id):
            raise not_owed()
        return raw

    def _count_start(self, request_id: str) -> None:
        try:
            with self._undone():
                self._catalog.entitlements.count_start(request_id)
        except Exception as error:
            if isinstance(error, DPError) or sqlstate_of(error) in (None, CANCEL):
                raise
            raise failures.cannot_begin() from None

    def _is_moved(self, plan: Plan, error: Exception) -> bool:
        """Whether names or rights do not let the statement be planned any more: the owner moved a table meanwhile.

        error: of the read. Where a lock keeps planning from an answer, only a class 42 of the read itself is a move.
        """
        try:
            with self._undone():
                state = self._explain(plan.statement) if plan.statement else None
        except Exception as waited:
            if sqlstate_of(waited) not in failures.LOCK_WAITS:
                raise
            state = sqlstate_of(error)
        return state is not None and state.startswith("42")


class _CutOff(Exception):
    """Two reads of one entitlement began, and a crash of the server ended both."""
