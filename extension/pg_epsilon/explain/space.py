"""Which predicates may explain a difference: conjunctions of values of different attributes (dpxplain.md §6.1).

Public: which they are, in which order and how many depends on declarations alone, never on a row.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, combinations
from math import prod
from typing import ClassVar


@dataclass(frozen=True)
class Attribute:
    """What a predicate may test of a row, and its values.

    conditions: of each value, a condition that can be pasted into a WHERE clause; of each row exactly one is true.
    sql: the place of a row's value among them, an integer that is never NULL; total.
    """

    name: str
    conditions: tuple[str, ...]
    sql: str

    @property
    def size(self) -> int:
        return len(self.conditions)


@dataclass(frozen=True)
class Space:
    """Conjunctions of exactly `most` values of different attributes; up_to: of fewer too, those first.

    In the order of the attributes, the last one's values fastest. `len` is their number.
    """

    attributes: tuple[Attribute, ...]
    most: int = 1
    up_to: bool = False

    @cached_property
    def subsets(self) -> tuple[tuple[int, ...], ...]:
        """The attributes that each run of predicates tests."""
        least = 1 if self.up_to else self.most
        places = range(len(self.attributes))
        return tuple(one for size in range(least, self.most + 1) for one in combinations(places, size))

    def area(self, subset: Sequence[int]) -> int:
        """How many predicates test these attributes."""
        return prod(self.attributes[place].size for place in subset)

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """Where the run of each subset ends."""
        return tuple(accumulate(self.area(subset) for subset in self.subsets))

    def __len__(self) -> int:
        return self.ends[-1] if self.ends else 0

    def values(self, place: int) -> tuple[tuple[Attribute, int], ...]:
        """What the predicate of this place tests: of each attribute, the place of the value."""
        run = bisect_right(self.ends, place)
        subset, rest = self.subsets[run], place - (self.ends[run - 1] if run else 0)
        found = []
        for number in reversed(subset):
            rest, value = divmod(rest, self.attributes[number].size)
            found.append((self.attributes[number], value))
        return tuple(reversed(found))

    def text(self, place: int) -> str:
        """The predicate as a condition that can be pasted into a WHERE clause."""
        conditions = [attribute.conditions[value] for attribute, value in self.values(place)]
        return " AND ".join(conditions)


@dataclass(frozen=True)
class Listed:
    """Predicates that the asker named: any conditions, of which a row may satisfy several, or none.

    texts: as they are shown; conditions: the same as validated SQL.
    """

    texts: tuple[str, ...]
    conditions: tuple[str, ...]

    attributes: ClassVar[tuple[Attribute, ...]] = ()
    most: ClassVar[int] = 1
    up_to: ClassVar[bool] = False

    def __len__(self) -> int:
        return len(self.texts)

    def text(self, place: int) -> str:
        """The predicate of this place."""
        return self.texts[place]


Predicates = Space | Listed
