"""A mechanism that is drawn in steps, each committed by itself: long work is seen, and may be stopped (seam.md S8)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol

from pg_epsilon.accounting.charges import Charge
from pg_epsilon.noise import NoiseSource

Drawn = Sequence[Sequence[int]]
"""What the steps so far released, one by one: integers, public once the release is recorded."""


class Work(Protocol):
    """The private statistics of one release, with what follows from the steps so far. It never leaves its backend."""

    def step(self, drawn: Drawn, noise: NoiseSource, label: str) -> list[int]:
        """The next step's released integers. `drawn` may hold steps that another backend drew."""
        ...

    def whole(self, drawn: Drawn) -> list[int]:
        """`Stepwise.whole`, without computing again what this backend knows."""
        ...


class Stepwise(ABC):
    """An estimator whose release is drawn in steps. All of them are charged before the first.

    A class of its own, no protocol, as `Reserving` is. Guarantee: the steps compose adaptively, so that their sum is
    within the charges; whoever goes on with another read of the rows adds to it as if they had not changed
    (composition.md §6.1).
    """

    @property
    @abstractmethod
    def form(self) -> str:
        """All that decides what the integers of a step mean, beside the question: another form cannot go on. Public."""

    @abstractmethod
    def begin(self, exact: Sequence[Any]) -> Work:
        """From the exact statistics of the one group."""

    @abstractmethod
    def steps(self, drawn: Drawn) -> int:
        """How many they are at most, given those so far; exactly that many once the first is drawn. Public."""

    @abstractmethod
    def whole(self, drawn: Drawn) -> list[int]:
        """The released integers of all steps, or of the first few (at least one): post-processing."""

    @abstractmethod
    def left_over(self, raw: Sequence[int]) -> tuple[Charge, ...]:
        """What comes back of the charges: nothing of a whole release; of the first few by their public number."""
