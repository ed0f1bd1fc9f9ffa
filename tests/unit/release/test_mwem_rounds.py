"""Budget and rounds (numeric-release.md §0.0, §2, §3)."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from fractions import Fraction

import pytest
from mwem_cases import fraction
from release_vectors import cases, same

from pg_epsilon.errors import DPError
from pg_epsilon.release.rounds import (
    charge_of,
    eps0_of,
    helps,
    rounds_auto,
    rounds_of_theory,
    shares,
    theory_alpha,
    unspent,
)

EPS0, BUDGETS, ROUNDS, THEORY = cases("eps0"), cases("budget"), cases("rounds"), cases("theory_alpha")


@pytest.mark.parametrize("name", EPS0)
def test_epsilon_of_a_round(name: str) -> None:
    asked = EPS0[name]["input"]
    found = eps0_of(fraction(asked["epsilon"]), fraction(asked["delta"]), asked["T"])
    assert same({"eps0": found}, EPS0[name]["expected"])


@pytest.mark.parametrize("rounds", [30, 100, 1000])
def test_epsilon_of_a_round_never_exceeds_its_formula(rounds: int) -> None:
    delta = Fraction(1, 10**6)
    found = float(eps0_of(Fraction(1), delta, rounds))
    spent = found * math.sqrt(2 * rounds * math.log(10**6)) + rounds * found * math.expm1(found)
    assert 1 - 1e-11 < spent < 1
    assert found > 1 / rounds


@pytest.mark.parametrize("name", BUDGETS)
def test_shares_of_a_budget(name: str) -> None:
    asked = BUDGETS[name]["input"]
    parts = [fraction(asked.get(share, 0.02 if share == "share_n" else 0.1)) for share in ("share_n", "share_alpha")]
    found = shares(fraction(asked["epsilon"]), *parts)
    assert same({"n": found.scale, "alpha": found.alpha, "pmw": found.rounds}, BUDGETS[name]["expected"])
    assert found.scale + found.alpha + found.rounds == fraction(asked["epsilon"])


@pytest.mark.parametrize("name", ROUNDS)
def test_rounds_that_are_best(name: str) -> None:
    asked = ROUNDS[name]["input"]
    sizes = (asked["n"], asked["cells"], asked["candidates"])
    found = {
        "T": rounds_auto(fraction(asked["epsilon"]), fraction(asked["delta"]), *sizes),
        "closed_form": rounds_of_theory(asked["epsilon"], *sizes),
    }
    assert same(found, ROUNDS[name]["expected"])


@pytest.mark.parametrize("name", THEORY)
def test_error_of_theory(name: str) -> None:
    asked = THEORY[name]["input"]
    found = theory_alpha(asked["n"], asked["cells"], asked["candidates"], asked["eps0"], asked["T"])
    assert same({"alpha": found}, THEORY[name]["expected"])


@pytest.mark.parametrize(("delta", "rounds"), [(Fraction(0), 10), (Fraction(1, 10**6), 10), (Fraction(1, 10**6), 100)])
def test_what_comes_back_of_rounds_that_were_not_drawn(delta: Fraction, rounds: int) -> None:
    """All of it at first, less with every round, nothing at the end; never more than was not spent."""
    left = [unspent(Fraction(1), delta, rounds, done) for done in range(rounds + 1)]
    assert 1 - 1e-9 < left[0] <= 1
    assert left[-1] == 0
    assert all(before > after for before, after in itertools.pairwise(left))
    if rounds == 10:
        assert left == [Fraction(rounds - done, rounds) for done in range(rounds + 1)]


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(8)])
def test_from_some_number_of_rounds_on_delta_helps(epsilon: Fraction) -> None:
    """Once it helps it does with every round more, so that the price by the largest number covers all of them."""
    found = [helps(epsilon, Fraction(1, 10**6), rounds) for rounds in range(1, 201)]
    first = found.index(True)
    assert found == [False] * first + [True] * (200 - first)
    assert 27 <= first <= 45
    assert not any(helps(epsilon, Fraction(0), rounds) for rounds in (1, 30, 200))


def test_what_rounds_cost() -> None:
    """delta where it helps alone; the whole of epsilon, whatever the number of rounds; no curve."""
    one, delta = Fraction(1), Fraction(1, 10**6)
    dear = charge_of(one, delta, 100)
    assert dear.to_json() == {"kind": "advanced", "epsilon": "1", "delta": "0.000001"}
    assert dear.pure() == (1, Decimal("0.000001"))
    assert charge_of(one, delta, 10).to_json() == {"kind": "rounds", "epsilon": "1", "rounds": "1"}
    assert charge_of(one, Fraction(0), 100, 100).to_json() == {"kind": "rounds", "epsilon": "1", "rounds": "100"}
    with pytest.raises(DPError, match="no Rényi cost") as refused:
        dear.rdp([Decimal(2)])
    assert refused.value.hint
