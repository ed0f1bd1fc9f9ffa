"""Between which values of a column the rows lie that a question reads, by public facts alone (composition.md §10.3 a).

What the owner declared, what the predicate says, and that no row is of the future. A bound on how many
chunks of a hypertable it may read is made of it: how many there are, a row decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from pg_epsilon.query.partition import AXES
from pg_epsilon.query.restriction import restriction
from pg_epsilon.query.schema import BOUNDS
from pg_epsilon.query.types import Item, Term

_DAY = 86_400_000_000  # microseconds
_EPOCH = date(1970, 1, 1).toordinal()
# Type → what to take from its integer on the axis, and microseconds in one of what is left.
_TIMES = {
    "date": (_EPOCH, _DAY),
    "timestamp without time zone": (0, 1),
    "timestamp with time zone": (0, 1),
}


@dataclass(frozen=True)
class Span:
    """The first and the last value as integers: microseconds since 1970 of a time, else the value itself."""

    low: int
    high: int

    def pieces(self, width: int) -> int:
        """How many intervals of a width it meets at most, wherever they begin; 0 where it is empty."""
        return 0 if self.high < self.low else (self.high - self.low) // width + 2


def span_of(item: Item, conjuncts: Sequence[Term], column: str, clock: float) -> Span | None:
    """The span of a column in the rows that satisfy a predicate; None where the owner declared no bounds of it.

    A long window says nothing of how many rows there are: without a declaration there is no bound.
    conjuncts: the operands of the predicate's top-level AND. clock: now, in seconds since 1970; a day
    more is no future, because a timestamp without a time zone may be of any.
    """
    facts = item.relation.columns.get(column)
    if facts is None or facts.policy is None or facts.policy.kind != BOUNDS or facts.type_name not in AXES:
        return None
    found = restriction(conjuncts, item, column)
    lows, highs = [facts.policy.lower], [facts.policy.upper]
    if found is not None and found.points is None:
        lows.append(found.lower)
        highs.append(found.upper)
    axis = AXES[facts.type_name]
    shift, unit = _TIMES.get(facts.type_name, (0, 1))
    try:
        least = [(axis.number(text) - shift) * unit for text in lows if text is not None]
        most = [(axis.number(text) - shift) * unit for text in highs if text is not None]
        points = [(axis.number(text) - shift) * unit for text in (found and found.points) or ()]
    except (ValueError, OverflowError):  # beyond the years that Python knows
        return None
    if points:
        least.append(min(points))
        most.append(max(points))
    if facts.type_name in _TIMES:
        most.append(int(clock * 1_000_000) + _DAY)
    return Span(max(least), min(most)) if least and most else None
