"""What a request reads and writes (turbo.md §3), as a Protocol, so that the algorithms are pure; and one in memory.

What is stored, by whom, in which form:

    exact answer    (query id, node key, data version, mechanism) → `Released`: the NOISY integer in the query's steps,
                    and how much epsilon (laplace) or rho (gaussian; refined: of its draws together) it cost. Never a
                    true value (E-14). The dearest one is kept.
    query           query id (SHA-256, 32 bytes) → `Query.to_bytes()`; needed to replay a log
    node            node key "tree:first-last" → snapshot `Histogram.to_bytes()`, 28 + 16 N bytes (head, g float64,
                    c int32, C int32, little-endian), and the log of the events since: `Event.to_bytes()`, 41 bytes each
                    (1: kind, 32: query id, 8: signed step), in order. State = `Histogram.from_bytes(snapshot)`, then
                    `replay(events, queries, heuristic)`: bit for bit the one in memory.
    sparse vector   (run key "node key,node key,…") → `SparseVector`: epoch, epsilon, NOISY threshold or null. Secret;
                    not dumped. A FAIL must be committed whatever happens afterwards (E-22): once `keep_sparse_vector`
                    was called with a closed one, the transaction commits, even if the reply is an error.
    leaf counts     (partition) → int32 per bin: `counts_to_bytes`. As secret as the rows.
    note            (name, node key, data version) → bytes, what the planner `auto` remembers of a node (`AutoBooks`):
                    a synopsis (8 bytes a bin), what was rented, how much of a payment each bin used up. Post-processing
                    of released values and public facts; rewritten whole. Readable by dp_owner only: a synopsis' noise
                    may be known to nobody before a query is asked about it.

One request is one transaction under the view's lock: it calls `can_pay` for its worst case before anything is read or
drawn, `pay` before each draw, and its reply is sent after the commit (§11).
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pg_epsilon.accounting.charges import Charge
from pg_epsilon.errors import EXHAUSTED, DPError
from pg_epsilon.turbo.bins import Query
from pg_epsilon.turbo.histogram import Event, Histogram
from pg_epsilon.turbo.sparse_vector import SparseVector
from pg_epsilon.turbo.split import Node

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]


class Payment(NamedTuple):
    """A charge on the leaves of partitions first … last (inclusive): each of them pays it once.

    A view that is not partitioned has the one partition 0, whose account is that of the whole relation. `why` is for
    the ledger: "bypass", "epoch", "hard", "node", "synopsis". The asker's allotment pays, but a "synopsis" is paid by
    `dp_planner` (composition.md §3.6, §14.5): everybody uses it, and no answer to this asker alone hangs on it.
    """

    first: int
    last: int
    charge: Charge
    why: str


class Released(NamedTuple):
    """A stored noisy answer. amount: the epsilon of a "laplace", the rho of a "gaussian" draw or "refined" answer.

    value: in the query's steps; a "refined" one in 2^-40 of them (refine.py).
    """

    value: int
    mechanism: str
    amount: Decimal


class Books(Protocol):
    """Everything that a request of a view touches. The caller holds the view's lock, and commits or rolls back."""

    def scale(self, first: int, last: int) -> int:
        """ñ of the partitions first … last: the sum of their public scales; 0 for one without rows."""
        ...

    def can_pay(self, payments: Sequence[Payment]) -> bool:
        """Whether all of them together fit into every account they touch. Changes nothing."""
        ...

    def pay(self, payments: Sequence[Payment]) -> None:
        """Pay all of them or none: DP001. Durable before anything that they pay for is revealed."""
        ...

    def exact(self, query: Query, node: Node, mechanism: str) -> Released | None:
        """The dearest stored answer of the node's present data version."""
        ...

    def keep_exact(self, query: Query, node: Node, released: Released) -> None:
        """Store it, unless a dearer one of the same mechanism is there."""
        ...

    def node(self, node: Node) -> Histogram | None:
        """The node's histogram, None if it was never made. The algorithms change it in place and call `log`."""
        ...

    def make_node(self, node: Node, histogram: Histogram) -> None:
        """Store a new node: its first snapshot."""
        ...

    def log(self, node: Node, event: Event, query: Query) -> None:
        """Note an event that was applied to the histogram already."""
        ...

    def sparse_vector(self, key: str) -> SparseVector:
        """The state of a run's sparse vector; a new UNINIT one if there is none."""
        ...

    def keep_sparse_vector(self, key: str, state: SparseVector) -> None:
        """Store it. A closed one stays closed whatever happens next (E-22)."""
        ...

    def truth(self, query: Query, node: Node) -> int:
        """The exact value on the node's partitions, in the query's steps: the only read of data. Secret."""
        ...


