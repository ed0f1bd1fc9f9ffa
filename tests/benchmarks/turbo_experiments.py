"""The Turbo paper's experiments over books in memory: what each method pays, how often it is off by more than alpha."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from benchmarks.turbo_data import Array, Workload
from pg_epsilon.accounting.margins import Number
from pg_epsilon.noise import Noise
from pg_epsilon.turbo import bypass, nodes, tree, window
from pg_epsilon.turbo.bins import Query
from pg_epsilon.turbo.books import MemoryBooks
from pg_epsilon.turbo.calibration import sum_quantile
from pg_epsilon.turbo.split import WHOLE, Node, dyadic
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


@dataclass(frozen=True)
class Case:
    """One experiment: a table, a view, and a sequence of queries, each on a window of partitions.

    growing: a partition is sealed when the first query names it. asked: indices into the pool. spans: [first, last].
    """

    name: str
    load: Workload
    view: View
    asked: Array
    spans: Array
    growing: bool = False
    seed: int = 1

    @property
    def partitions(self) -> int:
        return len(self.load.scales)

    @property
    def alpha(self) -> float:
        return float(self.view.prices.alpha)

    @property
    def beta(self) -> Fraction:
        return self.view.prices.beta

    def every(self) -> int:
        """How often the budget is noted."""
        return max(1, len(self.asked) // 100)

    def sums(self) -> Array:
        return prefix(self.load.truths)


def prefix(table: Array) -> Array:
    """Sums of the first columns: column i is the sum of those before it."""
    return np.pad(np.cumsum(table, axis=1), ((0, 0), (1, 0)))


def turbo(case: Case, method: str = "turbo") -> Outcome:
    """Turbo as the view says: PMW-Bypass or vanilla PMW on one node, the tree or [R]'s windows over several."""
    books, noise, out = PoolBooks(case.load), Seeded(case.seed), Outcome(method)
    newest, sums = -1, case.sums()
    for n, (i, (first, last)) in enumerate(zip(case.asked.tolist(), case.spans.tolist(), strict=True), 1):
        while case.growing and newest < last:
            newest += 1
            nodes.sealed(newest, case.view, books)
        query = case.load.pool[i]
        if case.partitions == 1:
            (reply,) = bypass.answer([query], case.view, books, noise)
        elif case.view.scope == "window":
            (reply,) = window.answer([query], first, last, case.view, books, noise)
        else:
            (reply,) = tree.answer([query], first, last, case.view, books, noise)
        assert reply.value is not None
        truth = int(sums[i, last + 1] - sums[i, first])
        out.note(reply.path, abs(reply.value - truth), case.alpha * books.scale(first, last))
        if n % case.every() == 0:
            out.mark(n, books.average_spent())
    out.paid = dict(books.paid)
    return out


def pmw(case: Case) -> Outcome:
    """Vanilla PMW, with 4 ln(1/beta) for tests and hard answers: what an epoch's accuracy needs (E-6)."""
    prices = replace(case.view.prices, printed=True)
    return turbo(replace(case, view=replace(case.view, mode="pmw", prices=prices)), "pmw")


def flat(case: Case) -> Outcome:
    """Turbo with one node for each partition (Question 6)."""
    return turbo(replace(case, view=replace(case.view, planner="flat")), "flat")


def artifact(case: Case) -> Outcome:
    """Turbo with a sparse vector for each window."""
    return turbo(replace(case, view=replace(case.view, scope="window")), "window")


class Ledger:
    """What a method without a histogram pays, and the answers' errors, by noise of the same law."""

    def __init__(self, case: Case, method: str) -> None:
        self.case, self.out = case, Outcome(method)
        self.spent = np.zeros(case.partitions)
        self.rows = np.concatenate(([0], np.cumsum(case.load.scales)))
        self._rng = np.random.default_rng(case.seed)

    def tolerance(self, first: int, last: int) -> float:
        return self.case.alpha * float(self.rows[last + 1] - self.rows[first])

    def draw(self, epsilon: float) -> int:
        both = self._rng.geometric(-math.expm1(-epsilon), 2)
        return int(both[0] - both[1])

    def answered(self, n: int, path: str, error: float, first: int, last: int) -> None:
        self.out.note(path, abs(error), self.tolerance(first, last))
        if n % self.case.every() == 0:
            self.out.mark(n, float(self.spent.mean()))

    def asked(self) -> Iterator[tuple[int, int, int, int]]:
        """(n, query, first, last); a query of no bin is left out: it costs no method anything."""
        trivial = [query.empty for query in self.case.load.pool]
        for n, (i, (first, last)) in enumerate(zip(self.case.asked.tolist(), self.case.spans.tolist(), strict=True), 1):
            if trivial[i]:
                self.answered(n, "trivial", 0, first, last)
            else:
                yield n, i, first, last


def direct(case: Case, method: str, cached: bool) -> Outcome:
    """Laplace noise for every query on its window; cached: once for each query and window."""
    ledger, kept = Ledger(case, method), dict[tuple[int, int, int], int]()
    x = float(sum_quantile(1, case.beta))
    for n, i, first, last in ledger.asked():
        key = (i, first, last)
        hit = cached and key in kept
        if not hit:
            epsilon = x / ledger.tolerance(first, last)
            ledger.spent[first : last + 1] += epsilon
            kept[key] = ledger.draw(epsilon)
        ledger.answered(n, "exact" if hit else "r3", kept[key], first, last)
    return ledger.out


