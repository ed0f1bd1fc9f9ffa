"""Arms of a UNION ALL that differ in a range of what they sum: asked together, as one workload (sum-workloads.md §7.5).

The arms keep their places and their documents. Together they are the block that a person would write with FILTER:
`sum(x) FILTER (WHERE x <= 1), sum(x) FILTER (WHERE x <= 2), …`, at the price of all arms. The engine says by public
facts whether one release answers the block with no sum expected to be further off than by itself; if not, each arm is
asked alone. Arms that have a GROUP BY have the same one; arms over a join join alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from pg_epsilon.query.parse import ast, enums

from .aggregates import Aggregate, request_of
from .blocks import Block, QueryBlock
from .source import conjunction, conjuncts
from .tree import sql_text, strings, walk

MOST_CELLS = 10_000  # numbers of a workload that a sub-query gives: they travel as constants
LEAST = 2  # arms
_ON = frozenset({"", "on", "true", "yes", "1"})
Asked = Mapping[str, Any]


@dataclass(eq=False)
class WorkloadBlock:
    """Arms that may be answered by one call; each is a block of its own in the statement.

    common: how many conjuncts of every arm's WHERE all arms share, by text: they are the WHERE of the whole.
    """

    arms: tuple[QueryBlock, ...]
    common: frozenset[str]

    @property
    def keys(self) -> int:
        """How many columns of each arm are its group's keys."""
        return len(self.arms[0].keys)

    @property
    def width(self) -> int:
        """How many columns the one call answers: the keys, then every arm's aggregates."""
        return self.keys + sum(len(arm.aggregates) for arm in self.arms)

    def request(self, constants: Mapping[int, Any], settings: Mapping[str, Any], budget: Mapping[str, str]) -> Any:
        """The request of all arms: their aggregates side by side, under what tells the arms apart. Error: DP003."""
        where = conjunction([one for one in _conjuncts(self.arms[0]) if sql_text(one) in self.common])
        documents = []
        for arm in self.arms:
            own = [one for one in _conjuncts(arm) if sql_text(one) not in self.common]
            documents.append(_with(arm, where, own).request(constants, settings))
        aggregates = [one for document in documents for one in document["aggregates"]]
        bars = {"bars": True} if any(document.get("bars") for document in documents) else {}
        return {**documents[0], **bars, "aggregates": aggregates, "budget": dict(budget)}

    def parts(self, answer: Asked) -> Iterator[tuple[QueryBlock, dict[str, Any]]]:
        """Each arm, and what it would have been answered alone."""
        place, keys, bars = 0, self.keys, answer.get("bars")
        for arm in self.arms:
            end = place + len(arm.aggregates)
            rows = [[*row[:keys], *row[keys + place : keys + end]] for row in answer["rows"]]
            part: dict[str, Any] = {"rows": rows, "notice": None}
            if bars:
                part["bars"] = [row[place:end] for row in bars]
            yield arm, part
            place = end


def find(node: Any, blocks: Sequence[Block]) -> None:
    """Tell the arms of every UNION ALL that are one workload of each other (`QueryBlock.workload`)."""
    by_slot = {id(block.slot): block for block in blocks if isinstance(block, QueryBlock)}
    if len(by_slot) < LEAST:
        return
    seen: set[int] = set()
    for select in walk(node):
        if _is_union(select) and id(select) not in seen:
            groups: dict[str, list[QueryBlock]] = {}
            for arm in _arms(select, seen):
                block = by_slot.get(id(arm.fromClause[0])) if len(arm.fromClause or ()) == 1 else None
                if block is not None and (name := _signature(block)) is not None:
                    groups.setdefault(name, []).append(block)
            for arms in groups.values():
                _together(arms)


def _together(arms: Sequence[QueryBlock]) -> None:
    texts = [Counter(sql_text(one) for one in _conjuncts(arm)) for arm in arms]
    common = frozenset(set.intersection(*(set(found) for found in texts)))
    ranges = {(str(sorted(set(found) - common)), _filters(arm)) for arm, found in zip(arms, texts, strict=True)}
    sums = [one for arm in arms for one in arm.aggregates if one.function == "sum"]
    summed = {name for one in sums for name in _columns(one.argument)}
    own = [one for arm in arms for one in _conjuncts(arm) if sql_text(one) not in common]
    if len(ranges) < LEAST or not summed or any(not (found := _columns(one)) or found - summed for one in own):
        return
    if any(_columns(key) & summed for key in arms[0].keys):  # a WHERE may leave groups out that a FILTER does not
        return
    block = WorkloadBlock(tuple(arms), common)
    for arm in arms:
        arm.workload = block


