"""Error bars as columns: dp_low(count(*)), dp_high(...), dp_stderr(...) of an aggregate of the same block.

They are computed from what was released, the public scale and dp.confidence (composition.md §8): they cost nothing.
dp_decision(...) is another: whether the synthetic answer was found within dp.tau, for programs that hear no notice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

from . import refusals

# The place of each in the engine's [low, high, stderr], behind which the decision is put.
BARS: Mapping[str, int] = {"dp_low": 0, "dp_high": 1, "dp_stderr": 2, "dp_decision": 3}
_TYPES = {BARS["dp_stderr"]: "double precision", BARS["dp_decision"]: "boolean"}
INSTEAD = "give it one aggregate of the same query, as in dp_low(count(*)); compute with the two columns outside"
_ROUNDED = {0: ROUND_FLOOR, 1: ROUND_CEILING}
_INTEGERS = frozenset({"smallint", "integer", "bigint"})


@dataclass(frozen=True)
class Bar:
    """A column of bounds. aggregate: its number in the block, from 0; place: in [low, high, stderr, decision]."""

    aggregate: int
    place: int


def bar_types(bars: Sequence[Bar], types: Sequence[str]) -> list[str]:
    """The bars' types, from those of the block's aggregates: a bound is a value of its aggregate's kind."""
    return [_TYPES.get(bar.place, types[bar.aggregate]) for bar in bars]


def bar_values(bars: Sequence[Bar], types: Sequence[str], row: Sequence[Sequence[str | None]]) -> list[str | None]:
    """One row's bars as texts; null: unknown. A bound of an integer is rounded outwards, so that it still holds."""
    values: list[str | None] = []
    for bar in bars:
        value = row[bar.aggregate][bar.place]
        if value is not None and bar.place in _ROUNDED and types[bar.aggregate] in _INTEGERS:
            value = str(Decimal(value).to_integral_value(_ROUNDED[bar.place]))
        values.append(value)
    return values


def with_bars(
    bars: Sequence[Bar], types: Sequence[str], rows: Sequence[Sequence[Any]], answered: Any, decisions: Any = None
) -> list[list[Any]]:
    """The block's rows with its bars behind them. Error: DP006 if the answer's bars have another form.

    decisions: the answer's, one for each aggregate of its one row; None where nothing was decided.
    """
    try:
        if len(answered) != len(rows):
            raise IndexError
        known = [_decided(found, decisions) for found in answered]
        return [[*row, *bar_values(bars, types, found)] for row, found in zip(rows, known, strict=True)]
    except (TypeError, KeyError, IndexError, ValueError, ArithmeticError):
        raise refusals.broken("error bars of another form") from None


def _decided(row: Sequence[Sequence[Any]], decisions: Any) -> list[list[Any]]:
    """The bars of one row, each with its aggregate's decision behind."""
    bits = [None] * len(row) if decisions is None else [str(one["decision"]).lower() for one in decisions]
    return [[low, high, stderr, bit] for (low, high, stderr), bit in zip(row, bits, strict=True)]
