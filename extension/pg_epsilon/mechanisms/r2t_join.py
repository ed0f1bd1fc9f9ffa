"""R2T where a result row belongs to several units: self-joins, paths and triangles of a graph, co-visits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

from pg_epsilon.accounting.charges import Charge
from pg_epsilon.accounting.margins import laplace_scale
from pg_epsilon.mechanisms.grain import GRAIN
from pg_epsilon.noise import Level, NoiseSource

_WORK = Context(prec=50)


def sensitivity(t: int) -> int:
    """How far one unit can move `Truncation.value(t)`, in 1/GRAIN: GRAIN t, as |Q - Q'| <= t on neighbours.

    Proof. The value is t floor(GRAIN Q / t + theta), a function of D and t alone. GRAIN Q / t moves by at most GRAIN,
    an integer, and so does its floor. Rounding to multiples of the sensitivity costs no sensitivity.
    """
    return GRAIN * t


@dataclass(frozen=True)
class JoinLadder:
    """The truncations of one sum or distinct count, and its share of the budget.

    levels: thresholds, ascending, the last one the declared global sensitivity; units of the values. owners: units of a
    result row. distinct: rows of one label count once. beta: the probability that the answer overshoots.
    """

    levels: tuple[int, ...]
    owners: int
    distinct: bool
    epsilon: Decimal
    beta: Decimal

    width = 1  # one column: the merged rows, as one binary value
    released = 1

    def release(self, exact: Sequence[Sequence[Any]], noise: NoiseSource, label: str) -> list[tuple[int, ...]]:
        """`core` on the block's one cell."""
        return [(core(cell[0] or None, self, noise, label),) for cell in exact]

    def charges(self) -> tuple[Charge, ...]:
        """epsilon, as L releases at epsilon / L (composition.md §4, R2T)."""
        return (Charge.of("r2t", epsilon=self.epsilon, levels=len(self.levels)),)

    def ladder(self) -> list[Level]:
        """The levels as they are run, largest threshold first: its solution is where the next one starts."""
        share = Fraction(self.epsilon) / len(self.levels)
        ratio = len(self.levels) / Fraction(self.beta)
        log = Fraction(_WORK.ln(_WORK.divide(Decimal(ratio.numerator), Decimal(ratio.denominator))))
        moves = [sensitivity(t) for t in reversed(self.levels)]
        # a quarter of t more: `rounded` may be above GRAIN Q by that much
        return [
            Level(move, math.ceil(Fraction(laplace_scale(move, share)) * log + Fraction(move, 4 * GRAIN)))
            for move in moves
        ]

    def expected_error(self, t: int) -> float:
        """Penalty and noise if the largest contribution is just t, in units of the values."""
        levels = len(self.levels)
        return t * levels / float(self.epsilon) * (1 + math.log(levels / float(self.beta)))


def core(rows: bytes | None, ladder: JoinLadder, noise: NoiseSource, label: str) -> int:
    """max(0, max_t(Q(D, t) + Lap(L t / epsilon) - (L t / epsilon) ln(L / beta))), in 1/GRAIN of a value's unit.

    rows: what `query.owners.owners_statement` sends; None for no rows. Q is the linear program of
    mechanisms/truncation_lp.py, rounded to multiples of t/GRAIN. Guarantee: epsilon-DP for adding or removing one
    unit with every result row that it has a part in. With probability 1 - beta/2 the answer is not above the true
    value. Errors: none but a cancel, whatever the rows and the machine are.
    """
    import numpy as np  # not on the way of a count

    from pg_epsilon.mechanisms.lp_bounds import merged
    from pg_epsilon.mechanisms.lp_solver import shared
    from pg_epsilon.mechanisms.truncation_lp import Truncation

    solver = shared()
    if rows:
        solver.start()
    table = np.frombuffer(rows or b"", ">i8").astype(np.int64).reshape(-1, ladder.owners + 1)
    owners, last = table[:, :-1], table[:, -1]
    problem = Truncation(
        merged(owners, np.ones(len(last), np.int64), last) if ladder.distinct else merged(owners, last), solver
    )
    thresholds: Sequence[int] = ladder.levels[::-1]

    def exact(level: int, need: int | None) -> int | None:
        return problem.value(thresholds[level], need)

    try:
        return noise.highest(ladder.ladder(), exact, epsilon=Fraction(ladder.epsilon), label=label)
    finally:
        solver.forget()
