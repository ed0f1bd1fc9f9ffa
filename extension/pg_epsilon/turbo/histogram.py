"""The multiplicative-weights histogram of a node: weights, counts, thresholds (turbo.md §6.5, §6.6, §6.7, §6.13).

Post-processing of released values: nothing in here is secret and nothing costs budget. 16 bytes a bin.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np

    from pg_epsilon.turbo.bins import Query

    Array = np.ndarray[Any, np.dtype[Any]]

_HEAD = struct.Struct("<4sIIIId")  # magic, N, updates, global threshold, bypassed, Z
_MAGIC = b"TN1\0"
_EVENT = struct.Struct("<B32sd")
_SMALL, _LARGE = 1e-100, 1e100
_SUMMED, _RESUM = 4096, 64  # Z is the sum itself up to so many bins; else it is summed anew every so many updates


class Change(IntEnum):
    """What an event of the log did."""

    BYPASS = 1  # an external update: after direct noise
    HARD = 2  # after a FAIL
    PENALIZE = 3


class Event(NamedTuple):
    """One entry of a node's update log: 41 bytes. `step` is the signed step s, 0 for a penalty or a tie."""

    change: Change
    query_id: bytes
    step: float = 0.0

    def to_bytes(self) -> bytes:
        return _EVENT.pack(self.change, self.query_id, self.step)

    @staticmethod
    def from_bytes(data: bytes) -> Event:
        change, query_id, step = _EVENT.unpack(data)
        return Event(Change(change), query_id, step)


@dataclass(frozen=True)
class Heuristic:
    """When a histogram is trusted with a query (§6.6), and by how much it learns (§6.7). All public.

    c0: the updates that a bin needs at first; s0: how many more it needs after a FAIL (0: fixed thresholds). per_bin:
    a count and a threshold for every bin, else one of each for the histogram. rates: (m, rate) ascending: the rate
    while the least updated bin of the query has had fewer than m updates; the last rate is for ever. tau: an external
    update needs a noisy answer off by more than tau alpha n~. bypass_limit: after so many bypassed queries the
    histogram counts as ready (§9, A.5); None: never.
    """

    c0: int = 100
    s0: int = 5
    per_bin: bool = True
    rates: tuple[tuple[float, float], ...] = ((50, 0.25), (100, 0.0625), (math.inf, 0.025))
    tau: float = 0.05
    bypass_limit: int | None = None


