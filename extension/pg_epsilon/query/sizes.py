"""How large a join may get, in rows and bytes, by what is declared: before a charge, and never after a read (§10.3 a).

Every set of relations counts that PostgreSQL may join first, not only the whole. The bound of a set is the smallest of

- the AGM bound: the product of N_i^x_i over a fractional cover x of the attributes that the relations share, where a
  relation that may repeat its shared attributes has one more, which it alone has (Atserias, Grohe, Marx 2008);
- for each relation of the set: the bound of the others, times how many of its rows can match one row of theirs: 1 by a
  unique key, rows per value or per unit as declared, or all of its rows.

Both hold on every database that keeps its declarations. No estimate of PostgreSQL's is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context
from fractions import Fraction
from functools import cached_property

from pg_epsilon.errors import SHAPE, UNDECLARED, DPError
from pg_epsilon.query.cover import cover
from pg_epsilon.query.literals import quote

_UP = Context(prec=40, rounding=ROUND_CEILING)
# Logarithms and exponentials of 40 digits are nearer than this factor: the product is no less than the bound.
_MORE = _UP.create_decimal("1.000000000000000000000000000001")
_GRAIN = 2**20
TUPLE = 24  # bytes of a row's header
CORE_MAX = 8  # relations whose join may multiply rows: each set of them is looked at
_COVERED_MAX = 4  # of which all sets are bounded by covers too, a small linear program each
_UNBOUNDED = 2**62  # rows of a table of which none are declared
COLLECTED_MAX = 1_000_000_000  # PostgreSQL's values have 1 GB


@dataclass(frozen=True)
class Limits:
    """What the administrator declares for all questions (dp.set_limits).

    rows, bytes: of any join, twice its bound; memory: bytes that one aggregate collects, twice its bound;
    undeclared_rows: what a relation counts for where no max_rows is declared.
    """

    rows: int
    bytes: int
    memory: int
    undeclared_rows: int


@dataclass(frozen=True)
class Table:
    """An occurrence in a join.

    rows: declared, or None. width: bytes of a row. columns: name of each attribute that an equality names → its class.
    keys: unique keys all of whose columns are among them, as classes. caps: attribute's class → rows that share a
    value of it at most.
    """

    name: str
    rows: int | None
    width: int
    columns: Mapping[str, int]
    keys: tuple[frozenset[int], ...] = ()
    caps: Mapping[int, int] | None = None

    @property
    def classes(self) -> frozenset[int]:
        return frozenset(self.columns.values())


@dataclass(frozen=True)
class Join:
    """An inner join: its occurrences, the sets of them that a condition names together, classes equal to a constant.

    Columns are of one class if equalities of the condition chain them, whichever relations are joined first.
    """

    tables: tuple[Table, ...]
    links: tuple[frozenset[int], ...] = ()
    fixed: frozenset[int] = frozenset()

    def subsets(self) -> Iterator[frozenset[int]]:
        """The sets of two and more that PostgreSQL may join before the others: those that conditions connect.

        Where they do not connect the whole, any set: products of unconnected relations are tried in any order. Of the
        `core` alone: other occurrences add no rows to any set.
        """
        core = self.core
        last = [frozenset([i]) for i in sorted(core)]
        found = set(last)
        while last:
            more = {one | {other} for one in last for other in (self._around(one) & core) - one}
            last = sorted(more - found, key=sorted)
            found.update(last)
            yield from last

    def _around(self, some: frozenset[int]) -> frozenset[int]:
        """What may be joined next with these occurrences."""
        if not self._is_connected:
            return frozenset(range(len(self.tables)))
        return frozenset[int]().union(*(self._neighbours[i] for i in some))

    @cached_property
    def _is_connected(self) -> bool:
        everything = frozenset(range(len(self.tables)))
        return _reach(self._neighbours, everything) == everything

    @cached_property
    def core(self) -> frozenset[int]:
        """The occurrences without those of which any set has one row at most for each row of its others.

        Such a one is determined, by a unique key, by each single occurrence that it is joined with; these are joined
        with each other, so that no set falls apart without it.
        """
        kept = frozenset(range(len(self.tables)))
        while (spare := next((i for i in sorted(kept) if self._is_spare(i, kept)), None)) is not None:
            kept -= {spare}
        return kept

    def _is_spare(self, i: int, kept: frozenset[int]) -> bool:
        around = (self._around(frozenset([i])) & kept) - {i}
        if not around or not all(self._is_determined(i, self.tables[j].classes) for j in around):
            return False
        return all(around - {j} <= self._around(frozenset([j])) for j in around)

    def _is_determined(self, i: int, known: frozenset[int]) -> bool:
        return any(key <= known | self.fixed for key in self.tables[i].keys)

    @cached_property
    def _neighbours(self) -> list[frozenset[int]]:
        """The occurrences that a condition names together with each; a class that is a constant connects nothing."""
        sets = [*self.links]
        for c in {c for table in self.tables for c in table.classes} - self.fixed:
            sets.append(frozenset(i for i, table in enumerate(self.tables) if c in table.classes))
        return [frozenset().union(*(s for s in sets if i in s)) - {i} for i in range(len(self.tables))]


def _reach(near: Sequence[frozenset[int]], everything: frozenset[int]) -> frozenset[int]:
    """Whatever conditions connect with the first occurrence."""
    seen, edge = frozenset([0]), frozenset([0])
    while edge:
        edge = frozenset().union(*(near[i] for i in edge)) & everything - seen
        seen |= edge
    return seen


class Bounds:
    """Bounds of the sets of one join; covers: whether the AGM bound, which takes longer, is tried too."""

    def __init__(self, join: Join, undeclared_rows: int, *, covers: bool = True) -> None:
        self._join = join
        self._covers = covers
        self._rows = [self._alone(table, undeclared_rows) for table in join.tables]
        self._known: dict[frozenset[int], int] = {}

    def _alone(self, table: Table, undeclared: int) -> int:
        rows = table.rows if table.rows is not None else undeclared
        return min(rows, self._matches(table, frozenset(), rows))

    def _matches(self, table: Table, known: frozenset[int], rows: int) -> int:
        """How many rows of a table can have given values in the known classes."""
        given = table.classes & (known | self._join.fixed)
        if any(key <= given for key in table.keys):
            return 1
        return min([rows, *(cap for c, cap in (table.caps or {}).items() if c in given)])

    def rows(self, subset: frozenset[int]) -> int:
        """At most so many rows has the join of these occurrences."""
        if not subset:
            return 1
        found = self._known.get(subset)
        if found is None:
            covers = self._covers and len(subset) > 1  # of one table the AGM bound is what it has, rounded upwards
            bounds = [*self._chained(subset), *([self._covered(subset)] if covers else [])]
            found = self._known[subset] = min(bounds)
        return found

    def _chained(self, subset: frozenset[int]) -> Iterator[int]:
        for i in subset:
            others = subset - {i}
            known = frozenset[int]().union(*(self._join.tables[j].classes for j in others))
            yield self.rows(others) * self._matches(self._join.tables[i], known, self._rows[i])

    def _covered(self, subset: frozenset[int]) -> int:
        """The AGM bound, rounded upwards."""
        order = sorted(subset)
        attributes: dict[int, set[int]] = {}
        for place, i in enumerate(order):
            for c in self._join.tables[i].classes - self._join.fixed:
                attributes.setdefault(c, set()).add(place)
        sets = [frozenset(owners) for owners in attributes.values()]
        for place, i in enumerate(order):
            table = self._join.tables[i]
            if not any(key <= table.classes for key in table.keys):
                sets.append(frozenset([place]))
        logs = [_UP.ln(_UP.create_decimal(max(1, self._rows[i]))) for i in order]
        weights = cover([Fraction(-int(-log * _GRAIN // 1), _GRAIN) for log in logs], sets)
        total = _UP.create_decimal(0)
        for weight, log in zip(weights, logs, strict=True):
            product = _UP.multiply(_UP.create_decimal(weight.numerator), log)
            total = _UP.add(total, _UP.divide(product, _UP.create_decimal(weight.denominator)))
        return int(_UP.multiply(_UP.exp(total), _MORE))

    def is_linear(self, subset: frozenset[int]) -> bool:
        """Whether one occurrence's row determines all others by unique keys: no more rows than one table has."""
        for i in subset:
            seen = frozenset([i])
            while True:
                known = frozenset[int]().union(*(self._join.tables[j].classes for j in seen))
                more = {j for j in subset - seen if self._matches(self._join.tables[j], known, 2) == 1}
                if not more:
                    break
                seen |= more
            if seen == subset:
                return True
        return False


