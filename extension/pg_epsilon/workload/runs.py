"""Queries that are sums over runs of blocks: prefixes and ranges, a pair of integers each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

ZERO, ONE = Fraction(0), Fraction(1)


@dataclass(frozen=True)
class Runs:
    """Query k has weight 1 in the blocks starts[k] .. ends[k] - 1 and 0 elsewhere."""

    starts: tuple[int, ...]
    ends: tuple[int, ...]
    blocks: int

    def __len__(self) -> int:
        return len(self.starts)

    def __iter__(self) -> Iterator[tuple[Fraction, ...]]:
        """Each query's weight of each block."""
        for start, end in zip(self.starts, self.ends, strict=True):
            yield (ZERO,) * start + (ONE,) * (end - start) + (ZERO,) * (self.blocks - end)


Rows = Runs | tuple[tuple[Fraction, ...], ...]