class AutoBooks(Books, Protocol):
    """What the planner `auto` needs besides (composition.md §7.5)."""

    @property
    def pure(self) -> bool:
        """Whether the dataset's accountant is `pure`: there, charges of laplace draws add up by their epsilon."""
        ...

    @property
    def begun(self) -> bool:
        """Whether another aggregate of this request was paid for, or taught something, already."""
        ...

    def reserve(self, payments: Sequence[Payment]) -> bool:
        """Said before data is read: what will be paid at most, `can_pay` being true of it. True in a dry run, for which
        that is all."""
        ...

    def bins(self, part: int) -> Array:
        """The exact number of rows in every bin of one partition: a read of data. Secret; not to be written to."""
        ...

    def answers(self, query: Query, mechanism: str) -> Sequence[tuple[Node, Released]]:
        """The stored answers of the query on any nodes, each of its node's present data version; in order of nodes."""
        ...

    def note(self, name: str, node: Node) -> bytes | None:
        """The note of that name about a node, written at its present data version; None if there is none.

        A note "load" counts only where it was written: a restored or cloned ledger forgets it (composition.md §12), or
        what was paid once would be drawn on by the original and by the copy.
        """
        ...

    def keep_note(self, name: str, node: Node, data: bytes) -> None:
        """Write it, instead of the one before."""
        ...


def counts_to_bytes(counts: Array) -> bytes:
    """Leaf counts as stored: int32 per bin, little-endian."""
    return counts.astype("<i4").tobytes()


def counts_from_bytes(data: bytes) -> Array:
    """The inverse of `counts_to_bytes`, read-only."""
    import numpy as np

    return np.frombuffer(data, "<i4")


_UNIT = Decimal("1e-15")


