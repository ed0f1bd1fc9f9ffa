"""Algorithm 2: one run of multiplicative weights over C u L (numeric-release.md §0.0, §3, §5, §6).

    1  n~ = n + Laplace noise                            epsilon_n   (0 if the scale is public)
    2  T rounds: select a candidate, measure it          epsilon_pmw
    3  alpha~ = the largest error + Laplace noise        epsilon_a

Guarantee: (epsilon_n + epsilon_a + epsilon_pmw, delta)-DP for adding or removing one unit, adaptive
composition: rounds see the private masses through `mwem` alone, whose weights are a function of
released integers, and alpha~ is asked of those weights. n moves by one, each candidate by at most k
(`Measure.sensitivity`), hence so does the largest error, a maximum of such distances (§4.1; the
paper's 1 is wrong for bits). Of users with at most kappa rows all of these move by kappa times as
much.

What is released is integers; masses, thresholds, answers and bars are computed from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from pg_epsilon.accounting.charges import Charge
from pg_epsilon.errors import OUT_OF_RANGE, DPError
from pg_epsilon.mechanisms import mwem
from pg_epsilon.mechanisms.mwem import LATTICE, SWEEPS, Array, Measured, Setting, Weights
from pg_epsilon.noise import NoiseSource
from pg_epsilon.release.candidates import MASS_BITS, Family
from pg_epsilon.release.rounds import MOST_ROUNDS, Shares, charge_of, eps0_of, rounds_auto

MOST_CELLS = 1 << 24
MOST_CANDIDATES = 4 * 10**6
MOST_WEIGHTS = 4 * 10**6  # of predicates that are no boxes, which are listed class by class
MOST_LISTED = 1 << 25  # sums of classes by candidates, of weights: each has 8 bytes
MOST_TABLE = 1 << 20  # values of candidates, which are made of fractions one by one


def places_of(max_rows: int, tuples: int = 1) -> int:
    """q: masses are in units of 2^-q, so that all masses of the table fit 62 bits; LATTICE to 40.

    DP005 for a table that may have more than 2^42 rows, times their tuples.
    """
    places = min(40, MASS_BITS - (max(1, max_rows * tuples) - 1).bit_length())
    if places < LATTICE:
        raise DPError(
            OUT_OF_RANGE,
            f"a release has no room for {max_rows} rows",
            "Let the owner declare a smaller max_rows.",
        )
    return places


def checked_size(family: Family) -> None:
    """DP005 for a family whose cells, candidates or weights are too many to work with (§0.0)."""
    limits = (
        (
            family.classes * len(family.measure.cells),
            MOST_CELLS,
            "cells",
            "Use coarser classes, a smaller bound of the value, or decomposition => 'split'.",
        ),
        (
            family.count,
            MOST_CANDIDATES,
            "candidates",
            "Use a coarser grid of parameters, or a smaller bound of the value.",
        ),
        (
            family.predicates.size,
            MOST_WEIGHTS,
            "classes in its queries",
            "Use a coarser grid of parameters, coarser classes, or conditions that are ranges.",
        ),
        (
            len(family.predicates.weights) * len(family.measure.cells) * len(family.columns),
            MOST_TABLE,
            "values of different weights",
            "Use a weight with fewer different values, a coarser value, or mechanism => 'cells'.",
        ),
        (
            family.predicates.sums * len(family.columns),
            MOST_LISTED,
            "sums of classes with different weights",
            "Use a coarser grid of parameters, coarser classes, or mechanism => 'cells'.",
        ),
    )
    for found, most, what, advice in limits:
        if found > most:
            raise DPError(OUT_OF_RANGE, f"the release has {found} {what}, more than {most}", advice)


@dataclass(frozen=True)
class Plan:
    """How a family is released; all public.

    shares: epsilon's parts. delta: >= 0, of the rounds. max_rows: no more rows are in the table.
    rounds: T; None: chosen from the released scale (§0.0). scale: n where it is declared or bought;
    else None, and shares.scale > 0 buys it. kappa: rows that one unit has at most. most: rounds that
    may be chosen.
    """

    shares: Shares
    max_rows: int
    delta: Fraction = Fraction(0)
    rounds: int | None = None
    scale: int | None = None
    kappa: int = 1
    sweeps: int = SWEEPS
    places: int | None = None
    most: int = MOST_ROUNDS

    def price(self, rounds: int) -> Charge:
        """What the rounds cost, of which there are at most so many: exactly, where their number is declared."""
        return charge_of(self.shares.rounds, self.delta, rounds, 1 if self.rounds is None else rounds)


@dataclass(frozen=True)
class Released:
    """All that was released, integers. mass: of all cells, units of 2^-LATTICE. worst: alpha~
    before its margin.
    """

    mass: int
    measured: tuple[Measured, ...]
    worst: int


@dataclass(frozen=True)
class Algorithm2:
    """A family with the plan of its release; the steps can be taken one by one, each with its own
    draws.
    """

    family: Family
    plan: Plan

    @property
    def sensitivity(self) -> int:
        """How far one unit moves any candidate, and the largest error."""
        return self.family.measure.sensitivity * self.plan.kappa

    @property
    def places(self) -> int:
        return self.plan.places or places_of(self.plan.max_rows, self.family.measure.tuples)

    @property
    def most_rounds(self) -> int:
        """T at most, before anything is released."""
        return min(self.plan.rounds or self.plan.most, self.family.count)

    def rows(self, histogram: Array) -> int:
        """n, exactly: private."""
        whole = sum(map(int, histogram))  # in Python: it may not fit 64 bits
        return whole // (self.family.measure.tuples << self.places)

    def draw_mass(self, rows: int, noise: NoiseSource, label: str) -> int:
        """max(1, n~) times the tuples of a row, units of 2^-LATTICE; shares.scale-DP, or public. At
        most max_rows.

        n moves by kappa at most, in units of 2^-LATTICE by 2^LATTICE times that.
        """
        if self.plan.scale is not None:
            found = self.plan.scale << LATTICE
        else:
            found = noise.laplace(
                [rows << LATTICE],
                l1_sensitivity=self.plan.kappa << LATTICE,
                epsilon=self.plan.shares.scale,
                label=f"{label} scale",
            )[0]
        inside = max(1 << LATTICE, min(found, max(1, self.plan.max_rows) << LATTICE))
        return inside * self.family.measure.tuples

    def rounds(self, mass: int) -> int:
        """T, from released numbers alone."""
        if self.plan.rounds is not None:
            return min(self.plan.rounds, self.family.count)
        budget, delta = self.plan.shares.rounds, self.plan.delta
        size = mass / (1 << LATTICE)
        return rounds_auto(budget, delta, size, self.family.cells, self.family.count, self.plan.most)

    def setting(self, rounds: int) -> Setting:
        eps0 = eps0_of(self.plan.shares.rounds, self.plan.delta, rounds)
        return Setting(eps0, self.sensitivity, self.places, self.plan.sweeps)

    def weights(self, mass: int, measured: tuple[Measured, ...] = ()) -> Weights:
        """The weights that follow from these rounds."""
        return mwem.replay(self.family, self.family.prior, mass, measured, self.plan.sweeps)

    def draw_worst(self, truth: Array, weights: Weights, noise: NoiseSource, label: str) -> int:
        """The largest error of the weights + discrete Laplace noise, units of 2^-LATTICE;
        shares.alpha-DP.
        """
        return noise.laplace(
            [mwem.worst(truth, weights, self.places)],
            l1_sensitivity=self.sensitivity << LATTICE,
            epsilon=self.plan.shares.alpha,
            label=f"{label} error",
        )[0]

    def truth(self, histogram: Array) -> Array:
        """All candidates on the private masses; what rounds and alpha~ are drawn from."""
        return mwem.answers(self.family, histogram, self.places)

    def draw_rounds(
        self, histogram: Array, truth: Array, noise: NoiseSource, label: str
    ) -> tuple[int, tuple[Measured, ...], Weights]:
        """The mass, the rounds and their weights, without alpha~: shares.scale + shares.rounds."""
        mass = self.draw_mass(self.rows(histogram), noise, label)
        rounds = self.rounds(mass)
        weights = self.weights(mass)
        done = mwem.run(weights, truth, rounds, self.setting(rounds), noise, label)
        return mass, tuple(done), weights

    def release(self, histogram: Array, noise: NoiseSource, label: str) -> Released:
        """All steps. histogram: private masses, int64 in units of 2^-places, every row's whole
        mass.
        """
        truth = self.truth(histogram)
        mass, measured, weights = self.draw_rounds(histogram, truth, noise, label)
        return Released(mass, measured, self.draw_worst(truth, weights, noise, label))

    def masses(self, released: Released) -> Array:
        """D~: the released data, int64 in units of 2^-places; the same integers give the same data."""
        return self.weights(released.mass, released.measured).masses(self.places)
