"""Families and noise of the vectors for multiplicative weights: given draws in place of random
ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from pg_epsilon.mechanisms.mwem import LATTICE, Array
from pg_epsilon.release.algorithm2 import Algorithm2, Plan
from pg_epsilon.release.candidates import Family, histogram
from pg_epsilon.release.decompose import Measure
from pg_epsilon.release.predicates import predicates
from pg_epsilon.release.rounds import shares

UNIT = 1 << LATTICE
PLACES = 50  # the cases' tables are small, and doubles are expected to 12 digits


def fraction(number: float | int) -> Fraction:
    """A number of a case as the decimal that was meant."""
    return Fraction(str(number))


def family_of(case: Mapping[str, Any]) -> Family:
    cells = {fraction(y) for _, y in case.get("cells", [])}
    measure = Measure(
        case["decomposition"],
        fraction(case["bound"]),
        fraction(case.get("bound_negative", 0)),
        fraction(case.get("b", 1)),
        tuple(sorted(cells)),
    )
    return Family(measure, predicates((case["classes"],), case["predicates"]))


def rows_of(case: Mapping[str, Any]) -> list[tuple[int | None, Fraction]]:
    return [(place, fraction(value)) for place, value in case["rows"]]


def masses_of(case: Mapping[str, Any], family: Family, places: int = PLACES) -> Array:
    return histogram(family, rows_of(case), places)


def algorithm_of(case: Mapping[str, Any], family: Family) -> Algorithm2:
    share = fraction(case.get("share_n", 0.02))
    budget = shares(fraction(case["epsilon"]), share)
    rounds = None if case["T"] == "auto" else case["T"]
    plan = Plan(
        budget,
        max_rows=1000,
        delta=fraction(case.get("delta", 0)),
        rounds=rounds,
        sweeps=case.get("sweeps", 50),
        places=PLACES,
    )
    return Algorithm2(family, plan)


def without_extra(weights: Sequence[float] | Array) -> Array:
    """A prior over the cells of a case, in which there is no cell that no query sees: that one is
    empty.
    """
    return np.append(np.asarray(weights, dtype=float), 0.0)


@dataclass
class Given:
    """A noise source with given draws, each to be added: the shift of Laplace noise, and the picks."""

    shifts: list[float]
    picks: list[int] = field(default_factory=list)
    asked: list[dict[str, Any]] = field(default_factory=list)

    def laplace(self, exact: Sequence[int], **asked: Any) -> list[int]:
        self.asked.append(asked)
        return [value + round(self.shifts.pop(0) * UNIT) for value in exact]

    def select_in_runs(self, sizes: Sequence[int], scores: Sequence[int], **asked: Any) -> int:
        """What is drawn is a place in the runs; the test knows the query, and says where it stands."""
        self.asked.append({**asked, "sizes": list(sizes), "scores": list(scores)})
        return self.picks.pop(0)
