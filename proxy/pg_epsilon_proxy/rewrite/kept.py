"""What a repeated statement need not do again: parse, compile, print. Nothing of it is believed before it is compared.

A kept statement is used only where a new look would give the same: the facade describes the text and resolves its names
for every run, and only what it says the same of is taken from here (facade-and-channel.md §6). An analyst meets their
own statements only, so that the time of an answer tells nothing of what others asked.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from ..session.rewriting import Described
from .cutting import Asked
from .names import Facts
from .statements import Statement
from .units import Unit

T = TypeVar("T")

MAX_ENTRIES = 256
# A tree takes a few hundred bytes for a character: together some 30 MB at worst.
MAX_CHARACTERS = 65_536
# A longer statement costs its own execution far more than its parsing.
MAX_KEPT_TEXT = 4_096


@dataclass(frozen=True)
class Kept:
    """A statement that was planned, and what the facade said of it then.

    item: without its tree, which the plan has used up; asked: what the facade said of the blocks' types, if it was
    asked; unit: to be copied (units.again), never changed.
    """

    item: Statement
    described: Described
    facts: Facts
    asked: Asked
    unit: Unit


class Bounded(Generic[T]):
    """The values used last, at most `entries` of them, of keys that have at most `characters` together."""

    def __init__(self, entries: int = MAX_ENTRIES, characters: int = MAX_CHARACTERS) -> None:
        self._entries = entries
        self._characters = characters
        self._values: OrderedDict[Hashable, tuple[T, int]] = OrderedDict()
        self._held = 0

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Hashable) -> T | None:
        found = self._values.get(key)
        if found is None:
            return None
        self._values.move_to_end(key)
        return found[0]

    def put(self, key: Hashable, value: T, characters: int = 0) -> None:
        self.drop(key)
        self._values[key] = value, characters
        self._held += characters
        while len(self._values) > self._entries or self._held > self._characters:
            self._held -= self._values.popitem(last=False)[1][1]

    def drop(self, key: Hashable) -> None:
        found = self._values.pop(key, None)
        if found is not None:
            self._held -= found[1]
