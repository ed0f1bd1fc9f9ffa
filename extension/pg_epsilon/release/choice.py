"""A family and its budget → the measure, its statement and its price; what was drawn → rows. Public facts only."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from pg_epsilon.choice_parts import Choice, Share
from pg_epsilon.errors import OUT_OF_RANGE, UNDECLARED, DPError
from pg_epsilon.mechanisms.group_by import Measure
from pg_epsilon.query.request import Request
from pg_epsilon.query.statistics import OWNERS, Statistic
from pg_epsilon.release import fitted, iterated, ranges, singly, strategic
from pg_epsilon.release.answers import Answer, Noise, Sums, counted, summed, sums_of, weighed_sums_of, weighing
from pg_epsilon.release.ask import ALG2, BITS, COMPOSITION, GLOBAL, NORMALISATION, Family
from pg_epsilon.release.averages import averages
from pg_epsilon.release.cells import Cells
from pg_epsilon.release.estimator import Released
from pg_epsilon.release.masses import Points, Values
from pg_epsilon.release.measures import Measured
from pg_epsilon.release.shown import description
from pg_epsilon.release.spreads import MOST_VALUES, spreads, too_many
from pg_epsilon.release.statement import statement
from pg_epsilon.release.stepped import Stepped
from pg_epsilon.release.trees import levels_of, nodes_of

MOST_CELLS = 4_000_000
MOST_AVERAGES = 1_000
MOST_WEIGHED = 2_000  # queries with weights by cells, whose bars take some milliseconds each
MOST_FACTORS = 2**30  # the same times cells
MOST_POINTS = 100_000  # values that have cells of their own, for weights
MOST_WORK = 2**36  # queries times cells
MOST_READ = 2**32  # the same where each query reads cells of its own
UNDECLARED_ROWS = 2**30  # what a cell has room for where max_rows is not declared


class Way(Protocol):
    """A mechanism that answers its grid alone: a module with these functions of its own measure `how`."""

    def of_family(self, asked: Family, values: Values | None, epsilon: Fraction, units: int, rows: int) -> Any: ...
    def rows(self, raw: Sequence[int], how: Any, asked: Family, miss: Fraction) -> list[list[Any]]: ...
    def description(self, how: Any, asked: Family) -> dict[str, Any]: ...
    def told(self, how: Any, asked: Family, raw: Sequence[int] | None) -> tuple[dict[str, Any], str]: ...


WAYS: Mapping[str, tuple[str, Way]] = {
    ALG2: ("Algorithm 2", iterated),
    COMPOSITION: ("composition", singly),
    NORMALISATION: ("normalisation", fitted),
    GLOBAL: ("global truncation", fitted),
}
"""What refusals call it, and how it is made and read. Such mechanisms take epsilon, and have no averages."""


def choose(request: Request, family: Family) -> Choice:
    """The one choice of a family. DP004 without a cap on a user's rows, DP005 for too many cells or another budget."""
    budget, units = request.budget, _units(request)
    _check_averages(family)
    name, way = WAYS.get(family.mechanism, ("", None))
    if way is not None and budget.kind != "epsilon":
        raise DPError(OUT_OF_RANGE, f"{name} takes epsilon", "dp_release_numeric(..., epsilon => 1)")
    if budget.kind == "accuracy":
        raise DPError(OUT_OF_RANGE, "a release takes epsilon or rho", "dp_release_numeric(..., epsilon => 1)")
    rows = max((one.max_rows or UNDECLARED_ROWS for one in request.source.relations), default=UNDECLARED_ROWS)
    lattice = family.aggregate.lattice
    exact = family.is_exact or family.decomposition == BITS
    room = rows << family.strategy.room if family.strategy is not None else rows
    values = (Points if exact else Values).of(lattice, room) if lattice is not None else None
    of_class = values.cells if values is not None else 1
    _check_points(family, of_class)
    if values is not None and family.decomposition == BITS:
        _check_groups(family, of_class, rows)
        of_class = 1 + sum(one.length for one in (values.positive, values.negative) if one)
    _check_size(family, of_class)
    _check_work(family, of_class)
    measure: Measured
    if way is not None:
        measure = way.of_family(family, values, Fraction(budget.epsilon or 0), units, rows)
    else:
        share = Share(budget.kind, budget.rho or budget.epsilon or Decimal(0))
        whole = values.whole if values is not None else 1
        moved, (l1, l2_squared) = units * whole, norms_of(family)
        noise = share.additive(moved * l1, moved**2 * l2_squared)
        ends = None if family.trees or family.strategy or family.is_exact else family.ends
        measure = Cells(family.classes, values, noise, family.trees, ends, family.strategy)
    warnings = [f"at most {units} rows of each unit are in it"] if request.source.has_user_units else []
    keys = [axis.key for axis in family.axes]
    return Choice(
        Stepped(measure) if isinstance(measure, iterated.Iterated) else Released(measure),
        (Statistic(OWNERS),),  # one text
        warnings=tuple(warnings),
        statement=statement(request.source, keys, family.aggregate, values),
    )