class MemoryBooks:
    """Books in memory, for tests and simulations. Accounts: integers of 1e-15, rounded up, one per partition.

    counts: for every partition the exact count of each bin. scales: ñ per partition. caps: {None: epsilon} of a pure
    dataset, or {order: cap} of a Rényi one (`accounting.curves.renyi_cap`); empty: no limit.
    """

    def __init__(
        self, counts: Sequence[Array], scales: Sequence[int], caps: dict[Decimal | None, Decimal] | None = None
    ) -> None:
        import numpy as np

        self.counts = list(counts)
        self.scales = list(scales)
        self.orders: list[Decimal | None] = list(caps or {None: Decimal(0)})
        self.caps = np.array([self._units(cap) for cap in (caps or {}).values()], np.int64) if caps else None
        self.spent = np.zeros((len(self.orders), max(len(scales), 1)), np.int64)
        self.exacts: dict[tuple[bytes, Node, str], Released] = {}
        self.nodes: dict[Node, Histogram] = {}
        self.logs: dict[Node, list[tuple[Event, Query]]] = {}
        self.sparse_vectors: dict[str, SparseVector] = {}
        self.paid: dict[str, int] = {}
        self._summed: dict[Node, Array] = {}
        self._costs: dict[Charge, Array] = {}
        self.keep_logs = True
        self.notes: dict[tuple[str, Node], bytes] = {}
        self._answered: dict[tuple[bytes, str], dict[Node, Released]] = {}

    @staticmethod
    def _units(amount: Decimal) -> int:
        return int((amount / _UNIT).to_integral_value(rounding="ROUND_CEILING"))

    def _cost(self, charge: Charge) -> Array:
        import numpy as np

        if charge not in self._costs:
            pure = self.orders == [None]
            amounts = [charge.pure()[0]] if pure else charge.rdp([a for a in self.orders if a is not None])
            self._costs[charge] = np.array([self._units(amount) for amount in amounts], np.int64)
        return self._costs[charge]

    def seal(self, counts: Array, scale: int) -> None:
        """A new partition at the end of a stream; it has spent nothing."""
        import numpy as np

        self.counts.append(counts)
        self.scales.append(scale)
        self.spent = np.pad(self.spent, ((0, 0), (0, len(self.scales) - self.spent.shape[1])))

    def scale(self, first: int, last: int) -> int:
        return self.scales[first] if first == last else sum(self.scales[first : last + 1])

    def can_pay(self, payments: Sequence[Payment]) -> bool:
        import numpy as np

        if self.caps is None or not payments:
            return True
        total = self.spent.copy()
        touched = np.zeros(total.shape[1], bool)
        for first, last, charge, _ in payments:
            total[:, first : last + 1] += self._cost(charge)[:, None]
            touched[first : last + 1] = True
        fits: Array = np.any(total <= self.caps[:, None], axis=0)
        return bool(fits[touched].all())

    def pay(self, payments: Sequence[Payment]) -> None:
        if not self.can_pay(payments):
            raise DPError(EXHAUSTED, "the budget is used up", "Stored answers are still free.")
        for first, last, charge, why in payments:
            self.spent[:, first : last + 1] += self._cost(charge)[:, None]
            self.paid[why] = self.paid.get(why, 0) + 1

    def exact(self, query: Query, node: Node, mechanism: str) -> Released | None:
        return self.exacts.get((query.id, node, mechanism))

    def keep_exact(self, query: Query, node: Node, released: Released) -> None:
        key = (query.id, node, released.mechanism)
        before = self.exacts.get(key)
        if before is None or before.amount < released.amount:
            self.exacts[key] = released
            self._answered.setdefault((query.id, released.mechanism), {})[node] = released

    def node(self, node: Node) -> Histogram | None:
        return self.nodes.get(node)

    def make_node(self, node: Node, histogram: Histogram) -> None:
        self.nodes[node] = histogram

    def log(self, node: Node, event: Event, query: Query) -> None:
        if self.keep_logs:
            self.logs.setdefault(node, []).append((event, query))

    def sparse_vector(self, key: str) -> SparseVector:
        return self.sparse_vectors.get(key, SparseVector())

    def keep_sparse_vector(self, key: str, state: SparseVector) -> None:
        self.sparse_vectors[key] = state

    def truth(self, query: Query, node: Node) -> int:
        import numpy as np

        if node not in self._summed:
            self._summed[node] = np.asarray(self.counts[node.first : node.last + 1]).sum(axis=0, dtype=np.int64)
        return query.total(self._summed[node])

    @property
    def pure(self) -> bool:
        return self.orders == [None]

    @property
    def begun(self) -> bool:
        return False

    def reserve(self, payments: Sequence[Payment]) -> bool:
        return False

    def bins(self, part: int) -> Array:
        return self.counts[part]

    def answers(self, query: Query, mechanism: str) -> Sequence[tuple[Node, Released]]:
        return sorted(self._answered.get((query.id, mechanism), {}).items())

    def note(self, name: str, node: Node) -> bytes | None:
        return self.notes.get((name, node))

    def keep_note(self, name: str, node: Node, data: bytes) -> None:
        self.notes[name, node] = data

    def average_spent(self) -> float:
        """The mean over partitions of the epsilon spent (pure): the paper's metric."""
        return float(self.spent[0].mean()) * float(_UNIT)
