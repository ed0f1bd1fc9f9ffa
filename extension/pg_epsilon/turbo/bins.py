"""The declared domain and linear queries over its bins (turbo.md §2). numpy is imported when a bin is touched.

A query gives every bin a weight of 0 … 2^bits: its value on a table is the sum of the weights over the rows, an integer
in steps of 2^-bits of a row. A predicate has bits = 0. One unit (a row) moves it by at most 2^bits.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from pg_epsilon.errors import OUT_OF_RANGE, DPError

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]

BINS_MAX = 2**24
BITS_MAX = 20


@dataclass(frozen=True)
class Domain:
    """The number of bins of each attribute, in declared order; bin index = row-major, the last attribute fastest."""

    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.sizes or min(self.sizes) < 1 or self.bins > BINS_MAX:
            raise DPError(
                OUT_OF_RANGE,
                f"the declared domain must have between 1 and {BINS_MAX} bins",
                "Declare fewer attributes, or coarser bins.",
            )

    @property
    def bins(self) -> int:
        """N, their product."""
        return math.prod(self.sizes)


Box = tuple[tuple[int, ...] | None, ...]
"""Per attribute the bins that are selected, ascending; None for all of them."""


@dataclass(frozen=True, eq=False)
class Query:
    """A linear query: a box or a bitmap of bins, and the weights of the bins selected.

    box: bins per attribute, if they form a box; bitmap: one byte per bin (0 or 1), otherwise. values: int64 weights of
    the selected bins, 0 … 2^bits, row-major as bytes; None: each weighs 2^bits = 1. Made by `box_query`, `mask_query`,
    which bring equal queries into the same form; `id` is what they are known by.
    """

    domain: Domain
    box: Box | None = None
    bitmap: bytes | None = field(default=None, repr=False)
    values: bytes | None = field(default=None, repr=False)
    bits: int = 0

    @property
    def unit(self) -> int:
        """2^bits: what one row of weight 1 counts, and the sensitivity to one unit."""
        return 1 << self.bits

    @cached_property
    def id(self) -> bytes:
        """SHA-256 of the canonical form (§2.4)."""
        return hashlib.sha256(self.to_bytes()).digest()

    def to_bytes(self) -> bytes:
        """The canonical form: a line of JSON, then the bitmap (packed) and the values, if any."""
        import numpy as np

        head = {"sizes": self.domain.sizes, "box": self.box, "bits": self.bits, "values": self.values is not None}
        packed = b"" if self.bitmap is None else np.packbits(np.frombuffer(self.bitmap, np.uint8)).tobytes()
        return json.dumps(head, separators=(",", ":")).encode() + b"\n" + packed + (self.values or b"")

    @staticmethod
    def from_bytes(data: bytes) -> Query:
        """The inverse of `to_bytes`."""
        import numpy as np

        line, _, rest = data.partition(b"\n")
        head = json.loads(line)
        domain = Domain(tuple(head["sizes"]))
        bitmap = None
        if head["box"] is None:
            packed, rest = rest[: -(-domain.bins // 8)], rest[-(-domain.bins // 8) :]
            bitmap = np.unpackbits(np.frombuffer(packed, np.uint8), count=domain.bins).tobytes()
        box = None if head["box"] is None else tuple(None if s is None else tuple(s) for s in head["box"])
        return Query(domain, box, bitmap, rest if head["values"] else None, head["bits"])

    @cached_property
    def empty(self) -> bool:
        """No bin is selected: the value is 0, answered at no cost (§2.3)."""
        return self.box is not None and any(selected == () for selected in self.box)

    @cached_property
    def full(self) -> bool:
        """Every bin has weight 1: the number of rows, of which a histogram that is scaled to ñ knows nothing."""
        return self.box is not None and self.values is None and all(selected is None for selected in self.box)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The domain's sizes with neighbouring attributes that are wholly selected merged: fewer, longer loops."""
        return tuple(size for size, _ in self._axes)

    @cached_property
    def _axes(self) -> tuple[tuple[int, tuple[int, ...] | None], ...]:
        axes: list[tuple[int, tuple[int, ...] | None]] = []
        for size, selected in zip(self.domain.sizes, self.box or (), strict=True):
            if selected is None and axes and axes[-1][1] is None:
                axes[-1] = (axes[-1][0] * size, None)
            else:
                axes.append((size, selected))
        return tuple(axes)

    @cached_property
    def index(self) -> Any:
        """What selects the bins: slices of an array of `shape` where each attribute's bins are a progression, else
        their numbers in an array of N."""
        import numpy as np

        if self.bitmap is not None:
            return np.flatnonzero(np.frombuffer(self.bitmap, np.uint8))
        steps = [_as_slice(size, selected) for size, selected in self._axes]
        if all(step is not None for step in steps):
            return tuple(steps)
        flat = np.zeros(1, np.intp)
        for size, selected in self._axes:
            chosen = np.arange(size) if selected is None else np.array(selected)
            flat = (flat[:, None] * size + chosen).ravel()
        return flat

    @property
    def _sliced(self) -> bool:
        return isinstance(self.index, tuple)

    @cached_property
    def share(self) -> Decimal:
        """The mean weight of a bin: of a count, the bins selected by all bins."""
        weights = self.weights
        if weights is not None:
            return Decimal(int(weights.sum())) / self.unit / self.domain.bins
        if self.bitmap is not None:
            return Decimal(self.bitmap.count(1)) / self.domain.bins
        return Decimal(math.prod(size if own is None else len(own) for size, own in self._axes)) / self.domain.bins

    def of(self, array: Array) -> Array:
        """The selected cells of an array of N bins: a view for slices, a copy otherwise."""
        cells: Array = array.reshape(self.shape)[self.index] if self._sliced else array.take(self.index)
        return cells

    def put(self, array: Array, cells: Array) -> None:
        """Set the selected cells."""
        if self._sliced:
            array.reshape(self.shape)[self.index] = cells
        else:
            array[self.index] = cells

    @cached_property
    def weights(self) -> Array | None:
        """The values in the shape of `of`'s result, integers; None: all are 1."""
        import numpy as np

        if self.values is None:
            return None
        flat = np.frombuffer(self.values, np.int64)
        return flat.reshape([_count(size, s) for size, s in self._axes]) if self._sliced else flat

    def total(self, counts: Array) -> int:
        """The exact integer value on a table of counts per bin."""
        import numpy as np

        cells, weights = self.of(counts), self.weights
        return int(cells.sum(dtype=np.int64) if weights is None else (cells.astype(np.int64) * weights).sum())


