"""What an owner may choose for a Turbo view, and what payments and paths are said to be."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest

from pg_epsilon.accounting.charges import Charge
from pg_epsilon.errors import OUT_OF_RANGE, DPError
from pg_epsilon.turbo.bins import Domain
from pg_epsilon.turbo.books import Payment
from pg_epsilon.turbo.calibration import epoch_charge
from pg_epsilon.turbo.payer import total
from pg_epsilon.turbo.request import path_text
from pg_epsilon.turbo.settings import KNOBS, check, is_auto, view_of
from pg_epsilon.turbo.shown import candidates_text

DOMAIN = Domain((4, 2))
ALPHA, BETA = Decimal("0.05"), Decimal("0.001")

WRONG: list[dict[str, Any]] = [
    {"taus": 0.1},
    {"tau": 0},
    {"tau": 0.6},
    {"c0": -1},
    {"c0": True},
    {"c0": 1.5},
    {"learning_rates": []},
    {"learning_rates": [0]},
    {"learning_rates": "0.5"},
    {"longest_window": 6},
    {"sv_scope": "all"},
    {"per_bin": 1},
    {"failure": 1},
    {"mix": 2},
    {"forecast": 0},
    {"workload": [{"where": 3}]},
    {"workload": [{"from": "t"}]},
    {"workload": {}},
]


@pytest.mark.parametrize("settings", WRONG, ids=str)
def test_settings_that_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(DPError) as refused:
        check(settings)
    assert refused.value.sqlstate == OUT_OF_RANGE
    assert refused.value.hint


def test_every_setting_reaches_the_view() -> None:
    """And the defaults are those of turbo.md §14."""
    plain = view_of(DOMAIN, ALPHA, BETA, {}, partitioned=False)
    assert (plain.heuristic.tau, plain.heuristic.c0, plain.heuristic.s0, plain.warm) == (0.05, 100, 5, False)
    tree = view_of(DOMAIN, ALPHA, BETA, {}, partitioned=True)
    assert (tree.heuristic.c0, tree.heuristic.s0, tree.warm, tree.planner, tree.scope) == (50, 5, True, "tree", "run")
    own = {"c0": 3, "s0": 0, "tau": 0.25, "learning_rates": [0.5, 0.1], "per_bin": False, "bypass_limit": 7}
    own |= {"split": "flat", "sv_scope": "window", "longest_window": 8, "mix": 0.1, "free_only": True, "mode": "pmw"}
    check(own)
    view = view_of(DOMAIN, ALPHA, BETA, own, partitioned=True)
    assert (view.heuristic.c0, view.heuristic.s0, view.heuristic.tau) == (3, 0, 0.25)
    assert view.heuristic.rates == ((50.0, 0.5), (math.inf, 0.1))
    assert (view.heuristic.per_bin, view.heuristic.bypass_limit, view.planner, view.scope) == (
        False,
        7,
        "flat",
        "window",
    )
    assert (view.longest, view.mix, view.free_only, view.mode, view.prices.printed) == (8, 0.1, True, "pmw", True)
    assert {"planner", "forecast", "workload"} <= KNOBS.keys()


def test_guaranteed_convergence_is_for_one_node() -> None:
    view = view_of(DOMAIN, ALPHA, BETA, {"convergence": "guaranteed", "queries": 100}, partitioned=False)
    assert view.heuristic.tau == 0.5
    assert view.prices.beta < Decimal("0.001")
    for settings, partitioned in (({}, True), ({"noise": "gaussian"}, False), ({"mode": "pmw"}, False)):
        with pytest.raises(DPError):
            view_of(DOMAIN, ALPHA, BETA, {"convergence": "guaranteed", **settings}, partitioned=partitioned)


@pytest.mark.parametrize(
    ("settings", "partitioned", "right"),
    [
        ({"forecast": 10}, False, True),
        ({"forecast": 10, "partitions": 5}, True, True),
        ({"forecast": 10}, True, False),
        ({"partitions": 5}, True, False),
        ({"partitions": 5}, False, False),
        ({"forecast": 10, "partitions": 5}, False, False),
    ],
)
def test_a_forecast_on_partitions_says_how_many(settings: dict[str, int], partitioned: bool, right: bool) -> None:
    check(settings)
    if right:
        view_of(DOMAIN, ALPHA, BETA, settings, partitioned=partitioned)
        return
    with pytest.raises(DPError) as refused:
        view_of(DOMAIN, ALPHA, BETA, settings, partitioned=partitioned)
    assert refused.value.sqlstate == "DP005" and "partitions" in str(refused.value) and refused.value.hint


def test_what_the_planner_may_choose() -> None:
    assert is_auto({})
    assert is_auto({"planner": "auto", "forecast": 3})
    assert not is_auto({"planner": "turbo"})
    assert not is_auto({"mode": "pmw"})
    assert not is_auto({"convergence": "guaranteed"})


def test_payments_on_disjoint_partitions_are_parallel() -> None:
    """The dearest partition's sum; an epoch counts with all of its 3 epsilon."""
    noise, hard = Charge.of("laplace", epsilon=Decimal("0.1")), Charge.of("laplace", epsilon=Decimal("0.25"))
    payments = [
        Payment(0, 3, noise, "node"),
        Payment(4, 7, hard, "node"),
        Payment(2, 2, epoch_charge(Decimal("0.02")), "epoch"),
    ]
    assert total(payments) == {"epsilon": "0.25"}
    assert total([*payments, Payment(2, 3, hard, "hard")]) == {"epsilon": "0.41"}
    assert total([]) == {}


def test_words() -> None:
    assert path_text(["r1", "exact", "r1"]) == "histogram (PASS), exact"
    assert path_text([]) == "public"
    assert candidates_text(["epoch", "hard"], []) == "histogram, a new epoch of the sparse vector, noise after a FAIL"
    assert candidates_text(["hard"], ["exact"]) == "histogram, noise after a FAIL, exact"
    assert candidates_text([], []) == "exact"
