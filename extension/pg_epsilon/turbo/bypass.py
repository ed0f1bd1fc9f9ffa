"""PMW-Bypass on one node (turbo.md §6.9, Alg. 1 made executable) and vanilla PMW (§6.8).

A request is one query, or a batch of queries that share no bin (GROUP BY): then what is answered by direct noise costs
one epsilon together, what is answered after a FAIL another, and one epoch serves all keys until its first FAIL
(composition.md §5.5, §14.5). Worst case: direct + 3 epoch + hard, reserved before anything is read.
"""

from __future__ import annotations

from collections.abc import Sequence

from pg_epsilon.noise import NoiseSource
from pg_epsilon.turbo import sparse_vector
from pg_epsilon.turbo.bins import Query
from pg_epsilon.turbo.books import Books, Payment, Released
from pg_epsilon.turbo.calibration import Draw, epoch_charge
from pg_epsilon.turbo.histogram import Change, Histogram
from pg_epsilon.turbo.sparse_vector import SparseVector
from pg_epsilon.turbo.split import WHOLE, run_key
from pg_epsilon.turbo.steps import Learner, checked, exhausted, heuristic_of, stored, trivial
from pg_epsilon.turbo.view import Answer, View

KEY = run_key((WHOLE,))


def answer(queries: Sequence[Query], view: View, books: Books, noise: NoiseSource) -> list[Answer]:
    """One answer per query, each within alpha ñ of the truth with probability 1 - beta (per epoch: E-6).

    queries: one, or a batch that shares no bin (checked). Privacy: what was paid through `books`; everything is decided
    by public facts and released values. DP001, nothing read or changed, if the worst case cannot be paid. Runs in the
    caller's transaction, which commits if this returns, also with answers None (refused, failed).
    """
    request = _Request(queries, view, books, noise)
    direct, asked = view.prices.direct(request.scale), []
    for i, query in enumerate(queries):
        hit = None if query.empty or view.mode == "pmw" else stored(books, query, WHOLE, direct)
        if query.empty:
            request.found[i] = trivial()
        elif hit is not None:
            request.found[i] = Answer(round(hit), "exact")
        else:
            asked.append(i)
    if asked:
        request.ask(asked, direct)
    return [request.found[i] for i in range(len(queries))]


class _Request:
    def __init__(self, queries: Sequence[Query], view: View, books: Books, noise: NoiseSource) -> None:
        self.queries, self.view, self.books, self.noise = queries, view, books, noise
        self.unit = checked(queries, view)
        self.scale = books.scale(0, 0)
        self.found: dict[int, Answer] = {}
        self.hard = view.prices.hard(self.scale)

    def ask(self, asked: list[int], direct: Draw) -> None:
        histogram = self.books.node(WHOLE)
        if histogram is None:
            histogram = Histogram.uniform(self.view.domain.bins, heuristic_of(self.view))
            self.books.make_node(WHOLE, histogram)
        self.learner = Learner(WHOLE, histogram, self.scale, self.view, self.books)
        trusted = [self.learner.ready(self.queries[i]) for i in asked]
        ready = [i for i, is_ready in zip(asked, trusted, strict=True) if is_ready]
        bypassed = [i for i, is_ready in zip(asked, trusted, strict=True) if not is_ready]
        state = self.books.sparse_vector(KEY)
        paid = [Payment(0, 0, direct.charge(), "bypass")] if bypassed else []
        if not self.books.can_pay([*paid, *(self._worst(state) if ready else [])]):
            self._unaffordable(asked, ready, state)
            return
        if bypassed:
            self.books.pay(paid)
            for i, value in zip(bypassed, self._drawn(bypassed, direct, "r3"), strict=True):
                self.learner.external(self.queries[i], value, Change.BYPASS)
        if ready:
            self._test(ready, self._opened(state))

    def _epoch(self) -> Payment:
        return Payment(0, 0, epoch_charge(self.view.prices.epoch(self.scale)), "epoch")

    def _failing(self) -> Payment:
        return Payment(0, 0, self.hard.charge(), "hard")

    def _worst(self, state: SparseVector) -> list[Payment]:
        return [self._failing()] if state.active else [self._epoch(), self._failing()]

    def _opened(self, state: SparseVector) -> SparseVector:
        """The open epoch, or a new one, paid first (E-5)."""
        if state.active:
            return state
        self.books.pay([self._epoch()])
        threshold, epsilon = self.view.prices.threshold(self.scale, self.view.unit), self.view.prices.epoch(self.scale)
        state = sparse_vector.opened(
            state, KEY, threshold, sensitivity=self.view.unit, epsilon=epsilon, noise=self.noise
        )
        self.books.keep_sparse_vector(KEY, state)
        return state

    def _drawn(self, keys: list[int], draw: Draw, path: str) -> list[int]:
        """Noisy answers, which were paid for, of queries without a common bin."""
        truths = [self.books.truth(self.queries[i], WHOLE) for i in keys]
        noisy = draw.release(truths, self.unit, self.noise, f"turbo {path}")
        for i, value in zip(keys, noisy, strict=True):
            self.found[i] = Answer(value, path)
            self.learner.keep(self.queries[i], Released(value, draw.mechanism, draw.amount))
        return noisy

    def _passes(self, i: int, estimate: int, state: SparseVector) -> bool:
        error = abs(self.books.truth(self.queries[i], WHOLE) - estimate) * (self.view.unit // self.unit)
        return sparse_vector.passes(state, KEY, error, sensitivity=self.view.unit, noise=self.noise)

    def _test(self, ready: list[int], state: SparseVector) -> None:
        for at, i in enumerate(ready):
            estimate = round(self.learner.estimate(self.queries[i]))
            if self._passes(i, estimate, state):
                self.found[i] = Answer(estimate, "r1")
                continue
            self.books.keep_sparse_vector(KEY, state.closed())
            try:  # the FAIL bit is out: whatever goes wrong from here on, its transition is committed (E-22)
                self._after_fail(ready[at:], estimate)
            except Exception as error:
                self.found.update({j: Answer(None, "failed", error) for j in ready[at:]})
            return

    def _after_fail(self, keys: list[int], estimate: int) -> None:
        """The key that failed and those after it, which no epoch serves: one draw of disjoint cells."""
        self.books.pay([self._failing()])
        failed = self.queries[keys[0]]
        self.learner.penalize(failed)
        noisy = self._drawn(keys, self.hard, "r2")
        self.learner.internal(failed, noisy[0] - estimate)
        for i, value in zip(keys[1:], noisy[1:], strict=True):
            self.learner.external(self.queries[i], value, Change.HARD)

    def _unaffordable(self, asked: list[int], ready: list[int], state: SparseVector) -> None:
        """Refuse; or, free_only, go on testing in the epoch that is open and paid: no new one (line 19)."""
        if not (self.view.free_only and state.active and ready):
            raise exhausted()
        self.found.update({i: Answer(None, "refused", exhausted()) for i in asked})
        for i in ready:
            estimate = round(self.learner.estimate(self.queries[i]))
            if not self._passes(i, estimate, state):
                self.books.keep_sparse_vector(KEY, state.closed())
                self.learner.penalize(self.queries[i])
                return
            self.found[i] = Answer(estimate, "r1")
