"""Every query of a family by itself: composition, on split masses (numeric-release.md §10.2).

Each of |Q| different sets of classes has a share 1/|Q| of epsilon: half of it chooses the step tau of
the ladder that values are cut at, half buys the sum of what is left of them. Cut at a step, split
masses add up to the same sum as the rows do, because cutting is linear between two steps: only
steps are candidates, and so the few of them cost nothing by their number. A family of counts has
nothing to cut: its shares are whole.

With weights a row counts in its class by a number from 0 to 1: what is cut is the value, and its
mass then counts by the weight.

Guarantee: epsilon-DP for adding or removing one unit with all it owns, kappa rows at most; with
delta (epsilon, delta)-DP, where a share by advanced composition is larger than 1/|Q| (§2). A row
is one unit of mass, so that it moves the rows above a step by 1 and a cut sum by tau. It has one
sign: values above 0 and those below have a threshold and a sum each, and a unit moves both scores,
or both sums in units of their thresholds, together by no more than all its rows would move one's.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise, product
from typing import Any

import numpy as np
import numpy.typing as npt

from pg_epsilon.accounting.charges import Charge
from pg_epsilon.errors import OUT_OF_RANGE, DPError
from pg_epsilon.mechanisms.mwem import LATTICE
from pg_epsilon.noise import NoiseSource
from pg_epsilon.release import ask
from pg_epsilon.release.answers import Answer, Noise
from pg_epsilon.release.iterated import weights_of
from pg_epsilon.release.masses import Values
from pg_epsilon.release.rounds import charge_of, eps0_of, helps
from pg_epsilon.release.statement import parse

BETA = Fraction(1, 20)
"""A step is aimed at above which so many rows lie that one too high is chosen with this chance."""
MOST_SETS = 1_000
MOST_MASS = 2**62
_HALF = 31  # bits: masses are added up in two parts, so that no sum leaves 63 bits
_THIRD = 21  # bits: in three where they have weights, of 2^22 classes at most
Counts = npt.NDArray[np.int64]
Cube = Iterable[tuple[int, int, int, int]]


@dataclass(frozen=True)
class Draw:
    """How one query is drawn, and read.

    values: how a row's mass is split; None: rows are counted. share: the epsilon of one draw: a
    threshold's, a sum's; of counts a number's. kappa: rows of one unit; rows: of the whole table,
    as declared. weighted: whether classes have weights, rounded down to 2^-LATTICE.
    """

    values: Values | None
    share: Fraction
    kappa: int
    rows: int
    weighted: bool = False

    @property
    def positive(self) -> tuple[Fraction, ...]:
        """The steps of the values above 0."""
        return self.values.positive.steps if self.values and self.values.positive else ()

    @property
    def negative(self) -> tuple[Fraction, ...]:
        """The steps of the values below 0, in absolute value."""
        return self.values.negative.steps if self.values and self.values.negative else ()

    @property
    def sides(self) -> tuple[tuple[Fraction, ...], ...]:
        """Of counts none."""
        return tuple(one for one in (self.positive, self.negative) if one)

    @property
    def numbers(self) -> int:
        """Of each side, the step's number and the sum; of counts one number."""
        return 1 if self.values is None else 2 * len(self.sides)

    @property
    def whole(self) -> int:
        """One row's mass."""
        if self.values is None:
            return 1 << LATTICE if self.weighted else 1
        return self.values.whole

    @property
    def lost(self) -> float:
        """How many rows' worth of mass rounding may leave out of a sum, in units of its threshold."""
        return (self.rows + 1) / self.whole + (self.rows * 2.0**-LATTICE if self.weighted else 0.0)

    @property
    def moved(self) -> int:
        """How far one unit moves a score, or a sum in units of its threshold."""
        return self.kappa * self.whole

    @property
    def candidates(self) -> int:
        """Thresholds that are chosen from: of two signs all pairs."""
        return math.prod(len(one) + 1 for one in self.sides)

    @cached_property
    def few(self) -> int:
        """How many rows are aimed at to lie above a threshold (§10.2, k + 1)."""
        return math.ceil(self.beyond(BETA)) + 1

    def beyond(self, miss: Fraction | float) -> float:
        """How far, in rows, the chosen scores are from the best ones, but with chance `miss`."""
        return 2 * self.kappa / float(self.share) * math.log(self.candidates / float(miss))

    @property
    def deviation(self) -> float:
        """The noise of a sum where nothing is cut; of counts, of a number."""
        largest = max((float(one[-1]) for one in self.sides), default=1.0)
        both = math.sqrt(max(1, len(self.sides)))
        return both * math.sqrt(2) * largest * self.kappa / float(self.share)


