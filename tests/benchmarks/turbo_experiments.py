"""The Turbo paper's experiments over books in memory: what each method pays, how often it is off by more than alpha."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from benchmarks.turbo_data import Array, Workload
from pg_epsilon.accounting.margins import Number
from pg_epsilon.noise import Noise
from pg_epsilon.turbo import bypass, nodes, tree
from pg_epsilon.turbo.bins import Query
from pg_epsilon.turbo.books import MemoryBooks
from pg_epsilon.turbo.split import Node
from pg_epsilon.turbo.view import View


class Seeded(Noise):
    """Noise of the same law by numpy, from a seed: simulations that can be repeated. Never a product's noise."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def _draws(self, scale: float, count: int) -> list[int]:
        chance = -math.expm1(-1 / scale)
        both = self._rng.geometric(chance, (2, count))
        drawn: list[int] = (both[0] - both[1]).tolist()
        return drawn

    def laplace(self, exact: Sequence[int], *, l1_sensitivity: Number, epsilon: Number, label: str) -> list[int]:
        draws = self._draws(float(l1_sensitivity) / float(epsilon), len(exact))
        return [value + z for value, z in zip(exact, draws, strict=True)]

    def gaussian(self, exact: Sequence[int], *, l2_squared: Number, rho: Number, label: str) -> list[int]:
        sigma = math.sqrt(float(l2_squared) / (2 * float(rho)))
        return [value + round(z) for value, z in zip(exact, self._rng.normal(0, sigma, len(exact)), strict=True)]

    def sparse_start(self, threshold: int, *, sensitivity: Number, epsilon: Number, label: str) -> int:
        return threshold + self._draws(float(sensitivity) / float(epsilon), 1)[0]

    def sparse_test(
        self, error: int, noisy_threshold: int, *, sensitivity: Number, epsilon: Number, label: str
    ) -> bool:
        return error + self._draws(float(sensitivity) / float(epsilon), 1)[0] < noisy_threshold


class PoolBooks(MemoryBooks):
    """Books whose true answers were counted beforehand: [query of the pool, partition]."""

    def __init__(self, load: Workload, partitions: int | None = None) -> None:
        super().__init__([], load.scales[:partitions])
        self._rows = {query.id: i for i, query in enumerate(load.pool)}
        self._sums = np.pad(np.cumsum(load.truths, axis=1), ((0, 0), (1, 0)))
        self._ends = np.concatenate(([0], np.cumsum(load.scales)))
        self.keep_logs = False

    def scale(self, first: int, last: int) -> int:
        return int(self._ends[last + 1] - self._ends[first])

    def truth(self, query: Query, node: Node) -> int:
        row = self._sums[self._rows[query.id]]
        return int(row[node.last + 1] - row[node.first])


@dataclass
class Outcome:
    """What a run paid: the mean epsilon over partitions, as it grew; the share of answers off by more than alpha."""

    method: str
    at: list[int] = field(default_factory=list)
    budget: list[float] = field(default_factory=list)
    asked: int = 0
    outside: int = 0
    paths: dict[str, int] = field(default_factory=dict)
    paid: dict[str, int] = field(default_factory=dict)

    @property
    def final(self) -> float:
        return self.budget[-1]

    @property
    def violations(self) -> float:
        return self.outside / max(self.asked, 1)

    def note(self, path: str, error: float, allowed: float) -> None:
        self.asked += 1
        self.outside += error > allowed
        self.paths[path] = self.paths.get(path, 0) + 1

    def mark(self, count: int, spent: float) -> None:
        self.at.append(count)
        self.budget.append(spent)


def every(count: int) -> int:
    """How often the budget is noted."""
    return max(1, count // 100)


def single(load: Workload, view: View, asked: Array, method: str, seed: int = 1) -> Outcome:
    """A view that is not partitioned, answered by PMW-Bypass or vanilla PMW, one query at a time."""
    books, noise, out = PoolBooks(load), Seeded(seed), Outcome(method)
    allowed, step = float(view.prices.alpha) * load.scales[0], every(len(asked))
    for n, i in enumerate(asked, 1):
        query = load.pool[i]
        (reply,) = bypass.answer([query], view, books, noise)
        assert reply.value is not None
        out.note(reply.path, abs(reply.value - int(load.truths[i, 0])), allowed)
        if n % step == 0:
            out.mark(n, books.average_spent())
    out.paid = dict(books.paid)
    return out


def windows(asked: Array, partitions: int, seed: int) -> Array:
    """A window of 1 … partitions partitions at a random place for each query: [first, last] per row."""
    rng = np.random.default_rng(seed)
    length = rng.integers(1, partitions + 1, len(asked))
    first = (rng.random(len(asked)) * (partitions - length + 1)).astype(int)
    return np.stack([first, first + length - 1], axis=1)


def stream(asked: Array, partitions: int, seed: int) -> Array:
    """Queries of the latest 1 … available partitions, which arrive one by one while the queries do."""
    rng = np.random.default_rng(seed)
    gaps = rng.poisson(len(asked) / partitions, partitions)
    newest = np.repeat(np.arange(partitions), gaps)
    newest = np.pad(newest, (0, max(0, len(asked) - len(newest))), constant_values=partitions - 1)[: len(asked)]
    length = 1 + (rng.random(len(asked)) * (newest + 1)).astype(int)
    return np.stack([newest - length + 1, newest], axis=1)


def partitioned(
    load: Workload, view: View, asked: Array, spans: Array, method: str, *, growing: bool = False, seed: int = 1
) -> Outcome:
    """Windows over partitions, answered by the tree; `growing`: partitions are sealed as queries first name them."""
    books, noise, out = PoolBooks(load), Seeded(seed), Outcome(method)
    step, newest = every(len(asked)), -1
    alpha, sums = float(view.prices.alpha), np.pad(np.cumsum(load.truths, axis=1), ((0, 0), (1, 0)))
    for n, (i, (first, last)) in enumerate(zip(asked.tolist(), spans.tolist(), strict=True), 1):
        while growing and newest < last:
            newest += 1
            nodes.sealed(newest, view, books)
        (reply,) = tree.answer([load.pool[i]], first, last, view, books, noise)
        assert reply.value is not None
        truth = int(sums[i, last + 1] - sums[i, first])
        out.note(reply.path, abs(reply.value - truth), alpha * books.scale(first, last))
        if n % step == 0:
            out.mark(n, books.average_spent())
    out.paid = dict(books.paid)
    return out
