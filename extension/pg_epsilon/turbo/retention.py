"""Rows that their owner removed by dp.retain: where the removal ends, and what is said of counts that stayed or went.

Public facts: the declared grid, which partitions are sealed, and what the owner called when. Never a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from pg_epsilon.errors import OUT_OF_RANGE, DPError
from pg_epsilon.query.literals import quote
from pg_epsilon.query.partition import AXES, cell, number_of
from pg_epsilon.query.policy import Policy
from pg_epsilon.turbo.catalog import Part, View


@dataclass(frozen=True)
class Boundary:
    """Where a removal ends: partitions before `number` lose their rows. value: its lower end; exact: as was asked."""

    number: int
    value: str
    exact: bool


def boundary(policy: Policy, before: str) -> Boundary:
    """The end of the last partition that ends at `before`, a value of the key, or earlier. DP005 if there is none."""
    if policy.grid is None or policy.partition_by is None or "list" in policy.grid:
        raise DPError(
            OUT_OF_RANGE,
            "partitions of a list have no order, so none is before another",
            "DELETE their rows; CALL dp.reopen_partition(relation, value) has a deleted partition forgotten.",
        )
    number = number_of(policy, before)
    if not number:
        raise DPError(
            OUT_OF_RANGE,
            f"no partition of the declared grid ends at {before}, or before",
            f"The grid begins at {policy.grid.get('origin')}, each partition is {policy.grid.get('width')} wide.",
        )
    found = cell(policy, number).lower
    axis = AXES[policy.relation.columns[policy.partition_by].type_name]
    return Boundary(number, found, axis.number(found) == axis.number(before))


def check_kept(policy: Policy, view: View, end: Boundary) -> None:
    """DP005 if counts cannot stay without the rows: of a partition that is not sealed, or whose counts are missing."""
    name = quote(policy.relation.qualified)
    for number in range(end.number):
        part = view.parts.get(number)
        if part is None:
            problem, hint = "is not sealed", f"CALL dp.seal_partitions({name}, until => {quote(end.value)}) first"
        elif not part.sealed:
            problem, hint = (
                "is not sealed",
                f"CALL dp.seal_partition({name}, {quote(cell(policy, number).lower)}) first",
            )
        elif not part.counted and part.removed is None:
            problem, hint = "has no counts, as in a restored copy", f"CALL dp.refresh({name}) first"
        else:
            continue
        raise DPError(
            OUT_OF_RANGE,
            f"partition {cell(policy, number).leaf} {problem}: without its rows nothing could be said of it",
            f"{hint}; or give keep_counts => false, and the rows are counted no more.",
        )


def told(policy: Policy, view: View, first: int, last: int) -> list[str]:
    """What an answer about partitions first … last says of rows that were removed: a sentence for each stretch."""
    parts = [view.parts[number] for number in range(first, last + 1)]
    stretches = [(how, list(own)) for how, own in groupby(parts, key=_how)]
    return [_sentence(policy.partition_by or "", own, how) for how, own in stretches if how is not None]


def _how(part: Part) -> bool | None:
    """Whether the counts of a partition without rows were kept; None: its rows were not removed."""
    return None if part.removed is None else bool(part.kept)


def _sentence(key: str, parts: list[Part], kept: bool) -> str:
    times = sorted({part.removed or "" for part in parts})
    when = f"on {times[0]}" if len(times) == 1 else f"by and by, the last on {times[-1]}"
    then = "counts there are those of the seal" if kept else "none of them is counted"
    return f"rows with {key} from {parts[0].lower} to before {parts[-1].upper} were removed {when}: {then}"
