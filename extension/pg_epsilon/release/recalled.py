"""One query of a family that answers its grid alone, from what is stored of it. Post-processing.

Of dp.family's facts the member "weights" (Algorithm 2), "singly" (composition) or "fitted" says how
the released integers are read, so that a question is answered whatever the session; the answer is the
one that dp_release_numeric gave, bar for bar at the asker's confidence.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from pg_epsilon.release import ask, fitted
from pg_epsilon.release.answers import Answer
from pg_epsilon.release.candidates import Family
from pg_epsilon.release.decompose import Measure
from pg_epsilon.release.iterated import HEAD, Iterated, is_stopped
from pg_epsilon.release.masses import Values
from pg_epsilon.release.members import digest, each_of
from pg_epsilon.release.predicates import Boxes, Weighted
from pg_epsilon.release.singly import Draw, Singly, answers
from pg_epsilon.release.truncation import Rounding, alpha_of, answer_all


def recorded(how: Iterated, asked: ask.Family) -> dict[str, Any]:
    """What is to be known of a release beside its integers, as JSON; public."""
    algorithm = how.algorithm
    measure, plan = algorithm.family.measure, algorithm.plan
    return {
        "decomposition": measure.decomposition,
        "bounds": [str(measure.bound_negative), str(measure.bound)],
        "base": str(measure.base),
        "values": [str(one) for one in measure.values],
        "sensitivity": algorithm.sensitivity,
        "epsilon": str(plan.shares.alpha),
        "places": algorithm.places,
        "rows": plan.max_rows,
        "dropped": str(how.dropped),
        "share": str(asked.options.share),
    }


def recorded_singly(how: Singly, asked: ask.Family) -> dict[str, Any]:
    """The same of composition."""
    draw, values = how.draw, how.draw.values
    lattice = None if values is None else [str(values.step), values.low, values.high, values.bits]
    sets = [one for one in each_of(asked.sets, asked.weights) if one is not None]
    weighted = {"weighted": True} if draw.weighted else {}
    return {
        "lattice": lattice,
        "share": str(draw.share),
        "kappa": draw.kappa,
        "rows": draw.rows,
        "sets": sets,
        **weighted,
    }


def recalled(
    facts: Mapping[str, Any],
    raw: npt.NDArray[np.int64],
    bits: npt.NDArray[np.bool_],
    miss: float,
    weights: npt.NDArray[np.float64] | None = None,
) -> Answer:
    """The answer of the query that reads the classes of `bits`, over the family's axes, each with its weight.

    raw: as it was released. miss: of all bars of the family's grid together. The query has to be
    one of the grid: of others nothing is known.
    """
    own = np.broadcast_to(1.0, bits.shape) if weights is None else weights
    if "singly" in facts:
        return _singly(facts["singly"], raw, digest(bits, own), miss)
    if "fitted" in facts:
        return _fitted(facts, raw, bits, own)
    return _weighted(facts["weights"], raw, np.where(bits, own, 0.0), miss)


def _singly(stored: Mapping[str, Any], raw: npt.NDArray[np.int64], query: int | None, miss: float) -> Answer:
    lattice, sets = stored["lattice"], stored["sets"]
    values = None if lattice is None else Values(Fraction(lattice[0]), *lattice[1:])
    draw = Draw(values, Fraction(stored["share"]), int(stored["kappa"]), int(stored["rows"]), "weighted" in stored)
    start = sets.index(query) * draw.numbers
    own = [int(one) for one in raw[start : start + draw.numbers]]
    return answers(own, draw, miss / len(sets))[0]


def _fitted(
    facts: Mapping[str, Any], raw: npt.NDArray[np.int64], bits: npt.NDArray[np.bool_], own: npt.NDArray[np.float64]
) -> Answer:
    """Of normalisation and global truncation, which have no bars."""
    values = [Fraction(one) for one in facts["values"]]
    cells = raw[facts["head"] :].reshape(-1, len(values))[bits.reshape(-1)]
    counted: npt.NDArray[Any] = cells * own[bits][:, None]
    found = fitted.answer(counted, values, int(facts["whole"]))
    return Answer(found, found, math.nan, math.nan, False)


def _weighted(
    stored: Mapping[str, Any], raw: npt.NDArray[np.int64], counts: npt.NDArray[np.float64], miss: float
) -> Answer:
    """Of Algorithm 2. counts: of each class, its weight; 0 of one that the query does not read.

    alpha~ says nothing of queries that are not of the grid.
    """
    low, high = map(Fraction, stored["bounds"])
    measure = Measure(
        stored["decomposition"],
        high,
        low,
        Fraction(stored["base"]),
        tuple(map(Fraction, stored["values"])),
    )
    family = Family(measure, _predicate(counts))
    places, epsilon = int(stored["places"]), Fraction(stored["epsilon"])
    worst, moved, stopped = int(raw[2]), int(stored["sensitivity"]), is_stopped(raw)
    found = answer_all(
        family,
        np.append(raw[HEAD:], 0),
        Fraction(0) if stopped else alpha_of(worst, family, moved, epsilon, places),
        Rounding(places, int(stored["rows"]), Fraction(stored.get("dropped", 0))),
        share=Fraction(stored["share"]),
        sure=Fraction(0) if stopped else alpha_of(worst, family, moved, epsilon, places, Fraction(miss)),
    )
    value, below = float(found.answer[0]), bool(found.below_resolution[0])
    if stopped:
        return Answer(value, value, math.nan, math.nan, True)
    return Answer(value, value, float(found.low[0]), float(found.high[0]), below)


def _predicate(counts: npt.NDArray[np.float64]) -> Boxes | Weighted:
    """The one query; its classes are flat, which changes no sum over them."""
    listed = np.flatnonzero(counts)
    own = counts.reshape(-1)[listed].tolist()
    whole = all(one == 1 for one in own)
    if whole and len(listed) and listed[-1] - listed[0] + 1 == len(listed):
        ends = np.array([[[int(listed[0])]], [[int(listed[-1]) + 1]]])
        return Boxes((counts.size,), ends[0], ends[1])
    return Weighted((counts.size,), [dict(zip(listed.tolist(), map(Fraction, own), strict=True))])
