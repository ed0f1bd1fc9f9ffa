"""Weights of a workload's queries, and what `auto` may not do to any of them (sum-workloads.md §0)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from test_workload_core import LATTICE, batch, workload

from pg_epsilon.errors import DPError
from pg_epsilon.mechanisms.matrix.strategies import Strategy
from pg_epsilon.workload import designs as choices
from pg_epsilon.workload import shown
from pg_epsilon.workload.ask import compile_workload
from pg_epsilon.workload.designs import designs, mean_variance, separate, weights_apart

EDGES = [100, 200, 300, 400, 1000]
SUMS: dict[str, Any] = {"aggregates": ["sum"]}


def test_a_heavier_query_is_nearer() -> None:
    """A hundred times the weight on one query: it is nearer, and the weighted total is less, than without."""
    heavy = workload(EDGES, weights=[1, 1, 100, 1, 1], **SUMS)
    with_weights, plain = (designs(one, 1000, gaussian=False)[0] for one in (heavy, workload(EDGES, **SUMS)))
    assert with_weights.factors[2] < plain.factors[2]
    assert mean_variance(heavy, with_weights.factors) < mean_variance(heavy, plain.factors)


@pytest.mark.parametrize("aggregates", [["sum"], ["sum", "count", "avg"], ["avg"]], ids=str)
def test_equal_weights_are_none(aggregates: list[str]) -> None:
    """The same strategy, whatever they are; errors are a mean."""
    plain, equal = (workload(EDGES, aggregates=aggregates, **more) for more in ({}, {"weights": [1] * 5}))
    found, again = (designs(one, 1000, gaussian=False)[0] for one in (plain, equal))
    assert (again.name, again.total) == (found.name, pytest.approx(found.total, rel=1e-3))
    assert mean_variance(equal, found.factors) == pytest.approx(mean_variance(plain, found.factors))


def test_weights_of_equal_queries_add_up() -> None:
    asked = workload([200, 100, 200, 1000], weights=[1, 2, 3, "0.5"], **SUMS)
    assert weights_apart(asked).tolist() == [4, 2, 0.5]
    of_ranges = compile_workload(
        {
            "workload": {
                "thresholds": [100, 200],
                "matrix": [[1, -1], [2, 0], [1, -1]],
                "options": {"weights": [1, 5, 2]},
            }
        },
        LATTICE,
        None,
    )
    assert of_ranges is not None
    assert weights_apart(of_ranges).tolist() == [3, 5]


def test_weights_are_a_part_of_the_question() -> None:
    """And questions without are named as before."""
    plain = workload(EDGES, **SUMS)
    assert "weights" not in plain.canonical()["options"]
    assert workload(EDGES, weights=[1, 2, 3, 4, 5], **SUMS).text != plain.text


@pytest.mark.parametrize(
    "given", [[1, 2], [1, 1, 1, 1, 0], [1, 1, 1, 1, -1], [1, 1, 1, 1, 10**7], ["x"] * 5, 3], ids=str
)
def test_weights_that_are_none_are_refused(given: Any) -> None:
    with pytest.raises(DPError) as refused:
        workload(EDGES, weights=given, **SUMS)
    assert refused.value.sqlstate in ("DP003", "DP005")
    assert refused.value.hint


@pytest.mark.parametrize("gaussian", [False, True])
def test_no_prefix_is_further_off_than_by_itself(gaussian: bool) -> None:
    """Of two or more different ones, at any thresholds: merged identity alone sees to that (§0)."""
    numbers = random.Random(30)
    for count in (2, 3, 5, 9):
        for _ in range(4):
            asked = workload(sorted(numbers.sample(range(1, 1001), count)), **SUMS)
            best = designs(asked, 1000, gaussian=gaussian)[0]
            assert (best.factors <= separate(asked, 1000, gaussian=gaussian) * (1 + 1e-9)).all()


def test_auto_leaves_out_what_sacrifices_a_query(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two strategies of which the one of less total error has one query further off than by itself."""
    asked = workload([10, 1000], **SUMS)
    cruel, fair = np.array([[0.01, 1], [0.3, 0]]), np.diag([1, 0.9])

    def two(_: Any, columns: Any, *__: Any, **___: Any) -> Iterator[tuple[str, Any]]:
        for name, matrix in (("cruel", cruel), ("fair", fair)) if len(columns.columns) == 2 else ():
            yield name, partial(Strategy, name, matrix)

    monkeypatch.setattr(choices, "_strategies", two)
    monkeypatch.setattr(choices.strategies, "tightened", lambda strategy, **_: strategy)
    best, other = designs(asked, 1000, gaussian=False)
    alone = separate(asked, 1000, gaussian=False)
    assert [bool((one.factors <= alone).all()) for one in (best, other)] == [True, False]
    assert (best.name, other.total < best.total) == ("fair", True)


def test_what_each_query_costs_by_itself_is_told() -> None:
    """Of three queries: three times its own threshold, at the whole budget of .9."""
    how = batch(workload([100, 300, 1000], isotonic="off", **SUMS))
    alone = shown.errors(how, 1000)[shown.ALONE]
    assert alone == pytest.approx([3 * edge * 2**0.5 / 0.9 for edge in (100, 300, 1000)], rel=1e-3)
    told = {one["strategy"]: one["expected_rmse"] for one in shown.facts(how, 1000, None)["candidates"]}
    assert told[shown.ALONE] == pytest.approx((sum(one**2 for one in alone) / 3) ** 0.5, rel=1e-3)
    assert told[shown.ALONE] > shown.facts(how, 1000, None)["expected_rmse"]
