"""Few bits for entries of a strategy: what is drawn answers, or is refused (sum-workloads.md §0, §13)."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from test_workload_core import NoNoise, text

from pg_epsilon.errors import DPError
from pg_epsilon.mechanisms.matrix import strategies
from pg_epsilon.mechanisms.matrix.lattice import LEAST_BITS, LOSS, on_lattice, survives
from pg_epsilon.mechanisms.matrix.queries import Written, prefixes
from pg_epsilon.mechanisms.matrix.strategies import Strategy
from pg_epsilon.plan import Plan
from pg_epsilon.query.bounds import Lattice
from pg_epsilon.workload import shown
from pg_epsilon.workload.ask import compile_workload
from pg_epsilon.workload.batch import Batch, core
from pg_epsilon.workload.running import RunningSums
from pg_epsilon.workload.thresholds import threshold
from unit.policies import column, document, planned, row_policy

CENTS = 10**8  # of a million: 2^27 steps, which leave 5 bits beside the 2^30 rows of a relation without max_rows
SURE = Decimal("0.95")


def batch(queries: int, bits: int, *, rho: str | None = None, **options: Any) -> Batch:
    """So many thresholds up to a million, and so many rows that this many bits are left for the heaviest bucket."""
    lattice = Lattice("x", 0, CENTS, Fraction(1, 100), whole=False)
    given = {
        "thresholds": [str(10**6 * (k + 1) // queries) for k in range(queries)],
        "options": {"isotonic": "off", **options},
    }
    asked = compile_workload({"workload": given}, lattice, None)
    assert asked is not None
    ways = threshold(asked.options, CENTS, lattice.step, 1, None)
    most_rows = (2 ** (62 - bits) - 1) // CENTS
    return Batch(asked, ways, 1, most_rows, None if rho else Decimal("0.9"), Decimal(rho) if rho else None)


@pytest.mark.parametrize("bits", range(LEAST_BITS, 8))
def test_identity_always_survives(bits: int) -> None:
    """What everything falls back on, at the fewest bits: random weights, no deviation beyond the stated part."""
    numbers = np.random.default_rng(bits)
    for _ in range(40):
        count = int(numbers.integers(1, 30))
        weights = [int(one) for one in np.sort(numbers.integers(1, 2 ** int(numbers.integers(1, 30)), count))]
        most_rows = (2 ** (62 - bits) - 1) // weights[-1]
        drawn = on_lattice(strategies.identity(count), weights, most_rows)
        assert drawn.factor == weights[-1] << bits
        target = Written.of(prefixes(range(1, count + 1), count).dense() * np.array(weights))
        assert survives(drawn, strategies.identity(count), target)


def test_a_strategy_whose_entries_vanish_is_found() -> None:
    """The control: 200 prefixes drawn for themselves have entries of 1/200, of which nothing is left at 5 bits: every
    answer was 0, with bars of no width."""
    target = prefixes([1 + k % 100 for k in range(200)], 100)
    whole, rows = strategies.workload(target), (2 ** (62 - 5) - 1) // 10**6
    drawn = on_lattice(whole, [10**6] * 100, rows)
    assert not drawn.rows and not survives(drawn, whole, target)
    fine = on_lattice(whole, [10**6] * 100, 100)
    assert survives(fine, whole, target)


def test_an_answer_that_follows_from_nothing_that_is_left_is_found() -> None:
    """One column's only entry vanishes: the others answer as before, that one's query does not."""
    given = Strategy("given", np.array([[1.0, 0.0], [0.0, 0.05]]))
    drawn = on_lattice(given, [10, 10], (2**59 - 1) // 10)
    assert drawn.rows == (((0, 8),),)
    assert survives(drawn, given, Written.of(np.array([[1.0, 0.0]])))
    assert not survives(drawn, given, Written.of(np.array([[1.0, 0.0], [0.0, 1.0]])))


def test_entries_that_shrink_are_found() -> None:
    """Spanned still, but 1.44 times as noisy as predicted; where a large entry stands beside, it does no harm."""
    target = Written.of(np.eye(2))
    for extra, expected in (([], False), ([[0.0, 0.82]], True)):
        given = Strategy("given", np.array([[1.0, 0.0], [0.0, 0.18], *extra]))
        drawn = on_lattice(given, [10, 10], (2**59 - 1) // 10)
        assert drawn.rows[1] == ((1, 1),)
        assert strategies.spans(drawn.strategy("given"), target)
        assert survives(drawn, given, target) is expected


ALL: list[dict[str, Any]] = [
    {},
    {"aggregates": ["sum", "count", "avg"]},
    {"method": "identity"},
    {"method": "workload"},
    {"method": "sqm"},
    {"method": "tamm", "strategy": "greedyh"},
    {"method": "tamm", "strategy": "tree"},
    {"method": "tamm", "strategy": "wavelet"},
]


@pytest.mark.parametrize("rho", [None, "0.5"])
@pytest.mark.parametrize("options", ALL, ids=str)
def test_what_is_drawn_answers_or_is_refused(options: dict[str, Any], rho: str | None) -> None:
    """At any number of bits: without noise the sums are the true ones to a cent in a million, deviations are within
    the stated part of the prediction; or DP005 with a HINT, before the charge. `auto` and identity are not refused."""
    values = [1, 99, 5_000_000, 12_345_678, 99_999_999, CENTS]
    for queries in (3, 10):
        for bits in (3, 5, 20):
            how = batch(queries, bits, rho=rho, **options)
            design = how.best(CENTS)
            try:
                drawn = design.on_lattice(how.most_rows)
            except DPError as refused:
                assert refused.sqlstate == "DP005" and refused.hint and options.get("method") not in (None, "identity")
                assert bits < 20 and how.sure(CENTS).name == "identity"
                continue
            reached = [abs(entry) * drawn.weights[column] for row in drawn.rows for column, entry in row]
            assert how.most_rows * max(reached) <= 2**62 * 17 // 16, "all declared rows in any one bucket"
            raw = core(text(how, values), how, NoNoise(), "w")  # type: ignore[arg-type]
            predicted = np.sqrt(design.factors * (1 / (2 * 0.5) if rho else 2 / 0.9**2)) / 100
            for row, edge, deviation in zip(shown.rows(raw, how, SURE), how.workload.edges, predicted, strict=True):
                true = sum(value for value in values if value <= 100 * int(edge[1] or 0)) / 100
                assert float(str(row[3])) == pytest.approx(true, rel=1e-8, abs=0.02)
                assert float(str(row[6])) <= deviation * LOSS + 0.01


def test_below_three_bits_all_is_refused() -> None:
    """Before the charge; at three bits identity is drawn. (`auto` has pairs too, which weigh a bucket's height.)"""
    for options in ({"method": "identity"}, {"method": "workload"}):
        for queries in (5, 40):
            how = batch(queries, 2, **options)
            heaviest = max(how.identity(CENTS).columns.weights)
            assert heaviest == CENTS
            with pytest.raises(DPError) as refused:
                how.best(CENTS).on_lattice((2**60 - 1) // CENTS)
            assert (refused.value.sqlstate, bool(refused.value.hint)) == ("DP005", True)
            batch(queries, 3, method="identity").best(CENTS).on_lattice((2**59 - 1) // CENTS)


def test_auto_takes_identity_where_the_best_does_not_survive(monkeypatch: pytest.MonkeyPatch) -> None:
    """And says so beforehand: the plan names what will be drawn, with its own error, not the best of any bits."""
    how = batch(6, 4)
    chosen = how.best(CENTS)
    assert chosen.name != "identity"
    monkeypatch.setattr("pg_epsilon.workload.designs.survives", lambda drawn, strategy, *_: strategy.name == "identity")
    again = batch(6, 4, weights=[1] * 6)  # another workload, whose designs nothing has rounded yet
    assert (again.best(CENTS).name, again.sure(CENTS).name) == ("identity", "identity")
    told = shown.facts(again, CENTS, None)
    listed = {one["strategy"]: one["expected_rmse"] for one in told["candidates"]}
    assert (told["strategy"], told["expected_rmse"]) == ("identity", listed["identity"])
    named = batch(6, 4, method="workload")
    assert shown.facts(named, CENTS, "identity")["expected_rmse"] == pytest.approx(listed["identity"])


def running(most_rows: int) -> Plan:
    pay = column("pay", "integer", 23, kind="bounds", lower="0", upper="1000")
    return planned(
        row_policy(columns=[*document()["columns"], pay], max_rows=most_rows),
        keys=["width_bucket(pay, 0, 1000, 10)"],
        aggregates=["sum(pay)"],
        budget={"epsilon": "1"},
        running=[{"aggregate": 0, "key": 0, "descending": False, "alone": False}],
    )


def test_running_sums_are_drawn_for_what_survives() -> None:
    """With any number of rows: a strategy whose integers answer as predicted, or each group with noise of its own."""
    together = 0
    for bits in range(40, 53):
        (measure,) = running(2**bits).choices[0].estimator.measures
        if isinstance(measure, RunningSums):
            together += 1
            rounded = measure.drawn.strategy(measure.name)
            count = len(measure.drawn.weights)
            assert np.linalg.matrix_rank(rounded.matrix) == count
            assert math.log2(measure.drawn.l1) < 62
    assert 0 < together < 13


@pytest.mark.parametrize("rho", [None, "0.5"])
@pytest.mark.parametrize("options", ALL, ids=str)
def test_the_expected_error_is_that_of_what_is_drawn(options: dict[str, Any], rho: str | None) -> None:
    """At few bits as at many: the root mean square of the rows' own deviations, to four digits and a cent."""
    for bits in (3, 5, 8, 20):
        how = batch(5, bits, rho=rho, **options)
        try:
            how.best(CENTS).on_lattice(how.most_rows)
        except DPError:
            continue
        raw = core(text(how, [CENTS]), how, NoNoise(), "w")  # type: ignore[arg-type]
        found = [float(str(row[6])) for row in shown.rows(raw, how, SURE)]
        told = shown.facts(how, CENTS, None)["expected_rmse"]
        assert told == pytest.approx(math.sqrt(sum(one * one for one in found) / len(found)), rel=6e-4, abs=0.01)


def private(**options: Any) -> Any:
    """A request whose theta is drawn from a grid: cents up to a million, and rows that leave five bits."""
    pay = column("pay", "numeric", 1700, kind="bounds", lower="0", upper="1000000", resolution="0.01")
    given = {"thresholds": [str(10**5 * (k + 1)) for k in range(10)], "options": {"theta": "svt", **options}}
    return planned(
        row_policy(columns=[*document()["columns"], pay], max_rows=2**30),
        aggregates=[{"function": "sum", "argument": "pay"}],
        budget={"epsilon": "1"},
        workload=given,
    )


def test_every_theta_is_tried_before_the_charge(monkeypatch: pytest.MonkeyPatch) -> None:
    """A method that fits the lattice at the ends of the grid, and not between, is refused; auto has identity."""
    tried: list[int] = []
    between = Batch.best

    def best(how: Batch, theta: int) -> Any:
        tried.append(theta)
        if how.threshold.grid[0] < theta < how.threshold.grid[-1] and how.workload.options.method == "tamm":
            raise DPError("DP005", "does not survive", "hint")
        return between(how, theta)

    monkeypatch.setattr(Batch, "best", best)
    private()
    private(method="identity")
    with pytest.raises(DPError) as refused:
        private(method="tamm", strategy="wavelet")
    assert refused.value.sqlstate == "DP005"
    monkeypatch.undo()
    monkeypatch.setattr(Batch, "best", lambda how, theta: tried.append(theta) or between(how, theta))
    tried.clear()
    private(method="tamm", strategy="wavelet")
    assert len(set(tried)) == 17
    private(theta="recursive")
    with pytest.raises(DPError, match="69 values"):
        private(theta="recursive", method="tamm", strategy="wavelet")
