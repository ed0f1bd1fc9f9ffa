"""A workload and its budget -> the measure, its statement and its price: by public facts only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

from pg_epsilon.accounting.curves import round_down
from pg_epsilon.choice_parts import Choice, check_bound
from pg_epsilon.errors import OUT_OF_RANGE, SHAPE, UNDECLARED, DPError
from pg_epsilon.mechanisms.estimators import UNKNOWN, Bar, Joint, Number
from pg_epsilon.mechanisms.group_by import Measure
from pg_epsilon.mechanisms.matrix.lattice import ROOM, few_bits
from pg_epsilon.query.request import Request
from pg_epsilon.query.statistics import OWNERS, Statistic
from pg_epsilon.workload import shown
from pg_epsilon.workload.ask import MAX_CELLS, Workload
from pg_epsilon.workload.batch import Batch, read, read_all
from pg_epsilon.workload.designs import variance
from pg_epsilon.workload.nested import Totals, nested
from pg_epsilon.workload.statement import edges_of, statement
from pg_epsilon.workload.thresholds import threshold

MOST_TOGETHER = 50_000  # sums of all groups of a block: each takes longer to show than one with noise of its own
MOST_TRIED = 64  # thetas at which a method is tried before the charge
SCALES = (17 << ROOM) // 16  # divided by the declared rows: above what any strategy's sensitivity is on the lattice
UNDECLARED_ROWS = 2**30  # what the lattice has room for where max_rows is not declared


@dataclass(frozen=True)
class Batched(Joint):
    """The estimator of a workload: its rows are shown by shown.py; as a single value, theta."""

    measure: Batch

    @property
    def measures(self) -> tuple[Measure, ...]:
        return (self.measure,)

    @property
    def mechanism(self) -> str:
        kind = self.measure.threshold.kind
        cut = "" if kind == "none" else f", theta {kind}"
        return f"matrix mechanism ({'discrete Gaussian' if self.measure.gaussian else 'discrete Laplace'}{cut})"

    def present(self, raw: Sequence[int]) -> str | None:
        return str(raw[0])

    def bars(self, raw: Sequence[int], confidence: Decimal) -> Bar:
        return UNKNOWN

    def margin(self, confidence: Decimal) -> None:
        return None

    def expected_error(self) -> None:
        return None

    def texts(self, raw: Sequence[int], first: Sequence[int]) -> list[str | None]:
        """The sum of every query (estimators.Joint): where a block's sums are answered together."""
        return [_text_of(row[3]) for row in self._rows(raw, first, Decimal("0.95"))]

    def all_bars(self, raw: Sequence[int], first: Sequence[int], confidence: Decimal) -> list[Bar]:
        """(low, high, standard error) of every query's sum."""
        rows = self._rows(raw, first, confidence)
        return [(_text_of(row[7]), _text_of(row[8]), _text_of(row[6])) for row in rows]

    def _rows(self, raw: Sequence[int], first: Sequence[int], confidence: Decimal) -> list[list[str | int | None]]:
        """The rows of one group, which is the first one where both are the same object or equal."""
        drawn = read(first, self.measure)
        group = drawn if raw == first else replace(drawn, answers=tuple(raw[1:]))
        return shown.rows_of([group], self.measure, confidence)[0]


def choose(request: Request, workload: Workload, only: str | None = None) -> Choice:
    """The one choice of a workload; only: a further condition on rows.

    DP004 without a cap on a user's rows, DP005 for a budget that does not fit.
    """
    users, units = request.source.has_user_units, _units(request, workload)
    measure = _measure(request, workload, units)
    ways = measure.threshold
    warnings = [f"at most {units} rows of each unit are summed (bias unknown)"] if users and units else []
    if workload.per == "user":
        warnings = [f"each unit's total is cut at {float(workload.lattice.high * workload.lattice.step):g}"]
    return Choice(
        Batched(measure),
        (Statistic(OWNERS),),  # one text
        warnings=tuple(warnings),
        statement=statement(workload, request.source, edges_of(workload, ways.grid), only, request.keys),
    )


