"""One query of a family that Algorithm 2 released, from what is stored of it. Post-processing.

Of dp.family's facts the member "weights" says how the released integers are read, so that a
question is answered whatever the session; the answer is the one that dp_release_numeric gave, bar
for bar at the asker's confidence.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from pg_epsilon.release import ask
from pg_epsilon.release.answers import Answer
from pg_epsilon.release.candidates import Family
from pg_epsilon.release.decompose import Measure
from pg_epsilon.release.iterated import HEAD, Iterated
from pg_epsilon.release.predicates import Boxes, Weighted
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
        "share": str(asked.options.share),
    }


def recalled(stored: Mapping[str, Any], raw: npt.NDArray[np.int64], bits: npt.NDArray[np.bool_], miss: float) -> Answer:
    """The answer of the query that reads the classes of `bits`, over the family's axes.

    raw: as it was released. miss: of all bars of the family's grid together. The query has to be
    one of the grid: alpha~ says nothing of others.
    """
    low, high = map(Fraction, stored["bounds"])
    measure = Measure(
        stored["decomposition"],
        high,
        low,
        Fraction(stored["base"]),
        tuple(map(Fraction, stored["values"])),
    )
    family = Family(measure, _predicate(bits))
    places, epsilon = int(stored["places"]), Fraction(stored["epsilon"])
    worst, moved = int(raw[2]), int(stored["sensitivity"])
    found = answer_all(
        family,
        np.append(raw[HEAD:], 0),
        alpha_of(worst, family, moved, epsilon, places),
        Rounding(places, int(stored["rows"])),
        share=Fraction(stored["share"]),
        sure=alpha_of(worst, family, moved, epsilon, places, Fraction(miss)),
    )
    value, below = float(found.answer[0]), bool(found.below_resolution[0])
    return Answer(value, value, float(found.low[0]), float(found.high[0]), below)


def _predicate(bits: npt.NDArray[np.bool_]) -> Boxes | Weighted:
    """The one query; its classes are flat, which changes no sum over them."""
    listed = np.flatnonzero(bits)
    if len(listed) and listed[-1] - listed[0] + 1 == len(listed):
        ends = np.array([[[int(listed[0])]], [[int(listed[-1]) + 1]]])
        return Boxes((bits.size,), ends[0], ends[1])
    return Weighted((bits.size,), [dict.fromkeys(listed.tolist(), Fraction(1))])
