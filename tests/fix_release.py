"""How a row's mass is split, by exact fractions: what the SQL of release/masses.py computes."""

from __future__ import annotations

from fractions import Fraction

from pg_epsilon.release.ladder import Ladder
from pg_epsilon.release.masses import Values


def share(g: Fraction, own: Ladder) -> tuple[int | None, Fraction]:
    """The number of the least step >= g, and which part of the mass is there; the rest is at the step below, or 0."""
    place = own.place(g)
    if place is None:
        return None, Fraction(0)
    step = own.steps[place]
    return place, g / step if place == 0 else (g - step / 2) / (step / 2)


def upper(values: Values, v: int) -> tuple[int, int]:
    """Part and upper mass of a row whose value is v lattice steps."""
    own = values.positive if v > 0 else values.negative
    if v == 0 or own is None:
        return values.zero, 0
    place, above = share(abs(v) * values.step, own)
    assert place is not None
    return values.zero + (1 if v > 0 else -1) * (place + 1), int(above * values.whole)
