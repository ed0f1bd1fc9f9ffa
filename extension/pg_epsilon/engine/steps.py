"""Steps of a release, each committed with its draws in dp.draft (seam.md S8; composition.md §10.3 c)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from pg_epsilon.errors import CHANNEL, DPError
from pg_epsilon.ledger import Execute
from pg_epsilon.mechanisms.stepwise import Stepwise, Work
from pg_epsilon.noise import NoiseSource
from pg_epsilon.plan import Plan
from pg_epsilon.query.statistics import collect

LABEL = "a1"  # of the only measure, as group_by.core names it

_DRAWN = "SELECT released::text FROM dp.draft WHERE request_id = $1 ORDER BY step"
_KEEP = "INSERT INTO dp.draft (request_id, step, form, released) VALUES ($1, $2, $3, $4::jsonb)"
_FITS = "SELECT NOT EXISTS (SELECT FROM dp.draft WHERE request_id = $1 AND form IS DISTINCT FROM $2) AS fits"


class More(NamedTuple):
    """A step was drawn, and there are more. step: its number, from 1; steps: how many they are in all."""

    step: int
    steps: int
    text: str


class Steps:
    """Draws the next step of a release. One per backend, which keeps the statistics of one release.

    read: the rows of a plan's statement, which has no keys. The caller holds the lock of the charge's ledger row, so
    that no step is drawn twice.
    """

    def __init__(
        self, execute: Execute, read: Callable[[Plan], list[dict[str, Any]]], noise: Callable[[], NoiseSource]
    ) -> None:
        self._execute = execute
        self._read = read
        self._noise = noise
        self._kept: tuple[str, str, Work] | None = None

    def fits(self, plan: Plan, request_id: str) -> bool:
        """Whether the steps so far, if any, are of this plan: what they are made of was not declared anew."""
        return bool(self._execute(_FITS, ["uuid", "text"], [request_id, plan.form])[0]["fits"])

    def reads(self, plan: Plan, request_id: str) -> bool:
        """Whether the next step reads rows: those of this release are not kept in this backend."""
        return self._kept is None or self._kept[:2] != (request_id, plan.cache_key)

    def drawn(self, request_id: str) -> list[list[int]]:
        """What the steps so far released."""
        return [json.loads(one["released"]) for one in self._execute(_DRAWN, ["uuid"], [request_id])]

    def take(self, plan: Plan, how: Stepwise, request_id: str) -> More | list[int]:
        """Draw one step; the integers of all of them once it was the last."""
        drawn = self.drawn(request_id)
        work = self._work(plan, how, request_id)
        kept, self._kept = self._kept, None  # what fails in the midst of a step is not gone on with
        drawn.append(work.step(drawn, self._noise(), LABEL))
        self._execute(
            _KEEP,
            ["uuid", "int4", "text", "text"],
            [request_id, len(drawn), plan.form, json.dumps(drawn[-1])],
        )
        steps = how.steps(drawn)
        if len(drawn) < steps:
            self._kept = kept
            return More(
                len(drawn), steps, f"dp: step {len(drawn)} of {steps} is drawn; a cancel now releases what is drawn"
            )
        return work.whole(drawn)

    def stop(self, how: Stepwise, request_id: str) -> list[int]:
        """The integers of the steps so far, which is all that will be released. DP006 before the first."""
        self._kept = None
        drawn = self.drawn(request_id)
        if not drawn:
            raise DPError(CHANNEL, "nothing was drawn yet", "Ask again: what was paid is owed.")
        return how.whole(drawn)

    def _work(self, plan: Plan, how: Stepwise, request_id: str) -> Work:
        if self._kept is None or self.reads(plan, request_id):
            self._kept = None  # two would not fit
            statistics = [one for choice in plan.choices for one in choice.statistics]
            (exact,) = collect(self._read(plan), 0, statistics).values()
            self._kept = request_id, plan.cache_key, how.begin(exact)
        return self._kept[2]