def most_rows(join: Join) -> int | None:
    """How many rows the join has at most, by what is declared; None where that says nothing."""
    whole = join.core  # the others add no rows
    if len(whole) > CORE_MAX:
        return None
    found = Bounds(join, _UNBOUNDED, covers=len(whole) <= _COVERED_MAX).rows(whole)
    return found if found < _UNBOUNDED else None


def check(join: Join, limits: Limits, collected: int) -> None:
    """DP004 if a join that PostgreSQL may compute, or what an aggregate collects of it, could be too large; DP003 for
    more relations than can be looked at.

    collected: bytes of a result row that an aggregate collects, 0 if none does. Twice each bound must fit. A join along
    unique keys alone has no more rows than one table: it is read whatever is declared.
    """
    if len(join.core) > CORE_MAX:
        raise DPError(
            SHAPE,
            f"more than {CORE_MAX} relations of one question are joined otherwise than along unique keys",
            "Join them along keys, or ask in parts.",
        )
    quick = Bounds(join, limits.undeclared_rows, covers=False)
    tight = Bounds(join, limits.undeclared_rows)
    whole = join.core  # the others add no rows
    width = TUPLE + sum(table.width for table in join.tables)
    most = min(limits.rows, limits.bytes // width) // 2
    for subset in join.subsets():
        if quick.is_linear(subset) or quick.rows(subset) <= most:
            continue
        rows = tight.rows(subset)
        if 2 * rows > limits.rows:
            raise _too_large(join, subset, f"{rows:,} rows", f"rows => {2 * rows}")
        if 2 * rows * width > limits.bytes:
            raise _too_large(join, subset, f"{rows * width:,} bytes", f"bytes => {2 * rows * width}")
    room = min(limits.memory, COLLECTED_MAX) // 2
    if collected and quick.rows(whole) * collected > room:
        size = tight.rows(whole) * collected
        if size > room:
            raise _too_large(join, whole, f"{size:,} bytes", f"memory => {2 * size}", fits=2 * size <= COLLECTED_MAX)


def _too_large(join: Join, subset: frozenset[int], size: str, limit: str, *, fits: bool = True) -> DPError:
    names = [join.tables[i].name for i in sorted(subset)]
    if len(names) == 1:
        what, advice = f"the rows of {names[0]}", "Let the owner protect it with a smaller max_rows."
    else:
        what, advice = f"the join of {', '.join(names)}", _advice(join, subset)
    raised = f" The administrator can also allow more: CALL dp.set_limits({limit})." if fits else ""
    return DPError(
        UNDECLARED,
        f"by what is declared, {what} may have {size}, twice of which is above the limit",
        f"{advice}{raised} dp.check() prints the limits.",
    )


def _advice(join: Join, subset: frozenset[int]) -> str:
    """What to declare: rows per value of a column that the joined relations share."""
    for i in sorted(subset):
        table = join.tables[i]
        shared = {c for j in subset - {i} for c in join.tables[j].classes} | join.fixed
        for column, c in table.columns.items():
            if c in shared and c not in (table.caps or {}):
                call = f"CALL dp.describe_column({quote(table.name)}, {quote(column)}, max_rows_per_value => ...)"
                return f"Let the owner declare how many rows share a value: {call}; or a smaller max_rows."
    return "Join them by = along a key, or let the owner declare a smaller max_rows or max_rows_per_value."
