"""Turbo's books over the tables of schema dp (turbo/books.py says what each entry is), kept warm in the backend.

What is kept in memory of a node is checked against the last event that the table has: a transaction that was rolled
back after the histogram had moved is noticed, and the node is read again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pg_epsilon.errors import CHANNEL, DPError
from pg_epsilon.ledger import Execute
from pg_epsilon.turbo.bins import Query
from pg_epsilon.turbo.books import Payment, Released
from pg_epsilon.turbo.catalog import View
from pg_epsilon.turbo.histogram import Event, Heuristic, Histogram
from pg_epsilon.turbo.payer import Payer
from pg_epsilon.turbo.sparse_vector import SparseVector
from pg_epsilon.turbo.split import Node
from pg_epsilon.turbo.trust import PASSED

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]

SNAPSHOT_EVERY = 256
KEPT_BYTES = 256 * 1024 * 1024


# What a request reads of exact counts after it paid, and the same with constants: what is planned before.
COUNTS = "SELECT counts FROM dp.turbo_leaf_counts WHERE view = $1 AND part = $2"
PLANNED_COUNTS = COUNTS.replace("$1", "0").replace("$2", "0")


class Warm:
    """What a backend keeps between requests: histograms and leaf counts, the least recently used go first."""

    def __init__(self, limit: int = KEPT_BYTES) -> None:
        self._limit = limit
        self._size = 0
        self._kept: OrderedDict[tuple[Any, ...], tuple[Any, int]] = OrderedDict()

    def get(self, key: tuple[Any, ...]) -> Any:
        found = self._kept.get(key)
        if found is None:
            return None
        self._kept.move_to_end(key)
        return found[0]

    def put(self, key: tuple[Any, ...], value: Any, size: int) -> None:
        self.drop(key)
        self._kept[key] = value, size
        self._size += size
        while self._size > self._limit and len(self._kept) > 1:
            self._size -= self._kept.popitem(last=False)[1][1]

    def drop(self, key: tuple[Any, ...]) -> None:
        found = self._kept.pop(key, None)
        if found is not None:
            self._size -= found[1]


class Kept:
    """A histogram in memory, and the last event that it holds: its number and bytes."""

    __slots__ = ("histogram", "last", "seq", "stored")

    def __init__(self, histogram: Histogram, stored: int) -> None:
        self.histogram = histogram
        self.stored = stored  # the event that the stored snapshot holds up to
        self.seq = stored
        self.last: bytes | None = None


def uncounted(*, lost: bool = False) -> DPError:
    """In a restored copy: said before anything is paid, after stored answers were looked for. lost: for good."""
    if lost:
        return DPError(
            CHANNEL,
            "the counts that this question is about are missing here: this is a restored copy, and their rows were"
            " removed",
            "Ask about later partitions. Or the owner has none of them counted: dp.retain(relation, before, keep_counts"
            " => false).",
        )
    return DPError(
        CHANNEL,
        "the counts that this question is about are missing here: this is a restored copy",
        "The owner calls dp.refresh(relation), after dp.confirm_ledger(dataset).",
    )


class SqlBooks:
    """`AutoBooks` of one request of a view whose row the caller has locked. The Protocol says what each call means."""

    _for_update = " FOR UPDATE OF s"

    def __init__(self, execute: Execute, view: View, payer: Payer, heuristic: Heuristic, warm: Warm) -> None:
        self._execute = execute
        self._view = view
        self._payer = payer
        self._heuristic = heuristic
        self._warm = warm
        self._checked: dict[Node, Kept] = {}
        self._noted = False
        self._open = False  # whether the dataset was seen not to be frozen
        self.changed = False  # whether a sparse vector was opened or closed

    def scale(self, first: int, last: int) -> int:
        return sum(self._view.parts[part].scale for part in range(first, last + 1))

    def can_pay(self, payments: Sequence[Payment]) -> bool:
        parts = [self._view.parts[p] for one in payments for p in range(one.first, one.last + 1)]
        if not all(part.counted for part in parts):
            raise uncounted(lost=any(part in self._view.lost for part in parts))
        return self._payer.can_pay(payments)

    def pay(self, payments: Sequence[Payment]) -> None:
        self._payer.pay(payments)

    def _version(self, first: int, last: int) -> int:
        """Of the data of some partitions: it moves on when that of any of them does."""
        return sum(self._view.parts[part].data_version for part in range(first, last + 1))

    def exact(self, query: Query, node: Node, mechanism: str) -> Released | None:
        found = self._execute(
            "SELECT value::text, amount::text FROM dp.turbo_exact"
            " WHERE view = $1 AND query = $2 AND node = $3 AND data_version = $4 AND mechanism = $5",
            ["bigint", "bytea", "text", "bigint", "text"],
            [self._view.view, query.id, node.key(), self._version(node.first, node.last), mechanism],
        )
        return Released(int(found[0]["value"]), mechanism, Decimal(found[0]["amount"])) if found else None

    def keep_exact(self, query: Query, node: Node, released: Released) -> None:
        self._keep_query(query)
        if released.mechanism != PASSED:
            self._payer.enter_free_draw(node.first, node.last)
        self._execute(
            "INSERT INTO dp.turbo_exact AS e (view, query, node, data_version, mechanism, amount, value)"
            " VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT ON CONSTRAINT turbo_exact_pkey DO UPDATE"
            " SET amount = EXCLUDED.amount, value = EXCLUDED.value, as_of = clock_timestamp()"
            " WHERE e.amount < EXCLUDED.amount",
            ["bigint", "bytea", "text", "bigint", "text", "numeric", "numeric"],
            [
                self._view.view,
                query.id,
                node.key(),
                self._version(node.first, node.last),
                released.mechanism,
                released.amount,
                released.value,
            ],
        )

    def _keep_query(self, query: Query) -> None:
        self._execute(
            "INSERT INTO dp.turbo_query (view, id, query) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
            ["bigint", "bytea", "bytea"],
            [self._view.view, query.id, query.to_bytes()],
        )

    def node(self, node: Node) -> Histogram | None:
        found = self._load(node)
        return None if found is None else found.histogram

    def _load(self, node: Node) -> Kept | None:
        if node not in self._checked:
            found = self._warmed(node) or self._stored(node)
            if found is None:
                return None
            self._checked[node] = found
        return self._checked[node]

    def _warmed(self, node: Node) -> Kept | None:
        """The node as this backend knows it, brought up to date; None if its past is another than the table's."""
        known: Kept | None = self._warm.get(("node", self._view.view, node))
        if known is None:
            return None
        # a snapshot holds the event of its own number, which stays in the log: without `last` it is not replayed again
        events = self._events(node, known.seq if known.last is not None else known.seq + 1)
        if known.last is not None and (not events or events.pop(0) != (known.seq, known.last)):
            self._warm.drop(("node", self._view.view, node))
            return None
        if known.last is None and not self._execute(
            "SELECT 1 FROM dp.turbo_node WHERE view = $1 AND node = $2 AND seq = $3",
            ["bigint", "text", "bigint"],
            [self._view.view, node.key(), known.seq],
        ):
            self._warm.drop(("node", self._view.view, node))
            return None
        self._replay(known, events)
        return known

    def _stored(self, node: Node) -> Kept | None:
        found = self._execute(
            "SELECT seq, snapshot FROM dp.turbo_node WHERE view = $1 AND node = $2",
            ["bigint", "text"],
            [self._view.view, node.key()],
        )
        if not found:
            return None
        made = Kept(Histogram.from_bytes(found[0]["snapshot"]), found[0]["seq"])
        self._replay(made, self._events(node, made.seq + 1))
        self._keep(node, made)
        return made

    def _events(self, node: Node, since: int) -> list[tuple[int, bytes]]:
        found = self._execute(
            "SELECT seq, event FROM dp.turbo_hist_update WHERE view = $1 AND node = $2 AND seq >= $3 ORDER BY seq",
            ["bigint", "text", "bigint"],
            [self._view.view, node.key(), since],
        )
        return [(row["seq"], row["event"]) for row in found]

    def _replay(self, node: Kept, events: Sequence[tuple[int, bytes]]) -> None:
        if not events:
            return
        decoded = [Event.from_bytes(event) for _, event in events]
        node.histogram.replay(decoded, self._queries({event.query_id for event in decoded}), self._heuristic)
        node.seq, node.last = events[-1]

    def _queries(self, ids: set[bytes]) -> dict[bytes, Query]:
        found = self._execute(
            "SELECT id, query FROM dp.turbo_query WHERE view = $1 AND id = ANY ($2)",
            ["bigint", "bytea[]"],
            [self._view.view, list(ids)],
        )
        return {row["id"]: Query.from_bytes(row["query"]) for row in found}

    def _keep(self, node: Node, made: Kept) -> None:
        self._warm.put(("node", self._view.view, node), made, 16 * len(made.histogram.weights) + 1000)

    def make_node(self, node: Node, histogram: Histogram) -> None:
        self._execute(
            "INSERT INTO dp.turbo_node (view, node, snapshot) VALUES ($1, $2, $3)",
            ["bigint", "text", "bytea"],
            [self._view.view, node.key(), histogram.to_bytes()],
        )
        made = self._checked[node] = Kept(histogram, 0)
        self._keep(node, made)

    def log(self, node: Node, event: Event, query: Query) -> None:
        self._keep_query(query)
        known = self._checked[node]
        known.seq, known.last = known.seq + 1, event.to_bytes()
        self._execute(
            "INSERT INTO dp.turbo_hist_update (view, node, seq, event) VALUES ($1, $2, $3, $4)",
            ["bigint", "text", "bigint", "bytea"],
            [self._view.view, node.key(), known.seq, known.last],
        )
        if known.seq - known.stored >= SNAPSHOT_EVERY:
            self._snapshot(node, known)

    def _snapshot(self, node: Node, known: Kept) -> None:
        """Write the state; of the log only the last event stays, by which a warm copy is recognised."""
        known.stored = known.seq
        self._execute(
            "UPDATE dp.turbo_node SET seq = $3, snapshot = $4 WHERE view = $1 AND node = $2",
            ["bigint", "text", "bigint", "bytea"],
            [self._view.view, node.key(), known.seq, known.histogram.to_bytes()],
        )
        self._execute(
            "DELETE FROM dp.turbo_hist_update WHERE view = $1 AND node = $2 AND seq < $3",
            ["bigint", "text", "bigint"],
            [self._view.view, node.key(), known.seq],
        )

    def sparse_vector(self, key: str) -> SparseVector:
        found = self._execute(
            "SELECT s.epoch, s.epsilon::text, CASE WHEN s.data_version = $3 AND NOT dp._frozen(s.incarnation)"
            " THEN s.threshold::text END AS threshold"
            " FROM dp.turbo_sv s WHERE s.view = $1 AND s.run = $2" + self._for_update,
            ["bigint", "text", "bigint"],
            [self._view.view, key, self._run_version(key)],
        )
        if not found:
            return SparseVector()
        state = SparseVector(found[0]["epoch"], Decimal(found[0]["epsilon"]))
        threshold = found[0]["threshold"]
        return state.closed() if threshold is None else state._replace(threshold=int(threshold))

    def keep_sparse_vector(self, key: str, state: SparseVector) -> None:
        self._execute(
            "INSERT INTO dp.turbo_sv (view, run, data_version, incarnation, epoch, epsilon, threshold)"
            " SELECT $1, $2, $3, i.id, $4, $5, $6 FROM dp.incarnation i"
            " ON CONFLICT ON CONSTRAINT turbo_sv_pkey DO UPDATE SET data_version = EXCLUDED.data_version,"
            " incarnation = EXCLUDED.incarnation, epoch = EXCLUDED.epoch, epsilon = EXCLUDED.epsilon,"
            " threshold = EXCLUDED.threshold",
            ["bigint", "text", "bigint", "integer", "numeric", "numeric"],
            [self._view.view, key, self._run_version(key), state.epoch, state.epsilon, state.threshold],
        )
        # not before: a cancel that undoes this write has to be the same error after a FAIL as after a PASS
        self.changed = True

    def _run_version(self, key: str) -> int:
        nodes = [Node.from_key(text.removeprefix("window ")) for text in key.split(",")]
        return sum(self._version(node.first, node.last) for node in nodes)

    def truth(self, query: Query, node: Node) -> int:
        if not self._open:  # a draw that earlier payments cover pays nothing: no payment asked whether it may be drawn
            self._payer.check_not_frozen()
            self._open = True
        return sum(query.total(self.bins(part)) for part in range(node.first, node.last + 1))

    @property
    def pure(self) -> bool:
        return self._payer.pure

    @property
    def begun(self) -> bool:
        return self._noted or bool(self._payer.paid)

    def reserve(self, payments: Sequence[Payment]) -> bool:
        return False

    def answers(self, query: Query, mechanism: str) -> Sequence[tuple[Node, Released]]:
        found = self._execute(
            "SELECT node, data_version, value::text, amount::text FROM dp.turbo_exact"
            " WHERE view = $1 AND query = $2 AND mechanism = $3",
            ["bigint", "bytea", "text"],
            [self._view.view, query.id, mechanism],
        )
        # by node alone: an answer of before a refresh is kept beside the one of now
        rows = sorted(((Node.from_key(row["node"]), row) for row in found), key=lambda one: one[0])
        return [
            (node, Released(int(row["value"]), mechanism, Decimal(row["amount"])))
            for node, row in rows
            if all(part in self._view.parts for part in range(node.first, node.last + 1))
            and row["data_version"] == self._version(node.first, node.last)
        ]

    def note(self, name: str, node: Node) -> bytes | None:
        found = self._execute(
            "SELECT data FROM dp.turbo_note WHERE view = $1 AND name = $2 AND node = $3 AND data_version = $4"
            " AND (name <> 'load' OR NOT dp._frozen(incarnation))",
            ["bigint", "text", "text", "bigint"],
            [self._view.view, name, node.key(), self._note_version(node)],
        )
        return found[0]["data"] if found else None

    def keep_note(self, name: str, node: Node, data: bytes) -> None:
        self._noted = True
        self._execute(
            "INSERT INTO dp.turbo_note (view, name, node, data_version, data, incarnation)"
            " SELECT $1, $2, $3, $4, $5, i.id FROM dp.incarnation i"
            " ON CONFLICT ON CONSTRAINT turbo_note_pkey DO UPDATE"
            " SET data_version = EXCLUDED.data_version, data = EXCLUDED.data, incarnation = EXCLUDED.incarnation",
            ["bigint", "text", "text", "bigint", "bytea"],
            [self._view.view, name, node.key(), self._note_version(node), data],
        )

    def _note_version(self, node: Node) -> int:
        """Of notes about the whole view, which may lack a partition 0: that of none."""
        known = all(part in self._view.parts for part in range(node.first, node.last + 1))
        return self._version(node.first, node.last) if known else 0

    def bins(self, part: int) -> Array:
        """The exact counts of a partition's bins: read-only. SECRET."""
        import numpy as np

        key = ("counts", self._view.view, part, self._view.parts[part].data_version)
        known = self._warm.get(key)
        if known is None:
            found = self._execute(
                COUNTS,
                ["bigint", "integer"],
                [self._view.view, part],
            )
            known = np.frombuffer(found[0]["counts"], ">i4").astype(np.int32)
            self._warm.put(key, known, known.nbytes)
        counts: Array = known
        return counts