def _measure(request: Request, workload: Workload, units: int) -> Batch:
    """What is drawn; DP005 where its scales do not exist."""
    first, epsilon, rho = _split(request, workload)
    ways = threshold(workload.options, workload.largest, workload.lattice.step, units, first)
    rows = max((p.max_rows or UNDECLARED_ROWS for p in request.source.relations), default=UNDECLARED_ROWS)
    kind = Totals if workload.per == "total" else Batch
    measure = kind(workload, ways, units, rows, epsilon, rho, request.cells)
    _check(measure)
    return measure


def _units(request: Request, workload: Workload) -> int:
    """How many values of one unit count, over all groups (composition.md §2.4: users stand in several groups).

    DP003 where a value has several units or none, DP004 without a cap on a user's rows.
    """
    source = request.source
    if workload.per == "user" and not source.has_user_units:
        raise DPError(SHAPE, "per => 'user' needs a dataset whose unit is a user", "per => 'row'")
    if not source.has_user_units:
        return 1
    if source.unit is None:
        raise DPError(SHAPE, "a result row has several users", "Join along the foreign keys of one user, or use R2T.")
    if source.kappa is None:
        raise DPError(
            UNDECLARED,
            f"how many rows one user of {request.policy.relation.qualified} may own is not declared",
            "The owner protects it with max_rows_per_unit.",
        )
    return source.kappa if workload.per == "row" else min(source.kappa, request.cells)


def _text_of(value: str | int | None) -> str | None:
    return None if value is None else str(value)


def together(request: Request, workload: Workload, separate: Sequence[Choice]) -> Choice | None:
    """One release for a block's sums, if no sum is expected to be further off than by itself; else None.

    Decided by public facts: the root mean square of each sum's error, with the whole budget for one strategy, against
    that with an equal share for each different sum. Only where the mechanism was left to `auto`. separate: of each
    query the choice by itself, whose sums have the same meaning: rows capped alike, or totals clamped alike.
    """
    alone = [choice.estimator for choice in separate]
    if request.mechanism != "auto" or request.budget.kind not in ("epsilon", "rho"):
        return None
    if not all(isinstance(one, Number) for one in alone) or request.cells * len(workload.rows) > MOST_TOGETHER:
        return None
    try:
        choice = _alike(request, workload, separate)
    except DPError:  # no room on the lattice for one release: the sums by themselves may have it
        return None
    measure = None if choice is None else choice.estimator.measures[0]
    if choice is None or not isinstance(measure, Batch):
        return None
    design = measure.best(measure.threshold.grid[-1])
    largest = min(one.measure.deviation() for one in alone if isinstance(one, Number))
    wide = variance(measure.amount, gaussian=measure.gaussian)
    own = float(measure.drawn_factors(design).max() * wide) ** 0.5 * measure.spread
    if own > largest:
        return None
    step = float(workload.lattice.step)
    both = (("together", own), ("each by itself", largest))
    candidates = tuple((name, Fraction(round(error * step * 1000), 1000)) for name, error in both)
    return replace(choice, candidates=candidates, why="no sum is expected to be further off than by itself")


def _alike(request: Request, workload: Workload, separate: Sequence[Choice]) -> Choice | None:
    """One release whose sums mean what they mean by themselves (composition.md §2.3), or None.

    Of users, by themselves: rows beyond the cap are dropped where there are groups, or aggregates beside that need it;
    else each sum's total of a user is clamped.
    """
    reads = [read for choice in separate for read in choice.statistics]
    if request.source.has_user_units and not all(read.by_rows for read in reads):
        found = nested(workload, reads)
        if found is None:
            return None
        whole, read = found
        return Choice(Batched(_measure(request, whole, 1)), read)
    filters = [a.filter for a in request.aggregates]
    # A value beyond the declared bounds is clamped for the sum, and told by the filters as it is.
    only = " OR ".join(f"({one})" for one in dict.fromkeys(filters)) if all(filters) else None
    return choose(request, workload, only)


