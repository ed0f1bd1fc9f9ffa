"""A release as people see it: post-processing of the released integers, the plan and the asked confidence.

What is stored beside the integers (`stored`) is enough to show them again (`again`), without a policy and without the
question: neither the relation nor a predicate is in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import ROUND_DOWN, Decimal
from typing import Any

from pg_epsilon.decimals import plain
from pg_epsilon.engine import tasks
from pg_epsilon.mechanisms import group_by
from pg_epsilon.mechanisms.stored import Unstorable, encode, how
from pg_epsilon.plan import Plan, describe, warnings_of
from pg_epsilon.query import released

Row = list[str | None]


def shown(
    plan: Plan, raw: list[list[int]], *, request_id: str, path: str, as_of: str, left: dict[str, str]
) -> dict[str, Any]:
    """The answer document (docs/internals.md §1).

    raw: per group, the released integers of all measures. path: how the answer came about; left: of the asker's budget.
    """
    request = plan.request
    domains = [key.domain for key in request.keys]
    groups, order = _groups(domains, request.places), group_by.reading_order(domains, request.places)
    cell = raw[0] if raw else []  # what is said of a kind beside its rows is said of its first group
    return {
        "request_id": request_id,
        **({"release": released.text_of(request_id, request.places, request.numbers)} if request.keys else {}),
        **_columns([request.keys[place].name for place in request.places], [a.name for a in request.aggregates]),
        "rows": [[*groups[number], *plan.texts(raw[number], cell)] for number in order],
        **({"bars": [plan.bars(raw[number], cell) for number in order]} if request.bars else {}),
        **tasks.presented(plan, raw, groups, joint=plan.joint is not None),
        "notice": describe(plan, path=path, left=left, as_of=as_of, raw=cell),
    }


def stored(plan: Plan, raw: list[list[int]]) -> dict[str, Any]:
    """What `again` needs beside the integers, as JSON (docs/internals.md §1): a block's estimators.

    Of a kind of question, and of a release for several aggregates, values and members as they are shown now; of the
    latter's groups also bars that hold for all groups of an aggregate at once, by which they are compared.
    """
    request, joint = plan.request, plan.joint is not None
    told = tasks.described(plan, raw[0] if raw else [], joint=joint)
    margin = {"margin": plan.margin} if plan.has_margin else {}
    found: dict[str, Any] = {
        "kind": tasks.kind(request),
        "call": request.call,
        "confidence": plain(request.confidence),
        "keys": [[key.name, key.domain] for key in request.keys],
        "order": request.places,
        "aggregates": request.numbers,
        "names": [aggregate.name for aggregate in request.aggregates],
        "facts": {**margin, "warnings": warnings_of(plan), **told.facts},
    }
    if not request.kinds and not joint:
        try:
            return {**found, "places": plan.places, "estimators": encode(plan.estimators)}
        except Unstorable:
            pass  # a measure of a room's own: its values are
    groups = _groups([key.domain for key in request.keys], request.places)
    return {
        **found,
        "values": [plan.texts(values, raw[0]) for values in raw],
        **({"bars": [plan.bars(values, raw[0]) for values in raw]} if request.bars else {}),
        **({"compared": _compared(plan, raw)} if joint and request.keys else {}),
        "members": tasks.kept(plan, tasks.presented(plan, raw, groups, joint=joint)),
    }


def _compared(plan: Plan, raw: list[list[int]]) -> dict[str, Any]:
    """Bars at a level at which those of all groups hold at once with the asked confidence, by a union bound."""
    miss = (1 - plan.request.confidence) / len(raw)
    level = 1 - miss.quantize(Decimal(1).scaleb(miss.adjusted() - 6), ROUND_DOWN)
    bars = [plan.presentation.bars(values, level, raw[0]) for values in raw]
    return {"confidence": plain(level), "bars": bars}


def again(presentation: Mapping[str, Any], raw: list[list[int]], *, named: bool) -> dict[str, Any]:
    """The rows, bars and facts of a release, from what `stored` made of it.

    named: with the names that who asked gave to groups and values; others see those of the columns. Raises Unreadable
    for what a later version stored.
    """
    keys, order = presentation["keys"], presentation["order"]
    domains = [domain for _, domain in keys]
    groups, numbers = _groups(domains, order), group_by.reading_order(domains, order)
    labels = _columns([keys[place][0] for place in order], presentation["names"])
    values, bars = presentation.get("values"), presentation.get("bars")
    read = how(presentation)
    if read is not None:
        confidence = Decimal(presentation["confidence"])
        values, bars = [read.texts(one) for one in raw], [read.bars(one, confidence) for one in raw]
    return {
        "call": presentation["call"],
        **(labels if named else {**labels, "names": labels["columns"]}),
        "rows": [[*groups[number], *(values or [])[number]] for number in numbers],
        **({} if bars is None else {"bars": [bars[number] for number in numbers]}),
        **tasks.again(presentation["kind"], presentation.get("members") or {}, raw),
        "confidence": presentation["confidence"],
        "facts": presentation["facts"],
    }


def _groups(domains: Sequence[Sequence[str | None]], places: Sequence[int]) -> list[Row]:
    """The keys of every group, in the order in which they were asked for."""
    return [[group[place] for place in places] for group in group_by.groups(domains)]


def _columns(keys: Sequence[str], aggregates: Sequence[str]) -> dict[str, Any]:
    n, m = len(keys), len(aggregates)
    return {
        "keys": n,
        "columns": [f"k{i}" for i in range(1, n + 1)] + [f"a{i}" for i in range(1, m + 1)],
        "names": [*keys, *aggregates],
    }
