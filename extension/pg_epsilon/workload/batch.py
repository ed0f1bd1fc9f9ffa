"""What is drawn for a workload: theta, then one noisy answer of a strategy that public facts choose (§7)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

from pg_epsilon.accounting.charges import Charge
from pg_epsilon.errors import DPError
from pg_epsilon.mechanisms.matrix.lattice import LatticeStrategy
from pg_epsilon.mechanisms.matrix.queries import Array
from pg_epsilon.noise import NoiseSource
from pg_epsilon.workload.ask import Workload
from pg_epsilon.workload.columns import Columns, pairs_of, sums_of
from pg_epsilon.workload.designs import CUSTOM, Design
from pg_epsilon.workload.found import find
from pg_epsilon.workload.statement import edges_of, parse
from pg_epsilon.workload.thresholds import Threshold

MOST_RELEASED = 4_000_000
DATA = ("sums", "pairs")
READ = 2  # added to it: sums of blocks that some query reads; what was released before has columns for all
METHODS = ("identity", "workload", "sqm", "tamm", "timm")
STRATEGIES = ("identity", "workload", "sqm", "greedyh", "wavelet", "tree", "p-identity", "optimal", CUSTOM)


@dataclass(frozen=True)
class Batch:
    """The measure of a workload. units: how many values of one unit count; most_rows: declared, for the lattice's room.

    groups: declared group keys, each of which gets the same answers; a value is in one group, so that the strategy is
    the Kronecker product of the identity over groups with one over buckets (sum-workloads.md §8.6): groups cost
    nothing more where a unit has one value, and units values in any groups are what the noise is scaled for.
    Guarantee: epsilon-DP (resp. rho-zCDP) for one unit with all it owns: theta, then one vector of discrete Laplace
    (Gaussian) noise, whose sensitivity is computed from the integers that are used. The strategy is a function of the
    released theta and of public facts. Source: sum-workloads.md §7; its §12 for what the paper's text would break.
    """

    workload: Workload
    threshold: Threshold
    units: int
    most_rows: int
    epsilon: Decimal | None
    rho: Decimal | None
    groups: int = 1

    @property
    def width(self) -> int:
        """How many integers of a group are read: one, which is the statement's text."""
        return 1

    @property
    def released(self) -> int:
        """At most so many integers a group: `cores`."""
        return MOST_RELEASED // self.groups

    @property
    def gaussian(self) -> bool:
        return self.rho is not None

    @property
    def amount(self) -> Fraction:
        """The answers' share of the budget."""
        return Fraction(self.rho if self.rho is not None else self.epsilon or 1)

    @property
    def units_squared(self) -> int:
        """How many squared norms of one value one unit's values have at most together.

        Totals of one user are in different groups, whose columns are apart; rows may all be in one.
        """
        return self.units if self.workload.per == "user" else self.units**2

    @property
    def spread(self) -> float:
        """By how much the noise is wider than for one value."""
        return math.sqrt(self.units_squared) if self.gaussian else float(self.units)

    def charges(self) -> tuple[Charge, ...]:
        if self.rho is not None:
            return (*self.threshold.charges(), Charge.of("gaussian", rho=self.rho))
        return (*self.threshold.charges(), Charge.of("laplace", epsilon=self.epsilon or Decimal(0)))

    def release(self, exact: Sequence[Sequence[Any]], noise: NoiseSource, label: str) -> list[list[int]]:
        """`cores` on the block's groups."""
        return cores([cell[0] or None for cell in exact], self, noise, label)

    def best(self, theta: int) -> Design:
        """The design at a threshold that is least in predicted error. DP005 where the asked method has none.

        Where all is left to `auto` and that one does not survive being rounded to the lattice, identity, which does.
        """
        design = find(self.workload, theta, gaussian=self.gaussian).best
        if self.workload.options.method == "auto" and self.workload.options.strategy == "auto":
            try:
                design.on_lattice(self.most_rows)
            except DPError:
                return self.identity(theta)
        return design

    def sure(self, theta: int) -> Design:
        """The same after the charge, when nothing may fail: the identity, where an optimiser found no strategy, or the
        asked one does not survive being rounded at this theta."""
        try:
            design = self.best(theta)
            design.on_lattice(self.most_rows)
            return design
        except DPError:
            return self.identity(theta)

    def drawn_factors(self, design: Design) -> Array:
        """Per query, the variance of its sum when noise has variance 1 for a sensitivity of 1, of what is drawn for.

        Errors: DP005 where the design does not survive being rounded to the lattice.
        """
        return design.drawn_factors(self.most_rows, gaussian=self.gaussian)

    def identity(self, theta: int) -> Design:
        """Every bucket by itself: its rounded entries have as many bits as there are, so that it always answers."""
        options = replace(self.workload.options, method="identity", strategy="auto", own=())
        return find(replace(self.workload, options=options), theta, gaussian=self.gaussian).best


def core(text: str | None, how: Batch, noise: NoiseSource, label: str) -> list[int]:
    """`cores` of a workload without groups."""
    return cores([text], how, noise, label)[0]


