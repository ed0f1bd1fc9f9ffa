"""The linear program of R2T: its optimum against scipy's, its sensitivity, and what the early stop may skip."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from pg_epsilon.errors import ReadFailed
from pg_epsilon.mechanisms import truncation_lp
from pg_epsilon.mechanisms.r2t_join import GRAIN, sensitivity
from pg_epsilon.mechanisms.truncation_lp import (
    VALUE_MAX,
    Ints,
    Problem,
    Truncation,
    merged,
)

SOME = settings(database=None, deadline=None, max_examples=40)
UNITS = 6


@st.composite
def joins(draw: st.DrawFn, width: int = 3) -> tuple[Ints, Ints, Ints]:
    """Result rows: owners, values, labels."""
    rows = draw(st.integers(1, 14))
    owners = draw(
        st.lists(st.lists(st.integers(0, UNITS - 1), min_size=width, max_size=width), min_size=rows, max_size=rows)
    )
    values = draw(st.lists(st.integers(0, 9), min_size=rows, max_size=rows))
    labels = draw(st.lists(st.integers(0, 4), min_size=rows, max_size=rows))
    return tuple(np.array(x, np.int64) for x in (owners, values, labels))  # type: ignore[return-value]


def optimum(owners: Ints, values: Ints, t: int, labels: Ints | None = None) -> float:
    """The definition, row by row without merging, by another solver."""
    if not len(owners):
        return 0.0
    rows = len(owners)
    limits = [[1.0 if unit in row else 0.0 for row in owners] for unit in range(int(owners.max()) + 1)]
    if labels is None:
        found = linprog(-np.ones(rows), A_ub=limits, b_ub=[t] * len(limits), bounds=[(0, float(v)) for v in values])
        return -float(found.fun)
    names = sorted(set(labels))
    matrix = [line + [0.0] * len(names) for line in limits]
    for i, name in enumerate(names):
        matrix.append([-1.0 if label == name else 0.0 for label in labels] + [float(i == j) for j in range(len(names))])
    cost = np.concatenate([np.zeros(rows), -np.ones(len(names))])
    bounds = [(0, 1)] * (rows + len(names))
    found = linprog(cost, A_ub=matrix, b_ub=[t] * len(limits) + [0] * len(names), bounds=bounds)
    return -float(found.fun)


def value(problem: Problem, t: int) -> int:
    found = Truncation(problem).value(t)
    assert found is not None
    return found


@SOME
@given(join=joins(), t=st.integers(1, 20), distinct=st.booleans())
def test_the_optimum_is_that_of_the_definition(join: tuple[Ints, Ints, Ints], t: int, distinct: bool) -> None:
    """Also that merging and the other form of sets change nothing."""
    owners, values, labels = join
    exact = optimum(owners, values, t, labels if distinct else None)
    found = value(merged(owners, values, labels if distinct else None), t)
    assert exact * GRAIN - 1 - 1e-6 < found <= exact * GRAIN + t + 1e-6
    assert found == pytest.approx(exact * GRAIN, abs=1.001)  # in practice, far nearer than is proved


@SOME
@given(join=joins(), unit=st.integers(0, UNITS - 1), t=st.integers(1, 20), distinct=st.booleans())
def test_a_unit_with_all_it_owns_moves_it_by_the_sensitivity_at_most(
    join: tuple[Ints, Ints, Ints], unit: int, t: int, distinct: bool
) -> None:
    owners, values, labels = join
    others = ~(owners == unit).any(axis=1)
    with_, without = (
        value(merged(owners[keep], values[keep], labels[keep] if distinct else None), t)
        for keep in (np.full(len(owners), True), others)
    )
    assert 0 <= with_ - without <= sensitivity(t) or abs(with_ - without) <= sensitivity(t)
    assert without <= with_ + t  # monotone, but for the stated distance to the optimum


@SOME
@given(join=joins(), distinct=st.booleans())
def test_the_largest_truncation_is_the_true_value(join: tuple[Ints, Ints, Ints], distinct: bool) -> None:
    owners, values, labels = join
    true = len(set(labels)) if distinct else int(values.sum())
    assert value(merged(owners, values, labels if distinct else None), 10_000) == true * GRAIN


@SOME
@given(join=joins(), needs=st.lists(st.integers(-10, 60 * GRAIN), min_size=5, max_size=5), distinct=st.booleans())
def test_an_abandoned_level_is_below_what_was_needed(
    join: tuple[Ints, Ints, Ints], needs: list[int], distinct: bool
) -> None:
    """And every level that is not abandoned has the value that it has without the early stop."""
    owners, values, labels = join
    problem = merged(owners, values, labels if distinct else None)
    one = Truncation(problem)
    for t, need in zip((16, 8, 4, 2, 1), needs, strict=True):
        found, true = one.value(t, need), value(problem, t)
        if found is None:
            assert true <= need + 1
        else:
            assert abs(found - true) <= 1


def test_a_bound_of_an_earlier_level_spares_a_solve(monkeypatch: pytest.MonkeyPatch) -> None:
    solved = []
    build = truncation_lp._model

    def model(problem: Problem, t: int) -> Any:
        solved.append(t)
        return build(problem, t)

    monkeypatch.setattr(truncation_lp, "_model", model)
    owners = np.array([[0, i] for i in range(1, 50)], np.int64)
    one = Truncation(merged(owners, np.ones(49, np.int64)))
    assert one.value(8) == 8 * GRAIN
    monkeypatch.setattr(one, "_prepared", None)
    assert one.value(4, need=4 * GRAIN + 1) is None
    assert solved == [8]


def test_merging() -> None:
    """(a, b), (b, a) and (a, b, b) have the same owners; sums saturate instead of overflowing."""
    owners = np.array([[7, -3, -3], [-3, 7, 7], [7, 7, 7], [9, 7, -3]], np.int64)
    problem = merged(owners, np.array([1, 2, 4, 8], np.int64))
    assert problem.units == 3
    assert problem.owners.tolist() == [[0, 1, 2], [0, 1, 3], [1, 3, 3]]
    assert problem.values.tolist() == [8, 3, 4]
    big = np.full(4, 2**62, np.int64)
    assert merged(np.zeros((4, 2), np.int64), big).values.tolist() == [VALUE_MAX]


def test_triangles_of_a_complete_graph() -> None:
    """K_6, a unit a vertex: 20 triangles, 10 at each vertex. At t each vertex keeps t of its 10: Q = 6 t / 3."""
    owners = np.array(list(itertools.combinations(range(6), 3)), np.int64)
    for t in (1, 2, 5, 10, 16):
        assert value(merged(owners, np.ones(20, np.int64)), t) == min(2 * t, 20) * GRAIN


def test_an_empty_join() -> None:
    empty = merged(np.zeros((0, 2), np.int64), np.zeros(0, np.int64))
    assert value(empty, 1) == 0
    assert value(merged(np.zeros((0, 2), np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64)), 1) == 0


def test_a_solver_that_is_wrong_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control of the certificate: neither a value from the air nor a bad dual gets through."""
    owners = np.array(list(itertools.combinations(range(6), 3)), np.int64)
    one = Truncation(merged(owners, np.ones(20, np.int64)))
    monkeypatch.setattr(one, "_reached", lambda values, t: Fraction(0))
    with pytest.raises(ReadFailed):
        one.value(4)
    two = Truncation(merged(owners, np.ones(20, np.int64)))
    monkeypatch.setattr(two, "_rounded", lambda dual: (np.zeros(6, np.int64), np.zeros(0, np.int64)))
    with pytest.raises(ReadFailed):
        two.value(4)


@SOME
@given(join=joins(width=2), t=st.integers(1, 9), dual=st.lists(st.integers(0, 2**30), min_size=UNITS, max_size=UNITS))
def test_any_dual_gives_a_bound(join: tuple[Ints, Ints, Ints], t: int, dual: list[int]) -> None:
    """Weak duality, in exact arithmetic: what the privacy rests on."""
    owners, values, _ = join
    problem = merged(owners, values)
    one = Truncation(problem)
    bound = one._bound((np.array(dual[: problem.units], np.int64), np.zeros(0, np.int64)), t)
    assert bound + 1 >= optimum(owners, values, t) * GRAIN - 1e-6
