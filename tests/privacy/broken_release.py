"""Releases that break one rule each, for test_replay_release.py; runs inside the server as broken_mechanisms.py."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from pg_epsilon.accounting.charges import Charge
from pg_epsilon.mechanisms import mwem
from pg_epsilon.mechanisms.mwem import LATTICE
from pg_epsilon.release import (
    algorithm2,
    candidates,
    cells,
    choice,
    decompose,
    fitted,
    iterated,
    kronecker,
    masses,
    ranges,
    singly,
    stepped,
)

Replace = Callable[[Any, str, Any], None]
parts: Any = choice


def whole_at_both_steps(replace: Replace) -> None:
    """A row counts whole at the upper step, and its rest at the lower: its masses add up to more than one row."""

    def sound(how: Any, part: int, rows: int, upper: int) -> Any:
        if part in (masses.NULL, masses.NAN, how.zero):
            return split(how, part, rows, upper)
        (above, _), below = split(how, part, rows, upper)
        return ((above, rows * how.whole), below)

    split = masses.Values.masses
    replace(masses.Values, "masses", sound)


def one_row_a_user(replace: Replace) -> None:
    """Users own several rows, and the noise is scaled for one (composition.md §2.2)."""
    replace(parts, "_units", lambda request: 1)


def every_row_counts(replace: Replace) -> None:
    """The cap on a user's rows is declared and not enforced (composition.md §2.3)."""
    sound = parts.statement
    replace(parts, "statement", lambda *facts: re.sub(r" WHERE n <= \d+", "", sound(*facts)))


def cells_with_rows_alone(replace: Replace) -> None:
    """Only the cells that have a row get noise: which they are is told (numeric-release.md §13, 7)."""

    def core(exact: Any, how: Any, noise: Any, label: str) -> list[int]:
        places = [place for place, value in enumerate(exact) if value]
        drawn = sound([exact[place] for place in places], how, noise, label)
        found = [0] * len(exact)
        for place, value in zip(places, drawn, strict=True):
            found[place] = value
        return found

    sound = cells.core
    replace(cells, "core", core)


def a_row_beyond_counts_twice(replace: Replace) -> None:
    """A value beyond its class's end counts at the last step and at the one that it would have, added up there."""

    def within(how: Any, part: int, rows: int, upper: int, below: int, above: int) -> Any:
        beyond = part >= 0 and not -below <= part - how.zero <= above
        return tuple((cell, (1 + beyond) * mass) for cell, mass in sound(how, part, rows, upper, below, above))

    sound = masses.Values.within
    replace(masses.Values, "within", within)


def points_beside_each_other(replace: Replace) -> None:
    """A row counts whole in its value's cell and in the next one: it has two units of mass (masses.py, Points)."""

    def both(how: Any, part: int, rows: int, upper: int) -> Any:
        ((cell, mass),) = sound(how, part, rows, upper)
        return ((cell, mass), (max(cell - 1, 0), mass))

    sound = masses.Points.masses
    replace(masses.Points, "masses", both)


def one_bit_a_row(replace: Replace) -> None:
    """A row under bits moves a count by as many bits as are set, and noise is scaled for one (§13, Theorem 4.3)."""
    replace(decompose.Measure, "sensitivity", property(lambda measure: 1))


def exact_scale(replace: Replace) -> None:
    """The number of rows is not public, and is used as if it were (numeric-release.md §1)."""

    def draw_mass(algorithm: Any, rows: int, noise: Any, label: str) -> int:
        return max(1, rows) << LATTICE

    replace(algorithm2.Algorithm2, "draw_mass", draw_mass)


def exact_error(replace: Replace) -> None:
    """The largest error is told without noise (numeric-release.md §4.1)."""

    def draw_worst(algorithm: Any, truth: Any, weights: Any, noise: Any, label: str) -> int:
        return mwem.worst(truth, weights, algorithm.places)

    replace(algorithm2.Algorithm2, "draw_worst", draw_worst)


def rows_twice_in_the_rounds(replace: Replace) -> None:
    """Every row has two units of mass, and rounds are calibrated for one (numeric-release.md §13, 2)."""
    sound = iterated.histogram
    replace(iterated, "histogram", lambda cube, how: 2 * sound(cube, how))


def epsilon_for_each_query(replace: Replace) -> None:
    """Every query has all of epsilon, which is charged once (numeric-release.md §10.2)."""

    def of_family(*given: Any) -> Any:
        how = sound(*given)
        return dataclasses.replace(how, draw=dataclasses.replace(how.draw, share=how.epsilon))

    sound = singly.of_family
    replace(singly, "of_family", of_family)


def sums_that_are_not_cut(replace: Replace) -> None:
    """The noise is scaled for values cut at the threshold, and the sum is of whole values."""

    def cut(own: Sequence[int], place: int) -> int:
        return sum(mass << number for number, mass in enumerate(own)) >> (place - 1)

    replace(singly, "cut", cut)


def a_row_without_its_mass(replace: Replace) -> None:
    """Scores and sums are in units of a mass, of which a row has 2^bits, and the noise is scaled for one."""
    replace(singly.Draw, "moved", property(lambda draw: draw.kappa))