class Histogram:
    """Unnormalised weights g (float64), their sum Z, counts c and thresholds C (int32), and three counters."""

    __slots__ = ("bypassed", "counts", "limit", "mass", "thresholds", "updates", "weights")

    def __init__(self, weights: Array, counts: Array, thresholds: Array, limit: int) -> None:
        self.weights = weights
        self.counts = counts
        self.thresholds = thresholds
        self.mass = float(weights.sum())
        self.updates = 0  # how many moved the histogram
        self.limit = limit  # the threshold of `updates`, if the heuristic is not per bin
        self.bypassed = 0

    @staticmethod
    def uniform(bins: int, heuristic: Heuristic) -> Histogram:
        """g = 1, c = 0, C = C0."""
        import numpy as np

        return Histogram(np.ones(bins), np.zeros(bins, np.int32), np.full(bins, heuristic.c0, np.int32), heuristic.c0)

    def copy(self) -> Histogram:
        """Warm start of a leaf: a copy of an earlier one (§6.13)."""
        return Histogram.from_bytes(self.to_bytes())

    @staticmethod
    def average(nodes: Sequence[Histogram], scales: Sequence[int]) -> Histogram:
        """Warm start of an inner node: the mean of the children's distributions weighted by n~, of c, of C (floor)."""
        import numpy as np

        total = sum(scales)
        k, bins = len(nodes), len(nodes[0].weights)
        weights, counts, thresholds = np.zeros(bins), np.zeros(bins, np.int64), np.zeros(bins, np.int64)
        for node, scale in zip(nodes, scales, strict=True):
            weights += node.weights * (scale / (node.mass * total))
            counts += node.counts
            thresholds += node.thresholds
        made = Histogram(
            weights,
            (counts // k).astype(np.int32),
            (thresholds // k).astype(np.int32),
            sum(node.limit for node in nodes) // k,
        )
        made.updates = sum(node.updates for node in nodes) // k
        made.bypassed = sum(node.bypassed for node in nodes) // k
        return made

    def mixed(self, gamma: float) -> Histogram:
        """h0 = (1 - gamma) h + gamma / N: bounds lambda of Thm A.9 by 1/gamma."""
        self.weights *= (1 - gamma) / self.mass
        self.weights += gamma / len(self.weights)
        self.mass = float(self.weights.sum())
        return self

    def estimate(self, query: Query, scale: int) -> float:
        """n~ times the mean of the query under the histogram, in the query's steps."""
        cells, weights = query.of(self.weights), query.weights
        inner = float(cells.sum()) if weights is None else float((cells * weights).sum())
        return scale * inner / self.mass

    def ready(self, query: Query, heuristic: Heuristic) -> bool:
        """IsReady: every bin of the query has had as many updates as it needs (§6.6); or the cut-off."""
        if heuristic.bypass_limit is not None and self.bypassed >= heuristic.bypass_limit:
            return True
        if not heuristic.per_bin:
            return self.updates >= self.limit
        return bool((query.of(self.counts) >= query.of(self.thresholds)).all())

    def rate(self, query: Query, heuristic: Heuristic) -> float:
        """The learning rate for this query (§6.7)."""
        rates = heuristic.rates
        if len(rates) == 1:
            return rates[0][1]
        least = int(query.of(self.counts).min())
        return next((rate for below, rate in rates if least < below), rates[-1][1])

    def update(self, query: Query, step: float) -> None:
        """g(v) *= e^(s q(v)), Z with it; c(v) += 1 on the query's bins unless s = 0 (§6.5)."""
        import numpy as np

        if step == 0:
            return
        cells, weights = query.of(self.weights), query.weights
        if weights is None:
            factor = math.exp(step)
            self.mass += float(cells.sum()) * (factor - 1)
            query.put(self.weights, cells * factor)
        else:
            moved = cells * np.exp(weights * (step / query.unit))
            self.mass += float(moved.sum()) - float(cells.sum())
            query.put(self.weights, moved)
        query.put(self.counts, query.of(self.counts) + np.int32(1))
        self.updates += 1
        if len(self.weights) <= _SUMMED or self.updates % _RESUM == 0:
            self.mass = float(self.weights.sum())
        if not _SMALL < self.mass < _LARGE:
            self.rescale()

    def rescale(self) -> None:
        """Z = 1 again; the distribution stays."""
        self.weights /= float(self.weights.sum())
        self.mass = float(self.weights.sum())

    def penalize(self, query: Query, heuristic: Heuristic) -> None:
        """The least updated bins of the query need S0 more: C(v) = max(C(v), c(v)) + S0 (§6.6). Before the update."""
        import numpy as np

        if not heuristic.per_bin:
            self.limit = max(self.limit, self.updates) + heuristic.s0
            return
        if heuristic.s0 == 0:
            return
        counts, thresholds = query.of(self.counts), query.of(self.thresholds)
        raised = np.maximum(thresholds, counts) + np.int32(heuristic.s0)
        query.put(self.thresholds, np.where(counts == counts.min(), raised, thresholds))

    def apply(self, event: Event, query: Query, heuristic: Heuristic) -> None:
        """What the event did; replaying a log on its snapshot restores the node bit by bit."""
        if event.change is Change.PENALIZE:
            self.penalize(query, heuristic)
            return
        if event.change is Change.BYPASS:
            self.bypassed += 1
        self.update(query, event.step)

    def replay(self, events: Sequence[Event], queries: Mapping[bytes, Query], heuristic: Heuristic) -> None:
        """Apply a log in order. queries: those that it names, by id."""
        for event in events:
            self.apply(event, queries[event.query_id], heuristic)

    def to_bytes(self) -> bytes:
        """A snapshot: 28 bytes, then g (float64), c, C (int32), little-endian: 16 N + 28."""
        head = _HEAD.pack(_MAGIC, len(self.weights), self.updates, self.limit, self.bypassed, self.mass)
        arrays = (self.weights.astype("<f8"), self.counts.astype("<i4"), self.thresholds.astype("<i4"))
        return b"".join((head, *(array.tobytes() for array in arrays)))

    @staticmethod
    def from_bytes(data: bytes | memoryview) -> Histogram:
        """The inverse of `to_bytes`; the arrays are writable copies."""
        import numpy as np

        magic, bins, updates, limit, bypassed, mass = _HEAD.unpack_from(data)
        if magic != _MAGIC or len(data) != _HEAD.size + 16 * bins:
            raise ValueError("not a snapshot of a node")
        at = _HEAD.size
        made = Histogram(
            np.frombuffer(data, "<f8", bins, at).astype(np.float64),
            np.frombuffer(data, "<i4", bins, at + 8 * bins).astype(np.int32),
            np.frombuffer(data, "<i4", bins, at + 12 * bins).astype(np.int32),
            limit,
        )
        made.updates, made.bypassed, made.mass = updates, bypassed, mass
        return made
