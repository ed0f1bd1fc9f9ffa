"""Charges in native form: exact sums, rounding against us, the table of composition.md §4, the ledger's JSON."""

from __future__ import annotations

import decimal
import json
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pg_epsilon.accounting.charges import KINDS, Charge, add, share, total_delta, total_pure, total_rdp
from pg_epsilon.accounting.curves import DEFAULT_ORDERS, bounded_range_to_rdp, pure_to_rdp
from pg_epsilon.errors import DPError

SOME = settings(database=None, deadline=None, max_examples=80)
ZERO = Decimal(0)
AMOUNTS = st.decimals(Decimal("1e-18"), 1000, places=18)
HALVES = st.decimals(Decimal("1e-18"), 500, places=18)


def charges() -> st.SearchStrategy[Charge]:
    return st.one_of(
        st.builds(lambda e: Charge.of("laplace", epsilon=e), AMOUNTS),
        st.builds(lambda e: Charge.of("exponential", epsilon=e), AMOUNTS),
        st.builds(lambda r: Charge.of("gaussian", rho=r), AMOUNTS),
        st.builds(lambda e: Charge.of("svt_sum", epsilon=e), AMOUNTS),
        st.builds(lambda e, q: Charge.of("above_threshold", threshold_epsilon=e, query_epsilon=q), HALVES, HALVES),
        st.builds(
            lambda e, d: Charge.of("import", epsilon=e, delta=d), AMOUNTS, st.decimals(0, Decimal("0.99"), places=18)
        ),
    )


def test_ten_tenths_are_exactly_one() -> None:
    assert total_pure([Charge.of("laplace", epsilon=Decimal("0.1"))] * 10) == (Decimal(1), ZERO)


@SOME
@given(amounts=st.lists(AMOUNTS, max_size=30))
def test_pure_sums_are_exact(amounts: list[Decimal]) -> None:
    """Whatever precision the caller's decimal context has."""
    with decimal.localcontext(prec=5):
        epsilon, delta = total_pure([Charge.of("laplace", epsilon=amount) for amount in amounts])
    assert Fraction(epsilon) == sum(map(Fraction, amounts))
    assert delta == 0


def test_a_sum_that_would_round_is_an_error_and_not_a_wrong_sum() -> None:
    with pytest.raises(decimal.Inexact):
        add([Decimal(10) ** 50, Decimal("1e-18")])


def test_the_table() -> None:
    """composition.md §4, row by row."""
    epsilon, rho, delta = Decimal("0.5"), Decimal("0.125"), Decimal("1e-7")
    p = tuple(pure_to_rdp(epsilon, a) for a in DEFAULT_ORDERS)
    laplace, gaussian = Charge.of("laplace", epsilon=epsilon), Charge.of("gaussian", rho=rho)
    exponential = Charge.of("exponential", epsilon=epsilon)
    imported = Charge.of("import", epsilon=epsilon, delta=delta)
    assert (laplace.pure(), laplace.rdp(DEFAULT_ORDERS), laplace.delta) == ((epsilon, ZERO), p, ZERO)
    assert (gaussian.rdp(DEFAULT_ORDERS), gaussian.delta) == (tuple(a * rho for a in DEFAULT_ORDERS), ZERO)
    assert exponential.pure() == (epsilon, ZERO)
    assert exponential.rdp(DEFAULT_ORDERS) == tuple(bounded_range_to_rdp(epsilon, a) for a in DEFAULT_ORDERS)
    assert exponential.rdp([Decimal(2)])[0] == Decimal("0.0625") < p[0]
    assert (imported.pure(), imported.rdp(DEFAULT_ORDERS), imported.delta) == ((epsilon, delta), p, delta)


def test_the_table_of_sparse_vectors() -> None:
    """composition.md §4: AboveThreshold P(e1 + e2); SVT_sum improved P(e/3) + P(2e/3), which is less than P(e)."""
    third, epsilon = Decimal("0.3"), Decimal("0.9")
    run = Charge.of("above_threshold", threshold_epsilon=third, query_epsilon=2 * third)
    improved, pure = Charge.of("svt_sum", epsilon=epsilon), Charge.of("pure", epsilon=epsilon)
    p = tuple(pure_to_rdp(epsilon, a) for a in DEFAULT_ORDERS)
    assert [one.pure() for one in (run, improved, pure)] == [(epsilon, ZERO)] * 3
    assert run.rdp(DEFAULT_ORDERS) == pure.rdp(DEFAULT_ORDERS) == p
    parts = tuple(pure_to_rdp(third, a) + pure_to_rdp(2 * third, a) for a in DEFAULT_ORDERS)
    assert improved.rdp(DEFAULT_ORDERS) == parts
    assert all(0 < part < whole for part, whole in zip(parts, p, strict=True))
    assert not any(one.delta for one in (run, improved, pure))


def test_a_gaussian_on_a_pure_dataset_is_dp005_with_a_hint() -> None:
    with pytest.raises(DPError) as refused:
        total_pure([Charge.of("laplace", epsilon=1), Charge.of("gaussian", rho=1)])
    assert refused.value.sqlstate == "DP005"
    assert refused.value.hint is not None
    assert "renyi" in refused.value.hint


@SOME
@given(listed=st.lists(charges(), max_size=6))
def test_a_list_is_the_sum_of_its_charges(listed: list[Charge]) -> None:
    orders = DEFAULT_ORDERS[::5]
    total = total_rdp(listed, orders)
    for i, order in enumerate(orders):
        assert Fraction(total[i]) == sum(Fraction(charge.rdp([order])[0]) for charge in listed)
    assert Fraction(total_delta(listed)) == sum(Fraction(charge.delta) for charge in listed)


