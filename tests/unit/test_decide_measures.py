"""Deciders: the truth without noise, what is charged, what one unit may change, and broken ones that are found.

A unit's loss is looked at twice. By code: a measure is run on D, its outputs frozen, and run again on a neighbour; the
audit of tests/privacy/replay.py prices what it drew. By law: ln of the ratio of the exact probabilities of each bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fix_decide_oracles as law
from fix_decide_tape import Fixed, ladder, ranks, violations
from pg_epsilon.accounting.charges import Charge, total_pure, total_rdp
from pg_epsilon.decide.averages import Direct
from pg_epsilon.decide.bits import Bit, Form
from pg_epsilon.decide.ranks import Hist, HistOne
from pg_epsilon.decide.sums import Sparse
from pg_epsilon.errors import DPError
from pg_epsilon.mechanisms.additive import Additive
from pg_epsilon.mechanisms.covering import Bound
from pg_epsilon.mechanisms.grain import Grained, grain_of
from pg_epsilon.mechanisms.group_by import Measure
from pg_epsilon.noise import current

SOME = settings(database=None, deadline=None, max_examples=60)
FEW = settings(database=None, deadline=None, max_examples=20)
HALF, THETA, ZERO = Fraction(1, 2), Decimal("0.95"), Decimal(0)
FORMS: tuple[Form, ...] = ("em", "naive", "unclamped", "randomised")
SLACK = 1e-9

TOP = 16
LEVELS = (2, 4, 8, 16)
VALUES = st.lists(st.integers(0, TOP), max_size=20)
EPSILONS = st.decimals(Decimal("0.05"), 4, places=2)
FRACTIONS = st.sampled_from([Fraction(1, 2), Fraction(1, 4), Fraction(9, 10), Fraction(1, 3)])
LOWS = st.fractions(-5, 60, max_denominator=4)
WIDTHS = st.fractions(Fraction(1, 4), 60, max_denominator=4)
THETAS = st.sampled_from([None, Decimal("0.5"), THETA])


def bit(measure: Measure, cell: Sequence[Any]) -> int:
    source: Any = Fixed()
    return measure.release([cell], source, "x")[0][0]


# --- without noise ------------------------------------------------------------------------------------------------


@SOME
@given(count=st.integers(0, 40), target=st.fractions(0, 40, max_denominator=6), tau=WIDTHS, epsilon=EPSILONS)
def test_a_bit_is_the_truth_without_noise(count: int, target: Fraction, tau: Fraction, epsilon: Decimal) -> None:
    """1 iff strictly within; at the end itself EM's two scores are equal, and it is a coin."""
    for form in FORMS:
        if abs(count - target) != tau or form in ("naive", "randomised"):
            assert bit(Bit(target, tau, 1, epsilon, form), [count]) == int(abs(count - target) < tau)


@SOME
@given(values=VALUES, low=LOWS, width=WIDTHS, epsilon=EPSILONS)
def test_svt_is_the_truth_without_noise(values: list[int], low: Fraction, width: Fraction, epsilon: Decimal) -> None:
    """dp-pqd.md §5.4: loop 1 fires iff the sum is at least r, loop 2 iff it is above l. Fractional ends (erratum 8)."""
    measure = Sparse(LEVELS, low, low + width, epsilon)
    assert bit(measure, ladder(values, 4)) == int(low < sum(values) < low + width)


@SOME
@given(values=st.lists(st.integers(0, TOP), min_size=1, max_size=20), low=LOWS, width=WIDTHS, fraction=FRACTIONS)
def test_ranks_are_the_truth_without_noise(
    values: list[int], low: Fraction, width: Fraction, fraction: Fraction
) -> None:
    """1 iff the ceil(p n)-th smallest value is strictly within; even n too (erratum 13)."""
    quantile = sorted(values)[math.ceil(fraction * len(values)) - 1]
    cell = ranks(values, low, low + width)
    for measure in (Hist(fraction, 1, Decimal(1)), HistOne(fraction, Decimal(1))):
        assert bit(measure, cell) == int(low < quantile < low + width)


@SOME
@given(values=st.lists(st.integers(-9, TOP), min_size=1, max_size=20), low=LOWS, width=WIDTHS)
def test_an_average_is_the_truth_without_noise(values: list[int], low: Fraction, width: Fraction) -> None:
    measure = Direct(low, low + width, (-9, TOP), Decimal(1))
    assert bit(measure, [sum(values), len(values)]) == int(low < Fraction(sum(values), len(values)) < low + width)