def _split(request: Request, workload: Workload) -> tuple[Decimal | None, Decimal | None, Decimal | None]:
    """(epsilon of theta, epsilon of the answers, rho of the answers): what a threshold costs comes off.

    Source: sum-workloads.md §11, §0.
    """
    budget, part = request.budget, Fraction(workload.options.rho_split)
    if budget.epsilon is not None:
        if not workload.options.is_private:
            return None, budget.epsilon, None
        first = round_down(Fraction(budget.epsilon) * part)
        return first, budget.epsilon - first, None
    if budget.rho is None:
        raise DPError(OUT_OF_RANGE, "a workload takes epsilon or rho", "dp_sum_workload(..., epsilon => 1)")
    if not workload.options.is_private:
        return None, None, budget.rho
    spent = round_down(Fraction(budget.rho) * part)
    factor = 8 if workload.options.theta == "exponential" else 2
    root = round_down(Fraction(math.isqrt(int(factor * spent * 10**36)), 10**18))
    return root, None, budget.rho - spent


def _check(measure: Batch) -> None:
    """Before anything is charged DP005 for scales that do not exist, and for a method that does not survive being
    rounded to the lattice, at every theta that may be drawn (sum-workloads.md §0)."""
    grid = tuple(dict.fromkeys(measure.threshold.grid))
    for theta in dict.fromkeys((grid[-1], grid[0])):
        check_bound(measure.best(theta).on_lattice(measure.most_rows).l1 * measure.units)
    check_bound(measure.workload.largest * measure.units)
    if len(grid) > 2 and few_bits(measure.best(grid[-1]).on_lattice(measure.most_rows)):
        _check_between(measure, grid[1:-1])
    size = measure.groups * (len(measure.workload.rows) + 2 * measure.workload.blocks)
    if measure.groups > 1 and size > MAX_CELLS:
        raise DPError(
            OUT_OF_RANGE,
            f"more than {MAX_CELLS} cells of groups by queries and buckets",
            "Ask fewer queries at once, or group by fewer keys.",
        )


def _check_between(measure: Batch, grid: Sequence[int]) -> None:
    """The same between the ends, where the largest theta leaves few bits; at smaller ones entries are no smaller."""
    check_bound(SCALES // measure.most_rows * measure.units)
    options = measure.workload.options
    if options.method == "identity" or (options.method == options.strategy == "auto"):
        return  # identity survives always, and is what auto falls back on
    if len(grid) > MOST_TRIED:
        raise DPError(
            OUT_OF_RANGE,
            f"theta may have {len(grid)} values here, at each of which the method would have to fit the lattice",
            "Leave method and strategy to auto, choose theta by svt or exponential, or use a coarser resolution.",
        )
    for theta in grid:
        measure.best(theta).on_lattice(measure.most_rows)


def document(
    raws: Sequence[Sequence[int]],
    measure: Measure,
    confidence: Decimal,
    groups: Sequence[Sequence[str | None]],
    *,
    errors: bool = False,
) -> dict[str, Any]:
    """The member "workload" of an answer: the rows of every group, its keys behind; each method's predicted errors,
    which take as long as finding the strategy did, where they are asked for."""
    if not isinstance(measure, Batch):
        raise ValueError("not a workload")
    drawn = read_all(raws, measure)
    found = shown.rows_of(drawn, measure, confidence)
    rows = [[*row, *group] for group, rows in zip(groups, found, strict=True) for row in rows]
    return {"rows": rows, **({"errors": shown.errors(measure, drawn[0].theta)} if errors else {})}


def is_of_rows(measure: Measure) -> bool:
    """Whether each row is a value, of which a user's first ones count."""
    return isinstance(measure, Batch) and measure.workload.per == "row"


def told(measure: Measure, raw: Sequence[int] | None) -> tuple[dict[str, Any], str]:
    """(Facts, one sentence for the NOTICE) of a workload: of the drawn theta, or beforehand of the largest one."""
    if not isinstance(measure, Batch):
        raise ValueError("not a workload")
    if raw is None:
        found = shown.facts(measure, measure.threshold.grid[-1], None)
    else:
        drawn = read(raw, measure)
        found = shown.facts(measure, drawn.theta, drawn.name)
    words = f"theta {found['theta']:g} ({found['theta_by']}), {found['strategy']}"
    ordered = ", isotonic: low and high of all queries hold at once" if found["isotonic"] else ""
    return found, f"{words}, expected RMSE {found['expected_rmse']:g}{ordered}"
