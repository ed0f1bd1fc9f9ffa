"""Which columns of a join are equal in every result row, and which rows are one row: congruence over unique keys.

Sound, not complete: a fact that is missed costs accuracy (more units per result row, no cap), never privacy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

Node = tuple[str, str]  # (alias, column)


@dataclass(frozen=True)
class Instance:
    """An occurrence of a table in a join: by alias, with its unique keys over the rows that it reads.

    table: equal for occurrences of one relation, with the same set of rows.
    """

    alias: str
    table: str
    unique: tuple[tuple[str, ...], ...]


@dataclass
class Classes:
    """Union-find over columns, closed under: occurrences that agree on a unique key are the same row."""

    instances: Sequence[Instance]
    _parent: dict[Node, Node] = field(default_factory=dict)
    _same: dict[str, str] = field(default_factory=dict)
    _fixed: set[Node] = field(default_factory=set)

    def find(self, node: Node) -> Node:
        """The representative of a column's class."""
        node = self.row(node[0]), node[1]
        while (parent := self._parent.setdefault(node, node)) != node:
            node = parent
        return node

    def equal(self, one: Node, other: Node) -> bool:
        """Whether two columns are known to be equal."""
        return self.find(one) == self.find(other)

    def row(self, alias: str) -> str:
        """The first occurrence that is the same row as `alias`."""
        return self._same.get(alias, alias)

    def fix(self, node: Node) -> None:
        """A column that the condition makes equal to a constant."""
        self._fixed.add(node)

    def union(self, one: Node, other: Node) -> None:
        """Two columns are equal in every result row."""
        a, b = self.find(one), self.find(other)
        if a != b:
            self._parent[b] = a

    def close(self) -> None:
        """Merge rows that agree on a unique key, and so all their columns, until nothing changes."""
        changed = True
        while changed:
            changed = False
            for one, other in combinations(self.instances, 2):
                if one.table != other.table or self.row(one.alias) == self.row(other.alias):
                    continue
                keys = set(one.unique) & set(other.unique)
                if any(all(self.equal((one.alias, c), (other.alias, c)) for c in key) for key in keys if key):
                    self._merge(one, other)
                    changed = True

    def _merge(self, one: Instance, other: Instance) -> None:
        first, second = self.row(one.alias), self.row(other.alias)
        group = [i.alias for i in self.instances if self.row(i.alias) in (first, second)]
        columns = {column for alias, column in list(self._parent) if alias in group}
        columns |= {column for instance in (one, other) for key in instance.unique for column in key}
        for column in columns:
            for alias in group[1:]:
                self.union((group[0], column), (alias, column))
        self._same.update(dict.fromkeys(group, group[0]))  # from now on one row: columns not seen yet are equal too

    def determined(self, seeds: Iterable[str]) -> set[str]:
        """The occurrences of which there is at most one row for given rows of `seeds`: by a unique key all of whose
        columns equal theirs, or constants."""
        known = {self.row(alias) for alias in seeds}
        while True:
            fixed = {self.find(node) for node in self._fixed}
            fixed |= {self.find(node) for node in list(self._parent) if self.row(node[0]) in known}
            more = {
                self.row(i.alias)
                for i in self.instances
                if self.row(i.alias) not in known
                and any(all(self.find((i.alias, c)) in fixed for c in key) for key in i.unique if key)
            }
            if not more:
                return {i.alias for i in self.instances if self.row(i.alias) in known}
            known |= more


def generators(classes: Classes, aliases: Sequence[str], preferred: Mapping[str, int | None]) -> list[str]:
    """A few occurrences whose rows determine a whole result row; a single one if there is, with the smallest bound."""
    alone = [alias for alias in aliases if set(aliases) <= classes.determined([alias])]
    bounded = [alias for alias in alone if preferred.get(alias) is not None]
    if bounded:
        return [min(bounded, key=lambda alias: preferred[alias] or 0)]
    if alone:
        return alone[:1]
    chosen: list[str] = []
    for alias in aliases:
        if alias not in classes.determined(chosen):
            chosen.append(alias)
    return chosen
