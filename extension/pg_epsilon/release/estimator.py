"""How a release stands in a plan: a measure, and rows in place of a value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from pg_epsilon.mechanisms.estimators import UNKNOWN, Bar
from pg_epsilon.mechanisms.group_by import Measure
from pg_epsilon.release.measures import Measured


@dataclass(frozen=True)
class Released:
    """The estimator of a release: its rows are shown by `rows`, and there is no single value."""

    measure: Measured

    @property
    def measures(self) -> tuple[Measure, ...]:
        return (self.measure,)

    @property
    def mechanism(self) -> str:
        return self.measure.mechanism

    def present(self, raw: Sequence[int]) -> str | None:
        return None

    def bars(self, raw: Sequence[int], confidence: Decimal) -> Bar:
        return UNKNOWN

    def margin(self, confidence: Decimal) -> None:
        return None

    def expected_error(self) -> None:
        return None
