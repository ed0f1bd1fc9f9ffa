"""Intervals of averages and of their differences, against their definitions and all draws."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest
from explain_forms import NONE, halves, law

from pg_epsilon.explain import averages, joint
from pg_epsilon.explain.forms import HALF, Halves, Noise, Pair
from pg_epsilon.explain.laplace import mixed_tail
from pg_epsilon.explain.quantiles import joint_square, two_sided

MISS = 0.05
RELEASES = [(52, 100), (-30, 40), (0, 25), (19, 20), (-3, 400), (7, 9), (3, 2), (-12, 5)]
FAMILIES = ("gaussian", "laplace")


def noise(family: str, scale: float = 1.0, half: Fraction = HALF) -> Noise:
    return Noise("gaussian" if family == "gaussian" else "laplace", scale, half)


def is_contradicted(form: Halves, theta: float) -> bool:
    """By the definition of Fieller's set."""
    x = theta - float(form.centre)
    s, c = form.total.noise, form.count.noise
    rest = abs(form.total.number - x * form.count.number) - s.half - abs(x) * c.half
    if s.is_gaussian:
        return rest > two_sided(MISS) * math.hypot(s.scale, x * c.scale)
    return mixed_tail(rest, s.scale, abs(x) * c.scale) < MISS


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("total", "count"), RELEASES)
def test_fieller_is_what_is_not_contradicted(family: str, total: int, count: int) -> None:
    """Not outside, on a grid of the range; and inside all of it, unless that is the whole range."""
    form = halves(total, count, noise(family, 2.0), low=-1, high=1, centre=0)
    low, high = averages.fieller(form, MISS)
    for theta in (k / 500 - 1 for k in range(1001)):
        if theta < low - 1e-9 or theta > high + 1e-9:
            assert is_contradicted(form, theta), theta
        elif low + 1e-9 < theta < high - 1e-9 and (low, high) != (-1, 1):
            assert not is_contradicted(form, theta), theta


def test_a_small_count_with_laplace_noise_says_something() -> None:
    """One end at least, where Fieller's set is no interval on the whole line."""
    low, high = averages.fieller(halves(30, 3, noise("laplace"), low=-10, high=100), MISS)
    assert (4 < low < 5, high) == (True, 100)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_centre_moves_the_interval(family: str) -> None:
    plain = averages.fieller(halves(7, 40, noise(family), low=-9, high=9), MISS)
    moved = averages.fieller(halves(7, 40, noise(family), low=91, high=109, centre=100), MISS)
    assert moved == pytest.approx([end + 100 for end in plain], rel=1e-12)


@pytest.mark.parametrize("rule", [averages.box, averages.box_tight])
def test_boxes_keep_the_centre(rule: object) -> None:
    assert callable(rule)
    plain = rule(halves(7, 40, noise("gaussian"), low=-9, high=9), MISS)
    moved = rule(halves(7, 40, noise("gaussian"), low=91, high=109, centre=100), MISS)
    assert moved == pytest.approx([end + 100 for end in plain], rel=1e-12)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("total", "count"), [(3, 2), (5, -40), (900, 30), (-900, 30)])
def test_what_says_nothing_gives_the_range(family: str, total: int, count: int) -> None:
    form = halves(total, count, noise(family), low=-2, high=5)
    assert averages.fieller(form, MISS) == (-2, 5)


def test_below_which_count_nothing_is_said() -> None:
    """Half a step and the quantile of the count's own noise, with Gaussian noise."""
    for off, is_whole in ((-0.001, True), (0.001, False)):
        form = halves(1, 0.5 + two_sided(MISS) + off, noise("gaussian"), low=-(10**9), high=10**9)
        assert (averages.fieller(form, MISS) == (-(10**9), 10**9)) == is_whole


@pytest.mark.parametrize(
    ("form", "limits"),
    [
        (halves(30, 3, noise("laplace"), low=-1000, high=100), (-1000, 100)),
        (halves(30, 2, noise("gaussian"), low=-1000, high=100), (-1000, 100)),
        (Pair(5, -5, noise("laplace"), 0, 1), (0, 1)),
        (Pair(-5, -8, noise("laplace"), 0, 1), (0, 1)),
        (Pair(5, -5, noise("gaussian"), 0, 1), (0, 1)),
        (Pair(3.4, -2.5, noise("laplace"), 0, 1), (0, 1)),
    ],
)
def test_a_set_of_two_parts_gives_the_range(form: averages.Average, limits: averages.Ends) -> None:
    """Both ends of the range are not contradicted, the middle is."""
    assert averages.fieller(form, MISS) == limits


def test_the_step_is_the_values_unit() -> None:
    form = halves(7, 40, noise("gaussian"), low=-9, high=9)
    cents = Halves(form.total, form.count, Fraction(1, 100), -9, 9)
    ends = averages.fieller(form, MISS)
    assert averages.fieller(cents, MISS) == pytest.approx([end / 100 for end in ends], rel=1e-12)


def test_a_count_interval_below_one_gives_the_range() -> None:
    """Also where it does not hold 0: a group with an average has one row at least."""
    form = halves(0.4, 0.7, noise("gaussian", 0.05, NONE))
    assert averages.box_tight(form, MISS) == (0, 1)
    assert averages.box(form, MISS)[1] < 0.9


