"""Rényi curves and caps: spec vectors, rigorous rounding, and dp-accounting as an oracle."""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction

import pytest
from dp_accounting import rdp
from hypothesis import given, settings
from hypothesis import strategies as st

from pg_epsilon.accounting.charges import Charge
from pg_epsilon.accounting.curves import (
    DEFAULT_ORDERS,
    bounded_range_to_rdp,
    checked_orders,
    gaussian_to_rdp,
    part_of_pure,
    part_of_rounds,
    pure_to_rdp,
    renyi_cap,
    round_down,
    round_up,
)
from pg_epsilon.errors import DPError

SOME = settings(database=None, deadline=None, max_examples=80)
EPSILONS = st.decimals(Decimal("1e-9"), 20, places=9)
ORDERS = st.decimals(Decimal("1.01"), 2000, places=2)
EXACT = Context(prec=120)
STEP = Decimal("1e-18")


def reference(epsilon: Decimal, order: Decimal) -> Decimal:
    """P by its definition in turbo.md §6.2, with 120 digits: (1/(a-1)) ln{(sinh(a e) - sinh((a-1) e)) / sinh e}."""
    c = Context(prec=120 + int(order * epsilon))

    def sinh(x: Decimal) -> Decimal:
        return c.divide(c.subtract(c.exp(x), c.exp(-x)), Decimal(2))

    top = c.subtract(sinh(c.multiply(order, epsilon)), sinh(c.multiply(order - 1, epsilon)))
    return c.divide(c.ln(c.divide(top, sinh(epsilon))), order - 1)


def discrete_laplace_rdp(epsilon: float, order: float) -> float:
    """The true Rényi divergence of DLap(epsilon) and its shift by 1: by its sum, to 1e-12."""
    p = math.exp(-epsilon)
    reach = math.ceil(45 / epsilon)
    terms = [
        (1 - p) / (1 + p) * math.exp(-epsilon * (order * abs(k) - (order - 1) * abs(k - 1)))
        for k in range(-reach, reach + 1)
    ]
    return math.log(math.fsum(terms)) / (order - 1)


@pytest.mark.parametrize(("order", "printed"), [(2, "8.996627e-4"), (16, "6.954318e-3"), (64, "1.958170e-2")])
def test_spec_vectors(order: int, printed: str) -> None:
    """turbo.md §13: pure->RDP at epsilon 0.03."""
    assert float(pure_to_rdp(Decimal("0.03"), Decimal(order))) == pytest.approx(float(printed), rel=1e-6)


@settings(SOME, max_examples=30)
@given(epsilon=EPSILONS, order=st.decimals(Decimal("1.01"), 100, places=2))
def test_the_curve_is_rounded_up_by_less_than_one_unit(epsilon: Decimal, order: Decimal) -> None:
    """Against the printed formula in 120 digits: P <= ours <= P + 1e-18 + 1e-44."""
    exact, ours = reference(epsilon, order), pure_to_rdp(epsilon, order)
    assert exact <= ours <= EXACT.add(exact, STEP + Decimal("1e-44"))


@SOME
@given(epsilon=EPSILONS, order=ORDERS)
def test_the_curve_is_below_its_two_bounds(epsilon: Decimal, order: Decimal) -> None:
    """P <= min(epsilon, a epsilon^2 / 2), up to the last digit."""
    ours = pure_to_rdp(epsilon, order)
    assert 0 < ours <= epsilon
    assert ours <= EXACT.multiply(order, EXACT.multiply(epsilon, epsilon)) / 2 + STEP


@SOME
@given(epsilon=EPSILONS, order=ORDERS)
def test_the_curve_grows_with_epsilon_and_order(epsilon: Decimal, order: Decimal) -> None:
    assert pure_to_rdp(epsilon, order) <= pure_to_rdp(epsilon + Decimal("0.001"), order)
    assert pure_to_rdp(epsilon, order) <= pure_to_rdp(epsilon, order + 1)


@pytest.mark.parametrize("epsilon", ["0.03", "0.5", "1", "4"])
@pytest.mark.parametrize("order", ["1.5", "2", "8", "64"])
def test_the_curve_covers_discrete_laplace_noise(epsilon: str, order: str) -> None:
    """P is the true divergence of discrete noise (its loss is always +-epsilon), above the continuous one (E-23)."""
    a, e = float(order), float(epsilon)
    true = discrete_laplace_rdp(e, a)
    share = a / (2 * a - 1)
    continuous = math.log(share * math.exp((a - 1) * e) + (1 - share) * math.exp(-a * e)) / (a - 1)
    assert true > continuous
    assert float(pure_to_rdp(Decimal(epsilon), Decimal(order))) == pytest.approx(true, rel=1e-9)


