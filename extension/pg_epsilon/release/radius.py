"""A bound of a value that nobody has declared, found privately (numeric-release.md §0.0, §9)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from pg_epsilon.mechanisms.mwem import LATTICE
from pg_epsilon.noise import NoiseSource
from pg_epsilon.release.ladder import Ladder

BETA_RADIUS = Fraction(1, 20)
FACTOR, FACTOR_PAPER = 4, 6


def private_radius(
    counts: Sequence[int],
    steps: Ladder,
    epsilon: Fraction,
    noise: NoiseSource,
    label: str,
    *,
    beta: Fraction = BETA_RADIUS,
    kappa: int = 1,
    factor: int = FACTOR,
) -> Fraction:
    """A step above which few rows have a value, or the last.

    counts: of each step but the last, the rows whose largest value |w| over the family is above it;
    private. steps: up to a public maximum. kappa: rows that one unit has at most. Guarantee:
    epsilon-DP, pure, for adding or removing one unit: AboveThreshold with half of epsilon for the
    threshold and half for the comparisons (`noise.first_above`). A unit more raises every count by
    0 … kappa, so that all of them move one way. The margin is (factor kappa / epsilon) ln(2 /
    beta): where no row is above a step, it stops there but with probability beta / 2; the rows
    above where it stops are O((1 / epsilon) log(steps / beta)). 6 is the paper's factor, with twice
    the noise. DP005 for an epsilon out of range.
    """
    margin = math.ceil(factor * kappa / float(epsilon) * math.log(2 / float(beta)) * (1 << LATTICE))
    found = noise.first_above(
        [margin - (count << LATTICE) for count in counts],
        sensitivity=kappa << LATTICE,
        threshold_epsilon=epsilon / 2,
        query_epsilon=epsilon / 2,
        label=label,
    )
    return steps.top if found is None else steps.steps[found]
