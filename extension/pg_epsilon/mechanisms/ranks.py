"""A quantile of every group: one selection a group over the same public lattice (mechanisms/quantile.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from pg_epsilon.accounting.charges import Charge
from pg_epsilon.mechanisms import quantile
from pg_epsilon.noise import NoiseSource


@dataclass(frozen=True)
class Ranks:
    """The quantile `fraction` over a lattice of `size` points; one unit has at most `rows` rows, in all groups.

    epsilon: the share of the budget. Groups are parallel: rows of one unit add up to `rows` over all groups, and the
    log-odds of a group move by epsilon * (its rows of the unit) / rows at most, so the groups' losses add up to
    epsilon (and their Rényi curves to that of one selection at epsilon, being quadratic in the parts).
    score, tight: which score, and whether its true sensitivity is used (`quantile.score`, `quantile.sensitivity`).
    """

    size: int
    fraction: Fraction
    rows: int
    epsilon: Decimal
    score: quantile.Score = "ties"
    tight: bool = True

    @property
    def width(self) -> int:
        """One column: a cell's histogram, a list of (point, rows)."""
        return 1

    @property
    def released(self) -> int:
        """Released integers of one cell."""
        return 1

    def charges(self) -> tuple[Charge, ...]:
        """One selection (composition.md §4, exponential mechanism)."""
        return (Charge.of("exponential", epsilon=self.epsilon),)

    def release(self, exact: Sequence[Sequence[Any]], noise: NoiseSource, label: str) -> list[tuple[int, ...]]:
        """The chosen point of every cell."""
        return [
            (
                quantile.core(
                    cell[0] or [],
                    self.size,
                    self.fraction,
                    self.rows,
                    Fraction(self.epsilon),
                    noise,
                    f"{label} by group",
                    self.score,
                    self.tight,
                ),
            )
            for cell in exact
        ]