@SOME
@given(values=VALUES, theta=st.sampled_from([Decimal("0.01"), Decimal("0.5"), THETA, Decimal("0.999")]))
def test_the_bound_covers_theta_without_noise(values: list[int], theta: Decimal) -> None:
    """The least j with c_j >= theta n: exactly, where 0.95 * 20 is 19."""
    cell = ladder(values, 4)
    wanted = next(j for j in range(1, 5) if cell[j - 1] >= Fraction(theta) * len(values))
    assert bit(Bound(LEVELS, theta, Decimal(1)), cell) == wanted


def test_svt_improved_looks_at_the_levels_that_the_bound_kept() -> None:
    """960 rows of 10, 40 of 1000 (dp-pqd.md §5.5): without noise K = 4, the sum looks like 9600, and the bit is 0."""
    levels = tuple(2**j for j in range(1, 11))
    cell = ladder([10] * 960 + [1000] * 40, 10)
    ends = Fraction(44_640), Fraction(54_560)
    assert bit(Sparse(levels, *ends, Decimal(1), THETA), cell) == 0
    assert bit(Sparse(levels, *ends, Decimal(1), Decimal("0.99")), cell) == 1
    assert bit(Sparse(levels, *ends, Decimal(1)), cell) == 1


def test_numbers_of_any_size() -> None:
    """63 levels, sums near 2^62, huge tau: nothing saturates or overflows on the way."""
    levels = tuple(2**j for j in range(1, 64))
    cell = [0] * 61 + [1, 1] + [0] * 61 + [2**62, 2**62]
    assert bit(Sparse(levels, Fraction(2**62 - 1), Fraction(2**62 + 1), Decimal(1)), cell) == 1
    assert bit(Sparse(levels, Fraction(2**61), Fraction(2**62), Decimal(1)), cell) == 0
    wide = Bit(Fraction(10**9), Fraction(10**15), 1, Decimal(1000))
    assert {wide.release([[0]], current(), "x")[0][0] for _ in range(20)} == {1}  # log-odds 10^18


# --- shape and charge ---------------------------------------------------------------------------------------------

EPSILON = Decimal("0.7")
THIRD, SIXTH = Decimal("0.233333333333333333"), Decimal("0.35")
SHAPES: list[tuple[Measure, int, Charge]] = [
    (Bit(Fraction(5), Fraction(1), 1, EPSILON, "em"), 1, Charge.of("exponential", epsilon=EPSILON)),
    (Bit(Fraction(5), Fraction(1), 1, EPSILON, "naive"), 1, Charge.of("exponential", epsilon=EPSILON)),
    (Bit(Fraction(5), Fraction(1), 1, EPSILON, "unclamped"), 1, Charge.of("exponential", epsilon=EPSILON)),
    (Bit(Fraction(5), Fraction(1), 1, EPSILON, "randomised"), 1, Charge.of("laplace", epsilon=EPSILON)),
    (Hist(HALF, 3, EPSILON), 3, Charge.of("laplace", epsilon=EPSILON)),
    (HistOne(HALF, EPSILON), 3, Charge.of("laplace", epsilon=EPSILON)),
    (Direct(Fraction(1), Fraction(2), (0, 3), EPSILON), 2, Charge.of("laplace", epsilon=EPSILON)),
    (Bound(LEVELS, THETA, EPSILON), 8, Charge.of("pure", epsilon=EPSILON)),
    (Sparse(LEVELS, Fraction(1), Fraction(2), EPSILON, THETA), 8, Charge.of("svt_sum", epsilon=EPSILON)),
    (
        Sparse(LEVELS, Fraction(1), Fraction(2), EPSILON),
        8,
        Charge.of("above_threshold", threshold_epsilon=SIXTH, query_epsilon=SIXTH),
    ),
    (Grained(Additive(8, 64, EPSILON), 8), 1, Charge.of("laplace", epsilon=EPSILON)),
]


@pytest.mark.parametrize(("measure", "width", "charge"), SHAPES)
def test_shape_and_charge(measure: Measure, width: int, charge: Charge) -> None:
    """Width, one released integer, the charge; every cell its own answer; a bit but for the bound."""
    assert (measure.width, measure.released, measure.charges()) == (width, 1, (charge,))
    source: Any = Fixed()
    answers = measure.release([[0] * width, [5] * width, [0] * width], source, "x")
    assert [len(answer) for answer in answers] == [1, 1, 1]
    assert measure.release([], source, "x") == []


