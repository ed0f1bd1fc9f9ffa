"""One aggregate of a stored release, as a comparison takes it: by its cells, or by its error bars."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any

from pg_epsilon.errors import OUT_OF_RANGE, SHAPE, DPError
from pg_epsilon.explain.forms import Barred, Form, Halves, Linear
from pg_epsilon.mechanisms.estimators import Average, Bar, Estimator, Number
from pg_epsilon.mechanisms.presentation import Presentation
from pg_epsilon.mechanisms.stored import Unreadable, how
from pg_epsilon.query.released import Named, Stored, gone


@dataclass(frozen=True)
class Column:
    """One aggregate of a release.

    number: its place among the aggregates of who paid. bars_at: the level at which bars are needed.
    """

    stored: Stored
    number: int
    bars_at: Fraction

    @cached_property
    def _how(self) -> Presentation | None:
        try:
            return how(self.stored.presentation)
        except Unreadable:
            raise gone(self.stored.request_id, "was stored by a later version of pg_epsilon") from None

    def form(self, group: int) -> Form:
        """What is known of the aggregate of one group. DP003: nothing bounds its error."""
        raw = self.stored.raw[group]
        if self._how is None:
            return self._stored_bar(group)
        estimator, part = self._how.parts(raw)[self._how.places[self.number]]
        if isinstance(estimator, Number):
            return Linear.of(estimator, part)
        if isinstance(estimator, Average):
            return Halves.of(estimator, part)
        return _barred(
            estimator.present(part),
            _bar_of(estimator, part, self.bars_at),
            self.bars_at,
            estimator.mechanism,
        )

    def _stored_bar(self, group: int) -> Form:
        """A value whose mechanism stored no cells: by the bar that was shown."""
        how = self.stored.presentation
        told = how.get("compared") or how  # bars that hold for all groups, else those that were shown
        bar = (None, None, None) if told.get("bars") is None else told["bars"][group][self.number]
        at, uniform = Fraction(told["confidence"]), how.get("uniform") is True
        return _barred(how["values"][group][self.number], tuple(bar), at, self.stored.mechanism, uniform=uniform)


def _bar_of(estimator: Estimator, part: Sequence[int], level_: Fraction) -> Bar:
    return estimator.bars(part, Decimal(level_.numerator) / Decimal(level_.denominator))


def _barred(
    value: str | None, bar: Sequence[str | None], at: Fraction, mechanism: str, *, uniform: bool = False
) -> Barred:
    low, high = bar[0], bar[1]
    try:
        if low is None and high is None:
            raise DPError(
                SHAPE,
                f"nothing that may be told bounds the error of this aggregate ({mechanism})",
                "Ask for count, sum or avg by the same groups, and compare those.",
            )
        ends = -math.inf if low is None else float(low), math.inf if high is None else float(high)
        return Barred(math.nan if value is None else float(value), *ends, at, uniform)
    except ValueError:
        raise DPError(
            SHAPE,
            "values of this aggregate are no numbers",
            "Compare a count, a sum or an average.",
        ) from None


def aggregate(stored: Stored, of: Named, given: Any, bars_at: Fraction) -> tuple[str, Column]:
    """The aggregate that is compared, by its number in the statement of who asks. DP005: there is none of it."""
    names = stored.presentation["names"]
    theirs = stored.presentation.get("aggregates") or list(range(len(names)))
    mine = theirs if of.aggregates is None or set(of.aggregates) - set(theirs) else of.aggregates
    number = 1 if given is None else given
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= len(mine):
        said = "one aggregate" if len(mine) == 1 else f"{len(mine)} aggregates"
        raise DPError(
            OUT_OF_RANGE,
            f"this release has {said}" if mine else "this release has no aggregate",
            "aggregate => 1 is the first one in the statement" if mine else "Run a GROUP BY with count, sum or avg.",
        )
    column = theirs.index(mine[number - 1])
    name = str(names[column]) if stored.own else f"a{number}"
    return name, Column(stored, column, bars_at)
