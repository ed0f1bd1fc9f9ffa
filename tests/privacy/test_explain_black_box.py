"""A lower bound of epsilon for the parts of an explanation, from what they release alone (lower_bound.py).

The core runs as the channel's backend runs it, on the cells of a table and on those with one row more. The events are
named beforehand; a bound is above the true epsilon with probability `ERROR` at most.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

import pytest

from pg_epsilon import noise
from pg_epsilon.accounting.margins import laplace_scale, laplace_tail
from pg_epsilon.explain import sensitivity
from pg_epsilon.explain.influence import Cells, scores
from pg_epsilon.explain.measure import Explaining, Price, drawn
from pg_epsilon.explain.ranking import top
from pg_epsilon.explain.space import Listed
from privacy.lower_bound import ERROR, Event, bound, named_falls_short

PAIR = (Fraction(1), Fraction(-1))
HELD = Event("equal", 1, True)
RUNS = {"influence": 5_000, "selection": 12_000}
LEAST = {"influence": 0.4, "selection": 0.25}
BOUNDS = Fraction(0), Fraction(1)


def measure(predicates: int, *, influences: int = 1) -> Explaining:
    """Of counts: a selection at epsilon 1, and influences at so much."""
    texts = tuple(f"p{place}" for place in range(predicates))
    price = Price(Decimal(1), Decimal(influences), Decimal(1), rho=False)
    change, apart = (bound_("count", PAIR, *BOUNDS) for bound_ in (sensitivity.change, sensitivity.spread))
    return Explaining(Listed(texts, texts), "count", PAIR, 1, change, apart, price, Fraction(19, 20))


def points(how: Explaining, rows: Sequence[int], inside: Sequence[Sequence[int]]) -> list[int]:
    """Exact scores: of two groups of so many rows, with so many of each in every predicate."""
    cells = Cells.of(rows, [0, 0], [[(number, 0) for number in line] for line in inside])
    return scores("count", PAIR, cells, how.steps)


def released(exact: Sequence[int], how: Explaining) -> list[int]:
    """[place, noisy score, lower rank, upper rank] as installed."""
    return drawn(exact, how, noise.current(), "audit")


def picked(exact: Sequence[int], how: Explaining) -> int:
    """The selection alone, as `drawn` calls it."""
    epsilon = Fraction(how.price.selection)
    return top(exact, 1, apart=how.search.moved, epsilon=epsilon, noise=noise.current(), label="audit")[0]


# One row more in the first group, in the only predicate: .92 of what one row may move an influence.
FEWER = ([200, 200], [[10, 5]])
MORE = ([201, 200], [[11, 5]])
# One row more in the second group, in neither predicate: .82 of what one row may move two influences apart.
APART = ([5, 38], [[0, 23], [0, 38]])
NEARER = ([5, 39], [[0, 23], [0, 38]])


def influence_laws(times: int = 1) -> tuple[dict[int, float], dict[int, float]]:
    """Of a noisy influence that is at least the larger one, with so many times the epsilon."""
    how = measure(1, influences=times)
    (more,), (fewer,) = points(how, *MORE), points(how, *FEWER)
    scale = laplace_scale(how.moved, Fraction(times))
    chances = [1 - float(laplace_tail(scale, 1)) / 2, float(laplace_tail(scale, more - fewer)) / 2]
    return tuple({1: chance, 0: 1 - chance} for chance in chances)  # type: ignore[return-value]


def selection_laws() -> tuple[dict[int, float], dict[int, float]]:
    """Of a selection that takes the first of two predicates: exact."""
    how = measure(2)
    found = []
    for table in (NEARER, APART):
        first, second = points(how, *table)
        chance = 1 / (1 + math.exp((second - first) / how.search.moved))
        found.append({1: chance, 0: 1 - chance})
    return found[0], found[1]


def influence_bound(runs: int, times: int = 1) -> float:
    how = measure(1, influences=times)
    (limit,), (below,) = points(how, *MORE), points(how, *FEWER)
    one, two = (Counter(int(released([x], how)[1] >= limit) for _ in range(runs)) for x in (limit, below))
    return bound(HELD, one, two)


@pytest.mark.chance(ERROR + named_falls_short(LEAST["influence"], HELD, *influence_laws(), runs=RUNS["influence"]))
def test_an_influence_costs_what_was_charged() -> None:
    """10,000 runs: two fifths of epsilon <= bound <= epsilon."""
    assert LEAST["influence"] <= influence_bound(RUNS["influence"]) <= 1


@pytest.mark.chance(ERROR + named_falls_short(LEAST["selection"], HELD, *selection_laws(), runs=RUNS["selection"]))
def test_a_selection_costs_what_was_charged() -> None:
    """24,000 runs: with Γ in place of twice the sensitivity, a quarter of epsilon <= bound <= epsilon."""
    how = measure(2)
    samples = [
        Counter(int(picked(exact, how) == 0) for _ in range(RUNS["selection"]))
        for exact in (points(how, *table) for table in (NEARER, APART))
    ]
    assert LEAST["selection"] <= bound(HELD, *samples) <= 1


@pytest.mark.chance(named_falls_short(1, HELD, *influence_laws(2), runs=RUNS["influence"]))
def test_half_the_noise_is_seen() -> None:
    """The control: the bound is above epsilon."""
    assert influence_bound(RUNS["influence"], 2) > 1
