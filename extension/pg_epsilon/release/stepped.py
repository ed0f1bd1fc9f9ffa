"""Algorithm 2 drawn round by round (numeric-release.md §0.0, seam.md S8).

The steps: the number of rows, each round's query and its measurement, the largest error. Each is what
algorithm2.py draws, from the same statistics and the weights that follow from the steps before it, so
that all of them together are one run of it, and its guarantee is theirs (iterated.py).

Stopped after t of T rounds, (T - t) eps0 comes back of what the rounds cost: by the public numbers t
and T. What the largest error would have cost does not (§0.0).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pg_epsilon.accounting.charges import Charge
from pg_epsilon.mechanisms import mwem
from pg_epsilon.mechanisms.mwem import Measured, Weights
from pg_epsilon.mechanisms.stepwise import Drawn, Stepwise
from pg_epsilon.noise import NoiseSource
from pg_epsilon.release import iterated
from pg_epsilon.release.algorithm2 import Algorithm2
from pg_epsilon.release.estimator import Released
from pg_epsilon.release.iterated import Iterated
from pg_epsilon.release.rounds import left_over
from pg_epsilon.release.statement import parse


class Known(NamedTuple):
    """Released by the steps so far. worst: None until the last of them."""

    mass: int
    measured: tuple[Measured, ...]
    worst: int | None


@dataclass(frozen=True)
class Stepped(Released, Stepwise):
    """The estimator of a release by Algorithm 2."""

    measure: Iterated

    @property
    def form(self) -> str:
        own = self.measure.algorithm
        return repr((own.family.measure, own.plan, self.measure.values))

    def begin(self, exact: Sequence[Any]) -> Rounds:
        """exact: the statement's text alone."""
        (text,) = exact
        return Rounds(self.measure, iterated.histogram(parse(text or None), self.measure))

    def steps(self, drawn: Drawn) -> int:
        """The number of rows, T rounds, the largest error."""
        own = self.measure.algorithm
        return 2 + (own.rounds(drawn[0][0]) if drawn else own.most_rounds)

    def whole(self, drawn: Drawn) -> list[int]:
        known = known_of(self.measure.algorithm, drawn)
        return self.measure.weighed(*known, self.measure.algorithm.weights(known.mass, known.measured))

    def left_over(self, raw: Sequence[int]) -> tuple[Charge, ...]:
        own, done = self.measure.algorithm, ~int(raw[1])
        if done < 0:
            return ()
        plan, rounds = own.plan, own.rounds(int(raw[0]))
        spare = left_over(plan.price(own.most_rounds), plan.shares.rounds, plan.delta, rounds, done)
        return (spare,) if spare else ()


class Rounds:
    """The private masses of one release, and the weights after the rounds so far."""

    def __init__(self, measure: Iterated, masses: mwem.Array) -> None:
        self._measure, self._own = measure, measure.algorithm
        self._masses = masses
        self._truth = self._own.truth(masses)
        self._weights: Weights | None = None
        self._learned = 0

    def step(self, drawn: Drawn, noise: NoiseSource, label: str) -> list[int]:
        own = self._own
        if not drawn:
            return [own.draw_mass(own.rows(self._masses), noise, label)]
        known = known_of(own, drawn)
        weights, rounds = self._known(known), own.rounds(known.mass)
        if len(known.measured) == rounds:
            return [own.draw_worst(self._truth, weights, noise, label)]
        place = f"{label} round {len(drawn)}"
        return list(mwem.one_round(weights, self._truth, known.measured, own.setting(rounds), noise, place))

    def whole(self, drawn: Drawn) -> list[int]:
        known = known_of(self._own, drawn)
        return self._measure.weighed(*known, self._known(known))

    def _known(self, known: Known) -> Weights:
        """The weights after these rounds; some of them another backend may have drawn."""
        if self._weights is None:
            self._weights = self._own.weights(known.mass)
        for each in known.measured[self._learned :]:
            self._weights.learn(each)
        self._learned = len(known.measured)
        return self._weights


def known_of(own: Algorithm2, drawn: Drawn) -> Known:
    """What the steps so far released, at least the first."""
    ((mass,), *rest), rounds = drawn, own.rounds(drawn[0][0])
    measured = tuple(Measured(*each) for each in rest[:rounds])
    return Known(mass, measured, rest[rounds][0] if len(rest) > rounds else None)
