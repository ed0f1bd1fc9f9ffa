"""Bars of answers in order: margins that hold at once, narrowed by their neighbours (sum-workloads.md §10)."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from test_workload_core import NoNoise, batch, text, workload
from workload_cases import CASES, Asked, same

from pg_epsilon.mechanisms.matrix import strategies
from pg_epsilon.mechanisms.matrix.bars import two_sided_quantile
from pg_epsilon.mechanisms.matrix.lattice import on_lattice
from pg_epsilon.mechanisms.matrix.queries import Array
from pg_epsilon.workload import shown
from pg_epsilon.workload.batch import core, read
from pg_epsilon.workload.choice import told
from pg_epsilon.workload.shown import Answers, in_order, smoothed

SURE = Decimal("0.95")
EDGES = [100, 300, 1000]

EXACT: list[tuple[str, list[float], list[float], list[float], list[float]]] = [
    ("in order already", [1, 5, 9], [1, 2, 3], [0, 3, 6], [2, 7, 12]),
    ("a wide bar between narrow ones", [1, 5, 6], [1, 20, 1], [0, 0, 5], [2, 7, 7]),
    ("equal margins", [3, 1, 2, 5, 4], [1] * 5, [2, 2, 2, 4, 4], [2, 2, 3, 5, 5]),
    ("crossing: the hull of both", [10, 2], [1, 1], [3, 3], [9, 9]),
    ("crossing in the middle alone", [0, 10, 2, 20], [1] * 4, [-1, 3, 3, 19], [1, 9, 9, 21]),
    ("the answer lies outside, though they do not cross", [10, 8.5], [1, 0.6], [167.6 / 19, 167.6 / 19], [9.1, 9.1]),
]


def found(totals: Any, margins: Any) -> tuple[Array, Answers]:
    """The answers in order, weighted by their margins, and what they were."""
    totals, margins = np.array(totals, dtype=float), np.array(margins, dtype=float)
    return smoothed(totals, 1 / np.square(margins)), Answers(totals, margins, margins, None)


@pytest.mark.parametrize(("why", "totals", "margins", "lows", "highs"), EXACT, ids=[one[0] for one in EXACT])
def test_ends(why: str, totals: list[float], margins: list[float], lows: list[float], highs: list[float]) -> None:
    answers, before = found(totals, margins)
    if "outside" in why:
        lows = [float(answers[0])] * 2
        assert answers[0] < 9, "the running maximum of the lows"
    same(in_order(before, answers)[0], lows)
    same(in_order(before, answers)[1], highs)


def some(seed: int) -> tuple[Array, Array, Array]:
    """(True sums that do not decrease, what was drawn, margins of which some are too narrow)."""
    numbers = np.random.default_rng(seed)
    size = int(numbers.integers(2, 30))
    true = np.cumsum(numbers.integers(0, 3, size) * numbers.choice([0, 1, 50])).astype(float)
    margins = numbers.uniform(0.5, 40, size)
    return true, true + numbers.uniform(-1, 1, size) * margins * numbers.choice([0.9, 1, 1.3]), margins


def test_the_answer_is_inside_and_nothing_decreases() -> None:
    for seed in range(400):
        _, drawn, margins = some(seed)
        answers, before = found(drawn, margins)
        lows, highs = in_order(before, answers)
        assert (lows <= answers).all() and (answers <= highs).all()
        assert all((np.diff(one) >= -1e-9).all() for one in (lows, answers, highs))


def test_where_all_bars_hold_the_new_ones_do_and_none_is_wider() -> None:
    """Why the probability is the same; but for the answer, which is taken in, and where ends cross some did not."""
    held = narrower = 0
    for seed in range(400):
        true, drawn, margins = some(seed)
        answers, before = found(drawn, margins)
        lows, highs = in_order(before, answers)
        if not (np.abs(drawn - true) <= margins).all():
            continue
        held += 1
        assert (lows <= true).all() and (true <= highs).all()
        assert (lows >= np.minimum(drawn - margins, answers)).all()
        assert (highs <= np.maximum(drawn + margins, answers)).all()
        narrower += int((highs - lows < 2 * margins - 1e-9).any())
    assert held > 200 and narrower > 150


def _covered(miss: float) -> tuple[float, float]:
    """How often the first of twenty sums, all truly 0, is between its ends, and how often all are: 1,000 draws of a
    fixed seed, each with noise of its own of scale 1, which goes beyond the margin with probability `miss`."""
    drawn = np.random.default_rng(20261128).laplace(size=(1000, 20))
    margins = np.full(20, -math.log(miss))
    ends = [in_order(before, answers) for answers, before in (found(one, margins) for one in drawn)]
    inside = np.array([(lows <= 0) & (highs >= 0) for lows, highs in ends])
    return float(inside[:, 0].mean()), float(inside.all(axis=1).mean())


def test_all_hold_at_once_with_shares_of_what_may_miss() -> None:
    first, every = _covered(0.05 / 20)
    assert first >= every >= 0.95


def test_running_ends_of_bars_of_their_own_are_found() -> None:
    """The control: bars that hold 95 % each by itself, run over twenty, hold .62 of the time: (1 - .025)^20."""
    first, _ = _covered(0.05)
    assert first == pytest.approx(0.975**20, abs=0.05)


@pytest.mark.parametrize("thresholds", [EDGES, [100, 300, 300, 1000]], ids=["different", "one of them twice"])
def test_margins_share_what_may_miss_among_the_different_queries(thresholds: list[int]) -> None:
    """Of the first bucket's one draw, in closed form, and half a step; in order a third of .05 each, else all of it."""
    for isotonic, shares in (("auto", 3), ("on", 3), ("off", 1)):
        how = batch(workload(thresholds, method="identity", isotonic=isotonic, aggregates=["sum"]))
        drawn = read(core(None, how, NoNoise(), "w"), how)  # type: ignore[arg-type]
        (answers,) = shown.answers([drawn], how, SURE)
        scale = drawn.lattice.l1 / (float(how.amount) * drawn.lattice.rows[0][0][1])
        half = 1 / (2 * drawn.lattice.rows[0][0][1])
        assert answers.margins[0] == pytest.approx(-scale * math.log(0.05 / shares) + half)