TINY = Decimal("1e-18")


@pytest.mark.parametrize(
    "build",
    [
        lambda: Hist(HALF, 1000, TINY),
        lambda: HistOne(Fraction(1, 3), TINY),
        lambda: Direct(Fraction(1), Fraction(2), (0, 3), TINY),
        lambda: Bound(LEVELS, THETA, 2 * TINY),
        lambda: Sparse(LEVELS, Fraction(1), Fraction(2), TINY),
        lambda: Sparse(LEVELS, Fraction(1), Fraction(2), 8 * TINY, THETA),
    ],
)
def test_what_could_not_be_drawn_is_refused_when_it_is_built(build: Callable[[], Measure]) -> None:
    """So before the charge: DP005, and no error of the noise source after it (rules R2, R5)."""
    with pytest.raises(DPError) as refused:
        build()
    assert refused.value.sqlstate == "DP005"
    assert refused.value.hint


@pytest.mark.parametrize("parts", [2, 3, 9])
@pytest.mark.parametrize("epsilon", [Decimal("0.1"), Decimal(1), Decimal("0.000000000000000031"), Decimal(1000)])
def test_the_parts_never_exceed_the_whole(parts: int, epsilon: Decimal) -> None:
    """What a sparse vector draws for adds up to its charge at most, and falls short by less than 1e-17."""
    measure: Measure = {
        2: Sparse(LEVELS, Fraction(1), Fraction(2), epsilon),
        3: Bound(LEVELS, THETA, epsilon),
        9: Sparse(LEVELS, Fraction(1), Fraction(2), epsilon, THETA),
    }[parts]
    source: Any = Fixed()
    measure.release([ladder([3] * 9, 4)], source, "x")
    names = ("epsilon", "threshold_epsilon", "query_epsilon")
    drawn = sum(Fraction(asked[name]) for asked in source.asked for name in names if name in asked)
    paid = Fraction(total_pure(measure.charges())[0])
    assert 0 <= paid - drawn < Fraction(1, 10**17)
    assert paid <= Fraction(epsilon)


def test_improved_splits_as_printed() -> None:
    """dp-pqd.md §7: the bound's noises are 9/epsilon each, the core's 3/epsilon, and the gaps follow one threshold."""
    source: Any = Fixed()
    Sparse(LEVELS, Fraction(10), Fraction(20), Decimal("0.9"), THETA).release([ladder([3] * 9, 4)], source, "x")
    n, bound, core = source.asked
    shares = [how[name] for how in (bound, core) for name in ("threshold_epsilon", "query_epsilon")]
    scales = [float(1 / Fraction(part)) for part in (n["epsilon"], *shares)]
    assert scales == pytest.approx([10, 10, 10, 10 / 3, 10 / 3])
    assert (len(bound["gaps"]), len(core["gaps"])) == (4, 2 * 2)


@pytest.mark.parametrize(
    ("scale", "grain"),
    [(1e-9, 2**20), (1.0, 2**20), (1.5, 2**20), (2.0, 2**19), (10.0, 2**17), (2.0**20, 1), (1e300, 1)],
)
def test_the_grain_is_the_smallest_that_suffices(scale: float, grain: int) -> None:
    assert grain_of(scale) == grain
    assert grain == 2**20 or scale * grain >= 2**20


def test_grained_multiplies_and_nothing_else() -> None:
    source: Any = Fixed()
    assert Grained(Additive(8, 64, EPSILON), 8).release([[5], [-2]], source, "y") == [(40,), (-16,)]
    assert source.asked == [{"exact": [40, -16], "l1_sensitivity": 8, "epsilon": Fraction(7, 10), "label": "y"}]


# --- what one unit may change: by code ----------------------------------------------------------------------------


