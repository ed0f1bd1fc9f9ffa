"""All bins of a table by noise, once: afterwards every linear query is free (turbo.md §6.16, corrected).

Adding or removing a row moves one bin by 1, so DLap(epsilon) a bin costs epsilon (composition.md §1.5), not twice it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from pg_epsilon.noise import NoiseSource
from pg_epsilon.turbo.bins import Query
from pg_epsilon.turbo.calibration import Calibration, Draw, sum_draw, sum_quantile

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]


def price(prices: Calibration, bins: int, scale: int, queries: int = 1) -> Draw:
    """epsilon = t*_N(beta / queries) / (alpha ñ): what a release of all bins costs.

    queries = 1: each query that was fixed beforehand is within alpha ñ with probability 1 - beta (`oblivious`). A class
    of so many queries: all of them are, with that probability, also when they are chosen after looking (`uniform`,
    composition.md §7.3). The worst query has all bins with weight 1: any other one is more peaked.
    """
    return sum_draw(prices.tolerance(scale), bins, prices.beta / queries)


@dataclass(frozen=True, eq=False)
class Synopsis:
    """The noisy count of every bin (int64), and the draw that made it. Public."""

    draw: Draw
    noisy: Array

    def value(self, query: Query) -> int:
        """The query's value in its steps: post-processing."""
        return query.total(self.noisy)

    def distribution(self) -> Array:
        """Weights for a histogram to start from: clipped at 0, none of them 0."""
        import numpy as np

        clipped = np.maximum(self.noisy, 0).astype(np.float64)
        mass = float(clipped.sum())
        return clipped / mass * 0.99 + 0.01 / len(clipped) if mass > 0 else np.ones(len(clipped))

    def to_bytes(self) -> bytes:
        """The noisy counts as int64, little-endian; the draw is stored beside them."""
        return self.noisy.astype("<i8").tobytes()

    @staticmethod
    def from_bytes(draw: Draw, data: bytes) -> Synopsis:
        import numpy as np

        return Synopsis(draw, np.frombuffer(data, "<i8"))


def release(counts: Array, draw: Draw, noise: NoiseSource) -> Synopsis:
    """Every bin's count + noise, in one draw of L1 (and L2) sensitivity 1. Its charge must have been paid."""
    import numpy as np

    return Synopsis(draw, np.array(draw.release(counts.tolist(), 1, noise, "turbo synopsis"), np.int64))


def margin(synopsis: Synopsis, beta: Fraction, partitions: int = 1) -> Fraction:
    """t*_k(beta) / epsilon for k = N bins (times `partitions` added up): the worst query's error, in rows."""
    return sum_quantile(len(synopsis.noisy) * partitions, beta) / Fraction(synopsis.draw.amount)