def test_margins_of_the_slow_programme() -> None:
    """Its case of three queries' bars that hold at once, two rows a user, drawn for a tree."""
    asked = Asked(CASES["bars-kappa"]["input"])
    drawn = on_lattice(asked.strategy, asked.columns.weights, 10_000).strategy("drawn")
    weights = asked.columns.totals.times(strategies.inverse(drawn).T).T
    scale = drawn.sensitivity * asked.units / float(asked.amount)
    bars = [two_sided_quantile(row, 0.05 / len(asked.workload.rows)) * scale for row in weights]
    same(bars, CASES["bars-kappa"]["expected"]["bar"], rel=1e-5)


@pytest.mark.parametrize("rho", [None, "0.5"])
def test_rows_show_them(rho: str | None) -> None:
    """Where a batch is put in order its rows' ends do not decrease, and hold the answer; by itself a query has its own
    bar, whatever the option."""
    how = batch(workload([1, 2, 3, 4, 1000], aggregates=["sum"]), rho=rho)
    rows = shown.rows(core(text(how, [1] * 50), how, Falling(), "w"), how, SURE)  # type: ignore[arg-type]
    lows, answers, highs = ([float(str(row[column])) for row in rows] for column in (7, 3, 8))
    assert all(one == sorted(one) for one in (lows, answers, highs))
    assert all(low <= answer <= high for low, answer, high in zip(lows, answers, highs, strict=True))
    for isotonic in ("auto", "off"):
        alone = batch(workload([1000], isotonic=isotonic, aggregates=["sum"]), rho=rho)
        raw = core(None, alone, NoNoise(), "w")  # type: ignore[arg-type]
        one = [*shown.rows(raw, alone, SURE)[0][7:9]]
        assert one == (["-3329", "3329"] if rho is None else ["-1960", "1960"])


class Falling(NoNoise):
    """Noise by which answers decrease."""

    def laplace(self, exact: Any, **asked: Any) -> list[int]:
        return [value - place * (5 << 20) for place, value in enumerate(exact)]

    gaussian = laplace


@pytest.mark.parametrize("order", [[4, 3, 2, 1, 0], [2, 0, 4, 1, 3], [0, 1, 1, 4, 3, 2, 2]], ids=str)
@pytest.mark.parametrize("rho", [None, "0.5"])
def test_thresholds_may_come_in_any_order(order: list[int], rho: str | None) -> None:
    """Each threshold has the row that it has among ascending ones, where it was asked for; the NOTICE says the same."""

    def rows(thresholds: list[int]) -> list[list[Any]]:
        how = batch(workload(thresholds, method="identity", aggregates=["sum"]), rho=rho)
        facts, words = told(how, None)
        assert facts["isotonic"]
        assert "isotonic" in words
        raw = core(text(how, [1, 2, 3, 4] * 9), how, Falling(), "w")  # type: ignore[arg-type]
        return shown.rows(raw, how, SURE)

    thresholds = [1, 2, 3, 4, 1000]
    ascending = rows(sorted(thresholds[place] for place in order))
    by_edge = {row[2]: row[1:] for row in ascending}
    found = rows([thresholds[place] for place in order])
    assert [row[0] for row in found] == list(range(1, len(order) + 1))
    assert [row[2] for row in found] == [str(thresholds[place]) for place in order]
    assert all(row[1:] == by_edge[row[2]] for row in found)


@pytest.mark.parametrize(
    ("options", "told_so"), [({}, True), ({"isotonic": "off"}, False), ({"method": "sqm"}, False)], ids=str
)
def test_facts_and_the_notice_say_it(options: dict[str, Any], told_so: bool) -> None:
    how = batch(workload(EDGES, **options))
    facts, words = told(how, None)
    assert facts["isotonic"] is told_so
    assert ("low and high of all queries hold at once" in words) is told_so