@SOME
@given(
    values=VALUES,
    more=st.lists(st.integers(0, TOP), min_size=1, max_size=3),
    low=LOWS,
    width=WIDTHS,
    fraction=FRACTIONS,
    theta=THETAS,
    epsilon=EPSILONS,
)
def test_no_unit_costs_more_than_the_charge(
    values: list[int],
    more: list[int],
    low: Fraction,
    width: Fraction,
    fraction: Fraction,
    theta: Decimal | None,
    epsilon: Decimal,
) -> None:
    """Every decider, a row added or removed (for those that take users: a unit of up to three rows)."""
    high, kappa, one = low + width, len(more), values + more[:1]
    cases: list[tuple[Measure, Sequence[int], Sequence[int]]] = [
        (Bit((low + high) / 2, width / 2, kappa, epsilon, "em"), [len(values)], [len(values) + kappa]),
        *[(Bit((low + high) / 2, width / 2, 1, epsilon, f), [len(values)], [len(one)]) for f in FORMS],
        (Hist(fraction, kappa, epsilon), ranks(values, low, high), ranks(values + more, low, high)),
        (HistOne(fraction, epsilon), ranks(values, low, high), ranks(one, low, high)),
        (Direct(low, high, (0, TOP), epsilon), [sum(values), len(values)], [sum(one), len(one)]),
        (Bound(LEVELS, theta or THETA, epsilon), ladder(values, 4), ladder(one, 4)),
        (Sparse(LEVELS, low, high, epsilon, theta), ladder(values, 4), ladder(one, 4)),
    ]
    for measure, less, greater in cases:
        assert violations(measure, less, greater) == []
        assert violations(measure, greater, less) == []


# --- what one unit may change: by law -----------------------------------------------------------------------------


def loss(one: Callable[[int], float], two: Callable[[int], float]) -> float:
    """The worse of the two bits: |ln Pr - ln Pr'|."""
    return max(abs(math.log(one(o)) - math.log(two(o))) for o in (0, 1))


Law = Callable[[int], float]


def laws(values: Sequence[int], low: Fraction, high: Fraction, p: Fraction, e: Decimal) -> dict[str, Law]:
    """The exact law of every direct decider on these rows, row units."""
    cell, n, third = ladder(values, 4), len(values), Fraction(e) / 3
    middle, tau, half = (low + high) / 2, (high - low) / 2, Fraction(e) / 2

    def bit_law(form: str) -> Law:
        return lambda o: 1 / (1 + math.exp((1 - 2 * o) * law.logit(n, middle, tau, e, form)))

    return {
        **{form: bit_law(form) for form in FORMS},
        "hist": lambda o: law.hist(*ranks(values, low, high), p, e, bit=o),
        "hist_one": lambda o: law.hist_one(*ranks(values, low, high), p, e, bit=o),
        "avg_direct": lambda o: law.avg_direct(sum(values), n, low, high, (0, TOP), e, bit=o),
        "svt_basic": lambda o: law.svt(cell[4:], low, high, half, half, o),
        "svt": lambda o: law.svt_improved(cell[:4], cell[4:], low, high, third * 3, THETA, o),
    }


@pytest.mark.long
@FEW
@given(values=VALUES, more=st.integers(0, TOP), low=LOWS, width=WIDTHS, fraction=FRACTIONS, epsilon=EPSILONS)
def test_no_row_moves_a_bit_by_more_than_epsilon(
    values: list[int], more: int, low: Fraction, width: Fraction, fraction: Fraction, epsilon: Decimal
) -> None:
    one, two = (laws(v, low, low + width, fraction, epsilon) for v in (values, [*values, more]))
    for name in one:
        assert loss(one[name], two[name]) <= float(epsilon) + SLACK, name


ORDERS = tuple(map(Decimal, (2, 8, 64)))


def measures(low: Fraction, high: Fraction, fraction: Fraction, epsilon: Decimal) -> dict[str, Measure]:
    """The deciders of `laws`, for their charges."""
    return {
        **{form: Bit((low + high) / 2, (high - low) / 2, 1, epsilon, form) for form in FORMS},
        "hist": Hist(fraction, 1, epsilon),
        "hist_one": HistOne(fraction, epsilon),
        "avg_direct": Direct(low, high, (0, TOP), epsilon),
        "svt_basic": Sparse(LEVELS, low, high, epsilon),
        "svt": Sparse(LEVELS, low, high, epsilon, THETA),
    }


def divergence(one: Law, two: Law, order: Decimal) -> float:
    """The Rényi divergence of order a of one bit from another, either way: ln(sum p^a q^(1 - a)) / (a - 1)."""
    a, found = float(order), 0.0
    for p, q in ((one, two), (two, one)):
        terms = [a * math.log(p(o)) + (1 - a) * math.log(q(o)) for o in (0, 1)]
        found = max(found, max(terms) + math.log(sum(math.exp(t - max(terms)) for t in terms)))
    return found / (a - 1)