def cores(texts: Sequence[str | None], how: Batch, noise: NoiseSource, label: str) -> list[list[int]]:
    """The released integers of every group: theta, of the first the strategy that was drawn, noisy answers; see `read`.

    texts: the statement's, exact and private, one for each declared group. Nothing but theta depends on data before the
    noise is added; theta is chosen once, by the values of all groups.
    """
    edges = edges_of(how.workload, how.threshold.grid)
    groups = [parse(text, len(edges) - 1) for text in texts]
    counts = [sum(count for count, _ in cell) for cell in zip(*groups, strict=True)]
    below = [_within(counts, edges, level) for level in _grid(how)]
    theta = how.threshold.choose(below, sum(counts), noise, label)
    design = how.sure(theta)
    drawn = design.on_lattice(how.most_rows)
    exact: list[int] = []
    for cells in groups:
        exact += drawn.answers(design.columns.exact(_blocks(how.workload, edges, cells, theta)))
    noisy = _noisy(exact, drawn, how, noise, label)
    size = len(drawn.rows)
    released = [[theta, *noisy[start : start + size]] for start in range(0, size * len(groups), size)]
    return [[theta, *_written(design, drawn), *released[0][1:]], *released[1:]]


def _noisy(exact: list[int], drawn: LatticeStrategy, how: Batch, noise: NoiseSource, label: str) -> list[int]:
    """One draw over all groups: a unit's values are `units` rows of any groups, each within the strategy's norm."""
    if how.rho is not None:
        squared = Fraction(drawn.l2_squared * how.units_squared)
        return noise.gaussian(exact, l2_squared=squared, rho=Fraction(how.rho), label=label)
    return noise.laplace(exact, l1_sensitivity=drawn.l1 * how.units, epsilon=Fraction(how.epsilon or 1), label=label)


def _grid(how: Batch) -> tuple[int, ...]:
    return how.threshold.grid if how.threshold.epsilon is not None else ()


def _within(counts: Sequence[int], edges: Sequence[int], level: int) -> int:
    """How many values are no larger than a level, of either sign."""
    cells = zip(counts, edges, edges[1:], strict=False)
    return sum(count for count, low, high in cells if high <= level and low >= -level - 1)


def _blocks(
    workload: Workload, edges: Sequence[int], cells: Sequence[tuple[int, int]], theta: int
) -> list[tuple[int, int]]:
    """(rows, sum of values cut at theta) of every block: the predicate sees the original value (§4)."""
    found = [(0, 0)] * workload.blocks
    block = 0
    for (count, total), high in zip(cells, edges[1:], strict=True):
        while block < workload.blocks and high > workload.cuts[block + 1]:
            block += 1
        if block == workload.blocks:
            break  # above every query
        cut = workload.cut(high, theta)  # of all values of a cell, where theta or a bound cuts the last of them
        before = found[block]
        found[block] = before[0] + count, before[1] + (total if high == cut else cut * count)
    return found


def _written(design: Design, drawn: LatticeStrategy) -> list[int]:
    """[data, method, strategy, its number, factor, rows, then of each row: entries, (column, integer) …]."""
    name, _, number = design.strategy.name.partition(" ")
    head = [
        DATA.index(design.columns.data) + READ,
        METHODS.index(design.method),
        STRATEGIES.index(name),
        int(number or 0),
    ]
    lines = [len(drawn.rows)]
    for row in drawn.rows:
        lines += [len(row), *(integer for entry in row for integer in entry)]
    return [*head, drawn.factor, *lines]


@dataclass(frozen=True)
class Drawn:
    """Released integers, read: theta, what was drawn, its noisy answers.

    decoders: what was worked out of the strategy alone, shared by all answers of it; see shown.py.
    """

    theta: int
    method: str
    strategy: str
    columns: Columns
    lattice: LatticeStrategy
    answers: tuple[int, ...]
    decoders: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def name(self) -> str:
        return self.method if self.strategy == self.method else f"{self.method} {self.strategy}"


def read(raw: Sequence[int], how: Batch) -> Drawn:
    """What `cores` wrote of the first group: the strategy is released too, so no later version misreads the answers."""
    count = raw[6]
    known = _read(Head(how.workload, how.workload.text, tuple(raw[: len(raw) - count])))
    return replace(known, answers=tuple(raw[len(raw) - count :]))


def read_all(raws: Sequence[Sequence[int]], how: Batch) -> list[Drawn]:
    """What `cores` wrote, a group each."""
    first = read(raws[0], how)
    return [first, *(replace(first, answers=tuple(raw[1:])) for raw in raws[1:])]


@dataclass(frozen=True)
class Head:
    """What was drawn of a workload, without its answers; compared by its text, which is all of it."""

    workload: Workload = field(compare=False)
    text: str
    integers: tuple[int, ...]


@lru_cache(maxsize=8)
def _read(head: Head) -> Drawn:
    theta, data, method, strategy, number, factor, count = head.integers[:7]
    place, rows = 7, []
    for _ in range(count):
        size = head.integers[place]
        pairs = head.integers[place + 1 : place + 1 + 2 * size]
        rows.append(tuple(zip(pairs[::2], pairs[1::2], strict=True)))
        place += 1 + 2 * size
    in_pairs, every = DATA[data % READ] == "pairs", data < READ
    columns = pairs_of(head.workload, theta) if in_pairs else sums_of(head.workload, theta, every=every)
    name = STRATEGIES[strategy] + (f" {number}" if number else "")
    return Drawn(theta, METHODS[method], name, columns, LatticeStrategy(tuple(rows), columns.weights, factor), ())
