"""The matrix mechanism's public half against sum-workloads.md §8.7's numbers, closed forms and brute force."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from pg_epsilon.errors import DPError
from pg_epsilon.mechanisms.matrix import strategies
from pg_epsilon.mechanisms.matrix.greedyh import greedyh
from pg_epsilon.mechanisms.matrix.lattice import on_lattice
from pg_epsilon.mechanisms.matrix.optimal import optimal
from pg_epsilon.mechanisms.matrix.p_identity import loss_and_gradient, p_identities, p_identity
from pg_epsilon.mechanisms.matrix.queries import (
    Array,
    Intervals,
    Queries,
    Weighted,
    Written,
    distinct_columns,
    gram,
    gram_diagonal,
    gram_matrix,
    prefixes,
)
from pg_epsilon.mechanisms.matrix.strategies import Strategy

N, HEIGHT, EPSILON = 1000, 800, 0.009


def paper(step: int, theta: int) -> tuple[Intervals, Array]:
    """(Q1, Q2 or Q3 as prefixes, truncated bucket weights) of §8.7."""
    weights = np.minimum(HEIGHT * np.arange(1, N + 1), theta).astype(float)
    return prefixes(range(step, N + 1, step), N), weights


def rms(factors: Array) -> float:
    return math.sqrt(2 * float(np.mean(factors))) / EPSILON


def truncated(queries: Intervals, weights: Array) -> Weighted:
    return Weighted(queries, tuple(float(weight) for weight in weights))


def timm(queries: Intervals, weights: Array) -> Strategy:
    return Strategy("timm", greedyh(queries).matrix * weights)


FIXED = [
    ("identity", 1, 100_000, 3.226e8),
    ("workload", 1, 100_000, 1.377e10),
    ("timm", 1, 100_000, 1.584e8),
    ("tamm", 1, 100_000, 1.582e8),
    ("tree", 1, 100_000, 1.93e8),
    ("wavelet", 1, 100_000, 1.89e8),
    ("identity", 1, 800_000, 1.150e9),
    ("timm", 1, 800_000, 1.267e9),
    ("tamm", 1, 800_000, 5.925e8),
    ("identity", 10, 100_000, 3.242e8),
    ("workload", 10, 100_000, 1.383e9),
    ("timm", 10, 100_000, 1.247e8),
    ("tamm", 10, 100_000, 1.407e8),
    ("identity", 100, 100_000, 3.398e8),
    ("workload", 100, 100_000, 1.414e8),
    ("timm", 100, 100_000, 6.399e7),
    ("tamm", 100, 100_000, 1.027e8),
]
BUILD: dict[str, Callable[[Intervals, Array], Strategy]] = {
    "identity": lambda queries, weights: strategies.identity(N),
    "workload": lambda queries, weights: strategies.workload(truncated(queries, weights)),
    "timm": timm,
    "tamm": lambda queries, weights: greedyh(truncated(queries, weights)),
    "tree": lambda queries, weights: strategies.tree(N),
    "wavelet": lambda queries, weights: strategies.wavelet(N),
}


@pytest.mark.parametrize(("method", "step", "theta", "expected"), FIXED)
def test_reference_numbers(method: str, step: int, theta: int, expected: float) -> None:
    queries, weights = paper(step, theta)
    found = rms(strategies.query_errors(BUILD[method](queries, weights), truncated(queries, weights)))
    assert found == pytest.approx(expected, rel=8e-3)


@pytest.mark.parametrize(("step", "norm"), [(1, 87_600_000), (10, 8_800_000), (100, 900_000)])
def test_reference_norms(step: int, norm: int) -> None:
    assert strategies.workload(truncated(*paper(step, 100_000))).sensitivity == norm


@pytest.mark.long
def test_reference_p_identity() -> None:
    """p0 = 16 and, from there on, 62 on Q1: 1.04e8, 1.00e8 (§8.7); tightening, which it does not need, changes
    nothing."""
    queries, weights = paper(1, 100_000)
    for build, expected in zip(
        p_identities(truncated(queries, weights), (1, 4, 16, 62)), (None, None, 1.04e8, 1e8), strict=True
    ):
        strategy = build()
        found = rms(strategies.query_errors(strategy, truncated(queries, weights)))
        assert expected is None or found == pytest.approx(expected, rel=0.02)
        assert strategy.sensitivity == pytest.approx(1)
        assert len(strategies.tightened(strategy).matrix) == len(strategy.matrix)


def test_reference_tightening() -> None:
    """Q1 without truncation: 1.27e9 to 8.85e8 (§8.4)."""
    queries, weights = paper(1, 800_000)
    loose = timm(queries, weights)
    tight = strategies.tightened(loose)
    assert tight.sensitivity == pytest.approx(loose.sensitivity)
    assert rms(strategies.query_errors(tight, truncated(queries, weights))) == pytest.approx(8.85e8, rel=5e-3)


@pytest.mark.long
def test_reference_merging() -> None:
    """Q2 and Q3 over their own blocks: 6.2e7, 3.4e7 (§8.5)."""
    for step, expected in ((10, 6.2e7), (100, 3.4e7)):
        count = N // step
        weights = np.minimum(HEIGHT * step * np.arange(1, count + 1), 100_000).astype(float)
        queries = truncated(prefixes(range(1, count + 1), count), weights)
        best = min(rms(strategies.query_errors(p_identity(queries, rows), queries)) for rows in (1, 4, 6, 10))
        assert best == pytest.approx(expected, rel=0.04)


def test_the_optimal_strategy_for_gaussian_noise() -> None:
    """Columns of L2 norm 1; the duality gap is below 1e-4 of a random workload's total error, which no other strategy
    undercuts: not what an optimiser for L1 norms finds, nor random changes of the strategy itself."""
    numbers = np.random.default_rng(2)
    queries = Written.of(numbers.normal(size=(9, 6)) * [1, 2, 3, 4, 5, 60])
    best = optimal(queries)
    assert np.square(best.matrix).sum(axis=0) == pytest.approx(np.ones(6), abs=1e-3)
    least = strategies.query_errors(best, queries, gaussian=True).sum()
    others = [p_identity(queries, 2), greedyh(queries), strategies.identity(6), strategies.workload(queries)]
    others += [Strategy("moved", best.matrix + 0.03 * numbers.normal(size=(6, 6))) for _ in range(200)]
    for other in others:
        tight = strategies.tightened(other, gaussian=True)
        norms = np.square(tight.matrix).sum(axis=0)
        assert norms == pytest.approx(np.full(6, norms.max()))
        assert strategies.query_errors(tight, queries, gaussian=True).sum() >= least * (1 - 1e-3)
    gram = gram_matrix(queries)
    inverted = np.linalg.inv(best.matrix.T @ best.matrix)
    multipliers = np.diag(inverted @ gram @ inverted)
    scale = np.sqrt(multipliers)
    root = np.sqrt(np.maximum(np.linalg.eigvalsh(gram * scale * scale[:, None]), 0)).sum()
    assert least - (2 * root - multipliers.sum()) <= 1e-3 * least


def test_the_optimal_strategy_of_prefixes_spans_them() -> None:
    """A hundred prefixes: less than seven tenths of the tree's error, and a query that nobody asks leaves it sound."""
    queries = prefixes(range(1, 101), 100)
    best = optimal(queries)
    assert strategies.spans(best, queries)
    tree = strategies.query_errors(strategies.tightened(strategies.tree(100), gaussian=True), queries, gaussian=True)
    assert strategies.query_errors(best, queries, gaussian=True).sum() < 0.7 * tree.sum()
    few = prefixes([2, 5], 9)
    assert strategies.spans(strategies.tightened(optimal(few), gaussian=True), few)