def _count(size: int, selected: tuple[int, ...] | None) -> int:
    return size if selected is None else len(selected)


def _as_slice(size: int, selected: tuple[int, ...] | None) -> slice | None:
    """A progression as a slice, else None."""
    if selected is None:
        return slice(0, size)
    step = selected[1] - selected[0] if len(selected) > 1 else 1
    run = range(selected[0], selected[-1] + 1, step)
    return slice(run.start, run.stop, step) if tuple(run) == selected else None


def box_query(domain: Domain, box: Sequence[Iterable[int] | None]) -> Query:
    """The predicate "attribute i is in bins box[i]" for every i; None: any. Bins out of range: ValueError."""
    if len(box) != len(domain.sizes):
        raise ValueError("a box names the bins of every attribute")
    chosen = [None if s is None else tuple(sorted({int(b) for b in s})) for s in box]
    for size, selected in zip(domain.sizes, chosen, strict=True):
        if selected and not 0 <= selected[0] <= selected[-1] < size:
            raise ValueError("a bin is not in the declared domain")
    if any(selected == () for selected in chosen):
        return Query(domain, ((),) * len(domain.sizes))
    full = [s is None or len(s) == size for size, s in zip(domain.sizes, chosen, strict=True)]
    return Query(domain, tuple(None if whole else s for whole, s in zip(full, chosen, strict=True)))


def mask_query(domain: Domain, mask: Array) -> Query:
    """The predicate that selects the bins where `mask` (N booleans) is true; a box is recognised as such."""
    import numpy as np

    selected = np.asarray(mask, bool).reshape(domain.sizes)
    axes = range(len(domain.sizes))
    box = [np.flatnonzero(selected.any(axis=tuple(j for j in axes if j != i))).tolist() for i in axes]
    if math.prod(map(len, box)) == int(selected.sum()):
        return box_query(domain, box)
    return Query(domain, None, selected.astype(np.uint8).tobytes())


def value_query(domain: Domain, values: Sequence[int] | Array, bits: int) -> Query:
    """The query whose weight in bin v is values[v], an integer 0 … 2^bits; N of them, row-major. §2.3, §4.1.

    Bins of weight 0 are no part of it. bits 0 … BITS_MAX, public, the lattice of sums.
    """
    import numpy as np

    every = np.asarray(values, np.int64).reshape(-1)
    if every.size != domain.bins or not 0 <= bits <= BITS_MAX or every.min() < 0 or every.max() > 1 << bits:
        raise ValueError("a query has a weight between 0 and 2^bits for each bin")
    query = mask_query(domain, every > 0)
    if query.empty:
        return query
    return Query(domain, query.box, query.bitmap, np.ascontiguousarray(query.of(every)).tobytes(), bits)


def disjoint(queries: Sequence[Query]) -> bool:
    """Whether no bin is in two of the queries: then one row moves the value of at most one of them."""
    import numpy as np

    seen = np.zeros(queries[0].domain.bins, bool)
    for query in queries:
        if not query.empty:
            cells = query.of(seen)
            if cells.any():
                return False
            query.put(seen, np.ones(cells.shape, bool))
    return True


class Term(NamedTuple):
    """Part of a sum: the coefficient that a query's value is multiplied by."""

    coefficient: Fraction
    query: Query


def sum_queries(domain: Domain, values: Array, bits: int) -> tuple[Term, ...]:
    """SUM(f): at most two queries, of the bins where f > 0 and where f < 0; the sum is that of coefficient x value.

    values: f of each bin (0 where the filter is false), int64, below 2^40, from the declared representatives; f+ and
    f- are rounded to 2^-bits of their largest value. The two share no bin, so they cost one epsilon together, and each
    being alpha-accurate the sum is off by at most alpha n~ (U' - L'). turbo.md's shift by L' (§2.3) would add
    (n~ - n) L', n being private here (composition.md §1.4).
    """
    import numpy as np

    every = np.asarray(values, np.int64).reshape(-1)
    terms = []
    for sign in (1, -1):
        part = np.maximum(every * sign, 0)
        most = int(part.max(initial=0))
        if most >= 1 << 40:
            raise ValueError("values of a sum must be below 2^40 steps")
        if most:
            weights = (part * (2 << bits) + most) // (2 * most)
            terms.append(Term(Fraction(sign * most, 1 << bits), value_query(domain, weights, bits)))
    return tuple(terms)
