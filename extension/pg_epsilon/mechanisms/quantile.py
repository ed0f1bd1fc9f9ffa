"""The core of quantiles: the exponential mechanism over a declared lattice, from a histogram (dp-pqd.md §6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from pg_epsilon.noise import NoiseSource

Histogram = Sequence[tuple[int, int]]
Score = Literal["ties", "printed"]


@dataclass(frozen=True)
class Runs:
    """Lattice points of one score, in a row: the form in which a domain of any size is scored.

    sizes: how many points each run has, together the (public) size of the lattice; scores: at most 0, best near 0.
    """

    sizes: tuple[int, ...]
    scores: tuple[Fraction, ...]


def score(histogram: Histogram, size: int, fraction: Fraction, form: Score = "ties") -> Runs:
    """The score of every lattice point, at most 0 (dp-pqd.md §6.1).

    ties: u(e) = -max(0, #{rows below e} - p n, p n - #{rows up to e}): 0 exactly at the quantiles. printed: u(e) =
    -|#{rows below e} - p n|, as in the paper; where many rows share a value it is far off (all rows alike: uniform).
    histogram: (point, rows) of the points that have rows, points in [0, size). A row more moves every score by at most
    max(p, 1 - p): n grows by one, so p n by p, and one of the two counts by 0 or 1.
    """
    rows: dict[int, int] = {}
    for point, count in histogram:  # never an error: a point beyond the lattice is its end (rule R5)
        inside = min(max(point, 0), size - 1)
        rows[inside] = rows.get(inside, 0) + max(count, 0)
    total = sum(rows.values())
    target = fraction * total
    sizes: list[int] = []
    scores: list[Fraction] = []
    below, free = 0, 0
    for point, count in sorted(rows.items()):
        if point > free:
            sizes.append(point - free)
            scores.append(-abs(below - target))
        sizes.append(1)
        scores.append(-_off(below, count if form == "ties" else 0, target))
        below, free = below + count, point + 1
    if free < size:
        sizes.append(size - free)
        scores.append(-abs(below - target))
    return Runs(tuple(sizes), tuple(scores))


def _off(below: int, count: int, target: Fraction) -> Fraction:
    """How far the target rank is from the ranks below … below + count."""
    return max(Fraction(0), below - target, target - below - count)


def sensitivity(fraction: Fraction, rows: int, tight: bool = True) -> Fraction:
    """How far one unit of at most `rows` rows moves any score: rows * max(p, 1 - p); rows, if that is not used."""
    return rows * (max(fraction, 1 - fraction) if tight else Fraction(1))


def core(
    histogram: Histogram,
    size: int,
    fraction: Fraction,
    rows: int,
    epsilon: Fraction,
    noise: NoiseSource,
    label: str,
    form: Score = "ties",
    tight: bool = True,
) -> int:
    """A lattice point near the quantile: e with probability proportional to exp(epsilon u(e) / 2 sensitivity).

    histogram: (point, rows) on the public lattice 0 … size - 1, at most `rows` rows of any one unit; fraction: p in
    [0, 1], the answer aimed at is the ceil(p n)-th smallest value. Guarantee: epsilon-DP for adding or removing one
    unit with all it owns, and epsilon-bounded-range (composition.md §4, row 3). With probability >= 1 - delta the rank
    of the answer is within 2 sensitivity ln(size / delta) / epsilon of p n. No rows: uniform over the lattice.
    tight = False, form = "printed": the paper's EM_med, exp(epsilon u(e) / 2) for p = 1/2, half the loss it may have.
    """
    runs = score(histogram, size, fraction, form)
    return noise.select_in_runs(
        runs.sizes, runs.scores, sensitivity=sensitivity(fraction, rows, tight), epsilon=epsilon, label=label
    )
