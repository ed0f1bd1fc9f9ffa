"""Running sums over the groups of a key: one strategy for the sums of groups of which prefixes are shown (§7, §8).

A statement that shows `sum(sum(x)) OVER (ORDER BY width_bucket(x, ...))` is a workload of prefixes over its groups. The
groups' sums are read as for any grouped sum; what differs is the noise, which grows with the square root of the number
of groups where every group has its own, and hardly where a strategy is drawn. Released are estimates of the groups'
sums, consistent with each other: whoever adds them up, adds up to the estimated prefixes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from statistics import NormalDist

import numpy as np

from pg_epsilon.accounting.charges import Charge
from pg_epsilon.choice_parts import Choice, check_bound
from pg_epsilon.errors import DPError
from pg_epsilon.mechanisms.additive import Additive
from pg_epsilon.mechanisms.estimators import Bar, Number
from pg_epsilon.mechanisms.group_by import Measure
from pg_epsilon.mechanisms.matrix import bars, strategies
from pg_epsilon.mechanisms.matrix.greedyh import greedyh
from pg_epsilon.mechanisms.matrix.lattice import LatticeStrategy, on_lattice, survives
from pg_epsilon.mechanisms.matrix.p_identity import p_identities
from pg_epsilon.mechanisms.matrix.queries import Array, Intervals, Queries, Weighted
from pg_epsilon.mechanisms.matrix.strategies import Strategy
from pg_epsilon.noise import NoiseSource
from pg_epsilon.query.bounds import SMALL, Lattice
from pg_epsilon.query.request import Request
from pg_epsilon.workload.running_ask import Running

GRAIN = 1024  # released scales are in so many parts of a lattice unit
GAIN = 0.99  # of the error by itself: less is no reason to answer otherwise
UNDECLARED_ROWS = 2**30


@dataclass(frozen=True)
class RunningSums:
    """The measure of one sum over all groups of a block.

    outer, inner: how many combinations of the keys before and after the ordered one there are; weights: the most that
    one row adds to a group, by the group's number, lattice units, 0 where a group's sum is 0 by the declared bounds.
    drawn: over the groups whose weight is above 0. units: how many rows of one unit count, in any groups. Guarantee:
    epsilon-DP (rho-zCDP) for one unit with all it owns: each of its rows is in one column of one combination's
    strategy; sums are cut at the weights in SQL.
    Released per group: the estimated sum, its noise's standard deviation and the largest scale in it, in GRAIN parts.
    """

    outer: int
    inner: int
    weights: tuple[int, ...]
    name: str
    drawn: LatticeStrategy
    descending: bool
    epsilon: Decimal | None
    rho: Decimal | None
    units: int = 1

    width = 1
    released = 3

    def charges(self) -> tuple[Charge, ...]:
        if self.rho is not None:
            return (Charge.of("gaussian", rho=self.rho),)
        return (Charge.of("laplace", epsilon=self.epsilon or Decimal(0)),)

    def release(self, exact: Sequence[Sequence[int]], noise: NoiseSource, label: str) -> list[tuple[int, ...]]:
        """`core` on the one column of every cell."""
        return core([cell[0] for cell in exact], self, noise, label)

    def cells(self) -> Iterator[list[int]]:
        """Of every combination of the other keys, the cells of the ordered key, in its order."""
        for before in range(self.outer):
            for after in range(self.inner):
                first = before * len(self.weights) * self.inner + after
                yield [first + place * self.inner for place in range(len(self.weights))]


def core(exact: Sequence[int], how: RunningSums, noise: NoiseSource, label: str) -> list[tuple[int, ...]]:
    """Per cell (estimated sum, standard deviation, largest scale); all noise is drawn in one call."""
    runs = list(how.cells())
    places = [place for place, weight in enumerate(how.weights) if weight]
    answers = [one for run in runs for one in how.drawn.answers([exact[run[place]] for place in places])]
    if how.rho is not None:
        squared = Fraction(how.drawn.l2_squared * how.units**2)
        noisy = noise.gaussian(answers, l2_squared=squared, rho=Fraction(how.rho), label=label)
    else:
        most = how.drawn.l1 * how.units
        noisy = noise.laplace(answers, l1_sensitivity=most, epsilon=Fraction(how.epsilon or 1), label=label)
    decoded = _decoder(how)
    scales = _scales(decoded, how)
    size = len(how.drawn.rows)
    found: list[tuple[int, ...]] = [(0, 0, 0)] * len(exact)
    for number, run in enumerate(runs):
        estimates = decoded @ np.array([float(one) for one in noisy[number * size : (number + 1) * size]])
        for place, value, scale in zip(places, _rounded(estimates, descending=how.descending), scales, strict=True):
            found[run[place]] = (value, *scale)
    return found


def _decoder(how: RunningSums) -> Array:
    """Least squares: groups by the strategy's rows, from noisy integers to lattice units."""
    strategy = how.drawn.strategy(how.name)
    weights = np.array([float(weight) for weight in how.drawn.weights])
    return np.asarray(strategies.inverse(strategy) * weights[:, None] / how.drawn.factor)