@dataclass(frozen=True)
class Singly:
    """The measure of a release by composition.

    sizes: classes of each axis. sets: the different queries, none of them empty, each by a mask
    ("0110") of its classes on each axis. epsilon: for all of them together. weights: of each query,
    of the classes that it reads, ascending, in units of 2^-LATTICE; None: all are 1.
    """

    sizes: tuple[int, ...]
    sets: tuple[tuple[str, ...], ...]
    epsilon: Fraction
    draw: Draw
    delta: Fraction = Fraction(0)
    weights: tuple[Counts, ...] | None = None

    mechanism = "composition (a threshold and a sum for each query)"
    width = 1  # one text: the cube

    @property
    def released(self) -> int:
        return len(self.sets) * self.draw.numbers

    def charges(self) -> tuple[Charge, ...]:
        many = len(self.sets)
        if self.draw.values is None and not helps(self.epsilon, self.delta, many):
            return (Charge.of("parts", epsilon=self.epsilon, parts=many),)
        return (charge_of(self.epsilon, self.delta, many, many),)

    def release(self, exact: Sequence[Sequence[Any]], noise: NoiseSource, label: str) -> list[list[int]]:
        """[[step, sum, ...]]; exact: the statement's text."""
        ((text,),) = exact
        return [drawn(added_up(parse(text or None), self), self.draw, noise, label)]


def of_family(asked: ask.Family, values: Values | None, epsilon: Fraction, units: int, rows: int) -> Singly:
    """The measure of a family. units: rows that one unit has at most; rows: of the whole table.

    DP005 where no query reads a class or no value is but 0, and for too many queries.
    """
    numbers = sets_of(asked, values)
    sets = tuple(asked.sets.different[number] for number in numbers)
    if len(sets) > MOST_SETS:
        raise DPError(
            OUT_OF_RANGE,
            f"{len(sets)} queries by themselves are more than {MOST_SETS}",
            "Use mechanism => 'cells', whose noise does not grow with the grid.",
        )
    share = eps0_of(epsilon, asked.delta, len(sets)) / (1 if values is None else 2)
    weights = None if asked.sets.weights is None else tuple(_rounded(weights_of(asked.sets, one)) for one in numbers)
    draw = Draw(values, share, units, rows, weights is not None)
    return Singly(tuple(axis.size for axis in asked.axes), sets, epsilon, draw, asked.delta, weights)


def _rounded(weights: npt.NDArray[np.float64]) -> Counts:
    """Down to units of 2^-LATTICE."""
    return np.floor(weights * 2.0**LATTICE).astype(np.int64)


def sets_of(asked: ask.Family, values: Values | None) -> tuple[int, ...]:
    """The different queries in which rows count. DP005 where there is none, or no value but 0."""
    if values is not None and not (values.positive or values.negative):
        raise DPError(OUT_OF_RANGE, "all values are 0 by their bounds", "Their sum is 0: there is nothing to ask.")
    found = tuple(number for number in range(len(asked.sets.different)) if not asked.sets.is_empty(number))
    if not found:
        words = "reads a declared value" + (" with a weight above 0" if asked.sets.weights is not None else "")
        raise DPError(OUT_OF_RANGE, f"no query of the grid {words}", "Give another grid.")
    return found


