"""noise.first_above: its law, its one threshold, its proof's inequalities on the lattice, and what is out of range."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import accumulate, pairwise, product
from operator import mul
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fix_chance
from fix_decide_oracles import lattice_tail, run_law
from pg_epsilon.errors import DPError
from pg_epsilon.noise import Noise, _bernoulli_exp, _unbounded_laplace, current

SOME = settings(database=None, deadline=None, max_examples=150)
RUNS = 8_000
GAPS = [-9, -3, -4, 0, 4]
Run = Callable[[], int | None]


def run(gaps: Sequence[int], source: Noise | None = None, **shares: Any) -> int | None:
    shares = shares or {"threshold_epsilon": Decimal("0.75"), "query_epsilon": Decimal("1.5")}
    return (source or Noise()).first_above(gaps, sensitivity=3, **shares, label="x")


LEVEL = 1e-9
OUTCOMES = [*range(len(GAPS)), None]


def law_of(threshold_scale: float, query_scale: float, less: int = 0) -> list[float]:
    gaps = [gap - less for gap in GAPS]
    return [math.exp(run_law(gaps, i, threshold_scale, query_scale, lattice=True)) for i in OUTCOMES]


LAW = law_of(4, 2)


def fit(draw: Run) -> float:
    """Of RUNS runs over GAPS to the law at scales 4 and 2."""
    assert math.isclose(math.fsum(LAW), 1, rel_tol=1e-9)
    seen = Counter(draw() for _ in range(RUNS))
    return fix_chance.fit([seen[i] for i in OUTCOMES], LAW)


@pytest.mark.chance(LEVEL)
@pytest.mark.long
def test_the_law_of_a_run() -> None:
    assert fit(lambda: run(GAPS)) > LEVEL


def fresh_threshold() -> int | None:
    """A new threshold for every comparison: the error of several published variants."""
    return next((i for i, gap in enumerate(GAPS) if run([gap]) is not None), None)


def one_noise_for_all() -> int | None:
    """One query noise for the whole run."""
    noise = _unbounded_laplace(Fraction(2)) - _unbounded_laplace(Fraction(4))
    return next((i for i, gap in enumerate(GAPS) if gap + noise >= 0), None)


def no_noise_on_the_threshold() -> int | None:
    return next((i for i, gap in enumerate(GAPS) if gap + _unbounded_laplace(Fraction(2)) >= 0), None)


BROKEN: dict[str, Run] = {
    "fresh threshold": fresh_threshold,
    "one query noise": one_noise_for_all,
    "exact threshold": no_noise_on_the_threshold,
    "above, not at least": lambda: run([gap - 1 for gap in GAPS]),
    "shares exchanged": lambda: run(GAPS, threshold_epsilon=Decimal("1.5"), query_epsilon=Decimal("0.75")),
}


def falling(tails: Sequence[float]) -> list[float]:
    """The law of the first index, each reached by itself with such a probability, all by one noise."""
    beyond = [0.0, *accumulate(tails, max)]
    return [high - low for low, high in pairwise([*beyond, 1.0])]


def apart(tails: Sequence[float]) -> list[float]:
    """The same, each with a noise of its own."""
    reached = [1.0, *accumulate((1 - tail for tail in tails), mul)]
    return [*(left * tail for left, tail in zip(reached, tails, strict=False)), reached[-1]]


EACH = [math.exp(run_law([gap], 0, 4, 2, lattice=True)) for gap in GAPS]
LAWS = {
    "fresh threshold": apart(EACH),
    "one query noise": falling(EACH),
    "exact threshold": apart([float(lattice_tail(-gap, 2)) for gap in GAPS]),
    "above, not at least": law_of(4, 2, less=1),
    "shares exchanged": law_of(2, 4),
}


@pytest.mark.chance(lambda name: fix_chance.fits_although(LAWS[name], LAW, RUNS, LEVEL))
@pytest.mark.long
@pytest.mark.parametrize("name", BROKEN)
def test_another_law_is_found(name: str) -> None:
    """Negative controls: the same comparison tells every wrong run apart."""
    assert fit(BROKEN[name]) <= LEVEL


@pytest.mark.chance(LEVEL)
def test_the_noise_beneath() -> None:
    """DLap at a rational scale, 8,000 draws."""
    scale = Fraction(7, 3)
    p = math.exp(-3 / 7)
    law = {k: (1 - p) / (1 + p) * p ** abs(k) for k in range(-6, 7)}
    drawn = Counter(_unbounded_laplace(scale) for _ in range(RUNS))
    rest = 1 - sum(law.values())
    seen = [drawn[k] for k in law]
    assert fix_chance.fit([*seen, RUNS - sum(seen)], [*law.values(), rest]) > LEVEL


def trials(u: int, t: int) -> tuple[int, int]:
    """6.5 standard deviations about the mean."""
    law = math.exp(-u / t)
    off = 6.5 * math.sqrt(RUNS * law * (1 - law))
    return math.ceil(RUNS * law - off), math.floor(RUNS * law + off)


@pytest.mark.chance(lambda u, t: fix_chance.binomial(RUNS, math.exp(-u / t), *trials(u, t)))
@pytest.mark.parametrize(("u", "t"), [(0, 1), (1, 1), (1, 3), (2**70, 2**71)])
def test_the_trials_beneath(u: int, t: int) -> None:
    """Bernoulli(e^(-u/t)), 8,000 trials."""
    low, high = trials(u, t)
    assert low <= sum(_bernoulli_exp(u, t) for _ in range(RUNS)) <= high


@pytest.mark.long
@SOME
@given(
    gaps=st.lists(st.tuples(st.integers(-30, 30), st.integers(0, 3)), min_size=1, max_size=6),
    shares=st.tuples(st.fractions(Fraction(1, 5), 3), st.fractions(Fraction(1, 5), 3)),
    data=st.data(),
)
def test_no_output_loses_more_than_the_charge(
    gaps: list[tuple[int, int]], shares: tuple[Fraction, Fraction], data: st.DataObject
) -> None:
    """The exact law on the lattice, monotone neighbours at sensitivity 3; None costs the threshold's share at most.

    Both are the proof's inequalities: (a) at most e^e2, and at most 1 for None; (b) e^(e1 + e2), and e^e1 for None.
    """
    less, more = [gap for gap, _ in gaps], [gap + move for gap, move in gaps]
    index = data.draw(st.sampled_from([None, *range(len(gaps))]))
    e1, e2 = map(float, shares)
    one, two = (run_law(g, index, 3 / e1, 3 / e2, lattice=True) for g in (less, more))
    assert two - one <= (0 if index is None else e2) + 1e-9
    assert one - two <= e1 + (0 if index is None else e2) + 1e-9


def test_the_charge_is_approached() -> None:
    """The bound is no luxury: some neighbours lose 0.95 of e1 + e2 = 2, and of e1 where nothing is above."""
    less, more = [20] * 30 + [-50], [23] * 30 + [-50]
    assert run_law(less, 30, 3, 3, lattice=True) - run_law(more, 30, 3, 3, lattice=True) > 1.9
    assert run_law([20] * 30, None, 3, 3, lattice=True) - run_law([23] * 30, None, 3, 3, lattice=True) > 0.99


def test_gaps_in_two_directions_lose_more() -> None:
    """What monotone is for: gaps that fall before a gap that rises cost up to e1 + 2 e2."""
    one, two = [20] * 30 + [-50], [17] * 30 + [-47]
    assert abs(run_law(one, 30, 3, 3, lattice=True) - run_law(two, 30, 3, 3, lattice=True)) > 2.05


@pytest.mark.parametrize("gaps", [[], [-(10**40)], [-(10**40)] * 3])
def test_nothing_is_above(gaps: list[int]) -> None:
    assert run(gaps) is None


@pytest.mark.chance(fix_chance.union(2 * 0.5**200, 50**2 / 1e30))
def test_numbers_of_any_size() -> None:
    """No saturation: gaps far beyond 64 bits keep their distance."""
    assert run([-(10**40), 10**40, 10**41]) == 1
    wide = {
        current().first_above([0], sensitivity=10**30, threshold_epsilon=1, query_epsilon=1, label="x")
        for _ in range(200)
    }
    assert wide == {0, None}
    assert len({_unbounded_laplace(Fraction(10**30)) for _ in range(50)}) == 50
    assert max(abs(_unbounded_laplace(Fraction(10**30))) for _ in range(50)) > 2**70


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        *product(["sensitivity", "threshold_epsilon", "query_epsilon"], [0, -1, Decimal("NaN"), Decimal("Infinity")]),
        *product(["threshold_epsilon", "query_epsilon"], [Decimal("1000.1")]),
    ],
)
def test_parameters_out_of_range_are_dp005(name: str, bad: Any) -> None:
    good: dict[str, Any] = {"sensitivity": 1, "threshold_epsilon": 1, "query_epsilon": 1}
    with pytest.raises(DPError, match=name) as refused:
        current().first_above([1], **{**good, name: bad}, label="x")
    assert refused.value.sqlstate == "DP005"
    assert refused.value.hint


def test_a_float_is_not_a_share() -> None:
    with pytest.raises(TypeError, match="query_epsilon"):
        current().first_above([1], sensitivity=1, threshold_epsilon=1, query_epsilon=0.5, label="x")  # type: ignore[arg-type]