def _scales(decoded: Array, how: RunningSums) -> list[tuple[int, int]]:
    """Of every group's noise, the standard deviation and the largest scale of one draw in it, rounded up."""
    if how.rho is not None:
        scale = deviation = math.sqrt(how.drawn.l2_squared / (2 * float(how.rho))) * how.units
    else:
        scale = how.drawn.l1 * how.units / float(how.epsilon or 1)
        deviation = scale * math.sqrt(2)
    spread = np.sqrt(np.square(decoded).sum(axis=1)) * deviation
    largest = np.abs(decoded).max(axis=1) * scale
    return [(math.ceil(a * GRAIN), math.ceil(b * GRAIN)) for a, b in zip(spread, largest, strict=True)]


def _rounded(estimates: Array, *, descending: bool) -> list[int]:
    """Integers whose running sums are the rounded running sums of the estimates: rounding does not add up."""
    ordered = estimates[::-1] if descending else estimates
    totals = [round(float(total)) for total in np.cumsum(ordered)]
    steps = [total - before for total, before in zip(totals, [0, *totals[:-1]], strict=True)]
    return steps[::-1] if descending else steps


@dataclass(frozen=True)
class Grouped:
    """The estimator of a sum over groups of which running sums are shown."""

    measure: RunningSums
    step: Fraction
    whole: bool
    error: Fraction

    @property
    def measures(self) -> tuple[Measure, ...]:
        return (self.measure,)

    @property
    def mechanism(self) -> str:
        kind = "discrete Gaussian" if self.measure.rho is not None else "discrete Laplace"
        return f"matrix mechanism ({kind}, {self.measure.name}, running sums)"

    def present(self, raw: Sequence[int]) -> str | None:
        return self._number().present(raw)

    def bars(self, raw: Sequence[int], confidence: Decimal) -> Bar:
        """(low, high, standard error) of a group's own sum."""
        value, deviation, largest = raw
        if confidence not in self._margins:
            self._margins[confidence] = _margins(self.measure, confidence)
        margin = self._margins[confidence].get((deviation, largest))
        if margin is None:  # of a strategy that an older version found
            margin = _margin(deviation / GRAIN, largest / GRAIN, confidence, gaussian=self.measure.rho is not None)
        ends = [self._number().present([value + sign * margin]) for sign in (-1, 1)]
        error = Decimal(f"{deviation / GRAIN * float(self.step):.4g}")
        return ends[0], ends[1], format(error, "f")

    @cached_property
    def _margins(self) -> dict[Decimal, dict[tuple[int, int], int]]:
        return {}

    def margin(self, confidence: Decimal) -> Fraction | None:
        return None

    def expected_error(self) -> Fraction | None:
        return self.error

    def _number(self) -> Number:
        return Number(Additive(1, 1), self.step, self.whole)


