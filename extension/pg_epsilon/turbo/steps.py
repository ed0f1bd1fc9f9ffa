"""What the algorithms on one node and on a tree share: a node's part in a request. Released values and public facts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from pg_epsilon.errors import EXHAUSTED, DPError
from pg_epsilon.noise import NoiseSource
from pg_epsilon.turbo import refine
from pg_epsilon.turbo.bins import Query, disjoint
from pg_epsilon.turbo.books import Books, Released
from pg_epsilon.turbo.calibration import Draw
from pg_epsilon.turbo.histogram import Change, Event, Heuristic, Histogram
from pg_epsilon.turbo.split import Node
from pg_epsilon.turbo.view import Answer, View

HINT = "Stored answers are still free; ask the owner for a larger allotment."


def exhausted() -> DPError:
    """DP001: said before anything is read."""
    return DPError(EXHAUSTED, "the privacy budget left does not cover the worst case of this query", HINT)


def heuristic_of(view: View) -> Heuristic:
    """The view's, or that of vanilla PMW: always ready, one rate."""
    if view.mode == "pmw":
        rate = float(view.prices.alpha) / 8 if view.pmw_rate is None else view.pmw_rate
        return replace(view.heuristic, c0=0, s0=0, rates=((0.0, rate),))
    return view.heuristic


def trivial() -> Answer:
    """Of no bin, or of no rows: from public data. Every bin is a question like any other: ñ is declared, or was bought
    before rows came late (composition.md §1.4, turbo.md §2.3)."""
    return Answer(0, "trivial")


def checked(queries: Sequence[Query], view: View) -> int:
    """The unit of a batch; ValueError unless its queries share no bin, and one lattice that the view has."""
    units = {query.unit for query in queries}
    if len(units) != 1 or max(units) > view.unit or (len(queries) > 1 and not disjoint(queries)):
        raise ValueError("a batch is of queries that share no bin and have one lattice, no finer than the view's")
    return units.pop()


def stored(books: Books, query: Query, node: Node, draw: Draw) -> Fraction | None:
    """A stored answer at least as accurate as this draw would be: a hit, also of exactly 0 (§6.4). In its steps."""
    released = refine.best(books, query, node, draw)
    return refine.value(released) if released is not None and released.amount >= draw.amount else None


class Learner:
    """One node in one request: its histogram, and the log of what happens to it."""

    def __init__(self, node: Node, histogram: Histogram, scale: int, view: View, books: Books) -> None:
        self.node, self.histogram, self.scale = node, histogram, scale
        self._view, self._books = view, books
        self.heuristic = heuristic_of(view)

    def ready(self, query: Query) -> bool:
        return self._view.mode == "pmw" or (not query.full and self.histogram.ready(query, self.heuristic))

    def estimate(self, query: Query) -> float:
        return self.histogram.estimate(query, self.scale)

    def penalize(self, query: Query) -> None:
        """Before the update of the same query (§6.6)."""
        self._apply(Event(Change.PENALIZE, query.id), query)

    def external(self, query: Query, noisy: int, change: Change) -> None:
        """Learn from an answer by noise, if it is off by more than tau alpha ñ (§6.9, line 7)."""
        self.beyond(query, noisy - round(self.estimate(query)), self.scale, change)

    def beyond(self, query: Query, off: int, scale: int, change: Change) -> None:
        """Learn in the direction in which an answer over `scale` rows is off, if by more than tau alpha times them."""
        margin = self.heuristic.tau * float(self._view.prices.alpha) * scale * query.unit
        self._apply(Event(change, query.id, self._step(query, off) if abs(off) > margin else 0.0), query)

    def internal(self, query: Query, off: int) -> None:
        """Learn after a FAIL: in the direction of the noisy answer; nothing if it is the estimate (E-18)."""
        self._apply(Event(Change.HARD, query.id, self._step(query, off)), query)

    def keep(self, query: Query, released: Released) -> None:
        if self._view.mode != "pmw":
            self._books.keep_exact(query, self.node, released)

    def draw(self, query: Query, draw: Draw, change: Change, noise: NoiseSource) -> Fraction:
        """This node's answer at `draw`, of which `refine.lacking` was paid: released, learnt from, kept. In steps."""
        released = refine.release(self._books, query, self.node, draw, noise)
        found = refine.value(released)
        self.external(query, round(found), change)
        self.keep(query, released)
        return found

    def _step(self, query: Query, off: int) -> float:
        return ((off > 0) - (off < 0)) * self.histogram.rate(query, self.heuristic) if off else 0.0

    def _apply(self, event: Event, query: Query) -> None:
        if query.full:  # scaled to ñ again, it would have learnt nothing, and count it as an update of every bin
            return
        self.histogram.apply(event, query, self.heuristic)
        self._books.log(self.node, event, query)