def test_greedyh_of_eight_prefixes() -> None:
    """Root weight .42, total 91.6 against identity's 72: a planner has to compare (§8.2, iii)."""
    queries = prefixes(range(1, 9), 8)
    strategy = greedyh(queries)
    assert strategy.matrix[0] == pytest.approx(np.full(8, 0.42))
    assert 2 * strategies.query_errors(strategy, queries).sum() == pytest.approx(91.6, abs=0.1)
    assert 2 * strategies.query_errors(strategies.identity(8), queries).sum() == pytest.approx(72)


@pytest.mark.parametrize("rows", [1, 3, 7])
def test_gradient_against_differences(rows: int) -> None:
    numbers = np.random.default_rng(rows)
    queries = Weighted(Intervals((0, 2, 1, 0), (3, 9, 5, 12), 12), tuple(numbers.uniform(1, 9, 12)))
    extra = numbers.uniform(size=(rows, 12))
    diagonal = gram_diagonal(queries)
    loss, slope = loss_and_gradient(extra, queries, diagonal)
    whole = np.concatenate([np.eye(12), extra]) / (1 + extra.sum(axis=0))
    assert loss == pytest.approx(np.trace(np.linalg.inv(whole.T @ whole) @ gram_matrix(queries)))
    for place in ((0, 0), (rows - 1, 11), (0, 5)):
        step = np.zeros_like(extra)
        step[place] = 1e-6
        up, down = (loss_and_gradient(extra + sign * step, queries, diagonal)[0] for sign in (1, -1))
        assert slope[place] == pytest.approx((up - down) / 2e-6, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize(
    "queries",
    [
        prefixes([1, 3, 7], 7),
        Intervals((0, 2, 5), (7, 4, 6), 7),
        Written.of([[1, -2, 0], [0.5, 0, 3]]),
        Weighted(Intervals((1, 0), (3, 2), 3), (2.0, -1.0, 5.0)),
    ],
)
def test_linear_maps_are_their_matrices(queries: Queries) -> None:
    numbers = np.random.default_rng(7)
    matrix, (p, n) = queries.dense(), queries.shape
    x, y = numbers.normal(size=(4, n)), numbers.normal(size=(4, p))
    assert queries.times(x) == pytest.approx(x @ matrix.T)
    assert queries.back(y) == pytest.approx(y @ matrix)
    assert gram(queries, x) == pytest.approx(x @ matrix.T @ matrix)
    assert gram_diagonal(queries) == pytest.approx(np.diag(matrix.T @ matrix))


def test_distinct_columns() -> None:
    assert distinct_columns(prefixes([2, 5], 5)) == (0, 0, 1, 1, 1)


@pytest.mark.parametrize("buckets", [1, 2, 3, 5, 8, 13])
def test_fixed_strategies_span_everything(buckets: int) -> None:
    every = Written.of(np.eye(buckets))
    for strategy in (strategies.wavelet(buckets), *(strategies.tree(buckets, b) for b in (2, 3, 16))):
        assert strategies.spans(strategy, every)
        assert strategy.matrix.shape[1] == buckets
    assert strategies.tree(8).sensitivity == 4
    assert strategies.wavelet(8).sensitivity == 4


def test_a_strategy_that_does_not_span() -> None:
    assert not strategies.spans(Strategy("total", np.ones((1, 3))), Written.of(np.eye(3)))
    assert strategies.spans(Strategy("total", np.ones((1, 3))), Written.of(2 * np.ones((1, 3))))


def test_sensitivity_is_of_absolute_values() -> None:
    """W = [-3, 1]: 3, where a plain column sum says 1 (§12, 6)."""
    assert strategies.workload(Written.of([[-3, 1]])).sensitivity == 3


def test_on_the_lattice_the_norm_is_that_of_the_integers() -> None:
    """The largest change that one row can make, by brute force over rows, at random strategies and weights."""
    numbers = np.random.default_rng(3)
    for _ in range(50):
        weights = [int(weight) for weight in numbers.integers(1, 1000, 6)]
        matrix = numbers.normal(size=(5, 6)) * (numbers.uniform(size=(5, 6)) < 0.6)
        matrix[0] += 1
        drawn = on_lattice(Strategy("random", matrix), weights, 1000)
        base = [0] * 6
        changes = []
        for column, weight in enumerate(weights):
            moved = [*base]
            moved[column] = weight
            changes.append(drawn.answers(moved))
        assert drawn.l1 == max(sum(map(abs, change)) for change in changes)
        assert drawn.l2_squared == max(sum(value * value for value in change) for change in changes)
        again = drawn.strategy("random").matrix * Strategy("random", matrix).sensitivity
        assert again == pytest.approx(matrix, abs=1e-4 * np.abs(matrix).max())


def test_the_lattice_has_room_for_the_declared_rows() -> None:
    strategy = strategies.workload(Written.of(np.full((3, 2), 1e9)))
    drawn = on_lattice(strategy, [10**6, 10], 10**6)
    full = drawn.answers([10**12, 10**7])
    assert max(map(abs, full)) < 2**62
    with pytest.raises(DPError) as refused:
        on_lattice(strategy, [2**40, 10], 2**30)
    assert refused.value.sqlstate == "DP005"
