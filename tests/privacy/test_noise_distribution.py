"""Does noise.py draw what is charged? Tests of fit of the noise as drawn, and proof that wrong noise is rejected.

Every sample has a distance from its law (fix_chance.fit) that a sample of this law has with probability FALSE_ALARM at
most, exactly: no limit law is used. Wrong noise is rejected by its distance too; how rarely it is not is computed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from itertools import accumulate, pairwise, permutations
from typing import Any

import pytest
from scipy.stats import norm

import fix_chance
from pg_epsilon.accounting.margins import gaussian_scale, laplace_scale
from pg_epsilon.noise import Noise, NoiseSource, _bernoulli_scaled, _scaled, current
from privacy.broken_noise import (
    Antithetic,
    DoubleZero,
    FloatLaplace,
    IgnoredSensitivity,
    PermuteAndFlip,
    Repeating,
    SharedDraw,
    WrongScale,
)

FALSE_ALARM = 1e-9
DRAWS = 80_000
AGAIN = 2_000  # of a second call
SELECTIONS = 30_000
EXACT = 7  # the value under the noise: a source that looks at it would show
CELLS = 24
PAIR_CELLS = 6

Upper = Callable[[int], float]
"""Pr[Z >= m] for an integer m."""


def laplace_upper(scale: float) -> Upper:
    """Pr[Z >= m] = p^m / (1 + p) for m >= 1, p = e^(-1/scale); 1 - Pr[Z >= 1 - m] otherwise."""

    def upper(m: int) -> float:
        return math.exp(-m / scale) / (1 + math.exp(-1 / scale)) if m >= 1 else 1 - upper(1 - m)

    return upper


def gaussian_upper(sigma: float) -> Upper:
    """By its sum up to sigma = 200; above that by the normal law with continuity correction (the same to 1e-5)."""
    if sigma > 200:
        return lambda m: float(norm.sf((m - 0.5) / sigma))
    reach = math.ceil(15 * sigma) + 2
    weights = [math.exp(-((k / sigma) ** 2) / 2) for k in range(reach, -reach - 1, -1)]
    above = list(accumulate(weights))
    return lambda m: above[min(max(reach - m, 0), 2 * reach)] / above[-1]


def edges_of(upper: Upper, scale: float, cells: int = CELLS) -> list[int]:
    """Edges e_1 < e_2 < ... of at most `cells` cells, each of probability 1 / (2 cells) or more, of the law `upper`."""
    reach = int(40 * scale) + 40
    edges: list[int] = []
    last = 1.0
    for j in range(1, cells):
        low, high = -reach, reach  # the smallest m with Pr[Z >= m] <= 1 - j/cells
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if upper(middle) <= 1 - j / cells else (middle, high)
        if (not edges or high > edges[-1]) and min(last - upper(high), upper(high)) >= 1 / (2 * cells):
            edges.append(high)
            last = upper(high)
    return edges


def probabilities(upper: Upper, edges: Sequence[int]) -> list[float]:
    at = [1.0, *(upper(edge) for edge in edges), 0.0]
    return [high - low for high, low in pairwise(at)]


def assert_fits(counts: Sequence[int], expected: Sequence[float], what: str) -> None:
    """Fails with probability FALSE_ALARM; `expected` are probabilities."""
    found = fix_chance.fit(counts, expected)
    assert found > FALSE_ALARM, f"{what}: so far from its law with probability {found:.1e} at most"


def passes(true: Sequence[float], claimed: Sequence[float], n: int) -> float:
    """The probability that `assert_fits` does not reject n draws of the law `true`."""
    return fix_chance.fits_although(true, claimed, n, FALSE_ALARM)


def check_vector(draw: Callable[[int], list[int]], upper: Upper, scale: float) -> None:
    """`draw(n)` gives n independent cells of the law `upper`, and two calls are independent.

    The law of a cell, of pairs of neighbouring cells of one call (in coarser cells), and two calls that differ.
    """
    noise = draw(DRAWS)
    edges = edges_of(upper, scale)
    cells = Counter(sum(z >= edge for edge in edges) for z in noise)
    assert_fits([cells[i] for i in range(len(edges) + 1)], probabilities(upper, edges), "law of one cell")
    edges = edges_of(upper, scale, PAIR_CELLS)
    coarse = [sum(z >= edge for edge in edges) for z in noise]
    single = probabilities(upper, edges)
    pairs = Counter(zip(coarse[0::2], coarse[1::2], strict=True))
    grid = [(i, j) for i in range(len(single)) for j in range(len(single))]
    assert_fits([pairs[c] for c in grid], [single[i] * single[j] for i, j in grid], "pairs of cells")
    assert draw(AGAIN) != noise[:AGAIN], "two calls repeat"


def sound(upper: Upper) -> float:
    """The probability that `check_vector` rejects what it should not."""
    likeliest = max(upper(m) - upper(m + 1) for m in (-1, 0, 1))  # of any value: the laws are unimodal about 0
    return fix_chance.union(FALSE_ALARM, FALSE_ALARM, likeliest**AGAIN)


def unseen(true: Upper, claimed: Upper, scale: float) -> float:
    """The probability that `check_vector` takes a law for another of this scale."""
    edges = edges_of(claimed, scale)
    return passes(probabilities(true, edges), probabilities(claimed, edges), DRAWS)


def check_laplace(source: NoiseSource, epsilon: Fraction, l1: int = 1) -> None:
    """The audit of `source.laplace` at (epsilon, l1): see check_vector."""
    scale = laplace_scale(l1, epsilon)

    def draw(n: int) -> list[int]:
        answers = source.laplace([EXACT] * n, l1_sensitivity=l1, epsilon=epsilon, label="audit")
        return [answer - EXACT for answer in answers]

    check_vector(draw, laplace_upper(scale), scale)


def check_gaussian(source: NoiseSource, rho: Fraction, l2_squared: int = 1) -> None:
    """The audit of `source.gaussian` at (rho, l2_squared): see check_vector."""
    sigma = gaussian_scale(l2_squared, rho)

    def draw(n: int) -> list[int]:
        answers = source.gaussian([EXACT] * n, l2_squared=l2_squared, rho=rho, label="audit")
        return [answer - EXACT for answer in answers]

    check_vector(draw, gaussian_upper(sigma), sigma)


GROUPS = [(0, 5), (1,), (2,), (3,), (4,)]  # of the scores below, the two least likely together


def selection_law(scores: Sequence[Fraction], epsilon: Fraction, sensitivity: int) -> list[float]:
    weights = [math.exp(float((s - max(scores)) * epsilon / (2 * sensitivity))) for s in scores]
    return [w / sum(weights) for w in weights]


SCORES = [Fraction(s) for s in ("0", "1", "2.5", "3", "3", "-1.25")]


def check_select(source: NoiseSource, shift: int = 0) -> None:
    """The audit of `source.select`: the law of the exponential mechanism, whatever is added to all scores.

    The shift is where exponentiating raw scores overflows; epsilon 2, sensitivity 1, six scores, two of them equal.
    """
    scores = [score + shift for score in SCORES]
    picks = Counter(source.select(scores, sensitivity=1, epsilon=Fraction(2), label="audit") for _ in range(SELECTIONS))
    law = selection_law(SCORES, Fraction(2), 1)
    assert_fits([sum(picks[i] for i in g) for g in GROUPS], merged(law), "selection")


def merged(law: Sequence[float]) -> list[float]:
    return [sum(law[i] for i in group) for group in GROUPS]


@pytest.mark.chance(lambda epsilon: sound(laplace_upper(laplace_scale(1, Fraction(epsilon)))))
@pytest.mark.parametrize("epsilon", ["0.1", "1", "2"])
def test_discrete_laplace_is_what_is_charged(epsilon: str) -> None:
    """80,000 draws an epsilon."""
    check_laplace(current(), Fraction(epsilon))


@pytest.mark.chance(lambda l1, epsilon: sound(laplace_upper(laplace_scale(l1, Fraction(epsilon)))))
@pytest.mark.parametrize(("l1", "epsilon"), [(3, "1"), (10**15, "1"), (1, "0.000000001")])
def test_discrete_laplace_of_large_scale(l1: int, epsilon: str) -> None:
    """Vectors of joint sensitivity, and scales up to 1e15."""
    check_laplace(current(), Fraction(epsilon), l1)


@pytest.mark.chance(lambda l2_squared, rho: sound(gaussian_upper(gaussian_scale(l2_squared, Fraction(rho)))))
@pytest.mark.parametrize(("l2_squared", "rho"), [(1, "0.5"), (1, "0.005"), (2, "0.1"), (10**24, "0.5")])
def test_discrete_gaussian_is_what_is_charged(l2_squared: int, rho: str) -> None:
    """sigma = 1, 10, 3.16, 1e12; 80,000 draws each."""
    check_gaussian(current(), Fraction(rho), l2_squared)


def laplace_pair(epsilon: str, factor: str) -> tuple[Upper, Upper, float]:
    """As drawn, as claimed, and the scale that is claimed."""
    true, claimed = (laplace_scale(1, Fraction(epsilon) * part) for part in (Fraction(factor), 1))
    return laplace_upper(true), laplace_upper(claimed), claimed


def gaussian_pair(rho: str, factor: str) -> tuple[Upper, Upper, float]:
    true, claimed = (gaussian_scale(1, Fraction(rho) * part) for part in (Fraction(factor), 1))
    return gaussian_upper(true), gaussian_upper(claimed), claimed


@pytest.mark.chance(lambda epsilon, factor: unseen(*laplace_pair(epsilon, factor)))
@pytest.mark.parametrize("factor", ["0.9", "1.1"])
@pytest.mark.parametrize("epsilon", ["0.1", "1", "2"])
def test_ten_percent_of_epsilon_is_seen(epsilon: str, factor: str) -> None:
    """Noise of 0.9 or 1.1 epsilon passed off as epsilon is rejected."""
    with pytest.raises(AssertionError, match="law of one cell"):
        check_laplace(WrongScale(factor), Fraction(epsilon))


@pytest.mark.chance(lambda rho, factor: unseen(*gaussian_pair(rho, factor)))
@pytest.mark.parametrize("factor", ["0.81", "1.21"])
@pytest.mark.parametrize("rho", ["0.5", "0.005"])
def test_ten_percent_of_sigma_is_seen(rho: str, factor: str) -> None:
    """A discrete Gaussian whose sigma is 10 % off is rejected."""
    with pytest.raises(AssertionError, match="law of one cell"):
        check_gaussian(WrongScale(factor), Fraction(rho))


def control(source: Noise, reason: str, missed: float = 0.0) -> Any:
    """A control whose noise is seeded, or rejected whatever it is, is missed with probability 0."""
    marks = [pytest.mark.chance(missed)] if missed else []
    return pytest.param(source, reason, marks=marks, id=type(source).__name__)


def one_of_two(upper: Callable[[int], tuple[Upper, float]]) -> float:
    """A vector of joint sensitivity 2 with the noise of 1."""
    return unseen(upper(1)[0], *upper(2))


def laplace_two(l1: int) -> tuple[Upper, float]:
    scale = laplace_scale(l1, Fraction(2))
    return laplace_upper(scale), scale


def gaussian_two(l2_squared: int) -> tuple[Upper, float]:
    sigma = gaussian_scale(l2_squared, Fraction("0.1"))
    return gaussian_upper(sigma), sigma


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        control(FloatLaplace(), "law of one cell"),
        control(DoubleZero(), "law of one cell"),
        control(IgnoredSensitivity(), "law of one cell", one_of_two(laplace_two)),
        control(SharedDraw(), "law of one cell"),
        control(Antithetic(), "pairs of cells"),
        control(Repeating(), "two calls repeat"),
    ],
)
def test_wrong_laplace_noise_is_rejected(source: Noise, reason: str) -> None:
    """Negative controls of check_laplace, each for its own reason (Repeating and Antithetic have fair seeds)."""
    with pytest.raises(AssertionError, match=reason):
        check_laplace(source, Fraction(2), l1=2)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        control(FloatLaplace(), "law of one cell"),
        control(IgnoredSensitivity(), "law of one cell", one_of_two(gaussian_two)),
        control(SharedDraw(), "law of one cell"),
        control(Antithetic(), "pairs of cells"),
        control(Repeating(), "two calls repeat"),
    ],
)
def test_wrong_gaussian_noise_is_rejected(source: Noise, reason: str) -> None:
    """Negative controls of check_gaussian, each for its own reason (Repeating and Antithetic have fair seeds)."""
    with pytest.raises(AssertionError, match=reason):
        check_gaussian(source, Fraction("0.1"), l2_squared=2)


@pytest.mark.chance(FALSE_ALARM)
@pytest.mark.parametrize("shift", [0, 10**6, -(10**15)])
def test_selection_is_the_exponential_mechanism(shift: int) -> None:
    """30,000 picks."""
    check_select(current(), shift)


def unseen_selection(law: Sequence[float]) -> float:
    return passes(merged(law), merged(selection_law(SCORES, Fraction(2), 1)), SELECTIONS)


def permute_and_flip() -> list[float]:
    """Its law: each order is as likely as any other, and in it the first that is accepted is the pick."""
    accepted = [math.exp(float(score - max(SCORES))) for score in SCORES]
    law, orders = [0.0] * len(SCORES), list(permutations(range(len(SCORES))))
    for order in orders:
        reached = 1 / len(orders)
        for i in order:
            law[i] += reached * accepted[i]
            reached *= 1 - accepted[i]
    return law


WRONG_LAWS = {
    "factor 2 lost": selection_law(SCORES, Fraction(4), 1),
    "epsilon 20% off": selection_law(SCORES, Fraction("1.6"), 1),
    "permute-and-flip": permute_and_flip(),
}


@pytest.mark.parametrize(
    ("source", "shift"),
    [
        *(
            pytest.param(source, 0, id=name, marks=pytest.mark.chance(unseen_selection(WRONG_LAWS[name])))
            for source, name in zip((WrongScale("2"), WrongScale("0.8"), PermuteAndFlip()), WRONG_LAWS, strict=True)
        ),
        pytest.param(FloatLaplace(), 10**6, id="overflow to a fair coin"),
    ],
)
def test_wrong_selection_is_rejected(source: Noise, shift: int) -> None:
    """Negative controls of check_select; the coin has a fair seed."""
    with pytest.raises(AssertionError, match="selection"):
        check_select(source, shift)


@pytest.mark.chance(FALSE_ALARM)
def test_selection_agrees_with_opendp() -> None:
    """An independent sampler of the same law (OpenDP's Gumbel noisy max) passes the same audit."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="f64", nan=False)), dp.linf_distance(T="f64")
    measurement = dp.m.make_noisy_max(*space, dp.zero_concentrated_divergence(), scale=1.0)

    class Gumbel(Noise):
        def select(
            self,
            scores: Sequence[int | Fraction | Decimal],
            *,
            sensitivity: int | Fraction | Decimal,
            epsilon: int | Fraction | Decimal,
            label: str,
        ) -> int:
            return int(measurement([float(score) for score in scores]))

    check_select(Gumbel())


@pytest.mark.chance(FALSE_ALARM)
@pytest.mark.parametrize("shift", [0, 10**6])
def test_selection_in_runs_is_the_exponential_mechanism(shift: int) -> None:
    """Runs of 1, 3, 1, 40 and 2 candidates, the largest far down, against the law by candidate."""
    sizes, scores = [1, 3, 1, 40, 2], [Fraction(s) + shift for s in ("0", "1", "2.5", "-1.5", "2")]
    each = [score for size, score in zip(sizes, scores, strict=True) for _ in range(size)]
    law = selection_law(each, Fraction(2), 1)
    picks = Counter(
        current().select_in_runs(sizes, scores, sensitivity=1, epsilon=Fraction(2), label="audit")
        for _ in range(SELECTIONS)
    )
    groups = [(0,), (1,), (2,), (3,), (4,), tuple(range(5, 45)), (45,), (46,)]
    assert_fits([sum(picks[i] for i in g) for g in groups], [sum(law[i] for i in g) for g in groups], "selection")


@pytest.mark.chance(FALSE_ALARM)
@pytest.mark.parametrize("gap", ["0", "1/7", "1", "5/2", "3", "1000000007/1000000000"])
def test_the_coin_of_a_selection_is_exact(gap: str) -> None:
    """True with probability e^-gap 2^halvings: a quarter off is seen but once in a thousand."""
    halvings, n = int(float(Fraction(gap)) / math.log(2)), 20_000
    exact = math.exp(-float(Fraction(gap))) * 2**halvings
    hits = sum(_bernoulli_scaled(Fraction(gap), halvings) for _ in range(n))
    if exact == 1.0:
        assert hits == n
        return
    assert_fits([hits, n - hits], [exact, 1 - exact], "coin")
    assert passes([0.75 * exact, 1 - 0.75 * exact], [exact, 1 - exact], n) < 0.001


def test_an_undecided_coin_draws_further_bits() -> None:
    """The enclosure is as narrow as it says, at every number of digits."""
    exact = Fraction(Context(prec=200).exp(Decimal(-1)))
    for digits in (28, 57, 120):
        assert abs(_scaled(Fraction(1), 1, digits) - 2 * exact) <= Fraction(1, 10**digits)
    assert _scaled(Fraction(10**12), 192, 28) == 0