@pytest.mark.parametrize("epsilon", ["0.03", "1", "4"])
def test_randomised_response_attains_the_curve(epsilon: str) -> None:
    """Two outcomes, odds e^epsilon: its Rényi divergence is P, so no smaller curve holds for all pure mechanisms."""
    q = 1 / (1 + math.exp(-float(epsilon)))
    for order in DEFAULT_ORDERS[:12]:
        a = float(order)
        divergence = math.log(q**a * (1 - q) ** (1 - a) + (1 - q) ** a * q ** (1 - a)) / (a - 1)
        assert float(pure_to_rdp(Decimal(epsilon), order)) == pytest.approx(divergence, rel=1e-9)


def test_extremes_of_the_curve() -> None:
    assert pure_to_rdp(Decimal(0), Decimal(2)) == 0
    assert pure_to_rdp(Decimal("1e-18"), Decimal(2)) == STEP  # 1e-36 rounded up, and never 0
    assert pure_to_rdp(Decimal(1000), Decimal(10**6)) <= 1000
    assert pure_to_rdp(Decimal("0.1"), Decimal(10**6)) < Decimal("0.1")
    for epsilon in ("-1", "1001", "NaN", "Infinity"):
        with pytest.raises(DPError) as refused:
            pure_to_rdp(Decimal(epsilon), Decimal(2))
        assert refused.value.sqlstate == "DP005"


PARTS = ["1e-9", "0.00002", "0.001", "0.02", "0.3", "1.1", "7", "40", "300"]


@pytest.mark.parametrize("order", ["1.001", "1.5", "2", "17", "1000", "1000000"])
def test_what_is_taken_back_leaves_what_was_spent(order: str) -> None:
    """With the true cost between what is computed and a unit less, at every order."""
    a, unit = Decimal(order), Decimal("1e-18")
    for used in map(Decimal, PARTS):
        for back in map(Decimal, PARTS):
            part = part_of_pure(Fraction(back))
            assert 0 <= part <= back
            left = pure_to_rdp(used + back, a) - pure_to_rdp(part, a)
            assert left >= pure_to_rdp(used, a) - unit, (used, back)


