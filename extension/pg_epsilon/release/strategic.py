"""What is refused and told of a release by a matrix strategy (kronecker.py, layout.py).
Public facts only.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pg_epsilon.errors import OUT_OF_RANGE, DPError
from pg_epsilon.release import ranges
from pg_epsilon.release.ask import Family
from pg_epsilon.release.kronecker import Kronecker
from pg_epsilon.release.layout import trees_for
from pg_epsilon.release.trees import levels_of

MOST_SETS = 3_000  # queries, whose bars take some milliseconds each
MOST_FACTORS = 2**31  # the same times cells, of which WEIGHING are for the weights of their noise
WEIGHING = 8


def check_work(family: Family, of_class: int) -> None:
    """DP005 where answers and bars, after the charge, would take longer than a minute."""
    rows = family.strategy.rows if family.strategy is not None else 0
    many = len(family.grid)
    each = rows * (of_class + WEIGHING)
    if many > MOST_SETS or many * each > MOST_FACTORS:
        raise DPError(
            OUT_OF_RANGE,
            f"{many} queries of {rows} sums with {of_class} cells each are too many for a matrix strategy",
            f"Ask for fewer, at most {min(MOST_SETS, MOST_FACTORS // each)},"
            " or leave out strategy: ranges of trees take more.",
        )


def told(
    strategy: Kronecker,
    family: Family,
    cells: int,
    of_sum: float,
    *,
    gaussian: bool,
    beforehand: bool,
) -> tuple[dict[str, Any], str]:
    """(Facts, a sentence for the NOTICE).

    cells: all that are released. of_sum: the expected error of one sum. beforehand: what is said
    of the grid is not stored, hence in the facts too.
    """
    masks = [one.different for one in family.masks]
    of = np.array([one.of for one in family.masks], np.int64)
    of_class = of_sum / strategy.norm(gaussian=gaussian)
    classes = math.prod(max(mask.count("1") for mask in own) for own in masks)
    own = of_sum * math.sqrt(float(strategy.squares(masks, of).max(initial=0.0)))
    errors = {"rmse": own, "cells_rmse": of_class * math.sqrt(classes)}
    beside = f"where mechanism => 'cells' has {errors['cells_rmse']:.4g}"
    try:
        trees = trees_for(family.axes, family.masks, gaussian=gaussian)
    except DPError:  # not all of them are ranges
        trees = ()
    if trees:
        levels, read = levels_of(trees), int(ranges.counts(trees, masks, of).max())
        wider = math.sqrt(levels) if gaussian else levels
        errors["trees_rmse"] = of_class * wider * math.sqrt(read)
        beside += f", and trees have {errors['trees_rmse']:.4g}"
    found: dict[str, Any] = {
        "classes": family.classes,
        "strategy": strategy.name,
        "sums": strategy.rows,
        "cells": cells,
    }
    if beforehand:
        found |= {name: float(f"{one:.4g}") for name, one in errors.items()}
    words = (
        f"{family.name}: {len(family.grid)} queries from {cells} cells of {strategy.rows} sums of {family.classes}"
        f" classes ({strategy.name})",
        f"expected RMSE of unbiased at most {own:.4g}, {beside}",
        "all bars hold at once" if family.simultaneous else "each bar holds by itself",
        "rows of no declared class are in none",
    )
    return found, "; ".join(words)
