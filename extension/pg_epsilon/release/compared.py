"""What each mechanism that could release a family is off by (dp_plan; numeric-release.md §0.0).

Public facts alone: the declared values and bounds, the grid, and the budget. Of mechanisms whose
error depends on the data nothing is said but how many rounds they may take.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pg_epsilon.errors import DPError
from pg_epsilon.query.request import Request
from pg_epsilon.release.answers import Z, sums_of, weighing
from pg_epsilon.release.ask import ALG2, RANGE, Family, Options
from pg_epsilon.release.automatic import declared_rows, kappa_of, resolution_of_weights
from pg_epsilon.release.cells import Cells
from pg_epsilon.release.choice import WAYS, choose, masks_of, noise_of
from pg_epsilon.release.fitted import Fitted
from pg_epsilon.release.iterated import Iterated
from pg_epsilon.release.layout import trees_for
from pg_epsilon.release.ranges import counts
from pg_epsilon.release.singly import Singly

MOST = 2_000_000  # queries times classes: beyond them a plan would wait for what nobody asked for


def compared(request: Request, family: Family) -> dict[str, dict[str, Any]]:
    """Mechanism → what is known of it; nothing of a family larger than MOST.

    rmse: of the widest query, as it is drawn: of cells that of `unbiased`, of composition where
    nothing is cut; None: it depends on the data. resolution: rows of that query, so many of which
    may be noise alone; of alg2 as predicted. at_most: an error that none exceeds. rounds: at most.
    integers: how many are released. refused: why it is none.
    """
    if len(family.grid) * family.classes > MOST:
        return {}
    found = {name: _one(request, family, name, family.options.rows) for name in ("cells", *WAYS, RANGE)}
    return {**found, "zero": _of_zero(request, family)}


def _one(request: Request, family: Family, name: str, expected: int | None) -> dict[str, Any]:
    try:
        trees = trees_for(family.axes, family.masks, gaussian=request.budget.kind == "rho") if name == RANGE else ()
        family = replace(family, mechanism=name, options=Options(), published=None, trees=trees, strategy=None)
        choice = choose(request, family)
    except DPError as refused:
        return {"refused": refused.message}
    (measure,) = choice.estimator.measures
    found: dict[str, Any] = {"integers": measure.released}
    if isinstance(measure, Cells):
        return {**found, **_of_cells(measure, family)}
    if isinstance(measure, Singly):
        return {**found, "rmse": _rounded(measure.draw.deviation)}
    own = measure.own if isinstance(measure, Fitted) else measure
    if not isinstance(own, Iterated):
        return found
    found |= {"rmse": None, "rounds": min(own.algorithm.plan.most, own.algorithm.family.count)}
    if name != ALG2 or request.budget.epsilon is None:
        return found
    kappa = kappa_of(request.source) or 1
    rows = declared_rows(request.source) if expected is None else expected
    return {**found, "resolution": _rounded(resolution_of_weights(float(request.budget.epsilon), kappa, rows))}


def _of_zero(request: Request, family: Family) -> dict[str, Any]:
    """What 0 for every answer is off by, at most, of as many rows as are expected, or declared."""
    lattice = family.aggregate.lattice
    largest = 1.0 if lattice is None else float(max(-lattice.low, lattice.high, 0) * lattice.step)
    rows = declared_rows(request.source) if family.options.rows is None else family.options.rows
    of_sum = rows and not (family.average or family.spread)
    return {"integers": 0, "rmse": None, **({"at_most": _rounded(rows * largest)} if of_sum else {})}


def _of_cells(measure: Cells, family: Family) -> dict[str, Any]:
    """Of `answer` the bias is not known: it is cut above a resolution of so many rows."""
    values, deviation = measure.values, noise_of(measure).deviation
    classes = widest(family)
    if family.average or family.spread:
        return {"rmse": None}
    if values is None or family.aggregate.function == "count":
        many = float(classes * measure.of_class)
        if family.weights is not None:
            many = float(weighted_squares(measure, family).sum(axis=1).max())
        return {"rmse": _rounded(deviation * math.sqrt(many))}
    own, there = measure.squares(), measure.there
    if family.weights is not None:
        sums, steps = weighted_squares(measure, family), np.array([float(one) for one in values.steps])
        valued = sums[:, : steps.size]
        squares = float((valued @ np.square(steps)).max())
        many = max(float(valued[:, sign * steps > 0].sum(axis=1).max()) for sign in (1, -1))
    elif there is None:
        squares, many = classes * float(own[0]), classes * max(len(values.steps) - 1 - values.zero, values.zero)
    else:
        read = bits_of(max(family.sets.different, key=lambda one: math.prod(mask.count("1") for mask in one)))
        sides = there[read, values.zero + 1 : len(values.steps)], there[read, : values.zero]
        squares, many = float(own[read].sum()), max(int(one.sum()) for one in sides)
    return {
        "rmse": _rounded(deviation * math.sqrt(squares)),
        "resolution": _rounded(Z * deviation * math.sqrt(many)),
    }


def weighted_squares(measure: Cells, family: Family) -> npt.NDArray[np.float64]:
    """[query, cell]: the squares of the weights of the classes that it reads and that have the cell, added up."""
    there = np.ones((family.classes, measure.of_class)) if measure.there is None else measure.there
    bits = [np.array([[float(bit) for bit in mask] for mask in one.different]) for one in family.masks]
    of = [np.array(one.of, np.int64) for one in family.masks]
    return sums_of(
        there.astype(np.float64), bits, of, weighing(family.weights, [axis.size for axis in family.axes], 2)
    ).cells


def bits_of(masks: Sequence[str]) -> npt.NDArray[np.bool_]:
    """[class]: which of them the masks of all axes hold."""
    found = np.ones(1, bool)
    for mask in masks:
        found = np.logical_and.outer(found, np.frombuffer(mask.encode(), np.uint8) == ord("1")).ravel()
    return found


def widest(family: Family) -> int:
    """How many classes, or nodes of ranges, the query with most of them reads."""
    if family.trees:
        return int(counts(family.trees, *masks_of(family)).max())
    return max(math.prod(mask.count("1") for mask in one) for one in family.sets.different)


def sentences(found: dict[str, dict[str, Any]]) -> list[str]:
    """For people, of those whose error is known; none of one alone."""
    known = [f"{name} {one['rmse']:g}" for name, one in found.items() if one.get("rmse") is not None]
    return [f"RMSE of the widest query where nothing is cut: {', '.join(known)}"] if len(known) > 1 else []


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