def _margins(how: RunningSums, confidence: Decimal) -> dict[tuple[int, int], int]:
    """By what is released of a group's noise, m with Pr[|noise| > m] <= 1 - confidence: the most of these groups'.

    Laplace: exact as in shown.py, with half a step for each draw and one for the rounding of the group's sum.
    """
    decoded, miss = _decoder(how), 1 - float(confidence)
    kinds = _scales(decoded, how)
    if how.rho is not None:
        return {kind: math.ceil(_margin(kind[0] / GRAIN, 0.0, confidence, gaussian=True)) + 1 for kind in kinds}
    scale = how.drawn.l1 * how.units / float(how.epsilon or 1)
    quantile = bars.two_sided_quantile if decoded.size <= bars.EXACT else bars.chernoff
    found: dict[tuple[int, int], int] = {}
    for kind, row in zip(kinds, decoded, strict=True):
        margin = math.ceil(quantile(row, miss) * scale + float(np.abs(row).sum()) / 2) + 1
        found[kind] = max(margin, found.get(kind, 0))
    return found


def _margin(deviation: float, largest: float, confidence: Decimal, *, gaussian: bool) -> int:
    """m with Pr[|noise| > m] <= 1 - confidence, by no more of the noise than this.

    Gaussian: by the normal law. Laplace, of variance d² and largest scale b: by Chernoff's bound with
    ln E exp(s X) <= s² d² / (2 (1 - s² b²)), because -ln(1 - u) <= u / (1 - u).
    """
    beta = 1 - float(confidence)
    if gaussian or not largest:
        return math.ceil(NormalDist().inv_cdf(1 - beta / 2) * deviation)
    points = [place / 50 / largest for place in range(1, 50)]
    bounds = ((s * s * deviation**2 / (2 * (1 - (s * largest) ** 2)) + math.log(2 / beta)) / s for s in points)
    return math.ceil(min(bounds))


def choose(request: Request, run: Running, choice: Choice) -> Choice:
    """The choice for a sum whose running sums are shown: one strategy, if no sum is expected to be further off by it.

    choice: each group by itself. By public facts only: the variance of every running sum (and of every group's own,
    where it is shown) against that with independent noise.
    """
    lattice, alone, weights = request.aggregates[run.aggregate].lattice, choice.estimator, run.weights
    inside, units = tuple(weight for weight in weights if weight), _units(request, choice)
    if lattice is None or not isinstance(alone, Number) or len(inside) < 2 or units is None:
        return choice
    queries = _queries(weights, run)
    gaussian = alone.measure.rho is not None
    amount = alone.measure.rho if gaussian else alone.measure.epsilon
    variance = 1 / (2 * float(amount or 1)) if gaussian else 2 / float(amount or 1) ** 2
    single = float(alone.measure.l2_squared if gaussian else alone.measure.l1**2) * variance
    itself = np.array([float(count) for count in _members(weights, run)]) * single
    listed = _designs(queries, inside, gaussian)
    errors = {name: factors * variance * units**2 for name, _, factors in listed}
    best = next((one for one in listed if (errors[one[0]] <= itself * (1 + 1e-9)).all()), None)
    if best is None or _rms(errors[best[0]]) > GAIN * _rms(itself):
        return choice
    rows = max((p.max_rows or UNDECLARED_ROWS for p in request.source.relations), default=UNDECLARED_ROWS)
    try:
        drawn = on_lattice(best[1], inside, rows)
        check_bound(drawn.l1 * units)
    except DPError:  # no room on the lattice for a strategy: each group by itself may have it
        return choice
    if not survives(drawn, best[1], queries):
        return choice
    sizes, place = [len(one.domain) for one in request.keys], request.places[run.key]
    measure = RunningSums(
        math.prod(sizes[:place]),
        math.prod(sizes[place + 1 :]),
        weights,
        best[0],
        drawn,
        run.descending,
        None if gaussian else amount,
        amount if gaussian else None,
        units,
    )
    step = lattice.step

    def shown(error: float) -> Fraction:
        return Fraction(round(error * float(step) * 1000), 1000)

    (read,) = choice.statistics
    return replace(
        choice,
        estimator=Grouped(measure, step, lattice.whole, shown(_rms(errors[best[0]]))),
        statistics=(replace(read, value=_cut(read.value or "", weights, request.keys[place].sql, lattice)),),
        candidates=(
            *((f"together, {name}", shown(_rms(errors[name]))) for name, _, _ in listed),
            ("each by itself", shown(_rms(itself))),
        ),
        why="no running sum is expected to be further off than with noise of its own for every group",
        key=f"running {replace(run, aggregate=0, key=place)}",  # of its own aggregate, by the place of the key there
    )