def added_up(cube: Cube, how: Singly) -> list[list[list[int]]]:
    """Of each set, of each side, the mass at each step; of counts, [[rows]]. Private, and exact.

    Cut at MOST_MASS, which moves neighbours no further apart.
    """
    draw, classes = how.draw, math.prod(how.sizes)
    lengths = [1] if draw.values is None else [len(one) for one in draw.sides]
    exact: dict[tuple[int, int], int] = {}
    for place, part, rows, upper in cube:
        for column, mass in _masses(draw, part, rows, upper):
            exact[place, column] = exact.get((place, column), 0) + mass
    cells = np.zeros((classes, sum(lengths)), np.int64)
    for at, mass in exact.items():
        cells[at] = min(mass, MOST_MASS)
    cells = cells.reshape(*how.sizes, -1)
    ends, found = list(accumulate(lengths, initial=0)), []
    for number, masks in enumerate(how.sets):
        own = cells[np.ix_(*map(_classes, masks))].reshape(-1, cells.shape[-1])
        if how.weights is None:
            high, low = (own >> _HALF).sum(axis=0), (own & ((1 << _HALF) - 1)).sum(axis=0)
            sums = [min((int(a) << _HALF) + int(b), MOST_MASS) for a, b in zip(high, low, strict=True)]
        else:
            sums = weighed(own, how.weights[number], 0 if draw.values is None else LATTICE)
        found.append([sums[start:end] for start, end in pairwise(ends)])
    return found


def weighed(own: Counts, weights: Counts, down: int) -> list[int]:
    """Of each column the masses of all classes times their weights, in units of 2^-down; cut at MOST_MASS.

    own: [class, column], each 0 to MOST_MASS; weights: 0 to 2^LATTICE. Rounded once, after they are
    added up: what adds m to a class moves a column by at most m 2^LATTICE before, hence, where down
    is LATTICE, by at most m after.
    """
    found = [0] * own.shape[1]
    for part in range(0, MOST_MASS.bit_length(), _THIRD):
        limbs = (own >> part) & ((1 << _THIRD) - 1)
        for column, whole in enumerate((weights @ limbs).tolist()):
            found[column] += whole << part
    return [min(one >> down, MOST_MASS) for one in found]


def _classes(mask: str) -> Counts:
    return np.flatnonzero(np.frombuffer(mask.encode(), np.uint8) == ord("1"))


def _masses(draw: Draw, part: int, rows: int, upper: int) -> Iterable[tuple[int, int]]:
    """(column, mass): the steps above 0 ascending, then those below, from 0 on."""
    values = draw.values
    if values is None:
        yield 0, rows
        return
    for cell, mass in values.masses(part, rows, upper):
        if values.zero < cell < len(values.steps):
            yield cell - values.zero - 1, mass
        elif cell < values.zero:
            yield len(draw.positive) + values.zero - cell - 1, mass


def drawn(masses: Sequence[Sequence[Sequence[int]]], draw: Draw, noise: NoiseSource, label: str) -> list[int]:
    """What is released, from exact masses. Private."""
    found: list[int] = []
    for number, sides in enumerate(masses, 1):
        name = f"{label} query {number}"
        if draw.values is None:
            found += noise.laplace(list(sides[0]), l1_sensitivity=draw.moved, epsilon=draw.share, label=name)
            continue
        ends = [scores(own, draw.few * draw.whole) for own in sides]
        pairs = list(product(*(range(len(own)) for own in ends)))
        both = [sum(own[place] for own, place in zip(ends, pair, strict=True)) for pair in pairs]
        word = f"{name} threshold"
        places = pairs[noise.select(both, sensitivity=draw.moved, epsilon=draw.share, label=word)]
        exact = [cut(own, place) for own, place in zip(sides, places, strict=True) if place]
        word = f"{name} sum"
        sums = iter(noise.laplace(exact, l1_sensitivity=draw.moved, epsilon=draw.share, label=word))
        for place in places:
            found += [place, next(sums) if place else 0]
    return found


def scores(masses: Sequence[int], few: int) -> list[int]:
    """Of 0 and each step: minus the distance of `few` from [mass above it, mass not below it].

    A row more moves both ends by its mass at most, hence no score by more. Nothing is said against
    0 for having little mass above it, so that one of all always has the score 0.
    """
    above = [0]
    for mass in reversed(masses):
        above.append(above[-1] + mass)
    above.reverse()  # above 0, above the first step, ..., above the last one
    least = [few, *above[:-1]]
    return [-max(more - few, few - own, 0) for more, own in zip(above, least, strict=True)]


def cut(masses: Sequence[int], place: int) -> int:
    """The sum of values cut at the step `place` >= 1, in units of that step times one mass.

    Rounded down, so that it is whole: a row of mass m moves it by m at most.
    """
    below = sum(mass << number for number, mass in enumerate(masses[:place]))
    return min((below >> (place - 1)) + sum(masses[place:]), MOST_MASS)