@pytest.mark.parametrize("family", FAMILIES)
def test_a_larger_confidence_gives_a_wider_interval(family: str) -> None:
    form = halves(31, 60, noise(family))
    rules = (averages.fieller, averages.box, averages.box_tight)
    for rule in rules:
        ends = [rule(form, miss) for miss in (0.5, 0.1, 0.01, 0.0001)]
        assert all(b[0] <= a[0] and a[1] <= b[1] for a, b in itertools.pairwise(ends))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("a", "b"), [(60, 40), (2, 70), (0, 50), (3, 1), (-20, 60), (-5, -8)])
def test_a_pairs_interval_is_what_is_not_contradicted(family: str, a: int, b: int) -> None:
    form = Pair(a, b, noise(family, 2.0), 0, 1)
    low, high = averages.fieller(form, MISS)
    assert 0 <= low <= high <= 1
    for theta in (k / 500 for k in range(501)):
        rest = abs((1 - theta) * a - theta * b) - 0.5
        if family == "gaussian":
            is_out = rest > two_sided(MISS) * 2 * math.hypot(1 - theta, theta)
        else:
            is_out = mixed_tail(rest, 2 * (1 - theta), 2 * theta) < MISS
        if not is_out:
            assert low - 1e-9 <= theta <= high + 1e-9
        elif (low, high) != (0, 1):
            assert not low + 1e-9 < theta < high - 1e-9


def covered(n: int, k: int, law_of: Noise, known: Noise) -> float:
    """Pr[the interval holds k/n] for n rows, k of them 1; `known`: the noise that it assumes."""
    draws, found = list(law(law_of)), 0.0
    for (s, mass), (c, share) in itertools.product(draws, draws):
        low, high = averages.fieller(halves(k + s, n + c, known), MISS)
        found += mass * share * (low - 1e-12 <= k / n <= high + 1e-12)
    return found


# A column of 0 and 1 at epsilon = 2 and rho = 1: half of it for each part, sensitivity 1.
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("n", "k"), [(20, 1), (20, 10), (10, 3), (3, 1), (2, 2)])
def test_an_average_of_zeros_and_ones_is_covered(family: str, n: int, k: int) -> None:
    assert covered(n, k, noise(family), noise(family)) >= 1 - MISS


def test_without_half_steps_too_little_coverage_is_found() -> None:
    """Control: the same interval as if the noise were continuous."""
    assert covered(20, 1, noise("gaussian"), noise("gaussian", half=NONE)) < 0.93


def exact_upper(first: Halves, second: Halves, square: float) -> float:
    """The supremum over s on a fine grid: from below."""
    best = -math.inf
    for k in range(4001):
        x = math.pi / 2 * k / 4000
        high = averages.upper(first)(math.sqrt(square) * math.sin(x))
        low = averages.lower(second)(math.sqrt(square) * math.cos(x))
        best = max(best, averages.clamped((0, 1), high, 1.0) - averages.clamped((0, 1), low, 0.0))
    return best


Counts = tuple[int, int]
COUPLES = [((60, 100), (30, 100)), ((3, 9), (10, 11)), ((5, 200), (190, 200))]


@pytest.mark.parametrize(("first", "second"), COUPLES)
def test_the_joint_region_is_outward_and_near(first: Counts, second: Counts) -> None:
    square = joint_square(MISS, 2)
    a, b = (halves(*each, noise("gaussian", 2.0)) for each in (first, second))
    low, high = joint.difference(a, b, square)
    assert exact_upper(a, b, square) <= high <= exact_upper(a, b, square) + 0.01 * (high - low)
    assert -exact_upper(b, a, square) >= low >= -exact_upper(b, a, square) - 0.01 * (high - low)


def test_the_joint_region_is_symmetric() -> None:
    a, b = halves(60, 100, noise("gaussian", 2.0)), halves(30, 100, noise("gaussian", 3.0))
    low, high = joint.difference(a, b, 5.53)
    assert joint.difference(b, a, 5.53) == (-high, -low)


def test_the_joint_region_is_narrower_than_two_intervals() -> None:
    """For names chosen among any number of groups: .74 to .87 of Bonferroni and Fieller."""
    known = noise("gaussian", 10.0)
    a, b = halves(6000, 10000, known), halves(3000, 10000, known)
    for groups in (2, 5, 20, 50):
        low, high = joint.difference(a, b, joint_square(MISS, groups))
        parts = [averages.fieller(each, MISS / groups) for each in (a, b)]
        assert 0.7 < (high - low) / sum(end[1] - end[0] for end in parts) < 0.88


def test_an_average_of_unknown_count_is_anywhere_in_the_joint_region() -> None:
    a, b = halves(1, 1, noise("gaussian", 2.0)), halves(3000, 10000, noise("gaussian", 2.0))
    low, high = joint.difference(a, b, 5.53)
    assert -0.31 < low < -0.29
    assert 0.69 < high < 0.71


@pytest.mark.long
def test_differences_of_two_small_averages_are_covered() -> None:
    """All draws of four cells with deviation 1/2, but for those beyond 2: these count as misses."""
    n, k, true = 6, (4, 1), 0.5
    own = noise("gaussian", 0.5)
    draws = [(z, mass) for z, mass in law(own) if abs(z) <= 2]
    square, found = joint_square(MISS, 2), 0.0
    for drawn in itertools.product(draws, repeat=4):
        (s, p), (c, q), (t, u), (d, v) = drawn
        first, second = halves(k[0] + s, n + c, own), halves(k[1] + t, n + d, own)
        low, high = joint.difference(first, second, square)
        found += p * q * u * v * (low - 1e-12 <= true <= high + 1e-12)
    assert found >= 1 - MISS