def _check_averages(family: Family) -> None:
    """DP005 for averages that take too long after the charge, or of which nothing is known."""
    asked = "variances" if family.spread else "averages" if family.average else None
    if asked and family.mechanism in WAYS:
        words = f"{WAYS[family.mechanism][0]} has no {asked}"
        raise DPError(OUT_OF_RANGE, words, "Ask with mechanism => 'cells', or for a sum.")
    if family.strategy is not None and (asked or family.weights is not None):
        hint = "Leave out strategy, for ranges of trees, or ask with mechanism => 'cells'."
        raise DPError(OUT_OF_RANGE, f"a matrix strategy has no {asked or 'weighted queries'}", hint)
    if family.trees and (family.spread or family.weights is not None):
        words = f"range has no {asked or 'weighted queries'}"
        raise DPError(OUT_OF_RANGE, words, "Ask with mechanism => 'cells'.")
    if family.average and len(family.grid) > MOST_AVERAGES:
        raise DPError(
            OUT_OF_RANGE,
            f"more than {MOST_AVERAGES} averages in a family, whose bars take some milliseconds each",
            "Ask the grid in parts: after the first one they cost nothing.",
        )


def _check_points(family: Family, of_class: int) -> None:
    """DP005 where each value would have a cell, and they are too many, or bars of them take too long."""
    hint = "Use a coarser value, round(x / 10) * 10, or narrower bounds: least(greatest(x, 0), 100)."
    most = MOST_VALUES if family.spread else MOST_POINTS
    if family.is_exact and of_class > most:
        raise DPError(OUT_OF_RANGE, f"a value of {of_class} steps has more than {most} cells", hint)
    if family.spread and too_many(of_class, len(family.grid)):
        words = f"bars of {len(family.grid)} variances of a value of {of_class} steps take too long"
        raise DPError(OUT_OF_RANGE, words, f"Ask the grid in parts, which cost nothing after the first. {hint}")


def _check_groups(family: Family, of_class: int, rows: int) -> None:
    """DP005 where the statement's text could have too many groups of a class and a value."""
    if min(rows, family.classes * of_class) > MOST_CELLS:
        raise DPError(
            OUT_OF_RANGE,
            f"{family.classes} classes of {of_class} values, and up to {rows} rows, are more than {MOST_CELLS} groups",
            "Leave out decomposition, or use a coarser value: round(x / 10) * 10.",
        )


def _check_size(family: Family, of_class: int) -> None:
    many, words = family.classes, "classes"
    if family.trees:
        many, words = nodes_of(family.trees), f"nodes over {many} classes"
    if family.strategy is not None:
        many, words = family.strategy.rows, f"sums of {many} classes"
    if many * of_class > MOST_CELLS:
        raise DPError(
            OUT_OF_RANGE,
            f"{many} {words} of {of_class} cells each are more than {MOST_CELLS} cells",
            "Compare fewer columns with parameters, or ask the owner for coarser domains.",
        )


