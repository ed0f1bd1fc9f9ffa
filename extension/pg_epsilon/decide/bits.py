"""Direct decisions on a count: one released bit, whose odds depend on how far the count is off (dp-pqd.md §4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Literal

from pg_epsilon.accounting.charges import Charge
from pg_epsilon.noise import NoiseSource

Form = Literal["em", "naive", "unclamped", "randomised"]


@dataclass(frozen=True)
class Bit:
    """1 ("bound satisfied": the count is strictly within tau of the target) or 0, more or less likely the truth.

    target: the synthetic count; tau > 0; rows: the most rows of one unit (kappa); epsilon: the budget. All public.
    With x = |count - target| and e = epsilon, logit Pr[1] =

        em          e max(tau - x, -tau) / kappa   EM_count [P]
        unclamped   e (tau - x) / kappa            [EXT]
        naive       ± e / 2                        EM_count_naive [P], + where x < tau
        randomised  ± e                            [EXT]

    Guarantee: epsilon-DP for adding or removing one unit. em, unclamped: a unit moves the count by at most kappa, and
    the logit is (e / kappa)-Lipschitz in the count, so it moves by at most e; hence so do ln Pr[1] and ln Pr[0]. naive:
    the logit is one of two values, e apart. These are exponential mechanisms (bounded range e). randomised: the logit
    may move by 2e, but Pr[1] and Pr[0] only by e^e: pure DP and nothing better. Each is drawn exactly, in log space:
    no weight over- or underflows, however large e tau is (dp-pqd.md §2.5). Source: dp-pqd.md §4.2, §4.3.
    """

    target: Fraction
    tau: Fraction
    rows: int
    epsilon: Decimal
    form: Form = "em"

    @property
    def width(self) -> int:
        """One exact integer a cell: the count."""
        return 1

    @property
    def released(self) -> int:
        """One integer a cell: the bit."""
        return 1

    def charges(self) -> tuple[Charge, ...]:
        """One selection; randomised response is discrete Laplace noise on the true bit (composition.md §4)."""
        return (Charge.of("laplace" if self.form == "randomised" else "exponential", epsilon=self.epsilon),)

    def release(self, exact: Sequence[Sequence[int]], noise: NoiseSource, label: str) -> list[tuple[int, ...]]:
        """The bit of every cell (one cell; groups of row units are disjoint and so parallel)."""
        return [(core(cell[0], self, noise, f"{label} decision"),) for cell in exact]


def core(count: int, how: Bit, noise: NoiseSource, label: str) -> int:
    """The bit for an exact count; guarantee and law as `Bit`.

    A selection from scores (-s, s) with sensitivity d has logit e s / d. Randomised response is [bit + DLap(1/e) >= 1],
    exactly: with p = e^-e, Pr[DLap >= 0] = 1 / (1 + p) = e^e / (1 + e^e).
    """
    off = abs(count - how.target)
    if how.form == "randomised":
        return int(noise.laplace([int(off < how.tau)], l1_sensitivity=1, epsilon=how.epsilon, label=label)[0] >= 1)
    if how.form == "naive":
        score, moved = Fraction(1 if off < how.tau else -1, 2), Fraction(1)
    else:
        inside = how.tau - off
        score = (inside if how.form == "unclamped" else max(inside, -how.tau)) / 2
        moved = Fraction(how.rows, 2)
    return noise.select([-score, score], sensitivity=moved, epsilon=how.epsilon, label=label)
