"""Everything that could make the read fail, decided before any account is locked (composition.md §10.3 a)."""

from __future__ import annotations

from collections.abc import Callable

from pg_epsilon.engine import obstacles, parts
from pg_epsilon.engine.obstacles import Run
from pg_epsilon.engine.planning import Planning
from pg_epsilon.ledger import Execute
from pg_epsilon.plan import Plan
from pg_epsilon.query import sizes
from pg_epsilon.query.sizes import Limits


def check(
    execute: Execute, run: Run | None, plan: Plan, limits: Callable[[], Limits], planning: Planning | None
) -> None:
    """Refuse a plan whose statement cannot be read; nothing is charged by then.

    run, planning: None in a dry run, which plans nothing, because planning sees rows. Errors: DP003,
    DP004, DP006; `PlanningFailed` of whatever else planning or beginning the statement raises.
    """
    if plan.statement is None:
        return
    sizes.check(plan.request.source.join, limits(), plan.collected)
    obstacles.check(execute, run, plan)
    if planning is not None:
        with parts.counted(execute, plan):
            planning.check(plan.statement, plan.columns, plan.request.policy.version)
