"""A view on which Turbo answers: what its owner declared (public), and what an answer says."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from pg_epsilon.turbo.bins import Domain
from pg_epsilon.turbo.calibration import Calibration
from pg_epsilon.turbo.histogram import Heuristic


@dataclass(frozen=True)
class View:
    """mode: "turbo" (PMW-Bypass) or "pmw" (vanilla, §6.8: always ready, rate alpha/8, no exact cache).

    bits: the finest lattice of its queries; the errors that a sparse vector tests are in steps of 2^-bits.
    planner: "tree" or "flat" (§6.10). longest: the longest window of a forest, a power of two (§6.12); None: one tree.
    scope: what a sparse vector is for, "run" (Alg. 2) or "window" (§6.11, [R]). warm: new nodes copy older ones
    (§6.13), mix: how much of the uniform distribution is added then. free_only: with the budget used up, go on testing
    while an epoch is open (§6.9, line 19). pmw_rate: the learning rate of "pmw"; None: alpha/8.
    """

    domain: Domain
    prices: Calibration
    heuristic: Heuristic = field(default_factory=Heuristic)
    mode: str = "turbo"
    bits: int = 0
    planner: str = "tree"
    longest: int | None = None
    scope: str = "run"
    warm: bool = False
    mix: float = 0.0
    free_only: bool = False
    pmw_rate: float | None = None

    @property
    def unit(self) -> int:
        """Steps of a row on the lattice of the sparse vectors: their sensitivity."""
        return 1 << self.bits


class Answer(NamedTuple):
    """value: an integer in the query's steps; None: no answer, `error` says why (the transaction still commits).

    path: "trivial", "exact", "r1" (histogram, PASS), "r2" (after a FAIL), "r3" (noise), "mixed" (several nodes of a
    tree, several of these), "refused", "failed".
    """

    value: int | None
    path: str
    error: Exception | None = None

    def rows(self, unit: int) -> Fraction:
        """The value in rows (counts)."""
        if self.value is None:
            raise ValueError("not answered")
        return Fraction(self.value, unit)
