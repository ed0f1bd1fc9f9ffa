"""How rarely a lower bound of epsilon falls short (privacy/lower_bound.py): over all outcomes."""

from __future__ import annotations

import math
from collections import Counter
from itertools import product

import pytest
from scipy.stats import binom

from privacy.lower_bound import Event, bound, choose, falls_short, named_falls_short, nearer

RUNS, CHOOSING = 40, 20
ONE, TWO = {0: 0.15, 1: 0.85}, {0: 0.8, 1: 0.2}


def outcomes(n: int) -> list[tuple[Counter[int], Counter[int], float]]:
    """Samples on D and on D′, and their probability."""
    found = []
    for k, m in product(range(n + 1), repeat=2):
        p = float(binom.pmf(k, n, ONE[1]) * binom.pmf(m, n, TWO[1]))
        found.append((Counter({0: n - k, 1: k}), Counter({0: n - m, 1: m}), p))
    return found


def exactly(event: Event, least: float) -> float:
    return math.fsum(p for one, two, p in outcomes(RUNS) if bound(event, one, two) < least)


@pytest.mark.long
@pytest.mark.parametrize("least", [-0.5, -0.1, 0.05])
def test_an_event_named_beforehand(least: float) -> None:
    event = Event("equal", 1, True)
    exact = exactly(event, least)
    assert exact <= named_falls_short(least, event, ONE, TWO, runs=RUNS) <= 6 * exact


@pytest.mark.long
@pytest.mark.parametrize("least", [-0.5, -0.1])
def test_an_event_that_is_chosen(least: float) -> None:
    chosen: Counter[Event] = Counter()
    for one, two, p in outcomes(CHOOSING):
        chosen[choose(one.elements(), two.elements())] += p  # type: ignore[assignment]
    exact = math.fsum(p * exactly(event, least) for event, p in chosen.items() if p > 1e-12)
    assert exact <= falls_short(least, ONE, TWO, runs=RUNS, choosing=CHOOSING)


@pytest.mark.parametrize("scale", [0.5, 1.0, 120.0])
def test_the_score_of_a_count(scale: float) -> None:
    """Two values: at most the count of D′, or more."""
    p = math.exp(-1 / scale)
    one, two = nearer([1], [0], (scale, scale))
    assert one == pytest.approx({-1: p / (1 + p), 1: 1 / (1 + p)})
    assert two == pytest.approx({-1: 1 / (1 + p), 1: p / (1 + p)})


def test_scores_of_more() -> None:
    """Independent cells add up; cells that are alike say nothing; no noise is no noise."""
    one, _ = nearer([1], [0], (2.0, 2.0))
    several, _ = nearer([1, 5, 1], [0, 5, 0], (2.0, 2.0))
    up = one[1]
    assert several == pytest.approx({-2: (1 - up) ** 2, 0: 2 * up * (1 - up), 2: up**2})
    assert nearer([3], [0], (0.0, 0.0)) == ({-3: 0.0, -1: 0.0, 1: 0.0, 3: 1.0}, {-3: 1.0, -1: 0.0, 1: 0.0, 3: 0.0})
