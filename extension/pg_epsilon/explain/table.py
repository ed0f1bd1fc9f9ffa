"""The table that explains a difference: shares and ranks of predicates (dpxplain.md §6.8)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

# Influence of a predicate that is not to be divided by a difference, which may be 0.
Share = tuple[float, float, float]


@dataclass(frozen=True)
class Row:
    """One predicate: its noisy influence with an interval, in the unit of the influence, and its ranks."""

    text: str
    influence: float
    low: float
    high: float
    rank_low: int
    rank_high: int


def denominator(kind: str, difference: float, counts: Sequence[float]) -> float:
    """What influences are divided by to be shares: released numbers (dpxplain.md §6.8).

    difference: as released; counts: of averages, the released numbers of rows of the compared groups, not rounded.
    """
    return abs(difference) * (max(1.0, min(counts)) if kind == "avg" else 1)


def sorted_rows(rows: Iterable[Row], divisor: float) -> list[tuple[str, Share, int, int]]:
    """(predicate, share with its interval, ranks) by the share's upper end, then by the rank, then by the text.

    Texts are compared by their bytes. ValueError for a divisor that is not above 0.
    """
    if not divisor > 0:
        raise ValueError("shares of nothing")
    ordered = sorted(rows, key=lambda row: (-row.high, row.rank_high, row.text.encode()))
    # + 0.0: nothing is shown as -0
    shares = ((row.influence / divisor + 0.0, row.low / divisor + 0.0, row.high / divisor + 0.0) for row in ordered)
    return [(row.text, share, row.rank_low, row.rank_high) for row, share in zip(ordered, shares, strict=True)]
