"""p-identity: identity plus p rows that are optimised for a workload (sum-workloads.md §8.3, in §0's form)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from pg_epsilon.mechanisms.matrix.queries import Array, Queries, gram, gram_diagonal
from pg_epsilon.mechanisms.matrix.strategies import Strategy, query_errors

ITERATIONS, TOLERANCE = 300, 1e-5
LARGEST = 1e3  # of an entry: beyond it the loss cancels in double precision, and nothing is gained (§0)
STARTS = ((20, 10), (100, 5))  # up to so many buckets, so many starts; one above
NEW_ROWS, GOING_ON = 0.3, 100  # a warm start: the largest entry of rows that are added, and its iterations (§0)


def p_identities(queries: Queries, sizes: Sequence[int]) -> Iterator[Callable[[], Strategy]]:
    """How to find the strategy of each number of rows, ascending; of many buckets each search begins where the one
    before ended, which halves the time and costs a hundredth of the error."""
    known: list[Strategy] = []

    def build(rows: int) -> Strategy:
        warm = known[-1:] if queries.shape[1] > STARTS[-1][0] else []
        known.append(p_identity(queries, rows, after=warm[0] if warm else None))
        return known[-1]

    for rows in sizes:
        yield partial(build, rows)


def p_identity(queries: Queries, rows: int, *, seed: int = 0, after: Strategy | None = None) -> Strategy:
    """A = [I; B] diag(1/s) with s = 1 + 1'B, B >= 0 of so many rows: every column adds up to 1, full rank.

    B minimises Tr[(A'A)^-1 W'W] from a few starts, which are drawn from a fixed seed because the strategy is public and
    equal questions should get equal strategies. Some p n + p² n multiplications an iteration. after: one of fewer
    rows; the search goes on from its B, with small rows added.
    """
    from scipy.optimize import minimize  # half a second of imports

    n = queries.shape[1]
    diagonal = gram_diagonal(queries)
    scale = n / max(float(diagonal.sum()), 1e-300)
    numbers = np.random.default_rng(seed)  # starts of an optimiser, no noise
    starts = next((count for most, count in STARTS if n <= most), 1) if after is None else 1
    best: tuple[float, Array] | None = None

    def objective(flat: Array) -> tuple[float, Array]:
        loss, slope = loss_and_gradient(flat.reshape(rows, n), queries, diagonal)
        return loss * scale, slope.ravel() * scale

    for _ in range(starts):
        found = minimize(
            objective,
            numbers.uniform(size=rows * n) if after is None else _longer(after, rows, numbers).ravel(),
            jac=True,
            method="L-BFGS-B",
            bounds=[(0, LARGEST)] * (rows * n),
            options={"maxiter": ITERATIONS if after is None else GOING_ON, "ftol": TOLERANCE},
        )
        matrix = matrix_of(np.asarray(found.x).reshape(rows, n))
        # judged by the matrix itself: the objective cancels where B is large (§0)
        loss = float(query_errors(Strategy("", matrix), queries).sum()) if starts > 1 else float(found.fun)
        if best is None or loss < best[0]:
            best = loss, matrix
    if best is None:
        raise ValueError("no start")
    return Strategy(f"p-identity {rows}", best[1])


def _longer(found: Strategy, rows: int, numbers: np.random.Generator) -> Array:
    """The B of a strategy of this kind, with small rows below it."""
    n = found.matrix.shape[1]
    extra = found.matrix[n:] / found.matrix[:n].diagonal()
    return np.concatenate([extra, numbers.uniform(0, NEW_ROWS, size=(rows - len(extra), n))])


def matrix_of(extra: Array) -> Array:
    """[I; B] diag(1/s) of B, p x n: every column adds up to 1."""
    return np.asarray(np.concatenate([np.eye(extra.shape[1]), extra]) / (1 + extra.sum(axis=0)))


def loss_and_gradient(extra: Array, queries: Queries, diagonal: Array) -> tuple[float, Array]:
    """f(B) = Tr[(A'A)^-1 W'W] and df/dB, without an n x n matrix.

    extra: B, p x n. diagonal: of W'W. With R = (I + BB')^-1, C = W'W scaled by s on both sides, K = R BC B': f = sum
    diag(W'W) s² - tr K, df/dB = -2 (R BC - K R B) + 1 (2 dHC / s)', dHC = diag(C) - colsum(B o R BC).
    """
    s = 1 + extra.sum(axis=0)
    inverse = np.linalg.inv(np.eye(len(extra)) + extra @ extra.T)
    rbc = inverse @ (gram(queries, extra * s) * s)
    k = rbc @ extra.T
    squares = diagonal * np.square(s)
    own = squares - (extra * rbc).sum(axis=0)
    slope = -2 * (rbc - k @ inverse @ extra) + 2 * own / s
    return float(squares.sum() - np.trace(k)), slope
