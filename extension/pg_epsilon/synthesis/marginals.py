"""What is drawn for a synthesis: noisy counts of every column, then of the pairs that tell most, chosen privately.

After McKenna, Miklau, Sheldon, "Winning the NIST contest" (2021), and its successors: a tree of pairs first, then as
many pairs again as the tree predicts worst. Everything that follows (model.py, sampling.py) sees released integers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from pg_epsilon.accounting.charges import Charge
from pg_epsilon.mechanisms import additive
from pg_epsilon.mechanisms.additive import Additive
from pg_epsilon.noise import NoiseSource
from pg_epsilon.synthesis.ask import Layout
from pg_epsilon.synthesis.statement import RECORD

if TYPE_CHECKING:
    from pg_epsilon.synthesis.model import Findings, Table
    from pg_epsilon.synthesis.tables import Reals

MOST_GROUPS = 256  # of one variable, in a table that is measured
_FINENESS = 0.25  # how many times the expected noise a cell of a measured table should hold at least, on average


@dataclass(frozen=True)
class Phase:
    """A choice of at most `picks` pairs, each by a selection at `epsilon`, and then their tables' share of the budget.

    rho: whether `amount` is rho (discrete Gaussian) or epsilon (discrete Laplace).
    """

    picks: int
    epsilon: Decimal
    amount: Decimal
    rho: bool

    def noise(self, picked: int, rows: int) -> Additive:
        """For the tables of so many pairs: a row is in one cell of each, a unit has `rows` rows."""
        return vector(picked, rows, self.amount, self.rho)


def vector(tables: int, rows: int, amount: Decimal, rho: bool) -> Additive:
    """Noise for the cells of several tables together: one row changes one cell of each by 1 (composition.md §2.2)."""
    l1, l2_squared = tables * rows, tables * rows * rows
    return Additive(l1, l2_squared, rho=amount) if rho else Additive(l1, l2_squared, epsilon=amount)


@dataclass(frozen=True)
class Marginals:
    """The measure of a synthesis. rows: how many rows of one unit are counted; ordered: of each variable.

    ones: the share of the total and of the columns' counts. Guarantee: the sum of the charges for one unit with all it
    owns: each part is a mechanism by itself whose parameters are public or released by an earlier one.
    """

    layout: Layout
    ordered: tuple[bool, ...]
    rows: int
    ones: Decimal
    rho: bool
    phases: tuple[Phase, ...]

    width = 1  # one column: the counts, as one binary value

    @property
    def released(self) -> int:
        """At most so many integers: `release`."""
        cells = sum(self.layout.sizes)
        areas = sorted((self._area(i, j) for i, j in self.layout.pairs), reverse=True)
        return 1 + cells + sum(cells + 1 + sum(1 + area for area in areas[: p.picks]) for p in self.phases)

    def _area(self, i: int, j: int) -> int:
        return min(self.layout.sizes[i], MOST_GROUPS) * min(self.layout.sizes[j], MOST_GROUPS)

    @property
    def first(self) -> Additive:
        """The noise of the total and of the columns' counts."""
        return vector(1 + len(self.layout.sizes), self.rows, self.ones, self.rho)

    def charges(self) -> tuple[Charge, ...]:
        """The columns, then of each phase its selections and its tables: whether or not all of them are made."""
        found = list(self.first.charges())
        for phase in self.phases:
            found += [Charge.of("exponential", epsilon=phase.epsilon)] * phase.picks
            found += phase.noise(1, self.rows).charges()
        return tuple(found)

    def release(self, exact: Sequence[Sequence[Any]], noise: NoiseSource, label: str) -> list[list[int]]:
        """`core` on the block's one cell."""
        return [core(cell[0] or b"", self, noise, label) for cell in exact]


def core(counts: bytes, how: Marginals, noise: NoiseSource, label: str) -> list[int]:
    """The released integers: counts, and for each phase every cell's group, the pairs chosen, their merged tables.

    counts: records of statement.RECORD. Groups are functions of what was released before, and are released to say how
    to read the tables. Score of a pair: the distance (sum of absolute differences) of its exact merged table from the
    one that the model so far predicts, less the noise that measuring it is expected to add. The prediction and the
    noise are public by then, and one row moves one cell by 1: sensitivity `rows`.
    """
    import numpy as np  # not on the way of a count

    records = np.frombuffer(counts, np.dtype(list(RECORD)))
    exact = np.zeros(how.layout.total, np.int64)
    exact[records["cell"]] = records["rows"]
    singles = exact[: 1 + sum(how.layout.sizes)]
    raw = additive.core([int(v) for v in singles], how.first, noise, f"{label} columns")
    for number, phase in enumerate(how.phases, 1):
        raw += _measured(exact, how, phase, raw, noise, f"{label} phase {number}")
    return raw


