"""Draws that a case of the slow programme gives, in place of noise (dpxplain.md §6)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction


class Given:
    """Draws that a case gives: standard normals and Gumbels, resp. integers in steps of the case's unit."""

    def __init__(self, draws: Sequence[float], unit: int = 1) -> None:
        self.draws, self.unit, self.scales = list(draws), unit, []  # type: list[float], int, list[float]

    def gaussian(self, exact: Sequence[int], *, l2_squared: Fraction, rho: Fraction, label: str) -> list[int]:
        sigma = math.sqrt(l2_squared / (2 * rho))
        return [one + round(sigma * self.of(label).pop(0)) for one in exact]

    def laplace(self, exact: Sequence[int], *, l1_sensitivity: int, epsilon: Fraction, label: str) -> list[int]:
        return [one + round(self.of(label).pop(0)) * self.unit for one in exact]

    def select(self, scores: Sequence[int], *, sensitivity: Fraction, epsilon: Fraction, label: str) -> int:
        """The largest score with its own Gumbel, as a selection of one; each draw is of one predicate for all turns."""
        self.scales.append(float(2 * sensitivity / epsilon))
        noisy = [score + self.scales[-1] * draw for score, draw in zip(scores, self.draws, strict=True)]
        best = max(range(len(noisy)), key=lambda place: (noisy[place], -place))
        self.draws.pop(best)
        return best

    def select_in_runs(
        self, sizes: Sequence[int], scores: Sequence[int], *, sensitivity: Fraction, epsilon: Fraction, label: str
    ) -> int:
        each = [score for size, score in zip(sizes, scores, strict=True) for _ in range(size)]
        return self.select(each, sensitivity=sensitivity, epsilon=epsilon, label=label)

    def of(self, label: str) -> list[float]:
        """Where the draws of this name are."""
        return self.draws


class Labelled(Given):
    """Those of selections, and by name the others."""

    def __init__(self, gumbels: Sequence[float], named: Mapping[str, Sequence[float]], unit: int = 1) -> None:
        super().__init__(gumbels, unit)
        self.named = {name: list(draws) for name, draws in named.items()}

    def of(self, label: str) -> list[float]:
        return self.named[label]


class Idle(Given):
    """Gumbels of the predicates before a run of others of one score, whose maxima come of exponentials (§7.3)."""

    def __init__(self, gumbels: Sequence[float], exponentials: Sequence[float]) -> None:
        super().__init__(gumbels)
        self.exponentials, self.level = list(exponentials), 0.0

    def select_in_runs(
        self, sizes: Sequence[int], scores: Sequence[int], *, sensitivity: Fraction, epsilon: Fraction, label: str
    ) -> int:
        """The last run is the idle one: its maximum is drawn anew whenever the one before was taken."""
        self.scales.append(float(2 * sensitivity / epsilon))
        if len(self.exponentials) > 0 and not self.level:
            self._next(sizes[-1])
        active = [score + self.scales[-1] * draw for score, draw in zip(scores[:-1], self.draws, strict=True)]
        best = max(range(len(active)), key=active.__getitem__)
        if active[best] >= scores[-1] - self.scales[-1] * math.log(self.level):
            self.draws.pop(best)
            return best
        self._next(sizes[-1] - 1)
        return len(active)

    def _next(self, left: int) -> None:
        self.level += self.exponentials.pop(0) / left
