"""A sparse vector for each requested window (turbo.md §6.11, [R]): `scope` "window", the authors' artifact's way.

The sparse vector of the window tests the whole answer, of ready nodes' histograms and of noise on the others, and is
paid by every partition of the window. After a FAIL every node is answered by noise, and each histogram learns from its
own. Both parts have all of beta: an answer is within alpha ñ with probability 1 - 2 beta (the histogram part per epoch)
only. It is as private as "run"; which one is cheaper depends on the workload.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from pg_epsilon.noise import NoiseSource
from pg_epsilon.turbo import refine, sparse_vector
from pg_epsilon.turbo.bins import Query
from pg_epsilon.turbo.books import Books, Payment
from pg_epsilon.turbo.calibration import Draw, epoch_charge
from pg_epsilon.turbo.histogram import Change
from pg_epsilon.turbo.nodes import histogram_of
from pg_epsilon.turbo.split import Node
from pg_epsilon.turbo.steps import Learner, checked, exhausted, stored, trivial
from pg_epsilon.turbo.tree import cover, dearest, merge
from pg_epsilon.turbo.view import Answer, View


def answer(
    queries: Sequence[Query], first: int, last: int, view: View, books: Books, noise: NoiseSource
) -> list[Answer]:
    """As `tree.answer`, one key of a batch after the other: the keys' costs add up."""
    checked(queries, view)
    found = [_Request(queries[0], first, last, view, books, noise).answer()]
    for query in queries[1:]:
        try:  # a FAIL of an earlier key may be out: a refusal of this one must not roll it back (E-22)
            found.append(_Request(query, first, last, view, books, noise).answer())
        except Exception as error:
            found.append(Answer(None, "failed", error))
    return found


class _Request:
    def __init__(self, query: Query, first: int, last: int, view: View, books: Books, noise: NoiseSource) -> None:
        self.query, self.view, self.books, self.noise = query, view, books, noise
        self.span, self.key = Node(0, first, last), "window " + Node(0, first, last).key()
        self.scale = books.scale(first, last)
        scales = {node: books.scale(node.first, node.last) for node in cover(view, first, last)}
        self.learners = {
            node: Learner(node, histogram_of(node, view, books), scale, view, books)
            for node, scale in scales.items()
            if scale > 0
        }

    def answer(self) -> Answer:
        if self.query.empty or not self.learners:
            return trivial()
        every = self.view.prices.window_node(len(self.learners), self.scale)
        known = {node: self._stored(node, every) for node in self.learners}
        trusted = [n for n, learner in self.learners.items() if known[n] is None and learner.ready(self.query)]
        rest = [node for node in self.learners if node not in trusted]
        rows = sum(self.learners[node].scale for node in rest)
        draw = self.view.prices.window_node(len(rest), rows) if rest else every
        kept = {node: value for node in rest if (value := self._stored(node, draw)) is not None}
        fresh = [node for node in rest if node not in kept]
        less = draw.amount < every.amount or (draw.refines and not every.refines)
        again = [n for n in self.learners if known[n] is None and (n in trusted or less)]
        paid, failing = self._payments(fresh, draw, "node"), self._payments(again, every, "hard")
        state = self.books.sparse_vector(self.key)
        opening = [] if state.active else [self._opening()]
        if not self.books.can_pay([*paid, *([*opening, *failing] if trusted else [])]):
            raise exhausted()
        self.books.pay(paid)
        parts = kept | self._noise(fresh, draw, Change.BYPASS)
        if not trusted:
            return Answer(round(sum(parts.values())), _path(bool(kept), bool(fresh)))
        guess = round(sum(parts.values())) + round(sum(self.learners[node].estimate(self.query) for node in trusted))
        if self._passes(guess):
            return Answer(guess, "mixed" if parts else "r1")
        try:  # the FAIL bit is out: whatever goes wrong from here on, its transition is committed (E-22)
            self.books.pay(self._payments(again, every, "hard"))  # less than reserved: what was just drawn is refined
            for node in trusted:
                self.learners[node].penalize(self.query)
            parts |= {node: value for node, value in known.items() if value is not None}
            parts |= self._noise(again, every, Change.HARD)
            return Answer(round(sum(parts.values())), "r2")
        except Exception as error:
            return Answer(None, "failed", error)

    def _stored(self, node: Node, draw: Draw) -> Fraction | None:
        return stored(self.books, self.query, node, draw)

    def _payments(self, nodes: Sequence[Node], draw: Draw, why: str) -> list[Payment]:
        return merge(dearest((node, refine.lacking(self.books, self.query, node, draw)) for node in nodes), why)

    def _opening(self) -> Payment:
        charge = epoch_charge(self.view.prices.epoch(self.scale))
        return Payment(self.span.first, self.span.last, charge, "epoch")

    def _passes(self, guess: int) -> bool:
        """Lines 10 to 13 for the whole window; an epoch is paid before it is opened (E-5), closed after a FAIL."""
        state, unit = self.books.sparse_vector(self.key), self.view.unit
        if not state.active:
            self.books.pay([self._opening()])
            threshold, epsilon = self.view.prices.threshold(self.scale, unit), self.view.prices.epoch(self.scale)
            state = sparse_vector.opened(
                state, self.key, threshold, sensitivity=unit, epsilon=epsilon, noise=self.noise
            )
            self.books.keep_sparse_vector(self.key, state)
        truth = sum(self.books.truth(self.query, node) for node in self.learners)
        error = abs(truth - guess) * (unit // self.query.unit)
        passed = sparse_vector.passes(state, self.key, error, sensitivity=unit, noise=self.noise)
        if not passed:
            self.books.keep_sparse_vector(self.key, state.closed())
        return passed

    def _noise(self, nodes: Sequence[Node], draw: Draw, change: Change) -> dict[Node, Fraction]:
        return {node: self.learners[node].draw(self.query, draw, change, self.noise) for node in nodes}


def _path(kept: bool, fresh: bool) -> str:
    return "mixed" if kept and fresh else "r3" if fresh else "exact"