def _check_work(family: Family, of_class: int) -> None:
    """DP005 where adding up the answers, after the charge, would take longer than a minute."""
    many = len(family.grid)
    most = MOST_WEIGHED if family.mechanism not in WAYS else many
    if family.weights is not None and (many > most or many * family.classes * of_class > MOST_FACTORS):
        raise DPError(
            OUT_OF_RANGE,
            f"{many} weighted queries of {family.classes} classes with {of_class} cells are too many to add up",
            "Ask the grid in parts: after the first one they cost nothing.",
        )
    if family.strategy is not None:
        strategic.check_work(family, of_class)
        return
    if family.trees:
        read = int(ranges.counts(family.trees, *masks_of(family)).sum())
        work, words = read * (MOST_WORK // MOST_READ), f"{read} nodes"
    else:
        work, words = len(family.grid) * family.classes, f"{family.classes} classes"
    if work * of_class > MOST_WORK:
        raise DPError(
            OUT_OF_RANGE,
            f"{len(family.grid)} queries of {words} with {of_class} cells are too many to add up",
            "Ask the grid in parts: after the first one they cost nothing.",
        )


def norms_of(family: Family) -> tuple[int, int]:
    """How far one unit of mass moves all cells together: in L1, and the square of it in L2."""
    if family.strategy is not None:
        return family.strategy.l1, family.strategy.l2_squared
    levels = levels_of(family.trees)
    return levels, levels


def _units(request: Request) -> int:
    """How many rows of one unit count."""
    if not request.source.has_user_units:
        return 1
    if request.source.kappa is None:
        raise DPError(
            UNDECLARED,
            f"how many rows one user of {request.policy.relation.qualified} may own is not declared",
            "The owner protects it with max_rows_per_unit.",
        )
    return request.source.kappa


def rows(raw: Sequence[int], measure: Measure, family: Family, confidence: Decimal) -> list[list[Any]]:
    """Of each query of the grid, in its order: parameters, answer, unbiased, low, high, below_resolution."""
    if family.mechanism in WAYS:
        found = WAYS[family.mechanism][1].rows(raw, measure, family, 1 - Fraction(confidence))
    elif isinstance(measure, Cells):
        miss = float(1 - confidence) / (len(family.grid) if family.simultaneous else 1)
        found = [_shown(one) for one in answers(raw, measure, family, miss)]
    else:
        raise ValueError("not a release")
    return [[_array(asked), *one] for asked, one in zip(family.grid, found, strict=True)]


def answers(raw: Sequence[int], measure: Cells, family: Family, miss: float) -> list[Answer | None]:
    """The answer of each query, None of an average of no class; miss: of each one's bar."""
    values, noise = measure.values, noise_of(measure)
    own = np.array([int(one) for one in raw], np.float64)
    sums = _sums(own if values is None else own * noise.grain, measure, family)
    if values is None:
        return list(counted(sums, noise, miss))
    if family.aggregate.function == "count":
        return list(counted(sums, noise, miss))
    steps = [float(one) for one in values.steps]
    valued = sums.part(slice(len(steps)))
    lattice = family.aggregate.lattice
    if lattice is not None and (family.average or family.spread):
        ends = float(lattice.low * lattice.step), float(lattice.high * lattice.step)
        if family.spread:
            return list(spreads(valued, np.array(steps), noise, miss, ends, family.spread))
        return list(averages(valued, np.array(steps), noise, miss, ends))
    return list(summed(valued, steps, noise, miss))


def _sums(raw: ranges.Array, measure: Cells, family: Family) -> Sums:
    """Of each query the cells of its classes, or of its nodes, or what follows from a strategy's sums."""
    if measure.strategy is not None:
        return measure.strategy.sums_of(raw.reshape(-1, measure.of_class), *masks_of(family))
    if measure.trees:
        return ranges.sums_of(raw.reshape(-1, measure.of_class), measure.trees, *masks_of(family))
    sizes = [axis.size for axis in family.axes]
    masks = [np.array([[float(bit) for bit in mask] for mask in one.different]) for one in family.masks]
    of = [np.array(one.of, np.int64) for one in family.masks]
    if family.weights is not None:
        return weighed_sums_of(raw, masks, of, weighing(family.weights, sizes), measure.there)
    found = sums_of(raw.reshape(*sizes, measure.of_class), masks, of)
    if measure.there is None:
        return found
    times = sums_of(measure.there.astype(np.float64).reshape(*sizes, measure.of_class), masks, of)
    return replace(found, times=times.cells)


def masks_of(family: Family) -> tuple[list[Sequence[str]], ranges.Ints]:
    """The different masks of each axis, and the number of each query's."""
    return [one.different for one in family.masks], np.array([one.of for one in family.masks], np.int64)


def stored(measure: Measure, family: Family) -> dict[str, Any]:
    """What is stored beside the integers, for the weighted table (shown.py)."""
    if family.mechanism in WAYS:
        return WAYS[family.mechanism][1].description(measure, family)
    if not isinstance(measure, Cells):
        raise ValueError("not a release")
    return {"mechanism": family.mechanism} if measure.trees or measure.strategy else description(measure, family)


def noise_of(measure: Cells) -> Noise:
    """The noise of each cell, in rows."""
    grain = 1.0 / measure.values.whole if measure.values is not None else 1.0
    own = measure.noise
    if own.rho is not None:
        return Noise(math.sqrt(own.l2_squared / (2 * float(own.rho))) * grain, True, grain)
    return Noise(own.l1 / float(own.epsilon or 1) * grain, False, grain)


def told(measure: Measure, family: Family, raw: Sequence[int] | None) -> tuple[dict[str, Any], str]:
    """(Facts, a sentence for the NOTICE) of a release; raw: None beforehand.

    Facts are stored with it: of cells none is of a grid.
    """
    if family.mechanism in WAYS:
        facts, text = WAYS[family.mechanism][1].told(measure, family, raw)
        idle = family.delta and not any(one.kind == "advanced" for one in measure.charges())
        return facts, text + ("; delta is not spent: it buys nothing for so few steps" if idle else "")
    if not isinstance(measure, Cells):
        raise ValueError("not a release")
    deviation, squares = noise_of(measure).deviation, measure.squares()
    of_class = deviation * math.sqrt(squares.max())
    if measure.strategy is not None:
        gaussian, beforehand = measure.noise.rho is not None, raw is None
        return strategic.told(
            measure.strategy, family, measure.released, of_class, gaussian=gaussian, beforehand=beforehand
        )
    if measure.trees:
        return _told_of_ranges(measure, family, of_class, raw is None)
    most = math.prod(max(mask.count("1") for mask in one.different) for one in family.masks)
    of_most = deviation * math.sqrt(np.sort(squares)[squares.size - most :].sum())
    found = {"classes": family.classes, "cells": measure.drawn, "class_rmse": float(f"{of_class:.4g}")}
    bars = "all bars hold at once" if family.simultaneous else "each bar holds by itself"
    words = (
        f"{family.name}: {len(family.grid)} queries from {measure.drawn} cells of {family.classes} classes",
        f"expected RMSE of {'their sums' if family.average or family.spread else 'unbiased'} at most {of_most:.4g}",
        bars,
        "rows of no declared class are in none",
    )
    return found, "; ".join(words)


def _told_of_ranges(measure: Cells, family: Family, of_node: float, beforehand: bool) -> tuple[dict[str, Any], str]:
    """The same of a release by ranges. of_node: the expected error of one node's sum.

    beforehand: what is said of the grid is not stored, hence in the facts too.
    """
    levels = [[tree.size(level) for level in range(tree.levels)] for tree in measure.trees]
    nodes = nodes_of(measure.trees)
    found = {
        "classes": family.classes,
        "nodes": nodes,
        "cells": measure.released,
        "levels": levels,
        "node_rmse": float(f"{of_node:.4g}"),
    }
    most = math.prod(max(mask.count("1") for mask in one.different) for one in family.masks)
    read = int(ranges.counts(measure.trees, *masks_of(family)).max())
    worst, by_cells = of_node * math.sqrt(read), of_node / noise_factor(measure) * math.sqrt(most)
    if beforehand:
        found |= {"rmse": float(f"{worst:.4g}"), "cells_rmse": float(f"{by_cells:.4g}")}
    words = (
        f"{family.name}: {len(family.grid)} queries from {measure.released} cells of {nodes} ranges of"
        f" {' by '.join(', '.join(map(str, one)) for one in levels)} classes",
        f"expected RMSE of {'their sums' if family.average or family.spread else 'unbiased'} at most {worst:.4g},"
        f" where mechanism => 'cells' has {by_cells:.4g}",
        "all bars hold at once" if family.simultaneous else "each bar holds by itself",
        "rows of no declared class are in none",
    )
    return found, "; ".join(words)


def noise_factor(measure: Cells) -> float:
    """How much wider the noise of a node is than that of a class in a release by cells."""
    levels = levels_of(measure.trees)
    return math.sqrt(levels) if measure.noise.rho is not None else float(levels)


def _array(texts: Sequence[str]) -> str:
    """A text[] as PostgreSQL reads it."""
    escaped = (one.replace("\\", "\\\\").replace('"', '\\"') for one in texts)
    return "{" + ",".join(f'"{one}"' for one in escaped) + "}"


def _shown(one: Answer | None) -> list[Any]:
    if one is None:
        return [None, None, None, None, False]
    return [one.answer, one.unbiased, one.low, one.high, one.below_resolution]
