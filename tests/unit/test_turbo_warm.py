"""Histograms that a backend keeps are those of the tables, bit by bit, also from a snapshot on (turbo/sql_books.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, cast

import pytest

from pg_epsilon.turbo.bins import Domain, box_query
from pg_epsilon.turbo.catalog import Part, View
from pg_epsilon.turbo.histogram import Change, Event, Heuristic, Histogram
from pg_epsilon.turbo.payer import Payer
from pg_epsilon.turbo.sparse_vector import SparseVector
from pg_epsilon.turbo.split import WHOLE
from pg_epsilon.turbo.sql_books import SqlBooks, Warm

QUERY = box_query(Domain((4,)), [{0, 1}])
EVENT = Event(Change.BYPASS, QUERY.id, 0.25)
VIEW = View(1, (), Decimal("0.05"), Decimal("0.001"), False, Decimal(100), {}, {})


class Tables:
    """turbo_node, turbo_hist_update and turbo_query of one node, as the books read them."""

    def __init__(self) -> None:
        self.histogram = Histogram.uniform(4, Heuristic())
        self.snapshot, self.seq = self.histogram.to_bytes(), 0
        self.events: dict[int, bytes] = {}

    def happen(self, *, snapshot: bool = False) -> None:
        self.histogram.apply(EVENT, QUERY, Heuristic())
        last = max(self.events, default=0) + 1
        self.events[last] = EVENT.to_bytes()
        if snapshot:
            self.snapshot, self.seq = self.histogram.to_bytes(), last
            self.events = {last: self.events[last]}

    def execute(self, sql: str, types: Sequence[str], args: Sequence[Any]) -> list[dict[str, Any]]:
        if sql.startswith("SELECT seq, snapshot"):
            return [{"seq": self.seq, "snapshot": self.snapshot}]
        if sql.startswith("SELECT 1 FROM dp.turbo_node"):
            return [{"one": 1}] if args[2] == self.seq else []
        if sql.startswith("SELECT seq, event"):
            return [{"seq": n, "event": e} for n, e in sorted(self.events.items()) if n >= args[2]]
        assert sql.startswith("SELECT id, query")
        return [{"id": QUERY.id, "query": QUERY.to_bytes()}]

    def seen(self, warm: Warm) -> bytes:
        """The node as a request of a backend with this memory sees it."""
        found = SqlBooks(self.execute, VIEW, cast(Payer, None), Heuristic(), warm).node(WHOLE)
        assert found is not None
        return found.to_bytes()


def test_the_event_that_a_snapshot_holds_is_not_replayed() -> None:
    """A backend that reads a node right after its snapshot: the event of the snapshot's number is still in the log."""
    tables, warm = Tables(), Warm()
    tables.happen()
    tables.happen(snapshot=True)
    for _ in range(3):
        assert tables.seen(warm) == tables.histogram.to_bytes()
    tables.happen()
    assert tables.seen(warm) == tables.seen(Warm()) == tables.histogram.to_bytes()
    tables.happen(snapshot=True)
    assert tables.seen(warm) == tables.seen(Warm()) == tables.histogram.to_bytes()


def test_a_past_that_was_rolled_back_is_noticed() -> None:
    tables, warm = Tables(), Warm()
    tables.happen()
    assert tables.seen(warm) == tables.histogram.to_bytes()
    other = Tables()
    assert other.seen(warm) == other.histogram.to_bytes()


def test_a_sparse_vector_that_could_not_be_written_is_rolled_back_like_anything_else() -> None:
    """A cancel during that write is one reply, whether the test passed or failed (turbo/engine.py: `PaidFor`)."""

    def cancelled(sql: str, types: Sequence[str], args: Sequence[Any]) -> list[dict[str, Any]]:
        if sql.startswith("INSERT INTO dp.turbo_sv"):
            raise RuntimeError("canceling statement due to user request")
        return []

    part = Part(0, None, None, None, 1, True, 1, "")
    books = SqlBooks(cancelled, replace(VIEW, parts={0: part}), cast(Payer, None), Heuristic(), Warm())
    with pytest.raises(RuntimeError):
        books.keep_sparse_vector("0:0-0", SparseVector(1))
    assert not books.changed
    books = SqlBooks(lambda *_: [], replace(VIEW, parts={0: part}), cast(Payer, None), Heuristic(), Warm())
    books.keep_sparse_vector("0:0-0", SparseVector(1))
    assert books.changed
