"""Turbo's books in a dry run (dp_plan, EXPLAIN): what a request would pay at most, by public facts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pg_epsilon.accounting.margins import Number
from pg_epsilon.ledger import Execute
from pg_epsilon.noise import Noise
from pg_epsilon.turbo.bins import Query
from pg_epsilon.turbo.books import Payment, Released
from pg_epsilon.turbo.catalog import View
from pg_epsilon.turbo.histogram import Event, Heuristic, Histogram
from pg_epsilon.turbo.payer import Payer
from pg_epsilon.turbo.split import Node
from pg_epsilon.turbo.sql_books import Kept, SqlBooks, Warm

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]


class Still(Noise):
    """No noise, nothing drawn: there is nothing to hide."""

    def laplace(self, exact: Sequence[int], *, l1_sensitivity: Number, epsilon: Number, label: str) -> list[int]:
        return list(exact)

    def gaussian(self, exact: Sequence[int], *, l2_squared: Number, rho: Number, label: str) -> list[int]:
        return list(exact)


class Planned(Exception):
    """The worst case of a request, which an algorithm asks about before it reads or draws anything."""

    def __init__(self, payments: Sequence[Payment]) -> None:
        super().__init__()
        self.payments = tuple(payments)


class PlanBooks(SqlBooks):
    """Books of a dry run: nothing is locked, written, read of rows or paid; `can_pay` ends it with `Planned`."""

    _for_update = ""

    def can_pay(self, payments: Sequence[Payment]) -> bool:
        raise Planned(payments)

    def make_node(self, node: Node, histogram: Histogram) -> None:
        self._checked[node] = Kept(histogram, 0)


class AutoPlanBooks(PlanBooks):
    """The same for the planner `auto`, which weighs what can be paid, then pays all of it at once.

    What one aggregate of a request pays and notes is known when the next one is planned, as it will be. Every count is
    0, every noise too; a synopsis, the answers of which the next one finds, ends the dry run of this one.
    """

    def __init__(self, execute: Execute, view: View, payer: Payer, heuristic: Heuristic, warm: Warm) -> None:
        super().__init__(execute, view, payer, heuristic, warm)
        self._notes: dict[tuple[str, Node], bytes] = {}
        self._kept: dict[tuple[bytes, Node], Released] = {}
        self._all: list[Payment] = []
        self._new: list[Payment] = []

    def taken(self) -> list[Payment]:
        """What was paid since this was asked last."""
        found, self._new = self._new, []
        return found

    @property
    def begun(self) -> bool:
        return bool(self._all or self._notes)

    def can_pay(self, payments: Sequence[Payment]) -> bool:
        return self._payer.could_pay([*self._all, *payments])

    def reserve(self, payments: Sequence[Payment]) -> bool:
        self.pay(payments)
        return True

    def pay(self, payments: Sequence[Payment]) -> None:
        # the synopsis that one aggregate buys, the next one finds
        new = [one for one in payments if one.why != "synopsis" or one not in self._all]
        self._all += new
        self._new += new

    def note(self, name: str, node: Node) -> bytes | None:
        known = self._notes.get((name, node))
        return super().note(name, node) if known is None else known

    def keep_note(self, name: str, node: Node, data: bytes) -> None:
        self._notes[name, node] = data

    def truth(self, query: Query, node: Node) -> int:
        return 0

    def answers(self, query: Query, mechanism: str) -> Sequence[tuple[Node, Released]]:
        own = [
            (node, one) for (asked, node), one in self._kept.items() if (asked, one.mechanism) == (query.id, mechanism)
        ]
        return [*super().answers(query, mechanism), *own]

    def keep_exact(self, query: Query, node: Node, released: Released) -> None:
        self._kept[query.id, node] = released

    def log(self, node: Node, event: Event, query: Query) -> None:
        pass

    def bins(self, part: int) -> Array:
        raise Planned(self.taken())
