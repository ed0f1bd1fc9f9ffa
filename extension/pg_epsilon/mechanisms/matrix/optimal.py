"""The strategy of least total error for Gaussian noise, whose sensitivity is an L2 norm (sum-workloads.md §9)."""

from __future__ import annotations

import numpy as np

from pg_epsilon.mechanisms.matrix.queries import Array, Queries, gram_matrix
from pg_epsilon.mechanisms.matrix.strategies import Strategy

LARGEST = 200  # buckets: each iteration is an eigenvalue decomposition
ITERATIONS, TOLERANCE = 100, 1e-4
FLOOR = 1e-9  # of a bucket's multiplier: a bucket that needs none keeps the matrix invertible


def optimal(queries: Queries) -> Strategy:
    """A symmetric A whose columns have L2 norm 1 at most, and Tr[(A'A)^+ W'W] is as small as it can be, but for .01 %.

    With G = W'W and X = A'A the problem, Tr[X^-1 G] least where diag X <= 1, is convex. At its solution X^-1 G X^-1 is
    diagonal, M; hence X = M^-1/2 (M^1/2 G M^1/2)^1/2 M^-1/2. Each iteration multiplies M_j by X_jj², whose fixed
    points have X_jj = 1 wherever M_j > 0. O(n³) each, up to 200 buckets; a strategy that is not yet the best is still
    sound, because sensitivity and error are computed from what is drawn.
    """
    gram = gram_matrix(queries)
    gram = gram / max(float(np.trace(gram)), 1e-300) * len(gram)
    multipliers = np.ones(len(gram))
    best: tuple[float, Array] | None = None
    for _ in range(ITERATIONS):
        found = _stationary(gram, multipliers)
        diagonal = np.diag(found)
        # primal value, scaled until its columns fit, against the dual one
        trace = float(multipliers @ diagonal)
        primal, dual = trace * float(diagonal.max()), 2 * trace - float(multipliers.sum())
        if best is None or primal < best[0]:
            best = primal, found
        if primal - dual <= TOLERANCE * primal:
            break
        multipliers = np.maximum(multipliers * np.square(diagonal), FLOOR * multipliers.max())
    if best is None:
        raise ValueError("no iteration")
    values, vectors = np.linalg.eigh(best[1])
    root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    return Strategy("optimal", root / np.sqrt(np.square(root).sum(axis=0).max()))


def _stationary(gram: Array, multipliers: Array) -> Array:
    """X = M^-1/2 (M^1/2 G M^1/2)^1/2 M^-1/2."""
    scale = np.sqrt(multipliers)
    values, vectors = np.linalg.eigh(gram * scale * scale[:, None])
    root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    return np.asarray(root / scale / scale[:, None])