@pytest.mark.long
@FEW
@given(values=VALUES, more=st.integers(0, TOP), low=LOWS, width=WIDTHS, fraction=FRACTIONS, epsilon=EPSILONS)
def test_no_bit_s_divergence_exceeds_the_charge(
    values: list[int], more: int, low: Fraction, width: Fraction, fraction: Fraction, epsilon: Decimal
) -> None:
    """On a Rényi dataset: the divergences of the exact laws against the charge's own curve (composition.md §4)."""
    one, two = (laws(v, low, low + width, fraction, epsilon) for v in (values, [*values, more]))
    for name, measure in measures(low, low + width, fraction, epsilon).items():
        curves = total_rdp(measure.charges(), ORDERS)
        for order, paid in zip(ORDERS, curves, strict=True):
            assert divergence(one[name], two[name], order) <= float(paid) + SLACK, (name, order)


def test_randomised_response_is_not_of_bounded_range() -> None:
    """Why it is charged as pure: it attains P(epsilon, a), four times the curve of a selection at small epsilon."""
    e = Decimal("0.1")
    inside, outside = (lambda o, z=z: 1 / (1 + math.exp((1 - 2 * o) * z)) for z in (0.1, -0.1))
    paid, cheaper = (Charge.of(kind, epsilon=e).rdp([Decimal(2)])[0] for kind in ("laplace", "exponential"))
    assert math.isclose(divergence(inside, outside, Decimal(2)), float(paid), rel_tol=1e-9)
    assert divergence(inside, outside, Decimal(2)) > 3.9 * float(cheaper)


@FEW
@given(values=VALUES, more=st.integers(0, TOP), epsilon=EPSILONS, theta=st.sampled_from([Decimal("0.5"), THETA]))
def test_no_row_moves_the_bound_by_more_than_epsilon(
    values: list[int], more: int, epsilon: Decimal, theta: Decimal
) -> None:
    one, two = (law.bound_law(ladder(v, 4)[:4], theta, epsilon) for v in (values, [*values, more]))
    for p, q in zip(one, two, strict=True):
        assert abs(p - q) <= 1e-9 or abs(math.log(p / q)) <= float(epsilon) + 1e-6


@FEW
@given(values=VALUES, more=st.integers(0, TOP), epsilon=EPSILONS, fraction=FRACTIONS)
def test_no_row_moves_a_chosen_value_by_more_than_epsilon(
    values: list[int], more: int, epsilon: Decimal, fraction: Fraction
) -> None:
    """EM_med as printed and with ties; tight with its own calibration. Log-odds, which is more (bounded range)."""
    for form, moved in (("printed", 1), ("ties", 1), ("ties", max(fraction, 1 - fraction))):
        one, two = (law.em_pmf(v, range(TOP + 1), fraction, epsilon, form, moved) for v in (values, [*values, more]))
        moves = [math.log(p / q) for p, q in zip(one, two, strict=True)]
        assert max(moves) - min(moves) <= float(epsilon) + SLACK


@FEW
@given(values=VALUES, more=st.integers(0, TOP), low=LOWS, width=WIDTHS, epsilon=EPSILONS, data=st.data())
def test_no_row_moves_the_string_of_svt_by_more_than_epsilon(
    values: list[int], more: int, low: Fraction, width: Fraction, epsilon: Decimal, data: st.DataObject
) -> None:
    """Which comparison fired, or none: more than the bit, and still epsilon (erratum 9: the string without any)."""
    index = data.draw(st.sampled_from([None, *range(8)]))
    scale = 2 / float(epsilon)
    one, two = (law.svt_gaps(ladder(v, 4)[4:], low, low + width) for v in (values, [*values, more]))
    moved = law.run_law(one, index, scale, scale) - law.run_law(two, index, scale, scale)
    assert abs(moved) <= float(epsilon) * (0.5 if index is None else 1) + SLACK


def test_the_bounds_are_approached() -> None:
    """Some row costs each of these all of epsilon, to the second decimal: the checks above have teeth."""
    four, six, fives = Fraction(4), Fraction(6), [5] * 20
    pairs = {
        "em": ([0] * 12, [0] * 13, Fraction(30), Fraction(70)),
        "unclamped": ([0] * 12, [0] * 13, Fraction(30), Fraction(70)),
        "randomised": ([0] * 5, [0] * 6, four, six),
        "hist_one": (fives, [*fives, 0], four, six),
        "avg_direct": ([0] * 200, [*[0] * 200, 16], four, six),
    }
    for name, (one, two, low, high) in pairs.items():
        first, second = (laws(values, low, high, HALF, Decimal(1))[name] for values in (one, two))
        assert round(loss(first, second), 2) == 1.0, name


