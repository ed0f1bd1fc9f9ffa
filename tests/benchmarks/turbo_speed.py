"""What an answer takes on each path (Figure 11d) and what a node takes in memory, with the engine's own noise."""

from __future__ import annotations

import statistics
import time
from dataclasses import replace
from fractions import Fraction

import numpy as np
from report import Row, row

from benchmarks.turbo_data import Workload, citibike, covid, merged, picks
from benchmarks.turbo_experiments import PoolBooks
from pg_epsilon.noise import Noise, current
from pg_epsilon.turbo import bypass
from pg_epsilon.turbo.bins import Query, box_query
from pg_epsilon.turbo.calibration import Calibration
from pg_epsilon.turbo.histogram import Heuristic
from pg_epsilon.turbo.split import WHOLE
from pg_epsilon.turbo.view import View

TIMES = 200
LIMITS = {"exact": None, "r1": 25.0, "r2": None, "r3": 30.0}
NAMES = {"r3": "bypass"}


class Fails(Noise):
    """Every test fails, after drawing its noise."""

    def sparse_test(
        self, error: int, noisy_threshold: int, *, sensitivity: object, epsilon: object, label: str
    ) -> bool:
        super().sparse_test(error, noisy_threshold, sensitivity=sensitivity, epsilon=epsilon, label=label)  # type: ignore[arg-type]
        return False


def large(load: Workload, count: int = 60) -> Workload:
    """Boxes of all values but one of each attribute, at random: about a sixth of the bins, nowhere contiguous."""
    rng, sizes = np.random.default_rng(9), load.domain.sizes
    pool = [box_query(load.domain, [rng.permutation(n)[: max(1, n - 1)] for n in sizes]) for _ in range(count)]
    truths = np.array([[query.total(load.counts[0])] for query in pool])
    return replace(load, name=load.name + "-large", pool=pool, truths=truths)


def _milliseconds(load: Workload, path: str) -> float:
    """The median, true count from the sums of the simulation."""
    heuristic = Heuristic(c0=10**6 if path == "r3" else 0, s0=0)
    view = View(load.domain, Calibration(Fraction(5, 100), Fraction(1, 1000)), heuristic)
    books, noise = PoolBooks(load), Fails() if path == "r2" else current()
    taken = []
    for i in picks(len(load.pool), TIMES, 0, 5).tolist():
        query = Query.from_bytes(load.pool[i].to_bytes())  # as it comes: nothing is prepared
        if path == "exact":
            bypass.answer([load.pool[i]], view, books, noise)
        elif path == "r1" and (node := books.node(WHOLE)) is not None:
            true = int(load.truths[i, 0]) / load.scales[0]  # an estimate that passes
            cells = load.pool[i].of(node.weights)
            rest = node.mass - float(cells.sum())
            load.pool[i].put(node.weights, cells * (true * rest / ((1 - true) * float(cells.sum())) if true < 1 else 1))
            node.mass = float(node.weights.sum())
        start = time.perf_counter()
        (reply,) = bypass.answer([query], view, books, noise)
        if reply.path == path:
            taken.append(1000 * (time.perf_counter() - start))
        if path != "exact":
            books.exacts.clear()
    return statistics.median(taken)


def measure() -> list[Row]:
    """Rows path_ms:PATH:TABLE and bytes_per_bin."""
    found = []
    rides = merged(citibike(), 50)
    for load in (merged(covid(), 1), rides, large(rides)):
        for path, limit in LIMITS.items():
            name = f"path_ms:{NAMES.get(path, path)}:{load.name}"
            note = f"median, N = {load.domain.bins}, without reading the true count; baseline: the limit"
            found.append(row(name, _milliseconds(load, path), limit, note))
    books = PoolBooks(rides)
    view = View(rides.domain, Calibration(Fraction(5, 100), Fraction(1, 1000)), replace(Heuristic(), c0=5))
    bypass.answer([rides.pool[1]], view, books, current())
    per_bin = len(books.nodes[WHOLE].to_bytes()) / rides.domain.bins
    return [*found, row("bytes_per_bin", per_bin, 16, "a node's snapshot, N = 604,800")]
