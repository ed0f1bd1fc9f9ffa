"""A column's declared bounds, as far as a question's WHERE leaves them: public, as the text of the question is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from pg_epsilon.query.moments import read_moment
from pg_epsilon.query.restriction import Restriction
from pg_epsilon.query.schema import Column
from pg_epsilon.query.types import Item, Kind, type_of

# What a question's WHERE says about a column; None: nothing.
Within = Callable[[Item, str], Restriction | None]
_TICK = timedelta(microseconds=1)


def narrowed(column: Column, said: Restriction | None) -> Column | None:
    """The column with bounds in which all rows are that satisfy the WHERE; None where it says nothing that we can use.

    Of moments and integers, whose neighbours are known: an end that is excluded is one step further in.
    """
    policy, kind = column.policy, type_of(column).kind
    read = _READ.get(kind)
    if said is None or read is None or policy is None or policy.lower is None or policy.upper is None:
        return None
    order, step, text = read
    points = [order(one) for one in said.points or ()]
    lows, highs = [order(policy.lower)], [order(policy.upper)]
    if points:
        lows.append(min(points))
        highs.append(max(points))
    if said.lower is not None:
        lows.append(order(said.lower) + (step * 0 if said.lower_inclusive else step))
    if said.upper is not None:
        highs.append(order(said.upper) - (step * 0 if said.upper_inclusive else step))
    low, high = max(lows), min(highs)
    if low > high:  # no row can satisfy it: one group is left, of the declared end
        low = high = lows[0]
    return replace(column, policy=replace(policy, lower=text(low), upper=text(high)))


_READ: dict[Kind, tuple[Callable[[str], Any], Any, Callable[[Any], str]]] = {
    Kind.INT: (int, 1, str),
    Kind.TIMESTAMP: (read_moment, _TICK, lambda moment: moment.isoformat(" ")),
    Kind.TIMESTAMPTZ: (read_moment, _TICK, lambda moment: f"{moment.isoformat(' ')}+00"),
}