# --- broken ones, which the same checks find ----------------------------------------------------------------------


def raw_exp(count: int, target: int, tau: float, epsilon: float) -> float:
    """EM_count as in the paper's prototype: weights by exp of the raw scores (dp-pqd.md §2.5)."""
    near = max(0.0, 1 - abs(count - target) / (2 * tau))
    weights = []
    for score in (near, 1 - near):
        try:
            weights.append(math.exp(epsilon * tau * score))
        except OverflowError:
            weights.append(math.inf)
    share = weights[0] / sum(weights)
    return 0.5 if math.isnan(share) else share


def test_raw_exponentials_are_found() -> None:
    """At epsilon tau = 800 a row more makes its bit, which was certain, a coin; ours moves its log-odds by epsilon."""
    counts = range(4000, 6000)
    broken = [raw_exp(count, 5000, 800, 1) for count in counts]
    assert (1.0, 0.5) in pairwise(broken)
    logits = [law.logit(count, 5000, 800, 1) for count in counts]
    assert max(abs(a - b) for a, b in pairwise(logits)) <= 1


def test_a_redrawn_threshold_is_found() -> None:
    """Each loop of SVT with its own run of AboveThreshold: dearer than what is charged."""

    class Redrawn(Sparse):
        def release(self, exact: Any, noise: Any, label: str) -> Any:
            whole: Any = Fixed()
            super().release(exact, whole, label)
            asked = whole.asked[-1]
            gaps, half = asked.pop("gaps"), len(self.levels)
            if noise.first_above(gaps[:half], **asked) is not None:
                return [(0,)]
            return [(int(noise.first_above(gaps[half:], **asked) is not None),)]

    measure = Redrawn(LEVELS, Fraction(500), Fraction(10**6), Decimal(1))
    cell = ladder([5] * 100, 4)
    assert "price" in violations(measure, cell, ladder([5] * 101, 4))
    assert violations(Sparse(LEVELS, Fraction(500), Fraction(10**6), Decimal(1)), cell, ladder([5] * 101, 4)) == []


def test_tau_zero_is_found_in_hist() -> None:
    """l = r: a row at the synthetic median is in both counts, and moves three numbers instead of two."""
    rows = [3] * 9
    one, two = (ranks(values, 3, 3) for values in (rows, [*rows, 3]))
    assert "sensitivity" in violations(Hist(HALF, 1, Decimal(1)), one, two)
    assert "loss" in violations(Hist(HALF, 1, Decimal(1)), one, two)


def test_a_user_as_a_row_is_found_in_hist() -> None:
    """Three rows of a unit, declared as one; on both sides, where "disjoint, so parallel" would have it cost one."""
    rows = [1, 2, 3, 4, 5]
    one, two = (ranks(values, 2, 4) for values in (rows, [*rows, 1, 5, 5]))
    assert "sensitivity" in violations(Hist(HALF, 1, Decimal(1)), one, two)
    assert violations(Hist(HALF, 3, Decimal(1)), one, two) == []


def test_a_negative_value_is_found_in_svt() -> None:
    """dp-pqd.md §2.3: one row of -64 with GS = 8, epsilon 2. All levels fall by much: audit and law say so."""
    rows = [8] * 20
    sums = [ladder(values, 3)[3:] for values in (rows, [*rows, -64])]
    cells = [ladder(values, 3) for values in (rows, [*rows, -64])]
    measure = Sparse((2, 4, 8), Fraction(100), Fraction(150), Decimal(2))
    assert "sensitivity" in violations(measure, *cells)
    worst = max(
        abs(math.log(law.svt(sums[0], 100 + k, 150 + k, 1, 1, o) / law.svt(sums[1], 100 + k, 150 + k, 1, 1, o)))
        for k in range(-150, 150, 10)
        for o in (0, 1)
    )
    assert worst > 2


def test_a_value_above_the_ladder_is_found_in_avg_direct() -> None:
    """A sum that was not clamped to the declared ends."""
    measure = Direct(Fraction(4), Fraction(6), (0, 16), Decimal(1))
    assert "sensitivity" in violations(measure, [50, 10], [150, 11])


def test_gaps_in_two_directions_are_found() -> None:
    """A ladder whose level falls while another rises, each by less than the sensitivity: AboveThreshold forbids it."""
    measure = Sparse((2, 4), Fraction(5), Fraction(9), Decimal(1))
    assert "sensitivity" in violations(measure, [1, 2, 2, 6], [2, 3, 3, 5])