def test_nothing_costs_nothing() -> None:
    assert total_pure([]) == (ZERO, ZERO)
    assert total_rdp([], DEFAULT_ORDERS) == (0,) * len(DEFAULT_ORDERS)
    assert total_delta([]) == 0


@SOME
@given(charge=charges())
def test_json_keeps_the_native_form(charge: Charge) -> None:
    """§3.5: what is read back is what was entered, and not a converted figure."""
    document = json.loads(json.dumps(charge.to_json()))
    assert set(document) == {"kind", *KINDS[charge.kind].parameters}
    assert all("E" not in text for text in document.values())
    assert Charge.from_json(document) == charge


def test_json_is_plain() -> None:
    assert Charge.of("laplace", epsilon=Decimal("0.10")).to_json() == {"kind": "laplace", "epsilon": "0.1"}
    assert Charge.of("laplace", epsilon=100).to_json() == {"kind": "laplace", "epsilon": "100"}
    assert Charge.of("import", epsilon=Decimal("1e-3"), delta=0).to_json() == {
        "kind": "import",
        "epsilon": "0.001",
        "delta": "0",
    }


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"kind": "laplace"},
        {"kind": "none", "epsilon": "1"},
        {"kind": "laplace", "rho": "1"},
        {"kind": "laplace", "epsilon": "1", "delta": "0"},
        {"kind": "laplace", "epsilon": "a"},
    ],
)
def test_a_charge_of_another_shape_is_dp003(document: dict[str, str]) -> None:
    with pytest.raises(DPError) as refused:
        Charge.from_json(document)
    assert refused.value.sqlstate == "DP003"
    assert refused.value.hint


@pytest.mark.parametrize("epsilon", [0, -1, 1001, Decimal("NaN"), Decimal("-Infinity")])
def test_a_charge_out_of_range_is_dp005(epsilon: int | Decimal) -> None:
    for kind, name in (("laplace", "epsilon"), ("gaussian", "rho"), ("exponential", "epsilon")):
        with pytest.raises(DPError) as refused:
            Charge.of(kind, **{name: epsilon})
        assert refused.value.sqlstate == "DP005"
    for delta in (-1, 1, Decimal("NaN")):
        with pytest.raises(DPError):
            Charge.of("import", epsilon=1, delta=delta)


def test_long_amounts_are_rounded_up() -> None:
    """A third is charged as 0.333…4, and 1e-30 as 1e-18: never less than was drawn, and never 0."""
    assert Charge.of("laplace", epsilon=Fraction(1, 3)).pure()[0] == Decimal("0.333333333333333334")
    assert Charge.of("laplace", epsilon=Decimal("1e-30")).pure()[0] == Decimal("1e-18")


@SOME
@given(amount=AMOUNTS, parts=st.integers(1, 50))
def test_shares_fit_into_the_amount(amount: Decimal, parts: int) -> None:
    """§14.3: parts times the share is at most the amount, and the next larger share would not fit."""
    part = Fraction(share(amount, parts))
    assert parts * part <= Fraction(amount) < parts * (part + Fraction(1, 10**18))


@pytest.mark.parametrize("rounds", [1, 2, 10, 200])
def test_rounds(rounds: int) -> None:
    """T (a e^2 / 32 + P(e / 2, a)), e a round's epsilon (composition.md §4), and no more than P(epsilon, a)."""
    epsilon = Decimal("0.5")
    charge = Charge.of("rounds", epsilon=epsilon, rounds=rounds)
    assert charge.pure() == (epsilon, ZERO)
    each = Fraction(epsilon) / rounds
    for order, found in zip(DEFAULT_ORDERS, charge.rdp(DEFAULT_ORDERS), strict=True):
        half = pure_to_rdp(Decimal(float(each / 2)), order)
        choice = min(Fraction(half), Fraction(order) * each**2 / 32)
        law = min(rounds * (choice + Fraction(half)), Fraction(pure_to_rdp(epsilon, order)))
        assert float(found) == pytest.approx(float(law), rel=1e-9)
        assert found <= pure_to_rdp(epsilon, order)
    if rounds > 1:
        fewer = Charge.of("rounds", epsilon=epsilon, rounds=rounds // 2)
        assert all(a <= b for a, b in zip(charge.rdp(DEFAULT_ORDERS), fewer.rdp(DEFAULT_ORDERS), strict=True))


def test_parts_are_those_of_a_ladder() -> None:
    parts, levels = Charge.of("parts", epsilon=2, parts=40), Charge.of("r2t", epsilon=2, levels=40)
    assert parts.rdp(DEFAULT_ORDERS) == levels.rdp(DEFAULT_ORDERS) and parts.pure() == levels.pure()


@pytest.mark.parametrize("number", [0, 1001, Fraction(1, 2), -1])
@pytest.mark.parametrize(("kind", "name"), [("r2t", "levels"), ("parts", "parts"), ("rounds", "rounds")])
def test_a_number_of_mechanisms_that_is_none(kind: str, name: str, number: Fraction | int) -> None:
    with pytest.raises(DPError, match=f"{name} must be an integer from 1 to 1000") as refused:
        Charge.of(kind, epsilon=1, **{name: number})
    assert refused.value.sqlstate == "DP005" and refused.value.hint
