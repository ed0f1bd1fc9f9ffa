"""SQL of ladders over rows: truncated sums, counts and sums up to thresholds, by one parallel scan (dp-pqd.md §2.6).

A ladder of few levels is two aggregates a level. One of many is a number and a sum for each interval between its
thresholds, of which the levels are sums: a row then costs one search instead of one comparison per level.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pg_epsilon.query.bounds import GS_MAX

# A CTE, used or not, keeps PostgreSQL from merging a sub-query into the query around it, so that its columns are
# computed once a row; OFFSET 0 does that too, but only one process may then read the table.
ONCE = "WITH once AS (SELECT)"


@dataclass(frozen=True)
class Ladder:
    """A column of contributions (lattice integers of at most 2^53, NULL counts nowhere) and its thresholds.

    sides: thresholds of the positive side, then of the negative one, if the column can be negative. drop: what is
    above a threshold is left out, instead of cut. prefix: also counts, before the sums, of what is at most a threshold
    (zeros too; one side).
    """

    column: str
    sides: tuple[tuple[int, ...], ...]
    drop: bool
    prefix: bool

    @property
    def aggregates(self) -> int:
        """How many aggregates a row goes through in the direct form."""
        return sum(map(len, self.sides)) * (2 if self.prefix else 1)


def direct(ladder: Ladder) -> list[str]:
    """Aggregates over contributions, a column each: what a threshold takes away is taken off the whole."""
    found = []
    for sign, side in zip(("", "-"), ladder.sides, strict=False):
        part = f"{sign}{ladder.column}"
        own = f" FILTER (WHERE {part} > 0)" if len(ladder.sides) == 2 else ""
        if ladder.prefix:
            found += [f"count({part}) - count(*) FILTER (WHERE {part} > {t})" for t in side]
        for t in side:
            above = part if ladder.drop or ladder.prefix else f"{part} - {t}"
            found.append(f"coalesce(sum({part}){own}, 0) - coalesce(sum({above}) FILTER (WHERE {part} > {t}), 0)")
    return found


def bucket(ladder: Ladder) -> str:
    """The number of a contribution's interval between thresholds, ascending from 0; NULL for NULL.

    In float8, in which every integer up to 2^53 is exact, and which PostgreSQL searches without calling a function.
    """
    positive, negative = _inner(ladder)
    # 1: a two-sided ladder has an end between 0 and the positive contributions
    ends = [*(-t for t in reversed(negative)), *([1] if len(ladder.sides) == 2 else []), *(t + 1 for t in positive)]
    array = f"ARRAY[{', '.join(map(str, ends))}]::pg_catalog.float8[]"
    return f"pg_catalog.width_bucket({ladder.column}::pg_catalog.float8, {array})"


def over_buckets(ladder: Ladder, number: str, count: str, total: str) -> list[str]:
    """The columns of `direct`, from one row for each bucket: its number, its contributions' number and sum."""

    def sum_of(column: str, condition: str) -> str:
        return f"coalesce(sum({column}) FILTER (WHERE {condition}), 0)"

    found = []
    for sign, side, below, above in _conditions(ladder, number):
        if ladder.prefix:
            found += [sum_of(count, below[j]) for j in range(len(side))]
        for j, t in enumerate(side):
            cut = "" if ladder.drop or ladder.prefix else f" + {t} * {sum_of(count, above[j])}"
            found.append(f"{sign}{sum_of(total, below[j])}{cut}")
    return found


def _conditions(ladder: Ladder, number: str) -> Iterator[tuple[str, tuple[int, ...], list[str], list[str]]]:
    """Per side: its sign, its thresholds, and which buckets are on it and at most, or above, each threshold."""
    zero, levels = len(_inner(ladder)[1]), [range(1, len(side) + 1) for side in ladder.sides]
    if len(ladder.sides) == 1:
        below = [f"{number} < {j}" for j in levels[0]]
        yield "", ladder.sides[0], below, [f"{number} >= {j}" for j in levels[0]]
        return
    below = [f"{number} BETWEEN {zero + 1} AND {zero + j}" for j in levels[0]]
    yield "", ladder.sides[0], below, [f"{number} > {zero + j}" for j in levels[0]]
    below = [f"{number} BETWEEN {zero - j + 1} AND {zero}" for j in levels[1]]
    yield "-", ladder.sides[1], below, [f"{number} <= {zero - j}" for j in levels[1]]


def _inner(ladder: Ladder) -> tuple[Sequence[int], Sequence[int]]:
    """The thresholds of both sides that something can be beyond, of which a float8 can tell the next integer."""
    positive, negative = (*ladder.sides, ())[:2]
    return [t for t in positive if t < GS_MAX], [t for t in negative if t < GS_MAX]
