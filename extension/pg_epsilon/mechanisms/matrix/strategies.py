"""Fixed strategies, and what all strategies share: sensitivity, tightening, error (sum-workloads.md §7, §8.1, §8.4)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pg_epsilon.mechanisms.matrix.queries import Array, Queries

CUTOFF = 1e-11  # of singular values: numpy's own default kept noise in rank-deficient strategies (§8.8)
RESIDUAL = 1e-8  # of W A+ A against W: above it a strategy does not span the workload


@dataclass(frozen=True)
class Strategy:
    """An m x n matrix A that was chosen without data: its answers are what is drawn."""

    name: str
    matrix: Array

    @property
    def sensitivity(self) -> float:
        """The largest L1 norm of a column, absolute values: what one row in one bucket can change (§12, 6)."""
        return float(np.abs(self.matrix).sum(axis=0).max())


def identity(buckets: int) -> Strategy:
    """Every bucket by itself."""
    return Strategy("identity", np.eye(buckets))


def workload(queries: Queries) -> Strategy:
    """The queries themselves."""
    return Strategy("workload", queries.dense())


def tree(buckets: int, branching: int = 2) -> Strategy:
    """All nodes of the b-ary tree over the buckets, the leaves and the root included; none stands twice."""
    places, rows = np.arange(buckets), []
    nodes = [(0, buckets)]
    for low, size in nodes:  # which grows
        rows.append((places >= low) & (places < low + size))
        if size > 1:
            for width in widths(size, branching):
                nodes.append((low, width))
                low += width
    return Strategy(f"tree {branching}", np.array(rows, dtype=float))


def widths(size: int, branching: int) -> list[int]:
    """Of the children of a node over so many buckets: as equal as can be, the smaller ones first (§8.2, step 3)."""
    if size <= branching:
        return [1] * size
    share, more = divmod(size, branching)
    return [share] * (branching - more) + [share + 1] * more


def wavelet(buckets: int) -> Strategy:
    """The Haar wavelet, rows of +1 and -1; the buckets are padded to a power of two, and the padding left out."""
    size = 1 << max(buckets - 1, 1).bit_length() if buckets > 1 else 1
    places, rows = np.arange(size), [np.ones((1, size))]
    width = size
    while width > 1:
        starts = np.arange(0, size, width)[:, None]
        left = (places >= starts) & (places < starts + width // 2)
        right = (places >= starts + width // 2) & (places < starts + width)
        rows.append(left.astype(float) - right.astype(float))
        width //= 2
    matrix = np.concatenate(rows)[:, :buckets]
    return Strategy("wavelet", matrix[np.any(matrix != 0, axis=1)])


def tightened(strategy: Strategy, *, gaussian: bool = False) -> Strategy:
    """The strategy with what its largest column pays for anyway: more rows, the same sensitivity (§8.4).

    Columns are measured by their L1 norm, or for Gaussian noise by their L2 norm.
    """
    powers = np.square(strategy.matrix) if gaussian else np.abs(strategy.matrix)
    columns = powers.sum(axis=0)
    largest = float(columns.max())
    slack = largest - columns
    extra = np.diag(np.sqrt(slack) if gaussian else slack)[slack > largest * 1e-12]
    return Strategy(strategy.name, np.concatenate([strategy.matrix, extra])) if len(extra) else strategy


def spans(strategy: Strategy, target: Queries, inverted: Array | None = None) -> bool:
    """Whether the target's answers follow from the strategy's: W A+ A = W within a relative residual of 1e-8."""
    inverted = inverse(strategy) if inverted is None else inverted
    if _is_left_inverse(inverted, strategy.matrix):
        return True
    wanted = target.dense()
    got = target.times(inverted.T).T @ strategy.matrix
    return float(np.linalg.norm(got - wanted)) <= RESIDUAL * max(float(np.linalg.norm(wanted)), 1e-300)


def inverse(strategy: Strategy) -> Array:
    """The Moore-Penrose inverse A+, n x m: by the Gram matrix where A has full rank, which is many times faster."""
    matrix = strategy.matrix
    try:
        found = np.asarray(np.linalg.solve(matrix.T @ matrix, matrix.T), dtype=float)
    except np.linalg.LinAlgError:
        found = np.zeros(matrix.T.shape)
    if _is_left_inverse(found, matrix):
        return np.asarray(found)
    return np.asarray(np.linalg.pinv(matrix, rcond=CUTOFF))


def _is_left_inverse(inverted: Array, matrix: Array) -> bool:
    product = inverted @ matrix
    return bool(np.abs(product - np.eye(len(product))).max() < RESIDUAL)


def query_errors(
    strategy: Strategy, target: Queries, *, gaussian: bool = False, inverted: Array | None = None
) -> Array:
    """Per query w: ||w A+||² times the squared sensitivity: its variance where the noise has variance 1 a unit (§7).

    The sensitivity is the largest L1 norm of a column for Laplace noise, the largest L2 norm for Gaussian noise.
    inverted: A+, where it is known.
    """
    squares = float(np.square(strategy.matrix).sum(axis=0).max()) if gaussian else strategy.sensitivity**2
    weights = target.times((inverse(strategy) if inverted is None else inverted).T)
    return np.asarray(np.square(weights).sum(axis=0) * squares)