def values_that_are_not_divided(replace: Replace) -> None:
    """A query's values are not divided by their bound, and the noise is scaled for values up to 1 (§10.1)."""
    _valued(replace, lambda w, tau: w)


def values_beyond_the_bound(replace: Replace) -> None:
    """Values are divided by the bound that was bought, and not cut at it (§10.3)."""
    _valued(replace, lambda w, tau: w / tau)


def weights_beyond_one(replace: Replace) -> None:
    """A row counts by three times its weight, and the noise is scaled for weights up to 1 (numeric-release.md §6)."""
    weights_of = singly.weights_of
    replace(singly, "weights_of", lambda sets, number: 3 * weights_of(sets, number))


def _valued(replace: Replace, of: Callable[[Fraction, Fraction], Fraction]) -> None:
    def value(family: Any, f: Fraction, y: Fraction, column: Any) -> int:
        return math.floor(of(max(f * (-y if column.side else y), Fraction(0)), column.tau) * (1 << LATTICE))

    replace(candidates.Family, "_value", value)


def exact_bound(replace: Replace) -> None:
    """Values are cut at the largest that there is, which is told (numeric-release.md §9)."""

    def private_radius(counts: Sequence[int], steps: Any, *given: Any, **how: Any) -> Fraction:
        return next((step for step, count in zip(steps.steps, counts, strict=False) if not count), steps.top)

    replace(fitted, "private_radius", private_radius)


def a_bound_for_nothing(replace: Replace) -> None:
    """A bound of all values is drawn, and only scale and rounds are charged (§10.3)."""
    sound = fitted.Fitted.charges
    replace(fitted.Fitted, "charges", lambda how: (sound(how)[0], sound(how)[-1]))


def one_level_of_noise(replace: Replace) -> None:
    """A row is in a node of every level, and the noise is scaled for one level (numeric-release.md §8.1)."""
    replace(parts, "levels_of", lambda trees: 1)


def one_unit_of_a_matrix(replace: Replace) -> None:
    """A row moves all sums of a matrix that have its class, and the noise is scaled for one of them (§8.1)."""
    replace(parts, "norms_of", lambda family: (1, 1))


def rows_of_a_matrix_twice(replace: Replace) -> None:
    """Each sum has twice what its row of the matrix says, and the noise is scaled for the row."""

    def along(table: Any, place: int, entries: Any) -> Any:
        return 2 * sound(table, place, entries)

    sound = kronecker._along
    replace(kronecker, "_along", along)


def nodes_that_overlap(replace: Replace) -> None:
    """A row is in two nodes of each level, its own and the one before it."""

    def along(table: Any, place: int, tree: Any) -> Any:
        found = sound(table, place, tree)
        found[:-1] += found[1:].copy()
        return found

    sound = ranges._along
    replace(ranges, "_along", along)


def a_round_too_much_comes_back(replace: Replace) -> None:
    """A release that was stopped gives back the price of a round that was drawn (numeric-release.md §0.0)."""
    sound = stepped.Stepped.left_over
    replace(stepped.Stepped, "left_over", lambda how, raw: sound(how, [raw[0], raw[1] + 1, *raw[2:]]))


def delta_for_nothing(replace: Replace) -> None:
    """Rounds and queries cost as much each as delta would allow, and delta is not charged (numeric-release.md §2)."""
    for module in (algorithm2, singly):
        replace(module, "charge_of", lambda epsilon, delta, *rounds: Charge.of("pure", epsilon=epsilon))


def more_rounds_than_there_are(replace: Replace) -> None:
    """A release is charged as many rounds of little each, and has few of much (composition.md §4)."""
    for module in (algorithm2, singly):
        replace(module, "charge_of", lambda epsilon, *rounds: Charge.of("rounds", epsilon=epsilon, rounds=1000))


def ten_times_the_delta(replace: Replace) -> None:
    """Rounds cost as much each as a larger delta than the charged one would allow."""
    sound = algorithm2.eps0_of
    replace(algorithm2, "eps0_of", lambda epsilon, delta, rounds: sound(epsilon, 10 * delta, rounds))


CONTROLS = {
    one.__name__: one
    for one in (
        whole_at_both_steps,
        one_row_a_user,
        every_row_counts,
        cells_with_rows_alone,
        a_row_beyond_counts_twice,
        points_beside_each_other,
        one_bit_a_row,
        exact_scale,
        exact_error,
        rows_twice_in_the_rounds,
        a_round_too_much_comes_back,
        delta_for_nothing,
        more_rounds_than_there_are,
        ten_times_the_delta,
        epsilon_for_each_query,
        sums_that_are_not_cut,
        a_row_without_its_mass,
        values_that_are_not_divided,
        values_beyond_the_bound,
        exact_bound,
        a_bound_for_nothing,
        one_level_of_noise,
        nodes_that_overlap,
        weights_beyond_one,
        one_unit_of_a_matrix,
        rows_of_a_matrix_twice,
    )
}