def _units(request: Request, choice: Choice) -> int | None:
    """How many rows of one unit count; None where rows of a user are not capped for it (composition.md §2.3)."""
    if not request.source.has_user_units:
        return 1
    return request.source.kappa if all(read.by_rows for read in choice.statistics) else None


def _cut(value: str, weights: Sequence[int], key: str, lattice: Lattice) -> str:
    """A row's integer, cut at its group's weight, so that the weight holds whatever floating point does at an edge."""
    if len(set(weights)) == 1:
        return value
    kind = "pg_catalog.int4" if lattice.high <= SMALL else "pg_catalog.int8"
    return f"LEAST({value}, (ARRAY[{', '.join(map(str, weights))}]::{kind}[])[1 + ({key})::pg_catalog.int4])"


def _queries(weights: Sequence[int], run: Running) -> Queries:
    """The running sums, and the groups' own where they are shown, over the groups whose weight is above 0."""
    places = [place for place, weight in enumerate(weights) if weight]
    starts, ends = [], []
    for first, last in _spans(len(weights), run):
        inside = [number for number, place in enumerate(places) if first <= place <= last]
        starts.append(inside[0] if inside else 0)
        ends.append(inside[-1] + 1 if inside else 0)
    inner = Intervals(tuple(starts), tuple(ends), len(places))
    return Weighted(inner, tuple(float(weights[place]) for place in places))


def _spans(count: int, run: Running) -> list[tuple[int, int]]:
    """First and last group of every sum that is shown."""
    running = [(place, count - 1) if run.descending else (0, place) for place in range(count)]
    return running + ([(place, place) for place in range(count)] if run.alone else [])


def _members(weights: Sequence[int], run: Running) -> list[int]:
    """How many groups each sum has."""
    return [last - first + 1 for first, last in _spans(len(weights), run)]


def _rms(variances: Array) -> float:
    return math.sqrt(float(np.mean(variances)))


def _designs(queries: Queries, weights: tuple[int, ...], gaussian: bool) -> list[tuple[str, Strategy, Array]]:
    """(name, strategy, variance of every query for noise of variance 1), the least total first; kept per process."""
    key = (repr(queries), weights, gaussian)
    kept = _kept(*key)
    if not kept:
        kept.append(_find_designs(queries, len(weights), gaussian))
    return kept[0]


@lru_cache(maxsize=32)
def _kept(text: str, weights: tuple[int, ...], gaussian: bool) -> list[list[tuple[str, Strategy, Array]]]:
    return []


def _find_designs(queries: Queries, count: int, gaussian: bool) -> list[tuple[str, Strategy, Array]]:
    builders: list[Callable[[], Strategy]] = [
        partial(strategies.identity, count),
        partial(greedyh, queries),
        partial(strategies.wavelet, count),
    ]
    builders += [partial(strategies.tree, count, branching) for branching in (2, 4, 8)]
    builders += p_identities(queries, [rows for rows in (1, 4, 16) if rows < count])
    found: dict[str, tuple[str, Strategy, Array]] = {}
    for build in builders:
        with suppress(np.linalg.LinAlgError):
            strategy = strategies.tightened(build())
            inverted = strategies.inverse(strategy)
            factors = strategies.query_errors(strategy, queries, gaussian=gaussian, inverted=inverted)
            if np.isfinite(factors).all() and strategies.spans(strategy, queries, inverted):
                found.setdefault(strategy.name, (strategy.name, strategy, factors))
    return sorted(found.values(), key=lambda one: float(one[2].sum()))
