"""Draws that a case of the slow programme gives, in place of noise."""

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
