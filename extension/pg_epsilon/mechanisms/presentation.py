"""How the released integers of a group become values and bars: estimators, and whose value each aggregate shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import TypeVar

from pg_epsilon.mechanisms.estimators import Bar, Estimator, Joint

T = TypeVar("T")
Part = tuple[Estimator, Sequence[int]]  # an estimator and the integers that it released


@dataclass(frozen=True)
class Presentation:
    """Post-processing alone: free, and the same for a release that was stored (composition.md §8).

    estimators: in the order of what a group releases. places: which of them answers each aggregate. together: where the
    last estimator is a Joint that answers several aggregates at once, their numbers, in its order; None: there is none.
    """

    estimators: tuple[Estimator, ...]
    places: tuple[int, ...]
    together: tuple[int, ...] | None = None

    @property
    def joint(self) -> Joint | None:
        """The one release that answers several aggregates: the last estimator."""
        last = self.estimators[-1] if self.together is not None and self.estimators else None
        return last if isinstance(last, Joint) else None

    @cached_property
    def _ends(self) -> tuple[tuple[Estimator, int, int], ...]:
        found, start = [], 0
        for one in self.estimators:
            end = start + sum(measure.released for measure in one.measures)
            found.append((one, start, end))
            start = end
        return tuple(found)

    def parts(self, raw: Sequence[int]) -> list[Part]:
        """The released integers of one group, by estimator."""
        return [(one, raw[start:end]) for one, start, end in self._ends]

    def texts(self, raw: Sequence[int], first: Sequence[int] | None = None) -> list[str | None]:
        """The values of one group, an aggregate each, from its released integers.

        first: those of the first group, which say what all groups of a joint release share; None: it is this one.
        """
        parts = self.parts(raw)
        values = [one.present(part) for one, part in parts]
        found = [values[place] for place in self.places]
        if self.joint is None:
            return found
        return self._with(found, self.joint.texts(parts[-1][1], self._last(raw, first)))

    def bars(self, raw: Sequence[int], confidence: Decimal, first: Sequence[int] | None = None) -> list[Bar]:
        """(low, high, standard error) of one group, an aggregate each; first: as of `texts`."""
        parts = self.parts(raw)
        bars = [one.bars(part, confidence) for one, part in parts]
        found = [bars[place] for place in self.places]
        if self.joint is None:
            return found
        return self._with(found, self.joint.all_bars(parts[-1][1], self._last(raw, first), confidence))

    def _last(self, raw: Sequence[int], first: Sequence[int] | None) -> Sequence[int]:
        """What the joint release says of all groups."""
        return self.parts(raw if first is None else first)[-1][1]

    def _with(self, found: list[T], several: Sequence[T]) -> list[T]:
        """What is said of each aggregate, with the joint release's own of its members."""
        for number, one in zip(self.together or (), several, strict=True):
            found[number] = one
        return found
