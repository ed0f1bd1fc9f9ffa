"""Answers from what was already released: free, no sparse vector, no data access (composition.md §7.3, §7.5).

Two sources. A synopsis of a partition answers every query of its class within the partition's tolerance, all of them
together (grade `uniform`). A stored noisy answer of the same query over some of the partitions is within alpha ñ of
those. A window is tiled by disjoint pieces of both kinds, and fresh draws for the rest. Each piece is off by at most
alpha ñ of its own partitions, so the sum is by at most alpha ñ of the window. A mean of independent noise of one law is
no less likely to stay within a bound than one of its terms (uniform.py, Proschan). So synopses alone answer all queries
of a window's class with beta, grade `uniform`. A window that noise answers in part has the grade `oblivious`: a query
that was fixed beforehand is off in its stored and fresh answers with probability beta/2 at most, and in its synopses
with as much, which for one query is less than beta for the whole class (designs.py sees to it).

Why no other sums, differences, complements or least squares: whatever was chosen after looking, sum w_i y_i of draws of
one margin m is only known to be within m sum |w_i|. If that combination is a predicate q, then at any bin of q the w_i
of the queries with this bin add up to 1: sum |w_i| >= 1, and with equality all w_i are positive and every query used is
q itself. So within one window nothing but the stored answer of q itself meets the accuracy at which all were bought.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from pg_epsilon.noise import NoiseSource
from pg_epsilon.turbo.bins import Domain, Query
from pg_epsilon.turbo.calibration import Draw
from pg_epsilon.turbo.designs import Grid, Outlook, covers
from pg_epsilon.turbo.split import Node

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, eq=False)
class Table:
    """One grid of a synopsis as released: the class it answers, and the noisy count of each cell (int64). Public."""

    kind: str
    grid: Grid
    draw: Draw
    noisy: Array

    @staticmethod
    def release(kind: str, grid: Grid, draw: Draw, bins: Array, noise: NoiseSource) -> Table:
        """One draw for all cells, of L1 and L2 sensitivity 1: a row is in one of them. Its charge must be paid."""
        import numpy as np

        noisy = draw.release(grid.counts(bins).tolist(), 1, noise, f"turbo synopsis {kind}")
        return Table(kind, grid, draw, np.array(noisy, np.int64))

    def value(self, query: Query, outlook: Outlook) -> int | None:
        """The query's value in its steps; None if it is not of the class."""
        if not covers(self.kind, query, outlook):
            return None
        mapped = self.grid.mapped(query)
        return None if mapped is None else mapped.total(self.noisy)


def tables_to_bytes(tables: Sequence[Table]) -> bytes:
    """A line of JSON, then the cells of each table as int64, little-endian."""
    head = [
        {
            "kind": table.kind,
            "sizes": table.grid.domain.sizes,
            "groups": table.grid.groups,
            "mechanism": table.draw.mechanism,
            "amount": str(table.draw.amount),
        }
        for table in tables
    ]
    body = b"".join(table.noisy.astype("<i8").tobytes() for table in tables)
    return json.dumps(head, separators=(",", ":")).encode() + b"\n" + body


@lru_cache(maxsize=256)
def tables_from_bytes(data: bytes) -> tuple[Table, ...]:
    """The inverse of `tables_to_bytes`; the arrays are read-only."""
    import numpy as np

    line, _, body = data.partition(b"\n")
    found, at = [], 0
    for head in json.loads(line):
        groups = tuple(None if group is None else tuple(group) for group in head["groups"])
        grid = Grid(Domain(tuple(head["sizes"])), groups)
        noisy = np.frombuffer(body, "<i8", grid.cells.bins, at)
        at += noisy.nbytes
        found.append(Table(head["kind"], grid, Draw(head["mechanism"], Decimal(head["amount"])), noisy))
    return tuple(found)


class Cover(NamedTuple):
    """How a window is answered. value: of the pieces that are known; fresh: partitions that need a draw."""

    value: int
    fresh: tuple[int, ...]
    synopses: int
    stored: int

    def paths(self) -> set[str]:
        """Where what is known comes from."""
        return {path for path, pieces in (("synopsis", self.synopses), ("exact", self.stored)) if pieces}


def cover(
    parts: Sequence[int], scales: Mapping[int, int], synopses: Mapping[int, int], stored: Sequence[tuple[Node, int]]
) -> Cover:
    """The tiling of the partitions `parts` (ascending, without gaps) that leaves the fewest rows to fresh draws.

    synopses: values by partition; stored: noisy answers of the query, on nodes within the window. Of equal tilings
    the one with the fewest pieces, so that a question asked again is answered alike. Public facts and prices decide.
    """
    first = parts[0]
    ending: dict[int, list[tuple[Node, int]]] = {}
    for node, value in stored:
        ending.setdefault(node.last, []).append((node, value))
    best = [((0, 0), Cover(0, (), 0, 0))]
    for part in parts:
        (rows, pieces), so_far = best[-1]
        here = ((rows + scales[part], pieces), so_far._replace(fresh=(*so_far.fresh, part)))
        if scales[part] == 0:
            here = (rows, pieces), so_far
        if part in synopses:
            tiled = so_far._replace(value=so_far.value + synopses[part], synopses=so_far.synopses + 1)
            here = min(here, ((rows, pieces + 1), tiled), key=lambda one: one[0])
        for node, value in ending.get(part, ()):
            (rows, pieces), before = best[node.first - first]
            tiled = before._replace(value=before.value + value, stored=before.stored + 1)
            here = min(here, ((rows, pieces + 1), tiled), key=lambda one: one[0])
        best.append(here)
    return best[-1][1]
