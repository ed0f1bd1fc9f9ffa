"""A block's choices with those of a workload's sums answered together: the room's side of plain SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pg_epsilon.choice_parts import Choice, Facts
from pg_epsilon.mechanisms.task import Shared
from pg_epsilon.query.request import Request
from pg_epsilon.workload import choice
from pg_epsilon.workload.recognise import Together
from pg_epsilon.workload.running import choose
from pg_epsilon.workload.running_ask import Running


def together(request: Request, batch: Together, separate: tuple[Choice, ...], share: Shared) -> tuple[Choice, ...]:
    """The choices, with those of a workload's sums as the last, by one release at the price of all of them."""
    aggregates = request.distinct
    if Facts.of(request, aggregates).histograms:
        return separate
    sums = [request.aggregates[number] for number in batch.members]
    inside = {one.meaning for one in sums}
    alone = [one for a, one in zip(aggregates, separate, strict=True) if a.meaning in inside]
    others = [one for a, one in zip(aggregates, separate, strict=True) if a.meaning not in inside]
    budget = request.budget
    if others and budget.kind in ("epsilon", "rho"):
        part = share(request, sums[0], len(aggregates)).amount * len(alone)
        rho = budget.kind == "rho"
        budget = replace(budget, epsilon=None if rho else part, rho=part if rho else None)
    own = {a.meaning: one for a, one in zip(aggregates, separate, strict=True)}
    queries = [own[one.meaning] for one in sums]
    found = choice.together(replace(request, aggregates=tuple(sums), budget=budget), batch.workload, queries)
    return separate if found is None else (*others, found)


def running(request: Request, runs: Sequence[Running], separate: tuple[Choice, ...]) -> tuple[Choice, ...]:
    """The choices, with strategies for sums of which running sums are shown; each keeps its share of the budget."""
    found, order = list(separate), [aggregate.meaning for aggregate in request.distinct]
    for run in runs:
        place = order.index(request.aggregates[run.aggregate].meaning)
        found[place] = choose(request, run, found[place])
    return tuple(found)