@pytest.mark.parametrize("order", ["1.001", "2", "17", "1000000"])
@pytest.mark.parametrize("rounds", [2, 7, 200])
@pytest.mark.parametrize("exactly", [True, False], ids=["declared", "chosen"])
def test_rounds_that_are_taken_back_leave_those_that_were_drawn(order: str, rounds: int, exactly: bool) -> None:
    """With the true cost of a round up to three units below what is computed, and one round or all of them charged."""
    a, unit = Decimal(order), Decimal("1e-18")
    for each in [Fraction(part) for part in PARTS[1:7] if Fraction(part) * rounds <= 1000]:
        epsilon = each * rounds

        def cost(amount: Fraction, many: int) -> Decimal:
            return Charge.of("rounds", epsilon=amount, rounds=many).rdp([a])[0]

        charged = cost(epsilon, rounds if exactly else 1)
        for done in {1, rounds // 2, rounds - 1}:
            part = part_of_rounds(each, rounds - done)
            assert (rounds - done) * each * (1 - Fraction(1, 10**6)) <= Fraction(part) <= (rounds - done) * each
            left = charged - cost(Fraction(part), rounds - done)
            assert left >= cost(each * done, done) - (3 * done + 1) * unit, (each, done)
            assert left >= 0


def test_nearly_all_is_taken_back() -> None:
    """But of so little that rounding could take it: nothing."""
    assert part_of_pure(Fraction(0)) == part_of_pure(Fraction(1, 10**9)) == 0
    for text in PARTS[1:]:
        assert part_of_pure(Fraction(text)) >= Decimal(text) * (1 - Decimal("1e-6"))


def test_gaussian_and_bounded_range_rows() -> None:
    """composition.md §4: a rho, and min(P, a e^2 / 8): exact decimals stay exact, others are rounded up."""
    assert gaussian_to_rdp(Decimal("0.1"), Decimal(3)) == Decimal("0.3")
    assert gaussian_to_rdp(Decimal("1e-18"), Decimal("1.5")) == Decimal("2e-18")
    assert bounded_range_to_rdp(Decimal("0.2"), Decimal(4)) == Decimal("0.02")
    large = Decimal(8)
    assert bounded_range_to_rdp(large, Decimal(64)) == pure_to_rdp(large, Decimal(64))
    oracle = rdp.rdp_privacy_accountant._compute_rdp_poisson_subsampled_gaussian(1.0, 2.0, [2, 8, 32])
    for order, expected in zip((2, 8, 32), oracle, strict=True):
        assert float(gaussian_to_rdp(Decimal("0.125"), Decimal(order))) == pytest.approx(expected)


def oracle_epsilon(curve: dict[Decimal, Decimal], delta: float) -> float:
    """dp-accounting's conversion of a curve at these orders to epsilon."""
    orders = [float(a) for a in curve]
    return float(rdp.compute_epsilon(orders, [float(r) for r in curve.values()], delta)[0])


@pytest.mark.parametrize("epsilon", ["0.1", "1", "4", "10"])
@pytest.mark.parametrize("delta", ["1e-9", "1e-7", "1e-5"])
def test_the_cap_is_a_valid_and_tight_conversion(epsilon: str, delta: str) -> None:
    """An account stopped at any one order's cap is (epsilon, delta/|A+|)-DP by dp-accounting's conversion too, and not
    less: the union over A+ is the whole price. dp-accounting's order-wise formula is the same theorem.
    """
    caps = renyi_cap(Decimal(epsilon), Decimal(delta), DEFAULT_ORDERS)
    assert caps
    for order, cap in caps.items():
        assert cap > 0
        converted = oracle_epsilon({order: cap}, float(delta) / len(caps))
        assert converted == pytest.approx(float(epsilon), rel=1e-9)


def test_the_kept_orders_are_the_largest_consistent_set() -> None:
    """§3.4 by brute force: with m orders kept, all caps computed with m; one more would leave a cap that is not > 0."""
    for text in ("0.05", "0.3", "1", "3", "10"):
        for delta in ("1e-9", "1e-6", "0.01"):
            sizes = {}
            for m in range(1, len(DEFAULT_ORDERS) + 1):
                union = math.log(m / float(delta))
                caps = {
                    a: float(text) - (union - math.log(a)) / (float(a) - 1) - math.log1p(-1 / float(a))
                    for a in DEFAULT_ORDERS
                }
                sizes[m] = sum(cap > 0 for cap in caps.values())
            consistent = [m for m, positive in sizes.items() if positive >= m]
            if not consistent:
                with pytest.raises(DPError):
                    renyi_cap(Decimal(text), Decimal(delta), DEFAULT_ORDERS)
                continue
            assert len(renyi_cap(Decimal(text), Decimal(delta), DEFAULT_ORDERS)) == max(consistent)


def test_a_jump_in_the_number_of_positive_caps_keeps_the_largest() -> None:
    """Three nearly equal orders turn positive together. A kept set never exceeds the count that its caps assume."""
    orders = checked_orders([Decimal("20"), Decimal("20.001"), Decimal("20.002")])
    seen = set()
    for thousandth in range(480, 680):
        try:
            caps = renyi_cap(Decimal(thousandth) / 1000, Decimal("1e-6"), orders)
        except DPError:
            continue
        seen.add(len(caps))
        union = math.log(len(caps) / 1e-6)
        for a, cap in caps.items():
            expected = thousandth / 1000 - (union - math.log(a)) / (float(a) - 1) - math.log1p(-1 / float(a))
            assert 0 < float(cap) == pytest.approx(expected, abs=1e-12)
    assert seen == {1, 2, 3}


def test_caps_round_down_and_refuse_nonsense() -> None:
    cap = renyi_cap(Decimal(1), Decimal("1e-6"), (Decimal(64),))[Decimal(64)]
    c = Context(prec=100)
    exact = c.subtract(
        c.subtract(Decimal(1), c.divide(c.subtract(-c.ln(Decimal("1e-6")), c.ln(Decimal(64))), Decimal(63))),
        c.ln(c.divide(Decimal(63), Decimal(64))),
    )
    assert c.subtract(exact, STEP + Decimal("1e-44")) <= cap <= exact
    for epsilon, delta in (("0.0001", "1e-9"), ("0", "1e-6"), ("1", "0"), ("1", "1"), ("NaN", "1e-6")):
        with pytest.raises(DPError) as refused:
            renyi_cap(Decimal(epsilon), Decimal(delta), DEFAULT_ORDERS)
        assert refused.value.sqlstate == "DP005"
        assert refused.value.hint


def test_orders_are_checked() -> None:
    assert checked_orders([Decimal("1.5"), 2, 16]) == (Decimal("1.5"), Decimal(2), Decimal(16))
    assert checked_orders(DEFAULT_ORDERS) == DEFAULT_ORDERS
    for wrong in ([], [1], [2, 2], [3, 2], [Decimal("1.0005")], [10**7], [Decimal("2.0001")], [Decimal("NaN")]):
        with pytest.raises(DPError) as refused:
            checked_orders(wrong)
        assert refused.value.sqlstate == "DP005"


@SOME
@given(value=st.decimals(-100, 100, places=25))
def test_rounding_is_exact_or_against_us(value: Decimal) -> None:
    up, down = round_up(value), round_down(value)
    assert down <= value <= up
    assert EXACT.subtract(up, down) in (0, STEP)
    short = value.quantize(STEP)
    assert round_up(short) == round_down(short) == short
