"""A release as people see it: post-processing of the released integers, the plan and the asked confidence."""

from __future__ import annotations

from typing import Any

from pg_epsilon.engine import tasks
from pg_epsilon.mechanisms import group_by
from pg_epsilon.plan import Plan, describe


def shown(
    plan: Plan, raw: list[list[int]], *, request_id: str, path: str, as_of: str, left: dict[str, str]
) -> dict[str, Any]:
    """The answer document (docs/internals.md §1).

    raw: per group, the released integers of all measures. path: how the answer came about; left: of the asker's budget.
    """
    request = plan.request
    n, m = len(request.places), len(request.aggregates)
    groups = [
        [group[place] for place in request.places] for group in group_by.groups([key.domain for key in request.keys])
    ]
    cell = raw[0] if raw else []  # what is said of a kind beside its rows is said of its first group
    return {
        "request_id": request_id,
        "keys": n,
        "columns": [f"k{i}" for i in range(1, n + 1)] + [f"a{i}" for i in range(1, m + 1)],
        "names": [request.keys[place].name for place in request.places] + [a.name for a in request.aggregates],
        "rows": [[*group, *plan.texts(values)] for group, values in zip(groups, raw, strict=True)],
        **({"bars": [plan.bars(values) for values in raw]} if request.bars else {}),
        **tasks.presented(plan, raw, groups, joint=plan.joint is not None),
        "notice": describe(plan, path=path, left=left, as_of=as_of, raw=cell),
    }