def exact(case: Case) -> Outcome:
    """The exact cache."""
    return direct(case, "exact", cached=True)


def laplace(case: Case) -> Outcome:
    """No cache."""
    return direct(case, "laplace", cached=False)


def tree_exact(case: Case) -> Outcome:
    """The exact cache over dyadic nodes: a node's noisy answer serves every window that has the node."""
    ledger, kept = Ledger(case, "tree-exact"), dict[tuple[int, Node], tuple[float, int]]()
    for n, i, first, last in ledger.asked():
        cover = dyadic(first, last)
        epsilon, error, fresh = float(sum_quantile(len(cover), case.beta)) / ledger.tolerance(first, last), 0, False
        for node in cover:
            if kept.get((i, node), (0.0, 0))[0] < epsilon:
                kept[i, node], fresh = (epsilon, ledger.draw(epsilon)), True
                ledger.spent[node.first : node.last + 1] += epsilon
            error += kept[i, node][1]
        ledger.answered(n, "r3" if fresh else "exact", error, first, last)
    return ledger.out


def synopsis(case: Case) -> Outcome:
    """All bins of each partition by noise, when it is sealed: t*_N(beta) / (alpha n~), for queries fixed beforehand."""
    ledger, newest = Ledger(case, "synopsis"), -1 if case.growing else case.partitions - 1
    x, rng = float(sum_quantile(case.load.domain.bins, case.beta)), np.random.default_rng(case.seed)
    epsilons = np.array([x / ledger.tolerance(p, p) for p in range(case.partitions)])
    chances = -np.expm1(-epsilons)[:, None]
    shape = (case.partitions, case.load.domain.bins)
    errors = prefix(case.load.answer(rng.geometric(chances, shape) - rng.geometric(chances, shape)))
    for n, i, first, last in ledger.asked():
        newest = max(newest, last)
        ledger.spent[: newest + 1] = epsilons[: newest + 1]
        ledger.answered(n, "synopsis", float(errors[i, last + 1] - errors[i, first]), first, last)
    return ledger.out


METHODS: dict[str, Callable[[Case], Outcome]] = {
    "turbo": turbo,
    "exact": exact,
    "tree-exact": tree_exact,
    "pmw": pmw,
    "laplace": laplace,
    "synopsis": synopsis,
    "flat": flat,
    "window": artifact,
}


def whole(asked: Array) -> Array:
    """Every query on the one partition."""
    return np.zeros((len(asked), 2), int)


def windows(asked: Array, partitions: int, seed: int) -> Array:
    """A window of 1 … all partitions at a random place for each query."""
    rng = np.random.default_rng(seed)
    return _placed(rng.integers(1, partitions + 1, len(asked)), partitions, rng)


def gaussian_windows(asked: Array, partitions: int, mean: float, seed: int) -> Array:
    """The same, of normally distributed length, deviation 5."""
    rng = np.random.default_rng(seed)
    length = np.rint(rng.normal(mean, 5, len(asked))).clip(1, partitions).astype(int)
    return _placed(length, partitions, rng)


def _placed(length: Array, partitions: int, rng: np.random.Generator) -> Array:
    first = (rng.random(len(length)) * (partitions - length + 1)).astype(int)
    return np.stack([first, first + length - 1], axis=1)


def stream(asked: Array, partitions: int, seed: int) -> Array:
    """Queries of the latest 1 … available partitions, which arrive one by one while the queries do (Poisson)."""
    rng = np.random.default_rng(seed)
    arrived = np.cumsum(rng.poisson(len(asked) / partitions, partitions))
    newest = np.minimum(np.searchsorted(arrived, np.arange(len(asked)), side="right"), partitions - 1)
    length = 1 + (rng.random(len(asked)) * (newest + 1)).astype(int)
    return np.stack([newest - length + 1, newest], axis=1)


def convergence(load: Workload, view: View, asked: Array, seed: int = 1) -> tuple[int | None, list[tuple[int, float]]]:
    """§6.15: every 500 queries the share of 1,000 queries that the histogram answers within alpha / 2.

    Returns the number of updates at which it first was 0.9, and (updates, share) as it went. Reads true answers
    without noise: only for tables that are made up.
    """
    books, noise, found = PoolBooks(load), Seeded(seed), None
    sample = np.random.default_rng(seed).choice(len(load.pool), 1000)
    seen: list[tuple[int, float]] = []
    for n, i in enumerate(asked.tolist(), 1):
        bypass.answer([load.pool[i]], view, books, noise)
        if n % 500 == 0:
            node = books.nodes[WHOLE]
            off = [abs(node.estimate(load.pool[j], load.scales[0]) - int(load.truths[j, 0])) for j in sample]
            share = float(np.mean(np.array(off) < float(view.prices.alpha) / 2 * load.scales[0]))
            seen.append((node.updates, share))
            if share >= 0.9 and found is None:
                found = node.updates
                break
    return found, seen
