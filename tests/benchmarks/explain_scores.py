"""Exact influences of the questions of bench_explain.py, and how the engine draws from them.

Nothing here is private to anybody: exact scores say how right the noisy ones are.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau

from benchmarks.explain_data import PAIR, Asked, Root, Tables, bounds, read, space
from pg_epsilon.explain.cells import Found, unpacked
from pg_epsilon.explain.influence import scores
from pg_epsilon.explain.measure import Explaining, Price, fineness
from pg_epsilon.explain.ranking import top
from pg_epsilon.explain.space import Space
from pg_epsilon.noise import Noise

K = 5
RHO = {"top": 0.01, "influence": 0.01, "rank": 0.02}
Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Setting:
    """How an explanation is drawn; printed: with the paper's sensitivities."""

    top: float = RHO["top"]
    influence: float = RHO["influence"]
    rank: float = RHO["rank"]
    k: int = K
    confidence: float = 0.95
    printed: bool = False

    @property
    def price(self) -> Price:
        """Rho is split over k selections of epsilon = sqrt(8 rho / k)."""
        squared = int(Fraction(str(self.top)) * 8 / self.k * 10**36)
        selection = Decimal(math.isqrt(squared)).scaleb(-18)
        return Price(selection, Decimal(str(self.influence)), Decimal(str(self.rank)), rho=True)


@dataclass(frozen=True)
class Reading:
    """What the engine's statement returned for a question, the same for predicates of any size."""

    name: str
    asked: Asked
    cells: bytes
    limit: int
    seconds: float

    def scored(self, tables: Tables, most: int) -> Scored:
        """The predicates of so many values, each with its exact influence."""
        own = space(tables, self.asked, most)
        start = time.perf_counter()
        found = unpacked(self.cells, own, 2)
        return Scored(self, own, found, time.perf_counter() - start)


def reading(root: Root, tables: Tables, name: str, asked: Asked) -> Reading:
    """One run of the engine's statement."""
    start = time.perf_counter()
    _, _, cells = read(root, tables, asked, 1)
    return Reading(name, asked, cells, tables.rows[asked.table], time.perf_counter() - start)


@dataclass(frozen=True)
class Scored:
    """A question's predicates.

    found: of those that a row of its groups satisfies; all others have influence 0.
    """

    reading: Reading
    own: Space
    found: Found
    seconds: float

    def how(self, setting: Setting) -> Explaining:
        """The engine's measure."""
        change, apart = bounds(self.reading.asked, printed=setting.printed)
        confidence = Fraction(str(setting.confidence))
        limits = self.own, "avg", PAIR, setting.k, change, apart, setting.price, confidence
        return Explaining(*limits, fine=fineness(self.reading.limit))  # type: ignore[arg-type]

    def points(self, how: Explaining) -> list[int]:
        """The score of every predicate on the measure's grid."""
        result = [0] * len(self.own)
        some = scores("avg", PAIR, self.found.cells, how.steps)
        for place, one in zip(self.found.places, some, strict=True):
            result[place] = one
        return result

    @cached_property
    def values(self) -> Numbers:
        """The influence of every predicate, to a millionth of what one row moves it."""
        how = self.how(Setting())
        return np.array([float(point / how.steps) for point in self.points(how)])

    @property
    def gap(self) -> float:
        """The exact difference of the averages."""
        cells = self.found.cells
        first, second = (Fraction(s, n) for s, n in zip(cells.sums, cells.rows, strict=True))
        return float(first - second)

    def best(self, k: int) -> set[int]:
        """The places of the k largest influences."""
        return set(np.argsort(-self.values, kind="stable")[:k].tolist())


def pick(points: Sequence[int], how: Explaining, k: int, epsilon: Fraction) -> list[int]:
    """The engine's own selection."""
    return top(points, k, apart=how.search.moved, epsilon=epsilon, noise=Noise(), label="bench")


def precision(scored: Scored, setting: Setting, runs: int) -> list[float]:
    """Of each run of the engine's selection, the part of the picks that is among the k largest."""
    how = scored.how(setting)
    points, best = scored.points(how), scored.best(setting.k)
    epsilon = Fraction(how.price.selection)
    return [len(best & set(pick(points, how, setting.k, epsilon))) / setting.k for _ in range(runs)]


def precision_by_law(scored: Scored, setting: Setting, runs: int, rng: Any) -> float:
    """The mean of the same by numpy: Gumbel noise of scale apart / epsilon on all influences."""
    how, best = scored.how(setting), scored.best(setting.k)
    scale = float(how.apart / Fraction(how.price.selection))
    return by_gumbel(scored.values, best, scale, runs, rng)


def by_gumbel(values: Numbers, best: set[int], scale: float, runs: int, rng: Any) -> float:
    """How many of the largest noisy values are among the best, as a part of them."""
    found = 0
    for _ in range(runs):
        noisy = values + rng.gumbel(0, scale, len(values))
        found += len(best & set(np.argpartition(-noisy, len(best))[: len(best)].tolist()))
    return found / (runs * len(best))


def kendall_by_law(
    scored: Scored,
    settings: Mapping[float, Setting],
    runs: int,
    rng: Any,
) -> dict[float, float]:
    """For each rho the mean Kendall's tau-b of influences and the order of selections, by numpy."""
    values, many = scored.values, len(scored.own)
    found = {}
    for rho, setting in settings.items():
        scale = float(scored.how(setting).apart) / math.sqrt(8 * rho / many)
        noisy = (values + rng.gumbel(0, scale, many) for _ in range(runs))
        found[rho] = float(np.mean([kendalltau(values, one).statistic for one in noisy]))
    return found
