"""How much of what was paid on a partition each bin has used up: answers that share no bin share a payment.

A row is in one bin. By parallel composition (composition.md §5.5), also of queries that are chosen one after another,
adding or removing a row of bin v costs the sum of amount x weight(v) over the draws whose queries have bin v: `used`.
So a partition's account has to hold `level` >= max of `used` over the bins, and a draw pays only what it raises it by:
the cells of a GROUP BY pay once, whether they are asked together or one by one. True for amounts that add up: epsilon
of a pure dataset's laplace draws, rho of Gaussian ones. A row may be in another bin in the next data version, whose
load starts anew. `used` is a function of questions and prices: public.
"""

from __future__ import annotations

import struct
import zlib
from collections import OrderedDict
from decimal import ROUND_CEILING, Decimal
from typing import TYPE_CHECKING, Any

from pg_epsilon.turbo.bins import Query
from pg_epsilon.turbo.calibration import Draw

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]

_HEAD = struct.Struct("<4s24sQQQI")  # magic, unit, level, rent, since, bytes of the snapshot
_ENTRY = struct.Struct("<QI")  # amount, bytes of the query
_MAGIC = b"TL2\0"
PARTS = 1 << 16
"""Units of a load that one answer by noise takes."""
_FULL = (1 << 32) - 1
_DIGITS = Decimal("1e-18")
_UNIT_END = 28
_SMALL_BINS = 4096
_LOG_BYTES = 1 << 14
_KEPT_BYTES = 128 << 20


def unit_of(direct: Draw) -> Decimal:
    """What a load counts in: 1/65,536 of an answer by noise on this partition alone, rounded up to 18 decimals."""
    return (direct.amount / PARTS).quantize(_DIGITS, rounding=ROUND_CEILING)


class Load:
    """level: paid, in units; used: of that, by each bin (uint32). rent: paid since the last synopsis was bought; since:
    how many queries the view had been asked when this partition was first. unit: what all of them count in.

    Stored as its unit, a compressed snapshot of `used` and, for large domains, a log of what was taken since. Units of
    another price are other money: by a version whose formulas are dearer, they would be worth more than was paid.
    """

    __slots__ = ("_key", "_log", "_snapshot", "level", "rent", "since", "unit", "used")

    def __init__(self, used: Array, since: int, unit: Decimal) -> None:
        self.used, self.level, self.rent, self.since, self.unit = used, 0, 0, since, unit
        self._snapshot, self._log = b"", bytearray()
        self._key: bytes | None = None

    @staticmethod
    def empty(bins: int, since: int, unit: Decimal) -> Load:
        import numpy as np

        return Load(np.zeros(bins, np.uint32), since, unit)

    def copy(self) -> Load:
        """One that starts where this one is."""
        made = Load(self.used.copy(), self.since, self.unit)
        made.level, made.rent = self.level, self.rent
        return made

    def needed(self, query: Query, draw: Draw) -> int:
        """The level, in units, that this draw needs: what it raises the level by is to be paid before. No change.

        Queries of a batch share no bin, so each one's need is the same whether or not the others draw.
        """
        amount, cells = _units(draw, self.unit), query.of(self.used)
        if query.weights is None:
            found = max(self.level, int(cells.max(initial=0)) + amount)
        else:
            found = max(self.level, int(self._taken(query, amount).max(initial=0)))
        if found > _FULL:  # `_forgotten` keeps far below it
            raise OverflowError("a load beyond what its bins can count")
        return found

    def take(self, query: Query, draw: Draw) -> None:
        """Note a draw, which was paid for."""
        amount = _units(draw, self.unit)
        rise = self.needed(query, draw) - self.level
        self._apply(query, amount)
        self.level, self.rent = self.level + rise, self.rent + rise
        data = query.to_bytes()
        self._log += _ENTRY.pack(amount, len(data)) + data

    def _taken(self, query: Query, amount: int) -> Array:
        import numpy as np

        cells, weights = query.of(self.used).astype(np.int64), query.weights
        return cells + (amount if weights is None else -(weights * -amount // query.unit))

    def _apply(self, query: Query, amount: int) -> None:
        if self._key is not None and _states.get(self._key) is self:
            del _states[self._key]
        self._key = None
        query.put(self.used, self._taken(query, amount))

    def to_bytes(self) -> bytes:
        if not self._snapshot or len(self.used) <= _SMALL_BINS or len(self._log) > _LOG_BYTES:
            self._snapshot, self._log = zlib.compress(self.used.astype("<u4").tobytes(), 1), bytearray()
        head = _HEAD.pack(_MAGIC, _text(self.unit), self.level, self.rent, self.since, len(self._snapshot))
        data = head + self._snapshot + bytes(self._log)
        self._key, _states[data] = data, self
        while len(_states) * self.used.nbytes > _KEPT_BYTES and len(_states) > 1:
            _states.popitem(last=False)
        return data

    @staticmethod
    def from_bytes(data: bytes, unit: Decimal) -> Load | None:
        """The inverse of `to_bytes`; None for what was stored by another unit, or by a version that named none.

        What was stored last is remembered by its bytes, and handed out once: two partitions may have equal ones, and
        each then changes its own.
        """
        import numpy as np

        if data[:_UNIT_END] != _MAGIC + _text(unit):
            return None
        known = _states.pop(data, None)
        if known is not None:
            return known._forgotten()
        _, _, level, rent, since, size = _HEAD.unpack_from(data)
        at = _HEAD.size + size
        snapshot = data[_HEAD.size : at]
        made = Load(np.frombuffer(zlib.decompress(snapshot), "<u4").astype(np.uint32), since, unit)
        while at < len(data):
            amount, length = _ENTRY.unpack_from(data, at)
            at += _ENTRY.size + length
            made._apply(Query.from_bytes(data[at - length : at]), amount)
        made.level, made.rent, made._snapshot = level, rent, snapshot
        made._log = bytearray(data[_HEAD.size + size :])
        return made._forgotten()

    def _forgotten(self) -> Load:
        """Itself, or starting anew when half full. Credit may be forgotten, never invented: so between requests only,
        since a batch pays for what its queries need of one and the same state."""
        if self.level > _FULL // 2:
            import numpy as np

            self.used, self.level = np.zeros_like(self.used), 0
            self._snapshot, self._log = b"", bytearray()
        return self


_states: OrderedDict[bytes, Load] = OrderedDict()


def _units(draw: Draw, unit: Decimal) -> int:
    return int((draw.amount / unit).to_integral_value(rounding=ROUND_CEILING))


def _text(unit: Decimal) -> bytes:
    """A unit in 24 bytes: equal ones, however they are written, have equal texts."""
    return format(unit.quantize(_DIGITS), "f").encode().ljust(24, b"\0")
