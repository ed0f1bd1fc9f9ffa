"""The quantile's core: scores against their definition, their sensitivity, and dp-pqd.md §6.1's examples."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fix_chance
from pg_epsilon.mechanisms.quantile import Histogram, Runs, core, score, sensitivity
from pg_epsilon.noise import Noise

SIZE = 30
ROWS = st.lists(st.integers(0, SIZE - 1), max_size=40)
FRACTIONS = st.fractions(0, 1, max_denominator=100)
SOME = settings(database=None, deadline=None, max_examples=150)


def histogram(values: Sequence[int]) -> Histogram:
    return sorted(Counter(values).items())


def each(runs: Runs) -> list[Fraction]:
    """The score of every lattice point."""
    return [score_ for size, score_ in zip(runs.sizes, runs.scores, strict=True) for _ in range(size)]


def defined(values: Sequence[int], fraction: Fraction) -> list[Fraction]:
    target = fraction * len(values)
    return [
        -max(Fraction(0), sum(v < e for v in values) - target, target - sum(v <= e for v in values))
        for e in range(SIZE)
    ]


@SOME
@given(values=ROWS, fraction=FRACTIONS)
def test_every_point_has_the_score_of_the_definition(values: list[int], fraction: Fraction) -> None:
    assert each(score(histogram(values), SIZE, fraction)) == defined(values, fraction)


@SOME
@given(values=ROWS, more=st.lists(st.integers(0, SIZE - 1), min_size=1, max_size=5), fraction=FRACTIONS)
def test_the_sensitivity_holds_for_a_unit_of_several_rows(
    values: list[int], more: list[int], fraction: Fraction
) -> None:
    one, two = (each(score(histogram(rows), SIZE, fraction)) for rows in (values, values + more))
    assert max(abs(a - b) for a, b in zip(one, two, strict=True)) <= sensitivity(fraction, len(more))


def test_the_sensitivity_is_reached() -> None:
    one, two = (each(score(histogram(rows), SIZE, Fraction(1, 4))) for rows in ([20] * 9, [20] * 9 + [0]))
    assert max(abs(a - b) for a, b in zip(one, two, strict=True)) == sensitivity(Fraction(1, 4), 1) == Fraction(3, 4)


@SOME
@given(values=st.lists(st.integers(0, SIZE - 1), min_size=1, max_size=40), fraction=FRACTIONS)
def test_the_quantile_itself_has_score_0(values: list[int], fraction: Fraction) -> None:
    """The ceil(p n)-th smallest, the answer of percentile_disc."""
    rank = max(1, math.ceil(fraction * len(values)))
    assert each(score(histogram(values), SIZE, fraction))[sorted(values)[rank - 1]] == 0


def test_ties_do_not_make_the_answer_uniform() -> None:
    """dp-pqd.md §6.1: all rows equal. The strict rank scored every point alike; this one finds the value."""
    runs = score([(20, 1000)], SIZE, Fraction(1, 2))
    assert runs == Runs((20, 1, 9), (Fraction(-500), Fraction(0), Fraction(-500)))
    picks = {core([(20, 1000)], SIZE, Fraction(1, 2), 1, Fraction(1), Noise(), "median") for _ in range(20)}
    assert picks == {20}


LEVEL = 1e-9


@pytest.mark.chance(LEVEL)
def test_the_law_of_the_answer() -> None:
    """Pr[e] is proportional to exp(eps u(e) / 2 sensitivity): 4,000 picks."""
    values, fraction, epsilon, size, n = [2, 3, 3, 7], Fraction(1, 2), Fraction(1), 10, 4_000
    scores = [float(s) for s in each(score(histogram(values), size, fraction))]
    weights = [math.exp(s) for s in scores]  # 2 sensitivity = 1
    picks = Counter(core(histogram(values), size, fraction, 1, epsilon, Noise(), "median") for _ in range(n))
    law = [weight / sum(weights) for weight in weights]
    assert fix_chance.fit([picks[point] for point in range(size)], law) > LEVEL


@SOME
@given(values=ROWS, fraction=FRACTIONS)
def test_the_printed_score_is_its_definition(values: list[int], fraction: Fraction) -> None:
    """dp-pqd.md §6.1: the strict rank; its sensitivity to a row is max(p, 1 - p) too."""
    scores = each(score(histogram(values), SIZE, fraction, "printed"))
    assert scores == [-abs(sum(v < e for v in values) - fraction * len(values)) for e in range(SIZE)]
    for more in (0, SIZE // 2, SIZE - 1):
        moved = each(score(histogram([*values, more]), SIZE, fraction, "printed"))
        assert max(abs(a - b) for a, b in zip(scores, moved, strict=True)) <= sensitivity(fraction, 1)


def test_the_printed_score_of_ties_is_uniform() -> None:
    """dp-pqd.md §6.1: all rows = 20, every score is -n/2; kept to reproduce the paper, never the default."""
    assert set(each(score([(20, 1000)], SIZE, Fraction(1, 2), "printed"))) == {Fraction(-500)}


def test_the_paper_s_calibration_is_not_tight() -> None:
    assert (sensitivity(Fraction(1, 2), 3), sensitivity(Fraction(1, 2), 3, tight=False)) == (Fraction(3, 2), 3)


def test_no_rows_is_uniform_over_the_lattice() -> None:
    assert score([], SIZE, Fraction(1, 2)) == Runs((SIZE,), (Fraction(0),))


@pytest.mark.parametrize(
    ("odd", "clamped"),
    [
        ([(SIZE + 9, 1)], [(SIZE - 1, 1)]),
        ([(-1, 1)], [(0, 1)]),
        ([(3, 1), (3, 2)], [(3, 3)]),
        ([(3, -1), (4, 2)], [(3, 0), (4, 2)]),
        ([(3, 2**200)], [(3, 2**200)]),
    ],
)
def test_no_histogram_is_an_error(odd: Histogram, clamped: Histogram) -> None:
    """What is not a histogram of the lattice is moved into it: rows never decide between an answer and an error."""
    assert score(odd, SIZE, Fraction(1, 2)) == score(clamped, SIZE, Fraction(1, 2))
