"""Which classes the queries of a grid read, and which of the queries are different. Public facts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256


@dataclass(frozen=True)
class Masks:
    """Which classes of an axis each query reads: the different masks, and the number of each query's."""

    different: tuple[str, ...]
    of: tuple[int, ...]


@dataclass(frozen=True)
class Sets:
    """The different sets of classes that queries read, each by its masks, sorted; and the number of each query's."""

    different: tuple[tuple[str, ...], ...]
    of: tuple[int, ...]

    @classmethod
    def of_masks(cls, masks: Sequence[Masks]) -> Sets:
        each = list(zip(*([one.different[place] for place in one.of] for one in masks), strict=True))
        different = sorted(set(each))
        numbers = {one: number for number, one in enumerate(different)}
        return cls(tuple(different), tuple(numbers[one] for one in each))

    def digest(self) -> str:
        """The same of grids with the same sets."""
        whole = sha256()
        for one in self.different:
            whole.update((" ".join(one) + ";").encode())
        return whole.hexdigest()
