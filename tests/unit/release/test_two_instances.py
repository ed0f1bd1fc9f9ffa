"""Thresholds from one run, sums from another (release/two_instances.py; numeric-release.md §5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from pg_epsilon.mechanisms.mwem import LATTICE
from pg_epsilon.release.algorithm2 import Plan
from pg_epsilon.release.candidates import Family, histogram
from pg_epsilon.release.decompose import Measure
from pg_epsilon.release.predicates import Boxes
from pg_epsilon.release.rounds import shares
from pg_epsilon.release.truncation import thresholds_of
from pg_epsilon.release.two_instances import Some, two_instances

F = Fraction
PLACES, ROWS, FOUR = 40, 1000, F(4)
BOXES = Boxes((3,), np.array([[0], [1], [2], [0]]), np.array([[1], [3], [2], [3]]))
WHOLE = Measure("none", F(20), F(4), values=tuple(map(F, range(-4, 21))))
BITS = Measure("bits", F(20), F(4))
OWN = [*[(0, F(5))] * 90, *[(1, F(-3))] * 60, *[(1, F(1))] * 80, (2, F(20)), (2, F(0))]


@dataclass
class Exactly:
    """Draws without noise: the largest score is picked; what was asked for is kept."""

    asked: list[tuple[str, Fraction, Fraction]] = field(default_factory=list)

    def laplace(self, exact: Sequence[int], *, l1_sensitivity: int, epsilon: Fraction, label: str) -> list[int]:
        self.asked.append((label, F(l1_sensitivity), F(epsilon)))
        return list(exact)

    def select_in_runs(
        self, sizes: Sequence[int], scores: Sequence[int], *, sensitivity: int, epsilon: Fraction, label: str, name: Any
    ) -> int:
        self.asked.append((label, F(sensitivity), F(epsilon)))
        best = max(range(len(scores)), key=lambda run: scores[run])
        return int(sum(sizes[:best]))


def plan(rounds: int | None, kappa: int = 1, sweeps: int = 50) -> Plan:
    return Plan(shares(FOUR), max_rows=ROWS, rounds=rounds, kappa=kappa, places=PLACES, sweeps=sweeps)


def truth(query: int, tops: Sequence[float] = (20, 4)) -> float:
    low, high = int(BOXES.low[query, 0]), int(BOXES.high[query, 0])
    own = [float(y) for place, y in OWN if low <= place < high]
    return sum(max(-tops[1], min(tops[0], y)) for y in own)


def test_with_most_candidates_measured_answers_are_sums_cut_at_the_thresholds() -> None:
    family, source = Family(WHOLE, BOXES), Exactly()
    found = two_instances(family, plan(14, sweeps=600), histogram(family, OWN, PLACES), source, "x")  # type: ignore[arg-type]
    for query, (up, down) in enumerate(found.thresholds.tolist()):
        assert found.answer[query] == pytest.approx(truth(query, (up, down)), abs=8)
    assert found.thresholds[:, 0].tolist() == [8, 1, 0, 8]  # one row of 20 is not told from none
    assert found.thresholds[:, 1].tolist() == [0, 4, 0, 4]


@pytest.mark.parametrize(("measure", "moved", "kappa"), [(WHOLE, 1, 1), (BITS, 4, 1), (WHOLE, 3, 3)])
def test_its_draws_cost_epsilon_in_all(measure: Measure, moved: int, kappa: int) -> None:
    family, source = Family(measure, BOXES), Exactly()
    found = two_instances(family, plan(5, kappa), histogram(family, OWN, PLACES), source, "x")  # type: ignore[arg-type]
    assert sum(epsilon for _, _, epsilon in source.asked) == 4
    labels = [label for label, _, _ in source.asked]
    assert labels[0] == "x counts scale" and labels[11] == "x counts error"
    sums = min(5, int((found.thresholds > 0).sum()))  # no more rounds than there are sums
    assert len(labels) == 2 + 2 * 5 + 2 * sums and all(one.startswith("x sums") for one in labels[12:])
    own = {label: sensitivity for label, sensitivity, _ in source.asked}
    assert own["x counts scale"] == kappa << LATTICE
    assert own["x counts error"] == own["x sums round 1 measurement"] == moved << LATTICE
    assert (found.thresholds > 0).any()


def test_where_no_query_is_told_from_none_the_sums_are_not_asked_for() -> None:
    family, source = Family(WHOLE, BOXES), Exactly()
    found = two_instances(family, plan(3), histogram(family, [(2, F(20))], PLACES), source, "x")  # type: ignore[arg-type]
    assert not found.answer.any() and not found.thresholds.any()
    assert not [label for label, _, _ in source.asked if label.startswith("x sums")]


def test_thresholds_are_the_least_steps_above_which_few_are_left() -> None:
    """Steps 1 … 32 and 1 … 4; a query that reads no class has none."""
    family = Family(WHOLE, BOXES)
    counts = np.array(
        [
            [9, 9, 9, 2, 1, 0, 0, 0, 0],
            [2, 9, 9, 9, 9, 9, 3, 3, 2],
            [9, 9, 9, 9, 9, 9, 9, 9, 9],
            [3, 2, 9, 9, 9, 9, 9, 2, 9],
        ]
    )
    assert family.measure.ladders[0].length == 6 and family.measure.ladders[1].length == 3
    assert thresholds_of(family, counts.ravel(), 2).tolist() == [[2, -1], [-1, 1], [-1, -1], [0, 0]]


def test_some_candidates_are_those_of_the_family() -> None:
    family = Family(WHOLE, BOXES)
    masses = histogram(family, OWN, PLACES)
    some = Some(family, np.array([5, 30, 2]))
    assert some.evaluate(masses).tolist() == family.evaluate(masses)[[5, 30, 2]].tolist()
    assert some.count == 3 and some.shape == family.shape
    first, second = some.support(1), family.support(30)
    assert first.where == second.where and (first.values == second.values).all()