def answers(raw: Sequence[int], draw: Draw, miss: float) -> list[Answer]:
    """Of each set, from what was released. miss: of one set's bar."""
    many = draw.numbers
    if draw.values is None:
        unit = 1.0 / draw.whole
        reach = Noise(draw.kappa / float(draw.share), False, unit).reach(np.ones(1), miss)
        lost = draw.lost if draw.weighted else 0.0
        return [Answer(one, one, one - reach, one + reach + lost, False) for one in (mass * unit for mass in raw)]
    each = [raw[start : start + many] for start in range(0, len(raw), many)]
    return [_together(own, draw, miss) for own in each]


def rows(raw: Sequence[int], how: Singly, asked: ask.Family, miss: Fraction) -> list[list[Any]]:
    """Of each query of the grid: answer, unbiased, low, high, below_resolution.

    Of sums nothing is unbiased. A query without a class has the answer 0. miss: of all bars
    together where they are to hold at once, else of each.
    """
    one = float(miss) / (len(how.sets) if asked.simultaneous else 1)
    counts = how.draw.values is None
    found = [[0.0, 0.0 if counts else None, 0.0, 0.0, False] for _ in asked.sets.different]
    drawn_of = (number for number in range(len(found)) if not asked.sets.is_empty(number))
    for key, own in zip(drawn_of, answers([int(number) for number in raw], how.draw, one), strict=True):
        found[key] = [own.answer, own.answer if counts else None, own.low, own.high, own.below_resolution]
    return [found[number] for number in asked.sets.of]


def description(how: Singly, asked: ask.Family) -> dict[str, Any]:
    """What is stored beside the integers: there is no weighted table of them."""
    return {"mechanism": asked.mechanism}


def told(how: Singly, asked: ask.Family, raw: Sequence[int] | None) -> tuple[dict[str, Any], str]:
    """(Facts, a sentence for the NOTICE), the same before and after the draw."""
    rmse = float(f"{how.draw.deviation:.4g}")
    found = {"classes": math.prod(how.sizes), "sets": len(how.sets), "rmse": rmse}
    words = [f"{asked.name}: {len(asked.grid)} queries, {len(how.sets)} different ones by themselves"]
    if how.draw.values is None:
        words.append(f"expected RMSE {rmse:.4g} each")
    else:
        words.append(f"expected RMSE {rmse:.4g} each where nothing is cut, and less noise below (bias unknown)")
    words.append("all bars hold at once" if asked.simultaneous else "each bar holds by itself")
    words.append("rows of no declared class are in none")
    return found, "; ".join(words)


def _together(own: Sequence[int], draw: Draw, miss: float) -> Answer:
    """One set's answer from those of its sides."""
    signs = [sign for sign, steps in ((1, draw.positive), (-1, draw.negative)) if steps]
    places, sums = own[::2], own[1::2]
    ways = [
        _of_side(place, value, steps, draw, miss / 2, miss / (2 * len(signs)))
        for place, value, steps in zip(places, sums, draw.sides, strict=True)
    ]
    low = sum(one.low if sign > 0 else -one.high for one, sign in zip(ways, signs, strict=True))
    high = sum(one.high if sign > 0 else -one.low for one, sign in zip(ways, signs, strict=True))
    answer = sum(sign * one.answer for one, sign in zip(ways, signs, strict=True))
    return Answer(answer, answer, low, high, all(one.below_resolution for one in ways))


def _of_side(place: int, value: int, steps: Sequence[Fraction], draw: Draw, choice: float, noise: float) -> Answer:
    """One side's, in absolute value. choice, noise: what the two may miss.

    low: what is cut off would only add. high: of the rows above the chosen step there are no more
    than the choice may be off by, each of the top at most; each mass was rounded down.
    """
    tau = float(steps[place - 1]) if place else 0.0
    bias = (draw.few + draw.beyond(choice)) * (float(steps[-1]) - tau)
    if not place:
        return Answer(0.0, 0.0, 0.0, bias, True)
    scale = draw.kappa / float(draw.share)
    reach = tau * Noise(scale, False, 1.0 / draw.whole).reach(np.ones(1), noise)
    sum_, lost = value / draw.whole * tau, draw.lost * tau
    return Answer(sum_, sum_, sum_ - reach, sum_ + reach + bias + lost, False)