def _is_union(node: Any) -> bool:
    return isinstance(node, ast.SelectStmt) and node.op == enums.SetOperation.SETOP_UNION and bool(node.all)


def _arms(node: Any, seen: set[int]) -> Iterator[Any]:
    """The SELECTs that a tree of UNION ALL puts below each other, in order."""
    if not _is_union(node):
        yield node
        return
    seen.add(id(node))
    yield from _arms(node.larg, seen)
    yield from _arms(node.rarg, seen)


def _signature(block: QueryBlock) -> str | None:
    """What arms of one workload share, apart from conditions; None for what cannot be one."""
    if block.running or any(isinstance(n, ast.SubLink) for n in walk(_conjuncts(block))):
        return None
    read = []
    for leaf, on in zip(block.leaves, block.ons, strict=True):
        alias = leaf.node.alias.aliasname if leaf.node.alias is not None else ""
        name = leaf.name if len(block.leaves) > 1 else alias
        read.append((leaf.relation.schema, leaf.relation.name, name, None if on is None else sql_text(on)))
    bare = [request_of(_bare(aggregate), sql_text) for aggregate in block.aggregates]
    return str((read, block.grouped, [sql_text(key) for key in block.keys], bare))


def _bare(aggregate: Aggregate) -> Aggregate:
    return Aggregate(aggregate.function, aggregate.argument, aggregate.distinct, None, None, aggregate.fraction)


def _filters(arm: QueryBlock) -> str:
    return str([sql_text(one.filter) for one in arm.aggregates if one.filter is not None])


def _conjuncts(block: QueryBlock) -> tuple[Any, ...]:
    return () if block.where is None else tuple(conjuncts(block.where))


def _columns(node: Any) -> frozenset[str]:
    if isinstance(node, str):
        return frozenset()
    return frozenset(strings(item.fields)[-1] for item in walk(node) if isinstance(item, ast.ColumnRef))


def _with(arm: QueryBlock, where: Any, own: Sequence[Any]) -> QueryBlock:
    """The arm with its own conditions as FILTER: every declared group is answered, so that this is the same."""
    aggregates = tuple(
        Aggregate(
            one.function,
            one.argument,
            one.distinct,
            conjunction([*own, *([one.filter] if one.filter is not None else [])]),
            one.type,
            one.fraction,
            one.descending,
        )
        for one in arm.aggregates
    )
    return QueryBlock(
        arm.number, None, arm.leaves, arm.ons, where, arm.keys, aggregates, "", arm.grouped, bars=arm.bars
    )


def wanted(settings: Mapping[str, Any]) -> bool:
    """Whether the session leaves dp.workloads on, and asks for private answers: not for those of a synthetic table."""
    on = str(settings.get("dp.workloads") or "on").strip().lower() in _ON
    return on and not settings.get("dp.synthetic")


def price(settings: Mapping[str, Any], plans: Sequence[Asked], different: int) -> dict[str, str] | None:
    """What all arms cost, each asked alone, as the budget of one call; None where that is no sum of one kind.

    plans: the engine's, of each arm. Of arms that were paid before the session's setting is what they would cost.
    different: how many arms are not the same question as another.
    """
    if settings.get("dp.alpha") or settings.get("dp.beta"):
        return None
    for kind in ("epsilon", "rho"):
        amounts = {str((plan.get("charge") or {}).get("worst", {}).get(kind, "")) for plan in plans}
        amounts = {amount for amount in amounts if amount} or {str(settings.get(f"dp.{kind}") or "")}
        try:
            (amount,) = (Decimal(one) for one in amounts if one)
        except (InvalidOperation, ValueError):
            continue
        return {kind: format(amount * different, "f")}
    return None


def better(whole: Asked, plans: Sequence[Asked]) -> bool:
    """Whether one call answers all arms, is not charged where they are free, and is paid by the same accounts.

    Of a user, the rows that count are chosen after an arm's WHERE and before a FILTER: one call would mean another sum.
    """
    told = whole.get("workload")
    if told is None or told.get("rows_per_unit") is not None:
        return False
    if _is_free(whole):
        return True
    return not any(_is_free(plan) for plan in plans) and {plan.get("accounts") for plan in plans} == {
        whole.get("accounts")
    }


def _is_free(plan: Asked) -> bool:
    return not (plan.get("charge") or {}).get("worst")


def cells(request: Asked) -> int:
    """How many numbers a call's arrays hold."""
    asked = request.get("workload") or {}
    matrix = asked.get("matrix") or []
    wide = sum(len(row) if isinstance(row, list) else 1 for row in matrix)
    return wide + sum(len(asked.get(name) or []) for name in ("thresholds", "ranges"))