def _measured(
    exact: Any, how: Marginals, phase: Phase, raw: Sequence[int], noise: NoiseSource, label: str
) -> list[int]:
    from pg_epsilon.synthesis.model import fitted

    model = fitted(found := findings(raw, how), how.ordered)
    least = fineness(model.total, phase.noise(phase.picks, how.rows))
    groups = model.groups(least)
    done = {table.pair for table in found.tables}
    per_cell = phase.noise(phase.picks, how.rows).expected_error() * (1 if phase.picks else 0)
    tables, scores = {}, {}
    for start, pair in zip(how.layout.twos, how.layout.pairs, strict=True):
        if pair not in done:
            tables[pair] = table = _merged(exact, how.layout, start, pair, groups)
            distance = abs(table - model.predicted(pair, groups).round()).sum()
            scores[pair] = int(distance) - math.ceil(per_cell * table.size)
    picks: list[tuple[int, int]] = []
    while len(picks) < phase.picks:
        open_ = [pair for pair in tables if pair not in picks and (done or not _closes(pair, picks))]
        offered = [*(scores[pair] for pair in open_), 0]
        place = noise.select(offered, sensitivity=how.rows, epsilon=Fraction(phase.epsilon), label=label)
        if place == len(open_):
            break
        picks.append(open_[place])
    cells = [int(v) for pair in picks for v in tables[pair].ravel()]
    noisy = additive.core(cells, phase.noise(len(picks), how.rows), noise, label) if picks else []
    flat = [int(group) for one in groups for group in one]
    return [*flat, len(picks), *(how.layout.pairs.index(pair) for pair in picks), *noisy]


def _merged(exact: Any, layout: Layout, start: int, pair: tuple[int, int], groups: Sequence[Any]) -> Reals:
    from pg_epsilon.synthesis.tables import merged

    i, j = pair
    area = layout.sizes[i] * layout.sizes[j]
    return merged(exact[start : start + area].reshape(layout.sizes[i], -1), groups[i], groups[j])


def _closes(pair: tuple[int, int], picks: Sequence[tuple[int, int]]) -> bool:
    """Whether a pair's ends are connected already."""
    reached, before = {pair[0]}, 0
    while len(reached) > before:
        before = len(reached)
        reached |= {end for pick in picks if reached & set(pick) for end in pick}
    return pair[1] in reached


def fineness(total: float, noise: Additive) -> float:
    """The least mass of a group: with groups of it, two variables' table has _FINENESS noises a cell on average."""
    return max(math.sqrt(total * _FINENESS * noise.deviation()), total / MOST_GROUPS)


def findings(raw: Sequence[int], how: Marginals) -> Findings:
    """What `core` wrote so far."""
    import numpy as np

    from pg_epsilon.synthesis.model import Findings, Table

    numbers = iter(raw)
    total = next(numbers)
    ones = tuple(np.array(_some(numbers, size), np.float64) for size in how.layout.sizes)
    tables: list[Table] = []
    for phase in how.phases:
        labels = _some(numbers, sum(how.layout.sizes))
        if not labels:
            break
        groups, start = [], 0
        for size in how.layout.sizes:
            groups.append(np.array(labels[start : start + size], np.int64))
            start += size
        picks = _some(numbers, next(numbers))
        variance = phase.noise(max(len(picks), 1), how.rows).deviation() ** 2
        for i, j in (how.layout.pairs[pick] for pick in picks):
            height, width = int(groups[i].max()) + 1, int(groups[j].max()) + 1
            values = np.array(_some(numbers, height * width), np.float64).reshape(height, width)
            tables.append(Table((i, j), groups[i], groups[j], values, variance))
    return Findings(total, ones, how.first.deviation() ** 2, tuple(tables))


def _some(numbers: Iterator[int], count: int) -> list[int]:
    return [number for _, number in zip(range(count), numbers, strict=False)]
